//! What is written to: how wide it is, and whether it wants colours.

use std::io::{IsTerminal, stdout};

/// Columns of a text that no terminal shows, or one that does not say how wide it is.
pub(crate) const PAGE_WIDTH: usize = 100;

/// Columns of a text on standard output.
pub(crate) fn width() -> usize {
    let size = stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(stdout()));
    match size {
        Some(Ok(size)) if size.ws_col > 0 => usize::from(size.ws_col).clamp(40, 140),
        _ => PAGE_WIDTH,
    }
}

/// Whether `stream` is a terminal that is to be written to in colour: <https://no-color.org>, and one that understands
/// none.
pub(crate) fn wants_colour(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
