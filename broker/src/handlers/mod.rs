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

use std::pin::Pin;

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

/// What a handler comes to.
pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<Option<Reply>, ConnectionError>> + Send>>;

/// What waits beside a handler for its peer to go, on the heap meanwhile.
#[cfg(test)]
pub(crate) const LOOK_BYTES: usize = 384;

/// Hands a received request to its handler. Each has a future of its own size: one that waits takes no more than it
/// needs.
pub(crate) fn dispatch(request: Request) -> Handling {
    match request.api {
        ApiKey::Fetch => Box::pin(k01_fetch::handle(request)),
        ApiKey::ListOffsets => Box::pin(k02_list_offsets::handle(request)),
        ApiKey::Metadata => Box::pin(k03_metadata::handle(request)),
        ApiKey::OffsetCommit => Box::pin(k08_offset_commit::handle(request)),
        ApiKey::OffsetFetch => Box::pin(k09_offset_fetch::handle(request)),
        ApiKey::FindCoordinator => Box::pin(k10_find_coordinator::handle(request)),
        ApiKey::JoinGroup => Box::pin(k11_join_group::handle(request)),
        ApiKey::Heartbeat => Box::pin(k12_heartbeat::handle(request)),
        ApiKey::LeaveGroup => Box::pin(k13_leave_group::handle(request)),
        ApiKey::SyncGroup => Box::pin(k14_sync_group::handle(request)),
        ApiKey::DescribeGroups => Box::pin(k15_describe_groups::handle(request)),
        ApiKey::ListGroups => Box::pin(k16_list_groups::handle(request)),
        ApiKey::ApiVersions => Box::pin(k18_api_versions::handle(request)),
        ApiKey::CreateTopics => Box::pin(k19_create_topics::handle(request)),
        ApiKey::DeleteTopics => Box::pin(k20_delete_topics::handle(request)),
        ApiKey::DeleteRecords => Box::pin(k21_delete_records::handle(request)),
        ApiKey::InitProducerId => Box::pin(k22_init_producer_id::handle(request)),
        ApiKey::OffsetForLeaderEpoch => Box::pin(k23_offset_for_leader_epoch::handle(request)),
        ApiKey::DescribeAcls => Box::pin(k29_describe_acls::handle(request)),
        ApiKey::CreateAcls => Box::pin(k30_create_acls::handle(request)),
        ApiKey::DeleteAcls => Box::pin(k31_delete_acls::handle(request)),
        ApiKey::DescribeConfigs => Box::pin(k32_describe_configs::handle(request)),
        ApiKey::AlterConfigs => Box::pin(k33_alter_configs::handle(request)),
        ApiKey::DescribeLogDirs => Box::pin(k35_describe_log_dirs::handle(request)),
        ApiKey::CreatePartitions => Box::pin(k37_create_partitions::handle(request)),
        ApiKey::DeleteGroups => Box::pin(k42_delete_groups::handle(request)),
        ApiKey::ElectLeaders => Box::pin(k43_elect_leaders::handle(request)),
        ApiKey::IncrementalAlterConfigs => Box::pin(k44_incremental_alter_configs::handle(request)),
        ApiKey::AlterPartitionReassignments => Box::pin(k45_alter_partition_reassignments::handle(request)),
        ApiKey::ListPartitionReassignments => Box::pin(k46_list_partition_reassignments::handle(request)),
        ApiKey::OffsetDelete => Box::pin(k47_offset_delete::handle(request)),
        ApiKey::DescribeClientQuotas => Box::pin(k48_describe_client_quotas::handle(request)),
        ApiKey::DescribeUserScramCredentials => {
            Box::pin(k50_describe_user_scram_credentials::handle(request))
        }
        ApiKey::DescribeQuorum => Box::pin(k55_describe_quorum::handle(request)),
        ApiKey::UpdateFeatures => Box::pin(k57_update_features::handle(request)),
        ApiKey::DescribeCluster => Box::pin(k60_describe_cluster::handle(request)),
        ApiKey::DescribeProducers => Box::pin(k61_describe_producers::handle(request)),
        ApiKey::UnregisterBroker => Box::pin(k64_unregister_broker::handle(request)),
        ApiKey::ListConfigResources => Box::pin(k74_list_config_resources::handle(request)),
        ApiKey::DescribeTopicPartitions => Box::pin(k75_describe_topic_partitions::handle(request)),
        api => {
            let error = ConnectionError::NotServed { key: api.code(), version: request.version };
            Box::pin(std::future::ready(Err(error)))
        }
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
        // Besides its future: a channel, an entry in a table, the names that it keeps, the look at its peer.
        const OTHERWISE_BYTES: usize = 128 + 96 + 2 * 256 + LOOK_BYTES;
        for future in [size_of_future(k11_join_group::handle), size_of_future(k14_sync_group::handle)] {
            assert!(future + OTHERWISE_BYTES <= weir_coordinator::WAITING_REQUEST_BYTES, "{future}");
        }
    }

    #[test]
    fn a_fetch_that_waits_fits_in_what_the_plan_charges() {
        // Besides its future, of which a timer is part: what it is woken by, the look at its peer.
        const OTHERWISE_BYTES: usize = 64 + LOOK_BYTES;
        let future = size_of_future(k01_fetch::handle);
        assert!((future + OTHERWISE_BYTES) as u64 <= crate::plan::WAITING_BYTES, "{future}");
    }
}
