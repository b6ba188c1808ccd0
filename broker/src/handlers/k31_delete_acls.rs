//! DeleteAcls: there is no authorizer, and a client is told so.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k31_delete_acls::{
    DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse,
};

use super::k30_create_acls::NO_AUTHORIZER;
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers SECURITY_DISABLED for each filter.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DeleteAclsRequest::decode)?;
    let result = DeleteAclsFilterResult {
        error_code: ErrorCode::SECURITY_DISABLED,
        error_message: Some(NO_AUTHORIZER.to_string()),
        ..DeleteAclsFilterResult::default()
    };
    let bytes = size_of::<DeleteAclsFilterResult>() + NO_AUTHORIZER.len() + 16;
    request.lease_more(asked.filters.len().saturating_mul(bytes)).await?;
    let response = DeleteAclsResponse {
        filter_results: vec![result; asked.filters.len()],
        ..DeleteAclsResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
