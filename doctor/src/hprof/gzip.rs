//! Gzip of any number of members, inflated in order, from the beginning or from a place that was noted on the way.
//!
//! Members begin anew; elsewhere the 32 KiB before and the head of the block are all that it takes. Both are noted now and then, so
//! that a file which was read once can be read from nearly any place, also one of a single member. Damage is the end of the data.
//! Input is untrusted.

use std::io;
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};

use super::inflate::{self, Inflater, PADDING, SLACK, Stop, WINDOW};
use super::source::Store;
use crate::language::{Text, text};

/// The first bytes of a member.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes that are read at once.
const INPUT: usize = 128 << 10;
/// Bytes that are inflated at once.
const ROOM: usize = 256 << 10;
/// Bytes before the place in the input that stay: what the inflater has looked at ahead goes back to them.
const BEHIND: usize = 8;
/// Inflated bytes between two points in a member, at first.
const POINT_BYTES: u64 = 4 << 20;
/// Points in members that are kept, at 32 KiB each; with more of them every other one goes.
const MAX_INSIDE: usize = 192;
/// Members that are noted; later ones are reached by inflating from the last of these.
const MAX_MEMBERS: usize = 1 << 20;

/// Where inflating can begin: in the file, and in what it inflates to.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) stored_at: u64,
    pub(super) at: u64,
    /// What it takes besides, inside of a member.
    pub(super) inside: Option<Inside>,
}

#[derive(Debug, Clone)]
pub(super) struct Inside {
    /// Bits of the first byte that belong to what is before.
    skip: u8,
    /// Where the block begins that this lies in, in bits of the file.
    block: Option<u64>,
    /// What was inflated before.
    before: Arc<[u8]>,
}

impl Point {
    /// The beginning of a member.
    pub(super) fn member(stored_at: u64, at: u64) -> Self {
        Self { stored_at, at, inside: None }
    }
}

/// What the head of a member says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    Member,
    /// Nothing follows, or only zeros.
    End,
    /// What follows is no member.
    Other,
    CutOff,
    Damaged,
}

/// The file, piece by piece.
#[derive(Debug)]
pub(super) struct Stored {
    file: Arc<Store>,
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// Place of `bytes[0]`.
    base: u64,
    last: bool,
}

impl Stored {
    pub(super) fn from(file: &Arc<Store>, stored_at: u64) -> Self {
        let bytes = vec![0; INPUT + PADDING];
        Self { file: Arc::clone(file), bytes, from: 0, to: 0, base: stored_at, last: false }
    }

    /// Goes to another place.
    pub(super) fn seek(&mut self, stored_at: u64) {
        (self.from, self.to, self.base, self.last) = (0, 0, stored_at, false);
    }

