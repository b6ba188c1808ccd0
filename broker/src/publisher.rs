//! Makes the server follow the metadata: logs are opened and deleted, topics appear and vanish, settings change.
//!
//! Invariant: the image that requests see is replaced last, so what it names is there.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weir_metadata::VersionedRecord;
use weir_metadata::controller::{Controller, LimitReached};
use weir_metadata::image::{MetadataDelta, MetadataImage, resource_type};
use weir_metadata::properties::{BrokerConfig, TopicConfig, keys};
use weir_storage::{LogConfig, StorageError, TopicPartition};

use crate::broker::Broker;
use crate::groups::OFFSETS_TOPIC;
use crate::quorum::Publisher;
use crate::server::connection_limits;
use crate::topics::{Partition, Topic, TopicSettings, is_internal};

/// Partitions whose directories are noted by one batch of records.
const ASSIGNED_AT_ONCE: usize = 500;

/// Publishes to one server.
pub(crate) struct ServerPublisher(pub(crate) Arc<Broker>);

impl Publisher for ServerPublisher {
    fn config(&self) -> Arc<BrokerConfig> {
        self.0.config.load_full()
    }

    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn publish(&mut self, old: &MetadataImage, new: &MetadataImage) {
        let delta = self.0.follow(old, new);
        self.0.tell_of_changes(&delta, new);
    }

    fn follow_up(&mut self, image: &MetadataImage) -> Vec<VersionedRecord> {
        let broker = &self.0;
        let mut assignments = std::mem::take(&mut *broker.to_assign.lock());
        let later = assignments.split_off(assignments.len().min(ASSIGNED_AT_ONCE));
        // One that was deleted meanwhile needs no directory.
        assignments.retain(|(topic, index, _)| image.topics().partition(*topic, *index).is_some());
        broker.to_assign.lock().extend(later);
        let config = broker.config.load();
        let decided = Controller::new(image, &config).assign_directories(
            broker.node_id,
            broker.broker_epoch,
            &assignments,
        );
        match decided {
            Ok(result) => result.records,
            Err(error) => {
                tracing::error!("cannot note the directories of new partitions: {error}");
                Vec::new()
            }
        }
    }

    fn failed(&self) {
        self.0.failure.note("the controller");
    }

    fn limit_reached(&self, limit: &LimitReached) {
        self.0.limit_reached(limit.property, &limit.message);
    }
}

impl Broker {
    /// Follows the metadata from `old` to `new`; returns the difference.
    pub(crate) fn follow(&self, old: &MetadataImage, new: &MetadataImage) -> MetadataDelta {
        let _turn = self.following.lock();
        let delta = MetadataDelta::between(old, new);
        if delta.broker_configs_changed(self.node_id) {
            self.follow_broker_configs(new);
        }
        for deleted in &delta.topics_deleted {
            self.drop_topic(deleted.id);
            if *deleted.name == *OFFSETS_TOPIC {
                self.groups.unload_all(self);
            }
        }
        let config = self.config.load_full();
        for created in &delta.topics_created {
            let overrides = new.configs().topic(&created.name);
            let settings = TopicConfig::resolve(&config, &overrides);
            let name = Arc::clone(&created.name);
            let internal = is_internal(&name);
            self.topics.put(Arc::new(Topic::new(name, created.id, internal, settings)));
        }
        for created in &delta.partitions_created {
            match self.open_partition(new, created.topic_id, created.partition_id) {
                // Said of its directory once.
                Ok(()) | Err((_, StorageError::HomeOffline { .. })) => {}
                Err((name, error)) => {
                    tracing::error!("cannot open the log of {name}: {error}; it is tried again");
                }
            }
        }
        self.groups.start_loading();
        for changed in &delta.partitions_changed {
            self.lead_partition(new, changed.topic_id, changed.partition_id);
        }
        for changed in delta.configs_changed.iter().filter(|name| name.resource_type == resource_type::TOPIC)
        {
            self.follow_topic_configs(new, &changed.name);
        }
        self.image.store(Arc::new(new.clone()));
        self.image_changes.fetch_add(1, Ordering::Relaxed);
        if !delta.topics_deleted.is_empty() {
            self.groups.topics_deleted(self, delta.topics_deleted.iter().map(|topic| topic.name.to_string()));
        }
        delta
    }

    /// Says in the log what administrators changed, and clients that have topics made: a few lines a second.
    fn tell_of_changes(&self, delta: &MetadataDelta, new: &MetadataImage) {
        let say = || self.change_notes.allow();
        for topic in &delta.topics_deleted {
            if let Some(unsaid) = say() {
                tracing::info!(topic = &*topic.name, id = %topic.id, unsaid, "topic deleted");
            }
        }
        for topic in &delta.topics_created {
            if let Some(unsaid) = say() {
                let partitions = new.topics().by_id(topic.id).map_or(0, |topic| topic.partitions().len());
                tracing::info!(topic = &*topic.name, id = %topic.id, partitions, unsaid, "topic created");
            }
        }
        let created: HashSet<_> = delta.topics_created.iter().map(|topic| topic.id).collect();
        let grown: BTreeSet<_> =
            delta.partitions_created.iter().map(|partition| partition.topic_id).collect();
        for topic in grown.iter().filter(|id| !created.contains(id)).filter_map(|id| new.topics().by_id(*id))
        {
            if let Some(unsaid) = say() {
                let partitions = topic.partitions().len();
                tracing::info!(topic = topic.name(), partitions, unsaid, "topic has more partitions");
            }
        }
        let is_known = |name: &str| new.topics().by_name(name).is_some_and(|it| !created.contains(&it.id()));
        for changed in &delta.configs_changed {
            let kind = match changed.resource_type {
                resource_type::TOPIC if !is_known(&changed.name) => continue,
                resource_type::TOPIC => "topic",
                resource_type::BROKER if changed.name.is_empty() => "all brokers",
                resource_type::BROKER => "broker",
                resource_type::GROUP => "group",
                _ => "client metrics",
            };
            if let Some(unsaid) = say() {
                tracing::info!(of = kind, name = changed.name, unsaid, "configs changed");
            }
        }
    }

