//! How fast batches are appended, with the bare `pwritev` of the same bytes beside it, in one run.
//!
//! `cargo run --release -p weir-storage --example append [DIR]`. The directory should be on the disk that is meant; the
//! default is a temporary one. Each contender writes the same number of bytes; both files are removed and written once
//! before, because the first touch of a virtual machine's memory is several times dearer than the second.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES};
use weir_storage::disk::Disk;
use weir_storage::{
    AppendOptions, AppendOrigin, FileHandles, Isolation, Log, LogConfig, LogDir, LogOptions, LogShared,
    ProducerIdQuota, TopicPartition,
};

type AnyError = Box<dyn std::error::Error>;

struct Load {
    name: &'static str,
    header: BatchHeader,
    body: Vec<u8>,
    batches: u64,
}

impl Load {
    fn new(
        name: &'static str,
        records: usize,
        value_bytes: usize,
        total_bytes: u64,
    ) -> Result<Self, AnyError> {
        let mut builder = BatchBuilder::new(Codec::None);
        for n in 0..records {
            builder.append(1_800_000_000_000 + n as i64, None, Some(&vec![n as u8; value_bytes]), &[])?;
        }
        let bytes = builder.build()?;
        let (header, body) =
            bytes.split_first_chunk::<HEADER_SIZE_BYTES>().ok_or("a batch without a header")?;
        let batches = total_bytes / bytes.len() as u64;
        Ok(Self { name, header: BatchHeader::parse(header)?, body: body.to_vec(), batches })
    }

    /// The body as the chunks of a pool would hold it.
    fn slices(&self) -> Vec<IoSlice<'_>> {
        self.body.chunks(16 * 1024).map(IoSlice::new).collect()
    }
}

/// User plus system time of this process, seconds.
fn cpu_seconds() -> f64 {
    let usage = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = usage
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

fn floor(load: &Load, dir: &Path) -> Result<(f64, f64), AnyError> {
    let path = dir.join("floor");
    let file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let header = load.header.to_bytes();
    let mut slices = vec![IoSlice::new(&header)];
    slices.extend(load.slices());
    let size = load.header.size_bytes() as u64;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for n in 0..load.batches {
        let written = rustix::io::pwritev(&file, &slices, n * size)?;
        assert_eq!(written as u64, size);
    }
    let result = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    std::fs::remove_file(&path)?;
    Ok(result)
}

fn append(load: &Load, dir: &Path, idempotent: bool) -> Result<(f64, f64), AnyError> {
    let root: PathBuf = dir.join("logs");
    let disk = Disk::new();
    let log_dir = Arc::new(LogDir::lock(&disk, &root)?);
    let shared = Arc::new(LogShared::new(FileHandles::new(disk, 64), ProducerIdQuota::new(1000)));
    let log = Log::open(
        shared,
        log_dir,
        LogOptions {
            topic_partition: TopicPartition::new("bench", 0),
            topic_id: None,
            dir: root.join("bench-0"),
            config: Arc::new(LogConfig::default()),
            clean: false,
            recovery_point: 0,
            log_start_offset: 0,
            compacted: false,
            synced_appends: false,
            now_ms: 0,
        },
    )?;
    let slices = load.slices();
    let mut header = load.header;
    let records = header.record_count;
    let options = AppendOptions { leader_epoch: 0, origin: AppendOrigin::Client, now_ms: 1_800_000_000_000 };
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for n in 0..load.batches {
        if idempotent {
            (header.producer_id, header.producer_epoch) = (1, 0);
            header.base_sequence = ((n * records as u64) % (1 << 31)) as i32;
        }
        log.append_as_leader(&header, &slices, &options)?;
    }
    let result = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let reads = 20_000;
    let start = Instant::now();
    for n in 0..reads {
        let end = log.log_end_offset().get();
        log.read(end - 1 - n % 8, 1 << 20, true, Isolation::HighWatermark)?;
    }
    let tail = start.elapsed().as_secs_f64() / reads as f64 * 1e9;
    let start = Instant::now();
    for n in 0..reads {
        let offset = (n * 7_919_993) % log.log_end_offset().get();
        log.read(offset, 1 << 20, true, Isolation::HighWatermark)?;
    }
    let random = start.elapsed().as_secs_f64() / reads as f64 * 1e9;
    println!(
        "    locate: at the tail {tail:.0} ns, anywhere {random:.0} ns; log {} bytes of memory",
        log.memory_bytes()
    );
    drop(log);
    std::fs::remove_dir_all(&root)?;
    Ok(result)
}

fn main() -> Result<(), AnyError> {
    let temporary = std::env::temp_dir().join(format!("weir-append-{}", std::process::id()));
    let dir = std::env::args_os().nth(1).map_or(temporary, PathBuf::from);
    std::fs::create_dir_all(&dir)?;
    let total = 512 << 20;
    for load in [Load::new("1 KiB x 100", 100, 1024, total)?, Load::new("100 B x 60", 60, 100, total)?] {
        let size = load.header.size_bytes();
        println!("{}: {} batches of {size} bytes", load.name, load.batches);
        floor(&load, &dir)?;
        for round in 0..3 {
            let contenders = [
                ("append", append(&load, &dir, false)?),
                ("append, idempotent", append(&load, &dir, true)?),
                ("bare pwritev", floor(&load, &dir)?),
            ];
            for (name, (wall, cpu)) in contenders {
                let mib = load.batches as f64 * size as f64 / f64::from(1 << 20);
                println!(
                    "  {round} {name:>20}: {:>6.0} MiB/s, {:>6.0} MiB per CPU-second, {:>6.0} ns a batch",
                    mib / wall,
                    mib / cpu,
                    wall / load.batches as f64 * 1e9
                );
            }
        }
    }
    let _ = std::fs::remove_dir(&dir);
    Ok(())
}
