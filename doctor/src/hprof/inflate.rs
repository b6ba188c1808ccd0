//! Inflates deflate data (RFC 1951), and says where its blocks begin.
//!
//! A dump is read several times, each time in places. A block's place and the 32 KiB before it are all that it takes to go on
//! there, which a library that hides them cannot give. Input is untrusted: what makes no sense is damage, the end of the data
//! inside of a symbol is not shown as data, and distances reach no further back than what was given.

/// How far back a distance reaches.
pub(super) const WINDOW: usize = 32 << 10;
/// Room that output needs behind its target: a longest match, written in steps of 16, and some literals.
pub(super) const SLACK: usize = 320;
/// Zeros that input needs behind its end.
pub(super) const PADDING: usize = 32;
/// More than the longest head of a block.
pub(super) const LONGEST_HEAD: usize = 640;

const LITERALS: usize = 4096;
const LITERAL_BITS: u32 = 11;
const DISTANCES: usize = 1024;
const DISTANCE_BITS: u32 = 8;

// An entry: bits 0 to 5 what it takes off, of that bits 8 to 11 the code itself, bits 16 to 30 the value.
const LITERAL: u32 = 1 << 31;
const SPECIAL: u32 = 1 << 15;
const SUBTABLE: u32 = 1 << 14;
const END: u32 = 1 << 13;
const INVALID: u32 = SPECIAL;

const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
const FAR: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];
/// The order in which a block's head has the lengths of the codes of lengths.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More input is needed.
    Hungry,
    /// The target was reached.
    Full,
    /// A block begins here.
    Block,
    /// The last block ended; input goes on behind it.
    End,
    /// The input ended inside of the data.
    CutOff,
    /// The data makes no sense.
    Damaged(&'static str),
}

/// What a run reads. `bytes` has [`PADDING`] zeros behind `end`; `last`: nothing follows.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) last: bool,
}

/// What a run writes, behind what was written before. `bytes` has [`SLACK`] bytes behind `target`; `floor` is the first of
/// those before that a distance may reach.
#[derive(Debug)]
pub(super) struct Output<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) at: usize,
    pub(super) target: usize,
    pub(super) floor: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Head,
    Stored(usize),
    Codes,
    Done,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Inflater {
    bits: u64,
    count: u32,
    mode: Mode,
    last_block: bool,
    literals: Box<[u32; LITERALS]>,
    distances: Box<[u32; DISTANCES]>,
}

impl Inflater {
    /// Begins with a block.
    pub(super) fn new() -> Self {
        Self {
            bits: 0,
            count: 0,
            mode: Mode::Head,
            last_block: false,
            literals: Box::new([INVALID; LITERALS]),
            distances: Box::new([INVALID; DISTANCES]),
        }
    }

    /// Begins with a block whose first bit is bit `skip` of the input's first byte.
    pub(super) fn restart(&mut self, skip: u8, input: &mut Input<'_>) {
        (self.mode, self.last_block) = (Mode::Head, false);
        self.go_on(skip, input);
    }

    /// Reads the head of a block alone; whether symbols follow.
    pub(super) fn read_head(&mut self, input: &mut Input<'_>) -> bool {
        self.head(input).is_none() && self.is_in_symbols()
    }

    /// Whether it stopped between the symbols of a block.
    pub(super) fn is_in_symbols(&self) -> bool {
        self.mode == Mode::Codes
    }

    /// Goes on in the block whose head was read, at bit `skip` of the input's first byte.
    pub(super) fn go_on(&mut self, skip: u8, input: &mut Input<'_>) {
        (self.bits, self.count) = (0, 0);
        if skip > 0 {
            self.refill(input);
            self.take(u32::from(skip));
        }
    }

    /// Bits of the input before `input.at` that were not used yet.
    pub(super) fn ahead(&self) -> u32 {
        self.count
    }

