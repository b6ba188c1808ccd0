//! Offsets and the end of groups: what is committed, what is refused, what expires, what a restart brings back.

mod harness;

use harness::{Broker, config, subscription};
use weir_coordinator::{
    AppendError, Command, GroupConfig, GroupError, Heartbeat, JoinGroup, Limits, Notice, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, Reply, Shard, SyncGroup, Token, Unavailable,
};

const MINUTE_MS: i64 = 60_000;
const RETENTION_MS: i64 = 10_080 * MINUTE_MS;

#[test]
fn a_member_commits_and_the_offset_is_there_after_a_restart() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    let token = broker.commit("g", &ids[0], 1, "orders", 42);
    assert_eq!(broker.commit_error(token), None);
    let read = |broker: &Broker| {
        let offsets = broker.shard.offsets("g").unwrap();
        let found = offsets.get("orders", 0).unwrap();
        (found.offset, found.leader_epoch, found.metadata.to_string(), offsets.len())
    };
    assert_eq!(read(&broker), (42, 3, "note".to_owned(), 1));
    broker.restart();
    assert_eq!(read(&broker), (42, 3, "note".to_owned(), 1));
    assert!(broker.shard.offsets("other").unwrap().is_empty());
}

#[test]
fn an_offset_is_visible_only_when_the_log_has_it() {
    let mut broker = Broker { writes_at_once: false, ..Broker::default() };
    let first = broker.commit("g", "", -1, "orders", 1);
    let second = broker.commit("g", "", -1, "orders", 2);
    assert_eq!(broker.offset("g", "orders"), None);
    // The result of the second comes first: it is applied in the order of the log.
    let late = broker.held.remove(0);
    broker.finish_append(0, Ok(()));
    assert!(broker.is_waiting(second));
    assert_eq!(broker.offset("g", "orders"), None);
    let effects = broker.shard.append_done(broker.now_ms, late.id, Ok(0));
    broker.absorb(effects);
    assert_eq!((broker.commit_error(first), broker.commit_error(second)), (None, None));
    assert_eq!(broker.offset("g", "orders"), Some(2));
}

#[test]
fn a_commit_that_cannot_be_written_changes_nothing() {
    let mut broker = Broker::default();
    broker.commit("g", "", -1, "orders", 1);
    broker.writes_at_once = false;
    for (error, answer) in [
        (
            AppendError::NotAvailable,
            GroupError::CoordinatorNotAvailable { reason: Unavailable::LogNotWritable },
        ),
        (AppendError::NotLeader, GroupError::NotCoordinator),
        (AppendError::Other, GroupError::UnknownServerError),
    ] {
        let token = broker.commit("g", "", -1, "orders", 2);
        broker.finish_append(0, Err(error));
        assert_eq!(broker.commit_error(token), Some(answer));
        assert_eq!(broker.offset("g", "orders"), Some(1));
    }
    // A group that a failed commit would have founded is not there.
    broker.commit("new", "", -1, "orders", 1);
    broker.finish_append(0, Err(AppendError::Other));
    assert!(broker.notices.iter().any(|notice| matches!(notice, Notice::AppendFailed { .. })));
    broker.restart();
    assert_eq!(broker.state("new"), "Dead");
}

#[test]
fn commits_are_checked_against_member_generation_and_state() {
    let mut broker = Broker::default();
    let (leader, _) = broker.join_new("g");
    broker.wait(3_000);
    let refused = |broker: &mut Broker, member: &str, generation: i32| {
        let token = broker.commit("g", member, generation, "orders", 1);
        broker.commit_error(token)
    };
    assert_eq!(
        refused(&mut broker, &leader, 1),
        Some(GroupError::RebalanceInProgress),
        "nothing is assigned yet"
    );
    broker.sync("g", &leader, 1, &[(&leader, "all")]);
    assert_eq!(refused(&mut broker, &leader, 1), None);
    assert_eq!(
        refused(&mut broker, &leader, 0),
        Some(GroupError::IllegalGeneration { given: 0, current: 1 })
    );
    assert_eq!(refused(&mut broker, "stranger", 1), Some(GroupError::UnknownMemberId));
    assert_eq!(
        refused(&mut broker, "", -1),
        Some(GroupError::UnknownMemberId),
        "not from outside of a live group"
    );
    let (_, newcomer) = broker.join_new("g");
    assert!(broker.is_waiting(newcomer));
    assert_eq!(
        refused(&mut broker, &leader, 1),
        None,
        "before it rejoins, a member commits what it has done"
    );
}

