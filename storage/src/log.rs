//! One partition's log: its segments, its offsets, its producers, and who may touch them when.
//!
//! Writers (appends, truncation, retention) take turns on one lock per log and hold it across one `pwritev`, never
//! across a sync. Readers do not take it: the offsets are atomics, the list of segments has its own short lock, and
//! the size of a segment moves only after a batch is completely written. The calls are spread over `log_append.rs`,
//! `log_read.rs`, `log_time.rs`, `log_flush.rs`, `log_truncate.rs`, `log_maintenance.rs`; how a log is opened is in
//! `recovery.rs`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use weir_protocol::wire::Uuid;

use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_handles::FileHandles;
use crate::index_file::Place;
use crate::leader_epoch::LeaderEpochs;
use crate::log_dir::LogDir;
use crate::offsets::{HighWatermark, LastStableOffset, LogEndOffset, LogStartOffset, RecoveryPoint};
use crate::producer_state::{ActiveProducer, ProducerIdQuota, ProducerState};
use crate::recent::RecentBatches;
use crate::room::{Room, RoomQuota};
use crate::segment::{IndexBuilder, Segment};
use crate::segment_quota::{Counted, SegmentQuota};
use crate::topic_partition::TopicPartition;

/// What happened to all logs of a process since its start. Each is a counter that only grows.
#[derive(Debug, Default)]
pub struct StorageCounters {
    /// Indexes that led astray and were rebuilt from the log.
    pub index_rebuilds: AtomicU64,
    /// Holes between or inside of segments that were met by a start, a read or the scrub.
    pub gaps_found: AtomicU64,
    /// Damaged batches that were met by a read or the scrub.
    pub corrupt_batches: AtomicU64,
    /// Appends that failed because of the disk.
    pub failed_appends: AtomicU64,
    /// Times that a log became read-only.
    pub went_read_only: AtomicU64,
    /// Times that a read-only log took writes again.
    pub recovered_from_read_only: AtomicU64,
    /// Logs that were checked after a crash.
    pub logs_recovered: AtomicU64,
    /// Bytes that such checks read.
    pub recovery_bytes: AtomicU64,
    /// Bytes that such checks cut off.
    pub truncated_bytes: AtomicU64,
    /// Small files (checkpoints, snapshots, epochs) that were damaged or missing and were rebuilt.
    pub files_rebuilt: AtomicU64,
    /// Segments rolled.
    pub segments_rolled: AtomicU64,
    /// Segments deleted by retention.
    pub segments_deleted: AtomicU64,
    /// Syncs of segments.
    pub flushes: AtomicU64,
    /// Flushes that were served by the sync of another one.
    pub flushes_joined: AtomicU64,
    /// How long syncs took.
    pub flush_times: FlushTimes,
}

/// A histogram of the time that syncs took.
#[derive(Debug, Default)]
pub struct FlushTimes {
    counts: [AtomicU64; FlushTimes::BUCKETS + 1],
    sum_us: AtomicU64,
}

impl FlushTimes {
    /// Buckets with an upper bound; one more takes what is longer.
    pub const BUCKETS: usize = 19;

    /// The upper bound of bucket `index`, microseconds: powers of two from 128 µs to 34 s.
    pub fn bucket_us(index: usize) -> u64 {
        128 << index
    }

    pub(crate) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = (0..Self::BUCKETS).find(|index| us <= Self::bucket_us(*index)).unwrap_or(Self::BUCKETS);
        if let Some(counter) = self.counts.get(bucket) {
            count(counter, 1);
        }
        count(&self.sum_us, us);
    }

    /// Counts by bucket since the start, and the sum of all times, microseconds.
    pub fn read(&self) -> ([u64; FlushTimes::BUCKETS + 1], u64) {
        let mut counts = [0; FlushTimes::BUCKETS + 1];
        for (out, counter) in counts.iter_mut().zip(&self.counts) {
            *out = counter.load(Ordering::Relaxed);
        }
        (counts, self.sum_us.load(Ordering::Relaxed))
    }
}

