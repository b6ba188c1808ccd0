//! What the broker asks of a shard and what comes back: commands, replies, appends, notices.
//!
//! The types say what Kafka's requests say, without versions where a version only changes the framing. Byte strings and
//! names are shared (`Arc`), so that an answer to the leader of a large group copies no metadata.

use std::fmt;
use std::sync::Arc;

use crate::error::{AppendError, GroupError, Unavailable};

/// The broker's name for one request that waits for its answer. Never reused while the request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Names one append of one shard; they grow by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppendId(pub u64);

/// A request that can change the state of a group. Input is untrusted; sizes are bounded by the frame it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// JoinGroup v0-9. Answered at once, or parked until the rebalance completes.
    JoinGroup(JoinGroup),
    /// SyncGroup v0-5. Answered at once, or parked until the leader's assignment is in the log.
    SyncGroup(SyncGroup),
    /// Heartbeat v0-4. Always answered at once.
    Heartbeat(Heartbeat),
    /// LeaveGroup v0-5.
    LeaveGroup(LeaveGroup),
    /// OffsetCommit v2-10.
    OffsetCommit(OffsetCommit),
    /// OffsetDelete v0.
    OffsetDelete(OffsetDelete),
    /// DeleteGroups v0-3, those groups of the request that live in this shard.
    DeleteGroups(DeleteGroups),
}

/// A JoinGroup request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroup {
    /// Version of the request: from 4 on a new dynamic member gets MEMBER_ID_REQUIRED first (KIP-394), from 9 on a
    /// static leader that rejoins may be told to skip the assignment.
    pub api_version: i16,
    /// Group id; empty is INVALID_GROUP_ID.
    pub group_id: String,
    /// Empty for a member without an id.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub group_instance_id: Option<String>,
    /// `client.id` of the request header; the prefix of a dynamic member's id.
    pub client_id: String,
    /// Peer address as Kafka prints it, e.g. `/127.0.0.1`.
    pub client_host: String,
    /// Session time-out.
    pub session_timeout_ms: i32,
    /// Rebalance time-out; below 0 (v0 has none) it is the session time-out.
    pub rebalance_timeout_ms: i32,
    /// For instance `consumer` or `connect`.
    pub protocol_type: String,
    /// Protocols in the member's order of preference. Later ones of the same name are dropped.
    pub protocols: Vec<(String, Vec<u8>)>,
    /// Why the client joins (KIP-800).
    pub reason: Option<String>,
    /// 128 random bits from which a new member id is made, if one is needed.
    pub fresh_id: u128,
}

/// A SyncGroup request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroup {
    /// Group id.
    pub group_id: String,
    /// Generation that the member joined.
    pub generation_id: i32,
    /// Member id.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
    /// Must equal the group's if given; v5 must give it (the broker answers INCONSISTENT_GROUP_PROTOCOL if it does not).
    pub protocol_type: Option<String>,
    /// Must equal the group's if given; as `protocol_type`.
    pub protocol_name: Option<String>,
    /// (member id, assignment), from the leader only.
    pub assignments: Vec<(String, Vec<u8>)>,
}

/// A Heartbeat request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Group id.
    pub group_id: String,
    /// Generation of the member.
    pub generation_id: i32,
    /// Member id.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
}

/// A LeaveGroup request; v0-2 is a list of one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroup {
    /// Group id.
    pub group_id: String,
    /// Who leaves.
    pub members: Vec<LeavingMember>,
}

/// One member of a LeaveGroup request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingMember {
    /// Empty when a static member is removed by its instance id alone (by an administrator).
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
    /// Why it leaves (KIP-800).
    pub reason: Option<String>,
}

/// An OffsetCommit request. Topic ids are resolved and unknown topics answered by the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommit {
    /// Version of the request: an unknown group is ILLEGAL_GENERATION before 9, GROUP_ID_NOT_FOUND from 9 on.
    pub api_version: i16,
    /// Group id; may be empty.
    pub group_id: String,
    /// -1 from a consumer that does not use group membership, or from an administrator.
    pub generation_id: i32,
    /// Member id; may be empty.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
    /// Retention of these offsets (v2-4); -1 for the broker's.
    pub retention_time_ms: i64,
    /// What to commit.
    pub topics: Vec<OffsetCommitTopic>,
}

/// The partitions of one topic in an OffsetCommit request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitTopic {
    /// Topic name.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<OffsetCommitPartition>,
}

