//! The contract of the decoders, held against the allocator itself: however a frame lies, the bytes that live while
//! it is decoded never exceed what the reader charged, and that never exceeds its budget.
//! One test only: the counters are the process's.

use std::alloc::System;

use weir_budget::{CountingAllocator, allocated_bytes, peak_allocated_bytes, reset_peaks};
use weir_protocol::messages::{MESSAGES, MessageInfo};
use weir_protocol::wire::{Counter, DecodeError, Reader};
use xtask::random::{Rng, message};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

/// What the test harness may allocate meanwhile.
const HARNESS_BYTES: u64 = 2048;

/// Decodes and returns what the reader charged at its peak.
fn decode(
    info: &MessageInfo,
    version: i16,
    frame: &[u8],
    budget_bytes: usize,
) -> (Option<DecodeError>, usize) {
    let before = allocated_bytes();
    reset_peaks();
    let mut r = Reader::new(frame, budget_bytes);
    // Counting what would be written allocates nothing, so the peak is the decoder's.
    let error = (info.recode)(&mut r, version, &mut Counter::default(), version).err();
    let peak = peak_allocated_bytes() - before;
    let charged = r.peak_charged();
    assert!(charged <= budget_bytes, "{} v{version}: {charged} charged of {budget_bytes}", info.name);
    assert!(
        peak <= charged as u64 + HARNESS_BYTES,
        "{} v{version}: {peak} bytes live, {charged} charged, {} in the frame",
        info.name,
        frame.len()
    );
    (error, charged)
}

#[test]
fn live_bytes_never_exceed_the_charge_nor_the_charge_the_budget() {
    let mut rooms = xtask::generate::rooms().unwrap();
    rooms.sort_by(|a, b| a.module.cmp(&b.module));
    let schema: Vec<_> = rooms.into_iter().flat_map(|r| r.messages).collect();
    let mut rng = Rng(5);
    let mut largest = 0;
    for (info, schema) in MESSAGES.iter().zip(&schema) {
        for version in [info.min_version, info.max_version] {
            // Lists that promise two billion elements in twenty bytes.
            for promise in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0x7f]] {
                for at in 0..16 {
                    let mut frame = [0u8; 20];
                    frame[at..at + 4].copy_from_slice(&promise);
                    let (_, charged) = decode(info, version, &frame, usize::MAX);
                    assert!(charged <= 2048, "{} v{version}: {charged} bytes for a promise", info.name);
                }
            }
            // Frames of one byte repeated: as many of the smallest elements as fit.
            for byte in [0u8, 1, 2, 3, 0x7f, 0x80, 0xff] {
                let mut frame = vec![byte; 32 << 10];
                for budget_bytes in [0, 1 << 10, 64 << 10, 1 << 20, usize::MAX] {
                    largest = largest.max(decode(info, version, &frame, budget_bytes).1);
                }
                // The same behind a large count where one is likely to stand.
                for at in [0, 2, 4, 8, 12] {
                    frame[at..at + 4].copy_from_slice(&[0, 0, 0x1f, 0xff]);
                    largest = largest.max(decode(info, version, &frame, 1 << 20).1);
                }
            }
            // Real messages, damaged.
            for _ in 0..40 {
                let mut frame = message(schema, version, &mut rng);
                for _ in 0..rng.below(4) {
                    let at = rng.below(frame.len() as u64) as usize;
                    if let Some(byte) = frame.get_mut(at) {
                        *byte = rng.next_u64() as u8;
                    }
                }
                let (error, charged) = decode(info, version, &frame, usize::MAX);
                if error.is_none() && charged > 0 {
                    let (error, _) = decode(info, version, &frame, charged - 1);
                    assert!(
                        matches!(error, Some(DecodeError::OverBudget { .. })),
                        "{}: {error:?}",
                        info.name
                    );
                    assert_eq!(decode(info, version, &frame, charged), (None, charged), "{}", info.name);
                }
            }
        }
    }
    println!("largest charge for a frame of 32 KiB: {largest} bytes");
}
