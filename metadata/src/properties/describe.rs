//! Descriptions for DescribeConfigs: value, source, synonyms, type and documentation of each config.

use std::collections::BTreeMap;

use super::ConfigMap;
use super::broker_config::BrokerConfig;
use super::group_config::{broker_property, group_value};
use super::table::{Property, Scope, lookup, properties};
use super::topic_config::topic_value;

/// Where a value comes from, with Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// An override of the topic.
    DynamicTopic = 1,
    /// A dynamic config of this broker.
    DynamicBroker = 2,
    /// A dynamic config of all brokers.
    DynamicDefaultBroker = 3,
    /// The properties file or the command line.
    StaticBroker = 4,
    /// The default.
    Default = 5,
    /// A client-metrics subscription.
    ClientMetrics = 7,
    /// An override of the group.
    Group = 8,
}

impl ConfigSource {
    /// The number on the wire.
    pub fn id(self) -> i8 {
        self as i8
    }
}

/// One place where a value could come from, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The name in that place.
    pub name: String,
    /// The value there, `None` when it must not be shown.
    pub value: Option<String>,
    /// The place.
    pub source: ConfigSource,
}

/// The description of one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value, `None` for no value or one that must not be shown.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether only a restart changes it.
    pub read_only: bool,
    /// Whether its value must not be shown.
    pub sensitive: bool,
    /// See [`PropertyType::config_type_id`](super::PropertyType::config_type_id), 0 for an unknown property.
    pub config_type: i8,
    /// Where the value could come from, if asked for.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it means or what became of it, if asked for.
    pub documentation: Option<String>,
}

/// What to describe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Describe<'a> {
    /// The names asked for, `None` for all.
    pub names: Option<&'a [String]>,
    /// Whether synonyms are asked for.
    pub synonyms: bool,
    /// Whether documentation is asked for.
    pub documentation: bool,
}

impl Describe<'_> {
    fn wants(&self, name: &str) -> bool {
        self.names.is_none_or(|names| names.is_empty() || names.iter().any(|wanted| wanted == name))
    }

    fn entry(
        &self,
        row: &Property,
        value: Option<String>,
        read_only: bool,
        synonyms: Vec<ConfigSynonym>,
    ) -> ConfigEntry {
        let sensitive = row.kind.is_sensitive();
        ConfigEntry {
            name: row.name.to_owned(),
            value: value.filter(|_| !sensitive),
            source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
            read_only,
            sensitive,
            config_type: row.kind.config_type_id(),
            synonyms: if self.synonyms { synonyms } else { Vec::new() },
            documentation: self.documentation.then(|| documentation(row)),
        }
    }

    /// A config that nobody knows: its value may be a secret.
    fn hidden(&self, name: &str, sources: &[ConfigSource]) -> ConfigEntry {
        let synonym =
            |source: &ConfigSource| ConfigSynonym { name: name.to_owned(), value: None, source: *source };
        ConfigEntry {
            name: name.to_owned(),
            value: None,
            source: sources.first().copied().unwrap_or(ConfigSource::Default),
            read_only: true,
            sensitive: true,
            config_type: 0,
            synonyms: if self.synonyms { sources.iter().map(synonym).collect() } else { Vec::new() },
            documentation: None,
        }
    }
}

fn documentation(row: &Property) -> String {
    match row.memory {
        Some(memory) => format!("{}. Memory: {memory}.", row.text),
        None => format!("{}.", row.text),
    }
}

fn shown(row: &Property, is_set: bool) -> bool {
    is_set || !(row.internal || row.only_before_4)
}

/// The configs of a topic.
pub fn describe_topic(
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    wanted: &Describe<'_>,
) -> Vec<ConfigEntry> {
    topic_entries(broker, overrides, wanted, |row| row.broker_names.first().copied())
}

