//! `.index`: from offsets to positions in a segment, one entry for each `index.interval.bytes`.
//!
//! An entry is {i32 last offset of a batch minus base offset, i32 position of that batch}.

use std::io;

use crate::index_file::{IndexFile, Place};

/// The suffix of the file's name.
pub const INDEX_SUFFIX: &str = ".index";
/// Bytes of an entry.
pub const OFFSET_ENTRY_BYTES: usize = 8;

/// What an entry claims: the batch at `position` ends with `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPosition {
    /// The last offset of the batch.
    pub offset: i64,
    /// Where the batch begins.
    pub position: u32,
}

impl OffsetPosition {
    /// Reads an entry of the segment with this base offset. Input is untrusted: any bytes are an entry, and what it
    /// claims must be checked.
    pub fn decode(bytes: &[u8; OFFSET_ENTRY_BYTES], base_offset: i64) -> Self {
        let [o0, o1, o2, o3, p0, p1, p2, p3] = *bytes;
        let relative = i32::from_be_bytes([o0, o1, o2, o3]);
        Self {
            offset: base_offset.saturating_add(i64::from(relative)),
            position: u32::from_be_bytes([p0, p1, p2, p3]),
        }
    }

    /// The bytes of the entry; `None` when the offset is too far from the base.
    pub fn encode(&self, base_offset: i64) -> Option<[u8; OFFSET_ENTRY_BYTES]> {
        let relative = i32::try_from(self.offset.checked_sub(base_offset)?).ok().filter(|r| *r >= 0)?;
        let mut bytes = [0; OFFSET_ENTRY_BYTES];
        bytes[..4].copy_from_slice(&relative.to_be_bytes());
        bytes[4..].copy_from_slice(&self.position.to_be_bytes());
        Some(bytes)
    }
}

/// Reads a whole `.index` file as far as it makes sense: entries whose offsets and positions grow. Input is
/// untrusted. Returns the entries and whether anything was left over (a part of an entry, or entries out of order;
/// zeros at the end, as a preallocated file has, are no entries and no fault).
pub fn parse(bytes: &[u8], base_offset: i64) -> (Vec<OffsetPosition>, bool) {
    let (chunks, rest) = bytes.as_chunks::<OFFSET_ENTRY_BYTES>();
    let mut entries: Vec<OffsetPosition> = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let entry = OffsetPosition::decode(chunk, base_offset);
        let grows =
            entries.last().is_none_or(|last| last.offset < entry.offset && last.position < entry.position);
        if !grows || entry.offset < base_offset || *chunk == [0; OFFSET_ENTRY_BYTES] {
            let only_zeros =
                chunks.get(index..).unwrap_or_default().iter().all(|c| *c == [0; OFFSET_ENTRY_BYTES]);
            return (entries, !only_zeros || !rest.is_empty());
        }
        entries.push(entry);
    }
    (entries, !rest.is_empty())
}

/// The offset index of one segment.
#[derive(Debug)]
pub(crate) struct OffsetIndex(pub(crate) IndexFile<OFFSET_ENTRY_BYTES>);

impl OffsetIndex {
    pub(crate) fn existing() -> Self {
        Self(IndexFile::existing(INDEX_SUFFIX))
    }

    pub(crate) fn empty() -> Self {
        Self(IndexFile::empty(INDEX_SUFFIX))
    }

    /// The last entry whose offset is at most `target`.
    pub(crate) fn lookup(&self, place: Place<'_>, target: i64) -> io::Result<Option<OffsetPosition>> {
        let base = place.base_offset;
        let found = self.0.last_where(place, |bytes| OffsetPosition::decode(bytes, base).offset <= target)?;
        Ok(found.map(|(_, bytes)| OffsetPosition::decode(&bytes, base)))
    }

    /// The first entry that lies at or behind `position`.
    pub(crate) fn first_at(&self, place: Place<'_>, position: u64) -> io::Result<Option<OffsetPosition>> {
        let base = place.base_offset;
        let below = |bytes: &[u8; 8]| u64::from(OffsetPosition::decode(bytes, base).position) < position;
        let slot = self.0.last_where(place, below)?.map_or(0, |(slot, _)| slot + 1);
        Ok(self.0.entry(place, slot)?.map(|bytes| OffsetPosition::decode(&bytes, base)))
    }

    /// Keeps the entries that lie below `position`.
    pub(crate) fn truncate_to_position(&self, place: Place<'_>, position: u64) -> io::Result<()> {
        let base = place.base_offset;
        let below = |bytes: &[u8; 8]| u64::from(OffsetPosition::decode(bytes, base).position) < position;
        let keep = self.0.last_where(place, below)?.map_or(0, |(slot, _)| slot + 1);
        self.0.truncate(place, keep)
    }
}
