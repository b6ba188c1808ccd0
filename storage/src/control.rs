//! Transaction markers inside of control batches, as far as a log must understand them.

use weir_protocol::records::{ControlRecordType, EndTxnMarker};

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerType {
    Abort,
    Commit,
}

/// The one record of a control batch that ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControlMarker {
    pub(crate) kind: MarkerType,
    pub(crate) coordinator_epoch: i32,
    pub(crate) timestamp: i64,
}

/// The most bytes of a body that are looked at for a marker; a marker's record takes about 20.
pub(crate) const MARKER_WINDOW_BYTES: usize = 256;

impl ControlMarker {
    /// Finds the marker in the (uncompressed) body of a control batch with `base_timestamp`. `None` for control
    /// batches of other kinds (the metadata log has them), for empty ones and for what is no record. Input is
    /// untrusted.
    pub(crate) fn parse(body: &[u8], base_timestamp: i64) -> Option<Self> {
        let mut rest = body;
        let _record_length = take_varint(&mut rest)?;
        let _attributes = take(&mut rest, 1)?;
        let timestamp_delta = take_varint(&mut rest)?;
        let _offset_delta = take_varint(&mut rest)?;
        let key_length = usize::try_from(take_varint(&mut rest)?).ok()?;
        let key = take(&mut rest, key_length)?;
        let value_length = usize::try_from(take_varint(&mut rest)?).ok()?;
        let value = take(&mut rest, value_length)?;
        let kind = match ControlRecordType::parse_key(key).ok()? {
            ControlRecordType::Abort => MarkerType::Abort,
            ControlRecordType::Commit => MarkerType::Commit,
            _ => return None,
        };
        let coordinator_epoch = EndTxnMarker::parse(value).ok()?.coordinator_epoch;
        Some(Self { kind, coordinator_epoch, timestamp: base_timestamp.saturating_add(timestamp_delta) })
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

/// A zigzag varint of at most ten bytes.
fn take_varint(rest: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_and_other_control_records_are_not() {
        // length, attributes, timestamp delta 5, offset delta 0, key {0, type}, value {0, epoch 7}, no headers
        let abort = [0x20, 0, 10, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 7, 0];
        let marker = ControlMarker::parse(&abort, 100).unwrap();
        assert_eq!(marker, ControlMarker { kind: MarkerType::Abort, coordinator_epoch: 7, timestamp: 105 });
        let mut leader_change = abort;
        leader_change[8] = 2;
        assert_eq!(ControlMarker::parse(&leader_change, 100), None);
        for length in 0..abort.len() - 1 {
            assert_eq!(ControlMarker::parse(&abort[..length], 100), None, "{length}");
        }
        assert_eq!(ControlMarker::parse(&[0xff; 30], 0), None);
    }
}
