//! UnregisterBroker: takes a broker that is gone out of the metadata.

use weir_protocol::messages::k64_unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// Answers once the broker is out.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(UnregisterBrokerRequest::decode)?;
    let done = request.command(move |controller| controller.unregister_broker(&asked)).await;
    let response = done.unwrap_or_else(|error| UnregisterBrokerResponse {
        error_code: controller_code(&error),
        error_message: Some(error.to_string()),
        ..UnregisterBrokerResponse::default()
    });
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
