//! The records of `__consumer_offsets`: bytes to changes and back.
//!
//! A key begins with its type, a value with its version. Offsets are written as version 3 (1 if they carry a retention of
//! their own), groups as version 3: what every Kafka from 2.3 to 4.x reads. Versions 0 to 4 are read.

use std::sync::Arc;

use weir_protocol::messages::group_records::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use weir_protocol::wire::{
    DecodeError, EncodeError, Reader, put_array_len, put_bytes, put_i16, put_i32, put_i64,
    put_nullable_string, put_string,
};

use crate::command::CoordinatorRecord;
use crate::error::{GroupError, ReplayError};
use crate::group::Group;
use crate::member::Member;
use crate::offsets::CommittedOffset;

const LEGACY_OFFSET_COMMIT: i16 = 0;
const OFFSET_COMMIT: i16 = 1;
const GROUP_METADATA: i16 = 2;

/// Version of the values written.
const VALUE_VERSION: i16 = 3;
/// Version of an offset with a retention of its own.
const EXPIRING_OFFSET_VERSION: i16 = 1;

/// Longest string that a record can hold, in bytes.
pub(crate) const MAX_STRING_BYTES: usize = i16::MAX as usize;

/// What a record says.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// An offset was committed, or removed.
    Offset {
        /// Which group.
        group: Arc<str>,
        /// Which topic.
        topic: Arc<str>,
        /// Which partition.
        partition: i32,
        /// The offset; `None` for a tombstone.
        value: Option<CommittedOffset>,
    },
    /// The state of a classic group, or its end.
    Group {
        /// Which group.
        group: Arc<str>,
        /// The state; `None` for a tombstone.
        value: Option<GroupMetadataValue>,
    },
    /// A record of another kind of group, by its key type.
    Other(i16),
}

/// Bytes that decoding a record of `size_bytes` may allocate: the structs of a list may be larger than their bytes.
fn decode_budget(size_bytes: usize) -> usize {
    size_bytes.saturating_mul(32).saturating_add(64 << 10)
}

fn malformed(what: &'static str) -> impl Fn(DecodeError) -> ReplayError {
    move |error| ReplayError::Malformed { what, reason: error.to_string() }
}

/// Reads a record. Input is untrusted: what is allocated is bounded by the length of the bytes.
pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Decoded, ReplayError> {
    let mut reader = Reader::new(key, decode_budget(key.len()));
    match reader.i16().map_err(malformed("record key"))? {
        LEGACY_OFFSET_COMMIT | OFFSET_COMMIT => {
            let key = OffsetCommitKey::decode(&mut reader, 0).map_err(malformed(OffsetCommitKey::NAME))?;
            let value = value.map(decode_offset).transpose()?;
            let (group, topic) = (Arc::from(key.group), Arc::from(key.topic));
            Ok(Decoded::Offset { group, topic, partition: key.partition, value })
        }
        GROUP_METADATA => {
            let key = GroupMetadataKey::decode(&mut reader, 0).map_err(malformed(GroupMetadataKey::NAME))?;
            let value = value.map(decode_group).transpose()?;
            Ok(Decoded::Group { group: Arc::from(key.group), value })
        }
        other => Ok(Decoded::Other(other)),
    }
}

fn value_version(reader: &mut Reader<'_>, what: &'static str, newest: i16) -> Result<i16, ReplayError> {
    let version = reader.i16().map_err(malformed(what))?;
    if version > newest {
        return Err(ReplayError::UnknownValueVersion { what, version, newest });
    }
    Ok(version)
}

fn decode_offset(value: &[u8]) -> Result<CommittedOffset, ReplayError> {
    let what = OffsetCommitValue::NAME;
    let mut reader = Reader::new(value, decode_budget(value.len()));
    let version = value_version(&mut reader, what, OffsetCommitValue::MAX_VERSION)?;
    let value = OffsetCommitValue::decode(&mut reader, version).map_err(malformed(what))?;
    Ok(CommittedOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        commit_timestamp_ms: value.commit_timestamp,
        expire_timestamp_ms: value.expire_timestamp,
        metadata: value.metadata.into(),
    })
}

fn decode_group(value: &[u8]) -> Result<GroupMetadataValue, ReplayError> {
    let what = GroupMetadataValue::NAME;
    let mut reader = Reader::new(value, decode_budget(value.len()));
    let version = value_version(&mut reader, what, GroupMetadataValue::MAX_VERSION)?;
    GroupMetadataValue::decode(&mut reader, version).map_err(malformed(what))
}

