//! A server in this process on a port of its own in a temporary directory, and a small blocking client for it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_broker::Server;
use weir_metadata::properties::{BrokerConfig, PropertySet};
use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::{DecodeError, EncodeError, Reader, Sink};

/// A request and the response that belongs to it.
pub(crate) trait Call {
    /// The response.
    type Response: std::fmt::Debug;
    /// The api key.
    const API: ApiKey;
    /// Writes the request.
    fn write(&self, w: &mut dyn Sink, version: i16) -> Result<(), EncodeError>;
    /// Reads the response.
    fn read(r: &mut Reader<'_>, version: i16) -> Result<Self::Response, DecodeError>;
}

macro_rules! calls {
    ($($request:ident => $response:ident;)*) => {
        $(impl Call for $request {
            type Response = $response;
            const API: ApiKey = $request::API_KEY;
            fn write(&self, w: &mut dyn Sink, version: i16) -> Result<(), EncodeError> {
                self.encode(w, version)
            }
            fn read(r: &mut Reader<'_>, version: i16) -> Result<$response, DecodeError> {
                $response::decode(r, version)
            }
        })*
    };
}

calls! {
    AlterConfigsRequest => AlterConfigsResponse;
    AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse;
    ApiVersionsRequest => ApiVersionsResponse;
    CreateAclsRequest => CreateAclsResponse;
    CreatePartitionsRequest => CreatePartitionsResponse;
    CreateTopicsRequest => CreateTopicsResponse;
    DeleteAclsRequest => DeleteAclsResponse;
    DeleteGroupsRequest => DeleteGroupsResponse;
    DeleteRecordsRequest => DeleteRecordsResponse;
    DeleteTopicsRequest => DeleteTopicsResponse;
    DescribeAclsRequest => DescribeAclsResponse;
    DescribeClientQuotasRequest => DescribeClientQuotasResponse;
    DescribeClusterRequest => DescribeClusterResponse;
    DescribeConfigsRequest => DescribeConfigsResponse;
    DescribeGroupsRequest => DescribeGroupsResponse;
    DescribeLogDirsRequest => DescribeLogDirsResponse;
    DescribeProducersRequest => DescribeProducersResponse;
    DescribeQuorumRequest => DescribeQuorumResponse;
    DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse;
    DescribeUserScramCredentialsRequest => DescribeUserScramCredentialsResponse;
    ElectLeadersRequest => ElectLeadersResponse;
    FetchRequest => FetchResponse;
    FindCoordinatorRequest => FindCoordinatorResponse;
    HeartbeatRequest => HeartbeatResponse;
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse;
    InitProducerIdRequest => InitProducerIdResponse;
    JoinGroupRequest => JoinGroupResponse;
    LeaveGroupRequest => LeaveGroupResponse;
    ListConfigResourcesRequest => ListConfigResourcesResponse;
    ListGroupsRequest => ListGroupsResponse;
    ListOffsetsRequest => ListOffsetsResponse;
    ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse;
    MetadataRequest => MetadataResponse;
    OffsetCommitRequest => OffsetCommitResponse;
    OffsetDeleteRequest => OffsetDeleteResponse;
    OffsetFetchRequest => OffsetFetchResponse;
    OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse;
    ProduceRequest => ProduceResponse;
    SyncGroupRequest => SyncGroupResponse;
    UnregisterBrokerRequest => UnregisterBrokerResponse;
    UpdateFeaturesRequest => UpdateFeaturesResponse;
}

/// A running server; stops with its drop.
pub(crate) struct Running {
    runtime: tokio::runtime::Runtime,
    server: Option<Server>,
    address: SocketAddr,
    dir: TempDir,
    properties: String,
}

impl Running {
    /// Starts a server with these lines of properties beside the ones that every test needs. Retention stays away:
    /// records of tests may be stamped with any time.
    pub(crate) fn start(properties: &str) -> Running {
        Running::start_plain(&format!("log.initial.task.delay.ms=86400000\n{properties}"))
    }

    /// As [`Running::start`], with nothing that a test of all properties would see.
    pub(crate) fn start_plain(properties: &str) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (server, address) = start(&runtime, dir.path(), properties);
        Running { runtime, server: Some(server), address, dir, properties: properties.to_string() }
    }

