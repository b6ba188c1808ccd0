//! How groups form, change and break: each test tells one story and what every member hears.

mod harness;

use harness::{Broker, config, subscription};
use weir_coordinator::{
    AppendError, Command, GroupConfig, GroupError, JoinGroup, Limits, Missed, Notice, SyncGroup, Unavailable,
};

#[test]
fn two_consumers_form_a_group_and_share_the_work() {
    let mut broker = Broker::default();
    let (anna, anna_joins) = broker.join_new("orders-app");
    let (ben, ben_joins) = broker.join_new("orders-app");
    assert!(anna.starts_with("client-"), "{anna}");
    assert!(broker.is_waiting(anna_joins) && broker.is_waiting(ben_joins));
    assert_eq!(broker.state("orders-app"), "PreparingRebalance");

    broker.wait(6_000);
    let (for_anna, for_ben) = (broker.joined(anna_joins), broker.joined(ben_joins));
    assert_eq!((for_anna.generation_id, for_ben.generation_id), (1, 1));
    assert_eq!(for_anna.leader, for_ben.leader);
    assert_eq!(&*for_anna.leader, anna, "the first member leads");
    assert_eq!(for_anna.members.len(), 2);
    assert_eq!(&*for_anna.members[0].metadata, subscription(&["orders"]));
    assert!(for_ben.members.is_empty(), "only the leader sees the others");
    assert_eq!(for_ben.protocol_name.as_deref(), Some("range"));
    assert_eq!(broker.state("orders-app"), "CompletingRebalance");

    let ben_syncs = broker.sync("orders-app", &ben, 1, &[]);
    assert!(broker.is_waiting(ben_syncs), "a follower waits for the leader");
    let anna_syncs = broker.sync("orders-app", &anna, 1, &[(&anna, "p0"), (&ben, "p1")]);
    assert_eq!(&*broker.synced(anna_syncs).assignment, b"p0");
    assert_eq!(&*broker.synced(ben_syncs).assignment, b"p1");
    assert_eq!(broker.state("orders-app"), "Stable");
    assert_eq!(broker.heartbeat("orders-app", &ben, 1), Ok(()));
    assert_eq!(broker.log.len(), 1, "one record holds the generation");
}

#[test]
fn the_first_rebalance_waits_longer_while_members_come_but_not_beyond_the_rebalance_timeout() {
    let mut broker = Broker::default();
    let mut request = broker.join_request("g", "");
    request.rebalance_timeout_ms = 10_000;
    let (_, first) = broker.join_new_with(request.clone());
    for _ in 0..3 {
        broker.wait(2_900);
        assert!(broker.is_waiting(first));
        let fresh_id = broker.join_request("g", "").fresh_id;
        broker.join_new_with(JoinGroup { fresh_id, ..request.clone() });
    }
    broker.wait(2_000);
    assert_eq!(broker.joined(first).generation_id, 1, "10 s after the first member everybody is answered");
}

#[test]
fn an_old_client_joins_without_the_handshake() {
    let mut broker = Broker::default();
    let request = JoinGroup { api_version: 3, ..broker.join_request("g", "") };
    let token = broker.send(Command::JoinGroup(request));
    assert!(broker.is_waiting(token));
    broker.wait(3_000);
    assert_eq!(broker.joined(token).error, None);
    assert_eq!(&*broker.joined(token).member_id, &*broker.joined(token).leader);
}

#[test]
fn an_id_that_nobody_joins_with_is_forgotten_and_so_is_its_group() {
    let mut broker = Broker::default();
    let token = broker.join("g", "");
    assert_eq!(broker.join_error(token), Some(GroupError::MemberIdRequired));
    assert_eq!(broker.usage.pending_members(), 1);
    let id = broker.joined(token).member_id.to_string();
    broker.wait(10_000);
    assert_eq!(broker.usage.pending_members(), 0);
    assert_eq!(broker.state("g"), "Dead");
    assert!(broker.log.is_empty(), "nothing was ever written about it");
    let token = broker.join("g", &id);
    assert_eq!(broker.join_error(token), Some(GroupError::UnknownMemberId));
    assert_eq!(broker.usage.groups(), 0, "a member with an id founds no group");
    assert_eq!(broker.usage.bytes(), 0);
}

