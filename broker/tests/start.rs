//! What a property file makes of a server: files for several nodes, directories, limits that the plan sets, and
//! dynamic configs that take effect at once.

mod support;

use std::time::{Duration, Instant};

use support::{Client, Running};
use weir_broker::{Server, ServerError};
use weir_metadata::properties::{BrokerConfig, PropertySet};
use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, Codec};

const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;

fn alter(running: &Running, name: &str, operation: i8, value: Option<&str>) -> (ErrorCode, Option<String>) {
    let config = IncrementalAlterConfigsRequestAlterableConfig {
        name: name.to_string(),
        config_operation: operation,
        value: value.map(str::to_string),
        ..Default::default()
    };
    let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
        resource_type: BROKER,
        resource_name: String::new(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = running.client().call(&request, 1).responses.remove(0);
    (answer.error_code, answer.error_message)
}

/// A new connection, if the server serves it.
fn is_let_in(running: &Running) -> Option<Client> {
    let mut client = running.client();
    client.try_call(&ApiVersionsRequest::default(), 0).map(|_| client)
}

#[test]
fn a_file_for_three_nodes_serves_groups_and_acks_all_with_the_one_replica_there_is() {
    let running = Running::start(
        "offsets.topic.replication.factor=3\ndefault.replication.factor=3\nmin.insync.replicas=2",
    );
    let mut client = running.client();
    let request = FindCoordinatorRequest { key: "g".to_string(), ..FindCoordinatorRequest::default() };
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match client.call(&request, 3).error_code {
            ErrorCode::NONE => break,
            ErrorCode::COORDINATOR_NOT_AVAILABLE if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            code => panic!("{code}"),
        }
    }
    let topic = CreatableTopic {
        name: "t".to_string(),
        num_partitions: 1,
        replication_factor: -1,
        ..CreatableTopic::default()
    };
    let created = client.call(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
    assert_eq!((created.topics[0].error_code, created.topics[0].replication_factor), (ErrorCode::NONE, 1));
    let mut batch = BatchBuilder::new(Codec::None);
    batch.append(1, None, Some(b"v"), &[]).unwrap();
    let data = PartitionProduceData { index: 0, records: Some(batch.build().unwrap()), ..Default::default() };
    let topic_data =
        TopicProduceData { name: "t".to_string(), partition_data: vec![data], ..Default::default() };
    let request =
        ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic_data], ..Default::default() };
    let answer = client.call(&request, 9).responses.remove(0).partition_responses.remove(0);
    assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::NONE, 0));
}

#[test]
fn partitions_go_to_all_log_directories_and_the_metadata_log_to_its_own() {
    let (logs, metadata) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| logs.path().join(name).display().to_string();
    let mut running = Running::start(&format!(
        "log.dirs={},{}\nmetadata.log.dir={}",
        path("a"),
        path("b"),
        metadata.path().display()
    ));
    running.client().create(&[("t", 6, &[])]);
    for round in 0..2 {
        let count = |dir: &std::path::Path| {
            std::fs::read_dir(dir)
                .unwrap()
                .filter(|e| e.as_ref().unwrap().path().join("partition.metadata").exists())
                .count()
        };
        assert_eq!((count(&logs.path().join("a")), count(&logs.path().join("b"))), (3, 3), "{round}");
        assert!(metadata.path().join("__cluster_metadata-0").is_dir());
        assert!(metadata.path().join("meta.properties").is_file());
        assert!(!logs.path().join("a/__cluster_metadata-0").exists());
        let described = running.client().call(&DescribeLogDirsRequest::default(), 4);
        assert_eq!(described.results.len(), 2, "the directory of the metadata is not one for partitions");
        assert_eq!(running.client().produce("t", 5, Codec::None, &[1]), round);
        running.restart();
        assert!(!metadata.path().join(".kafka_cleanshutdown").exists(), "taken by the start");
    }
}