/// The configs of a topic as CreateTopics tells of them: there, what only an older name gives is a source, too.
pub fn describe_new_topic(broker: &BrokerConfig, overrides: &ConfigMap) -> Vec<ConfigEntry> {
    topic_entries(broker, overrides, &Describe::default(), |row| {
        let gives = |name: &&&str| broker.value(name).is_some();
        row.broker_names.iter().find(gives).copied()
    })
}

/// Synonyms begin with the broker property that `strongest` names.
fn topic_entries(
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    wanted: &Describe<'_>,
    strongest: impl Fn(&Property) -> Option<&'static str>,
) -> Vec<ConfigEntry> {
    let rows = properties().iter().filter(|row| {
        row.scope == Scope::Topic && wanted.wants(row.name) && shown(row, overrides.contains_key(row.name))
    });
    rows.map(|row| {
        let value = topic_value(broker, overrides, row).map(|value| value.to_string());
        let mut synonyms = Vec::new();
        if overrides.contains_key(row.name) {
            synonyms.push(synonym(row, row.name, value.clone(), ConfigSource::DynamicTopic));
        }
        if let Some(strongest) = strongest(row) {
            synonyms.extend(broker_synonyms(broker, &row.broker_names, strongest));
        }
        wanted.entry(row, value, false, synonyms)
    })
    .collect()
}

/// The configs of this broker.
pub fn describe_broker(broker: &BrokerConfig, wanted: &Describe<'_>) -> Vec<ConfigEntry> {
    let is_set = |name: &str| {
        broker.written().get(name).is_some()
            || broker.dynamic().contains_key(name)
            || broker.dynamic_default().contains_key(name)
    };
    let rows = properties()
        .iter()
        .filter(|row| row.scope == Scope::Broker && wanted.wants(row.name) && shown(row, is_set(row.name)));
    let mut entries: Vec<_> = rows
        .map(|row| {
            let value = broker.value(row.name).map(ToString::to_string);
            let synonyms = broker_synonyms(broker, &broker_names(row.name), row.name);
            wanted.entry(row, value, row.is_read_only(), synonyms)
        })
        .collect();
    // Names that Kafka does not know are shown without their value, which may be a secret.
    let mut unknown: BTreeMap<&str, Vec<ConfigSource>> = BTreeMap::new();
    let layers: [(Vec<&str>, ConfigSource); 3] = [
        (broker.dynamic().keys().map(String::as_str).collect(), ConfigSource::DynamicBroker),
        (broker.dynamic_default().keys().map(String::as_str).collect(), ConfigSource::DynamicDefaultBroker),
        (broker.written().iter().map(|(name, _)| name).collect(), ConfigSource::StaticBroker),
    ];
    for (names, source) in layers {
        for name in names.into_iter().filter(|name| lookup(Scope::Broker, name).is_none()) {
            unknown.entry(name).or_default().push(source);
        }
    }
    let unknown = unknown.iter().filter(|(name, _)| wanted.wants(name));
    entries.extend(unknown.map(|(name, sources)| wanted.hidden(name, sources)));
    entries
}

/// The dynamic configs of all brokers.
pub fn describe_broker_defaults(broker: &BrokerConfig, wanted: &Describe<'_>) -> Vec<ConfigEntry> {
    let mut entries = Vec::new();
    for (name, text) in broker.dynamic_default().iter().filter(|(name, _)| wanted.wants(name)) {
        entries.push(match lookup(Scope::Broker, name) {
            Some(row) => {
                let synonyms =
                    vec![synonym(row, row.name, Some(text.clone()), ConfigSource::DynamicDefaultBroker)];
                wanted.entry(row, Some(text.clone()), row.is_read_only(), synonyms)
            }
            None => wanted.hidden(name, &[ConfigSource::DynamicDefaultBroker]),
        });
    }
    entries
}

