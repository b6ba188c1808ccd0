//! LZ4 frames as Kafka reads them: version 1, independent blocks, no dictionary, one frame and nothing behind it.
//! Memory is one inflated block, and one compressed block where it lies across slices.

use std::hash::Hasher;
use std::ops::Range;

use twox_hash::XxHash32;

use super::Input;
use crate::records::scratch::{Scratch, ensure_len};
use crate::records::{BatchError, Codec};

/// Largest block size that the format knows.
pub(super) const MAX_BLOCK_BYTES: usize = 4 << 20;
const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const FLAG_DICTIONARY: u8 = 0x01;
const FLAG_CONTENT_CHECKSUM: u8 = 0x04;
const FLAG_CONTENT_SIZE: u8 = 0x08;
const FLAG_BLOCK_CHECKSUM: u8 = 0x10;
const FLAG_INDEPENDENT: u8 = 0x20;
const VERSION_MASK: u8 = 0xc0;
const VERSION_1: u8 = 0x40;
const STORED_BIT: u32 = 1 << 31;
/// No byte of a compressed block stands for more than this many inflated ones.
const MAX_RATIO: usize = 255;

fn corrupt(detail: &'static str) -> BatchError {
    BatchError::Decompress { codec: Codec::Lz4, detail }
}

/// What a body of `body_bytes` takes, of which `input` may be the beginning alone.
pub(super) fn memory_bytes(input: Input<'_>, body_bytes: usize) -> Result<usize, BatchError> {
    let frame = Frame::read(&mut { input })?;
    Ok(max_memory_bytes(body_bytes, frame.block_bytes))
}

pub(super) fn max_memory_bytes(body_bytes: usize, block_bytes: usize) -> usize {
    out_bytes(body_bytes, block_bytes) + source_bytes(body_bytes, block_bytes)
}

/// Room for a block that has `compressed` bytes, rounded up so that slightly larger ones that follow fit too.
fn out_bytes(compressed: usize, block_bytes: usize) -> usize {
    compressed.saturating_mul(MAX_RATIO).clamp(64 << 10, block_bytes)
}

fn source_bytes(compressed: usize, block_bytes: usize) -> usize {
    compressed.next_multiple_of(16 << 10).min(block_bytes)
}

/// A frame's descriptor.
struct Frame {
    block_bytes: usize,
    block_checksum: bool,
    content_checksum: Option<XxHash32>,
    content_size: Option<u64>,
    content_seen: u64,
}

impl Frame {
    fn read(input: &mut Input<'_>) -> Result<Self, BatchError> {
        const SHORT: &str = "frame descriptor is cut short";
        if input.array().ok_or(corrupt(SHORT))? != MAGIC {
            return Err(corrupt("magic bytes are missing"));
        }
        let mut descriptor = [0; 10];
        let [flags, block_descriptor]: [u8; 2] = input.array().ok_or(corrupt(SHORT))?;
        descriptor[0] = flags;
        descriptor[1] = block_descriptor;
        if flags & VERSION_MASK != VERSION_1 {
            return Err(corrupt("frame version is not 1"));
        }
        if flags & FLAG_INDEPENDENT == 0 {
            return Err(corrupt("blocks depend on each other, which Kafka does not support"));
        }
        if flags & (FLAG_DICTIONARY | 0x02) != 0 || block_descriptor & 0x8f != 0 {
            return Err(corrupt("dictionary or reserved bit is set"));
        }
        let block_bytes = match block_descriptor >> 4 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => MAX_BLOCK_BYTES,
            _ => return Err(corrupt("block size is unknown")),
        };
        let mut descriptor_length = 2;
        let mut content_size = None;
        if flags & FLAG_CONTENT_SIZE != 0 {
            let size: [u8; 8] = input.array().ok_or(corrupt(SHORT))?;
            descriptor[2..].copy_from_slice(&size);
            descriptor_length = 10;
            content_size = Some(u64::from_le_bytes(size));
        }
        let checksum = XxHash32::oneshot(0, descriptor.get(..descriptor_length).unwrap_or_default());
        if input.byte().ok_or(corrupt(SHORT))? != (checksum >> 8) as u8 {
            return Err(corrupt("frame descriptor checksum differs"));
        }
        Ok(Self {
            block_bytes,
            block_checksum: flags & FLAG_BLOCK_CHECKSUM != 0,
            content_checksum: (flags & FLAG_CONTENT_CHECKSUM != 0).then(|| XxHash32::with_seed(0)),
            content_size,
            content_seen: 0,
        })
    }
}

