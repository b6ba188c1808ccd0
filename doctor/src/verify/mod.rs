//! The acceptance criteria of a direct-memory incident as checks: is the cure in force, and does it hold?
//!
//! A check passes or fails only on evidence; without any it is not judged and says what it lacks. So that partial evidence
//! never looks like a pass, some checks are required: see [`Verification::verdict`].

mod logs;
mod pool;
mod render;
mod series;
mod settings;
mod threads;

use serde_json::{Value, json};

pub use render::text as verification_text;
pub use series::Order;

use crate::evidence::date_ms;
use crate::findings::{Facts, Language, Proof, Text, text};
use series::Scrapes;

/// What a user may set.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Failures up to this moment of the log's own clock do not count.
    pub since_ms: Option<i64>,
    /// The limit of direct memory in bytes, used where the evidence does not say it.
    pub limit_bytes: Option<u64>,
    /// By how many bytes the pool may grow over the series.
    pub tolerance_bytes: Option<u64>,
    /// Checks that must be judged, on top of those that always must.
    pub required: Vec<String>,
    /// Checks that are left out.
    pub skipped: Vec<String>,
    /// When each file of the evidence was last written, by its index, in any unit since any moment.
    pub file_times: Vec<Option<i64>>,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The criterion holds.
    Passes,
    /// It does not.
    Fails,
    /// The evidence does not say.
    NotJudged,
    /// The user left it out.
    Skipped,
}

impl Outcome {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Fails => "fails",
            Self::NotJudged => "not_judged",
            Self::Skipped => "skipped",
        }
    }
}

/// One criterion and whether it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Stable name, for scripts.
    pub id: &'static str,
    /// The criterion.
    pub criterion: Text,
    /// Whether it holds.
    pub outcome: Outcome,
    /// Whether the verdict needs it.
    pub required: bool,
    /// What was found, or what is missing.
    pub says: Text,
    /// The figures, by name; those in bytes end in `_bytes`.
    pub numbers: Vec<(&'static str, u64)>,
    /// Where they are written.
    pub evidence: Vec<Proof>,
}

impl Check {
    fn new(id: &'static str, criterion: Text, outcome: Outcome, says: Text) -> Self {
        Self { id, criterion, outcome, required: false, says, numbers: Vec::new(), evidence: Vec::new() }
    }

    /// One that the evidence does not decide.
    fn not_judged(id: &'static str, criterion: Text, lacks: Text) -> Self {
        Self::new(id, criterion, Outcome::NotJudged, lacks)
    }

    /// One that the evidence decides.
    fn judged(id: &'static str, criterion: Text, holds: bool, says: Text) -> Self {
        Self::new(id, criterion, if holds { Outcome::Passes } else { Outcome::Fails }, says)
    }

    fn number(mut self, name: &'static str, value: u64) -> Self {
        self.numbers.push((name, value));
        self
    }

    fn cite<'p>(mut self, proofs: impl IntoIterator<Item = &'p Proof>) -> Self {
        for proof in proofs {
            if !self.evidence.contains(proof) {
                self.evidence.push(proof.clone());
            }
        }
        self
    }
}

/// All checks together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every check that could be judged passes, the required ones among them.
    Passes,
    /// A check fails.
    Fails,
    /// None fails, and a required one, or none at all, could be judged.
    TooLittle,
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Fails => "fails",
            Self::TooLittle => "too_little_evidence",
        }
    }

    /// The exit code for scripts; 1 and 2 are for evidence that cannot be read and wrong arguments.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passes => 0,
            Self::Fails => 3,
            Self::TooLittle => 4,
        }
    }
}

/// The outcome of all checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Verification {
    /// In the order of the documentation.
    pub checks: Vec<Check>,
    /// Values of the direct pool over time.
    pub values: u64,
    /// What the order of the scrapes rests on.
    pub order: Order,
}

