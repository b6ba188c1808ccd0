//! Records of a batch one by one, as views, from a body in slices and in any codec.
//!
//! A record that lies whole in a slice (or in the inflated window) is borrowed from there; one that crosses a border
//! is assembled in the scratch, up to the limit that the caller sets.

use std::io::IoSlice;

use super::header::{BatchHeader, TimestampType};
use super::inflate::Source;
use super::scratch::Scratch;
use super::varint::{self, VarintError, read_i32};
use super::walk::{ParsedRecord, parse_record};
use super::{BatchError, Field, InflateLimits, RecordFault};

/// First allocation for a record that has to be assembled; it then doubles as bytes arrive.
const FIRST_RECORD_BUFFER_BYTES: usize = 16 << 10;

/// One record, borrowed from the batch or from the cursor's scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Absolute offset.
    pub offset: i64,
    /// Milliseconds since the epoch; the append time if the batch has one.
    pub timestamp: i64,
    /// Sequence of the record, -1 without producer id.
    pub sequence: i32,
    /// Key, `None` for null.
    pub key: Option<&'a [u8]>,
    /// Value, `None` for null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// Headers in order; the same key may come more than once.
    pub headers: Headers<'a>,
    /// Size with its length field, in bytes, uncompressed.
    pub size_bytes: usize,
}

