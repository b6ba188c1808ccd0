//! ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where logs begin and end, and where a time is in them.

use weir_protocol::messages::*;
use weir_protocol::records::Codec;

use crate::batch::batch;
use crate::pair::Pair;

/// Before now and within what a topic takes; records are a second apart.
const START_MS: i64 = 1_700_000_000_000;

pub(crate) fn compare(pair: &mut Pair) {
    let kept: &[(&str, &str)] = &[("retention.ms", "-1")];
    let append_time: &[(&str, &str)] = &[("message.timestamp.type", "LogAppendTime"), ("retention.ms", "-1")];
    pair.create(&[
        ("offsets-a", 2, kept),
        ("offsets-empty", 1, &[]),
        ("offsets-cut", 1, kept),
        ("offsets-append-time", 1, append_time),
        ("offsets-compact", 1, &[("cleanup.policy", "compact")]),
    ]);
    let at = |seconds: &[i64]| seconds.iter().map(|second| START_MS + second * 1000).collect::<Vec<_>>();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        pair.produce("offsets-a", 0, batch(codec, &at(&[10, 20, 30])));
        pair.produce("offsets-cut", 0, batch(codec, &at(&[10, 20, 30])));
    }
    // Times that go back and stand still, the latest in the middle.
    pair.produce("offsets-a", 1, batch(Codec::None, &at(&[50, 40])));
    pair.produce("offsets-a", 1, batch(Codec::Gzip, &at(&[30, 90, 90, 20])));
    pair.produce("offsets-a", 1, batch(Codec::None, &at(&[60, 90])));
    pair.produce("offsets-a", 1, batch(Codec::None, &[-1, -1]));
    pair.produce("offsets-append-time", 0, batch(Codec::None, &at(&[10, 20])));
    // The second is to have a later time.
    std::thread::sleep(std::time::Duration::from_millis(5));
    pair.produce("offsets-append-time", 0, batch(Codec::Gzip, &at(&[10, 20])));
    pair.produce("offsets-compact", 0, batch(Codec::None, &at(&[10, 20])));
    pair.delete_records("offsets-cut", 0, 4);
    for version in pair.served(ApiKey::ListOffsets) {
        list(pair, version);
    }
    for version in pair.served(ApiKey::OffsetForLeaderEpoch) {
        for_leader_epoch(pair, version);
    }
    for version in pair.served(ApiKey::DeleteRecords) {
        delete_records(pair, version);
    }
}

/// Partitions with a timestamp and a current leader epoch.
type Asked<'a> = &'a [(&'a str, &'a [(i32, i64, i32)])];

