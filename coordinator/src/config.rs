//! Properties, limits and the shared account of what all shards hold.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Kafka's properties of the classic group coordinator. All times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: members in one group.
    pub group_max_size: usize,
    /// How long a new member may wait in its first JoinGroup before it is dropped; Kafka's fixed five minutes.
    pub new_member_join_timeout_ms: i32,
    /// `offset.metadata.max.bytes`; Kafka counts UTF-16 units.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// Largest sum of keys and values in one [`crate::Append`]: `max.message.bytes` of the offsets topic less the
    /// overhead of a batch and its records.
    pub max_append_bytes: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            group_max_size: i32::MAX as usize,
            new_member_join_timeout_ms: 300_000,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            max_append_bytes: 1_000_000,
        }
    }
}

/// Counts and bytes that bound the state of all shards together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Groups in all.
    pub groups: usize,
    /// Members in all groups.
    pub members: usize,
    /// Members in all groups that were given an id and have not joined with it yet (KIP-394).
    pub pending_members: usize,
    /// Committed offsets in all.
    pub offsets: usize,
    /// Bytes of one member: its protocols with their metadata, its names. An assignment may be as large again.
    pub member_bytes: usize,
    /// Bytes of all state together, as [`crate::Shard::memory_bytes`] counts them.
    pub state_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            groups: 20_000,
            members: 50_000,
            pending_members: 10_000,
            offsets: 500_000,
            member_bytes: 1 << 20,
            state_bytes: 16 << 20,
        }
    }
}

/// What all shards of a broker hold together. Each shard adds and subtracts its own part; limits are tested against it.
///
/// Two shards may test a limit at the same instant, so it can be passed by at most one request per shard.
#[derive(Debug, Default)]
pub struct Usage {
    pub(crate) groups: AtomicUsize,
    pub(crate) members: AtomicUsize,
    pub(crate) pending_members: AtomicUsize,
    pub(crate) offsets: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    wall_ahead_ms: AtomicI64,
}

impl Usage {
    /// Groups in all shards.
    pub fn groups(&self) -> usize {
        self.groups.load(Ordering::Relaxed)
    }

    /// Members in all groups.
    pub fn members(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    /// Members that were given an id and have not joined yet.
    pub fn pending_members(&self) -> usize {
        self.pending_members.load(Ordering::Relaxed)
    }

    /// Committed offsets in all groups.
    pub fn offsets(&self) -> usize {
        self.offsets.load(Ordering::Relaxed)
    }

    /// Bytes of state in all shards, what waits for its append included.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How much the wall clock is ahead of the one whose time shards are called with, which must not be set while they
    /// live: a step of the wall clock neither ends sessions nor lets a rebalance wait for hours. What is stored and read
    /// by a later process has the wall clock's time.
    pub fn set_wall_ahead_ms(&self, ahead_ms: i64) {
        self.wall_ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// The wall clock's time at `now_ms`.
    pub(crate) fn wall_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(self.wall_ahead_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn shift(counter: &AtomicUsize, before: usize, after: usize) {
        if after >= before {
            counter.fetch_add(after - before, Ordering::Relaxed);
        } else {
            counter.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}
