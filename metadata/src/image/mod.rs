//! The image: all metadata up to an offset of the log. It changes only by applying records, in order.
//!
//! A clone costs a few pointers, so the published image is a clone and readers never wait. What changed between two
//! images is a [`MetadataDelta`]; a snapshot is the image written as records again.

mod cluster;
mod configs;
mod delta;
mod features;
mod memory;
mod replay;
mod security;
mod snapshot;
mod topics;

#[cfg(test)]
mod tests;

pub use cluster::ClusterImage;
pub use configs::{ConfigsImage, resource_type};
pub use delta::{ConfigResourceName, MetadataDelta, TopicName, TopicPartitionName};
pub use features::FeaturesImage;
pub use replay::MetadataReplay;
pub use security::{QuotaEntity, SecurityImage};
pub use snapshot::SnapshotRecords;
pub use topics::{LeaderRecoveryState, NO_LEADER, Partition, TopicImage, TopicsImage, directory_id};

use crate::record_frame::MetadataRecord;
use crate::{MetadataError, VersionedRecord};

/// Where an image stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// Offset of the last record in it, -1 for none.
    pub last_contained_offset: i64,
    /// Epoch of that record, -1 for none.
    pub last_contained_epoch: i32,
    /// Time of that record's batch in ms, -1 for unknown.
    pub last_contained_log_time_ms: i64,
}

impl Default for Provenance {
    fn default() -> Self {
        Self { last_contained_offset: -1, last_contained_epoch: -1, last_contained_log_time_ms: -1 }
    }
}

/// All metadata up to an offset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetadataImage {
    pub(crate) provenance: Provenance,
    pub(crate) features: FeaturesImage,
    pub(crate) cluster: ClusterImage,
    pub(crate) topics: TopicsImage,
    pub(crate) configs: ConfigsImage,
    pub(crate) security: SecurityImage,
    /// The last ProducerIdsRecord: broker, its epoch, next free producer id.
    pub(crate) producer_ids: Option<ProducerIds>,
}

/// The state of producer id allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIds {
    /// Who allocated last.
    pub broker_id: i32,
    /// That broker's epoch.
    pub broker_epoch: i64,
    /// First id of the next block.
    pub next_producer_id: i64,
}

impl MetadataImage {
    /// The image before any record.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Where it stands in the log.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// Offset of the last record in it, -1 for none.
    pub fn last_offset(&self) -> i64 {
        self.provenance.last_contained_offset
    }

    /// Whether no record with content was applied.
    pub fn is_empty(&self) -> bool {
        Self { provenance: Provenance::default(), ..self.clone() } == Self::default()
    }

    /// Features and their levels.
    pub fn features(&self) -> &FeaturesImage {
        &self.features
    }

    /// Brokers and controllers.
    pub fn cluster(&self) -> &ClusterImage {
        &self.cluster
    }

    /// Topics and partitions.
    pub fn topics(&self) -> &TopicsImage {
        &self.topics
    }

    /// Overrides of topics, brokers, groups and client-metrics subscriptions.
    pub fn configs(&self) -> &ConfigsImage {
        &self.configs
    }

    /// Quotas, credentials, access control entries and tokens.
    pub fn security(&self) -> &SecurityImage {
        &self.security
    }

    /// Producer id allocation, `None` before the first block.
    pub fn producer_ids(&self) -> Option<ProducerIds> {
        self.producer_ids
    }

