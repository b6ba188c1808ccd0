//! The metadata log of a quorum of one: `__cluster_metadata-0` in the metadata log directory.
//!
//! Method: opening replays the newest snapshot that can be read and the log behind it, and writes nothing, so that a start
//! that is refused for what it finds leaves a log of others as it was. Leading takes the next epoch and writes its
//! LeaderChange record. Every append is one batch, synced before anybody acts on it.
//! Invariant: the image never holds a record that is not durable.

use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_metadata::image::{MetadataImage, MetadataReplay};
use weir_metadata::{MetadataError, MetadataRecord, VersionedRecord};
use weir_protocol::records::{
    BatchBuilder, BatchError, BatchHeader, Codec, ControlRecordType, HEADER_SIZE_BYTES, Scratch,
};
use weir_protocol::wire::{EncodeError, Uuid};
use weir_storage::{Log, LogConfig, LogDir, LogOptions, LogShared, StorageError, TopicPartition};

use super::voters::{Quorum, Voter};
use super::{snapshot, state};
use crate::stored_batches::{ReplayError, for_each_batch};

/// Name of the topic and, with `-0`, of the directory.
pub(crate) const TOPIC: &str = "__cluster_metadata";
/// Its fixed id.
pub(crate) const TOPIC_ID: Uuid = Uuid::from_halves(0, 1);

