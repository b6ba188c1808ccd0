//! Names that are needed at the end, read again from the front of the dump: keeping every symbol would cost more than all else.

use std::collections::{HashMap, HashSet};
use std::io;

use crate::hprof::{Header, Origin, Part, Place, Visitor, number};

use super::pass::{PartVisitor, Progress, run};

/// Symbols that are kept at most.
const MAX_SYMBOLS: usize = 1 << 18;

/// One frame of a stack: symbol of the method, serial of the class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) method: u64,
    pub(crate) class_serial: u32,
}

#[derive(Default)]
struct Traces<'a> {
    id_bytes: usize,
    wanted: Option<&'a HashSet<u32>>,
    found: HashMap<u32, Vec<u64>>,
}

impl Visitor for Traces<'_> {
    const HEAP: bool = false;

    fn trace(&mut self, serial: u32, _thread: u32, frames: &[u8]) {
        if self.wanted.is_some_and(|wanted| wanted.contains(&serial)) {
            let frames = frames.chunks_exact(self.id_bytes).take(2_048).map(number).collect();
            self.found.insert(serial, frames);
        }
    }
}

impl PartVisitor for Traces<'_> {}

#[derive(Default)]
struct Frames {
    wanted: HashSet<u64>,
    found: HashMap<u64, Frame>,
}

impl Visitor for Frames {
    const HEAP: bool = false;

    fn frame(&mut self, frame: u64, method: u64, class_serial: u32) {
        if self.wanted.contains(&frame) {
            self.found.insert(frame, Frame { method, class_serial });
        }
    }
}

impl PartVisitor for Frames {}

struct Symbols<'a> {
    wanted: &'a HashSet<u64>,
    found: HashMap<u64, String>,
}

impl Visitor for Symbols<'_> {
    const HEAP: bool = false;

    fn utf8(&mut self, id: u64, bytes: &[u8]) {
        if self.wanted.contains(&id) && self.found.len() < MAX_SYMBOLS {
            self.found.insert(id, printable(&String::from_utf8_lossy(bytes)));
        }
    }

    fn is_done(&self) -> bool {
        self.found.len() == self.wanted.len()
    }
}

impl PartVisitor for Symbols<'_> {}

/// Nothing that a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The longest record that is shown.
const MAX_RECORD: u64 = 4 << 20;

/// The front of a dump: `end` is where the last symbol, frame or trace begins.
pub(crate) struct Front<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) header: &'a Header,
    pub(crate) end: u64,
}

impl Front<'_> {
    fn walk<V: PartVisitor>(&self, make: impl Fn() -> V + Sync) -> io::Result<Option<V>> {
        let at = self.header.size_bytes;
        let part = Part { from: Place { at, record_end: at }, end: self.end.saturating_add(MAX_RECORD) };
        let (mut visitors, _) = run(self.origin, self.header, &[part], 1, &Progress::default(), make)?;
        Ok(visitors.pop())
    }

    /// The frames of these traces, the top one first.
    pub(crate) fn stacks(&self, traces: &HashSet<u32>) -> io::Result<HashMap<u32, Vec<Frame>>> {
        if traces.is_empty() {
            return Ok(HashMap::new());
        }
        let id_bytes = self.header.id_bytes;
        let make = || Traces { id_bytes, wanted: Some(traces), ..Traces::default() };
        let found = self.walk(make)?.map(|visitor| visitor.found).unwrap_or_default();
        let wanted: HashSet<u64> = found.values().flatten().copied().collect();
        let frames = self.walk(|| Frames { wanted: wanted.clone(), ..Frames::default() })?;
        let frames = frames.map(|visitor| visitor.found).unwrap_or_default();
        let none = Frame { method: 0, class_serial: 0 };
        let stack = |ids: Vec<u64>| ids.iter().map(|id| frames.get(id).copied().unwrap_or(none)).collect();
        Ok(found.into_iter().map(|(serial, ids)| (serial, stack(ids))).collect())
    }

    /// These symbols' texts.
    pub(crate) fn symbols(&self, wanted: &HashSet<u64>) -> io::Result<HashMap<u64, String>> {
        if wanted.is_empty() {
            return Ok(HashMap::new());
        }
        let visitor = self.walk(|| Symbols { wanted, found: HashMap::new() })?;
        Ok(visitor.map(|visitor| visitor.found).unwrap_or_default())
    }
}
