//! Where in a batch a timestamp lies: ListOffsets must land inside of a batch, compressed or not.

use std::io::IoSlice;
use std::ops::ControlFlow;

use super::header::{BatchHeader, TimestampType};
use super::inflate::Source;
use super::scratch::Scratch;
use super::walk::{RecordMeta, Visitor, Walk};
use super::{BatchError, Field, InflateLimits, RecordFault};

/// A record found by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp, ms since the epoch.
    pub timestamp: i64,
}

/// The first record with a timestamp of at least `target_ms` and an offset of at least `from_offset`; `None` if the
/// batch has none. Stops at the record it finds. Memory as in validation. Input is untrusted.
///
/// # Errors
/// Damage in front of the record.
pub fn find_offset_by_timestamp(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    target_ms: i64,
    from_offset: i64,
    limits: &InflateLimits,
    scratch: &mut Scratch,
) -> Result<Option<TimestampedOffset>, BatchError> {
    let append_time_ms =
        (header.timestamp_type() == TimestampType::LogAppendTime).then_some(header.max_timestamp);
    if append_time_ms.is_some_and(|time| time < target_ms) {
        return Ok(None);
    }
    let accept = |found: &TimestampedOffset| found.timestamp >= target_ms && found.offset >= from_offset;
    search(header, body, append_time_ms, accept, limits, scratch)
}

/// The first record that has the largest timestamp among those of the batch with an offset of at least `from_offset`
/// (ListOffsets with timestamp -3, KIP-734); `None` if there are none. Reads the whole batch once or twice. Input is untrusted.
///
/// # Errors
/// Damage anywhere in the batch.
pub fn find_offset_of_max_timestamp(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    from_offset: i64,
    limits: &InflateLimits,
    scratch: &mut Scratch,
) -> Result<Option<TimestampedOffset>, BatchError> {
    let append_time_ms =
        (header.timestamp_type() == TimestampType::LogAppendTime).then_some(header.max_timestamp);
    let mut best: Option<TimestampedOffset> = None;
    let keep = |found: &TimestampedOffset| {
        if found.offset >= from_offset && best.is_none_or(|best| found.timestamp > best.timestamp) {
            best = Some(*found);
        }
        false
    };
    search(header, body, append_time_ms, keep, limits, scratch)?;
    Ok(best)
}

struct Search<'h, F> {
    header: &'h BatchHeader,
    append_time_ms: Option<i64>,
    accept: F,
    found: Option<TimestampedOffset>,
}

impl<F: FnMut(&TimestampedOffset) -> bool> Visitor for Search<'_, F> {
    fn record(&mut self, meta: RecordMeta) -> Result<ControlFlow<()>, BatchError> {
        let overflow =
            |field| BatchError::Record { index: meta.index, fault: RecordFault::Overflow { field } };
        let offset = self
            .header
            .base_offset
            .checked_add(i64::from(meta.offset_delta))
            .ok_or_else(|| overflow(Field::Offset))?;
        let timestamp = match self.append_time_ms {
            Some(time) => time,
            None => self
                .header
                .base_timestamp
                .checked_add(meta.timestamp_delta)
                .ok_or_else(|| overflow(Field::Timestamp))?,
        };
        let candidate = TimestampedOffset { offset, timestamp };
        if (self.accept)(&candidate) {
            self.found = Some(candidate);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn search(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    append_time_ms: Option<i64>,
    accept: impl FnMut(&TimestampedOffset) -> bool,
    limits: &InflateLimits,
    scratch: &mut Scratch,
) -> Result<Option<TimestampedOffset>, BatchError> {
    let Ok(record_count @ 1..) = u32::try_from(header.record_count) else { return Ok(None) };
    let mut search = Search { header, append_time_ms, accept, found: None };
    let mut walk = Walk::new(record_count);
    let mut source = Source::new(header.compression()?, body, limits, scratch)?;
    loop {
        let piece = source.fill()?;
        let length = piece.len();
        if length == 0 {
            break;
        }
        if !walk.feed(piece, &mut search)? {
            return Ok(search.found);
        }
        source.consume(length);
    }
    walk.finish()?;
    Ok(search.found)
}
