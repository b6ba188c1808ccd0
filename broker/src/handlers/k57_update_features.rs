//! UpdateFeatures: metadata.version goes up, or down where nothing is lost by it.

use weir_protocol::messages::k57_update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// An update of a request, and its result, which repeats the message of the one that failed.
const FEATURE_BYTES: usize = 768;

/// Answers once the levels are in force.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(UpdateFeaturesRequest::decode)?;
    let bytes = asked.feature_updates.iter().map(|update| FEATURE_BYTES + 4 * update.feature.len()).sum();
    request.lease_more(bytes).await?;
    let asked = request.share(asked);
    let updated = request.command(move |controller| controller.update_features(&asked)).await;
    let response = updated.unwrap_or_else(|error| UpdateFeaturesResponse {
        error_code: controller_code(&error),
        error_message: Some(error.to_string()),
        ..UpdateFeaturesResponse::default()
    });
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
