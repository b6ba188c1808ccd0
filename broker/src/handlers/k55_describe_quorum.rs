//! DescribeQuorum: the quorum of one that writes the metadata log.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k55_describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumResponseListener,
    DescribeQuorumResponsePartitionData, DescribeQuorumResponseReplicaState, DescribeQuorumResponseTopicData,
    Node,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::quorum::TOPIC;
use crate::request::{Reply, Request};

/// A partition that is not there: its result and the message.
const PARTITION_BYTES: usize = size_of::<DescribeQuorumResponsePartitionData>() + 64;

/// Answers for the metadata partition; any other is unknown.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeQuorumRequest::decode)?;
    let version = request.version;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    let names: usize = asked.topics.iter().map(|topic| topic.topic_name.len()).sum();
    request.lease_more((asked.topics.len() + partitions).saturating_mul(PARTITION_BYTES) + names).await?;
    let is_metadata = matches!(asked.topics.as_slice(), [topic]
        if topic.topic_name == TOPIC && matches!(topic.partitions.as_slice(), [partition] if partition.partition_index == 0));
    let response = if is_metadata {
        quorum(&request.broker, version)
    } else {
        let topics = asked.topics.iter().map(|topic| DescribeQuorumResponseTopicData {
            topic_name: topic.topic_name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|partition| DescribeQuorumResponsePartitionData {
                    partition_index: partition.partition_index,
                    error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    error_message: Some("This server does not host this topic-partition.".to_string()),
                    ..DescribeQuorumResponsePartitionData::default()
                })
                .collect(),
            ..DescribeQuorumResponseTopicData::default()
        });
        DescribeQuorumResponse { topics: topics.collect(), ..DescribeQuorumResponse::default() }
    };
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}

fn quorum(broker: &Broker, version: i16) -> DescribeQuorumResponse {
    let log = &broker.metadata_log;
    let now_ms = if version >= 1 { broker.now_ms() } else { -1 };
    let voter = DescribeQuorumResponseReplicaState {
        replica_id: broker.node_id,
        replica_directory_id: broker.voter_directory_id,
        log_end_offset: log.log_end_offset().get(),
        last_fetch_timestamp: now_ms,
        last_caught_up_timestamp: now_ms,
        ..DescribeQuorumResponseReplicaState::default()
    };
    let partition = DescribeQuorumResponsePartitionData {
        partition_index: 0,
        leader_id: broker.node_id,
        leader_epoch: broker.metadata_epoch,
        high_watermark: log.high_watermark().get(),
        current_voters: vec![voter],
        ..DescribeQuorumResponsePartitionData::default()
    };
    let listeners = broker.listeners.iter().map(|listener| DescribeQuorumResponseListener {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
        ..DescribeQuorumResponseListener::default()
    });
    let node = Node { node_id: broker.node_id, listeners: listeners.collect(), ..Node::default() };
    DescribeQuorumResponse {
        topics: vec![DescribeQuorumResponseTopicData {
            topic_name: TOPIC.to_string(),
            partitions: vec![partition],
            ..DescribeQuorumResponseTopicData::default()
        }],
        nodes: if version >= 2 { vec![node] } else { Vec::new() },
        ..DescribeQuorumResponse::default()
    }
}
