//! CreateTopics and DeleteTopics.

use std::collections::{BTreeMap, BTreeSet};

use weir_protocol::messages::{
    ConfigRecord, CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse, DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, ErrorCode,
    PartitionRecord, RemoveTopicRecord, TopicRecord,
};
use weir_protocol::wire::{UnknownTags, Uuid};

use super::batch::Batch;
use super::topic_name::{CLUSTER_METADATA_TOPIC, validate_topic_name};
use super::{ApiError, Controller, ControllerResult};
use crate::image::{MetadataImage, directory_id, resource_type};
use crate::properties::{
    BrokerConfig, ConfigMap, canonical_topic_value, describe_new_topic, keys, validate_topic_configs,
};
use crate::record_frame::MetadataRecord;

/// A topic that was found to be fine.
struct NewTopic {
    id: Uuid,
    partitions: usize,
    replicas: usize,
}

/// The overrides that a topic to create asks for, sizes with a unit as plain numbers.
fn overrides(topic: &CreatableTopic) -> ConfigMap {
    let value =
        |text: &Option<String>, name: &str| canonical_topic_value(name, text.as_deref().unwrap_or_default());
    topic.configs.iter().map(|config| (config.name.clone(), value(&config.value, &config.name))).collect()
}

/// The configs of a topic that was created as asked, by name: what its result in the reply shows from version 5 on.
pub fn creation_configs(broker: &BrokerConfig, topic: &CreatableTopic) -> Vec<CreatableTopicConfigs> {
    let mut configs: Vec<CreatableTopicConfigs> = describe_new_topic(broker, &overrides(topic))
        .into_iter()
        .map(|entry| CreatableTopicConfigs {
            name: entry.name,
            value: entry.value,
            read_only: entry.read_only,
            config_source: entry.source.id(),
            is_sensitive: entry.sensitive,
            unknown_tags: UnknownTags::NONE,
        })
        .collect();
    // What was asked for is shown as it was written, blanks included; sizes with a unit stay plain numbers.
    let without_blanks = |text: &Option<String>| text.as_deref().map(|text| text.replace(' ', ""));
    for written in topic.configs.iter().filter(|written| written.value.is_some()) {
        if let Some(config) = configs.iter_mut().find(|config| config.name == written.name)
            && without_blanks(&config.value) == without_blanks(&written.value)
        {
            config.value.clone_from(&written.value);
        }
    }
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    configs
}

