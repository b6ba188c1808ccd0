//! Puts together what the passes found: names, holders, one allocation for each piece of memory.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::hprof::{Header, Origin};

use super::files::file_name;
use super::holders::{Graph, Step, Way};
use super::naming::Naming;
use super::natives::{Natives, Role};
use super::read::{First, Sought};
use super::symbols::{Frame, Front};
use super::text::{Answer, Texts};
use super::{Allocation, Books, Condition, Heap, Held, Thread};

/// What the passes found.
pub(super) struct Found {
    pub(super) first: First,
    pub(super) natives: Natives,
    pub(super) sought: Vec<Sought>,
    pub(super) graph: Graph,
    pub(super) texts: Texts,
    /// Objects that hold maps: index of the class, fields.
    pub(super) holders: HashMap<u64, (usize, Vec<u8>)>,
    pub(super) passes: usize,
    pub(super) bytes_read: u64,
    pub(super) size_bytes: u64,
}

/// How the buffers that were sought are held, and the files that are mapped; by index of the buffer.
#[derive(Default)]
struct Holding {
    held: HashMap<usize, Held>,
    files: HashMap<usize, String>,
}

impl Found {
    pub(super) fn assemble(mut self, origin: &Origin, header: &Header) -> io::Result<Heap> {
        let names = self.names();
        let condition = self.condition(origin, header, &names);
        let ways = self.ways();
        let front = Front { origin, header, end: self.first.symbols_end };
        let naming = self.naming(&front, &ways, &names)?;
        let holding = self.holding(&naming, &ways, condition.is_complete());
        let allocations = self.allocations(&naming, holding, condition.is_complete());
        let ids: HashSet<u64> = self.natives.buffers.iter().map(|buffer| buffer.id).collect();
        let viewed = self.natives.buffers.iter().filter_map(|buffer| match buffer.role {
            Role::View { of } => Some(of),
            _ => None,
        });
        let (views, lost) =
            viewed.fold((0, 0), |(all, lost), of| (all + 1, lost + u64::from(!ids.contains(&of))));
        let threads = self.natives.threads.iter().zip(&names).map(|(thread, name)| Thread {
            id: thread.id,
            name: name.clone(),
            class: naming.class(thread.class),
            caches: thread.caches,
        });
        Ok(Heap {
            condition,
            objects: self.first.object_count,
            classes: self.first.classes.list.len(),
            threads: threads.collect(),
            virtual_threads: self.first.virtual_threads,
            caches: self.natives.cache_count,
            lost_caches: self.natives.lost_caches,
            torn_caches: self.natives.torn_caches,
            allocations,
            views,
            lost_views: lost,
            statics: self.natives.statics.clone(),
        })
    }

    /// Names of the threads. A redacted one, empty or all zeros, is none.
    fn names(&self) -> Vec<Option<String>> {
        let name = |id: u64| match self.texts.text(&self.first.classes, id) {
            Answer::Known(text) => Some(text).filter(|text| text.chars().any(|c| c != '\u{fffd}')),
            _ => None,
        };
        self.natives.threads.iter().map(|thread| name(thread.name)).collect()
    }

    fn condition(&mut self, origin: &Origin, header: &Header, names: &[Option<String>]) -> Condition {
        let outcome = std::mem::take(&mut self.first.outcome);
        let buffers = &self.natives.buffers;
        Condition {
            path: origin.path().to_path_buf(),
            stored_bytes: origin.stored_bytes(),
            size_bytes: self.size_bytes,
            gzip_members: origin.members(),
            version: header.version,
            id_bytes: header.id_bytes,
            time_ms: header.time_ms,
            truncated: outcome.truncated,
            end_missing: header.version == 2 && !outcome.end_seen,
            problems: outcome.problems,
            more_problems: outcome.more_problems,
            gzip_problem: origin.problem().cloned(),
            roots: self.first.roots,
            thread_roots: self.first.thread_roots.len(),
            names_redacted: !names.is_empty() && names.iter().all(Option::is_none),
            numbers_redacted: !buffers.is_empty()
                && buffers.iter().all(|buffer| buffer.capacity == 0 && buffer.address == 0),
            overflow: self.first.overflow,
            late_classes: self.first.late,
            passes: self.passes,
            bytes_read: self.bytes_read,
        }
    }

    /// The way down to each buffer that was sought.
    fn ways(&self) -> Vec<Way> {
        let classes = &self.first.classes;
        let reached = self.graph.reached(classes, true);
        let way = |starts: &[u64]| reached.way(starts).unwrap_or_else(|| self.graph.climb(classes, starts));
        self.sought.iter().map(|sought| way(&sought.starts)).collect()
    }

