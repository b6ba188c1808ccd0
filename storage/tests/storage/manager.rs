//! All logs of several directories: start, stop, checkpoints, deletion, retention, and what it costs to hold many.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Batch, NOW, read_all};
use weir_protocol::wire::Uuid;
use weir_storage::disk::{Disk, Op};
use weir_storage::faults::Faults;
use weir_storage::{
    Claim, LogConfig, LogDir, LogManager, LogManagerConfig, LogTopics, StartSummary, StorageError,
    TopicPartition,
};

const TOPIC_ID: Uuid = Uuid([9; 16]);

fn config() -> LogManagerConfig {
    LogManagerConfig { max_open_files: 64, recovery_threads: 2, ..LogManagerConfig::default() }
}

fn paths(root: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|n| root.join(format!("d{n}"))).collect()
}

fn name(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

fn open_with(
    root: &Path,
    dirs: usize,
    claim: impl Fn(&TopicPartition) -> Claim + Sync,
) -> (LogManager, StartSummary) {
    let manager = LogManager::lock(&Disk::new(), &paths(root, dirs), &config()).unwrap();
    let summary = manager.load(&claim, NOW, &|_, _| {}).unwrap();
    (manager, summary)
}

fn open(root: &Path, dirs: usize) -> LogManager {
    let claim =
        |_: &TopicPartition| Claim::Open { config: Arc::new(LogConfig::default()), topic_id: Some(TOPIC_ID) };
    let (manager, summary) = open_with(root, dirs, claim);
    assert!(summary.failed.is_empty() && summary.strays.is_empty(), "{summary:?}");
    manager
}

fn create(manager: &LogManager, name: &TopicPartition) -> Arc<weir_storage::Log> {
    manager.get_or_create(name, Some(TOPIC_ID), None, Arc::new(LogConfig::default()), NOW).unwrap()
}

#[test]
fn a_file_in_the_place_of_a_log_directory_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "kept").unwrap();
    let error = LogDir::lock(&Disk::default(), &path).unwrap_err().to_string();
    assert!(error.contains("file: it is there and is no directory"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

#[test]
fn logs_are_spread_over_the_directories_and_found_again_after_both_kinds_of_stop() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 3);
    for partition in 0..30 {
        let log = create(&manager, &name("t", partition));
        for _ in 0..=partition {
            Batch::new(2, 20, NOW).append(&log).unwrap();
        }
    }
    for dir in manager.dirs() {
        let held = manager.logs().iter().filter(|log| Arc::ptr_eq(log.log_dir(), dir)).count();
        assert_eq!(held, 10);
    }
    drop(manager);
    for clean in [false, true, true] {
        let manager = open(root.path(), 3);
        assert_eq!(manager.dirs()[0].had_clean_shutdown(), clean, "the stop before");
        for partition in 0..30 {
            let log = manager.get(&name("t", partition)).unwrap();
            assert_eq!(log.log_end_offset().get(), i64::from(partition + 1) * 2);
        }
        let recovered = manager.counters().logs_recovered.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(recovered, if clean { 0 } else { 30 });
        manager.close(77, NOW).unwrap();
    }
    let marker = std::fs::read_to_string(root.path().join("d0/.kafka_cleanshutdown")).unwrap();
    assert_eq!(marker, "{\"version\":0,\"brokerEpoch\":77}");
    let points = std::fs::read_to_string(root.path().join("d1/recovery-point-offset-checkpoint")).unwrap();
    assert!(points.starts_with("0\n10\nt "), "{points}");
    for file in ["replication-offset-checkpoint", "cleaner-offset-checkpoint", "log-start-offset-checkpoint"]
    {
        assert!(root.path().join("d2").join(file).exists() || file.starts_with("log-start"), "{file}");
    }
}

