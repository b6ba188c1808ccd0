//! OffsetForLeaderEpoch: where a leader epoch ends, by which a client finds out whether its log was cut.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k23_offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition, OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers from the epochs that the logs hold in memory.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(OffsetForLeaderEpochRequest::decode)?;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    let each = |topic: &OffsetForLeaderTopic| size_of::<OffsetForLeaderTopicResult>() + topic.topic.len();
    let topics: usize = asked.topics.iter().map(each).sum();
    let partitions = partitions.saturating_mul(size_of::<OffsetForLeaderEpochResponseEpochEndOffset>());
    request.lease_more(partitions.saturating_add(topics)).await?;
    let topics = asked.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| end_offset(&request.broker, &topic.topic, partition, request.version))
            .collect(),
        ..OffsetForLeaderTopicResult::default()
    });
    let response =
        OffsetForLeaderEpochResponse { topics: topics.collect(), ..OffsetForLeaderEpochResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn end_offset(
    broker: &Broker,
    topic: &str,
    asked: &OffsetForLeaderPartition,
    version: i16,
) -> OffsetForLeaderEpochResponseEpochEndOffset {
    const UNDEFINED: (i32, i64) = (-1, -1);
    let found = broker
        .led_partition(topic, asked.partition, asked.current_leader_epoch)
        .map(|partition| partition.log.end_offset_for_epoch(asked.leader_epoch).unwrap_or(UNDEFINED));
    let (error_code, (leader_epoch, end_offset)) = match found {
        Ok(found) => (ErrorCode::NONE, found),
        Err(code) => (code, UNDEFINED),
    };
    OffsetForLeaderEpochResponseEpochEndOffset {
        error_code,
        partition: asked.partition,
        leader_epoch: if version >= 1 { leader_epoch } else { -1 },
        end_offset,
        ..OffsetForLeaderEpochResponseEpochEndOffset::default()
    }
}
