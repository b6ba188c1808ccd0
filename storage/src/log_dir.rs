//! One log directory: its lock, `meta.properties`, the clean-shutdown marker and the log start checkpoint.
//!
//! Invariant: [`LogDir::lock`] takes the lock before any other byte in the directory is read or written. The lock is
//! the one a JVM broker takes (a POSIX record lock on `.lock`), so the two exclude each other. Such locks belong to a
//! process, therefore a table inside of the process keeps two users apart.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::fs::{FlockOperation, fcntl_lock};

use weir_protocol::wire::Uuid;

use crate::checkpoint::{self, LOG_START_OFFSET_CHECKPOINT, OffsetMap};
use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::topic_partition::TopicPartition;

/// The file whose lock says that a directory is in use.
pub const LOCK_FILE: &str = ".lock";
/// Who the directory belongs to.
pub const META_PROPERTIES: &str = "meta.properties";
/// Written last on a clean stop, removed before the first write of a start.
pub const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";

const SMALL_FILE_LIMIT_BYTES: u64 = 1 << 20;

/// Directories locked by this process: (device, inode).
static LOCKED: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

/// `meta.properties`, version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// `cluster.id`.
    pub cluster_id: String,
    /// `node.id`.
    pub node_id: i32,
    /// `directory.id`; absent in directories of old releases.
    pub directory_id: Option<Uuid>,
    /// Everything else that was in the file, kept when it is written again.
    pub other: BTreeMap<String, String>,
}

impl MetaProperties {
    /// Reads the content of the file. Input is untrusted.
    ///
    /// # Errors
    /// [`StorageError::MetaProperties`], whose message says how to mend it.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, StorageError> {
        let fail = |reason: String| StorageError::MetaProperties { path: path.to_path_buf(), reason };
        let mend = "restore the file from another log directory of this node (only directory.id differs), or, \
                    if the directory holds nothing of value, remove it and let it be formatted again";
        let text = std::str::from_utf8(bytes).map_err(|_| fail(format!("it is not text; {mend}")))?;
        let mut values = parse_properties(text);
        if values.is_empty() {
            return Err(fail(format!("it is empty; {mend}")));
        }
        let version = values.remove("version").ok_or_else(|| fail(format!("it has no version; {mend}")))?;
        match version.as_str() {
            "0" => {
                return Err(fail(
                    "it is of version 0: the directory belongs to a broker whose topics are in ZooKeeper; migrate its \
                     cluster to KRaft with Kafka 3.9 first, or name another directory"
                        .to_owned(),
                ));
            }
            "1" => {}
            other => return Err(fail(format!("version {other:?} is unknown, 1 is read"))),
        }
        let node = values.remove("node.id").ok_or_else(|| fail(format!("it has no node.id; {mend}")))?;
        let node_id = node
            .parse()
            .ok()
            .filter(|id: &i32| *id >= 0)
            .ok_or_else(|| fail(format!("node.id={node:?} is not a node id; {mend}")))?;
        let cluster_id =
            values.remove("cluster.id").ok_or_else(|| fail(format!("it has no cluster.id; {mend}")))?;
        let directory_id = match values.remove("directory.id") {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| fail(format!("directory.id={text:?} is not a directory id; {mend}")))?,
            ),
        };
        Ok(Self { cluster_id, node_id, directory_id, other: values })
    }

    /// The content of the file, version 1.
    pub fn format(&self) -> Vec<u8> {
        let mut text = String::from("#\n");
        let mut line = |key: &str, value: &str| {
            let _ = writeln!(text, "{}={}", escape(key, true), escape(value, false));
        };
        line("cluster.id", &self.cluster_id);
        if let Some(directory_id) = self.directory_id {
            line("directory.id", &directory_id.to_string());
        }
        line("node.id", &self.node_id.to_string());
        line("version", "1");
        for (key, value) in &self.other {
            line(key, value);
        }
        text.into_bytes()
    }
}

