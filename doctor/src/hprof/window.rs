//! A window of fixed size that moves over a dump. It grows only for a class dump, which its own counters bound.

use std::io;

use super::source::Reader;

/// Bytes that are read at once.
pub(crate) const WINDOW: usize = 512 << 10;
/// More than the largest class dump: three tables of 65,535 entries.
pub(crate) const MAX_WINDOW: usize = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    reader: Reader<'a>,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Place of `buffer[from]` in the dump.
    at: u64,
    /// Nothing behind this is read.
    end: u64,
    /// The data ended at `at + available`.
    dry: bool,
}

impl<'a> Window<'a> {
    pub(crate) fn new(reader: Reader<'a>) -> Self {
        Self { reader, buffer: vec![0; WINDOW], from: 0, to: 0, at: 0, end: u64::MAX, dry: false }
    }

    /// Goes to another place; `end` is where reading ends.
    pub(crate) fn seek(&mut self, at: u64, end: u64) {
        let ahead = at.wrapping_sub(self.at);
        if ahead <= (self.to - self.from) as u64 && at >= self.at {
            self.from += ahead as usize;
        } else {
            (self.from, self.to) = (0, 0);
        }
        self.at = at;
        self.end = end;
        self.dry = false;
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.from..self.to).unwrap_or_default()
    }

    /// Makes at least `need` bytes available; false if the data ends before, or `need` is more than a window can hold.
    pub(crate) fn ensure(&mut self, need: usize) -> io::Result<bool> {
        if self.to - self.from >= need {
            return Ok(true);
        }
        if need > MAX_WINDOW {
            return Ok(false);
        }
        self.buffer.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.buffer.len() < need {
            self.buffer.resize(need.next_power_of_two().min(MAX_WINDOW), 0);
        }
        while self.to < need && !self.dry {
            let place = self.at + self.to as u64;
            let room = self.buffer.len() - self.to;
            let most = room.min(usize::try_from(self.end.saturating_sub(place)).unwrap_or(usize::MAX));
            let count = if most == 0 {
                0
            } else {
                self.reader.fill(place, &mut self.buffer[self.to..self.to + most])?
            };
            self.to += count;
            self.dry = count < most || most == 0;
        }
        Ok(self.to >= need)
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.to - self.from);
        self.from += count;
        self.at += count as u64;
    }

    /// Goes `count` bytes on; false if the data ends before. A file that seeks is not read for it.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<bool> {
        let available = (self.to - self.from) as u64;
        if count <= available {
            self.consume(count as usize);
            return Ok(true);
        }
        let target = self.at.saturating_add(count);
        if self.reader.seeks() {
            // The last byte must be there.
            (self.from, self.to) = (0, 0);
            self.at = target - 1;
            self.dry = false;
            let there = self.ensure(1)?;
            self.consume(1);
            return Ok(there);
        }
        let mut left = count;
        while left > 0 {
            if !self.ensure(1)? {
                return Ok(false);
            }
            let step = left.min((self.to - self.from) as u64);
            self.consume(step as usize);
            left -= step;
        }
        Ok(true)
    }
}
