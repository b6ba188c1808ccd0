//! The cluster, its quorum, its disks, its features, and the security that is not there yet.

use weir_protocol::messages::api_key::VersionRange;
use weir_protocol::messages::*;
use weir_protocol::records::Codec;

use crate::support::Running;

#[test]
fn every_api_that_both_releases_have_is_served_in_the_versions_of_the_newer_one() {
    let running = Running::start("");
    let mut client = running.client();
    let response = client.call(&ApiVersionsRequest::default(), 0);
    for row in &response.api_keys {
        let api = ApiKey::from_code(row.api_key).unwrap();
        let VersionRange { min, max } = api.kafka_4_4().unwrap();
        let newest_stable = if api == ApiKey::InitProducerId { 5 } else { max };
        assert!(row.min_version <= min, "{}", api.name());
        assert_eq!(row.max_version, newest_stable, "{}", api.name());
        if row.min_version < min && api != ApiKey::Produce {
            assert!(api.kafka_3_9().unwrap().contains(row.min_version), "{}", api.name());
        }
    }
}

#[test]
fn the_cluster_is_this_broker() {
    let running = Running::start("broker.rack=r1");
    let mut client = running.client();
    for version in 0..=2 {
        let response = client.call(&DescribeClusterRequest::default(), version);
        assert_eq!((response.error_code, response.controller_id), (ErrorCode::NONE, 7));
        assert_eq!(response.cluster_id.len(), 22);
        assert_eq!(response.cluster_authorized_operations, i32::MIN);
        let [broker] = response.brokers.as_slice() else { panic!("{response:?}") };
        assert_eq!((broker.broker_id, broker.host.as_str()), (7, "127.0.0.1"));
        assert_eq!((broker.port, broker.rack.as_deref()), (i32::from(running.port()), Some("r1")));
        assert!(!broker.is_fenced);
    }
    let of_controllers = DescribeClusterRequest { endpoint_type: 2, ..Default::default() };
    assert_eq!(client.call(&of_controllers, 1).error_code, ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    let of_nobody = DescribeClusterRequest { endpoint_type: 9, ..Default::default() };
    assert_eq!(client.call(&of_nobody, 1).error_code, ErrorCode::UNSUPPORTED_ENDPOINT_TYPE);
}

#[test]
fn the_quorum_has_one_voter_that_has_all_of_the_log() {
    let running = Running::start("");
    let mut client = running.client();
    let ask = |name: &str, partition_index| DescribeQuorumRequest {
        topics: vec![DescribeQuorumRequestTopicData {
            topic_name: name.to_string(),
            partitions: vec![DescribeQuorumRequestPartitionData { partition_index, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 0..=2 {
        let response = client.call(&ask("__cluster_metadata", 0), version);
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader_id), (ErrorCode::NONE, 7));
        assert!(partition.leader_epoch > 0);
        let voter = &partition.current_voters[0];
        assert_eq!((voter.replica_id, voter.log_end_offset), (7, partition.high_watermark));
        assert_eq!(voter.last_caught_up_timestamp > 0, version >= 1);
        assert!(partition.observers.is_empty());
        assert_eq!(response.nodes.len(), usize::from(version >= 2));
        for (name, index) in [("t", 0), ("__cluster_metadata", 1)] {
            let response = client.call(&ask(name, index), version);
            let code = response.topics[0].partitions[0].error_code;
            assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        }
    }
}

#[test]
fn log_directories_have_the_sizes_of_their_partitions_and_disks() {
    let running = Running::start("log.retention.ms=-1");
    let mut client = running.client();
    client.create(&[("t", 2, &[]), ("u", 1, &[])]);
    client.produce("t", 1, Codec::None, &[1, 2, 3]);
    let some = DescribeLogDirsRequest {
        topics: Some(vec![DescribableLogDirTopic {
            topic: "t".to_string(),
            partitions: vec![1, 1, 9],
            ..Default::default()
        }]),
        ..Default::default()
    };
    for version in 0..=5 {
        let all = DescribeLogDirsRequest { topics: None, ..Default::default() };
        let response = client.call(&all, version);
        let [dir] = response.results.as_slice() else { panic!("{response:?}") };
        assert_eq!(dir.log_dir, running.log_dir().to_str().unwrap());
        let names: Vec<_> = dir.topics.iter().map(|t| (t.name.as_str(), t.partitions.len())).collect();
        assert_eq!(names, [("t", 2), ("u", 1)]);
        assert_eq!(dir.topics[0].partitions[0].partition_size, 0);
        assert!(dir.topics[0].partitions[1].partition_size > 300);
        assert_eq!(dir.total_bytes > 0 && dir.usable_bytes > 0, version >= 4);
        let response = client.call(&some, version);
        let topics = &response.results[0].topics;
        assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1));
    }
}

#[test]
fn features_go_up_and_are_told_to_every_client() {
    let running = Running::start("");
    let mut client = running.client();
    let update = |level, upgrade_type| UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdateKey {
            feature: "metadata.version".to_string(),
            max_version_level: level,
            upgrade_type,
            ..Default::default()
        }],
        ..Default::default()
    };
    let features = client.call(&ApiVersionsRequest::default(), 0);
    assert_eq!(features.error_code, ErrorCode::NONE);
    for (version, level) in [(0, 22), (1, 23), (2, 24)] {
        let response = client.call(&update(level, 1), version);
        assert_eq!(response.error_code, ErrorCode::NONE, "{response:?}");
        let named = ApiVersionsRequest {
            client_software_name: "test".to_string(),
            client_software_version: "1".to_string(),
            ..Default::default()
        };
        let told = client.call(&named, 3).finalized_features;
        assert_eq!((told[0].name.as_str(), told[0].max_version_level), ("metadata.version", level));
    }
    for version in 0..=2 {
        let refused = client.call(&update(999, 1), version);
        assert_eq!(refused.error_code, ErrorCode::INVALID_UPDATE_VERSION);
        assert!(refused.results.is_empty());
    }
}

