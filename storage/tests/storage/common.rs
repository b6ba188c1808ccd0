//! What the tests of this crate share: batches, a log in a temporary directory, a reader that walks a log, randomness.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, crc_of};
use weir_protocol::wire::Uuid;
use weir_storage::disk::Disk;
use weir_storage::faults::Faults;
use weir_storage::{
    AppendInfo, AppendOptions, AppendOrigin, FileHandles, Isolation, Log, LogConfig, LogDir, LogOptions,
    LogShared, ProducerIdQuota, StorageError, TopicPartition,
};

/// The wall clock of the tests, ms.
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// A small generator of random numbers (splitmix64), so that a seed tells the whole run.
pub(crate) struct Random(pub u64);

impl Random {
    /// A seed from the environment variable `SEED`, or a new one; it is printed either way.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        println!("SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// A batch as a client sends it.
pub(crate) struct Batch {
    pub(crate) header: BatchHeader,
    pub(crate) body: Vec<u8>,
}

impl Batch {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let (header, body) = bytes.split_first_chunk::<HEADER_SIZE_BYTES>().unwrap();
        Self { header: BatchHeader::parse(header).unwrap(), body: body.to_vec() }
    }

    /// `records` records with values of `value_bytes`, timestamps from `timestamp` on.
    pub(crate) fn new(records: usize, value_bytes: usize, timestamp: i64) -> Self {
        let mut builder = BatchBuilder::new(Codec::None);
        for n in 0..records {
            let value: Vec<u8> = (0..value_bytes).map(|i| (i * 7 + n) as u8).collect();
            builder.append(timestamp + n as i64, None, Some(&value), &[]).unwrap();
        }
        Self::from_bytes(&builder.build().unwrap())
    }

    /// As [`Self::new`], from an idempotent producer.
    pub(crate) fn idempotent(records: usize, producer_id: i64, epoch: i16, sequence: i32) -> Self {
        let mut batch = Self::new(records, 20, NOW);
        batch.header.producer_id = producer_id;
        batch.header.producer_epoch = epoch;
        batch.header.base_sequence = sequence;
        batch.renew_crc();
        batch
    }

    /// In a transaction.
    pub(crate) fn transactional(records: usize, producer_id: i64, epoch: i16, sequence: i32) -> Self {
        let mut batch = Self::idempotent(records, producer_id, epoch, sequence);
        batch.header.set_transactional(true);
        batch.renew_crc();
        batch
    }

    /// The marker that ends a transaction.
    pub(crate) fn marker(producer_id: i64, epoch: i16, commit: bool, coordinator_epoch: i32) -> Self {
        use weir_protocol::records::{ControlRecordType, EndTxnMarker};
        let kind = if commit { ControlRecordType::Commit } else { ControlRecordType::Abort };
        let mut builder = BatchBuilder::new(Codec::None).producer(producer_id, epoch, -1).transactional();
        builder.append_control(NOW, kind, &EndTxnMarker { coordinator_epoch }.value()).unwrap();
        Self::from_bytes(&builder.build().unwrap())
    }

    pub(crate) fn renew_crc(&mut self) {
        self.header.crc = crc_of(&self.header, &[IoSlice::new(&self.body)]);
    }

    pub(crate) fn append(&self, log: &Log) -> Result<AppendInfo, StorageError> {
        self.append_at(log, NOW, 0)
    }

    pub(crate) fn append_at(
        &self,
        log: &Log,
        now_ms: i64,
        leader_epoch: i32,
    ) -> Result<AppendInfo, StorageError> {
        let origin = if self.header.is_control() { AppendOrigin::Coordinator } else { AppendOrigin::Client };
        // The body in two slices, as chunks of a pool would come.
        let (head, tail) = self.body.split_at(self.body.len() / 3);
        let body = [IoSlice::new(head), IoSlice::new(tail)];
        log.append_as_leader(&self.header, &body, &AppendOptions { leader_epoch, origin, now_ms })
    }

    /// What the log stores when it is appended at `offset` in `leader_epoch`.
    pub(crate) fn stored(&self, offset: i64, leader_epoch: i32) -> Vec<u8> {
        let mut header = self.header;
        header.base_offset = offset;
        header.partition_leader_epoch = leader_epoch;
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(&self.body);
        bytes
    }
}

