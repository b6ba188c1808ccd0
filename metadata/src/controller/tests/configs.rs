//! Changes of configs, in both requests, for every kind of resource.

use super::*;

#[test]
fn topic_configs_change_by_set_delete_append_and_subtract() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let kind = resource_type::TOPIC;
    assert_eq!(
        world.alter(kind, "t", &[("retention.ms", 0, Some("7")), ("cleanup.policy", 2, Some("compact"))]),
        ok()
    );
    assert_eq!(world.topic_config("t", "retention.ms").as_deref(), Some("7"));
    assert_eq!(world.topic_config("t", "cleanup.policy").as_deref(), Some("delete,compact"));
    assert_eq!(
        world.alter(kind, "t", &[("cleanup.policy", 3, Some("delete")), ("retention.ms", 1, None)]),
        ok()
    );
    assert_eq!(world.topic_config("t", "retention.ms"), None);
    assert_eq!(world.topic_config("t", "cleanup.policy").as_deref(), Some("compact"));
    let offset = world.replay.last_offset();
    assert_eq!(world.alter(kind, "t", &[("cleanup.policy", 0, Some("compact"))]), ok());
    assert_eq!(world.replay.last_offset(), offset, "no change, no record");
    let cases = [
        ("t", vec![("retention.ms", 0, Some("-2"))], ErrorCode::INVALID_CONFIG, "Value must be at least -1"),
        ("t", vec![("retention.ms", 2, Some("1"))], ErrorCode::INVALID_CONFIG, "its type is not LIST"),
        (
            "t",
            vec![("retention.ms", 0, None)],
            ErrorCode::INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            "t",
            vec![("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))],
            ErrorCode::INVALID_REQUEST,
            "duplicate config keys",
        ),
        ("t", vec![("retention.ms", 9, Some("1"))], ErrorCode::INVALID_REQUEST, "Unknown operations type 9"),
        (
            "x",
            vec![("retention.ms", 0, Some("1"))],
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'x' does not exist.",
        ),
        ("", vec![("retention.ms", 0, Some("1"))], ErrorCode::INVALID_REQUEST, "Default topic resources"),
        (
            "a b",
            vec![("retention.ms", 0, Some("1"))],
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid",
        ),
        (
            "t",
            vec![("segment.ms", 0, Some("9")), ("no.such", 0, Some("1"))],
            ErrorCode::INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
    ];
    for (name, operations, code, part) in cases {
        let (found, message) = world.alter(kind, name, &operations);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(world.topic_config("t", "segment.ms"), None, "all operations of a resource or none");
}

#[test]
fn brokers_groups_and_subscriptions_have_configs_too() {
    let mut world = World::new("");
    let broker = resource_type::BROKER;
    assert_eq!(world.alter(broker, "", &[("message.max.bytes", 0, Some("1MiB"))]), ok());
    assert_eq!(world.image().configs().broker_default().get("message.max.bytes").unwrap(), "1048576");
    let offset = world.replay.last_offset();
    assert_eq!(world.alter(broker, "1", &[("log.retention.ms", 0, Some("5"))]), ok());
    assert_eq!(world.alter(broker, "1", &[("log.retention.ms", 0, Some("5"))]), ok());
    assert_eq!(world.replay.last_offset(), offset + 2, "a broker reads again even what did not change");
    let (config, _) = world
        .config
        .with_dynamic(&world.image().configs().broker_default(), &world.image().configs().broker(1));
    assert_eq!(config.topic_defaults().retention_ms, 5);
    assert_eq!(config.topic_defaults().max_message_bytes, 1 << 20);
    assert_eq!(
        world.alter(resource_type::GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]),
        ok()
    );
    assert_eq!(world.alter(resource_type::CLIENT_METRICS, "m", &[("interval.ms", 0, Some("500"))]), ok());
    let cases = [
        (
            broker,
            "2",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            broker,
            "one",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Node id must be an integer",
        ),
        (
            broker,
            "01",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id",
        ),
        (
            broker,
            "1",
            ("num.partitions", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            broker,
            "",
            ("message.max.bytes", 0, Some("x")),
            ErrorCode::INVALID_REQUEST,
            "Not a number of type INT",
        ),
        (
            resource_type::GROUP,
            "",
            ("consumer.session.timeout.ms", 0, Some("50000")),
            ErrorCode::INVALID_REQUEST,
            "Default group",
        ),
        (
            resource_type::GROUP,
            "g",
            ("consumer.session.timeout.ms", 0, Some("1")),
            ErrorCode::INVALID_CONFIG,
            "in the range 45000 to 60000",
        ),
        (
            resource_type::CLIENT_METRICS,
            "m",
            ("interval.ms", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "at least 100",
        ),
        (
            resource_type::BROKER_LOGGER,
            "1",
            ("root", 0, Some("DEBUG")),
            ErrorCode::INVALID_REQUEST,
            "Log levels are given when this server starts",
        ),
    ];
    for (kind, name, operation, code, part) in cases {
        let (found, message) = world.alter(kind, name, &[operation]);
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.contains(part), "{name}: {message}");
    }
}

#[test]
fn the_older_request_replaces_all_overrides() {
    let mut world = World::new("");
    let wanted =
        with_config(with_config(topic("t", 1, 1), "retention.ms", Some("5")), "segment.ms", Some("6"));
    assert_eq!(world.create(wanted), ok());
    let resource = |configs: &[(&str, &str)]| AlterConfigsResource {
        resource_type: resource_type::TOPIC,
        resource_name: "t".to_owned(),
        configs: configs
            .iter()
            .map(|(name, value)| AlterConfigsRequestAlterableConfig {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let request =
        AlterConfigsRequest { resources: vec![resource(&[("segment.ms", "7")])], ..Default::default() };
    let result = world.controller().alter_configs(&request);
    assert_eq!(world.commit(result).responses[0].error_code, ErrorCode::NONE);
    assert_eq!(world.topic_config("t", "retention.ms"), None);
    assert_eq!(world.topic_config("t", "segment.ms").as_deref(), Some("7"));
    let twice = AlterConfigsRequest { resources: vec![resource(&[]), resource(&[])], ..Default::default() };
    let result = world.controller().alter_configs(&twice);
    assert!(result.records.is_empty());
    assert!(result.reply.responses.iter().all(|reply| reply.error_code == ErrorCode::INVALID_REQUEST));
}
