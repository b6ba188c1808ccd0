//! What the kept objects say of native memory: buffers, what frees them, caches and their threads, and the JVM's own counters.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::hprof::FieldType;

use super::classes::{Classes, Kind};
use super::collect::{Object, Objects};
use super::segments;

/// Links that are followed in lists that a dump may have made a circle of.
pub(super) const MAX_LINKS: usize = 1 << 22;

/// No memory is larger, 1 TiB. What a hostile dump claims beyond it is cut to it, so that no sum over objects overflows: those are
/// fewer than 2^23, by what is kept of a dump.
pub(super) const MAX_BYTES: u64 = 1 << 40;

/// A size as a dump has it.
pub(super) fn size(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0).min(MAX_BYTES)
}

/// What a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its cleaner frees `size` bytes of memory.
    Owner { size: u64 },
    /// Its cleaner unmaps `size` bytes of a file.
    Map { size: u64 },
    /// Part of another buffer, or of a memory segment.
    View { of: u64 },
    /// A memory segment of which an arena frees `size` bytes; `reserved`: in the pool.
    Segment { size: u64, reserved: bool },
    /// Nothing says who frees it.
    Foreign,
    /// Its memory is given back already.
    Freed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) id: u64,
    pub(crate) at: u64,
    pub(crate) role: Role,
    pub(crate) capacity: u64,
    pub(crate) limit: u64,
    pub(crate) position: u64,
    pub(crate) address: u64,
    /// The session that frees a memory segment; 0: none does.
    pub(crate) session: u64,
    pub(crate) class: u32,
}

/// Memory whose buffer is gone while its cleaner has not run yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orphan {
    pub(crate) cleaner: u64,
    pub(crate) size: u64,
    pub(crate) capacity: u64,
    pub(crate) address: u64,
    pub(crate) mapped: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadObject {
    pub(crate) id: u64,
    pub(crate) name: u64,
    pub(crate) class: u32,
    pub(crate) caches: u32,
}

/// A pool as the JVM counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pool {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Sum of capacities, which may be smaller (page alignment, empty buffers).
    pub capacity_bytes: u64,
    /// Buffers.
    pub count: u64,
}

/// What static fields of the JDK say.
#[derive(Debug, Clone, Default)]
pub struct Statics {
    /// `java.nio.Bits`: the direct pool.
    pub direct: Option<Pool>,
    /// The limit of the direct pool in force.
    pub max_direct_bytes: Option<u64>,
    /// `FileChannelImpl`: mapped files.
    pub mapped: Option<Pool>,
    /// The largest temporary buffer that a thread keeps; `i64::MAX` = any.
    pub max_cached_buffer_bytes: Option<u64>,
    /// Whether buffers are aligned to pages.
    pub page_aligned: Option<bool>,
    /// Netty's own counters: bytes in use, limit.
    pub netty: Vec<(Option<u64>, Option<u64>)>,
    /// Entries of the list of cleaners that free memory, if the list was whole; and their bytes.
    pub cleaner_list: Option<(u64, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Natives {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) orphans: Vec<Orphan>,
    pub(crate) threads: Vec<ThreadObject>,
    /// View -> what it is a view of.
    pub(crate) views: Views,
    /// Buffer in a cache -> index of the thread, if one was found.
    pub(crate) cached: HashMap<u64, Option<u32>>,
    /// Caches that no thread was found for.
    pub(crate) lost_caches: u64,
    pub(crate) cache_count: u64,
    /// Caches whose own count differs from the buffers found in them.
    pub(crate) torn_caches: u64,
    pub(crate) statics: Statics,
    /// More was to be looked at than a dump of a JVM has.
    pub(crate) overflow: bool,
}

/// Views by what they view.
#[derive(Debug, Default)]
pub(crate) struct Views(Vec<(u64, u64)>);

impl Views {
    fn new(mut pairs: Vec<(u64, u64)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        pairs.shrink_to_fit();
        Self(pairs)
    }

