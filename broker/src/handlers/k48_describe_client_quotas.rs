//! DescribeClientQuotas: there are no quotas yet.

use weir_protocol::messages::k48_describe_client_quotas::{
    DescribeClientQuotasRequest, DescribeClientQuotasResponse,
};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers that no entity has a quota.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    request.decode(DescribeClientQuotasRequest::decode)?;
    let response = DescribeClientQuotasResponse {
        error_message: None,
        entries: Some(Vec::new()),
        ..DescribeClientQuotasResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
