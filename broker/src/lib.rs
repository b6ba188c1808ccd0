//! The broker: listeners, request handlers and the wiring between the crates below.
//!
//! A request's way: `net` receives it, `connection` frames it, `handlers` answer it, `request` sends the reply. What it
//! changes goes through `quorum` (metadata) or a partition's log, and `publisher` makes the server follow the metadata.

mod background;
mod broker;
mod complaints;
mod connection;
mod directories;
mod errors;
mod executor;
mod failure;
mod fetch_sessions;
pub mod fuzz;
mod groups;
mod handlers;
mod http;
mod machine;
mod metrics;
mod net;
pub mod plan;
mod producer_ids;
mod publisher;
mod quorum;
mod request;
mod server;
mod stored_batches;
mod threads;
mod topic_creation;
mod topics;
mod unread_batch;

pub use failure::log_panics;
pub use server::{Server, ServerError, plan_of, raise_descriptor_limit};
pub use threads::runtime;
