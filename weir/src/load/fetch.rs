//! Fetches of one partition, without a group and without a session.

use std::io::IoSlice;

use weir_protocol::messages::k01_fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::{
    BatchHeader, HEADER_SIZE_BYTES, InflateLimits, RecordCursor, RecordView, Scratch,
};

use super::LoadError;
use super::client::Client;

/// The version that is sent: the last that names topics by name.
const VERSION: i16 = 12;
/// Most bytes of records in one answer.
const MAX_BYTES: i32 = 1 << 20;
/// Longest wait for data at the broker.
const MAX_WAIT_MS: i32 = 500;

/// Waits for records of a partition from `offset` on, shows them to `each`, and returns the next offset.
pub(crate) async fn fetch(
    client: &mut Client,
    topic: &str,
    partition: i32,
    offset: i64,
    mut each: impl FnMut(&RecordView<'_>),
) -> Result<i64, LoadError> {
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: MAX_BYTES,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_string(),
            partitions: vec![FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: MAX_BYTES,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer =
        client.call(ApiKey::Fetch, VERSION, |w| request.encode(w, VERSION), FetchResponse::decode).await?;
    let refused = |code| LoadError::Answer {
        api: ApiKey::Fetch,
        what: format!("{topic}-{partition}"),
        code,
        message: None,
    };
    if answer.error_code != ErrorCode::NONE {
        return Err(refused(answer.error_code));
    }
    let mut next_offset = offset;
    for partition in answer.responses.into_iter().flat_map(|topic| topic.partitions) {
        if partition.error_code != ErrorCode::NONE {
            return Err(refused(partition.error_code));
        }
        let records = partition.records.unwrap_or_default();
        let mut rest = &records[..];
        // The last batch may be cut.
        while let Some(Ok(header)) = BatchHeader::parse_prefix(rest)
            && let Some(body) = rest.get(HEADER_SIZE_BYTES..header.size_bytes())
        {
            let body = [IoSlice::new(body)];
            let mut scratch = Scratch::new(0);
            let limits = InflateLimits::default();
            let mut cursor = RecordCursor::new(&header, &body, MAX_BYTES as usize, &limits, &mut scratch)?;
            while let Some(record) = cursor.next_record()? {
                if record.offset >= next_offset {
                    each(&record);
                }
            }
            next_offset = next_offset.max(header.next_offset());
            rest = rest.get(header.size_bytes()..).unwrap_or_default();
        }
    }
    Ok(next_offset)
}
