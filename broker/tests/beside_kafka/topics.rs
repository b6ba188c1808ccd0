//! Topics and partitions: created, extended, deleted, and refused.

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use crate::pair::{Both, Pair};

pub(crate) fn compare(pair: &mut Pair) {
    for version in pair.served(ApiKey::CreateTopics) {
        create(pair, version);
        create_one_by_one(pair, version);
    }
    for version in pair.served(ApiKey::CreatePartitions) {
        extend(pair, version);
    }
    for version in pair.served(ApiKey::DeleteTopics) {
        delete(pair, version);
    }
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_string(), num_partitions, replication_factor, ..Default::default() }
}

fn assigned(name: &str, replicas: &[&[i32]]) -> CreatableTopic {
    let assignment = |(index, broker_ids): (usize, &&[i32])| CreatableReplicaAssignment {
        partition_index: index as i32,
        broker_ids: broker_ids.to_vec(),
        ..Default::default()
    };
    let assignments = replicas.iter().enumerate().map(assignment).collect();
    CreatableTopic { assignments, ..topic(name, -1, -1) }
}

fn configured(name: &str, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: (*name).to_string(),
        value: value.map(str::to_string),
        ..Default::default()
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic(name, 1, 1) }
}

fn ask_create(pair: &mut Pair, version: i16, topics: Vec<CreatableTopic>, validate_only: bool) {
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let request = CreateTopicsRequest { topics, timeout_ms: 30_000, validate_only, ..Default::default() };
    let answers = pair.ask(version, &request);
    if version >= 7
        && let Both { kafka: Some(kafka), weir: Some(weir) } = answers
    {
        for name in names {
            let id = |answer: &CreateTopicsResponse| {
                answer
                    .topics
                    .iter()
                    .find(|topic| topic.name == name)
                    .map_or(Uuid::ZERO, |topic| topic.topic_id)
            };
            let ids = Both { kafka: id(&kafka), weir: id(&weir) };
            if !ids.kafka.is_zero() && !ids.weir.is_zero() {
                pair.alias(&format!("id of {name}"), &ids);
            }
        }
    }
}

fn create(pair: &mut Pair, version: i16) {
    let long = format!("v{version}-{}", "x".repeat(246));
    let longest = long[..249].to_string();
    for validate_only in [true, false] {
        if validate_only && version < 1 {
            continue;
        }
        let name = |text: &str| format!("create-v{version}-{text}");
        pair.scene(format!("create, validate only {validate_only}"));
        let good = vec![
            topic(&name("one"), 1, 1),
            topic(&name("three"), 3, 1),
            topic(&longest, 1, 1),
            assigned(&name("assigned"), &[&[7], &[7]]),
            configured(
                &name("configured"),
                &[("retention.ms", Some("60000")), ("segment.bytes", Some("2097152"))],
            ),
            configured(&name("compacted"), &[("cleanup.policy", Some("compact"))]),
        ];
        ask_create(pair, version, good, validate_only);
        pair.scene(format!("create the same again, validate only {validate_only}"));
        ask_create(pair, version, vec![topic(&name("one"), 1, 1), topic(&name("new"), 1, 1)], validate_only);
        pair.scene(format!("create with defaults, validate only {validate_only}"));
        let defaults = vec![topic(&name("default-count"), -1, 1), topic(&name("default-factor"), 1, -1)];
        ask_create(pair, version, defaults, validate_only);
        pair.scene(format!("create none, validate only {validate_only}"));
        ask_create(pair, version, vec![], validate_only);
        pair.scene(format!("create one twice, validate only {validate_only}"));
        let twice =
            vec![topic(&name("twice"), 1, 1), topic(&name("once"), 1, 1), topic(&name("twice"), 2, 1)];
        ask_create(pair, version, twice, validate_only);
        pair.scene(format!("create one thrice, validate only {validate_only}"));
        ask_create(pair, version, vec![topic(&name("thrice"), 1, 1); 3], validate_only);
    }
}

