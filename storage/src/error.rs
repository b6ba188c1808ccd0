//! What can go wrong in this crate: one enum, with the place and the limit in each message.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::topic_partition::TopicPartition;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused `action` on `path`.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, an infinitive: "read", "rename".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The log takes no writes because an earlier write failed; reads go on. It is tried again by itself.
    #[error("{topic_partition} is read-only since a write failed: {reason}")]
    ReadOnly {
        /// The partition.
        topic_partition: TopicPartition,
        /// The first failure, as text.
        reason: Arc<str>,
    },
    /// The body of a batch was found wrong, or did not come, while it was written; nothing of it stays.
    #[error("a batch for {topic_partition} was refused while it was written")]
    BodyRefused {
        /// The partition.
        topic_partition: TopicPartition,
    },
    /// The log was closed or deleted.
    #[error("the log of {topic_partition} is closed")]
    Closed {
        /// The partition.
        topic_partition: TopicPartition,
    },
    /// An offset outside of what the log holds.
    #[error("offset {offset} of {topic_partition} is out of range: the log holds {start} to {end}")]
    OffsetOutOfRange {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset that was asked for.
        offset: i64,
        /// The log start offset.
        start: i64,
        /// The upper bound: log end offset or high watermark.
        end: i64,
    },
    /// Records that should be there are not: a file was cut short or removed behind our back.
    #[error("{topic_partition} has a hole: offset {offset} is missing, the next one found is {next} ({})", path.display())]
    SegmentGap {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset that was looked for.
        offset: i64,
        /// The next offset that exists.
        next: i64,
        /// The segment that should hold it.
        path: PathBuf,
    },
    /// A batch on disk is damaged.
    #[error("the batch at byte {position} of {} (offset {offset} of {topic_partition}) is damaged: {reason}", path.display())]
    CorruptBatch {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset that was looked for, or the first of the damaged batch.
        offset: i64,
        /// The segment.
        path: PathBuf,
        /// Where in the segment, bytes.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// A small file (checkpoint, snapshot, index, properties) does not hold what it should.
    #[error("{} is damaged: {reason}", path.display())]
    CorruptFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The sequence number of an idempotent producer does not follow its last one.
    #[error(
        "sequence {sequence} of producer {producer_id} (epoch {epoch}) in {topic_partition} does not follow {last_sequence}"
    )]
    OutOfOrderSequence {
        /// The partition.
        topic_partition: TopicPartition,
        /// The producer.
        producer_id: i64,
        /// Its epoch.
        epoch: i16,
        /// The first sequence number of the batch.
        sequence: i32,
        /// The last one that was appended, -1 for none.
        last_sequence: i32,
    },
    /// A batch of an earlier incarnation of a producer.
    #[error(
        "epoch {epoch} of producer {producer_id} in {topic_partition} is below the last seen {last_epoch}"
    )]
    InvalidProducerEpoch {
        /// The partition.
        topic_partition: TopicPartition,
        /// The producer.
        producer_id: i64,
        /// The epoch of the batch.
        epoch: i16,
        /// The epoch that the log has seen.
        last_epoch: i16,
    },
    /// A marker of a transaction coordinator that is no longer in office.
    #[error(
        "coordinator epoch {epoch} of producer {producer_id} in {topic_partition} is below the last seen {last_epoch}"
    )]
    TransactionCoordinatorFenced {
        /// The partition.
        topic_partition: TopicPartition,
        /// The producer.
        producer_id: i64,
        /// The coordinator epoch of the marker.
        epoch: i32,
        /// The coordinator epoch that the log has seen.
        last_epoch: i32,
    },
    /// A batch that is not transactional while its producer has an open transaction.
    #[error(
        "producer {producer_id} sent a non-transactional batch to {topic_partition} inside of a transaction"
    )]
    InvalidTxnState {
        /// The partition.
        topic_partition: TopicPartition,
        /// The producer.
        producer_id: i64,
    },
    /// A batch that claims what it must not claim (producer id without epoch or sequence, offsets that go back).
    #[error("invalid batch for {topic_partition}: {reason}")]
    InvalidBatch {
        /// The partition.
        topic_partition: TopicPartition,
        /// What is wrong.
        reason: String,
    },
    /// The number of producer ids that this process remembers has reached its limit.
    #[error(
        "{topic_partition} would be the home of one more producer id, but {limit} are remembered already"
    )]
    TooManyProducerIds {
        /// The partition.
        topic_partition: TopicPartition,
        /// The limit over all logs.
        limit: usize,
    },
    /// The active segment can take no further batch, and no further segment may be made.
    #[error(
        "a full segment of {topic_partition} cannot be followed by another: max.segments = {limit} is reached"
    )]
    TooManySegments {
        /// The partition.
        topic_partition: TopicPartition,
        /// The limit over all logs.
        limit: usize,
    },
    /// A batch larger than a whole segment may be.
    #[error(
        "a batch of {size_bytes} bytes does not fit into a segment of {limit_bytes} bytes ({topic_partition})"
    )]
    BatchTooLarge {
        /// The partition.
        topic_partition: TopicPartition,
        /// Its size.
        size_bytes: u64,
        /// `segment.bytes`.
        limit_bytes: u64,
    },
    /// `append_as_is` was given an offset below the log end.
    #[error("offset {offset} cannot be appended to {topic_partition}: the log ends at {expected}")]
    UnexpectedOffset {
        /// The partition.
        topic_partition: TopicPartition,
        /// The base offset of the batch.
        offset: i64,
        /// The log end offset.
        expected: i64,
    },
    /// Another process (or another part of this one) uses the log directory.
    #[error(
        "log directory {} is in use by another process (its {} file is locked)", path.display(), crate::log_dir::LOCK_FILE
    )]
    DirLocked {
        /// The log directory.
        path: PathBuf,
    },
    /// One log directory under two names.
    #[error("{} and {} are the same directory: name it once", path.display(), other.display())]
    DirNamedTwice {
        /// The name that came second.
        path: PathBuf,
        /// The name that came first.
        other: PathBuf,
    },
    /// `meta.properties` is missing something, or belongs to another node or cluster.
    #[error("{}: {reason}", path.display())]
    MetaProperties {
        /// The file.
        path: PathBuf,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// The directory belongs to another incarnation of the topic.
    #[error("{} belongs to topic id {found}, not {expected}", path.display())]
    TopicIdMismatch {
        /// The partition's directory.
        path: PathBuf,
        /// The id in `partition.metadata`.
        found: weir_protocol::wire::Uuid,
        /// The id that the metadata knows.
        expected: weir_protocol::wire::Uuid,
    },
    /// The partition has no log here, or already has one.
    #[error("{topic_partition}: {reason}")]
    UnknownLog {
        /// The partition.
        topic_partition: TopicPartition,
        /// Why.
        reason: &'static str,
    },
    /// The log lies in a directory that cannot be used now; it must not begin anew in another.
    #[error("{topic_partition} lies in the log directory with id {directory}, which is missing or offline")]
    HomeOffline {
        /// The partition.
        topic_partition: TopicPartition,
        /// `directory.id` of its directory.
        directory: weir_protocol::wire::Uuid,
    },
    /// No log directory is usable.
    #[error("no usable log directory: {reason}")]
    NoLogDir {
        /// Why.
        reason: String,
    },
}

