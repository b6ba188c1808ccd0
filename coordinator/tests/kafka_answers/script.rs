//! The script: every request that has more than one possible answer, in every state of a group.

use weir_coordinator::{
    Command, DeleteGroups, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, SyncGroup,
};

use crate::harness::subscription;
use crate::{Answer, Peer};

struct Script<'a> {
    peer: &'a mut dyn Peer,
    lines: Vec<String>,
    fresh_id: u128,
}

/// A member's words for itself.
#[derive(Clone, Copy)]
struct Who<'a> {
    group: &'a str,
    id: &'a str,
    instance: Option<&'a str>,
}

fn who<'a>(group: &'a str, id: &'a str) -> Who<'a> {
    Who { group, id, instance: None }
}

fn of<'a>(group: &'a str, id: &'a str, instance: &'a str) -> Who<'a> {
    Who { group, id, instance: Some(instance) }
}

impl Script<'_> {
    fn note(&mut self, what: &str, line: &str) {
        self.lines.push(format!("{what}: {line}"));
    }

    fn ask(&mut self, what: &str, command: Command) -> Answer {
        self.peer.send("main", command);
        let answer = self.peer.receive("main");
        self.note(what, &answer.line);
        answer
    }

    fn receive(&mut self, what: &str, connection: &'static str) -> Answer {
        let answer = self.peer.receive(connection);
        self.note(what, &answer.line);
        answer
    }

    fn join_request(&mut self, member: Who<'_>) -> JoinGroup {
        self.fresh_id += 1;
        JoinGroup {
            api_version: 9,
            group_id: member.group.to_owned(),
            member_id: member.id.to_owned(),
            group_instance_id: member.instance.map(str::to_owned),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 15_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), subscription(&["orders"]))],
            reason: None,
            fresh_id: self.fresh_id,
        }
    }

    fn join(&mut self, what: &str, member: Who<'_>) -> Answer {
        let request = self.join_request(member);
        self.ask(&format!("JoinGroup {what}"), Command::JoinGroup(request))
    }

    fn join_with(&mut self, what: &str, change: impl FnOnce(&mut JoinGroup)) -> Answer {
        let mut request = self.join_request(who("new", ""));
        change(&mut request);
        self.ask(&format!("JoinGroup {what}"), Command::JoinGroup(request))
    }

    fn send_join(&mut self, connection: &'static str, member: Who<'_>) {
        let request = self.join_request(member);
        self.peer.send(connection, Command::JoinGroup(request));
    }

    fn sync_request(&mut self, member: Who<'_>, generation: i32, assigned: &[(&str, &str)]) -> SyncGroup {
        SyncGroup {
            group_id: member.group.to_owned(),
            generation_id: generation,
            member_id: member.id.to_owned(),
            group_instance_id: member.instance.map(str::to_owned),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments: assigned
                .iter()
                .map(|(id, bytes)| ((*id).to_owned(), bytes.as_bytes().to_vec()))
                .collect(),
        }
    }

    fn sync(&mut self, what: &str, member: Who<'_>, generation: i32, assigned: &[(&str, &str)]) {
        let request = self.sync_request(member, generation, assigned);
        self.ask(&format!("SyncGroup {what}"), Command::SyncGroup(request));
    }

    fn heartbeat(&mut self, what: &str, member: Who<'_>, generation_id: i32) {
        let request = Heartbeat {
            group_id: member.group.to_owned(),
            generation_id,
            member_id: member.id.to_owned(),
            group_instance_id: member.instance.map(str::to_owned),
        };
        self.ask(&format!("Heartbeat {what}"), Command::Heartbeat(request));
    }

    fn leave(&mut self, what: &str, group: &str, members: &[(&str, Option<&str>)]) {
        let members = members.iter().map(|(id, instance)| LeavingMember {
            member_id: (*id).to_owned(),
            group_instance_id: instance.map(str::to_owned),
            reason: None,
        });
        let request = LeaveGroup { group_id: group.to_owned(), members: members.collect() };
        self.ask(&format!("LeaveGroup {what}"), Command::LeaveGroup(request));
    }

    fn commit_with(
        &mut self,
        what: &str,
        member: Who<'_>,
        generation: i32,
        change: impl FnOnce(&mut OffsetCommit),
    ) {
        let mut request = OffsetCommit {
            api_version: 9,
            group_id: member.group.to_owned(),
            generation_id: generation,
            member_id: member.id.to_owned(),
            group_instance_id: member.instance.map(str::to_owned),
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic {
                topic: "orders".to_owned(),
                partitions: vec![OffsetCommitPartition {
                    partition: 0,
                    offset: 5,
                    leader_epoch: 3,
                    metadata: Some("note".to_owned()),
                }],
            }],
        };
        change(&mut request);
        self.ask(&format!("OffsetCommit {what}"), Command::OffsetCommit(request));
    }

    fn commit(&mut self, what: &str, member: Who<'_>, generation: i32) {
        self.commit_with(what, member, generation, |_| {});
    }

    fn delete_offset(&mut self, what: &str, group: &str) {
        let topics = vec![("orders".to_owned(), vec![0])];
        let request = OffsetDelete { group_id: group.to_owned(), topics };
        self.ask(&format!("OffsetDelete {what}"), Command::OffsetDelete(request));
    }

    fn delete_group(&mut self, what: &str, group: &str) {
        let request = DeleteGroups { group_ids: vec![group.to_owned()] };
        self.ask(&format!("DeleteGroups {what}"), Command::DeleteGroups(request));
    }

    fn describe(&mut self, what: &str, group: &str) {
        let line = self.peer.describe(group);
        self.note(&format!("DescribeGroups {what}"), &line);
    }

    /// Until the description of the group contains the text.
    fn wait_until(&mut self, group: &str, text: &str) {
        for _ in 0..24_000 {
            if self.peer.describe(group).contains(text) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{group} never became {text}");
    }

    fn fetch(&mut self, what: &str, group: &str) {
        let line = self.peer.fetch(group);
        self.note(&format!("OffsetFetch {what}"), &line);
    }
}

