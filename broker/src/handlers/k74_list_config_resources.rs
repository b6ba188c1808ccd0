//! ListConfigResources, which in version 0 was ListClientMetricsResources.
//!
//! Method: the topics are held as the image has them, the few other names as text, both under a lease of their number;
//! the reply is encoded from them while it is sent. Broker loggers are the brokers.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_metadata::image::{MetadataImage, TopicImage, resource_type};
use weir_protocol::messages::k74_list_config_resources::{
    ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{EncodeError, Sink, put_array_len, put_empty_tags, put_i8, put_i32, put_string};

use crate::connection::ConnectionError;
use crate::request::{Part, Reply, Request};

/// All types, in the order in which they are listed.
const TYPES: [i8; 5] = [
    resource_type::TOPIC,
    resource_type::BROKER,
    resource_type::BROKER_LOGGER,
    resource_type::CLIENT_METRICS,
    resource_type::GROUP,
];
/// From this version on a resource has its type.
const FIRST_WITH_TYPE: i16 = 1;

/// Answers from the metadata image.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ListConfigResourcesRequest::decode)?;
    let version = request.version;
    let Some(types) = types(&asked, version) else {
        let error_code = ErrorCode::UNSUPPORTED_VERSION;
        let response = ListConfigResourcesResponse { error_code, ..ListConfigResourcesResponse::default() };
        return Ok(Some(request.reply(|w| response.encode(w, version)).await?));
    };
    drop(asked);
    let image = request.broker.image();
    let lease = request.lease_some(Resources::size_bytes(&image, &types)).await?;
    let resources = Resources::of(&image, &types);
    drop(image);
    let count = resources.len();
    let flexible = ApiKey::ListConfigResources.is_flexible(version);
    let encode = move |part, w: &mut dyn Sink| {
        let _held_with_the_resources = &lease;
        match part {
            Part::Head => {
                put_i32(w, 0);
                w.put_error(ErrorCode::NONE.0);
                put_array_len(w, flexible, Some(count))
            }
            Part::Item(index) => resources.encode(w, index, version, flexible),
            Part::Tail => {
                put_empty_tags(w);
                Ok(())
            }
        }
    };
    Ok(Some(request.reply_in_parts(count, 0, encode).await?))
}

/// The types that are asked for, each once; no type stands for all of them. `None` where one is not known.
fn types(asked: &ListConfigResourcesRequest, version: i16) -> Option<BTreeSet<i8>> {
    if version < FIRST_WITH_TYPE {
        return Some(BTreeSet::from([resource_type::CLIENT_METRICS]));
    }
    if asked.resource_types.is_empty() {
        return Some(BTreeSet::from(TYPES));
    }
    let is_known = asked.resource_types.iter().all(|asked| TYPES.contains(asked));
    is_known.then(|| asked.resource_types.iter().copied().collect())
}

/// What is listed.
struct Resources {
    topics: Vec<Arc<TopicImage>>,
    others: Vec<(i8, Box<str>)>,
}

impl Resources {
    fn others<'a>(
        image: &'a MetadataImage,
        types: &BTreeSet<i8>,
    ) -> impl Iterator<Item = (i8, std::borrow::Cow<'a, str>)> {
        let of_brokers = [resource_type::BROKER, resource_type::BROKER_LOGGER].into_iter();
        let brokers = of_brokers
            .filter(|kind| types.contains(kind))
            .flat_map(|kind| image.cluster().brokers().keys().map(move |id| (kind, id.to_string().into())));
        let of_configs = [resource_type::CLIENT_METRICS, resource_type::GROUP].into_iter();
        let named = of_configs
            .filter(|kind| types.contains(kind))
            .flat_map(|kind| image.configs().resources(kind).map(move |(name, _)| (kind, name.into())));
        brokers.chain(named)
    }

    fn topic_count(image: &MetadataImage, types: &BTreeSet<i8>) -> usize {
        if types.contains(&resource_type::TOPIC) { image.topics().len() } else { 0 }
    }

    fn size_bytes(image: &MetadataImage, types: &BTreeSet<i8>) -> usize {
        let others = Self::others(image, types).map(|(_, name)| size_of::<(i8, Box<str>)>() + name.len());
        Self::topic_count(image, types) * size_of::<Arc<TopicImage>>() + others.sum::<usize>()
    }

    fn of(image: &MetadataImage, types: &BTreeSet<i8>) -> Self {
        let mut topics = Vec::with_capacity(Self::topic_count(image, types));
        if types.contains(&resource_type::TOPIC) {
            topics.extend(image.topics().iter().cloned());
        }
        let mut others = Vec::with_capacity(Self::others(image, types).count());
        others.extend(Self::others(image, types).map(|(kind, name)| (kind, name.into())));
        Resources { topics, others }
    }

    fn len(&self) -> usize {
        self.topics.len() + self.others.len()
    }

    fn encode(
        &self,
        w: &mut dyn Sink,
        index: usize,
        version: i16,
        flexible: bool,
    ) -> Result<(), EncodeError> {
        let other = || self.others.get(index - self.topics.len()).map(|(kind, name)| (*kind, &**name));
        let topic = self.topics.get(index).map(|topic| (resource_type::TOPIC, topic.name()));
        let Some((kind, name)) = topic.or_else(other) else { return Ok(()) };
        put_string(w, flexible, name)?;
        if version >= FIRST_WITH_TYPE {
            put_i8(w, kind);
        }
        put_empty_tags(w);
        Ok(())
    }
}
