//! Text that fits a terminal: columns of characters, rows that break, tables. Invariant: nothing that comes from evidence
//! commands the terminal, see [`plain`].

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::language::{Language, Text};

/// How a text is written.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether colour is understood.
    pub colour: bool,
    /// The language.
    pub language: Language,
}

impl Default for Layout {
    fn default() -> Self {
        Self { width: 100, colour: false, language: Language::English }
    }
}

impl Layout {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub(super) fn title(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// A text in the language, without anything that a terminal would obey.
    pub(super) fn say(self, text: &Text) -> String {
        plain(text.get(self.language))
    }
}

/// Whether a character does something instead of being seen: control characters, those that change the direction of the
/// text around them, and those that look like nothing.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Without anything that a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Columns of a text: Chinese characters take two.
pub(crate) fn text_columns(text: &str) -> usize {
    text.width()
}

/// Columns of a character.
pub(crate) fn columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Text of at most `width` columns: a longer one loses its middle.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text_columns(text) <= width {
        return text.to_string();
    }
    let take = |chars: &mut dyn Iterator<Item = char>, room: usize| -> Vec<char> {
        let mut used = 0;
        chars.take_while(|c| (used + columns(*c) <= room).then(|| used += columns(*c)).is_some()).collect()
    };
    if width < 8 {
        return take(&mut text.chars(), width).into_iter().collect();
    }
    let head = (width - 1) / 3;
    let mut tail = take(&mut text.chars().rev(), width - 1 - head);
    tail.reverse();
    take(&mut text.chars(), head).into_iter().chain(['…']).chain(tail).collect()
}

/// Rows of at most `width` columns, broken at blanks and between Chinese characters; what is longer is broken anywhere.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    for c in text.chars() {
        if c == ' ' || columns(c) == 2 {
            if !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece));
            }
            pieces.push(c.to_string());
        } else {
            piece.push(c);
        }
    }
    pieces.push(piece);
    let mut rows: Vec<String> = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for piece in pieces {
        if used + text_columns(&piece) > width && used > 0 {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            used = 0;
        }
        if used == 0 && piece == " " {
            continue;
        }
        for c in piece.chars() {
            if used + columns(c) > width {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(c);
            used += columns(c);
        }
    }
    rows.push(row.trim_end().to_owned());
    rows
}

/// Rows under heads: the first column to the left, the others to the right. Where the terminal is too narrow for the first
/// column, it has a line of its own.
pub(super) fn table(layout: Layout, heads: &[String], rows: &[Vec<String>]) -> String {
    let longest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| text_columns(cell));
        cells.chain([heads.get(column).map_or(0, |head| text_columns(head))]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..heads.len()).map(longest).collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    let room = layout.width.saturating_sub(others + 2);
    let apart = widths.first().is_some_and(|first| *first > room) && room < 24;
    if let Some(first) = widths.first_mut() {
        *first = if apart { 0 } else { (*first).min(room) };
    }
    let mut text = String::new();
    let mut line = |cells: &[String], painted: bool| {
        let mut out = String::from("  ");
        for (column, width) in widths.iter().enumerate() {
            let cell = cells.get(column).map_or("", String::as_str);
            if apart && column == 0 && !cell.is_empty() {
                text.push_str(&format!("  {}\n", fit(cell, layout.width.saturating_sub(2).max(20))));
            }
            let cell = if column == 0 { fit(cell, *width) } else { cell.to_string() };
            let space = " ".repeat(width.saturating_sub(text_columns(&cell)));
            match column {
                0 => out.extend([cell, space]),
                _ => out.extend(["  ".into(), space, cell]),
            }
        }
        let out = out.trim_end();
        text.push_str(&if painted { layout.title(out) } else { out.to_string() });
        text.push('\n');
    };
    if heads.iter().any(|head| !head.is_empty()) {
        line(heads, true);
    }
    rows.iter().for_each(|row| line(row, false));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_its_terminal() {
        for name in [
            "a-very-long-name-of-a-thread-that-fills-a-line-twice-over",
            "一个非常长的线程名，足以占满一整行并且还要多出不少",
        ] {
            let rows = vec![vec![name.into(), "1,234".into()], vec!["x".into(), "5".into()]];
            for width in [0, 20, 40, 80] {
                let layout = Layout { width, ..Layout::default() };
                let text = table(layout, &["线程".into(), "bytes".into()], &rows);
                let longest = text.lines().map(text_columns).max().unwrap();
                assert!(longest <= width.max(24), "{text}");
                assert!(text.contains("1,234"));
            }
        }
    }

    #[test]
    fn figures_stand_under_each_other_whatever_the_script() {
        let rows = [["线程", "1"], ["ab", "22"]].map(|row| row.map(String::from).to_vec());
        let text = table(Layout::default(), &["".into(), "".into()], &rows);
        let ends: Vec<_> = text.lines().map(text_columns).collect();
        assert_eq!(ends, [10, 10], "{text}");
    }

    #[test]
    fn a_text_that_is_too_long_loses_its_middle() {
        assert_eq!(fit("abcdefghijkl", 9), "ab…ghijkl");
        for width in 0..30 {
            assert!(text_columns(&fit("网络线程 PLAINTEXT 与更多的文字", width)) <= width);
        }
    }

    #[test]
    fn what_changes_the_direction_of_text_is_seen() {
        assert_eq!(plain("a\u{202e}b\u{1b}c\u{200b}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        // Soft hyphens, fillers and tags look like nothing, and names with them like others.
        assert_eq!(plain("a\u{ad}b\u{3164}c\u{e0041}d"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
        assert_eq!(plain("שלום 网络"), "שלום 网络");
    }
}
