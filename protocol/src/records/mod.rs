//! Record batches of magic 2: header, checksum, validation, iteration, building, and the five codecs.
//!
//! A batch is a [`BatchHeader`] of 61 bytes and a body, `&[IoSlice]`: it lies in several recycled chunks and is never
//! assembled. Everything here streams over such a body through fixed windows:
//!
//! | to do | use |
//! |---|---|
//! | check a batch while it arrives | [`BatchValidator`] |
//! | check one in memory | [`validate`] |
//! | know what that will hold | [`working_memory_bytes`], [`max_working_memory_bytes`] |
//! | read its records | [`RecordCursor`] |
//! | find a timestamp in it | [`find_offset_by_timestamp`], [`find_offset_of_max_timestamp`] |
//! | write it in another codec | [`recompress`] |
//! | stamp it with the broker's clock | [`BatchHeader::stamp_log_append_time`] |
//! | make one | [`BatchBuilder`] |
//!
//! Memory: an uncompressed batch costs none. A compressed one is inflated into a [`Scratch`], whose growth is known
//! before it starts and bounded by [`InflateLimits`]; what a stream promises about itself is checked against those
//! limits before anything is allocated. Input is untrusted throughout.

mod builder;
mod codec;
mod control;
mod crc;
mod cursor;
mod deflate;
mod error;
pub mod fuzz;
mod header;
mod inflate;
mod lookup;
mod recompress;
mod renumber;
mod scratch;
mod validate;
mod varint;
mod walk;

#[cfg(test)]
mod tests;

pub use builder::BatchBuilder;
pub use codec::{Codec, Compression, InflateLimits, UnknownCodecName};
pub use control::{CONTROL_KEY_SIZE_BYTES, ControlRecordType, EndTxnMarker};
pub use crc::{Crc32c, crc_of};
pub use cursor::{Header, Headers, RecordCursor, RecordView};
pub use deflate::compressor_memory_bytes;
pub use error::{BatchError, BatchErrorKind, Field, RecordError, RecordFault, RefusedBecause};
pub use header::{
    BatchHeader, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2, MAX_BATCH_LENGTH,
    MIN_BATCH_LENGTH, NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
    TimestampType, increment_sequence,
};
pub use inflate::{max_working_memory_bytes, working_memory_bytes};
pub use lookup::{TimestampedOffset, find_offset_by_timestamp, find_offset_of_max_timestamp};
pub use recompress::{Rewrite, recompress};
pub use scratch::Scratch;
pub use validate::{BatchSummary, BatchValidator, MAX_RECORD_ERRORS, Origin, ValidateOptions, validate};
