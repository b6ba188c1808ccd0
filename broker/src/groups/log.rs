//! What the group coordinator writes: batches of `__consumer_offsets`, and lines of the server's log.

use std::io::IoSlice;

use weir_coordinator::{Append, AppendError, Notice, Unavailable};
use weir_metadata::properties::keys;
use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES};
use weir_storage::{AppendOrigin, StorageError};

use super::OFFSETS_TOPIC;
use crate::broker::Broker;
use crate::topics::Partition;

/// What became of an append.
pub(super) enum Appended {
    /// It is in the log from this offset on.
    Done(i64),
    /// None of it is in the log.
    Refused(AppendError),
    /// It is in the log, but not where it was asked to be durable.
    Unknown,
}

/// Appends one batch to a partition of the offsets topic.
pub(super) fn append_batch(broker: &Broker, partition: &Partition, append: Append, now_ms: i64) -> Appended {
    let (header, bytes) = match build(append, now_ms) {
        Ok(built) => built,
        Err(error) => return Appended::Refused(error),
    };
    let body = [IoSlice::new(&bytes[HEADER_SIZE_BYTES..])];
    match partition.append(&header, &body, AppendOrigin::Coordinator, now_ms) {
        Ok(appended) => {
            if let Err(error) = partition.sync_if_needed(&appended, now_ms) {
                broker.note_append_failure(partition, &error);
                return Appended::Unknown;
            }
            Appended::Done(appended.first_offset)
        }
        Err(error) => {
            broker.note_append_failure(partition, &error);
            Appended::Refused(append_error(&error))
        }
    }
}

fn build(append: Append, now_ms: i64) -> Result<(BatchHeader, Vec<u8>), AppendError> {
    let mut batch = BatchBuilder::new(Codec::None);
    // Each record goes as soon as it is in the batch.
    for record in append.records {
        batch
            .append(now_ms, Some(&record.key), record.value.as_deref(), &[])
            .map_err(|_| AppendError::TooLarge)?;
    }
    let bytes = batch.build().map_err(|_| AppendError::TooLarge)?;
    let mut head = [0; HEADER_SIZE_BYTES];
    head.copy_from_slice(bytes.get(..HEADER_SIZE_BYTES).ok_or(AppendError::Other)?);
    let header = BatchHeader::parse(&head).map_err(|_| AppendError::Other)?;
    Ok((header, bytes))
}

fn append_error(error: &StorageError) -> AppendError {
    match error {
        StorageError::BatchTooLarge { .. } => AppendError::TooLarge,
        StorageError::Closed { .. } | StorageError::UnknownLog { .. } => AppendError::NotLeader,
        _ => AppendError::NotAvailable,
    }
}

/// Writes a notice of a shard to the server's log. What clients can cause at will is said a bounded number of times.
pub(super) fn note(broker: &Broker, notice: &Notice, partition: i32) {
    match notice {
        Notice::LimitReached { limit, .. } => {
            let Some(property) = property_of(limit) else { return };
            broker.limit_reached(property, notice);
        }
        Notice::AppendFailed { .. } => {
            if let Some(unsaid) = broker.storage_complaints.allow() {
                tracing::warn!(partition, unsaid, "{OFFSETS_TOPIC}: {notice}");
            }
        }
        _ => {
            if let Some(unsaid) = broker.group_complaints.allow() {
                tracing::info!(partition, unsaid, "{notice}");
            }
        }
    }
}

/// The property to raise where a limit is reached.
fn property_of(limit: &Unavailable) -> Option<&'static str> {
    match limit {
        Unavailable::Groups { .. } => Some(keys::MAX_GROUPS.name),
        Unavailable::Members { .. } => Some(keys::MAX_GROUP_MEMBERS.name),
        Unavailable::Offsets { .. } => Some(keys::MAX_GROUP_OFFSETS.name),
        Unavailable::PendingMembers { .. } | Unavailable::StateBytes { .. } => Some("memory.budget.bytes"),
        Unavailable::GroupIsBeingDeleted | Unavailable::LogNotWritable => None,
    }
}
