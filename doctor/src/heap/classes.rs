//! The classes of a dump: what an object of each is to us, where its references lie, and how a field is found.
//!
//! Fields are found by declaring class, name and type; no offset and no order is taken for granted, since JDKs differ in both.

use std::collections::HashMap;

use crate::hprof::{ClassDump, FieldType, Visitor, number};

use super::ids::IdMap;
use super::pass::PartVisitor;

/// Superclasses that are followed; deeper is a cycle.
const MAX_DEPTH: usize = 200;
/// Classes that are kept. A large application server has 100,000.
const MAX_CLASSES: usize = 1 << 20;
/// Fields of all classes that are kept, each once.
const MAX_FIELDS: usize = 1 << 20;
/// Static fields that are kept before it is known whose they are.
const MAX_STATICS: usize = 1 << 18;
/// Fields of all classes with those of their superclasses, which are what layouts are made of.
const MAX_LAYOUT_FIELDS: usize = 1 << 24;
/// References in all layouts.
const MAX_REFERENCES: usize = 1 << 22;
/// Bytes of symbols that are kept, their places included.
const MAX_SYMBOL_BYTES: usize = 4 << 20;

/// What an object is to the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Other,
    Thread,
    VirtualThread,
    /// `Thread$FieldHolder`.
    ThreadFields,
    ThreadLocalMap,
    ThreadLocalEntry,
    ThreadLocalTable,
    BufferCache,
    BufferArray,
    /// A buffer of native memory, of any element type.
    Direct,
    Deallocator,
    Unmapper,
    Cleaner,
    /// A memory segment outside of the heap.
    Segment,
    /// What says whether an arena is open.
    Session,
    /// What an arena does when it is closed.
    ResourceList,
    ResourceCleanup,
    /// A counter behind a static field.
    Counter,
    String,
    File,
    Path,
}

/// Names of classes and fields that the account asks for; symbols with other names are not kept.
const SYMBOLS: &[&str] = &[
    "java/lang/Thread",
    "java/lang/BaseVirtualThread",
    "java/lang/VirtualThread",
    "java/lang/Thread$FieldHolder",
    "java/lang/ThreadLocal$ThreadLocalMap",
    "java/lang/ThreadLocal$ThreadLocalMap$Entry",
    "[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;",
    "sun/nio/ch/Util$BufferCache",
    "sun/nio/ch/IOVecWrapper",
    "shadow",
    "[Ljava/nio/ByteBuffer;",
    "java/nio/Buffer",
    "java/nio/MappedByteBuffer",
    "jdk/internal/ref/Cleaner",
    "sun/misc/Cleaner",
    "java/lang/ref/Reference",
    "java/lang/ref/SoftReference",
    "java/util/concurrent/atomic/AtomicLong",
    "java/lang/String",
    "java/io/File",
    "sun/nio/fs/UnixPath",
    "java/nio/Bits",
    "sun/nio/ch/Util",
    "jdk/internal/misc/VM",
    "sun/misc/VM",
    "name",
    "threadLocals",
    "inheritableThreadLocals",
    "holder",
    "carrierThread",
    "terminatingThreadLocals",
    "table",
    "value",
    "coder",
    "offset",
    "count",
    "buffers",
    "cleaner",
    "att",
    "viewedBuffer",
    "fd",
    "segment",
    "address",
    "capacity",
    "limit",
    "position",
    "thunk",
    "next",
    "referent",
    "size",
    "cap",
    "path",
    "file",
    "first",
    "MAX_MEMORY",
    "maxMemory",
    "RESERVED_MEMORY",
    "reservedMemory",
    "TOTAL_CAPACITY",
    "totalCapacity",
    "COUNT",
    "totalSize",
    "MAX_CACHED_BUFFER_SIZE",
    "pageAlignDirectMemory",
    "min",
    "length",
    "scope",
    "state",
    "resourceList",
    "fst",
    "val$allocationBase",
    "val$allocationSize",
    "val$cleanupByteSize",
    "val$shouldReserve",
    "val$buf",
    "val$alignedSize",
    "val$byteSize",
    "val$unmapper",
    "DIRECT_MEMORY_COUNTER",
    "DIRECT_MEMORY_LIMIT",
];