    /// Estimate of the memory that it holds, in bytes. It is kept up with every record, so asking costs nothing.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.features.memory_bytes()
            + self.cluster.memory_bytes()
            + self.topics.memory_bytes()
            + self.configs.memory_bytes()
            + self.security.memory_bytes()
    }

    /// Applies the record at `offset`. Transaction records move the offset only: see [`MetadataReplay`].
    ///
    /// # Errors
    /// [`MetadataError::Replay`] when the record does not fit the records before it.
    pub fn apply(&mut self, record: &MetadataRecord, offset: i64) -> Result<(), MetadataError> {
        let misfit = |reason: String| MetadataError::Replay { record: record.name(), offset, reason };
        match record {
            MetadataRecord::RegisterBroker(record) => self.cluster.register_broker(record),
            MetadataRecord::UnregisterBroker(record) => {
                self.cluster.unregister_broker(record).map_err(misfit)?
            }
            MetadataRecord::FenceBroker(record) => {
                self.cluster.set_fenced(record.id, record.epoch, true).map_err(misfit)?;
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.cluster.set_fenced(record.id, record.epoch, false).map_err(misfit)?;
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                self.cluster.change_registration(record).map_err(misfit)?;
            }
            MetadataRecord::RegisterController(record) => self.cluster.register_controller(record),
            MetadataRecord::UnregisterController(record) => {
                self.cluster.unregister_controller(record.controller_id)
            }
            MetadataRecord::Topic(record) => {
                self.topics.add_topic(record).map_err(misfit)?;
                // A new topic's configs follow it. Those that stand here are of a deleted one: snapshots of Kafka 4.4
                // keep the configs of a topic that was made and deleted between two loads.
                self.configs.remove(resource_type::TOPIC, &record.name);
            }
            MetadataRecord::Partition(record) => self.topics.add_partition(record).map_err(misfit)?,
            MetadataRecord::PartitionChange(record) => {
                self.topics.change_partition(record).map_err(misfit)?
            }
            MetadataRecord::RemoveTopic(record) => {
                let name = self.topics.remove_topic(record).map_err(misfit)?;
                self.configs.remove(resource_type::TOPIC, &name);
            }
            MetadataRecord::ClearElr(record) => self.topics.clear_elr(&record.topic_name).map_err(misfit)?,
            MetadataRecord::Config(record) => self.configs.apply(record),
            MetadataRecord::FeatureLevel(record) => self.features.apply(record),
            MetadataRecord::ZkMigrationState(record) => {
                self.features.set_zk_migration_state(record.zk_migration_state)
            }
            MetadataRecord::ProducerIds(record) => {
                self.producer_ids = Some(ProducerIds {
                    broker_id: record.broker_id,
                    broker_epoch: record.broker_epoch,
                    next_producer_id: record.next_producer_id,
                });
            }
            MetadataRecord::ClientQuota(record) => self.security.apply_quota(record),
            MetadataRecord::UserScramCredential(record) => self.security.add_credential(record),
            MetadataRecord::RemoveUserScramCredential(record) => {
                self.security.remove_credential(&record.name, record.mechanism);
            }
            MetadataRecord::AccessControlEntry(record) => self.security.add_acl(record),
            MetadataRecord::RemoveAccessControlEntry(record) => {
                self.security.remove_acl(record.id).map_err(misfit)?;
            }
            MetadataRecord::DelegationToken(record) => self.security.add_token(record),
            MetadataRecord::RemoveDelegationToken(record) => self.security.remove_token(&record.token_id),
            MetadataRecord::NoOp(_)
            | MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => {}
        }
        self.provenance.last_contained_offset = offset;
        Ok(())
    }

    /// Moves on past records that hold no metadata: control records use offsets too.
    pub fn skip_to(&mut self, offset: i64) {
        self.provenance.last_contained_offset = self.provenance.last_contained_offset.max(offset);
    }

    /// Notes epoch and time of the batch whose records were applied last.
    pub fn set_batch(&mut self, epoch: i32, log_time_ms: i64) {
        self.provenance.last_contained_epoch = epoch;
        self.provenance.last_contained_log_time_ms = log_time_ms;
    }

    /// The image that a snapshot's records give. It replaces the one before: what is not in it is gone.
    ///
    /// # Errors
    /// A record that does not decode or does not fit, or a transaction record, which a snapshot must not hold.
    pub fn from_snapshot<I>(records: I, provenance: Provenance) -> Result<Self, MetadataError>
    where
        I: IntoIterator<Item = Result<VersionedRecord, MetadataError>>,
    {
        let mut image = Self::empty();
        for (offset, record) in (0i64..).zip(records) {
            let record = record?.record;
            if let MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) = record
            {
                return Err(MetadataError::Replay {
                    record: record.name(),
                    offset,
                    reason: "a snapshot holds no transactions".to_owned(),
                });
            }
            image.apply(&record, offset)?;
        }
        image.provenance = provenance;
        Ok(image)
    }

    /// Its records, in the order of a snapshot, at the image's own metadata.version.
    pub fn snapshot_records(&self) -> SnapshotRecords<'_> {
        SnapshotRecords::new(self)
    }
}