#[test]
fn a_commit_keeps_the_session_alive() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    for at in 0..5 {
        broker.wait(9_000);
        let token = broker.commit("g", &ids[0], 1, "orders", at);
        assert_eq!(broker.commit_error(token), None);
    }
    assert_eq!(broker.heartbeat("g", &ids[0], 1), Ok(()));
}

#[test]
fn an_unknown_group_is_founded_by_a_commit_without_generation_and_refused_with_one() {
    let mut broker = Broker::default();
    let token = broker.commit("new", "m", 1, "orders", 1);
    assert_eq!(broker.commit_error(token), Some(GroupError::GroupIdNotFound { group_id: "new".to_owned() }));
    let request = OffsetCommit { api_version: 8, ..broker.commit_request("new", "m", 1, "orders", 1) };
    let token = broker.send(Command::OffsetCommit(request));
    assert_eq!(broker.commit_error(token), Some(GroupError::IllegalGeneration { given: 1, current: -1 }));
    assert_eq!(broker.usage.groups(), 0);
    for group in ["new", ""] {
        let token = broker.commit(group, "", -1, "orders", 1);
        assert_eq!(broker.commit_error(token), None);
        assert_eq!(broker.state(group), "Empty");
    }
    broker.restart();
    assert_eq!(broker.offset("new", "orders"), Some(1));
}

#[test]
fn metadata_that_is_too_long_spoils_only_its_partition() {
    let mut broker = Broker::default();
    let partition = |index: i32, metadata: String| OffsetCommitPartition {
        partition: index,
        offset: 9,
        leader_epoch: -1,
        metadata: Some(metadata),
    };
    let mut request = broker.commit_request("g", "", -1, "orders", 1);
    // 4096 characters of two bytes each are within the limit, which counts UTF-16 units.
    request.topics[0].partitions =
        vec![partition(0, "x".repeat(4_097)), partition(1, "ä".repeat(4_096)), partition(2, String::new())];
    let token = broker.send(Command::OffsetCommit(request));
    let Some(Reply::OffsetCommit(topics)) = broker.replies.get(&token) else { panic!() };
    let too_large = GroupError::OffsetMetadataTooLarge { length: 4_097, limit: 4_096 };
    assert_eq!(topics[0].partitions, vec![(0, Some(too_large)), (1, None), (2, None)]);
    assert_eq!(broker.shard.offsets("g").unwrap().len(), 2);
}

#[test]
fn a_commit_larger_than_a_batch_is_refused_whole() {
    let mut broker = Broker::new(GroupConfig { max_append_bytes: 5_000, ..config() }, Limits::default());
    let mut request = broker.commit_request("g", "", -1, "orders", 1);
    request.topics = (0..200)
        .map(|index| OffsetCommitTopic {
            topic: format!("topic-{index}"),
            partitions: request.topics[0].partitions.clone(),
        })
        .collect();
    let token = broker.send(Command::OffsetCommit(request));
    assert!(matches!(
        broker.commit_error(token),
        Some(GroupError::InvalidCommitOffsetSize { limit_bytes: 5_000, .. })
    ));
    assert_eq!(broker.usage.bytes(), 0, "not even the group is left");
}

#[test]
fn deleting_groups_takes_their_offsets_and_spares_the_living() {
    let mut broker = Broker::default();
    broker.stable_group("live", 1);
    broker.commit("idle", "", -1, "orders", 1);
    let token = broker.delete_groups(&["idle", "live", "none", "idle"]);
    let not_found = GroupError::GroupIdNotFound { group_id: "none".to_owned() };
    assert_eq!(broker.deleted(token), vec![Ok(()), Err(GroupError::NonEmptyGroup), Err(not_found)]);
    assert_eq!(broker.state("idle"), "Dead");
    broker.restart();
    assert_eq!(broker.state("idle"), "Dead");
    assert_eq!(broker.offset("idle", "orders"), None);
    assert_eq!(broker.state("live"), "Stable");
}

