//! Kafka's primitive encodings: a reader that spends a decode budget, and writers into any [`Sink`].
//!
//! Input is untrusted everywhere. The rules of this room:
//! - a length is checked against the bytes that are really there before anything is allocated for it;
//! - every `String`, `Vec` and array that is built is charged to the reader's budget *before* it is allocated;
//! - lists grow as their elements arrive.
//!
//! Where we are stricter than Apache Kafka's own classes (all of them are things no client sends):
//! - a tag that is out of order, repeated, or whose declared size differs from its value is refused (Kafka reads on);
//! - a varint whose fifth (tenth) byte carries bits beyond 32 (64) is refused (Kafka drops the bits);
//!   zero-padded varints of at most five (ten) bytes are accepted, as in Kafka;
//! - the length of a null is exactly -1 (Kafka takes any negative length for null);
//! - [`Reader::finish`] refuses trailing bytes in requests too (Kafka does so in records only).
//!
//! Strings that are not UTF-8 are read as Kafka reads them: each malformed sequence becomes U+FFFD. Refusing
//! them would cut off clients that Kafka serves (commit metadata is often binary), and a replaced name can never
//! equal a well-formed one that lacks U+FFFD, so nothing is gained by a client that sends one.

mod error;
mod frame;
mod reader;
mod sink;
mod tags;
#[cfg(test)]
mod tests;
mod uuid;

pub use error::{DecodeError, EncodeError};
pub use frame::{put_record_frame, read_record_frame};
pub use reader::{MAX_STRING_BYTES, Reader};
pub use sink::{
    Counter, Sink, check_default, check_nullable, encoded_len, put_array_len, put_bool, put_bytes,
    put_bytes_len, put_f64, put_i8, put_i16, put_i32, put_i64, put_nullable_bytes, put_nullable_string,
    put_string, put_u16, put_u32, put_uuid, put_uvarint, put_uvarlong, put_varint, put_varlong, uvarint_len,
};
pub use tags::{KnownTag, RawTag, UnknownTags, put_empty_tags, put_tags};
pub use uuid::{ParseUuidError, Uuid};
