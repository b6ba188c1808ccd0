//! From one codec to another (`compression.type` other than `producer`), or to other offset deltas, streamed: neither body
//! is held as a whole.

use std::io::IoSlice;

use super::crc::Crc32c;
use super::deflate::Compressor;
use super::header::{BatchHeader, MAX_BATCH_LENGTH, MIN_BATCH_LENGTH};
use super::inflate::Source;
use super::renumber::Renumber;
use super::scratch::Scratch;
use super::{BatchError, Codec, Compression, InflateLimits};

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrite {
    /// The codec that it is written in.
    pub to: Compression,
    /// Whether the records get the offset deltas 0, 1, 2…: for a batch of which
    /// [`BatchSummary::offset_deltas_differ`](super::BatchSummary::offset_deltas_differ).
    pub renumbers: bool,
}

impl<C: Into<Compression>> From<C> for Rewrite {
    /// Another codec, the records as they are.
    fn from(to: C) -> Self {
        Self { to: to.into(), renumbers: false }
    }
}

/// Writes the body of a batch to `sink` in another codec and returns the header that belongs in front of it.
///
/// The batch must have been validated: but for the numbers that [`Rewrite::renumbers`] sets, record bytes go through as
/// they are, so offsets, timestamps, keys, values and headers are the same. Base offset, leader epoch, timestamps and producer fields are taken from `header`; change
/// them (except for base offset and leader epoch) before, because the CRC is computed here. The size of the output is
/// not known before; a sink that runs out of leased memory or passes `max.message.bytes` returns an error, which ends
/// the work. Memory: [`working_memory_bytes`](super::working_memory_bytes) of the input plus
/// [`compressor_memory_bytes`](super::compressor_memory_bytes) of the output.
///
/// # Errors
/// The sink's, or damage in the input, or a batch beyond 2 GiB.
pub fn recompress<E: From<BatchError>>(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    rewrite: Rewrite,
    limits: &InflateLimits,
    scratch: &mut Scratch,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<BatchHeader, E> {
    let Rewrite { to, renumbers } = rewrite;
    let mut out = *header;
    // A batch without records has no body to compress.
    let to = if header.record_count == 0 { Compression::from(Codec::None) } else { to };
    out.set_compression(to.codec);
    let mut crc = Crc32c::new();
    crc.update(&out.crc_covered_bytes());
    let mut length = MIN_BATCH_LENGTH as u64;
    let mut counted = |bytes: &[u8]| -> Result<(), E> {
        length += bytes.len() as u64;
        if length > MAX_BATCH_LENGTH as u64 {
            return Err(BatchError::BatchTooLarge { limit: MAX_BATCH_LENGTH as u64 }.into());
        }
        crc.update(bytes);
        sink(bytes)
    };
    let mut source = Source::new(header.body_codec()?, body, limits, scratch)?;
    let mut compressor = Compressor::new(to)?;
    let mut renumber = renumbers.then(Renumber::default);
    loop {
        let piece = source.fill()?;
        let count = piece.len();
        if count == 0 {
            break;
        }
        match &mut renumber {
            None => compressor.write(piece, &mut counted)?,
            Some(renumber) => {
                renumber.feed(piece, &mut |bytes: &[u8]| compressor.write(bytes, &mut counted))?;
            }
        }
        source.consume(count);
    }
    if let Some(renumber) = renumber.filter(|renumber| !renumber.is_between_records()) {
        return Err(renumber.fault().into());
    }
    compressor.finish(&mut counted)?;
    out.batch_length = length as i32;
    out.crc = crc.value();
    Ok(out)
}
