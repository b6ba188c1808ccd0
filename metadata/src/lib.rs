//! Kafka's metadata as pure state: properties, records, image and controller.
//!
//! Nothing here does I/O, reads a clock or draws a random number: all three come in as arguments. The state is
//! [`image::MetadataImage`]; the controller turns a command into records and a reply, and the state changes only when
//! those records are replayed into the image.

pub mod error;
pub mod properties;

pub use error::MetadataError;