#[test]
fn a_rebalance_waits_for_an_id_that_was_given_out() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    let handshake = broker.join("g", "");
    let newcomer = broker.joined(handshake).member_id.to_string();
    let leader_joins = broker.join("g", &ids[0]);
    assert!(broker.is_waiting(leader_joins), "the newcomer is expected");
    let newcomer_joins = broker.join("g", &newcomer);
    assert_eq!(broker.joined(leader_joins).generation_id, 2);
    assert_eq!(broker.joined(newcomer_joins).generation_id, 2);
}

#[test]
fn a_follower_that_joins_again_unchanged_disturbs_nobody_but_the_leader_starts_a_rebalance() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let token = broker.join("g", &ids[1]);
    assert_eq!(broker.joined(token).generation_id, 1);
    assert_eq!(broker.state("g"), "Stable");

    let leader = broker.join("g", &ids[0]);
    assert!(broker.is_waiting(leader));
    assert_eq!(broker.heartbeat("g", &ids[1], 1), Err(GroupError::RebalanceInProgress));
    let follower = broker.join("g", &ids[1]);
    assert_eq!((broker.joined(leader).generation_id, broker.joined(follower).generation_id), (2, 2));
}

#[test]
fn a_follower_with_a_new_subscription_starts_a_rebalance() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let mut request = broker.join_request("g", &ids[1]);
    request.protocols[0].1 = subscription(&["orders", "payments"]);
    let token = broker.send(Command::JoinGroup(request));
    assert!(broker.is_waiting(token));
    assert_eq!(broker.state("g"), "PreparingRebalance");
    assert!(broker.notices.iter().any(
        |notice| matches!(notice, Notice::PreparingRebalance { reason, .. } if reason.contains("updates its metadata"))
    ));
}

#[test]
fn a_member_that_missed_its_answer_hears_it_again_while_the_assignment_is_awaited() {
    let mut broker = Broker::default();
    let (_, first) = broker.join_new("g");
    let (follower, second) = broker.join_new("g");
    broker.wait(6_000);
    let again = broker.join("g", &follower);
    assert_eq!(broker.joined(again), broker.joined(second));
    let leader = broker.joined(first).leader.to_string();
    let again = broker.join("g", &leader);
    assert_eq!(broker.joined(again).members.len(), 2);
    assert_eq!(broker.state("g"), "CompletingRebalance");
}

#[test]
fn a_silent_member_is_dropped_after_its_session_and_the_others_rebalance() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    for _ in 0..4 {
        broker.wait(3_000);
        let _ = broker.heartbeat("g", &ids[0], 1);
    }
    assert_eq!(broker.heartbeat("g", &ids[0], 1), Err(GroupError::RebalanceInProgress));
    assert_eq!(broker.heartbeat("g", &ids[1], 1), Err(GroupError::UnknownMemberId));
    let missed = |notice: &&Notice| matches!(notice, Notice::MemberExpired { missed: Missed::Heartbeat, .. });
    assert_eq!(broker.notices.iter().filter(missed).count(), 1);
    let token = broker.join("g", &ids[0]);
    assert_eq!(broker.joined(token).generation_id, 2);
    assert_eq!(broker.joined(token).members.len(), 1);
}

#[test]
fn who_does_not_rejoin_within_the_rebalance_timeout_is_left_behind() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 3);
    let leader = broker.join("g", &ids[0]);
    let second = broker.join("g", &ids[1]);
    // The third keeps its session but does not rejoin, as a consumer does that is stuck in its poll loop.
    for _ in 0..11 {
        broker.wait(5_000);
        assert_eq!(broker.heartbeat("g", &ids[2], 1), Err(GroupError::RebalanceInProgress));
    }
    assert!(broker.is_waiting(leader) && broker.is_waiting(second));
    broker.wait(5_000);
    assert_eq!((broker.joined(leader).generation_id, broker.joined(second).generation_id), (2, 2));
    assert_eq!(broker.joined(leader).members.len(), 2);
    assert_eq!(broker.heartbeat("g", &ids[2], 1), Err(GroupError::UnknownMemberId));
}