#[test]
fn a_second_manager_is_refused_before_it_touches_anything() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path(), 2);
    create(&first, &name("t", 0));
    let listing = |dir: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(root.path().join(dir)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (listing("d0"), listing("d1"));
    // Its own first directory is free: even so nothing is left locked or changed when the second is taken.
    let mixed = [root.path().join("other"), root.path().join("d1")];
    std::fs::create_dir(&mixed[0]).unwrap();
    std::fs::write(mixed[0].join(".kafka_cleanshutdown"), b"").unwrap();
    let error = LogManager::lock(&Disk::new(), &mixed, &config()).unwrap_err();
    assert!(matches!(&error, StorageError::DirLocked { path } if path.ends_with("d1")), "{error}");
    assert!(mixed[0].join(".kafka_cleanshutdown").exists(), "a marker was taken before all locks were held");
    assert_eq!((listing("d0"), listing("d1")), before);
    LogManager::lock(&Disk::new(), &mixed[..1], &config()).unwrap();
}

#[test]
fn garbled_checkpoints_are_rebuilt_and_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    for _ in 0..10 {
        Batch::new(1, 20, NOW).append(&log).unwrap();
    }
    let bytes = read_all(&log, 0).unwrap();
    manager.checkpoint().unwrap();
    drop(log);
    drop(manager);
    for garbage in [&b"\0\0\0\0"[..], b"0\n99\nt 0 5\n", b"", b"0\n1\nt zero 5\n"] {
        for file in [
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "cleaner-offset-checkpoint",
            "log-start-offset-checkpoint",
        ] {
            std::fs::write(root.path().join("d0").join(file), garbage).unwrap();
        }
        let manager = open(root.path(), 1);
        assert!(manager.dirs()[0].is_online());
        assert_eq!(read_all(&manager.get(&name("t", 0)).unwrap(), 0).unwrap(), bytes);
    }
}

#[test]
fn a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay_or_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for partition in 0..4 {
        Batch::new(1, 10, NOW).append(&create(&manager, &name("t", partition))).unwrap();
    }
    let held = manager.get(&name("t", 0)).unwrap();
    let now = Instant::now();
    manager.delete(&name("t", 0), now).unwrap();
    manager.delete(&name("t", 1), now).unwrap();
    assert!(matches!(manager.delete(&name("t", 1), now), Err(StorageError::UnknownLog { .. })));
    assert!(manager.get(&name("t", 0)).is_none());
    assert!(matches!(Batch::new(1, 10, NOW).append(&held), Err(StorageError::Closed { .. })));
    // Made anew at once, it begins empty.
    assert_eq!(create(&manager, &name("t", 0)).log_end_offset().get(), 0);
    let count = |suffix: &str| {
        std::fs::read_dir(root.path().join("d0"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(suffix))
            .count()
    };
    assert_eq!((manager.run_deletes(now + Duration::from_millis(59_999)), count("-delete")), (2, 2));
    assert_eq!((manager.run_deletes(now + Duration::from_millis(60_000)), count("-delete")), (0, 0));
    manager.delete(&name("t", 2), Instant::now()).unwrap();
    drop(held);
    drop(manager);
    // A crash: the removal goes on at once after the start.
    let (manager, summary) =
        open_with(root.path(), 1, |partition: &TopicPartition| match partition.partition() {
            3 => Claim::Delete,
            _ => Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) },
        });
    assert_eq!(summary.deleting, 2);
    assert_eq!((manager.run_deletes(Instant::now()), count("-delete"), manager.log_count()), (0, 0, 1));
}

