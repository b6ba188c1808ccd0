//! Who holds a buffer, in shapes that one JDK or another makes: chains of views, references of every strength, reads into several
//! buffers at once, stacks of virtual threads, buffers that were given back.

use std::path::Path;

use weir_doctor::account::{Account, Class, Holds};
use weir_doctor::findings::Language;
use weir_doctor::heap::{Heap, Held, Options, Progress};
use weir_doctor::hprof::Origin;
use weir_doctor::report;

use super::writer::{Broker, IN_FLIGHT, Shape, Value, Writer, broker};

const BUFFER: &str = "java/nio/DirectByteBuffer";

fn read(w: &Writer) -> (Heap, Account) {
    let origin = Origin::of_bytes(Path::new("dump"), w.finish(Shape::JDK_17));
    let heap = Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap();
    let account = Account::of(&heap);
    (heap, account)
}

/// A buffer without a cleaner of its own.
fn plain(w: &mut Writer, att: u64, capacity: u32) -> u64 {
    use Value::{Int, Long, Ref};
    let id = w.new_id();
    let own = [Ref(0), Ref(att), Ref(0), Ref(0), Long(id << 20)];
    w.instance(id, BUFFER, &[&own[..], &[Int(capacity), Int(capacity), Int(0), Int(0)]].concat())
}

fn hold(w: &mut Writer, name: &str, object: u64) {
    w.class(name, "java/lang/Object", &[], &[("HELD", Value::Ref(object))]);
}

fn held(heap: &Heap, bytes: u64) -> &Held {
    &heap.allocations.iter().find(|each| each.bytes == bytes).unwrap_or_else(|| panic!("{bytes}")).held
}

fn owner(heap: &Heap, bytes: u64) -> &str {
    let Held::Objects(holder) = held(heap, bytes) else { panic!("{:?}", held(heap, bytes)) };
    &holder.owner
}

fn holds(account: &Account, id: &str) -> Holds {
    account.conclusions.iter().find(|each| each.id == id).unwrap().holds
}

#[test]
fn a_chain_of_views_of_any_length_leads_to_what_owns_the_memory() {
    let mut broker = Broker::new(8);
    let (one, two) = (broker.buffer(5_001), broker.buffer(5_002));
    let mut w = broker.finish();
    // JDK 11 and before: a slice of a slice has the slice.
    let last = (0..3_000).fold(one, |of, _| plain(&mut w, of, 9));
    hold(&mut w, "app/Chain", last);
    // A pool's buffer with more views than anybody looks at, one of which is held.
    let views: Vec<u64> = (0..3_000).map(|_| plain(&mut w, two, 9)).collect();
    hold(&mut w, "app/Pool", views[2_999]);
    let (heap, account) = read(&w);
    assert_eq!((owner(&heap, 5_001), owner(&heap, 5_002)), ("app.Chain.HELD", "app.Pool.HELD"));
    assert!(heap.allocations.iter().all(|each| each.views == 3_000));
    assert_eq!((heap.views, heap.lost_views), (6_000, 0));
    assert!(account.direct.is_exact() && account.sum(Class::Garbage).count == 0);
}

#[test]
fn a_soft_reference_holds_and_a_weak_one_does_not() {
    let mut broker = Broker::new(8);
    let (soft, weak) = (broker.buffer(6_001), broker.buffer(6_002));
    let mut w = broker.finish();
    for (class, name, buffer) in [("Soft", "app/Soft", soft), ("Weak", "app/Weak", weak)] {
        let class = format!("java/lang/ref/{class}Reference");
        w.class(&class, "java/lang/ref/Reference", &[("clock", 11)], &[]);
        let reference = w.new_id();
        w.instance(reference, &class, &[Value::Long(1), Value::Ref(0), Value::Ref(buffer)]);
        hold(&mut w, name, reference);
    }
    let (heap, _) = read(&w);
    assert_eq!(owner(&heap, 6_001), "app.Soft.HELD");
    assert_eq!(*held(&heap, 6_002), Held::Garbage);
}

#[test]
fn buffers_that_are_read_into_at_once_are_in_flight_in_their_thread() {
    // What holds them lies in a variable of the thread, or, while it is in use, on the stack alone; a buffer may lie there, too.
    for (in_variable, on_stack) in [(true, true), (true, false), (false, true)] {
        let mut broker = Broker::new(8);
        let buffers = [broker.buffer(7_001), broker.buffer(7_002)];
        let mut w = broker.finish();
        let (vector, shadow, item, table, map, thread) =
            (w.new_id(), w.new_id(), w.new_id(), w.new_id(), w.new_id(), w.new_id());
        w.class("sun/nio/ch/IOVecWrapper", "java/lang/Object", &[("shadow", 2)], &[]);
        w.array(shadow, "[Ljava/nio/ByteBuffer;", &[0, buffers[0], buffers[1], 0]);
        w.instance(vector, "sun/nio/ch/IOVecWrapper", &[Value::Ref(shadow)]);
        let entry = [Value::Ref(vector), Value::Ref(0), Value::Ref(0)];
        w.instance(item, "java/lang/ThreadLocal$ThreadLocalMap$Entry", &entry);
        w.array(
            table,
            "[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;",
            &[if in_variable { item } else { 0 }],
        );
        w.instance(map, "java/lang/ThreadLocal$ThreadLocalMap", &[Value::Ref(table)]);
        let name = w.text("scattered");
        w.instance(thread, "java/lang/Thread", &[Value::Ref(name), Value::Ref(map)]);
        w.stack(thread, 77, &[("sun/nio/ch/IOUtil", "read")]);
        if on_stack {
            w.java_frame(vector, 77, 0);
            w.java_frame(buffers[1], 77, 0);
        }
        let (heap, account) = read(&w);
        for size in [7_001, 7_002] {
            let Held::InFlight(Some(thread), frame) = held(&heap, size) else {
                panic!("{:?}", held(&heap, size))
            };
            assert_eq!(heap.threads[*thread].name.as_deref(), Some("scattered"));
            let is_known = !in_variable || on_stack && size == 7_002;
            let expected = if is_known { "sun.nio.ch.IOUtil.read" } else { "sun.nio.ch.IOVecWrapper" };
            assert_eq!(frame, expected, "{in_variable} {on_stack}");
        }
        assert_eq!((account.sum(Class::InFlight).count, account.sum(Class::Held).count), (2, 0));
        assert_eq!(account.threads[0].in_flight_buffers, [7_002, 7_001]);
    }
}