pub(crate) fn run(peer: &mut dyn Peer) -> Vec<String> {
    let mut script = Script { peer, lines: Vec::new(), fresh_id: 0 };
    nobody_is_there(&mut script);
    offsets_without_members(&mut script);
    the_life_of_a_group(&mut script);
    a_full_group(&mut script);
    static_members(&mut script);
    members_that_never_come(&mut script);
    other_protocols(&mut script);
    script.lines
}

fn nobody_is_there(script: &mut Script<'_>) {
    for (what, group) in [("to an unknown group", "none"), ("to an empty id", "")] {
        script.heartbeat(what, who(group, "m"), 1);
        script.sync(what, who(group, "m"), 1, &[]);
        script.leave(what, group, &[("m", None), ("n", Some("i"))]);
        script.delete_offset(what, group);
        script.join(&format!("with an id {what}"), who(group, "m"));
    }
    script.join("without an id to an empty id", who("", ""));
    script.describe("of an unknown group", "none");
    script.fetch("of an unknown group", "none");
    script.delete_group("of an unknown group", "none");
    for timeout_ms in [5_999, 1_800_001] {
        script.join_with("with a bad session time-out", |request| request.session_timeout_ms = timeout_ms);
    }
    script.join_with("without protocols", |request| request.protocols.clear());
    script.join_with("without a protocol type", |request| request.protocol_type.clear());
}

