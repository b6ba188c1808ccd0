//! Reads a log's batches back, in order, for the state that is rebuilt from them at start.
//!
//! Memory: one batch, grown as its bytes come, and a decompressor's window. Input is untrusted: the file may be damaged.

use std::io::{self, IoSlice, Read};

use weir_protocol::records::{
    BatchHeader, HEADER_SIZE_BYTES, InflateLimits, RecordCursor, RecordView, Scratch,
};
use weir_storage::{Isolation, Log, StorageError};

/// Bytes asked of a log at once.
const READ_BYTES: u32 = 1 << 20;

/// Why a log or snapshot could not be read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// The log refused.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The file could not be read.
    #[error("cannot read {what}: {error}")]
    Io {
        /// Which file.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// What is stored is not what should be there.
    #[error("{what} at offset {offset}: {reason}")]
    Damaged {
        /// Which file.
        what: String,
        /// Of which batch or record.
        offset: i64,
        /// Why.
        reason: String,
    },
}

/// One batch as it is stored.
pub(crate) struct StoredBatch {
    /// Its header.
    pub(crate) header: BatchHeader,
    body: Vec<u8>,
}

impl StoredBatch {
    /// Calls `each` for the records in order.
    pub(crate) fn for_each_record<E: From<ReplayError>>(
        &self,
        what: &str,
        scratch: &mut Scratch,
        mut each: impl FnMut(&RecordView<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let body = [IoSlice::new(&self.body)];
        let damaged = |reason: String| ReplayError::Damaged {
            what: what.to_string(),
            offset: self.header.base_offset,
            reason,
        };
        let limits = InflateLimits::default();
        let mut cursor = RecordCursor::new(&self.header, &body, i32::MAX as usize, &limits, scratch)
            .map_err(|error| damaged(error.to_string()))?;
        while let Some(record) = cursor.next_record().map_err(|error| damaged(error.to_string()))? {
            each(&record)?;
        }
        Ok(())
    }
}

/// Reads one batch; `None` at the end. A batch that is cut short is damage.
fn read_batch(source: &mut impl Read, what: &str, offset: i64) -> Result<Option<StoredBatch>, ReplayError> {
    let io_error = |error| ReplayError::Io { what: what.to_string(), error };
    let damaged = |reason: String| ReplayError::Damaged { what: what.to_string(), offset, reason };
    let mut head = [0; HEADER_SIZE_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match source.read(&mut head[filled..]).map_err(io_error)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(damaged(format!("{filled} bytes of a batch header at the end"))),
            count => filled += count,
        }
    }
    let header = BatchHeader::parse(&head).map_err(|error| damaged(error.to_string()))?;
    let expected = header.body_size_bytes();
    let mut body = Vec::new();
    let read = source.take(expected as u64).read_to_end(&mut body).map_err(io_error)?;
    if read < expected {
        return Err(damaged(format!("a batch body of {expected} bytes ends after {read}")));
    }
    let crc = weir_protocol::records::crc_of(&header, &[IoSlice::new(&body)]);
    if crc != header.crc {
        return Err(damaged(format!(
            "stored crc {:#010x} differs from the computed {crc:#010x}",
            header.crc
        )));
    }
    Ok(Some(StoredBatch { header, body }))
}

/// Calls `each` for the batches of a file or buffer in snapshot format.
pub(crate) fn for_each_batch_of<E: From<ReplayError>>(
    source: &mut impl Read,
    what: &str,
    mut each: impl FnMut(&StoredBatch) -> Result<(), E>,
) -> Result<(), E> {
    let mut offset = 0;
    while let Some(batch) = read_batch(source, what, offset)? {
        offset = batch.header.next_offset();
        each(&batch)?;
    }
    Ok(())
}

/// Calls `each` for the batches of `log` from the one that holds `from` to its end.
pub(crate) fn for_each_batch<E: From<ReplayError>>(
    log: &Log,
    from: i64,
    mut each: impl FnMut(&StoredBatch) -> Result<(), E>,
) -> Result<(), E> {
    let what = log.topic_partition().to_string();
    let mut offset = from;
    while offset < log.log_end_offset().get() {
        let read = log.read(offset, READ_BYTES, true, Isolation::LogEnd).map_err(ReplayError::Storage)?;
        let Some(range) = read.range else { return Ok(()) };
        let mut source = RangeReader { range: &range, position: 0 };
        let start = offset;
        // The last batch may be cut by the window: it is read again as the first of the next one.
        while range.length - source.position > 0 {
            let before = source.position;
            match read_batch(&mut source, &what, offset) {
                Ok(Some(batch)) => {
                    offset = batch.header.next_offset();
                    each(&batch)?;
                }
                Ok(None) => break,
                Err(_) if source.position == range.length && offset > start => break,
                Err(error) => {
                    tracing::debug!(position = before, "reading {what} back");
                    return Err(error.into());
                }
            }
        }
    }
    Ok(())
}

struct RangeReader<'a> {
    range: &'a weir_storage::FileRange,
    position: u32,
}

impl Read for RangeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.range.read_at(buffer, self.position)?;
        self.position += count as u32;
        Ok(count)
    }
}
