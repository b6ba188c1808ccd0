//! What keeps a log in shape: flush, DeleteRecords, retention, truncation, expiry of producers, the clean stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{IoContext, StorageError};
use crate::file_handles::Access;
use crate::log::{Log, ReadOnly, Writer, count};
use crate::offset_index::INDEX_SUFFIX;
use crate::offsets::{LogStartOffset, RecoveryPoint};
use crate::producer_snapshot;
use crate::recovery;
use crate::scan::{SCAN_WINDOW_BYTES, ScanError, Scanner};
use crate::segment::{Find, IndexBuilder, LOG_SUFFIX, Segment};
use crate::time_index::{TIME_INDEX_SUFFIX, TimestampOffset};
use crate::transaction_index::{self, TXN_INDEX_SUFFIX};

/// A flush takes a snapshot of the producers when more than this was appended since the last one, so that a recovery
/// need not go back to the beginning of the segment for them.
const SNAPSHOT_DISTANCE_BYTES: u64 = 16 << 20;

/// What a retention pass removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments deleted.
    pub deleted_segments: usize,
    /// Their size.
    pub deleted_bytes: u64,
}

impl Log {
    /// Makes everything that is in the log durable.
    ///
    /// # Errors
    /// As [`Self::flush_to`].
    pub fn flush(&self, now_ms: i64) -> Result<RecoveryPoint, StorageError> {
        self.flush_to(self.log_end_offset().get(), now_ms)
    }

    /// Makes everything below `offset` durable. Callers that wait at the same time are served by one sync (group
    /// commit), and appends go on during it. Costs nothing when it is durable already.
    ///
    /// # Errors
    /// [`StorageError::Io`] when the disk refuses: the log is read-only then, and what was not synced is written
    /// again before it takes another append.
    pub fn flush_to(&self, offset: i64, now_ms: i64) -> Result<RecoveryPoint, StorageError> {
        if self.recovery_point.load(Ordering::Acquire) >= offset && !self.flush_due.load(Ordering::Acquire) {
            return Ok(self.recovery_point());
        }
        let _turn = self.flush_lock.lock();
        if self.recovery_point.load(Ordering::Acquire) >= offset && !self.flush_due.load(Ordering::Acquire) {
            count(&self.shared.counters.flushes_joined, 1);
            return Ok(self.recovery_point());
        }
        self.sync(now_ms, true)
    }

    /// Writes out all that is held back and syncs what lies above the recovery point. With `wait` false the syncs are
    /// left to the caller, who syncs the whole file system and then calls [`Self::mark_flushed`].
    fn sync(&self, now_ms: i64, wait: bool) -> Result<RecoveryPoint, StorageError> {
        let (target, segments) = {
            let mut writer = self.writer.lock();
            if writer.read_only.as_ref().is_some_and(|read_only| read_only.rewrite_unflushed) {
                self.rewrite_unflushed(&mut writer)?;
            }
            self.flush_due.store(false, Ordering::Release);
            let place = self.place(writer.active.base_offset);
            let tails = writer.active.offset_index.0.flush_tail(place);
            tails
                .and_then(|()| writer.active.time_index.0.flush_tail(place))
                .map_err(|error| self.io_error("index", place.base_offset, error))?;
            self.epochs.lock().write_if_dirty(self.shared.handles.disk(), &self.dir)?;
            if writer.active.size_bytes().saturating_sub(self.last_snapshot_position(&writer))
                > SNAPSHOT_DISTANCE_BYTES
            {
                self.take_middle_snapshot(&mut writer)?;
            }
            let segments = self.segments.read();
            let recovery_point = self.recovery_point.load(Ordering::Acquire);
            let first =
                segments.partition_point(|segment| segment.base_offset <= recovery_point).saturating_sub(1);
            (self.log_end.load(Ordering::Acquire), segments.get(first..).unwrap_or_default().to_vec())
        };
        if !wait {
            return Ok(RecoveryPoint(target));
        }
        match self.sync_files(&segments) {
            Ok(()) => {
                count(&self.shared.counters.flushes, 1);
                self.mark_flushed(target, now_ms);
                Ok(self.recovery_point())
            }
            Err(error) => {
                let mut writer = self.writer.lock();
                let error = self.note_failure(&mut writer, "flush", error, now_ms);
                if let Some(read_only) = &mut writer.read_only {
                    // After a failed sync the kernel may take the pages for clean although they are not on the disk.
                    read_only.rewrite_unflushed = true;
                }
                Err(error)
            }
        }
    }

