//! A published incident, rebuilt as evidence from its figures: the report comes to the same conclusions, in exact bytes.
//!
//! Kafka 3.9.2 on JDK 17 with `-Xmx16G` and no limit of direct memory; 200 readers of tiered storage, 40 network threads of
//! a SASL listener, 40 request handlers, 76 replica fetchers. A request of 77,908,729 bytes met 44,944,733 bytes that were
//! left. The written report summed the readers of its re-check up to "5.77 GiB", which are GB.

use std::path::Path;

use weir_doctor::account::{Account, Class};
use weir_doctor::evidence::Evidence;
use weir_doctor::findings::{Dump, Finding, Language, Severity, diagnose, human};
use weir_doctor::heap::{Heap, Options, Progress};
use weir_doctor::hprof::Origin;
use weir_doctor::jvm_plan::{JvmInputs, jvm_plan};
use weir_doctor::report;

use super::writer::{Bits, Broker, Shape, Value};

/// The limit: the heap's, 16 GiB.
const LIMIT: u64 = 17_179_869_184;
/// The pool when the request failed: 595 buffers, one of them empty, for which the JVM reserves a byte.
const POOL: Bits = Bits { limit: LIMIT, reserved: 17_134_924_451, capacity: 17_134_924_450, count: 595 };
const REQUEST: u64 = 77_908_729;
/// Buffers that have an owner, and their bytes.
const OWNERS: (u64, u64) = (592, 17_137_743_183);
/// Those of them that threads keep.
const CACHED: u64 = 589;
/// Threads with a cache, the empty ones too.
const CACHES: u64 = 430;
/// One produce request, where it was received and where its batch was written.
const RECEIVED: u64 = 79_159_409;
const WRITTEN: u64 = 79_159_345;
const FETCH_MAX_BYTES: u64 = 57_671_680;

/// Sizes from `low` on that come to `sum`, as even as whole numbers allow.
fn even(count: u64, sum: u64) -> Vec<u64> {
    (0..count).map(|at| sum / count + u64::from(at < sum % count)).collect()
}

/// The readers: a whole fetch less its first batch, of 612 to 1,824 bytes.
fn readers() -> Vec<u64> {
    (0..200).map(|at| 57_669_856 + at * 1_212 / 199).collect()
}

/// The network threads: 230 buffers in 40 threads, 168.7 MiB in the three of the first one.
fn processors() -> Vec<Vec<u64>> {
    let first = vec![RECEIVED, REQUEST - 1, 19_827_000];
    let rest = even(227, 3_274_912_563 - first.iter().sum::<u64>());
    let mut threads = vec![first];
    threads.extend((0..39).map(|at| rest.iter().skip(at).step_by(39).copied().collect::<Vec<_>>()));
    threads
}

fn handlers() -> Vec<u64> {
    let mut sizes = vec![WRITTEN];
    sizes.extend(even(39, 1_900_523_028 - WRITTEN));
    sizes
}

fn fetchers() -> Vec<u64> {
    even(76, 412_090_368)
}

/// The dump before the cure, or after it: half as many readers.
fn dump(readers: &[u64]) -> Vec<u8> {
    let mut broker = Broker::new(8);
    for (at, size) in readers.iter().enumerate() {
        broker.thread(&format!("remote-log-reader{at}"), &[*size]);
    }
    for (at, sizes) in processors().iter().enumerate() {
        broker.thread(
            &format!("data-plane-kafka-network-thread-3-ListenerName(SASL)-SASL_PLAINTEXT-{at}"),
            sizes,
        );
    }
    for (at, size) in handlers().iter().enumerate() {
        broker.thread(&format!("data-plane-kafka-request-handler-{at}"), &[*size]);
    }
    for (at, size) in fetchers().iter().enumerate() {
        broker.thread(&format!("ReplicaFetcherThread-{}-{}", at % 4, at / 4), &[*size]);
    }
    // 43 threads with little, 31 that kept nothing, and three buffers of plugins.
    let held = [8_388_608, 2_097_152, 1_510_660];
    let others =
        OWNERS.1 - 11_534_092_301 - 3_274_912_563 - 1_900_523_028 - 412_090_368 - held.iter().sum::<u64>();
    for (at, size) in even(43, others).iter().enumerate() {
        broker.thread(&format!("pool-7-thread-{at}"), &[*size]);
    }
    for at in 0..31 {
        broker.thread(&format!("executor-{at}"), &[]);
    }
    for size in held {
        let buffer = broker.buffer(size);
        let holder = broker.w.new_id();
        broker.w.instance(holder, "app/Node", &[Value::Ref(buffer), Value::Ref(0)]);
        broker.w.sticky(holder);
    }
    if readers.len() == 200 {
        broker.bits = POOL;
    } else {
        broker.bits.limit = LIMIT;
    }
    broker.finish().finish(Shape::JDK_17)
}