#[test]
fn when_a_leader_does_not_rejoin_another_member_leads() {
    let mut broker = Broker::default();
    let first = broker.join_static("g", "", "one");
    let second = broker.join_static("g", "", "two");
    broker.wait(6_000);
    let leader = broker.joined(first).leader.to_string();
    let (follower, instance) = if *broker.joined(first).member_id == *leader {
        (broker.joined(second).member_id.to_string(), "two")
    } else {
        (broker.joined(first).member_id.to_string(), "one")
    };
    let mut request = broker.join_request("g", &follower);
    request.group_instance_id = Some(instance.to_owned());
    request.protocols[0].1 = subscription(&["other"]);
    let token = broker.send(Command::JoinGroup(request));
    let leads = |broker: &mut Broker| {
        let other = if instance == "one" { "two" } else { "one" };
        let _ = broker.heartbeat_as("g", &leader, Some(other), 1);
    };
    for _ in 0..12 {
        broker.wait(5_000);
        leads(&mut broker);
    }
    let reply = broker.joined(token);
    assert_eq!(&*reply.leader, follower, "the old leader has not joined");
    assert_eq!(reply.members.len(), 2, "a static member keeps its place");
}

#[test]
fn a_member_that_never_syncs_is_dropped_and_the_rest_go_on() {
    let mut broker = Broker::default();
    let (leader, first) = broker.join_new("g");
    let (follower, _) = broker.join_new("g");
    broker.wait(6_000);
    assert_eq!(&*broker.joined(first).leader, leader);
    let token = broker.sync("g", &leader, 1, &[(&leader, "all")]);
    assert_eq!(broker.synced(token).error, None);
    for _ in 0..12 {
        broker.wait(5_000);
        let _ = broker.heartbeat("g", &leader, 1);
        let _ = broker.heartbeat("g", &follower, 1);
    }
    assert_eq!(broker.heartbeat("g", &follower, 1), Err(GroupError::UnknownMemberId));
    assert_eq!(broker.heartbeat("g", &leader, 1), Err(GroupError::RebalanceInProgress));
}

#[test]
fn followers_are_not_left_waiting_when_the_leader_dies_before_it_assigns() {
    let mut broker = Broker::default();
    let (_, _) = broker.join_new("g");
    let (follower, _) = broker.join_new("g");
    broker.wait(6_000);
    let token = broker.sync("g", &follower, 1, &[]);
    assert!(broker.is_waiting(token));
    broker.wait(10_000);
    assert_eq!(broker.synced(token).error, Some(GroupError::RebalanceInProgress));
    let again = broker.join("g", &follower);
    assert_eq!(&*broker.joined(again).leader, follower);
}

#[test]
fn a_heartbeat_is_not_needed_while_a_request_waits() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let token = broker.join("g", &ids[0]);
    for _ in 0..10 {
        broker.wait(5_000);
        let _ = broker.heartbeat("g", &ids[1], 1);
    }
    assert!(broker.is_waiting(token), "50 s of a 10 s session");
    broker.wait(10_000);
    assert_eq!(broker.joined(token).generation_id, 2);
}

#[test]
fn the_protocol_with_the_most_votes_wins_among_those_that_all_support() {
    let mut broker = Broker::default();
    let mut tokens = Vec::new();
    for names in [["sticky", "range"], ["range", "roundrobin"], ["range", "sticky"]] {
        let mut request = broker.join_request("g", "");
        request.protocols = names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect();
        tokens.push(broker.join_new_with(request).1);
    }
    broker.wait(6_000);
    for token in &tokens {
        assert_eq!(
            broker.joined(*token).protocol_name.as_deref(),
            Some("range"),
            "roundrobin and sticky miss someone"
        );
    }
    let metadata: Vec<Vec<u8>> =
        broker.joined(tokens[0]).members.iter().map(|member| member.metadata.to_vec()).collect();
    assert_eq!(metadata, vec![b"range".to_vec(); 3]);
}

#[test]
fn a_member_that_shares_no_protocol_is_refused() {
    let mut broker = Broker::default();
    broker.stable_group("g", 1);
    let mut request = broker.join_request("g", "");
    request.protocols[0].0 = "sticky".to_owned();
    let token = broker.send(Command::JoinGroup(request));
    assert_eq!(broker.join_error(token), Some(GroupError::InconsistentGroupProtocol));
    let mut request = broker.join_request("g", "");
    request.protocol_type = "connect".to_owned();
    let token = broker.send(Command::JoinGroup(request));
    assert_eq!(broker.join_error(token), Some(GroupError::InconsistentGroupProtocol));
    let request = JoinGroup { protocols: Vec::new(), ..broker.join_request("empty", "") };
    let token = broker.send(Command::JoinGroup(request));
    assert_eq!(broker.join_error(token), Some(GroupError::InconsistentGroupProtocol));
    assert_eq!(broker.state("empty"), "Dead");
}

