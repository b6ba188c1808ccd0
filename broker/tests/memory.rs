//! The memory contract, counted: whatever clients ask for, however many they are and although they do not read the
//! answers, the bytes that no lease covers stay within the fixed terms of the plan; and nothing is left afterwards.
//!
//! Method: this binary counts its allocations. Each attack's bytes are made before the count begins, and are sent by
//! threads that allocate nothing, so that what grows during it is the server's.

mod support;

use std::alloc::System;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::{Call, Client, Running, frame, frame_of};
use weir_broker::plan::{CONNECTION_BYTES, PARTITION_BYTES};
use weir_budget::{CountingAllocator, accounted_bytes, allocated_bytes, peak_unaccounted_bytes, reset_peaks};
use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, MIN_BATCH_LENGTH, crc_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// One request can make so many: the controller takes 10,000 records at once, as Kafka does.
const PARTITIONS: i32 = 9_900;
const PROPERTIES: &str = "memory.budget.bytes=64MiB\nmax.partitions=10100\noffsets.topic.num.partitions=5\n\
                          offsets.topic.replication.factor=1\nsocket.request.max.bytes=104857600\n\
                          group.initial.rebalance.delay.ms=0\nsocket.listen.backlog.size=2000\n\
                          receive.stall.timeout.ms=500\nlog.flush.offset.checkpoint.interval.ms=200";
/// What an attack may take beside the terms of its connections: the runtime's own, buffers of the clients in this
/// process, one portion of work that is smaller than what is leased.
const SLACK: u64 = 3 * MIB / 2;

/// What was allocated without a lease at most, more than at the beginning, while `work` ran.
fn unleased<R>(work: impl FnOnce() -> R) -> (u64, R) {
    let before = allocated_bytes().saturating_sub(accounted_bytes());
    reset_peaks();
    let result = work();
    (peak_unaccounted_bytes().saturating_sub(before), result)
}

/// Connections that all send `bytes`, again and again as long as the server takes them, and read nothing.
fn attack(server: &Running, name: &str, connections: usize, bytes: &[u8]) {
    attack_and_read(server, name, connections, bytes, false, 0);
}