/// Whether a symbol is kept.
fn is_known(bytes: &[u8]) -> bool {
    bytes.starts_with(b"java/nio/Direct")
        || bytes.starts_with(b"sun/nio/ch/FileChannelImpl$")
        || bytes.starts_with(b"jdk/internal/foreign/")
        || bytes.ends_with(b"io/netty/util/internal/PlatformDependent")
        || SYMBOLS.iter().any(|symbol| symbol.as_bytes() == bytes)
}

/// A static field of a class that the account asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Static {
    pub(crate) class: u64,
    pub(crate) name: u64,
    pub(crate) kind: FieldType,
    pub(crate) value: u64,
}

#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) id: u64,
    pub(crate) super_id: u64,
    /// The symbol of its name.
    pub(crate) name: u64,
    /// What stack frames call it.
    pub(crate) serial: u32,
    fields: (usize, usize),
}

/// What a walk looks up for each object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    from: u32,
    count: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Classes {
    id_bytes: usize,
    pub(crate) list: Vec<Class>,
    layouts: Vec<Layout>,
    references: Vec<u32>,
    by_id: IdMap,
    fields: Vec<(u64, FieldType)>,
    names: HashMap<u64, (u32, u64)>,
    pub(crate) symbols: HashMap<u64, String>,
    symbol_bytes: usize,
    pub(crate) statics: Vec<Static>,
    /// Where the last symbol or frame was seen.
    pub(crate) symbols_end: u64,
    /// More classes, fields or symbols than are kept.
    pub(crate) overflow: bool,
    /// Whether the walk ends with the first object.
    stop_at_objects: bool,
    done: bool,
    /// Where the walk ended.
    pub(crate) place: crate::hprof::Place,
}

impl Classes {
    /// To be filled by a walk.
    pub(crate) fn new(id_bytes: usize, stop_at_objects: bool) -> Self {
        Self {
            id_bytes,
            list: Vec::new(),
            layouts: Vec::new(),
            references: Vec::new(),
            by_id: IdMap::default(),
            fields: Vec::new(),
            names: HashMap::new(),
            symbols: HashMap::new(),
            symbol_bytes: 0,
            statics: Vec::new(),
            symbols_end: 0,
            overflow: false,
            stop_at_objects,
            done: false,
            place: crate::hprof::Place { at: 0, record_end: 0 },
        }
    }

    /// Makes layouts, once all classes are known.
    pub(crate) fn resolve(&mut self) {
        for class in &mut self.list {
            (class.serial, class.name) = self.names.get(&class.id).copied().unwrap_or((0, 0));
        }
        let mut layouts = Vec::with_capacity(self.list.len());
        let mut references = Vec::new();
        let mut left = MAX_LAYOUT_FIELDS;
        for index in 0..self.list.len() {
            let fields = self.chain(index).map(|class| self.own_fields(class).len() + 1).sum();
            match left.checked_sub(fields).filter(|_| references.len() + fields <= MAX_REFERENCES) {
                Some(less) => left = less,
                None => {
                    self.overflow = true;
                    layouts.push(Layout { kind: Kind::Other, from: 0, count: 0 });
                    continue;
                }
            }
            let kind = self.kind_of(index);
            let from = references.len();
            // A buffer's own references are understood one by one; these others hold no memory of applications.
            let followed = !matches!(kind, Kind::Direct | Kind::Deallocator | Kind::Unmapper | Kind::Cleaner);
            let mut offset = 0;
            // A soft reference keeps its object until memory is short; the others of its kind do not.
            let mut keeps = false;
            for class in self.chain(index) {
                let class_name = self.known_name(class);
                keeps |= class_name == "java/lang/ref/SoftReference";
                let of_collector = class_name == "java/lang/ref/Reference";
                for (name, field) in self.own_fields(class) {
                    let held = || !of_collector || keeps && self.symbol(*name) == "referent";
                    if *field == FieldType::Object && followed && held() {
                        references.push(offset as u32);
                    }
                    offset += field.size_bytes(self.id_bytes);
                }
            }
            layouts.push(Layout { kind, from: from as u32, count: (references.len() - from) as u32 });
        }
        (self.layouts, self.references) = (layouts, references);
        let wanted = |class: &Class| {
            let name = self.symbol(class.name);
            matches!(
                name,
                "java/nio/Bits"
                    | "sun/nio/ch/Util"
                    | "jdk/internal/misc/VM"
                    | "sun/misc/VM"
                    | "jdk/internal/ref/Cleaner"
                    | "sun/misc/Cleaner"
            ) || name.ends_with("Unmapper")
                || name.ends_with("PlatformDependent")
        };
        let statics = self.statics.iter();
        let kept = statics.filter(|entry| self.index(entry.class).is_some_and(|at| wanted(&self.list[at])));
        self.statics = kept.copied().collect();
        self.names = HashMap::new();
    }

