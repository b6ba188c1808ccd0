//! The only way into the page: markup is written by this program alone (`&'static str`), everything else is escaped.

use std::fmt::Write as _;

use crate::language::{Language, Text};
use crate::report::terminal::is_hidden;

/// A page that is being written. Invariant: what comes from outside can become neither markup nor an attribute, is shown
/// in the order in which it was given, and hides nothing.
pub(super) struct Page {
    out: String,
    pub(super) language: Language,
}

impl Page {
    pub(super) fn new(language: Language) -> Self {
        Self { out: String::new(), language }
    }

    /// Markup of this program.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// Text of any origin.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                // What would change the direction of the text around it, or not be seen, is named.
                c if is_hidden(c) => {
                    let _ = write!(self.out, "⟨U+{:04X}⟩", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
    }

    /// A text in the page's language.
    pub(super) fn say(&mut self, text: &Text) {
        self.text(text.get(self.language));
    }

    /// An attribute of the tag that is open: ` name="value"`.
    pub(super) fn attribute(&mut self, name: &'static str, value: &str) {
        self.raw(" ");
        self.raw(name);
        self.raw("=\"");
        self.text(value);
        self.raw("\"");
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}
