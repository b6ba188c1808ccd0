//! Apache Kafka as the judge: its `DumpLogSegments` reads every file that was written here without complaint, a
//! directory that a broker wrote opens with the same records and state, and the broker goes on where this crate stopped.
//!
//! Runs when `WEIR_KAFKA_LIBS` names a directory with the jars of Kafka 4.4.0 (kafka_2.13 and kafka-tools with their
//! dependencies), and a JDK is installed; else each test says that it was skipped.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Batch, NOW, Random, headers, read_all};
use crate::ports::two_ports;
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::Uuid;
use weir_storage::disk::Disk;
use weir_storage::{
    Claim, Log, LogConfig, LogManager, LogManagerConfig, Scrubber, StorageError, TopicPartition,
    partition_metadata, producer_snapshot,
};

struct Kafka {
    libs: PathBuf,
}

impl Kafka {
    fn find() -> Option<Self> {
        let libs = std::env::var_os("WEIR_KAFKA_LIBS").map(PathBuf::from);
        if libs.is_none() {
            eprintln!("skipped: WEIR_KAFKA_LIBS is not set");
        }
        Some(Self { libs: libs? })
    }

    fn java(&self, args: &[&str]) -> Command {
        let mut command = Command::new("java");
        // Without the framework's complaint of a machine whose name nothing resolves.
        command
            .args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.statusLoggerLevel=OFF", "-cp"])
            .arg(self.libs.join("*"))
            .args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Output and errors of a tool, without the logging framework's own remarks.
    fn run(&self, args: &[&str]) -> (String, String) {
        let output = self.java(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let errors: Vec<String> = text(output.stderr)
            .lines()
            .filter(|line| !line.starts_with("SLF4J") && !line.contains("StatusLogger") && !line.is_empty())
            .map(str::to_owned)
            .collect();
        assert!(output.status.success(), "{args:?}: {}", errors.join("\n"));
        (text(output.stdout), errors.join("\n"))
    }

    fn dump(&self, options: &[&str], files: &[PathBuf]) -> String {
        let list: Vec<String> = files.iter().map(|file| file.to_str().unwrap().to_owned()).collect();
        let list = list.join(",");
        let args = [&["org.apache.kafka.tools.DumpLogSegments", "--files", &list], options].concat();
        let (output, errors) = self.run(&args);
        // A known false complaint of 4.4: every segment that does not begin with offset 0.
        let errors: Vec<&str> = errors
            .lines()
            .filter(|line| {
                !line.starts_with("Non-consecutive offsets in") && !line.contains("-1 is followed by")
            })
            .collect();
        assert!(errors.is_empty(), "{options:?}: {errors:?}");
        output
    }
}

fn files_of(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// Everything that `DumpLogSegments` can say about a partition's directory.
fn judge(kafka: &Kafka, dir: &Path, batches: usize) {
    let logs = files_of(dir, "log");
    let dump = kafka.dump(&["--deep-iteration"], &logs);
    assert_eq!(dump.matches("baseOffset: ").count(), batches);
    assert_eq!(dump.matches("isvalid: true").count(), batches);
    let indexes = files_of(dir, "index");
    assert_eq!(indexes.len(), logs.len());
    kafka.dump(&["--verify-index-only"], &indexes);
    let times = files_of(dir, "timeindex");
    assert_eq!(times.len(), logs.len());
    kafka.dump(&["--verify-index-only"], &times);
    let sanity = kafka.dump(&["--index-sanity-check"], &[indexes, times].concat());
    assert_eq!(
        sanity.matches("passed sanity check").count() + sanity.matches("is empty").count(),
        logs.len() * 2
    );
}

#[test]
fn dump_log_segments_reads_every_file_that_was_written() {
    let Some(kafka) = Kafka::find() else { return };
    let root = tempfile::tempdir().unwrap();
    let manager =
        LogManager::lock(&Disk::new(), &[root.path().to_path_buf()], &LogManagerConfig::default()).unwrap();
    let config =
        Arc::new(LogConfig { segment_bytes: 60_000, index_interval_bytes: 1000, ..LogConfig::default() });
    let name = TopicPartition::new("judged", 0);
    let log = manager.get_or_create(&name, Some(Uuid([5; 16])), None, config, NOW).unwrap();
    let mut random = Random::from_environment();
    let (mut batches, mut records, mut sequence) = (0, 0, 0);
    for n in 0..600i64 {
        let codec = Codec::ALL[random.below(Codec::ALL.len() as u64) as usize];
        let mut builder = BatchBuilder::new(codec).producer(7, 0, sequence);
        let count = 1 + random.below(20) as i32;
        for record in 0..count {
            let value = vec![record as u8; random.below(400) as usize];
            // Timestamps that go back and forth.
            let timestamp = NOW + n * 10 + random.below(500) as i64;
            builder.append(timestamp, Some(b"key"), Some(&value), &[]).unwrap();
        }
        Batch::from_bytes(&builder.build().unwrap()).append_at(&log, NOW, (n / 100) as i32).unwrap();
        sequence += count;
        batches += 1;
        records += i64::from(count);
        if n % 50 == 0 {
            Batch::transactional(1, 8, 0, n as i32 / 50).append_at(&log, NOW, (n / 100) as i32).unwrap();
            Batch::marker(8, 0, n % 100 != 0, 3).append_at(&log, NOW, (n / 100) as i32).unwrap();
            batches += 2;
            records += 2;
        }
    }
    assert_eq!(log.log_end_offset().get(), records);
    assert!(log.segment_count() > 3);
    let dir = log.dir().to_path_buf();
    drop(log);
    manager.close(1, NOW).unwrap();
    judge(&kafka, &dir, batches);
    let snapshots = files_of(&dir, "snapshot");
    let dump = kafka.dump(&[], &snapshots[snapshots.len() - 1..]);
    let last = format!("lastSequence: {}", sequence - 1);
    assert!(dump.contains("producerId: 7 producerEpoch: 0") && dump.contains(&last), "{dump}");
    let aborted = kafka.dump(&[], &files_of(&dir, "txnindex"));
    assert_eq!(aborted.matches("version: 0 producerId: 8").count(), 6, "{aborted}");
}

/// A broker of Kafka on a directory, killed when dropped.
struct Broker {
    child: Child,
    address: String,
}

impl Broker {
    fn start(kafka: &Kafka, properties: &Path, address: &str) -> Self {
        let child = kafka
            .java(&["kafka.Kafka", properties.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut broker = Self { child, address: address.to_owned() };
        let deadline = Instant::now() + Duration::from_secs(240);
        while TcpStream::connect(address).is_err() {
            assert!(broker.child.try_wait().unwrap().is_none(), "the broker ended");
            assert!(Instant::now() < deadline, "the broker does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        broker
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(240);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the broker does not stop");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn produce(&self, kafka: &Kafka, topic: &str, count: usize, leave_open: bool) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm/Produce.java");
        let (count, open) = (count.to_string(), leave_open.to_string());
        let args = [source.to_str().unwrap(), &self.address, topic, &count, &open];
        let (output, errors) = kafka.run(&args);
        assert!(output.contains("done"), "{errors}");
    }

    fn create_topic(&self, kafka: &Kafka, topic: &str) {
        kafka.run(&[
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            &self.address,
            "--create",
            "--topic",
            topic,
            "--partitions",
            "1",
            "--config",
            "segment.bytes=1048576",
            "--config",
            "index.interval.bytes=2000",
        ]);
    }

    /// End offset of partition 0.
    fn end_offset(&self, kafka: &Kafka, topic: &str) -> i64 {
        let (output, _) = kafka.run(&[
            "org.apache.kafka.tools.GetOffsetShell",
            "--bootstrap-server",
            &self.address,
            "--topic",
            topic,
        ]);
        output.trim().rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{output}"))
    }

    /// Records that a `read_committed` consumer gets.
    fn consume(&self, kafka: &Kafka, topic: &str) -> usize {
        let (output, _) = kafka.run(&[
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server",
            &self.address,
            "--topic",
            topic,
            "--from-beginning",
            "--isolation-level",
            "read_committed",
            "--timeout-ms",
            "8000",
            "--property",
            "print.value=false",
            "--property",
            "print.offset=true",
        ]);
        output.matches("Offset:").count()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn format_directory(kafka: &Kafka, root: &Path) -> (PathBuf, String) {
    let (client, controller) = two_ports();
    let properties = root.join("server.properties");
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\n\
         listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={}\n\
         offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\n",
        root.join("data").display()
    );
    std::fs::write(&properties, text).unwrap();
    kafka.run(&[
        "kafka.tools.StorageTool",
        "format",
        "-t",
        "4L6g3nShT-eMCtK--X86sw",
        "-c",
        properties.to_str().unwrap(),
    ]);
    (properties, format!("127.0.0.1:{client}"))
}

/// Opens the directory as a broker would whose metadata says what `partition.metadata` says.
fn open(data: &Path) -> (LogManager, Arc<Log>) {
    let manager =
        LogManager::lock(&Disk::new(), &[data.to_path_buf()], &LogManagerConfig::default()).unwrap();
    let claim = |name: &TopicPartition| {
        if name.topic() == "__cluster_metadata" {
            return Claim::Ignore;
        }
        let path = data.join(name.dir_name()).join(partition_metadata::PARTITION_METADATA);
        let topic_id = partition_metadata::parse(&std::fs::read(&path).unwrap(), &path).unwrap();
        let compact = name.topic().starts_with("__");
        let config = LogConfig {
            compact,
            delete: !compact,
            segment_bytes: 1 << 20,
            index_interval_bytes: 2000,
            ..LogConfig::default()
        };
        Claim::Open { config: Arc::new(config), topic_id: Some(topic_id) }
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let summary = manager.load(&claim, now, &|_, _| {}).unwrap();
    assert!(summary.failed.is_empty() && summary.strays.is_empty(), "{summary:?}");
    let log = manager.get(&TopicPartition::new("judged", 0)).unwrap();
    (manager, log)
}

/// What must agree between a log and the files that a broker wrote.
fn compare_with_files(manager: &LogManager, log: &Log, clean: bool) {
    let stored: Vec<u8> =
        files_of(log.dir(), "log").iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    let read = read_all(log, 0).unwrap();
    assert!(read == stored, "other records than in the files");
    let headers = headers(&read);
    assert_eq!(headers.last().unwrap().next_offset(), log.log_end_offset().get());
    let codecs: std::collections::BTreeSet<u8> =
        headers.iter().map(|header| header.compression().unwrap().id()).collect();
    assert_eq!(codecs.len(), 5);
    let first_epoch = headers[0].partition_leader_epoch;
    assert_eq!(log.leader_epochs().entries()[0].epoch, first_epoch);
    if clean {
        // The snapshot is the broker's own account of its producers.
        let path = files_of(log.dir(), "snapshot").pop().unwrap();
        assert!(path.to_str().unwrap().contains(&format!("{:020}", log.log_end_offset().get())));
        let snapshot = producer_snapshot::parse(&std::fs::read(&path).unwrap(), &path).unwrap();
        let mut theirs: Vec<_> = snapshot
            .iter()
            .map(|entry| (entry.producer_id, entry.producer_epoch, entry.last_sequence))
            .collect();
        theirs.sort_unstable();
        let ours: Vec<_> = log
            .active_producers()
            .iter()
            .map(|producer| (producer.producer_id, producer.producer_epoch, producer.last_sequence))
            .collect();
        assert!(!ours.is_empty());
        assert_eq!(ours, theirs);
    }
    let mut scrubber = Scrubber::new();
    loop {
        let report = scrubber.step(manager, 1 << 20).unwrap();
        assert_eq!((report.damaged, report.gaps, report.rebuilt), (0, 0, 0));
        if report.pass_finished {
            break;
        }
    }
}

#[test]
fn a_directory_goes_from_kafka_to_here_and_back_without_a_lost_record() {
    let Some(kafka) = Kafka::find() else { return };
    let root = tempfile::tempdir().unwrap();
    let (properties, address) = format_directory(&kafka, root.path());
    let data = root.path().join("data");

    let broker = Broker::start(&kafka, &properties, &address);
    let refused = LogManager::lock(&Disk::new(), std::slice::from_ref(&data), &LogManagerConfig::default())
        .unwrap_err();
    assert!(matches!(refused, StorageError::DirLocked { .. }), "{refused}");
    broker.create_topic(&kafka, "judged");
    broker.produce(&kafka, "judged", 3000, false);
    let end = broker.end_offset(&kafka, "judged");
    let committed = broker.consume(&kafka, "judged");
    broker.stop();

    // A clean stop of the broker: nothing is checked, nothing is rebuilt.
    let (manager, log) = open(&data);
    let epoch = manager.dirs()[0].previous_broker_epoch().expect("a marker with an epoch");
    assert!(manager.dirs()[0].had_clean_shutdown());
    assert_eq!(log.log_end_offset().get(), end);
    assert!(log.segment_count() > 2);
    compare_with_files(&manager, &log, true);
    let rebuilt = manager.counters().files_rebuilt.load(std::sync::atomic::Ordering::Relaxed)
        + manager.counters().index_rebuilds.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(rebuilt, 0);
    // The lock excludes a broker of Kafka, too.
    let mut second = kafka.java(&["kafka.Kafka", properties.to_str().unwrap()]);
    let status = second.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(!status.success(), "a broker started on a locked directory");
    let leader_epoch = log.latest_epoch().unwrap();
    let mut added = 0;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for n in 0..2000 {
        let mut batch = Batch::new(3, 300, now);
        (batch.header.producer_id, batch.header.producer_epoch, batch.header.base_sequence) =
            (900_000, 0, n * 3);
        batch.renew_crc();
        batch.append_at(&log, now, leader_epoch).unwrap();
        added += 3;
    }
    let batches = headers(&read_all(&log, 0).unwrap()).len();
    let aborted = log.aborted_transactions(0, log.log_end_offset().get()).unwrap();
    assert_eq!(aborted.len(), 4);
    let dir = log.dir().to_path_buf();
    drop(log);
    manager.close(epoch, now).unwrap();
    drop(manager);
    judge(&kafka, &dir, batches);

    // The broker goes on, and is then killed with an open transaction.
    let broker = Broker::start(&kafka, &properties, &address);
    assert_eq!(broker.end_offset(&kafka, "judged"), end + added);
    assert_eq!(broker.consume(&kafka, "judged"), committed + added as usize);
    broker.produce(&kafka, "judged", 500, true);
    let end = broker.end_offset(&kafka, "judged");
    broker.kill();

    let (manager, log) = open(&data);
    assert!(!manager.dirs()[0].had_clean_shutdown());
    assert_eq!(log.log_end_offset().get(), end);
    compare_with_files(&manager, &log, false);
    assert!(log.last_stable_offset().get() < end, "the open transaction is not known");
    let open_transactions =
        log.active_producers().iter().filter(|producer| producer.current_txn_start_offset >= 0).count();
    assert_eq!(open_transactions, 1);
    let by_producer: BTreeMap<i64, i32> = headers(&read_all(&log, 0).unwrap())
        .iter()
        .filter(|header| header.has_producer_id() && !header.is_control())
        .map(|header| (header.producer_id, header.last_sequence()))
        .collect();
    for producer in log.active_producers() {
        assert!(producer.last_sequence == by_producer[&producer.producer_id] || producer.last_sequence == -1);
    }
}
