//! Counters of the data path, of requests by API, of topics, and of limits that were reached: what
//! `http/metrics_page.rs` renders besides the budgets.
//!
//! Invariant: nothing here is labelled by what a client names, but for topics, whose counters are a part of the topic
//! and go with it. The number of the others is bounded by the code: served APIs and their versions, Kafka's error codes,
//! the properties of [`LIMITS`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_protocol::messages::{ApiKey, ErrorCode};

use crate::handlers::SERVED;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub(crate) fn inc(&self) {
        self.inc_by(1);
    }

    /// So many more.
    pub(crate) fn inc_by(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What goes in and out: of one topic, and of all.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) messages_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) bytes_rejected: Counter,
    /// Batches that came, the refused ones included.
    pub(crate) produces: Counter,
    pub(crate) failed_produces: Counter,
    /// Reads of partitions, the failed ones included.
    pub(crate) fetches: Counter,
    pub(crate) failed_fetches: Counter,
}

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

/// All counters of the server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Of all topics, deleted ones included.
    pub(crate) traffic: Traffic,
    pub(crate) produce_batches: Counter,
    /// Batches that went from the socket into the log before they were checked.
    pub(crate) unread_batches: Counter,
    pub(crate) invalid_crc: Counter,
    pub(crate) invalid_magic: Counter,
    pub(crate) invalid_sequence: Counter,
    pub(crate) requests: Counter,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) foreign_protocols: Counter,
    /// Fetch requests whose wait ended with its time.
    pub(crate) expired_fetches: Counter,
    /// Fetch requests that wait now.
    pub(crate) waiting_fetches: AtomicU64,
    /// Most anonymous memory seen by a sample, bytes.
    peak_rss_anon: AtomicU64,
    /// Requests by API.
    pub(crate) apis: Apis,
    limits: [AtomicU64; LIMITS.len()],
    /// The idle part of the runtime's threads lately, in thousandths.
    pub(crate) idle_thousandths: AtomicU64,
}

/// Counts a waiting fetch for as long as it lives.
pub(crate) struct WaitingFetch<'a>(&'a Metrics);

