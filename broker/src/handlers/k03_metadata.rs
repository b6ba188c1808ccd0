//! Metadata: brokers, topics and partitions, and the creation of topics on demand.
//!
//! Method: the reply is encoded topic by topic from an immutable image, once to count and once to write, so that a
//! cluster of any size costs its encoded bytes, which are leased, and one topic's values.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_metadata::controller::validate_topic_name;
use weir_metadata::image::{MetadataImage, TopicImage};
use weir_protocol::messages::k03_metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, Sink, Uuid, put_array_len, put_empty_tags, put_i16, put_i32, put_nullable_string,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::request::{Reply, Request};
use crate::topics::is_internal;

/// What "not asked for" looks like in a field of authorized operations.
pub(crate) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;
/// All operations on a topic, as Kafka lists them where nothing is forbidden (AclOperation codes as bits).
pub(crate) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// All operations on the cluster.
pub(crate) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

/// One topic of the reply.
enum Entry {
    Found(Arc<TopicImage>),
    Missing { name: Option<String>, id: Uuid, error_code: ErrorCode },
}

/// Answers one metadata request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let asked = request.decode(MetadataRequest::decode)?;
    let all = match &asked.topics {
        None => true,
        Some(topics) => version == 0 && topics.is_empty(),
    };
    if all {
        let image = broker.image();
        let body = Body { broker: &broker, request: &request, asked: &asked, image: &image };
        return Ok(Some(request.reply(|w| body.encode_all(w)).await?));
    }
    let names = asked.topics.as_deref().unwrap_or_default();
    if asked.allow_auto_topic_creation || version < 4 {
        create_missing(&broker, names).await;
    }
    let image = broker.image();
    let entries: Vec<Entry> = names.iter().map(|topic| find(&image, topic)).collect();
    let body = Body { broker: &broker, request: &request, asked: &asked, image: &image };
    Ok(Some(request.reply(|w| body.encode_some(w, &entries)).await?))
}

fn find(image: &MetadataImage, asked: &MetadataRequestTopic) -> Entry {
    let missing = |error_code| Entry::Missing { name: asked.name.clone(), id: asked.topic_id, error_code };
    match &asked.name {
        // Clients that ask by id leave the name null or empty.
        Some(name) if asked.topic_id.is_zero() => match image.topics().by_name(name) {
            Some(topic) => Entry::Found(Arc::clone(topic)),
            None if validate_topic_name(name).is_ok() => missing(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            None => missing(ErrorCode::INVALID_TOPIC_EXCEPTION),
        },
        _ => match image.topics().by_id(asked.topic_id) {
            Some(topic) => Entry::Found(Arc::clone(topic)),
            None => {
                Entry::Missing { name: None, id: asked.topic_id, error_code: ErrorCode::UNKNOWN_TOPIC_ID }
            }
        },
    }
}

/// Creates the named topics that do not exist, where the broker may. What fails stays unknown in the reply.
async fn create_missing(broker: &Arc<Broker>, asked: &[MetadataRequestTopic]) {
    if !broker.auto_creates_topics() {
        return;
    }
    let image = broker.image();
    let missing: BTreeSet<String> = asked
        .iter()
        .filter(|topic| topic.topic_id.is_zero())
        .filter_map(|topic| topic.name.as_deref())
        .filter(|name| image.topics().by_name(name).is_none() && validate_topic_name(name).is_ok())
        .map(str::to_string)
        .collect();
    if !missing.is_empty() {
        broker.create_topics_on_demand(missing).await;
    }
}

struct Body<'a> {
    broker: &'a Broker,
    request: &'a Request,
    asked: &'a MetadataRequest,
    image: &'a MetadataImage,
}

impl Body<'_> {
    fn encode_all(&self, w: &mut dyn Sink) -> Result<(), EncodeError> {
        self.encode(w, self.image.topics().len(), &mut |w| {
            self.image.topics().iter().try_for_each(|topic| self.topic(topic).encode(w, self.request.version))
        })
    }

    fn encode_some(&self, w: &mut dyn Sink, entries: &[Entry]) -> Result<(), EncodeError> {
        self.encode(w, entries.len(), &mut |w| {
            entries.iter().try_for_each(|entry| self.entry(entry).encode(w, self.request.version))
        })
    }

    fn encode(
        &self,
        w: &mut dyn Sink,
        topic_count: usize,
        topics: &mut dyn FnMut(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let version = self.request.version;
        let flexible = ApiKey::Metadata.is_flexible(version);
        if version >= 3 {
            put_i32(w, 0);
        }
        let (host, port) = self.broker.advertised(self.request.connection.listener);
        put_array_len(w, flexible, Some(1))?;
        MetadataResponseBroker {
            node_id: self.broker.node_id,
            host,
            port,
            rack: self.broker.rack.clone(),
            ..MetadataResponseBroker::default()
        }
        .encode(w, version)?;
        if version >= 2 {
            put_nullable_string(w, flexible, Some(&self.broker.cluster_id))?;
        }
        if version >= 1 {
            put_i32(w, self.broker.node_id);
        }
        put_array_len(w, flexible, Some(topic_count))?;
        topics(w)?;
        if (8..=10).contains(&version) {
            let asked = self.asked.include_cluster_authorized_operations;
            put_i32(w, if asked { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED });
        }
        if version >= 13 {
            put_i16(w, ErrorCode::NONE.0);
        }
        if flexible {
            put_empty_tags(w);
        }
        Ok(())
    }

    fn entry(&self, entry: &Entry) -> MetadataResponseTopic {
        match entry {
            Entry::Found(topic) => self.topic(topic),
            Entry::Missing { name, id, error_code } => MetadataResponseTopic {
                error_code: *error_code,
                // Before version 12 the name may not be null.
                name: if self.request.version < 12 {
                    Some(name.clone().unwrap_or_default())
                } else {
                    name.clone()
                },
                topic_id: *id,
                topic_authorized_operations: OPERATIONS_NOT_ASKED,
                ..MetadataResponseTopic::default()
            },
        }
    }

    fn topic(&self, topic: &TopicImage) -> MetadataResponseTopic {
        let partition = |partition: &weir_metadata::image::Partition| MetadataResponsePartition {
            error_code: match partition.leader {
                leader if leader >= 0 => ErrorCode::NONE,
                _ => ErrorCode::LEADER_NOT_AVAILABLE,
            },
            partition_index: partition.partition_id,
            leader_id: partition.leader,
            leader_epoch: partition.leader_epoch,
            replica_nodes: partition.replicas.to_vec(),
            isr_nodes: partition.isr.to_vec(),
            ..MetadataResponsePartition::default()
        };
        MetadataResponseTopic {
            name: Some(topic.name().to_string()),
            topic_id: topic.id(),
            is_internal: is_internal(topic.name()),
            partitions: topic.partitions().iter().map(partition).collect(),
            topic_authorized_operations: match self.asked.include_topic_authorized_operations {
                true => TOPIC_OPERATIONS,
                false => OPERATIONS_NOT_ASKED,
            },
            ..MetadataResponseTopic::default()
        }
    }
}
