//! Divides a dump into parts that can be walked side by side: runs of whole records.

use std::io;

use super::source::Origin;
use super::visitor::number;
use super::walk::Place;

/// A part of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where a walk of it begins.
    pub from: Place,
    /// Where it ends; `u64::MAX`: with the dump.
    pub end: u64,
}

/// Divides what lies from `from` on into parts of at least `part_bytes`, by looking at the heads of records alone, the first at
/// or behind `undivided`. A record whose length cannot be believed lies in the last part.
pub fn split(origin: &Origin, from: Place, undivided: Place, part_bytes: u64) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    let Some(size_bytes) = origin.size_bytes().filter(|_| !origin.is_gzip()) else {
        return Ok(vec![Part { from, end: u64::MAX }]);
    };
    let mut reader = origin.reader();
    let mut begin = from;
    let mut at = undivided.record_end.max(undivided.at).max(from.at);
    loop {
        let mut head = [0; 9];
        let last = at >= size_bytes || reader.fill(at, &mut head)? < head.len();
        let length = number(&head[5..]);
        let next = at.saturating_add(9).saturating_add(length);
        // Old writers cut lengths of 4 GiB to 32 bits; killed ones leave 0: the walk decides what such a record is.
        let dump = matches!(head[0], 0x0c | 0x1c);
        let doubtful = dump && (length == 0 || head[0] == 0x0c && size_bytes - at.min(size_bytes) >= 1 << 32);
        if last || doubtful || next > size_bytes {
            parts.push(Part { from: begin, end: u64::MAX });
            return Ok(parts);
        }
        at = next;
        if at - begin.at >= part_bytes {
            parts.push(Part { from: begin, end: at });
            begin = Place { at, record_end: at };
        }
    }
}
