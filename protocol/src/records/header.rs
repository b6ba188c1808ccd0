//! The 61 bytes in front of every record batch of magic 2, parsed and written; no records here.
//!
//! The CRC covers everything from the attributes on. Base offset, batch length and leader epoch lie outside of it, so
//! a broker assigns offsets by patching those without touching the rest.

use super::crc;
use super::{BatchError, Codec};

/// Size of the header of a v2 batch, in bytes.
pub const HEADER_SIZE_BYTES: usize = 61;
/// Base offset and length: what precedes the bytes that `batch_length` counts.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// The only magic that is supported.
pub const MAGIC_V2: i8 = 2;
/// Position of the magic byte in a batch of any magic.
pub const MAGIC_POSITION: usize = 16;
/// "No timestamp".
pub const NO_TIMESTAMP: i64 = -1;
/// "No producer id".
pub const NO_PRODUCER_ID: i64 = -1;
/// "No producer epoch".
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// "No sequence".
pub const NO_SEQUENCE: i32 = -1;
/// "No partition leader epoch".
pub const NO_LEADER_EPOCH: i32 = -1;

/// Header bytes that the CRC covers.
pub(super) const CRC_COVERED_HEADER_BYTES: usize = 40;
const CRC_COVERED_START: usize = HEADER_SIZE_BYTES - CRC_COVERED_HEADER_BYTES;
/// Smallest legal value of `batch_length`: a header and no record.
pub const MIN_BATCH_LENGTH: i32 = (HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES) as i32;
/// Largest legal value of `batch_length`: the total size must fit an `i32`, as in Kafka.
pub const MAX_BATCH_LENGTH: i32 = i32::MAX - LOG_OVERHEAD_BYTES as i32;

const CODEC_MASK: i16 = 0x07;
const TIMESTAMP_TYPE_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;
const DELETE_HORIZON_BIT: i16 = 0x40;

/// Which clock a batch's timestamps come from (`message.timestamp.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampType {
    /// The producer's.
    #[default]
    CreateTime,
    /// The broker's at the time of the append: `max_timestamp` holds for every record.
    LogAppendTime,
}

/// The header of a record batch of magic 2. All fields are as on the wire; methods interpret them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record (0 when a client sends it).
    pub base_offset: i64,
    /// Bytes that follow this field: 49 of header and the body.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, -1 when a client sends it. Not covered by the CRC.
    pub partition_leader_epoch: i32,
    /// Always 2.
    pub magic: i8,
    /// CRC-32C of what follows.
    pub crc: u32,
    /// Codec (bits 0-2), timestamp type (3), transactional (4), control (5), delete horizon (6).
    pub attributes: i16,
    /// Offset of the last record minus `base_offset`; kept by compaction even if that record is gone.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas are relative to, or the delete horizon (see [`Self::delete_horizon`]).
    pub base_timestamp: i64,
    /// Largest timestamp in the batch, or the append time.
    pub max_timestamp: i64,
    /// Idempotent or transactional producer, -1 if none.
    pub producer_id: i64,
    /// Its epoch, -1 if none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 if none.
    pub base_sequence: i32,
    /// Records in the body.
    pub record_count: i32,
}

impl Default for BatchHeader {
    /// An empty uncompressed batch at offset 0 without producer; the CRC is not computed.
    fn default() -> Self {
        Self {
            base_offset: 0,
            batch_length: MIN_BATCH_LENGTH,
            partition_leader_epoch: NO_LEADER_EPOCH,
            magic: MAGIC_V2,
            crc: 0,
            attributes: 0,
            last_offset_delta: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        }
    }
}

/// Reads `N` bytes at a constant position of a fixed array; the bounds are checked when compiling with optimisation.
fn at<const N: usize>(bytes: &[u8; HEADER_SIZE_BYTES], position: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[position..position + N]);
    out
}

