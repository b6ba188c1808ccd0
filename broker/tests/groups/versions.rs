//! Every version of every group API, from the first join to the deletion.

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use crate::member::{Member, QUICK, all_offsets, commit_topic, delete, describe, find};
use crate::support::{Client, Running};

#[test]
fn the_ranges_are_those_of_kafka_4_4() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    for (api, range) in [
        (ApiKey::OffsetCommit, (2, 10)),
        (ApiKey::OffsetFetch, (1, 10)),
        (ApiKey::FindCoordinator, (0, 6)),
        (ApiKey::JoinGroup, (0, 9)),
        (ApiKey::Heartbeat, (0, 4)),
        (ApiKey::LeaveGroup, (0, 5)),
        (ApiKey::SyncGroup, (0, 5)),
        (ApiKey::DescribeGroups, (0, 6)),
        (ApiKey::ListGroups, (0, 5)),
        (ApiKey::DeleteGroups, (0, 3)),
        (ApiKey::OffsetDelete, (0, 0)),
    ] {
        assert_eq!(client.versions(api), range, "{}", api.name());
    }
}

#[test]
fn coordinators_are_found_in_every_version() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    for version in 0..=6 {
        let mut request = FindCoordinatorRequest::default();
        if version < 4 {
            request.key = "g".to_string();
            let found = client.call(&request, version);
            assert_eq!((found.error_code, found.node_id), (ErrorCode::NONE, 7));
            assert_eq!((found.host.as_str(), found.port), ("127.0.0.1", i32::from(server.port())));
            if version >= 1 {
                assert_eq!(found.error_message.as_deref(), Some("NONE"));
            }
        } else {
            request.coordinator_keys = vec!["g".to_string(), "h".to_string(), String::new()];
            let found = client.call(&request, version).coordinators;
            assert_eq!(found.len(), 3);
            for (coordinator, key) in found.iter().zip(&request.coordinator_keys) {
                assert_eq!((&coordinator.key, coordinator.error_code), (key, ErrorCode::NONE));
                assert_eq!((coordinator.node_id, coordinator.port), (7, i32::from(server.port())));
            }
        }
    }
    // Transactions are not served: told at once and in words, not with an error that clients retry.
    let request = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["tx".to_string()],
        ..FindCoordinatorRequest::default()
    };
    let found = client.call(&request, 4).coordinators.remove(0);
    assert_eq!((found.error_code, found.node_id, found.port), (ErrorCode::INVALID_REQUEST, -1, -1));
    assert!(found.error_message.unwrap().contains("transactions"));
    for key_type in [2, 3, -1] {
        let request = FindCoordinatorRequest { key_type, ..request.clone() };
        assert_eq!(client.call(&request, 6).coordinators[0].error_code, ErrorCode::INVALID_REQUEST);
    }
}

#[test]
fn a_member_lives_and_dies_in_every_version() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[])]);
    let id = topic_id(&mut client, "orders");
    for version in 0..=10_i16 {
        let group = format!("group-{version}");
        let mut member = Member::new(&server, &group);
        let joined = member.join(version.min(9));
        assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, 1));
        assert_eq!(joined.protocol_name.as_deref(), Some("range"));
        assert_eq!(joined.protocol_type.as_deref(), (version >= 7).then_some("consumer"));
        assert_eq!((&joined.leader, joined.skip_assignment), (&joined.member_id, false));
        assert!(joined.member_id.starts_with("test-"), "{}", joined.member_id);
        let only = &joined.members[0];
        assert_eq!((&only.member_id, &only.metadata[..]), (&joined.member_id, &b"topics"[..]));

        let me = member.id.clone();
        let synced = member.sync(version.min(5), &[(&me, b"mine"), ("nobody", b"lost")]);
        assert_eq!((synced.error_code, &synced.assignment[..]), (ErrorCode::NONE, &b"mine"[..]));
        assert_eq!(synced.protocol_name.as_deref(), (version >= 5).then_some("range"));
        assert_eq!(member.heartbeat(version.min(4)), ErrorCode::NONE);

        commit(&mut member, version.max(2), id);
        fetch(&mut member.client, &group, version.max(1), id);
        describe_it(&mut member, version.min(6));
        list(&mut member.client, &group, version.min(5));

        let left = member.leave(version.min(5));
        assert_eq!(left.error_code, ErrorCode::NONE);
        if version >= 3 {
            assert_eq!((&left.members[0].member_id, left.members[0].error_code), (&me, ErrorCode::NONE));
        }
        assert_eq!(describe(&mut client, &group).group_state, "Empty");

        let request = DeleteGroupsRequest {
            groups_names: vec![group.clone(), "missing".to_string(), group.clone()],
            ..DeleteGroupsRequest::default()
        };
        let results = client.call(&request, version.min(3)).results;
        let codes: Vec<_> = results.iter().map(|it| (it.group_id.as_str(), it.error_code)).collect();
        assert_eq!(codes, [(group.as_str(), ErrorCode::NONE), ("missing", ErrorCode::GROUP_ID_NOT_FOUND)]);
        assert!(all_offsets(&mut client, &group).is_empty());
    }
}

