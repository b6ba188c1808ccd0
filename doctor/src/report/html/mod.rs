//! The report as one page: it loads nothing, runs nothing, and says the same on paper.
//!
//! Invariants: no script, no address of anything outside the page, and a policy in its head that forbids both; every text
//! that is not this program's own goes through [`escape::Page::text`].

mod charts;
mod compare;
mod escape;
mod parts;
#[cfg(test)]
pub(super) mod tests;
mod verify;

use crate::account::Account;
use crate::evidence::{Evidence, MemoryKind};
use crate::findings::{Dump, Facts, Finding, Headline, Remedy, Severity, no_finding};
use crate::language::{Language, Text, text};

use super::format::{bytes, size};
use super::headline::{counts, standing};
use super::model::{Block, Chart, Sections};
use charts::{Asked, chart};
use escape::Page;
use parts::{badges, begin, blocks, end, files, main, notes, open_section, places, term};

pub use compare::comparison_html;
pub use verify::verification_html;

/// Rows of lists that have no natural end.
const ROWS: usize = 50;

/// The whole report as a page of HTML.
pub fn html(evidence: &Evidence, dumps: &[Dump<'_>], findings: &[Finding], language: Language) -> String {
    let mut page = Page::new(language);
    let models: Vec<_> = dumps.iter().map(|dump| Sections::of(dump.heap, dump.account, ROWS)).collect();
    let headline = Headline::of(findings);
    begin(&mut page, &headline.what);
    why_and_cure(&mut page, &headline);
    let of_severity = |(severity, count): (Severity, usize)| {
        let word = severity.counted(count);
        (severity.name(), text!("{count} {word}", "{word} {count}"; word))
    };
    badges(&mut page, counts(findings).into_iter().map(of_severity));
    let facts = Facts::of(evidence, dumps);
    for (index, (dump, model)) in dumps.iter().zip(&models).enumerate() {
        overview(&mut page, dump, model, index, asked(&facts, dump.account).as_ref());
    }
    let title = text!("Evidence", "证据");
    main(&mut page, &contents(&models, &title));
    all_findings(&mut page, findings);
    models.iter().enumerate().for_each(|(index, model)| account(&mut page, model, index));
    files(&mut page, evidence, "evidence", &title);
    end(page)
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

/// The name of a dump's part of the page.
fn anchor(index: usize, id: &str) -> String {
    format!("dump-{}-{id}", index + 1)
}

/// The parts of the report and their names in the page.
fn contents(models: &[Sections], evidence: &Text) -> Vec<(String, Text)> {
    let mut links = vec![("findings".to_owned(), findings_title())];
    for (index, model) in models.iter().enumerate() {
        let number = index + 1;
        for section in &model.sections {
            let title = &section.title;
            let of = match models.len() {
                1 => title.clone(),
                _ => text!("{number}. {title}", "{number}. {title}"; title),
            };
            links.push((anchor(index, section.id), of));
        }
    }
    links.push(("evidence".to_owned(), evidence.clone()));
    links
}

fn findings_title() -> Text {
    text!("Findings", "诊断结论")
}

fn all_findings(page: &mut Page, findings: &[Finding]) {
    open_section(page, "findings", &findings_title());
    if findings.is_empty() {
        page.raw("<p>");
        page.say(&no_finding());
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
    places(page, &finding.evidence);
    if !finding.remedies.is_empty() {
        term(page, &text!("remedies", "措施"));
        page.raw("<ol class=\"remedies\">");
        finding.remedies.iter().for_each(|each| remedy(page, each));
        page.raw("</ol></dd>");
    }
    page.raw("</dl></article>\n");
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
        let id = anchor(index, section.id);
        page.raw("<section");
        page.attribute("id", &id);
        page.attribute("class", section.id);
        page.raw("><h4>");
        page.say(&section.title);
        page.raw("</h4>\n");
        blocks(page, section, &id);
        page.raw("</section>\n");
    }
    page.raw("</section>\n");
}
