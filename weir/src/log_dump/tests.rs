//! The dump against directories that weir wrote: whole ones, garbled ones, and, where Kafka is there, its own tool.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use weir_protocol::messages::group_records::{OffsetCommitKey, OffsetCommitValue};
use weir_protocol::records::{
    BatchBuilder, BatchHeader, Codec, ControlRecordType, EndTxnMarker, HEADER_SIZE_BYTES,
};
use weir_protocol::wire::{Uuid, put_i16};
use weir_storage::disk::Disk;
use weir_storage::{
    AppendOptions, AppendOrigin, Log, LogConfig, LogManager, LogManagerConfig, TopicPartition,
};

use super::*;
use crate::load::tests::server;

const NOW: i64 = 1_800_000_000_000;
const OPTIONS: Options =
    Options { json: true, deep: true, quiet: false, width: 200, records_as: RecordsAs::Auto };

fn append(log: &Log, builder: &BatchBuilder, origin: AppendOrigin) {
    let bytes = builder.build().unwrap();
    let header = BatchHeader::parse(bytes[..HEADER_SIZE_BYTES].try_into().unwrap()).unwrap();
    let body = [IoSlice::new(&bytes[HEADER_SIZE_BYTES..])];
    log.append_as_leader(&header, &body, &AppendOptions { leader_epoch: 3, origin, now_ms: NOW }).unwrap();
}

/// A log directory with a topic of several segments, all codecs, an idempotent and an aborted producer, and offsets.
/// Returns the number of records of the topic.
fn write_directory(root: &Path) -> usize {
    let manager =
        LogManager::lock(&Disk::new(), &[root.to_path_buf()], &LogManagerConfig::default()).unwrap();
    let config =
        Arc::new(LogConfig { segment_bytes: 20_000, index_interval_bytes: 1000, ..LogConfig::default() });
    let id = Some(Uuid([7; 16]));
    let log =
        manager.get_or_create(&TopicPartition::new("shown", 0), id, None, Arc::clone(&config), NOW).unwrap();
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let mut count = 0;
    for batch in 0..200_usize {
        let mut builder = BatchBuilder::new(codecs[batch % codecs.len()]);
        for n in 0..=batch % 7 {
            let value = format!("value {n} of batch {batch} {}", "x".repeat(batch));
            let headers = [("trace".as_bytes(), Some(&b"\x01\x02"[..]))];
            builder
                .append(NOW + batch as i64, Some(b"key"), Some(value.as_bytes()), &headers[..batch % 2])
                .unwrap();
            count += 1;
        }
        append(&log, &builder, AppendOrigin::Client);
    }
    for sequence in 0..3 {
        let mut builder = BatchBuilder::new(Codec::None).producer(11, 0, sequence).transactional();
        builder.append(NOW + 500, None, Some(b"uncertain"), &[]).unwrap();
        append(&log, &builder, AppendOrigin::Client);
        let mut marker = BatchBuilder::new(Codec::None).producer(11, 0, -1).transactional();
        marker
            .append_control(
                NOW + 500,
                ControlRecordType::Abort,
                &EndTxnMarker { coordinator_epoch: 2 }.value(),
            )
            .unwrap();
        append(&log, &marker, AppendOrigin::Coordinator);
        count += 2;
    }
    let offsets =
        manager.get_or_create(&TopicPartition::new("__consumer_offsets", 4), id, None, config, NOW).unwrap();
    let mut key = Vec::new();
    put_i16(&mut key, 1);
    let commit_key = OffsetCommitKey { group: "readers".into(), topic: "shown".into(), partition: 0 };
    commit_key.encode(&mut key, 0).unwrap();
    let mut value = Vec::new();
    put_i16(&mut value, 3);
    let commit = OffsetCommitValue { offset: 42, ..OffsetCommitValue::default() };
    commit.encode(&mut value, 3).unwrap();
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(NOW, Some(&key), Some(&value), &[]).unwrap();
    builder.append(NOW, Some(&key), None, &[]).unwrap();
    append(&offsets, &builder, AppendOrigin::Coordinator);
    manager.close(9, NOW).unwrap();
    count
}

