//! The page of a comparison.

use crate::compare::{Comparison, headline, sections};
use crate::evidence::Evidence;
use crate::language::{Language, text};

use super::ROWS;
use super::escape::Page;
use super::parts::{begin, blocks, end, files, main, open_section};

/// What changed between two captures, as a page of HTML.
pub fn comparison_html(
    comparison: &Comparison,
    before: &Evidence,
    after: &Evidence,
    language: Language,
) -> String {
    let mut page = Page::new(language);
    let sections = sections(comparison, ROWS);
    let title = headline(comparison)
        .unwrap_or_else(|| text!("What changed between two captures", "两次采集之间的变化"));
    begin(&mut page, &title);
    let sides = [
        ("evidence-before", text!("Evidence before", "之前的证据"), before),
        ("evidence-after", text!("Evidence after", "之后的证据"), after),
    ];
    let links = sections.iter().map(|section| (section.id, &section.title));
    let links = links.chain(sides.iter().map(|(id, title, _)| (*id, title)));
    main(&mut page, &links.map(|(id, title)| (id.to_owned(), title.clone())).collect::<Vec<_>>());
    for section in &sections {
        open_section(&mut page, section.id, &section.title);
        blocks(&mut page, section, section.id);
        page.raw("</section>\n");
    }
    for (id, title, evidence) in &sides {
        files(&mut page, evidence, id, title);
    }
    end(page)
}
