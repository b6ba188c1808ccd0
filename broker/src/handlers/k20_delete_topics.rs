//! DeleteTopics, by name or by id.

use weir_protocol::messages::k20_delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};
use weir_protocol::wire::Uuid;

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Reply, Request};

/// A topic of a request: told apart from the others, as a record and as a result.
const TOPIC_BYTES: usize = 768;

/// Deletes the topics and answers once nobody is served from them any more.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DeleteTopicsRequest::decode)?;
    let names = asked.topic_names.iter().chain(asked.topics.iter().filter_map(|topic| topic.name.as_ref()));
    let names: usize = names.map(|name| 2 * name.len()).sum();
    let count = asked.topic_names.len() + asked.topics.len();
    request.lease_more(count.saturating_mul(TOPIC_BYTES) + names).await?;
    let asked = request.share(asked);
    let version = request.version;
    let for_controller = asked.clone();
    let deleted = request.command(move |controller| controller.delete_topics(&for_controller, version)).await;
    let response = deleted.unwrap_or_else(|error| {
        let refused = |name: Option<String>, topic_id: Uuid| DeletableTopicResult {
            name,
            topic_id,
            error_code: controller_code(&error),
            error_message: Some(error.to_string()),
            ..DeletableTopicResult::default()
        };
        let by_name = asked.topic_names.iter().map(|name| refused(Some(name.clone()), Uuid::ZERO));
        let by_either = asked.topics.iter().map(|topic| refused(topic.name.clone(), topic.topic_id));
        DeleteTopicsResponse {
            responses: by_name.chain(by_either).collect(),
            ..DeleteTopicsResponse::default()
        }
    });
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}