    /// Place in the file.
    pub(super) fn at(&self) -> u64 {
        self.base + self.from as u64
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.from..self.to).unwrap_or_default()
    }

    /// Reads on.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let keep = self.from.saturating_sub(BEHIND);
        self.bytes.copy_within(keep..self.to, 0);
        self.base += keep as u64;
        (self.from, self.to) = (self.from - keep, self.to - keep);
        while self.to < INPUT && !self.last {
            let place = self.base + self.to as u64;
            let room = self.bytes.get_mut(self.to..INPUT).unwrap_or_default();
            match self.file.read_at(room, place) {
                Ok(0) => self.last = true,
                Ok(count) => self.to += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(padding) = self.bytes.get_mut(self.to..self.to + PADDING) {
            padding.fill(0);
        }
        Ok(())
    }

    /// Whether so many bytes are there.
    fn has(&mut self, count: usize) -> io::Result<bool> {
        if self.to - self.from < count && !self.last {
            self.fill()?;
        }
        Ok(self.to - self.from >= count)
    }

    /// Passes over a text up to its zero.
    fn pass_text(&mut self) -> io::Result<bool> {
        while self.has(1)? {
            let rest = self.rest();
            let end = rest.iter().position(|byte| *byte == 0);
            self.from += end.map_or(rest.len(), |end| end + 1);
            if end.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes over the head of a member.
    pub(super) fn head(&mut self) -> io::Result<Head> {
        self.has(2)?;
        let rest = self.rest();
        if !rest.starts_with(GZIP.get(..rest.len().min(2)).unwrap_or_default()) {
            return Ok(if rest.iter().any(|byte| *byte != 0) { Head::Other } else { Head::End });
        }
        if rest.is_empty() {
            return Ok(Head::End);
        }
        if !self.has(10)? {
            return Ok(Head::CutOff);
        }
        let Some([_, _, method, flags]) = self.rest().first_chunk::<4>().copied() else {
            return Ok(Head::CutOff);
        };
        if method != 8 || flags & 0xe0 != 0 {
            return Ok(Head::Damaged);
        }
        self.from += 10;
        if flags & 4 != 0 {
            if !self.has(2)? {
                return Ok(Head::CutOff);
            }
            let length =
                self.rest().first_chunk::<2>().map_or(0, |two| usize::from(u16::from_le_bytes(*two)));
            if !self.has(2 + length)? {
                return Ok(Head::CutOff);
            }
            self.from += 2 + length;
        }
        for flag in [8, 16] {
            if flags & flag != 0 && !self.pass_text()? {
                return Ok(Head::CutOff);
            }
        }
        if flags & 2 != 0 {
            if !self.has(2)? {
                return Ok(Head::CutOff);
            }
            self.from += 2;
        }
        Ok(Head::Member)
    }

    /// The checksum and the size that stand behind a member; none if the file ends before.
    pub(super) fn trailer(&mut self) -> io::Result<Option<(u32, u32)>> {
        if !self.has(8)? {
            return Ok(None);
        }
        let two = self.rest().first_chunk::<8>().copied().unwrap_or_default();
        self.from += 8;
        let [sum, size] =
            [0, 4].map(|at| u32::from_le_bytes([two[at], two[at + 1], two[at + 2], two[at + 3]]));
        Ok(Some((sum, size)))
    }

    fn input(&self) -> inflate::Input<'_> {
        inflate::Input { bytes: &self.bytes, at: self.from, end: self.to, last: self.last }
    }

    /// Inflates until there is another reason to stop than input.
    pub(super) fn inflate(
        &mut self,
        inflater: &mut Inflater,
        output: &mut inflate::Output<'_>,
    ) -> io::Result<Stop> {
        loop {
            let mut input = self.input();
            let stop = inflater.run(&mut input, output);
            self.from = input.at;
            if stop != Stop::Hungry {
                return Ok(stop);
            }
            self.fill()?;
        }
    }
}

pub(super) fn checksum() -> Digest {
    Digest::new(CrcAlgorithm::Crc32IsoHdlc)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body,
    Over,
}

/// Inflates member after member.
pub(super) struct Decoder {
    stored: Stored,
    inflater: Inflater,
    out: Vec<u8>,
    /// What of `out` was not given away yet.
    from: usize,
    to: usize,
    floor: usize,
    /// Place of `out[to]` in what all inflates to.
    at: u64,
    state: State,
    sum: Digest,
    size: u32,
    /// Whether the member was inflated from its beginning.
    whole: bool,
    /// Where the block begins, in bits of the file.
    block: u64,
    points: Option<Points>,
    problem: Option<Text>,
}

/// Points that were noted, in order.
#[derive(Debug)]
pub(super) struct Points {
    pub(super) list: Vec<Point>,
    pub(super) members: usize,
    inside: usize,
    every: u64,
}

impl Points {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), members: 0, inside: 0, every: POINT_BYTES }
    }

    pub(super) fn member(&mut self, stored_at: u64, at: u64) {
        self.members += 1;
        if self.members <= MAX_MEMBERS {
            self.list.push(Point::member(stored_at, at));
        }
    }

    fn is_due(&self, at: u64) -> bool {
        self.list.last().is_none_or(|last| at - last.at >= self.every)
    }

    fn inside(&mut self, point: Point) {
        self.list.push(point);
        self.inside += 1;
        if self.inside > MAX_INSIDE {
            self.every *= 2;
            let mut number = 0;
            self.list.retain(|point| {
                number += u32::from(point.inside.is_some());
                point.inside.is_none() || number % 2 == 0
            });
            self.inside = self.list.iter().filter(|point| point.inside.is_some()).count();
        }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Decoder")
            .field("at", &self.at)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    /// Begins at a point; with `points`, notes more of them.
    pub(super) fn from(file: &Arc<Store>, point: &Point, points: Option<Points>) -> Self {
        let mut decoder = Self {
            stored: Stored::from(file, point.stored_at),
            inflater: Inflater::new(),
            out: vec![0; WINDOW + ROOM + SLACK],
            from: 0,
            to: 0,
            floor: 0,
            at: 0,
            state: State::Head,
            sum: checksum(),
            size: 0,
            whole: true,
            block: 0,
            points,
            problem: None,
        };
        decoder.seek(point);
        decoder
    }

    /// Goes to a point.
    pub(super) fn seek(&mut self, point: &Point) {
        self.stored.seek(point.stored_at);
        (self.from, self.to, self.floor, self.at) = (0, 0, 0, point.at);
        (self.state, self.problem) = (State::Head, None);
        let Some(Inside { skip, block, before }) = &point.inside else { return };
        if let Some(place) = self.out.get_mut(..before.len()) {
            place.copy_from_slice(before);
            (self.from, self.to) = (before.len(), before.len());
        }
        (self.state, self.whole) = (State::Body, false);
        // What cannot be read is told when it is read again.
        if let Some(block) = block {
            self.stored.seek(block / 8);
            let there = self.stored.fill().is_ok();
            let mut input = self.stored.input();
            self.inflater.restart((block % 8) as u8, &mut input);
            if !there || !self.inflater.read_head(&mut input) {
                return self.is_damaged("it was another one before");
            }
            self.stored.seek(point.stored_at);
            let _ = self.stored.fill();
            let mut input = self.stored.input();
            self.inflater.go_on(*skip, &mut input);
            self.stored.from = input.at;
        } else {
            let _ = self.stored.fill();
            let mut input = self.stored.input();
            self.inflater.restart(*skip, &mut input);
            self.stored.from = input.at;
        }
    }

    /// Where the next byte that is given lies.
    pub(super) fn at(&self) -> u64 {
        self.at - (self.to - self.from) as u64
    }

    pub(super) fn problem(&self) -> Option<&Text> {
        self.problem.as_ref()
    }

    /// What was noted.
    pub(super) fn into_parts(self) -> (Option<Points>, u64, Option<Text>) {
        (self.points, self.at, self.problem)
    }

    /// Up to `into.len()` bytes, 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.from == self.to {
            self.produce()?;
        }
        let there = self.out.get(self.from..self.to).unwrap_or_default();
        let count = there.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), there.get(..count)) {
            to.copy_from_slice(from);
        }
        self.from += count;
        Ok(count)
    }

    /// Passes over up to so many bytes, 0 at the end.
    pub(super) fn skip(&mut self, most: u64) -> io::Result<u64> {
        if self.from == self.to {
            self.produce()?;
        }
        let count = ((self.to - self.from) as u64).min(most);
        self.from += count as usize;
        Ok(count)
    }

    fn over(&mut self, problem: Option<Text>) {
        self.state = State::Over;
        self.problem = problem;
    }

    fn fails(&mut self, what: Text) {
        let (stored_at, inflated) = (self.stored.at(), self.at);
        self.over(Some(text!(
            "{what} near byte {stored_at} of the file, after {inflated} inflated bytes",
            "{what}：在文件第 {stored_at} 字节附近，已解压 {inflated} 字节";
            what
        )));
    }

    fn is_cut_off(&mut self) {
        self.fails(text!("the gzip data is cut off", "gzip 数据被截断"));
    }

    fn is_damaged(&mut self, why: &str) {
        self.fails(text!("the gzip data is damaged ({why})", "gzip 数据已损坏（{why}）"));
    }

    /// Inflates some more; nothing at the end.
    fn produce(&mut self) -> io::Result<()> {
        let keep = self.to.saturating_sub(WINDOW);
        self.out.copy_within(keep..self.to, 0);
        self.floor = self.floor.saturating_sub(keep);
        self.to -= keep;
        self.from = self.to;
        while self.from == self.to {
            match self.state {
                State::Over => break,
                State::Head => self.head()?,
                State::Body => self.body()?,
            }
        }
        Ok(())
    }

    fn head(&mut self) -> io::Result<()> {
        let (stored_at, at) = (self.stored.at(), self.at);
        match self.stored.head()? {
            Head::Member => {
                if let Some(points) = &mut self.points {
                    points.member(stored_at, at);
                }
                self.inflater.restart(0, &mut self.stored.input());
                self.block = self.stored.at() * 8;
                (self.state, self.whole, self.size, self.floor) = (State::Body, true, 0, self.to);
                self.sum = checksum();
            }
            Head::End => self.over(None),
            Head::Other => self.over(Some(text!(
                "what follows the gzip data at byte {stored_at} is not gzip",
                "第 {stored_at} 字节处 gzip 数据之后的内容不是 gzip"
            ))),
            Head::CutOff => self.is_cut_off(),
            Head::Damaged => self.is_damaged("the head of a member"),
        }
        Ok(())
    }

    fn place_in_bits(&self) -> u64 {
        self.stored.at() * 8 - u64::from(self.inflater.ahead())
    }

    /// Notes a point here, if it is time.
    fn note(&mut self, block: Option<u64>) {
        let bits = self.place_in_bits();
        if let Some(points) = self.points.as_mut().filter(|points| points.is_due(self.at)) {
            let before = self.out.get(self.floor.max(self.to.saturating_sub(WINDOW))..self.to);
            let before = Arc::from(before.unwrap_or_default());
            let inside = Some(Inside { skip: (bits % 8) as u8, block, before });
            points.inside(Point { stored_at: bits / 8, at: self.at, inside });
        }
    }

    fn body(&mut self) -> io::Result<()> {
        let was = self.to;
        let target = self.out.len() - SLACK;
        let mut output = inflate::Output { bytes: &mut self.out, at: self.to, target, floor: self.floor };
        let stop = self.stored.inflate(&mut self.inflater, &mut output)?;
        self.to = output.at;
        self.at += (self.to - was) as u64;
        self.size = self.size.wrapping_add((self.to - was) as u32);
        if self.whole {
            self.sum.update(self.out.get(was..self.to).unwrap_or_default());
        }
        match stop {
            Stop::Hungry => {}
            Stop::Full => {
                if self.inflater.is_in_symbols() {
                    self.note(Some(self.block));
                }
            }
            Stop::Block => {
                self.block = self.place_in_bits();
                self.note(None);
            }
            Stop::End => match self.stored.trailer()? {
                None => self.is_cut_off(),
                Some(_) if !self.whole => self.state = State::Head,
                Some((sum, size)) if u64::from(sum) == self.sum.finalize() && size == self.size => {
                    self.state = State::Head;
                }
                Some(_) => self.is_damaged("its checksum or size"),
            },
            Stop::CutOff => self.is_cut_off(),
            Stop::Damaged(why) => self.is_damaged(why),
        }
        Ok(())
    }
}

