//! A member of a group as a client library plays it, and the requests that administrators send.

use std::time::{Duration, Instant};

use weir_protocol::messages::*;

use crate::support::{Client, Running};

/// Properties under which tests need not wait.
pub(crate) const QUICK: &str = "group.initial.rebalance.delay.ms=0\noffsets.topic.num.partitions=5\noffsets.topic.replication.factor=1\n\
                         group.min.session.timeout.ms=100\nnum.partitions=3";

/// Waits until `is_so`, but not for ever.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One member with a connection of its own.
pub(crate) struct Member {
    pub(crate) client: Client,
    pub(crate) group: String,
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
    pub(crate) session_timeout_ms: i32,
    pub(crate) metadata: Vec<u8>,
}

impl Member {
    /// Looks the coordinator up and connects; has not joined.
    pub(crate) fn new(server: &Running, group: &str) -> Member {
        let mut client = server.client();
        find(&mut client, group);
        Member {
            client,
            group: group.to_string(),
            id: String::new(),
            instance: None,
            generation: -1,
            session_timeout_ms: 30_000,
            metadata: b"topics".to_vec(),
        }
    }

    /// The JoinGroup that it sends.
    pub(crate) fn join_request(&self, version: i16) -> JoinGroupRequest {
        let protocol = |name: &str, metadata: Vec<u8>| JoinGroupRequestProtocol {
            name: name.to_string(),
            metadata,
            ..JoinGroupRequestProtocol::default()
        };
        JoinGroupRequest {
            group_id: self.group.clone(),
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: if version >= 1 { 30_000 } else { -1 },
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 5),
            protocol_type: "consumer".to_string(),
            protocols: vec![protocol("range", self.metadata.clone()), protocol("roundrobin", vec![1, 2])],
            reason: (version >= 8).then(|| "a test".to_string()),
            ..JoinGroupRequest::default()
        }
    }

    /// Joins; a new id is taken up as a client does (KIP-394).
    pub(crate) fn join(&mut self, version: i16) -> JoinGroupResponse {
        loop {
            let request = self.join_request(version);
            let response = self.client.call(&request, version);
            if response.error_code == ErrorCode::MEMBER_ID_REQUIRED {
                assert!(version >= 4 && self.id.is_empty());
                self.id = response.member_id;
                continue;
            }
            if response.error_code.is_ok() {
                self.id = response.member_id.clone();
                self.generation = response.generation_id;
            }
            return response;
        }
    }

    /// Syncs with these assignments.
    pub(crate) fn sync(&mut self, version: i16, assignments: &[(&str, &[u8])]) -> SyncGroupResponse {
        let assignments = assignments.iter().map(|(id, assignment)| SyncGroupRequestAssignment {
            member_id: (*id).to_string(),
            assignment: assignment.to_vec(),
            ..SyncGroupRequestAssignment::default()
        });
        let request = SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 3),
            protocol_type: (version >= 5).then(|| "consumer".to_string()),
            protocol_name: (version >= 5).then(|| "range".to_string()),
            assignments: assignments.collect(),
            ..SyncGroupRequest::default()
        };
        self.client.call(&request, version)
    }

    /// Joins and syncs until it is in a stable generation; as the leader it assigns to each member its id.
    pub(crate) fn settle(&mut self) -> SyncGroupResponse {
        self.try_settle().unwrap_or_else(|code| panic!("{code:?}"))
    }

    /// As [`Member::settle`]; an error for one whose session may end meanwhile.
    pub(crate) fn try_settle(&mut self) -> Result<SyncGroupResponse, ErrorCode> {
        loop {
            let joined = self.join(9);
            if !joined.error_code.is_ok() {
                return Err(joined.error_code);
            }
            let ids: Vec<String> = joined.members.iter().map(|member| member.member_id.clone()).collect();
            let assignments: Vec<(&str, &[u8])> = match joined.leader == joined.member_id {
                true => ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect(),
                false => Vec::new(),
            };
            let synced = self.sync(5, &assignments);
            match synced.error_code {
                ErrorCode::NONE => return Ok(synced),
                ErrorCode::REBALANCE_IN_PROGRESS => {}
                code => return Err(code),
            }
        }
    }

    pub(crate) fn heartbeat(&mut self, version: i16) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone().filter(|_| version >= 3),
            ..HeartbeatRequest::default()
        };
        self.client.call(&request, version).error_code
    }

    pub(crate) fn leave(&mut self, version: i16) -> LeaveGroupResponse {
        let member = MemberIdentity {
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            ..MemberIdentity::default()
        };
        let request = match version {
            ..3 => LeaveGroupRequest {
                group_id: self.group.clone(),
                member_id: self.id.clone(),
                ..LeaveGroupRequest::default()
            },
            _ => LeaveGroupRequest {
                group_id: self.group.clone(),
                members: vec![member],
                ..LeaveGroupRequest::default()
            },
        };
        self.client.call(&request, version)
    }

    /// Commits one offset for each of these partitions of a topic.
    pub(crate) fn commit(&mut self, topic: &str, offsets: &[(i32, i64)]) -> Vec<ErrorCode> {
        let request = OffsetCommitRequest {
            group_id: self.group.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            topics: vec![commit_topic(topic, offsets)],
            ..OffsetCommitRequest::default()
        };
        let response = self.client.call(&request, 9);
        response.topics.iter().flat_map(|topic| &topic.partitions).map(|it| it.error_code).collect()
    }
}

