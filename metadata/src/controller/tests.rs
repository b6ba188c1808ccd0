//! Scenarios of the controller: each command's records are replayed, then the next one decides on what they left.

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

#[test]
fn an_empty_log_starts_with_its_level_in_a_transaction() {
    let world = World::unregistered("");
    assert_eq!(world.image().features().metadata_version(), 21);
    assert_eq!(world.replay.last_offset(), 2);
    let names: Vec<&str> =
        activation_records(&MetadataReplay::default(), &bootstrap_records(21, &[("group.version", 1)]))
            .iter()
            .map(|record| record.record.name())
            .collect();
    let expected =
        ["BeginTransactionRecord", "FeatureLevelRecord", "FeatureLevelRecord", "EndTransactionRecord"];
    assert_eq!(names, expected);
    assert!(activation_records(&world.replay, &bootstrap_records(21, &[])).is_empty(), "once is enough");
    assert!(unsupported_features(world.image()).is_empty());
}

#[test]
fn a_bootstrap_that_a_crash_cut_off_is_aborted_and_written_again() {
    let bootstrap = bootstrap_records(21, &[]);
    let mut replay = MetadataReplay::default();
    for (offset, record) in (0..).zip(&activation_records(&replay, &bootstrap)[..2]) {
        replay.apply(&record.record, offset).unwrap();
    }
    assert!(replay.image().is_empty());
    let records = activation_records(&replay, &bootstrap);
    let names: Vec<&str> = records.iter().map(|record| record.record.name()).collect();
    assert_eq!(names[..2], ["AbortTransactionRecord", "BeginTransactionRecord"]);
    for (offset, record) in (2..).zip(&records) {
        replay.apply(&record.record, offset).unwrap();
    }
    assert_eq!(replay.image().features().metadata_version(), 21);
}

#[test]
fn features_of_a_log_that_are_not_served_are_named() {
    let mut world = World::unregistered("");
    world.append(&bootstrap_records(21, &[("streams.version", 1)])[1..]);
    let reasons = unsupported_features(world.image());
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("streams.version is at level 1"), "{reasons:?}");
    let old = MetadataReplay::default();
    assert!(unsupported_features(old.image())[0].contains("metadata.version is at level 0"));
}

#[test]
fn registration_gives_the_offset_as_epoch_and_unfencing_makes_the_broker_active() {
    let mut world = World::unregistered("");
    let result = world.controller().register_broker(&world.registration(1)).unwrap();
    let epoch = world.commit(result);
    assert_eq!(epoch, world.replay.last_offset());
    assert!(!world.image().cluster().is_active(1));
    let error = world.controller().unfence_broker(1, epoch + 1, false).unwrap_err();
    assert_eq!(error.code, ErrorCode::STALE_BROKER_EPOCH);
    assert_eq!(
        world.controller().unfence_broker(2, 0, false).unwrap_err().code,
        ErrorCode::BROKER_ID_NOT_REGISTERED
    );
    let result = world.controller().unfence_broker(1, epoch, false).unwrap();
    world.commit(result);
    assert!(world.image().cluster().is_active(1));
    let amended = world.controller().register_broker(&world.registration(1)).unwrap();
    assert_eq!(world.commit(amended), epoch, "the same incarnation keeps its epoch");
    assert!(world.image().cluster().is_active(1));
}

#[test]
fn registrations_with_wrong_directories_are_refused() {
    let world = World::unregistered("");
    for dirs in [vec![], vec![directory_id::LOST], vec![DIRECTORY, DIRECTORY]] {
        let registration = BrokerRegistration { log_dirs: dirs, ..world.registration(1) };
        assert_eq!(
            world.controller().register_broker(&registration).unwrap_err().code,
            ErrorCode::INVALID_REGISTRATION
        );
    }
}

#[test]
fn a_clean_restart_keeps_leader_epochs_and_a_crash_raises_them() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 2, 1)), ok());
    let epochs = |world: &World| {
        let topic = world.image().topics().by_name("t").unwrap();
        topic
            .partitions()
            .iter()
            .map(|partition| (partition.leader, partition.leader_epoch))
            .collect::<Vec<_>>()
    };
    assert_eq!(epochs(&world), [(1, 0), (1, 0)]);
    let result = world.controller().shut_down_broker(1, world.epoch).unwrap();
    world.commit(result);
    let broker = world.image().cluster().broker(1).unwrap();
    assert!(broker.fenced && broker.in_controlled_shutdown);
    world.start(2, true);
    assert_eq!(epochs(&world), [(1, 0), (1, 0)]);
    world.start(3, false);
    assert_eq!(epochs(&world), [(1, 1), (1, 1)]);
}

