//! Takes records back: truncation to an offset, and a log that begins anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{IoContext, StorageError};
use crate::file_handles::Access;
use crate::log::{Log, Writer};
use crate::log_append::jitter;
use crate::producer_loader::ProducerLoader;
use crate::producer_snapshot;
use crate::scan::LOOKUP_WINDOW_BYTES;
use crate::segment::{Find, IndexBuilder, Segment};
use crate::time_index::TimestampOffset;
use crate::transaction_index;

impl Log {
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
        let removed = self.take_out(|segments| {
            let keep = segments.partition_point(|segment| segment.base_offset <= offset).max(1);
            segments.split_off(keep)
        });
        for segment in removed.iter().rev() {
            self.delete_segment_files(segment)?;
        }
        let segment = self.segment_for(offset).0;
        let place = self.place(segment.base_offset);
        let mut window = [0; LOOKUP_WINDOW_BYTES];
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
        writer.room.forget();
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
            epochs.write_if_behind(disk, &self.dir, end_offset)?;
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
        let loader = ProducerLoader {
            handles: &self.shared.handles,
            counters: &self.shared.counters,
            dir: &self.dir,
            segments: &segments,
            now_ms,
            expiration_ms,
        };
        loader.load(&mut writer.producers, &mut writer.snapshots, end_offset, i64::MAX, &mut |_, _| {})?;
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
            Segment::create(self.place(offset), self.shared.segments.segment())
                .map_err(|error| self.io_error("create", offset, error))?,
        );
        self.take_out(|segments| std::mem::replace(segments, vec![Arc::clone(&segment)]));
        writer.active = segment;
        writer.index = IndexBuilder::new();
        writer.first_timestamp = None;
        writer.segment_created_ms = now_ms;
        writer.jitter_ms = jitter(&config, offset, &self.topic_partition);
        writer.torn = false;
        writer.room.forget();
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
        epochs.write_if_behind(self.shared.handles.disk(), &self.dir, offset)?;
        drop(epochs);
        self.log_dir.set_log_start(&self.topic_partition, None);
        self.dir_unsynced.store(true, Ordering::Relaxed);
        Ok(())
    }
}
