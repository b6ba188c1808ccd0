//! JoinGroup: who gets into the next generation.

use std::collections::HashSet;
use std::sync::Arc;

use uuid_text::hyphenated;

use crate::command::{Effects, JoinGroup, JoinGroupReply, Token};
use crate::error::{GroupError, Unavailable};
use crate::group::{Group, GroupState};
use crate::member::{Member, Protocol, new_member_charge_bytes, protocols_charge_bytes};
use crate::shard::Shard;
use crate::shard::append::{Replaced, Then};
use crate::shard::turn::Turn;

/// From this version on a dynamic member must join with an id (KIP-394).
const KNOWN_MEMBER_ID_VERSION: i16 = 4;
/// From this version on a static leader that rejoins can be told to skip the assignment (KIP-814).
const SKIP_ASSIGNMENT_VERSION: i16 = 9;
/// Most of a client or instance id that a member id begins with, so that it still fits in a record.
const MAX_ID_PREFIX_BYTES: usize = 1_024;
/// Longest reason that is kept, in characters (KIP-800).
const MAX_REASON_CHARS: usize = 255;

mod uuid_text {
    /// 128 random bits as a version 4 UUID in its usual form.
    pub(super) fn hyphenated(random: u128) -> String {
        let bits = (random & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            bits >> 96,
            (bits >> 80) & 0xffff,
            (bits >> 64) & 0xffff,
            (bits >> 48) & 0xffff,
            bits & 0xffff_ffff_ffff
        )
    }
}

/// A JoinGroup whose lists have been brought into the form that members keep.
struct Joining {
    token: Token,
    member_id: String,
    instance_id: Option<Arc<str>>,
    client_id: String,
    client_host: String,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    protocol_type: String,
    protocols: Vec<Protocol>,
    reason: String,
    needs_known_id: bool,
    can_skip_assignment: bool,
    fresh_id: u128,
}

impl Joining {
    fn of(token: Token, request: JoinGroup) -> Joining {
        let mut names = HashSet::new();
        let mut protocols: Vec<Protocol> = request
            .protocols
            .into_iter()
            .filter(|(name, _)| names.insert(name.clone()))
            .map(|(name, metadata)| Protocol { name: Arc::from(name), metadata: Arc::from(metadata) })
            .collect();
        protocols.shrink_to_fit();
        Joining {
            token,
            member_id: request.member_id,
            instance_id: request.group_instance_id.map(Arc::from),
            client_id: request.client_id,
            client_host: request.client_host,
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: if request.rebalance_timeout_ms < 0 {
                request.session_timeout_ms
            } else {
                request.rebalance_timeout_ms
            },
            protocol_type: request.protocol_type,
            protocols,
            reason: reason_text(request.reason.as_deref()),
            needs_known_id: request.api_version >= KNOWN_MEMBER_ID_VERSION,
            can_skip_assignment: request.api_version >= SKIP_ASSIGNMENT_VERSION,
            fresh_id: request.fresh_id,
        }
    }

    /// A member id of our making: the instance id or the client id, then random bits.
    fn new_member_id(&self) -> Arc<str> {
        let prefix = self.instance_id.as_deref().unwrap_or(&self.client_id);
        let end = prefix.floor_char_boundary(MAX_ID_PREFIX_BYTES);
        let prefix = prefix.get(..end).unwrap_or_default();
        Arc::from(format!("{prefix}-{}", hyphenated(self.fresh_id)))
    }

    fn charge_bytes(&self) -> usize {
        let id = self.instance_id.as_ref().map_or(self.client_id.len(), |id| 2 * id.len()) + 37;
        new_member_charge_bytes(id + self.client_id.len() + self.client_host.len(), &self.protocols)
    }
}

/// What a client said why it joins or leaves.
pub(crate) fn reason_text(reason: Option<&str>) -> String {
    match reason {
        None | Some("") => "not provided".to_owned(),
        Some(reason) => reason.chars().take(MAX_REASON_CHARS).collect(),
    }
}

