//! The walk over record bytes that arrive in pieces: every length is checked, nothing is copied, nothing is kept.
//!
//! A record that lies whole within a piece is parsed in place ([`parse_record`]); one that crosses a border goes
//! through a state machine byte by byte, except that keys and values are skipped in one step. Both give the same
//! errors for the same bytes, whatever the split (tested).

use std::ops::ControlFlow;

use super::varint::{self, VarintError, read_i32, read_i64};
use super::{BatchError, Field, RecordFault};

/// What the walk says about one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RecordMeta {
    pub(super) index: u32,
    pub(super) offset_delta: i32,
    pub(super) timestamp_delta: i64,
    pub(super) has_key: bool,
}

/// Sees every record of a walk.
pub(super) trait Visitor {
    /// Called once a record was found well-formed. `Break` ends the walk without an error.
    fn record(&mut self, meta: RecordMeta) -> Result<ControlFlow<()>, BatchError>;
}

/// The parts of a record that lies in one slice, as positions in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParsedRecord {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key_at: usize,
    /// -1 for null.
    pub(super) key_length: i32,
    pub(super) value_at: usize,
    /// -1 for null.
    pub(super) value_length: i32,
    pub(super) header_count: u32,
    pub(super) headers_at: usize,
}

#[cold]
fn varint_fault(error: VarintError, field: Field) -> RecordFault {
    match error {
        VarintError::Incomplete => RecordFault::PastEnd { field, needed: 1, left: 0 },
        VarintError::Invalid => RecordFault::Varint { field },
    }
}

/// Reads a nullable length and moves `*at` behind the bytes that it counts.
#[inline(always)]
fn skip_nullable(
    record: &[u8],
    at: &mut usize,
    length_field: Field,
    field: Field,
) -> Result<(usize, i32), RecordFault> {
    let length = read_i32(record, at).map_err(|e| varint_fault(e, length_field))?;
    let start = *at;
    if length > 0 {
        let end = start + length as usize;
        if end > record.len() {
            return Err(RecordFault::PastEnd {
                field,
                needed: length as u64,
                left: (record.len() - start) as u64,
            });
        }
        *at = end;
    } else if length < -1 {
        return Err(RecordFault::NegativeLength { field: length_field, length });
    }
    Ok((start, length))
}

/// Parses the bytes of one record behind its length. All of `record` must be used. Input is untrusted.
#[inline(always)]
pub(super) fn parse_record(record: &[u8]) -> Result<ParsedRecord, RecordFault> {
    let mut at = 1;
    if record.is_empty() {
        return Err(RecordFault::PastEnd { field: Field::Attributes, needed: 1, left: 0 });
    }
    let timestamp_delta = read_i64(record, &mut at).map_err(|e| varint_fault(e, Field::Timestamp))?;
    let offset_delta = read_i32(record, &mut at).map_err(|e| varint_fault(e, Field::Offset))?;
    let (key_at, key_length) = skip_nullable(record, &mut at, Field::KeyLength, Field::Key)?;
    let (value_at, value_length) = skip_nullable(record, &mut at, Field::ValueLength, Field::Value)?;
    let count = read_i32(record, &mut at).map_err(|e| varint_fault(e, Field::HeaderCount))?;
    let headers_at = at;
    if count != 0 {
        at = skip_headers(record, at, count)?;
    }
    if at != record.len() {
        return Err(RecordFault::Leftover { left: (record.len() - at) as u64 });
    }
    Ok(ParsedRecord {
        timestamp_delta,
        offset_delta,
        key_at,
        key_length,
        value_at,
        value_length,
        header_count: count as u32,
        headers_at,
    })
}

fn check_header_count(count: i32, left: u64) -> Result<u32, RecordFault> {
    let Ok(positive) = u32::try_from(count) else {
        return Err(RecordFault::NegativeLength { field: Field::HeaderCount, length: count });
    };
    // A header has two lengths, so two bytes at least.
    let needed = u64::from(positive) * 2;
    if needed > left {
        return Err(RecordFault::PastEnd { field: Field::HeaderCount, needed, left });
    }
    Ok(positive)
}

