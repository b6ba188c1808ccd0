//! Configs: described with sources and synonyms, altered as a whole and one by one, listed.

use weir_protocol::messages::*;

use crate::pair::Pair;

const UNKNOWN: i8 = 0;
const ANY: i8 = 1;
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// Operations of IncrementalAlterConfigs.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(crate) fn compare(pair: &mut Pair) {
    pair.create(&[
        ("config-plain", 1, &[]),
        ("config-set", 1, &[("segment.bytes", "2097152"), ("cleanup.policy", "compact,delete")]),
    ]);
    for version in pair.served(ApiKey::DescribeConfigs) {
        describe(pair, version);
    }
    for version in pair.served(ApiKey::AlterConfigs) {
        alter(pair, version);
    }
    for version in pair.served(ApiKey::IncrementalAlterConfigs) {
        alter_topic(pair, version);
        alter_broker(pair, version);
        alter_others(pair, version);
    }
    for version in pair.served(ApiKey::ListConfigResources) {
        list(pair, version);
    }
}

/// Resources to describe, with the keys that are wanted of each.
type Wanted<'a> = &'a [(i8, &'a str, Option<&'a [&'a str]>)];

fn ask_describe(pair: &mut Pair, version: i16, resources: Wanted<'_>, synonyms: bool, documentation: bool) {
    let resource = |(resource_type, name, keys): &(i8, &str, Option<&[&str]>)| DescribeConfigsResource {
        resource_type: *resource_type,
        resource_name: (*name).to_string(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_string()).collect()),
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: resources.iter().map(resource).collect(),
        include_synonyms: synonyms && version >= 1,
        include_documentation: documentation && version >= 3,
        ..Default::default()
    };
    pair.ask(version, &request);
}

fn describe(pair: &mut Pair, version: i16) {
    for (synonyms, documentation) in [(true, true), (false, false)] {
        for (kind, name) in [
            (TOPIC, "config-plain"),
            (TOPIC, "config-set"),
            (BROKER, "7"),
            (BROKER, ""),
            (BROKER_LOGGER, "7"),
            (CLIENT_METRICS, "config-subscription"),
            (GROUP, "config-group"),
        ] {
            pair.scene(format!("describe {kind} {name:?}"));
            ask_describe(pair, version, &[(kind, name, None)], synonyms, documentation);
        }
    }
    for (kind, name) in [
        (TOPIC, "no-such-topic"),
        (TOPIC, "a b"),
        (TOPIC, ""),
        (TOPIC, "__cluster_metadata"),
        (BROKER, "8"),
        (BROKER, "x"),
        (BROKER, " 7"),
        (BROKER, "-1"),
        (BROKER_LOGGER, ""),
        (BROKER_LOGGER, "8"),
        (BROKER_LOGGER, "x"),
        (CLIENT_METRICS, ""),
        (GROUP, ""),
    ] {
        pair.scene(format!("describe {kind} {name:?}"));
        ask_describe(pair, version, &[(kind, name, None)], true, false);
    }
    for kind in [UNKNOWN, ANY, 3, 64, -1] {
        pair.scene(format!("describe the unknown kind {kind}"));
        ask_describe(pair, version, &[(kind, "x", None)], true, false);
    }
    pair.scene("describe none");
    ask_describe(pair, version, &[], true, true);
    pair.scene("describe some keys");
    let keys = ["retention.ms", "no.such.config", "segment.bytes"];
    ask_describe(pair, version, &[(TOPIC, "config-set", Some(&keys))], true, true);
    ask_describe(pair, version, &[(BROKER, "7", Some(&["log.retention.ms", "no.such.config"]))], true, true);
    pair.scene("describe some keys of a group");
    ask_describe(
        pair,
        version,
        &[(GROUP, "config-group", Some(&["consumer.session.timeout.ms", "x"]))],
        true,
        false,
    );
    pair.scene("describe some keys of a subscription");
    ask_describe(
        pair,
        version,
        &[(CLIENT_METRICS, "config-subscription", Some(&["interval.ms", "x"]))],
        true,
        false,
    );
    pair.scene("describe a key twice");
    ask_describe(
        pair,
        version,
        &[(TOPIC, "config-set", Some(&["retention.ms", "retention.ms"]))],
        true,
        true,
    );
    pair.scene("describe no keys");
    ask_describe(pair, version, &[(TOPIC, "config-set", Some(&[]))], true, true);
    pair.scene("describe 4 \"7\" by no keys");
    ask_describe(pair, version, &[(BROKER, "7", Some(&[]))], false, false);
    pair.scene("describe one twice");
    let one = (TOPIC, "config-set", Some(&["retention.ms"][..]));
    ask_describe(pair, version, &[one, one], true, true);
    pair.scene("describe good and bad");
    ask_describe(pair, version, &[one, (TOPIC, "no-such-topic", None), (BROKER, "8", None)], true, true);
}

fn look(pair: &mut Pair, kind: i8, name: &str, keys: &[&str]) {
    ask_describe(pair, 4, &[(kind, name, Some(keys))], true, false);
}

fn alter(pair: &mut Pair, version: i16) {
    let topic = format!("config-alter-v{version}");
    pair.create(&[(&topic, 1, &[("retention.ms", "1000"), ("segment.ms", "5000")])]);
    let ask =
        |pair: &mut Pair, scene: &str, resources: &[(i8, &str, &[(&str, Option<&str>)])], validate_only| {
            pair.scene(format!("alter {scene}, validate only {validate_only}"));
            let resource =
                |(resource_type, name, configs): &(i8, &str, &[(&str, Option<&str>)])| AlterConfigsResource {
                    resource_type: *resource_type,
                    resource_name: (*name).to_string(),
                    configs: configs
                        .iter()
                        .map(|(name, value)| AlterConfigsRequestAlterableConfig {
                            name: (*name).to_string(),
                            value: value.map(str::to_string),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                };
            let request = AlterConfigsRequest {
                resources: resources.iter().map(resource).collect(),
                validate_only,
                ..Default::default()
            };
            pair.ask(version, &request);
            look(pair, TOPIC, &topic, &["retention.ms", "segment.ms", "cleanup.policy"]);
            look(pair, BROKER, "7", &["log.retention.ms", "no.such.config"]);
            ask_describe(pair, 4, &[(BROKER, "", None)], true, false);
        };
    let t = topic.as_str();
    for validate_only in [true, false] {
        ask(pair, "none", &[], validate_only);
        ask(pair, "a topic", &[(TOPIC, t, &[("retention.ms", Some("2000"))])], validate_only);
        ask(
            pair,
            "an unknown topic",
            &[(TOPIC, "no-such-topic", &[("retention.ms", Some("2000"))])],
            validate_only,
        );
        ask(pair, "an invalid topic", &[(TOPIC, "a b", &[("retention.ms", Some("2000"))])], validate_only);
        ask(pair, "a nameless topic", &[(TOPIC, "", &[("retention.ms", Some("2000"))])], validate_only);
        ask(pair, "a null", &[(TOPIC, t, &[("retention.ms", None)])], validate_only);
        ask(pair, "an unknown key", &[(TOPIC, t, &[("no.such.config", Some("2000"))])], validate_only);
        ask(pair, "a bad value", &[(TOPIC, t, &[("retention.ms", Some("x"))])], validate_only);
        ask(
            pair,
            "a key twice",
            &[(TOPIC, t, &[("retention.ms", Some("1")), ("retention.ms", Some("2"))])],
            validate_only,
        );
        let one: (i8, &str, &[(&str, Option<&str>)]) = (TOPIC, t, &[("retention.ms", Some("3000"))]);
        // Kafka lets the client wait, which costs the test that time.
        if version == 2 && !validate_only {
            ask(pair, "one twice", &[one, one], validate_only);
        }
        ask(pair, "good and bad", &[one, (TOPIC, "no-such-topic", &[])], validate_only);
        ask(pair, "everything away", &[(TOPIC, t, &[])], validate_only);
        for (kind, name) in [
            (BROKER, "7"),
            (BROKER, ""),
            (BROKER, "8"),
            (BROKER, "x"),
            (BROKER_LOGGER, "7"),
            (BROKER_LOGGER, "8"),
            (CLIENT_METRICS, ""),
            (GROUP, ""),
            (UNKNOWN, "x"),
            (3, "x"),
            (64, "x"),
        ] {
            ask(pair, &format!("{kind} {name:?} to nothing"), &[(kind, name, &[])], validate_only);
            ask(
                pair,
                &format!("{kind} {name:?} to nonsense"),
                &[(kind, name, &[("no.such.config", Some("1"))])],
                validate_only,
            );
        }
    }
}

/// An operation on a config: its key, what is done, with which value.
type Change<'a> = (&'a str, i8, Option<&'a str>);

fn ask_alter(pair: &mut Pair, version: i16, resources: &[(i8, &str, &[Change<'_>])], validate_only: bool) {
    let resource = |(resource_type, name, changes): &(i8, &str, &[Change<'_>])| {
        IncrementalAlterConfigsRequestAlterConfigsResource {
            resource_type: *resource_type,
            resource_name: (*name).to_string(),
            configs: changes
                .iter()
                .map(|(name, config_operation, value)| IncrementalAlterConfigsRequestAlterableConfig {
                    name: (*name).to_string(),
                    config_operation: *config_operation,
                    value: value.map(str::to_string),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    };
    let request = IncrementalAlterConfigsRequest {
        resources: resources.iter().map(resource).collect(),
        validate_only,
        ..Default::default()
    };
    pair.ask(version, &request);
}

fn alter_topic(pair: &mut Pair, version: i16) {
    let topic = format!("config-increment-v{version}");
    let t = topic.as_str();
    pair.create(&[(t, 1, &[("retention.ms", "1000")])]);
    let keys = ["retention.ms", "cleanup.policy", "leader.replication.throttled.replicas", "segment.bytes"];
    let replicas = "leader.replication.throttled.replicas";
    let cases: &[(&str, &[Change<'_>])] = &[
        ("nothing", &[]),
        ("set", &[("retention.ms", SET, Some("2000"))]),
        ("set the same", &[("retention.ms", SET, Some("2000"))]),
        ("set with spaces", &[("retention.ms", SET, Some(" 2500 "))]),
        ("set to null", &[("retention.ms", SET, None)]),
        ("set to nothing", &[("retention.ms", SET, Some(""))]),
        ("set a bad value", &[("retention.ms", SET, Some("x"))]),
        ("set too low", &[("segment.bytes", SET, Some("13"))]),
        ("set what is not known", &[("no.such.config", SET, Some("1"))]),
        ("set what is nameless", &[("", SET, Some("1"))]),
        ("delete", &[("retention.ms", DELETE, None)]),
        ("delete with a value", &[("retention.ms", DELETE, Some("3"))]),
        ("delete what is not set", &[("segment.bytes", DELETE, None)]),
        ("delete what is not known", &[("no.such.config", DELETE, None)]),
        ("append to a number", &[("retention.ms", APPEND, Some("1"))]),
        ("subtract from a number", &[("retention.ms", SUBTRACT, Some("1"))]),
        ("append to what is not known", &[("no.such.config", APPEND, Some("1"))]),
        ("append null", &[("cleanup.policy", APPEND, None)]),
        ("subtract null", &[("cleanup.policy", SUBTRACT, None)]),
        ("append to the default", &[("cleanup.policy", APPEND, Some("compact"))]),
        ("append the same", &[("cleanup.policy", APPEND, Some("compact"))]),
        ("subtract", &[("cleanup.policy", SUBTRACT, Some("delete"))]),
        ("subtract what is not there", &[("cleanup.policy", SUBTRACT, Some("delete"))]),
        ("subtract the last", &[("cleanup.policy", SUBTRACT, Some("compact"))]),
        ("append what is not valid", &[("cleanup.policy", APPEND, Some("shred"))]),
        ("append two", &[("cleanup.policy", APPEND, Some("delete,compact"))]),
        ("append to an empty list", &[(replicas, APPEND, Some("0:7"))]),
        ("append more", &[(replicas, APPEND, Some("1:7,2:7"))]),
        ("subtract some", &[(replicas, SUBTRACT, Some("0:7,2:7"))]),
        ("subtract the rest", &[(replicas, SUBTRACT, Some("1:7"))]),
        ("append with spaces", &[(replicas, APPEND, Some(" 3:7 , 4:7 "))]),
        ("an unknown operation", &[("retention.ms", 4, Some("1"))]),
        ("a negative operation", &[("retention.ms", -1, Some("1"))]),
        ("one key twice", &[("retention.ms", SET, Some("1")), ("retention.ms", SET, Some("2"))]),
        ("one key in two ways", &[("retention.ms", SET, Some("1")), ("retention.ms", DELETE, None)]),
        ("two keys", &[("retention.ms", SET, Some("7000")), ("segment.bytes", SET, Some("3145728"))]),
        ("good and bad keys", &[("retention.ms", SET, Some("9000")), ("segment.bytes", SET, Some("x"))]),
        (
            "lags that contradict",
            &[("min.compaction.lag.ms", SET, Some("10")), ("max.compaction.lag.ms", SET, Some("5"))],
        ),
        ("remote storage", &[("remote.storage.enable", SET, Some("true"))]),
        ("diskless", &[("diskless.enable", SET, Some("true"))]),
    ];
    for (scene, changes) in cases {
        for validate_only in [true, false] {
            pair.scene(format!("increment: {scene}, validate only {validate_only}"));
            ask_alter(pair, version, &[(TOPIC, t, changes)], validate_only);
            look(pair, TOPIC, t, &keys);
        }
    }
    let set: &[Change<'_>] = &[("retention.ms", SET, Some("8000"))];
    for name in ["no-such-topic", "a b", "", "__cluster_metadata"] {
        pair.scene(format!("increment topic {name:?}"));
        ask_alter(pair, version, &[(TOPIC, name, set)], false);
    }
    pair.scene("increment none");
    ask_alter(pair, version, &[], false);
    pair.scene("increment one twice");
    ask_alter(pair, version, &[(TOPIC, t, set), (TOPIC, t, set)], false);
    pair.scene("increment good and bad");
    ask_alter(pair, version, &[(TOPIC, t, set), (TOPIC, "no-such-topic", set), (3, "x", set)], false);
    look(pair, TOPIC, t, &keys);
}

fn alter_broker(pair: &mut Pair, version: i16) {
    let cases: &[(&str, &str, &[Change<'_>])] = &[
        ("set", "7", &[("log.retention.ms", SET, Some("7200000"))]),
        ("set for all", "", &[("log.retention.ms", SET, Some("7300000"))]),
        ("set another for all", "", &[("message.max.bytes", SET, Some("2000000"))]),
        ("set by a synonym", "7", &[("log.retention.minutes", SET, Some("5"))]),
        ("set a topic's name of it", "7", &[("retention.ms", SET, Some("5"))]),
        ("set what is not dynamic", "7", &[("broker.id.generation.enable", SET, Some("false"))]),
        ("set what is not dynamic for all", "", &[("num.partitions", SET, Some("4"))]),
        ("set what is per broker for all", "", &[("listeners", SET, Some("PLAINTEXT://:0"))]),
        ("set what is not known", "7", &[("no.such.config", SET, Some("1"))]),
        ("set a bad value", "7", &[("log.retention.ms", SET, Some("x"))]),
        ("set too low", "7", &[("message.max.bytes", SET, Some("-1"))]),
        ("set to null", "7", &[("message.max.bytes", SET, None)]),
        ("append to a list", "7", &[("log.cleanup.policy", APPEND, Some("compact"))]),
        ("subtract from a list", "7", &[("log.cleanup.policy", SUBTRACT, Some("delete"))]),
        ("append to a number", "7", &[("log.retention.ms", APPEND, Some("1"))]),
        ("subtract from a number", "", &[("log.retention.ms", SUBTRACT, Some("1"))]),
        ("append to what is not known", "7", &[("no.such.list", APPEND, Some("1"))]),
        ("set threads to nothing", "7", &[("num.io.threads", SET, Some("0"))]),
        ("set connections", "7", &[("max.connections.per.ip", SET, Some("1000"))]),
        ("set for another broker", "8", &[("log.retention.ms", SET, Some("1"))]),
        ("set for no broker", "x", &[("log.retention.ms", SET, Some("1"))]),
        ("delete for all", "", &[("log.retention.ms", DELETE, None)]),
        ("delete another for all", "", &[("message.max.bytes", DELETE, None)]),
        ("delete", "7", &[("log.retention.ms", DELETE, None)]),
        (
            "delete more",
            "7",
            &[("log.cleanup.policy", DELETE, None), ("max.connections.per.ip", DELETE, None)],
        ),
        ("delete what is not set", "7", &[("log.retention.bytes", DELETE, None)]),
    ];
    for (scene, name, changes) in cases {
        for validate_only in [true, false] {
            pair.scene(format!("increment broker {name:?}: {scene}, validate only {validate_only}"));
            ask_alter(pair, version, &[(BROKER, name, changes)], validate_only);
            let keys =
                ["log.retention.ms", "message.max.bytes", "log.cleanup.policy", "max.connections.per.ip"];
            look(pair, BROKER, "7", &keys);
            ask_describe(pair, 4, &[(BROKER, "", None)], true, false);
            look(pair, TOPIC, "config-plain", &["retention.ms", "max.message.bytes", "cleanup.policy"]);
        }
    }
}

fn alter_others(pair: &mut Pair, version: i16) {
    let cases: &[(&str, i8, &str, &[Change<'_>])] = &[
        ("set a group", GROUP, "config-group", &[("consumer.session.timeout.ms", SET, Some("50000"))]),
        ("set a group too low", GROUP, "config-group", &[("consumer.session.timeout.ms", SET, Some("1"))]),
        (
            "set a group's beat",
            GROUP,
            "config-group",
            &[("consumer.heartbeat.interval.ms", SET, Some("60000"))],
        ),
        (
            "set a group to nonsense",
            GROUP,
            "config-group",
            &[("consumer.session.timeout.ms", SET, Some("x"))],
        ),
        ("set an unknown key of a group", GROUP, "config-group", &[("retention.ms", SET, Some("1"))]),
        ("name an assignor", GROUP, "config-group", &[("streams.assignor.name", SET, Some("sticky"))]),
        ("name no assignor", GROUP, "config-group", &[("streams.assignor.name", SET, Some("nosuch"))]),
        ("tags", GROUP, "config-group", &[("streams.rack.aware.assignment.tags", SET, Some("a,b"))]),
        ("tags twice", GROUP, "config-group", &[("streams.rack.aware.assignment.tags", SET, Some("a,b,a"))]),
        (
            "append a tag",
            GROUP,
            "config-group",
            &[("streams.rack.aware.assignment.tags", APPEND, Some("b,c"))],
        ),
        (
            "name a topic for dead letters",
            GROUP,
            "config-group",
            &[("errors.deadletterqueue.topic.name", SET, Some("dlq"))],
        ),
        (
            "name an internal topic for dead letters",
            GROUP,
            "config-group",
            &[("errors.deadletterqueue.topic.name", SET, Some("__dlq"))],
        ),
        (
            "delete what streams and shares have",
            GROUP,
            "config-group",
            &[
                ("streams.assignor.name", DELETE, None),
                ("streams.rack.aware.assignment.tags", DELETE, None),
                ("errors.deadletterqueue.topic.name", DELETE, None),
            ],
        ),
        ("set a nameless group", GROUP, "", &[("consumer.session.timeout.ms", SET, Some("50000"))]),
        ("delete of a group", GROUP, "config-group", &[("consumer.session.timeout.ms", DELETE, None)]),
        ("set a subscription", CLIENT_METRICS, "config-sub", &[("interval.ms", SET, Some("90000"))]),
        ("set a subscription too low", CLIENT_METRICS, "config-sub", &[("interval.ms", SET, Some("1"))]),
        ("append to a subscription", CLIENT_METRICS, "config-sub", &[("metrics", APPEND, Some("a,b"))]),
        (
            "interval of a subscription in words",
            CLIENT_METRICS,
            "config-sub",
            &[("interval.ms", SET, Some("x"))],
        ),
        ("match of a subscription", CLIENT_METRICS, "config-sub", &[("match", SET, Some("client_id=a.*"))]),
        (
            "worse match of a subscription",
            CLIENT_METRICS,
            "config-sub",
            &[("match", SET, Some("client_id=["))],
        ),
        ("bad match of a subscription", CLIENT_METRICS, "config-sub", &[("match", SET, Some("colour=red"))]),
        ("unknown key of a subscription", CLIENT_METRICS, "config-sub", &[("retention.ms", SET, Some("1"))]),
        ("a nameless subscription", CLIENT_METRICS, "", &[("interval.ms", SET, Some("90000"))]),
        ("delete of a subscription", CLIENT_METRICS, "config-sub", &[("interval.ms", DELETE, None)]),
        (
            "delete all of a subscription",
            CLIENT_METRICS,
            "config-sub",
            &[("metrics", DELETE, None), ("match", DELETE, None)],
        ),
        ("logger: set of another node", BROKER_LOGGER, "8", &[("root", SET, Some("INFO"))]),
        ("logger: set of no node", BROKER_LOGGER, "x", &[("root", SET, Some("INFO"))]),
        ("logger: set what is not known", BROKER_LOGGER, "7", &[("no.such.logger", SET, Some("INFO"))]),
        ("logger: set to nonsense", BROKER_LOGGER, "7", &[("root", SET, Some("LOUD"))]),
        ("logger: append", BROKER_LOGGER, "7", &[("root", APPEND, Some("INFO"))]),
        ("logger: delete the root", BROKER_LOGGER, "7", &[("root", DELETE, None)]),
        ("set an unknown kind", UNKNOWN, "x", &[("a", SET, Some("b"))]),
        ("set any kind", ANY, "x", &[("a", SET, Some("b"))]),
        ("set kind 3", 3, "x", &[("a", SET, Some("b"))]),
        ("set kind 64", 64, "x", &[("a", SET, Some("b"))]),
    ];
    for (scene, kind, name, changes) in cases {
        // What only weir would take.
        let is_refused_by_kafka = scene.starts_with("append to a sub") || scene.starts_with("worse match");
        for validate_only in if is_refused_by_kafka { &[true][..] } else { &[true, false] } {
            pair.scene(format!("increment: {scene}, validate only {validate_only}"));
            ask_alter(pair, version, &[(*kind, name, changes)], *validate_only);
            look(
                pair,
                GROUP,
                "config-group",
                &["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"],
            );
            ask_describe(pair, 4, &[(CLIENT_METRICS, "config-sub", None)], true, false);
            for version in pair.served(ApiKey::ListConfigResources) {
                list(pair, version);
            }
        }
    }
}

fn list(pair: &mut Pair, version: i16) {
    let kinds: &[&[i8]] = match version {
        0 => &[&[]],
        _ => &[
            &[],
            &[TOPIC],
            &[BROKER],
            &[BROKER_LOGGER],
            &[CLIENT_METRICS],
            &[GROUP],
            &[CLIENT_METRICS, GROUP],
            &[GROUP, GROUP],
            &[UNKNOWN],
            &[3],
            &[64],
            &[GROUP, 3],
        ],
    };
    for kinds in kinds {
        pair.scene(format!("list resources of kinds {kinds:?}"));
        let request = ListConfigResourcesRequest { resource_types: kinds.to_vec(), ..Default::default() };
        pair.ask(version, &request);
    }
}
