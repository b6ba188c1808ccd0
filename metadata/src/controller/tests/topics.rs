//! Topics made and deleted, and the limits that hold for them.

use super::*;

#[test]
fn topics_are_made_with_the_counts_asked_for_or_the_defaults() {
    let mut world = World::new("num.partitions=4");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![topic("a", -1, -1), with_config(topic("b", 3, 1), "max.message.bytes", Some("2MiB"))],
        ..Default::default()
    });
    assert_eq!(reply.topics.iter().map(|topic| topic.num_partitions).collect::<Vec<_>>(), [4, 3]);
    assert!(
        reply.topics.iter().all(|topic| topic.error_code == ErrorCode::NONE && topic.replication_factor == 1)
    );
    let image = world.image();
    assert_eq!(image.topics().partition_count(), 7);
    assert_eq!(image.topics().by_name("b").unwrap().id(), reply.topics[1].topic_id);
    assert_eq!(world.topic_config("b", "max.message.bytes").as_deref(), Some("2097152"), "as Kafka reads it");
    let partition = image.topics().by_name("a").unwrap().partition(3).unwrap();
    assert_eq!(
        (partition.leader, &partition.isr[..], &partition.directories[..]),
        (1, &[1][..], &[DIRECTORY][..])
    );
    let configs =
        creation_configs(&world.config, &with_config(topic("b", 3, 1), "max.message.bytes", Some("2MiB")));
    assert!(configs.is_sorted_by(|a, b| a.name <= b.name));
    let size = configs.iter().find(|config| config.name == "max.message.bytes").unwrap();
    assert_eq!((size.value.as_deref(), size.config_source), (Some("2097152"), 1));
}

