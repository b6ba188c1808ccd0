//! The same requests to Apache Kafka and to weir: the answers must be the same, field by field, in every version of every
//! API that weir advertises, for good requests and for bad ones.
//!
//! Runs when `WEIR_KAFKA_LIBS` names a directory with the jars of Kafka 4.4.0, and for the versions that only 3.9 has,
//! when `WEIR_KAFKA_3_9_LIBS` names those of 3.9.2 (kafka_2.13 and kafka-tools with their dependencies). Needs a JDK of
//! 17 or newer. `WEIR_BESIDE_KAFKA` may name the families to ask, such as `topics,groups`; the whole is then not
//! checked for having asked everything.

#![allow(
    clippy::type_complexity,
    clippy::needless_update,
    reason = "tables of scenes, and requests as they all are"
)]

mod support;

#[path = "beside_kafka/batch.rs"]
mod batch;
#[path = "beside_kafka/cluster.rs"]
mod cluster;
#[path = "beside_kafka/configs.rs"]
mod configs;
#[path = "beside_kafka/fetch.rs"]
mod fetch;
#[path = "beside_kafka/group_offsets.rs"]
mod group_offsets;
#[path = "beside_kafka/groups.rs"]
mod groups;
#[path = "beside_kafka/intended.rs"]
mod intended;
#[path = "beside_kafka/intended_3_9.rs"]
mod intended_3_9;
#[path = "beside_kafka/kafka.rs"]
mod kafka;
#[path = "beside_kafka/metadata.rs"]
mod metadata;
#[path = "beside_kafka/offsets.rs"]
mod offsets;
#[path = "beside_kafka/pair.rs"]
mod pair;
#[path = "../../storage/tests/storage/ports.rs"]
mod ports;
#[path = "beside_kafka/produce.rs"]
mod produce;
#[path = "beside_kafka/topics.rs"]
mod topics;
#[path = "beside_kafka/value.rs"]
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kafka::Kafka;
use pair::{Pair, Release};
use support::Running;

/// What both are started with.
const PROPERTIES: &str = "\
process.roles=broker,controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
broker.session.timeout.ms=120000
log.flush.scheduler.interval.ms=3600000
num.partitions=3
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
";

/// A part of the comparison by its name.
type Family = (&'static str, fn(&mut Pair));

/// Those that list everything come while there is little, and the last one raises the level of the metadata.
const FAMILIES: &[Family] = &[
    ("cluster", cluster::compare),
    ("configs", configs::compare),
    ("topics", topics::compare),
    ("metadata", metadata::compare),
    ("produce", produce::compare),
    ("fetch", fetch::compare),
    ("offsets", offsets::compare),
    ("groups", groups::compare),
    ("features", cluster::compare_features),
];

fn compare(release: Release, libs_variable: &str) {
    let Ok(libs) = std::env::var(libs_variable) else {
        eprintln!("skipped: {libs_variable} is not set");
        return;
    };
    let chosen = std::env::var("WEIR_BESIDE_KAFKA").ok();
    let is_chosen =
        |name: &str| chosen.as_deref().is_none_or(|chosen| chosen.split(',').any(|it| it == name));
    // weir's log begins at the level that both releases read.
    let kafka = Kafka::start(&libs, "3.9", PROPERTIES);
    let properties = format!("{PROPERTIES}\ncontroller.quorum.voters=7@127.0.0.1:9093");
    let mut pair = Pair::new(release, kafka, Running::start_plain(&properties));
    for (name, family) in FAMILIES.iter().filter(|(name, _)| is_chosen(name)) {
        let began = std::time::Instant::now();
        // What the others find is worth to be seen, too.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| family(&mut pair))) {
            pair.give_up(name, panic.as_ref());
        }
        println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    pair.finish(chosen.is_none());
}

#[test]
fn answers_are_those_of_kafka_4_4() {
    compare(Release::Kafka4_4, "WEIR_KAFKA_LIBS");
}

#[test]
fn answers_in_versions_that_only_3_9_has_are_those_of_kafka_3_9() {
    compare(Release::Kafka3_9, "WEIR_KAFKA_3_9_LIBS");
}
