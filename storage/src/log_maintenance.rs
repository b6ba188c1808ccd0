//! What keeps a log in shape: DeleteRecords, retention, expiry of producers, a transaction index built anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::LogConfig;
use crate::error::{IoContext, StorageError};
use crate::log::{Log, ReadOnly, Writer, count};
use crate::offset_index::INDEX_SUFFIX;
use crate::offsets::LogStartOffset;
use crate::producer_loader::ProducerLoader;
use crate::producer_snapshot;
use crate::producer_state::{ProducerIdQuota, ProducerState};
use crate::segment::{LOG_SUFFIX, Segment};
use crate::time_index::TIME_INDEX_SUFFIX;
use crate::transaction_index::{self, AbortedTxn, TXN_INDEX_SUFFIX};

/// How long a log to which nothing is appended keeps room ahead of its end.
const ROOM_KEPT_MS: i64 = 60_000;

/// What a retention pass removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments deleted.
    pub deleted_segments: usize,
    /// Their size.
    pub deleted_bytes: u64,
}

/// A log start that was moved and is not durable yet.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct MovedLogStart {
    version: u64,
}

impl Log {
    pub(crate) fn remove_snapshot(&self, writer: &mut Writer, offset: i64) -> Result<(), StorageError> {
        let path = producer_snapshot::path(&self.dir, offset);
        self.shared.handles.disk().remove_file(&path).context("remove", &path)?;
        writer.snapshots.retain(|other| *other != offset);
        Ok(())
    }

    /// Deletes the records below `offset` (-1: below the high watermark). The new log start is durable when this
    /// returns. An offset below the log start changes nothing.
    ///
    /// # Errors
    /// [`StorageError::OffsetOutOfRange`] above the high watermark or below -1; [`StorageError::Io`] when the
    /// checkpoint cannot be written: the records may be gone or not after a crash, so the caller asks again.
    pub fn delete_records(&self, offset: i64) -> Result<LogStartOffset, StorageError> {
        let moved = self.move_log_start(offset)?;
        self.persist_log_start(moved)
    }

    /// The first half of [`Self::delete_records`]: the records are gone, and [`Self::persist_log_start`] makes that durable.
    /// For the logs of one directory, moved one after the other, the first of those calls writes it for all.
    ///
    /// # Errors
    /// As [`Self::delete_records`], but for the checkpoint.
    pub fn move_log_start(&self, offset: i64) -> Result<MovedLogStart, StorageError> {
        let mut writer = self.writer.lock();
        self.ensure_in_service(&writer)?;
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
        self.advance_log_start(&mut writer, target);
        Ok(MovedLogStart { version: self.note_log_start(&writer) })
    }

    /// Returns once the log start is on the disk.
    ///
    /// # Errors
    /// [`StorageError::Io`] when the checkpoint cannot be written.
    pub fn persist_log_start(&self, moved: MovedLogStart) -> Result<LogStartOffset, StorageError> {
        self.log_dir.persist_log_starts(moved.version)?;
        Ok(self.log_start_offset())
    }

    /// Moves the log start up to `target` in memory.
    fn advance_log_start(&self, writer: &mut Writer, target: i64) {
        if target > self.log_start_offset().get() {
            self.log_start.store(target, Ordering::Release);
            self.epochs.lock().truncate_from_start(target);
            writer.touched = true;
        }
    }

    /// Notes the log start for the checkpoint, unless the first segment tells it. Nothing is noted of a log that is out
    /// of service: another one may have its name by now.
    fn note_log_start(&self, writer: &Writer) -> u64 {
        if writer.closed {
            return 0;
        }
        let start = self.log_start_offset().get();
        let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
        self.log_dir.set_log_start(&self.topic_partition, (start > first_base).then_some(start))
    }

    /// Deletes the oldest segments as `retention.ms`, `retention.bytes` and the log start allow. The active segment is
    /// rolled first when it is due itself.
    ///
    /// # Errors
    /// [`StorageError::Io`]; a file that cannot be removed is tried again by the next call.
    pub fn apply_retention(&self, now_ms: i64) -> Result<Retained, StorageError> {
        let config = self.config();
        self.learn_ages(&config, now_ms);
        {
            let mut writer = self.writer.lock();
            if writer.closed {
                return Ok(Retained::default());
            }
            let idle_ms = now_ms.saturating_sub(self.last_append_ms.load(Ordering::Relaxed));
            if !writer.torn && idle_ms >= ROOM_KEPT_MS {
                self.cut_behind_end(&mut writer)?;
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
                    || self.is_too_old(segment, &config, now_ms);
                // An empty active segment has nothing to delete.
                if !is_due || upper > high_watermark || (next_base.is_none() && size == 0) {
                    break;
                }
                excess = excess.saturating_sub(size);
                due = index + 1;
            }
            if due > 0 {
                self.take_oldest(&mut writer, due, due == segments.len(), now_ms, &config)?;
            }
        }
        self.remove_doomed()
    }

    /// Takes the oldest segments out of the list, after a roll where the active one is among them.
    fn take_oldest(
        &self,
        writer: &mut Writer,
        due: usize,
        rolls: bool,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), StorageError> {
        if rolls {
            self.ensure_room_to_roll(writer, now_ms)?;
            let base_offset = self.log_end.load(Ordering::Relaxed);
            self.roll_locked(writer, base_offset, now_ms, config)
                .map_err(|error| self.note_failure(writer, "roll", error, now_ms))?;
        }
        // The log start comes first: a reader must never miss what it still counts as there.
        let first_base = self.segments.read().get(due).map_or(0, |segment| segment.base_offset);
        self.advance_log_start(writer, first_base);
        let taken = self.take_out(|segments| segments.drain(..due).collect());
        self.doomed.lock().extend(taken);
        // Until the files are gone: a start that finds them must not let the log begin with them again.
        self.log_dir.set_log_start(&self.topic_partition, Some(self.log_start_offset().get()));
        Ok(())
    }

