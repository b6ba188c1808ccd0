//! Who holds a buffer: referrers of referrers, up to a static field, a thread, or another root.
//!
//! A dump has references in one direction only, so each level upwards costs a pass; the chunks' bitmaps keep it short.
//! References that do not keep an object alive (`Reference.referent`) are not followed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::hprof::Root;

use super::classes::{Classes, Kind};
use super::search::{By, Referrer, Referrers};

/// Objects whose referrers are asked for in one pass.
pub(crate) const MAX_FRONTIER: usize = 1 << 17;
/// Different steps of a way that are kept; a longer way loses those in the middle.
const MAX_STEPS: u32 = 48;

/// One step of the way, from the root down: an object's class and how it refers to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Index of the object's class; index of the class that declares the field, symbol of the field's name.
    Field { class: usize, declared_by: usize, name: u64 },
    /// Id of the array's class.
    Element { class: u64, index: u64 },
    /// Id of the class, symbol of the field's name.
    Static { class: u64, name: u64 },
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

/// The way from a root down to an object; objects share the ways of what holds them.
#[derive(Debug)]
struct Path {
    above: Option<Rc<Path>>,
    step: Step,
    count: u32,
    steps: u32,
    thread: Option<u64>,
}

impl Path {
    fn root(step: Step, thread: Option<u64>) -> Rc<Self> {
        Rc::new(Self { above: None, step, count: 1, steps: 1, thread })
    }

    fn then(self: &Rc<Self>, step: Step) -> Rc<Self> {
        let Self { thread, steps, .. } = **self;
        if self.step == step && steps > 1 {
            // One more node of a list.
            let count = self.count.saturating_add(1);
            return Rc::new(Self { above: self.above.clone(), step, count, steps, thread });
        }
        if steps < MAX_STEPS {
            let above = if steps + 1 == MAX_STEPS { self.then_more() } else { Rc::clone(self) };
            return Rc::new(Self { above: Some(above), step, count: 1, steps: steps + 1, thread });
        }
        Rc::new(Self { above: self.above.clone(), step, count: 1, steps, thread })
    }

    fn then_more(self: &Rc<Self>) -> Rc<Self> {
        let Self { thread, steps, .. } = **self;
        Rc::new(Self { above: Some(Rc::clone(self)), step: Step::More, count: 1, steps, thread })
    }

    fn way(&self) -> Way {
        let mut steps = vec![(self.step, self.count)];
        let mut at = &self.above;
        while let Some(path) = at {
            steps.push((path.step, path.count));
            at = &path.above;
        }
        steps.reverse();
        Way { steps, complete: true, thread: self.thread }
    }
}

/// Objects that a root holds, as far as is known, and the shortest way to each.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    paths: HashMap<u64, (u32, Rc<Path>)>,
}

impl Reached {
    pub(crate) fn has(&self, id: u64) -> bool {
        self.paths.contains_key(&id)
    }

    /// The shortest way to one of `starts`.
    pub(crate) fn way(&self, starts: &[u64]) -> Option<Way> {
        let found = starts.iter().filter_map(|id| self.paths.get(id));
        found.min_by_key(|(length, _)| *length).map(|(_, path)| path.way())
    }
}

