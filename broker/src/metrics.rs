//! Counters of the data path, of requests by API, and of limits that were reached: what `http/metrics_page.rs` renders
//! besides the budgets.
//!
//! Invariant: nothing here is labelled by what a client names. The number of series is bounded by the code: served
//! APIs and their versions, Kafka's error codes, the properties of [`LIMITS`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use weir_protocol::messages::{ApiKey, ErrorCode};

use crate::handlers::SERVED;

/// Properties that limit something, and whose limit can be reached while the server runs.
pub(crate) const LIMITS: &[&str] = &[
    "connections.max.idle.ms",
    "max.connections",
    "max.connections.per.ip",
    "group.max.size",
    "max.connection.creation.rate",
    "max.fetch.session.partitions",
    "max.group.members",
    "max.group.offsets",
    "max.groups",
    "max.incremental.fetch.session.cache.slots",
    "max.message.bytes",
    "max.metadata.bytes",
    "max.partitions",
    "max.producer.ids",
    "max.segments",
    "max.waiting.requests",
    "memory.budget.bytes",
    "offset.metadata.max.bytes",
    "receive.stall.timeout.ms",
    "socket.request.max.bytes",
];

/// All counters of the server. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) messages_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) produce_batches: Counter,
    pub(crate) failed_produce: Counter,
    pub(crate) failed_fetch: Counter,
    pub(crate) fetches: Counter,
    pub(crate) requests: Counter,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) foreign_protocols: Counter,
    /// Most anonymous memory seen by a sample, bytes.
    peak_rss_anon: Arc<AtomicU64>,
    /// Requests by API.
    pub(crate) apis: Arc<Apis>,
    limits: Arc<[AtomicU64; LIMITS.len()]>,
}

impl Metrics {
    pub(crate) fn produced(&self, records: u32, bytes: usize) {
        self.messages_in.inc_by(u64::from(records));
        self.bytes_in.inc_by(bytes as u64);
        self.produce_batches.inc();
    }

    /// Notes a sample of the process's anonymous memory and returns the largest so far.
    pub(crate) fn note_anonymous(&self, bytes: u64) -> u64 {
        self.peak_rss_anon.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }

    pub(crate) fn failed_produce(&self) {
        self.failed_produce.inc();
    }

    pub(crate) fn fetched(&self, bytes: u64) {
        self.fetches.inc();
        self.bytes_out.inc_by(bytes);
    }

    pub(crate) fn failed_fetch(&self) {
        self.failed_fetch.inc();
    }

    pub(crate) fn accepted_connection(&self) {
        self.connections_accepted.inc();
    }

    pub(crate) fn refused_connection(&self) {
        self.connections_refused.inc();
    }

