//! Lines of text for people, or one JSON object a line for programs; the same facts in both.
//!
//! Invariant: nothing that comes from a file reaches the terminal as a control character.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use super::{Options, Totals};

/// One value of a line.
#[derive(Clone, Debug)]
pub(super) enum Field<'a> {
    Number(i64),
    Hex(u32),
    Flag(bool),
    /// Words of ours, or text whose control characters are escaped when it is printed.
    Text(String),
    /// Bytes of a key or value: text where they are, else hexadecimal; cut at the width.
    Bytes(Option<&'a [u8]>),
}

use Field::{Bytes, Flag, Hex, Number, Text};

/// Writes lines and counts what is damaged.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    json: bool,
    quiet: bool,
    width: usize,
    path: String,
    damages_before: u64,
    totals: Totals,
}

impl<'a> Printer<'a> {
    pub(super) fn new(out: &'a mut dyn Write, options: &Options) -> Self {
        Printer {
            out,
            json: options.json,
            quiet: options.quiet,
            width: options.width,
            path: String::new(),
            damages_before: 0,
            totals: Totals::default(),
        }
    }

    /// Begins a file.
    pub(super) fn begin(&mut self, path: &Path, kind: &'static str) -> io::Result<()> {
        self.path = path.display().to_string();
        self.totals.files += 1;
        self.damages_before = self.totals.damages;
        if self.json {
            self.json_line("file", &[("kind", Text(kind.into()))])
        } else {
            writeln!(self.out, "{} ({kind})", escaped(&self.path))
        }
    }

    /// One thing in the file, `depth` levels below its heading.
    pub(super) fn item(
        &mut self,
        kind: &'static str,
        depth: usize,
        fields: &[(&'static str, Field<'_>)],
    ) -> io::Result<()> {
        if self.quiet { Ok(()) } else { self.line(kind, depth, fields) }
    }

    /// A place that is damaged: where it is, and how many bytes lie behind it.
    pub(super) fn damage(&mut self, position: u64, bytes_after: u64, reason: &str) -> io::Result<()> {
        self.totals.damages += 1;
        let fields = [
            ("position", Number(position as i64)),
            ("bytes_after", Number(bytes_after as i64)),
            ("reason", Text(reason.into())),
        ];
        if self.json {
            self.json_line("damage", &fields)
        } else {
            let behind = match bytes_after {
                0 => String::new(),
                1 => " (1 byte after it)".to_string(),
                _ => format!(" ({bytes_after} bytes after it)"),
            };
            writeln!(self.out, "  DAMAGED at byte {position}: {}{behind}", escaped(reason))
        }
    }

    /// A file or directory of which nothing can be shown; counts as damage.
    pub(super) fn unreadable(&mut self, reason: &str) -> io::Result<()> {
        self.totals.damages += 1;
        if self.json {
            self.json_line("damage", &[("reason", Text(reason.into()))])
        } else {
            writeln!(self.out, "  NOT READ: {}", escaped(reason))
        }
    }

    /// The sums of a file.
    pub(super) fn end(&mut self, fields: &[(&'static str, Field<'_>)]) -> io::Result<()> {
        let damages = self.totals.damages - self.damages_before;
        let mut all = fields.to_vec();
        all.push(("damages", Number(damages as i64)));
        self.line("sum", 1, &all)
    }

    /// Ends the output.
    pub(super) fn totals(self) -> io::Result<Totals> {
        self.out.flush()?;
        Ok(self.totals)
    }

