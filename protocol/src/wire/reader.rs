//! Reading: a cursor over one contiguous frame that checks every length and pays for every allocation.

use super::{DecodeError, Uuid};

/// Longest string in bytes, in both the classic and the compact form (Kafka's `0x7fff`).
pub const MAX_STRING_BYTES: usize = i16::MAX as usize;

/// First capacity of a list in bytes; from there it doubles as elements arrive, up to its announced count.
const FIRST_LIST_BYTES: usize = 512;

/// A cursor over untrusted bytes with a budget, in bytes, for what it may allocate.
///
/// Charged are the capacity of each list times the size of its element, and the bytes of each string and byte
/// field, before they are allocated. While a list moves to a larger block both blocks are charged, so the
/// allocator's live bytes never exceed the charge. Nothing is given back when a value is dropped: a reader serves
/// one message.
#[derive(Debug)]
pub struct Reader<'a> {
    buf: &'a [u8],
    pos: usize,
    /// The end of the frame, or of the tagged field that is being read.
    end: usize,
    limit: usize,
    charged: usize,
    peak: usize,
}

/// The end to restore after a tagged field.
pub(super) struct Outer(usize);

impl<'a> Reader<'a> {
    /// A reader over all of `buf` that may allocate `budget_bytes` (`usize::MAX` for bytes that we wrote ourselves).
    #[must_use]
    pub fn new(buf: &'a [u8], budget_bytes: usize) -> Self {
        Self { buf, pos: 0, end: buf.len(), limit: budget_bytes, charged: 0, peak: 0 }
    }

    /// Bytes between the cursor and the end.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.end - self.pos
    }

    /// Bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// The bytes that are left, not consumed.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..self.end).unwrap_or_default()
    }

    /// Bytes of memory that the decoded values hold.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.charged
    }

    /// The most that was charged at any time: what a budget must have for the same bytes to decode.
    #[must_use]
    pub fn peak_charged(&self) -> usize {
        self.peak
    }

    /// Ends the reading of a message.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] if any are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { at: self.pos, count }),
        }
    }

    /// Spends `bytes` of the budget. For callers that build values of their own from what they read.
    ///
    /// # Errors
    /// [`DecodeError::OverBudget`]; nothing is spent then.
    pub fn charge(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let needed = self.charged.saturating_add(bytes);
        if needed > self.limit {
            return Err(DecodeError::OverBudget { needed, limit: self.limit });
        }
        self.charged = needed;
        self.peak = self.peak.max(needed);
        Ok(())
    }

    /// The next `count` bytes, not copied.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.pos.checked_add(count).filter(|end| *end <= self.end);
        match taken.and_then(|end| self.buf.get(self.pos..end)) {
            Some(bytes) => {
                self.pos += count;
                Ok(bytes)
            }
            None => Err(DecodeError::Truncated {
                at: self.pos,
                needed: count as u64,
                available: self.remaining(),
            }),
        }
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest().first_chunk::<N>() {
            Some(bytes) => {
                self.pos += N;
                Ok(*bytes)
            }
            None => {
                Err(DecodeError::Truncated { at: self.pos, needed: N as u64, available: self.remaining() })
            }
        }
    }

    /// Narrows the reader to the next `size` bytes, `None` if there are fewer.
    pub(super) fn enter(&mut self, size: usize) -> Option<Outer> {
        if size > self.remaining() {
            return None;
        }
        let outer = Outer(self.end);
        self.end = self.pos + size;
        Some(outer)
    }

    /// Widens it again.
    pub(super) fn leave(&mut self, outer: Outer) {
        self.end = outer.0;
    }
}

macro_rules! read_number {
    ($($name:ident)*) => {
        /// Fixed-size values, big-endian. All fail only with [`DecodeError::Truncated`].
        #[allow(missing_docs, clippy::missing_errors_doc, reason = "named after the type they return")]
        impl Reader<'_> {
            $(pub fn $name(&mut self) -> Result<$name, DecodeError> {
                Ok($name::from_be_bytes(self.array_of()?))
            })*
        }
    };
}
read_number!(u8 i8 i16 u16 i32 u32 i64 f64);

