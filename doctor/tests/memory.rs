//! The doctor's memory follows the buffers of a dump, and each costs little; a hostile dump costs no more than a fixed sum.
//! Alone in this process and one after the other, since it counts all bytes.

#[path = "dumps/writer.rs"]
#[allow(dead_code, reason = "other shapes are for other tests")]
mod writer;

use std::alloc::System;

use weir_budget::{CountingAllocator, allocated_bytes, peak_allocated_bytes, reset_peaks};
use weir_doctor::account::{Account, Class};
use weir_doctor::heap::{Heap, Options, Progress};
use writer::{CACHED, GARBAGE, IN_FLIGHT, LEAKED, Shape, Value, Writer, broker};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

const BUFFERS: usize = 40_000;
/// Windows and tables of two threads, chunks, classes.
const FIXED_BYTES: u64 = 8 << 20;
const BYTES_EACH: u64 = 400;

/// The broker, and buffers that hang on a list and in an array, half on each.
fn with_many() -> Vec<u8> {
    use Value::{Int, Long, Ref};
    let mut w = broker(8);
    let (mut first, mut elements) = (0, Vec::new());
    for number in 0..BUFFERS {
        let (id, cleaner, thunk) = (w.new_id(), w.new_id(), w.new_id());
        let (size, address) = (100 + number as u64 % 9, (number as u64 + 1) << 16);
        w.instance(
            thunk,
            "java/nio/DirectByteBuffer$Deallocator",
            &[Int(size as u32), Long(size), Long(address)],
        );
        w.instance(cleaner, "sun/misc/Cleaner", &[Ref(0), Ref(0), Ref(thunk), Ref(0), Ref(id)]);
        let own = [Ref(cleaner), Ref(0), Ref(0), Ref(0), Long(address)];
        let sizes = [Int(size as u32), Int(size as u32), Int(0), Int(u32::MAX)];
        w.instance(id, "java/nio/DirectByteBuffer", &[&own[..], &sizes].concat());
        if number % 2 == 0 {
            let node = w.new_id();
            first = w.instance(node, "app/Node", &[Ref(id), Ref(first)]);
        } else {
            elements.push(id);
        }
    }
    let array = w.new_id();
    w.class("[Ljava/lang/Object;", "java/lang/Object", &[], &[]);
    w.array(array, "[Ljava/lang/Object;", &elements);
    w.class("app/Many", "java/lang/Object", &[], &[("LIST", Ref(first)), ("ARRAY", Ref(array))]);
    w.finish(Shape { segment: Some(1_000), ..Shape::JDK_17 })
}

/// Most of what tables of classes may cost.
const HOSTILE_BYTES: u64 = 64 << 20;

/// Classes that inherit a million fields each, symbols and static fields that seem to be of interest, without end.
fn hostile() -> Vec<u8> {
    let mut w = Writer::new(4);
    let names: Vec<String> = (0..65_535).map(|number| format!("f{}", number % 100)).collect();
    let fields: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 2)).collect();
    w.class("java/lang/Object", "", &[], &[]);
    for depth in 0..15 {
        let parent = if depth == 0 { "java/lang/Object".into() } else { format!("deep/C{}", depth - 1) };
        w.class(&format!("deep/C{depth}"), &parent, &fields, &[]);
    }
    let statics = vec![("size", Value::Long(1)); 65_535];
    for number in 0..8 {
        w.class(&format!("wide/W{number}"), "java/lang/Object", &[], &statics);
    }
    // Each is 4 MiB of references for whoever lists them.
    for number in 0..2_000 {
        w.class(&format!("leaf/L{number}"), "deep/C14", &[], &[]);
    }
    for number in 0..40_000 {
        w.symbol(&format!("java/nio/Direct{number}{}", "x".repeat(400)));
    }
    let object = w.new_id();
    w.instance(object, "leaf/L1", &[]);
    w.finish(Shape { id_bytes: 4, segment: Some(100), ..Shape::JDK_17 })
}

fn a_hostile_dump_costs_a_fixed_sum(options: &Options) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile.hprof");
    std::fs::write(&path, hostile()).unwrap();
    let at_start = allocated_bytes();
    reset_peaks();
    let heap = Heap::read(&path, options, &Progress::default()).unwrap();
    let peak = peak_allocated_bytes() - at_start;
    assert!(heap.condition.overflow && !heap.condition.is_complete(), "{:?}", heap.condition);
    assert!(peak < HOSTILE_BYTES, "{peak} bytes");
    println!("{peak} bytes at most for a hostile dump");
}

#[test]
fn tens_of_thousands_of_buffers_cost_some_hundred_bytes_each() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.hprof");
    std::fs::write(&path, with_many()).unwrap();
    let options = Options { threads: 2, ..Options::default() };
    let at_start = allocated_bytes();
    reset_peaks();
    let heap = Heap::read(&path, &options, &Progress::default()).unwrap();
    let account = Account::of(&heap);
    let peak = peak_allocated_bytes() - at_start;

    assert!(heap.condition.is_complete(), "{:?}", heap.condition);
    let sizes: u64 = (0..BUFFERS as u64).map(|number| 100 + number % 9).sum();
    let cached: u64 = CACHED.iter().flat_map(|(_, sizes)| *sizes).sum();
    let broker = cached + IN_FLIGHT + LEAKED + GARBAGE;
    assert_eq!(account.direct.found.bytes, broker + sizes);
    assert_eq!(account.sum(Class::Held).count, BUFFERS as u64 + 1);
    let owner = |name: &str| account.owners.iter().find(|owner| owner.name == name).unwrap();
    assert_eq!(owner("app.Many.ARRAY").sum.count, BUFFERS as u64 / 2);
    assert_eq!(owner("app.Node.held").sum.count, BUFFERS as u64 / 2 + 1);
    assert!(peak < FIXED_BYTES + BYTES_EACH * BUFFERS as u64, "{peak} bytes for {BUFFERS} buffers");
    println!("{peak} bytes at most, {} of each buffer", (peak - FIXED_BYTES.min(peak)) / BUFFERS as u64);

    drop((heap, account));
    a_hostile_dump_costs_a_fixed_sum(&options);
}
