//! Metadata snapshots: `<end offset>-<epoch>.checkpoint`, and `bootstrap.checkpoint` of a formatted directory.
//!
//! Invariant: a file under its final name is whole and synced; a snapshot in the making ends in `.part`. One without its
//! footer was cut short later, and is not read.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use weir_metadata::VersionedRecord;
use weir_metadata::image::{MetadataImage, Provenance};
use weir_protocol::messages::{SnapshotFooterRecord, SnapshotHeaderRecord};
use weir_protocol::records::{BatchBuilder, BatchError, Codec, ControlRecordType, RecordView, Scratch};

use super::voters::Quorum;
use crate::stored_batches::{ReplayError, for_each_batch_of};

const SUFFIX: &str = ".checkpoint";
/// A data batch of a snapshot is closed when it has this many bytes.
const BATCH_BYTES: usize = 256 * 1024;
/// What decoding one metadata record may allocate.
pub(super) const RECORD_DECODE_BYTES: usize = 8 << 20;

/// A snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotFile {
    /// First offset that is not in it.
    pub(super) end_offset: i64,
    /// Epoch of its last record.
    pub(super) epoch: i32,
    /// Where it is.
    pub(super) path: PathBuf,
}

/// The snapshots in `dir`, oldest first; parts that a crash left are removed.
pub(super) fn list(dir: &Path) -> io::Result<Vec<SnapshotFile>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.ends_with(".checkpoint.part") || name.ends_with(".checkpoint.deleted") {
            std::fs::remove_file(&path)?;
            continue;
        }
        let numbers = name.strip_suffix(SUFFIX).and_then(|stem| stem.split_once('-'));
        let Some((end, epoch)) = numbers else { continue };
        if let (Ok(end_offset), Ok(epoch)) = (end.parse(), epoch.parse()) {
            found.push(SnapshotFile { end_offset, epoch, path });
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a snapshot: the metadata, and what it says of the quorum. Input is untrusted.
pub(super) fn read(snapshot: &SnapshotFile) -> Result<(MetadataImage, Quorum), ReplayError> {
    let what = snapshot.path.display().to_string();
    let io_error = |error| ReplayError::Io { what: what.clone(), error };
    let file = File::open(&snapshot.path).map_err(io_error)?;
    let size = file.metadata().map_err(io_error)?.len();
    parse(&mut BufReader::new(file), size, &what, (snapshot.end_offset, snapshot.epoch))
}

/// Reads a snapshot of `size` bytes that stands for what comes before this offset, and is of this epoch. Input is untrusted.
pub(super) fn parse(
    source: &mut impl Read,
    size: u64,
    what: &str,
    (end_offset, epoch): (i64, i32),
) -> Result<(MetadataImage, Quorum), ReplayError> {
    let mut records = Vec::new();
    let mut quorum = Quorum::default();
    let (mut log_time_ms, mut is_whole) = (-1, false);
    let mut scratch = Scratch::new(0);
    for_each_batch_of(source, size, what, |batch| {
        if batch.header.is_control() {
            log_time_ms = log_time_ms.max(batch.header.max_timestamp);
            return batch.for_each_record(what, &mut scratch, |record| {
                let kind = ControlRecordType::parse_key(record.key.unwrap_or_default());
                is_whole = matches!(kind, Ok(ControlRecordType::SnapshotFooter));
                take_control(&mut quorum, what, record)
            });
        }
        batch.for_each_record(what, &mut scratch, |record| {
            records.push(decode(what, record.offset, record.value.unwrap_or_default())?);
            Ok::<(), ReplayError>(())
        })
    })?;
    if !is_whole {
        // Cut off between two batches it would read as metadata that has lost topics.
        let reason = "it has no footer, so it is not whole".to_string();
        return Err(ReplayError::Damaged { what: what.to_string(), offset: end_offset, reason });
    }
    let provenance = Provenance {
        last_contained_offset: end_offset - 1,
        last_contained_epoch: epoch,
        last_contained_log_time_ms: log_time_ms,
    };
    let image = MetadataImage::from_snapshot(records.into_iter().map(Ok), provenance);
    let image = image.map_err(|error| ReplayError::Damaged {
        what: what.to_string(),
        offset: end_offset,
        reason: error.to_string(),
    })?;
    Ok((image, quorum))
}

/// Takes what a control record of the log or of a snapshot says of the quorum.
pub(super) fn take_control(
    quorum: &mut Quorum,
    what: &str,
    record: &RecordView<'_>,
) -> Result<(), ReplayError> {
    quorum.apply(record).map_err(|error| ReplayError::Damaged {
        what: what.to_string(),
        offset: record.offset,
        reason: error.to_string(),
    })
}

/// Decodes the value of a metadata record.
pub(super) fn decode(what: &str, offset: i64, value: &[u8]) -> Result<VersionedRecord, ReplayError> {
    VersionedRecord::decode(value, RECORD_DECODE_BYTES).map_err(|error| ReplayError::Damaged {
        what: what.to_string(),
        offset,
        reason: error.to_string(),
    })
}

fn path_of(dir: &Path, end_offset: i64, epoch: i32) -> PathBuf {
    dir.join(format!("{end_offset:020}-{epoch:010}{SUFFIX}"))
}

/// Writes `image` and `quorum` as the snapshot of the image's last offset into `dir`.
pub(super) fn write(
    dir: &Path,
    image: &MetadataImage,
    quorum: &Quorum,
    now_ms: i64,
) -> io::Result<SnapshotFile> {
    let provenance = image.provenance();
    let (end_offset, epoch) = (provenance.last_contained_offset + 1, provenance.last_contained_epoch.max(0));
    let path = path_of(dir, end_offset, epoch);
    let log_time_ms = provenance.last_contained_log_time_ms;
    write_file(&path, image.snapshot_records(), quorum, epoch, log_time_ms, now_ms)?;
    Ok(SnapshotFile { end_offset, epoch, path })
}

/// Writes the snapshot in front of the first record, which tells the voters of a new dynamic quorum, as Kafka's storage
/// tool does.
pub(super) fn write_first(dir: &Path, quorum: &Quorum, now_ms: i64) -> io::Result<()> {
    write_file(&path_of(dir, 0, 0), std::iter::empty(), quorum, 0, 0, now_ms)
}

/// Writes `records` with header and footer to `path`, durably.
pub(super) fn write_file(
    path: &Path,
    records: impl Iterator<Item = VersionedRecord>,
    quorum: &Quorum,
    epoch: i32,
    log_time_ms: i64,
    now_ms: i64,
) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = write_part(path, Path::new(&part), records, quorum, epoch, log_time_ms, now_ms);
    if written.is_err() {
        // On a full disk a half-made one would take the room of what matters more. It is removed at the next start
        // otherwise.
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn write_part(
    path: &Path,
    part: &Path,
    records: impl Iterator<Item = VersionedRecord>,
    quorum: &Quorum,
    epoch: i32,
    log_time_ms: i64,
    now_ms: i64,
) -> io::Result<()> {
    let mut out = Out { file: BufWriter::new(File::create(part)?), offset: 0, epoch };
    let header =
        SnapshotHeaderRecord { last_contained_log_timestamp: log_time_ms, ..SnapshotHeaderRecord::default() };
    let mut value = Vec::new();
    header.encode(&mut value, 0).map_err(io::Error::other)?;
    out.control(ControlRecordType::SnapshotHeader, &value, now_ms)?;
    for (kind, value) in quorum.records().map_err(io::Error::other)? {
        out.control(kind, &value, now_ms)?;
    }
    let mut batch = out.batch();
    for record in records {
        let value = record.to_bytes().map_err(io::Error::other)?;
        batch.append(now_ms, None, Some(&value), &[]).map_err(io::Error::other)?;
        if batch.uncompressed_size_bytes() >= BATCH_BYTES {
            out.put(&batch)?;
            batch = out.batch();
        }
    }
    if batch.record_count() > 0 {
        out.put(&batch)?;
    }
    let mut value = Vec::new();
    SnapshotFooterRecord::default().encode(&mut value, 0).map_err(io::Error::other)?;
    out.control(ControlRecordType::SnapshotFooter, &value, now_ms)?;
    let file = out.file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(part, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

struct Out {
    file: BufWriter<File>,
    offset: i64,
    epoch: i32,
}

impl Out {
    fn batch(&self) -> BatchBuilder {
        BatchBuilder::new(Codec::None).base_offset(self.offset).partition_leader_epoch(self.epoch)
    }

    fn put(&mut self, batch: &BatchBuilder) -> io::Result<()> {
        self.file.write_all(&batch.build().map_err(io::Error::other)?)?;
        self.offset += batch.record_count() as i64;
        Ok(())
    }

    fn control(&mut self, kind: ControlRecordType, value: &[u8], now_ms: i64) -> io::Result<()> {
        let mut batch = self.batch();
        batch.append_control(now_ms, kind, value).map_err(|error: BatchError| io::Error::other(error))?;
        self.put(&batch)
    }
}
