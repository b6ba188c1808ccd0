//! Goes over the records of a dump, or over a part of it that begins at a [`Place`].
//!
//! A record that makes no sense costs the rest of its dump record and no more: sub-records have no length, so the walk goes on
//! behind it. Input is untrusted; a walk ends whatever the bytes are, and holds one window.

use std::io;

use super::Header;
use super::source::{Origin, Reader};
use super::visitor::{ClassDump, FieldType, Reading, Root, Visitor, number};
use super::window::{MAX_WINDOW, Window};
use crate::language::{Text, text};

const UTF8: u8 = 0x01;
const LOAD_CLASS: u8 = 0x02;
const FRAME: u8 = 0x04;
const TRACE: u8 = 0x05;
const HEAP_DUMP: u8 = 0x0c;
const HEAP_DUMP_SEGMENT: u8 = 0x1c;
const HEAP_DUMP_END: u8 = 0x2c;
/// Tag, time, length.
const RECORD_HEAD: usize = 9;
/// Longer symbols are passed over: Java allows 65,535 bytes.
const MAX_SYMBOL: usize = 1 << 17;
/// Problems that are kept; more are counted.
const MAX_PROBLEMS: usize = 20;

/// Where a walk can begin: at a record, or at a sub-record inside of a dump record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Offset.
    pub at: u64,
    /// End of the dump record that `at` lies in; `at` itself outside of any.
    pub record_end: u64,
}

/// Something in a dump that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Offset of the record.
    pub at: u64,
    /// What is wrong with it, and what that costs.
    pub what: Text,
}

/// What one sub-record was.
enum Step {
    /// So many bytes long.
    Done(usize),
    /// More bytes are needed to tell.
    Short(usize),
    /// An array whose content is to be shown or passed over.
    Array { head: usize, count: u64, element_bytes: usize, objects: bool, reading: Reading },
    /// An object that is longer than a window.
    Oversized(u64),
    /// A tag that is not known, or a type that is not.
    Unknown(Text),
}

/// A walk, with what it learned of the dump's condition.
#[derive(Debug)]
pub struct Walk<'a> {
    window: Window<'a>,
    id_bytes: usize,
    /// Bytes of the whole dump, if known.
    size_bytes: Option<u64>,
    /// What could not be read, in the order of the file.
    pub problems: Vec<Problem>,
    /// Problems beyond those kept.
    pub more_problems: u64,
    /// Whether there was a dump record at all.
    pub dump_seen: bool,
    /// Whether the record that ends a segmented dump was seen.
    pub end_seen: bool,
    /// A dump record that went on behind the end which its length gave: where it begins and ends.
    pub stretched: Option<(u64, u64)>,
    /// What lengths were cut by: 4 GiB.
    wrap: u64,
    /// Whether the data ended inside of a record; bytes that are missing at least.
    pub truncated: Option<u64>,
    /// Where the walk ended.
    pub ended_at: u64,
}

impl<'a> Walk<'a> {
    /// A walk over `origin` with a reader of it.
    pub fn new(origin: &Origin, header: &Header, reader: Reader<'a>) -> Self {
        Self {
            window: Window::new(reader),
            id_bytes: header.id_bytes,
            size_bytes: origin.size_bytes(),
            problems: Vec::new(),
            more_problems: 0,
            dump_seen: false,
            end_seen: false,
            stretched: None,
            wrap: 1 << 32,
            truncated: None,
            ended_at: 0,
        }
    }

