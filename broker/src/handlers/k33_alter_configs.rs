//! AlterConfigs: the configs named replace all overrides of their resource.

use std::sync::Arc;

use weir_protocol::messages::k33_alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// Answers once the configs are in force.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = Arc::new(request.decode(AlterConfigsRequest::decode)?);
    let for_controller = Arc::clone(&asked);
    let altered =
        request.broker.controller.run(move |controller| controller.alter_configs(&for_controller)).await;
    let response = altered.unwrap_or_else(|error| {
        let refused = |resource: &AlterConfigsResource| AlterConfigsResourceResponse {
            error_code: controller_code(&error),
            error_message: Some(error.to_string()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            ..AlterConfigsResourceResponse::default()
        };
        AlterConfigsResponse {
            responses: asked.resources.iter().map(refused).collect(),
            ..AlterConfigsResponse::default()
        }
    });
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
