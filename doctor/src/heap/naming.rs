//! Makes texts of ids: names of classes and threads, frames, ways from roots to buffers, and how a buffer is held.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::hprof::Root;

use super::classes::Classes;
use super::holders::{Graph, Step, Way};
use super::read::{ALL_LEVELS, Sought};
use super::symbols::Frame;
use super::{Books, Held, Holder, Name};

/// Makes texts of ids.
pub(super) struct Naming<'a> {
    pub(super) classes: &'a Classes,
    pub(super) symbols: HashMap<u64, String>,
    pub(super) stacks: HashMap<u32, Vec<Frame>>,
    pub(super) thread_of_serial: HashMap<u32, (u64, u32)>,
    /// By object; virtual threads stand for what carries them.
    pub(super) thread_index: HashMap<u64, usize>,
    pub(super) has_virtual_threads: bool,
    pub(super) class_of_serial: HashMap<u32, usize>,
    pub(super) names: &'a [Option<String>],
    /// Names that many allocations have.
    pub(super) shared: RefCell<HashSet<Name>>,
}

impl Naming<'_> {
    /// A name that is in memory once.
    pub(super) fn shared(&self, text: &str) -> Name {
        let mut shared = self.shared.borrow_mut();
        if let Some(name) = shared.get(text) {
            return name.clone();
        }
        let name = Name::from(text);
        shared.insert(name.clone());
        name
    }

    fn symbol(&self, id: u64) -> &str {
        self.symbols.get(&id).map_or("?", String::as_str)
    }

    /// A class's name as Java source has it.
    pub(super) fn class(&self, index: usize) -> String {
        let Some(class) = self.classes.list.get(index) else { return "?".into() };
        java_name(self.symbol(class.name))
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
    pub(super) fn held(
        &self,
        graph: &Graph,
        sought: &Sought,
        starts: impl Iterator<Item = u64> + Clone,
        way: &Way,
        complete: bool,
        known: bool,
    ) -> Held {
        let only_frames = !graph.is_held_by_more_than_frames(starts.clone());
        let frames = graph.frames(starts.clone());
        let frames: Vec<_> = frames.iter().map(|(serial, frame)| self.frame(*serial, *frame)).collect();
        let is_io = |text: &str| text.starts_with("sun.nio.ch.");
        // A mapped file is never a temporary buffer, whoever writes it out.
        let may_be_temporary = sought.books != Books::Mapped;
        if may_be_temporary
            && only_frames
            && starts.clone().take(2).count() == 1
            && frames.iter().all(|(_, text)| text.is_empty() || is_io(text))
            && let Some((thread, text)) = frames.iter().find(|(_, text)| is_io(text))
        {
            return Held::InFlight(*thread, text.clone());
        }
        if may_be_temporary && starts.clone().any(|id| graph.is_scattered(self.classes, id)) {
            let root = way.frame().map(|(thread, frame)| self.frame(thread, frame));
            let (thread, text) = frames.into_iter().chain(root).find(|(_, text)| is_io(text)).unzip();
            let text = text.unwrap_or_else(|| "sun.nio.ch.IOVecWrapper".into());
            let thread = thread.flatten();
            return Held::InFlight(thread.or_else(|| self.thread_of(way)), text);
        }
        if way.steps.is_empty() {
            return if complete { Held::Garbage } else { Held::Unknown };
        }
        if !way.complete && known && sought.levels == ALL_LEVELS {
            return Held::Garbage;
        }
        let thread = self.thread_of(way);
        Held::Objects(Holder { owner: self.owner(way), path: Vec::new(), complete: way.complete, thread })
    }

    fn thread_of(&self, way: &Way) -> Option<usize> {
        way.thread.and_then(|id| self.thread_index.get(&id).copied())
    }

    /// `class.field` of the nearest holder that is no part of the JDK, else of the nearest one.
    fn owner(&self, way: &Way) -> Name {
        let holder = |step: &Step| match *step {
            Step::Field { class, declared_by, .. } => Some((class, declared_by)),
            Step::Static { class, .. } => Some((class, class)),
            _ => None,
        };
        let mut nearest = None;
        for (step, _) in way.steps.iter().rev() {
            let Some((class, declared_by)) = holder(step) else { continue };
            let (Step::Field { name, .. } | Step::Static { name, .. }) = *step else { continue };
            if !is_jdk(&self.class(class)) {
                nearest = Some((declared_by, name));
                break;
            }
            nearest = nearest.or(Some((declared_by, name)));
        }
        match nearest {
            Some((class, name)) => self.shared(&format!("{}.{}", self.class(class), self.symbol(name))),
            None => self.shared(self.path(way).first().map_or("", String::as_str)),
        }
    }

    /// The steps from the top down.
    pub(super) fn path(&self, way: &Way) -> Vec<String> {
        let thread = self.thread_of(way);
        let text = |place: usize, step: Step| match step {
            Step::Field { class, name, .. } => match thread {
                Some(thread) if place == 0 => format!("{}.{}", self.thread(thread), self.symbol(name)),
                _ => format!("{}.{}", self.class(class), self.symbol(name)),
            },
            Step::Element { class, index } => {
                let name = self.class(class);
                format!("{}[{index}]", name.strip_suffix("[]").unwrap_or(&name))
            }
            Step::Static { class, name } => format!("static {}.{}", self.class(class), self.symbol(name)),
            Step::Root(root) => self.root(root),
            Step::More => "…".into(),
        };
        let steps = way.steps.iter().enumerate();
        steps
            .map(|(place, (step, count))| match (text(place, *step), count) {
                (text, 0 | 1) => text,
                (text, count) => format!("{text} × {count}"),
            })
            .collect()
    }

    fn root(&self, root: Root) -> String {
        match root {
            Root::JavaFrame { thread, frame } | Root::JniLocal { thread, frame } => {
                let (index, text) = self.frame(thread, frame);
                let thread = match index {
                    Some(index) => self.thread(index),
                    None if self.has_virtual_threads => "a virtual thread".into(),
                    None => "a thread".into(),
                };
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
    use super::java_name;

    #[test]
    fn names_of_classes_read_as_in_java() {
        assert_eq!(java_name("java/lang/Thread"), "java.lang.Thread");
        assert_eq!(java_name("[[Ljava/lang/String;"), "java.lang.String[][]");
        assert_eq!(java_name("[B"), "byte[]");
        assert_eq!(java_name("["), "[]");
    }
}