#[test]
fn a_group_that_is_being_deleted_takes_nothing_new_and_lives_on_if_that_fails() {
    let mut broker = Broker::default();
    broker.commit("g", "", -1, "orders", 1);
    broker.writes_at_once = false;
    let delete = broker.delete_groups(&["g"]);
    let unavailable = GroupError::CoordinatorNotAvailable { reason: Unavailable::GroupIsBeingDeleted };
    let token = broker.commit("g", "", -1, "orders", 2);
    assert_eq!(broker.commit_error(token), Some(unavailable.clone()));
    let token = broker.join("g", "");
    assert_eq!(broker.join_error(token), Some(unavailable));
    assert_eq!(broker.offset("g", "orders"), Some(1), "not deleted yet");
    broker.finish_append(0, Err(AppendError::NotAvailable));
    assert!(broker.deleted(delete)[0].is_err());
    assert_eq!(broker.state("g"), "Empty");
    let token = broker.commit("g", "", -1, "orders", 2);
    broker.finish_append(0, Ok(()));
    assert_eq!(broker.commit_error(token), None);
}

#[test]
fn an_offset_on_its_way_to_the_log_does_not_outlive_its_group() {
    let mut broker = Broker { writes_at_once: false, ..Broker::default() };
    broker.commit("g", "", -1, "orders", 1);
    let delete = broker.delete_groups(&["g"]);
    while !broker.held.is_empty() {
        broker.finish_append(0, Ok(()));
    }
    assert_eq!(broker.deleted(delete), vec![Ok(())]);
    assert_eq!(broker.state("g"), "Dead");
    broker.restart();
    assert_eq!(broker.offset("g", "orders"), None);
    assert_eq!(broker.state("g"), "Dead");
}

#[test]
fn a_group_with_very_many_offsets_is_deleted_in_pieces() {
    let mut broker = Broker::default();
    for topic in 0..20 {
        let mut request = broker.commit_request("g", "", -1, &format!("topic-{topic}"), 1);
        let partition = request.topics[0].partitions[0].clone();
        request.topics[0].partitions =
            (0..500).map(|index| OffsetCommitPartition { partition: index, ..partition.clone() }).collect();
        broker.send(Command::OffsetCommit(request));
    }
    broker.commit("other", "", -1, "orders", 1);
    assert_eq!(broker.usage.offsets(), 10_001);
    let token = broker.delete_groups(&["g", "other"]);
    assert_eq!(broker.deleted(token), vec![Ok(()), Ok(())]);
    assert_eq!((broker.usage.offsets(), broker.usage.bytes()), (0, 0));
    broker.restart();
    assert_eq!(broker.usage.bytes(), 0);
}

#[test]
fn offsets_of_topics_that_a_live_group_consumes_cannot_be_deleted() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    broker.commit("g", &ids[0], 1, "orders", 1);
    broker.commit("g", &ids[0], 1, "former", 1);
    let token = broker.delete_offset("g", "orders");
    assert_eq!(broker.offset_deleted(token), Ok(Some(GroupError::GroupSubscribedToTopic)));
    let token = broker.delete_offset("g", "former");
    assert_eq!(broker.offset_deleted(token), Ok(None));
    assert_eq!(broker.offset("g", "former"), None);
    let token = broker.delete_offset("g", "never");
    assert_eq!(broker.offset_deleted(token), Ok(None));
    let token = broker.delete_offset("none", "orders");
    assert_eq!(
        broker.offset_deleted(token),
        Err(GroupError::GroupIdNotFound { group_id: "none".to_owned() })
    );
    broker.leave("g", &[(&ids[0], None)]);
    let token = broker.delete_offset("g", "orders");
    assert_eq!(broker.offset_deleted(token), Ok(None));
    broker.restart();
    assert!(broker.shard.offsets("g").unwrap().is_empty());
}

#[test]
fn offsets_of_a_live_group_of_another_kind_cannot_be_deleted_at_all() {
    let mut broker = Broker::default();
    let mut request = broker.join_request("workers", "");
    request.protocol_type = "connect".to_owned();
    broker.join_new_with(request);
    let token = broker.delete_offset("workers", "orders");
    assert_eq!(broker.offset_deleted(token), Err(GroupError::NonEmptyGroup));
}