#[test]
fn directories_of_other_topics_are_set_aside_and_damaged_partition_metadata_is_written_anew() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for partition in 0..5 {
        Batch::new(1, 10, NOW).append(&create(&manager, &name("t", partition))).unwrap();
    }
    manager.close(1, NOW).unwrap();
    drop(manager);
    let metadata = |partition: i32| root.path().join(format!("d0/t-{partition}/partition.metadata"));
    std::fs::remove_file(metadata(0)).unwrap();
    std::fs::write(metadata(1), b"").unwrap();
    std::fs::write(metadata(2), format!("version: 0\ntopic_id: {}", Uuid([1; 16]))).unwrap();
    let (manager, summary) =
        open_with(root.path(), 1, |partition: &TopicPartition| match partition.partition() {
            3 => Claim::Stray,
            4 => Claim::Ignore,
            _ => Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) },
        });
    assert_eq!(summary.strays.len(), 2);
    assert!(summary.strays.iter().all(|path| path.to_str().unwrap().ends_with("-stray") && path.exists()));
    assert_eq!(manager.log_count(), 2);
    for partition in 0..2 {
        assert_eq!(manager.get(&name("t", partition)).unwrap().log_end_offset().get(), 1);
        let text = std::fs::read_to_string(metadata(partition)).unwrap();
        assert_eq!(text, format!("version: 0\ntopic_id: {TOPIC_ID}"));
    }
}

/// One topic was deleted, another took the name of a deleted one; the crash came before the directories were renamed.
struct AfterInterruptedDeletions;

impl LogTopics for AfterInterruptedDeletions {
    fn claim(&self, name: &TopicPartition) -> Claim {
        match name.topic() {
            "again" => Claim::Open { config: Arc::default(), topic_id: Some(Uuid([7; 16])) },
            _ => Claim::Stray,
        }
    }

    fn was_deleted(&self, topic_id: Uuid) -> bool {
        topic_id == TOPIC_ID
    }
}

#[test]
fn a_deletion_that_a_crash_interrupted_goes_on_and_other_unclaimed_directories_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for (topic, id) in [("deleted", TOPIC_ID), ("again", TOPIC_ID), ("unknown", Uuid([1; 16]))] {
        let log = manager.get_or_create(&name(topic, 0), Some(id), None, Arc::default(), NOW).unwrap();
        Batch::new(1, 10, NOW).append(&log).unwrap();
    }
    drop(manager);
    let manager = LogManager::lock(&Disk::new(), &paths(root.path(), 1), &config()).unwrap();
    let summary = manager.load(&AfterInterruptedDeletions, NOW, &|_, _| {}).unwrap();
    assert_eq!((summary.deleting, summary.strays.len(), summary.failed.len()), (2, 1, 0), "{summary:?}");
    assert!(summary.strays[0].file_name().unwrap().to_str().unwrap().starts_with("unknown-0."));
    assert_eq!(manager.run_deletes(Instant::now()), 0);
    let mut left: Vec<_> = std::fs::read_dir(root.path().join("d0"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.path())
        .collect();
    left.retain(|path| !summary.strays.contains(path));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn records_that_were_deleted_stay_deleted_when_a_crash_comes_before_their_files_are_removed() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::new();
    let disk = Disk::with_hook(Arc::new(faults.clone()));
    let small = Arc::new(LogConfig { segment_bytes: 1000, ..LogConfig::default() });
    let claim = |_: &TopicPartition| Claim::Open { config: Arc::clone(&small), topic_id: Some(TOPIC_ID) };
    let manager = LogManager::lock(&disk, &paths(root.path(), 1), &config()).unwrap();
    let log = manager.get_or_create(&name("t", 0), Some(TOPIC_ID), None, Arc::clone(&small), NOW).unwrap();
    for _ in 0..10 {
        Batch::new(1, 300, NOW).append(&log).unwrap();
    }
    // The log start is where a segment begins: once the ones before it are gone, no checkpoint need say it.
    let start = log.segments()[2].0;
    assert_eq!(log.delete_records(start).unwrap().get(), start);
    faults.fail(&[Op::Remove], ".log", 5, 0);
    log.apply_retention(NOW).unwrap_err();
    manager.checkpoint().unwrap();
    faults.lift();
    drop(log);
    drop(manager);
    let manager = LogManager::lock(&disk, &paths(root.path(), 1), &config()).unwrap();
    manager.load(&claim, NOW, &|_, _| {}).unwrap();
    let log = manager.get(&name("t", 0)).unwrap();
    assert_eq!(log.log_start_offset().get(), start);
    log.apply_retention(NOW).unwrap();
    manager.checkpoint().unwrap();
    assert_eq!(log.segments()[0].0, start);
    let checkpoint = std::fs::read_to_string(root.path().join("d0/log-start-offset-checkpoint")).unwrap();
    assert_eq!(checkpoint, "0\n0\n");
}

