//! The broker: listeners, request handlers and the wiring between the crates below.