    fn range(&self, id: u64) -> &[(u64, u64)] {
        let from = self.0.partition_point(|(of, _)| *of < id);
        let rest = self.0.get(from..).unwrap_or_default();
        rest.get(..rest.partition_point(|(of, _)| *of == id)).unwrap_or_default()
    }

    /// The views of one buffer.
    pub(crate) fn of(&self, id: u64) -> impl Iterator<Item = u64> + Clone {
        self.range(id).iter().map(|(_, view)| *view)
    }

    /// How many there are of one buffer.
    pub(crate) fn count(&self, id: u64) -> u64 {
        self.range(id).len() as u64
    }
}

type Slot = Option<(usize, FieldType)>;

/// Fields of kept objects. Where a field lies is found once for each class.
pub(super) struct Reader<'a> {
    pub(super) classes: &'a Classes,
    pub(super) objects: &'a Objects,
    /// By class and the texts' places.
    slots: RefCell<HashMap<(u32, *const str, *const str), Slot>>,
}

impl<'a> Reader<'a> {
    pub(super) fn value(
        &self,
        object: &Object,
        declared_by: &'static str,
        name: &'static str,
    ) -> Option<i64> {
        let key = (object.class, std::ptr::from_ref(declared_by), std::ptr::from_ref(name));
        let find = || self.classes.field(object.class as usize, declared_by, name);
        let slot = *self.slots.borrow_mut().entry(key).or_insert_with(find);
        let (offset, kind) = slot?;
        self.classes.value_at(self.objects.bytes(object), offset, kind)
    }

    /// An id, or an address.
    pub(super) fn reference(&self, object: &Object, declared_by: &'static str, name: &'static str) -> u64 {
        self.value(object, declared_by, name).unwrap_or(0).cast_unsigned()
    }

    /// A size.
    pub(super) fn bytes(&self, object: &Object, declared_by: &'static str, name: &'static str) -> u64 {
        size(self.value(object, declared_by, name).unwrap_or(0))
    }

    pub(super) fn object(&self, id: u64, kind: Kind) -> Option<&'a Object> {
        self.objects.get(id).filter(|object| object.kind == kind)
    }
}

const CLEANERS: [&str; 2] = ["jdk/internal/ref/Cleaner", "sun/misc/Cleaner"];

#[derive(Debug, Clone, Copy)]
struct Cleaning {
    size: u64,
    capacity: u64,
    address: u64,
    mapped: bool,
    /// Whether it is still to run.
    live: bool,
}