#[test]
fn offsets_of_an_empty_group_expire_when_it_has_been_empty_long_enough() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    broker.commit("g", &ids[0], 1, "orders", 1);
    for _ in 0..RETENTION_MS / 9_000 + 1 {
        broker.now_ms += 9_000;
        assert_eq!(broker.heartbeat("g", &ids[0], 1), Ok(()));
    }
    broker.wait(0);
    assert_eq!(broker.offset("g", "orders"), Some(1), "older than the retention, but consumed");
    broker.leave("g", &[(&ids[0], None)]);
    broker.wait(RETENTION_MS - MINUTE_MS);
    assert_eq!(broker.offset("g", "orders"), Some(1));
    broker.restart();
    broker.wait(11 * MINUTE_MS);
    assert_eq!(broker.offset("g", "orders"), None);
    assert_eq!(broker.state("g"), "Dead");
    assert_eq!((broker.usage.groups(), broker.usage.bytes()), (0, 0));
    broker.restart();
    assert_eq!(broker.state("g"), "Dead", "the tombstones are in the log");
}

#[test]
fn offsets_without_members_expire_each_by_its_own_age() {
    let mut broker = Broker::default();
    broker.commit("g", "", -1, "old", 1);
    broker.wait(RETENTION_MS / 2);
    broker.commit("g", "", -1, "young", 1);
    broker.wait(RETENTION_MS / 2 + 10 * MINUTE_MS);
    assert_eq!((broker.offset("g", "old"), broker.offset("g", "young")), (None, Some(1)));
    assert_eq!(broker.state("g"), "Empty");
    assert_eq!(broker.shard.stats().offset_expirations, 1);
}

#[test]
fn a_live_consumer_group_loses_old_offsets_of_topics_it_no_longer_consumes() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    broker.commit("g", &ids[0], 1, "former", 1);
    broker.commit("g", &ids[0], 1, "orders", 1);
    for _ in 0..RETENTION_MS / 9_000 + 100 {
        broker.now_ms += 9_000;
        let _ = broker.heartbeat("g", &ids[0], 1);
    }
    broker.wait(0);
    assert_eq!((broker.offset("g", "former"), broker.offset("g", "orders")), (None, Some(1)));
}

#[test]
fn an_offset_with_a_retention_of_its_own_follows_that() {
    let mut broker = Broker::default();
    let request =
        OffsetCommit { retention_time_ms: 30 * MINUTE_MS, ..broker.commit_request("g", "", -1, "orders", 1) };
    broker.send(Command::OffsetCommit(request));
    assert_eq!(broker.log[0].value.as_deref().map(|value| value[1]), Some(1), "version 1 carries it");
    broker.restart();
    broker.wait(29 * MINUTE_MS);
    assert_eq!(broker.offset("g", "orders"), Some(1));
    broker.wait(11 * MINUTE_MS);
    assert_eq!(broker.offset("g", "orders"), None);
}

#[test]
fn the_offsets_of_a_deleted_topic_go_with_it_and_new_ones_stay() {
    let mut broker = Broker::default();
    for group in ["a", "b"] {
        broker.commit(group, "", -1, "orders", 1);
        broker.commit(group, "", -1, "payments", 1);
    }
    let effects = broker.shard.topics_deleted(broker.now_ms, ["orders".to_owned()]);
    broker.absorb(effects);
    assert_eq!((broker.offset("a", "orders"), broker.offset("b", "orders")), (None, None));
    assert_eq!(broker.offset("a", "payments"), Some(1));
    // The topic is made anew.
    broker.wait(1);
    broker.commit("a", "", -1, "orders", 5);
    broker.wait(20 * MINUTE_MS);
    assert_eq!(broker.offset("a", "orders"), Some(5));
}

#[test]
fn a_topic_deleted_just_before_a_crash_leaves_no_offsets_behind() {
    let mut broker = Broker::default();
    broker.commit("a", "", -1, "orders", 1);
    broker.commit("a", "", -1, "payments", 1);
    broker.restart();
    let effects = broker.shard.retain_topics(broker.now_ms, |topic| topic != "orders");
    broker.absorb(effects);
    assert_eq!((broker.offset("a", "orders"), broker.offset("a", "payments")), (None, Some(1)));
}

