//! Every shape gives the same account, and damage costs what it touches and no more.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};
use weir_doctor::DoctorError;
use weir_doctor::account::{Account, Class, Holds};
use weir_doctor::heap::{Heap, Held, Options, Progress};
use weir_doctor::hprof::Origin;
use weir_doctor::language::Language;
use weir_doctor::report;

use super::writer::{
    CACHED, FILE, GARBAGE, IN_FLIGHT, LEAKED, MAPPED, Shape, Value as V, Writer, broker, gzip,
};

fn read(bytes: Vec<u8>) -> (Heap, Account) {
    let origin = Origin::of_bytes(Path::new("dump"), bytes);
    let heap = Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap();
    let account = Account::of(&heap);
    (heap, account)
}

fn refused(bytes: &[u8]) -> DoctorError {
    let origin = Origin::of_bytes(Path::new("dump"), bytes.to_vec());
    Heap::read_origin(&origin, &Options::default(), &Progress::default()).unwrap_err()
}

/// What does not depend on the order of the records.
fn essence(heap: &Heap, account: &Account) -> Value {
    let json = report::json(heap, account, Language::English);
    let mut allocations: Vec<Value> = json["allocations"].as_array().unwrap().clone();
    allocations.sort_by_key(|each| each["object"].as_str().unwrap().to_string());
    json!({
        "lines": json["lines"], "groups": json["groups"], "threads": json["thread_buffers"], "owners": json["owners"],
        "direct": json["direct"], "mapped": json["mapped"], "allocations": allocations, "conclusive": json["conclusive"],
        "cleaner_list": json["cleaner_list"], "limit": json["limit_bytes"], "views": json["views"],
    })
}

fn shapes() -> Vec<Shape> {
    let mut all = Vec::new();
    for id_bytes in [4, 8] {
        for segment in [None, Some(1), Some(7), Some(10_000)] {
            for (roots_first, classes_last) in [(false, false), (true, false), (false, true), (true, true)] {
                all.push(Shape { id_bytes, segment, roots_first, classes_last });
            }
        }
    }
    all
}