    fn follow_broker_configs(&self, image: &MetadataImage) {
        let configs = image.configs();
        let (config, notes) =
            self.config.load().with_dynamic(&configs.broker_default(), &configs.broker(self.node_id));
        for note in notes {
            tracing::warn!(property = note.property, "{}", note.text);
        }
        self.registry.set_limits(connection_limits(&config, &self.layout));
        self.logs.set_producer_id_expiration_ms(i64::from(config.get(keys::PRODUCER_ID_EXPIRATION_MS)));
        self.config.store(Arc::new(config));
        for topic in self.topics.all() {
            self.follow_topic_configs(image, &topic.name);
        }
    }

    fn follow_topic_configs(&self, image: &MetadataImage, name: &str) {
        let Some(topic) = self.topics.by_name(name) else { return };
        let config = TopicConfig::resolve(&self.config.load(), &image.configs().topic(name));
        let settings = TopicSettings::new(config);
        for partition in topic.partitions() {
            partition.log.set_config(Arc::clone(&settings.log_config));
        }
        topic.settings.store(Arc::new(settings));
    }

    /// Opens the logs that could not be opened so far: whatever kept them from it may be gone.
    pub(crate) fn open_missing(&self) {
        if !self.lacks_logs.load(Ordering::Acquire) {
            return;
        }
        let _turn = self.following.lock();
        self.lacks_logs.store(false, Ordering::Release);
        let image = self.image();
        let mut opened = 0_usize;
        for topic in self.topics.all() {
            for index in topic.without_log() {
                match self.open_partition(&image, topic.id, index) {
                    Ok(()) => opened += 1,
                    Err((name, error)) => tracing::debug!("cannot open the log of {name}: {error}"),
                }
            }
        }
        if opened > 0 {
            tracing::info!(opened, "opened logs that could not be opened before");
            self.groups.start_loading();
        }
    }

    fn drop_topic(&self, id: weir_protocol::wire::Uuid) {
        let Some(topic) = self.topics.remove(id) else { return };
        for index in 0..topic.partition_count() as i32 {
            let name = TopicPartition::new(Arc::clone(&topic.name), index);
            let partition = topic.partition(index);
            match self.logs.delete(&name, Instant::now()) {
                Err(error) if partition.is_some() => {
                    tracing::error!("cannot delete the log of {name}: {error}")
                }
                // One whose log was never made has nothing to delete.
                _ => {}
            }
            if let Some(partition) = partition {
                partition.wake();
            }
        }
    }

    /// Opens the log of a partition. Where that fails, the partition is there without a log, and its clients are told
    /// to come again.
    fn open_partition(
        &self,
        image: &MetadataImage,
        topic_id: weir_protocol::wire::Uuid,
        index: i32,
    ) -> Result<(), (TopicPartition, StorageError)> {
        let Some(topic) = self.topics.by_id(topic_id) else { return Ok(()) };
        let Some(state) = image.topics().partition(topic_id, index) else { return Ok(()) };
        let Ok(position) = usize::try_from(index) else { return Ok(()) };
        let name = TopicPartition::new(Arc::clone(&topic.name), index);
        let config = Arc::clone(&topic.settings.load().log_config);
        let home = state.directory_of(self.node_id);
        let log = match self.logs.get_or_create(&name, Some(topic_id), home, config, self.now_ms()) {
            Ok(log) => log,
            Err(error) => {
                topic.put(position, None);
                self.lacks_logs.store(true, Ordering::Release);
                return Err((name, error));
            }
        };
        if let Some(directory) = log.log_dir().id().filter(|id| home != Some(*id)) {
            self.to_assign.lock().push((topic_id, index, directory));
        }
        if let Err(error) = log.begin_leader_epoch(state.leader_epoch) {
            tracing::error!("cannot note the leader epoch of {name}: {error}");
        }
        let partition = Arc::new(Partition::new(&topic, index, log, state.leader_epoch));
        topic.put(position, Some(Arc::clone(&partition)));
        if *topic.name == *OFFSETS_TOPIC {
            self.groups.lead(self, partition);
        }
        Ok(())
    }

    fn lead_partition(&self, image: &MetadataImage, topic_id: weir_protocol::wire::Uuid, index: i32) {
        let Some(topic) = self.topics.by_id(topic_id) else { return };
        let Some(state) = image.topics().partition(topic_id, index) else { return };
        let Some(partition) = topic.partition(index) else { return };
        partition.set_leader_epoch(state.leader_epoch);
    }
}

/// What a topic's configuration says about its logs.
pub(crate) fn log_config(config: &TopicConfig) -> LogConfig {
    LogConfig {
        segment_bytes: config.segment_bytes.max(0) as u32,
        segment_ms: config.segment_ms,
        segment_jitter_ms: config.segment_jitter_ms,
        segment_index_bytes: config.segment_index_bytes.max(0) as u32,
        index_interval_bytes: config.index_interval_bytes.max(0) as u32,
        retention_bytes: config.retention_bytes,
        retention_ms: config.retention_ms,
        delete: config.delete,
        compact: config.compact,
        flush_messages: config.flush_messages,
        flush_ms: config.flush_ms,
        file_delete_delay_ms: config.file_delete_delay_ms,
    }
}