fn offsets_without_members(script: &mut Script<'_>) {
    script.commit("with a generation to an unknown group", who("s", "m"), 1);
    script.commit_with("v7 with a generation to an unknown group", who("s", "m"), 1, |it| it.api_version = 7);
    script.commit("without a generation to an unknown group", who("s", ""), -1);
    script.describe("of a group of offsets", "s");
    script.fetch("of it", "s");
    script.commit("without a generation to an empty id", who("", ""), -1);
    script.fetch("of an empty id", "");
    script.delete_group("of an empty id", "");
    script.commit("with a generation", who("s", ""), 0);
    script.commit("with a generation and a member", who("s", "m"), 0);
    script.commit("with a member only", who("s", "m"), -1);
    script.commit("with an instance only", of("s", "", "i"), -1);
    let metadata =
        |text: String| move |it: &mut OffsetCommit| it.topics[0].partitions[0].metadata = Some(text);
    script.commit_with("with 4097 characters", who("s", ""), -1, metadata("x".repeat(4_097)));
    script.commit_with("with 4096 characters of two bytes", who("s", ""), -1, metadata("ä".repeat(4_096)));
    script.commit_with("without metadata", who("s", ""), -1, |it| it.topics[0].partitions[0].metadata = None);
    script.commit_with("of a negative offset", who("s", ""), -1, |it| it.topics[0].partitions[0].offset = -5);
    script.fetch("of a negative offset", "s");
    script.heartbeat("to a group of offsets", who("s", "m"), 0);
    script.sync("to a group of offsets", who("s", "m"), 0, &[]);
    script.leave("to a group of offsets", "s", &[("m", None)]);
    script.join("with an id to a group of offsets", who("s", "m"));
    script.delete_offset("in a group of offsets", "s");
    script.fetch("of a deleted offset", "s");
    script.describe("of a group whose last offset was deleted", "s");
    script.delete_group("of a group of offsets", "s");
    script.describe("of a deleted group", "s");
}

fn the_life_of_a_group(script: &mut Script<'_>) {
    let id = script.join("without an id", who("g", "")).member_id;
    script.describe("after the handshake", "g");
    let pending = who("g", &id);
    script.heartbeat("of a pending member", pending, 0);
    script.sync("of a pending member", pending, 0, &[]);
    script.commit("of a pending member", pending, 0);
    script.leave("of a pending member", "g", &[(&id, None)]);
    script.join("of a pending member that left", pending);

    let id = script.join("without an id", who("g", "")).member_id;
    let me = who("g", &id);
    script.join("with the id", me);
    script.describe("while the assignment is awaited", "g");
    script.commit("while the assignment is awaited", me, 1);
    script.commit("from outside while the assignment is awaited", who("g", ""), -1);
    script.heartbeat("while the assignment is awaited", me, 1);
    script.delete_offset("while the assignment is awaited", "g");
    script.delete_group("while the assignment is awaited", "g");
    script.join("again, unchanged, while the assignment is awaited", me);
    script.sync("of another generation", me, 7, &[]);
    script.sync("of a stranger", who("g", "stranger"), 1, &[]);
    let wrong = SyncGroup { protocol_name: Some("sticky".to_owned()), ..script.sync_request(me, 1, &[]) };
    script.ask("SyncGroup of another protocol", Command::SyncGroup(wrong));
    let wrong = SyncGroup { protocol_type: Some("connect".to_owned()), ..script.sync_request(me, 1, &[]) };
    script.ask("SyncGroup of another type", Command::SyncGroup(wrong));
    script.sync("of the leader", me, 1, &[(&id, "all"), ("made-up", "none")]);

    script.describe("of a stable group", "g");
    script.sync("again", me, 1, &[]);
    script.heartbeat("of a member", me, 1);
    script.heartbeat("of another generation", me, 0);
    script.heartbeat("of a stranger", who("g", "stranger"), 1);
    script.heartbeat("with an unknown instance", of("g", &id, "i"), 1);
    script.commit("of a member", me, 1);
    script.fetch("of a live group", "g");
    script.commit("of another generation", me, 4);
    script.commit("of a stranger", who("g", "stranger"), 1);
    script.commit("from outside", who("g", ""), -1);
    script.commit("of a member without a generation", me, -1);
    script.delete_group("of a live group", "g");
    script.delete_offset("of a topic that is consumed", "g");
    script.join_with("with another protocol", |it| {
        it.group_id = "g".to_owned();
        it.protocols[0].0 = "sticky".to_owned();
    });
    script.join_with("with another type", |it| {
        it.group_id = "g".to_owned();
        it.protocol_type = "connect".to_owned();
    });
    let given = script.join("without an id to a stable group", who("g", "")).member_id;
    script.leave("of a pending member of a stable group", "g", &[(&given, None)]);
    script.heartbeat("of a member after a pending one has left", me, 1);
    script.describe("of a group that a pending member has left", "g");
    script.join("of a stranger", who("g", "stranger"));
    script.join("of a stranger with an instance", of("g", "stranger", "i"));
    script.leave("of strangers", "g", &[("stranger", None), ("", None), ("", Some("i")), (&id, Some("i"))]);

    let other = script.join("of a second member without an id", who("g", "")).member_id;
    script.send_join("second", who("g", &other));
    // The second member is being waited for only once the broker has seen its request.
    script.wait_until("g", "PreparingRebalance");
    script.describe("while members join", "g");
    script.heartbeat("while members join", me, 1);
    script.commit("while members join", me, 1);
    script.sync("while members join", me, 1, &[]);
    script.delete_offset("while members join", "g");
    script.join("of the leader", me);
    script.receive("JoinGroup of the second member", "second");
    let request = script.sync_request(who("g", &other), 2, &[]);
    script.peer.send("second", Command::SyncGroup(request));
    script.sync("of the leader", me, 2, &[(&id, "half"), (&other, "other half")]);
    script.receive("SyncGroup of the second member", "second");
    script.join("of a follower, unchanged", who("g", &other));
    script.leave("of the leader", "g", &[(&id, None)]);
    script.heartbeat("of the left one", me, 2);
    script.heartbeat("of the other", who("g", &other), 2);
    script.join("of the other", who("g", &other));
    script.leave("of the last member", "g", &[(&other, None)]);
    script.describe("of an abandoned group", "g");
    script.heartbeat("to an abandoned group", who("g", &other), 4);
    script.sync("to an abandoned group", who("g", &other), 4, &[]);
    script.commit("from outside to an abandoned group", who("g", ""), -1);
    script.commit("of a former member", who("g", &other), 3);
    script.delete_offset("in an abandoned group", "g");
    script.delete_group("of an abandoned group", "g");
}

