//! Producers: batches that fill up at full speed or come due at a rate, several requests under way on a connection.
//!
//! At a rate each record is due at a time of its own, and its latency counts from there: a broker that stalls cannot
//! hide it by slowing the producer down. At full speed latency counts from the moment the batch is ready to be sent.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_protocol::records::{BatchBuilder, Codec};

use super::target::{LATEST, Leader, connect_first, ends, leaders, wait_for};
use super::{Lane, Lanes, Report};
use crate::load::LoadError;
use crate::load::produce::{AnswerReader, ProduceWriter, pipeline, unpipeline};

/// What the framing of a record may take beside its value.
const RECORD_OVERHEAD_BYTES: usize = 24;
/// Requests with acks = 0 that are counted as under way; there is no answer that would end them.
const UNANSWERED: usize = 1;

/// How to produce.
#[derive(Clone, Debug)]
pub(crate) struct ProduceOptions {
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
    /// Partitions of the topic if it has to be made.
    pub(crate) partitions: i32,
    pub(crate) producers: usize,
    pub(crate) record_size_bytes: usize,
    pub(crate) batch_size_bytes: usize,
    pub(crate) linger: Duration,
    pub(crate) acks: i16,
    pub(crate) codec: Codec,
    pub(crate) in_flight: usize,
    /// Records a second of all producers together; `None` for as fast as it goes.
    pub(crate) rate: Option<f64>,
    /// Records of all producers together.
    pub(crate) records: Option<u64>,
    pub(crate) time: Option<Duration>,
}

/// What one lane is to do.
#[derive(Clone, Debug)]
struct Share {
    topic: Arc<str>,
    partitions: Vec<i32>,
    rate: Option<f64>,
    records: u64,
    end: Option<Instant>,
    /// Where this lane stands among all, so that not all records come due at once.
    phase: f64,
}

