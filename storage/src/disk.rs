//! Every call into the file system goes through [`Disk`], so that tests can make each of them fail.
//!
//! A [`Disk`] without a hook adds one branch to a system call. With a [`FaultHook`] the hook sees each attempt
//! before it is made and decides: let it through, fail it with an error number, write only a part of it and report
//! that (short write), or write only a part and then fail (torn write, what a crash leaves).

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Open an existing file for reading.
    OpenRead,
    /// Open or create a file for reading and writing.
    OpenWrite,
    /// Read bytes.
    Read,
    /// Write bytes.
    Write,
    /// Allocate blocks behind the end of a file.
    Allocate,
    /// Cut or grow a file.
    SetLength,
    /// `fdatasync` or `fsync` of a file.
    Sync,
    /// `fsync` of a directory, or `syncfs`.
    SyncDir,
    /// Rename a file or directory.
    Rename,
    /// Remove a file or directory.
    Remove,
    /// Create a directory.
    CreateDir,
    /// List a directory.
    List,
}

impl Op {
    /// True for everything that changes the disk or makes a change durable.
    pub fn is_mutation(self) -> bool {
        !matches!(self, Self::OpenRead | Self::Read | Self::List)
    }
}

/// One access that is about to be made.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// What.
    pub op: Op,
    /// On which file or directory.
    pub path: &'a Path,
    /// Bytes to read or write, or the new length.
    pub length: u64,
}

/// What a [`FaultHook`] decides about an [`Attempt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let it through.
    Proceed,
    /// Fail with this `errno`.
    Fail(i32),
    /// [`Op::Write`] only: write this many bytes and report that many.
    Short(usize),
    /// [`Op::Write`] only: write this many bytes, then fail with this `errno`.
    Torn(usize, i32),
}

/// Decides about every access to the disk. For tests.
pub trait FaultHook: Send + Sync {
    /// Called before the access is made.
    fn before(&self, attempt: &Attempt<'_>) -> Verdict;
}

/// The way to the file system.
#[derive(Clone, Default)]
pub struct Disk {
    hook: Option<Arc<dyn FaultHook>>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Disk {
    /// The real file system.
    pub fn new() -> Self {
        Self::default()
    }

    /// The real file system behind a hook that can make accesses fail.
    pub fn with_hook(hook: Arc<dyn FaultHook>) -> Self {
        Self { hook: Some(hook) }
    }

    fn check(&self, op: Op, path: &Path, length: u64) -> io::Result<()> {
        match &self.hook {
            None => Ok(()),
            Some(hook) => match hook.before(&Attempt { op, path, length }) {
                Verdict::Fail(errno) | Verdict::Torn(_, errno) => Err(io::Error::from_raw_os_error(errno)),
                Verdict::Proceed | Verdict::Short(_) => Ok(()),
            },
        }
    }

    pub(crate) fn open_read(&self, path: &Path) -> io::Result<File> {
        self.check(Op::OpenRead, path, 0)?;
        File::open(path)
    }

    pub(crate) fn open_write(&self, path: &Path) -> io::Result<File> {
        self.check(Op::OpenWrite, path, 0)?;
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }

    /// Fills `buffer` from `position` as far as the file goes; returns the bytes read.
    pub(crate) fn read_at(
        &self,
        file: &File,
        path: &Path,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        self.check(Op::Read, path, buffer.len() as u64)?;
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// One `pwritev`; returns the bytes written, which may be fewer than asked for.
    pub(crate) fn write_vectored_at(
        &self,
        file: &File,
        path: &Path,
        slices: &[IoSlice<'_>],
        position: u64,
    ) -> io::Result<usize> {
        if let Some(hook) = &self.hook {
            let length: usize = slices.iter().map(|slice| slice.len()).sum();
            let (part, errno) = match hook.before(&Attempt { op: Op::Write, path, length: length as u64 }) {
                Verdict::Proceed => (length, None),
                Verdict::Fail(errno) => return Err(io::Error::from_raw_os_error(errno)),
                Verdict::Short(part) => (part.min(length), None),
                Verdict::Torn(part, errno) => (part.min(length), Some(errno)),
            };
            if part < length {
                let bytes: Vec<u8> =
                    slices.iter().flat_map(|slice| slice.iter().copied()).take(part).collect();
                file.write_all_at(&bytes, position)?;
                return errno.map_or(Ok(part), |errno| Err(io::Error::from_raw_os_error(errno)));
            }
            if let Some(errno) = errno {
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        loop {
            match rustix::io::pwritev(file, slices, position) {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Before a write that somebody else makes.
    pub(crate) fn before_write(&self, path: &Path, length: usize) -> io::Result<()> {
        self.check(Op::Write, path, length as u64)
    }

    /// Writes all of `bytes` at `position`.
    pub(crate) fn write_all_at(
        &self,
        file: &File,
        path: &Path,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let count =
                self.write_vectored_at(file, path, &[IoSlice::new(&bytes[done..])], position + done as u64)?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done += count;
        }
        Ok(())
    }

    pub(crate) fn set_length(&self, file: &File, path: &Path, length: u64) -> io::Result<()> {
        self.check(Op::SetLength, path, length)?;
        file.set_len(length)
    }

    /// Allocates blocks for `length` bytes from `position` on; the file is not longer for it.
    pub(crate) fn allocate(&self, file: &File, path: &Path, position: u64, length: u64) -> io::Result<()> {
        self.check(Op::Allocate, path, length)?;
        Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, position, length)?)
    }

    pub(crate) fn sync_data(&self, file: &File, path: &Path) -> io::Result<()> {
        self.check(Op::Sync, path, 0)?;
        file.sync_data()
    }

    pub(crate) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.check(Op::SyncDir, path, 0)?;
        File::open(path)?.sync_all()
    }

    /// Writes out everything of the file system that holds `path`.
    pub(crate) fn sync_file_system(&self, path: &Path) -> io::Result<()> {
        self.check(Op::SyncDir, path, 0)?;
        rustix::fs::syncfs(File::open(path)?)?;
        Ok(())
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Op::Rename, from, 0)?;
        fs::rename(from, to)
    }

    /// Removes a file; a file that is not there is no error.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check(Op::Remove, path, 0)?;
        ignore_missing(fs::remove_file(path))
    }

    /// Removes a directory with all that is in it; one that is not there is no error.
    pub(crate) fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.check(Op::Remove, path, 0)?;
        ignore_missing(fs::remove_dir_all(path))
    }

    /// Makes one directory; those above it must be there.
    pub(crate) fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.check(Op::CreateDir, path, 0)?;
        fs::create_dir(path)
    }

