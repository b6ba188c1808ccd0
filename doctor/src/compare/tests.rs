//! What changed is told in exact bytes, and what cannot be told is said.

use std::path::Path;

use super::*;
use crate::account::Account;
use crate::findings::tests::{buffer, thread};
use crate::findings::{Language, Layout};
use crate::heap::{Heap, Held, Holder as Holding, Pool};
use crate::report::text_columns;

fn evidence(texts: &[&str]) -> Evidence {
    let mut evidence = Evidence::default();
    for (index, text) in texts.iter().enumerate() {
        evidence.read(Path::new(&format!("file-{index}")), text.as_bytes());
    }
    evidence
}

/// Compares texts and dumps; the output fits terminals in both languages.
fn compared(before: (&[&str], Option<&Heap>), after: (&[&str], Option<&Heap>)) -> Comparison {
    let texts = [evidence(before.0), evidence(after.0)];
    let accounts = [before.1.map(Account::of), after.1.map(Account::of)];
    let dumps: Vec<Vec<Dump<'_>>> = [before.1, after.1]
        .into_iter()
        .zip(&accounts)
        .map(|(heap, account)| {
            let pair = heap.zip(account.as_ref());
            Vec::from_iter(pair.map(|(heap, account)| Dump { path: Path::new("heap.hprof"), heap, account }))
        })
        .collect();
    let comparison = compare(&Side::of(&texts[0], &dumps[0]), &Side::of(&texts[1], &dumps[1]));
    for language in [Language::English, Language::Chinese] {
        for width in [40, 60, 100] {
            let text = comparison_text(&comparison, Layout { width, colour: false, language });
            for row in text.lines() {
                assert!(text_columns(row) <= width, "{width}: {row}");
            }
        }
        assert!(comparison_json(&comparison, language)["figures"].is_array());
    }
    comparison
}

fn english(comparison: &Comparison) -> String {
    comparison_text(comparison, Layout { width: 100, colour: false, language: Language::English })
}

/// A dump with buffers kept by named threads.
fn dump(kept: &[(&str, &[u64])]) -> Heap {
    let mut heap = Heap { objects: 1, ..Heap::default() };
    for (index, (name, sizes)) in kept.iter().enumerate() {
        heap.threads.push(thread(name));
        let buffers = sizes.iter().map(|size| buffer(*size, Held::Cached(Some(index)), Books::Direct));
        heap.allocations.extend(buffers);
    }
    let sum = kept.iter().flat_map(|(_, sizes)| *sizes).sum();
    let count = kept.iter().map(|(_, sizes)| sizes.len() as u64).sum();
    heap.statics.direct = Some(Pool { used_bytes: sum, capacity_bytes: sum, count });
    heap.statics.max_direct_bytes = Some(1 << 30);
    heap
}

fn figure(comparison: &Comparison, id: &str) -> Option<Pair> {
    comparison.figures.iter().find(|figure| figure.id == id).map(|figure| figure.pair)
}

const HANDLER_0: &str = "data-plane-kafka-request-handler-0";
const HANDLER_1: &str = "data-plane-kafka-request-handler-1";
const NETWORK: &str = "data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-0";

#[test]
fn two_dumps_compare_by_role_and_thread_whatever_their_order() {
    let before = dump(&[(HANDLER_0, &[100, 20]), (NETWORK, &[1_000_000]), (HANDLER_1, &[50])]);
    let after = dump(&[(NETWORK, &[400]), (HANDLER_1, &[50]), (HANDLER_0, &[])]);
    let comparison = compared((&[], Some(&before)), (&[], Some(&after)));
    let names: Vec<_> = comparison.groups.iter().map(|group| group.label.en.as_str()).collect();
    assert_eq!(names, ["network PLAINTEXT", "request handlers"]);
    let network = &comparison.groups[0];
    assert_eq!((network.sum_bytes.before, network.sum_bytes.after), (1_000_000, 400));
    let handlers = &comparison.groups[1];
    assert_eq!(handlers.sum_bytes, Pair { before: 170, after: 50 });
    assert_eq!(handlers.max_bytes, Pair { before: 120, after: 50 });
    assert_eq!(handlers.buffers, Pair { before: 3, after: 1 });
    assert_eq!(handlers.threads, Pair { before: 2, after: 2 });
    assert_eq!(handlers.threads_with_bytes, Pair { before: 2, after: 1 });
    assert_eq!(figure(&comparison, "direct_bytes"), Some(Pair { before: 1_000_170, after: 450 }));
    assert_eq!(figure(&comparison, "left_bytes").unwrap().change(), 999_720);
    let threads: Vec<_> = comparison.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(threads, [NETWORK, HANDLER_0, HANDLER_1], "by the size of the change");
    let text = english(&comparison);
    assert!(
        text.contains("Direct memory went from 1,000,170 to 450 bytes: -999,720 (-976.29 KiB)."),
        "{text}"
    );
    assert!(text.contains("1,000,000") && text.contains("-999,600"), "{text}");
}

