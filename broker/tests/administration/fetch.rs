//! What a fetch waits for, and what it does not: a broken one would wait for longer than a test has.

use weir_protocol::messages::*;
use weir_protocol::records::Codec;

use crate::support::Running;

fn fetch(partitions: std::ops::Range<i32>) -> FetchRequest {
    let partition =
        |partition| FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic {
        topic: "t".to_string(),
        partitions: partitions.map(partition).collect(),
        ..FetchTopic::default()
    };
    let topics = if topic.partitions.is_empty() { Vec::new() } else { vec![topic] };
    FetchRequest {
        session_epoch: -1,
        max_wait_ms: i32::MAX,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics,
        ..FetchRequest::default()
    }
}

fn records(response: &FetchResponse) -> usize {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.filter_map(|partition| partition.records.as_ref()).map(Vec::len).sum()
}

#[test]
fn nothing_is_waited_for_where_nothing_is_asked_for_or_more_than_a_reply_may_hold() {
    let running = Running::start("log.retention.ms=-1");
    let mut client = running.client();
    client.create(&[("t", 1, &[])]);
    (0..4).for_each(|_| assert!(client.produce("t", 0, Codec::None, &[1, 2, 3]) >= 0));
    assert_eq!(client.call(&fetch(0..0), 12).error_code, ErrorCode::NONE);
    let opened = client.call(&FetchRequest { session_epoch: 0, ..fetch(0..1) }, 12);
    assert!(opened.session_id != 0 && records(&opened) > 0);
    // So ends a consumer of Java.
    let closes = FetchRequest { session_id: opened.session_id, ..fetch(0..0) };
    assert_eq!(client.call(&closes, 12).error_code, ErrorCode::NONE);
    let greedy = FetchRequest { min_bytes: 1 << 30, max_bytes: 500, ..fetch(0..1) };
    assert!(records(&client.call(&greedy, 12)) > 0);
}

#[test]
fn a_session_with_ids_is_not_served_to_a_version_with_names() {
    let running = Running::start("");
    let mut client = running.client();
    let id = client.create(&[("t", 1, &[])]).topics[0].topic_id;
    let mut by_id = FetchRequest { session_epoch: 0, max_wait_ms: 0, ..fetch(0..1) };
    by_id.topics[0].topic = String::new();
    by_id.topics[0].topic_id = id;
    let session_id = client.call(&by_id, 13).session_id;
    assert_ne!(session_id, 0);
    client.produce("t", 0, Codec::None, &[1]);
    let next = FetchRequest { session_id, session_epoch: 1, ..fetch(0..0) };
    let answer = client.call(&next, 12);
    assert_eq!((answer.error_code, answer.session_id), (ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR, 0));
    assert!(records(&client.call(&next, 13)) > 0);
}

#[test]
fn very_many_partitions_in_error_keep_no_other_from_its_turn() {
    let running = Running::start("log.retention.ms=-1");
    let mut client = running.client();
    client.create(&[("t", 1, &[]), ("u", 1, &[])]);
    client.produce("u", 0, Codec::None, &[1]);
    // Only the first partition of the topic exists; the topic behind it has the records.
    let mut many = FetchRequest { session_epoch: 0, ..fetch(1..1500) };
    let mut last = fetch(0..1).topics.remove(0);
    last.topic = "u".to_string();
    many.topics.push(last);
    let opened = client.call(&many, 12);
    assert_ne!(opened.session_id, 0, "{:?}", opened.error_code);
    let mut found = 0;
    for session_epoch in 1..4 {
        let next = FetchRequest { session_id: opened.session_id, session_epoch, ..fetch(0..0) };
        found += records(&client.call(&next, 12));
    }
    assert!(found > 0, "the records behind them are never reached");
}
