//! What makes state go away: DeleteGroups, retention, deleted topics.
//!
//! Tombstones are written some at a time, so that a group with very many offsets needs no buffer of that size. The next
//! ones are made when the last are in the log.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::command::{CoordinatorRecord, DeleteGroups, Effects, Notice, Reply, Token};
use crate::error::{AppendError, GroupError};
use crate::group::{Group, GroupState};
use crate::offsets::CommittedOffset;
use crate::records;
use crate::shard::Shard;
use crate::shard::append::{DeleteJob, Op, Then};

/// Most tombstones in one append.
const MAX_TOMBSTONES: usize = 4_096;
/// How soon work that was cut short, or whose append failed, goes on.
const GO_ON_AFTER_MS: i64 = 1_000;

/// Tombstones for one append.
pub(crate) struct Tombstones {
    records: Vec<CoordinatorRecord>,
    ops: Vec<Op>,
    groups: Vec<Arc<str>>,
    room_bytes: usize,
}

impl Tombstones {
    fn new(max_bytes: usize) -> Tombstones {
        Tombstones { records: Vec::new(), ops: Vec::new(), groups: Vec::new(), room_bytes: max_bytes }
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds the tombstone unless the append is full.
    fn push(&mut self, record: CoordinatorRecord, op: Op) -> bool {
        let size = record.size_bytes();
        let fits =
            self.records.is_empty() || (self.records.len() < MAX_TOMBSTONES && size <= self.room_bytes);
        if fits {
            self.room_bytes = self.room_bytes.saturating_sub(size);
            if self.groups.last() != Some(op.group()) {
                self.groups.push(Arc::clone(op.group()));
            }
            self.records.push(record);
            self.ops.push(op);
        }
        fits
    }

    fn push_offset(&mut self, group: &Arc<str>, topic: &Arc<str>, partition: i32) -> bool {
        // A name that was in a record fits in one.
        let Ok(record) = records::offset_tombstone(group, topic, partition) else { return true };
        self.push(
            record,
            Op::Offset { group: Arc::clone(group), topic: Arc::clone(topic), partition, value: None },
        )
    }

    fn push_group(&mut self, group: &Arc<str>) -> bool {
        let Ok(record) = records::group_tombstone(group) else { return true };
        self.push(record, Op::DeleteGroup { group: Arc::clone(group) })
    }
}

/// A topic that is gone, and since when.
#[derive(Debug)]
pub(crate) struct DeletedTopic {
    pub(crate) name: String,
    pub(crate) deleted_at_ms: i64,
}

/// From which moment the retention of an offset counts, or `None` if offsets of the group do not expire now.
fn retention_starts(group: &Group, offset: &CommittedOffset) -> Option<i64> {
    if group.protocol_type().is_none() {
        return Some(offset.commit_timestamp_ms);
    }
    match group.state() {
        GroupState::Empty => Some(group.state_since_ms.unwrap_or(offset.commit_timestamp_ms)),
        GroupState::Stable if group.uses_consumer_protocol() => Some(offset.commit_timestamp_ms),
        _ => None,
    }
}

impl Shard {
    pub(crate) fn delete_groups(&mut self, token: Token, request: DeleteGroups, effects: &mut Effects) {
        let mut results: Vec<(String, Result<(), GroupError>)> = Vec::new();
        let mut remaining = VecDeque::new();
        let mut seen = HashSet::new();
        for group_id in request.group_ids {
            if !seen.insert(group_id.clone()) {
                continue;
            }
            let result = match self.groups.get_mut(group_id.as_str()) {
                None => Err(GroupError::GroupIdNotFound { group_id: group_id.clone() }),
                Some(group) => match group.state() {
                    GroupState::Dead => Err(GroupError::GroupIdNotFound { group_id: group_id.clone() }),
                    GroupState::Empty => {
                        group.begin_delete();
                        remaining.push_back(Arc::clone(&group.id));
                        Ok(())
                    }
                    _ => Err(GroupError::NonEmptyGroup),
                },
            };
            results.push((group_id, result));
        }
        let job = DeleteJob { token: Some(token), results, remaining, finishing: Vec::new() };
        self.go_on_deleting(job, effects);
    }

