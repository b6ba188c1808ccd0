//! ListOffsets: the ends of partitions, and offsets by timestamp, down to the record inside a compressed batch.
//!
//! Method: ends are read from memory. A lookup by timestamp reads files, so it runs on a blocking thread; the batch
//! that it looks into lies under a lease of the receive share, which has room for the largest batch and its
//! decompression. How much a batch takes is known when it is found: the lookup then stops, waits for the memory and
//! runs again. The request itself waits among those that wait, so that control traffic never waits behind the data; where
//! as many wait as may, the client is told to ask again. A batch that can never fit, from a log that another server wrote, is
//! answered by its header: with its first offset, from which a consumer misses nothing.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use weir_budget::{BudgetError, Holder, Lease};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k02_list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use weir_protocol::records::{
    BatchErrorKind, Codec, InflateLimits, Scratch, TimestampedOffset, find_offset_by_timestamp,
    find_offset_of_max_timestamp, max_working_memory_bytes, working_memory_bytes,
};
use weir_storage::{BatchRange, StorageError};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::request::{Reply, Request};
use crate::topics::Partition;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// From this version on a client knows that an offset may not be available for a while.
const FIRST_WITH_NOT_AVAILABLE: i16 = 5;
/// "No offset" and "no timestamp" in an answer.
const NONE: i64 = -1;
const NO_EPOCH: i32 = -1;
/// `replica_id` of a client; a replica, or a tool that plays one, sees up to the log end.
const CONSUMER: i32 = -1;
const READ_COMMITTED: i8 = 1;

/// What is found for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

impl Found {
    const NOTHING: Found = Found { offset: NONE, timestamp: NONE, leader_epoch: NO_EPOCH };
}

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ListOffsetsRequest::decode)?;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    let entry = size_of::<ListOffsetsPartitionResponse>() + 2 * size_of::<(&str, i32)>();
    let topic = size_of::<ListOffsetsTopicResponse>();
    let names: usize = asked.topics.iter().map(|it| topic + it.name.len()).sum();
    request.lease_more(partitions.saturating_mul(entry) + names).await?;
    let repeated = repeated(&asked);
    let mut waits = false;
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            tokio::task::coop::consume_budget().await;
            let name = (topic.name.as_str(), partition.partition_index);
            let found = if repeated.binary_search(&name).is_ok() {
                Err(ErrorCode::INVALID_REQUEST)
            } else {
                answer(&mut request, &mut waits, &asked, &topic.name, partition).await
            };
            let (error_code, found) = match found {
                Ok(found) => (ErrorCode::NONE, found),
                Err(code) => (code, Found::NOTHING),
            };
            partitions.push(ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                error_code,
                timestamp: found.timestamp,
                offset: found.offset,
                leader_epoch: if request.version >= 4 { found.leader_epoch } else { NO_EPOCH },
                ..ListOffsetsPartitionResponse::default()
            });
        }
        topics.push(ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions,
            ..ListOffsetsTopicResponse::default()
        });
    }
    let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

/// The partitions that are named more than once, in order.
fn repeated(asked: &ListOffsetsRequest) -> Vec<(&str, i32)> {
    let all = asked.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| (topic.name.as_str(), partition.partition_index))
    });
    let mut names = Vec::with_capacity(asked.topics.iter().map(|topic| topic.partitions.len()).sum());
    names.extend(all);
    names.sort_unstable();
    names.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0]).collect()
}

/// The first version that knows a special timestamp.
fn first_version(timestamp: i64) -> Option<i16> {
    match timestamp {
        0.. | LATEST | EARLIEST => Some(1),
        MAX_TIMESTAMP => Some(7),
        EARLIEST_LOCAL => Some(8),
        LATEST_TIERED => Some(9),
        EARLIEST_PENDING_UPLOAD => Some(11),
        _ => None,
    }
}