    fn sync_files(&self, segments: &[Arc<Segment>]) -> Result<(), StorageError> {
        let disk = self.shared.handles.disk();
        for (index, segment) in segments.iter().enumerate() {
            let place = self.place(segment.base_offset);
            let is_active = index + 1 == segments.len();
            let failed = |error: io::Error| self.io_error("sync", segment.base_offset, error);
            let handle = segment.handle(place, Access::Read).map_err(failed)?;
            disk.sync_data(handle.file(), handle.path()).map_err(failed)?;
            if !is_active {
                // The active segment's indexes are rebuilt from the recovery point on; these here are final.
                segment.offset_index.0.sync(place).map_err(failed)?;
                segment.time_index.0.sync(place).map_err(failed)?;
                let path = place.path(TXN_INDEX_SUFFIX);
                if let Ok(file) = disk.open_read(&path) {
                    disk.sync_data(&file, &path).map_err(failed)?;
                }
            }
        }
        if self.dir_unsynced.swap(false, Ordering::Relaxed) {
            disk.sync_dir(&self.dir).context("sync", &self.dir)?;
        }
        Ok(())
    }

    /// Notes that everything below `offset` is on the disk.
    pub(crate) fn mark_flushed(&self, offset: i64, now_ms: i64) {
        self.recovery_point.fetch_max(offset, Ordering::AcqRel);
        self.last_flush_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Position of the last snapshot in the active segment, 0 when it is older.
    fn last_snapshot_position(&self, writer: &Writer) -> u64 {
        let base = writer.active.base_offset;
        let Some(offset) = writer.snapshots.last().copied().filter(|offset| *offset > base) else { return 0 };
        match self.find_in_active(writer, offset) {
            Some(Find::Found(batch)) => batch.position,
            _ => writer.active.size_bytes(),
        }
    }

    fn find_in_active(&self, writer: &Writer, offset: i64) -> Option<Find> {
        let mut window = [0; crate::scan::LOOKUP_WINDOW_BYTES];
        let segment = &writer.active;
        let place = self.place(segment.base_offset);
        segment.find(place, offset, segment.size_bytes(), self.is_contiguous(), &mut window).ok()
    }

    fn take_middle_snapshot(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let base = writer.active.base_offset;
        let previous = writer.snapshots.last().copied().filter(|offset| *offset > base);
        self.take_snapshot(writer)?;
        if let Some(previous) = previous
            && writer.snapshots.last() != Some(&previous)
        {
            self.remove_snapshot(writer, previous)?;
        }
        Ok(())
    }

    fn remove_snapshot(&self, writer: &mut Writer, offset: i64) -> Result<(), StorageError> {
        let path = producer_snapshot::path(&self.dir, offset);
        self.shared.handles.disk().remove_file(&path).context("remove", &path)?;
        writer.snapshots.retain(|other| *other != offset);
        Ok(())
    }

    /// After a failed sync: reads what is above the recovery point, checks it and writes it once more.
    pub(crate) fn rewrite_unflushed(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let disk = self.shared.handles.disk();
        let recovery_point = self.recovery_point.load(Ordering::Acquire);
        let segments = self.all_segments();
        let first =
            segments.partition_point(|segment| segment.base_offset <= recovery_point).saturating_sub(1);
        let segments = segments.get(first..).unwrap_or_default();
        let mut window = vec![0; SCAN_WINDOW_BYTES];
        for segment in segments {
            let place = self.place(segment.base_offset);
            let failed = |error: io::Error| self.io_error("rewrite", segment.base_offset, error);
            let handle = segment.handle(place, Access::Write).map_err(failed)?;
            let size = segment.size_bytes();
            let mut scanner = Scanner::new(disk, &handle, &mut window, 0, size);
            loop {
                let batch = match scanner.next_batch() {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break,
                    Err(error) => return Err(self.lost(segment, recovery_point, error)),
                };
                if batch.header.last_offset() < recovery_point {
                    continue;
                }
                match scanner.crc_is_right(&batch) {
                    Ok(true) => {}
                    Ok(false) => {
                        let reason = "its CRC is wrong after a failed sync".to_owned();
                        let bad = ScanError::Bad { position: batch.position, reason };
                        return Err(self.lost(segment, batch.header.base_offset, bad));
                    }
                    Err(error) => return Err(self.lost(segment, batch.header.base_offset, error)),
                }
            }
            let mut position = 0;
            while position < size {
                let length = usize::try_from(size - position).unwrap_or(usize::MAX).min(window.len());
                let bytes = window.get_mut(..length).unwrap_or_default();
                let count = disk.read_at(handle.file(), handle.path(), bytes, position).map_err(failed)?;
                let bytes = bytes.get(..count).unwrap_or_default();
                if bytes.is_empty() {
                    break;
                }
                disk.write_all_at(handle.file(), handle.path(), bytes, position).map_err(failed)?;
                position += count as u64;
            }
        }
        self.sync_files(segments)?;
        self.mark_flushed(self.log_end.load(Ordering::Acquire), self.last_flush_ms.load(Ordering::Relaxed));
        if let Some(read_only) = &mut writer.read_only {
            read_only.rewrite_unflushed = false;
        }
        Ok(())
    }

    fn lost(&self, segment: &Segment, offset: i64, error: ScanError) -> StorageError {
        match error {
            ScanError::Io(source) => self.io_error("read", segment.base_offset, source),
            ScanError::Bad { position, reason } => StorageError::CorruptBatch {
                topic_partition: self.topic_partition.clone(),
                offset,
                path: self.place(segment.base_offset).path(LOG_SUFFIX),
                position,
                reason,
            },
        }
    }

    /// Deletes the records below `offset` (-1: below the high watermark). The new log start is durable when this
    /// returns. An offset below the log start changes nothing.
    ///
    /// # Errors
    /// [`StorageError::OffsetOutOfRange`] above the high watermark or below -1; [`StorageError::Io`] when the
    /// checkpoint cannot be written: the records may be gone or not after a crash, so the caller asks again.
    pub fn delete_records(&self, offset: i64) -> Result<LogStartOffset, StorageError> {
        let version = {
            let mut writer = self.writer.lock();
            if writer.closed {
                return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() });
            }
            let high_watermark = self.high_watermark().get();
            let target = if offset == -1 { high_watermark } else { offset };
            if target < 0 || target > high_watermark {
                return Err(StorageError::OffsetOutOfRange {
                    topic_partition: self.topic_partition.clone(),
                    offset,
                    start: self.log_start_offset().get(),
                    end: high_watermark,
                });
            }
            self.advance_log_start(&mut writer, target)
        };
        self.log_dir.persist_log_starts(version)?;
        Ok(self.log_start_offset())
    }

    /// Moves the log start up to `target` in memory and notes it for the checkpoint.
    fn advance_log_start(&self, writer: &mut Writer, target: i64) -> u64 {
        if target > self.log_start_offset().get() {
            self.log_start.store(target, Ordering::Release);
            self.epochs.lock().truncate_from_start(target);
            writer.touched = true;
        }
        let start = self.log_start_offset().get();
        let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
        self.log_dir.set_log_start(&self.topic_partition, (start > first_base).then_some(start))
    }

    /// Deletes the oldest segments as `retention.ms`, `retention.bytes` and the log start allow. The active segment is
    /// rolled first when it is due itself.
    ///
    /// # Errors
    /// [`StorageError::Io`]; a file that cannot be removed is left over and named.
    pub fn apply_retention(&self, now_ms: i64) -> Result<Retained, StorageError> {
        let config = self.config();
        let mut doomed = Vec::new();
        {
            let mut writer = self.writer.lock();
            if writer.closed {
                return Ok(Retained::default());
            }
            let high_watermark = self.high_watermark().get();
            let log_start = self.log_start_offset().get();
            let segments = self.all_segments();
            let total: u64 = segments.iter().map(|segment| segment.size_bytes()).sum();
            let mut excess = match u64::try_from(config.retention_bytes) {
                Ok(limit) if config.delete => total.saturating_sub(limit),
                _ => 0,
            };
            let mut due = 0;
            for (index, segment) in segments.iter().enumerate() {
                let next_base = segments.get(index + 1).map(|next| next.base_offset);
                let upper = next_base.unwrap_or(self.log_end.load(Ordering::Acquire));
                let size = segment.size_bytes();
                let is_due = next_base.is_some_and(|next| next <= log_start)
                    || (excess > 0 && excess >= size)
                    || (config.delete
                        && config.retention_ms >= 0
                        && now_ms.saturating_sub(self.age_reference_ms(segment)) > config.retention_ms);
                // An empty active segment has nothing to delete.
                if !is_due || upper > high_watermark || (next_base.is_none() && size == 0) {
                    break;
                }
                excess = excess.saturating_sub(size);
                due = index + 1;
            }
            if due == 0 {
                return Ok(Retained::default());
            }
            if due == segments.len() {
                self.ensure_room_to_roll(&mut writer, now_ms)?;
                let base_offset = self.log_end.load(Ordering::Relaxed);
                self.roll_locked(&mut writer, base_offset, now_ms, &config)
                    .map_err(|error| self.note_failure(&mut writer, "roll", error, now_ms))?;
            }
            doomed.extend(self.segments.write().drain(..due));
            let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
            self.advance_log_start(&mut writer, first_base);
            let gone: Vec<i64> =
                writer.snapshots.iter().copied().filter(|offset| *offset < first_base).collect();
            for offset in gone {
                self.remove_snapshot(&mut writer, offset)?;
            }
        }
        let retained = Retained {
            deleted_segments: doomed.len(),
            deleted_bytes: doomed.iter().map(|segment| segment.size_bytes()).sum(),
        };
        for segment in &doomed {
            tracing::info!(
                partition = %self.topic_partition,
                base_offset = segment.base_offset,
                size_bytes = segment.size_bytes(),
                "deleting a segment"
            );
            self.delete_segment_files(segment)?;
        }
        count(&self.shared.counters.segments_deleted, retained.deleted_segments as u64);
        Ok(retained)
    }

    fn ensure_room_to_roll(&self, writer: &mut Writer, now_ms: i64) -> Result<(), StorageError> {
        match &writer.read_only {
            Some(ReadOnly { reason, last_probe_ms, .. })
                if (0..self.shared.probe_interval_ms).contains(&(now_ms - last_probe_ms)) =>
            {
                Err(StorageError::ReadOnly {
                    topic_partition: self.topic_partition.clone(),
                    reason: Arc::clone(reason),
                })
            }
            _ => Ok(()),
        }
    }

    /// What the age of a segment is measured from: its largest timestamp, or when its file was last written. A segment
    /// whose time index cannot be read is not old.
    fn age_reference_ms(&self, segment: &Segment) -> i64 {
        // The active segment's timestamp is known, so that its index, which the writer's lock guards, is not rebuilt.
        match self.max_timestamp_of(segment) {
            Ok((timestamp, _)) if timestamp >= 0 => timestamp,
            Ok(_) => {
                let path = self.place(segment.base_offset).path(LOG_SUFFIX);
                self.shared.handles.disk().modified_ms(&path).unwrap_or(i64::MAX)
            }
            Err(error) => {
                tracing::warn!(partition = %self.topic_partition, %error, "the age of a segment is not known");
                i64::MAX
            }
        }
    }

    /// Removes the files of a segment that is no longer in the list; the `.log` file goes first, so that what a crash
    /// leaves is orphaned indexes. Readers that hold the file finish undisturbed.
    pub(crate) fn delete_segment_files(&self, segment: &Segment) -> Result<(), StorageError> {
        segment.close_handles();
        let place = self.place(segment.base_offset);
        let disk = self.shared.handles.disk();
        for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
            let path = place.path(suffix);
            disk.remove_file(&path).context("remove", &path)?;
        }
        self.damages.lock().retain(|damage| damage.segment_base_offset != segment.base_offset);
        Ok(())
    }

    /// Removes everything from the batch that holds `offset` on. Returns the new log end offset, which is `offset` or,
    /// when that lies inside of a batch, the beginning of the batch.
    ///
    /// # Errors
    /// [`StorageError::OffsetOutOfRange`] below the log start; [`StorageError::Io`].
    pub fn truncate_to(&self, offset: i64, now_ms: i64) -> Result<i64, StorageError> {
        let mut writer = self.writer.lock();
        if writer.closed {
            return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() });
        }
        let log_end = self.log_end.load(Ordering::Relaxed);
        if offset >= log_end {
            return Ok(log_end);
        }
        let log_start = self.log_start_offset().get();
        if offset < log_start {
            return Err(StorageError::OffsetOutOfRange {
                topic_partition: self.topic_partition.clone(),
                offset,
                start: log_start,
                end: log_end,
            });
        }
        self.recent.lock().clear();
        let removed = {
            let mut segments = self.segments.write();
            let keep = segments.partition_point(|segment| segment.base_offset <= offset).max(1);
            segments.split_off(keep)
        };
        for segment in removed.iter().rev() {
            self.delete_segment_files(segment)?;
        }
        let segment = self.segment_for(offset).0;
        let place = self.place(segment.base_offset);
        let mut window = [0; crate::scan::LOOKUP_WINDOW_BYTES];
        let size = segment.size_bytes();
        let found = segment
            .find(place, offset, size, self.is_contiguous(), &mut window)
            .map_err(|error| self.find_error(&segment, offset, error))?;
        let (position, end_offset) = match found {
            Find::Found(batch) => (batch.position, batch.header.base_offset.min(offset)),
            Find::Hole { .. } | Find::PastEnd { .. } => (size, offset),
        };
        let disk = self.shared.handles.disk();
        let failed = |error: io::Error| self.io_error("truncate", segment.base_offset, error);
        let handle = segment.handle(place, Access::Write).map_err(failed)?;
        disk.set_length(handle.file(), handle.path(), position).map_err(failed)?;
        segment.set_size_bytes(position);
        writer.torn = false;
        segment.offset_index.truncate_to_position(place, position).map_err(failed)?;
        segment.time_index.truncate_to_offset(place, end_offset).map_err(failed)?;
        self.truncate_transaction_index(&segment, end_offset)?;

        writer.index = IndexBuilder::new();
        writer.index.largest = segment
            .time_index
            .last(place)
            .map_err(failed)?
            .unwrap_or(TimestampOffset { timestamp: -1, offset: -1 });
        let end = segment
            .find_end(place, position, self.is_contiguous(), &mut window)
            .map_err(|error| self.find_error(&segment, offset, error))?;
        if end.largest.timestamp > writer.index.largest.timestamp {
            writer.index.largest = end.largest;
        }
        writer.index.bytes_since_entry = self.bytes_since_last_entry(&segment);
        segment.set_max_timestamp(writer.index.largest);
        writer.first_timestamp = None;
        writer.segment_created_ms = now_ms;
        writer.active = Arc::clone(&segment);
        writer.touched = true;

        self.log_end.store(end_offset, Ordering::Release);
        self.high_watermark.fetch_min(end_offset, Ordering::AcqRel);
        self.recovery_point.fetch_min(end_offset, Ordering::AcqRel);
        {
            let mut epochs = self.epochs.lock();
            epochs.truncate_from_end(end_offset);
            writer.current_epoch = epochs.latest().map_or(-1, |entry| entry.epoch);
            epochs.write_if_dirty(disk, &self.dir)?;
        }
        let later: Vec<i64> =
            writer.snapshots.iter().copied().filter(|snapshot| *snapshot > end_offset).collect();
        for snapshot in later {
            self.remove_snapshot(&mut writer, snapshot)?;
        }
        self.reload_producers(&mut writer, end_offset, now_ms)?;
        Ok(end_offset)
    }

    fn truncate_transaction_index(&self, segment: &Segment, end_offset: i64) -> Result<(), StorageError> {
        let place = self.place(segment.base_offset);
        match transaction_index::read(place) {
            Ok(mut entries) if entries.iter().any(|entry| entry.last_offset >= end_offset) => {
                entries.retain(|entry| entry.last_offset < end_offset);
                transaction_index::replace(place, &entries)
            }
            Ok(_) => Ok(()),
            Err(StorageError::CorruptFile { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn reload_producers(
        &self,
        writer: &mut Writer,
        end_offset: i64,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let segments = self.all_segments();
        let expiration_ms = self.shared.producer_id_expiration_ms.load(Ordering::Relaxed);
        let loader = recovery::ProducerLoader {
            handles: &self.shared.handles,
            counters: &self.shared.counters,
            dir: &self.dir,
            segments: &segments,
            now_ms,
            expiration_ms,
        };
        let start = self.log_start_offset().get();
        loader.load(
            &mut writer.producers,
            &mut writer.snapshots,
            start,
            end_offset,
            i64::MAX,
            &mut |_, _| {},
        )?;
        writer.producers.on_high_watermark(self.high_watermark().get());
        let unstable = writer.producers.first_unstable_offset().unwrap_or(i64::MAX);
        self.first_unstable.store(unstable, Ordering::Release);
        Ok(())
    }

    /// Removes all records and lets the log begin at `offset`: for a replica that is too far behind, and for a
    /// metadata log that continues from a snapshot.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Closed`].
    pub fn truncate_fully_and_start_at(&self, offset: i64, now_ms: i64) -> Result<(), StorageError> {
        let config = self.config();
        let mut writer = self.writer.lock();
        if writer.closed {
            return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() });
        }
        let old = self.all_segments();
        writer.active.offset_index.0.flush_tail(self.place(writer.active.base_offset)).ok();
        self.recent.lock().clear();
        for snapshot in std::mem::take(&mut writer.snapshots) {
            let path = producer_snapshot::path(&self.dir, snapshot);
            self.shared.handles.disk().remove_file(&path).context("remove", &path)?;
        }
        for segment in &old {
            self.delete_segment_files(segment)?;
        }
        let segment = Arc::new(
            Segment::create(self.place(offset)).map_err(|error| self.io_error("create", offset, error))?,
        );
        *self.segments.write() = vec![Arc::clone(&segment)];
        writer.active = segment;
        writer.index = IndexBuilder::new();
        writer.first_timestamp = None;
        writer.segment_created_ms = now_ms;
        writer.jitter_ms = crate::log_append::jitter(&config, offset, &self.topic_partition);
        writer.torn = false;
        writer.touched = true;
        writer.current_epoch = -1;
        writer.producers.clear(offset);
        for (place, value) in [
            (&self.log_start, offset),
            (&self.log_end, offset),
            (&self.high_watermark, offset),
            (&self.recovery_point, offset),
            (&self.first_unstable, i64::MAX),
        ] {
            place.store(value, Ordering::Release);
        }
        let mut epochs = self.epochs.lock();
        epochs.clear();
        epochs.write_if_dirty(self.shared.handles.disk(), &self.dir)?;
        drop(epochs);
        self.log_dir.set_log_start(&self.topic_partition, None);
        self.dir_unsynced.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`. Returns how many.
    pub fn expire_producers(&self, now_ms: i64) -> usize {
        let mut writer = self.writer.lock();
        self.expire_producers_locked(&mut writer, now_ms)
    }

    pub(crate) fn expire_producers_locked(&self, writer: &mut Writer, now_ms: i64) -> usize {
        let expiration_ms = self.shared.producer_id_expiration_ms.load(Ordering::Relaxed);
        writer.producers.remove_expired(now_ms, expiration_ms)
    }

    /// True when `flush.ms` has passed with something to flush, or a segment was rolled.
    pub fn is_flush_due(&self, now_ms: i64) -> bool {
        if self.flush_due.load(Ordering::Acquire) {
            return true;
        }
        let unflushed = self.log_end_offset().get() > self.recovery_point().get();
        unflushed
            && now_ms.saturating_sub(self.last_flush_ms.load(Ordering::Relaxed))
                >= self.config.read().flush_ms
    }

    /// Gives memory back that only a busy log needs, if nothing was appended for `idle_ms`.
    pub fn shrink_if_idle(&self, now_ms: i64, idle_ms: i64) {
        if now_ms.saturating_sub(self.last_append_ms.load(Ordering::Relaxed)) >= idle_ms {
            self.recent.lock().shrink();
        }
    }

    /// Builds the transaction index of a segment anew from the markers in the log.
    pub(crate) fn rebuild_transaction_index(
        &self,
        segment: &Segment,
        reason: &str,
    ) -> Result<(), StorageError> {
        let path = self.place(segment.base_offset).path(TXN_INDEX_SUFFIX);
        tracing::warn!(path = %path.display(), reason, "rebuilding the transaction index from the log");
        count(&self.shared.counters.files_rebuilt, 1);
        let found = self.transactions_from_log(segment)?;
        transaction_index::replace(self.place(segment.base_offset), &found)
    }

    /// The aborted transactions whose markers lie in `segment`, found in the log itself.
    pub(crate) fn transactions_from_log(
        &self,
        segment: &Segment,
    ) -> Result<Vec<crate::transaction_index::AbortedTxn>, StorageError> {
        let segments = self.all_segments();
        let end = segments
            .iter()
            .map(|other| other.base_offset)
            .find(|base| *base > segment.base_offset)
            .unwrap_or(self.log_end_offset().get());
        let mut snapshots = self.writer.lock().snapshots.clone();
        let mut state = crate::producer_state::ProducerState::new(
            crate::producer_state::ProducerIdQuota::new(usize::MAX),
        );
        let loader = recovery::ProducerLoader {
            handles: &self.shared.handles,
            counters: &self.shared.counters,
            dir: &self.dir,
            segments: &segments,
            now_ms: 0,
            expiration_ms: i64::MAX,
        };
        let mut found = Vec::new();
        let first_base = segments.first().map_or(0, |first| first.base_offset);
        loader.load(&mut state, &mut snapshots, first_base, end, segment.base_offset, &mut |base, txn| {
            if base == segment.base_offset {
                found.push(txn);
            }
        })?;
        Ok(found)
    }

    /// Stops the log: seals the active segment, writes the snapshot of the producers and the epochs, syncs (unless
    /// the caller syncs the whole file system: `wait` false). Appends and reads are refused from here on... except
    /// that readers which hold a range finish.
    ///
    /// # Errors
    /// [`StorageError::Io`]: then the log directory must not get its clean-shutdown marker.
    pub fn close(&self, now_ms: i64, wait: bool) -> Result<(), StorageError> {
        let _turn = self.flush_lock.lock();
        let touched = {
            let mut writer = self.writer.lock();
            if writer.closed {
                return Ok(());
            }
            if writer.read_only.as_ref().is_some_and(|read_only| read_only.rewrite_unflushed) {
                self.rewrite_unflushed(&mut writer)?;
            }
            let active = Arc::clone(&writer.active);
            let place = self.place(active.base_offset);
            if writer.torn {
                let failed =
                    |error: io::Error| self.io_error("cut a torn write off", active.base_offset, error);
                let handle = active.handle(place, Access::Write).map_err(failed)?;
                let disk = self.shared.handles.disk();
                disk.set_length(handle.file(), handle.path(), active.size_bytes()).map_err(failed)?;
                writer.torn = false;
            }
            if writer.touched {
                active.seal(place).map_err(|error| self.io_error("seal", active.base_offset, error))?;
            }
            if self.log_end_offset().get() > self.log_start_offset().get() || writer.producers.len() > 0 {
                self.take_snapshot(&mut writer)?;
            }
            writer.touched
        };
        self.epochs.lock().write_if_dirty(self.shared.handles.disk(), &self.dir)?;
        if touched || self.flush_due.load(Ordering::Acquire) {
            let target = self.sync(now_ms, wait)?;
            if wait {
                let active = self.segments.read().last().cloned();
                if let Some(active) = active {
                    let place = self.place(active.base_offset);
                    let failed = |error: io::Error| self.io_error("sync", active.base_offset, error);
                    active.offset_index.0.sync(place).map_err(failed)?;
                    active.time_index.0.sync(place).map_err(failed)?;
                }
            } else {
                self.mark_flushed(target.get(), now_ms);
            }
        }
        self.writer.lock().closed = true;
        for segment in self.all_segments() {
            segment.close_handles();
        }
        Ok(())
    }

    /// Refuses writes from here on and closes the files without writing anything: the directory goes away.
    pub(crate) fn abandon(&self) {
        self.writer.lock().closed = true;
        for segment in self.all_segments() {
            segment.close_handles();
        }
    }
}
