//! Topics and their partitions as the data path sees them: by name, by id, each with its log and those who wait for it.
//!
//! Invariant: the table changes only when the metadata image does; a handler that found a partition may go on using
//! it, and a deleted one answers with its log's error.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, fence};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use weir_metadata::properties::TopicConfig;
use weir_protocol::messages::ErrorCode;
use weir_protocol::records::BatchHeader;
use weir_protocol::wire::Uuid;
use weir_storage::{AppendInfo, AppendOptions, AppendOrigin, Log, LogConfig, StorageError, UnreadBody};

pub(crate) use weir_metadata::controller::is_internal_topic as is_internal;

use crate::broker::Broker;
use crate::executor::block_in_place;
use crate::metrics::Traffic;
use crate::publisher::log_config;

/// What a topic's configuration means for its requests.
#[derive(Debug)]
pub(crate) struct TopicSettings {
    /// The resolved configuration.
    pub(crate) config: TopicConfig,
    /// What it says about the topic's logs, which share it.
    pub(crate) log_config: Arc<LogConfig>,
}

impl TopicSettings {
    /// The settings of a topic with this configuration.
    pub(crate) fn new(config: TopicConfig) -> Self {
        let log_config = Arc::new(log_config(&config));
        TopicSettings { config, log_config }
    }
}

/// One topic.
#[derive(Debug)]
pub(crate) struct Topic {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Its id.
    pub(crate) id: Uuid,
    /// Whether only the broker writes it.
    pub(crate) internal: bool,
    /// Replaced as a whole when a config changes.
    pub(crate) settings: ArcSwap<TopicSettings>,
    /// What went in and out.
    pub(crate) traffic: Arc<Traffic>,
    partitions: RwLock<Vec<Option<Arc<Partition>>>>,
}

impl Topic {
    /// A topic without partitions yet.
    pub(crate) fn new(name: Arc<str>, id: Uuid, internal: bool, config: TopicConfig) -> Self {
        let settings = ArcSwap::from_pointee(TopicSettings::new(config));
        Topic { name, id, internal, settings, traffic: Arc::default(), partitions: RwLock::new(Vec::new()) }
    }

    /// The partition with this index, if it is here.
    pub(crate) fn partition(&self, index: i32) -> Option<Arc<Partition>> {
        let index = usize::try_from(index).ok()?;
        self.partitions.read().get(index).cloned().flatten()
    }

    /// The partition with this index, for a client.
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, and KAFKA_STORAGE_ERROR where there is one whose log is not open.
    pub(crate) fn served(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let position = usize::try_from(index).map_err(|_| ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        match self.partitions.read().get(position) {
            Some(Some(partition)) => Ok(Arc::clone(partition)),
            Some(None) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            None => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        }
    }

    /// Numbers of the partitions whose log is not open.
    pub(crate) fn without_log(&self) -> Vec<i32> {
        let partitions = self.partitions.read();
        (0..)
            .zip(partitions.iter())
            .filter(|(_, partition)| partition.is_none())
            .map(|(index, _)| index)
            .collect()
    }

    /// Number of partitions, those whose log could not be opened included.
    pub(crate) fn partition_count(&self) -> usize {
        self.partitions.read().len()
    }

    /// Number of partitions whose log could not be opened.
    fn offline_count(&self) -> usize {
        self.partitions.read().iter().filter(|partition| partition.is_none()).count()
    }

    /// All partitions that are here.
    pub(crate) fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.read().iter().flatten().cloned().collect()
    }

    /// Adds or replaces a partition; `None` for one whose log could not be opened.
    pub(crate) fn put(&self, index: usize, partition: Option<Arc<Partition>>) {
        let mut partitions = self.partitions.write();
        if partitions.len() <= index {
            partitions.resize(index + 1, None);
        }
        partitions[index] = partition;
    }
}

/// One partition: its log and the requests that wait for it to grow.
#[derive(Debug)]
pub(crate) struct Partition {
    /// The topic's name.
    pub(crate) topic: Arc<str>,
    /// Its number.
    pub(crate) index: i32,
    /// Its log.
    pub(crate) log: Arc<Log>,
    /// That of its topic.
    pub(crate) traffic: Arc<Traffic>,
    leader_epoch: AtomicI32,
    watchers: Watchers,
}

