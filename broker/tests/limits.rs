//! Every limit of the server is reached: the client gets the error that it understands, the limit's counter tells of it,
//! what was there goes on, and no memory stays behind.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use support::{Client, Running, frame, frame_of, produce_request};
use weir_broker::{Server, ServerError};
use weir_metadata::properties::{BrokerConfig, PropertySet};
use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::Reader;

fn start(properties: &str) -> Running {
    Running::start(&format!(
        "http.listener=127.0.0.1:0\nmemory.budget.bytes=64MiB\noffsets.topic.num.partitions=1\n\
         offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\n{properties}"
    ))
}

/// The limit's counter tells of it, the server goes on, and nothing is left but what `allowed` names.
fn reached(server: &Running, property: &str, allowed: &[&str]) {
    assert!(server.limit_reached(property) > 0, "{property} was not counted");
    let held = || {
        let budgets = server.budgets().into_iter().skip(1);
        budgets
            .filter(|it| it.used > 0 && !allowed.contains(&it.name.as_str()))
            .map(|it| it.name)
            .collect::<Vec<_>>()
    };
    wait_until(|| held().is_empty(), || format!("still leased: {:?}", held()));
}

/// Waits for what must come; far longer than a starved machine needs.
fn wait_until(mut condition: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "{}", otherwise());
        sleep(Duration::from_millis(10));
    }
}

/// True when the server ends the connection without an answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn lives(client: &mut Client) {
    assert_eq!(client.call(&ApiVersionsRequest::default(), 0).error_code, ErrorCode::NONE);
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

fn batch(timestamp: i64, producer: Option<i64>) -> Vec<u8> {
    let mut batch = BatchBuilder::new(Codec::None);
    if let Some(id) = producer {
        batch = batch.producer(id, 0, 0);
    }
    batch.append(timestamp, None, Some(&[b'v'; 100]), &[]).unwrap();
    batch.build().unwrap()
}

fn produce(client: &mut Client, topic: &str, records: Vec<u8>) -> ErrorCode {
    client.call(&produce_request(topic, 0, records), 9).responses[0].partition_responses[0].error_code
}

