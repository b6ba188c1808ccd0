//! Reads a log's batches back, in order, for the state that is rebuilt from them at start.
//!
//! Memory: one batch, and what its decompression takes; whoever reads says whether there is room before either is taken.
//! Input is untrusted: the file may be damaged, and a length that it claims counts only as far as the file goes.

use std::io::{self, IoSlice, Read};

use weir_protocol::records::{
    BatchHeader, HEADER_SIZE_BYTES, InflateLimits, RecordCursor, RecordView, Scratch, working_memory_bytes,
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

/// What comes next in a file.
enum Next {
    Batch(StoredBatch),
    End,
    /// A batch that the file ends in, and how.
    Cut(String),
}

/// Reads one batch of a source that has `rest` more bytes. `room` hears how many bytes are to be held.
fn read_batch<E: From<ReplayError>>(
    source: &mut impl Read,
    rest: u64,
    what: &str,
    offset: i64,
    room: &mut impl FnMut(u64) -> Result<(), E>,
) -> Result<Next, E> {
    let io_error = |error| ReplayError::Io { what: what.to_string(), error };
    let damaged = |reason: String| ReplayError::Damaged { what: what.to_string(), offset, reason };
    if rest == 0 {
        return Ok(Next::End);
    }
    if rest < HEADER_SIZE_BYTES as u64 {
        return Ok(Next::Cut(format!("{rest} bytes of a batch header at the end")));
    }
    let mut head = [0; HEADER_SIZE_BYTES];
    source.read_exact(&mut head).map_err(io_error)?;
    let header = BatchHeader::parse(&head).map_err(|error| damaged(error.to_string()))?;
    let (size, rest) = (header.body_size_bytes(), rest - HEADER_SIZE_BYTES as u64);
    if size as u64 > rest {
        return Ok(Next::Cut(format!("a batch body of {size} bytes ends after {rest}")));
    }
    room(size as u64)?;
    let mut body = vec![0; size];
    source.read_exact(&mut body).map_err(io_error)?;
    let slices = [IoSlice::new(&body)];
    let crc = weir_protocol::records::crc_of(&header, &slices);
    if crc != header.crc {
        let stored = header.crc;
        return Err(
            damaged(format!("stored crc {stored:#010x} differs from the computed {crc:#010x}")).into()
        );
    }
    let work = working_memory_bytes(&header, &slices, &InflateLimits::default());
    let work = work.map_err(|error| damaged(error.to_string()))?;
    room((size as u64).saturating_add(work as u64))?;
    Ok(Next::Batch(StoredBatch { header, body }))
}

/// Calls `each` for the batches of a file of `size` bytes in snapshot format.
pub(crate) fn for_each_batch_of<E: From<ReplayError>>(
    source: &mut impl Read,
    size: u64,
    what: &str,
    mut each: impl FnMut(&StoredBatch) -> Result<(), E>,
) -> Result<(), E> {
    let (mut offset, mut rest) = (0, size);
    loop {
        match read_batch(source, rest, what, offset, &mut |_| Ok::<(), E>(()))? {
            Next::Batch(batch) => {
                offset = batch.header.next_offset();
                rest = rest.saturating_sub(batch.header.size_bytes() as u64);
                each(&batch)?;
            }
            Next::End => return Ok(()),
            Next::Cut(reason) => {
                return Err(ReplayError::Damaged { what: what.to_string(), offset, reason }.into());
            }
        }
    }
}

/// Calls `each` for the batches of `log` from the one that holds `from` to its end. `room` hears how many bytes are to be
/// held for the next one, before they are.
pub(crate) fn for_each_batch<E: From<ReplayError>>(
    log: &Log,
    from: i64,
    mut room: impl FnMut(u64) -> Result<(), E>,
    mut each: impl FnMut(&StoredBatch) -> Result<(), E>,
) -> Result<(), E> {
    let what = log.topic_partition().to_string();
    let mut offset = from;
    while offset < log.log_end_offset().get() {
        let read = log.read(offset, READ_BYTES, true, Isolation::LogEnd).map_err(ReplayError::Storage)?;
        let Some(range) = read.range else { return Ok(()) };
        let mut source = RangeReader { range: &range, position: 0 };
        let start = offset;
        loop {
            let rest = u64::from(range.length - source.position);
            match read_batch(&mut source, rest, &what, offset, &mut room)? {
                Next::Batch(batch) => {
                    offset = batch.header.next_offset();
                    each(&batch)?;
                }
                Next::End => break,
                // Cut by the window: it is read again as the first of the next one.
                Next::Cut(_) if offset > start => break,
                Next::Cut(reason) => return Err(ReplayError::Damaged { what, offset, reason }.into()),
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

#[cfg(test)]
mod tests {
    use weir_protocol::records::{BatchBuilder, Codec};

    use super::*;

    #[test]
    fn what_is_held_for_a_batch_is_asked_for_before_and_a_promised_length_never() {
        let mut batch = BatchBuilder::new(Codec::Zstd);
        batch.append(1, None, Some(&[b'v'; 100_000]), &[]).unwrap();
        let bytes = batch.build().unwrap();
        let mut asked = Vec::new();
        let read = read_batch(&mut &bytes[..], bytes.len() as u64, "t", 0, &mut |bytes| {
            asked.push(bytes);
            Ok::<(), ReplayError>(())
        });
        assert!(matches!(read, Ok(Next::Batch(_))));
        let body = (bytes.len() - HEADER_SIZE_BYTES) as u64;
        assert!(asked.len() == 2 && asked[0] == body && asked[1] > body + 100_000, "{asked:?}");
        let refused = read_batch(&mut &bytes[..], bytes.len() as u64, "t", 7, &mut |_| {
            Err(ReplayError::Damaged { what: String::new(), offset: 7, reason: String::new() })
        });
        assert!(matches!(refused, Err(ReplayError::Damaged { offset: 7, .. })));
        let mut promise = bytes.clone();
        promise[8..12].copy_from_slice(&10_000_000_i32.to_be_bytes());
        let read = read_batch(&mut &promise[..], promise.len() as u64, "t", 0, &mut |_| {
            panic!("nothing is taken for it") as Result<(), ReplayError>
        });
        assert!(matches!(read, Ok(Next::Cut(_))));
    }
}
