//! Inflates deflate data (RFC 1951), and says where its blocks begin.
//!
//! A dump is read several times, each time in places. A block's place and the 32 KiB before it are all that it takes to go on
//! there, which a library that hides them cannot give. Input is untrusted: what makes no sense is damage, the end of the data
//! inside of a symbol is not shown as data, and distances reach no further back than what was given.

/// How far back a distance reaches.
pub(super) const WINDOW: usize = 32 << 10;
/// Room that output needs behind its target: three literals, and a longest match in steps of 16 bytes.
pub(super) const SLACK: usize = 320;
/// Zeros that input needs behind its end.
pub(super) const PADDING: usize = 32;
/// More than the longest head of a block.
pub(super) const LONGEST_HEAD: usize = 640;

/// More than a block has of literals and lengths.
const MAX_SYMBOLS: usize = 320;

const LITERALS: usize = 4096;
const LITERAL_BITS: u32 = 11;
const DISTANCES: usize = 1024;
const DISTANCE_BITS: u32 = 9;

/// Input for two literals and a repetition: more than twice eight bytes.
const AHEAD: usize = 32;

// An entry: bits 0 to 7 what it takes off (28 at most), of that bits 8 to 11 the code itself, bits 16 to 30 the value.
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
    /// Of literals and lengths, then of distances.
    tables: Box<[u32; LITERALS + DISTANCES]>,
}

