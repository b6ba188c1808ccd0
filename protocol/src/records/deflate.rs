//! The writing side of the codecs: record bytes in, compressed pieces out to a sink, in bounded memory.
//!
//! The same pieces give the same output; of snappy and lz4 it depends on the bytes alone and not on their split.
//! Formats are those of Kafka's own clients: gzip with a plain header, xerial snappy in 32 KiB blocks, LZ4 frames of independent 64 KiB blocks without
//! checksums, zstd frames with a window of at most 1 MiB.

use crc_fast::{CrcAlgorithm, Digest};
use flate2::{Compress, FlushCompress, Status};
use lz4_flex::block::CompressTable;
use twox_hash::XxHash32;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, get_error_name, zstd_sys::ZSTD_EndDirective};

use super::{BatchError, Codec, Compression};

/// Zstd levels up to this have small tables of their own accord.
const SMALL_ZSTD_LEVEL: i32 = 3;
/// Entries of the search tables above that level, as an exponent; 4 bytes each. The library's own would take up to
/// 640 MiB at level 22.
const ZSTD_TABLE_LOG: u32 = 18;
/// Window of the zstd frames that we write, as an exponent: batches are rarely larger.
const ZSTD_WINDOW_LOG: u32 = 20;
const DEFAULT_ZSTD_LEVEL: i32 = 3;
const DEFAULT_GZIP_LEVEL: u32 = 6;
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0];
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;
const SNAPPY_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const LZ4_BLOCK_BYTES: usize = 64 << 10;
const LZ4_FRAME: [u8; 6] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40];
const OUT_BYTES: usize = 32 << 10;

/// Upper bound in bytes of what a compressor holds while it works.
#[must_use]
pub fn compressor_memory_bytes(compression: Compression) -> usize {
    match compression.codec {
        Codec::None => 0,
        Codec::Gzip => 512 << 10,
        Codec::Snappy => 160 << 10,
        Codec::Lz4 => 256 << 10,
        Codec::Zstd if compression.level.unwrap_or(DEFAULT_ZSTD_LEVEL) <= SMALL_ZSTD_LEVEL => 3 << 20,
        Codec::Zstd => 5 << 20,
    }
}

type SinkResult<E> = Result<(), E>;

pub(super) enum Compressor {
    None,
    Gzip { deflate: Compress, out: Vec<u8>, crc: Box<Digest>, length: u32, started: bool },
    Snappy { encoder: Box<snap::raw::Encoder>, block: Vec<u8>, out: Vec<u8>, started: bool },
    Lz4 { table: Box<CompressTable>, block: Vec<u8>, out: Vec<u8>, started: bool },
    Zstd { context: CCtx<'static>, out: Vec<u8> },
}

fn failed(codec: Codec, detail: &'static str) -> BatchError {
    BatchError::Compress { codec, detail }
}

impl Compressor {
    pub(super) fn new(compression: Compression) -> Result<Self, BatchError> {
        Ok(match compression.codec {
            Codec::None => Self::None,
            Codec::Gzip => {
                let level = compression
                    .level
                    .and_then(|level| u32::try_from(level).ok())
                    .unwrap_or(DEFAULT_GZIP_LEVEL);
                Self::Gzip {
                    deflate: Compress::new(flate2::Compression::new(level.min(9)), false),
                    out: vec![0; OUT_BYTES],
                    crc: Box::new(Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
                    length: 0,
                    started: false,
                }
            }
            Codec::Snappy => Self::Snappy {
                encoder: Box::new(snap::raw::Encoder::new()),
                block: Vec::with_capacity(SNAPPY_BLOCK_BYTES),
                out: vec![0; snap::raw::max_compress_len(SNAPPY_BLOCK_BYTES)],
                started: false,
            },
            Codec::Lz4 => Self::Lz4 {
                table: Box::new(CompressTable::large()),
                block: Vec::with_capacity(LZ4_BLOCK_BYTES),
                out: vec![0; lz4_flex::block::get_maximum_output_size(LZ4_BLOCK_BYTES)],
                started: false,
            },
            Codec::Zstd => {
                let error = |code| failed(Codec::Zstd, get_error_name(code));
                let mut context = CCtx::try_create().ok_or(failed(Codec::Zstd, "no memory for a context"))?;
                let level = compression.level.unwrap_or(DEFAULT_ZSTD_LEVEL);
                context.set_parameter(CParameter::CompressionLevel(level)).map_err(error)?;
                context.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG)).map_err(error)?;
                if level > SMALL_ZSTD_LEVEL {
                    context.set_parameter(CParameter::HashLog(ZSTD_TABLE_LOG)).map_err(error)?;
                    context.set_parameter(CParameter::ChainLog(ZSTD_TABLE_LOG)).map_err(error)?;
                }
                Self::Zstd { context, out: vec![0; OUT_BYTES] }
            }
        })
    }

    /// Compresses the next record bytes.
    pub(super) fn write<E: From<BatchError>>(
        &mut self,
        mut bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
    ) -> SinkResult<E> {
        match self {
            Self::None => sink(bytes),
            Self::Gzip { deflate, out, crc, length, started } => {
                if !std::mem::replace(started, true) {
                    sink(&GZIP_HEADER)?;
                }
                crc.update(bytes);
                *length = length.wrapping_add(bytes.len() as u32);
                while !bytes.is_empty() {
                    let (consumed, _) = deflate_some(deflate, bytes, out, FlushCompress::None, sink)?;
                    bytes = bytes.get(consumed..).unwrap_or_default();
                }
                Ok(())
            }
            Self::Snappy { encoder, block, out, started } => {
                in_blocks(block, SNAPPY_BLOCK_BYTES, bytes, |block| {
                    snappy_block(encoder, block, out, started, sink)
                })
            }
            Self::Lz4 { table, block, out, started } => {
                in_blocks(block, LZ4_BLOCK_BYTES, bytes, |block| lz4_block(table, block, out, started, sink))
            }
            Self::Zstd { context, out } => {
                let mut from = InBuffer::around(bytes);
                while from.pos() < bytes.len() {
                    zstd_some(context, &mut from, out, ZSTD_EndDirective::ZSTD_e_continue, sink)?;
                }
                Ok(())
            }
        }
    }