#[test]
fn dynamic_limits_on_connections_hold_from_their_answer_on() {
    let running = Running::start("");
    assert_eq!(alter(&running, "max.connections.per.ip", SET, Some("3")).0, ErrorCode::NONE);
    let held: Vec<_> = (0..5).filter_map(|_| is_let_in(&running)).collect();
    assert!((1..=3).contains(&held.len()), "{}", held.len());
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(120);
    while is_let_in(&running).is_none() {
        assert!(Instant::now() < deadline, "closed connections are not given back");
    }
    assert_eq!(alter(&running, "max.connections.per.ip", DELETE, None).0, ErrorCode::NONE);
    let held: Vec<_> = (0..5).filter_map(|_| is_let_in(&running)).collect();
    assert_eq!(held.len(), 5);

    let (code, message) = alter(&running, "max.connections", SET, Some("1000000"));
    assert_eq!(code, ErrorCode::INVALID_REQUEST);
    let message = message.unwrap();
    assert!(message.contains("max.connections") && message.contains("memory.budget.bytes"), "{message}");
    assert_eq!(alter(&running, "max.connections", SET, Some("7")).0, ErrorCode::NONE);
    let more: Vec<_> = (0..5).filter_map(|_| is_let_in(&running)).collect();
    assert!(more.len() <= 2, "{}", more.len());
}

#[test]
fn a_dynamic_message_size_is_the_limit_of_the_next_batch() {
    let running = Running::start("");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    assert_eq!(client.produce("t", 0, Codec::None, &[1; 10]), 0);
    assert_eq!(alter(&running, "message.max.bytes", SET, Some("500")).0, ErrorCode::NONE);
    let mut batch = BatchBuilder::new(Codec::None);
    batch.append(1, None, Some(&[b'v'; 600]), &[]).unwrap();
    let data = PartitionProduceData { index: 0, records: Some(batch.build().unwrap()), ..Default::default() };
    let topic_data =
        TopicProduceData { name: "t".to_string(), partition_data: vec![data], ..Default::default() };
    let request =
        ProduceRequest { acks: 1, timeout_ms: 1000, topic_data: vec![topic_data], ..Default::default() };
    let answer = client.call(&request, 9).responses.remove(0).partition_responses.remove(0);
    assert_eq!(answer.error_code, ErrorCode::MESSAGE_TOO_LARGE);
    assert!(answer.error_message.unwrap().contains("max.message.bytes = 500"));
}

#[test]
fn more_partitions_than_the_plan_has_room_for_are_refused_when_made_and_at_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let properties =
        |more: &str| format!("log.dirs={}\nmemory.budget.bytes=64MiB\n{more}", dir.path().display());
    {
        let running = Running::start(&properties("max.partitions=20"));
        let mut client = running.client();
        client.create(&[("t", 15, &[])]);
        let topic = CreatableTopic {
            name: "u".to_string(),
            num_partitions: 6,
            replication_factor: 1,
            ..Default::default()
        };
        let created = client.call(&CreateTopicsRequest { topics: vec![topic], ..Default::default() }, 7);
        assert_eq!(created.topics[0].error_code, ErrorCode::POLICY_VIOLATION);
        let message = created.topics[0].error_message.clone().unwrap();
        assert!(message.contains("15 of at most max.partitions=20"), "{message}");
    }
    let text = format!(
        "{}\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nhttp.listener=",
        properties("max.partitions=10")
    );
    let config = BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap()).unwrap().config;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error =
        runtime.block_on(Server::start(config)).err().expect("15 partitions do not fit in a plan for 10");
    assert!(matches!(error, ServerError::Limit { count: 15, limit: 10, .. }), "{error}");
    assert!(error.to_string().contains("max.partitions"), "{error}");
}

/// Starts a server that must not start, and returns why.
fn refused(text: &str) -> String {
    let text = format!("{text}\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nhttp.listener=");
    let config = BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap()).unwrap().config;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Server::start(config)).err().expect("it starts").to_string()
}