/// Lets one at a time through. Those who wait are all woken when a turn ends, and look again whether they still need
/// one of their own: a fair lock would wake the next one alone, and an unfair one would let newcomers pass those whose
/// work is done.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<bool>,
    ended: Condvar,
}

impl Turns {
    /// Waits for a turn; `None` when `is_done` is true before there is one.
    pub(crate) fn take(&self, is_done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock();
        loop {
            if is_done() {
                return None;
            }
            if !*taken {
                *taken = true;
                return Some(Turn(self));
            }
            self.ended.wait(&mut taken);
        }
    }
}

/// A turn; ends with its drop.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.ended.notify_all();
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// The most disk space ahead of the ends of all logs.
const ROOM_BYTES: u64 = 1 << 30;

/// What the logs of a process share.
#[derive(Debug)]
pub struct LogShared {
    /// The open files.
    pub handles: FileHandles,
    /// The producer ids that are remembered.
    pub producer_ids: Arc<ProducerIdQuota>,
    /// The segments that there are.
    pub segments: Arc<SegmentQuota>,
    /// Disk space ahead of the ends of logs.
    pub room: Arc<RoomQuota>,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: AtomicI64,
    /// How long a read-only log waits before it tries a write again, ms.
    pub probe_interval_ms: i64,
    /// What happened so far.
    pub counters: StorageCounters,
}

impl LogShared {
    /// The usual settings: any number of segments, producer ids expire after a day, a read-only log is tried again each second.
    pub fn new(handles: FileHandles, producer_ids: Arc<ProducerIdQuota>) -> Self {
        Self {
            handles,
            producer_ids,
            segments: SegmentQuota::new(usize::MAX),
            room: RoomQuota::new(ROOM_BYTES),
            producer_id_expiration_ms: AtomicI64::new(86_400_000),
            probe_interval_ms: 1000,
            counters: StorageCounters::default(),
        }
    }
}

/// How to open a log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Whose log.
    pub topic_partition: TopicPartition,
    /// The topic's id, for `partition.metadata`. `None` for logs that have none (the metadata log).
    pub topic_id: Option<Uuid>,
    /// The partition's directory; made if it is not there.
    pub dir: PathBuf,
    /// The settings.
    pub config: Arc<LogConfig>,
    /// True when the last user stopped cleanly, so that nothing needs a check.
    pub clean: bool,
    /// From `recovery-point-offset-checkpoint`; 0 when unknown.
    pub recovery_point: i64,
    /// From `log-start-offset-checkpoint`; 0 when unknown.
    pub log_start_offset: i64,
    /// True when the log was compacted at some time, so that offsets may have gaps.
    pub compacted: bool,
    /// True when every append was synced before the next one (the metadata log): only the last batch can be torn. A
    /// start then refuses to cut off whole batches that follow a damaged one.
    pub synced_appends: bool,
    /// The wall clock, ms.
    pub now_ms: i64,
}

/// Why a log takes no writes.
#[derive(Debug, Clone)]
pub(crate) struct ReadOnly {
    pub(crate) reason: Arc<str>,
    pub(crate) last_probe_ms: i64,
    /// A sync failed: what is not on disk must be written again before anything else.
    pub(crate) rewrite_unflushed: bool,
}

/// What only writers touch.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) active: Arc<Segment>,
    pub(crate) producers: ProducerState,
    /// Offsets of the snapshot files, in order.
    pub(crate) snapshots: Vec<i64>,
    pub(crate) index: IndexBuilder,
    /// Timestamp of the first batch of the active segment, once known.
    pub(crate) first_timestamp: Option<i64>,
    pub(crate) segment_created_ms: i64,
    pub(crate) jitter_ms: i64,
    pub(crate) current_epoch: i32,
    pub(crate) read_only: Option<ReadOnly>,
    /// Bytes behind the active segment's size may be on disk: the rest of a write that failed.
    pub(crate) torn: bool,
    /// Blocks behind the active segment's size.
    pub(crate) room: Room,
    pub(crate) closed: bool,
    /// Something was written since the log was opened.
    pub(crate) touched: bool,
}

