//! Writes heap dumps of shapes that no JVM at hand makes. For tests: what it writes is a small broker with known buffers.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A field's or element's value.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Ref(u64),
    Int(u32),
    Long(u64),
    Byte(u8),
}

impl Value {
    fn kind(self) -> u8 {
        match self {
            Self::Ref(_) => 2,
            Self::Int(_) => 10,
            Self::Long(_) => 11,
            Self::Byte(_) => 8,
        }
    }
}

/// Collects records; sub-records one by one, so that they can be put into any order and cut anywhere.
pub(crate) struct Writer {
    pub(crate) id_bytes: usize,
    /// What is written for numbers: themselves, zeros as those do that redact a dump, or the largest that there are.
    numbers: Numbers,
    symbols: HashMap<String, u64>,
    classes: HashMap<String, u64>,
    next: u64,
    pub(crate) front: Vec<u8>,
    pub(crate) class_dumps: Vec<Vec<u8>>,
    pub(crate) objects: Vec<Vec<u8>>,
    pub(crate) roots: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Numbers {
    Given,
    Zero,
    Largest,
}

/// How the records are put together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) id_bytes: usize,
    /// One record 0C as of JDK 8, else segments 1C of so many sub-records.
    pub(crate) segment: Option<usize>,
    pub(crate) roots_first: bool,
    pub(crate) classes_last: bool,
}

impl Shape {
    pub(crate) const JDK_17: Self =
        Self { id_bytes: 8, segment: Some(7), roots_first: false, classes_last: false };
}

impl Writer {
    pub(crate) fn new(id_bytes: usize) -> Self {
        Self {
            id_bytes,
            numbers: Numbers::Given,
            symbols: HashMap::new(),
            classes: HashMap::new(),
            next: 0x1000,
            front: Vec::new(),
            class_dumps: Vec::new(),
            objects: Vec::new(),
            roots: Vec::new(),
        }
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.next += 8;
        self.next
    }

    pub(crate) fn id(&self, id: u64) -> Vec<u8> {
        id.to_be_bytes()[8 - self.id_bytes..].to_vec()
    }

    fn value(&self, value: Value) -> Vec<u8> {
        match value {
            Value::Ref(id) => self.id(id),
            Value::Int(_) if self.numbers == Numbers::Zero => vec![0; 4],
            Value::Long(_) if self.numbers == Numbers::Zero => vec![0; 8],
            Value::Int(_) if self.numbers == Numbers::Largest => i32::MAX.to_be_bytes().to_vec(),
            Value::Long(_) if self.numbers == Numbers::Largest => i64::MAX.to_be_bytes().to_vec(),
            Value::Int(value) => value.to_be_bytes().to_vec(),
            Value::Long(value) => value.to_be_bytes().to_vec(),
            Value::Byte(value) => vec![value],
        }
    }