#[test]
fn a_known_broker_is_accounted_for_to_the_byte() {
    let (heap, account) = read(broker(8).finish(Shape::JDK_17));
    assert!(heap.condition.is_complete(), "{:?}", heap.condition);
    let cached: u64 = CACHED.iter().flat_map(|(_, sizes)| *sizes).sum();
    assert_eq!((account.sum(Class::Cached).bytes, account.sum(Class::Cached).count), (cached, 4));
    assert_eq!(account.sum(Class::InFlight).bytes, IN_FLIGHT);
    assert_eq!(account.sum(Class::Held).bytes, LEAKED);
    assert_eq!(account.sum(Class::Garbage).bytes, GARBAGE);
    assert_eq!(account.sum(Class::Mapped).bytes, MAPPED);
    assert_eq!((heap.views, account.sum(Class::Unknown).count), (1, 0));
    assert!(account.direct.is_exact() && account.mapped.is_exact());
    assert_eq!(heap.statics.cleaner_list, Some((7, cached + IN_FLIGHT + LEAKED + GARBAGE)));
    for (name, sizes) in CACHED {
        let index = heap.threads.iter().position(|thread| thread.name.as_deref() == Some(name)).unwrap();
        let used = account.threads.iter().find(|used| used.thread == Some(index)).unwrap();
        assert_eq!(used.cached_buffers, sizes);
        assert_eq!(heap.threads[index].class, "kafka.KafkaThread");
    }
    let network = account.groups.iter().find(|group| group.listener.as_deref() == Some("PLAINTEXT")).unwrap();
    assert_eq!((network.threads, network.spread.sum), (1, 79_159_409));
    let in_flight = heap.allocations.iter().find(|each| each.bytes == IN_FLIGHT).unwrap();
    let Held::InFlight(Some(thread), frame) = &in_flight.held else { panic!("{in_flight:?}") };
    assert_eq!(heap.threads[*thread].name.as_deref(), Some("ReplicaFetcherThread-0-2"));
    assert_eq!(frame, "sun.nio.ch.IOUtil.readIntoNativeBuffer");
    let owner = account.owners.iter().find(|owner| owner.class == Class::Held).unwrap();
    assert_eq!(owner.name, "app.Node.held");
    assert_eq!(owner.path, ["static app.Leak.INSTANCE", "app.Node.held × 2"]);
    let map = heap.allocations.iter().find(|each| each.bytes == MAPPED).unwrap();
    assert_eq!(map.file.as_deref(), Some(FILE));
    assert!(account.conclusions.iter().all(|conclusion| conclusion.holds == Holds::Yes));
    let text = report::text(&heap, &account, report::Layout::default());
    for part in ["79,159,409", "75.49 MiB", "network PLAINTEXT", FILE, "the same as found"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn order_segments_id_size_and_gzip_do_not_change_the_account() {
    for id_bytes in [4, 8] {
        let expected = broker(id_bytes).finish(Shape { id_bytes, ..Shape::JDK_17 });
        let (heap, account) = read(expected);
        let expected = essence(&heap, &account);
        for shape in shapes().into_iter().filter(|shape| shape.id_bytes == id_bytes) {
            let bytes = broker(id_bytes).finish(shape);
            for bytes in [gzip(&bytes, 1_000), gzip(&bytes, usize::MAX), bytes] {
                let (heap, account) = read(bytes);
                assert!(heap.condition.is_complete(), "{shape:?} {:?}", heap.condition);
                let late = shape.classes_last && shape.segment.is_some_and(|count| count < 10_000);
                assert_eq!(heap.condition.late_classes, late, "{shape:?}");
                assert_eq!(essence(&heap, &account), expected, "{shape:?}");
            }
        }
    }
}

#[test]
fn a_dump_cut_anywhere_is_read_as_far_as_it_goes_and_says_so() {
    for (shape, stride) in [
        (Shape::JDK_17, 3),
        (Shape { segment: None, roots_first: true, ..Shape::JDK_17 }, 7),
        (Shape { id_bytes: 4, ..Shape::JDK_17 }, 11),
    ] {
        let whole = broker(shape.id_bytes).finish(shape);
        let (_, full) = read(whole.clone());
        let header = broker(shape.id_bytes).header(2).len();
        for end in (header..whole.len()).step_by(stride) {
            let (heap, account) = read(whole[..end].to_vec());
            let found: u64 = account.lines.iter().map(|line| line.sum.bytes).sum();
            let all: u64 = full.lines.iter().map(|line| line.sum.bytes).sum();
            assert!(found <= all, "cut at {end}: {found} of {all}");
            let (condition, held) = (&heap.condition, account.sum(Class::Garbage).count);
            assert!(!condition.is_complete(), "cut at {end}: {condition:?}");
            assert_eq!(held, 0, "cut at {end}: garbage is not proven");
            assert!(account.conclusions.iter().any(|conclusion| conclusion.holds != Holds::Yes));
            // A buffer whose cleaner is cut off, and a view whose buffer is, are still what they are.
            assert_eq!(account.sum(Class::Foreign).count, 0, "cut at {end}: {:?}", account.lines);
            assert!(account.mapped.found.bytes <= MAPPED, "cut at {end}: {:?}", account.mapped);
            assert!(account.direct.found.bytes <= all - MAPPED, "cut at {end}: {:?}", account.direct);
        }
    }
    // Without the roots, which JDK 17 writes last, nothing is known to be in flight, and the rest stands.
    let w = broker(8);
    let bytes = w.finish(Shape { segment: Some(1), ..Shape::JDK_17 });
    let roots: usize = w.roots.iter().map(|root| root.len() + 9).sum();
    let (heap, account) = read(bytes[..bytes.len() - 9 - roots + 3].to_vec());
    assert_eq!((heap.condition.thread_roots, account.sum(Class::Cached).count), (0, 4));
    let conclusion = |id: &str| account.conclusions.iter().find(|each| each.id == id).unwrap();
    assert_eq!(conclusion("in_flight").holds, Holds::No);
    assert_eq!(conclusion("pool").holds, Holds::Yes);
    assert_eq!(conclusion("sum").holds, Holds::Yes, "the pool agrees to the byte: nothing is missing of it");
    let text = report::text(&heap, &account, report::Layout::default());
    assert!(text.contains("the dump is cut off") && text.contains("What this dump proves"), "{text}");
}

#[test]
fn lengths_that_were_cut_to_32_bits_or_never_written_are_seen_through() {
    let w = broker(8);
    let shape = Shape { segment: None, ..Shape::JDK_17 };
    let (heap, account) = read(w.finish(shape));
    let expected = essence(&heap, &account);

    // A record of 8 GiB and more: two arrays of bytes that are holes in the file, with the objects behind them.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    let file = File::create(&path).unwrap();
    let hole = u64::from(u32::MAX - 15);
    let array = |id: u64| {
        let count = (hole as u32).to_be_bytes().to_vec();
        [vec![0x23], w.id(id), vec![0; 4], count, vec![8]].concat()
    };
    let objects = w.sub_records(shape).concat();
    let arrays = [array(0x9_0000), array(0x9_0008)];
    let body = arrays.iter().map(|head| head.len() as u64 + hole).sum::<u64>() + objects.len() as u64;
    let mut head = w.header(1);
    head.extend(&w.front);
    head.extend([0x0c, 0, 0, 0, 0]);
    head.extend(((body % (1 << 32)) as u32).to_be_bytes());
    file.write_all_at(&head, 0).unwrap();
    let mut at = head.len() as u64;
    for array in &arrays {
        file.write_all_at(array, at).unwrap();
        at += array.len() as u64 + hole;
    }
    file.write_all_at(&objects, at).unwrap();
    let progress = Progress::default();
    let heap = Heap::read(&path, &Options::default(), &progress).unwrap();
    assert_eq!(essence(&heap, &Account::of(&heap)), expected, "{:?}", heap.condition);
    assert!(heap.condition.is_complete());

    let mut unwritten = w.header(1);
    unwritten.extend(&w.front);
    unwritten.extend([0x0c, 0, 0, 0, 0, 0, 0, 0, 0]);
    unwritten.extend(&objects);
    // What a killed writer leaves, or one whose disk was full: all that is there is read, and what is missing is not known.
    for bytes in [gzip(&unwritten, 1_000), unwritten] {
        let (heap, account) = read(bytes);
        assert!(account.direct.is_exact() && account.mapped.is_exact(), "{:?}", heap.condition);
        assert_eq!((account.sum(Class::Cached).count, account.sum(Class::Garbage).count), (4, 0));
        assert!(heap.condition.problems[0].what.en.contains("never written"), "{:?}", heap.condition);
        assert!(account.conclusions.iter().any(|conclusion| conclusion.holds == Holds::AtLeast));
    }
    // An empty segment is one.
    let mut bytes = w.header(2);
    bytes.extend(&w.front);
    bytes.extend([0x1c, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(Writer::record(0x1c, &objects));
    bytes.extend(Writer::record(0x2c, &[]));
    let (heap, account) = read(bytes);
    assert_eq!(essence(&heap, &account), expected, "{:?}", heap.condition);
}

#[test]
fn what_is_not_known_costs_its_segment_and_no_more() {
    let w = broker(8);
    let mut bytes = w.header(2);
    bytes.extend(&w.front);
    bytes.extend(Writer::record(0x77, &[1, 2, 3]));
    let all = w.sub_records(Shape::JDK_17);
    let (first, rest) = all.split_at(all.len() / 2);
    bytes.extend(Writer::record(0x1c, &first.concat()));
    bytes.extend(Writer::record(0x1c, &[0xc3, 1, 2, 3]));
    bytes.extend(Writer::record(0x1c, &rest.concat()));
    bytes.extend(Writer::record(0x2c, &[]));
    let (heap, account) = read(bytes);
    assert!(heap.condition.problems[0].what.en.contains("unknown sub-record 0xc3"), "{:?}", heap.condition);
    assert!(!heap.condition.is_complete() && account.direct.is_exact());
    assert_eq!((account.sum(Class::Cached).count, account.sum(Class::Garbage).count), (4, 0));
}

#[test]
fn promises_of_length_allocate_nothing_and_lead_nowhere() {
    let head = |w: &Writer| [w.header(2), w.front.clone()].concat();
    let w = Writer::new(8);
    let id = w.id(0x5000);
    let many = u32::MAX.to_be_bytes().to_vec();
    let hostile: Vec<Vec<u8>> = vec![
        [vec![0x22], id.clone(), vec![0; 4], many.clone(), id.clone(), vec![1; 40]].concat(),
        [vec![0x23], id.clone(), vec![0; 4], many.clone(), vec![11], vec![1; 40]].concat(),
        [vec![0x21], id.clone(), vec![0; 4], id.clone(), many.clone(), vec![1; 40]].concat(),
        [vec![0x23], id.clone(), vec![0; 4], many.clone(), vec![99], vec![1; 40]].concat(),
        [vec![0x20], id.clone(), vec![0; 4 + 48 + 4], vec![0xff; 2], vec![0xff; 60]].concat(),
        [vec![0x20], id.clone(), vec![0; 4 + 48 + 4], vec![0, 0, 0xff, 0xff], vec![8; 600]].concat(),
    ];
    for sub_record in hostile {
        for record in [
            Writer::record(0x1c, &sub_record),
            [&[0x1c, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &sub_record].concat(),
            [&[0x0c, 0, 0, 0, 0, 0, 0, 0, 0][..], &sub_record].concat(),
        ] {
            let bytes = [head(&w), record].concat();
            for bytes in [gzip(&bytes, 100), bytes] {
                let (heap, _) = read(bytes);
                assert!(!heap.condition.problems.is_empty(), "{:?}", heap.condition);
                assert!(heap.allocations.is_empty());
            }
        }
    }
    for tag in [0x01, 0x02, 0x04, 0x05, 0x77] {
        let bytes = [head(&w), vec![tag, 0, 0, 0, 0], many.clone(), vec![0; 30]].concat();
        let (heap, _) = read(bytes);
        assert!(heap.condition.truncated.is_some_and(|missing| missing > 4_000_000_000), "{tag}");
    }
}

#[test]
fn circles_end() {
    let mut w = broker(8);
    // Superclasses of each other, a list of cleaners and views that come back to themselves, and a map that holds itself.
    w.class("a/One", "a/Two", &[("x", 2)], &[]);
    w.class("a/Two", "a/One", &[("y", 2)], &[]);
    let (one, two) = (w.new_id(), w.new_id());
    w.instance(one, "a/One", &[V::Ref(two), V::Ref(one)]);
    w.instance(two, "a/Two", &[V::Ref(one), V::Ref(two)]);
    let (view, other) = (w.new_id(), w.new_id());
    for (view, of) in [(view, other), (other, view)] {
        let values = [
            V::Ref(0),
            V::Ref(of),
            V::Ref(0),
            V::Ref(0),
            V::Long(1),
            V::Int(9),
            V::Int(9),
            V::Int(0),
            V::Int(0),
        ];
        w.instance(view, "java/nio/DirectByteBuffer", &values);
    }
    let (cleaner, thunk) = (w.new_id(), w.new_id());
    w.instance(thunk, "java/nio/DirectByteBuffer$Deallocator", &[V::Int(7), V::Long(7), V::Long(9)]);
    let values = [V::Ref(cleaner), V::Ref(cleaner), V::Ref(thunk), V::Ref(0), V::Ref(0)];
    w.instance(cleaner, "sun/misc/Cleaner", &values);
    let (heap, account) = read(w.finish(Shape::JDK_17));
    assert!(account.direct.is_exact(), "a cleaner that has run points at itself and frees nothing more");
    assert_eq!(heap.views, 3);
    assert_eq!(account.sum(Class::Garbage).bytes, GARBAGE);
}

#[test]
fn redacted_dumps_say_what_is_gone() {
    let zeroed = |w: &mut Writer, chars: bool| {
        for object in &mut w.objects {
            let (from, wanted) = match object[0] {
                0x23 => (18, chars),
                _ => (0, false),
            };
            if wanted {
                object[from..].fill(0);
            }
        }
    };
    let mut w = broker(8);
    zeroed(&mut w, true);
    let (heap, account) = read(w.finish(Shape::JDK_17));
    assert!(heap.condition.names_redacted && !heap.condition.numbers_redacted);
    assert!(account.direct.is_exact());
    let names: Vec<String> = account.groups.iter().map(weir_doctor::account::Group::name).collect();
    assert!(names.contains(&"threads of class kafka.KafkaThread".to_string()), "{names:?}");
    let conclusion = account.conclusions.iter().find(|each| each.id == "names").unwrap();
    assert_eq!(conclusion.holds, Holds::No);
}

#[test]
fn other_formats_are_refused_with_their_name() {
    let w = Writer::new(4);
    assert!(refused(&w.header(3)).to_string().contains("format 1.0.3: Android"));
    assert!(refused(&w.header(7)).to_string().contains("1.0.7"));
    assert!(refused(b"").to_string().contains("it begins with nothing"));
    assert!(refused(b"\x1b[2Jx").to_string().contains("\\x1b[2Jx"));
    assert!(refused(&w.header(2)[..20]).to_string().contains("ends after 20 bytes"));
    let mut odd = w.header(2);
    odd[22] = 5;
    assert!(refused(&odd).to_string().contains("an id of 5 bytes"));
    assert!(!refused(&odd).is_retriable());
    let missing = Heap::read(Path::new("/no/such/file"), &Options::default(), &Progress::default());
    assert!(missing.unwrap_err().to_string().contains("cannot read /no/such/file"));
}

#[test]
fn a_thread_that_is_gone_leaves_garbage_in_a_whole_dump_and_a_lost_cache_in_a_cut_one() {
    let w = broker(8);
    let mut whole = broker(8);
    let class = whole.class_id("kafka/KafkaThread");
    let class_bytes = whole.id(class);
    whole.objects = w
        .objects
        .iter()
        .filter(|object| object[0] != 0x21 || object[13..21] != class_bytes)
        .cloned()
        .collect();
    let (heap, account) = read(whole.finish(Shape::JDK_17));
    assert_eq!((heap.lost_caches, account.sum(Class::Cached).count), (3, 0));
    assert!(account.direct.is_exact());
    let mut cut = whole.finish(Shape::JDK_17);
    cut.truncate(cut.len() - 5);
    let (_, account) = read(cut);
    assert_eq!(account.sum(Class::Cached).count, 4);
    assert!(account.groups.iter().any(|group| group.name() == "threads that the dump does not have"));
}

#[test]
fn a_long_list_is_one_owner_and_a_second_dump_in_the_file_counts_alone() {
    use V::{Int, Long, Ref};
    let mut w = broker(8);
    w.class("app/List", "java/lang/Object", &[("next", 2), ("buffer", 2)], &[]);
    let nodes: Vec<u64> = (0..3_000).map(|_| w.new_id()).collect();
    for (at, node) in nodes.iter().enumerate() {
        let (buffer, cleaner, thunk) = (w.new_id(), w.new_id(), w.new_id());
        w.instance(thunk, "java/nio/DirectByteBuffer$Deallocator", &[Int(8), Long(8), Long(1 + at as u64)]);
        w.instance(cleaner, "sun/misc/Cleaner", &[Ref(0), Ref(0), Ref(thunk), Ref(0), Ref(buffer)]);
        let own = [Ref(cleaner), Ref(0), Ref(0), Ref(0)];
        let sizes = [Long(1 + at as u64), Int(8), Int(8), Int(0), Int(0)];
        w.instance(buffer, "java/nio/DirectByteBuffer", &[&own[..], &sizes].concat());
        let next = nodes.get(at + 1).copied().unwrap_or(0);
        w.instance(*node, "app/List", &[Ref(next), Ref(buffer)]);
    }
    w.class("app/Lists", "java/lang/Object", &[], &[("HEAD", Ref(nodes[0]))]);
    let shape = Shape { segment: Some(900), ..Shape::JDK_17 };
    let (heap, account) = read(w.finish(shape));
    let owner = account.owners.iter().find(|owner| owner.name == "app.List.buffer").unwrap();
    assert_eq!((owner.sum.count, owner.sum.bytes, owner.complete), (3_000, 24_000, true));
    assert_eq!(owner.path, ["static app.Lists.HEAD", "app.List.buffer"]);
    assert_eq!(account.sum(Class::Garbage).bytes, GARBAGE);
    let shown = heap
        .allocations
        .iter()
        .filter(|each| matches!(&each.held, Held::Objects(holder) if !holder.path.is_empty()));
    assert_eq!(shown.count(), account.owners.len(), "one path an owner");

    let once = w.finish(Shape { segment: None, ..shape });
    let twice = [once.clone(), once[w.header(1).len() + w.front.len()..].to_vec()].concat();
    let (heap, account) = read(twice);
    assert!(heap.condition.is_complete() && account.mapped.is_exact());
    assert_eq!(account.direct.found.count, 3_007);
}

/// Writes the corpus of the fuzz entry. Not a check.
#[test]
#[ignore = "writes tests/corpus/heap_dump"]
fn write_the_corpus() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/heap_dump");
    std::fs::create_dir_all(&dir).unwrap();
    let mut number = 0;
    let mut write = |bytes: Vec<u8>| {
        std::fs::write(dir.join(format!("{number:02}")), bytes).unwrap();
        number += 1;
    };
    write(broker(8).finish(Shape::JDK_17));
    write(broker(4).finish(Shape { id_bytes: 4, segment: None, roots_first: true, classes_last: false }));
    write(gzip(&broker(8).finish(Shape::JDK_17), 2_000));
    write(broker(4).finish(Shape { id_bytes: 4, segment: Some(3), roots_first: false, classes_last: true }));
    let cut = broker(8).finish(Shape::JDK_17);
    write(cut[..cut.len() * 2 / 3].to_vec());
}