fn escape(text: &str, is_key: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, c) in text.chars().enumerate() {
        match c {
            '\\' | '=' | ':' | '#' | '!' => out.extend(['\\', c]),
            ' ' if is_key || index == 0 => out.push_str("\\ "),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out
}

/// The subset of the Java properties format that such files use: comments, `key=value`, `key:value`, backslashes.
fn parse_properties(text: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (mut key, mut value, mut in_value, mut escaped) = (String::new(), String::new(), false, false);
        for c in line.chars() {
            let target = if in_value { &mut value } else { &mut key };
            if escaped {
                escaped = false;
                target.push(match c {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
            } else if c == '\\' {
                escaped = true;
            } else if !in_value && (c == '=' || c == ':') {
                in_value = true;
            } else {
                target.push(c);
            }
        }
        values.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    values
}

/// Reads the marker of a clean stop: its broker epoch, `None` when an old release wrote it (an empty file) or when it
/// is not readable as JSON. Input is untrusted.
pub fn parse_clean_shutdown(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let after = text.split_once("\"brokerEpoch\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
    after.get(..end)?.parse().ok()
}

/// The lock file of a directory that is in use, and what tells the directory from every other.
type Lock = (File, (u64, u64));

/// What tells a directory from every other, whatever it is called.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Makes the directory if it is missing and takes its lock.
fn acquire(disk: &Disk, path: &Path) -> Result<Lock, StorageError> {
    let made = disk.create_dir_all(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::new(io::ErrorKind::NotADirectory, "it is there and is no directory")
        }
        _ => error,
    });
    made.context("create", path)?;
    let lock_path = path.join(LOCK_FILE);
    let identity = identity(path).context("look at", path)?;
    // The table comes first: opening and closing the file would drop the lock that this process may hold.
    if !LOCKED.lock().insert(identity) {
        return Err(StorageError::DirLocked { path: path.to_path_buf() });
    }
    let locked = disk.open_write(&lock_path).context("open", &lock_path).and_then(|file| {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                Err(StorageError::DirLocked { path: path.to_path_buf() })
            }
            Err(errno) => Err(io::Error::from(errno)).context("lock", &lock_path),
        }
    });
    match locked {
        Ok(file) => Ok((file, identity)),
        Err(error) => {
            LOCKED.lock().remove(&identity);
            Err(error)
        }
    }
}

/// A log directory whose lock is held, or one that is offline.
#[derive(Debug)]
pub struct LogDir {
    path: PathBuf,
    disk: Disk,
    lock: Mutex<Option<Lock>>,
    had_clean_shutdown: bool,
    /// The marker of the last clean stop is still in the directory.
    has_marker: AtomicBool,
    previous_broker_epoch: Option<i64>,
    offline: AtomicBool,
    vanished: AtomicBool,
    offline_reason: RwLock<String>,
    id: OnceLock<Uuid>,
    starts: Mutex<LogStarts>,
    starts_file: Mutex<u64>,
}

/// Log start offsets that the base offset of the first segment does not tell.
#[derive(Debug, Default)]
struct LogStarts {
    offsets: OffsetMap,
    /// Grows with each change; `LogDir::starts_file` holds the version that is on disk.
    version: u64,
}

impl LogDir {
    /// Creates the directory if needed and takes its lock, before anything else in it is touched.
    ///
    /// # Errors
    /// [`StorageError::DirLocked`] when somebody else holds it, [`StorageError::Io`].
    pub fn lock(disk: &Disk, path: &Path) -> Result<Self, StorageError> {
        let mut dir = Self::take_lock(disk, path, true)?;
        dir.begin()?;
        Ok(dir)
    }

