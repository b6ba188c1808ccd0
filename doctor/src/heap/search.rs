//! A later pass: who refers to the objects that are looked for, and the texts that are asked for by id.

use std::collections::HashMap;

use crate::hprof::{ClassDump, FieldType, Reading, Root, Visitor, number};

use super::classes::{Classes, Kind, Layout};
use super::ids::IdSet;
use super::pass::PartVisitor;

/// Referrers that are kept of an object; more are counted.
pub(crate) const MAX_REFERRERS: usize = 16;
/// Referrers in all that one pass keeps.
const MAX_HITS: usize = 1 << 20;
/// Longer texts are cut.
const MAX_TEXT: usize = 16 << 10;
/// Texts in all that one pass keeps.
const MAX_TEXTS_BYTES: usize = 16 << 20;
/// Fields of a holder that are kept to find the name of a mapped file.
const MAX_FIELDS: usize = 2 << 10;
/// Fields of holders in all that one pass keeps.
const MAX_HOLDERS_BYTES: usize = 16 << 20;
/// A class that is not known.
const NO_CLASS: u32 = u32::MAX;

/// How an object is held. Classes are their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// By a field of an object: its id, its class, offset of the field.
    Field(u64, u32, u32),
    /// By an element of an array: its id, its class, index.
    Element(u64, u32, u32),
    /// By a static field: the class, symbol of the name.
    Static(u32, u64),
    /// By the JVM.
    Root(Root),
}

/// A reference to one of the objects that are looked for: where it stands in the dump, and how it refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Referrer {
    pub(crate) target: u64,
    pub(crate) at: u64,
    pub(crate) by: By,
}

/// An object that was asked for by its id.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// Index of its class, its fields.
    Object(usize, Vec<u8>),
    /// An array of bytes or chars.
    Array(FieldType, Vec<u8>),
}

/// What a pass looks for.
#[derive(Debug)]
pub(crate) struct Query {
    /// Texts, by id of their parts.
    pub(crate) texts: IdSet,
    /// Objects whose referrers are asked for.
    pub(crate) targets: IdSet,
    /// Targets of whose referrers the fields are kept.
    pub(crate) with_fields: IdSet,
}

/// See the module.
pub(crate) struct Search<'a> {
    classes: &'a Classes,
    query: &'a Query,
    id_bytes: usize,
    /// Threads that share what a pass may keep.
    threads: usize,
    /// In the order of the file, as far as this thread read it.
    pub(crate) referrers: Vec<Referrer>,
    /// How many each of the targets has, those not kept included.
    pub(crate) counts: Vec<u32>,
    pub(crate) holders: HashMap<u64, (usize, Box<[u8]>)>,
    pub(crate) found: HashMap<u64, Found>,
    holder_bytes: usize,
    text_bytes: usize,
    pub(crate) overflow: bool,
    array: (u64, u64, u32),
    text: Option<(u64, FieldType)>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(classes: &'a Classes, query: &'a Query, id_bytes: usize, threads: usize) -> Self {
        Self {
            classes,
            query,
            id_bytes,
            threads: threads.max(1),
            referrers: Vec::new(),
            counts: vec![0; query.targets.sorted().len()],
            holders: HashMap::new(),
            found: HashMap::new(),
            holder_bytes: 0,
            text_bytes: 0,
            overflow: false,
            array: (0, 0, 0),
            text: None,
        }
    }

    #[cold]
    fn hit(&mut self, at: u64, target: u64, by: By) {
        let Some(count) = self.query.targets.place(target).and_then(|place| self.counts.get_mut(place))
        else {
            return;
        };
        *count = count.saturating_add(1);
        if *count as usize > MAX_REFERRERS {
            return;
        }
        if self.referrers.len() >= MAX_HITS / self.threads {
            self.overflow = true;
            return;
        }
        self.referrers.push(Referrer { target, at, by });
    }

    #[cold]
    fn look_at(&mut self, at: u64, id: u64, index: usize, layout: Layout, fields: &[u8]) {
        for offset in self.classes.references(layout) {
            let from = *offset as usize;
            let target = number(fields.get(from..from + self.id_bytes).unwrap_or_default());
            if target != id && self.query.targets.contains(target) {
                self.hit(at, target, By::Field(id, index as u32, *offset));
                if self.query.with_fields.contains(target)
                    && self.holder_bytes < MAX_HOLDERS_BYTES / self.threads
                {
                    let kept = fields.get(..fields.len().min(MAX_FIELDS)).unwrap_or_default();
                    self.holder_bytes += kept.len() + 64;
                    self.holders.entry(id).or_insert_with(|| (index, kept.into()));
                }
            }
        }
    }

    fn class_of(&self, id: u64) -> u32 {
        self.classes.index(id).map_or(NO_CLASS, |index| index as u32)
    }

    fn room(&mut self, bytes: usize) -> bool {
        self.text_bytes += bytes + 64;
        let fits = self.text_bytes <= MAX_TEXTS_BYTES / self.threads;
        self.overflow |= !fits;
        fits
    }
}

