//! Kafka's wire format: bytes to values and back, with a decode budget.
//!
//! - [`wire`]: primitive encodings, the budgeted [`wire::Reader`], sinks;
//! - [`messages`]: every request, response and record, generated from `protocol/schema/`.
//!
//! Nothing here does I/O, and no decoder allocates more than its reader's budget.

pub mod messages;
pub mod wire;