#[inline(never)]
fn skip_headers(record: &[u8], mut at: usize, count: i32) -> Result<usize, RecordFault> {
    let count = check_header_count(count, (record.len() - at) as u64)?;
    for _ in 0..count {
        let key_length = read_i32(record, &mut at).map_err(|e| varint_fault(e, Field::HeaderKeyLength))?;
        if key_length < 0 {
            return Err(RecordFault::NegativeLength { field: Field::HeaderKeyLength, length: key_length });
        }
        let left = record.len() - at;
        if key_length as usize > left {
            return Err(RecordFault::PastEnd {
                field: Field::HeaderKey,
                needed: key_length as u64,
                left: left as u64,
            });
        }
        at += key_length as usize;
        skip_nullable(record, &mut at, Field::HeaderValueLength, Field::HeaderValue)?;
    }
    Ok(at)
}

/// Takes a 32-bit varint of at most 3 bytes off the low end of a word.
#[inline(always)]
fn take_i32(word: &mut u64, at: &mut usize) -> Option<i32> {
    let bytes = *word as u32;
    let (raw, length) = if bytes & 0x80 == 0 {
        (bytes & 0x7f, 1)
    } else if bytes & 0x8000 == 0 {
        (bytes & 0x7f | bytes >> 1 & 0x3f80, 2)
    } else if bytes & 0x80_0000 == 0 {
        (bytes & 0x7f | bytes >> 1 & 0x3f80 | bytes >> 2 & 0x1f_c000, 3)
    } else {
        return None;
    };
    *word >>= 8 * length;
    *at += length;
    Some(varint::unzigzag32(raw))
}

#[inline(always)]
fn word_at(piece: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*piece.get(at..)?.first_chunk()?))
}

/// The usual record: short varints, whole in the piece with some bytes behind it, well-formed. `None` says nothing
/// but that [`exact_record`] must have a look. This is the loop that every produced record passes through: two or
/// three fields are taken from each word that is read.
#[inline(always)]
fn quick_record(piece: &[u8], mut at: usize, index: u32) -> Option<(usize, RecordMeta)> {
    let mut word = word_at(piece, at)?;
    let size = take_i32(&mut word, &mut at)?;
    if size < 0 {
        return None;
    }
    let end = at + size as usize;
    word >>= 8;
    at += 1;
    let timestamp_delta = take_i32(&mut word, &mut at)?;
    let mut word = word_at(piece, at)?;
    let offset_delta = take_i32(&mut word, &mut at)?;
    let key_length = take_i32(&mut word, &mut at)?;
    // A length that leaves the piece or the record is noticed at the next read or at the end.
    at += key_length.max(0) as usize;
    let mut word = word_at(piece, at)?;
    let value_length = take_i32(&mut word, &mut at)?;
    at += value_length.max(0) as usize;
    let header_count = match *piece.get(at)? {
        0 => {
            at += 1;
            0
        }
        _ => read_i32(piece, &mut at).ok()?,
    };
    if header_count != 0 {
        if at > end {
            return None;
        }
        at = skip_headers(piece.get(..end)?, at, header_count).ok()?;
    }
    // `at` only grew, so that nothing passed the end if it stands there now.
    if at != end || key_length < -1 || value_length < -1 {
        return None;
    }
    let timestamp_delta = i64::from(timestamp_delta);
    Some((end, RecordMeta { index, offset_delta, timestamp_delta, has_key: key_length >= 0 }))
}

/// Any record; `None` if it does not lie whole in the piece.
#[cold]
fn exact_record(piece: &[u8], mut at: usize, index: u32) -> Result<Option<(usize, RecordMeta)>, RecordFault> {
    let size = match read_i32(piece, &mut at) {
        Ok(size) => size,
        Err(VarintError::Incomplete) => return Ok(None),
        Err(VarintError::Invalid) => return Err(RecordFault::Varint { field: Field::Length }),
    };
    let Ok(size) = usize::try_from(size) else {
        return Err(RecordFault::NegativeLength { field: Field::Length, length: size });
    };
    let Some(record) = piece.get(at..at + size) else { return Ok(None) };
    let ParsedRecord { timestamp_delta, offset_delta, key_length, .. } = parse_record(record)?;
    Ok(Some((at + size, RecordMeta { index, offset_delta, timestamp_delta, has_key: key_length >= 0 })))
}

/// Where a record that crosses a border has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
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

/// The state of a walk between two pieces.
#[derive(Debug)]
pub(super) struct Walk {
    expected: u32,
    seen: u32,
    stopped: bool,
    stage: Stage,
    /// Bytes of a varint that were read, and how many.
    raw: u64,
    raw_bytes: u32,
    /// Declared size of the record, and how much of it is left.
    size: u64,
    left: u64,
    /// Bytes of a key, value or header part to pass over.
    skip: u64,
    headers_left: u32,
    meta: RecordMeta,
}

