//! A broker in miniature around one shard: a clock that the test moves, a log in memory, requests by token.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_coordinator::{
    Append, AppendError, AppendId, Command, CoordinatorRecord, DeleteGroups, Effects, GroupConfig,
    GroupError, Heartbeat, JoinGroup, JoinGroupReply, LeaveGroup, LeavingMember, Limits, Notice,
    OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, Reply, Shard, SyncGroup,
    SyncGroupReply, Token, Usage,
};

pub struct Broker {
    pub shard: Shard,
    pub config: Arc<GroupConfig>,
    pub limits: Arc<Limits>,
    pub usage: Arc<Usage>,
    pub now_ms: i64,
    pub log: Vec<CoordinatorRecord>,
    /// Appends are written at once; otherwise they wait in `held`.
    pub writes_at_once: bool,
    pub held: Vec<Append>,
    pub replies: BTreeMap<Token, Reply>,
    pub notices: Vec<Notice>,
    /// Tokens that have no answer yet.
    pub waiting: BTreeSet<Token>,
    pub next_token: u64,
    pub next_id: u128,
}

pub fn config() -> GroupConfig {
    GroupConfig::default()
}

impl Default for Broker {
    fn default() -> Self {
        Broker::new(config(), Limits::default())
    }
}

impl Broker {
    pub fn new(config: GroupConfig, limits: Limits) -> Broker {
        let (config, limits, usage) = (Arc::new(config), Arc::new(limits), Arc::new(Usage::default()));
        let mut broker = Broker {
            shard: Shard::new(Arc::clone(&config), Arc::clone(&limits), Arc::clone(&usage)),
            config,
            limits,
            usage,
            now_ms: 1_700_000_000_000,
            log: Vec::new(),
            writes_at_once: true,
            held: Vec::new(),
            replies: BTreeMap::new(),
            notices: Vec::new(),
            waiting: BTreeSet::new(),
            next_token: 0,
            next_id: 0,
        };
        let effects = broker.shard.loaded(broker.now_ms);
        broker.absorb(effects);
        broker
    }

    /// Takes what a call led to, writes appends if they are written at once, and checks the shard's books.
    pub fn absorb(&mut self, effects: Effects) {
        let mut pending = vec![effects];
        while let Some(effects) = pending.pop() {
            for (token, reply) in effects.replies {
                assert!(
                    self.waiting.remove(&token),
                    "{token:?} was answered twice or never asked: {reply:?}"
                );
                self.replies.insert(token, reply);
            }
            self.notices.extend(effects.notices);
            for append in effects.appends {
                assert!(!append.records.is_empty());
                let size: usize = append.records.iter().map(CoordinatorRecord::size_bytes).sum();
                assert!(size <= self.config.max_append_bytes, "append of {size} bytes");
                if self.writes_at_once {
                    let base = self.log.len() as i64;
                    self.log.extend(append.records);
                    pending.push(self.shard.append_done(self.now_ms, append.id, Ok(base)));
                } else {
                    self.held.push(append);
                }
            }
        }
        assert!(self.shard.is_consistent(), "the shard's counts are wrong: {:#?}", self.shard);
        assert_eq!(self.shard.memory_bytes(), self.shard.recount_memory_bytes());
    }

