//! Snappy, decoded element by element straight from the slices: raw blocks (librdkafka, franz-go) and the xerial
//! framing (Java). Nothing compressed is gathered; memory is the history that copies may reach back to.
//!
//! A block of at most `max_snappy_history_bytes` is held as a whole, because an encoder may refer to any of it
//! (klauspost/s2 does, within 4 MiB). Of a larger one that much is kept while the rest streams through.

use std::ops::Range;

use super::Input;
use crate::records::scratch::{Scratch, ensure_len};
use crate::records::{BatchError, Codec, InflateLimits};

/// First bytes of the xerial framing; two big-endian i32 versions follow.
const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// Copies of 16 bytes may write this far behind the end of a block.
const SLACK_BYTES: usize = 32;
/// A copy of 64 bytes takes 3 compressed ones; no element does better.
const MAX_RATIO: usize = 22;
/// Buffers are taken in multiples of this, so that blocks of similar size share one.
const GRAIN_BYTES: usize = 16 << 10;

fn corrupt(detail: &'static str) -> BatchError {
    BatchError::Decompress { codec: Codec::Snappy, detail }
}

const SHORT: &str = "stream is cut short";

/// Size of the buffer for a block that inflates to `length` bytes.
fn buffer_bytes(length: u64, history: usize) -> usize {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let held = if length <= history { length } else { history + history / 2 };
    (held + SLACK_BYTES).next_multiple_of(GRAIN_BYTES)
}

/// The history, not smaller than what the 16-byte copies and the sliding need.
fn history_limit(limits: &InflateLimits) -> usize {
    limits.max_snappy_history_bytes.clamp(64 << 10, 1 << 30)
}

pub(super) fn max_memory_bytes(body_bytes: usize, limits: &InflateLimits) -> usize {
    let history = history_limit(limits);
    buffer_bytes(body_bytes.saturating_mul(MAX_RATIO) as u64, history).min(buffer_bytes(u64::MAX, history))
}

/// The largest block decides; block headers are read, their content is skipped.
pub(super) fn memory_bytes(mut input: Input<'_>, limits: &InflateLimits) -> Result<usize, BatchError> {
    let history = history_limit(limits);
    let mut state = Snappy::new(limits);
    let mut largest = 0;
    while state.next_block(&mut input)? {
        largest = largest.max(buffer_bytes(state.block_left, history));
        if state.framing == Framing::Raw {
            break;
        }
        if !input.skip(state.compressed_left) {
            return Err(corrupt(SHORT));
        }
        state.block_left = 0;
        state.compressed_left = 0;
    }
    Ok(largest)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Unknown,
    Xerial,
    Raw,
}

pub(super) struct Snappy {
    history: usize,
    framing: Framing,
    /// Inflated bytes that the block still owes.
    block_left: u64,
    /// Compressed bytes of the block that are left.
    compressed_left: usize,
    /// Where the block's buffer ends for writing.
    capacity: usize,
    /// Write position, and the start of what was not yet handed out.
    at: usize,
    start: usize,
    /// An element that did not fit or whose bytes have not all come.
    literal_left: usize,
    copy_left: usize,
    copy_offset: usize,
}

impl Snappy {
    pub(super) fn new(limits: &InflateLimits) -> Self {
        Self {
            history: history_limit(limits),
            framing: Framing::Unknown,
            block_left: 0,
            compressed_left: 0,
            capacity: 0,
            at: 0,
            start: 0,
            literal_left: 0,
            copy_left: 0,
            copy_offset: 0,
        }
    }