/// The headers of one record: an iterator that also knows its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    left: u32,
    bytes: &'a [u8],
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Key: UTF-8 by Kafka's protocol, which nobody checks.
    pub key: &'a [u8],
    /// Value, `None` for null.
    pub value: Option<&'a [u8]>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // All lengths were checked when the record was parsed.
        let mut at = 0;
        let key_length = usize::try_from(read_i32(self.bytes, &mut at).ok()?).ok()?;
        let key = self.bytes.get(at..at + key_length)?;
        at += key_length;
        let value = match usize::try_from(read_i32(self.bytes, &mut at).ok()?) {
            Err(_) => None,
            Ok(length) => {
                let value = self.bytes.get(at..at + length)?;
                at += length;
                Some(value)
            }
        };
        self.bytes = self.bytes.get(at..)?;
        Some(Header { key, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Reads the records of one batch. Not an `Iterator`, because each view borrows the cursor.
pub struct RecordCursor<'a, 's> {
    header: BatchHeader,
    source: Source<'a, 's>,
    expected: u32,
    seen: u32,
    /// Bytes of the last view, which are consumed when the next one is asked for.
    pending: usize,
    max_record_bytes: usize,
}

impl<'a, 's> RecordCursor<'a, 's> {
    /// A cursor before the first record. Input is untrusted; the CRC is not looked at.
    ///
    /// On top of what validation needs, a record that crosses a border holds up to twice `max_record_bytes` (while
    /// its buffer grows). A record larger than that limit is an error even where it need not be assembled.
    ///
    /// # Errors
    /// An unknown codec, a negative record count, a compressed stream whose first bytes break the limits.
    pub fn new(
        header: &BatchHeader,
        body: &'a [IoSlice<'a>],
        max_record_bytes: usize,
        limits: &InflateLimits,
        scratch: &'s mut Scratch,
    ) -> Result<Self, BatchError> {
        let expected = u32::try_from(header.record_count).map_err(|_| BatchError::HeaderField {
            what: "record count is negative",
            value: i64::from(header.record_count),
        })?;
        let source = Source::new(header.body_codec()?, body, limits, scratch)?;
        Ok(Self { header: *header, source, expected, seen: 0, pending: 0, max_record_bytes })
    }

    /// The next record; `None` behind the last one. After an error the cursor gives only `None`.
    ///
    /// # Errors
    /// A damaged record or stream, too few records, bytes behind the last record, a record above the limit.
    pub fn next_record(&mut self) -> Result<Option<RecordView<'_>>, BatchError> {
        let pending = std::mem::take(&mut self.pending);
        self.source.consume(pending);
        match self.advance() {
            Ok(None) => Ok(None),
            Err(error) => {
                self.expected = 0;
                self.seen = 1;
                Err(error)
            }
            Ok(Some(found)) => Ok(Some(self.view(&found)?)),
        }
    }

    fn fault(&self, fault: RecordFault) -> BatchError {
        BatchError::Record { index: self.seen, fault }
    }

    fn advance(&mut self) -> Result<Option<Found>, BatchError> {
        if self.seen > self.expected {
            return Ok(None);
        }
        if self.seen == self.expected {
            let left = self.source.fill()?.len();
            self.seen += 1;
            return if left == 0 { Ok(None) } else { Err(BatchError::TrailingBytes { count: left as u64 }) };
        }
        let (size, length_bytes) = self.read_length()?;
        if size > self.max_record_bytes {
            return Err(BatchError::RecordTooLarge {
                index: self.seen,
                size_bytes: size as u64,
                limit: self.max_record_bytes as u64,
            });
        }
        let in_place = self.source.fill()?.len() >= size;
        if !in_place {
            self.assemble(size)?;
        }
        let bytes = if in_place {
            self.source.fill()?.get(..size).unwrap_or_default()
        } else {
            self.source.record_buffer()
        };
        let parsed = parse_record(bytes).map_err(|fault| BatchError::Record { index: self.seen, fault })?;
        let delta = i64::from(parsed.offset_delta);
        let offset = self
            .header
            .base_offset
            .checked_add(delta)
            .ok_or(self.fault(RecordFault::Overflow { field: Field::Offset }))?;
        let timestamp = match self.header.timestamp_type() {
            TimestampType::LogAppendTime => self.header.max_timestamp,
            TimestampType::CreateTime => self
                .header
                .base_timestamp
                .checked_add(parsed.timestamp_delta)
                .ok_or(self.fault(RecordFault::Overflow { field: Field::Timestamp }))?,
        };
        self.seen += 1;
        if in_place {
            self.pending = size;
        }
        Ok(Some(Found { in_place, size, size_bytes: size + length_bytes, offset, timestamp, parsed }))
    }

    fn view(&mut self, found: &Found) -> Result<RecordView<'_>, BatchError> {
        let sequence = if self.header.base_sequence < 0 {
            super::NO_SEQUENCE
        } else {
            super::increment_sequence(self.header.base_sequence, found.parsed.offset_delta)
        };
        let bytes = if found.in_place { self.source.fill()? } else { self.source.record_buffer() };
        let part = |at: usize, length: i32| {
            usize::try_from(length).ok().map(|length| bytes.get(at..at + length).unwrap_or_default())
        };
        let parsed = &found.parsed;
        Ok(RecordView {
            offset: found.offset,
            timestamp: found.timestamp,
            sequence,
            key: part(parsed.key_at, parsed.key_length),
            value: part(parsed.value_at, parsed.value_length),
            headers: Headers {
                left: parsed.header_count,
                bytes: bytes.get(parsed.headers_at..found.size).unwrap_or_default(),
            },
            size_bytes: found.size_bytes,
        })
    }

    /// The record's length and how many bytes that took.
    fn read_length(&mut self) -> Result<(usize, usize), BatchError> {
        let mut at = 0;
        if let Ok(size @ 0..) = read_i32(self.source.fill()?, &mut at) {
            self.source.consume(at);
            return Ok((size as usize, at));
        }
        self.read_length_bytewise()
    }

    #[cold]
    fn read_length_bytewise(&mut self) -> Result<(usize, usize), BatchError> {
        let mut bytes = [0; varint::MAX_VARINT_BYTES];
        let mut length = 0;
        loop {
            let piece = self.source.fill()?;
            let Some(&byte) = piece.first() else {
                return Err(if length == 0 {
                    BatchError::RecordCount { found: self.seen, expected: self.header.record_count }
                } else {
                    self.fault(RecordFault::Varint { field: Field::Length })
                });
            };
            self.source.consume(1);
            if let Some(slot) = bytes.get_mut(length) {
                *slot = byte;
            }
            length += 1;
            match read_i32(bytes.get(..length).unwrap_or_default(), &mut 0) {
                Ok(size) => {
                    return usize::try_from(size).map(|size| (size, length)).map_err(|_| {
                        self.fault(RecordFault::NegativeLength { field: Field::Length, length: size })
                    });
                }
                Err(VarintError::Incomplete) if length < varint::MAX_VARINT_BYTES => {}
                Err(_) => return Err(self.fault(RecordFault::Varint { field: Field::Length })),
            }
        }
    }

    fn assemble(&mut self, size: usize) -> Result<(), BatchError> {
        let index = self.seen;
        self.source.record_buffer().clear();
        let mut missing = size;
        while missing > 0 {
            let mut buffer = std::mem::take(self.source.record_buffer());
            let piece = match self.source.fill() {
                Ok(piece) => piece,
                Err(error) => {
                    *self.source.record_buffer() = buffer;
                    return Err(error);
                }
            };
            let step = missing.min(piece.len());
            if buffer.capacity() - buffer.len() < step {
                // Doubles, but never beyond what the record needs.
                let room = (size - buffer.len()).min(buffer.len().max(FIRST_RECORD_BUFFER_BYTES).max(step));
                buffer.reserve_exact(room);
            }
            buffer.extend_from_slice(piece.get(..step).unwrap_or_default());
            *self.source.record_buffer() = buffer;
            self.source.consume(step);
            missing -= step;
            if step == 0 {
                let fault = RecordFault::PastBatch { size_bytes: size as u64 };
                return Err(BatchError::Record { index, fault });
            }
        }
        Ok(())
    }
}

struct Found {
    in_place: bool,
    size: usize,
    size_bytes: usize,
    offset: i64,
    timestamp: i64,
    parsed: ParsedRecord,
}
