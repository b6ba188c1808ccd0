//! Fuzz entries for wire values and messages (those of record batches are in [`crate::records::fuzz`]): feature-free,
//! cheap, any bytes; they panic where a promise of this crate is broken.

use crate::messages::{Kind, MESSAGES, MetadataRecord, RemoteLogMetadata};
use crate::wire::{Counter, DecodeError, Reader, Sink, Uuid};

/// What a message may cost while fuzzing. A refusal for lack of budget is tried again with ever more.
const FIRST_BUDGET_BYTES: usize = 256;

/// The first four bytes choose the message and its version: kind, api key or record type (big-endian; the position
/// among its kind where there is none such), version above the first. The rest is the message.
/// What is read is written, read and written again, and must be the same then.
pub fn fuzz_message(data: &[u8]) {
    let Some(([kind, key_high, key_low, version], body)) = data.split_first_chunk() else { return };
    let kinds = [Kind::Request, Kind::Response, Kind::Data, Kind::Record, Kind::Key, Kind::Value];
    let kind = kinds[usize::from(*kind) % kinds.len()];
    let key = i16::from_be_bytes([*key_high, *key_low]);
    let of_kind = || MESSAGES.iter().filter(|m| m.kind == kind);
    let at = usize::from(key.unsigned_abs()) % of_kind().count();
    let Some(info) = of_kind().find(|m| m.key == Some(key)).or_else(|| of_kind().nth(at)) else { return };
    let version = info.min_version + i16::from(*version) % (info.max_version - info.min_version + 1);
    let recode = |body: &[u8], budget_bytes: usize, out: &mut dyn Sink| {
        let mut r = Reader::new(body, budget_bytes);
        let result = (info.recode)(&mut r, version, out, version);
        assert!(
            r.charged() <= r.peak_charged() && r.peak_charged() <= budget_bytes,
            "{} v{version}",
            info.name
        );
        let written = result?;
        assert_eq!(written, Ok(()), "{} v{version}: what was read cannot be written", info.name);
        Ok(r.peak_charged())
    };
    let mut budget_bytes = FIRST_BUDGET_BYTES;
    let peak = loop {
        match recode(body, budget_bytes, &mut Counter::default()) {
            Ok(peak) => break peak,
            Err(DecodeError::OverBudget { needed, limit }) => {
                assert!(needed > limit && limit == budget_bytes);
                budget_bytes = needed.max(2 * limit);
            }
            Err(_) => return,
        }
    };
    let mut first = Vec::new();
    assert_eq!(recode(body, peak, &mut first), Ok(peak), "the peak is what a budget must have");
    let mut second = Vec::new();
    assert!(recode(&first, usize::MAX, &mut second).is_ok(), "{} v{version}: not readable again", info.name);
    assert_eq!(first, second, "{} v{version}", info.name);
}

/// The value of a record in `__cluster_metadata` (first byte even) or `__remote_log_metadata` (odd).
pub fn fuzz_record_frame(data: &[u8]) {
    let Some((which, value)) = data.split_first() else { return };
    let mut r = Reader::new(value, 1 << 20);
    // Bytes are compared, for a number that is none does not equal itself.
    let (mut first, mut second) = (Vec::new(), Vec::new());
    if which & 1 == 0 {
        let Ok((record, version)) = MetadataRecord::decode_framed(&mut r) else { return };
        assert_eq!(record.encode_framed(&mut first, version), Ok(()));
        let again = MetadataRecord::decode_framed(&mut Reader::new(&first, usize::MAX));
        assert!(again.is_ok_and(|(record, _)| record.encode_framed(&mut second, version).is_ok()));
    } else {
        let Ok((record, version)) = RemoteLogMetadata::decode_framed(&mut r) else { return };
        assert_eq!(record.encode_framed(&mut first, version), Ok(()));
        let again = RemoteLogMetadata::decode_framed(&mut Reader::new(&first, usize::MAX));
        assert!(again.is_ok_and(|(record, _)| record.encode_framed(&mut second, version).is_ok()));
    }
    assert_eq!(first, second);
}

/// Primitive reads in the order that the first half of the bytes says, over the second half: no read may panic,
/// move the reader when it is out of bytes, or spend more than its budget.
pub fn fuzz_reader(data: &[u8]) {
    let (program, body) = data.split_at(data.len() / 2);
    let mut r = Reader::new(body, 1024);
    for op in program {
        let flexible = op & 0x80 != 0;
        let nullable = op & 0x40 != 0;
        let before = r.position();
        let result = match op & 0x0f {
            0 => r.bool().map(drop),
            1 => r.i16().map(drop),
            2 => r.i64().map(drop),
            3 => r.uuid().map(drop),
            4 => r.uvarint().map(drop),
            5 => r.varlong().map(drop),
            6 => r.nullable_string(flexible, nullable).map(drop),
            7 => r.nullable_bytes(flexible, nullable).map(drop),
            8 => r.unknown_tags().map(drop),
            9 => r.nullable_array(flexible, nullable, 0, 2, |r, _| r.i16()).map(drop),
            10 => r.nullable_array(flexible, nullable, 0, 1, |r, _| r.string(true)).map(drop),
            11 => r.struct_is_present(nullable).map(drop),
            12 => r.length16(flexible).map(drop),
            13 => r.array_len(flexible, 4).map(drop),
            14 => r.take(usize::from(*op)).map(drop),
            _ => r.f64().map(drop),
        };
        assert!(r.peak_charged() <= 1024);
        assert!(before <= r.position() && r.position() + r.remaining() == body.len() || result.is_err());
    }
}

/// The text form of a uuid.
pub fn fuzz_uuid_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(uuid) = text.parse::<Uuid>() else { return };
    assert_eq!(uuid.to_string().parse(), Ok(uuid));
}
