//! The check of what may have been under way when a crash came: from the recovery point to the end of the log.

use std::sync::Arc;

use weir_protocol::records::{BatchHeader, HEADER_SIZE_BYTES};

use crate::error::StorageError;
use crate::file_handles::{Access, FileHandle};
use crate::leader_epoch::LeaderEpochs;
use crate::log::{Damage, count};
use crate::offset_index::OffsetPosition;
use crate::recovery::Loader;
use crate::recovery_files;
use crate::scan::{LOOKUP_WINDOW_BYTES, ScanError, Scanner, StoredBatch};
use crate::segment::{Find, FindError, IndexBuilder, LOG_SUFFIX, Segment};
use crate::time_index::TimestampOffset;

/// How the check of one segment ended.
struct Checked {
    next_offset: i64,
    index: IndexBuilder,
    was_cut: bool,
}

impl Loader<'_> {
    /// Reads everything from the recovery point on and cuts the log at the first batch that is not right.
    pub(crate) fn check_tail(
        &self,
        segments: &mut Vec<Arc<Segment>>,
        flushed: usize,
        recovery_point: i64,
        epochs: &mut LeaderEpochs,
        damages: &mut Vec<Damage>,
        window: &mut [u8],
    ) -> Result<(i64, IndexBuilder), StorageError> {
        let mut end = (segments.get(flushed).map_or(0, |segment| segment.base_offset), IndexBuilder::new());
        let mut index = flushed;
        while let Some(segment) = segments.get(index).cloned() {
            let is_first = index == flushed;
            let broken = !is_first
                && (segment.base_offset < end.0 || (self.is_contiguous() && segment.base_offset != end.0));
            if broken {
                tracing::warn!(
                    partition = %self.name(),
                    segment = segment.base_offset,
                    expected = end.0,
                    "a segment does not begin where the one before it ends: the log ends there"
                );
                break;
            }
            let from = if is_first && recovery_point > segment.base_offset {
                self.recovery_start(&segment, recovery_point)?
            } else {
                None
            };
            let checked = self.check_segment(&segment, from, recovery_point, epochs, damages, window)?;
            if checked.was_cut
                && self.options.synced_appends
                && segments.get(index + 1).is_some_and(|next| next.size_bytes() > 0)
            {
                return Err(StorageError::CorruptFile {
                    path: self.place(segment.base_offset).path(LOG_SUFFIX),
                    reason: format!(
                        "it ends before offset {}, yet another segment follows",
                        checked.next_offset
                    ),
                });
            }
            end = (checked.next_offset, checked.index);
            index += 1;
            // A sealed segment ends with its largest timestamp.
            if index < segments.len() && !checked.was_cut {
                segment
                    .time_index
                    .maybe_append(self.place(segment.base_offset), end.1.largest)
                    .and_then(|_| segment.time_index.0.flush_tail(self.place(segment.base_offset)))
                    .map_err(|error| self.io("index", segment.base_offset, error))?;
                segment.set_max_timestamp(end.1.largest);
            }
            if checked.was_cut {
                break;
            }
        }
        for segment in segments.split_off(index) {
            tracing::warn!(
                partition = %self.name(),
                segment = segment.base_offset,
                size_bytes = segment.size_bytes(),
                "setting a segment behind the end of the log aside"
            );
            segment.close_handles();
            count(&self.shared.counters.truncated_bytes, segment.size_bytes());
            recovery_files::set_aside(self.shared.handles.disk(), self.place(segment.base_offset))?;
        }
        Ok(end)
    }

    /// Position of the batch with the recovery point, if the indexes below it can be kept. `None`: the segment must be
    /// read from its beginning.
    fn recovery_start(&self, segment: &Segment, recovery_point: i64) -> Result<Option<u64>, StorageError> {
        let place = self.place(segment.base_offset);
        let mut window = [0; LOOKUP_WINDOW_BYTES];
        let size = segment.size_bytes();
        if size == 0 || !self.indexes_grow(segment, recovery_point) {
            return Ok(None);
        }
        match segment.find(place, recovery_point, size, self.is_contiguous(), &mut window) {
            Ok(Find::Found(batch)) if batch.header.base_offset == recovery_point => Ok(Some(batch.position)),
            Ok(Find::PastEnd { next_offset }) if next_offset == recovery_point => Ok(Some(size)),
            Ok(_) | Err(FindError::BadIndex(_)) => Ok(None),
            // A torn batch right at the recovery point.
            Err(FindError::Bad { position, .. }) => {
                match segment.find_end(place, position, self.is_contiguous(), &mut window) {
                    Ok(end) if end.next_offset == recovery_point => Ok(Some(position)),
                    _ => Ok(None),
                }
            }
            Err(FindError::Io(error)) => Err(self.io("read", segment.base_offset, error)),
        }
    }

    /// Entries of both indexes up to `until` must grow, as every true index does.
    fn indexes_grow(&self, segment: &Segment, until: i64) -> bool {
        let place = self.place(segment.base_offset);
        let base = segment.base_offset;
        let mut last = OffsetPosition { offset: base - 1, position: 0 };
        let mut offsets_grow = true;
        let size = segment.size_bytes();
        let walked = segment.offset_index.0.for_each(place, |_, bytes| {
            let entry = OffsetPosition::decode(bytes, base);
            if entry.offset >= until {
                return false;
            }
            offsets_grow = entry.offset > last.offset
                && entry.position > last.position
                && u64::from(entry.position) < size;
            last = entry;
            offsets_grow
        });
        let mut last = TimestampOffset { timestamp: -1, offset: base - 1 };
        let mut times_grow = true;
        let walked_times = segment.time_index.0.for_each(place, |_, bytes| {
            let entry = TimestampOffset::decode(bytes, base);
            if entry.offset >= until {
                return false;
            }
            times_grow = entry.timestamp > last.timestamp && entry.offset > last.offset;
            last = entry;
            times_grow
        });
        walked.is_ok() && walked_times.is_ok() && offsets_grow && times_grow
    }

    /// Looks behind a damaged place for a batch that belongs to this log: offsets that go on, and a CRC that is right. Where
    /// it begins, and with which offset.
    fn whole_batch_behind(
        &self,
        handle: &FileHandle,
        window: &mut [u8],
        position: u64,
        size: u64,
        expected: i64,
    ) -> Result<Option<(u64, i64)>, StorageError> {
        let disk = self.shared.handles.disk();
        let failed = |source| StorageError::Io { action: "read", path: handle.path().to_path_buf(), source };
        let mut small = [0; LOOKUP_WINDOW_BYTES];
        let mut start = position + 1;
        while start + HEADER_SIZE_BYTES as u64 <= size {
            let length = disk.read_at(handle.file(), handle.path(), window, start).map_err(failed)?;
            let bytes = window.get(..length).unwrap_or_default();
            if length < HEADER_SIZE_BYTES {
                break;
            }
            for (at, head) in (start..).zip(bytes.windows(HEADER_SIZE_BYTES)) {
                let Some(Ok(header)) = BatchHeader::parse_prefix(head) else { continue };
                let follows =
                    (expected..expected.saturating_add(i64::from(i32::MAX))).contains(&header.base_offset);
                if !follows || header.size_bytes() as u64 > size - at {
                    continue;
                }
                let mut scanner = Scanner::new(disk, handle, &mut small, at, size);
                if let Ok(Some(batch)) = scanner.next_batch()
                    && batch.is_v2()
                    && scanner.crc_is_right(&batch).unwrap_or(false)
                {
                    return Ok(Some((at, header.base_offset)));
                }
            }
            start += (length - HEADER_SIZE_BYTES + 1) as u64;
        }
        Ok(None)
    }

    /// The next batch of a segment, or why it is not right; `None` at the end.
    fn next_right(
        &self,
        scanner: &mut Scanner<'_>,
        base: i64,
        expected: i64,
    ) -> Result<Option<Result<StoredBatch, String>>, StorageError> {
        let batch = match scanner.next_batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(ScanError::Io(error)) => return Err(self.io("read", base, error)),
            Err(ScanError::Bad { reason, .. }) => return Ok(Some(Err(reason))),
        };
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        let fault = if batch.is_v2() && (first < expected || (first > expected && self.is_contiguous())) {
            format!("offset {expected} should follow, not {first}")
        } else if last < expected {
            format!("offsets go back from {expected} to {last}")
        } else if last - base > i64::from(i32::MAX) {
            format!("offset {last} is too far from the segment's base {base}")
        } else {
            match scanner.crc_is_right(&batch) {
                Ok(true) => return Ok(Some(Ok(batch))),
                Ok(false) => "its CRC is wrong".to_owned(),
                Err(ScanError::Io(error)) => return Err(self.io("read", base, error)),
                Err(ScanError::Bad { reason, .. }) => reason,
            }
        };
        Ok(Some(Err(fault)))
    }

    /// Reads a segment from `from` on, rebuilds its indexes from there and cuts it where it stops being right. What was on
    /// the disk before the crash is not cut off: damage below the recovery point is stepped over and noted.
    fn check_segment(
        &self,
        segment: &Segment,
        from: Option<u64>,
        recovery_point: i64,
        epochs: &mut LeaderEpochs,
        damages: &mut Vec<Damage>,
        window: &mut [u8],
    ) -> Result<Checked, StorageError> {
        let place = self.place(segment.base_offset);
        let base = segment.base_offset;
        let disk = self.shared.handles.disk();
        let size = segment.size_bytes();
        let failed = |error: std::io::Error| self.io("index", base, error);
        let mut index = IndexBuilder::new();
        let mut expected = base;
        let start = from.unwrap_or(0);
        if start > 0 {
            segment.offset_index.truncate_to_position(place, start).map_err(failed)?;
            let mut small = [0; LOOKUP_WINDOW_BYTES];
            // It is the recovery point that begins there, or the file ends.
            expected = recovery_point;
            match segment.find_end(place, start, self.is_contiguous(), &mut small) {
                Ok(end) => index.largest = end.largest,
                Err(FindError::Io(error)) => return Err(self.io("read", base, error)),
                // Damage before it is no concern of the tail's.
                Err(FindError::BadIndex(reason) | FindError::Bad { reason, .. }) => {
                    tracing::warn!(partition = %self.name(), segment = base, reason, "damage below the recovery point");
                }
            }
            segment.time_index.truncate_to_offset(place, expected).map_err(failed)?;
            if let Some(last) = segment.time_index.last(place).map_err(failed)?
                && last.timestamp > index.largest.timestamp
            {
                index.largest = last;
            }
            let last = segment.offset_index.lookup(place, i64::MAX).map_err(failed)?;
            index.bytes_since_entry = start - last.map_or(0, |entry| u64::from(entry.position));
        } else {
            segment.offset_index.0.truncate(place, 0).map_err(failed)?;
            segment.time_index.0.truncate(place, 0).map_err(failed)?;
        }
        let handle = segment.handle(place, Access::Read).map_err(|error| self.io("open", base, error))?;
        let mut scanner = Scanner::new(disk, &handle, window, start, size);
        let interval = self.options.config.index_interval_bytes;
        let mut valid_end = start;
        let bad = loop {
            let reason = match self.next_right(&mut scanner, base, expected)? {
                None => break None,
                Some(Ok(batch)) => {
                    let header = &batch.header;
                    let epoch = header.partition_leader_epoch;
                    if epoch >= 0 && epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
                        epochs.assign(epoch, header.base_offset);
                    }
                    index
                        .add(segment, place, header, batch.position, batch.size_bytes, interval)
                        .map_err(failed)?;
                    expected = header.next_offset();
                    valid_end = batch.end();
                    continue;
                }
                Some(Err(reason)) => reason,
            };
            if expected >= recovery_point {
                break Some(reason);
            }
            let behind = self.whole_batch_behind(&handle, window, valid_end, size, expected)?;
            let Some((at, next)) = behind.filter(|(_, next)| *next <= recovery_point) else {
                break Some(reason);
            };
            let damage = Damage {
                segment_base_offset: base,
                position: valid_end,
                first_offset: expected,
                end_offset: next,
                reason,
            };
            damage.note(damages, self.name(), &self.shared.counters);
            // An entry for the batch behind it, or no lookup would get there.
            index.bytes_since_entry = u64::from(interval) + 1;
            (valid_end, expected) = (at, next);
            scanner = Scanner::new(disk, &handle, window, at, size);
        };
        count(&self.shared.counters.recovery_bytes, size - start);
        if let Some(reason) = &bad
            && self.options.synced_appends
            && let Some((at, _)) = self.whole_batch_behind(&handle, window, valid_end, size, expected)?
        {
            let path = place.path(LOG_SUFFIX);
            return Err(StorageError::CorruptFile {
                reason: format!(
                    "no whole batch begins at byte {valid_end} ({reason}), yet one follows at byte {at}: this is not \
                     the torn end that a crash leaves. Restore the file; or give up what follows by cutting it to \
                     {valid_end} bytes (truncate -s {valid_end})"
                ),
                path,
            });
        }
        if let Some(reason) = &bad {
            count(&self.shared.counters.truncated_bytes, size - valid_end);
            tracing::warn!(
                partition = %self.name(),
                segment = base,
                position = valid_end,
                size_bytes = size,
                next_offset = expected,
                reason,
                "cutting the log at the first batch that is not right"
            );
            let handle =
                segment.handle(place, Access::Write).map_err(|error| self.io("open", base, error))?;
            disk.set_length(handle.file(), handle.path(), valid_end)
                .map_err(|error| self.io("truncate", base, error))?;
            segment.set_size_bytes(valid_end);
        }
        segment.offset_index.0.flush_tail(place).map_err(failed)?;
        segment.time_index.0.flush_tail(place).map_err(failed)?;
        Ok(Checked { next_offset: expected, index, was_cut: bad.is_some() })
    }
}
