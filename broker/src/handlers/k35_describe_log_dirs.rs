//! DescribeLogDirs: the log directories, the space on their disks, and the size of each partition's log.
//!
//! Method: the logs that are asked for are listed, by directory and name, under a lease of their number; the reply is
//! encoded from the list topic by topic while it is sent. Sizes are those in memory; the space is asked of the file system.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_protocol::messages::k35_describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, Sink, put_array_len, put_bool, put_empty_tags, put_i32, put_i64, put_string,
};
use weir_storage::{Log, LogDir, TopicPartition};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::request::{Part, Reply, Request};

/// From this version on an error of the whole request has a place.
const FIRST_WITH_ERROR: i16 = 3;
/// From this version on the space is told.
const FIRST_WITH_SPACE: i16 = 4;
/// From this version on it is told whether a directory takes no new partitions.
const FIRST_WITH_CORDONED: i16 = 5;
/// A log in the list and, at the worst, a topic of its own; a name in the set of those asked for.
const LOG_BYTES: usize =
    2 * size_of::<Arc<Log>>() + size_of::<Piece>() + 3 * size_of::<(&str, i32)>() + size_of::<usize>();

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeLogDirsRequest::decode)?;
    let asked = request.share(asked);
    let mut leases = Vec::new();
    let logs = loop {
        let count = match &asked.topics {
            None => request.broker.logs.log_count(),
            Some(topics) => topics.iter().map(|topic| topic.partitions.len()).sum(),
        };
        leases.push(request.lease_some(count.saturating_mul(LOG_BYTES)).await?);
        // There may be more by now than before the wait.
        if let Some(logs) = list(&request.broker, asked.topics.as_deref(), count) {
            break logs;
        }
    };
    drop(asked);
    let described = Described::of(&request.broker, logs, request.version);
    let pieces = described.pieces.len();
    let encode = move |part, w: &mut dyn Sink| {
        let _held_with_the_list = &leases;
        described.encode(part, w)
    };
    Ok(Some(request.reply_in_parts(pieces, 0, encode).await?))
}

/// The logs that are asked for; `None` where there are more than `most`.
fn list(broker: &Broker, asked: Option<&[DescribableLogDirTopic]>, most: usize) -> Option<Vec<Arc<Log>>> {
    let Some(topics) = asked else { return broker.logs.logs_at_most(most) };
    let names: BTreeSet<(&str, i32)> = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic.as_str(), *index)))
        .collect();
    let logs =
        names.into_iter().filter_map(|(topic, index)| broker.logs.get(&TopicPartition::new(topic, index)));
    Some(logs.collect())
}

/// A part of the reply.
enum Piece {
    /// What stands before the topics of a directory.
    Dir { place: usize, topics: usize },
    /// A topic: so many logs from this one on.
    Topic { first: usize, count: usize },
    /// What stands behind them.
    End { place: usize },
}

/// A directory as it was when it was asked for.
struct Dir {
    path: String,
    /// Its size and what of it is free, bytes.
    space: Result<(u64, u64), ErrorCode>,
}

struct Described {
    version: i16,
    dirs: Vec<Dir>,
    /// By directory, topic and number.
    logs: Vec<Arc<Log>>,
    pieces: Vec<Piece>,
}

impl Described {
    fn of(broker: &Broker, mut logs: Vec<Arc<Log>>, version: i16) -> Self {
        let places: Vec<&Arc<LogDir>> = broker.logs.partition_dirs().collect();
        let place = |log: &Log| places.iter().position(|dir| Arc::ptr_eq(dir, log.log_dir()));
        logs.sort_unstable_by(|a, b| {
            let name = |log: &Log| log.topic_partition().partition();
            let topics = || a.topic_partition().topic().cmp(b.topic_partition().topic());
            place(a).cmp(&place(b)).then_with(topics).then_with(|| name(a).cmp(&name(b)))
        });
        let dirs: Vec<Dir> = places.iter().map(|dir| Dir::of(dir)).collect();
        let mut pieces = Vec::with_capacity(logs.len() + 2 * dirs.len());
        for (number, dir) in dirs.iter().enumerate() {
            let start = logs.partition_point(|log| place(log) < Some(number));
            let end = logs.partition_point(|log| place(log) <= Some(number));
            let here = logs.get(start..end).filter(|_| dir.space.is_ok()).unwrap_or_default();
            let head = pieces.len();
            pieces.push(Piece::Dir { place: number, topics: 0 });
            let mut first = start;
            for topic in here.chunk_by(|a, b| a.topic_partition().topic() == b.topic_partition().topic()) {
                pieces.push(Piece::Topic { first, count: topic.len() });
                first += topic.len();
            }
            let topics = pieces.len() - head - 1;
            pieces[head] = Piece::Dir { place: number, topics };
            pieces.push(Piece::End { place: number });
        }
        Described { version, dirs, logs, pieces }
    }

    fn encode(&self, part: Part, w: &mut dyn Sink) -> Result<(), EncodeError> {
        let version = self.version;
        let flexible = ApiKey::DescribeLogDirs.is_flexible(version);
        let index = match part {
            Part::Head => {
                put_i32(w, 0);
                if version >= FIRST_WITH_ERROR {
                    w.put_error(ErrorCode::NONE.0);
                }
                return put_array_len(w, flexible, Some(self.dirs.len()));
            }
            Part::Item(index) => index,
            Part::Tail => {
                if flexible {
                    put_empty_tags(w);
                }
                return Ok(());
            }
        };
        match self.pieces.get(index) {
            Some(Piece::Dir { place, topics }) => {
                let Some(dir) = self.dirs.get(*place) else { return Ok(()) };
                w.put_error(dir.space.err().unwrap_or(ErrorCode::NONE).0);
                put_string(w, flexible, &dir.path)?;
                put_array_len(w, flexible, Some(*topics))
            }
            Some(Piece::Topic { first, count }) => self.topic(*first, *count, w),
            Some(Piece::End { place }) => {
                let space = self.dirs.get(*place).and_then(|dir| dir.space.ok());
                if version >= FIRST_WITH_SPACE {
                    put_i64(w, space.map_or(-1, |(total, _)| signed(total)));
                    put_i64(w, space.map_or(-1, |(_, usable)| signed(usable)));
                }
                if version >= FIRST_WITH_CORDONED {
                    put_bool(w, false);
                }
                if flexible {
                    put_empty_tags(w);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn topic(&self, first: usize, count: usize, w: &mut dyn Sink) -> Result<(), EncodeError> {
        let flexible = ApiKey::DescribeLogDirs.is_flexible(self.version);
        let logs = self.logs.get(first..first + count).unwrap_or_default();
        let Some(one) = logs.first() else { return Ok(()) };
        put_string(w, flexible, one.topic_partition().topic())?;
        put_array_len(w, flexible, Some(logs.len()))?;
        for log in logs {
            DescribeLogDirsPartition {
                partition_index: log.topic_partition().partition(),
                partition_size: signed(log.size_bytes()),
                offset_lag: 0,
                ..DescribeLogDirsPartition::default()
            }
            .encode(w, self.version)?;
        }
        if flexible {
            put_empty_tags(w);
        }
        Ok(())
    }
}

impl Dir {
    fn of(dir: &LogDir) -> Self {
        let path = std::path::absolute(dir.path()).unwrap_or_else(|_| dir.path().to_path_buf());
        let space = match dir.is_online() {
            true => dir.space_bytes().map_err(|error| storage_code(&error)),
            false => Err(ErrorCode::KAFKA_STORAGE_ERROR),
        };
        Dir { path: path.to_string_lossy().into_owned(), space }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