#[test]
fn partitions_that_kafka_left_without_a_leader_get_one() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let id = world.image().topics().by_name("t").unwrap().id();
    let change =
        PartitionChangeRecord { partition_id: 0, topic_id: id, leader: NO_LEADER, ..Default::default() };
    world.append(&[MetadataRecord::from(change).at_level(21)]);
    world.start(2, true);
    let partition = world.image().topics().partition(id, 0).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (1, 2));
}

#[test]
fn topics_are_made_with_the_counts_asked_for_or_the_defaults() {
    let mut world = World::new("num.partitions=4");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![topic("a", -1, -1), with_config(topic("b", 3, 1), "max.message.bytes", Some("2MiB"))],
        ..Default::default()
    });
    assert_eq!(reply.topics.iter().map(|topic| topic.num_partitions).collect::<Vec<_>>(), [4, 3]);
    assert!(
        reply.topics.iter().all(|topic| topic.error_code == ErrorCode::NONE && topic.replication_factor == 1)
    );
    let image = world.image();
    assert_eq!(image.topics().partition_count(), 7);
    assert_eq!(image.topics().by_name("b").unwrap().id(), reply.topics[1].topic_id);
    assert_eq!(world.topic_config("b", "max.message.bytes").as_deref(), Some("2097152"), "as Kafka reads it");
    let partition = image.topics().by_name("a").unwrap().partition(3).unwrap();
    assert_eq!(
        (partition.leader, &partition.isr[..], &partition.directories[..]),
        (1, &[1][..], &[DIRECTORY][..])
    );
    let configs =
        creation_configs(&world.config, &with_config(topic("b", 3, 1), "max.message.bytes", Some("2MiB")));
    assert!(configs.is_sorted_by(|a, b| a.name <= b.name));
    let size = configs.iter().find(|config| config.name == "max.message.bytes").unwrap();
    assert_eq!((size.value.as_deref(), size.config_source), (Some("2097152"), 1));
}

