//! The part of `/metrics` that Kafka does not have: budgets, the process, limits, the disk.

use std::sync::atomic::Ordering;

use weir_budget::{
    BudgetReport, accounted_bytes, allocated_bytes, peak_allocated_bytes, peak_unaccounted_bytes,
};

use super::process::{cpu_seconds, open_descriptors, process_memory};
use super::text::{Gone, Kind, Page};
use crate::broker::Broker;
use crate::metrics::{TIME_BUCKETS, bucket_us};

type Written = Result<(), Gone>;

/// Writes it.
pub(super) async fn render(page: &mut Page, broker: &Broker) -> Written {
    budgets(page, broker).await?;
    memory(page, broker).await?;
    connections_and_limits(page, broker).await?;
    requests(page, broker).await?;
    storage(page, broker).await
}

type OfReport = fn(&BudgetReport) -> u64;

async fn budgets(page: &mut Page, broker: &Broker) -> Written {
    let reports = broker.budgets.root.report(0);
    let gauges: [(&str, &str, OfReport); 4] = [
        ("weir_budget_limit_bytes", "What a budget may hold", |r| r.limit),
        ("weir_budget_used_bytes", "What a budget holds", |r| r.used),
        ("weir_budget_peak_bytes", "Most that a budget held at once", |r| r.peak),
        ("weir_budget_waiters", "Requests that wait for a budget", |r| r.waiters as u64),
    ];
    for (name, help, read) in gauges {
        page.family(name, help, Kind::Gauge).await?;
        for report in &reports {
            page.value(&[("budget", &report.name)], read(report)).await?;
        }
    }
    page.family("weir_budget_waited", "Requests that had to wait for a budget", Kind::Counter).await?;
    for report in &reports {
        page.value(&[("budget", &report.name)], report.waited).await?;
    }
    let help = "Time during which somebody waited for a budget";
    page.family("weir_budget_dry_seconds", help, Kind::Counter).await?;
    for report in &reports {
        page.value(&[("budget", &report.name)], report.dry.as_secs_f64()).await?;
    }
    Ok(())
}

async fn memory(page: &mut Page, broker: &Broker) -> Written {
    page.gauge("weir_memory_limit_bytes", "memory.budget.bytes", broker.layout.plan.limit).await?;
    page.gauge("weir_memory_plan_bytes", "Sum of all terms of the plan", broker.layout.plan.sum()).await?;
    page.family("weir_plan_bytes", "A term of the plan", Kind::Gauge).await?;
    for term in &broker.layout.plan.terms {
        page.value(&[("term", term.name)], term.bytes).await?;
    }
    let metadata = broker.image().memory_bytes();
    page.gauge("weir_metadata_bytes", "Bytes of metadata in memory, estimated", metadata).await?;
    page.gauge("weir_memory_allocated_bytes", "Live bytes of the allocator", allocated_bytes()).await?;
    page.gauge("weir_memory_allocated_peak_bytes", "Most live bytes at once", peak_allocated_bytes()).await?;
    let help = "Bytes under a lease or idle in the pool";
    page.gauge("weir_memory_accounted_bytes", help, accounted_bytes()).await?;
    let help = "Most bytes at any instant that no lease covered";
    page.gauge("weir_memory_unaccounted_peak_bytes", help, peak_unaccounted_bytes()).await?;
    let help = "Chunks that wait to be used again";
    page.gauge("weir_chunk_pool_idle_bytes", help, broker.idle_chunk_bytes()).await?;
    if let Some(process) = process_memory() {
        let peak = broker.metrics.note_anonymous(process.anonymous);
        page.gauge("weir_memory_anonymous_bytes", "RssAnon of the process", process.anonymous).await?;
        page.gauge("weir_memory_anonymous_peak_bytes", "Largest RssAnon of four samples a second", peak)
            .await?;
        let help = "Resident memory, mapped files included";
        page.gauge("process_resident_memory_bytes", help, process.anonymous + process.file).await?;
        page.gauge("process_threads", "Threads", process.threads).await?;
    }
    page.counter("process_cpu_seconds", "Processor time", cpu_seconds()).await?;
    if let Some(count) = open_descriptors() {
        page.gauge("process_open_fds", "Open descriptors", count).await?;
    }
    Ok(())
}

