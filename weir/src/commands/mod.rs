//! One file per command.

pub(crate) mod demo;
pub(crate) mod log;
pub(crate) mod plan;
pub(crate) mod server;