/// Sets a property of all brokers while the server runs.
fn set(client: &mut Client, property: &str, value: &str) -> ErrorCode {
    let config = IncrementalAlterConfigsRequestAlterableConfig {
        name: property.to_string(),
        value: Some(value.to_string()),
        ..Default::default()
    };
    let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
        resource_type: 4,
        resource_name: String::new(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    client.call(&request, 1).responses[0].error_code
}

fn new_topic(name: &str, partitions: i32) -> CreateTopicsRequest {
    let topic = CreatableTopic {
        name: name.to_string(),
        num_partitions: partitions,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() }
}

#[test]
fn max_connections() {
    let server = start("max.connections=2");
    let (mut first, mut second) = (server.client(), server.client());
    lives(&mut first);
    lives(&mut second);
    assert!(is_closed(&mut TcpStream::connect(server.address()).unwrap()));
    lives(&mut first);
    drop(second);
    wait_until(
        || server.client().try_call(&ApiVersionsRequest::default(), 0).is_some(),
        || "the place of a closed connection stays taken".to_string(),
    );
    reached(&server, "max.connections", &[]);
}

#[test]
fn max_connections_per_ip_and_its_exceptions() {
    let server = start("max.connections.per.ip=1");
    let mut first = server.client();
    lives(&mut first);
    assert!(is_closed(&mut TcpStream::connect(server.address()).unwrap()));
    reached(&server, "max.connections.per.ip", &[]);
    // The limit is dynamic, and so are the exceptions from it.
    assert_eq!(set(&mut first, "max.connections.per.ip.overrides", "127.0.0.1:2"), ErrorCode::NONE);
    let mut second = server.client();
    lives(&mut second);
    assert!(is_closed(&mut TcpStream::connect(server.address()).unwrap()));
}

#[test]
fn max_connection_creation_rate() {
    let server = start("max.connection.creation.rate=2");
    let began = Instant::now();
    // All are there before the first is asked anything, so that the third waits however slow the answers are.
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    clients.iter_mut().for_each(lives);
    // Two in the second that the first came in, two in the next, and the last after that.
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    reached(&server, "max.connection.creation.rate", &[]);
}

#[test]
fn connections_max_idle_ms() {
    let server = start("connections.max.idle.ms=300");
    // A machine that is slow may find a connection closed before it has asked.
    let living = || {
        let mut client = server.client();
        client.try_call(&ApiVersionsRequest::default(), 0).map(|_| client)
    };
    let mut found = None;
    let mut find = |otherwise: &str| {
        wait_until(
            || {
                found = living();
                found.is_some()
            },
            || otherwise.to_string(),
        );
        found.take().unwrap()
    };
    let mut client = find("none is served");
    assert!(is_closed(&mut TcpStream::connect(server.address()).unwrap()));
    let end = client.receive::<ApiVersionsRequest>(0).unwrap_err().kind();
    assert!(matches!(end, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{end}");
    reached(&server, "connections.max.idle.ms", &[]);
    find("none is served afterwards");
}

#[test]
fn socket_request_max_bytes() {
    let server = start("socket.request.max.bytes=1000");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&2000_i32.to_be_bytes()).unwrap();
    assert!(is_closed(&mut stream));
    reached(&server, "socket.request.max.bytes", &[]);
    lives(&mut server.client());
}

#[test]
fn max_message_bytes() {
    let server = start("");
    let mut client = server.client();
    client.create(&[("small", 1, &[("max.message.bytes", "100")])]);
    assert_eq!(produce(&mut client, "small", batch(1, None)), ErrorCode::MESSAGE_TOO_LARGE);
    reached(&server, "max.message.bytes", &[]);
    lives(&mut client);
}

#[test]
fn no_limit_is_on_the_name_of_a_client() {
    let server = start("");
    server.client().create(&[("t", 1, &[])]);
    for version in [8, 9] {
        let bytes = frame_of(&"c".repeat(20_000), &produce_request("t", 0, batch(1, None)), version, 7, &[]);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut prefix = [0; 8];
        stream.read_exact(&mut prefix).expect("an answer");
        assert_eq!(prefix[4..], [0, 0, 0, 7]);
        let mut body = vec![0; u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize - 4];
        stream.read_exact(&mut body).unwrap();
        let body = body.strip_prefix(if version >= 9 { &[0][..] } else { &[] }).unwrap();
        let answer = ProduceResponse::decode(&mut Reader::new(body, 1 << 20), version).unwrap();
        assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    }
}

#[test]
fn a_batch_or_a_topic_beyond_the_room_is_told_how_much_there_is_and_what_makes_more() {
    let server = start("");
    let mut client = server.client();
    let room = server.budgets().into_iter().find(|it| it.name.ends_with("receive")).unwrap().limit;
    let request = |name: &str, bytes: u64| {
        let configs = [("max.message.bytes", bytes.to_string()), ("compression.type", "gzip".to_string())];
        let configs = configs.map(|(name, value)| CreatableTopicConfig {
            name: name.to_string(),
            value: Some(value),
            ..Default::default()
        });
        let topic = CreatableTopic { configs: configs.to_vec(), ..new_topic(name, 1).topics.remove(0) };
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() }
    };
    let refused = client.call(&request("huge", room), 7).topics.remove(0);
    assert_eq!(refused.error_code, ErrorCode::INVALID_CONFIG);
    let message = refused.error_message.unwrap();
    for part in
        [&format!("{room}"), "room for ", "memory.budget.bytes=", &format!("message.max.bytes={room}")]
    {
        assert!(message.contains(part), "{message}");
    }

    let most = room - 100_000;
    assert_eq!(client.call(&request("large", most), 7).topics[0].error_code, ErrorCode::NONE);
    let bytes = batch(1, None).len();
    let produce = produce_request("large", 0, batch(1, None));
    let answer = client.call(&produce, 9).responses.remove(0).partition_responses.remove(0);
    assert_eq!(answer.error_code, ErrorCode::MESSAGE_TOO_LARGE);
    let message = answer.error_message.unwrap();
    for part in [&format!("a batch of {bytes} bytes"), "gzip", &format!("room for {room}")] {
        assert!(message.contains(part), "{message}");
    }
    reached(&server, "memory.budget.bytes", &[]);
    let wanted = message.split("message.max.bytes = ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    drop(server);

    let server = Running::start(&format!("message.max.bytes={wanted}\nmemory.budget.bytes=128MiB"));
    let mut client = server.client();
    assert_eq!(client.call(&request("large", most), 7).topics[0].error_code, ErrorCode::NONE);
    let answer = client.call(&produce, 9).responses.remove(0).partition_responses.remove(0);
    assert_eq!(answer.error_code, ErrorCode::NONE, "{:?}", answer.error_message);
}

#[test]
fn max_partitions() {
    let server = start("max.partitions=5\nauto.create.topics.enable=true\nnum.partitions=1");
    let mut client = server.client();
    client.create(&[("t", 4, &[])]);
    let response = client.call(&new_topic("u", 2), 7);
    let refused = &response.topics[0];
    assert_eq!(refused.error_code, ErrorCode::POLICY_VIOLATION);
    assert!(refused.error_message.as_deref().unwrap().contains("max.partitions=5"), "{refused:?}");
    let more =
        CreatePartitionsTopic { name: "t".to_string(), count: 6, assignments: None, ..Default::default() };
    let request = CreatePartitionsRequest { topics: vec![more], ..CreatePartitionsRequest::default() };
    assert_eq!(client.call(&request, 3).results[0].error_code, ErrorCode::POLICY_VIOLATION);
    let before = server.limit_reached("max.partitions");
    let named = |name: &str| MetadataRequestTopic { name: Some(name.to_string()), ..Default::default() };
    let topics = Some((0..200).map(|number| named(&format!("on-demand-{number}"))).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: true, ..MetadataRequest::default() };
    let response = client.call(&request, 9);
    let created = response.topics.iter().filter(|topic| topic.error_code.is_ok()).count();
    assert_eq!((created, response.topics.len()), (1, 200));
    assert!(server.limit_reached("max.partitions") > before);
    reached(&server, "max.partitions", &[]);
    assert_eq!(produce(&mut client, "t", batch(1, None)), ErrorCode::NONE);
}

#[test]
fn more_partitions_than_may_be_are_no_reason_to_start_beyond_the_plan() {
    let server = start("max.partitions=20");
    server.client().create(&[("t", 10, &[])]);
    let dir = server.log_dir().to_path_buf();
    let copy = tempfile::tempdir().unwrap();
    drop_and_copy(server, &dir, copy.path());
    let text = format!(
        "log.dirs={}\nlisteners=PLAINTEXT://127.0.0.1:0\nhttp.listener=\nnode.id=7\nmax.partitions=9\n",
        copy.path().display()
    );
    let config = BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap()).unwrap().config;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match runtime.block_on(Server::start(config)) {
        Err(error @ ServerError::Limit { property: "max.partitions", count: 10, limit: 9, .. }) => {
            assert!(error.to_string().contains("set max.partitions to 10"), "{error}");
        }
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it started"),
    }
}

/// Stops the server and copies its directory, which goes with it.
fn drop_and_copy(server: Running, from: &std::path::Path, to: &std::path::Path) {
    server.stop_and(|| {
        let copied = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
        assert!(copied.success());
    });
}

#[test]
fn max_metadata_bytes() {
    let server = start("max.metadata.bytes=65536\nmax.partitions=10000");
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    let response = client.call(&new_topic("u", 1000), 7);
    let refused = &response.topics[0];
    assert_eq!(refused.error_code, ErrorCode::POLICY_VIOLATION);
    assert!(refused.error_message.as_deref().unwrap().contains("max.metadata.bytes=65536"), "{refused:?}");
    reached(&server, "max.metadata.bytes", &[]);
    assert_eq!(produce(&mut client, "t", batch(1, None)), ErrorCode::NONE);
}

#[test]
fn max_producer_ids() {
    let server = start("max.producer.ids=3");
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    for id in 0..3 {
        assert_eq!(produce(&mut client, "t", batch(now_ms(), Some(id))), ErrorCode::NONE);
    }
    assert_eq!(produce(&mut client, "t", batch(now_ms(), Some(3))), ErrorCode::NOT_ENOUGH_REPLICAS);
    reached(&server, "max.producer.ids", &[]);
    assert_eq!(produce(&mut client, "t", batch(1, None)), ErrorCode::NONE);
}

#[test]
fn max_segments() {
    let server = start("max.segments=3");
    let mut client = server.client();
    client.create(&[("t", 1, &[("segment.ms", "1"), ("segment.jitter.ms", "0")])]);
    for number in 0..20 {
        assert_eq!(produce(&mut client, "t", batch(1_000 * number, None)), ErrorCode::NONE, "{number}");
    }
    let segments = || server.metric("weir_storage_segments_beside_active");
    assert_eq!(segments(), 3);
    reached(&server, "max.segments", &[]);
    // Once there is room again, segments are rolled again.
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 2, ..Default::default() };
    let topic =
        DeleteRecordsTopic { name: "t".to_string(), partitions: vec![partition], ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![topic], ..DeleteRecordsRequest::default() };
    assert_eq!(client.call(&request, 2).topics[0].partitions[0].error_code, ErrorCode::NONE);
}

