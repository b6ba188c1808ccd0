//! AlterPartitionReassignments: what one node can do about its partitions' replicas.

use weir_protocol::messages::k45_alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// A partition of a request: as a record and as a result with its message.
const PARTITION_BYTES: usize = 1024;

/// Answers once the replicas are those asked for.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(AlterPartitionReassignmentsRequest::decode)?;
    let partitions: usize = asked.topics.iter().map(|topic| topic.partitions.len()).sum();
    request.lease_more((asked.topics.len() + partitions).saturating_mul(PARTITION_BYTES)).await?;
    if asked.topics.is_empty() {
        // As Kafka answers what asks for nothing: with the response's defaults.
        let response = AlterPartitionReassignmentsResponse::default();
        return Ok(Some(request.reply(|w| response.encode(w, request.version)).await?));
    }
    let asked = request.share(asked);
    let allows = asked.allow_replication_factor_change;
    let altered = request.command(move |controller| controller.alter_partition_reassignments(&asked)).await;
    let mut response = altered.unwrap_or_else(|error| AlterPartitionReassignmentsResponse {
        error_code: controller_code(&error),
        error_message: Some(error.to_string()),
        ..AlterPartitionReassignmentsResponse::default()
    });
    response.allow_replication_factor_change = allows;
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
