//! Scenarios of the controller: each command's records are replayed, then the next one decides on what they left.

mod brokers;
mod configs;
mod partitions;
mod topics;

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use super::*;
use crate::image::{MetadataReplay, NO_LEADER, directory_id, resource_type};
use crate::properties::{Listener, PropertySet, SecurityProtocol};
use crate::record_frame::MetadataRecord;

const DIRECTORY: Uuid = Uuid::from_halves(5, 5);

/// One node with its log: what a caller of the controller does, without the disk.
struct World {
    replay: MetadataReplay,
    config: BrokerConfig,
    next_id: u64,
    epoch: i64,
}

impl World {
    /// A formatted, registered and unfenced node.
    fn new(properties: &str) -> Self {
        let mut world = Self::unregistered(properties);
        world.start(1, true);
        world
    }

    fn unregistered(properties: &str) -> Self {
        let set = PropertySet::parse(format!("node.id=1\n{properties}").as_bytes()).unwrap();
        let config = BrokerConfig::from_properties(&set).unwrap().config;
        let mut world = Self { replay: MetadataReplay::default(), config, next_id: 1000, epoch: -1 };
        let records = activation_records(&world.replay, &bootstrap_records(21, &[]));
        world.append(&records);
        world
    }

    fn start(&mut self, incarnation: u64, clean: bool) {
        let registration = self.registration(incarnation);
        let result = self.controller().register_broker(&registration).unwrap();
        self.epoch = self.commit(result);
        let result = self.controller().unfence_broker(1, self.epoch, !clean).unwrap();
        self.commit(result);
    }

    fn registration(&self, incarnation: u64) -> BrokerRegistration {
        BrokerRegistration {
            broker_id: 1,
            incarnation_id: Uuid::from_halves(9, incarnation),
            listeners: vec![Listener {
                name: "PLAINTEXT".to_owned(),
                host: "localhost".to_owned(),
                port: 9092,
                security_protocol: SecurityProtocol::Plaintext,
            }],
            rack: None,
            log_dirs: vec![DIRECTORY],
        }
    }

    fn controller(&self) -> Controller<'_> {
        Controller::new(self.replay.image(), &self.config)
    }

    fn image(&self) -> &MetadataImage {
        self.replay.image()
    }

    fn append(&mut self, records: &[VersionedRecord]) {
        for record in records {
            let bytes = record.to_bytes().unwrap();
            let record = VersionedRecord::decode(&bytes, 1 << 20).unwrap();
            self.replay.apply(&record.record, self.replay.last_offset() + 1).unwrap();
        }
    }

    fn commit<R>(&mut self, result: ControllerResult<R>) -> R {
        self.append(&result.records);
        result.reply
    }

    fn create_request(&mut self, request: &CreateTopicsRequest) -> CreateTopicsResponse {
        let mut next = self.next_id;
        let result = self.controller().create_topics(request, &mut || {
            next += 1;
            Uuid::from_halves(3, next)
        });
        self.next_id = next;
        self.commit(result)
    }

    fn create(&mut self, topic: CreatableTopic) -> (ErrorCode, String) {
        let reply = self.create_request(&CreateTopicsRequest { topics: vec![topic], ..Default::default() });
        let topic = reply.topics.into_iter().next().unwrap();
        (topic.error_code, topic.error_message.unwrap_or_default())
    }

    fn delete(&mut self, topics: Vec<DeleteTopicState>) -> Vec<(ErrorCode, String)> {
        let request = DeleteTopicsRequest { topics, ..Default::default() };
        let result = self.controller().delete_topics(&request, 6);
        let reply = self.commit(result);
        reply
            .responses
            .into_iter()
            .map(|topic| (topic.error_code, topic.error_message.unwrap_or_default()))
            .collect()
    }

    fn alter(
        &mut self,
        kind: i8,
        name: &str,
        operations: &[(&str, i8, Option<&str>)],
    ) -> (ErrorCode, String) {
        let configs =
            operations.iter().map(|(name, operation, value)| IncrementalAlterConfigsRequestAlterableConfig {
                name: (*name).to_owned(),
                config_operation: *operation,
                value: value.map(str::to_owned),
                ..Default::default()
            });
        let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
            resource_type: kind,
            resource_name: name.to_owned(),
            configs: configs.collect(),
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let result = self.controller().incremental_alter_configs(&request);
        let reply = self.commit(result);
        let reply = reply.responses.into_iter().next().unwrap();
        (reply.error_code, reply.error_message.unwrap_or_default())
    }

    fn topic_config(&self, topic: &str, name: &str) -> Option<String> {
        self.image().configs().topic(topic).get(name).cloned()
    }
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions, replication_factor, ..Default::default() }
}

fn with_config(mut topic: CreatableTopic, name: &str, value: Option<&str>) -> CreatableTopic {
    topic.configs.push(CreatableTopicConfig {
        name: name.to_owned(),
        value: value.map(str::to_owned),
        ..Default::default()
    });
    topic
}

fn with_assignment(mut topic: CreatableTopic, partition_index: i32, broker_ids: &[i32]) -> CreatableTopic {
    topic.assignments.push(CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.to_vec(),
        ..Default::default()
    });
    topic
}

fn by_name(name: &str) -> DeleteTopicState {
    DeleteTopicState { name: Some(name.to_owned()), topic_id: Uuid::ZERO, ..Default::default() }
}

fn by_id(topic_id: Uuid) -> DeleteTopicState {
    DeleteTopicState { name: None, topic_id, ..Default::default() }
}

fn ok() -> (ErrorCode, String) {
    (ErrorCode::NONE, String::new())
}
