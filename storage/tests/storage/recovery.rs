//! Starts after a crash: whatever a crash leaves, the log opens with a prefix of what was appended, and everything
//! beside the log is rebuilt.

use std::io::IoSlice;
use std::sync::atomic::Ordering;

use crate::common::{Batch, Home, NOW, Opened, Random, flip, headers, read_all};
use weir_storage::disk::Op;
use weir_storage::{AppendInfo, Isolation, LogConfig, StorageError, in_memory};

/// Appends a mixture: plain, idempotent and transactional batches with markers, in growing leader epochs.
struct Writer {
    random: Random,
    sequences: [i32; 3],
    open_transaction: bool,
    epoch: i32,
    /// Stored bytes of each acknowledged batch with its last offset.
    acknowledged: Vec<(i64, Vec<u8>)>,
    /// The batch that was refused because of the disk.
    in_doubt: Option<Vec<u8>>,
}

impl Writer {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            sequences: [0; 3],
            open_transaction: false,
            epoch: 0,
            acknowledged: Vec::new(),
            in_doubt: None,
        }
    }

    fn step(&mut self, log: &Opened) -> Result<AppendInfo, StorageError> {
        let records = 1 + self.random.below(4) as i32;
        if self.random.below(20) == 0 {
            self.epoch += 1;
        }
        let batch = match self.random.below(8) {
            0..=2 => Batch::new(
                records as usize,
                self.random.below(400) as usize,
                NOW + self.random.below(1000) as i64,
            ),
            3..=5 => {
                let producer = self.random.below(2) as usize;
                Batch::idempotent(records as usize, producer as i64, 0, self.sequences[producer])
            }
            6 => Batch::transactional(records as usize, 2, 0, self.sequences[2]),
            _ if self.open_transaction => Batch::marker(2, 0, self.random.below(2) == 0, 0),
            _ => Batch::new(1, 10, NOW),
        };
        let offset = log.log_end_offset().get();
        let result = batch.append_at(log, NOW, self.epoch);
        match &result {
            Ok(info) => {
                self.acknowledged.push((info.last_offset, batch.stored(info.first_offset, self.epoch)));
                if batch.header.is_control() {
                    self.open_transaction = false;
                } else if batch.header.has_producer_id() {
                    self.sequences[batch.header.producer_id as usize] += records;
                    self.open_transaction |= batch.header.is_transactional();
                }
            }
            Err(_) => self.in_doubt = Some(batch.stored(offset, self.epoch)),
        }
        result
    }

    fn bytes(&self) -> Vec<u8> {
        self.acknowledged.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }
}

#[test]
fn a_crash_at_any_change_of_the_disk_loses_nothing_that_was_acknowledged() {
    let seed = Random::from_environment().0;
    let mut crash_at = 0;
    let mut random = Random(seed);
    loop {
        let home = Home::small_segments(4000);
        let mut writer = Writer::new(seed);
        home.faults.crash_at(crash_at, random.below(300) as usize);
        let mut appended = 0;
        if let Ok(log) = home.try_open(false) {
            while appended < 60 && !home.faults.has_crashed() {
                let _ = writer.step(&log);
                if random.below(12) == 0 {
                    let _ = log.flush(NOW);
                }
                appended += 1;
            }
            if !home.faults.has_crashed() {
                let _ = log.close(NOW, true);
            }
        }
        let crashed = home.faults.has_crashed();
        home.faults.lift();
        let log = home.open(false);
        let found = read_all(&log, 0).unwrap();
        let acknowledged = writer.bytes();
        let with_last = [acknowledged.as_slice(), writer.in_doubt.as_deref().unwrap_or_default()].concat();
        assert!(found == acknowledged || found == with_last, "seed {seed}, crash at {crash_at}");
        // The log goes on as if nothing had happened: the same batches are recognised, the next ones are taken.
        writer.sequences = [0; 3];
        for header in headers(&found).iter().filter(|header| header.has_producer_id() && !header.is_control())
        {
            writer.sequences[header.producer_id as usize] = header.last_sequence() + 1;
        }
        for _ in 0..5 {
            writer.step(&log).unwrap();
        }
        let end = log.log_end_offset().get();
        let tail = read_all(&log, 0).unwrap();
        assert!(tail.starts_with(&found));
        drop(log);
        let log = home.open(false);
        assert_eq!(log.log_end_offset().get(), end);
        assert_eq!(read_all(&log, 0).unwrap(), tail);
        if !crashed {
            println!("{crash_at} crashes");
            assert!(crash_at > 60);
            break;
        }
        crash_at += 1 + random.below(3);
    }
}

