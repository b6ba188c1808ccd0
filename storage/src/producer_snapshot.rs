//! `<offset>.snapshot`: the producers of a log as of an offset, with a CRC over all of it.
//!
//! Version 1: {i16 version, u32 crc, i32 count, entries}. The CRC-32C covers everything behind itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use weir_protocol::records::Crc32c;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};

/// The suffix of the file's name.
pub const SNAPSHOT_SUFFIX: &str = ".snapshot";

const VERSION: i16 = 1;
/// Bytes before the entries: {i16 version, u32 crc, i32 count}.
pub const SNAPSHOT_HEADER_BYTES: usize = 10;
/// The CRC-32C covers everything from here on.
pub const SNAPSHOT_CRC_START: usize = 6;
/// Bytes of an entry.
pub const SNAPSHOT_ENTRY_BYTES: usize = 46;

const HEADER_BYTES: usize = SNAPSHOT_HEADER_BYTES;
const CRC_START: usize = SNAPSHOT_CRC_START;
const ENTRY_BYTES: usize = SNAPSHOT_ENTRY_BYTES;
/// The largest file that is read: a million producers.
const LIMIT_BYTES: u64 = (HEADER_BYTES + ENTRY_BYTES * 1_000_000) as u64;

/// One producer in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence of its last record, -1 for none.
    pub last_sequence: i32,
    /// Offset of its last record, -1 for none.
    pub last_offset: i64,
    /// Last minus first offset of its last batch.
    pub offset_delta: i32,
    /// Timestamp of its last batch or marker.
    pub timestamp: i64,
    /// Epoch of its transaction coordinator, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, -1 for none.
    pub current_txn_first_offset: i64,
}

/// The path of the snapshot as of `offset` in the partition directory `dir`.
pub(crate) fn path(dir: &Path, offset: i64) -> PathBuf {
    dir.join(format!("{offset:020}{SNAPSHOT_SUFFIX}"))
}

/// Reads a snapshot. Input is untrusted.
///
/// # Errors
/// [`StorageError::CorruptFile`]: another version, a wrong CRC, a count that does not match the length.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Vec<SnapshotEntry>, StorageError> {
    let fail = |reason: String| StorageError::corrupt(path, reason);
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(fail(format!("it has {} bytes, a snapshot has at least {HEADER_BYTES}", bytes.len())));
    };
    let [v0, v1, c0, c1, c2, c3, n0, n1, n2, n3] = *header;
    let version = i16::from_be_bytes([v0, v1]);
    if version != VERSION {
        return Err(fail(format!("unknown version {version}")));
    }
    let stored = u32::from_be_bytes([c0, c1, c2, c3]);
    let computed = Crc32c::of(bytes.get(CRC_START..).unwrap_or_default());
    if stored != computed {
        return Err(fail(format!("its CRC is {computed:08x}, it claims {stored:08x}")));
    }
    let count = i32::from_be_bytes([n0, n1, n2, n3]);
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY_BYTES)) != Some(body.len()) {
        return Err(fail(format!("{count} entries do not take {} bytes", body.len())));
    }
    Ok(body.chunks_exact(ENTRY_BYTES).filter_map(|entry| entry.first_chunk().map(decode)).collect())
}

/// Reads one entry. Input is untrusted: any bytes are an entry.
pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> SnapshotEntry {
    fn at<const N: usize>(bytes: &[u8; ENTRY_BYTES], position: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&bytes[position..position + N]);
        out
    }
    SnapshotEntry {
        producer_id: i64::from_be_bytes(at(bytes, 0)),
        producer_epoch: i16::from_be_bytes(at(bytes, 8)),
        last_sequence: i32::from_be_bytes(at(bytes, 10)),
        last_offset: i64::from_be_bytes(at(bytes, 14)),
        offset_delta: i32::from_be_bytes(at(bytes, 22)),
        timestamp: i64::from_be_bytes(at(bytes, 26)),
        coordinator_epoch: i32::from_be_bytes(at(bytes, 34)),
        current_txn_first_offset: i64::from_be_bytes(at(bytes, 38)),
    }
}

/// The bytes of a snapshot.
pub fn format(entries: &[SnapshotEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend((entries.len() as i32).to_be_bytes());
    for entry in entries {
        bytes.extend(entry.producer_id.to_be_bytes());
        bytes.extend(entry.producer_epoch.to_be_bytes());
        bytes.extend(entry.last_sequence.to_be_bytes());
        bytes.extend(entry.last_offset.to_be_bytes());
        bytes.extend(entry.offset_delta.to_be_bytes());
        bytes.extend(entry.timestamp.to_be_bytes());
        bytes.extend(entry.coordinator_epoch.to_be_bytes());
        bytes.extend(entry.current_txn_first_offset.to_be_bytes());
    }
    let crc = Crc32c::of(&bytes[CRC_START..]);
    bytes[2..CRC_START].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// Reads the snapshot as of `offset`.
///
/// # Errors
/// [`StorageError::CorruptFile`], also when it is not there; [`StorageError::Io`].
pub(crate) fn read(disk: &Disk, dir: &Path, offset: i64) -> Result<Vec<SnapshotEntry>, StorageError> {
    let path = path(dir, offset);
    match disk.read_small(&path, LIMIT_BYTES) {
        Ok(Some(bytes)) => parse(&bytes, &path),
        Ok(None) => Err(StorageError::corrupt(&path, "it is missing")),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            Err(StorageError::corrupt(&path, format!("it is larger than {LIMIT_BYTES} bytes")))
        }
        Err(error) => Err(error).context("read", &path),
    }
}

/// Writes the snapshot as of `offset`. Not synced: its CRC tells a torn one, and an earlier one or the log itself
/// replaces it then.
pub(crate) fn write(
    disk: &Disk,
    dir: &Path,
    offset: i64,
    entries: &[SnapshotEntry],
) -> Result<(), StorageError> {
    let path = path(dir, offset);
    disk.replace(&path, &format(entries), false).context("write", &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_as_written_and_any_flipped_bit_is_noticed() {
        let entries: Vec<SnapshotEntry> = (0..3)
            .map(|n| SnapshotEntry {
                producer_id: n,
                producer_epoch: n as i16,
                last_sequence: 10 + n as i32,
                last_offset: 100 * n,
                offset_delta: 4,
                timestamp: 1_700_000_000_000 + n,
                coordinator_epoch: -1,
                current_txn_first_offset: -1,
            })
            .collect();
        let bytes = format(&entries);
        assert_eq!(parse(&bytes, Path::new("x")).unwrap(), entries);
        for bit in 0..bytes.len() * 8 {
            let mut garbled = bytes.clone();
            garbled[bit / 8] ^= 1 << (bit % 8);
            parse(&garbled, Path::new("x")).unwrap_err();
        }
        for length in 0..bytes.len() {
            parse(&bytes[..length], Path::new("x")).unwrap_err();
        }
    }

    #[test]
    fn a_huge_count_allocates_nothing_and_is_an_error() {
        let mut bytes = format(&[]);
        bytes[6..10].copy_from_slice(&i32::MAX.to_be_bytes());
        let crc = Crc32c::of(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        assert!(parse(&bytes, Path::new("x")).unwrap_err().to_string().contains("2147483647 entries"));
    }
}
