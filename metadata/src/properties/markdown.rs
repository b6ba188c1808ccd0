//! The property table as a page of Markdown: `docs/properties.md`, written by `cargo xtask docs`.
//!
//! Method: what is served comes first, row by row with its meaning; what is not is grouped by the sentence that says
//! what became of it.

use std::fmt::Write;

use super::table::{Change, Handling, Property, Scope, properties};
use super::value::{PropertyType, Range};

const HEAD: &str = "\
# Properties

Generated from the property table (`metadata/src/properties/table`) by `cargo xtask docs`; a test holds it to the table.

`weir server FILE` takes Kafka's `server.properties` as they are. Every property of Kafka 3.9 and 4.x is known. One that
does not fit its type or range keeps the server from starting, with the value and the limit; so does one that asks for
what is not served and would matter: a TLS or SASL listener, an authorizer, a quorum of several controllers, a
ZooKeeper on other machines (one on this machine, as the file of 3.9 names it, is not asked, and the start warns of it),
remote storage, config providers. Everything else is accepted, and the start says what became of it. An unknown name is a
warning that names the nearest known one.

Sizes also take `KiB`, `MiB`, `GiB` and `TiB`. `--override name=value` wins over the file. A single node keeps one
replica of everything: replication factors above 1 in the file become 1, `min.insync.replicas` counts at most the one
replica that there is, and the start says so.

**Change** is how a value changes while the server runs: `restart`: not at all; `broker`: for one broker; `cluster`: for one
broker or for all, with `kafka-configs --alter` or IncrementalAlterConfigs; `any`: where it is set. A value that the memory
plan has no room for is refused. Where a default is empty the property has no value until it is set.
";

/// The whole page.
pub fn to_markdown() -> String {
    let mut page = HEAD.to_owned();
    let broker = |own: bool| move |row: &&Property| row.scope == Scope::Broker && row.own == own;
    section(&mut page, "weir's own", &properties().iter().filter(broker(true)).collect::<Vec<_>>());
    let kafkas: Vec<&Property> = properties().iter().filter(broker(false)).collect();
    let of = |handling| kafkas.iter().copied().filter(|row| row.handling == handling).collect::<Vec<_>>();
    section(&mut page, "Broker: served", &of(Handling::Served));
    section(&mut page, "Broker: something else does its work", &of(Handling::Replaced));
    for (scope, title) in [
        (Scope::Topic, "Topics"),
        (Scope::Group, "Groups"),
        (Scope::ClientMetrics, "Client metrics subscriptions"),
    ] {
        section(&mut page, title, &properties().iter().filter(|row| row.scope == scope).collect::<Vec<_>>());
    }
    grouped(&mut page, "Broker: accepted, not served yet", &of(Handling::Later));
    grouped(&mut page, "Broker: accepted without effect", &of(Handling::Nothing));
    page
}

fn section(page: &mut String, title: &str, rows: &[&Property]) {
    let _ = writeln!(page, "\n## {title}\n");
    page.push_str("| Property | Type | Default | Range | Change | What it means here | Memory |\n|---|---|---|---|---|---|---|\n");
    for row in rows {
        let memory = row.memory.unwrap_or_default();
        let meaning = match row.handling {
            Handling::Served | Handling::Replaced => row.text.to_owned(),
            Handling::Later | Handling::Nothing => format!("*no effect:* {}", row.text),
        };
        let _ = writeln!(page, "{} {} | {memory} |", cells(row), escaped(&meaning));
    }
}

fn grouped(page: &mut String, title: &str, rows: &[&Property]) {
    let _ = writeln!(page, "\n## {title}");
    let mut texts: Vec<&str> = Vec::new();
    for row in rows {
        if !texts.contains(&row.text) {
            texts.push(row.text);
        }
    }
    for text in texts {
        let _ = writeln!(page, "\n{}:\n", capitalised(text));
        page.push_str("| Property | Type | Default | Range | Change |\n|---|---|---|---|---|\n");
        for row in rows.iter().filter(|row| row.text == text) {
            let _ = writeln!(page, "{}", cells(row));
        }
    }
}

/// The first five cells, with the bar behind the last.
fn cells(row: &Property) -> String {
    let release = match (row.only_before_4, row.since_4) {
        (true, _) => " (3.9)",
        (_, true) => " (4.x)",
        _ => "",
    };
    let default = match row.default {
        None => String::new(),
        Some("") => "`\"\"`".to_owned(),
        Some(text) => format!("`{text}`"),
    };
    let change = match row.change {
        _ if row.is_read_only() => "restart",
        Change::ReadOnly => "restart",
        Change::PerBroker => "broker",
        Change::ClusterWide => "cluster",
        Change::Any => "any",
    };
    format!(
        "| `{}`{release} | {} | {} | {} | {change} |",
        row.name,
        type_name(row.kind),
        escaped(&default),
        escaped(&range(&row.range)),
    )
}

fn type_name(kind: PropertyType) -> String {
    kind.name().to_ascii_lowercase()
}

fn range(range: &Range) -> String {
    let number = |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { value.to_string() };
    match range {
        Range::Any => String::new(),
        Range::NonEmpty => "not empty".to_owned(),
        Range::ThrottledReplicas => "`partition:broker,…` or `*`".to_owned(),
        Range::OneOf { words, ignore_case } => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            let case = if *ignore_case { " in any case" } else { "" };
            format!("{}{case}", words.join(", "))
        }
        Range::Number { min, max, or } => {
            let bounds = match max.is_finite() {
                true => format!("{} to {}", number(*min), number(*max)),
                false => format!("at least {}", number(*min)),
            };
            or.map(|or| format!("{bounds}, or {}", number(or))).unwrap_or(bounds)
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