#[test]
fn a_sync_with_another_protocol_or_generation_is_refused() {
    let mut broker = Broker::default();
    let (id, _) = broker.join_new("g");
    broker.wait(3_000);
    let right = broker.sync_request("g", &id, 1, &[]);
    let refused = |broker: &mut Broker, request: SyncGroup| {
        let token = broker.send(Command::SyncGroup(request));
        broker.synced(token).error
    };
    let wrong = SyncGroup { protocol_name: Some("sticky".to_owned()), ..right.clone() };
    assert_eq!(refused(&mut broker, wrong), Some(GroupError::InconsistentGroupProtocol));
    let wrong = SyncGroup { protocol_type: Some("connect".to_owned()), ..right.clone() };
    assert_eq!(refused(&mut broker, wrong), Some(GroupError::InconsistentGroupProtocol));
    let wrong = SyncGroup { generation_id: 2, ..right.clone() };
    assert_eq!(refused(&mut broker, wrong), Some(GroupError::IllegalGeneration { given: 2, current: 1 }));
    let wrong = SyncGroup { member_id: "who".to_owned(), ..right.clone() };
    assert_eq!(refused(&mut broker, wrong), Some(GroupError::UnknownMemberId));
    // Versions before 5 name no protocol.
    let old = SyncGroup { protocol_name: None, protocol_type: None, ..right };
    assert_eq!(refused(&mut broker, old), None);
}

#[test]
fn requests_to_unknown_groups_and_with_bad_ids_get_kafkas_errors() {
    let mut broker = Broker::default();
    assert_eq!(broker.heartbeat("none", "m", 1), Err(GroupError::UnknownMemberId));
    assert_eq!(broker.heartbeat("", "m", 1), Err(GroupError::InvalidGroupId));
    let token = broker.sync("none", "m", 1, &[]);
    assert_eq!(broker.synced(token).error, Some(GroupError::UnknownMemberId));
    let token = broker.sync("", "m", 1, &[]);
    assert_eq!(broker.synced(token).error, Some(GroupError::InvalidGroupId));
    let token = broker.leave("none", &[("m", None), ("n", Some("i"))]);
    assert_eq!(broker.left(token), Ok(vec![Some(GroupError::UnknownMemberId); 2]));
    let token = broker.join("", "");
    assert_eq!(broker.join_error(token), Some(GroupError::InvalidGroupId));
    for timeout_ms in [5_999, 1_800_001, -1] {
        let request = JoinGroup { session_timeout_ms: timeout_ms, ..broker.join_request("g", "") };
        let token = broker.send(Command::JoinGroup(request));
        let expected = GroupError::InvalidSessionTimeout { timeout_ms, min_ms: 6_000, max_ms: 1_800_000 };
        assert_eq!(broker.join_error(token), Some(expected));
    }
    assert_eq!(broker.usage.bytes(), 0);
}

#[test]
fn a_generation_is_not_reused_and_old_ones_are_illegal() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    let token = broker.join("g", &ids[0]);
    assert_eq!(broker.joined(token).generation_id, 2);
    assert_eq!(
        broker.heartbeat("g", &ids[0], 1),
        Err(GroupError::IllegalGeneration { given: 1, current: 2 })
    );
    assert_eq!(broker.heartbeat("g", &ids[0], 2), Ok(()));
}

#[test]
fn a_leaving_member_causes_a_rebalance_and_the_last_one_leaves_an_empty_group() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 3);
    let token = broker.leave("g", &[(&ids[2], None), ("stranger", None)]);
    assert_eq!(broker.left(token), Ok(vec![None, Some(GroupError::UnknownMemberId)]));
    assert_eq!(broker.heartbeat("g", &ids[0], 1), Err(GroupError::RebalanceInProgress));

    broker.writes_at_once = false;
    let token = broker.leave("g", &[(&ids[0], None), (&ids[1], None)]);
    assert!(broker.is_waiting(token), "answered when the log knows");
    broker.finish_append(0, Ok(()));
    assert_eq!(broker.left(token), Ok(vec![None, None]));
    assert_eq!(broker.state("g"), "Empty");
    broker.restart();
    assert_eq!(broker.state("g"), "Empty");
    assert_eq!(broker.heartbeat("g", &ids[0], 2), Err(GroupError::UnknownMemberId));
}

