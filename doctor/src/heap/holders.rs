//! Who holds a buffer: referrers of referrers, up to a static field, a thread, or another root.
//!
//! A dump has references in one direction only, so each level upwards costs a pass; the chunks' bitmaps keep it short.
//! References that do not keep an object alive (`Reference.referent`, but of soft ones) are not followed.

use std::collections::{HashSet, VecDeque};

use crate::hprof::Root;

use super::classes::{Classes, Kind};
use super::search::{By, MAX_REFERRERS, Referrer};

/// Objects whose referrers are asked for in one pass.
pub(crate) const MAX_FRONTIER: usize = 1 << 18;
/// Referrers that all passes together keep.
const MAX_KEPT: usize = 1 << 21;
/// Different steps of a way that are kept; a longer way loses those in the middle.
const MAX_STEPS: u8 = 48;
/// What holds the temporary buffers of a scattering read or a gathering write.
const VECTOR: &str = "sun/nio/ch/IOVecWrapper";
/// No path, or no step.
const NONE: u32 = u32::MAX;

/// One step of the way, from the root down: an object's class and how it refers to the next. Classes are their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The object's class; the class that declares the field, symbol of the field's name.
    Field { class: usize, declared_by: usize, name: u64 },
    /// The array's class.
    Element { class: usize, index: u32 },
    /// The class, symbol of the field's name.
    Static { class: usize, name: u64 },
    /// A root.
    Root(Root),
    /// Steps that are left out.
    More,
}

/// The way down to a buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    /// From the top down; each as often as it follows itself.
    pub(crate) steps: Vec<(Step, u32)>,
    /// Whether the top is a root.
    pub(crate) complete: bool,
    /// The thread that the top is a part of.
    pub(crate) thread: Option<u64>,
}

impl Way {
    /// The local variable that the way begins at: serial of the thread, number of the frame.
    pub(crate) fn frame(&self) -> Option<(u32, i32)> {
        match self.steps.first()?.0 {
            Step::Root(Root::JavaFrame { thread, frame } | Root::JniLocal { thread, frame }) => {
                Some((thread, frame))
            }
            _ => None,
        }
    }
}

/// The last step of the way from a root down to an object; objects share the ways of what holds them.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Index of the path above, `NONE` at the top.
    above: u32,
    /// Index of the referrer, `NONE` for steps that are left out.
    referrer: u32,
    /// How often the step follows itself.
    count: u32,
    /// Steps with all repeated ones.
    length: u32,
    /// Different steps.
    steps: u8,
}

/// Objects that a root holds, as far as is known, and the shortest way to each.
#[derive(Debug)]
pub(crate) struct Reached<'a> {
    graph: &'a Graph,
    classes: &'a Classes,
    paths: Vec<Path>,
    /// Index of the path, at the place of an object's first referrer.
    path_of: Vec<u32>,
}

impl Reached<'_> {
    fn path(&self, id: u64) -> Option<u32> {
        let place = self.graph.place(id)?;
        self.path_of.get(place).copied().filter(|path| *path != NONE)
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.path(id).is_some()
    }

    fn get(&self, path: u32) -> Option<Path> {
        self.paths.get(path as usize).copied()
    }

    fn set(&mut self, id: u64, path: Path) {
        if let Some(place) = self.graph.place(id)
            && let Some(slot) = self.path_of.get_mut(place)
        {
            *slot = self.paths.len() as u32;
            self.paths.push(path);
        }
    }

    /// The path that is a step longer.
    fn then(&mut self, at: u32, referrer: u32) -> Option<Path> {
        let path = self.get(at)?;
        let length = path.length.saturating_add(1);
        if path.steps > 1 && self.graph.are_alike(path.referrer, referrer) {
            // One more node of a list.
            return Some(Path { count: path.count.saturating_add(1), length, ..path });
        }
        if path.steps >= MAX_STEPS {
            return Some(Path { referrer, count: 1, length, ..path });
        }
        let steps = path.steps + 1;
        let mut above = at;
        if steps == MAX_STEPS {
            above = self.paths.len() as u32;
            self.paths.push(Path { above: at, referrer: NONE, count: 1, ..path });
        }
        Some(Path { above, referrer, count: 1, length, steps })
    }

    /// The shortest way to one of `starts`.
    pub(crate) fn way(&self, starts: impl Iterator<Item = u64>) -> Option<Way> {
        let paths = starts.filter_map(|id| self.path(id));
        let shortest = paths.min_by_key(|path| self.get(*path).map_or(u32::MAX, |path| path.length))?;
        let mut way = Way { steps: Vec::new(), complete: true, thread: None };
        let mut at = shortest;
        while let Some(path) = self.get(at) {
            let referrer = self.graph.referrers.get(path.referrer as usize);
            way.steps
                .push((referrer.map_or(Step::More, |referrer| step(self.classes, *referrer)), path.count));
            if path.above == NONE
                && let Some(referrer) = referrer
                && let Above::Thread(thread) = Graph::above(self.classes, referrer.by)
            {
                way.thread = Some(thread);
            }
            at = path.above;
        }
        way.steps.reverse();
        Some(way)
    }
}

