//! What can be wrong with a record batch, said once: every error names the value that was wrong and the limit it
//! broke, and falls into one [`BatchErrorKind`], from which the broker picks its wire error code.

use std::fmt;

/// An error about a batch or a record inside it. Input was untrusted; nothing was allocated beyond the limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The magic byte is not 2. Kafka 4.x (KIP-724) knows no older format in produce requests.
    #[error("magic byte is {found}, only 2 is supported")]
    Magic {
        /// The byte found at offset 16 of the batch.
        found: i8,
    },
    /// The length field is too small for a header or says more than an `i32` of total size can hold.
    #[error("batch length {found} is outside of {min}..={max}")]
    BatchLength {
        /// The length field: bytes that follow it.
        found: i32,
        /// Smallest legal value.
        min: i32,
        /// Largest legal value.
        max: i32,
    },
    /// The body given is not as long as the header says.
    #[error("batch body is {found} bytes, the header promises {expected}")]
    BodyLength {
        /// Bytes in the slices.
        found: u64,
        /// Bytes by the header.
        expected: u64,
    },
    /// The stored CRC-32C does not match the bytes.
    #[error("stored crc {stored:#010x} differs from the computed {computed:#010x}")]
    Crc {
        /// The header's field.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The codec bits of the attributes name no codec.
    #[error("compression codec {id} is unknown, the highest known is 4")]
    UnknownCompression {
        /// Bits 0 to 2 of the attributes.
        id: u8,
    },
    /// A header field that a client may not send so.
    #[error("{what}: {value}")]
    HeaderField {
        /// What is wrong, in words.
        what: &'static str,
        /// The offending value.
        value: i64,
    },
    /// The offset range of the header and its record count do not agree.
    #[error("last offset delta {last_offset_delta} does not fit a record count of {record_count}")]
    OffsetRange {
        /// The header's field.
        last_offset_delta: i32,
        /// The header's field.
        record_count: i32,
    },
    /// A record's bytes make no sense.
    #[error("record {index}: {fault}")]
    Record {
        /// Position of the record in the batch, from 0.
        index: u32,
        /// What is wrong.
        fault: RecordFault,
    },
    /// The body holds fewer records than the header says.
    #[error("batch ends after {found} records, the header promises {expected}")]
    RecordCount {
        /// Whole records found.
        found: u32,
        /// The header's count.
        expected: i32,
    },
    /// Bytes follow the last record.
    #[error("{count} bytes or more follow the last record")]
    TrailingBytes {
        /// How many were seen (the rest of a compressed stream is not inflated to count it).
        count: u64,
    },
    /// A record's offset delta is not the expected one.
    #[error("record {index} has offset delta {found}, expected {expected}")]
    OffsetDelta {
        /// Position of the record in the batch, from 0.
        index: u32,
        /// The delta found.
        found: i32,
        /// The delta that should be there (for a log's own batches: the smallest legal one).
        expected: i32,
    },
    /// Records break the topic's rules (key, timestamp); the batch as a whole is refused.
    #[error("{total} of the batch's records were refused, first: {first}", first = FirstOf(errors))]
    RecordsRefused {
        /// The first of them, at most [`MAX_RECORD_ERRORS`](super::MAX_RECORD_ERRORS).
        errors: Vec<RecordError>,
        /// How many there were in all.
        total: u32,
    },
    /// The compressed stream is damaged.
    #[error("{codec} stream is corrupt: {detail}")]
    Decompress {
        /// The codec's name.
        codec: super::Codec,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// The compressed stream would need more memory than the limits grant.
    #[error("{codec} stream needs {what} of {needed} bytes, the limit is {limit}")]
    DecompressMemory {
        /// The codec's name.
        codec: super::Codec,
        /// Which buffer: window, block.
        what: &'static str,
        /// Bytes that the stream asks for.
        needed: u64,
        /// Bytes that the limits allow.
        limit: u64,
    },
    /// The batch inflates to more than `max_inflated_bytes`.
    #[error("batch inflates to more than {limit} bytes")]
    InflatedTooLarge {
        /// The limit it broke.
        limit: u64,
    },
    /// One record is larger than a reader is willing to hold.
    #[error("record {index} is {size_bytes} bytes, the limit is {limit}")]
    RecordTooLarge {
        /// Position of the record in the batch, from 0.
        index: u32,
        /// Its declared size.
        size_bytes: u64,
        /// The limit it broke.
        limit: u64,
    },
    /// A batch that is being built or recompressed outgrew what the format can express or the caller allows.
    #[error("batch would be larger than {limit} bytes")]
    BatchTooLarge {
        /// The limit it broke.
        limit: u64,
    },
    /// A compressor failed, which only lack of memory can cause.
    #[error("{codec} compressor failed: {detail}")]
    Compress {
        /// The codec's name.
        codec: super::Codec,
        /// What the library says.
        detail: &'static str,
    },
    /// A control record's key or value is too short or of a wrong version.
    #[error("control record: {what}, found {found}")]
    ControlRecord {
        /// What is wrong.
        what: &'static str,
        /// Offending value.
        found: i64,
    },
}

/// The classes of [`BatchError`] that a client must be able to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchErrorKind {
    /// The bytes are not what the sender meant (CRC, length): CORRUPT_MESSAGE, worth sending again.
    Corrupt,
    /// The sender meant it, but it is not a valid batch: INVALID_RECORD, not worth sending again.
    InvalidRecord,
    /// Timestamps out of the topic's range: INVALID_TIMESTAMP.
    InvalidTimestamp,
    /// A codec we do not know, or one used with more memory than we grant: UNSUPPORTED_COMPRESSION_TYPE.
    UnsupportedCompression,
    /// A magic we do not know: Kafka answers INVALID_RECORD to clients.
    UnsupportedMagic,
    /// A limit was broken; smaller batches may pass: MESSAGE_TOO_LARGE (on which the Java producer splits the batch).
    TooLarge,
    /// Not the sender's fault.
    Internal,
}

