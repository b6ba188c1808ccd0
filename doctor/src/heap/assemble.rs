//! Puts together what the passes found: names, holders, one allocation for each piece of memory.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;

use crate::hprof::{Header, Origin};

use super::collect::VirtualThreads;
use super::files::file_name;
use super::holders::{Graph, Reached, Step, Way};
use super::naming::Naming;
use super::natives::{Natives, Role};
use super::read::{First, Sought, starts};
use super::symbols::{Frame, Front};
use super::text::{Answer, Texts};
use super::{Allocation, Books, Condition, Heap, Held, Name, Thread, Unheld};

/// What the passes found.
pub(super) struct Found {
    pub(super) first: First,
    pub(super) natives: Natives,
    pub(super) sought: Vec<Sought>,
    pub(super) graph: Graph,
    pub(super) texts: Texts,
    /// Objects that hold maps: index of the class, fields.
    pub(super) holders: HashMap<u64, (usize, Box<[u8]>)>,
    pub(super) passes: usize,
    pub(super) bytes_read: u64,
    pub(super) size_bytes: u64,
}

impl Found {
    pub(super) fn assemble(mut self, origin: &Origin, header: &Header) -> io::Result<Heap> {
        let names = self.names();
        let condition = self.condition(origin, header, &names);
        let reached = self.graph.reached(&self.first.classes, true);
        let front = Front { origin, header, end: self.first.symbols_end };
        let naming = self.naming(&front, &reached, &names)?;
        let (allocations, unheld) = self.allocations(&naming, &reached, &condition);
        let mut ids: Vec<u64> = self.natives.buffers.iter().map(|buffer| buffer.id).collect();
        ids.sort_unstable();
        let viewed = self.natives.buffers.iter().filter_map(|buffer| match buffer.role {
            Role::View { of } => Some(of),
            _ => None,
        });
        let (views, lost) = viewed
            .fold((0, 0), |(all, lost), of| (all + 1, lost + u64::from(ids.binary_search(&of).is_err())));
        let threads = self.natives.threads.iter().zip(&names).map(|(thread, name)| Thread {
            id: thread.id,
            name: name.clone(),
            class: naming.class(thread.class as usize),
            caches: thread.caches,
        });
        Ok(Heap {
            condition,
            objects: self.first.object_count,
            classes: self.first.classes.list.len(),
            threads: threads.collect(),
            virtual_threads: self.first.virtual_threads.count,
            caches: self.natives.cache_count,
            lost_caches: self.natives.lost_caches,
            torn_caches: self.natives.torn_caches,
            allocations,
            unheld,
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
            end_missing: !outcome.has_end(header),
            problems: outcome.problems,
            more_problems: outcome.more_problems,
            gzip_problem: origin.problem().cloned(),
            roots: self.first.roots,
            thread_roots: self.first.thread_roots.len(),
            stacks_missing: self.are_stacks_missing(),
            names_redacted: !names.is_empty() && names.iter().all(Option::is_none),
            numbers_redacted: !buffers.is_empty()
                && buffers.iter().all(|buffer| buffer.capacity == 0 && buffer.address == 0),
            overflow: self.first.overflow,
            late_classes: self.first.late,
            passes: self.passes,
            bytes_read: self.bytes_read,
        }
    }

    /// A dump may lack all stacks; JDK 21 and before leave out those of virtual threads that do not run.
    fn are_stacks_missing(&self) -> bool {
        let VirtualThreads { unmounted, carried, .. } = &self.first.virtual_threads;
        if *unmounted == 0 {
            return self.first.thread_roots.is_empty() && !self.natives.threads.is_empty();
        }
        let others =
            self.natives.threads.iter().map(|thread| thread.id).chain(carried.iter().map(|(id, _)| *id));
        let others: HashSet<u64> = others.collect();
        self.first.thread_roots.iter().all(|(id, _, _)| others.contains(id))
    }

    /// The way down to a buffer that was sought.
    fn way(&self, reached: &Reached<'_>, sought: &Sought) -> Way {
        let starts = starts(&self.natives, sought);
        reached.way(starts.clone()).unwrap_or_else(|| self.graph.climb(&self.first.classes, starts))
    }

    /// Reads the names that are needed.
    fn naming<'a>(
        &'a self,
        front: &Front<'_>,
        reached: &Reached<'_>,
        names: &'a [Option<String>],
    ) -> io::Result<Naming<'a>> {
        let classes = &self.first.classes;
        let thread_of_serial: HashMap<u32, (u64, u32)> =
            self.first.thread_roots.iter().map(|(id, serial, trace)| (*serial, (*id, *trace))).collect();
        let serials = self.sought.iter().flat_map(|sought| {
            let frames = self.graph.frames(starts(&self.natives, sought));
            frames.into_iter().chain(self.way(reached, sought).frame())
        });
        let trace = |serial: u32| thread_of_serial.get(&serial).map(|(_, trace)| *trace);
        let stacks = front.stacks(&serials.filter_map(|(serial, _)| trace(serial)).collect())?;
        let class_of_serial: HashMap<u32, usize> = match stacks.is_empty() {
            true => HashMap::new(),
            false => classes.list.iter().enumerate().map(|(index, class)| (class.serial, index)).collect(),
        };
        let symbols = front.symbols(&self.symbols(reached, &stacks, &class_of_serial))?;
        let threads = self.natives.threads.iter().enumerate();
        let mut thread_index: HashMap<u64, usize> =
            threads.map(|(index, thread)| (thread.id, index)).collect();
        for (thread, carrier) in &self.first.virtual_threads.carried {
            if let Some(index) = thread_index.get(carrier).copied() {
                thread_index.insert(*thread, index);
            }
        }
        let shared = RefCell::default();
        Ok(Naming {
            classes,
            symbols,
            stacks,
            thread_of_serial,
            thread_index,
            has_virtual_threads: self.first.virtual_threads.count > 0,
            class_of_serial,
            names,
            shared,
        })
    }

    /// Symbols of everything that is named.
    fn symbols(
        &self,
        reached: &Reached<'_>,
        stacks: &HashMap<u32, Vec<Frame>>,
        class_of_serial: &HashMap<u32, usize>,
    ) -> HashSet<u64> {
        let classes = &self.first.classes;
        let symbol_of = |index: usize| classes.list.get(index).map_or(0, |class| class.name);
        let mut symbols: HashSet<u64> = HashSet::new();
        symbols.extend(self.natives.threads.iter().map(|thread| symbol_of(thread.class as usize)));
        symbols.extend(self.natives.buffers.iter().map(|buffer| symbol_of(buffer.class as usize)));
        for (step, _) in self.sought.iter().flat_map(|sought| self.way(reached, sought).steps) {
            match step {
                Step::Field { class, declared_by, name } => {
                    symbols.extend([symbol_of(class), symbol_of(declared_by), name]);
                }
                Step::Element { class, .. } => symbols.extend([symbol_of(class)]),
                Step::Static { class, name } => symbols.extend([symbol_of(class), name]),
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

    /// Also sums up buffers that have no cleaner and that nothing holds.
    fn allocations(
        &self,
        naming: &Naming<'_>,
        reached: &Reached<'_>,
        condition: &Condition,
    ) -> (Vec<Allocation>, Unheld) {
        let complete = condition.proves_garbage();
        let mut unheld = Unheld::default();
        let classes = &self.first.classes;
        let doubtful = self.graph.doubtful(classes);
        let mut sought = self.sought.iter().peekable();
        let mut class_names: HashMap<u32, Name> = HashMap::new();
        let mut allocations: Vec<Allocation> = Vec::with_capacity(self.natives.buffers.len());
        // The largest of each owner: its place, who is sought for it.
        let mut largest: HashMap<(Name, Books), (usize, &Sought)> = HashMap::new();
        for (index, buffer) in (0..).zip(&self.natives.buffers) {
            // Both are in the order of the buffers.
            let sought = sought.next_if(|sought| sought.buffer == index);
            let cached = self.natives.cached.get(&buffer.id);
            let (books, bytes) = match buffer.role {
                Role::Owner { size } | Role::Segment { size, reserved: true } => (Books::Direct, size),
                Role::Map { size } => (Books::Mapped, size),
                Role::Segment { size, .. } => (Books::None, size),
                Role::Foreign => (Books::None, buffer.capacity),
                Role::View { .. } | Role::Freed => continue,
            };
            if books == Books::None && bytes == 0 && cached.is_none() {
                continue;
            }
            let mut file = None;
            let held = match (cached, sought) {
                (Some(None), _) if complete => Held::Garbage,
                (Some(thread), _) => Held::Cached(thread.map(|thread| thread as usize)),
                (None, None) => Held::Unknown,
                (None, Some(sought)) => {
                    let starts = starts(&self.natives, sought);
                    let known = complete && starts.clone().all(|id| !doubtful.contains(&id));
                    let way = self.way(reached, sought);
                    if books == Books::Mapped {
                        file = file_name(classes, &self.texts, &self.graph, starts.clone(), &self.holders);
                    }
                    naming.held(&self.graph, sought, starts, &way, complete, known)
                }
            };
            if held == Held::Garbage && buffer.role == Role::Foreign {
                unheld.count += 1;
                unheld.bytes += bytes;
                continue;
            }
            if let (Held::Objects(holder), Some(sought)) = (&held, sought) {
                let place = allocations.len();
                let best = largest.entry((holder.owner.clone(), books)).or_insert((place, sought));
                if allocations.get(best.0).is_some_and(|other| other.bytes < bytes) {
                    *best = (place, sought);
                }
            }
            let class = class_names.entry(buffer.class);
            let class = class.or_insert_with(|| naming.shared(&naming.class(buffer.class as usize))).clone();
            allocations.push(Allocation {
                id: buffer.id,
                class,
                bytes,
                capacity: buffer.capacity,
                limit: buffer.limit,
                position: buffer.position,
                address: buffer.address,
                views: self.natives.views.count(buffer.id),
                books,
                held,
                file,
            });
        }
        // The largest of each owner has the path; thousands of them would fill memory with the same words.
        for (place, sought) in largest.into_values() {
            if let Some(Held::Objects(holder)) = allocations.get_mut(place).map(|largest| &mut largest.held) {
                holder.path = naming.path(&self.way(reached, sought));
            }
        }
        allocations.extend(self.natives.orphans.iter().map(|orphan| Allocation {
            id: orphan.cleaner,
            class: naming.shared("java.nio.DirectByteBuffer"),
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
        (allocations, unheld)
    }
}