    fn kind_of(&self, index: usize) -> Kind {
        let name = self.known_name(index);
        let exact = match name {
            "java/lang/Thread$FieldHolder" => Kind::ThreadFields,
            "java/lang/ThreadLocal$ThreadLocalMap" => Kind::ThreadLocalMap,
            "java/lang/ThreadLocal$ThreadLocalMap$Entry" => Kind::ThreadLocalEntry,
            "[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;" => Kind::ThreadLocalTable,
            "sun/nio/ch/Util$BufferCache" => Kind::BufferCache,
            "[Ljava/nio/ByteBuffer;" => Kind::BufferArray,
            "jdk/internal/ref/Cleaner" | "sun/misc/Cleaner" => Kind::Cleaner,
            "java/util/concurrent/atomic/AtomicLong" => Kind::Counter,
            "java/lang/String" => Kind::String,
            "java/io/File" => Kind::File,
            "sun/nio/fs/UnixPath" => Kind::Path,
            name if name.starts_with("java/nio/Direct") && name.ends_with("$Deallocator") => {
                Kind::Deallocator
            }
            name if name.starts_with("sun/nio/ch/FileChannelImpl$") && name.ends_with("Unmapper") => {
                Kind::Unmapper
            }
            _ => Kind::Other,
        };
        if exact != Kind::Other {
            return exact;
        }
        for class in self.chain(index) {
            match self.known_name(class) {
                "java/lang/BaseVirtualThread" | "java/lang/VirtualThread" => return Kind::VirtualThread,
                "java/lang/Thread" => return Kind::Thread,
                "java/nio/Buffer" if name.starts_with("java/nio/Direct") => return Kind::Direct,
                "jdk/internal/foreign/NativeMemorySegmentImpl" => return Kind::Segment,
                "jdk/internal/foreign/MemorySessionImpl" => return Kind::Session,
                "jdk/internal/foreign/MemorySessionImpl$ResourceList" => return Kind::ResourceList,
                "jdk/internal/foreign/MemorySessionImpl$ResourceList$ResourceCleanup" => {
                    return Kind::ResourceCleanup;
                }
                _ => {}
            }
        }
        Kind::Other
    }

