//! Fuzz entries: each takes bytes from outside and must neither panic nor allocate beyond what they can justify.

use crate::quorum::untrusted;

/// A metadata snapshot.
pub fn fuzz_snapshot(data: &[u8]) {
    untrusted::snapshot(data);
}

/// `quorum-state`.
pub fn fuzz_quorum_state(data: &[u8]) {
    untrusted::quorum_state(data);
}
