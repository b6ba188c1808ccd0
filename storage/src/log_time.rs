//! From timestamps to offsets (ListOffsets).
//!
//! The time index says where to begin; the batch headers say which batch has a timestamp that is late enough; which
//! record of it that is only the records tell. Those may be compressed, so the caller looks into the batch with memory
//! that it has leased: it is handed a [`BatchRange`].

use std::sync::Arc;

use weir_protocol::records::{
    BatchHeader, HEADER_SIZE_BYTES, InflateLimits, Scratch, TimestampedOffset, find_offset_by_timestamp,
    find_offset_of_max_timestamp,
};

use crate::error::StorageError;
use crate::file_handles::Access;
use crate::log::Log;
use crate::log_read::FileRange;
use crate::scan::{LOOKUP_WINDOW_BYTES, ScanError, Scanner, StoredBatch};
use crate::segment::{LOG_SUFFIX, Segment};

/// One whole batch in a segment file.
#[derive(Debug, Clone)]
pub struct BatchRange {
    /// Its header.
    pub header: BatchHeader,
    /// Header and body.
    pub range: FileRange,
}

impl BatchRange {
    /// The whole of the batch's body in memory: as many bytes as the file holds for it. The caller has room for
    /// [`BatchHeader::body_size_bytes`].
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_body(&self) -> std::io::Result<Vec<u8>> {
        let mut body = vec![0; self.header.body_size_bytes()];
        let count = self.range.read_at(&mut body, HEADER_SIZE_BYTES as u32)?;
        body.truncate(count);
        Ok(body)
    }
}

impl Log {
    /// Finds the first record with a timestamp of at least `timestamp`: asks `search` about each batch that may hold
    /// it until it answers with one. `None` when no record is that late.
    ///
    /// # Errors
    /// What `search` says, and as [`Log::read`].
    pub fn offset_for_timestamp<E: From<StorageError>>(
        &self,
        timestamp: i64,
        mut search: impl FnMut(&BatchRange) -> Result<Option<TimestampedOffset>, E>,
    ) -> Result<Option<(TimestampedOffset, i32)>, E> {
        self.beside_removals(|| self.offset_for_timestamp_once(timestamp, &mut search))
    }

    fn offset_for_timestamp_once<E: From<StorageError>>(
        &self,
        timestamp: i64,
        search: &mut impl FnMut(&BatchRange) -> Result<Option<TimestampedOffset>, E>,
    ) -> Result<Option<(TimestampedOffset, i32)>, E> {
        let log_start = self.log_start_offset().get();
        let high_watermark = self.high_watermark().get();
        let segments = self.all_segments();
        for (index, segment) in segments.iter().enumerate() {
            let next_base = segments.get(index + 1).map(|next| next.base_offset);
            if next_base.is_some_and(|next| next <= log_start)
                || segment.base_offset >= high_watermark
                || self.max_timestamp_of(segment)?.0 < timestamp
            {
                continue;
            }
            let mut start = self.time_lookup_start(segment, timestamp, log_start)?;
            let handle = segment
                .handle(self.place(segment.base_offset), Access::Read)
                .map_err(|error| self.io_error("open", segment.base_offset, error))?;
            let end = segment.size_bytes();
            let mut window = [0; LOOKUP_WINDOW_BYTES];
            let disk = self.shared.handles.disk();
            let mut scanner = Scanner::new(disk, &handle, &mut window, start, end);
            while let Some(batch) = self.next_scanned(&mut scanner, segment, log_start)? {
                start = batch.end();
                let last = batch.header.last_offset();
                if batch.header.base_offset >= high_watermark {
                    return Ok(None);
                }
                if batch.header.max_timestamp < timestamp || last < log_start {
                    continue;
                }
                if !batch.is_v2() {
                    let found = TimestampedOffset { offset: last, timestamp: batch.header.max_timestamp };
                    return Ok(Some((found, -1)));
                }
                if let Some(found) = search(&self.range_of(&handle, &batch))? {
                    return Ok(Some((found, batch.header.partition_leader_epoch)));
                }
            }
            debug_assert!(start <= end);
        }
        Ok(None)
    }

