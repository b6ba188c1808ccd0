//! What the kept objects say of native memory: buffers, what frees them, caches and their threads, and the JVM's own counters.

use std::collections::HashMap;

use crate::hprof::FieldType;

use super::classes::{Classes, Kind};
use super::collect::{Object, Objects};

/// Links that are followed in lists that a dump may have made a circle of.
const MAX_LINKS: usize = 1 << 22;

/// What a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its cleaner frees `size` bytes of memory.
    Owner { size: u64 },
    /// Its cleaner unmaps `size` bytes of a file.
    Map { size: u64 },
    /// Part of another buffer.
    View { of: u64 },
    /// Nothing says who frees it.
    Foreign,
    /// Its memory is given back already.
    Freed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) id: u64,
    pub(crate) class: usize,
    pub(crate) role: Role,
    pub(crate) capacity: u64,
    pub(crate) limit: u64,
    pub(crate) position: u64,
    pub(crate) address: u64,
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
    pub(crate) class: usize,
    pub(crate) name: u64,
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
    /// Buffer in a cache -> index of the thread, if one was found.
    pub(crate) cached: HashMap<u64, Option<usize>>,
    /// Caches that no thread was found for.
    pub(crate) lost_caches: u64,
    pub(crate) cache_count: u64,
    /// Caches whose own count differs from the buffers found in them.
    pub(crate) torn_caches: u64,
    pub(crate) statics: Statics,
}

/// Fields of kept objects.
struct Reader<'a> {
    classes: &'a Classes,
    objects: &'a Objects,
}

impl<'a> Reader<'a> {
    fn value(&self, object: &Object, declared_by: &str, name: &str) -> Option<i64> {
        self.classes.value(object.class, self.objects.bytes(object), declared_by, name)
    }

    fn reference(&self, object: &Object, declared_by: &str, name: &str) -> u64 {
        self.value(object, declared_by, name).unwrap_or(0).cast_unsigned()
    }

    fn bytes(&self, object: &Object, declared_by: &str, name: &str) -> u64 {
        u64::try_from(self.value(object, declared_by, name).unwrap_or(0)).unwrap_or(0)
    }

    fn object(&self, id: u64, kind: Kind) -> Option<&'a Object> {
        self.objects.get(id).filter(|object| object.kind == kind)
    }
}

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
    pub(crate) fn read(classes: &Classes, objects: &Objects) -> Self {
        let reader = Reader { classes, objects };
        let mut natives = Self::default();
        let cleanings = cleanings(&reader);
        let mut used: HashMap<u64, ()> = HashMap::new();
        for object in objects.of(Kind::Direct) {
            let cleaner = reader.reference(object, "java/nio/Direct*", "cleaner");
            let att = match reader.reference(object, "java/nio/Direct*", "att") {
                0 => reader.reference(object, "java/nio/Direct*", "viewedBuffer"),
                att => att,
            };
            let role = match (cleanings.get(&cleaner), cleaner) {
                (Some(cleaning), _) => {
                    used.insert(cleaner, ());
                    match cleaning {
                        Cleaning { live: false, .. } => Role::Freed,
                        Cleaning { mapped: true, size, .. } => Role::Map { size: *size },
                        Cleaning { size, .. } => Role::Owner { size: *size },
                    }
                }
                (None, 0) if reader.object(att, Kind::Direct).is_some() && att != object.id => {
                    Role::View { of: att }
                }
                _ => Role::Foreign,
            };
            let number = |name: &str| reader.bytes(object, "java/nio/Buffer", name);
            natives.buffers.push(Buffer {
                id: object.id,
                class: object.class,
                role,
                capacity: number("capacity"),
                limit: number("limit"),
                position: number("position"),
                address: number("address"),
            });
        }
        natives.flatten_views();
        for object in objects.of(Kind::Cleaner) {
            if let Some(cleaning) = cleanings.get(&object.id)
                && cleaning.live
                && !used.contains_key(&object.id)
            {
                let Cleaning { size, capacity, address, mapped, .. } = *cleaning;
                natives.orphans.push(Orphan { cleaner: object.id, size, capacity, address, mapped });
            }
        }
        natives.read_threads(&reader);
        natives.read_statics(&reader, &cleanings);
        natives
    }

    /// A view of a view is a view of what owns the memory.
    fn flatten_views(&mut self) {
        let of: HashMap<u64, u64> = self
            .buffers
            .iter()
            .filter_map(|buffer| match buffer.role {
                Role::View { of } => Some((buffer.id, of)),
                _ => None,
            })
            .collect();
        for buffer in &mut self.buffers {
            if let Role::View { of: viewed } = &mut buffer.role {
                for _ in 0..64 {
                    match of.get(viewed) {
                        Some(next) => *viewed = *next,
                        None => break,
                    }
                }
            }
        }
    }

    fn read_threads(&mut self, reader: &Reader<'_>) {
        let mut thread_of_cache: HashMap<u64, usize> = HashMap::new();
        for object in reader.objects.of(Kind::Thread) {
            let index = self.threads.len();
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
                let Some(table) = reader.object(table, Kind::ThreadLocalTable) else { continue };
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
            if let Some(array) = reader.object(array, Kind::BufferArray) {
                for buffer in reader.objects.elements(array) {
                    found += 1;
                    self.cached.entry(buffer).or_insert(thread);
                }
            }
            self.torn_caches +=
                u64::from(reader.bytes(cache, "sun/nio/ch/Util$BufferCache", "count") != found);
        }
    }

    fn read_statics(&mut self, reader: &Reader<'_>, cleanings: &HashMap<u64, Cleaning>) {
        let counter = |kind: FieldType, value: u64| {
            if kind != FieldType::Object {
                return Some(value);
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
                sum.used_bytes += used;
                sum.capacity_bytes += capacity.unwrap_or(used);
                sum.count += count;
            }
        }
        let mut netty: Vec<_> = netty.into_iter().collect();
        netty.sort();
        statics.netty = netty.into_iter().map(|(_, counters)| counters).collect();
        statics.cleaner_list = cleaner_list(reader, first, cleanings);
    }
}

