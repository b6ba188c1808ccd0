//! Java's `.properties` syntax, line by line: comments, continued lines, escapes. A damaged line costs itself only.

use super::lines::{Line, Problems};
use crate::language::text;

/// One `name = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Where it begins.
    pub(crate) line: u64,
}

/// Takes lines and gives entries.
#[derive(Debug, Default)]
pub(crate) struct PropertiesText {
    pending: String,
    pending_line: u64,
}

/// Longest logical line, put together from continued ones.
const MAX_LOGICAL_BYTES: usize = 1 << 20;

/// Room for properties that are kept: so many, and so many bytes of names and values together.
#[derive(Debug)]
pub(crate) struct Room {
    entries: usize,
    bytes: usize,
    said: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self { entries: 8192, bytes: 8 << 20, said: false }
    }
}

impl Room {
    /// Takes room for a property, or says once that there is none left.
    pub(crate) fn take(&mut self, name: &str, value: &str, line: u64, problems: &mut Problems) -> bool {
        let size = name.len() + value.len();
        if self.entries == 0 || self.bytes < size {
            if !std::mem::replace(&mut self.said, true) {
                problems.add(
                    line,
                    text!(
                        "too many properties, or too large ones; this one and some after it are left out",
                        "配置项过多或过大；略去此项及其后的若干项"
                    ),
                );
            }
            return false;
        }
        self.entries -= 1;
        self.bytes -= size;
        true
    }
}

impl PropertiesText {
    /// Takes a line; gives the entry that ends with it.
    pub(crate) fn line(&mut self, line: Line<'_>, problems: &mut Problems) -> Option<Entry> {
        let text = line.text.trim_start_matches([' ', '\t']);
        if self.pending_line == 0 {
            if text.is_empty() || text.starts_with(['#', '!']) {
                return None;
            }
            self.pending_line = line.number;
        }
        let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        let continued = backslashes % 2 == 1;
        let piece = if continued { text.get(..text.len() - 1).unwrap_or_default() } else { text };
        if self.pending.len() + piece.len() <= MAX_LOGICAL_BYTES {
            self.pending.push_str(piece);
        } else {
            problems.add(
                line.number,
                text!(
                    "a continued line is longer than {MAX_LOGICAL_BYTES} bytes; it is cut",
                    "续行超过 {MAX_LOGICAL_BYTES} 字节；已截断"
                ),
            );
        }
        if continued { None } else { self.finish(problems) }
    }

    /// Gives the entry that the last line left open.
    pub(crate) fn finish(&mut self, problems: &mut Problems) -> Option<Entry> {
        if self.pending_line == 0 {
            return None;
        }
        let line = std::mem::take(&mut self.pending_line);
        let text = std::mem::take(&mut self.pending);
        let (name, value) = split(&text);
        match (unescape(name), unescape(value)) {
            (Ok(name), Ok(value)) => Some(Entry { name, value, line }),
            (Err(escape), _) | (_, Err(escape)) => {
                problems.add(
                    line,
                    text!(
                        "{escape} is no escape of a properties file; the line is left out",
                        "{escape} 不是 properties 文件的转义；略去该行"
                    ),
                );
                None
            }
        }
    }
}

/// Cuts at the first unescaped `=`, `:` or blank.
fn split(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '=' | ':' | ' ' | '\t') {
            let (name, rest) = text.split_at(index);
            let rest = rest.trim_start_matches([' ', '\t']);
            let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
            return (name, rest.trim_start_matches([' ', '\t']));
        }
    }
    (text, "")
}

/// Resolves escapes; the error is the bad one.
fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                match code {
                    Some(code) => plain.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
                    None => return Err(format!("\\u{digits}")),
                }
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    // Values are shown to people: nothing that a terminal obeys, however it was written.
    Ok(plain.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> (Vec<(String, String, u64)>, usize) {
        let mut parser = PropertiesText::default();
        let mut problems = Problems::default();
        let mut found: Vec<Entry> = Vec::new();
        for (index, text) in text.lines().enumerate() {
            found.extend(parser.line(Line { number: index as u64 + 1, text }, &mut problems));
        }
        found.extend(parser.finish(&mut problems));
        let found = found.into_iter().map(|entry| (entry.name, entry.value, entry.line)).collect();
        (found, problems.into_vec().len())
    }

    #[test]
    fn the_syntax_is_javas() {
        let text = "# c\n! c\n\nlisteners = A://:1,\\\n   B://:2\na:b\nc d e\npath.separator=\\:\nempty\nu=\\u00e9\\\\\n";
        let (found, problems) = entries(text);
        let wanted = [
            ("listeners", "A://:1,B://:2", 4),
            ("a", "b", 6),
            ("c", "d e", 7),
            ("path.separator", ":", 8),
            ("empty", "", 9),
            ("u", "\u{e9}\\", 10),
        ];
        assert_eq!(found, wanted.map(|(name, value, line)| (name.to_owned(), value.to_owned(), line)));
        assert_eq!(problems, 0);
    }

    #[test]
    fn properties_have_a_bounded_room() {
        let mut room = Room::default();
        let mut problems = Problems::default();
        let value = "x".repeat(1 << 20);
        let kept = (0..100_000).filter(|line| room.take("name", &value, *line, &mut problems)).count();
        assert_eq!(kept, 7);
        let mut room = Room::default();
        assert_eq!((0..100_000).filter(|line| room.take("n", "", *line, &mut problems)).count(), 8192);
        assert_eq!(problems.into_vec().len(), 2);
    }

    #[test]
    fn a_damaged_escape_costs_its_line_only() {
        let (found, problems) = entries("a=\\u12\nb=1\nc=2\\");
        assert_eq!(found.len(), 2);
        assert_eq!(problems, 1);
    }
}