/// Why the metadata log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetadataLogError {
    /// The disk refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A file beside the log could not be read or written.
    #[error("metadata log in {dir}: {error}")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// What is stored cannot be read back.
    #[error("{0}")]
    Replay(#[from] ReplayError),
    /// A record does not fit the ones before it.
    #[error("metadata record at offset {offset}: {error}")]
    Record {
        /// Of which record.
        offset: i64,
        /// Why.
        error: MetadataError,
    },
    /// The folder was written by a quorum that is not this node alone.
    #[error(
        "the metadata log in {0} belongs to a quorum of other or several controllers: this server can only lead a quorum \
         of itself alone"
    )]
    SharedQuorum(PathBuf),
    /// The folder was written by newer software.
    #[error(
        "the metadata log in {dir} is of newer software: kraft.version is at level {version}, this server leads 0 and 1"
    )]
    NewerQuorum {
        /// The directory.
        dir: PathBuf,
        /// What it has.
        version: i16,
    },
    /// A batch could not be made: our fault.
    #[error("metadata batch: {0}")]
    Batch(#[from] BatchError),
    /// A record could not be encoded: our fault.
    #[error("metadata record: {0}")]
    Encode(#[from] EncodeError),
}

/// The open log and what was replayed from it.
pub(crate) struct MetadataLog {
    log: Arc<Log>,
    dir: PathBuf,
    epoch: i32,
    replay: MetadataReplay,
    quorum: Quorum,
    /// Nothing was ever written: neither a record nor a snapshot.
    is_new: bool,
    bytes_since_snapshot: u64,
    removed_topics: HashSet<Uuid>,
    /// From here on the log holds a batch that was refused because it could not be synced, and must not stand.
    refused: Option<i64>,
}

/// What opening needs besides the directory.
pub(crate) struct OpenOptions {
    /// This node.
    pub(crate) node_id: i32,
    /// `metadata.log.segment.*` and retention, resolved.
    pub(crate) config: Arc<LogConfig>,
    /// Whether the last stop was clean.
    pub(crate) clean: bool,
    /// The wall clock, ms.
    pub(crate) now_ms: i64,
}

impl MetadataLog {
    /// Opens or makes the log in `log_dir` and reads it.
    pub(crate) fn open(
        shared: Arc<LogShared>,
        log_dir: Arc<LogDir>,
        options: &OpenOptions,
    ) -> Result<Self, MetadataLogError> {
        let dir = log_dir.path().join(format!("{TOPIC}-0"));
        let io_error = |error| MetadataLogError::Io { dir: dir.clone(), error };
        std::fs::create_dir_all(&dir).map_err(io_error)?;
        let old_state = read_state(&dir, options.node_id).map_err(io_error)?;
        if old_state.is_some_and(|state| !state.is_alone) {
            return Err(MetadataLogError::SharedQuorum(dir));
        }
        let mut snapshots = snapshot::list(&dir).map_err(io_error)?;
        let had_snapshots = !snapshots.is_empty();
        let topic_partition = TopicPartition::new(TOPIC, 0);
        let log_start_offset = log_dir.log_start_offset(&topic_partition);
        let log = Log::open(
            shared,
            Arc::clone(&log_dir),
            LogOptions {
                topic_partition,
                topic_id: Some(TOPIC_ID),
                dir: dir.clone(),
                config: Arc::clone(&options.config),
                clean: options.clean,
                recovery_point: 0,
                log_start_offset,
                compacted: false,
                synced_appends: true,
                now_ms: options.now_ms,
            },
        )?;
        let is_new = !had_snapshots && log.log_end_offset().get() == 0;
        let (mut image, mut quorum) = (MetadataImage::empty(), Quorum::default());
        while let Some(newest) = snapshots.pop() {
            match snapshot::read(&newest) {
                Ok(read) => {
                    (image, quorum) = read;
                    break;
                }
                // An older snapshot and more of the log tell the same, as long as the log reaches back to it.
                Err(error) => tracing::warn!("passing over a metadata snapshot: {error}"),
            }
        }
        let first = image.last_offset() + 1;
        if log.log_end_offset().get() < first {
            log.truncate_fully_and_start_at(first, options.now_ms)?;
        } else if log.log_start_offset().get() > first {
            return Err(MetadataLogError::Replay(ReplayError::Damaged {
                what: format!("{TOPIC}-0"),
                offset: first,
                reason: format!(
                    "no readable snapshot reaches the log start {}",
                    log.log_start_offset().get()
                ),
            }));
        }
        let mut replay = MetadataReplay::new(image);
        let mut bytes_since_snapshot = 0;
        let mut last_epoch = old_state.map_or(0, |state| state.leader_epoch);
        let mut removed_topics = HashSet::new();
        let mut scratch = Scratch::new(0);
        // Nobody is served yet: what the shares are for is free.
        let room = |_| Ok(());
        for_each_batch(&log, first, room, |batch| {
            last_epoch = last_epoch.max(batch.header.partition_leader_epoch);
            bytes_since_snapshot += batch.header.size_bytes() as u64;
            if batch.header.is_control() {
                batch.for_each_record(TOPIC, &mut scratch, |record| {
                    snapshot::take_control(&mut quorum, TOPIC, record)
                })?;
                replay.skip_to(batch.header.last_offset());
                return Ok(());
            }
            batch.for_each_record(TOPIC, &mut scratch, |record| {
                let decoded = snapshot::decode(TOPIC, record.offset, record.value.unwrap_or_default())?;
                let offset = record.offset;
                if let MetadataRecord::RemoveTopic(removed) = &decoded.record {
                    removed_topics.insert(removed.topic_id);
                }
                replay
                    .apply(&decoded.record, offset)
                    .map_err(|error| MetadataLogError::Record { offset, error })
            })?;
            replay.set_batch(batch.header.partition_leader_epoch, batch.header.max_timestamp);
            Ok::<(), MetadataLogError>(())
        })?;
        if !quorum.is_supported() {
            return Err(MetadataLogError::NewerQuorum { dir, version: quorum.kraft_version() });
        }
        if !quorum.is_alone(options.node_id) {
            return Err(MetadataLogError::SharedQuorum(dir));
        }
        Ok(MetadataLog {
            log,
            dir,
            epoch: last_epoch + 1,
            replay,
            quorum,
            is_new,
            bytes_since_snapshot,
            removed_topics,
            refused: None,
        })
    }

    /// Becomes the leader, in the next epoch; comes before the first append. A log in which nothing was written yet becomes
    /// that of a dynamic quorum where there is a `voter`.
    pub(crate) fn lead(
        &mut self,
        node_id: i32,
        voter: Option<&Voter>,
        now_ms: i64,
    ) -> Result<(), MetadataLogError> {
        let io_error = |error| MetadataLogError::Io { dir: self.dir.clone(), error };
        if let Some(voter) = voter.filter(|_| self.is_new) {
            let quorum = Quorum::of(voter);
            snapshot::write_first(&self.dir, &quorum, now_ms).map_err(io_error)?;
            self.quorum = quorum;
        }
        state::write(&self.dir, node_id, self.epoch, self.quorum.kraft_version()).map_err(io_error)?;
        let value = Quorum::leader_change(node_id)?;
        let mut batch = self.batch(self.log.log_end_offset().get());
        batch.append_control(now_ms, ControlRecordType::LeaderChange, &value)?;
        self.write(&batch, now_ms)?;
        self.replay.skip_to(self.log.log_end_offset().get() - 1);
        Ok(())
    }

    /// The committed image.
    pub(crate) fn image(&self) -> &MetadataImage {
        self.replay.image()
    }

    /// The replay state, for the records of the activation.
    pub(crate) fn replay(&self) -> &MetadataReplay {
        &self.replay
    }

    /// The topics that the log behind the last snapshot removes. A snapshot is made only after the logs of removed topics
    /// are out of service, so these are all whose deletion a crash can have interrupted.
    pub(crate) fn take_removed_topics(&mut self) -> HashSet<Uuid> {
        std::mem::take(&mut self.removed_topics)
    }

    /// The epoch of this leadership.
    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The directory of the voter, where the quorum names it (kraft.version 1).
    pub(crate) fn voter_directory_id(&self) -> Uuid {
        self.quorum.voter_directory_id()
    }

    /// The log itself, for the flush and for what describes it.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Appends the records as one batch, syncs it and replays it. What does not fit the records before it is refused
    /// before it is written, for a log that cannot be replayed is lost.
    pub(crate) fn append(
        &mut self,
        records: &[VersionedRecord],
        now_ms: i64,
    ) -> Result<(), MetadataLogError> {
        if records.is_empty() {
            return Ok(());
        }
        self.take_back(now_ms)?;
        let base_offset = self.log.log_end_offset().get();
        let mut batch = self.batch(base_offset);
        for record in records {
            let value =
                record.to_bytes().map_err(|error| MetadataLogError::Record { offset: base_offset, error })?;
            batch.append(now_ms, None, Some(&value), &[])?;
        }
        let mut replay = self.replay.clone();
        for (offset, record) in (base_offset..).zip(records) {
            replay
                .apply(&record.record, offset)
                .map_err(|error| MetadataLogError::Record { offset, error })?;
        }
        replay.set_batch(self.epoch, now_ms);
        self.write(&batch, now_ms)?;
        self.replay = replay;
        Ok(())
    }

    fn batch(&self, base_offset: i64) -> BatchBuilder {
        BatchBuilder::new(Codec::None).base_offset(base_offset).partition_leader_epoch(self.epoch)
    }

    fn write(&mut self, batch: &BatchBuilder, now_ms: i64) -> Result<(), MetadataLogError> {
        let bytes = batch.build()?;
        let (head, body) = bytes.split_at(HEADER_SIZE_BYTES);
        let mut header = [0; HEADER_SIZE_BYTES];
        header.copy_from_slice(head);
        let header = BatchHeader::parse(&header)?;
        self.log.append_as_is(&header, &[IoSlice::new(body)], now_ms)?;
        if let Err(error) = self.log.flush(now_ms) {
            // Whoever asked is told that it was not done, and may ask again: if the batch stood, a start would replay
            // both.
            self.refused = Some(header.base_offset);
            if let Err(error) = self.take_back(now_ms) {
                tracing::warn!("{error}; the metadata log takes nothing before that is done");
            }
            return Err(error.into());
        }
        self.bytes_since_snapshot += bytes.len() as u64;
        Ok(())
    }

    /// Cuts a refused batch off.
    fn take_back(&mut self, now_ms: i64) -> Result<(), MetadataLogError> {
        if let Some(offset) = self.refused {
            self.log.truncate_to(offset, now_ms)?;
            self.refused = None;
        }
        Ok(())
    }

    /// Bytes appended since the last snapshot.
    pub(crate) fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    /// Writes a snapshot of the image, then lets the log begin behind it and removes older snapshots.
    pub(crate) fn snapshot(&mut self, now_ms: i64) -> Result<(), MetadataLogError> {
        let io_error = |error| MetadataLogError::Io { dir: self.dir.clone(), error };
        let written =
            snapshot::write(&self.dir, self.replay.image(), &self.quorum, now_ms).map_err(io_error)?;
        self.bytes_since_snapshot = 0;
        for older in snapshot::list(&self.dir).map_err(io_error)? {
            if older.end_offset < written.end_offset {
                std::fs::remove_file(&older.path).map_err(io_error)?;
            }
        }
        self.log.delete_records(written.end_offset)?;
        self.log.apply_retention(now_ms)?;
        Ok(())
    }
}

fn read_state(dir: &Path, node_id: i32) -> io::Result<Option<state::QuorumState>> {
    match std::fs::read(dir.join(state::FILE)) {
        Ok(bytes) => {
            let parsed = state::parse(&bytes, node_id);
            if parsed.is_none() {
                tracing::warn!(
                    "{} in {} cannot be read: its epoch is taken from the log",
                    state::FILE,
                    dir.display()
                );
            }
            Ok(parsed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