fn fetch(epoch: i32, session_id: i32, partitions: i32, max_wait_ms: i32) -> FetchRequest {
    let partition = |partition| FetchPartition { partition, partition_max_bytes: 1000, ..Default::default() };
    let topic = FetchTopic {
        topic: "t".to_string(),
        partitions: (0..partitions).map(partition).collect(),
        ..FetchTopic::default()
    };
    let topics = if partitions > 0 { vec![topic] } else { Vec::new() };
    FetchRequest {
        session_id,
        session_epoch: epoch,
        max_wait_ms,
        min_bytes: 1,
        topics,
        ..FetchRequest::default()
    }
}

#[test]
fn max_fetch_session_partitions_and_slots() {
    let server = start("max.fetch.session.partitions=20\nmax.incremental.fetch.session.cache.slots=2");
    let mut client = server.client();
    client.create(&[("t", 30, &[])]);
    let first = client.call(&fetch(0, 0, 5, 0), 11);
    assert_ne!(first.session_id, 0);
    let large = client.call(&fetch(0, 0, 30, 0), 11);
    assert_eq!(
        (large.error_code, large.session_id, large.responses[0].partitions.len()),
        (ErrorCode::NONE, 0, 30)
    );
    reached(&server, "max.fetch.session.partitions", &[]);
    let before = server.limit_reached("max.fetch.session.partitions");
    let grown = client.call(&fetch(1, first.session_id, 30, 0), 11);
    assert_eq!(
        grown.error_code,
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        "it starts again, and gets no session"
    );
    assert!(server.limit_reached("max.fetch.session.partitions") > before);
    for expected in [true, true, false] {
        assert_eq!(client.call(&fetch(0, 0, 1, 0), 11).session_id != 0, expected);
    }
    reached(&server, "max.incremental.fetch.session.cache.slots", &[]);
}

