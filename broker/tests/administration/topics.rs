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

#[test]
fn topics_grow_and_never_shrink() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    let grow = |name: &str, count| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: name.to_string(),
            count,
            assignments: None,
            ..CreatePartitionsTopic::default()
        }],
        ..CreatePartitionsRequest::default()
    };
    let (first, last) = client.versions(ApiKey::CreatePartitions);
    assert_eq!((first, last), (0, 3));
    for version in first..=last {
        let count = i32::from(version) + 2;
        let dry = CreatePartitionsRequest { validate_only: true, ..grow("t", count) };
        assert_eq!(client.call(&dry, version).results[0].error_code, ErrorCode::NONE);
        assert_eq!(client.call(&grow("t", count), version).results[0].error_code, ErrorCode::NONE);
        let again = &client.call(&grow("t", count), version).results[0];
        assert_eq!(again.error_code, ErrorCode::INVALID_PARTITIONS);
        assert_eq!(again.error_message, Some(format!("Topic already has {count} partition(s).")));
        let unknown = client.call(&grow("nosuch", 5), version).results[0].error_code;
        assert_eq!(unknown, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    client.produce("t", 4, weir_protocol::records::Codec::None, &[1]);
    let shrink = &client.call(&grow("t", 2), 3).results[0];
    assert_eq!(
        shrink.error_message.as_deref(),
        Some("The topic t currently has 5 partition(s); 2 would not be an increase.")
    );
}

#[test]
fn described_topics_come_in_pages_that_a_cursor_continues() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("b", 3, &[]), ("a", 2, &[]), ("c", 1, &[])]);
    let mut cursor = None;
    let mut seen = Vec::new();
    for _ in 0..10 {
        let request = DescribeTopicPartitionsRequest {
            response_partition_limit: 2,
            cursor: cursor.take(),
            ..DescribeTopicPartitionsRequest::default()
        };
        let response = client.call(&request, 0);
        for topic in &response.topics {
            for partition in &topic.partitions {
                assert_eq!((partition.leader_id, &partition.isr_nodes[..]), (7, &[7][..]));
                seen.push((topic.name.clone().unwrap(), partition.partition_index));
            }
        }
        let Some(next) = response.next_cursor else { break };
        cursor = Some(DescribeTopicPartitionsRequestCursor {
            topic_name: next.topic_name,
            partition_index: next.partition_index,
            ..DescribeTopicPartitionsRequestCursor::default()
        });
    }
    let expected = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)];
    assert_eq!(seen, expected.map(|(name, index)| (name.to_string(), index)));

    let named = |names: &[&str], cursor: Option<(&str, i32)>| DescribeTopicPartitionsRequest {
        topics: names
            .iter()
            .map(|name| DescribeTopicPartitionsRequestTopicRequest {
                name: (*name).to_string(),
                ..DescribeTopicPartitionsRequestTopicRequest::default()
            })
            .collect(),
        cursor: cursor.map(|(name, partition_index)| DescribeTopicPartitionsRequestCursor {
            topic_name: name.to_string(),
            partition_index,
            ..DescribeTopicPartitionsRequestCursor::default()
        }),
        ..DescribeTopicPartitionsRequest::default()
    };
    let response = client.call(&named(&["nosuch", "b", "a b"], None), 0);
    let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(
        codes,
        [ErrorCode::INVALID_TOPIC_EXCEPTION, ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]
    );
    for wrong in [named(&["a"], Some(("b", 0))), named(&["a"], Some(("a", -1)))] {
        assert_eq!(client.call(&wrong, 0).topics[0].error_code, ErrorCode::INVALID_REQUEST);
    }
}

#[test]
fn leaders_are_elected_and_replicas_reassigned_where_there_is_something_to_do() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 2, &[])]);
    for version in 0..=2 {
        let mut request = ElectLeadersRequest {
            topic_partitions: Some(vec![ElectLeadersRequestTopicPartitions {
                topic: "t".to_string(),
                partitions: vec![0, 9],
                ..ElectLeadersRequestTopicPartitions::default()
            }]),
            ..ElectLeadersRequest::default()
        };
        if version >= 1 {
            request.election_type = 2;
            let response = client.call(&request, version);
            let results = &response.replica_election_results[0].partition_result;
            assert!(results.iter().all(|result| result.error_code == ErrorCode::INVALID_REQUEST));
            request.election_type = 0;
        }
        let response = client.call(&request, version);
        let results = &response.replica_election_results[0].partition_result;
        assert_eq!(
            (results[0].error_code, results[1].error_code),
            (ErrorCode::ELECTION_NOT_NEEDED, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        );
        request.topic_partitions = None;
        let response = client.call(&request, version);
        assert_eq!(response.error_code, ErrorCode::NONE);
        assert!(response.replica_election_results.iter().all(|topic| topic.partition_result.is_empty()));
        if version >= 1 {
            request.election_type = 2;
            assert_eq!(client.call(&request, version).error_code, ErrorCode::INVALID_REQUEST);
            request.topic_partitions = Some(Vec::new());
            assert_eq!(client.call(&request, version).error_code, ErrorCode::NONE);
        }
    }
    let reassign = |replicas: Option<Vec<i32>>| AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic {
            name: "t".to_string(),
            partitions: vec![ReassignablePartition {
                partition_index: 0,
                replicas,
                ..ReassignablePartition::default()
            }],
            ..ReassignableTopic::default()
        }],
        ..AlterPartitionReassignmentsRequest::default()
    };
    for version in 0..=1 {
        for (replicas, code) in [
            (Some(vec![7]), ErrorCode::NONE),
            (Some(vec![8]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
            (None, ErrorCode::NO_REASSIGNMENT_IN_PROGRESS),
        ] {
            let response = client.call(&reassign(replicas), version);
            assert_eq!(response.error_code, ErrorCode::NONE);
            assert_eq!(response.responses[0].partitions[0].error_code, code);
        }
    }
    let all = ListPartitionReassignmentsRequest { topics: None, ..Default::default() };
    let response = client.call(&all, 0);
    assert!(response.error_code == ErrorCode::NONE && response.topics.is_empty());
}

#[test]
fn metadata_by_id_is_answered_whatever_name_stands_beside_it() {
    let running = Running::start("");
    let mut client = running.client();
    let id = client.create(&[("t", 1, &[])]).topics[0].topic_id;
    for name in [None, Some(String::new())] {
        let by_id = |topic_id| MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { topic_id, name: name.clone(), ..Default::default() }]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        for version in 12..=13 {
            let found = client.call(&by_id(id), version).topics.remove(0);
            assert_eq!((found.error_code, found.name.as_deref()), (ErrorCode::NONE, Some("t")));
            let unknown = client.call(&by_id(Uuid::from_halves(9, 9)), version).topics.remove(0);
            assert_eq!((unknown.error_code, unknown.name), (ErrorCode::UNKNOWN_TOPIC_ID, None));
        }
    }
}
