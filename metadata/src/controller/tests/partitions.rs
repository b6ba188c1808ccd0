//! More partitions, elections and reassignments.

use super::*;

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
