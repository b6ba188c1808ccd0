//! The account as text for a terminal and as JSON for programs.

mod format;
mod json;
mod text;

pub(crate) use format::signed;
pub use format::{Style, bytes, size};
pub(crate) use json::books;
pub use json::json;
pub use text::text;
