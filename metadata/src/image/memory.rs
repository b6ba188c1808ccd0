//! Estimates of what metadata costs in memory, for the state budget. They round up, so that the sum is a bound.

/// Bytes of a heap block of `bytes`: the allocator's size classes cost up to a quarter, and nothing is below 16.
pub(super) fn heap(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + bytes / 4).next_multiple_of(16) }
}

/// Bytes of one entry of a persistent map with keys and values of these sizes: nodes may be half empty, and changed
/// nodes are held twice while an older image is still read.
pub(super) const fn map_entry(key: usize, value: usize) -> usize {
    3 * (key + value) + 16
}

/// Bytes of a map's first node, which is allocated whole.
pub(super) const fn map_base(key: usize, value: usize) -> usize {
    16 * (key + value) + 64
}
