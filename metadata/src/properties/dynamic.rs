//! Changes of configs: the four operations of IncrementalAlterConfigs, and what a broker, group or subscription takes.

use std::collections::HashSet;

use super::ConfigMap;
use super::broker_config::BrokerConfig;
use super::group_config::group_value;
use super::suggest::nearest;
use super::table::{Change, Property, Scope, lookup};
use super::topic_config::canonical_value;
use super::value::{PropertyType, Range, Value};
use crate::MetadataError;

/// One operation on one config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOp {
    /// Give it a value.
    Set,
    /// Take its override away.
    Delete,
    /// Add elements to a list.
    Append,
    /// Take elements from a list.
    Subtract,
}

impl ConfigOp {
    /// The operation of a number on the wire.
    pub fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Set),
            1 => Some(Self::Delete),
            2 => Some(Self::Append),
            3 => Some(Self::Subtract),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Delete => "DELETE",
            Self::Append => "APPEND",
            Self::Subtract => "SUBTRACT",
        }
    }
}

/// The override that `operation` leaves, `None` for no override. Sizes with a unit become plain numbers.
///
/// # Errors
/// APPEND or SUBTRACT on a config that is not a list.
pub fn apply_config_op(
    scope: Scope,
    name: &str,
    current: Option<&str>,
    operation: ConfigOp,
    value: Option<&str>,
) -> Result<Option<String>, MetadataError> {
    let value = value.unwrap_or_default();
    match operation {
        ConfigOp::Set => Ok(Some(canonical_value(scope, name, value))),
        ConfigOp::Delete => Ok(None),
        ConfigOp::Append | ConfigOp::Subtract => {
            // Kafka knows none of a group's configs as a list here.
            let is_list = |row: &&Property| row.kind == PropertyType::List && scope != Scope::Group;
            let row = lookup(scope, name).filter(is_list).ok_or_else(|| {
                let operation = operation.name();
                MetadataError::Conflict(match scope {
                    Scope::Broker if lookup(scope, name).is_none() => format!("Unknown config name: {name}"),
                    Scope::Broker => format!(
                        "Config value {} is not allowed for config key: {name}",
                        operation.to_lowercase()
                    ),
                    _ => format!("Can't {operation} to key {name} because its type is not LIST."),
                })
            })?;
            let old = current.or(row.default).unwrap_or_default();
            let mut parts: Vec<&str> = old.split(',').filter(|part| !part.is_empty()).collect();
            for part in split_as_java(value) {
                if operation == ConfigOp::Subtract {
                    if let Some(index) = parts.iter().position(|old| *old == part) {
                        parts.remove(index);
                    }
                } else if !parts.contains(&part) {
                    parts.push(part);
                }
            }
            Ok(Some(parts.join(",")))
        }
    }
}

/// The elements of a list as Java's `split` tells them: empty ones at the end are none, unless the whole text is empty.
fn split_as_java(text: &str) -> impl Iterator<Item = &str> {
    let is_list = text.is_empty() || text.contains(|c| c != ',');
    let text = if text.is_empty() { text } else { text.trim_end_matches(',') };
    text.split(',').filter(move |_| is_list)
}

