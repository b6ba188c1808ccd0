//! The coordinator of all groups in one partition of `__consumer_offsets`.
//!
//! A [`Shard`] is a pure state machine: time, random bits and the results of appends come in, answers and batches to
//! append go out. Two kinds of state live in it. What records carry (offsets, the end of a group) changes when the log
//! has the record, by the same step that a replay takes. What no record carries (who is joining, whose heartbeat is due)
//! changes at once; after a restart every stable group is back with its members and each has a fresh session.
//!
//! The life of a shard: [`Shard::new`], [`Shard::replay`] of every record of the partition, [`Shard::loaded`]; then
//! [`Shard::handle`] for requests, [`Shard::append_done`] for each append it asked for, [`Shard::tick`] at
//! [`Shard::next_deadline_ms`], [`Shard::cancel`] for connections that vanish; at last [`Shard::unload`].
//!
//! `now_ms` everywhere is a clock that runs evenly ([`Usage::set_wall_ahead_ms`] tells the wall clock's time).
//!
//! Whoever holds the shard's lock takes the effects of a call to the log before the lock is let go, or queues them in that
//! order: the order of appends in the log must be the order in which the shard issued them. Their results may come later
//! and in any order.
//!
//! Not here yet: offsets committed in a transaction, which stay pending until their marker, and the groups of KIP-848.
//! Their records are told apart ([`Replayed::Ignored`], and what [`Shard::replay`] says of transactional batches).

mod append;
mod commit;
mod delete;
mod inspect;
mod join;
mod membership;
mod rebalance;
mod turn;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use weir_protocol::messages::group_records::GroupMetadataValue;

pub use self::inspect::{
    DescribedGroup, DescribedMember, GroupFilter, GroupView, ListedGroup, MemberView, OffsetsView, ShardStats,
};

use self::append::{AppendQueue, Op, PendingAppend, Then, with_error};
use self::delete::DeletedTopic;
use self::turn::Turn;
use crate::command::{
    AppendId, Command, Effects, JoinGroupReply, Notice, OffsetTopicReply, Reply, SyncGroupReply, Token,
};
use crate::config::{GroupConfig, Limits, Usage};
use crate::error::{AppendError, GroupError, ReplayError};
use crate::group::{Footprint, Group};
use crate::member::{Member, Protocol};
use crate::records::{self, Decoded, MAX_STRING_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loading,
    Active,
    Unloaded,
}

/// Counts that only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) offset_commits: u64,
    pub(crate) offset_expirations: u64,
    pub(crate) offset_deletions: u64,
    pub(crate) completed_rebalances: u64,
}

/// What became of a replayed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It is part of the state now.
    Applied,
    /// It belongs to a kind of group that is not served here.
    Ignored {
        /// Type of its key.
        key_type: i16,
    },
}

/// The coordinator of one partition's groups. See the module's text for its life.
#[derive(Debug)]
pub struct Shard {
    config: Arc<GroupConfig>,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    phase: Phase,
    /// Boxed, so that free places of the table are small.
    groups: HashMap<Arc<str>, Box<Group>>,
    /// One entry per group with a timer, not after its earliest. Heartbeats only move timers back and touch nothing here.
    wakes: BTreeSet<(i64, Arc<str>)>,
    parked: HashMap<Token, Arc<str>>,
    queue: AppendQueue,
    next_expiry_check_ms: i64,
    deleted_topics: Vec<DeletedTopic>,
    is_sweeping: bool,
    resume_sweep_ms: i64,
    counters: Counters,
    /// Bytes of all groups in `usage`.
    group_bytes: usize,
    /// Bytes of appends under way in `usage`.
    accounted_queue_bytes: usize,
}

impl Shard {
    /// An empty shard that is loading. `usage` is shared by all shards that `limits` bound together.
    pub fn new(config: Arc<GroupConfig>, limits: Arc<Limits>, usage: Arc<Usage>) -> Shard {
        Shard {
            config,
            limits,
            usage,
            phase: Phase::Loading,
            groups: HashMap::new(),
            wakes: BTreeSet::new(),
            parked: HashMap::new(),
            queue: AppendQueue::default(),
            next_expiry_check_ms: i64::MAX,
            deleted_topics: Vec::new(),
            is_sweeping: false,
            resume_sweep_ms: i64::MAX,
            counters: Counters::default(),
            group_bytes: 0,
            accounted_queue_bytes: 0,
        }
    }