    /// Goes on until there is a reason to stop.
    pub(super) fn run(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Stop {
        loop {
            let stop = match self.mode {
                Mode::Done => return Stop::End,
                Mode::Head => {
                    if !input.last && input.end.saturating_sub(input.at) < LONGEST_HEAD {
                        return Stop::Hungry;
                    }
                    self.head(input)
                }
                Mode::Stored(left) => self.stored(left, input, output),
                Mode::Codes => {
                    let stop = self.codes::<false>(input, output);
                    if stop == Some(Stop::Hungry) && input.last {
                        self.codes::<true>(input, output)
                    } else {
                        stop
                    }
                }
            };
            match stop {
                Some(Stop::Block) if self.last_block => {
                    // What is left of the last byte is nothing; whole bytes go back.
                    input.at -= (self.count / 8) as usize;
                    (self.bits, self.count, self.mode) = (0, 0, Mode::Done);
                }
                Some(stop) => return stop,
                None => {}
            }
        }
    }

    #[inline(always)]
    fn refill(&mut self, input: &mut Input<'_>) {
        if let Some(eight) = input.bytes.get(input.at..).and_then(|rest| rest.first_chunk::<8>()) {
            self.bits |= u64::from_le_bytes(*eight) << self.count;
            input.at += (63 - self.count as usize) >> 3;
            self.count |= 56;
        }
    }

    #[inline(always)]
    fn take(&mut self, count: u32) -> u32 {
        let value = self.bits & ((1 << count) - 1);
        self.bits >>= count;
        self.count = self.count.saturating_sub(count);
        value as u32
    }

    /// Whether bits were used that the input does not have.
    fn is_over(&self, input: &Input<'_>) -> bool {
        input.at * 8 > input.end * 8 + self.count as usize
    }

    fn head(&mut self, input: &mut Input<'_>) -> Option<Stop> {
        self.refill(input);
        self.last_block = self.take(1) == 1;
        match self.take(2) {
            0 => {
                let partial = self.count % 8;
                self.take(partial);
                input.at -= (self.count / 8) as usize;
                (self.bits, self.count) = (0, 0);
                let Some(head) =
                    input.bytes.get(input.at..input.end).and_then(|rest| rest.first_chunk::<4>())
                else {
                    return Some(Stop::CutOff);
                };
                let [length, check] = [0, 2].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
                if length != !check {
                    return Some(Stop::Damaged("a stored block of two lengths"));
                }
                input.at += 4;
                self.mode = Mode::Stored(usize::from(length));
                None
            }
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                self.tables(&lengths, &[5; 30])
            }
            2 => {
                let [literals, distances, codes] =
                    [(5, 257), (5, 1), (4, 4)].map(|(bits, least)| self.take(bits) as usize + least);
                let mut lengths = [0; 19];
                for symbol in ORDER.iter().take(codes) {
                    self.refill(input);
                    lengths[*symbol] = self.take(3) as u8;
                }
                let mut table = [INVALID; 128];
                if !build(&lengths, &mut table, 7, |symbol| (symbol as u32) << 16) {
                    return Some(self.damaged(input, "codes that contradict each other"));
                }
                let all = literals + distances;
                let mut lengths = [0_u8; 320];
                let mut at = 0;
                while at < all {
                    self.refill(input);
                    let entry = table[(self.bits & 127) as usize];
                    if entry & SPECIAL != 0 {
                        return Some(self.damaged(input, "an unknown code of a length"));
                    }
                    self.take(entry & 63);
                    let (value, times) = match entry >> 16 {
                        16 if at == 0 => return Some(self.damaged(input, "a repetition of nothing")),
                        16 => (lengths[at - 1], 3 + self.take(2)),
                        17 => (0, 3 + self.take(3)),
                        18 => (0, 11 + self.take(7)),
                        length => (length as u8, 1),
                    };
                    let Some(part) =
                        lengths.get_mut(at..at + times as usize).filter(|_| at + times as usize <= all)
                    else {
                        return Some(self.damaged(input, "more lengths than codes"));
                    };
                    part.fill(value);
                    at += times as usize;
                }
                if self.is_over(input) {
                    return Some(Stop::CutOff);
                }
                let (first, second) = lengths.split_at(literals);
                self.tables(first, second.get(..distances).unwrap_or_default())
            }
            _ => Some(self.damaged(input, "a block of unknown kind")),
        }
    }

