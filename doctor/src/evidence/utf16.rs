//! UTF-16 as UTF-8: what a redirect in PowerShell writes. Told by the mark at its start; half a pair becomes `�`.

use std::io::{self, BufRead, Read};

/// The marks and whether the high byte of each unit comes first.
const MARKS: [([u8; 2], bool); 2] = [(*b"\xff\xfe", false), (*b"\xfe\xff", true)];

/// Whether a text that begins so is UTF-16, and whether the high byte of each unit comes first.
pub(super) fn order(start: &[u8]) -> Option<bool> {
    MARKS.iter().find(|(mark, _)| start.starts_with(mark)).map(|(_, high_first)| *high_first)
}

/// Reads UTF-16 behind its mark as UTF-8, in the memory of what is at hand of the input. Input is untrusted.
pub(super) struct Utf16<R> {
    input: R,
    high_first: bool,
    /// The first byte of a unit whose second is not there yet.
    half: Option<u8>,
    /// The first unit of a pair whose second is not there yet.
    first: Option<u16>,
    out: Vec<u8>,
    taken: usize,
    ended: bool,
}

impl<R: BufRead> Utf16<R> {
    pub(super) fn new(input: R, high_first: bool) -> Self {
        Self { input, high_first, half: None, first: None, out: Vec::new(), taken: 0, ended: false }
    }

    fn put(&mut self, c: char) {
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn unit(&mut self, unit: u16) {
        if let Some(first) = self.first.take() {
            let pair = char::decode_utf16([first, unit]).next().and_then(Result::ok);
            self.put(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            if pair.is_some() {
                return;
            }
        }
        match unit {
            0xd800..=0xdbff => self.first = Some(unit),
            _ => self.put(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    /// Turns what is at hand of the input.
    fn fill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.taken = 0;
        let bytes = self.input.fill_buf()?.to_vec();
        self.input.consume(bytes.len());
        if bytes.is_empty() {
            self.ended = true;
            if self.half.take().is_some() || self.first.take().is_some() {
                self.put(char::REPLACEMENT_CHARACTER);
            }
        }
        for byte in bytes {
            match self.half.take() {
                None => self.half = Some(byte),
                Some(half) if self.high_first => self.unit(u16::from_be_bytes([half, byte])),
                Some(half) => self.unit(u16::from_le_bytes([half, byte])),
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.out.len() && !self.ended {
            self.fill()?;
        }
        let rest = self.out.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(into.len());
        if let (Some(into), Some(rest)) = (into.get_mut(..length), rest.get(..length)) {
            into.copy_from_slice(rest);
        }
        self.taken += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a text that comes in pieces of `piece` bytes.
    fn read(bytes: &[u8], high_first: bool, piece: usize) -> String {
        let input = io::BufReader::with_capacity(piece, bytes);
        let mut text = String::new();
        Utf16::new(input, high_first).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn both_orders_are_read_wherever_the_pieces_end() {
        let text = "a\r\né 直接内存 𝄞\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for piece in 1..=big.len() {
            assert_eq!(read(&little, false, piece), text);
            assert_eq!(read(&big, true, piece), text);
        }
        assert_eq!(
            (order(b"\xff\xfea\0"), order(b"\xfe\xff\0a"), order(b"abc")),
            (Some(false), Some(true), None)
        );
    }

    #[test]
    fn half_a_pair_and_half_a_unit_are_replaced() {
        assert_eq!(read(b"\x00\xd8a\0", false, 8), "\u{fffd}a");
        assert_eq!(read(b"\x00\xdc", false, 8), "\u{fffd}");
        assert_eq!(read(b"a\0\x00\xd8", false, 8), "a\u{fffd}");
        assert_eq!(read(b"a\0b", false, 8), "a\u{fffd}");
    }
}
