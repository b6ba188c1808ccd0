//! Bodies as a stream of record bytes, whatever the codec: plain slices are handed through, compressed ones inflated
//! through bounded memory. What a batch will need is known before the first byte is inflated.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::io::IoSlice;
use std::ops::Range;

use super::scratch::Scratch;
use super::{BatchError, BatchHeader, Codec, InflateLimits};

/// Size of the window that gzip and zstd are inflated through, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

/// Upper bound of a gzip decompressor's state besides the window (zlib-rs: 32 KiB of history and its tables).
pub(super) const GZIP_STATE_BYTES: usize = 96 << 10;

/// Upper bound in bytes of what reading this batch makes a [`Scratch`] hold on top of what it already holds, known
/// from the header and the body's first bytes, so that `body` may end after some dozens (snappy: from all of its block
/// headers). 0 for an uncompressed batch. Readers that hand out records ([`RecordCursor`](super::RecordCursor)) may
/// add their own limit on the size of one record.
///
/// # Errors
/// An unknown codec, or a stream that would break the limits or whose first bytes are not of its codec.
pub fn working_memory_bytes(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    limits: &InflateLimits,
) -> Result<usize, BatchError> {
    let input = Input::new(body);
    match header.body_codec()? {
        Codec::None => Ok(0),
        Codec::Gzip => Ok(GZIP_STATE_BYTES + WINDOW_BYTES),
        Codec::Snappy => snappy::memory_bytes(input, limits),
        Codec::Lz4 => lz4::memory_bytes(input, header.body_size_bytes()),
        Codec::Zstd => zstd::memory_bytes(input, limits),
    }
}

/// The same bound for any batch of a codec whose compressed body has this length: what must be reserved when only the
/// header has been read.
#[must_use]
pub fn max_working_memory_bytes(codec: Codec, body_size_bytes: usize, limits: &InflateLimits) -> usize {
    match codec {
        Codec::None => 0,
        Codec::Gzip => GZIP_STATE_BYTES + WINDOW_BYTES,
        Codec::Snappy => snappy::max_memory_bytes(body_size_bytes, limits),
        Codec::Lz4 => lz4::max_memory_bytes(body_size_bytes, lz4::MAX_BLOCK_BYTES),
        Codec::Zstd => zstd::max_memory_bytes(limits),
    }
}

/// A position in a body that lies in slices.
#[derive(Debug, Clone, Copy)]
struct Input<'a> {
    /// What is left of the present slice; empty only at the end of the body.
    current: &'a [u8],
    rest: &'a [IoSlice<'a>],
    /// Bytes left in all slices, kept so that asking costs nothing: hostile streams have a block every few bytes.
    left: usize,
}

impl<'a> Input<'a> {
    fn new(body: &'a [IoSlice<'a>]) -> Self {
        let left = body.iter().map(|slice| slice.len()).sum();
        let mut input = Self { current: &[], rest: body, left };
        input.settle();
        input
    }

    #[inline]
    fn settle(&mut self) {
        while self.current.is_empty() {
            let Some((first, rest)) = self.rest.split_first() else { return };
            self.current = first;
            self.rest = rest;
        }
    }

    fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Bytes left in all slices.
    fn len(&self) -> usize {
        self.left
    }

    /// Moves on within the present slice, or to its end.
    #[inline]
    fn advance(&mut self, count: usize) {
        let count = count.min(self.current.len());
        self.left -= count;
        self.current = self.current.get(count..).unwrap_or_default();
        if self.current.is_empty() {
            self.settle();
        }
    }

    /// Moves on over any number of slices; false if the body ends before.
    fn skip(&mut self, mut count: usize) -> bool {
        while count > 0 {
            if self.is_empty() {
                return false;
            }
            let step = count.min(self.current.len());
            self.advance(step);
            count -= step;
        }
        true
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.current.first()?;
        self.advance(1);
        Some(byte)
    }

    /// Fills `out`; false (with an unspecified position) if the body ends before.
    fn read_exact(&mut self, mut out: &mut [u8]) -> bool {
        while !out.is_empty() {
            if self.is_empty() {
                return false;
            }
            let step = out.len().min(self.current.len());
            let (head, tail) = out.split_at_mut(step);
            head.copy_from_slice(&self.current[..step]);
            self.advance(step);
            out = tail;
        }
        true
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut out = [0; N];
        self.read_exact(&mut out).then_some(out)
    }

    /// Up to `N` of the next bytes without moving on.
    fn peek<const N: usize>(&self) -> ([u8; N], usize) {
        let mut copy = *self;
        let mut out = [0; N];
        let mut length = 0;
        while let (Some(slot), Some(byte)) = (out.get_mut(length), copy.byte()) {
            *slot = byte;
            length += 1;
        }
        (out, length)
    }
}

