//! A reply's error: Kafka's code and the message that goes with it.

use std::fmt;

use weir_protocol::messages::ErrorCode;

use crate::MetadataError;

/// An error for one item of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// What was wrong with which value; empty where Kafka leaves it at the code.
    pub message: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// An error.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    pub(super) fn policy_violation(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::POLICY_VIOLATION, message)
    }

    /// A wrong config of a topic, group or subscription.
    pub(super) fn invalid_config(error: &MetadataError) -> Self {
        Self::new(ErrorCode::INVALID_CONFIG, error.kafka_message())
    }

    /// Code and message of a result; an empty message is none.
    pub(super) fn parts<T>(result: Result<T, Self>) -> (ErrorCode, Option<String>) {
        match result {
            Ok(_) => (ErrorCode::NONE, None),
            Err(error) => (error.code, Some(error.message).filter(|message| !message.is_empty())),
        }
    }
}
