//! The load against a broker in this process.

use std::path::Path;

use weir_broker::Server;
use weir_metadata::properties::{BrokerConfig, PropertySet};

use super::LoadError;
use super::client::Client;
use super::fetch::fetch;
use super::produce::{Produce, batch_of};
use weir_protocol::messages::ErrorCode;
use weir_protocol::records::BatchHeader;

/// A broker of 64 MiB in this process, on a port of its own.
pub(crate) async fn server(dir: &Path) -> Server {
    let mut properties = PropertySet::embedded();
    for setting in [
        &format!("log.dirs={}", dir.display()),
        "listeners=PLAINTEXT://127.0.0.1:0",
        "http.listener=",
        "memory.budget.bytes=64MiB",
    ] {
        properties.set_override(setting).unwrap();
    }
    Server::start(BrokerConfig::from_properties(&properties).unwrap().config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_produced_to_every_partition_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path()).await;
    let mut client = Client::connect(server.addresses()[0], "test").await.unwrap();
    client.create_topic("t", 3, &[("retention.ms", "-1")]).await.unwrap();
    let mut sent = 0;
    for bytes in [5_000, 300_000] {
        let batch = batch_of(bytes, 1_700_000_000_000).unwrap();
        let least = bytes - bytes / 64 - 1100;
        assert!((least..=bytes).contains(&batch.len()), "{} of {bytes}", batch.len());
        let header = BatchHeader::parse_prefix(&batch).unwrap().unwrap();
        sent += i64::from(header.record_count);
        Produce { topic: "t", partitions: 3, acks: -1, batch: &batch }.send(&mut client).await.unwrap();
        for partition in 0..3 {
            let (mut offset, mut records) = (0, 0);
            while offset < sent {
                let next = fetch(&mut client, "t", partition, offset, |record| {
                    assert_eq!(record.offset, records);
                    records += 1;
                })
                .await
                .unwrap();
                assert!(next > offset, "a fetch of what is there comes forward");
                offset = next;
            }
            assert_eq!((records, offset), (sent, sent));
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_in_an_answer_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path()).await;
    let mut client = Client::connect(server.addresses()[0], "test").await.unwrap();
    client.create_topic("t", 1, &[]).await.unwrap();
    let exists = client.create_topic("t", 1, &[]).await.unwrap_err();
    assert!(matches!(exists, LoadError::Answer { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }), "{exists}");
    let batch = batch_of(2000, 1_700_000_000_000).unwrap();
    let missing = Produce { topic: "t", partitions: 2, acks: 1, batch: &batch }.send(&mut client).await;
    let missing = missing.unwrap_err().to_string();
    assert!(missing.contains("t-1") && missing.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{missing}");
    let missing = fetch(&mut client, "t", 7, 0, |_| {}).await.unwrap_err().to_string();
    assert!(missing.contains("t-7"), "{missing}");
    server.stop().await.unwrap();
}
