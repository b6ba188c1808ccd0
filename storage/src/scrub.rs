//! The background scrub: reads all logs over and over, a few bytes at a time, and names what is damaged.
//!
//! It verifies the CRC and the offsets of every batch, that no segment ends before the next begins, that each entry of
//! a sealed segment's offset index names a batch, and that its transaction index says what the markers in the log say.
//! Indexes are rebuilt; damaged batches are remembered by their log, so that a read of them is an explicit error. The
//! caller sets the pace by the bytes that it allows per step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::StorageError;
use crate::file_handles::Access;
use crate::index_file::Place;
use crate::log::{Damage, Log, count};
use crate::log_manager::LogManager;
use crate::offset_index::OffsetPosition;
use crate::scan::{SCAN_WINDOW_BYTES, ScanError, Scanner, StoredBatch};
use crate::segment::{LONGEST_WALK_BYTES, Segment};
use crate::topic_partition::TopicPartition;
use crate::transaction_index;

/// What one step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Bytes read.
    pub bytes: u64,
    /// Damaged batches met in this step, known ones included.
    pub damaged: usize,
    /// Holes between segments met in this step.
    pub gaps: usize,
    /// Indexes that were rebuilt.
    pub rebuilt: usize,
    /// True when the step came to the end of the last log; the next one begins anew.
    pub pass_finished: bool,
}

/// Where the scrub is.
#[derive(Debug, Default)]
struct Cursor {
    /// The log that is being read; the next one is found by order, so logs may come and go.
    log: Option<TopicPartition>,
    base_offset: i64,
    position: u64,
    expected: i64,
    next_slot: u32,
    last_entry: u64,
    /// The offset that the last entry named.
    entry_offset: Option<i64>,
    /// An entry named this offset and a batch before the one that ends with it.
    pending_offset: Option<i64>,
    largest_timestamp: i64,
    index_is_bad: bool,
    saw_marker: bool,
    /// A part of the segment was stepped over: what its indexes should say is not known.
    stepped_over: bool,
}

/// Reads logs for damage. One per process is enough. Holds a window of 64 KiB.
#[derive(Debug)]
pub struct Scrubber {
    window: Box<[u8]>,
    cursor: Cursor,
}

impl Default for Scrubber {
    fn default() -> Self {
        Self::new()
    }
}

impl Scrubber {
    /// A scrub that begins with the first log.
    pub fn new() -> Self {
        Self { window: vec![0; SCAN_WINDOW_BYTES].into_boxed_slice(), cursor: Cursor::default() }
    }

    /// Reads on for about `max_bytes` (at least one batch).
    ///
    /// # Errors
    /// [`StorageError::Io`]: the log is passed over for this time.
    pub fn step(&mut self, manager: &LogManager, max_bytes: u64) -> Result<ScrubReport, StorageError> {
        let mut logs = manager.logs();
        logs.sort_unstable_by(|a, b| a.topic_partition().cmp(b.topic_partition()));
        self.step_over(&logs, max_bytes)
    }

