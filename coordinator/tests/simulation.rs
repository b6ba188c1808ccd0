//! Many random lives of a coordinator: members join, leave, crash, come back and commit, appends are slow or fail, the
//! coordinator dies and replays its log. What must hold is checked after every step; a failing run prints its seed.
//!
//! Injected: slow appends, results out of order, failed appends, crashes before and after the log has a batch, vanished
//! connections (noticed or not), deletions of offsets, groups and topics. Not injected: torn or damaged records.
//!
//! `WEIR_SEED` runs one seed, `WEIR_SEEDS` that many from 0.

mod harness;

use std::collections::BTreeMap;
use std::sync::Arc;

use harness::{Broker, config, subscription};
use weir_coordinator::{
    AppendError, Command, GroupConfig, GroupError, GroupState, JoinGroup, Limits, OffsetCommit, Reply, Shard,
    SyncGroup, Token, Usage,
};

const SESSION_MS: i32 = 6_000;
const MAX_REBALANCE_MS: i64 = 20_000;
/// How long appends may take before the simulation finishes them.
const MAX_APPEND_MS: i64 = 3_000;
const TOPICS: [&str; 2] = ["orders", "payments"];
const GROUPS: [&str; 2] = ["alpha", "beta"];
const STEPS: usize = 600;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Outside,
    Joining(Token),
    Syncing(Token),
    Member,
}

#[derive(Debug)]
struct Client {
    name: String,
    group: &'static str,
    instance: Option<String>,
    api_version: i16,
    rebalance_ms: i32,
    phase: Phase,
    member_id: String,
    generation: i32,
    /// When the request that waits was sent.
    since_ms: i64,
    last_heartbeat_ms: i64,
    /// A client that hangs sends nothing.
    hangs: bool,
}