/// `more` is what the attack may take of other terms of the plan.
fn attack_and_read(server: &Running, name: &str, connections: usize, bytes: &[u8], reads: bool, more: u64) {
    let mut streams = Vec::with_capacity(connections);
    let (grown, ()) = unleased(|| {
        for _ in 0..connections {
            let stream = TcpStream::connect(server.address()).unwrap();
            stream.set_nonblocking(true).unwrap();
            streams.push((stream, 0_usize));
        }
        let end = Instant::now() + Duration::from_secs(1);
        let mut sink = [0; 16384];
        while Instant::now() < end {
            for (stream, sent) in &mut streams {
                // Refused, cut off or full: all the same to an attacker.
                if let Ok(count) = stream.write(&bytes[*sent..]) {
                    *sent = (*sent + count) % bytes.len();
                }
                while reads && stream.read(&mut sink).is_ok_and(|count| count > 0) {}
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    drop(streams);
    let allowed = connections as u64 * CONNECTION_BYTES + SLACK + more;
    println!("{name}: {} KiB without a lease, {} KiB allowed", grown / KIB, allowed / KIB);
    assert!(grown <= allowed, "{name}: {grown} bytes without a lease, {allowed} allowed");
    assert_at_rest(server, name);
    let mut client = server.client();
    assert_eq!(client.call(&ApiVersionsRequest::default(), 0).error_code, ErrorCode::NONE, "{name}");
}

/// What groups hold stays; everything else is given back.
fn assert_at_rest(server: &Running, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(300);
    let held = || server.budgets().into_iter().skip(1).any(|it| it.used > 0 && it.name != "memory/groups");
    while held() {
        assert!(Instant::now() < deadline, "{name}: still leased: {:?}", server.budgets());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn bytes_of<C: Call>(request: &C, version: i16) -> Vec<u8> {
    frame(request, version, 1, &[])
}

fn topic(name: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic {
        name: name.to_string(),
        num_partitions: partitions,
        replication_factor: 1,
        ..CreatableTopic::default()
    }
}

fn create(client: &mut Client, topics: Vec<CreatableTopic>) -> Vec<ErrorCode> {
    let request = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
    let response = client.call(&request, 7);
    let refused = response.topics.iter().find(|topic| !topic.error_code.is_ok());
    if let Some(refused) = refused {
        println!("{refused:?}");
    }
    response.topics.iter().map(|topic| topic.error_code).collect()
}

fn delete(client: &mut Client, names: Vec<String>) {
    let topics =
        names.into_iter().map(|name| DeleteTopicState { name: Some(name), ..DeleteTopicState::default() });
    let request = DeleteTopicsRequest { topics: topics.collect(), ..DeleteTopicsRequest::default() };
    assert!(client.call(&request, 6).responses.iter().all(|it| it.error_code.is_ok()));
}

/// What partitions take is charged by their number, also while they are made.
fn partitions(server: &Running) {
    let mut client = server.client();
    let before = allocated_bytes();
    let (peak, codes) = unleased(|| create(&mut client, vec![topic("wide", PARTITIONS)]));
    assert_eq!(codes, [ErrorCode::NONE]);
    let each = (allocated_bytes() - before) / PARTITIONS as u64;
    println!(
        "{PARTITIONS} partitions of one topic: {each} B each, at most {} while they were made",
        peak / PARTITIONS as u64
    );
    // Beside their term they are in the metadata, which has its own.
    let allowed = PARTITIONS as u64 * (PARTITION_BYTES + 512) + SLACK;
    assert!(peak <= allowed, "{peak} bytes at most for {PARTITIONS} partitions, {allowed} allowed");
    // A checkpoint names them all.
    let (peak, ()) = unleased(|| std::thread::sleep(Duration::from_millis(600)));
    assert!(peak <= 2 * MIB + SLACK, "{peak} bytes for a checkpoint");
}

/// The most that a topic takes: one partition, a name of the greatest length.
fn topics(server: &Running) {
    const COUNT: u64 = 1000;
    let name = |number: u64| format!("{:x<249}", format!("t{number}.x_"));
    let mut client = server.client();
    let (before, unleased_before) = (allocated_bytes(), accounted_bytes());
    for first in (0..COUNT).step_by(100) {
        let list = (first..first + 100).map(|number| topic(&name(number), 1)).collect();
        let codes = create(&mut client, list);
        assert!(codes.iter().all(|code| code.is_ok()), "{codes:?}");
    }
    let each = (allocated_bytes() - before).saturating_sub(accounted_bytes().saturating_sub(unleased_before))
        / COUNT;
    println!("{COUNT} topics of one partition: {each} B each");
    assert!(each <= PARTITION_BYTES + 1500, "{each} bytes for a topic of one partition");
    let mut batch = BatchBuilder::new(Codec::None);
    batch.append(1, None, Some(b"v"), &[]).unwrap();
    let batch = batch.build().unwrap();
    for number in 0..COUNT {
        client.produce_batch(&name(number), 0, batch.clone());
    }
    let each = (allocated_bytes() - before).saturating_sub(accounted_bytes().saturating_sub(unleased_before))
        / COUNT;
    println!("the same with a record in each: {each} B each");
    assert!(each <= PARTITION_BYTES + 1500, "{each} bytes for a topic of one partition that is written to");
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(100) {
        delete(&mut client, chunk.iter().map(|number| name(*number)).collect());
    }
}

/// A group with very many offsets.
fn offsets(server: &Running) {
    let mut client = server.client();
    let find = FindCoordinatorRequest { coordinator_keys: vec!["all".to_string()], ..Default::default() };
    client.call(&find, 4);
    for first in (0..4500).step_by(900) {
        let commit = |partition_index| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: 1,
            ..OffsetCommitRequestPartition::default()
        };
        let wide = OffsetCommitRequestTopic {
            name: "wide".to_string(),
            partitions: (first..first + 900).map(commit).collect(),
            ..OffsetCommitRequestTopic::default()
        };
        let request = OffsetCommitRequest {
            group_id: "all".to_string(),
            generation_id_or_member_epoch: -1,
            topics: vec![wide],
            ..OffsetCommitRequest::default()
        };
        let response = client.call(&request, 7);
        assert!(response.topics[0].partitions.iter().all(|it| it.error_code.is_ok()));
    }
}

/// Requests for everything there is, whose answers nobody reads.
fn questions_without_a_reader(server: &Running) {
    let all_topics = MetadataRequest { topics: None, ..MetadataRequest::default() };
    attack(server, "Metadata", 200, &bytes_of(&all_topics, 12));
    let resource = |kind, name: &str| DescribeConfigsResource {
        resource_type: kind,
        resource_name: name.to_string(),
        ..DescribeConfigsResource::default()
    };
    let mut resources: Vec<_> = (0..400).map(|_| resource(2, "wide")).collect();
    resources.push(resource(4, "7"));
    let configs = DescribeConfigsRequest {
        resources,
        include_synonyms: true,
        include_documentation: true,
        ..DescribeConfigsRequest::default()
    };
    attack(server, "DescribeConfigs", 200, &bytes_of(&configs, 4));
    let pages = DescribeTopicPartitionsRequest { response_partition_limit: 2000, ..Default::default() };
    attack(server, "DescribeTopicPartitions", 200, &bytes_of(&pages, 0));
    let dirs = DescribeLogDirsRequest { topics: None, ..DescribeLogDirsRequest::default() };
    attack(server, "DescribeLogDirs", 200, &bytes_of(&dirs, 4));
    let resources = ListConfigResourcesRequest::default();
    attack(server, "ListConfigResources", 200, &bytes_of(&resources, 1));
    attack(server, "ListGroups", 200, &bytes_of(&ListGroupsRequest::default(), 4));
    let group = OffsetFetchRequestGroup { group_id: "all".to_string(), topics: None, ..Default::default() };
    let offsets = OffsetFetchRequest { groups: vec![group; 50], ..OffsetFetchRequest::default() };
    attack(server, "OffsetFetch", 200, &bytes_of(&offsets, 9));
    let groups = DescribeGroupsRequest { groups: vec!["all".to_string(); 500], ..Default::default() };
    attack(server, "DescribeGroups", 200, &bytes_of(&groups, 5));
    let keys = FindCoordinatorRequest { coordinator_keys: vec!["k".to_string(); 5000], ..Default::default() };
    attack(server, "FindCoordinator", 100, &bytes_of(&keys, 4));
    let partition =
        |index| ListOffsetsPartition { partition_index: index, timestamp: -1, ..Default::default() };
    let wide = ListOffsetsTopic {
        name: "wide".to_string(),
        partitions: (0..3000).map(partition).collect(),
        ..ListOffsetsTopic::default()
    };
    let lookups = ListOffsetsRequest { topics: vec![wide], ..ListOffsetsRequest::default() };
    attack(server, "ListOffsets", 100, &bytes_of(&lookups, 7));
    let producers = DescribeProducersRequestTopicRequest {
        name: "wide".to_string(),
        partition_indexes: (0..2000).collect(),
        ..DescribeProducersRequestTopicRequest::default()
    };
    let producers =
        DescribeProducersRequest { topics: vec![producers], ..DescribeProducersRequest::default() };
    attack(server, "DescribeProducers", 100, &bytes_of(&producers, 0));
}

/// A fetch of partitions of `name`, which may not exist.
fn fetch(name: &str, partitions: i32, max_wait_ms: i32, session_epoch: i32) -> FetchRequest {
    let partition =
        |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic {
        topic: name.to_string(),
        partitions: (0..partitions).map(partition).collect(),
        ..FetchTopic::default()
    };
    FetchRequest { max_wait_ms, min_bytes: 1, session_epoch, topics: vec![topic], ..FetchRequest::default() }
}

fn fetches(server: &Running) {
    attack(server, "Fetch without a session", 200, &bytes_of(&fetch("wide", 3000, 0, -1), 11));
    attack(server, "Fetch of too many partitions", 50, &bytes_of(&fetch("wide", 100_000, 0, -1), 11));
    attack(server, "Fetch with sessions", 200, &bytes_of(&fetch("wide", 1000, 0, 0), 11));
    attack(server, "Fetch that waits", 200, &bytes_of(&fetch("wide", 60, 3_000, -1), 11));
    let long = frame_of(&"c".repeat(30_000), &fetch("wide", 1, 3_000, -1), 11, 1, &[]);
    attack(server, "Fetch that waits, of a client with a long name", 200, &long);
    attack(server, "Fetch that waits, many partitions", 200, &bytes_of(&fetch("wide", 2000, 3_000, -1), 11));
    let mut unknown = fetch("", 1, 0, 0);
    let one = unknown.topics.remove(0);
    unknown.topics =
        (0..12).map(|number| FetchTopic { topic: format!("{number:x<30000}"), ..one.clone() }).collect();
    attack_and_read(server, "Fetch sessions of very long names", 50, &bytes_of(&unknown, 11), true, 0);
    unknown.topics =
        (0..1000).map(|number| FetchTopic { topic: format!("{number:x<249}"), ..one.clone() }).collect();
    attack_and_read(server, "Fetch sessions of unknown topics", 50, &bytes_of(&unknown, 11), true, 0);
}

fn produces(server: &Running) {
    let mut batch = BatchBuilder::new(Codec::None);
    batch.append(1, None, Some(b"v"), &[]).unwrap();
    let batch = batch.build().unwrap();
    let data = |index| PartitionProduceData { index, records: Some(batch.clone()), ..Default::default() };
    let one = TopicProduceData { partition_data: vec![data(0)], ..TopicProduceData::default() };
    let unknown =
        (0..5000).map(|number| TopicProduceData { name: format!("{number:x<500}"), ..one.clone() }).collect();
    let request = ProduceRequest { acks: 1, topic_data: unknown, ..ProduceRequest::default() };
    attack(server, "Produce to unknown topics", 100, &bytes_of(&request, 9));
    let wide = TopicProduceData {
        name: "wide".to_string(),
        partition_data: (0..PARTITIONS).map(data).collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest { acks: 1, topic_data: vec![wide], ..ProduceRequest::default() };
    // What a partition takes more once it is written to is a part of its charge, too.
    let more = PARTITIONS as u64 * (PARTITION_BYTES - 1600);
    attack_and_read(server, "Produce to all partitions", 20, &bytes_of(&request, 9), false, more);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut bomb = BatchBuilder::new(codec);
        // 48 MiB of zeros, of which a batch of a few KiB to a few MiB is left.
        let zeros = vec![0; 1 << 20];
        for _ in 0..if codec == Codec::Snappy { 12 } else { 48 } {
            bomb.append(1, None, Some(&zeros), &[]).unwrap();
        }
        let records = Some(bomb.build().unwrap());
        drop((bomb, zeros));
        let data = PartitionProduceData { index: 1, records, ..Default::default() };
        let topic =
            TopicProduceData { name: "wide".to_string(), partition_data: vec![data], ..Default::default() };
        let request = ProduceRequest { acks: 1, topic_data: vec![topic], ..ProduceRequest::default() };
        attack(server, &format!("bomb of {codec:?}"), 20, &bytes_of(&request, 9));
    }
}

/// Blocks of the largest size that LZ4's frames know, which no client of Kafka writes.
fn large_lz4_blocks(server: &Running) {
    use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
    let mut batch = BatchBuilder::new(Codec::None);
    batch.append(1, None, Some(&vec![0; 4 * MIB as usize]), &[]).unwrap();
    let plain = batch.build().unwrap();
    let info = FrameInfo::new().block_size(BlockSize::Max4MB);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&plain[HEADER_SIZE_BYTES..]).unwrap();
    let body = encoder.finish().unwrap();
    let mut header = BatchHeader::parse(plain.first_chunk().unwrap()).unwrap();
    header.set_compression(Codec::Lz4);
    header.batch_length = MIN_BATCH_LENGTH + body.len() as i32;
    header.crc = crc_of(&header, &[IoSlice::new(&body)]);
    let records = Some([&header.to_bytes()[..], &body].concat());
    drop((plain, body));
    let data = PartitionProduceData { index: 1, records, ..Default::default() };
    let topic =
        TopicProduceData { name: "wide".to_string(), partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest { acks: 1, topic_data: vec![topic], ..ProduceRequest::default() };
    attack(server, "LZ4 in large blocks", 20, &bytes_of(&request, 9));
}

fn commands(server: &Running) {
    let value = Some("x".repeat(20_000));
    let config = CreatableTopicConfig { name: "retention.ms".to_string(), value, ..Default::default() };
    let hostile = CreatableTopic { configs: vec![config; 10], ..topic("hostile", 1) };
    let request = CreateTopicsRequest { topics: vec![hostile], ..CreateTopicsRequest::default() };
    attack(server, "CreateTopics with long configs", 50, &bytes_of(&request, 7));
    let many = (0..8000).map(|number| topic(&format!("bad name {number}"), 1)).collect();
    let request = CreateTopicsRequest { topics: many, ..CreateTopicsRequest::default() };
    attack(server, "CreateTopics of bad names", 50, &bytes_of(&request, 7));
    let names = (0..8000)
        .map(|number| MetadataRequestTopic { name: Some(format!("{number:x}")), ..Default::default() });
    let request = MetadataRequest {
        topics: Some(names.collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    attack(server, "Metadata of unknown topics", 50, &bytes_of(&request, 9));
    let config = IncrementalAlterConfigsRequestAlterableConfig {
        name: "retention.ms".to_string(),
        value: Some("y".repeat(5000)),
        ..Default::default()
    };
    let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
        resource_type: 2,
        resource_name: "wide".to_string(),
        configs: vec![config; 20],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    attack(server, "IncrementalAlterConfigs", 50, &bytes_of(&request, 1));
    let partitions =
        vec![DeleteRecordsPartition { partition_index: 0, offset: 0, ..Default::default() }; 5000];
    let wide = DeleteRecordsTopic { name: "wide".to_string(), partitions, ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![wide], ..DeleteRecordsRequest::default() };
    attack(server, "DeleteRecords", 50, &bytes_of(&request, 2));
}

/// Small requests whose answers say much for each partition.
fn errors_that_repeat_a_name(server: &Running) {
    let name = "!".repeat(20_000);
    let indexes = || 0..2000;
    let topic = DescribeProducersRequestTopicRequest {
        name: name.clone(),
        partition_indexes: indexes().collect(),
        ..Default::default()
    };
    let request = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
    attack(server, "DescribeProducers of a bad name", 20, &bytes_of(&request, 0));
    let topic = ElectLeadersRequestTopicPartitions {
        topic: name.clone(),
        partitions: indexes().collect(),
        ..Default::default()
    };
    let request = ElectLeadersRequest { topic_partitions: Some(vec![topic]), ..Default::default() };
    attack(server, "ElectLeaders of a long name", 20, &bytes_of(&request, 2));
    let partition = |partition_index| ReassignablePartition { partition_index, ..Default::default() };
    let topic =
        ReassignableTopic { name, partitions: indexes().map(partition).collect(), ..Default::default() };
    let request = AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
    attack(server, "AlterPartitionReassignments of a long name", 20, &bytes_of(&request, 0));
    let topic = OffsetFetchRequestTopics { name: "t".to_string(), ..Default::default() };
    let group = OffsetFetchRequestGroup {
        group_id: "all".to_string(),
        topics: Some(vec![topic; 30_000]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    attack(server, "OffsetFetch of very many topics", 20, &bytes_of(&request, 9));
}

fn groups(server: &Running) {
    let protocol = JoinGroupRequestProtocol {
        name: "range".to_string(),
        metadata: vec![7; 1 << 20],
        ..Default::default()
    };
    let join = JoinGroupRequest {
        group_id: "greedy".to_string(),
        session_timeout_ms: 6000,
        rebalance_timeout_ms: 6000,
        protocol_type: "consumer".to_string(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    };
    // Version 3 makes a member without asking it to come back with an id.
    let bytes = bytes_of(&join, 3);
    let (grown, ()) = unleased(|| {
        let streams: Vec<_> = (0..50)
            .map(|_| {
                let mut stream = TcpStream::connect(server.address()).unwrap();
                stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
                let _ = stream.write_all(&bytes);
                stream
            })
            .collect();
        std::thread::sleep(Duration::from_secs(1));
        drop(streams);
    });
    println!("JoinGroup of 1 MiB: {} KiB without a lease", grown / KIB);
    assert!(grown <= 50 * CONNECTION_BYTES + SLACK, "{grown} bytes without a lease");
    let commit = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        committed_metadata: Some("m".repeat(4096)),
        ..OffsetCommitRequestPartition::default()
    };
    let wide = OffsetCommitRequestTopic {
        name: "wide".to_string(),
        partitions: (0..50).map(commit).collect(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: "all".to_string(),
        generation_id_or_member_epoch: -1,
        topics: vec![wide],
        ..OffsetCommitRequest::default()
    };
    let bytes = bytes_of(&request, 7);
    let (grown, ()) = unleased(|| {
        let mut streams: Vec<_> = (0..50).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        for stream in &mut streams {
            stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let _ = stream.write_all(&bytes);
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    println!("OffsetCommit of 4 KiB metadata: {} KiB without a lease", grown / KIB);
    assert!(grown <= 50 * CONNECTION_BYTES + SLACK, "{grown} bytes without a lease");
}

/// A connection takes what the plan says, also with a part of a frame in its buffer.
fn connections(server: &Running) {
    const COUNT: u64 = 1000;
    let (grown, ()) = unleased(|| {
        let mut streams = Vec::with_capacity(COUNT as usize);
        for _ in 0..COUNT {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(&[0, 0, 2, 0, 0, 3, 0, 12]).unwrap();
            streams.push(stream);
        }
        std::thread::sleep(Duration::from_millis(500));
    });
    println!("a connection: {} B", grown / COUNT);
    assert!(grown <= COUNT * CONNECTION_BYTES + 64 * KIB, "{} bytes a connection", grown / COUNT);
}

/// A reply that is not read holds the metadata of its time: not for long once they have changed.
fn metadata_that_change(server: &Running) {
    const REPLIES: usize = 30;
    let request = bytes_of(&MetadataRequest { topics: None, ..MetadataRequest::default() }, 12);
    let ask = || {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        (0..REPLIES).for_each(|_| stream.write_all(&request).unwrap());
        stream
    };
    let held = || server.budgets().into_iter().find(|it| it.name == "memory/replies").unwrap().used;
    let wait_until = |is_so: &mut dyn FnMut() -> bool, what: &str| {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}: {:?}", server.budgets());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // Until a reply is held and nothing comes any more: what was sent fills the sockets.
    let stuck = |stream: &TcpStream| {
        let (mut came, mut since) = (0, Instant::now());
        wait_until(
            &mut || {
                let now = rustix::io::ioctl_fionread(stream).unwrap();
                if now != came || held() == 0 {
                    (came, since) = (now, Instant::now());
                }
                since.elapsed() > Duration::from_secs(1)
            },
            "all replies were sent",
        );
    };
    let before = ask();
    stuck(&before);
    assert_eq!(create(&mut server.client(), vec![topic("changes-all", 1)]), [ErrorCode::NONE]);
    wait_until(&mut || held() == 0, "old metadata are held for as long as a client likes");
    let after = ask();
    stuck(&after);
    std::thread::sleep(Duration::from_secs(7));
    let replies = |mut stream: TcpStream| -> usize {
        let (mut size, mut count, mut sink) = ([0; 4], 0, vec![0; 1 << 20]);
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        while count < REPLIES && stream.read_exact(&mut size).is_ok() {
            let size = u32::from_be_bytes(size) as usize;
            if stream.read_exact(&mut sink[..size]).is_err() {
                break;
            }
            count += 1;
        }
        count
    };
    assert_eq!(replies(after), REPLIES, "metadata that are those of now may be read slowly");
    assert!(replies(before) < REPLIES, "old metadata are held for as long as a client likes");
    delete(&mut server.client(), vec!["changes-all".to_string()]);
}

/// All of it on one server, one after the other: the count is of the whole process.
#[test]
fn what_no_lease_covers_stays_within_the_fixed_terms_of_the_plan() {
    let server = Running::start(PROPERTIES);
    // Whatever is made once and kept.
    server.client().call(&ApiVersionsRequest::default(), 0);
    connections(&server);
    topics(&server);
    partitions(&server);
    offsets(&server);
    questions_without_a_reader(&server);
    metadata_that_change(&server);
    fetches(&server);
    produces(&server);
    large_lz4_blocks(&server);
    commands(&server);
    errors_that_repeat_a_name(&server);
    groups(&server);
}
