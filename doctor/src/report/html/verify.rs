//! The page of a verification.

use crate::evidence::Evidence;
use crate::language::{Language, text};
use crate::verify::{Check, Outcome, Verification};

use super::escape::Page;
use super::parts::{badges, begin, end, files, main, open_section, places, term};

/// The acceptance criteria of a cure, as a page of HTML.
pub fn verification_html(verification: &Verification, evidence: &Evidence, language: Language) -> String {
    let mut page = Page::new(language);
    begin(&mut page, &verification.verdict_text());
    let counts = [Outcome::Fails, Outcome::NotJudged, Outcome::Skipped, Outcome::Passes];
    let counts = counts.into_iter().map(|outcome| (outcome, verification.count(outcome)));
    badges(
        &mut page,
        counts.filter(|(_, count)| *count > 0).map(|(outcome, count)| {
            let word = outcome.label();
            (class(outcome), text!("{count} {word}", "{word} {count}"; word))
        }),
    );
    let (checks, files_title) = (text!("Checks", "检查项"), text!("Evidence", "证据"));
    main(&mut page, &[("checks".into(), checks.clone()), ("evidence".into(), files_title.clone())]);
    open_section(&mut page, "checks", &checks);
    verification.checks.iter().for_each(|each| check(&mut page, each));
    page.raw("</section>\n");
    files(&mut page, evidence, "evidence", &files_title);
    end(page)
}

/// The colour of an outcome.
fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passes => "good",
        Outcome::Fails => "critical",
        Outcome::NotJudged => "warning",
        Outcome::Skipped => "note",
    }
}

fn check(page: &mut Page, check: &Check) {
    page.raw("<article");
    page.attribute("class", &format!("finding {}", class(check.outcome)));
    page.attribute("data-id", check.id);
    page.attribute("data-outcome", check.outcome.name());
    page.raw("><header><div class=\"between\"><span class=\"badge\">");
    page.say(&check.outcome.label());
    page.raw("</span><span class=\"id\">");
    page.text(check.id);
    if check.required {
        page.say(&text!(" (required)", "（必需）"));
    }
    page.raw("</span></div><h3>");
    page.say(&check.criterion);
    page.raw("</h3></header><dl class=\"parts\">");
    term(page, &text!("found", "结果"));
    page.raw("<p>");
    page.say(&check.says);
    page.raw("</p></dd>");
    places(page, &check.evidence);
    page.raw("</dl></article>\n");
}
