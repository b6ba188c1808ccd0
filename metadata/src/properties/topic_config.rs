//! The configuration of a topic: its overrides over the broker's values, resolved once into fields for the data path.

use super::ConfigMap;
use super::broker_config::BrokerConfig;
use super::dynamic::check_ceilings;
use super::suggest::nearest;
use super::table::{Property, Scope, lookup};
use super::value::{FromValue, PropertyType, Value};
use crate::MetadataError;

/// `compression.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// The codec that the producer chose.
    Producer,
    /// None.
    Uncompressed,
    /// gzip with its level, -1 for the codec's own default.
    Gzip(i32),
    /// snappy.
    Snappy,
    /// lz4 with its level.
    Lz4(i32),
    /// zstd with its level.
    Zstd(i32),
}

/// `message.timestamp.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's time.
    CreateTime,
    /// The time of the append.
    LogAppendTime,
}

/// Topic configs in effect. Names, units and meanings are Kafka's.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    missing_docs,
    reason = "each field is the config of the same name, in the unit that the name ends with"
)]
pub struct TopicConfig {
    /// `cleanup.policy` has `delete`.
    pub delete: bool,
    /// `cleanup.policy` has `compact`.
    pub compact: bool,
    pub compression_type: CompressionType,
    pub delete_retention_ms: i64,
    pub file_delete_delay_ms: i64,
    /// `flush.messages`, in records.
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub index_interval_bytes: i32,
    pub max_compaction_lag_ms: i64,
    pub max_decompressed_message_bytes: i32,
    pub max_message_bytes: i32,
    pub message_timestamp_after_max_ms: i64,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    /// -1 for no limit.
    pub retention_bytes: i64,
    /// -1 for ever.
    pub retention_ms: i64,
    /// `segment.bytes`, or `internal.segment.bytes` where that is set.
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

impl TopicConfig {
    /// Resolves `overrides` over the broker's values. An override that is not valid counts as absent: the log may have
    /// been written by another version, and [`validate_topic_configs`] keeps such values out of ours.
    pub fn resolve(broker: &BrokerConfig, overrides: &ConfigMap) -> Self {
        let resolver = Resolver { broker, overrides };
        let policy: Vec<String> = resolver.get("cleanup.policy");
        let has = |word: &str| policy.iter().any(|given| given == word);
        let internal_segment_bytes: Option<i32> = resolver.get("internal.segment.bytes");
        Self {
            delete: has("delete"),
            compact: has("compact"),
            compression_type: resolver.compression_type(),
            delete_retention_ms: resolver.get("delete.retention.ms"),
            file_delete_delay_ms: resolver.get("file.delete.delay.ms"),
            flush_messages: resolver.get("flush.messages"),
            flush_ms: resolver.get("flush.ms"),
            index_interval_bytes: resolver.get("index.interval.bytes"),
            max_compaction_lag_ms: resolver.get("max.compaction.lag.ms"),
            max_decompressed_message_bytes: resolver.get("max.decompressed.message.bytes"),
            max_message_bytes: resolver.get("max.message.bytes"),
            message_timestamp_after_max_ms: resolver.get("message.timestamp.after.max.ms"),
            message_timestamp_before_max_ms: resolver.get("message.timestamp.before.max.ms"),
            message_timestamp_type: resolver.timestamp_type(),
            min_cleanable_dirty_ratio: resolver.get("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms: resolver.get("min.compaction.lag.ms"),
            min_insync_replicas: resolver.get("min.insync.replicas"),
            preallocate: resolver.get("preallocate"),
            retention_bytes: resolver.get("retention.bytes"),
            retention_ms: resolver.get::<i64>("retention.ms").max(-1),
            segment_bytes: internal_segment_bytes.unwrap_or_else(|| resolver.get("segment.bytes")),
            segment_index_bytes: resolver.get("segment.index.bytes"),
            segment_jitter_ms: resolver.get("segment.jitter.ms"),
            segment_ms: resolver.get("segment.ms"),
            unclean_leader_election_enable: resolver.get("unclean.leader.election.enable"),
        }
    }

    /// In-sync replicas that acks=all needs for a partition of `replicas` replicas.
    pub fn effective_min_insync_replicas(&self, replicas: usize) -> usize {
        usize::try_from(self.min_insync_replicas).unwrap_or(0).min(replicas)
    }
}

struct Resolver<'a> {
    broker: &'a BrokerConfig,
    overrides: &'a ConfigMap,
}

impl Resolver<'_> {
    fn get<T: FromValue>(&self, name: &str) -> T {
        let value = lookup(Scope::Topic, name).and_then(|row| topic_value(self.broker, self.overrides, row));
        T::from_value(value.as_ref()).unwrap_or_else(|| panic!("{name} does not fit its row"))
    }