    /// Finds the first record that has the largest timestamp from the log start on: `search` is asked about its batch,
    /// and about the one in which the log starts. `None` when the log is empty or has no timestamps.
    ///
    /// # Errors
    /// What `search` says, and as [`Log::read`].
    pub fn offset_of_max_timestamp<E: From<StorageError>>(
        &self,
        mut search: impl FnMut(&BatchRange) -> Result<Option<TimestampedOffset>, E>,
    ) -> Result<Option<(TimestampedOffset, i32)>, E> {
        self.beside_removals(|| self.offset_of_max_timestamp_once(&mut search))
    }

    fn offset_of_max_timestamp_once<E: From<StorageError>>(
        &self,
        search: &mut impl FnMut(&BatchRange) -> Result<Option<TimestampedOffset>, E>,
    ) -> Result<Option<(TimestampedOffset, i32)>, E> {
        let log_start = self.log_start_offset().get();
        let mut best: Option<(i64, i64)> = None;
        let mut at_start = None;
        for segment in self.all_segments() {
            let (mut timestamp, mut offset) = self.max_timestamp_of(&segment)?;
            if timestamp >= 0 && segment.base_offset < log_start {
                // What the index knows may be deleted: only the headers tell of the rest.
                (timestamp, offset) = self.max_timestamp_from(&segment, log_start, &mut at_start)?;
            }
            if timestamp >= 0 && best.is_none_or(|(largest, _)| timestamp > largest) {
                best = Some((timestamp, offset));
            }
        }
        let mut found: Option<(TimestampedOffset, i32)> = None;
        // The log may start inside of a batch whose largest timestamp is gone.
        for offset in at_start.into_iter().chain(best.map(|(_, offset)| offset)) {
            let other = self.max_timestamp_in(offset, search)?;
            if let Some(other) = other
                && found.is_none_or(|(found, _)| other.0.timestamp > found.timestamp)
            {
                found = Some(other);
            }
        }
        Ok(found)
    }

    /// The largest timestamp of the batches of a segment that lie behind `log_start`, and the last offset of the first
    /// batch that has it; `at_start` becomes an offset of the batch around `log_start`.
    fn max_timestamp_from(
        &self,
        segment: &Segment,
        log_start: i64,
        at_start: &mut Option<i64>,
    ) -> Result<(i64, i64), StorageError> {
        let mut best = (-1, -1);
        let Some((found, first)) = self.batch_at(log_start)? else { return Ok(best) };
        if found.base_offset != segment.base_offset {
            return Ok(best);
        }
        if first.header.base_offset < log_start {
            *at_start = Some(log_start);
        }
        let handle = segment
            .handle(self.place(segment.base_offset), Access::Read)
            .map_err(|error| self.io_error("open", segment.base_offset, error))?;
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        let disk = self.shared.handles.disk();
        let mut scanner = Scanner::new(disk, &handle, &mut window, first.position, segment.size_bytes());
        while let Some(batch) = self.next_scanned(&mut scanner, segment, log_start)? {
            if batch.header.base_offset >= log_start && batch.header.max_timestamp > best.0 {
                best = (batch.header.max_timestamp, batch.header.last_offset());
            }
        }
        Ok(best)
    }

    fn max_timestamp_in<E: From<StorageError>>(
        &self,
        offset: i64,
        search: &mut impl FnMut(&BatchRange) -> Result<Option<TimestampedOffset>, E>,
    ) -> Result<Option<(TimestampedOffset, i32)>, E> {
        let Some((segment, batch)) = self.batch_at(offset)? else { return Ok(None) };
        if !batch.is_v2() {
            let found = TimestampedOffset { offset, timestamp: batch.header.max_timestamp };
            return Ok(Some((found, -1)));
        }
        let handle = segment
            .handle(self.place(segment.base_offset), Access::Read)
            .map_err(|error| self.io_error("open", segment.base_offset, error))?;
        let found = search(&self.range_of(&handle, &batch))?;
        Ok(found.map(|found| (found, batch.header.partition_leader_epoch)))
    }

    fn range_of(&self, handle: &Arc<crate::file_handles::FileHandle>, batch: &StoredBatch) -> BatchRange {
        BatchRange {
            header: batch.header,
            range: FileRange {
                file: Arc::clone(handle),
                position: batch.position,
                length: u32::try_from(batch.size_bytes).unwrap_or(u32::MAX),
            },
        }
    }