impl Natives {
    /// `complete`: the dump was read whole, so that what is not there was not there in the JVM either.
    pub(crate) fn read(classes: &Classes, objects: &Objects, complete: bool) -> Self {
        let reader = Reader { classes, objects, slots: RefCell::default() };
        let mut natives = Self::default();
        // By place of the object: cleaners of buffers that are there, and what they run.
        let mut used = vec![false; objects.len()];
        let mut mark = |id: u64| {
            if let Some(used) = objects.place(id).and_then(|place| used.get_mut(place)) {
                *used = true;
            }
        };
        let mut views = Vec::new();
        for object in objects.of(Kind::Direct) {
            let cleaner = reader.reference(object, "java/nio/Direct*", "cleaner");
            let att = match reader.reference(object, "java/nio/Direct*", "att") {
                0 => reader.reference(object, "java/nio/Direct*", "viewedBuffer"),
                att => att,
            };
            let segment = reader.reference(object, "java/nio/Buffer", "segment");
            let number = |name: &'static str| reader.bytes(object, "java/nio/Buffer", name);
            let is_view_of = |id: u64, kind: Kind| {
                reader.object(id, kind).is_some() || id != 0 && !complete && objects.get(id).is_none()
            };
            let role = match cleaning(&reader, cleaner) {
                Some(cleaning) => {
                    mark(cleaner);
                    match cleaning {
                        Cleaning { live: false, .. } => Role::Freed,
                        Cleaning { mapped: true, size, .. } => Role::Map { size },
                        Cleaning { size, .. } => Role::Owner { size },
                    }
                }
                // The cleaner says whose the memory is even if what it does is not known, or lies behind the end of the dump.
                None if cleaner != 0 => match reader.reference(object, "java/nio/MappedByteBuffer", "fd") {
                    0 => Role::Owner { size: number("capacity") },
                    _ => Role::Map { size: number("capacity") },
                },
                None if att != object.id && is_view_of(att, Kind::Direct) => {
                    views.push((object.id, att));
                    Role::View { of: att }
                }
                None if is_view_of(segment, Kind::Segment) => {
                    views.push((object.id, segment));
                    Role::View { of: segment }
                }
                None => Role::Foreign,
            };
            natives.buffers.push(Buffer {
                id: object.id,
                at: object.at,
                class: object.class,
                role,
                capacity: number("capacity"),
                limit: number("limit"),
                position: number("position"),
                address: reader.reference(object, "java/nio/Buffer", "address"),
                session: 0,
            });
        }
        natives.overflow = !segments::find(&reader, &mut natives.buffers, &mut views);
        natives.flatten_views(views);
        natives.buffers.sort_unstable_by_key(|buffer| (buffer.at, buffer.id));
        for object in objects.of(Kind::Cleaner) {
            let seen = objects.place(object.id).and_then(|place| used.get(place)) == Some(&true);
            let Some(cleaning) = cleaning(&reader, object.id).filter(|cleaning| cleaning.live && !seen)
            else {
                continue;
            };
            let Cleaning { size, capacity, address, mapped, .. } = cleaning;
            natives.orphans.push(Orphan { cleaner: object.id, size, capacity, address, mapped });
        }
        natives.read_threads(&reader);
        natives.read_statics(&reader);
        natives
    }

    /// A view of a view is a view of what owns the memory; JDK 11 and before make chains of any length. Views of each other are
    /// views of the first of them that is met.
    fn flatten_views(&mut self, mut of: Vec<(u64, u64)>) {
        of.sort_unstable();
        of.dedup_by_key(|(view, _)| *view);
        let place = |of: &[(u64, u64)], id: u64| of.binary_search_by_key(&id, |(view, _)| *view).ok();
        let mut chain = Vec::new();
        for start in 0..of.len() {
            let mut at = start;
            let owner = loop {
                let Some((view, viewed)) = of.get(at).copied() else { break 0 };
                chain.push(at);
                match place(&of, viewed) {
                    // Views that are done point at the owner, those of this chain at themselves.
                    Some(next) if viewed != view => {
                        if let Some(entry) = of.get_mut(at) {
                            entry.1 = view;
                        }
                        at = next;
                    }
                    _ => break viewed,
                }
            };
            for at in chain.drain(..) {
                if let Some(entry) = of.get_mut(at) {
                    entry.1 = owner;
                }
            }
        }
        for buffer in &mut self.buffers {
            if let Role::View { of: viewed } = &mut buffer.role
                && let Some((_, owner)) = place(&of, buffer.id).and_then(|at| of.get(at))
            {
                *viewed = *owner;
            }
        }
        self.views = Views::new(of.into_iter().map(|(view, owner)| (owner, view)).collect());
    }

