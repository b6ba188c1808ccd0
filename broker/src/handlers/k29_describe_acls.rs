//! DescribeAcls: there is no authorizer, and a client is told so.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k29_describe_acls::{DescribeAclsRequest, DescribeAclsResponse};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers SECURITY_DISABLED.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    request.decode(DescribeAclsRequest::decode)?;
    let response = DescribeAclsResponse {
        error_code: ErrorCode::SECURITY_DISABLED,
        error_message: Some("No Authorizer is configured on the broker".to_string()),
        ..DescribeAclsResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