fn ask_list(pair: &mut Pair, version: i16, scene: &str, isolation_level: i8, asked: Asked<'_>) {
    pair.scene(scene);
    let topic = |(name, partitions): &(&str, &[(i32, i64, i32)])| ListOffsetsTopic {
        name: (*name).to_string(),
        partitions: partitions
            .iter()
            .map(|(partition_index, timestamp, current_leader_epoch)| ListOffsetsPartition {
                partition_index: *partition_index,
                timestamp: *timestamp,
                current_leader_epoch: *current_leader_epoch,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: if version >= 2 { isolation_level } else { 0 },
        topics: asked.iter().map(topic).collect(),
        timeout_ms: 5000,
        ..Default::default()
    };
    pair.ask(version, &request);
}

fn list(pair: &mut Pair, version: i16) {
    let names = ["offsets-a", "offsets-empty", "offsets-cut", "offsets-append-time", "offsets-compact"];
    for special in [-1, -2, -3, -4, -5, -6, -7, -100, i64::MIN, i64::MAX, 0] {
        for name in names {
            for isolation in [0, 1] {
                let scene = format!("{name} at {special}, isolation {isolation}");
                ask_list(pair, version, &scene, isolation, &[(name, &[(0, special, -1)])]);
            }
        }
        ask_list(
            pair,
            version,
            &format!("offsets-a 1 at {special}"),
            0,
            &[("offsets-a", &[(1, special, -1)])],
        );
    }
    for second in [0, 9, 10, 11, 20, 25, 30, 31, 40, 50, 60, 89, 90, 91] {
        for millisecond in [-1, 0, 1] {
            let time = START_MS + second * 1000 + millisecond;
            let scene = format!("at {second} s and {millisecond} ms");
            let asked: Asked<'_> = &[
                ("offsets-a", &[(0, time, -1), (1, time, -1)]),
                ("offsets-empty", &[(0, time, -1)]),
                ("offsets-cut", &[(0, time, -1)]),
            ];
            ask_list(pair, version, &scene, 0, asked);
        }
    }
    let asked: Asked<'_> = &[("offsets-append-time", &[(0, START_MS, -1)])];
    ask_list(pair, version, "offsets-append-time at a time", 0, asked);
    ask_list(pair, version, "nothing", 0, &[]);
    ask_list(pair, version, "no partitions", 0, &[("offsets-a", &[])]);
    ask_list(
        pair,
        version,
        "unknown",
        0,
        &[("no-such-topic", &[(0, -1, -1)]), ("offsets-a", &[(9, -1, -1), (-1, -1, -1)])],
    );
    ask_list(pair, version, "invalid", 0, &[("a b", &[(0, -1, -1)]), ("", &[(0, -1, -1)])]);
    ask_list(
        pair,
        version,
        "a partition twice",
        0,
        &[("offsets-a", &[(0, -1, -1), (0, -2, -1), (1, -1, -1)])],
    );
    ask_list(
        pair,
        version,
        "a topic twice",
        0,
        &[("offsets-a", &[(0, -1, -1)]), ("offsets-a", &[(0, -1, -1), (1, -1, -1)])],
    );
    ask_list(pair, version, "isolation level 2", 2, &[("offsets-a", &[(0, -1, -1)])]);
    if version >= 4 {
        for epoch in [-1, 0, 1, 5, -2] {
            for timestamp in [-1, -2, -3, START_MS] {
                let scene = format!("leader epoch {epoch} at {timestamp}");
                ask_list(pair, version, &scene, 0, &[("offsets-a", &[(0, timestamp, epoch)])]);
            }
        }
    }
    // A replica that is none, and a debugging one.
    for replica_id in [-2, 7, 9] {
        pair.scene(format!("replica {replica_id}"));
        let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic {
            name: "offsets-a".to_string(),
            partitions: vec![partition],
            ..Default::default()
        };
        pair.ask(version, &ListOffsetsRequest { replica_id, topics: vec![topic], ..Default::default() });
    }
}

fn for_leader_epoch(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, scene: &str, asked: &[(&str, &[(i32, i32, i32)])]| {
        pair.scene(scene);
        let topic = |(name, partitions): &(&str, &[(i32, i32, i32)])| OffsetForLeaderTopic {
            topic: (*name).to_string(),
            partitions: partitions
                .iter()
                .map(|(partition, current_leader_epoch, leader_epoch)| OffsetForLeaderPartition {
                    partition: *partition,
                    current_leader_epoch: *current_leader_epoch,
                    leader_epoch: *leader_epoch,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let request = OffsetForLeaderEpochRequest {
            replica_id: if version >= 3 { -1 } else { -2 },
            topics: asked.iter().map(topic).collect(),
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    for name in ["offsets-a", "offsets-empty", "offsets-cut"] {
        for current in [-1, 0, 1, -2] {
            for epoch in [0, 1, 5, -1, -2] {
                if version >= 2 || current == -1 {
                    ask(
                        pair,
                        &format!("epoch {epoch} of {name} at {current}"),
                        &[(name, &[(0, current, epoch)])],
                    );
                }
            }
        }
    }
    ask(pair, "nothing", &[]);
    ask(pair, "no partitions", &[("offsets-a", &[])]);
    ask(
        pair,
        "unknown",
        &[("no-such-topic", &[(0, -1, 0)]), ("offsets-a", &[(9, -1, 0), (-1, -1, 0), (0, -1, 0)])],
    );
    ask(pair, "invalid", &[("a b", &[(0, -1, 0)]), ("", &[(0, -1, 0)])]);
    ask(pair, "a partition twice", &[("offsets-a", &[(0, -1, 0), (0, -1, 0)])]);
    ask(
        pair,
        "a topic twice",
        &[("offsets-a", &[(0, -1, 0)]), ("offsets-empty", &[(0, -1, 0)]), ("offsets-a", &[(1, -1, 0)])],
    );
}

fn delete_records(pair: &mut Pair, version: i16) {
    let name = format!("offsets-delete-v{version}");
    pair.create(&[(&name, 2, &[("retention.ms", "-1")])]);
    for _ in 0..4 {
        pair.produce(&name, 0, batch(Codec::None, &[START_MS, START_MS, START_MS]));
    }
    let ask = |pair: &mut Pair, scene: &str, asked: &[(&str, &[(i32, i64)])]| {
        pair.scene(format!("delete records {scene}"));
        let topic = |(name, partitions): &(&str, &[(i32, i64)])| DeleteRecordsTopic {
            name: (*name).to_string(),
            partitions: partitions
                .iter()
                .map(|(partition_index, offset)| DeleteRecordsPartition {
                    partition_index: *partition_index,
                    offset: *offset,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let request = DeleteRecordsRequest {
            topics: asked.iter().map(topic).collect(),
            timeout_ms: 5000,
            ..Default::default()
        };
        pair.ask(version, &request);
        ask_list(pair, 7, scene, 0, &[(&name, &[(0, -2, -1), (1, -2, -1)])]);
    };
    ask(pair, "before 0", &[(&name, &[(0, 0)])]);
    ask(pair, "before the middle of a batch", &[(&name, &[(0, 4)])]);
    ask(pair, "before what is gone", &[(&name, &[(0, 2)])]);
    ask(pair, "before -2", &[(&name, &[(0, -2)])]);
    ask(pair, "beyond the end", &[(&name, &[(0, 13)])]);
    ask(pair, "of an empty partition", &[(&name, &[(1, 0)])]);
    ask(pair, "of an empty partition beyond the end", &[(&name, &[(1, 1)])]);
    ask(pair, "of an empty partition to the end", &[(&name, &[(1, -1)])]);
    ask(pair, "of unknown ones", &[("no-such-topic", &[(0, 0)]), (&name, &[(9, 0), (-1, 0)])]);
    ask(pair, "of invalid ones", &[("a b", &[(0, 0)]), ("", &[(0, 0)])]);
    ask(pair, "of a compacted topic", &[("offsets-compact", &[(0, 1)])]);
    ask(pair, "of the metadata", &[("__cluster_metadata", &[(0, 1)])]);
    ask(pair, "of a partition twice", &[(&name, &[(0, 5), (0, 6)])]);
    ask(pair, "of nothing", &[]);
    ask(pair, "of no partitions", &[(&name, &[])]);
    ask(pair, "to the end", &[(&name, &[(0, -1)])]);
    ask(pair, "to the end again", &[(&name, &[(0, -1)])]);
}