    /// Reads the names that are needed.
    fn naming<'a>(
        &'a self,
        front: &Front<'_>,
        ways: &[Way],
        names: &'a [Option<String>],
    ) -> io::Result<Naming<'a>> {
        let classes = &self.first.classes;
        let thread_of_serial: HashMap<u32, (u64, u32)> =
            self.first.thread_roots.iter().map(|(id, serial, trace)| (*serial, (*id, *trace))).collect();
        let serials = self.sought.iter().flat_map(|sought| self.graph.frames(&sought.starts));
        let trace = |serial: u32| thread_of_serial.get(&serial).map(|(_, trace)| *trace);
        let stacks = front.stacks(&serials.filter_map(|(serial, _)| trace(serial)).collect())?;
        let class_of_serial: HashMap<u32, usize> = match stacks.is_empty() {
            true => HashMap::new(),
            false => classes.list.iter().enumerate().map(|(index, class)| (class.serial, index)).collect(),
        };
        let symbols = front.symbols(&self.symbols(ways, &stacks, &class_of_serial))?;
        let threads = self.natives.threads.iter().enumerate();
        let thread_index = threads.map(|(index, thread)| (thread.id, index)).collect();
        Ok(Naming { classes, symbols, stacks, thread_of_serial, thread_index, class_of_serial, names })
    }

    /// Symbols of everything that is named.
    fn symbols(
        &self,
        ways: &[Way],
        stacks: &HashMap<u32, Vec<Frame>>,
        class_of_serial: &HashMap<u32, usize>,
    ) -> HashSet<u64> {
        let classes = &self.first.classes;
        let symbol_of = |index: usize| classes.list.get(index).map_or(0, |class| class.name);
        let class_symbol = |id: u64| classes.index(id).map_or(0, symbol_of);
        let mut symbols: HashSet<u64> = HashSet::new();
        symbols.extend(self.natives.threads.iter().map(|thread| symbol_of(thread.class)));
        symbols.extend(self.natives.buffers.iter().map(|buffer| symbol_of(buffer.class)));
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
        symbols
    }

    fn holding(&self, naming: &Naming<'_>, ways: &[Way], complete: bool) -> Holding {
        let doubtful = self.graph.doubtful(&self.first.classes);
        let mut holding = Holding::default();
        for (sought, way) in self.sought.iter().zip(ways) {
            let known = complete && sought.starts.iter().all(|id| !doubtful.contains(id));
            let state = naming.held(&self.graph, sought, way, complete, known);
            holding.held.insert(sought.buffer, state);
            if sought.books == Books::Mapped
                && let Some(file) =
                    file_name(&self.first.classes, &self.texts, &self.graph, &sought.starts, &self.holders)
            {
                holding.files.insert(sought.buffer, file);
            }
        }
        holding
    }

    fn allocations(&self, naming: &Naming<'_>, mut holding: Holding, complete: bool) -> Vec<Allocation> {
        let views = views_of(&self.natives);
        let mut allocations: Vec<Allocation> = Vec::new();
        let mut largest: HashMap<(String, Books), usize> = HashMap::new();
        for (index, buffer) in self.natives.buffers.iter().enumerate() {
            let cached = self.natives.cached.get(&buffer.id);
            let (books, bytes) = match buffer.role {
                Role::Owner { size } => (Books::Direct, size),
                Role::Map { size } => (Books::Mapped, size),
                Role::Foreign => (Books::None, buffer.capacity),
                Role::View { .. } | Role::Freed => continue,
            };
            if books == Books::None && bytes == 0 && cached.is_none() {
                continue;
            }
            let mut held = match cached {
                Some(None) if complete => Held::Garbage,
                Some(thread) => Held::Cached(*thread),
                None => holding.held.remove(&index).unwrap_or(Held::Unknown),
            };
            if let Held::Objects(holder) = &mut held {
                // The largest of each owner has the path; thousands of them would fill memory with the same words.
                let place = allocations.len();
                let best = largest.entry((holder.owner.clone(), books)).or_insert(place);
                match allocations.get_mut(*best).map(|other| (other.bytes < bytes, &mut other.held)) {
                    Some((true, Held::Objects(other))) => (other.path, *best) = (Vec::new(), place),
                    Some(_) => holder.path = Vec::new(),
                    None => {}
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
                file: holding.files.remove(&index),
            });
        }
        allocations.extend(self.natives.orphans.iter().map(|orphan| Allocation {
            id: orphan.cleaner,
            class: "java.nio.DirectByteBuffer".into(),
            bytes: orphan.size,
            capacity: orphan.capacity,
            limit: 0,
            position: 0,
            address: orphan.address,
            views: 0,
            books: if orphan.mapped { Books::Mapped } else { Books::Direct },
            held: if complete { Held::Garbage } else { Held::Unknown },
            file: None,
        }));
        allocations
    }
}

/// Views by what they view.
pub(super) fn views_of(natives: &Natives) -> HashMap<u64, Vec<u64>> {
    let mut views: HashMap<u64, Vec<u64>> = HashMap::new();
    for buffer in &natives.buffers {
        if let Role::View { of } = buffer.role {
            views.entry(of).or_default().push(buffer.id);
        }
    }
    views
}
