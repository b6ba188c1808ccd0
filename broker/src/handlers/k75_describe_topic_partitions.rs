//! DescribeTopicPartitions: topics in the order of their names, a limited number of partitions at a time (KIP-966).

use std::collections::BTreeSet;

use weir_metadata::controller::validate_topic_name;
use weir_metadata::image::{MetadataImage, Partition, TopicImage};
use weir_metadata::properties::keys;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k75_describe_topic_partitions::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsRequestCursor, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

use super::k03_metadata::{OPERATIONS_NOT_ASKED, TOPIC_OPERATIONS};
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};
use crate::topics::is_internal;

/// A partition in the response: its lists have one element each.
const PARTITION_BYTES: usize = size_of::<DescribeTopicPartitionsResponsePartition>() + 3 * 16;
/// A topic in the response with its name, which is in the set of those asked for, too.
const TOPIC_BYTES: usize = size_of::<DescribeTopicPartitionsResponseTopic>() + 249 + 64;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeTopicPartitionsRequest::decode)?;
    let image = request.broker.image();
    let most = request.broker.config.load().get(keys::MAX_REQUEST_PARTITION_SIZE_LIMIT);
    let limit = usize::try_from(asked.response_partition_limit.min(most)).unwrap_or(0).max(1);
    // Each topic that exists brings a partition at least, so the limit bounds them too.
    let partitions = limit.min(image.topics().partition_count());
    let topics = if asked.topics.is_empty() { partitions } else { asked.topics.len() };
    request.lease_more(partitions * PARTITION_BYTES + topics.saturating_mul(TOPIC_BYTES)).await?;
    let response = if check(&asked).is_ok() { page(&image, &asked, limit) } else { refused(&asked) };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

/// A cursor must name a partition, of a topic that is asked for.
fn check(asked: &DescribeTopicPartitionsRequest) -> Result<(), ErrorCode> {
    match &asked.cursor {
        None => Ok(()),
        Some(cursor) => {
            let is_asked =
                asked.topics.is_empty() || asked.topics.iter().any(|topic| topic.name == cursor.topic_name);
            if is_asked && cursor.partition_index >= 0 { Ok(()) } else { Err(ErrorCode::INVALID_REQUEST) }
        }
    }
}

/// There is no error for the whole response: each topic carries it.
fn refused(asked: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = asked.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST,
        name: Some(topic.name.clone()),
        topic_authorized_operations: OPERATIONS_NOT_ASKED,
        ..DescribeTopicPartitionsResponseTopic::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..DescribeTopicPartitionsResponse::default() }
}

fn page(
    image: &MetadataImage,
    asked: &DescribeTopicPartitionsRequest,
    limit: usize,
) -> DescribeTopicPartitionsResponse {
    let cursor = asked.cursor.as_ref();
    let from = cursor.map_or("", |cursor| cursor.topic_name.as_str());
    let mut page = Page { image, cursor, left: limit, response: DescribeTopicPartitionsResponse::default() };
    if asked.topics.is_empty() {
        for topic in image.topics().iter_from(from) {
            if !page.add(topic.name()) {
                break;
            }
        }
    } else {
        let names: BTreeSet<&str> =
            asked.topics.iter().map(|topic| topic.name.as_str()).filter(|name| *name >= from).collect();
        for name in names {
            if !page.add(name) {
                break;
            }
        }
    }
    page.response
}

struct Page<'a> {
    image: &'a MetadataImage,
    cursor: Option<&'a DescribeTopicPartitionsRequestCursor>,
    left: usize,
    response: DescribeTopicPartitionsResponse,
}

impl Page<'_> {
    /// Adds a topic or as much of it as there is room for. False when the page is full.
    fn add(&mut self, name: &str) -> bool {
        if self.left == 0 {
            self.continue_at(name, 0);
            return false;
        }
        let Some(topic) = self.image.topics().by_name(name) else {
            self.response.topics.push(missing(name));
            return true;
        };
        let first = match self.cursor {
            Some(cursor) if cursor.topic_name == name => usize::try_from(cursor.partition_index).unwrap_or(0),
            _ => 0,
        };
        let partitions = topic.partitions().get(first..).unwrap_or_default();
        let shown = partitions.get(..self.left).unwrap_or(partitions);
        self.response.topics.push(found(self.image, topic, shown));
        self.left -= shown.len();
        if shown.len() < partitions.len() {
            self.continue_at(name, first + shown.len());
            return false;
        }
        true
    }

    fn continue_at(&mut self, name: &str, index: usize) {
        self.response.next_cursor = Some(DescribeTopicPartitionsResponseCursor {
            topic_name: name.to_string(),
            partition_index: i32::try_from(index).unwrap_or(i32::MAX),
            ..DescribeTopicPartitionsResponseCursor::default()
        });
    }
}

fn missing(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let error_code = match validate_topic_name(name) {
        Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        Err(error) => error.code,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code,
        name: Some(name.to_string()),
        is_internal: is_internal(name),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn found(
    image: &MetadataImage,
    topic: &TopicImage,
    partitions: &[Partition],
) -> DescribeTopicPartitionsResponseTopic {
    let offline = |partition: &Partition| {
        partition.replicas.iter().copied().filter(|id| !image.cluster().serves(*id, partition)).collect()
    };
    let partitions = partitions.iter().map(|partition| DescribeTopicPartitionsResponsePartition {
        error_code: if partition.leader >= 0 { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE },
        partition_index: partition.partition_id,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.to_vec(),
        isr_nodes: partition.isr.to_vec(),
        eligible_leader_replicas: Some(partition.eligible_leader_replicas.to_vec()),
        last_known_elr: Some(partition.last_known_elr.to_vec()),
        offline_replicas: offline(partition),
        ..DescribeTopicPartitionsResponsePartition::default()
    });
    DescribeTopicPartitionsResponseTopic {
        name: Some(topic.name().to_string()),
        topic_id: topic.id(),
        is_internal: is_internal(topic.name()),
        partitions: partitions.collect(),
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}
