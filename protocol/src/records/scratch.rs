//! Decompressor state that is used again from batch to batch, and the bound on what it keeps.

use flate2::Decompress;
use zstd::zstd_safe::DCtx;

use super::inflate;

/// Reusable memory of one thread (or one lease) for reading compressed batches.
///
/// Between two uses it holds at most the `retain_bytes` that it was made with: what is more is freed when a use ends.
/// During a use it holds at most `retain_bytes` + [`working_memory_bytes`](super::working_memory_bytes). Reading
/// uncompressed batches allocates nothing, except for a record that a [`RecordCursor`](super::RecordCursor) has to
/// assemble from several slices.
#[derive(Default)]
pub struct Scratch {
    retain_bytes: usize,
    /// Inflated bytes: a fixed window (gzip, zstd), a block (lz4) or the history (snappy).
    pub(super) out: Vec<u8>,
    /// A compressed block that lies across slices (lz4).
    pub(super) source: Vec<u8>,
    /// A record that lies across inflated windows or slices.
    pub(super) record: Vec<u8>,
    pub(super) zstd: Option<DCtx<'static>>,
    pub(super) gzip: Option<Decompress>,
}

impl Scratch {
    /// A retention that keeps the state of zstd at level 3 (2 MiB window) and of all other codecs' usual blocks.
    pub const USUAL_RETAIN_BYTES: usize = 3 << 20;

    /// Empty; allocates nothing yet. With `retain_bytes` of 0 nothing is kept between uses.
    #[must_use]
    pub fn new(retain_bytes: usize) -> Self {
        Self { retain_bytes, ..Self::default() }
    }

    /// Bytes held now.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.out.capacity()
            + self.source.capacity()
            + self.record.capacity()
            + self.zstd.as_ref().map_or(0, DCtx::sizeof)
            + self.gzip.as_ref().map_or(0, |_| inflate::GZIP_STATE_BYTES)
    }

    /// Frees everything if more than the retention is held.
    pub(super) fn settle(&mut self) {
        if self.held_bytes() > self.retain_bytes {
            *self = Self::new(self.retain_bytes);
        }
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch")
            .field("retain_bytes", &self.retain_bytes)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

/// Makes `buffer` at least `len` bytes long. Its content is lost if it has to grow: the old block is freed before the
/// new one is taken, so the peak is the larger of the two and not their sum.
pub(super) fn ensure_len(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() < len {
        *buffer = Vec::new();
        *buffer = vec![0; len];
    }
}
