//! Reads: from an offset to a range of a file, never to bytes.
//!
//! The range goes to `sendfile` (or through a window). A read costs no system call when the offset is among the last
//! batches appended; else a few small reads of an index and of headers, through a window of 4 KiB. What an index says
//! is checked; an index that leads astray is rebuilt, and counted. Holes and known damage are errors, never skipped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::StorageError;
use crate::file_handles::{Access, FileHandle};
use crate::log::{Damage, Log, MAX_DAMAGES, count};
use crate::offsets::{HighWatermark, LastStableOffset, LogEndOffset, LogStartOffset};
use crate::scan::{LOOKUP_WINDOW_BYTES, Scanner, StoredBatch};
use crate::segment::{Find, FindError, LOG_SUFFIX, Segment};
use crate::transaction_index::{self, AbortedTxn};

/// More aborted transactions than these make a read shorter.
const MAX_ABORTED: usize = 1000;

/// How far a read may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Up to the log end: replicas.
    LogEnd,
    /// Up to the high watermark: consumers.
    HighWatermark,
    /// Up to the last stable offset: `read_committed` consumers.
    Committed,
}

/// A part of a segment file: whole batches, except that the last one may be cut by `max_bytes`.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The open file.
    pub file: Arc<FileHandle>,
    /// Where the range begins.
    pub position: u64,
    /// Its length, bytes.
    pub length: u32,
}

