//! The load: huge requests at once, promises that stall, and two clients that behave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Barrier, Notify, oneshot};
use tokio::task::JoinSet;
use weir_protocol::messages::ApiKey;
use weir_protocol::records::{BatchBuilder, Codec};

use super::Options;
use crate::load::LoadError;
use crate::load::client::Client;
use crate::load::fetch::fetch;
use crate::load::latency::Latencies;
use crate::load::produce::{Produce, batch_of};

const FLOODED: &str = "flood";
const BEHAVED: &str = "orders";
/// The well-behaved producer has new records this often.
const PACE: Duration = Duration::from_millis(10);
const RECORDS_A_BEAT: usize = 10;
/// Beats whose records go with one request at most.
const MAX_DUE: u32 = 500;
const RECORD_BYTES: usize = 100;
/// How long a huge request may take, from its first byte to its answer.
const REQUEST_PATIENCE: Duration = Duration::from_secs(60);
/// How long the consumer may take to see what was acknowledged.
const CATCH_UP: Duration = Duration::from_secs(60);

/// How much of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Connections that each send a huge request at once.
    pub(crate) floods: usize,
    /// Batches of such a request, one for each partition.
    pub(crate) batches: i32,
    /// Bytes of a batch.
    pub(crate) batch_bytes: usize,
    /// Connections that promise a frame and stall.
    pub(crate) promises: usize,
    /// The frame that they promise, bytes.
    pub(crate) promised_bytes: i32,
    /// How long new huge requests are sent.
    pub(crate) seconds: u64,
}

impl Plan {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let batch_bytes = batch_of(1 << 20, now_ms()).map_err(|error| error.to_string())?.len();
        Ok(Plan {
            floods: options.connections,
            batches: options.batches,
            batch_bytes,
            promises: 200,
            promised_bytes: 100 << 20,
            seconds: options.seconds,
        })
    }

    /// Bytes of one huge request.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.batches as u64 * self.batch_bytes as u64
    }

    /// What a broker would need that reads whole requests into memory and believes size prefixes.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.floods as u64 * self.request_bytes() + self.promises as u64 * self.promised_bytes as u64
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "attack: {} connections send a produce request of {} at once, {} more promise a frame of {} and stall; \
             all at once that is {}",
            self.floods,
            super::report::size(self.request_bytes()),
            self.promises,
            super::report::size(self.promised_bytes as u64),
            super::report::size(self.asked_bytes()),
        )
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Requests and errors of one kind of client.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sent: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    first_error: std::sync::Mutex<Option<String>>,
    latencies: std::sync::Mutex<Latencies>,
}

/// What a [`Tally`] came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) latencies: Latencies,
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Tally {
    /// Counts an answer that stands for one or several things, each with its latency.
    fn answered(&self, latencies: impl IntoIterator<Item = Duration>) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let mut all = lock(&self.latencies);
        latencies.into_iter().for_each(|latency| all.note(latency));
    }

    fn failed(&self, error: &LoadError) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        lock(&self.first_error).get_or_insert_with(|| error.to_string());
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            sent: self.sent.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            first_error: lock(&self.first_error).clone(),
            latencies: lock(&self.latencies).clone(),
        }
    }
}

/// The attack and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Attacked {
    /// The huge requests.
    pub(crate) floods: Outcome,
    /// From the first byte to the last answer.
    pub(crate) took: Duration,
    /// Promises that were still open when the attack ended.
    pub(crate) promises_open: u64,
}

/// The clients that behave and their outcome.
#[derive(Clone, Debug)]
pub(crate) struct Behaved {
    /// Requests of the producer.
    pub(crate) producer: Outcome,
    /// Records of the consumer; latencies from the producer's clock to the consumer's.
    pub(crate) consumer: Outcome,
    /// Records that were acknowledged and not seen.
    pub(crate) missing: u64,
}

/// Counts a promise until it ends.
struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everything that runs against one broker.
pub(super) struct Attack {
    address: SocketAddr,
    plan: Plan,
    batch: Vec<u8>,
    floods: Tally,
    promises_open: AtomicU64,
    producer: Tally,
    consumer: Tally,
    produced: AtomicU64,
    producing: AtomicBool,
    end: std::sync::Mutex<Option<oneshot::Receiver<()>>>,
    zero: Instant,
}

