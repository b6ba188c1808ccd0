//! One file per API, and the table of what is served: an API that is not in it is not advertised and not answered.

pub(crate) mod k00_produce;
pub(crate) mod k01_fetch;
mod k02_list_offsets;
pub(crate) mod k03_metadata;
mod k08_offset_commit;
mod k09_offset_fetch;
mod k10_find_coordinator;
mod k11_join_group;
mod k12_heartbeat;
mod k13_leave_group;
mod k14_sync_group;
mod k15_describe_groups;
mod k16_list_groups;
pub(crate) mod k18_api_versions;
mod k19_create_topics;
mod k20_delete_topics;
mod k21_delete_records;
mod k22_init_producer_id;
mod k23_offset_for_leader_epoch;
mod k29_describe_acls;
mod k30_create_acls;
mod k31_delete_acls;
mod k32_describe_configs;
mod k33_alter_configs;
mod k35_describe_log_dirs;
mod k37_create_partitions;
mod k42_delete_groups;
mod k43_elect_leaders;
mod k44_incremental_alter_configs;
mod k45_alter_partition_reassignments;
mod k46_list_partition_reassignments;
mod k47_offset_delete;
mod k48_describe_client_quotas;
mod k50_describe_user_scram_credentials;
mod k55_describe_quorum;
mod k57_update_features;
mod k60_describe_cluster;
mod k61_describe_producers;
mod k64_unregister_broker;
mod k74_list_config_resources;
mod k75_describe_topic_partitions;

use weir_protocol::messages::ApiKey;
use weir_protocol::messages::api_key::VersionRange;

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

const fn versions(min: i16, max: i16) -> VersionRange {
    VersionRange { min, max }
}

/// The APIs and versions that are served: Kafka 4.4's ranges, and the lower ones that 3.9 still knows where they mean
/// the same. Produce is advertised from 0, as Kafka does for librdkafka's sake, and served from 3.
pub(crate) const SERVED: &[(ApiKey, VersionRange)] = &[
    (ApiKey::Produce, versions(0, 13)),
    (ApiKey::Fetch, versions(4, 18)),
    (ApiKey::ListOffsets, versions(1, 11)),
    (ApiKey::Metadata, versions(0, 13)),
    (ApiKey::OffsetCommit, versions(2, 10)),
    (ApiKey::OffsetFetch, versions(1, 10)),
    (ApiKey::FindCoordinator, versions(0, 6)),
    (ApiKey::JoinGroup, versions(0, 9)),
    (ApiKey::Heartbeat, versions(0, 4)),
    (ApiKey::LeaveGroup, versions(0, 5)),
    (ApiKey::SyncGroup, versions(0, 5)),
    (ApiKey::DescribeGroups, versions(0, 6)),
    (ApiKey::ListGroups, versions(0, 5)),
    (ApiKey::ApiVersions, versions(0, 5)),
    (ApiKey::CreateTopics, versions(0, 7)),
    (ApiKey::DeleteTopics, versions(0, 6)),
    (ApiKey::DeleteRecords, versions(0, 2)),
    (ApiKey::InitProducerId, versions(0, 5)),
    (ApiKey::OffsetForLeaderEpoch, versions(0, 4)),
    (ApiKey::DescribeAcls, versions(0, 3)),
    (ApiKey::CreateAcls, versions(0, 3)),
    (ApiKey::DeleteAcls, versions(0, 3)),
    (ApiKey::DescribeConfigs, versions(0, 4)),
    (ApiKey::AlterConfigs, versions(0, 2)),
    (ApiKey::DescribeLogDirs, versions(0, 5)),
    (ApiKey::CreatePartitions, versions(0, 3)),
    (ApiKey::DeleteGroups, versions(0, 3)),
    (ApiKey::ElectLeaders, versions(0, 2)),
    (ApiKey::IncrementalAlterConfigs, versions(0, 1)),
    (ApiKey::AlterPartitionReassignments, versions(0, 1)),
    (ApiKey::ListPartitionReassignments, versions(0, 0)),
    (ApiKey::OffsetDelete, versions(0, 0)),
    (ApiKey::DescribeClientQuotas, versions(0, 1)),
    (ApiKey::DescribeUserScramCredentials, versions(0, 0)),
    (ApiKey::DescribeQuorum, versions(0, 2)),
    (ApiKey::UpdateFeatures, versions(0, 2)),
    (ApiKey::DescribeCluster, versions(0, 2)),
    (ApiKey::DescribeProducers, versions(0, 0)),
    (ApiKey::UnregisterBroker, versions(0, 0)),
    (ApiKey::ListConfigResources, versions(0, 1)),
    (ApiKey::DescribeTopicPartitions, versions(0, 0)),
];