/// A topic of an OffsetCommit.
pub(crate) fn commit_topic(topic: &str, offsets: &[(i32, i64)]) -> OffsetCommitRequestTopic {
    let partitions = offsets.iter().map(|(index, offset)| OffsetCommitRequestPartition {
        partition_index: *index,
        committed_offset: *offset,
        committed_leader_epoch: 4,
        committed_metadata: Some(format!("note {offset}")),
        ..OffsetCommitRequestPartition::default()
    });
    OffsetCommitRequestTopic {
        name: topic.to_string(),
        partitions: partitions.collect(),
        ..OffsetCommitRequestTopic::default()
    }
}

/// Finds a group's coordinator; the first look-up creates the offsets topic.
pub(crate) fn find(client: &mut Client, group: &str) -> Coordinator {
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![group.to_string()],
        ..FindCoordinatorRequest::default()
    };
    let found = client.call(&request, 6).coordinators.remove(0);
    assert_eq!((found.error_code, found.key.as_str()), (ErrorCode::NONE, group));
    found
}

/// Describes one group.
pub(crate) fn describe(client: &mut Client, group: &str) -> DescribeGroupsResponseDescribedGroup {
    let request =
        DescribeGroupsRequest { groups: vec![group.to_string()], ..DescribeGroupsRequest::default() };
    client.call(&request, 6).groups.remove(0)
}

/// All offsets of a group: (topic, partition, offset).
pub(crate) fn all_offsets(client: &mut Client, group: &str) -> Vec<(String, i32, i64)> {
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.to_string(),
            topics: None,
            ..OffsetFetchRequestGroup::default()
        }],
        ..OffsetFetchRequest::default()
    };
    let group = client.call(&request, 9).groups.remove(0);
    assert_eq!(group.error_code, ErrorCode::NONE);
    let each = group.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|it| (topic.name.clone(), it.partition_index, it.committed_offset))
    });
    each.collect()
}

/// Deletes a group.
pub(crate) fn delete(client: &mut Client, group: &str) -> ErrorCode {
    let request =
        DeleteGroupsRequest { groups_names: vec![group.to_string()], ..DeleteGroupsRequest::default() };
    client.call(&request, 2).results.remove(0).error_code
}

/// Bytes that the groups' share holds.
pub(crate) fn groups_share(server: &Running) -> u64 {
    let report = server.budgets();
    report.iter().find(|budget| budget.name.ends_with("groups")).unwrap().used
}
