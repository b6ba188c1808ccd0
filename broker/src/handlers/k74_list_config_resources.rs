//! ListConfigResources, which in version 0 was ListClientMetricsResources.

use weir_metadata::controller::Controller;
use weir_metadata::image::resource_type;
use weir_protocol::messages::k74_list_config_resources::{ConfigResource, ListConfigResourcesRequest};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// A resource in the response beside its name: in a list that doubles as it grows, and in one of the names alone.
const RESOURCE_BYTES: usize = 3 * size_of::<ConfigResource>() + size_of::<String>();
/// The longest name of a broker.
const ID_BYTES: usize = 16;

/// Answers from the metadata image.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let mut asked = request.decode(ListConfigResourcesRequest::decode)?;
    if request.version == 0 {
        asked.resource_types = vec![resource_type::CLIENT_METRICS];
    }
    let (image, config) = (request.broker.image(), request.broker.config.load_full());
    let of =
        |kind| image.configs().resources(kind).map(|(name, _)| RESOURCE_BYTES + name.len()).sum::<usize>();
    let topics: usize = image.topics().iter().map(|topic| RESOURCE_BYTES + topic.name().len()).sum();
    let brokers = 2 * image.cluster().brokers().len() * (RESOURCE_BYTES + ID_BYTES);
    let bytes = topics + of(resource_type::CLIENT_METRICS) + of(resource_type::GROUP) + brokers;
    request.lease_more(bytes).await?;
    let mut response = Controller::new(&image, &config).list_config_resources(&asked);
    if request.version == 0 {
        // Of the one type that there was, and without a field for it.
        let untyped = ConfigResource::default().resource_type;
        response.config_resources.iter_mut().for_each(|resource| resource.resource_type = untyped);
    }
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
