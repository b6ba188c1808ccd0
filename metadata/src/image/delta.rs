//! What changed between two images. It is computed from the images, so it is right after a snapshot too.

use std::sync::Arc;

use imbl::ordmap::DiffItem;
use weir_protocol::wire::Uuid;

use super::{MetadataImage, TopicImage, resource_type};

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: Arc<str>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPartitionName {
    /// Id of its topic.
    pub topic_id: Uuid,
    /// Name of its topic.
    pub topic: Arc<str>,
    /// Its index.
    pub partition_id: i32,
}

/// A resource whose configs changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigResourceName {
    /// See [`resource_type`].
    pub resource_type: i8,
    /// Its name.
    pub name: String,
}

/// The difference between two images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataDelta {
    /// Topics of the newer image whose ids the older has not.
    pub topics_created: Vec<TopicName>,
    /// Topics of the older image whose ids the newer has not. A recreated topic is both deleted and created.
    pub topics_deleted: Vec<TopicName>,
    /// Partitions that the older image has not, those of created topics included.
    pub partitions_created: Vec<TopicPartitionName>,
    /// Partitions whose state differs: leader, epochs, ISR, directories.
    pub partitions_changed: Vec<TopicPartitionName>,
    /// Resources whose overrides differ. A deleted topic's overrides are gone with it and are named too.
    pub configs_changed: Vec<ConfigResourceName>,
    /// Brokers that registered, changed or are gone.
    pub brokers_changed: Vec<i32>,
    /// Whether a feature's level differs.
    pub features_changed: bool,
    /// Whether producer ids were allocated.
    pub producer_ids_changed: bool,
    /// Whether quotas, credentials, access control entries or tokens differ.
    pub security_changed: bool,
}

impl MetadataDelta {
    /// What turns `old` into `new`.
    pub fn between(old: &MetadataImage, new: &MetadataImage) -> Self {
        let mut delta = Self {
            features_changed: old.features != new.features,
            producer_ids_changed: old.producer_ids != new.producer_ids,
            security_changed: old.security != new.security,
            ..Self::default()
        };
        for item in old.topics.ids_map().diff(new.topics.ids_map()) {
            match item {
                DiffItem::Add(_, topic) => {
                    delta.topics_created.push(topic_name(topic));
                    delta.partitions_created.extend(all_partitions(topic));
                }
                DiffItem::Remove(_, topic) => delta.topics_deleted.push(topic_name(topic)),
                DiffItem::Update { old: (_, old), new: (_, new) } => delta.compare(old, new),
            }
        }
        for item in old.cluster.brokers().diff(new.cluster.brokers()) {
            match item {
                DiffItem::Add(id, _) | DiffItem::Remove(id, _) | DiffItem::Update { new: (id, _), .. } => {
                    delta.brokers_changed.push(*id);
                }
            }
        }
        let types = [
            resource_type::TOPIC,
            resource_type::BROKER,
            resource_type::CLIENT_METRICS,
            resource_type::GROUP,
        ];
        for resource_type in types {
            let of = |image: &MetadataImage| {
                image.configs.by_type().get(&resource_type).cloned().unwrap_or_default()
            };
            let (old, new) = (of(old), of(new));
            for item in old.diff(&new) {
                let name = match item {
                    DiffItem::Add(name, _)
                    | DiffItem::Remove(name, _)
                    | DiffItem::Update { new: (name, _), .. } => name,
                };
                delta.configs_changed.push(ConfigResourceName { resource_type, name: name.clone() });
            }
        }
        delta
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the dynamic configs of this broker or of all brokers differ.
    pub fn broker_configs_changed(&self, broker_id: i32) -> bool {
        let id = broker_id.to_string();
        let configs = self.configs_changed.iter();
        configs
            .filter(|config| config.resource_type == resource_type::BROKER)
            .any(|config| config.name.is_empty() || config.name == id)
    }

    fn compare(&mut self, old: &TopicImage, new: &TopicImage) {
        for partition in new.partitions() {
            let name = || TopicPartitionName {
                topic_id: new.id(),
                topic: new.shared_name(),
                partition_id: partition.partition_id,
            };
            match old.partition(partition.partition_id) {
                None => self.partitions_created.push(name()),
                Some(before) if before != partition => self.partitions_changed.push(name()),
                Some(_) => {}
            }
        }
    }
}

fn topic_name(topic: &TopicImage) -> TopicName {
    TopicName { id: topic.id(), name: topic.shared_name() }
}

fn all_partitions(topic: &TopicImage) -> impl Iterator<Item = TopicPartitionName> {
    topic.partitions().iter().map(|partition| TopicPartitionName {
        topic_id: topic.id(),
        topic: topic.shared_name(),
        partition_id: partition.partition_id,
    })
}
