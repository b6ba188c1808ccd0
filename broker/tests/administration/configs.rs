//! Configs: described with their sources, altered, listed.

use weir_protocol::messages::*;
use weir_protocol::records::Codec;

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
        // What the hours give is the default of the milliseconds.
        assert_eq!((segment.config_source, retention.config_source), (1, 5));
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
        (TOPIC, "nosuch", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "a b", ErrorCode::INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (
            BROKER,
            "8",
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id, expected 7 or empty string, but received 8",
        ),
        (BROKER, "x", ErrorCode::INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (BROKER_LOGGER, "8", ErrorCode::INVALID_REQUEST, "Unexpected broker id, expected 7 but received 8"),
        (GROUP, "", ErrorCode::INVALID_REQUEST, "Group name must not be empty"),
        (3, "x", ErrorCode::INVALID_REQUEST, "Unsupported resource type: 3"),
    ];
    for (kind, name, code, message) in refusals {
        let result = describe_in(&mut client, 4, kind, name);
        assert_eq!(result.error_code, code, "{result:?}");
        let found = result.error_message.as_deref().unwrap_or("null");
        assert!(found.starts_with(message) && found.is_empty() == message.is_empty(), "{result:?}");
    }
}

fn set(
    resource_type: i8,
    name: &str,
    configs: &[(&str, i8, Option<&str>)],
) -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![IncrementalAlterConfigsRequestAlterConfigsResource {
            resource_type,
            resource_name: name.to_string(),
            configs: configs
                .iter()
                .map(|(name, config_operation, value)| IncrementalAlterConfigsRequestAlterableConfig {
                    name: (*name).to_string(),
                    config_operation: *config_operation,
                    value: value.map(str::to_string),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn altered_configs_are_described_with_their_new_source_and_survive_a_restart() {
    let mut running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    let changes: [(i8, &str, &str, &str, i8); 5] = [
        (TOPIC, "t", "retention.ms", "60000", 1),
        (BROKER, "7", "log.retention.ms", "70000", 2),
        (BROKER, "", "message.max.bytes", "80000", 3),
        (GROUP, "g", "consumer.session.timeout.ms", "50000", 8),
        (CLIENT_METRICS, "s", "interval.ms", "90000", 7),
    ];
    for version in 0..=1 {
        for (kind, resource, name, value, source) in changes {
            let request = set(kind, resource, &[(name, 0, Some(value))]);
            let dry = IncrementalAlterConfigsRequest { validate_only: true, ..request.clone() };
            assert_eq!(client.call(&dry, version).responses[0].error_code, ErrorCode::NONE, "{name}");
            let before = describe_in(&mut client, 4, kind, resource);
            assert!(
                before.configs.iter().all(|config| config.name != name || config.config_source != source)
            );
            assert_eq!(client.call(&request, version).responses[0].error_code, ErrorCode::NONE, "{name}");
            let after = describe_in(&mut client, 4, kind, resource);
            assert_eq!(
                (find(&after, name).value.as_deref(), find(&after, name).config_source),
                (Some(value), source)
            );
        }
        // The topic inherits what the broker was told and does not override.
        let topic = describe_in(&mut client, 4, TOPIC, "t");
        assert_eq!(find(&topic, "max.message.bytes").value.as_deref(), Some("80000"));
        running.restart();
        client = running.client();
        for (kind, resource, name, value, _) in changes {
            let after = describe_in(&mut client, 4, kind, resource);
            assert_eq!(find(&after, name).value.as_deref(), Some(value));
            let request = set(kind, resource, &[(name, 1, None)]);
            assert_eq!(client.call(&request, version).responses[0].error_code, ErrorCode::NONE);
        }
    }
}

#[test]
fn alter_configs_replaces_all_overrides_of_a_resource() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[("retention.ms", "1"), ("segment.ms", "2")])]);
    for version in 0..=2 {
        let value = (1000 + version).to_string();
        let request = AlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: "t".to_string(),
                configs: vec![AlterConfigsRequestAlterableConfig {
                    name: "segment.ms".to_string(),
                    value: Some(value.clone()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(client.call(&request, version).responses[0].error_code, ErrorCode::NONE);
        let result = describe_in(&mut client, 4, TOPIC, "t");
        assert_eq!(find(&result, "segment.ms").value, Some(value));
        assert_eq!(find(&result, "retention.ms").config_source, 5);
    }
}

#[test]
fn wrong_alterations_are_refused_and_change_nothing() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    let cases = [
        (set(TOPIC, "t", &[("retention.ms", 0, Some("soon"))]), ErrorCode::INVALID_CONFIG),
        (set(TOPIC, "t", &[("nosuch", 0, Some("1"))]), ErrorCode::INVALID_CONFIG),
        (set(TOPIC, "t", &[("retention.ms", 0, None)]), ErrorCode::INVALID_REQUEST),
        (set(TOPIC, "t", &[("retention.ms", 9, Some("1"))]), ErrorCode::INVALID_REQUEST),
        (set(TOPIC, "nosuch", &[("retention.ms", 0, Some("1"))]), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (set(BROKER, "8", &[("log.retention.ms", 0, Some("1"))]), ErrorCode::INVALID_REQUEST),
        (set(BROKER, "7", &[("node.id", 0, Some("8"))]), ErrorCode::INVALID_REQUEST),
        (set(BROKER_LOGGER, "7", &[("root", 0, Some("DEBUG"))]), ErrorCode::INVALID_REQUEST),
        (set(3, "x", &[("a", 0, Some("b"))]), ErrorCode::INVALID_REQUEST),
    ];
    for (request, code) in cases {
        let response = client.call(&request, 1);
        assert_eq!(response.responses[0].error_code, code, "{request:?} {response:?}");
        assert!(response.responses[0].error_message.is_some());
    }
    assert!(describe_in(&mut client, 4, TOPIC, "t").configs.iter().all(|config| config.config_source == 5));
}

#[test]
fn resources_with_configs_are_listed_by_type() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    client.call(&set(CLIENT_METRICS, "s", &[("interval.ms", 0, Some("90000"))]), 1);
    client.call(&set(GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]), 1);
    let names = |response: ListConfigResourcesResponse| -> Vec<(i8, String)> {
        assert_eq!(response.error_code, ErrorCode::NONE);
        response.config_resources.into_iter().map(|row| (row.resource_type, row.resource_name)).collect()
    };
    let old = names(client.call(&ListConfigResourcesRequest::default(), 0));
    assert_eq!(old, [(CLIENT_METRICS, "s".to_string())]);
    let all = names(client.call(&ListConfigResourcesRequest::default(), 1));
    let expected = [(TOPIC, "t"), (BROKER, "7"), (BROKER_LOGGER, "7"), (CLIENT_METRICS, "s"), (GROUP, "g")];
    assert_eq!(all, expected.map(|(kind, name)| (kind, name.to_string())));
    let groups = ListConfigResourcesRequest { resource_types: vec![GROUP], ..Default::default() };
    assert_eq!(names(client.call(&groups, 1)), [(GROUP, "g".to_string())]);
    let unknown = ListConfigResourcesRequest { resource_types: vec![3], ..Default::default() };
    assert_eq!(client.call(&unknown, 1).error_code, ErrorCode::UNSUPPORTED_VERSION);
}

#[test]
fn with_flush_messages_of_one_each_batch_is_synced_before_its_answer() {
    let server = Running::start("http.listener=127.0.0.1:0");
    let mut client = server.client();
    client.create(&[("synced", 1, &[("flush.messages", "1")]), ("plain", 1, &[])]);
    let syncs =
        || server.metric("weir_storage_flushes_total") + server.metric("weir_storage_flushes_joined_total");
    let before = syncs();
    client.produce("plain", 0, Codec::None, &[1, 2]);
    assert_eq!(syncs(), before, "by default the page cache answers");
    for batch in 1..=3 {
        client.produce("synced", 0, Codec::None, &[1, 2]);
        assert_eq!(syncs(), before + batch);
    }
}
