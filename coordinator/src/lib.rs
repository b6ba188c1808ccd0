//! Group coordination as a pure state machine that only replays records.
//!
//! [`Shard`] is the coordinator of the groups in one partition of `__consumer_offsets` ([`partition_for`] tells which).
//! It speaks Kafka's classic group protocol: (state, command, now) in, (records, replies) out. No I/O, no clock, no
//! randomness of its own: `broker` owns 50 shards by default, each behind its own lock, appends their batches, keeps the
//! connections behind the [`Token`]s and turns [`GroupError`]s into Kafka's error codes.

pub mod fuzz;

mod charge;
mod command;
mod config;
mod error;
mod group;
mod member;
mod offsets;
mod partition;
mod records;
mod shard;
mod subscription;

pub use command::{
    Append, AppendId, Command, CoordinatorRecord, DeleteGroups, Effects, Heartbeat, JoinGroup,
    JoinGroupReply, JoinedMember, LeaveGroup, LeaveGroupMemberReply, LeavingMember, Missed, Notice,
    OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, OffsetTopicReply, Reply, SyncGroup,
    SyncGroupReply, Token,
};
pub use config::{GroupConfig, Limits, Usage};
pub use error::{AppendError, GroupError, ReplayError, Unavailable};
pub use group::GroupState;
pub use member::WAITING_REQUEST_BYTES;
pub use offsets::CommittedOffset;
pub use partition::{java_string_hash, partition_for};
pub use records::{Decoded, decode as decode_record};
pub use shard::{
    DescribedGroup, DescribedMember, GroupFilter, GroupView, ListedGroup, MemberView, OffsetsView, Replayed,
    Shard, ShardStats,
};
pub use subscription::visit_subscription_topics;