    fn problem(&mut self, at: u64, what: Text) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { at, what });
        } else {
            self.more_problems += 1;
        }
    }

    fn cut_off(&mut self, at: u64, missing: u64) {
        self.truncated = Some(self.truncated.unwrap_or(0).max(missing.max(1)));
        self.ended_at = at;
    }

    /// Walks from `from` to `end`, which must be a place between records or the end of the file (`u64::MAX`).
    pub fn run<V: Visitor>(&mut self, from: Place, end: u64, visitor: &mut V) -> io::Result<()> {
        match self.id_bytes {
            4 => self.walk::<V, 4>(from, end, visitor),
            _ => self.walk::<V, 8>(from, end, visitor),
        }
    }

    fn walk<V: Visitor, const W: usize>(&mut self, from: Place, end: u64, visitor: &mut V) -> io::Result<()> {
        self.window.seek(from.at, end);
        if from.record_end > from.at && !self.heap::<V, W>(from.record_end, end, false, visitor)? {
            return Ok(());
        }
        loop {
            let at = self.window.at();
            self.ended_at = at;
            if at >= end || visitor.is_done() {
                return Ok(());
            }
            visitor.boundary(Place { at, record_end: at });
            if !self.window.ensure(RECORD_HEAD)? {
                let there = self.window.bytes().len() as u64;
                if there > 0 {
                    self.problem(at, text!("the dump ends in the head of a record", "转储在记录头处中断"));
                    self.cut_off(at, RECORD_HEAD as u64 - there);
                }
                return Ok(());
            }
            let head = self.window.bytes();
            let tag = head.first().copied().unwrap_or(0);
            let length = number(head.get(5..9).unwrap_or_default());
            self.window.consume(RECORD_HEAD);
            let body_at = at + RECORD_HEAD as u64;
            let left = self.size_bytes.map(|size| size.saturating_sub(body_at));
            if tag == HEAP_DUMP || tag == HEAP_DUMP_SEGMENT {
                self.dump_seen = true;
                let length = self.dump_length(tag, length, left)?;
                if !V::HEAP {
                    if !self.pass(at, length, left)? {
                        return Ok(());
                    }
                } else if !self.heap::<V, W>(
                    body_at.saturating_add(length),
                    end,
                    tag == HEAP_DUMP,
                    visitor,
                )? {
                    return Ok(());
                }
                continue;
            }
            if tag == HEAP_DUMP_END {
                self.end_seen = true;
            }
            let wanted = matches!(tag, UTF8 | LOAD_CLASS | FRAME | TRACE)
                && length <= if tag == TRACE { MAX_WINDOW } else { MAX_SYMBOL } as u64;
            if wanted && self.window.ensure(length as usize)? {
                record::<V, W>(tag, self.window.bytes().get(..length as usize).unwrap_or_default(), visitor);
                self.window.consume(length as usize);
            } else if !self.pass(at, length, left)? {
                return Ok(());
            }
        }
    }

    /// Passes over a record's body; false if the dump ends in it.
    fn pass(&mut self, at: u64, length: u64, left: Option<u64>) -> io::Result<bool> {
        if self.window.skip(length)? {
            return Ok(true);
        }
        let missing = left.map_or(1, |left| length.saturating_sub(left));
        self.problem(
            at,
            text!("the dump ends in a record of {length} bytes", "转储在一条 {length} 字节的记录中中断"),
        );
        self.cut_off(at, missing);
        Ok(false)
    }

    /// The length of a dump record, which writers get wrong in two ways: lengths of 4 GiB and more are cut to their lower
    /// 32 bits, and a writer that was killed, or whose disk was full, leaves 0.
    fn dump_length(&mut self, tag: u8, length: u64, left: Option<u64>) -> io::Result<u64> {
        if let Some(left) = left
            && tag == HEAP_DUMP
            && left >= self.wrap
            && (left - length.min(left)).is_multiple_of(self.wrap)
        {
            return Ok(left);
        }
        if length > 0 || !self.window.ensure(1)? {
            return Ok(length);
        }
        let next = self.window.bytes().first().copied().unwrap_or(0);
        // None of these is a sub-record.
        if matches!(next, HEAP_DUMP | HEAP_DUMP_SEGMENT | HEAP_DUMP_END) {
            return Ok(0);
        }
        self.problem(
            self.window.at(),
            text!(
                "the length of the dump was never written: its writer was interrupted, so its end is missing",
                "转储的长度未写入：写入时被中断，末尾缺失"
            ),
        );
        Ok(left.unwrap_or(u64::MAX))
    }

    /// A record whose length was cut ends 4 GiB further on, or more.
    fn stretch(&mut self, begun: u64, record_end: u64) -> u64 {
        let record_end = record_end.saturating_add(self.wrap);
        self.stretched = Some((begun, record_end));
        record_end
    }

    /// Walks sub-records up to `record_end`. False if the walk is over.
    fn heap<V: Visitor, const W: usize>(
        &mut self,
        mut record_end: u64,
        end: u64,
        may_overflow: bool,
        visitor: &mut V,
    ) -> io::Result<bool> {
        let begun = self.window.at();
        // The size of gzip is not known beforehand: there, only what follows shows that a length was cut.
        let may_overflow = may_overflow && self.size_bytes.is_none();
        loop {
            // What the window holds of this record.
            let base = self.window.at();
            let bytes = self.window.bytes();
            let most = usize::try_from(record_end.min(end).saturating_sub(base)).unwrap_or(usize::MAX);
            let bytes = bytes.get(..bytes.len().min(most)).unwrap_or_default();
            let mut used = 0;
            let step = loop {
                let rest = bytes.get(used..).unwrap_or_default();
                match sub_record::<V, W>(rest, base + used as u64, visitor) {
                    Step::Done(size) => used += size,
                    Step::Array { head, count, element_bytes, objects, reading } => {
                        let whole = count * element_bytes as u64;
                        let body = rest.get(head..).unwrap_or_default();
                        if whole > body.len() as u64 {
                            break Step::Array { head, count, element_bytes, objects, reading };
                        }
                        let whole = whole as usize;
                        if reading == Reading::Show {
                            let body = body.get(..whole).unwrap_or_default();
                            if objects { visitor.elements(0, body) } else { visitor.primitives(body) }
                        }
                        used += head + whole;
                    }
                    other => break other,
                }
            };
            self.window.consume(used);
            let at = self.window.at();
            self.ended_at = at;
            if at >= end {
                return Ok(false);
            }
            if at >= record_end {
                // Classes, objects and arrays are in dump records alone.
                let goes_on = may_overflow
                    && self.window.ensure(1)?
                    && matches!(self.window.bytes().first(), Some(0x20..=0x23));
                if goes_on {
                    record_end = self.stretch(begun, record_end);
                    continue;
                }
                return Ok(true);
            }
            let left = record_end - at;
            match step {
                Step::Done(_) => {}
                Step::Short(need) => {
                    visitor.boundary(Place { at, record_end });
                    if visitor.is_done() {
                        return Ok(false);
                    }
                    if need as u64 > left {
                        if may_overflow {
                            record_end = self.stretch(begun, record_end);
                            continue;
                        }
                        self.problem(
                            at,
                            text!(
                                "a sub-record of {need} bytes in a record that has {left} left",
                                "子记录需要 {need} 字节，而记录只剩 {left} 字节"
                            ),
                        );
                        return self.resume_behind(record_end);
                    }
                    if need as u64 > end - at {
                        return Ok(false);
                    }
                    if !self.window.ensure(need)? {
                        return self.ends_inside(at, record_end);
                    }
                }
                Step::Array { head, count, element_bytes, objects, reading } => {
                    let body = count * element_bytes as u64;
                    if body + head as u64 > left && !may_overflow {
                        self.problem(
                            at,
                            text!(
                                "an array of {body} bytes in a record that has {left} left",
                                "数组为 {body} 字节，而记录只剩 {left} 字节"
                            ),
                        );
                        return self.resume_behind(record_end);
                    }
                    while body + head as u64 > record_end - at {
                        record_end = self.stretch(begun, record_end);
                    }
                    self.window.consume(head);
                    if !self.array::<V, W>(body, element_bytes, objects, reading, visitor)? {
                        return self.ends_inside(at, record_end);
                    }
                }
                Step::Oversized(size) => {
                    if size > left {
                        self.problem(
                            at,
                            text!(
                                "an object of {size} bytes in a record that has {left} left",
                                "对象为 {size} 字节，而记录只剩 {left} 字节"
                            ),
                        );
                        return self.resume_behind(record_end);
                    }
                    self.problem(
                        at,
                        text!("an object of {size} bytes was passed over", "跳过了一个 {size} 字节的对象"),
                    );
                    if !self.window.skip(size)? {
                        return self.ends_inside(at, record_end);
                    }
                }
                Step::Unknown(what) => {
                    self.problem(at, text!("{what}; {left} bytes of this record cannot be read", "{what}；该记录有 {left} 字节无法读取"; what));
                    return self.resume_behind(record_end);
                }
            }
        }
    }

    fn ends_inside(&mut self, at: u64, record_end: u64) -> io::Result<bool> {
        let end = self.size_bytes.unwrap_or(self.window.at() + self.window.bytes().len() as u64);
        if record_end == u64::MAX && self.size_bytes.is_none() && at >= end {
            // A record without a length in a stream: its end is the data's.
            self.ended_at = at;
            return Ok(false);
        }
        self.problem(at, text!("the dump ends inside of a record", "转储在记录中间中断"));
        let missing = if record_end == u64::MAX { 1 } else { record_end.saturating_sub(end) };
        self.cut_off(at, missing);
        Ok(false)
    }

    fn resume_behind(&mut self, record_end: u64) -> io::Result<bool> {
        let at = self.window.at();
        if self.window.skip(record_end - at)? {
            return Ok(true);
        }
        self.cut_off(at, 1);
        Ok(false)
    }

    /// Shows or passes over an array's content that the window does not hold whole.
    fn array<V: Visitor, const W: usize>(
        &mut self,
        body: u64,
        element_bytes: usize,
        objects: bool,
        reading: Reading,
        visitor: &mut V,
    ) -> io::Result<bool> {
        if reading == Reading::Skip {
            return self.window.skip(body);
        }
        let mut left = body;
        while left > 0 {
            if !self.window.ensure(element_bytes)? {
                return Ok(false);
            }
            let available = self.window.bytes();
            let most = available.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let whole = most - most % element_bytes;
            let piece = available.get(..whole).unwrap_or_default();
            if objects {
                visitor.elements((body - left) / element_bytes as u64, piece);
            } else {
                visitor.primitives(piece);
            }
            self.window.consume(whole);
            left -= whole as u64;
        }
        Ok(true)
    }
}

