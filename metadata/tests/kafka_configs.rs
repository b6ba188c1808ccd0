//! What `kafka-configs --describe --all` of Kafka 4.4.0 prints for a broker, topics and a group, against our
//! descriptions of the same properties and overrides.

use std::collections::BTreeMap;
use std::path::Path;

use weir_metadata::image::{MetadataImage, resource_type};
use weir_metadata::properties::{
    BrokerConfig, ConfigEntry, ConfigSource, Describe, PropertySet, Scope, describe_broker,
    describe_broker_defaults, describe_group, describe_topic, lookup,
};
use weir_protocol::messages::ConfigRecord;

fn read(file: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kafka-4.4.0-configs");
    std::fs::read_to_string(directory.join(file)).unwrap()
}

/// Name to value, whether it is sensitive, and synonyms, as printed.
fn printed(file: &str) -> BTreeMap<String, (String, bool, String)> {
    let text = read(file);
    let rows = text.lines().filter(|line| line.starts_with("  ")).map(|line| {
        let (head, synonyms) = line.trim().rsplit_once(" synonyms=").unwrap();
        let (setting, sensitive) = head.rsplit_once(" sensitive=").unwrap();
        let (name, value) = setting.split_once('=').unwrap();
        (name.to_owned(), (value.to_owned(), sensitive == "true", synonyms.to_owned()))
    });
    rows.collect()
}

fn source_name(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
        ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
        ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
        ConfigSource::Default => "DEFAULT_CONFIG",
        ConfigSource::ClientMetrics => "CLIENT_METRICS_CONFIG",
        ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
    }
}

fn ours(entries: Vec<ConfigEntry>) -> BTreeMap<String, (String, bool, String)> {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    let rows = entries.into_iter().map(|entry| {
        let synonyms: Vec<String> = entry
            .synonyms
            .into_iter()
            .map(|synonym| {
                format!("{}:{}={}", source_name(synonym.source), synonym.name, shown(synonym.value))
            })
            .collect();
        (entry.name, (shown(entry.value), entry.sensitive, format!("{{{}}}", synonyms.join(", "))))
    });
    rows.collect()
}

/// The overrides that stood when Kafka printed.
fn image() -> MetadataImage {
    let mut image = MetadataImage::empty();
    let mut set = |kind: i8, resource: &str, name: &str, value: &str| {
        let record = ConfigRecord {
            resource_type: kind,
            resource_name: resource.to_owned(),
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..ConfigRecord::default()
        };
        image.apply(&record.into(), image.last_offset() + 1).unwrap();
    };
    set(resource_type::TOPIC, "tuned", "cleanup.policy", "compact,delete");
    set(resource_type::TOPIC, "tuned", "segment.ms", "60000");
    set(resource_type::TOPIC, "later", "max.message.bytes", "5000");
    set(resource_type::BROKER, "", "message.max.bytes", "2000000");
    set(resource_type::BROKER, "1", "log.retention.ms", "86400000");
    set(resource_type::GROUP, "g1", "consumer.session.timeout.ms", "50000");
    image
}

fn broker() -> BrokerConfig {
    let set = PropertySet::parse(read("server.properties").as_bytes()).unwrap();
    let config = BrokerConfig::from_properties(&set).unwrap().config;
    let image = image();
    let (config, notes) = config.with_dynamic(&image.configs().broker_default(), &image.configs().broker(1));
    assert!(notes.is_empty(), "{notes:?}");
    config
}

const ALL: Describe<'static> = Describe { names: None, synonyms: true, documentation: false };

#[test]
fn topics_are_described_as_kafka_describes_them() {
    for topic in ["tuned", "later"] {
        let kafkas = printed(&format!("topic-{topic}.txt"));
        let mut ours = ours(describe_topic(&broker(), &image().configs().topic(topic), &ALL));
        for (name, (_, _, synonyms)) in &mut ours {
            // Kafka leaves the weaker broker properties out of a topic's synonyms unless the strongest has a value.
            let strongest = lookup(Scope::Topic, name).unwrap().broker_names.first().copied();
            if let Some(strongest) =
                strongest.filter(|strongest| !synonyms.contains(&format!(":{strongest}=")))
            {
                let own = synonyms.trim_matches(['{', '}']).split(", ");
                let own: Vec<&str> = own.filter(|synonym| synonym.contains("TOPIC_CONFIG")).collect();
                *synonyms = format!("{{{}}}", own.join(", "));
                assert!(strongest.ends_with("ms"), "{strongest}");
            }
        }
        assert_eq!(ours, kafkas);
    }
}

#[test]
fn a_broker_is_described_as_kafka_describes_it() {
    let kafkas = printed("broker.txt");
    let mut ours = ours(describe_broker(&broker(), &ALL));
    for name in ["node.id", "process.roles", "controller.listener.names"] {
        // Required in Kafka; here they have a default.
        let synonyms = &mut ours.get_mut(name).unwrap().2;
        *synonyms = format!("{}}}", synonyms.split(", DEFAULT_CONFIG:").next().unwrap());
    }
    // With a fixed window of 100 KiB a produced byte costs the broker a third more.
    let window = ours.remove("socket.receive.buffer.bytes").unwrap();
    assert!(window.2.contains("-1"), "{window:?}");
    let mut differing = Vec::new();
    for (name, row) in &ours {
        match kafkas.get(name) {
            Some(kafkas) if row != kafkas => differing.push((name, row, kafkas)),
            Some(_) => {}
            None => assert!(
                lookup(Scope::Broker, name).is_some_and(|row| row.own),
                "{name} is not known to Kafka"
            ),
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    let missing: Vec<_> = kafkas.keys().filter(|name| !ours.contains_key(*name)).collect();
    assert_eq!(missing, ["socket.receive.buffer.bytes"]);
}

#[test]
fn groups_and_broker_defaults_are_described_as_kafka_describes_them() {
    let group = ours(describe_group(&broker(), &image().configs().of(resource_type::GROUP, "g1"), &ALL));
    let kafkas = printed("group.txt");
    for (name, row) in &kafkas {
        assert_eq!(group.get(name), Some(row), "{name}");
    }
    assert_eq!(group.len(), kafkas.len(), "{group:?}");
    assert_eq!(ours(describe_broker_defaults(&broker(), &ALL)), printed("default.txt"));
}