    fn read_threads(&mut self, reader: &Reader<'_>) {
        let mut thread_of_cache: HashMap<u64, u32> = HashMap::new();
        // Nothing of this is shared; were it, every thread would be as long as the longest table.
        let mut tables = HashSet::new();
        let mut arrays = HashSet::new();
        let mut objects: Vec<&Object> = reader.objects.of(Kind::Thread).collect();
        objects.sort_unstable_by_key(|object| object.at);
        for object in objects {
            let index = self.threads.len() as u32;
            let name = reader.reference(object, "java/lang/Thread", "name");
            let mut caches = 0;
            let holder = reader.reference(object, "java/lang/Thread", "holder");
            let held = reader.object(holder, Kind::ThreadFields).map_or(0, |fields| {
                reader.reference(fields, "java/lang/Thread$FieldHolder", "terminatingThreadLocals")
            });
            let own = ["threadLocals", "inheritableThreadLocals", "terminatingThreadLocals"];
            let own = own.map(|name| reader.reference(object, "java/lang/Thread", name));
            for map in own.into_iter().chain([held]) {
                let Some(map) = reader.object(map, Kind::ThreadLocalMap) else { continue };
                let table = reader.reference(map, "java/lang/ThreadLocal$ThreadLocalMap", "table");
                let table =
                    reader.object(table, Kind::ThreadLocalTable).filter(|table| tables.insert(table.id));
                let Some(table) = table else { continue };
                for entry in reader.objects.elements(table) {
                    let Some(entry) = reader.object(entry, Kind::ThreadLocalEntry) else { continue };
                    let value =
                        reader.reference(entry, "java/lang/ThreadLocal$ThreadLocalMap$Entry", "value");
                    if reader.object(value, Kind::BufferCache).is_some() {
                        caches += 1;
                        thread_of_cache.entry(value).or_insert(index);
                    }
                }
            }
            self.threads.push(ThreadObject { id: object.id, class: object.class, name, caches });
        }
        for cache in reader.objects.of(Kind::BufferCache) {
            let thread = thread_of_cache.get(&cache.id).copied();
            self.cache_count += 1;
            self.lost_caches += u64::from(thread.is_none());
            let array = reader.reference(cache, "sun/nio/ch/Util$BufferCache", "buffers");
            let mut found = 0;
            if let Some(array) =
                reader.object(array, Kind::BufferArray).filter(|array| arrays.insert(array.id))
            {
                for buffer in reader.objects.elements(array) {
                    found += 1;
                    self.cached.entry(buffer).or_insert(thread);
                }
            }
            self.torn_caches +=
                u64::from(reader.bytes(cache, "sun/nio/ch/Util$BufferCache", "count") != found);
        }
    }

    fn read_statics(&mut self, reader: &Reader<'_>) {
        let counter = |kind: FieldType, value: u64| {
            if kind != FieldType::Object {
                return u64::try_from(value.cast_signed()).ok();
            }
            let object = reader.object(value, Kind::Counter)?;
            let value = reader.value(object, "java/util/concurrent/atomic/AtomicLong", "value")?;
            u64::try_from(value).ok()
        };
        let statics = &mut self.statics;
        let mut direct = [None; 3];
        let mut mapped: HashMap<&str, [Option<u64>; 3]> = HashMap::new();
        let mut netty: HashMap<&str, (Option<u64>, Option<u64>)> = HashMap::new();
        let mut first = 0;
        for (class, name, kind, value) in reader.classes.named_statics() {
            match (class, name) {
                ("java/nio/Bits", "MAX_MEMORY" | "maxMemory") => {
                    statics.max_direct_bytes = counter(kind, value);
                }
                ("java/nio/Bits", "RESERVED_MEMORY" | "reservedMemory") => direct[0] = counter(kind, value),
                ("java/nio/Bits", "TOTAL_CAPACITY" | "totalCapacity") => direct[1] = counter(kind, value),
                ("java/nio/Bits", "COUNT" | "count") => direct[2] = counter(kind, value),
                ("sun/nio/ch/Util", "MAX_CACHED_BUFFER_SIZE") => {
                    statics.max_cached_buffer_bytes = counter(kind, value);
                }
                ("jdk/internal/misc/VM" | "sun/misc/VM", "pageAlignDirectMemory")
                    if kind == FieldType::Boolean =>
                {
                    statics.page_aligned = Some(value != 0);
                }
                ("jdk/internal/ref/Cleaner" | "sun/misc/Cleaner", "first") => first = value,
                (class, "totalSize") if class.ends_with("Unmapper") => {
                    mapped.entry(class).or_default()[0] = Some(value);
                }
                (class, "totalCapacity") if class.ends_with("Unmapper") => {
                    mapped.entry(class).or_default()[1] = Some(value);
                }
                (class, "count") if class.ends_with("Unmapper") => {
                    mapped.entry(class).or_default()[2] = Some(value);
                }
                (class, "DIRECT_MEMORY_COUNTER") if class.ends_with("PlatformDependent") => {
                    netty.entry(class).or_default().0 = counter(kind, value);
                }
                (class, "DIRECT_MEMORY_LIMIT") if class.ends_with("PlatformDependent") => {
                    netty.entry(class).or_default().1 = counter(kind, value);
                }
                _ => {}
            }
        }
        if let [Some(used_bytes), capacity, Some(count)] = direct {
            let capacity_bytes = capacity.unwrap_or(used_bytes);
            statics.direct = Some(Pool { used_bytes, capacity_bytes, count });
        } else if let [Some(used_bytes), _, None] = direct {
            // JDK 6 counts bytes alone.
            statics.direct = Some(Pool { used_bytes, capacity_bytes: used_bytes, count: 0 });
        }
        for pool in mapped.into_values() {
            if let [Some(used), capacity, Some(count)] = pool {
                let sum = statics.mapped.get_or_insert_default();
                sum.used_bytes = sum.used_bytes.saturating_add(used);
                sum.capacity_bytes = sum.capacity_bytes.saturating_add(capacity.unwrap_or(used));
                sum.count = sum.count.saturating_add(count);
            }
        }
        let mut netty: Vec<_> = netty.into_iter().collect();
        netty.sort();
        statics.netty = netty.into_iter().map(|(_, counters)| counters).collect();
        statics.cleaner_list = cleaner_list(reader, first);
    }
}