fn encode(write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) -> Result<Vec<u8>, GroupError> {
    let mut bytes = Vec::new();
    // Only a string beyond 32767 bytes fails, and commands with one are refused before they get here.
    write(&mut bytes).map_err(|_| GroupError::UnknownServerError)?;
    Ok(bytes)
}

fn offset_key(group: &str, topic: &str, partition: i32) -> Result<Vec<u8>, GroupError> {
    encode(|key| {
        put_i16(key, OFFSET_COMMIT);
        put_string(key, false, group)?;
        put_string(key, false, topic)?;
        put_i32(key, partition);
        Ok(())
    })
}

fn group_key(group: &str) -> Result<Vec<u8>, GroupError> {
    encode(|key| {
        put_i16(key, GROUP_METADATA);
        put_string(key, false, group)
    })
}

pub(crate) fn offset_commit(
    group: &str,
    topic: &str,
    partition: i32,
    offset: &CommittedOffset,
) -> Result<CoordinatorRecord, GroupError> {
    let expires = offset.expire_timestamp_ms >= 0;
    let version = if expires { EXPIRING_OFFSET_VERSION } else { VALUE_VERSION };
    let value = encode(|value| {
        put_i16(value, version);
        put_i64(value, offset.offset);
        if !expires {
            put_i32(value, offset.leader_epoch);
        }
        put_string(value, false, &offset.metadata)?;
        put_i64(value, offset.commit_timestamp_ms);
        if expires {
            put_i64(value, offset.expire_timestamp_ms);
        }
        Ok(())
    })?;
    Ok(CoordinatorRecord { key: offset_key(group, topic, partition)?, value: Some(value) })
}

pub(crate) fn offset_tombstone(
    group: &str,
    topic: &str,
    partition: i32,
) -> Result<CoordinatorRecord, GroupError> {
    Ok(CoordinatorRecord { key: offset_key(group, topic, partition)?, value: None })
}

pub(crate) fn group_tombstone(group: &str) -> Result<CoordinatorRecord, GroupError> {
    Ok(CoordinatorRecord { key: group_key(group)?, value: None })
}

/// The largest size of the group's record without assignments, before it is made.
pub(crate) fn group_metadata_size(group: &Group) -> usize {
    let text = |text: Option<&Arc<str>>| 2 + text.map_or(0, |text| text.len());
    let protocol = group.protocol_name().map(|name| &**name);
    let members: usize = group
        .members()
        .map(|member| {
            24 + member.id.len()
                + text(member.instance_id.as_ref())
                + member.client_id.len()
                + member.client_host.len()
                + member.metadata(protocol).len()
        })
        .sum();
    let key = 4 + group.id.len();
    key + 18 + text(group.protocol_type()) + text(group.protocol_name()) + text(group.leader()) + members
}

