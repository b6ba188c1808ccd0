//! Requests that promise little and cost much: refused or cut off, and nothing of them stays.

use weir_protocol::messages::*;

use crate::member::{Member, commit_topic, delete, find, groups_share, wait_until};
use crate::support::Running;

const SMALL: &str = "memory.budget.bytes=64MiB\nsocket.request.max.bytes=104857600\n\
                     offsets.topic.num.partitions=5\noffsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0";

fn assert_at_rest(server: &Running) {
    wait_until("all budgets read 0", || server.budgets().iter().all(|budget| budget.used == 0));
}

#[test]
fn a_commit_whose_records_would_repeat_a_long_name_very_often_is_refused() {
    let server = Running::start(SMALL);
    let mut client = server.client();
    client.create(&[("orders", 1, &[])]);
    let group = "g".repeat(30_000);
    find(&mut client, &group);
    // 2,000 partitions × 30 kB: a small request for 60 MB of records.
    let request = OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: -1,
        topics: vec![commit_topic("orders", &vec![(0, 1); 2000])],
        ..OffsetCommitRequest::default()
    };
    if let Some(response) = client.try_call(&request, 9) {
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
    }
    let request = OffsetCommitRequest { topics: vec![commit_topic("orders", &vec![(0, 1); 40])], ..request };
    let mut client = server.client();
    let response = client.call(&request, 9);
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
    let mut client = server.client();
    let topic = OffsetDeleteRequestTopic {
        name: "orders".to_string(),
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }; 100_000],
    };
    find(&mut client, "h");
    // Answered or cut off, but not carried out in memory.
    let _ = client.try_call(&OffsetDeleteRequest { group_id: "h".to_string(), topics: vec![topic] }, 0);
    assert_at_rest(&server);
}

#[test]
fn requests_with_very_many_small_things_end_without_a_trace() {
    let server = Running::start(SMALL);
    let member = Member::new(&server, "g");
    let protocol = |number: u32| JoinGroupRequestProtocol {
        name: format!("{number:x}"),
        ..JoinGroupRequestProtocol::default()
    };
    let request =
        JoinGroupRequest { protocols: (0..200_000).map(protocol).collect(), ..member.join_request(9) };
    let _ = server.client().try_call(&request, 9);
    let request = LeaveGroupRequest {
        group_id: "g".to_string(),
        members: vec![MemberIdentity::default(); 300_000],
        ..LeaveGroupRequest::default()
    };
    let _ = server.client().try_call(&request, 5);
    let request = DeleteGroupsRequest {
        groups_names: (0..200_000).map(|number| format!("{number:x}")).collect(),
        ..DeleteGroupsRequest::default()
    };
    let _ = server.client().try_call(&request, 2);
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![String::new(); 500_000],
        ..FindCoordinatorRequest::default()
    };
    let _ = server.client().try_call(&request, 4);
    let request =
        DescribeGroupsRequest { groups: vec![String::new(); 500_000], ..DescribeGroupsRequest::default() };
    let _ = server.client().try_call(&request, 6);
    let request = SyncGroupRequest {
        group_id: "g".to_string(),
        assignments: vec![SyncGroupRequestAssignment::default(); 200_000],
        ..SyncGroupRequest::default()
    };
    let _ = server.client().try_call(&request, 4);
    drop(member);
    assert_at_rest(&server);
}

#[test]
fn members_that_fill_the_share_are_refused_and_the_others_live_on() {
    let server = Running::start(SMALL);
    let mut well_behaved = Member::new(&server, "good");
    well_behaved.settle();
    let mut refused = 0;
    let mut members = Vec::new();
    for number in 0..200 {
        let mut member = Member::new(&server, &format!("greedy-{number}"));
        member.metadata = vec![7; 200_000];
        let joined = member.join(3);
        match joined.error_code {
            ErrorCode::NONE => members.push(member),
            ErrorCode::COORDINATOR_NOT_AVAILABLE => refused += 1,
            code => panic!("{code:?}"),
        }
        assert_eq!(well_behaved.heartbeat(4), ErrorCode::NONE);
    }
    assert!(refused > 0 && !members.is_empty(), "{refused} refused, {} joined", members.len());
    for mut member in members {
        let group = member.group.clone();
        assert_eq!(member.leave(5).error_code, ErrorCode::NONE);
        let _ = delete(&mut member.client, &group);
    }
    assert_eq!(well_behaved.heartbeat(4), ErrorCode::NONE);
    well_behaved.leave(5);
    delete(&mut server.client(), "good");
    wait_until("the share is empty", || groups_share(&server) == 0);
    assert_at_rest(&server);
}
