//! What every page is made of: its frame, tables, lists, places of evidence.

use crate::evidence::{Evidence, FileKind, FileNote};
use crate::findings::Proof;
use crate::language::{Language, Text, text};
use crate::report::format::{bytes, signed, size};
use crate::report::model::{Block, Cell, Chart, Judged, Kind, Note, Section, Table, Tone, Way, more};

use super::charts::chart;
use super::escape::Page;

/// Places of evidence that are shown of one thing.
const PROOFS: usize = 50;

/// Begins a page: what it is about, and what it says in a sentence. [`main`] ends what is in its header.
pub(super) fn begin(page: &mut Page, title: &Text) {
    head(page, title);
    page.raw("<body>\n<header><p class=\"kicker\">");
    page.say(&text!("weir doctor · native memory of a JVM broker", "weir doctor · JVM Broker 的堆外内存"));
    page.raw("</p><h1>");
    page.say(title);
    page.raw("</h1>");
}

/// The links to the parts of a page, by the names of these, and the end of its header.
pub(super) fn main(page: &mut Page, links: &[(String, Text)]) {
    page.raw("</header>\n<nav");
    page.attribute("aria-label", text!("contents", "目录").get(page.language));
    page.raw("><ul>");
    for (to, says) in links {
        page.raw("<li><a");
        page.attribute("href", &format!("#{to}"));
        page.raw(">");
        page.say(says);
        page.raw("</a></li>");
    }
    page.raw("</ul></nav>\n<main>\n");
}

/// Ends a page.
pub(super) fn end(mut page: Page) -> String {
    page.raw("</main>\n<footer>");
    let version = env!("CARGO_PKG_VERSION");
    page.say(&text!(
        "weir doctor {version}. This page loads nothing and runs no script. It names threads, files and settings of the broker.",
        "weir doctor {version}。本页不加载任何外部内容，也不运行脚本。页中含有 Broker 的线程名、文件名与配置。"
    ));
    page.raw("</footer>\n</body>\n</html>\n");
    page.finish()
}

/// The head of a section of a page.
pub(super) fn open_section(page: &mut Page, id: &str, title: &Text) {
    page.raw("<section");
    page.attribute("id", id);
    page.raw("><h2>");
    page.say(title);
    page.raw("</h2>\n");
}

