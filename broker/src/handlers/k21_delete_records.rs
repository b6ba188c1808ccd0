//! DeleteRecords: moves the log start of partitions, durably before the answer.

use std::sync::Arc;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k21_delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};
use weir_storage::{MovedLogStart, StorageError};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::request::{Reply, Request};
use crate::topics::Partition;

/// The low watermark of a partition whose records were not deleted.
const NO_LOW_WATERMARK: i64 = -1;

/// A partition whose log start was moved, or why it was not.
type Moved = Result<(Arc<Partition>, MovedLogStart), ErrorCode>;

/// Answers once the new log starts are on the disk.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DeleteRecordsRequest::decode)?;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    let each = |topic: &DeleteRecordsTopic| size_of::<DeleteRecordsTopicResult>() + topic.name.len();
    let topics: usize = asked.topics.iter().map(each).sum();
    let one = size_of::<DeleteRecordsPartitionResult>() + size_of::<Moved>();
    let partitions = partitions.saturating_mul(one);
    request.lease_more(partitions.saturating_add(topics)).await?;
    let broker = Arc::clone(&request.broker);
    let response = request.block(move || delete(&broker, &asked)).await?;
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn delete(broker: &Broker, asked: &DeleteRecordsRequest) -> DeleteRecordsResponse {
    // All starts first: those of one directory are written together then.
    let asked_partitions =
        || asked.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
    let moved: Vec<Moved> = asked_partitions()
        .map(|(topic, partition)| move_one(broker, &topic.name, partition.partition_index, partition.offset))
        .collect();
    let mut moved = moved.into_iter();
    let topics = asked.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().zip(&mut moved).map(|(partition, moved)| {
            let (error_code, low_watermark) = match moved.and_then(|moved| persist_one(broker, moved)) {
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

fn move_one(broker: &Broker, name: &str, index: i32, offset: i64) -> Moved {
    let topic = broker.topics.by_name(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = broker.led_partition(name, index, -1)?;
    if topic.internal {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    if !topic.settings.load().config.delete {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    let moved = partition.log.move_log_start(offset);
    // A long poll that waits below the new start has its answer now.
    partition.wake();
    moved.map_err(|error| failed(broker, &partition, &error)).map(|moved| (partition, moved))
}

fn persist_one(
    broker: &Broker,
    (partition, moved): (Arc<Partition>, MovedLogStart),
) -> Result<i64, ErrorCode> {
    let start = partition.log.persist_log_start(moved);
    start.map(|start| start.get()).map_err(|error| failed(broker, &partition, &error))
}

fn failed(broker: &Broker, partition: &Arc<Partition>, error: &StorageError) -> ErrorCode {
    broker.note_append_failure(partition, error);
    storage_code(error)
}