impl Partition {
    /// A partition of `topic` led under `leader_epoch`.
    pub(crate) fn new(topic: &Topic, index: i32, log: Arc<Log>, leader_epoch: i32) -> Self {
        Partition {
            topic: Arc::clone(&topic.name),
            index,
            log,
            traffic: Arc::clone(&topic.traffic),
            leader_epoch: AtomicI32::new(leader_epoch),
            watchers: Watchers::default(),
        }
    }

    /// The leader epoch under which this broker appends.
    pub(crate) fn leader_epoch(&self) -> i32 {
        self.leader_epoch.load(Ordering::Relaxed)
    }

    /// Appends under another leader epoch from now on.
    pub(crate) fn set_leader_epoch(&self, leader_epoch: i32) {
        self.leader_epoch.store(leader_epoch, Ordering::Relaxed);
    }

    /// Appends one validated batch and wakes those who wait for data.
    pub(crate) fn append(
        &self,
        header: &BatchHeader,
        body: &[IoSlice<'_>],
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<AppendInfo, StorageError> {
        self.append_with(origin, now_ms, |options| self.log.append_as_leader(header, body, options))
    }

    /// As [`Self::append`], of a client's batch whose body is checked in the log.
    pub(crate) fn append_unread(
        &self,
        header: &BatchHeader,
        body: &mut dyn UnreadBody,
        now_ms: i64,
    ) -> Result<AppendInfo, StorageError> {
        self.append_with(AppendOrigin::Client, now_ms, |options| {
            self.log.append_unread(header, body, options)
        })
    }

    fn append_with(
        &self,
        origin: AppendOrigin,
        now_ms: i64,
        append: impl FnOnce(&AppendOptions) -> Result<AppendInfo, StorageError>,
    ) -> Result<AppendInfo, StorageError> {
        let appended = append(&AppendOptions { leader_epoch: self.leader_epoch(), origin, now_ms })?;
        self.watchers.wake();
        Ok(appended)
    }

    /// Syncs what was appended where `flush.messages` asks for it; to be called before the append is acknowledged.
    /// Blocks for as long as the disk takes, while other connections go on; callers that wait at the same time share one
    /// sync.
    pub(crate) fn sync_if_needed(&self, appended: &AppendInfo, now_ms: i64) -> Result<(), StorageError> {
        if appended.needs_flush {
            block_in_place(|| self.log.flush_to(appended.last_offset + 1, now_ms))?;
        }
        Ok(())
    }

    /// Wakes those who wait, because something else than an append changed.
    pub(crate) fn wake(&self) {
        self.watchers.wake();
    }
}

/// The long polls that wait for one partition.
#[derive(Debug, Default)]
struct Watchers {
    any: AtomicBool,
    list: Mutex<Vec<Arc<Notify>>>,
}

impl Watchers {
    fn wake(&self) {
        // Pairs with the fence in `Watch::add`: either this load sees the watcher, or the watcher, which looks at the
        // log after its registration, sees the append.
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::Relaxed) {
            self.list.lock().iter().for_each(|watcher| watcher.notify_one());
        }
    }
}

/// A long poll's registration with the partitions that it waits for; ends with its drop.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    notify: Arc<Notify>,
    partitions: Vec<Arc<Partition>>,
}

