//! Features: the level of `metadata.version` and of everything else that is finalized.

use weir_protocol::messages::FeatureLevelRecord;

use super::memory;
use crate::metadata_version;

/// Finalized features.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeaturesImage {
    /// 0 as long as no record named it.
    metadata_version: i16,
    levels: imbl::OrdMap<String, i16>,
    /// Written by Kafka up to 3.9; kept for the snapshot.
    zk_migration_state: Option<i8>,
}

impl FeaturesImage {
    /// Level of `metadata.version`, 0 as long as no record named it.
    pub fn metadata_version(&self) -> i16 {
        self.metadata_version
    }

    /// Levels of the other finalized features, all above 0.
    pub fn levels(&self) -> &imbl::OrdMap<String, i16> {
        &self.levels
    }

    /// The level of a feature, 0 when it is not finalized.
    pub fn level(&self, name: &str) -> i16 {
        if name == metadata_version::FEATURE_NAME {
            self.metadata_version
        } else {
            self.levels.get(name).copied().unwrap_or(0)
        }
    }

    /// The last ZkMigrationStateRecord.
    pub fn zk_migration_state(&self) -> Option<i8> {
        self.zk_migration_state
    }

    pub(super) fn apply(&mut self, record: &FeatureLevelRecord) {
        if record.name == metadata_version::FEATURE_NAME {
            self.metadata_version = record.feature_level;
        } else if record.feature_level == 0 {
            self.levels.remove(&record.name);
        } else {
            self.levels.insert(record.name.clone(), record.feature_level);
        }
    }

    pub(super) fn set_zk_migration_state(&mut self, state: i8) {
        self.zk_migration_state = Some(state);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let names: usize = self.levels.keys().map(|name| memory::heap(name.len())).sum();
        names + self.levels.len() * memory::map_entry(size_of::<String>(), 2)
    }
}
