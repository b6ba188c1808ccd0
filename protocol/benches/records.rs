//! Speed of checking, reading and changing record batches: `cargo bench -p weir-protocol --bench records`.
//!
//! Plain clock, best of several rounds, bodies in 16 KiB slices as the broker holds them.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::{Duration, Instant};

use weir_protocol::records::*;

const SLICE_BYTES: usize = 16 << 10;

fn main() {
    crc();
    for record_bytes in [100, 1024] {
        for codec in Codec::ALL {
            batch(codec, record_bytes);
        }
    }
}

/// Shortest of many runs within about 200 ms.
fn best(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    let mut best = Duration::MAX;
    while start.elapsed() < Duration::from_millis(200) {
        let round = Instant::now();
        work();
        best = best.min(round.elapsed());
    }
    best
}

fn report(name: &str, bytes: usize, records: usize, time: Duration) {
    let mib_s = bytes as f64 / (1 << 20) as f64 / time.as_secs_f64();
    let ns = time.as_secs_f64() * 1e9 / records as f64;
    println!("{name:<44} {mib_s:>9.0} MiB/s {ns:>9.2} ns/record");
}

fn crc() {
    let body = vec![7_u8; 1 << 20];
    for slice_bytes in [64, 1024, SLICE_BYTES] {
        let time = best(|| {
            let mut crc = Crc32c::new();
            for slice in body.chunks(slice_bytes) {
                crc.update(black_box(slice));
            }
            black_box(crc.value());
        });
        report(&format!("crc-32c, slices of {slice_bytes} B"), body.len(), body.len() / slice_bytes, time);
    }
    let header = BatchHeader { batch_length: 1 << 20, ..BatchHeader::default() };
    let time = best(|| {
        let mut header = black_box(header);
        for now in 0..1000 {
            header.stamp_log_append_time(now);
        }
        black_box(header);
    });
    report("stamp a 1 MiB batch with the append time", 0, 1000, time);
}

fn batch(codec: Codec, record_bytes: usize) {
    // Text-like: each value is cut from a fixed pool at a place of its own.
    let pool: Vec<u8> = {
        let mut state = 1_u64;
        (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b'a' + ((state >> 59) as u8 % 16)
            })
            .collect()
    };
    let mut builder = BatchBuilder::new(codec);
    let mut records = 0;
    while builder.uncompressed_size_bytes() < 1_000_000 {
        let from = records * 37 % 3000;
        let value = &pool[from..from + record_bytes.min(1000) - 20];
        builder
            .append(1_700_000_000_000 + records as i64 / 10, Some(b"0123456789"), Some(value), &[])
            .unwrap();
        records += 1;
    }
    let plain_bytes = builder.uncompressed_size_bytes();
    let batch = builder.build().unwrap();
    let (front, body) = batch.split_first_chunk().unwrap();
    let header = BatchHeader::parse(front).unwrap();
    let body: Vec<IoSlice<'_>> = body.chunks(SLICE_BYTES).map(IoSlice::new).collect();
    let name = format!("{codec}, {record_bytes} B records");
    let mut scratch = Scratch::new(Scratch::USUAL_RETAIN_BYTES);
    let options = ValidateOptions {
        now_ms: 1_700_000_000_000,
        timestamp_after_max_ms: 3_600_000,
        ..Default::default()
    };

    let time = best(|| {
        black_box(validate(black_box(&header), &body, &options, &mut scratch).unwrap());
    });
    report(&format!("{name}: validate (CRC and walk)"), plain_bytes, records, time);
    let limits = InflateLimits::default();
    let time = best(|| {
        black_box(find_offset_of_max_timestamp(black_box(&header), &body, 0, &limits, &mut scratch).unwrap());
    });
    report(&format!("{name}: walk alone"), plain_bytes, records, time);
    let time = best(|| {
        let mut cursor = RecordCursor::new(&header, &body, 1 << 20, &limits, &mut scratch).unwrap();
        while let Some(view) = cursor.next_record().unwrap() {
            black_box(view);
        }
    });
    report(&format!("{name}: cursor"), plain_bytes, records, time);
    let time = best(|| {
        recompress::<BatchError>(&header, &body, Codec::Lz4.into(), &limits, &mut scratch, &mut |bytes| {
            black_box(bytes);
            Ok(())
        })
        .unwrap();
    });
    report(&format!("{name}: recompress to lz4"), plain_bytes, records, time);
}
