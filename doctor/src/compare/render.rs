//! The comparison as text that fits a terminal: before, after, and the change with its sign.

use std::fmt::Write as _;

use super::{Comparison, Fate, Pair};
use crate::account::Class;
use crate::findings::{Language, Layout, columns, human, labelled_in, plain};
use crate::heap::Books;
use crate::report::{bytes, signed};

/// Rows of lists that have no natural end.
const ROWS: usize = 12;
/// Widest first column.
const MAX_NAME: usize = 60;

struct Words {
    before: &'static str,
    after: &'static str,
    change: &'static str,
    figures: &'static str,
    groups: &'static str,
    largest: &'static str,
    buffers: &'static str,
    threads: &'static str,
    threads_with_bytes: &'static str,
    kinds: &'static str,
    by_thread: &'static str,
    owners: &'static str,
    files: &'static str,
    settings: &'static str,
    not_set: &'static str,
    findings: &'static str,
    gaps: &'static str,
    more: &'static str,
    unchanged: &'static str,
    same_settings: &'static str,
}

fn words(language: Language) -> Words {
    match language {
        Language::English => Words {
            before: "before",
            after: "after",
            change: "change",
            figures: "figures",
            groups: "bytes by the work of threads",
            largest: "  largest thread",
            buffers: "  buffers",
            threads: "  threads",
            threads_with_bytes: "  threads with bytes",
            kinds: "bytes by kind",
            by_thread: "bytes by thread",
            owners: "bytes held by objects",
            files: "mapped files, bytes",
            settings: "settings that differ",
            not_set: "(not set)",
            findings: "findings",
            gaps: "not compared",
            more: "more with smaller changes",
            unchanged: "unchanged",
            same_settings: "No setting differs.",
        },
        Language::Chinese => Words {
            before: "之前",
            after: "之后",
            change: "变化",
            figures: "指标",
            groups: "按线程用途的字节数",
            largest: "  最大的线程",
            buffers: "  缓冲区",
            threads: "  线程",
            threads_with_bytes: "  占用内存的线程",
            kinds: "按类别的字节数",
            by_thread: "按线程的字节数",
            owners: "由对象持有的字节数",
            files: "映射文件，字节数",
            settings: "不同的设置",
            not_set: "（未设置）",
            findings: "结论",
            gaps: "无法比较",
            more: "项变化更小",
            unchanged: "项未变",
            same_settings: "没有不同的设置。",
        },
    }
}

fn kind(class: Class, books: Books, language: Language) -> &'static str {
    match (language, class, books) {
        (Language::English, Class::Cached, Books::Direct) => "kept by threads",
        (Language::English, Class::Cached, _) => "kept by threads, in no pool",
        (Language::English, Class::InFlight, Books::Direct) => "in I/O calls",
        (Language::English, Class::InFlight, _) => "in I/O calls, in no pool",
        (Language::English, Class::Held, _) => "held by objects",
        (Language::English, Class::Garbage, _) => "garbage",
        (Language::English, Class::Unknown, _) => "no holder found",
        (Language::English, Class::Mapped, _) => "mapped files",
        (Language::English, Class::Image, _) => "the JDK's own image",
        (Language::English, Class::Foreign, _) => "other native memory",
        (Language::Chinese, Class::Cached, Books::Direct) => "线程保留",
        (Language::Chinese, Class::Cached, _) => "线程保留，不入池",
        (Language::Chinese, Class::InFlight, Books::Direct) => "I/O 调用中",
        (Language::Chinese, Class::InFlight, _) => "I/O 调用中，不入池",
        (Language::Chinese, Class::Held, _) => "由对象持有",
        (Language::Chinese, Class::Garbage, _) => "垃圾",
        (Language::Chinese, Class::Unknown, _) => "未找到持有者",
        (Language::Chinese, Class::Mapped, _) => "映射文件",
        (Language::Chinese, Class::Image, _) => "JDK 自身的映像",
        (Language::Chinese, Class::Foreign, _) => "其他堆外内存",
    }
}

fn fate(fate: Fate, language: Language) -> (&'static str, &'static str) {
    match (language, fate) {
        (Language::English, Fate::New) => ("new", "1;31"),
        (Language::English, Fate::Remains) => ("remains", "1;33"),
        (Language::English, Fate::Unknown) => ("not known", "1;36"),
        (Language::English, Fate::Gone) => ("gone", "32"),
        (Language::Chinese, Fate::New) => ("新出现", "1;31"),
        (Language::Chinese, Fate::Remains) => ("仍存在", "1;33"),
        (Language::Chinese, Fate::Unknown) => ("无法判断", "1;36"),
        (Language::Chinese, Fate::Gone) => ("已消失", "32"),
    }
}