impl Walk {
    /// A walk that expects `record_count` records.
    pub(super) fn new(record_count: u32) -> Self {
        Self {
            expected: record_count,
            seen: 0,
            stopped: false,
            stage: Stage::Length,
            raw: 0,
            raw_bytes: 0,
            size: 0,
            left: 0,
            skip: 0,
            headers_left: 0,
            meta: RecordMeta::default(),
        }
    }

    /// Walks the next piece. Returns `false` once the visitor has broken off; later pieces are then ignored.
    pub(super) fn feed<V: Visitor>(&mut self, piece: &[u8], visitor: &mut V) -> Result<bool, BatchError> {
        let mut at = 0;
        while at < piece.len() && !self.stopped {
            if self.stage == Stage::Length && self.raw_bytes == 0 {
                at = self.whole_records(piece, at, visitor)?;
                if at == piece.len() || self.stopped {
                    break;
                }
            }
            at = self.bytewise(piece, at, visitor)?;
        }
        Ok(!self.stopped)
    }

    /// Ends the walk: all records must have been seen, unless the visitor broke off.
    pub(super) fn finish(&self) -> Result<(), BatchError> {
        if self.stopped {
            return Ok(());
        }
        if self.stage != Stage::Length {
            return Err(self.fault(RecordFault::PastBatch { size_bytes: self.size }));
        }
        if self.raw_bytes != 0 {
            return Err(self.fault(RecordFault::Varint { field: Field::Length }));
        }
        if self.seen != self.expected {
            return Err(BatchError::RecordCount { found: self.seen, expected: self.expected as i32 });
        }
        Ok(())
    }

    #[cold]
    fn fault(&self, fault: RecordFault) -> BatchError {
        BatchError::Record { index: self.seen, fault }
    }

    #[cold]
    fn trailing(count: usize) -> BatchError {
        BatchError::TrailingBytes { count: count as u64 }
    }

    /// Parses the records that lie whole in `piece` from `at` on; returns the start of the first one that does not.
    #[inline]
    fn whole_records<V: Visitor>(
        &mut self,
        piece: &[u8],
        mut at: usize,
        visitor: &mut V,
    ) -> Result<usize, BatchError> {
        // A local, so that the loop keeps it in a register.
        let mut seen = self.seen;
        while at < piece.len() {
            if seen == self.expected {
                return Err(Self::trailing(piece.len() - at));
            }
            let (end, meta) = match quick_record(piece, at, seen) {
                Some(found) => found,
                None => match exact_record(piece, at, seen) {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    Err(fault) => return Err(BatchError::Record { index: seen, fault }),
                },
            };
            at = end;
            seen += 1;
            if visitor.record(meta)?.is_break() {
                self.stopped = true;
                break;
            }
        }
        self.seen = seen;
        Ok(at)
    }

    /// Goes on with the record that crosses a border, until it or the piece ends.
    fn bytewise<V: Visitor>(
        &mut self,
        piece: &[u8],
        mut at: usize,
        visitor: &mut V,
    ) -> Result<usize, BatchError> {
        while let Some(&byte) = piece.get(at) {
            let complete = match self.stage {
                Stage::Key | Stage::Value | Stage::HeaderKey | Stage::HeaderValue => {
                    let step = self.skip.min((piece.len() - at) as u64);
                    at += step as usize;
                    self.skip -= step;
                    self.left -= step;
                    if self.skip == 0 { self.after_bytes() } else { false }
                }
                stage => {
                    at += 1;
                    if stage == Stage::Length {
                        if self.seen == self.expected {
                            return Err(Self::trailing(piece.len() - at + 1));
                        }
                    } else {
                        if self.left == 0 {
                            let field = stage.field();
                            return Err(self.fault(RecordFault::PastEnd { field, needed: 1, left: 0 }));
                        }
                        self.left -= 1;
                    }
                    self.varint_byte(byte)?
                }
            };
            // A part may be promised while nothing of the record is left: said now, not at the next piece.
            if !complete && self.left == 0 && self.stage != Stage::Length {
                let field = self.stage.field();
                return Err(self.fault(RecordFault::PastEnd { field, needed: 1, left: 0 }));
            }
            if complete {
                if self.left != 0 {
                    return Err(self.fault(RecordFault::Leftover { left: self.left }));
                }
                self.meta.index = self.seen;
                self.seen += 1;
                self.stage = Stage::Length;
                if visitor.record(self.meta)?.is_break() {
                    self.stopped = true;
                }
                return Ok(at);
            }
        }
        Ok(at)
    }

