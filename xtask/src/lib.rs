//! Developer tasks of the workspace: Kafka's message schema, the code generated from it, and random messages for tests.

pub mod corpus;
pub mod docs;
pub mod emit;
pub mod generate;
pub mod random;
pub mod schema;
pub mod tables;
