//! ElectLeaders: the one replica of each partition is its leader, so there is an election only after a fault.

use weir_protocol::messages::k43_elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, ReplicaElectionResult,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// The result of a topic of which nothing needs an election.
const TOPIC_BYTES: usize = size_of::<ReplicaElectionResult>() + 64;

/// A partition of a request: as a record and as a result.
const PARTITION_BYTES: usize = 1024;

/// Answers once the leaders are in office.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ElectLeadersRequest::decode)?;
    if asked.topic_partitions.is_none() {
        let topics = request.broker.image().topics().len();
        request.lease_more(topics.saturating_mul(TOPIC_BYTES)).await?;
    }
    if let Some(topics) = &asked.topic_partitions {
        let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
        let names: usize = topics.iter().map(|topic| TOPIC_BYTES + 2 * topic.topic.len()).sum();
        request.lease_more(partitions.saturating_mul(PARTITION_BYTES) + names).await?;
    }
    let asked = request.share(asked);
    let version = request.version;
    let elected = request.command(move |controller| controller.elect_leaders(&asked)).await;
    let mut response = elected.unwrap_or_else(|error| ElectLeadersResponse {
        error_code: controller_code(&error),
        ..ElectLeadersResponse::default()
    });
    if version == 0 {
        // Version 0 has no place for the error of the whole request.
        response.error_code = weir_protocol::messages::ErrorCode::NONE;
    }
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}
