//! The account as text that fits a terminal.

use std::fmt::Write;

use crate::account::{Account, Holds};
use crate::heap::Heap;
use crate::language::{Text, text};

use super::format::{bytes, signed, size, unit};
use super::model::{Block, Cell, Kind, Note, Sections, Table, Tone, Way, holds, more};
use super::terminal::{Layout, fit, plain, table, text_columns, wrap};

/// Rows of lists that have no natural end.
const ROWS: usize = 10;

/// The account of one dump as text. What comes from the dump cannot command the terminal.
pub fn text(heap: &Heap, account: &Account, layout: Layout) -> String {
    let model = Sections::of(heap, account, ROWS);
    let mut out = format!("{}\n", layout.title(&plain(&model.path)));
    model.head.iter().for_each(|each| note(&mut out, each, layout));
    for section in &model.sections {
        let conclusive = |block: &Block| matches!(block, Block::Proofs(proofs) if proofs.iter().all(|(holds, ..)| *holds == Holds::Yes));
        if section.blocks.iter().all(conclusive) {
            continue;
        }
        let sizes = section.blocks.iter().find_map(|block| match block {
            Block::Table(table) => largest(table),
            _ => None,
        });
        let title = layout.say(&section.title);
        let title = match sizes.map(|largest| unit(largest).0) {
            Some(unit) => layout.say(&text!("{title}, {unit} a thread", "{title}，每线程 {unit}")),
            None => title,
        };
        let _ = writeln!(out, "\n{}", layout.title(&title));
        for block in &section.blocks {
            match block {
                Block::Note(each) => note(&mut out, each, layout),
                Block::Table(each) => rows(&mut out, each, layout),
                Block::Ways(all, left) => {
                    all.iter().for_each(|each| way(&mut out, each, layout));
                    rest(&mut out, *left, layout);
                }
                Block::Proofs(all) => proofs(&mut out, all, layout),
                Block::Details(_) | Block::Chart(_) => {}
            }
        }
    }
    out
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
        let _ = writeln!(out, "  {}", layout.say(&more(left)));
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
                (Cell::Bytes(value), _) => vec![bytes(*value), size(*value)],
                (Cell::Nothing, _) => vec![String::new()],
                (Cell::Text(text), _) => vec![layout.say(text)],
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
    let _ = writeln!(out, "  {}", layout.say(&says));
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

fn proofs(out: &mut String, proofs: &[(Holds, Text, Text)], layout: Layout) {
    for (holding, what, why) in proofs {
        let word = layout.say(&holds(*holding));
        let word = format!("{word}{}", " ".repeat(8_usize.saturating_sub(text_columns(&word))));
        let mark = match holding {
            Holds::Yes => layout.good(&word),
            Holds::AtLeast | Holds::No => layout.warning(&word),
        };
        let _ = writeln!(out, "  {mark}  {}", layout.say(what));
        for row in wrap(&layout.say(why), layout.width.saturating_sub(12).max(20)) {
            let _ = writeln!(out, "            {row}");
        }
    }
}
