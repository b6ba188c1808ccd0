//! Text evidence line by line in bounded memory: plain or gzip, UTF-8 or UTF-16, any bytes, every line with its number.
//!
//! Invariant: a line that is handed out is at most [`MAX_LINE_BYTES`] long and holds nothing that a terminal would obey.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::utf16::{Utf16, order};
use crate::language::{Text, text};

/// Longest line that is read whole, in bytes; what follows in it is dropped and said so. The longest honest lines are
/// class paths of a few ten thousand bytes.
pub const MAX_LINE_BYTES: usize = 256 << 10;

/// Most problems that are kept of one file; a file with more says how many there were.
pub const MAX_PROBLEMS: usize = 50;

/// Something in a file that could not be read or is not as it should be. The rest of the file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What is wrong, with the wrong value.
    pub text: Text,
}

/// The problems of one file, bounded by [`MAX_PROBLEMS`] and two more.
#[derive(Debug, Clone, Default)]
pub struct Problems {
    kept: Vec<Problem>,
    dropped: u64,
}

impl Problems {
    /// Notes a problem.
    pub fn add(&mut self, line: u64, text: Text) {
        if self.kept.len() < MAX_PROBLEMS {
            self.kept.push(Problem { line, text });
        } else {
            self.dropped += 1;
        }
    }

    /// Notes what ended the reading, once: it is kept however many problems there were before.
    fn end(&mut self, line: u64, text: Text) {
        self.kept.push(Problem { line, text });
    }

    /// The problems in the order of their lines; a last one says how many more there were.
    pub fn into_vec(mut self) -> Vec<Problem> {
        let dropped = self.dropped;
        if dropped > 0 {
            self.kept.push(Problem {
                line: 0,
                text: text!("{dropped} more problems of this kind", "另有 {dropped} 个同类问题"),
            });
        }
        self.kept
    }
}

/// One line without its end.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// From 1.
    pub number: u64,
    /// The text; control characters other than tabs are replaced, colour codes are gone.
    pub text: &'a str,
}

/// Reads lines from any bytes. Input is untrusted.
pub struct Lines<'a> {
    input: Box<dyn BufRead + 'a>,
    compressed: bool,
    number: u64,
    raw: Vec<u8>,
    text: String,
    finished: bool,
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

impl<'a> Lines<'a> {
    /// Reads from `input`, through gzip (also of several members) if it begins like that.
    ///
    /// # Errors
    /// When not even the first bytes can be read.
    pub fn new(input: impl Read + 'a) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let compressed = input.fill_buf()?.starts_with(&GZIP_MAGIC);
        let mut input: Box<dyn BufRead + 'a> = if compressed {
            Box::new(BufReader::with_capacity(64 << 10, MultiGzDecoder::new(input)))
        } else {
            Box::new(input)
        };
        // A damaged gzip head is met again, and reported, by the first line.
        let start = input.fill_buf().unwrap_or_default();
        if start.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
        } else if let Some(high_first) = order(start) {
            input.consume(2);
            input = Box::new(BufReader::with_capacity(64 << 10, Utf16::new(input, high_first)));
        }
        Ok(Self { input, compressed, number: 0, raw: Vec::new(), text: String::new(), finished: false })
    }

    /// Whether the input came through gzip.
    pub fn is_compressed(&self) -> bool {
        self.compressed
    }

    /// The bytes at hand, without taking them: enough to recognise a file by its first bytes.
    pub fn peek(&mut self) -> &[u8] {
        self.input.fill_buf().unwrap_or_default()
    }

    /// Lines handed out so far.
    pub fn count(&self) -> u64 {
        self.number
    }

    /// The next line. What cannot be read ends the input and is noted; a line that is too long is cut and noted.
    pub fn next(&mut self, problems: &mut Problems) -> Option<Line<'_>> {
        if self.finished {
            return None;
        }
        self.raw.clear();
        let mut dropped = 0u64;
        let mut any = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.finished = true;
                    let how = if self.compressed {
                        text!("the gzip stream is damaged", "gzip 流已损坏")
                    } else {
                        text!("cannot read", "无法读取")
                    };
                    problems.end(self.number + 1, text!("{how}: {error}; what stands before is used", "{how}：{error}；此前的内容有效"; how));
                    break;
                }
            };
            if available.is_empty() {
                self.finished = true;
                break;
            }
            any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            let room = MAX_LINE_BYTES - self.raw.len();
            self.raw.extend_from_slice(piece.get(..room).unwrap_or(piece));
            dropped += piece.len().saturating_sub(room) as u64;
            let taken = piece.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return None;
        }
        self.number += 1;
        if dropped > 0 {
            problems.add(
                self.number,
                text!(
                    "the line is {dropped} bytes longer than the limit of {MAX_LINE_BYTES}; it is cut",
                    "该行比 {MAX_LINE_BYTES} 字节的上限长 {dropped} 字节；已截断"
                ),
            );
        }
        if self.raw.last() == Some(&b'\r') {
            self.raw.pop();
        }
        clean(&self.raw, &mut self.text);
        Some(Line { number: self.number, text: &self.text })
    }
}