#[test]
fn owners_and_mapped_files_compare_by_name() {
    let held = |owner: &str| Held::Objects(Holding { owner: owner.into(), ..Holding::default() });
    let mapped = |name: &str, bytes| {
        let mut map = buffer(bytes, held("kafka.log.Index.mmap"), Books::Mapped);
        map.file = Some(name.to_owned());
        map
    };
    let (mut before, mut after) = (dump(&[]), dump(&[]));
    before.allocations.push(buffer(70, held("a.Pool.chunks"), Books::Direct));
    before.allocations.push(mapped("/d/t-0/0.index", 10_485_760));
    after.allocations.push(buffer(30, held("a.Pool.chunks"), Books::Direct));
    after.allocations.push(buffer(30, held("b.New.buffer"), Books::Direct));
    after.allocations.push(mapped("/d/t-1/0.index", 12));
    // A partition whose log directory has moved.
    before.allocations.push(mapped("/old/t-2/0.index", 5));
    after.allocations.push(mapped("/new/t-2/0.index", 5));
    let comparison = compared((&[], Some(&before)), (&[], Some(&after)));
    let owners: Vec<_> =
        comparison.owners.iter().map(|owner| (owner.name.as_str(), owner.bytes.change())).collect();
    assert_eq!(owners, [("a.Pool.chunks", -40), ("b.New.buffer", 30)]);
    let files: Vec<_> =
        comparison.mapped_files.iter().map(|file| (file.name.as_str(), file.bytes.change())).collect();
    assert_eq!(files, [("t-0/0.index", -10_485_760), ("t-1/0.index", 12), ("t-2/0.index", 0)]);
    assert_eq!(comparison.kinds[0].class, Class::Mapped);
    // Two log directories with the same partition: only whole paths tell them apart.
    after.allocations.push(mapped("/other/t-2/0.index", 6));
    let comparison = compared((&[], Some(&before)), (&[], Some(&after)));
    assert!(comparison.mapped_files.iter().any(|file| file.name == "/other/t-2/0.index"));
}

#[test]
fn metrics_alone_compare_and_the_rest_is_said_to_be_missing() {
    let metrics = |used: u64, count: u64| {
        format!(
            "jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {used}\njvm_buffer_pool_used_buffers{{pool=\"direct\"}} {count}\n"
        )
    };
    let (one, other) = (metrics(u64::MAX, 5), metrics(7, 9));
    let comparison = compared((&[&one], None), (&[&other, "-XX:MaxDirectMemorySize=100\n"], None));
    assert_eq!(figure(&comparison, "direct_bytes"), Some(Pair { before: u64::MAX, after: 7 }));
    assert_eq!(figure(&comparison, "direct_buffers").unwrap().change(), 4);
    assert_eq!(figure(&comparison, "limit_bytes"), None);
    let gap = |what: &str| {
        comparison.gaps.iter().find(|gap| gap.what.en.contains(what)).map(|gap| gap.why.en.as_str())
    };
    assert_eq!(gap("heap dump"), Some("neither capture has one"));
    assert_eq!(gap("limit of the pool"), Some("BEFORE has none"));
    assert_eq!(gap("flags"), Some("BEFORE has none"));
    assert!(english(&comparison).contains("-18,446,744,073,709,551,608"));
}

#[test]
fn a_dump_and_a_metric_of_the_same_pool_are_comparable() {
    let before = dump(&[(HANDLER_0, &[100])]);
    let after = "jvm_buffer_pool_used_bytes{pool=\"direct\"} 60\n";
    let comparison = compared((&[], Some(&before)), (&[after], None));
    assert_eq!(figure(&comparison, "direct_bytes"), Some(Pair { before: 100, after: 60 }));
    let direct = &comparison.figures[0];
    assert!(direct.before_from[0].says.en.contains("java.nio.Bits"), "{direct:?}");
    assert_eq!(direct.after_from[0].line, 1);
    assert!(comparison.gaps.iter().any(|gap| gap.why.en == "AFTER has none"), "{:?}", comparison.gaps);
}

