//! What the quorum says of itself in control records of its log and snapshots: its kraft.version and its voters (KIP-853).
//!
//! Of kraft.version 0 (a static quorum) there are none: the voters are in everybody's properties. From 1 on (a dynamic
//! quorum, as `kafka-storage.sh format --standalone` makes it) the log and each snapshot hold them, and Kafka cannot start
//! on a snapshot that lost them. Invariant: what was read is written to every snapshot, as it was.

use weir_protocol::messages::{
    KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter, VotersRecord, VotersRecordEndpoint,
    VotersRecordKRaftVersionFeature, VotersRecordVoter,
};
use weir_protocol::records::{BatchError, ControlRecordType, RecordView};
use weir_protocol::wire::{DecodeError, EncodeError, Reader, Uuid};

/// The highest kraft.version that this server leads.
const MAX_KRAFT_VERSION: i16 = 1;
/// What decoding one record of the quorum may allocate.
const DECODE_BYTES: usize = 1 << 20;

/// Why a control record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    /// Its key.
    #[error(transparent)]
    Key(#[from] BatchError),
    /// Its value.
    #[error(transparent)]
    Value(#[from] DecodeError),
}

/// The one voter of a dynamic quorum that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Voter {
    /// This node.
    pub(crate) node_id: i32,
    /// The id of the directory with the metadata log.
    pub(crate) directory_id: Uuid,
    /// Name of the controllers' listener.
    pub(crate) listener: String,
    /// Where it can be reached.
    pub(crate) host: String,
    /// Where it can be reached.
    pub(crate) port: u16,
}

/// The newest records of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Quorum {
    version: KRaftVersionRecord,
    voters: Option<VotersRecord>,
}

impl Quorum {
    /// A dynamic quorum of this voter alone.
    pub(super) fn of(voter: &Voter) -> Self {
        let endpoint = VotersRecordEndpoint {
            name: voter.listener.clone(),
            host: voter.host.clone(),
            port: voter.port,
            ..VotersRecordEndpoint::default()
        };
        let voter = VotersRecordVoter {
            voter_id: voter.node_id,
            voter_directory_id: voter.directory_id,
            endpoints: vec![endpoint],
            kraft_version_feature: VotersRecordKRaftVersionFeature {
                max_supported_version: MAX_KRAFT_VERSION,
                ..VotersRecordKRaftVersionFeature::default()
            },
            ..VotersRecordVoter::default()
        };
        Self {
            version: KRaftVersionRecord { kraft_version: 1, ..KRaftVersionRecord::default() },
            voters: Some(VotersRecord { voters: vec![voter], ..VotersRecord::default() }),
        }
    }

    /// Takes what a control record says of the quorum; others are passed over. Input is untrusted.
    ///
    /// # Errors
    /// When it cannot be decoded.
    pub(super) fn apply(&mut self, record: &RecordView<'_>) -> Result<(), ControlError> {
        let value = record.value.unwrap_or_default();
        let mut reader = Reader::new(value, DECODE_BYTES);
        // Each begins with its version, which is a field of it, too.
        let version = value.first_chunk().map_or(0, |bytes| i16::from_be_bytes(*bytes));
        match ControlRecordType::parse_key(record.key.unwrap_or_default())? {
            ControlRecordType::KRaftVersion => {
                self.version = KRaftVersionRecord::decode(&mut reader, version)?;
            }
            ControlRecordType::KRaftVoters => self.voters = Some(VotersRecord::decode(&mut reader, version)?),
            _ => {}
        }
        Ok(())
    }

    /// `kraft.version`.
    pub(super) fn kraft_version(&self) -> i16 {
        self.version.kraft_version
    }

    /// Whether this server knows how to lead a quorum of this kraft.version.
    pub(super) fn is_supported(&self) -> bool {
        (0..=MAX_KRAFT_VERSION).contains(&self.kraft_version())
    }

    /// Whether this node is the only voter; true of a static quorum, whose voters are not here.
    pub(super) fn is_alone(&self, node_id: i32) -> bool {
        let voters = self.voters.as_ref().map(|record| record.voters.as_slice());
        voters.is_none_or(|voters| matches!(voters, [only] if only.voter_id == node_id))
    }

    /// The directory of the voter, where the quorum names it.
    pub(super) fn voter_directory_id(&self) -> Uuid {
        let voter = self.voters.as_ref().and_then(|record| record.voters.first());
        voter.filter(|_| self.kraft_version() >= 1).map_or(Uuid::ZERO, |voter| voter.voter_directory_id)
    }