/// What the passes found so far.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// By what they refer to, then in the order of the file.
    referrers: Vec<Referrer>,
    /// Objects whose referrers were looked for, in order.
    searched: Vec<u64>,
    /// Those that have more referrers than are kept.
    overfull: Vec<u64>,
}

/// Objects and what they hold: index of the referrer, in order.
struct Below(Vec<(u64, u32)>);

impl Below {
    fn of(&self, object: u64) -> impl Iterator<Item = u32> {
        let from = self.0.partition_point(|(holder, _)| *holder < object);
        let rest = self.0.get(from..).unwrap_or_default();
        rest.iter().take_while(move |(holder, _)| *holder == object).map(|(_, referrer)| *referrer)
    }
}

enum Above {
    Root,
    Thread(u64),
    Object(u64),
}

fn is_frame(by: By) -> bool {
    matches!(by, By::Root(Root::JavaFrame { .. } | Root::JniLocal { .. }))
}

impl Graph {
    fn above(classes: &Classes, by: By) -> Above {
        match by {
            By::Static(..) | By::Root(_) => Above::Root,
            By::Element(object, ..) => Above::Object(object),
            By::Field(object, class, _) => match classes.kind(class as usize) {
                Kind::Thread | Kind::VirtualThread => Above::Thread(object),
                _ => Above::Object(object),
            },
        }
    }

    /// Takes over what a pass found: what was looked for, in order, how many referrers each has, and the first of them. False if
    /// that is more than is kept.
    pub(crate) fn add(&mut self, targets: &[u64], counts: &[u32], mut referrers: Vec<Referrer>) -> bool {
        referrers.sort_unstable();
        let mut last = (0, 0);
        referrers.retain(|referrer| {
            last = if last.0 == referrer.target { (last.0, last.1 + 1) } else { (referrer.target, 1) };
            last.1 <= MAX_REFERRERS
        });
        let room = MAX_KEPT.saturating_sub(self.referrers.len());
        let fits = referrers.len() <= room;
        referrers.truncate(room);
        self.referrers.append(&mut referrers);
        // Runs that are in order are merged.
        self.referrers.sort();
        let kept = |id: &u64| self.of(*id).len() as u32;
        let more = targets.iter().zip(counts).filter(|(id, count)| **count > kept(id)).map(|(id, _)| *id);
        let more: Vec<u64> = more.collect();
        self.overfull.extend(more);
        self.searched.extend(targets);
        self.searched.sort();
        fits
    }

    /// The place of an object's first referrer.
    fn place(&self, id: u64) -> Option<usize> {
        let place = self.referrers.partition_point(|referrer| referrer.target < id);
        self.referrers.get(place).filter(|referrer| referrer.target == id).map(|_| place)
    }

    /// The referrers of an object that are kept.
    pub(crate) fn of(&self, id: u64) -> &[Referrer] {
        let rest = self.place(id).and_then(|place| self.referrers.get(place..)).unwrap_or_default();
        rest.get(..rest.iter().take_while(|referrer| referrer.target == id).count()).unwrap_or_default()
    }