impl Attack {
    /// Makes the topics.
    pub(super) async fn prepare(address: SocketAddr, plan: Plan) -> Result<Arc<Self>, String> {
        let fail = |error: LoadError| error.to_string();
        let mut client = Client::connect(address, "weir-demo").await.map_err(fail)?;
        client.create_topic(FLOODED, plan.batches, &[]).await.map_err(fail)?;
        client.create_topic(BEHAVED, 1, &[("retention.bytes", "-1")]).await.map_err(fail)?;
        Ok(Arc::new(Attack {
            address,
            plan,
            batch: batch_of(1 << 20, now_ms()).map_err(fail)?,
            floods: Tally::default(),
            promises_open: AtomicU64::new(0),
            producer: Tally::default(),
            consumer: Tally::default(),
            produced: AtomicU64::new(0),
            producing: AtomicBool::new(true),
            end: std::sync::Mutex::default(),
            zero: Instant::now(),
        }))
    }

    /// A few words on how far it is.
    pub(super) fn progress(&self) -> String {
        let errors: u64 = [&self.floods, &self.producer, &self.consumer]
            .iter()
            .map(|tally| tally.errors.load(Ordering::Relaxed))
            .sum();
        format!(
            "{} huge requests answered, {} promises held, {} records of the producer, {errors} errors",
            self.floods.answered.load(Ordering::Relaxed),
            self.promises_open.load(Ordering::Relaxed),
            self.produced.load(Ordering::Relaxed),
        )
    }