#[test]
fn the_log_starts_of_many_partitions_are_made_durable_by_one_write() {
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::new();
    let disk = Disk::with_hook(Arc::new(faults.clone()));
    let manager = LogManager::lock(&disk, &paths(root.path(), 1), &config()).unwrap();
    let logs: Vec<_> = (0..20).map(|n| create(&manager, &name("t", n))).collect();
    for log in &logs {
        Batch::new(5, 10, NOW).append(log).unwrap();
    }
    let moved: Vec<_> = logs.iter().map(|log| log.move_log_start(3).unwrap()).collect();
    let before = faults.mutations();
    for (log, moved) in logs.iter().zip(moved) {
        assert_eq!(log.persist_log_start(moved).unwrap().get(), 3);
    }
    // Open, write, sync, rename, sync of the directory.
    assert_eq!(faults.mutations() - before, 5);
    let checkpoint = std::fs::read_to_string(root.path().join("d0/log-start-offset-checkpoint")).unwrap();
    assert_eq!(checkpoint.lines().filter(|line| line.ends_with(" 3")).count(), 20);
}

#[test]
fn a_flush_of_a_deleted_log_is_no_failure_of_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    Batch::new(1, 10, NOW).append(&log).unwrap();
    manager.delete(&name("t", 0), Instant::now()).unwrap();
    assert!(matches!(log.flush(NOW), Err(StorageError::Closed { .. })));
    assert!(!log.is_read_only());
    let went = &manager.counters().went_read_only;
    assert_eq!(went.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn retention_by_time_and_size_keeps_what_it_must() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let with = |retention_ms, retention_bytes, delete| {
        Arc::new(LogConfig {
            segment_bytes: 1000,
            retention_ms,
            retention_bytes,
            delete,
            ..LogConfig::default()
        })
    };
    let fill = |topic: &str, config: Arc<LogConfig>| {
        let log = manager.get_or_create(&name(topic, 0), Some(TOPIC_ID), None, config, NOW).unwrap();
        for n in 0..20 {
            Batch::new(1, 400, NOW + n * 1000).append(&log).unwrap();
        }
        assert_eq!(log.segment_count(), 10);
        log
    };
    let by_time = fill("by-time", with(5000, -1, true));
    let by_size = fill("by-size", with(-1, 3000, true));
    let forever = fill("forever", with(-1, -1, true));
    let compact = fill("compact", with(0, 0, false));
    let all = fill("all", with(0, -1, true));
    let retained = manager.apply_retention(NOW + 15_500);
    // Segments whose newest record is older than NOW + 10,500: records 0 to 9.
    assert_eq!((by_time.log_start_offset().get(), by_time.segment_count()), (10, 5));
    assert!(by_size.size_bytes() >= 3000 && by_size.size_bytes() < 4000, "{}", by_size.size_bytes());
    assert_eq!((forever.segment_count(), compact.segment_count()), (10, 10));
    assert_eq!(all.log_start_offset().get(), 16, "later records are in the future");
    assert!(retained.deleted_segments > 10);
    manager.apply_retention(NOW + 1_000_000);
    assert_eq!((all.log_start_offset().get(), all.log_end_offset().get(), all.size_bytes()), (20, 20, 0));
    assert_eq!(Batch::new(1, 10, NOW).append(&all).unwrap().first_offset, 20);
    drop((manager, by_time, by_size, forever, compact, all));
    let (manager, _) = open_with(root.path(), 1, |_: &TopicPartition| Claim::Open {
        config: Arc::default(),
        topic_id: Some(TOPIC_ID),
    });
    let all = manager.get(&name("all", 0)).unwrap();
    assert_eq!((all.log_start_offset().get(), all.log_end_offset().get()), (20, 21));
}

