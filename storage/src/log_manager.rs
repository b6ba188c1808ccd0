//! All logs of all log directories: start, creation, deletion, the periodic work, the clean stop.
//!
//! Two steps to start, because the metadata log lies in one of the directories and says which partitions exist:
//! [`LogManager::lock`] takes every lock before a byte is read or written, [`LogManager::load`] opens the logs. The
//! periodic calls take the time as an argument and run on the caller's threads; none of them depends on how long the
//! process has been up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use weir_protocol::wire::Uuid;

use crate::checkpoint::{
    CLEANER_OFFSET_CHECKPOINT, OffsetMap, RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT,
    format_offsets,
};
use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::{IoContext, StorageError};
use crate::file_handles::FileHandles;
use crate::log::{Log, LogOptions, LogShared, StorageCounters};
use crate::log_dir::LogDir;
use crate::log_maintenance::Retained;
use crate::partition_metadata;
use crate::producer_state::ProducerIdQuota;
use crate::segment_quota::SegmentQuota;
use crate::topic_partition::{DirName, TopicPartition, parse_dir_name};

/// With more logs to sync than this, a clean stop syncs the file system as a whole.
const SYNC_ONE_BY_ONE: usize = 16;
/// So many deleted partitions of which the checkpoints may still speak: then they are written.
const MAX_DELETED_BETWEEN_CHECKPOINTS: usize = 1024;
/// A log that took no append for this long gives memory back that only a busy one needs.
const IDLE_MS: i64 = 60_000;

/// The limits of a manager.
#[derive(Debug, Clone)]
pub struct LogManagerConfig {
    /// Files that stay open while nobody uses them.
    pub max_open_files: usize,
    /// Segments that all logs together have beside the ones that they append to.
    pub max_segments: usize,
    /// Directories of deleted partitions that wait for their time; beyond it the oldest go at once.
    pub max_pending_deletes: usize,
    /// Producer ids that all logs together remember.
    pub max_producer_ids: usize,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// How long a log that is read-only after a disk failure waits before it tries again, ms.
    pub probe_interval_ms: i64,
    /// Threads that open logs at the start and close them at the stop; each takes a window of 64 KiB.
    pub recovery_threads: usize,
    /// The directory, one of those to lock, that holds the metadata log and no partitions. `None`: all hold partitions.
    pub metadata_dir: Option<PathBuf>,
}

impl Default for LogManagerConfig {
    /// 4096 files, any number of segments, a million producer ids for a day, a probe each second, a thread per core.
    fn default() -> Self {
        Self {
            max_open_files: 4096,
            max_segments: usize::MAX,
            max_pending_deletes: usize::MAX,
            max_producer_ids: 1_000_000,
            producer_id_expiration_ms: 86_400_000,
            probe_interval_ms: 1000,
            recovery_threads: std::thread::available_parallelism().map_or(1, usize::from),
            metadata_dir: None,
        }
    }
}

/// What the metadata says about a partition directory that was found at the start.
#[derive(Debug, Clone)]
pub enum Claim {
    /// The partition exists: open its log.
    Open {
        /// Its settings.
        config: Arc<LogConfig>,
        /// The topic's id.
        topic_id: Option<Uuid>,
    },
    /// No topic claims it: the directory is renamed to `-stray` and kept, unless its topic was deleted.
    Stray,
    /// Its topic was deleted: the directory is renamed to `-delete` and removed.
    Delete,
    /// Somebody else opens it (the metadata log).
    Ignore,
}

/// Knows which partitions exist.
pub trait LogTopics: Sync {
    /// What to do with the directory of `name`.
    fn claim(&self, name: &TopicPartition) -> Claim;

    /// True when the topic with this id is known to have been deleted: a directory of it that a crash kept from being
    /// removed goes the way of [`Claim::Delete`] instead of being set aside.
    fn was_deleted(&self, _topic_id: Uuid) -> bool {
        false
    }

    /// `directory.id` of the log directory that has the partition, where one is known to have it: a directory of the
    /// same name in another one is a copy, and is set aside.
    fn home(&self, _name: &TopicPartition) -> Option<Uuid> {
        None
    }
}

impl<F: Fn(&TopicPartition) -> Claim + Sync> LogTopics for F {
    fn claim(&self, name: &TopicPartition) -> Claim {
        self(name)
    }
}

