//! The corpus of the fuzz entry, and some thousand mutations of it.

use std::path::Path;

use super::*;

fn corpus(entry: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(entry);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn corpus_of_record_batches_replays() {
    for input in corpus("fuzz_record_batch") {
        super::super::fuzz::fuzz_record_batch(&input);
    }
}

#[test]
fn corpus_of_control_records_replays() {
    for input in corpus("fuzz_control_record") {
        super::super::fuzz::fuzz_control_record(&input);
    }
}

#[test]
fn mutated_inputs_break_no_promise() {
    let rounds =
        std::env::var("WEIR_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3000);
    mutate("fuzz_record_batch", rounds, super::super::fuzz::fuzz_record_batch);
    mutate("fuzz_control_record", rounds, super::super::fuzz::fuzz_control_record);
}

fn mutate(entry: &str, count: usize, fuzz: fn(&[u8])) {
    let mut rng = Rng::fresh();
    let corpus = corpus(entry);
    for _ in 0..count {
        let mut input = corpus[rng.below(corpus.len())].clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(input.len().max(1));
            match rng.below(5) {
                _ if input.is_empty() => input.push(rng.next() as u8),
                0 => input[at] ^= 1 << rng.below(8),
                1 => input[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5)],
                2 => input.truncate(at),
                3 => {
                    let piece: Vec<u8> = input[at..(at + rng.below(40)).min(input.len())].to_vec();
                    let to = rng.below(input.len());
                    input.splice(to..to, piece);
                }
                _ => drop(input.drain(at..(at + rng.below(10)).min(input.len()))),
            }
        }
        fuzz(&input);
    }
}