    /// Ends the stream.
    pub(super) fn finish<E: From<BatchError>>(
        mut self,
        sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
    ) -> SinkResult<E> {
        match &mut self {
            Self::None => Ok(()),
            Self::Gzip { deflate, out, crc, length, started } => {
                if !*started {
                    sink(&GZIP_HEADER)?;
                }
                while deflate_some(deflate, &[], out, FlushCompress::Finish, sink)?.1 != Status::StreamEnd {}
                sink(&(crc.finalize() as u32).to_le_bytes())?;
                sink(&length.to_le_bytes())
            }
            Self::Snappy { encoder, block, out, started } => {
                if block.is_empty() {
                    return if *started { Ok(()) } else { sink(&SNAPPY_HEADER) };
                }
                snappy_block(encoder, block, out, started, sink)
            }
            Self::Lz4 { table, block, out, started } => {
                if !block.is_empty() {
                    lz4_block(table, block, out, started, sink)?;
                } else if !*started {
                    lz4_frame(sink)?;
                }
                sink(&[0; 4])
            }
            Self::Zstd { context, out } => {
                let mut from = InBuffer::around(&[]);
                while zstd_some(context, &mut from, out, ZSTD_EndDirective::ZSTD_e_end, sink)? != 0 {}
                Ok(())
            }
        }
    }
}

/// Cuts the input into blocks of a fixed size wherever its pieces end, so that the output does not depend on them.
fn in_blocks<E>(
    block: &mut Vec<u8>,
    block_bytes: usize,
    mut bytes: &[u8],
    mut full: impl FnMut(&[u8]) -> SinkResult<E>,
) -> SinkResult<E> {
    while !bytes.is_empty() {
        let (head, tail) = bytes.split_at(bytes.len().min(block_bytes - block.len()));
        bytes = tail;
        if head.len() == block_bytes {
            full(head)?;
            continue;
        }
        block.extend_from_slice(head);
        if block.len() == block_bytes {
            full(block)?;
            block.clear();
        }
    }
    Ok(())
}

fn deflate_some<E: From<BatchError>>(
    deflate: &mut Compress,
    bytes: &[u8],
    out: &mut [u8],
    flush: FlushCompress,
    sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
) -> Result<(usize, Status), E> {
    let (in_before, out_before) = (deflate.total_in(), deflate.total_out());
    let status = deflate.compress(bytes, out, flush).map_err(|_| failed(Codec::Gzip, "deflate failed"))?;
    let consumed = (deflate.total_in() - in_before) as usize;
    let produced = (deflate.total_out() - out_before) as usize;
    if consumed == 0 && produced == 0 && status != Status::StreamEnd {
        return Err(failed(Codec::Gzip, "deflate makes no progress").into());
    }
    if produced > 0 {
        sink(out.get(..produced).unwrap_or_default())?;
    }
    Ok((consumed, status))
}

fn snappy_block<E: From<BatchError>>(
    encoder: &mut snap::raw::Encoder,
    block: &[u8],
    out: &mut [u8],
    started: &mut bool,
    sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
) -> SinkResult<E> {
    if !std::mem::replace(started, true) {
        sink(&SNAPPY_HEADER)?;
    }
    let length =
        encoder.compress(block, out).map_err(|_| failed(Codec::Snappy, "block does not fit its bound"))?;
    sink(&(length as u32).to_be_bytes())?;
    sink(out.get(..length).unwrap_or_default())
}

fn lz4_frame<E>(sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>) -> SinkResult<E> {
    sink(&LZ4_FRAME)?;
    sink(&[(XxHash32::oneshot(0, &LZ4_FRAME[4..]) >> 8) as u8])
}

fn lz4_block<E: From<BatchError>>(
    table: &mut CompressTable,
    block: &[u8],
    out: &mut [u8],
    started: &mut bool,
    sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
) -> SinkResult<E> {
    if !std::mem::replace(started, true) {
        lz4_frame(sink)?;
    }
    let length = lz4_flex::block::compress_into_with_table(block, out, table)
        .map_err(|_| failed(Codec::Lz4, "block does not fit its bound"))?;
    if length < block.len() {
        sink(&(length as u32).to_le_bytes())?;
        sink(out.get(..length).unwrap_or_default())
    } else {
        sink(&(block.len() as u32 | 1 << 31).to_le_bytes())?;
        sink(block)
    }
}

fn zstd_some<E: From<BatchError>>(
    context: &mut CCtx<'_>,
    from: &mut InBuffer<'_>,
    out: &mut [u8],
    end: ZSTD_EndDirective,
    sink: &mut dyn FnMut(&[u8]) -> SinkResult<E>,
) -> Result<usize, E> {
    let mut to = OutBuffer::around(out);
    let left = context
        .compress_stream2(&mut to, from, end)
        .map_err(|code| failed(Codec::Zstd, get_error_name(code)))?;
    let produced = to.pos();
    if produced > 0 {
        sink(out.get(..produced).unwrap_or_default())?;
    }
    Ok(left)
}