fn create_one_by_one(pair: &mut Pair, version: i16) {
    let name = |text: &str| format!("bad-v{version}-{text}");
    let assigned_at = |text: &str, indexes: &[i32]| {
        let mut topic = assigned(&name(text), &vec![&[7][..]; indexes.len()]);
        for (assignment, index) in topic.assignments.iter_mut().zip(indexes) {
            assignment.partition_index = *index;
        }
        topic
    };
    let mut dotted = topic(&name("a.b"), 1, 1);
    dotted.name = name("a.b");
    let bad = vec![
        topic(&name("no-partitions"), 0, 1),
        topic(&name("minus-two-partitions"), -2, 1),
        topic(&name("many-partitions"), 10_001, 1),
        topic(&name("very-many-partitions"), i32::MAX, 1),
        topic(&name("no-replicas"), 1, 0),
        topic(&name("minus-two-replicas"), 1, -2),
        topic(&name("two-replicas"), 1, 2),
        topic(&name("three-replicas"), 1, 3),
        topic(&name("both-bad"), 0, 3),
        topic("", 1, 1),
        topic(".", 1, 1),
        topic("..", 1, 1),
        topic("a b", 1, 1),
        topic("ünï", 1, 1),
        topic(&"x".repeat(250), 1, 1),
        topic("__cluster_metadata", 1, 1),
        dotted,
        topic(&name("a_b"), 1, 1),
        assigned(&name("assigned-to-a-stranger"), &[&[9]]),
        assigned(&name("assigned-to-a-stranger-too"), &[&[7, 9]]),
        assigned(&name("assigned-twice"), &[&[7, 7]]),
        assigned(&name("assigned-to-nobody"), &[&[]]),
        assigned(&name("assigned-to-minus-one"), &[&[-1]]),
        assigned(&name("assigned-unevenly"), &[&[7], &[7, 8]]),
        assigned_at("assigned-with-a-gap", &[0, 2]),
        assigned_at("assigned-from-one", &[1]),
        assigned_at("assigned-the-same", &[0, 0]),
        assigned_at("assigned-below-zero", &[-1]),
        CreatableTopic { num_partitions: 1, ..assigned(&name("assigned-and-counted"), &[&[7]]) },
        CreatableTopic { replication_factor: 1, ..assigned(&name("assigned-and-factor"), &[&[7]]) },
        configured(&name("unknown-config"), &[("no.such.config", Some("1"))]),
        configured(&name("null-config"), &[("retention.ms", None)]),
        configured(&name("empty-config"), &[("retention.ms", Some(""))]),
        configured(&name("nameless-config"), &[("", Some("1"))]),
        configured(&name("word-for-number"), &[("retention.ms", Some("long"))]),
        configured(&name("too-low"), &[("retention.ms", Some("-2"))]),
        configured(&name("small-segments"), &[("segment.bytes", Some("13"))]),
        configured(&name("bad-policy"), &[("cleanup.policy", Some("shred"))]),
        configured(&name("bad-policies"), &[("cleanup.policy", Some("compact,shred"))]),
        configured(&name("both-policies"), &[("cleanup.policy", Some("compact, delete"))]),
        configured(&name("bad-bool"), &[("preallocate", Some("maybe"))]),
        configured(&name("bad-codec"), &[("compression.type", Some("rar"))]),
        configured(&name("bad-level"), &[("compression.gzip.level", Some("10"))]),
        configured(&name("bad-ratio"), &[("min.cleanable.dirty.ratio", Some("1.5"))]),
        configured(&name("bad-isr"), &[("min.insync.replicas", Some("0"))]),
        configured(&name("int-overflow"), &[("segment.bytes", Some("3000000000"))]),
        configured(&name("spaces"), &[("retention.ms", Some(" 60000 "))]),
        configured(&name("format-version"), &[("message.format.version", Some("2.8"))]),
        configured(&name("timestamps"), &[("message.timestamp.type", Some("Never"))]),
        configured(&name("throttled"), &[("leader.replication.throttled.replicas", Some("0:7"))]),
        configured(&name("bad-throttled"), &[("leader.replication.throttled.replicas", Some("0"))]),
        configured(&name("remote"), &[("remote.storage.enable", Some("true"))]),
        configured(
            &name("local-retention"),
            &[("local.retention.ms", Some("100")), ("retention.ms", Some("10"))],
        ),
        configured(
            &name("lags"),
            &[("min.compaction.lag.ms", Some("100")), ("max.compaction.lag.ms", Some("10"))],
        ),
        configured(&name("config-twice"), &[("retention.ms", Some("1")), ("retention.ms", Some("2"))]),
    ];
    for topic in bad {
        pair.scene(format!("create {:?}", topic.name.trim_start_matches(&name(""))));
        // Only weir would create it.
        let validate_only = version >= 1 && topic.name.ends_with("format-version");
        ask_create(pair, version, vec![topic], validate_only);
    }
}