    /// A class and its superclasses.
    fn chain(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |index| self.index(self.list.get(*index)?.super_id))
            .take(MAX_DEPTH)
    }

    fn own_fields(&self, index: usize) -> &[(u64, FieldType)] {
        self.list
            .get(index)
            .and_then(|class| self.fields.get(class.fields.0..class.fields.1))
            .unwrap_or_default()
    }

    /// A symbol's text if it is one that the account asks for.
    fn symbol(&self, id: u64) -> &str {
        self.symbols.get(&id).map_or("", String::as_str)
    }

    /// The class's name if it is one that the account asks for.
    pub(crate) fn known_name(&self, index: usize) -> &str {
        self.list.get(index).map_or("", |class| self.symbol(class.name))
    }

    /// The class with this id.
    #[inline(always)]
    pub(crate) fn index(&self, id: u64) -> Option<usize> {
        self.by_id.get(id).map(|index| index as usize)
    }

    #[inline(always)]
    pub(crate) fn layout(&self, id: u64) -> Option<(usize, Layout)> {
        let index = self.index(id)?;
        self.layouts.get(index).map(|layout| (index, *layout))
    }

    /// What objects of the class at this index are.
    pub(crate) fn kind(&self, index: usize) -> Kind {
        self.layouts.get(index).map_or(Kind::Other, |layout| layout.kind)
    }

    /// Offsets of the references in an object of this layout.
    #[inline(always)]
    pub(crate) fn references(&self, layout: Layout) -> &[u32] {
        self.references.get(layout.from as usize..(layout.from + layout.count) as usize).unwrap_or_default()
    }

    /// What the references in an object of this layout point at, 0 for null. `fields` are its bytes.
    #[inline(always)]
    pub(crate) fn targets<'a>(&'a self, layout: Layout, fields: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        self.references(layout).iter().map(move |offset| {
            let offset = *offset as usize;
            if self.id_bytes == 8 {
                fields
                    .get(offset..)
                    .and_then(|rest| rest.first_chunk::<8>())
                    .map_or(0, |id| u64::from_be_bytes(*id))
            } else {
                number(fields.get(offset..offset + 4).unwrap_or_default())
            }
        })
    }

    /// The reference at `offset` of an object with these `bytes`; none if it is null.
    pub(crate) fn reference_at(&self, bytes: &[u8], offset: usize) -> Option<u64> {
        bytes.get(offset..offset + self.id_bytes).map(number).filter(|id| *id != 0)
    }

    /// Offset and type of a field. A `declared_by` that ends with `*` is the beginning of the class's name.
    pub(crate) fn field(&self, index: usize, declared_by: &str, name: &str) -> Option<(usize, FieldType)> {
        let mut offset = 0;
        for class in self.chain(index) {
            let name_of_class = self.known_name(class);
            let declares = match declared_by.strip_suffix('*') {
                Some(begin) => name_of_class.starts_with(begin),
                None => name_of_class == declared_by,
            };
            for (field, kind) in self.own_fields(class) {
                if declares && self.symbols.get(field).is_some_and(|known| known == name) {
                    return Some((offset, *kind));
                }
                offset += kind.size_bytes(self.id_bytes);
            }
        }
        None
    }

    /// A field's value in an object with these `bytes`: a reference, or a number with its sign.
    pub(crate) fn value(&self, index: usize, bytes: &[u8], declared_by: &str, name: &str) -> Option<i64> {
        let (offset, kind) = self.field(index, declared_by, name)?;
        self.value_at(bytes, offset, kind)
    }

    /// The value that lies at an offset.
    pub(crate) fn value_at(&self, bytes: &[u8], offset: usize, kind: FieldType) -> Option<i64> {
        let value = number(bytes.get(offset..offset + kind.size_bytes(self.id_bytes))?);
        Some(match kind {
            FieldType::Byte => i64::from(value as u8 as i8),
            FieldType::Short => i64::from(value as u16 as i16),
            FieldType::Int => i64::from(value as u32 as i32),
            _ => value.cast_signed(),
        })
    }

    /// The symbol of the field that lies at `offset`.
    pub(crate) fn field_at(&self, index: usize, offset: usize) -> Option<(usize, u64)> {
        let mut at = 0;
        for class in self.chain(index) {
            for (field, kind) in self.own_fields(class) {
                if at == offset {
                    return Some((class, *field));
                }
                at += kind.size_bytes(self.id_bytes);
            }
        }
        None
    }

    /// Whether the field that lies at `offset` is this one.
    pub(crate) fn is_field(&self, index: usize, offset: usize, declared_by: &str, name: &str) -> bool {
        self.field_at(index, offset)
            .is_some_and(|(class, field)| self.known_name(class) == declared_by && self.symbol(field) == name)
    }

    /// The static fields that are kept: class, name, type, value.
    pub(crate) fn named_statics(&self) -> impl Iterator<Item = (&str, &str, FieldType, u64)> {
        self.statics.iter().filter_map(|entry| {
            let class = self.known_name(self.index(entry.class)?);
            Some((class, self.symbols.get(&entry.name)?.as_str(), entry.kind, entry.value))
        })
    }

    fn keep_symbol(&mut self, id: u64, bytes: &[u8]) {
        if !is_known(bytes) {
            return;
        }
        self.symbol_bytes += bytes.len() + 64;
        if self.symbol_bytes > MAX_SYMBOL_BYTES {
            self.overflow = true;
            return;
        }
        self.symbols.insert(id, String::from_utf8_lossy(bytes).into_owned());
    }

    /// An object was seen, so all classes were, as HotSpot writes them.
    fn object(&mut self) {
        self.done |= self.stop_at_objects;
    }
}