    /// Notes that the limit of `property`, one of [`LIMITS`], refused or ended something.
    pub(crate) fn limit_reached(&self, property: &str) {
        let at = LIMITS.iter().position(|limit| *limit == property);
        debug_assert!(at.is_some(), "{property} is not in the table of limits");
        if let Some(count) = at.and_then(|at| self.limits.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often each limit was reached.
    pub(crate) fn limits_reached(&self) -> impl Iterator<Item = (&'static str, u64)> {
        LIMITS.iter().zip(self.limits.iter()).map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
    }
}

/// Upper bounds of the histogram of request times in microseconds: powers of two from 128 µs to 34 s.
pub(crate) const TIME_BUCKETS: usize = 19;

/// The upper bound of bucket `index` in microseconds; the bucket after the last takes what is longer.
pub(crate) fn bucket_us(index: usize) -> u64 {
    128 << index
}

/// Requests of the served APIs.
#[derive(Debug)]
pub(crate) struct Apis {
    rows: Vec<Api>,
    errors: Mutex<BTreeMap<(ApiKey, i16), u64>>,
    window: AtomicUsize,
}

/// Requests of one API.
#[derive(Debug)]
pub(crate) struct Api {
    /// Which.
    pub(crate) key: ApiKey,
    first_version: i16,
    versions: Vec<AtomicU64>,
    /// Requests that ended their connection: malformed, refused for good, or cut off.
    pub(crate) ended: AtomicU64,
    without_error: AtomicU64,
    sum_us: AtomicU64,
    times: [AtomicU64; TIME_BUCKETS + 1],
    /// The same for the present minute and the one before it.
    recent: [[AtomicU64; TIME_BUCKETS + 1]; 2],
}

impl Default for Apis {
    fn default() -> Self {
        let rows = SERVED.iter().map(|(key, range)| Api {
            key: *key,
            first_version: range.min,
            versions: (range.min..=range.max).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicU64::new(0),
            without_error: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            times: Default::default(),
            recent: Default::default(),
        });
        Apis { rows: rows.collect(), errors: Mutex::default(), window: AtomicUsize::new(0) }
    }
}

impl Apis {
    fn row(&self, key: ApiKey) -> Option<&Api> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// Every API that was asked for since the start.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Api> {
        self.rows.iter().filter(|row| row.versions.iter().any(|count| count.load(Ordering::Relaxed) > 0))
    }

    /// Counts a request whose header has arrived.
    pub(crate) fn began(&self, key: ApiKey, version: i16) {
        let Some(row) = self.row(key) else { return };
        let at = usize::try_from(i32::from(version) - i32::from(row.first_version));
        if let Some(count) = at.ok().and_then(|at| row.versions.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the time from a request's header to the last byte of its reply; `served` is false where the connection
    /// ended instead.
    pub(crate) fn ended(&self, key: ApiKey, took: Duration, served: bool) {
        let Some(row) = self.row(key) else { return };
        if !served {
            row.ended.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let us = took.as_micros() as u64;
        let bucket = (0..TIME_BUCKETS).find(|index| us <= bucket_us(*index)).unwrap_or(TIME_BUCKETS);
        row.times[bucket].fetch_add(1, Ordering::Relaxed);
        row.recent[self.window.load(Ordering::Relaxed) & 1][bucket].fetch_add(1, Ordering::Relaxed);
        row.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Counts what a reply told: `first_error` is the first error code in it, if it has one.
    pub(crate) fn answered(&self, key: ApiKey, first_error: Option<i16>) {
        match first_error {
            None => {
                if let Some(row) = self.row(key) {
                    row.without_error.fetch_add(1, Ordering::Relaxed);
                }
            }
            Some(code) => *self.errors.lock().entry((key, code)).or_insert(0) += 1,
        }
    }

    /// Replies by API and first error code, those without an error included.
    pub(crate) fn errors(&self) -> Vec<(ApiKey, &'static str, u64)> {
        let mut all: Vec<_> = self
            .rows
            .iter()
            .map(|row| (row.key, "NONE", row.without_error.load(Ordering::Relaxed)))
            .filter(|(_, _, count)| *count > 0)
            .collect();
        let errors = self.errors.lock();
        all.extend(
            errors.iter().map(|((key, code), count)| (*key, ErrorCode(*code).name().unwrap_or("?"), *count)),
        );
        all
    }

    /// Begins a new minute for the quantiles.
    pub(crate) fn turn_window(&self) {
        let next = (self.window.load(Ordering::Relaxed) + 1) & 1;
        for row in &self.rows {
            row.recent[next].iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
        self.window.store(next, Ordering::Relaxed);
    }
}

impl Api {
    /// Requests by version.
    pub(crate) fn by_version(&self) -> impl Iterator<Item = (i16, u64)> {
        (self.first_version..).zip(self.versions.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Counts by bucket since the start, and the sum of all times in microseconds.
    pub(crate) fn times(&self) -> ([u64; TIME_BUCKETS + 1], u64) {
        (load(&self.times), self.sum_us.load(Ordering::Relaxed))
    }

    /// Quantile `q` of the last one to two minutes in milliseconds; 0 without a request.
    pub(crate) fn recent_quantile_ms(&self, q: f64) -> f64 {
        let (one, other) = (load(&self.recent[0]), load(&self.recent[1]));
        let counts: Vec<u64> = one.iter().zip(other).map(|(a, b)| a + b).collect();
        quantile_ms(&counts, bucket_us, q)
    }
}

/// Quantile `q` of a histogram in milliseconds, between the bounds of its bucket; 0 when it is empty.
pub(crate) fn quantile_ms(counts: &[u64], bucket_us: fn(usize) -> u64, q: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let wanted = q * total as f64;
    let mut below = 0;
    for (index, count) in counts.iter().enumerate() {
        if *count > 0 && (below + count) as f64 >= wanted {
            let low = if index == 0 { 0.0 } else { bucket_us(index - 1) as f64 };
            let high = bucket_us(index) as f64;
            let part = ((wanted - below as f64) / *count as f64).clamp(0.0, 1.0);
            return (low + (high - low) * part) / 1000.0;
        }
        below += count;
    }
    0.0
}

fn load<const N: usize>(counts: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|index| counts[index].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_version_and_replies_by_their_first_error() {
        let apis = Apis::default();
        apis.began(ApiKey::Fetch, 12);
        apis.began(ApiKey::Fetch, 12);
        apis.began(ApiKey::Fetch, 99);
        apis.answered(ApiKey::Fetch, None);
        apis.answered(ApiKey::Fetch, Some(3));
        let used: Vec<_> = apis.used().map(|api| api.key).collect();
        assert_eq!(used, [ApiKey::Fetch]);
        let fetch = apis.used().next().unwrap();
        assert_eq!(fetch.by_version().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [(12, 2)]);
        assert_eq!(
            apis.errors(),
            [(ApiKey::Fetch, "NONE", 1), (ApiKey::Fetch, "UNKNOWN_TOPIC_OR_PARTITION", 1)]
        );
    }

    #[test]
    fn quantiles_forget_what_is_two_minutes_old() {
        let apis = Apis::default();
        apis.began(ApiKey::Produce, 9);
        for _ in 0..99 {
            apis.ended(ApiKey::Produce, Duration::from_micros(100), true);
        }
        apis.ended(ApiKey::Produce, Duration::from_millis(900), true);
        let produce = apis.used().next().unwrap();
        assert!(produce.recent_quantile_ms(0.5) < 0.128);
        assert!(produce.recent_quantile_ms(0.999) > 500.0);
        apis.turn_window();
        assert!(produce.recent_quantile_ms(0.999) > 500.0, "the last minute still counts");
        apis.turn_window();
        assert_eq!(produce.recent_quantile_ms(0.999), 0.0);
        let (counts, sum_us) = produce.times();
        assert_eq!((counts.iter().sum::<u64>(), sum_us), (100, 99 * 100 + 900_000));
    }

    #[test]
    fn every_limit_has_a_counter_of_its_own() {
        let metrics = Metrics::default();
        metrics.limit_reached("max.groups");
        metrics.clone().limit_reached("max.groups");
        let reached: Vec<_> = metrics.limits_reached().filter(|(_, count)| *count > 0).collect();
        assert_eq!(reached, [("max.groups", 2)]);
    }
}
