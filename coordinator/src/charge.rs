//! What state costs on the heap, rounded up: the figures behind [`crate::Shard::memory_bytes`].
//!
//! Each is an upper bound of what the collections and the allocator take for the thing, slack and half filled nodes
//! included, but not for the moment in which a collection moves to a larger block. A test counts real allocations
//! against them.

/// One heap block of `size_bytes`: an allocator's size classes lose up to an eighth and a bit.
pub(crate) const fn block(size_bytes: usize) -> usize {
    size_bytes + size_bytes / 8 + 16
}

/// A shared string or byte string: two counts stand before its bytes.
pub(crate) const fn shared(size_bytes: usize) -> usize {
    block(16 + size_bytes)
}

/// An entry of a hash table, which after doubling is a bit less than half full.
pub(crate) const fn hash_entry(size_bytes: usize) -> usize {
    (size_bytes + 1) * 5 / 2
}

/// An entry of a B-tree whose nodes are as empty as they may be, with its part of the nodes above.
pub(crate) const fn tree_entry(size_bytes: usize) -> usize {
    size_bytes * 5 / 2 + 8
}

/// The first node of a B-tree with such entries: as large for one entry as for eleven.
pub(crate) const fn tree_node(size_bytes: usize) -> usize {
    block(11 * size_bytes + 16)
}

/// An entry of a vector that is kept at least three quarters full.
pub(crate) const fn vector_entry(size_bytes: usize) -> usize {
    size_bytes * 3 / 2
}
