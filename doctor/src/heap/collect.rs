//! The first pass over the objects: keeps those that the account asks for, as bytes, and sums up every chunk.
//!
//! Invariant: what is kept grows with the objects of interest, not with the dump, and is bounded by a limit.

use crate::hprof::{ClassDump, FieldType, Place, Reading, Root, Visitor, number};

use super::chunks::Chunks;
use super::classes::{Classes, Kind};
use super::ids::IdSet;
use super::pass::PartVisitor;

/// Threads that are joined with their stacks.
const MAX_THREAD_ROOTS: usize = 1 << 18;

/// An object that was kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object {
    pub(crate) id: u64,
    pub(crate) at: u64,
    /// Index of its class.
    pub(crate) class: u32,
    from: u32,
    bytes: u32,
    arena: u16,
    pub(crate) kind: Kind,
}

/// Virtual threads are counted, since there may be millions.
#[derive(Debug, Default)]
pub(crate) struct VirtualThreads {
    pub(crate) count: u64,
    /// Those that have begun, are not over, and lie in the heap with their stacks.
    pub(crate) unmounted: u64,
    /// Those that run: the thread and what carries it.
    pub(crate) carried: Vec<(u64, u64)>,
}

impl VirtualThreads {
    /// Carriers are platform threads, of which a JVM has some hundred.
    const MAX_CARRIED: usize = 1 << 16;

    fn see(&mut self, classes: &Classes, class: usize, id: u64, fields: &[u8]) {
        const NEW: i64 = 0;
        const TERMINATED: i64 = 99;
        let value = |name: &str| classes.value(class, fields, "java/lang/VirtualThread", name);
        self.count += 1;
        match value("carrierThread").unwrap_or(0).cast_unsigned() {
            0 => self.unmounted += u64::from(!matches!(value("state"), None | Some(NEW | TERMINATED))),
            carrier if self.carried.len() < Self::MAX_CARRIED => self.carried.push((id, carrier)),
            _ => {}
        }
    }

    /// Takes over what another part of the dump has.
    pub(crate) fn add(&mut self, other: &mut Self) {
        self.count += other.count;
        self.unmounted += other.unmounted;
        self.carried.append(&mut other.carried);
    }
}

/// What an arena holds at most: places in it are 32 bits.
const MAX_ARENA: usize = u32::MAX as usize;

/// See the module.
pub(crate) struct Collector<'a> {
    classes: &'a Classes,
    counters: &'a IdSet,
    id_bytes: usize,
    limit_bytes: usize,
    objects: Vec<Object>,
    arena: Vec<u8>,
    pub(crate) chunks: Chunks,
    pub(crate) thread_roots: Vec<(u64, u32, u32)>,
    pub(crate) virtual_threads: VirtualThreads,
    pub(crate) object_count: u64,
    pub(crate) roots: u64,
    /// A class was seen that the classes' walk had not found.
    pub(crate) late_classes: bool,
    pub(crate) symbols_end: u64,
    /// The limit was reached.
    pub(crate) overflow: bool,
    keep_elements: bool,
    place: Place,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        classes: &'a Classes,
        counters: &'a IdSet,
        id_bytes: usize,
        chunk_bytes: u64,
        limit_bytes: usize,
    ) -> Self {
        Self {
            classes,
            counters,
            id_bytes,
            limit_bytes: limit_bytes.min(MAX_ARENA),
            objects: Vec::new(),
            arena: Vec::new(),
            chunks: Chunks::new(chunk_bytes),
            thread_roots: Vec::new(),
            virtual_threads: VirtualThreads::default(),
            object_count: 0,
            roots: 0,
            late_classes: false,
            symbols_end: 0,
            overflow: false,
            keep_elements: false,
            place: Place { at: 0, record_end: 0 },
        }
    }

    fn keep(&mut self, at: u64, id: u64, class: usize, kind: Kind, bytes: &[u8]) -> bool {
        if self.objects.len() * size_of::<Object>() + self.arena.len() + bytes.len() > self.limit_bytes {
            self.overflow = true;
            return false;
        }
        let from = self.arena.len() as u32;
        self.arena.extend_from_slice(bytes);
        self.objects.push(Object {
            id,
            at,
            class: class as u32,
            from,
            bytes: bytes.len() as u32,
            arena: 0,
            kind,
        });
        true
    }
}