/// Refuses a value that the memory plan of the running server has no room for.
pub(super) fn check_ceilings(broker: &BrokerConfig, name: &str, value: &Value) -> Result<(), MetadataError> {
    let ceilings = broker.ceilings();
    let (limit, what, property, also) = match name {
        // Kafka's default stands for no limit of one's own.
        "max.connections" if *value == Value::Int(i32::MAX) => return Ok(()),
        "max.connections" => {
            (ceilings.connections, "connections", name, " and the limit on descriptors (ulimit -n)")
        }
        "message.max.bytes" | "max.message.bytes" => {
            (ceilings.batch_bytes, "bytes of one batch", "message.max.bytes", "")
        }
        _ => return Ok(()),
    };
    match value {
        Value::Int(wanted) if u64::try_from(*wanted).is_ok_and(|wanted| wanted > limit) => {
            Err(MetadataError::InvalidValue {
                name: name.to_owned(),
                value: value.to_string(),
                reason: format!(
                    "there is room for {limit} {what} in memory.budget.bytes={}{also}; {property}={wanted} at a start makes \
                     that room, with larger ones where it then does not fit",
                    broker.memory_budget_bytes()
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Checks all dynamic configs that this broker (`per_broker`) or all brokers would have after a change. Names that
/// Kafka does not know are taken, as Kafka takes them.
///
/// # Errors
/// A config that only a restart changes, one that belongs to a single broker, or a wrong value.
pub fn validate_broker_configs(
    broker: &BrokerConfig,
    configs: &ConfigMap,
    per_broker: bool,
) -> Result<(), MetadataError> {
    let refuse = |names: Vec<&str>, text: &str| {
        if names.is_empty() {
            Ok(())
        } else {
            Err(MetadataError::Conflict(format!("{text}: [{}]", names.join(", "))))
        }
    };
    let those = |matches: fn(&Property) -> bool| {
        let matches = move |name: &&str| lookup(Scope::Broker, name).is_some_and(matches);
        configs.keys().map(String::as_str).filter(matches).collect::<Vec<_>>()
    };
    refuse(those(Property::is_read_only), "Cannot update these configs dynamically")?;
    // Those of SASL may stand without a prefix, those of TLS may not.
    let security = |name: &&str| name.starts_with("ssl.");
    refuse(
        configs.keys().map(String::as_str).filter(security).collect(),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )?;
    for (name, text) in configs {
        if let Some(row) = lookup(Scope::Broker, name) {
            check_ceilings(broker, name, &row.parse(text)?)?;
        }
    }
    if !per_broker {
        let mut own = those(|row| row.change == Change::PerBroker);
        own.extend(configs.keys().map(String::as_str).filter(|name| name.starts_with("listener.name.")));
        refuse(own, "Cannot update these configs at default cluster level, broker id must be specified")?;
    }
    Ok(())
}

/// Configs of groups for which the broker has a least or a largest value, in the order in which Kafka looks at them.
const BOUNDED_IN_GROUPS: [(&str, &str); 15] = [
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("share", "assignment.interval.ms"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "num.standby.replicas"),
    ("streams", "assignment.interval.ms"),
    ("streams", "task.offset.interval.ms"),
    ("streams", "num.warmup.replicas"),
];

/// Checks all configs that a group would have after a change.
///
/// # Errors
/// An unknown name, a wrong value, a time-out outside the broker's bounds, or what Kafka's own check of a group names.
pub fn validate_group_configs(broker: &BrokerConfig, configs: &ConfigMap) -> Result<(), MetadataError> {
    let mut rows = Vec::with_capacity(configs.len());
    for (name, text) in configs {
        let row = lookup(Scope::Group, name).ok_or_else(|| MetadataError::UnknownConfig {
            scope: "group",
            name: name.clone(),
            nearest: nearest(Scope::Group, name).map(str::to_owned),
        })?;
        rows.push((row, text));
    }
    let conflict = |text: String| Err(MetadataError::Conflict(text));
    const TAGS: &str = "streams.rack.aware.assignment.tags";
    if let Some(tags) = configs.get(TAGS).map(|tags| tags.trim()).filter(|tags| !tags.is_empty()) {
        let mut seen = HashSet::new();
        if !tags.split(',').all(|tag| seen.insert(tag.trim())) {
            return conflict(format!("{TAGS} must not contain duplicate tag keys."));
        }
    }
    for (row, text) in rows {
        row.parse(text)?;
    }
    let number =
        |name: &str| match lookup(Scope::Group, name).and_then(|row| group_value(broker, configs, row)) {
            Some(Value::Int(number)) => Some(i64::from(number)),
            _ => None,
        };
    let limit = |name: &str| match broker.value(name) {
        Some(Value::Int(number)) => Some(i64::from(*number)),
        _ => None,
    };
    for (protocol, setting) in BOUNDED_IN_GROUPS {
        let name = format!("{protocol}.{setting}");
        let Some(value) = number(&name).filter(|_| configs.contains_key(&name)) else { continue };
        let setting = setting.strip_prefix("num.").unwrap_or(setting);
        let min = limit(&format!("group.{protocol}.min.{setting}"));
        let max = limit(&format!("group.{protocol}.max.{setting}"));
        if min.is_none_or(|min| min <= value) && max.is_none_or(|max| value <= max) {
            continue;
        }
        return Err(MetadataError::Conflict(match (min, max) {
            (Some(min), Some(max)) => format!("{name} must be in the range {min} to {max} inclusive."),
            (_, Some(max)) => format!("{name} must be less than or equal to {max}"),
            (min, None) => format!("{name} must be greater than or equal to {}", min.unwrap_or_default()),
        }));
    }
    if let Some(assignor) = configs.get("streams.assignor.name")
        && let Some(Value::List(known)) = broker.value("group.streams.assignors")
        // The name of a class is known to whoever can load it.
        && !known.iter().any(|name| name == assignor || name.contains('.'))
    {
        return conflict(format!(
            "streams.assignor.name '{assignor}' is not a registered task assignor. Registered assignors are: [{}].",
            known.join(", ")
        ));
    }
    for protocol in ["consumer", "share", "streams"] {
        let (session, heartbeat) =
            (format!("{protocol}.session.timeout.ms"), format!("{protocol}.heartbeat.interval.ms"));
        if number(&session) <= number(&heartbeat) {
            return conflict(format!("{session} must be greater than {heartbeat}"));
        }
    }
    if configs.get("errors.deadletterqueue.topic.name").is_some_and(|name| name.trim().starts_with("__")) {
        return conflict(
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'".to_owned(),
        );
    }
    Ok(())
}

/// Names that a client-metrics subscription may match on.
const MATCH_NAMES: [&str; 6] = [
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// Checks all configs that a client-metrics subscription would have after a change.
///
/// # Errors
/// An unknown name, a number out of its range, or as a conflict what Kafka takes for a wrong config: a word for a number,
/// and a match that is not `name=pattern`.
pub fn validate_client_metrics_configs(configs: &ConfigMap) -> Result<(), MetadataError> {
    for (name, text) in configs {
        let row = lookup(Scope::ClientMetrics, name).ok_or_else(|| MetadataError::UnknownConfig {
            scope: "client metrics",
            name: name.clone(),
            nearest: nearest(Scope::ClientMetrics, name).map(str::to_owned),
        })?;
        Value::parse(row.name, row.kind, &Range::Any, text)
            .map_err(|error| MetadataError::Conflict(error.kafka_message()))?;
        let value = row.parse(text)?;
        if let (Value::List(patterns), "match") = (&value, row.name) {
            for pattern in patterns {
                let known = pattern.split_once('=').is_some_and(|(name, pattern)| {
                    MATCH_NAMES.contains(&name.trim()) && !pattern.is_empty() && !pattern.contains('=')
                });
                if !known {
                    return Err(MetadataError::Conflict(format!(
                        "Illegal client matching pattern: {pattern}"
                    )));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::{Ceilings, validate_topic_configs};

    fn map(pairs: &[(&str, &str)]) -> ConfigMap {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn lists_grow_and_shrink_from_their_default() {
        let op = |current, op, value| {
            apply_config_op(Scope::Topic, "cleanup.policy", current, op, Some(value)).unwrap()
        };
        assert_eq!(op(None, ConfigOp::Append, "compact").as_deref(), Some("delete,compact"));
        assert_eq!(
            op(Some("delete,compact"), ConfigOp::Append, "compact").as_deref(),
            Some("delete,compact")
        );
        assert_eq!(op(Some("delete,compact"), ConfigOp::Subtract, "delete").as_deref(), Some("compact"));
        for (value, appended) in [
            ("compact,", "delete,compact"),
            ("compact,,", "delete,compact"),
            (",compact", "delete,,compact"),
            (",", "delete"),
            ("", "delete,"),
        ] {
            assert_eq!(op(None, ConfigOp::Append, value).as_deref(), Some(appended), "{value}");
        }
        assert_eq!(op(Some("compact"), ConfigOp::Delete, "").as_deref(), None);
        assert_eq!(op(None, ConfigOp::Set, "compact").as_deref(), Some("compact"));
        let error =
            apply_config_op(Scope::Topic, "retention.ms", None, ConfigOp::Append, Some("1")).unwrap_err();
        assert_eq!(error.kafka_message(), "Can't APPEND to key retention.ms because its type is not LIST.");
        let tags = "streams.rack.aware.assignment.tags";
        assert!(apply_config_op(Scope::Group, tags, None, ConfigOp::Append, Some("a")).is_err());
        let error = apply_config_op(Scope::Broker, "log.retention.ms", None, ConfigOp::Subtract, Some("1"))
            .unwrap_err();
        assert_eq!(
            error.kafka_message(),
            "Config value subtract is not allowed for config key: log.retention.ms"
        );
        let size =
            apply_config_op(Scope::Broker, "message.max.bytes", None, ConfigOp::Set, Some("1MiB")).unwrap();
        assert_eq!(size.as_deref(), Some("1048576"));
    }

    #[test]
    fn brokers_take_only_what_may_change_while_they_run() {
        let broker = BrokerConfig::embedded().unwrap().config;
        let message = |pairs: &[(&str, &str)], own| {
            validate_broker_configs(&broker, &map(pairs), own).unwrap_err().kafka_message()
        };
        assert_eq!(
            message(&[("num.partitions", "3")], true),
            "Cannot update these configs dynamically: [num.partitions]"
        );
        assert!(message(&[("listeners", "PLAINTEXT://:1")], true).contains("[listeners]"));
        assert!(message(&[("principal.builder.class", "x")], false).contains("broker id must be specified"));
        assert!(message(&[("ssl.keystore.type", "PEM")], true).contains("listener prefix"));
        let relogin = map(&[("sasl.kerberos.min.time.before.relogin", "58000")]);
        assert!(validate_broker_configs(&broker, &relogin, true).is_ok());
        assert!(message(&[("message.max.bytes", "-1")], false).contains("at least 0"));
        assert!(
            validate_broker_configs(
                &broker,
                &map(&[("message.max.bytes", "1"), ("my.custom", "x"), ("log.retention.ms", "5")]),
                false
            )
            .is_ok()
        );
    }

    #[test]
    fn what_the_memory_plan_has_no_room_for_is_refused_with_the_room_that_it_has() {
        let ceilings = Ceilings { connections: 1000, batch_bytes: 5_000_000 };
        let broker = BrokerConfig::embedded().unwrap().config.with_ceilings(ceilings);
        let check = |name: &str, value: &str| validate_broker_configs(&broker, &map(&[(name, value)]), false);
        let message = check("max.connections", "1001").unwrap_err().kafka_message();
        assert!(message.contains("1001") && message.contains("room for 1000 connections"), "{message}");
        assert!(message.contains("ulimit -n"), "descriptors may be what there is too little of: {message}");
        for (name, value) in [
            ("max.connections", "1000"),
            ("max.connections", "2147483647"),
            ("message.max.bytes", "5000000"),
            ("max.connections.per.ip", "1001"),
        ] {
            assert!(check(name, value).is_ok(), "{name}={value}");
        }
        assert!(check("message.max.bytes", "5000001").is_err());
        let topic = validate_topic_configs(&broker, &map(&[("max.message.bytes", "6MiB")])).unwrap_err();
        let topic = topic.to_string();
        for part in
            ["6291456", "room for 5000000", "memory.budget.bytes=268435456", "message.max.bytes=6291456"]
        {
            assert!(topic.contains(part), "{topic}");
        }
        let (changed, _) = broker.with_dynamic(&ConfigMap::new(), &ConfigMap::new());
        assert_eq!(changed.ceilings(), ceilings);
    }

    #[test]
    fn groups_stay_inside_the_brokers_bounds() {
        let broker = BrokerConfig::embedded().unwrap().config;
        let message = |pairs: &[(&str, &str)]| {
            validate_group_configs(&broker, &map(pairs)).unwrap_err().kafka_message()
        };
        assert_eq!(message(&[("nosuch", "1")]), "Unknown group config name: nosuch");
        assert_eq!(
            message(&[("consumer.session.timeout.ms", "1")]),
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."
        );
        assert_eq!(
            message(&[("streams.num.standby.replicas", "3")]),
            "streams.num.standby.replicas must be less than or equal to 2"
        );
        assert_eq!(
            message(&[("streams.task.offset.interval.ms", "1")]),
            "streams.task.offset.interval.ms must be greater than or equal to 15000"
        );
        assert!(validate_group_configs(&broker, &map(&[("consumer.session.timeout.ms", "50000")])).is_ok());
    }

    #[test]
    fn groups_name_what_the_broker_has() {
        let broker = BrokerConfig::embedded().unwrap().config;
        let check = |name: &str, value: &str| {
            validate_group_configs(&broker, &map(&[(name, value)])).map_err(|error| error.kafka_message())
        };
        assert_eq!(
            check("streams.assignor.name", "nosuch").unwrap_err(),
            "streams.assignor.name 'nosuch' is not a registered task assignor. Registered assignors are: [sticky]."
        );
        assert!(check("streams.assignor.name", "sticky").is_ok());
        assert_eq!(
            check("streams.rack.aware.assignment.tags", "a, b ,a").unwrap_err(),
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys."
        );
        assert!(check("streams.rack.aware.assignment.tags", "a,b").is_ok());
        assert_eq!(
            check("errors.deadletterqueue.topic.name", "__dlq").unwrap_err(),
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"
        );
        assert!(check("errors.deadletterqueue.topic.name", "").is_ok());
    }

    #[test]
    fn client_metrics_subscriptions_are_checked() {
        assert!(
            validate_client_metrics_configs(&map(&[
                ("interval.ms", "100"),
                ("metrics", "a,b"),
                ("match", "client_id=.*")
            ]))
            .is_ok()
        );
        assert!(validate_client_metrics_configs(&map(&[("interval.ms", "99")])).is_err());
        assert!(validate_client_metrics_configs(&map(&[("match", "shoe_size=44")])).is_err());
        assert!(validate_client_metrics_configs(&map(&[("nosuch", "1")])).is_err());
    }
}