impl Inflater {
    /// Begins with a block.
    pub(super) fn new() -> Self {
        Self {
            bits: 0,
            count: 0,
            mode: Mode::Head,
            last_block: false,
            tables: Box::new([INVALID; LITERALS + DISTANCES]),
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
                    let stop = self.codes(input, output);
                    if stop == Stop::Hungry && input.last {
                        Some(self.last_codes(input, output))
                    } else {
                        Some(stop)
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
        let good = build(literals, &mut self.tables[..LITERALS], LITERAL_BITS, literal)
            && build(distances, &mut self.tables[LITERALS..], DISTANCE_BITS, far);
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

    /// Symbols up to the end of the block, while the end of the input is not near.
    ///
    /// What takes time is the way from one lookup to the next, so no lookup waits for a refill. That one fills all 64 bits, though
    /// only whole bytes count, and what is taken until the next, 48 bits at most, leaves the lookup before it enough.
    #[inline(never)]
    fn codes(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Stop {
        let tables = &*self.tables;
        let floor = output.floor;
        // At the target, the room is one byte too small.
        let target = output.target.min(output.bytes.len().saturating_sub(SLACK));
        let out = output.bytes.get_mut(floor..target + SLACK - 1).unwrap_or_default();
        let Some(mut rest) = input.bytes.get(input.at..input.end) else { return Stop::Hungry };
        // Of the count, bits 6 and up are of no account: entries are taken off whole.
        let (mut bits, mut count, mut to) = (self.bits, self.count, output.at.saturating_sub(floor));
        macro_rules! take {
            ($entry:expr) => {
                bits = bits.wrapping_shr($entry);
                count = count.wrapping_sub($entry);
            };
        }
        macro_rules! literal_or_length {
            () => {
                tables[bits as usize & ((1 << LITERAL_BITS) - 1)]
            };
        }
        if let Some(eight) = rest.first_chunk::<8>() {
            bits |= u64::from_le_bytes(*eight) << (count & 63);
        }
        let mut entry = literal_or_length!();
        let stop = loop {
            let Some(room) = out.get_mut(to..).and_then(|rest| rest.first_chunk_mut::<SLACK>()) else {
                break Stop::Full;
            };
            let Some(ahead) = rest.first_chunk::<AHEAD>() else { break Stop::Hungry };
            let mut used = 0;
            macro_rules! refill {
                () => {
                    if let Some(eight) = ahead.get(used..).and_then(|rest| rest.first_chunk::<8>()) {
                        bits |= u64::from_le_bytes(*eight) << (count & 63);
                        used += (!count >> 3 & 7) as usize;
                        count |= 56;
                    }
                };
            }
            refill!();
            if entry & LITERAL != 0 {
                take!(entry);
                room[0] = (entry >> 16) as u8;
                entry = literal_or_length!();
                if entry & LITERAL != 0 {
                    take!(entry);
                    room[1] = (entry >> 16) as u8;
                    entry = literal_or_length!();
                    if entry & LITERAL != 0 {
                        take!(entry);
                        room[2] = (entry >> 16) as u8;
                        entry = literal_or_length!();
                        to += 3;
                        rest = &rest[used..];
                        continue;
                    }
                    to += 1;
                }
                to += 1;
                refill!();
            }
            rest = &rest[used..];
            if entry & SPECIAL != 0 {
                if entry & SUBTABLE != 0 {
                    take!(LITERAL_BITS);
                    entry = tables[below(entry, bits) & (LITERALS - 1)];
                }
                if entry & LITERAL != 0 {
                    take!(entry);
                    if let Some(place) = out.get_mut(to) {
                        *place = (entry >> 16) as u8;
                    }
                    to += 1;
                    entry = literal_or_length!();
                    continue;
                }
                if entry & END != 0 {
                    take!(entry);
                    self.mode = Mode::Head;
                    break Stop::Block;
                }
                if entry & SPECIAL != 0 {
                    break Stop::Damaged(UNKNOWN_CODE);
                }
            }
            let length = value(entry, bits);
            take!(entry);
            let mut far = tables[LITERALS + (bits as usize & ((1 << DISTANCE_BITS) - 1))];
            if far & SPECIAL != 0 {
                if far & SUBTABLE != 0 {
                    take!(DISTANCE_BITS);
                    far = tables[LITERALS + (below(far, bits) & (DISTANCES - 1))];
                }
                if far & SPECIAL != 0 {
                    break Stop::Damaged(UNKNOWN_DISTANCE);
                }
            }
            let distance = value(far, bits);
            take!(far);
            entry = literal_or_length!();
            if !repeat(out, to, distance, length) {
                break Stop::Damaged(TOO_FAR);
            }
            to += length;
        };
        (self.bits, self.count) = (bits, count & 63);
        (input.at, output.at) = (input.end - rest.len(), to + floor);
        stop
    }

    /// Symbols one by one, where the input may end at any bit.
    fn last_codes(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Stop {
        let target = output.target.min(output.bytes.len().saturating_sub(SLACK));
        while output.at < target {
            self.refill(input);
            let mut entry = self.tables[self.bits as usize & ((1 << LITERAL_BITS) - 1)];
            if entry & SUBTABLE != 0 {
                self.take(LITERAL_BITS);
                entry = self.tables[below(entry, self.bits) & (LITERALS - 1)];
            }
            if entry & SPECIAL != 0 && entry & END == 0 {
                return self.unknown(input, UNKNOWN_CODE);
            }
            let length = value(entry, self.bits);
            self.take(entry & 63);
            if self.is_over(input) {
                return Stop::CutOff;
            }
            if entry & LITERAL != 0 {
                if let Some(place) = output.bytes.get_mut(output.at) {
                    *place = (entry >> 16) as u8;
                }
                output.at += 1;
                continue;
            }
            if entry & END != 0 {
                self.mode = Mode::Head;
                return Stop::Block;
            }
            let mut far = self.tables[LITERALS + (self.bits as usize & ((1 << DISTANCE_BITS) - 1))];
            if far & SUBTABLE != 0 {
                self.take(DISTANCE_BITS);
                far = self.tables[LITERALS + (below(far, self.bits) & (DISTANCES - 1))];
            }
            if far & SPECIAL != 0 {
                return self.unknown(input, UNKNOWN_DISTANCE);
            }
            let distance = value(far, self.bits);
            self.take(far & 63);
            if self.is_over(input) {
                return Stop::CutOff;
            }
            let to = output.at - output.floor;
            let out = output.bytes.get_mut(output.floor..).unwrap_or_default();
            if !repeat(out, to, distance, length) {
                return Stop::Damaged(TOO_FAR);
            }
            output.at += length;
        }
        Stop::Full
    }

    /// A code that is not known is damage, unless the data ended in it.
    fn unknown(&mut self, input: &Input<'_>, what: &'static str) -> Stop {
        self.take(1);
        self.damaged(input, what)
    }
}

const UNKNOWN_CODE: &str = "an unknown code";
const UNKNOWN_DISTANCE: &str = "an unknown code of a distance";
const TOO_FAR: &str = "a distance that reaches before the beginning";

/// What a length or a distance is, from its entry and the bits that begin with its code.
#[inline(always)]
fn value(entry: u32, bits: u64) -> usize {
    (entry >> 16) as usize + ((bits & ((1 << (entry & 63)) - 1)) >> (entry >> 8 & 15)) as usize
}

/// The place of a longer code's entry in its subtable, from the entry that leads there and the bits behind those that led there.
#[inline(always)]
fn below(entry: u32, bits: u64) -> usize {
    (entry >> 16) as usize + (bits as usize & ((1 << (entry >> 8 & 15)) - 1))
}

/// Repeats `length` bytes from `distance` before `to`; up to 31 bytes behind them are overwritten. False if they are not there.
#[inline(always)]
fn repeat(out: &mut [u8], to: usize, distance: usize, length: usize) -> bool {
    let Some((before, room)) = out.split_at_mut_checked(to) else { return false };
    let Some(from) = before.len().checked_sub(distance) else { return false };
    if let (Some(part), Some(place)) = (before[from..].first_chunk::<16>(), room.first_chunk_mut::<16>()) {
        // Most are no longer than eight bytes, which are also sooner there to be repeated themselves.
        place[..8].copy_from_slice(&part[..8]);
        if length > 8 {
            place[8..].copy_from_slice(&part[8..]);
        }
        if length > 16 {
            copy(out, from + 16, to + 16, to + length);
        }
        return true;
    }
    // What repeats itself in fewer than 16 bytes: of each step, as many count as were right before, so that they double.
    let (mut at, mut period) = (to, distance.max(1));
    while period < 16 {
        copy_16(out, from, at);
        at += period;
        period *= 2;
    }
    copy(out, from, at, to + length);
    true
}

#[inline(always)]
fn copy(out: &mut [u8], mut from: usize, mut to: usize, end: usize) {
    while to < end {
        copy_16(out, from, to);
        (from, to) = (from + 16, to + 16);
    }
}

#[inline(always)]
fn copy_16(out: &mut [u8], from: usize, to: usize) {
    let Some(part) = out.get(from..).and_then(|rest| rest.first_chunk::<16>()).copied() else { return };
    let Some(place) = out.get_mut(to..).and_then(|rest| rest.first_chunk_mut::<16>()) else { return };
    *place = part;
}

/// Fills a table for codes of these lengths. Bits 0 to 7 of what `value` gives are extra bits. False if there are more codes
/// than lengths allow, or than the table has room for; codes that are missing stay invalid.
fn build(lengths: &[u8], table: &mut [u32], primary: u32, value: impl Fn(usize) -> u32) -> bool {
    let mut counts = [0_usize; 16];
    lengths.iter().for_each(|length| counts[usize::from(*length & 15)] += 1);
    // Symbols by length, those of none first.
    let (mut places, mut sorted) = ([0; 16], [0_u16; MAX_SYMBOLS]);
    let mut left = 1_i32;
    for length in 1..16 {
        places[length] = places[length - 1] + counts[length - 1];
        left = left * 2 - counts[length] as i32;
        if left < 0 {
            return false;
        }
    }
    let mut place = counts[0];
    for (symbol, length) in lengths.iter().enumerate() {
        let next = &mut places[usize::from(*length & 15)];
        let Some(slot) = sorted.get_mut(*next) else { return false };
        *slot = symbol as u16;
        *next += 1;
    }
    let entry = |symbol: u16, length: u32| {
        let value = value(usize::from(symbol));
        let extra = if value & SPECIAL != 0 { 0 } else { value & 0xff };
        value & !0xff | length << 8 | (length + extra)
    };
    // Codes in order; the table doubles with the length, so that each is in all places that begin with it.
    let mut code = 0_u32;
    let mut size = 1;
    table[0] = INVALID;
    for length in 1..=primary {
        table.copy_within(..size, size);
        size *= 2;
        code <<= 1;
        for symbol in &sorted[place..place + counts[length as usize]] {
            table[(code.reverse_bits() >> (32 - length)) as usize] = entry(*symbol, length);
            code += 1;
        }
        place += counts[length as usize];
    }
    // Longer ones. Those that begin with the same bits follow each other, and the last of them is the longest.
    let (mut longer, mut count) = ([(0, 0); MAX_SYMBOLS], 0);
    for length in primary + 1..16 {
        code <<= 1;
        for slot in longer.iter_mut().skip(count).take(counts[length as usize]) {
            *slot = ((code.reverse_bits() >> (32 - length)) as usize, length);
            code += 1;
        }
        count += counts[length as usize];
    }
    let mut longer = longer.get(..count).unwrap_or_default();
    let mut end = size;
    while let Some((prefix, _)) = longer.first().map(|(code, length)| (code & (size - 1), length)) {
        let alike = longer.iter().take_while(|(code, _)| code & (size - 1) == prefix).count();
        let (group, others) = longer.split_at(alike);
        let more = group.last().map_or(0, |(_, length)| length - primary);
        let Some(slots) = table.get_mut(end..end + (1 << more)) else { return false };
        slots.fill(INVALID);
        for ((code, length), symbol) in group.iter().zip(&sorted[place..]) {
            let entry = entry(*symbol, length - primary);
            slots
                .iter_mut()
                .skip(code >> primary)
                .step_by(1 << (length - primary))
                .for_each(|slot| *slot = entry);
        }
        table[prefix] = SPECIAL | SUBTABLE | (end as u32) << 16 | more << 8 | primary;
        (longer, end, place) = (others, end + (1 << more), place + alike);
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
    fn repetitions_of_every_short_distance_and_every_length_are_right() {
        let mut random = Random(3);
        let mut content = Vec::new();
        for distance in 1..=40_usize {
            for length in 3..=258_usize {
                content.extend((0..distance).map(|_| random.next() as u8));
                for _ in 0..length {
                    content.push(content[content.len() - distance]);
                }
            }
        }
        let deflated = deflate(&content, 9);
        assert!(deflated.len() < content.len() / 2, "{} of {}", deflated.len(), content.len());
        for room in [1 << 16, 5_000] {
            let (inflated, stop) = inflate(&deflated[..], 1 << 20, room);
            assert_eq!(stop, Stop::End, "room for {room}");
            assert!(inflated == content, "room for {room}");
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