enum State {
    Gzip(gzip::Gzip),
    Snappy(snappy::Snappy),
    Lz4(lz4::Lz4),
    Zstd(zstd::Zstd),
}

/// Record bytes of a body in pieces, in the manner of `BufRead`.
pub(super) struct Source<'a, 's> {
    input: Input<'a>,
    scratch: &'s mut Scratch,
    /// `None`: the body is not compressed.
    state: Option<State>,
    /// The part of `scratch.out` that is inflated and not yet consumed.
    ready: Range<usize>,
    total: u64,
    limit: u64,
}

impl<'a, 's> Source<'a, 's> {
    pub(super) fn new(
        codec: Codec,
        body: &'a [IoSlice<'a>],
        limits: &InflateLimits,
        scratch: &'s mut Scratch,
    ) -> Result<Self, BatchError> {
        scratch.settle();
        let input = Input::new(body);
        let state = match codec {
            Codec::None => None,
            Codec::Gzip => Some(State::Gzip(gzip::Gzip::new())),
            Codec::Snappy => Some(State::Snappy(snappy::Snappy::new(limits))),
            Codec::Lz4 => Some(State::Lz4(lz4::Lz4::new())),
            Codec::Zstd => Some(State::Zstd(zstd::Zstd::new(input, limits, scratch)?)),
        };
        Ok(Self { input, scratch, state, ready: 0..0, total: 0, limit: limits.max_inflated_bytes })
    }

    /// The next record bytes; empty at the end of the body.
    #[inline]
    pub(super) fn fill(&mut self) -> Result<&[u8], BatchError> {
        if self.state.is_none() {
            return Ok(self.input.current);
        }
        if self.ready.is_empty() {
            self.inflate()?;
        }
        Ok(self.scratch.out.get(self.ready.clone()).unwrap_or_default())
    }

    fn inflate(&mut self) -> Result<(), BatchError> {
        let ready = match &mut self.state {
            None => None,
            Some(State::Gzip(state)) => state.step(&mut self.input, self.scratch)?,
            Some(State::Snappy(state)) => state.step(&mut self.input, self.scratch)?,
            Some(State::Lz4(state)) => state.step(&mut self.input, self.scratch)?,
            Some(State::Zstd(state)) => state.step(&mut self.input, self.scratch)?,
        };
        self.ready = ready.unwrap_or(0..0);
        self.total += self.ready.len() as u64;
        if self.total > self.limit {
            return Err(BatchError::InflatedTooLarge { limit: self.limit });
        }
        Ok(())
    }

    /// Marks bytes of the last `fill` as read.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        if self.state.is_none() {
            self.total += count as u64;
            self.input.advance(count);
        } else {
            self.ready.start += count.min(self.ready.len());
        }
    }

    /// Record bytes handed out so far.
    pub(super) fn inflated_bytes(&self) -> u64 {
        self.total
    }

    /// The buffer in which a reader assembles a record that lies across pieces.
    pub(super) fn record_buffer(&mut self) -> &mut Vec<u8> {
        &mut self.scratch.record
    }
}

impl Drop for Source<'_, '_> {
    fn drop(&mut self) {
        self.scratch.settle();
    }
}