/// The first version of Produce that carries record batches of magic 2.
const FIRST_PRODUCE: i16 = 3;

/// The versions in which `api` is answered, `None` if it is not served.
pub(crate) fn served(api: ApiKey) -> Option<VersionRange> {
    let (_, range) = SERVED.iter().find(|(served, _)| *served == api)?;
    Some(if api == ApiKey::Produce { VersionRange { min: FIRST_PRODUCE, ..*range } } else { *range })
}

/// Hands a received request to its handler.
pub(crate) async fn dispatch(request: Request) -> Result<Option<Reply>, ConnectionError> {
    match request.api {
        ApiKey::Fetch => k01_fetch::handle(request).await,
        ApiKey::ListOffsets => k02_list_offsets::handle(request).await,
        ApiKey::Metadata => k03_metadata::handle(request).await,
        ApiKey::OffsetCommit => k08_offset_commit::handle(request).await,
        ApiKey::OffsetFetch => k09_offset_fetch::handle(request).await,
        ApiKey::FindCoordinator => k10_find_coordinator::handle(request).await,
        ApiKey::JoinGroup => k11_join_group::handle(request).await,
        ApiKey::Heartbeat => k12_heartbeat::handle(request).await,
        ApiKey::LeaveGroup => k13_leave_group::handle(request).await,
        ApiKey::SyncGroup => k14_sync_group::handle(request).await,
        ApiKey::DescribeGroups => k15_describe_groups::handle(request).await,
        ApiKey::ListGroups => k16_list_groups::handle(request).await,
        ApiKey::ApiVersions => k18_api_versions::handle(request).await,
        ApiKey::CreateTopics => k19_create_topics::handle(request).await,
        ApiKey::DeleteTopics => k20_delete_topics::handle(request).await,
        ApiKey::DeleteRecords => k21_delete_records::handle(request).await,
        ApiKey::InitProducerId => k22_init_producer_id::handle(request).await,
        ApiKey::OffsetForLeaderEpoch => k23_offset_for_leader_epoch::handle(request).await,
        ApiKey::DescribeAcls => k29_describe_acls::handle(request).await,
        ApiKey::CreateAcls => k30_create_acls::handle(request).await,
        ApiKey::DeleteAcls => k31_delete_acls::handle(request).await,
        ApiKey::DescribeConfigs => k32_describe_configs::handle(request).await,
        ApiKey::AlterConfigs => k33_alter_configs::handle(request).await,
        ApiKey::DescribeLogDirs => k35_describe_log_dirs::handle(request).await,
        ApiKey::CreatePartitions => k37_create_partitions::handle(request).await,
        ApiKey::DeleteGroups => k42_delete_groups::handle(request).await,
        ApiKey::ElectLeaders => k43_elect_leaders::handle(request).await,
        ApiKey::IncrementalAlterConfigs => k44_incremental_alter_configs::handle(request).await,
        ApiKey::AlterPartitionReassignments => k45_alter_partition_reassignments::handle(request).await,
        ApiKey::ListPartitionReassignments => k46_list_partition_reassignments::handle(request).await,
        ApiKey::OffsetDelete => k47_offset_delete::handle(request).await,
        ApiKey::DescribeClientQuotas => k48_describe_client_quotas::handle(request).await,
        ApiKey::DescribeUserScramCredentials => k50_describe_user_scram_credentials::handle(request).await,
        ApiKey::DescribeQuorum => k55_describe_quorum::handle(request).await,
        ApiKey::UpdateFeatures => k57_update_features::handle(request).await,
        ApiKey::DescribeCluster => k60_describe_cluster::handle(request).await,
        ApiKey::DescribeProducers => k61_describe_producers::handle(request).await,
        ApiKey::UnregisterBroker => k64_unregister_broker::handle(request).await,
        ApiKey::ListConfigResources => k74_list_config_resources::handle(request).await,
        ApiKey::DescribeTopicPartitions => k75_describe_topic_partitions::handle(request).await,
        api => Err(ConnectionError::NotServed { key: api.code(), version: request.version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, F>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_request_fits_in_what_its_member_is_charged_with() {
        // Besides its future: a channel, an entry in a table, and the names that it keeps.
        const OTHERWISE_BYTES: usize = 128 + 96 + 2 * 256;
        let future = size_of_future(dispatch);
        assert!(future + OTHERWISE_BYTES <= weir_coordinator::WAITING_REQUEST_BYTES, "{future}");
    }
}