impl Reader<'_> {
    /// Reads a byte; any value but 0 is true, as in Kafka.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// Reads 16 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Ok(Uuid(self.array_of()?))
    }

    fn varint_bits(&mut self, bits: u32) -> Result<u64, DecodeError> {
        let at = self.pos;
        let mut value = 0u64;
        let mut shift = 0;
        while shift < bits {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if bits - shift < 7 && part >> (bits - shift) != 0 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
        Err(DecodeError::BadVarint { at, max_bytes: bits.div_ceil(7) as usize })
    }

    /// Reads an unsigned varint of at most 5 bytes and 32 bits.
    ///
    /// # Errors
    /// [`DecodeError::BadVarint`], [`DecodeError::Truncated`].
    pub fn uvarint(&mut self) -> Result<u32, DecodeError> {
        Ok(self.varint_bits(32)? as u32)
    }

    /// Reads an unsigned varint of at most 10 bytes and 64 bits.
    ///
    /// # Errors
    /// As [`Reader::uvarint`].
    pub fn uvarlong(&mut self) -> Result<u64, DecodeError> {
        self.varint_bits(64)
    }

    /// Reads a zigzag varint of at most 5 bytes, as in record batches.
    ///
    /// # Errors
    /// As [`Reader::uvarint`].
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let raw = self.uvarint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// Reads a zigzag varint of at most 10 bytes, as in record batches.
    ///
    /// # Errors
    /// As [`Reader::uvarint`].
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let raw = self.uvarlong()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Turns a length as read (null is -1) into a count.
    fn length(at: usize, length: i64) -> Result<Option<usize>, DecodeError> {
        match length {
            -1 => Ok(None),
            0..=0x7fff_ffff => Ok(Some(length as usize)),
            _ => Err(DecodeError::BadLength { at, length }),
        }
    }

    /// Reads the length of a byte field, of `records` or of a list: a uvarint of length + 1 if `flexible`, else
    /// an int32. `None` is null. The length is not compared with what is left: for callers that stream.
    ///
    /// # Errors
    /// [`DecodeError::BadLength`] and those of the number.
    pub fn length32(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let at = self.pos;
        let length = if flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i32()?) };
        Self::length(at, length)
    }

    /// Reads the length of a string: a uvarint of length + 1 if `flexible`, else an int16. `None` is null.
    ///
    /// # Errors
    /// [`DecodeError::BadLength`], [`DecodeError::StringTooLong`] and those of the number.
    pub fn length16(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let at = self.pos;
        let length = if flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i16()?) };
        let length = Self::length(at, length)?;
        match length {
            Some(length) if length > MAX_STRING_BYTES => {
                Err(DecodeError::StringTooLong { at, length, limit: MAX_STRING_BYTES })
            }
            _ => Ok(length),
        }
    }

    /// Refuses a count of elements that cannot lie in what is left.
    pub(super) fn check_count(&self, count: usize, min_element_bytes: usize) -> Result<(), DecodeError> {
        let needed = (count as u64).saturating_mul(min_element_bytes.max(1) as u64);
        let available = self.remaining();
        if needed > available as u64 {
            return Err(DecodeError::Truncated { at: self.pos, needed, available });
        }
        Ok(())
    }

    /// Reads the count of a list and checks it against what is left: each element takes `min_element_bytes` or more.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] and those of [`Reader::length32`].
    pub fn array_len(
        &mut self,
        flexible: bool,
        min_element_bytes: usize,
    ) -> Result<Option<usize>, DecodeError> {
        let count = self.length32(flexible)?;
        if let Some(count) = count {
            self.check_count(count, min_element_bytes)?;
        }
        Ok(count)
    }

    /// Makes room for one more element, of which at most `left` come.
    pub(super) fn reserve_one<T>(&mut self, list: &mut Vec<T>, left: usize) -> Result<(), DecodeError> {
        if list.len() < list.capacity() {
            return Ok(());
        }
        let size = size_of::<T>().max(1);
        let old = list.capacity();
        let step = old.max(FIRST_LIST_BYTES / size).max(1).min(left);
        self.charge((old + step).saturating_mul(size))?;
        list.reserve_exact(step);
        self.charged -= old * size;
        Ok(())
    }

    /// Gives back what a list reserved and did not fill.
    pub(super) fn shrink<T>(&mut self, list: &mut Vec<T>) {
        let spare = list.capacity() - list.len();
        if spare > 0 {
            list.shrink_to_fit();
            self.charged -= spare * size_of::<T>();
        }
    }

    /// Reads a list that may be null if `nullable`, each element with `decode`.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedNull`], [`DecodeError::OverBudget`], those of [`Reader::array_len`] and of `decode`.
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        nullable: bool,
        version: i16,
        min_element_bytes: usize,
        decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let at = self.pos;
        let Some(count) = self.array_len(flexible, min_element_bytes)? else {
            return if nullable { Ok(None) } else { Err(DecodeError::UnexpectedNull { at }) };
        };
        let mut list = Vec::new();
        for done in 0..count {
            self.reserve_one(&mut list, count - done)?;
            list.push(decode(self, version)?);
        }
        Ok(Some(list))
    }

    /// Reads a list that is not null.
    ///
    /// # Errors
    /// As [`Reader::nullable_array`].
    pub fn array<T>(
        &mut self,
        flexible: bool,
        version: i16,
        min_element_bytes: usize,
        decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        Ok(self.nullable_array(flexible, false, version, min_element_bytes, decode)?.unwrap_or_default())
    }

    /// Copies the next `count` bytes, charged.
    pub(super) fn owned_bytes(&mut self, count: usize) -> Result<Vec<u8>, DecodeError> {
        let bytes = self.take(count)?;
        self.charge(count)?;
        Ok(bytes.to_vec())
    }

    /// Reads a byte field that may be null if `nullable`.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedNull`], [`DecodeError::OverBudget`], [`DecodeError::Truncated`] and those of the length.
    pub fn nullable_bytes(&mut self, flexible: bool, nullable: bool) -> Result<Option<Vec<u8>>, DecodeError> {
        let at = self.pos;
        match self.length32(flexible)? {
            Some(length) => Ok(Some(self.owned_bytes(length)?)),
            None if nullable => Ok(None),
            None => Err(DecodeError::UnexpectedNull { at }),
        }
    }

    /// Reads a byte field that is not null.
    ///
    /// # Errors
    /// As [`Reader::nullable_bytes`].
    pub fn bytes(&mut self, flexible: bool) -> Result<Vec<u8>, DecodeError> {
        Ok(self.nullable_bytes(flexible, false)?.unwrap_or_default())
    }

    /// Reads a string that may be null if `nullable`. Malformed UTF-8 is replaced by U+FFFD, as in Kafka.
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedNull`], [`DecodeError::OverBudget`], [`DecodeError::Truncated`] and those of the length.
    pub fn nullable_string(&mut self, flexible: bool, nullable: bool) -> Result<Option<String>, DecodeError> {
        let at = self.pos;
        let Some(length) = self.length16(flexible)? else {
            return if nullable { Ok(None) } else { Err(DecodeError::UnexpectedNull { at }) };
        };
        let bytes = self.take(length)?;
        if let Ok(text) = std::str::from_utf8(bytes) {
            self.charge(length)?;
            return Ok(Some(text.to_owned()));
        }
        let replaced = bytes.utf8_chunks().map(|chunk| {
            chunk.valid().len()
                + if chunk.invalid().is_empty() { 0 } else { char::REPLACEMENT_CHARACTER.len_utf8() }
        });
        let length = replaced.sum();
        if length > MAX_STRING_BYTES {
            return Err(DecodeError::StringTooLong { at, length, limit: MAX_STRING_BYTES });
        }
        self.charge(length)?;
        let mut text = String::with_capacity(length);
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Ok(Some(text))
    }

    /// Reads a string that is not null.
    ///
    /// # Errors
    /// As [`Reader::nullable_string`].
    pub fn string(&mut self, flexible: bool) -> Result<String, DecodeError> {
        Ok(self.nullable_string(flexible, false)?.unwrap_or_default())
    }

    /// Reads the byte before a struct that may be null: negative is null, anything else is a value (as in Kafka).
    ///
    /// # Errors
    /// [`DecodeError::UnexpectedNull`] if it is null and `nullable` is false; [`DecodeError::Truncated`].
    pub fn struct_is_present(&mut self, nullable: bool) -> Result<bool, DecodeError> {
        let at = self.pos;
        let present = self.i8()? >= 0;
        if present || nullable { Ok(present) } else { Err(DecodeError::UnexpectedNull { at }) }
    }

    /// Reads the marker before a nullable struct in a tagged field: 0 is null, anything else a value. (Kafka writes
    /// a byte of -1 or 1 outside of tagged fields and a uvarint of 0 or 1 inside.)
    ///
    /// # Errors
    /// Those of [`Reader::uvarint`].
    pub fn tagged_struct_is_present(&mut self) -> Result<bool, DecodeError> {
        Ok(self.uvarint()? != 0)
    }
}
