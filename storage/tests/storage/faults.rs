//! Broken disks and damaged files: every row of the list where a JVM broker loses its footing.

use std::sync::atomic::Ordering;

use crate::common::{Batch, Home, NOW, Opened, Random, bytes_of, flip, headers, read_all};
use weir_storage::disk::Op;
use weir_storage::faults::{EFBIG, EIO, EMFILE, ENOSPC, EROFS};
use weir_storage::{Isolation, LogConfig, Scrubber, StorageError, in_memory};

fn scrub(log: &Opened) -> weir_storage::ScrubReport {
    let mut scrubber = Scrubber::new();
    let mut total = weir_storage::ScrubReport::default();
    while !total.pass_finished {
        let report = scrubber.step_over(std::slice::from_ref(&log.log), 1000).unwrap();
        total.bytes += report.bytes;
        total.damaged += report.damaged;
        total.gaps += report.gaps;
        total.rebuilt += report.rebuilt;
        total.pass_finished = report.pass_finished;
    }
    total
}

#[test]
fn a_failing_disk_stops_writes_but_no_reads_and_the_log_recovers_by_itself() {
    for errno in [ENOSPC, EFBIG, EROFS, EIO] {
        for bytes_through in [0, 1, 60, 61, 150] {
            for cut_fails in [false, true] {
                let home = Home::default();
                let log = home.open(false);
                let mut expected = Vec::new();
                for _ in 0..5 {
                    let batch = Batch::new(2, 100, NOW);
                    let info = batch.append(&log).unwrap();
                    expected.extend(batch.stored(info.first_offset, 0));
                }
                home.faults.fail(&[Op::Write], ".log", errno, bytes_through);
                if cut_fails {
                    home.faults.fail(&[Op::SetLength], ".log", errno, 0);
                }
                for _ in 0..3 {
                    let error = Batch::new(3, 500, NOW).append(&log).unwrap_err();
                    assert!(error.is_disk_failure() && error.is_retriable(), "{error}");
                    assert_eq!(read_all(&log, 0).unwrap(), expected);
                    assert!(log.is_read_only() && log.read_only_reason().is_some());
                }
                assert!(!log.probe(NOW));
                home.faults.lift();
                let batch = Batch::new(1, 20, NOW);
                let info = batch.append(&log).unwrap();
                assert_eq!(info.first_offset, 10);
                expected.extend(batch.stored(10, 0));
                assert!(!log.is_read_only());
                drop(log);
                assert_eq!(std::fs::read(home.file(0, ".log")).unwrap(), expected, "torn bytes stayed");
                assert_eq!(read_all(&home.open(false), 0).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_read_only_log_refuses_at_once_between_two_probes_and_a_probe_opens_it() {
    let home = Home { probe_interval_ms: 1000, ..Home::default() };
    let log = home.open(false);
    home.faults.fail(&[Op::Write], ".log", ENOSPC, 0);
    assert!(matches!(Batch::new(1, 10, NOW).append(&log), Err(StorageError::Io { .. })));
    let attempts = home.faults.count(Op::Write);
    let error = Batch::new(1, 10, NOW).append_at(&log, NOW + 999, 0).unwrap_err();
    assert!(
        matches!(&error, StorageError::ReadOnly { reason, .. } if reason.contains("No space")),
        "{error}"
    );
    assert_eq!(home.faults.count(Op::Write), attempts, "the disk was asked between two probes");
    assert!(!log.probe(NOW + 1000));
    home.faults.lift();
    assert!(log.probe(NOW + 2000) && !log.is_read_only());
    assert_eq!(Batch::new(1, 10, NOW).append_at(&log, NOW + 2000, 0).unwrap().first_offset, 0);
    let counters = &log.shared.counters;
    assert_eq!(counters.went_read_only.load(Ordering::Relaxed), 1);
    assert_eq!(counters.recovered_from_read_only.load(Ordering::Relaxed), 1);
}

#[test]
fn short_writes_go_on_until_the_batch_is_whole() {
    let home = Home::default();
    let log = home.open(false);
    home.faults.short_writes(7);
    let mut expected = Vec::new();
    for n in 0..10usize {
        let batch = Batch::new(2, n * 10, NOW);
        let info = batch.append(&log).unwrap();
        expected.extend(batch.stored(info.first_offset, 0));
    }
    assert_eq!(read_all(&log, 0).unwrap(), expected);
}

#[test]
fn a_roll_or_an_index_that_cannot_be_written_costs_no_record() {
    for (ops, suffix) in [
        (vec![Op::OpenWrite], ".log"),
        (vec![Op::OpenWrite], ".snapshot.tmp"),
        (vec![Op::Write, Op::OpenWrite], ".index"),
        (vec![Op::Write, Op::OpenWrite], ".timeindex"),
        (vec![Op::Rename], ".snapshot.tmp"),
    ] {
        let home =
            Home::new(LogConfig { segment_bytes: 3000, index_interval_bytes: 0, ..LogConfig::default() });
        let log = home.open(false);
        let mut expected = Vec::new();
        let append = |expected: &mut Vec<u8>| {
            let batch = Batch::new(1, 100, NOW + expected.len() as i64);
            batch.append(&log).map(|info| expected.extend(batch.stored(info.first_offset, 0)))
        };
        for _ in 0..5 {
            append(&mut expected).unwrap();
        }
        home.faults.fail(&ops, suffix, ENOSPC, 0);
        let mut failures = 0;
        for _ in 0..100 {
            failures += usize::from(append(&mut expected).is_err());
        }
        assert!(failures > 0, "{suffix}");
        assert_eq!(read_all(&log, 0).unwrap(), expected);
        home.faults.lift();
        for _ in 0..50 {
            append(&mut expected).unwrap();
        }
        assert_eq!(read_all(&log, 0).unwrap(), expected);
        let end = log.log_end_offset().get();
        for offset in 0..end {
            assert_eq!(log.read(offset, 1, true, Isolation::LogEnd).unwrap().base_offset, offset);
        }
        drop(log);
        assert_eq!(read_all(&home.open(false), 0).unwrap(), expected);
    }
}

#[test]
fn too_few_descriptors_close_idle_files_before_they_fail_a_request() {
    let home = Home::small_segments(600);
    let log = home.open(false);
    for _ in 0..50 {
        Batch::new(1, 200, NOW).append(&log).unwrap();
    }
    let end = log.log_end_offset().get();
    for offset in 0..end {
        log.read(offset, 1, true, Isolation::LogEnd).unwrap();
    }
    assert!(log.shared.handles.open_count() > 20);
    home.faults.fail(&[Op::OpenRead, Op::OpenWrite], ".log", EMFILE, 0);
    let open = log.shared.handles.open_count();
    assert!(matches!(
        log.read(0, 1, true, Isolation::LogEnd).map(|_| ()),
        Ok(()) | Err(StorageError::Io { .. })
    ));
    let failed = (0..end).find_map(|offset| log.read(offset, 1, true, Isolation::LogEnd).err());
    assert!(failed.is_none_or(|error| error.is_retriable()));
    assert!(log.shared.handles.open_count() <= open);
    home.faults.lift();
    assert!(read_all(&log, 0).is_ok());
}

#[test]
fn a_failed_sync_is_made_good_before_the_next_append() {
    let home = Home::default();
    let log = home.open(false);
    let mut expected = Vec::new();
    for _ in 0..10 {
        let batch = Batch::new(2, 3000, NOW);
        let info = batch.append(&log).unwrap();
        expected.extend(batch.stored(info.first_offset, 0));
    }
    home.faults.fail(&[Op::Sync], ".log", EIO, 0);
    assert!(log.flush(NOW).unwrap_err().is_disk_failure());
    assert_eq!(log.recovery_point().get(), 0, "a failed sync must not move the recovery point");
    assert!(Batch::new(1, 10, NOW).append(&log).is_err());
    home.faults.lift();
    let batch = Batch::new(1, 10, NOW);
    let info = batch.append(&log).unwrap();
    expected.extend(batch.stored(info.first_offset, 0));
    assert_eq!(log.recovery_point().get(), 20, "what had not been synced was written again and synced");
    assert_eq!(read_all(&log, 0).unwrap(), expected);
}

#[test]
fn what_follows_a_failed_sync_writes_no_more_than_was_unflushed_and_not_at_every_call() {
    let home = Home { probe_interval_ms: 1000, ..Home::default() };
    let log = home.open(false);
    for _ in 0..50 {
        Batch::new(1, 60_000, NOW).append(&log).unwrap();
    }
    assert_eq!(log.flush(NOW).unwrap().get(), 50);
    Batch::new(1, 60_000, NOW).append(&log).unwrap();
    home.faults.fail(&[Op::Sync], ".log", EIO, 0);
    assert!(matches!(log.flush(NOW), Err(StorageError::Io { .. })));
    let tried = home.faults.mutations();
    for _ in 0..100 {
        assert!(matches!(log.flush(NOW + 999), Err(StorageError::ReadOnly { .. })));
    }
    assert_eq!(home.faults.mutations(), tried);
    home.faults.lift();
    assert_eq!(log.flush(NOW + 1000).unwrap().get(), 51);
    assert!(!log.is_read_only());
    let took = home.faults.mutations() - tried;
    assert!(took < 10, "{took} changes of the disk for one batch");
}

#[test]
fn after_a_power_cut_everything_below_the_recovery_point_is_there() {
    let mut random = Random::from_environment();
    for _ in 0..10 {
        let home = Home::small_segments(4000);
        let log = home.open(false);
        let mut flushed = 0;
        let mut expected = Vec::new();
        for n in 0..60 {
            let batch = Batch::idempotent(2, 1, 0, n * 2);
            let info = batch.append(&log).unwrap();
            expected.extend(batch.stored(info.first_offset, 0));
            if random.below(10) == 0 {
                flushed = log.flush(NOW).unwrap().get();
            }
        }
        drop(log);
        for (path, synced, now) in home.faults.unsynced() {
            let length = synced + random.below(now - synced + 1);
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        }
        let home = Home { recovery_point: flushed, ..home };
        let log = home.open(false);
        assert!(log.log_end_offset().get() >= flushed);
        let found = read_all(&log, 0).unwrap();
        assert!(expected.starts_with(&found));
        let last = log.active_producers().first().map_or(-1, |producer| producer.last_sequence);
        assert_eq!(i64::from(last), log.log_end_offset().get() - 1);
    }
}

/// Three sealed segments and an active one, cleanly closed.
fn sealed(home: &Home) -> Vec<(i64, u64)> {
    let log = home.open(false);
    for n in 0..80 {
        Batch::new(1, 150, NOW + n).append(&log).unwrap();
    }
    let segments = log.segments();
    assert!(segments.len() >= 4);
    log.close(NOW, true).unwrap();
    segments
}

/// Offsets, from the segment's on, and positions of an offset index.
fn entries(bytes: &[u8]) -> Vec<(u32, u32)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    bytes.chunks_exact(8).map(|entry| (number(&entry[..4]), number(&entry[4..]))).collect()
}

#[test]
fn a_garbled_index_of_a_flushed_segment_hides_no_record() {
    let mut random = Random::from_environment();
    for round in 0..40 {
        let home = Home::small_segments(4000);
        let segments = sealed(&home);
        let suffix = if round % 2 == 0 { ".index" } else { ".timeindex" };
        let path = home.file(segments[round % 3].0, suffix);
        let good = std::fs::read(&path).unwrap();
        let mut bytes = good.clone();
        match random.below(7) {
            0 => random_bytes(&mut random, &mut bytes),
            1 => bytes.fill(0),
            2 => bytes.truncate(random.below(bytes.len() as u64) as usize),
            3 => bytes.clear(),
            4 => bytes.chunks_mut(if suffix == ".index" { 8 } else { 12 }).for_each(<[u8]>::reverse),
            // The offset of the fifth entry becomes that of the sixth.
            5 => bytes[if suffix == ".index" { 35 } else { 59 }] += 1,
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
        if random.below(8) == 0 {
            std::fs::remove_file(&path).unwrap();
        } else {
            std::fs::write(&path, &bytes).unwrap();
        }
        let log = home.open(true);
        for offset in 0..80 {
            let read = log.read(offset, 1, true, Isolation::HighWatermark).unwrap();
            assert_eq!(read.base_offset, offset);
        }
        for target in 0..80 {
            let found = in_memory::offset_for_timestamp(&log, NOW + target).unwrap();
            assert_eq!(found.map(|(found, _)| found.offset), Some(target), "round {round} {suffix}");
        }
        scrub(&log);
        if suffix == ".index" {
            // Entries that are missing at the end cost time and nothing else.
            let found = std::fs::read(&path).unwrap();
            assert!(
                good.starts_with(&found) && found.len().is_multiple_of(8),
                "the scrub leaves a damaged index behind: {:?} instead of {:?}",
                entries(&found),
                entries(&good)
            );
        }
    }
}

#[test]
fn an_index_that_is_cut_short_while_it_is_open_hides_no_record() {
    let config = LogConfig { segment_bytes: 100_000, index_interval_bytes: 1, ..LogConfig::default() };
    let home = Home::new(config);
    let log = home.open(false);
    while log.segment_count() < 2 {
        Batch::new(1, 10, NOW + log.log_end_offset().get()).append(&log).unwrap();
    }
    let end = log.log_end_offset().get();
    for suffix in [".index", ".timeindex"] {
        for offset in (0..end).step_by(50) {
            log.read(offset, 1, true, Isolation::LogEnd).unwrap();
            in_memory::offset_for_timestamp(&log, NOW + offset).unwrap();
        }
        let file = std::fs::OpenOptions::new().write(true).open(home.file(0, suffix)).unwrap();
        file.set_len(8).unwrap();
        for offset in (0..end).step_by(7) {
            let read = log.read(offset, 1, true, Isolation::LogEnd).unwrap();
            assert_eq!(read.base_offset, offset, "{suffix}");
            let found = in_memory::offset_for_timestamp(&log, NOW + offset).unwrap();
            assert_eq!(found.map(|(found, _)| found.offset), Some(offset), "{suffix}");
        }
    }
}

fn random_bytes(random: &mut Random, bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
}

#[test]
fn a_segment_cut_short_is_noticed_at_the_start_and_its_hole_is_an_error() {
    for at_a_batch in [true, false] {
        let home = Home::small_segments(4000);
        let segments = sealed(&home);
        let path = home.file(segments[1].0, ".log");
        let bytes = std::fs::read(&path).unwrap();
        let batch = headers(&bytes)[0].size_bytes();
        let length = bytes.len() - 3 * batch - if at_a_batch { 0 } else { 10 };
        std::fs::write(&path, &bytes[..length]).unwrap();
        let log = home.open(true);
        assert_eq!(log.shared.counters.gaps_found.load(Ordering::Relaxed), 1);
        let lost = segments[2].0 - if at_a_batch { 3 } else { 4 };
        // Whoever meets the damage first, and on what errand: sound records stay readable.
        log.apply_retention(NOW).unwrap();
        assert!(log.read(lost + 1, 1, true, Isolation::LogEnd).is_err());
        for offset in 0..80 {
            match log.read(offset, u32::MAX, true, Isolation::LogEnd) {
                Ok(read) => {
                    assert!(offset < lost || offset >= segments[2].0, "offset {offset}");
                    assert_eq!(read.base_offset, offset);
                }
                Err(StorageError::SegmentGap { next, .. }) => {
                    assert!(at_a_batch && (lost..segments[2].0).contains(&offset));
                    assert_eq!(next, segments[2].0);
                }
                Err(StorageError::CorruptBatch { .. }) => {
                    assert!(!at_a_batch && (lost..segments[2].0).contains(&offset), "offset {offset}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let rebuilds = log.shared.counters.index_rebuilds.load(Ordering::Relaxed);
        assert!(rebuilds <= 1, "{rebuilds} rebuilds of an index that cannot be better than its log");
        let report = scrub(&log);
        assert_eq!(report.gaps, 1);
    }
}

#[test]
fn a_removed_segment_is_a_hole_and_not_a_step() {
    let home = Home::small_segments(4000);
    let segments = sealed(&home);
    std::fs::remove_file(home.file(segments[1].0, ".log")).unwrap();
    let log = home.open(true);
    assert_eq!(log.shared.counters.gaps_found.load(Ordering::Relaxed), 1);
    let error = log.read(segments[1].0, 1, true, Isolation::LogEnd).unwrap_err();
    assert!(matches!(error, StorageError::SegmentGap { next, .. } if next == segments[2].0), "{error}");
    // A compacted log may have such steps.
    drop(log);
    let home = Home { compacted: true, ..home };
    let read = home.open(true).read(segments[1].0, 1, true, Isolation::LogEnd).unwrap();
    assert_eq!(read.base_offset, segments[2].0);
}

#[test]
fn the_scrub_finds_damage_and_reads_of_it_are_errors() {
    for what in ["a flipped byte", "zeros", "a zeroed header"] {
        let home = Home::small_segments(4000);
        let segments = sealed(&home);
        let path = home.file(segments[1].0, ".log");
        let mut bytes = std::fs::read(&path).unwrap();
        let batch = headers(&bytes)[0].size_bytes();
        let damaged = segments[1].0 + 5;
        match what {
            "a flipped byte" => bytes[5 * batch + 100] ^= 4,
            "zeros" => bytes[5 * batch..6 * batch].fill(0),
            _ => bytes[5 * batch..5 * batch + 61].fill(0),
        }
        std::fs::write(&path, &bytes).unwrap();
        let log = home.open(true);
        assert!(log.read(damaged - 1, 1, true, Isolation::LogEnd).is_ok());
        let report = scrub(&log);
        assert_eq!(report.damaged, 1, "{what}");
        let damages = log.damages();
        assert_eq!((damages[0].first_offset, damages[0].position), (damaged, 5 * batch as u64), "{what}");
        let end = damages[0].end_offset;
        assert!(end > damaged && end <= damaged + 4, "{what}: {end}");
        for offset in 0..80 {
            match log.read(offset, u32::MAX, true, Isolation::LogEnd) {
                Ok(read) => {
                    assert!(!(damaged..end).contains(&offset), "{what}: offset {offset} is handed out");
                    let found = headers(&bytes_of(&read.range.unwrap()));
                    assert!(found.iter().all(|header| !(damaged..end).contains(&header.base_offset)));
                }
                Err(StorageError::CorruptBatch { .. }) => assert!((damaged..end).contains(&offset)),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(scrub(&log).damaged, 1, "known damage is met again and not counted as new");
        assert_eq!(log.damages().len(), 1);
    }
}

#[test]
fn a_damaged_transaction_index_of_a_flushed_segment_is_rebuilt_from_the_log() {
    let damages = ["missing", "short", "zeros", "unknown version"];
    for (damage, of_last) in damages.iter().flat_map(|damage| [(*damage, false), (*damage, true)]) {
        let home = Home::small_segments(3000);
        let log = home.open(false);
        let mut sequence = 0;
        for n in 0..30 {
            Batch::transactional(2, 5, 0, sequence).append(&log).unwrap();
            sequence += 2;
            Batch::new(1, 50, NOW).append(&log).unwrap();
            Batch::marker(5, 0, n % 3 != 0, 0).append(&log).unwrap();
        }
        let end = log.log_end_offset().get();
        let expected = log.aborted_transactions(0, end).unwrap();
        assert_eq!(expected.len(), 10);
        log.close(NOW, true).unwrap();
        drop(log);
        let indexes = || {
            let entries = std::fs::read_dir(home.dir()).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "txnindex"))
        };
        let path = if of_last { indexes().max().unwrap() } else { indexes().min().unwrap() };
        let good = std::fs::read(&path).unwrap();
        match damage {
            "missing" => std::fs::remove_file(&path).unwrap(),
            "short" => std::fs::write(&path, &good[..good.len() - 5]).unwrap(),
            "zeros" => std::fs::write(&path, vec![0; good.len()]).unwrap(),
            _ => flip(&path, 1),
        }
        let log = home.open(true);
        if damage == "missing" {
            // No file means no aborted transaction, as for Kafka, so only the scrub can tell.
            assert!(log.aborted_transactions(0, end).unwrap().len() < expected.len());
            assert_eq!(scrub(&log).rebuilt, 1);
        }
        assert_eq!(log.aborted_transactions(0, end).unwrap(), expected, "{damage}");
        assert_eq!(std::fs::read(&path).unwrap(), good, "{damage}");
        assert_eq!(scrub(&log).rebuilt, 0, "{damage}");
        for offset in 0..end {
            let read = log.read(offset, 1, true, Isolation::Committed).unwrap();
            let last = headers(&bytes_of(&read.range.unwrap())).last().unwrap().last_offset();
            let needed = expected.iter().filter(|txn| txn.last_offset >= offset && txn.first_offset <= last);
            for txn in needed {
                assert!(read.aborted.contains(txn), "a reader of {offset} to {last} is not told of {txn:?}");
            }
            assert!(read.aborted.len() < expected.len(), "a reader of {offset} to {last} is told of all");
        }
    }
}

#[test]
fn deleted_records_stay_deleted_after_a_crash() {
    let home = Home::small_segments(4000);
    let log = home.open(false);
    for n in 0..50 {
        Batch::new(1, 150, NOW + n).append(&log).unwrap();
    }
    assert_eq!(log.delete_records(17).unwrap().get(), 17);
    assert_eq!(log.delete_records(3).unwrap().get(), 17, "an offset below the start changes nothing");
    for offset in [51, -2] {
        assert!(matches!(log.delete_records(offset), Err(StorageError::OffsetOutOfRange { .. })));
    }
    drop(log);
    let log = home.open(false);
    assert_eq!(log.log_start_offset().get(), 17);
    assert!(matches!(log.read(16, 1, true, Isolation::LogEnd), Err(StorageError::OffsetOutOfRange { .. })));
    assert_eq!(log.read(17, 1, true, Isolation::LogEnd).unwrap().base_offset, 17);
    let (found, _) = in_memory::offset_for_timestamp(&log, NOW).unwrap().unwrap();
    assert_eq!(found.offset, 17);
    assert_eq!(log.delete_records(-1).unwrap().get(), 50);
    home.faults.fail(&[Op::Sync], "log-start-offset-checkpoint.tmp", EIO, 0);
    Batch::new(1, 10, NOW).append(&log).unwrap();
    log.delete_records(51).unwrap_err();
    home.faults.lift();
    assert_eq!(log.delete_records(51).unwrap().get(), 51, "asked again, it is made durable");
    drop(log);
    assert_eq!(home.open(false).log_start_offset().get(), 51);
}

#[test]
fn waiting_flushes_are_served_together() {
    let home = Home::new(LogConfig { flush_messages: 1, ..LogConfig::default() });
    let log = home.open(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let info = Batch::new(1, 50, NOW).append(&log).unwrap();
                    assert!(info.needs_flush);
                    let point = log.flush_to(info.last_offset + 1, NOW).unwrap();
                    assert!(point.get() > info.last_offset);
                }
            });
        }
    });
    let counters = &log.shared.counters;
    let (syncs, joined) =
        (counters.flushes.load(Ordering::Relaxed), counters.flushes_joined.load(Ordering::Relaxed));
    println!("{syncs} syncs, {joined} joined");
    assert!(syncs <= 400 && log.recovery_point().get() == 400);
}

#[test]
fn a_roll_that_is_given_up_leaves_nothing_that_hides_records() {
    for (suffix, remove_fails) in [(".index", false), (".timeindex", false), (".index", true), (".log", true)]
    {
        for (rolls_later, clean) in [(false, false), (false, true), (true, false), (true, true)] {
            let which = format!("{suffix}, {remove_fails}, {rolls_later}, {clean}");
            let home = Home::default();
            let log = home.open(false);
            let mut expected = Vec::new();
            let append = |expected: &mut Vec<u8>| {
                for _ in 0..5 {
                    let batch = Batch::new(2, 100, NOW);
                    let info = batch.append(&log).unwrap();
                    expected.extend(batch.stored(info.first_offset, 0));
                }
            };
            append(&mut expected);
            home.faults.fail(&[Op::OpenWrite], suffix, EMFILE, 0);
            if remove_fails {
                home.faults.fail(&[Op::Remove], "", EIO, 0);
            }
            log.roll(NOW).unwrap_err();
            home.faults.lift();
            append(&mut expected);
            if rolls_later {
                log.roll(NOW).unwrap();
                append(&mut expected);
            }
            assert_eq!(read_all(&log, 0).unwrap(), expected, "{which}");
            if clean {
                log.close(NOW, true).unwrap();
            }
            drop(log);
            for _ in 0..2 {
                let log = home.open(clean);
                assert_eq!(read_all(&log, 0).unwrap(), expected, "{which}");
                assert_eq!(log.shared.counters.gaps_found.load(Ordering::Relaxed), 0, "{which}");
                if clean {
                    log.close(NOW, true).unwrap();
                }
            }
            let log = home.open(clean);
            let end = log.log_end_offset().get();
            assert_eq!(Batch::new(1, 10, NOW).append(&log).unwrap().first_offset, end, "{which}");
        }
    }
}

#[test]
fn large_batches_and_wide_indexes_are_no_damage_of_an_index() {
    let home = Home::new(LogConfig { segment_bytes: 5 << 20, ..LogConfig::default() });
    let log = home.open(false);
    for _ in 0..8 {
        Batch::new(1, 1_400_000, NOW).append(&log).unwrap();
    }
    assert!(log.segment_count() > 2);
    assert_eq!(scrub(&log).rebuilt, 0);
    let wide = LogConfig { segment_bytes: 5 << 20, index_interval_bytes: 2 << 20, ..LogConfig::default() };
    let home = Home::new(wide);
    let log = home.open(false);
    for _ in 0..40 {
        Batch::new(1, 300_000, NOW).append(&log).unwrap();
    }
    assert!(log.segment_count() > 2);
    assert_eq!(scrub(&log).rebuilt, 0);
}

#[test]
fn segments_that_retention_cannot_remove_now_are_removed_later() {
    let home = Home::small_segments(1000);
    let log = home.open(false);
    let mut config = (*log.config()).clone();
    config.retention_ms = 1000;
    log.set_config(std::sync::Arc::new(config));
    for suffix in [".log", ".timeindex", ".snapshot"] {
        while log.segment_count() < 5 {
            Batch::new(1, 300, NOW - 5000).append(&log).unwrap();
        }
        home.faults.fail(&[Op::Remove], suffix, EROFS, 0);
        log.apply_retention(NOW).unwrap_err();
        assert_eq!(log.log_start_offset(), weir_storage::LogStartOffset(log.log_end_offset().get()));
        home.faults.lift();
        let retained = log.apply_retention(NOW).unwrap();
        assert_eq!(retained.deleted_segments, if suffix == ".snapshot" { 0 } else { 5 }, "{suffix}");
        let active = log.segments()[0].0;
        let mut left = Vec::new();
        for entry in std::fs::read_dir(home.dir()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with('0') && !name.starts_with(&format!("{active:020}")) {
                left.push(name);
            }
        }
        assert!(left.is_empty(), "{suffix}: {left:?}");
    }
}