fn a_full_group(script: &mut Script<'_>) {
    let connections = ["one", "two", "three"];
    for connection in connections {
        let mut request = script.join_request(who("full", ""));
        request.api_version = 3;
        script.peer.send(connection, Command::JoinGroup(request));
    }
    let ids: Vec<String> =
        connections.map(|connection| script.peer.receive(connection).member_id).into_iter().collect();
    script.join("to a full group that awaits its assignment", who("full", ""));
    for (connection, id) in connections.into_iter().zip(&ids) {
        let request = script.sync_request(who("full", id), 1, &[]);
        script.peer.send(connection, Command::SyncGroup(request));
    }
    for connection in connections {
        script.receive("SyncGroup without an assignment", connection);
    }
    script.describe("of a full group", "full");
    script.join("to a full stable group", who("full", ""));
    let mut request = script.join_request(of("full", "", "i"));
    request.api_version = 5;
    script.ask("JoinGroup v5 of a static member to a full group", Command::JoinGroup(request));
}

fn static_members(script: &mut Script<'_>) {
    script.send_join("leader", of("st", "", "boss"));
    // The order in which two connections are served is the broker's.
    script.wait_until("st", "members=1");
    script.send_join("follower", of("st", "", "hand"));
    let boss = script.receive("JoinGroup of a static leader", "leader").member_id;
    let hand = script.receive("JoinGroup of a static follower", "follower").member_id;
    script.sync("of a static leader", of("st", &boss, "boss"), 1, &[(&boss, "desk"), (&hand, "bench")]);
    script.sync("of a static follower", of("st", &hand, "hand"), 1, &[]);

    let hand2 = script.join("of a restarted static follower", of("st", "", "hand")).member_id;
    let old = of("st", &hand, "hand");
    script.heartbeat("of its former self", old, 1);
    script.heartbeat("of its former self without the instance", who("st", &hand), 1);
    script.commit("of its former self", old, 1);
    script.sync("of its former self", old, 1, &[]);
    script.join("of its former self", old);
    script.leave("of its former self", "st", &[(&hand, Some("hand"))]);
    script.sync("of the restarted one", of("st", &hand2, "hand"), 1, &[]);
    script.heartbeat("of the restarted one", of("st", &hand2, "hand"), 1);
    script.commit("of the restarted one", of("st", &hand2, "hand"), 1);

    let mut request = script.join_request(of("st", "", "hand"));
    request.protocols[0].1 = subscription(&["orders", "payments"]);
    let hand3 = script
        .ask("JoinGroup of a static follower with another subscription", Command::JoinGroup(request))
        .member_id;
    script.heartbeat("of it", of("st", &hand3, "hand"), 1);
    script.describe("of its group", "st");

    let boss2 = script.join("of a restarted static leader", of("st", "", "boss")).member_id;
    script.sync("of the restarted leader", of("st", &boss2, "boss"), 1, &[]);
    let mut request = script.join_request(of("st", "", "boss"));
    request.api_version = 8;
    let boss3 =
        script.ask("JoinGroup v8 of a restarted static leader", Command::JoinGroup(request)).member_id;
    script.describe("of a group of static members", "st");
    script.leave("by the instance alone", "st", &[("", Some("hand")), ("", Some("nobody"))]);
    script.heartbeat("of the other static member", of("st", &boss3, "boss"), 1);
    script.commit("of the other static member", of("st", &boss3, "boss"), 1);
    script.join("of the other static member", of("st", &boss3, "boss"));
    script.join("without an id while the assignment is awaited", of("st", "", "boss"));
}

