//! AlterConfigs: the configs named replace all overrides of their resource.

use weir_protocol::messages::k33_alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterConfigsResourceResponse, AlterConfigsResponse,
};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// A resource of a request while it is decided on, and as a result.
pub(crate) const RESOURCE_BYTES: usize = 1024;
/// A config of it, beside its name and value, which are held once in each state.
pub(crate) const CONFIG_BYTES: usize = 768;

fn work_bytes(resource: &AlterConfigsResource) -> usize {
    let configs = resource.configs.iter().map(|config| {
        let texts = config.name.len() + config.value.as_ref().map_or(0, String::len);
        CONFIG_BYTES + resource.resource_name.len() + 4 * texts
    });
    RESOURCE_BYTES + 4 * resource.resource_name.len() + configs.sum::<usize>()
}

/// Answers once the configs are in force.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(AlterConfigsRequest::decode)?;
    request.lease_more(asked.resources.iter().map(work_bytes).sum()).await?;
    let asked = request.share(asked);
    let for_controller = asked.clone();
    let altered = request.command(move |controller| controller.alter_configs(&for_controller)).await;
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