async fn answer(
    request: &mut Request,
    waits: &mut bool,
    asked: &ListOffsetsRequest,
    topic: &str,
    wanted: &ListOffsetsPartition,
) -> Result<Found, ErrorCode> {
    if first_version(wanted.timestamp).is_none_or(|first| request.version < first) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let partition =
        request.broker.led_partition(topic, wanted.partition_index, wanted.current_leader_epoch)?;
    let log = &partition.log;
    let last_fetchable = match (asked.replica_id, asked.isolation_level) {
        (CONSUMER, READ_COMMITTED) => log.last_stable_offset().get(),
        (CONSUMER, _) => log.high_watermark().get(),
        _ => log.log_end_offset().get(),
    };
    match wanted.timestamp {
        LATEST => {
            Ok(Found { offset: last_fetchable, timestamp: NONE, leader_epoch: partition.leader_epoch() })
        }
        EARLIEST | EARLIEST_LOCAL => {
            let start = log.log_start_offset().get();
            let epoch = log.leader_epochs().earliest().filter(|entry| entry.start_offset <= start);
            let leader_epoch = epoch.map_or(NO_EPOCH, |entry| entry.epoch);
            Ok(Found { offset: start, timestamp: NONE, leader_epoch })
        }
        // Nothing is tiered yet.
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(Found::NOTHING),
        timestamp => {
            let found = look_up(request, waits, &partition, timestamp).await?;
            Ok(match found {
                Some((found, leader_epoch)) if found.offset < last_fetchable => {
                    Found { offset: found.offset, timestamp: found.timestamp, leader_epoch }
                }
                _ => Found::NOTHING,
            })
        }
    }
}

/// Why a lookup ended without an answer.
enum Stopped {
    Storage(StorageError),
    /// The batch takes more memory than there is under the lease. With what its header says.
    NeedsMemory(u64, Found),
}

impl From<StorageError> for Stopped {
    fn from(error: StorageError) -> Self {
        Stopped::Storage(error)
    }
}

type Hit = Option<(TimestampedOffset, i32)>;

/// `waits` says whether the request has a place among those that wait.
async fn look_up(
    request: &mut Request,
    waits: &mut bool,
    partition: &Arc<Partition>,
    timestamp: i64,
) -> Result<Hit, ErrorCode> {
    let broker = Arc::clone(&request.broker);
    let mut needed: Option<(u64, Found)> = None;
    loop {
        let lease = match needed {
            None => None,
            Some((bytes, by_header)) => match lease_batch(request, waits, bytes).await {
                Ok(lease) => Some(lease),
                Err(BudgetError::Exhausted { .. }) => return Err(try_again(request.version)),
                Err(error) => return Ok(by_its_header(&broker, partition, by_header, &error)),
            },
        };
        let (partition_there, limits) = (Arc::clone(partition), broker.inflate_limits);
        let pool = broker.pool.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let memory = lease.as_ref().map_or(0, weir_budget::Lease::bytes);
            let _room = lease.as_ref().map(|lease| pool.beside(memory, lease.budget().limit()));
            search(&partition_there, timestamp, &limits, memory)
        });
        match looked.await {
            Ok(Ok(hit)) => return Ok(hit),
            // Each round asks for more than the one before, up to what the share holds.
            Ok(Err(Stopped::NeedsMemory(bytes, by_header)))
                if needed.is_none_or(|(before, _)| bytes > before) =>
            {
                needed = Some((bytes, by_header));
            }
            Ok(Err(Stopped::NeedsMemory(..))) | Err(_) => return Err(ErrorCode::UNKNOWN_SERVER_ERROR),
            Ok(Err(Stopped::Storage(error))) => {
                broker.note_read_failure(partition, &error);
                return Err(storage_code(&error));
            }
        }
    }
}

/// Leases memory for a batch, and waits for it where the request may wait.
async fn lease_batch(request: &mut Request, waits: &mut bool, bytes: u64) -> Result<Lease, BudgetError> {
    let receive = request.broker.budgets.receive.clone();
    let holder = Holder::new("timestamp lookup", request.connection.id);
    match receive.try_lease(bytes, holder) {
        Err(BudgetError::Exhausted { .. }) if *waits || request.may_wait() => {
            *waits = true;
            let began = Instant::now();
            let lease = receive.lease(bytes, holder).await;
            request.connection.waited(began);
            lease
        }
        leased => leased,
    }
}

/// What a client takes as an order to ask again.
fn try_again(version: i16) -> ErrorCode {
    if version >= FIRST_WITH_NOT_AVAILABLE {
        ErrorCode::OFFSET_NOT_AVAILABLE
    } else {
        ErrorCode::LEADER_NOT_AVAILABLE
    }
}

