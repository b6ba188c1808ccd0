//! Our own snappy decoder against the `snap` crate's encoder, and against what only other encoders do.

use super::*;
use crate::records::inflate::Source;

fn inflate(body: &[IoSlice<'_>], limits: &InflateLimits) -> Result<Vec<u8>, BatchError> {
    let mut scratch = Scratch::new(0);
    let mut source = Source::new(Codec::Snappy, body, limits, &mut scratch)?;
    let mut out = Vec::new();
    loop {
        let piece = source.fill()?;
        if piece.is_empty() {
            return Ok(out);
        }
        out.extend_from_slice(piece);
        let count = piece.len();
        source.consume(count);
    }
}

#[test]
fn raw_blocks_inflate_to_what_was_compressed() {
    let mut rng = Rng::fresh();
    for _ in 0..200 {
        let longest = [10, 1000, 100_000, 400_000][rng.below(4)];
        let length = 1 + rng.below(longest);
        let plain = rng.bytes(length);
        let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
        let body = split(&mut rng, &raw);
        assert_eq!(inflate(&body, &InflateLimits::default()).unwrap(), plain);
        // A history smaller than the block: it slides, and copies within 64 KiB still reach.
        let narrow = InflateLimits { max_snappy_history_bytes: 64 << 10, ..InflateLimits::default() };
        assert_eq!(inflate(&body, &narrow).unwrap(), plain);
    }
}

#[test]
fn joined_xerial_streams_are_read() {
    let block = |plain: &[u8]| {
        let raw = snap::raw::Encoder::new().compress_vec(plain).unwrap();
        let mut out = (raw.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(&raw);
        out
    };
    let header = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
    let body = [&header[..], &block(b"one "), &block(b"two "), &header[..], &block(b"three")].concat();
    assert_eq!(inflate(&[IoSlice::new(&body)], &InflateLimits::default()).unwrap(), b"one two three");
}

/// Literal of any length up to 2²⁴.
fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(62 << 2);
    out.extend_from_slice(&((bytes.len() - 1) as u32).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
}

fn far_copy(out: &mut Vec<u8>, offset: u32, length: usize) {
    out.push(((length - 1) << 2) as u8 | 3);
    out.extend_from_slice(&offset.to_le_bytes());
}

fn length_varint(mut length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out
}

#[test]
fn copies_that_reach_back_megabytes_are_read_within_the_history() {
    let mut rng = Rng::seeded(11);
    let plain: Vec<u8> = (0..3 << 20).map(|_| rng.next() as u8).collect();
    let mut raw = length_varint(plain.len() + 64);
    literal(&mut raw, &plain);
    far_copy(&mut raw, plain.len() as u32, 64);
    let body = split(&mut rng, &raw);
    let out = inflate(&body, &InflateLimits::default()).unwrap();
    assert_eq!(out[..plain.len()], plain[..]);
    assert_eq!(out[plain.len()..], plain[..64]);
    let narrow = InflateLimits { max_snappy_history_bytes: 1 << 20, ..InflateLimits::default() };
    assert!(matches!(inflate(&body, &narrow), Err(BatchError::Decompress { codec: Codec::Snappy, .. })));
}

#[test]
fn overlapping_copies_of_every_distance_repeat_their_pattern() {
    for offset in 1..=40_usize {
        for length in 1..=64_usize {
            let pattern: Vec<u8> = (0..offset as u8).collect();
            let mut raw = length_varint(offset + length);
            literal(&mut raw, &pattern);
            far_copy(&mut raw, offset as u32, length);
            let expected: Vec<u8> = (0..offset + length).map(|i| (i % offset) as u8).collect();
            assert_eq!(inflate(&[IoSlice::new(&raw)], &InflateLimits::default()).unwrap(), expected);
        }
    }
}

#[test]
fn damaged_blocks_are_errors() {
    let cases: [(&str, Vec<u8>); 9] = [
        ("nothing", vec![]),
        ("endless length", vec![0xff; 6]),
        ("promise of 4 GiB", [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 80]].concat()),
        ("copy before the start", vec![4, 0b0000_0001, 1]),
        ("copy of distance 0", vec![5, 0, b'a', 0b0000_0001, 0]),
        ("literal is cut short", vec![10, 9 << 2, 1, 2]),
        ("more than promised", vec![1, 3 << 2, 1, 2, 3, 4]),
        ("less than promised", vec![5, 3 << 2, 1, 2, 3, 4]),
        ("bytes behind the block", vec![1, 0, b'a', 0]),
    ];
    for (name, raw) in cases {
        let found = inflate(&[IoSlice::new(&raw)], &InflateLimits::default());
        assert!(matches!(found, Err(BatchError::Decompress { .. })), "{name}: {found:?}");
    }
}
