//! Batches to send, good ones and ones that are damaged in one place.

use std::io::IoSlice;

use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, crc_of};

/// A time that lies in no retention's and no skew's way.
pub(crate) fn now_ms() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Records with these timestamps, a key and a value each.
pub(crate) fn builder(codec: Codec, timestamps: &[i64]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(codec);
    for (index, timestamp) in timestamps.iter().enumerate() {
        let value = [b'a' + index as u8; 40];
        builder.append(*timestamp, Some(b"key"), Some(&value), &[(b"h", Some(b"v"))]).unwrap();
    }
    builder
}

/// A batch of such records.
pub(crate) fn batch(codec: Codec, timestamps: &[i64]) -> Vec<u8> {
    builder(codec, timestamps).build().unwrap()
}

/// A batch with records of this size each.
pub(crate) fn sized(codec: Codec, count: usize, value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for index in 0..count {
        builder.append(now_ms() - 1000, None, Some(&vec![index as u8; value_bytes]), &[]).unwrap();
    }
    builder.build().unwrap()
}

/// One record of an idempotent producer for each sequence from `base_sequence` on.
pub(crate) fn idempotent(producer: (i64, i16), base_sequence: i32, count: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None).producer(producer.0, producer.1, base_sequence);
    for _ in 0..count {
        builder.append(now_ms() / 1000 * 1000, Some(b"key"), Some(b"value"), &[]).unwrap();
    }
    builder.build().unwrap()
}

/// The batch with another header, whose CRC is right.
pub(crate) fn with_header(batch: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let mut header = BatchHeader::parse_prefix(batch).unwrap().unwrap();
    change(&mut header);
    header.crc = crc_of(&header, &[IoSlice::new(&batch[HEADER_SIZE_BYTES..])]);
    let mut changed = batch.to_vec();
    header.write(changed.first_chunk_mut().unwrap());
    changed
}

/// The batch with another body, whose length and CRC are right.
pub(crate) fn with_body(batch: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut changed = batch.to_vec();
    let mut body = changed.split_off(HEADER_SIZE_BYTES);
    change(&mut body);
    changed.extend_from_slice(&body);
    with_header(&changed, |header| header.batch_length = changed.len() as i32 - 12)
}

/// A message of a format before record batches.
pub(crate) fn old_message(magic: u8) -> Vec<u8> {
    let mut message = vec![magic, 0];
    if magic == 1 {
        message.extend_from_slice(&1_700_000_000_000_i64.to_be_bytes());
    }
    message.extend_from_slice(&[0xff; 4]);
    message.extend_from_slice(&5_i32.to_be_bytes());
    message.extend_from_slice(b"value");
    let mut hash = crc32(&message).to_be_bytes().to_vec();
    hash.extend_from_slice(&message);
    let mut set = 0_i64.to_be_bytes().to_vec();
    set.extend_from_slice(&(hash.len() as i32).to_be_bytes());
    set.extend_from_slice(&hash);
    set
}

/// CRC-32 as in zip files, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
