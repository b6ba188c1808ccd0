//! OffsetCommit and OffsetDelete.

use std::collections::HashSet;
use std::sync::Arc;

use crate::command::{Effects, OffsetCommit, OffsetDelete, OffsetTopicReply, Reply, Token};
use crate::error::{GroupError, Unavailable};
use crate::group::{Group, GroupState};
use crate::offsets::{CommittedOffset, topic_charge_bytes};
use crate::records;
use crate::shard::Shard;
use crate::shard::append::{Op, Then};
use crate::shard::turn::Turn;

/// From this version on an unknown group is GROUP_ID_NOT_FOUND.
const GROUP_ID_NOT_FOUND_VERSION: i16 = 9;

fn refused(request: OffsetCommit, error: &GroupError) -> Reply {
    let topics = request.topics.into_iter().map(|topic| OffsetTopicReply {
        topic: topic.topic,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| (partition.partition, Some(error.clone())))
            .collect(),
    });
    Reply::OffsetCommit(topics.collect())
}

impl Shard {
    pub(crate) fn offset_commit(
        &mut self,
        now_ms: i64,
        token: Token,
        request: OffsetCommit,
        effects: &mut Effects,
    ) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        let existing = groups.get_key_value(request.group_id.as_str()).map(|(id, _)| Arc::clone(id));
        let group_id = match existing {
            Some(id) => id,
            // An administrator, or a consumer without group membership: offsets found a group of their own.
            None if request.generation_id < 0 => {
                let id: Arc<str> = Arc::from(request.group_id.as_str());
                if let Err(error) = turn.admit_group(&id) {
                    return turn.reply(token, refused(request, &error));
                }
                groups.insert(Arc::clone(&id), Box::new(Group::new(Arc::clone(&id), turn.wall_ms())));
                id
            }
            None => {
                let error = if request.api_version >= GROUP_ID_NOT_FOUND_VERSION {
                    GroupError::GroupIdNotFound { group_id: request.group_id.clone() }
                } else {
                    GroupError::IllegalGeneration { given: request.generation_id, current: -1 }
                };
                return turn.reply(token, refused(request, &error));
            }
        };
        if let Some(group) = groups.get_mut(&group_id) {
            turn.commit(group, token, request);
        }
        self.settle(&group_id);
    }

    pub(crate) fn offset_delete(
        &mut self,
        now_ms: i64,
        token: Token,
        request: OffsetDelete,
        effects: &mut Effects,
    ) {
        let (groups, mut turn) = self.turn(now_ms, effects);
        if request.group_id.is_empty() {
            return turn.reply(token, Reply::OffsetDelete(Err(GroupError::InvalidGroupId)));
        }
        let Some(group) = groups.get_mut(request.group_id.as_str()) else {
            let error = GroupError::GroupIdNotFound { group_id: request.group_id };
            return turn.reply(token, Reply::OffsetDelete(Err(error)));
        };
        turn.delete_offsets(group, token, request);
        let group_id = Arc::clone(&group.id);
        self.settle(&group_id);
    }
}

fn validate_commit(group: &Group, request: &OffsetCommit) -> Result<(), GroupError> {
    let generation = request.generation_id;
    if group.is_in(GroupState::Dead) {
        return Err(GroupError::unavailable(Unavailable::GroupIsBeingDeleted));
    }
    if generation < 0 && group.is_in(GroupState::Empty) {
        return Ok(());
    }
    if generation >= 0 || !request.member_id.is_empty() || request.group_instance_id.is_some() {
        group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if generation != group.generation {
            return Err(GroupError::IllegalGeneration { given: generation, current: group.generation });
        }
    } else if !group.is_in(GroupState::Empty) {
        // Offsets of a live group cannot be set from outside.
        return Err(GroupError::UnknownMemberId);
    }
    // The member knows of the generation but has no assignment yet, so it cannot have consumed anything in it.
    if group.is_in(GroupState::CompletingRebalance) {
        return Err(GroupError::RebalanceInProgress);
    }
    Ok(())
}