/// All lines of a dump in JSON.
fn lines_of(paths: &[PathBuf]) -> (Totals, Vec<Value>) {
    let mut out = Vec::new();
    let totals = dump(paths, &OPTIONS, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (totals, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn damages(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["type"] == "damage").collect()
}

fn files_of(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let listing = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        listing.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

#[test]
fn a_directory_of_ours_is_shown_whole_and_without_a_complaint() {
    let root = tempfile::tempdir().unwrap();
    let count = write_directory(root.path());
    let (totals, lines) = lines_of(&[root.path().to_path_buf()]);
    assert_eq!(damages(&lines), Vec::<&Value>::new());
    assert_eq!(totals.damages, 0);
    let of = |kind: &str, file: &str| {
        lines
            .iter()
            .filter(|line| line["type"] == kind && line["file"].as_str().unwrap().contains(file))
            .count()
    };
    assert_eq!(of("record", "shown-0/"), count);
    assert_eq!(of("batch", "shown-0/"), 206);
    assert_eq!(of("aborted transaction", ".txnindex"), 3);
    assert!(of("entry", ".index") > 10 && of("entry", ".timeindex") > 10 && of("producer", ".snapshot") > 0);
    assert!(of("header", ".log") > 100);
    for kind in ["leader epochs", "offset checkpoint", "partition metadata", "clean shutdown marker"] {
        assert!(lines.iter().any(|line| line["kind"] == kind), "{kind} is not in the dump");
    }
    let commit = lines.iter().find(|line| line["kind"] == "offset").unwrap();
    assert!(commit["record"].as_str().unwrap().contains("readers"), "{commit}");
    let marker = lines.iter().find(|line| line["kind"] == "Abort").unwrap();
    assert_eq!(marker["record"], "coordinator_epoch: 2");
    let mut text = Vec::new();
    dump(&[root.path().to_path_buf()], &Options { json: false, ..OPTIONS }, &mut text).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("key: \"key\" value: \"value 0 of batch 1 x\""));
}

/// Starts and stops a server on a directory.
fn run_server(root: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { server(root).await.stop().await.unwrap() });
}

#[test]
fn the_directory_of_a_server_is_shown_with_its_metadata_records() {
    let root = tempfile::tempdir().unwrap();
    run_server(root.path());
    let (_, lines) = lines_of(&[root.path().to_path_buf()]);
    assert_eq!(damages(&lines), Vec::<&Value>::new());
    for kind in ["RegisterBrokerRecord", "FeatureLevelRecord", "LeaderChange", "SnapshotHeader"] {
        let found =
            lines.iter().any(|line| line["kind"].as_str().is_some_and(|found| found.starts_with(kind)));
        assert!(found, "{kind} is not in the dump");
    }
    for kind in ["meta.properties", "quorum state", "metadata snapshot"] {
        assert!(lines.iter().any(|line| line["kind"] == kind), "{kind} is not in the dump");
    }
}

#[test]
fn a_flipped_bit_a_cut_and_a_wrong_entry_are_named_with_their_places() {
    let root = tempfile::tempdir().unwrap();
    write_directory(root.path());
    let dir = root.path().join("shown-0");
    let log = files_of(&dir, "log").remove(0);
    let whole = std::fs::read(&log).unwrap();
    let (_, lines) = lines_of(std::slice::from_ref(&log));
    let second = lines.iter().filter(|line| line["type"] == "batch").nth(1).unwrap();
    let (position, size) = (second["position"].as_u64().unwrap() as usize, second["size"].as_u64().unwrap());

    let mut flipped = whole.clone();
    flipped[position + HEADER_SIZE_BYTES + 3] ^= 0x10;
    std::fs::write(&log, &flipped).unwrap();
    let (totals, lines) = lines_of(std::slice::from_ref(&log));
    let found = damages(&lines);
    assert_eq!((totals.damages, found[0]["position"].as_u64()), (1, Some(position as u64)), "{found:?}");
    assert_eq!(found[0]["bytes_after"].as_u64(), Some(whole.len() as u64 - position as u64 - size));
    assert!(found[0]["reason"].as_str().unwrap().contains("CRC"));

    let cut = position + 70;
    std::fs::write(&log, &whole[..cut]).unwrap();
    let (_, lines) = lines_of(std::slice::from_ref(&log));
    let found = damages(&lines);
    assert_eq!(found.len(), 1);
    assert!(found[0]["reason"].as_str().unwrap().contains(&format!("claims {size} bytes and 70 are left")));

    let mut zeroed = whole.clone();
    zeroed.extend([0; 5000]);
    std::fs::write(&log, &zeroed).unwrap();
    let (totals, lines) = lines_of(std::slice::from_ref(&log));
    assert_eq!(totals.damages, 0);
    assert!(lines.iter().any(|line| line["type"] == "note" && line["bytes"] == 5000));
    std::fs::write(&log, &whole).unwrap();

    let index = files_of(&dir, "index").remove(0);
    let mut entries = std::fs::read(&index).unwrap();
    entries[8 + 7] ^= 1;
    std::fs::write(&index, &entries).unwrap();
    let (_, lines) = lines_of(&[index]);
    let found = damages(&lines);
    assert_eq!((found.len(), found[0]["position"].as_u64()), (1, Some(8)), "{found:?}");
    assert!(found[0]["reason"].as_str().unwrap().starts_with("no batch begins at position"));

    let times = files_of(&dir, "timeindex").remove(0);
    let mut entries = std::fs::read(&times).unwrap();
    entries[12 + 7] ^= 0x40;
    std::fs::write(&times, &entries).unwrap();
    let (totals, _) = lines_of(&[times]);
    assert!(totals.damages > 0);

    let epochs = dir.join("leader-epoch-checkpoint");
    for (text, part) in [
        ("1\n1\n0 0\n", "unknown version"),
        ("0\nmany\n", "is no number"),
        ("0\n2\n0 0\n", "promises 2 entries and holds 1"),
        ("0\n2\n1 5\n0 9\n", "line 4 is no entry"),
        ("0\n1\n0\n", "line 3 is no entry"),
    ] {
        std::fs::write(&epochs, text).unwrap();
        let (_, lines) = lines_of(std::slice::from_ref(&epochs));
        let found = damages(&lines);
        assert!(
            found.iter().any(|line| line["reason"].as_str().unwrap().contains(part)),
            "{text}: {found:?}"
        );
    }
    for (name, text, part) in [
        ("partition.metadata", "version: 7\ntopic_id: x\n", ""),
        ("00000000000000000009.snapshot", "ab", "fewer than a snapshot has"),
        ("00000000000000000009.txnindex", "abc", ""),
        ("00000000000000000009.log", "abc", "fewer than a batch header"),
        ("00000000000000000009-0000000001.checkpoint", "nonsense", ""),
    ] {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        let (_, lines) = lines_of(&[path]);
        let found = damages(&lines);
        assert!(
            found.iter().any(|line| line["reason"].as_str().unwrap().contains(part)),
            "{name}: {lines:?}"
        );
    }
    for (name, text) in [
        ("meta.properties", "version=9\n"),
        ("quorum-state", "{}"),
        (".kafka_cleanshutdown", "{"),
        ("recovery-point-offset-checkpoint", "0\n1\nt 0 -5\n"),
    ] {
        let path = root.path().join(name);
        std::fs::write(&path, text).unwrap();
        let (totals, lines) = lines_of(&[path]);
        assert!(totals.damages > 0, "{name}: {lines:?}");
    }

    let (totals, lines) = lines_of(&[dir.join("nothing")]);
    assert_eq!((totals.damages, damages(&lines).len()), (1, 1));
}

/// Numbers below a limit, from a seed that is printed and that SEED sets.
fn seeded(default: u64) -> impl FnMut(usize) -> usize {
    let mut state = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default);
    println!("SEED={state}");
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit.max(1) as u64) as usize
    }
}