#[test]
fn what_stands_beside_the_log_is_the_same_after_a_rebuild_as_before() {
    let mut random = Random::from_environment();
    for round in 0..8 {
        let home = Home::small_segments(3000 + random.below(4000) as u32);
        let mut writer = Writer::new(random.next());
        let log = home.open(false);
        for _ in 0..120 {
            writer.step(&log).unwrap();
        }
        let end = log.log_end_offset().get();
        let before = (log.active_producers(), log.leader_epochs().format(), log.last_stable_offset());
        let aborted = log.aborted_transactions(0, end).unwrap();
        let times = in_memory::offset_of_max_timestamp(&log).unwrap();
        let segments = log.segments();
        log.close(NOW, true).unwrap();
        drop(log);
        let indexes = index_files(&home);
        match round % 4 {
            // All that can be rebuilt is gone.
            0 => {
                for entry in std::fs::read_dir(home.dir()).unwrap() {
                    let path = entry.unwrap().path();
                    if path.extension().is_none_or(|extension| extension != "log") {
                        std::fs::remove_file(path).unwrap();
                    }
                }
            }
            // Everything is garbage.
            1 => {
                for entry in std::fs::read_dir(home.dir()).unwrap() {
                    let path = entry.unwrap().path();
                    if path.extension().is_none_or(|extension| extension != "log") {
                        std::fs::write(&path, vec![random.next() as u8; random.below(200) as usize]).unwrap();
                    }
                }
            }
            _ => {}
        }
        let log = home.open(round % 4 == 3);
        assert_eq!(log.segments(), segments);
        assert_eq!((log.active_producers(), log.leader_epochs().format(), log.last_stable_offset()), before);
        assert_eq!(log.aborted_transactions(0, end).unwrap(), aborted, "round {round}");
        assert_eq!(in_memory::offset_of_max_timestamp(&log).unwrap(), times);
        assert_eq!(read_all(&log, 0).unwrap(), writer.bytes());
        log.close(NOW, true).unwrap();
        drop(log);
        assert_eq!(
            index_files(&home),
            indexes,
            "round {round}: rebuilt indexes differ from the written ones"
        );
    }
}