fn topic_id(client: &mut Client, topic: &str) -> Uuid {
    let name = Some(topic.to_string());
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic { name, ..MetadataRequestTopic::default() }]),
        ..MetadataRequest::default()
    };
    client.call(&request, 12).topics[0].topic_id
}

/// Commits two offsets of `orders`, a partition that is not there and topics that are not there.
fn commit(member: &mut Member, version: i16, id: Uuid) {
    let mut orders = commit_topic("orders", &[(0, 10), (9, 1), (2, 12)]);
    let mut missing = commit_topic("missing", &[(0, 1)]);
    if version >= 10 {
        (orders.name, orders.topic_id) = (String::new(), id);
        (missing.name, missing.topic_id) = (String::new(), Uuid([9; 16]));
    }
    let request = OffsetCommitRequest {
        group_id: member.group.clone(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.id.clone(),
        retention_time_ms: -1,
        topics: vec![orders, missing],
        ..OffsetCommitRequest::default()
    };
    let response = member.client.call(&request, version);
    let codes = |at: usize| -> Vec<(i32, ErrorCode)> {
        let partitions = &response.topics[at].partitions;
        partitions.iter().map(|it| (it.partition_index, it.error_code)).collect()
    };
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(codes(0), [(9, unknown), (0, ErrorCode::NONE), (2, ErrorCode::NONE)], "version {version}");
    let no_topic = if version >= 10 { ErrorCode::UNKNOWN_TOPIC_ID } else { unknown };
    assert_eq!(codes(1), [(0, no_topic)]);
    let keys: Vec<_> = response.topics.iter().map(|it| (it.name.as_str(), it.topic_id)).collect();
    match version {
        10.. => assert_eq!(keys, [("", id), ("", Uuid([9; 16]))]),
        _ => assert_eq!(keys, [("orders", Uuid::default()), ("missing", Uuid::default())]),
    }
}

fn fetch(client: &mut Client, group: &str, version: i16, id: Uuid) {
    let found: Vec<(i32, i64, String, ErrorCode)> = if version < 8 {
        let topic = OffsetFetchRequestTopic {
            name: "orders".to_string(),
            partition_indexes: vec![2, 1],
            ..OffsetFetchRequestTopic::default()
        };
        let request = OffsetFetchRequest {
            group_id: group.to_string(),
            topics: Some(vec![topic]),
            require_stable: version >= 7,
            ..OffsetFetchRequest::default()
        };
        let response = client.call(&request, version);
        assert_eq!(response.error_code, ErrorCode::NONE);
        let topic = &response.topics[0];
        assert_eq!(topic.name, "orders");
        let each = topic.partitions.iter().map(|it| {
            assert_eq!(
                it.committed_leader_epoch,
                if version >= 6 && it.committed_offset > 0 { 4 } else { -1 }
            );
            (it.partition_index, it.committed_offset, it.metadata.clone().unwrap(), it.error_code)
        });
        each.collect()
    } else {
        let mut topic = OffsetFetchRequestTopics {
            name: "orders".to_string(),
            partition_indexes: vec![2, 1],
            ..OffsetFetchRequestTopics::default()
        };
        let mut unknown = OffsetFetchRequestTopics { name: "missing".to_string(), ..topic.clone() };
        if version >= 10 {
            (topic.name, topic.topic_id) = (String::new(), id);
            (unknown.name, unknown.topic_id) = (String::new(), Uuid([9; 16]));
        }
        let asked = |topics| OffsetFetchRequestGroup {
            group_id: group.to_string(),
            topics,
            ..OffsetFetchRequestGroup::default()
        };
        let request = OffsetFetchRequest {
            groups: vec![asked(Some(vec![unknown, topic])), asked(None)],
            require_stable: true,
            ..OffsetFetchRequest::default()
        };
        let response = client.call(&request, version);
        assert_eq!(response.groups.len(), 2);
        let codes: Vec<_> = response.groups[0].topics.iter().map(|it| it.partitions[0].error_code).collect();
        let at = match version {
            // A topic id that is not known comes last; a name that is not known has no offset.
            10.. => {
                assert_eq!(codes, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_ID]);
                assert_eq!(response.groups[0].topics[0].topic_id, id);
                0
            }
            _ => {
                assert_eq!(codes, [ErrorCode::NONE, ErrorCode::NONE]);
                assert_eq!(response.groups[0].topics[0].partitions[0].committed_offset, -1);
                1
            }
        };
        let all: Vec<_> =
            response.groups[1].topics[0].partitions.iter().map(|it| it.partition_index).collect();
        assert_eq!((response.groups[1].topics.len(), &all[..]), (1, &[0, 2][..]));
        let each = response.groups[0].topics[at].partitions.iter().map(|it| {
            assert_eq!(it.committed_leader_epoch, if it.committed_offset > 0 { 4 } else { -1 });
            (it.partition_index, it.committed_offset, it.metadata.clone().unwrap(), it.error_code)
        });
        each.collect()
    };
    let none = ErrorCode::NONE;
    assert_eq!(found, [(2, 12, "note 12".to_string(), none), (1, -1, String::new(), none)], "{version}");
}

