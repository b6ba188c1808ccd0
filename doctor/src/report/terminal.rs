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

    pub(crate) fn title(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// A text in the language, without anything that a terminal would obey.
    pub(crate) fn say(self, text: &Text) -> String {
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

/// What no row begins with.
fn closes(c: char) -> bool {
    "，。；：、？！）】》」』”’…％)]}".contains(c)
}

/// What no row ends with.
fn opens(c: char) -> bool {
    "（【《「『“‘([{".contains(c)
}

/// The parts of a text between which a row may end: words, blanks, and Chinese characters with their punctuation.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    // Whether the last piece takes no more.
    let mut ended = true;
    for c in text.chars() {
        let wide = columns(c) == 2;
        let last = pieces.last_mut().filter(|last| *last != " " && c != ' ');
        match last {
            Some(last) if !ended && !wide || closes(c) || last.ends_with(opens) => last.push(c),
            _ => pieces.push(c.to_string()),
        }
        ended = c == ' ' || wide && !opens(c);
    }
    pieces
}

/// Rows of at most `width` columns, broken at blanks and between Chinese characters; what is longer is broken anywhere.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let pieces = pieces(text);
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

/// A line of bold text that may take several rows.
pub(crate) fn title(out: &mut String, layout: Layout, text: &str) {
    for row in wrap(text, layout.width.max(20)) {
        out.push_str(&layout.title(&row));
        out.push('\n');
    }
}

/// Rows under heads: the first column to the left, the others to the right. Where the terminal is too narrow for the first
/// column, it has a line of its own; where it is too narrow for the others, each figure has its head beside it.
pub(crate) fn table(layout: Layout, heads: &[String], rows: &[Vec<String>]) -> String {
    let longest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| text_columns(cell));
        cells.chain([heads.get(column).map_or(0, |head| text_columns(head))]).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..heads.len()).map(longest).collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    if others + 2 > layout.width {
        return list(layout, heads, rows);
    }
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

/// The rows of a table that is too wide, one below the other.
fn list(layout: Layout, heads: &[String], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        let mut figures = String::new();
        for (head, cell) in heads.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            // What has no head says the same as what stands before it in another way.
            let between = if figures.is_empty() {
                ""
            } else if head.is_empty() {
                " = "
            } else {
                ", "
            };
            let head = if head.is_empty() { String::new() } else { format!("{head} ") };
            figures.push_str(&format!("{between}{head}{cell}"));
        }
        for (indent, text_of_row) in [(2, row.first().map_or("", String::as_str)), (4, figures.as_str())] {
            for line in wrap(text_of_row, layout.width.saturating_sub(indent).max(20)) {
                text.push_str(&format!("{:indent$}{line}\n", ""));
            }
        }
    }
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
    fn a_table_that_is_too_wide_is_a_list() {
        let heads = ["", "bytes", "", "buffers"].map(String::from);
        let rows = vec![["kept by threads", "83,928,872", "80.04 MiB", "13"].map(String::from).to_vec()];
        let text = table(Layout { width: 30, ..Layout::default() }, &heads, &rows);
        assert_eq!(text, "  kept by threads\n    bytes 83,928,872 = 80.04\n    MiB, buffers 13\n");
    }

    #[test]
    fn no_row_begins_with_what_closes_or_ends_with_what_opens() {
        let text =
            "线程从不归还缓冲区，因此水位不会自行下降。请求（需要重启）被“拒绝”；见 a.log (第 3 行)、b。";
        for width in 8..60 {
            let rows = wrap(text, width);
            assert_eq!(rows.concat().replace(' ', ""), text.replace(' ', ""));
            for row in &rows {
                assert!(
                    text_columns(row) <= width && !row.starts_with(closes) && !row.ends_with(opens),
                    "{rows:#?}"
                );
            }
        }
        assert_eq!(pieces("水位 x（a b）。y"), ["水", "位", " ", "x", "（a", " ", "b）。", "y"]);
        assert_eq!(wrap("a b", 1), ["a", "b"]);
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