    fn compression_type(&self) -> CompressionType {
        match self.get::<String>("compression.type").as_str() {
            "uncompressed" => CompressionType::Uncompressed,
            "gzip" => CompressionType::Gzip(self.get("compression.gzip.level")),
            "snappy" => CompressionType::Snappy,
            "lz4" => CompressionType::Lz4(self.get("compression.lz4.level")),
            "zstd" => CompressionType::Zstd(self.get("compression.zstd.level")),
            _ => CompressionType::Producer,
        }
    }

    fn timestamp_type(&self) -> TimestampType {
        match self.get::<String>("message.timestamp.type").as_str() {
            "LogAppendTime" => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        }
    }
}

/// The value of a topic config: override, else the broker's value, else the default.
pub(super) fn topic_value(broker: &BrokerConfig, overrides: &ConfigMap, row: &Property) -> Option<Value> {
    if let Some(value) = overrides.get(row.name).and_then(|text| row.parse(text).ok()) {
        return Some(value);
    }
    for name in &row.broker_names {
        if let Some(value) = broker.value(name) {
            return Some(convert(name, value, row.kind));
        }
    }
    row.default_value()
}

/// A broker's value in the topic's unit and type: hours and minutes become milliseconds.
fn convert(broker_name: &str, value: &Value, kind: PropertyType) -> Value {
    let factor = if broker_name.ends_with(".hours") {
        3_600_000
    } else if broker_name.ends_with(".minutes") {
        60_000
    } else {
        1
    };
    match (value, kind) {
        (Value::Int(number), PropertyType::Long) if *number < 0 => Value::Long(-1),
        (Value::Int(number), PropertyType::Long) => Value::Long(i64::from(*number).saturating_mul(factor)),
        _ => value.clone(),
    }
}

