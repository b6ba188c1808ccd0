//! Which part of a dump has which objects and points where, coarsely: what lets later passes leave most of a dump unread.
//!
//! A chunk is about 1 MiB of the dump. For each the first pass keeps the range of its objects' ids, and a bitmap of the 16 KiB
//! pages of the heap that its references point at. A bit can be set for two pages, so a chunk may be read in vain; it is never
//! left out wrongly. The number of chunks is bounded: they grow with the dump.

use crate::hprof::{Part, Place};

use super::ids::IdSet;

const BITS: u32 = 13;
const WORDS: usize = 1 << (BITS - 6);
const PAGE_SHIFT: u32 = 14;
/// At 1 KiB each.
const MAX_CHUNKS: usize = 12 << 10;
const MIN_CHUNK_BYTES: u64 = 1 << 20;

/// A bitmap of pages.
#[derive(Debug, Clone)]
pub(crate) struct Pages(Box<[u64; WORDS]>);

impl Default for Pages {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl Pages {
    #[inline(always)]
    pub(crate) fn add(&mut self, id: u64) {
        let bit = (id >> PAGE_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
        self.0[(bit >> 6) as usize & (WORDS - 1)] |= 1 << (bit & 63);
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0.iter()).any(|(one, two)| one & two != 0)
    }

    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(one, two)| *one |= two);
    }
}

#[derive(Debug)]
struct Chunk {
    from: Place,
    end: u64,
    lowest: u64,
    highest: u64,
    points_at: Pages,
}

/// The chunks of a dump, or of a part of it while it is walked.
#[derive(Debug)]
pub(crate) struct Chunks {
    list: Vec<Chunk>,
    chunk_bytes: u64,
    open: Option<Chunk>,
}

/// How large chunks are in a dump of this size.
pub(crate) fn chunk_bytes(dump_bytes: u64) -> u64 {
    MIN_CHUNK_BYTES.max(dump_bytes / (MAX_CHUNKS as u64 / 2))
}

impl Chunks {
    pub(crate) fn new(chunk_bytes: u64) -> Self {
        Self { list: Vec::new(), chunk_bytes, open: None }
    }

    /// The open chunk ends at `place` if it is large enough, or in any case if `must`.
    pub(crate) fn boundary(&mut self, place: Place, must: bool) {
        if let Some(open) = &mut self.open {
            if !must && place.at.saturating_sub(open.from.at) < self.chunk_bytes {
                return;
            }
            open.end = place.at;
            let done = self.open.take();
            self.list.extend(done.filter(|chunk| chunk.end > chunk.from.at));
            if self.list.len() >= MAX_CHUNKS {
                self.coarsen();
            }
        }
        if !must {
            let (lowest, highest) = (u64::MAX, 0);
            self.open = Some(Chunk { from: place, end: 0, lowest, highest, points_at: Pages::default() });
        }
    }

    #[inline(always)]
    pub(crate) fn object(&mut self, id: u64) {
        if let Some(open) = &mut self.open {
            open.lowest = open.lowest.min(id);
            open.highest = open.highest.max(id);
        }
    }

    #[inline(always)]
    pub(crate) fn points_at(&mut self, id: u64) {
        if let Some(open) = &mut self.open {
            open.points_at.add(id);
        }
    }

    /// Joins neighbours, two by two.
    fn coarsen(&mut self) {
        self.chunk_bytes *= 2;
        let mut joined: Vec<Chunk> = Vec::with_capacity(self.list.len() / 2 + 1);
        for chunk in self.list.drain(..) {
            match joined.last_mut() {
                Some(last) if last.end == chunk.from.at && last.end - last.from.at < self.chunk_bytes => {
                    last.end = chunk.end;
                    last.lowest = last.lowest.min(chunk.lowest);
                    last.highest = last.highest.max(chunk.highest);
                    last.points_at.join(&chunk.points_at);
                }
                _ => joined.push(chunk),
            }
        }
        self.list = joined;
    }

    /// Takes over the chunks of another part.
    pub(crate) fn merge(&mut self, other: Self) {
        self.list.extend(other.list);
        self.list.sort_by_key(|chunk| chunk.from.at);
    }

    /// A dump record that begins at `from` ends at `to`, which was not known when chunks began in it.
    pub(crate) fn stretch(&mut self, from: u64, to: u64) {
        let inside = self.list.iter_mut().map(|chunk| &mut chunk.from);
        for place in inside.filter(|place| place.at > from && place.at < to && place.record_end > place.at) {
            place.record_end = to;
        }
    }

    /// The parts that may have one of the `wanted` objects, or a reference to one of the `targets`; and their bytes.
    pub(crate) fn select(&self, wanted: &IdSet, targets: &IdSet) -> (Vec<Part>, u64) {
        let mut pages = Pages::default();
        targets.sorted().iter().for_each(|id| pages.add(*id));
        let mut parts = Vec::new();
        let mut bytes = 0;
        for chunk in &self.list {
            let first = wanted.sorted().partition_point(|id| *id < chunk.lowest);
            let has = wanted.sorted().get(first).is_some_and(|id| *id <= chunk.highest);
            if has || chunk.points_at.meets(&pages) {
                parts.push(Part { from: chunk.from, end: chunk.end });
                bytes += chunk.end - chunk.from.at;
            }
        }
        (parts, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_in_a_record_that_goes_on_behind_its_length_is_walked_to_its_real_end() {
        let mut chunks = Chunks::new(10);
        let place = |at, record_end| Place { at, record_end };
        // At the record, in it, and behind it.
        for (from, object) in [(place(100, 100), 1), (place(200, 250), 2), (place(900, 900), 3)] {
            chunks.boundary(from, false);
            chunks.object(object);
        }
        chunks.boundary(place(1_000, 1_000), true);
        chunks.stretch(109, 800);
        let (parts, bytes) = chunks.select(&IdSet::new([1, 2, 3]), &IdSet::new([]));
        let from: Vec<_> = parts.iter().map(|part| part.from).collect();
        assert_eq!(from, [place(100, 100), place(200, 800), place(900, 900)]);
        assert_eq!(bytes, 900);
    }
}
