//! Administration over the wire: what is created, altered and deleted is what is listed and described, in the lowest
//! and the highest version of each API, and what is wrong is refused in Kafka's codes and words.

mod support;

#[path = "administration/cluster.rs"]
mod cluster;
#[path = "administration/configs.rs"]
mod configs;
#[path = "administration/fetch.rs"]
mod fetch;
#[path = "administration/offsets.rs"]
mod offsets;
#[path = "administration/topics.rs"]
mod topics;