#[test]
fn the_offsets_of_a_deleted_topic_go_even_if_the_first_try_fails_and_a_commit_is_under_way() {
    let mut broker = Broker::default();
    broker.commit("a", "", -1, "orders", 1);
    broker.writes_at_once = false;
    broker.commit("b", "", -1, "orders", 1);
    let effects = broker.shard.topics_deleted(broker.now_ms, ["orders".to_owned()]);
    broker.absorb(effects);
    broker.finish_append(0, Ok(()));
    broker.finish_append(0, Err(AppendError::NotAvailable));
    broker.writes_at_once = true;
    assert_eq!(broker.offset("a", "orders"), Some(1));
    broker.wait(1_000);
    while !broker.held.is_empty() {
        broker.finish_append(0, Ok(()));
    }
    assert_eq!((broker.offset("a", "orders"), broker.offset("b", "orders")), (None, None));
}

#[test]
fn while_the_log_takes_nothing_the_offsets_of_a_deleted_topic_are_tried_once_a_second() {
    let mut broker = Broker::default();
    broker.commit("a", "", -1, "orders", 1);
    broker.writes_at_once = false;
    let effects = broker.shard.topics_deleted(broker.now_ms, ["orders".to_owned()]);
    broker.absorb(effects);
    for _ in 0..5 {
        assert_eq!(broker.held.len(), 1);
        broker.finish_append(0, Err(AppendError::NotAvailable));
        assert_eq!(broker.held.len(), 0, "it is tried again at once");
        // Neither does another append bring it back before its time, nor another topic.
        let commit = broker.commit("b", "", -1, "payments", 1);
        broker.finish_append(0, Err(AppendError::NotAvailable));
        assert!(broker.commit_error(commit).is_some());
        let effects = broker.shard.topics_deleted(broker.now_ms, ["payments".to_owned()]);
        broker.absorb(effects);
        assert_eq!(broker.held.len(), 0);
        broker.wait(1_000);
    }
    broker.finish_append(0, Ok(()));
    assert_eq!(broker.offset("a", "orders"), None);
}

#[test]
fn a_stable_group_survives_a_restart_with_its_members_and_a_fresh_session() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 2);
    let before = broker.shard.describe_group("g", 6).unwrap();
    broker.wait(9_000);
    broker.restart();
    assert_eq!(broker.shard.describe_group("g", 6).unwrap(), before);
    broker.wait(9_000);
    for id in &ids {
        assert_eq!(broker.heartbeat("g", id, 1), Ok(()), "the session began anew with the restart");
    }
    let token = broker.sync("g", &ids[0], 1, &[]);
    assert_eq!(&*broker.synced(token).assignment, b"part-0");
    // A follower that joins again with what the record knows of it disturbs nobody.
    let token = broker.join("g", &ids[1]);
    assert_eq!(broker.joined(token).generation_id, 1);
    assert_eq!(broker.state("g"), "Stable");
}

#[test]
fn while_loading_everything_but_a_heartbeat_has_to_come_again() {
    let broker = Broker::default();
    let mut shard = Shard::new(broker.config.clone(), broker.limits.clone(), broker.usage.clone());
    let mut other = Broker::default();
    let join = other.join_request("g", "");
    let sync = other.sync_request("g", "m", 1, &[]);
    let commit = other.commit_request("g", "m", 1, "orders", 1);
    let loading = GroupError::CoordinatorLoadInProgress;
    let mut answer = |command: Command| shard.handle(0, Token(1), command).replies.remove(0).1;
    assert!(
        matches!(answer(Command::JoinGroup(join)), Reply::JoinGroup(reply) if reply.error == Some(loading.clone()))
    );
    assert!(
        matches!(answer(Command::SyncGroup(sync)), Reply::SyncGroup(reply) if reply.error == Some(loading.clone()))
    );
    assert!(matches!(
        answer(Command::OffsetCommit(commit)),
        Reply::OffsetCommit(topics) if topics[0].partitions[0].1 == Some(loading.clone())
    ));
    let heartbeat = Heartbeat {
        group_id: "g".to_owned(),
        generation_id: 1,
        member_id: "m".to_owned(),
        group_instance_id: None,
    };
    assert_eq!(answer(Command::Heartbeat(heartbeat)), Reply::Heartbeat(Ok(())));
    assert_eq!(shard.offsets("g").err(), Some(loading.clone()));
    assert_eq!(shard.list_groups(&[], &[]).err(), Some(loading.clone()));
    assert_eq!(shard.describe_group("g", 5).err(), Some(loading));
    assert_eq!(shard.next_deadline_ms(), None);
}