#[test]
fn checkpoints_are_written_only_when_something_changed() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    Batch::new(1, 10, NOW).append(&log).unwrap();
    manager.checkpoint().unwrap();
    let path = root.path().join("d0/replication-offset-checkpoint");
    assert_eq!(std::fs::read(&path).unwrap(), b"0\n1\nt 0 1\n");
    std::fs::remove_file(&path).unwrap();
    manager.checkpoint().unwrap();
    assert!(!path.exists());
    Batch::new(1, 10, NOW).append(&log).unwrap();
    manager.checkpoint().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"0\n1\nt 0 2\n");
    assert_eq!(manager.flush_due(NOW), 0);
    log.roll(NOW).unwrap();
    assert_eq!(manager.flush_due(NOW), 1);
    assert_eq!(log.recovery_point().get(), 2);
    manager.tick(NOW);
}

#[test]
fn a_stop_with_a_broken_disk_leaves_no_marker() {
    use weir_storage::disk::Op;
    use weir_storage::faults::{EIO, Faults};
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::new();
    let disk = Disk::with_hook(Arc::new(faults.clone()));
    for (ops, suffix) in [
        (vec![Op::Sync], ".log"),
        (vec![Op::Write], ".timeindex"),
        (vec![Op::Write], ".snapshot.tmp"),
        (vec![Op::Sync], "recovery-point-offset-checkpoint.tmp"),
        (vec![Op::SyncDir], "d0"),
    ] {
        let manager = LogManager::lock(&disk, &paths(root.path(), 1), &config()).unwrap();
        let claim = |_: &TopicPartition| Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) };
        manager.load(&claim, NOW, &|_, _| {}).unwrap();
        Batch::new(1, 10, NOW + 5).append(&create(&manager, &name("t", 0))).unwrap();
        faults.fail(&ops, suffix, EIO, 0);
        assert!(manager.close(1, NOW).is_err(), "{suffix}");
        faults.lift();
        assert!(!root.path().join("d0/.kafka_cleanshutdown").exists(), "{suffix}");
    }
}

#[test]
fn a_thousand_idle_partitions_hold_few_files_and_little_memory() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for partition in 0..1000 {
        Batch::new(1, 10, NOW).append(&create(&manager, &name("t", partition))).unwrap();
    }
    manager.close(1, NOW).unwrap();
    drop(manager);
    let manager = open(root.path(), 1);
    assert!(manager.shared().handles.open_count() <= 64 + 2);
    let each = manager.memory_bytes() / 1000;
    println!("{each} bytes per idle partition");
    assert!(each <= 1536, "{each}");
    for log in manager.logs() {
        assert!(read_all(&log, 0).is_ok());
        assert!(manager.shared().handles.open_count() <= 64 + 2);
    }
}

#[test]
fn a_partition_made_anew_does_not_inherit_the_log_start_of_its_predecessor() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    for _ in 0..100 {
        Batch::new(1, 10, NOW).append(&log).unwrap();
    }
    log.delete_records(90).unwrap();
    log.flush(NOW).unwrap();
    manager.checkpoint().unwrap();
    drop(log);
    manager.delete(&name("t", 0), Instant::now()).unwrap();
    let log = create(&manager, &name("t", 0));
    for _ in 0..5 {
        Batch::new(1, 10, NOW).append(&log).unwrap();
    }
    drop(log);
    // A crash: no checkpoint since.
    drop(manager);
    let manager = open(root.path(), 1);
    let log = manager.get(&name("t", 0)).unwrap();
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get()), (0, 5));
    drop(log);
    // The same when the deletion itself was the last thing before the crash.
    let log = manager.get(&name("t", 0)).unwrap();
    log.delete_records(5).unwrap();
    drop(log);
    manager.delete(&name("t", 0), Instant::now()).unwrap();
    drop(manager);
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    Batch::new(1, 10, NOW).append(&log).unwrap();
    drop((log, manager));
    let log = open(root.path(), 1).get(&name("t", 0)).unwrap();
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get()), (0, 1));
}

