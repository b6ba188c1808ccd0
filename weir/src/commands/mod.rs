//! One file per command.

pub(crate) mod log;
pub(crate) mod plan;
pub(crate) mod server;
