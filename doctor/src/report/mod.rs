//! The report: as text for a terminal, as one page of HTML, and as JSON for programs. Text and page are written from one
//! model.

mod format;
mod headline;
mod html;
mod json;
pub(crate) mod model;
mod terminal;
mod text;

pub use format::{bytes, size};
pub use html::{comparison_html, html, verification_html};
pub use json::{Json, json};
pub use terminal::{Layout, plain};
pub use text::text;

pub(crate) use terminal::title;
pub(crate) use text::section;

pub(crate) use format::signed;
pub(crate) use json::books;
pub(crate) use terminal::{text_columns, wrap};
