//! OffsetFetch: the committed offsets of groups, of named partitions or of all.
//!
//! Method: the reply is encoded straight from the shards, group by group under the shard's lock, once to count and once
//! to write, so that no copy of the offsets is held. Every offset that a shard shows is in the log, so what a client
//! asks for with `require_stable` is what it gets anyway.

use std::sync::Arc;

use weir_coordinator::{CommittedOffset, OffsetsView};
use weir_metadata::image::MetadataImage;
use weir_protocol::messages::k09_offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, Sink, Uuid, put_array_len, put_empty_tags, put_i32, put_i64, put_string, put_uuid,
};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::group_code;
use crate::request::{Part, Reply, Request};

/// From this version on a request names several groups.
const FIRST_WITH_GROUPS: i16 = 8;
/// From this version on topics go by id.
const FIRST_BY_ID: i16 = 10;
/// From this version on there is an error for all of a group.
const FIRST_WITH_GROUP_ERROR: i16 = 2;
/// From this version on an offset has its leader epoch.
const FIRST_WITH_EPOCH: i16 = 5;
/// What stands for an offset that is not committed.
const NO_OFFSET: i64 = -1;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(OffsetFetchRequest::decode)?;
    let version = request.version;
    // One group after the other.
    let groups = asked.groups.iter().filter_map(|group| group.topics.as_ref().map(Vec::len));
    let most = groups.chain(asked.topics.as_ref().map(Vec::len)).max().unwrap_or(0);
    request.lease_more(most.saturating_mul(size_of::<AskedTopic<'_>>())).await?;
    let broker = Arc::clone(&request.broker);
    let image = broker.image();
    let body = Body { broker: &broker, image: &image, version };
    let groups = if version < FIRST_WITH_GROUPS { 1 } else { asked.groups.len() };
    Ok(Some(request.reply_of_items(groups, |part, w| body.encode(part, w, &asked)).await?))
}

/// The partitions of one topic that are asked for, in the words of any version.
struct AskedTopic<'a> {
    /// `None` if the id is not known.
    name: Option<&'a str>,
    id: Uuid,
    partitions: &'a [i32],
}

struct Body<'a> {
    broker: &'a Broker,
    image: &'a MetadataImage,
    version: i16,
}

