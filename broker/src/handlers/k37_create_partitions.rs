//! CreatePartitions: topics grow.

use std::sync::Arc;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k37_create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::k19_create_topics::lease_records;
use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// Adds the partitions and answers once they are served.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = Arc::new(request.decode(CreatePartitionsRequest::decode)?);
    let image = request.broker.image();
    let more = |topic: &CreatePartitionsTopic| {
        let now = image.topics().by_name(&topic.name).map_or(0, |topic| topic.partitions().len());
        usize::try_from(topic.count).unwrap_or(0).saturating_sub(now) as u64
    };
    let records = asked.topics.iter().map(more).sum();
    drop(image);
    let response = match lease_records(&request, records).await {
        Ok(_lease) => {
            let for_controller = Arc::clone(&asked);
            let created = request
                .broker
                .controller
                .run(move |controller| controller.create_partitions(&for_controller));
            created
                .await
                .unwrap_or_else(|error| refuse_all(&asked, controller_code(&error), &error.to_string()))
        }
        Err(error) => refuse_all(&asked, ErrorCode::POLICY_VIOLATION, &error.to_string()),
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
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
