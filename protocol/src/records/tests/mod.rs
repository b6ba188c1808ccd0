//! Tests of record batches, and what they share: random records, random splits, reading everything back.

mod fuzz;
mod golden;
mod hostile;
mod roundtrip;
mod snappy;

use std::io::IoSlice;

use super::*;

/// xorshift64*: enough for tests, and a failing seed can be written down.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A new seed each run, printed so that a failure can be repeated with `WEIR_SEED`.
    pub(super) fn fresh() -> Self {
        let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.as_nanos() as u64)
        });
        println!("WEIR_SEED={seed}");
        Self::seeded(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Bytes that compress somewhat: runs of random length.
    pub(super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(length);
        while out.len() < length {
            let run = (1 + self.below(20)).min(length - out.len());
            if self.one_in(3) && out.len() > run {
                let from = self.below(out.len() - run + 1);
                out.extend_from_within(from..from + run);
            } else {
                let byte = self.next() as u8;
                out.extend(std::iter::repeat_n(byte, run));
            }
        }
        out
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub(super) fn random_records(rng: &mut Rng, base_offset: i64) -> Vec<Owned> {
    let most = [3, 40, 400][rng.below(3)];
    let count = 1 + rng.below(most);
    let longest = [1, 20, 300, 5000, 60_000][rng.below(if count > 40 { 3 } else { 5 })];
    (0..count)
        .map(|i| {
            let nullable = |rng: &mut Rng, longest: usize| {
                let length = rng.below(longest + 1);
                (!rng.one_in(5)).then(|| rng.bytes(length))
            };
            Owned {
                offset: base_offset + i as i64,
                timestamp: 1_700_000_000_000 + rng.below(1 << 20) as i64 - (1 << 19),
                key: nullable(rng, longest.min(100)),
                value: nullable(rng, longest),
                headers: (0..if rng.one_in(3) { rng.below(5) } else { 0 })
                    .map(|_| {
                        let length = rng.below(4);
                        (rng.bytes(length), nullable(rng, 40))
                    })
                    .collect(),
            }
        })
        .collect()
}

pub(super) fn append_all(builder: &mut BatchBuilder, records: &[Owned]) {
    let base_offset = records.first().map_or(0, |record| record.offset);
    for record in records {
        let headers: Vec<_> = record.headers.iter().map(|(k, v)| (k.as_slice(), v.as_deref())).collect();
        builder
            .append_at(
                (record.offset - base_offset) as i32,
                record.timestamp,
                record.key.as_deref(),
                record.value.as_deref(),
                &headers,
            )
            .unwrap();
    }
}

pub(super) fn build(compression: impl Into<Compression>, records: &[Owned]) -> Vec<u8> {
    let mut builder =
        BatchBuilder::new(compression).base_offset(records.first().map_or(0, |record| record.offset));
    append_all(&mut builder, records);
    builder.build().unwrap()
}

pub(super) fn parts(batch: &[u8]) -> (BatchHeader, &[u8]) {
    let (front, body) = batch.split_first_chunk().unwrap();
    (BatchHeader::parse(front).unwrap(), body)
}

/// Cuts anywhere, with empty and one-byte slices among them.
pub(super) fn split<'a>(rng: &mut Rng, mut body: &'a [u8]) -> Vec<IoSlice<'a>> {
    let longest = [1, 5, 100, 20_000][rng.below(4)];
    let mut slices = Vec::new();
    while !body.is_empty() {
        let (head, tail) = body.split_at(rng.below(longest + 1).min(body.len()));
        slices.push(IoSlice::new(head));
        body = tail;
    }
    slices
}

pub(super) fn read_all(header: &BatchHeader, body: &[IoSlice<'_>]) -> Result<Vec<Owned>, BatchError> {
    let mut scratch = Scratch::new(0);
    let mut cursor = RecordCursor::new(header, body, 1 << 20, &InflateLimits::default(), &mut scratch)?;
    let mut out = Vec::new();
    while let Some(view) = cursor.next_record()? {
        out.push(Owned {
            offset: view.offset,
            timestamp: view.timestamp,
            key: view.key.map(<[u8]>::to_vec),
            value: view.value.map(<[u8]>::to_vec),
            headers: view.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec))).collect(),
        });
    }
    Ok(out)
}

/// As it stands in a log.
pub(super) fn log_options() -> ValidateOptions {
    ValidateOptions { origin: Origin::Log, ..ValidateOptions::default() }
}

pub(super) fn check(batch: &[u8], options: &ValidateOptions) -> Result<BatchSummary, BatchError> {
    let (header, body) = parts(batch);
    validate(&header, &[IoSlice::new(body)], options, &mut Scratch::new(0))
}

/// Makes length and CRC right after a test has changed the bytes.
pub(super) fn seal(batch: &mut [u8]) {
    let length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = Crc32c::of(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// A sealed batch of one record count around any body.
pub(super) fn around(codec: Codec, record_count: i32, body: &[u8]) -> Vec<u8> {
    let mut header =
        BatchHeader { record_count, last_offset_delta: record_count - 1, ..BatchHeader::default() };
    header.set_compression(codec);
    let mut batch = header.to_bytes().to_vec();
    batch.extend_from_slice(body);
    seal(&mut batch);
    batch
}

#[test]
fn scratches_and_validators_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Scratch>();
    is_send::<BatchValidator>();
    is_send::<BatchBuilder>();
}
