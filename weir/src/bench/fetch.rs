//! Consumers: each asks one broker for all partitions that are its own, and counts what comes; records stay as they are.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_protocol::messages::k01_fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::BatchHeader;

use super::target::{EARLIEST, LATEST, Leader, connect_first, ends, leaders};
use super::{Lane, Lanes, Report};
use crate::load::LoadError;
use crate::load::client::Client;

/// The version that is sent: the last that names topics by name.
const VERSION: i16 = 12;
/// Longest wait for data at the broker.
const MAX_WAIT_MS: i32 = 500;
/// What an answer may have beside its records; the first batch may be larger than the fetch size.
const BESIDE_BYTES: u32 = 8 << 20;

/// How to fetch.
#[derive(Clone, Debug)]
pub(crate) struct FetchOptions {
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
    pub(crate) consumers: usize,
    /// Most bytes of records in one answer.
    pub(crate) fetch_size_bytes: i32,
    /// Records of all consumers together.
    pub(crate) records: Option<u64>,
    pub(crate) time: Option<Duration>,
    /// Begin again at the end, until the time or the number of records is reached.
    pub(crate) repeat: bool,
}

/// Where a consumer stands in one partition.
#[derive(Clone, Debug)]
struct Position {
    index: i32,
    start: i64,
    next: i64,
    end: i64,
}

/// Runs the consumers over what the topic holds when they begin.
///
/// # Errors
/// When the topic or a broker cannot be reached. What fails later is in the report.
pub(crate) async fn fetch(options: &FetchOptions) -> Result<Report, String> {
    let mut client = connect_first(&options.bootstrap).await?;
    let leaders = leaders(&mut client, &options.topic, None).await?;
    drop(client);
    let mut consumers = Vec::new();
    for consumer in 0..options.consumers {
        for leader in &leaders {
            let own = leader.partitions.iter().enumerate().filter(|(n, _)| n % options.consumers == consumer);
            let own: Vec<i32> = own.map(|(_, index)| *index).collect();
            if !own.is_empty() {
                consumers.push(positions(leader, &options.topic, &own).await?);
            }
        }
    }
    let lanes = Lanes::new("fetched", consumers.len());
    let watch = lanes.watch();
    let began = Instant::now();
    let end = options.time.map(|time| began + time);
    let mut tasks = JoinSet::new();
    for ((client, positions), lane) in consumers.into_iter().zip(&lanes.lanes) {
        let (lane, all, options) = (Arc::clone(lane), lanes.clone(), options.clone());
        tasks.spawn(async move {
            let is_over = || {
                end.is_some_and(|end| Instant::now() >= end)
                    || options.records.is_some_and(|records| all.sum(|lane| &lane.records) >= records)
            };
            if let Err(error) = run(&lane, client, positions, &options, is_over).await {
                lane.failed(&error);
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    drop(watch);
    Ok(lanes.report(began.elapsed()))
}

async fn positions(leader: &Leader, topic: &str, own: &[i32]) -> Result<(Client, Vec<Position>), String> {
    let mut client = leader.connect().await?;
    let fail = |error: LoadError| error.to_string();
    let starts = ends(&mut client, topic, own, EARLIEST).await.map_err(fail)?;
    let latest = ends(&mut client, topic, own, LATEST).await.map_err(fail)?;
    let positions = own.iter().zip(starts).zip(latest);
    let positions =
        positions.map(|((index, start), end)| Position { index: *index, start, next: start, end });
    Ok((client, positions.collect()))
}

async fn run(
    lane: &Lane,
    mut client: Client,
    mut positions: Vec<Position>,
    options: &FetchOptions,
    is_over: impl Fn() -> bool,
) -> Result<(), LoadError> {
    client.take_answers_of((options.fetch_size_bytes as u32).saturating_add(BESIDE_BYTES));
    while !is_over() {
        if positions.iter().all(|position| position.next >= position.end) {
            let is_empty = positions.iter().all(|position| position.start >= position.end);
            if !options.repeat || is_empty {
                return Ok(());
            }
            positions.iter_mut().for_each(|position| position.next = position.start);
        }
        let began = Instant::now();
        let answer = ask(&mut client, &positions, options).await?;
        lane.note(|latencies| latencies.note(began.elapsed()));
        let (records, bytes) = take(answer, &mut positions, &options.topic)?;
        lane.done(records, bytes, bytes);
        // Whoever was served first shall not be it for ever.
        positions.rotate_left(1);
    }
    Ok(())
}

async fn ask(
    client: &mut Client,
    positions: &[Position],
    options: &FetchOptions,
) -> Result<FetchResponse, LoadError> {
    let unread = positions.iter().filter(|position| position.next < position.end);
    let partitions = unread.map(|position| FetchPartition {
        partition: position.index,
        fetch_offset: position.next,
        partition_max_bytes: options.fetch_size_bytes,
        ..FetchPartition::default()
    });
    let request = FetchRequest {
        max_wait_ms: MAX_WAIT_MS,
        min_bytes: 1,
        max_bytes: options.fetch_size_bytes,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: options.topic.clone(),
            partitions: partitions.collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    client.call(ApiKey::Fetch, VERSION, |w| request.encode(w, VERSION), FetchResponse::decode).await
}

/// Counts what came, by the headers of its batches, and moves the positions on.
fn take(answer: FetchResponse, positions: &mut [Position], topic: &str) -> Result<(u64, u64), LoadError> {
    let refused = |what: String, code| LoadError::Answer { api: ApiKey::Fetch, what, code, message: None };
    if answer.error_code != ErrorCode::NONE {
        return Err(refused(topic.to_string(), answer.error_code));
    }
    let (mut records, mut bytes) = (0, 0);
    for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
        let index = partition.partition_index;
        if partition.error_code != ErrorCode::NONE {
            return Err(refused(format!("{topic}-{index}"), partition.error_code));
        }
        let Some(position) = positions.iter_mut().find(|position| position.index == index) else { continue };
        let mut rest = partition.records.as_deref().unwrap_or_default();
        // The last batch may be cut.
        while let Some(header) = BatchHeader::parse_prefix(rest).transpose()?
            && let Some(after) = rest.get(header.size_bytes()..)
        {
            let skipped = position.next.saturating_sub(header.base_offset).max(0);
            records += u64::try_from(i64::from(header.record_count) - skipped).unwrap_or(0);
            bytes += header.size_bytes() as u64;
            position.next = position.next.max(header.next_offset());
            rest = after;
        }
    }
    Ok((records, bytes))
}