impl BatchHeader {
    /// Parses a header. Input is untrusted.
    ///
    /// # Errors
    /// [`BatchError::Magic`] for any magic but 2, [`BatchError::BatchLength`] for a length that cannot hold the header
    /// or does not fit an `i32` in total. Whether counts and offsets make sense is for `validate` to say: recovery
    /// must be able to look at a header that it is going to refuse.
    pub fn parse(bytes: &[u8; HEADER_SIZE_BYTES]) -> Result<Self, BatchError> {
        let header = Self {
            base_offset: i64::from_be_bytes(at(bytes, 0)),
            batch_length: i32::from_be_bytes(at(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(at(bytes, 12)),
            magic: bytes[MAGIC_POSITION] as i8,
            crc: u32::from_be_bytes(at(bytes, 17)),
            attributes: i16::from_be_bytes(at(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(at(bytes, 23)),
            base_timestamp: i64::from_be_bytes(at(bytes, 27)),
            max_timestamp: i64::from_be_bytes(at(bytes, 35)),
            producer_id: i64::from_be_bytes(at(bytes, 43)),
            producer_epoch: i16::from_be_bytes(at(bytes, 51)),
            base_sequence: i32::from_be_bytes(at(bytes, 53)),
            record_count: i32::from_be_bytes(at(bytes, 57)),
        };
        if header.magic != MAGIC_V2 {
            return Err(BatchError::Magic { found: header.magic });
        }
        if !(MIN_BATCH_LENGTH..=MAX_BATCH_LENGTH).contains(&header.batch_length) {
            return Err(BatchError::BatchLength {
                found: header.batch_length,
                min: MIN_BATCH_LENGTH,
                max: MAX_BATCH_LENGTH,
            });
        }
        Ok(header)
    }

    /// Parses the header at the start of `bytes`; `None` if fewer than 61 bytes are there.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_prefix(bytes: &[u8]) -> Option<Result<Self, BatchError>> {
        bytes.first_chunk().map(Self::parse)
    }

    /// Writes all 61 bytes.
    pub fn write(&self, out: &mut [u8; HEADER_SIZE_BYTES]) {
        out[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        out[MAGIC_POSITION] = self.magic as u8;
        out[17..21].copy_from_slice(&self.crc.to_be_bytes());
        out[CRC_COVERED_START..].copy_from_slice(&self.crc_covered_bytes());
    }

    /// All 61 bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE_BYTES] {
        let mut out = [0; HEADER_SIZE_BYTES];
        self.write(&mut out);
        out
    }

    /// The header bytes that the CRC covers: attributes to record count.
    pub fn crc_covered_bytes(&self) -> [u8; CRC_COVERED_HEADER_BYTES] {
        let mut out = [0; CRC_COVERED_HEADER_BYTES];
        out[0..2].copy_from_slice(&self.attributes.to_be_bytes());
        out[2..6].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[6..14].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[14..22].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[22..30].copy_from_slice(&self.producer_id.to_be_bytes());
        out[30..32].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[32..36].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[36..40].copy_from_slice(&self.record_count.to_be_bytes());
        out
    }

    /// Size of the whole batch: overhead, header and body.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.body_size_bytes() + HEADER_SIZE_BYTES
    }

    /// Size of the body: what follows the 61 bytes.
    #[must_use]
    pub fn body_size_bytes(&self) -> usize {
        usize::try_from(self.batch_length - MIN_BATCH_LENGTH).unwrap_or(0)
    }

    /// Offset of the last record (saturating; `validate` refuses what would overflow).
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset after this batch.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// The codec of the body.
    ///
    /// # Errors
    /// [`BatchError::UnknownCompression`] for 5, 6 and 7.
    pub fn compression(&self) -> Result<Codec, BatchError> {
        Codec::from_id((self.attributes & CODEC_MASK) as u8)
    }

    /// The codec to read the body with: an empty batch that compaction left behind has no body, whatever its codec
    /// bits say.
    pub(super) fn body_codec(&self) -> Result<Codec, BatchError> {
        let codec = self.compression()?;
        Ok(if self.record_count == 0 && self.body_size_bytes() == 0 { Codec::None } else { codec })
    }

    /// Which clock the timestamps come from.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & TIMESTAMP_TYPE_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch holds control records, which readers do not hand out.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether an idempotent producer wrote it.
    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Sequence of the last record: wraps from `i32::MAX` to 0; [`NO_SEQUENCE`] if there is none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }

    /// Time in ms from which tombstones and markers of the batch may be removed (KIP-534); `None` if not yet set.
    /// Compaction then writes it into `base_timestamp`, and the records' deltas stay relative to that.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }

    /// Sets the codec bits; the CRC is not touched.
    pub fn set_compression(&mut self, codec: Codec) {
        self.attributes = (self.attributes & !CODEC_MASK) | i16::from(codec.id());
    }

    /// Sets or clears the timestamp type bit; the CRC is not touched.
    pub fn set_timestamp_type(&mut self, timestamp_type: TimestampType) {
        match timestamp_type {
            TimestampType::CreateTime => self.attributes &= !TIMESTAMP_TYPE_BIT,
            TimestampType::LogAppendTime => self.attributes |= TIMESTAMP_TYPE_BIT,
        }
    }

    /// Sets or clears the transactional bit; the CRC is not touched.
    pub fn set_transactional(&mut self, transactional: bool) {
        self.set_bit(TRANSACTIONAL_BIT, transactional);
    }

    /// Sets or clears the control bit; the CRC is not touched.
    pub fn set_control(&mut self, control: bool) {
        self.set_bit(CONTROL_BIT, control);
    }

    /// Sets or clears the delete horizon bit; the caller sets `base_timestamp`; the CRC is not touched.
    pub fn set_delete_horizon(&mut self, present: bool) {
        self.set_bit(DELETE_HORIZON_BIT, present);
    }

    fn set_bit(&mut self, bit: i16, on: bool) {
        if on {
            self.attributes |= bit;
        } else {
            self.attributes &= !bit;
        }
    }

    /// Stamps the batch with the broker's clock: timestamp type LogAppendTime, `max_timestamp` = `now_ms`, CRC renewed.
    ///
    /// The body is not read again: the new CRC is derived from the present one, which therefore **must have been
    /// verified** against the bytes before.
    pub fn stamp_log_append_time(&mut self, now_ms: i64) {
        self.change_covered(|header| {
            header.set_timestamp_type(TimestampType::LogAppendTime);
            header.max_timestamp = now_ms;
        });
    }

    /// Corrects timestamp type CreateTime and `max_timestamp` where a client computed it wrongly; renews the CRC as
    /// [`Self::stamp_log_append_time`] does, under the same condition.
    pub fn correct_max_timestamp(&mut self, max_timestamp: i64) {
        self.change_covered(|header| {
            header.set_timestamp_type(TimestampType::CreateTime);
            header.max_timestamp = max_timestamp;
        });
    }

    fn change_covered(&mut self, change: impl FnOnce(&mut Self)) {
        let old = self.crc_covered_bytes();
        change(self);
        let new = self.crc_covered_bytes();
        if new != old {
            self.crc = crc::exchange_header(self.crc, &old, &new, self.body_size_bytes() as u64);
        }
    }
}

/// `sequence + increment`, wrapping from `i32::MAX` to 0.
#[must_use]
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    (i64::from(sequence) + i64::from(increment)).rem_euclid(1 << 31) as i32
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::super::crc_of;
    use super::*;

