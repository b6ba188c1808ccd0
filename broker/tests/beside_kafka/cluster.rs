//! The cluster: its APIs, features, quorum, disks, and what one node answers to requests about leaders, replicas, quotas
//! and security.

use weir_protocol::messages::*;

use crate::pair::{Both, Pair, Release};

pub(crate) fn compare(pair: &mut Pair) {
    pair.create(&[("cluster-a", 2, &[]), ("cluster-b", 1, &[])]);
    if pair.release == Release::Kafka4_4 {
        advertised_versions(pair);
    }
    type Family = fn(&mut Pair, i16);
    let families: [(ApiKey, Family); 10] = [
        (ApiKey::ApiVersions, api_versions),
        (ApiKey::DescribeCluster, describe_cluster),
        (ApiKey::DescribeQuorum, describe_quorum),
        (ApiKey::DescribeLogDirs, describe_log_dirs),
        (ApiKey::ElectLeaders, elect_leaders),
        (ApiKey::AlterPartitionReassignments, reassign),
        (ApiKey::ListPartitionReassignments, list_reassignments),
        (ApiKey::DescribeClientQuotas, describe_quotas),
        (ApiKey::DescribeUserScramCredentials, describe_scram),
        (ApiKey::DescribeAcls, acls),
    ];
    for (api, ask) in families {
        for version in pair.served(api) {
            ask(pair, version);
        }
    }
    for version in pair.served(ApiKey::UnregisterBroker) {
        for broker_id in [8, -1] {
            pair.scene(format!("unregister {broker_id}"));
            pair.ask(version, &UnregisterBrokerRequest { broker_id, ..Default::default() });
        }
    }
    versions_that_do_not_exist(pair);
}

/// Raises the level of the metadata, which changes what other APIs answer.
pub(crate) fn compare_features(pair: &mut Pair) {
    for version in pair.served(ApiKey::UpdateFeatures) {
        update_features(pair, version);
    }
}

fn api_versions(pair: &mut Pair, version: i16) {
    let names: &[(&str, &str)] = match version {
        ..3 => &[("", "")],
        _ => {
            &[("test", "1.0"), ("", "1.0"), ("test", ""), ("-test", "1"), ("a b", "1"), ("a", "1.0-SNAPSHOT")]
        }
    };
    for (name, software_version) in names {
        pair.scene(format!("software {name:?} {software_version:?}"));
        let request = ApiVersionsRequest {
            client_software_name: (*name).to_string(),
            client_software_version: (*software_version).to_string(),
            ..Default::default()
        };
        pair.ask(version, &request);
    }
    if version < 5 {
        return;
    }
    let cluster = pair.ask(1, &DescribeClusterRequest { endpoint_type: 1, ..Default::default() });
    let own = cluster.answered().map(|answer| Some(answer.cluster_id.clone()));
    let strange = |id: &str| Both::same(Some(id.to_string()));
    for (scene, cluster_id, node_id) in [
        ("both of this node", own.clone(), 7),
        ("another node of this cluster", own.clone(), 8),
        ("a node of another cluster", strange("MkU3OEVBNTcwNTJENDM2Qh"), 7),
        ("a node of a cluster without a name", strange(""), 7),
        ("another node of another cluster", strange("MkU3OEVBNTcwNTJENDM2Qh"), 8),
        ("no node", own, -1),
        ("no node of a cluster without a name", strange(""), -1),
        ("this node of no cluster", Both::same(None), 7),
        ("another node of no cluster", Both::same(None), 8),
    ] {
        pair.scene(format!("meant for {scene}"));
        let requests = cluster_id.map(|cluster_id| ApiVersionsRequest {
            client_software_name: "test".to_string(),
            client_software_version: "1".to_string(),
            cluster_id: cluster_id.clone(),
            node_id,
            ..Default::default()
        });
        pair.ask_each(version, &requests);
    }
}

/// What weir serves reaches as far as in Kafka 4.4, and as far back or farther.
fn advertised_versions(pair: &mut Pair) {
    pair.scene("advertised versions");
    let answers = pair.ask(0, &ApiVersionsRequest::default()).answered();
    for row in &answers.weir.api_keys {
        let other = answers.kafka.api_keys.iter().find(|other| other.api_key == row.api_key);
        let other = other.unwrap_or_else(|| panic!("Kafka has no {row:?}"));
        assert!(
            row.max_version == other.max_version && row.min_version <= other.min_version,
            "{row:?} {other:?}"
        );
    }
}