/// One offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitPartition {
    /// Partition index.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Leader epoch of the last consumed record, -1 if unknown.
    pub leader_epoch: i32,
    /// The client's own note.
    pub metadata: Option<String>,
}

/// An OffsetDelete request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDelete {
    /// Group id; empty is INVALID_GROUP_ID.
    pub group_id: String,
    /// (topic, partitions) whose offsets go.
    pub topics: Vec<(String, Vec<i32>)>,
}

/// A DeleteGroups request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteGroups {
    /// Groups of this shard; duplicates are answered once.
    pub group_ids: Vec<String>,
}

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To JoinGroup.
    JoinGroup(JoinGroupReply),
    /// To SyncGroup.
    SyncGroup(SyncGroupReply),
    /// To Heartbeat.
    Heartbeat(Result<(), GroupError>),
    /// To LeaveGroup: an error for the whole request, or one result per member in the order of the request. In v0-2
    /// the one member's error is the error of the answer.
    LeaveGroup(Result<Vec<LeaveGroupMemberReply>, GroupError>),
    /// To OffsetCommit: topics and partitions in the order of the request.
    OffsetCommit(Vec<OffsetTopicReply>),
    /// To OffsetDelete: an error for the whole request, or topics and partitions in the order of the request.
    OffsetDelete(Result<Vec<OffsetTopicReply>, GroupError>),
    /// To DeleteGroups, in the order of the request.
    DeleteGroups(Vec<(String, Result<(), GroupError>)>),
}

/// Answer to JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroupReply {
    /// `None` if the member is in the generation below.
    pub error: Option<GroupError>,
    /// -1 with an error.
    pub generation_id: i32,
    /// Protocol type of the group; from v7 on.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol; before v7 `None` is sent as an empty string.
    pub protocol_name: Option<Arc<str>>,
    /// Member id of the leader; empty with an error.
    pub leader: Arc<str>,
    /// The leader must not compute an assignment (v9).
    pub skip_assignment: bool,
    /// The member's id; with MEMBER_ID_REQUIRED the one to join with.
    pub member_id: Arc<str>,
    /// All members, for the leader only.
    pub members: Vec<JoinedMember>,
}

impl JoinGroupReply {
    pub(crate) fn refused(member_id: impl Into<Arc<str>>, error: GroupError) -> JoinGroupReply {
        JoinGroupReply {
            error: Some(error),
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: Arc::from(""),
            skip_assignment: false,
            member_id: member_id.into(),
            members: Vec::new(),
        }
    }
}

/// One member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// Member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<Arc<str>>,
    /// Metadata of the chosen protocol.
    pub metadata: Arc<[u8]>,
}

/// Answer to SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroupReply {
    /// `None` if the assignment is valid.
    pub error: Option<GroupError>,
    /// Protocol type of the group (v5), without an error.
    pub protocol_type: Option<Arc<str>>,
    /// Protocol of the group (v5), without an error.
    pub protocol_name: Option<Arc<str>>,
    /// The member's assignment; empty with an error.
    pub assignment: Arc<[u8]>,
}

impl SyncGroupReply {
    pub(crate) fn refused(error: GroupError) -> SyncGroupReply {
        SyncGroupReply {
            error: Some(error),
            protocol_type: None,
            protocol_name: None,
            assignment: Arc::from([]),
        }
    }
}

/// One member of an answer to LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroupMemberReply {
    /// As in the request.
    pub member_id: String,
    /// As in the request.
    pub group_instance_id: Option<String>,
    /// `None` if it has left.
    pub error: Option<GroupError>,
}

/// One topic of an answer to OffsetCommit or OffsetDelete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetTopicReply {
    /// Topic name.
    pub topic: String,
    /// (partition, error), in the order of the request.
    pub partitions: Vec<(i32, Option<GroupError>)>,
}

/// One record for `__consumer_offsets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// Type and key.
    pub key: Vec<u8>,
    /// Version and value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
}

impl CoordinatorRecord {
    /// Bytes of key and value.
    pub fn size_bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Vec::len)
    }
}

/// Records to append as one batch, with no other append of this shard in between. Never empty.
///
/// The broker appends them in the order in which it received them and reports each with [`crate::Shard::append_done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// To be given back with the result.
    pub id: AppendId,
    /// The records, in order; together at most [`crate::GroupConfig::max_append_bytes`].
    pub records: Vec<CoordinatorRecord>,
}

