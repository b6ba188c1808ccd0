//! Peak memory of validation, reading and recompression, counted by the allocator, against the bound that is known
//! before each begins. One test, because the counters are the process's.

use std::alloc::System;
use std::io::IoSlice;

use weir_budget::{CountingAllocator, allocated_bytes, peak_allocated_bytes, reset_peaks};
use weir_protocol::records::*;

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

/// Bytes above the level at the start that `work` held at its peak.
fn peak_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = allocated_bytes();
    reset_peaks();
    let result = work();
    (peak_allocated_bytes() - before, result)
}

fn batch(compression: Compression, value_bytes: usize, count: usize, noise: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression);
    let mut state = 1_u64;
    for _ in 0..count {
        let value: Vec<u8> = (0..value_bytes)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if noise { (state >> 56) as u8 } else { (i / 64) as u8 }
            })
            .collect();
        builder.append(1, Some(b"key"), Some(&value), &[]).unwrap();
    }
    builder.build().unwrap()
}

#[test]
fn no_batch_holds_more_than_was_announced() {
    well_formed();
    large_lz4_blocks();
    mutated();
}

/// The same for damaged batches of every framing: what they say of themselves buys them nothing.
fn mutated() {
    let options = ValidateOptions { origin: Origin::Log, ..ValidateOptions::default() };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fuzz_record_batch");
    let mut corpus: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    corpus.sort();
    let mut state = 5_u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    let (mut planned, mut valid) = (0, 0);
    for _ in 0..4000 {
        let mut bytes = corpus[random(corpus.len())].clone();
        for _ in 0..1 + random(3) {
            // Mostly where framings have their descriptors and first block headers.
            let within = if random(2) == 0 { 24 } else { bytes.len() };
            let at = 61 + random(within);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 0x7f, 0x80, 0xff, random(256) as u8, *byte ^ (1 << random(8))][random(6)];
            }
        }
        let (front, body) = bytes.split_first_chunk().unwrap();
        let mut header = BatchHeader::parse(front).unwrap();
        let body: Vec<IoSlice<'_>> = body.chunks(1 + random(3000)).map(IoSlice::new).collect();
        header.crc = crc_of(&header, &body);
        let Ok(announced) = working_memory_bytes(&header, &body, &options.limits) else { continue };
        planned += 1;
        let mut scratch = Scratch::new(usize::MAX);
        let (peak, verdict) = peak_of(|| validate(&header, &body, &options, &mut scratch));
        valid += u32::from(verdict.is_ok());
        assert!(peak <= announced as u64, "held {peak}, announced {announced}: {bytes:02x?}");
    }
    println!("{planned} planned, {valid} valid");
    assert!(planned > 2000 && valid > 100, "{planned} planned, {valid} valid");
}

/// What a receiver may know when it leases: the header, and the beginning of the body.
fn announced_of_prefix(header: &BatchHeader, body: &[u8]) -> usize {
    let prefix = [IoSlice::new(&body[..body.len().min(64)])];
    working_memory_bytes(header, &prefix, &InflateLimits::default()).unwrap()
}

/// Blocks of every size that the format knows, in one piece and across slices.
fn large_lz4_blocks() {
    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
    let plain = |noise| batch(Codec::None.into(), 3_000_000, 2, noise);
    for (plain, noise) in [(plain(false), false), (plain(true), true)] {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
            let mut encoder = FrameEncoder::with_frame_info(FrameInfo::new().block_size(size), Vec::new());
            std::io::Write::write_all(&mut encoder, &plain[HEADER_SIZE_BYTES..]).unwrap();
            let body = encoder.finish().unwrap();
            let mut header = BatchHeader::parse(plain.first_chunk().unwrap()).unwrap();
            header.set_compression(Codec::Lz4);
            header.batch_length = MIN_BATCH_LENGTH + body.len() as i32;
            for slice_bytes in [16 << 10, body.len()] {
                let slices: Vec<IoSlice<'_>> = body.chunks(slice_bytes).map(IoSlice::new).collect();
                header.crc = crc_of(&header, &slices);
                let announced = announced_of_prefix(&header, &body);
                let mut scratch = Scratch::new(0);
                let options = ValidateOptions::default();
                let (peak, verdict) = peak_of(|| validate(&header, &slices, &options, &mut scratch));
                verdict.unwrap();
                println!("lz4 {size:?}, noise {noise}: held {peak}, announced {announced}");
                assert!(peak <= announced as u64, "{size:?}: held {peak}, announced {announced}");
            }
        }
    }
}

