//! CreateTopics.
//!
//! Method: the topics go to the controller a few at a time, so that a request of any number of them takes the memory of
//! those few; their outcomes are kept, and the configs of each created topic are described while the reply is sent. The
//! records of new partitions need no lease: their memory is that of the partitions' own charge, whose logs are opened
//! after the records are gone.

use std::collections::HashSet;
use std::sync::Arc;

use weir_budget::Lease;
use weir_metadata::controller::creation_configs;
use weir_protocol::messages::k19_create_topics::{
    CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{Uuid, put_array_len, put_empty_tags, put_i32};

use crate::connection::ConnectionError;
use crate::errors::controller_code;
use crate::request::{Part, Reply, Request, Shared};

/// Most topics that the controller is asked to create at once.
const TOPICS_AT_ONCE: usize = 64;
/// Where these have long configs there are fewer, so that they take no more than this.
const BYTES_AT_ONCE: usize = 128 * 1024;
/// A topic while it is decided on, encoded and replayed, without its partitions and configs.
const TOPIC_BYTES: usize = 1024;
/// A config of it, beside its name and value, which are held once in each state.
const CONFIG_BYTES: usize = 768;
/// A manual assignment of one partition.
const ASSIGNMENT_BYTES: usize = 256;
/// The description of one created topic.
const DESCRIPTION_BYTES: usize = 48 * 1024;

/// What became of one topic of the request.
struct Outcome {
    /// Its place in the request.
    topic: usize,
    error_code: ErrorCode,
    message: Option<String>,
    topic_id: Uuid,
    partitions: i32,
    replication_factor: i16,
}

/// Creates the topics and answers once they are served.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(CreateTopicsRequest::decode)?;
    let asked = request.share(asked);
    let each = size_of::<Outcome>() + 3 * size_of::<usize>() + 2 * size_of::<&str>();
    let mut leases = vec![request.lease_some(asked.topics.len() * each).await?];
    let mut outcomes = Vec::with_capacity(asked.topics.len());
    let order = order(&asked.topics);
    let mut rest = order.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(portion(&asked, rest));
        rest = later;
        let before = outcomes.len();
        create(&request, &asked, now, &mut outcomes).await?;
        let messages: usize = outcomes[before..].iter().map(|outcome| outcome.message_bytes()).sum();
        leases.push(request.lease_some(messages).await?);
    }
    drop(order);
    Ok(Some(reply(&request, asked, outcomes, leases).await?))
}

impl Outcome {
    fn message_bytes(&self) -> usize {
        self.message.as_ref().map_or(0, String::capacity)
    }
}