#[test]
fn a_deleted_partition_whose_successor_has_no_directory_yet_is_not_lost() {
    let root = tempfile::tempdir().unwrap();
    let claim = |_: &TopicPartition| Claim::Open { config: Arc::default(), topic_id: Some(Uuid([8; 16])) };
    for waits in [true, false] {
        let manager = open(root.path(), 1);
        let log = create(&manager, &name("t.x", 0));
        Batch::new(1, 10, NOW).append(&log).unwrap();
        drop(log);
        manager.checkpoint().unwrap();
        let now = Instant::now();
        manager.delete(&name("t.x", 0), now).unwrap();
        if !waits {
            assert_eq!(manager.run_deletes(now + Duration::from_secs(60)), 0);
        }
        // A crash: the metadata know a new topic of this name, and its directory was not made.
        drop(manager);
        let (manager, summary) = open_with(root.path(), 1, claim);
        assert_eq!((summary.opened, summary.gone), (0, vec![]), "waits: {waits}");
        manager.run_deletes(Instant::now());
    }
}

#[test]
fn a_vanished_directory_takes_no_writes_until_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    let log = create(&manager, &name("t", 0));
    Batch::new(1, 10, NOW).append(&log).unwrap();
    let (here, elsewhere) = (root.path().join("d0"), root.path().join("elsewhere"));
    std::fs::rename(&here, &elsewhere).unwrap();
    manager.tick(NOW);
    let error = Batch::new(1, 10, NOW).append(&log).unwrap_err();
    assert!(
        matches!(&error, StorageError::ReadOnly { reason, .. } if reason.contains("vanished")),
        "{error}"
    );
    assert!(read_all(&log, 0).is_ok(), "reads of open files go on");
    assert!(!manager.dirs()[0].is_online());
    std::fs::rename(&elsewhere, &here).unwrap();
    manager.tick(NOW);
    assert_eq!(Batch::new(1, 10, NOW).append(&log).unwrap().first_offset, 1);
}

#[test]
fn nothing_is_made_in_the_place_of_a_directory_that_has_just_vanished() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 2);
    let (here, elsewhere) = (root.path().join("d0"), root.path().join("elsewhere"));
    // As when a disk is unmounted: its mount point is there and empty.
    for has_mount_point in [false, true] {
        std::fs::rename(&here, &elsewhere).unwrap();
        if has_mount_point {
            std::fs::create_dir(&here).unwrap();
        }
        // Before the next periodic look.
        for partition in 0..2 {
            let log = create(&manager, &name(&format!("t{has_mount_point}"), partition));
            assert_eq!(log.log_dir().path(), root.path().join("d1"));
        }
        assert!(std::fs::read_dir(&here).map_or(true, |mut entries| entries.next().is_none()));
        if has_mount_point {
            std::fs::remove_dir(&here).unwrap();
        }
        std::fs::rename(&elsewhere, &here).unwrap();
        manager.tick(NOW);
        assert!(manager.dirs()[0].is_online());
    }
}

