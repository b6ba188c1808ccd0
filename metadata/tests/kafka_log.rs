//! A metadata log that Kafka 4.4.0 wrote at level 3.9-IV0: formatted with a SCRAM user, topics made, changed and
//! deleted, configs of every kind set and taken away, quotas, a stop, a start, a snapshot.

use std::path::Path;

use weir_metadata::image::{
    ConfigResourceName, MetadataDelta, MetadataImage, MetadataReplay, Provenance, resource_type,
};
use weir_metadata::{MetadataRecord, VersionedRecord};
use weir_protocol::messages::TopicRecord;
use weir_protocol::wire::{Reader, Uuid};

const DIRECTORY: &str = "tests/fixtures/kafka-4.4.0-level-21";
const LOG: &str = "00000000000000000000.log";
const SNAPSHOT: &str = "00000000000000000090-0000000002.checkpoint";
const BOOTSTRAP: &str = "00000000000000000000-0000000000.checkpoint";

/// Offset, epoch, time and value of each record that is not a control record.
fn values(file: &str) -> Vec<(i64, i32, i64, Vec<u8>)> {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(DIRECTORY).join(file)).unwrap();
    let mut found = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let number = |at: usize, length: usize| {
            rest[at..at + length].iter().fold(0i64, |n, b| (n << 8) | i64::from(*b))
        };
        let (base_offset, length) = (number(0, 8), number(8, 4));
        let (epoch, attributes, time, count) = (number(12, 4), number(21, 2), number(35, 8), number(57, 4));
        assert_eq!(rest[16], 2, "magic");
        let end = 12 + usize::try_from(length).unwrap();
        let mut r = Reader::new(&rest[61..end], 1 << 20);
        for _ in 0..count {
            r.varint().unwrap();
            r.i8().unwrap();
            r.varlong().unwrap();
            let offset = base_offset + i64::from(r.varint().unwrap());
            let key = r.varint().unwrap();
            let is_control = attributes & 0x20 != 0;
            assert_eq!(key >= 0, is_control, "only control records have keys");
            r.take(usize::try_from(key).unwrap_or(0)).unwrap();
            let length = r.varint().unwrap();
            let value = r.take(usize::try_from(length).unwrap()).unwrap().to_vec();
            assert_eq!(r.varint().unwrap(), 0, "no headers");
            if !is_control {
                found.push((offset, i32::try_from(epoch).unwrap(), time, value));
            }
        }
        rest = &rest[end..];
    }
    found
}

fn image_below(end_offset: i64) -> MetadataImage {
    let mut replay = MetadataReplay::default();
    for (offset, epoch, time, value) in values(LOG).into_iter().filter(|(offset, ..)| *offset < end_offset) {
        let record = VersionedRecord::decode(&value, 1 << 20).unwrap();
        replay.apply(&record.record, offset).unwrap();
        replay.set_batch(epoch, time);
    }
    assert_eq!(replay.open_transaction(), None);
    replay.image().clone()
}

fn snapshot() -> MetadataImage {
    let records = values(SNAPSHOT).into_iter().map(|(.., value)| VersionedRecord::decode(&value, 1 << 20));
    let provenance =
        Provenance { last_contained_offset: 89, last_contained_epoch: 2, last_contained_log_time_ms: -1 };
    MetadataImage::from_snapshot(records, provenance).unwrap()
}

#[test]
fn every_record_decodes_and_encodes_to_the_same_bytes() {
    for file in [LOG, SNAPSHOT, BOOTSTRAP] {
        let values = values(file);
        assert!(!values.is_empty(), "{file}");
        for (offset, .., value) in values {
            let record = VersionedRecord::decode(&value, 1 << 20).unwrap();
            assert_eq!(record.to_bytes().unwrap(), value, "{file} at {offset}: {}", record.record.name());
        }
    }
}

#[test]
fn our_version_of_each_record_is_the_one_that_kafka_wrote() {
    for file in [LOG, SNAPSHOT, BOOTSTRAP] {
        for (offset, .., value) in values(file) {
            let record = VersionedRecord::decode(&value, 1 << 20).unwrap();
            assert_eq!(record.record.clone().at_level(21), record, "{file} at {offset}");
        }
    }
}

