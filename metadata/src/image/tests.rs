//! What must hold for every log: snapshots lose nothing, replay is the same by any way, deltas name every difference.

use proptest::prelude::*;
use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use super::*;
use crate::record_frame::MetadataRecord;

fn id(number: u64) -> Uuid {
    Uuid::from_halves(7, number)
}

fn apply_all(image: &mut MetadataImage, records: &[MetadataRecord]) {
    for record in records {
        let offset = image.last_offset() + 1;
        image.apply(record, offset).unwrap();
    }
}

fn topic(number: u64, name: &str) -> MetadataRecord {
    TopicRecord { name: name.to_owned(), topic_id: id(number), ..Default::default() }.into()
}

fn partition(topic: u64, index: i32) -> MetadataRecord {
    PartitionRecord {
        partition_id: index,
        topic_id: id(topic),
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec![id(99)],
        ..Default::default()
    }
    .into()
}

fn config(kind: i8, resource: &str, name: &str, value: Option<&str>) -> MetadataRecord {
    ConfigRecord {
        resource_type: kind,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
        value: value.map(str::to_owned),
        ..Default::default()
    }
    .into()
}

fn level(name: &str, feature_level: i16) -> MetadataRecord {
    FeatureLevelRecord { name: name.to_owned(), feature_level, ..Default::default() }.into()
}

/// A record that may or may not fit, from a small world so that they meet.
fn any_record() -> impl Strategy<Value = MetadataRecord> {
    let names = prop_oneof![Just("a"), Just("b.c"), Just("b_d"), Just("e")];
    let change =
        (0..4u64, 0..3i32, -2..3i32, any::<bool>(), any::<bool>()).prop_map(|(t, p, leader, isr, elr)| {
            MetadataRecord::from(PartitionChangeRecord {
                partition_id: p,
                topic_id: id(t),
                leader,
                isr: isr.then(|| vec![1, 2]),
                replicas: isr.then(|| vec![2, 1]),
                eligible_leader_replicas: elr.then(|| vec![3]),
                ..Default::default()
            })
        });
    prop_oneof![
        (0..4u64, names.clone()).prop_map(|(t, name)| topic(t, name)),
        (0..4u64, 0..3i32).prop_map(|(t, p)| partition(t, p)),
        change,
        (0..4u64).prop_map(|t| RemoveTopicRecord { topic_id: id(t), ..Default::default() }.into()),
        (names, 0..3u8, prop::option::of("[a-z]{0,40}")).prop_map(|(resource, key, value)| {
            config(resource_type::TOPIC, resource, ["x", "y", "z"][usize::from(key)], value.as_deref())
        }),
        ("[0-9]?", prop::option::of("[a-z]{0,9}")).prop_map(|(resource, value)| config(
            resource_type::BROKER,
            &resource,
            "k",
            value.as_deref()
        )),
        (0..3i16).prop_map(|at| level("group.version", at)),
        (0..3i32, 0..3i64).prop_map(|(broker_id, broker_epoch)| {
            RegisterBrokerRecord { broker_id, broker_epoch, log_dirs: vec![id(99)], ..Default::default() }
                .into()
        }),
        (0..3i32, 0..3i64, -1..2i8).prop_map(|(broker_id, broker_epoch, fenced)| {
            BrokerRegistrationChangeRecord { broker_id, broker_epoch, fenced, ..Default::default() }.into()
        }),
        (0..3i32, 0..3i64).prop_map(|(broker_id, broker_epoch)| {
            UnregisterBrokerRecord { broker_id, broker_epoch, ..Default::default() }.into()
        }),
        (0..5i64).prop_map(|next| ProducerIdsRecord { next_producer_id: next, ..Default::default() }.into()),
        (prop::option::of("[a-c]"), -9.0..9.0f64, any::<bool>()).prop_map(|(name, value, remove)| {
            let entity = ClientQuotaRecordEntityData {
                entity_type: "user".to_owned(),
                entity_name: name,
                ..Default::default()
            };
            ClientQuotaRecord {
                entity: vec![entity],
                key: "r".to_owned(),
                value,
                remove,
                ..Default::default()
            }
            .into()
        }),
        ("[a-c]", any::<bool>()).prop_map(|(name, remove)| {
            if remove {
                RemoveUserScramCredentialRecord { name, mechanism: 1, ..Default::default() }.into()
            } else {
                UserScramCredentialRecord { name, mechanism: 1, salt: vec![1], ..Default::default() }.into()
            }
        }),
        (0..3u64).prop_map(|acl| AccessControlEntryRecord { id: id(acl), ..Default::default() }.into()),
        (0..3u64).prop_map(|acl| RemoveAccessControlEntryRecord { id: id(acl), ..Default::default() }.into()),
        Just(ClearElrRecord::default().into()),
        Just(NoOpRecord::default().into()),
        Just(ZkMigrationStateRecord::default().into()),
    ]
}

