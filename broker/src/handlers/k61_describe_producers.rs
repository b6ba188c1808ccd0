//! DescribeProducers: the idempotent producers that a partition remembers.

use weir_metadata::controller::validate_topic_name;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k61_describe_producers::{
    DescribeProducersRequest, DescribeProducersRequestTopicRequest, DescribeProducersResponse,
    PartitionResponse, ProducerState, TopicResponse,
};
use weir_storage::ActiveProducer;

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// A producer while it is copied out of the log and described.
const PRODUCER_BYTES: usize = size_of::<ActiveProducer>() + size_of::<ProducerState>();
/// A partition, its count of producers, and the text of an error that does not repeat the topic's name.
const PARTITION_BYTES: usize = size_of::<PartitionResponse>() + size_of::<usize>() + NOT_HOSTED.len();
/// What is said of partitions of a topic that does not exist.
const NOT_HOSTED: &str = "This server does not host this topic-partition.";

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeProducersRequest::decode)?;
    // For each partition that is named: more producers than there is memory for are not copied.
    let mut counts = Vec::new();
    let named: usize = asked.topics.iter().map(|topic| topic.partition_indexes.len()).sum();
    let each = |topic: &DescribeProducersRequestTopicRequest| size_of::<TopicResponse>() + topic.name.len();
    let topics: usize = asked.topics.iter().map(each).sum();
    request.lease_more(named.saturating_mul(PARTITION_BYTES).saturating_add(topics)).await?;
    counts.reserve_exact(named);
    let mut messages: usize = 0;
    for topic in &asked.topics {
        if let Err(error) = validate_topic_name(&topic.name) {
            // It repeats the name, which may be long, and each partition has it.
            messages =
                messages.saturating_add(error.message.len().saturating_mul(topic.partition_indexes.len()));
        }
        for index in &topic.partition_indexes {
            let partition = request.broker.led_partition(&topic.name, *index, -1);
            counts.push(partition.map_or(0, |partition| partition.log.producer_count()));
        }
    }
    let producers = counts.iter().fold(0, |sum: usize, count| sum.saturating_add(*count));
    request.lease_more(producers.saturating_mul(PRODUCER_BYTES).saturating_add(messages)).await?;
    let mut counts = counts.into_iter();
    let topics = asked.topics.iter().map(|topic| {
        let invalid = validate_topic_name(&topic.name).err().map(|error| (error.code, Some(error.message)));
        TopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partition_indexes
                .iter()
                .zip(&mut counts)
                .map(|(index, most)| match &invalid {
                    Some((code, message)) => refused(*index, *code, message.clone()),
                    None => describe(&request.broker, &topic.name, *index, most),
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

fn describe(broker: &Broker, topic: &str, partition_index: i32, most: usize) -> PartitionResponse {
    let partition = match broker.led_partition(topic, partition_index, -1) {
        Ok(partition) => partition,
        Err(code) => {
            let unknown = broker.topics.by_name(topic).is_none();
            let message = unknown.then(|| NOT_HOSTED.to_string());
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
        active_producers: partition.log.active_producers_at_most(most).into_iter().map(state).collect(),
        ..refused(partition_index, ErrorCode::NONE, None)
    }
}