impl Visitor for Classes {
    fn utf8(&mut self, id: u64, bytes: &[u8]) {
        self.symbols_end = self.place.at;
        // The profiling agent of JDK 8 and before writes names of classes with dots.
        if bytes.contains(&b'.') {
            let slashed: Vec<u8> =
                bytes.iter().map(|byte| if *byte == b'.' { b'/' } else { *byte }).collect();
            self.keep_symbol(id, &slashed);
        } else {
            self.keep_symbol(id, bytes);
        }
    }

    fn load_class(&mut self, serial: u32, class: u64, name: u64) {
        if self.names.len() < MAX_CLASSES {
            self.names.insert(class, (serial, name));
        } else {
            self.overflow = true;
        }
    }

    fn frame(&mut self, _frame: u64, _method: u64, _class_serial: u32) {
        self.symbols_end = self.place.at;
    }

    fn trace(&mut self, _serial: u32, _thread: u32, _frames: &[u8]) {
        self.symbols_end = self.place.at;
    }

    fn class(&mut self, _at: u64, dump: ClassDump<'_>) {
        if self.by_id.get(dump.id).is_some() {
            return;
        }
        let from = self.fields.len();
        self.fields.extend(dump.fields());
        if self.list.len() >= MAX_CLASSES || self.fields.len() > MAX_FIELDS {
            self.overflow = true;
            self.fields.truncate(from);
            return;
        }
        let fields = (from, self.fields.len());
        self.by_id.insert(dump.id, self.list.len() as u32);
        self.list.push(Class { id: dump.id, super_id: dump.super_id, name: 0, serial: 0, fields });
        for (name, kind, value) in dump.statics() {
            // Names come before classes; those of classes that are not asked for go when all are known.
            if self.symbols.contains_key(&name) {
                self.overflow |= self.statics.len() >= MAX_STATICS;
                if self.statics.len() < MAX_STATICS {
                    self.statics.push(Static { class: dump.id, name, kind, value });
                }
            }
        }
    }

    fn instance(&mut self, _at: u64, _id: u64, _class: u64, _fields: &[u8]) {
        self.object();
    }

    fn object_array(&mut self, _: u64, _: u64, _: u64, _: u32) -> crate::hprof::Reading {
        self.object();
        crate::hprof::Reading::Skip
    }

    fn primitive_array(&mut self, _: u64, _: u64, _: FieldType, _: u32) -> crate::hprof::Reading {
        self.object();
        crate::hprof::Reading::Skip
    }

    fn boundary(&mut self, place: crate::hprof::Place) {
        if !self.done {
            self.place = place;
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl PartVisitor for Classes {}
