//! A segment of `__consumer_offsets` that Apache Kafka 4.4.0 wrote (metadata.version 3.9-IV0) replays to what Kafka's own
//! `ConsumerGroupCommand --describe` printed at that moment.
//!
//! In `fixtures/kafka-4.4.0`: a live group with a static and a dynamic member, one that was left, one that only holds
//! offsets set by an administrator, one that was deleted; a partition's offset was deleted too.

mod segment;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_coordinator::{Replayed, Shard, visit_subscription_topics};

const SEGMENT: &[u8] = include_bytes!("fixtures/kafka-4.4.0/00000000000000000000.log");
const OFFSETS: &str = include_str!("fixtures/kafka-4.4.0/describe-offsets.txt");
const STATES: &str = include_str!("fixtures/kafka-4.4.0/describe-state.txt");
const MEMBERS: &str = include_str!("fixtures/kafka-4.4.0/describe-members.txt");
const GROUPS: [&str; 3] = ["audit", "billing", "fulfilment"];

/// The rows of the tables that the command printed, split at blanks.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.first().is_some_and(|group| GROUPS.contains(group)))
}

fn replayed() -> Shard {
    let mut shard = Shard::new(Arc::default(), Arc::default(), Arc::default());
    let records = segment::read(SEGMENT);
    assert!(records.len() > 50, "{} records", records.len());
    for record in records {
        assert_eq!(shard.replay(&record.key, record.value.as_deref()), Ok(Replayed::Applied));
    }
    assert!(shard.loaded(1_796_011_860_000).is_empty());
    assert!(shard.is_consistent());
    shard
}

#[test]
fn every_offset_is_what_kafka_showed() {
    let shard = replayed();
    let shown: BTreeMap<(String, String, i32), i64> = rows(OFFSETS)
        .map(|row| ((row[0].to_owned(), row[1].to_owned(), row[2].parse().unwrap()), row[3].parse().unwrap()))
        .collect();
    assert_eq!(shown.len(), 7);
    let mut ours = BTreeMap::new();
    for group in shard.list_groups(&[], &[]).unwrap() {
        for (topic, partition, committed) in shard.offsets(&group.group_id).unwrap().iter() {
            ours.insert((group.group_id.to_string(), topic.to_string(), partition), committed.offset);
        }
    }
    assert_eq!(ours, shown);
}

#[test]
fn every_group_is_in_the_state_that_kafka_showed() {
    let shard = replayed();
    let mut ours: Vec<String> =
        shard.list_groups(&[], &[]).unwrap().iter().map(|group| group.group_id.to_string()).collect();
    ours.sort();
    assert_eq!(ours, GROUPS);
    let mut seen = 0;
    for row in rows(STATES) {
        // GROUP, COORDINATOR, (ID), ASSIGNMENT-STRATEGY, STATE, #MEMBERS
        let described = shard.describe_group(row[0], 6).unwrap();
        assert_eq!(described.error, None);
        assert_eq!(described.state.as_str(), row[4]);
        assert_eq!(described.members.len().to_string(), row[5]);
        assert_eq!(&*described.protocol, if row[3] == "-" { "" } else { row[3] });
        seen += 1;
    }
    assert_eq!(seen, GROUPS.len());
}

#[test]
fn every_member_is_the_one_that_kafka_showed_with_its_assignment() {
    let described = replayed().describe_group("fulfilment", 6).unwrap();
    assert_eq!(&*described.protocol_type, "consumer");
    let mut seen = 0;
    for mut row in rows(MEMBERS) {
        // GROUP, CONSUMER-ID, GROUP-INSTANCE-ID (may be blank), HOST, CLIENT-ID, #PARTITIONS, -, ASSIGNMENT
        let instance = if row[2].starts_with('/') { None } else { Some(row.remove(2)) };
        let member = described.members.iter().find(|member| *member.member_id == *row[1]).expect(row[1]);
        assert_eq!(member.group_instance_id.as_deref(), instance);
        assert_eq!((&*member.client_host, &*member.client_id), (row[2], row[3]));
        let mut topics = Vec::new();
        assert!(visit_subscription_topics(&member.metadata, |topic| topics.push(topic)));
        assert_eq!(topics, ["orders"]);
        assert_eq!(assigned(&member.assignment), row[6]);
        seen += 1;
    }
    assert_eq!((seen, described.members.len()), (2, 2));
}

/// `topic:p,p` of an assignment of one topic, as the command prints it.
fn assigned(bytes: &[u8]) -> String {
    let number = |at: usize, width: usize| {
        bytes[at..at + width].iter().fold(0usize, |number, byte| number << 8 | usize::from(*byte))
    };
    assert_eq!(number(2, 4), 1, "one topic");
    let length = number(6, 2);
    let topic = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let count = number(8 + length, 4);
    let partitions: Vec<String> =
        (0..count).map(|index| number(12 + length + 4 * index, 4).to_string()).collect();
    format!("{topic}:{}", partitions.join(","))
}