fn id<const W: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    if W == 8 {
        bytes.get(at..)?.first_chunk::<8>().map(|id| u64::from_be_bytes(*id))
    } else {
        bytes.get(at..)?.first_chunk::<4>().map(|id| u64::from(u32::from_be_bytes(*id)))
    }
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four))
}

/// Shows a record that stands between dump records. One that is too short for its kind is passed over.
fn record<V: Visitor, const W: usize>(tag: u8, body: &[u8], visitor: &mut V) -> Option<()> {
    match tag {
        UTF8 => visitor.utf8(id::<W>(body, 0)?, body.get(W..)?),
        LOAD_CLASS => visitor.load_class(four(body, 0)?, id::<W>(body, 4)?, id::<W>(body, 8 + W)?),
        FRAME => visitor.frame(id::<W>(body, 0)?, id::<W>(body, W)?, four(body, 4 * W)?),
        TRACE => {
            let frames = body.get(12..)?;
            let count = (four(body, 8)? as usize).min(frames.len() / W);
            visitor.trace(four(body, 0)?, four(body, 4)?, frames.get(..count * W)?);
        }
        _ => {}
    }
    Some(())
}

/// Looks at the sub-record that `bytes` begins with.
#[inline(always)]
fn sub_record<V: Visitor, const W: usize>(bytes: &[u8], at: u64, visitor: &mut V) -> Step {
    let Some(tag) = bytes.first() else { return Step::Short(1) };
    match tag {
        0x21 => {
            let head = 1 + W + 4 + W + 4;
            let Some(fixed) = bytes.get(..head) else { return Step::Short(head) };
            let size = four(fixed, 1 + W + 4 + W).unwrap_or(0) as usize;
            let Some(fields) = bytes.get(head..head + size) else {
                return if head + size > MAX_WINDOW / 4 {
                    Step::Oversized((head + size) as u64)
                } else {
                    Step::Short(head + size)
                };
            };
            let object = id::<W>(fixed, 1).unwrap_or(0);
            let class = id::<W>(fixed, 1 + W + 4).unwrap_or(0);
            visitor.instance(at, object, class, fields);
            Step::Done(head + size)
        }
        0x22 => {
            let head = 1 + W + 4 + 4 + W;
            let Some(fixed) = bytes.get(..head) else { return Step::Short(head) };
            let count = four(fixed, 1 + W + 4).unwrap_or(0);
            let object = id::<W>(fixed, 1).unwrap_or(0);
            let class = id::<W>(fixed, 1 + W + 8).unwrap_or(0);
            let reading = visitor.object_array(at, object, class, count);
            Step::Array { head, count: u64::from(count), element_bytes: W, objects: true, reading }
        }
        0x23 => {
            let head = 1 + W + 4 + 4 + 1;
            let Some(fixed) = bytes.get(..head) else { return Step::Short(head) };
            let count = four(fixed, 1 + W + 4).unwrap_or(0);
            let number = fixed.get(1 + W + 8).copied().unwrap_or(0);
            let kind = match FieldType::from_number(number) {
                Some(kind) if kind != FieldType::Object => kind,
                _ => {
                    return Step::Unknown(text!(
                        "an array of unknown type {number}",
                        "未知类型 {number} 的数组"
                    ));
                }
            };
            let object = id::<W>(fixed, 1).unwrap_or(0);
            let reading = visitor.primitive_array(at, object, kind, count);
            let element_bytes = kind.size_bytes(W);
            Step::Array { head, count: u64::from(count), element_bytes, objects: false, reading }
        }
        0x20 => class_dump::<V, W>(bytes, at, visitor),
        _ => root::<V, W>(*tag, bytes, at, visitor),
    }
}