/// The group as it is, with the assignments that `assignment_of` gives.
pub(crate) fn group_metadata(
    group: &Group,
    assignment_of: impl Fn(&Member) -> Arc<[u8]>,
) -> Result<CoordinatorRecord, GroupError> {
    let protocol = group.protocol_name().map(|name| &**name);
    let value = encode(|value| {
        put_i16(value, VALUE_VERSION);
        put_string(value, false, group.protocol_type().map_or("", |name| &**name))?;
        put_i32(value, group.generation);
        put_nullable_string(value, false, protocol)?;
        put_nullable_string(value, false, group.leader().map(|leader| &**leader))?;
        put_i64(value, group.state_since_ms.unwrap_or(-1));
        put_array_len(value, false, Some(group.member_count()))?;
        for member in group.members() {
            put_string(value, false, &member.id)?;
            put_nullable_string(value, false, member.instance_id.as_deref())?;
            put_string(value, false, &member.client_id)?;
            put_string(value, false, &member.client_host)?;
            put_i32(value, member.rebalance_timeout_ms);
            put_i32(value, member.session_timeout_ms);
            put_bytes(value, false, &member.metadata(protocol))?;
            put_bytes(value, false, &assignment_of(member))?;
        }
        Ok(())
    })?;
    Ok(CoordinatorRecord { key: group_key(&group.id)?, value: Some(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Protocol;

    fn offset(expire_timestamp_ms: i64) -> CommittedOffset {
        let leader_epoch = if expire_timestamp_ms < 0 { 7 } else { -1 };
        CommittedOffset {
            offset: 42,
            leader_epoch,
            commit_timestamp_ms: 1_700_000_000_000,
            expire_timestamp_ms,
            metadata: "nöte".into(),
        }
    }

    #[test]
    fn an_offset_is_written_as_version_3_and_one_with_its_own_retention_as_version_1() {
        for (expires, version) in [(-1, 3), (1_700_000_100_000, 1)] {
            let record = offset_commit("g", "orders", 3, &offset(expires)).unwrap();
            let value = record.value.unwrap();
            assert_eq!(value[..2], [0, version]);
            // The generated encoder writes the same bytes.
            let mut generated = vec![0, version];
            OffsetCommitValue {
                offset: 42,
                leader_epoch: if expires < 0 { 7 } else { -1 },
                metadata: "nöte".to_owned(),
                commit_timestamp: 1_700_000_000_000,
                expire_timestamp: expires,
                ..OffsetCommitValue::default()
            }
            .encode(&mut generated, i16::from(version))
            .unwrap();
            assert_eq!(value, generated);
            let decoded = decode(&record.key, Some(&value)).unwrap();
            let Decoded::Offset { group, topic, partition, value } = decoded else { panic!("{decoded:?}") };
            assert_eq!((&*group, &*topic, partition, value), ("g", "orders", 3, Some(offset(expires))));
        }
    }

    #[test]
    fn all_versions_of_an_offset_are_read() {
        for version in 0..=4 {
            let mut value = vec![0, version];
            OffsetCommitValue { offset: 9, metadata: "m".to_owned(), ..OffsetCommitValue::default() }
                .encode(&mut value, i16::from(version))
                .unwrap();
            let key = offset_key("g", "t", 0).unwrap();
            let decoded = decode(&key, Some(&value)).unwrap();
            assert!(matches!(decoded, Decoded::Offset { value: Some(found), .. } if found.offset == 9));
        }
        let key = offset_key("g", "t", 0).unwrap();
        assert!(matches!(
            decode(&key, Some(&[0, 5])),
            Err(ReplayError::UnknownValueVersion { version: 5, .. })
        ));
        assert!(matches!(decode(&key, Some(&[0, 3, 1])), Err(ReplayError::Malformed { .. })));
    }

    #[test]
    fn a_group_is_written_as_the_generated_encoder_writes_version_3() {
        let mut group = Group::new(Arc::from("g"), 5);
        group.set_protocol_type(Some(Arc::from("consumer")));
        for (id, instance) in [("m1", None), ("m2", Some("i2"))] {
            group.add_member(Member {
                id: Arc::from(id),
                instance_id: instance.map(Arc::from),
                client_id: Arc::from("client"),
                client_host: Arc::from("/127.0.0.1"),
                rebalance_timeout_ms: 300_000,
                session_timeout_ms: 45_000,
                protocols: vec![Protocol { name: Arc::from("range"), metadata: Arc::from(&b"sub"[..]) }],
                assignment: Arc::from(id.as_bytes()),
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
                is_anonymous: false,
                pending_sync: false,
                session_deadline_ms: None,
            });
        }
        group.init_next_generation(6);
        let record = group_metadata(&group, |member| Arc::clone(&member.assignment)).unwrap();
        assert!(record.size_bytes() <= group_metadata_size(&group) + "m1m2".len());
        let value = record.value.unwrap();
        let decoded = decode(&record.key, Some(&value)).unwrap();
        let Decoded::Group { group: id, value: Some(read) } = decoded else { panic!("{decoded:?}") };
        assert_eq!(&*id, "g");
        assert_eq!(read.members.len(), 2);
        assert_eq!(read.leader.as_deref(), Some("m1"));
        assert_eq!(read.members[1].group_instance_id.as_deref(), Some("i2"));
        assert_eq!(read.current_state_timestamp, 6);
        let mut generated = vec![0, 3];
        read.encode(&mut generated, 3).unwrap();
        assert_eq!(value, generated);
    }

    #[test]
    fn other_kinds_of_records_are_told_apart_and_not_read() {
        assert_eq!(decode(&[0, 3, 1, 2, 3], None), Ok(Decoded::Other(3)));
        assert!(decode(&[0], None).is_err());
        assert!(decode(&[], None).is_err());
    }
}
