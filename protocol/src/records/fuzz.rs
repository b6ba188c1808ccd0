//! Fuzz entries of this module: feature-free, cheap, panic on a broken promise. Each takes any bytes.

use std::io::IoSlice;

use super::{
    BatchError, BatchHeader, Codec, ControlRecordType, EndTxnMarker, HEADER_SIZE_BYTES, InflateLimits,
    NO_TIMESTAMP, RecordCursor, Rewrite, Scratch, TimestampType, ValidateOptions, crc_of,
    find_offset_by_timestamp, recompress, validate, working_memory_bytes,
};

/// What fuzzing allows a batch to cost.
pub const FUZZ_LIMITS: InflateLimits = InflateLimits {
    max_inflated_bytes: 4 << 20,
    max_zstd_window_log: 20,
    max_snappy_history_bytes: 256 << 10,
};

/// A batch as a client might send it: `data` is header and body. Length, CRC, count and offsets of the header are
/// set right, so that the walk and the decompressors see the body. Nothing may panic, and all readers must agree.
pub fn fuzz_record_batch(data: &[u8]) {
    let Some((front, body)) = data.split_first_chunk::<HEADER_SIZE_BYTES>() else { return };
    // As it came first: header errors.
    let _ = BatchHeader::parse(front);
    let mut bytes = *front;
    bytes[16] = 2;
    bytes[8..12].copy_from_slice(&((body.len() + 49) as i32).to_be_bytes());
    let Ok(mut header) = BatchHeader::parse(&bytes) else { return };
    header.record_count &= 0xffff;
    // The split of the body into slices comes from bytes that are not used otherwise.
    let step = usize::from(bytes[20]) * 7 + 1;
    let slices: Vec<IoSlice<'_>> = body.chunks(step).map(IoSlice::new).collect();
    header.crc = crc_of(&header, &slices);

    let limits = FUZZ_LIMITS;
    let mut scratch = Scratch::new(0);
    let needed = working_memory_bytes(&header, &slices, &limits);
    for origin in [super::Origin::Client, super::Origin::Log] {
        let mut header = header;
        if origin == super::Origin::Client {
            header.base_offset = 0;
            header.last_offset_delta = header.record_count - 1;
        } else {
            header.last_offset_delta &= i32::MAX;
        }
        header.crc = crc_of(&header, &slices);
        let options = ValidateOptions { origin, limits, ..ValidateOptions::default() };
        let verdict = validate(&header, &slices, &options, &mut scratch);
        let whole = validate(&header, &[IoSlice::new(body)], &options, &mut scratch);
        match (&verdict, &whole) {
            // How many bytes follow the last record depends on where the pieces end, and how much is inflated before
            // damage is met depends on it too.
            (Err(BatchError::TrailingBytes { .. }), Err(BatchError::TrailingBytes { .. })) => {}
            (Err(_), Err(_)) if header.compression() != Ok(Codec::None) => {}
            _ => assert_eq!(verdict, whole),
        }
        let Ok(summary) = verdict else { continue };
        assert!(needed.is_ok(), "what is valid must be plannable: {needed:?}");
        // A valid batch can be read record by record, and survives a change of codec.
        let mut records = 0;
        let mut newest = i64::MIN;
        if let Ok(mut cursor) = RecordCursor::new(&header, &slices, usize::MAX, &limits, &mut scratch) {
            while let Some(view) = cursor.next_record().ok().flatten() {
                records += 1;
                newest = newest.max(view.timestamp);
                assert_eq!(view.headers.len(), view.headers.count());
            }
        }
        if header.base_offset <= i64::MAX - i64::from(i32::MAX) {
            assert_eq!(records, summary.record_count);
        }
        if records > 0 {
            // What clients stamped before "none" counts as none; a time of the broker's is what it is.
            let largest = match header.timestamp_type() {
                TimestampType::CreateTime => newest.max(NO_TIMESTAMP),
                TimestampType::LogAppendTime => newest,
            };
            assert_eq!(largest, summary.max_timestamp);
            let found = find_offset_by_timestamp(&header, &slices, newest, i64::MIN, &limits, &mut scratch);
            assert!(found.is_ok_and(|found| found.is_some_and(|found| found.timestamp == newest)));
        }
        let codec = Codec::ALL[usize::from(bytes[19]) % Codec::ALL.len()];
        let mut out = Vec::new();
        let rewrite = Rewrite { to: codec.into(), renumbers: summary.offset_deltas_differ };
        let again = recompress(&header, &slices, rewrite, &limits, &mut scratch, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok::<_, BatchError>(())
        });
        let again = again.expect("a valid batch can be written in any codec");
        let roomy = ValidateOptions { limits: InflateLimits::default(), ..options };
        let second = validate(&again, &[IoSlice::new(&out)], &roomy, &mut scratch).expect("and stays valid");
        assert_eq!(second.max_timestamp, summary.max_timestamp);
        assert!(!second.offset_deltas_differ);
        if !summary.offset_deltas_differ {
            assert_eq!(second.records_size_bytes, summary.records_size_bytes);
        }
    }
}

/// Key and value of a control record, the key's length in the first byte.
pub fn fuzz_control_record(data: &[u8]) {
    let Some((&length, rest)) = data.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(length).min(rest.len()));
    if let Ok(kind) = ControlRecordType::parse_key(key) {
        assert_eq!(ControlRecordType::parse_key(&kind.key()), Ok(kind));
    }
    if let Ok(marker) = EndTxnMarker::parse(value) {
        assert_eq!(EndTxnMarker::parse(&marker.value()), Ok(marker));
    }
}
