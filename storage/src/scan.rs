//! Walks the batches of a segment file through a fixed window, header by header or byte by byte with the CRC.
//!
//! The window is the caller's (4 KiB for a lookup, 64 KiB for a recovery): nothing is allocated by a length that the
//! file claims. A batch that cannot be one (wrong magic, impossible length, beyond the end) ends the walk with
//! [`ScanError::Bad`].

use std::io;

use weir_protocol::records::{BatchHeader, Crc32c, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION};

use crate::disk::Disk;
use crate::file_handles::FileHandle;

/// A window that suits a single lookup.
pub(crate) const LOOKUP_WINDOW_BYTES: usize = 4096;
/// A window that suits reading a whole segment.
pub(crate) const SCAN_WINDOW_BYTES: usize = 64 * 1024;
/// Read when the headers lie further apart than the window is long.
const SPARSE_READ_BYTES: usize = 256;
/// The CRC of a batch covers everything from here on.
const CRC_COVERED_FROM: u64 = 21;
/// Sizes of the smallest batches ("message sets") of magic 0 and 1.
const MIN_OLD_MESSAGE_BYTES: i32 = 14;

/// A batch as it lies in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredBatch {
    /// Where it begins.
    pub(crate) position: u64,
    /// Its whole size.
    pub(crate) size_bytes: u64,
    /// Its header. For messages of magic 0 and 1 (from before Kafka 0.11) only offset, timestamp, magic and CRC mean
    /// something; base and last offset are equal.
    pub(crate) header: BatchHeader,
}

impl StoredBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.size_bytes
    }

    pub(crate) fn is_v2(&self) -> bool {
        self.header.magic == 2
    }
}

/// Why a walk ended before its end.
#[derive(Debug)]
pub(crate) enum ScanError {
    /// The file cannot be read.
    Io(io::Error),
    /// No batch can begin at this position.
    Bad { position: u64, reason: String },
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Walks the batches between two positions of a file.
pub(crate) struct Scanner<'a> {
    disk: &'a Disk,
    handle: &'a FileHandle,
    window: &'a mut [u8],
    window_start: u64,
    window_length: usize,
    position: u64,
    end: u64,
    sparse: bool,
}

impl<'a> Scanner<'a> {
    /// From `position` to `end` (exclusive), through `window`, which must hold at least 256 bytes.
    pub(crate) fn new(
        disk: &'a Disk,
        handle: &'a FileHandle,
        window: &'a mut [u8],
        position: u64,
        end: u64,
    ) -> Self {
        debug_assert!(window.len() >= SPARSE_READ_BYTES);
        Self { disk, handle, window, window_start: 0, window_length: 0, position, end, sparse: false }
    }

    /// Where the next batch would begin.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Makes at least one byte at `position` available and returns what the window holds from there on, at most up
    /// to the end of the walk.
    fn bytes_at(&mut self, position: u64, wanted: usize, full_window: bool) -> io::Result<&[u8]> {
        let inside = position >= self.window_start
            && position + wanted as u64 <= self.window_start + self.window_length as u64;
        if !inside {
            let room = usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX);
            let most = if full_window { self.window.len() } else { SPARSE_READ_BYTES.min(self.window.len()) };
            let length = most.min(room);
            let window = self.window.get_mut(..length).unwrap_or_default();
            self.window_length =
                self.disk.read_at(self.handle.file(), self.handle.path(), window, position)?;
            self.window_start = position;
        }
        let from = (position - self.window_start) as usize;
        Ok(self.window.get(from..self.window_length).unwrap_or_default())
    }

    /// The header of the next batch, `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<StoredBatch>, ScanError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let (position, end, sparse) = (self.position, self.end, self.sparse);
        let bad = |reason: String| ScanError::Bad { position, reason };
        let remaining = end - position;
        let bytes = self.bytes_at(position, HEADER_SIZE_BYTES, !sparse)?;
        let bytes = bytes.get(..bytes.len().min(HEADER_SIZE_BYTES)).unwrap_or_default();
        let Some(magic) = bytes.get(MAGIC_POSITION).copied() else {
            return Err(bad(format!("{remaining} bytes are left, fewer than a header takes")));
        };
        let (header, size_bytes) = if magic < 2 {
            parse_old(bytes).ok_or_else(|| bad("a message of magic 0 or 1 is malformed".to_owned()))?
        } else {
            let header = BatchHeader::parse_prefix(bytes)
                .ok_or_else(|| bad(format!("{remaining} bytes are left, fewer than a header takes")))?
                .map_err(|error| bad(error.to_string()))?;
            if header.base_offset < 0 || header.last_offset_delta < 0 {
                return Err(bad(format!(
                    "impossible offsets: base {}, last offset delta {}",
                    header.base_offset, header.last_offset_delta
                )));
            }
            (header, header.size_bytes() as u64)
        };
        if size_bytes > remaining {
            return Err(bad(format!("the batch claims {size_bytes} bytes, {remaining} are left")));
        }
        self.sparse = size_bytes > self.window.len() as u64 / 2;
        self.position = position + size_bytes;
        Ok(Some(StoredBatch { position, size_bytes, header }))
    }

    /// True when the CRC of `batch` is right. Messages of magic 0 and 1 are taken as they are.
    pub(crate) fn crc_is_right(&mut self, batch: &StoredBatch) -> Result<bool, ScanError> {
        if !batch.is_v2() {
            return Ok(true);
        }
        let mut crc = Crc32c::new();
        let mut position = batch.position + CRC_COVERED_FROM;
        while position < batch.end() {
            let left = usize::try_from(batch.end() - position).unwrap_or(usize::MAX);
            let bytes = self.bytes_at(position, 1, true)?;
            if bytes.is_empty() {
                return Err(ScanError::Bad {
                    position: batch.position,
                    reason: "the file ends inside of the batch".to_owned(),
                });
            }
            let bytes = bytes.get(..bytes.len().min(left)).unwrap_or_default();
            crc.update(bytes);
            position += bytes.len() as u64;
        }
        Ok(crc.value() == batch.header.crc)
    }

    /// The first bytes of the body of `batch`, at most `out.len()`.
    pub(crate) fn body_prefix<'b>(&self, batch: &StoredBatch, out: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let length = batch.header.body_size_bytes().min(out.len());
        let out = out.get_mut(..length).unwrap_or_default();
        let from = batch.position + HEADER_SIZE_BYTES as u64;
        let count = self.disk.read_at(self.handle.file(), self.handle.path(), out, from)?;
        Ok(out.get(..count).unwrap_or_default())
    }
}

/// A message of magic 0 or 1: {offset, size, crc, magic, attributes, [timestamp], ...}.
fn parse_old(bytes: &[u8]) -> Option<(BatchHeader, u64)> {
    let base_offset = i64::from_be_bytes(bytes.get(0..8)?.try_into().ok()?);
    let length = i32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
    let crc = u32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?);
    let magic = *bytes.get(MAGIC_POSITION)? as i8;
    if base_offset < 0 || length < MIN_OLD_MESSAGE_BYTES || magic < 0 {
        return None;
    }
    let max_timestamp = if magic == 1 { i64::from_be_bytes(bytes.get(18..26)?.try_into().ok()?) } else { -1 };
    let header = BatchHeader {
        base_offset,
        batch_length: length,
        magic,
        crc,
        last_offset_delta: 0,
        base_timestamp: max_timestamp,
        max_timestamp,
        ..BatchHeader::default()
    };
    Some((header, LOG_OVERHEAD_BYTES as u64 + length as u64))
}