    pub(crate) fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.check(Op::CreateDir, path, 0)?;
        fs::create_dir_all(path)
    }

    /// Names and kinds of the entries of a directory, in no order. Names that are not UTF-8 are left out: no file
    /// of Kafka's has one.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.check(Op::List, path, 0)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let mut kind = entry.file_type()?;
            if kind.is_symlink() {
                let Ok(target) = fs::metadata(entry.path()) else { continue };
                kind = target.file_type();
            }
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((name, kind.is_dir()));
            }
        }
        Ok(entries)
    }

    /// The length of a file.
    pub(crate) fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    /// When a file was last written, ms since 1970.
    pub(crate) fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        let modified = fs::metadata(path)?.modified()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// The whole of a small file, `None` when it is not there. A file above `limit` bytes is an error of kind
    /// [`io::ErrorKind::FileTooLarge`], before anything is allocated for it.
    pub(crate) fn read_small(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let mut file = match self.open_read(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        self.check(Op::Read, path, 0)?;
        let length = file.metadata()?.len();
        if length > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.by_ref().take(limit).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Replaces `path` by `bytes` through a `.tmp` file beside it, so that a reader sees the old or the new content
    /// and never a part. With `durable` the content and the name are synced before it returns.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let file = self.open_write(&temporary)?;
        // Only one that a crash left: a file that was cut is written out by ext4 when it is closed.
        if file.metadata()?.len() > 0 {
            self.set_length(&file, &temporary, 0)?;
        }
        self.write_all_at(&file, &temporary, bytes, 0)?;
        if durable {
            self.sync_data(&file, &temporary)?;
        }
        drop(file);
        self.rename(&temporary, path)?;
        if durable && let Some(parent) = path.parent() {
            self.sync_dir(parent)?;
        }
        Ok(())
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
