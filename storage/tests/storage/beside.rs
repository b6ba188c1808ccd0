//! What others see while one operation is stopped in its middle, at an access to the disk.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_protocol::wire::Uuid;
use weir_storage::disk::{Attempt, Disk, FaultHook, Op, Verdict};
use weir_storage::{
    AppendOptions, AppendOrigin, Claim, Isolation, Log, LogConfig, LogManager, LogManagerConfig,
    StorageError, TopicPartition, in_memory,
};

use crate::common::{Batch, NOW, bytes_of, headers, read_all};

/// How long what should wait is watched.
const WATCHED: Duration = Duration::from_millis(200);

/// Stops the first access of one kind until it may go on.
struct Gate {
    op: Op,
    suffix: &'static str,
    shut: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl FaultHook for Gate {
    fn before(&self, attempt: &Attempt<'_>) -> Verdict {
        if attempt.op == self.op
            && attempt.path.to_string_lossy().ends_with(self.suffix)
            && let Some((arrived, go)) = self.shut.lock().unwrap().take()
        {
            arrived.send(()).unwrap();
            go.recv_timeout(Duration::from_secs(120)).unwrap();
        }
        Verdict::Proceed
    }
}

impl Gate {
    fn new(op: Op, suffix: &'static str) -> Arc<Gate> {
        Arc::new(Gate { op, suffix, shut: Mutex::default() })
    }

    /// From now on the next access stops. What tells that it has, and what lets it go on.
    fn shut(&self) -> (Receiver<()>, Sender<()>) {
        let ((arrived, has_arrived), (go, may_go)) = (channel(), channel());
        *self.shut.lock().unwrap() = Some((arrived, may_go));
        (has_arrived, go)
    }
}

fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn open(root: &std::path::Path, gate: &Arc<Gate>, topic_id: Uuid) -> LogManager {
    let disk = Disk::with_hook(Arc::clone(gate) as Arc<dyn FaultHook>);
    let config = LogManagerConfig { recovery_threads: 1, ..LogManagerConfig::default() };
    let manager = LogManager::lock(&disk, &[root.to_path_buf()], &config).unwrap();
    let claim = |_: &TopicPartition| Claim::Open { config: small(), topic_id: Some(topic_id) };
    let summary = manager.load(&claim, NOW, &|_, _| {}).unwrap();
    assert!(summary.failed.is_empty() && summary.strays.is_empty(), "{summary:?}");
    manager
}

fn small() -> Arc<LogConfig> {
    let config = LogConfig { segment_bytes: 600, index_interval_bytes: 1, ..LogConfig::default() };
    Arc::new(LogConfig { retention_ms: 1000, file_delete_delay_ms: 0, ..config })
}

fn create(manager: &LogManager, topic_id: Uuid) -> Arc<Log> {
    manager.get_or_create(&partition(), Some(topic_id), None, small(), NOW).unwrap()
}

#[test]
fn retention_of_a_deleted_topic_takes_nothing_of_a_new_one_of_its_name() {
    let root = tempfile::tempdir().unwrap();
    let gate = Gate::new(Op::Remove, "00000000000000000000.log");
    let (first, second) = (Uuid([1; 16]), Uuid([2; 16]));
    let manager = open(root.path(), &gate, first);
    let old = create(&manager, first);
    for _ in 0..10 {
        Batch::new(1, 200, NOW - 5000).append(&old).unwrap();
    }
    let (has_arrived, go) = gate.shut();
    let batch = Batch::new(3, 50, NOW);
    std::thread::scope(|scope| {
        let retention = scope.spawn(|| old.apply_retention(NOW).unwrap());
        has_arrived.recv().unwrap();
        let manager = &manager;
        let batch = &batch;
        scope.spawn(move || {
            manager.delete(&partition(), Instant::now()).unwrap();
            let new = create(manager, second);
            batch.append(&new).unwrap();
        });
        // Either it waits for the files that are being removed, or it is done by then.
        std::thread::sleep(WATCHED);
        go.send(()).unwrap();
        retention.join().unwrap();
    });
    manager.close(0, NOW).unwrap();
    drop((manager, old));
    let manager = open(root.path(), &gate, second);
    let new = manager.get(&partition()).unwrap();
    assert_eq!(read_all(&new, 0).unwrap(), batch.stored(0, 0));
}

#[test]
fn who_still_holds_a_deleted_log_touches_no_file_of_a_new_one_of_its_name() {
    let root = tempfile::tempdir().unwrap();
    let gate = Gate::new(Op::Remove, "nothing");
    let (first, second) = (Uuid([1; 16]), Uuid([2; 16]));
    let manager = open(root.path(), &gate, first);
    let old = create(&manager, first);
    for _ in 0..30 {
        Batch::new(1, 200, NOW).append(&old).unwrap();
    }
    manager.delete(&partition(), Instant::now()).unwrap();
    let new = create(&manager, second);
    for _ in 0..30 {
        Batch::new(7, 10, NOW).append(&new).unwrap();
    }
    let before = read_all(&new, 0).unwrap();
    for offset in [0, 1, 17, 29, 1000] {
        let error = old.read(offset, 1000, true, Isolation::HighWatermark).unwrap_err();
        assert!(matches!(error, StorageError::Closed { .. }), "offset {offset}: {error}");
    }
    for error in [
        in_memory::offset_for_timestamp(&old, NOW).unwrap_err(),
        in_memory::offset_of_max_timestamp(&old).unwrap_err(),
        old.delete_records(3).unwrap_err(),
        old.flush(NOW).unwrap_err(),
    ] {
        assert!(matches!(error, StorageError::Closed { .. }), "{error}");
    }
    assert_eq!(old.apply_retention(NOW + 10_000).unwrap().deleted_segments, 0);
    assert_eq!(manager.counters().index_rebuilds.load(Ordering::Relaxed), 0);
    assert_eq!(manager.counters().corrupt_batches.load(Ordering::Relaxed), 0);
    for offset in 0..210 {
        let read = new.read(offset, 1, true, Isolation::HighWatermark).unwrap();
        assert_eq!(read.base_offset, offset / 7 * 7);
    }
    assert_eq!(read_all(&new, 0).unwrap(), before);
}

#[test]
fn a_reader_of_a_batch_whose_append_has_not_ended_is_never_told_that_it_is_out_of_range() {
    let root = tempfile::tempdir().unwrap();
    let gate = Gate::new(Op::Write, ".index");
    let id = Uuid([1; 16]);
    let manager = open(root.path(), &gate, id);
    let config = LogConfig { index_interval_bytes: 1, ..LogConfig::default() };
    let log = manager.get_or_create(&partition(), Some(id), None, Arc::new(config), NOW).unwrap();
    // A reader at the end whose answer is what there is.
    let read = |offset| log.read(offset, 1 << 20, true, Isolation::HighWatermark);
    let options = AppendOptions { leader_epoch: 0, origin: AppendOrigin::Client, now_ms: NOW };
    let batch = Batch::new(1, 20, NOW);
    let append = || log.append_as_leader(&batch.header, &[std::io::IoSlice::new(&batch.body)], &options);
    append().unwrap();
    let (has_arrived, go) = gate.shut();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Index entries are written some at a time.
            for _ in 0..64 {
                append().unwrap();
            }
        });
        has_arrived.recv().unwrap();
        let end = log.log_end_offset().get();
        // Among the last ones, so that no index is asked, which the writer has locked.
        let seen = headers(&bytes_of(&read(end - 1).unwrap().range.unwrap()));
        let next = seen.last().unwrap().next_offset();
        assert!(
            next > end,
            "the batch that is being appended is not seen: the test stops at the wrong place"
        );
        let reader = scope.spawn(move || read(next));
        std::thread::sleep(WATCHED);
        go.send(()).unwrap();
        let read = reader.join().unwrap().unwrap();
        assert!(read.log_end_offset.get() >= next);
        writer.join().unwrap();
    });
    assert!(matches!(read(1000), Err(StorageError::OffsetOutOfRange { .. })));
}

