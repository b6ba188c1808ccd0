//! A chain of chunks that holds one run of bytes under one lease, filled as the bytes arrive.

use std::io::{IoSlice, IoSliceMut};

use crate::chunk::{CHUNK_BYTES, Chunk, ChunkPool};
use crate::lease::Lease;

/// Up to `capacity` bytes in recycled chunks. Chunks are taken from the pool only when bytes are about to be put
/// into them; the lease covers the whole capacity from the start, so filling never waits.
#[derive(Debug)]
pub struct ChunkChain {
    pool: ChunkPool,
    chunks: Vec<Chunk>,
    len: usize,
    capacity: usize,
    // Declared last: the chunks go back to the pool before the bytes go back to the budget.
    lease: Lease,
}

impl ChunkChain {
    /// Bytes to lease for a chain of `capacity` bytes: whole chunks, and the list that holds them.
    pub const fn lease_bytes(capacity: usize) -> u64 {
        let chunks = capacity.div_ceil(CHUNK_BYTES);
        (chunks * (CHUNK_BYTES + size_of::<Chunk>())) as u64
    }

    /// An empty chain. `lease` must hold at least [`ChunkChain::lease_bytes`] of `capacity`.
    ///
    /// # Panics
    /// When the lease is too small, which would let bytes exist that nobody vouches for, or the pool's chunks are not of
    /// [`CHUNK_BYTES`]: programming errors.
    pub fn new(pool: &ChunkPool, lease: Lease, capacity: usize) -> Self {
        assert!(
            lease.bytes() >= Self::lease_bytes(capacity),
            "lease of {} bytes for a chain of {capacity}",
            lease.bytes()
        );
        assert_eq!(pool.chunk_bytes(), CHUNK_BYTES, "the chunks of the pool");
        let chunks = Vec::with_capacity(capacity.div_ceil(CHUNK_BYTES));
        ChunkChain { pool: pool.clone(), chunks, len: 0, capacity, lease }
    }

    /// Bytes present.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is present.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes still to come.
    pub fn missing(&self) -> usize {
        self.capacity - self.len
    }

    /// The lease that covers the chain.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Copies as much of `bytes` as is missing; returns how much that was.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.missing());
        let mut rest = &bytes[..taken];
        while !rest.is_empty() {
            let offset = self.len % CHUNK_BYTES;
            if offset == 0 {
                self.chunks.push(self.pool.take());
            }
            let room = (CHUNK_BYTES - offset).min(rest.len());
            if let Some(chunk) = self.chunks.last_mut() {
                chunk[offset..offset + room].copy_from_slice(&rest[..room]);
            }
            self.len += room;
            rest = &rest[room..];
        }
        taken
    }

    /// Hands the free space for the next at most `window` bytes to `read` and keeps the number of bytes it returns.
    pub fn fill_with<E>(
        &mut self,
        window: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let wanted = window.min(self.missing());
        let end = self.len + wanted;
        while self.chunks.len() * CHUNK_BYTES < end {
            self.chunks.push(self.pool.take());
        }
        let mut slices = Vec::with_capacity(wanted.div_ceil(CHUNK_BYTES) + 1);
        let mut position = self.len;
        for chunk in &mut self.chunks[self.len / CHUNK_BYTES..] {
            let from = position % CHUNK_BYTES;
            let to = (from + (end - position)).min(CHUNK_BYTES);
            position += to - from;
            slices.push(IoSliceMut::new(&mut chunk[from..to]));
        }
        let filled = read(&mut slices)?.min(wanted);
        self.len += filled;
        Ok(filled)
    }

    /// The bytes from `from` on, as they lie.
    pub fn slices(&self, from: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(self.chunks.len());
        let mut position = from.min(self.len);
        while position < self.len {
            let offset = position % CHUNK_BYTES;
            let to = CHUNK_BYTES.min(offset + (self.len - position));
            slices.push(IoSlice::new(&self.chunks[position / CHUNK_BYTES][offset..to]));
            position += to - offset;
        }
        slices
    }

    /// Copies the first bytes into `out`; false when fewer are present.
    pub fn copy_head(&self, out: &mut [u8]) -> bool {
        if out.len() > self.len {
            return false;
        }
        let mut done = 0;
        for slice in self.slices(0) {
            let part = slice.len().min(out.len() - done);
            out[done..done + part].copy_from_slice(&slice[..part]);
            done += part;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Budget, Holder};
    use std::convert::Infallible;

    fn chain(capacity: usize) -> (Budget, ChunkChain) {
        let budget = Budget::root("receive", 1 << 20);
        let lease = budget.try_lease(ChunkChain::lease_bytes(capacity), Holder::new("test", 0)).unwrap();
        (budget, ChunkChain::new(&ChunkPool::new(), lease, capacity))
    }

    fn gathered(chain: &ChunkChain, from: usize) -> Vec<u8> {
        chain.slices(from).iter().flat_map(|slice| slice.to_vec()).collect()
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 % 251) as u8).collect()
    }

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_the_portions() {
        let bytes = pattern(3 * CHUNK_BYTES + 77);
        for step in [1, 61, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, bytes.len()] {
            let (budget, mut chain) = chain(bytes.len());
            let mut source = &bytes[..];
            while !source.is_empty() {
                let portion = step.min(source.len());
                if source.len().is_multiple_of(2) {
                    assert_eq!(chain.extend(&source[..portion]), portion);
                } else {
                    let filled = chain.fill_with(portion, |slices| {
                        let mut done = 0;
                        for slice in slices.iter_mut() {
                            let len = slice.len();
                            slice.copy_from_slice(&source[done..done + len]);
                            done += len;
                        }
                        Ok::<_, Infallible>(done)
                    });
                    assert_eq!(filled, Ok(portion));
                }
                source = &source[portion..];
            }
            assert_eq!(chain.missing(), 0);
            assert_eq!(gathered(&chain, 0), bytes);
            assert_eq!(gathered(&chain, CHUNK_BYTES + 5), &bytes[CHUNK_BYTES + 5..]);
            let mut head = [0; 61];
            assert!(chain.copy_head(&mut head));
            assert_eq!(head, bytes[..61]);
            drop(chain);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn a_chain_takes_chunks_only_for_bytes_that_come() {
        let (_budget, mut chain) = chain(10 * CHUNK_BYTES);
        assert_eq!(chain.chunks.len(), 0);
        chain.extend(b"abc");
        assert_eq!(chain.chunks.len(), 1);
        assert_eq!(
            chain.extend(&pattern(11 * CHUNK_BYTES)),
            10 * CHUNK_BYTES - 3,
            "never beyond its capacity"
        );
    }

    #[test]
    #[should_panic(expected = "for a chain of 20000")]
    fn a_chain_without_a_sufficient_lease_is_a_bug() {
        let budget = Budget::root("receive", 1 << 20);
        let lease = budget.try_lease(20_000, Holder::new("test", 0)).unwrap();
        ChunkChain::new(&ChunkPool::new(), lease, 20_000);
    }
}
