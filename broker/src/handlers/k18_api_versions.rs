//! ApiVersions: what is served, and the features that are finalized.

use weir_metadata::controller::SUPPORTED_FEATURES;
use weir_metadata::metadata_version;
use weir_protocol::messages::k18_api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use weir_protocol::messages::{ApiKey, ErrorCode};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::handlers::SERVED;
use crate::request::{Reply, ReplyHead, Request};

/// Answers with every API that is served.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ApiVersionsRequest::decode)?;
    let response = match refusal(&asked, request.version, &request.broker) {
        Some(error_code) => ApiVersionsResponse { error_code, ..ApiVersionsResponse::default() },
        None => served(&request.broker),
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

/// Why a request is not answered: its software has no legal name, it says only half of whom it is meant for, or it is
/// meant for another cluster or node, which its client shall look for from the start again (KIP-1242).
fn refusal(asked: &ApiVersionsRequest, version: i16, broker: &Broker) -> Option<ErrorCode> {
    let is_named =
        is_legal_name(&asked.client_software_name) && is_legal_name(&asked.client_software_version);
    if version >= 3 && !is_named {
        return Some(ErrorCode::INVALID_REQUEST);
    }
    if version < 5 {
        return None;
    }
    match (asked.cluster_id.as_deref(), asked.node_id) {
        (None, -1) => None,
        (None, _) | (Some(_), -1) => Some(ErrorCode::INVALID_REQUEST),
        (Some(cluster_id), node_id) => (cluster_id != broker.cluster_id || node_id != broker.node_id)
            .then_some(ErrorCode::REBOOTSTRAP_REQUIRED),
    }
}

/// Answers a request of a version that is not served, in version 0, as KIP-511 asks.
pub(crate) fn unsupported_version(correlation_id: i32) -> Result<Reply, ConnectionError> {
    let range = SERVED.iter().find(|(api, _)| *api == ApiKey::ApiVersions);
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: range.map(|(api, range)| api_version(*api, range.min, range.max)).into_iter().collect(),
        ..ApiVersionsResponse::default()
    };
    let head = ReplyHead { api: ApiKey::ApiVersions, version: 0, correlation_id, connection: 0 };
    Reply::small(head, |w| response.encode(w, 0))
}

fn served(broker: &Broker) -> ApiVersionsResponse {
    let image = broker.image();
    let levels = image.features().levels().iter().map(|(name, level)| (name.as_str(), *level));
    let finalized =
        std::iter::once((metadata_version::FEATURE_NAME, image.features().metadata_version())).chain(levels);
    ApiVersionsResponse {
        api_keys: SERVED.iter().map(|(api, range)| api_version(*api, range.min, range.max)).collect(),
        supported_features: SUPPORTED_FEATURES
            .iter()
            .map(|feature| SupportedFeatureKey {
                name: feature.name.to_string(),
                min_version: feature.min_level,
                max_version: feature.max_level,
                ..SupportedFeatureKey::default()
            })
            .collect(),
        finalized_features_epoch: image.last_offset(),
        finalized_features: finalized
            .map(|(name, level)| FinalizedFeatureKey {
                name: name.to_string(),
                max_version_level: level,
                min_version_level: level,
                ..FinalizedFeatureKey::default()
            })
            .collect(),
        ..ApiVersionsResponse::default()
    }
}

fn api_version(api: ApiKey, min_version: i16, max_version: i16) -> ApiVersion {
    ApiVersion { api_key: api.code(), min_version, max_version, ..ApiVersion::default() }
}

/// Kafka's pattern for software names and versions: `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.
fn is_legal_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kafkas_pattern() {
        for legal in ["librdkafka", "apache-kafka-java", "3.9.2", "a"] {
            assert!(is_legal_name(legal), "{legal}");
        }
        for illegal in ["", "-a", "a-", "a b", "ä"] {
            assert!(!is_legal_name(illegal), "{illegal}");
        }
    }
}
