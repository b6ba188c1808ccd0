//! Appends on their way to the log: what each will change once it is there, and who waits for it.
//!
//! State that records carry changes only here, when the log has them, by the same [`Op`]s that a replay makes of the
//! records. Results may come in any order; they are applied in the order of the appends.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::command::{Append, AppendId, CoordinatorRecord, Effects, Reply, Token};
use crate::error::{AppendError, GroupError};
use crate::member::Member;
use crate::offsets::{CommittedOffset, topic_charge_bytes};

/// What one record changes.
#[derive(Debug)]
pub(crate) enum Op {
    /// Sets an offset, or removes it.
    Offset { group: Arc<str>, topic: Arc<str>, partition: i32, value: Option<CommittedOffset> },
    /// Removes a group.
    DeleteGroup { group: Arc<str> },
}

impl Op {
    pub(crate) fn group(&self) -> &Arc<str> {
        match self {
            Op::Offset { group, .. } | Op::DeleteGroup { group } => group,
        }
    }

    fn charge_bytes(&self) -> usize {
        size_of::<Op>()
            + match self {
                Op::Offset { topic, value, .. } => {
                    topic_charge_bytes(topic) + value.as_ref().map_or(0, CommittedOffset::charge_bytes)
                }
                Op::DeleteGroup { .. } => 0,
            }
    }
}

/// What happens to a group's volatile state when the append is done, besides its [`Op`]s.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    /// The assignment of this generation is in the log: hand it out.
    Assign {
        group: Arc<str>,
        generation: i32,
        assignments: Vec<(Arc<str>, Arc<[u8]>)>,
    },
    /// A static member has a new id in the log: answer its JoinGroup; or put the old member back.
    Replaced(Box<Replaced>),
    /// Go on deleting groups.
    Delete(DeleteJob),
    /// Go on removing the offsets of deleted topics.
    Sweep,
}

#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) group: Arc<str>,
    pub(crate) generation: i32,
    pub(crate) old: Member,
    pub(crate) new_id: Arc<str>,
    /// The leader before; clients before v9 must not see themselves as the leader.
    pub(crate) old_leader: Arc<str>,
    pub(crate) can_skip_assignment: bool,
}

/// Groups that are being deleted, some records at a time.
#[derive(Debug)]
pub(crate) struct DeleteJob {
    pub(crate) token: Option<Token>,
    /// Results so far and of those to come, in the order of the request.
    pub(crate) results: Vec<(String, Result<(), GroupError>)>,
    /// Groups whose tombstones are not all issued.
    pub(crate) remaining: VecDeque<Arc<str>>,
    /// Groups whose last tombstone is in the append under way.
    pub(crate) finishing: Vec<Arc<str>>,
}

#[derive(Debug)]
pub(crate) struct PendingAppend {
    pub(crate) id: AppendId,
    pub(crate) ops: Vec<Op>,
    pub(crate) then: Then,
    /// Sent when the append is done, with an error in it if it failed.
    pub(crate) reply: Option<(Token, Reply)>,
    /// Groups that have this append in flight.
    pub(crate) groups: Vec<Arc<str>>,
    pub(crate) result: Option<Result<i64, AppendError>>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct AppendQueue {
    next_id: u64,
    pending: VecDeque<PendingAppend>,
    bytes: usize,
    offset_ops: usize,
}

impl AppendQueue {
    /// Bytes of everything under way.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Offsets that are set by appends under way.
    pub(crate) fn offset_ops(&self) -> usize {
        self.offset_ops
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Issues an append. `groups` are counted as having it in flight by the caller.
    pub(crate) fn push(
        &mut self,
        records: Vec<CoordinatorRecord>,
        ops: Vec<Op>,
        then: Then,
        groups: Vec<Arc<str>>,
        effects: &mut Effects,
    ) -> AppendId {
        let id = AppendId(self.next_id);
        self.next_id += 1;
        let assignments: usize = match &then {
            Then::Assign { assignments, .. } => {
                assignments.iter().map(|(id, bytes)| 64 + id.len() + bytes.len()).sum()
            }
            Then::Replaced(replaced) => replaced.old.charge_bytes(),
            Then::Delete(job) => job.results.iter().map(|(id, _)| 128 + id.len()).sum(),
            Then::Nothing | Then::Sweep => 0,
        };
        let bytes =
            size_of::<PendingAppend>() + assignments + ops.iter().map(Op::charge_bytes).sum::<usize>();
        self.bytes += bytes;
        self.offset_ops += count_offset_ops(&ops);
        self.pending.push_back(PendingAppend { id, ops, then, reply: None, groups, result: None, bytes });
        effects.appends.push(Append { id, records });
        id
    }

    /// The reply that waits for the append. False if there is no such append.
    pub(crate) fn attach_reply(&mut self, id: AppendId, token: Token, reply: Reply) -> bool {
        match self.pending.iter_mut().rev().find(|append| append.id == id) {
            Some(append) => {
                append.reply = Some((token, reply));
                true
            }
            None => false,
        }
    }

    pub(crate) fn set_result(&mut self, id: AppendId, result: Result<i64, AppendError>) {
        if let Some(append) = self.pending.iter_mut().find(|append| append.id == id) {
            append.result.get_or_insert(result);
        }
    }

    /// The oldest append, if its result is known.
    pub(crate) fn pop_done(&mut self) -> Option<PendingAppend> {
        self.pending.front().filter(|append| append.result.is_some())?;
        let append = self.pending.pop_front()?;
        if self.pending.is_empty() {
            self.pending.shrink_to(16);
        }
        self.bytes -= append.bytes;
        self.offset_ops -= count_offset_ops(&append.ops);
        Some(append)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = PendingAppend> {
        self.bytes = 0;
        self.offset_ops = 0;
        self.pending.drain(..)
    }
}

fn count_offset_ops(ops: &[Op]) -> usize {
    ops.iter().filter(|op| matches!(op, Op::Offset { value: Some(_), .. })).count()
}

/// The reply with everything that would have succeeded turned into the error.
pub(crate) fn with_error(reply: Reply, error: &GroupError) -> Reply {
    match reply {
        Reply::OffsetCommit(mut topics) => {
            for (_, result) in topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                result.get_or_insert_with(|| error.clone());
            }
            Reply::OffsetCommit(topics)
        }
        Reply::OffsetDelete(_) => Reply::OffsetDelete(Err(error.clone())),
        Reply::LeaveGroup(_) => Reply::LeaveGroup(Err(error.clone())),
        Reply::Heartbeat(_) => Reply::Heartbeat(Err(error.clone())),
        Reply::DeleteGroups(mut results) => {
            for (_, result) in &mut results {
                if result.is_ok() {
                    *result = Err(error.clone());
                }
            }
            Reply::DeleteGroups(results)
        }
        other @ (Reply::JoinGroup(_) | Reply::SyncGroup(_)) => other,
    }
}
