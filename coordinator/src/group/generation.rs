//! From one generation to the next: who has joined, which protocol, who leads; and what a record says of a generation.

use std::sync::Arc;

use super::{Group, GroupState};
use crate::member::{Member, Protocol};
use crate::subscription::SubscribedTopics;

impl Group {
    pub(crate) fn has_all_members_joined(&self) -> bool {
        self.members.len() == self.awaiting_join && self.pending_members.is_empty()
    }

    /// The longest rebalance time-out of all members.
    pub(crate) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    pub(crate) fn supports_protocols(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| {
                self.supported.get(&protocol.name).copied().unwrap_or(0) == self.members.len()
            })
    }

    /// The protocol with the most votes among those that all members support; the first voted for on a tie.
    pub(crate) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: Vec<(&Arc<str>, usize)> = Vec::new();
        for member in self.members.values() {
            let vote = member
                .protocols
                .iter()
                .map(|protocol| &protocol.name)
                .find(|name| self.supported.get(*name).copied() == Some(self.members.len()))?;
            match votes.iter_mut().find(|(name, _)| *name == vote) {
                Some((_, count)) => *count += 1,
                None => votes.push((vote, 1)),
            }
        }
        let most = votes.iter().map(|(_, count)| *count).max()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| Arc::clone(name))
    }

    /// Makes sure that the leader is one of those who have joined. False if nobody has.
    pub(crate) fn elect_joined_leader(&mut self) -> bool {
        let joined = |member: &Member| member.awaiting_join.is_some();
        if self.leader.as_ref().and_then(|leader| self.member(leader)).is_some_and(joined) {
            return true;
        }
        match self.members.values().find(|member| joined(member)) {
            Some(member) => {
                self.leader = Some(Arc::clone(&member.id));
                true
            }
            None => false,
        }
    }

    /// The next generation: CompletingRebalance, or Empty without members.
    pub(crate) fn init_next_generation(&mut self, now_ms: i64) {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.clear_all_pending_sync();
        self.new_member_added = false;
        if self.members.is_empty() {
            self.protocol_name = None;
            self.leader = None;
            self.transition_to(GroupState::Empty, now_ms);
        } else {
            self.protocol_name = self.select_protocol();
            self.transition_to(GroupState::CompletingRebalance, now_ms);
        }
    }

    /// What a record says about a group. Members follow with [`Group::add_member`].
    pub(crate) fn restore(
        &mut self,
        generation: i32,
        protocol_type: Option<Arc<str>>,
        protocol_name: Option<Arc<str>>,
        state_since_ms: Option<i64>,
        is_stable: bool,
    ) {
        self.clear_members();
        self.cancel_join_timer();
        self.clear_all_pending_sync();
        self.sync_in_flight = None;
        self.generation = generation;
        self.protocol_type = protocol_type;
        self.protocol_name = protocol_name;
        self.state_since_ms = state_since_ms;
        self.previous_state = GroupState::Dead;
        self.state = if is_stable { GroupState::Stable } else { GroupState::Empty };
        self.has_records = true;
    }

    /// The leader that a record names, if it is one of the members.
    pub(crate) fn restore_leader(&mut self, leader: Option<Arc<str>>) {
        if leader.as_ref().is_some_and(|leader| self.members.contains_key(leader)) {
            self.leader = leader;
        }
    }

    /// Which of the topics asked for live members consume. Unreadable subscriptions count as a subscription to everything.
    pub(crate) fn subscribed_topics(&self, is_asked_for: impl Fn(&str) -> bool) -> SubscribedTopics<'_> {
        if !self.uses_consumer_protocol() || self.members.is_empty() {
            return SubscribedTopics::none();
        }
        // Before the first generation nobody knows which protocol's metadata will count.
        if self.protocol_name.is_none() {
            return SubscribedTopics::Unknown;
        }
        let protocol = self.protocol_name.as_deref();
        let metadata = self.members.values().filter_map(|member| {
            member
                .protocols
                .iter()
                .find(|candidate| Some(&*candidate.name) == protocol)
                .map(|found| &*found.metadata)
        });
        SubscribedTopics::of(metadata, is_asked_for)
    }
}