    /// Replays one record of the partition, in the order of the log. Input is untrusted. Only while loading.
    ///
    /// Records of transactional batches must not come here before their transaction is known to be committed.
    ///
    /// # Errors
    /// A record that cannot be decoded changes nothing; the caller decides whether to go on. [`ReplayError::StateFull`]
    /// means that the shard cannot be served within the limits.
    pub fn replay(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Replayed, ReplayError> {
        if self.phase != Phase::Loading {
            return Err(ReplayError::NotLoading);
        }
        match records::decode(key, value)? {
            Decoded::Other(key_type) => return Ok(Replayed::Ignored { key_type }),
            Decoded::Offset { group, topic, partition, value } => {
                self.apply(Op::Offset { group, topic, partition, value }, 0);
            }
            Decoded::Group { group, value: None } => self.apply(Op::DeleteGroup { group }, 0),
            Decoded::Group { group, value: Some(value) } => self.restore_group(group, value),
        }
        let (used, limit) = (self.usage.bytes(), self.limits.state_bytes);
        if used > limit {
            return Err(ReplayError::StateFull { used, limit });
        }
        Ok(Replayed::Applied)
    }

    /// Everything is replayed: members get a fresh session, requests are served from now on.
    pub fn loaded(&mut self, now_ms: i64) -> Effects {
        let mut effects = Effects::default();
        if self.phase != Phase::Loading {
            return effects;
        }
        self.phase = Phase::Active;
        self.next_expiry_check_ms =
            now_ms.saturating_add(self.config.offsets_retention_check_interval_ms.max(1));
        let ids: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        for id in ids {
            let (groups, mut turn) = self.turn(now_ms, &mut effects);
            if let Some(group) = groups.get_mut(&id) {
                for member in group.member_ids() {
                    turn.touch(group, &member);
                }
                if group.member_count() > turn.config.group_max_size {
                    turn.prepare_rebalance(
                        group,
                        "the group was loaded with more members than group.max.size",
                    );
                }
            }
            self.settle(&id);
        }
        effects
    }

    /// Handles a request. Its answer is in the effects of this call or of a later one, exactly once.
    pub fn handle(&mut self, now_ms: i64, token: Token, command: Command) -> Effects {
        let mut effects = Effects::default();
        if let Err(error) = self.check_serving() {
            effects.replies.push((token, refusal(command, error)));
            return effects;
        }
        let size_bytes = longest_string(&command);
        if size_bytes > MAX_STRING_BYTES {
            let error = GroupError::MessageTooLarge { size_bytes, limit_bytes: MAX_STRING_BYTES };
            effects.replies.push((token, refusal(command, error)));
            return effects;
        }
        match command {
            Command::JoinGroup(request) => self.join_group(now_ms, token, request, &mut effects),
            Command::SyncGroup(request) => self.sync_group(now_ms, token, request, &mut effects),
            Command::Heartbeat(request) => self.heartbeat(now_ms, token, request, &mut effects),
            Command::LeaveGroup(request) => self.leave_group(now_ms, token, request, &mut effects),
            Command::OffsetCommit(request) => self.offset_commit(now_ms, token, request, &mut effects),
            Command::OffsetDelete(request) => self.offset_delete(now_ms, token, request, &mut effects),
            Command::DeleteGroups(request) => self.delete_groups(token, request, &mut effects),
        }
        effects
    }

    /// The result of an append: its base offset, or why it is not in the log. Results may come in any order and are
    /// applied in the order of the appends. Unknown ids are ignored.
    pub fn append_done(&mut self, now_ms: i64, id: AppendId, result: Result<i64, AppendError>) -> Effects {
        let mut effects = Effects::default();
        self.queue.set_result(id, result);
        while let Some(append) = self.queue.pop_done() {
            self.account_queue();
            self.finish(now_ms, append, &mut effects);
        }
        self.sweep(&mut effects);
        effects
    }

    /// Does what is due: sessions, rebalances, retention.
    pub fn tick(&mut self, now_ms: i64) -> Effects {
        let mut effects = Effects::default();
        if self.phase != Phase::Active {
            return effects;
        }
        while let Some((wake_ms, group_id)) = self.wakes.first().cloned() {
            if wake_ms > now_ms {
                break;
            }
            let (groups, mut turn) = self.turn(now_ms, &mut effects);
            if let Some(group) = groups.get_mut(&group_id) {
                turn.fire(group);
                self.settle(&group_id);
            } else {
                self.wakes.remove(&(wake_ms, group_id));
            }
        }
        if now_ms >= self.resume_sweep_ms {
            self.resume_sweep_ms = i64::MAX;
            self.sweep(&mut effects);
        }
        if now_ms >= self.next_expiry_check_ms {
            self.expire(now_ms, &mut effects);
        }
        effects
    }

    /// When [`Shard::tick`] must be called at the latest; `None` if there is nothing to wait for.
    pub fn next_deadline_ms(&self) -> Option<i64> {
        if self.phase != Phase::Active {
            return None;
        }
        let wake_ms = self.wakes.first().map_or(i64::MAX, |(wake_ms, _)| *wake_ms);
        Some(wake_ms.min(self.next_expiry_check_ms).min(self.resume_sweep_ms))
            .filter(|next_ms| *next_ms != i64::MAX)
    }

    /// The partition is no longer led here: every waiting request is answered NOT_COORDINATOR and all state is dropped.
    pub fn unload(&mut self) -> Effects {
        let mut effects = Effects::default();
        self.phase = Phase::Unloaded;
        for group in self.groups.values() {
            for member in group.members() {
                if let Some(token) = member.awaiting_join {
                    let reply = JoinGroupReply::refused(Arc::clone(&member.id), GroupError::NotCoordinator);
                    effects.replies.push((token, Reply::JoinGroup(reply)));
                }
                if let Some(token) = member.awaiting_sync {
                    let reply = Reply::SyncGroup(SyncGroupReply::refused(GroupError::NotCoordinator));
                    effects.replies.push((token, reply));
                }
            }
        }
        for append in self.queue.drain() {
            if let Some((token, reply)) = append.reply {
                effects.replies.push((token, with_error(reply, &GroupError::NotCoordinator)));
            }
            if let Then::Delete(job) = append.then
                && let Some(token) = job.token
            {
                let reply = with_error(Reply::DeleteGroups(job.results), &GroupError::NotCoordinator);
                effects.replies.push((token, reply));
            }
        }
        self.account_queue();
        self.drop_groups();
        effects
    }

    /// Bytes of state that this shard holds, appends under way included.
    pub fn memory_bytes(&self) -> usize {
        self.group_bytes + self.accounted_queue_bytes
    }

    /// The bytes counted anew from the state itself, which takes time in proportion to it. For tests and checks:
    /// [`Shard::memory_bytes`] must equal it after every call.
    pub fn recount_memory_bytes(&self) -> usize {
        self.groups.values().map(|group| group.recount().bytes).sum::<usize>() + self.queue.bytes()
    }

    /// Whether every derived count equals what it is derived from. For tests and checks.
    pub fn is_consistent(&self) -> bool {
        let parked: usize = self
            .groups
            .values()
            .flat_map(|group| group.members())
            .map(|member| {
                usize::from(member.awaiting_join.is_some()) + usize::from(member.awaiting_sync.is_some())
            })
            .sum();
        self.groups.values().all(|group| group.is_consistent() && group.settled == group.footprint())
            && self.groups.values().all(|group| {
                group.registered_wake_ms == i64::MAX
                    || self.wakes.contains(&(group.registered_wake_ms, Arc::clone(&group.id)))
            })
            && parked == self.parked.len()
            && self.memory_bytes() == self.recount_memory_bytes()
    }

    fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    fn check_serving(&self) -> Result<(), GroupError> {
        match self.phase {
            Phase::Active => Ok(()),
            Phase::Loading => Err(GroupError::CoordinatorLoadInProgress),
            Phase::Unloaded => Err(GroupError::NotCoordinator),
        }
    }

    /// The groups, and everything else that changes with them.
    fn turn<'a>(
        &'a mut self,
        now_ms: i64,
        effects: &'a mut Effects,
    ) -> (&'a mut HashMap<Arc<str>, Box<Group>>, Turn<'a>) {
        let turn = Turn {
            now_ms,
            config: &self.config,
            limits: &self.limits,
            usage: &self.usage,
            queue: &mut self.queue,
            parked: &mut self.parked,
            counters: &mut self.counters,
            effects,
        };
        (&mut self.groups, turn)
    }