impl Turn<'_> {
    fn commit(&mut self, group: &mut Group, token: Token, request: OffsetCommit) {
        if let Err(error) = validate_commit(group, &request) {
            return self.reply(token, refused(request, &error));
        }
        if matches!(group.state(), GroupState::Stable | GroupState::PreparingRebalance) {
            self.touch(group, &request.member_id);
        }
        let expire_timestamp_ms = match request.retention_time_ms {
            -1 => -1,
            retention_ms => self.wall_ms().saturating_add(retention_ms),
        };
        let mut records = Vec::new();
        let mut ops = Vec::new();
        let mut replies = Vec::new();
        let mut size_bytes = 0;
        let mut room = self.room(group);
        for topic in request.topics {
            let name =
                group.offsets.topic_name(&topic.topic).unwrap_or_else(|| Arc::from(topic.topic.as_str()));
            let mut results = Vec::new();
            for partition in topic.partitions {
                let index = partition.partition;
                let value = CommittedOffset {
                    offset: partition.offset,
                    leader_epoch: partition.leader_epoch,
                    commit_timestamp_ms: self.wall_ms(),
                    expire_timestamp_ms,
                    metadata: partition.metadata.unwrap_or_default().into(),
                };
                let record = self
                    .check_metadata(&value)
                    .and_then(|()| room.take(group, &name, index, &value))
                    .and_then(|()| records::offset_commit(&group.id, &name, index, &value));
                let record = match record {
                    Ok(record) => record,
                    Err(error) => {
                        results.push((index, Some(error)));
                        continue;
                    }
                };
                size_bytes += record.size_bytes();
                if size_bytes > self.config.max_append_bytes {
                    // Refused as a whole below: every record repeats the names, so no more of them are built.
                    records = Vec::new();
                    ops = Vec::new();
                    results.push((index, None));
                    continue;
                }
                records.push(record);
                let group = Arc::clone(&group.id);
                ops.push(Op::Offset {
                    group,
                    topic: Arc::clone(&name),
                    partition: index,
                    value: Some(value),
                });
                results.push((index, None));
            }
            replies.push(OffsetTopicReply { topic: topic.topic, partitions: results });
        }
        if let Some(limit) = room.reached {
            self.limit(&group.id, limit);
        }
        let limit_bytes = self.config.max_append_bytes;
        if size_bytes > limit_bytes {
            let error = GroupError::InvalidCommitOffsetSize { size_bytes, limit_bytes };
            let reply = super::append::with_error(Reply::OffsetCommit(replies), &error);
            return self.reply(token, reply);
        }
        if records.is_empty() {
            return self.reply(token, Reply::OffsetCommit(replies));
        }
        let id = self.append(group, records, ops, Then::Nothing);
        self.queue.attach_reply(id, token, Reply::OffsetCommit(replies));
    }

    fn check_metadata(&self, value: &CommittedOffset) -> Result<(), GroupError> {
        let limit = self.config.offset_metadata_max_bytes;
        // No string has more UTF-16 units than bytes.
        if value.metadata.len() <= limit {
            return Ok(());
        }
        let length = value.metadata.encode_utf16().count();
        if length > limit { Err(GroupError::OffsetMetadataTooLarge { length, limit }) } else { Ok(()) }
    }

    fn room(&self, group: &Group) -> Room {
        // What waits for its append will be counted when it is there.
        let offsets = self.usage.offsets().saturating_sub(group.settled.offsets) + group.offsets.count();
        Room {
            offsets_limit: self.limits.offsets,
            offsets: self.limits.offsets.saturating_sub(offsets + self.queue.offset_ops()),
            bytes_limit: self.limits.state_bytes,
            bytes: self.limits.state_bytes.saturating_sub(self.usage.bytes()),
            reached: None,
        }
    }

    fn delete_offsets(&mut self, group: &mut Group, token: Token, request: OffsetDelete) {
        let is_live = !matches!(group.state(), GroupState::Empty | GroupState::Dead);
        let refusal = match group.state() {
            GroupState::Dead => Some(GroupError::GroupIdNotFound { group_id: request.group_id }),
            _ if is_live && !group.uses_consumer_protocol() => Some(GroupError::NonEmptyGroup),
            _ => None,
        };
        if let Some(error) = refusal {
            return self.reply(token, Reply::OffsetDelete(Err(error)));
        }
        let mut records = Vec::new();
        let mut ops = Vec::new();
        let mut replies = Vec::new();
        // An offset on its way to the log is deleted as well.
        let is_appending = group.appends_in_flight > 0;
        let asked_for: HashSet<&str> = request.topics.iter().map(|(topic, _)| topic.as_str()).collect();
        let subscribed = group.subscribed_topics(|topic| asked_for.contains(topic));
        let limit_bytes = self.config.max_append_bytes;
        let mut size_bytes = 0;
        for (topic, partitions) in request.topics {
            let is_subscribed = subscribed.contains(&topic);
            let name: Arc<str> =
                group.offsets.topic_name(&topic).unwrap_or_else(|| Arc::from(topic.as_str()));
            let results = partitions.into_iter().map(|partition| {
                if is_subscribed {
                    return (partition, Some(GroupError::GroupSubscribedToTopic));
                }
                if is_appending || group.offsets.get(&topic, partition).is_some() {
                    let record = match records::offset_tombstone(&group.id, &name, partition) {
                        Ok(record) => record,
                        Err(error) => return (partition, Some(error)),
                    };
                    size_bytes += record.size_bytes();
                    if size_bytes > limit_bytes {
                        // Refused as a whole below: a partition may be named very often.
                        records = Vec::new();
                        ops = Vec::new();
                        return (partition, None);
                    }
                    records.push(record);
                    let group = Arc::clone(&group.id);
                    ops.push(Op::Offset { group, topic: Arc::clone(&name), partition, value: None });
                }
                (partition, None)
            });
            let partitions = results.collect();
            replies.push(OffsetTopicReply { topic, partitions });
        }
        if size_bytes > limit_bytes {
            return self.reply(token, Reply::OffsetDelete(Err(GroupError::UnknownServerError)));
        }
        let reply = Reply::OffsetDelete(Ok(replies));
        if records.is_empty() {
            return self.reply(token, reply);
        }
        self.counters.offset_deletions += ops.len() as u64;
        let id = self.append(group, records, ops, Then::Nothing);
        self.queue.attach_reply(id, token, reply);
    }
}

/// What may still be committed.
struct Room {
    offsets_limit: usize,
    offsets: usize,
    bytes_limit: usize,
    bytes: usize,
    reached: Option<Unavailable>,
}

impl Room {
    fn take(
        &mut self,
        group: &Group,
        topic: &str,
        partition: i32,
        value: &CommittedOffset,
    ) -> Result<(), GroupError> {
        let previous = group.offsets.get(topic, partition);
        let is_new = previous.is_none();
        if is_new && self.offsets == 0 {
            return Err(self.refuse(Unavailable::Offsets { limit: self.offsets_limit }));
        }
        // While the append is under way the old value, the new one and the names are all there.
        let more = match previous {
            Some(previous) => value.charge_bytes().saturating_sub(previous.charge_bytes()),
            None => value.charge_bytes() + topic_charge_bytes(topic),
        };
        if more > self.bytes {
            return Err(self.refuse(Unavailable::StateBytes { limit: self.bytes_limit }));
        }
        self.offsets -= usize::from(is_new);
        self.bytes -= more;
        Ok(())
    }

    fn refuse(&mut self, limit: Unavailable) -> GroupError {
        self.reached = Some(limit);
        GroupError::unavailable(limit)
    }
}
