//! The image written as records, in Kafka's order: features, brokers, controllers, topics, configs, quotas, producer
//! ids, access control entries, credentials, tokens. Records are made one at a time, as they are asked for.

use weir_protocol::messages::*;
use weir_protocol::wire::UnknownTags;

use super::MetadataImage;
use crate::metadata_version;
use crate::record_frame::{MetadataRecord, VersionedRecord};

/// The records of a snapshot's data batches; header and footer are the log's own.
pub struct SnapshotRecords<'a> {
    records: Box<dyn Iterator<Item = MetadataRecord> + 'a>,
    level: i16,
}

impl<'a> SnapshotRecords<'a> {
    pub(super) fn new(image: &'a MetadataImage) -> Self {
        let records = features(image)
            .chain(cluster(image))
            .chain(topics(image))
            .chain(configs(image))
            .chain(quotas(image))
            .chain(producer_ids(image))
            .chain(access(image));
        Self { records: Box::new(records), level: image.features.metadata_version() }
    }
}

impl Iterator for SnapshotRecords<'_> {
    type Item = VersionedRecord;

    fn next(&mut self) -> Option<VersionedRecord> {
        self.records.next().map(|record| record.at_level(self.level))
    }
}

/// `metadata.version` comes first: it says how to read what follows.
fn features(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    let features = &image.features;
    let level = |name: &str, feature_level| -> MetadataRecord {
        FeatureLevelRecord { name: name.to_owned(), feature_level, unknown_tags: UnknownTags::NONE }.into()
    };
    let version = features.metadata_version();
    let first = (version != 0).then(|| level(metadata_version::FEATURE_NAME, version));
    let others = features.levels().iter().map(move |(name, feature_level)| level(name, *feature_level));
    let migration = features.zk_migration_state().map(|zk_migration_state| {
        ZkMigrationStateRecord { zk_migration_state, unknown_tags: UnknownTags::NONE }.into()
    });
    first.into_iter().chain(others).chain(migration)
}

fn cluster(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    let brokers =
        image.cluster.brokers().values().map(|broker| MetadataRecord::RegisterBroker((**broker).clone()));
    let controllers = image
        .cluster
        .controllers()
        .values()
        .map(|controller| MetadataRecord::RegisterController((**controller).clone()));
    brokers.chain(controllers)
}

fn topics(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    image.topics.ids_map().values().flat_map(|topic| {
        let partitions = topic
            .partitions()
            .iter()
            .map(|partition| MetadataRecord::Partition(partition.to_record(topic.id())));
        std::iter::once(MetadataRecord::Topic(topic.topic_record())).chain(partitions)
    })
}

fn configs(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    let resources = image.configs.by_type().iter();
    let resources =
        resources.flat_map(|(kind, names)| names.iter().map(|(name, configs)| (*kind, name, configs)));
    resources.flat_map(|(resource_type, resource_name, configs)| {
        configs.iter().map(move |(name, value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type,
                resource_name: resource_name.clone(),
                name: name.clone(),
                value: Some(value.clone()),
                unknown_tags: UnknownTags::NONE,
            })
        })
    })
}

fn quotas(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    image.security.quotas().iter().flat_map(|(entity, values)| {
        values.iter().map(|(key, value)| {
            let entity = entity.iter().map(|(entity_type, entity_name)| ClientQuotaRecordEntityData {
                entity_type: entity_type.clone(),
                entity_name: entity_name.clone(),
                unknown_tags: UnknownTags::NONE,
            });
            MetadataRecord::ClientQuota(ClientQuotaRecord {
                entity: entity.collect(),
                key: key.clone(),
                value: *value,
                remove: false,
                unknown_tags: UnknownTags::NONE,
            })
        })
    })
}

fn producer_ids(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    image.producer_ids.into_iter().map(|ids| {
        MetadataRecord::ProducerIds(ProducerIdsRecord {
            broker_id: ids.broker_id,
            broker_epoch: ids.broker_epoch,
            next_producer_id: ids.next_producer_id,
            unknown_tags: UnknownTags::NONE,
        })
    })
}

fn access(image: &MetadataImage) -> impl Iterator<Item = MetadataRecord> {
    let security = &image.security;
    let acls = security.acls().values().map(|acl| MetadataRecord::AccessControlEntry((**acl).clone()));
    let credentials = security
        .credentials()
        .values()
        .map(|credential| MetadataRecord::UserScramCredential((**credential).clone()));
    let tokens = security.tokens().values().map(|token| MetadataRecord::DelegationToken((**token).clone()));
    acls.chain(credentials).chain(tokens)
}
