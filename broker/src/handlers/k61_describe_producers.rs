//! DescribeProducers: the idempotent producers that a partition remembers.

use weir_metadata::controller::validate_topic_name;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k61_describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use weir_storage::ActiveProducer;

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// A producer while it is copied out of the log and described.
const PRODUCER_BYTES: usize = size_of::<ActiveProducer>() + size_of::<ProducerState>();
/// Producers that may appear between the count and the copy.
const SLACK: usize = 16;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeProducersRequest::decode)?;
    let mut bytes: usize = 0;
    for topic in &asked.topics {
        for index in &topic.partition_indexes {
            let partition = request.broker.led_partition(&topic.name, *index, -1);
            let producers = partition.map_or(0, |partition| partition.log.producer_count() + SLACK);
            bytes = bytes
                .saturating_add(size_of::<PartitionResponse>())
                .saturating_add(producers.saturating_mul(PRODUCER_BYTES));
        }
    }
    request.lease_more(bytes).await?;
    let topics = asked.topics.iter().map(|topic| {
        let invalid = validate_topic_name(&topic.name).err().map(|error| (error.code, Some(error.message)));
        TopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partition_indexes
                .iter()
                .map(|index| match &invalid {
                    Some((code, message)) => refused(*index, *code, message.clone()),
                    None => describe(&request.broker, &topic.name, *index),
                })
                .collect(),
            ..TopicResponse::default()
        }
    });
    let response =
        DescribeProducersResponse { topics: topics.collect(), ..DescribeProducersResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn refused(partition_index: i32, error_code: ErrorCode, error_message: Option<String>) -> PartitionResponse {
    PartitionResponse { partition_index, error_code, error_message, ..PartitionResponse::default() }
}

fn describe(broker: &Broker, topic: &str, partition_index: i32) -> PartitionResponse {
    let partition = match broker.led_partition(topic, partition_index, -1) {
        Ok(partition) => partition,
        Err(code) => {
            let unknown = broker.topics.by_name(topic).is_none();
            let message = unknown.then(|| "This server does not host this topic-partition.".to_string());
            return refused(partition_index, code, message);
        }
    };
    let state = |producer: ActiveProducer| ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: i32::from(producer.producer_epoch),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.current_txn_start_offset,
        ..ProducerState::default()
    };
    PartitionResponse {
        active_producers: partition.log.active_producers().into_iter().map(state).collect(),
        ..refused(partition_index, ErrorCode::NONE, None)
    }
}
