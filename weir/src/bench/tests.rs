//! The bench against a broker in this process.

use std::time::Duration;

use weir_broker::Server;
use weir_protocol::records::Codec;

use crate::load::tests::server;

use super::{FetchOptions, ProduceOptions, fetch, produce, target};

fn producing(server: &Server) -> ProduceOptions {
    ProduceOptions {
        bootstrap: server.addresses()[0].to_string(),
        topic: "bench".to_string(),
        partitions: 3,
        producers: 2,
        record_size_bytes: 100,
        batch_size_bytes: 4096,
        linger: Duration::ZERO,
        acks: -1,
        codec: Codec::None,
        in_flight: 5,
        rate: None,
        records: Some(10_001),
        time: None,
    }
}

fn fetching(server: &Server) -> FetchOptions {
    FetchOptions {
        bootstrap: server.addresses()[0].to_string(),
        topic: "bench".to_string(),
        consumers: 2,
        fetch_size_bytes: 1 << 20,
        records: None,
        time: None,
        repeat: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_that_was_sent_is_counted_once_and_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path()).await;
    let mut sent = 0;
    for (codec, acks) in [(Codec::None, -1), (Codec::Zstd, 1), (Codec::Lz4, -1), (Codec::None, 0)] {
        let report = produce(&ProduceOptions { codec, acks, ..producing(&server) }).await.unwrap();
        assert_eq!((report.records, report.errors), (10_001, 0), "{report:?}");
        assert_eq!((report.bytes, report.latencies.count()), (1_000_100, 10_001));
        assert_eq!(codec == Codec::Zstd, report.wire_bytes < report.bytes, "{report:?}");
        sent += report.records;
    }
    let report = fetch(&fetching(&server)).await.unwrap();
    assert_eq!((report.records, report.errors), (sent, 0));
    let some = FetchOptions { records: Some(100), ..fetching(&server) };
    assert!((100..sent).contains(&fetch(&some).await.unwrap().records));
    let again = FetchOptions { records: Some(3 * sent), repeat: true, ..fetching(&server) };
    assert!(fetch(&again).await.unwrap().records >= 3 * sent);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_is_kept_and_each_record_has_its_latency() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path()).await;
    let paced = |records, time| ProduceOptions {
        rate: Some(2000.0),
        records,
        time,
        linger: Duration::from_millis(5),
        ..producing(&server)
    };
    let timed = produce(&paced(None, Some(Duration::from_millis(700)))).await.unwrap();
    let report = produce(&paced(Some(2000), None)).await.unwrap();
    assert_eq!(report.records, 2000, "{report:?}");
    for report in [&timed, &report] {
        // No more than were due by the end, to each producer; a machine that is busy may be late with some, or all.
        let most = (2000.0 * report.took.as_secs_f64()) as u64 + 2;
        assert!(report.records <= most, "{report:?}");
        assert_eq!((report.latencies.count(), report.errors), (report.records, 0));
    }
    let text = report.text();
    assert!(text.contains(" records sent in ") && text.contains("p99.9"), "{text}");
    let json = report.json();
    assert_eq!(json["records"].as_u64(), Some(report.records));
    assert!(json["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{json}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path()).await;
    let missing = fetch(&fetching(&server)).await.unwrap_err();
    assert_eq!(missing, "there is no topic bench");
    let named = ProduceOptions { topic: "a topic".to_string(), ..producing(&server) };
    let refused = produce(&named).await.unwrap_err();
    assert_eq!(refused, "topic a topic has no leaders: INVALID_TOPIC_EXCEPTION");
    let large = ProduceOptions { batch_size_bytes: 2 << 20, records: Some(50_000), ..producing(&server) };
    let report = produce(&large).await.unwrap();
    // The last batch of each producer is a smaller one.
    assert!(report.records < 20_000 && report.errors > 0, "{report:?}");
    let fault = report.fault().unwrap();
    assert!(fault.contains("MESSAGE_TOO_LARGE") && fault.contains("max.message.bytes"), "{fault}");
    server.stop().await.unwrap();
    let gone = produce(&producing_at("127.0.0.1:1")).await.unwrap_err();
    assert!(gone.starts_with("cannot connect to 127.0.0.1:1"), "{gone}");
}

fn producing_at(bootstrap: &str) -> ProduceOptions {
    ProduceOptions {
        bootstrap: bootstrap.to_string(),
        topic: "t".to_string(),
        partitions: 1,
        producers: 1,
        record_size_bytes: 1,
        batch_size_bytes: 1,
        linger: Duration::ZERO,
        acks: 1,
        codec: Codec::None,
        in_flight: 1,
        rate: None,
        records: Some(1),
        time: None,
    }
}

#[tokio::test]
async fn an_address_without_a_port_is_told_what_it_lacks() {
    for (given, reason) in [
        ("localhost", "--bootstrap-server localhost: expected HOST:PORT"),
        ("localhost:x", "--bootstrap-server localhost:x: expected HOST:PORT"),
        (" , ", "--bootstrap-server names no broker"),
    ] {
        assert_eq!(target::connect_first(given).await.err().as_deref(), Some(reason));
    }
}