impl Controller<'_> {
    /// CreateTopics: each topic by itself, all accepted ones in one batch. The results of created topics have no configs
    /// yet: [`creation_configs`] gives them when they are sent, one topic at a time. `new_id` gives random ids; ids that Kafka
    /// keeps for itself, begin with `-` in text, or are taken are asked for again.
    pub fn create_topics(
        &self,
        request: &CreateTopicsRequest,
        new_id: &mut dyn FnMut() -> Uuid,
    ) -> ControllerResult<CreateTopicsResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let mut seen = BTreeSet::new();
        let repeated: BTreeSet<&str> = request
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .filter(|name| !seen.insert(*name))
            .collect();
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics.iter().filter(|topic| !repeated.contains(topic.name.as_str())) {
            topics.push(match self.create_topic(topic, new_id, &mut batch) {
                Ok(new) => self.created(&topic.name, &new),
                Err(error) => failed(&topic.name, error),
            });
        }
        for name in repeated {
            topics.push(failed(name, ApiError::invalid_request("Duplicate topic name.")));
        }
        let reply = CreateTopicsResponse { topics, ..Default::default() };
        batch.finish(reply, request.validate_only)
    }

    fn create_topic(
        &self,
        topic: &CreatableTopic,
        new_id: &mut dyn FnMut() -> Uuid,
        batch: &mut Batch<'_>,
    ) -> Result<NewTopic, ApiError> {
        let name = topic.name.as_str();
        if name == CLUSTER_METADATA_TOPIC {
            return Err(ApiError::invalid_request(format!(
                "Creation of internal topic {name} is prohibited."
            )));
        }
        validate_topic_name(name)?;
        if batch.image().topics().by_name(name).is_some() {
            return Err(ApiError::new(
                ErrorCode::TOPIC_ALREADY_EXISTS,
                format!("Topic '{name}' already exists."),
            ));
        }
        if let Some(other) = batch.image().topics().colliding_with(name) {
            return Err(ApiError::new(
                ErrorCode::INVALID_TOPIC_EXCEPTION,
                format!("Topic '{name}' collides with existing topic: {other}"),
            ));
        }
        let configs = self.checked_overrides(topic)?;
        let assignments = self.assignments(topic, batch)?;
        let id = free_id(batch.image(), new_id);
        let replicas = assignments.first().map_or(0, Vec::len);
        let mut records: Vec<MetadataRecord> = Vec::with_capacity(assignments.len() + configs.len() + 1);
        records.push(
            TopicRecord { name: name.to_owned(), topic_id: id, unknown_tags: UnknownTags::NONE }.into(),
        );
        // Configs before partitions: who creates a log for a partition knows its configs by then.
        records.extend(configs.iter().map(|(key, value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type: resource_type::TOPIC,
                resource_name: name.to_owned(),
                name: key.clone(),
                value: Some(value.clone()),
                unknown_tags: UnknownTags::NONE,
            })
        }));
        let partitions = assignments.len();
        for (index, replicas) in (0..).zip(assignments) {
            records.push(self.partition_record(id, index, replicas).into());
        }
        batch.accept(records)?;
        Ok(NewTopic { id, partitions, replicas })
    }

    fn checked_overrides(&self, topic: &CreatableTopic) -> Result<ConfigMap, ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::INVALID_CONFIG, message);
        let nulls: Vec<&str> = topic
            .configs
            .iter()
            .filter(|config| config.value.is_none())
            .map(|config| config.name.as_str())
            .collect();
        if !nulls.is_empty() {
            return Err(invalid(format!("Null value not supported for topic configs: {}", nulls.join(","))));
        }
        let configs = overrides(topic);
        validate_topic_configs(self.config, &configs).map_err(|error| ApiError::invalid_config(&error))?;
        Ok(configs)
    }

    /// The replicas of each partition.
    fn assignments(&self, topic: &CreatableTopic, batch: &Batch<'_>) -> Result<Vec<Vec<i32>>, ApiError> {
        if !topic.assignments.is_empty() {
            return self.manual_assignments(topic, batch);
        }
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ));
        }
        if topic.num_partitions < -1 || topic.num_partitions == 0 {
            return Err(ApiError::new(
                ErrorCode::INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            ));
        }
        let partitions = if topic.num_partitions == -1 {
            self.config.get(keys::NUM_PARTITIONS)
        } else {
            topic.num_partitions
        };
        let replication_factor = if topic.replication_factor == -1 {
            self.config.default_replication_factor()
        } else {
            topic.replication_factor
        };
        let broker = self.place(i32::from(replication_factor)).map_err(|reason| {
            ApiError::new(
                ErrorCode::INVALID_REPLICATION_FACTOR,
                format!("Unable to replicate the partition {replication_factor} time(s): {reason}"),
            )
        })?;
        let partitions = usize::try_from(partitions).unwrap_or(0);
        batch.check_partitions(partitions)?;
        Ok(vec![vec![broker]; partitions])
    }

    fn manual_assignments(
        &self,
        topic: &CreatableTopic,
        batch: &Batch<'_>,
    ) -> Result<Vec<Vec<i32>>, ApiError> {
        let unset = "A manual partition assignment was specified, but";
        if topic.replication_factor != -1 {
            return Err(ApiError::invalid_request(format!("{unset} replication factor was not set to -1.")));
        }
        if topic.num_partitions != -1 {
            return Err(ApiError::invalid_request(format!("{unset} numPartitions was not set to -1.")));
        }
        batch.check_partitions(topic.assignments.len())?;
        let invalid = |message: String| ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
        let mut by_index: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut replication_factor = None;
        for assignment in &topic.assignments {
            let index = assignment.partition_index;
            if by_index.contains_key(&index) {
                return Err(invalid(format!(
                    "Found multiple manual partition assignments for partition {index}"
                )));
            }
            self.check_manual_assignment(&assignment.broker_ids, replication_factor)?;
            replication_factor = Some(assignment.broker_ids.len());
            self.check_some_active(index, &assignment.broker_ids)?;
            by_index.insert(index, assignment.broker_ids.clone());
        }
        if by_index.keys().zip(0..).any(|(index, expected)| *index != expected) {
            return Err(invalid("partitions should be a consecutive 0-based integer sequence".to_owned()));
        }
        Ok(by_index.into_values().collect())
    }

    /// The broker for one replica of a new partition, or why there is none.
    pub(super) fn place(&self, replication_factor: i32) -> Result<i32, String> {
        let cluster = self.image.cluster();
        let registered = cluster.brokers().len();
        if cluster.brokers().values().all(|broker| broker.fenced) {
            return Err("All brokers are currently fenced.".to_owned());
        }
        // Only this node keeps partitions, so a second replica has no place even if other brokers once registered.
        let places = registered.min(1);
        if usize::try_from(replication_factor).unwrap_or(usize::MAX) > places {
            return Err(format!(
                "The target replication factor of {replication_factor} cannot be reached because only {places} \
                 broker(s) are registered."
            ));
        }
        let id = self.config.node_id();
        if cluster.is_active(id) {
            Ok(id)
        } else {
            Err("All brokers are currently fenced or in controlled shutdown.".to_owned())
        }
    }

    pub(super) fn check_manual_assignment(
        &self,
        replicas: &[i32],
        replication_factor: Option<usize>,
    ) -> Result<(), ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
        let assignment = "The manual partition assignment includes";
        if replicas.is_empty() {
            return Err(invalid(format!("{assignment} an empty replica list.")));
        }
        let mut sorted = replicas.to_vec();
        sorted.sort_unstable();
        let mut previous = None;
        for broker in sorted {
            if self.image.cluster().broker(broker).is_none() {
                return Err(invalid(format!(
                    "{assignment} broker {broker}, but no such broker is registered."
                )));
            }
            if previous == Some(broker) {
                return Err(invalid(format!("{assignment} the broker {broker} more than once.")));
            }
            previous = Some(broker);
        }
        match replication_factor {
            Some(expected) if expected != replicas.len() => Err(invalid(format!(
                "{assignment} a partition with {} replica(s), but this is not consistent with previous partitions, which \
                 have {expected} replica(s).",
                replicas.len()
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn check_some_active(&self, partition: i32, replicas: &[i32]) -> Result<(), ApiError> {
        if replicas.iter().any(|broker| self.image.cluster().is_active(*broker)) {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            format!(
                "All brokers specified in the manual partition assignment for partition {partition} are fenced or in \
                 controlled shutdown."
            ),
        ))
    }

    /// A new partition: every active replica is in sync, the first of them leads.
    pub(super) fn partition_record(
        &self,
        topic_id: Uuid,
        partition_id: i32,
        replicas: Vec<i32>,
    ) -> PartitionRecord {
        let cluster = self.image.cluster();
        let isr: Vec<i32> = replicas.iter().copied().filter(|broker| cluster.is_active(*broker)).collect();
        // A broker with one directory has nothing to choose.
        let directory = |broker: &i32| match cluster.broker(*broker).map(|broker| broker.log_dirs.as_slice())
        {
            Some([directory]) => *directory,
            Some([]) | None => directory_id::MIGRATING,
            Some(_) => directory_id::UNASSIGNED,
        };
        PartitionRecord {
            partition_id,
            topic_id,
            leader: isr.first().copied().unwrap_or(crate::image::NO_LEADER),
            directories: replicas.iter().map(directory).collect(),
            replicas,
            isr,
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            leader_recovery_state: 0,
            leader_epoch: 0,
            partition_epoch: 0,
            eligible_leader_replicas: None,
            last_known_elr: None,
            unknown_tags: UnknownTags::NONE,
        }
    }

    fn created(&self, name: &str, topic: &NewTopic) -> CreatableTopicResult {
        CreatableTopicResult {
            name: name.to_owned(),
            topic_id: topic.id,
            error_code: ErrorCode::NONE,
            error_message: None,
            topic_config_error_code: ErrorCode::NONE,
            num_partitions: i32::try_from(topic.partitions).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(topic.replicas).unwrap_or(i16::MAX),
            configs: None,
            unknown_tags: UnknownTags::NONE,
        }
    }

    /// DeleteTopics by name or id: each topic by itself, all accepted ones in one batch. `api_version` decides how the
    /// switch `delete.topic.enable` is answered.
    pub fn delete_topics(
        &self,
        request: &DeleteTopicsRequest,
        api_version: i16,
    ) -> ControllerResult<DeleteTopicsResponse> {
        // Each request has its topics in one of the two lists, by version.
        let by_name = request.topic_names.iter().map(|name| (Some(name.clone()), Uuid::ZERO));
        let asked: Vec<(Option<String>, Uuid)> =
            by_name.chain(request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id))).collect();
        let enabled = self.config.get(keys::DELETE_TOPIC_ENABLE);
        let mut batch = Batch::new(self.image, self.config);
        let mut responses = Vec::with_capacity(asked.len());
        let mut done = BTreeSet::new();
        let counts = asked.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<_, usize>, topic| {
            *counts.entry(topic).or_default() += 1;
            counts
        });
        // A topic that is asked for by its name and by its id, too, is not deleted.
        let ids: BTreeSet<Uuid> =
            asked.iter().filter(|(name, _)| name.is_none()).map(|(_, id)| *id).collect();
        let id_of = |name: &Option<String>| {
            let name = name.as_deref()?;
            self.image.topics().by_name(name).map(|topic| topic.id())
        };
        let in_both: BTreeSet<Uuid> = asked
            .iter()
            .filter(|(_, id)| id.is_zero())
            .filter_map(|(name, _)| id_of(name))
            .filter(|id| ids.contains(id))
            .collect();
        for topic in &asked {
            if !done.insert(topic) {
                continue;
            }
            let (name, id) = topic;
            if name.is_none() && in_both.contains(id) {
                continue;
            }
            if let Some(known) = id_of(name).filter(|known| id.is_zero() && in_both.contains(known)) {
                responses.push(DeletableTopicResult {
                    name: name.clone(),
                    topic_id: known,
                    error_code: ErrorCode::INVALID_REQUEST,
                    error_message: Some(
                        "The provided topic name maps to an ID that was already supplied.".to_string(),
                    ),
                    ..Default::default()
                });
                continue;
            }
            let result = if !enabled {
                Err(deletion_disabled(api_version))
            } else if counts.get(topic).is_some_and(|count| *count > 1) {
                let what = if name.is_some() { "name" } else { "id" };
                Err(ApiError::invalid_request(format!("Duplicate topic {what}.")))
            } else {
                self.delete_topic(name.as_deref(), *id, &mut batch)
            };
            let (name, topic_id) = match &result {
                Ok((name, id)) => (Some(name.clone()), *id),
                Err(_) => (name.clone(), *id),
            };
            let (error_code, error_message) = ApiError::parts(result);
            responses.push(DeletableTopicResult {
                name,
                topic_id,
                error_code,
                error_message,
                ..Default::default()
            });
        }
        let reply = DeleteTopicsResponse { responses, ..Default::default() };
        batch.finish(reply, false)
    }

    fn delete_topic(
        &self,
        name: Option<&str>,
        id: Uuid,
        batch: &mut Batch<'_>,
    ) -> Result<(String, Uuid), ApiError> {
        let topic = match (name, id.is_zero()) {
            (None, true) => {
                return Err(ApiError::invalid_request("Neither topic name nor id were specified."));
            }
            (Some(_), false) => {
                return Err(ApiError::invalid_request("You may not specify both topic name and topic id."));
            }
            (Some(name), true) => batch.image().topics().by_name(name),
            (None, false) => batch.image().topics().by_id(id),
        };
        let Some(topic) = topic.cloned() else {
            return Err(match name {
                Some(_) => ApiError::new(
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    "This server does not host this topic-partition.",
                ),
                None => {
                    ApiError::new(ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
                }
            });
        };
        batch.accept(vec![
            RemoveTopicRecord { topic_id: topic.id(), unknown_tags: UnknownTags::NONE }.into(),
        ])?;
        Ok((topic.name().to_owned(), topic.id()))
    }
}

fn deletion_disabled(api_version: i16) -> ApiError {
    let code = if api_version < 3 { ErrorCode::INVALID_REQUEST } else { ErrorCode::TOPIC_DELETION_DISABLED };
    ApiError::new(code, "Topic deletion is disabled.")
}

fn failed(name: &str, error: ApiError) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.to_owned(),
        error_code: error.code,
        error_message: Some(error.message),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}

/// An id that is nobody's. Ids that begin with `-` would be options on a command line.
fn free_id(image: &MetadataImage, new_id: &mut dyn FnMut() -> Uuid) -> Uuid {
    loop {
        let id = new_id();
        let usable = !directory_id::is_reserved(id) && !id.to_string().starts_with('-');
        if usable && image.topics().by_id(id).is_none() {
            return id;
        }
    }
}