/// A partition's directory in a temporary log directory, opened and closed at will.
pub(crate) struct Home {
    pub(crate) root: tempfile::TempDir,
    pub(crate) faults: Faults,
    pub(crate) config: LogConfig,
    pub(crate) recovery_point: i64,
    pub(crate) log_start_offset: i64,
    pub(crate) compacted: bool,
    pub(crate) synced_appends: bool,
    pub(crate) probe_interval_ms: i64,
    pub(crate) now_ms: i64,
}

impl Default for Home {
    fn default() -> Self {
        Self::new(LogConfig::default())
    }
}

pub(crate) struct Opened {
    pub(crate) log: Arc<Log>,
    pub(crate) shared: Arc<LogShared>,
}

impl std::ops::Deref for Opened {
    type Target = Log;
    fn deref(&self) -> &Log {
        &self.log
    }
}

impl Home {
    pub(crate) fn new(config: LogConfig) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            faults: Faults::new(),
            config,
            recovery_point: 0,
            log_start_offset: 0,
            compacted: false,
            synced_appends: false,
            probe_interval_ms: 0,
            now_ms: NOW,
        }
    }

    pub(crate) fn small_segments(segment_bytes: u32) -> Self {
        Self::new(LogConfig { segment_bytes, index_interval_bytes: 200, ..LogConfig::default() })
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("t-0")
    }

    pub(crate) fn file(&self, base_offset: i64, suffix: &str) -> PathBuf {
        self.dir().join(format!("{base_offset:020}{suffix}"))
    }

    /// Opens the log as after a crash (`clean` false) or after a clean stop.
    pub(crate) fn try_open(&self, clean: bool) -> Result<Opened, StorageError> {
        let disk = Disk::with_hook(Arc::new(self.faults.clone()));
        let log_dir = Arc::new(LogDir::lock(&disk, self.root.path())?);
        let mut shared = LogShared::new(FileHandles::new(disk, 64), ProducerIdQuota::new(10_000));
        shared.probe_interval_ms = self.probe_interval_ms;
        let shared = Arc::new(shared);
        let name = TopicPartition::new("t", 0);
        let log_start_offset = self.log_start_offset.max(log_dir.log_start_offset(&name));
        let options = LogOptions {
            topic_partition: name,
            topic_id: Some(Uuid([5; 16])),
            dir: self.dir(),
            config: Arc::new(self.config.clone()),
            clean,
            recovery_point: self.recovery_point,
            log_start_offset,
            compacted: self.compacted,
            synced_appends: self.synced_appends,
            now_ms: self.now_ms,
        };
        let log = Log::open(Arc::clone(&shared), log_dir, options)?;
        Ok(Opened { log, shared })
    }

    pub(crate) fn open(&self, clean: bool) -> Opened {
        self.try_open(clean).unwrap()
    }
}

/// The bytes of a range.
pub(crate) fn bytes_of(range: &weir_storage::FileRange) -> Vec<u8> {
    let mut bytes = vec![0; range.length as usize];
    let count = range.read_at(&mut bytes, 0).unwrap();
    assert_eq!(count, bytes.len(), "a range reaches behind the end of its file");
    bytes
}

/// Everything that can be read from `offset` on, as stored.
pub(crate) fn read_all(log: &Log, mut offset: i64) -> Result<Vec<u8>, StorageError> {
    let mut all = Vec::new();
    while offset < log.log_end_offset().get() {
        let read = log.read(offset, 64 * 1024, true, Isolation::LogEnd)?;
        let mut bytes = bytes_of(read.range.as_ref().expect("records below the log end"));
        // Whole batches only: the last one may be cut.
        let mut end = 0;
        while let Some(Ok(header)) = bytes.get(end..).and_then(BatchHeader::parse_prefix) {
            if end + header.size_bytes() > bytes.len() {
                break;
            }
            end += header.size_bytes();
            offset = header.next_offset();
        }
        assert!(end > 0, "no whole batch at {offset}");
        bytes.truncate(end);
        all.extend(bytes);
    }
    Ok(all)
}

/// The headers of the batches in `bytes`.
pub(crate) fn headers(mut bytes: &[u8]) -> Vec<BatchHeader> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let header = BatchHeader::parse_prefix(bytes).unwrap().unwrap();
        bytes = &bytes[header.size_bytes()..];
        found.push(header);
    }
    found
}

/// Changes one byte of a file.
pub(crate) fn flip(path: &Path, position: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[position] ^= 0x55;
    std::fs::write(path, bytes).unwrap();
}
