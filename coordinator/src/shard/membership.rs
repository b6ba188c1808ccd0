//! What members of a formed generation say: SyncGroup, Heartbeat, LeaveGroup; and connections that vanish.

use std::collections::HashMap;
use std::sync::Arc;

use crate::command::{
    Effects, Heartbeat, LeaveGroup, LeaveGroupMemberReply, LeavingMember, Missed, Reply, SyncGroup, Token,
};
use crate::error::{GroupError, Unavailable};
use crate::group::{Group, GroupState};
use crate::shard::Shard;
use crate::shard::append::Then;
use crate::shard::join::reason_text;
use crate::shard::turn::Turn;

impl Shard {
    pub(crate) fn sync_group(
        &mut self,
        now_ms: i64,
        token: Token,
        request: SyncGroup,
        effects: &mut Effects,
    ) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        if request.group_id.is_empty() {
            return turn.refuse_sync(token, GroupError::InvalidGroupId);
        }
        let Some(group) = groups.get_mut(request.group_id.as_str()) else {
            return turn.refuse_sync(token, GroupError::UnknownMemberId);
        };
        turn.sync(group, token, request);
        let group_id = Arc::clone(&group.id);
        self.settle(&group_id);
    }

    pub(crate) fn heartbeat(&mut self, now_ms: i64, token: Token, request: Heartbeat, effects: &mut Effects) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        if request.group_id.is_empty() {
            return turn.reply(token, Reply::Heartbeat(Err(GroupError::InvalidGroupId)));
        }
        let Some(group) = groups.get_mut(request.group_id.as_str()) else {
            return turn.reply(token, Reply::Heartbeat(Err(GroupError::UnknownMemberId)));
        };
        let result = turn.beat(group, &request);
        turn.reply(token, Reply::Heartbeat(result));
        if group.wake_ms < group.registered_wake_ms {
            let group_id = Arc::clone(&group.id);
            self.settle(&group_id);
        }
    }

    pub(crate) fn leave_group(
        &mut self,
        now_ms: i64,
        token: Token,
        request: LeaveGroup,
        effects: &mut Effects,
    ) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        if request.group_id.is_empty() {
            return turn.reply(token, Reply::LeaveGroup(Err(GroupError::InvalidGroupId)));
        }
        let Some(group) = groups.get_mut(request.group_id.as_str()) else {
            let all =
                request.members.into_iter().map(|member| answer(member, Some(GroupError::UnknownMemberId)));
            return turn.reply(token, Reply::LeaveGroup(Ok(all.collect())));
        };
        turn.leave(group, token, request.members);
        let group_id = Arc::clone(&group.id);
        self.settle(&group_id);
    }

    /// The connection of a waiting request is gone. Nothing happens if the token does not wait.
    ///
    /// A member that never learnt its id leaves the group with its connection. Others keep their place for one session
    /// time-out, in which the client can come back.
    pub fn cancel(&mut self, now_ms: i64, token: Token) -> Effects {
        let mut effects = Effects::default();
        let (groups, mut turn) = self.turn(now_ms, &mut effects);
        let Some(group_id) = turn.parked.remove(&token) else { return effects };
        let Some(group) = groups.get_mut(&group_id) else { return effects };
        let waits = |waiting: Option<Token>| waiting == Some(token);
        let found = group.members().find(|member| waits(member.awaiting_join) || waits(member.awaiting_sync));
        if let Some(member) = found {
            let id = Arc::clone(&member.id);
            if waits(member.awaiting_sync) {
                group.take_sync(&id);
                turn.touch(group, &id);
            } else if member.is_anonymous && !member.is_static() {
                group.take_join(&id);
                turn.expired(group, &id, Missed::Rejoin);
                turn.remove_member(
                    group,
                    &id,
                    &format!("member {id} never learnt its id and its connection is gone"),
                );
            } else {
                group.take_join(&id);
                turn.touch(group, &id);
            }
        }
        self.settle(&group_id);
        effects
    }
}

fn answer(member: LeavingMember, error: Option<GroupError>) -> LeaveGroupMemberReply {
    LeaveGroupMemberReply { member_id: member.member_id, group_instance_id: member.group_instance_id, error }
}

