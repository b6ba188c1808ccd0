//! Figures that no JVM at hand shows: redacted ones, Netty's own, arenas of JDKs between 22 and 24.

use std::path::Path;

use weir_doctor::account::{Account, Class, Holds};
use weir_doctor::findings::Language;
use weir_doctor::heap::{Books, Heap, Held, Options, Progress};
use weir_doctor::hprof::Origin;
use weir_doctor::report;

use super::writer::{Shape, Value, Writer, broker, broker_without_numbers};

fn read(bytes: Vec<u8>) -> (Heap, Account) {
    let origin = Origin::of_bytes(Path::new("dump"), bytes);
    let heap = Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap();
    let account = Account::of(&heap);
    (heap, account)
}

#[test]
fn a_dump_whose_numbers_are_zeros_tells_no_size_and_says_so() {
    let (heap, account) = read(broker_without_numbers(8).finish(Shape::JDK_17));
    assert!(heap.condition.numbers_redacted && !heap.condition.names_redacted, "{:?}", heap.condition);
    assert!(heap.allocations.iter().all(|each| each.bytes == 0));
    assert!(heap.threads.iter().any(|thread| thread.name.as_deref() == Some("remote-log-reader7")));
    for id in ["pool", "sum", "threads"] {
        let conclusion = account.conclusions.iter().find(|each| each.id == id).unwrap();
        assert_eq!(conclusion.holds, Holds::No, "{id}");
    }
    let json = report::json(&heap, &account, Language::English);
    assert_eq!(json["dump"]["numbers_redacted"], true);
    assert_eq!(json["conclusive"], false);
}

#[test]
fn nettys_own_counters_are_read_wherever_it_was_packed_into() {
    let mut w = broker(8);
    let counter = w.new_id();
    w.instance(counter, "java/util/concurrent/atomic/AtomicLong", &[Value::Long(12_345)]);
    let fields =
        [("DIRECT_MEMORY_COUNTER", Value::Ref(counter)), ("DIRECT_MEMORY_LIMIT", Value::Long(67_890))];
    w.class("io/netty/util/internal/PlatformDependent", "java/lang/Object", &[], &fields);
    // One that counts nothing, under another name.
    let fields = [("DIRECT_MEMORY_COUNTER", Value::Ref(0)), ("DIRECT_MEMORY_LIMIT", Value::Long(u64::MAX))];
    w.class("org/shaded/io/netty/util/internal/PlatformDependent", "java/lang/Object", &[], &fields);
    let (heap, account) = read(w.finish(Shape::JDK_17));
    assert_eq!(heap.statics.netty.len(), 2);
    assert!(heap.statics.netty.contains(&(Some(12_345), Some(67_890))), "{:?}", heap.statics.netty);
    assert!(account.direct.is_exact());
    let json = report::json(&heap, &account, Language::English);
    assert_eq!(json["netty"][0], serde_json::json!({"used_bytes": 12_345, "limit_bytes": 67_890}));
}

/// Classes of `java.lang.foreign` as JDK 22 has them.
fn foreign_classes(w: &mut Writer) {
    let (l, i, j, z) = (2, 10, 11, 4);
    let object = "java/lang/Object";
    let of = |name: &str| format!("jdk/internal/foreign/{name}");
    w.class(&of("MemorySessionImpl"), object, &[("resourceList", l), ("owner", l), ("state", i)], &[]);
    w.class(&of("SharedSession"), &of("MemorySessionImpl"), &[], &[]);
    w.class(&of("GlobalSession"), &of("MemorySessionImpl"), &[], &[]);
    w.class(&of("MemorySessionImpl$ResourceList"), object, &[("fst", l)], &[]);
    w.class(&of("SharedSession$SharedResourceList"), &of("MemorySessionImpl$ResourceList"), &[], &[]);
    let cleanup = of("MemorySessionImpl$ResourceList$ResourceCleanup");
    w.class(&cleanup, object, &[("next", l)], &[]);
    let frees = [("val$buf", j), ("val$alignedSize", j), ("val$byteSize", j), ("val$shouldReserve", z)];
    w.class(&of("SegmentFactories$2"), &cleanup, &frees, &[]);
    w.class(&of("AbstractMemorySegmentImpl"), object, &[("length", j), ("scope", l)], &[]);
    w.class(&of("NativeMemorySegmentImpl"), &of("AbstractMemorySegmentImpl"), &[("min", j)], &[]);
    w.class("app/Cache", object, &[("segment", l)], &[]);
}