fn root<V: Visitor, const W: usize>(tag: u8, bytes: &[u8], at: u64, visitor: &mut V) -> Step {
    let size = 1 + match tag {
        0xff | 0x05 | 0x07 => W,
        0x01 => 2 * W,
        0x02 | 0x03 | 0x08 => W + 8,
        0x04 | 0x06 => W + 4,
        _ => return Step::Unknown(text!("unknown sub-record {tag:#04x}", "未知的子记录 {tag:#04x}")),
    };
    let Some(whole) = bytes.get(..size) else { return Step::Short(size) };
    let object = id::<W>(whole, 1).unwrap_or(0);
    let thread = four(whole, 1 + W).unwrap_or(0);
    let second = four(whole, 5 + W).unwrap_or(0);
    let frame = second.cast_signed();
    let root = match tag {
        0x01 => Root::JniGlobal,
        0x02 => Root::JniLocal { thread, frame },
        0x03 => Root::JavaFrame { thread, frame },
        0x04 => Root::NativeStack { thread },
        0x05 => Root::StickyClass,
        0x06 => Root::ThreadBlock { thread },
        0x07 => Root::Monitor,
        0x08 => Root::Thread { thread, trace: second },
        _ => Root::Unknown,
    };
    visitor.root(at, object, root);
    Step::Done(size)
}

