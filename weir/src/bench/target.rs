//! Whom the load goes to: the brokers that lead a topic's partitions, and the ends of its logs.

use weir_protocol::messages::k02_list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use weir_protocol::messages::k03_metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use weir_protocol::messages::{ApiKey, ErrorCode};

use std::time::{Duration, Instant};

use crate::load::LoadError;
use crate::load::client::Client;

const METADATA_VERSION: i16 = 9;
const LIST_OFFSETS_VERSION: i16 = 6;
/// How long a new topic may take to have leaders.
const PATIENCE: Duration = Duration::from_secs(30);
const REST: Duration = Duration::from_millis(100);
/// Time stamps that stand for the ends of a log.
pub(super) const EARLIEST: i64 = -2;
pub(super) const LATEST: i64 = -1;

/// The name under which the load connects.
pub(super) const CLIENT_ID: &str = "weir-bench";

/// A broker and the partitions that it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) partitions: Vec<i32>,
}

impl Leader {
    pub(super) async fn connect(&self) -> Result<Client, String> {
        let connected = Client::connect((self.host.as_str(), self.port), CLIENT_ID).await;
        connected.map_err(|error| format!("cannot connect to {}:{}: {error}", self.host, self.port))
    }
}

/// Connects to the first address of a list that answers.
pub(super) async fn connect_first(bootstrap: &str) -> Result<Client, String> {
    let mut last = "--bootstrap-server names no broker".to_string();
    for address in bootstrap.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            last = format!("--bootstrap-server {address}: expected HOST:PORT");
            continue;
        }
        match Client::connect(address, CLIENT_ID).await {
            Ok(client) => return Ok(client),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}

/// The leaders of a topic's partitions. A topic that is not there is made with `create` partitions, or is an error.
pub(super) async fn leaders(
    client: &mut Client,
    topic: &str,
    create: Option<i32>,
) -> Result<Vec<Leader>, String> {
    let deadline = Instant::now() + PATIENCE;
    let mut created = false;
    loop {
        match look_up(client, topic).await.map_err(|error| error.to_string())? {
            Ok(leaders) => return Ok(leaders),
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) if !created => match create {
                Some(partitions) => {
                    client.create_topic(topic, partitions, &[]).await.map_err(|error| error.to_string())?;
                    created = true;
                }
                None => return Err(format!("there is no topic {topic}")),
            },
            // A new topic is not known everywhere at once.
            Err(code) if !code.is_retriable() || Instant::now() > deadline => {
                return Err(format!("topic {topic} has no leaders: {code}"));
            }
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn look_up(client: &mut Client, topic: &str) -> Result<Result<Vec<Leader>, ErrorCode>, LoadError> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(topic.to_string()),
            ..MetadataRequestTopic::default()
        }]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let answer = client
        .call(
            ApiKey::Metadata,
            METADATA_VERSION,
            |w| request.encode(w, METADATA_VERSION),
            MetadataResponse::decode,
        )
        .await?;
    let mut leaders: Vec<(i32, Leader)> = Vec::new();
    for found in &answer.topics {
        if found.error_code != ErrorCode::NONE {
            return Ok(Err(found.error_code));
        }
        for partition in &found.partitions {
            let broker = answer.brokers.iter().find(|broker| broker.node_id == partition.leader_id);
            let Some(broker) = broker else { return Ok(Err(ErrorCode::LEADER_NOT_AVAILABLE)) };
            match leaders.iter_mut().find(|(id, _)| *id == broker.node_id) {
                Some((_, leader)) => leader.partitions.push(partition.partition_index),
                None => leaders.push((
                    broker.node_id,
                    Leader {
                        host: broker.host.clone(),
                        port: u16::try_from(broker.port).unwrap_or(0),
                        partitions: vec![partition.partition_index],
                    },
                )),
            }
        }
    }
    match leaders.is_empty() {
        true => Ok(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)),
        false => Ok(Ok(leaders.into_iter().map(|(_, leader)| leader).collect())),
    }
}

/// Waits until a broker leads the partitions that it is said to lead: of a new topic it may not know yet.
pub(super) async fn wait_for(client: &mut Client, topic: &str, partitions: &[i32]) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ends(client, topic, partitions, LATEST).await {
            Ok(_) => return Ok(()),
            Err(LoadError::Answer { .. }) if Instant::now() < deadline => tokio::time::sleep(REST).await,
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// One end of each of these partitions' logs, in their order.
pub(super) async fn ends(
    client: &mut Client,
    topic: &str,
    partitions: &[i32],
    timestamp: i64,
) -> Result<Vec<i64>, LoadError> {
    let partition =
        |index: &i32| ListOffsetsPartition { partition_index: *index, timestamp, ..Default::default() };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.to_string(),
            partitions: partitions.iter().map(partition).collect(),
            ..ListOffsetsTopic::default()
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = client
        .call(
            ApiKey::ListOffsets,
            LIST_OFFSETS_VERSION,
            |w| request.encode(w, LIST_OFFSETS_VERSION),
            ListOffsetsResponse::decode,
        )
        .await?;
    let found: Vec<_> = answer.topics.into_iter().flat_map(|topic| topic.partitions).collect();
    let of = |index: &i32| {
        let refused = |code| LoadError::Answer {
            api: ApiKey::ListOffsets,
            what: format!("{topic}-{index}"),
            code,
            message: None,
        };
        match found.iter().find(|partition| partition.partition_index == *index) {
            Some(partition) if partition.error_code == ErrorCode::NONE => Ok(partition.offset),
            Some(partition) => Err(refused(partition.error_code)),
            None => Err(refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)),
        }
    };
    partitions.iter().map(of).collect()
}
