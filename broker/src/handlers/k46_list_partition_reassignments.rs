//! ListPartitionReassignments: nothing moves between the brokers of a cluster of one, unless the log came with it.

use weir_metadata::controller::Controller;
use weir_protocol::messages::k46_list_partition_reassignments::ListPartitionReassignmentsRequest;

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers from the metadata image.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ListPartitionReassignmentsRequest::decode)?;
    let (image, config) = (request.broker.image(), request.broker.config.load_full());
    let response = Controller::new(&image, &config).list_partition_reassignments(&asked);
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