fn extend(pair: &mut Pair, version: i16) {
    let name = format!("extend-v{version}");
    pair.create(&[(&name, 2, &[])]);
    let to = |name: &str, count, assignments: Option<&[&[i32]]>| CreatePartitionsTopic {
        name: name.to_string(),
        count,
        assignments: assignments.map(|assignments| {
            let one = |broker_ids: &&[i32]| CreatePartitionsAssignment {
                broker_ids: broker_ids.to_vec(),
                ..Default::default()
            };
            assignments.iter().map(one).collect()
        }),
        ..Default::default()
    };
    let cases = [
        ("none", vec![]),
        ("to the same", vec![to(&name, 2, None)]),
        ("to fewer", vec![to(&name, 1, None)]),
        ("to zero", vec![to(&name, 0, None)]),
        ("to minus one", vec![to(&name, -1, None)]),
        ("to far too many", vec![to(&name, 20_000, None)]),
        ("to the most", vec![to(&name, i32::MAX, None)]),
        ("an unknown topic", vec![to("no-such-topic", 3, None)]),
        ("an invalid topic", vec![to("a b", 3, None)]),
        ("a nameless topic", vec![to("", 3, None)]),
        ("one twice", vec![to(&name, 3, None), to(&name, 4, None)]),
        (
            "one twice beside another",
            vec![to(&name, 3, None), to("no-such-topic", 4, None), to(&name, 4, None)],
        ),
        ("with too few assignments", vec![to(&name, 4, Some(&[&[7]]))]),
        ("with too many assignments", vec![to(&name, 3, Some(&[&[7], &[7]]))]),
        ("with no assignments", vec![to(&name, 3, Some(&[]))]),
        ("to a stranger", vec![to(&name, 3, Some(&[&[9]]))]),
        ("to more than before", vec![to(&name, 3, Some(&[&[7, 9]]))]),
        ("to nobody", vec![to(&name, 3, Some(&[&[]]))]),
        ("to one twice", vec![to(&name, 3, Some(&[&[7, 7]]))]),
        ("by one", vec![to(&name, 3, None)]),
        ("by assignment", vec![to(&name, 5, Some(&[&[7], &[7]]))]),
        ("good and bad", vec![to(&name, 6, None), to("no-such-topic", 3, None)]),
    ];
    for validate_only in [true, false] {
        for (scene, topics) in &cases {
            pair.scene(format!("extend {scene}, validate only {validate_only}"));
            let request = CreatePartitionsRequest {
                topics: topics.clone(),
                timeout_ms: 30_000,
                validate_only,
                ..Default::default()
            };
            pair.ask(version, &request);
        }
    }
}

fn delete(pair: &mut Pair, version: i16) {
    let name = |text: &str| format!("delete-v{version}-{text}");
    let all = ["one", "two", "three", "twice", "id", "id-twice", "name-and-id", "both"].map(name);
    let topics: Vec<_> = all.iter().map(|name| (name.as_str(), 1, &[][..])).collect();
    let ids = pair.create(&topics);
    let ask = |pair: &mut Pair, scene: &str, names: &[&str]| {
        pair.scene(format!("delete {scene}"));
        let names = names.iter().map(|name| (*name).to_string());
        let mut request = DeleteTopicsRequest { timeout_ms: 30_000, ..Default::default() };
        if version >= 6 {
            let topic = |name| DeleteTopicState { name: Some(name), ..Default::default() };
            request.topics = names.map(topic).collect();
        } else {
            request.topic_names = names.collect();
        }
        pair.ask(version, &request);
    };
    ask(pair, "none", &[]);
    ask(pair, "one", &[&name("one")]);
    ask(pair, "one that is gone", &[&name("one")]);
    ask(pair, "an unknown one", &["no-such-topic"]);
    ask(pair, "an invalid one", &["a b"]);
    ask(pair, "a nameless one", &[""]);
    ask(pair, "some", &[&name("two"), "no-such-topic", &name("three")]);
    ask(pair, "one twice", &[&name("twice"), &name("twice")]);
    ask(pair, "one that is gone twice", &["no-such-topic", "no-such-topic"]);
    ask(pair, "the metadata", &["__cluster_metadata"]);
    if version < 6 {
        return;
    }
    let ask = |pair: &mut Pair, scene: &str, topics: Vec<(Option<&str>, Both<Uuid>)>| {
        pair.scene(format!("delete {scene}"));
        let request = |pick: fn(&Both<Uuid>) -> Uuid| DeleteTopicsRequest {
            topics: topics
                .iter()
                .map(|(name, id)| DeleteTopicState {
                    name: name.map(str::to_string),
                    topic_id: pick(id),
                    ..Default::default()
                })
                .collect(),
            timeout_ms: 30_000,
            ..Default::default()
        };
        let requests = Both { kafka: request(|id| id.kafka), weir: request(|id| id.weir) };
        pair.ask_each(version, &requests);
    };
    let none = Both::same(Uuid::ZERO);
    let unknown = Both::same(Uuid([9; 16]));
    let both = name("both");
    ask(pair, "by id", vec![(None, ids[4])]);
    ask(pair, "by an id that is gone", vec![(None, ids[4])]);
    ask(pair, "by id twice", vec![(None, ids[5]), (None, ids[5])]);
    ask(pair, "by name and id", vec![(Some(&name("name-and-id")), ids[6])]);
    ask(pair, "by name and by id", vec![(Some(&both), none), (None, ids[7])]);
    ask(pair, "by an unknown id", vec![(None, unknown)]);
    ask(pair, "by an unknown id twice", vec![(None, unknown), (None, unknown)]);
    ask(pair, "by nothing", vec![(None, none)]);
    ask(pair, "by an id with an empty name", vec![(Some(""), ids[7])]);
}
