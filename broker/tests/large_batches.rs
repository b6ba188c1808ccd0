//! Large batches that have arrived before the server looks at them: they go from the socket into the log unread, and are
//! taken, answered and refused like any other.

mod support;

use std::io::IoSlice;

use support::{Client, Running, produce_request};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k00_produce::{PartitionProduceResponse, ProduceRequest};
use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, crc_of};

/// Requests that are sent before the first answer is read, so that the later ones have arrived when it is their turn.
const AT_ONCE: usize = 8;
/// How often that is tried.
const TRIES: usize = 200;

/// A batch of about 300 KB.
fn batch() -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for n in 0..300 {
        builder.append(1_700_000_000_000 + n, Some(b"key"), Some(&[n as u8; 1000]), &[]).unwrap();
    }
    builder.build().unwrap()
}

/// The batch with a header changed by `change`, and the CRC of that.
fn with_header(bytes: &[u8], change: impl FnOnce(&mut BatchHeader)) -> Vec<u8> {
    let (header, body) = bytes.split_first_chunk::<HEADER_SIZE_BYTES>().unwrap();
    let mut header = BatchHeader::parse(header).unwrap();
    change(&mut header);
    header.crc = crc_of(&header, &[IoSlice::new(body)]);
    [&header.to_bytes()[..], body].concat()
}

/// Sends the batch again and again until one went into the log unread; all the answers.
fn produce(
    server: &Running,
    client: &mut Client,
    topic: &str,
    batch: &[u8],
) -> Vec<PartitionProduceResponse> {
    let request = produce_request(topic, 0, batch.to_vec());
    let before = server.metric("weir_unread_batches_total");
    let mut answers = Vec::new();
    for _ in 0..TRIES {
        for _ in 0..AT_ONCE {
            client.send_only(&request, 9);
        }
        for n in 0..AT_ONCE {
            let mut response = match n {
                0 => client.read_response::<ProduceRequest>(9),
                _ => client.receive::<ProduceRequest>(9).unwrap(),
            };
            answers.push(response.responses.remove(0).partition_responses.remove(0));
        }
        if server.metric("weir_unread_batches_total") > before {
            return answers;
        }
    }
    panic!("no batch of {} had arrived when it was looked for", answers.len());
}

/// The batches in the only segment of a topic's partition, each with its right CRC.
fn stored(server: &Running, topic: &str) -> Vec<(BatchHeader, Vec<u8>)> {
    let file = server.log_dir().join(format!("{topic}-0/00000000000000000000.log"));
    let bytes = std::fs::read(file).unwrap();
    let mut rest = &bytes[..];
    let mut batches = Vec::new();
    while let Some((head, _)) = rest.split_first_chunk::<HEADER_SIZE_BYTES>() {
        let header = BatchHeader::parse(head).unwrap();
        let (one, behind) = rest.split_at(header.size_bytes());
        let body = one[HEADER_SIZE_BYTES..].to_vec();
        assert_eq!(header.crc, crc_of(&header, &[IoSlice::new(&body)]));
        batches.push((header, body));
        rest = behind;
    }
    assert!(rest.is_empty(), "{} bytes behind the last batch", rest.len());
    batches
}

#[test]
fn large_batches_that_have_arrived() {
    let server = Running::start("http.listener=127.0.0.1:0\nlog.segment.bytes=2000000000");
    let mut client = server.client();
    client.create(&[
        ("taken", 1, &[]),
        ("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]),
        ("corrected", 1, &[]),
        ("refused", 1, &[]),
    ]);
    let good = batch();
    let body = &good[HEADER_SIZE_BYTES..];

    let answers = produce(&server, &mut client, "taken", &good);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::NONE, 300 * n as i64), "{answer:?}");
    }
    let batches = stored(&server, "taken");
    assert_eq!(batches.len(), answers.len());
    for (n, (header, stored)) in batches.iter().enumerate() {
        assert!(header.base_offset == 300 * n as i64 && stored == body);
    }

    let answers = produce(&server, &mut client, "stamped", &good);
    for ((header, stored), answer) in stored(&server, "stamped").iter().zip(&answers) {
        assert!(answer.log_append_time_ms > 1_700_000_000_000 && stored == body);
        assert_eq!(header.max_timestamp, answer.log_append_time_ms);
    }

    let late = with_header(&good, |header| header.max_timestamp += 1000);
    produce(&server, &mut client, "corrected", &late);
    for (header, _) in stored(&server, "corrected") {
        assert_eq!(header.max_timestamp, 1_700_000_000_299);
    }

    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let miscounted = with_header(&good, |header| {
        header.record_count -= 1;
        header.last_offset_delta -= 1;
    });
    for (bad, code) in [(flipped, ErrorCode::CORRUPT_MESSAGE), (miscounted, ErrorCode::INVALID_RECORD)] {
        for answer in produce(&server, &mut client, "refused", &bad) {
            assert_eq!((answer.error_code, answer.base_offset), (code, -1), "{answer:?}");
        }
        assert_eq!(stored(&server, "refused").len(), 0);
    }
    assert_eq!(client.produce_batch("refused", 0, good.clone()).base_offset, 0);

    server.assert_at_rest();
}
