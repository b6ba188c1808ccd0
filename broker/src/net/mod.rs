//! Sockets: listeners, the registry of connections, and bounded ways to receive and to send.
//!
//! Invariant: while a connection waits for its peer it holds no record bytes but those of one leased batch, and
//! besides them at most [`receive::SMALL_BYTES`] bytes.

pub(crate) mod frame;
pub(crate) mod listener;
pub(crate) mod receive;
pub(crate) mod registry;
pub(crate) mod send;
pub(crate) mod sniff;
pub(crate) mod splice;