impl FileRange {
    /// Reads from the range, beginning `skip` bytes into it. Returns how many bytes were read; fewer than asked for
    /// only at the end of the range.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_at(&self, buffer: &mut [u8], skip: u32) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let room = self.length.saturating_sub(skip) as usize;
        let length = room.min(buffer.len());
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.file().read_at(rest, self.position + u64::from(skip) + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// What a read found.
#[derive(Debug, Clone)]
pub struct LogRead {
    /// The records; `None` when there are none yet, or when the first batch is larger than `max_bytes` and it was not
    /// asked for at least one.
    pub range: Option<FileRange>,
    /// Size of the first batch, 0 when there is none.
    pub first_batch_bytes: u32,
    /// Base offset of the first batch, the offset asked for when there is none.
    pub base_offset: i64,
    /// The log start offset.
    pub log_start_offset: LogStartOffset,
    /// The high watermark.
    pub high_watermark: HighWatermark,
    /// The last stable offset.
    pub last_stable_offset: LastStableOffset,
    /// The log end offset.
    pub log_end_offset: LogEndOffset,
    /// For a reader of committed records: the aborted transactions that reach into the records, and perhaps some
    /// behind them.
    pub aborted: Vec<AbortedTxn>,
}

/// Where a batch lies.
#[derive(Debug, Clone, Copy)]
struct Located {
    base_offset: i64,
    position: u64,
    size_bytes: u64,
}

impl Log {
    /// Finds the records from `offset` on: at most `max_bytes`, but with `min_one_batch` at least the first batch.
    ///
    /// # Errors
    /// [`StorageError::OffsetOutOfRange`] below the log start or above the log end; [`StorageError::SegmentGap`] when
    /// the records are gone; [`StorageError::CorruptBatch`] when they are known to be damaged; [`StorageError::Io`].
    pub fn read(
        &self,
        offset: i64,
        max_bytes: u32,
        min_one_batch: bool,
        isolation: Isolation,
    ) -> Result<LogRead, StorageError> {
        self.beside_removals(|| self.read_once(offset, max_bytes, min_one_batch, isolation))
    }

    fn read_once(
        &self,
        offset: i64,
        max_bytes: u32,
        min_one_batch: bool,
        isolation: Isolation,
    ) -> Result<LogRead, StorageError> {
        // The bounds come before the sizes: what is below them is completely written.
        let mut log_end_offset = self.log_end_offset();
        if offset > log_end_offset.get() {
            log_end_offset = self.settled_log_end();
        }
        let high_watermark = self.high_watermark();
        let last_stable_offset = self.last_stable_offset();
        let log_start_offset = self.log_start_offset();
        if offset < log_start_offset.get() || offset > log_end_offset.get() {
            return Err(self.out_of_range(offset));
        }
        let bound = match isolation {
            Isolation::LogEnd => log_end_offset.get(),
            Isolation::HighWatermark => high_watermark.get(),
            Isolation::Committed => last_stable_offset.get(),
        };
        let mut read = LogRead {
            range: None,
            first_batch_bytes: 0,
            base_offset: offset,
            log_start_offset,
            high_watermark,
            last_stable_offset,
            log_end_offset,
            aborted: Vec::new(),
        };
        if offset >= bound {
            return Ok(read);
        }
        let (segment, next_base, found) = self.locate(offset)?;
        let size = segment.size_bytes();
        let segment_end = next_base.unwrap_or(log_end_offset.get());
        let end = if bound >= segment_end { size } else { self.position_of(&segment, bound, size)? };
        let end = self.end_before_damage(&segment, found.position, end);
        read.first_batch_bytes = u32::try_from(found.size_bytes).unwrap_or(u32::MAX);
        read.base_offset = found.base_offset;
        let limit =
            if min_one_batch { u64::from(max_bytes).max(found.size_bytes) } else { u64::from(max_bytes) };
        let length = end.saturating_sub(found.position).min(limit);
        if length < found.size_bytes.min(end.saturating_sub(found.position)) || length == 0 {
            return Ok(read);
        }
        let file = segment
            .handle(self.place(segment.base_offset), Access::Read)
            .map_err(|error| self.io_error("open", segment.base_offset, error))?;
        let mut length = u32::try_from(length).unwrap_or(u32::MAX);
        if isolation == Isolation::Committed && self.may_have_aborted.load(Ordering::Acquire) {
            let to = self.offset_behind(&segment, found.position + u64::from(length)).unwrap_or(segment_end);
            read.aborted = self.aborted_transactions_at_most(found.base_offset, to, MAX_ABORTED)?;
            if read.aborted.len() >= MAX_ABORTED {
                // As little as can be read; what then reaches into it is bounded by the number of producers.
                length = length.min(u32::try_from(found.size_bytes).unwrap_or(u32::MAX));
                let to =
                    self.offset_behind(&segment, found.position + u64::from(length)).unwrap_or(segment_end);
                read.aborted = self.aborted_transactions_at_most(found.base_offset, to, usize::MAX)?;
            }
        }
        read.range = Some(FileRange { file, position: found.position, length });
        Ok(read)
    }

    /// An offset that no batch before `position` reaches, as near as the index tells. What it says is checked.
    fn offset_behind(&self, segment: &Segment, position: u64) -> Option<i64> {
        let place = self.place(segment.base_offset);
        let entry = segment.offset_index.first_at(place, position).ok().flatten()?;
        let start = u64::from(entry.position);
        if start < position {
            return None;
        }
        let handle = segment.handle(place, Access::Read).ok()?;
        let mut window = [0; 256];
        let disk = self.shared.handles.disk();
        let mut scanner = Scanner::new(disk, &handle, &mut window, start, segment.size_bytes());
        let batch = scanner.next_batch().ok().flatten()?;
        (batch.header.last_offset() == entry.offset).then_some(batch.header.base_offset)
    }

    /// The batch that holds `offset`, or the next one in a log with gaps.
    fn locate(&self, offset: i64) -> Result<(Arc<Segment>, Option<i64>, Located), StorageError> {
        let (segment, next_base) = self.segment_for(offset);
        if next_base.is_none()
            && let Some(recent) = self.recent.lock().find(offset)
            && u64::from(recent.position) + u64::from(recent.size_bytes) <= segment.size_bytes()
            && recent.base_offset >= segment.base_offset
        {
            let located = Located {
                base_offset: recent.base_offset,
                position: u64::from(recent.position),
                size_bytes: u64::from(recent.size_bytes),
            };
            self.check_damage(&segment, offset)?;
            return Ok((segment, next_base, located));
        }
        self.locate_from(segment, next_base, offset)
    }

    fn locate_from(
        &self,
        mut segment: Arc<Segment>,
        mut next_base: Option<i64>,
        offset: i64,
    ) -> Result<(Arc<Segment>, Option<i64>, Located), StorageError> {
        loop {
            self.check_damage(&segment, offset)?;
            let missing = match self.find_in(&segment, offset, segment.size_bytes())? {
                Find::Found(batch) => {
                    let located = Located {
                        base_offset: batch.header.base_offset,
                        position: batch.position,
                        size_bytes: batch.size_bytes,
                    };
                    return Ok((segment, next_base, located));
                }
                Find::Hole { next } => next,
                Find::PastEnd { next_offset } => match next_base {
                    // A compacted log may miss the end of a segment.
                    Some(next) if !self.is_contiguous() => {
                        (segment, next_base) = self.segment_for(next);
                        continue;
                    }
                    Some(next) => next,
                    None => next_offset.max(self.log_end_offset().get()),
                },
            };
            return Err(self.gap(&segment, offset, missing));
        }
    }

    fn out_of_range(&self, offset: i64) -> StorageError {
        StorageError::OffsetOutOfRange {
            topic_partition: self.topic_partition.clone(),
            offset,
            start: self.log_start_offset().get(),
            end: self.log_end_offset().get(),
        }
    }

    pub(crate) fn gap(&self, segment: &Segment, offset: i64, next: i64) -> StorageError {
        if offset < self.log_start_offset().get() {
            // Deleted since the log's bounds were read.
            return self.out_of_range(offset);
        }
        count(&self.shared.counters.gaps_found, 1);
        let path = self.place(segment.base_offset).path(LOG_SUFFIX);
        // Once: a reader asks again and again.
        let mut named = self.named_gaps.lock();
        if !named.contains(&offset) && named.len() < MAX_DAMAGES {
            named.push(offset);
            tracing::error!(partition = %self.topic_partition, offset, next, path = %path.display(), "records are missing");
        }
        drop(named);
        StorageError::SegmentGap { topic_partition: self.topic_partition.clone(), offset, next, path }
    }

    /// [`Segment::find`], with an index that leads astray rebuilt once.
    pub(crate) fn find_in(&self, segment: &Segment, offset: i64, end: u64) -> Result<Find, StorageError> {
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        self.with_index(segment, offset, end, || {
            segment.find(self.place(segment.base_offset), offset, end, self.is_contiguous(), &mut window)
        })
    }

    /// Runs a lookup; if the index leads astray, rebuilds it from the log and runs the lookup once more.
    pub(crate) fn with_index<T>(
        &self,
        segment: &Segment,
        offset: i64,
        end: u64,
        mut lookup: impl FnMut() -> Result<T, FindError>,
    ) -> Result<T, StorageError> {
        let place = self.place(segment.base_offset);
        let seen = segment.rebuild_count();
        let error = match lookup() {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let reason = match error {
            FindError::BadIndex(reason) if !segment.has_ended() => reason,
            error => return Err(self.find_error(segment, offset, error)),
        };
        count(&self.shared.counters.index_rebuilds, 1);
        tracing::warn!(
            partition = %self.topic_partition,
            segment = segment.base_offset,
            reason,
            "an index leads astray, rebuilding it from the log"
        );
        let interval = self.config.read().index_interval_bytes;
        // The active segment's index belongs to the writer.
        let is_active =
            self.segments.read().last().is_some_and(|last| last.base_offset == segment.base_offset);
        let rebuilt = if is_active {
            let mut writer = self.writer.lock();
            let size = segment.size_bytes();
            let rebuilt = segment.rebuild_indexes(place, size, interval, seen);
            // Unless it was rolled meanwhile.
            if writer.active.base_offset == segment.base_offset {
                writer.index.bytes_since_entry = self.bytes_since_last_entry(segment);
            }
            rebuilt
        } else {
            segment.rebuild_indexes(place, segment.size_bytes().max(end), interval, seen)
        };
        rebuilt.map_err(|error| self.find_error(segment, offset, error))?;
        lookup().map_err(|error| self.find_error(segment, offset, error))
    }

    /// Bytes behind the batch of the last index entry.
    pub(crate) fn bytes_since_last_entry(&self, segment: &Segment) -> u64 {
        let place = self.place(segment.base_offset);
        let last = segment.offset_index.lookup(place, i64::MAX).ok().flatten();
        segment.size_bytes().saturating_sub(last.map_or(0, |entry| u64::from(entry.position)))
    }

    pub(crate) fn find_error(&self, segment: &Segment, offset: i64, error: FindError) -> StorageError {
        match error {
            FindError::Io(source) => self.io_error("read", segment.base_offset, source),
            FindError::BadIndex(reason) => {
                let path = self.place(segment.base_offset).path(crate::offset_index::INDEX_SUFFIX);
                StorageError::CorruptFile { path, reason }
            }
            FindError::Bad { position, offset: missing, reason } => {
                // Only what is known to be missing: the offset that was looked for may be sound, or be behind it.
                self.note_damage(Damage {
                    segment_base_offset: segment.base_offset,
                    position,
                    first_offset: missing,
                    end_offset: missing + 1,
                    reason: reason.clone(),
                });
                StorageError::CorruptBatch {
                    topic_partition: self.topic_partition.clone(),
                    offset,
                    path: self.place(segment.base_offset).path(LOG_SUFFIX),
                    position,
                    reason,
                }
            }
        }
    }

    /// An error when `offset` lies in a batch that is known to be damaged.
    fn check_damage(&self, segment: &Segment, offset: i64) -> Result<(), StorageError> {
        if !self.has_damage.load(Ordering::Acquire) {
            return Ok(());
        }
        let damages = self.damages.lock();
        let hit = damages.iter().find(|damage| {
            damage.segment_base_offset == segment.base_offset
                && (damage.first_offset..damage.end_offset).contains(&offset)
        });
        match hit {
            None => Ok(()),
            Some(damage) => Err(StorageError::CorruptBatch {
                topic_partition: self.topic_partition.clone(),
                offset,
                path: self.place(segment.base_offset).path(LOG_SUFFIX),
                position: damage.position,
                reason: damage.reason.clone(),
            }),
        }
    }

    /// Ends a range before the first damaged batch behind its beginning.
    fn end_before_damage(&self, segment: &Segment, start: u64, end: u64) -> u64 {
        if !self.has_damage.load(Ordering::Acquire) {
            return end;
        }
        let damages = self.damages.lock();
        damages
            .iter()
            .filter(|damage| damage.segment_base_offset == segment.base_offset && damage.position > start)
            .map(|damage| damage.position)
            .fold(end, u64::min)
    }

    /// Where the batch with `offset` begins: what a read that may not see it ends with.
    fn position_of(&self, segment: &Segment, offset: i64, size: u64) -> Result<u64, StorageError> {
        match self.find_in(segment, offset, size)? {
            Find::Found(batch) => Ok(batch.position),
            Find::Hole { .. } | Find::PastEnd { .. } => Ok(size),
        }
    }

    /// The stored batch that holds `offset` (or the next one), with its segment.
    pub(crate) fn batch_at(&self, offset: i64) -> Result<Option<(Arc<Segment>, StoredBatch)>, StorageError> {
        let (mut segment, mut next_base) = self.segment_for(offset);
        loop {
            match self.find_in(&segment, offset, segment.size_bytes())? {
                Find::Found(batch) => return Ok(Some((segment, batch))),
                Find::Hole { next } => return Err(self.gap(&segment, offset, next)),
                Find::PastEnd { .. } => match next_base {
                    Some(next) => (segment, next_base) = self.segment_for(next),
                    None => return Ok(None),
                },
            }
        }
    }

    /// The aborted transactions that a `read_committed` reader of the offsets from `from` to below `to` must know.
    ///
    /// # Errors
    /// [`StorageError::Io`]; a damaged transaction index is rebuilt first.
    pub fn aborted_transactions(&self, from: i64, to: i64) -> Result<Vec<AbortedTxn>, StorageError> {
        self.aborted_transactions_at_most(from, to, usize::MAX)
    }

    /// [`Self::aborted_transactions`], no more than `most` of them.
    fn aborted_transactions_at_most(
        &self,
        from: i64,
        to: i64,
        most: usize,
    ) -> Result<Vec<AbortedTxn>, StorageError> {
        let segments = self.all_segments();
        let first = segments.partition_point(|segment| segment.base_offset <= from).saturating_sub(1);
        let mut aborted = Vec::new();
        for segment in segments.get(first..).unwrap_or_default() {
            let place = self.place(segment.base_offset);
            let before = aborted.len();
            let mut done = false;
            let mut look = || {
                aborted.truncate(before);
                transaction_index::scan(place, |entry| {
                    if entry.last_offset >= from && entry.first_offset < to {
                        aborted.push(*entry);
                    }
                    done = entry.last_stable_offset >= to || aborted.len() >= most;
                    !done
                })
            };
            match look() {
                Err(StorageError::CorruptFile { reason, .. }) => {
                    self.rebuild_transaction_index(segment, &reason)?;
                    look()?;
                }
                other => other?,
            }
            if done {
                break;
            }
        }
        Ok(aborted)
    }
}