#[test]
fn unloading_answers_everybody_and_gives_back_every_byte() {
    let mut broker = Broker::default();
    broker.stable_group("other", 2);
    let (_, join) = broker.join_new("joining");
    let (leader, _) = broker.join_new("syncing");
    let (follower, _) = broker.join_new("syncing");
    broker.wait(6_000);
    let (_, late) = broker.join_new("late");
    let sync = broker.sync("syncing", &follower, 1, &[]);
    broker.writes_at_once = false;
    let commit = broker.commit("idle", "", -1, "orders", 1);
    let delete = broker.delete_groups(&["idle"]);
    let effects = broker.shard.unload();
    broker.absorb(effects);
    assert_eq!(broker.joined(join).error, None);
    assert_eq!(broker.join_error(late), Some(GroupError::NotCoordinator));
    assert_eq!(broker.synced(sync).error, Some(GroupError::NotCoordinator));
    assert_eq!(broker.commit_error(commit), Some(GroupError::NotCoordinator));
    assert_eq!(broker.deleted(delete), vec![Err(GroupError::NotCoordinator)]);
    assert!(broker.waiting.is_empty());
    assert_eq!(broker.heartbeat("syncing", &leader, 1), Err(GroupError::NotCoordinator));
    assert_eq!((broker.usage.bytes(), broker.usage.groups(), broker.usage.members()), (0, 0, 0));
    let held: Vec<_> = broker.append_ids();
    for id in held {
        let effects = broker.shard.append_done(broker.now_ms, id, Ok(0));
        assert!(effects.is_empty(), "results that come too late are nobody's business");
    }
}

#[test]
fn a_dropped_shard_gives_back_every_byte() {
    let mut broker = Broker::default();
    broker.stable_group("g", 3);
    broker.writes_at_once = false;
    broker.commit("idle", "", -1, "orders", 1);
    assert!(broker.usage.bytes() > 0);
    let usage = broker.usage.clone();
    drop(broker);
    assert_eq!((usage.bytes(), usage.groups(), usage.members(), usage.offsets()), (0, 0, 0, 0));
}

#[test]
fn groups_are_listed_and_described_as_kafka_does() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("stable", 1);
    broker.commit("simple", "", -1, "orders", 1);
    let names = |broker: &Broker, states: &[&str], types: &[&str]| {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut names: Vec<String> = broker
            .shard
            .list_groups(&own(states), &own(types))
            .unwrap()
            .iter()
            .map(|group| format!("{} {} {}", group.group_id, group.protocol_type, group.state))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&broker, &[], &[]), vec!["simple  Empty", "stable consumer Stable"]);
    assert_eq!(names(&broker, &["stable "], &["CLASSIC"]), vec!["stable consumer Stable"]);
    assert_eq!(names(&broker, &["nonsense"], &[]), Vec::<String>::new());
    assert_eq!(names(&broker, &[], &["consumer", "share"]), Vec::<String>::new());

    let described = broker.shard.describe_group("stable", 6).unwrap();
    assert_eq!((&*described.protocol_type, &*described.protocol), ("consumer", "range"));
    assert_eq!(described.members.len(), 1);
    let member = &described.members[0];
    assert_eq!(
        (&*member.member_id, &*member.client_id, &*member.client_host),
        (&*ids[0], "client", "/127.0.0.1")
    );
    assert_eq!((&*member.metadata, &*member.assignment), (&*subscription(&["orders"]), &b"part-0"[..]));

    let old = broker.shard.describe_group("none", 5).unwrap();
    assert_eq!((old.error, old.state.as_str()), (None, "Dead"));
    let new = broker.shard.describe_group("none", 6).unwrap();
    assert_eq!(new.error.map(|error| error.to_string()).as_deref(), Some("group none not found"));

    let token = broker.join("stable", &ids[0]);
    assert_eq!(broker.joined(token).generation_id, 2);
    let described = broker.shard.describe_group("stable", 6).unwrap();
    assert_eq!((described.state.as_str(), &*described.protocol), ("CompletingRebalance", ""));
    assert!(described.members[0].metadata.is_empty());
}