fn index_files(home: &Home) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(home.dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "index" || e == "timeindex" || e == "txnindex"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// A log of ten batches with 100 bytes of value each; returns the positions at which they begin.
fn ten_batches(home: &Home) -> Vec<usize> {
    let log = home.open(false);
    let mut positions = Vec::new();
    for _ in 0..10 {
        positions.push(log.size_bytes() as usize);
        Batch::new(2, 100, NOW).append(&log).unwrap();
    }
    positions
}

#[test]
fn the_tail_ends_at_the_first_batch_that_is_not_right() {
    for (what, damage) in [
        (
            "a flipped bit",
            Box::new(|bytes: &mut Vec<u8>, p: &[usize]| bytes[p[7] + 80] ^= 1)
                as Box<dyn Fn(&mut Vec<u8>, &[usize])>,
        ),
        ("a wrong base offset", Box::new(|bytes, p| bytes[p[7] + 7] += 1)),
        ("a base offset that goes back", Box::new(|bytes, p| bytes[p[7] + 7] -= 2)),
        ("another magic", Box::new(|bytes, p| bytes[p[7] + 16] = 3)),
        ("a huge length", Box::new(|bytes, p| bytes[p[7] + 8] = 0x7f)),
        ("a negative length", Box::new(|bytes, p| bytes[p[7] + 8] = 0xff)),
        ("zeros", Box::new(|bytes, p| bytes[p[7]..].fill(0))),
        ("a cut inside of a header", Box::new(|bytes, p| bytes.truncate(p[7] + 30))),
        ("a cut inside of a body", Box::new(|bytes, p| bytes.truncate(p[8] - 1))),
        (
            "a batch written twice",
            Box::new(|bytes, p| {
                let again = bytes[p[6]..p[7]].to_vec();
                bytes.splice(p[7]..p[8], again);
            }),
        ),
    ] {
        let home = Home::default();
        let positions = ten_batches(&home);
        let path = home.file(0, ".log");
        let mut bytes = std::fs::read(&path).unwrap();
        let good = bytes.clone();
        damage(&mut bytes, &positions);
        std::fs::write(&path, bytes).unwrap();
        let log = home.open(false);
        assert_eq!(log.log_end_offset().get(), 14, "{what}");
        assert_eq!(read_all(&log, 0).unwrap(), good[..positions[7]], "{what}");
        assert_eq!(std::fs::metadata(&path).unwrap().len() as usize, positions[7], "{what}");
        assert_eq!(Batch::new(1, 5, NOW).append(&log).unwrap().first_offset, 14);
    }
}

#[test]
fn a_log_whose_appends_were_synced_is_cut_only_at_its_last_batch() {
    let home = Home { synced_appends: true, ..Home::default() };
    let positions = ten_batches(&home);
    let path = home.file(0, ".log");
    let good = std::fs::read(&path).unwrap();
    for (what, place) in
        [("a body", positions[4] + 80), ("a length", positions[4] + 10), ("an offset", positions[8] + 7)]
    {
        let mut bytes = good.clone();
        bytes[place] ^= 0x11;
        std::fs::write(&path, &bytes).unwrap();
        let error = home.try_open(false).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("truncate -s") && error.contains(".log"), "{what}: {error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what}: the file was touched");
    }
    for torn in [positions[9] + 1, positions[9] + 61, good.len() - 1] {
        std::fs::write(&path, &good[..torn]).unwrap();
        assert_eq!(home.open(false).log_end_offset().get(), 18, "torn at byte {torn}");
    }
    std::fs::write(&path, &good).unwrap();
    assert_eq!(home.open(false).log_end_offset().get(), 20);
}

#[test]
fn a_recovery_reads_the_unflushed_tail_and_not_the_log() {
    let home = Home::new(LogConfig { segment_bytes: 1 << 30, ..LogConfig::default() });
    let log = home.open(false);
    for n in 0..400 {
        Batch::idempotent(10, 1, 0, n * 10).append(&log).unwrap();
        Batch::new(3, 5000, NOW + i64::from(n)).append(&log).unwrap();
    }
    let flushed = log.flush(NOW).unwrap().get();
    let size = log.size_bytes();
    for n in 400..410 {
        Batch::idempotent(10, 1, 0, n * 10).append(&log).unwrap();
    }
    let tail = log.size_bytes() - size;
    let (end, producers) = (log.log_end_offset().get(), log.active_producers());
    drop(log);
    let home = Home { recovery_point: flushed, ..home };
    let log = home.open(false);
    assert_eq!(log.log_end_offset().get(), end);
    assert_eq!(log.active_producers(), producers);
    assert_eq!(log.shared.counters.recovery_bytes.load(Ordering::Relaxed), tail);
    assert!(tail * 100 < size, "{tail} of {size}");
    for offset in 0..end {
        assert!(log.read(offset, 1, true, Isolation::LogEnd).unwrap().base_offset <= offset);
    }
    assert_eq!(log.shared.counters.index_rebuilds.load(Ordering::Relaxed), 0);
}

#[test]
fn a_start_after_a_clean_stop_does_not_read_records_that_were_deleted() {
    let home = Home::default();
    let log = home.open(false);
    for _ in 0..400 {
        Batch::new(3, 5000, NOW).append(&log).unwrap();
    }
    log.delete_records(-1).unwrap();
    log.close(NOW, true).unwrap();
    drop(log);
    let before = home.faults.count(Op::Read);
    let log = home.open(true);
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get()), (1200, 1200));
    let reads = home.faults.count(Op::Read) - before;
    assert!(reads < 15, "{reads} reads");
}

#[test]
fn damage_below_the_recovery_point_costs_no_record_behind_it() {
    let home = Home::default();
    let positions = ten_batches(&home);
    flip(&home.file(0, ".log"), positions[2] + 80);
    let home = Home { recovery_point: 12, ..home };
    let log = home.open(false);
    assert_eq!(log.log_end_offset().get(), 20);
    assert_eq!(log.read(12, u32::MAX, true, Isolation::LogEnd).unwrap().base_offset, 12);
}

