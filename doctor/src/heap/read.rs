//! The passes, one after the other.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use crate::DoctorError;
use crate::hprof::{FieldType, Header, Origin, Part, Place, Root, split};

use super::chunks::{Chunks, chunk_bytes};
use super::classes::{Classes, Kind};
use super::collect::{Collector, Objects};
use super::holders::{Graph, MAX_FRONTIER, Step, Way};
use super::ids::IdSet;
use super::natives::{Natives, Role};
use super::pass::{Outcome, Progress, run};
use super::search::{By, Query, Search};
use super::symbols::{Frame, Front};
use super::text::{Answer, Texts};
use super::{Allocation, Books, Condition, Heap, Held, Holder, Options, Thread};

/// Fields of a map's holder that are looked at for the name of the file.
const MAX_CANDIDATES: usize = 24;
/// Passes that look for texts: a `File` in a field, its path, the bytes of that.
const TEXT_LEVELS: usize = 4;

/// An allocation whose holder is looked for.
struct Sought {
    /// Index of the buffer.
    buffer: usize,
    /// The buffer and its views.
    starts: Vec<u64>,
    books: Books,
    /// How many levels its holders are worth.
    levels: usize,
    done: bool,
}

struct Pass<'a> {
    origin: &'a Origin,
    header: &'a Header,
    threads: usize,
    options: &'a Options,
    progress: &'a Progress,
}

/// Everything of the first two passes.
struct First {
    classes: Classes,
    objects: Objects,
    chunks: Chunks,
    outcome: Outcome,
    thread_roots: Vec<(u64, u32, u32)>,
    virtual_threads: u64,
    object_count: u64,
    roots: u64,
    overflow: bool,
    symbols_end: u64,
    late: bool,
}

impl Heap {
    /// Reads a heap dump, plain or gzip. Input is untrusted.
    ///
    /// # Errors
    /// The file cannot be read, or is no heap dump of a JVM. A dump that is damaged behind its header is no error:
    /// [`Condition`] says what could not be read.
    pub fn read(path: &Path, options: &Options, progress: &Progress) -> Result<Self, DoctorError> {
        Self::read_origin(&Origin::open(path)?, options, progress)
    }

    /// The same of a dump that was opened already.
    ///
    /// # Errors
    /// As [`Heap::read`].
    pub fn read_origin(origin: &Origin, options: &Options, progress: &Progress) -> Result<Self, DoctorError> {
        let header = Header::read(origin)?;
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get().min(8)),
            threads => threads,
        };
        let pass = Pass { origin, header: &header, threads, options, progress };
        pass.read().map_err(|error| DoctorError::io(origin.path(), error))
    }
}

