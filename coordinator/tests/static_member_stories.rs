//! Static members (KIP-345, KIP-814): who restarts with its `group.instance.id` keeps its work, and nobody else gets it.

mod harness;

use harness::Broker;
use weir_coordinator::{AppendError, Command, GroupError, JoinGroup, Unavailable};

/// Two static members, "one" leads; gives their ids.
fn stable_pair(broker: &mut Broker) -> (String, String) {
    let first = broker.join_static("g", "", "one");
    let second = broker.join_static("g", "", "two");
    broker.wait(6_000);
    let mut joins = vec![
        (broker.joined(first).member_id.to_string(), first),
        (broker.joined(second).member_id.to_string(), second),
    ];
    assert_eq!(&*broker.joined(first).leader, joins[0].0);
    broker.complete("g", &joins);
    let two = joins.remove(1).0;
    (joins.remove(0).0, two)
}

#[test]
fn a_static_follower_restarts_without_a_rebalance_and_its_former_self_is_fenced() {
    let mut broker = Broker::default();
    let (_, old) = stable_pair(&mut broker);
    assert!(old.starts_with("two-"), "{old}");
    let records = broker.log.len();
    let token = broker.join_static("g", "", "two");
    let reply = broker.joined(token);
    assert_eq!((reply.error, reply.generation_id, reply.skip_assignment), (None, 1, false));
    assert_ne!(&*reply.member_id, old);
    assert!(reply.members.is_empty());
    assert_eq!(broker.log.len(), records + 1, "the new id is in the log");
    assert_eq!(broker.state("g"), "Stable");

    let new = reply.member_id.to_string();
    let token = broker.sync("g", &new, 1, &[]);
    assert_eq!(&*broker.synced(token).assignment, b"part-1", "the work stays");
    let fenced = GroupError::FencedInstanceId;
    assert_eq!(broker.heartbeat_as("g", &old, Some("two"), 1), Err(fenced.clone()));
    let mut commit = broker.commit_request("g", &old, 1, "orders", 5);
    commit.group_instance_id = Some("two".to_owned());
    let token = broker.send(Command::OffsetCommit(commit));
    assert_eq!(broker.commit_error(token), Some(fenced.clone()));
    let token = broker.leave("g", &[(&old, Some("two"))]);
    assert_eq!(broker.left(token), Ok(vec![Some(fenced.clone())]));
    let token = broker.join_static("g", &old, "two");
    assert_eq!(broker.join_error(token), Some(fenced));
    assert_eq!(broker.heartbeat_as("g", &new, Some("two"), 1), Ok(()));

    broker.restart();
    assert_eq!(broker.heartbeat_as("g", &new, Some("two"), 1), Ok(()));
    assert_eq!(broker.heartbeat_as("g", &old, Some("two"), 1), Err(GroupError::FencedInstanceId));
}

#[test]
fn a_static_leader_restarts_and_is_told_to_skip_the_assignment() {
    let mut broker = Broker::default();
    let (old, _) = stable_pair(&mut broker);
    let token = broker.join_static("g", "", "one");
    let reply = broker.joined(token);
    assert_eq!(reply.leader, reply.member_id);
    assert!(reply.skip_assignment);
    assert_eq!(reply.members.len(), 2);

    // Before v9 it must not know that it leads.
    let request = JoinGroup { api_version: 8, ..broker.join_request("g", "") };
    let request = JoinGroup { group_instance_id: Some("one".to_owned()), ..request };
    let previous = reply.member_id;
    let token = broker.send(Command::JoinGroup(request));
    let reply = broker.joined(token);
    assert_eq!(reply.leader, previous);
    assert_ne!(reply.leader, reply.member_id);
    assert!(!reply.skip_assignment && reply.members.is_empty());
    assert_ne!(&*reply.member_id, old);
}

#[test]
fn if_the_new_id_cannot_be_written_the_former_member_stays() {
    let mut broker = Broker::default();
    let (_, old) = stable_pair(&mut broker);
    broker.writes_at_once = false;
    let token = broker.join_static("g", "", "two");
    assert!(broker.is_waiting(token));
    broker.finish_append(0, Err(AppendError::NotAvailable));
    let reply = broker.joined(token);
    assert_eq!(
        reply.error,
        Some(GroupError::CoordinatorNotAvailable { reason: Unavailable::LogNotWritable })
    );
    assert_eq!(&*reply.member_id, "");
    assert_eq!(broker.heartbeat_as("g", &old, Some("two"), 1), Ok(()));
    assert_eq!(broker.state("g"), "Stable");
}

