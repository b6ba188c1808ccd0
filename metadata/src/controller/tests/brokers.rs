//! The start of a log, registrations, stops and starts, directories, producer ids and features.

use super::*;

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
    assert_eq!(unsupported_features(world.image()), None);
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
fn features_of_a_log_that_are_not_served_are_named_with_the_way_out() {
    let mut world = World::unregistered("");
    world.append(&bootstrap_records(21, &[("streams.version", 1), ("group.version", 1)])[1..]);
    let reason = unsupported_features(world.image()).unwrap();
    assert!(reason.contains("(group.version at level 1, streams.version at level 1)"), "{reason}");
    assert!(reason.ends_with("downgrade --feature group.version=0 --feature streams.version=0"), "{reason}");
    let level = |level| {
        let mut world = World::unregistered("");
        world.append(&bootstrap_records(level, &[]));
        unsupported_features(world.image())
    };
    let old = level(19).unwrap();
    assert!(old.contains("level 19 (3.7-IV4)") && old.ends_with("upgrade --release-version 3.9"), "{old}");
    let new = level(34).unwrap();
    assert!(new.contains("level 34 (4.5-IV0)") && new.ends_with("downgrade --metadata 4.4-IV2"), "{new}");
    assert_eq!(level(33), None);
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
    assert_eq!(unsupported_features(world.image()), None);
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
fn a_partition_whose_directory_is_missing_has_no_leader_until_it_is_back() {
    let mut world = World::unregistered("");
    let dirs = vec![DIRECTORY, Uuid::from_halves(5, 6)];
    let begin = |world: &mut World, incarnation, log_dirs: &[Uuid]| {
        let registration =
            BrokerRegistration { log_dirs: log_dirs.to_vec(), ..world.registration(incarnation) };
        let result = world.controller().register_broker(&registration).unwrap();
        world.epoch = world.commit(result);
        let result = world.controller().unfence_broker(1, world.epoch, false).unwrap();
        world.commit(result);
    };
    begin(&mut world, 1, &dirs);
    assert_eq!(world.create(topic("t", 2, 1)), ok());
    let id = world.image().topics().by_name("t").unwrap().id();
    let assigned = [(id, 0, dirs[0]), (id, 1, dirs[1])];
    let result = world.controller().assign_directories(1, world.epoch, &assigned).unwrap();
    world.commit(result);
    let leaders = |world: &World| {
        let topics = world.image().topics();
        [0, 1].map(|index| topics.partition(id, index).map(|it| (it.leader, it.isr.to_vec())).unwrap())
    };
    assert_eq!(leaders(&world), [(1, vec![1]), (1, vec![1])]);
    begin(&mut world, 2, &dirs[..1]);
    assert_eq!(leaders(&world), [(1, vec![1]), (-1, vec![1])]);
    let request = ElectLeadersRequest { election_type: 1, ..Default::default() };
    let result = world.controller().elect_leaders(&request);
    world.commit(result);
    assert_eq!(leaders(&world)[1].0, -1, "elected without its directory");
    begin(&mut world, 3, &dirs);
    assert_eq!(leaders(&world), [(1, vec![1]), (1, vec![1])]);
}