/// The configs of a group.
pub fn describe_group(
    broker: &BrokerConfig,
    overrides: &ConfigMap,
    wanted: &Describe<'_>,
) -> Vec<ConfigEntry> {
    let rows = properties().iter().filter(|row| {
        row.scope == Scope::Group && wanted.wants(row.name) && shown(row, overrides.contains_key(row.name))
    });
    rows.map(|row| {
        let value = group_value(broker, overrides, row).map(|value| value.to_string());
        let mut synonyms = Vec::new();
        if overrides.contains_key(row.name) {
            synonyms.push(synonym(row, row.name, value.clone(), ConfigSource::Group));
        }
        match broker_property(row) {
            Some(broker_row) => synonyms.extend(broker_synonyms(broker, &[broker_row.name], broker_row.name)),
            None => {
                let default = row.default_value().map(|value| value.to_string());
                synonyms
                    .extend(default.map(|value| synonym(row, row.name, Some(value), ConfigSource::Default)));
            }
        }
        wanted.entry(row, value, false, synonyms)
    })
    .collect()
}

fn synonym(row: &Property, name: &str, value: Option<String>, source: ConfigSource) -> ConfigSynonym {
    ConfigSynonym { name: name.to_owned(), value: value.filter(|_| !row.kind.is_sensitive()), source }
}

