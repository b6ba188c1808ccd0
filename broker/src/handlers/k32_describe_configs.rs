//! DescribeConfigs for topics, brokers, broker loggers, client-metrics subscriptions and groups.
//!
//! Method: each resource is described while it is encoded, once to count and once while it is sent, so that a request for
//! all topics costs a window and one resource's values.

use std::sync::Arc;

use weir_metadata::controller::validate_topic_name;
use weir_metadata::image::{MetadataImage, resource_type};
use weir_metadata::properties::{
    BrokerConfig, ConfigEntry, ConfigSource, Describe, Scope, describe_broker, describe_broker_defaults,
    describe_group, describe_topic, properties,
};
use weir_protocol::messages::k32_describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
    DescribeConfigsSynonym,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{put_array_len, put_empty_tags, put_i32};

use crate::connection::ConnectionError;
use crate::request::{Part, Reply, Request};

/// The values of a broker with synonyms and documentation.
const BROKER_BYTES: usize = 512 * 1024;
/// A dynamic config, beside its name and value, with its synonyms.
const DYNAMIC_BYTES: usize = 768;
/// How often an override is there while it is described: its resource's, parsed, as text, as a value and a synonym in the
/// entry and in the result.
const OVERRIDE_COPIES: usize = 8;
/// The values of any other resource.
const OTHER_BYTES: usize = 48 * 1024;
/// `DYNAMIC_BROKER_LOGGER_CONFIG`.
const LOGGER_SOURCE: i8 = 6;
/// The only logger that is told of.
const ROOT_LOGGER: &str = "root";

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeConfigsRequest::decode)?;
    let has_broker = asked.resources.iter().any(|resource| resource.resource_type == resource_type::BROKER);
    let config = request.broker.config.load_full();
    let image = request.broker.image();
    let broker_bytes = if has_broker { BROKER_BYTES + dynamic_bytes(&config) } else { 0 };
    let work_bytes = broker_bytes.max(OTHER_BYTES + override_bytes(&image, &asked.resources));
    let asked = request.share(asked);
    let version = request.version;
    let flexible = ApiKey::DescribeConfigs.is_flexible(version);
    let describer = Describer {
        config,
        image,
        version,
        synonyms: asked.include_synonyms && version >= 1,
        documentation: asked.include_documentation && version >= 3,
    };
    let reply = request
        .reply_in_parts(asked.resources.len(), work_bytes, move |part, w| match part {
            Part::Head => {
                put_i32(w, 0);
                put_array_len(w, flexible, Some(asked.resources.len()))
            }
            Part::Item(index) => match asked.resources.get(index) {
                Some(resource) => describer.result(resource).encode(w, version),
                None => Ok(()),
            },
            Part::Tail => {
                if flexible {
                    put_empty_tags(w);
                }
                Ok(())
            }
        })
        .await?;
    Ok(Some(reply))
}

/// What the dynamic configs of brokers add, which may have any names.
fn dynamic_bytes(config: &BrokerConfig) -> usize {
    let configs = config.dynamic().iter().chain(config.dynamic_default());
    configs.map(|(name, value)| DYNAMIC_BYTES + 4 * (name.len() + value.len())).sum()
}

/// What the overrides of one of these resources add at most: lists may be long.
fn override_bytes(image: &MetadataImage, resources: &[DescribeConfigsResource]) -> usize {
    let overrides = resources
        .iter()
        .filter_map(|resource| image.configs().get(resource.resource_type, &resource.resource_name));
    let bytes = overrides.map(|overrides| {
        overrides.iter().map(|(name, value)| OVERRIDE_COPIES * (name.len() + value.len())).sum()
    });
    bytes.max().unwrap_or(0)
}

struct Describer {
    config: Arc<BrokerConfig>,
    image: Arc<MetadataImage>,
    version: i16,
    synonyms: bool,
    documentation: bool,
}

type Described = Result<Vec<DescribeConfigsResourceResult>, (ErrorCode, Option<String>)>;

fn invalid<T>(message: String) -> Result<T, (ErrorCode, Option<String>)> {
    Err((ErrorCode::INVALID_REQUEST, Some(message)))
}

impl Describer {
    fn result(&self, resource: &DescribeConfigsResource) -> DescribeConfigsResult {
        let (error_code, error_message, mut configs) = match self.describe(resource) {
            Ok(configs) => (ErrorCode::NONE, None, configs),
            Err((code, message)) => (code, message, Vec::new()),
        };
        // Version 0 has this flag in place of the source, and no other version has it.
        let has_flag = self.version == 0;
        configs.iter_mut().for_each(|config| config.is_default &= has_flag);
        DescribeConfigsResult {
            error_code,
            // As in Kafka, which has no null here.
            error_message: Some(error_message.unwrap_or_default()),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
            configs,
            ..DescribeConfigsResult::default()
        }
    }

