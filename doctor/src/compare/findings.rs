//! Which findings are gone, new, or still there; and which only seem gone, because their evidence is.

use std::collections::BTreeMap;

use super::{Comparison, Fate, RuleChange, Side};
use crate::evidence::FileKind;
use crate::findings::{Finding, Severity, Text};

pub(super) fn compare(before: &Side<'_>, after: &Side<'_>, comparison: &mut Comparison) {
    let mut rules: BTreeMap<&'static str, [Vec<&Finding>; 2]> = BTreeMap::new();
    for (side, findings) in [&before.findings, &after.findings].into_iter().enumerate() {
        for finding in findings {
            let sides = rules.entry(finding.id).or_default();
            if let Some(list) = sides.get_mut(side) {
                list.push(finding);
            }
        }
    }
    for (id, [one, other]) in rules {
        let fate = match (one.is_empty(), other.is_empty()) {
            (true, _) => Fate::New,
            (_, false) => Fate::Remains,
            _ if one.iter().any(|finding| lacks_evidence(before, after, finding)) => Fate::Unknown,
            _ => Fate::Gone,
        };
        comparison.findings.push(RuleChange { id, fate, before: gravest(&one), after: gravest(&other) });
    }
    let severity = |change: &RuleChange| {
        let sides = change.after.iter().chain(&change.before);
        sides.map(|(severity, _)| *severity).min().unwrap_or(Severity::Note)
    };
    comparison.findings.sort_by_key(|change| (change.fate, severity(change), change.id));
}

fn gravest(findings: &[&Finding]) -> Option<(Severity, Text)> {
    let finding = findings.iter().min_by_key(|finding| finding.severity)?;
    Some((finding.severity, finding.title.clone()))
}

/// Whether the second capture has no file of a kind that the finding was made from.
fn lacks_evidence(before: &Side<'_>, after: &Side<'_>, finding: &Finding) -> bool {
    let kinds_of = |path: &std::path::Path| -> Vec<FileKind> {
        let mut files = before.facts.evidence.files.iter();
        files.find(|file| file.path == path).map(|file| file.kinds.clone()).unwrap_or_default()
    };
    finding.evidence.iter().any(|proof| {
        let kinds = kinds_of(&proof.file);
        !kinds.is_empty() && !kinds.iter().any(|kind| after.has(*kind))
    })
}
