//! Heap dumps in the HPROF format, versions 1.0.1 and 1.0.2, as a stream of records that is never held.
//!
//! [`Origin`] is the file, [`Walk`] goes over its records and shows them to a [`Visitor`]. Everything is u64, no length is
//! believed before its bytes are there, arrays pass in pieces. Input is untrusted.

mod gzip;
mod inflate;
mod pipe;
mod source;
mod split;
mod visitor;
mod walk;
mod window;

pub use source::{Origin, Reader};
pub use split::{Part, split};
pub(crate) use visitor::number;
pub use visitor::{ClassDump, FieldType, Fields, Reading, Root, Statics, Visitor};
pub use walk::{Place, Problem, Walk};

use crate::DoctorError;

/// The first bytes of every heap dump.
pub const MAGIC: &[u8] = b"JAVA PROFILE 1.0.";

/// Whether content that begins with `head` is a heap dump.
pub fn is_heap_dump(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// What stands before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The last number of the version 1.0.x: 1 or 2.
    pub version: u8,
    /// Bytes of an object's id: 4 or 8.
    pub id_bytes: usize,
    /// When the dump was begun, milliseconds since 1970.
    pub time_ms: u64,
    /// Bytes of the header itself.
    pub size_bytes: u64,
}

impl Header {
    /// Reads the header. Input is untrusted.
    pub fn read(origin: &Origin) -> Result<Self, DoctorError> {
        let path = || origin.path().to_path_buf();
        let mut head = [0; 64];
        let count =
            origin.reader().fill(0, &mut head).map_err(|error| DoctorError::io(origin.path(), error))?;
        let head = head.get(..count).unwrap_or_default();
        if !is_heap_dump(head) {
            let found = head.get(..head.len().min(24)).unwrap_or_default();
            let found = match found.is_empty() {
                true => "nothing".to_string(),
                false => format!("\"{}\"", found.escape_ascii()),
            };
            return Err(DoctorError::NotAHeapDump { path: path(), found });
        }
        let damaged = |reason: String| DoctorError::Header { path: path(), reason };
        let Some(nul) = head.iter().position(|byte| *byte == 0) else {
            return Err(damaged("the version does not end".into()));
        };
        let version = head.get(MAGIC.len()..nul).unwrap_or_default();
        let number = match version {
            b"1" => 1,
            b"2" => 2,
            b"3" => {
                let reason =
                    "Android's dumps have none of the JVM's buffer caches; this reads dumps of a JVM";
                return Err(DoctorError::Unsupported { path: path(), version: "1.0.3".into(), reason });
            }
            other => {
                let version = format!("1.0.{}", other.escape_ascii());
                let reason = "1.0.1 and 1.0.2 are known";
                return Err(DoctorError::Unsupported { path: path(), version, reason });
            }
        };
        let rest = head.get(nul + 1..).unwrap_or_default();
        let (Some(id_bytes), Some(time_ms)) = (rest.first_chunk::<4>(), rest.get(4..12)) else {
            return Err(damaged(format!("it ends after {count} bytes")));
        };
        let id_bytes = u32::from_be_bytes(*id_bytes);
        if id_bytes != 4 && id_bytes != 8 {
            return Err(damaged(format!("an id of {id_bytes} bytes; 4 and 8 are known")));
        }
        let time_ms = time_ms.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Ok(Self { version: number, id_bytes: id_bytes as usize, time_ms, size_bytes: nul as u64 + 13 })
    }
}
