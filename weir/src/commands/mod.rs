//! One file per command.

use std::io::{self, ErrorKind, Write};

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod log;
pub(crate) mod plan;
mod plan_jvm;
pub(crate) mod server;

/// Writes to standard output. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(()),
    }
}