pub(super) struct Lz4 {
    frame: Option<Frame>,
    ended: bool,
}

impl Lz4 {
    pub(super) fn new() -> Self {
        Self { frame: None, ended: false }
    }

    pub(super) fn step(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Range<usize>>, BatchError> {
        const SHORT: &str = "block is cut short";
        if self.ended {
            return Ok(None);
        }
        let frame = match &mut self.frame {
            Some(frame) => frame,
            none => none.insert(Frame::read(input)?),
        };
        loop {
            let word = input.array().map(u32::from_le_bytes).ok_or(corrupt("end mark is missing"))?;
            if word == 0 {
                self.ended = true;
                end_frame(frame, input)?;
                return Ok(None);
            }
            let length = (word & !STORED_BIT) as usize;
            if length > frame.block_bytes {
                return Err(corrupt("block is larger than its frame allows"));
            }
            // Nothing is allocated for a block that is not there.
            if input.len() < length {
                return Err(corrupt(SHORT));
            }
            let produced = if word & STORED_BIT != 0 {
                ensure_len(&mut scratch.out, out_bytes(length, frame.block_bytes));
                let out = scratch.out.get_mut(..length).ok_or(corrupt(SHORT))?;
                input.read_exact(out);
                check_block(frame, input, scratch.out.get(..length).unwrap_or_default())?;
                length
            } else {
                ensure_len(&mut scratch.out, out_bytes(length, frame.block_bytes));
                let room = frame.block_bytes.min(scratch.out.len());
                let out = scratch.out.get_mut(..room).unwrap_or_default();
                let source = if let Some(source) = input.current.get(..length) {
                    input.advance(length);
                    source
                } else {
                    ensure_len(&mut scratch.source, source_bytes(length, frame.block_bytes));
                    let source = scratch.source.get_mut(..length).ok_or(corrupt(SHORT))?;
                    input.read_exact(source);
                    &*source
                };
                let produced = lz4_flex::block::decompress_into(source, out)
                    .map_err(|_| corrupt("block is damaged or larger than its frame allows"))?;
                check_block(frame, input, source)?;
                produced
            };
            frame.content_seen += produced as u64;
            if let Some(hash) = &mut frame.content_checksum {
                hash.write(scratch.out.get(..produced).unwrap_or_default());
            }
            if produced > 0 {
                return Ok(Some(0..produced));
            }
        }
    }
}

fn check_block(frame: &Frame, input: &mut Input<'_>, block: &[u8]) -> Result<(), BatchError> {
    if frame.block_checksum {
        let stored = input.array().map(u32::from_le_bytes).ok_or(corrupt("block checksum is cut short"))?;
        if stored != XxHash32::oneshot(0, block) {
            return Err(corrupt("block checksum differs"));
        }
    }
    Ok(())
}

fn end_frame(frame: &Frame, input: &mut Input<'_>) -> Result<(), BatchError> {
    if let Some(hash) = &frame.content_checksum {
        let stored = input.array().map(u32::from_le_bytes).ok_or(corrupt("content checksum is cut short"))?;
        if stored != hash.finish_32() {
            return Err(corrupt("content checksum differs"));
        }
    }
    if frame.content_size.is_some_and(|size| size != frame.content_seen) {
        return Err(corrupt("content size differs"));
    }
    if !input.is_empty() {
        return Err(corrupt("bytes follow the frame"));
    }
    Ok(())
}