impl Pass<'_> {
    fn begin(&self) -> Place {
        let at = self.header.size_bytes;
        Place { at, record_end: at }
    }

    fn read(&self) -> io::Result<Heap> {
        let mut first = self.first()?;
        let natives = Natives::read(&first.classes, &first.objects);
        let mut passes = if first.late { 4 } else { 2 };
        let size_bytes = self.origin.size_bytes().unwrap_or(first.outcome.ended_at);
        let mut bytes_read = size_bytes * (passes as u64 / 2 * 2 - 1);

        let views = views_of(&natives);
        let mut sought = seek(&natives, &views);
        let mut graph = Graph::default();
        let mut texts = Texts::default();
        let mut holders: HashMap<u64, (usize, Vec<u8>)> = HashMap::new();
        let maps: HashSet<u64> = sought
            .iter()
            .filter(|sought| sought.books == Books::Mapped)
            .flat_map(|sought| sought.starts.iter().copied())
            .collect();
        for level in 1.. {
            let frontier = frontier(&first.classes, &graph, &mut sought, level, self.options.max_levels);
            first.overflow |= frontier.len() > MAX_FRONTIER;
            let targets: Vec<u64> = frontier.into_iter().take(MAX_FRONTIER).collect();
            let asked = match level <= TEXT_LEVELS.max(self.options.max_levels) {
                true => wanted_texts(&first.classes, &natives, &texts, &holders),
                false => HashSet::new(),
            };
            if targets.is_empty() && asked.is_empty() {
                break;
            }
            let with_fields = targets.iter().copied().filter(|id| maps.contains(id));
            let query = Query {
                with_fields: IdSet::new(with_fields),
                targets: IdSet::new(targets.iter().copied()),
                texts: IdSet::new(asked.iter().copied()),
            };
            let (parts, bytes) = first.chunks.select(&query.texts, &query.targets);
            self.progress.begin(bytes);
            let make = || Search::new(&first.classes, &query, self.header.id_bytes);
            let (searches, _) = run(self.origin, self.header, &parts, self.threads, self.progress, make)?;
            for search in searches {
                first.overflow |= search.overflow;
                for (id, referrers) in search.referrers {
                    graph.referrers.entry(id).or_default().join(referrers);
                }
                holders.extend(search.holders);
                texts.found.extend(search.found);
            }
            graph.searched.extend(targets);
            texts.asked.extend(asked);
            passes += 1;
            bytes_read += bytes;
        }
        self.finish(first, natives, sought, graph, &texts, &holders, (passes, bytes_read, size_bytes))
    }

    /// The classes, then all objects.
    fn first(&self) -> io::Result<First> {
        let mut first = self.try_first(true)?;
        if first.late {
            // Not HotSpot's order: all classes first, then the objects again.
            first = self.try_first(false)?;
            first.late = true;
        }
        Ok(first)
    }

    fn try_first(&self, stop_at_objects: bool) -> io::Result<First> {
        let whole = [Part { from: self.begin(), end: u64::MAX }];
        let id_bytes = self.header.id_bytes;
        if !stop_at_objects {
            self.progress.begin(self.origin.size_bytes().unwrap_or(0));
        }
        let quiet = Progress::default();
        let progress = if stop_at_objects { &quiet } else { self.progress };
        let make = || Classes::new(id_bytes, stop_at_objects);
        let (mut found, _) = run(self.origin, self.header, &whole, 1, progress, make)?;
        let Some(mut classes) = found.pop() else { return Err(io::Error::other("no classes")) };
        classes.resolve();
        let counters = classes.named_statics().filter(|(_, _, kind, _)| *kind == FieldType::Object);
        let counters = IdSet::new(counters.map(|(_, _, _, value)| value));

        let guess = self.origin.size_bytes().unwrap_or(self.origin.stored_bytes().saturating_mul(5));
        let chunk_bytes = chunk_bytes(guess);
        let parts = split(self.origin, self.begin(), classes.place, chunk_bytes.max(4 << 20))?;
        self.progress.begin(self.origin.size_bytes().unwrap_or(0));
        let limit_bytes = self.options.limit_bytes / self.threads.max(1);
        let make = || Collector::new(&classes, &counters, id_bytes, chunk_bytes, limit_bytes);
        let (collectors, outcome) = run(self.origin, self.header, &parts, self.threads, self.progress, make)?;
        let mut objects = Objects::default();
        let mut chunks = Chunks::new(chunk_bytes);
        let mut thread_roots = Vec::new();
        let (mut virtual_threads, mut object_count, mut roots) = (0, 0, 0);
        let (mut overflow, mut late, mut symbols_end) = (classes.overflow, false, classes.symbols_end);
        for mut collector in collectors {
            objects.take(&mut collector);
            thread_roots.append(&mut collector.thread_roots);
            virtual_threads += collector.virtual_threads;
            object_count += collector.object_count;
            roots += collector.roots;
            overflow |= collector.overflow;
            late |= collector.late_classes;
            symbols_end = symbols_end.max(collector.symbols_end);
            chunks.merge(collector.chunks);
        }
        objects.index();
        Ok(First {
            classes,
            objects,
            chunks,
            outcome,
            thread_roots,
            virtual_threads,
            object_count,
            roots,
            overflow,
            symbols_end,
            late: late && stop_at_objects,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the results of all passes meet here, once")]
    fn finish(
        &self,
        first: First,
        natives: Natives,
        sought: Vec<Sought>,
        graph: Graph,
        texts: &Texts,
        holders: &HashMap<u64, (usize, Vec<u8>)>,
        (passes, bytes_read, size_bytes): (usize, u64, u64),
    ) -> io::Result<Heap> {
        let outcome = first.outcome;
        let classes = &first.classes;
        // A redacted name is empty or all zeros.
        let known = |id: u64| match texts.text(classes, id) {
            Answer::Known(text) => Some(text).filter(|text| text.chars().any(|c| c != '\u{fffd}')),
            _ => None,
        };
        let names: Vec<Option<String>> = natives.threads.iter().map(|thread| known(thread.name)).collect();
        let condition = Condition {
            path: self.origin.path().to_path_buf(),
            stored_bytes: self.origin.stored_bytes(),
            size_bytes,
            gzip_members: self.origin.members(),
            version: self.header.version,
            id_bytes: self.header.id_bytes,
            time_ms: self.header.time_ms,
            truncated: outcome.truncated,
            end_missing: self.header.version == 2 && !outcome.end_seen,
            problems: outcome.problems,
            more_problems: outcome.more_problems,
            gzip_problem: self.origin.problem().map(str::to_string),
            roots: first.roots,
            thread_roots: first.thread_roots.len(),
            names_redacted: !names.is_empty() && names.iter().all(Option::is_none),
            numbers_redacted: !natives.buffers.is_empty()
                && natives.buffers.iter().all(|buffer| buffer.capacity == 0 && buffer.address == 0),
            overflow: first.overflow,
            late_classes: first.late,
            passes,
            bytes_read,
        };

        let reached = graph.reached(classes, true);
        let doubtful = graph.doubtful(classes);
        let way = |starts: &[u64]| reached.way(starts).unwrap_or_else(|| graph.climb(classes, starts));
        let ways: Vec<Way> = sought.iter().map(|sought| way(&sought.starts)).collect();
        let thread_of_serial: HashMap<u32, (u64, u32)> =
            first.thread_roots.iter().map(|(id, serial, trace)| (*serial, (*id, *trace))).collect();
        let stacks = {
            let serials = sought.iter().flat_map(|sought| graph.frames(&sought.starts));
            let traces =
                serials.filter_map(|(serial, _)| thread_of_serial.get(&serial).map(|(_, trace)| *trace));
            let front = Front { origin: self.origin, header: self.header, end: first.symbols_end };
            front.stacks(&traces.collect())?
        };
        let class_of_serial: HashMap<u32, usize> = match stacks.is_empty() {
            true => HashMap::new(),
            false => classes.list.iter().enumerate().map(|(index, class)| (class.serial, index)).collect(),
        };
        let mut symbols: HashSet<u64> = HashSet::new();
        let symbol_of = |index: usize| classes.list.get(index).map_or(0, |class| class.name);
        let class_symbol = |id: u64| classes.index(id).map_or(0, symbol_of);
        symbols.extend(natives.threads.iter().map(|thread| symbol_of(thread.class)));
        symbols.extend(natives.buffers.iter().map(|buffer| symbol_of(buffer.class)));
        for (step, _) in ways.iter().flat_map(|way| &way.steps) {
            match *step {
                Step::Field { class, declared_by, name } => {
                    symbols.extend([symbol_of(class), symbol_of(declared_by), name]);
                }
                Step::Element { class, .. } => symbols.extend([class_symbol(class)]),
                Step::Static { class, name } => symbols.extend([class_symbol(class), name]),
                Step::Root(_) | Step::More => {}
            }
        }
        for frame in stacks.values().flatten() {
            let class = class_of_serial.get(&frame.class_serial).map_or(0, |index| symbol_of(*index));
            symbols.extend([frame.method, class]);
        }
        symbols.remove(&0);
        let front = Front { origin: self.origin, header: self.header, end: first.symbols_end };
        let symbols = front.symbols(&symbols)?;
        let thread_index: HashMap<u64, usize> =
            natives.threads.iter().enumerate().map(|(index, thread)| (thread.id, index)).collect();
        let naming = Naming {
            classes,
            symbols,
            stacks,
            thread_of_serial,
            thread_index,
            class_of_serial,
            names: &names,
        };

        let mut held: HashMap<usize, Held> = HashMap::new();
        let mut files: HashMap<usize, String> = HashMap::new();
        for (sought, way) in sought.iter().zip(&ways) {
            let state = {
                let known = condition.is_complete() && sought.starts.iter().all(|id| !doubtful.contains(id));
                naming.held(&graph, sought, way, condition.is_complete(), known)
            };
            held.insert(sought.buffer, state);
            if sought.books == Books::Mapped
                && let Some(file) = file_name(classes, texts, &graph, &sought.starts, holders)
            {
                files.insert(sought.buffer, file);
            }
        }
        let views = views_of(&natives);
        let mut allocations: Vec<Allocation> = Vec::new();
        let mut largest: HashMap<(String, Books), usize> = HashMap::new();
        let (mut view_count, mut lost_views) = (0, 0);
        let buffer_ids: HashSet<u64> = natives.buffers.iter().map(|buffer| buffer.id).collect();
        for (index, buffer) in natives.buffers.iter().enumerate() {
            let cached = natives.cached.get(&buffer.id);
            let (books, bytes) = match buffer.role {
                Role::Owner { size } => (Books::Direct, size),
                Role::Map { size } => (Books::Mapped, size),
                Role::Foreign => (Books::None, buffer.capacity),
                Role::View { of } => {
                    view_count += 1;
                    lost_views += u64::from(!buffer_ids.contains(&of));
                    continue;
                }
                Role::Freed => continue,
            };
            if books == Books::None && bytes == 0 && cached.is_none() {
                continue;
            }
            let mut held = match cached {
                Some(None) if condition.is_complete() => Held::Garbage,
                Some(thread) => Held::Cached(*thread),
                None => held.remove(&index).unwrap_or(Held::Unknown),
            };
            if let Held::Objects(holder) = &held {
                // The largest of each owner has the path; thousands of them would fill memory with the same words.
                let best = largest.entry((holder.owner.clone(), books)).or_insert(allocations.len());
                if let Some(other) = allocations.get_mut(*best)
                    && let Held::Objects(shown) = &mut other.held
                {
                    if other.bytes < bytes {
                        shown.path = Vec::new();
                        *best = allocations.len();
                    } else if let Held::Objects(holder) = &mut held {
                        holder.path = Vec::new();
                    }
                }
            }
            allocations.push(Allocation {
                id: buffer.id,
                class: naming.class(buffer.class),
                bytes,
                capacity: buffer.capacity,
                limit: buffer.limit,
                position: buffer.position,
                address: buffer.address,
                views: views.get(&buffer.id).map_or(0, |views| views.len() as u64),
                books,
                held,
                file: files.remove(&index),
            });
        }
        allocations.extend(natives.orphans.iter().map(|orphan| Allocation {
            id: orphan.cleaner,
            class: "java.nio.DirectByteBuffer".into(),
            bytes: orphan.size,
            capacity: orphan.capacity,
            limit: 0,
            position: 0,
            address: orphan.address,
            views: 0,
            books: if orphan.mapped { Books::Mapped } else { Books::Direct },
            held: if condition.is_complete() { Held::Garbage } else { Held::Unknown },
            file: None,
        }));
        let threads = natives.threads.iter().zip(&names);
        let threads = threads
            .map(|(thread, name)| Thread {
                id: thread.id,
                name: name.clone(),
                class: naming.class(thread.class),
                caches: thread.caches,
            })
            .collect();
        Ok(Heap {
            condition,
            objects: first.object_count,
            classes: classes.list.len(),
            threads,
            virtual_threads: first.virtual_threads,
            caches: natives.cache_count,
            lost_caches: natives.lost_caches,
            torn_caches: natives.torn_caches,
            allocations,
            views: view_count,
            lost_views,
            statics: natives.statics,
        })
    }
}

/// Views by what they view.
fn views_of(natives: &Natives) -> HashMap<u64, Vec<u64>> {
    let mut views: HashMap<u64, Vec<u64>> = HashMap::new();
    for buffer in &natives.buffers {
        if let Role::View { of } = buffer.role {
            views.entry(of).or_default().push(buffer.id);
        }
    }
    views
}

/// Buffers that are in no cache: who holds them is the question.
fn seek(natives: &Natives, views: &HashMap<u64, Vec<u64>>) -> Vec<Sought> {
    let mut sought = Vec::new();
    for (index, buffer) in natives.buffers.iter().enumerate() {
        let (books, levels) = match buffer.role {
            Role::Owner { .. } => (Books::Direct, usize::MAX),
            Role::Map { .. } => (Books::Mapped, 1),
            Role::Foreign if buffer.capacity > 0 => (Books::None, 3),
            _ => continue,
        };
        if natives.cached.contains_key(&buffer.id) {
            continue;
        }
        let mut starts = vec![buffer.id];
        starts.extend(views.get(&buffer.id).into_iter().flatten().take(1_024));
        sought.push(Sought { buffer: index, starts, books, levels, done: false });
    }
    sought
}

/// What the next pass has to look for.
fn frontier(
    classes: &Classes,
    graph: &Graph,
    sought: &mut [Sought],
    level: usize,
    max_levels: usize,
) -> Vec<u64> {
    let reached = graph.reached(classes, false);
    for sought in sought.iter_mut() {
        sought.done |=
            level > sought.levels.min(max_levels) || sought.starts.iter().any(|id| reached.has(*id));
    }
    let starts = sought.iter().filter(|sought| !sought.done).flat_map(|sought| sought.starts.iter().copied());
    graph.open(classes, starts)
}

/// Parts of texts that must be found next: names of threads, and what may name a mapped file.
fn wanted_texts(
    classes: &Classes,
    natives: &Natives,
    texts: &Texts,
    holders: &HashMap<u64, (usize, Vec<u8>)>,
) -> HashSet<u64> {
    let names = natives.threads.iter().map(|thread| thread.name);
    let candidates = holders.values().flat_map(|(class, fields)| candidates(classes, *class, fields));
    names
        .chain(candidates.map(|(id, _)| id))
        .filter_map(|id| match texts.text(classes, id) {
            Answer::Ask(id) => Some(id),
            _ => None,
        })
        .collect()
}

/// References of a map's holder, with the offset of the field.
fn candidates(classes: &Classes, class: usize, fields: &[u8]) -> Vec<(u64, usize)> {
    let Some((_, layout)) = classes.list.get(class).and_then(|class| classes.layout(class.id)) else {
        return Vec::new();
    };
    let offsets = classes.references(layout).iter().take(MAX_CANDIDATES);
    offsets
        .filter_map(|offset| Some((classes.reference_at(fields, *offset as usize)?, *offset as usize)))
        .collect()
}

/// The name of a mapped file, from a `File`, a `Path` or a field that is called so in the object that holds the map.
fn file_name(
    classes: &Classes,
    texts: &Texts,
    graph: &Graph,
    starts: &[u64],
    holders: &HashMap<u64, (usize, Vec<u8>)>,
) -> Option<String> {
    let referrers = starts.iter().filter_map(|id| graph.referrers.get(id));
    let mut best: Option<(u8, String)> = None;
    for referrer in referrers.flat_map(|referrers| &referrers.list) {
        let By::Field(holder, ..) = referrer.by else { continue };
        let Some((class, fields)) = holders.get(&holder) else { continue };
        for (id, offset) in candidates(classes, *class, fields) {
            let named = || {
                let (_, name) = classes.field_at(*class, offset)?;
                classes.symbols.get(&name).filter(|name| matches!(name.as_str(), "file" | "path"))
            };
            let rank = match texts.kind(classes, id) {
                Some(Kind::File | Kind::Path) => 0,
                Some(Kind::String) if named().is_some() => 1,
                _ => continue,
            };
            if best.as_ref().is_none_or(|(other, _)| rank < *other)
                && let Answer::Known(text) = texts.text(classes, id)
            {
                best = Some((rank, text));
            }
        }
    }
    best.map(|(_, name)| name)
}

/// Makes texts of ids.
struct Naming<'a> {
    classes: &'a Classes,
    symbols: HashMap<u64, String>,
    stacks: HashMap<u32, Vec<Frame>>,
    thread_of_serial: HashMap<u32, (u64, u32)>,
    thread_index: HashMap<u64, usize>,
    class_of_serial: HashMap<u32, usize>,
    names: &'a [Option<String>],
}

impl Naming<'_> {
    fn symbol(&self, id: u64) -> &str {
        self.symbols.get(&id).map_or("?", String::as_str)
    }

    /// A class's name as Java source has it.
    fn class(&self, index: usize) -> String {
        let Some(class) = self.classes.list.get(index) else { return "?".into() };
        java_name(self.symbol(class.name))
    }

    fn class_of(&self, id: u64) -> String {
        self.classes.index(id).map_or_else(|| "?".into(), |index| self.class(index))
    }

    fn thread(&self, index: usize) -> String {
        match self.names.get(index) {
            Some(Some(name)) => format!("thread \"{name}\""),
            _ => "a thread without a name".into(),
        }
    }

    fn frame(&self, serial: u32, frame: i32) -> (Option<usize>, String) {
        let Some((object, trace)) = self.thread_of_serial.get(&serial) else { return (None, String::new()) };
        let stack = self.stacks.get(trace);
        let frame = usize::try_from(frame).ok().and_then(|at| stack?.get(at));
        let text = frame.map_or_else(String::new, |frame| {
            let class = self.class_of_serial.get(&frame.class_serial).map(|index| self.class(*index));
            format!("{}.{}", class.unwrap_or_else(|| "?".into()), self.symbol(frame.method))
        });
        (self.thread_index.get(object).copied(), text)
    }

    /// `complete`: the dump was read whole. `known`: all that may hold it was looked at.
    fn held(&self, graph: &Graph, sought: &Sought, way: &Way, complete: bool, known: bool) -> Held {
        let only_frames = !graph.is_held_by_more_than_frames(&sought.starts);
        let frames = graph.frames(&sought.starts);
        if only_frames && !frames.is_empty() && sought.starts.len() == 1 {
            let io = |text: &str| text.starts_with("sun.nio.ch.");
            let frames: Vec<_> = frames.iter().map(|(serial, frame)| self.frame(*serial, *frame)).collect();
            if frames.iter().all(|(_, text)| text.is_empty() || io(text))
                && let Some((thread, text)) = frames.into_iter().find(|(_, text)| io(text))
            {
                return Held::InFlight(thread, text);
            }
        }
        if way.steps.is_empty() {
            return if complete { Held::Garbage } else { Held::Unknown };
        }
        if !way.complete && known && sought.levels == usize::MAX {
            return Held::Garbage;
        }
        Held::Objects(self.holder(way))
    }

    fn holder(&self, way: &Way) -> Holder {
        let thread = way.thread.and_then(|id| self.thread_index.get(&id).copied());
        let mut path = Vec::new();
        let mut owner = None;
        let mut nearest = None;
        for (place, (step, count)) in way.steps.iter().enumerate() {
            let (text, holder) = match *step {
                Step::Field { class, declared_by, name } => {
                    let class = self.class(class);
                    let holder = format!("{}.{}", self.class(declared_by), self.symbol(name));
                    let text = match thread {
                        Some(thread) if place == 0 => {
                            format!("{}.{}", self.thread(thread), self.symbol(name))
                        }
                        _ => format!("{class}.{}", self.symbol(name)),
                    };
                    (text, Some((is_jdk(&class), holder)))
                }
                Step::Element { class, index } => {
                    let name = self.class_of(class);
                    (format!("{}[{index}]", name.strip_suffix("[]").unwrap_or(&name)), None)
                }
                Step::Static { class, name } => {
                    let class = self.class_of(class);
                    let holder = format!("{class}.{}", self.symbol(name));
                    (format!("static {holder}"), Some((is_jdk(&class), holder)))
                }
                Step::Root(root) => (self.root(root), None),
                Step::More => ("…".into(), None),
            };
            match holder {
                Some((false, holder)) => owner = Some(holder),
                Some((true, holder)) => nearest = Some(holder),
                None => {}
            }
            path.push(if *count > 1 { format!("{text} × {count}") } else { text });
        }
        let owner = owner.or(nearest).or_else(|| path.first().cloned()).unwrap_or_default();
        Holder { owner, path, complete: way.complete, thread }
    }

    fn root(&self, root: Root) -> String {
        match root {
            Root::JavaFrame { thread, frame } | Root::JniLocal { thread, frame } => {
                let (index, text) = self.frame(thread, frame);
                let thread = index.map_or_else(|| "a thread".into(), |index| self.thread(index));
                if text.is_empty() {
                    format!("stack of {thread}")
                } else {
                    format!("stack of {thread}, {text}")
                }
            }
            Root::JniGlobal => "a global reference of native code".into(),
            Root::NativeStack { .. } => "a native stack".into(),
            Root::StickyClass => "a system class".into(),
            Root::ThreadBlock { .. } => "a thread's block".into(),
            Root::Monitor => "a monitor in use".into(),
            Root::Thread { .. } => "a thread".into(),
            Root::Unknown => "a root of unknown kind".into(),
        }
    }
}