#[test]
fn every_limit_refuses_with_an_error_that_clients_retry_and_names_itself() {
    let unavailable = |reason| Some(GroupError::CoordinatorNotAvailable { reason });

    let mut broker = Broker::new(config(), Limits { groups: 1, ..Limits::default() });
    broker.stable_group("g", 1);
    let token = broker.join("second", "");
    assert_eq!(broker.join_error(token), unavailable(Unavailable::Groups { limit: 1 }));
    let token = broker.commit("second", "", -1, "orders", 1);
    assert_eq!(broker.commit_error(token), unavailable(Unavailable::Groups { limit: 1 }));
    assert!(broker.commit_error(token).unwrap().is_retriable());
    let named =
        |notice: &Notice| matches!(notice, Notice::LimitReached { limit: Unavailable::Groups { .. }, .. });
    assert_eq!(broker.notices.iter().filter(|notice| named(notice)).count(), 2);

    let mut broker = Broker::new(config(), Limits { members: 2, ..Limits::default() });
    let ids = broker.stable_group("g", 2);
    let token = broker.join("h", "");
    assert_eq!(broker.join_error(token), unavailable(Unavailable::Members { limit: 2 }));
    let token = broker.join("g", &ids[0]);
    assert!(broker.is_waiting(token), "who is in may rejoin");

    let mut broker = Broker::new(config(), Limits { pending_members: 1, ..Limits::default() });
    broker.join("g", "");
    let token = broker.join("g", "");
    assert_eq!(broker.join_error(token), unavailable(Unavailable::PendingMembers { limit: 1 }));

    let mut broker = Broker::new(config(), Limits { offsets: 1, ..Limits::default() });
    broker.commit("g", "", -1, "orders", 1);
    let token = broker.commit("g", "", -1, "payments", 1);
    assert_eq!(broker.commit_error(token), unavailable(Unavailable::Offsets { limit: 1 }));
    let token = broker.commit("g", "", -1, "orders", 2);
    assert_eq!(broker.commit_error(token), None, "an offset that is there may move on");
    broker.writes_at_once = false;
    broker.delete_offset("g", "orders");
    broker.finish_append(0, Ok(()));
    let first = broker.commit("g", "", -1, "orders", 1);
    let second = broker.commit("g", "", -1, "payments", 1);
    assert_eq!(
        broker.commit_error(second),
        unavailable(Unavailable::Offsets { limit: 1 }),
        "one is under way"
    );
    assert!(broker.is_waiting(first));

    let mut broker = Broker::new(config(), Limits { state_bytes: 20_000, ..Limits::default() });
    broker.stable_group("g", 1);
    let mut request = broker.join_request("g", "");
    request.protocols[0].1 = vec![0; 20_000];
    let token = broker.send(Command::JoinGroup(request));
    assert_eq!(broker.join_error(token), unavailable(Unavailable::StateBytes { limit: 20_000 }));
    let mut stored = 0;
    for topic in 0..1_000 {
        let token = broker.commit("g2", "", -1, &format!("topic-{topic}"), 1);
        stored += u32::from(broker.commit_error(token).is_none());
        assert!(broker.usage.bytes() <= 20_000, "{} bytes", broker.usage.bytes());
    }
    assert!((10..200).contains(&stored), "{stored} offsets fit");

    let mut broker = Broker::new(config(), Limits { member_bytes: 1_000, ..Limits::default() });
    let mut request = broker.join_request("g", "");
    request.protocols[0].1 = vec![0; 1_000];
    let token = broker.send(Command::JoinGroup(request));
    assert!(matches!(broker.join_error(token), Some(GroupError::MessageTooLarge { limit_bytes: 1_000, .. })));
}

#[test]
fn an_assignment_beyond_the_state_limit_is_refused() {
    let mut broker = Broker::new(config(), Limits { state_bytes: 20_000, ..Limits::default() });
    let (leader, _) = broker.join_new("g");
    broker.wait(3_000);
    let request = SyncGroup {
        assignments: vec![(leader.clone(), vec![0; 20_000])],
        ..broker.sync_request("g", &leader, 1, &[])
    };
    let token = broker.send(Command::SyncGroup(request));
    let limit = Unavailable::StateBytes { limit: 20_000 };
    assert_eq!(broker.synced(token).error, Some(GroupError::CoordinatorNotAvailable { reason: limit }));
}

