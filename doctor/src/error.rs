//! Why evidence could not be read at all. Evidence that is damaged in part is read as far as it goes instead.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The content is of no kind that is known here.
    #[error("{path} is no heap dump: it begins with {found}")]
    NotAHeapDump {
        /// The file.
        path: PathBuf,
        /// The first bytes, made printable.
        found: String,
    },
    /// A heap dump of a kind that is not analysed.
    #[error("{path} is a heap dump of format {version}: {reason}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The version that the header names.
        version: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The header is cut off or makes no sense.
    #[error("{path}: the header of the heap dump is damaged: {reason}")]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the value.
        reason: String,
    },
}

impl DoctorError {
    /// Whether the same call can succeed later: only what the system refused can.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }
}
