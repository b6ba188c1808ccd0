//! `.txnindex`: the aborted transactions of a segment, in the order of their markers. No file, no aborted
//! transaction: as for Kafka, one that was lost counts as empty, since hardly any segment has one. Only who reads the
//! markers can tell, a recovery or the scrub, and builds it anew.
//!
//! An entry is {i16 version 0, i64 producer id, i64 first offset, i64 last offset, i64 last stable offset}.

use std::path::Path;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::index_file::Place;

/// The suffix of the file's name.
pub const TXN_INDEX_SUFFIX: &str = ".txnindex";
/// Bytes of an entry.
pub const TXN_ENTRY_BYTES: usize = 34;

/// Most aborted transactions of one segment that are read into memory.
const MAX_ENTRIES: usize = 1_000_000;
const VERSION: i16 = 0;

/// One aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// Whose.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: i64,
    /// The offset of its marker.
    pub last_offset: i64,
    /// The last stable offset after its marker.
    pub last_stable_offset: i64,
}

impl AbortedTxn {
    /// The bytes of an entry.
    pub fn encode(&self) -> [u8; TXN_ENTRY_BYTES] {
        let mut bytes = [0; TXN_ENTRY_BYTES];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.producer_id.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first_offset.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last_offset.to_be_bytes());
        bytes[26..34].copy_from_slice(&self.last_stable_offset.to_be_bytes());
        bytes
    }

    /// Reads an entry. Input is untrusted; `None` for another version.
    pub fn decode(bytes: &[u8; TXN_ENTRY_BYTES]) -> Option<Self> {
        fn long(bytes: &[u8; TXN_ENTRY_BYTES], position: usize) -> i64 {
            let mut out = [0; 8];
            out.copy_from_slice(&bytes[position..position + 8]);
            i64::from_be_bytes(out)
        }
        (bytes.first_chunk() == Some(&VERSION.to_be_bytes())).then(|| Self {
            producer_id: long(bytes, 2),
            first_offset: long(bytes, 10),
            last_offset: long(bytes, 18),
            last_stable_offset: long(bytes, 26),
        })
    }
}

/// Reads a whole index. Input is untrusted.
///
/// # Errors
/// [`StorageError::CorruptFile`]: a part of an entry, an unknown version, offsets that do not grow or lie below
/// `base_offset`.
pub fn parse(bytes: &[u8], base_offset: i64, path: &Path) -> Result<Vec<AbortedTxn>, StorageError> {
    let (chunks, rest) = bytes.as_chunks::<TXN_ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(StorageError::corrupt(
            path,
            format!("{} bytes are no multiple of {TXN_ENTRY_BYTES}", bytes.len()),
        ));
    }
    let mut entries: Vec<AbortedTxn> = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let entry = AbortedTxn::decode(chunk)
            .ok_or_else(|| StorageError::corrupt(path, format!("entry {index} has an unknown version")))?;
        let floor = entries.last().map_or(base_offset - 1, |last| last.last_offset);
        if entry.last_offset <= floor || entry.first_offset > entry.last_offset || entry.producer_id < 0 {
            return Err(StorageError::corrupt(
                path,
                format!(
                    "entry {index} (first offset {}, last {}) is impossible",
                    entry.first_offset, entry.last_offset
                ),
            ));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Calls `each` for the entries of a segment, in order and through a small window, until it returns false.
///
/// # Errors
/// As [`parse`], once the damage is reached; [`StorageError::Io`].
pub(crate) fn scan(place: Place<'_>, mut each: impl FnMut(&AbortedTxn) -> bool) -> Result<(), StorageError> {
    const WINDOW_ENTRIES: usize = 60;
    let path = place.path(TXN_INDEX_SUFFIX);
    let disk = place.handles.disk();
    let file = match disk.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context("open", &path),
    };
    let mut window = [0; WINDOW_ENTRIES * TXN_ENTRY_BYTES];
    let (mut position, mut floor) = (0, place.base_offset);
    loop {
        let length = disk.read_at(&file, &path, &mut window, position).context("read", &path)?;
        let bytes = window.get(..length).unwrap_or_default();
        for entry in &parse(bytes, floor, &path)? {
            floor = entry.last_offset + 1;
            if !each(entry) {
                return Ok(());
            }
        }
        if length < window.len() {
            return Ok(());
        }
        position += length as u64;
    }
}

/// All entries of a segment; empty when there is no file.
///
/// # Errors
/// As [`scan`], and [`StorageError::CorruptFile`] with more than a million.
pub(crate) fn read(place: Place<'_>) -> Result<Vec<AbortedTxn>, StorageError> {
    let mut entries = Vec::new();
    scan(place, |entry| {
        entries.push(*entry);
        entries.len() <= MAX_ENTRIES
    })?;
    if entries.len() > MAX_ENTRIES {
        let reason = format!("it has more than {MAX_ENTRIES} entries");
        return Err(StorageError::corrupt(&place.path(TXN_INDEX_SUFFIX), reason));
    }
    Ok(entries)
}

/// Adds an entry behind the ones that the file holds.
pub(crate) fn append(place: Place<'_>, txn: &AbortedTxn) -> Result<(), StorageError> {
    let path = place.path(TXN_INDEX_SUFFIX);
    let disk = place.handles.disk();
    let file = disk.open_write(&path).context("open", &path)?;
    let length = file.metadata().context("look at", &path)?.len();
    let end = length - length % TXN_ENTRY_BYTES as u64;
    disk.write_all_at(&file, &path, &txn.encode(), end).context("write", &path)
}

/// Makes the file hold exactly `entries`; without entries there is no file.
pub(crate) fn replace(place: Place<'_>, entries: &[AbortedTxn]) -> Result<(), StorageError> {
    let path = place.path(TXN_INDEX_SUFFIX);
    let disk: &Disk = place.handles.disk();
    if entries.is_empty() {
        return disk.remove_file(&path).context("remove", &path);
    }
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
    disk.replace(&path, &bytes, false).context("write", &path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_handles::FileHandles;

    #[test]
    fn the_index_reads_back_as_written_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 8);
        let place = Place { handles: &handles, dir: dir.path(), base_offset: 100 };
        assert!(read(place).unwrap().is_empty());
        let txn = |n: i64| AbortedTxn {
            producer_id: n,
            first_offset: 100 + n * 10,
            last_offset: 105 + n * 10,
            last_stable_offset: 106 + n * 10,
        };
        append(place, &txn(0)).unwrap();
        append(place, &txn(1)).unwrap();
        assert_eq!(read(place).unwrap(), [txn(0), txn(1)]);
        let many: Vec<AbortedTxn> = (0..200).map(txn).collect();
        replace(place, &many).unwrap();
        let mut seen = Vec::new();
        scan(place, |entry| {
            seen.push(*entry);
            seen.len() < 150
        })
        .unwrap();
        assert_eq!(seen, many[..150]);
        replace(place, &many[..2]).unwrap();
        let path = place.path(TXN_INDEX_SUFFIX);
        let good = std::fs::read(&path).unwrap();
        for damaged in [&good[..40], &[0; 34][..], &[0; 68][..], &[7; 34][..]] {
            parse(damaged, 100, &path).unwrap_err();
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(read(place), Err(StorageError::CorruptFile { .. })));
        }
        replace(place, &[]).unwrap();
        assert!(!path.exists());
    }
}
