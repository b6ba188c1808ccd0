//! A [`FaultHook`](crate::disk::FaultHook) for tests: makes a disk fail in the ways that disks fail.
//!
//! Injects: a chosen `errno` for chosen operations on chosen files, until lifted (full disk, read-only file system,
//! file-size limit, bad sector, no descriptors); short writes; a crash at the n-th change of the disk, with the write
//! under way torn at any byte and everything after it failing; and, for a power cut, which bytes of which files were
//! never synced. Does not inject: lost or reordered directory entries, wrong bytes in the page cache, writes that claim
//! success and do nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Attempt, FaultHook, Op, Verdict};

/// No space left on the device.
pub const ENOSPC: i32 = 28;
/// File larger than the limit of the process or the file system.
pub const EFBIG: i32 = 27;
/// Read-only file system.
pub const EROFS: i32 = 30;
/// Input/output error.
pub const EIO: i32 = 5;
/// Too many open files in the process.
pub const EMFILE: i32 = 24;

#[derive(Debug, Default)]
struct State {
    /// Operations, end of the path, errno, and for writes how many bytes get through.
    rules: Vec<(Vec<Op>, String, i32, usize)>,
    short_writes: Option<usize>,
    crash_at: Option<(u64, usize)>,
    crashed: bool,
    mutations: u64,
    lengths: HashMap<PathBuf, (u64, u64)>,
    counts: HashMap<Op, u64>,
}

/// A disk that fails on command. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

impl Faults {
    /// A disk without faults so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on `ops` on files whose path ends with `suffix` fail with `errno`; a write lets `bytes_through` pass
    /// before it fails.
    pub fn fail(&self, ops: &[Op], suffix: &str, errno: i32, bytes_through: usize) {
        self.state.lock().rules.push((ops.to_vec(), suffix.to_owned(), errno, bytes_through));
    }

    /// From now on a write takes at most so many bytes at once.
    pub fn short_writes(&self, most_bytes: usize) {
        self.state.lock().short_writes = Some(most_bytes);
    }

    /// The `n`-th change of the disk from now on (0: the next) is the last: a write gets `bytes_through` bytes out,
    /// anything else does not happen, and all that follows fails.
    pub fn crash_at(&self, n: u64, bytes_through: usize) {
        let mut state = self.state.lock();
        let at = state.mutations + n;
        state.crash_at = Some((at, bytes_through));
    }

    /// True when the crash has happened.
    pub fn has_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// The disk works again.
    pub fn lift(&self) {
        let mut state = self.state.lock();
        state.rules.clear();
        (state.short_writes, state.crash_at, state.crashed) = (None, None, false);
    }

    /// Changes of the disk so far.
    pub fn mutations(&self) -> u64 {
        self.state.lock().mutations
    }

    /// How often an operation was tried.
    pub fn count(&self, op: Op) -> u64 {
        self.state.lock().counts.get(&op).copied().unwrap_or(0)
    }

    /// Files with bytes that were written and not synced: the length that is on the disk, and the length now.
    pub fn unsynced(&self) -> Vec<(PathBuf, u64, u64)> {
        let state = self.state.lock();
        let mut files: Vec<_> = state
            .lengths
            .iter()
            .filter_map(|(path, (synced, _))| {
                let now = std::fs::metadata(path).ok()?.len();
                (now > *synced).then(|| (path.clone(), *synced, now))
            })
            .collect();
        files.sort();
        files
    }

    fn note_lengths(state: &mut State, attempt: &Attempt<'_>) {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        match attempt.op {
            Op::Write => {
                let before = length(attempt.path);
                state.lengths.entry(attempt.path.to_path_buf()).or_insert((before, before));
            }
            Op::Sync => {
                let now = length(attempt.path);
                state.lengths.insert(attempt.path.to_path_buf(), (now, now));
            }
            Op::SyncDir => {
                for (path, lengths) in &mut state.lengths {
                    // Only `syncfs` of a whole log directory reaches files in partition directories.
                    if path.parent().and_then(Path::parent) == Some(attempt.path) {
                        let now = length(path);
                        *lengths = (now, now);
                    }
                }
            }
            _ => {}
        }
    }
}

impl FaultHook for Faults {
    fn before(&self, attempt: &Attempt<'_>) -> Verdict {
        let mut state = self.state.lock();
        *state.counts.entry(attempt.op).or_insert(0) += 1;
        if state.crashed {
            return Verdict::Fail(EIO);
        }
        if attempt.op.is_mutation() {
            let number = state.mutations;
            state.mutations += 1;
            if let Some((at, bytes_through)) = state.crash_at
                && number >= at
            {
                state.crashed = true;
                return if attempt.op == Op::Write {
                    Verdict::Torn(bytes_through, EIO)
                } else {
                    Verdict::Fail(EIO)
                };
            }
        }
        Self::note_lengths(&mut state, attempt);
        let path = attempt.path.to_string_lossy();
        let rule =
            state.rules.iter().find(|(ops, suffix, ..)| ops.contains(&attempt.op) && path.ends_with(suffix));
        if let Some((_, _, errno, bytes_through)) = rule {
            return if attempt.op == Op::Write && *bytes_through > 0 {
                Verdict::Torn(*bytes_through, *errno)
            } else {
                Verdict::Fail(*errno)
            };
        }
        match state.short_writes {
            Some(most) if attempt.op == Op::Write => Verdict::Short(most.max(1)),
            _ => Verdict::Proceed,
        }
    }
}