    /// Locks several directories; nothing in any of them is touched before all locks are held.
    ///
    /// Where none of them is formatted this is a first start: all are made, and all must be usable. Where one is, another
    /// that is not there, or cannot be used, may be a disk that is not mounted: it is offline and nothing is made in its
    /// place. See [`Self::bring_in`].
    ///
    /// # Errors
    /// As [`Self::lock`]; [`StorageError::Io`] only when a first start meets it, or every directory does;
    /// [`StorageError::DirNamedTwice`].
    pub fn lock_all(disk: &Disk, paths: &[PathBuf]) -> Result<Vec<Self>, StorageError> {
        let is_first = !paths.iter().any(|path| path.join(META_PROPERTIES).exists());
        let mut failure = None;
        let mut dirs = Vec::with_capacity(paths.len());
        for path in paths {
            let is_missing =
                std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            dirs.push(match Self::take_lock(disk, path, is_first || !is_missing) {
                Ok(dir) => dir,
                Err(error @ StorageError::DirLocked { .. }) => {
                    let same = identity(path).ok().and_then(|own| {
                        dirs.iter().find(|dir: &&Self| {
                            dir.lock.lock().as_ref().is_some_and(|(_, other)| *other == own)
                        })
                    });
                    return Err(match same {
                        None => error,
                        Some(dir) => {
                            StorageError::DirNamedTwice { path: path.clone(), other: dir.path.clone() }
                        }
                    });
                }
                Err(error @ StorageError::Io { .. }) if !is_first => {
                    let dir = Self::without_lock(disk, path);
                    dir.mark_offline(error.to_string());
                    failure.get_or_insert(error);
                    dir
                }
                Err(error) => return Err(error),
            });
        }
        for dir in &mut dirs {
            if dir.is_online()
                && let Err(error) = dir.begin()
            {
                if is_first {
                    return Err(error);
                }
                dir.mark_offline(error.to_string());
                failure.get_or_insert(error);
            }
        }
        match failure {
            Some(error) if !dirs.iter().any(Self::is_online) => Err(error),
            _ => Ok(dirs),
        }
    }

