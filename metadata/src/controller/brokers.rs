//! This broker's registration, its stops and starts, its directories, and blocks of producer ids.

use weir_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, BrokerEndpoint, BrokerFeature,
    BrokerRegistrationChangeRecord, ErrorCode, PartitionChangeRecord, ProducerIdsRecord,
    RegisterBrokerRecord, UnregisterBrokerRecord, UnregisterBrokerRequest, UnregisterBrokerResponse,
};
use weir_protocol::wire::{UnknownTags, Uuid};

use super::{ApiError, Controller, ControllerResult, SUPPORTED_FEATURES};
use crate::image::{NO_LEADER, Partition, directory_id};
use crate::properties::Listener;
use crate::record_frame::{MetadataRecord, VersionedRecord};

/// Producer ids in a block, as in Kafka.
pub const PRODUCER_ID_BLOCK_SIZE: i32 = 1000;

/// What a broker says of itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// Its id.
    pub broker_id: i32,
    /// New for every start of the process.
    pub incarnation_id: Uuid,
    /// Advertised listeners with their final hosts and ports.
    pub listeners: Vec<Listener>,
    /// Its rack.
    pub rack: Option<String>,
    /// Ids of its log directories.
    pub log_dirs: Vec<Uuid>,
}

/// A block of producer ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// First id.
    pub first_id: i64,
    /// Number of ids.
    pub size: i32,
}