#[test]
fn a_log_that_could_not_be_opened_is_opened_later_where_it_is_and_keeps_its_start() {
    use weir_storage::disk::Op;
    use weir_storage::faults::{EMFILE, Faults};
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 3);
    for partition in 0..6 {
        let log = create(&manager, &name("t", partition));
        for _ in 0..5 {
            Batch::new(1, 10, NOW).append(&log).unwrap();
        }
        log.delete_records(3).unwrap();
    }
    let home = manager.get(&name("t", 4)).unwrap().dir().to_path_buf();
    drop(manager);

    let faults = Faults::new();
    let disk = Disk::with_hook(Arc::new(faults.clone()));
    let manager = LogManager::lock(&disk, &paths(root.path(), 3), &config()).unwrap();
    let claim = |_: &TopicPartition| Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) };
    faults.fail(&[Op::OpenRead, Op::OpenWrite], "t-4/00000000000000000000.log", EMFILE, 0);
    let summary = manager.load(&claim, NOW, &|_, _| {}).unwrap();
    assert_eq!(summary.failed.len(), 1, "{summary:?}");
    let again = || manager.get_or_create(&name("t", 4), Some(TOPIC_ID), None, Arc::default(), NOW);
    assert!(again().unwrap_err().is_disk_failure());
    faults.lift();
    let log = again().unwrap();
    assert_eq!(log.dir(), home, "it began anew elsewhere");
    assert_eq!((log.log_start_offset().get(), log.log_end_offset().get()), (3, 5));
    manager.close(1, NOW).unwrap();

    let manager = LogManager::lock(&disk, &paths(root.path(), 3), &config()).unwrap();
    faults.fail(&[Op::OpenRead, Op::OpenWrite], "t-4/00000000000000000000.log", EMFILE, 0);
    manager.load(&claim, NOW, &|_, _| {}).unwrap();
    let error = manager.close(1, NOW).unwrap_err();
    assert!(error.to_string().contains("t-4"), "{error}");
    assert!(
        !home.parent().unwrap().join(".kafka_cleanshutdown").exists(),
        "nobody looked at one of its logs"
    );
}

#[test]
fn a_deleted_partition_whose_directory_cannot_be_renamed_goes_later() {
    use weir_storage::disk::Op;
    use weir_storage::faults::{EROFS, Faults};
    let root = tempfile::tempdir().unwrap();
    let faults = Faults::new();
    let disk = Disk::with_hook(Arc::new(faults.clone()));
    let manager = LogManager::lock(&disk, &paths(root.path(), 1), &config()).unwrap();
    manager.load(&|_: &TopicPartition| Claim::Ignore, NOW, &|_, _| {}).unwrap();
    Batch::new(1, 10, NOW).append(&create(&manager, &name("t", 0))).unwrap();
    faults.fail(&[Op::Rename], "t-0", EROFS, 0);
    manager.delete(&name("t", 0), Instant::now()).unwrap();
    assert!(manager.get(&name("t", 0)).is_none(), "it is gone for clients at once");
    let later = |ms: u64| Instant::now() + Duration::from_millis(ms);
    manager.run_deletes(later(2000));
    let remake = || manager.get_or_create(&name("t", 0), Some(Uuid([1; 16])), None, Arc::default(), NOW);
    assert!(remake().is_err(), "a new partition would take the old one's directory");
    faults.lift();
    manager.run_deletes(later(4000));
    assert!(!root.path().join("d0/t-0").exists());
    assert_eq!(remake().unwrap().log_end_offset().get(), 0);
    assert_eq!(manager.run_deletes(later(100_000_000)), 0);
    let left: Vec<_> = std::fs::read_dir(root.path().join("d0")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("delete")), "{left:?}");
}

