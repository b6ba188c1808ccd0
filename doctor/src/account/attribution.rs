//! Whose the temporary buffers are: by thread, and by what the threads are for.

use std::collections::BTreeMap;

use crate::evidence::ThreadRole;
use crate::heap::{Allocation, Books, Heap, Held};
use crate::language::{Text, text};

use super::Class;

/// What one thread has in temporary buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadUse {
    /// Index of the thread in the heap; none: its cache is there and the thread is not.
    pub thread: Option<usize>,
    /// Index of its group.
    pub group: usize,
    /// Bytes that its cache keeps.
    pub cached_bytes: u64,
    /// Capacities of the cached buffers, largest first.
    pub cached_buffers: Vec<u64>,
    /// Bytes of calls that are under way.
    pub in_flight_bytes: u64,
    /// Capacities of those buffers, largest first.
    pub in_flight_buffers: Vec<u64>,
    /// Those of all these bytes that are in the pool `direct`.
    pub counted_bytes: u64,
    /// The class and method in which a call is under way.
    pub frame: Option<String>,
}

impl ThreadUse {
    /// Cached and in flight.
    pub fn bytes(&self) -> u64 {
        self.cached_bytes + self.in_flight_bytes
    }
}

/// How bytes are spread over the threads of a group that have any. Percentiles are those of actual threads: the smallest
/// value that at least so many percent do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// Threads that have any.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// Half of the threads have no more.
    pub p50: u64,
    /// 95 percent of the threads have no more.
    pub p95: u64,
    /// The most.
    pub max: u64,
    /// All together.
    pub sum: u64,
}

impl Spread {
    /// The spread of some values.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let rank = |percent: usize| {
            let at = (values.len() * percent).div_ceil(100).saturating_sub(1);
            values.get(at).copied().unwrap_or(0)
        };
        Self {
            count: values.len() as u64,
            min: values.first().copied().unwrap_or(0),
            p50: rank(50),
            p95: rank(95),
            max: values.last().copied().unwrap_or(0),
            sum: values.iter().sum(),
        }
    }
}

/// Threads with the same work.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What they do.
    pub role: ThreadRole,
    /// The listener of network threads.
    pub listener: Option<String>,
    /// The names of other threads, digits replaced.
    pub pattern: Option<String>,
    /// All threads of the group.
    pub threads: u64,
    /// Those with a cache, which did I/O through heap buffers, whatever is left in it.
    pub with_cache: u64,
    /// Buffers.
    pub buffers: u64,
    /// Bytes by thread.
    pub spread: Spread,
    /// Those of the bytes that are in the pool `direct`.
    pub counted_bytes: u64,
    /// Share of all that threads and objects hold, 0 to 1.
    pub share: f64,
}

impl Group {
    /// Its name in JSON.
    pub fn name(&self) -> String {
        self.label().en
    }

    /// Its name in a report.
    pub fn label(&self) -> Text {
        match (&self.listener, &self.pattern) {
            (Some(listener), _) => text!("network {listener}", "网络线程 {listener}"),
            (None, Some(pattern)) => {
                let class = pattern.strip_prefix(OF_CLASS);
                class.map_or_else(
                    || match pattern == LOST {
                        true => text!("{LOST}", "转储中没有的线程"),
                        false => Text::verbatim(pattern.as_str()),
                    },
                    |class| text!("{OF_CLASS}{class}", "{class} 类的线程"),
                )
            }
            (None, None) => self.role.label(),
        }
    }
}

/// What groups of threads without names are called.
const OF_CLASS: &str = "threads of class ";
const LOST: &str = "threads that the dump does not have";

type Key = (ThreadRole, Option<String>, Option<String>);

/// The group of a thread: by its name, else by its class.
fn key(name: Option<&str>, class: &str, holds: bool) -> Key {
    let Some(name) = name else {
        let pattern = holds.then(|| format!("{OF_CLASS}{class}"));
        return (ThreadRole::Other, None, pattern);
    };
    let role = ThreadRole::of_name(name);
    let listener = listener(name).filter(|_| role == ThreadRole::Network).map(str::to_string);
    let pattern = (role == ThreadRole::Other && holds).then(|| pattern(name));
    (role, listener, pattern)
}

/// `…-ListenerName(SASL_PLAINTEXT)-SASL_PLAINTEXT-3`
fn listener(name: &str) -> Option<&str> {
    name.split_once("ListenerName(")?.1.split_once(')').map(|(listener, _)| listener)
}

/// A name with every number replaced, so that `pool-1-thread-7` and `pool-1-thread-8` are one.
fn pattern(name: &str) -> String {
    let mut pattern = String::new();
    for c in name.chars() {
        if !c.is_ascii_digit() {
            pattern.push(c);
        } else if !pattern.ends_with('#') {
            pattern.push('#');
        }
    }
    pattern
}

