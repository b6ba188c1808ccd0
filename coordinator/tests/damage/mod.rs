//! Runs a fuzz entry on its committed corpus, in `tests/corpus` of the crate that is tested, and on damaged copies of it.

use std::path::Path;

const MUTATIONS_PER_FILE: u64 = 1_000;

/// Runs `fuzz` on the files of `entry` and on [`MUTATIONS_PER_FILE`] damaged copies of each.
pub(crate) fn run(entry: &str, fuzz: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(entry);
    let mut files = 0;
    for file in std::fs::read_dir(&directory).expect("a corpus") {
        let path = file.expect("an entry").path();
        let seed = std::fs::read(&path).expect("a file");
        fuzz(&seed);
        for number in 0..MUTATIONS_PER_FILE {
            let mutated = mutate(&seed, number);
            if std::panic::catch_unwind(|| fuzz(&mutated)).is_err() {
                panic!("{} with mutation {number}: {mutated:02x?}", path.display());
            }
        }
        files += 1;
    }
    assert!(files > 3, "{files} files in {}", directory.display());
}

/// A few of: a bit flipped, a byte set to an edge value, a piece cut out, a piece doubled, the end cut off.
fn mutate(seed: &[u8], number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound.max(1) as u64) as usize
    };
    let mut bytes = seed.to_vec();
    for _ in 0..=next(3) {
        if bytes.is_empty() {
            break;
        }
        let at = next(bytes.len());
        let to = at + next((bytes.len() - at).min(40));
        match next(5) {
            0 => bytes[at] ^= 1 << next(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
            2 => drop(bytes.drain(at..to)),
            3 => {
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}