#[test]
fn what_a_crash_left_unflushed_is_flushed_soon_after_the_start() {
    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for partition in 0..3 {
        Batch::new(2, 20, NOW).append(&create(&manager, &name("t", partition))).unwrap();
    }
    manager.checkpoint().unwrap();
    drop(manager);
    let manager = open(root.path(), 1);
    assert!(manager.counters().recovery_bytes.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert_eq!(manager.flush_due(NOW), 3);
    manager.checkpoint().unwrap();
    drop(manager);
    let manager = open(root.path(), 1);
    assert_eq!(manager.counters().recovery_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(manager.flush_due(NOW), 0);
}

#[test]
fn a_missing_directory_is_not_made_and_its_logs_do_not_begin_anew_elsewhere() {
    use weir_storage::MetaProperties;
    let root = tempfile::tempdir().unwrap();
    let id = |n: u8| Uuid([n + 1; 16]);
    let meta = |n| MetaProperties {
        cluster_id: "c".to_owned(),
        node_id: 1,
        directory_id: Some(id(n)),
        other: Default::default(),
    };
    let dirs = paths(root.path(), 3);
    let manager = LogManager::lock(&Disk::new(), &dirs, &config()).unwrap();
    for (n, dir) in (0..).zip(manager.dirs()) {
        dir.write_meta_properties(&meta(n)).unwrap();
    }
    let make = |manager: &LogManager, n: i32, home| {
        manager.get_or_create(&name("t", n), Some(TOPIC_ID), home, Arc::default(), NOW)
    };
    for n in 0..3 {
        let log = make(&manager, i32::from(n), Some(id(n))).unwrap();
        assert_eq!(log.log_dir().id(), Some(id(n)));
        Batch::new(1, 10, NOW).append(&log).unwrap();
    }
    manager.close(1, NOW).unwrap();
    drop(manager);

    std::fs::rename(&dirs[1], root.path().join("away")).unwrap();
    std::fs::remove_dir_all(dirs[2].join("t-2")).unwrap();
    let manager = LogManager::lock(&Disk::new(), &dirs, &config()).unwrap();
    for dir in manager.dirs().iter().filter(|dir| dir.is_online()) {
        dir.meta_properties().unwrap();
    }
    let online: Vec<bool> = manager.dirs().iter().map(|dir| dir.is_online()).collect();
    assert_eq!(online, [true, false, true]);
    assert!(!dirs[1].exists(), "it was made");
    let claim = |_: &TopicPartition| Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) };
    let summary = manager.load(&claim, NOW, &|_, _| {}).unwrap();
    assert_eq!((summary.opened, summary.gone), (1, vec![(name("t", 2), 1)]));
    let error = make(&manager, 1, Some(id(1))).unwrap_err();
    assert!(matches!(error, StorageError::HomeOffline { directory, .. } if directory == id(1)), "{error}");
    assert!(error.is_disk_failure() && error.is_retriable());
    manager.close(1, NOW).unwrap();
    drop(manager);

    std::fs::rename(root.path().join("away"), &dirs[1]).unwrap();
    let manager = LogManager::lock(&Disk::new(), &dirs, &config()).unwrap();
    assert!(manager.dirs()[1].had_clean_shutdown(), "its marker was lost while it was away");
    manager.load(&claim, NOW, &|_, _| {}).unwrap();
    assert_eq!(manager.get(&name("t", 1)).unwrap().log_end_offset().get(), 1);
}

#[test]
fn a_stop_of_logs_that_nobody_touched_writes_nothing_of_theirs() {
    use weir_storage::disk::{Attempt, FaultHook, Verdict};

    #[derive(Default)]
    struct Writes(std::sync::Mutex<Vec<String>>);
    impl FaultHook for Writes {
        fn before(&self, attempt: &Attempt<'_>) -> Verdict {
            let path = attempt.path.display().to_string();
            if attempt.op.is_mutation() && path.contains("/t-") {
                self.0.lock().unwrap().push(format!("{:?} {path}", attempt.op));
            }
            Verdict::Proceed
        }
    }

    let root = tempfile::tempdir().unwrap();
    let manager = open(root.path(), 1);
    for index in 0..4 {
        let log = create(&manager, &name("t", index));
        log.begin_leader_epoch(3).unwrap();
        if index > 1 {
            Batch::new(1, 10, NOW).append(&log).unwrap();
        }
    }
    manager.close(1, NOW).unwrap();
    drop(manager);
    for _ in 0..2 {
        let writes = Arc::new(Writes::default());
        let manager =
            LogManager::lock(&Disk::with_hook(writes.clone()), &paths(root.path(), 1), &config()).unwrap();
        let claim = |_: &TopicPartition| Claim::Open { config: Arc::default(), topic_id: Some(TOPIC_ID) };
        assert_eq!(manager.load(&claim, NOW, &|_, _| {}).unwrap().opened, 4);
        for log in manager.logs() {
            log.begin_leader_epoch(3).unwrap();
        }
        manager.close(1, NOW).unwrap();
        assert_eq!(*writes.0.lock().unwrap(), Vec::<String>::new());
    }
}