/// What a start found.
#[derive(Debug, Default)]
pub struct StartSummary {
    /// Logs opened.
    pub opened: usize,
    /// Directories that no topic claimed, or that belong to another topic id.
    pub strays: Vec<PathBuf>,
    /// Directories of deleted partitions whose removal goes on.
    pub deleting: usize,
    /// Logs that could not be opened, and why. [`LogManager::get_or_create`] tries them again.
    pub failed: Vec<(TopicPartition, StorageError)>,
    /// Partitions whose directory is gone from a log directory that is there, with the high watermark they had.
    pub gone: Vec<(TopicPartition, i64)>,
}

#[derive(Debug)]
struct PendingDelete {
    path: PathBuf,
    due: Instant,
    /// Set while the directory still has the name of its partition, because it could not be renamed.
    named: Option<(Arc<LogDir>, TopicPartition)>,
}

/// How long after a failure a deletion is tried again.
const DELETE_RETRY: Duration = Duration::from_secs(1);
/// Longer than any process lives.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What the last checkpoints of a directory held, so that equal ones are not written again.
#[derive(Debug, Default)]
struct LastCheckpoints {
    recovery_points: u64,
    high_watermarks: u64,
    /// Partitions that were deleted since, of which they may still speak.
    deleted: HashSet<TopicPartition>,
}

/// All logs of all directories.
#[derive(Debug)]
pub struct LogManager {
    shared: Arc<LogShared>,
    dirs: Vec<Arc<LogDir>>,
    last_checkpoints: Vec<Mutex<LastCheckpoints>>,
    pub(crate) logs: RwLock<HashMap<TopicPartition, Arc<Log>>>,
    /// Creations and deletions take turns.
    changes: Mutex<()>,
    /// Oldest first.
    deletes: Mutex<VecDeque<PendingDelete>>,
    max_pending_deletes: usize,
    /// Logs that the start could not open: where they are, and how to open them.
    unopened: Mutex<HashMap<TopicPartition, (Arc<LogDir>, LogOptions)>>,
    recovery_threads: usize,
    metadata_dir: Option<PathBuf>,
}

impl LogManager {
    /// Takes the locks of all directories. Nothing in them is read before all are held, and nothing but a lock's file is
    /// written. What is made and what is offline: see [`LogDir::lock_all`].
    ///
    /// # Errors
    /// [`StorageError::DirLocked`] when somebody else uses one of them; [`StorageError::NoLogDir`] without any;
    /// [`StorageError::Io`] as [`LogDir::lock_all`].
    pub fn lock(disk: &Disk, paths: &[PathBuf], config: &LogManagerConfig) -> Result<Self, StorageError> {
        if paths.is_empty() {
            return Err(StorageError::NoLogDir { reason: "log.dirs is empty".to_owned() });
        }
        let dirs = LogDir::lock_all(disk, paths)?.into_iter().map(Arc::new).collect::<Vec<_>>();
        let handles = FileHandles::new(disk.clone(), config.max_open_files);
        let mut shared = LogShared::new(handles, ProducerIdQuota::new(config.max_producer_ids));
        shared.producer_id_expiration_ms = AtomicI64::new(config.producer_id_expiration_ms);
        shared.probe_interval_ms = config.probe_interval_ms;
        shared.segments = SegmentQuota::new(config.max_segments);
        Ok(Self {
            shared: Arc::new(shared),
            last_checkpoints: dirs.iter().map(|_| Mutex::default()).collect(),
            dirs,
            logs: RwLock::default(),
            changes: Mutex::default(),
            deletes: Mutex::default(),
            max_pending_deletes: config.max_pending_deletes.max(1),
            unopened: Mutex::default(),
            recovery_threads: config.recovery_threads.max(1),
            metadata_dir: config.metadata_dir.clone(),
        })
    }

    /// The directories, in the order of `log.dirs`.
    pub fn dirs(&self) -> &[Arc<LogDir>] {
        &self.dirs
    }

    /// The directories that hold partitions.
    pub fn partition_dirs(&self) -> impl Iterator<Item = &Arc<LogDir>> {
        self.dirs.iter().filter(|dir| self.metadata_dir.as_deref() != Some(dir.path()))
    }