#[cold]
#[inline(never)]
fn class_dump<V: Visitor, const W: usize>(bytes: &[u8], at: u64, visitor: &mut V) -> Step {
    let mut used = 1 + W + 4 + 6 * W + 4;
    let two = |at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()).map(|two| u16::from_be_bytes(*two))
    };
    let value = |at: usize| {
        let number = bytes.get(at).copied();
        number.map(|number| FieldType::from_number(number).map(|kind| kind.size_bytes(W)).ok_or(number))
    };
    // Constants and statics have values, fields have none.
    let mut tables = [(0, 0); 3];
    for (table, (head, has_value)) in tables.iter_mut().zip([(2, true), (W, true), (W, false)]) {
        let Some(count) = two(used) else { return Step::Short(used + 2) };
        used += 2;
        table.0 = used;
        for _ in 0..count {
            let size = match value(used + head) {
                None => return Step::Short(used + head + 1),
                Some(Err(number)) => {
                    return Step::Unknown(text!(
                        "a field of unknown type {number}",
                        "未知类型 {number} 的字段"
                    ));
                }
                Some(Ok(size)) => size,
            };
            used += head + 1 + if has_value { size } else { 0 };
        }
        table.1 = used;
    }
    if bytes.len() < used {
        return Step::Short(used);
    }
    let [_, statics, fields] = tables;
    visitor.class(
        at,
        ClassDump {
            id: id::<W>(bytes, 1).unwrap_or(0),
            super_id: id::<W>(bytes, 5 + W).unwrap_or(0),
            instance_bytes: four(bytes, 5 + 7 * W).unwrap_or(0),
            id_bytes: W,
            statics: bytes.get(statics.0..statics.1).unwrap_or_default(),
            fields: bytes.get(fields.0..fields.1).unwrap_or_default(),
        },
    );
    Step::Done(used)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const HEAD: &[u8] = b"JAVA PROFILE 1.0.1\0\0\0\0\x04\0\0\0\0\0\0\0\0";

    #[derive(Default)]
    struct Ids(Vec<u64>);

    impl Visitor for Ids {
        fn instance(&mut self, _at: u64, id: u64, _class: u64, _fields: &[u8]) {
            self.0.push(id);
        }

        fn primitive_array(&mut self, _at: u64, id: u64, _kind: FieldType, _count: u32) -> Reading {
            self.0.push(id);
            Reading::Skip
        }
    }

    fn instance(id: u32, fields: u32) -> Vec<u8> {
        let (zero, class) = (0_u32.to_be_bytes(), 7_u32.to_be_bytes());
        [&[0x21][..], &id.to_be_bytes(), &zero, &class, &fields.to_be_bytes(), &vec![0; fields as usize]]
            .concat()
    }

    fn dump(tag: u8, length: usize, body: &[u8]) -> Vec<u8> {
        [HEAD, &[tag, 0, 0, 0, 0], &(length as u32).to_be_bytes(), body].concat()
    }

    /// The ids that a walk shows, with what it learned.
    fn walked(bytes: Vec<u8>, wrap: u64, end: u64) -> (Vec<u64>, Vec<Problem>, Option<(u64, u64)>) {
        let origin = Origin::of_bytes(Path::new("dump"), bytes);
        let header = Header::read(&origin).unwrap();
        let mut walk = Walk::new(&origin, &header, origin.stream());
        walk.wrap = wrap;
        let mut ids = Ids::default();
        let at = header.size_bytes;
        walk.run(Place { at, record_end: at }, end, &mut ids).unwrap();
        (ids.0, walk.problems, walk.stretched)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_length_that_was_cut_is_seen_through_in_gzip_wherever_its_remainder_ends() {
        for (extra, elements) in (0..80).flat_map(|extra| [(extra, 150_u32), (extra, 149)]) {
            let mut body = instance(1, extra);
            (2..=9).for_each(|id| body.extend(instance(id, 3)));
            let zero = 0_u32.to_be_bytes();
            body.extend(
                [
                    &[0x23][..],
                    &10_u32.to_be_bytes(),
                    &zero,
                    &elements.to_be_bytes(),
                    &[8],
                    &vec![0; elements as usize],
                ]
                .concat(),
            );
            body.extend(instance(11, 0));
            let bytes = dump(HEAP_DUMP, body.len() % 64, &body);
            let (ids, problems, stretched) = walked(gzip(&bytes), 64, u64::MAX);
            // A remainder of nothing is what a writer leaves that was interrupted.
            let said = usize::from(body.len().is_multiple_of(64));
            assert_eq!((ids, problems.len()), ((1..=11).collect(), said), "{extra}: {problems:?}");
            if said == 0 {
                let begun = (HEAD.len() + RECORD_HEAD) as u64;
                assert_eq!(stretched, Some((begun, begun + body.len() as u64)), "{extra}");
            }
            let (ids, problems, _) = walked(bytes, 64, u64::MAX);
            assert_eq!((ids, problems), ((1..=11).collect(), Vec::new()), "{extra}");
        }
    }

    #[test]
    fn a_record_that_breaks_off_at_the_end_of_a_part_is_told() {
        let mut body = [instance(1, 3), instance(2, 9)].concat();
        body.truncate(body.len() - 4);
        let bytes = [dump(HEAP_DUMP_SEGMENT, body.len(), &body), vec![HEAP_DUMP_END; RECORD_HEAD]].concat();
        let end = (HEAD.len() + RECORD_HEAD + body.len()) as u64;
        let (ids, problems, _) = walked(bytes, 1 << 32, end);
        assert_eq!(ids, [1]);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
