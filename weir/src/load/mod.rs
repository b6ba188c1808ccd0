//! Load for a broker, on the protocol crate alone: connections, produce requests, fetches, latencies.
//!
//! Invariant: memory does not grow with the load. A batch is one copy that every request of every connection sends, an
//! answer is read up to a limit, latencies are counted in buckets.

pub(crate) mod client;
pub(crate) mod fetch;
pub(crate) mod latency;
pub(crate) mod produce;
#[cfg(test)]
pub(crate) mod tests;

use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::BatchError;
use weir_protocol::wire::{DecodeError, EncodeError};

/// Why a request was not answered as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The socket failed or the broker closed it.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// No answer in time.
    #[error("no answer to {api:?} within {seconds} s")]
    TimedOut {
        /// The request.
        api: ApiKey,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The answer is larger than anything that was asked for.
    #[error("an answer of {size} bytes to {api:?}, the limit is {limit}")]
    TooLarge {
        /// The request.
        api: ApiKey,
        /// The size prefix of the answer.
        size: i32,
        /// The limit.
        limit: u32,
    },
    /// The answer to another request.
    #[error("the answer has the correlation id {found}, the request {expected}")]
    Correlation {
        /// In the answer.
        found: i32,
        /// In the request.
        expected: i32,
    },
    /// The answer cannot be read.
    #[error("answer to {api:?}: {error}")]
    Decode {
        /// The request.
        api: ApiKey,
        /// What is wrong.
        error: DecodeError,
    },
    /// The request cannot be written: our fault.
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// Records that cannot be made or read.
    #[error("records: {0}")]
    Records(#[from] BatchError),
    /// The answer is an error.
    #[error("{api:?} of {what} was answered with {code}{}", message.as_ref().map(|m| format!(": {m}")).unwrap_or_default())]
    Answer {
        /// The request.
        api: ApiKey,
        /// Which topic or partition.
        what: String,
        /// The error.
        code: ErrorCode,
        /// What the broker says to it.
        message: Option<String>,
    },
}