/// What the passes found so far.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) referrers: HashMap<u64, Referrers>,
    pub(crate) searched: HashSet<u64>,
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
            By::Field(object, class, _) => {
                let kind = classes.list.get(class).and_then(|class| classes.layout(class.id));
                match kind {
                    Some((_, layout)) if matches!(layout.kind, Kind::Thread | Kind::VirtualThread) => {
                        Above::Thread(object)
                    }
                    _ => Above::Object(object),
                }
            }
        }
    }

    fn of(&self, id: u64) -> &[Referrer] {
        self.referrers.get(&id).map_or(&[], |referrers| &referrers.list)
    }

    /// Objects by what holds them, in an order that does not depend on threads.
    fn below(&self, classes: &Classes) -> HashMap<u64, Vec<(u64, Referrer)>> {
        let mut below: HashMap<u64, Vec<(u64, Referrer)>> = HashMap::new();
        for id in self.sorted() {
            for referrer in self.of(id) {
                if let Above::Object(object) = Self::above(classes, referrer.by) {
                    below.entry(object).or_default().push((id, *referrer));
                }
            }
        }
        below
    }

    fn sorted(&self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.referrers.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// What roots hold; local variables, the weakest of reasons, count after all others and only if `frames`.
    pub(crate) fn reached(&self, classes: &Classes, frames: bool) -> Reached {
        let below = self.below(classes);
        let mut reached = Reached::default();
        let mut queue = VecDeque::new();
        for by_frames in [false, true] {
            if by_frames && !frames {
                break;
            }
            for id in self.sorted() {
                let root = self.of(id).iter().find_map(|referrer| {
                    let thread = match Self::above(classes, referrer.by) {
                        Above::Object(_) => return None,
                        Above::Thread(thread) => Some(thread),
                        Above::Root => None,
                    };
                    (is_frame(referrer.by) == by_frames).then_some((referrer, thread))
                });
                if let Some((referrer, thread)) = root
                    && !reached.has(id)
                {
                    let length = if by_frames { u32::MAX / 2 } else { 1 };
                    reached.paths.insert(id, (length, Path::root(step(classes, *referrer), thread)));
                    queue.push_back(id);
                }
            }
            while let Some(id) = queue.pop_front() {
                let Some((length, path)) = reached.paths.get(&id).cloned() else { continue };
                for (child, referrer) in below.get(&id).into_iter().flatten() {
                    if !reached.has(*child) {
                        let path = path.then(step(classes, *referrer));
                        reached.paths.insert(*child, (length + 1, path));
                        queue.push_back(*child);
                    }
                }
            }
        }
        reached
    }

    /// Objects that may be held by something that was not looked for, or not kept.
    pub(crate) fn doubtful(&self, classes: &Classes) -> HashSet<u64> {
        let below = self.below(classes);
        let unseen = below.keys().filter(|id| !self.searched.contains(id)).copied();
        let unkept = self.referrers.iter().filter(|(_, all)| all.count > all.list.len() as u64);
        let mut doubtful: HashSet<u64> = unseen.chain(unkept.map(|(id, _)| *id)).collect();
        let mut queue: Vec<u64> = doubtful.iter().copied().collect();
        while let Some(id) = queue.pop() {
            for (child, _) in below.get(&id).into_iter().flatten() {
                if doubtful.insert(*child) {
                    queue.push(*child);
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
            if !self.searched.contains(&id) {
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
    pub(crate) fn climb(&self, classes: &Classes, starts: &[u64]) -> Way {
        let mut steps: Vec<(Step, u32)> = Vec::new();
        let mut seen = HashSet::new();
        let mut at = starts.iter().copied().find(|id| !self.of(*id).is_empty());
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
        steps.truncate(MAX_STEPS as usize);
        steps.reverse();
        Way { steps, complete: false, thread: None }
    }

    /// Frames that hold one of `starts`: serial of the thread, number of the frame.
    pub(crate) fn frames(&self, starts: &[u64]) -> Vec<(u32, i32)> {
        let mut frames: Vec<_> = starts
            .iter()
            .flat_map(|id| self.of(*id))
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

    /// Whether something else than local variables refers to one of `starts`.
    pub(crate) fn is_held_by_more_than_frames(&self, starts: &[u64]) -> bool {
        starts.iter().flat_map(|id| self.of(*id)).any(|referrer| !is_frame(referrer.by))
    }
}

fn step(classes: &Classes, referrer: Referrer) -> Step {
    match referrer.by {
        By::Field(_, class, offset) => {
            let (declared_by, name) = classes.field_at(class, offset as usize).unwrap_or((class, 0));
            Step::Field { class, declared_by, name }
        }
        By::Element(_, class, index) => Step::Element { class, index },
        By::Static(class, name) => Step::Static { class, name },
        By::Root(root) => Step::Root(root),
    }
}
