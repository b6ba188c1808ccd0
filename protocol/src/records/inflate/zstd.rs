//! Zstandard frames (RFC 8878), streamed by the reference library. Its memory is the window that the first frame
//! names, which is checked against the limit before the library sees it; later frames must make do with the same.

use std::ops::Range;

use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::{Input, WINDOW_BYTES};
use crate::records::scratch::{Scratch, ensure_len};
use crate::records::{BatchError, Codec, InflateLimits};

/// Upper bound of a decompression context without its buffers (zstd 1.5: 95 KiB).
const CONTEXT_BYTES: usize = 160 << 10;
/// Largest block of any frame.
const MAX_BLOCK_BYTES: usize = 128 << 10;
/// Slack that the library adds to its buffers.
const SLACK_BYTES: usize = 1 << 10;
const MIN_WINDOW_LOG: u32 = 10;
/// The library's own limit on 32-bit and 64-bit machines alike, and zstd-jni's.
const MAX_WINDOW_LOG: u32 = 27;
const FRAME_MAGIC: u32 = 0xfd2f_b528;
const MAX_FRAME_HEADER_BYTES: usize = 14;

fn corrupt(detail: &'static str) -> BatchError {
    BatchError::Decompress { codec: Codec::Zstd, detail }
}

fn limit_log(limits: &InflateLimits) -> u32 {
    limits.max_zstd_window_log.clamp(MIN_WINDOW_LOG, MAX_WINDOW_LOG)
}

/// What the library allocates for a window: the window, two blocks beside it, one block of input.
fn memory_of(window_log: u32) -> usize {
    CONTEXT_BYTES + (1 << window_log) + 3 * MAX_BLOCK_BYTES + SLACK_BYTES + WINDOW_BYTES
}

pub(super) fn memory_bytes(input: Input<'_>, limits: &InflateLimits) -> Result<usize, BatchError> {
    Ok(memory_of(window_log(input, limits)?))
}

pub(super) fn max_memory_bytes(limits: &InflateLimits) -> usize {
    memory_of(limit_log(limits))
}

/// The exponent of the smallest power of two that holds the first frame's window. A skippable frame says nothing, so
/// all that is allowed must be assumed.
fn window_log(input: Input<'_>, limits: &InflateLimits) -> Result<u32, BatchError> {
    let limit = limit_log(limits);
    let (bytes, length) = input.peek::<MAX_FRAME_HEADER_BYTES>();
    let Some(window) = window_bytes(bytes.get(..length).unwrap_or_default()) else { return Ok(limit) };
    if window > 1 << limit {
        return Err(BatchError::DecompressMemory {
            codec: Codec::Zstd,
            what: "window",
            needed: window,
            limit: 1 << limit,
        });
    }
    Ok(window.max(1 << MIN_WINDOW_LOG).next_power_of_two().trailing_zeros())
}

/// The window size in a frame header; `None` if these are not the first bytes of a frame.
fn window_bytes(bytes: &[u8]) -> Option<u64> {
    let (magic, rest) = bytes.split_first_chunk()?;
    if u32::from_le_bytes(*magic) != FRAME_MAGIC {
        return None;
    }
    let (&descriptor, rest) = rest.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    if !single_segment {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + (base >> 3) * u64::from(window & 7));
    }
    let dictionary_id_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary_id_bytes..)?;
    match descriptor >> 6 {
        0 => size.first().map(|&b| u64::from(b)),
        1 => size.first_chunk().map(|b| u64::from(u16::from_le_bytes(*b)) + 256),
        2 => size.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))),
        _ => size.first_chunk().map(|b| u64::from_le_bytes(*b)),
    }
}

pub(super) struct Zstd {
    /// Whether the input may end here.
    frame_done: bool,
}

impl Zstd {
    pub(super) fn new(
        input: Input<'_>,
        limits: &InflateLimits,
        scratch: &mut Scratch,
    ) -> Result<Self, BatchError> {
        let log = window_log(input, limits)?;
        let context = match &mut scratch.zstd {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(corrupt("no memory for a context"))?),
        };
        context.reset(ResetDirective::SessionOnly).map_err(|code| corrupt(get_error_name(code)))?;
        context.set_parameter(DParameter::WindowLogMax(log)).map_err(|code| corrupt(get_error_name(code)))?;
        Ok(Self { frame_done: false })
    }

    pub(super) fn step(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Range<usize>>, BatchError> {
        ensure_len(&mut scratch.out, WINDOW_BYTES);
        let Some(context) = &mut scratch.zstd else { return Err(corrupt("no context")) };
        loop {
            if self.frame_done && input.is_empty() {
                return Ok(None);
            }
            let window = scratch.out.get_mut(..WINDOW_BYTES).unwrap_or_default();
            let mut from = InBuffer::around(input.current);
            let mut to = OutBuffer::around(window);
            let hint = context
                .decompress_stream(&mut to, &mut from)
                .map_err(|code| corrupt(get_error_name(code)))?;
            let (consumed, produced) = (from.pos(), to.pos());
            let had_input = !input.is_empty();
            input.advance(consumed);
            self.frame_done = hint == 0;
            if produced > 0 {
                return Ok(Some(0..produced));
            }
            if consumed == 0 && !self.frame_done {
                return Err(corrupt(if had_input { "no progress" } else { "stream is cut short" }));
            }
        }
    }
}