#[test]
fn without_an_authorizer_acl_requests_are_told_so_in_every_version() {
    let running = Running::start("");
    let mut client = running.client();
    for version in 0..=3 {
        let pattern = if version == 0 { 3 } else { 1 };
        let described = DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: pattern,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        assert_eq!(client.call(&described, version).error_code, ErrorCode::SECURITY_DISABLED);
        let creation = AclCreation {
            resource_type: 2,
            resource_name: "t".to_string(),
            resource_pattern_type: 3,
            principal: "User:a".to_string(),
            host: "*".to_string(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        let create = CreateAclsRequest { creations: vec![creation.clone(), creation], ..Default::default() };
        let response = client.call(&create, version);
        assert_eq!(response.results.len(), 2);
        assert!(response.results.iter().all(|result| result.error_code == ErrorCode::SECURITY_DISABLED));
        let filter = DeleteAclsFilter {
            resource_type_filter: 1,
            pattern_type_filter: pattern,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let delete = DeleteAclsRequest { filters: vec![filter], ..Default::default() };
        assert_eq!(client.call(&delete, version).filter_results[0].error_code, ErrorCode::SECURITY_DISABLED);
    }
}

#[test]
fn nobody_has_a_quota_or_a_password_and_only_gone_brokers_are_unregistered() {
    let running = Running::start("");
    let mut client = running.client();
    for version in 0..=1 {
        let quotas = client.call(&DescribeClientQuotasRequest::default(), version);
        assert_eq!((quotas.error_code, quotas.entries), (ErrorCode::NONE, Some(Vec::new())));
    }
    let all = DescribeUserScramCredentialsRequest { users: None, ..Default::default() };
    let response = client.call(&all, 0);
    assert!(response.error_code == ErrorCode::NONE && response.results.is_empty());
    let user = |name: &str| UserName { name: name.to_string(), ..Default::default() };
    let some = DescribeUserScramCredentialsRequest {
        users: Some(vec![user("a"), user("b"), user("b")]),
        ..Default::default()
    };
    let codes: Vec<_> = client.call(&some, 0).results.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::DUPLICATE_RESOURCE]);
    let unregister = |broker_id| UnregisterBrokerRequest { broker_id, ..Default::default() };
    assert_eq!(client.call(&unregister(8), 0).error_code, ErrorCode::BROKER_ID_NOT_REGISTERED);
    assert_eq!(client.call(&unregister(7), 0).error_code, ErrorCode::INVALID_REQUEST);
}
