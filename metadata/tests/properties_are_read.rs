//! What the table calls served is read by code: a property cannot be promised and forgotten.

use std::path::{Path, PathBuf};

use weir_metadata::properties::{Handling, Scope, properties};

/// All source text of the crates that read properties, but for the list of keys.
fn sources() -> (String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut waiting: Vec<PathBuf> =
        ["metadata/src", "broker/src", "weir/src"].map(|dir| root.join(dir)).into_iter().collect();
    let (mut keys, mut rest) = (String::new(), String::new());
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.ends_with("properties/keys.rs") {
                keys = std::fs::read_to_string(path).unwrap();
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                rest.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    (keys, rest)
}

/// Name and property of every key.
fn keys(text: &str) -> Vec<(&str, &str)> {
    fn row(line: &str) -> Option<(&str, &str)> {
        let (name, rest) = line.trim().split_once(": ")?;
        let property = rest.split_once("= \"")?.1.strip_suffix("\";")?;
        Some((name, property))
    }
    text.lines().filter_map(row).collect()
}

#[test]
fn every_key_is_read() {
    let (text, rest) = sources();
    let keys = keys(&text);
    assert!(keys.len() > 50, "{keys:?}");
    for (key, property) in keys {
        assert!(rest.contains(&format!("keys::{key}")), "{property}: nothing reads keys::{key}");
    }
}

#[test]
fn every_served_property_is_read_by_its_key_or_name_or_as_the_default_of_a_topic_config() {
    let (text, rest) = sources();
    let keys = keys(&text);
    let of_topics = |name: &str| {
        properties().iter().any(|row| row.handling == Handling::Served && row.broker_names.contains(&name))
    };
    for row in properties().iter().filter(|row| row.handling == Handling::Served) {
        let is_read = match row.scope {
            Scope::Broker => {
                keys.iter().any(|(_, property)| *property == row.name)
                    || of_topics(row.name)
                    || rest.contains(&format!("\"{}\"", row.name))
            }
            _ => rest.contains(&format!("\"{}\"", row.name)),
        };
        assert!(is_read, "{} is said to be served, and nothing reads it", row.name);
    }
}