    pub(crate) fn record(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag, 0, 0, 0, 0][..], &(body.len() as u32).to_be_bytes(), body].concat()
    }

    pub(crate) fn symbol(&mut self, text: &str) -> u64 {
        if let Some(id) = self.symbols.get(text) {
            return *id;
        }
        let id = self.new_id();
        self.symbols.insert(text.to_string(), id);
        let body = [self.id(id), text.as_bytes().to_vec()].concat();
        self.front.extend(Self::record(1, &body));
        id
    }

    /// A class whose id is known before it is written.
    pub(crate) fn class_id(&mut self, name: &str) -> u64 {
        if let Some(id) = self.classes.get(name) {
            return *id;
        }
        let id = self.new_id();
        let symbol = self.symbol(name);
        let serial = self.classes.len() as u32 + 1;
        self.classes.insert(name.to_string(), id);
        let zero = 0_u32.to_be_bytes().to_vec();
        let body = [serial.to_be_bytes().to_vec(), self.id(id), zero, self.id(symbol)].concat();
        self.front.extend(Self::record(2, &body));
        id
    }

    pub(crate) fn class(
        &mut self,
        name: &str,
        parent: &str,
        fields: &[(&str, u8)],
        statics: &[(&str, Value)],
    ) -> u64 {
        let id = self.class_id(name);
        let parent = if parent.is_empty() { 0 } else { self.class_id(parent) };
        let mut body = vec![0x20];
        body.extend(self.id(id));
        body.extend([0; 4]);
        body.extend(self.id(parent));
        body.extend(vec![0; 5 * self.id_bytes]);
        body.extend([0; 4]);
        body.extend([0; 2]);
        body.extend((statics.len() as u16).to_be_bytes());
        for (name, value) in statics {
            let symbol = self.symbol(name);
            body.extend(self.id(symbol));
            body.push(value.kind());
            body.extend(self.value(*value));
        }
        body.extend((fields.len() as u16).to_be_bytes());
        for (name, kind) in fields {
            let symbol = self.symbol(name);
            body.extend(self.id(symbol));
            body.push(*kind);
        }
        self.class_dumps.push(body);
        id
    }

    /// Values in the order of a dump: the class's own fields first.
    pub(crate) fn instance(&mut self, id: u64, class: &str, values: &[Value]) -> u64 {
        let class = self.class_id(class);
        let values: Vec<u8> = values.iter().flat_map(|value| self.value(*value)).collect();
        let size = (values.len() as u32).to_be_bytes().to_vec();
        let body = [vec![0x21], self.id(id), vec![0; 4], self.id(class), size, values].concat();
        self.objects.push(body);
        id
    }

    pub(crate) fn array(&mut self, id: u64, class: &str, elements: &[u64]) -> u64 {
        let class = self.class_id(class);
        let count = (elements.len() as u32).to_be_bytes().to_vec();
        let elements: Vec<u8> = elements.iter().flat_map(|id| self.id(*id)).collect();
        let body = [vec![0x22], self.id(id), vec![0; 4], count, self.id(class), elements].concat();
        self.objects.push(body);
        id
    }

    pub(crate) fn chars(&mut self, text: &str) -> u64 {
        let id = self.new_id();
        let count = (text.len() as u32).to_be_bytes().to_vec();
        let chars: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let body = [vec![0x23], self.id(id), vec![0; 4], count, vec![5], chars].concat();
        self.objects.push(body);
        id
    }

    pub(crate) fn text(&mut self, text: &str) -> u64 {
        let chars = self.chars(text);
        let id = self.new_id();
        self.instance(id, "java/lang/String", &[Value::Ref(chars)])
    }

    /// The stack of a thread: `class.method` from the top.
    pub(crate) fn stack(&mut self, thread: u64, serial: u32, frames: &[(&str, &str)]) {
        let mut ids = Vec::new();
        for (class, method) in frames {
            self.class_id(class);
            let class_serial = 1 + self.front_serial(class);
            let (id, method) = (self.new_id(), self.symbol(method));
            let body = [
                self.id(id),
                self.id(method),
                self.id(0),
                self.id(0),
                class_serial.to_be_bytes().to_vec(),
                vec![0; 4],
            ];
            self.front.extend(Self::record(4, &body.concat()));
            ids.extend(self.id(id));
        }
        let numbers = [serial, serial, frames.len() as u32].map(u32::to_be_bytes).concat();
        self.front.extend(Self::record(5, &[numbers, ids].concat()));
        let numbers = [serial, serial].map(u32::to_be_bytes).concat();
        self.roots.push([vec![0x08], self.id(thread), numbers].concat());
    }

    fn front_serial(&self, class: &str) -> u32 {
        // Serials follow the order of making; ids do, too.
        let id = self.classes[class];
        self.classes.values().filter(|other| **other < id).count() as u32
    }

    pub(crate) fn java_frame(&mut self, id: u64, serial: u32, frame: u32) {
        let numbers = [serial, frame].map(u32::to_be_bytes).concat();
        self.roots.push([vec![0x03], self.id(id), numbers].concat());
    }

    pub(crate) fn sticky(&mut self, id: u64) {
        self.roots.push([vec![0x05], self.id(id)].concat());
    }

    pub(crate) fn header(&self, version: u8) -> Vec<u8> {
        let mut out = format!("JAVA PROFILE 1.0.{version}\0").into_bytes();
        out.extend((self.id_bytes as u32).to_be_bytes());
        out.extend(1_796_040_153_604_u64.to_be_bytes());
        out
    }

    /// Sub-records in the order of the shape.
    pub(crate) fn sub_records(&self, shape: Shape) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let (first, last) =
            if shape.roots_first { (&self.roots, &self.objects) } else { (&self.objects, &self.roots) };
        let parts = match shape.classes_last {
            false => [&self.class_dumps, first, last],
            true => [first, last, &self.class_dumps],
        };
        parts.into_iter().for_each(|part| all.extend(part.iter().cloned()));
        all
    }

    pub(crate) fn finish(&self, shape: Shape) -> Vec<u8> {
        let mut out = self.header(if shape.segment.is_some() { 2 } else { 1 });
        out.extend(&self.front);
        let all = self.sub_records(shape);
        match shape.segment {
            None => out.extend(Self::record(0x0c, &all.concat())),
            Some(count) => {
                for segment in all.chunks(count) {
                    out.extend(Self::record(0x1c, &segment.concat()));
                }
                out.extend(Self::record(0x2c, &[]));
            }
        }
        out
    }
}

