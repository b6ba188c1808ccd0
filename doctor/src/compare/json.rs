//! The comparison as JSON. The schema is documented in `docs/doctor.md`; fields are added, never renamed.

use serde_json::{Value, json};

use super::{Comparison, Holder, Pair};
use crate::findings::{Language, Proof, Severity, Text, proof_json};
use crate::report::books;

fn pair(pair: Pair) -> Value {
    let change =
        i64::try_from(pair.change()).unwrap_or(if pair.after > pair.before { i64::MAX } else { i64::MIN });
    json!({ "before": pair.before, "after": pair.after, "change": change })
}

fn holder(holder: &Holder) -> Value {
    json!({
        "name": holder.name,
        "kind": holder.class.name(),
        "bytes": pair(holder.bytes),
        "buffers": pair(holder.buffers),
    })
}

/// The comparison as JSON.
pub fn json(comparison: &Comparison, language: Language) -> Value {
    let places =
        |proofs: &[Proof]| -> Vec<_> { proofs.iter().map(|proof| proof_json(proof, language)).collect() };
    let finding = |side: &Option<(Severity, Text)>| {
        side.as_ref()
            .map(|(severity, title)| json!({ "severity": severity.name(), "title": title.get(language) }))
    };
    let figures = comparison.figures.iter().map(|figure| {
        let mut value = pair(figure.pair);
        if let Some(object) = value.as_object_mut() {
            object.insert("id".into(), figure.id.into());
            object.insert("label".into(), figure.label.get(language).into());
            object.insert("before_from".into(), places(&figure.before_from).into());
            object.insert("after_from".into(), places(&figure.after_from).into());
        }
        value
    });
    let kinds = comparison.kinds.iter().map(|kind| {
        json!({
            "kind": kind.class.name(),
            "books": books(kind.books),
            "bytes": pair(kind.bytes),
            "buffers": pair(kind.buffers),
        })
    });
    let groups = comparison.groups.iter().map(|group| {
        json!({
            "name": group.label.en,
            "threads": pair(group.threads),
            "threads_with_bytes": pair(group.threads_with_bytes),
            "buffers": pair(group.buffers),
            "sum_bytes": pair(group.sum_bytes),
            "max_bytes": pair(group.max_bytes),
        })
    });
    let threads = comparison.threads.iter().map(|thread| {
        json!({
            "name": thread.name,
            "cached_bytes": pair(thread.cached_bytes),
            "in_flight_bytes": pair(thread.in_flight_bytes),
            "buffers": pair(thread.buffers),
        })
    });
    let settings = comparison.settings.iter().map(|setting| {
        json!({
            "place": setting.place.name(),
            "name": setting.name,
            "before": setting.before,
            "after": setting.after,
        })
    });
    let findings = comparison.findings.iter().map(|change| {
        json!({
            "id": change.id,
            "change": change.fate.name(),
            "before": finding(&change.before),
            "after": finding(&change.after),
        })
    });
    let gaps = comparison
        .gaps
        .iter()
        .map(|gap| json!({ "what": gap.what.get(language), "why": gap.why.get(language) }));
    json!({
        "figures": figures.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "threads": threads.collect::<Vec<_>>(),
        "owners": comparison.owners.iter().map(holder).collect::<Vec<_>>(),
        "mapped_files": comparison.mapped_files.iter().map(holder).collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "not_compared": gaps.collect::<Vec<_>>(),
    })
}