    /// Removes the files of the segments that were taken out of the list. What cannot be removed now is tried again by the
    /// next call.
    fn remove_doomed(&self) -> Result<Retained, StorageError> {
        let mut retained = Retained::default();
        let outcome = loop {
            let _removing = self.removing.lock();
            if self.is_out_of_service() {
                // What is left goes with the directory, or at the next start.
                break Ok(());
            }
            let Some(segment) = self.doomed.lock().pop_front() else { break Ok(()) };
            if let Err(error) = self.delete_segment_files(&segment) {
                self.doomed.lock().push_front(segment);
                break Err(error);
            }
            tracing::info!(
                partition = %self.topic_partition,
                base_offset = segment.base_offset,
                size_bytes = segment.size_bytes(),
                "deleted a segment"
            );
            retained.deleted_segments += 1;
            retained.deleted_bytes += segment.size_bytes();
        };
        count(&self.shared.counters.segments_deleted, retained.deleted_segments as u64);
        outcome?;
        let mut writer = self.writer.lock();
        if !writer.closed {
            let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
            let gone: Vec<i64> =
                writer.snapshots.iter().copied().filter(|offset| *offset < first_base).collect();
            for offset in gone {
                self.remove_snapshot(&mut writer, offset)?;
            }
            self.note_log_start(&writer);
        }
        Ok(retained)
    }

    /// Reads what is not known yet of the ages of old segments, or finds it again in them: not under the writer's lock.
    fn learn_ages(&self, config: &LogConfig, now_ms: i64) {
        let segments = self.all_segments();
        let sealed = segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
        let _ = sealed.iter().find(|segment| !self.is_too_old(segment, config, now_ms));
    }

    fn is_too_old(&self, segment: &Segment, config: &LogConfig, now_ms: i64) -> bool {
        config.delete
            && config.retention_ms >= 0
            && now_ms.saturating_sub(self.age_reference_ms(segment)) > config.retention_ms
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
        // No lookup opens a file or builds an index of it anew.
        segment.end();
        let place = self.place(segment.base_offset);
        let disk = self.shared.handles.disk();
        for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
            let path = place.path(suffix);
            disk.remove_file(&path).context("remove", &path)?;
        }
        self.damages.lock().retain(|damage| damage.segment_base_offset != segment.base_offset);
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

    /// Gives memory back that only a busy log needs, if nothing was appended for `idle_ms`.
    pub fn shrink_if_idle(&self, now_ms: i64, idle_ms: i64) {
        if now_ms.saturating_sub(self.last_append_ms.load(Ordering::Relaxed)) >= idle_ms {
            self.recent.lock().shrink();
        }
    }

    /// Builds the transaction index of a segment anew from the markers in the log. The log is read without the writer's
    /// lock; what is appended meanwhile is in the file already.
    pub(crate) fn rebuild_transaction_index(
        &self,
        segment: &Segment,
        reason: &str,
    ) -> Result<(), StorageError> {
        let place = self.place(segment.base_offset);
        let path = place.path(TXN_INDEX_SUFFIX);
        tracing::warn!(path = %path.display(), reason, "rebuilding the transaction index from the log");
        count(&self.shared.counters.files_rebuilt, 1);
        let mut snapshots = self.writer.lock().snapshots.clone();
        let end = self.log_end_offset().get();
        let mut found = self.transactions_from_log(segment, end, &mut snapshots)?;
        let writer = self.writer.lock();
        self.ensure_in_service(&writer)?;
        match transaction_index::read(place) {
            Ok(stored) => found.extend(stored.into_iter().filter(|entry| entry.last_offset >= end)),
            Err(StorageError::CorruptFile { .. }) if self.log_end_offset().get() > end => {
                let end = self.log_end_offset().get();
                found = self.transactions_from_log(segment, end, &mut writer.snapshots.clone())?;
            }
            Err(StorageError::CorruptFile { .. }) => {}
            Err(error) => return Err(error),
        }
        if !found.is_empty() {
            self.may_have_aborted.store(true, Ordering::Release);
        }
        transaction_index::replace(place, &found)
    }

    /// The aborted transactions whose markers lie in `segment` and below `end`, found in the log itself.
    pub(crate) fn transactions_from_log(
        &self,
        segment: &Segment,
        end: i64,
        snapshots: &mut Vec<i64>,
    ) -> Result<Vec<AbortedTxn>, StorageError> {
        let segments = self.all_segments();
        let next_base =
            segments.iter().map(|other| other.base_offset).find(|base| *base > segment.base_offset);
        let end = end.min(next_base.unwrap_or(i64::MAX));
        let mut state = ProducerState::new(ProducerIdQuota::new(usize::MAX));
        let loader = ProducerLoader {
            handles: &self.shared.handles,
            counters: &self.shared.counters,
            dir: &self.dir,
            segments: &segments,
            now_ms: 0,
            expiration_ms: i64::MAX,
        };
        let mut found = Vec::new();
        loader.load(&mut state, snapshots, end, segment.base_offset, &mut |base, txn| {
            if base == segment.base_offset {
                found.push(txn);
            }
        })?;
        Ok(found)
    }
}
