//! `/memory`: who holds which bytes of the one number, as JSON.
//!
//! Shape (all sizes in bytes, all times in seconds):
//! - `limit`: `memory.budget.bytes`; `uptime`
//! - `process`: `anonymous` (what the limit bounds), `anonymous_peak` (of samples taken four times a second), `file`, `threads`
//! - `allocator`: `allocated`, `allocated_peak`, `accounted` (under a lease or idle in the pool), `unaccounted_peak` (most
//!   that no lease covered at any instant: what the fixed terms of the plan must cover)
//! - `chunk_pool`: `idle`
//! - `plan`: `sum` and `terms` of `name`, `bytes`, `reason`, `property`
//! - `budgets`: parents first; `name`, `limit`, `used`, `peak` (of a parent: no less than this), `waiters`, `waited` (requests
//!   that ever waited), `dry` (time during which somebody waited), `oldest` of `what`, `connection`, `peer` (null if gone or
//!   not one), `bytes`, `age`
//! - `connections`: `open`, `limit`, `accepted`, `refused`, `stalled`, `idled`
//! - `traffic`: `requests`, `bytes_in`, `bytes_out`, `messages_in` since the start
//! - `limits_reached`: property to number of times

use serde_json::{Map, Value, json};
use weir_budget::{
    BudgetReport, accounted_bytes, allocated_bytes, peak_allocated_bytes, peak_unaccounted_bytes,
};

use super::document::Document;
use super::process::process_memory;
use crate::broker::Broker;

/// Holders named of each budget.
const OLDEST: usize = 5;

/// Writes the JSON document.
pub(super) fn render(broker: &Broker, document: &mut Document) -> std::fmt::Result {
    let process = process_memory().unwrap_or_default();
    let metrics = &broker.metrics;
    let peak = metrics.note_anonymous(process.anonymous);
    let (stalled, idled) = broker.registry.cut_off_counts();
    let budgets: Vec<Value> =
        broker.budgets.root.report(OLDEST).iter().map(|report| budget(broker, report)).collect();
    let terms: Vec<Value> = broker
        .layout
        .plan
        .terms
        .iter()
        .map(|term| json!({ "name": term.name, "bytes": term.bytes, "reason": term.reason, "property": term.property }))
        .collect();
    let limits: Map<String, Value> =
        broker.limits_reached().map(|(name, count)| (name.to_string(), count.into())).collect();
    let memory = json!({
        "limit": broker.layout.plan.limit,
        "uptime": broker.started.elapsed().as_secs_f64(),
        "process": {
            "anonymous": process.anonymous,
            "anonymous_peak": peak,
            "file": process.file,
            "threads": process.threads,
        },
        "allocator": {
            "allocated": allocated_bytes(),
            "allocated_peak": peak_allocated_bytes(),
            "accounted": accounted_bytes(),
            "unaccounted_peak": peak_unaccounted_bytes(),
        },
        "chunk_pool": { "idle": broker.idle_chunk_bytes() },
        "plan": { "sum": broker.layout.plan.sum(), "terms": terms },
        "budgets": budgets,
        "connections": {
            "open": broker.registry.count(),
            "limit": broker.registry.limit(),
            "accepted": metrics.connections_accepted.get(),
            "refused": metrics.connections_refused.get(),
            "stalled": stalled,
            "idled": idled,
        },
        "traffic": {
            "requests": metrics.requests.get(),
            "bytes_in": metrics.traffic.bytes_in.get(),
            "bytes_out": metrics.traffic.bytes_out.get(),
            "messages_in": metrics.traffic.messages_in.get(),
        },
        "limits_reached": limits,
    });
    serde_json::to_writer_pretty(document, &memory).map_err(|_| std::fmt::Error)
}

fn budget(broker: &Broker, report: &BudgetReport) -> Value {
    let oldest: Vec<Value> = report
        .oldest
        .iter()
        .map(|held| {
            let connection = held.holder.id;
            let peer = broker.registry.peer(connection).map(|peer| peer.to_string());
            json!({
                "what": held.holder.what,
                "connection": connection,
                "peer": peer,
                "bytes": held.bytes,
                "age": held.age.as_secs_f64(),
            })
        })
        .collect();
    json!({
        "name": report.name,
        "limit": report.limit,
        "used": report.used,
        "peak": report.peak,
        "waiters": report.waiters,
        "waited": report.waited,
        "dry": report.dry.as_secs_f64(),
        "oldest": oldest,
    })
}
