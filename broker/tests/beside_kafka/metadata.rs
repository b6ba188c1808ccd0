//! Metadata and DescribeTopicPartitions: what is there, in all, by name and by id, and what is created by being asked
//! for.

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use crate::pair::{Both, Pair};

pub(crate) fn compare(pair: &mut Pair) {
    let ids =
        pair.create(&[("meta-a", 2, &[]), ("meta-b", 1, &[]), ("meta-c", 5, &[]), ("meta-gone", 1, &[])]);
    let delete = DeleteTopicsRequest {
        topic_names: vec!["meta-gone".to_string()],
        timeout_ms: 30_000,
        ..Default::default()
    };
    pair.scene("delete");
    pair.ask(4, &delete);
    for version in pair.served(ApiKey::Metadata) {
        metadata(pair, version, &ids);
    }
    for version in pair.served(ApiKey::DescribeTopicPartitions) {
        describe(pair, version);
    }
}

fn metadata(pair: &mut Pair, version: i16, ids: &[Both<Uuid>]) {
    let request = |topics: Option<&[&str]>| MetadataRequest {
        topics: topics.map(|names| {
            let topic =
                |name: &&str| MetadataRequestTopic { name: Some((*name).to_string()), ..Default::default() };
            names.iter().map(topic).collect()
        }),
        allow_auto_topic_creation: version < 4,
        ..Default::default()
    };
    if version >= 1 {
        pair.scene("all topics");
        pair.name_all_topics();
        pair.ask(version, &request(None));
    }
    pair.scene("an empty list");
    pair.ask(version, &request(Some(&[])));
    pair.scene("some");
    pair.ask(version, &request(Some(&["meta-a", "meta-c"])));
    pair.scene("one twice");
    pair.ask(version, &request(Some(&["meta-b", "meta-b"])));
    pair.scene("invalid names");
    let long = "x".repeat(250);
    pair.ask(version, &request(Some(&["a b", "", ".", "..", &long])));
    if version >= 4 {
        pair.scene("unknown names");
        pair.ask(version, &request(Some(&["no-such-topic", "meta-a", "no-such-topic", "meta-gone"])));
    }
    if version >= 8 {
        pair.scene("operations");
        let mut operations = request(Some(&["meta-a", "no-such-topic"]));
        operations.include_topic_authorized_operations = true;
        operations.include_cluster_authorized_operations = version <= 10;
        pair.ask(version, &operations);
    }
    pair.scene("created by being asked for");
    let mut create = request(Some(&[&format!("meta-auto-v{version}"), "meta-auto-a b", "meta-a"]));
    create.allow_auto_topic_creation = true;
    pair.ask(version, &create);
    pair.wait_for(&format!("meta-auto-v{version}"), 3);
    pair.scene("created by being asked for");
    let collides = format!("meta-auto_c_v{version}");
    let mut create = request(Some(&[&format!("meta-auto.c.v{version}")]));
    create.allow_auto_topic_creation = true;
    pair.ask(version, &create);
    pair.wait_for(&format!("meta-auto.c.v{version}"), 3);
    pair.scene("a name that collides, created by being asked for");
    let mut create = request(Some(&[&collides]));
    create.allow_auto_topic_creation = true;
    pair.ask(version, &create);
    if version < 10 {
        return;
    }
    let ask = |pair: &mut Pair, scene: &str, topics: Vec<(Option<&str>, Both<Uuid>)>| {
        pair.scene(scene);
        let request = |pick: fn(&Both<Uuid>) -> Uuid| MetadataRequest {
            topics: Some(
                topics
                    .iter()
                    .map(|(name, id)| MetadataRequestTopic {
                        topic_id: pick(id),
                        name: name.map(str::to_string),
                        ..Default::default()
                    })
                    .collect(),
            ),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        pair.ask_each(version, &Both { kafka: request(|id| id.kafka), weir: request(|id| id.weir) });
    };
    let none = Both::same(Uuid::ZERO);
    let unknown = Both::same(Uuid([9; 16]));
    ask(pair, "by id", vec![(None, ids[0]), (None, ids[2])]);
    ask(pair, "by id twice", vec![(None, ids[0]), (None, ids[0])]);
    ask(pair, "by unknown ids", vec![(None, unknown), (None, ids[3]), (None, ids[1])]);
    ask(pair, "by name and by id", vec![(Some("meta-a"), none), (None, ids[1])]);
    ask(pair, "by name and id", vec![(Some("meta-a"), ids[0])]);
    ask(pair, "by another's name and id", vec![(Some("meta-b"), ids[0])]);
    ask(pair, "by empty name and id", vec![(Some(""), ids[0])]);
    ask(pair, "by nothing", vec![(None, none)]);
    ask(pair, "by id 1", vec![(None, Both::same(Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])))]);
}

fn describe(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, scene: &str, names: &[&str], limit: i32, cursor: Option<(&str, i32)>| {
        pair.scene(scene);
        let topic = |name: &&str| DescribeTopicPartitionsRequestTopicRequest {
            name: (*name).to_string(),
            ..Default::default()
        };
        let request = DescribeTopicPartitionsRequest {
            topics: names.iter().map(topic).collect(),
            response_partition_limit: limit,
            cursor: cursor.map(|(name, partition_index)| DescribeTopicPartitionsRequestCursor {
                topic_name: name.to_string(),
                partition_index,
                ..Default::default()
            }),
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    let three = &["meta-a", "meta-b", "meta-c"][..];
    pair.name_all_topics();
    ask(pair, "describe all", &[], 2000, None);
    ask(pair, "describe three", three, 2000, None);
    ask(pair, "describe in another order", &["meta-c", "meta-a", "meta-b"], 2000, None);
    ask(pair, "describe twice", &["meta-a", "meta-a"], 2000, None);
    ask(pair, "describe unknown ones", &["no-such-topic", "meta-a"], 2000, None);
    ask(pair, "describe invalid ones", &["meta-a", "a b", ""], 2000, None);
    for limit in [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, -1, i32::MAX] {
        ask(pair, &format!("describe with limit {limit}"), three, limit, None);
    }
    for (name, index) in [
        ("meta-a", 0),
        ("meta-a", 1),
        ("meta-a", 2),
        ("meta-c", 4),
        ("meta-c", 5),
        ("meta-a", -1),
        ("meta-b", 0),
        ("no-such-topic", 0),
        ("meta-bb", 3),
        ("zzz", 0),
        ("", 0),
    ] {
        ask(pair, &format!("describe from {name} {index}"), three, 2000, Some((name, index)));
        ask(pair, &format!("describe one from {name} {index}"), three, 1, Some((name, index)));
        ask(pair, &format!("describe all but one from {name} {index}"), &[], 2, Some((name, index)));
    }
}
