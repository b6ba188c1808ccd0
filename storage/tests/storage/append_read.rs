//! Appends and reads of one log: what comes out is what went in, found by offset and by time.

use std::sync::atomic::Ordering;

use crate::common::{Batch, Home, NOW, Random, bytes_of, headers, read_all};
use weir_storage::{Isolation, Log, LogConfig, StorageError, in_memory};

#[test]
fn what_was_appended_is_read_back_with_offsets_and_epoch_stamped() {
    let home = Home::default();
    let log = home.open(false);
    let mut expected = Vec::new();
    let mut offset = 0;
    for n in 1..50usize {
        let batch = Batch::new(n % 7 + 1, 30 * n, NOW);
        let info = batch.append_at(&log, NOW, 3).unwrap();
        assert_eq!((info.first_offset, info.last_offset), (offset, offset + (n % 7) as i64));
        assert!(!info.duplicate && !info.needs_flush && info.log_append_time_ms == -1);
        expected.extend(batch.stored(offset, 3));
        offset = info.last_offset + 1;
    }
    assert_eq!(read_all(&log, 0).unwrap(), expected);
    assert_eq!(std::fs::read(home.file(0, ".log")).unwrap(), expected);
    assert_eq!(log.log_end_offset().get(), offset);
    assert_eq!(log.high_watermark().get(), offset);
    assert_eq!(log.last_stable_offset().get(), offset);
    assert_eq!(log.latest_epoch(), Some(3));
    assert_eq!(std::fs::read(home.dir().join("leader-epoch-checkpoint")).unwrap(), b"0\n1\n3 0\n");
}

#[test]
fn every_offset_is_found_in_its_batch_whatever_the_index_holds() {
    let mut random = Random::from_environment();
    for round in 0..6 {
        let home = Home::new(LogConfig {
            segment_bytes: 3000 + random.below(60_000) as u32,
            index_interval_bytes: [0, 100, 1000, 4096][random.below(4) as usize],
            ..LogConfig::default()
        });
        let mut log = home.open(false);
        let mut batches = Vec::new();
        for _ in 0..200 + random.below(300) {
            let batch = Batch::new(1 + random.below(5) as usize, random.below(300) as usize, NOW);
            let info = batch.append(&log).unwrap();
            batches.push((info.first_offset, info.last_offset));
        }
        assert!(log.segment_count() > 1);
        for reopened in [false, true] {
            if reopened {
                log.close(NOW, true).unwrap();
                drop(log);
                log = home.open(round % 2 == 0);
            }
            for (first, last) in &batches {
                for offset in *first..=*last {
                    let read = log.read(offset, 1, true, Isolation::HighWatermark).unwrap();
                    assert_eq!(read.base_offset, *first, "offset {offset}");
                    let header = headers(&bytes_of(&read.range.unwrap()))[0];
                    assert_eq!((header.base_offset, header.last_offset()), (*first, *last));
                }
            }
        }
    }
}

#[test]
fn a_read_is_bounded_by_bytes_but_for_the_first_batch_on_demand() {
    let home = Home::default();
    let log = home.open(false);
    for _ in 0..10 {
        Batch::new(1, 1000, NOW).append(&log).unwrap();
    }
    let one = Batch::new(1, 1000, NOW).stored(0, 0).len() as u32;
    let read = log.read(0, 3 * one, false, Isolation::LogEnd).unwrap();
    assert_eq!(read.range.unwrap().length, 3 * one);
    let read = log.read(0, one - 1, false, Isolation::LogEnd).unwrap();
    assert!(read.range.is_none() && read.first_batch_bytes == one);
    assert_eq!(log.read(0, 0, true, Isolation::LogEnd).unwrap().range.unwrap().length, one);
    assert_eq!(log.read(3, u32::MAX, false, Isolation::LogEnd).unwrap().range.unwrap().length, 7 * one);
    assert!(log.read(10, u32::MAX, true, Isolation::LogEnd).unwrap().range.is_none());
    for offset in [-1, 11] {
        let error = log.read(offset, 1, true, Isolation::LogEnd).unwrap_err();
        assert!(matches!(error, StorageError::OffsetOutOfRange { start: 0, end: 10, .. }), "{error}");
    }
}

