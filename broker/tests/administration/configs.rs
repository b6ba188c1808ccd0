//! Configs: described with their sources, altered, listed.

use weir_protocol::messages::*;

use crate::support::{Client, Running};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

fn describe_in(client: &mut Client, version: i16, resource_type: i8, name: &str) -> DescribeConfigsResult {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name: name.to_string(),
            configuration_keys: None,
            ..DescribeConfigsResource::default()
        }],
        include_synonyms: version >= 1,
        include_documentation: version >= 3,
        ..DescribeConfigsRequest::default()
    };
    let result = client.call(&request, version).results.remove(0);
    assert_eq!((result.resource_type, result.resource_name.as_str()), (resource_type, name));
    result
}

fn find<'a>(result: &'a DescribeConfigsResult, name: &str) -> &'a DescribeConfigsResourceResult {
    result.configs.iter().find(|config| config.name == name).unwrap_or_else(|| panic!("{name} in {result:?}"))
}

#[test]
fn a_topics_configs_have_sources_synonyms_and_documentation_from_their_versions_on() {
    let running = Running::start("log.retention.hours=5");
    let mut client = running.client();
    client.create(&[("t", 1, &[("segment.bytes", "2097152")])]);
    for version in 0..=4 {
        let result = describe_in(&mut client, version, TOPIC, "t");
        assert_eq!(result.error_code, ErrorCode::NONE);
        let segment = find(&result, "segment.bytes");
        assert_eq!(segment.value.as_deref(), Some("2097152"));
        let retention = find(&result, "retention.ms");
        assert_eq!(retention.value.as_deref(), Some("18000000"));
        if version == 0 {
            assert!(!segment.is_default && find(&result, "cleanup.policy").is_default);
            continue;
        }
        assert_eq!((segment.config_source, retention.config_source), (1, 4));
        let synonyms: Vec<_> = segment.synonyms.iter().map(|s| (s.name.as_str(), s.source)).collect();
        assert_eq!(synonyms, [("segment.bytes", 1), ("log.segment.bytes", 5)]);
        assert_eq!(segment.documentation.as_ref().is_some_and(|text| !text.is_empty()), version >= 3);
        assert_eq!(segment.config_type, if version >= 3 { 3 } else { 0 });
    }
}

#[test]
fn every_kind_of_resource_is_described_or_refused_in_kafkas_words() {
    let running = Running::start("");
    let mut client = running.client();
    let broker = describe_in(&mut client, 4, BROKER, "7");
    assert!(broker.configs.len() > 200);
    assert_eq!(find(&broker, "node.id").value.as_deref(), Some("7"));
    assert!(find(&broker, "node.id").read_only && !find(&broker, "log.retention.ms").read_only);
    assert!(describe_in(&mut client, 4, BROKER, "").configs.is_empty());
    let loggers = describe_in(&mut client, 4, BROKER_LOGGER, "7");
    assert_eq!((loggers.configs.len(), loggers.configs[0].config_source), (1, 6));
    let group = describe_in(&mut client, 4, GROUP, "some-group");
    assert_eq!(find(&group, "consumer.session.timeout.ms").config_source, 5);
    let metrics = describe_in(&mut client, 4, CLIENT_METRICS, "some-subscription");
    assert_eq!(find(&metrics, "interval.ms").value.as_deref(), Some("300000"));
    let refusals = [
        (TOPIC, "nosuch", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None),
        (TOPIC, "a b", ErrorCode::INVALID_TOPIC_EXCEPTION, Some("Topic name is invalid")),
        (
            BROKER,
            "8",
            ErrorCode::INVALID_REQUEST,
            Some("Unexpected broker id, expected 7 or empty string, but received 8"),
        ),
        (BROKER, "x", ErrorCode::INVALID_REQUEST, Some("Broker id must be an integer, but it is: x")),
        (
            BROKER_LOGGER,
            "8",
            ErrorCode::INVALID_REQUEST,
            Some("Unexpected broker id, expected 7 but received 8"),
        ),
        (GROUP, "", ErrorCode::INVALID_REQUEST, Some("Group name must not be empty")),
        (3, "x", ErrorCode::INVALID_REQUEST, Some("Unsupported resource type: 3")),
    ];
    for (kind, name, code, message) in refusals {
        let result = describe_in(&mut client, 4, kind, name);
        assert_eq!(result.error_code, code, "{result:?}");
        match (message, &result.error_message) {
            (None, None) => {}
            (Some(expected), Some(message)) if message.starts_with(expected) => {}
            _ => panic!("{result:?}"),
        }
    }
}