fn versions_that_do_not_exist(pair: &mut Pair) {
    // What follows the header is not looked at.
    for (api, version) in [
        (ApiKey::ApiVersions, 6),
        (ApiKey::ApiVersions, 99),
        (ApiKey::ApiVersions, -1),
        (ApiKey::Metadata, 14),
        (ApiKey::Metadata, -1),
        (ApiKey::Produce, 2),
        (ApiKey::Produce, 14),
        (ApiKey::Fetch, 3),
        (ApiKey::Fetch, 19),
        (ApiKey::ListOffsets, 0),
        (ApiKey::OffsetCommit, 0),
        (ApiKey::OffsetFetch, 0),
        (ApiKey::BrokerHeartbeat, 0),
        (ApiKey::Vote, 0),
        (ApiKey::LeaderAndIsr, 0),
    ] {
        pair.scene("a version that does not exist");
        pair.ask_raw(api.code(), version, &[0; 64]);
    }
    for code in [-1, 95, 1000] {
        pair.scene(format!("api key {code}"));
        pair.ask_raw(code, 0, &[0; 64]);
    }
    pair.scene("nothing behind the header");
    pair.ask_raw(ApiKey::Metadata.code(), 1, &[]);
    pair.scene("a list longer than the frame");
    pair.ask_raw(ApiKey::Metadata.code(), 1, &[0, 0, 0, 9]);
    pair.scene("bytes behind the request");
    pair.ask_raw(ApiKey::Heartbeat.code(), 0, &[0, 1, b'g', 0, 0, 0, 1, 0, 1, b'm', 1, 2, 3]);
    pair.scene("a null where none may be");
    pair.ask_raw(ApiKey::Heartbeat.code(), 0, &[0xff, 0xff, 0, 0, 0, 1, 0, 1, b'm']);
}

fn describe_cluster(pair: &mut Pair, version: i16) {
    for include in [false, true] {
        let endpoints: &[i8] = if version >= 1 { &[1, 2, 0, 3, -1] } else { &[1] };
        for endpoint_type in endpoints {
            pair.scene(format!("describe cluster, endpoints {endpoint_type}"));
            let request = DescribeClusterRequest {
                include_cluster_authorized_operations: include,
                endpoint_type: *endpoint_type,
                include_fenced_brokers: include && version >= 2,
                ..Default::default()
            };
            pair.ask(version, &request);
        }
    }
}