#[test]
fn segments_behind_the_end_of_the_log_are_set_aside_and_gone_after_the_next_start() {
    let home = Home::small_segments(1000);
    let log = home.open(false);
    for _ in 0..20 {
        Batch::new(1, 300, NOW).append(&log).unwrap();
    }
    let segments = log.segments();
    assert!(segments.len() > 5);
    drop(log);
    flip(&home.file(segments[2].0, ".log"), 100);
    let log = home.open(false);
    assert_eq!(log.segments().len(), 3);
    assert_eq!(log.log_end_offset().get(), segments[2].0);
    assert!(home.file(segments[3].0, ".log.deleted").exists());
    drop(log);
    drop(home.open(false));
    assert!(!home.file(segments[3].0, ".log.deleted").exists());
}

#[test]
fn leftovers_of_a_deletion_and_of_a_compaction_are_dealt_with_as_kafka_does() {
    let home = Home::small_segments(1000);
    let log = home.open(false);
    for _ in 0..20 {
        Batch::new(1, 300, NOW).append(&log).unwrap();
    }
    let segments: Vec<i64> = log.segments().iter().map(|(base, _)| *base).collect();
    let all = read_all(&log, 0).unwrap();
    log.close(NOW, true).unwrap();
    drop(log);
    // Segment 1 was compacted into a swap file, the original is still there; segment 3 was on its way.
    let (swapped, cleaned) = (segments[1], segments[3]);
    let compacted = std::fs::read(home.file(swapped, ".log")).unwrap();
    std::fs::write(home.file(swapped, ".log.swap"), &compacted).unwrap();
    std::fs::write(home.file(swapped, ".index.swap"), b"").unwrap();
    std::fs::write(home.file(cleaned, ".log.cleaned"), b"half").unwrap();
    std::fs::write(home.file(cleaned, ".log.swap"), b"invalid").unwrap();
    for name in
        ["00000000000000000077.log.deleted", "00000000000000000500.index", "leader-epoch-checkpoint.tmp"]
    {
        std::fs::write(home.dir().join(name), b"left over").unwrap();
    }
    let log = home.open(true);
    assert_eq!(read_all(&log, 0).unwrap(), all);
    let left: Vec<String> = std::fs::read_dir(home.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            name.contains(".swap")
                || name.contains(".cleaned")
                || name.contains(".deleted")
                || name.contains(".tmp")
                || name.starts_with("00000000000000000500")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_last_batch_sent_again_after_a_crash_is_recognised_without_any_snapshot() {
    let home = Home::small_segments(800);
    let log = home.open(false);
    let batches: Vec<Batch> = (0..12).map(|n| Batch::idempotent(3, 9, 2, n * 3)).collect();
    for batch in &batches {
        batch.append(&log).unwrap();
    }
    assert!(log.segment_count() > 2);
    drop(log);
    for entry in std::fs::read_dir(home.dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snapshot") {
            std::fs::remove_file(path).unwrap();
        }
    }
    for clean in [false, true] {
        let log = home.open(clean);
        let again = batches[11].append(&log).unwrap();
        assert!(again.duplicate);
        assert_eq!((again.first_offset, again.last_offset), (33, 35));
        drop(log);
    }
}

#[test]
fn a_producer_whose_last_batches_were_deleted_goes_on_with_its_next_sequence_after_a_start() {
    for clean in [false, true] {
        let home = Home::small_segments(800);
        let log = home.open(false);
        let mut sequence = 0;
        // So far that the newest snapshot lies below the log start, and batches of the producer between the two.
        loop {
            Batch::idempotent(3, 9, 2, sequence).append(&log).unwrap();
            sequence += 3;
            let active = log.segments().last().unwrap().0;
            if log.segment_count() > 2 && log.log_end_offset().get() >= active + 9 {
                break;
            }
        }
        let last = Batch::idempotent(3, 9, 2, sequence - 3);
        log.delete_records(-1).unwrap();
        Batch::new(1, 10, NOW).append(&log).unwrap();
        if clean {
            log.close(NOW, true).unwrap();
        }
        drop(log);
        let log = home.open(clean);
        assert_eq!(log.log_start_offset().get(), log.log_end_offset().get() - 1);
        assert!(last.append(&log).unwrap().duplicate);
        assert!(!Batch::idempotent(3, 9, 2, sequence).append(&log).unwrap().duplicate);
    }
}

#[test]
fn truncation_takes_back_offsets_epochs_and_producers() {
    let home = Home::small_segments(1500);
    let log = home.open(false);
    let mut producers_at = Vec::new();
    for n in 0..40 {
        Batch::idempotent(2, n % 3, 0, (n / 3 * 2) as i32).append_at(&log, NOW, (n / 10) as i32).unwrap();
        producers_at.push((log.log_end_offset().get(), log.active_producers(), log.leader_epochs().format()));
    }
    let all = read_all(&log, 0).unwrap();
    for (end, producers, epochs) in producers_at.iter().rev().step_by(3) {
        assert_eq!(log.truncate_to(*end, NOW).unwrap(), *end);
        assert_eq!(log.log_end_offset().get(), *end);
        assert_eq!(&log.active_producers(), producers);
        assert_eq!(&log.leader_epochs().format(), epochs);
        assert!(all.starts_with(&read_all(&log, 0).unwrap()));
    }
    // Inside of a batch: the batch goes as a whole.
    let end = log.log_end_offset().get();
    assert_eq!(log.truncate_to(end - 1, NOW).unwrap(), end - 2);
    Batch::new(3, 10, NOW).append(&log).unwrap();
    let bytes = read_all(&log, 0).unwrap();
    drop(log);
    assert_eq!(read_all(&home.open(false), 0).unwrap(), bytes);
}

#[test]
fn a_log_may_begin_anew_behind_a_snapshot() {
    let home = Home::small_segments(1500);
    let log = home.open(false);
    for _ in 0..20 {
        Batch::new(2, 100, NOW).append(&log).unwrap();
    }
    log.truncate_fully_and_start_at(1000, NOW).unwrap();
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get(), log.size_bytes()), (1000, 1000, 0));
    let mut batch = Batch::new(2, 10, NOW);
    batch.header.base_offset = 1000;
    log.append_as_is(&batch.header, &[IoSlice::new(&batch.body)], NOW).unwrap();
    drop(log);
    let log = home.open(false);
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get()), (1000, 1002));
}