/// What each cleaner frees.
fn cleanings(reader: &Reader<'_>) -> HashMap<u64, Cleaning> {
    let mut cleanings = HashMap::new();
    for object in reader.objects.of(Kind::Cleaner) {
        let cleaner = ["jdk/internal/ref/Cleaner", "sun/misc/Cleaner"];
        let field = |name: &str| {
            cleaner.iter().find_map(|class| reader.value(object, class, name)).unwrap_or(0).cast_unsigned()
        };
        let thunk = field("thunk");
        // One that has run is taken from the list and points at itself.
        let waits = field("next") != object.id;
        let cleaning = if let Some(thunk) = reader.object(thunk, Kind::Deallocator) {
            let number = |name: &str| reader.bytes(thunk, "java/nio/Direct*", name);
            let capacity = number("capacity");
            let address = number("address");
            let size = match number("size") {
                0 => capacity,
                size => size,
            };
            // JDK 17 clears the address when it frees; a redacted dump has no address at all.
            Cleaning {
                size,
                capacity,
                address,
                mapped: false,
                live: waits && (address != 0 || capacity == 0),
            }
        } else if let Some(thunk) = reader.object(thunk, Kind::Unmapper) {
            let number = |name: &str| reader.bytes(thunk, "sun/nio/ch/FileChannelImpl$*", name);
            let (size, capacity, address) = (number("size"), number("cap"), number("address"));
            let live = waits && (address != 0 || size == 0);
            Cleaning { size, capacity, address, mapped: true, live }
        } else {
            continue;
        };
        cleanings.insert(object.id, cleaning);
    }
    cleanings
}

/// Walks the JVM's own list of cleaners; none if it is not whole.
fn cleaner_list(reader: &Reader<'_>, first: u64, cleanings: &HashMap<u64, Cleaning>) -> Option<(u64, u64)> {
    let (mut count, mut bytes) = (0, 0_u64);
    let mut at = first;
    for _ in 0..MAX_LINKS {
        if at == 0 {
            return (first != 0).then_some((count, bytes));
        }
        let object = reader.object(at, Kind::Cleaner)?;
        if let Some(Cleaning { size, mapped: false, .. }) = cleanings.get(&at) {
            count += 1;
            bytes = bytes.saturating_add(*size);
        }
        let next = ["jdk/internal/ref/Cleaner", "sun/misc/Cleaner"];
        at = next.iter().find_map(|class| reader.value(object, class, "next"))?.cast_unsigned();
    }
    None
}
