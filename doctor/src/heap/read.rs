//! The passes, one after the other.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use crate::DoctorError;
use crate::hprof::{FieldType, Header, Origin, Part, Place, split};

use super::assemble::Found;
use super::chunks::{Chunks, chunk_bytes};
use super::classes::Classes;
use super::collect::{Collector, Objects, VirtualThreads};
use super::files::wanted_texts;
use super::holders::{Graph, MAX_FRONTIER};
use super::ids::IdSet;
use super::natives::{Natives, Role};
use super::pass::{Outcome, Progress, run};
use super::search::{Query, Search};
use super::text::Texts;
use super::{Books, Heap, Options};

/// Passes that look for texts: a `File` in a field, its path, the bytes of that.
const TEXT_LEVELS: usize = 4;

/// An allocation whose holder is looked for.
pub(super) struct Sought {
    /// Index of the buffer.
    pub(super) buffer: u32,
    pub(super) books: Books,
    /// Whether the answer is wanted whatever it takes, or only the nearest holders.
    pub(super) levels: u8,
    done: bool,
}

/// A buffer, its views, and the session that would free it: who holds one of them holds the memory.
pub(super) fn starts<'a>(natives: &'a Natives, sought: &Sought) -> impl Iterator<Item = u64> + Clone + 'a {
    let buffer = natives.buffers.get(sought.buffer as usize);
    let session = buffer.map(|buffer| buffer.session).filter(|id| *id != 0);
    let id = buffer.map_or(0, |buffer| buffer.id);
    std::iter::once(id).chain(natives.views.of(id)).chain(session)
}

/// As [`Sought::levels`]: all.
pub(super) const ALL_LEVELS: u8 = u8::MAX;

struct Pass<'a> {
    origin: &'a Origin,
    header: &'a Header,
    threads: usize,
    options: &'a Options,
    progress: &'a Progress,
}

/// Everything of the first two passes.
pub(super) struct First {
    pub(super) classes: Classes,
    pub(super) chunks: Chunks,
    pub(super) outcome: Outcome,
    pub(super) thread_roots: Vec<(u64, u32, u32)>,
    pub(super) virtual_threads: VirtualThreads,
    pub(super) object_count: u64,
    pub(super) roots: u64,
    pub(super) overflow: bool,
    pub(super) symbols_end: u64,
    pub(super) late: bool,
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
        let (mut first, objects) = self.first()?;
        let complete =
            first.outcome.is_whole(self.header) && first.outcome.problems.is_empty() && !first.overflow;
        let natives = Natives::read(&first.classes, &objects, complete);
        first.overflow |= natives.overflow;
        drop(objects);
        let mut passes = if first.late { 4 } else { 2 };
        let size_bytes = self.origin.size_bytes().unwrap_or(first.outcome.ended_at);
        let mut bytes_read = size_bytes * (passes as u64 / 2 * 2 - 1);

