//! What records of the internal topics and control records say. Input is untrusted.

use weir_coordinator::{Decoded, decode_record};
use weir_metadata::VersionedRecord;
use weir_protocol::messages::{
    KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord,
};
use weir_protocol::records::{ControlRecordType, EndTxnMarker, RecordView};
use weir_protocol::wire::{DecodeError, Reader};

/// What decoding one record may allocate for each of its bytes, and at least.
const DECODE_FACTOR: usize = 32;
const LEAST_DECODE_BYTES: usize = 64 * 1024;

/// What the records of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Plain,
    Offsets,
    Metadata,
}

/// The kind of a record and its fields as text; `None` where key and value are all that is known.
pub(super) fn describe(
    content: Content,
    is_control: bool,
    record: &RecordView<'_>,
) -> Result<Option<(String, String)>, String> {
    if is_control {
        return control(record).map(Some);
    }
    match content {
        Content::Plain => Ok(None),
        Content::Offsets => {
            let key = record.key.ok_or("it has no key")?;
            let decoded = decode_record(key, record.value).map_err(|error| error.to_string())?;
            Ok(match decoded {
                Decoded::Offset { group, topic, partition, value } => {
                    let place = format!("group {group:?} {topic}-{partition}");
                    Some((
                        "offset".into(),
                        match value {
                            Some(value) => format!("{place} {}", without_empty_tags(&format!("{value:?}"))),
                            None => format!("{place} removed"),
                        },
                    ))
                }
                Decoded::Group { group, value } => Some((
                    "group".into(),
                    match value {
                        Some(value) => {
                            format!("group {group:?} {}", without_empty_tags(&format!("{value:?}")))
                        }
                        None => format!("group {group:?} removed"),
                    },
                )),
                Decoded::Other(_) => None,
            })
        }
        Content::Metadata => {
            let value = record.value.ok_or("it has no value")?;
            let decoded =
                VersionedRecord::decode(value, decode_bytes(value)).map_err(|error| error.to_string())?;
            let text = format!("{:?}", decoded.record);
            // Debug of the enum is Name(Struct { .. }): the name is a field of its own already.
            let text = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(&text);
            Ok(Some((format!("{} v{}", decoded.record.name(), decoded.version), without_empty_tags(text))))
        }
    }
}

fn decode_bytes(value: &[u8]) -> usize {
    value.len().saturating_mul(DECODE_FACTOR).saturating_add(LEAST_DECODE_BYTES)
}

fn control(record: &RecordView<'_>) -> Result<(String, String), String> {
    let key = record.key.ok_or("a control record without a key")?;
    let kind = ControlRecordType::parse_key(key).map_err(|error| error.to_string())?;
    let value = record.value.unwrap_or_default();
    let text = match kind {
        ControlRecordType::Abort | ControlRecordType::Commit => {
            let marker = EndTxnMarker::parse(value).map_err(|error| error.to_string())?;
            format!("coordinator_epoch: {}", marker.coordinator_epoch)
        }
        ControlRecordType::LeaderChange => message(value, LeaderChangeMessage::decode)?,
        ControlRecordType::SnapshotHeader => message(value, SnapshotHeaderRecord::decode)?,
        ControlRecordType::SnapshotFooter => message(value, SnapshotFooterRecord::decode)?,
        ControlRecordType::KRaftVersion => message(value, KRaftVersionRecord::decode)?,
        ControlRecordType::KRaftVoters => message(value, VotersRecord::decode)?,
        ControlRecordType::Unknown(_) => format!("{} bytes", value.len()),
    };
    Ok((format!("{kind:?}"), text))
}

/// A message whose first field is its version.
fn message<T: std::fmt::Debug>(
    value: &[u8],
    decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
) -> Result<String, String> {
    let version = value.first_chunk().map(|bytes| i16::from_be_bytes(*bytes)).ok_or("it has no version")?;
    let mut reader = Reader::new(value, decode_bytes(value));
    let message = decode(&mut reader, version).map_err(|error| error.to_string())?;
    Ok(without_empty_tags(&format!("{message:?}")))
}

/// Leaves out what nearly every message says of itself: that it carries no tagged field that is unknown here.
fn without_empty_tags(text: &str) -> String {
    text.replace(", unknown_tags: UnknownTags(None)", "")
}