#[test]
fn the_image_is_what_was_done() {
    let image = image_below(i64::MAX);
    assert_eq!(image.features().metadata_version(), 21);
    let names: Vec<_> = image.topics().iter().map(|topic| (topic.name(), topic.partitions().len())).collect();
    assert_eq!(names[..1], [("later", 40)]);
    for expected in [("plain", 5), ("tuned", 1)] {
        assert!(names.contains(&expected), "{names:?}");
    }
    assert!(image.topics().by_name("doomed").is_none());
    assert!(image.configs().topic("doomed").is_empty());
    let tuned = image.configs().topic("tuned");
    assert_eq!(tuned.get("cleanup.policy").map(String::as_str), Some("compact,delete"));
    assert_eq!(tuned.get("segment.ms").map(String::as_str), Some("60000"));
    assert_eq!(tuned.get("retention.ms"), None);
    assert_eq!(image.configs().topic("later").get("max.message.bytes").map(String::as_str), Some("5000"));
    assert_eq!(
        image.configs().broker_default().get("message.max.bytes").map(String::as_str),
        Some("2000000")
    );
    assert_eq!(image.configs().broker(1).get("log.retention.ms").map(String::as_str), Some("86400000"));
    assert_eq!(image.configs().of(resource_type::CLIENT_METRICS, "sub1").len(), 2);
    assert_eq!(image.security().quotas().len(), 2);
    assert_eq!(image.security().credentials().len(), 1);
    assert_eq!(image.cluster().controllers().len(), 1);
    let broker = image.cluster().broker(1).unwrap();
    assert_eq!((broker.broker_epoch, broker.fenced), (41, true), "it was stopped");
    let plain = image.topics().by_name("plain").unwrap();
    let partition = plain.partition(0).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch, partition.partition_epoch), (-1, 3, 3));
    assert_eq!(partition.directories.len(), 1);
}

/// The records of an image or a snapshot, features sorted, in the order of their bytes.
fn sorted(records: impl Iterator<Item = VersionedRecord>) -> Vec<Vec<u8>> {
    let bytes = records.map(|mut record| {
        match &mut record.record {
            MetadataRecord::RegisterBroker(broker) => broker.features.sort_by(|a, b| a.name.cmp(&b.name)),
            MetadataRecord::RegisterController(controller) => {
                controller.features.sort_by(|a, b| a.name.cmp(&b.name));
            }
            _ => {}
        }
        record.to_bytes().unwrap()
    });
    let mut bytes: Vec<Vec<u8>> = bytes.collect();
    bytes.sort();
    bytes
}

#[test]
fn replaying_the_log_gives_kafkas_own_snapshot() {
    let (image, snapshot) = (image_below(90), snapshot());
    let mut provenance = image.provenance();
    provenance.last_contained_log_time_ms = -1;
    assert_eq!(provenance, snapshot.provenance());
    // Kafka 4.4.0 keeps the configs of a topic that it made and deleted since it was last loaded.
    let orphan = ConfigResourceName { resource_type: resource_type::TOPIC, name: "doomed".to_owned() };
    let delta = MetadataDelta { configs_changed: vec![orphan], ..MetadataDelta::default() };
    assert_eq!(MetadataDelta::between(&snapshot, &image), delta);
    let is_orphan = |record: &VersionedRecord| matches!(&record.record, MetadataRecord::Config(config) if config.resource_name == "doomed");
    let kafkas =
        values(SNAPSHOT).into_iter().map(|(.., value)| VersionedRecord::decode(&value, 1 << 20).unwrap());
    let kafkas: Vec<VersionedRecord> = kafkas.collect();
    assert_eq!(sorted(snapshot.snapshot_records()), sorted(kafkas.iter().cloned()));
    assert_eq!(
        sorted(image.snapshot_records()),
        sorted(kafkas.into_iter().filter(|record| !is_orphan(record))),
        "our snapshot holds the very records of Kafka's"
    );
}

#[test]
fn a_topic_made_anew_does_not_inherit_the_configs_that_kafka_kept() {
    let mut image = snapshot();
    assert!(!image.configs().topic("doomed").is_empty());
    let topic = TopicRecord {
        name: "doomed".to_owned(),
        topic_id: Uuid::from_halves(1, 1),
        ..TopicRecord::default()
    };
    image.apply(&topic.into(), 90).unwrap();
    assert!(image.configs().topic("doomed").is_empty());
}

#[test]
fn our_snapshot_names_kinds_in_kafkas_order() {
    let kinds = |records: Vec<MetadataRecord>| {
        let mut kinds: Vec<&str> = records.iter().map(MetadataRecord::name).collect();
        // Topics alternate with their partitions.
        kinds.retain(|name| *name != "PartitionRecord");
        kinds.dedup();
        kinds
    };
    let kafkas = values(SNAPSHOT)
        .into_iter()
        .map(|(.., value)| VersionedRecord::decode(&value, 1 << 20).unwrap().record);
    let ours = image_below(90).snapshot_records().map(|record| record.record).collect();
    assert_eq!(kinds(ours), kinds(kafkas.collect()));
}
