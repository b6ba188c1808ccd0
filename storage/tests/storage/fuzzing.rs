//! Every decoder on a committed corpus and on thousands of mutations of it: no panic, no promise that costs memory.

use std::path::{Path, PathBuf};

use crate::common::{Batch, NOW, Random};
use weir_protocol::wire::Uuid;
use weir_storage::leader_epoch::LeaderEpochs;
use weir_storage::producer_snapshot::{self, SnapshotEntry};
use weir_storage::transaction_index::AbortedTxn;
use weir_storage::{TopicPartition, checkpoint, fuzz, partition_metadata};

type Entry = (&'static str, fn(&[u8]), u64);

/// Name, entry, mutations.
const ENTRIES: [Entry; 10] = [
    ("offset_index", fuzz::fuzz_offset_index, 5000),
    ("time_index", fuzz::fuzz_time_index, 5000),
    ("transaction_index", fuzz::fuzz_transaction_index, 5000),
    ("producer_snapshot", fuzz::fuzz_producer_snapshot, 5000),
    ("offset_checkpoint", fuzz::fuzz_offset_checkpoint, 5000),
    ("leader_epochs", fuzz::fuzz_leader_epochs, 5000),
    ("meta_properties", fuzz::fuzz_meta_properties, 5000),
    ("partition_metadata", fuzz::fuzz_partition_metadata, 5000),
    ("small", fuzz::fuzz_small, 5000),
    ("partition_directory", fuzz::fuzz_partition_directory, 800),
];

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name)
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus(name))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no corpus");
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => {
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'9', b'\n', b'-'][random.below(8) as usize]
            }
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.next() as u8),
            4 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                let copy = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let end = (at + random.below(16) as usize).min(bytes.len());
                bytes[at.min(end)..end].fill(random.next() as u8);
            }
        }
    }
    bytes
}

#[test]
fn no_decoder_panics_on_its_corpus_or_on_mutations_of_it() {
    let mut random = Random::from_environment();
    for (name, entry, mutations) in ENTRIES {
        let seeds = seeds(name);
        seeds.iter().for_each(|seed| entry(seed));
        for _ in 0..mutations {
            let seed = &seeds[random.below(seeds.len() as u64) as usize];
            entry(&mutate(&mut random, seed));
        }
    }
}

/// Writes the corpus; run by hand after a change of a format: `cargo test -p weir-storage write_the_corpus -- --ignored`.
#[test]
#[ignore = "writes files that are committed"]
fn write_the_corpus() {
    let put = |name: &str, files: &[(&str, Vec<u8>)]| {
        std::fs::create_dir_all(corpus(name)).unwrap();
        for (file, bytes) in files {
            std::fs::write(corpus(name).join(file), bytes).unwrap();
        }
    };
    let index: Vec<u8> = (1..40u32).flat_map(|n| [n * 3, n * 5000].map(u32::to_be_bytes).concat()).collect();
    let mut preallocated = index.clone();
    preallocated.resize(600, 0);
    put("offset_index", &[("empty", Vec::new()), ("sealed", index.clone()), ("preallocated", preallocated)]);
    let times: Vec<u8> = (1..40u32)
        .flat_map(|n| [&(NOW + i64::from(n)).to_be_bytes()[..], &(n * 3).to_be_bytes()[..]].concat())
        .collect();
    put("time_index", &[("empty", Vec::new()), ("sealed", times.clone()), ("zeros", vec![0; 120])]);
    let aborted: Vec<u8> = (0..5)
        .flat_map(|n| {
            let txn = AbortedTxn {
                producer_id: n,
                first_offset: 1000 + n * 10,
                last_offset: 1005 + n * 10,
                last_stable_offset: 1006 + n * 10,
            };
            txn.encode()
        })
        .collect();
    put("transaction_index", &[("five", aborted), ("zeros", vec![0; 68])]);
    let entries: Vec<SnapshotEntry> = (0..3)
        .map(|n| SnapshotEntry {
            producer_id: n,
            producer_epoch: 1,
            last_sequence: 10,
            last_offset: n * 7,
            offset_delta: 2,
            timestamp: NOW,
            coordinator_epoch: 0,
            current_txn_first_offset: -1,
        })
        .collect();
    put(
        "producer_snapshot",
        &[("none", producer_snapshot::format(&[])), ("three", producer_snapshot::format(&entries))],
    );
    let (a, b) = (TopicPartition::new("orders", 0), TopicPartition::new("__consumer_offsets", 49));
    let offsets = checkpoint::format_offsets([(&a, 17), (&b, i64::MAX)].into_iter());
    put("offset_checkpoint", &[("two", offsets), ("none", b"0\n0\n".to_vec())]);
    let mut epochs = LeaderEpochs::default();
    for n in 0..4 {
        epochs.assign(n * 2, i64::from(n) * 100);
    }
    put("leader_epochs", &[("four", epochs.format()), ("none", b"0\n0\n".to_vec())]);
    put(
        "meta_properties",
        &[
            ("v1", b"#\n#Mon Nov 30 03:44:00 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\nversion=1\nnode.id=3\ndirectory.id=e6wPmSq8Rw2x1Vw9a0bcDQ\n".to_vec()),
            ("v0", b"version=0\nbroker.id=7\ncluster.id=c\\:d\n".to_vec()),
        ],
    );
    put("partition_metadata", &[("v0", partition_metadata::format(Uuid([5; 16])))]);
    put(
        "small",
        &[
            ("marker", b"{\"version\":0,\"brokerEpoch\":77}".to_vec()),
            ("dir", b"my-topic-12".to_vec()),
            ("delete-dir", TopicPartition::new("t", 1).delete_dir_name(&[9; 16]).into_bytes()),
            ("abort", Batch::marker(1, 0, false, 3).body),
        ],
    );
    let mut log = Vec::new();
    let mut offset = 0;
    let batches = [
        Batch::new(3, 50, NOW),
        Batch::idempotent(2, 7, 0, 0),
        Batch::transactional(2, 8, 0, 0),
        Batch::marker(8, 0, false, 1),
        Batch::new(1, 5, NOW + 9),
    ];
    for (n, batch) in batches.iter().enumerate() {
        log.extend(batch.stored(offset, n as i32 / 2));
        offset += i64::from(batch.header.last_offset_delta) + 1;
    }
    let shaped = |shape: u8, rest: &[u8]| [&[shape][..], rest].concat();
    let with_others = [log.as_slice(), &index[..100], &times[..100], &[0; 68], b"0\n1\n0 0\n"].concat();
    put(
        "partition_directory",
        &[
            ("log", shaped(0, &log)),
            ("zeros", shaped(0, &[log.as_slice(), &[0; 300]].concat())),
            ("all", shaped(0x7f, &with_others)),
            ("empty", shaped(0, &[])),
        ],
    );
}