#[test]
fn files_garbled_at_random_never_end_the_dump() {
    let mut below = seeded(0x5eed);
    let root = tempfile::tempdir().unwrap();
    write_directory(root.path());
    let dir = root.path().join("shown-0");
    let mut files: Vec<PathBuf> = [&dir, root.path(), &root.path().join("__consumer_offsets-4")]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.is_file() && std::fs::metadata(path).unwrap().len() > 0)
        .collect();
    files.sort();
    for round in 0..1500 {
        let path = &files[below(files.len())];
        let whole = std::fs::read(path).unwrap();
        let mut bytes = whole.clone();
        for _ in 0..=below(4) {
            match below(4) {
                0 if !bytes.is_empty() => {
                    let at = below(bytes.len());
                    bytes[at] ^= 1 << below(8);
                }
                1 => bytes.truncate(below(bytes.len() + 1)),
                2 if bytes.len() > 8 => {
                    let at = below(bytes.len() - 8);
                    let value = [i32::MAX, i32::MIN, -1, 0][below(4)];
                    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                }
                _ => bytes.extend((0..below(200)).map(|n| n as u8)),
            }
        }
        std::fs::write(path, &bytes).unwrap();
        let options = Options { json: round % 2 == 0, ..OPTIONS };
        dump(std::slice::from_ref(path), &options, &mut std::io::sink()).unwrap();
        std::fs::write(path, &whole).unwrap();
    }
}

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/log_dump");

fn corpus() -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(CORPUS).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn the_corpus_and_thousands_of_its_kin_are_shown() {
    let mut below = seeded(0x0dd_b0a7);
    let corpus = corpus();
    assert!(corpus.len() >= fuzz::NAMES.len());
    corpus.iter().for_each(|seed| fuzz::fuzz_log_dump(seed));
    for _ in 0..3000 {
        let mut bytes = corpus[below(corpus.len())].clone();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(5) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = below(256) as u8,
                2 => bytes.truncate(at + 1),
                3 => {
                    let end = (at + 1 + below(16)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.extend(piece);
                }
                _ if bytes.len() >= at + 4 => {
                    let value = [i32::MAX, i32::MIN, -1, 0, 1 << 20][below(5)];
                    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                }
                _ => {}
            }
        }
        fuzz::fuzz_log_dump(&bytes);
    }
}