    /// Makes and locks a directory that was left out at the start, now that it is known to be a new one.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn bring_in(&self) -> Result<(), StorageError> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            *lock = Some(acquire(&self.disk, &self.path)?);
        }
        self.offline.store(false, Ordering::Release);
        Ok(())
    }

    /// The first reads under the lock.
    fn begin(&mut self) -> Result<(), StorageError> {
        self.read_clean_shutdown_marker()?;
        self.starts.get_mut().offsets = self.read_checkpoint(LOG_START_OFFSET_CHECKPOINT);
        Ok(())
    }

    /// With `make` the directory is made where it is missing.
    fn take_lock(disk: &Disk, path: &Path, make: bool) -> Result<Self, StorageError> {
        let dir = Self::without_lock(disk, path);
        match make {
            true => *dir.lock.lock() = Some(acquire(disk, path)?),
            // Whether that is a fault is not known yet.
            false => dir.set_offline("the directory does not exist".to_owned()),
        }
        Ok(dir)
    }

    fn without_lock(disk: &Disk, path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            disk: disk.clone(),
            lock: Mutex::new(None),
            had_clean_shutdown: false,
            has_marker: AtomicBool::new(false),
            previous_broker_epoch: None,
            offline: AtomicBool::new(false),
            vanished: AtomicBool::new(false),
            offline_reason: RwLock::default(),
            id: OnceLock::new(),
            starts: Mutex::default(),
            starts_file: Mutex::new(0),
        }
    }

    /// Its `directory.id`, once `meta.properties` was read or written.
    pub fn id(&self) -> Option<Uuid> {
        self.id.get().copied()
    }

    /// Size of the file system that holds the directory, and what of it is free for this process, bytes.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn space_bytes(&self) -> Result<(u64, u64), StorageError> {
        let stat = rustix::fs::statvfs(&self.path).map_err(io::Error::from).context("look at", &self.path)?;
        Ok((stat.f_blocks.saturating_mul(stat.f_frsize), stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The way to the file system.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// True when the last user stopped cleanly: no log needs a check.
    pub fn had_clean_shutdown(&self) -> bool {
        self.had_clean_shutdown
    }

    /// The broker epoch that the last clean stop left, for the registration with a controller.
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        self.previous_broker_epoch
    }

    /// False after [`Self::mark_offline`].
    pub fn is_online(&self) -> bool {
        !self.offline.load(Ordering::Acquire)
    }

    /// Why the directory is offline.
    pub fn offline_reason(&self) -> Option<String> {
        (!self.is_online()).then(|| self.offline_reason.read().clone())
    }

    /// Notes that the directory cannot be used. No clean-shutdown marker will be written to it.
    pub fn mark_offline(&self, reason: impl Into<String>) {
        let reason = reason.into();
        tracing::error!(dir = %self.path.display(), reason, "log directory is offline");
        self.set_offline(reason);
    }

    fn set_offline(&self, reason: String) {
        *self.offline_reason.write() = reason;
        self.offline.store(true, Ordering::Release);
    }

    /// Goes offline when the directory has vanished (unmounted, removed, replaced): what is written to files that are
    /// still open would be lost. Comes back when the very same directory is there again.
    pub(crate) fn look_for_it(&self) {
        let Some(expected) = self.lock.lock().as_ref().and_then(|(file, _)| file.metadata().ok()) else {
            return;
        };
        let there = std::fs::metadata(self.path.join(LOCK_FILE))
            .is_ok_and(|found| (found.dev(), found.ino()) == (expected.dev(), expected.ino()));
        if !there && self.is_online() {
            self.vanished.store(true, Ordering::Release);
            self.mark_offline("the directory has vanished");
        } else if there && self.vanished.swap(false, Ordering::AcqRel) {
            tracing::info!(dir = %self.path.display(), "log directory is there again");
            self.offline.store(false, Ordering::Release);
        }
    }

    /// The content of `meta.properties`, `None` when the file is not there.
    ///
    /// # Errors
    /// [`StorageError::MetaProperties`] when it is empty or garbled, [`StorageError::Io`].
    pub fn meta_properties(&self) -> Result<Option<MetaProperties>, StorageError> {
        let path = self.path.join(META_PROPERTIES);
        let Some(bytes) = self.disk.read_small(&path, SMALL_FILE_LIMIT_BYTES).context("read", &path)? else {
            return Ok(None);
        };
        let properties = MetaProperties::parse(&bytes, &path)?;
        self.note_id(&properties);
        Ok(Some(properties))
    }

    /// Replaces `meta.properties`, durably.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn write_meta_properties(&self, properties: &MetaProperties) -> Result<(), StorageError> {
        let path = self.path.join(META_PROPERTIES);
        self.disk.replace(&path, &properties.format(), true).context("write", &path)?;
        self.note_id(properties);
        Ok(())
    }

    fn note_id(&self, properties: &MetaProperties) {
        if let Some(id) = properties.directory_id {
            self.id.get_or_init(|| id);
        }
    }

    /// Reads the offset checkpoint `name`. A garbled one counts as empty, with a warning: what it held is found
    /// again in the logs.
    pub fn read_checkpoint(&self, name: &str) -> OffsetMap {
        let path = self.path.join(name);
        checkpoint::read_offsets(&self.disk, &path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "ignoring the checkpoint, its content is rebuilt from the logs");
            OffsetMap::new()
        })
    }

    /// Replaces the offset checkpoint `name`, durably.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn write_checkpoint<'a>(
        &self,
        name: &str,
        offsets: impl ExactSizeIterator<Item = (&'a TopicPartition, i64)> + Clone,
    ) -> Result<(), StorageError> {
        let path = self.path.join(name);
        let _lock = self.hold_lock(&path)?;
        checkpoint::write_offsets(&self.disk, &path, offsets)
    }

    /// Keeps the lock of the directory from being given back while something is written: after that it may be another
    /// server's.
    fn hold_lock(&self, path: &Path) -> Result<MutexGuard<'_, Option<Lock>>, StorageError> {
        let lock = self.lock.lock();
        match lock.is_some() {
            true => Ok(lock),
            false => {
                let given_back =
                    io::Error::new(io::ErrorKind::NotConnected, "the directory's lock was given back");
                Err(given_back).context("write", path)
            }
        }
    }

    /// The checkpointed log start offset of a partition, 0 if there is none.
    pub fn log_start_offset(&self, name: &TopicPartition) -> i64 {
        self.starts.lock().offsets.get(name).copied().unwrap_or(0)
    }

    /// Notes (in memory) that a log starts at `start`, or with `None` that the base offset of its first segment says
    /// so. Returns the version to wait for with [`Self::persist_log_starts`].
    pub(crate) fn set_log_start(&self, name: &TopicPartition, start: Option<i64>) -> u64 {
        let mut starts = self.starts.lock();
        let changed = match start {
            Some(start) => starts.offsets.insert(name.clone(), start) != Some(start),
            None => starts.offsets.remove(name).is_some(),
        };
        if changed {
            starts.version += 1;
        }
        starts.version
    }

    /// Writes the log start checkpoint unless `version` is on disk already. Callers that wait at the same time are
    /// served by one write.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn persist_log_starts(&self, version: u64) -> Result<(), StorageError> {
        let mut on_disk = self.starts_file.lock();
        if *on_disk >= version {
            return Ok(());
        }
        let (bytes, written) = {
            let starts = self.starts.lock();
            let lines = starts.offsets.iter().map(|(name, offset)| (name, *offset));
            (checkpoint::format_offsets(lines), starts.version)
        };
        let path = self.path.join(LOG_START_OFFSET_CHECKPOINT);
        let _lock = self.hold_lock(&path)?;
        self.disk.replace(&path, &bytes, true).context("write", &path)?;
        *on_disk = written;
        Ok(())
    }

    /// Writes the log start checkpoint if it is behind.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn checkpoint_log_starts(&self) -> Result<(), StorageError> {
        let version = self.starts.lock().version;
        self.persist_log_starts(version)
    }

    fn read_clean_shutdown_marker(&mut self) -> Result<(), StorageError> {
        let path = self.path.join(CLEAN_SHUTDOWN_FILE);
        let Some(bytes) = self.disk.read_small(&path, SMALL_FILE_LIMIT_BYTES).context("read", &path)? else {
            return Ok(());
        };
        self.had_clean_shutdown = true;
        *self.has_marker.get_mut() = true;
        self.previous_broker_epoch = parse_clean_shutdown(&bytes);
        Ok(())
    }

    /// Removes the marker of the last clean stop: to be done before a log is touched, so that a crash from here on is seen
    /// as one, and not earlier, so that a start that is refused leaves the stop before it a clean one.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn take_clean_shutdown_marker(&self) -> Result<(), StorageError> {
        if self.has_marker.load(Ordering::Acquire) {
            let path = self.path.join(CLEAN_SHUTDOWN_FILE);
            self.disk.remove_file(&path).context("remove", &path)?;
            self.disk.sync_dir(&self.path).context("sync", &self.path)?;
            self.has_marker.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Writes the marker of a clean stop. The last write of a clean stop: everything else must be durable.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub(crate) fn write_clean_shutdown_marker(&self, broker_epoch: i64) -> Result<(), StorageError> {
        let path = self.path.join(CLEAN_SHUTDOWN_FILE);
        let json = format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}");
        self.disk.replace(&path, json.as_bytes(), true).context("write", &path)
    }

    /// Gives the lock back. Dropping does the same.
    pub fn unlock(&self) {
        if let Some((file, identity)) = self.lock.lock().take() {
            // Closing releases the lock; only then may another part of this process take it.
            drop(file);
            LOCKED.lock().remove(&identity);
        }
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        self.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_user_of_a_directory_is_refused_and_the_first_keeps_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = LogDir::lock(&Disk::new(), dir.path()).unwrap();
        for _ in 0..2 {
            let error = LogDir::lock(&Disk::new(), dir.path()).unwrap_err();
            assert!(matches!(error, StorageError::DirLocked { .. }), "{error}");
        }
        drop(first);
        LogDir::lock(&Disk::new(), dir.path()).unwrap();
    }

    #[test]
    fn a_directory_that_is_named_twice_is_not_said_to_be_in_use_by_others() {
        let root = tempfile::tempdir().unwrap();
        let (plain, link) = (root.path().join("a"), root.path().join("link"));
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        for other in [root.path().join("../").join(root.path().file_name().unwrap()).join("a"), link] {
            let error = LogDir::lock_all(&Disk::new(), &[plain.clone(), other.clone()]).unwrap_err();
            let wanted = format!("{} and {} are the same directory", other.display(), plain.display());
            assert!(error.to_string().starts_with(&wanted), "{error}");
        }
        LogDir::lock(&Disk::new(), &plain).unwrap();
    }

    #[test]
    fn meta_properties_are_read_and_unknown_keys_kept() {
        let path = Path::new("/d/meta.properties");
        let text = "#\n#Mon Nov 30 03:44:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=1\nnode.id=3\n\
                    directory.id=e6wPmSq8Rw2x1Vw9a0bcDQ\nx\\ y=a\\=b\n";
        let parsed = MetaProperties::parse(text.as_bytes(), path).unwrap();
        assert_eq!((parsed.node_id, parsed.cluster_id.as_str()), (3, "4L6g3nShT-eMCtK--X86sw"));
        assert_eq!(parsed.directory_id.unwrap().to_string(), "e6wPmSq8Rw2x1Vw9a0bcDQ");
        assert_eq!(parsed.other.get("x y").map(String::as_str), Some("a=b"));
        assert_eq!(MetaProperties::parse(&parsed.format(), path).unwrap(), parsed);
        let old = MetaProperties::parse(b"version=1\nnode.id=7\ncluster.id=c\n", path).unwrap();
        assert_eq!((old.node_id, old.directory_id), (7, None));
        let of_zookeeper =
            MetaProperties::parse(b"version=0\nbroker.id=7\ncluster.id=c\n", path).unwrap_err();
        assert!(of_zookeeper.to_string().contains("ZooKeeper"), "{of_zookeeper}");
    }

    #[test]
    fn a_damaged_meta_properties_says_how_to_mend_it() {
        let path = Path::new("/d/meta.properties");
        for bytes in [&b""[..], b"#\n", b"\xff", b"version=1\n", b"version=1\nnode.id=x\ncluster.id=c\n"] {
            let error = MetaProperties::parse(bytes, path).unwrap_err().to_string();
            assert!(error.contains("restore the file") && error.contains("/d/meta.properties"), "{error}");
        }
        assert!(MetaProperties::parse(b"version=9\n", path).unwrap_err().to_string().contains("unknown"));
    }

    #[test]
    fn a_directory_whose_lock_was_given_back_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let dir = LogDir::lock(&Disk::new(), root.path()).unwrap();
        let name = TopicPartition::new("t", 0);
        let version = dir.set_log_start(&name, Some(7));
        dir.persist_log_starts(version).unwrap();
        dir.unlock();
        // Another server's from here on.
        let other = LogDir::lock(&Disk::new(), root.path()).unwrap();
        let version = dir.set_log_start(&name, Some(3));
        assert!(dir.persist_log_starts(version).is_err());
        assert!(dir.write_checkpoint("recovery-point-offset-checkpoint", [(&name, 3)].into_iter()).is_err());
        assert_eq!(other.log_start_offset(&name), 7);
        assert!(!root.path().join("recovery-point-offset-checkpoint").exists());
    }

    #[test]
    fn the_marker_of_a_clean_stop_stays_until_it_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let first = LogDir::lock(&Disk::new(), dir.path()).unwrap();
        assert!(!first.had_clean_shutdown());
        first.write_clean_shutdown_marker(42).unwrap();
        drop(first);
        let second = LogDir::lock(&Disk::new(), dir.path()).unwrap();
        assert!(second.had_clean_shutdown());
        assert_eq!(second.previous_broker_epoch(), Some(42));
        drop(second);
        // A start that went no further.
        let third = LogDir::lock(&Disk::new(), dir.path()).unwrap();
        assert!(third.had_clean_shutdown());
        third.take_clean_shutdown_marker().unwrap();
        third.take_clean_shutdown_marker().unwrap();
        drop(third);
        assert!(!LogDir::lock(&Disk::new(), dir.path()).unwrap().had_clean_shutdown());
        std::fs::write(dir.path().join(CLEAN_SHUTDOWN_FILE), b"").unwrap();
        let old_release = LogDir::lock(&Disk::new(), dir.path()).unwrap();
        assert!(old_release.had_clean_shutdown() && old_release.previous_broker_epoch().is_none());
    }

    #[test]
    fn garbled_markers_are_read_without_an_epoch() {
        for bytes in [&b"{"[..], b"{\"brokerEpoch\":}", b"{\"brokerEpoch\":9999999999999999999999}", b"\xff"]
        {
            assert_eq!(parse_clean_shutdown(bytes), None);
        }
        assert_eq!(parse_clean_shutdown(b"{\"version\":0,\"brokerEpoch\": -1}"), Some(-1));
    }
}