#[test]
fn read_committed_ends_before_the_first_open_transaction_and_names_the_aborted() {
    let home = Home::small_segments(100_000);
    let log = home.open(false);
    Batch::new(2, 10, NOW).append(&log).unwrap();
    Batch::transactional(3, 7, 0, 0).append(&log).unwrap();
    Batch::new(2, 10, NOW).append(&log).unwrap();
    assert_eq!(log.last_stable_offset().get(), 2);
    let read = log.read(0, u32::MAX, true, Isolation::Committed).unwrap();
    assert_eq!(headers(&bytes_of(&read.range.unwrap())).len(), 1);
    assert!(log.read(2, u32::MAX, true, Isolation::Committed).unwrap().range.is_none());
    Batch::marker(7, 0, false, 1).append(&log).unwrap();
    assert_eq!(log.last_stable_offset().get(), 8);
    let aborted = log.aborted_transactions(0, 8).unwrap();
    assert_eq!(aborted.len(), 1);
    assert_eq!((aborted[0].producer_id, aborted[0].first_offset, aborted[0].last_offset), (7, 2, 7));
    assert!(log.aborted_transactions(8, 20).unwrap().is_empty());
}

#[test]
fn segments_roll_by_size_age_full_index_and_distance_of_offsets() {
    let home = Home::small_segments(5000);
    let log = home.open(false);
    for _ in 0..30 {
        Batch::new(1, 1000, NOW).append(&log).unwrap();
    }
    assert!(log.segments().iter().all(|(_, size)| *size <= 5000));
    assert_eq!(log.segment_count(), 8);
    let error = Batch::new(1, 6000, NOW).append(&log).unwrap_err();
    assert!(matches!(error, StorageError::BatchTooLarge { limit_bytes: 5000, .. }), "{error}");

    let home = Home::new(LogConfig { segment_ms: 1000, ..LogConfig::default() });
    let log = home.open(false);
    for age in [0, 500, 1000, 1001, 1500, 2001, 2002] {
        Batch::new(1, 10, NOW + age).append(&log).unwrap();
    }
    assert_eq!(log.segments().iter().map(|(base, _)| *base).collect::<Vec<_>>(), [0, 3, 6]);

    let home =
        Home::new(LogConfig { segment_index_bytes: 120, index_interval_bytes: 0, ..LogConfig::default() });
    let log = home.open(false);
    for n in 0..40 {
        Batch::new(1, 10, NOW + n).append(&log).unwrap();
    }
    assert!(log.segment_count() > 3, "{}", log.segment_count());

    let home = Home { compacted: true, ..Home::default() };
    let log = home.open(false);
    let mut batch = Batch::new(1, 10, NOW);
    for (offset, segments) in [(0, 1), (i64::from(i32::MAX), 1), (i64::from(i32::MAX) + 1, 2), (1 << 40, 3)] {
        batch.header.base_offset = offset;
        log.append_as_is(&batch.header, &[std::io::IoSlice::new(&batch.body)], NOW).unwrap();
        assert_eq!(log.segment_count(), segments);
    }
    assert_eq!(log.read(5, 1, true, Isolation::LogEnd).unwrap().base_offset, i64::from(i32::MAX));
}

#[test]
fn the_same_batch_again_gets_its_first_offsets_and_is_not_written() {
    let home = Home::small_segments(2000);
    let log = home.open(false);
    let batches: Vec<Batch> = (0..8).map(|n| Batch::idempotent(5, 42, 1, n * 5)).collect();
    for (n, batch) in batches.iter().enumerate() {
        assert_eq!(batch.append(&log).unwrap().first_offset, n as i64 * 5);
    }
    let size = log.size_bytes();
    for (n, batch) in batches.iter().enumerate() {
        match batch.append(&log) {
            Ok(info) => {
                assert!(n >= 3 && info.duplicate);
                assert_eq!((info.first_offset, info.last_offset), (n as i64 * 5, n as i64 * 5 + 4));
            }
            Err(error) => {
                assert!(n < 3 && matches!(error, StorageError::OutOfOrderSequence { .. }), "{error}")
            }
        }
    }
    assert_eq!((log.size_bytes(), log.log_end_offset().get()), (size, 40));
    let producers = log.active_producers();
    assert_eq!(
        (producers[0].producer_id, producers[0].last_sequence, producers[0].producer_epoch),
        (42, 39, 1)
    );
    assert_eq!(log.expire_producers(NOW + 86_400_000 + 10), 1);
    assert_eq!(log.producer_count(), 0);
}