#[test]
fn wrong_topics_are_refused_one_by_one_in_kafkas_words() {
    let mut world = World::new("max.partitions=5");
    assert_eq!(world.create(topic("taken.name", 1, 1)), ok());
    let cases = [
        (topic("taken.name", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS, "Topic 'taken.name' already exists."),
        (
            topic("taken_name", 1, 1),
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic 'taken_name' collides with existing topic: taken.name",
        ),
        (topic("a/b", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (topic("", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (topic("__cluster_metadata", 1, 1), ErrorCode::INVALID_REQUEST, "is prohibited"),
        (topic("t", 0, 1), ErrorCode::INVALID_PARTITIONS, "invalid non-positive value"),
        (topic("t", -2, 1), ErrorCode::INVALID_PARTITIONS, "invalid non-positive value"),
        (topic("t", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (
            topic("t", 1, 3),
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered.",
        ),
        (
            topic("t", i32::MAX, 1),
            ErrorCode::POLICY_VIOLATION,
            "this broker has 1 of at most max.partitions=5",
        ),
        (
            with_config(topic("t", 1, 1), "retention.ms", Some("x")),
            ErrorCode::INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            with_config(topic("t", 1, 1), "retention.ms", None),
            ErrorCode::INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            with_config(topic("t", 1, 1), "no.such", Some("1")),
            ErrorCode::INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
        (
            with_assignment(topic("t", 1, -1), 0, &[1]),
            ErrorCode::INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            with_assignment(topic("t", -1, 1), 0, &[1]),
            ErrorCode::INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (
            with_assignment(topic("t", -1, -1), 1, &[1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[7]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "includes broker 7, but no such broker is registered.",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[1, 1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "the broker 1 more than once",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "an empty replica list",
        ),
        (
            with_assignment(with_assignment(topic("t", -1, -1), 0, &[1]), 0, &[1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
    ];
    for (topic, code, part) in cases {
        let name = topic.name.clone();
        let (found, message) = world.create(topic);
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.contains(part), "{name}: {message}");
    }
    assert_eq!(world.image().topics().partition_count(), 1, "nothing was made");
    assert_eq!(world.create(with_assignment(with_assignment(topic("t", -1, -1), 1, &[1]), 0, &[1])), ok());
    assert_eq!(world.image().topics().by_name("t").unwrap().partitions().len(), 2);
}

#[test]
fn one_request_sees_its_own_topics() {
    let mut world = World::new("max.partitions=5");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![
            topic("a.b", 3, 1),
            topic("a_b", 1, 1),
            topic("c", 3, 1),
            topic("d", 2, 1),
            topic("e", 1, 1),
            topic("e", 1, 1),
        ],
        ..Default::default()
    });
    let codes: Vec<_> = reply.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(
        codes,
        [
            ("a.b", ErrorCode::NONE),
            ("a_b", ErrorCode::INVALID_TOPIC_EXCEPTION),
            ("c", ErrorCode::POLICY_VIOLATION),
            ("d", ErrorCode::NONE),
            ("e", ErrorCode::INVALID_REQUEST),
        ]
    );
    assert_eq!(world.image().topics().partition_count(), 5);
}

#[test]
fn validation_alone_changes_nothing() {
    let mut world = World::new("");
    let request =
        CreateTopicsRequest { topics: vec![topic("a", 2, 1)], validate_only: true, ..Default::default() };
    let result = world.controller().create_topics(&request, &mut || Uuid::from_halves(1, 1));
    assert!(result.records.is_empty());
    assert_eq!(result.reply.topics[0].error_code, ErrorCode::NONE);
    assert_eq!(world.create(topic("a", 2, 1)), ok());
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "a".to_owned(),
            count: 4,
            assignments: None,
            ..Default::default()
        }],
        validate_only: true,
        ..Default::default()
    };
    let result = world.controller().create_partitions(&request);
    assert!(result.records.is_empty());
    assert_eq!(result.reply.results[0].error_code, ErrorCode::NONE);
}

#[test]
fn a_fenced_broker_takes_no_partitions() {
    let mut world = World::unregistered("");
    assert_eq!(world.create(topic("t", 1, 1)).0, ErrorCode::INVALID_REPLICATION_FACTOR);
    let result = world.controller().register_broker(&world.registration(1)).unwrap();
    world.commit(result);
    let (code, message) = world.create(topic("t", 1, 1));
    assert_eq!(code, ErrorCode::INVALID_REPLICATION_FACTOR);
    assert!(message.contains("All brokers are currently fenced."), "{message}");
    let (code, message) = world.create(with_assignment(topic("t", -1, -1), 0, &[1]));
    assert_eq!(code, ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert!(message.contains("are fenced or in controlled shutdown"), "{message}");
}

#[test]
fn ids_that_are_taken_reserved_or_look_like_options_are_not_given() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let taken = world.image().topics().by_name("a").unwrap().id();
    let option = Uuid([0xf8; 16]);
    assert!(option.to_string().starts_with('-'));
    let good = Uuid::from_halves(4, 4);
    let mut ids = [Uuid::ZERO, Uuid::from_halves(0, 1), taken, option, good].into_iter();
    let request = CreateTopicsRequest { topics: vec![topic("b", 1, 1)], ..Default::default() };
    let result = world.controller().create_topics(&request, &mut || ids.next().unwrap());
    assert_eq!(world.commit(result).topics[0].topic_id, good);
}

#[test]
fn topics_are_deleted_by_name_or_id_with_their_configs() {
    let mut world = World::new("");
    assert_eq!(world.create(with_config(topic("a", 2, 1), "retention.ms", Some("5"))), ok());
    assert_eq!(world.create(topic("b", 1, 1)), ok());
    let id = world.image().topics().by_name("b").unwrap().id();
    assert_eq!(world.delete(vec![by_name("a"), by_id(id)]), [ok(), ok()]);
    assert!(world.image().topics().is_empty());
    assert_eq!(world.topic_config("a", "retention.ms"), None);
    let codes =
        |replies: Vec<(ErrorCode, String)>| replies.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    let both = DeleteTopicState { name: Some("a".to_owned()), topic_id: id, ..Default::default() };
    let replies =
        world.delete(vec![by_name("a"), by_id(id), by_id(Uuid::ZERO), both, by_name("x"), by_name("x")]);
    assert_eq!(
        codes(replies),
        [
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::UNKNOWN_TOPIC_ID,
            ErrorCode::INVALID_REQUEST,
            ErrorCode::INVALID_REQUEST,
            ErrorCode::INVALID_REQUEST,
        ]
    );
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    assert_ne!(world.image().topics().by_name("a").unwrap().id(), id);
}

#[test]
fn a_topic_asked_for_by_name_and_by_id_in_one_deletion_stays() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let id = world.image().topics().by_name("a").unwrap().id();
    let replies = world.delete(vec![by_name("a"), by_id(id)]);
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].0, ErrorCode::INVALID_REQUEST);
    assert!(world.image().topics().by_name("a").is_some());
}

#[test]
fn deletion_can_be_switched_off() {
    let mut world = World::new("delete.topic.enable=false");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let request = DeleteTopicsRequest { topic_names: vec!["a".to_owned()], ..Default::default() };
    for (version, code) in [(1, ErrorCode::INVALID_REQUEST), (5, ErrorCode::TOPIC_DELETION_DISABLED)] {
        let result = world.controller().delete_topics(&request, version);
        assert!(result.records.is_empty());
        assert_eq!(result.reply.responses[0].error_code, code);
    }
}

#[test]
fn metadata_has_a_limit_that_names_its_property_and_deletion_always_works() {
    let mut world = World::new("max.metadata.bytes=1MiB");
    let mut made = 0;
    let message = loop {
        let (code, message) = world.create(topic(&format!("topic-{made}"), 50, 1));
        if code != ErrorCode::NONE {
            assert_eq!(code, ErrorCode::POLICY_VIOLATION);
            break message;
        }
        made += 1;
        assert!(world.image().memory_bytes() <= 1 << 20);
    };
    assert!(message.contains("max.metadata.bytes=1048576"), "{message}");
    let value = "x".repeat(30_000);
    let mut last = ok();
    for number in 0..40 {
        last = world.alter(resource_type::BROKER, "", &[(&format!("custom.{number}"), 0, Some(&value))]);
    }
    assert_eq!(last.0, ErrorCode::POLICY_VIOLATION);
    assert_eq!(world.delete(vec![by_name("topic-0")]), [ok()]);
    assert_eq!(world.create(topic("again", 1, 1)).0, ErrorCode::NONE);
}

#[test]
fn a_request_for_too_many_records_is_refused_whole_item_by_item() {
    let mut world = World::new("max.partitions=100000");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![topic("a", 9_000, 1), topic("b", 9_000, 1), topic("c", 500, 1)],
        ..Default::default()
    });
    let codes: Vec<_> = reply.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::POLICY_VIOLATION, ErrorCode::NONE]);
    assert_eq!(world.image().topics().partition_count(), 9_500);
}