/// Numbers of things by kind, such as findings by severity; `class` is the colour.
pub(super) fn badges(page: &mut Page, counts: impl IntoIterator<Item = (&'static str, Text)>) {
    let mut counts = counts.into_iter().peekable();
    if counts.peek().is_none() {
        return;
    }
    page.raw("<ul class=\"counts\">");
    for (class, says) in counts {
        page.raw("<li><span");
        page.attribute("class", &format!("badge {class}"));
        page.raw(">");
        page.say(&says);
        page.raw("</span></li>");
    }
    page.raw("</ul>");
}

/// The head of a page up to its body.
fn head(page: &mut Page, title: &Text) {
    page.raw("<!DOCTYPE html>\n<html");
    page.attribute(
        "lang",
        match page.language {
            Language::English => "en",
            Language::Chinese => "zh-CN",
        },
    );
    page.raw(
        "><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
         base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"icon\" href=\"data:,\"><title>weir doctor: ",
    );
    page.say(title);
    page.raw("</title>\n<style>\n");
    page.raw(include_str!("style.css"));
    page.raw("</style></head>\n");
}

/// The blocks of a section: what is drawn and listed, then what is said. `id` is the section's name in the page.
pub(super) fn blocks(page: &mut Page, section: &Section, id: &str) {
    let name = section.title.get(page.language).to_owned();
    for block in &section.blocks {
        match block {
            // The limit is drawn at the top of the page.
            Block::Note(_) | Block::Chart(Chart::Limit { .. }) => {}
            Block::Table(each) | Block::Details(each) => table(page, each, &name),
            Block::Chart(each) => chart(page, each, id, None),
            Block::Ways(all, left) => ways(page, all, *left),
            Block::Judged(heads, all) => judged(page, heads, all, &name),
            Block::Differ(heads, all) => differ(page, heads, all, &name),
        }
    }
    let said = section.blocks.iter().filter_map(|block| match block {
        Block::Note(note) => Some(note),
        _ => None,
    });
    notes(page, &said.collect::<Vec<_>>());
}

fn words(heads: &[Text; 3]) -> Vec<(Kind, Text)> {
    let heads = heads.iter().filter(|head| !head.en.is_empty());
    heads.map(|head| (Kind::Words, head.clone())).collect()
}

fn judged(page: &mut Page, heads: &[Text; 3], all: &[Judged], name: &str) {
    let heads = words(heads);
    open_table(page, name, &heads);
    for Judged { tone, word, what, why } in all {
        page.raw("<tr><th scope=\"row\"><bdi>");
        page.say(what);
        page.raw(match tone {
            Tone::Good => "</bdi></th><td class=\"words\"><span class=\"badge good\">",
            Tone::Warning => "</bdi></th><td class=\"words\"><span class=\"badge warning\">",
            Tone::Plain => "</bdi></th><td class=\"words\"><span class=\"badge\">",
        });
        page.say(word);
        page.raw("</span></td>");
        if heads.len() > 2 {
            page.raw("<td class=\"words\">");
            page.say(why);
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

fn differ(page: &mut Page, heads: &[Text; 3], all: &[[Text; 3]], name: &str) {
    open_table(page, name, &words(heads));
    for [name, before, after] in all {
        page.raw("<tr><th scope=\"row\"><code><bdi>");
        page.say(name);
        page.raw("</bdi></code></th>");
        for value in [before, after] {
            page.raw("<td class=\"words\"><bdi>");
            page.say(value);
            page.raw("</bdi></td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

pub(super) fn term(page: &mut Page, says: &Text) {
    page.raw("<dt>");
    page.say(says);
    page.raw("</dt><dd>");
}

/// Places of evidence, where there are any.
pub(super) fn places(page: &mut Page, proofs: &[Proof]) {
    if proofs.is_empty() {
        return;
    }
    term(page, &text!("evidence", "证据"));
    page.raw("<ul class=\"proofs\">");
    let mut before = None;
    for proof in proofs.iter().take(PROOFS) {
        page.raw("<li>");
        // Several figures of one place stand under it together.
        if before.replace((&proof.file, proof.line)) != Some((&proof.file, proof.line)) {
            page.raw("<code class=\"place\"><bdi>");
            page.text(&proof.file.display().to_string());
            page.raw("</bdi>");
            if proof.line > 0 {
                page.text(&format!(":{}", proof.line));
            }
            page.raw("</code>");
        }
        page.raw("<bdi>");
        page.say(&proof.says);
        page.raw("</bdi></li>");
    }
    let left = proofs.len().saturating_sub(PROOFS);
    if left > 0 {
        page.raw("<li class=\"soft\">");
        page.say(&more(left as u64));
        page.raw("</li>");
    }
    page.raw("</ul></dd>");
}

pub(super) fn notes(page: &mut Page, notes: &[&Note]) {
    if notes.is_empty() {
        return;
    }
    page.raw("<ul class=\"plain\">");
    for note in notes {
        page.raw(match note.tone {
            Tone::Plain => "<li>",
            Tone::Good => "<li class=\"good\">",
            Tone::Warning => "<li class=\"warn\">",
        });
        page.say(&note.text);
        page.raw("</li>");
    }
    page.raw("</ul>\n");
}

/// Opens a table that scrolls by itself where the page is narrower than it.
fn open_table(page: &mut Page, name: &str, heads: &[(Kind, Text)]) {
    page.raw("<div class=\"scroll\" role=\"region\" tabindex=\"0\"");
    page.attribute("aria-label", name);
    let sizes =
        heads.iter().filter(|(kind, _)| matches!(kind, Kind::Bytes | Kind::Sizes | Kind::Exact)).count();
    page.raw(if sizes > 1 { "><table><thead><tr>" } else { "><table class=\"one\"><thead><tr>" });
    for (kind, head) in heads {
        page.raw(if *kind == Kind::Words {
            "<th scope=\"col\" class=\"words\">"
        } else {
            "<th scope=\"col\">"
        });
        page.say(head);
        page.raw("</th>");
    }
    page.raw("</tr></thead><tbody>\n");
}

fn table(page: &mut Page, table: &Table, name: &str) {
    open_table(page, name, &table.heads);
    for row in &table.rows {
        page.raw("<tr>");
        for (column, cell) in row.iter().enumerate() {
            page.raw(if column == 0 { "<th scope=\"row\">" } else { "<td>" });
            match cell {
                Cell::Nothing => {}
                Cell::Text(says) => {
                    page.raw("<bdi>");
                    page.say(says);
                    page.raw("</bdi>");
                }
                Cell::Part(says) => {
                    page.raw("<bdi class=\"part\">");
                    page.say(says);
                    page.raw("</bdi>");
                }
                Cell::Count(count) => page.text(&bytes(*count)),
                Cell::Of(part, whole) => {
                    let (part, whole) = (bytes(*part), bytes(*whole));
                    page.say(&text!("{part} of {whole}", "{part}/{whole}"));
                }
                Cell::Bytes(value) => {
                    page.text(&bytes(*value));
                    page.raw("<small>");
                    page.text(&size(*value));
                    page.raw("</small>");
                }
                Cell::Difference(value) => page.text(&signed(*value)),
                Cell::Share(share) => page.text(&format!("{:.1} %", share * 100.0)),
            }
            page.raw(if column == 0 { "</th>" } else { "</td>" });
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    rest(page, table.more);
}

fn rest(page: &mut Page, left: u64) {
    if left > 0 {
        page.raw("<p class=\"soft\">");
        page.say(&more(left));
        page.raw("</p>\n");
    }
}

fn ways(page: &mut Page, ways: &[Way], left: u64) {
    page.raw("<ul class=\"ways\">");
    for way in ways {
        page.raw("<li><div class=\"between\"><b><bdi>");
        page.text(&way.name);
        page.raw("</bdi></b><span class=\"n\">");
        page.text(&bytes(way.bytes));
        page.raw(" <small>");
        page.text(&size(way.bytes));
        let count = bytes(way.buffers);
        let buffers = if way.buffers == 1 { "buffer" } else { "buffers" };
        page.say(&text!(" · {count} {buffers}", " · {count} 个缓冲区"));
        page.raw("</small></span></div>");
        if !way.path.is_empty() {
            page.raw(if way.complete { "<ol class=\"rooted\">" } else { "<ol>" });
            for step in &way.path {
                page.raw("<li><bdi>");
                page.text(step);
                page.raw("</bdi></li>");
            }
            page.raw("</ol>");
        }
        page.raw("</li>");
    }
    page.raw("</ul>\n");
    rest(page, left);
}

/// What each file was taken for, and what in it was not understood.
pub(super) fn files(page: &mut Page, evidence: &Evidence, id: &str, title: &Text) {
    open_section(page, id, title);
    let heads = [
        (Kind::Words, text!("file", "文件")),
        (Kind::Words, text!("taken for", "识别为")),
        (Kind::Count, text!("lines", "行数")),
        (Kind::Words, text!("not understood", "未能理解之处")),
    ];
    open_table(page, title.get(page.language), &heads);
    evidence.files.iter().for_each(|each| file(page, each));
    page.raw("</tbody></table></div></section>\n");
}

fn file(page: &mut Page, file: &FileNote) {
    page.raw("<tr><th scope=\"row\"><code><bdi>");
    page.text(&file.path.display().to_string());
    page.raw("</bdi></code></th><td class=\"words\">");
    if file.kinds.is_empty() {
        page.say(&text!("of no kind that is known here", "不是可识别的类型"));
    }
    let kinds: Vec<_> = file.kinds.iter().map(|kind| kind.label()).collect();
    page.say(&Text::join(&kinds, ", ", "、"));
    page.raw("</td><td>");
    if file.lines > 0 && !file.kinds.contains(&FileKind::HeapDump) {
        page.text(&bytes(file.lines));
    }
    page.raw("</td><td class=\"words\">");
    if !file.problems.is_empty() {
        page.raw("<ul class=\"plain\">");
        for problem in &file.problems {
            page.raw("<li class=\"warn\">");
            if problem.line > 0 {
                let line = problem.line;
                page.say(&text!("line {line}: ", "第 {line} 行："));
            }
            page.raw("<bdi>");
            page.say(&problem.text);
            page.raw("</bdi></li>");
        }
        page.raw("</ul>");
    }
    page.raw("</td></tr>\n");
}
