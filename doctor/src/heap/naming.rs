//! Makes texts of ids: names of classes and threads, frames, ways from roots to buffers, and how a buffer is held.

use std::collections::HashMap;

use crate::hprof::Root;

use super::classes::Classes;
use super::holders::{Graph, Step, Way};
use super::read::Sought;
use super::symbols::Frame;
use super::{Held, Holder};

/// Makes texts of ids.
pub(super) struct Naming<'a> {
    pub(super) classes: &'a Classes,
    pub(super) symbols: HashMap<u64, String>,
    pub(super) stacks: HashMap<u32, Vec<Frame>>,
    pub(super) thread_of_serial: HashMap<u32, (u64, u32)>,
    pub(super) thread_index: HashMap<u64, usize>,
    pub(super) class_of_serial: HashMap<u32, usize>,
    pub(super) names: &'a [Option<String>],
}

impl Naming<'_> {
    fn symbol(&self, id: u64) -> &str {
        self.symbols.get(&id).map_or("?", String::as_str)
    }

    /// A class's name as Java source has it.
    pub(super) fn class(&self, index: usize) -> String {
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
    pub(super) fn held(
        &self,
        graph: &Graph,
        sought: &Sought,
        way: &Way,
        complete: bool,
        known: bool,
    ) -> Held {
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
    use super::java_name;

    #[test]
    fn names_of_classes_read_as_in_java() {
        assert_eq!(java_name("java/lang/Thread"), "java.lang.Thread");
        assert_eq!(java_name("[[Ljava/lang/String;"), "java.lang.String[][]");
        assert_eq!(java_name("[B"), "byte[]");
        assert_eq!(java_name("["), "[]");
    }
}
