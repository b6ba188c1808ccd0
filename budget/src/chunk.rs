//! Chunks of one size in each pool, recycled last-in first-out so that warm memory is used again first.
//!
//! Invariant: the pool allocates only when it has no idle chunk, so chunks in use plus idle never exceed the most
//! that leases ever allowed at once. [`ChunkPool::trim`] gives idle memory back to the allocator. Where leases of the
//! chunks' budget cover other memory too, [`ChunkPool::beside`] frees the idle chunks that it displaces.

use std::sync::{Arc, Mutex, PoisonError};

use crate::account::Accounted;

/// Size in bytes of the chunks that chains are made of.
pub const CHUNK_BYTES: usize = 16 * 1024;

/// Recycles chunks. Cloning gives another handle on the same pool.
#[derive(Clone, Debug)]
pub struct ChunkPool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    chunk_bytes: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug)]
struct Idle {
    chunks: Vec<Box<[u8]>>,
    fewest: usize,
    accounted: Accounted,
    /// Chunks in use.
    lent: usize,
    /// Bytes of the chunks' budget that are not in chunks.
    beside: u64,
}

impl Default for ChunkPool {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkPool {
    /// An empty pool of the chunks that chains are made of, [`CHUNK_BYTES`] each.
    pub fn new() -> Self {
        Self::of(CHUNK_BYTES)
    }

    /// An empty pool of chunks of `chunk_bytes` each.
    pub fn of(chunk_bytes: usize) -> Self {
        let idle = Idle { chunks: Vec::new(), fewest: 0, accounted: Accounted::new(0), lent: 0, beside: 0 };
        ChunkPool(Arc::new(Inner { chunk_bytes, idle: Mutex::new(idle) }))
    }

    /// Size of every chunk of this pool in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.0.chunk_bytes
    }

    /// A chunk with arbitrary old contents. The caller must hold a lease that covers it.
    pub fn take(&self) -> Chunk {
        let recycled = {
            let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let chunk = idle.chunks.pop();
            idle.lent += 1;
            idle.settle(self.0.chunk_bytes);
            chunk
        };
        let bytes = recycled.unwrap_or_else(|| vec![0; self.0.chunk_bytes].into_boxed_slice());
        Chunk { bytes, pool: self.clone() }
    }

    /// Bytes of idle chunks.
    pub fn idle_bytes(&self) -> u64 {
        let idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        (idle.chunks.len() * self.0.chunk_bytes) as u64
    }

    /// Frees the chunks that nobody needed since the last call. Meant to be called every few seconds.
    pub fn trim(&self) {
        let unneeded = {
            let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let keep = idle.chunks.len() - idle.fewest.min(idle.chunks.len());
            let unneeded = idle.chunks.split_off(keep);
            idle.chunks.shrink_to(keep);
            idle.fewest = keep;
            idle.settle(self.0.chunk_bytes);
            unneeded
        };
        drop(unneeded);
    }

    /// Makes room for `bytes` that are leased from the chunks' budget, of `limit` bytes, but are no chunks: idle chunks
    /// are in no lease, so that as many are freed as would be too much beside them. The caller has the lease already and
    /// allocates after this; it drops the value when the memory is free again.
    pub fn beside(&self, bytes: u64, limit: u64) -> Beside {
        let displaced = {
            let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.beside += bytes;
            let most = limit.saturating_sub(idle.beside) / (self.0.chunk_bytes as u64).max(1);
            let keep = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(idle.lent);
            let keep = keep.min(idle.chunks.len());
            let displaced = idle.chunks.split_off(keep);
            idle.settle(self.0.chunk_bytes);
            displaced
        };
        drop(displaced);
        Beside { pool: self.clone(), bytes }
    }

    fn put_back(&self, bytes: Box<[u8]>) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.chunks.push(bytes);
        idle.lent -= 1;
        idle.settle(self.0.chunk_bytes);
    }
}

impl Idle {
    fn settle(&mut self, chunk_bytes: usize) {
        self.fewest = self.fewest.min(self.chunks.len());
        self.accounted.set((self.chunks.len() * chunk_bytes) as u64);
    }
}

/// Memory of a pool's budget that is not in chunks, from [`ChunkPool::beside`].
#[derive(Debug)]
#[must_use = "the room is there for as long as this lives"]
pub struct Beside {
    pool: ChunkPool,
    bytes: u64,
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.pool.0.idle.lock().unwrap_or_else(PoisonError::into_inner).beside -= self.bytes;
    }
}

/// Memory that returns to its pool when dropped.
#[derive(Debug)]
pub struct Chunk {
    bytes: Box<[u8]>,
    pool: ChunkPool,
}

impl std::ops::Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if !bytes.is_empty() {
            self.pool.put_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Budget, Holder};

    #[test]
    fn chunks_are_recycled_and_trimmed_only_when_nobody_needed_them() {
        let pool = ChunkPool::new();
        let (a, b) = (pool.take(), pool.take());
        drop((a, b));
        assert_eq!(pool.idle_bytes(), 2 * CHUNK_BYTES as u64);
        pool.trim();
        assert_eq!(pool.idle_bytes(), 2 * CHUNK_BYTES as u64, "both were in use since the last trim");
        drop(pool.take());
        pool.trim();
        assert_eq!(pool.idle_bytes(), CHUNK_BYTES as u64, "one of the two was needed");
        pool.trim();
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn idle_chunks_give_way_to_other_memory_of_their_budget() {
        let budget = Budget::root("receive", 10_000);
        let pool = ChunkPool::of(1000);
        let mut random = 7_u64;
        let mut next = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let (mut chains, mut others, mut displaced) = (Vec::new(), Vec::new(), 0);
        for _ in 0..20_000 {
            match next(5) {
                0 | 1 => {
                    let chunks = 1 + next(10);
                    if let Ok(lease) = budget.try_lease(chunks * 1000, Holder::default()) {
                        // A chain is filled as its bytes come: mostly not to its end.
                        let taken: Vec<Chunk> = (0..next(chunks + 1)).map(|_| pool.take()).collect();
                        chains.push((taken, lease));
                    }
                }
                2 => {
                    let bytes = 1 + next(6000);
                    if let Ok(lease) = budget.try_lease(bytes, Holder::default()) {
                        let before = pool.idle_bytes();
                        others.push((pool.beside(bytes, budget.limit()), lease));
                        displaced += before - pool.idle_bytes();
                    }
                }
                3 if !chains.is_empty() => drop(chains.swap_remove(next(chains.len() as u64) as usize)),
                _ if !others.is_empty() => drop(others.swap_remove(next(others.len() as u64) as usize)),
                _ => {}
            }
            let lent: usize = chains.iter().map(|(taken, _)| taken.len()).sum();
            let beside: u64 = others.iter().map(|(_, lease)| lease.bytes()).sum();
            let held = lent as u64 * 1000 + pool.idle_bytes() + beside;
            assert!(held <= budget.limit(), "{held} bytes: {lent} chunks lent, {beside} bytes beside");
        }
        assert!(displaced > 100_000, "{displaced}");
        drop(others);
        assert_eq!(pool.0.idle.lock().unwrap().beside, 0);
    }

    #[test]
    fn a_pool_has_chunks_of_the_size_it_was_made_for() {
        let pool = ChunkPool::of(100);
        assert_eq!(pool.take().len(), 100);
        assert_eq!(pool.idle_bytes(), 100);
        assert_eq!(ChunkPool::new().take().len(), CHUNK_BYTES);
    }
}