    /// Starts the clients that behave, on a thread of their own: what they measure is the broker, not this program's
    /// own attack.
    pub(super) fn behave(self: &Arc<Self>) -> Result<(), String> {
        let fail = |error: std::io::Error| format!("cannot start the clients: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let attack = Arc::clone(self);
        let (ended, end) = oneshot::channel();
        *lock(&self.end) = Some(end);
        let thread = std::thread::Builder::new().name("clients".to_string()).spawn(move || {
            runtime.block_on(async {
                let consumer = tokio::spawn(Arc::clone(&attack).consume());
                Arc::clone(&attack).produce().await;
                // The consumer sees what was acknowledged, within reason.
                let deadline = Instant::now() + CATCH_UP;
                while attack.missing() > 0 && Instant::now() < deadline {
                    tokio::time::sleep(PACE).await;
                }
                consumer.abort();
            });
            // Nobody waits any more where the demo was interrupted.
            let _ = ended.send(());
        });
        thread.map(drop).map_err(fail)
    }

    /// Acknowledged records that the consumer has not seen.
    fn missing(&self) -> u64 {
        let seen = self.consumer.answered.load(Ordering::Relaxed);
        self.produced.load(Ordering::Relaxed).saturating_sub(seen)
    }

    /// Runs the attack: until all huge requests are answered, and new ones are no longer sent.
    pub(super) async fn run(self: &Arc<Self>) -> Attacked {
        let stop = Arc::new(Notify::new());
        let mut promises = JoinSet::new();
        for _ in 0..self.plan.promises {
            promises.spawn(Arc::clone(self).promise(Arc::clone(&stop)));
        }
        let start = Arc::new(Barrier::new(self.plan.floods + 1));
        let mut floods = JoinSet::new();
        for _ in 0..self.plan.floods {
            floods.spawn(Arc::clone(self).flood(Arc::clone(&start)));
        }
        start.wait().await;
        let began = Instant::now();
        while floods.join_next().await.is_some() {}
        let took = began.elapsed();
        let promises_open = self.promises_open.load(Ordering::Relaxed);
        stop.notify_waiters();
        promises.shutdown().await;
        Attacked { floods: self.floods.outcome(), took, promises_open }
    }

    /// Stops the clients that behave, the consumer once it has seen all.
    pub(super) async fn settle(&self) -> Behaved {
        self.producing.store(false, Ordering::Relaxed);
        let end = lock(&self.end).take();
        if let Some(end) = end {
            // A thread that panicked leaves its figures as they are.
            let _ = end.await;
        }
        Behaved {
            producer: self.producer.outcome(),
            consumer: self.consumer.outcome(),
            missing: self.missing(),
        }
    }

    async fn flood(self: Arc<Self>, start: Arc<Barrier>) {
        let connected = Client::connect(self.address, "flood").await;
        start.wait().await;
        let mut client = match connected {
            Ok(client) => client,
            Err(error) => return self.floods.failed(&error),
        };
        let until = Instant::now() + Duration::from_secs(self.plan.seconds);
        loop {
            self.floods.sent.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            let request =
                Produce { topic: FLOODED, partitions: self.plan.batches, acks: -1, batch: &self.batch };
            let result = match tokio::time::timeout(REQUEST_PATIENCE, request.send(&mut client)).await {
                Ok(sent) => sent.map(|()| began.elapsed()),
                Err(_) => {
                    Err(LoadError::TimedOut { api: ApiKey::Produce, seconds: REQUEST_PATIENCE.as_secs() })
                }
            };
            match result {
                Ok(took) => self.floods.answered([took]),
                Err(error) => return self.floods.failed(&error),
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    async fn promise(self: Arc<Self>, stop: Arc<Notify>) {
        let Ok(mut stream) = TcpStream::connect(self.address).await else { return };
        if stream.write_all(&self.plan.promised_bytes.to_be_bytes()).await.is_err() {
            return;
        }
        self.promises_open.fetch_add(1, Ordering::Relaxed);
        let _open = Open(&self.promises_open);
        let mut byte = [0];
        tokio::select! {
            // Nothing is ever answered: what ends this read is the end of the connection.
            _ = stream.read(&mut byte) => {}
            () = stop.notified() => {}
        }
    }

    /// Sends what has become due since the last request, as Kafka's producer does: what waits goes with the next one.
    async fn produce(self: Arc<Self>) {
        let mut client = Client::connect(self.address, "orders-producer").await.ok();
        let mut next_due = Instant::now();
        while self.producing.load(Ordering::Relaxed) {
            tokio::time::sleep_until(next_due.into()).await;
            let late = next_due.elapsed().as_nanos() / PACE.as_nanos();
            let count = u32::try_from(late + 1).unwrap_or(u32::MAX).min(MAX_DUE);
            self.producer.sent.fetch_add(1, Ordering::Relaxed);
            match self.produce_once(&mut client, next_due, count).await {
                Ok(()) => self.producer.answered((0..count).map(|beat| (next_due + PACE * beat).elapsed())),
                Err(error) => {
                    self.producer.failed(&error);
                    client = Client::connect(self.address, "orders-producer").await.ok();
                }
            }
            next_due += PACE * count;
        }
    }

    async fn produce_once(
        &self,
        client: &mut Option<Client>,
        next_due: Instant,
        beats: u32,
    ) -> Result<(), LoadError> {
        let client = client.as_mut().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected))?;
        let mut value = [b'.'; RECORD_BYTES];
        let mut builder = BatchBuilder::new(Codec::None);
        for beat in 0..beats {
            let due = next_due + PACE * beat;
            let due_us = due.saturating_duration_since(self.zero).as_micros() as u64;
            value[..8].copy_from_slice(&due_us.to_be_bytes());
            for _ in 0..RECORDS_A_BEAT {
                builder.append(now_ms(), None, Some(&value), &[])?;
            }
        }
        let batch = builder.build()?;
        Produce { topic: BEHAVED, partitions: 1, acks: -1, batch: &batch }.send(client).await?;
        self.produced.fetch_add(u64::from(beats) * RECORDS_A_BEAT as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn consume(self: Arc<Self>) {
        let mut client = Client::connect(self.address, "orders-consumer").await.ok();
        let mut offset = 0;
        loop {
            let result = self.consume_once(&mut client, offset).await;
            match result {
                Ok(next) => offset = next,
                Err(error) => {
                    self.consumer.failed(&error);
                    client = Client::connect(self.address, "orders-consumer").await.ok();
                    tokio::time::sleep(PACE).await;
                }
            }
        }
    }

    async fn consume_once(&self, client: &mut Option<Client>, offset: i64) -> Result<i64, LoadError> {
        let client = client.as_mut().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected))?;
        self.consumer.sent.fetch_add(1, Ordering::Relaxed);
        fetch(client, BEHAVED, 0, offset, |record| {
            // The producer wrote when the record was due.
            let due_us =
                record.value.and_then(|value| value.first_chunk()).map_or(0, |b| u64::from_be_bytes(*b));
            let took = self.zero.elapsed().saturating_sub(Duration::from_micros(due_us));
            self.consumer.answered([took]);
        })
        .await
    }
}
