//! OffsetCommit: offsets of a group, by topic name or (from version 10) topic id.
//!
//! Method: partitions that do not exist are answered here, the others go to the group's shard as one command. In the
//! reply a topic's refused partitions stand before the others, and refused topics before the others, as in Kafka.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use weir_coordinator::{
    Command, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, Reply as GroupReply,
};
use weir_metadata::image::MetadataImage;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k08_offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};

use crate::connection::ConnectionError;
use crate::errors::group_result;
use crate::request::{Reply, Request};

/// From this version on topics go by id.
const FIRST_BY_ID: i16 = 10;
/// Up to this version a request has a retention time.
const LAST_WITH_RETENTION: i16 = 4;
/// Memory of one offset on its way into the log, beside its names: as a command, a record, a change, an answer.
const OFFSET_BYTES: usize = 512;

/// Answers one commit.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let mut asked = request.decode(OffsetCommitRequest::decode)?;
    request.lease_more(work_bytes(&request, &asked)).await?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let Sorted { refused, mut accepted, command } =
        sort(&broker.image(), std::mem::take(&mut asked.topics), version);
    if !command.is_empty() {
        let outcome = match broker.groups.home(&broker, &asked.group_id) {
            Err(code) => Err(code),
            Ok(slot) => {
                let retention_time_ms =
                    if version <= LAST_WITH_RETENTION { asked.retention_time_ms } else { -1 };
                let command = Command::OffsetCommit(OffsetCommit {
                    api_version: version,
                    group_id: asked.group_id,
                    generation_id: asked.generation_id_or_member_epoch,
                    member_id: asked.member_id,
                    group_instance_id: asked.group_instance_id,
                    retention_time_ms,
                    topics: command,
                });
                broker.groups.run(&mut request, &slot, command).await
            }
        };
        match outcome {
            Ok(GroupReply::OffsetCommit(answers)) => {
                for (topic, answer) in accepted.iter_mut().zip(answers) {
                    for (partition, (_, error)) in topic.partitions.iter_mut().zip(answer.partitions) {
                        partition.error_code = group_result(error.as_ref());
                    }
                }
            }
            other => {
                let code = other.err().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
                let all = accepted.iter_mut().flat_map(|topic| &mut topic.partitions);
                all.for_each(|partition| partition.error_code = code);
            }
        }
    }
    let response =
        OffsetCommitResponse { topics: merge(refused, accepted), ..OffsetCommitResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}

fn work_bytes(request: &Request, asked: &OffsetCommitRequest) -> usize {
    let (mut count, mut names_bytes) = (asked.topics.len(), 0);
    for topic in &asked.topics {
        count += topic.partitions.len();
        names_bytes += topic.partitions.len() * (asked.group_id.len() + topic.name.len());
        let notes = topic.partitions.iter().filter_map(|it| it.committed_metadata.as_ref());
        names_bytes += notes.map(String::len).sum::<usize>();
    }
    count * OFFSET_BYTES + request.broker.groups.records_bytes(names_bytes)
}

/// A commit's topics, sorted by what becomes of them.
struct Sorted {
    /// Answered without the coordinator.
    refused: Vec<OffsetCommitResponseTopic>,
    /// For each topic of `command` its answer to be.
    accepted: Vec<OffsetCommitResponseTopic>,
    /// For the coordinator.
    command: Vec<OffsetCommitTopic>,
}

fn sort(image: &MetadataImage, topics: Vec<OffsetCommitRequestTopic>, version: i16) -> Sorted {
    let mut sorted = Sorted { refused: Vec::new(), accepted: Vec::new(), command: Vec::new() };
    for topic in topics {
        let by_id = version >= FIRST_BY_ID;
        let (known, unknown) = match by_id {
            true => (image.topics().by_id(topic.topic_id), ErrorCode::UNKNOWN_TOPIC_ID),
            false => (image.topics().by_name(&topic.name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        };
        let answer = |partitions| OffsetCommitResponseTopic {
            name: if by_id { String::new() } else { topic.name.clone() },
            topic_id: topic.topic_id,
            partitions,
            ..OffsetCommitResponseTopic::default()
        };
        let (mut bad, mut good, mut commit) = (Vec::new(), Vec::new(), Vec::new());
        for partition in topic.partitions {
            let index = partition.partition_index;
            let error_code = match known {
                None => unknown,
                Some(known) if known.partition(index).is_none() => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some(_) => ErrorCode::NONE,
            };
            let result = OffsetCommitResponsePartition {
                partition_index: index,
                error_code,
                ..OffsetCommitResponsePartition::default()
            };
            if !error_code.is_ok() {
                bad.push(result);
                continue;
            }
            good.push(result);
            commit.push(OffsetCommitPartition {
                partition: index,
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.committed_metadata,
            });
        }
        if !bad.is_empty() {
            sorted.refused.push(answer(bad));
        }
        if let Some(known) = known.filter(|_| !commit.is_empty()) {
            sorted.accepted.push(answer(good));
            let topic = known.name().to_string();
            sorted.command.push(OffsetCommitTopic { topic, partitions: commit });
        }
    }
    sorted
}

/// Refused partitions first; where there are any, a topic has one entry however often it was named.
fn merge(
    refused: Vec<OffsetCommitResponseTopic>,
    accepted: Vec<OffsetCommitResponseTopic>,
) -> Vec<OffsetCommitResponseTopic> {
    if refused.is_empty() {
        return accepted;
    }
    let mut merged: Vec<OffsetCommitResponseTopic> = Vec::with_capacity(refused.len() + accepted.len());
    let mut places: HashMap<_, usize> = HashMap::new();
    for topic in refused.into_iter().chain(accepted) {
        match places.entry((topic.topic_id, topic.name.clone())) {
            Entry::Occupied(place) => {
                if let Some(known) = merged.get_mut(*place.get()) {
                    known.partitions.extend(topic.partitions);
                }
            }
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(topic);
            }
        }
    }
    merged
}