/// Offsets of a batch that is known to be damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Base offset of the segment.
    pub segment_base_offset: i64,
    /// Where in the segment the damaged batch begins.
    pub position: u64,
    /// The first offset that cannot be read.
    pub first_offset: i64,
    /// The first offset behind it that can be read again, as far as is known.
    pub end_offset: i64,
    /// What is wrong.
    pub reason: String,
}

/// The most damaged places that are remembered per log.
pub(crate) const MAX_DAMAGES: usize = 64;

impl Damage {
    /// Counts the damaged place, and adds it to those of a log unless it is among them.
    pub(crate) fn note(self, damages: &mut Vec<Damage>, name: &TopicPartition, counters: &StorageCounters) {
        count(&counters.corrupt_batches, 1);
        let known = damages.iter_mut().find(|other| {
            other.segment_base_offset == self.segment_base_offset && other.position == self.position
        });
        if let Some(known) = known {
            known.first_offset = known.first_offset.min(self.first_offset);
            known.end_offset = known.end_offset.max(self.end_offset);
            return;
        }
        tracing::error!(
            partition = %name,
            segment = self.segment_base_offset,
            position = self.position,
            first_offset = self.first_offset,
            end_offset = self.end_offset,
            reason = self.reason,
            "a batch on disk is damaged"
        );
        if damages.len() < MAX_DAMAGES {
            damages.push(self);
        }
    }
}