    fn next_scanned(
        &self,
        scanner: &mut Scanner<'_>,
        segment: &Segment,
        offset: i64,
    ) -> Result<Option<StoredBatch>, StorageError> {
        scanner.next_batch().map_err(|error| match error {
            ScanError::Io(source) => self.io_error("read", segment.base_offset, source),
            ScanError::Bad { position, reason } => StorageError::CorruptBatch {
                topic_partition: self.topic_partition.clone(),
                offset: offset.max(segment.base_offset),
                path: self.place(segment.base_offset).path(LOG_SUFFIX),
                position,
                reason,
            },
        })
    }

    /// The largest timestamp of a segment and the last offset of the batch that has it; (-1, -1) without any. A
    /// missing time index is rebuilt.
    pub(crate) fn max_timestamp_of(&self, segment: &Segment) -> Result<(i64, i64), StorageError> {
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        let largest = self.with_index(segment, segment.base_offset, segment.size_bytes(), || {
            segment.max_timestamp(self.place(segment.base_offset), self.is_contiguous(), &mut window)
        })?;
        Ok((largest.timestamp, largest.offset))
    }

    /// Where to begin to look for `timestamp` in a segment: behind everything that is certainly older. The entry of
    /// the time index is checked against the batch that it names.
    fn time_lookup_start(
        &self,
        segment: &Segment,
        timestamp: i64,
        log_start: i64,
    ) -> Result<u64, StorageError> {
        let place = self.place(segment.base_offset);
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        let end = segment.size_bytes();
        self.with_index(segment, segment.base_offset, end, || {
            let hint = segment.time_index.lookup_below(place, timestamp)?;
            if let Some(hint) = hint {
                let batch = segment.check_time_entry(place, hint, end, self.is_contiguous(), &mut window)?;
                if hint.offset >= log_start {
                    return Ok(batch.position);
                }
            }
            let floor = segment.offset_index.lookup(place, log_start)?;
            Ok(floor.map_or(0, |entry| u64::from(entry.position)))
        })
    }
}

/// [`Log::offset_for_timestamp`] and [`Log::offset_of_max_timestamp`] with plain memory: for tools and tests.
pub mod in_memory {
    use super::*;
    use std::io::IoSlice;

    /// The first record with a timestamp of at least `timestamp`, and the leader epoch of its batch.
    ///
    /// # Errors
    /// As [`Log::offset_for_timestamp`]; a batch that cannot be read is [`StorageError::InvalidBatch`].
    pub fn offset_for_timestamp(
        log: &Log,
        timestamp: i64,
    ) -> Result<Option<(TimestampedOffset, i32)>, StorageError> {
        let from = log.log_start_offset().get();
        let mut scratch = Scratch::new(0);
        log.offset_for_timestamp(timestamp, |batch| {
            let body = read(log, batch)?;
            let limits = InflateLimits::default();
            find_offset_by_timestamp(
                &batch.header,
                &[IoSlice::new(&body)],
                timestamp,
                from,
                &limits,
                &mut scratch,
            )
            .map_err(|error| invalid(log, &error))
        })
    }

    /// The first record that has the largest timestamp, and the leader epoch of its batch.
    ///
    /// # Errors
    /// As [`offset_for_timestamp`].
    pub fn offset_of_max_timestamp(log: &Log) -> Result<Option<(TimestampedOffset, i32)>, StorageError> {
        let mut scratch = Scratch::new(0);
        let from = log.log_start_offset().get();
        log.offset_of_max_timestamp(|batch| {
            let body = read(log, batch)?;
            let limits = InflateLimits::default();
            find_offset_of_max_timestamp(&batch.header, &[IoSlice::new(&body)], from, &limits, &mut scratch)
                .map_err(|error| invalid(log, &error))
        })
    }

    fn read(log: &Log, batch: &BatchRange) -> Result<Vec<u8>, StorageError> {
        batch.read_body().map_err(|source| StorageError::Io {
            action: "read",
            path: log.dir().to_path_buf(),
            source,
        })
    }

    fn invalid(log: &Log, error: &dyn std::error::Error) -> StorageError {
        StorageError::InvalidBatch {
            topic_partition: log.topic_partition().clone(),
            reason: error.to_string(),
        }
    }
}
