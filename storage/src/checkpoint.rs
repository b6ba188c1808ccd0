//! Kafka's text checkpoints: line 1 is the version (0), line 2 the number of entries, then one entry a line.
//!
//! The offset checkpoints of a log directory ("topic partition offset") are here; the leader epochs of a partition
//! ("epoch offset") use the same frame. They are replaced as a whole through a `.tmp` file, so a reader never sees a
//! part of one. A file that does not read as promised is an error: the caller rebuilds what it stood for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::topic_partition::TopicPartition;

/// Everything below has been flushed, per partition.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// The high watermarks.
pub const REPLICATION_OFFSET_CHECKPOINT: &str = "replication-offset-checkpoint";
/// Log start offsets that lie above the base offset of the first segment.
pub const LOG_START_OFFSET_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// How far compaction has come.
pub const CLEANER_OFFSET_CHECKPOINT: &str = "cleaner-offset-checkpoint";

/// The largest checkpoint that is read, bytes: more than a hundred thousand partitions with the longest names.
const CHECKPOINT_LIMIT_BYTES: u64 = 32 << 20;

/// Offsets by partition.
pub type OffsetMap = BTreeMap<TopicPartition, i64>;

/// Reads the frame of a checkpoint and hands each entry's line to `entry`. Input is untrusted.
///
/// # Errors
/// What is wrong, as text: no UTF-8, another version, a count that does not match, a line that `entry` refuses.
pub(crate) fn parse_lines(bytes: &[u8], mut entry: impl FnMut(&str) -> Option<()>) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut lines = text.lines();
    let version = lines.next().ok_or("it is empty")?;
    if version.trim() != "0" {
        return Err(format!("unknown version {:?}", shorten(version)));
    }
    let promised = lines.next().ok_or("it has no count")?;
    let promised: usize =
        promised.trim().parse().map_err(|_| format!("the count {:?} is not a number", shorten(promised)))?;
    let mut found = 0usize;
    for line in lines.filter(|line| !line.trim().is_empty()) {
        entry(line).ok_or_else(|| format!("entry {found} is malformed: {:?}", shorten(line)))?;
        found += 1;
    }
    if found == promised { Ok(()) } else { Err(format!("it promises {promised} entries and holds {found}")) }
}

fn shorten(line: &str) -> &str {
    let end = line.char_indices().nth(80).map_or(line.len(), |(index, _)| index);
    line.get(..end).unwrap_or_default()
}

/// Reads an offset checkpoint. Input is untrusted.
///
/// # Errors
/// [`StorageError::CorruptFile`] with `path` as the place.
pub fn parse_offsets(bytes: &[u8], path: &Path) -> Result<OffsetMap, StorageError> {
    let mut offsets = OffsetMap::new();
    parse_lines(bytes, |line| {
        let mut words = line.split_ascii_whitespace();
        let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
        let partition = partition.parse().ok().filter(|partition: &i32| *partition >= 0)?;
        let offset = offset.parse().ok().filter(|offset: &i64| *offset >= 0)?;
        if words.next().is_some() {
            return None;
        }
        offsets.insert(TopicPartition::new(topic, partition), offset);
        Some(())
    })
    .map_err(|reason| StorageError::corrupt(path, reason))?;
    Ok(offsets)
}

/// Writes an offset checkpoint as bytes.
pub fn format_offsets<'a>(
    offsets: impl ExactSizeIterator<Item = (&'a TopicPartition, i64)> + Clone,
) -> Vec<u8> {
    /// Two numbers, two spaces and the end of the line.
    const REST_BYTES: usize = 11 + 20 + 3;
    let length: usize = offsets.clone().map(|(name, _)| name.topic().len() + REST_BYTES).sum();
    let mut text = String::with_capacity(32 + length);
    let _ = write!(text, "0\n{}\n", offsets.len());
    for (name, offset) in offsets {
        let _ = writeln!(text, "{} {} {offset}", name.topic(), name.partition());
    }
    text.into_bytes()
}

/// Reads the offset checkpoint at `path`. A file that is not there, or is empty, holds nothing.
///
/// # Errors
/// [`StorageError::CorruptFile`], or [`StorageError::Io`] when it cannot be read.
pub fn read_offsets(disk: &Disk, path: &Path) -> Result<OffsetMap, StorageError> {
    match disk.read_small(path, CHECKPOINT_LIMIT_BYTES) {
        Ok(None) => Ok(OffsetMap::new()),
        Ok(Some(bytes)) if bytes.is_empty() => Ok(OffsetMap::new()),
        Ok(Some(bytes)) => parse_offsets(&bytes, path),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            Err(StorageError::corrupt(path, format!("it is larger than {CHECKPOINT_LIMIT_BYTES} bytes")))
        }
        Err(error) => Err(error).context("read", path),
    }
}

/// Replaces the offset checkpoint at `path`, durably.
///
/// # Errors
/// [`StorageError::Io`].
pub fn write_offsets<'a>(
    disk: &Disk,
    path: &Path,
    offsets: impl ExactSizeIterator<Item = (&'a TopicPartition, i64)> + Clone,
) -> Result<(), StorageError> {
    disk.replace(path, &format_offsets(offsets), true).context("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_checkpoint_reads_back_as_written() {
        let mut offsets = OffsetMap::new();
        offsets.insert(TopicPartition::new("orders", 0), 17);
        offsets.insert(TopicPartition::new("a.b_c-d", 11), i64::MAX);
        let bytes = format_offsets(offsets.iter().map(|(name, offset)| (name, *offset)));
        assert_eq!(bytes, b"0\n2\na.b_c-d 11 9223372036854775807\norders 0 17\n");
        assert_eq!(parse_offsets(&bytes, Path::new("x")).unwrap(), offsets);
    }

    #[test]
    fn a_garbled_checkpoint_is_an_error_that_names_the_file_and_the_reason() {
        for (bytes, reason) in [
            (&b"garbage"[..], "unknown version"),
            (b"0\n", "no count"),
            (b"0\n2\nt 0 1\n", "promises 2 entries and holds 1"),
            (b"0\n1\nt 0\n", "malformed"),
            (b"0\n1\nt 0 -4\n", "malformed"),
            (b"0\n1\nt 0 1 2\n", "malformed"),
            (b"0\n18446744073709551615\n", "promises"),
            (b"0\n1\n\xff\xfe 0 1\n", "not text"),
        ] {
            let error = parse_offsets(bytes, Path::new("/d/recovery-point-offset-checkpoint"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason) && error.contains("recovery-point"), "{error}");
        }
    }

    #[test]
    fn an_empty_or_missing_checkpoint_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(RECOVERY_POINT_CHECKPOINT);
        assert!(read_offsets(&Disk::new(), &path).unwrap().is_empty());
        std::fs::write(&path, b"").unwrap();
        assert!(read_offsets(&Disk::new(), &path).unwrap().is_empty());
    }
}