        let mut sought = seek(&natives);
        let mut graph = Graph::default();
        let mut texts = Texts::default();
        let mut holders: HashMap<u64, (usize, Box<[u8]>)> = HashMap::new();
        let maps = sought.iter().filter(|sought| sought.books == Books::Mapped);
        let mut maps: Vec<u64> = maps.flat_map(|sought| starts(&natives, sought)).collect();
        maps.sort_unstable();
        for level in 1.. {
            let mut targets =
                frontier(&first.classes, &natives, &graph, &mut sought, level, self.options.max_levels);
            first.overflow |= targets.len() > MAX_FRONTIER;
            targets.truncate(MAX_FRONTIER);
            let asked = match level <= TEXT_LEVELS.max(self.options.max_levels) {
                true => wanted_texts(&first.classes, &natives, &texts, &holders),
                false => HashSet::new(),
            };
            if targets.is_empty() && asked.is_empty() {
                break;
            }
            let with_fields = targets.iter().copied().filter(|id| maps.binary_search(id).is_ok());
            let query = Query {
                with_fields: IdSet::new(with_fields),
                targets: IdSet::new(targets.iter().copied()),
                texts: IdSet::new(asked.iter().copied()),
            };
            let (parts, bytes) = first.chunks.select(&query.texts, &query.targets);
            self.progress.begin(bytes);
            let make = || Search::new(&first.classes, &query, self.header.id_bytes, self.threads);
            let (searches, _) = run(self.origin, self.header, &parts, self.threads, self.progress, make)?;
            let mut referrers = Vec::new();
            let mut counts = vec![0_u32; query.targets.sorted().len()];
            for search in searches {
                first.overflow |= search.overflow;
                referrers.extend(search.referrers);
                counts
                    .iter_mut()
                    .zip(search.counts)
                    .for_each(|(sum, count)| *sum = sum.saturating_add(count));
                holders.extend(search.holders);
                texts.found.extend(search.found);
            }
            first.overflow |= !graph.add(query.targets.sorted(), &counts, referrers);
            texts.asked.extend(asked);
            passes += 1;
            bytes_read += bytes;
        }
        let found = Found { first, natives, sought, graph, texts, holders, passes, bytes_read, size_bytes };
        found.assemble(self.origin, self.header)
    }

    /// The classes, then all objects.
    fn first(&self) -> io::Result<(First, Objects)> {
        let (first, objects) = self.try_first(true)?;
        if !first.late {
            return Ok((first, objects));
        }
        // Not HotSpot's order: all classes first, then the objects again.
        drop((first, objects));
        let (mut first, objects) = self.try_first(false)?;
        first.late = true;
        Ok((first, objects))
    }

    fn try_first(&self, stop_at_objects: bool) -> io::Result<(First, Objects)> {
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
        let mut virtual_threads = VirtualThreads::default();
        let (mut object_count, mut roots) = (0, 0);
        let (mut overflow, mut late, mut symbols_end) = (classes.overflow, false, classes.symbols_end);
        for mut collector in collectors {
            objects.take(&mut collector);
            thread_roots.append(&mut collector.thread_roots);
            virtual_threads.add(&mut collector.virtual_threads);
            object_count += collector.object_count;
            roots += collector.roots;
            overflow |= collector.overflow;
            late |= collector.late_classes;
            symbols_end = symbols_end.max(collector.symbols_end);
            chunks.merge(collector.chunks);
        }
        if let Some((from, to)) = outcome.stretched {
            chunks.stretch(from, to);
        }
        objects.index();
        let first = First {
            classes,
            chunks,
            outcome,
            thread_roots,
            virtual_threads,
            object_count,
            roots,
            overflow,
            symbols_end,
            late: late && stop_at_objects,
        };
        Ok((first, objects))
    }
}

/// Buffers that are in no cache: who holds them is the question.
fn seek(natives: &Natives) -> Vec<Sought> {
    let mut sought = Vec::new();
    for (index, buffer) in natives.buffers.iter().enumerate() {
        let (books, levels) = match buffer.role {
            Role::Owner { .. } | Role::Segment { reserved: true, .. } => (Books::Direct, ALL_LEVELS),
            Role::Map { .. } => (Books::Mapped, 1),
            Role::Segment { .. } => (Books::None, ALL_LEVELS),
            Role::Foreign if buffer.capacity > 0 => (Books::None, ALL_LEVELS),
            _ => continue,
        };
        if !natives.cached.contains_key(&buffer.id) {
            sought.push(Sought { buffer: index as u32, books, levels, done: false });
        }
    }
    sought
}

/// What the next pass has to look for.
fn frontier(
    classes: &Classes,
    natives: &Natives,
    graph: &Graph,
    sought: &mut [Sought],
    level: usize,
    max_levels: usize,
) -> Vec<u64> {
    let reached = graph.reached(classes, false);
    for sought in sought.iter_mut().filter(|sought| !sought.done) {
        let beyond = level > max_levels || sought.levels != ALL_LEVELS && level > usize::from(sought.levels);
        sought.done = beyond || starts(natives, sought).any(|id| reached.has(id));
    }
    graph
        .open(classes, sought.iter().filter(|sought| !sought.done).flat_map(|sought| starts(natives, sought)))
}
