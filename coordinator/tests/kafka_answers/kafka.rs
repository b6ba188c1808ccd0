//! Apache Kafka as a peer: requests over plain connections, answers as lines.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weir_coordinator::Command;
use weir_protocol::messages::error_code::ErrorCode;
use weir_protocol::messages::headers::{RequestHeader, ResponseHeader};
use weir_protocol::messages::k08_offset_commit::*;
use weir_protocol::messages::k09_offset_fetch::*;
use weir_protocol::messages::k11_join_group::*;
use weir_protocol::messages::k12_heartbeat::*;
use weir_protocol::messages::k13_leave_group::*;
use weir_protocol::messages::k14_sync_group::*;
use weir_protocol::messages::k15_describe_groups::*;
use weir_protocol::messages::k42_delete_groups::*;
use weir_protocol::messages::k47_offset_delete::*;
use weir_protocol::wire::{EncodeError, Reader};

use crate::{Answer, Peer};

pub(crate) fn join_line(
    error: ErrorCode,
    generation: i32,
    protocol_type: Option<&str>,
    protocol: Option<&str>,
    (leader, member): (&str, &str),
    members: usize,
    skips: bool,
) -> String {
    let leads = !leader.is_empty() && leader == member;
    let (protocol_type, protocol) = (protocol_type.unwrap_or_default(), protocol.unwrap_or_default());
    let identified = !member.is_empty();
    format!(
        "{error} generation={generation} type={protocol_type} protocol={protocol} leader={} leads={leads} \
         id={identified} members={members} skip={skips}",
        !leader.is_empty()
    )
}

pub(crate) fn sync_line(
    error: ErrorCode,
    protocol_type: Option<&str>,
    protocol: Option<&str>,
    assignment: &[u8],
) -> String {
    let (protocol_type, protocol) = (protocol_type.unwrap_or_default(), protocol.unwrap_or_default());
    format!(
        "{error} type={protocol_type} protocol={protocol} assignment={}",
        String::from_utf8_lossy(assignment)
    )
}

pub(crate) fn list_line(error: ErrorCode, list: Vec<ErrorCode>) -> String {
    format!("{error} {list:?}")
}

pub(crate) fn describe_line(
    error: ErrorCode,
    state: &str,
    protocol_type: &str,
    protocol: &str,
    members: usize,
) -> String {
    format!("{error} {state} type={protocol_type} protocol={protocol} members={members}")
}

pub(crate) fn fetch_line(offset: i64, leader_epoch: i32, metadata: &str) -> String {
    format!("offset={offset} epoch={leader_epoch} metadata={metadata}")
}

struct Connection {
    stream: TcpStream,
    api_key: i16,
    version: i16,
}

pub(crate) struct KafkaPeer {
    bootstrap: String,
    connections: HashMap<&'static str, Connection>,
}

impl KafkaPeer {
    pub(crate) fn new(bootstrap: String) -> KafkaPeer {
        KafkaPeer { bootstrap, connections: HashMap::new() }
    }

    fn write(
        &mut self,
        connection: &'static str,
        api_key: i16,
        version: i16,
        flexible: bool,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) {
        let bootstrap = &self.bootstrap;
        let connection = self.connections.entry(connection).or_insert_with(|| {
            let stream = TcpStream::connect(bootstrap).expect("a broker listens");
            stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a time-out can be set");
            Connection { stream, api_key, version }
        });
        (connection.api_key, connection.version) = (api_key, version);
        let mut frame = Vec::new();
        let header = RequestHeader {
            request_api_key: api_key,
            request_api_version: version,
            client_id: Some("client".to_owned()),
            ..RequestHeader::default()
        };
        header.encode(&mut frame, if flexible { 2 } else { 1 }).expect("the header fits");
        encode(&mut frame).expect("the request fits");
        connection.stream.write_all(&(frame.len() as u32).to_be_bytes()).expect("the broker reads");
        connection.stream.write_all(&frame).expect("the broker reads");
    }