#[test]
fn max_waiting_requests() {
    let server = start("max.waiting.requests=3");
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    let waiting: Vec<Client> = (0..3)
        .map(|_| {
            let client = server.client();
            client.send_only(&fetch(-1, 0, 1, 600_000), 11);
            client
        })
        .collect();
    let purgatory = r#"kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}"#;
    wait_until(|| server.metric(purgatory) >= 3, || format!("{} wait", server.metric(purgatory)));
    // Answered before its wait is over.
    let answer = client.call(&fetch(-1, 0, 1, 600_000), 11);
    assert_eq!((answer.error_code, answer.throttle_time_ms), (ErrorCode::NONE, 500));
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::NONE);
    // Those that wait hear of records at once.
    assert_eq!(produce(&mut client, "t", batch(1, None)), ErrorCode::NONE);
    for mut client in waiting {
        let answer = client.read_response::<FetchRequest>(11);
        assert!(
            answer.responses[0].partitions[0].records.as_ref().is_some_and(|records| !records.is_empty())
        );
    }
    reached(&server, "max.waiting.requests", &[]);
}

#[test]
fn as_many_fetches_as_may_wait_do_and_all_go_on() {
    // Before each had a place of its own, those that waited could fill the memory that they needed to go on.
    // A place in the backlog for each, too: a connection without one tries again after a second.
    let server = start("socket.listen.backlog.size=2000");
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    let count = 1200;
    let waiting: Vec<Client> = (0..count)
        .map(|_| {
            let client = server.client();
            client.send_only(&fetch(-1, 0, 1, 600_000), 11);
            client
        })
        .collect();
    // Once one of them finds no place, all places are taken.
    wait_until(|| server.limit_reached("max.waiting.requests") > 0, || "all found a place".to_string());
    assert_eq!(produce(&mut client, "t", batch(1, None)), ErrorCode::NONE);
    let mut woken = 0;
    for mut client in waiting {
        let answer = client.read_response::<FetchRequest>(11);
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::NONE);
        woken += usize::from(partition.records.as_ref().is_some_and(|records| !records.is_empty()));
    }
    assert!(woken > 500, "{woken} of {count} waited for the record");
    reached(&server, "max.waiting.requests", &[]);
}