impl Visitor for Search<'_> {
    fn root(&mut self, at: u64, id: u64, root: Root) {
        if self.query.targets.contains(id) {
            self.hit(at, id, By::Root(root));
        }
    }

    fn class(&mut self, at: u64, class: ClassDump<'_>) {
        for (name, kind, value) in class.statics() {
            if kind == FieldType::Object && self.query.targets.contains(value) {
                let class = self.class_of(class.id);
                self.hit(at, value, By::Static(class, name));
            }
        }
    }

    #[inline(always)]
    fn instance(&mut self, at: u64, id: u64, class: u64, fields: &[u8]) {
        let classes = self.classes;
        let Some((index, layout)) = classes.layout(class) else { return };
        let mut any = false;
        for target in classes.targets(layout, fields) {
            any |= self.query.targets.contains(target);
        }
        if any {
            self.look_at(at, id, index, layout, fields);
        }
        if matches!(layout.kind, Kind::String | Kind::File | Kind::Path)
            && self.query.texts.contains(id)
            && self.room(fields.len())
        {
            self.found.insert(id, Found::Object(index, fields.to_vec()));
        }
    }

    fn object_array(&mut self, at: u64, id: u64, class: u64, _count: u32) -> Reading {
        self.array = (at, id, self.class_of(class));
        Reading::Show
    }

    fn elements(&mut self, first: u64, ids: &[u8]) {
        let (at, id, class) = self.array;
        for (index, bytes) in ids.chunks_exact(self.id_bytes).enumerate() {
            let target = number(bytes);
            if self.query.targets.contains(target) {
                let index = first.saturating_add(index as u64);
                self.hit(at, target, By::Element(id, class, u32::try_from(index).unwrap_or(u32::MAX)));
            }
        }
    }

    #[inline(always)]
    fn primitive_array(&mut self, _at: u64, id: u64, kind: FieldType, _count: u32) -> Reading {
        if !matches!(kind, FieldType::Byte | FieldType::Char) || !self.query.texts.contains(id) {
            return Reading::Skip;
        }
        self.found.insert(id, Found::Array(kind, Vec::new()));
        self.text = Some((id, kind));
        Reading::Show
    }

    fn primitives(&mut self, bytes: &[u8]) {
        let Some((id, _)) = self.text else { return };
        let Some(Found::Array(_, text)) = self.found.get(&id) else { return };
        let more = bytes.len().min(MAX_TEXT.saturating_sub(text.len()));
        if more > 0
            && self.room(more)
            && let Some(Found::Array(_, text)) = self.found.get_mut(&id)
        {
            text.extend_from_slice(bytes.get(..more).unwrap_or_default());
        }
    }
}

impl PartVisitor for Search<'_> {}
