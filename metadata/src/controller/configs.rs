//! IncrementalAlterConfigs and AlterConfigs for topics, brokers, groups and client metrics.

use std::collections::BTreeSet;

use weir_protocol::messages::*;
use weir_protocol::wire::UnknownTags;

use super::batch::Batch;
use super::topic_name::validate_topic_name;
use super::{ApiError, Controller, ControllerResult};
use crate::MetadataError;
use crate::image::{MetadataImage, resource_type};
use crate::properties::{
    ConfigMap, ConfigOp, Scope, apply_config_op, validate_broker_configs, validate_client_metrics_configs,
    validate_group_configs, validate_topic_configs,
};
use crate::record_frame::MetadataRecord;

/// One operation of a request.
struct Operation<'a> {
    name: &'a str,
    operation: ConfigOp,
    value: Option<&'a str>,
}

impl Controller<'_> {
    /// IncrementalAlterConfigs: each resource by itself, all of its operations or none.
    pub fn incremental_alter_configs(
        &self,
        request: &IncrementalAlterConfigsRequest,
    ) -> ControllerResult<IncrementalAlterConfigsResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let resources = request
            .resources
            .iter()
            .map(|resource| (resource.resource_type, resource.resource_name.as_str()));
        let repeated = repeated(resources);
        let mut responses = Vec::with_capacity(request.resources.len());
        for resource in &request.resources {
            let (resource_type, name) = (resource.resource_type, resource.resource_name.as_str());
            let operations = resource.configs.iter().map(|config| {
                let operation = ConfigOp::from_id(config.config_operation).ok_or_else(|| {
                    ApiError::invalid_request(format!("Unknown operations type {}", config.config_operation))
                })?;
                Ok(Operation { name: &config.name, operation, value: config.value.as_deref() })
            });
            let result = check_repeated(&repeated, (resource_type, name))
                .and_then(|()| operations.collect::<Result<Vec<_>, ApiError>>())
                .and_then(|operations| {
                    self.alter_incrementally(resource_type, name, &operations, &mut batch)
                });
            let (error_code, error_message) = ApiError::parts(result);
            responses.push(IncrementalAlterConfigsResponseAlterConfigsResourceResponse {
                error_code,
                error_message,
                resource_type,
                resource_name: name.to_owned(),
                ..Default::default()
            });
        }
        let reply = IncrementalAlterConfigsResponse { responses, ..Default::default() };
        batch.finish(reply, request.validate_only)
    }

    /// AlterConfigs: each resource gets exactly the configs named, the others lose their overrides.
    pub fn alter_configs(&self, request: &AlterConfigsRequest) -> ControllerResult<AlterConfigsResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let resources = request
            .resources
            .iter()
            .map(|resource| (resource.resource_type, resource.resource_name.as_str()));
        let repeated = repeated(resources);
        let mut responses = Vec::with_capacity(request.resources.len());
        for resource in &request.resources {
            let (resource_type, name) = (resource.resource_type, resource.resource_name.as_str());
            let set = resource.configs.iter().map(|config| Operation {
                name: &config.name,
                operation: ConfigOp::Set,
                value: config.value.as_deref(),
            });
            let set: Vec<_> = set.collect();
            let result = check_repeated(&repeated, (resource_type, name))
                .and_then(|()| self.replace_all(resource_type, name, &set, &mut batch));
            let (error_code, error_message) = ApiError::parts(result);
            responses.push(AlterConfigsResourceResponse {
                error_code,
                error_message,
                resource_type,
                resource_name: name.to_owned(),
                ..Default::default()
            });
        }
        let reply = AlterConfigsResponse { responses, ..Default::default() };
        batch.finish(reply, request.validate_only)
    }

    fn alter_incrementally(
        &self,
        resource_type: i8,
        name: &str,
        operations: &[Operation<'_>],
        batch: &mut Batch<'_>,
    ) -> Result<(), ApiError> {
        self.check_resource(resource_type, name, operations)?;
        let current = batch.image().configs().of(resource_type, name);
        let mut changes = Vec::with_capacity(operations.len());
        for operation in operations {
            let old = current.get(operation.name).map(String::as_str);
            let new = apply_config_op(
                scope(resource_type),
                operation.name,
                old,
                operation.operation,
                operation.value,
            );
            changes.push((operation.name, new.map_err(|error| ApiError::invalid_config(&error))?));
        }
        self.record_changes(resource_type, name, &current, changes, batch)
    }

    fn replace_all(
        &self,
        resource_type: i8,
        name: &str,
        set: &[Operation<'_>],
        batch: &mut Batch<'_>,
    ) -> Result<(), ApiError> {
        // Log levels are no configs that a list could replace as a whole.
        if resource_type == resource_type::BROKER_LOGGER {
            return Err(ApiError::invalid_request(format!("Unknown resource type {resource_type}")));
        }
        self.check_resource(resource_type, name, set)?;
        let current = batch.image().configs().of(resource_type, name);
        let mut changes = Vec::with_capacity(set.len());
        for operation in set {
            let new =
                apply_config_op(scope(resource_type), operation.name, None, ConfigOp::Set, operation.value);
            changes.push((operation.name, new.map_err(|error| ApiError::invalid_config(&error))?));
        }
        let named: BTreeSet<&str> = set.iter().map(|operation| operation.name).collect();
        let lost = current.keys().map(String::as_str).filter(|name| !named.contains(name));
        changes.extend(lost.map(|name| (name, None)));
        self.record_changes(resource_type, name, &current, changes, batch)
    }

    /// Checks the configs that the changes leave, and records what differs. A broker's configs are recorded even when
    /// they do not differ: a broker reads files that they name again.
    fn record_changes(
        &self,
        resource_type: i8,
        resource_name: &str,
        current: &ConfigMap,
        changes: Vec<(&str, Option<String>)>,
        batch: &mut Batch<'_>,
    ) -> Result<(), ApiError> {
        let mut after = current.clone();
        for (name, value) in &changes {
            match value {
                Some(value) => after.insert((*name).to_owned(), value.clone()),
                None => after.remove(*name),
            };
        }
        self.validate(resource_type, resource_name, &after)?;
        self.check_exists(batch.image(), resource_type, resource_name)?;
        let differs = |name: &str, value: &Option<String>| current.get(name) != value.as_ref();
        let records = changes
            .into_iter()
            .filter(|(name, value)| resource_type == resource_type::BROKER || differs(name, value))
            .map(|(name, value)| {
                MetadataRecord::Config(ConfigRecord {
                    resource_type,
                    resource_name: resource_name.to_owned(),
                    name: name.to_owned(),
                    value,
                    unknown_tags: UnknownTags::NONE,
                })
            });
        batch.accept(records.collect())
    }

    fn check_resource(
        &self,
        resource_type: i8,
        name: &str,
        operations: &[Operation<'_>],
    ) -> Result<(), ApiError> {
        let mut names = BTreeSet::new();
        if !operations.iter().all(|operation| names.insert(operation.name)) {
            return Err(ApiError::invalid_request("Error due to duplicate config keys"));
        }
        let is_null =
            |operation: &&Operation<'_>| operation.operation != ConfigOp::Delete && operation.value.is_none();
        let nulls: Vec<&str> = operations.iter().filter(is_null).map(|operation| operation.name).collect();
        if !nulls.is_empty() {
            return Err(ApiError::invalid_request(format!(
                "Null value not supported for : {}",
                nulls.join(", ")
            )));
        }
        match resource_type {
            resource_type::TOPIC if name.is_empty() => {
                Err(ApiError::invalid_request("Default topic resources are not allowed."))
            }
            resource_type::TOPIC => validate_topic_name(name),
            resource_type::BROKER => self.check_broker_name(name),
            resource_type::CLIENT_METRICS if name.is_empty() => {
                Err(ApiError::invalid_request("Subscription name can't be empty"))
            }
            resource_type::GROUP if name.is_empty() => {
                Err(ApiError::invalid_request("Default group resources are not allowed."))
            }
            resource_type::CLIENT_METRICS | resource_type::GROUP => Ok(()),
            resource_type::BROKER_LOGGER => {
                self.check_logger_name(name)?;
                Err(ApiError::invalid_request(
                    "Log levels are given when this server starts and cannot be altered while it runs.",
                ))
            }
            other => Err(ApiError::invalid_request(format!("Unknown resource type {other}"))),
        }
    }

    fn check_broker_name(&self, name: &str) -> Result<(), ApiError> {
        if name.is_empty() {
            return Ok(());
        }
        let node_id = self.config.node_id();
        match name.parse::<i32>() {
            Err(_) => {
                Err(ApiError::invalid_request(format!("Node id must be an integer, but it is: {name}")))
            }
            Ok(id) if id != node_id => Err(ApiError::invalid_request(format!(
                "Unexpected broker id, expected {node_id}, but received {name}"
            ))),
            // `01` would be another resource than `1`.
            Ok(_) if name != node_id.to_string() => Err(ApiError::invalid_request(format!(
                "Unexpected broker id, expected {node_id}, but received {name}"
            ))),
            Ok(_) => Ok(()),
        }
    }

    fn check_logger_name(&self, name: &str) -> Result<(), ApiError> {
        let node_id = self.config.node_id();
        match name.parse::<i32>() {
            Ok(id) if id == node_id => Ok(()),
            Ok(_) => Err(ApiError::invalid_request(format!(
                "Unexpected node id. Expected {node_id}, but received {name}"
            ))),
            Err(_) => {
                Err(ApiError::invalid_request(format!("Node id must be an integer, but it is: {name}")))
            }
        }
    }

    fn validate(&self, resource_type: i8, name: &str, configs: &ConfigMap) -> Result<(), ApiError> {
        match resource_type {
            resource_type::BROKER => validate_broker_configs(self.config, configs, !name.is_empty())
                .map_err(|error| ApiError::invalid_request(error.kafka_message())),
            resource_type::CLIENT_METRICS => {
                validate_client_metrics_configs(configs).map_err(|error| match error {
                    MetadataError::Conflict(_) => ApiError::invalid_config(&error),
                    _ => ApiError::invalid_request(error.kafka_message()),
                })
            }
            resource_type::GROUP => {
                validate_group_configs(self.config, configs).map_err(|error| ApiError::invalid_config(&error))
            }
            _ => {
                validate_topic_configs(self.config, configs).map_err(|error| ApiError::invalid_config(&error))
            }
        }
    }

    fn check_exists(&self, image: &MetadataImage, resource_type: i8, name: &str) -> Result<(), ApiError> {
        let missing = |code, message: String| Err(ApiError::new(code, message));
        match resource_type {
            resource_type::TOPIC if image.topics().by_name(name).is_none() => {
                missing(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("The topic '{name}' does not exist."))
            }
            resource_type::BROKER
                if !name.is_empty() && image.cluster().broker(self.config.node_id()).is_none() =>
            {
                missing(ErrorCode::BROKER_ID_NOT_REGISTERED, format!("No broker with id {name} found."))
            }
            _ => Ok(()),
        }
    }
}

fn scope(resource_type: i8) -> Scope {
    match resource_type {
        resource_type::BROKER => Scope::Broker,
        resource_type::CLIENT_METRICS => Scope::ClientMetrics,
        resource_type::GROUP => Scope::Group,
        _ => Scope::Topic,
    }
}

/// Resources that a request names more than once.
fn repeated<'a>(resources: impl Iterator<Item = (i8, &'a str)>) -> BTreeSet<(i8, &'a str)> {
    let mut seen = BTreeSet::new();
    resources.filter(|resource| !seen.insert(*resource)).collect()
}

fn check_repeated(repeated: &BTreeSet<(i8, &str)>, resource: (i8, &str)) -> Result<(), ApiError> {
    if repeated.contains(&resource) {
        return Err(ApiError::invalid_request("Each resource must appear at most once."));
    }
    Ok(())
}
