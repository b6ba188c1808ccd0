//! The comparison as sections, for a terminal and for a page: before, after, and the change with its sign.

use super::{Comparison, Fate, Group, Holder, Pair};
use crate::findings::{Layout, exact, human};
use crate::language::{Text, text};
use crate::report::model::{Block, Cell, Chart, Judged, Kind, Note, Section, Table, Tone, label};
use crate::report::{section, signed, title};

/// Rows of lists that have no natural end, on a terminal.
const ROWS: usize = 12;
/// A bar that is a smaller part of the longest one cannot be seen; the table has its numbers.
const LEAST_SHARE: u64 = 1_000;

/// What changed, as text.
pub fn text(comparison: &Comparison, layout: Layout) -> String {
    let mut out = String::new();
    if let Some(headline) = headline(comparison) {
        title(&mut out, layout, &layout.say(&headline));
        out.push('\n');
    }
    for (index, each) in sections(comparison, ROWS).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        section(&mut out, each, layout);
    }
    out
}

/// One sentence for those who read no more.
pub(crate) fn headline(comparison: &Comparison) -> Option<Text> {
    let figure = comparison.figures.iter().find(|figure| figure.id == "direct_bytes")?;
    let Pair { before, after } = figure.pair;
    let (change, size) = (signed(figure.pair.change()), human(before.abs_diff(after)));
    let sign = if after < before { "-" } else { "+" };
    let (from, to) = (exact(before), exact(after));
    Some(match before == after {
        true => text!("Direct memory stayed at {to} bytes.", "直接内存没有变化，仍为 {to} 字节。"),
        false => text!(
            "Direct memory went from {from} to {to} bytes: {change} ({sign}{size}).",
            "直接内存由 {from} 变为 {to} 字节：{change}（{sign}{size}）。"
        ),
    })
}

/// All of it, with at most so many rows of lists that have no natural end.
pub(crate) fn sections(comparison: &Comparison, rows: usize) -> Vec<Section> {
    let kinds = comparison.kinds.iter();
    let kinds = kinds.map(|kind| row(Cell::Text(label(kind.class, kind.books)), kind.bytes, true)).collect();
    let threads = comparison.threads.iter().map(|thread| (thread.name.as_str(), thread.bytes()));
    let holders = |holders: &'_ [Holder]| -> Vec<(String, Pair)> {
        holders.iter().map(|holder| (holder.name.clone(), holder.bytes)).collect()
    };
    let sections = [
        whole("figures", text!("Figures", "指标"), figures(comparison)),
        groups(comparison),
        whole("kinds", text!("Bytes by kind", "各类别的字节数"), kinds),
        changed(
            "threads-bytes",
            text!("Bytes by thread", "各线程的字节数"),
            threads.map(|(name, pair)| (name.to_owned(), pair)).collect(),
            rows,
        ),
        changed(
            "owners",
            text!("Bytes held by objects", "由对象持有的字节数"),
            holders(&comparison.owners),
            rows,
        ),
        changed(
            "files",
            text!("Mapped files, bytes", "映射文件的字节数"),
            holders(&comparison.mapped_files),
            rows,
        ),
        Some(settings(comparison)),
        findings(comparison),
        gaps(comparison),
    ];
    sections.into_iter().flatten().collect()
}

/// A name, and both numbers with what is between them.
fn row(name: Cell, pair: Pair, are_bytes: bool) -> Vec<Cell> {
    let number = |value| if are_bytes { Cell::Bytes(value) } else { Cell::Count(value) };
    vec![name, number(pair.before), number(pair.after), Cell::Difference(pair.change())]
}

fn table(rows: Vec<Vec<Cell>>, more: u64) -> Block {
    let heads = vec![
        (Kind::Words, Text::verbatim("")),
        (Kind::Exact, text!("before", "之前")),
        (Kind::Exact, text!("after", "之后")),
        (Kind::Exact, text!("change", "变化")),
    ];
    Block::Table(Table { heads, rows, more })
}

/// A table of which all rows count.
fn whole(id: &'static str, title: Text, rows: Vec<Vec<Cell>>) -> Option<Section> {
    (!rows.is_empty()).then(|| Section { id, title, blocks: vec![table(rows, 0)] })
}

/// A table of the largest changes.
fn changed(id: &'static str, title: Text, all: Vec<(String, Pair)>, rows: usize) -> Option<Section> {
    if all.is_empty() {
        return None;
    }
    let changed: Vec<_> = all.iter().filter(|(_, pair)| pair.change() != 0).collect();
    let name = |name: &str| Cell::Text(Text::verbatim(name));
    let shown: Vec<_> = changed.iter().take(rows).map(|(of, pair)| row(name(of), *pair, true)).collect();
    let mut blocks = Vec::new();
    if !shown.is_empty() {
        let left = changed.len().saturating_sub(shown.len()) as u64;
        blocks.push(table(shown, left));
    }
    let same = all.len() - changed.len();
    if same > 0 {
        let same = exact(same as u64);
        blocks.push(plain(text!("{same} unchanged", "{same} 项未变")));
    }
    Some(Section { id, title, blocks })
}

