//! CreatePartitions, ElectLeaders and the reassignments that one node can answer.

use std::collections::BTreeSet;

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use super::batch::Batch;
use super::topic_name::shown;
use super::{ApiError, Controller, ControllerResult};
use crate::image::{NO_LEADER, Partition, TopicImage};
use crate::record_frame::MetadataRecord;

impl Controller<'_> {
    /// CreatePartitions: each topic by itself, all accepted ones in one batch.
    pub fn create_partitions(
        &self,
        request: &CreatePartitionsRequest,
    ) -> ControllerResult<CreatePartitionsResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let mut seen = BTreeSet::new();
        let repeated: BTreeSet<&str> = request
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .filter(|name| !seen.insert(*name))
            .collect();
        let mut results = Vec::new();
        let mut push = |name: &str, result: Result<(), ApiError>| {
            let (error_code, error_message) = ApiError::parts(result);
            results.push(CreatePartitionsTopicResult {
                name: name.to_owned(),
                error_code,
                error_message,
                ..Default::default()
            });
        };
        for topic in request.topics.iter().filter(|topic| !repeated.contains(topic.name.as_str())) {
            push(&topic.name, self.add_partitions(topic, &mut batch));
        }
        for name in repeated {
            push(name, Err(ApiError::invalid_request("Duplicate topic name.")));
        }
        let reply = CreatePartitionsResponse { results, ..Default::default() };
        batch.finish(reply, request.validate_only)
    }

    fn add_partitions(&self, request: &CreatePartitionsTopic, batch: &mut Batch<'_>) -> Result<(), ApiError> {
        let name = &request.name;
        let unknown = || ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "");
        let topic = self.image.topics().by_name(name).ok_or_else(unknown)?;
        let current = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
        let invalid = |message: String| ApiError::new(ErrorCode::INVALID_PARTITIONS, message);
        if request.count == current {
            return Err(invalid(format!("Topic already has {current} partition(s).")));
        }
        if request.count < current {
            return Err(invalid(format!(
                "The topic {name} currently has {current} partition(s); {} would not be an increase.",
                request.count
            )));
        }
        let additional = usize::try_from(request.count - current).unwrap_or(0);
        let replication_factor = topic.partitions().first().map_or(1, |partition| partition.replicas.len());
        let assignments = match &request.assignments {
            Some(assignments) => {
                if assignments.len() != additional {
                    return Err(ApiError::new(
                        ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                        format!(
                            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were \
                             specified.",
                            assignments.len()
                        ),
                    ));
                }
                batch.check_partitions(additional)?;
                for (index, assignment) in (current..).zip(assignments) {
                    self.check_manual_assignment(&assignment.broker_ids, Some(replication_factor))?;
                    self.check_some_active(index, &assignment.broker_ids)?;
                }
                assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect()
            }
            None => {
                let factor = i32::try_from(replication_factor).unwrap_or(i32::MAX);
                let broker = self.place(factor).map_err(|reason| {
                    let message = format!("Unable to replicate the partition {factor} time(s): {reason}");
                    ApiError::new(ErrorCode::INVALID_REPLICATION_FACTOR, message)
                })?;
                batch.check_partitions(additional)?;
                vec![vec![broker]; additional]
            }
        };
        let record = |(index, replicas)| self.partition_record(topic.id(), index, replicas).into();
        batch.accept((current..).zip(assignments).map(record).collect())
    }

    /// ElectLeaders, for the partitions named or for all. When all are asked for, those that need no election are left
    /// out of the reply.
    pub fn elect_leaders(&self, request: &ElectLeadersRequest) -> ControllerResult<ElectLeadersResponse> {
        if !(0..=1).contains(&request.election_type) {
            return ControllerResult::without_records(unknown_election(request));
        }
        let mut records = Vec::new();
        let mut results = Vec::new();
        let mut elect = |name: &str, partition_id: i32| {
            let result = self
                .elect_leader(name, partition_id, request.election_type)
                .map(|record| records.push(record));
            let (error_code, error_message) = ApiError::parts(result);
            ElectLeadersResponsePartitionResult {
                partition_id,
                error_code,
                error_message,
                ..Default::default()
            }
        };
        match &request.topic_partitions {
            Some(topics) => {
                for topic in topics {
                    let partition_result =
                        topic.partitions.iter().map(|id| elect(&topic.topic, *id)).collect();
                    results.push(ReplicaElectionResult {
                        topic: topic.topic.clone(),
                        partition_result,
                        ..Default::default()
                    });
                }
            }
            None => {
                for topic in self.image.topics().iter() {
                    let ids = topic.partitions().iter().map(|partition| partition.partition_id);
                    let partition_result = ids
                        .map(|id| elect(topic.name(), id))
                        .filter(|result| result.error_code != ErrorCode::ELECTION_NOT_NEEDED)
                        .collect();
                    let topic = topic.name().to_owned();
                    results.push(ReplicaElectionResult { topic, partition_result, ..Default::default() });
                }
            }
        }
        let records = records.into_iter().map(|record: MetadataRecord| self.at_level(record)).collect();
        let reply = ElectLeadersResponse { replica_election_results: results, ..Default::default() };
        ControllerResult::divisible(records, reply)
    }

    /// `election_type` 0 is for the preferred replica, 1 for any, in sync or not.
    fn elect_leader(
        &self,
        name: &str,
        partition_id: i32,
        election_type: i8,
    ) -> Result<MetadataRecord, ApiError> {
        let unknown = |message: String| ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message);
        let topics = self.image.topics();
        let topic =
            topics.by_name(name).ok_or_else(|| unknown(format!("No such topic as {}", shown(name))))?;
        let partition = topic
            .partition(partition_id)
            .ok_or_else(|| unknown(format!("No such partition as {name}-{partition_id}")))?;
        let settled =
            if election_type == 0 { partition.has_preferred_leader() } else { partition.leader != NO_LEADER };
        if settled {
            return Err(ApiError::new(
                ErrorCode::ELECTION_NOT_NEEDED,
                "Leader election not needed for topic partition.",
            ));
        }
        let active = |broker: &&i32| self.image.cluster().serves(**broker, partition);
        let in_sync = |broker: &&i32| {
            partition.isr.contains(broker) || partition.eligible_leader_replicas.contains(broker)
        };
        let clean = if election_type == 0 {
            partition.replicas.first().filter(active).filter(in_sync)
        } else {
            partition.replicas.iter().filter(active).find(in_sync)
        };
        let change = |leader: i32, unclean: bool| {
            let in_isr = partition.isr.contains(&leader);
            MetadataRecord::PartitionChange(PartitionChangeRecord {
                partition_id,
                topic_id: topic.id(),
                leader,
                isr: (!in_isr).then(|| vec![leader]),
                leader_recovery_state: if unclean { 1 } else { -1 },
                ..Default::default()
            })
        };
        let (code, message) = match (clean, election_type) {
            (Some(leader), _) => return Ok(change(*leader, false)),
            (None, 1) => match partition.replicas.iter().find(active) {
                Some(leader) => return Ok(change(*leader, true)),
                None => (
                    ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE,
                    "Eligible topic partition leaders are not available.",
                ),
            },
            _ => (ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
        };
        Err(ApiError::new(code, message))
    }

    /// AlterPartitionReassignments. On one node a reassignment to the present replicas is done at once, and one that
    /// drops replicas of other brokers too; there is never one in progress to cancel unless the log came with it.
    pub fn alter_partition_reassignments(
        &self,
        request: &AlterPartitionReassignmentsRequest,
    ) -> ControllerResult<AlterPartitionReassignmentsResponse> {
        let mut batch = Batch::new(self.image, self.config);
        let mut responses = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for target in &topic.partitions {
                let result = self
                    .reassign(&topic.name, target, request.allow_replication_factor_change)
                    .and_then(|record| batch.accept(record.into_iter().collect()));
                let (error_code, error_message) = ApiError::parts(result);
                partitions.push(ReassignablePartitionResponse {
                    partition_index: target.partition_index,
                    error_code,
                    error_message,
                    ..Default::default()
                });
            }
            responses.push(ReassignableTopicResponse {
                name: topic.name.clone(),
                partitions,
                ..Default::default()
            });
        }
        let reply =
            AlterPartitionReassignmentsResponse { error_message: None, responses, ..Default::default() };
        batch.finish(reply, false)
    }

    fn reassign(
        &self,
        name: &str,
        target: &ReassignablePartition,
        allow_replication_factor_change: bool,
    ) -> Result<Option<MetadataRecord>, ApiError> {
        let unknown = |message: String| ApiError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message);
        let topics = self.image.topics();
        let topic = topics
            .by_name(name)
            .ok_or_else(|| unknown(format!("Unable to find a topic named {}.", shown(name))))?;
        let index = target.partition_index;
        let partition = topic
            .partition(index)
            .ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
        let Some(replicas) = &target.replicas else {
            return if partition.is_reassigning() {
                self.cancel_reassignment(topic, partition).map(Some)
            } else {
                Err(ApiError::new(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, ""))
            };
        };
        self.check_manual_assignment(replicas, None)?;
        if !allow_replication_factor_change && replicas.len() != partition.replicas.len() {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICATION_FACTOR,
                format!(
                    "The replication factor is changed from {} to {}",
                    partition.replicas.len(),
                    replicas.len()
                ),
            ));
        }
        if replicas[..] == partition.replicas[..] && !partition.is_reassigning() {
            return Ok(None);
        }
        if let Some(added) = replicas.iter().find(|broker| !partition.replicas.contains(broker)) {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                format!("Broker {added} cannot take a replica: this server is a single node."),
            ));
        }
        self.settle(topic.id(), partition, replicas).map(Some)
    }

    /// The change that leaves a partition with `replicas`, which are all present ones.
    fn settle(
        &self,
        topic_id: Uuid,
        partition: &Partition,
        replicas: &[i32],
    ) -> Result<MetadataRecord, ApiError> {
        let isr: Vec<i32> =
            partition.isr.iter().copied().filter(|broker| replicas.contains(broker)).collect();
        if isr.is_empty() {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                "None of the replicas that would stay is in sync.",
            ));
        }
        let keeps_leader = replicas.contains(&partition.leader);
        let leader = isr.iter().copied().find(|broker| self.image.cluster().serves(*broker, partition));
        Ok(MetadataRecord::PartitionChange(PartitionChangeRecord {
            partition_id: partition.partition_id,
            topic_id,
            leader: if keeps_leader { -2 } else { leader.unwrap_or(NO_LEADER) },
            isr: (isr[..] != partition.isr[..]).then_some(isr),
            replicas: Some(replicas.to_vec()),
            removing_replicas: Some(Vec::new()),
            adding_replicas: Some(Vec::new()),
            ..Default::default()
        }))
    }

    fn cancel_reassignment(
        &self,
        topic: &TopicImage,
        partition: &Partition,
    ) -> Result<MetadataRecord, ApiError> {
        let stays = |broker: &&i32| !partition.adding_replicas.contains(broker);
        let replicas: Vec<i32> = partition.replicas.iter().filter(stays).copied().collect();
        self.settle(topic.id(), partition, &replicas)
    }

    /// ListPartitionReassignments: what is in progress, of the partitions named or of all.
    pub fn list_partition_reassignments(
        &self,
        request: &ListPartitionReassignmentsRequest,
    ) -> ListPartitionReassignmentsResponse {
        let ongoing = |topic: &TopicImage, wanted: &dyn Fn(i32) -> bool| {
            let reassigning =
                |partition: &&Partition| partition.is_reassigning() && wanted(partition.partition_id);
            let partitions: Vec<_> = topic
                .partitions()
                .iter()
                .filter(reassigning)
                .map(|partition| OngoingPartitionReassignment {
                    partition_index: partition.partition_id,
                    replicas: partition.replicas.to_vec(),
                    adding_replicas: partition.adding_replicas.to_vec(),
                    removing_replicas: partition.removing_replicas.to_vec(),
                    ..Default::default()
                })
                .collect();
            (!partitions.is_empty()).then(|| OngoingTopicReassignment {
                name: topic.name().to_owned(),
                partitions,
                ..Default::default()
            })
        };
        let topics = match &request.topics {
            None => self.image.topics().iter().filter_map(|topic| ongoing(topic, &|_| true)).collect(),
            Some(named) => named
                .iter()
                .filter_map(|named| {
                    let topic = self.image.topics().by_name(&named.name)?;
                    ongoing(topic, &|id| named.partition_indexes.contains(&id))
                })
                .collect(),
        };
        ListPartitionReassignmentsResponse { error_message: None, topics, ..Default::default() }
    }
}

/// Refuses each partition of a request and the whole of it, unless it asks for nothing.
fn unknown_election(request: &ElectLeadersRequest) -> ElectLeadersResponse {
    let topics = request.topic_partitions.as_deref();
    let asks_for_nothing = topics.is_some_and(<[_]>::is_empty);
    let partition_result = |partition_id: &i32| ElectLeadersResponsePartitionResult {
        partition_id: *partition_id,
        error_code: ErrorCode::INVALID_REQUEST,
        error_message: Some(format!("Unknown election type {}", request.election_type)),
        ..Default::default()
    };
    let result = |topic: &ElectLeadersRequestTopicPartitions| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: topic.partitions.iter().map(partition_result).collect(),
        ..Default::default()
    };
    ElectLeadersResponse {
        error_code: if asks_for_nothing { ErrorCode::NONE } else { ErrorCode::INVALID_REQUEST },
        replica_election_results: topics.unwrap_or_default().iter().map(result).collect(),
        ..Default::default()
    }
}