    /// Producer ids expire after this time from now on: `producer.id.expiration.ms`.
    pub fn set_producer_id_expiration_ms(&self, expiration_ms: i64) {
        self.shared.producer_id_expiration_ms.store(expiration_ms, Ordering::Relaxed);
    }

    /// What all logs share: for a log that is opened beside the manager (the metadata log).
    pub fn shared(&self) -> &Arc<LogShared> {
        &self.shared
    }

    /// What happened to all logs so far.
    pub fn counters(&self) -> &StorageCounters {
        &self.shared.counters
    }

    /// To be called before the first write to a log: takes the markers of the last clean stop away. [`Self::load`] does it
    /// otherwise. A directory that refuses it goes offline.
    ///
    /// # Errors
    /// [`StorageError::Io`] when all of them are offline then.
    pub fn begin_writing(&self) -> Result<(), StorageError> {
        let mut failure = None;
        for dir in self.dirs.iter().filter(|dir| dir.is_online()) {
            if let Err(error) = dir.take_clean_shutdown_marker() {
                dir.mark_offline(error.to_string());
                failure.get_or_insert(error);
            }
        }
        match failure {
            Some(error) if !self.dirs.iter().any(|dir| dir.is_online()) => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens the logs of all partitions that `topics` claims, several at a time. `progress` is called after each log
    /// with the numbers of done and of all.
    ///
    /// # Errors
    /// [`StorageError::Io`] when a directory cannot be listed: what it holds is not known, and its partitions must not
    /// begin anew elsewhere. A single log that cannot be opened is in the summary.
    pub fn load(
        &self,
        topics: &dyn LogTopics,
        now_ms: i64,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<StartSummary, StorageError> {
        self.begin_writing()?;
        let mut summary = StartSummary::default();
        let mut jobs: Vec<(Arc<LogDir>, LogOptions)> = Vec::new();
        for dir in self.partition_dirs().filter(|dir| dir.is_online()) {
            self.plan_dir(dir, topics, now_ms, &mut summary, &mut jobs)?;
        }
        self.note_gone(topics, &jobs, &mut summary);
        let done = AtomicUsize::new(0);
        let opened = Mutex::new(Vec::with_capacity(jobs.len()));
        let failed = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        on_threads(self.recovery_threads.min(jobs.len()), || {
            while let Some((dir, options)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                match Log::open(Arc::clone(&self.shared), Arc::clone(dir), options.clone()) {
                    Ok(log) => opened.lock().push(log),
                    Err(error) => failed.lock().push((Arc::clone(dir), options.clone(), error)),
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
            }
        });
        let opened = opened.into_inner();
        summary.opened = opened.len();
        {
            let mut logs = self.logs.write();
            logs.reserve(opened.len());
            logs.extend(opened.into_iter().map(|log| (log.topic_partition().clone(), log)));
        }
        for (log_dir, options, error) in failed.into_inner() {
            if matches!(error, StorageError::TopicIdMismatch { .. }) {
                tracing::warn!(partition = %options.topic_partition, %error, "the directory is not this topic's");
                let (dir, path) = (&log_dir, &options.dir);
                self.put_out_of_service(dir, path, &options.topic_partition, topics, &mut summary)?;
            } else {
                tracing::error!(partition = %options.topic_partition, %error, "cannot open the log");
                summary.failed.push((options.topic_partition.clone(), error));
                self.unopened.lock().insert(options.topic_partition.clone(), (log_dir, options));
            }
        }
        // What the checkpoints say of partitions that are gone must not meet a new one of the same name.
        if let Err(error) = self.checkpoint() {
            tracing::warn!(%error, "cannot write the checkpoints after the start");
        }
        Ok(summary)
    }

    fn plan_dir(
        &self,
        dir: &Arc<LogDir>,
        topics: &dyn LogTopics,
        now_ms: i64,
        summary: &mut StartSummary,
        jobs: &mut Vec<(Arc<LogDir>, LogOptions)>,
    ) -> Result<(), StorageError> {
        let disk = dir.disk();
        let recovery_points = dir.read_checkpoint(RECOVERY_POINT_CHECKPOINT);
        let cleaned = dir.read_checkpoint(CLEANER_OFFSET_CHECKPOINT);
        let mut topic_names: HashMap<String, Arc<str>> = HashMap::new();
        for (name, is_dir) in disk.list(dir.path()).context("list", dir.path())? {
            if !is_dir {
                continue;
            }
            let path = dir.path().join(&name);
            let partition = match parse_dir_name(&name) {
                DirName::Partition(partition) => partition,
                DirName::Delete => {
                    summary.deleting += 1;
                    self.deletes.lock().push_back(PendingDelete { path, due: Instant::now(), named: None });
                    continue;
                }
                DirName::Stray | DirName::Future | DirName::Other => continue,
            };
            // The partitions of a topic share its name.
            let topic = topic_names
                .entry(partition.topic().to_owned())
                .or_insert_with(|| Arc::clone(partition.topic_shared()));
            let partition = TopicPartition::new(Arc::clone(topic), partition.partition());
            match topics.claim(&partition) {
                Claim::Ignore => {}
                Claim::Open { .. } if self.is_copy(dir, &partition, topics.home(&partition)) => {
                    tracing::error!(path = %path.display(), "the partition has a directory in another log directory, where \
                        it belongs: setting this one aside");
                    summary.strays.push(self.rename_stray(&path, &partition)?);
                }
                Claim::Stray => self.put_out_of_service(dir, &path, &partition, topics, summary)?,
                Claim::Delete => {
                    summary.deleting += 1;
                    self.rename_and_queue_delete(dir, &path, &partition, Instant::now())?;
                }
                Claim::Open { config, topic_id } => jobs.push((
                    Arc::clone(dir),
                    LogOptions {
                        topic_id,
                        dir: path,
                        config,
                        clean: dir.had_clean_shutdown(),
                        recovery_point: recovery_points.get(&partition).copied().unwrap_or(0),
                        log_start_offset: dir.log_start_offset(&partition),
                        compacted: cleaned.contains_key(&partition),
                        synced_appends: false,
                        topic_partition: partition,
                        now_ms,
                    },
                )),
            }
        }
        Ok(())
    }

    /// Takes a directory away that no topic claims: goes on with the deletion of its topic, or sets it aside.
    fn put_out_of_service(
        &self,
        dir: &LogDir,
        path: &Path,
        partition: &TopicPartition,
        topics: &dyn LogTopics,
        summary: &mut StartSummary,
    ) -> Result<(), StorageError> {
        match partition_metadata::read(dir.disk(), path)? {
            Some(topic_id) if topics.was_deleted(topic_id) => {
                tracing::info!(%partition, %topic_id, "going on with the deletion that a crash interrupted");
                summary.deleting += 1;
                self.rename_and_queue_delete(dir, path, partition, Instant::now())
            }
            _ => {
                tracing::warn!(%partition, "no topic claims this directory, setting it aside");
                summary.strays.push(self.rename_stray(path, partition)?);
                Ok(())
            }
        }
    }

    /// The log of a partition.
    pub fn get(&self, name: &TopicPartition) -> Option<Arc<Log>> {
        self.logs.read().get(name).cloned()
    }

    /// All logs, in no order.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.logs.read().values().cloned().collect()
    }

    /// All logs, in no order; `None` where there are more than `most`.
    pub fn logs_at_most(&self, most: usize) -> Option<Vec<Arc<Log>>> {
        let logs = self.logs.read();
        (logs.len() <= most).then(|| logs.values().cloned().collect())
    }

    /// How many logs there are.
    pub fn log_count(&self) -> usize {
        self.logs.read().len()
    }

    /// Makes the log of a partition, or returns the one that is there: in the directory with the id `home`, or with
    /// `None` in the one that holds the fewest. One that the start could not open is opened where it is.
    ///
    /// # Errors
    /// [`StorageError::HomeOffline`] when `home` cannot be used;
    /// [`StorageError::NoLogDir`] when no directory is online; [`StorageError::TopicIdMismatch`];
    /// [`StorageError::Io`], also while the directory of a deleted partition of the same name cannot be renamed.
    pub fn get_or_create(
        &self,
        name: &TopicPartition,
        topic_id: Option<Uuid>,
        home: Option<Uuid>,
        config: Arc<LogConfig>,
        now_ms: i64,
    ) -> Result<Arc<Log>, StorageError> {
        if let Some(log) = self.get(name) {
            return Ok(log);
        }
        let _turn = self.changes.lock();
        if let Some(log) = self.get(name) {
            return Ok(log);
        }
        self.retry_renames(Instant::now(), Some(name))?;
        let unopened = self.unopened.lock().get(name).cloned();
        let (dir, options) = match unopened {
            Some((dir, options)) => {
                dir.look_for_it();
                if let Some(reason) = dir.offline_reason() {
                    return Err(StorageError::NoLogDir { reason });
                }
                (dir, LogOptions { config, topic_id, now_ms, ..options })
            }
            None => {
                let dir = self.home_of(name, home)?;
                let options = LogOptions {
                    topic_partition: name.clone(),
                    topic_id,
                    dir: dir.path().join(name.dir_name()),
                    config,
                    // A directory that is there already is no clean one: nobody closed it.
                    clean: false,
                    recovery_point: 0,
                    log_start_offset: 0,
                    compacted: false,
                    synced_appends: false,
                    now_ms,
                };
                (dir, options)
            }
        };
        let path = options.dir.clone();
        let log = match Log::open(Arc::clone(&self.shared), Arc::clone(&dir), options.clone()) {
            Err(StorageError::TopicIdMismatch { .. }) => {
                self.rename_stray(&path, name)?;
                Log::open(Arc::clone(&self.shared), dir, options)?
            }
            other => other?,
        };
        self.forget_predecessor(log.log_dir(), name)?;
        self.unopened.lock().remove(name);
        self.logs.write().insert(name.clone(), Arc::clone(&log));
        Ok(log)
    }

    /// A partition of the same name may have been deleted a moment ago. What the checkpoints say of it must be gone
    /// before the new one holds a record: a start would cut the new log by the offsets of the old one.
    fn forget_predecessor(&self, dir: &Arc<LogDir>, name: &TopicPartition) -> Result<(), StorageError> {
        dir.checkpoint_log_starts()?;
        for (other, last) in self.dirs.iter().zip(&self.last_checkpoints) {
            let mut last = last.lock();
            if Arc::ptr_eq(other, dir) && last.deleted.contains(name) {
                self.checkpoint_dir(dir, &mut last)?;
            }
        }
        Ok(())
    }

    /// While the checkpoints speak of a deleted partition, its directory must be there to say that it was deleted: the
    /// next start would take it for one that was lost.
    fn forget_deleted(&self) {
        for (dir, last) in self.dirs.iter().zip(&self.last_checkpoints) {
            let mut last = last.lock();
            if !last.deleted.is_empty()
                && let Err(error) = self.checkpoint_dir(dir, &mut last)
            {
                // A full disk needs the room of what is deleted more than the next start needs to know.
                tracing::warn!(dir = %dir.path().display(), %error, "cannot write a checkpoint");
            }
        }
    }

    /// Takes a partition out of service: its directory is renamed at once and removed by [`Self::run_deletes`] after
    /// `file.delete.delay.ms`, which nobody shortens by setting the wall clock. A directory that cannot be renamed now is renamed by a later call of that. Survives a
    /// crash: the removal goes on at the next start.
    ///
    /// # Errors
    /// [`StorageError::UnknownLog`].
    pub fn delete(&self, name: &TopicPartition, now: Instant) -> Result<(), StorageError> {
        let _turn = self.changes.lock();
        let opened = self.logs.write().remove(name);
        let unopened = self.unopened.lock().remove(name);
        let (dir, path, delay_ms) = match (opened, unopened) {
            (Some(log), _) => {
                log.abandon();
                (Arc::clone(log.log_dir()), log.dir().to_path_buf(), log.config().file_delete_delay_ms)
            }
            (None, Some((dir, options))) => (dir, options.dir, options.config.file_delete_delay_ms),
            (None, None) => {
                return Err(StorageError::UnknownLog {
                    topic_partition: name.clone(),
                    reason: "it has no log here",
                });
            }
        };
        for (other, last) in self.dirs.iter().zip(&self.last_checkpoints) {
            if Arc::ptr_eq(other, &dir) {
                let mut last = last.lock();
                last.deleted.insert(name.clone());
                if last.deleted.len() >= MAX_DELETED_BETWEEN_CHECKPOINTS
                    && let Err(error) = self.checkpoint_dir(&dir, &mut last)
                {
                    // The periodic one tries again.
                    tracing::warn!(dir = %dir.path().display(), %error, "cannot write a checkpoint");
                }
            }
        }
        let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0)).min(NEVER);
        if let Err(error) = self.rename_and_queue_delete(&dir, &path, name, now + delay) {
            tracing::warn!(partition = %name, %error, "the directory of a deleted partition keeps its name for now");
            let named = Some((dir, name.clone()));
            let delete = PendingDelete { path, due: now + DELETE_RETRY, named };
            self.deletes.lock().push_back(delete);
        }
        self.delete_beyond_limit();
        Ok(())
    }

    /// Removes the oldest directories where more than may be wait for their time: who deletes faster than they go
    /// waits for the disk. Those that could not be renamed stay.
    fn delete_beyond_limit(&self) {
        loop {
            let oldest = {
                let mut deletes = self.deletes.lock();
                if deletes.len() <= self.max_pending_deletes {
                    return;
                }
                let at = deletes.iter().position(|delete| delete.named.is_none());
                at.and_then(|at| deletes.remove(at))
            };
            let Some(oldest) = oldest else { return };
            if let Err(error) = self.shared.handles.disk().remove_dir_all(&oldest.path) {
                // The next start removes it.
                tracing::warn!(path = %oldest.path.display(), %error, "cannot remove a deleted partition");
            }
        }
    }

    /// Renames the directories of deleted partitions that could not be renamed before: those that are due, or the ones
    /// of `name`. The caller holds `changes`.
    fn retry_renames(&self, now: Instant, name: Option<&TopicPartition>) -> Result<(), StorageError> {
        let is_wanted = |delete: &PendingDelete| {
            delete.named.as_ref().is_some_and(|(_, partition)| match name {
                Some(name) => partition == name,
                None => delete.due <= now,
            })
        };
        let wanted: VecDeque<PendingDelete> = {
            let mut deletes = self.deletes.lock();
            // Hardly ever, and asked for each partition that is made.
            if !deletes.iter().any(is_wanted) {
                return Ok(());
            }
            let (wanted, others) = std::mem::take(&mut *deletes).into_iter().partition(is_wanted);
            *deletes = others;
            wanted
        };
        let mut outcome = Ok(());
        for delete in wanted {
            let Some((dir, partition)) = &delete.named else { continue };
            if let Err(error) = self.rename_and_queue_delete(dir, &delete.path, partition, now) {
                let is_gone = matches!(&error, StorageError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
                if is_gone && dir.is_online() && !delete.path.exists() {
                    continue;
                }
                self.deletes.lock().push_back(PendingDelete { due: now + DELETE_RETRY, ..delete });
                outcome = Err(error);
            }
        }
        outcome
    }

    fn rename_and_queue_delete(
        &self,
        dir: &LogDir,
        path: &Path,
        name: &TopicPartition,
        due: Instant,
    ) -> Result<(), StorageError> {
        let target = dir.path().join(name.delete_dir_name(&unique()));
        dir.disk().rename(path, &target).context("rename", path)?;
        self.deletes.lock().push_back(PendingDelete { path: target, due, named: None });
        dir.set_log_start(name, None);
        Ok(())
    }

    /// Whether the directory of a deleted partition of this name is still in `dir`.
    pub(crate) fn waits_for_removal(&self, dir: &LogDir, name: &TopicPartition) -> bool {
        let wanted = name.delete_dir_name(&[0; 16]);
        let head = |name: &str| name.rsplit_once('.').map(|(head, _)| head.to_owned());
        self.deletes.lock().iter().any(|delete| {
            let found = delete.path.file_name().and_then(|name| name.to_str());
            delete.path.parent() == Some(dir.path()) && found.and_then(head) == head(&wanted)
        })
    }

    fn rename_stray(&self, path: &Path, name: &TopicPartition) -> Result<PathBuf, StorageError> {
        let target = path.with_file_name(name.stray_dir_name(&unique()));
        self.shared.handles.disk().rename(path, &target).context("rename", path)?;
        Ok(target)
    }

    /// Removes the directories of deleted partitions whose time has come. Returns how many are left; one that cannot
    /// be removed is tried again by the next call.
    pub fn run_deletes(&self, now: Instant) -> usize {
        {
            let _turn = self.changes.lock();
            // Said when it was first tried; the next call tries again.
            let _ = self.retry_renames(now, None);
        }
        let due: VecDeque<PendingDelete> = {
            let mut deletes = self.deletes.lock();
            let (due, later) = std::mem::take(&mut *deletes)
                .into_iter()
                .partition(|delete| delete.named.is_none() && delete.due <= now);
            *deletes = later;
            due
        };
        if !due.is_empty() {
            self.forget_deleted();
        }
        for mut delete in due {
            if let Err(error) = self.shared.handles.disk().remove_dir_all(&delete.path) {
                tracing::warn!(path = %delete.path.display(), %error, "cannot remove a deleted partition yet");
                delete.due = now + DELETE_RETRY;
                self.deletes.lock().push_back(delete);
            }
        }
        self.deletes.lock().len()
    }

    /// Directories of deleted partitions that are still on disk.
    pub fn pending_deletes(&self) -> usize {
        self.deletes.lock().len()
    }

    /// Applies retention to all logs. An error of one does not keep the others from it.
    pub fn apply_retention(&self, now_ms: i64) -> Retained {
        let mut total = Retained::default();
        for log in self.logs() {
            match log.apply_retention(now_ms) {
                Ok(retained) => {
                    total.deleted_segments += retained.deleted_segments;
                    total.deleted_bytes += retained.deleted_bytes;
                }
                Err(error) => tracing::warn!(partition = %log.topic_partition(), %error, "retention failed"),
            }
        }
        total
    }

    /// Syncs the logs for which a flush is due: `flush.ms` has passed, or a segment was rolled. Returns how many.
    pub fn flush_due(&self, now_ms: i64) -> usize {
        let mut flushed = 0;
        for log in self.logs() {
            if log.is_flush_due(now_ms) {
                match log.flush(now_ms) {
                    Ok(_) => flushed += 1,
                    // Deleted meanwhile.
                    Err(StorageError::Closed { .. }) => {}
                    Err(error) => tracing::warn!(partition = %log.topic_partition(), %error, "flush failed"),
                }
            }
        }
        flushed
    }

    /// Looks whether the directories are still there, forgets silent producers, tries read-only logs again, takes
    /// memory back from idle logs. Cheap enough for each second.
    pub fn tick(&self, now_ms: i64) {
        for dir in &self.dirs {
            dir.look_for_it();
        }
        for log in self.logs() {
            log.expire_producers(now_ms);
            log.shrink_if_idle(now_ms, IDLE_MS);
            if log.is_read_only() {
                log.probe(now_ms);
            }
        }
    }

    /// Writes the recovery points, high watermarks and log starts of all directories, where they changed.
    ///
    /// # Errors
    /// The first failure; the other directories are done all the same.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        let mut first_error = Ok(());
        for (dir, last) in self.dirs.iter().zip(&self.last_checkpoints) {
            if dir.is_online()
                && let Err(error) = self.checkpoint_dir(dir, &mut last.lock())
            {
                tracing::warn!(dir = %dir.path().display(), %error, "cannot write a checkpoint");
                first_error = first_error.and(Err(error));
            }
        }
        first_error
    }

    fn checkpoint_dir(&self, dir: &Arc<LogDir>, last: &mut LastCheckpoints) -> Result<(), StorageError> {
        dir.checkpoint_log_starts()?;
        let offsets_of = |offset: fn(&Log) -> i64| -> OffsetMap {
            let logs = self.logs.read();
            let here = logs.values().filter(|log| Arc::ptr_eq(log.log_dir(), dir));
            here.map(|log| (log.topic_partition().clone(), offset(log))).collect()
        };
        // One after the other: with very many partitions each takes its memory.
        let recovery_point: fn(&Log) -> i64 = |log| log.recovery_point().get();
        let high_watermark: fn(&Log) -> i64 = |log| log.high_watermark().get();
        for (name, offset, seen) in [
            (RECOVERY_POINT_CHECKPOINT, recovery_point, &mut last.recovery_points),
            (REPLICATION_OFFSET_CHECKPOINT, high_watermark, &mut last.high_watermarks),
        ] {
            let mut offsets = offsets_of(offset);
            if name == RECOVERY_POINT_CHECKPOINT {
                let unopened = self.unopened.lock();
                let here = unopened.iter().filter(|(_, (other, _))| Arc::ptr_eq(other, dir));
                offsets.extend(here.map(|(name, (_, options))| (name.clone(), options.recovery_point)));
            }
            let digest = digest_of(&offsets);
            if *seen != digest {
                dir.write_checkpoint(name, offsets.iter().map(|(name, offset)| (name, *offset)))?;
                *seen = digest;
            }
        }
        last.deleted.clear();
        Ok(())
    }

    /// The clean stop: every log is sealed and synced, the checkpoints are written, and last, where nothing went wrong,
    /// the marker that lets the next start skip all checks. The locks are given back.
    ///
    /// # Errors
    /// The first failure. Its directory has no marker then, and the next start checks it as after a crash.
    pub fn close(&self, broker_epoch: i64, now_ms: i64) -> Result<(), StorageError> {
        let mut first_error = Ok(());
        for (dir, last) in self.dirs.iter().zip(&self.last_checkpoints) {
            let logs: Vec<Arc<Log>> = {
                let logs = self.logs.read();
                logs.values().filter(|log| Arc::ptr_eq(log.log_dir(), dir)).cloned().collect()
            };
            if let Err(error) = self.close_dir(dir, &logs, &mut last.lock(), broker_epoch, now_ms) {
                tracing::error!(
                    dir = %dir.path().display(),
                    %error,
                    "the stop is not clean: the next start will check this directory"
                );
                first_error = first_error.and(Err(error));
            }
            dir.unlock();
        }
        first_error
    }

    fn close_dir(
        &self,
        dir: &Arc<LogDir>,
        logs: &[Arc<Log>],
        last: &mut LastCheckpoints,
        broker_epoch: i64,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let to_sync = logs.iter().filter(|log| log.must_sync_to_close()).count();
        let one_by_one = to_sync <= SYNC_ONE_BY_ONE;
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        on_threads(self.recovery_threads.min(logs.len()), || {
            while let Some(log) = logs.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = log.close(now_ms, one_by_one) {
                    tracing::warn!(partition = %log.topic_partition(), %error, "cannot close the log");
                    failure.lock().get_or_insert(error);
                }
            }
        });
        if !dir.is_online() {
            return Ok(());
        }
        // Also when the logs were synced one by one: snapshots and epochs were written without a sync.
        dir.disk().sync_file_system(dir.path()).context("sync", dir.path())?;
        self.checkpoint_dir(dir, last)?;
        let cleaner = dir.path().join(CLEANER_OFFSET_CHECKPOINT);
        if !cleaner.exists() {
            let empty = format_offsets(std::iter::empty());
            dir.disk().replace(&cleaner, &empty, true).context("write", &cleaner)?;
        }
        if let Some((name, _)) = self.unopened.lock().iter().find(|(_, (other, _))| Arc::ptr_eq(other, dir)) {
            return Err(StorageError::UnknownLog {
                topic_partition: name.clone(),
                reason: "it was never opened, so nobody knows whether its end is whole",
            });
        }
        match failure.into_inner() {
            Some(error) => Err(error),
            None => dir.write_clean_shutdown_marker(broker_epoch),
        }
    }

    /// Bytes of memory that the logs and the tables take, estimated: for the broker's account of what grows with the
    /// number of partitions.
    pub fn memory_bytes(&self) -> usize {
        let logs = self.logs.read();
        let table = logs.capacity() * (std::mem::size_of::<(TopicPartition, Arc<Log>)>() + 1);
        let all: usize = logs.values().map(|log| log.memory_bytes()).sum();
        table + all + self.shared.handles.memory_bytes()
    }
}

/// Runs `work` on this thread and on as many others as make `threads` of them. Those that the system refuses are done
/// without.
fn on_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, &work) {
                tracing::warn!(%error, "fewer threads than there could be work on the logs");
                break;
            }
        }
        work();
    });
}

fn digest_of(offsets: &OffsetMap) -> u64 {
    use std::hash::Hash;
    let mut hasher = std::hash::DefaultHasher::new();
    // Something that no map has, so that an empty one is written the first time.
    1u8.hash(&mut hasher);
    offsets.hash(&mut hasher);
    hasher.finish()
}

/// Sixteen bytes that no other directory name has: the standard library's randomness is enough for a name.
fn unique() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
    }
    bytes
}