struct World {
    broker: Broker,
    random: Random,
    clients: Vec<Client>,
    /// Leader by group, incarnation of the group and generation.
    leaders: BTreeMap<(&'static str, u32, i32), String>,
    incarnations: BTreeMap<&'static str, u32>,
    /// Acknowledged offsets: what may not be lost.
    acknowledged: BTreeMap<(&'static str, &'static str), i64>,
    issued: i64,
    /// Commits without an answer: (group, topic, offset).
    commits: BTreeMap<Token, (&'static str, &'static str, i64)>,
    held_since_ms: i64,
    faults: bool,
}

/// A member id without the random part of a static member, which may change within a generation.
fn identity(member_id: &str) -> &str {
    if member_id.starts_with("static") { &member_id[..member_id.len() - 37] } else { member_id }
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        // Four clients of a group and the ids of those that crashed can be more than four.
        let max_size = if random.chance(30) { 4 } else { 100 };
        let config = GroupConfig {
            initial_rebalance_delay_ms: *random.pick(&[0, 500, 3_000]),
            group_max_size: max_size,
            ..config()
        };
        let mut broker = Broker::new(config, Limits::default());
        broker.writes_at_once = random.chance(50);
        let clients = (0..2 + random.below(6)).map(|index| Client {
            name: format!("c{index}"),
            group: GROUPS[index as usize % 2],
            instance: random.chance(35).then(|| format!("static{index}")),
            api_version: *random.pick(&[3, 5, 8, 9]),
            rebalance_ms: *random.pick(&[5_000, 12_000, 20_000]),
            phase: Phase::Outside,
            member_id: String::new(),
            generation: -1,
            since_ms: 0,
            last_heartbeat_ms: 0,
            hangs: false,
        });
        let clients = clients.collect();
        World {
            broker,
            random,
            clients,
            leaders: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            issued: 0,
            commits: BTreeMap::new(),
            held_since_ms: 0,
            faults: true,
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            self.look_at_answers();
            self.check();
        }
        self.settle();
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.pass_time(),
            25..70 => self.client_acts(),
            70..80 => self.finish_some_append(),
            80..86 => self.client_faults(),
            86..91 => self.administrator_acts(),
            91..93 => self.restart(),
            _ => self.pass_time(),
        }
    }

    fn pass_time(&mut self) {
        let milliseconds = *self.random.pick(&[0, 1, 50, 400, 2_000]);
        self.broker.wait(milliseconds);
        if self.broker.held.is_empty() {
            self.held_since_ms = self.broker.now_ms;
        }
        while !self.broker.held.is_empty() && self.broker.now_ms - self.held_since_ms >= MAX_APPEND_MS {
            self.broker.finish_append(0, Ok(()));
        }
    }

    /// A result for one of the appends under way. The log has them in order, so one that is reported written takes
    /// those before it along; a refused one was never written.
    fn finish_some_append(&mut self) {
        if self.broker.held.is_empty() {
            return;
        }
        let last = self.random.below(self.broker.held.len() as u64) as usize;
        if self.random.chance(15) {
            let error = *self.random.pick(&[AppendError::NotAvailable, AppendError::Other]);
            return self.broker.finish_append(last, Err(error));
        }
        // Written in order, reported backwards.
        let mut written: Vec<_> = self.broker.held.drain(..=last).collect();
        for append in &written {
            self.broker.log.extend(append.records.iter().cloned());
        }
        while let Some(append) = written.pop() {
            let effects = self.broker.shard.append_done(self.broker.now_ms, append.id, Ok(0));
            self.broker.absorb(effects);
        }
        self.held_since_ms = self.broker.now_ms;
    }

    fn client_acts(&mut self) {
        let index = self.random.below(self.clients.len() as u64) as usize;
        if self.clients[index].hangs {
            if self.random.chance(10) {
                self.clients[index].hangs = false;
            }
            return;
        }
        match self.clients[index].phase {
            Phase::Outside => self.send_join(index),
            Phase::Joining(_) | Phase::Syncing(_) => {}
            Phase::Member => match self.random.below(10) {
                0..5 => self.send_heartbeat(index),
                5..9 => self.send_commit(index),
                _ if self.random.chance(20) => self.send_leave(index),
                // The leader wants a new assignment, a follower has missed something.
                _ => self.send_join(index),
            },
        }
    }

    fn send_join(&mut self, index: usize) {
        let client = &self.clients[index];
        let fresh_id = u128::from(self.random.next()) << 64 | u128::from(self.random.next());
        let mut topics = TOPICS.to_vec();
        if self.random.chance(10) {
            topics.pop();
        }
        let mut protocols =
            vec![("range".to_owned(), subscription(&topics)), ("sticky".to_owned(), vec![7; 20])];
        if self.random.chance(15) {
            protocols.reverse();
        }
        let request = JoinGroup {
            api_version: client.api_version,
            group_id: client.group.to_owned(),
            member_id: client.member_id.clone(),
            group_instance_id: client.instance.clone(),
            client_id: client.name.clone(),
            client_host: "/10.0.0.1".to_owned(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: client.rebalance_ms,
            protocol_type: "consumer".to_owned(),
            protocols,
            reason: Some("simulated".to_owned()),
            fresh_id,
        };
        let token = self.broker.send(Command::JoinGroup(request));
        let client = &mut self.clients[index];
        client.phase = Phase::Joining(token);
        client.since_ms = self.broker.now_ms;
    }

    fn send_heartbeat(&mut self, index: usize) {
        let client = &self.clients[index];
        let (group, id, generation) = (client.group, client.member_id.clone(), client.generation);
        let instance = client.instance.clone();
        let result = self.broker.heartbeat_as(group, &id, instance.as_deref(), generation);
        let client = &mut self.clients[index];
        client.last_heartbeat_ms = self.broker.now_ms;
        match result {
            Ok(()) => {}
            Err(GroupError::RebalanceInProgress) => client.phase = Phase::Outside,
            Err(
                GroupError::UnknownMemberId
                | GroupError::IllegalGeneration { .. }
                | GroupError::FencedInstanceId,
            ) => forget(client),
            Err(GroupError::CoordinatorNotAvailable { .. }) => {}
            Err(other) => panic!("heartbeat: {other}"),
        }
    }

    fn send_commit(&mut self, index: usize) {
        let client = &self.clients[index];
        let topic = *self.random.pick(&TOPICS);
        self.issued += 1;
        let request = self.broker.commit_request(
            client.group,
            &client.member_id,
            client.generation,
            topic,
            self.issued,
        );
        let request = OffsetCommit { group_instance_id: client.instance.clone(), ..request };
        let group = client.group;
        let token = self.broker.send(Command::OffsetCommit(request));
        self.commits.insert(token, (group, topic, self.issued));
    }

    fn send_leave(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let (group, id, instance) = (client.group, client.member_id.clone(), client.instance.clone());
        forget(client);
        self.broker.leave(group, &[(&id, instance.as_deref())]);
    }

    fn client_faults(&mut self) {
        let index = self.random.below(self.clients.len() as u64) as usize;
        let noticed = self.random.chance(50);
        let forgets = self.random.chance(50);
        let client = &mut self.clients[index];
        let token = match client.phase {
            Phase::Joining(token) | Phase::Syncing(token) => Some(token),
            _ => None,
        };
        if forgets {
            forget(client);
        } else {
            client.phase = Phase::Outside;
            client.hangs = self.random.chance(30);
        }
        if let Some(token) = token.filter(|token| noticed && self.broker.is_waiting(*token)) {
            self.broker.cancel(token);
        }
    }

    fn administrator_acts(&mut self) {
        let group = *self.random.pick(&GROUPS);
        let topic = *self.random.pick(&TOPICS);
        match self.random.below(4) {
            0 => {
                self.may_be_deleted(|of, _| of == group);
                self.broker.delete_groups(&[group, "unknown"]);
            }
            1 => {
                self.may_be_deleted(|of, about| of == group && about == topic);
                self.broker.delete_offset(group, topic);
            }
            2 => {
                self.may_be_deleted(|_, about| about == topic);
                let effects = self.broker.shard.topics_deleted(self.broker.now_ms, [topic.to_owned()]);
                self.broker.absorb(effects);
                self.broker.wait(1);
            }
            _ => {
                self.issued += 1;
                let token = self.broker.commit(group, "", -1, topic, self.issued);
                self.commits.insert(token, (group, topic, self.issued));
            }
        }
    }

    /// What was committed before a deletion is asked for may be gone after it.
    fn may_be_deleted(&mut self, concerns: impl Fn(&str, &str) -> bool) {
        self.acknowledged.retain(|(group, topic), _| !concerns(group, topic));
        self.commits.retain(|_, (group, topic, _)| !concerns(group, topic));
    }

    /// The coordinator dies. Of the appends under way the log may have the first ones.
    fn restart(&mut self) {
        let written = self.random.below(self.broker.held.len() as u64 + 1) as usize;
        for append in self.broker.held.drain(..written) {
            self.broker.log.extend(append.records);
        }
        self.broker.restart();
        self.commits.clear();
        for client in &mut self.clients {
            if matches!(client.phase, Phase::Joining(_) | Phase::Syncing(_)) {
                client.phase = Phase::Outside;
            }
        }
        // A generation that was formed but not written is formed anew, perhaps with another leader.
        for group in GROUPS {
            *self.incarnations.entry(group).or_default() += 1;
        }
    }

    fn look_at_answers(&mut self) {
        // One answer leads to the next request, which may be answered at once.
        for index in 0..self.clients.len() {
            loop {
                let before = self.clients[index].phase;
                match before {
                    Phase::Joining(token) => self.look_at_join(index, token),
                    Phase::Syncing(token) => self.look_at_sync(index, token),
                    Phase::Outside | Phase::Member => {}
                }
                if self.clients[index].phase == before {
                    break;
                }
            }
        }
        let answered: Vec<Token> =
            self.commits.keys().filter(|token| !self.broker.is_waiting(**token)).copied().collect();
        for token in answered {
            let (group, topic, offset) = self.commits.remove(&token).unwrap();
            if self.broker.commit_error(token).is_none() {
                self.acknowledged.insert((group, topic), offset);
            }
        }
        let waiting_for: Vec<Token> = self
            .clients
            .iter()
            .filter_map(|client| match client.phase {
                Phase::Joining(token) | Phase::Syncing(token) => Some(token),
                Phase::Outside | Phase::Member => None,
            })
            .collect();
        self.broker.replies.retain(|token, _| waiting_for.contains(token));
    }

    fn look_at_join(&mut self, index: usize, token: Token) {
        let Some(reply) = self.broker.replies.get(&token) else { return };
        let Reply::JoinGroup(reply) = reply.clone() else { panic!("{reply:?}") };
        let client = &mut self.clients[index];
        client.phase = Phase::Outside;
        match reply.error {
            None => {}
            Some(GroupError::MemberIdRequired) => {
                client.member_id = reply.member_id.to_string();
                return self.send_join(index);
            }
            Some(
                GroupError::UnknownMemberId
                | GroupError::FencedInstanceId
                | GroupError::GroupMaxSizeReached { .. },
            ) => return forget(client),
            Some(
                GroupError::RebalanceInProgress
                | GroupError::CoordinatorNotAvailable { .. }
                | GroupError::UnknownServerError,
            ) => return,
            Some(other) => panic!("join: {other}"),
        }
        client.member_id = reply.member_id.to_string();
        client.generation = reply.generation_id;
        client.last_heartbeat_ms = self.broker.now_ms;
        let group = client.group;
        let incarnation = self.incarnations.get(group).copied().unwrap_or_default();
        let key = (group, incarnation, reply.generation_id);
        let leader = identity(&reply.leader).to_owned();
        let known = self.leaders.entry(key).or_insert_with(|| leader.clone());
        assert_eq!(*known, leader, "two leaders in one generation {key:?}");
        let leads = reply.leader == reply.member_id;
        assert!(leads || reply.members.is_empty(), "a follower was shown the members");
        let plans = leads && !reply.skip_assignment;
        if plans {
            assert!(reply.members.iter().any(|member| member.member_id == reply.member_id));
        }
        let request = SyncGroup {
            group_id: group.to_owned(),
            generation_id: reply.generation_id,
            member_id: reply.member_id.to_string(),
            group_instance_id: self.clients[index].instance.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: reply.protocol_name.as_deref().map(str::to_owned),
            assignments: if plans {
                let of = |id: &Arc<str>| format!("{}/{}", reply.generation_id, identity(id)).into_bytes();
                reply
                    .members
                    .iter()
                    .map(|member| (member.member_id.to_string(), of(&member.member_id)))
                    .collect()
            } else {
                Vec::new()
            },
        };
        // Now and then a member is slow or dies right here.
        if self.faults && self.random.chance(10) {
            return;
        }
        let token = self.broker.send(Command::SyncGroup(request));
        let client = &mut self.clients[index];
        client.phase = Phase::Syncing(token);
        client.since_ms = self.broker.now_ms;
    }

    fn look_at_sync(&mut self, index: usize, token: Token) {
        let Some(reply) = self.broker.replies.get(&token) else { return };
        let Reply::SyncGroup(reply) = reply.clone() else { panic!("{reply:?}") };
        let client = &mut self.clients[index];
        client.phase = Phase::Outside;
        match reply.error {
            None => {
                let expected = format!("{}/{}", client.generation, identity(&client.member_id));
                assert!(
                    reply.assignment.is_empty() || *reply.assignment == *expected.as_bytes(),
                    "{} got {:?}, not {expected}",
                    client.name,
                    String::from_utf8_lossy(&reply.assignment)
                );
                client.phase = Phase::Member;
                client.last_heartbeat_ms = self.broker.now_ms;
            }
            Some(
                GroupError::RebalanceInProgress
                | GroupError::CoordinatorNotAvailable { .. }
                | GroupError::UnknownServerError,
            ) => {}
            Some(
                GroupError::UnknownMemberId
                | GroupError::IllegalGeneration { .. }
                | GroupError::FencedInstanceId,
            ) => forget(client),
            Some(GroupError::InconsistentGroupProtocol) => {
                panic!("the protocol of the generation was refused")
            }
            Some(other) => panic!("sync: {other}"),
        }
    }

    fn check(&mut self) {
        let bound_ms = MAX_REBALANCE_MS + 2 * MAX_APPEND_MS;
        for client in &self.clients {
            if let Phase::Joining(token) | Phase::Syncing(token) = client.phase
                && self.broker.is_waiting(token)
            {
                let waited_ms = self.broker.now_ms - client.since_ms;
                assert!(waited_ms <= bound_ms, "{} waits for {waited_ms} ms: {client:?}", client.name);
            }
        }
        for group in GROUPS {
            if self.broker.state(group) == "Dead" {
                *self.incarnations.entry(group).or_default() += 1;
            }
        }
        for ((group, topic), offset) in &self.acknowledged {
            let found = self.broker.offset(group, topic);
            assert!(
                found.is_some_and(|found| (*offset..=self.issued).contains(&found)),
                "{group} {topic}: {offset} was acknowledged, {found:?} is there"
            );
        }
        assert_eq!(self.broker.usage.bytes(), self.broker.shard.memory_bytes());
        if self.broker.held.is_empty() {
            self.check_against_replay();
        }
    }

    /// With nothing under way, what records carry equals a replay of the log.
    fn check_against_replay(&self) {
        let broker = &self.broker;
        let usage = Arc::new(Usage::default());
        let mut replayed = Shard::new(Arc::clone(&broker.config), Arc::clone(&broker.limits), usage);
        for record in &broker.log {
            replayed.replay(&record.key, record.value.as_deref()).unwrap();
        }
        drop(replayed.loaded(broker.now_ms));
        for group in GROUPS {
            let live: Vec<_> = broker.shard.offsets(group).unwrap().iter().collect();
            let from_log: Vec<_> = replayed.offsets(group).unwrap().iter().collect();
            assert_eq!(live, from_log, "offsets of {group}");
            let mut live = broker.shard.describe_group(group, 6).unwrap();
            let mut from_log = replayed.describe_group(group, 6).unwrap();
            if live.state == GroupState::Stable && from_log.state == GroupState::Stable {
                live.members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
                from_log.members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
            }
            if live.state == GroupState::Stable {
                assert_eq!(live, from_log, "stable group {group}");
            }
        }
    }

    /// The faults end: every group with clients becomes stable, with each of them in it.
    fn settle(&mut self) {
        self.faults = false;
        self.broker.writes_at_once = true;
        while !self.broker.held.is_empty() {
            self.broker.finish_append(0, Ok(()));
        }
        for client in &mut self.clients {
            client.hangs = false;
        }
        for _ in 0..150 {
            self.broker.wait(1_000);
            self.look_at_answers();
            for index in 0..self.clients.len() {
                match self.clients[index].phase {
                    Phase::Outside => self.send_join(index),
                    Phase::Member => self.send_heartbeat(index),
                    _ => {}
                }
                self.look_at_answers();
            }
            self.check();
        }
        for group in GROUPS {
            let clients: Vec<&Client> = self.clients.iter().filter(|client| client.group == group).collect();
            let described = self.broker.shard.describe_group(group, 6).unwrap();
            if clients.is_empty() {
                continue;
            }
            assert_eq!(described.members.len(), clients.len(), "{group}: {described:?}\n{clients:#?}");
            assert_eq!(described.state, GroupState::Stable, "{group}");
            let generations: std::collections::BTreeSet<i32> =
                clients.iter().map(|client| client.generation).collect();
            assert_eq!(generations.len(), 1, "{group}: {clients:#?}");
        }
        drop(self.broker.shard.unload());
        assert_eq!(self.broker.usage.bytes(), 0, "everything is given back");
    }
}

fn forget(client: &mut Client) {
    client.phase = Phase::Outside;
    client.member_id.clear();
    client.generation = -1;
}

#[test]
fn what_must_hold_holds_in_many_random_lives() {
    let parse = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match parse("WEIR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..parse("WEIR_SEEDS").unwrap_or(30),
    };
    for seed in seeds {
        eprintln!("WEIR_SEED={seed}");
        World::new(seed).run();
    }
}
