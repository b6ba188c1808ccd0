//! The plan: every term of the memory bound with its reason, and their sum against the limit.

use std::fmt;

/// One summand of the bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Name of the budget or of the fixed part.
    pub name: &'static str,
    /// Bytes it may reach.
    pub bytes: u64,
    /// How the figure comes about, such as `"10000 connections × 2560 B"`.
    pub reason: String,
    /// The property that changes it.
    pub property: &'static str,
}

/// All terms of a process; what is printed at the start and checked before anything is allocated.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The terms, in the order in which they are printed.
    pub terms: Vec<Term>,
    /// What they must fit in, in bytes.
    pub limit: u64,
}

/// The terms do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan needs {needed} bytes and memory.budget.bytes is {limit}: raise it to {enough}, or lower {property} \
     ({name} takes {bytes}: {reason})"
)]
pub struct PlanError {
    /// Sum of all terms.
    pub needed: u64,
    /// The limit in bytes.
    pub limit: u64,
    /// A limit that the plan fits in. [`Plan::check`] knows only the sum; whoever makes terms that grow with the limit
    /// has to raise it.
    pub enough: u64,
    /// The largest term that a property can lower.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// Its reason.
    pub reason: String,
    /// The property that lowers it.
    pub property: &'static str,
}

impl Plan {
    /// An empty plan for `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Plan { terms: Vec::new(), limit }
    }

    /// Adds a term.
    pub fn add(&mut self, name: &'static str, bytes: u64, reason: String, property: &'static str) {
        self.terms.push(Term { name, bytes, reason, property });
    }

    /// Sum of all terms in bytes.
    pub fn sum(&self) -> u64 {
        self.terms.iter().map(|term| term.bytes).sum()
    }

    /// Fails when the sum exceeds the limit, naming the property of the largest term.
    pub fn check(&self) -> Result<(), PlanError> {
        let needed = self.sum();
        if needed <= self.limit {
            return Ok(());
        }
        let largest = self.terms.iter().max_by_key(|term| term.bytes);
        Err(PlanError {
            needed,
            limit: self.limit,
            enough: needed,
            name: largest.map_or("", |term| term.name),
            bytes: largest.map_or(0, |term| term.bytes),
            reason: largest.map_or(String::new(), |term| term.reason.clone()),
            property: largest.map_or("memory.budget.bytes", |term| term.property),
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        for term in &self.terms {
            writeln!(
                f,
                "{:>10.2} MiB  {:<12} {} [{}]",
                mib(term.bytes),
                term.name,
                term.reason,
                term.property
            )?;
        }
        writeln!(f, "{:>10.2} MiB  {:<12} of {:.2} MiB", mib(self.sum()), "sum", mib(self.limit))
    }
}