    /// As [`Self::step`], over logs sorted by their names.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_over(&mut self, logs: &[Arc<Log>], max_bytes: u64) -> Result<ScrubReport, StorageError> {
        let mut report = ScrubReport::default();
        let mut index = match &self.cursor.log {
            None => 0,
            Some(name) => logs.partition_point(|log| log.topic_partition() < name),
        };
        while report.bytes < max_bytes {
            let Some(log) = logs.get(index) else {
                self.cursor = Cursor::default();
                report.pass_finished = true;
                return Ok(report);
            };
            if self.cursor.log.as_ref() != Some(log.topic_partition()) {
                self.cursor = Cursor { log: Some(log.topic_partition().clone()), ..Cursor::default() };
                self.cursor.base_offset = i64::MIN;
            }
            match self.scrub_log(log, max_bytes, &mut report) {
                Ok(true) => index += 1,
                Ok(false) => {}
                Err(error) => {
                    // Begin with the next log next time.
                    self.cursor = Cursor {
                        log: logs.get(index + 1).map(|next| next.topic_partition().clone()),
                        base_offset: i64::MIN,
                        ..Cursor::default()
                    };
                    return Err(error);
                }
            }
        }
        Ok(report)
    }

    /// Returns true when the log is done.
    fn scrub_log(
        &mut self,
        log: &Log,
        max_bytes: u64,
        report: &mut ScrubReport,
    ) -> Result<bool, StorageError> {
        let segments = log.all_segments();
        let at = segments.partition_point(|segment| segment.base_offset < self.cursor.base_offset);
        let Some(segment) = segments.get(at) else { return Ok(true) };
        if segment.base_offset != self.cursor.base_offset {
            self.enter(segment);
        }
        let next = segments.get(at + 1).map(|next| next.base_offset);
        let done = self.scrub_segment(log, segment, next.is_some(), max_bytes, report)?;
        if !done {
            return Ok(false);
        }
        if let Some(next_base) = next {
            self.finish_segment(log, segment, next_base, report)?;
        }
        self.check_transactions(log, segment, report)?;
        match segments.get(at + 1) {
            Some(next) => {
                self.enter(next);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn enter(&mut self, segment: &Segment) {
        self.cursor = Cursor {
            log: self.cursor.log.take(),
            base_offset: segment.base_offset,
            expected: segment.base_offset,
            largest_timestamp: -1,
            ..Cursor::default()
        };
    }

    fn scrub_segment(
        &mut self,
        log: &Log,
        segment: &Segment,
        is_sealed: bool,
        max_bytes: u64,
        report: &mut ScrubReport,
    ) -> Result<bool, StorageError> {
        let place = log.place(segment.base_offset);
        let size = segment.size_bytes();
        if self.cursor.position >= size {
            return Ok(true);
        }
        let failed = |error: std::io::Error| log.io_error("read", segment.base_offset, error);
        let handle = segment.handle(place, Access::Read).map_err(failed)?;
        let disk = place.handles.disk();
        let mut scanner = Scanner::new(disk, &handle, &mut self.window, self.cursor.position, size);
        let longest_walk = LONGEST_WALK_BYTES.max(u64::from(log.config.read().index_interval_bytes) * 2);
        loop {
            if report.bytes >= max_bytes {
                return Ok(false);
            }
            let batch = match scanner.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(true),
                Err(ScanError::Io(error)) => return Err(failed(error)),
                Err(ScanError::Bad { position, reason }) => {
                    report.damaged += 1;
                    // Segments change only by retention and truncation, after which the file may be shorter.
                    if segment.size_bytes() < size {
                        return Ok(true);
                    }
                    let resume = segment.batch_behind(place, position, size).map_err(failed)?;
                    let end_offset = resume.map_or(i64::MAX, |batch| batch.header.base_offset);
                    log.note_damage(Damage {
                        segment_base_offset: segment.base_offset,
                        position,
                        first_offset: self.cursor.expected,
                        end_offset,
                        reason,
                    });
                    let Some(batch) = resume else {
                        self.cursor.stepped_over = true;
                        self.cursor.position = size;
                        return Ok(true);
                    };
                    self.cursor.stepped_over = true;
                    report.bytes += batch.position - position;
                    self.cursor.position = batch.position;
                    self.cursor.expected = batch.header.base_offset;
                    return Ok(false);
                }
            };
            report.bytes += batch.size_bytes;
            let header = &batch.header;
            let fault = if batch.is_v2() && log.is_contiguous() && header.base_offset != self.cursor.expected
            {
                Some(format!("offset {} should follow, not {}", self.cursor.expected, header.base_offset))
            } else {
                match scanner.crc_is_right(&batch) {
                    Ok(true) => None,
                    Ok(false) => Some("its CRC is wrong".to_owned()),
                    Err(ScanError::Io(error)) => return Err(failed(error)),
                    Err(ScanError::Bad { reason, .. }) => Some(reason),
                }
            };
            if let Some(reason) = fault {
                report.damaged += 1;
                log.note_damage(Damage {
                    segment_base_offset: segment.base_offset,
                    position: batch.position,
                    first_offset: self.cursor.expected.min(header.base_offset),
                    end_offset: header.next_offset(),
                    reason,
                });
            }
            self.cursor.largest_timestamp = self.cursor.largest_timestamp.max(header.max_timestamp);
            self.cursor.saw_marker |= header.is_control() && header.has_producer_id();
            self.cursor.expected = header.next_offset();
            self.cursor.position = batch.end();
            if is_sealed && !self.cursor.index_is_bad {
                check_entry(place, segment, &batch, longest_walk, &mut self.cursor);
            }
        }
    }

    /// What can be said only at the end of a sealed segment.
    fn finish_segment(
        &mut self,
        log: &Log,
        segment: &Segment,
        next_base: i64,
        report: &mut ScrubReport,
    ) -> Result<(), StorageError> {
        let place = log.place(segment.base_offset);
        if log.is_contiguous() && self.cursor.expected != next_base && segment.size_bytes() > 0 {
            report.gaps += 1;
            let _noted = log.gap(segment, self.cursor.expected, next_base);
        }
        let index = &segment.offset_index.0;
        let left_over = self.cursor.pending_offset.is_some()
            || index.entries(place).map_or(true, |entries| entries > self.cursor.next_slot)
            || index.has_rest(place).unwrap_or(true)
            || segment.time_index.0.has_rest(place).unwrap_or(true);
        let last_timestamp =
            segment.time_index.last(place).map(|last| last.map_or(-1, |last| last.timestamp));
        let time_is_bad = last_timestamp.map_or(true, |last| last != self.cursor.largest_timestamp);
        if !self.cursor.stepped_over
            && (self.cursor.index_is_bad || left_over || time_is_bad)
            && log.rebuild_sealed_index(segment)?
        {
            report.rebuilt += 1;
        }
        Ok(())
    }

    /// The transaction index must say what the markers that were read say.
    fn check_transactions(
        &self,
        log: &Log,
        segment: &Segment,
        report: &mut ScrubReport,
    ) -> Result<(), StorageError> {
        if !self.cursor.saw_marker && !log.may_have_aborted.load(Ordering::Acquire) {
            return Ok(());
        }
        let end = self.cursor.expected;
        let stored = transaction_index::read(log.place(segment.base_offset));
        let reason = match stored {
            Ok(entries) if entries.is_empty() && !self.cursor.saw_marker => return Ok(()),
            Ok(mut entries) => {
                // The active segment may have grown since.
                entries.retain(|entry| entry.last_offset < end);
                let mut snapshots = log.writer.lock().snapshots.clone();
                if entries == log.transactions_from_log(segment, end, &mut snapshots)? {
                    return Ok(());
                }
                "it does not say what the markers in the log say".to_owned()
            }
            Err(StorageError::CorruptFile { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        log.rebuild_transaction_index(segment, &reason)?;
        report.rebuilt += 1;
        Ok(())
    }
}

/// Compares the next index entry with a batch that was just read.
fn check_entry(
    place: Place<'_>,
    segment: &Segment,
    batch: &StoredBatch,
    longest_walk: u64,
    cursor: &mut Cursor,
) {
    let last = batch.header.last_offset();
    match cursor.pending_offset {
        Some(pending) if last == pending => cursor.pending_offset = None,
        Some(pending) if last > pending => cursor.index_is_bad = true,
        _ => {}
    }
    match segment.offset_index.0.entry(place, cursor.next_slot) {
        Ok(None) => {}
        Ok(Some(bytes)) => {
            let entry = OffsetPosition::decode(&bytes, segment.base_offset);
            let position = u64::from(entry.position);
            let grows = cursor.entry_offset.is_none_or(|before| before < entry.offset);
            if position == batch.position && entry.offset >= last && grows && cursor.pending_offset.is_none()
            {
                cursor.entry_offset = Some(entry.offset);
                cursor.pending_offset = Some(entry.offset).filter(|offset| *offset > last);
                cursor.next_slot += 1;
                cursor.last_entry = position;
            } else if position <= batch.position {
                cursor.index_is_bad = true;
            }
        }
        Err(_) => cursor.index_is_bad = true,
    }
    if batch.position - cursor.last_entry > longest_walk {
        // Entries that should be here are missing: no lookup fails, but each one walks too far.
        cursor.index_is_bad = true;
    }
}

impl Log {
    /// Rebuilds the indexes of a sealed segment. Returns false when damage in the log keeps it from being done.
    pub(crate) fn rebuild_sealed_index(&self, segment: &Segment) -> Result<bool, StorageError> {
        let place = self.place(segment.base_offset);
        let interval = self.config.read().index_interval_bytes;
        tracing::warn!(
            partition = %self.topic_partition,
            segment = segment.base_offset,
            "an index does not match its segment, rebuilding it from the log"
        );
        count(&self.shared.counters.index_rebuilds, 1);
        match segment.rebuild_indexes(place, segment.size_bytes(), interval, segment.rebuild_count()) {
            Ok(()) => Ok(true),
            Err(crate::segment::FindError::Io(error)) => {
                Err(self.io_error("index", segment.base_offset, error))
            }
            Err(_) => Ok(false),
        }
    }
}
