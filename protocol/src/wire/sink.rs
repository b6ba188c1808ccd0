//! Writing: the [`Sink`] that takes bytes and the `put_*` functions that make them.
//!
//! Functions that take `flexible` write the compact form (uvarint of length + 1) when it is true and the
//! classic form (big-endian length, -1 for null) when it is false.

use super::{EncodeError, MAX_STRING_BYTES, Uuid};

/// Where encoded bytes go: a `Vec<u8>`, a counter, or the caller's own chunks.
pub trait Sink {
    /// Takes the next bytes, all of them.
    fn put(&mut self, bytes: &[u8]);

    /// Takes an error code of two bytes. A sink of its own kind learns from it what a reply tells its reader.
    fn put_error(&mut self, code: i16) {
        self.put(&code.to_be_bytes());
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A sink that only counts, for `encoded_len` and for the sizes of tagged fields.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counter(pub usize);

impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Bytes that `encode` writes.
///
/// # Errors
/// What `encode` returns.
pub fn encoded_len(encode: &dyn Fn(&mut dyn Sink) -> Result<(), EncodeError>) -> Result<usize, EncodeError> {
    let mut count = Counter::default();
    encode(&mut count)?;
    Ok(count.0)
}

macro_rules! put_number {
    ($($name:ident $type:ty),*) => {$(
        #[doc = concat!("Writes a big-endian `", stringify!($type), "`.")]
        pub fn $name(w: &mut dyn Sink, value: $type) {
            w.put(&value.to_be_bytes());
        }
    )*};
}
put_number!(put_i8 i8, put_i16 i16, put_u16 u16, put_i32 i32, put_u32 u32, put_i64 i64, put_f64 f64);

/// Writes one byte, 1 or 0.
pub fn put_bool(w: &mut dyn Sink, value: bool) {
    w.put(&[u8::from(value)]);
}

/// Writes 16 bytes.
pub fn put_uuid(w: &mut dyn Sink, value: Uuid) {
    w.put(&value.0);
}

/// Writes an unsigned varint of 1 to 5 bytes.
pub fn put_uvarint(w: &mut dyn Sink, value: u32) {
    put_uvarlong(w, u64::from(value));
}

/// Writes an unsigned varint of 1 to 10 bytes.
pub fn put_uvarlong(w: &mut dyn Sink, mut value: u64) {
    let mut bytes = [0u8; 10];
    let mut len = 0;
    for byte in &mut bytes {
        *byte = (value & 0x7f) as u8;
        value >>= 7;
        len += 1;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    w.put(&bytes[..len]);
}

/// Bytes that [`put_uvarint`] writes for `value`.
#[must_use]
pub fn uvarint_len(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}

/// Writes a zigzag varint of 1 to 5 bytes, as in record batches.
pub fn put_varint(w: &mut dyn Sink, value: i32) {
    put_uvarint(w, ((value << 1) ^ (value >> 31)) as u32);
}

/// Writes a zigzag varint of 1 to 10 bytes, as in record batches.
pub fn put_varlong(w: &mut dyn Sink, value: i64) {
    put_uvarlong(w, ((value << 1) ^ (value >> 63)) as u64);
}

fn check_len(length: usize, limit: usize) -> Result<(), EncodeError> {
    if length > limit { Err(EncodeError::TooLong { length, limit }) } else { Ok(()) }
}

/// Writes a string.
///
/// # Errors
/// Longer than [`MAX_STRING_BYTES`], as in Kafka for both forms.
pub fn put_string(w: &mut dyn Sink, flexible: bool, value: &str) -> Result<(), EncodeError> {
    check_len(value.len(), MAX_STRING_BYTES)?;
    if flexible {
        put_uvarint(w, value.len() as u32 + 1);
    } else {
        put_i16(w, value.len() as i16);
    }
    w.put(value.as_bytes());
    Ok(())
}

/// Writes a string or null.
///
/// # Errors
/// Longer than [`MAX_STRING_BYTES`].
pub fn put_nullable_string(w: &mut dyn Sink, flexible: bool, value: Option<&str>) -> Result<(), EncodeError> {
    match value {
        Some(value) => put_string(w, flexible, value)?,
        None if flexible => put_uvarint(w, 0),
        None => put_i16(w, -1),
    }
    Ok(())
}

/// Writes the length of a list, `None` for a null list. The elements follow by the caller's hand, so a response
/// can be encoded element by element.
///
/// # Errors
/// More than 2^31-2 elements.
pub fn put_array_len(w: &mut dyn Sink, flexible: bool, count: Option<usize>) -> Result<(), EncodeError> {
    let plus_one = count.map_or(0, |count| count.saturating_add(1));
    check_len(plus_one, i32::MAX as usize)?;
    if flexible {
        put_uvarint(w, plus_one as u32);
    } else {
        put_i32(w, plus_one as i32 - 1);
    }
    Ok(())
}

/// Writes the length of a byte field (or of `records`), `None` for null; the bytes follow by the caller's hand.
///
/// # Errors
/// More than 2^31-2 bytes.
pub fn put_bytes_len(w: &mut dyn Sink, flexible: bool, length: Option<usize>) -> Result<(), EncodeError> {
    put_array_len(w, flexible, length)
}

/// Writes a byte field.
///
/// # Errors
/// More than 2^31-2 bytes.
pub fn put_bytes(w: &mut dyn Sink, flexible: bool, value: &[u8]) -> Result<(), EncodeError> {
    put_nullable_bytes(w, flexible, Some(value))
}

/// Writes a byte field or null.
///
/// # Errors
/// More than 2^31-2 bytes.
pub fn put_nullable_bytes(w: &mut dyn Sink, flexible: bool, value: Option<&[u8]>) -> Result<(), EncodeError> {
    put_bytes_len(w, flexible, value.map(<[u8]>::len))?;
    if let Some(value) = value {
        w.put(value);
    }
    Ok(())
}

/// Refuses a field that the version lacks unless it has its default value.
///
/// # Errors
/// [`EncodeError::FieldNotInVersion`] when `is_default` is false.
pub fn check_default(is_default: bool, field: &'static str, version: i16) -> Result<(), EncodeError> {
    if is_default { Ok(()) } else { Err(EncodeError::FieldNotInVersion { field, version }) }
}

/// Refuses null in a version without it.
///
/// # Errors
/// [`EncodeError::NullNotAllowed`] when `is_allowed` is false.
pub fn check_nullable(is_allowed: bool, field: &'static str, version: i16) -> Result<(), EncodeError> {
    if is_allowed { Ok(()) } else { Err(EncodeError::NullNotAllowed { field, version }) }
}