    /// Brings the shared account and the timers up to date with a group that may have changed; drops it if nothing is
    /// left of it. To be called after every change.
    fn settle(&mut self, group_id: &Arc<str>) {
        self.account_queue();
        let Some(group) = self.groups.get_mut(group_id) else { return };
        let is_vacant = group.is_vacant();
        let now = if is_vacant { Footprint::default() } else { group.footprint() };
        let before = std::mem::replace(&mut group.settled, now);
        let wake_ms = if is_vacant { i64::MAX } else { group.wake_ms };
        let registered_ms = std::mem::replace(&mut group.registered_wake_ms, wake_ms);
        if registered_ms != wake_ms {
            if registered_ms != i64::MAX {
                self.wakes.remove(&(registered_ms, Arc::clone(group_id)));
            }
            if wake_ms != i64::MAX {
                self.wakes.insert((wake_ms, Arc::clone(group_id)));
            }
        }
        if is_vacant {
            self.groups.remove(group_id);
            give_back(&mut self.groups);
        }
        give_back(&mut self.parked);
        self.account(before, now);
    }

    fn account(&mut self, before: Footprint, now: Footprint) {
        self.group_bytes = self.group_bytes + now.bytes - before.bytes;
        Usage::shift(&self.usage.bytes, before.bytes, now.bytes);
        Usage::shift(&self.usage.members, before.members, now.members);
        Usage::shift(&self.usage.pending_members, before.pending_members, now.pending_members);
        Usage::shift(&self.usage.offsets, before.offsets, now.offsets);
        // A group that is held has bytes.
        Usage::shift(&self.usage.groups, usize::from(before.bytes > 0), usize::from(now.bytes > 0));
    }