    /// Stops and starts again on the same directory.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let (server, address) = start(&self.runtime, self.dir.path(), &self.properties);
        (self.server, self.address) = (Some(server), address);
    }

    /// As [`Running::restart`], with other properties.
    pub(crate) fn restart_with(&mut self, properties: &str) {
        self.properties = properties.to_string();
        self.restart();
    }

    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop()).unwrap();
        }
    }

    /// Stops it, and does something with its directory before that goes.
    pub(crate) fn stop_and(mut self, work: impl FnOnce()) {
        self.stop();
        work();
    }

    /// The log directory.
    pub(crate) fn log_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The address of the first listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of the first listener.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A figure on `/metrics`; the server must have been started with an `http.listener`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let address = self.server.as_ref().unwrap().http_address().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: weir\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not on the page:\n{page}")).parse().unwrap()
    }

    /// How often the limit that a property sets was reached.
    pub(crate) fn limit_reached(&self, property: &str) -> u64 {
        self.metric(&format!("weir_limit_reached_total{{property=\"{property}\"}}"))
    }

    /// Waits until no budget has anything leased, but for the page that asks.
    pub(crate) fn assert_at_rest(&self) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while self.budgets().iter().any(|budget| budget.used > 0) {
            assert!(Instant::now() < deadline, "still leased: {:?}", self.budgets());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Every budget of the memory plan, parents first.
    pub(crate) fn budgets(&self) -> Vec<weir_budget::BudgetReport> {
        self.server.as_ref().unwrap().budgets()
    }

    /// A new connection.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

fn start(runtime: &tokio::runtime::Runtime, dir: &Path, properties: &str) -> (Server, SocketAddr) {
    let text = format!(
        "log.dirs={}\nlisteners=PLAINTEXT://127.0.0.1:0\nhttp.listener=\nnode.id=7\n{properties}\n",
        dir.display()
    );
    let config = BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap()).unwrap().config;
    let server = runtime.block_on(Server::start(config)).unwrap();
    let address = server.addresses()[0];
    (server, address)
}

/// A topic to create: its name, number of partitions and configs.
pub(crate) type NewTopic<'a> = (&'a str, i32, &'a [(&'a str, &'a str)]);

