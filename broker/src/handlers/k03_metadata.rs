//! Metadata: brokers, topics and partitions, and the creation of topics on demand.
//!
//! Method: the reply is encoded topic by topic from an immutable image, once to count and once while it is sent, so that
//! a cluster of any size costs a window and one partition's values.

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
    EncodeError, Sink, put_array_len, put_bool, put_empty_tags, put_i32, put_nullable_string, put_string,
    put_uuid,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::request::{Part, Reply, Request, Shared};
use crate::topics::is_internal;

/// First version in which topics can be asked for by id; the field is there two versions before.
const FIRST_BY_ID: i16 = 12;
/// What "not asked for" looks like in a field of authorized operations.
pub(crate) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;
/// All operations on a topic, as Kafka lists them where nothing is forbidden (AclOperation codes as bits).
pub(crate) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// All operations on the cluster.
pub(crate) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

/// Topics that are created on demand at once.
const CREATED_AT_ONCE: usize = 64;
/// Memory of one of them while it is created.
const CREATION_BYTES: usize = 2048;

/// Answers one metadata request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let mut asked = request.decode(MetadataRequest::decode)?;
    let by_id = |topic: &MetadataRequestTopic| topic.name.is_none() || !topic.topic_id.is_zero();
    let is_refused = version < FIRST_BY_ID && asked.topics.iter().flatten().any(by_id);
    if let (Some(topics), false) = (&mut asked.topics, is_refused) {
        once_each(topics);
    }
    let asked = request.share(asked);
    let all = match &asked.topics {
        None => true,
        Some(topics) => version == 0 && topics.is_empty(),
    };
    let body = Body {
        broker: Arc::clone(&broker),
        listener: request.connection.listener,
        version,
        asked: asked.clone(),
    };
    if all {
        let image = broker.image();
        let count = image.topics().len();
        let lease = request.lease_some(count * size_of::<Arc<TopicImage>>()).await?;
        let mut topics = Vec::with_capacity(count);
        topics.extend(image.topics().iter().cloned());
        let encode = move |part, w: &mut dyn Sink| {
            let _held_with_the_topics = &lease;
            match part {
                Part::Head => body.head(w, topics.len()),
                Part::Item(index) => topics.get(index).map_or(Ok(()), |topic| body.topic(w, &image, topic)),
                Part::Tail => body.tail(w),
            }
        };
        return Ok(Some(request.reply_in_parts(count, 0, encode).await?));
    }
    let count = asked.topics.as_ref().map_or(0, Vec::len);
    if is_refused {
        let encode = move |part, w: &mut dyn Sink| match part {
            Part::Head => body.head_of_refusal(w, count),
            Part::Item(index) => match asked.topics.as_ref().and_then(|topics| topics.get(index)) {
                Some(asked) => body.refused_topic(w, asked),
                None => Ok(()),
            },
            Part::Tail => body.tail(w),
        };
        return Ok(Some(request.reply_in_parts(count, 0, encode).await?));
    }
    if asked.allow_auto_topic_creation || version < 4 {
        create_missing(&request, asked.topics.as_deref().unwrap_or_default()).await?;
    }
    let image = broker.image();
    let encode = move |part, w: &mut dyn Sink| match part {
        Part::Head => body.head(w, count),
        Part::Item(index) => match asked.topics.as_ref().and_then(|topics| topics.get(index)) {
            Some(asked) => body.asked_topic(w, &image, asked),
            None => Ok(()),
        },
        Part::Tail => body.tail(w),
    };
    Ok(Some(request.reply_in_parts(count, 0, encode).await?))
}

/// What is asked for twice is answered once.
fn once_each(topics: &mut Vec<MetadataRequestTopic>) {
    let key = |topic: &MetadataRequestTopic| (topic.topic_id.0, topic.name.is_some());
    topics.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
    topics.dedup_by(|a, b| a.topic_id == b.topic_id && a.name == b.name);
}

/// Creates the named topics that do not exist, where the broker may. What fails stays unknown in the reply.
async fn create_missing(request: &Request, asked: &[MetadataRequestTopic]) -> Result<(), ConnectionError> {
    let broker = &request.broker;
    if !broker.auto_creates_topics() {
        return Ok(());
    }
    let mut rest = asked;
    while !rest.is_empty() {
        let work = request.lease_some(rest.len().min(CREATED_AT_ONCE) * CREATION_BYTES).await?;
        let work = Arc::new(work);
        let (missing, later) = some_missing(&broker.image(), rest);
        rest = later;
        if !missing.is_empty() {
            broker.create_topics_on_demand(missing, Arc::clone(&work)).await;
        }
    }
    Ok(())
}

/// Some names that no topic has and one may have, and what is behind them.
fn some_missing<'a>(
    image: &MetadataImage,
    asked: &'a [MetadataRequestTopic],
) -> (BTreeSet<String>, &'a [MetadataRequestTopic]) {
    let mut missing = BTreeSet::new();
    for (index, topic) in asked.iter().enumerate() {
        let Some(name) = topic.name.as_deref().filter(|_| topic.topic_id.is_zero()) else { continue };
        if image.topics().by_name(name).is_none() && validate_topic_name(name).is_ok() {
            missing.insert(name.to_string());
        }
        if missing.len() == CREATED_AT_ONCE {
            return (missing, asked.get(index + 1..).unwrap_or_default());
        }
    }
    (missing, &[])
}