/// The records that fit, with the image after each.
fn replay(records: Vec<MetadataRecord>) -> (Vec<MetadataRecord>, Vec<MetadataImage>) {
    let mut image = MetadataImage::empty();
    let mut fitting = vec![level("metadata.version", 30)];
    apply_all(&mut image, &fitting);
    let mut images = vec![image.clone()];
    for record in records {
        let before = image.clone();
        if image.apply(&record, image.last_offset() + 1).is_ok() {
            fitting.push(record);
            images.push(image.clone());
        } else {
            assert_eq!(image, before, "a record that does not fit changes nothing: {record:?}");
        }
    }
    (fitting, images)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_image_is_the_image_of_its_snapshot(records in prop::collection::vec(any_record(), 0..80)) {
        let (_, images) = replay(records);
        let image = images.last().unwrap();
        let bytes: Vec<Vec<u8>> = image.snapshot_records().map(|record| record.to_bytes().unwrap()).collect();
        let decoded = bytes.iter().map(|bytes| crate::VersionedRecord::decode(bytes, 1 << 20));
        let again = MetadataImage::from_snapshot(decoded, image.provenance()).unwrap();
        prop_assert_eq!(&again, image);
        prop_assert_eq!(again.memory_bytes(), image.memory_bytes());
    }

    #[test]
    fn replaying_the_log_is_replaying_a_snapshot_and_the_tail(
        records in prop::collection::vec(any_record(), 0..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let (fitting, images) = replay(records);
        let cut = cut.index(images.len());
        let from = &images[cut];
        let mut image = MetadataImage::from_snapshot(from.snapshot_records().map(Ok), from.provenance()).unwrap();
        apply_all(&mut image, &fitting[cut + 1..]);
        prop_assert_eq!(&image, images.last().unwrap());
    }

    #[test]
    fn running_counts_are_what_counting_anew_gives(records in prop::collection::vec(any_record(), 0..120)) {
        let (_, images) = replay(records);
        for image in &images {
            let (bytes, partitions) = image.topics.recount();
            prop_assert_eq!(image.topics.memory_bytes(), bytes);
            prop_assert_eq!(image.topics.partition_count(), partitions);
            prop_assert_eq!(image.topics.iter().count(), image.topics.len());
        }
    }

    #[test]
    fn a_delta_names_every_difference_and_nothing_else(
        records in prop::collection::vec(any_record(), 0..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, images) = replay(records);
        let (old, new) = (&images[cut.index(images.len())], images.last().unwrap());
        let delta = MetadataDelta::between(old, new);
        prop_assert!(MetadataDelta::between(new, new).is_empty());
        let ids = |image: &MetadataImage| image.topics.iter().map(|topic| topic.id()).collect::<std::collections::BTreeSet<_>>();
        let created: std::collections::BTreeSet<_> = delta.topics_created.iter().map(|topic| topic.id).collect();
        let deleted: std::collections::BTreeSet<_> = delta.topics_deleted.iter().map(|topic| topic.id).collect();
        prop_assert_eq!(created, ids(new).difference(&ids(old)).copied().collect());
        prop_assert_eq!(deleted, ids(old).difference(&ids(new)).copied().collect());
        for topic in new.topics.iter() {
            for partition in topic.partitions() {
                let named = |list: &[TopicPartitionName]| list.iter().any(|name| name.topic_id == topic.id() && name.partition_id == partition.partition_id);
                let before = old.topics.partition(topic.id(), partition.partition_id);
                prop_assert_eq!(named(&delta.partitions_created), before.is_none());
                prop_assert_eq!(named(&delta.partitions_changed), before.is_some_and(|before| before != partition));
            }
        }
        let changed = |kind, name: &str| delta.configs_changed.iter().any(|config| config.resource_type == kind && config.name == name);
        for name in ["a", "b.c", "b_d", "e"] {
            prop_assert_eq!(changed(resource_type::TOPIC, name), old.configs.topic(name) != new.configs.topic(name));
        }
        for broker in 0..3 {
            prop_assert_eq!(delta.brokers_changed.contains(&broker), old.cluster.broker(broker) != new.cluster.broker(broker));
        }
        prop_assert_eq!(delta.features_changed, old.features != new.features);
    }
}

#[test]
fn a_removed_topic_takes_its_configs_with_it_and_its_name_is_free() {
    let mut image = MetadataImage::empty();
    apply_all(
        &mut image,
        &[
            topic(1, "a.b"),
            config(resource_type::TOPIC, "a.b", "retention.ms", Some("5")),
            partition(1, 0),
            partition(1, 1),
        ],
    );
    assert_eq!(image.topics().colliding_with("a_b"), Some("a.b"));
    assert_eq!(image.topics().partition_count(), 2);
    apply_all(&mut image, &[RemoveTopicRecord { topic_id: id(1), ..Default::default() }.into()]);
    assert_eq!(image.topics().colliding_with("a_b"), None);
    assert!(image.is_empty());
    assert_eq!(image.memory_bytes(), MetadataImage::empty().memory_bytes());
    apply_all(&mut image, &[topic(2, "a.b")]);
    assert_eq!(image.topics().by_name("a.b").unwrap().id(), id(2));
}

#[test]
fn records_that_do_not_fit_are_named_with_their_offset() {
    let mut image = MetadataImage::empty();
    apply_all(&mut image, &[topic(1, "a")]);
    let mut message = |record: MetadataRecord| image.apply(&record, 77).unwrap_err().to_string();
    assert!(message(topic(2, "a")).contains("TopicRecord at offset 77"));
    assert!(message(topic(1, "b")).contains("is that of topic a"));
    assert!(message(partition(9, 0)).contains("no topic"));
    assert!(message(partition(1, -1)).contains("partition -1"));
    let change = PartitionChangeRecord { partition_id: 3, topic_id: id(1), ..Default::default() };
    assert!(message(change.into()).contains("topic a has no partition 3"));
    let unregister = UnregisterBrokerRecord { broker_id: 4, ..Default::default() };
    assert!(message(unregister.into()).contains("broker 4 is not registered"));
}

#[test]
fn a_change_raises_the_leader_epoch_only_with_a_leader() {
    let mut image = MetadataImage::empty();
    apply_all(&mut image, &[topic(1, "a"), partition(1, 0)]);
    let change =
        |leader| PartitionChangeRecord { partition_id: 0, topic_id: id(1), leader, ..Default::default() };
    let shrink = PartitionChangeRecord { isr: Some(vec![]), ..change(-2) };
    apply_all(&mut image, &[shrink.into()]);
    let epochs = |image: &MetadataImage| {
        let partition = image.topics().partition(id(1), 0).unwrap();
        (partition.leader, partition.leader_epoch, partition.partition_epoch)
    };
    assert_eq!(epochs(&image), (1, 0, 1));
    apply_all(&mut image, &[change(-1).into()]);
    assert_eq!(epochs(&image), (-1, 1, 2));
    apply_all(&mut image, &[change(1).into(), change(1).into()]);
    assert_eq!(epochs(&image), (1, 3, 4), "the same leader again is a new epoch");
}

#[test]
fn directories_follow_their_replicas() {
    let mut image = MetadataImage::empty();
    apply_all(&mut image, &[topic(1, "a"), partition(1, 0)]);
    let change = PartitionChangeRecord {
        partition_id: 0,
        topic_id: id(1),
        replicas: Some(vec![2, 1]),
        ..Default::default()
    };
    apply_all(&mut image, &[change.into()]);
    let partition = image.topics().partition(id(1), 0).unwrap();
    assert_eq!(partition.directories[..], [directory_id::UNASSIGNED, id(99)]);
}

#[test]
fn an_open_transaction_is_held_back_and_an_aborted_one_never_was() {
    let mut replay = MetadataReplay::default();
    let mut offset = 0;
    let mut apply = |replay: &mut MetadataReplay, record: MetadataRecord| {
        let result = replay.apply(&record, offset);
        offset += 1;
        result
    };
    apply(&mut replay, level("metadata.version", 21)).unwrap();
    apply(&mut replay, BeginTransactionRecord::default().into()).unwrap();
    apply(&mut replay, topic(1, "a")).unwrap();
    assert_eq!(replay.open_transaction(), Some(1));
    assert!(replay.image().topics().is_empty());
    assert_eq!((replay.image().last_offset(), replay.last_offset()), (0, 2));
    assert!(replay.clone().apply(&BeginTransactionRecord::default().into(), 9).is_err());
    apply(&mut replay, AbortTransactionRecord::default().into()).unwrap();
    assert!(replay.image().topics().is_empty());
    assert_eq!(replay.image().last_offset(), 3);
    apply(&mut replay, BeginTransactionRecord::default().into()).unwrap();
    apply(&mut replay, topic(1, "a")).unwrap();
    apply(&mut replay, EndTransactionRecord::default().into()).unwrap();
    assert_eq!(replay.image().topics().len(), 1);
    assert!(apply(&mut replay, EndTransactionRecord::default().into()).is_err());
}

#[test]
fn a_snapshot_with_a_transaction_is_refused() {
    let record = MetadataRecord::from(BeginTransactionRecord::default()).at_level(21);
    assert!(MetadataImage::from_snapshot([Ok(record)], Provenance::default()).is_err());
}

#[test]
fn ten_thousand_partitions_cost_a_few_megabytes() {
    let mut image = MetadataImage::empty();
    for number in 0..10_000 {
        apply_all(&mut image, &[topic(number, &format!("topic-{number}")), partition(number, 0)]);
    }
    assert_eq!(image.topics().partition_count(), 10_000);
    let estimate = image.memory_bytes();
    assert!((4 << 20..10 << 20).contains(&estimate), "{estimate}");
    let names: Vec<String> =
        image.topics().iter_from("topic-9998").map(|topic| topic.name().to_owned()).collect();
    assert_eq!(names, ["topic-9998", "topic-9999"]);
}