/// Inflates the member at a place whole, behind `out`'s beginning: its bytes, and where it ends in the file. None if it is longer
/// than `most`, damaged, or none.
pub(super) fn member(
    stored: &mut Stored,
    inflater: &mut Inflater,
    stored_at: u64,
    out: &mut Vec<u8>,
    most: usize,
) -> io::Result<Option<(usize, u64)>> {
    stored.seek(stored_at);
    if stored.head()? != Head::Member {
        return Ok(None);
    }
    inflater.restart(0, &mut stored.input());
    let mut at = 0;
    loop {
        let target = out.len().saturating_sub(SLACK);
        let mut output = inflate::Output { bytes: out, at, target, floor: 0 };
        let stop = stored.inflate(inflater, &mut output)?;
        at = output.at;
        match stop {
            Stop::Block | Stop::Hungry => {}
            Stop::Full if out.len() < most + SLACK => out.resize((out.len() * 2).min(most + SLACK), 0),
            Stop::End => break,
            Stop::Full | Stop::CutOff | Stop::Damaged(_) => return Ok(None),
        }
    }
    let mut sum = checksum();
    sum.update(out.get(..at).unwrap_or_default());
    let good = stored.trailer()? == Some((sum.finalize() as u32, at as u32));
    Ok(good.then(|| (at, stored.at())))
}