#[test]
fn a_checkpointed_start_behind_the_end_empties_the_log_after_a_crash_and_is_ignored_after_a_clean_stop() {
    for clean in [true, false] {
        let home = Home::default();
        ten_batches(&home);
        let home = Home { log_start_offset: 500, ..home };
        let log = home.open(clean);
        let range = (log.log_start_offset().get(), log.log_end_offset().get());
        assert_eq!(range, if clean { (0, 20) } else { (500, 500) });
    }
}

#[test]
fn a_snapshot_above_the_end_of_a_cut_log_says_nothing_of_what_is_written_there_later() {
    for clean in [false, true] {
        let home = Home::small_segments(800);
        let log = home.open(false);
        let mut sequence = 0;
        while log.segment_count() < 4 {
            Batch::idempotent(3, 9, 2, sequence).append(&log).unwrap();
            sequence += 3;
        }
        let segments = log.segments();
        let snapshot = segments[3].0;
        assert!(home.file(snapshot, ".snapshot").exists());
        drop(log);
        // A power cut took the end of an earlier segment.
        let (base, size) = segments[2];
        let file = std::fs::OpenOptions::new().write(true).open(home.file(base, ".log")).unwrap();
        file.set_len(size - 1).unwrap();
        let home = Home { config: LogConfig::default(), ..home };
        let log = home.open(false);
        let kept = log.active_producers()[0].last_sequence;
        assert_eq!(i64::from(kept) + 1, log.log_end_offset().get());
        assert!(log.log_end_offset().get() < snapshot);
        while log.log_end_offset().get() < snapshot {
            Batch::new(1, 10, NOW).append(&log).unwrap();
        }
        if clean {
            log.close(NOW, true).unwrap();
        }
        let home = Home { recovery_point: log.flush(NOW).map_or(snapshot, |point| point.get()), ..home };
        drop(log);
        let log = home.open(clean);
        assert_eq!(log.active_producers()[0].last_sequence, kept);
        assert!(!Batch::idempotent(3, 9, 2, kept + 1).append(&log).unwrap().duplicate);
    }
}