    /// Damage, unless the data ended before.
    fn damaged(&self, input: &Input<'_>, what: &'static str) -> Stop {
        if self.is_over(input) { Stop::CutOff } else { Stop::Damaged(what) }
    }

    fn tables(&mut self, literals: &[u8], distances: &[u8]) -> Option<Stop> {
        let literal = |symbol: usize| match symbol {
            0..256 => LITERAL | (symbol as u32) << 16,
            256 => SPECIAL | END,
            _ => LENGTHS
                .get(symbol - 257)
                .map_or(INVALID, |(base, extra)| u32::from(*base) << 16 | u32::from(*extra)),
        };
        let far = |symbol: usize| {
            FAR.get(symbol).map_or(INVALID, |(base, extra)| u32::from(*base) << 16 | u32::from(*extra))
        };
        self.mode = Mode::Codes;
        let good = build(literals, &mut self.literals[..], LITERAL_BITS, literal)
            && build(distances, &mut self.distances[..], DISTANCE_BITS, far);
        if good { None } else { Some(Stop::Damaged("codes that contradict each other")) }
    }

    fn stored(&mut self, left: usize, input: &mut Input<'_>, output: &mut Output<'_>) -> Option<Stop> {
        let there = input.end.saturating_sub(input.at);
        let room = output.target.saturating_sub(output.at);
        let count = left.min(there).min(room);
        if let (Some(from), Some(to)) =
            (input.bytes.get(input.at..input.at + count), output.bytes.get_mut(output.at..output.at + count))
        {
            to.copy_from_slice(from);
        }
        input.at += count;
        output.at += count;
        self.mode = Mode::Stored(left - count);
        if left == count {
            self.mode = Mode::Head;
            return Some(Stop::Block);
        }
        Some(match count == room {
            true => Stop::Full,
            false if input.last => Stop::CutOff,
            false => Stop::Hungry,
        })
    }

