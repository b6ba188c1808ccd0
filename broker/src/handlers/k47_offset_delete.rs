//! OffsetDelete: committed offsets of topics that the group does not consume any more.
//!
//! Method and order of the reply as in OffsetCommit: what does not exist is answered here and stands first.

use std::sync::Arc;

use weir_coordinator::{Command, OffsetDelete, Reply as GroupReply};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k47_offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use crate::connection::ConnectionError;
use crate::errors::{group_code, group_result};
use crate::request::{Reply, Request};

/// Memory of one partition of a request beside its names: as a command, a record, a change, an answer.
const PARTITION_BYTES: usize = 384;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(OffsetDeleteRequest::decode)?;
    request.lease_more(work_bytes(&request, &asked)).await?;
    let broker = Arc::clone(&request.broker);
    let mut response = OffsetDeleteResponse::default();
    let mut command = Vec::new();
    // For each topic of the command, where its refused partitions stand in the reply.
    let mut refused_at = Vec::new();
    let image = broker.image();
    for topic in asked.topics {
        let known = image.topics().by_name(&topic.name);
        let exists = |index: i32| known.is_some_and(|known| known.partition(index).is_some());
        let (good, bad): (Vec<i32>, Vec<i32>) =
            topic.partitions.iter().map(|it| it.partition_index).partition(|index| exists(*index));
        let mut at = None;
        if !bad.is_empty() {
            at = Some(response.topics.len());
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let partitions = bad.into_iter().map(|index| answer(index, code)).collect();
            response.topics.push(OffsetDeleteResponseTopic { name: topic.name.clone(), partitions });
        }
        if !good.is_empty() {
            refused_at.push(at);
            command.push((topic.name, good));
        }
    }
    drop(image);
    // Asked even about nothing: an unknown group is an error all the same.
    let outcome = match broker.groups.home_of_named(&broker, &asked.group_id) {
        Err(code) => Err(code),
        Ok(slot) => {
            let command = Command::OffsetDelete(OffsetDelete { group_id: asked.group_id, topics: command });
            match broker.groups.run(&mut request, &slot, command).await {
                Ok(GroupReply::OffsetDelete(result)) => result.map_err(|error| group_code(&error)),
                Ok(_) => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
                Err(code) => Err(code),
            }
        }
    };
    match outcome {
        // An error of the whole request says nothing of partitions.
        Err(code) => response = OffsetDeleteResponse { error_code: code, ..Default::default() },
        Ok(answers) => {
            for (topic, at) in answers.into_iter().zip(refused_at) {
                let each = topic.partitions.iter();
                let partitions = each.map(|(index, error)| answer(*index, group_result(error.as_ref())));
                match at.and_then(|at| response.topics.get_mut(at)) {
                    Some(known) => known.partitions.extend(partitions),
                    None => {
                        let partitions = partitions.collect();
                        response.topics.push(OffsetDeleteResponseTopic { name: topic.topic, partitions });
                    }
                }
            }
        }
    }
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn answer(partition_index: i32, error_code: ErrorCode) -> OffsetDeleteResponsePartition {
    OffsetDeleteResponsePartition { partition_index, error_code }
}

fn work_bytes(request: &Request, asked: &OffsetDeleteRequest) -> usize {
    let (mut count, mut names_bytes) = (asked.topics.len(), 0);
    for topic in &asked.topics {
        count += topic.partitions.len();
        names_bytes += topic.partitions.len() * (asked.group_id.len() + topic.name.len());
    }
    count * PARTITION_BYTES + request.broker.groups.records_bytes(names_bytes)
}