#[test]
fn an_emptied_directory_is_no_first_start_where_formatting_must_be_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("log");
    let properties = |auto: bool| format!("log.dirs={}\nlog.dirs.auto.format={auto}", dir.display());
    let said = refused(&properties(false));
    assert!(
        said.contains("log.dirs.auto.format=true") && said.contains(&dir.display().to_string()),
        "{said}"
    );
    assert!(!dir.exists(), "a refused start makes nothing");
    let running = Running::start(&properties(true));
    running.client().create(&[("t", 1, &[])]);
    assert_eq!(running.client().produce("t", 0, Codec::None, &[1]), 0);
    drop(running);
    {
        // Formatted, it is asked no more.
        let running = Running::start(&properties(false));
        assert_eq!(running.client().produce("t", 0, Codec::None, &[2]), 1);
    }
    let away = root.path().join("away");
    std::fs::rename(&dir, &away).unwrap();
    std::fs::create_dir(&dir).unwrap();
    refused(&properties(false));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "the place of the missing disk was written to");
    std::fs::remove_dir(&dir).unwrap();
    std::fs::rename(&away, &dir).unwrap();
    let running = Running::start(&properties(false));
    assert_eq!(running.client().produce("t", 0, Codec::None, &[3]), 2);
}

#[test]
fn a_directory_that_vanishes_takes_no_writes_and_the_others_go_on_until_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (root.path().join("a"), root.path().join("b"));
    let running = Running::start(&format!("log.dirs={},{}", a.display(), b.display()));
    let mut client = running.client();
    client.create(&[("t", 4, &[])]);
    let homes: Vec<bool> = (0..4).map(|index| b.join(format!("t-{index}")).is_dir()).collect();
    assert_eq!(homes.iter().filter(|is_in_b| **is_in_b).count(), 2);
    for index in 0..4 {
        assert_eq!(client.produce("t", index, Codec::None, &[1]), 0);
    }
    let away = root.path().join("away");
    std::fs::rename(&b, &away).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let produce = |index: i32| {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.append(1, None, Some(b"v"), &[]).unwrap();
        let data =
            PartitionProduceData { index, records: Some(batch.build().unwrap()), ..Default::default() };
        let topic_data =
            TopicProduceData { name: "t".to_string(), partition_data: vec![data], ..Default::default() };
        let request =
            ProduceRequest { acks: -1, timeout_ms: 1000, topic_data: vec![topic_data], ..Default::default() };
        running.client().call(&request, 9).responses.remove(0).partition_responses.remove(0)
    };
    let there =
        |is_in_b: bool| (0..4).zip(&homes).filter(move |(_, home)| **home == is_in_b).map(|(index, _)| index);
    for index in there(true) {
        while produce(index).error_code != ErrorCode::KAFKA_STORAGE_ERROR {
            assert!(Instant::now() < deadline, "partition {index} is written in a directory that is gone");
        }
    }
    for index in there(false) {
        assert_eq!(produce(index).error_code, ErrorCode::NONE, "{index}");
    }
    // Its partitions keep their leader: what is open is read, and nobody else could lead them.
    let described = client.call(&DescribeLogDirsRequest { topics: None, ..Default::default() }, 4);
    let codes: Vec<ErrorCode> = described.results.iter().map(|dir| dir.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::KAFKA_STORAGE_ERROR]);
    client.create(&[("u", 2, &[])]);
    assert!(a.join("u-0").is_dir() && a.join("u-1").is_dir());
    std::fs::rename(&away, &b).unwrap();
    for index in there(true) {
        while produce(index).error_code != ErrorCode::NONE {
            assert!(Instant::now() < deadline + Duration::from_secs(60), "partition {index} stays out");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_directory_that_is_added_and_cannot_be_made_leaves_the_others_at_work() {
    let root = tempfile::tempdir().unwrap();
    let (a, b) = (root.path().join("a"), root.path().join("b"));
    let one = format!("log.dirs={}", a.display());
    let both = format!("{one},{}", b.display());
    drop(Running::start(&one));
    std::os::unix::fs::symlink(root.path().join("nothing"), &b).unwrap();
    {
        let running = Running::start(&both);
        let mut client = running.client();
        let described = client.call(&DescribeLogDirsRequest { topics: None, ..Default::default() }, 4);
        let codes: Vec<ErrorCode> = described.results.iter().map(|dir| dir.error_code).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::KAFKA_STORAGE_ERROR]);
        client.create(&[("t", 2, &[])]);
        assert_eq!(client.produce("t", 1, Codec::None, &[1]), 0);
    }
    std::fs::remove_file(&b).unwrap();
    let running = Running::start(&both);
    assert!(b.join("meta.properties").is_file(), "now it is made");
    assert_eq!(running.client().produce("t", 1, Codec::None, &[2]), 1);
}

