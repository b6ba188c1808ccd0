//! Reading evidence: texts at once, dumps with a bar on a terminal.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_doctor::account::Account;
use weir_doctor::evidence::{Evidence, FileNote, collect};
use weir_doctor::findings::Dump;
use weir_doctor::heap::{Heap, Options, Progress};

/// Dumps smaller than this are read before a bar would be seen.
const BAR_FROM: u64 = 64 << 20;

/// A dump that was read.
pub(super) struct ReadDump {
    /// What is in it.
    pub(super) heap: Heap,
    /// What it adds up to.
    pub(super) account: Account,
}

/// All that was given.
pub(super) struct Input {
    /// The texts, and the names of all files.
    pub(super) evidence: Evidence,
    /// The dumps among them.
    pub(super) dumps: Vec<ReadDump>,
    /// Why others could not be read.
    failed: Vec<String>,
}

impl Input {
    /// Reads files and folders. A dump that cannot be read is left out, see [`Self::verdict`]. Evidence that is among the
    /// files `to_write` is refused before it is lost.
    pub(super) fn read(paths: &[PathBuf], to_write: &[&Path]) -> Result<Self, String> {
        let evidence = collect(paths).map_err(|error| error.to_string())?;
        for target in to_write.iter().filter_map(|file| file.canonicalize().ok()) {
            let is_target = |file: &&FileNote| file.path.canonicalize().is_ok_and(|path| path == target);
            // A report of an earlier run is no evidence.
            if evidence.files.iter().find(is_target).is_some_and(|file| !file.kinds.is_empty()) {
                return Err(format!("{} is evidence and is not written over", target.display()));
            }
        }
        let mut dumps = Vec::new();
        // A file of a folder that cannot be opened is noted, and no reason to leave out the rest.
        let unopened = evidence.files.iter().filter(|file| file.kinds.is_empty()).filter_map(|file| {
            let error = std::fs::File::open(&file.path).err()?;
            Some(format!("cannot read {}: {error}", file.path.display()))
        });
        let mut failed: Vec<String> = unopened.collect();
        for path in evidence.heap_dumps() {
            match read(path) {
                Ok(heap) => dumps.push(ReadDump { account: Account::of(&heap), heap }),
                Err(error) => failed.push(error),
            }
        }
        Ok(Self { evidence, dumps, failed })
    }

    /// The dumps as rules want them.
    pub(super) fn dumps(&self) -> Vec<Dump<'_>> {
        self.dumps
            .iter()
            .map(|read| Dump { path: &read.heap.condition.path, heap: &read.heap, account: &read.account })
            .collect()
    }

    /// An error if a file could not be read.
    pub(super) fn whole(&self) -> Result<(), String> {
        if self.failed.is_empty() { Ok(()) } else { Err(self.failed.join("\nweir: ")) }
    }

    /// The same, also if nothing at all was evidence: a report of nothing looks like health.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.whole()?;
        match self.evidence.files.len() {
            _ if self.evidence.files.iter().any(|file| !file.kinds.is_empty()) => Ok(()),
            0 => Err("there is no evidence: no file at all".into()),
            1 => Err("there is no evidence: the one file is of no kind that is known here".into()),
            files => {
                Err(format!("there is no evidence: none of {files} files is of a kind that is known here"))
            }
        }
    }
}

/// Reads a dump, with a bar on a terminal if it is a large one.
fn read(file: &Path) -> Result<Heap, String> {
    let progress = Progress::default();
    let large = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() >= BAR_FROM);
    let done = AtomicBool::new(false);
    let heap = std::thread::scope(|scope| {
        if large && stderr().is_terminal() {
            scope.spawn(|| show(file, &progress, &done));
        }
        let heap = Heap::read(file, &Options::default(), &progress);
        done.store(true, Ordering::Release);
        heap
    });
    heap.map_err(|error| error.to_string())
}

/// Draws a bar until the dump is read.
fn show(file: &Path, progress: &Progress, done: &AtomicBool) {
    let stored = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bar = indicatif::ProgressBar::new(stored);
    let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left";
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let mut last = 0;
    while !done.load(Ordering::Acquire) {
        let (pass, now, total) = progress.now();
        if pass == 0 {
            // Not begun, and there is nothing to show.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        if pass != last {
            bar.reset();
            bar.set_message(format!("pass {pass}"));
            last = pass;
        }
        // The size of gzip is not known before its end.
        bar.set_length(if total > 0 { total } else { stored.saturating_mul(4).max(now) });
        bar.set_position(now);
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
