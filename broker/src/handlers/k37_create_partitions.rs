//! CreatePartitions: topics grow.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k37_create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// A topic of a request: told apart from the others, and as a result.
const TOPIC_BYTES: usize = 1024;
/// A manual assignment of one partition.
const ASSIGNMENT_BYTES: usize = 128;

/// Adds the partitions and answers once they are served.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(CreatePartitionsRequest::decode)?;
    request.lease_more(asked.topics.iter().map(work_bytes).sum()).await?;
    let asked = request.share(asked);
    let for_controller = asked.clone();
    let created = request.command(move |controller| controller.create_partitions(&for_controller)).await;
    let response =
        created.unwrap_or_else(|error| refuse_all(&asked, controller_code(&error), &error.to_string()));
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

/// Memory of one topic of a request while it is decided on. The records of new partitions are part of their own charge.
fn work_bytes(topic: &CreatePartitionsTopic) -> usize {
    let assignments = topic.assignments.iter().flatten();
    TOPIC_BYTES + assignments.map(|it| ASSIGNMENT_BYTES + 8 * it.broker_ids.len()).sum::<usize>()
}

fn refuse_all(
    asked: &CreatePartitionsRequest,
    error_code: ErrorCode,
    message: &str,
) -> CreatePartitionsResponse {
    let refused = |topic: &CreatePartitionsTopic| CreatePartitionsTopicResult {
        name: topic.name.clone(),
        error_code,
        error_message: Some(message.to_string()),
        ..CreatePartitionsTopicResult::default()
    };
    CreatePartitionsResponse {
        results: asked.topics.iter().map(refused).collect(),
        ..CreatePartitionsResponse::default()
    }
}
