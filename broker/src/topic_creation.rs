//! Topics that the broker creates by itself: on demand of a metadata request, and its own offsets topic.

use std::collections::BTreeSet;

use weir_metadata::controller::{Controller, ControllerResult};
use weir_metadata::properties::keys;
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k19_create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};

use crate::broker::Broker;
use crate::groups::OFFSETS_TOPIC;
use crate::quorum::ControllerError;
use crate::server::random_uuid;

impl Broker {
    /// Creates the topics with the broker's defaults; the offsets topic with settings of its own. What fails is logged.
    /// `held` covers their memory, if it is not small.
    pub(crate) async fn create_topics_on_demand(
        &self,
        names: BTreeSet<String>,
        held: impl Clone + Send + 'static,
    ) {
        let topics = names.into_iter().map(|name| self.on_demand(name)).collect();
        let request = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
        match self.create_topics(request, held.clone()).await {
            Ok(response) => {
                for topic in response.topics {
                    match topic.error_code {
                        ErrorCode::NONE => tracing::info!(topic = topic.name, "created on demand"),
                        ErrorCode::TOPIC_ALREADY_EXISTS => {}
                        // The limit behind it, if there is one, has its own line.
                        code => {
                            if let Some(unsaid) = self.complaints.allow() {
                                let why = topic.error_message.unwrap_or_default();
                                tracing::warn!(
                                    topic = topic.name,
                                    ?code,
                                    unsaid,
                                    "cannot create a topic on demand: {why}"
                                );
                            }
                        }
                    }
                }
            }
            Err(error) => tracing::warn!("cannot create topics on demand: {error}"),
        }
    }

    fn on_demand(&self, name: String) -> CreatableTopic {
        let config = self.config.load();
        let broker_default =
            CreatableTopic { name, num_partitions: -1, replication_factor: -1, ..CreatableTopic::default() };
        if broker_default.name != OFFSETS_TOPIC {
            return broker_default;
        }
        let setting = |name: &str, value: String| CreatableTopicConfig {
            name: name.to_string(),
            value: Some(value),
            ..CreatableTopicConfig::default()
        };
        CreatableTopic {
            num_partitions: config.get(keys::OFFSETS_TOPIC_NUM_PARTITIONS),
            // Whatever offsets.topic.replication.factor says: the start has told of it.
            replication_factor: config.default_replication_factor(),
            configs: vec![
                setting("cleanup.policy", "compact".to_string()),
                setting("compression.type", "producer".to_string()),
                setting("segment.bytes", config.get(keys::OFFSETS_TOPIC_SEGMENT_BYTES).to_string()),
            ],
            ..broker_default
        }
    }

    /// CreateTopics through the controller; served once it returns. `held` covers the request's memory and that of the
    /// response, and is dropped when the controller is done.
    pub(crate) async fn create_topics(
        &self,
        request: CreateTopicsRequest,
        held: impl Send + 'static,
    ) -> Result<CreateTopicsResponse, ControllerError> {
        let create = move |controller: Controller<'_>| -> ControllerResult<CreateTopicsResponse> {
            controller.create_topics(&request, &mut random_uuid)
        };
        self.controller.run_holding(held, create).await
    }
}