/// Runs the producers.
///
/// # Errors
/// When the topic or a broker cannot be reached. What fails later is in the report.
pub(crate) async fn produce(options: &ProduceOptions) -> Result<Report, String> {
    let mut client = connect_first(&options.bootstrap).await?;
    let leaders = leaders(&mut client, &options.topic, Some(options.partitions)).await?;
    drop(client);
    let mut pipelines = Vec::new();
    for _ in 0..options.producers {
        for leader in &leaders {
            let mut client = leader.connect().await?;
            wait_for(&mut client, &options.topic, &leader.partitions).await?;
            pipelines.push((leader, pipeline(client)));
        }
    }
    let batches = Batches::new(options)?;
    let lanes = Lanes::new("sent", pipelines.len());
    let watch = lanes.watch();
    let began = Instant::now();
    let total: usize = leaders.iter().map(|leader| leader.partitions.len()).sum();
    let mut tasks = JoinSet::new();
    let mut left = Quota { records: options.records.unwrap_or(u64::MAX), weight: total * options.producers };
    for (index, ((leader, pipeline), lane)) in pipelines.into_iter().zip(&lanes.lanes).enumerate() {
        let part = leader.partitions.len() as f64 / (total * options.producers) as f64;
        let share = Share {
            topic: options.topic.as_str().into(),
            partitions: rotated(leader, index),
            rate: options.rate.map(|rate| rate * part),
            records: left.take(leader.partitions.len()),
            end: options.time.map(|time| began + time),
            phase: index as f64 / lanes.lanes.len() as f64,
        };
        let (lane, batches, options) = (Arc::clone(lane), Arc::clone(&batches), options.clone());
        tasks.spawn(async move {
            if let Err(error) = run(&lane, &batches, &options, share, began, pipeline).await {
                lane.failed(&error);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    drop(watch);
    Ok(lanes.report(began.elapsed()))
}

/// Divides a number of records by weights without losing one.
struct Quota {
    records: u64,
    weight: usize,
}

impl Quota {
    fn take(&mut self, weight: usize) -> u64 {
        if self.records == u64::MAX {
            return u64::MAX;
        }
        let part = (u128::from(self.records) * weight as u128 / self.weight.max(1) as u128) as u64;
        self.records -= part;
        self.weight -= weight;
        part
    }
}

fn rotated(leader: &Leader, by: usize) -> Vec<i32> {
    let mut partitions = leader.partitions.clone();
    let by = by % partitions.len().max(1);
    partitions.rotate_left(by);
    partitions
}

/// The batches of a run: the full one is made once, smaller ones when they are needed.
struct Batches {
    values: Vec<u8>,
    record_size_bytes: usize,
    full: usize,
    codec: Codec,
    whole: Vec<u8>,
}

impl Batches {
    fn new(options: &ProduceOptions) -> Result<Arc<Self>, String> {
        let size = options.record_size_bytes;
        let full = (options.batch_size_bytes.saturating_sub(weir_protocol::records::HEADER_SIZE_BYTES)
            / (size + RECORD_OVERHEAD_BYTES))
            .max(1);
        let mut batches = Batches {
            values: letters(size * full.min(64)),
            record_size_bytes: size,
            full,
            codec: options.codec,
            whole: Vec::new(),
        };
        batches.whole = batches.build(full).map_err(|error| error.to_string())?;
        Ok(Arc::new(batches))
    }

    fn build(&self, count: usize) -> Result<Vec<u8>, LoadError> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let mut builder = BatchBuilder::new(self.codec);
        let mut values = self.values.chunks_exact(self.record_size_bytes.max(1)).cycle();
        for _ in 0..count {
            builder.append(now_ms, None, Some(values.next().unwrap_or_default()), &[])?;
        }
        Ok(builder.build()?)
    }
}

/// Capital letters at random, as the field's tools send them: they compress to about six tenths.
fn letters(count: usize) -> Vec<u8> {
    let mut state = 0x5eed_u64;
    let mut next = || {
        // SplitMix64 (Steele et al., 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| b'A' + (next() % 26) as u8).collect()
}

/// A request that was sent.
struct Sent {
    records: u64,
    bytes: u64,
    wire_bytes: u64,
    due: Due,
    _under_way: OwnedSemaphorePermit,
}

/// From when on the latency of a request's records counts.
enum Due {
    Together(Instant),
    /// The first, and the time from one to the next.
    OneByOne(Instant, Duration),
}

async fn run(
    lane: &Lane,
    batches: &Batches,
    options: &ProduceOptions,
    share: Share,
    began: Instant,
    (writer, reader): (ProduceWriter, AnswerReader),
) -> Result<(), LoadError> {
    let under_way = Arc::new(Semaphore::new(if options.acks == 0 { UNANSWERED } else { options.in_flight }));
    let (sender, receiver) = mpsc::unbounded_channel();
    if options.acks == 0 {
        let (topic, partitions) = (Arc::clone(&share.topic), share.partitions.clone());
        let writer = send_requests(lane, batches, options, share, began, writer, under_way, sender).await?;
        // What fills the buffers of the sockets is not taken yet.
        let mut client = unpipeline(writer, reader)?;
        return ends(&mut client, &topic, &partitions, LATEST).await.map(drop);
    }
    let requests = send_requests(lane, batches, options, share, began, writer, under_way, sender);
    let (sent, answered) = tokio::join!(requests, read_answers(lane, reader, receiver));
    answered.and(sent.map(drop))
}

/// Ends when the channel is closed and everything that was sent is answered.
async fn read_answers(
    lane: &Lane,
    mut reader: AnswerReader,
    mut sent: mpsc::UnboundedReceiver<Sent>,
) -> Result<(), LoadError> {
    while let Some(sent) = sent.recv().await {
        match reader.next().await {
            Ok(()) => {
                let now = Instant::now();
                lane.note(|latencies| match sent.due {
                    Due::Together(due) => latencies.note_many(now - due, sent.records),
                    Due::OneByOne(first, gap) => (0..sent.records)
                        .for_each(|n| latencies.note(now.saturating_duration_since(first + gap * n as u32))),
                });
                lane.done(sent.records, sent.bytes, sent.wire_bytes);
            }
            // The broker's word on this batch; the next one may fare better.
            Err(error @ LoadError::Answer { .. }) => lane.failed(&error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "one call, each of another kind")]
async fn send_requests(
    lane: &Lane,
    batches: &Batches,
    options: &ProduceOptions,
    share: Share,
    began: Instant,
    mut writer: ProduceWriter,
    under_way: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<Sent>,
) -> Result<ProduceWriter, LoadError> {
    let gap = share.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let due_at = |n: u64| match share.rate {
        Some(rate) => began + Duration::from_secs_f64((n as f64 + share.phase) / rate),
        None => began,
    };
    let over = |at: Instant| share.end.is_some_and(|end| at >= end);
    let mut sent = 0;
    let mut turn = 0;
    while sent < share.records && !over(Instant::now().max(due_at(sent))) {
        let most = (batches.full as u64).min(share.records - sent);
        let mut count = most;
        if share.rate.is_some() {
            let last_due = due_at(sent + most - 1);
            tokio::time::sleep_until((due_at(sent) + options.linger).min(last_due)).await;
            count = 1;
            let now = Instant::now();
            while count < most && due_at(sent + count) <= now {
                count += 1;
            }
        }
        let ready = Instant::now();
        let Ok(permit) = Arc::clone(&under_way).acquire_owned().await else { return Ok(writer) };
        if sender.is_closed() && options.acks != 0 {
            // The reader has said why.
            return Ok(writer);
        }
        let built = if count as usize == batches.full { None } else { Some(batches.build(count as usize)?) };
        let batch = built.as_ref().unwrap_or(&batches.whole);
        let (bytes, wire_bytes) = (count * batches.record_size_bytes as u64, batch.len() as u64);
        let partition = share.partitions.get(turn % share.partitions.len().max(1)).copied().unwrap_or(0);
        turn += 1;
        let due = match gap {
            Some(gap) => Due::OneByOne(due_at(sent), gap),
            None => Due::Together(ready),
        };
        if options.acks == 0 {
            writer.send((&share.topic, partition), options.acks, batch).await?;
            lane.note(|latencies| latencies.note_many(ready.elapsed(), count));
            lane.done(count, bytes, wire_bytes);
        } else {
            // First the note, then the request: an answer must find it.
            let _ = sender.send(Sent { records: count, bytes, wire_bytes, due, _under_way: permit });
            writer.send((&share.topic, partition), options.acks, batch).await?;
        }
        sent += count;
    }
    Ok(writer)
}