/// A blocking client on one connection.
pub(crate) struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    /// A new connection to whatever broker listens there.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, correlation_id: 0 }
    }

    /// Waits no longer than this for an answer.
    pub(crate) fn patience(self, limit: Duration) -> Client {
        self.set_patience(limit);
        self
    }

    /// From now on waits no longer than this for an answer.
    pub(crate) fn set_patience(&self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).unwrap();
    }

    /// Sends a request in a version and waits for its response, which must decode to its last byte.
    pub(crate) fn call<C: Call>(&mut self, request: &C, version: i16) -> C::Response {
        self.exchange(request, version, &[]).unwrap()
    }

    /// As [`Client::call`], with bytes after the request that no field explains.
    pub(crate) fn call_with_tail<C: Call>(&mut self, request: &C, version: i16, tail: &[u8]) -> C::Response {
        self.exchange(request, version, tail).unwrap()
    }

    /// As [`Client::call`]; otherwise the reason why there is no response.
    pub(crate) fn call_or_reason<C: Call>(
        &mut self,
        request: &C,
        version: i16,
    ) -> Result<C::Response, &'static str> {
        self.exchange(request, version, &[]).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => "does not answer",
            _ => "closes the connection",
        })
    }

    /// As [`Client::call`]; `None` if the server cut the connection instead of answering.
    pub(crate) fn try_call<C: Call>(&mut self, request: &C, version: i16) -> Option<C::Response> {
        match self.exchange(request, version, &[]) {
            Ok(response) => Some(response),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer: {error}"),
            Err(_) => None,
        }
    }

    /// Sends a request and does not wait; the connection it went by.
    pub(crate) fn send_only<C: Call>(&self, request: &C, version: i16) -> TcpStream {
        (&self.stream).write_all(&frame(request, version, self.correlation_id + 1, &[])).unwrap();
        self.stream.try_clone().unwrap()
    }

    /// Sends a request whose response is read by [`Client::receive`].
    pub(crate) fn send<C: Call>(&mut self, request: &C, version: i16, tail: &[u8]) -> std::io::Result<()> {
        self.correlation_id += 1;
        self.stream.write_all(&frame(request, version, self.correlation_id, tail))
    }

    fn exchange<C: Call>(&mut self, request: &C, version: i16, tail: &[u8]) -> std::io::Result<C::Response> {
        self.send(request, version, tail)?;
        self.receive::<C>(version)
    }

    /// Sends a request with these bytes behind its header, in a version that need not exist, and waits for the bytes
    /// behind the response's correlation id; `None` if the server cut the connection.
    pub(crate) fn call_raw(&mut self, (key, version): (i16, i16), body: &[u8]) -> Option<Vec<u8>> {
        self.correlation_id += 1;
        let header = RequestHeader {
            request_api_key: key,
            request_api_version: version,
            correlation_id: self.correlation_id,
            client_id: Some("test".to_string()),
            ..RequestHeader::default()
        };
        let mut frame = vec![0; 4];
        header.encode(&mut frame, 1).unwrap();
        frame.extend_from_slice(body);
        let size = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.stream.write_all(&frame).ok()?;
        let mut prefix = [0; 8];
        self.stream.read_exact(&mut prefix).ok()?;
        let mut body = vec![0; u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    /// Waits for the response to what [`Client::send_only`] sent.
    pub(crate) fn read_response<C: Call>(&mut self, version: i16) -> C::Response {
        self.correlation_id += 1;
        self.receive::<C>(version).unwrap()
    }

    /// Reads the response to the request that was sent last; it must decode to its last byte.
    pub(crate) fn receive<C: Call>(&mut self, version: i16) -> std::io::Result<C::Response> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut body = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut body)?;
        let mut reader = Reader::new(&body, 64 << 20);
        assert_eq!(reader.i32().unwrap(), self.correlation_id);
        if C::API.response_header_version(version) >= 1 {
            assert!(reader.unknown_tags().unwrap().is_empty());
        }
        let response = C::read(&mut reader, version).unwrap_or_else(|error| {
            panic!("{} version {version}: {error}: {body:02x?}", C::API.name());
        });
        reader.finish().unwrap();
        Ok(response)
    }

    /// The lowest and the highest version in which the server serves an API.
    pub(crate) fn versions(&mut self, api: ApiKey) -> (i16, i16) {
        let response = self.call(&ApiVersionsRequest::default(), 0);
        let row = response.api_keys.iter().find(|row| row.api_key == api.code());
        row.map(|row| (row.min_version, row.max_version))
            .unwrap_or_else(|| panic!("{} is not served", api.name()))
    }

    /// Creates topics with this many partitions; all must succeed.
    pub(crate) fn create(&mut self, topics: &[NewTopic<'_>]) -> CreateTopicsResponse {
        let topics = topics.iter().map(|(name, num_partitions, configs)| CreatableTopic {
            name: (*name).to_string(),
            num_partitions: *num_partitions,
            replication_factor: 1,
            configs: configs
                .iter()
                .map(|(name, value)| CreatableTopicConfig {
                    name: (*name).to_string(),
                    value: Some((*value).to_string()),
                    ..CreatableTopicConfig::default()
                })
                .collect(),
            ..CreatableTopic::default()
        });
        let request = CreateTopicsRequest { topics: topics.collect(), ..CreateTopicsRequest::default() };
        let response = self.call(&request, 7);
        for topic in &response.topics {
            assert_eq!(topic.error_code, ErrorCode::NONE, "{topic:?}");
        }
        response
    }

    /// Produces one batch of records with these timestamps; answers its base offset.
    pub(crate) fn produce(&mut self, topic: &str, index: i32, codec: Codec, timestamps: &[i64]) -> i64 {
        let mut batch = BatchBuilder::new(codec);
        for timestamp in timestamps {
            batch.append(*timestamp, Some(b"key"), Some(&[b'v'; 100]), &[]).unwrap();
        }
        self.produce_batch(topic, index, batch.build().unwrap()).base_offset
    }

    /// Produces a finished batch, which must be taken.
    pub(crate) fn produce_batch(
        &mut self,
        topic: &str,
        index: i32,
        batch: Vec<u8>,
    ) -> PartitionProduceResponse {
        let mut response = self.call(&produce_request(topic, index, batch), 9);
        let answer = response.responses.remove(0).partition_responses.remove(0);
        assert_eq!(answer.error_code, ErrorCode::NONE, "{answer:?}");
        answer
    }
}

/// A request that produces one batch, with acks=1.
pub(crate) fn produce_request(topic: &str, index: i32, batch: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData { index, records: Some(batch), ..Default::default() };
    let topic_data =
        TopicProduceData { name: topic.to_string(), partition_data: vec![data], ..Default::default() };
    ProduceRequest { acks: 1, timeout_ms: 1000, topic_data: vec![topic_data], ..Default::default() }
}

/// A request with its size and header, and `tail` after it.
pub(crate) fn frame<C: Call>(request: &C, version: i16, correlation_id: i32, tail: &[u8]) -> Vec<u8> {
    frame_of("test", request, version, correlation_id, tail)
}

/// The bytes of a request of a client that calls itself `client_id`.
pub(crate) fn frame_of<C: Call>(
    client_id: &str,
    request: &C,
    version: i16,
    correlation_id: i32,
    tail: &[u8],
) -> Vec<u8> {
    let header = RequestHeader {
        request_api_key: C::API.code(),
        request_api_version: version,
        correlation_id,
        client_id: Some(client_id.to_string()),
        ..RequestHeader::default()
    };
    let mut frame = vec![0; 4];
    header.encode(&mut frame, C::API.request_header_version(version)).unwrap();
    request.write(&mut frame, version).unwrap();
    frame.extend_from_slice(tail);
    let size = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}