/// The broker properties that give a value under several names, strongest first.
fn broker_names(name: &'static str) -> Vec<&'static str> {
    const GROUPS: [&[&str]; 4] = [
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ];
    let group =
        GROUPS.iter().find(|group| group.contains(&name) && name != "log.flush.scheduler.interval.ms");
    group.map_or_else(|| vec![name], |group| group.to_vec())
}

/// Every layer that has a value for one of `names`, strongest layer first, from the first that has one for `own`: as in
/// Kafka, what only an older name gives, such as `log.retention.hours`, is no source of the value.
fn broker_synonyms(broker: &BrokerConfig, names: &[&'static str], own: &str) -> Vec<ConfigSynonym> {
    let rows = || names.iter().filter_map(|name| lookup(Scope::Broker, name));
    let canonical = |row: &Property, text: &str| {
        Some(row.parse(text).map_or_else(|_| text.to_owned(), |value| value.to_string()))
    };
    let mut found = Vec::new();
    for (layer, source) in [
        (broker.dynamic(), ConfigSource::DynamicBroker),
        (broker.dynamic_default(), ConfigSource::DynamicDefaultBroker),
    ] {
        found.extend(rows().filter_map(|row| {
            layer.get(row.name).map(|text| synonym(row, row.name, canonical(row, text), source))
        }));
    }
    found.extend(rows().filter_map(|row| {
        let setting = broker.written().get(row.name)?;
        Some(synonym(row, row.name, canonical(row, &setting.value), ConfigSource::StaticBroker))
    }));
    found.extend(rows().filter_map(|row| {
        Some(synonym(row, row.name, Some(broker.default_of(row)?.to_string()), ConfigSource::Default))
    }));
    let own = found.iter().position(|synonym| synonym.name == own).unwrap_or(found.len());
    found.split_off(own)
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

    const ALL: Describe<'static> = Describe { names: None, synonyms: true, documentation: true };

    fn find(entries: Vec<ConfigEntry>, name: &str) -> ConfigEntry {
        entries.into_iter().find(|entry| entry.name == name).unwrap()
    }

    fn sources(entry: &ConfigEntry) -> Vec<(&str, &str, ConfigSource)> {
        let row = |synonym: &'_ ConfigSynonym| {
            (synonym.name.clone(), synonym.value.clone().unwrap_or_default(), synonym.source)
        };
        entry
            .synonyms
            .iter()
            .map(row)
            .map(|(name, value, source)| (&*name.leak(), &*value.leak(), source))
            .collect()
    }

    #[test]
    fn a_topics_synonyms_go_from_its_override_to_the_default() {
        let config = broker("log.retention.hours=2");
        let (config, _) =
            config.with_dynamic(&map(&[("log.retention.ms", "77")]), &map(&[("log.retention.ms", "78")]));
        let entry = find(describe_topic(&config, &map(&[("retention.ms", "79")]), &ALL), "retention.ms");
        assert_eq!(
            sources(&entry),
            [
                ("retention.ms", "79", ConfigSource::DynamicTopic),
                ("log.retention.ms", "78", ConfigSource::DynamicBroker),
                ("log.retention.ms", "77", ConfigSource::DynamicDefaultBroker),
                ("log.retention.hours", "2", ConfigSource::StaticBroker),
                ("log.retention.hours", "168", ConfigSource::Default),
            ]
        );
        assert_eq!(
            (entry.value.as_deref(), entry.source, entry.config_type),
            (Some("79"), ConfigSource::DynamicTopic, 5)
        );
        assert!(entry.documentation.unwrap().contains("for ever"));
        let entry =
            find(describe_topic(&broker("log.retention.hours=2"), &ConfigMap::new(), &ALL), "retention.ms");
        assert_eq!((entry.value.as_deref(), entry.source), (Some("7200000"), ConfigSource::Default));
        assert!(entry.synonyms.is_empty(), "hours are no source of milliseconds");
        let entry =
            find(describe_new_topic(&broker("log.retention.hours=2"), &ConfigMap::new()), "retention.ms");
        assert_eq!((entry.value.as_deref(), entry.source), (Some("7200000"), ConfigSource::StaticBroker));
    }

    #[test]
    fn a_topic_shows_what_kafka_4_shows() {
        let entries = describe_topic(&broker(""), &ConfigMap::new(), &Describe::default());
        assert_eq!(entries.len(), 41 - 3 - 1, "all but what ended with 3.9 and what is internal");
        assert!(
            entries.iter().all(|entry| entry.source == ConfigSource::Default && entry.synonyms.is_empty())
        );
        let names = ["cleanup.policy".to_owned(), "nosuch".to_owned()];
        let one = describe_topic(
            &broker(""),
            &ConfigMap::new(),
            &Describe { names: Some(&names), ..Describe::default() },
        );
        assert_eq!(one.len(), 1);
    }

    #[test]
    fn a_brokers_secrets_and_unknown_settings_are_not_shown() {
        let config = broker("ssl.key.password=secret\nmy.token=secret\nmy.own=1\nmessage.max.bytes=2MiB");
        let (config, _) = config.with_dynamic(&map(&[("my.own", "2")]), &map(&[("my.own", "3")]));
        let entries = describe_broker(&config, &ALL);
        let entry = find(entries.clone(), "my.own");
        let layers =
            [ConfigSource::DynamicBroker, ConfigSource::DynamicDefaultBroker, ConfigSource::StaticBroker];
        assert!(entry.synonyms.iter().map(|synonym| synonym.source).eq(layers));
        assert_eq!(entry.source, ConfigSource::DynamicBroker);
        for name in ["ssl.key.password", "my.token", "my.own"] {
            let entry = find(entries.clone(), name);
            assert!(entry.sensitive && entry.value.is_none());
            assert!(entry.synonyms.iter().all(|synonym| synonym.value.is_none()));
        }
        let entry = find(entries.clone(), "message.max.bytes");
        assert_eq!(
            (entry.value.as_deref(), entry.source, entry.read_only),
            (Some("2097152"), ConfigSource::StaticBroker, false)
        );
        assert!(find(entries, "num.partitions").read_only);
    }

    #[test]
    fn cluster_wide_defaults_and_groups_are_described() {
        let (config, _) = broker("").with_dynamic(&map(&[("log.retention.ms", "77")]), &ConfigMap::new());
        let entries = describe_broker_defaults(&config, &ALL);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].source, ConfigSource::DynamicDefaultBroker);
        let group = describe_group(&config, &map(&[("consumer.session.timeout.ms", "50000")]), &ALL);
        assert_eq!(find(group.clone(), "consumer.session.timeout.ms").source, ConfigSource::Group);
        assert_eq!(find(group, "share.auto.offset.reset").source, ConfigSource::Default);
    }
}
