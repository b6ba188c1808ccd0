//! Settings that differ: flags, system properties, `server.properties`. Values that may be secrets are not shown.

use std::collections::{BTreeMap, BTreeSet};

use super::{Comparison, Gap, Place, Setting, Side, lacking};
use crate::findings::text;

/// Longest value that is shown, in characters.
const MAX_VALUE: usize = 300;
/// What stands in place of a secret.
const HIDDEN: &str = "(hidden)";

/// Flags that the JVM makes anew at each start.
const BY_CHANCE: [&str; 1] = ["SharedBaseAddress"];

type Values = BTreeMap<String, String>;

pub(super) fn compare(before: &Side<'_>, after: &Side<'_>, comparison: &mut Comparison) {
    flags(before, after, comparison);
    let what = text!("system properties", "系统属性");
    differ(
        comparison,
        Place::SystemProperty,
        what,
        system_properties(before),
        system_properties(after),
        |_| true,
    );
    let what = text!("server.properties", "server.properties");
    differ(comparison, Place::Server, what, server(before), server(after), |_| true);
    // Those that this tool has something to say about come first.
    comparison.settings.sort_by_key(|setting| (!matters(&setting.name), setting.place, setting.name.clone()));
}

fn matters(name: &str) -> bool {
    [
        "DirectMemory",
        "maxCachedBuffer",
        "ExplicitGC",
        "MaxHeapSize",
        "Xmx",
        ".max.bytes",
        "num.",
        "threads",
        "io.netty",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Whether a value may be a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "password",
        "secret",
        "jaas",
        "token",
        "credential",
        "passphrase",
        "keystore.key",
        "private",
        "certificate.chain",
    ]
    .iter()
    .any(|part| name.contains(part))
}

fn shown(name: &str, value: &str) -> String {
    if is_secret(name) { HIDDEN.to_owned() } else { value.chars().take(MAX_VALUE).collect() }
}

fn differ(
    comparison: &mut Comparison,
    place: Place,
    what: crate::findings::Text,
    before: Option<Values>,
    after: Option<Values>,
    comparable: impl Fn(&str) -> bool,
) {
    let (Some(before), Some(after)) = (&before, &after) else {
        let why = lacking(before.is_some(), after.is_some());
        comparison.gaps.extend(why.map(|why| Gap { what, why }));
        return;
    };
    let names: BTreeSet<&String> =
        before.keys().chain(after.keys()).filter(|name| comparable(name)).collect();
    for name in names {
        let (one, other) = (before.get(name), after.get(name));
        if one != other {
            comparison.settings.push(Setting {
                place,
                name: name.clone(),
                before: one.map(|value| shown(name, value)),
                after: other.map(|value| shown(name, value)),
            });
        }
    }
}

/// The JVM's table of flags, or what its command line sets; and whether the table has the defaults too.
fn table(side: &Side<'_>, all: bool) -> Option<Values> {
    let evidence = side.facts.evidence;
    let found = evidence.vm_flags.iter().rev().find(|found| found.value.all == all)?;
    let flags = found.value.flags.iter().filter(|(name, _)| !BY_CHANCE.contains(&name.as_str()));
    Some(flags.map(|(name, flag)| (name.clone(), flag.value.clone())).collect())
}

fn flags(before: &Side<'_>, after: &Side<'_>, comparison: &mut Comparison) {
    let what = text!("flags of the JVM", "JVM 参数");
    let tables = |all| Some((table(before, all)?, table(after, all)?));
    if let Some((one, other)) = tables(true).or_else(|| tables(false)) {
        differ(comparison, Place::Flag, what, Some(one), Some(other), |_| true);
        return;
    }
    let either = |side: &Side<'_>| table(side, true).or_else(|| table(side, false));
    if let (Some(one), Some(other)) = (either(before), either(after)) {
        // One has the defaults and the other has not: only what both name can be compared.
        let both: BTreeSet<String> = one.keys().filter(|name| other.contains_key(*name)).cloned().collect();
        differ(comparison, Place::Flag, what.clone(), Some(one), Some(other), |name| both.contains(name));
        let why = text!(
            "one capture has VM.flags -all, the other VM.flags: only flags that both name are compared",
            "一份为 VM.flags -all，另一份为 VM.flags：只比较两者都有的参数"
        );
        comparison.gaps.push(Gap { what, why });
        return;
    }
    let (one, other) = (arguments(before), arguments(after));
    if one.is_some() && other.is_some() {
        differ(comparison, Place::Flag, what, one, other, |_| true);
        return;
    }
    let has = |side: &Side<'_>, arguments: &Option<Values>| either(side).is_some() || arguments.is_some();
    let why = lacking(has(before, &one), has(after, &other)).unwrap_or_else(|| {
        text!(
            "one capture has VM.flags, the other VM.command_line only",
            "一份为 VM.flags，另一份只有 VM.command_line"
        )
    });
    comparison.gaps.push(Gap { what, why });
}

/// Arguments of the command line that are flags, by name.
fn arguments(side: &Side<'_>) -> Option<Values> {
    let found = side.facts.evidence.command_lines.last()?;
    let arguments = found.value.arguments.iter().filter(|(argument, _)| !argument.starts_with("-D"));
    Some(
        arguments
            .map(|(argument, _)| {
                if let Some(name) = argument.strip_prefix("-XX:+") {
                    return (format!("-XX:{name}"), "true".to_owned());
                }
                if let Some(name) = argument.strip_prefix("-XX:-") {
                    return (format!("-XX:{name}"), "false".to_owned());
                }
                if let Some((name, value)) = argument.split_once('=') {
                    return (name.to_owned(), value.to_owned());
                }
                for name in ["-Xmx", "-Xms", "-Xss", "-Xmn"] {
                    if let Some(value) = argument.strip_prefix(name) {
                        return (name.to_owned(), value.to_owned());
                    }
                }
                (argument.clone(), String::new())
            })
            .collect(),
    )
}

fn system_properties(side: &Side<'_>) -> Option<Values> {
    let evidence = side.facts.evidence;
    if let Some(found) = evidence.system_properties.last() {
        let all = found.value.properties.iter();
        return Some(all.map(|(name, (value, _))| (name.clone(), value.clone())).collect());
    }
    let found = evidence.command_lines.last()?;
    Some(
        found.value.system_properties().map(|(name, value, _)| (name.to_owned(), value.to_owned())).collect(),
    )
}

fn server(side: &Side<'_>) -> Option<Values> {
    let found = side.facts.settings()?;
    let all = found.value.settings.iter();
    Some(all.map(|(name, setting)| (name.to_owned(), setting.value.clone())).collect())
}