impl Turn<'_> {
    fn sync(&mut self, group: &mut Group, token: Token, request: SyncGroup) {
        match group.state() {
            GroupState::Empty => return self.refuse_sync(token, GroupError::UnknownMemberId),
            GroupState::Dead => {
                return self.refuse_sync(token, GroupError::unavailable(Unavailable::GroupIsBeingDeleted));
            }
            _ => {}
        }
        if let Err(error) = validate_sync(group, &request) {
            return self.refuse_sync(token, error);
        }
        let member_id = &request.member_id;
        match group.state() {
            GroupState::PreparingRebalance => self.refuse_sync(token, GroupError::RebalanceInProgress),
            GroupState::CompletingRebalance => {
                group.clear_pending_sync(member_id);
                self.park_sync(group, member_id, token);
                // A leader that asks again while its assignment is on the way to the log only waits.
                if group.is_leader(member_id) && group.sync_in_flight != Some(group.generation) {
                    self.store_assignment(group, request.assignments);
                }
            }
            _ => {
                group.clear_pending_sync(member_id);
                let reply = self.current_assignment(group, member_id);
                self.reply(token, Reply::SyncGroup(reply));
            }
        }
    }

    /// Members that the leader left out get nothing; ids that it made up are ignored.
    fn store_assignment(&mut self, group: &mut Group, assignments: Vec<(String, Vec<u8>)>) {
        let generation = group.generation;
        let mut by_member: HashMap<String, Vec<u8>> =
            assignments.into_iter().filter(|(id, _)| group.has_member(id)).collect();
        let assignments: Vec<(Arc<str>, Arc<[u8]>)> = group
            .members()
            .map(|member| {
                (Arc::clone(&member.id), Arc::from(by_member.remove(&*member.id).unwrap_or_default()))
            })
            .collect();
        let size_bytes: usize = assignments.iter().map(|(_, assignment)| assignment.len()).sum();
        if let Err(error) = self.admit_bytes(&group.id, size_bytes) {
            return self.assignment_written(group, generation, Vec::new(), Some(error));
        }
        let of: HashMap<&str, &Arc<[u8]>> = assignments.iter().map(|(id, bytes)| (&**id, bytes)).collect();
        let record = self.group_record(group, size_bytes, |member| {
            of.get(&*member.id).map_or_else(|| Arc::from([]), |bytes| Arc::clone(bytes))
        });
        let record = match record {
            Ok(record) => record,
            Err(error) => return self.assignment_written(group, generation, Vec::new(), Some(error)),
        };
        group.sync_in_flight = Some(generation);
        let then = Then::Assign { group: Arc::clone(&group.id), generation, assignments };
        self.append(group, vec![record], Vec::new(), then);
    }

    fn beat(&mut self, group: &mut Group, request: &Heartbeat) -> Result<(), GroupError> {
        if group.is_in(GroupState::Dead) {
            return Err(GroupError::unavailable(Unavailable::GroupIsBeingDeleted));
        }
        group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != group.generation {
            return Err(GroupError::IllegalGeneration {
                given: request.generation_id,
                current: group.generation,
            });
        }
        self.touch(group, &request.member_id);
        match group.state() {
            GroupState::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
            GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMemberId),
        }
    }

    fn leave(&mut self, group: &mut Group, token: Token, members: Vec<LeavingMember>) {
        if group.is_in(GroupState::Dead) {
            let error = GroupError::unavailable(Unavailable::GroupIsBeingDeleted);
            return self.reply(token, Reply::LeaveGroup(Err(error)));
        }
        let mut results = Vec::new();
        let mut why = None;
        for member in members {
            let error = match self.leave_one(group, &member) {
                Ok(()) => {
                    why.get_or_insert_with(|| {
                        format!(
                            "{} left; client reason: {}",
                            member.member_id,
                            reason_text(member.reason.as_deref())
                        )
                    });
                    None
                }
                Err(error) => Some(error),
            };
            results.push(answer(member, error));
        }
        let append = why.and_then(|reason| self.after_removal(group, &reason));
        let reply = Reply::LeaveGroup(Ok(results));
        match append {
            Some(id) => {
                // The answer waits until the log knows that the group is empty.
                self.queue.attach_reply(id, token, reply);
            }
            None => self.reply(token, reply),
        }
    }

    fn leave_one(&mut self, group: &mut Group, member: &LeavingMember) -> Result<(), GroupError> {
        if member.member_id.is_empty() {
            // An administrator names a static member by its instance id alone.
            let instance = member.group_instance_id.as_deref().ok_or(GroupError::UnknownMemberId)?;
            let id = group.static_member_id(instance).cloned().ok_or(GroupError::UnknownMemberId)?;
            self.drop_member(group, &id);
            return Ok(());
        }
        if group.remove_pending_member(&member.member_id) {
            return Ok(());
        }
        group.validate_member(&member.member_id, member.group_instance_id.as_deref())?;
        self.drop_member(group, &member.member_id);
        Ok(())
    }
}

fn validate_sync(group: &Group, request: &SyncGroup) -> Result<(), GroupError> {
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    if request.generation_id != group.generation {
        return Err(GroupError::IllegalGeneration {
            given: request.generation_id,
            current: group.generation,
        });
    }
    let differs = |given: Option<&str>, known: Option<&Arc<str>>| match (given, known) {
        (Some(given), Some(known)) => *given != **known,
        _ => false,
    };
    if differs(request.protocol_type.as_deref(), group.protocol_type())
        || differs(request.protocol_name.as_deref(), group.protocol_name())
    {
        return Err(GroupError::InconsistentGroupProtocol);
    }
    Ok(())
}