    /// Takes one byte of a varint (or the attributes); returns whether the record is complete with it.
    fn varint_byte(&mut self, byte: u8) -> Result<bool, BatchError> {
        let stage = self.stage;
        if stage == Stage::Attributes {
            self.stage = Stage::Timestamp;
            return Ok(false);
        }
        let wide = stage == Stage::Timestamp;
        let last = if wide { varint::MAX_VARLONG_BYTES } else { varint::MAX_VARINT_BYTES } as u32 - 1;
        let overflows = wide && self.raw_bytes == last && byte > 1;
        if overflows || (self.raw_bytes == last && byte >= 0x80) {
            return Err(self.fault(RecordFault::Varint { field: stage.field() }));
        }
        self.raw |= u64::from(byte & 0x7f) << (7 * self.raw_bytes);
        if byte >= 0x80 {
            self.raw_bytes += 1;
            return Ok(false);
        }
        let raw = std::mem::take(&mut self.raw);
        self.raw_bytes = 0;
        if wide {
            self.meta.timestamp_delta = varint::unzigzag64(raw);
            self.stage = Stage::Offset;
            return Ok(false);
        }
        let Ok(raw) = u32::try_from(raw) else {
            return Err(self.fault(RecordFault::Varint { field: stage.field() }));
        };
        self.value(varint::unzigzag32(raw))
    }

    /// Acts on the value of a 32-bit varint; returns whether the record is complete with it.
    fn value(&mut self, value: i32) -> Result<bool, BatchError> {
        match self.stage {
            Stage::Length => {
                let Ok(size) = u64::try_from(value) else {
                    return Err(
                        self.fault(RecordFault::NegativeLength { field: Field::Length, length: value })
                    );
                };
                self.size = size;
                self.left = size;
                self.stage = Stage::Attributes;
                Ok(false)
            }
            Stage::Offset => {
                self.meta.offset_delta = value;
                self.stage = Stage::KeyLength;
                Ok(false)
            }
            Stage::KeyLength => {
                self.meta.has_key = value >= 0;
                self.bytes(value, -1, Stage::Key)
            }
            Stage::ValueLength => self.bytes(value, -1, Stage::Value),
            Stage::HeaderKeyLength => self.bytes(value, 0, Stage::HeaderKey),
            Stage::HeaderValueLength => self.bytes(value, -1, Stage::HeaderValue),
            _ => {
                self.headers_left =
                    check_header_count(value, self.left).map_err(|fault| self.fault(fault))?;
                self.stage = Stage::HeaderKeyLength;
                Ok(self.headers_left == 0)
            }
        }
    }

    fn bytes(&mut self, length: i32, min: i32, stage: Stage) -> Result<bool, BatchError> {
        if length < min {
            return Err(self.fault(RecordFault::NegativeLength { field: self.stage.field(), length }));
        }
        let needed = u64::try_from(length).unwrap_or(0);
        if needed > self.left {
            return Err(self.fault(RecordFault::PastEnd { field: stage.field(), needed, left: self.left }));
        }
        self.skip = needed;
        self.stage = stage;
        Ok(needed == 0 && self.after_bytes())
    }

    /// Picks the stage after a key, value or header part; returns whether the record is complete.
    fn after_bytes(&mut self) -> bool {
        self.stage = match self.stage {
            Stage::Key => Stage::ValueLength,
            Stage::Value => Stage::HeaderCount,
            Stage::HeaderKey => Stage::HeaderValueLength,
            _ => {
                self.headers_left -= 1;
                if self.headers_left == 0 {
                    return true;
                }
                Stage::HeaderKeyLength
            }
        };
        false
    }
}

impl Stage {
    fn field(self) -> Field {
        match self {
            Self::Length => Field::Length,
            Self::Attributes => Field::Attributes,
            Self::Timestamp => Field::Timestamp,
            Self::Offset => Field::Offset,
            Self::KeyLength => Field::KeyLength,
            Self::Key => Field::Key,
            Self::ValueLength => Field::ValueLength,
            Self::Value => Field::Value,
            Self::HeaderCount => Field::HeaderCount,
            Self::HeaderKeyLength => Field::HeaderKeyLength,
            Self::HeaderKey => Field::HeaderKey,
            Self::HeaderValueLength => Field::HeaderValueLength,
            Self::HeaderValue => Field::HeaderValue,
        }
    }
}