    fn sample() -> BatchHeader {
        BatchHeader {
            base_offset: 0x0102_0304_0506_0708,
            batch_length: 1000,
            partition_leader_epoch: 7,
            crc: 0xdead_beef,
            attributes: 0x10 | 4,
            last_offset_delta: 9,
            base_timestamp: 1_700_000_000_000,
            max_timestamp: 1_700_000_000_009,
            producer_id: 4711,
            producer_epoch: 3,
            base_sequence: i32::MAX - 4,
            record_count: 10,
            ..BatchHeader::default()
        }
    }

    #[test]
    fn parse_reverses_write_and_fields_sit_where_kafka_puts_them() {
        let header = sample();
        let bytes = header.to_bytes();
        assert_eq!(BatchHeader::parse(&bytes), Ok(header));
        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[16], 2);
        assert_eq!(bytes[17..21], [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(bytes[57..61], [0, 0, 0, 10]);
        assert_eq!(header.size_bytes(), 1012);
        assert_eq!(header.compression(), Ok(Codec::Zstd));
        assert!(header.is_transactional() && !header.is_control());
    }

    #[test]
    fn other_magics_and_impossible_lengths_are_refused() {
        let mut bytes = sample().to_bytes();
        bytes[16] = 1;
        assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Magic { found: 1 }));
        for length in [i32::MIN, -1, 0, 48, i32::MAX, i32::MAX - 11] {
            let bytes = BatchHeader { batch_length: length, ..sample() }.to_bytes();
            assert!(
                matches!(BatchHeader::parse(&bytes), Err(BatchError::BatchLength { found, .. }) if found == length)
            );
        }
        for length in [49, i32::MAX - 12] {
            let bytes = BatchHeader { batch_length: length, ..sample() }.to_bytes();
            assert!(BatchHeader::parse(&bytes).is_ok());
        }
    }

    #[test]
    fn sequences_wrap_to_zero() {
        assert_eq!(sample().last_sequence(), 4);
        assert_eq!(increment_sequence(i32::MAX, 1), 0);
        assert_eq!(increment_sequence(0, 0), 0);
        assert_eq!(increment_sequence(5, 3), 8);
        assert_eq!(BatchHeader::default().last_sequence(), NO_SEQUENCE);
    }

    #[test]
    fn stamping_renews_the_crc_without_the_body() {
        for length in [0_usize, 1, 15, 16, 1000, 70_000] {
            let body: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
            let body = [IoSlice::new(&body)];
            let mut header = BatchHeader { batch_length: 49 + length as i32, ..sample() };
            header.crc = crc_of(&header, &body);
            header.stamp_log_append_time(1_800_000_000_000);
            assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(header.crc, crc_of(&header, &body), "length {length}");
            header.correct_max_timestamp(5);
            assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
            assert_eq!(header.crc, crc_of(&header, &body), "length {length}");
        }
    }
}