fn by_its_header(broker: &Broker, partition: &Partition, found: Found, error: &dyn std::fmt::Display) -> Hit {
    if let Some(unsaid) = broker.complaints.allow() {
        tracing::warn!(
            topic = &*partition.topic,
            partition = partition.index,
            offset = found.offset,
            unsaid,
            "a timestamp is answered with the first offset of its batch, into which cannot be looked: {error}"
        );
    }
    Some((TimestampedOffset { offset: found.offset, timestamp: found.timestamp }, found.leader_epoch))
}

/// Runs on a blocking thread. `memory` bytes are leased for the batch that is looked into.
fn search(
    partition: &Partition,
    timestamp: i64,
    limits: &InflateLimits,
    memory: u64,
) -> Result<Hit, Stopped> {
    let log = &partition.log;
    let from = log.log_start_offset().get();
    let mut scratch = Scratch::new(0);
    let mut look_into = |batch: &BatchRange| {
        let by_header = Found {
            offset: batch.header.base_offset.max(from),
            timestamp: match timestamp {
                MAX_TIMESTAMP => batch.header.max_timestamp,
                _ => batch.header.base_timestamp,
            },
            leader_epoch: batch.header.partition_leader_epoch,
        };
        let body = match body_under(partition, batch, limits, memory) {
            Ok(body) => body,
            Err(NoBody::Storage(error)) => return Err(Stopped::Storage(error)),
            Err(NoBody::NeedsMemory(bytes)) => return Err(Stopped::NeedsMemory(bytes, by_header)),
        };
        let slices = [IoSlice::new(&body)];
        let found = if timestamp == MAX_TIMESTAMP {
            find_offset_of_max_timestamp(&batch.header, &slices, from, limits, &mut scratch)
        } else {
            find_offset_by_timestamp(&batch.header, &slices, timestamp, from, limits, &mut scratch)
        };
        found.map_err(|error| Stopped::from(damaged(partition, batch, error.to_string())))
    };
    match timestamp {
        MAX_TIMESTAMP => log.offset_of_max_timestamp(look_into),
        _ => log.offset_for_timestamp(timestamp, &mut look_into),
    }
}

/// Why a batch is not looked into.
enum NoBody {
    Storage(StorageError),
    NeedsMemory(u64),
}

impl From<StorageError> for NoBody {
    fn from(error: StorageError) -> Self {
        NoBody::Storage(error)
    }
}

/// The batch's body, if it and its decompression fit in `memory`.
fn body_under(
    partition: &Partition,
    batch: &BatchRange,
    limits: &InflateLimits,
    memory: u64,
) -> Result<Vec<u8>, NoBody> {
    let size = batch.header.body_size_bytes();
    let codec = batch.header.compression().map_err(|error| damaged(partition, batch, error.to_string()))?;
    let at_least = size as u64;
    if at_least > memory {
        let work = match codec {
            Codec::None => 0,
            codec => max_working_memory_bytes(codec, size, limits),
        };
        return Err(NoBody::NeedsMemory(at_least.saturating_add(work as u64)));
    }
    let body = batch.read_body().map_err(|source| StorageError::Io {
        action: "read",
        path: partition.log.dir().to_path_buf(),
        source,
    })?;
    let work = match working_memory_bytes(&batch.header, &[IoSlice::new(&body)], limits) {
        Ok(work) => work,
        // A window beyond what any batch is granted here.
        Err(error) if error.kind() == BatchErrorKind::UnsupportedCompression => {
            return Err(NoBody::NeedsMemory(u64::MAX));
        }
        Err(error) => return Err(damaged(partition, batch, error.to_string()).into()),
    };
    let needed = at_least.saturating_add(work as u64);
    if needed > memory { Err(NoBody::NeedsMemory(needed)) } else { Ok(body) }
}

fn damaged(partition: &Partition, batch: &BatchRange, reason: String) -> StorageError {
    StorageError::CorruptBatch {
        topic_partition: partition.log.topic_partition().clone(),
        offset: batch.header.base_offset,
        path: batch.range.file.path().to_path_buf(),
        position: batch.range.position,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_are_known_from_their_version_on() {
        let known = |timestamp, version| first_version(timestamp).is_some_and(|first| version >= first);
        for (timestamp, first) in
            [(0, 1), (i64::MAX, 1), (-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)]
        {
            assert!(known(timestamp, first), "{timestamp}");
            assert!(!known(timestamp, first - 1), "{timestamp}");
        }
        assert!(!known(-7, 11) && !known(i64::MIN, 11));
    }
}
