//! Records out of a segment file and into one.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::io::IoSlice;

use weir_coordinator::CoordinatorRecord;
use weir_protocol::records::{
    BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, InflateLimits, RecordCursor, Scratch,
};

/// All records of a segment, in order; control batches left out.
pub fn read(mut bytes: &[u8]) -> Vec<CoordinatorRecord> {
    let mut records = Vec::new();
    while let Some(header) = BatchHeader::parse_prefix(bytes) {
        let header = header.expect("a batch header");
        let (batch, rest) = bytes.split_at(header.size_bytes());
        let body = [IoSlice::new(&batch[HEADER_SIZE_BYTES..])];
        let mut scratch = Scratch::new(0);
        let mut cursor = RecordCursor::new(&header, &body, 1 << 20, &InflateLimits::default(), &mut scratch)
            .expect("a body");
        while let Some(record) = cursor.next_record().expect("a record") {
            if !header.is_control() {
                let key = record.key.expect("a key").to_vec();
                records.push(CoordinatorRecord { key, value: record.value.map(<[u8]>::to_vec) });
            }
        }
        bytes = rest;
    }
    records
}

/// A segment with one batch per append.
pub fn write(appends: &[Vec<CoordinatorRecord>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut base_offset = 0;
    for records in appends {
        let mut batch = BatchBuilder::new(Codec::None).base_offset(base_offset).partition_leader_epoch(0);
        for record in records {
            batch
                .append(1_700_000_000_000, Some(&record.key), record.value.as_deref(), &[])
                .expect("it fits");
        }
        bytes.extend(batch.build().expect("a batch"));
        base_offset += records.len() as i64;
    }
    bytes
}
