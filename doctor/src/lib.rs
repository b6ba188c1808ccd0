//! What a JVM broker left behind (a heap dump, texts of its tools) in, an exact account of its native memory out.
//!
//! Evidence is only read. Everything here is synchronous; nothing prints.

pub mod account;
pub mod alerts;
pub mod compare;
mod error;
pub mod evidence;
pub mod findings;
pub mod fuzz;
pub mod heap;
pub mod hprof;
pub mod jvm_plan;
pub mod language;
pub mod report;
pub mod verify;

pub use error::DoctorError;
