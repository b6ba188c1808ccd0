//! One entry per parser of this crate. Each takes any bytes, must not panic, and checks what it can.

use std::path::Path;

use crate::account::{Account, Class};
use crate::evidence::{self, Evidence, MAX_PROBLEMS, Problem};
use crate::findings::{self, Facts, Language, Layout};
use crate::heap::{Heap, Options, Progress};
use crate::hprof::Origin;
use crate::{alerts, compare, report, verify};

/// Problems stay bounded, and nothing that is shown holds what a terminal would obey.
fn check(problems: &[Problem]) {
    assert!(problems.len() <= MAX_PROBLEMS + 2, "{} problems", problems.len());
    for problem in problems {
        assert!(!problem.text.en.contains('\u{1b}'), "{problem:?}");
        assert!(problem.text.en.len() < 2000, "{problem:?}");
    }
}

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident: $parser:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(data: &[u8]) {
            let (_, problems) = evidence::parse_text::<evidence::parsers::$parser>(data);
            check(&problems);
        }
    )*};
}

entries! {
    /// `VM.flags`.
    fuzz_vm_flags: VmFlagsParser;
    /// `VM.command_line`.
    fuzz_vm_command_line: VmCommandLineParser;
    /// `VM.version`.
    fuzz_vm_version: VmVersionParser;
    /// `VM.system_properties`.
    fuzz_system_properties: SystemPropertiesParser;
    /// `VM.native_memory`.
    fuzz_native_memory: NativeMemoryParser;
    /// `GC.class_histogram`.
    fuzz_class_histogram: ClassHistogramParser;
    /// `GC.heap_info`.
    fuzz_heap_info: HeapInfoParser;
    /// `Thread.print`.
    fuzz_thread_print: ThreadPrintParser;
    /// Files of `/proc` and of control groups.
    fuzz_kernel: KernelParser;
    /// Prometheus text.
    fuzz_prometheus: PrometheusParser;
    /// JMX text.
    fuzz_jmx: JmxParser;
    /// `server.properties`.
    fuzz_server_properties: ServerPropertiesParser;
    /// Logs of a broker.
    fuzz_broker_log: BrokerLogParser;
    /// GC logs.
    fuzz_gc_log: GcLogParser;
}

/// A file of any kind: recognised, read, and judged by every rule; what is shown cannot command a terminal.
pub fn fuzz_evidence(data: &[u8]) {
    let mut evidence = Evidence::default();
    evidence.read(Path::new("fuzz"), data);
    assert_eq!(evidence.files.len(), 1);
    for file in &evidence.files {
        check(&file.problems);
    }
    let found = findings::diagnose(&evidence, &[]);
    let facts = Facts::of(&evidence, &[]);
    let verification = verify::verify(&facts, &verify::Options { since_ms: Some(0), ..Default::default() });
    // Nothing differs from itself.
    let comparison = compare::compare(&compare::Side::of(&evidence, &[]), &compare::Side::of(&evidence, &[]));
    assert!(
        comparison.figures.iter().all(|figure| figure.pair.change() == 0) && comparison.settings.is_empty()
    );
    for language in [Language::English, Language::Chinese] {
        let layout = Layout { width: 80, colour: false, language };
        let text = verify::verification_text(&verification, layout)
            + &compare::comparison_text(&comparison, layout)
            + &alerts::rules(&facts, None, language);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a terminal would obey: {text:?}");
        assert!(verification.to_json(language).is_object());
        assert!(compare::comparison_json(&comparison, language).is_object());
        let text = findings::evidence_text(&evidence, layout) + &findings::findings_text(&found, layout);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a terminal would obey: {text:?}");
        for finding in &found {
            assert!(finding.to_json(language).is_object());
        }
        check_page(&report::html(&evidence, &[], &found, language));
    }
}

/// What evidence must never become in a page.
fn check_page(page: &str) {
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()) && page.ends_with("</html>\n"));
    for markup in ["<script", "<img", "<a href=\"h", "\" on"] {
        assert!(!page.contains(markup), "{markup} in {page}");
    }
}