/// Names of all checks, in their order.
pub const CHECKS: [&str; 11] = [
    "direct-pool-below-70",
    "direct-pool-below-80",
    "direct-pool-below-90",
    "direct-pool-growth",
    "direct-buffer-count",
    "uncounted-buffers",
    "no-reservation-failures",
    "cached-buffer-setting",
    "thread-buffer-size",
    "kept-fits-limit",
    "explicit-gc-allowed",
];

impl Verification {
    /// Checks with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }

    /// All checks together. Required are the levels of the pool, on JDK 24 and later also the buffers that are in no pool,
    /// and what the user requires.
    pub fn verdict(&self) -> Verdict {
        let missing = |check: &Check| check.required && check.outcome == Outcome::NotJudged;
        if self.count(Outcome::Fails) > 0 {
            Verdict::Fails
        } else if self.checks.iter().any(missing) || self.count(Outcome::Passes) == 0 {
            Verdict::TooLittle
        } else {
            Verdict::Passes
        }
    }

    /// As JSON; the schema is documented in `docs/doctor.md`.
    pub fn to_json(&self, language: Language) -> Value {
        let checks: Vec<_> = self
            .checks
            .iter()
            .map(|check| {
                let evidence: Vec<_> =
                    check.evidence.iter().map(|proof| crate::findings::proof_json(proof, language)).collect();
                let numbers: serde_json::Map<_, _> =
                    check.numbers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
                json!({
                    "id": check.id,
                    "criterion": check.criterion.get(language),
                    "outcome": check.outcome.name(),
                    "required": check.required,
                    "says": check.says.get(language),
                    "numbers": numbers,
                    "evidence": evidence,
                })
            })
            .collect();
        let verdict = self.verdict();
        json!({
            "verdict": verdict.name(),
            "exit_code": verdict.exit_code(),
            "passed": self.count(Outcome::Passes),
            "failed": self.count(Outcome::Fails),
            "not_judged": self.count(Outcome::NotJudged),
            "skipped": self.count(Outcome::Skipped),
            "values_over_time": self.values,
            "ordered_by": self.order.name(),
            "checks": checks,
        })
    }
}

/// A moment as a user writes it: `2026-11-30 11:57:23`, also with `T` and milliseconds.
pub fn moment_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let fits = text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 24;
    date_ms(text).filter(|_| fits)
}

/// Judges every criterion.
pub fn verify(facts: &Facts<'_>, options: &Options) -> Verification {
    let scrapes = Scrapes::of(facts, &options.file_times);
    let limit = facts.limit.as_ref().map(|limit| (limit.value.0, limit.proofs.clone()));
    let limit = limit.or(options.limit_bytes.map(|bytes| (bytes, Vec::new())));
    let mut checks = pool::levels(facts, &scrapes, limit.as_ref());
    checks.push(pool::growth(facts, &scrapes, limit.as_ref(), options.tolerance_bytes));
    checks.push(pool::count(facts, &scrapes));
    checks.push(threads::uncounted(facts, limit.as_ref()));
    checks.push(logs::failures(facts, options.since_ms));
    checks.push(settings::cached_buffer(facts));
    checks.push(threads::largest(facts));
    checks.push(settings::kept(facts, limit.as_ref()));
    checks.push(settings::explicit_gc(facts));
    let outside_the_pool = facts.java.as_ref().is_some_and(|java| java.value >= threads::UNCOUNTED_FROM_JDK);
    for check in &mut checks {
        let always =
            check.id.starts_with("direct-pool-below-") || check.id == "uncounted-buffers" && outside_the_pool;
        check.required = always || options.required.iter().any(|id| id == check.id || id == "all");
        if options.skipped.iter().any(|id| id == check.id) {
            check.outcome = Outcome::Skipped;
            check.required = false;
            check.says = text!("left out on demand", "按要求跳过");
            check.numbers.clear();
            check.evidence.clear();
        }
    }
    Verification { checks, values: scrapes.values(), order: scrapes.order }
}

#[cfg(test)]
pub(crate) mod tests;
