//! Committed offsets: who may commit, what is deleted with what.

use weir_protocol::messages::*;

use crate::member::{
    Member, QUICK, all_offsets, commit_topic, delete, describe, find, groups_share, wait_until,
};
use crate::support::{Client, Running};

/// A commit from outside of any generation.
fn commit_as_administrator(
    client: &mut Client,
    group: &str,
    topic: &str,
    offsets: &[(i32, i64)],
) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: group.to_string(),
        generation_id_or_member_epoch: -1,
        topics: vec![commit_topic(topic, offsets)],
        ..OffsetCommitRequest::default()
    };
    client.call(&request, 9).topics[0].partitions[0].error_code
}

#[test]
fn commits_need_the_current_generation_while_the_group_lives() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[])]);
    let mut member = Member::new(&server, "g");
    let unknown = member.commit("orders", &[(0, 1)]);
    member.settle();
    assert_eq!(unknown, [ErrorCode::NONE], "a consumer without membership");
    assert_eq!(member.commit("orders", &[(0, 5), (1, 6)]), [ErrorCode::NONE; 2]);
    assert_eq!(commit_as_administrator(&mut client, "g", "orders", &[(0, 1)]), ErrorCode::UNKNOWN_MEMBER_ID);
    member.generation += 1;
    assert_eq!(member.commit("orders", &[(0, 9)]), [ErrorCode::ILLEGAL_GENERATION]);
    member.generation -= 1;
    let mut huge = commit_topic("orders", &[(0, 7), (1, 8)]);
    huge.partitions[0].committed_metadata = Some("x".repeat(4097));
    let request = OffsetCommitRequest {
        group_id: "g".to_string(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.id.clone(),
        topics: vec![huge],
        ..OffsetCommitRequest::default()
    };
    let response = member.client.call(&request, 9);
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [ErrorCode::OFFSET_METADATA_TOO_LARGE, ErrorCode::NONE]);
    let orders = |index, offset| ("orders".to_string(), index, offset);
    assert_eq!(all_offsets(&mut client, "g"), [orders(0, 5), orders(1, 8)]);
    let request = OffsetCommitRequest {
        group_id: "missing".to_string(),
        generation_id_or_member_epoch: 3,
        member_id: "m".to_string(),
        topics: vec![commit_topic("orders", &[(0, 1)])],
        ..OffsetCommitRequest::default()
    };
    let code =
        |client: &mut Client, version| client.call(&request, version).topics[0].partitions[0].error_code;
    find(&mut client, "missing");
    assert_eq!(code(&mut client, 8), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(code(&mut client, 9), ErrorCode::GROUP_ID_NOT_FOUND);
}

#[test]
fn offsets_can_be_deleted_one_by_one_unless_the_group_consumes_the_topic() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[]), ("other", 1, &[])]);
    find(&mut client, "g");
    assert_eq!(commit_as_administrator(&mut client, "g", "orders", &[(0, 1), (1, 2)]), ErrorCode::NONE);
    assert_eq!(commit_as_administrator(&mut client, "g", "other", &[(0, 3)]), ErrorCode::NONE);
    let topic = |name: &str, indexes: &[i32]| OffsetDeleteRequestTopic {
        name: name.to_string(),
        partitions: indexes.iter().map(|it| OffsetDeleteRequestPartition { partition_index: *it }).collect(),
    };
    let request = OffsetDeleteRequest {
        group_id: "g".to_string(),
        topics: vec![topic("orders", &[0, 7]), topic("missing", &[0])],
    };
    let response = client.call(&request, 0);
    assert_eq!(response.error_code, ErrorCode::NONE);
    let told: Vec<(&str, Vec<(i32, ErrorCode)>)> = response
        .topics
        .iter()
        .map(|it| {
            let codes = it.partitions.iter().map(|it| (it.partition_index, it.error_code)).collect();
            (it.name.as_str(), codes)
        })
        .collect();
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(told, [("orders", vec![(7, unknown), (0, ErrorCode::NONE)]), ("missing", vec![(0, unknown)])]);
    assert_eq!(all_offsets(&mut client, "g").len(), 2);
    let request = OffsetDeleteRequest { group_id: "nobody".to_string(), ..request };
    assert_eq!(client.call(&request, 0).error_code, ErrorCode::GROUP_ID_NOT_FOUND);

    // A live group that says what it consumes: version 0 of the consumer protocol, one topic, no user data.
    let mut member = Member::new(&server, "g");
    member.metadata = b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff".to_vec();
    member.settle();
    let request = OffsetDeleteRequest {
        group_id: "g".to_string(),
        topics: vec![topic("orders", &[1]), topic("other", &[0])],
    };
    let response = client.call(&request, 0);
    let codes: Vec<_> = response.topics.iter().map(|it| it.partitions[0].error_code).collect();
    assert_eq!(codes, [ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode::NONE]);
    assert_eq!(all_offsets(&mut client, "g"), [("orders".to_string(), 1, 2)]);
}