#[test]
fn a_producer_of_old_records_is_remembered_for_as_long_as_one_of_new_ones() {
    const DAY_MS: i64 = 86_400_000;
    let home = Home::default();
    let log = home.open(false);
    let mut old = Batch::idempotent(1, 9, 0, 0);
    // Records of last year, copied from elsewhere; and some of the next century.
    for (producer_id, timestamp) in [(9, NOW - 365 * DAY_MS), (10, NOW + 36_500 * DAY_MS)] {
        old.header.producer_id = producer_id;
        (old.header.base_timestamp, old.header.max_timestamp) = (timestamp, timestamp);
        old.renew_crc();
        old.append(&log).unwrap();
        assert_eq!(log.expire_producers(NOW + DAY_MS - 1), 0);
        assert!(old.append(&log).unwrap().duplicate, "sent again because the answer was lost");
    }
    assert_eq!(log.log_end_offset().get(), 2);
    assert_eq!(log.expire_producers(NOW + DAY_MS), 2);
}

#[test]
fn batches_that_claim_what_they_must_not_are_refused() {
    let home = Home::default();
    let log = home.open(false);
    let mut wrong = Batch::idempotent(1, 1, 0, 0);
    wrong.header.producer_epoch = -1;
    let mut unsequenced = Batch::idempotent(1, 1, 0, 0);
    unsequenced.header.base_sequence = -1;
    let mut short = Batch::new(1, 10, NOW);
    short.body.pop();
    let mut backwards = Batch::new(1, 10, NOW);
    backwards.header.last_offset_delta = -1;
    for batch in [wrong, unsequenced, short, backwards] {
        let error = batch.append(&log).unwrap_err();
        assert!(matches!(error, StorageError::InvalidBatch { .. }), "{error}");
    }
    assert_eq!(log.log_end_offset().get(), 0);
}

#[test]
fn timestamps_are_found_as_a_linear_search_finds_them() {
    let mut random = Random::from_environment();
    let home = Home::small_segments(20_000);
    let mut log = home.open(false);
    let mut records: Vec<(i64, i64)> = Vec::new();
    for _ in 0..300 {
        let timestamp = 1_000_000 + random.below(50_000) as i64 + records.len() as i64 * 100;
        let count = 1 + random.below(4) as usize;
        let info = Batch::new(count, random.below(200) as usize, timestamp).append(&log).unwrap();
        records.extend((0..count as i64).map(|n| (info.first_offset + n, timestamp + n)));
    }
    assert!(log.segment_count() > 2);
    for reopened in [false, true] {
        if reopened {
            drop(log);
            log = home.open(false);
        }
        for _ in 0..300 {
            let target = 990_000 + random.below(200_000) as i64;
            let expected = records.iter().find(|(_, timestamp)| *timestamp >= target).copied();
            let found = in_memory::offset_for_timestamp(&log, target).unwrap();
            assert_eq!(found.map(|(f, _)| (f.offset, f.timestamp)), expected, "timestamp {target}");
        }
        let largest = records.iter().map(|(_, timestamp)| *timestamp).max().unwrap();
        let expected = records.iter().find(|(_, timestamp)| *timestamp == largest).copied();
        let found = in_memory::offset_of_max_timestamp(&log).unwrap();
        assert_eq!(found.map(|(f, _)| (f.offset, f.timestamp)), expected);
    }
}

#[test]
fn the_largest_timestamp_is_looked_for_among_what_was_not_deleted() {
    let mut random = Random::from_environment();
    for round in 0..20 {
        let home = Home::small_segments(6000);
        let log = home.open(false);
        let mut records: Vec<(i64, i64)> = Vec::new();
        for _ in 0..40 {
            let timestamp = 1_000_000 + random.below(30) as i64;
            let count = 1 + random.below(4) as usize;
            let info = Batch::new(count, random.below(200) as usize, timestamp).append(&log).unwrap();
            records.extend((0..count as i64).map(|n| (info.first_offset + n, timestamp + n)));
        }
        while !records.is_empty() {
            let largest = records.iter().map(|(_, timestamp)| *timestamp).max().unwrap();
            let expected = records.iter().find(|(_, timestamp)| *timestamp == largest).copied();
            let found = in_memory::offset_of_max_timestamp(&log).unwrap();
            assert_eq!(found.map(|(f, _)| (f.offset, f.timestamp)), expected, "round {round}");
            records.drain(..records.len().min(1 + random.below(9) as usize));
            let start = records.first().map_or(log.log_end_offset().get(), |(offset, _)| *offset);
            log.delete_records(start).unwrap();
        }
        assert_eq!(in_memory::offset_of_max_timestamp(&log).unwrap(), None);
    }
}