#[test]
fn arenas_of_other_jdks_are_accounted_for_and_closed_ones_are_not() {
    use Value::{Byte, Int, Long, Ref};
    let mut w = broker(8);
    foreign_classes(&mut w);
    let of = |name: &str| format!("jdk/internal/foreign/{name}");
    let session = |w: &mut Writer, first: u64, state: u32, kind: &str| {
        let (list, session) = (w.new_id(), w.new_id());
        w.instance(list, &of("SharedSession$SharedResourceList"), &[Ref(first)]);
        w.instance(session, &of(kind), &[Ref(list), Ref(0), Int(state)])
    };
    let cleanup = |w: &mut Writer, address: u64, size: u64, bytes: u64, reserve: u8, next: u64| {
        let id = w.new_id();
        let values = [Long(address), Long(size), Long(bytes), Byte(reserve), Ref(next)];
        w.instance(id, &of("SegmentFactories$2"), &values)
    };
    let segment = |w: &mut Writer, address: u64, length: u64, session: u64| {
        let id = w.new_id();
        w.instance(id, &of("NativeMemorySegmentImpl"), &[Long(address), Long(length), Ref(session)])
    };
    let hold = |w: &mut Writer, name: &str, segment: u64| {
        let cache = w.new_id();
        w.instance(cache, "app/Cache", &[Ref(segment)]);
        w.class(name, "java/lang/Object", &[], &[("CACHE", Ref(cache))]);
    };
    // Two allocations, one of them of a size that the JDK's own memory has no books for; a slice; a circle in the list.
    let second = cleanup(&mut w, 0x50_0000, 4_096, 4_000, 0, 0);
    let first = cleanup(&mut w, 0x40_0000, 70_007, 70_000, 1, second);
    let open = session(&mut w, first, 0, "SharedSession");
    let whole = segment(&mut w, 0x40_0008, 70_000, open);
    let slice = segment(&mut w, 0x40_1000, 10, open);
    let other = segment(&mut w, 0x50_0000, 4_000, open);
    hold(&mut w, "app/Whole", whole);
    hold(&mut w, "app/Slice", slice);
    hold(&mut w, "app/Other", other);
    // A closed one and what still looks at it; memory of native code.
    let closed = session(&mut w, 0, u32::MAX, "SharedSession");
    let dead = segment(&mut w, 0x60_0000, 500_000, closed);
    hold(&mut w, "app/Dead", dead);
    let global = session(&mut w, 0, 1, "GlobalSession");
    let native = segment(&mut w, 0x70_0000, 300, global);
    hold(&mut w, "app/Native", native);
    let everything = segment(&mut w, 0, i64::MAX as u64, global);
    hold(&mut w, "app/Everything", everything);
    let (heap, account) = read(w.finish(Shape::JDK_17));

    let segments: Vec<_> =
        heap.allocations.iter().filter(|each| each.class.starts_with("jdk.internal.foreign.")).collect();
    let found: Vec<_> =
        segments.iter().map(|each| (each.books, each.bytes, each.capacity, each.views)).collect();
    let expected =
        [(Books::Direct, 70_007, 70_000, 1), (Books::None, 4_096, 4_000, 0), (Books::None, 300, 300, 0)];
    assert_eq!(found, expected);
    for (segment, owner) in segments.iter().zip(["app.Cache.segment"; 3]) {
        let Held::Objects(holder) = &segment.held else { panic!("{segment:?}") };
        assert_eq!((holder.owner.as_str(), holder.complete), (owner, true));
    }
    assert_eq!(account.sum(Class::Foreign).count, 3);
    // The broker's counters do not know the arena.
    assert_eq!(account.direct.difference(), Some((-70_007, -70_000, -1)));
}