impl StorageError {
    /// True when the same call may succeed later without a change by the caller.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::ReadOnly { .. }
            | Self::TooManyProducerIds { .. }
            | Self::TooManySegments { .. }
            | Self::HomeOffline { .. }
            | Self::Closed { .. } => true,
            Self::OffsetOutOfRange { .. }
            | Self::SegmentGap { .. }
            | Self::CorruptBatch { .. }
            | Self::CorruptFile { .. }
            | Self::OutOfOrderSequence { .. }
            | Self::InvalidProducerEpoch { .. }
            | Self::TransactionCoordinatorFenced { .. }
            | Self::InvalidTxnState { .. }
            | Self::InvalidBatch { .. }
            | Self::BodyRefused { .. }
            | Self::BatchTooLarge { .. }
            | Self::UnexpectedOffset { .. }
            | Self::DirLocked { .. }
            | Self::DirNamedTwice { .. }
            | Self::MetaProperties { .. }
            | Self::TopicIdMismatch { .. }
            | Self::UnknownLog { .. }
            | Self::NoLogDir { .. } => false,
        }
    }

    /// True when the disk is the cause (full, read-only, broken), so that a producer should get a storage error.
    pub fn is_disk_failure(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::ReadOnly { .. } | Self::HomeOffline { .. })
    }

    pub(crate) fn corrupt(path: &Path, reason: impl Into<String>) -> Self {
        Self::CorruptFile { path: path.to_path_buf(), reason: reason.into() }
    }
}

/// Adds what was tried, and where, to an error of the operating system.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StorageError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::Io { action, path: path.to_path_buf(), source })
    }
}