#[test]
fn a_damaged_header_below_the_recovery_point_costs_no_record_behind_it() {
    for (what, place) in [("magic", 16), ("length", 8), ("base offset", 7), ("last offset delta", 23)] {
        for at in [3, 5] {
            for interval in [300, 4096] {
                for with_index in [true, false] {
                    let home =
                        Home::new(LogConfig { index_interval_bytes: interval, ..LogConfig::default() });
                    let positions = ten_batches(&home);
                    let path = home.file(0, ".log");
                    flip(&path, positions[at] + place);
                    if !with_index {
                        std::fs::write(home.file(0, ".index"), b"").unwrap();
                        std::fs::write(home.file(0, ".timeindex"), b"").unwrap();
                    }
                    let damaged = std::fs::read(&path).unwrap();
                    let home = Home { recovery_point: 12, ..home };
                    for start in 0..2 {
                        let log = home.open(false);
                        let which = format!("{what} of {at}, {interval}, {with_index}, start {start}");
                        assert_eq!(log.log_end_offset().get(), 20, "{which}");
                        assert_eq!(std::fs::read(&path).unwrap(), damaged, "{which}");
                        for offset in [0, 2, 4, 13, 15, 17, 19] {
                            let read = log.read(offset, 1, true, Isolation::LogEnd);
                            let base = read.map(|read| read.base_offset);
                            assert_eq!(base.unwrap(), offset / 2 * 2, "{which}, offset {offset}");
                        }
                        if start == 0 {
                            log.read(2 * at as i64, 1, true, Isolation::LogEnd).unwrap_err();
                        }
                    }
                    let log = home.open(false);
                    assert_eq!(Batch::new(1, 5, NOW).append(&log).unwrap().first_offset, 20);
                }
            }
        }
    }
}

#[test]
fn a_header_damaged_after_a_clean_stop_costs_no_record_behind_it() {
    for at in [7, 8] {
        let home = Home::default();
        let positions = ten_batches(&home);
        home.open(false).close(NOW, true).unwrap();
        flip(&home.file(0, ".log"), positions[at] + 8);
        for recovery_point in [20, 0] {
            let home_again = Home { recovery_point, root: tempfile::tempdir().unwrap(), ..Home::default() };
            std::fs::create_dir(home_again.dir()).unwrap();
            for entry in std::fs::read_dir(home.dir()).unwrap() {
                let path = entry.unwrap().path();
                std::fs::copy(&path, home_again.dir().join(path.file_name().unwrap())).unwrap();
            }
            let log = home_again.open(true);
            // Without the checkpoint nobody knows that what is behind it was flushed.
            let end = if recovery_point == 0 { 2 * at as i64 } else { 20 };
            assert_eq!(log.log_end_offset().get(), end);
            if recovery_point > 0 {
                assert_eq!(log.read(19, 1, true, Isolation::LogEnd).unwrap().base_offset, 18);
                log.read(2 * at as i64, 1, true, Isolation::LogEnd).unwrap_err();
            }
        }
    }
}

#[test]
fn a_producer_of_old_records_is_recognised_after_a_start_too() {
    const DAY_MS: i64 = 86_400_000;
    for clean in [false, true] {
        let home = Home::default();
        let log = home.open(false);
        let mut batch = Batch::idempotent(1, 9, 0, 0);
        // Records of last year, copied from elsewhere.
        (batch.header.base_timestamp, batch.header.max_timestamp) = (NOW - 365 * DAY_MS, NOW - 365 * DAY_MS);
        batch.renew_crc();
        batch.append(&log).unwrap();
        if clean {
            log.close(NOW, true).unwrap();
        }
        drop(log);
        let log = home.open(clean);
        assert_eq!(log.expire_producers(NOW + 60_000), 0);
        assert!(batch.append(&log).unwrap().duplicate, "sent again because the answer was lost");
        assert_eq!(log.expire_producers(NOW + DAY_MS), 1);
    }
}
