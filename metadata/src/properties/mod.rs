//! The property table and what is read from it: validation, typed access, resolution, descriptions.
//!
//! One table (`table/*.txt`) names every property a broker meets, with type, default, range, how it may change, what
//! weir does with it and what it costs in memory. Start-up, `DescribeConfigs`, `weir plan`, `weir doctor` and the docs
//! read the same rows. A new property is one line there and, where code reads it, one line in `keys.rs`.

mod broker_config;
mod check;
mod describe;
mod dynamic;
mod file;
mod group_config;
pub mod keys;
mod listeners;
mod markdown;
mod suggest;
mod table;
mod topic_config;
mod value;

pub use broker_config::{BrokerConfig, Ceilings, Loaded, Note, NoteLevel, StartErrors};
pub use describe::{
    ConfigEntry, ConfigSource, ConfigSynonym, Describe, describe_broker, describe_broker_defaults,
    describe_group, describe_new_topic, describe_topic,
};
pub use dynamic::{
    ConfigOp, apply_config_op, validate_broker_configs, validate_client_metrics_configs,
    validate_group_configs,
};
pub use file::{Origin, PropertySet, Setting};
pub use group_config::GroupConfig;
pub use keys::Key;
pub use listeners::{Listener, Listeners, SecurityProtocol};
pub use markdown::to_markdown;
pub use suggest::nearest;
pub use table::{Change, Handling, Importance, Property, Scope, lookup, properties};
pub use topic_config::{
    CompressionType, TimestampType, TopicConfig, canonical_topic_value, validate_topic_configs,
};
pub use value::{FromValue, PropertyType, Range, Value};

/// Overrides of one config resource by name, as they stand in the metadata log.
pub type ConfigMap = imbl::OrdMap<String, String>;