fn describe_it(member: &mut Member, version: i16) {
    let request = DescribeGroupsRequest {
        groups: vec![member.group.clone(), "missing".to_string()],
        include_authorized_operations: version >= 3,
        ..DescribeGroupsRequest::default()
    };
    let groups = member.client.call(&request, version).groups;
    let known = &groups[0];
    assert_eq!((known.error_code, &known.group_id), (ErrorCode::NONE, &member.group));
    let words = (known.group_state.as_str(), known.protocol_type.as_str(), known.protocol_data.as_str());
    assert_eq!(words, ("Stable", "consumer", "range"));
    assert_eq!(known.authorized_operations, if version >= 3 { 3400 } else { i32::MIN });
    let only = &known.members[0];
    assert_eq!((&only.member_id, only.client_id.as_str()), (&member.id, "test"));
    assert_eq!(only.client_host, "/127.0.0.1");
    assert_eq!((&only.member_metadata[..], &only.member_assignment[..]), (&b"topics"[..], &b"mine"[..]));
    let missing = &groups[1];
    assert_eq!((missing.group_state.as_str(), missing.members.len()), ("Dead", 0));
    let (code, text) = match version {
        6.. => (ErrorCode::GROUP_ID_NOT_FOUND, Some("Group missing not found.")),
        _ => (ErrorCode::NONE, None),
    };
    assert_eq!((missing.error_code, missing.error_message.as_deref()), (code, text));
}

fn list(client: &mut Client, group: &str, version: i16) {
    let ask = |client: &mut Client, states: &[&str], types: &[&str]| -> Vec<ListedGroup> {
        let own = |words: &[&str]| words.iter().map(|it| (*it).to_string()).collect();
        let request = ListGroupsRequest {
            states_filter: own(states),
            types_filter: own(types),
            ..ListGroupsRequest::default()
        };
        let response = client.call(&request, version);
        assert_eq!(response.error_code, ErrorCode::NONE);
        response.groups
    };
    let all = ask(client, &[], &[]);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].group_id.as_str(), all[0].protocol_type.as_str()), (group, "consumer"));
    assert_eq!(all[0].group_state, if version >= 4 { "Stable" } else { "" });
    assert_eq!(all[0].group_type, if version >= 5 { "classic" } else { "" });
    if version >= 4 {
        assert_eq!(ask(client, &["stable", "Empty"], &[]), all);
        assert!(ask(client, &["Empty"], &[]).is_empty());
    }
    if version >= 5 {
        assert_eq!(ask(client, &[], &["Classic"]), all);
        assert!(ask(client, &[], &["consumer"]).is_empty());
    }
}

#[test]
fn requests_before_there_is_a_coordinator_are_sent_to_look_for_it() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    let request = HeartbeatRequest { group_id: "g".to_string(), ..HeartbeatRequest::default() };
    assert_eq!(client.call(&request, 4).error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(client.call(&HeartbeatRequest::default(), 4).error_code, ErrorCode::INVALID_GROUP_ID);
    assert_eq!(describe(&mut client, "g").error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(delete(&mut client, "g"), ErrorCode::NOT_COORDINATOR);
    assert!(client.call(&ListGroupsRequest::default(), 5).groups.is_empty());
    // Even where nothing is asked for.
    let mut nothing = OffsetDeleteRequest { group_id: "g".to_string(), topics: Vec::new() };
    assert_eq!(client.call(&nothing, 0).error_code, ErrorCode::NOT_COORDINATOR);
    nothing.group_id = String::new();
    assert_eq!(client.call(&nothing, 0).error_code, ErrorCode::INVALID_GROUP_ID);
    let topics = || OffsetFetchRequestTopic {
        name: "orders".to_string(),
        partition_indexes: vec![4],
        ..OffsetFetchRequestTopic::default()
    };
    let request = OffsetFetchRequest {
        group_id: "g".to_string(),
        topics: Some(vec![topics()]),
        ..OffsetFetchRequest::default()
    };
    // In version 1 only partitions have an error.
    let response = client.call(&request, 1);
    let answer = &response.topics[0].partitions[0];
    assert_eq!((answer.error_code, answer.committed_offset), (ErrorCode::NOT_COORDINATOR, -1));
    assert_eq!(client.call(&request, 2).error_code, ErrorCode::NOT_COORDINATOR);
    find(&mut client, "g");
    assert_eq!(client.call(&request, 2).error_code, ErrorCode::NONE);
    assert_eq!(client.call(&request, 1).topics[0].partitions[0].error_code, ErrorCode::NONE);
}

#[test]
fn bytes_after_a_request_are_passed_over_as_kafka_does() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    // librdkafka asks so for the metadata of all topics.
    let all = MetadataRequest { topics: None, ..MetadataRequest::default() };
    let response = client.call_with_tail(&all, 13, &[0, 0, 0]);
    assert_eq!(response.brokers.len(), 1);
    find(&mut client, "g");
}
