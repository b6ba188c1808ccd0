//! The first records of a log, and the first records of a controller that takes up an older one.

use weir_protocol::messages::{
    AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord,
};
use weir_protocol::wire::UnknownTags;

use crate::image::MetadataReplay;
use crate::metadata_version;
use crate::record_frame::{MetadataRecord, VersionedRecord};

/// What a formatted log starts from: `metadata.version` at `level`, then the other features above 0.
pub fn bootstrap_records(level: i16, features: &[(&str, i16)]) -> Vec<VersionedRecord> {
    let record = |name: &str, feature_level| {
        let name = name.to_owned();
        MetadataRecord::from(FeatureLevelRecord { name, feature_level, unknown_tags: UnknownTags::NONE })
            .at_level(level)
    };
    let others = features.iter().filter(|(_, feature_level)| *feature_level > 0);
    std::iter::once(record(metadata_version::FEATURE_NAME, level))
        .chain(others.map(|(name, feature_level)| record(name, *feature_level)))
        .collect()
}

/// The records that a controller appends first, in one batch. An empty log gets the bootstrap records in a transaction
/// of their own, as Kafka writes them. A transaction that a crash left open is aborted; if it was the bootstrap itself,
/// it is written again.
pub fn activation_records(replay: &MetadataReplay, bootstrap: &[VersionedRecord]) -> Vec<VersionedRecord> {
    let mut records = Vec::new();
    let open = replay.open_transaction().is_some();
    if open {
        let reason = Some("Controller failover".to_owned());
        records
            .push(MetadataRecord::from(AbortTransactionRecord { reason, ..Default::default() }).at_level(0));
    }
    if replay.image().is_empty() {
        let level = bootstrap.iter().find_map(|record| match &record.record {
            MetadataRecord::FeatureLevel(feature) if feature.name == metadata_version::FEATURE_NAME => {
                Some(feature.feature_level)
            }
            _ => None,
        });
        let transaction = level.is_some_and(metadata_version::has_transactions);
        if transaction {
            let name = Some("Bootstrap records".to_owned());
            records.push(
                MetadataRecord::from(BeginTransactionRecord { name, ..Default::default() }).at_level(0),
            );
        }
        records.extend(bootstrap.iter().cloned());
        if transaction {
            records.push(MetadataRecord::from(EndTransactionRecord::default()).at_level(0));
        }
    }
    records
}
