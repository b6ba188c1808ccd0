//! Each check passes, fails, and is not judged; the verdict never takes partial evidence for a pass.

use std::path::Path;

use super::*;
use crate::account::Account;
use crate::evidence::Evidence;
use crate::findings::tests::{buffer, thread};
use crate::findings::{Dump, Layout};
use crate::heap::{Books, Heap, Held, Pool};
use crate::report::text_columns;

/// Judges texts, each a file of its own, and a dump.
fn judged(texts: &[&str], heap: Option<&Heap>, options: &Options) -> Verification {
    let mut evidence = Evidence::default();
    for (index, text) in texts.iter().enumerate() {
        evidence.read(Path::new(&format!("file-{index}")), text.as_bytes());
    }
    let account = heap.map(Account::of);
    let dump = heap.zip(account.as_ref()).map(|(heap, account)| Dump {
        path: Path::new("heap.hprof"),
        heap,
        account,
    });
    let dumps = Vec::from_iter(dump);
    let verification = verify(&Facts::of(&evidence, &dumps), options);
    let ids: Vec<_> = verification.checks.iter().map(|check| check.id).collect();
    assert_eq!(ids, CHECKS);
    for check in &verification.checks {
        assert!(!check.says.en.is_empty() && !check.criterion.zh.is_ascii(), "{check:?}");
        let decided = matches!(check.outcome, Outcome::Passes | Outcome::Fails);
        assert!(!decided || !check.evidence.is_empty(), "{check:?}");
    }
    for language in [Language::English, Language::Chinese] {
        for width in [40, 100] {
            let layout = Layout { width, colour: false, language };
            for row in render::text(&verification, layout).lines() {
                assert!(text_columns(row) <= width, "{width}: {row}");
            }
        }
    }
    verification
}

fn outcome(id: &str, texts: &[&str], heap: Option<&Heap>) -> Outcome {
    let verification = judged(texts, heap, &Options::default());
    verification.checks.into_iter().find(|check| check.id == id).unwrap().outcome
}

