//! `.timeindex`: from timestamps to offsets in a segment.
//!
//! An entry is {i64 largest timestamp up to here, i32 last offset of the batch that has it minus base offset}. Both
//! grow. The last entry of a sealed segment is the largest timestamp in it.

use std::io;

use crate::index_file::{IndexFile, Place};

/// The suffix of the file's name.
pub const TIME_INDEX_SUFFIX: &str = ".timeindex";
/// Bytes of an entry.
pub const TIME_ENTRY_BYTES: usize = 12;

/// A timestamp and the last offset of the batch that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Milliseconds since 1970, -1 for none.
    pub timestamp: i64,
    /// The offset.
    pub offset: i64,
}

impl TimestampOffset {
    /// Reads an entry of the segment with this base offset. Input is untrusted: any bytes are an entry.
    pub fn decode(bytes: &[u8; TIME_ENTRY_BYTES], base_offset: i64) -> Self {
        let [t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3] = *bytes;
        let relative = i32::from_be_bytes([o0, o1, o2, o3]);
        Self {
            timestamp: i64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            offset: base_offset.saturating_add(i64::from(relative)),
        }
    }

    /// The bytes of the entry; `None` when the offset is too far from the base.
    pub fn encode(&self, base_offset: i64) -> Option<[u8; TIME_ENTRY_BYTES]> {
        let relative = i32::try_from(self.offset.checked_sub(base_offset)?).ok().filter(|r| *r >= 0)?;
        let mut bytes = [0; TIME_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&relative.to_be_bytes());
        Some(bytes)
    }
}

/// Reads a whole `.timeindex` file as far as it makes sense, as [`crate::offset_index::parse`] does. Input is
/// untrusted.
pub fn parse(bytes: &[u8], base_offset: i64) -> (Vec<TimestampOffset>, bool) {
    let (chunks, rest) = bytes.as_chunks::<TIME_ENTRY_BYTES>();
    let mut entries: Vec<TimestampOffset> = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let entry = TimestampOffset::decode(chunk, base_offset);
        let grows =
            entries.last().is_none_or(|last| last.timestamp < entry.timestamp && last.offset < entry.offset);
        if !grows || entry.offset < base_offset || entry.timestamp < 0 {
            let only_zeros =
                chunks.get(index..).unwrap_or_default().iter().all(|c| *c == [0; TIME_ENTRY_BYTES]);
            return (entries, !only_zeros || !rest.is_empty());
        }
        entries.push(entry);
    }
    (entries, !rest.is_empty())
}

/// The time index of one segment.
#[derive(Debug)]
pub(crate) struct TimeIndex(pub(crate) IndexFile<TIME_ENTRY_BYTES>);

impl TimeIndex {
    pub(crate) fn existing() -> Self {
        Self(IndexFile::existing(TIME_INDEX_SUFFIX))
    }

    pub(crate) fn empty() -> Self {
        Self(IndexFile::empty(TIME_INDEX_SUFFIX))
    }

    /// The last entry.
    pub(crate) fn last(&self, place: Place<'_>) -> io::Result<Option<TimestampOffset>> {
        Ok(self.0.last(place)?.map(|bytes| TimestampOffset::decode(&bytes, place.base_offset)))
    }

    /// The last entry whose timestamp is below `target`: everything up to its offset is older.
    pub(crate) fn lookup_below(&self, place: Place<'_>, target: i64) -> io::Result<Option<TimestampOffset>> {
        let base = place.base_offset;
        let found =
            self.0.last_where(place, |bytes| TimestampOffset::decode(bytes, base).timestamp < target)?;
        Ok(found.map(|(_, bytes)| TimestampOffset::decode(&bytes, base)))
    }

    /// Adds an entry unless its timestamp is not larger than the last one's. Returns whether it did.
    pub(crate) fn maybe_append(&self, place: Place<'_>, entry: TimestampOffset) -> io::Result<bool> {
        let last = self.last(place)?;
        if entry.timestamp < 0 || last.is_some_and(|last| entry.timestamp <= last.timestamp) {
            return Ok(false);
        }
        let Some(bytes) = entry.encode(place.base_offset) else { return Ok(false) };
        self.0.append(place, bytes)?;
        Ok(true)
    }

    /// Keeps the entries whose offset is below `offset`.
    pub(crate) fn truncate_to_offset(&self, place: Place<'_>, offset: i64) -> io::Result<()> {
        let base = place.base_offset;
        let below = |bytes: &[u8; TIME_ENTRY_BYTES]| TimestampOffset::decode(bytes, base).offset < offset;
        let keep = self.0.last_where(place, below)?.map_or(0, |(slot, _)| slot + 1);
        self.0.truncate(place, keep)
    }
}