/// What a cleaner frees; none if it is no cleaner of memory.
fn cleaning(reader: &Reader<'_>, cleaner: u64) -> Option<Cleaning> {
    let object = reader.object(cleaner, Kind::Cleaner)?;
    let field = |name: &'static str| {
        CLEANERS.iter().find_map(|class| reader.value(object, class, name)).unwrap_or(0).cast_unsigned()
    };
    let thunk = field("thunk");
    // One that has run is taken from the list and points at itself.
    let waits = field("next") != object.id;
    if let Some(thunk) = reader.object(thunk, Kind::Deallocator) {
        let number = |name: &'static str| reader.bytes(thunk, "java/nio/Direct*", name);
        let capacity = number("capacity");
        let address = reader.reference(thunk, "java/nio/Direct*", "address");
        let size = match number("size") {
            0 => capacity,
            size => size,
        };
        // JDK 17 clears the address when it frees; a redacted dump has no address at all.
        let live = waits && (address != 0 || capacity == 0);
        return Some(Cleaning { size, capacity, address, mapped: false, live });
    }
    let (size, capacity, address) = unmapping(reader, reader.object(thunk, Kind::Unmapper)?);
    Some(Cleaning { size, capacity, address, mapped: true, live: waits && (address != 0 || size == 0) })
}

/// What an unmapper unmaps: bytes, capacity, address.
pub(super) fn unmapping(reader: &Reader<'_>, unmapper: &Object) -> (u64, u64, u64) {
    const UNMAPPER: &str = "sun/nio/ch/FileChannelImpl$*";
    let address = reader.reference(unmapper, UNMAPPER, "address");
    (reader.bytes(unmapper, UNMAPPER, "size"), reader.bytes(unmapper, UNMAPPER, "cap"), address)
}

/// Walks the JVM's own list of cleaners; none if it is not whole.
fn cleaner_list(reader: &Reader<'_>, first: u64) -> Option<(u64, u64)> {
    let (mut count, mut bytes) = (0, 0_u64);
    let mut at = first;
    for _ in 0..MAX_LINKS {
        if at == 0 {
            return (first != 0).then_some((count, bytes));
        }
        let object = reader.object(at, Kind::Cleaner)?;
        if let Some(Cleaning { size, mapped: false, .. }) = cleaning(reader, at) {
            count += 1;
            bytes += size;
        }
        at = CLEANERS.iter().find_map(|class| reader.value(object, class, "next"))?.cast_unsigned();
    }
    None
}