impl BatchError {
    /// The class of this error.
    #[must_use]
    pub fn kind(&self) -> BatchErrorKind {
        match self {
            Self::BatchLength { .. } | Self::BodyLength { .. } | Self::Crc { .. } => BatchErrorKind::Corrupt,
            Self::Magic { .. } => BatchErrorKind::UnsupportedMagic,
            // A window does not shrink with the batch, so that splitting it would not help.
            Self::UnknownCompression { .. } | Self::DecompressMemory { .. } => {
                BatchErrorKind::UnsupportedCompression
            }
            Self::InflatedTooLarge { .. } | Self::RecordTooLarge { .. } | Self::BatchTooLarge { .. } => {
                BatchErrorKind::TooLarge
            }
            Self::RecordsRefused { errors, .. } => {
                // One bad timestamp among them decides, as in Kafka's LogValidator.
                if errors.iter().any(|e| e.fault.is_timestamp()) {
                    BatchErrorKind::InvalidTimestamp
                } else {
                    BatchErrorKind::InvalidRecord
                }
            }
            Self::HeaderField { .. }
            | Self::OffsetRange { .. }
            | Self::Record { .. }
            | Self::RecordCount { .. }
            | Self::TrailingBytes { .. }
            | Self::OffsetDelta { .. }
            | Self::Decompress { .. }
            | Self::ControlRecord { .. } => BatchErrorKind::InvalidRecord,
            Self::Compress { .. } => BatchErrorKind::Internal,
        }
    }

    /// Whether the same operation may succeed when it is tried again: only bytes damaged on their way may.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self.kind(), BatchErrorKind::Corrupt)
    }
}

/// What is wrong with the bytes of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A varint does not end, or carries more bits than its type has.
    #[error("{field} is not a valid varint")]
    Varint {
        /// Which field.
        field: Field,
    },
    /// A length below its lowest legal value (0, or -1 where null is allowed).
    #[error("{field} is {length}")]
    NegativeLength {
        /// Which field.
        field: Field,
        /// The value found.
        length: i32,
    },
    /// A field ends behind the record that holds it.
    #[error("{field} needs {needed} bytes, the record has only {left} left")]
    PastEnd {
        /// Which field.
        field: Field,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that the record's declared length leaves.
        left: u64,
    },
    /// The record ends behind its batch.
    #[error("record of {size_bytes} bytes reaches past the end of the batch")]
    PastBatch {
        /// The record's declared length.
        size_bytes: u64,
    },
    /// Bytes are left between the last header and the record's declared end.
    #[error("{left} bytes of the declared length are not used")]
    Leftover {
        /// How many.
        left: u64,
    },
    /// Base timestamp or base offset plus delta leaves the range of an `i64`.
    #[error("{field} delta overflows")]
    Overflow {
        /// Which field.
        field: Field,
    },
}

/// The fields of a record, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Kafka's and say it all")]
pub enum Field {
    Length,
    Attributes,
    Timestamp,
    Offset,
    KeyLength,
    Key,
    ValueLength,
    Value,
    HeaderCount,
    HeaderKeyLength,
    HeaderKey,
    HeaderValueLength,
    HeaderValue,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "length",
            Self::Attributes => "attributes",
            Self::Timestamp => "timestamp",
            Self::Offset => "offset",
            Self::KeyLength => "key length",
            Self::Key => "key",
            Self::ValueLength => "value length",
            Self::Value => "value",
            Self::HeaderCount => "header count",
            Self::HeaderKeyLength => "header key length",
            Self::HeaderKey => "header key",
            Self::HeaderValueLength => "header value length",
            Self::HeaderValue => "header value",
        })
    }
}

/// One refused record of a batch: what a produce response (KIP-467) lists under `RecordErrors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError {
    /// Position of the record in the batch, from 0 (`BatchIndex` on the wire).
    pub batch_index: i32,
    /// Why; its `Display` is the message for the wire.
    pub fault: RefusedBecause,
}

/// Why a well-formed record is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedBecause {
    /// The topic is compacted and the record has no key.
    #[error("compacted topic cannot accept a record without a key")]
    MissingKey,
    /// The timestamp is outside of `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`.
    #[error("timestamp {timestamp} is outside of {earliest}..={latest}")]
    TimestampOutOfRange {
        /// The record's timestamp in ms since the epoch (saturated if base plus delta overflows).
        timestamp: i64,
        /// Earliest accepted.
        earliest: i64,
        /// Latest accepted.
        latest: i64,
    },
}

impl RefusedBecause {
    /// Whether it is the timestamp that is at fault.
    #[must_use]
    pub fn is_timestamp(&self) -> bool {
        matches!(self, Self::TimestampOutOfRange { .. })
    }
}

struct FirstOf<'a>(&'a [RecordError]);

impl fmt::Display for FirstOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(e) => write!(f, "record {}: {}", e.batch_index, e.fault),
            None => f.write_str("none listed"),
        }
    }
}