fn used(values: &[u64]) -> String {
    values.iter().map(|value| format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {value}\n")).collect()
}

fn count(values: &[u64]) -> String {
    values.iter().map(|value| format!("jvm_buffer_pool_used_buffers{{pool=\"direct\"}} {value}\n")).collect()
}

const LIMIT: &str = "-XX:MaxDirectMemorySize=1000000000\n";

/// A dump in which each size is a buffer that a request handler keeps.
fn dump(sizes: &[u64], books: Books) -> Heap {
    let mut heap = Heap { objects: 1, ..Heap::default() };
    for (index, size) in sizes.iter().enumerate() {
        heap.threads.push(thread(&format!("data-plane-kafka-request-handler-{index}")));
        heap.allocations.push(buffer(*size, Held::Cached(Some(index)), books));
    }
    let sum = if books == Books::Direct { sizes.iter().sum() } else { 0 };
    heap.statics.direct = Some(Pool {
        used_bytes: sum,
        capacity_bytes: sum,
        count: if sum > 0 { sizes.len() as u64 } else { 0 },
    });
    heap.statics.max_direct_bytes = Some(1_000_000_000);
    heap
}

#[test]
fn levels_are_held_against_the_highest_value_of_all() {
    for (values, outcomes) in [
        (&[100_000_000, 699_999_999, 5][..], [Outcome::Passes, Outcome::Passes, Outcome::Passes]),
        (&[700_000_000, 5], [Outcome::Fails, Outcome::Passes, Outcome::Passes]),
        (&[5, 899_999_999], [Outcome::Fails, Outcome::Fails, Outcome::Passes]),
        (&[900_000_000], [Outcome::Fails; 3]),
        (&[u64::MAX], [Outcome::Fails; 3]),
    ] {
        let verification = judged(&[&used(values), LIMIT], None, &Options::default());
        let seen: Vec<_> = verification.checks.iter().take(3).map(|check| check.outcome).collect();
        assert_eq!(seen, outcomes, "{values:?}");
    }
    let lacks_limit = judged(&[&used(&[5])], None, &Options::default());
    assert_eq!(lacks_limit.checks[0].outcome, Outcome::NotJudged);
    let given = Options { limit_bytes: Some(10), ..Options::default() };
    assert_eq!(judged(&[&used(&[5])], None, &given).checks[0].outcome, Outcome::Passes);
    assert_eq!(judged(&[LIMIT], None, &Options::default()).checks[0].outcome, Outcome::NotJudged);
}

#[test]
fn a_dump_counts_as_a_scrape() {
    let heap = dump(&[720_000_000], Books::Direct);
    let verification = judged(&[&used(&[5])], Some(&heap), &Options::default());
    assert_eq!(verification.checks[0].outcome, Outcome::Fails);
    assert!(verification.checks[0].numbers.contains(&("used_bytes", 720_000_000)));
    assert_eq!(verification.checks[1].outcome, Outcome::Passes);
}

#[test]
fn growth_is_that_of_the_later_half() {
    let id = "direct-pool-growth";
    assert_eq!(outcome(id, &[&used(&[500, 100, 490, 510]), LIMIT], None), Outcome::Passes);
    assert_eq!(outcome(id, &[&used(&[1, 2, 10_000_001]), LIMIT], None), Outcome::Passes);
    assert_eq!(outcome(id, &[&used(&[1, 2, 10_000_002]), LIMIT], None), Outcome::Fails);
    assert_eq!(outcome(id, &[&used(&[1, 10_000_002]), LIMIT], None), Outcome::NotJudged);
    let strict = Options { tolerance_bytes: Some(0), ..Options::default() };
    let verification = judged(&[&used(&[1, 2, 2]), LIMIT], None, &strict);
    assert_eq!(verification.checks[3].outcome, Outcome::Fails);
    // Files without a time of their own cannot be put in order.
    let files = [used(&[9_000_000_000]), used(&[1]), used(&[2])];
    let texts: Vec<_> = files.iter().map(String::as_str).chain([LIMIT]).collect();
    assert_eq!(outcome(id, &texts, None), Outcome::NotJudged);
    let timed = Options { file_times: vec![Some(3), Some(1), Some(2)], ..Options::default() };
    assert_eq!(judged(&texts, None, &timed).checks[3].outcome, Outcome::Fails);
    let timed = Options { file_times: vec![Some(1), Some(3), Some(2)], ..Options::default() };
    assert_eq!(judged(&texts, None, &timed).checks[3].outcome, Outcome::Passes);
}

#[test]
fn the_number_of_buffers_is_bounded() {
    let id = "direct-buffer-count";
    assert_eq!(outcome(id, &[&count(&[100, 90, 116])], None), Outcome::Passes);
    assert_eq!(outcome(id, &[&count(&[100, 90, 117])], None), Outcome::Fails);
    assert_eq!(outcome(id, &[&count(&[100, 90])], None), Outcome::NotJudged);
    assert_eq!(outcome(id, &[&used(&[1, 2, 3])], None), Outcome::NotJudged);
}

#[test]
fn buffers_in_no_pool_count_from_jdk_24_on() {
    let id = "uncounted-buffers";
    assert_eq!(outcome(id, &["java.version=17.0.15\n"], None), Outcome::Passes);
    assert_eq!(outcome(id, &["java.version=25.0.3\n", LIMIT], None), Outcome::NotJudged);
    assert_eq!(outcome(id, &[&used(&[5]), LIMIT], None), Outcome::NotJudged);
    let (small, large) = (dump(&[5], Books::None), dump(&[900_000_000], Books::None));
    assert_eq!(outcome(id, &["java.version=25.0.3\n"], Some(&small)), Outcome::Passes);
    assert_eq!(outcome(id, &["java.version=25.0.3\n"], Some(&large)), Outcome::Fails);
    let native = "Native Memory Tracking:\nTotal: reserved=2000000KB, committed=900000KB\n\
                  -                     Other (reserved=900000KB, committed=900000KB)\n";
    assert_eq!(outcome(id, &["java.version=25.0.3\n", native, LIMIT], None), Outcome::Fails);
    let skipping = Options { skipped: vec!["cached-buffer-setting".into()], ..Options::default() };
    let verification = judged(&[&used(&[5]), LIMIT, "java.version=25.0.3\n"], None, &skipping);
    assert_eq!(verification.verdict(), Verdict::TooLittle, "the pool alone proves nothing on JDK 25");
}

#[test]
fn failures_count_from_the_given_moment_on() {
    let id = "no-reservation-failures";
    let log = |times: &[&str]| -> String {
        times
            .iter()
            .map(|time| {
                format!(
                    "[2026-11-30 {time},100] ERROR x (kafka.network.Processor)\njava.lang.OutOfMemoryError: Cannot reserve 9 \
                     bytes of direct buffer memory (allocated: 1, limit: 2)\n"
                )
            })
            .collect()
    };
    let fine = "[2026-11-30 12:00:00,000] INFO fine (kafka.server.KafkaServer)\n";
    let at = |since: &str| Options { since_ms: moment_ms(since), ..Options::default() };
    let of = |text: &str, since: &str| judged(&[text], None, &at(since)).checks[6].outcome;
    assert_eq!(outcome(id, &[fine], None), Outcome::Passes);
    assert_eq!(outcome(id, &[&log(&["11:00:00"])], None), Outcome::Fails);
    assert_eq!(outcome(id, &[LIMIT], None), Outcome::NotJudged);
    let both = log(&["11:00:00"]) + fine;
    assert_eq!(of(&both, "2026-11-30 11:30:00"), Outcome::Passes);
    assert_eq!(of(&both, "2026-11-30T10:59:00"), Outcome::Fails);
    assert_eq!(of(&both, "2026-11-30 13:00:00"), Outcome::NotJudged, "the log ends before");
    // A clock that was set back: the later failure counts, wherever it stands.
    assert_eq!(of(&log(&["11:40:00", "11:00:00"]), "2026-11-30 11:30:00"), Outcome::Fails);
    let timeless = "java.lang.OutOfMemoryError: Cannot reserve 9 bytes of direct buffer memory (allocated: 1, limit: 2)\n";
    assert_eq!(of(timeless, "2026-11-30 11:30:00"), Outcome::NotJudged);
    assert_eq!(moment_ms("yesterday"), None);
}

#[test]
fn the_cap_is_in_force_only_as_the_jdk_reads_it() {
    let id = "cached-buffer-setting";
    let set = |text: &str| format!("VM Arguments:\njvm_args: -Xmx1g {text} -server\n");
    let of = |text: &str| outcome(id, &[&set(text)], None);
    assert_eq!(of("-Djdk.nio.maxCachedBufferSize=1048576"), Outcome::Passes);
    for trap in [
        "-Djdk.nio.maxCachedBufferSize=1m",
        "-Djdk.nio.maxCachedBufferSize=-1",
        "-Djdk.nio.maxCachedBuffersize=1048576",
        "-Dnothing=1",
    ] {
        assert_eq!(of(trap), Outcome::Fails, "{trap}");
    }
    assert_eq!(outcome(id, &[LIMIT], None), Outcome::NotJudged);
    // What the JVM itself has in its field outranks what was written.
    let mut heap = dump(&[5], Books::Direct);
    heap.statics.max_cached_buffer_bytes = Some(i64::MAX as u64);
    assert_eq!(outcome(id, &[&set("-Djdk.nio.maxCachedBufferSize=1m")], Some(&heap)), Outcome::Fails);
    heap.statics.max_cached_buffer_bytes = Some(1 << 20);
    assert_eq!(outcome(id, &[], Some(&heap)), Outcome::Passes);
}

#[test]
fn no_thread_keeps_more_than_the_cap() {
    let id = "thread-buffer-size";
    let mut heap = dump(&[1 << 20, 5], Books::Direct);
    assert_eq!(outcome(id, &[], Some(&heap)), Outcome::NotJudged, "there is no cap");
    heap.statics.max_cached_buffer_bytes = Some(1 << 20);
    assert_eq!(outcome(id, &[], Some(&heap)), Outcome::Passes);
    heap.condition.truncated = Some(7);
    heap.statics.direct = None;
    assert_eq!(outcome(id, &[], Some(&heap)), Outcome::NotJudged, "a dump that is cut off proves nothing");
    heap.statics.max_cached_buffer_bytes = Some((1 << 20) - 1);
    assert_eq!(outcome(id, &[], Some(&heap)), Outcome::Fails, "but what is there is too large");
    assert_eq!(outcome(id, &[LIMIT], None), Outcome::NotJudged);
}

#[test]
fn what_the_settings_let_threads_keep_fits() {
    let id = "kept-fits-limit";
    let properties = "listeners=PLAINTEXT://:9092\nnum.network.threads=80\n";
    let cap = "VM Arguments:\njvm_args: -Xmx1g -Djdk.nio.maxCachedBufferSize=1048576\n";
    assert_eq!(outcome(id, &[properties, LIMIT], None), Outcome::Fails);
    assert_eq!(outcome(id, &[properties, LIMIT, cap], None), Outcome::Passes);
    assert_eq!(outcome(id, &[properties], None), Outcome::NotJudged);
    assert_eq!(outcome(id, &[LIMIT], None), Outcome::NotJudged);
}

#[test]
fn explicit_collections_are_allowed() {
    let id = "explicit-gc-allowed";
    assert_eq!(outcome(id, &[LIMIT], None), Outcome::Passes);
    assert_eq!(outcome(id, &["-XX:MaxHeapSize=1024 -XX:+DisableExplicitGC\n"], None), Outcome::Fails);
    assert_eq!(outcome(id, &[&used(&[1])], None), Outcome::NotJudged);
}

#[test]
fn partial_evidence_is_no_pass() {
    let verdict = |texts: &[&str], options: &Options| judged(texts, None, options).verdict();
    let none = Options::default();
    assert_eq!(verdict(&[], &none), Verdict::TooLittle);
    assert_eq!(verdict(&[LIMIT], &none), Verdict::TooLittle, "one passes, but the pool was not seen");
    assert_eq!(verdict(&[&used(&[5]), LIMIT], &none), Verdict::Passes);
    assert_eq!(verdict(&[&used(&[900_000_000]), LIMIT], &none), Verdict::Fails);
    let all = Options { required: vec!["all".into()], ..Options::default() };
    assert_eq!(verdict(&[&used(&[5]), LIMIT], &all), Verdict::TooLittle);
    let skipping = Options { skipped: CHECKS.map(String::from).to_vec(), ..Options::default() };
    assert_eq!(verdict(&[&used(&[900_000_000]), LIMIT], &skipping), Verdict::TooLittle);
    let skipping = Options { skipped: vec!["direct-pool-below-70".into()], ..Options::default() };
    assert_eq!(verdict(&[&used(&[750_000_000]), LIMIT], &skipping), Verdict::Passes);
    assert_eq!([Verdict::Passes, Verdict::Fails, Verdict::TooLittle].map(Verdict::exit_code), [0, 3, 4]);
}

#[test]
fn hostile_values_have_clear_results() {
    let hostile = |values: &[&str]| -> String {
        values
            .iter()
            .map(|value| format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {value}\n"))
            .collect()
    };
    let of =
        |values: &[&str]| judged(&[&hostile(values), LIMIT], None, &Options::default()).checks.swap_remove(0);
    let check = of(&["NaN", "+Inf", "-Inf", "-5"]);
    assert_eq!(check.outcome, Outcome::NotJudged);
    assert!(check.says.en.contains("4 values are no number of bytes"), "{check:?}");
    assert_eq!(of(&["1e308", "5"]).outcome, Outcome::Fails);
    let check = of(&["NaN", "5"]);
    assert_eq!(check.outcome, Outcome::Passes);
    assert!(check.says.en.contains("1 value is no number of bytes"), "{check:?}");
    let huge = Options { tolerance_bytes: Some(u64::MAX), ..Options::default() };
    let verification = judged(&[&hostile(&["0", "0", "1e308"]), "-XX:MaxDirectMemorySize=0\n"], None, &huge);
    assert_eq!(verification.checks[3].outcome, Outcome::Passes);
    assert!(verification.to_json(Language::Chinese)["checks"].is_array());
}

#[test]
fn the_worst_of_several_processes_counts() {
    let text: String = (1..=4)
        .map(|round| {
            format!(
                "jvm_buffer_pool_used_bytes{{pool=\"direct\",instance=\"a\"}} 5\n\
                 jvm_buffer_pool_used_bytes{{pool=\"direct\",instance=\"b\"}} {}\n",
                round * 200_000_000
            )
        })
        .collect();
    let verification = judged(&[&text, LIMIT], None, &Options::default());
    for at in [0, 1, 3] {
        let check = &verification.checks[at];
        assert!(check.outcome == Outcome::Fails && check.says.en.contains("instance=\"b\""), "{check:?}");
    }
    assert_eq!(verification.checks[2].outcome, Outcome::Passes);
}

/// The published figures of an incident: Kafka 3.9.2 on JDK 17 with -Xmx16G and no limit flag; 17,134,924,451 bytes in 595
/// buffers when 77,908,729 more were asked for. Its cure is a cap of 1 MiB.
#[test]
fn the_incident_fails_and_its_cure_passes() {
    let properties = "listeners=SASL://:9092,INTERNAL://:9093\n\
                      listener.security.protocol.map=SASL:SASL_PLAINTEXT,INTERNAL:PLAINTEXT\nnum.network.threads=40\n\
                      num.io.threads=40\nremote.log.storage.system.enable=true\nremote.log.reader.threads=200\n";
    let arguments = |more: &str| {
        format!(
            "VM Arguments:\njvm_args: -Xmx16G -Xms16G -XX:+UseG1GC {more} \njava_command: kafka.Kafka server.properties\n"
        )
    };
    let java = "7:\nOpenJDK 64-Bit Server VM version 17.0.7+7\nJDK 17.0.7\n";
    let before = [
        &(used(&[17_134_924_451; 3]) + &count(&[595; 3])),
        "[2026-08-01 10:00:00,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
         java.lang.OutOfMemoryError: Cannot reserve 77908729 bytes of direct buffer memory (allocated: 17134924451, limit: \
         17179869184)\n",
        &arguments("-Djdk.nio.maxCachedBufferSize=1m"),
        properties,
        java,
    ];
    let verification = judged(&before, None, &Options::default());
    let failed: Vec<_> = verification
        .checks
        .iter()
        .filter(|check| check.outcome == Outcome::Fails)
        .map(|check| check.id)
        .collect();
    let wanted = [
        "direct-pool-below-70",
        "direct-pool-below-80",
        "direct-pool-below-90",
        "no-reservation-failures",
        "cached-buffer-setting",
        "kept-fits-limit",
    ];
    assert_eq!(failed, wanted);
    assert!(verification.checks[0].says.en.contains("17,134,924,451 of 17,179,869,184 bytes, 99 %"));
    let after = [
        &(used(&[300_000_000, 310_000_000, 305_000_000]) + &count(&[590, 600, 595])),
        "[2026-08-02 10:00:00,100] INFO fine (kafka.server.KafkaServer)\n",
        &arguments("-Djdk.nio.maxCachedBufferSize=1048576"),
        properties,
        java,
    ];
    let verification = judged(&after, None, &Options::default());
    assert_eq!(verification.verdict(), Verdict::Passes, "{:#?}", verification.checks);
    let kept = verification.checks.iter().find(|check| check.id == "kept-fits-limit").unwrap();
    // 80 network threads, 40 handlers, 200 readers and a cleaner.
    assert!(kept.numbers.contains(&("kept_bytes", 321 << 20)), "{kept:?}");
}