/// Gzip of members of `size` bytes.
pub(crate) fn gzip(bytes: &[u8], size: usize) -> Vec<u8> {
    let member = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    bytes.chunks(size).flat_map(member).collect()
}

/// What the broker below holds.
pub(crate) const CACHED: [(&str, &[u64]); 3] = [
    ("data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-0", &[79_159_409]),
    ("data-plane-kafka-request-handler-3", &[79_159_345, 4_096]),
    ("remote-log-reader7", &[57_671_068]),
];
pub(crate) const IN_FLIGHT: u64 = 20_971_520;
pub(crate) const LEAKED: u64 = 1_048_576;
pub(crate) const GARBAGE: u64 = 65_536;
pub(crate) const MAPPED: u64 = 10_485_760;
pub(crate) const FILE: &str = "/kafka/t-0/00000000000000000000.index";

const ENTRY: &str = "java/lang/ThreadLocal$ThreadLocalMap$Entry";
const CACHE: &str = "sun/nio/ch/Util$BufferCache";
const DEALLOCATOR: &str = "java/nio/DirectByteBuffer$Deallocator";
const UNMAPPER: &str = "sun/nio/ch/FileChannelImpl$Unmapper";

/// What the JVM counts in `java.nio.Bits`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bits {
    pub(crate) limit: u64,
    pub(crate) reserved: u64,
    pub(crate) capacity: u64,
    pub(crate) count: u64,
}

/// A broker under construction, as JDK 8 lays it out.
pub(crate) struct Broker {
    pub(crate) w: Writer,
    address: u64,
    /// Cleaner, what frees the memory, and the buffer.
    cleaners: Vec<(u64, u64, u64)>,
    pub(crate) bits: Bits,
    mapped: (u64, u32),
    serial: u32,
}

impl Broker {
    pub(crate) fn new(id_bytes: usize) -> Self {
        Self::of(Writer::new(id_bytes))
    }

    fn of(mut w: Writer) -> Self {
        let (l, i, j) = (2, 10, 11);
        w.class("java/lang/Object", "", &[], &[]);
        w.class("java/lang/String", "java/lang/Object", &[("value", l)], &[]);
        w.class("java/lang/Thread", "java/lang/Object", &[("name", l), ("threadLocals", l)], &[]);
        w.class("kafka/KafkaThread", "java/lang/Thread", &[("more", i)], &[]);
        w.class("java/lang/ThreadLocal$ThreadLocalMap", "java/lang/Object", &[("table", l)], &[]);
        w.class("java/lang/ref/Reference", "java/lang/Object", &[("next", l), ("referent", l)], &[]);
        w.class(ENTRY, "java/lang/ref/Reference", &[("value", l)], &[]);
        w.class("[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;", "java/lang/Object", &[], &[]);
        w.class(CACHE, "java/lang/Object", &[("count", i), ("start", i), ("buffers", l)], &[]);
        w.class("[Ljava/nio/ByteBuffer;", "java/lang/Object", &[], &[]);
        let buffer = [("address", j), ("capacity", i), ("limit", i), ("position", i), ("mark", i)];
        w.class("java/nio/Buffer", "java/lang/Object", &buffer, &[]);
        w.class("java/nio/ByteBuffer", "java/nio/Buffer", &[("hb", l)], &[]);
        w.class("java/nio/MappedByteBuffer", "java/nio/ByteBuffer", &[("fd", l)], &[]);
        w.class("java/nio/DirectByteBuffer", "java/nio/MappedByteBuffer", &[("cleaner", l), ("att", l)], &[]);
        w.class(DEALLOCATOR, "java/lang/Object", &[("capacity", i), ("size", j), ("address", j)], &[]);
        w.class("java/util/concurrent/atomic/AtomicLong", "java/lang/Object", &[("value", j)], &[]);
        w.class("sun/nio/ch/IOUtil", "java/lang/Object", &[], &[]);
        w.class("java/io/File", "java/lang/Object", &[("path", l)], &[]);
        w.class("kafka/Index", "java/lang/Object", &[("size", i), ("mmap", l), ("file", l)], &[]);
        w.class("app/Node", "java/lang/Object", &[("held", l), ("other", l)], &[]);
        let bits = Bits { limit: 1 << 30, reserved: 0, capacity: 0, count: 0 };
        Self { w, address: 0x7f00_0000_0000, cleaners: Vec::new(), bits, mapped: (0, 0), serial: 0 }
    }

