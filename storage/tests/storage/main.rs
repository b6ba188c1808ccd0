//! The crate from outside, in one test binary: see each file's first line for what it proves.

mod append_read;
mod beside;
mod common;
mod faults;
mod fuzzing;
mod jvm;
mod manager;
mod ports;
mod recovery;
mod room;
mod unread;
