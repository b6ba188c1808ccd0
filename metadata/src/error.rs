//! The error of this crate: what was wrong, where, and the limit that it broke.

use thiserror::Error;
use weir_protocol::wire::{DecodeError, EncodeError};

/// What can be wrong with a property, a metadata record or a replay.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// A value that its property does not take. `reason` names the limit.
    #[error("{} for {name}: {reason}", shown(.value))]
    InvalidValue {
        /// The property as it was written.
        name: String,
        /// The value as it was written, `[hidden]` for a password.
        value: String,
        /// What the value must be.
        reason: String,
    },
    /// Properties that do not fit each other.
    #[error("{0}")]
    Conflict(String),
    /// A property or value that asks for something this server does not serve.
    #[error("{name} asks for {what}; {remedy}")]
    NotServed {
        /// The property.
        name: String,
        /// What it asks for.
        what: String,
        /// What to write instead.
        remedy: String,
    },
    /// A config name that its resource does not have.
    #[error("unknown {scope} config name: {name}{}", suggest(.nearest))]
    UnknownConfig {
        /// `topic`, `group` or `client metrics`.
        scope: &'static str,
        /// The name.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// A properties file that cannot be read as such.
    #[error("properties file, line {line}: {reason}")]
    MalformedFile {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// An override that is not `name=value`.
    #[error("override {0} is not of the form name=value")]
    MalformedOverride(String),
    /// A metadata record of a type that this version does not know: the log was written by a newer Kafka.
    #[error("metadata record of unknown type {key}")]
    UnknownRecord {
        /// The type.
        key: i16,
    },
    /// A metadata record of a version that this version does not know: the log was written by a newer Kafka.
    #[error("{name} of unknown version {version}, the highest known is {highest}")]
    UnknownRecordVersion {
        /// Kafka's name of the record.
        name: &'static str,
        /// The version found.
        version: i16,
        /// The highest version known.
        highest: i16,
    },
    /// A metadata record that does not decode.
    #[error("{what} does not decode: {source}")]
    Decode {
        /// Kafka's name of the record.
        what: &'static str,
        /// Why.
        source: DecodeError,
    },
    /// A metadata record that cannot be written.
    #[error("{what} cannot be written: {source}")]
    Encode {
        /// Kafka's name of the record.
        what: &'static str,
        /// Why.
        source: EncodeError,
    },
    /// A metadata record that does not fit the records before it: the log is damaged.
    #[error("{record} at offset {offset} does not fit the records before it: {reason}")]
    Replay {
        /// Kafka's name of the record.
        record: &'static str,
        /// Its offset.
        offset: i64,
        /// What is missing or twice.
        reason: String,
    },
}

fn shown(value: &str) -> String {
    if value.is_empty() { "empty value".to_owned() } else { format!("invalid value {value}") }
}

impl MetadataError {
    /// Whether the same call can succeed later without a change by the caller. None of these can.
    pub fn is_retriable(&self) -> bool {
        false
    }

    /// The message in the words that Kafka's tools and clients know.
    pub fn kafka_message(&self) -> String {
        match self {
            Self::InvalidValue { name, value, reason } => {
                let mut reason = reason.clone();
                if let Some(first) = reason.get_mut(0..1) {
                    first.make_ascii_uppercase();
                }
                format!("Invalid value {value} for configuration {name}: {reason}")
            }
            Self::UnknownConfig { scope: "client metrics", name, .. } => {
                format!("Unknown client metrics configuration: {name}")
            }
            Self::UnknownConfig { scope, name, .. } => format!("Unknown {scope} config name: {name}"),
            other => other.to_string(),
        }
    }
}

fn suggest(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(", did you mean {name}")).unwrap_or_default()
}
