//! IncrementalAlterConfigs: single configs are set, deleted, or grow and shrink as lists (KIP-339).

use std::sync::Arc;

use weir_protocol::messages::k44_incremental_alter_configs::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse, IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// Answers once the configs are in force.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = Arc::new(request.decode(IncrementalAlterConfigsRequest::decode)?);
    let for_controller = Arc::clone(&asked);
    let altered = request
        .broker
        .controller
        .run(move |controller| controller.incremental_alter_configs(&for_controller))
        .await;
    let response = altered.unwrap_or_else(|error| {
        let refused = |resource: &IncrementalAlterConfigsRequestAlterConfigsResource| {
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse {
                error_code: controller_code(&error),
                error_message: Some(error.to_string()),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..IncrementalAlterConfigsResponseAlterConfigsResourceResponse::default()
            }
        };
        IncrementalAlterConfigsResponse {
            responses: asked.resources.iter().map(refused).collect(),
            ..IncrementalAlterConfigsResponse::default()
        }
    });
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