#[test]
fn group_max_size_refuses_newcomers_and_drops_the_last_to_rejoin() {
    let mut broker = Broker::new(GroupConfig { group_max_size: 2, ..config() }, Limits::default());
    let full = Some(GroupError::GroupMaxSizeReached { limit: 2 });
    let ids = broker.stable_group("g", 2);
    let token = broker.join("g", "");
    assert_eq!(broker.join_error(token), full);
    assert_eq!(&*broker.joined(token).member_id, "");

    // Raised before, lowered now: the third of three does not come back.
    let mut broker = Broker::default();
    let three = broker.stable_group("g", 3);
    assert_eq!(ids.len() + 1, three.len());
    broker.config = std::sync::Arc::new(GroupConfig { group_max_size: 2, ..config() });
    broker.restart();
    assert_eq!(broker.state("g"), "PreparingRebalance", "loaded over the limit");
    let first = broker.join("g", &three[0]);
    let second = broker.join("g", &three[1]);
    let third = broker.join("g", &three[2]);
    assert_eq!(broker.join_error(third), full);
    assert_eq!((broker.joined(first).generation_id, broker.joined(second).generation_id), (2, 2));
}

#[test]
fn an_assignment_that_cannot_be_written_is_handed_to_nobody() {
    let mut broker = Broker::default();
    let (leader, _) = broker.join_new("g");
    let (follower, _) = broker.join_new("g");
    broker.wait(6_000);
    broker.writes_at_once = false;
    let follower_syncs = broker.sync("g", &follower, 1, &[]);
    let leader_syncs = broker.sync("g", &leader, 1, &[(&leader, "a"), (&follower, "b")]);
    assert!(broker.is_waiting(leader_syncs) && broker.is_waiting(follower_syncs));
    broker.finish_append(0, Err(AppendError::NotAvailable));
    let expected = Some(GroupError::CoordinatorNotAvailable { reason: Unavailable::LogNotWritable });
    assert_eq!(broker.synced(leader_syncs).error, expected);
    assert_eq!(broker.synced(follower_syncs).error, expected);
    assert!(broker.synced(follower_syncs).assignment.is_empty());
    assert_eq!(broker.state("g"), "PreparingRebalance");
}

#[test]
fn an_assignment_that_comes_to_the_log_after_the_group_has_moved_on_is_not_handed_out() {
    let mut broker = Broker::default();
    let (leader, _) = broker.join_new("g");
    broker.wait(3_000);
    broker.writes_at_once = false;
    let syncs = broker.sync("g", &leader, 1, &[(&leader, "old")]);
    let (_, newcomer) = broker.join_new("g");
    assert_eq!(broker.synced(syncs).error, Some(GroupError::RebalanceInProgress));
    let rejoins = broker.join("g", &leader);
    assert_eq!(broker.joined(newcomer).generation_id, 2);
    assert_eq!(broker.joined(rejoins).generation_id, 2);
    broker.finish_append(0, Ok(()));
    assert_eq!(broker.state("g"), "CompletingRebalance");
    let syncs = broker.sync("g", &leader, 2, &[(&leader, "new")]);
    broker.finish_append(0, Ok(()));
    assert_eq!(&*broker.synced(syncs).assignment, b"new");
}

#[test]
fn a_leader_that_asks_twice_is_answered_once_with_what_the_log_has() {
    let mut broker = Broker::default();
    let (leader, _) = broker.join_new("g");
    broker.wait(3_000);
    broker.writes_at_once = false;
    let first = broker.sync("g", &leader, 1, &[(&leader, "one")]);
    let second = broker.sync("g", &leader, 1, &[(&leader, "two")]);
    assert_eq!(broker.held.len(), 1);
    assert_eq!(
        broker.synced(first).error,
        Some(GroupError::RebalanceInProgress),
        "its connection asked anew"
    );
    broker.finish_append(0, Ok(()));
    assert_eq!(&*broker.synced(second).assignment, b"one");
    broker.restart();
    let described = broker.shard.describe_group("g", 6).unwrap();
    assert_eq!(&*described.members[0].assignment, b"one");
}