    fn line(
        &mut self,
        kind: &'static str,
        depth: usize,
        fields: &[(&'static str, Field<'_>)],
    ) -> io::Result<()> {
        if self.json {
            return self.json_line(kind, fields);
        }
        let mut text = "  ".repeat(depth);
        text.push_str(kind);
        for (name, field) in fields {
            match field {
                Number(number) => _ = write!(text, " {name}: {number}"),
                Hex(number) => _ = write!(text, " {name}: {number:08x}"),
                Flag(true) => _ = write!(text, " {name}"),
                Flag(false) => {}
                Text(value) => _ = write!(text, " {name}: {}", escaped(value)),
                Bytes(None) => _ = write!(text, " {name}: null"),
                Bytes(Some(bytes)) => {
                    let (shown, cut) = self.shown(bytes);
                    match readable(shown, cut) {
                        Some(words) => {
                            _ = write!(text, " {name}: \"{}\"", escaped(words).replace('"', "\\\""));
                        }
                        None => _ = write!(text, " {name}: 0x{}", hexadecimal(shown)),
                    }
                    if cut {
                        _ = write!(text, "… ({} bytes)", bytes.len());
                    }
                }
            }
        }
        writeln!(self.out, "{text}")
    }

    fn json_line(&mut self, kind: &'static str, fields: &[(&'static str, Field<'_>)]) -> io::Result<()> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = format!("{{\"file\":{},\"type\":\"{kind}\"", quoted(&self.path));
        for (name, field) in fields {
            match field {
                Number(number) => _ = write!(text, ",\"{name}\":{number}"),
                Hex(number) => _ = write!(text, ",\"{name}\":\"{number:08x}\""),
                Flag(flag) => _ = write!(text, ",\"{name}\":{flag}"),
                Text(value) => _ = write!(text, ",\"{name}\":{}", quoted(value)),
                Bytes(None) => _ = write!(text, ",\"{name}\":null"),
                Bytes(Some(bytes)) => {
                    let (shown, cut) = self.shown(bytes);
                    match readable(shown, cut) {
                        Some(words) => _ = write!(text, ",\"{name}\":{}", quoted(words)),
                        None => _ = write!(text, ",\"{name}_hex\":\"{}\"", hexadecimal(shown)),
                    }
                    _ = write!(text, ",\"{name}_bytes\":{}", bytes.len());
                }
            }
        }
        text.push('}');
        writeln!(self.out, "{text}")
    }

    fn shown<'b>(&self, bytes: &'b [u8]) -> (&'b [u8], bool) {
        match bytes.get(..self.width).filter(|_| self.width > 0) {
            Some(start) if start.len() < bytes.len() => (start, true),
            _ => (bytes, false),
        }
    }
}

/// The text of `bytes` if people can read it; where it was cut, an unfinished character at the end is left out.
fn readable(bytes: &[u8], cut: bool) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')).then_some(text)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    text
}

/// Escapes what a terminal would obey: control characters and those that change the direction of text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_dump::RecordsAs;

    fn line(json: bool, bytes: Option<&[u8]>) -> String {
        let options = Options { json, deep: true, quiet: false, width: 8, records_as: RecordsAs::Auto };
        let mut out = Vec::new();
        Printer::new(&mut out, &options).item("record", 1, &[("key", Bytes(bytes))]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_are_text_where_they_can_be_and_never_reach_a_terminal_raw() {
        assert_eq!(line(false, Some(b"plain")), "  record key: \"plain\"\n");
        assert_eq!(line(false, Some(b"a\nb")), "  record key: \"a\\nb\"\n");
        assert_eq!(line(false, Some(b"\x1b[2J")), "  record key: 0x1b5b324a\n");
        assert_eq!(line(false, Some("\u{202e}abc".as_bytes())), "  record key: \"\\u{202e}abc\"\n");
        assert_eq!(line(false, None), "  record key: null\n");
        assert_eq!(line(false, Some(b"0123456789")), "  record key: \"01234567\"… (10 bytes)\n");
        assert_eq!(line(false, Some("1234567ü".as_bytes())), "  record key: \"1234567\"… (9 bytes)\n");
    }

    #[test]
    fn json_tells_text_from_other_bytes_by_the_name() {
        let parsed = |bytes| serde_json::from_str::<serde_json::Value>(&line(true, Some(bytes))).unwrap();
        assert_eq!(parsed(b"a\"b")["key"], "a\"b");
        assert_eq!(parsed(b"\xff\x00")["key_hex"], "ff00");
        let cut = parsed(b"0123456789");
        assert_eq!((&cut["key"], &cut["key_bytes"]), (&"01234567".into(), &10.into()));
    }
}