async fn connections_and_limits(page: &mut Page, broker: &Broker) -> Written {
    let metrics = &broker.metrics;
    let (stalled, _) = broker.registry.cut_off_counts();
    let counters = [
        ("weir_connections_refused", "Connections refused", metrics.connections_refused.get()),
        (
            "weir_connections_stalled",
            "Connections cut off because they held memory without progress while others waited for it",
            stalled,
        ),
        (
            "weir_connections_foreign",
            "Connections closed because they spoke another protocol",
            metrics.foreign_protocols.get(),
        ),
        ("weir_panics", "Panics, each a fault of the program", crate::failure::panics()),
        ("weir_requests", "Frames received", metrics.requests.get()),
        ("weir_produce_batches", "Batches appended", metrics.produce_batches.get()),
        (
            "weir_unread_batches",
            "Batches that went from the socket into the log before they were checked",
            metrics.unread_batches.get(),
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value).await?;
    }
    page.gauge("weir_connections_limit", "max.connections", broker.registry.limit()).await?;
    let help = "Times that a limit refused or ended something, by the property that sets it";
    page.family("weir_limit_reached", help, Kind::Counter).await?;
    for (property, count) in broker.limits_reached() {
        page.value(&[("property", property)], count).await?;
    }
    page.family("weir_limit", "What the plan allows, by the property that sets it", Kind::Gauge).await?;
    for (property, limit) in broker.layout.limits() {
        page.value(&[("property", property)], limit).await?;
    }
    let groups = broker.groups.usage();
    page.gauge("weir_group_members", "Members of all groups", groups.members()).await?;
    let help = "Members that were given an id and have not joined yet";
    page.gauge("weir_group_pending_members", help, groups.pending_members()).await?;
    page.gauge("weir_group_state_bytes", "Bytes of group state", groups.bytes()).await?;
    page.gauge("weir_uptime_seconds", "Time since the start", broker.started.elapsed().as_secs_f64()).await?;
    page.family("weir_build_info", "1, labelled by version and cluster", Kind::Gauge).await?;
    page.value(&[("version", env!("CARGO_PKG_VERSION")), ("cluster_id", &broker.cluster_id)], 1).await
}

async fn requests(page: &mut Page, broker: &Broker) -> Written {
    let apis = &broker.metrics.apis;
    let help = "Time from a request's header to the last byte of its reply, waits included";
    page.family("weir_request_seconds", help, Kind::Histogram).await?;
    for api in apis.used() {
        let (counts, sum_us) = api.total.since_start();
        let bound = |index| if index < TIME_BUCKETS { bucket_us(index) as f64 / 1e6 } else { f64::INFINITY };
        let buckets: [(f64, u64); TIME_BUCKETS + 1] =
            std::array::from_fn(|index| (bound(index), counts[index]));
        page.histogram(&[("request", api.key.name())], &buckets, sum_us as f64 / 1e6).await?;
    }
    let help = "Requests that ended their connection: malformed, refused for good, or their peer went";
    page.family("weir_requests_ended", help, Kind::Counter).await?;
    for api in apis.used() {
        page.value(&[("request", api.key.name())], api.ended.load(Ordering::Relaxed)).await?;
    }
    Ok(())
}

async fn storage(page: &mut Page, broker: &Broker) -> Written {
    let logs = &broker.logs;
    let counters = logs.counters();
    let totals = [
        ("index_rebuilds", "Indexes that led astray and were rebuilt", &counters.index_rebuilds),
        ("gaps_found", "Holes met in or between segments", &counters.gaps_found),
        ("corrupt_batches", "Damaged batches met by a read or the scrub", &counters.corrupt_batches),
        ("failed_appends", "Appends that failed because of the disk", &counters.failed_appends),
        ("went_read_only", "Times that a log stopped taking writes", &counters.went_read_only),
        (
            "recovered_from_read_only",
            "Times that such a log took writes again",
            &counters.recovered_from_read_only,
        ),
        ("logs_recovered", "Logs checked after a crash", &counters.logs_recovered),
        ("recovery_bytes", "Bytes that such checks read", &counters.recovery_bytes),
        ("truncated_bytes", "Bytes that such checks cut off", &counters.truncated_bytes),
        (
            "files_rebuilt",
            "Small files that were damaged or missing and were rebuilt",
            &counters.files_rebuilt,
        ),
        ("segments_rolled", "Segments rolled", &counters.segments_rolled),
        ("segments_deleted", "Segments deleted by retention", &counters.segments_deleted),
        ("flushes", "Syncs of segments", &counters.flushes),
        ("flushes_joined", "Flushes served by the sync of another one", &counters.flushes_joined),
    ];
    for (name, help, value) in totals {
        page.counter(&format!("weir_storage_{name}"), help, value.load(Ordering::Relaxed)).await?;
    }
    let mut read_only = logs.logs().iter().filter(|log| log.is_read_only()).count();
    read_only += usize::from(broker.metadata_log.is_read_only());
    let shared = logs.shared();
    let gauges = [
        ("read_only_logs", "Logs that take no writes now", read_only),
        ("pending_deletes", "Directories to be deleted", logs.pending_deletes()),
        ("segments", "Segments of all logs", shared.segments.used()),
        (
            "segments_beside_active",
            "Those beside the active ones: what max.segments limits",
            shared.segments.beside_active(),
        ),
        (
            "room_bytes",
            "Disk space allocated ahead of the ends of logs, what was written to since included",
            shared.room.used_bytes() as usize,
        ),
        ("open_files", "Open files of logs", shared.handles.open_count()),
        ("open_files_limit", "Most files of logs open at once", shared.handles.limit()),
    ];
    for (name, help, value) in gauges {
        page.gauge(&format!("weir_storage_{name}"), help, value).await?;
    }
    page.counter("weir_storage_files_opened", "Files of logs opened", shared.handles.opened_total()).await?;
    let help = "Bytes that a log directory's file system has left";
    page.family("weir_storage_free_bytes", help, Kind::Gauge).await?;
    for dir in logs.dirs() {
        // Offline or gone: another metric says so.
        let Ok((_, free)) = dir.space_bytes() else { continue };
        let path = dir.path().display().to_string();
        page.value(&[("logDirectory", &path)], free).await?;
    }
    Ok(())
}