    /// The whole broker with the largest of all numbers.
    pub(crate) fn with_largest_numbers(id_bytes: usize) -> Writer {
        let mut w = fill(Self::of(Writer { numbers: Numbers::Largest, ..Writer::new(id_bytes) }));
        w.numbers = Numbers::Given;
        w
    }

    /// Buffer, cleaner and what frees the memory; links of the cleaners' list come when all are known.
    fn allocate(&mut self, size: u64, class: &str) -> u64 {
        use Value::{Int, Long, Ref};
        let w = &mut self.w;
        let (id, cleaner, thunk) = (w.new_id(), w.new_id(), w.new_id());
        self.address += 1 << 32;
        w.instance(thunk, class, &[Int(size as u32), Long(size), Long(self.address)]);
        let own = [Ref(cleaner), Ref(0), Ref(if class == UNMAPPER { 8 } else { 0 }), Ref(0)];
        let sizes = [Long(self.address), Int(size as u32), Int((size / 2) as u32), Int(0), Int(u32::MAX)];
        w.instance(id, "java/nio/DirectByteBuffer", &[&own[..], &sizes].concat());
        self.cleaners.push((cleaner, thunk, id));
        id
    }

    /// A buffer that the JVM counts.
    pub(crate) fn buffer(&mut self, size: u64) -> u64 {
        self.bits.reserved += size;
        self.bits.capacity += size;
        self.bits.count += 1;
        self.allocate(size, DEALLOCATOR)
    }

    /// A mapped file.
    pub(crate) fn map(&mut self, size: u64) -> u64 {
        self.mapped = (self.mapped.0 + size, self.mapped.1 + 1);
        self.allocate(size, UNMAPPER)
    }

    /// A thread with a cache of so many buffers.
    pub(crate) fn thread(&mut self, name: &str, sizes: &[u64]) {
        use Value::{Int, Ref};
        let buffers: Vec<u64> = sizes.iter().map(|size| self.buffer(*size)).collect();
        self.serial += 1;
        let serial = self.serial;
        let w = &mut self.w;
        let mut slots = vec![0; 16];
        slots[15 - buffers.len() + 1..].copy_from_slice(&buffers);
        let array = w.new_id();
        w.array(array, "[Ljava/nio/ByteBuffer;", &slots);
        let value = w.new_id();
        w.instance(value, CACHE, &[Int(buffers.len() as u32), Int(1023), Ref(array)]);
        let (item, table, map, thread) = (w.new_id(), w.new_id(), w.new_id(), w.new_id());
        w.instance(item, ENTRY, &[Ref(value), Ref(0), Ref(0x20)]);
        w.array(table, "[Ljava/lang/ThreadLocal$ThreadLocalMap$Entry;", &[0, item, 0]);
        w.instance(map, "java/lang/ThreadLocal$ThreadLocalMap", &[Ref(table)]);
        let name = w.text(name);
        w.instance(thread, "kafka/KafkaThread", &[Int(1), Ref(name), Ref(map)]);
        w.stack(thread, serial, &[("java/lang/Object", "wait")]);
    }

