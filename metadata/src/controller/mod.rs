//! The controller of a quorum of one, as a pure function: (image, command) -> (records, reply).
//!
//! A [`Controller`] is a view of the committed image, made for one command. The caller appends the records in one batch,
//! syncs, replays them and only then sends the reply. Decisions inside a command see the records of the items before
//! them, because each accepted item is applied to a private copy of the image. Codes and messages are those of Kafka's
//! own controller, so that its tools print what their users know.

mod api_error;
mod batch;
mod bootstrap;
mod brokers;
mod configs;
mod features;
mod partitions;
mod topic_name;
mod topics;

#[cfg(test)]
mod tests;

pub use api_error::ApiError;
pub use batch::MAX_RECORDS_PER_USER_OP;
pub use bootstrap::{activation_records, bootstrap_records};
pub use brokers::{BrokerRegistration, PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock};
pub use features::{SUPPORTED_FEATURES, SupportedFeature, unsupported_features};
pub use topic_name::{is_internal_topic, validate_topic_name};
pub use topics::creation_configs;

use crate::image::MetadataImage;
use crate::properties::BrokerConfig;
use crate::record_frame::VersionedRecord;

/// What a command decided.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerResult<R> {
    /// Records to append, sync and replay before the reply is sent. Empty: reply at once.
    pub records: Vec<VersionedRecord>,
    /// The reply, true once the records are durable.
    pub reply: R,
    /// Whether the records must stand in one batch. Where not, the caller may split them at will.
    pub is_atomic: bool,
    /// Limits that refused items of the command, each once.
    pub limits: Vec<LimitReached>,
}

/// A limit that refused something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    /// The property that sets it.
    pub property: &'static str,
    /// What was refused, with the limit's value: what the client is told of the first such item.
    pub message: String,
}

impl<R> ControllerResult<R> {
    fn atomic(records: Vec<VersionedRecord>, reply: R) -> Self {
        Self { records, reply, is_atomic: true, limits: Vec::new() }
    }

    fn divisible(records: Vec<VersionedRecord>, reply: R) -> Self {
        Self { records, reply, is_atomic: false, limits: Vec::new() }
    }

    /// A command that changes nothing.
    pub fn without_records(reply: R) -> Self {
        Self::atomic(Vec::new(), reply)
    }
}

impl<R> From<Result<ControllerResult<R>, ApiError>> for ControllerResult<Result<R, ApiError>> {
    /// An error is a reply without records.
    fn from(result: Result<ControllerResult<R>, ApiError>) -> Self {
        match result {
            Ok(ControllerResult { records, reply, is_atomic, limits }) => {
                Self { records, reply: Ok(reply), is_atomic, limits }
            }
            Err(error) => Self::without_records(Err(error)),
        }
    }
}

/// The controller's view of one moment.
#[derive(Debug, Clone, Copy)]
pub struct Controller<'a> {
    image: &'a MetadataImage,
    config: &'a BrokerConfig,
}

impl<'a> Controller<'a> {
    /// A controller that decides on `image` under `config`.
    pub fn new(image: &'a MetadataImage, config: &'a BrokerConfig) -> Self {
        Self { image, config }
    }

    /// Offset that the first record of the next batch gets.
    fn next_offset(&self) -> i64 {
        self.image.last_offset().saturating_add(1)
    }
}