#[test]
fn a_log_with_more_state_than_the_limit_is_not_loaded() {
    let mut broker = Broker::default();
    for topic in 0..500 {
        broker.commit("g", "", -1, &format!("topic-{topic}"), 1);
    }
    let limits = std::sync::Arc::new(Limits { state_bytes: 20_000, ..Limits::default() });
    let usage = std::sync::Arc::default();
    let mut shard = Shard::new(broker.config.clone(), limits, std::sync::Arc::clone(&usage));
    let error = broker
        .log
        .iter()
        .find_map(|record| shard.replay(&record.key, record.value.as_deref()).err())
        .unwrap();
    assert!(error.is_retriable());
    assert!(usage.bytes() < 21_000, "it stops where the limit is passed");
}

#[test]
fn strings_that_no_record_can_hold_are_refused_at_the_door() {
    let mut broker = Broker::default();
    let long = "x".repeat(40_000);
    let request = JoinGroup { client_id: long.clone(), ..broker.join_request("g", "") };
    let token = broker.send(Command::JoinGroup(request));
    assert!(matches!(broker.join_error(token), Some(GroupError::MessageTooLarge { .. })));
    let token = broker.commit("g", "", -1, &long, 1);
    assert!(matches!(broker.commit_error(token), Some(GroupError::MessageTooLarge { .. })));
    assert_eq!(broker.usage.bytes(), 0);

    // The longest client id that a frame can hold still makes a member id that fits.
    let request = JoinGroup { client_id: "ä".repeat(16_000), ..broker.join_request("g", "") };
    let (id, _) = broker.join_new_with(request);
    broker.wait(3_000);
    let token = broker.sync("g", &id, 1, &[(&id, "all")]);
    assert_eq!(broker.synced(token).error, None);
    broker.restart();
    assert_eq!(broker.heartbeat("g", &id, 1), Ok(()));
}

#[test]
fn a_commit_to_a_topic_made_anew_is_not_swept_away_with_the_old_one() {
    let mut broker = Broker::default();
    broker.commit("g", "", -1, "orders", 1);
    broker.writes_at_once = false;
    broker.commit("other", "", -1, "payments", 1);
    let effects = broker.shard.topics_deleted(broker.now_ms, ["orders".to_owned()]);
    broker.absorb(effects);
    broker.wait(1);
    // The first sweep fails; the second would come while this commit is on its way.
    let token = broker.commit("g", "", -1, "orders", 9);
    broker.finish_append(1, Err(AppendError::NotAvailable));
    broker.finish_append(0, Ok(()));
    broker.wait(1_000);
    while !broker.held.is_empty() {
        broker.finish_append(0, Ok(()));
    }
    assert_eq!(broker.commit_error(token), None);
    assert_eq!(broker.offset("g", "orders"), Some(9));
}

#[test]
fn a_wall_clock_that_is_set_dates_what_is_stored_and_moves_no_session() {
    let mut broker = Broker::default();
    let ids = broker.stable_group("g", 1);
    let started_ms = broker.now_ms;
    broker.usage.set_wall_ahead_ms(-60 * MINUTE_MS);
    let token = broker.commit("g", &ids[0], 1, "orders", 42);
    assert_eq!(broker.commit_error(token), None);
    let committed_ms = |broker: &Broker| {
        broker.shard.offsets("g").unwrap().get("orders", 0).map(|offset| offset.commit_timestamp_ms)
    };
    assert_eq!(committed_ms(&broker), Some(started_ms - 60 * MINUTE_MS));
    broker.wait(MINUTE_MS);
    assert!(
        broker.notices.iter().any(|notice| matches!(notice, Notice::MemberExpired { .. })),
        "a member that fell silent after the clock was set back is found in its time"
    );
    broker.wait(20 * MINUTE_MS);
    assert!(committed_ms(&broker).is_some());
    // Set right again, and far ahead: the age of offsets is told by the wall clock.
    broker.usage.set_wall_ahead_ms(RETENTION_MS);
    broker.wait(20 * MINUTE_MS);
    assert!(broker.offset("g", "orders").is_none());
}
