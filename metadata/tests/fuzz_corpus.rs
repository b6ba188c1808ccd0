//! The committed corpus of every fuzz entry, and some thousand mutations of it from a seed.

use std::path::Path;

use weir_metadata::fuzz;

/// xorshift64*: good enough to mutate bytes, and the seed says it all.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % limit.max(1)
    }
}

fn corpus(entry: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(entry);
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(6) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => input.truncate(at),
            3 => input.insert(at, u8::try_from(random.below(256)).unwrap()),
            4 if at < input.len() => {
                input.remove(at);
            }
            _ => {
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

fn run(entry: &str, rounds: usize, target: fn(&[u8])) {
    let corpus = corpus(entry);
    for input in &corpus {
        target(input);
    }
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed_0001);
    println!("{entry}: FUZZ_SEED={seed}");
    let mut random = Random(seed);
    for _ in 0..rounds {
        let mut input = corpus[random.below(corpus.len())].clone();
        let other = &corpus[random.below(corpus.len())];
        mutate(&mut input, other, &mut random);
        target(&input);
    }
}

#[test]
fn metadata_records() {
    run("fuzz_metadata_record", 100_000, fuzz::fuzz_metadata_record);
}

#[test]
fn metadata_replay() {
    run("fuzz_metadata_replay", 2_000, fuzz::fuzz_metadata_replay);
}

#[test]
fn properties() {
    run("fuzz_properties", 2_000, fuzz::fuzz_properties);
}
