//! RFC 1952: members one after the other, each a header, a deflate stream, CRC-32 and length. Any number of members
//! is read, as Java's `GZIPInputStream` does; bytes behind the last one are an error.

use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest};
use flate2::{Decompress, FlushDecompress, Status};

use super::{Input, WINDOW_BYTES};
use crate::records::scratch::{Scratch, ensure_len};
use crate::records::{BatchError, Codec};

const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const RESERVED_FLAGS: u8 = 0xe0;

enum Phase {
    Header,
    Body,
    Trailer,
}

pub(super) struct Gzip {
    phase: Phase,
    members: u32,
    crc: Digest,
    /// Inflated bytes of the member, modulo 2³² as in its trailer.
    length: u32,
}

fn corrupt(detail: &'static str) -> BatchError {
    BatchError::Decompress { codec: Codec::Gzip, detail }
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self { phase: Phase::Header, members: 0, crc: Digest::new(CrcAlgorithm::Crc32IsoHdlc), length: 0 }
    }

    pub(super) fn step(
        &mut self,
        input: &mut Input<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<Range<usize>>, BatchError> {
        loop {
            match self.phase {
                Phase::Header => {
                    if input.is_empty() && self.members > 0 {
                        return Ok(None);
                    }
                    read_header(input)?;
                    match &mut scratch.gzip {
                        Some(inflate) => inflate.reset(false),
                        none => *none = Some(Decompress::new(false)),
                    }
                    self.members += 1;
                    self.crc.reset();
                    self.length = 0;
                    self.phase = Phase::Body;
                }
                Phase::Body => {
                    ensure_len(&mut scratch.out, WINDOW_BYTES);
                    let Some(inflate) = &mut scratch.gzip else { return Err(corrupt("no state")) };
                    let window = scratch.out.get_mut(..WINDOW_BYTES).unwrap_or_default();
                    let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
                    let status = inflate
                        .decompress(input.current, window, FlushDecompress::None)
                        .map_err(|_| corrupt("deflate stream is damaged"))?;
                    let consumed = (inflate.total_in() - in_before) as usize;
                    let produced = (inflate.total_out() - out_before) as usize;
                    let had_input = !input.is_empty();
                    input.advance(consumed);
                    if status == Status::StreamEnd {
                        self.phase = Phase::Trailer;
                    } else if consumed == 0 && produced == 0 {
                        return Err(corrupt(if had_input { "no progress" } else { "stream is cut short" }));
                    }
                    if produced > 0 {
                        self.crc.update(window.get(..produced).unwrap_or_default());
                        self.length = self.length.wrapping_add(produced as u32);
                        return Ok(Some(0..produced));
                    }
                }
                Phase::Trailer => {
                    let crc = input.array().map(u32::from_le_bytes).ok_or(corrupt("trailer is cut short"))?;
                    let length =
                        input.array().map(u32::from_le_bytes).ok_or(corrupt("trailer is cut short"))?;
                    if crc != self.crc.finalize() as u32 {
                        return Err(corrupt("crc of the inflated bytes differs"));
                    }
                    if length != self.length {
                        return Err(corrupt("length of the inflated bytes differs"));
                    }
                    self.phase = Phase::Header;
                }
            }
        }
    }
}

fn read_header(input: &mut Input<'_>) -> Result<(), BatchError> {
    const SHORT: &str = "header is cut short";
    let fixed: [u8; 10] = input.array().ok_or(corrupt(SHORT))?;
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return Err(corrupt("magic bytes are missing"));
    }
    let flags = fixed[3];
    if flags & RESERVED_FLAGS != 0 {
        return Err(corrupt("reserved flag is set"));
    }
    if flags & FLAG_EXTRA != 0 {
        let length = input.array().map(u16::from_le_bytes).ok_or(corrupt(SHORT))?;
        if !input.skip(usize::from(length)) {
            return Err(corrupt(SHORT));
        }
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            while input.byte().ok_or(corrupt(SHORT))? != 0 {}
        }
    }
    if flags & FLAG_HEADER_CRC != 0 && !input.skip(2) {
        return Err(corrupt(SHORT));
    }
    Ok(())
}
