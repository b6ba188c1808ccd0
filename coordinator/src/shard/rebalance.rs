//! The course of a rebalance: members join, a generation forms, the leader assigns, timers cut the waiting short.

use std::sync::Arc;

use crate::command::{AppendId, JoinGroupReply, Missed, Notice, SyncGroupReply};
use crate::error::GroupError;
use crate::group::{Due, Group, GroupState, JoinTimer};
use crate::records;
use crate::shard::append::Then;
use crate::shard::turn::Turn;

/// Shortest pause between two looks at a group in which nobody has joined.
const MIN_PAUSE_MS: i32 = 1_000;

impl Turn<'_> {
    pub(crate) fn rebalance_or_complete_join(&mut self, group: &mut Group, reason: &str) -> Option<AppendId> {
        if group.can_rebalance() {
            self.begin_rebalance(group, reason)
        } else {
            self.maybe_complete_join(group)
        }
    }

    pub(crate) fn prepare_rebalance(&mut self, group: &mut Group, reason: &str) {
        self.begin_rebalance(group, reason);
    }

    /// The append, if the group turned out to be empty.
    pub(crate) fn begin_rebalance(&mut self, group: &mut Group, reason: &str) -> Option<AppendId> {
        if group.is_in(GroupState::CompletingRebalance) {
            self.refuse_assignment(group, &GroupError::RebalanceInProgress);
        }
        group.clear_all_pending_sync();
        let is_initial = group.is_in(GroupState::Empty);
        if is_initial {
            let delay_ms = self.config.initial_rebalance_delay_ms.max(0);
            let remaining_ms = (group.rebalance_timeout_ms() - delay_ms).max(0);
            group.set_join_timer(JoinTimer {
                deadline_ms: self.after(delay_ms),
                initial: Some((delay_ms, remaining_ms)),
            });
        }
        group.transition_to(GroupState::PreparingRebalance, self.wall_ms());
        self.effects.notices.push(Notice::PreparingRebalance {
            group_id: Arc::clone(&group.id),
            generation_id: group.generation,
            reason: reason.to_owned(),
        });
        if is_initial {
            return None;
        }
        if group.has_all_members_joined() {
            return self.complete_join(group);
        }
        self.start_join_timer(group);
        None
    }

    fn start_join_timer(&mut self, group: &mut Group) {
        let deadline_ms = self.after(group.rebalance_timeout_ms());
        group.set_join_timer(JoinTimer { deadline_ms, initial: None });
    }

    /// Ends the join phase if everybody is there. The first one of an empty group ends by its timer only.
    pub(crate) fn maybe_complete_join(&mut self, group: &mut Group) -> Option<AppendId> {
        if !group.is_in(GroupState::PreparingRebalance)
            || group.is_initial_rebalance()
            || !group.has_all_members_joined()
        {
            return None;
        }
        self.complete_join(group)
    }

    /// Forms the next generation of those who have joined. Static members stay in it even if they have not.
    pub(crate) fn complete_join(&mut self, group: &mut Group) -> Option<AppendId> {
        group.cancel_join_timer();
        let absent: Vec<Arc<str>> = group
            .members()
            .filter(|member| member.awaiting_join.is_none() && !member.is_static())
            .map(|member| Arc::clone(&member.id))
            .collect();
        for id in absent {
            group.remove_member(&id);
            self.expired(group, &id, Missed::Rejoin);
        }
        if group.member_count() > 0 && !group.elect_joined_leader() {
            // Only static members that have not rejoined are left: their sessions decide. The pause keeps a group that
            // asked for no rebalance time-out at all from being looked at without end.
            let deadline_ms = self.after(group.rebalance_timeout_ms().max(MIN_PAUSE_MS));
            group.set_join_timer(JoinTimer { deadline_ms, initial: None });
            return None;
        }
        group.init_next_generation(self.wall_ms());
        if group.is_in(GroupState::Empty) {
            self.effects
                .notices
                .push(Notice::Empty { group_id: Arc::clone(&group.id), generation_id: group.generation });
            // A failed append leaves the last generation in the log; its members would time out after a restart.
            let record = records::group_metadata(group, |member| Arc::clone(&member.assignment)).ok()?;
            return Some(self.append(group, vec![record], Vec::new(), Then::Nothing));
        }
        self.effects.notices.push(Notice::GenerationFormed {
            group_id: Arc::clone(&group.id),
            generation_id: group.generation,
            members: group.member_count(),
        });
        for id in group.member_ids() {
            let reply = self.current_generation(group, &id, group.is_leader(&id));
            self.release_join(group, &id, reply);
            self.touch(group, &id);
            group.set_in_generation(&id);
        }
        let deadline_ms = self.after(group.rebalance_timeout_ms());
        group.set_sync_deadline(deadline_ms);
        None
    }

    /// Nobody gets an assignment of this generation; those who wait for one are told why.
    pub(crate) fn refuse_assignment(&mut self, group: &mut Group, error: &GroupError) {
        for id in group.member_ids() {
            group.set_assignment(&id, Arc::from([]));
            if self.release_sync(group, &id, SyncGroupReply::refused(error.clone())) {
                self.touch(group, &id);
            }
        }
    }

    /// The assignment of a generation is in the log, or could not be written. Of no concern if the group has moved on.
    pub(crate) fn assignment_written(
        &mut self,
        group: &mut Group,
        generation: i32,
        assignments: Vec<(Arc<str>, Arc<[u8]>)>,
        error: Option<GroupError>,
    ) {
        if group.sync_in_flight == Some(generation) {
            group.sync_in_flight = None;
        }
        if !group.is_in(GroupState::CompletingRebalance) || group.generation != generation {
            return;
        }
        if let Some(error) = error {
            self.refuse_assignment(group, &error);
            let reason = format!("the assignment could not be stored: {error}");
            self.rebalance_or_complete_join(group, &reason);
            return;
        }
        for (id, assignment) in assignments {
            group.set_assignment(&id, assignment);
        }
        for id in group.member_ids() {
            let reply = self.current_assignment(group, &id);
            if self.release_sync(group, &id, reply) {
                self.touch(group, &id);
            }
        }
        group.transition_to(GroupState::Stable, self.wall_ms());
        self.counters.completed_rebalances += 1;
        self.effects
            .notices
            .push(Notice::Stable { group_id: Arc::clone(&group.id), generation_id: group.generation });
    }

    pub(crate) fn current_assignment(&self, group: &Group, member_id: &str) -> SyncGroupReply {
        SyncGroupReply {
            error: None,
            protocol_type: group.protocol_type().cloned(),
            protocol_name: group.protocol_name().cloned(),
            assignment: group
                .member(member_id)
                .map_or_else(|| Arc::from([]), |member| Arc::clone(&member.assignment)),
        }
    }

    /// Takes a member out and lets the group go on without it.
    pub(crate) fn remove_member(
        &mut self,
        group: &mut Group,
        member_id: &str,
        reason: &str,
    ) -> Option<AppendId> {
        self.drop_member(group, member_id);
        self.after_removal(group, reason)
    }

    /// Takes a member out. A request that it waits in is told to start anew.
    pub(crate) fn drop_member(&mut self, group: &mut Group, member_id: &str) {
        self.release_join(group, member_id, JoinGroupReply::refused("", GroupError::UnknownMemberId));
        if let Some(token) = group.take_sync(member_id) {
            self.refuse_sync(token, GroupError::UnknownMemberId);
        }
        group.remove_member(member_id);
        group.remove_pending_member(member_id);
    }

    pub(crate) fn after_removal(&mut self, group: &mut Group, reason: &str) -> Option<AppendId> {
        match group.state() {
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.rebalance_or_complete_join(group, reason)
            }
            GroupState::PreparingRebalance => self.maybe_complete_join_or_empty(group),
            GroupState::Empty | GroupState::Dead => None,
        }
    }

    /// As [`Turn::maybe_complete_join`], and a first rebalance ends too when nobody is left to wait for.
    fn maybe_complete_join_or_empty(&mut self, group: &mut Group) -> Option<AppendId> {
        if group.is_initial_rebalance() && group.member_count() == 0 && group.has_all_members_joined() {
            return self.complete_join(group);
        }
        self.maybe_complete_join(group)
    }

    /// Does what is due in the group.
    pub(crate) fn fire(&mut self, group: &mut Group) {
        for due in group.take_due(self.now_ms) {
            if !group.is_still_due(&due, self.now_ms) {
                continue;
            }
            match due {
                Due::PendingMember(id) => {
                    group.remove_pending_member(&id);
                    self.expired(group, &id, Missed::JoinWithItsId);
                    self.maybe_complete_join(group);
                }
                Due::Session(id) => self.session_ended(group, &id),
                Due::Join => self.join_time_is_up(group),
                Due::Sync => self.sync_time_is_up(group),
            }
        }
    }

    fn session_ended(&mut self, group: &mut Group, id: &Arc<str>) {
        if group.member(id).is_some_and(|member| member.has_satisfied_heartbeat()) {
            // The answer to its parked request starts the session anew.
            return group.set_session_deadline(id, None);
        }
        self.expired(group, id, Missed::Heartbeat);
        self.remove_member(group, id, &format!("member {id} sent no heartbeat"));
    }

    fn join_time_is_up(&mut self, group: &mut Group) {
        let timer = group.join_timer;
        group.cancel_join_timer();
        match timer.and_then(|timer| timer.initial) {
            Some((delay_ms, remaining_ms)) if group.new_member_added && remaining_ms > 0 => {
                group.new_member_added = false;
                let next_delay_ms = self.config.initial_rebalance_delay_ms.max(0).min(remaining_ms);
                group.set_join_timer(JoinTimer {
                    deadline_ms: self.after(next_delay_ms),
                    initial: Some((next_delay_ms, (remaining_ms - delay_ms).max(0))),
                });
            }
            _ if group.is_in(GroupState::PreparingRebalance) => {
                self.complete_join(group);
            }
            _ => {}
        }
    }

    fn sync_time_is_up(&mut self, group: &mut Group) {
        group.sync_deadline_ms = None;
        if !matches!(group.state(), GroupState::CompletingRebalance | GroupState::Stable) {
            return;
        }
        let silent: Vec<Arc<str>> = group
            .members()
            .filter(|member| member.pending_sync)
            .map(|member| Arc::clone(&member.id))
            .collect();
        if silent.is_empty() {
            return;
        }
        for id in &silent {
            self.drop_member(group, id);
            self.expired(group, id, Missed::Sync);
        }
        self.prepare_rebalance(group, &format!("{} members sent no SyncGroup in time", silent.len()));
    }
}