    /// Whether two referrers are the same step.
    fn are_alike(&self, one: u32, other: u32) -> bool {
        let by = |index: u32| self.referrers.get(index as usize).map(|referrer| referrer.by);
        match (by(one), by(other)) {
            (Some(By::Field(_, class, offset)), Some(By::Field(_, other_class, other_offset))) => {
                (class, offset) == (other_class, other_offset)
            }
            (Some(By::Element(_, class, index)), Some(By::Element(_, other_class, other_index))) => {
                (class, index) == (other_class, other_index)
            }
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
    }

    /// Objects by what holds them, in an order that does not depend on threads.
    fn below(&self, classes: &Classes) -> Below {
        let held = self.referrers.iter().zip(0..).filter_map(|(referrer, index)| {
            match Self::above(classes, referrer.by) {
                Above::Object(object) => Some((object, index)),
                Above::Root | Above::Thread(_) => None,
            }
        });
        let mut below: Vec<(u64, u32)> = held.collect();
        below.sort_unstable();
        Below(below)
    }

    /// What roots hold; local variables, the weakest of reasons, count after all others and only if `frames`.
    pub(crate) fn reached<'a>(&'a self, classes: &'a Classes, frames: bool) -> Reached<'a> {
        let below = self.below(classes);
        let path_of = vec![NONE; self.referrers.len()];
        let mut reached = Reached { graph: self, classes, paths: Vec::new(), path_of };
        let mut queue = VecDeque::new();
        for by_frames in [false, true] {
            if by_frames && !frames {
                break;
            }
            let mut place = 0;
            for referrers in self.referrers.chunk_by(|one, other| one.target == other.target) {
                let is_root =
                    |referrer: &Referrer| !matches!(Self::above(classes, referrer.by), Above::Object(_));
                let root = referrers
                    .iter()
                    .zip(place..)
                    .find(|(referrer, _)| is_root(referrer) && is_frame(referrer.by) == by_frames);
                place += referrers.len() as u32;
                if let Some((Referrer { target, .. }, referrer)) = root
                    && !reached.has(*target)
                {
                    let length = if by_frames { u32::MAX / 2 } else { 1 };
                    reached.set(*target, Path { above: NONE, referrer, count: 1, length, steps: 1 });
                    queue.push_back(*target);
                }
            }
            while let Some(id) = queue.pop_front() {
                let Some(path) = reached.path(id) else { continue };
                for referrer in below.of(id) {
                    let Some(child) = self.referrers.get(referrer as usize).map(|referrer| referrer.target)
                    else {
                        continue;
                    };
                    if !reached.has(child)
                        && let Some(path) = reached.then(path, referrer)
                    {
                        reached.set(child, path);
                        queue.push_back(child);
                    }
                }
            }
        }
        reached
    }

    /// Objects that may be held by something that was not looked for, or not kept.
    pub(crate) fn doubtful(&self, classes: &Classes) -> HashSet<u64> {
        let below = self.below(classes);
        let unseen = below.0.iter().map(|(id, _)| *id).filter(|id| self.searched.binary_search(id).is_err());
        let mut doubtful: HashSet<u64> = unseen.chain(self.overfull.iter().copied()).collect();
        let mut queue: Vec<u64> = doubtful.iter().copied().collect();
        while let Some(id) = queue.pop() {
            for referrer in below.of(id) {
                if let Some(child) = self.referrers.get(referrer as usize).map(|referrer| referrer.target)
                    && doubtful.insert(child)
                {
                    queue.push(child);
                }
            }
        }
        doubtful
    }

    /// Objects above `starts` whose referrers were not looked for yet, in order.
    pub(crate) fn open(&self, classes: &Classes, starts: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut seen: HashSet<u64> = starts.collect();
        let mut queue: Vec<u64> = seen.iter().copied().collect();
        let mut open = Vec::new();
        while let Some(id) = queue.pop() {
            if self.searched.binary_search(&id).is_err() {
                open.push(id);
                continue;
            }
            for referrer in self.of(id) {
                if let Above::Object(object) = Self::above(classes, referrer.by)
                    && seen.insert(object)
                {
                    queue.push(object);
                }
            }
        }
        open.sort_unstable();
        open
    }

    /// As far up as is known, without a root: first referrers of first referrers.
    pub(crate) fn climb(&self, classes: &Classes, mut starts: impl Iterator<Item = u64>) -> Way {
        let mut steps: Vec<(Step, u32)> = Vec::new();
        let mut seen = HashSet::new();
        let mut at = starts.find(|id| !self.of(*id).is_empty());
        while let Some(id) = at {
            let Some(referrer) = self.of(id).first() else { break };
            let step = step(classes, *referrer);
            match steps.last_mut() {
                Some((last, count)) if *last == step => *count += 1,
                _ => steps.push((step, 1)),
            }
            at = match Self::above(classes, referrer.by) {
                Above::Object(object) if seen.insert(object) && seen.len() < 256 => Some(object),
                _ => None,
            };
        }
        steps.truncate(usize::from(MAX_STEPS));
        steps.reverse();
        Way { steps, complete: false, thread: None }
    }

    /// Frames that hold one of `starts`: serial of the thread, number of the frame.
    pub(crate) fn frames(&self, starts: impl Iterator<Item = u64>) -> Vec<(u32, i32)> {
        let mut frames: Vec<_> = starts
            .flat_map(|id| self.of(id))
            .filter_map(|referrer| match referrer.by {
                By::Root(Root::JavaFrame { thread, frame } | Root::JniLocal { thread, frame }) => {
                    Some((thread, frame))
                }
                _ => None,
            })
            .collect();
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Whether a buffer is one of several that a thread reads or writes at once: these lie in an array of an object of its own.
    pub(crate) fn is_scattered(&self, classes: &Classes, id: u64) -> bool {
        let is_shadow = |by: By| match by {
            By::Field(_, class, offset) => {
                classes.is_field(class as usize, offset as usize, VECTOR, "shadow")
            }
            _ => false,
        };
        self.of(id).iter().any(|referrer| match referrer.by {
            By::Element(array, ..) => self.of(array).iter().any(|referrer| is_shadow(referrer.by)),
            _ => false,
        })
    }

    /// Whether something else than local variables refers to one of `starts`.
    pub(crate) fn is_held_by_more_than_frames(&self, mut starts: impl Iterator<Item = u64>) -> bool {
        starts.any(|id| self.of(id).iter().any(|referrer| !is_frame(referrer.by)))
    }
}

fn step(classes: &Classes, referrer: Referrer) -> Step {
    match referrer.by {
        By::Field(_, class, offset) => {
            let class = class as usize;
            let (declared_by, name) = classes.field_at(class, offset as usize).unwrap_or((class, 0));
            Step::Field { class, declared_by, name }
        }
        By::Element(_, class, index) => Step::Element { class: class as usize, index },
        By::Static(class, name) => Step::Static { class: class as usize, name },
        By::Root(root) => Step::Root(root),
    }
}
