//! Control records: their keys, and the value of a transaction's end marker.

use super::BatchError;

/// What a control record says, by the type in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecordType {
    /// End of an aborted transaction.
    Abort,
    /// End of a committed transaction.
    Commit,
    /// A raft leader began its epoch.
    LeaderChange,
    /// First record of a snapshot.
    SnapshotHeader,
    /// Last record of a snapshot.
    SnapshotFooter,
    /// The kraft.version of the quorum (KIP-853).
    KRaftVersion,
    /// The voters of the quorum (KIP-853).
    KRaftVoters,
    /// A type we do not know: to be passed over.
    Unknown(i16),
}

/// Size of a control record's key, in bytes.
pub const CONTROL_KEY_SIZE_BYTES: usize = 4;

impl ControlRecordType {
    /// The type's id.
    #[must_use]
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// The type of an id.
    #[must_use]
    pub fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            id => Self::Unknown(id),
        }
    }

    /// Parses the key of a control record: `int16 version, int16 type`. Later versions may append fields, which are
    /// passed over. Input is untrusted.
    ///
    /// # Errors
    /// [`BatchError::ControlRecord`] for a key that is too short or of a negative version.
    pub fn parse_key(key: &[u8]) -> Result<Self, BatchError> {
        let (version, id) = two_i16(key).ok_or(BatchError::ControlRecord {
            what: "key is shorter than 4 bytes",
            found: key.len() as i64,
        })?;
        if version < 0 {
            return Err(BatchError::ControlRecord {
                what: "key version is negative",
                found: i64::from(version),
            });
        }
        Ok(Self::from_id(id))
    }

    /// The key, version 0.
    #[must_use]
    pub fn key(self) -> [u8; CONTROL_KEY_SIZE_BYTES] {
        let [high, low] = self.id().to_be_bytes();
        [0, 0, high, low]
    }
}

fn two_i16(bytes: &[u8]) -> Option<(i16, i16)> {
    let &[a, b, c, d] = bytes.first_chunk()?;
    Some((i16::from_be_bytes([a, b]), i16::from_be_bytes([c, d])))
}

/// The value of an [`Abort`](ControlRecordType::Abort) or [`Commit`](ControlRecordType::Commit) record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTxnMarker {
    /// Epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// Parses `int16 version, int32 coordinator epoch`; fields of later versions are passed over. Input is untrusted.
    ///
    /// # Errors
    /// [`BatchError::ControlRecord`] for a value that is too short or of a negative version.
    pub fn parse(value: &[u8]) -> Result<Self, BatchError> {
        let Some(&[v0, v1, e0, e1, e2, e3]) = value.first_chunk() else {
            return Err(BatchError::ControlRecord {
                what: "end marker is shorter than 6 bytes",
                found: value.len() as i64,
            });
        };
        let version = i16::from_be_bytes([v0, v1]);
        if version < 0 {
            return Err(BatchError::ControlRecord {
                what: "end marker version is negative",
                found: i64::from(version),
            });
        }
        Ok(Self { coordinator_epoch: i32::from_be_bytes([e0, e1, e2, e3]) })
    }

    /// The value, version 0.
    #[must_use]
    pub fn value(self) -> [u8; 6] {
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_unknown_types_are_kept() {
        for id in [-1, 0, 1, 2, 3, 4, 5, 6, 7, i16::MAX] {
            let kind = ControlRecordType::from_id(id);
            assert_eq!(kind.id(), id);
            assert_eq!(ControlRecordType::parse_key(&kind.key()), Ok(kind));
        }
        assert_eq!(ControlRecordType::parse_key(&[0, 1, 0, 1, 9, 9]), Ok(ControlRecordType::Commit));
        assert!(ControlRecordType::parse_key(&[0, 0, 0]).is_err());
        assert!(ControlRecordType::parse_key(&[0xff, 0xff, 0, 0]).is_err());
    }

    #[test]
    fn end_markers_round_trip() {
        let marker = EndTxnMarker { coordinator_epoch: 0x0102_0304 };
        assert_eq!(marker.value(), [0, 0, 1, 2, 3, 4]);
        assert_eq!(EndTxnMarker::parse(&marker.value()), Ok(marker));
        assert!(EndTxnMarker::parse(&[0, 0, 1, 2, 3]).is_err());
        assert!(EndTxnMarker::parse(&[0x80, 0, 1, 2, 3, 4]).is_err());
    }
}
