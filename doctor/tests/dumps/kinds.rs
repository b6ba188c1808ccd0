//! Every kind of record and root, whole and cut at every byte.

use std::path::Path;

use weir_doctor::heap::{Heap, Options, Progress};
use weir_doctor::hprof::Origin;

use super::writer::Writer;

/// One of each: records between dump records, roots, a class with constants, statics and fields of all types, and arrays of all.
fn everything(id_bytes: usize) -> Vec<u8> {
    let mut w = Writer::new(id_bytes);
    let thread = w.new_id();
    let object = w.class("java/lang/Object", "", &[], &[]);
    w.class("java/lang/Thread", "java/lang/Object", &[("name", 2)], &[]);
    w.instance(thread, "java/lang/Thread", &[super::writer::Value::Ref(0)]);
    w.stack(thread, 1, &[("java/lang/Object", "wait")]);
    let mut out = w.header(2);
    out.extend(&w.front);
    let id = w.id(thread);
    let four = 1_u32.to_be_bytes();
    let top: [(u8, Vec<u8>); 8] = [
        (0x03, four.to_vec()),
        (0x06, vec![0; 34]),
        (0x07, vec![0; 24]),
        (0x0a, [&four[..], &id, &four, &id, &id, &id].concat()),
        (0x0b, four.to_vec()),
        (0x0d, vec![0; 8]),
        (0x0e, vec![0; 6]),
        (0xfe, vec![1; 5]),
    ];
    for (tag, body) in &top {
        out.extend(Writer::record(*tag, body));
    }
    let types: [(u8, usize); 9] =
        [(2, id_bytes), (4, 1), (5, 2), (6, 4), (7, 8), (8, 1), (9, 2), (10, 4), (11, 8)];
    let symbol = w.id(object);
    let mut class =
        [&[0x20][..], &w.id(0x9999), &four, &w.id(object), &vec![0; 5 * id_bytes], &four].concat();
    class.extend(9_u16.to_be_bytes());
    for (kind, size) in types {
        class.extend([&[0, 1, kind][..], &vec![3; size]].concat());
    }
    class.extend(9_u16.to_be_bytes());
    for (kind, size) in types {
        class.extend([&symbol[..], &[kind], &vec![3; size]].concat());
    }
    class.extend(9_u16.to_be_bytes());
    for (kind, _) in types {
        class.extend([&symbol[..], &[kind]].concat());
    }
    let mut subs = vec![class];
    for (kind, size) in types.into_iter().filter(|(kind, _)| *kind != 2) {
        subs.push(
            [
                &[0x23][..],
                &w.id(0x8000 + u64::from(kind) * 8),
                &four,
                &[0, 0, 0, 3, kind],
                &vec![7; 3 * size],
            ]
            .concat(),
        );
    }
    subs.push([&[0x22][..], &w.id(0x7000), &four, &[0, 0, 0, 2], &symbol, &id, &id].concat());
    for (tag, rest) in [
        (0xff, vec![]),
        (0x01, id.clone()),
        (0x02, vec![0; 8]),
        (0x03, vec![0; 8]),
        (0x04, vec![0; 4]),
        (0x05, vec![]),
        (0x06, vec![0; 4]),
        (0x07, vec![]),
    ] {
        subs.push([&[tag][..], &id, &rest].concat());
    }
    subs.extend(w.class_dumps.clone());
    subs.extend(w.objects.clone());
    subs.extend(w.roots.clone());
    // Twice, so that each kind begins, is in the middle of, and ends a record.
    for sub in &subs {
        out.extend(Writer::record(0x1c, sub));
    }
    out.extend(Writer::record(0x1c, &subs.concat()));
    out.extend(Writer::record(0x2c, &[]));
    out
}

fn read(bytes: &[u8]) -> Heap {
    let origin = Origin::of_bytes(Path::new("dump"), bytes.to_vec());
    let options = Options { threads: 1, ..Options::default() };
    Heap::read_origin(&origin, &options, &Progress::default()).unwrap()
}

#[test]
fn every_kind_of_record_is_known_and_can_be_cut_at_every_byte() {
    for id_bytes in [4, 8] {
        let whole = everything(id_bytes);
        let heap = read(&whole);
        assert!(heap.condition.is_complete(), "{:?}", heap.condition);
        assert_eq!((heap.classes, heap.threads.len()), (3, 1));
        // Eight kinds of roots and the thread, twice.
        assert_eq!(heap.condition.roots, 18);
        let header = Writer::new(id_bytes).header(2).len();
        for end in header..whole.len() {
            let cut = read(&whole[..end]);
            assert!(!cut.condition.is_complete(), "cut at {end}: {:?}", cut.condition);
            assert!(
                cut.objects <= heap.objects && cut.condition.roots <= heap.condition.roots,
                "cut at {end}"
            );
        }
    }
}
