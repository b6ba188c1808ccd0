//! Records of the metadata log: the frame around them, one enum over their types, and the version that a level writes.
//!
//! A value is uvarint frame version (1), uvarint type, uvarint version, message, and nothing after it. The key is null.
//! Input is untrusted.

use weir_protocol::messages::*;
use weir_protocol::wire::{Reader, Sink, put_record_frame, read_record_frame};

use crate::MetadataError;

/// Version of the frame itself.
pub const FRAME_VERSION: u32 = 1;

macro_rules! metadata_records {
    ($($(#[$doc:meta])* $name:ident($record:ident);)*) => {
        /// A record of the metadata log.
        #[derive(Debug, Clone, PartialEq)]
        pub enum MetadataRecord {
            $($(#[$doc])* $name($record),)*
        }

        impl MetadataRecord {
            /// Kafka's name of the record.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $record::NAME,)* }
            }

            /// Its type.
            pub fn key(&self) -> i16 {
                match self { $(Self::$name(_) => $record::KEY,)* }
            }

            fn decode_message(r: &mut Reader<'_>, key: i16, version: i16) -> Result<Self, MetadataError> {
                match key {
                    $($record::KEY => {
                        if !($record::MIN_VERSION..=$record::MAX_VERSION).contains(&version) {
                            return Err(MetadataError::UnknownRecordVersion {
                                name: $record::NAME,
                                version,
                                highest: $record::MAX_VERSION,
                            });
                        }
                        let record = $record::decode(r, version);
                        record.map(Self::$name).map_err(|source| MetadataError::Decode { what: $record::NAME, source })
                    })*
                    _ => Err(MetadataError::UnknownRecord { key }),
                }
            }

            fn encode_message(&self, w: &mut dyn Sink, version: i16) -> Result<(), MetadataError> {
                let result = match self { $(Self::$name(record) => record.encode(w, version),)* };
                result.map_err(|source| MetadataError::Encode { what: self.name(), source })
            }
        }

        $(impl From<$record> for MetadataRecord {
            fn from(record: $record) -> Self {
                Self::$name(record)
            }
        })*
    };
}

metadata_records! {
    /// A broker or a new incarnation of it.
    RegisterBroker(RegisterBrokerRecord);
    /// A broker is gone for good.
    UnregisterBroker(UnregisterBrokerRecord);
    /// A topic.
    Topic(TopicRecord);
    /// A partition.
    Partition(PartitionRecord);
    /// A config, or its end.
    Config(ConfigRecord);
    /// A change of a partition.
    PartitionChange(PartitionChangeRecord);
    /// A broker may not lead (old form).
    FenceBroker(FenceBrokerRecord);
    /// A broker may lead (old form).
    UnfenceBroker(UnfenceBrokerRecord);
    /// A topic is deleted.
    RemoveTopic(RemoveTopicRecord);
    /// A delegation token.
    DelegationToken(DelegationTokenRecord);
    /// A SCRAM credential.
    UserScramCredential(UserScramCredentialRecord);
    /// The level of a feature.
    FeatureLevel(FeatureLevelRecord);
    /// A client quota, or its end.
    ClientQuota(ClientQuotaRecord);
    /// The next free producer id.
    ProducerIds(ProducerIdsRecord);
    /// A change of a broker's registration.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord);
    /// An access control entry.
    AccessControlEntry(AccessControlEntryRecord);
    /// The end of an access control entry.
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord);
    /// Nothing but an offset.
    NoOp(NoOpRecord);
    /// The state of a migration from ZooKeeper.
    ZkMigrationState(ZkMigrationStateRecord);
    /// The end of a SCRAM credential.
    RemoveUserScramCredential(RemoveUserScramCredentialRecord);
    /// The start of records that count together.
    BeginTransaction(BeginTransactionRecord);
    /// The records since the start count.
    EndTransaction(EndTransactionRecord);
    /// The records since the start do not count.
    AbortTransaction(AbortTransactionRecord);
    /// The end of a delegation token.
    RemoveDelegationToken(RemoveDelegationTokenRecord);
    /// A controller.
    RegisterController(RegisterControllerRecord);
    /// A controller is gone for good.
    UnregisterController(UnregisterControllerRecord);
    /// Eligible leader replicas of a topic, or of all, are forgotten.
    ClearElr(ClearElrRecord);
}

impl MetadataRecord {
    /// This record at the version that `metadata_version` writes. Fields that the version cannot carry are dropped, as
    /// Kafka drops them when it writes at a lower level.
    pub fn at_level(self, metadata_version: i16) -> VersionedRecord {
        let version = match &self {
            Self::RegisterBroker(_) if metadata_version >= 30 => 4,
            Self::RegisterBroker(_) if metadata_version >= 17 => 3,
            Self::RegisterBroker(_) => 2,
            Self::Partition(_) | Self::PartitionChange(_) if metadata_version >= 23 => 2,
            Self::Partition(_) | Self::PartitionChange(_) if metadata_version >= 17 => 1,
            // Kafka writes the lowest version that carries what changes.
            Self::BrokerRegistrationChange(change)
                if change.cordoned_log_dirs.is_some() && metadata_version >= 30 =>
            {
                3
            }
            Self::BrokerRegistrationChange(change)
                if !change.log_dirs.is_empty() && metadata_version >= 17 =>
            {
                2
            }
            Self::BrokerRegistrationChange(change) if change.in_controlled_shutdown != 0 => 1,
            _ => 0,
        };
        let record = match self {
            Self::RegisterBroker(mut record) => {
                if version < 4 {
                    record.cordoned_log_dirs = None;
                }
                if version < 3 {
                    record.log_dirs.clear();
                }
                Self::RegisterBroker(record)
            }
            Self::Partition(mut record) => {
                if version < 2 {
                    record.eligible_leader_replicas = None;
                    record.last_known_elr = None;
                }
                if version < 1 {
                    record.directories.clear();
                }
                Self::Partition(record)
            }
            Self::PartitionChange(mut record) => {
                if version < 2 {
                    record.eligible_leader_replicas = None;
                    record.last_known_elr = None;
                }
                if version < 1 {
                    record.directories = None;
                }
                Self::PartitionChange(record)
            }
            Self::BrokerRegistrationChange(mut record) => {
                if version < 3 {
                    record.cordoned_log_dirs = None;
                }
                if version < 2 {
                    record.log_dirs.clear();
                }
                Self::BrokerRegistrationChange(record)
            }
            other => other,
        };
        VersionedRecord { record, version }
    }
}

/// A record and the version in which it stands in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionedRecord {
    /// The record.
    pub record: MetadataRecord,
    /// Its version.
    pub version: i16,
}

impl VersionedRecord {
    /// Decodes the value of a record of the log. What is built is charged to `budget_bytes`. Input is untrusted.
    ///
    /// # Errors
    /// A frame, type or version that is not known, a malformed message, bytes after it, or more than the budget.
    pub fn decode(value: &[u8], budget_bytes: usize) -> Result<Self, MetadataError> {
        let mut r = Reader::new(value, budget_bytes);
        let frame = |source| MetadataError::Decode { what: "metadata record frame", source };
        let (key, version) = read_record_frame(&mut r, FRAME_VERSION).map_err(frame)?;
        let record = MetadataRecord::decode_message(&mut r, key, version)?;
        r.finish().map_err(|source| MetadataError::Decode { what: record.name(), source })?;
        Ok(Self { record, version })
    }

    /// Encodes the value of a record of the log.
    ///
    /// # Errors
    /// A field that the version cannot carry, or a length beyond the format.
    pub fn encode(&self, w: &mut dyn Sink) -> Result<(), MetadataError> {
        put_record_frame(w, FRAME_VERSION, self.record.key(), self.version);
        self.record.encode_message(w, self.version)
    }

    /// The encoded value.
    ///
    /// # Errors
    /// As [`VersionedRecord::encode`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, MetadataError> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use weir_protocol::wire::Uuid;

    use super::*;

    fn topic() -> VersionedRecord {
        MetadataRecord::from(TopicRecord {
            name: "t".to_owned(),
            topic_id: Uuid::from_halves(0, 7),
            ..TopicRecord::default()
        })
        .at_level(21)
    }

    #[test]
    fn the_frame_is_version_1_type_and_version() {
        let bytes = topic().to_bytes().unwrap();
        assert_eq!(bytes[..3], [1, 2, 0]);
        assert_eq!(VersionedRecord::decode(&bytes, 1 << 20).unwrap(), topic());
    }

    #[test]
    fn unknown_frames_types_and_versions_say_so() {
        let message = |bytes: &[u8]| VersionedRecord::decode(bytes, 1 << 20).unwrap_err().to_string();
        assert!(message(&[0, 2, 0]).contains("frame version"));
        assert!(message(&[1, 99, 0]).contains("99"));
        assert!(message(&[1, 3, 9]).contains("PartitionRecord"));
        assert!(message(&[1, 3, 9]).contains('9'));
        let mut bytes = topic().to_bytes().unwrap();
        bytes.push(0);
        assert!(VersionedRecord::decode(&bytes, 1 << 20).is_err(), "a trailing byte is an error");
        assert!(VersionedRecord::decode(&[], 1 << 20).is_err());
    }

    #[test]
    fn lower_levels_drop_what_they_cannot_carry() {
        let record = PartitionRecord {
            directories: vec![Uuid::from_halves(1, 1)],
            eligible_leader_replicas: Some(vec![1]),
            ..PartitionRecord::default()
        };
        for (level, version) in [(16, 0), (17, 1), (21, 1), (22, 1), (23, 2), (33, 2)] {
            let record = MetadataRecord::from(record.clone()).at_level(level);
            assert_eq!(record.version, version, "level {level}");
            let bytes = record.to_bytes().unwrap();
            assert_eq!(VersionedRecord::decode(&bytes, 1 << 20).unwrap(), record);
        }
        let broker = MetadataRecord::from(RegisterBrokerRecord {
            cordoned_log_dirs: Some(vec![]),
            log_dirs: vec![Uuid::from_halves(1, 1)],
            ..RegisterBrokerRecord::default()
        });
        for (level, version) in [(16, 2), (21, 3), (30, 4)] {
            let record = broker.clone().at_level(level);
            assert_eq!(record.version, version);
            assert!(record.to_bytes().is_ok());
        }
    }
}