/// Topics that are named twice come last, so that the controller sees them together.
fn order(topics: &[CreatableTopic]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(topics.len());
    let repeated: HashSet<&str> =
        topics.iter().map(|topic| topic.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    let is_repeated = |index: &usize| repeated.contains(topics[*index].name.as_str());
    let mut order: Vec<usize> = (0..topics.len()).filter(|index| !is_repeated(index)).collect();
    order.extend((0..topics.len()).filter(is_repeated));
    order
}

/// How many of `rest` are created now: those of one name are not parted.
fn portion(asked: &CreateTopicsRequest, rest: &[usize]) -> usize {
    let (mut count, mut bytes) = (0, 0);
    let mut names: HashSet<&str> = HashSet::new();
    for index in rest {
        let Some(topic) = asked.topics.get(*index) else { break };
        bytes += work_bytes(topic);
        let is_new = names.insert(topic.name.as_str());
        if count > 0 && is_new && (count >= TOPICS_AT_ONCE || bytes > BYTES_AT_ONCE) {
            break;
        }
        count += 1;
    }
    count
}

fn work_bytes(topic: &CreatableTopic) -> usize {
    let config = |config: &CreatableTopicConfig| {
        CONFIG_BYTES
            + topic.name.len()
            + 4 * (config.name.len() + config.value.as_ref().map_or(0, String::len))
    };
    TOPIC_BYTES
        + 4 * topic.name.len()
        + topic.configs.iter().map(config).sum::<usize>()
        + topic.assignments.iter().map(|it| ASSIGNMENT_BYTES + 8 * it.broker_ids.len()).sum::<usize>()
}

/// Has some of the topics created, and notes what became of them.
async fn create(
    request: &Request,
    asked: &Shared<CreateTopicsRequest>,
    indexes: &[usize],
    outcomes: &mut Vec<Outcome>,
) -> Result<(), ConnectionError> {
    let topics = || indexes.iter().filter_map(|index| asked.topics.get(*index));
    // The controller's as much as ours: it works on when the connection is gone.
    let work = Arc::new(request.lease_some(topics().map(work_bytes).sum()).await?);
    let portion = CreateTopicsRequest {
        topics: topics().cloned().collect(),
        timeout_ms: asked.timeout_ms,
        validate_only: asked.validate_only,
        ..CreateTopicsRequest::default()
    };
    let created = request.broker.create_topics(portion, Arc::clone(&work)).await;
    let outcome = |topic, result: &CreatableTopicResult| Outcome {
        topic,
        error_code: result.error_code,
        message: result.error_message.clone(),
        topic_id: result.topic_id,
        partitions: result.num_partitions,
        replication_factor: result.replication_factor,
    };
    let place = |name: &str| indexes.iter().copied().find(|index| asked.topics[*index].name == name);
    match created {
        // One result for each name.
        Ok(response) => outcomes
            .extend(response.topics.iter().filter_map(|result| Some(outcome(place(&result.name)?, result)))),
        Err(error) => {
            let refused = CreatableTopicResult {
                error_code: controller_code(&error),
                error_message: Some(error.to_string()),
                ..CreatableTopicResult::default()
            };
            outcomes.extend(indexes.iter().map(|index| outcome(*index, &refused)));
        }
    }
    Ok(())
}

async fn reply(
    request: &Request,
    asked: Shared<CreateTopicsRequest>,
    outcomes: Vec<Outcome>,
    leases: Vec<Option<Lease>>,
) -> Result<Reply, ConnectionError> {
    let version = request.version;
    let flexible = ApiKey::CreateTopics.is_flexible(version);
    let config = request.broker.config.load_full();
    let count = outcomes.len();
    request
        .reply_in_parts(count, DESCRIPTION_BYTES, move |part, w| match part {
            Part::Head => {
                let _held_with_the_outcomes = &leases;
                if version >= 2 {
                    put_i32(w, 0);
                }
                put_array_len(w, flexible, Some(count))
            }
            Part::Item(index) => {
                let Some((outcome, topic)) =
                    outcomes.get(index).and_then(|outcome| Some((outcome, asked.topics.get(outcome.topic)?)))
                else {
                    return Ok(());
                };
                let is_created = outcome.error_code == ErrorCode::NONE;
                let configs = match is_created && version >= 5 {
                    true => Some(creation_configs(&config, topic)),
                    false if is_created => None,
                    false => Some(Vec::new()),
                };
                CreatableTopicResult {
                    name: topic.name.clone(),
                    topic_id: outcome.topic_id,
                    error_code: outcome.error_code,
                    error_message: outcome.message.clone(),
                    num_partitions: outcome.partitions,
                    replication_factor: outcome.replication_factor,
                    configs,
                    ..CreatableTopicResult::default()
                }
                .encode(w, version)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, config_bytes: usize) -> CreatableTopic {
        let value = Some("x".repeat(config_bytes));
        CreatableTopic {
            name: name.to_string(),
            configs: vec![CreatableTopicConfig { value, ..CreatableTopicConfig::default() }],
            ..CreatableTopic::default()
        }
    }

    #[test]
    fn topics_are_taken_in_portions_and_those_of_one_name_together() {
        let mut topics: Vec<CreatableTopic> =
            (0..100).map(|number| topic(&format!("t{number}"), 0)).collect();
        topics.push(topic("t3", 0));
        let asked = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
        let order = order(&asked.topics);
        assert_eq!(order[98..], [99, 3, 100]);
        let first = portion(&asked, &order);
        assert!(first > 0 && first <= TOPICS_AT_ONCE, "{first}");
        assert_eq!(portion(&asked, &order[99..]), 2);
        let large = CreateTopicsRequest {
            topics: vec![topic("a", 1 << 20), topic("b", 1)],
            ..CreateTopicsRequest::default()
        };
        assert_eq!(portion(&large, &[0, 1]), 1);
    }
}