#[test]
fn the_offsets_of_a_deleted_topic_go_with_it() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[]), ("other", 1, &[])]);
    for group in ["g", "h", "i"] {
        find(&mut client, group);
        assert_eq!(commit_as_administrator(&mut client, group, "orders", &[(0, 1), (2, 2)]), ErrorCode::NONE);
    }
    assert_eq!(commit_as_administrator(&mut client, "g", "other", &[(0, 3)]), ErrorCode::NONE);
    drop_topic(&mut client, "orders");
    wait_until("the offsets are gone", || all_offsets(&mut client, "h").is_empty());
    assert_eq!(all_offsets(&mut client, "g"), [("other".to_string(), 0, 3)]);
    assert!(all_offsets(&mut client, "i").is_empty());
}

#[test]
fn everything_goes_with_the_offsets_topic_and_a_new_one_is_made() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[])]);
    find(&mut client, "g");
    assert_eq!(commit_as_administrator(&mut client, "g", "orders", &[(0, 1)]), ErrorCode::NONE);
    assert!(groups_share(&server) > 0);
    drop_topic(&mut client, "__consumer_offsets");
    assert_eq!(describe(&mut client, "g").error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(groups_share(&server), 0);
    find(&mut client, "g");
    assert!(all_offsets(&mut client, "g").is_empty());
    assert_eq!(commit_as_administrator(&mut client, "g", "orders", &[(0, 2)]), ErrorCode::NONE);
    assert_eq!(all_offsets(&mut client, "g"), [("orders".to_string(), 0, 2)]);
    assert_eq!(delete(&mut client, "g"), ErrorCode::NONE);
    assert_eq!(groups_share(&server), 0);
}

fn drop_topic(client: &mut Client, topic: &str) {
    let request = DeleteTopicsRequest {
        topic_names: vec![topic.to_string()],
        timeout_ms: 1000,
        ..DeleteTopicsRequest::default()
    };
    assert_eq!(client.call(&request, 5).responses[0].error_code, ErrorCode::NONE);
}

#[test]
fn a_topic_that_a_commit_names_twice_has_one_answer_where_something_is_refused() {
    let server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[])]);
    find(&mut client, "g");
    let mut request = OffsetCommitRequest {
        group_id: "g".to_string(),
        generation_id_or_member_epoch: -1,
        topics: vec![commit_topic("orders", &[(0, 1), (7, 1)]), commit_topic("orders", &[(2, 3)])],
        ..OffsetCommitRequest::default()
    };
    let mut answered = |request: &OffsetCommitRequest| -> Vec<Vec<i32>> {
        let topics = client.call(request, 9).topics;
        topics.iter().map(|it| it.partitions.iter().map(|it| it.partition_index).collect()).collect()
    };
    assert_eq!(answered(&request), [vec![7, 0, 2]]);
    request.topics[0].partitions.pop();
    assert_eq!(answered(&request), [vec![0], vec![2]]);
}
