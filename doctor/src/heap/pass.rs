//! One pass: parts of a dump are walked by as many threads as help, each with a visitor of its own.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::hprof::{Header, Origin, Part, Place, Problem, Visitor, Walk};

/// How far the reading of a dump is, for whoever shows it. Counted in bytes of the dump.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    pass: AtomicUsize,
}

impl Progress {
    /// Number of the pass from 1, bytes of it that are done, bytes of it in all (0: not known).
    pub fn now(&self) -> (usize, u64, u64) {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        (self.pass.load(Ordering::Relaxed), read(&self.done), read(&self.total))
    }

    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.pass.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a pass over the whole dump learns of its condition.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) problems: Vec<Problem>,
    pub(crate) more_problems: u64,
    pub(crate) dump_seen: bool,
    pub(crate) end_seen: bool,
    pub(crate) stretched: Option<(u64, u64)>,
    pub(crate) truncated: Option<u64>,
    pub(crate) ended_at: u64,
}

impl Outcome {
    /// Whether the dump ends where its writer ended it.
    pub(crate) fn is_whole(&self, header: &Header) -> bool {
        self.truncated.is_none() && self.has_end(header)
    }

    /// Whether all records are there that a dump must have. The one that ends it is new in version 1.0.2.
    pub(crate) fn has_end(&self, header: &Header) -> bool {
        self.dump_seen && (header.version < 2 || self.end_seen)
    }
}

/// A visitor that is told where parts begin and end.
pub(crate) trait PartVisitor: Visitor + Send {
    fn part_ends(&mut self, place: Place) {
        let _ = place;
    }
}

/// A visitor that counts the bytes which passed.
struct Counting<'a, V> {
    inner: &'a mut V,
    last: u64,
    progress: &'a Progress,
    stop: &'a AtomicBool,
}

impl<V: Visitor> Visitor for Counting<'_, V> {
    const HEAP: bool = V::HEAP;
    fn utf8(&mut self, id: u64, bytes: &[u8]) {
        self.inner.utf8(id, bytes);
    }
    fn load_class(&mut self, serial: u32, class: u64, name: u64) {
        self.inner.load_class(serial, class, name);
    }
    fn frame(&mut self, frame: u64, method: u64, class_serial: u32) {
        self.inner.frame(frame, method, class_serial);
    }
    fn trace(&mut self, serial: u32, thread: u32, frames: &[u8]) {
        self.inner.trace(serial, thread, frames);
    }
    fn root(&mut self, at: u64, id: u64, root: crate::hprof::Root) {
        self.inner.root(at, id, root);
    }
    fn class(&mut self, at: u64, class: crate::hprof::ClassDump<'_>) {
        self.inner.class(at, class);
    }
    #[inline(always)]
    fn instance(&mut self, at: u64, id: u64, class: u64, fields: &[u8]) {
        self.inner.instance(at, id, class, fields);
    }
    #[inline(always)]
    fn object_array(&mut self, at: u64, id: u64, class: u64, count: u32) -> crate::hprof::Reading {
        self.inner.object_array(at, id, class, count)
    }
    #[inline(always)]
    fn elements(&mut self, first: u64, ids: &[u8]) {
        self.inner.elements(first, ids);
    }
    #[inline(always)]
    fn primitive_array(
        &mut self,
        at: u64,
        id: u64,
        kind: crate::hprof::FieldType,
        count: u32,
    ) -> crate::hprof::Reading {
        self.inner.primitive_array(at, id, kind, count)
    }
    fn primitives(&mut self, bytes: &[u8]) {
        self.inner.primitives(bytes);
    }
    fn boundary(&mut self, place: Place) {
        let passed = place.at.saturating_sub(self.last);
        if passed >= 1 << 18 {
            self.progress.add(passed);
            self.last = place.at;
        }
        self.inner.boundary(place);
    }
    fn is_done(&self) -> bool {
        self.inner.is_done() || self.stop.load(Ordering::Relaxed)
    }
}

/// Walks `parts` with visitors made by `make`, and gives them back.
pub(crate) fn run<V: PartVisitor>(
    origin: &Origin,
    header: &Header,
    parts: &[Part],
    threads: usize,
    progress: &Progress,
    make: impl Fn() -> V + Sync,
) -> io::Result<(Vec<V>, Outcome)> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failed = Mutex::new(None);
    // Gzip that was never read to its end is inflated by a thread of its own.
    let first_reading = origin.is_gzip() && origin.size_bytes().is_none();
    let threads = if origin.is_divisible() { threads.clamp(1, parts.len().max(1)) } else { 1 };
    let work = || {
        let mut visitor = make();
        let mut outcome = Outcome::default();
        let reader = if first_reading { origin.stream() } else { origin.reader() };
        let mut walk = Walk::new(origin, header, reader);
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let last = part.from.at;
            let mut counting = Counting { inner: &mut visitor, last, progress, stop: &stop };
            if let Err(error) = walk.run(part.from, part.end, &mut counting) {
                stop.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                break;
            }
            progress.add(walk.ended_at.saturating_sub(counting.last));
            visitor.part_ends(Place { at: walk.ended_at, record_end: walk.ended_at });
            outcome.ended_at = outcome.ended_at.max(walk.ended_at);
        }
        outcome.problems = walk.problems;
        outcome.more_problems = walk.more_problems;
        outcome.dump_seen = walk.dump_seen;
        outcome.end_seen = walk.end_seen;
        outcome.stretched = walk.stretched;
        outcome.truncated = walk.truncated;
        (visitor, outcome)
    };
    let results: Vec<(V, Outcome)> = if threads == 1 {
        vec![work()]
    } else {
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
        })
    };
    if results.len() < threads {
        return Err(io::Error::other("a reading thread panicked"));
    }
    if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let mut all = Outcome::default();
    let mut visitors = Vec::new();
    for (visitor, outcome) in results {
        visitors.push(visitor);
        all.problems.extend(outcome.problems);
        all.more_problems += outcome.more_problems;
        all.dump_seen |= outcome.dump_seen;
        all.end_seen |= outcome.end_seen;
        all.stretched = all.stretched.or(outcome.stretched);
        all.truncated = all.truncated.max(outcome.truncated);
        all.ended_at = all.ended_at.max(outcome.ended_at);
    }
    all.problems.sort();
    Ok((visitors, all))
}