    /// Symbols up to the end of the block. If `CAREFUL`, the input may end at any bit; else it stops well before.
    #[inline(never)]
    fn codes<const CAREFUL: bool>(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Option<Stop> {
        let bytes = input.bytes;
        let stop = if CAREFUL { usize::MAX } else { input.end.saturating_sub(2 * PADDING) };
        let (literals, distances) = (&*self.literals, &*self.distances);
        let out = &mut *output.bytes;
        let target = output.target.min(out.len().saturating_sub(SLACK));
        let (mut bits, mut count, mut at, mut to) = (self.bits, self.count, input.at, output.at);
        macro_rules! refill {
            () => {
                if let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
                    bits |= u64::from_le_bytes(*eight) << count;
                    at += (63 - count as usize) >> 3;
                    count |= 56;
                }
            };
        }
        macro_rules! take {
            ($entry:expr) => {
                bits = bits.wrapping_shr($entry);
                count = count.wrapping_sub($entry & 63);
            };
        }
        macro_rules! put {
            ($literal:expr) => {
                if let Some(place) = out.get_mut(to) {
                    *place = ($literal >> 16) as u8;
                }
                to += 1;
            };
        }
        // What a length or a distance is, from its entry and the bits behind its code.
        let value = |entry: u32, bits: u64| {
            (entry >> 16) as usize + ((bits & ((1 << (entry & 63)) - 1)) >> (entry >> 8 & 15)) as usize
        };
        let end = input.end;
        let over = |at: usize, count: u32| CAREFUL && at * 8 > end * 8 + count as usize;
        let result = loop {
            if to >= target {
                break Some(Stop::Full);
            }
            if at >= stop {
                break Some(Stop::Hungry);
            }
            refill!();
            let mut entry = literals[bits as usize & ((1 << LITERAL_BITS) - 1)];
            if entry & LITERAL != 0 {
                take!(entry);
                if over(at, count) {
                    break Some(Stop::CutOff);
                }
                put!(entry);
                if CAREFUL {
                    continue;
                }
                entry = literals[bits as usize & ((1 << LITERAL_BITS) - 1)];
                if entry & LITERAL != 0 {
                    take!(entry);
                    put!(entry);
                    entry = literals[bits as usize & ((1 << LITERAL_BITS) - 1)];
                    if entry & LITERAL != 0 {
                        take!(entry);
                        put!(entry);
                        continue;
                    }
                }
                refill!();
            }
            if entry & SPECIAL != 0 {
                if entry & SUBTABLE != 0 {
                    bits >>= LITERAL_BITS;
                    count = count.wrapping_sub(LITERAL_BITS);
                    let index = bits as usize & ((1 << (entry >> 8 & 15)) - 1);
                    entry = literals[((entry >> 16) as usize + index) & (LITERALS - 1)];
                }
                if entry & LITERAL != 0 {
                    take!(entry);
                    if over(at, count) {
                        break Some(Stop::CutOff);
                    }
                    put!(entry);
                    continue;
                }
                if entry & END != 0 {
                    take!(entry);
                    break if over(at, count) { Some(Stop::CutOff) } else { None };
                }
                if entry & SPECIAL != 0 {
                    let cut = over(at, count.wrapping_sub(1));
                    break Some(if cut { Stop::CutOff } else { Stop::Damaged("an unknown code") });
                }
            }
            let length = value(entry, bits);
            take!(entry);
            let mut entry = distances[bits as usize & ((1 << DISTANCE_BITS) - 1)];
            if entry & SPECIAL != 0 {
                if entry & SUBTABLE != 0 {
                    bits >>= DISTANCE_BITS;
                    count = count.wrapping_sub(DISTANCE_BITS);
                    let index = bits as usize & ((1 << (entry >> 8 & 15)) - 1);
                    entry = distances[((entry >> 16) as usize + index) & (DISTANCES - 1)];
                }
                if entry & SPECIAL != 0 {
                    let cut = over(at, count.wrapping_sub(1));
                    break Some(if cut {
                        Stop::CutOff
                    } else {
                        Stop::Damaged("an unknown code of a distance")
                    });
                }
            }
            let distance = value(entry, bits);
            take!(entry);
            if over(at, count) {
                break Some(Stop::CutOff);
            }
            if distance > to - output.floor {
                break Some(Stop::Damaged("a distance that reaches before the beginning"));
            }
            copy(out, to, distance, length);
            to += length;
        };
        (self.bits, self.count, input.at, output.at) = (bits, count, at, to);
        if result.is_none() {
            self.mode = Mode::Head;
            return Some(Stop::Block);
        }
        result
    }
}

/// Repeats `length` bytes from `distance` before `to`; up to 15 bytes more are overwritten.
#[inline(always)]
fn copy(out: &mut [u8], to: usize, distance: usize, length: usize) {
    let from = to - distance;
    let end = to + length;
    if distance >= 16 {
        let (mut from, mut at) = (from, to);
        while at < end {
            let Some(part) = out.get(from..).and_then(|rest| rest.first_chunk::<16>()).copied() else {
                return;
            };
            let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<16>()) else { return };
            *place = part;
            (from, at) = (from + 16, at + 16);
        }
    } else if distance == 1 {
        let byte = out.get(from).copied().unwrap_or(0);
        if let Some(places) = out.get_mut(to..end) {
            places.fill(byte);
        }
    } else if distance >= 8 {
        let (mut from, mut at) = (from, to);
        while at < end {
            let Some(part) = out.get(from..).and_then(|rest| rest.first_chunk::<8>()).copied() else {
                return;
            };
            let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) else { return };
            *place = part;
            (from, at) = (from + 8, at + 8);
        }
    } else {
        for at in to..end {
            let byte = out.get(at - distance).copied().unwrap_or(0);
            if let Some(place) = out.get_mut(at) {
                *place = byte;
            }
        }
    }
}

