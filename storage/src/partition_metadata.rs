//! `partition.metadata`: which topic id a partition's directory belongs to.
//!
//! The metadata log knows the id anyway, so a file that is missing, empty or garbled is written anew. Only an id that
//! is there and differs says that the directory belongs to another incarnation of the topic.

use std::io::ErrorKind;
use std::path::Path;

use weir_protocol::wire::Uuid;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};

/// The name of the file in a partition's directory.
pub const PARTITION_METADATA: &str = "partition.metadata";

const LIMIT_BYTES: u64 = 4096;

/// Reads the content of the file. Input is untrusted.
///
/// # Errors
/// [`StorageError::CorruptFile`] when it is not version 0 with a topic id.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Uuid, StorageError> {
    let text = std::str::from_utf8(bytes).map_err(|_| StorageError::corrupt(path, "it is not text"))?;
    let mut version = None;
    let mut topic_id = None;
    for line in text.lines() {
        match line.split_once(':') {
            Some(("version", value)) => version = Some(value.trim()),
            Some(("topic_id", value)) => topic_id = Some(value.trim()),
            _ => {}
        }
    }
    match version {
        Some("0") => {}
        Some(other) => return Err(StorageError::corrupt(path, format!("unknown version {other:?}"))),
        None => return Err(StorageError::corrupt(path, "it has no version")),
    }
    let topic_id = topic_id.ok_or_else(|| StorageError::corrupt(path, "it has no topic_id"))?;
    let parsed: Uuid = topic_id
        .parse()
        .map_err(|_| StorageError::corrupt(path, format!("{topic_id:?} is not a topic id")))?;
    if parsed == Uuid([0; 16]) {
        return Err(StorageError::corrupt(path, "the topic id is zero"));
    }
    Ok(parsed)
}

/// The content of the file.
pub fn format(topic_id: Uuid) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

/// The topic id that the file in `dir` names; `None` when it is missing, empty or garbled.
///
/// # Errors
/// [`StorageError::Io`].
pub(crate) fn read(disk: &Disk, dir: &Path) -> Result<Option<Uuid>, StorageError> {
    let path = dir.join(PARTITION_METADATA);
    match disk.read_small(&path, LIMIT_BYTES) {
        Ok(bytes) => Ok(bytes.and_then(|bytes| parse(&bytes, &path).ok())),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error).context("read", &path),
    }
}

/// Makes the file in `dir` say `topic_id`: reads it, and writes it anew with a warning when it is missing (of an
/// existing log), empty or garbled.
///
/// # Errors
/// [`StorageError::TopicIdMismatch`] when it names another topic id, [`StorageError::Io`].
pub(crate) fn ensure(disk: &Disk, dir: &Path, topic_id: Uuid, is_new: bool) -> Result<(), StorageError> {
    let path = dir.join(PARTITION_METADATA);
    let damage = match disk.read_small(&path, LIMIT_BYTES) {
        Ok(Some(bytes)) => match parse(&bytes, &path) {
            Ok(found) if found == topic_id => return Ok(()),
            Ok(found) => {
                return Err(StorageError::TopicIdMismatch {
                    path: dir.to_path_buf(),
                    found,
                    expected: topic_id,
                });
            }
            Err(error) => error.to_string(),
        },
        Ok(None) => "it is missing".to_owned(),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => "it is far too large".to_owned(),
        Err(error) => return Err(error).context("read", &path),
    };
    if !is_new {
        tracing::warn!(path = %path.display(), %topic_id, damage, "writing partition.metadata anew");
    }
    disk.replace(&path, &format(topic_id), false).context("write", &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_empty_or_garbled_file_is_written_anew_and_a_foreign_id_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let ours = Uuid([3; 16]);
        let path = dir.path().join(PARTITION_METADATA);
        for content in
            [None, Some(&b""[..]), Some(b"version: 0\n"), Some(b"\0\0\0\0"), Some(b"version: 0\ntopic_id: ?")]
        {
            let _ = std::fs::remove_file(&path);
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            ensure(&disk, dir.path(), ours, false).unwrap();
            assert_eq!(parse(&std::fs::read(&path).unwrap(), &path).unwrap(), ours);
        }
        std::fs::write(&path, format(Uuid([4; 16]))).unwrap();
        let error = ensure(&disk, dir.path(), ours, false).unwrap_err();
        assert!(matches!(error, StorageError::TopicIdMismatch { .. }));
    }
}
