//! One file per API, and the table of what is served: an API that is not in it is not advertised and not answered.

pub(crate) mod k00_produce;
pub(crate) mod k01_fetch;
pub(crate) mod k03_metadata;
pub(crate) mod k18_api_versions;

use weir_protocol::messages::ApiKey;
use weir_protocol::messages::api_key::VersionRange;

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

const fn versions(min: i16, max: i16) -> VersionRange {
    VersionRange { min, max }
}

/// The APIs and versions that are served: Kafka 4.4's ranges, and the lower ones that 3.9 still knows where they mean
/// the same. Produce is advertised from 0, as Kafka does for librdkafka's sake, and served from 3.
pub(crate) const SERVED: &[(ApiKey, VersionRange)] = &[
    (ApiKey::Produce, versions(0, 13)),
    (ApiKey::Fetch, versions(4, 18)),
    (ApiKey::Metadata, versions(0, 13)),
    (ApiKey::ApiVersions, versions(0, 5)),
];

/// The first version of Produce that carries record batches of magic 2.
const FIRST_PRODUCE: i16 = 3;

/// The versions in which `api` is answered, `None` if it is not served.
pub(crate) fn served(api: ApiKey) -> Option<VersionRange> {
    let (_, range) = SERVED.iter().find(|(served, _)| *served == api)?;
    Some(if api == ApiKey::Produce { VersionRange { min: FIRST_PRODUCE, ..*range } } else { *range })
}

/// Hands a received request to its handler.
pub(crate) async fn dispatch(request: Request) -> Result<Option<Reply>, ConnectionError> {
    match request.api {
        ApiKey::Fetch => k01_fetch::handle(request).await,
        ApiKey::Metadata => k03_metadata::handle(request).await,
        ApiKey::ApiVersions => k18_api_versions::handle(request).await,
        api => Err(ConnectionError::NotServed { key: api.code(), version: request.version }),
    }
}
