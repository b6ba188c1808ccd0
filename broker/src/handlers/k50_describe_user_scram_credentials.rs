//! DescribeUserScramCredentials: there are no users yet.

use std::collections::BTreeMap;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k50_describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// The result of one user: its message names it.
const USER_BYTES: usize = size_of::<DescribeUserScramCredentialsResult>() + 256;

/// Answers that there is nobody, or that the users named are unknown.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeUserScramCredentialsRequest::decode)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let users = asked.users.as_deref().unwrap_or_default();
    request.lease_more(users.len().saturating_mul(USER_BYTES)).await?;
    for user in users {
        *counts.entry(user.name.as_str()).or_default() += 1;
    }
    let result = |(user, count): (&str, usize)| {
        let (error_code, message) = match count {
            1 => (
                ErrorCode::RESOURCE_NOT_FOUND,
                format!("Attempt to describe a user credential that does not exist: {user}"),
            ),
            _ => (
                ErrorCode::DUPLICATE_RESOURCE,
                format!(
                    "Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                ),
            ),
        };
        DescribeUserScramCredentialsResult {
            user: user.to_string(),
            error_code,
            error_message: Some(message),
            ..DescribeUserScramCredentialsResult::default()
        }
    };
    let response = DescribeUserScramCredentialsResponse {
        results: counts.into_iter().map(result).collect(),
        ..DescribeUserScramCredentialsResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