    fn account_queue(&mut self) {
        let before = std::mem::replace(&mut self.accounted_queue_bytes, self.queue.bytes());
        Usage::shift(&self.usage.bytes, before, self.accounted_queue_bytes);
    }

    fn drop_groups(&mut self) {
        let settled: Vec<Footprint> = self.groups.drain().map(|(_, group)| group.settled).collect();
        for before in settled {
            self.account(before, Footprint::default());
        }
        self.wakes.clear();
        self.parked.clear();
        self.deleted_topics.clear();
    }

    /// The one step that changes what records carry.
    fn apply(&mut self, op: Op, wall_ms: i64) {
        let group_id = Arc::clone(op.group());
        match op {
            Op::Offset { group, topic, partition, value: Some(value) } => {
                let group = self
                    .groups
                    .entry(Arc::clone(&group))
                    .or_insert_with(|| Box::new(Group::new(group, wall_ms)));
                group.has_records = true;
                group.offsets.put(&topic, partition, value);
            }
            Op::Offset { group, topic, partition, value: None } => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.offsets.remove(&topic, partition);
                }
            }
            Op::DeleteGroup { group } => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.become_simple(wall_ms);
                    group.has_records = !group.offsets.is_empty();
                }
            }
        }
        self.settle(&group_id);
    }

    fn restore_group(&mut self, group_id: Arc<str>, value: GroupMetadataValue) {
        let group = self
            .groups
            .entry(Arc::clone(&group_id))
            .or_insert_with(|| Box::new(Group::new(Arc::clone(&group_id), 0)));
        let protocol_name: Option<Arc<str>> = value.protocol.map(Arc::from);
        let state_since_ms = (value.current_state_timestamp != -1).then_some(value.current_state_timestamp);
        group.restore(
            value.generation,
            Some(value.protocol_type).filter(|name| !name.is_empty()).map(Arc::from),
            protocol_name.clone(),
            state_since_ms,
            !value.members.is_empty(),
        );
        for member in value.members {
            let name = protocol_name.clone().unwrap_or_else(|| Arc::from(""));
            let protocol = Protocol { name, metadata: Arc::from(member.subscription) };
            let id: Arc<str> = Arc::from(member.member_id);
            let instance_id: Option<Arc<str>> = member.group_instance_id.map(Arc::from);
            // No coordinator writes a member twice; a damaged record must not upset the counts.
            let is_known = group.has_member(&id)
                || instance_id.as_deref().is_some_and(|instance| group.static_member_id(instance).is_some());
            if is_known {
                continue;
            }
            group.add_member(Member {
                id,
                instance_id,
                client_id: Arc::from(member.client_id),
                client_host: Arc::from(member.client_host),
                rebalance_timeout_ms: if member.rebalance_timeout == -1 {
                    member.session_timeout
                } else {
                    member.rebalance_timeout
                },
                session_timeout_ms: member.session_timeout,
                protocols: vec![protocol],
                assignment: Arc::from(member.assignment),
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
                is_anonymous: false,
                pending_sync: false,
                session_deadline_ms: None,
            });
        }
        group.restore_leader(value.leader.map(Arc::from));
        self.settle(&group_id);
    }

    /// The append is in the log, or is not: changes, answers, what comes next.
    fn finish(&mut self, now_ms: i64, append: PendingAppend, effects: &mut Effects) {
        let error = append.result.and_then(Result::err);
        if let Some(error) = error {
            effects.notices.push(Notice::AppendFailed { id: append.id, error });
        }
        for group_id in &append.groups {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.appends_in_flight = group.appends_in_flight.saturating_sub(1);
            }
        }
        if error.is_none() {
            for op in append.ops {
                if matches!(op, Op::Offset { value: Some(_), .. }) {
                    self.counters.offset_commits += 1;
                }
                self.apply(op, self.usage.wall_ms(now_ms));
            }
        }
        match append.then {
            Then::Nothing => {}
            Then::Delete(job) => self.deletion_done(job, error, effects),
            Then::Sweep => self.sweep_done(now_ms, error.is_some(), effects),
            Then::Assign { group, generation, assignments } => {
                let (groups, mut turn) = self.turn(now_ms, effects);
                if let Some(group) = groups.get_mut(&group) {
                    let error = error.map(AppendError::to_group_error);
                    turn.assignment_written(group, generation, assignments, error);
                }
            }
            Then::Replaced(replaced) => {
                let (groups, mut turn) = self.turn(now_ms, effects);
                if let Some(group) = groups.get_mut(&replaced.group) {
                    let error = error.map(AppendError::to_group_error);
                    turn.static_member_replaced(group, *replaced, error);
                }
            }
        }
        for group_id in &append.groups {
            self.settle(group_id);
        }
        if let Some((token, reply)) = append.reply {
            let reply = match error {
                Some(error) => with_error(reply, &error.to_group_error()),
                None => reply,
            };
            effects.replies.push((token, reply));
        }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.queue.drain().for_each(drop);
        self.account_queue();
        self.drop_groups();
    }
}