impl Body<'_> {
    fn is_flexible(&self) -> bool {
        ApiKey::OffsetFetch.is_flexible(self.version)
    }

    fn encode(&self, part: Part, w: &mut dyn Sink, asked: &OffsetFetchRequest) -> Result<(), EncodeError> {
        let (version, flexible) = (self.version, self.is_flexible());
        match part {
            Part::Head => {
                if version >= 3 {
                    put_i32(w, 0);
                }
                if version >= FIRST_WITH_GROUPS {
                    put_array_len(w, flexible, Some(asked.groups.len()))?;
                }
            }
            Part::Item(_) if version < FIRST_WITH_GROUPS => {
                let topics: Option<Vec<AskedTopic<'_>>> = asked.topics.as_ref().map(|topics| {
                    let each = topics.iter().map(|topic| AskedTopic {
                        name: Some(&topic.name),
                        id: Uuid::default(),
                        partitions: &topic.partition_indexes,
                    });
                    each.collect()
                });
                let code = self.group(w, &asked.group_id, topics)?;
                if version >= FIRST_WITH_GROUP_ERROR {
                    w.put_error(code.0);
                }
            }
            Part::Item(index) => {
                let Some(group) = asked.groups.get(index) else { return Ok(()) };
                put_string(w, flexible, &group.group_id)?;
                let code = self.group(w, &group.group_id, self.asked_topics(group))?;
                w.put_error(code.0);
                put_empty_tags(w);
            }
            Part::Tail if flexible => put_empty_tags(w),
            Part::Tail => {}
        }
        Ok(())
    }

    fn asked_topics<'a>(&'a self, group: &'a OffsetFetchRequestGroup) -> Option<Vec<AskedTopic<'a>>> {
        let topics = group.topics.as_ref()?;
        let known = |id: Uuid| self.image.topics().by_id(id).map(|topic| topic.name());
        let each = topics.iter().map(|topic| AskedTopic {
            name: if self.version >= FIRST_BY_ID { known(topic.topic_id) } else { Some(&topic.name) },
            id: topic.topic_id,
            partitions: &topic.partition_indexes,
        });
        Some(each.collect())
    }

    /// Writes the topics of one group and returns its error code.
    fn group(
        &self,
        w: &mut dyn Sink,
        group_id: &str,
        topics: Option<Vec<AskedTopic<'_>>>,
    ) -> Result<ErrorCode, EncodeError> {
        let failed = |w: &mut dyn Sink, code| {
            match &topics {
                // Here the error has no place of its own.
                Some(topics) if self.version < FIRST_WITH_GROUP_ERROR => self.refused(w, topics, code)?,
                _ => put_array_len(w, self.is_flexible(), Some(0))?,
            }
            Ok(code)
        };
        let slot = match self.broker.groups.home(self.broker, group_id) {
            Ok(slot) => slot,
            Err(code) => return failed(w, code),
        };
        self.broker.groups.look(&slot, |shard| match shard.offsets(group_id) {
            Err(error) => failed(w, group_code(&error)),
            Ok(offsets) => {
                match &topics {
                    Some(topics) => self.some(w, offsets, topics)?,
                    None => self.all(w, offsets)?,
                }
                Ok(ErrorCode::NONE)
            }
        })
    }

    fn topic_key(&self, w: &mut dyn Sink, name: &str, id: Uuid) -> Result<(), EncodeError> {
        if self.version >= FIRST_BY_ID {
            put_uuid(w, id);
            return Ok(());
        }
        put_string(w, self.is_flexible(), name)
    }

    fn partition(
        &self,
        w: &mut dyn Sink,
        index: i32,
        offset: Option<&CommittedOffset>,
        code: ErrorCode,
    ) -> Result<(), EncodeError> {
        put_i32(w, index);
        put_i64(w, offset.map_or(NO_OFFSET, |offset| offset.offset));
        if self.version >= FIRST_WITH_EPOCH {
            put_i32(w, offset.map_or(-1, |offset| offset.leader_epoch));
        }
        put_string(w, self.is_flexible(), offset.map_or("", |offset| &offset.metadata))?;
        w.put_error(code.0);
        if self.is_flexible() {
            put_empty_tags(w);
        }
        Ok(())
    }

    fn end_of_topic(&self, w: &mut dyn Sink) {
        if self.is_flexible() {
            put_empty_tags(w);
        }
    }

    fn refused(
        &self,
        w: &mut dyn Sink,
        topics: &[AskedTopic<'_>],
        code: ErrorCode,
    ) -> Result<(), EncodeError> {
        put_array_len(w, self.is_flexible(), Some(topics.len()))?;
        topics.iter().try_for_each(|topic| self.refused_topic(w, topic, code))
    }

    fn refused_topic(
        &self,
        w: &mut dyn Sink,
        topic: &AskedTopic<'_>,
        code: ErrorCode,
    ) -> Result<(), EncodeError> {
        self.topic_key(w, topic.name.unwrap_or_default(), topic.id)?;
        put_array_len(w, self.is_flexible(), Some(topic.partitions.len()))?;
        topic.partitions.iter().try_for_each(|index| self.partition(w, *index, None, code))?;
        self.end_of_topic(w);
        Ok(())
    }

    fn some(
        &self,
        w: &mut dyn Sink,
        offsets: OffsetsView<'_>,
        topics: &[AskedTopic<'_>],
    ) -> Result<(), EncodeError> {
        put_array_len(w, self.is_flexible(), Some(topics.len()))?;
        for topic in topics {
            let Some(name) = topic.name else { continue };
            self.topic_key(w, name, topic.id)?;
            put_array_len(w, self.is_flexible(), Some(topic.partitions.len()))?;
            for index in topic.partitions {
                self.partition(w, *index, offsets.get(name, *index), ErrorCode::NONE)?;
            }
            self.end_of_topic(w);
        }
        // As in Kafka, topics that are not known come last.
        let unknown = topics.iter().filter(|topic| topic.name.is_none());
        unknown.into_iter().try_for_each(|topic| self.refused_topic(w, topic, ErrorCode::UNKNOWN_TOPIC_ID))
    }

    fn all(&self, w: &mut dyn Sink, offsets: OffsetsView<'_>) -> Result<(), EncodeError> {
        let id_of = |name: &str| self.image.topics().by_name(name).map(|topic| topic.id());
        // Where topics go by id, one that has none any more cannot be told.
        let told = |name: &str| self.version < FIRST_BY_ID || id_of(name).is_some();
        let count = offsets.by_topic().filter(|(name, _)| told(name)).count();
        put_array_len(w, self.is_flexible(), Some(count))?;
        for (name, partitions) in offsets.by_topic().filter(|(name, _)| told(name)) {
            self.topic_key(w, name, id_of(name).unwrap_or_default())?;
            put_array_len(w, self.is_flexible(), Some(partitions.len()))?;
            for (index, offset) in partitions {
                self.partition(w, *index, Some(offset), ErrorCode::NONE)?;
            }
            self.end_of_topic(w);
        }
        Ok(())
    }
}
