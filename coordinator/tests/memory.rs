//! The bytes that a shard says it holds cover what it really allocates.

mod harness;

use std::alloc::System;
use std::sync::Arc;

use harness::subscription;
use weir_budget::{CountingAllocator, allocated_bytes, peak_allocated_bytes, reset_peaks};
use weir_coordinator::{
    Command, DeleteGroups, Effects, JoinGroup, Limits, OffsetCommit, OffsetCommitPartition,
    OffsetCommitTopic, OffsetDelete, Shard, Token, WAITING_REQUEST_BYTES,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

/// A shard whose answers are thrown away and whose appends succeed at once.
struct Sink {
    shard: Shard,
    at_start: u64,
    token: u64,
}

impl Sink {
    fn new() -> Sink {
        let at_start = allocated_bytes();
        let limits = Limits { state_bytes: 1 << 30, ..Limits::default() };
        let mut shard = Shard::new(Arc::default(), Arc::new(limits), Arc::default());
        drop(shard.loaded(0));
        Sink { shard, at_start, token: 0 }
    }

    fn send(&mut self, command: Command) {
        self.token += 1;
        let effects = self.shard.handle(0, Token(self.token), command);
        self.absorb(effects);
    }

    fn absorb(&mut self, effects: Effects) {
        for append in effects.appends {
            let effects = self.shard.append_done(0, append.id, Ok(0));
            self.absorb(effects);
        }
    }

    /// Real bytes and the bytes that the shard says.
    fn check(&self, what: &str) {
        let real = (allocated_bytes() - self.at_start) as usize;
        // What the broker holds for members that wait is charged here and allocated there.
        let waiting = self.shard.stats().members * WAITING_REQUEST_BYTES;
        let said = self.shard.memory_bytes() - waiting;
        eprintln!("{what}: {real} bytes allocated, {said} charged");
        assert!(real <= said + 8_192, "{what}: {real} bytes are allocated, {said} are charged");
        assert!(said <= 3 * real + 8_192, "{what}: {said} bytes are charged for {real}");
    }

    fn commit(&mut self, group: &str, topic: &str, partitions: std::ops::Range<i32>, metadata: &str) {
        let partitions = partitions.map(|partition| OffsetCommitPartition {
            partition,
            offset: 1,
            leader_epoch: -1,
            metadata: Some(metadata.to_owned()),
        });
        self.send(Command::OffsetCommit(OffsetCommit {
            api_version: 9,
            group_id: group.to_owned(),
            generation_id: -1,
            member_id: String::new(),
            group_instance_id: None,
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic { topic: topic.to_owned(), partitions: partitions.collect() }],
        }));
    }

    /// Bytes that are allocated during a call beyond those that it leaves behind or finds.
    fn passing_bytes(&mut self, call: impl FnOnce(&mut Sink)) -> u64 {
        let before = allocated_bytes();
        reset_peaks();
        call(self);
        peak_allocated_bytes() - before.max(allocated_bytes())
    }

    fn join(&mut self, group: &str, instance: Option<String>, api_version: i16, metadata: usize) {
        let request = self.join_request(group, instance, api_version, metadata);
        self.send(Command::JoinGroup(request));
    }

    fn join_request(
        &self,
        group: &str,
        instance: Option<String>,
        api_version: i16,
        metadata: usize,
    ) -> JoinGroup {
        let fresh_id = u128::from(self.token) << 64;
        JoinGroup {
            api_version,
            group_id: group.to_owned(),
            member_id: String::new(),
            group_instance_id: instance,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![
                ("range".to_owned(), subscription(&["orders"])),
                ("cooperative-sticky".to_owned(), vec![1; metadata]),
            ],
            reason: None,
            fresh_id,
        }
    }
}

/// One test, because the allocator counts for the whole process.
#[test]
fn charges_cover_what_is_allocated_and_are_not_wildly_above_it() {
    let mut many_partitions = Sink::new();
    for topic in 0..100 {
        many_partitions.commit("g", &format!("topic-{topic}"), 0..50, "");
    }
    many_partitions.check("one group, 100 topics of 50 partitions");
    drop(many_partitions);

    let mut backwards = Sink::new();
    for index in (0..2_000).rev() {
        backwards.commit("g", &format!("topic-{index:05}"), 0..1, "a note of some length");
        backwards.commit("g", "one", index..index + 1, "");
    }
    backwards.check("topics and partitions that come in falling order");
    drop(backwards);

    let mut small = Sink::new();
    for group in 0..2_000 {
        small.commit(&format!("group-{group}"), "orders", 0..1, "");
    }
    small.check("2000 groups of one offset");
    let names = (10..2_000).map(|group| format!("group-{group}")).collect();
    small.send(Command::DeleteGroups(DeleteGroups { group_ids: names }));
    small.check("10 groups left of 2000");
    drop(small);

    let mut members = Sink::new();
    for group in 0..300 {
        for member in 0..3 {
            members.join(&format!("group-{group}"), (member == 0).then(|| "static".to_owned()), 3, 100);
        }
    }
    members.check("300 groups of three members");
    let effects = members.shard.tick(6_000);
    members.absorb(effects);
    members.check("300 groups that have formed a generation");
    drop(members);

    let mut lonely = Sink::new();
    for group in 0..1_000 {
        lonely.join(&format!("group-{group}"), None, 3, 10);
    }
    lonely.check("1000 groups of one member");
    drop(lonely);

    let mut crowd = Sink::new();
    for member in 0..2_000 {
        crowd.join("g", Some(format!("static-{member}")), 3, 1_000);
    }
    crowd.check("one group of 2000 members");
    drop(crowd);

    let mut pending = Sink::new();
    for index in 0..3_000 {
        pending.join(&format!("group-{}", index % 50), None, 9, 10);
    }
    pending.check("3000 ids given out in 50 groups");
    drop(pending);

    // A topic takes seven bytes of a subscription, and many times that in a table.
    let metadata = {
        let names: Vec<String> = (0..90_000).map(|index| format!("{index:05}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        subscription(&names)
    };
    let mut subscribed = Sink::new();
    subscribed.commit("g", "orders", 0..10, "");
    let mut request = subscribed.join_request("g", None, 3, 0);
    (request.session_timeout_ms, request.rebalance_timeout_ms) = (1_800_000, 1_800_000);
    request.protocols = vec![("range".to_owned(), metadata)];
    subscribed.send(Command::JoinGroup(request));
    let effects = subscribed.shard.tick(6_000);
    subscribed.absorb(effects);
    let deleted = subscribed.passing_bytes(|sink| {
        let topics = vec![("orders".to_owned(), vec![0]), ("00000".to_owned(), vec![0])];
        sink.send(Command::OffsetDelete(OffsetDelete { group_id: "g".to_owned(), topics }));
    });
    let expired = subscribed.passing_bytes(|sink| {
        let effects = sink.shard.tick(700_000);
        sink.absorb(effects);
    });
    assert_eq!(subscribed.shard.stats().members, 1);
    eprintln!("{deleted} bytes to delete an offset, {expired} to look for expired ones");
    assert!(deleted < 16_384 && expired < 16_384, "{deleted}, {expired}");
}
