//! One entry per decoder of this crate. Each takes any bytes, must not panic, and checks what it can.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::LogConfig;
use crate::control::ControlMarker;
use crate::disk::Disk;
use crate::file_handles::FileHandles;
use crate::leader_epoch::LeaderEpochs;
use crate::log::{Log, LogOptions, LogShared};
use crate::log_dir::{LogDir, MetaProperties, parse_clean_shutdown};
use crate::log_read::Isolation;
use crate::producer_state::ProducerIdQuota;
use crate::topic_partition::{TopicPartition, parse_dir_name};
use crate::{checkpoint, offset_index, partition_metadata, producer_snapshot, time_index, transaction_index};

fn nowhere() -> &'static Path {
    Path::new("fuzz")
}

/// `.index`.
pub fn fuzz_offset_index(data: &[u8]) {
    let (entries, _) = offset_index::parse(data, 1000);
    for pair in entries.windows(2) {
        if let [a, b] = pair {
            assert!(a.offset < b.offset && a.position < b.position);
        }
    }
    for (entry, bytes) in entries.iter().zip(data.as_chunks::<{ offset_index::OFFSET_ENTRY_BYTES }>().0) {
        assert_eq!(entry.encode(1000).as_ref(), Some(bytes));
    }
}

/// `.timeindex`.
pub fn fuzz_time_index(data: &[u8]) {
    let (entries, _) = time_index::parse(data, 1000);
    for (entry, bytes) in entries.iter().zip(data.as_chunks::<{ time_index::TIME_ENTRY_BYTES }>().0) {
        assert_eq!(entry.encode(1000).as_ref(), Some(bytes));
    }
}

/// `.txnindex`.
pub fn fuzz_transaction_index(data: &[u8]) {
    if let Ok(entries) = transaction_index::parse(data, 1000, nowhere()) {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
        assert_eq!(bytes, data);
    }
}

/// `.snapshot`.
pub fn fuzz_producer_snapshot(data: &[u8]) {
    if let Ok(entries) = producer_snapshot::parse(data, nowhere()) {
        assert_eq!(producer_snapshot::format(&entries), data);
    }
}

/// The offset checkpoints.
pub fn fuzz_offset_checkpoint(data: &[u8]) {
    if let Ok(offsets) = checkpoint::parse_offsets(data, nowhere()) {
        let bytes = checkpoint::format_offsets(offsets.iter().map(|(name, offset)| (name, *offset)));
        assert_eq!(checkpoint::parse_offsets(&bytes, nowhere()).ok(), Some(offsets));
    }
}

/// `leader-epoch-checkpoint`.
pub fn fuzz_leader_epochs(data: &[u8]) {
    if let Ok(epochs) = LeaderEpochs::parse(data, nowhere()) {
        assert_eq!(LeaderEpochs::parse(&epochs.format(), nowhere()).ok(), Some(epochs));
    }
}

/// `meta.properties`.
pub fn fuzz_meta_properties(data: &[u8]) {
    if let Ok(properties) = MetaProperties::parse(data, nowhere()) {
        let _ = MetaProperties::parse(&properties.format(), nowhere());
    }
}

/// `partition.metadata`.
pub fn fuzz_partition_metadata(data: &[u8]) {
    if let Ok(topic_id) = partition_metadata::parse(data, nowhere()) {
        let bytes = partition_metadata::format(topic_id);
        assert_eq!(partition_metadata::parse(&bytes, nowhere()).ok(), Some(topic_id));
    }
}

/// `.kafka_cleanshutdown`, names of directories, transaction markers.
pub fn fuzz_small(data: &[u8]) {
    let _ = parse_clean_shutdown(data);
    let _ = ControlMarker::parse(data, 0);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = parse_dir_name(text);
    }
}

/// A partition directory after a crash: the first byte says how the rest is cut into `.log`, `.index`, `.timeindex`,
/// `.txnindex`, `.snapshot` and `leader-epoch-checkpoint`. The log must open, what it claims to hold must be readable
/// without a hole, and a second start must find the same.
pub fn fuzz_partition_directory(data: &[u8]) {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let Some((shape, rest)) = data.split_first() else { return };
    let root = ["/dev/shm", "/tmp"].into_iter().find(|dir| Path::new(dir).is_dir()).unwrap_or(".");
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let root = Path::new(root).join(format!("weir-fuzz-{}-{unique}", std::process::id()));
    let dir = root.join("t-0");
    let made = std::fs::create_dir_all(&dir).and_then(|()| {
        let cut = |part: usize| rest.len() * part / 8;
        let (log, others) = rest.split_at(if shape & 1 == 0 { rest.len() } else { cut(5) });
        std::fs::write(dir.join("00000000000000000000.log"), log)?;
        let names = [".index", ".timeindex", ".txnindex", ".snapshot"];
        for (index, name) in names.iter().enumerate() {
            let piece = others.chunks(others.len() / 5 + 1).nth(index).unwrap_or_default();
            if shape & (2 << index) != 0 {
                std::fs::write(dir.join(format!("00000000000000000000{name}")), piece)?;
            }
        }
        if shape & 64 != 0 {
            std::fs::write(dir.join("leader-epoch-checkpoint"), others)?;
        }
        Ok(())
    });
    if made.is_ok() {
        check_directory(&root, &dir);
    }
    let _ = std::fs::remove_dir_all(&root);
}

fn check_directory(root: &Path, dir: &Path) {
    let disk = Disk::new();
    let Ok(log_dir) = LogDir::lock(&disk, root) else { return };
    let log_dir = Arc::new(log_dir);
    let options = LogOptions {
        topic_partition: TopicPartition::new("t", 0),
        topic_id: None,
        dir: dir.to_path_buf(),
        config: Arc::new(LogConfig::default()),
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        compacted: false,
        synced_appends: false,
        now_ms: 0,
    };
    let mut ends = Vec::new();
    for _ in 0..2 {
        let shared = Arc::new(LogShared::new(FileHandles::new(disk.clone(), 8), ProducerIdQuota::new(1000)));
        let log = match Log::open(shared, Arc::clone(&log_dir), options.clone()) {
            Ok(log) => log,
            Err(error) => panic!("a damaged directory does not open: {error}"),
        };
        let (mut offset, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        for _ in 0..1000 {
            if offset >= end {
                break;
            }
            match log.read(offset, 1 << 20, true, Isolation::LogEnd) {
                Ok(read) => {
                    // Messages of magic 0 and 1 may follow each other with gaps.
                    assert!(read.range.is_some());
                    offset = read.base_offset.max(offset) + 1;
                }
                Err(error) => panic!("offset {offset} of {end} cannot be read after the recovery: {error}"),
            }
        }
        ends.push(end);
    }
    assert_eq!(ends.first(), ends.last(), "the second start finds another log end");
}
