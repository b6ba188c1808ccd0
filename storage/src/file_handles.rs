//! Open files, bounded: a log keeps a [`HandleSlot`] per file, and [`FileHandles`] closes the ones that were not
//! used lately when more than its limit are open.
//!
//! A [`FileHandle`] that somebody still holds (a `sendfile` under way) stays open until it is dropped, so the bound
//! is the limit plus the handles in use at the moment. The sweep is a clock: a slot that was used since the hand
//! passed gets a second chance. The common case, a slot with an open file, takes no shared lock.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::disk::Disk;

/// An open file of a log.
#[derive(Debug)]
pub struct FileHandle {
    file: File,
    path: PathBuf,
    writable: bool,
    open: Arc<AtomicUsize>,
}

impl FileHandle {
    /// The file, for positioned reads and `sendfile`.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the file is (or was: a deleted segment stays readable through its handle).
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for FileHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of one file of a log: open or not.
#[derive(Debug, Default)]
pub(crate) struct HandleSlot {
    current: Mutex<Option<Arc<FileHandle>>>,
    used: AtomicBool,
    queued: AtomicBool,
    /// The file is not opened any more; changes under the lock of `current`.
    retired: AtomicBool,
}

impl HandleSlot {
    /// Closes the file (as soon as the last user lets it go).
    pub(crate) fn close(&self) {
        *self.current.lock() = None;
    }

    /// True once the file is closed for good.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Closes the file for good: its path may be that of another log's file from now on.
    pub(crate) fn retire(&self) {
        let mut current = self.current.lock();
        self.retired.store(true, Ordering::Relaxed);
        *current = None;
    }
}

/// What the caller wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read an existing file.
    Read,
    /// Write, creating the file if needed.
    Write,
}

/// The set of open files of a process.
#[derive(Debug)]
pub struct FileHandles {
    disk: Disk,
    limit: usize,
    open: Arc<AtomicUsize>,
    opened: AtomicU64,
    hand: Mutex<VecDeque<Weak<HandleSlot>>>,
}

impl FileHandles {
    /// At most `limit` files stay open while nobody uses them. The limit is at least 8.
    pub fn new(disk: Disk, limit: usize) -> Self {
        Self {
            disk,
            limit: limit.max(8),
            open: Arc::default(),
            opened: AtomicU64::new(0),
            hand: Mutex::default(),
        }
    }

    /// The way to the file system that these handles use.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Files open at the moment, in use ones included.
    pub fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many files may stay open while nobody uses them.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How often a file was opened since the start. A figure that grows fast says that the limit is too low.
    pub fn opened_total(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// An estimate of the memory behind the open handles, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.open_count() * (std::mem::size_of::<FileHandle>() + 128) + self.hand.lock().capacity() * 8
    }

    /// The handle of `slot`, opened if needed. A reader takes a handle that was opened for writing; a writer
    /// replaces one that was opened for reading. [`io::ErrorKind::NotFound`] for a retired one.
    pub(crate) fn get(
        &self,
        slot: &Arc<HandleSlot>,
        access: Access,
        path: impl Fn() -> PathBuf,
    ) -> io::Result<Arc<FileHandle>> {
        let handle = {
            let mut current = slot.current.lock();
            if let Some(handle) = current.as_ref()
                && (access == Access::Read || handle.writable)
            {
                if !slot.used.load(Ordering::Relaxed) {
                    slot.used.store(true, Ordering::Relaxed);
                }
                return Ok(Arc::clone(handle));
            }
            if slot.retired.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let handle = Arc::new(self.open(access, path())?);
            *current = Some(Arc::clone(&handle));
            slot.used.store(true, Ordering::Relaxed);
            handle
        };
        if !slot.queued.swap(true, Ordering::Relaxed) {
            let mut hand = self.hand.lock();
            hand.push_back(Arc::downgrade(slot));
            let limit = self.limit;
            Self::sweep(&mut hand, limit);
        }
        Ok(handle)
    }

    fn open(&self, access: Access, path: PathBuf) -> io::Result<FileHandle> {
        let attempt = || match access {
            Access::Read => self.disk.open_read(&path),
            Access::Write => self.disk.open_write(&path),
        };
        let file = match attempt() {
            Err(error) if is_out_of_descriptors(&error) => {
                let mut hand = self.hand.lock();
                let keep = hand.len() / 2;
                Self::sweep(&mut hand, keep);
                drop(hand);
                attempt()?
            }
            other => other?,
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(FileHandle { file, path, writable: access == Access::Write, open: Arc::clone(&self.open) })
    }

    /// Closes files until at most `keep` slots are queued. Each slot is looked at no more than twice.
    fn sweep(hand: &mut VecDeque<Weak<HandleSlot>>, keep: usize) {
        let mut looks = hand.len() * 2;
        while hand.len() > keep && looks > 0 {
            looks -= 1;
            let Some(weak) = hand.pop_front() else { break };
            let Some(slot) = weak.upgrade() else { continue };
            if slot.used.swap(false, Ordering::Relaxed) {
                hand.push_back(weak);
                continue;
            }
            // A slot that is locked is in use right now; it must not be waited for under the shared lock.
            match slot.current.try_lock() {
                Some(mut current) => {
                    *current = None;
                    slot.queued.store(false, Ordering::Relaxed);
                }
                None => hand.push_back(weak),
            }
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(rustix::io::Errno::MFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NFILE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_stay_within_the_limit_and_used_ones_survive_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 16);
        let slots: Vec<Arc<HandleSlot>> = (0..100).map(|_| Arc::default()).collect();
        let path = |index: usize| dir.path().join(index.to_string());
        let favourite = handles.get(&slots[0], Access::Write, || path(0)).unwrap();
        let identity = Arc::as_ptr(&favourite);
        drop(favourite);
        for index in 1..100 {
            handles.get(&slots[index], Access::Write, || path(index)).unwrap();
            assert!(handles.open_count() <= 16);
            let again = handles.get(&slots[0], Access::Read, || path(0)).unwrap();
            assert_eq!(Arc::as_ptr(&again), identity, "the file used in between was closed");
        }
    }

    #[test]
    fn a_handle_in_use_outlives_its_eviction() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 8);
        let held = Arc::new(HandleSlot::default());
        let handle = handles.get(&held, Access::Write, || dir.path().join("held")).unwrap();
        let others: Vec<Arc<HandleSlot>> = (0..50).map(|_| Arc::default()).collect();
        for (index, slot) in others.iter().enumerate() {
            handles.get(slot, Access::Write, || dir.path().join(index.to_string())).unwrap();
        }
        handles.disk().write_all_at(handle.file(), handle.path(), b"still open", 0).unwrap();
        assert!(handles.open_count() <= 9);
    }
}