    fn read(&mut self, connection: &'static str) -> (i16, i16, Vec<u8>) {
        let connection = self.connections.get_mut(connection).expect("a connection");
        let mut length = [0; 4];
        connection.stream.read_exact(&mut length).expect("an answer");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        connection.stream.read_exact(&mut frame).expect("a whole answer");
        (connection.api_key, connection.version, frame)
    }
}

impl Peer for KafkaPeer {
    fn send(&mut self, connection: &'static str, command: Command) {
        match command {
            Command::JoinGroup(request) => {
                let version = request.api_version;
                let message = JoinGroupRequest {
                    group_id: request.group_id,
                    session_timeout_ms: request.session_timeout_ms,
                    rebalance_timeout_ms: request.rebalance_timeout_ms,
                    member_id: request.member_id,
                    group_instance_id: request.group_instance_id,
                    protocol_type: request.protocol_type,
                    protocols: request
                        .protocols
                        .into_iter()
                        .map(|(name, metadata)| JoinGroupRequestProtocol {
                            name,
                            metadata,
                            ..Default::default()
                        })
                        .collect(),
                    reason: request.reason,
                    ..Default::default()
                };
                self.write(connection, 11, version, version >= 6, |frame| message.encode(frame, version));
            }
            Command::SyncGroup(request) => {
                let message = SyncGroupRequest {
                    group_id: request.group_id,
                    generation_id: request.generation_id,
                    member_id: request.member_id,
                    group_instance_id: request.group_instance_id,
                    protocol_type: request.protocol_type,
                    protocol_name: request.protocol_name,
                    assignments: request
                        .assignments
                        .into_iter()
                        .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                            member_id,
                            assignment,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                };
                self.write(connection, 14, 5, true, |frame| message.encode(frame, 5));
            }
            Command::Heartbeat(request) => {
                let message = HeartbeatRequest {
                    group_id: request.group_id,
                    generation_id: request.generation_id,
                    member_id: request.member_id,
                    group_instance_id: request.group_instance_id,
                    ..Default::default()
                };
                self.write(connection, 12, 4, true, |frame| message.encode(frame, 4));
            }
            Command::LeaveGroup(request) => {
                let members = request.members.into_iter().map(|member| MemberIdentity {
                    member_id: member.member_id,
                    group_instance_id: member.group_instance_id,
                    reason: member.reason,
                    ..Default::default()
                });
                let message = LeaveGroupRequest {
                    group_id: request.group_id,
                    members: members.collect(),
                    ..Default::default()
                };
                self.write(connection, 13, 5, true, |frame| message.encode(frame, 5));
            }
            Command::OffsetCommit(request) => {
                let version = request.api_version;
                let topics = request.topics.into_iter().map(|topic| OffsetCommitRequestTopic {
                    name: topic.topic,
                    partitions: topic
                        .partitions
                        .into_iter()
                        .map(|partition| OffsetCommitRequestPartition {
                            partition_index: partition.partition,
                            committed_offset: partition.offset,
                            committed_leader_epoch: partition.leader_epoch,
                            committed_metadata: partition.metadata,
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                });
                let message = OffsetCommitRequest {
                    group_id: request.group_id,
                    generation_id_or_member_epoch: request.generation_id,
                    member_id: request.member_id,
                    group_instance_id: request.group_instance_id,
                    retention_time_ms: request.retention_time_ms,
                    topics: topics.collect(),
                    ..Default::default()
                };
                self.write(connection, 8, version, version >= 8, |frame| message.encode(frame, version));
            }
            Command::OffsetDelete(request) => {
                let topics = request.topics.into_iter().map(|(name, partitions)| OffsetDeleteRequestTopic {
                    name,
                    partitions: partitions
                        .into_iter()
                        .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
                        .collect(),
                });
                let message = OffsetDeleteRequest { group_id: request.group_id, topics: topics.collect() };
                self.write(connection, 47, 0, false, |frame| message.encode(frame, 0));
            }
            Command::DeleteGroups(request) => {
                let message = DeleteGroupsRequest { groups_names: request.group_ids, ..Default::default() };
                self.write(connection, 42, 2, true, |frame| message.encode(frame, 2));
            }
        }
    }

    fn receive(&mut self, connection: &'static str) -> Answer {
        let (api_key, version, frame) = self.read(connection);
        let mut reader = Reader::new(&frame, usize::MAX);
        let flexible = match api_key {
            11 => version >= 6,
            8 => version >= 8,
            47 => false,
            _ => true,
        };
        ResponseHeader::decode(&mut reader, i16::from(flexible)).expect("a header");
        let reader = &mut reader;
        let mut member_id = String::new();
        let line = match api_key {
            11 => {
                let answer = JoinGroupResponse::decode(reader, version).expect("JoinGroup");
                member_id = answer.member_id;
                join_line(
                    answer.error_code,
                    answer.generation_id,
                    answer.protocol_type.as_deref(),
                    answer.protocol_name.as_deref(),
                    (&answer.leader, &member_id),
                    answer.members.len(),
                    answer.skip_assignment,
                )
            }
            14 => {
                let answer = SyncGroupResponse::decode(reader, version).expect("SyncGroup");
                sync_line(
                    answer.error_code,
                    answer.protocol_type.as_deref(),
                    answer.protocol_name.as_deref(),
                    &answer.assignment,
                )
            }
            12 => format!("{}", HeartbeatResponse::decode(reader, version).expect("Heartbeat").error_code),
            13 => {
                let answer = LeaveGroupResponse::decode(reader, version).expect("LeaveGroup");
                list_line(answer.error_code, answer.members.iter().map(|member| member.error_code).collect())
            }
            8 => {
                let answer = OffsetCommitResponse::decode(reader, version).expect("OffsetCommit");
                let results = answer.topics.iter().flat_map(|topic| &topic.partitions);
                list_line(ErrorCode::NONE, results.map(|result| result.error_code).collect())
            }
            47 => {
                let answer = OffsetDeleteResponse::decode(reader, version).expect("OffsetDelete");
                let results = answer.topics.iter().flat_map(|topic| &topic.partitions);
                list_line(answer.error_code, results.map(|result| result.error_code).collect())
            }
            _ => {
                let answer = DeleteGroupsResponse::decode(reader, version).expect("DeleteGroups");
                list_line(ErrorCode::NONE, answer.results.iter().map(|result| result.error_code).collect())
            }
        };
        Answer { line, member_id }
    }

    fn describe(&mut self, group: &str) -> String {
        let message = DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() };
        self.write("reads", 15, 6, true, |frame| message.encode(frame, 6));
        let (_, _, frame) = self.read("reads");
        let mut reader = Reader::new(&frame, usize::MAX);
        ResponseHeader::decode(&mut reader, 1).expect("a header");
        let answer = DescribeGroupsResponse::decode(&mut reader, 6).expect("DescribeGroups");
        let group = &answer.groups[0];
        describe_line(
            group.error_code,
            &group.group_state,
            &group.protocol_type,
            &group.protocol_data,
            group.members.len(),
        )
    }

    fn fetch(&mut self, group: &str) -> String {
        let topic = OffsetFetchRequestTopics {
            name: "orders".to_owned(),
            partition_indexes: vec![0],
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: group.to_owned(),
            member_id: None,
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let message = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        self.write("reads", 9, 9, true, |frame| message.encode(frame, 9));
        let (_, _, frame) = self.read("reads");
        let mut reader = Reader::new(&frame, usize::MAX);
        ResponseHeader::decode(&mut reader, 1).expect("a header");
        let answer = OffsetFetchResponse::decode(&mut reader, 9).expect("OffsetFetch");
        let partition = &answer.groups[0].topics[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::NONE);
        fetch_line(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata.as_deref().unwrap_or_default(),
        )
    }
}