    /// The list of cleaners and the JVM's own counters end the dump.
    pub(crate) fn finish(mut self) -> Writer {
        use Value::{Int, Long, Ref};
        let (l, i, j) = (2, 10, 11);
        let cleaners = std::mem::take(&mut self.cleaners);
        let links = |at: usize| cleaners.get(at).map_or(0, |(cleaner, _, _)| *cleaner);
        let w = &mut self.w;
        w.class(
            "sun/misc/Cleaner",
            "java/lang/ref/Reference",
            &[("next", l), ("prev", l), ("thunk", l)],
            &[("first", Ref(links(0)))],
        );
        for (at, (cleaner, thunk, buffer)) in cleaners.iter().enumerate() {
            let previous = at.checked_sub(1).map_or(0, links);
            let values = [Ref(links(at + 1)), Ref(previous), Ref(*thunk), Ref(0), Ref(*buffer)];
            w.instance(*cleaner, "sun/misc/Cleaner", &values);
        }
        let (mapped, count) = self.mapped;
        let counters = [("count", Int(count)), ("totalSize", Long(mapped)), ("totalCapacity", Long(mapped))];
        w.class(UNMAPPER, "java/lang/Object", &[("cap", i), ("size", j), ("address", j)], &counters);
        let mut counter = |value: u64| {
            let id = w.new_id();
            Ref(w.instance(id, "java/util/concurrent/atomic/AtomicLong", &[Long(value)]))
        };
        let bits = [
            ("maxMemory", Long(self.bits.limit)),
            ("reservedMemory", counter(self.bits.reserved)),
            ("totalCapacity", counter(self.bits.capacity)),
            ("count", counter(self.bits.count)),
        ];
        w.class("java/nio/Bits", "java/lang/Object", &[], &bits);
        let unlimited = [("MAX_CACHED_BUFFER_SIZE", Long(i64::MAX as u64))];
        w.class("sun/nio/ch/Util", "java/lang/Object", &[], &unlimited);
        self.w
    }
}

/// A broker with caches of three threads, a call in flight, a leak with a view, a map, garbage in a circle.
pub(crate) fn broker(id_bytes: usize) -> Writer {
    fill(Broker::new(id_bytes))
}

/// The same with zeros for all numbers.
pub(crate) fn broker_without_numbers(id_bytes: usize) -> Writer {
    fill(Broker::of(Writer { numbers: Numbers::Zero, ..Writer::new(id_bytes) }))
}

fn fill(mut broker: Broker) -> Writer {
    use Value::{Int, Long, Ref};
    for (name, sizes) in CACHED {
        broker.thread(name, sizes);
    }
    let in_flight = broker.buffer(IN_FLIGHT);
    let w = &mut broker.w;
    let thread = w.new_id();
    let name = w.text("ReplicaFetcherThread-0-2");
    w.instance(thread, "java/lang/Thread", &[Ref(name), Ref(0)]);
    w.stack(thread, 9, &[("sun/nio/ch/IOUtil", "readIntoNativeBuffer"), ("sun/nio/ch/IOUtil", "read")]);
    w.java_frame(in_flight, 9, 0);
    w.java_frame(in_flight, 9, 1);

    let leaked = broker.buffer(LEAKED);
    let w = &mut broker.w;
    let view = w.new_id();
    let own = [Ref(0), Ref(leaked), Ref(0), Ref(0), Long(1), Int(100), Int(100), Int(0), Int(0)];
    w.instance(view, "java/nio/DirectByteBuffer", &own);
    let (node, top) = (w.new_id(), w.new_id());
    w.instance(node, "app/Node", &[Ref(view), Ref(0)]);
    w.instance(top, "app/Node", &[Ref(node), Ref(0)]);
    w.class("app/Leak", "java/lang/Object", &[], &[("INSTANCE", Ref(top))]);

    let map = broker.map(MAPPED);
    let w = &mut broker.w;
    let path = w.text(FILE);
    let (file, index) = (w.new_id(), w.new_id());
    w.instance(file, "java/io/File", &[Ref(path)]);
    w.instance(index, "kafka/Index", &[Int(1), Ref(map), Ref(file)]);
    w.sticky(index);

    let garbage = broker.buffer(GARBAGE);
    let w = &mut broker.w;
    let (one, two) = (w.new_id(), w.new_id());
    w.instance(one, "app/Node", &[Ref(garbage), Ref(two)]);
    w.instance(two, "app/Node", &[Ref(0), Ref(one)]);
    broker.finish()
}