fn find(client: &mut Client, group: &str) {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group.to_string()], ..Default::default() };
    assert_eq!(client.call(&request, 4).coordinators[0].error_code, ErrorCode::NONE);
}

fn commit(client: &mut Client, group: &str, partition_index: i32, metadata: &str) -> ErrorCode {
    let partition = OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        committed_metadata: Some(metadata.to_string()),
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".to_string(),
        partitions: vec![partition],
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: group.to_string(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    };
    client.call(&request, 7).topics[0].partitions[0].error_code
}

fn join(server: &Running, group: &str) -> (Client, ErrorCode) {
    let mut client = server.client();
    let protocol =
        JoinGroupRequestProtocol { name: "range".to_string(), metadata: vec![1], ..Default::default() };
    let request = JoinGroupRequest {
        group_id: group.to_string(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 300,
        protocol_type: "consumer".to_string(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    };
    let answer = client.call(&request, 3);
    (client, answer.error_code)
}

const GROUPS: &[&str] = &["memory/groups"];

#[test]
fn limits_of_groups() {
    let server = start("max.groups=2\nmax.group.offsets=3\noffset.metadata.max.bytes=10");
    let mut client = server.client();
    client.create(&[("t", 5, &[])]);
    find(&mut client, "a");
    assert_eq!(commit(&mut client, "a", 0, "0123456789+"), ErrorCode::OFFSET_METADATA_TOO_LARGE);
    reached(&server, "offset.metadata.max.bytes", GROUPS);
    assert_eq!(commit(&mut client, "a", 0, ""), ErrorCode::NONE);
    assert_eq!(commit(&mut client, "b", 0, ""), ErrorCode::NONE);
    assert_eq!(commit(&mut client, "c", 0, ""), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    reached(&server, "max.groups", GROUPS);
    assert_eq!(commit(&mut client, "a", 1, ""), ErrorCode::NONE);
    assert_eq!(commit(&mut client, "a", 2, ""), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    reached(&server, "max.group.offsets", GROUPS);
    assert_eq!(commit(&mut client, "a", 0, "again"), ErrorCode::NONE, "one that is there can move on");
}

#[test]
fn limits_of_members() {
    let server = start("max.group.members=2\ngroup.max.size=1");
    find(&mut server.client(), "a");
    let (_first, code) = join(&server, "a");
    assert_eq!(code, ErrorCode::NONE);
    assert_eq!(join(&server, "a").1, ErrorCode::GROUP_MAX_SIZE_REACHED);
    reached(&server, "group.max.size", GROUPS);
    let (_second, code) = join(&server, "b");
    assert_eq!(code, ErrorCode::NONE);
    assert_eq!(join(&server, "c").1, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    reached(&server, "max.group.members", GROUPS);
}

#[test]
fn memory_budget_bytes() {
    let server = start("");
    let mut client = server.client();
    // A control request that can never fit: the answer is the end of the connection.
    let topics =
        (0..300_000).map(|_| MetadataRequestTopic { name: Some("x".to_string()), ..Default::default() });
    let request = MetadataRequest { topics: Some(topics.collect()), ..MetadataRequest::default() };
    assert!(client.try_call(&request, 9).is_none());
    reached(&server, "memory.budget.bytes", &[]);
    lives(&mut server.client());
}

/// A request with a batch of a megabyte.
fn large_request() -> ProduceRequest {
    let mut large = BatchBuilder::new(Codec::None);
    large.append(1, None, Some(&vec![7; 1_000_000]), &[]).unwrap();
    produce_request("t", 0, large.build().unwrap())
}

/// Connections that have sent a quarter of [`large_request`] each: more than fit in the share of what is received.
fn stalled(server: &Running) -> Vec<TcpStream> {
    let bytes = frame(&large_request(), 9, 1, &[]);
    let each = |_| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&bytes[..bytes.len() / 4]).unwrap();
        stream
    };
    (0..30).map(each).collect()
}

fn waits_for_receive(budget: &weir_budget::BudgetReport) -> bool {
    budget.name.ends_with("receive") && budget.waiters > 0
}

#[test]
fn receive_stall_timeout_ms() {
    let server = start("receive.stall.timeout.ms=300");
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    let stalled = stalled(&server);
    wait_until(
        || {
            server.budgets().iter().any(waits_for_receive)
                || server.limit_reached("receive.stall.timeout.ms") > 0
        },
        || format!("nobody waits for memory: {:?}", server.budgets()),
    );
    let answer = client.call(&large_request(), 9);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    drop(stalled);
    reached(&server, "receive.stall.timeout.ms", &[]);
}

fn look_up(timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition { timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: "t".to_string(), partitions: vec![partition], ..Default::default() };
    ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() }
}

/// Connections that hold what there is for receiving, beside a client and a topic with a batch that is larger than what
/// they leave.
fn without_room(server: &Running) -> (Client, Vec<TcpStream>) {
    let mut client = server.client();
    client.create(&[("t", 1, &[])]);
    let answer = client.call(&large_request(), 9);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
    let stalled = stalled(server);
    wait_until(
        || server.budgets().iter().any(waits_for_receive),
        || format!("nobody waits for memory: {:?}", server.budgets()),
    );
    (client, stalled)
}

#[test]
fn look_ups_that_wait_for_memory_keep_no_control_request_from_its_own() {
    let server = start("receive.stall.timeout.ms=3600000\nlog.retention.ms=-1");
    let (mut client, stalled) = without_room(&server);
    // Far more than there is room for in the share of small requests.
    let mut waiting: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for client in &waiting {
        client.send_only(&look_up(1), 7);
    }
    wait_until(
        || server.budgets().iter().any(|it| waits_for_receive(it) && it.waiters >= 100),
        || format!("the look-ups do not wait: {:?}", server.budgets()),
    );
    for _ in 0..3 {
        lives(&mut client);
        lives(&mut server.client());
    }
    drop(stalled);
    for client in &mut waiting {
        let answer = client.read_response::<ListOffsetsRequest>(7);
        let found = &answer.topics[0].partitions[0];
        assert_eq!((found.error_code, found.offset, found.timestamp), (ErrorCode::NONE, 0, 1));
    }
    server.assert_at_rest();
}

#[test]
fn a_look_up_that_may_not_wait_for_memory_is_to_be_asked_again() {
    let server = start("receive.stall.timeout.ms=3600000\nlog.retention.ms=-1\nmax.waiting.requests=1");
    let (mut client, stalled) = without_room(&server);
    for (version, code) in [(4, ErrorCode::LEADER_NOT_AVAILABLE), (5, ErrorCode::OFFSET_NOT_AVAILABLE)] {
        let answer = client.call(&look_up(1), version);
        assert_eq!(answer.topics[0].partitions[0].error_code, code);
        assert_eq!(client.call(&look_up(-1), version).topics[0].partitions[0].offset, 1);
    }
    drop(stalled);
    server.assert_at_rest();
    assert_eq!(client.call(&look_up(1), 7).topics[0].partitions[0].offset, 0);
}

#[test]
fn what_would_be_raised_beyond_the_plan_while_the_server_runs_is_refused() {
    let server = start("max.connections=3");
    let mut client = server.client();
    assert_eq!(set(&mut client, "max.connections", "1000"), ErrorCode::INVALID_REQUEST);
    let mut others = [server.client(), server.client()];
    others.iter_mut().for_each(lives);
    assert!(is_closed(&mut TcpStream::connect(server.address()).unwrap()));
    reached(&server, "max.connections", &[]);
}
