//! Dumps that mean harm: numbers that no sum holds, tables that all threads share. What a hostile dump costs in memory is held to
//! a bound in `tests/memory.rs`.

use std::path::Path;

use weir_doctor::account::Account;
use weir_doctor::evidence::Evidence;
use weir_doctor::findings::{Dump, diagnose};
use weir_doctor::fuzz::fuzz_heap_dump;
use weir_doctor::heap::{Heap, Options, Progress};
use weir_doctor::hprof::Origin;

use super::writer::{Broker, Shape, Value, Writer, broker};

fn read(bytes: Vec<u8>) -> (Heap, Account) {
    let origin = Origin::of_bytes(Path::new("dump"), bytes);
    let heap = Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap();
    let account = Account::of(&heap);
    (heap, account)
}

/// Every number of the broker's objects and counters is the largest that there is.
fn with_largest_numbers() -> Writer {
    let mut w = Broker::with_largest_numbers(8);
    for (name, count) in [("A", 1), ("B", u32::MAX)] {
        let largest = Value::Long(i64::MAX as u64);
        let counters = [("count", Value::Int(count)), ("totalSize", largest), ("totalCapacity", largest)];
        w.class(&format!("sun/nio/ch/FileChannelImpl${name}Unmapper"), "java/lang/Object", &[], &counters);
        let fields = [("DIRECT_MEMORY_COUNTER", largest), ("DIRECT_MEMORY_LIMIT", Value::Long(u64::MAX))];
        w.class(
            &format!("{name}/io/netty/util/internal/PlatformDependent"),
            "java/lang/Object",
            &[],
            &fields,
        );
    }
    w
}

#[test]
fn numbers_that_no_sum_holds_break_no_report() {
    let bytes = with_largest_numbers().finish(Shape::JDK_17);
    let (heap, account) = read(bytes.clone());
    // What cannot be is cut to what can.
    assert!(heap.allocations.iter().all(|each| each.bytes == 1 << 40));
    assert_eq!((account.direct.found.count, account.direct.found.bytes), (7, 7 << 40));
    assert_eq!(heap.statics.mapped.unwrap().used_bytes, u64::MAX);
    assert!(heap.statics.netty.iter().all(|(_, limit)| limit.is_none()), "a limit below 0 is none");
    let dump = Dump { path: Path::new("dump"), heap: &heap, account: &account };
    assert!(!diagnose(&Evidence::default(), &[dump]).is_empty());
    fuzz_heap_dump(&bytes);
}

#[test]
fn what_all_threads_share_is_looked_at_once() {
    let mut w = broker(8);
    let cached = w.objects.iter().filter(|object| object[0] == 0x22).count();
    assert!(cached > 0);
    let (array, table, map) = (w.new_id(), w.new_id(), w.new_id());
    w.array(array, "[Ljava/nio/ByteBuffer;", &[1; 2_000]);
    let mut entries = Vec::new();
    for _ in 0..2_000 {
        let (cache, entry) = (w.new_id(), w.new_id());
        w.instance(
            cache,
            "sun/nio/ch/Util$BufferCache",
            &[Value::Int(2_000), Value::Int(0), Value::Ref(array)],
        );
        let values = [Value::Ref(cache), Value::Ref(0), Value::Ref(0)];
        entries.push(w.instance(entry, "java/lang/ThreadLocal$ThreadLocalMap$Entry", &values));
    }
    w.array(table, "[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;", &entries);
    w.instance(map, "java/lang/ThreadLocal$ThreadLocalMap", &[Value::Ref(table)]);
    for _ in 0..2_000 {
        let thread = w.new_id();
        w.instance(thread, "java/lang/Thread", &[Value::Ref(0), Value::Ref(map)]);
    }
    let (heap, account) = read(w.finish(Shape { segment: Some(500), ..Shape::JDK_17 }));
    // The broker's three, and those of the first thread.
    assert_eq!(heap.threads.iter().map(|thread| thread.caches).sum::<u32>(), 2_003);
    assert_eq!((heap.caches, heap.torn_caches), (2_003, 1_999));
    assert!(account.direct.is_exact());
}