/// What the parts of a reply are made from.
struct Body {
    broker: Arc<Broker>,
    listener: usize,
    version: i16,
    asked: Shared<MetadataRequest>,
}

impl Body {
    fn is_flexible(&self) -> bool {
        ApiKey::Metadata.is_flexible(self.version)
    }

    fn head(&self, w: &mut dyn Sink, topic_count: usize) -> Result<(), EncodeError> {
        let (version, flexible) = (self.version, self.is_flexible());
        if version >= 3 {
            put_i32(w, 0);
        }
        let (host, port) = self.broker.advertised(self.listener);
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
        put_array_len(w, flexible, Some(topic_count))
    }

    /// The head of the answer to a request that names topics by id in a version that has the field and not its meaning.
    fn head_of_refusal(&self, w: &mut dyn Sink, topic_count: usize) -> Result<(), EncodeError> {
        let flexible = self.is_flexible();
        put_i32(w, 0);
        put_array_len(w, flexible, Some(0))?;
        put_nullable_string(w, flexible, None)?;
        put_i32(w, -1);
        put_array_len(w, flexible, Some(topic_count))
    }

    fn refused_topic(&self, w: &mut dyn Sink, asked: &MetadataRequestTopic) -> Result<(), EncodeError> {
        MetadataResponseTopic {
            error_code: ErrorCode::INVALID_REQUEST,
            name: Some(asked.name.clone().unwrap_or_default()),
            topic_id: asked.topic_id,
            ..MetadataResponseTopic::default()
        }
        .encode(w, self.version)
    }

    fn tail(&self, w: &mut dyn Sink) -> Result<(), EncodeError> {
        if (8..=10).contains(&self.version) {
            let asked = self.asked.include_cluster_authorized_operations;
            put_i32(w, if asked { CLUSTER_OPERATIONS } else { OPERATIONS_NOT_ASKED });
        }
        if self.version >= 13 {
            w.put_error(ErrorCode::NONE.0);
        }
        if self.is_flexible() {
            put_empty_tags(w);
        }
        Ok(())
    }

    fn asked_topic(
        &self,
        w: &mut dyn Sink,
        image: &MetadataImage,
        asked: &MetadataRequestTopic,
    ) -> Result<(), EncodeError> {
        let (name, error_code) = match &asked.name {
            // Clients that ask by id leave the name null or empty.
            Some(name) if asked.topic_id.is_zero() => match image.topics().by_name(name) {
                Some(topic) => return self.topic(w, image, topic),
                None if validate_topic_name(name).is_ok() => {
                    (Some(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                }
                None => (Some(name), ErrorCode::INVALID_TOPIC_EXCEPTION),
            },
            _ => match image.topics().by_id(asked.topic_id) {
                Some(topic) => return self.topic(w, image, topic),
                None => (None, ErrorCode::UNKNOWN_TOPIC_ID),
            },
        };
        MetadataResponseTopic {
            error_code,
            // Before version 12 the name may not be null.
            name: if self.version < 12 { Some(name.cloned().unwrap_or_default()) } else { name.cloned() },
            topic_id: asked.topic_id,
            topic_authorized_operations: self.topic_operations(),
            ..MetadataResponseTopic::default()
        }
        .encode(w, self.version)
    }

    fn topic_operations(&self) -> i32 {
        match self.asked.include_topic_authorized_operations {
            true => TOPIC_OPERATIONS,
            false => OPERATIONS_NOT_ASKED,
        }
    }

    /// Writes a topic of `image`, one partition's values at a time.
    fn topic(&self, w: &mut dyn Sink, image: &MetadataImage, topic: &TopicImage) -> Result<(), EncodeError> {
        let (version, flexible) = (self.version, self.is_flexible());
        w.put_error(ErrorCode::NONE.0);
        put_string(w, flexible, topic.name())?;
        if version >= 10 {
            put_uuid(w, topic.id());
        }
        if version >= 1 {
            put_bool(w, is_internal(topic.name()));
        }
        put_array_len(w, flexible, Some(topic.partitions().len()))?;
        for partition in topic.partitions() {
            let offline = |id: &i32| !image.cluster().serves(*id, partition);
            MetadataResponsePartition {
                error_code: match partition.leader {
                    leader if leader >= 0 => ErrorCode::NONE,
                    _ => ErrorCode::LEADER_NOT_AVAILABLE,
                },
                partition_index: partition.partition_id,
                leader_id: partition.leader,
                leader_epoch: partition.leader_epoch,
                replica_nodes: partition.replicas.to_vec(),
                isr_nodes: partition.isr.to_vec(),
                offline_replicas: partition.replicas.iter().copied().filter(offline).collect(),
                ..MetadataResponsePartition::default()
            }
            .encode(w, version)?;
        }
        if version >= 8 {
            put_i32(w, self.topic_operations());
        }
        if flexible {
            put_empty_tags(w);
        }
        Ok(())
    }
}