impl Shard {
    pub(crate) fn join_group(
        &mut self,
        now_ms: i64,
        token: Token,
        request: JoinGroup,
        effects: &mut Effects,
    ) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        if request.group_id.is_empty() {
            return turn
                .reply_join(token, JoinGroupReply::refused(request.member_id, GroupError::InvalidGroupId));
        }
        let (min_ms, max_ms) = (turn.config.min_session_timeout_ms, turn.config.max_session_timeout_ms);
        let timeout_ms = request.session_timeout_ms;
        if !(min_ms..=max_ms).contains(&timeout_ms) {
            let error = GroupError::InvalidSessionTimeout { timeout_ms, min_ms, max_ms };
            return turn.reply_join(token, JoinGroupReply::refused(request.member_id, error));
        }
        let group_id: Arc<str> = match groups.get_key_value(request.group_id.as_str()) {
            Some((id, _)) => Arc::clone(id),
            // Only a member without an id founds a group.
            None if !request.member_id.is_empty() => {
                return turn.reply_join(
                    token,
                    JoinGroupReply::refused(request.member_id, GroupError::UnknownMemberId),
                );
            }
            None => Arc::from(request.group_id.as_str()),
        };
        if !groups.contains_key(&group_id) {
            if let Err(error) = turn.admit_group(&group_id) {
                return turn.reply_join(token, JoinGroupReply::refused("", error));
            }
            groups.insert(Arc::clone(&group_id), Box::new(Group::new(Arc::clone(&group_id), turn.wall_ms())));
        }
        if let Some(group) = groups.get_mut(&group_id) {
            turn.join(group, Joining::of(token, request));
        }
        self.settle(&group_id);
    }
}

