//! `weir bench`: produces to or fetches from any Kafka broker as fast as it goes, or at a rate, and measures.
//!
//! Method: a lane is one connection of one producer or consumer to one broker, with the partitions that the broker leads;
//! lanes share nothing but a count that the progress is drawn from. Memory is bounded by lanes × requests under way ×
//! batch size, whatever the number of records.

mod fetch;
mod produce;
mod report;
mod target;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use fetch::{FetchOptions, fetch};
pub(crate) use produce::{ProduceOptions, produce};
use report::Report;

use crate::load::latency::Latencies;

/// How long to wait for a line of progress: on a terminal and elsewhere.
const ON_TERMINAL: Duration = Duration::from_millis(250);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// What one lane has done so far; the lane writes, the progress reads.
#[derive(Debug, Default)]
struct Lane {
    records: AtomicU64,
    /// Bytes of keys and values as they were before compression; of a fetch, bytes of batches.
    bytes: AtomicU64,
    /// Bytes of batches.
    wire_bytes: AtomicU64,
    latencies: Mutex<Latencies>,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Lane {
    fn done(&self, records: u64, bytes: u64, wire_bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.wire_bytes.fetch_add(wire_bytes, Ordering::Relaxed);
    }

    fn note(&self, note: impl FnOnce(&mut Latencies)) {
        note(&mut self.latencies.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn failed(&self, error: &dyn std::fmt::Display) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| error.to_string());
    }
}

/// All lanes of a run.
#[derive(Clone, Debug)]
struct Lanes {
    verb: &'static str,
    began: Instant,
    lanes: Vec<Arc<Lane>>,
}

impl Lanes {
    fn new(verb: &'static str, count: usize) -> Self {
        Lanes { verb, began: Instant::now(), lanes: (0..count).map(|_| Arc::default()).collect() }
    }

    fn sum(&self, of: impl Fn(&Lane) -> &AtomicU64) -> u64 {
        self.lanes.iter().map(|lane| of(lane).load(Ordering::Relaxed)).sum()
    }

    fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        for lane in &self.lanes {
            lane.note(|latencies| all.add(latencies));
        }
        all
    }

    fn report(&self, took: Duration) -> Report {
        let first =
            |lane: &Arc<Lane>| lane.first_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Report {
            verb: self.verb,
            took,
            records: self.sum(|lane| &lane.records),
            bytes: self.sum(|lane| &lane.bytes),
            wire_bytes: self.sum(|lane| &lane.wire_bytes),
            latencies: self.latencies(),
            errors: self.sum(|lane| &lane.errors),
            first_error: self.lanes.iter().find_map(first),
        }
    }

    /// Tells on standard error how it goes, until it is dropped.
    fn watch(&self) -> Watch {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = indicatif::ProgressBar::new_spinner();
            if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        let (lanes, shown) = (self.clone(), bar.clone());
        let task = tokio::spawn(async move {
            let every = if shown.is_some() { ON_TERMINAL } else { ELSEWHERE };
            let (mut records, mut bytes, mut then) = (0, 0, lanes.began);
            loop {
                tokio::time::sleep(every).await;
                let (all, all_bytes) = (lanes.sum(|lane| &lane.records), lanes.sum(|lane| &lane.bytes));
                let seconds = then.elapsed().as_secs_f64();
                let line = format!(
                    "{all} records {}, {:.1} records/s ({:.2} MiB/s), p99 {}",
                    lanes.verb,
                    (all - records) as f64 / seconds,
                    (all_bytes - bytes) as f64 / seconds / f64::from(1 << 20),
                    report::milliseconds(lanes.latencies().quantile(0.99)),
                );
                (records, bytes, then) = (all, all_bytes, Instant::now());
                match &shown {
                    Some(bar) => {
                        bar.set_message(line);
                        bar.tick();
                    }
                    None => eprintln!("{line}"),
                }
            }
        });
        Watch { bar, task }
    }
}

/// The progress of a run.
struct Watch {
    bar: Option<indicatif::ProgressBar>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
