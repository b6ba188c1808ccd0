//! `/health`: 200 while the server can do its work, 503 when it cannot write metadata or lost a log directory.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::document::Document;
use crate::broker::Broker;

/// Read-only logs that are named; the rest are counted.
const MAX_NAMED: usize = 20;

/// Writes the JSON document: `status` is `"ok"`, `"degraded"` (some logs take no writes) or `"failed"`.
pub(super) fn render(broker: &Broker, document: &mut Document) -> Result<StatusCode, std::fmt::Error> {
    let metadata = broker.metadata_log.read_only_reason();
    let directories: Vec<Value> = broker
        .logs
        .dirs()
        .iter()
        .map(|dir| {
            json!({
                "path": dir.path().display().to_string(),
                "online": dir.is_online(),
                "reason": dir.offline_reason(),
            })
        })
        .collect();
    let mut named = Vec::new();
    let mut count = 0_u64;
    for log in broker.logs.logs().into_iter().filter(|log| log.is_read_only()) {
        count += 1;
        if named.len() < MAX_NAMED {
            named.push(json!({
                "partition": log.topic_partition().to_string(),
                "reason": log.read_only_reason().as_deref(),
            }));
        }
    }
    let part = broker.failure.part();
    let failed =
        part.is_some() || metadata.is_some() || broker.logs.dirs().iter().any(|dir| !dir.is_online());
    let status = match (failed, count) {
        (true, _) => "failed",
        (false, 0) => "ok",
        (false, _) => "degraded",
    };
    let health = json!({
        "status": status,
        "cluster_id": broker.cluster_id,
        "node_id": broker.node_id,
        "failed_part": part,
        "uptime_seconds": broker.started.elapsed().as_secs(),
        "metadata_log": { "writable": metadata.is_none(), "reason": metadata.as_deref() },
        "log_dirs": directories,
        "read_only_logs": { "count": count, "first": named },
    });
    serde_json::to_writer_pretty(document, &health).map_err(|_| std::fmt::Error)?;
    Ok(if failed { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK })
}