impl Controller<'_> {
    /// Registers a start of this broker, fenced. The reply is its epoch, the offset of the registration.
    ///
    /// The old incarnation needs no time-out: the lock on the directories says that it is gone. The same incarnation
    /// again amends its registration and keeps its epoch and state.
    ///
    /// # Errors
    /// INVALID_REGISTRATION for no, reserved or repeated directories, or one of another broker.
    pub fn register_broker(&self, broker: &BrokerRegistration) -> Result<ControllerResult<i64>, ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::INVALID_REGISTRATION, message);
        if broker.log_dirs.is_empty() {
            return Err(invalid("No directories specified in request".to_owned()));
        }
        if broker.log_dirs.iter().any(|id| directory_id::is_reserved(*id)) {
            return Err(invalid("Reserved directory ID in request".to_owned()));
        }
        let mut log_dirs = broker.log_dirs.clone();
        log_dirs.sort();
        if log_dirs.windows(2).any(|pair| pair.first() == pair.last()) {
            return Err(invalid("Duplicate directory ID in request".to_owned()));
        }
        for other in
            self.image.cluster().brokers().values().filter(|other| other.broker_id != broker.broker_id)
        {
            if let Some(directory) = other.log_dirs.iter().find(|id| log_dirs.contains(id)) {
                return Err(invalid(format!(
                    "Broker {} is already registered with directory {directory}",
                    other.broker_id
                )));
            }
        }
        let existing = self.image.cluster().broker(broker.broker_id);
        let same = existing.filter(|existing| existing.incarnation_id == broker.incarnation_id);
        let broker_epoch = same.map_or_else(|| self.next_offset(), |existing| existing.broker_epoch);
        let record = RegisterBrokerRecord {
            broker_id: broker.broker_id,
            is_migrating_zk_broker: false,
            incarnation_id: broker.incarnation_id,
            broker_epoch,
            end_points: broker.listeners.iter().map(end_point).collect(),
            features: features(),
            rack: broker.rack.clone(),
            fenced: same.is_none_or(|existing| existing.fenced),
            in_controlled_shutdown: same.is_some_and(|existing| existing.in_controlled_shutdown),
            log_dirs,
            cordoned_log_dirs: None,
            unknown_tags: UnknownTags::NONE,
        };
        Ok(ControllerResult::atomic(vec![self.at_level(record)], broker_epoch))
    }

    /// Unfences this broker when its logs are ready, and makes it the leader of every partition that has none and that
    /// it may lead. One that lies in a directory which the broker does not have any more loses its leader. After a stop
    /// that was not clean, `raise_leader_epochs` gives the partitions that it still leads a new leader epoch, so that
    /// clients notice what a crash may have cut off.
    ///
    /// The records may be split: each of them stands alone.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    pub fn unfence_broker(
        &self,
        broker_id: i32,
        broker_epoch: i64,
        raise_leader_epochs: bool,
    ) -> Result<ControllerResult<()>, ApiError> {
        self.check_epoch(broker_id, broker_epoch)?;
        let mut records = vec![self.at_level(BrokerRegistrationChangeRecord {
            broker_id,
            broker_epoch,
            fenced: -1,
            ..Default::default()
        })];
        for topic in self.image.topics().iter() {
            for partition in topic.partitions() {
                if !self.image.cluster().has_directory(broker_id, partition) {
                    if partition.leader == broker_id {
                        records.push(self.at_level(PartitionChangeRecord {
                            partition_id: partition.partition_id,
                            topic_id: topic.id(),
                            leader: NO_LEADER,
                            ..Default::default()
                        }));
                    }
                    continue;
                }
                let lead = partition.leader == NO_LEADER && may_lead(partition, broker_id);
                if lead || (raise_leader_epochs && partition.leader == broker_id) {
                    let in_sync = partition.isr.contains(&broker_id);
                    records.push(self.at_level(PartitionChangeRecord {
                        partition_id: partition.partition_id,
                        topic_id: topic.id(),
                        leader: broker_id,
                        // An eligible replica that leads becomes the ISR.
                        isr: (!in_sync).then(|| vec![broker_id]),
                        ..Default::default()
                    }));
                }
            }
        }
        Ok(ControllerResult::divisible(records, ()))
    }

    /// Fences this broker at the end of a clean stop.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    pub fn shut_down_broker(
        &self,
        broker_id: i32,
        broker_epoch: i64,
    ) -> Result<ControllerResult<()>, ApiError> {
        self.check_epoch(broker_id, broker_epoch)?;
        let change = BrokerRegistrationChangeRecord { broker_id, broker_epoch, ..Default::default() };
        let stopping = BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..change.clone() };
        let fenced = BrokerRegistrationChangeRecord { fenced: 1, ..change };
        Ok(ControllerResult::atomic(vec![self.at_level(stopping), self.at_level(fenced)], ()))
    }

    /// UnregisterBroker: takes a broker that is gone out of the cluster.
    pub fn unregister_broker(
        &self,
        request: &UnregisterBrokerRequest,
    ) -> ControllerResult<UnregisterBrokerResponse> {
        let id = request.broker_id;
        let reply = |code, message: Option<String>| UnregisterBrokerResponse {
            error_code: code,
            error_message: message,
            ..Default::default()
        };
        let Some(broker) = self.image.cluster().broker(id) else {
            let message = format!("Broker ID {id} is not currently registered");
            return ControllerResult::without_records(reply(
                ErrorCode::BROKER_ID_NOT_REGISTERED,
                Some(message),
            ));
        };
        if id == self.config.node_id() {
            let message =
                format!("Broker ID {id} is this server; it can be unregistered only when it is gone.");
            return ControllerResult::without_records(reply(ErrorCode::INVALID_REQUEST, Some(message)));
        }
        let record = UnregisterBrokerRecord {
            broker_id: id,
            broker_epoch: broker.broker_epoch,
            unknown_tags: UnknownTags::NONE,
        };
        ControllerResult::atomic(vec![self.at_level(record)], reply(ErrorCode::NONE, None))
    }

    /// Notes the directory in which a broker keeps each partition. Partitions of a broker with one directory have it
    /// from the start.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or UNKNOWN_TOPIC_OR_PARTITION for a partition it does not hold.
    pub fn assign_directories(
        &self,
        broker_id: i32,
        broker_epoch: i64,
        assignments: &[(Uuid, i32, Uuid)],
    ) -> Result<ControllerResult<()>, ApiError> {
        self.check_epoch(broker_id, broker_epoch)?;
        let mut records = Vec::new();
        for (topic_id, partition_id, directory) in assignments {
            let partition = self.image.topics().partition(*topic_id, *partition_id);
            let replica =
                partition.and_then(|partition| partition.replicas.iter().position(|id| *id == broker_id));
            let (Some(partition), Some(replica)) = (partition, replica) else {
                return Err(ApiError::new(
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    format!("Broker {broker_id} holds no partition {partition_id} of topic {topic_id}."),
                ));
            };
            let mut directories = partition.directories.to_vec();
            directories.resize(partition.replicas.len(), directory_id::MIGRATING);
            if directories.get(replica) != Some(directory) {
                directories[replica] = *directory;
                records.push(self.at_level(PartitionChangeRecord {
                    partition_id: *partition_id,
                    topic_id: *topic_id,
                    directories: Some(directories),
                    ..Default::default()
                }));
            }
        }
        Ok(ControllerResult::divisible(records, ()))
    }

    /// Gives a broker the next block of producer ids.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH, or UNKNOWN_SERVER_ERROR when 2^63 ids are used up.
    pub fn allocate_producer_ids(
        &self,
        broker_id: i32,
        broker_epoch: i64,
    ) -> Result<ControllerResult<ProducerIdBlock>, ApiError> {
        self.check_epoch(broker_id, broker_epoch)?;
        let first_id = self.image.producer_ids().map_or(0, |ids| ids.next_producer_id);
        let next_producer_id = first_id.checked_add(i64::from(PRODUCER_ID_BLOCK_SIZE)).ok_or_else(|| {
            ApiError::new(
                ErrorCode::UNKNOWN_SERVER_ERROR,
                "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
            )
        })?;
        let record =
            ProducerIdsRecord { broker_id, broker_epoch, next_producer_id, unknown_tags: UnknownTags::NONE };
        let block = ProducerIdBlock { first_id, size: PRODUCER_ID_BLOCK_SIZE };
        Ok(ControllerResult::atomic(vec![self.at_level(record)], block))
    }

    /// AllocateProducerIds as it comes over the wire.
    pub fn allocate_producer_ids_request(
        &self,
        request: &AllocateProducerIdsRequest,
    ) -> ControllerResult<AllocateProducerIdsResponse> {
        match self.allocate_producer_ids(request.broker_id, request.broker_epoch) {
            Ok(result) => ControllerResult::atomic(
                result.records,
                AllocateProducerIdsResponse {
                    producer_id_start: result.reply.first_id,
                    producer_id_len: result.reply.size,
                    ..Default::default()
                },
            ),
            Err(error) => ControllerResult::without_records(AllocateProducerIdsResponse {
                error_code: error.code,
                ..Default::default()
            }),
        }
    }

    fn check_epoch(&self, broker_id: i32, broker_epoch: i64) -> Result<(), ApiError> {
        let Some(broker) = self.image.cluster().broker(broker_id) else {
            return Err(ApiError::new(
                ErrorCode::BROKER_ID_NOT_REGISTERED,
                format!("Broker ID {broker_id} is not currently registered"),
            ));
        };
        if broker.broker_epoch != broker_epoch {
            return Err(ApiError::new(
                ErrorCode::STALE_BROKER_EPOCH,
                format!("Expected broker epoch {}, but got {broker_epoch}", broker.broker_epoch),
            ));
        }
        Ok(())
    }

    pub(super) fn at_level(&self, record: impl Into<MetadataRecord>) -> VersionedRecord {
        record.into().at_level(self.image.features().metadata_version())
    }
}

fn may_lead(partition: &Partition, broker_id: i32) -> bool {
    partition.replicas.contains(&broker_id)
        && (partition.isr.contains(&broker_id) || partition.eligible_leader_replicas.contains(&broker_id))
}

fn end_point(listener: &Listener) -> BrokerEndpoint {
    BrokerEndpoint {
        name: listener.name.clone(),
        host: listener.host.clone(),
        port: listener.port,
        security_protocol: listener.security_protocol.id(),
        unknown_tags: UnknownTags::NONE,
    }
}

fn features() -> Vec<BrokerFeature> {
    let feature = |feature: &super::SupportedFeature| BrokerFeature {
        name: feature.name.to_owned(),
        min_supported_version: feature.min_level,
        max_supported_version: feature.max_level,
        unknown_tags: UnknownTags::NONE,
    };
    SUPPORTED_FEATURES.iter().map(feature).collect()
}
