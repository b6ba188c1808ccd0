//! What this coordinator writes, Apache Kafka reads: its `DumpLogSegments --offsets-decoder` decodes every record.
//!
//! Runs when `WEIR_KAFKA_LIBS` names a directory with the jars of Kafka 4.4.0 (kafka_2.13 and kafka-tools with their
//! dependencies); needs `java` in the path. Without the variable it says so and passes.

mod harness;
mod segment;

use std::process::Command as Process;

use harness::Broker;
use weir_coordinator::{Command, OffsetCommit};

#[test]
fn kafka_decodes_every_record_of_a_life_of_groups() {
    let Some(libs) = std::env::var_os("WEIR_KAFKA_LIBS") else {
        eprintln!("skipped: WEIR_KAFKA_LIBS is not set");
        return;
    };
    let mut broker = Broker::default();
    let ids = broker.stable_group("group-ä", 2);
    broker.commit("group-ä", &ids[0], 1, "orders", 42);
    let static_member = broker.join_static("group-ä", "", "shelf-1");
    let rejoined: Vec<_> = ids.iter().map(|id| (id.clone(), broker.join("group-ä", id))).collect();
    let mut joins = rejoined;
    joins.push((broker.joined(static_member).member_id.to_string(), static_member));
    broker.complete("group-ä", &joins);
    broker.commit("simple", "", -1, "orders", 7);
    let request =
        OffsetCommit { retention_time_ms: 1_000, ..broker.commit_request("simple", "", -1, "payments", 8) };
    broker.send(Command::OffsetCommit(request));
    broker.commit("gone", "", -1, "orders", 1);
    broker.delete_groups(&["gone"]);
    for (id, _) in &joins {
        broker.leave("group-ä", &[(id, None)]);
        broker.wait(60_000);
    }
    assert_eq!(broker.state("group-ä"), "Empty");

    let directory = std::env::temp_dir().join(format!("weir-coordinator-jvm-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("00000000000000000000.log");
    let appends: Vec<Vec<_>> = broker.log.iter().map(|record| vec![record.clone()]).collect();
    std::fs::write(&file, segment::write(&appends)).unwrap();
    let mut class_path = libs;
    class_path.push("/*");
    let output = Process::new("java")
        .args([
            "-Xmx128m",
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-Dsun.stdout.encoding=UTF-8",
            "-cp",
        ])
        .arg(class_path)
        .args(["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files"])
        .arg(&file)
        .output()
        .expect("java runs");
    std::fs::remove_dir_all(&directory).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));

    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" key: ")).collect();
    assert_eq!(lines.len(), broker.log.len(), "{text}");
    for line in &lines {
        assert!(line.contains("key: {\"type\":\""), "not decoded: {line}");
        assert!(
            line.contains("payload: {\"version\":\"") || line.contains("payload: <DELETE>"),
            "not decoded: {line}"
        );
    }
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    for expected in [
        &[
            "\"group\":\"group-ä\",\"topic\":\"orders\",\"partition\":0",
            "\"version\":\"3\"",
            "\"offset\":42",
            "\"leaderEpoch\":3",
        ][..],
        &[
            "\"group\":\"simple\",\"topic\":\"payments\"",
            "\"version\":\"1\"",
            "\"offset\":8",
            "\"expireTimestamp\":",
        ],
        &[
            "\"groupInstanceId\":\"shelf-1\"",
            "\"generation\":2",
            "\"protocol\":\"range\"",
            "\"protocolType\":\"consumer\"",
        ],
        &[
            "\"group\":\"group-ä\"",
            "\"generation\":3",
            "\"protocol\":null",
            "\"leader\":null",
            "\"members\":[]",
        ],
        &["\"type\":\"1\",\"data\":{\"group\":\"gone\"", "<DELETE>"],
        &["\"type\":\"2\",\"data\":{\"group\":\"gone\"", "<DELETE>"],
    ] {
        assert!(has(expected), "{expected:?} is not in\n{text}");
    }
}
