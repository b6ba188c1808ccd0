//! Heap dumps in the HPROF format, versions 1.0.1 and 1.0.2, as a stream of records.

/// The first bytes of every heap dump.
pub const MAGIC: &[u8] = b"JAVA PROFILE 1.0.";

/// Whether content that begins with `head` is a heap dump.
pub fn is_heap_dump(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}
