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
    // Start value and final inversion cancel out, so the difference of the two headers, as a polynomial, moved up by
    // the length of the body is the difference of the two CRCs.
    let difference = Crc32c::of(old) ^ Crc32c::of(new);
    old_crc ^ multiply(difference, x_to_the_bytes(body_length_bytes))
}

/// The Castagnoli polynomial, bits reversed as everywhere here: bit 31 is x⁰.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// a · b modulo the polynomial.
const fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        if a & (1 << 31) != 0 {
            product ^= b;
        }
        a <<= 1;
        b = if b & 1 == 0 { b >> 1 } else { (b >> 1) ^ POLYNOMIAL };
    }
    product
}

/// x^(8 · 2^k) for each k.
const POWERS: [u32; 32] = {
    let mut powers = [0; 32];
    // x⁸.
    let mut power = 1 << 23;
    let mut k = 0;
    while k < powers.len() {
        powers[k] = power;
        power = multiply(power, power);
        k += 1;
    }
    powers
};

/// x^(8 · bytes): what moving a CRC up by that many bytes multiplies it with. Bodies are shorter than 2³² bytes.
fn x_to_the_bytes(bytes: u64) -> u32 {
    let one = 1 << 31;
    POWERS
        .iter()
        .enumerate()
        .filter(|(k, _)| bytes >> k & 1 == 1)
        .fold(one, |product, (_, &power)| multiply(product, power))
}
