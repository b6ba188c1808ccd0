//! Topics: created, deleted by name and id, and what is wrong with a request for them.

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use crate::support::Running;

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_string(), num_partitions, replication_factor, ..CreatableTopic::default() }
}

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest { topics, ..CreateTopicsRequest::default() }
}

fn partitions_of(metadata: &MetadataResponse, name: &str) -> Option<usize> {
    let topic = metadata.topics.iter().find(|topic| topic.name.as_deref() == Some(name))?;
    (topic.error_code == ErrorCode::NONE).then_some(topic.partitions.len())
}

#[test]
fn a_topic_lives_from_its_creation_to_its_deletion_in_every_version() {
    let running = Running::start("num.partitions=3\nauto.create.topics.enable=false");
    let mut client = running.client();
    let (first, last) = client.versions(ApiKey::CreateTopics);
    assert_eq!((first, last), (0, 7));
    for version in first..=last {
        let name = format!("topic-{version}");
        let mut asked = topic(&name, 2, 1);
        asked.configs.push(CreatableTopicConfig {
            name: "retention.ms".to_string(),
            value: Some("1234567".to_string()),
            ..CreatableTopicConfig::default()
        });
        let response = client.call(&create(vec![asked]), version);
        let result = &response.topics[0];
        assert_eq!((result.name.as_str(), result.error_code), (name.as_str(), ErrorCode::NONE));
        if version >= 5 {
            assert_eq!((result.num_partitions, result.replication_factor), (2, 1));
            let configs = result.configs.as_ref().unwrap();
            let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
            assert_eq!((retention.value.as_deref(), retention.config_source), (Some("1234567"), 1));
            assert!(configs.len() > 30);
        }
        assert_eq!(result.topic_id.is_zero(), version < 7);
        let metadata = client.call(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 12);
        assert_eq!(partitions_of(&metadata, &name), Some(2));
    }
    let (first, last) = client.versions(ApiKey::DeleteTopics);
    assert_eq!((first, last), (0, 6));
    for version in first..=last {
        let name = format!("topic-{version}");
        let mut request = DeleteTopicsRequest::default();
        match version {
            ..6 => request.topic_names.push(name.clone()),
            _ => request
                .topics
                .push(DeleteTopicState { name: Some(name.clone()), ..DeleteTopicState::default() }),
        }
        let response = client.call(&request, version);
        assert_eq!(response.responses[0].name.as_deref(), Some(name.as_str()));
        assert_eq!(response.responses[0].error_code, ErrorCode::NONE);
        let again = client.call(&request, version);
        assert_eq!(again.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let metadata = client.call(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 12);
        assert_eq!(partitions_of(&metadata, &name), None);
    }
}

#[test]
fn deletion_by_id_names_the_topic_and_an_id_is_never_used_twice() {
    let mut running = Running::start("");
    let mut client = running.client();
    let first = client.create(&[("t", 1, &[])]).topics[0].topic_id;
    let by_id = |topic_id| DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id, ..DeleteTopicState::default() }],
        ..DeleteTopicsRequest::default()
    };
    let deleted = client.call(&by_id(first), 6);
    assert_eq!(
        (
            deleted.responses[0].name.as_deref(),
            deleted.responses[0].topic_id,
            deleted.responses[0].error_code
        ),
        (Some("t"), first, ErrorCode::NONE)
    );
    let second = client.create(&[("t", 1, &[])]).topics[0].topic_id;
    assert_ne!(first, second);
    for unknown in [first, Uuid::from_halves(9, 9)] {
        assert_eq!(client.call(&by_id(unknown), 6).responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID);
    }
    running.restart();
    let mut client = running.client();
    let metadata = client.call(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 12);
    assert_eq!(metadata.topics.len(), 1);
    assert_eq!(metadata.topics[0].topic_id, second);
}

#[test]
fn wrong_topics_are_refused_and_validate_only_creates_nothing() {
    let running = Running::start("auto.create.topics.enable=false");
    let mut client = running.client();
    client.create(&[("there", 1, &[])]);
    let cases = [
        (topic("there", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (
            topic("a b", 1, 1),
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        (
            topic("t", 0, 1),
            ErrorCode::INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic("t", 1, 2),
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because \
             only 1 broker(s) are registered.",
        ),
    ];
    for (asked, code, message) in cases {
        let response = client.call(&create(vec![asked]), 7);
        assert_eq!(response.topics[0].error_code, code);
        assert_eq!(response.topics[0].error_message.as_deref(), Some(message));
    }
    let mut wrong_config = topic("t", 1, 1);
    wrong_config.configs.push(CreatableTopicConfig {
        name: "retention.ms".to_string(),
        value: Some("soon".to_string()),
        ..CreatableTopicConfig::default()
    });
    let response = client.call(&create(vec![wrong_config]), 7);
    assert_eq!(response.topics[0].error_code, ErrorCode::INVALID_CONFIG);

    let dry = CreateTopicsRequest { validate_only: true, ..create(vec![topic("dry", 2, 1)]) };
    let response = client.call(&dry, 7);
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (ErrorCode::NONE, 2));
    let metadata = client.call(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 12);
    assert_eq!(metadata.topics.len(), 1);
}

#[test]
fn more_partitions_than_the_memory_allows_are_refused_for_the_topic_and_the_connection_goes_on() {
    let running = Running::start("memory.budget.bytes=64MiB\nmax.partitions=4000");
    let mut client = running.client();
    let response = client.call(&create(vec![topic("huge", 1_000_000, 1)]), 7);
    assert_eq!(response.topics[0].error_code, ErrorCode::POLICY_VIOLATION);
    client.create(&[("small", 1, &[])]);
}
