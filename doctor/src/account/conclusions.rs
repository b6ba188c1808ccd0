//! What a dump can prove. A truncated or redacted one proves less; each conclusion says why.

use crate::heap::Heap;

use super::Account;

/// Whether a conclusion holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It does.
    Yes,
    /// What is reported is there; there may be more.
    AtLeast,
    /// The dump does not say.
    No,
}

impl Holds {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::AtLeast => "at_least",
            Self::No => "no",
        }
    }
}

/// A conclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conclusion {
    /// Its name in JSON.
    pub id: &'static str,
    /// What is concluded.
    pub what: &'static str,
    /// Whether it holds.
    pub holds: Holds,
    /// Why it is so.
    pub why: String,
}

pub(super) fn conclude(heap: &Heap, account: &Account) -> Vec<Conclusion> {
    let condition = &heap.condition;
    let complete = condition.is_complete();
    let damage = || {
        if let Some(missing) = condition.truncated {
            return format!("the dump is cut off, {missing} bytes or more are missing");
        }
        if let Some(problem) = &condition.gzip_problem {
            return problem.clone();
        }
        if condition.overflow {
            return "there are more objects of interest than the limit allows".to_string();
        }
        if condition.end_missing {
            return "the record that ends a dump is missing: its writer was interrupted".to_string();
        }
        "a part of the dump cannot be read".to_string()
    };
    let mut conclusions = Vec::new();
    let mut add = |id, what, holds, why: String| conclusions.push(Conclusion { id, what, holds, why });

    let pool = "how much the direct pool holds, and its limit";
    match (heap.statics.direct, condition.numbers_redacted) {
        (_, true) => add("pool", pool, Holds::No, "all numbers of the dump are redacted".into()),
        (Some(_), _) => add("pool", pool, Holds::Yes, "from the static fields of java.nio.Bits".into()),
        (None, _) => add("pool", pool, Holds::No, "the dump lacks the fields of java.nio.Bits".into()),
    }

    let sum = "that every buffer of the pool is in this account";
    let exact = account.direct.is_exact();
    match (account.direct.difference(), exact) {
        _ if condition.numbers_redacted => {
            add("sum", sum, Holds::No, "all numbers of the dump are redacted".into())
        }
        (_, true) => add("sum", sum, Holds::Yes, "the sum of the buffers is the pool to the byte".into()),
        (Some((bytes, _, count)), _) => {
            let cause = if complete {
                "memory segments of java.lang.foreign and buffers that were made or freed during the dump are \
                 counted by the pool and not found"
                    .to_string()
            } else {
                damage()
            };
            add("sum", sum, Holds::AtLeast, format!("{bytes} bytes and {count} buffers differ: {cause}"));
        }
        (None, _) if complete => add("sum", sum, Holds::Yes, "every object of the dump was read".into()),
        (None, _) => add("sum", sum, Holds::AtLeast, damage()),
    }

    let threads = "which threads keep which buffers";
    if condition.numbers_redacted {
        add("threads", threads, Holds::No, "all numbers of the dump are redacted".into());
    } else if heap.threads.is_empty() {
        add("threads", threads, Holds::No, "the dump has no objects of java.lang.Thread".into());
    } else if complete || exact && account.sum(super::Class::Unknown).count == 0 {
        add("threads", threads, Holds::Yes, "from the threads' own variables".into());
    } else {
        add("threads", threads, Holds::AtLeast, damage());
    }
    if condition.names_redacted {
        let why = "the dump has no names of threads; they are grouped by class".into();
        add("names", "what the threads are for", Holds::No, why);
    }

    let in_flight = "which buffers are in flight";
    if heap.condition.thread_roots == 0 {
        let why = if complete {
            "the dump has no stacks".to_string()
        } else {
            format!("the dump has no stacks: {}", damage())
        };
        add("in_flight", in_flight, Holds::No, why);
    } else if complete {
        add("in_flight", in_flight, Holds::Yes, "from the stacks of the threads".into());
    } else {
        add("in_flight", in_flight, Holds::AtLeast, damage());
    }

    let holders = "who holds the other buffers, and which are garbage";
    if complete {
        add("holders", holders, Holds::Yes, "every reference of the dump was looked at".into());
    } else {
        let why = format!("{}; that no holder was found proves nothing", damage());
        add("holders", holders, Holds::AtLeast, why);
    }
    conclusions
}
