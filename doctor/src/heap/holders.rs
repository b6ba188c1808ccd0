//! Who holds a buffer: referrers of referrers, up to a static field, a thread, or another root.
//!
//! A dump has references in one direction only, so each level upwards costs a pass; the chunks' bitmaps keep it short.
//! References that do not keep an object alive (`Reference.referent`) are not followed.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::hprof::Root;

use super::classes::{Classes, Kind};
use super::search::{By, Referrer, Referrers};

/// Objects whose referrers are asked for in one pass.
pub(crate) const MAX_FRONTIER: usize = 1 << 17;
/// Objects that are looked at for one answer.
const MAX_VISITED: usize = 4_096;

/// What is known of the way up from an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It ends in a root.
    Held,
    /// Nothing refers to it, or only what nothing refers to.
    Dead,
    /// These were not searched for yet.
    Open(Vec<u64>),
    /// There are more referrers than are kept.
    Unclear,
}

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
}

/// The way down to a buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Way {
    /// From the top down.
    pub(crate) steps: Vec<Step>,
    /// Whether the top is a root.
    pub(crate) complete: bool,
    /// The thread that the top is a part of.
    pub(crate) thread: Option<u64>,
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

    /// Whether one of `starts` is held.
    pub(crate) fn standing(&self, classes: &Classes, starts: &[u64]) -> Standing {
        let mut seen: HashSet<u64> = starts.iter().copied().collect();
        let mut queue: VecDeque<u64> = starts.iter().copied().collect();
        let mut open = Vec::new();
        let mut unclear = false;
        while let Some(id) = queue.pop_front() {
            if !self.searched.contains(&id) {
                open.push(id);
                continue;
            }
            for referrer in self.of(id) {
                match Self::above(classes, referrer.by) {
                    Above::Root | Above::Thread(_) => return Standing::Held,
                    Above::Object(object) => {
                        if seen.len() >= MAX_VISITED {
                            unclear = true;
                        } else if seen.insert(object) {
                            queue.push_back(object);
                        }
                    }
                }
            }
            let kept = self.of(id).len() as u64;
            unclear |= self.referrers.get(&id).is_some_and(|referrers| referrers.count > kept);
        }
        match (open.is_empty(), unclear) {
            (false, _) => Standing::Open(open),
            (true, true) => Standing::Unclear,
            (true, false) => Standing::Dead,
        }
    }

    /// The shortest way from a root to one of `starts`; without a root, as far up as is known.
    pub(crate) fn way(&self, classes: &Classes, starts: &[u64]) -> Way {
        // A local variable is the weakest of reasons: it is shown when there is no other.
        self.search(classes, starts, false)
            .or_else(|| self.search(classes, starts, true))
            .unwrap_or_else(|| self.climb(classes, starts))
    }

    fn search(&self, classes: &Classes, starts: &[u64], frames: bool) -> Option<Way> {
        let mut below: HashMap<u64, Option<(u64, Referrer)>> = starts.iter().map(|id| (*id, None)).collect();
        let mut queue: VecDeque<u64> = starts.iter().copied().collect();
        while let Some(id) = queue.pop_front() {
            for referrer in self.of(id) {
                if !frames && matches!(referrer.by, By::Root(Root::JavaFrame { .. } | Root::JniLocal { .. }))
                {
                    continue;
                }
                let thread = match Self::above(classes, referrer.by) {
                    Above::Root => None,
                    Above::Thread(thread) => Some(thread),
                    Above::Object(object) => {
                        if below.len() < MAX_VISITED && !below.contains_key(&object) {
                            below.insert(object, Some((id, *referrer)));
                            queue.push_back(object);
                        }
                        continue;
                    }
                };
                let mut steps = vec![step(classes, *referrer)];
                let mut at = id;
                while let Some(Some((under, referrer))) = below.get(&at) {
                    steps.push(step(classes, *referrer));
                    at = *under;
                }
                return Some(Way { steps, complete: true, thread });
            }
        }
        None
    }

    /// First referrers of first referrers.
    fn climb(&self, classes: &Classes, starts: &[u64]) -> Way {
        let mut steps = Vec::new();
        let mut seen = HashSet::new();
        let mut at = starts.iter().copied().find(|id| !self.of(*id).is_empty());
        while let Some(id) = at {
            let Some(referrer) = self.of(id).first() else { break };
            steps.push(step(classes, *referrer));
            at = match Self::above(classes, referrer.by) {
                Above::Object(object) if seen.insert(object) && steps.len() < 64 => Some(object),
                _ => None,
            };
        }
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
        let frame = |by: By| matches!(by, By::Root(Root::JavaFrame { .. } | Root::JniLocal { .. }));
        starts.iter().flat_map(|id| self.of(*id)).any(|referrer| !frame(referrer.by))
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