fn members_that_never_come(script: &mut Script<'_>) {
    let given = script.join("without an id to a new group", who("p", "")).member_id;
    script.delete_group("of a group that is only waited for", "p");
    script.join("with an id of a deleted group", who("p", &given));
    script.describe("of it", "p");

    let given = script.join("without an id once more", who("p", "")).member_id;
    let me = who("p", &given);
    script.join("with the id", me);
    script.sync("of the only member", me, 1, &[(&given, "all")]);
    // The rebalance waits for a second member until that gives its id back.
    let other = script.join("of another without an id", who("p", "")).member_id;
    script.send_join("leader", me);
    script.wait_until("p", "PreparingRebalance");
    script.leave("of the one that is waited for", "p", &[(&other, None), (&other, None)]);
    script.receive("JoinGroup that waited for it", "leader");
    script.leave("of a member whose assignment is awaited", "p", &[(&given, None)]);
    script.describe("of the group that it left", "p");
    script.sync("of the member that left", me, 2, &[(&given, "all")]);
}

fn other_protocols(script: &mut Script<'_>) {
    let mut request = script.join_request(who("w", ""));
    request.protocol_type = "connect".to_owned();
    request.api_version = 3;
    let id = script.ask("JoinGroup v3 of a worker", Command::JoinGroup(request)).member_id;
    script.delete_offset("of a live group of workers", "w");
    script.commit("from outside to workers", who("w", ""), -1);
    let request = SyncGroup {
        protocol_type: Some("connect".to_owned()),
        ..script.sync_request(who("w", &id), 1, &[(&id, "tasks")])
    };
    script.ask("SyncGroup of a worker", Command::SyncGroup(request));
    script.describe("of workers", "w");
    // Votes: what both support and most prefer.
    let protocols = |names: [&str; 2]| names.map(|name| (name.to_owned(), name.as_bytes().to_vec())).to_vec();
    for (connection, names) in
        [("one", ["sticky", "range"]), ("two", ["range", "robin"]), ("three", ["range", "sticky"])]
    {
        let mut request = script.join_request(who("votes", ""));
        request.api_version = 3;
        request.protocols = protocols(names);
        script.peer.send(connection, Command::JoinGroup(request));
    }
    let mut chosen: Vec<String> =
        ["one", "two", "three"].map(|connection| script.peer.receive(connection).line).into_iter().collect();
    chosen.sort();
    for line in chosen {
        script.note("JoinGroup v3 with votes", &line);
    }
}
