//! CreateTopics.
//!
//! Method: the records that a request may lead to are leased before the controller makes them; the configs of each
//! created topic are described while the reply is encoded, one topic at a time.

use std::collections::HashMap;
use std::sync::Arc;

use weir_budget::{BudgetError, Holder, Lease};
use weir_metadata::controller::{MAX_RECORDS_PER_USER_OP, creation_configs};
use weir_metadata::properties::keys;
use weir_protocol::messages::k19_create_topics::{
    CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{put_array_len, put_empty_tags, put_i32};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Part, Reply, Request, lease_patiently};

/// One metadata record while it is decided on, encoded and replayed.
const RECORD_BYTES: u64 = 900;
/// Requests that lead to fewer records take no lease beside their own.
const FEW_RECORDS: u64 = 8;

/// Creates the topics and answers once they are served.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = Arc::new(request.decode(CreateTopicsRequest::decode)?);
    let default_partitions = request.broker.config.load().get(keys::NUM_PARTITIONS);
    let records: u64 = asked.topics.iter().map(|topic| record_count(topic, default_partitions)).sum();
    let response = match lease_records(&request, records).await {
        Ok(_lease) => request
            .broker
            .create_topics(Arc::clone(&asked))
            .await
            .unwrap_or_else(|error| refuse_all(&asked, controller_code(&error), &error.to_string())),
        Err(error) => refuse_all(&asked, ErrorCode::POLICY_VIOLATION, &error.to_string()),
    };
    Ok(Some(reply(&request, &asked, &response).await?))
}

/// Memory for as many metadata records as one request may lead to.
pub(crate) async fn lease_records(request: &Request, records: u64) -> Result<Option<Lease>, BudgetError> {
    if records <= FEW_RECORDS {
        return Ok(None);
    }
    let bytes = records.min(MAX_RECORDS_PER_USER_OP as u64) * RECORD_BYTES;
    let holder = Holder::new("metadata records", request.connection.id);
    lease_patiently(&request.broker.budgets.control, bytes, holder).await.map(Some)
}

fn record_count(topic: &CreatableTopic, default_partitions: i32) -> u64 {
    let partitions = match topic.num_partitions {
        -1 if topic.assignments.is_empty() => default_partitions,
        count => count,
    };
    1 + topic.configs.len() as u64 + topic.assignments.len() as u64 + u64::try_from(partitions).unwrap_or(0)
}

fn refuse_all(asked: &CreateTopicsRequest, error_code: ErrorCode, message: &str) -> CreateTopicsResponse {
    let refused = |topic: &CreatableTopic| CreatableTopicResult {
        name: topic.name.clone(),
        error_code,
        error_message: Some(message.to_string()),
        ..CreatableTopicResult::default()
    };
    CreateTopicsResponse {
        topics: asked.topics.iter().map(refused).collect(),
        ..CreateTopicsResponse::default()
    }
}

async fn reply(
    request: &Request,
    asked: &CreateTopicsRequest,
    response: &CreateTopicsResponse,
) -> Result<Reply, ConnectionError> {
    let version = request.version;
    let flexible = ApiKey::CreateTopics.is_flexible(version);
    let config = request.broker.config.load_full();
    let by_name: HashMap<&str, &CreatableTopic> =
        asked.topics.iter().map(|topic| (topic.name.as_str(), topic)).collect();
    request
        .reply_in_parts(response.topics.len(), |part, w| match part {
            Part::Head => {
                if version >= 2 {
                    put_i32(w, response.throttle_time_ms);
                }
                put_array_len(w, flexible, Some(response.topics.len()))
            }
            Part::Item(index) => {
                let Some(topic) = response.topics.get(index) else { return Ok(()) };
                match by_name.get(topic.name.as_str()) {
                    Some(asked) if topic.error_code == ErrorCode::NONE && version >= 5 => {
                        CreatableTopicResult {
                            configs: Some(creation_configs(&config, asked)),
                            ..topic.clone()
                        }
                        .encode(w, version)
                    }
                    _ => topic.encode(w, version),
                }
            }
            Part::Tail => {
                if flexible {
                    put_empty_tags(w);
                }
                Ok(())
            }
        })
        .await
}
