//! What a panic in the controller's thread comes to: of a decision, of what follows it; and records that do not fit.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_metadata::MetadataRecord;
use weir_metadata::controller::bootstrap_records;
use weir_metadata::metadata_version;
use weir_metadata::properties::PropertySet;
use weir_protocol::messages::RemoveTopicRecord;
use weir_storage::disk::Disk;
use weir_storage::{FileHandles, LogConfig, LogDir, LogShared, ProducerIdQuota};

use super::*;

struct Probe {
    panics: bool,
    has_failed: Arc<AtomicBool>,
}

impl Publisher for Probe {
    fn config(&self) -> Arc<BrokerConfig> {
        Arc::new(BrokerConfig::from_properties(&PropertySet::embedded()).unwrap().config)
    }

    fn publish(&mut self, _: &MetadataImage, _: &MetadataImage) {
        assert!(!self.panics, "as the test wants");
    }

    fn follow_up(&mut self, _: &MetadataImage) -> Vec<VersionedRecord> {
        Vec::new()
    }

    fn limit_reached(&self, _: &LimitReached) {}

    fn now_ms(&self) -> i64 {
        1
    }

    fn failed(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }
}

/// Opens the metadata log of node 1 in a directory, without leading it.
pub(super) fn open(dir: &Path) -> Result<MetadataLog, MetadataLogError> {
    let shared = LogShared::new(FileHandles::new(Disk::new(), 16), ProducerIdQuota::new(10));
    let log_dir = LogDir::lock(&Disk::new(), dir).unwrap();
    let options = OpenOptions { node_id: 1, config: Arc::new(LogConfig::default()), clean: false, now_ms: 1 };
    MetadataLog::open(Arc::new(shared), Arc::new(log_dir), &options)
}

fn open_log(dir: &Path) -> MetadataLog {
    let mut log = open(dir).unwrap();
    log.lead(1, None, 1).unwrap();
    log
}

/// A controller on a thread of its own; `panics` says whether publishing does.
fn start(dir: &Path, panics: bool) -> (ControllerHandle, Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let log = open_log(dir);
    let has_failed = Arc::new(AtomicBool::new(false));
    let probe = Probe { panics, has_failed: Arc::clone(&has_failed) };
    let (handle, queue) = channel();
    let policy = SnapshotPolicy { max_bytes: u64::MAX, max_interval: None };
    (handle, has_failed, std::thread::spawn(move || run(log, queue, probe, policy)))
}

fn some_records() -> ControllerResult<()> {
    let records = bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]);
    ControllerResult { records, ..ControllerResult::without_records(()) }
}

#[tokio::test]
async fn a_decision_that_panics_is_an_error_and_the_next_command_is_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let (handle, has_failed, thread) = start(dir.path(), false);
    let refused = handle.run(|_| -> ControllerResult<()> { panic!("as the test wants") }).await;
    assert!(
        matches!(&refused, Err(ControllerError::Panicked(text)) if text == "as the test wants"),
        "{refused:?}"
    );
    handle.run(|_| some_records()).await.unwrap();
    handle.stop().await;
    thread.join().unwrap();
    assert!(!has_failed.load(Ordering::SeqCst));
    assert_eq!(open_log(dir.path()).image().features().metadata_version(), metadata_version::DEFAULT_LEVEL);
}

#[tokio::test]
async fn a_panic_behind_the_decision_ends_the_controller_loudly_and_everybody_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (handle, has_failed, thread) = start(dir.path(), true);
    let lost = handle.run(|_| some_records()).await;
    assert!(matches!(lost, Err(ControllerError::Stopping)), "{lost:?}");
    thread.join().unwrap();
    assert!(has_failed.load(Ordering::SeqCst));
    let later = handle.run(|_| ControllerResult::without_records(())).await;
    assert!(matches!(later, Err(ControllerError::Stopping)), "{later:?}");
}

#[test]
fn records_that_do_not_fit_the_ones_before_them_are_refused_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open_log(dir.path());
    log.append(&bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]), 1).unwrap();
    let (image, end) = (log.image().clone(), log.log().log_end_offset());
    let misfit = MetadataRecord::from(RemoveTopicRecord::default()).at_level(metadata_version::DEFAULT_LEVEL);
    let error = log.append(&[misfit], 1).unwrap_err();
    assert!(matches!(error, MetadataLogError::Record { .. }), "{error}");
    assert_eq!((log.image().last_offset(), log.log().log_end_offset()), (image.last_offset(), end));
    drop(log);
    // It would keep every start from reading the log.
    assert_eq!(open_log(dir.path()).image().last_offset(), end.get());
}

#[test]
fn a_snapshot_that_was_cut_between_two_batches_is_not_taken_for_metadata_without_topics() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open_log(dir.path());
    log.append(&bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]), 1).unwrap();
    log.snapshot(1).unwrap();
    drop(log);
    let snapshots = snapshot::list(&dir.path().join("__cluster_metadata-0")).unwrap();
    let [newest] = snapshots.as_slice() else { panic!("{snapshots:?}") };
    let whole = std::fs::read(&newest.path).unwrap();
    let mut ends = vec![0];
    while let Some(head) = whole.get(*ends.last().unwrap()..).and_then(|rest| rest.first_chunk()) {
        let size = weir_protocol::records::BatchHeader::parse(head).unwrap().size_bytes();
        ends.push(ends.last().unwrap() + size);
    }
    // Header, features, footer.
    assert_eq!((ends.len(), ends.last()), (4, Some(&whole.len())));
    for end in &ends[..3] {
        std::fs::write(&newest.path, &whole[..*end]).unwrap();
        let error = open(dir.path()).err().expect("topics may be missing").to_string();
        assert!(error.contains("no readable snapshot reaches the log start"), "{error}");
    }
    std::fs::write(&newest.path, &whole).unwrap();
    let image = open(dir.path()).unwrap().image().clone();
    assert_eq!(image.features().metadata_version(), metadata_version::DEFAULT_LEVEL);
}