#[test]
fn a_static_member_that_changes_the_protocol_starts_a_rebalance() {
    let mut broker = Broker::default();
    let mut tokens = Vec::new();
    for instance in ["one", "two"] {
        let mut request = broker.join_request("g", "");
        request.group_instance_id = Some(instance.to_owned());
        request.protocols = vec![("range".to_owned(), b"r".to_vec()), ("sticky".to_owned(), b"s".to_vec())];
        tokens.push(broker.send(Command::JoinGroup(request)));
    }
    broker.wait(6_000);
    let joins: Vec<_> =
        tokens.iter().map(|token| (broker.joined(*token).member_id.to_string(), *token)).collect();
    broker.complete("g", &joins);
    let mut request = broker.join_request("g", "");
    request.group_instance_id = Some("two".to_owned());
    request.protocols = vec![("sticky".to_owned(), b"s".to_vec())];
    let token = broker.send(Command::JoinGroup(request));
    assert!(broker.is_waiting(token));
    assert_eq!(broker.state("g"), "PreparingRebalance");
    let mut request = broker.join_request("g", &joins[0].0);
    request.group_instance_id = Some("one".to_owned());
    request.protocols = vec![("range".to_owned(), b"r".to_vec()), ("sticky".to_owned(), b"s".to_vec())];
    broker.send(Command::JoinGroup(request));
    assert_eq!(broker.joined(token).protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn a_static_member_that_restarts_during_a_rebalance_fences_the_waiting_request_of_its_former_self() {
    let mut broker = Broker::default();
    let (one, two) = stable_pair(&mut broker);
    let old_joins = broker.join_static("g", &one, "one");
    assert!(broker.is_waiting(old_joins));
    let new_joins = broker.join_static("g", "", "one");
    assert_eq!(broker.join_error(old_joins), Some(GroupError::FencedInstanceId));
    let other = broker.join_static("g", &two, "two");
    assert_eq!((broker.joined(new_joins).generation_id, broker.joined(other).generation_id), (2, 2));

    // While the assignment is awaited, the leader may be assigning to the old id: everybody joins again.
    let waiting = broker.joined(other).member_id.to_string();
    let follower = if *broker.joined(other).leader == *waiting {
        (broker.joined(new_joins).member_id.to_string(), "one")
    } else {
        (waiting, "two")
    };
    let mut sync = broker.sync_request("g", &follower.0, 2, &[]);
    sync.group_instance_id = Some(follower.1.to_owned());
    let syncs = broker.send(Command::SyncGroup(sync));
    assert!(broker.is_waiting(syncs));
    let again = broker.join_static("g", "", follower.1);
    assert_eq!(broker.synced(syncs).error, Some(GroupError::FencedInstanceId));
    assert!(broker.is_waiting(again));
    assert_eq!(broker.state("g"), "PreparingRebalance");
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id_alone() {
    let mut broker = Broker::default();
    let (_, two) = stable_pair(&mut broker);
    let token = broker.leave("g", &[("", Some("one")), ("", Some("three")), ("", None)]);
    let unknown = Some(GroupError::UnknownMemberId);
    assert_eq!(broker.left(token), Ok(vec![None, unknown.clone(), unknown]));
    assert_eq!(broker.heartbeat_as("g", &two, Some("two"), 1), Err(GroupError::RebalanceInProgress));
}

#[test]
fn a_static_member_that_stays_away_keeps_its_place_until_its_session_ends() {
    let mut broker = Broker::default();
    let (one, two) = stable_pair(&mut broker);
    for _ in 0..3 {
        broker.wait(3_000);
        assert_eq!(broker.heartbeat_as("g", &one, Some("one"), 1), Ok(()), "nobody rebalances for a restart");
    }
    broker.wait(1_000);
    assert_eq!(broker.heartbeat_as("g", &one, Some("one"), 1), Err(GroupError::RebalanceInProgress));
    assert_eq!(broker.heartbeat_as("g", &two, Some("two"), 1), Err(GroupError::UnknownMemberId));
}

#[test]
fn an_id_from_the_handshake_cannot_be_used_with_an_instance_id() {
    let mut broker = Broker::default();
    let token = broker.join("g", "");
    let id = broker.joined(token).member_id.to_string();
    let token = broker.join_static("g", &id, "one");
    assert_eq!(broker.join_error(token), Some(GroupError::UnknownMemberId));
}

#[test]
fn a_group_of_absent_static_members_without_a_rebalance_timeout_is_not_looked_at_without_end() {
    let mut broker = Broker::default();
    let token = broker.join_static("g", "", "one");
    broker.wait(3_000);
    let id = broker.joined(token).member_id.to_string();
    // It joins once more, now with no time at all for a rebalance.
    let request = JoinGroup { rebalance_timeout_ms: 0, ..broker.join_request("g", &id) };
    let request = JoinGroup { group_instance_id: Some("one".to_owned()), ..request };
    let mut sync = broker.sync_request("g", &id, 1, &[]);
    sync.group_instance_id = Some("one".to_owned());
    broker.send(Command::SyncGroup(sync.clone()));
    let token = broker.send(Command::JoinGroup(request));
    assert_eq!(broker.joined(token).generation_id, 2);
    sync.generation_id = 2;
    broker.send(Command::SyncGroup(sync));
    assert_eq!(broker.state("g"), "Stable");
    let mut newcomer = broker.join_request("g", "");
    newcomer.rebalance_timeout_ms = 10_000;
    newcomer.api_version = 3;
    let token = broker.send(Command::JoinGroup(newcomer));
    broker.cancel(token);
    assert_eq!(broker.state("g"), "PreparingRebalance");
    broker.wait(9_000);
    assert_eq!(broker.heartbeat_as("g", &id, Some("one"), 2), Err(GroupError::RebalanceInProgress));
    broker.wait(9_000);
    assert_eq!(broker.state("g"), "PreparingRebalance", "its session decides");
    broker.wait(1_000);
    assert_eq!(broker.state("g"), "Empty");
}
