//! Kafka's metadata as pure state: properties, records, image and controller.
//!
//! Nothing here does I/O, reads a clock or draws a random number: all three come in as arguments. The state is
//! [`image::MetadataImage`]; the controller turns a command into records and a reply, and the state changes only when
//! those records are replayed into the image.

pub mod controller;
pub mod error;
pub mod fuzz;
pub mod image;
pub mod metadata_version;
pub mod properties;
pub mod record_frame;

pub use error::MetadataError;
pub use record_frame::{MetadataRecord, VersionedRecord};
