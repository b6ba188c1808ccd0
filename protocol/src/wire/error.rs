//! What can go wrong between bytes and values. Offsets (`at`) count from the start of the reader's buffer.

use thiserror::Error;

/// Why bytes were refused. Every variant can be caused by a peer or a file; none is a bug of ours.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A value or a length reaches beyond the end of the frame.
    #[error("{needed} bytes are needed at byte {at}, {available} are left")]
    Truncated {
        /// Where the value starts.
        at: usize,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that are left.
        available: usize,
    },
    /// A varint has no end within its five (ten) bytes, or bits beyond 32 (64).
    #[error("varint at byte {at} is longer than {max_bytes} bytes or wider than its type")]
    BadVarint {
        /// Where the varint starts.
        at: usize,
        /// Most bytes a varint of this type has.
        max_bytes: usize,
    },
    /// A length or count is negative (and not the -1 of null) or above 2^31-1.
    #[error("length {length} at byte {at} is out of range")]
    BadLength {
        /// Where the length stands.
        at: usize,
        /// The length as read.
        length: i64,
    },
    /// Null where the version has no null.
    #[error("null at byte {at} in a field that is not nullable")]
    UnexpectedNull {
        /// Where the length stands.
        at: usize,
    },
    /// A string is longer than Kafka's limit.
    #[error("string of {length} bytes at byte {at}, the limit is {limit}")]
    StringTooLong {
        /// Where the length stands.
        at: usize,
        /// The string's length in bytes (after replacement of malformed UTF-8).
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Tags are not in ascending order, or one occurs twice.
    #[error("tag {tag} at byte {at} follows tag {previous}")]
    TagOrder {
        /// Where the tag stands.
        at: usize,
        /// The tag.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// A tagged field's value is shorter or longer than its declared size, or that reaches beyond the frame.
    #[error("the value of tag {tag} at byte {at} does not have its declared size of {declared} bytes")]
    TagSize {
        /// Where the value starts.
        at: usize,
        /// The tag.
        tag: u32,
        /// Its declared size.
        declared: usize,
    },
    /// A known tag in a version that does not have it.
    #[error("tag {tag} is not part of version {version}")]
    TagNotInVersion {
        /// The tag.
        tag: u32,
        /// The message's version.
        version: i16,
    },
    /// The value ended before the frame did.
    #[error("{count} bytes are left after the message, at byte {at}")]
    TrailingBytes {
        /// Where the message ended.
        at: usize,
        /// Bytes that are left.
        count: usize,
    },
    /// We do not have this version of the message.
    #[error("{message} has versions {min} to {max}, not {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
        /// First version.
        min: i16,
        /// Last version.
        max: i16,
    },
    /// A type number that stands for nothing we know.
    #[error("unknown {what} {value}")]
    UnknownType {
        /// What kind of number it is.
        what: &'static str,
        /// The number.
        value: i64,
    },
    /// The decoded value would need more memory than the reader may spend. Not the peer's fault by itself:
    /// lease at least `needed` bytes (it is a lower bound; doubling the limit converges fast) and decode again.
    #[error("the decoded message needs {needed} bytes or more, the limit is {limit}")]
    OverBudget {
        /// Bytes charged so far, with the allocation that did not fit.
        needed: usize,
        /// The reader's budget.
        limit: usize,
    },
}

impl DecodeError {
    pub(crate) fn check_version(message: &'static str, version: i16, min: i16, max: i16) -> Result<(), Self> {
        if (min..=max).contains(&version) {
            Ok(())
        } else {
            Err(Self::UnsupportedVersion { message, version, min, max })
        }
    }

    /// Whether decoding the same bytes again can succeed: only with a larger budget.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::OverBudget { .. })
    }
}

/// Why a value cannot be written at a version. Always a mistake of the caller, never of a peer; Kafka's classes
/// throw at the same places.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// We do not have this version of the message.
    #[error("{message} has versions {min} to {max}, not {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
        /// First version.
        min: i16,
        /// Last version.
        max: i16,
    },
    /// A field is set that the version does not have, and dropping it would change the meaning.
    #[error("{field} is set but version {version} does not have it")]
    FieldNotInVersion {
        /// The field, as `Struct.field`.
        field: &'static str,
        /// The version.
        version: i16,
    },
    /// A field is null in a version without null.
    #[error("{field} is null, which version {version} does not allow")]
    NullNotAllowed {
        /// The field, as `Struct.field`.
        field: &'static str,
        /// The version.
        version: i16,
    },
    /// A string, byte field or list is longer than its length field allows.
    #[error("length {length} is above the limit {limit}")]
    TooLong {
        /// The length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// An unknown tag that was kept has the number of a known one.
    #[error("raw tag {tag} has the number of a known field")]
    TagConflict {
        /// The tag.
        tag: u32,
    },
}

impl EncodeError {
    pub(crate) fn check_version(message: &'static str, version: i16, min: i16, max: i16) -> Result<(), Self> {
        if (min..=max).contains(&version) {
            Ok(())
        } else {
            Err(Self::UnsupportedVersion { message, version, min, max })
        }
    }

    /// Encoding the same value again never succeeds.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        false
    }
}
