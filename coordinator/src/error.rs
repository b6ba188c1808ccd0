//! What can go wrong: errors a client is told, errors of a failed append, errors while replaying.

use thiserror::Error;

/// Why a group request, or one member or partition of it, was refused.
///
/// Each variant bears the name of the Kafka error that the broker answers with, so that the mapping is one to one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GroupError {
    /// The shard is still replaying its partition. Retriable.
    #[error("the coordinator is still loading this group")]
    CoordinatorLoadInProgress,
    /// This broker no longer (or not yet) leads the group's partition. Retriable.
    #[error("this broker is not the coordinator of the group")]
    NotCoordinator,
    /// A limit is reached or an append failed for now. Retriable.
    #[error("the coordinator cannot serve this now: {reason}")]
    CoordinatorNotAvailable {
        /// What stands in the way.
        reason: Unavailable,
    },
    /// The group id is empty where Kafka demands one.
    #[error("the group id must not be empty")]
    InvalidGroupId,
    /// The session time-out lies outside `group.min.session.timeout.ms` to `group.max.session.timeout.ms`.
    #[error("session time-out {timeout_ms} ms is not within {min_ms} to {max_ms} ms")]
    InvalidSessionTimeout {
        /// What the member asked for.
        timeout_ms: i32,
        /// `group.min.session.timeout.ms`.
        min_ms: i32,
        /// `group.max.session.timeout.ms`.
        max_ms: i32,
    },
    /// The member id is not one of the group's.
    #[error("the member is not known in this group")]
    UnknownMemberId,
    /// The member must join again with the id that came with this answer (KIP-394).
    #[error("the member must join again with the id it was given")]
    MemberIdRequired,
    /// The generation is not the group's current one.
    #[error("generation {given} is not the group's current generation {current}")]
    IllegalGeneration {
        /// What the member sent.
        given: i32,
        /// The group's generation, or -1 if the group does not exist.
        current: i32,
    },
    /// A rebalance is under way; the member must join again. Retriable.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// Protocol type or protocol names have nothing in common with the group's.
    #[error("the member's protocols do not fit the group's")]
    InconsistentGroupProtocol,
    /// Another member has taken this `group.instance.id` (KIP-345).
    #[error("another member holds this group instance id")]
    FencedInstanceId,
    /// `group.max.size` members are in the group.
    #[error("the group has reached its limit of {limit} members")]
    GroupMaxSizeReached {
        /// `group.max.size`.
        limit: usize,
    },
    /// A member's own bytes are more than any group record may hold.
    #[error("{size_bytes} bytes of group metadata are more than the limit of {limit_bytes} bytes")]
    MessageTooLarge {
        /// What would have to be stored.
        size_bytes: usize,
        /// What may be stored.
        limit_bytes: usize,
    },
    /// The metadata string of a committed offset is longer than `offset.metadata.max.bytes`.
    #[error("offset metadata of {length} characters exceeds offset.metadata.max.bytes={limit}")]
    OffsetMetadataTooLarge {
        /// Length in UTF-16 units, as Kafka counts it.
        length: usize,
        /// `offset.metadata.max.bytes`.
        limit: usize,
    },
    /// One commit request is larger than one batch of the offsets topic may be.
    #[error("a commit of {size_bytes} bytes is larger than the batch limit of {limit_bytes} bytes")]
    InvalidCommitOffsetSize {
        /// Encoded size of the records.
        size_bytes: usize,
        /// Largest batch of the offsets topic.
        limit_bytes: usize,
    },
    /// The group has members, so it cannot be deleted.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// No such group.
    #[error("group {group_id} not found")]
    GroupIdNotFound {
        /// The id that was asked for.
        group_id: String,
    },
    /// Offsets of a topic that the live group consumes cannot be deleted.
    #[error("the group is subscribed to the topic")]
    GroupSubscribedToTopic,
    /// The log could not take the records, for a reason that a retry does not cure.
    #[error("the group's records could not be written")]
    UnknownServerError,
}

impl GroupError {
    /// Whether the same request may succeed later without the client changing anything.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            GroupError::CoordinatorLoadInProgress
                | GroupError::NotCoordinator
                | GroupError::CoordinatorNotAvailable { .. }
                | GroupError::RebalanceInProgress
        )
    }

    pub(crate) fn unavailable(reason: Unavailable) -> GroupError {
        GroupError::CoordinatorNotAvailable { reason }
    }
}

/// Why a coordinator is not available for a request; a limit names the field of [`crate::Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The group is being deleted at this moment.
    #[error("the group is being deleted")]
    GroupIsBeingDeleted,
    /// The log refused the append for now.
    #[error("the offsets topic cannot be written")]
    LogNotWritable,
    /// [`crate::Limits::groups`] is reached.
    #[error("limit of {limit} groups reached")]
    Groups {
        /// The limit.
        limit: usize,
    },
    /// [`crate::Limits::members`] is reached.
    #[error("limit of {limit} members in all groups reached")]
    Members {
        /// The limit.
        limit: usize,
    },
    /// [`crate::Limits::pending_members`] is reached.
    #[error("limit of {limit} members that were given an id and have not joined yet reached")]
    PendingMembers {
        /// The limit.
        limit: usize,
    },
    /// [`crate::Limits::offsets`] is reached.
    #[error("limit of {limit} committed offsets reached")]
    Offsets {
        /// The limit.
        limit: usize,
    },
    /// [`crate::Limits::state_bytes`] is reached.
    #[error("limit of {limit} bytes of group state reached")]
    StateBytes {
        /// The limit.
        limit: usize,
    },
}

/// Why the broker could not append a batch. None of its records may be in the log.
///
/// A broker that does not know whether the records are in the log must [`crate::Shard::unload`] the shard and load it
/// anew from the log, because the state here would no longer equal a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Too few replicas, a time-out, the disk is full for now: clients retry.
    #[error("the log cannot take records now")]
    NotAvailable,
    /// The partition is no longer led here or its storage failed: clients look for another coordinator.
    #[error("the partition is not led here or its storage failed")]
    NotLeader,
    /// The batch is larger than the topic allows.
    #[error("the batch is larger than the topic allows")]
    TooLarge,
    /// Anything else.
    #[error("the append failed")]
    Other,
}

impl AppendError {
    pub(crate) fn to_group_error(self) -> GroupError {
        match self {
            AppendError::NotAvailable => GroupError::unavailable(Unavailable::LogNotWritable),
            AppendError::NotLeader => GroupError::NotCoordinator,
            AppendError::TooLarge | AppendError::Other => GroupError::UnknownServerError,
        }
    }
}

/// Why a record of `__consumer_offsets` could not be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The shard serves requests already, or is unloaded.
    #[error("the shard is not loading")]
    NotLoading,
    /// The key or the value is not what its type says.
    #[error("{what} cannot be decoded: {reason}")]
    Malformed {
        /// Which message.
        what: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// The value has a version that this coordinator does not know.
    #[error("{what} has version {version}, newer than {newest}")]
    UnknownValueVersion {
        /// Which message.
        what: &'static str,
        /// The version found.
        version: i16,
        /// The newest version known.
        newest: i16,
    },
    /// The partition holds more state than [`crate::Limits::state_bytes`] allows; the shard cannot be served.
    #[error("group state of {used} bytes exceeds the limit of {limit} bytes")]
    StateFull {
        /// Bytes held by all shards.
        used: usize,
        /// The limit.
        limit: usize,
    },
}

impl ReplayError {
    /// Only a full state can heal, when groups of other shards go away.
    pub fn is_retriable(&self) -> bool {
        matches!(self, ReplayError::StateFull { .. })
    }
}