    pub fn send(&mut self, command: Command) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.waiting.insert(token);
        let effects = self.shard.handle(self.now_ms, token, command);
        self.absorb(effects);
        token
    }

    pub fn wait(&mut self, milliseconds: i64) {
        let until = self.now_ms + milliseconds;
        while let Some(next) = self.shard.next_deadline_ms().filter(|next| *next <= until) {
            self.now_ms = self.now_ms.max(next);
            let effects = self.shard.tick(self.now_ms);
            self.absorb(effects);
        }
        self.now_ms = until;
    }

    pub fn cancel(&mut self, token: Token) {
        self.waiting.remove(&token);
        let effects = self.shard.cancel(self.now_ms, token);
        self.absorb(effects);
    }

    /// The results of held appends, the given ones first.
    pub fn finish_append(&mut self, index: usize, result: Result<(), AppendError>) {
        let append = self.held.remove(index);
        if result.is_ok() {
            self.log.extend(append.records);
        }
        let effects = self.shard.append_done(self.now_ms, append.id, result.map(|()| 0));
        self.absorb(effects);
    }

    pub fn append_ids(&self) -> Vec<AppendId> {
        self.held.iter().map(|append| append.id).collect()
    }

    /// The process dies and comes back: whatever is not in the log is gone.
    pub fn restart(&mut self) {
        self.waiting.clear();
        self.held.clear();
        self.shard = Shard::new(Arc::clone(&self.config), Arc::clone(&self.limits), Arc::clone(&self.usage));
        for record in &self.log {
            self.shard.replay(&record.key, record.value.as_deref()).expect("our own record replays");
        }
        let effects = self.shard.loaded(self.now_ms);
        self.absorb(effects);
    }

    pub fn is_waiting(&self, token: Token) -> bool {
        self.waiting.contains(&token)
    }

    pub fn joined(&self, token: Token) -> JoinGroupReply {
        match self.replies.get(&token) {
            Some(Reply::JoinGroup(reply)) => reply.clone(),
            other => panic!("{token:?} has {other:?} for JoinGroup"),
        }
    }

    pub fn join_error(&self, token: Token) -> Option<GroupError> {
        self.joined(token).error
    }

    pub fn synced(&self, token: Token) -> SyncGroupReply {
        match self.replies.get(&token) {
            Some(Reply::SyncGroup(reply)) => reply.clone(),
            other => panic!("{token:?} has {other:?} for SyncGroup"),
        }
    }

    // Requests.

    pub fn join_request(&mut self, group: &str, member: &str) -> JoinGroup {
        self.next_id += 1;
        JoinGroup {
            api_version: 9,
            group_id: group.to_owned(),
            member_id: member.to_owned(),
            group_instance_id: None,
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), subscription(&["orders"]))],
            reason: None,
            fresh_id: self.next_id,
        }
    }

    /// Joins as a consumer without an id of its own: the hand-shake of KIP-394 and the second request, which may wait.
    pub fn join_new(&mut self, group: &str) -> (String, Token) {
        let request = self.join_request(group, "");
        self.join_new_with(request)
    }

    pub fn join_new_with(&mut self, request: JoinGroup) -> (String, Token) {
        let token = self.send(Command::JoinGroup(request.clone()));
        let reply = self.joined(token);
        assert_eq!(reply.error, Some(GroupError::MemberIdRequired));
        let id = reply.member_id.to_string();
        let token = self.send(Command::JoinGroup(JoinGroup { member_id: id.clone(), ..request }));
        (id, token)
    }

    pub fn join(&mut self, group: &str, member: &str) -> Token {
        let request = self.join_request(group, member);
        self.send(Command::JoinGroup(request))
    }

    pub fn join_static(&mut self, group: &str, member: &str, instance: &str) -> Token {
        let mut request = self.join_request(group, member);
        request.group_instance_id = Some(instance.to_owned());
        self.send(Command::JoinGroup(request))
    }

    pub fn sync_request(
        &self,
        group: &str,
        member: &str,
        generation: i32,
        assigned: &[(&str, &str)],
    ) -> SyncGroup {
        SyncGroup {
            group_id: group.to_owned(),
            generation_id: generation,
            member_id: member.to_owned(),
            group_instance_id: None,
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some("range".to_owned()),
            assignments: assigned
                .iter()
                .map(|(id, bytes)| ((*id).to_owned(), bytes.as_bytes().to_vec()))
                .collect(),
        }
    }

    pub fn sync(&mut self, group: &str, member: &str, generation: i32, assigned: &[(&str, &str)]) -> Token {
        let request = self.sync_request(group, member, generation, assigned);
        self.send(Command::SyncGroup(request))
    }

    pub fn heartbeat(&mut self, group: &str, member: &str, generation: i32) -> Result<(), GroupError> {
        self.heartbeat_as(group, member, None, generation)
    }

    pub fn heartbeat_as(
        &mut self,
        group: &str,
        member: &str,
        instance: Option<&str>,
        generation_id: i32,
    ) -> Result<(), GroupError> {
        let token = self.send(Command::Heartbeat(Heartbeat {
            group_id: group.to_owned(),
            generation_id,
            member_id: member.to_owned(),
            group_instance_id: instance.map(str::to_owned),
        }));
        match self.replies.get(&token) {
            Some(Reply::Heartbeat(result)) => result.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn leave(&mut self, group: &str, members: &[(&str, Option<&str>)]) -> Token {
        let members = members.iter().map(|(id, instance)| LeavingMember {
            member_id: (*id).to_owned(),
            group_instance_id: instance.map(str::to_owned),
            reason: None,
        });
        let members = members.collect();
        self.send(Command::LeaveGroup(LeaveGroup { group_id: group.to_owned(), members }))
    }

    pub fn left(&self, token: Token) -> Result<Vec<Option<GroupError>>, GroupError> {
        match self.replies.get(&token) {
            Some(Reply::LeaveGroup(Ok(members))) => {
                Ok(members.iter().map(|member| member.error.clone()).collect())
            }
            Some(Reply::LeaveGroup(Err(error))) => Err(error.clone()),
            other => panic!("{other:?}"),
        }
    }

    pub fn commit_request(
        &self,
        group: &str,
        member: &str,
        generation_id: i32,
        topic: &str,
        at: i64,
    ) -> OffsetCommit {
        OffsetCommit {
            api_version: 9,
            group_id: group.to_owned(),
            generation_id,
            member_id: member.to_owned(),
            group_instance_id: None,
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic {
                topic: topic.to_owned(),
                partitions: vec![OffsetCommitPartition {
                    partition: 0,
                    offset: at,
                    leader_epoch: 3,
                    metadata: Some("note".to_owned()),
                }],
            }],
        }
    }

    pub fn commit(&mut self, group: &str, member: &str, generation: i32, topic: &str, at: i64) -> Token {
        let request = self.commit_request(group, member, generation, topic, at);
        self.send(Command::OffsetCommit(request))
    }

    /// The error of the first partition.
    pub fn commit_error(&self, token: Token) -> Option<GroupError> {
        match self.replies.get(&token) {
            Some(Reply::OffsetCommit(topics)) => topics[0].partitions[0].1.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn offset(&self, group: &str, topic: &str) -> Option<i64> {
        let offsets = self.shard.offsets(group).expect("served");
        offsets.get(topic, 0).map(|committed| committed.offset)
    }

    pub fn delete_groups(&mut self, groups: &[&str]) -> Token {
        let group_ids = groups.iter().map(|id| (*id).to_owned()).collect();
        self.send(Command::DeleteGroups(DeleteGroups { group_ids }))
    }

    pub fn deleted(&self, token: Token) -> Vec<Result<(), GroupError>> {
        match self.replies.get(&token) {
            Some(Reply::DeleteGroups(results)) => results.iter().map(|(_, result)| result.clone()).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub fn delete_offset(&mut self, group: &str, topic: &str) -> Token {
        let topics = vec![(topic.to_owned(), vec![0])];
        self.send(Command::OffsetDelete(OffsetDelete { group_id: group.to_owned(), topics }))
    }

    pub fn offset_deleted(&self, token: Token) -> Result<Option<GroupError>, GroupError> {
        match self.replies.get(&token) {
            Some(Reply::OffsetDelete(Ok(topics))) => Ok(topics[0].partitions[0].1.clone()),
            Some(Reply::OffsetDelete(Err(error))) => Err(error.clone()),
            other => panic!("{other:?}"),
        }
    }

    pub fn state(&self, group: &str) -> &'static str {
        self.shard.describe_group(group, 5).expect("served").state.as_str()
    }

    // Stories that many tests begin with.

    /// A stable group of `count` dynamic members; the first is the leader, each is assigned its own position.
    pub fn stable_group(&mut self, group: &str, count: usize) -> Vec<String> {
        let joins: Vec<(String, Token)> = (0..count).map(|_| self.join_new(group)).collect();
        // The initial delay, once more because further members came; short of any session time-out.
        self.wait(6_000);
        self.complete(group, &joins)
    }

    /// Every joined member syncs, the leader with an assignment for all.
    pub fn complete(&mut self, group: &str, joins: &[(String, Token)]) -> Vec<String> {
        let reply = self.joined(joins[0].1);
        assert_eq!(reply.error, None);
        let (leader, generation) = (reply.leader.to_string(), reply.generation_id);
        let plan: Vec<(String, String)> =
            joins.iter().enumerate().map(|(index, (id, _))| (id.clone(), format!("part-{index}"))).collect();
        let plan: Vec<(&str, &str)> = plan.iter().map(|(id, part)| (id.as_str(), part.as_str())).collect();
        let mut ids: Vec<String> = joins.iter().map(|(id, _)| id.clone()).collect();
        ids.sort_by_key(|id| *id != leader);
        for id in &ids {
            let assigned = if *id == leader { plan.as_slice() } else { &[] };
            let token = self.sync(group, id, generation, assigned);
            assert_eq!(self.synced(token).error, None);
        }
        assert_eq!(self.state(group), "Stable");
        ids
    }
}

/// Metadata of a consumer: ConsumerProtocolSubscription version 1 of these topics.
pub fn subscription(topics: &[&str]) -> Vec<u8> {
    let mut bytes = 1i16.to_be_bytes().to_vec();
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend((-1i32).to_be_bytes());
    bytes.extend(0i32.to_be_bytes());
    bytes
}