/// A table that has become nearly empty is made smaller; charges count on tables of a fitting size.
fn give_back<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > 64 && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}

/// The answer to a request that is not looked at.
fn refusal(command: Command, error: GroupError) -> Reply {
    match command {
        Command::JoinGroup(request) => Reply::JoinGroup(JoinGroupReply::refused(request.member_id, error)),
        Command::SyncGroup(_) => Reply::SyncGroup(SyncGroupReply::refused(error)),
        // A member must not give up because its coordinator is only loading.
        Command::Heartbeat(_) if error == GroupError::CoordinatorLoadInProgress => Reply::Heartbeat(Ok(())),
        Command::Heartbeat(_) => Reply::Heartbeat(Err(error)),
        Command::LeaveGroup(_) => Reply::LeaveGroup(Err(error)),
        Command::OffsetCommit(request) => {
            let topics = request.topics.into_iter().map(|topic| OffsetTopicReply {
                topic: topic.topic,
                partitions: topic.partitions.iter().map(|it| (it.partition, Some(error.clone()))).collect(),
            });
            Reply::OffsetCommit(topics.collect())
        }
        Command::OffsetDelete(_) => Reply::OffsetDelete(Err(error)),
        Command::DeleteGroups(request) => {
            Reply::DeleteGroups(request.group_ids.into_iter().map(|id| (id, Err(error.clone()))).collect())
        }
    }
}

/// The longest string that a record made of the command would hold, in bytes.
fn longest_string(command: &Command) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match command {
        Command::JoinGroup(request) => [
            request.group_id.len(),
            request.member_id.len(),
            optional(&request.group_instance_id),
            request.client_id.len(),
            request.client_host.len(),
            request.protocol_type.len(),
        ]
        .into_iter()
        .chain(request.protocols.iter().map(|(name, _)| name.len()))
        .max()
        .unwrap_or(0),
        Command::OffsetCommit(request) => {
            let topics = request.topics.iter().flat_map(|topic| {
                let metadata = topic.partitions.iter().map(|partition| optional(&partition.metadata));
                metadata.chain([topic.topic.len()])
            });
            topics.chain([request.group_id.len()]).max().unwrap_or(0)
        }
        Command::OffsetDelete(request) => {
            request.topics.iter().map(|(topic, _)| topic.len()).max().unwrap_or(0)
        }
        Command::SyncGroup(_) | Command::Heartbeat(_) | Command::LeaveGroup(_) | Command::DeleteGroups(_) => {
            0
        }
    }
}
