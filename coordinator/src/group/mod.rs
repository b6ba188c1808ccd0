//! One classic group: its members, its generation, its timers, its offsets.
//!
//! Every change goes through a method here that keeps the derived counts (awaiting, supported protocols, bytes) true.
//! Nothing here answers requests or writes records; `shard` decides, this file keeps the books.

mod generation;
mod state;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::state::GroupState;
pub(crate) use self::timers::{Due, JoinTimer};

use crate::charge;
use crate::command::Token;
use crate::error::GroupError;
use crate::member::{Member, Protocol, assignment_charge_bytes};
use crate::offsets::GroupOffsets;

/// What a group adds to the shared account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    pub(crate) bytes: usize,
    pub(crate) members: usize,
    pub(crate) pending_members: usize,
    pub(crate) offsets: usize,
}

/// What a group is charged with besides its members and offsets: itself, its entry, its wake-up.
const GROUP_CHARGE_BYTES: usize = charge::block(size_of::<Group>())
    + charge::hash_entry(size_of::<(Arc<str>, Box<Group>)>())
    + charge::tree_entry(size_of::<(i64, Arc<str>)>());
/// What a group with members is charged with besides: the first nodes of its maps.
const MEMBERS_CHARGE_BYTES: usize = charge::tree_node(size_of::<(Arc<str>, Box<Member>)>())
    + charge::tree_node(size_of::<(Arc<str>, usize)>())
    + charge::tree_node(size_of::<(Arc<str>, Arc<str>)>());
/// What a group with pending members is charged with besides: the first node of their map.
const PENDING_MAP_CHARGE_BYTES: usize = charge::tree_node(size_of::<(Arc<str>, i64)>());

/// What a pending member is charged with.
fn pending_charge_bytes(id: &str) -> usize {
    charge::tree_entry(size_of::<(Arc<str>, i64)>()) + charge::shared(id.len())
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: Arc<str>,
    state: GroupState,
    previous_state: GroupState,
    /// When the state was entered; none in records of old versions.
    pub(crate) state_since_ms: Option<i64>,
    pub(crate) generation: i32,
    protocol_type: Option<Arc<str>>,
    protocol_name: Option<Arc<str>>,
    leader: Option<Arc<str>>,
    /// Boxed, so that the first node of the tree is small.
    members: BTreeMap<Arc<str>, Box<Member>>,
    /// Instance id to member id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were given out and not joined with yet, with their deadlines.
    pending_members: BTreeMap<Arc<str>, i64>,
    /// How many members support a protocol.
    supported: BTreeMap<Arc<str>, usize>,
    awaiting_join: usize,
    pending_sync: usize,
    pub(crate) new_member_added: bool,
    pub(crate) join_timer: Option<JoinTimer>,
    pub(crate) sync_deadline_ms: Option<i64>,
    /// The generation whose assignment is being appended.
    pub(crate) sync_in_flight: Option<i32>,
    /// The new id of a static member is being appended.
    pub(crate) replacement_in_flight: bool,
    pub(crate) offsets: GroupOffsets,
    /// A record of this group is (or is about to be) in the log, so that only a tombstone ends it.
    pub(crate) has_records: bool,
    pub(crate) appends_in_flight: u32,
    /// Not after the earliest timer; what the shard has registered is `registered_wake_ms`.
    pub(crate) wake_ms: i64,
    pub(crate) registered_wake_ms: i64,
    member_bytes: usize,
    pending_bytes: usize,
    pub(crate) settled: Footprint,
}

impl Group {
    /// A group without members.
    pub(crate) fn new(id: Arc<str>, now_ms: i64) -> Group {
        Group {
            id,
            state: GroupState::Empty,
            previous_state: GroupState::Dead,
            state_since_ms: Some(now_ms),
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_members: BTreeMap::new(),
            supported: BTreeMap::new(),
            awaiting_join: 0,
            pending_sync: 0,
            new_member_added: false,
            join_timer: None,
            sync_deadline_ms: None,
            sync_in_flight: None,
            replacement_in_flight: false,
            offsets: GroupOffsets::default(),
            has_records: false,
            appends_in_flight: 0,
            wake_ms: i64::MAX,
            registered_wake_ms: i64::MAX,
            member_bytes: 0,
            pending_bytes: 0,
            settled: Footprint::default(),
        }
    }