#[test]
fn a_flush_of_segments_that_retention_takes_meanwhile_is_no_failure_of_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let gate = Gate::new(Op::Sync, "00000000000000000000.log");
    let id = Uuid([1; 16]);
    let manager = open(root.path(), &gate, id);
    let log = create(&manager, id);
    for _ in 0..6 {
        Batch::new(1, 200, NOW - 5000).append(&log).unwrap();
    }
    let (has_arrived, go) = gate.shut();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| log.flush(NOW));
        has_arrived.recv().unwrap();
        assert!(log.apply_retention(NOW).unwrap().deleted_segments > 2);
        go.send(()).unwrap();
        assert_eq!(flush.join().unwrap().unwrap().get(), 6);
    });
    assert!(!log.is_read_only());
    let batch = Batch::new(1, 200, NOW);
    assert_eq!(batch.append(&log).unwrap().first_offset, 6);
    log.flush(NOW).unwrap();
}

/// Notes which directories are synced, and refuses to while told so.
#[derive(Default)]
struct Syncs {
    done: Mutex<Vec<std::path::PathBuf>>,
    refuses: std::sync::atomic::AtomicBool,
}

impl FaultHook for Syncs {
    fn before(&self, attempt: &Attempt<'_>) -> Verdict {
        if attempt.op != Op::SyncDir {
            return Verdict::Proceed;
        }
        if self.refuses.load(Ordering::Relaxed) {
            return Verdict::Fail(weir_storage::faults::EIO);
        }
        self.done.lock().unwrap().push(attempt.path.to_path_buf());
        Verdict::Proceed
    }
}

#[test]
fn what_is_flushed_has_a_name_on_the_disk_also_when_the_first_try_failed() {
    let root = tempfile::tempdir().unwrap();
    let syncs = Arc::new(Syncs::default());
    let disk = Disk::with_hook(Arc::clone(&syncs) as Arc<dyn FaultHook>);
    let config = LogManagerConfig { recovery_threads: 1, ..LogManagerConfig::default() };
    let manager = LogManager::lock(&disk, &[root.path().to_path_buf()], &config).unwrap();
    manager.load(&|_: &TopicPartition| Claim::Ignore, NOW, &|_, _| {}).unwrap();
    let log = create(&manager, Uuid([1; 16]));
    let flush = |now_ms| {
        syncs.done.lock().unwrap().clear();
        let flushed = log.flush(now_ms);
        flushed.map(|_| syncs.done.lock().unwrap().clone())
    };
    Batch::new(1, 200, NOW).append(&log).unwrap();
    syncs.refuses.store(true, Ordering::Relaxed);
    flush(NOW).unwrap_err();
    assert_eq!(log.recovery_point().get(), 0);
    syncs.refuses.store(false, Ordering::Relaxed);
    let (dir, parent) = (root.path().join("t-0"), root.path().to_path_buf());
    assert_eq!(flush(NOW + 2000).unwrap(), [dir.clone(), parent]);
    Batch::new(1, 200, NOW + 2000).append_at(&log, NOW + 2000, 0).unwrap();
    assert!(flush(NOW + 2000).unwrap().is_empty(), "nothing has a new name");
    log.roll(NOW + 2000).unwrap();
    assert_eq!(flush(NOW + 2000).unwrap(), [dir]);
}
