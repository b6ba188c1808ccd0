//! One member of a classic group.

use std::sync::Arc;

use crate::charge;
use crate::command::{JoinedMember, Token};

/// One protocol that a member supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: Arc<str>,
    pub(crate) metadata: Arc<[u8]>,
}

/// What whoever calls a shard may hold for one request that waits. It is part of what a member is charged with, so that
/// a member that was let in can always wait: there is never more than one request of it that does.
pub const WAITING_REQUEST_BYTES: usize = 2560;

/// Lists of a group's members on their way to its leader that there may be at once: one in the answer to a rebalance, and
/// those that handlers encode at this moment.
const LISTS_OF_MEMBERS: usize = 4;

/// What a member is charged with besides its strings and byte strings: itself, its entries in the group's maps and in the
/// lists that its leader is told, two tokens, a waiting request.
const MEMBER_CHARGE_BYTES: usize = WAITING_REQUEST_BYTES
    + LISTS_OF_MEMBERS * size_of::<JoinedMember>()
    + charge::block(size_of::<Member>())
    + charge::tree_entry(size_of::<(Arc<str>, Box<Member>)>())
    + 2 * charge::hash_entry(size_of::<(Token, Arc<str>)>());
/// What the entry of a static member is charged with besides its name.
const STATIC_CHARGE_BYTES: usize = charge::tree_entry(size_of::<(Arc<str>, Arc<str>)>());
/// What a protocol is charged with besides its name and metadata: itself and the group's count of it.
const PROTOCOL_CHARGE_BYTES: usize =
    charge::vector_entry(size_of::<Protocol>()) + charge::tree_entry(size_of::<(Arc<str>, usize)>());

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) session_timeout_ms: i32,
    /// In the member's order of preference.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Arc<[u8]>,
    /// The JoinGroup request that waits for the rebalance.
    pub(crate) awaiting_join: Option<Token>,
    /// The SyncGroup request that waits for the assignment.
    pub(crate) awaiting_sync: Option<Token>,
    /// It has not been in a generation yet, so it can expire while it waits for its first one.
    pub(crate) is_new: bool,
    /// The client was never told this id (JoinGroup before v4), so nobody can come back with it.
    pub(crate) is_anonymous: bool,
    /// It was told of the generation and has not sent SyncGroup.
    pub(crate) pending_sync: bool,
    /// When its session ends; none while a parked request stands for it.
    pub(crate) session_deadline_ms: Option<i64>,
}

impl Member {
    pub(crate) fn is_static(&self) -> bool {
        self.instance_id.is_some()
    }

    pub(crate) fn charge_bytes(&self) -> usize {
        let instance = |id: &Arc<str>| STATIC_CHARGE_BYTES + charge::shared(id.len());
        MEMBER_CHARGE_BYTES
            + charge::shared(self.id.len())
            + self.instance_id.as_ref().map_or(0, instance)
            + charge::shared(self.client_id.len())
            + charge::shared(self.client_host.len())
            + protocols_charge_bytes(&self.protocols)
            + assignment_charge_bytes(&self.assignment)
    }

    /// Metadata for the protocol; empty if the member does not support it.
    pub(crate) fn metadata(&self, protocol: Option<&str>) -> Arc<[u8]> {
        self.supported(protocol).map_or_else(Arc::default, |found| Arc::clone(&found.metadata))
    }

    /// The member's side of a protocol, if it supports it.
    pub(crate) fn supported(&self, protocol: Option<&str>) -> Option<&Protocol> {
        self.protocols.iter().find(|candidate| Some(&*candidate.name) == protocol)
    }

    pub(crate) fn as_joined(&self, protocol: Option<&str>) -> JoinedMember {
        JoinedMember {
            member_id: Arc::clone(&self.id),
            group_instance_id: self.instance_id.clone(),
            metadata: self.metadata(protocol),
        }
    }

    /// A parked request stands for the heartbeats of a member that has been in a generation.
    pub(crate) fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }
}

/// What the protocols of a member are charged with.
pub(crate) fn protocols_charge_bytes(protocols: &[Protocol]) -> usize {
    let each = |protocol: &Protocol| {
        PROTOCOL_CHARGE_BYTES + charge::shared(protocol.name.len()) + charge::shared(protocol.metadata.len())
    };
    protocols.iter().map(each).sum()
}

/// What an assignment is charged with.
pub(crate) fn assignment_charge_bytes(assignment: &[u8]) -> usize {
    charge::shared(assignment.len())
}

/// What a member that is not made yet would be charged with.
pub(crate) fn new_member_charge_bytes(names_bytes: usize, protocols: &[Protocol]) -> usize {
    let names = STATIC_CHARGE_BYTES + 4 * charge::shared(0) + charge::block(names_bytes);
    MEMBER_CHARGE_BYTES + names + protocols_charge_bytes(protocols) + assignment_charge_bytes(&[])
}
