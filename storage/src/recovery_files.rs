//! What lies in a partition's directory, and what an interrupted deletion or compaction left there.
//!
//! `.deleted` and `.cleaned` files are removed; `.swap` files are the finished result of a compaction whose originals
//! were not yet removed: the originals go and the swap files take their names. Indexes without a segment go.

use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::file_handles::FileHandles;
use crate::index_file::Place;
use crate::leader_epoch::LEADER_EPOCH_CHECKPOINT;
use crate::offset_index::INDEX_SUFFIX;
use crate::partition_metadata::PARTITION_METADATA;
use crate::producer_snapshot;
use crate::scan::{SCAN_WINDOW_BYTES, Scanner};
use crate::segment::{LOG_SUFFIX, Segment};
use crate::time_index::TIME_INDEX_SUFFIX;
use crate::transaction_index::TXN_INDEX_SUFFIX;

const DELETED_SUFFIX: &str = ".deleted";
const CLEANED_SUFFIX: &str = ".cleaned";
const SWAP_SUFFIX: &str = ".swap";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The files of a log by kind; the lists hold offsets, in order.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) segments: Vec<i64>,
    pub(crate) snapshots: Vec<i64>,
    /// There is a transaction index.
    pub(crate) has_transactions: bool,
}

/// The offset in the name of a file: its first twenty digits. Names are untrusted.
pub(crate) fn offset_of(name: &str) -> Option<i64> {
    let (digits, _) = name.split_once('.')?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Removes leftovers, finishes interrupted swaps, and says what remains.
pub(crate) fn take_stock(
    disk: &Disk,
    dir: &Path,
    mut listed: Vec<(String, bool)>,
) -> Result<Files, StorageError> {
    if finish_swaps(disk, dir, &listed)? {
        listed = disk.list(dir).context("list", dir)?;
    }
    let mut files = Files::default();
    let mut indexes = Vec::new();
    for (name, is_dir) in &listed {
        if *is_dir {
            continue;
        }
        let Some((_, suffix)) = name.split_once('.') else { continue };
        match (offset_of(name), suffix) {
            (Some(offset), "log") => files.segments.push(offset),
            (Some(offset), "snapshot") => files.snapshots.push(offset),
            (Some(offset), "index" | "timeindex" | "txnindex") => {
                files.has_transactions |= suffix == "txnindex";
                indexes.push((offset, name));
            }
            _ if is_leftover(name) => remove(disk, &dir.join(name))?,
            _ => {}
        }
    }
    files.segments.sort_unstable();
    files.snapshots.sort_unstable();
    for (offset, name) in indexes {
        if files.segments.binary_search(&offset).is_err() {
            tracing::warn!(path = %dir.join(name).display(), "removing an index without a segment");
            remove(disk, &dir.join(name))?;
        }
    }
    Ok(files)
}

/// Files that an interrupted step of ours or of a JVM broker's left behind. Snapshots of a metadata log
/// (`.checkpoint`) belong to somebody else.
fn is_leftover(name: &str) -> bool {
    let of_ours = |name: &str| {
        name == LEADER_EPOCH_CHECKPOINT || name == PARTITION_METADATA || offset_of(name).is_some()
    };
    if name.contains(".checkpoint") {
        return false;
    }
    [DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX]
        .iter()
        .any(|suffix| name.strip_suffix(suffix).is_some_and(of_ours))
}

fn remove(disk: &Disk, path: &Path) -> Result<(), StorageError> {
    tracing::debug!(path = %path.display(), "removing a leftover");
    disk.remove_file(path).context("remove", path)
}

/// Returns true when anything was changed.
fn finish_swaps(disk: &Disk, dir: &Path, listed: &[(String, bool)]) -> Result<bool, StorageError> {
    let swaps: Vec<&str> =
        listed.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with(SWAP_SUFFIX)).collect();
    if swaps.is_empty() {
        return Ok(false);
    }
    // A swap file at or above a half-made (`.cleaned`) one belongs to a step that was not finished.
    let unfinished = listed
        .iter()
        .filter(|(name, _)| name.ends_with(CLEANED_SUFFIX))
        .filter_map(|(name, _)| offset_of(name))
        .min()
        .unwrap_or(i64::MAX);
    let (mut lowest, mut highest) = (i64::MAX, i64::MIN);
    let mut valid = Vec::new();
    for name in swaps {
        let Some(offset) = offset_of(name) else { continue };
        let path = dir.join(name);
        if offset >= unfinished {
            remove(disk, &path)?;
            continue;
        }
        if name.ends_with(&format!("{LOG_SUFFIX}{SWAP_SUFFIX}")) {
            lowest = lowest.min(offset);
            highest = highest.max(next_offset_of(disk, &path, offset)?);
        }
        valid.push(name);
    }
    for (name, is_dir) in listed {
        if !is_dir
            && !name.ends_with(SWAP_SUFFIX)
            && offset_of(name).is_some_and(|offset| (lowest..highest).contains(&offset))
            && !name.contains(".checkpoint")
        {
            tracing::info!(path = %dir.join(name).display(), "removing a file that a swap replaces");
            remove(disk, &dir.join(name))?;
        }
    }
    for name in valid {
        let (from, to) = (dir.join(name), dir.join(name.trim_end_matches(SWAP_SUFFIX)));
        tracing::info!(path = %to.display(), "finishing an interrupted swap");
        disk.rename(&from, &to).context("rename", &from)?;
    }
    Ok(true)
}