impl Watch {
    /// Registers with `partition`. Whatever is appended after this call wakes the poll.
    pub(crate) fn add(&mut self, partition: Arc<Partition>) {
        {
            let mut list = partition.watchers.list.lock();
            list.push(Arc::clone(&self.notify));
            partition.watchers.any.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        self.partitions.push(partition);
    }

    /// Whether one of the partitions was deleted: another one of its name would not wake the poll.
    pub(crate) fn is_stale(&self) -> bool {
        self.partitions.iter().any(|partition| partition.log.is_out_of_service())
    }

    /// Waits until one of the partitions has changed since the registration or the last call.
    pub(crate) async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for partition in &self.partitions {
            let mut list = partition.watchers.list.lock();
            if let Some(at) = list.iter().position(|watcher| Arc::ptr_eq(watcher, &self.notify)) {
                list.swap_remove(at);
            }
            if list.is_empty() {
                list.shrink_to(4);
                partition.watchers.any.store(false, Ordering::Relaxed);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Tables {
    by_name: HashMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<Uuid, Arc<Topic>>,
}

/// All topics.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    tables: RwLock<Tables>,
}

impl Topics {
    /// The topic with this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.tables.read().by_name.get(name).cloned()
    }

    /// The topic with this id.
    pub(crate) fn by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// Adds a topic; one of the same name is replaced.
    pub(crate) fn put(&self, topic: Arc<Topic>) {
        let mut tables = self.tables.write();
        if let Some(old) = tables.by_name.insert(Arc::clone(&topic.name), Arc::clone(&topic)) {
            tables.by_id.remove(&old.id);
        }
        tables.by_id.insert(topic.id, topic);
    }

    /// Removes a topic and returns it.
    pub(crate) fn remove(&self, id: Uuid) -> Option<Arc<Topic>> {
        let mut tables = self.tables.write();
        let topic = tables.by_id.remove(&id)?;
        tables.by_name.remove(&topic.name);
        Some(topic)
    }

    /// Every topic, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        self.tables.read().by_id.values().cloned().collect()
    }

    /// Number of partitions of all topics whose log could not be opened.
    pub(crate) fn offline_count(&self) -> usize {
        self.tables.read().by_id.values().map(|topic| topic.offline_count()).sum()
    }

    /// Number of partitions of all topics, those whose log could not be opened included.
    pub(crate) fn partition_count(&self) -> usize {
        self.tables.read().by_id.values().map(|topic| topic.partition_count()).sum()
    }
}

impl Broker {
    /// The partition that a client means, if this broker leads it under the epoch that the client knows (-1: any).
    ///
    /// # Errors
    /// UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR where the log could not be opened, FENCED_LEADER_EPOCH or
    /// UNKNOWN_LEADER_EPOCH (KIP-320).
    pub(crate) fn led_partition(
        &self,
        topic: &str,
        index: i32,
        current_leader_epoch: i32,
    ) -> Result<Arc<Partition>, ErrorCode> {
        let topic = self.topics.by_name(topic).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        let partition = topic.served(index)?;
        match current_leader_epoch {
            epoch if epoch == -1 || epoch == partition.leader_epoch() => Ok(partition),
            epoch if epoch < partition.leader_epoch() => Err(ErrorCode::FENCED_LEADER_EPOCH),
            _ => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_metadata::properties::BrokerConfig;
    use weir_storage::disk::Disk;
    use weir_storage::{LogManager, LogManagerConfig, TopicPartition};

    use super::*;

    #[tokio::test]
    async fn a_poll_learns_that_a_partition_it_watches_was_deleted_also_when_it_looks_too_late() {
        let root = tempfile::tempdir().unwrap();
        let paths = [root.path().to_path_buf()];
        let logs = LogManager::lock(&Disk::new(), &paths, &LogManagerConfig::default()).unwrap();
        let name = TopicPartition::new("t", 0);
        let config = BrokerConfig::embedded().unwrap().config.topic_defaults();
        let topic = Topic::new("t".into(), Uuid([1; 16]), false, config);
        let make = |id| logs.get_or_create(&name, Some(id), None, Arc::default(), 0).unwrap();
        let old = Arc::new(Partition::new(&topic, 0, make(Uuid([1; 16])), 0));
        let mut watch = Watch::default();
        watch.add(Arc::clone(&old));
        assert!(!watch.is_stale());
        logs.delete(&name, std::time::Instant::now()).unwrap();
        old.wake();
        // By the time that the poll runs there is a new partition, which knows nothing of it.
        let new = Arc::new(Partition::new(&topic, 0, make(Uuid([2; 16])), 0));
        watch.changed().await;
        assert!(watch.is_stale());
        let mut watch = Watch::default();
        watch.add(Arc::clone(&new));
        assert!(!watch.is_stale());
        new.wake();
        watch.changed().await;
    }
}
