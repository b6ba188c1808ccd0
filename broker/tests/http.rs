//! The HTTP side of a running server: what it serves, and that hostile clients neither grow it nor keep it busy.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use weir_broker::{Server, ServerError};
use weir_metadata::properties::{BrokerConfig, PropertySet};

fn config(dir: &tempfile::TempDir, http: &str) -> BrokerConfig {
    let mut properties = PropertySet::embedded();
    for setting in [
        &format!("log.dirs={}", dir.path().display()),
        "listeners=PLAINTEXT://127.0.0.1:0",
        &format!("http.listener={http}"),
        "memory.budget.bytes=64MiB",
    ] {
        properties.set_override(setting).unwrap();
    }
    BrokerConfig::from_properties(&properties).unwrap().config
}

async fn start(dir: &tempfile::TempDir) -> (Server, SocketAddr) {
    let server = Server::start(config(dir, "127.0.0.1:0")).await.unwrap();
    let address = server.http_address().unwrap();
    (server, address)
}

/// Sends `request` and returns the status and the body of the answer.
fn exchange(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_string())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    // The older version has no chunks: the body ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: weir\r\n\r\n");
    tokio::task::spawn_blocking(move || exchange(address, &request)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_document_is_served_and_says_what_its_reader_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = start(&dir).await;

    let (status, page) = get(address, "/").await;
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>") && !page.contains("http://") && !page.contains("https://"));

    let (status, health) = get(address, "/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, &health["status"]), (200, &Value::from("ok")), "{health}");
    assert_eq!(health["metadata_log"]["writable"], true);
    assert_eq!(health["log_dirs"][0]["online"], true);

    let (status, memory) = get(address, "/memory").await;
    let memory: Value = serde_json::from_str(&memory).unwrap();
    assert_eq!((status, memory["limit"].as_u64()), (200, Some(64 << 20)));
    assert!(memory["plan"]["sum"].as_u64().unwrap() <= 64 << 20);
    assert!(memory["process"]["anonymous_peak"].as_u64().unwrap() > 0);
    let budgets: Vec<&str> =
        memory["budgets"].as_array().unwrap().iter().map(|budget| budget["name"].as_str().unwrap()).collect();
    assert!(budgets.contains(&"memory/receive") && budgets.contains(&"memory/http"), "{budgets:?}");
    let http = &memory["budgets"].as_array().unwrap()[budgets.len() - 1];
    assert_eq!(http["oldest"][0]["what"], "http document", "the page's own lease is in it: {http}");

    for (path, expected) in [("/nothing", 404), ("/memory?x=1", 200)] {
        assert_eq!(get(address, path).await.0, expected, "{path}");
    }
    let refused = "POST /memory HTTP/1.1\r\nHost: weir\r\nContent-Length: 2000000000\r\n\r\n".to_string();
    let (status, _) = tokio::task::spawn_blocking(move || exchange(address, &refused)).await.unwrap();
    assert_eq!(status, 405);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_are_prometheus_text_in_kafkas_names_without_a_series_twice() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = start(&dir).await;
    let broker = server.addresses()[0];
    // ApiVersions 0, correlation id 7, client id "t".
    let request = [0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 7, 0, 1, b't'];
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(broker).unwrap();
        stream.write_all(&request).unwrap();
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap();
        stream.read_exact(&mut vec![0; u32::from_be_bytes(size) as usize]).unwrap();
        // Fetch 4 of nothing by a consumer.
        let mut fetch = vec![0, 0, 0, 32, 0, 1, 0, 4, 0, 0, 0, 8, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
        fetch.resize(4 + 32, 0);
        stream.write_all(&fetch).unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
    })
    .await
    .unwrap();

    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    let mut series = HashSet::new();
    let mut families = HashSet::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(kind.split(' ').next().unwrap().to_string()), "family twice: {line}");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(series.insert(name.to_string()), "series twice: {line}");
        let family = name.split('{').next().unwrap();
        assert!(["kafka_", "weir_", "process_"].iter().any(|prefix| family.starts_with(prefix)), "{line}");
    }
    for expected in [
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_server_replicamanager_partitioncount",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_network_socketserver_memorypoolavailable",
        r#"kafka_network_requestmetrics_requests_total{request="ApiVersions",version="0"}"#,
        r#"kafka_network_requestmetrics_requests_total{request="Fetch",version="4"}"#,
        r#"kafka_network_requestmetrics_requests_total{request="FetchConsumer",version="4"}"#,
        r#"kafka_network_requestmetrics_totaltimems{request="FetchConsumer",quantile="0.99"}"#,
        r#"kafka_network_requestmetrics_totaltimems_count{request="FetchConsumer"}"#,
        r#"kafka_network_requestmetrics_errors_total{error="NONE",request="ApiVersions"}"#,
        r#"kafka_network_requestmetrics_totaltimems{request="ApiVersions",quantile="0.99"}"#,
        r#"kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}"#,
        r#"weir_budget_limit_bytes{budget="memory/receive"}"#,
        r#"weir_limit_reached_total{property="max.connections"}"#,
        "weir_memory_anonymous_bytes",
    ] {
        assert!(series.contains(expected), "{expected} is not in\n{text}");
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_send_nothing_or_too_much_neither_block_the_others_nor_hold_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = start(&dir).await;
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let large = format!("GET /memory HTTP/1.1\r\nHost: weir\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let (status, _) = get(address, "/health").await;
    assert_eq!(status, 200);
    drop(silent);
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may answer and close before it has all of it.
        let _ = stream.write_all(large.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    })
    .await
    .unwrap();
    let (_, memory) = get(address, "/memory").await;
    let memory: Value = serde_json::from_str(&memory).unwrap();
    let http = memory["budgets"].as_array().unwrap().last().unwrap();
    assert_eq!(http["oldest"].as_array().unwrap().len(), 1, "only this document's own lease: {http}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_an_error_that_names_the_property_and_no_address_means_no_listener() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    match Server::start(config(&dir, &address)).await {
        Err(error @ ServerError::HttpListener { .. }) => {
            assert!(error.to_string().contains(&format!("http.listener = {address}")), "{error}");
        }
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it started"),
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(config(&dir, "")).await.unwrap();
    assert_eq!(server.http_address(), None);
    server.stop().await.unwrap();
}
