//! Kafka's wire format: bytes to values and back, with a decode budget.
//!
//! - [`wire`]: primitive encodings, the budgeted [`wire::Reader`], sinks;
//! - [`messages`]: every request, response and record, generated from `protocol/schema/`;
//! - [`records`]: record batches of magic 2, streamed over slices, with Kafka's codecs.
//!
//! Nothing here does I/O, and no decoder allocates more than its reader's budget.

pub mod fuzz;
pub mod messages;
pub mod records;
pub mod wire;
