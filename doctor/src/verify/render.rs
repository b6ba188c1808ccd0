//! The checks as text that fits a terminal.

use super::{Check, Outcome, Verdict, Verification};
use crate::findings::{Language, Layout, labelled, labelled_in, plain, proof_text, rows};

/// Places that are written out of one check.
const PLACES: usize = 4;

struct Words {
    passes: &'static str,
    fails: &'static str,
    not_judged: &'static str,
    skipped: &'static str,
    evidence: &'static str,
    required: &'static str,
}

fn words(language: Language) -> Words {
    match language {
        Language::English => Words {
            passes: "passes",
            fails: "FAILS",
            not_judged: "not judged",
            skipped: "skipped",
            evidence: "evidence",
            required: "required",
        },
        Language::Chinese => Words {
            passes: "通过",
            fails: "未通过",
            not_judged: "无法判断",
            skipped: "跳过",
            evidence: "证据",
            required: "必需",
        },
    }
}

fn head(words: &Words, check: &Check) -> (&'static str, &'static str) {
    match check.outcome {
        Outcome::Passes => (words.passes, "32"),
        Outcome::Fails => (words.fails, "1;31"),
        Outcome::NotJudged => (words.not_judged, "1;33"),
        Outcome::Skipped => (words.skipped, "2"),
    }
}

/// The checks and the verdict.
pub fn text(verification: &Verification, layout: Layout) -> String {
    let words = words(layout.language);
    let mut out = String::new();
    for check in &verification.checks {
        let (label, colour) = head(&words, check);
        let required = if check.required { format!(" ({})", words.required) } else { String::new() };
        let title = format!("{} [{}]{required}", plain(check.criterion.get(layout.language)), check.id);
        labelled_in(&mut out, layout, label, &title, Some(colour));
        labelled(&mut out, layout, "", &plain(check.says.get(layout.language)));
        for (index, proof) in check.evidence.iter().take(PLACES).enumerate() {
            let label = if index == 0 { words.evidence } else { "" };
            labelled(&mut out, layout, label, &proof_text(proof, layout.language));
        }
    }
    out.push('\n');
    rows(&mut out, layout, 0, &verdict(verification, layout.language));
    out
}

fn verdict(verification: &Verification, language: Language) -> String {
    let passed = verification.count(Outcome::Passes);
    let failed = verification.count(Outcome::Fails);
    let open: Vec<_> = verification
        .checks
        .iter()
        .filter(|check| check.outcome == Outcome::NotJudged)
        .map(|check| check.id)
        .collect();
    let all = passed + failed + open.len();
    let missing: Vec<_> = verification
        .checks
        .iter()
        .filter(|check| check.required && check.outcome == Outcome::NotJudged)
        .map(|check| check.id)
        .collect();
    let (open_list, missing_list) = (open.join(", "), missing.join(", "));
    match language {
        Language::English => {
            let rest = if open.is_empty() { String::new() } else { format!(" Not judged: {open_list}.") };
            let start = match verification.verdict() {
                Verdict::Passes => format!("PASSES: {passed} of {all} checks pass, none fails."),
                Verdict::Fails => format!("FAILS: {failed} of {all} checks fail, {passed} pass."),
                Verdict::TooLittle if missing.is_empty() => {
                    "TOO LITTLE EVIDENCE: nothing could be judged.".into()
                }
                Verdict::TooLittle => {
                    format!(
                        "TOO LITTLE EVIDENCE: {passed} of {all} checks pass, but required ones are not judged: {missing_list}."
                    )
                }
            };
            start + &rest
        }
        Language::Chinese => {
            let rest = if open.is_empty() { String::new() } else { format!("无法判断：{open_list}。") };
            let start = match verification.verdict() {
                Verdict::Passes => format!("通过：{all} 项检查中 {passed} 项通过，没有未通过的。"),
                Verdict::Fails => format!("未通过：{all} 项检查中 {failed} 项未通过，{passed} 项通过。"),
                Verdict::TooLittle if missing.is_empty() => "证据不足：没有任何一项可以判断。".into(),
                Verdict::TooLittle => {
                    format!(
                        "证据不足：{all} 项检查中 {passed} 项通过，但必需的检查无法判断：{missing_list}。"
                    )
                }
            };
            start + &rest
        }
    }
}
