//! DescribeLogDirs: the log directories, the space on their disks, and the size of each partition's log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k35_describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use weir_storage::{Log, LogDir, TopicPartition};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::request::{Reply, Request};

/// A log while it is sorted into its directory and described, its topic's name included.
const LOG_BYTES: usize = 256;

/// Answers one request. Sizes are those in memory; the space is asked of the file system.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeLogDirsRequest::decode)?;
    let count = match &asked.topics {
        None => request.broker.logs.log_count(),
        Some(topics) => topics.iter().map(|topic| topic.partitions.len()).sum(),
    };
    request.lease_more(count.saturating_mul(LOG_BYTES)).await?;
    let response = describe(&request.broker, asked.topics.as_deref());
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn describe(broker: &Broker, asked: Option<&[DescribableLogDirTopic]>) -> DescribeLogDirsResponse {
    let logs: Vec<Arc<Log>> = match asked {
        None => broker.logs.logs(),
        Some(topics) => {
            let names: BTreeSet<(&str, i32)> = topics
                .iter()
                .flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic.as_str(), *index)))
                .collect();
            names
                .into_iter()
                .filter_map(|(topic, index)| broker.logs.get(&TopicPartition::new(topic, index)))
                .collect()
        }
    };
    let mut by_dir: BTreeMap<&Path, Vec<&Log>> = BTreeMap::new();
    for log in &logs {
        by_dir.entry(log.log_dir().path()).or_default().push(log);
    }
    let results = broker.logs.partition_dirs().map(|dir| {
        let logs = by_dir.remove(dir.path()).unwrap_or_default();
        describe_dir(dir, &logs)
    });
    DescribeLogDirsResponse { results: results.collect(), ..DescribeLogDirsResponse::default() }
}

fn describe_dir(dir: &LogDir, logs: &[&Log]) -> DescribeLogDirsResult {
    let log_dir = std::path::absolute(dir.path()).unwrap_or_else(|_| dir.path().to_path_buf());
    let log_dir = log_dir.to_string_lossy().into_owned();
    let refused = |error_code| DescribeLogDirsResult {
        error_code,
        log_dir: log_dir.clone(),
        ..DescribeLogDirsResult::default()
    };
    if !dir.is_online() {
        return refused(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    let (total, usable) = match dir.space_bytes() {
        Ok(space) => space,
        Err(error) => return refused(storage_code(&error)),
    };
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for log in logs {
        let name = log.topic_partition();
        topics.entry(name.topic()).or_default().push(DescribeLogDirsPartition {
            partition_index: name.partition(),
            partition_size: signed(log.size_bytes()),
            offset_lag: 0,
            ..DescribeLogDirsPartition::default()
        });
    }
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_unstable_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name: name.to_string(), partitions, ..DescribeLogDirsTopic::default() }
    });
    DescribeLogDirsResult {
        error_code: ErrorCode::NONE,
        log_dir: log_dir.clone(),
        topics: topics.collect(),
        total_bytes: signed(total),
        usable_bytes: signed(usable),
        ..DescribeLogDirsResult::default()
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