#[test]
fn wrong_topics_are_refused_one_by_one_in_kafkas_words() {
    let mut world = World::new("max.partitions=5");
    assert_eq!(world.create(topic("taken.name", 1, 1)), ok());
    let cases = [
        (topic("taken.name", 1, 1), ErrorCode::TOPIC_ALREADY_EXISTS, "Topic 'taken.name' already exists."),
        (
            topic("taken_name", 1, 1),
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic 'taken_name' collides with existing topic: taken.name",
        ),
        (topic("a/b", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (topic("", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
        (topic("__cluster_metadata", 1, 1), ErrorCode::INVALID_REQUEST, "is prohibited"),
        (topic("t", 0, 1), ErrorCode::INVALID_PARTITIONS, "invalid non-positive value"),
        (topic("t", -2, 1), ErrorCode::INVALID_PARTITIONS, "invalid non-positive value"),
        (topic("t", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (
            topic("t", 1, 3),
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered.",
        ),
        (
            topic("t", i32::MAX, 1),
            ErrorCode::POLICY_VIOLATION,
            "this broker has 1 of at most max.partitions=5",
        ),
        (
            with_config(topic("t", 1, 1), "retention.ms", Some("x")),
            ErrorCode::INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            with_config(topic("t", 1, 1), "retention.ms", None),
            ErrorCode::INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            with_config(topic("t", 1, 1), "no.such", Some("1")),
            ErrorCode::INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
        (
            with_assignment(topic("t", 1, -1), 0, &[1]),
            ErrorCode::INVALID_REQUEST,
            "numPartitions was not set to -1",
        ),
        (
            with_assignment(topic("t", -1, 1), 0, &[1]),
            ErrorCode::INVALID_REQUEST,
            "replication factor was not set to -1",
        ),
        (
            with_assignment(topic("t", -1, -1), 1, &[1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "consecutive 0-based",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[7]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "includes broker 7, but no such broker is registered.",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[1, 1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "the broker 1 more than once",
        ),
        (
            with_assignment(topic("t", -1, -1), 0, &[]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "an empty replica list",
        ),
        (
            with_assignment(with_assignment(topic("t", -1, -1), 0, &[1]), 0, &[1]),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
    ];
    for (topic, code, part) in cases {
        let name = topic.name.clone();
        let (found, message) = world.create(topic);
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.contains(part), "{name}: {message}");
    }
    assert_eq!(world.image().topics().partition_count(), 1, "nothing was made");
    assert_eq!(world.create(with_assignment(with_assignment(topic("t", -1, -1), 1, &[1]), 0, &[1])), ok());
    assert_eq!(world.image().topics().by_name("t").unwrap().partitions().len(), 2);
}

#[test]
fn one_request_sees_its_own_topics() {
    let mut world = World::new("max.partitions=5");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![
            topic("a.b", 3, 1),
            topic("a_b", 1, 1),
            topic("c", 3, 1),
            topic("d", 2, 1),
            topic("e", 1, 1),
            topic("e", 1, 1),
        ],
        ..Default::default()
    });
    let codes: Vec<_> = reply.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(
        codes,
        [
            ("a.b", ErrorCode::NONE),
            ("a_b", ErrorCode::INVALID_TOPIC_EXCEPTION),
            ("c", ErrorCode::POLICY_VIOLATION),
            ("d", ErrorCode::NONE),
            ("e", ErrorCode::INVALID_REQUEST),
        ]
    );
    assert_eq!(world.image().topics().partition_count(), 5);
}

#[test]
fn validation_alone_changes_nothing() {
    let mut world = World::new("");
    let request =
        CreateTopicsRequest { topics: vec![topic("a", 2, 1)], validate_only: true, ..Default::default() };
    let result = world.controller().create_topics(&request, &mut || Uuid::from_halves(1, 1));
    assert!(result.records.is_empty());
    assert_eq!(result.reply.topics[0].error_code, ErrorCode::NONE);
    assert_eq!(world.create(topic("a", 2, 1)), ok());
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "a".to_owned(),
            count: 4,
            assignments: None,
            ..Default::default()
        }],
        validate_only: true,
        ..Default::default()
    };
    let result = world.controller().create_partitions(&request);
    assert!(result.records.is_empty());
    assert_eq!(result.reply.results[0].error_code, ErrorCode::NONE);
}

#[test]
fn a_fenced_broker_takes_no_partitions() {
    let mut world = World::unregistered("");
    assert_eq!(world.create(topic("t", 1, 1)).0, ErrorCode::INVALID_REPLICATION_FACTOR);
    let result = world.controller().register_broker(&world.registration(1)).unwrap();
    world.commit(result);
    let (code, message) = world.create(topic("t", 1, 1));
    assert_eq!(code, ErrorCode::INVALID_REPLICATION_FACTOR);
    assert!(message.contains("All brokers are currently fenced."), "{message}");
    let (code, message) = world.create(with_assignment(topic("t", -1, -1), 0, &[1]));
    assert_eq!(code, ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert!(message.contains("are fenced or in controlled shutdown"), "{message}");
}

#[test]
fn ids_that_are_taken_reserved_or_look_like_options_are_not_given() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let taken = world.image().topics().by_name("a").unwrap().id();
    let option = Uuid([0xf8; 16]);
    assert!(option.to_string().starts_with('-'));
    let good = Uuid::from_halves(4, 4);
    let mut ids = [Uuid::ZERO, Uuid::from_halves(0, 1), taken, option, good].into_iter();
    let request = CreateTopicsRequest { topics: vec![topic("b", 1, 1)], ..Default::default() };
    let result = world.controller().create_topics(&request, &mut || ids.next().unwrap());
    assert_eq!(world.commit(result).topics[0].topic_id, good);
}

#[test]
fn topics_are_deleted_by_name_or_id_with_their_configs() {
    let mut world = World::new("");
    assert_eq!(world.create(with_config(topic("a", 2, 1), "retention.ms", Some("5"))), ok());
    assert_eq!(world.create(topic("b", 1, 1)), ok());
    let id = world.image().topics().by_name("b").unwrap().id();
    assert_eq!(world.delete(vec![by_name("a"), by_id(id)]), [ok(), ok()]);
    assert!(world.image().topics().is_empty());
    assert_eq!(world.topic_config("a", "retention.ms"), None);
    let codes =
        |replies: Vec<(ErrorCode, String)>| replies.into_iter().map(|(code, _)| code).collect::<Vec<_>>();
    let both = DeleteTopicState { name: Some("a".to_owned()), topic_id: id, ..Default::default() };
    let replies =
        world.delete(vec![by_name("a"), by_id(id), by_id(Uuid::ZERO), both, by_name("x"), by_name("x")]);
    assert_eq!(
        codes(replies),
        [
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::UNKNOWN_TOPIC_ID,
            ErrorCode::INVALID_REQUEST,
            ErrorCode::INVALID_REQUEST,
            ErrorCode::INVALID_REQUEST,
        ]
    );
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    assert_ne!(world.image().topics().by_name("a").unwrap().id(), id);
}

#[test]
fn a_topic_named_twice_in_one_deletion_is_deleted_once() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let id = world.image().topics().by_name("a").unwrap().id();
    let replies = world.delete(vec![by_name("a"), by_id(id)]);
    assert_eq!(replies[0], ok());
    assert_eq!(replies[1].0, ErrorCode::INVALID_REQUEST);
    assert!(world.image().topics().is_empty());
}

#[test]
fn deletion_can_be_switched_off() {
    let mut world = World::new("delete.topic.enable=false");
    assert_eq!(world.create(topic("a", 1, 1)), ok());
    let request = DeleteTopicsRequest { topic_names: vec!["a".to_owned()], ..Default::default() };
    for (version, code) in [(1, ErrorCode::INVALID_REQUEST), (5, ErrorCode::TOPIC_DELETION_DISABLED)] {
        let result = world.controller().delete_topics(&request, version);
        assert!(result.records.is_empty());
        assert_eq!(result.reply.responses[0].error_code, code);
    }
}

#[test]
fn partitions_are_added_at_the_end() {
    let mut world = World::new("max.partitions=6");
    assert_eq!(world.create(topic("a", 2, 1)), ok());
    let mut add = |name: &str, count: i32, assignments: Option<Vec<Vec<i32>>>| {
        let assignments = assignments.map(|lists| {
            lists
                .into_iter()
                .map(|broker_ids| CreatePartitionsAssignment { broker_ids, ..Default::default() })
                .collect()
        });
        let topic = CreatePartitionsTopic { name: name.to_owned(), count, assignments, ..Default::default() };
        let request = CreatePartitionsRequest { topics: vec![topic], ..Default::default() };
        let result = world.controller().create_partitions(&request);
        let reply = world.commit(result);
        (reply.results[0].error_code, reply.results[0].error_message.clone().unwrap_or_default())
    };
    assert_eq!(add("x", 2, None).0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(
        add("a", 2, None),
        (ErrorCode::INVALID_PARTITIONS, "Topic already has 2 partition(s).".to_owned())
    );
    let (code, message) = add("a", 1, None);
    assert_eq!(code, ErrorCode::INVALID_PARTITIONS);
    assert_eq!(message, "The topic a currently has 2 partition(s); 1 would not be an increase.");
    assert_eq!(add("a", 7, None).0, ErrorCode::POLICY_VIOLATION);
    assert_eq!(add("a", i32::MAX, None).0, ErrorCode::POLICY_VIOLATION);
    assert_eq!(add("a", 3, Some(vec![])).0, ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert_eq!(add("a", 3, Some(vec![vec![2]])).0, ErrorCode::INVALID_REPLICA_ASSIGNMENT);
    assert_eq!(add("a", 4, Some(vec![vec![1], vec![1]])), ok());
    assert_eq!(add("a", 6, None), ok());
    let ids: Vec<i32> =
        world.image().topics().by_name("a").unwrap().partitions().iter().map(|p| p.partition_id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn topic_configs_change_by_set_delete_append_and_subtract() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let kind = resource_type::TOPIC;
    assert_eq!(
        world.alter(kind, "t", &[("retention.ms", 0, Some("7")), ("cleanup.policy", 2, Some("compact"))]),
        ok()
    );
    assert_eq!(world.topic_config("t", "retention.ms").as_deref(), Some("7"));
    assert_eq!(world.topic_config("t", "cleanup.policy").as_deref(), Some("delete,compact"));
    assert_eq!(
        world.alter(kind, "t", &[("cleanup.policy", 3, Some("delete")), ("retention.ms", 1, None)]),
        ok()
    );
    assert_eq!(world.topic_config("t", "retention.ms"), None);
    assert_eq!(world.topic_config("t", "cleanup.policy").as_deref(), Some("compact"));
    let offset = world.replay.last_offset();
    assert_eq!(world.alter(kind, "t", &[("cleanup.policy", 0, Some("compact"))]), ok());
    assert_eq!(world.replay.last_offset(), offset, "no change, no record");
    let cases = [
        ("t", vec![("retention.ms", 0, Some("-2"))], ErrorCode::INVALID_CONFIG, "Value must be at least -1"),
        ("t", vec![("retention.ms", 2, Some("1"))], ErrorCode::INVALID_CONFIG, "its type is not LIST"),
        (
            "t",
            vec![("retention.ms", 0, None)],
            ErrorCode::INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            "t",
            vec![("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))],
            ErrorCode::INVALID_REQUEST,
            "duplicate config keys",
        ),
        ("t", vec![("retention.ms", 9, Some("1"))], ErrorCode::INVALID_REQUEST, "Unknown operations type 9"),
        (
            "x",
            vec![("retention.ms", 0, Some("1"))],
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'x' does not exist.",
        ),
        ("", vec![("retention.ms", 0, Some("1"))], ErrorCode::INVALID_REQUEST, "Default topic resources"),
        (
            "a b",
            vec![("retention.ms", 0, Some("1"))],
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid",
        ),
        (
            "t",
            vec![("segment.ms", 0, Some("9")), ("no.such", 0, Some("1"))],
            ErrorCode::INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
    ];
    for (name, operations, code, part) in cases {
        let (found, message) = world.alter(kind, name, &operations);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(world.topic_config("t", "segment.ms"), None, "all operations of a resource or none");
}

#[test]
fn brokers_groups_and_subscriptions_have_configs_too() {
    let mut world = World::new("");
    let broker = resource_type::BROKER;
    assert_eq!(world.alter(broker, "", &[("message.max.bytes", 0, Some("1MiB"))]), ok());
    assert_eq!(world.image().configs().broker_default().get("message.max.bytes").unwrap(), "1048576");
    let offset = world.replay.last_offset();
    assert_eq!(world.alter(broker, "1", &[("log.retention.ms", 0, Some("5"))]), ok());
    assert_eq!(world.alter(broker, "1", &[("log.retention.ms", 0, Some("5"))]), ok());
    assert_eq!(world.replay.last_offset(), offset + 2, "a broker reads again even what did not change");
    let (config, _) = world
        .config
        .with_dynamic(&world.image().configs().broker_default(), &world.image().configs().broker(1));
    assert_eq!(config.topic_defaults().retention_ms, 5);
    assert_eq!(config.topic_defaults().max_message_bytes, 1 << 20);
    assert_eq!(
        world.alter(resource_type::GROUP, "g", &[("consumer.session.timeout.ms", 0, Some("50000"))]),
        ok()
    );
    assert_eq!(world.alter(resource_type::CLIENT_METRICS, "m", &[("interval.ms", 0, Some("500"))]), ok());
    let cases = [
        (
            broker,
            "2",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            broker,
            "one",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Node id must be an integer",
        ),
        (
            broker,
            "01",
            ("message.max.bytes", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Unexpected broker id",
        ),
        (
            broker,
            "1",
            ("num.partitions", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            broker,
            "",
            ("message.max.bytes", 0, Some("x")),
            ErrorCode::INVALID_REQUEST,
            "Not a number of type INT",
        ),
        (
            resource_type::GROUP,
            "",
            ("consumer.session.timeout.ms", 0, Some("50000")),
            ErrorCode::INVALID_REQUEST,
            "Default group",
        ),
        (
            resource_type::GROUP,
            "g",
            ("consumer.session.timeout.ms", 0, Some("1")),
            ErrorCode::INVALID_CONFIG,
            "greater than or equal",
        ),
        (
            resource_type::CLIENT_METRICS,
            "m",
            ("interval.ms", 0, Some("1")),
            ErrorCode::INVALID_REQUEST,
            "at least 100",
        ),
        (
            resource_type::BROKER_LOGGER,
            "1",
            ("root", 0, Some("DEBUG")),
            ErrorCode::INVALID_REQUEST,
            "Log levels are given when this server starts",
        ),
    ];
    for (kind, name, operation, code, part) in cases {
        let (found, message) = world.alter(kind, name, &[operation]);
        assert_eq!(found, code, "{name}: {message}");
        assert!(message.contains(part), "{name}: {message}");
    }
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let list = |types: Vec<i8>| {
        let request = ListConfigResourcesRequest { resource_types: types, ..Default::default() };
        let reply = world.controller().list_config_resources(&request);
        (
            reply.error_code,
            reply.config_resources.into_iter().map(|resource| resource.resource_name).collect::<Vec<_>>(),
        )
    };
    assert_eq!(list(vec![]).1, ["t", "1", "1", "m", "g"]);
    assert_eq!(list(vec![resource_type::CLIENT_METRICS]).1, ["m"]);
    assert_eq!(list(vec![99]).0, ErrorCode::UNSUPPORTED_VERSION);
}

#[test]
fn the_older_request_replaces_all_overrides() {
    let mut world = World::new("");
    let wanted =
        with_config(with_config(topic("t", 1, 1), "retention.ms", Some("5")), "segment.ms", Some("6"));
    assert_eq!(world.create(wanted), ok());
    let resource = |configs: &[(&str, &str)]| AlterConfigsResource {
        resource_type: resource_type::TOPIC,
        resource_name: "t".to_owned(),
        configs: configs
            .iter()
            .map(|(name, value)| AlterConfigsRequestAlterableConfig {
                name: (*name).to_owned(),
                value: Some((*value).to_owned()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let request =
        AlterConfigsRequest { resources: vec![resource(&[("segment.ms", "7")])], ..Default::default() };
    let result = world.controller().alter_configs(&request);
    assert_eq!(world.commit(result).responses[0].error_code, ErrorCode::NONE);
    assert_eq!(world.topic_config("t", "retention.ms"), None);
    assert_eq!(world.topic_config("t", "segment.ms").as_deref(), Some("7"));
    let twice = AlterConfigsRequest { resources: vec![resource(&[]), resource(&[])], ..Default::default() };
    let result = world.controller().alter_configs(&twice);
    assert!(result.records.is_empty());
    assert!(result.reply.responses.iter().all(|reply| reply.error_code == ErrorCode::INVALID_REQUEST));
}

#[test]
fn producer_ids_come_in_blocks_that_never_repeat() {
    let mut world = World::new("");
    for first in [0, 1000, 2000] {
        let result = world.controller().allocate_producer_ids(1, world.epoch).unwrap();
        assert_eq!(world.commit(result), ProducerIdBlock { first_id: first, size: 1000 });
    }
    assert_eq!(
        world.controller().allocate_producer_ids(1, world.epoch + 1).unwrap_err().code,
        ErrorCode::STALE_BROKER_EPOCH
    );
    let request = AllocateProducerIdsRequest { broker_id: 9, ..Default::default() };
    let result = world.controller().allocate_producer_ids_request(&request);
    assert_eq!(result.reply.error_code, ErrorCode::BROKER_ID_NOT_REGISTERED);
    let last = ProducerIdsRecord { next_producer_id: i64::MAX - 999, ..Default::default() };
    world.append(&[MetadataRecord::from(last).at_level(21)]);
    let error = world.controller().allocate_producer_ids(1, world.epoch).unwrap_err();
    assert_eq!(error.code, ErrorCode::UNKNOWN_SERVER_ERROR);
}

#[test]
fn features_move_only_inside_what_is_served() {
    let mut world = World::new("");
    let mut update = |name: &str, level: i16, upgrade_type: i8| {
        let update = FeatureUpdateKey {
            feature: name.to_owned(),
            max_version_level: level,
            upgrade_type,
            ..Default::default()
        };
        let request = UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
        let result = world.controller().update_features(&request);
        let reply = world.commit(result);
        (reply.error_code, reply.error_message.unwrap_or_default())
    };
    let refused = |result: (ErrorCode, String), part: &str| {
        assert_eq!(result.0, ErrorCode::INVALID_UPDATE_VERSION, "{}", result.1);
        assert!(result.1.contains(part), "{}", result.1);
    };
    refused(update("metadata.version", 20, 2), "only supports versions 21-33");
    refused(update("metadata.version", 34, 1), "only supports versions 21-33");
    refused(update("metadata.version", -1, 1), "cannot be less than 0");
    refused(update("metadata.version", 25, 0), "upgrade type");
    refused(update("metadata.version", 25, 2), "Can't downgrade to a newer version.");
    refused(update("group.version", 1, 1), "does not support this feature");
    assert_eq!(update("group.version", 0, 2), ok());
    assert_eq!(update("metadata.version", 25, 1), ok());
    refused(update("metadata.version", 24, 1), "without setting the upgrade type");
    assert_eq!(update("metadata.version", 23, 2), ok());
    refused(update("metadata.version", 21, 2), "might delete metadata information");
    refused(update("metadata.version", 21, 3), "Unsafe metadata downgrade is not supported");
    assert_eq!(world.image().features().metadata_version(), 23);
    assert_eq!(world.create(topic("t", 1, 1)), ok());
}

#[test]
fn features_that_were_finalized_elsewhere_can_be_lowered_to_0() {
    let mut world = World::new("");
    world.append(&bootstrap_records(21, &[("share.version", 1)])[1..]);
    let update =
        FeatureUpdateKey { feature: "share.version".to_owned(), upgrade_type: 2, ..Default::default() };
    let request = UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() };
    let result = world.controller().update_features(&request);
    assert_eq!(world.commit(result).error_code, ErrorCode::NONE);
    assert!(unsupported_features(world.image()).is_empty());
}

#[test]
fn elections_answer_what_one_node_can() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 2, 1)), ok());
    let elect = |world: &mut World, election_type: i8, partitions: Option<Vec<i32>>| {
        let topic_partitions = partitions.map(|partitions| {
            vec![ElectLeadersRequestTopicPartitions {
                topic: "t".to_owned(),
                partitions,
                ..Default::default()
            }]
        });
        let request = ElectLeadersRequest { election_type, topic_partitions, ..Default::default() };
        let result = world.controller().elect_leaders(&request);
        let reply = world.commit(result);
        let results = reply.replica_election_results.into_iter().flat_map(|topic| topic.partition_result);
        (reply.error_code, results.map(|result| (result.partition_id, result.error_code)).collect::<Vec<_>>())
    };
    let not_needed = ErrorCode::ELECTION_NOT_NEEDED;
    assert_eq!(
        elect(&mut world, 0, Some(vec![0, 9])).1,
        [(0, not_needed), (9, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)]
    );
    assert_eq!(elect(&mut world, 1, Some(vec![1])).1, [(1, not_needed)]);
    assert_eq!(elect(&mut world, 0, None).1, []);
    assert_eq!(elect(&mut world, 5, None).0, ErrorCode::INVALID_REQUEST);
    let topic_id = world.image().topics().by_name("t").unwrap().id();
    let change = PartitionChangeRecord { partition_id: 1, topic_id, leader: NO_LEADER, ..Default::default() };
    world.append(&[MetadataRecord::from(change.clone()).at_level(21)]);
    assert_eq!(elect(&mut world, 0, None).1, [(1, ErrorCode::NONE)]);
    assert_eq!(world.image().topics().partition(topic_id, 1).unwrap().leader, 1);
    let lost = PartitionChangeRecord { isr: Some(vec![]), ..change };
    world.append(&[MetadataRecord::from(lost).at_level(21)]);
    assert_eq!(elect(&mut world, 0, Some(vec![1])).1, [(1, ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE)]);
    assert_eq!(elect(&mut world, 1, Some(vec![1])).1, [(1, ErrorCode::NONE)]);
    let partition = world.image().topics().partition(topic_id, 1).unwrap();
    assert_eq!((partition.leader, &partition.isr[..], partition.leader_recovery_state), (1, &[1][..], 1));
}

#[test]
fn reassignments_answer_what_one_node_can() {
    let mut world = World::new("");
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let alter = |world: &mut World, name: &str, replicas: Option<Vec<i32>>| {
        let partition = ReassignablePartition { partition_index: 0, replicas, ..Default::default() };
        let topic =
            ReassignableTopic { name: name.to_owned(), partitions: vec![partition], ..Default::default() };
        let request = AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
        let result = world.controller().alter_partition_reassignments(&request);
        let records = result.records.len();
        let reply = world.commit(result);
        (records, reply.responses[0].partitions[0].error_code)
    };
    assert_eq!(alter(&mut world, "t", Some(vec![1])), (0, ErrorCode::NONE));
    assert_eq!(alter(&mut world, "t", None), (0, ErrorCode::NO_REASSIGNMENT_IN_PROGRESS));
    assert_eq!(alter(&mut world, "x", None), (0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(alter(&mut world, "t", Some(vec![2])), (0, ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    assert_eq!(alter(&mut world, "t", Some(vec![])), (0, ErrorCode::INVALID_REPLICA_ASSIGNMENT));
    let list = |world: &World| {
        world.controller().list_partition_reassignments(&ListPartitionReassignmentsRequest {
            topics: None,
            ..Default::default()
        })
    };
    assert!(list(&world).topics.is_empty());
    // A log of a cluster that was adding a replica when it became this node's.
    let topic_id = world.image().topics().by_name("t").unwrap().id();
    let change = PartitionChangeRecord {
        partition_id: 0,
        topic_id,
        replicas: Some(vec![1, 2]),
        adding_replicas: Some(vec![2]),
        ..Default::default()
    };
    world.append(&[MetadataRecord::from(change).at_level(21)]);
    assert_eq!(list(&world).topics[0].partitions[0].adding_replicas, [2]);
    assert_eq!(alter(&mut world, "t", None), (1, ErrorCode::NONE));
    assert!(list(&world).topics.is_empty());
    let partition = world.image().topics().partition(topic_id, 0).unwrap();
    assert_eq!(
        (&partition.replicas[..], partition.leader, &partition.directories[..]),
        (&[1][..], 1, &[DIRECTORY][..])
    );
}

#[test]
fn brokers_of_another_life_can_be_unregistered_and_this_one_not() {
    let mut world = World::new("");
    let other = RegisterBrokerRecord { broker_id: 2, broker_epoch: 1, ..Default::default() };
    world.append(&[MetadataRecord::from(other).at_level(21)]);
    let mut unregister = |broker_id| {
        let result = world
            .controller()
            .unregister_broker(&UnregisterBrokerRequest { broker_id, ..Default::default() });
        world.commit(result).error_code
    };
    assert_eq!(unregister(2), ErrorCode::NONE);
    assert_eq!(unregister(2), ErrorCode::BROKER_ID_NOT_REGISTERED);
    assert_eq!(unregister(1), ErrorCode::INVALID_REQUEST);
}

#[test]
fn with_several_directories_the_broker_chooses() {
    let mut world = World::unregistered("");
    let dirs = vec![DIRECTORY, Uuid::from_halves(5, 6)];
    let registration = BrokerRegistration { log_dirs: dirs.clone(), ..world.registration(1) };
    let result = world.controller().register_broker(&registration).unwrap();
    world.epoch = world.commit(result);
    let result = world.controller().unfence_broker(1, world.epoch, false).unwrap();
    world.commit(result);
    assert_eq!(world.create(topic("t", 1, 1)), ok());
    let id = world.image().topics().by_name("t").unwrap().id();
    let directory = |world: &World| world.image().topics().partition(id, 0).unwrap().directories.to_vec();
    assert_eq!(directory(&world), [directory_id::UNASSIGNED]);
    let result = world.controller().assign_directories(1, world.epoch, &[(id, 0, dirs[1])]).unwrap();
    world.commit(result);
    assert_eq!(directory(&world), [dirs[1]]);
    let again = world.controller().assign_directories(1, world.epoch, &[(id, 0, dirs[1])]).unwrap();
    assert!(again.records.is_empty());
    let unknown = world.controller().assign_directories(1, world.epoch, &[(id, 7, dirs[1])]).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn metadata_has_a_limit_that_names_its_property_and_deletion_always_works() {
    let mut world = World::new("max.metadata.bytes=1MiB");
    let mut made = 0;
    let message = loop {
        let (code, message) = world.create(topic(&format!("topic-{made}"), 50, 1));
        if code != ErrorCode::NONE {
            assert_eq!(code, ErrorCode::POLICY_VIOLATION);
            break message;
        }
        made += 1;
        assert!(world.image().memory_bytes() <= 1 << 20);
    };
    assert!(message.contains("max.metadata.bytes=1048576"), "{message}");
    let value = "x".repeat(30_000);
    let mut last = ok();
    for number in 0..40 {
        last = world.alter(resource_type::BROKER, "", &[(&format!("custom.{number}"), 0, Some(&value))]);
    }
    assert_eq!(last.0, ErrorCode::POLICY_VIOLATION);
    assert_eq!(world.delete(vec![by_name("topic-0")]), [ok()]);
    assert_eq!(world.create(topic("again", 1, 1)).0, ErrorCode::NONE);
}

#[test]
fn a_request_for_too_many_records_is_refused_whole_item_by_item() {
    let mut world = World::new("max.partitions=100000");
    let reply = world.create_request(&CreateTopicsRequest {
        topics: vec![topic("a", 9_000, 1), topic("b", 9_000, 1), topic("c", 500, 1)],
        ..Default::default()
    });
    let codes: Vec<_> = reply.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::POLICY_VIOLATION, ErrorCode::NONE]);
    assert_eq!(world.image().topics().partition_count(), 9_500);
}