/// The offset after the last whole batch of a segment file.
fn next_offset_of(disk: &Disk, path: &Path, base_offset: i64) -> Result<i64, StorageError> {
    let handles = FileHandles::new(disk.clone(), 8);
    let slot = Arc::default();
    let handle =
        handles.get(&slot, crate::file_handles::Access::Read, || path.to_path_buf()).context("open", path)?;
    let size = disk.length(path).context("look at", path)?;
    let mut window = vec![0; SCAN_WINDOW_BYTES];
    let mut scanner = Scanner::new(disk, &handle, &mut window, 0, size);
    let mut next = base_offset;
    while let Ok(Some(batch)) = scanner.next_batch() {
        next = batch.header.last_offset() + 1;
    }
    Ok(next)
}

/// Renames the files of a segment to `.deleted`: the next start removes them.
pub(crate) fn set_aside(disk: &Disk, place: Place<'_>) -> Result<(), StorageError> {
    for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
        let from = place.path(suffix);
        let to = place.path(&format!("{suffix}{DELETED_SUFFIX}"));
        match disk.rename(&from, &to) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.context("rename", &from)?,
        }
    }
    Ok(())
}

/// Removes the snapshots above the end of the log: what was cut off may be written differently, and they would be taken for
/// the truth once the log is that long again.
pub(crate) fn remove_snapshots_above(
    disk: &Disk,
    dir: &Path,
    snapshots: &mut Vec<i64>,
    log_end: i64,
) -> Result<(), StorageError> {
    let beyond = snapshots.split_off(snapshots.partition_point(|offset| *offset <= log_end));
    beyond.iter().try_for_each(|offset| remove(disk, &producer_snapshot::path(dir, *offset)))
}

/// Keeps the snapshots that belong to a segment, and the latest one if it lies behind all of them.
pub(crate) fn remove_stray_snapshots(
    disk: &Disk,
    dir: &Path,
    snapshots: &mut Vec<i64>,
    segments: &[Arc<Segment>],
) -> Result<(), StorageError> {
    let latest = snapshots.last().copied();
    let last_base = segments.last().map_or(0, |segment| segment.base_offset);
    let mut stray = Vec::new();
    snapshots.retain(|offset| {
        let keep = segments.binary_search_by_key(offset, |segment| segment.base_offset).is_ok()
            || (Some(*offset) == latest && *offset > last_base);
        if !keep {
            stray.push(*offset);
        }
        keep
    });
    for offset in stray {
        remove(disk, &producer_snapshot::path(dir, offset))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_told_from_files_that_belong_to_somebody_else() {
        for leftover in [
            "00000000000000000010.log.deleted",
            "00000000000000000010.timeindex.cleaned",
            "00000000000000000010.snapshot.tmp",
            "leader-epoch-checkpoint.tmp",
            "partition.metadata.tmp",
        ] {
            assert!(is_leftover(leftover), "{leftover}");
        }
        for kept in [
            "00000000000000000010-0000000001.checkpoint.deleted",
            "quorum-state.tmp",
            "notes.tmp",
            "00000000000000000010.log",
        ] {
            assert!(!is_leftover(kept), "{kept}");
        }
        assert_eq!(offset_of("00000000000000000010.log"), Some(10));
        for other in
            ["10.log", "0000000000000000001x.log", "99999999999999999999.log", "00000000000000000010", ""]
        {
            assert_eq!(offset_of(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_kinds_of_files_that_kafka_names_are_taken_for_a_log() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["00000000000000000010.log", "00000000000000000010.index", "00000000000000000005.index"] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let disk = Disk::new();
        let files = take_stock(&disk, dir.path(), disk.list(dir.path()).unwrap()).unwrap();
        assert_eq!(files.segments, [10]);
        assert!(!dir.path().join("00000000000000000005.index").exists(), "an orphaned index stays");
    }
}