pub(super) fn attribute(heap: &Heap, whole_bytes: u64) -> (Vec<ThreadUse>, Vec<Group>) {
    let mut uses: BTreeMap<Option<usize>, ThreadUse> = BTreeMap::new();
    let temporary =
        |allocation: &&Allocation| matches!(Class::of(allocation), Class::Cached | Class::InFlight);
    for allocation in heap.allocations.iter().filter(temporary) {
        let (thread, frame) = match &allocation.held {
            Held::Cached(thread) => (*thread, None),
            Held::InFlight(thread, frame) => (*thread, Some(frame)),
            _ => continue,
        };
        let entry = uses.entry(thread).or_insert_with(|| ThreadUse {
            thread,
            group: 0,
            cached_bytes: 0,
            cached_buffers: Vec::new(),
            in_flight_bytes: 0,
            in_flight_buffers: Vec::new(),
            counted_bytes: 0,
            frame: None,
        });
        if allocation.books == Books::Direct {
            entry.counted_bytes += allocation.bytes;
        }
        match frame {
            None => {
                entry.cached_bytes += allocation.bytes;
                entry.cached_buffers.push(allocation.capacity);
            }
            Some(frame) => {
                entry.in_flight_bytes += allocation.bytes;
                entry.in_flight_buffers.push(allocation.capacity);
                entry.frame = Some(frame.clone());
            }
        }
    }

    #[derive(Default)]
    struct Tally {
        threads: u64,
        with_cache: u64,
        buffers: u64,
        counted: u64,
        bytes: Vec<u64>,
        members: Vec<Option<usize>>,
    }
    let mut tallies: BTreeMap<Key, Tally> = BTreeMap::new();
    let all = heap.threads.iter().enumerate().map(|(index, thread)| (Some(index), Some(thread)));
    let lost = uses.contains_key(&None).then_some((None, None));
    for (index, thread) in all.chain(lost) {
        let used = uses.get(&index);
        let key = match thread {
            Some(thread) => key(thread.name.as_deref(), &thread.class, used.is_some()),
            None => (ThreadRole::Other, None, Some(LOST.into())),
        };
        let tally = tallies.entry(key).or_default();
        tally.threads += 1;
        tally.with_cache += u64::from(thread.is_none_or(|thread| thread.caches > 0));
        tally.members.push(index);
        if let Some(used) = used {
            tally.buffers += (used.cached_buffers.len() + used.in_flight_buffers.len()) as u64;
            tally.counted += used.counted_bytes;
            tally.bytes.push(used.bytes());
        }
    }
    let mut tallies: Vec<(Key, Tally)> = tallies.into_iter().collect();
    tallies.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.bytes.iter().sum::<u64>()));
    let mut groups = Vec::new();
    for ((role, listener, pattern), tally) in tallies {
        for member in &tally.members {
            if let Some(used) = uses.get_mut(member) {
                used.group = groups.len();
            }
        }
        let spread = Spread::of(tally.bytes);
        let share = if whole_bytes == 0 { 0.0 } else { spread.sum as f64 / whole_bytes as f64 };
        groups.push(Group {
            role,
            listener,
            pattern,
            threads: tally.threads,
            with_cache: tally.with_cache,
            buffers: tally.buffers,
            spread,
            counted_bytes: tally.counted,
            share,
        });
    }
    let mut uses: Vec<ThreadUse> = uses.into_values().collect();
    for used in &mut uses {
        used.cached_buffers.sort_unstable_by(|one, other| other.cmp(one));
        used.in_flight_buffers.sort_unstable_by(|one, other| other.cmp(one));
    }
    uses.sort_by_key(|used| (std::cmp::Reverse(used.bytes()), used.thread));
    (uses, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_actual_threads() {
        let spread = Spread::of((1..=100).rev().collect());
        assert_eq!((spread.min, spread.p50, spread.p95, spread.max, spread.sum), (1, 50, 95, 100, 5_050));
        let three = Spread::of(vec![30, 10, 20]);
        assert_eq!((three.count, three.p50, three.p95), (3, 20, 30));
        assert_eq!(Spread::of(vec![7]), Spread { count: 1, min: 7, p50: 7, p95: 7, max: 7, sum: 7 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }

    #[test]
    fn network_threads_are_told_apart_by_listener_and_others_by_name() {
        let name = "data-plane-kafka-network-thread-1-ListenerName(SASL_PLAINTEXT)-SASL_PLAINTEXT-3";
        assert_eq!(key(Some(name), "", true), (ThreadRole::Network, Some("SASL_PLAINTEXT".into()), None));
        assert_eq!(
            key(Some("pool-12-thread-7"), "", true),
            (ThreadRole::Other, None, Some("pool-#-thread-#".into()))
        );
        assert_eq!(key(Some("main"), "", false), (ThreadRole::Other, None, None));
        assert_eq!(key(None, "a.B", true).2.as_deref(), Some("threads of class a.B"));
        assert_eq!(key(Some("remote-log-reader12"), "", true).0, ThreadRole::RemoteLogReader);
    }
}