    pub(super) fn step(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Range<usize>>, BatchError> {
        loop {
            if self.block_left == 0 {
                if !self.next_block(input)? {
                    return Ok(None);
                }
                let bytes = buffer_bytes(self.block_left, self.history);
                // A block that is held as a whole ends where it ends; a larger one slides at the buffer's end.
                self.capacity =
                    usize::try_from(self.block_left).unwrap_or(usize::MAX).min(bytes - SLACK_BYTES);
                ensure_len(&mut scratch.out, bytes);
                self.at = 0;
                self.start = 0;
            } else if self.at == self.capacity {
                let keep_from = self.at - self.history.min(self.at);
                scratch.out.copy_within(keep_from..self.at, 0);
                self.at -= keep_from;
                self.start = self.at;
            }
            self.decode(input, &mut scratch.out)?;
            if self.block_left == 0
                && (self.compressed_left != 0 || self.literal_left != 0 || self.copy_left != 0)
            {
                return Err(corrupt("block is longer than its length says"));
            }
            let ready = self.start..self.at;
            self.start = self.at;
            if !ready.is_empty() {
                return Ok(Some(ready));
            }
        }
    }

    /// Reads up to the next block's inflated length; false at the end of the body.
    fn next_block(&mut self, input: &mut Input<'_>) -> Result<bool, BatchError> {
        loop {
            match self.framing {
                Framing::Unknown => {
                    let (head, length) = input.peek::<8>();
                    if length == 0 {
                        return Err(corrupt(SHORT));
                    }
                    if head == XERIAL_MAGIC {
                        if !input.skip(XERIAL_HEADER_BYTES) {
                            return Err(corrupt(SHORT));
                        }
                        self.framing = Framing::Xerial;
                        continue;
                    }
                    self.framing = Framing::Raw;
                    self.compressed_left = input.len();
                }
                Framing::Raw => {
                    return Ok(false);
                }
                Framing::Xerial => {
                    if input.is_empty() {
                        return Ok(false);
                    }
                    let word: [u8; 4] = input.array().ok_or(corrupt(SHORT))?;
                    // Streams may be joined: the next one's header stands where a length is expected.
                    if word[..] == XERIAL_MAGIC[..4] {
                        if !input.skip(XERIAL_HEADER_BYTES - 4) {
                            return Err(corrupt(SHORT));
                        }
                        continue;
                    }
                    self.compressed_left = usize::try_from(i32::from_be_bytes(word))
                        .map_err(|_| corrupt("block length is negative"))?;
                    if self.compressed_left > input.len() {
                        return Err(corrupt(SHORT));
                    }
                }
            }
            let length = self.read_length(input)?;
            if length > (self.compressed_left as u64 + 1) * MAX_RATIO as u64 {
                return Err(corrupt("block promises more than its bytes can hold"));
            }
            self.block_left = length;
            if length > 0 {
                return Ok(true);
            }
            if self.compressed_left != 0 {
                return Err(corrupt("block is longer than its length says"));
            }
        }
    }

    /// The varint in front of a block's elements.
    fn read_length(&mut self, input: &mut Input<'_>) -> Result<u64, BatchError> {
        let mut length = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.compressed_byte(input)?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if length > u64::from(u32::MAX) {
                    break;
                }
                return Ok(length);
            }
        }
        Err(corrupt("block length is no 32-bit varint"))
    }

    fn compressed_byte(&mut self, input: &mut Input<'_>) -> Result<u8, BatchError> {
        self.compressed_left = self.compressed_left.checked_sub(1).ok_or(corrupt(SHORT))?;
        input.byte().ok_or(corrupt(SHORT))
    }

    /// Decodes until the block is complete or its buffer is full.
    fn decode(&mut self, input: &mut Input<'_>, out: &mut [u8]) -> Result<(), BatchError> {
        while self.block_left > 0 && self.at < self.capacity {
            if self.copy_left > 0 {
                self.run_copy(out)?;
                continue;
            }
            let within = input.current.len().min(self.compressed_left);
            let piece = input.current.get(..within).unwrap_or_default();
            if piece.is_empty() {
                return Err(corrupt(SHORT));
            }
            let used = self.decode_piece(piece, out)?;
            input.advance(used);
            self.compressed_left -= used;
            if self.block_left > 0 && self.at < self.capacity && self.literal_left == 0 && self.copy_left == 0
            {
                // An element whose tag lies across two slices, or none is left at all.
                self.tag_across(input)?;
            }
        }
        Ok(())
    }

    /// Decodes the elements whose tags lie whole in `piece`; returns how much of it was used.
    fn decode_piece(&mut self, piece: &[u8], out: &mut [u8]) -> Result<usize, BatchError> {
        let mut i = 0;
        loop {
            if self.literal_left > 0 {
                let count = self.literal_left.min(piece.len() - i).min(self.capacity - self.at);
                let (Some(from), Some(to)) = (piece.get(i..i + count), out.get_mut(self.at..self.at + count))
                else {
                    return Err(corrupt(SHORT));
                };
                to.copy_from_slice(from);
                self.produced(count);
                self.literal_left -= count;
                i += count;
                if self.literal_left > 0 {
                    return Ok(i);
                }
            }
            if self.copy_left > 0 {
                self.run_copy(out)?;
            }
            if self.block_left == 0 || self.at == self.capacity {
                return Ok(i);
            }
            let Some(&tag) = piece.get(i) else { return Ok(i) };
            let extra = extra_bytes(tag);
            let Some(bytes) = piece.get(i + 1..i + 1 + extra) else { return Ok(i) };
            i += 1 + extra;
            self.element(tag, bytes)?;
            // The usual short literal, without the general path's compares.
            if self.literal_left > 0
                && self.literal_left <= 16
                && self.at + 16 <= self.capacity
                && let (Some(from), Some(to)) = (piece.get(i..i + 16), out.get_mut(self.at..self.at + 16))
            {
                to.copy_from_slice(from);
                i += self.literal_left;
                self.produced(self.literal_left);
                self.literal_left = 0;
            }
        }
    }

    #[inline(always)]
    fn produced(&mut self, count: usize) {
        self.at += count;
        self.block_left -= count as u64;
    }

    #[inline(never)]
    fn tag_across(&mut self, input: &mut Input<'_>) -> Result<(), BatchError> {
        let tag = self.compressed_byte(input)?;
        let mut bytes = [0; 4];
        let extra = extra_bytes(tag);
        for byte in bytes.iter_mut().take(extra) {
            *byte = self.compressed_byte(input)?;
        }
        self.element(tag, bytes.get(..extra).unwrap_or_default())
    }

    /// Takes over what an element says: a literal's length, or a copy's length and offset.
    #[inline(always)]
    fn element(&mut self, tag: u8, bytes: &[u8]) -> Result<(), BatchError> {
        let mut value = 0_u32;
        for (i, &byte) in bytes.iter().enumerate() {
            value |= u32::from(byte) << (8 * i);
        }
        let upper = tag >> 2;
        let length = match tag & 3 {
            0 => {
                let length = if upper < 60 { usize::from(upper) + 1 } else { value as usize + 1 };
                self.literal_left = length;
                length
            }
            1 => {
                self.copy_offset = usize::from(tag >> 5) << 8 | value as usize;
                self.copy_left = usize::from(upper & 7) + 4;
                self.copy_left
            }
            _ => {
                self.copy_offset = value as usize;
                self.copy_left = usize::from(upper) + 1;
                self.copy_left
            }
        };
        if length as u64 > self.block_left {
            return Err(corrupt("block is longer than its length says"));
        }
        Ok(())
    }

    /// Carries out the pending copy as far as the buffer has room.
    #[inline(always)]
    fn run_copy(&mut self, out: &mut [u8]) -> Result<(), BatchError> {
        let (at, offset) = (self.at, self.copy_offset);
        if offset == 0 || offset > at {
            return Err(corrupt("copy reaches back too far"));
        }
        let count = self.copy_left.min(self.capacity - at);
        let from = at - offset;
        if offset >= 16 && at + count + SLACK_BYTES <= out.len() {
            let mut done = 0;
            while done < count {
                let mut block = [0; 16];
                block.copy_from_slice(&out[from + done..from + done + 16]);
                out[at + done..at + done + 16].copy_from_slice(&block);
                done += 16;
            }
        } else if offset >= count {
            out.copy_within(from..from + count, at);
        } else if offset == 1 {
            let byte = out[from];
            out[at..at + count].fill(byte);
        } else {
            for i in 0..count {
                out[at + i] = out[from + i];
            }
        }
        self.produced(count);
        self.copy_left -= count;
        Ok(())
    }
}

/// Bytes that follow a tag, before a literal's content.
#[inline(always)]
fn extra_bytes(tag: u8) -> usize {
    match tag & 3 {
        0 => (usize::from(tag >> 2) + 1).saturating_sub(60),
        1 => 1,
        2 => 2,
        _ => 4,
    }
}
