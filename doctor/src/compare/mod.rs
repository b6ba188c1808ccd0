//! Two captures side by side: what changed, in exact bytes, and what of it the evidence cannot say.
//!
//! Nothing is matched by address: threads by name, groups by role, buffers by who holds them, so that a broker compares
//! with itself after a restart.

mod dumps;
mod figures;
mod findings;
mod json;
mod sections;
mod settings;

pub use json::json as comparison_json;
pub use sections::text as comparison_text;
pub(crate) use sections::{headline, sections};

use crate::account::Class;
use crate::evidence::{Evidence, FileKind};
use crate::findings::{Dump, Facts, Finding, Proof, Severity, Text, diagnose};
use crate::heap::Books;

/// One of the two captures.
#[derive(Debug)]
pub struct Side<'e> {
    /// What it says.
    pub facts: Facts<'e>,
    /// What that means.
    pub findings: Vec<Finding>,
}

impl<'e> Side<'e> {
    /// Puts a capture together.
    pub fn of(evidence: &'e Evidence, dumps: &[Dump<'e>]) -> Self {
        Self { facts: Facts::of(evidence, dumps), findings: diagnose(evidence, dumps) }
    }

    /// The dump that was made last.
    fn dump(&self) -> Option<&Dump<'e>> {
        self.facts.dumps.iter().max_by_key(|dump| dump.heap.condition.time_ms)
    }

    /// Whether it has a file of a kind.
    fn has(&self, kind: FileKind) -> bool {
        self.facts.evidence.files.iter().any(|file| file.kinds.contains(&kind))
    }
}

/// A number in both captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    /// In the first.
    pub before: u64,
    /// In the second.
    pub after: u64,
}

impl Pair {
    /// After less before.
    pub fn change(self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }

    /// By how much it changed, whichever way.
    pub fn size(self) -> u128 {
        self.change().unsigned_abs()
    }

    fn add(&mut self, side: usize, value: u64) {
        let place = if side == 0 { &mut self.before } else { &mut self.after };
        *place = place.saturating_add(value);
    }

    fn most(&mut self, side: usize, value: u64) {
        let place = if side == 0 { &mut self.before } else { &mut self.after };
        *place = (*place).max(value);
    }
}

/// A figure that both captures have, wherever each has it from.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name in JSON; figures in bytes end in `_bytes`.
    pub id: &'static str,
    /// Its name in a report.
    pub label: Text,
    /// The numbers.
    pub pair: Pair,
    /// Where the first is written.
    pub before_from: Vec<Proof>,
    /// Where the second is written.
    pub after_from: Vec<Proof>,
}

/// A line of the accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// What the allocations are.
    pub class: Class,
    /// Where the JVM counts them.
    pub books: Books,
    /// Bytes.
    pub bytes: Pair,
    /// Buffers.
    pub buffers: Pair,
}

/// Threads with the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name; the captures are matched by the English one, which JSON has.
    pub label: Text,
    /// All threads.
    pub threads: Pair,
    /// Those that have bytes.
    pub threads_with_bytes: Pair,
    /// Buffers.
    pub buffers: Pair,
    /// Bytes of all threads.
    pub sum_bytes: Pair,
    /// Bytes of the thread with most.
    pub max_bytes: Pair,
}

/// One thread, by its name; threads of one name are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The name, with its numbers.
    pub name: String,
    /// Bytes that it keeps.
    pub cached_bytes: Pair,
    /// Bytes of calls that are under way.
    pub in_flight_bytes: Pair,
    /// Buffers of both.
    pub buffers: Pair,
}

impl Thread {
    /// All bytes.
    pub fn bytes(&self) -> Pair {
        Pair {
            before: self.cached_bytes.before.saturating_add(self.in_flight_bytes.before),
            after: self.cached_bytes.after.saturating_add(self.in_flight_bytes.after),
        }
    }
}

/// What one field of one class holds, or one mapped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `class.field`, or the file.
    pub name: String,
    /// What it holds.
    pub class: Class,
    /// Bytes.
    pub bytes: Pair,
    /// Buffers or maps.
    pub buffers: Pair,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where it is set.
    pub place: Place,
    /// Its name.
    pub name: String,
    /// Its value in the first capture; none: not set there.
    pub before: Option<String>,
    /// Its value in the second.
    pub after: Option<String>,
}

/// Where a setting is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A flag of the JVM.
    Flag,
    /// A system property.
    SystemProperty,
    /// `server.properties`.
    Server,
}

impl Place {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "jvm_flag",
            Self::SystemProperty => "system_property",
            Self::Server => "server_properties",
        }
    }
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is there now.
    New,
    /// It was there and is still.
    Remains,
    /// It was there, and the second capture has not the evidence to say more.
    Unknown,
    /// It was there and is gone.
    Gone,
}

impl Fate {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Remains => "remains",
            Self::Unknown => "unknown",
            Self::Gone => "gone",
        }
    }
}

/// The findings of one rule.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleChange {
    /// The rule.
    pub id: &'static str,
    /// What became of it.
    pub fate: Fate,
    /// The gravest in the first capture.
    pub before: Option<(Severity, Text)>,
    /// The gravest in the second.
    pub after: Option<(Severity, Text)>,
}

/// Something that cannot be compared, or not wholly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// What.
    pub what: Text,
    /// Why.
    pub why: Text,
}

/// What changed, each list by the size of the change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Pools, limit, headroom, memory of the process: in the order of the documentation.
    pub figures: Vec<Figure>,
    /// By what the allocations are.
    pub kinds: Vec<Kind>,
    /// By the work of threads.
    pub groups: Vec<Group>,
    /// Threads that have bytes in either capture.
    pub threads: Vec<Thread>,
    /// By who holds what no thread's cache does.
    pub owners: Vec<Holder>,
    /// Mapped files.
    pub mapped_files: Vec<Holder>,
    /// Settings that differ.
    pub settings: Vec<Setting>,
    /// Findings by rule.
    pub findings: Vec<RuleChange>,
    /// What cannot be compared.
    pub gaps: Vec<Gap>,
}

/// Compares two captures.
pub fn compare(before: &Side<'_>, after: &Side<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    figures::compare(before, after, &mut comparison);
    dumps::compare(before, after, &mut comparison);
    settings::compare(before, after, &mut comparison);
    findings::compare(before, after, &mut comparison);
    comparison
}

/// `BEFORE` or `AFTER`, for the side that lacks something.
fn lacking(before: bool, after: bool) -> Option<Text> {
    use crate::findings::text;
    match (before, after) {
        (true, true) => None,
        (false, true) => Some(text!("BEFORE has none", "BEFORE 中没有")),
        (true, false) => Some(text!("AFTER has none", "AFTER 中没有")),
        (false, false) => Some(text!("neither capture has one", "两份证据中都没有")),
    }
}

#[cfg(test)]
mod tests;