fn well_formed() {
    let options = ValidateOptions::default();
    let limits = InflateLimits::default();
    for codec in Codec::ALL {
        for (value_bytes, count) in [(0, 1), (100, 10), (1000, 500), (100_000, 8), (1_500_000, 1)] {
            for noise in [false, true] {
                let batch = batch(codec.into(), value_bytes, count, noise);
                let (front, body) = batch.split_first_chunk().unwrap();
                let header = BatchHeader::parse(front).unwrap();
                let body: Vec<IoSlice<'_>> = body.chunks(16 << 10).map(IoSlice::new).collect();
                let name = format!("{codec}, {count} × {value_bytes}, noise {noise}");

                let announced = working_memory_bytes(&header, &body, &limits).unwrap();
                let at_most = max_working_memory_bytes(codec, header.body_size_bytes(), &limits);
                assert!(announced <= at_most, "{name}: {announced} > {at_most}");
                let mut scratch = Scratch::new(usize::MAX);
                let (peak, summary) = peak_of(|| validate(&header, &body, &options, &mut scratch));
                assert_eq!(summary.unwrap().record_count as usize, count);
                assert!(peak <= announced as u64, "{name}: held {peak}, announced {announced}");
                if !matches!(codec, Codec::None | Codec::Snappy) {
                    let of_prefix = announced_of_prefix(&header, &batch[HEADER_SIZE_BYTES..]);
                    assert_eq!(of_prefix, announced, "{name}");
                }
                println!("{name}: held {peak}, announced {announced}, at most {at_most}");
                // What stays is what the scratch says that it holds, give or take its rounding of gzip's state.
                assert!(
                    allocated_bytes()
                        >= scratch.held_bytes() as u64 - if codec == Codec::Gzip { 96 << 10 } else { 0 }
                );
                assert!(scratch.held_bytes() <= announced, "{name}");
                drop(scratch);

                // The next batch of the same kind allocates nothing at all.
                let mut scratch = Scratch::new(usize::MAX);
                validate(&header, &body, &options, &mut scratch).unwrap();
                let (peak, _) = peak_of(|| validate(&header, &body, &options, &mut scratch).unwrap());
                assert_eq!(peak, 0, "{name}, again");

                // Nothing is kept where nothing may be.
                let mut scratch = Scratch::new(0);
                let before = allocated_bytes();
                validate(&header, &body, &options, &mut scratch).unwrap();
                assert_eq!(allocated_bytes(), before, "{name}");

                // A reader adds one record that lies across a border, at most twice while it grows.
                let (peak, ()) = peak_of(|| {
                    let mut cursor =
                        RecordCursor::new(&header, &body, 2_000_000, &limits, &mut scratch).unwrap();
                    while cursor.next_record().unwrap().is_some() {}
                });
                let bound = announced as u64 + 2 * (value_bytes as u64 + 32).max(16 << 10);
                assert!(peak <= bound, "{name}: reader held {peak}, bound {bound}");
            }
        }
    }

    for to in Codec::ALL {
        for level in [None, Some(-5), Some(1), Some(2), Some(4), Some(9), Some(14), Some(22)] {
            let to = Compression { codec: to, level };
            let batch = batch(Codec::None.into(), 5000, 100, true);
            let (front, body) = batch.split_first_chunk().unwrap();
            let header = BatchHeader::parse(front).unwrap();
            let body = [IoSlice::new(body)];
            let mut scratch = Scratch::new(0);
            let (peak, result) = peak_of(|| {
                recompress::<BatchError>(&header, &body, to.into(), &limits, &mut scratch, &mut |_| Ok(()))
            });
            result.unwrap();
            let announced = compressor_memory_bytes(to) as u64;
            println!("to {to:?}: held {peak}, announced {announced}");
            assert!(peak <= announced, "to {to:?}: held {peak}, announced {announced}");
        }
    }

    // A frame that names a large window but holds little is charged for the window, and no more.
    for level in [1, 3, 9, 19] {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level).unwrap();
        std::io::Write::write_all(&mut encoder, &[12, 0, 0, 0, 1, 1, 0]).unwrap();
        let body = encoder.finish().unwrap();
        let mut header = BatchHeader { record_count: 1, last_offset_delta: 0, ..BatchHeader::default() };
        header.set_compression(Codec::Zstd);
        header.batch_length += body.len() as i32;
        let body = [IoSlice::new(&body)];
        header.crc = crc_of(&header, &body);
        let announced = working_memory_bytes(&header, &body, &limits).unwrap();
        let mut scratch = Scratch::new(0);
        let (peak, result) = peak_of(|| validate(&header, &body, &options, &mut scratch));
        println!("zstd level {level}: held {peak}, announced {announced}");
        result.unwrap();
        assert!(peak <= announced as u64 && peak * 2 > announced as u64);
    }
}