impl Visitor for Collector<'_> {
    fn utf8(&mut self, _id: u64, _bytes: &[u8]) {
        self.symbols_end = self.place.at;
    }

    fn frame(&mut self, _frame: u64, _method: u64, _class_serial: u32) {
        self.symbols_end = self.place.at;
    }

    fn root(&mut self, _at: u64, id: u64, root: Root) {
        self.roots += 1;
        self.chunks.points_at(id);
        if let Root::Thread { thread, trace } = root
            && self.thread_roots.len() < MAX_THREAD_ROOTS
        {
            self.thread_roots.push((id, thread, trace));
        }
    }

    fn class(&mut self, _at: u64, class: ClassDump<'_>) {
        self.late_classes |= self.classes.index(class.id).is_none() && !self.classes.overflow;
        for (_, kind, value) in class.statics() {
            if kind == FieldType::Object && value != 0 {
                self.chunks.points_at(value);
            }
        }
    }

    #[inline(always)]
    fn instance(&mut self, at: u64, id: u64, class: u64, fields: &[u8]) {
        self.object_count += 1;
        self.chunks.object(id);
        let classes = self.classes;
        let Some((index, layout)) = classes.layout(class) else { return };
        for id in classes.targets(layout, fields) {
            if id != 0 {
                self.chunks.points_at(id);
            }
        }
        match layout.kind {
            Kind::Other | Kind::String | Kind::File | Kind::Path => {}
            Kind::VirtualThread => self.virtual_threads.see(classes, index, id, fields),
            Kind::Counter if !self.counters.contains(id) => {}
            kind => {
                self.keep(at, id, index, kind, fields);
            }
        }
    }

    #[inline(always)]
    fn object_array(&mut self, at: u64, id: u64, class: u64, _count: u32) -> Reading {
        self.object_count += 1;
        self.chunks.object(id);
        self.keep_elements = false;
        if let Some((index, layout)) = self.classes.layout(class)
            && matches!(layout.kind, Kind::ThreadLocalTable | Kind::BufferArray)
        {
            self.keep_elements = self.keep(at, id, index, layout.kind, &[]);
        }
        Reading::Show
    }

    fn elements(&mut self, _first: u64, ids: &[u8]) {
        for bytes in ids.chunks_exact(self.id_bytes) {
            let id = number(bytes);
            if id == 0 {
                continue;
            }
            self.chunks.points_at(id);
            if self.keep_elements {
                if self.arena.len() + 8 > self.limit_bytes {
                    (self.overflow, self.keep_elements) = (true, false);
                    continue;
                }
                self.arena.extend_from_slice(&id.to_be_bytes());
                if let Some(last) = self.objects.last_mut() {
                    last.bytes += 8;
                }
            }
        }
    }

    #[inline(always)]
    fn primitive_array(&mut self, _at: u64, id: u64, _kind: FieldType, _count: u32) -> Reading {
        self.object_count += 1;
        self.chunks.object(id);
        Reading::Skip
    }

    fn boundary(&mut self, place: Place) {
        self.place = place;
        self.chunks.boundary(place, false);
    }
}

impl PartVisitor for Collector<'_> {
    fn part_ends(&mut self, place: Place) {
        self.chunks.boundary(place, true);
    }
}

/// What was kept, of all threads of the pass.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// By id.
    list: Vec<Object>,
    arenas: Vec<Vec<u8>>,
}

impl Objects {
    /// Takes over what one visitor kept.
    pub(crate) fn take(&mut self, collector: &mut Collector<'_>) {
        let arena = self.arenas.len() as u16;
        self.arenas.push(std::mem::take(&mut collector.arena));
        let mut objects = std::mem::take(&mut collector.objects);
        objects.iter_mut().for_each(|object| object.arena = arena);
        if self.list.is_empty() { self.list = objects } else { self.list.append(&mut objects) }
    }

    /// To be called when all were taken over. Of an object that is there more than once (a file with several dumps), the last
    /// one counts.
    pub(crate) fn index(&mut self) {
        self.list.sort_unstable_by_key(|object| (object.id, std::cmp::Reverse(object.at)));
        self.list.dedup_by_key(|object| object.id);
    }

    /// The place of an object in the order of ids.
    pub(crate) fn place(&self, id: u64) -> Option<usize> {
        self.list.binary_search_by_key(&id, |object| object.id).ok()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Object> {
        self.list.get(self.place(id)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Objects of a kind in the order of their ids.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.list.iter().filter(move |object| object.kind == kind)
    }

    /// The object's fields; of an array, its elements that are not null, 8 bytes each.
    pub(crate) fn bytes(&self, object: &Object) -> &[u8] {
        let from = object.from as usize;
        self.arenas
            .get(usize::from(object.arena))
            .and_then(|arena| arena.get(from..from + object.bytes as usize))
            .unwrap_or_default()
    }

    /// Elements of an array that are not null.
    pub(crate) fn elements(&self, object: &Object) -> impl Iterator<Item = u64> {
        self.bytes(object).chunks_exact(8).map(number)
    }
}
