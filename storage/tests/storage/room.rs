//! Room ahead of the log's end: it is made for a segment that grows, and nothing of it stays where it is of no use.

use std::os::unix::fs::MetadataExt;

use weir_storage::LogConfig;
use weir_storage::disk::Op;
use weir_storage::faults::ENOSPC;

use crate::common::{Batch, Home, NOW, Opened, read_all};

const MIB: u64 = 1 << 20;
/// What a file system may take beside the bytes of a file.
const SLACK: u64 = MIB / 4;

/// Bytes on the disk beyond the length of the segment that begins with `base_offset`.
fn room_of(home: &Home, base_offset: i64) -> u64 {
    let file = std::fs::metadata(home.file(base_offset, ".log")).unwrap();
    (file.blocks() * 512).saturating_sub(file.len())
}

/// A log of 3 MiB, and its next offset; `None` where the file system makes no room.
fn grown(home: &Home) -> Option<(Opened, i64)> {
    let log = home.open(false);
    let mut next = 0;
    for _ in 0..12 {
        next = Batch::new(1, 256 << 10, NOW).append(&log).unwrap().last_offset + 1;
    }
    if log.shared.room.used_bytes() == 0 {
        println!("not shown: the file system of {} has no room to give", home.root.path().display());
        return None;
    }
    assert!(room_of(home, 0) > SLACK, "no room was made");
    Some((log, next))
}

fn assert_given_back(home: &Home, log: &Opened) {
    assert!(room_of(home, 0) < SLACK, "{} bytes of room stay", room_of(home, 0));
    assert_eq!(log.shared.room.used_bytes(), 0);
}

#[test]
fn a_segment_that_is_left_keeps_no_room() {
    let home = Home::default();
    let Some((log, next)) = grown(&home) else { return };
    let before = read_all(&log, 0).unwrap();
    log.roll(NOW).unwrap();
    assert_given_back(&home, &log);
    Batch::new(1, 10, NOW).append(&log).unwrap();
    assert_eq!(room_of(&home, next) / SLACK, 0, "a small segment has room");
    assert!(read_all(&log, 0).unwrap().starts_with(&before));
}

#[test]
fn room_goes_with_a_clean_stop_a_crash_a_truncation_and_a_pause() {
    let ends: [fn(Opened, &Home, i64) -> Opened; 4] = [
        |log, home, _| {
            log.close(NOW, true).unwrap();
            drop(log);
            home.open(true)
        },
        |log, home, _| {
            drop(log);
            home.open(false)
        },
        |log, _, next| {
            log.truncate_to(next - 1, NOW).unwrap();
            log
        },
        |log, home, _| {
            log.apply_retention(NOW + 1000).unwrap();
            assert!(room_of(home, 0) > SLACK, "it is in use");
            log.apply_retention(NOW + 60_000).unwrap();
            log
        },
    ];
    for end in ends {
        let home = Home::new(LogConfig { retention_ms: -1, ..LogConfig::default() });
        let Some((log, next)) = grown(&home) else { return };
        let log = end(log, &home, next);
        assert_given_back(&home, &log);
        let info = Batch::new(1, 256 << 10, NOW).append(&log).unwrap();
        assert!((next - 1..=next).contains(&info.first_offset));
        assert_eq!(
            read_all(&log, 0).unwrap().len() as u64,
            std::fs::metadata(home.file(0, ".log")).unwrap().len()
        );
    }
}

#[test]
fn a_file_system_without_room_takes_appends_as_before() {
    let home = Home::default();
    home.faults.fail(&[Op::Allocate], ".log", ENOSPC, 0);
    let log = home.open(false);
    for offset in 0..100 {
        assert_eq!(Batch::new(1, 256 << 10, NOW).append(&log).unwrap().first_offset, offset);
    }
    assert!(!log.is_read_only());
    assert_eq!(log.shared.room.used_bytes(), 0);
    // Once in 16 MiB, not at each append.
    assert!(home.faults.count(Op::Allocate) < 8, "{}", home.faults.count(Op::Allocate));
}

#[test]
fn a_write_that_fails_takes_the_room_with_it() {
    let home = Home::default();
    let Some((log, next)) = grown(&home) else { return };
    home.faults.fail(&[Op::Write], ".log", ENOSPC, 100);
    assert!(Batch::new(1, 256 << 10, NOW).append(&log).unwrap_err().is_disk_failure());
    assert_given_back(&home, &log);
    home.faults.lift();
    assert_eq!(Batch::new(1, 256 << 10, NOW).append(&log).unwrap().first_offset, next);
}