    fn describe(&self, resource: &DescribeConfigsResource) -> Described {
        let name = resource.resource_name.as_str();
        let wanted = Describe {
            names: resource.configuration_keys.as_deref(),
            synonyms: self.synonyms,
            documentation: self.documentation,
        };
        let rows = |entries: Vec<ConfigEntry>| Ok(entries.into_iter().map(row).collect());
        match resource.resource_type {
            resource_type::TOPIC => {
                validate_topic_name(name).map_err(|error| (error.code, Some(error.message)))?;
                if self.image.topics().by_name(name).is_none() {
                    return Err((ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None));
                }
                rows(describe_topic(&self.config, &self.image.configs().topic(name), &wanted))
            }
            resource_type::BROKER if name.is_empty() => rows(describe_broker_defaults(&self.config, &wanted)),
            resource_type::BROKER => {
                self.check_broker(name, " or empty string,")?;
                rows(describe_broker(&self.config, &wanted))
            }
            resource_type::BROKER_LOGGER if name.is_empty() => {
                invalid("Broker id must not be empty".to_string())
            }
            resource_type::BROKER_LOGGER => {
                self.check_broker(name, "")?;
                let is_wanted = wanted
                    .names
                    .is_none_or(|names| names.is_empty() || names.iter().any(|name| name == ROOT_LOGGER));
                Ok(is_wanted.then(root_logger).into_iter().collect())
            }
            resource_type::CLIENT_METRICS if name.is_empty() => {
                invalid("Client metrics subscription name must not be empty".to_string())
            }
            resource_type::CLIENT_METRICS => Ok(self.client_metrics(name, &wanted)),
            resource_type::GROUP if name.is_empty() => invalid("Group name must not be empty".to_string()),
            resource_type::GROUP => {
                let overrides = self.image.configs().of(resource_type::GROUP, name);
                rows(describe_group(&self.config, &overrides, &wanted))
            }
            other => invalid(format!("Unsupported resource type: {other}")),
        }
    }

    fn check_broker(&self, name: &str, or_else: &str) -> Result<(), (ErrorCode, Option<String>)> {
        let node_id = self.config.node_id();
        match name.parse::<i32>() {
            Ok(id) if id == node_id => Ok(()),
            Ok(_) => {
                invalid(format!("Unexpected broker id, expected {node_id}{or_else} but received {name}"))
            }
            Err(_) => invalid(format!("Broker id must be an integer, but it is: {name}")),
        }
    }

    fn client_metrics(&self, name: &str, wanted: &Describe<'_>) -> Vec<DescribeConfigsResourceResult> {
        let overrides = self.image.configs().of(resource_type::CLIENT_METRICS, name);
        let is_wanted = |name: &str| {
            wanted.names.is_none_or(|names| names.is_empty() || names.iter().any(|wanted| wanted == name))
        };
        properties()
            .iter()
            .filter(|property| property.scope == Scope::ClientMetrics && is_wanted(property.name))
            .map(|property| {
                let (value, source) = match overrides.get(property.name) {
                    Some(value) => (Some(value.clone()), ConfigSource::ClientMetrics),
                    None => (property.default_value().map(|value| value.to_string()), ConfigSource::Default),
                };
                // Kafka shows the subscription's own value as a synonym, and not the default.
                let own = (wanted.synonyms && source == ConfigSource::ClientMetrics).then(|| {
                    DescribeConfigsSynonym {
                        name: property.name.to_string(),
                        value: value.clone(),
                        source: source.id(),
                        ..DescribeConfigsSynonym::default()
                    }
                });
                DescribeConfigsResourceResult {
                    name: property.name.to_string(),
                    value,
                    is_default: source == ConfigSource::Default,
                    config_source: source.id(),
                    synonyms: own.into_iter().collect(),
                    config_type: property.kind.config_type_id(),
                    documentation: wanted.documentation.then(|| format!("{}.", property.text)),
                    ..DescribeConfigsResourceResult::default()
                }
            })
            .collect()
    }
}

/// The level below which nothing is logged. It is set at start and cannot be altered while the server runs.
fn root_logger() -> DescribeConfigsResourceResult {
    let level = tracing::level_filters::LevelFilter::current();
    DescribeConfigsResourceResult {
        name: ROOT_LOGGER.to_string(),
        value: Some(level.to_string().to_uppercase()),
        read_only: true,
        config_source: LOGGER_SOURCE,
        ..DescribeConfigsResourceResult::default()
    }
}

fn row(entry: ConfigEntry) -> DescribeConfigsResourceResult {
    let synonyms = entry.synonyms.into_iter().map(|synonym| DescribeConfigsSynonym {
        name: synonym.name,
        value: synonym.value,
        source: synonym.source.id(),
        ..DescribeConfigsSynonym::default()
    });
    DescribeConfigsResourceResult {
        name: entry.name,
        value: entry.value,
        read_only: entry.read_only,
        is_default: entry.source == ConfigSource::Default,
        config_source: entry.source.id(),
        is_sensitive: entry.sensitive,
        synonyms: synonyms.collect(),
        config_type: entry.config_type,
        documentation: entry.documentation,
        ..DescribeConfigsResourceResult::default()
    }
}
