//! One turn of the state machine: the moment, the rules, and what comes of it, passed along while a group changes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::command::{
    AppendId, CoordinatorRecord, Effects, JoinGroupReply, Missed, Notice, Reply, SyncGroupReply, Token,
};
use crate::config::{GroupConfig, Limits, Usage};
use crate::error::{GroupError, Unavailable};
use crate::group::Group;
use crate::member::Member;
use crate::records;
use crate::shard::Counters;
use crate::shard::append::{AppendQueue, Op, Then};

pub(crate) struct Turn<'a> {
    pub(crate) now_ms: i64,
    pub(crate) config: &'a GroupConfig,
    pub(crate) limits: &'a Limits,
    pub(crate) usage: &'a Usage,
    pub(crate) queue: &'a mut AppendQueue,
    /// Which group a parked request waits in.
    pub(crate) parked: &'a mut HashMap<Token, Arc<str>>,
    pub(crate) counters: &'a mut Counters,
    pub(crate) effects: &'a mut Effects,
}

impl Turn<'_> {
    /// The wall clock, for what is stored.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.usage.wall_ms(self.now_ms)
    }

    pub(crate) fn after(&self, milliseconds: i32) -> i64 {
        self.now_ms.saturating_add(i64::from(milliseconds.max(0)))
    }

    pub(crate) fn reply(&mut self, token: Token, reply: Reply) {
        self.parked.remove(&token);
        self.effects.replies.push((token, reply));
    }

    pub(crate) fn reply_join(&mut self, token: Token, reply: JoinGroupReply) {
        self.reply(token, Reply::JoinGroup(reply));
    }

    pub(crate) fn refuse_sync(&mut self, token: Token, error: GroupError) {
        self.reply(token, Reply::SyncGroup(SyncGroupReply::refused(error)));
    }

    /// Parks a JoinGroup; an older one of the same member is answered so that it does not wait for ever.
    pub(crate) fn park_join(&mut self, group: &mut Group, member_id: &str, token: Token) {
        self.parked.insert(token, Arc::clone(&group.id));
        if let Some(replaced) = group.park_join(member_id, token) {
            self.reply_join(replaced, JoinGroupReply::refused(member_id, GroupError::RebalanceInProgress));
        }
    }

    /// As [`Turn::park_join`], for SyncGroup.
    pub(crate) fn park_sync(&mut self, group: &mut Group, member_id: &str, token: Token) {
        self.parked.insert(token, Arc::clone(&group.id));
        if let Some(replaced) = group.park_sync(member_id, token) {
            self.refuse_sync(replaced, GroupError::RebalanceInProgress);
        }
    }

    /// Answers the JoinGroup that the member waits in, if there is one.
    pub(crate) fn release_join(&mut self, group: &mut Group, member_id: &str, reply: JoinGroupReply) {
        if let Some(token) = group.take_join(member_id) {
            self.reply_join(token, reply);
        }
    }

    /// Answers the SyncGroup that the member waits in, if there is one.
    pub(crate) fn release_sync(&mut self, group: &mut Group, member_id: &str, reply: SyncGroupReply) -> bool {
        match group.take_sync(member_id) {
            Some(token) => {
                self.reply(token, Reply::SyncGroup(reply));
                true
            }
            None => false,
        }
    }

    /// The member's session runs anew.
    pub(crate) fn touch(&mut self, group: &mut Group, member_id: &str) {
        if let Some(timeout) = group.member(member_id).map(|member| member.session_timeout_ms) {
            let deadline = self.after(timeout);
            group.set_session_deadline(member_id, Some(deadline));
        }
    }

    pub(crate) fn expired(&mut self, group: &Group, member_id: &Arc<str>, missed: Missed) {
        self.effects.notices.push(Notice::MemberExpired {
            group_id: Arc::clone(&group.id),
            member_id: Arc::clone(member_id),
            missed,
        });
    }

    /// Refuses with a limit, and says so to the operator.
    pub(crate) fn limit(&mut self, group_id: &Arc<str>, limit: Unavailable) -> GroupError {
        self.effects.notices.push(Notice::LimitReached { group_id: Arc::clone(group_id), limit });
        GroupError::unavailable(limit)
    }

    /// Whether this much more state may be held.
    pub(crate) fn admit_bytes(&mut self, group_id: &Arc<str>, more: usize) -> Result<(), GroupError> {
        let limit = self.limits.state_bytes;
        if self.usage.bytes().saturating_add(more) > limit {
            return Err(self.limit(group_id, Unavailable::StateBytes { limit }));
        }
        Ok(())
    }

    /// The group's record, unless it would be larger than a batch may be.
    pub(crate) fn group_record(
        &self,
        group: &Group,
        assignments_bytes: usize,
        assignment_of: impl Fn(&Member) -> Arc<[u8]>,
    ) -> Result<CoordinatorRecord, GroupError> {
        if records::group_metadata_size(group) + assignments_bytes > self.config.max_append_bytes {
            return Err(GroupError::UnknownServerError);
        }
        records::group_metadata(group, assignment_of)
    }

    /// Appends records of one group.
    pub(crate) fn append(
        &mut self,
        group: &mut Group,
        records: Vec<CoordinatorRecord>,
        ops: Vec<Op>,
        then: Then,
    ) -> AppendId {
        group.appends_in_flight += 1;
        group.has_records = true;
        let groups = vec![Arc::clone(&group.id)];
        self.queue.push(records, ops, then, groups, self.effects)
    }
}