/// What one call to a shard leads to. A token that is in no `replies` of any call yet waits.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[must_use = "replies must be sent and appends written"]
pub struct Effects {
    /// Answers to send now, of this command or of others that waited.
    pub replies: Vec<(Token, Reply)>,
    /// Batches to append, in this order.
    pub appends: Vec<Append>,
    /// What an operator may want to see in the log.
    pub notices: Vec<Notice>,
}

impl Effects {
    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.appends.is_empty() && self.notices.is_empty()
    }
}

/// Something worth a line in the log or a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A rebalance begins.
    PreparingRebalance {
        /// Which group.
        group_id: Arc<str>,
        /// The generation that ends.
        generation_id: i32,
        /// Who caused it and what the client said.
        reason: String,
    },
    /// All members are in the new generation; the leader's assignment is awaited.
    GenerationFormed {
        /// Which group.
        group_id: Arc<str>,
        /// The new generation.
        generation_id: i32,
        /// Members in it.
        members: usize,
    },
    /// The assignment is in the log.
    Stable {
        /// Which group.
        group_id: Arc<str>,
        /// Its generation.
        generation_id: i32,
    },
    /// The last member is gone.
    Empty {
        /// Which group.
        group_id: Arc<str>,
        /// Its generation.
        generation_id: i32,
    },
    /// A member was removed that did not ask for it.
    MemberExpired {
        /// Which group.
        group_id: Arc<str>,
        /// Which member.
        member_id: Arc<str>,
        /// What it did not do in time.
        missed: Missed,
    },
    /// Offsets or groups went because their retention passed.
    Expired {
        /// Tombstones of offsets.
        offsets: usize,
        /// Tombstones of groups.
        groups: usize,
    },
    /// A limit refused a request.
    LimitReached {
        /// Which group.
        group_id: Arc<str>,
        /// Which limit.
        limit: Unavailable,
    },
    /// An append failed; its requests were answered with an error.
    AppendFailed {
        /// Which append.
        id: AppendId,
        /// Why.
        error: AppendError,
    },
}

/// What a removed member failed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// No heartbeat within the session time-out.
    Heartbeat,
    /// It was given a member id and did not join with it.
    JoinWithItsId,
    /// It did not rejoin within the rebalance time-out.
    Rejoin,
    /// It did not send SyncGroup within the rebalance time-out.
    Sync,
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missed::Heartbeat => "no heartbeat within its session time-out",
            Missed::JoinWithItsId => "no join with the id it was given",
            Missed::Rejoin => "no rejoin within the rebalance time-out",
            Missed::Sync => "no sync within the rebalance time-out",
        })
    }
}

/// A name that a client chose, fit for a line of the log: nothing that ends the line, and not longer than it need be.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST_CHARS: usize = 256;
        let mut chars = self.0.chars();
        chars.by_ref().take(MOST_CHARS).flat_map(char::escape_debug).try_for_each(|it| write!(f, "{it}"))?;
        if chars.next().is_some() { write!(f, "... ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

/// One line for the log, without a full stop.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::PreparingRebalance { group_id, generation_id, reason } => {
                let (group_id, reason) = (Shown(group_id), Shown(reason));
                write!(f, "group {group_id} rebalances after generation {generation_id}: {reason}")
            }
            Notice::GenerationFormed { group_id, generation_id, members } => {
                let group_id = Shown(group_id);
                write!(f, "group {group_id} forms generation {generation_id} of {members} members")
            }
            Notice::Stable { group_id, generation_id } => {
                let group_id = Shown(group_id);
                write!(f, "group {group_id} is stable in generation {generation_id}")
            }
            Notice::Empty { group_id, generation_id } => {
                let group_id = Shown(group_id);
                write!(f, "group {group_id} is empty in generation {generation_id}")
            }
            Notice::MemberExpired { group_id, member_id, missed } => {
                let (group_id, member_id) = (Shown(group_id), Shown(member_id));
                write!(f, "group {group_id} drops member {member_id}: {missed}")
            }
            Notice::Expired { offsets, groups } => {
                write!(f, "retention ends for {offsets} offsets and {groups} groups")
            }
            Notice::LimitReached { group_id, limit } => {
                let group_id = Shown(group_id);
                write!(f, "a request of group {group_id} is refused: {limit}")
            }
            Notice::AppendFailed { id, error } => write!(f, "append {} failed: {error}", id.0),
        }
    }
}