fn describe_quorum(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, topics: &[(&str, &[i32])]| {
        pair.scene(format!("describe quorum of {topics:?}"));
        let topic = |(name, partitions): &(&str, &[i32])| DescribeQuorumRequestTopicData {
            topic_name: (*name).to_string(),
            partitions: partitions
                .iter()
                .map(|index| DescribeQuorumRequestPartitionData {
                    partition_index: *index,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let request =
            DescribeQuorumRequest { topics: topics.iter().map(topic).collect(), ..Default::default() };
        pair.ask(version, &request);
    };
    ask(pair, &[("__cluster_metadata", &[0])]);
    ask(pair, &[("__cluster_metadata", &[1])]);
    ask(pair, &[("__cluster_metadata", &[0, 1])]);
    ask(pair, &[("__cluster_metadata", &[])]);
    ask(pair, &[("cluster-a", &[0])]);
    ask(pair, &[("cluster-a", &[0]), ("__cluster_metadata", &[0])]);
    ask(pair, &[("", &[0])]);
    ask(pair, &[]);
}

fn describe_log_dirs(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, topics: Option<&[(&str, &[i32])]>| {
        pair.scene(format!("describe log dirs of {topics:?}"));
        let topic = |(name, partitions): &(&str, &[i32])| DescribableLogDirTopic {
            topic: (*name).to_string(),
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        let request = DescribeLogDirsRequest {
            topics: topics.map(|topics| topics.iter().map(topic).collect()),
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    ask(pair, Some(&[("cluster-a", &[0, 1])]));
    ask(pair, Some(&[("cluster-a", &[1, 0, 1])]));
    ask(pair, Some(&[("cluster-b", &[0]), ("cluster-a", &[1])]));
    ask(pair, Some(&[("cluster-a", &[0]), ("cluster-a", &[1])]));
    ask(pair, Some(&[("cluster-a", &[])]));
    ask(pair, Some(&[("cluster-a", &[5, -1])]));
    ask(pair, Some(&[("no-such-topic", &[0])]));
    ask(pair, Some(&[]));
    ask(pair, None);
}

fn elect_leaders(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, election_type: i8, topics: Option<&[(&str, &[i32])]>| {
        pair.scene(format!("elect by {election_type} for {topics:?}"));
        let topic = |(name, partitions): &(&str, &[i32])| ElectLeadersRequestTopicPartitions {
            topic: (*name).to_string(),
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        let request = ElectLeadersRequest {
            election_type,
            topic_partitions: topics.map(|topics| topics.iter().map(topic).collect()),
            timeout_ms: 10_000,
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    let types: &[i8] = if version >= 1 { &[0, 1, 2, -1] } else { &[0] };
    for election in types {
        ask(pair, *election, Some(&[("cluster-a", &[0, 1])]));
        ask(pair, *election, Some(&[("cluster-a", &[0, 0])]));
        ask(pair, *election, Some(&[("cluster-a", &[0, 7, -1]), ("no-such-topic", &[0])]));
        ask(pair, *election, Some(&[("a b", &[0])]));
        ask(pair, *election, Some(&[("cluster-a", &[])]));
        ask(pair, *election, Some(&[]));
        ask(pair, *election, None);
    }
}

fn reassign(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, topics: &[(&str, &[(i32, Option<&[i32]>)])], may_change| {
        pair.scene(format!("reassign {topics:?} {may_change}"));
        let topic = |(name, partitions): &(&str, &[(i32, Option<&[i32]>)])| ReassignableTopic {
            name: (*name).to_string(),
            partitions: partitions
                .iter()
                .map(|(partition_index, replicas)| ReassignablePartition {
                    partition_index: *partition_index,
                    replicas: replicas.map(<[i32]>::to_vec),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let request = AlterPartitionReassignmentsRequest {
            timeout_ms: 10_000,
            allow_replication_factor_change: may_change,
            topics: topics.iter().map(topic).collect(),
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    for may_change in if version >= 1 { &[true, false][..] } else { &[true] } {
        ask(pair, &[], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[7]))])], *may_change);
        ask(pair, &[("cluster-a", &[(0, None)])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[]))])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[9]))])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[7, 9]))])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[7, 7]))])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[-1]))])], *may_change);
        ask(pair, &[("cluster-a", &[(5, Some(&[7])), (-1, Some(&[7])), (5, None)])], *may_change);
        ask(pair, &[("no-such-topic", &[(0, Some(&[7])), (1, None)])], *may_change);
        ask(pair, &[("a b", &[(0, Some(&[7]))])], *may_change);
        ask(pair, &[("cluster-a", &[])], *may_change);
        ask(pair, &[("cluster-a", &[(0, Some(&[7])), (0, Some(&[7]))])], *may_change);
        ask(pair, &[("cluster-b", &[(0, Some(&[7]))]), ("cluster-a", &[(0, Some(&[9]))])], *may_change);
    }
}

fn list_reassignments(pair: &mut Pair, version: i16) {
    let lists: [Option<&[(&str, &[i32])]>; 6] = [
        None,
        Some(&[]),
        Some(&[("cluster-a", &[0])]),
        Some(&[("cluster-a", &[])]),
        Some(&[("cluster-a", &[9])]),
        Some(&[("no-such-topic", &[0])]),
    ];
    for topics in lists {
        pair.scene(format!("list reassignments of {topics:?}"));
        let topic = |(name, partitions): &(&str, &[i32])| ListPartitionReassignmentsTopics {
            name: (*name).to_string(),
            partition_indexes: partitions.to_vec(),
            ..Default::default()
        };
        let request = ListPartitionReassignmentsRequest {
            timeout_ms: 10_000,
            topics: topics.map(|topics| topics.iter().map(topic).collect()),
            ..Default::default()
        };
        pair.ask(version, &request);
    }
}

fn describe_quotas(pair: &mut Pair, version: i16) {
    let cases: &[&[(&str, i8, Option<&str>)]] = &[
        &[],
        &[("user", 0, Some("u"))],
        &[("user", 1, None)],
        &[("user", 2, None)],
        &[("client-id", 2, None), ("user", 0, Some("u"))],
        &[("ip", 2, None)],
        &[("ip", 0, Some("127.0.0.1"))],
        &[("ip", 0, Some("nowhere"))],
        &[("ip", 2, None), ("user", 2, None)],
        &[("colour", 2, None)],
        &[("", 2, None)],
        &[("user", 0, None)],
        &[("user", 1, Some("u"))],
        &[("user", 2, Some("u"))],
        &[("client-id", 1, None), ("ip", 1, None)],
        &[("user", 3, None)],
        &[("user", -1, None)],
        &[("user", 2, None), ("user", 2, None)],
    ];
    for components in cases {
        for strict in [false, true] {
            pair.scene(format!("quotas of {components:?}"));
            let component = |(entity_type, match_type, value): &(&str, i8, Option<&str>)| ComponentData {
                entity_type: (*entity_type).to_string(),
                match_type: *match_type,
                r#match: value.map(str::to_string),
                ..Default::default()
            };
            let request = DescribeClientQuotasRequest {
                components: components.iter().map(component).collect(),
                strict,
                ..Default::default()
            };
            pair.ask(version, &request);
        }
    }
}

