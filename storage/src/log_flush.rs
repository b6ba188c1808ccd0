//! Makes a log durable: flush with group commit, the repair after a failed sync, the clean stop.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::file_handles::Access;
use crate::log::{Log, Writer, count};
use crate::offsets::RecoveryPoint;
use crate::scan::{LOOKUP_WINDOW_BYTES, SCAN_WINDOW_BYTES, ScanError, Scanner};
use crate::segment::{Find, LOG_SUFFIX, Segment};
use crate::transaction_index::TXN_INDEX_SUFFIX;

/// A flush takes a snapshot of the producers when more than this was appended since the last one, so that a recovery
/// need not go back to the beginning of the segment for them.
const SNAPSHOT_DISTANCE_BYTES: u64 = 16 << 20;

/// Syncs the names in `dir` if they are not. One that fails is still to be done: what its files hold is lost without.
fn sync_names(disk: &Disk, dir: &Path, are_unsynced: &AtomicBool) -> Result<(), StorageError> {
    if !are_unsynced.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let synced = disk.sync_dir(dir).context("sync", dir);
    if synced.is_err() {
        are_unsynced.store(true, Ordering::Relaxed);
    }
    synced
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
    /// [`StorageError::Closed`] when the log was closed or deleted with something left to flush; [`StorageError::Io`]
    /// when the disk refuses: the log is read-only then, and what was not synced is written
    /// again before it takes another append.
    pub fn flush_to(&self, offset: i64, now_ms: i64) -> Result<RecoveryPoint, StorageError> {
        let is_done = || {
            self.recovery_point.load(Ordering::Acquire) >= offset && !self.flush_due.load(Ordering::Acquire)
        };
        if is_done() {
            return Ok(self.recovery_point());
        }
        let Some(_turn) = self.flush_turns.take(is_done) else {
            count(&self.shared.counters.flushes_joined, 1);
            return Ok(self.recovery_point());
        };
        self.sync(now_ms, true)
    }

    /// Writes out all that is held back and syncs what lies above the recovery point. With `wait` false the syncs are
    /// left to the caller, who syncs the whole file system and then calls [`Self::mark_flushed`].
    fn sync(&self, now_ms: i64, wait: bool) -> Result<RecoveryPoint, StorageError> {
        let (target, segments) = {
            let mut writer = self.writer.lock();
            self.ensure_in_service(&writer)?;
            if writer.read_only.as_ref().is_some_and(|read_only| read_only.rewrite_unflushed) {
                // No more often than an append does: all who wait for a sync come here when one has failed.
                self.ensure_writable(&mut writer, now_ms)?;
                self.take_writes_again(&mut writer);
            }
            self.flush_due.store(false, Ordering::Release);
            let place = self.place(writer.active.base_offset);
            let tails = writer.active.offset_index.0.flush_tail(place);
            tails
                .and_then(|()| writer.active.time_index.0.flush_tail(place))
                .map_err(|error| self.io_error("index", place.base_offset, error))?;
            self.epochs.lock().write_if_behind(
                self.shared.handles.disk(),
                &self.dir,
                self.log_end_offset().get(),
            )?;
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
        let began = Instant::now();
        match self.sync_files(&segments) {
            Ok(()) => {
                count(&self.shared.counters.flushes, 1);
                self.shared.counters.flush_times.note(began.elapsed());
                self.mark_flushed(target, now_ms);
                Ok(self.recovery_point())
            }
            Err(error) => {
                let mut writer = self.writer.lock();
                // A directory that was renamed under the sync because its topic was deleted is no fault of the disk.
                self.ensure_in_service(&writer)?;
                let error = self.note_failure(&mut writer, "flush", error, now_ms);
                if let Some(read_only) = &mut writer.read_only {
                    // After a failed sync the kernel may take the pages for clean although they are not on the disk.
                    read_only.rewrite_unflushed = true;
                }
                Err(error)
            }
        }
    }

    pub(crate) fn ensure_in_service(&self, writer: &Writer) -> Result<(), StorageError> {
        if writer.closed {
            return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() });
        }
        Ok(())
    }

    fn sync_files(&self, segments: &[Arc<Segment>]) -> Result<(), StorageError> {
        let disk = self.shared.handles.disk();
        for (index, segment) in segments.iter().enumerate() {
            match self.sync_segment(segment, index + 1 == segments.len()) {
                // Retention took it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && segment.has_ended() => {}
                other => other.map_err(|error| self.io_error("sync", segment.base_offset, error))?,
            }
        }
        sync_names(disk, &self.dir, &self.dir_unsynced)?;
        sync_names(disk, self.log_dir.path(), &self.parent_unsynced)
    }

    fn sync_segment(&self, segment: &Segment, is_active: bool) -> io::Result<()> {
        let (disk, place) = (self.shared.handles.disk(), self.place(segment.base_offset));
        let handle = segment.handle(place, Access::Read)?;
        disk.sync_data(handle.file(), handle.path())?;
        if !is_active {
            // The active segment's indexes are rebuilt from the recovery point on; these here are final.
            segment.offset_index.0.sync(place)?;
            segment.time_index.0.sync(place)?;
            let path = place.path(TXN_INDEX_SUFFIX);
            if let Ok(file) = disk.open_read(&path) {
                disk.sync_data(&file, &path)?;
            }
        }
        Ok(())
    }

    /// Notes that everything below `offset` is on the disk.
    pub(crate) fn mark_flushed(&self, offset: i64, now_ms: i64) {
        self.recovery_point.fetch_max(offset, Ordering::AcqRel);
        self.last_flush_ms.store(now_ms, Ordering::Relaxed);
    }

    /// True when `flush.ms` has passed with something to flush, or a segment was rolled.
    pub fn is_flush_due(&self, now_ms: i64) -> bool {
        if self.flush_due.load(Ordering::Acquire) {
            return true;
        }
        let unflushed = self.log_end_offset().get() > self.recovery_point().get();
        let waited = now_ms.saturating_sub(self.last_flush_ms.load(Ordering::Relaxed));
        // A clock that was set back says nothing about how long it was.
        unflushed && !(0..self.config.read().flush_ms).contains(&waited)
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
        let mut window = [0; LOOKUP_WINDOW_BYTES];
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
            let start = self.flushed_bytes(segment, recovery_point);
            let mut scanner = Scanner::new(disk, &handle, &mut window, start, size);
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
            let mut position = start;
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
        // Before the recovery point moves past batches of an epoch that the file does not name.
        self.epochs.lock().write_if_behind(disk, &self.dir, self.log_end_offset().get())?;
        self.mark_flushed(self.log_end.load(Ordering::Acquire), self.last_flush_ms.load(Ordering::Relaxed));
        if let Some(read_only) = &mut writer.read_only {
            read_only.rewrite_unflushed = false;
        }
        Ok(())
    }

    /// Where in a segment the batch with the recovery point begins, 0 when that is not known.
    fn flushed_bytes(&self, segment: &Segment, recovery_point: i64) -> u64 {
        if recovery_point <= segment.base_offset {
            return 0;
        }
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        let (place, size) = (self.place(segment.base_offset), segment.size_bytes());
        match segment.find(place, recovery_point, size, self.is_contiguous(), &mut window) {
            Ok(Find::Found(batch)) => batch.position,
            Ok(Find::PastEnd { next_offset }) if next_offset == recovery_point => size,
            _ => 0,
        }
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

    /// Stops the log: seals the active segment, writes the snapshot of the producers and the epochs, syncs (unless
    /// the caller syncs the whole file system: `wait` false). Appends are refused from here on.
    ///
    /// # Errors
    /// [`StorageError::Io`]: then the log directory must not get its clean-shutdown marker.
    pub fn close(&self, now_ms: i64, wait: bool) -> Result<(), StorageError> {
        let _turn = self.flush_turns.take(|| false);
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
            self.cut_behind_end(&mut writer)?;
            if writer.touched {
                active.seal(place).map_err(|error| self.io_error("seal", active.base_offset, error))?;
            }
            // Also where all records were deleted: without it a start reads what is still there of them for their producers.
            let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
            if self.log_end_offset().get() > first_base || writer.producers.len() > 0 {
                self.take_snapshot(&mut writer)?;
            }
            writer.touched
        };
        self.epochs.lock().write_if_behind(
            self.shared.handles.disk(),
            &self.dir,
            self.log_end_offset().get(),
        )?;
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
        self.end_service();
        for segment in self.all_segments() {
            segment.close_handles();
        }
        Ok(())
    }

    /// Whether [`Self::close`] syncs files of this log.
    pub(crate) fn must_sync_to_close(&self) -> bool {
        self.flush_due.load(Ordering::Acquire) || self.writer.lock().touched
    }

    fn end_service(&self) {
        self.writer.lock().closed = true;
        // A segment whose files are being removed is waited for.
        let _removing = self.removing.lock();
        self.out_of_service.store(true, Ordering::Release);
    }

    /// Refuses writes from here on and closes the files for good without writing anything: the directory goes away, and
    /// a topic of the same name may make it anew. Nobody who still holds this log touches a file by its path after.
    pub(crate) fn abandon(&self) {
        self.end_service();
        for segment in self.all_segments() {
            segment.end();
        }
    }
}
