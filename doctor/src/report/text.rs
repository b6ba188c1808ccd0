//! The account as text that fits a terminal.

use std::fmt::Write;

use crate::account::Account;
use crate::heap::Heap;
use crate::language::{Text, text};

use super::format::{bytes, signed, size, unit};
use super::model::{Block, Cell, Judged, Kind, Note, Section, Sections, Table, Tone, Way, more};
use super::terminal::{Layout, fit, plain, table, text_columns, title, wrap};

/// Rows of lists that have no natural end.
const ROWS: usize = 10;

/// The account of one dump as text. What comes from the dump cannot command the terminal.
pub fn text(heap: &Heap, account: &Account, layout: Layout) -> String {
    let model = Sections::of(heap, account, ROWS);
    let mut out = String::new();
    title(&mut out, layout, &plain(&model.path));
    model.head.iter().for_each(|each| note(&mut out, each, layout));
    for section in &model.sections {
        let all_good = |all: &[Judged]| all.iter().all(|each| each.tone == Tone::Good);
        if section.blocks.iter().all(|block| matches!(block, Block::Judged(_, all) if all_good(all))) {
            continue;
        }
        out.push('\n');
        self::section(&mut out, section, layout);
    }
    out
}

/// A section under its title.
pub(crate) fn section(out: &mut String, section: &Section, layout: Layout) {
    let sizes = section.blocks.iter().find_map(|block| match block {
        Block::Table(table) => largest(table),
        _ => None,
    });
    let of = &section.title;
    let of = match sizes.map(|largest| unit(largest).0) {
        Some(unit) => text!("{of}, {unit} a thread", "{of}，每线程 {unit}"; of),
        None => of.clone(),
    };
    title(out, layout, &layout.say(&of));
    for block in &section.blocks {
        match block {
            Block::Note(each) => note(out, each, layout),
            Block::Table(each) => rows(out, each, layout),
            Block::Ways(all, left) => {
                all.iter().for_each(|each| way(out, each, layout));
                rest(out, *left, layout);
            }
            Block::Judged(_, all) => judged(out, all, layout),
            Block::Differ(_, all) => all.iter().for_each(|each| differ(out, each, layout)),
            Block::Details(_) | Block::Chart(_) => {}
        }
    }
}

fn note(out: &mut String, note: &Note, layout: Layout) {
    for row in wrap(&layout.say(&note.text), layout.width.saturating_sub(2).max(20)) {
        let row = match note.tone {
            Tone::Plain => row,
            Tone::Good => layout.good(&row),
            Tone::Warning => layout.warning(&row),
        };
        let _ = writeln!(out, "  {row}");
    }
}

fn rest(out: &mut String, left: u64, layout: Layout) {
    if left > 0 {
        note(out, &Note { tone: Tone::Plain, text: more(left) }, layout);
    }
}

/// The largest of the sizes that share a unit.
fn largest(table: &Table) -> Option<u64> {
    let sizes = table.heads.iter().enumerate().filter(|(_, (kind, _))| *kind == Kind::Sizes);
    let cells = sizes.flat_map(|(column, _)| table.rows.iter().filter_map(move |row| row.get(column)));
    cells.filter_map(|cell| if let Cell::Bytes(bytes) = cell { Some(*bytes) } else { None }).max()
}

/// A table; exact bytes have the readable size beside them.
fn rows(out: &mut String, of: &Table, layout: Layout) {
    let (_, one) = unit(largest(of).unwrap_or(0));
    let heads: Vec<_> = of
        .heads
        .iter()
        .flat_map(|(kind, head)| {
            let head = layout.say(head);
            match kind {
                Kind::Bytes => vec![head, String::new()],
                _ => vec![head],
            }
        })
        .collect();
    let all: Vec<_> = of
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&of.heads).flat_map(|(cell, (kind, _))| match (cell, kind) {
                (Cell::Bytes(value), Kind::Sizes) => vec![format!("{:.2}", *value as f64 / one as f64)],
                (Cell::Bytes(value), Kind::Exact) => vec![bytes(*value)],
                (Cell::Bytes(value), _) => vec![bytes(*value), size(*value)],
                (Cell::Nothing, _) => vec![String::new()],
                (Cell::Text(text), _) => vec![layout.say(text)],
                (Cell::Part(text), _) => vec![format!("  {}", layout.say(text))],
                (Cell::Count(count), _) => vec![bytes(*count)],
                (Cell::Of(part, whole), _) => {
                    let (part, whole) = (bytes(*part), bytes(*whole));
                    vec![layout.say(&text!("{part} of {whole}", "{part}/{whole}"))]
                }
                (Cell::Difference(difference), _) => vec![signed(*difference)],
                (Cell::Share(share), _) => vec![format!("{:.1} %", share * 100.0)],
            });
            cells.collect()
        })
        .collect();
    out.push_str(&table(layout, &heads, &all));
    rest(out, of.more, layout);
}

fn way(out: &mut String, way: &Way, layout: Layout) {
    let name = fit(&plain(&way.name), layout.width.saturating_sub(48).max(20));
    let (exact, readable, count) = (bytes(way.bytes), size(way.bytes), bytes(way.buffers));
    let buffers = if way.buffers == 1 { "buffer" } else { "buffers" };
    let says = text!(
        "{name}: {exact} bytes ({readable}) in {count} {buffers}",
        "{name}：{count} 个缓冲区，{exact} 字节（{readable}）"
    );
    note(out, &Note { tone: Tone::Plain, text: says }, layout);
    let mut line = String::from("     ");
    for (place, step) in way.path.iter().enumerate() {
        let step = fit(&plain(step), layout.width.saturating_sub(10).max(20));
        let arrow = if place == 0 && way.complete { "" } else { "→ " };
        if text_columns(&line) + text_columns(&step) + 3 > layout.width && line.trim() != "" {
            let _ = writeln!(out, "{line}");
            line = String::from("     ");
        }
        let _ = write!(line, " {arrow}{step}");
    }
    if line.trim() != "" {
        let _ = writeln!(out, "{line}");
    }
}

fn differ(out: &mut String, [name, before, after]: &[Text; 3], layout: Layout) {
    let text = text!("{name}: {before} → {after}", "{name}：{before} → {after}"; name, before, after);
    note(out, &Note { tone: Tone::Plain, text }, layout);
}

fn judged(out: &mut String, all: &[Judged], layout: Layout) {
    let words = all.iter().map(|each| text_columns(&layout.say(&each.word)));
    let width = words.max().unwrap_or(0).max(8);
    for Judged { tone, word, what, why } in all {
        let word = layout.say(word);
        let space = " ".repeat(width.saturating_sub(text_columns(&word)));
        let word = match tone {
            Tone::Good => layout.good(&word),
            Tone::Warning => layout.warning(&word),
            Tone::Plain => word,
        };
        let room = layout.width.saturating_sub(width + 4).max(20);
        let mut start = format!("  {word}{space}  ");
        for text in [what, why] {
            for row in wrap(&layout.say(text), room).iter().filter(|row| !row.is_empty()) {
                let _ = writeln!(out, "{start}{row}");
                start = " ".repeat(width + 4);
            }
        }
    }
}
