//! CreateAcls: there is no authorizer, and a client is told so.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k30_create_acls::{AclCreationResult, CreateAclsRequest, CreateAclsResponse};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// What Kafka says to a request that alters ACLs where nothing would obey them.
pub(crate) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// Answers SECURITY_DISABLED for each ACL.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(CreateAclsRequest::decode)?;
    let result = AclCreationResult {
        error_code: ErrorCode::SECURITY_DISABLED,
        error_message: Some(NO_AUTHORIZER.to_string()),
        ..AclCreationResult::default()
    };
    let bytes = size_of::<AclCreationResult>() + NO_AUTHORIZER.len() + 16;
    request.lease_more(asked.creations.len().saturating_mul(bytes)).await?;
    let response =
        CreateAclsResponse { results: vec![result; asked.creations.len()], ..CreateAclsResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