/// What changed.
pub fn text(comparison: &Comparison, layout: Layout) -> String {
    let words = words(layout.language);
    let mut out = String::new();
    headline(&mut out, comparison, layout);
    let figures =
        comparison.figures.iter().map(|figure| (figure.label.get(layout.language).to_owned(), figure.pair));
    table(&mut out, layout, &words, words.figures, figures.collect(), Keep::All);
    table(&mut out, layout, &words, words.groups, groups(comparison, layout.language, &words), Keep::All);
    let kinds = comparison
        .kinds
        .iter()
        .map(|line| (kind(line.class, line.books, layout.language).to_owned(), line.bytes));
    table(&mut out, layout, &words, words.kinds, kinds.collect(), Keep::All);
    let threads = comparison.threads.iter().map(|thread| (thread.name.clone(), thread.bytes()));
    table(&mut out, layout, &words, words.by_thread, threads.collect(), Keep::Changed);
    for (title, holders) in [(words.owners, &comparison.owners), (words.files, &comparison.mapped_files)] {
        let rows = holders.iter().map(|holder| (holder.name.clone(), holder.bytes));
        table(&mut out, layout, &words, title, rows.collect(), Keep::Changed);
    }
    settings(&mut out, comparison, layout, &words);
    findings(&mut out, comparison, layout, &words);
    if !comparison.gaps.is_empty() {
        title(&mut out, layout, words.gaps);
        for gap in &comparison.gaps {
            let (what, why) = (gap.what.get(layout.language), gap.why.get(layout.language));
            crate::findings::rows(&mut out, layout, 2, &plain(&format!("{what}: {why}")));
        }
    }
    out
}

/// One sentence for those who read no more.
fn headline(out: &mut String, comparison: &Comparison, layout: Layout) {
    let Some(figure) = comparison.figures.iter().find(|figure| figure.id == "direct_bytes") else { return };
    let Pair { before, after } = figure.pair;
    let (change, size) = (signed(figure.pair.change()), human(before.abs_diff(after)));
    let sign = if after < before { "-" } else { "+" };
    let (before, after) = (bytes(before), bytes(after));
    let text = match layout.language {
        Language::English => {
            format!("Direct memory went from {before} to {after} bytes: {change} ({sign}{size}).")
        }
        Language::Chinese => format!("直接内存由 {before} 变为 {after} 字节：{change}（{sign}{size}）。"),
    };
    crate::findings::rows(out, layout, 0, &text);
    out.push('\n');
}

fn groups(comparison: &Comparison, language: Language, words: &Words) -> Vec<(String, Pair)> {
    let mut rows = Vec::new();
    for group in &comparison.groups {
        let parts = [
            (words.largest, group.max_bytes),
            (words.buffers, group.buffers),
            (words.threads_with_bytes, group.threads_with_bytes),
            (words.threads, group.threads),
        ];
        let changed: Vec<_> = parts.into_iter().filter(|(_, pair)| pair.change() != 0).collect();
        let has_bytes = group.sum_bytes != Pair::default();
        if !has_bytes && changed.is_empty() {
            continue;
        }
        rows.push((group.label.get(language).to_owned(), group.sum_bytes));
        rows.extend(changed.into_iter().map(|(name, pair)| (name.to_owned(), pair)));
    }
    rows
}

fn title(out: &mut String, layout: Layout, text: &str) {
    let (start, end) = if layout.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let _ = writeln!(out, "{start}{text}{end}");
}

/// The change with its sign.
fn difference(pair: Pair) -> String {
    if pair.change() == 0 { "0".to_owned() } else { signed(pair.change()) }
}

/// Which rows of a list are written.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    /// All.
    All,
    /// Those that changed, the first of them.
    Changed,
}

/// Columns that a text takes.
fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// At most `room` columns: a longer text loses its middle.
fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let tail_room = room.saturating_sub(1) * 2 / 3;
    let take = |characters: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        let mut taken = String::new();
        for c in characters {
            used += columns(c);
            if used > room {
                break;
            }
            taken.push(c);
        }
        taken
    };
    let head = take(&mut text.chars(), room.saturating_sub(1 + tail_room));
    let tail = take(&mut text.chars().rev(), tail_room);
    head + "…" + &tail.chars().rev().collect::<String>()
}