    /// The value of the record that says that this node leads.
    ///
    /// # Errors
    /// None in practice.
    pub(super) fn leader_change(node_id: i32) -> Result<Vec<u8>, EncodeError> {
        // Kafka 4.4 reads no other version of it, though there is one that names the directory.
        const VERSION: i16 = 0;
        let voter = LeaderChangeMessageVoter { voter_id: node_id, ..LeaderChangeMessageVoter::default() };
        let message = LeaderChangeMessage {
            version: VERSION,
            leader_id: node_id,
            voters: vec![voter.clone()],
            granting_voters: vec![voter],
            ..LeaderChangeMessage::default()
        };
        let mut value = Vec::new();
        message.encode(&mut value, VERSION)?;
        Ok(value)
    }

    /// The control records that a snapshot needs behind its header: none of a static quorum.
    ///
    /// # Errors
    /// None in practice: what was decoded can be encoded.
    pub(super) fn records(&self) -> Result<Vec<(ControlRecordType, Vec<u8>)>, EncodeError> {
        let mut records = Vec::new();
        if self.kraft_version() >= 1 {
            let mut value = Vec::new();
            self.version.encode(&mut value, self.version.version)?;
            records.push((ControlRecordType::KRaftVersion, value));
        }
        if let Some(voters) = &self.voters {
            let mut value = Vec::new();
            voters.encode(&mut value, voters.version)?;
            records.push((ControlRecordType::KRaftVoters, value));
        }
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use weir_metadata::controller::bootstrap_records;
    use weir_metadata::metadata_version;

    use super::super::snapshot;
    use super::super::tests::open;
    use super::*;

    const DIRECTORY: Uuid = Uuid([5; 16]);

    fn voter() -> Voter {
        Voter {
            node_id: 1,
            directory_id: DIRECTORY,
            listener: "CONTROLLER".to_string(),
            host: "localhost".to_string(),
            port: 9093,
        }
    }

    #[test]
    fn the_voters_of_a_dynamic_quorum_are_in_every_snapshot() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("__cluster_metadata-0");
        for start in 0..3 {
            let mut log = open(root.path()).unwrap();
            // Only a log without anything is made one; this one is known as such later.
            log.lead(1, Some(&voter()), 1).unwrap();
            assert_eq!(log.voter_directory_id(), DIRECTORY, "{start}");
            log.append(&bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]), 1).unwrap();
            log.snapshot(1).unwrap();
            drop(log);
            let snapshots = snapshot::list(&dir).unwrap();
            assert_eq!(snapshots.len(), 1, "{snapshots:?}");
            assert!(snapshots[0].end_offset > 0);
            let (_, quorum) = snapshot::read(&snapshots[0]).unwrap();
            assert_eq!(quorum, Quorum::of(&voter()));
            let state = std::fs::read_to_string(dir.join("quorum-state")).unwrap();
            assert!(state.contains("\"data_version\":1") && state.contains("votedDirectoryId"), "{state}");
        }
    }

    #[test]
    fn a_static_quorum_stays_one_and_names_no_directory() {
        let root = tempfile::tempdir().unwrap();
        open(root.path()).unwrap().lead(1, None, 1).unwrap();
        let mut log = open(root.path()).unwrap();
        log.lead(1, Some(&voter()), 1).unwrap();
        assert_eq!(log.voter_directory_id(), Uuid::ZERO);
        assert_eq!(snapshot::list(&root.path().join("__cluster_metadata-0")).unwrap(), []);
    }

    #[test]
    fn a_quorum_of_others_or_of_newer_software_is_refused_and_nothing_written() {
        let several = {
            let mut quorum = Quorum::of(&voter());
            let other = VotersRecordVoter { voter_id: 2, ..VotersRecordVoter::default() };
            quorum.voters.as_mut().unwrap().voters.push(other);
            quorum
        };
        let anothers = Quorum::of(&Voter { node_id: 2, ..voter() });
        let newer = {
            let mut quorum = Quorum::of(&voter());
            quorum.version.kraft_version = 2;
            quorum
        };
        for (quorum, said) in [
            (several, "belongs to a quorum of other or several controllers"),
            (anothers, "belongs to a quorum of other or several controllers"),
            (newer, "kraft.version is at level 2"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("__cluster_metadata-0");
            std::fs::create_dir(&dir).unwrap();
            snapshot::write_first(&dir, &quorum, 1).unwrap();
            let error = open(root.path()).err().expect("it must not be led").to_string();
            assert!(error.contains(said), "{error}");
            assert!(!dir.join("quorum-state").exists());
        }
    }
}