#[test]
fn a_reader_that_holds_a_range_is_not_disturbed_by_the_deletion_of_its_segment() {
    let home = Home::small_segments(3000);
    let log = home.open(false);
    for _ in 0..10 {
        Batch::new(1, 1000, NOW).append(&log).unwrap();
    }
    let held = log.read(0, u32::MAX, true, Isolation::LogEnd).unwrap().range.unwrap();
    let before = bytes_of(&held);
    log.delete_records(9).unwrap();
    assert!(log.apply_retention(NOW).unwrap().deleted_segments > 2);
    assert!(!home.file(0, ".log").exists());
    assert_eq!(bytes_of(&held), before);
}

#[test]
fn readers_beside_retention_are_told_that_records_are_gone_and_never_of_damage() {
    let mut home = Home::small_segments(600);
    home.config.retention_ms = 0;
    let opened = home.open(false);
    let log: &Log = &opened;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..800 {
                Batch::new(1, 200, NOW - 1000).append(log).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                log.apply_retention(NOW).unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut reads, mut passed) = (0, 0);
                loop {
                    let is_last = done.load(Ordering::Acquire);
                    let start = log.log_start_offset().get();
                    for offset in (start - 1).max(0)..start + 3 {
                        match log.read(offset, 1000, true, Isolation::HighWatermark) {
                            Ok(read) => reads += usize::from(read.range.is_some()),
                            Err(StorageError::OffsetOutOfRange { .. }) => passed += 1,
                            Err(error) => panic!("offset {offset}: {error}"),
                        }
                    }
                    in_memory::offset_for_timestamp(log, NOW - 1000).unwrap();
                    in_memory::offset_of_max_timestamp(log).unwrap();
                    if is_last {
                        break;
                    }
                }
                // How often each was met is the scheduler's: at the least what lies before the log start is gone.
                assert!(reads + passed > 0, "nothing was read");
            });
        }
    });
    log.apply_retention(NOW).unwrap();
    let counters = &opened.shared.counters;
    assert_eq!(counters.gaps_found.load(Ordering::Relaxed), 0);
    assert_eq!(counters.index_rebuilds.load(Ordering::Relaxed), 0);
    assert_eq!(counters.corrupt_batches.load(Ordering::Relaxed), 0);
    let files = |suffix: &str| {
        let names = std::fs::read_dir(home.dir()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(suffix)).count()
    };
    assert_eq!([files(".log"), files(".index"), files(".timeindex")], [1, 1, 1]);
}

#[test]
fn an_offset_that_does_not_follow_is_refused_as_is() {
    let home = Home::default();
    let log = home.open(false);
    let mut batch = Batch::new(2, 10, NOW);
    let append = |batch: &Batch| log.append_as_is(&batch.header, &[std::io::IoSlice::new(&batch.body)], NOW);
    batch.header.partition_leader_epoch = 4;
    append(&batch).unwrap();
    for offset in [0, 1, 3, 100] {
        batch.header.base_offset = offset;
        let error = append(&batch).unwrap_err();
        assert!(matches!(error, StorageError::UnexpectedOffset { expected: 2, .. }), "{error}");
    }
    batch.header.base_offset = 2;
    assert_eq!(append(&batch).unwrap().last_offset, 3);
    assert_eq!(log.latest_epoch(), Some(4));
}

#[test]
fn a_flush_by_time_does_not_wait_for_a_clock_that_was_set_back() {
    let mut home = Home::default();
    home.config.flush_ms = 1000;
    let log = home.open(false);
    log.flush(NOW).unwrap();
    Batch::new(1, 10, NOW).append(&log).unwrap();
    assert!(!log.is_flush_due(NOW + 999) && log.is_flush_due(NOW + 1000));
    assert!(log.is_flush_due(NOW - 3_600_000));
}