/// A heap dump, plain or gzip: read, accounted for and reported. The sums must agree with each other, whatever it is.
pub fn fuzz_heap_dump(data: &[u8]) {
    let origin = Origin::of_bytes(Path::new("fuzz"), data.to_vec());
    let options = Options { threads: 1, limit_bytes: 1 << 20, ..Options::default() };
    let Ok(heap) = Heap::read_origin(&origin, &options, &Progress::default()) else { return };
    let account = Account::of(&heap);
    let lines: u64 = account.lines.iter().map(|line| line.sum.count).sum();
    assert_eq!(lines, heap.allocations.len() as u64);
    let temporary = account.sum(Class::Cached).count + account.sum(Class::InFlight).count;
    assert_eq!(account.groups.iter().map(|group| group.buffers).sum::<u64>(), temporary);
    let evidence = Evidence::default();
    let dump = findings::Dump { path: Path::new("fuzz"), heap: &heap, account: &account };
    let side = compare::Side::of(&evidence, &[dump]);
    let comparison = compare::compare(&side, &side);
    assert!(comparison.groups.iter().all(|group| group.sum_bytes.change() == 0));
    verify::verify(&side.facts, &verify::Options::default());
    let layout = Layout { width: 80, colour: false, language: Language::English };
    let text = compare::comparison_text(&comparison, layout);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a terminal would obey: {text:?}");
    let text = report::text(&heap, &account, layout);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a terminal would obey: {text:?}");
    assert!(report::json(&heap, &account, Language::English).is_object());
    let dump = findings::Dump { path: Path::new("fuzz"), heap: &heap, account: &account };
    check_page(&report::html(&evidence, &[dump], &[], Language::Chinese));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    type Entry = (&'static str, fn(&[u8]));

    const ENTRIES: [Entry; 16] = [
        ("vm_flags", fuzz_vm_flags),
        ("vm_command_line", fuzz_vm_command_line),
        ("vm_version", fuzz_vm_version),
        ("system_properties", fuzz_system_properties),
        ("native_memory", fuzz_native_memory),
        ("class_histogram", fuzz_class_histogram),
        ("heap_info", fuzz_heap_info),
        ("thread_print", fuzz_thread_print),
        ("kernel", fuzz_kernel),
        ("prometheus", fuzz_prometheus),
        ("jmx", fuzz_jmx),
        ("server_properties", fuzz_server_properties),
        ("broker_log", fuzz_broker_log),
        ("gc_log", fuzz_gc_log),
        ("evidence", fuzz_evidence),
        ("heap_dump", fuzz_heap_dump),
    ];

    /// xorshift64*: enough for mutations, and a seed plays them again.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
        }
    }

    /// Cut, overwrite, repeat, splice: what damages a text.
    fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() + 1);
            match random.below(7) {
                0 => bytes.truncate(at),
                1 => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = random.below(256) as u8;
                    }
                }
                2 => {
                    let digit = b"0123456789-+=:{}[]()\"\\\n\t "[random.below(25)];
                    bytes.insert(at, digit);
                }
                3 => {
                    let end = (at + random.below(40)).min(bytes.len());
                    let piece: Vec<u8> = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => {
                    let start = random.below(other.len());
                    let end = (start + random.below(80)).min(other.len());
                    bytes.splice(at..at, other[start..end].iter().copied());
                }
                5 => {
                    bytes.splice(at..at, *b"99999999999999999999");
                }
                _ => {
                    let end = (at + random.below(20)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_a_parser_panic() {
        let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1
        });
        println!("seed {seed}: WEIR_SEED plays it again");
        let mut random = Random(seed);
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
        for (name, entry) in ENTRIES {
            let mut inputs: Vec<Vec<u8>> = Vec::new();
            let mut files: Vec<_> = fs::read_dir(corpus.join(name))
                .unwrap_or_else(|error| panic!("the corpus of {name}: {error}"))
                .map(|file| file.unwrap().path())
                .collect();
            files.sort();
            for file in files {
                inputs.push(fs::read(file).unwrap());
            }
            assert!(!inputs.is_empty(), "{name} has no corpus");
            for input in &inputs {
                entry(input);
            }
            for _ in 0..1000 {
                let mut bytes = inputs[random.below(inputs.len())].clone();
                let other = inputs[random.below(inputs.len())].clone();
                mutate(&mut bytes, &other, &mut random);
                entry(&bytes);
            }
        }
    }
}
