//! What the log of the offsets topic brings back.

use weir_protocol::messages::*;

use crate::member::{
    Member, QUICK, all_offsets, commit_topic, delete, describe, find, groups_share, wait_until,
};
use crate::support::{Client, Running};

/// Offsets as soon as they are loaded.
fn loaded_offsets(client: &mut Client, group: &str) -> Vec<(String, i32, i64)> {
    find(client, group);
    wait_until("the group is loaded", || {
        describe(client, group).error_code != ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
    });
    all_offsets(client, group)
}

#[test]
fn groups_members_and_offsets_survive_a_restart() {
    let mut server = Running::start(QUICK);
    server.client().create(&[("orders", 3, &[])]);
    let mut member = Member::new(&server, "g");
    member.settle();
    assert_eq!(member.commit("orders", &[(0, 5), (1, 6)]), [ErrorCode::NONE; 2]);
    assert_eq!(member.commit("orders", &[(1, 7)]), [ErrorCode::NONE]);
    let before = describe(&mut member.client, "g");
    for round in 1..=2 {
        server.restart();
        member.client = server.client();
        let orders = |index, offset| ("orders".to_string(), index, offset);
        let expected = [orders(0, 5), orders(1, if round == 1 { 7 } else { 8 })];
        assert_eq!(loaded_offsets(&mut member.client, "g"), expected);
        assert_eq!(describe(&mut member.client, "g"), before);
        // The member goes on as if nothing had been.
        assert_eq!(member.heartbeat(4), ErrorCode::NONE);
        assert_eq!(member.commit("orders", &[(1, 8)]), [ErrorCode::NONE]);
    }
    assert_eq!(member.leave(5).error_code, ErrorCode::NONE);
    server.restart();
    let mut client = server.client();
    assert_eq!(loaded_offsets(&mut client, "g").len(), 2);
    assert_eq!(describe(&mut client, "g").group_state, "Empty");
    assert_eq!(delete(&mut client, "g"), ErrorCode::NONE);
    assert_eq!(groups_share(&server), 0);
    server.restart();
    let mut client = server.client();
    assert!(loaded_offsets(&mut client, "g").is_empty());
    assert!(client.call(&ListGroupsRequest::default(), 5).groups.is_empty());
}

#[test]
fn a_member_that_does_not_come_back_after_a_restart_is_dropped() {
    let mut server = Running::start(QUICK);
    let mut member = Member::new(&server, "g");
    member.session_timeout_ms = 300;
    // On a machine that is slow a session may end before it has begun.
    while let Err(code) = member.try_settle() {
        assert_eq!(code, ErrorCode::UNKNOWN_MEMBER_ID);
        member.id = String::new();
    }
    server.restart();
    let mut client = server.client();
    find(&mut client, "g");
    wait_until("the session has ended", || describe(&mut client, "g").group_state == "Empty");
}

#[test]
fn many_groups_in_all_partitions_are_read_back() {
    let mut server = Running::start(QUICK);
    let mut client = server.client();
    client.create(&[("orders", 3, &[])]);
    find(&mut client, "g");
    let mut commit = |round: i64| {
        for number in 0..200 {
            let request = OffsetCommitRequest {
                group_id: format!("group-{number}"),
                generation_id_or_member_epoch: -1,
                topics: vec![commit_topic("orders", &[(0, number), (2, number * 1000 + round)])],
                ..OffsetCommitRequest::default()
            };
            assert_eq!(client.call(&request, 9).topics[0].partitions[0].error_code, ErrorCode::NONE);
        }
    };
    commit(1);
    commit(2);
    let held = groups_share(&server);
    server.restart();
    let mut client = server.client();
    for number in 0..200 {
        let offsets = loaded_offsets(&mut client, &format!("group-{number}"));
        let orders = |index, offset| ("orders".to_string(), index, offset);
        assert_eq!(offsets, [orders(0, number), orders(2, number * 1000 + 2)]);
    }
    assert_eq!(client.call(&ListGroupsRequest::default(), 5).groups.len(), 200);
    assert_eq!(groups_share(&server), held);
}