/// Checks all configs that a topic would have after a change.
///
/// # Errors
/// The first unknown name, wrong value or conflict, in Kafka's words.
pub fn validate_topic_configs(broker: &BrokerConfig, configs: &ConfigMap) -> Result<(), MetadataError> {
    for (name, text) in configs {
        let row = lookup(Scope::Topic, name).ok_or_else(|| MetadataError::UnknownConfig {
            scope: "topic",
            name: name.clone(),
            nearest: nearest(Scope::Topic, name).map(str::to_owned),
        })?;
        let value = row.parse(text)?;
        check_ceilings(broker, name, &value)?;
        if name == "remote.storage.enable" && value == Value::Boolean(true) {
            return Err(MetadataError::Conflict(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
                    .to_owned(),
            ));
        }
    }
    let resolved = TopicConfig::resolve(broker, configs);
    let (min, max) = (resolved.min_compaction_lag_ms, resolved.max_compaction_lag_ms);
    if min > max {
        return Err(MetadataError::Conflict(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    Ok(())
}

/// The value to record for a topic config: a size with a unit becomes the number that Kafka can read.
pub fn canonical_topic_value(name: &str, text: &str) -> String {
    canonical_value(Scope::Topic, name, text)
}

pub(super) fn canonical_value(scope: Scope, name: &str, text: &str) -> String {
    let numeric = [PropertyType::Int, PropertyType::Long, PropertyType::Short];
    match lookup(scope, name) {
        Some(row) if numeric.contains(&row.kind) && text.trim().parse::<i64>().is_err() => {
            row.parse(text).map_or_else(|_| text.to_owned(), |value| value.to_string())
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::PropertySet;

    fn broker(text: &str) -> BrokerConfig {
        BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap()).unwrap().config
    }

    fn map(pairs: &[(&str, &str)]) -> ConfigMap {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn defaults_are_kafkas() {
        let config = broker("").topic_defaults();
        assert!(config.delete && !config.compact);
        assert_eq!(config.compression_type, CompressionType::Producer);
        assert_eq!(config.retention_ms, 604_800_000);
        assert_eq!(config.segment_ms, 604_800_000);
        assert_eq!(config.segment_bytes, 1 << 30);
        assert_eq!(config.max_message_bytes, 1_048_588);
        assert_eq!(config.flush_ms, i64::MAX);
        assert_eq!(config.message_timestamp_after_max_ms, 3_600_000);
    }

    #[test]
    fn the_strongest_broker_property_gives_the_default() {
        assert_eq!(broker("log.retention.hours=2").topic_defaults().retention_ms, 7_200_000);
        assert_eq!(
            broker("log.retention.hours=2\nlog.retention.minutes=3").topic_defaults().retention_ms,
            180_000
        );
        assert_eq!(broker("log.retention.minutes=3\nlog.retention.ms=5").topic_defaults().retention_ms, 5);
        assert_eq!(broker("log.retention.hours=-1").topic_defaults().retention_ms, -1);
        assert_eq!(broker("log.flush.scheduler.interval.ms=9").topic_defaults().flush_ms, 9);
        assert_eq!(broker("log.roll.jitter.hours=1").topic_defaults().segment_jitter_ms, 3_600_000);
    }

    #[test]
    fn overrides_win_over_dynamic_broker_values_and_those_over_the_file() {
        let config = broker("log.retention.hours=2");
        let (config, _) = config.with_dynamic(&map(&[("log.retention.ms", "77")]), &ConfigMap::new());
        assert_eq!(config.topic_defaults().retention_ms, 77);
        let (config, _) =
            config.with_dynamic(&map(&[("log.retention.ms", "77")]), &map(&[("log.retention.ms", "78")]));
        assert_eq!(config.topic_defaults().retention_ms, 78);
        let resolved = TopicConfig::resolve(
            &config,
            &map(&[
                ("retention.ms", "79"),
                ("compression.type", "zstd"),
                ("compression.zstd.level", "5"),
                ("internal.segment.bytes", "100"),
            ]),
        );
        assert_eq!(resolved.retention_ms, 79);
        assert_eq!(resolved.compression_type, CompressionType::Zstd(5));
        assert_eq!(resolved.segment_bytes, 100);
        assert_eq!(resolved.effective_min_insync_replicas(1), 1);
    }

    #[test]
    fn wrong_topic_configs_are_refused_with_the_limit() {
        let config = broker("");
        let message = |pairs: &[(&str, &str)]| {
            validate_topic_configs(&config, &map(pairs)).unwrap_err().kafka_message()
        };
        assert_eq!(
            message(&[("retention.ms", "-2")]),
            "Invalid value -2 for configuration retention.ms: Value must be at least -1"
        );
        assert_eq!(message(&[("nosuch.config", "1")]), "Unknown topic config name: nosuch.config");
        assert_eq!(
            message(&[("cleanup.policy", "shred")]),
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete"
        );
        assert!(
            message(&[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")])
                .contains("(5) > max.compaction.lag.ms (4)")
        );
        assert!(message(&[("remote.storage.enable", "true")]).contains("Tiered Storage"));
        assert!(message(&[("segment.bytes", "100")]).contains("at least 1048576"));
        assert!(
            validate_topic_configs(
                &config,
                &map(&[("cleanup.policy", "compact,delete"), ("max.message.bytes", "2MiB")])
            )
            .is_ok()
        );
    }

    #[test]
    fn sizes_are_recorded_as_numbers_that_kafka_reads() {
        assert_eq!(canonical_topic_value("max.message.bytes", "2MiB"), "2097152");
        assert_eq!(canonical_topic_value("max.message.bytes", " 5"), " 5");
        assert_eq!(canonical_topic_value("cleanup.policy", "compact"), "compact");
    }

    #[test]
    fn a_value_of_another_version_in_the_log_counts_as_absent() {
        let resolved =
            TopicConfig::resolve(&broker(""), &map(&[("retention.ms", "soon"), ("from.the.future", "1")]));
        assert_eq!(resolved.retention_ms, 604_800_000);
    }
}