#[test]
#[ignore = "writes the corpus"]
fn write_the_corpus() {
    let root = tempfile::tempdir().unwrap();
    write_directory(root.path());
    let server = tempfile::tempdir().unwrap();
    run_server(server.path());
    std::fs::create_dir_all(CORPUS).unwrap();
    let find = |root: &Path, dir: &str, end: &str| -> Vec<u8> {
        let dir = if dir.is_empty() { root.to_path_buf() } else { root.join(dir) };
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().ends_with(end))
            .filter(|path| std::fs::metadata(path).unwrap().len() > 0)
            .collect();
        files.sort();
        let bytes = std::fs::read(files.first().unwrap_or_else(|| panic!("no {end}"))).unwrap();
        bytes[..bytes.len().min(2000)].to_vec()
    };
    let sources: [(&Path, &str, &str); 14] = [
        (root.path(), "shown-0", ".log"),
        (root.path(), "__consumer_offsets-4", ".log"),
        (server.path(), "__cluster_metadata-0", ".log"),
        (root.path(), "shown-0", ".index"),
        (root.path(), "shown-0", ".timeindex"),
        (root.path(), "shown-0", ".txnindex"),
        (root.path(), "shown-0", ".snapshot"),
        (root.path(), "shown-0", "leader-epoch-checkpoint"),
        (root.path(), "shown-0", "partition.metadata"),
        (server.path(), "", "bootstrap.checkpoint"),
        (server.path(), "__cluster_metadata-0", "quorum-state"),
        (server.path(), "", "meta.properties"),
        (root.path(), "", "recovery-point-offset-checkpoint"),
        (root.path(), "", ".kafka_cleanshutdown"),
    ];
    for (kind, (root, dir, end)) in sources.into_iter().enumerate() {
        let mut seed = vec![kind as u8];
        seed.extend(find(root, dir, end));
        std::fs::write(format!("{CORPUS}/{kind:02}"), seed).unwrap();
    }
}

#[test]
fn the_tool_of_apache_kafka_counts_the_same_batches_records_and_entries() {
    let Some(libs) = std::env::var_os("WEIR_KAFKA_LIBS").map(PathBuf::from) else {
        eprintln!("skipped: WEIR_KAFKA_LIBS is not set");
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let count = write_directory(root.path());
    let dir = root.path().join("shown-0");
    let tool = |files: &[PathBuf], option: &str| {
        let list: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
        let output = Command::new("java")
            .args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(libs.join("*"))
            .args(["org.apache.kafka.tools.DumpLogSegments", option, "--files", &list.join(",")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (_, lines) = lines_of(std::slice::from_ref(&dir));
    let logs = files_of(&dir, "log");
    let theirs = tool(&logs, "--deep-iteration");
    assert_eq!(theirs.matches("| offset: ").count(), count);
    let batches: Vec<(i64, u64, String)> = lines
        .iter()
        .filter(|line| line["type"] == "batch")
        .map(|line| {
            let number = |name: &str| line[name].as_u64().unwrap();
            let crc = u32::from_str_radix(line["crc"].as_str().unwrap(), 16).unwrap();
            (line["base_offset"].as_i64().unwrap(), number("position"), crc.to_string())
        })
        .collect();
    let word = |line: &str, name: &str| {
        let after = line.split_once(&format!("{name}: ")).unwrap().1;
        after.split(' ').next().unwrap().to_string()
    };
    let of_kafka: Vec<(i64, u64, String)> = theirs
        .lines()
        .filter(|line| line.starts_with("baseOffset: "))
        .map(|line| {
            let base_offset = word(line, "baseOffset").parse().unwrap();
            (base_offset, word(line, "position").parse().unwrap(), word(line, " crc"))
        })
        .collect();
    assert_eq!(batches, of_kafka);
    let entries = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["type"] == "entry" && line["file"].as_str().unwrap().ends_with(kind))
            .count()
    };
    let theirs = tool(&files_of(&dir, "index"), "--deep-iteration");
    assert_eq!(theirs.lines().filter(|line| line.starts_with("offset: ")).count(), entries(".index"));
    let theirs = tool(&files_of(&dir, "timeindex"), "--deep-iteration");
    assert_eq!(theirs.lines().filter(|line| line.starts_with("timestamp: ")).count(), entries(".timeindex"));
}