    /// The least that a group with this id is charged with.
    pub(crate) fn charge_bytes_of(id: &str) -> usize {
        GROUP_CHARGE_BYTES + charge::shared(id.len())
    }

    /// What the group is charged with besides members and offsets.
    fn own_charge_bytes(&self) -> usize {
        let name = |name: &Option<Arc<str>>| name.as_ref().map_or(0, |name| charge::shared(name.len()));
        Group::charge_bytes_of(&self.id)
            + name(&self.protocol_type)
            + name(&self.protocol_name)
            + if self.members.is_empty() { 0 } else { MEMBERS_CHARGE_BYTES }
            + if self.pending_members.is_empty() { 0 } else { PENDING_MAP_CHARGE_BYTES }
    }

    pub(crate) fn footprint(&self) -> Footprint {
        Footprint {
            bytes: self.own_charge_bytes() + self.member_bytes + self.pending_bytes + self.offsets.bytes(),
            members: self.members.len(),
            pending_members: self.pending_members.len(),
            offsets: self.offsets.count(),
        }
    }

    /// The footprint counted anew, to test the running count against.
    pub(crate) fn recount(&self) -> Footprint {
        let members: usize = self.members().map(Member::charge_bytes).sum();
        let pending: usize = self.pending_members.keys().map(|id| pending_charge_bytes(id)).sum();
        Footprint {
            bytes: self.own_charge_bytes() + members + pending + self.offsets.recount_bytes(),
            members: self.members.len(),
            pending_members: self.pending_members.len(),
            offsets: self.offsets.iter().count(),
        }
    }

    /// Whether the derived counts equal what they are derived from.
    pub(crate) fn is_consistent(&self) -> bool {
        let awaiting = self.members.values().filter(|member| member.awaiting_join.is_some()).count();
        let pending = self.members.values().filter(|member| member.pending_sync).count();
        let mut supported: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for protocol in self.members.values().flat_map(|member| &member.protocols) {
            *supported.entry(Arc::clone(&protocol.name)).or_default() += 1;
        }
        let statics = self.members.values().filter(|member| member.is_static()).count();
        awaiting == self.awaiting_join
            && pending == self.pending_sync
            && supported == self.supported
            && statics == self.static_members.len()
            && self.static_members.iter().all(|(instance, id)| {
                self.members.get(id).is_some_and(|member| member.instance_id.as_ref() == Some(instance))
            })
            && self.leader.as_ref().is_none_or(|leader| self.members.contains_key(leader))
            && (self.state != GroupState::Empty || self.members.is_empty())
            && self.recount() == self.footprint()
    }

    // State.

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn is_in(&self, state: GroupState) -> bool {
        self.state == state
    }

    pub(crate) fn is_initial_rebalance(&self) -> bool {
        self.state == GroupState::PreparingRebalance && self.previous_state == GroupState::Empty
    }

    pub(crate) fn can_rebalance(&self) -> bool {
        matches!(self.state, GroupState::Stable | GroupState::CompletingRebalance | GroupState::Empty)
    }

    pub(crate) fn transition_to(&mut self, state: GroupState, now_ms: i64) {
        self.previous_state = self.state;
        self.state = state;
        self.state_since_ms = Some(now_ms);
    }

    /// Marks an empty group as being deleted.
    pub(crate) fn begin_delete(&mut self) {
        self.previous_state = self.state;
        self.state = GroupState::Dead;
    }

    /// The deletion failed: the group is as empty as before.
    pub(crate) fn cancel_delete(&mut self) {
        if self.state == GroupState::Dead {
            self.state = GroupState::Empty;
            self.previous_state = GroupState::Dead;
        }
    }

    /// What is left of a group after its tombstone if offsets are still there: a group that only holds offsets.
    pub(crate) fn become_simple(&mut self, now_ms: i64) {
        self.state = GroupState::Empty;
        self.previous_state = GroupState::Dead;
        self.state_since_ms = Some(now_ms);
        self.generation = 0;
        self.protocol_type = None;
        self.protocol_name = None;
        self.leader = None;
        self.clear_members();
        self.cancel_join_timer();
        self.sync_deadline_ms = None;
        self.sync_in_flight = None;
    }