#[test]
fn settings_that_differ_are_named_and_secrets_are_not_shown() {
    let before = [
        "-XX:MaxHeapSize=1024 -XX:+DisableExplicitGC\n",
        "socket.request.max.bytes=5\nssl.key.password=geheim1\nnum.io.threads=8\nlistener.name.a.plain.sasl.jaas.config=geheim3\n",
        "java.version=17\njavax.net.ssl.keyStorePassword=geheim4\n",
    ];
    let after = [
        "-XX:MaxHeapSize=1024 -XX:MaxDirectMemorySize=7\n",
        "socket.request.max.bytes=6\nssl.key.password=geheim2\nnum.io.threads=8\n",
        "java.version=17\njdk.nio.maxCachedBufferSize=1048576\njavax.net.ssl.keyStorePassword=geheim5\n",
    ];
    let comparison = compared((&before, None), (&after, None));
    let find = |name: &str| {
        let setting = comparison.settings.iter().find(|setting| setting.name == name);
        setting.map(|setting| (setting.before.as_deref(), setting.after.as_deref()))
    };
    assert_eq!(find("MaxDirectMemorySize"), Some((None, Some("7"))));
    assert_eq!(find("DisableExplicitGC"), Some((Some("true"), None)));
    assert_eq!(find("MaxHeapSize"), None);
    assert_eq!(find("socket.request.max.bytes"), Some((Some("5"), Some("6"))));
    assert_eq!(find("ssl.key.password"), Some((Some("(hidden)"), Some("(hidden)"))));
    assert_eq!(find("jdk.nio.maxCachedBufferSize"), Some((None, Some("1048576"))));
    assert_eq!(find("num.io.threads"), None);
    let shown = english(&comparison) + &comparison_json(&comparison, Language::English).to_string();
    assert!(!shown.contains("geheim"), "{shown}");
    // The one that matters stands before those that only differ.
    assert!(shown.find("MaxDirectMemorySize: (not set) -> 7") < shown.find("ssl.key.password"), "{shown}");
}

#[test]
fn findings_are_gone_new_or_unknown_for_want_of_evidence() {
    let log = "java.lang.OutOfMemoryError: Cannot reserve 100 bytes of direct buffer memory (allocated: 1073741800, limit: 1073741824)\n";
    let fine = "[2026-11-30 11:57:23,123] INFO fine (kafka.server.KafkaServer)\n";
    let flags = "-XX:MaxHeapSize=1073741824 -XX:+DisableExplicitGC \n";
    let fates = |before: &[&str], after: &[&str]| -> Vec<(&'static str, Fate)> {
        compared((before, None), (after, None))
            .findings
            .iter()
            .map(|change| (change.id, change.fate))
            .collect()
    };
    let seen = fates(&[log, flags], &[fine, "-XX:MaxHeapSize=1073741824\n"]);
    assert!(seen.contains(&("direct-memory-exhausted", Fate::Gone)), "{seen:?}");
    assert!(seen.contains(&("explicit-gc-disabled", Fate::Gone)), "{seen:?}");
    let seen = fates(&[log, flags], &[flags]);
    assert!(seen.contains(&("direct-memory-exhausted", Fate::Unknown)), "{seen:?}");
    assert!(seen.contains(&("explicit-gc-disabled", Fate::Remains)), "{seen:?}");
    let seen = fates(&[fine], &[log]);
    assert!(seen.contains(&("direct-memory-exhausted", Fate::New)), "{seen:?}");
}

#[test]
fn a_damaged_dump_is_said_to_prove_less() {
    let (mut before, after) = (dump(&[(HANDLER_0, &[100])]), dump(&[(HANDLER_0, &[100])]));
    before.condition.truncated = Some(9);
    before.statics.direct = None;
    let comparison = compared((&[], Some(&before)), (&[], Some(&after)));
    let doubt = comparison
        .gaps
        .iter()
        .find(|gap| gap.what.en.contains("BEFORE: numbers are at least these [threads]"));
    assert!(doubt.is_some_and(|gap| gap.why.en.contains("cut off")), "{:?}", comparison.gaps);
}

#[test]
fn nothing_compares_with_nothing() {
    let comparison = compared((&[], None), (&[], None));
    assert!(comparison.figures.is_empty() && comparison.findings.is_empty());
    assert!(comparison.gaps.iter().any(|gap| gap.why.en == "neither capture has one"));
}