fn plain(text: Text) -> Block {
    Block::Note(Note { tone: Tone::Plain, text })
}

fn figures(comparison: &Comparison) -> Vec<Vec<Cell>> {
    let figures = comparison.figures.iter();
    figures
        .map(|figure| row(Cell::Text(figure.label.clone()), figure.pair, figure.id.ends_with("_bytes")))
        .collect()
}

fn groups(comparison: &Comparison) -> Option<Section> {
    let has_bytes = |group: &&Group| group.sum_bytes != Pair::default();
    let longer = |group: &Group| group.sum_bytes.before.max(group.sum_bytes.after);
    let longest = comparison.groups.iter().map(longer).max().unwrap_or(0);
    let drawn: Vec<_> = comparison
        .groups
        .iter()
        .filter(|group| longer(group) > longest / LEAST_SHARE)
        .take(ROWS)
        .map(|group| (group.label.clone(), group.sum_bytes.before, group.sum_bytes.after))
        .collect();
    let mut rows = Vec::new();
    for group in &comparison.groups {
        let parts = [
            (text!("largest thread", "最大的线程"), group.max_bytes, true),
            (text!("buffers", "缓冲区"), group.buffers, false),
            (text!("threads with bytes", "占用内存的线程"), group.threads_with_bytes, false),
            (text!("threads", "线程数"), group.threads, false),
        ];
        let mut changed = parts.into_iter().filter(|(_, pair, _)| pair.change() != 0).peekable();
        if !has_bytes(&group) && changed.peek().is_none() {
            continue;
        }
        rows.push(row(Cell::Text(group.label.clone()), group.sum_bytes, true));
        rows.extend(changed.map(|(name, pair, are_bytes)| row(Cell::Part(name), pair, are_bytes)));
    }
    let mut blocks = Vec::new();
    if !drawn.is_empty() {
        blocks.push(Block::Chart(Chart::Pairs(drawn)));
    }
    let title = text!("Bytes by the work of threads", "各类线程的字节数");
    (!rows.is_empty()).then(|| {
        blocks.push(table(rows, 0));
        Section { id: "groups", title, blocks }
    })
}

fn settings(comparison: &Comparison) -> Section {
    let value = |value: &Option<String>| match value {
        Some(value) => Text::verbatim(value.as_str()),
        None => text!("(not set)", "（未设置）"),
    };
    let differ: Vec<_> = comparison
        .settings
        .iter()
        .map(|setting| [Text::verbatim(setting.name.as_str()), value(&setting.before), value(&setting.after)])
        .collect();
    let heads = [text!("setting", "设置"), text!("before", "之前"), text!("after", "之后")];
    let block = match differ.is_empty() {
        true => plain(text!("No setting differs.", "没有不同的设置。")),
        false => Block::Differ(heads, differ),
    };
    Section { id: "settings", title: text!("Settings that differ", "不同的设置"), blocks: vec![block] }
}

fn findings(comparison: &Comparison) -> Option<Section> {
    let judged = comparison.findings.iter().filter_map(|change| {
        let (tone, word) = match change.fate {
            Fate::New => (Tone::Warning, text!("new", "新出现")),
            Fate::Remains => (Tone::Warning, text!("remains", "仍存在")),
            Fate::Unknown => (Tone::Plain, text!("not known", "无法判断")),
            Fate::Gone => (Tone::Good, text!("gone", "已消失")),
        };
        let (severity, title) = change.after.as_ref().or(change.before.as_ref())?;
        let (severity, id) = (severity.label(), change.id);
        let what = text!("{title} [{id}, {severity}]", "{title} [{id}，{severity}]"; title, severity);
        Some(Judged { tone, word, what, why: Text::verbatim("") })
    });
    let judged: Vec<_> = judged.collect();
    let heads = [text!("finding", "结论"), text!("now", "现状"), Text::verbatim("")];
    let title = text!("Findings", "诊断结论");
    (!judged.is_empty()).then(|| Section {
        id: "findings",
        title,
        blocks: vec![Block::Judged(heads, judged)],
    })
}

fn gaps(comparison: &Comparison) -> Option<Section> {
    let gaps = comparison.gaps.iter().map(|gap| {
        let (what, why) = (&gap.what, &gap.why);
        plain(text!("{what}: {why}", "{what}：{why}"; what, why))
    });
    let blocks: Vec<_> = gaps.collect();
    let title = text!("Not compared", "无法比较");
    (!blocks.is_empty()).then_some(Section { id: "gaps", title, blocks })
}