fn read(bytes: Vec<u8>) -> (Heap, Account) {
    let origin = Origin::of_bytes(Path::new("heap.hprof"), bytes);
    let heap = Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap();
    let account = Account::of(&heap);
    (heap, account)
}

const LOG: &str = "[2026-08-01 10:00:00,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
    java.lang.OutOfMemoryError: Cannot reserve 77908729 bytes of direct buffer memory (allocated: 17134924451, limit: 17179869184)\n\
    \tat java.base/java.nio.Bits.reserveMemory(Bits.java:178)\n\
    \tat java.base/java.nio.DirectByteBuffer.<init>(DirectByteBuffer.java:121)\n\
    \tat java.base/java.nio.ByteBuffer.allocateDirect(ByteBuffer.java:332)\n\
    \tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\
    \tat java.base/sun.nio.ch.IOUtil.read(IOUtil.java:293)\n\
    \tat kafka.network.Processor.poll(SocketServer.scala:1107)\n";
const COMMAND_LINE: &str = "VM Arguments:\njvm_args: -Xmx16G -Xms16G -XX:+UseG1GC -XX:+ExplicitGCInvokesConcurrent \n\
    java_command: kafka.Kafka server.properties\n";
const VERSION: &str = "OpenJDK 64-Bit Server VM version 17.0.7+7\nJDK 17.0.7\n";
const METRICS: &str = "jvm_buffer_pool_used_bytes{pool=\"direct\",} 1.7134924451E10\n\
    jvm_buffer_pool_capacity_bytes{pool=\"direct\",} 1.713492445E10\njvm_buffer_pool_used_buffers{pool=\"direct\",} 595.0\n";
const HISTOGRAM: &str = " num     #instances         #bytes  class name (module)\n\
    -------------------------------------------------------\n   1:          5440         391680  java.nio.DirectByteBuffer (java.base@17.0.7)\n\
    \u{20}  2:          1672         120384  java.nio.DirectByteBufferR (java.base@17.0.7)\n\
    \u{20}  3:           590          18880  java.nio.DirectByteBuffer$Deallocator (java.base@17.0.7)\n\
    \u{20}  4:           430          10320  sun.nio.ch.Util$BufferCache (java.base@17.0.7)\nTotal          8132         541264\n";
const PROPERTIES: &str = "listeners=SASL://:9092,INTERNAL://:9093\nlistener.security.protocol.map=SASL:SASL_PLAINTEXT,INTERNAL:PLAINTEXT\nnum.network.threads=40\n\
    num.io.threads=40\nnum.replica.fetchers=4\nremote.log.storage.system.enable=true\nremote.log.reader.threads=200\n";

fn find<'f>(findings: &'f [Finding], id: &str) -> &'f Finding {
    findings.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {findings:#?}"))
}

