//! IncrementalAlterConfigs: single configs are set, deleted, or grow and shrink as lists (KIP-339).

use weir_protocol::messages::k44_incremental_alter_configs::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse, IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
};

use super::k33_alter_configs::{CONFIG_BYTES, RESOURCE_BYTES};
use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

fn work_bytes(resource: &IncrementalAlterConfigsRequestAlterConfigsResource) -> usize {
    let configs = resource.configs.iter().map(|config| {
        let texts = config.name.len() + config.value.as_ref().map_or(0, String::len);
        CONFIG_BYTES + resource.resource_name.len() + 4 * texts
    });
    RESOURCE_BYTES + 4 * resource.resource_name.len() + configs.sum::<usize>()
}

/// Answers once the configs are in force.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(IncrementalAlterConfigsRequest::decode)?;
    request.lease_more(asked.resources.iter().map(work_bytes).sum()).await?;
    let asked = request.share(asked);
    let for_controller = asked.clone();
    let altered =
        request.command(move |controller| controller.incremental_alter_configs(&for_controller)).await;
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