#[test]
fn an_assignment_larger_than_a_batch_is_an_error_and_not_an_append() {
    let mut broker = Broker::new(GroupConfig { max_append_bytes: 10_000, ..config() }, Limits::default());
    let (leader, _) = broker.join_new("g");
    broker.wait(3_000);
    let token = broker.sync("g", &leader, 1, &[(&leader, &"x".repeat(10_000))]);
    assert_eq!(broker.synced(token).error, Some(GroupError::UnknownServerError));
    assert!(broker.log.is_empty());
}

#[test]
fn a_vanished_connection_frees_the_rebalance_of_a_member_that_cannot_come_back() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    let old_client = JoinGroup { api_version: 3, ..broker.join_request("g", "") };
    let vanishes = broker.send(Command::JoinGroup(old_client));
    let rejoins = broker.join("g", &ids[0]);
    let reply = broker.joined(rejoins);
    assert_eq!((reply.generation_id, reply.members.len()), (2, 2));
    let _ = vanishes;

    let old_client = JoinGroup { api_version: 3, ..broker.join_request("g", "") };
    let vanishes = broker.send(Command::JoinGroup(old_client));
    broker.cancel(vanishes);
    let rejoins = broker.join("g", &ids[0]);
    assert!(broker.is_waiting(rejoins), "the second member of generation 2 is still to come");
}

#[test]
fn a_vanished_connection_of_a_known_member_keeps_its_place_for_one_session() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let leader = broker.join("g", &ids[0]);
    broker.cancel(leader);
    let other = broker.join("g", &ids[1]);
    assert_eq!(broker.state("g"), "PreparingRebalance");
    broker.wait(9_000);
    let back = broker.join("g", &ids[0]);
    assert_eq!(broker.joined(back).generation_id, 2);
    assert_eq!(broker.joined(back).members.len(), 2);
    broker.complete("g", &[(ids[0].clone(), back), (ids[1].clone(), other)]);

    let leader = broker.join("g", &ids[0]);
    broker.cancel(leader);
    let other = broker.join("g", &ids[1]);
    broker.wait(10_000);
    assert_eq!(broker.joined(other).generation_id, 3, "it did not come back");
    assert_eq!(broker.joined(other).members.len(), 1);
}

#[test]
fn a_follower_whose_sync_connection_vanished_can_ask_again() {
    let mut broker = Broker::default();
    let (leader, _) = broker.join_new("g");
    let (follower, _) = broker.join_new("g");
    broker.wait(6_000);
    let token = broker.sync("g", &follower, 1, &[]);
    broker.cancel(token);
    broker.sync("g", &leader, 1, &[(&follower, "mine")]);
    let token = broker.sync("g", &follower, 1, &[]);
    assert_eq!(&*broker.synced(token).assignment, b"mine");
}

#[test]
fn a_retried_join_takes_the_place_of_the_older_one() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let older = broker.join("g", &ids[0]);
    let newer = broker.join("g", &ids[0]);
    assert_eq!(broker.join_error(older), Some(GroupError::RebalanceInProgress));
    let _ = broker.join("g", &ids[1]);
    assert_eq!(broker.joined(newer).generation_id, 2);
}

#[test]
fn members_of_all_kinds_of_protocols_coordinate() {
    let mut broker = Broker::default();
    let mut request = broker.join_request("connect-cluster", "");
    request.protocol_type = "connect".to_owned();
    request.protocols =
        vec![("sessioned".to_owned(), b"worker".to_vec()), ("sessioned".to_owned(), b"again".to_vec())];
    let (id, token) = broker.join_new_with(request);
    broker.wait(3_000);
    let reply = broker.joined(token);
    assert_eq!(reply.protocol_type.as_deref(), Some("connect"));
    assert_eq!(&*reply.members[0].metadata, b"worker", "the first of two equal names counts");
    let request = SyncGroup {
        protocol_type: Some("connect".to_owned()),
        protocol_name: Some("sessioned".to_owned()),
        ..broker.sync_request("connect-cluster", &id, 1, &[(&id, "task")])
    };
    let token = broker.send(Command::SyncGroup(request));
    assert_eq!(&*broker.synced(token).assignment, b"task");
}
