//! CRC-32C (Castagnoli), incremental: the checksum of batches and of most of Kafka's files.

use std::io::IoSlice;

use crc_fast::{CrcAlgorithm, Digest};

use super::header::{BatchHeader, CRC_COVERED_HEADER_BYTES};

/// An incremental CRC-32C. Feeding slices in any split gives the same value as feeding their concatenation.
#[derive(Debug, Clone, Copy)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// A checksum over nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far; more may be added afterwards.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }

    /// The checksum of one slice.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// The CRC that a batch with this header and body must carry: over the header from its attributes on, then the body.
/// `base_offset`, `partition_leader_epoch` and `header.crc` itself are not covered.
#[must_use]
pub fn crc_of(header: &BatchHeader, body: &[IoSlice<'_>]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&header.crc_covered_bytes());
    for slice in body {
        crc.update(slice);
    }
    crc.value()
}

/// The CRC of a batch whose covered header bytes change from `old` to `new` while its body stays, in O(log body):
/// CRCs are linear, so only the header's part is exchanged. `old_crc` must be the true CRC under `old`.
pub(super) fn exchange_header(
    old_crc: u32,
    old: &[u8; CRC_COVERED_HEADER_BYTES],
    new: &[u8; CRC_COVERED_HEADER_BYTES],
    body_length_bytes: u64,
) -> u32 {
    // combine(a, b, n) = shift(a, n) ^ b, so the header's share of a CRC is combine(header_crc, 0, n).
    let shifted = |bytes: &[u8]| {
        let crc = u64::from(Crc32c::of(bytes));
        crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, crc, 0, body_length_bytes) as u32
    };
    old_crc ^ shifted(old) ^ shifted(new)
}