    /// Issues the next tombstones of the job, or answers it if there are none left.
    pub(crate) fn go_on_deleting(&mut self, mut job: DeleteJob, effects: &mut Effects) {
        let mut tombstones = Tombstones::new(self.config.max_append_bytes);
        'groups: while let Some(group_id) = job.remaining.front().cloned() {
            let Some(group) = self.groups.get_mut(&group_id) else {
                job.remaining.pop_front();
                continue;
            };
            for (topic, partition, _) in group.offsets.iter() {
                if !tombstones.push_offset(&group_id, topic, partition) {
                    break 'groups;
                }
            }
            if !tombstones.push_group(&group_id) {
                break;
            }
            // An offset that was on its way to the log before comes to light when this append is done: then again.
            if group.appends_in_flight > 0 {
                break;
            }
            job.remaining.pop_front();
            job.finishing.push(group_id);
        }
        if tombstones.is_empty() {
            if let Some(token) = job.token {
                effects.replies.push((token, Reply::DeleteGroups(job.results)));
            }
            return;
        }
        self.append_tombstones(tombstones, Then::Delete(job), effects);
    }

    /// The last tombstones of the job are in the log, or could not be written.
    pub(crate) fn deletion_done(
        &mut self,
        mut job: DeleteJob,
        error: Option<AppendError>,
        effects: &mut Effects,
    ) {
        let Some(error) = error else {
            job.finishing.clear();
            return self.go_on_deleting(job, effects);
        };
        let unfinished: HashSet<Arc<str>> = job.finishing.drain(..).chain(job.remaining.drain(..)).collect();
        for group_id in &unfinished {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.cancel_delete();
            }
            self.settle(group_id);
        }
        for (group_id, result) in &mut job.results {
            if unfinished.contains(group_id.as_str()) {
                *result = Err(error.to_group_error());
            }
        }
        if let Some(token) = job.token {
            effects.replies.push((token, Reply::DeleteGroups(job.results)));
        }
    }

    fn append_tombstones(&mut self, tombstones: Tombstones, then: Then, effects: &mut Effects) {
        for group_id in &tombstones.groups {
            if let Some(group) = self.groups.get_mut(group_id) {
                group.appends_in_flight += 1;
            }
        }
        self.queue.push(tombstones.records, tombstones.ops, then, tombstones.groups, effects);
        self.account_queue();
    }

    /// Offsets whose retention has passed, and groups that hold nothing any more.
    pub(crate) fn expire(&mut self, now_ms: i64, effects: &mut Effects) {
        let wall_ms = self.usage.wall_ms(now_ms);
        let mut tombstones = Tombstones::new(self.config.max_append_bytes);
        let (mut offsets, mut groups) = (0, 0);
        let mut finishing = Vec::new();
        let mut is_cut_short = false;
        for group in self.groups.values_mut() {
            // What is under way is left for the next check.
            if group.appends_in_flight > 0 || group.has_pending_members() || group.is_in(GroupState::Dead) {
                continue;
            }
            let mut holds_nothing = true;
            let subscribed = group.subscribed_topics(|topic| group.offsets.has_topic(topic));
            let is_blind = group.is_in(GroupState::Stable) && !subscribed.is_known();
            for (topic, partition, offset) in group.offsets.iter() {
                let is_expired = !is_blind
                    && !subscribed.contains(topic)
                    && retention_starts(group, offset).is_some_and(|start_ms| {
                        if offset.expire_timestamp_ms >= 0 {
                            wall_ms >= offset.expire_timestamp_ms
                        } else {
                            wall_ms.saturating_sub(start_ms) >= self.config.offsets_retention_ms
                        }
                    });
                if !is_expired {
                    holds_nothing = false;
                } else if tombstones.push_offset(&group.id, topic, partition) {
                    offsets += 1;
                } else {
                    holds_nothing = false;
                    is_cut_short = true;
                }
            }
            if holds_nothing && group.is_in(GroupState::Empty) {
                if tombstones.push_group(&group.id) {
                    group.begin_delete();
                    finishing.push(Arc::clone(&group.id));
                    groups += 1;
                } else {
                    is_cut_short = true;
                }
            }
            if is_cut_short {
                break;
            }
        }
        let interval_ms = self.config.offsets_retention_check_interval_ms.max(1);
        let next_ms = if is_cut_short { GO_ON_AFTER_MS.min(interval_ms) } else { interval_ms };
        self.next_expiry_check_ms = now_ms.saturating_add(next_ms);
        if tombstones.is_empty() {
            return;
        }
        self.counters.offset_expirations += offsets as u64;
        effects.notices.push(Notice::Expired { offsets, groups });
        let job = DeleteJob { token: None, results: Vec::new(), remaining: VecDeque::new(), finishing };
        self.append_tombstones(tombstones, Then::Delete(job), effects);
    }

    /// These topics are gone: their offsets, committed until now, go too.
    pub fn topics_deleted(&mut self, now_ms: i64, topics: impl IntoIterator<Item = String>) -> Effects {
        let mut effects = Effects::default();
        let deleted_at_ms = self.usage.wall_ms(now_ms);
        if self.is_active() {
            self.deleted_topics.extend(topics.into_iter().map(|name| DeletedTopic { name, deleted_at_ms }));
            self.sweep(&mut effects);
        }
        effects
    }

    /// Drops the offsets of topics that are not there (any more): to be called once after loading, because a stop may
    /// have come between the deletion of a topic and the tombstones of its offsets.
    pub fn retain_topics(&mut self, now_ms: i64, exists: impl Fn(&str) -> bool) -> Effects {
        let mut gone: BTreeSet<String> = BTreeSet::new();
        for topic in self.groups.values().flat_map(|group| group.offsets.topics()) {
            if !gone.contains(&**topic) && !exists(topic) {
                gone.insert(topic.to_string());
            }
        }
        self.topics_deleted(now_ms, gone)
    }

    /// Writes tombstones for the offsets of deleted topics, as many as fit in one append.
    pub(crate) fn sweep(&mut self, effects: &mut Effects) {
        // After a failure it is not tried again before its time, whatever else is appended.
        let is_resting = self.resume_sweep_ms != i64::MAX;
        if self.deleted_topics.is_empty() || self.is_sweeping || is_resting {
            return;
        }
        let deleted: HashMap<&str, i64> =
            self.deleted_topics.iter().map(|topic| (&*topic.name, topic.deleted_at_ms)).collect();
        let mut tombstones = Tombstones::new(self.config.max_append_bytes);
        // A tombstone must not follow a newer commit that is still on its way: such groups come next time.
        let settled = self.groups.values().filter(|group| group.appends_in_flight == 0);
        'groups: for group in settled {
            for topic in group.offsets.topics() {
                let Some(deleted_at_ms) = deleted.get(&**topic) else { continue };
                for (partition, offset) in group.offsets.partitions(topic) {
                    if offset.commit_timestamp_ms <= *deleted_at_ms
                        && !tombstones.push_offset(&group.id, topic, partition)
                    {
                        break 'groups;
                    }
                }
            }
        }
        if !tombstones.is_empty() {
            self.is_sweeping = true;
            self.counters.offset_deletions += tombstones.records.len() as u64;
            self.append_tombstones(tombstones, Then::Sweep, effects);
        } else if self.queue.is_empty() {
            // Commits that were under way when the topic went are there by now.
            self.deleted_topics.clear();
        }
    }

    pub(crate) fn sweep_done(&mut self, now_ms: i64, failed: bool, effects: &mut Effects) {
        self.is_sweeping = false;
        if failed {
            self.resume_sweep_ms = now_ms.saturating_add(GO_ON_AFTER_MS);
        } else {
            self.sweep(effects);
        }
    }
}
