//! Offsets and producer ids.

use std::io::IoSlice;

use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, crc_of};

use crate::support::{Client, Running};

/// Records here are of long ago.
const KEEP: &str = "log.retention.ms=-1";

fn ask(topic: &str, partition_index: i32, timestamp: i64) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: topic.to_string(),
            partitions: vec![ListOffsetsPartition {
                partition_index,
                timestamp,
                ..ListOffsetsPartition::default()
            }],
            ..ListOffsetsTopic::default()
        }],
        ..ListOffsetsRequest::default()
    }
}

fn list(client: &mut Client, topic: &str, timestamp: i64, version: i16) -> (ErrorCode, i64, i64) {
    let mut response = client.call(&ask(topic, 0, timestamp), version);
    let found = response.topics.remove(0).partitions.remove(0);
    (found.error_code, found.offset, found.timestamp)
}

#[test]
fn timestamps_are_found_inside_compressed_batches_in_every_version() {
    let running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    let base = 1_700_000_000_000;
    for (batch, codec) in
        [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd].into_iter().enumerate()
    {
        let times: Vec<i64> = (0..100).map(|record| base + (batch * 1000 + record * 10) as i64).collect();
        assert_eq!(client.produce("t", 0, codec, &times), batch as i64 * 100);
    }
    let (first, last) = client.versions(ApiKey::ListOffsets);
    assert_eq!((first, last), (1, 11));
    for version in first..=last {
        for batch in 0..5 {
            let asked = base + batch * 1000 + 495;
            let expected = (ErrorCode::NONE, batch * 100 + 50, base + batch * 1000 + 500);
            assert_eq!(list(&mut client, "t", asked, version), expected, "version {version}, batch {batch}");
        }
        assert_eq!(list(&mut client, "t", base + 999_999, version), (ErrorCode::NONE, -1, -1));
        assert_eq!(list(&mut client, "t", -1, version), (ErrorCode::NONE, 500, -1));
        assert_eq!(list(&mut client, "t", -2, version), (ErrorCode::NONE, 0, -1));
        let special = |first: i16, found| {
            if version >= first { found } else { (ErrorCode::UNSUPPORTED_VERSION, -1, -1) }
        };
        assert_eq!(list(&mut client, "t", -3, version), special(7, (ErrorCode::NONE, 499, base + 4990)));
        assert_eq!(list(&mut client, "t", -4, version), special(8, (ErrorCode::NONE, 0, -1)));
        assert_eq!(list(&mut client, "t", -5, version), special(9, (ErrorCode::NONE, -1, -1)));
        assert_eq!(list(&mut client, "t", -6, version), special(11, (ErrorCode::NONE, -1, -1)));
        assert_eq!(list(&mut client, "t", -7, version), (ErrorCode::UNSUPPORTED_VERSION, -1, -1));
        assert_eq!(list(&mut client, "nosuch", -1, version).0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let mut request = ask("t", 0, -1);
    request.topics[0].partitions[0].current_leader_epoch = 9;
    let response = client.call(&request, 11);
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_LEADER_EPOCH);
    let mut request = ask("t", 0, -1);
    let twice = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(twice);
    let response = client.call(&request, 11);
    assert_eq!(response.topics[0].partitions[1].error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn the_maximum_timestamp_is_the_first_record_that_has_it() {
    let running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    assert_eq!(list(&mut client, "t", -3, 7), (ErrorCode::NONE, -1, -1));
    client.produce("t", 0, Codec::Zstd, &[10, 900, 30, 900]);
    client.produce("t", 0, Codec::None, &[40, 50]);
    assert_eq!(list(&mut client, "t", -3, 7), (ErrorCode::NONE, 1, 900));
}

#[test]
fn compressed_records_whose_client_left_the_offsets_to_the_broker_get_them_in_order() {
    let running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    client.produce("t", 0, Codec::None, &[10]);
    for (round, codec) in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd].into_iter().enumerate() {
        // Deltas 0, 3, 7 where 0, 1, 2 belong.
        let mut builder = BatchBuilder::new(codec);
        for (delta, timestamp) in [(0, 100), (3, 101), (7, 102)] {
            builder.append_at(delta, timestamp + 10 * round as i64, None, Some(b"value"), &[]).unwrap();
        }
        let mut batch = builder.build().unwrap();
        let (head, body) = batch.split_at_mut(HEADER_SIZE_BYTES);
        let mut header = BatchHeader::parse(head.as_ref().try_into().unwrap()).unwrap();
        header.last_offset_delta = 2;
        header.crc = crc_of(&header, &[IoSlice::new(body)]);
        head.copy_from_slice(&header.to_bytes());
        let first = 1 + 3 * round as i64;
        assert_eq!(client.produce_batch("t", 0, batch).base_offset, first, "{codec}");
        for (n, timestamp) in (0..).zip([100, 101, 102]) {
            let timestamp = timestamp + 10 * round as i64;
            assert_eq!(
                list(&mut client, "t", timestamp, 7),
                (ErrorCode::NONE, first + n, timestamp),
                "{codec}"
            );
        }
    }
}

#[test]
fn a_batch_that_can_never_fit_is_answered_with_its_first_offset() {
    let mut running = Running::start(&format!("{KEEP}\nmemory.budget.bytes=512MiB"));
    let mut client = running.client();
    client.create(&[("t", 1, &[("max.message.bytes", "41943040")])]);
    assert_eq!(client.produce("t", 0, Codec::None, &[100]), 0);
    let times: Vec<i64> = (0..200_000).map(|record| 1000 + record).collect();
    assert_eq!(client.produce("t", 0, Codec::None, &times), 1);
    assert_eq!(list(&mut client, "t", 2000, 7), (ErrorCode::NONE, 1001, 2000));
    drop(client);
    running.restart_with(&format!("{KEEP}\nmemory.budget.bytes=64MiB"));
    let mut client = running.client();
    assert_eq!(list(&mut client, "t", 50, 7), (ErrorCode::NONE, 0, 100));
    assert_eq!(list(&mut client, "t", 2000, 7), (ErrorCode::NONE, 1, 1000), "a little early, nothing missed");
    assert_eq!(list(&mut client, "t", -3, 7), (ErrorCode::NONE, 1, 200_999));
}

#[test]
fn producer_ids_are_never_given_twice_not_even_after_a_restart() {
    let mut running = Running::start(KEEP);
    let mut client = running.client();
    let (first, last) = client.versions(ApiKey::InitProducerId);
    assert_eq!((first, last), (0, 5));
    let none = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: i32::MAX,
        ..InitProducerIdRequest::default()
    };
    let mut ids = Vec::new();
    for version in first..=last {
        let response = client.call(&none, version);
        assert_eq!((response.error_code, response.producer_epoch), (ErrorCode::NONE, 0));
        ids.push(response.producer_id);
    }
    for _ in 0..1500 {
        ids.push(client.call(&none, 4).producer_id);
    }
    running.restart();
    let mut client = running.client();
    ids.push(client.call(&none, 4).producer_id);
    assert!(ids.iter().all(|id| *id >= 0));
    assert!(ids.is_sorted_by(|a, b| a < b), "each id is new");
}

#[test]
fn a_transactional_producer_is_told_at_once_that_transactions_are_not_served() {
    let running = Running::start(KEEP);
    let mut client = running.client();
    let ask = |id: &str| InitProducerIdRequest {
        transactional_id: Some(id.to_string()),
        ..InitProducerIdRequest::default()
    };
    let response = client.call(&ask("txn"), 4);
    assert_eq!((response.error_code, response.producer_id), (ErrorCode::UNSUPPORTED_VERSION, -1));
    assert_eq!(client.call(&ask(""), 4).error_code, ErrorCode::INVALID_REQUEST);
    let half =
        InitProducerIdRequest { transactional_id: None, producer_id: 5, ..InitProducerIdRequest::default() };
    assert_eq!(client.call(&half, 4).error_code, ErrorCode::INVALID_REQUEST);
}

fn delete_records(topic: &str, offset: i64) -> DeleteRecordsRequest {
    DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.to_string(),
            partitions: vec![DeleteRecordsPartition { partition_index: 0, offset, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn deleted_records_stay_deleted_and_wrong_offsets_and_topics_are_refused() {
    let mut running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[]), ("compacted", 1, &[("cleanup.policy", "compact")])]);
    for _ in 0..10 {
        client.produce("t", 0, Codec::None, &[1, 2, 3]);
    }
    let delete = |client: &mut Client, topic: &str, offset, version| {
        let result =
            client.call(&delete_records(topic, offset), version).topics.remove(0).partitions.remove(0);
        (result.error_code, result.low_watermark)
    };
    for version in 0..=2 {
        let offset = i64::from(version) + 4;
        assert_eq!(delete(&mut client, "t", offset, version), (ErrorCode::NONE, offset));
        assert_eq!(delete(&mut client, "t", 2, version), (ErrorCode::NONE, offset), "never back");
        for wrong in [31, -2] {
            assert_eq!(delete(&mut client, "t", wrong, version), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
        }
        assert_eq!(delete(&mut client, "nosuch", 0, version), (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1));
        assert_eq!(delete(&mut client, "compacted", 0, version), (ErrorCode::POLICY_VIOLATION, -1));
        assert_eq!(list(&mut client, "t", -2, 11).1, offset);
    }
    // What a kill now would find on the disk.
    let checkpoint = std::fs::read_to_string(running.log_dir().join("log-start-offset-checkpoint")).unwrap();
    assert!(checkpoint.lines().any(|line| line == "t 0 6"), "{checkpoint}");
    running.restart();
    let mut client = running.client();
    assert_eq!(list(&mut client, "t", -2, 11).1, 6);
    assert_eq!(delete(&mut client, "t", -1, 2), (ErrorCode::NONE, 30));
}

#[test]
fn leader_epochs_end_where_the_next_begins() {
    let mut running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    client.produce("t", 0, Codec::None, &[1, 2, 3]);
    let ask = |leader_epoch, current_leader_epoch, topic: &str| OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![OffsetForLeaderTopic {
            topic: topic.to_string(),
            partitions: vec![OffsetForLeaderPartition {
                partition: 0,
                current_leader_epoch,
                leader_epoch,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let get = |client: &mut Client, request: &OffsetForLeaderEpochRequest, version| {
        let found = client.call(request, version).topics.remove(0).partitions.remove(0);
        (found.error_code, found.leader_epoch, found.end_offset)
    };
    for version in 0..=4 {
        let epoch = if version >= 1 { 0 } else { -1 };
        assert_eq!(get(&mut client, &ask(0, -1, "t"), version), (ErrorCode::NONE, epoch, 3));
        assert_eq!(get(&mut client, &ask(5, -1, "t"), version), (ErrorCode::NONE, -1, -1));
        let unknown = get(&mut client, &ask(0, -1, "nosuch"), version);
        assert_eq!(unknown, (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, -1, -1));
    }
    assert_eq!(get(&mut client, &ask(0, 99, "t"), 4).0, ErrorCode::UNKNOWN_LEADER_EPOCH);
    running.restart();
    let mut client = running.client();
    client.produce("t", 0, Codec::None, &[4]);
    let (code, epoch, end) = get(&mut client, &ask(0, -1, "t"), 4);
    assert_eq!((code, epoch), (ErrorCode::NONE, 0));
    assert!(end == 3 || end == 4, "the epoch ends with its last record, or goes on: {end}");
}

#[test]
fn the_producers_of_a_partition_are_described() {
    let running = Running::start(KEEP);
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    let none = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    let id = client.call(&none, 4).producer_id;
    let mut batch = weir_protocol::records::BatchBuilder::new(Codec::None).producer(id, 0, 0);
    batch.append(1000, None, Some(b"a"), &[]).unwrap();
    batch.append(2000, None, Some(b"b"), &[]).unwrap();
    client.produce_batch("t", 0, batch.build().unwrap());
    let request = DescribeProducersRequest {
        topics: ["t", "a b"]
            .map(|name| DescribeProducersRequestTopicRequest {
                name: name.to_string(),
                partition_indexes: vec![0, 1],
                ..Default::default()
            })
            .to_vec(),
        ..Default::default()
    };
    let response = client.call(&request, 0);
    let producer = &response.topics[0].partitions[0].active_producers[0];
    assert_eq!(
        (producer.producer_id, producer.producer_epoch, producer.last_sequence, producer.last_timestamp),
        (id, 0, 1, 2000)
    );
    assert_eq!(producer.current_txn_start_offset, -1);
    assert_eq!(response.topics[0].partitions[1].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(response.topics[1].partitions[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
}