fn table(out: &mut String, layout: Layout, words: &Words, name: &str, rows: Vec<(String, Pair)>, keep: Keep) {
    let all = rows.len();
    let changed = rows.iter().filter(|(_, pair)| pair.change() != 0).count();
    let mut rows = rows;
    if keep == Keep::Changed {
        rows.retain(|(_, pair)| pair.change() != 0);
        rows.truncate(ROWS);
    }
    if all == 0 {
        return;
    }
    let cells: Vec<[String; 4]> = rows
        .iter()
        .map(|(name, pair)| [plain(name), bytes(pair.before), bytes(pair.after), difference(*pair)])
        .collect();
    let heads = [name, words.before, words.after, words.change];
    let widest = |column: usize| {
        let cells = cells.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        cells.chain(heads.get(column).map(|head| width(head))).max().unwrap_or(0)
    };
    let numbers = [widest(1), widest(2), widest(3)];
    let taken: usize = numbers.iter().map(|column| column + 2).sum::<usize>() + 2;
    if taken > layout.width {
        // Not even the numbers fit beside each other.
        crate::findings::rows(out, layout, 0, name);
        for [name, before, after, change] in &cells {
            crate::findings::rows(out, layout, 2, name);
            crate::findings::rows(out, layout, 4, &format!("{before} -> {after}: {change}"));
        }
        rest(out, words, keep, cells.len(), changed, all);
        return;
    }
    let room = layout.width.saturating_sub(taken);
    let first = widest(0).min(room).min(MAX_NAME);
    // Too narrow for a name beside its numbers: it gets a row of its own.
    let apart = first < widest(0).min(24);
    let line = |out: &mut String, row: [&str; 4], indent: usize| {
        let [name, values @ ..] = row;
        let mut text = " ".repeat(indent);
        if apart {
            let _ = writeln!(out, "{text}{}", fit(name, layout.width.saturating_sub(indent).max(20)));
            text = String::new();
        } else {
            let name = fit(name, first + 2 - indent);
            text.push_str(&name);
            text.push_str(&" ".repeat((first + 2).saturating_sub(indent + width(&name))));
        }
        for (value, column) in values.iter().zip(numbers) {
            text.push_str(&" ".repeat(2 + column.saturating_sub(width(value))));
            text.push_str(value);
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    if layout.colour {
        out.push_str("\x1b[1m");
    }
    line(out, heads, 0);
    if layout.colour {
        // Behind the line's end, where it changes no column.
        out.push_str("\x1b[0m");
    }
    for [name, before, after, change] in &cells {
        line(out, [name, before, after, change], 2);
    }
    rest(out, words, keep, cells.len(), changed, all);
}

/// How many rows are not written, and an empty line.
fn rest(out: &mut String, words: &Words, keep: Keep, written: usize, changed: usize, all: usize) {
    let mut parts = Vec::new();
    if keep == Keep::Changed {
        for (count, word) in [(changed.saturating_sub(written), words.more), (all - changed, words.unchanged)]
        {
            if count > 0 {
                parts.push(format!("{} {word}", bytes(count as u64)));
            }
        }
    }
    if !parts.is_empty() {
        let _ = writeln!(out, "  {}", parts.join(", "));
    }
    out.push('\n');
}

fn settings(out: &mut String, comparison: &Comparison, layout: Layout, words: &Words) {
    if comparison.settings.is_empty() {
        let _ = writeln!(out, "{}\n", words.same_settings);
        return;
    }
    title(out, layout, words.settings);
    for setting in &comparison.settings {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| words.not_set.to_owned());
        let (before, after) = (value(&setting.before), value(&setting.after));
        let text = format!("{}: {before} -> {after}", setting.name);
        crate::findings::rows(out, layout, 2, &plain(&text));
    }
    out.push('\n');
}

fn findings(out: &mut String, comparison: &Comparison, layout: Layout, words: &Words) {
    if comparison.findings.is_empty() {
        return;
    }
    title(out, layout, words.findings);
    for change in &comparison.findings {
        let (label, colour) = fate(change.fate, layout.language);
        let side = change.after.as_ref().or(change.before.as_ref());
        let Some((severity, title)) = side else { continue };
        let title = format!(
            "{} [{}, {}]",
            plain(title.get(layout.language)),
            change.id,
            severity.label().get(layout.language)
        );
        labelled_in(out, layout, label, &title, Some(colour));
    }
    out.push('\n');
}