fn describe_scram(pair: &mut Pair, version: i16) {
    let lists: [Option<&[&str]>; 6] = [
        None,
        Some(&[]),
        Some(&["alice"]),
        Some(&["alice", "bob"]),
        Some(&["alice", "alice", "bob"]),
        Some(&[""]),
    ];
    for users in lists {
        pair.scene(format!("scram of {users:?}"));
        let user = |name: &&str| UserName { name: (*name).to_string(), ..Default::default() };
        let request = DescribeUserScramCredentialsRequest {
            users: users.map(|users| users.iter().map(user).collect()),
            ..Default::default()
        };
        pair.ask(version, &request);
    }
}

fn acls(pair: &mut Pair, version: i16) {
    let patterns: &[i8] = if version == 0 { &[3] } else { &[1, 3] };
    for pattern in patterns {
        pair.scene(format!("acls of pattern {pattern}"));
        let describe = DescribeAclsRequest {
            resource_type_filter: 1,
            resource_name_filter: None,
            pattern_type_filter: *pattern,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        pair.ask(version, &describe);
        let filter = DeleteAclsFilter {
            resource_type_filter: 1,
            resource_name_filter: None,
            pattern_type_filter: *pattern,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        for count in [0, 1, 2] {
            let delete = DeleteAclsRequest { filters: vec![filter.clone(); count], ..Default::default() };
            pair.ask(version, &delete);
        }
    }
    let creation = AclCreation {
        resource_type: 2,
        resource_name: "t".to_string(),
        resource_pattern_type: 3,
        principal: "User:alice".to_string(),
        host: "*".to_string(),
        operation: 3,
        permission_type: 3,
        ..Default::default()
    };
    for count in [0, 1, 2] {
        pair.scene(format!("create {count} acls"));
        let create = CreateAclsRequest { creations: vec![creation.clone(); count], ..Default::default() };
        pair.ask(version, &create);
    }
}

fn update_features(pair: &mut Pair, version: i16) {
    /// A feature, its new level, and how: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
    type Update<'a> = (&'a str, i16, i8);
    let ask = |pair: &mut Pair, updates: &[Update<'_>], validate_only: bool| {
        let is_repeated = updates.len() == 2 && updates[0].0 == updates[1].0;
        let what = if is_repeated { "one twice: ".to_string() } else { String::new() };
        pair.scene(format!("update features {what}{updates:?}, validate only {validate_only}"));
        let update = |(feature, level, upgrade_type): &Update<'_>| FeatureUpdateKey {
            feature: (*feature).to_string(),
            max_version_level: *level,
            allow_downgrade: version == 0 && *upgrade_type != 1,
            upgrade_type: if version == 0 { 1 } else { *upgrade_type },
            ..Default::default()
        };
        let request = UpdateFeaturesRequest {
            timeout_ms: 10_000,
            feature_updates: updates.iter().map(update).collect(),
            validate_only,
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    let level = 22 + version;
    for validate_only in if version >= 1 { &[true, false][..] } else { &[false] } {
        let v = *validate_only;
        ask(pair, &[], v);
        ask(pair, &[("metadata.version", 999, 1)], v);
        ask(pair, &[("metadata.version", 1, 1)], v);
        ask(pair, &[("metadata.version", -1, 1)], v);
        ask(pair, &[("metadata.version", 0, 3)], v);
        ask(pair, &[("no.such.feature", 1, 1)], v);
        ask(pair, &[("", 1, 1)], v);
        ask(pair, &[("metadata.version", level - 1, 1)], v);
        ask(pair, &[("metadata.version", level, 1)], v);
        ask(pair, &[("metadata.version", level, 1), ("no.such.feature", 1, 1)], v);
        ask(pair, &[("metadata.version", level, 1), ("metadata.version", level, 1)], v);
        if version >= 1 {
            ask(pair, &[("metadata.version", level, 0)], v);
            ask(pair, &[("metadata.version", level, 4)], v);
            ask(pair, &[("metadata.version", level, 2)], v);
        }
    }
    for version in pair.served(ApiKey::ApiVersions).into_iter().filter(|version| *version >= 3) {
        api_versions(pair, version);
    }
}