    /// A group that has never been written and that nobody is in or on the way to.
    pub(crate) fn is_vacant(&self) -> bool {
        self.state == GroupState::Empty
            && !self.has_records
            && self.appends_in_flight == 0
            && self.members.is_empty()
            && self.pending_members.is_empty()
            && self.offsets.is_empty()
    }

    pub(crate) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    pub(crate) fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    pub(crate) fn protocol_name(&self) -> Option<&Arc<str>> {
        self.protocol_name.as_ref()
    }

    pub(crate) fn leader(&self) -> Option<&Arc<str>> {
        self.leader.as_ref()
    }

    pub(crate) fn leader_or_empty(&self) -> Arc<str> {
        self.leader.clone().unwrap_or_else(|| Arc::from(""))
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    // Members.

    pub(crate) fn member(&self, id: &str) -> Option<&Member> {
        self.members.get(id).map(|member| &**member)
    }

    pub(crate) fn has_member(&self, id: &str) -> bool {
        self.members.contains_key(id)
    }

    pub(crate) fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values().map(|member| &**member)
    }

    pub(crate) fn member_ids(&self) -> Vec<Arc<str>> {
        self.members.keys().cloned().collect()
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn awaiting_join_count(&self) -> usize {
        self.awaiting_join
    }

    pub(crate) fn static_member_id(&self, instance_id: &str) -> Option<&Arc<str>> {
        self.static_members.get(instance_id)
    }

    pub(crate) fn add_member(&mut self, member: Member) {
        if self.members.is_empty() {
            self.leader = None;
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member.id));
        }
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(Arc::clone(instance), Arc::clone(&member.id));
        }
        self.remove_pending_member(&member.id);
        self.count_protocols(&member.protocols);
        self.awaiting_join += usize::from(member.awaiting_join.is_some());
        self.pending_sync += usize::from(member.pending_sync);
        self.member_bytes += member.charge_bytes();
        if let Some(deadline) = member.session_deadline_ms {
            self.note_deadline(deadline);
        }
        self.members.insert(Arc::clone(&member.id), Box::new(member));
    }

    pub(crate) fn set_protocol_type(&mut self, protocol_type: Option<Arc<str>>) {
        self.protocol_type = protocol_type;
    }

    /// Removes the member; if it led, another member leads.
    pub(crate) fn remove_member(&mut self, id: &str) -> Option<Member> {
        let removed = self.take_member(id)?;
        if self.is_leader(id) {
            self.leader = self.members.keys().next().cloned();
        }
        Some(removed)
    }

    fn take_member(&mut self, id: &str) -> Option<Member> {
        let removed = self.members.remove(id)?;
        self.member_bytes -= removed.charge_bytes();
        self.uncount_protocols(&removed.protocols);
        self.awaiting_join -= usize::from(removed.awaiting_join.is_some());
        self.pending_sync -= usize::from(removed.pending_sync);
        if let Some(instance) = &removed.instance_id {
            self.static_members.remove(instance);
        }
        Some(*removed)
    }

    /// Puts a member in the place of another: `replace` gets the old one and makes the new one of it. Leadership passes.
    pub(crate) fn replace_member(
        &mut self,
        old_id: &str,
        replace: impl FnOnce(Member) -> Member,
    ) -> Option<Member> {
        let old = self.take_member(old_id)?;
        let new = replace(old.clone());
        if self.is_leader(old_id) {
            self.leader = Some(Arc::clone(&new.id));
        }
        self.add_member(new);
        Some(old)
    }

    fn clear_members(&mut self) {
        for id in self.member_ids() {
            self.take_member(&id);
        }
        self.pending_members.clear();
        self.pending_bytes = 0;
        self.leader = None;
    }

    fn count_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            *self.supported.entry(Arc::clone(&protocol.name)).or_default() += 1;
        }
    }

    fn uncount_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            if let Some(count) = self.supported.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.supported.remove(&protocol.name);
                }
            }
        }
    }

    /// New protocols and time-outs of a member that joins again.
    pub(crate) fn update_member(
        &mut self,
        id: &str,
        protocols: Vec<Protocol>,
        rebalance_ms: i32,
        session_ms: i32,
    ) {
        let Some(mut member) = self.members.remove(id) else { return };
        self.member_bytes -= member.charge_bytes();
        self.uncount_protocols(&member.protocols);
        member.protocols = protocols;
        member.rebalance_timeout_ms = rebalance_ms;
        member.session_timeout_ms = session_ms;
        self.count_protocols(&member.protocols);
        self.member_bytes += member.charge_bytes();
        self.members.insert(Arc::clone(&member.id), member);
    }

    pub(crate) fn set_assignment(&mut self, id: &str, assignment: Arc<[u8]>) {
        if let Some(member) = self.members.get_mut(id) {
            self.member_bytes -= assignment_charge_bytes(&member.assignment);
            self.member_bytes += assignment_charge_bytes(&assignment);
            member.assignment = assignment;
        }
    }

    /// Parks a JoinGroup; gives back the one that this replaces.
    pub(crate) fn park_join(&mut self, id: &str, token: Token) -> Option<Token> {
        let member = self.members.get_mut(id)?;
        let replaced = member.awaiting_join.replace(token);
        self.awaiting_join += usize::from(replaced.is_none());
        replaced
    }

    /// The JoinGroup that waits for the member, which then no longer does.
    pub(crate) fn take_join(&mut self, id: &str) -> Option<Token> {
        let token = self.members.get_mut(id)?.awaiting_join.take()?;
        self.awaiting_join -= 1;
        Some(token)
    }

    /// Parks a SyncGroup; gives back the one that this replaces.
    pub(crate) fn park_sync(&mut self, id: &str, token: Token) -> Option<Token> {
        self.members.get_mut(id)?.awaiting_sync.replace(token)
    }

    /// The SyncGroup that waits for the member, which then no longer does.
    pub(crate) fn take_sync(&mut self, id: &str) -> Option<Token> {
        self.members.get_mut(id)?.awaiting_sync.take()
    }

    pub(crate) fn set_in_generation(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            member.is_new = false;
            member.is_anonymous = false;
            self.pending_sync += usize::from(!member.pending_sync);
            member.pending_sync = true;
        }
    }

    /// The member has sent its SyncGroup; the wait for the others ends with the last.
    pub(crate) fn clear_pending_sync(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id)
            && member.pending_sync
        {
            member.pending_sync = false;
            self.pending_sync -= 1;
        }
        if self.pending_sync == 0 {
            self.sync_deadline_ms = None;
        }
    }

    pub(crate) fn clear_all_pending_sync(&mut self) {
        if self.pending_sync > 0 {
            for member in self.members.values_mut() {
                member.pending_sync = false;
            }
            self.pending_sync = 0;
        }
        self.sync_deadline_ms = None;
    }

    pub(crate) fn set_session_deadline(&mut self, id: &str, deadline_ms: Option<i64>) {
        if let Some(member) = self.members.get_mut(id) {
            member.session_deadline_ms = deadline_ms;
            if let Some(deadline) = deadline_ms {
                self.note_deadline(deadline);
            }
        }
    }

    pub(crate) fn is_pending_member(&self, id: &str) -> bool {
        self.pending_members.contains_key(id)
    }

    pub(crate) fn has_pending_members(&self) -> bool {
        !self.pending_members.is_empty()
    }

    pub(crate) fn add_pending_member(&mut self, id: Arc<str>, deadline_ms: i64) {
        let bytes = pending_charge_bytes(&id);
        if self.pending_members.insert(id, deadline_ms).is_none() {
            self.pending_bytes += bytes;
        }
        self.note_deadline(deadline_ms);
    }

    pub(crate) fn remove_pending_member(&mut self, id: &str) -> bool {
        let removed = self.pending_members.remove(id).is_some();
        if removed {
            self.pending_bytes -= pending_charge_bytes(id);
        }
        removed
    }

    /// Known and, if static, the one that holds the instance id.
    pub(crate) fn validate_member(&self, id: &str, instance_id: Option<&str>) -> Result<(), GroupError> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(GroupError::UnknownMemberId),
                Some(holder) if **holder != *id => return Err(GroupError::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(GroupError::UnknownMemberId) }
    }
}