/// `[Ljava/lang/String;` is `java.lang.String[]`.
fn java_name(symbol: &str) -> String {
    let dimensions = symbol.bytes().take_while(|byte| *byte == b'[').count();
    let element = symbol.get(dimensions..).unwrap_or_default();
    let element = match (dimensions, element) {
        (0, name) => name,
        (_, "Z") => "boolean",
        (_, "B") => "byte",
        (_, "C") => "char",
        (_, "S") => "short",
        (_, "I") => "int",
        (_, "J") => "long",
        (_, "F") => "float",
        (_, "D") => "double",
        (_, name) => name.strip_prefix('L').and_then(|name| name.strip_suffix(';')).unwrap_or(name),
    };
    element.replace('/', ".") + &"[]".repeat(dimensions)
}

/// Whether a class is a part of the JDK, or a collection of Scala.
fn is_jdk(class: &str) -> bool {
    ["java.", "javax.", "jdk.", "sun.", "com.sun.", "scala.collection."]
        .iter()
        .any(|begin| class.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_read_as_in_java() {
        assert_eq!(java_name("java/lang/Thread"), "java.lang.Thread");
        assert_eq!(java_name("[[Ljava/lang/String;"), "java.lang.String[][]");
        assert_eq!(java_name("[B"), "byte[]");
        assert_eq!(java_name("["), "[]");
    }
}
