//! What ten thousand partitions cost: to make, to stop, to start after a clean stop, after a crash, and to hold.
//!
//! `cargo run --release -p weir-storage --example partitions [COUNT] [DIR]`.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES};
use weir_protocol::wire::Uuid;
use weir_storage::disk::Disk;
use weir_storage::{
    AppendOptions, AppendOrigin, Claim, LogConfig, LogManager, LogManagerConfig, TopicPartition,
};

type AnyError = Box<dyn std::error::Error>;

/// `RssAnon` of this process, KiB.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn open(root: &PathBuf) -> Result<LogManager, AnyError> {
    let config = LogManagerConfig { max_open_files: 512, ..LogManagerConfig::default() };
    let manager = LogManager::lock(&Disk::new(), std::slice::from_ref(root), &config)?;
    let settings = Arc::new(LogConfig::default());
    let claim =
        |_: &TopicPartition| Claim::Open { config: Arc::clone(&settings), topic_id: Some(Uuid([1; 16])) };
    manager.load(&claim, 0, &|_, _| {})?;
    Ok(manager)
}

fn main() -> Result<(), AnyError> {
    let count: i32 = std::env::args().nth(1).map_or(Ok(10_000), |word| word.parse())?;
    let temporary = std::env::temp_dir().join(format!("weir-partitions-{}", std::process::id()));
    let root = std::env::args_os().nth(2).map_or(temporary, PathBuf::from);
    std::fs::create_dir_all(&root)?;
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(0, None, Some(b"value"), &[])?;
    let bytes = builder.build()?;
    let (header, body) = bytes.split_first_chunk::<HEADER_SIZE_BYTES>().ok_or("a batch without a header")?;
    let header = BatchHeader::parse(header)?;
    let options = AppendOptions { leader_epoch: 0, origin: AppendOrigin::Client, now_ms: 0 };

    let manager = open(&root)?;
    let settings = Arc::new(LogConfig::default());
    let topic: Arc<str> = "a-topic-with-a-name".into();
    let start = Instant::now();
    for partition in 0..count {
        let name = TopicPartition::new(Arc::clone(&topic), partition);
        manager.get_or_create(&name, Some(Uuid([1; 16])), None, Arc::clone(&settings), 0)?;
    }
    println!("made {count} partitions in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    for log in manager.logs() {
        log.append_as_leader(&header, &[IoSlice::new(body)], &options)?;
    }
    println!("one append to each: {:.2} s, RssAnon {} KiB", start.elapsed().as_secs_f64(), anonymous_kib());
    let start = Instant::now();
    manager.close(1, 0)?;
    drop(manager);
    println!("clean stop: {:.2} s", start.elapsed().as_secs_f64());

    for what in ["after a clean stop", "after a crash"] {
        let before = anonymous_kib();
        let start = Instant::now();
        let manager = open(&root)?;
        let wall = start.elapsed().as_secs_f64();
        let held = anonymous_kib();
        println!(
            "start {what}: {wall:.2} s for {} logs, RssAnon {before} -> {held} KiB, memory_bytes() {} a partition, {} files open",
            manager.log_count(),
            manager.memory_bytes() / count as usize,
            manager.shared().handles.open_count()
        );
        if what == "after a crash" {
            let start = Instant::now();
            manager.checkpoint()?;
            println!("checkpoint: {:.3} s", start.elapsed().as_secs_f64());
            let start = Instant::now();
            manager.tick(0);
            manager.apply_retention(0);
            println!("tick and retention: {:.3} s", start.elapsed().as_secs_f64());
            manager.close(1, 0)?;
        }
    }
    std::fs::remove_dir_all(&root)?;
    Ok(())
}