#[test]
fn the_backlog_is_what_is_written_and_else_what_a_rush_of_clients_needs() {
    let told = |properties: &str| {
        let running = Running::start(properties);
        let value = |name: &str| {
            let resource = DescribeConfigsResource {
                resource_type: BROKER,
                resource_name: "7".to_string(),
                configuration_keys: Some(vec![name.to_string()]),
                ..Default::default()
            };
            let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
            let mut result = running.client().call(&request, 4).results.remove(0);
            result.configs.remove(0).value.unwrap().parse::<i64>().unwrap()
        };
        (value("socket.listen.backlog.size"), value("max.connections"))
    };
    assert_eq!(told("socket.listen.backlog.size=50").0, 50);
    assert_eq!(told("max.connections=100"), (100, 100));
    // How many connections there may be follows from the descriptors that there are here.
    let (backlog, connections) = told("");
    assert_eq!(backlog, connections.clamp(50, 1024));
}

#[test]
fn a_listener_without_a_host_serves_both_families_and_counts_a_mapped_address_as_what_it_is() {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let hosts: &[&str] = if has_ipv6 { &["", "[::]"] } else { &[""] };
    for host in hosts {
        let running = Running::start(&format!(
            "listeners=PLAINTEXT://{host}:0\nadvertised.listeners=PLAINTEXT://localhost:0\n\
             max.connections.per.ip.overrides=127.0.0.1:1"
        ));
        let answers = |address: SocketAddr| {
            let mut client = Client::connect(address);
            client.try_call(&ApiVersionsRequest::default(), 0).map(|_| client)
        };
        let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST, running.port()));
        let _held = answers(mapped).expect("the first is let in");
        assert!(answers(mapped).is_none(), "the second is one too many");
        if has_ipv6 {
            let own = SocketAddr::from((Ipv6Addr::LOCALHOST, running.port()));
            let _others = [answers(own).expect("another address"), answers(own).expect("another address")];
        }
    }
}

#[test]
fn the_quorum_of_a_file_with_bootstrap_servers_names_its_voters_directory() {
    let mut running = Running::start(
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n\
         controller.quorum.bootstrap.servers=localhost:9093",
    );
    let topic = DescribeQuorumRequestTopicData {
        topic_name: "__cluster_metadata".to_string(),
        partitions: vec![DescribeQuorumRequestPartitionData::default()],
        ..Default::default()
    };
    let request = DescribeQuorumRequest { topics: vec![topic], ..Default::default() };
    for start in 0..2 {
        let described = running.client().call(&request, 2);
        let voter = &described.topics[0].partitions[0].current_voters[0];
        let properties = std::fs::read_to_string(running.log_dir().join("meta.properties")).unwrap();
        assert!(
            properties.contains(&format!("directory.id={}\n", voter.replica_directory_id)),
            "start {start}: {properties}"
        );
        running.restart();
    }
}