#[test]
fn the_account_names_the_threads_and_the_bytes_of_the_incident() {
    let (heap, account) = read(dump(&readers()));
    let cached = account.sum(Class::Cached);
    assert_eq!((account.direct.found.count, account.direct.found.bytes), OWNERS);
    assert_eq!((cached.count, cached.bytes), (CACHED, 17_125_746_763));
    assert_eq!(cached.bytes * 10_000 / OWNERS.1, 9_993, "99.93 %");
    assert_eq!(heap.threads.iter().map(|thread| thread.caches).sum::<u32>() as u64, CACHES);
    assert_eq!(account.limit_bytes, Some(LIMIT));
    let counted = account.direct.counted.unwrap();
    assert_eq!((counted.used_bytes, counted.count), (POOL.reserved, POOL.count));
    assert_eq!(LIMIT - counted.used_bytes, 44_944_733);
    // A reservation is held against the capacity, which is a byte less.
    assert_eq!(LIMIT - counted.capacity_bytes, 44_944_734);
    // The pool was read at another moment than the dump was taken, and that is shown.
    assert!(!account.direct.is_exact());
    let json = report::json(&heap, &account, Language::English);
    assert_eq!(json["direct"]["difference"]["bytes"], -2_818_732);
    assert_eq!(json["direct"]["difference"]["buffers"], 3);
    let groups: Vec<_> = account
        .groups
        .iter()
        .take(4)
        .map(|group| (group.name(), group.threads, group.buffers, group.spread.sum, human(group.spread.sum)))
        .collect();
    let expected = [
        ("remote-log readers", 200, 200, 11_534_092_301, "10.74 GiB"),
        ("network SASL", 40, 230, 3_274_912_563, "3.05 GiB"),
        ("request handlers", 40, 40, 1_900_523_028, "1.77 GiB"),
        ("replica fetchers", 76, 76, 412_090_368, "393.00 MiB"),
    ];
    let expected = expected
        .map(|(name, threads, buffers, sum, size)| (name.to_owned(), threads, buffers, sum, size.to_owned()));
    assert_eq!(groups, expected);
    let readers = &account.groups[0].spread;
    assert_eq!((readers.min, readers.max), (57_669_856, 57_671_068));
    assert_eq!(human(account.groups[1].spread.max), "168.70 MiB");
    let text = report::text(&heap, &account, report::Layout::default());
    for part in
        ["11,534,092,301", "10.74 GiB", "3,274,912,563", "3.05 GiB", "-2,818,732 bytes", "left 44,944,734"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_report_comes_to_the_conclusions_of_the_incident() {
    let (heap, account) = read(dump(&readers()));
    let mut evidence = Evidence::default();
    for (name, text) in [
        ("server.log", LOG),
        ("command_line", COMMAND_LINE),
        ("version", VERSION),
        ("metrics", METRICS),
        ("histogram", HISTOGRAM),
        ("server.properties", PROPERTIES),
    ] {
        evidence.read(Path::new(name), text.as_bytes());
    }
    assert!(
        evidence.files.iter().all(|file| !file.kinds.is_empty() && file.problems.is_empty()),
        "{:?}",
        evidence.files
    );
    let findings =
        diagnose(&evidence, &[Dump { path: Path::new("heap.hprof"), heap: &heap, account: &account }]);
    let exhausted = find(&findings, "direct-memory-exhausted");
    assert_eq!(
        exhausted.title.en,
        "Direct memory is exhausted: 77,908,729 bytes were asked for, 44,944,733 of 16.00 GiB were left"
    );
    assert!(exhausted.cause.en.contains("network threads"), "{exhausted:?}");
    let limit = find(&findings, "limit-in-force");
    assert!(limit.title.en.contains("17,179,869,184") && limit.cause.en.contains("is not set"), "{limit:?}");
    let kept = find(&findings, "thread-buffers");
    assert_eq!(kept.severity, Severity::Critical);
    assert!(
        kept.title.en.contains("15.95 GiB (17,125,746,763 bytes) of direct memory in 589 buffers"),
        "{kept:?}"
    );
    // Why the sizes are what they are.
    assert!(
        kept.cause.en.contains("79,159,409 where it was received")
            || kept.cause.en.contains("79,159,409 bytes where it was received"),
        "{kept:?}"
    );
    assert!(kept.cause.en.contains("64 bytes of header apart"), "{kept:?}");
    assert!(
        kept.cause.en.contains("200 of 200 buffers of remote-log readers have the size of a whole fetch"),
        "{kept:?}"
    );
    let says: Vec<_> = kept.evidence.iter().map(|proof| proof.says.en.as_str()).collect();
    assert!(
        says.contains(
            &"remote-log readers: 200 of 200 threads, 11,534,092,301 bytes (10.74 GiB), the largest 57,671,068"
        ),
        "{says:?}"
    );
    // The cure: what a cap frees, and what half the readers give back.
    let frees: Vec<_> = kept.remedies.iter().filter_map(|remedy| remedy.frees_bytes).collect();
    assert!(frees.contains(&(11_534_092_301 / 2)), "{frees:?}");
    assert!(frees[0] > 17_000_000_000, "{frees:?}");
    // Nothing gives back more than there is.
    let most = findings.iter().map(weir_doctor::findings::Finding::frees_bytes).max().unwrap();
    assert!(most <= 17_134_924_451, "{most}");
    // What the woken-up operator reads first.
    assert_eq!(findings[0].id, "direct-memory-exhausted", "{findings:#?}");
    let headline = weir_doctor::findings::Headline::of(&findings);
    assert_eq!((&headline.what, headline.why.as_ref()), (&exhausted.title, Some(&kept.title)));
    let cure = headline.cure.unwrap();
    assert!(cure.action.en.contains("-Djdk.nio.maxCachedBufferSize=1048576"), "{cure:?}");
    assert_eq!(cure.frees_bytes, Some(frees[0]));
    let plan = find(&findings, "plan-over-limit");
    assert!(plan.cause.en.contains("remote-log readers: 200 × 57,671,680 = 11,534,336,000"), "{plan:?}");
    for absent in [
        "foreign-protocol",
        "explicit-gc-disabled",
        "uncounted-buffers",
        "direct-garbage",
        "cached-buffer-setting-ignored",
    ] {
        assert!(findings.iter().all(|finding| finding.id != absent), "{absent}: {findings:#?}");
    }
}

/// The written report has 5.77 GiB here: bytes divided by a thousand millions, under the name of another unit.
#[test]
fn the_re_check_is_5_767_168_000_bytes_which_are_5_37_gib() {
    let (heap, account) = read(dump(&[FETCH_MAX_BYTES; 100]));
    let readers = &account.groups[0];
    assert_eq!(
        (readers.name().as_str(), readers.threads, readers.spread.sum),
        ("remote-log readers", 100, 5_767_168_000)
    );
    let text = report::text(&heap, &account, report::Layout::default());
    assert!(text.contains("5,767,168,000    5.37 GiB") && !text.contains("5.77 GiB"), "{text}");
    let dump = Dump { path: Path::new("heap.hprof"), heap: &heap, account: &account };
    let findings = diagnose(&Evidence::default(), &[dump]);
    let says = &find(&findings, "thread-buffers").evidence[0].says.en;
    assert_eq!(
        says,
        "remote-log readers: 100 of 100 threads, 5,767,168,000 bytes (5.37 GiB), the largest 57,671,680"
    );
    let (properties, _) = weir_doctor::evidence::ServerProperties::parse(
        PROPERTIES.replace("reader.threads=200", "reader.threads=100").as_bytes(),
    );
    let plan = jvm_plan(&JvmInputs {
        properties: &properties,
        heap_bytes: LIMIT,
        direct_bytes: None,
        peers: 19,
        max_cached_buffer_bytes: None,
    });
    let readers = plan.terms.iter().find(|term| term.size_from.en == "fetch.max.bytes=57671680").unwrap();
    assert_eq!((readers.peak_bytes(), human(readers.peak_bytes()).as_str()), (5_767_168_000, "5.37 GiB"));
    // 19 peers with 4 fetchers each are the 76 threads of the incident.
    assert!(plan.terms.iter().any(|term| term.threads == 76));
}