impl Drop for WaitingFetch<'_> {
    fn drop(&mut self) {
        self.0.waiting_fetches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A fetch that waits from now on.
    pub(crate) fn waiting_fetch(&self) -> WaitingFetch<'_> {
        self.waiting_fetches.fetch_add(1, Ordering::Relaxed);
        WaitingFetch(self)
    }

    /// Notes a batch that was appended.
    pub(crate) fn produced(&self, topic: &Traffic, records: u32, bytes: usize) {
        for traffic in [&self.traffic, topic] {
            traffic.produces.inc();
            traffic.messages_in.inc_by(u64::from(records));
            traffic.bytes_in.inc_by(bytes as u64);
        }
        self.produce_batches.inc();
    }

    /// Notes a batch that was refused; `topic` if there is one.
    pub(crate) fn failed_produce(&self, topic: Option<&Traffic>, bytes: usize) {
        for traffic in [Some(&self.traffic), topic].into_iter().flatten() {
            traffic.produces.inc();
            traffic.failed_produces.inc();
            traffic.bytes_rejected.inc_by(bytes as u64);
        }
    }

    /// Notes a read of a partition that is part of an answer.
    pub(crate) fn fetched(&self, topic: Option<&Traffic>, bytes: u64, failed: bool) {
        for traffic in [Some(&self.traffic), topic].into_iter().flatten() {
            traffic.fetches.inc();
            traffic.bytes_out.inc_by(bytes);
            traffic.failed_fetches.inc_by(u64::from(failed));
        }
    }

    /// Notes a sample of the process's anonymous memory and returns the largest so far.
    pub(crate) fn note_anonymous(&self, bytes: u64) -> u64 {
        self.peak_rss_anon.fetch_max(bytes, Ordering::Relaxed).max(bytes)
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

/// Upper bounds of the histograms of times in microseconds: powers of two from 128 µs to 34 s.
pub(crate) const TIME_BUCKETS: usize = 19;

/// The upper bound of bucket `index` in microseconds; the bucket after the last takes what is longer.
pub(crate) fn bucket_us(index: usize) -> u64 {
    128 << index
}

type Buckets = [AtomicU64; TIME_BUCKETS + 1];

/// Times of one kind: since the start, and of the present minute and the one before it.
#[derive(Debug, Default)]
pub(crate) struct Times {
    all: Buckets,
    sum_us: AtomicU64,
    recent: [Buckets; 2],
    window: AtomicUsize,
}

impl Times {
    /// Counts one.
    pub(crate) fn note(&self, took: Duration) {
        let us = took.as_micros() as u64;
        let bucket = (0..TIME_BUCKETS).find(|index| us <= bucket_us(*index)).unwrap_or(TIME_BUCKETS);
        self.all[bucket].fetch_add(1, Ordering::Relaxed);
        self.recent[self.window.load(Ordering::Relaxed) & 1][bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Begins a new minute.
    pub(crate) fn turn(&self) {
        let next = (self.window.load(Ordering::Relaxed) + 1) & 1;
        self.recent[next].iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.window.store(next, Ordering::Relaxed);
    }

    /// Counts by bucket since the start, and the sum of all times in microseconds.
    pub(crate) fn since_start(&self) -> ([u64; TIME_BUCKETS + 1], u64) {
        (load(&self.all), self.sum_us.load(Ordering::Relaxed))
    }

    /// How many there were since the start.
    pub(crate) fn count(&self) -> u64 {
        load(&self.all).iter().sum()
    }

    /// Quantile `q` of the last one to two minutes in milliseconds, between the bounds of its bucket; 0 without any.
    pub(crate) fn recent_quantile_ms(&self, q: f64) -> f64 {
        let (one, other) = (load(&self.recent[0]), load(&self.recent[1]));
        let counts: [u64; TIME_BUCKETS + 1] = std::array::from_fn(|index| one[index] + other[index]);
        quantile_ms(&counts, bucket_us, q)
    }
}

fn load(counts: &Buckets) -> [u64; TIME_BUCKETS + 1] {
    std::array::from_fn(|index| counts[index].load(Ordering::Relaxed))
}

/// The parts of the time that a request took, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// Until it was whole: for its bytes, and for memory.
    pub(crate) queue_us: u32,
    /// While it was worked on.
    pub(crate) local_us: u32,
    /// While it waited for others: for records, for members.
    pub(crate) remote_us: u32,
    /// While its reply was sent.
    pub(crate) send_us: u32,
}

/// Requests of the served APIs.
#[derive(Debug)]
pub(crate) struct Apis {
    rows: Vec<Api>,
    errors: Mutex<BTreeMap<(ApiKey, i16), u64>>,
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
    /// From a request's header to the last byte of its reply.
    pub(crate) total: Times,
    /// The parts of that, in the order of [`Took`].
    pub(crate) parts: [Times; 4],
}

impl Default for Apis {
    fn default() -> Self {
        let rows = SERVED.iter().map(|(key, range)| Api {
            key: *key,
            first_version: range.min,
            versions: (range.min..=range.max).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicU64::new(0),
            without_error: AtomicU64::new(0),
            total: Times::default(),
            parts: Default::default(),
        });
        Apis { rows: rows.collect(), errors: Mutex::default() }
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

    /// Counts the time that a request took; `None` where the connection ended instead.
    pub(crate) fn ended(&self, key: ApiKey, took: Option<Took>) {
        let Some(row) = self.row(key) else { return };
        let Some(took) = took else {
            row.ended.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let parts = [took.queue_us, took.local_us, took.remote_us, took.send_us]
            .map(|us| Duration::from_micros(u64::from(us)));
        row.total.note(parts.iter().sum());
        row.parts.iter().zip(parts).for_each(|(times, part)| times.note(part));
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
        for row in &self.rows {
            row.total.turn();
            row.parts.iter().for_each(Times::turn);
        }
    }
}

impl Api {
    /// Kafka's names for these requests: fetches of consumers, which is all of them here, are also by a name of their own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let by_sender = (self.key == ApiKey::Fetch).then_some("FetchConsumer");
        std::iter::once(self.key.name()).chain(by_sender)
    }

    /// Requests by version.
    pub(crate) fn by_version(&self) -> impl Iterator<Item = (i16, u64)> {
        (self.first_version..).zip(self.versions.iter().map(|count| count.load(Ordering::Relaxed)))
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
        let took = |us| Some(Took { local_us: us, ..Took::default() });
        for _ in 0..99 {
            apis.ended(ApiKey::Produce, took(100));
        }
        apis.ended(ApiKey::Produce, took(900_000));
        apis.ended(ApiKey::Produce, None);
        let produce = &apis.used().next().unwrap().total;
        assert!(produce.recent_quantile_ms(0.5) < 0.128);
        assert!(produce.recent_quantile_ms(0.999) > 500.0);
        apis.turn_window();
        assert!(produce.recent_quantile_ms(0.999) > 500.0, "the last minute still counts");
        apis.turn_window();
        assert_eq!(produce.recent_quantile_ms(0.999), 0.0);
        let (counts, sum_us) = produce.since_start();
        assert_eq!((counts.iter().sum::<u64>(), sum_us), (100, 99 * 100 + 900_000));
    }

    #[test]
    fn every_limit_has_a_counter_of_its_own() {
        let metrics = Metrics::default();
        metrics.limit_reached("max.groups");
        metrics.limit_reached("max.groups");
        let reached: Vec<_> = metrics.limits_reached().filter(|(_, count)| *count > 0).collect();
        assert_eq!(reached, [("max.groups", 2)]);
    }
}