/// One partition's log.
pub struct Log {
    pub(crate) shared: Arc<LogShared>,
    pub(crate) log_dir: Arc<LogDir>,
    pub(crate) topic_partition: TopicPartition,
    pub(crate) topic_id: Option<Uuid>,
    pub(crate) dir: PathBuf,
    pub(crate) config: RwLock<Arc<LogConfig>>,
    /// Oldest first; never empty; the last one is the active one.
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    /// How often segments were taken out of the list; changes under its lock.
    pub(crate) removals: AtomicU64,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) epochs: Mutex<LeaderEpochs>,
    pub(crate) recent: Mutex<RecentBatches>,
    pub(crate) damages: Mutex<Vec<Damage>>,
    /// Offsets of holes that were named in the log of the server.
    pub(crate) named_gaps: Mutex<Vec<i64>>,
    /// Syncs take turns, and flushes that wait for one are served by it together.
    pub(crate) flush_turns: Turns,
    pub(crate) log_start: AtomicI64,
    pub(crate) log_end: AtomicI64,
    pub(crate) high_watermark: AtomicI64,
    /// The first offset of an open transaction, `i64::MAX` for none.
    pub(crate) first_unstable: AtomicI64,
    /// Some segment may have a transaction index: readers of committed records must look.
    pub(crate) may_have_aborted: AtomicBool,
    pub(crate) recovery_point: AtomicI64,
    pub(crate) last_flush_ms: AtomicI64,
    pub(crate) last_append_ms: AtomicI64,
    pub(crate) has_damage: AtomicBool,
    /// A segment was rolled or made: a flush is due, which the housekeeping does.
    pub(crate) flush_due: AtomicBool,
    /// Names in the directory are not synced.
    pub(crate) dir_unsynced: AtomicBool,
    /// The directory's own name is not synced.
    pub(crate) parent_unsynced: AtomicBool,
    /// Held while files of segments are removed without the writer's lock.
    pub(crate) removing: Mutex<()>,
    /// Segments that retention took out of the list, and whose files are still there.
    pub(crate) doomed: Mutex<VecDeque<Arc<Segment>>>,
    /// Closed or abandoned; set under the lock of `removing`.
    pub(crate) out_of_service: AtomicBool,
    pub(crate) is_read_only: AtomicBool,
    /// Offsets may have gaps.
    pub(crate) compacted: AtomicBool,
    #[expect(dead_code, reason = "held for its drop")]
    pub(crate) counted: Counted,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("topic_partition", &self.topic_partition)
            .field("log_start", &self.log_start_offset())
            .field("log_end", &self.log_end_offset())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Whose log this is.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    /// The topic's id.
    pub fn topic_id(&self) -> Option<Uuid> {
        self.topic_id
    }

    /// The partition's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The log directory that holds it.
    pub fn log_dir(&self) -> &Arc<LogDir> {
        &self.log_dir
    }

    /// The settings in force.
    pub fn config(&self) -> Arc<LogConfig> {
        Arc::clone(&self.config.read())
    }

    /// Replaces the settings; they hold from the next call on.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        if config.compact {
            self.compacted.store(true, Ordering::Relaxed);
        }
        *self.config.write() = config;
    }

    /// The first offset that can be read.
    pub fn log_start_offset(&self) -> LogStartOffset {
        LogStartOffset(self.log_start.load(Ordering::Acquire))
    }

    /// The offset that the next record will get.
    pub fn log_end_offset(&self) -> LogEndOffset {
        LogEndOffset(self.log_end.load(Ordering::Acquire))
    }

    /// The first offset that is not on all in-sync replicas; with one replica the log end offset.
    pub fn high_watermark(&self) -> HighWatermark {
        HighWatermark(self.high_watermark.load(Ordering::Acquire))
    }

    /// The first offset of an open transaction, at most the high watermark.
    pub fn last_stable_offset(&self) -> LastStableOffset {
        let high_watermark = self.high_watermark().get();
        LastStableOffset(self.first_unstable.load(Ordering::Acquire).min(high_watermark))
    }

    /// Everything below it is on the disk.
    pub fn recovery_point(&self) -> RecoveryPoint {
        RecoveryPoint(self.recovery_point.load(Ordering::Acquire))
    }

    /// True while writes fail; see [`StorageError::ReadOnly`].
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Ordering::Acquire)
    }

    /// Why writes fail, if they do.
    pub fn read_only_reason(&self) -> Option<Arc<str>> {
        self.writer.lock().read_only.as_ref().map(|read_only| Arc::clone(&read_only.reason))
    }

    /// Bytes of all segments' records.
    pub fn size_bytes(&self) -> u64 {
        self.segments.read().iter().map(|segment| segment.size_bytes()).sum()
    }

    /// The number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.read().len()
    }

    /// Base offset and size of each segment, oldest first.
    pub fn segments(&self) -> Vec<(i64, u64)> {
        self.segments.read().iter().map(|segment| (segment.base_offset, segment.size_bytes())).collect()
    }

    /// The newest leader epoch that the log has seen.
    pub fn latest_epoch(&self) -> Option<i32> {
        self.epochs.lock().latest().map(|entry| entry.epoch)
    }

    /// A copy of the leader epochs.
    pub fn leader_epochs(&self) -> LeaderEpochs {
        self.epochs.lock().clone()
    }

    /// The leader epoch that was in force at `offset`.
    pub fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        self.epochs.lock().epoch_for_offset(offset)
    }

    /// The end offset of a leader epoch, as [`LeaderEpochs::end_offset_for`] says.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> Option<(i32, i64)> {
        let log_end = self.settled_log_end().get();
        self.epochs.lock().end_offset_for(epoch, log_end)
    }

    /// Notes that a leader epoch begins at the log end, before its first batch.
    ///
    /// # Errors
    /// [`StorageError::Io`] when the checkpoint cannot be written; the epoch is known all the same.
    pub fn begin_leader_epoch(&self, epoch: i32) -> Result<(), StorageError> {
        let mut writer = self.writer.lock();
        self.assign_epoch(&mut writer, epoch, self.log_end_offset().get())
    }

    pub(crate) fn assign_epoch(
        &self,
        writer: &mut Writer,
        epoch: i32,
        offset: i64,
    ) -> Result<(), StorageError> {
        if epoch <= writer.current_epoch {
            return Ok(());
        }
        let mut epochs = self.epochs.lock();
        if epochs.assign(epoch, offset) {
            writer.current_epoch = epoch;
            epochs.write_if_missing(self.shared.handles.disk(), &self.dir)?;
        }
        Ok(())
    }

    /// The producers that the log remembers, as DescribeProducers shows them.
    pub fn active_producers(&self) -> Vec<ActiveProducer> {
        self.active_producers_at_most(usize::MAX)
    }

    /// [`Self::active_producers`], no more than `most` of them: there may be more since they were counted.
    pub fn active_producers_at_most(&self, most: usize) -> Vec<ActiveProducer> {
        self.writer.lock().producers.active_producers(most)
    }

    /// How many producer ids the log remembers.
    pub fn producer_count(&self) -> usize {
        self.writer.lock().producers.len()
    }

    /// The damaged places that reads and the scrub have met.
    pub fn damages(&self) -> Vec<Damage> {
        self.damages.lock().clone()
    }

    /// Notes a damaged place.
    pub(crate) fn note_damage(&self, damage: Damage) {
        let mut damages = self.damages.lock();
        damage.note(&mut damages, &self.topic_partition, &self.shared.counters);
        self.has_damage.store(true, Ordering::Release);
    }

    /// Bytes of memory that this log takes, estimated: for the broker's account of what grows with a count.
    pub fn memory_bytes(&self) -> usize {
        let segments: usize = {
            let segments = self.segments.read();
            segments.iter().map(|segment| segment.memory_bytes() + 16).sum::<usize>()
                + (segments.capacity() - segments.len()) * 8
        };
        let writer = {
            let writer = self.writer.lock();
            writer.producers.memory_bytes() + writer.snapshots.capacity() * 8
        };
        std::mem::size_of::<Self>()
            + self.dir.as_os_str().len()
            + segments
            + writer
            + self.epochs.lock().memory_bytes()
            + self.recent.lock().memory_bytes()
    }

    pub(crate) fn place(&self, base_offset: i64) -> Place<'_> {
        Place { handles: &self.shared.handles, dir: &self.dir, base_offset }
    }

    /// True when each offset between log start and log end must exist.
    pub(crate) fn is_contiguous(&self) -> bool {
        !self.compacted.load(Ordering::Relaxed)
    }

    pub(crate) fn io_error(
        &self,
        action: &'static str,
        base_offset: i64,
        source: std::io::Error,
    ) -> StorageError {
        StorageError::Io { action, path: self.place(base_offset).path(crate::segment::LOG_SUFFIX), source }
    }

    /// The segment that covers `offset` and the base offset of the one behind it.
    pub(crate) fn segment_for(&self, offset: i64) -> (Arc<Segment>, Option<i64>) {
        let segments = self.segments.read();
        let index = segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        let next = segments.get(index + 1).map(|segment| segment.base_offset);
        // There is always an active segment.
        (Arc::clone(&segments[index]), next)
    }

    /// Runs a lookup, which reads the log's bounds first and the list of segments then. One that fails while segments
    /// are taken away has looked at both before and after, or for a file that is gone: it is run again. One that fails
    /// because the log is out of service says that.
    pub(crate) fn beside_removals<T, E: From<StorageError>>(
        &self,
        mut lookup: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let seen = self.removals.load(Ordering::Acquire);
            let found = lookup();
            if found.is_ok() {
                return found;
            }
            if self.is_out_of_service() {
                return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() }.into());
            }
            if self.removals.load(Ordering::Acquire) == seen {
                return found;
            }
        }
    }

    /// True once the log is closed, or its partition deleted.
    pub fn is_out_of_service(&self) -> bool {
        self.out_of_service.load(Ordering::Acquire)
    }

    /// The log end after the append under way, if there is one: its batch can be read before the log end moves, and
    /// who has read it must not be told that there is nothing that far.
    pub(crate) fn settled_log_end(&self) -> LogEndOffset {
        let _append_under_way = self.writer.lock();
        self.log_end_offset()
    }

    /// Takes segments out of the list; their files are removed after.
    pub(crate) fn take_out(
        &self,
        take: impl FnOnce(&mut Vec<Arc<Segment>>) -> Vec<Arc<Segment>>,
    ) -> Vec<Arc<Segment>> {
        let mut segments = self.segments.write();
        self.removals.fetch_add(1, Ordering::AcqRel);
        take(&mut segments)
    }

    /// All segments, oldest first.
    pub(crate) fn all_segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().clone()
    }
}