impl Turn<'_> {
    /// Whether one more group may be held.
    pub(crate) fn admit_group(&mut self, group_id: &Arc<str>) -> Result<(), GroupError> {
        let limit = self.limits.groups;
        if self.usage.groups() >= limit {
            return Err(self.limit(group_id, Unavailable::Groups { limit }));
        }
        self.admit_bytes(group_id, Group::charge_bytes_of(group_id))
    }

    fn join(&mut self, group: &mut Group, joining: Joining) {
        let token = joining.token;
        let is_unknown = joining.member_id.is_empty();
        let member_id = joining.member_id.clone();
        if group.is_in(GroupState::Dead) {
            let error = GroupError::unavailable(Unavailable::GroupIsBeingDeleted);
            return self.reply_join(token, JoinGroupReply::refused(member_id, error));
        }
        if !self.accepts(group, &joining.member_id) {
            if group.remove_member(&joining.member_id).is_some()
                || group.remove_pending_member(&joining.member_id)
            {
                self.maybe_complete_join(group);
            }
            let limit = self.config.group_max_size;
            let error = GroupError::GroupMaxSizeReached { limit };
            return self.reply_join(token, JoinGroupReply::refused("", error));
        }
        if !group.supports_protocols(&joining.protocol_type, &joining.protocols) {
            let error = GroupError::InconsistentGroupProtocol;
            return self.reply_join(token, JoinGroupReply::refused(member_id, error));
        }
        if let Err(error) = self.admit_member(group, &joining) {
            return self.reply_join(token, JoinGroupReply::refused(member_id, error));
        }
        if is_unknown { self.join_without_id(group, joining) } else { self.join_with_id(group, joining) }
    }

    /// Whether the group has room. While members join, those who came first stay.
    fn accepts(&self, group: &Group, member_id: &str) -> bool {
        let limit = self.config.group_max_size;
        match group.state() {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                group.member(member_id).is_some_and(|member| member.awaiting_join.is_some())
                    || group.awaiting_join_count() < limit
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                group.has_member(member_id) || group.member_count() < limit
            }
        }
    }

    /// The limits on bytes and members that are ours, not Kafka's.
    fn admit_member(&mut self, group: &Group, joining: &Joining) -> Result<(), GroupError> {
        let size_bytes = joining.charge_bytes();
        let limit_bytes = self.limits.member_bytes;
        if size_bytes > limit_bytes {
            return Err(GroupError::MessageTooLarge { size_bytes, limit_bytes });
        }
        let existing = group.member(&joining.member_id).or_else(|| {
            let instance = joining.instance_id.as_deref()?;
            group.static_member_id(instance).and_then(|id| group.member(id))
        });
        match existing {
            Some(member) => {
                let more = protocols_charge_bytes(&joining.protocols)
                    .saturating_sub(protocols_charge_bytes(&member.protocols));
                if more > 0 { self.admit_bytes(&group.id, more) } else { Ok(()) }
            }
            None => {
                let limit = self.limits.members;
                if self.usage.members() >= limit {
                    return Err(self.limit(&group.id, Unavailable::Members { limit }));
                }
                self.admit_bytes(&group.id, size_bytes + joining.protocol_type.len())
            }
        }
    }

    fn join_without_id(&mut self, group: &mut Group, joining: Joining) {
        let new_id = joining.new_member_id();
        if group.has_member(&new_id) {
            // The random bits are not random.
            return self
                .reply_join(joining.token, JoinGroupReply::refused("", GroupError::UnknownServerError));
        }
        let holder =
            joining.instance_id.as_deref().and_then(|instance| group.static_member_id(instance)).cloned();
        match (holder, joining.instance_id.is_some()) {
            (Some(old_id), _) => self.replace_static_member(group, joining, &old_id, new_id),
            (None, true) => self.add_member(group, joining, new_id, false),
            (None, false) if joining.needs_known_id => {
                let limit = self.limits.pending_members;
                if self.usage.pending_members() >= limit {
                    let error = self.limit(&group.id, Unavailable::PendingMembers { limit });
                    return self.reply_join(joining.token, JoinGroupReply::refused("", error));
                }
                let deadline_ms = self.after(joining.session_timeout_ms);
                group.add_pending_member(Arc::clone(&new_id), deadline_ms);
                self.reply_join(joining.token, JoinGroupReply::refused(new_id, GroupError::MemberIdRequired));
            }
            (None, false) => self.add_member(group, joining, new_id, true),
        }
    }

    fn join_with_id(&mut self, group: &mut Group, joining: Joining) {
        let member_id: Arc<str> = Arc::from(joining.member_id.as_str());
        if group.is_pending_member(&member_id) {
            // An id that was given out belongs to a dynamic member.
            if joining.instance_id.is_some() {
                let error = GroupError::UnknownMemberId;
                return self.reply_join(joining.token, JoinGroupReply::refused(member_id, error));
            }
            return self.add_member(group, joining, member_id, false);
        }
        if let Err(error) = group.validate_member(&member_id, joining.instance_id.as_deref()) {
            return self.reply_join(joining.token, JoinGroupReply::refused(member_id, error));
        }
        let is_same = group.member(&member_id).is_some_and(|member| member.protocols == joining.protocols);
        let is_leader = group.is_leader(&member_id);
        match group.state() {
            GroupState::PreparingRebalance => self.rejoin(group, joining, &member_id, "is joining"),
            // It may have missed the answer: tell it again.
            GroupState::CompletingRebalance if is_same => {
                let reply = self.current_generation(group, &member_id, is_leader);
                self.reply_join(joining.token, reply);
            }
            GroupState::CompletingRebalance => {
                self.rejoin(group, joining, &member_id, "updates its metadata")
            }
            // A leader that joins again wants a new assignment, for instance because topics have changed.
            GroupState::Stable if is_leader => self.rejoin(group, joining, &member_id, "leads and rejoins"),
            GroupState::Stable if !is_same => self.rejoin(group, joining, &member_id, "updates its metadata"),
            GroupState::Stable => {
                let reply = self.current_generation(group, &member_id, false);
                self.reply_join(joining.token, reply);
            }
            GroupState::Empty | GroupState::Dead => {
                let error = GroupError::UnknownMemberId;
                self.reply_join(joining.token, JoinGroupReply::refused(member_id, error));
            }
        }
    }

    /// The generation as it is, for a member of it.
    pub(crate) fn current_generation(
        &self,
        group: &Group,
        member_id: &str,
        with_members: bool,
    ) -> JoinGroupReply {
        let protocol = group.protocol_name().map(|name| &**name);
        JoinGroupReply {
            error: None,
            generation_id: group.generation,
            protocol_type: group.protocol_type().cloned(),
            protocol_name: group.protocol_name().cloned(),
            leader: group.leader_or_empty(),
            skip_assignment: false,
            member_id: group
                .member(member_id)
                .map_or_else(|| Arc::from(member_id), |member| Arc::clone(&member.id)),
            members: if with_members {
                group.members().map(|member| member.as_joined(protocol)).collect()
            } else {
                Vec::new()
            },
        }
    }

    fn rejoin(&mut self, group: &mut Group, joining: Joining, member_id: &Arc<str>, what: &str) {
        let reason = format!("member {member_id} {what}; client reason: {}", joining.reason);
        group.update_member(
            member_id,
            joining.protocols,
            joining.rebalance_timeout_ms,
            joining.session_timeout_ms,
        );
        self.park_join(group, member_id, joining.token);
        self.rebalance_or_complete_join(group, &reason);
    }

    fn add_member(&mut self, group: &mut Group, joining: Joining, member_id: Arc<str>, is_anonymous: bool) {
        let reason = format!("member {member_id} is new; client reason: {}", joining.reason);
        // The first rebalance of a group waits longer while members keep coming.
        if group.is_initial_rebalance() {
            group.new_member_added = true;
        }
        if group.member_count() == 0 {
            group.set_protocol_type(Some(Arc::from(joining.protocol_type)));
        }
        // A new member cannot send heartbeats while it waits, and its client may be gone: its first wait is bounded.
        let deadline_ms = self.after(self.config.new_member_join_timeout_ms);
        group.add_member(Member {
            id: Arc::clone(&member_id),
            instance_id: joining.instance_id,
            client_id: Arc::from(joining.client_id),
            client_host: Arc::from(joining.client_host),
            rebalance_timeout_ms: joining.rebalance_timeout_ms,
            session_timeout_ms: joining.session_timeout_ms,
            protocols: joining.protocols,
            assignment: Arc::from([]),
            awaiting_join: None,
            awaiting_sync: None,
            is_new: true,
            is_anonymous,
            pending_sync: false,
            session_deadline_ms: Some(deadline_ms),
        });
        self.park_join(group, &member_id, joining.token);
        self.rebalance_or_complete_join(group, &reason);
    }

    /// A static member comes back without an id: it takes the place of its former self, which is fenced (KIP-345).
    fn replace_static_member(
        &mut self,
        group: &mut Group,
        joining: Joining,
        old_id: &Arc<str>,
        new_id: Arc<str>,
    ) {
        let old_leader = group.leader_or_empty();
        let fenced = JoinGroupReply::refused(Arc::clone(old_id), GroupError::FencedInstanceId);
        self.release_join(group, old_id, fenced);
        if let Some(token) = group.take_sync(old_id) {
            self.refuse_sync(token, GroupError::FencedInstanceId);
        }
        let session_deadline_ms = Some(self.after(joining.session_timeout_ms));
        let old = group.replace_member(old_id, |old| Member {
            id: Arc::clone(&new_id),
            rebalance_timeout_ms: joining.rebalance_timeout_ms,
            session_timeout_ms: joining.session_timeout_ms,
            protocols: joining.protocols,
            is_new: false,
            is_anonymous: false,
            session_deadline_ms,
            ..old
        });
        let Some(old) = old else { return };
        self.park_join(group, &new_id, joining.token);
        let reason =
            format!("static member {new_id} takes the place of {old_id}; client reason: {}", joining.reason);
        match group.state() {
            // The assignment stays valid as long as the protocol does: no rebalance, but the new id must be in the log
            // before the member hears of it.
            GroupState::Stable
                if !group.replacement_in_flight
                    && group.select_protocol().as_ref() == group.protocol_name() =>
            {
                let size_bytes = group.members().map(|member| member.assignment.len()).sum();
                let record = self.group_record(group, size_bytes, |member| Arc::clone(&member.assignment));
                let replaced = Replaced {
                    group: Arc::clone(&group.id),
                    generation: group.generation,
                    old,
                    new_id,
                    old_leader,
                    can_skip_assignment: joining.can_skip_assignment,
                };
                match record {
                    Ok(record) => {
                        group.replacement_in_flight = true;
                        self.append(group, vec![record], Vec::new(), Then::Replaced(Box::new(replaced)));
                    }
                    Err(error) => self.static_member_replaced(group, replaced, Some(error)),
                }
            }
            // The leader may be assigning to the old id at this moment; or another id is on its way to the log, and what
            // the log will have is not known.
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(group, &reason),
            _ => {
                self.maybe_complete_join(group);
            }
        }
    }

    /// The new id of a static member is in the log, or could not be written.
    pub(crate) fn static_member_replaced(
        &mut self,
        group: &mut Group,
        replaced: Replaced,
        error: Option<GroupError>,
    ) {
        let new_id = &replaced.new_id;
        group.replacement_in_flight = false;
        // A rebalance that began meanwhile takes the waiting member along and writes its id.
        if !group.has_member(new_id)
            || !group.is_in(GroupState::Stable)
            || group.generation != replaced.generation
        {
            return;
        }
        if let Some(error) = error {
            let waiting = group.take_join(new_id);
            let deadline_ms = self.after(replaced.old.session_timeout_ms);
            let old_id = Arc::clone(&replaced.old.id);
            group.replace_member(new_id, |_| Member {
                session_deadline_ms: Some(deadline_ms),
                ..replaced.old
            });
            let mut reply = self.current_generation(group, &old_id, false);
            reply.member_id = Arc::from("");
            reply.leader = replaced.old_leader;
            reply.error = Some(error);
            if let Some(token) = waiting {
                self.reply_join(token, reply);
            }
            return;
        }
        let is_leader = group.is_leader(new_id);
        let mut reply = self.current_generation(group, new_id, is_leader && replaced.can_skip_assignment);
        if replaced.can_skip_assignment {
            reply.skip_assignment = is_leader;
        } else {
            // An old client that saw itself as the leader would compute an assignment that nobody takes.
            reply.leader = replaced.old_leader;
        }
        self.release_join(group, new_id, reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_ids_end_in_a_version_4_uuid() {
        assert_eq!(hyphenated(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(hyphenated(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn reasons_are_cut_to_255_characters() {
        assert_eq!(reason_text(None), "not provided");
        assert_eq!(reason_text(Some("")), "not provided");
        assert_eq!(reason_text(Some(&"ä".repeat(300))).chars().count(), 255);
    }
}