#[test]
fn buffers_that_were_given_back_are_no_memory() {
    let mut w = broker(8);
    plain(&mut w, 0, 8_001);
    let native = plain(&mut w, 0, 8_002);
    hold(&mut w, "app/Native", native);
    let (heap, account) = read(&w);
    assert_eq!((heap.unheld.count, heap.unheld.bytes), (1, 8_001));
    assert_eq!((account.sum(Class::Foreign).count, account.sum(Class::Foreign).bytes), (1, 8_002));
    assert_eq!(owner(&heap, 8_002), "app.Native.HELD");
    let json = report::json(&heap, &account, Language::English);
    assert_eq!(json["unheld"], serde_json::json!({"bytes": 8_001, "buffers": 1}));
    let text = report::text(&heap, &account, report::Layout::default());
    assert!(text.contains("not counted: 1 buffer of 8,001"), "{text}");
    // A dump that was cut off does not prove that nothing holds it.
    let mut cut = w.finish(Shape::JDK_17);
    cut.truncate(cut.len() - 5);
    let heap = Heap::read_origin(
        &Origin::of_bytes(Path::new("cut"), cut),
        &Options::default(),
        &Progress::default(),
    );
    let heap = heap.unwrap();
    assert_eq!((heap.unheld.count, held(&heap, 8_001)), (0, &Held::Unknown));
    assert_eq!(Account::of(&heap).sum(Class::Unknown).bytes, 8_001);
}

/// A virtual thread: object, what carries it.
fn virtual_thread(w: &mut Writer, carrier: u64) -> u64 {
    let fields = [("carrierThread", 2), ("state", 10)];
    w.class("java/lang/BaseVirtualThread", "java/lang/Thread", &[], &[]);
    w.class("java/lang/VirtualThread", "java/lang/BaseVirtualThread", &fields, &[]);
    let thread = w.new_id();
    let values = [Value::Ref(carrier), Value::Int(5), Value::Ref(0), Value::Ref(0)];
    w.instance(thread, "java/lang/VirtualThread", &values)
}

#[test]
fn stacks_of_virtual_threads_that_a_dump_lacks_may_hold_what_looks_like_garbage() {
    for has_stack in [false, true] {
        let mut broker = Broker::new(8);
        broker.thread("main", &[]);
        let on_stack = broker.buffer(9_001);
        broker.buffer(9_002);
        let mut w = broker.finish();
        let thread = virtual_thread(&mut w, 0);
        if has_stack {
            w.stack(thread, 55, &[("app/Node", "run")]);
            w.java_frame(on_stack, 55, 0);
        }
        let (heap, account) = read(&w);
        assert!(heap.condition.is_complete() && account.direct.is_exact());
        assert_eq!(heap.virtual_threads, 1);
        if has_stack {
            assert_eq!(owner(&heap, 9_001), "stack of a virtual thread, app.Node.run");
            assert_eq!((held(&heap, 9_002), holds(&account, "holders")), (&Held::Garbage, Holds::Yes));
        } else {
            assert_eq!((held(&heap, 9_001), held(&heap, 9_002)), (&Held::Unknown, &Held::Unknown));
            assert_eq!(holds(&account, "holders"), Holds::AtLeast);
        }
    }
}

#[test]
fn what_a_virtual_thread_reads_is_in_flight_in_what_carries_it() {
    let mut broker = Broker::new(8);
    let buffer = broker.buffer(9_003);
    let mut w = broker.finish();
    let carrier = w.new_id();
    let name = w.text("ForkJoinPool-1-worker-1");
    w.instance(carrier, "java/lang/Thread", &[Value::Ref(name), Value::Ref(0)]);
    w.stack(carrier, 56, &[("java/lang/Object", "wait")]);
    let thread = virtual_thread(&mut w, carrier);
    w.stack(thread, 57, &[("sun/nio/ch/IOUtil", "read")]);
    w.java_frame(buffer, 57, 0);
    let (heap, account) = read(&w);
    let Held::InFlight(Some(index), _) = held(&heap, 9_003) else { panic!("{:?}", held(&heap, 9_003)) };
    assert_eq!(heap.threads[*index].name.as_deref(), Some("ForkJoinPool-1-worker-1"));
    assert_eq!(account.groups[0].name(), "ForkJoinPool-#-worker-#");
}

#[test]
fn a_dump_without_stacks_proves_no_garbage() {
    let mut w = broker(8);
    w.roots.clear();
    let (heap, account) = read(&w);
    assert!(heap.condition.is_complete() && heap.condition.stacks_missing);
    assert_eq!(*held(&heap, IN_FLIGHT), Held::Unknown);
    assert_eq!((holds(&account, "in_flight"), holds(&account, "holders")), (Holds::No, Holds::AtLeast));
    assert_eq!((holds(&account, "sum"), holds(&account, "threads")), (Holds::Yes, Holds::Yes));
}
