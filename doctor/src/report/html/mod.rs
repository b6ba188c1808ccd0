//! The report as one page: it loads nothing, runs nothing, and says the same on paper.
//!
//! Invariants: no script, no address of anything outside the page, and a policy in its head that forbids both; every text
//! that is not this program's own goes through [`escape::Page::text`].

mod charts;
mod escape;
#[cfg(test)]
mod tests;

use crate::account::{Account, Holds};
use crate::evidence::{Evidence, FileKind, FileNote, MemoryKind};
use crate::findings::{Dump, Facts, Finding, Headline, Remedy};
use crate::language::{Language, Text, text};

use super::format::{bytes, signed, size};
use super::headline::{counts, standing};
use super::model::{Block, Cell, Chart, Kind, Note, Section, Sections, Table, Tone, Way, holds, more};
use charts::{Asked, chart};
use escape::Page;

/// Rows of lists that have no natural end.
const ROWS: usize = 50;
/// Places of evidence that a finding shows.
const PROOFS: usize = 50;

/// The whole report as a page of HTML.
pub fn html(evidence: &Evidence, dumps: &[Dump<'_>], findings: &[Finding], language: Language) -> String {
    let mut page = Page::new(language);
    let models: Vec<_> = dumps.iter().map(|dump| Sections::of(dump.heap, dump.account, ROWS)).collect();
    let headline = Headline::of(findings);
    head(&mut page, &headline);
    page.raw("<body>\n<header><p class=\"kicker\">");
    page.say(&text!("weir doctor · native memory of a JVM broker", "weir doctor · JVM Broker 的堆外内存"));
    page.raw("</p><h1>");
    page.say(&headline.what);
    page.raw("</h1>");
    why_and_cure(&mut page, &headline);
    severities(&mut page, findings);
    let facts = Facts::of(evidence, dumps);
    for (index, (dump, model)) in dumps.iter().zip(&models).enumerate() {
        overview(&mut page, dump, model, index, asked(&facts, dump.account).as_ref());
    }
    page.raw("</header>\n");
    contents(&mut page, &models);
    page.raw("<main>\n");
    all_findings(&mut page, findings);
    models.iter().enumerate().for_each(|(index, model)| account(&mut page, model, index));
    files(&mut page, evidence);
    page.raw("</main>\n<footer>");
    let version = env!("CARGO_PKG_VERSION");
    page.say(&text!(
        "weir doctor {version}. This page loads nothing and runs no script. It names threads, files and settings of the broker.",
        "weir doctor {version}。本页不加载任何外部内容，也不运行脚本。页中含有 Broker 的线程名、文件名与配置。"
    ));
    page.raw("</footer>\n</body>\n</html>\n");
    page.finish()
}

/// Why it failed, and what helps best, below what failed.
fn why_and_cure(page: &mut Page, headline: &Headline) {
    if let Some(why) = &headline.why {
        page.raw("<p class=\"standing\"><b>");
        page.say(&text!("Why", "原因"));
        page.raw("</b> ");
        page.say(why);
        page.raw("</p>");
    }
    if let Some(cure) = &headline.cure {
        page.raw("<p class=\"standing\"><b>");
        page.say(&text!("Cure", "措施"));
        page.raw("</b> ");
        page.say(&cure.action);
        page.raw("</p>");
    }
}

fn head(page: &mut Page, headline: &Headline) {
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
    page.say(&headline.what);
    page.raw("</title>\n<style>\n");
    page.raw(include_str!("style.css"));
    page.raw("</style></head>\n");
}

fn severities(page: &mut Page, findings: &[Finding]) {
    let counts = counts(findings);
    if counts.is_empty() {
        return;
    }
    page.raw("<ul class=\"counts\">");
    for (severity, count) in counts {
        page.raw("<li><span");
        page.attribute("class", &format!("badge {}", severity.name()));
        page.raw(">");
        let word = severity.label();
        page.say(&text!("{count} {word}", "{word} {count}"; word));
        page.raw("</span></li>");
    }
    page.raw("</ul>");
}

/// The name of a dump's part of the page.
fn anchor(index: usize, id: &str) -> String {
    format!("dump-{}-{id}", index + 1)
}

fn contents(page: &mut Page, models: &[Sections]) {
    page.raw("<nav");
    page.attribute("aria-label", text!("contents", "目录").get(page.language));
    page.raw("><ul>");
    let mut link = |to: &str, says: &Text| {
        page.raw("<li><a");
        page.attribute("href", &format!("#{to}"));
        page.raw(">");
        page.say(says);
        page.raw("</a></li>");
    };
    link("findings", &text!("Findings", "诊断结论"));
    for (index, model) in models.iter().enumerate() {
        let of = |title: &Text| {
            let number = index + 1;
            match models.len() {
                1 => title.clone(),
                _ => text!("{number}. {title}", "{number}. {title}"; title),
            }
        };
        for section in &model.sections {
            link(&anchor(index, section.id), &of(&section.title));
        }
    }
    link("evidence", &text!("Evidence", "证据"));
    page.raw("</ul></nav>\n");
}

fn all_findings(page: &mut Page, findings: &[Finding]) {
    page.raw("<section id=\"findings\"><h2>");
    page.say(&text!("Findings", "诊断结论"));
    page.raw("</h2>\n");
    if findings.is_empty() {
        page.raw("<p>");
        page.say(&text!(
            "No finding: the evidence supports none of the rules.",
            "没有结论：证据不支持任何一条规则。"
        ));
        page.raw("</p>");
    }
    findings.iter().for_each(|each| finding(page, each));
    page.raw("</section>\n");
}

fn finding(page: &mut Page, finding: &Finding) {
    page.raw("<article");
    page.attribute("class", &format!("finding {}", finding.severity.name()));
    page.attribute("data-id", finding.id);
    page.raw("><header><div class=\"between\"><span class=\"badge\">");
    page.say(&finding.severity.label());
    page.raw("</span><span class=\"id\">");
    page.text(finding.id);
    page.raw("</span></div><h3>");
    page.say(&finding.title);
    page.raw("</h3></header><dl class=\"parts\">");
    term(page, &text!("cause", "原因"));
    page.raw("<p>");
    page.say(&finding.cause);
    page.raw("</p></dd>");
    if !finding.evidence.is_empty() {
        term(page, &text!("evidence", "证据"));
        page.raw("<ul class=\"proofs\">");
        let mut before = None;
        for proof in finding.evidence.iter().take(PROOFS) {
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
        let left = finding.evidence.len().saturating_sub(PROOFS);
        if left > 0 {
            page.raw("<li class=\"soft\">");
            page.say(&more(left as u64));
            page.raw("</li>");
        }
        page.raw("</ul></dd>");
    }
    if !finding.remedies.is_empty() {
        term(page, &text!("remedies", "措施"));
        page.raw("<ol class=\"remedies\">");
        finding.remedies.iter().for_each(|each| remedy(page, each));
        page.raw("</ol></dd>");
    }
    page.raw("</dl></article>\n");
}

fn term(page: &mut Page, says: &Text) {
    page.raw("<dt>");
    page.say(says);
    page.raw("</dt><dd>");
}

fn remedy(page: &mut Page, remedy: &Remedy) {
    page.raw("<li><p>");
    page.say(&remedy.action);
    page.raw("</p><p class=\"effect\">");
    if let Some(frees) = remedy.frees_bytes {
        page.say(&text!("frees up to ", "最多释放 "));
        page.raw("<b class=\"n\"");
        page.attribute("data-bytes", &frees.to_string());
        page.raw(">");
        page.text(&bytes(frees));
        page.raw("</b>");
        let readable = size(frees);
        page.say(&text!(" bytes ({readable}) · ", " 字节（{readable}） · "));
    }
    page.say(&match remedy.needs_restart {
        true => text!("takes a restart", "需要重启"),
        false => text!("takes no restart", "无需重启"),
    });
    page.raw("</p>");
    if let Some(caution) = &remedy.caution {
        page.raw("<p class=\"caution\">");
        page.say(&text!("but: ", "注意："));
        page.say(caution);
        page.raw("</p>");
    }
    page.raw("</li>");
}

/// The largest request that failed, if it failed at this dump's limit.
fn asked(facts: &Facts<'_>, account: &Account) -> Option<Asked> {
    let failures = facts.failures(MemoryKind::Direct).map(|(_, failure)| failure);
    let here = failures.filter(|failure| failure.limit.is_none() || failure.limit == account.limit_bytes);
    here.filter_map(|failure| failure.requested).max().map(|bytes| Asked { bytes })
}

/// Where the memory of a dump stands, in a sentence and a picture.
fn overview(page: &mut Page, dump: &Dump<'_>, model: &Sections, index: usize, asked: Option<&Asked>) {
    page.raw("<p class=\"standing\">");
    page.say(&standing(dump.account));
    page.raw("</p>");
    for block in model.sections.iter().flat_map(|section| &section.blocks) {
        if let Block::Chart(of @ Chart::Limit { .. }) = block {
            chart(page, of, &anchor(index, "fill"), asked);
        }
    }
}

fn account(page: &mut Page, model: &Sections, index: usize) {
    page.raw("<section class=\"dump\"");
    page.attribute("id", &anchor(index, "dump"));
    page.raw("><h2>");
    page.say(&text!("The account of the dump", "堆转储清单"));
    page.raw("</h2><p><code><bdi>");
    page.text(&model.path);
    page.raw("</bdi></code></p>");
    notes(page, &model.head.iter().collect::<Vec<_>>());
    for section in &model.sections {
        part(page, section, index);
    }
    page.raw("</section>\n");
}

fn part(page: &mut Page, section: &Section, index: usize) {
    let id = anchor(index, section.id);
    page.raw("<section");
    page.attribute("id", &id);
    page.attribute("class", section.id);
    page.raw("><h4>");
    page.say(&section.title);
    page.raw("</h4>\n");
    let name = section.title.get(page.language).to_owned();
    for block in &section.blocks {
        match block {
            // The limit is drawn at the top of the page.
            Block::Note(_) | Block::Chart(Chart::Limit { .. }) => {}
            Block::Table(each) | Block::Details(each) => table(page, each, &name),
            Block::Chart(each) => chart(page, each, &id, None),
            Block::Ways(all, left) => ways(page, all, *left),
            Block::Proofs(all) => proofs(page, all, &name),
        }
    }
    let said = section.blocks.iter().filter_map(|block| match block {
        Block::Note(note) => Some(note),
        _ => None,
    });
    notes(page, &said.collect::<Vec<_>>());
    page.raw("</section>\n");
}

fn notes(page: &mut Page, notes: &[&Note]) {
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
    let sizes = heads.iter().filter(|(kind, _)| matches!(kind, Kind::Bytes | Kind::Sizes)).count();
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

fn proofs(page: &mut Page, proofs: &[(Holds, Text, Text)], name: &str) {
    let heads = [
        (Kind::Words, text!("what", "内容")),
        (Kind::Words, text!("proved", "能否证明")),
        (Kind::Words, text!("why", "依据")),
    ];
    open_table(page, name, &heads);
    for (holding, what, why) in proofs {
        page.raw("<tr><th scope=\"row\">");
        page.say(what);
        page.raw(match holding {
            Holds::Yes => "</th><td class=\"words\"><span class=\"badge good\">",
            Holds::AtLeast | Holds::No => "</th><td class=\"words\"><span class=\"badge warning\">",
        });
        page.say(&holds(*holding));
        page.raw("</span></td><td class=\"words\">");
        page.say(why);
        page.raw("</td></tr>\n");
    }
    page.raw("</tbody></table></div>\n");
}

fn files(page: &mut Page, evidence: &Evidence) {
    page.raw("<section id=\"evidence\"><h2>");
    let title = text!("Evidence", "证据");
    page.say(&title);
    page.raw("</h2>\n");
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
    for (index, kind) in file.kinds.iter().enumerate() {
        if index > 0 {
            page.raw(", ");
        }
        page.say(&kind.label());
    }
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
