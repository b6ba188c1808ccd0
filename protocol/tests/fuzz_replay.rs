//! Every fuzz entry on its committed corpus, and on mutations of it.

use std::path::Path;

use weir_protocol::fuzz;
use xtask::random::Rng;

type Entry = (&'static str, fn(&[u8]));

const ENTRIES: &[Entry] = &[
    ("fuzz_message", fuzz::fuzz_message),
    ("fuzz_record_frame", fuzz::fuzz_record_frame),
    ("fuzz_reader", fuzz::fuzz_reader),
    ("fuzz_uuid_text", fuzz::fuzz_uuid_text),
];

fn corpus(entry: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(entry);
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files.into_iter().map(|f| std::fs::read(f).unwrap()).collect()
}

#[test]
fn entries_keep_their_promises_on_the_corpus() {
    for (name, entry) in ENTRIES {
        for seed in corpus(name) {
            entry(&seed);
        }
    }
}

#[test]
fn entries_keep_their_promises_on_mutations_of_the_corpus() {
    let seed = std::env::var("WEIR_FUZZ_SEED").map_or(20, |s| s.parse().expect("a number"));
    let rounds = std::env::var("WEIR_FUZZ_ROUNDS").map_or(60, |s| s.parse().expect("a number"));
    println!("seed {seed}, {rounds} mutations of each file");
    let mut rng = Rng(seed);
    for (name, entry) in ENTRIES {
        let seeds = corpus(name);
        for original in &seeds {
            for _ in 0..rounds {
                let mut bytes = original.clone();
                for _ in 0..=rng.below(4) {
                    mutate(&mut bytes, &seeds, &mut rng);
                }
                if std::panic::catch_unwind(|| entry(&bytes)).is_err() {
                    panic!("{name} fails on {bytes:02x?}");
                }
            }
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.below(bytes.len() as u64 + 1) as usize;
    match rng.below(8) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, rng.next_u64() as u8),
        // A count of two billion, classic and compact.
        2 => drop(bytes.splice(at..at, [0x7f, 0xff, 0xff, 0xff])),
        3 => drop(bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x07])),
        4 => {
            let other = &seeds[rng.below(seeds.len() as u64) as usize];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[at.min(other.len())..]);
        }
        5 => {
            let repeated = bytes[at..bytes.len().min(at + 64)].to_vec();
            drop(bytes.splice(at..at, repeated));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 2, 0x7f, 0x80, 0xff, byte.wrapping_add(1), rng.next_u64() as u8]
                    [rng.below(8) as usize];
            }
        }
    }
}
