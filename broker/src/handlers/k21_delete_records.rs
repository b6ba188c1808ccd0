//! DeleteRecords: moves the log start of partitions, durably before the answer.

use std::sync::Arc;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k21_delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::request::{Reply, Request};

/// The low watermark of a partition whose records were not deleted.
const NO_LOW_WATERMARK: i64 = -1;

/// Answers once the new log starts are on the disk.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DeleteRecordsRequest::decode)?;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    let each = |topic: &DeleteRecordsTopic| size_of::<DeleteRecordsTopicResult>() + topic.name.len();
    let topics: usize = asked.topics.iter().map(each).sum();
    let partitions = partitions.saturating_mul(size_of::<DeleteRecordsPartitionResult>());
    request.lease_more(partitions.saturating_add(topics)).await?;
    let broker = Arc::clone(&request.broker);
    let response = request.block(move || delete(&broker, &asked)).await?;
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn delete(broker: &Broker, asked: &DeleteRecordsRequest) -> DeleteRecordsResponse {
    let topics = asked.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let (error_code, low_watermark) =
                match delete_one(broker, &topic.name, partition.partition_index, partition.offset) {
                    Ok(low_watermark) => (ErrorCode::NONE, low_watermark),
                    Err(code) => (code, NO_LOW_WATERMARK),
                };
            DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark,
                error_code,
                ..DeleteRecordsPartitionResult::default()
            }
        });
        DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..DeleteRecordsTopicResult::default()
        }
    });
    DeleteRecordsResponse { topics: topics.collect(), ..DeleteRecordsResponse::default() }
}

fn delete_one(broker: &Broker, name: &str, index: i32, offset: i64) -> Result<i64, ErrorCode> {
    let topic = broker.topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = broker.led_partition(name, index, -1)?;
    if topic.internal {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    if !topic.settings.load().config.delete {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let deleted = partition.log.delete_records(offset);
    // A long poll that waits below the new start has its answer now.
    partition.wake();
    deleted.map(|start| start.get()).map_err(|error| {
        broker.note_append_failure(&partition, &error);
        storage_code(&error)
    })
}