/// Fills a table for codes of these lengths. Bits 0 to 7 of what `value` gives are extra bits. False if there are more codes
/// than lengths allow; codes that are missing stay invalid.
fn build(lengths: &[u8], table: &mut [u32], primary: u32, value: impl Fn(usize) -> u32) -> bool {
    let mut counts = [0_u32; 16];
    lengths.iter().for_each(|length| counts[usize::from(*length & 15)] += 1);
    counts[0] = 0;
    let mut next = [0_u32; 16];
    let mut left = 1_i32;
    for length in 1..16 {
        left = left * 2 - counts[length] as i32;
        if left < 0 {
            return false;
        }
        next[length] = (next[length - 1] + counts[length - 1]) << 1;
    }
    let first = next;
    let mask = (1 << primary) - 1;
    table.fill(INVALID);
    let reversed = |code: u32, length: u32| (code << (32 - length)).reverse_bits() as usize;
    // How long the codes are that begin with the same bits.
    let mut longest = [0_u8; 1 << LITERAL_BITS];
    for length in lengths.iter().map(|length| u32::from(*length & 15)).filter(|length| *length > 0) {
        let code = next[length as usize];
        next[length as usize] += 1;
        if length > primary {
            let prefix = reversed(code, length) & mask;
            longest[prefix] = longest[prefix].max((length - primary) as u8);
        }
    }
    let mut end = 1 << primary;
    for (prefix, more) in longest.iter().enumerate().filter(|(_, more)| **more > 0) {
        if end + (1 << more) > table.len() {
            return false;
        }
        table[prefix] = SPECIAL | SUBTABLE | (end as u32) << 16 | u32::from(*more) << 8 | primary;
        end += 1 << more;
    }
    next = first;
    for (symbol, length) in lengths.iter().map(|length| u32::from(*length & 15)).enumerate() {
        if length == 0 {
            continue;
        }
        let code = reversed(next[length as usize], length);
        next[length as usize] += 1;
        let value = value(symbol);
        let entry = |length: u32| {
            let extra = if value & SPECIAL != 0 { 0 } else { value & 0xff };
            value & !0xff | length << 8 | (length + extra)
        };
        if length <= primary {
            table[..1 << primary]
                .iter_mut()
                .skip(code)
                .step_by(1 << length)
                .for_each(|slot| *slot = entry(length));
        } else {
            let sub = table[code & mask];
            let (from, size) = ((sub >> 16) as usize, 1_usize << (sub >> 8 & 15));
            let length = length - primary;
            let slots = table.get_mut(from..from + size).unwrap_or_default();
            slots
                .iter_mut()
                .skip(code >> primary)
                .step_by(1 << length)
                .for_each(|slot| *slot = entry(length));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
        }
    }

    /// Noise, runs, repetitions of every distance, and text.
    fn content(random: &mut Random, size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let count = (random.next() % 700) as usize;
            match random.next() % 4 {
                0 => bytes.extend((0..count).map(|_| random.next() as u8)),
                1 => bytes.extend(std::iter::repeat_n(random.next() as u8, count)),
                2 if !bytes.is_empty() => {
                    let distance = 1 + random.next() as usize % bytes.len().min(40_000);
                    for _ in 0..count {
                        bytes.push(bytes[bytes.len() - distance]);
                    }
                }
                _ => bytes.extend((0..count).map(|_| b'a' + (random.next() % 9) as u8)),
            }
        }
        bytes.truncate(size);
        bytes
    }

    fn deflate(content: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Inflates with input and room in pieces of these sizes.
    fn inflate(deflated: &[u8], piece: usize, room: usize) -> (Vec<u8>, Stop) {
        let mut inflater = Inflater::new();
        let mut all: Vec<u8> = Vec::new();
        let (mut at, mut end) = (0, deflated.len().min(piece));
        loop {
            let mut bytes = deflated[..end].to_vec();
            bytes.extend([0; PADDING]);
            let before = all.len();
            all.resize(before + room + SLACK, 0);
            let target = before + room;
            let mut input = Input { bytes: &bytes, at, end, last: end == deflated.len() };
            let mut output = Output { bytes: &mut all, at: before, target, floor: 0 };
            let stop = inflater.run(&mut input, &mut output);
            at = input.at;
            let filled = output.at;
            all.truncate(filled);
            match stop {
                Stop::Hungry => end = (end + piece).min(deflated.len()),
                Stop::Full | Stop::Block => {}
                stop => return (all, stop),
            }
        }
    }

    #[test]
    fn what_another_library_deflates_is_inflated_in_pieces_of_any_size() {
        let mut random = Random(7);
        for level in 0..=9 {
            for size in [0, 1, 300, 70_000, 400_000] {
                let content = content(&mut random, size);
                let deflated = deflate(&content, level);
                let pieces = [(usize::MAX >> 1, 1 << 20), (900, 1_000), (70_000, 300)];
                for (piece, room) in pieces.into_iter().take(if size > 100_000 { 1 } else { 3 }) {
                    let (inflated, stop) = inflate(&deflated, piece, room);
                    assert_eq!(stop, Stop::End, "level {level}, {size} bytes, pieces of {piece}");
                    assert!(inflated == content, "level {level}, {size} bytes, pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn data_that_ends_early_is_shown_up_to_there_and_nothing_is_made_up() {
        let mut random = Random(11);
        for level in [0, 1, 6] {
            let content = content(&mut random, 3_000);
            let deflated = deflate(&content, level);
            for length in 0..deflated.len() {
                let (inflated, stop) = inflate(&deflated[..length], usize::MAX >> 1, 1 << 16);
                assert_eq!(stop, Stop::CutOff, "level {level}, {length} of {}", deflated.len());
                assert!(content.starts_with(&inflated), "level {level}, {length} of {}", deflated.len());
            }
        }
    }

    #[test]
    fn damaged_data_ends_somewhere_and_never_panics() {
        let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1
        });
        println!("seed {seed}: WEIR_SEED plays it again");
        let mut random = Random(seed);
        for round in 0..2_000 {
            let content = content(&mut random, 2_000);
            let mut deflated = deflate(&content, round % 10);
            for _ in 0..=random.next() % 4 {
                let at = random.next() as usize % deflated.len();
                deflated[at] = random.next() as u8;
            }
            let (inflated, stop) = inflate(&deflated, 700, 5_000);
            // One byte of deflated data is at most 1,032 of content.
            assert!(inflated.len() <= deflated.len() * 1_032, "{stop:?}");
        }
        for round in 0..2_000 {
            let noise: Vec<u8> = (0..1 + round % 400).map(|_| random.next() as u8).collect();
            inflate(&noise, 700, 5_000);
        }
    }

    #[test]
    fn a_block_can_be_begun_anywhere_with_what_was_before_it() {
        let mut random = Random(5);
        let content = content(&mut random, 300_000);
        let mut deflated = deflate(&content, 6);
        let end = deflated.len();
        deflated.extend([0; PADDING]);
        let mut out = vec![0; content.len() + SLACK + 1];
        let mut inflater = Inflater::new();
        let mut input = Input { bytes: &deflated, at: 0, end, last: true };
        let mut places = vec![(0, 0)];
        let mut at = 0;
        loop {
            let target = out.len() - SLACK;
            let mut output = Output { bytes: &mut out, at, target, floor: 0 };
            let stop = inflater.run(&mut input, &mut output);
            at = output.at;
            match stop {
                Stop::Block => places.push((input.at as u64 * 8 - u64::from(inflater.ahead()), at)),
                Stop::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(places.len() > 3, "{places:?}");
        for (bit, begin) in places {
            let mut again = vec![0; content.len() + SLACK + 1];
            let from = begin.saturating_sub(WINDOW);
            again[from..begin].copy_from_slice(&content[from..begin]);
            let mut input = Input { bytes: &deflated, at: bit as usize / 8, end, last: true };
            inflater.restart((bit % 8) as u8, &mut input);
            let mut at = begin;
            loop {
                let target = again.len() - SLACK;
                let mut output = Output { bytes: &mut again, at, target, floor: from };
                let stop = inflater.run(&mut input, &mut output);
                at = output.at;
                if stop != Stop::Block {
                    assert_eq!(stop, Stop::End);
                    break;
                }
            }
            assert!(again[begin..at] == content[begin..], "from byte {begin}");
        }
    }
}
