//! Shows and checks the files of a log directory: segments, indexes, snapshots, checkpoints, metadata.
//!
//! Method: each file is streamed through fixed windows and recognised by its name. What is damaged is described with its
//! place, its reason and how many bytes lie behind it, and the walk goes on where it can. Input is untrusted.
//! Invariant: memory is bounded by the windows and by one batch of at most [`MAX_BATCH_BYTES`], never by what a file
//! claims.

#[cfg(test)]
mod fuzz;
mod indexes;
mod print;
mod records;
mod segment;
mod small_files;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_storage::leader_epoch::LEADER_EPOCH_CHECKPOINT;
use weir_storage::partition_metadata::PARTITION_METADATA;

use print::Field::{Number, Text};
use print::Printer;

/// The records of a batch whose body is larger are not shown, only its header and CRC.
pub(crate) const MAX_BATCH_BYTES: u64 = 64 << 20;
/// A record that is larger once it is inflated is not shown.
pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;
/// A log directory, its partitions, and one level to spare.
const MAX_DEPTH: usize = 3;

/// How records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RecordsAs {
    /// By the name of the directory: `__consumer_offsets` and `__cluster_metadata` are decoded
    Auto,
    /// Keys and values as they are
    Plain,
    /// As records of `__consumer_offsets`
    Offsets,
    /// As records of the metadata log
    Metadata,
}

/// What to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// One JSON object a line.
    pub(crate) json: bool,
    /// Records too, not only batches.
    pub(crate) deep: bool,
    /// Only files, their sums and what is damaged.
    pub(crate) quiet: bool,
    /// Bytes of a key or value that are printed; 0 for all.
    pub(crate) width: usize,
    /// How records are read.
    pub(crate) records_as: RecordsAs,
}

/// What a walk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Files looked at.
    pub(crate) files: u64,
    /// Places that are damaged, and files that cannot be read.
    pub(crate) damages: u64,
}

/// Shows `paths`, files or directories, on `out`.
///
/// # Errors
/// Only what writing to `out` fails with; whatever is wrong with a file is shown and counted.
pub(crate) fn dump(paths: &[PathBuf], options: &Options, out: &mut dyn Write) -> io::Result<Totals> {
    let mut printer = Printer::new(out, options);
    for path in paths {
        match std::fs::metadata(path) {
            Err(error) => {
                printer.begin(path, "missing")?;
                printer.unreadable(&format!("cannot look at it: {error}"))?;
            }
            Ok(metadata) if metadata.is_dir() => directory(path, options, &mut printer, 0)?,
            Ok(_) => {
                if !file(path, options, &mut printer)? {
                    printer.begin(path, "unknown")?;
                    printer.unreadable("the name is none that Kafka gives to a file of a log directory")?;
                }
            }
        }
    }
    printer.totals()
}

fn directory(path: &Path, options: &Options, printer: &mut Printer<'_>, depth: usize) -> io::Result<()> {
    let mut entries = Vec::new();
    let listed = std::fs::read_dir(path).and_then(|listing| {
        for entry in listing {
            let entry = entry?;
            entries.push((entry.path(), entry.file_type()?.is_dir()));
        }
        Ok(())
    });
    if let Err(error) = listed {
        printer.begin(path, "directory")?;
        printer.unreadable(&format!("cannot list it: {error}"))?;
    }
    entries.sort();
    for (path, is_dir) in entries {
        if !is_dir {
            // A directory may hold anything besides; only what is Kafka's is shown.
            file(&path, options, printer)?;
        } else if depth < MAX_DEPTH {
            directory(&path, options, printer, depth + 1)?;
        }
    }
    Ok(())
}

/// Shows one file; false when its name is none of Kafka's.
fn file(path: &Path, options: &Options, printer: &mut Printer<'_>) -> io::Result<bool> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem =
        [".deleted", ".swap", ".cleaned"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let known = match stem {
        LEADER_EPOCH_CHECKPOINT => small_files::leader_epochs(path, printer)?,
        PARTITION_METADATA => small_files::partition_metadata(path, printer)?,
        "meta.properties" => small_files::meta_properties(path, printer)?,
        "quorum-state" => small_files::quorum_state(path, printer)?,
        ".kafka_cleanshutdown" => small_files::clean_shutdown(path, printer)?,
        _ if stem.ends_with("-offset-checkpoint") => small_files::offsets(path, printer)?,
        _ => return numbered(path, stem, options, printer),
    };
    Ok(known)
}

/// Files that are named by an offset.
fn numbered(path: &Path, name: &str, options: &Options, printer: &mut Printer<'_>) -> io::Result<bool> {
    if name == "bootstrap.checkpoint" {
        return segment::dump(path, segment::Kind::Snapshot, options, printer).map(|()| true);
    }
    let Some((stem, suffix)) = name.rsplit_once('.') else { return Ok(false) };
    if suffix == "checkpoint" {
        let numbers = stem.split_once('-');
        if numbers.is_some_and(|(end, epoch)| offset_of(end).is_some() && epoch.parse::<u32>().is_ok()) {
            return segment::dump(path, segment::Kind::Snapshot, options, printer).map(|()| true);
        }
        return Ok(false);
    }
    let Some(base_offset) = offset_of(stem) else { return Ok(false) };
    match suffix {
        "log" => segment::dump(path, segment::Kind::Segment { base_offset }, options, printer)?,
        "index" => indexes::offsets(path, base_offset, printer)?,
        "timeindex" => indexes::times(path, base_offset, printer)?,
        "txnindex" => indexes::transactions(path, base_offset, printer)?,
        "snapshot" => small_files::producers(path, base_offset, printer)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn offset_of(stem: &str) -> Option<i64> {
    (stem.len() == 20).then(|| stem.parse().ok()).flatten().filter(|offset| *offset >= 0)
}

/// Opens a file under its own heading and returns it with its length.
fn open(path: &Path, kind: &'static str, printer: &mut Printer<'_>) -> io::Result<Option<(File, u64)>> {
    printer.begin(path, kind)?;
    // Opening a pipe, whatever its name, would wait for a writer.
    let is_file = |metadata: std::fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    };
    let opened = std::fs::metadata(path).and_then(is_file).and_then(|()| File::open(path));
    match opened.and_then(|file| file.metadata().map(|metadata| (file, metadata.len()))) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => {
            printer.unreadable(&format!("cannot open it: {error}"))?;
            Ok(None)
        }
    }
}

/// Ends a file that is a list of entries.
fn end_list(entries: u64, bytes: u64, printer: &mut Printer<'_>) -> io::Result<()> {
    printer.end(&[("entries", Number(entries as i64)), ("bytes", Number(bytes as i64))])
}

/// How `path` names its directory, for what depends on the topic.
fn directory_name(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let parent = absolute.parent().and_then(Path::file_name);
    parent.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A sentence about a count of zeros at the end of a file.
fn note_zeros(count: u64, printer: &mut Printer<'_>) -> io::Result<()> {
    printer.item(
        "note",
        1,
        &[
            ("text", Text("zeros to the end, as a preallocated file has".into())),
            ("bytes", Number(count as i64)),
        ],
    )
}