/// Puts `raw` into `text` without what a terminal would obey: colour codes vanish, other control characters become `�`.
fn clean(raw: &[u8], text: &mut String) {
    text.clear();
    let lossy = String::from_utf8_lossy(raw);
    let harmless = |byte: &u8| (*byte >= 0x20 && *byte < 0x7f) || *byte == b'\t';
    if raw.iter().all(harmless) {
        text.push_str(&lossy);
        return;
    }
    let mut characters = lossy.chars().peekable();
    while let Some(c) = characters.next() {
        if c == '\u{1b}' && characters.peek() == Some(&'[') {
            characters.next();
            while characters.next_if(|c| matches!(c, '0'..='9' | ';' | '?')).is_some() {}
            characters.next_if(char::is_ascii_alphabetic);
        } else if c.is_control() && c != '\t' {
            text.push(char::REPLACEMENT_CHARACTER);
        } else {
            text.push(c);
        }
    }
}

/// A piece of a line for a message: at most 160 characters.
pub(crate) fn excerpt(text: &str) -> String {
    let text = text.trim();
    let mut short: String = text.chars().take(160).collect();
    if short.len() < text.len() {
        let _ = write!(short, "…");
    }
    short
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn all(bytes: &[u8]) -> (Vec<String>, Vec<Problem>) {
        let mut problems = Problems::default();
        let mut lines = Lines::new(bytes).unwrap();
        let mut found = Vec::new();
        while let Some(line) = lines.next(&mut problems) {
            assert_eq!(line.number, found.len() as u64 + 1);
            assert!(line.text.len() <= MAX_LINE_BYTES * 3);
            found.push(line.text.to_owned());
        }
        (found, problems.into_vec())
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lines_end_with_either_line_end_or_the_end_of_the_file() {
        assert_eq!(all(b"a\nb\r\n\nc").0, ["a", "b", "", "c"]);
        assert_eq!(all(b"").0, Vec::<String>::new());
        assert_eq!(all(b"\xef\xbb\xbfa\n").0, ["a"]);
        let wide: Vec<u8> = "\u{feff}a\r\n内存\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(all(&wide).0, ["a", "内存"]);
        assert_eq!(all(&gzip(&wide)).0, ["a", "内存"]);
    }

    #[test]
    fn what_a_terminal_would_obey_is_gone() {
        let (lines, _) = all(b"\x1b[31mred\x1b[0m\tx\x07\xc2\x9b2J \xff\n");
        assert_eq!(lines, ["red\tx\u{fffd}\u{fffd}2J \u{fffd}"]);
    }

    #[test]
    fn a_line_without_end_is_cut_and_said_so() {
        let mut bytes = vec![b'x'; MAX_LINE_BYTES * 3 + 5];
        bytes.extend_from_slice(b"\nnext\n");
        let (lines, problems) = all(&bytes);
        assert_eq!(lines.first().map(String::len), Some(MAX_LINE_BYTES));
        assert_eq!(lines.get(1).map(String::as_str), Some("next"));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].text.en.contains("524293 bytes longer"), "{problems:?}");
    }

    #[test]
    fn gzip_of_several_members_is_one_text() {
        let mut bytes = gzip(b"a\nb");
        bytes.extend(gzip(b"c\nd\n"));
        assert_eq!(all(&bytes), (vec!["a".to_owned(), "bc".to_owned(), "d".to_owned()], Vec::new()));
    }

    #[test]
    fn a_damaged_gzip_stream_is_read_as_far_as_it_goes() {
        let mut text = String::new();
        for number in 0..20_000 {
            let _ = writeln!(text, "line {number}");
        }
        let whole = gzip(text.as_bytes());
        let (lines, problems) = all(&whole[..whole.len() / 2]);
        assert!(lines.len() > 100, "{}", lines.len());
        assert!(problems[0].text.en.contains("the gzip stream is damaged"), "{problems:?}");
        assert!(problems[0].line as usize >= lines.len());
    }

    #[test]
    fn problems_are_counted_beyond_their_limit() {
        let mut problems = Problems::default();
        for line in 0..1000 {
            problems.add(line, Text::verbatim("x"));
        }
        let problems = problems.into_vec();
        assert_eq!(problems.len(), MAX_PROBLEMS + 1);
        assert_eq!(problems[MAX_PROBLEMS].text.en, "950 more problems of this kind");
        let mut problems = Problems::default();
        for line in 0..1000 {
            problems.add(line, "x".into());
        }
        problems.end(1000, "the end".into());
        assert!(problems.into_vec().iter().any(|problem| problem.text.en == "the end"));
    }
}
