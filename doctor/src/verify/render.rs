//! The checks as text that fits a terminal.

use super::{Outcome, Verdict, Verification};
use crate::findings::{Layout, labelled, labelled_in, proofs, rows};
use crate::language::{Text, text};

/// Places that are written out of one check.
const PLACES: usize = 4;

impl Outcome {
    /// Its name in a report.
    pub(crate) fn label(self) -> Text {
        match self {
            Self::Passes => text!("passes", "通过"),
            Self::Fails => text!("FAILS", "未通过"),
            Self::NotJudged => text!("not judged", "无法判断"),
            Self::Skipped => text!("skipped", "跳过"),
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Passes => "32",
            Self::Fails => "1;31",
            Self::NotJudged => "1;33",
            Self::Skipped => "2",
        }
    }
}

/// The checks and the verdict.
pub fn text(verification: &Verification, layout: Layout) -> String {
    let mut out = String::new();
    for check in &verification.checks {
        let (criterion, id) = (&check.criterion, check.id);
        let title = match check.required {
            true => text!("{criterion} [{id}] (required)", "{criterion} [{id}]（必需）"; criterion),
            false => text!("{criterion} [{id}]", "{criterion} [{id}]"; criterion),
        };
        let label = layout.say(&check.outcome.label());
        labelled_in(&mut out, layout, &label, &layout.say(&title), Some(check.outcome.colour()));
        labelled(&mut out, layout, "", &layout.say(&check.says));
        proofs(&mut out, layout, &check.evidence, PLACES);
    }
    out.push('\n');
    rows(&mut out, layout, 0, &layout.say(&verification.verdict_text()));
    out
}

impl Verification {
    /// All checks together, in a sentence.
    pub(crate) fn verdict_text(&self) -> Text {
        let (passed, failed) = (self.count(Outcome::Passes), self.count(Outcome::Fails));
        let open = || self.checks.iter().filter(|check| check.outcome == Outcome::NotJudged);
        let ids = |required: bool| -> String {
            let ids: Vec<_> =
                open().filter(|check| check.required || !required).map(|check| check.id).collect();
            ids.join(", ")
        };
        let (open_ids, missing) = (ids(false), ids(true));
        let all = passed + failed + open().count();
        let start = match self.verdict() {
            Verdict::Passes => text!(
                "PASSES: {passed} of {all} checks pass, none fails.",
                "通过：{all} 项检查中 {passed} 项通过，没有未通过的。"
            ),
            Verdict::Fails => text!(
                "FAILS: {failed} of {all} checks fail, {passed} pass.",
                "未通过：{all} 项检查中 {failed} 项未通过，{passed} 项通过。"
            ),
            Verdict::TooLittle if missing.is_empty() => {
                text!("TOO LITTLE EVIDENCE: nothing could be judged.", "证据不足：没有任何一项可以判断。")
            }
            Verdict::TooLittle => text!(
                "TOO LITTLE EVIDENCE: {passed} of {all} checks pass, but required ones are not judged: {missing}.",
                "证据不足：{all} 项检查中 {passed} 项通过，但必需的检查无法判断：{missing}。"
            ),
        };
        match open_ids.is_empty() {
            true => start,
            false => text!(
                "{start} Not judged: {open_ids}.",
                "{start}无法判断：{open_ids}。"; start
            ),
        }
    }
}
