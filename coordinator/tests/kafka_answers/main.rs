//! One script of group requests, two peers: Apache Kafka 4.4.0 and this coordinator give the same answers, line by line.
//!
//! Kafka's answers are committed in `fixtures/kafka-4.4.0/answers.txt`. With `WEIR_KAFKA_BOOTSTRAP=host:port` the script
//! runs against that broker too, which must be fresh, with `offsets.topic.num.partitions=1`, `group.max.size=3`,
//! `group.initial.rebalance.delay.ms=200` and a topic `orders`; `WEIR_RECORD=1` then writes the file anew.

#[path = "../harness/mod.rs"]
mod harness;
mod kafka;
mod script;

use std::collections::HashMap;

use harness::Broker;
use weir_coordinator::{Command, GroupConfig, GroupError, Limits, Reply, Token};
use weir_protocol::messages::error_code::ErrorCode;

const ANSWERS: &str = include_str!("../fixtures/kafka-4.4.0/answers.txt");

/// What a script can see of an answer.
pub struct Answer {
    /// One line, without random parts.
    pub line: String,
    /// The id in an answer to JoinGroup.
    pub member_id: String,
}

/// A coordinator that a script can talk to.
pub trait Peer {
    /// Sends a request on a connection; each has at most one under way.
    fn send(&mut self, connection: &'static str, command: Command);
    /// The answer to the last request of the connection.
    fn receive(&mut self, connection: &'static str) -> Answer;
    /// State, protocol type, protocol, members.
    fn describe(&mut self, group: &str) -> String;
    /// Offset, leader epoch and metadata of partition 0 of `orders`.
    fn fetch(&mut self, group: &str) -> String;
}

struct ShardPeer {
    broker: Broker,
    tokens: HashMap<&'static str, Token>,
    /// Version of the last JoinGroup on a connection: before 7 its answer does not carry the protocol type.
    join_versions: HashMap<&'static str, i16>,
}

fn code(error: Option<&GroupError>) -> ErrorCode {
    let Some(error) = error else { return ErrorCode::NONE };
    match error {
        GroupError::CoordinatorLoadInProgress => ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        GroupError::NotCoordinator => ErrorCode::NOT_COORDINATOR,
        GroupError::CoordinatorNotAvailable { .. } => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        GroupError::InvalidGroupId => ErrorCode::INVALID_GROUP_ID,
        GroupError::InvalidSessionTimeout { .. } => ErrorCode::INVALID_SESSION_TIMEOUT,
        GroupError::UnknownMemberId => ErrorCode::UNKNOWN_MEMBER_ID,
        GroupError::MemberIdRequired => ErrorCode::MEMBER_ID_REQUIRED,
        GroupError::IllegalGeneration { .. } => ErrorCode::ILLEGAL_GENERATION,
        GroupError::RebalanceInProgress => ErrorCode::REBALANCE_IN_PROGRESS,
        GroupError::InconsistentGroupProtocol => ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
        GroupError::FencedInstanceId => ErrorCode::FENCED_INSTANCE_ID,
        GroupError::GroupMaxSizeReached { .. } => ErrorCode::GROUP_MAX_SIZE_REACHED,
        GroupError::MessageTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
        GroupError::OffsetMetadataTooLarge { .. } => ErrorCode::OFFSET_METADATA_TOO_LARGE,
        GroupError::InvalidCommitOffsetSize { .. } => ErrorCode::INVALID_COMMIT_OFFSET_SIZE,
        GroupError::NonEmptyGroup => ErrorCode::NON_EMPTY_GROUP,
        GroupError::GroupIdNotFound { .. } => ErrorCode::GROUP_ID_NOT_FOUND,
        GroupError::GroupSubscribedToTopic => ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
        GroupError::UnknownServerError => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

impl Peer for ShardPeer {
    fn send(&mut self, connection: &'static str, command: Command) {
        if let Command::JoinGroup(request) = &command {
            self.join_versions.insert(connection, request.api_version);
        }
        let token = self.broker.send(command);
        self.tokens.insert(connection, token);
    }

    fn receive(&mut self, connection: &'static str) -> Answer {
        let token = self.tokens[connection];
        for _ in 0..100 {
            if !self.broker.is_waiting(token) {
                break;
            }
            self.broker.wait(100);
        }
        let mut member_id = String::new();
        let line = match self.broker.replies.get(&token).expect("an answer within 10 s") {
            Reply::JoinGroup(reply) => {
                member_id = reply.member_id.to_string();
                kafka::join_line(
                    code(reply.error.as_ref()),
                    reply.generation_id,
                    reply.protocol_type.as_deref().filter(|_| self.join_versions[connection] >= 7),
                    reply.protocol_name.as_deref(),
                    (&reply.leader, &member_id),
                    reply.members.len(),
                    reply.skip_assignment,
                )
            }
            Reply::SyncGroup(reply) => kafka::sync_line(
                code(reply.error.as_ref()),
                reply.protocol_type.as_deref(),
                reply.protocol_name.as_deref(),
                &reply.assignment,
            ),
            Reply::Heartbeat(result) => format!("{}", code(result.as_ref().err())),
            Reply::LeaveGroup(Ok(members)) => {
                let members = members.iter().map(|member| code(member.error.as_ref())).collect();
                kafka::list_line(ErrorCode::NONE, members)
            }
            Reply::LeaveGroup(Err(error)) => kafka::list_line(code(Some(error)), Vec::new()),
            Reply::OffsetCommit(topics) | Reply::OffsetDelete(Ok(topics)) => {
                let results = topics.iter().flat_map(|topic| &topic.partitions);
                kafka::list_line(ErrorCode::NONE, results.map(|(_, error)| code(error.as_ref())).collect())
            }
            Reply::OffsetDelete(Err(error)) => kafka::list_line(code(Some(error)), Vec::new()),
            Reply::DeleteGroups(results) => {
                let results = results.iter().map(|(_, result)| code(result.as_ref().err()));
                kafka::list_line(ErrorCode::NONE, results.collect())
            }
        };
        Answer { line, member_id }
    }

    fn describe(&mut self, group: &str) -> String {
        let group = self.broker.shard.describe_group(group, 6).expect("served");
        kafka::describe_line(
            code(group.error.as_ref()),
            group.state.as_str(),
            &group.protocol_type,
            &group.protocol,
            group.members.len(),
        )
    }

    fn fetch(&mut self, group: &str) -> String {
        let offsets = self.broker.shard.offsets(group).expect("served");
        match offsets.get("orders", 0) {
            Some(found) => kafka::fetch_line(found.offset, found.leader_epoch, &found.metadata),
            None => kafka::fetch_line(-1, -1, ""),
        }
    }
}

#[test]
fn the_coordinator_answers_as_kafka_does() {
    let config = GroupConfig { initial_rebalance_delay_ms: 200, group_max_size: 3, ..harness::config() };
    let mut peer = ShardPeer {
        broker: Broker::new(config, Limits::default()),
        tokens: HashMap::new(),
        join_versions: HashMap::new(),
    };
    let lines = script::run(&mut peer);
    for (ours, kafkas) in lines.iter().zip(ANSWERS.lines()) {
        assert_eq!(ours, kafkas);
    }
    assert_eq!(lines.len(), ANSWERS.lines().count());
}

#[test]
fn kafka_answers_as_it_did() {
    let Ok(bootstrap) = std::env::var("WEIR_KAFKA_BOOTSTRAP") else {
        eprintln!("skipped: WEIR_KAFKA_BOOTSTRAP is not set");
        return;
    };
    let lines = script::run(&mut kafka::KafkaPeer::new(bootstrap));
    if std::env::var_os("WEIR_RECORD").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kafka-4.4.0/answers.txt");
        std::fs::write(path, lines.join("\n") + "\n").expect("the fixture can be written");
        return;
    }
    assert_eq!(lines, ANSWERS.lines().collect::<Vec<_>>());
}
