//! `/metrics`: Prometheus text. Where Kafka has the metric it has the name that the usual configuration of the JMX
//! exporter gives it, so that dashboards made for Kafka work; everything else begins with `weir_`.
//!
//! Invariant: the number of series is bounded. What is labelled by topic and partition ends after [`MAX_PARTITIONS`]
//! partitions, in the order of names and internal topics last; how many were left out is a metric of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use weir_budget::{accounted_bytes, allocated_bytes, peak_allocated_bytes, peak_unaccounted_bytes};
use weir_storage::FlushTimes;

use super::document::Document;
use super::process::{cpu_seconds, open_descriptors, process_memory};
use crate::broker::Broker;
use crate::metrics::{TIME_BUCKETS, bucket_us, quantile_ms};
use crate::topics::Partition;

/// Partitions that have series of their own. With the longest topic names their five series take 180 KiB.
const MAX_PARTITIONS: usize = 100;
/// Quantiles that the JMX exporter gives for Kafka's histograms.
const QUANTILES: [(&str, f64); 6] =
    [("0.50", 0.50), ("0.75", 0.75), ("0.95", 0.95), ("0.98", 0.98), ("0.99", 0.99), ("0.999", 0.999)];

/// Writes the document.
pub(super) fn render(broker: &Arc<Broker>, document: &mut Document) -> fmt::Result {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Everything(Arc::clone(broker))));
    prometheus_text::encode(document, &registry)
}

struct Everything(Arc<Broker>);

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Everything")
    }
}

impl Collector for Everything {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let broker = &*self.0;
        kafka_totals(&mut page, broker)?;
        kafka_requests(&mut page, broker)?;
        kafka_logs(&mut page, broker)?;
        memory(&mut page, broker)?;
        connections_and_limits(&mut page, broker)?;
        storage(&mut page, broker)
    }
}

/// Labels of one series.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes one family of series after the other.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauge_f64(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// `name` is without the `_total` that the format adds.
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn family(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricType,
        each: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        each(&mut Family(self.0.encode_descriptor(name, help, None, kind)?))
    }
}

struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    fn gauge(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }

    fn gauge_f64(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }

    fn counter(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn counter_f64(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        self.0.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }
}

fn kafka_totals(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    const TOPICS: &str = "kafka_server_brokertopicmetrics";
    let metrics = &broker.metrics;
    let totals = [
        ("messagesin", "Records appended for producers", metrics.messages_in.get()),
        ("bytesin", "Bytes of batches appended for producers", metrics.bytes_in.get()),
        ("bytesout", "Bytes of batches sent to consumers", metrics.bytes_out.get()),
        ("failedproducerequests", "Batches that were refused", metrics.failed_produce.get()),
        ("failedfetchrequests", "Reads of partitions that failed", metrics.failed_fetch.get()),
        ("totalfetchrequests", "Fetch requests answered", metrics.fetches.get()),
    ];
    for (name, help, value) in totals {
        page.counter(&format!("{TOPICS}_{name}"), help, value)?;
    }
    let image = broker.image();
    let offline = broker.logs.dirs().iter().filter(|dir| !dir.is_online()).count() as u64;
    let partitions = broker.topics.partition_count() as u64;
    let logs = broker.logs.log_count() as u64;
    let alone = "Partitions with fewer replicas in sync than they should have; a single node has none";
    page.gauge("kafka_server_replicamanager_partitioncount", "Partitions on this broker", partitions)?;
    page.gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads", partitions)?;
    page.gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions whose log is not open",
        partitions.saturating_sub(logs),
    )?;
    page.gauge("kafka_server_replicamanager_underreplicatedpartitions", alone, 0)?;
    page.gauge("kafka_server_replicamanager_underminisrpartitioncount", alone, 0)?;
    page.gauge(
        "kafka_server_replicamanager_produceridcount",
        "Producer ids that are remembered",
        broker.logs.shared().producer_ids.used() as u64,
    )?;
    page.gauge("kafka_server_kafkaserver_brokerstate", "3: the broker serves", 3)?;
    const CONTROLLER: &str = "kafka_controller_kafkacontroller";
    let figures = [
        ("activecontrollercount", "1: this node is the active controller", 1),
        ("activebrokercount", "Brokers that are not fenced", 1),
        ("fencedbrokercount", "Brokers that are fenced", 0),
        ("globaltopiccount", "Topics of the cluster", image.topics().len() as u64),
        ("globalpartitioncount", "Partitions of the cluster", image.topics().partition_count() as u64),
        ("offlinepartitionscount", "Partitions whose log is not open", partitions.saturating_sub(logs)),
        ("preferredreplicaimbalancecount", "Partitions not led by their preferred replica", 0),
        ("metadataerrorcount", "Errors while following the metadata", 0),
        (
            "lastappliedrecordoffset",
            "Offset of the last record of the metadata log",
            (broker.metadata_log.log_end_offset().get() - 1).max(0) as u64,
        ),
    ];
    for (name, help, value) in figures {
        page.gauge(&format!("{CONTROLLER}_{name}"), help, value)?;
    }
    page.gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that are offline", offline)?;
    let groups = broker.groups.usage();
    page.gauge("kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups", groups.groups() as u64)?;
    page.gauge(
        "kafka_coordinator_group_groupmetadatamanager_numoffsets",
        "Committed offsets",
        groups.offsets() as u64,
    )?;
    let (sessions, session_partitions, evictions) = broker.fetch_sessions.figures();
    page.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions",
        sessions as u64,
    )?;
    page.gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions of all fetch sessions",
        session_partitions as u64,
    )?;
    page.counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
        "Fetch sessions that gave way to others",
        evictions,
    )
}

fn kafka_requests(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    const REQUESTS: &str = "kafka_network_requestmetrics";
    let apis = &broker.metrics.apis;
    let name = format!("{REQUESTS}_requests");
    page.family((&name, "Requests by API and version"), MetricType::Counter, |family| {
        for api in apis.used() {
            for (version, count) in api.by_version().filter(|(_, count)| *count > 0) {
                family.counter(
                    &[("request", api.key.name()), ("version", itoa(version, &mut [0; 8]))],
                    count,
                )?;
            }
        }
        Ok(())
    })?;
    let name = format!("{REQUESTS}_errors");
    page.family((&name, "Replies by API and first error in them"), MetricType::Counter, |family| {
        for (key, error, count) in apis.errors() {
            family.counter(&[("error", error), ("request", key.name())], count)?;
        }
        Ok(())
    })?;
    let name = format!("{REQUESTS}_totaltimems");
    let help = "Milliseconds from a request's header to the last byte of its reply, waits included, of the last minutes";
    page.family((&name, help), MetricType::Gauge, |family| {
        for api in apis.used() {
            for (label, quantile) in QUANTILES {
                let labels = [("request", api.key.name()), ("quantile", label)];
                family.gauge_f64(&labels, api.recent_quantile_ms(quantile))?;
            }
        }
        Ok(())
    })?;
    let name = format!("{REQUESTS}_totaltimems_count");
    page.family((&name, "Requests answered"), MetricType::Gauge, |family| {
        for api in apis.used() {
            family.gauge(&[("request", api.key.name())], api.times().0.iter().sum())?;
        }
        Ok(())
    })?;
    let help = "Time from a request's header to the last byte of its reply, waits included";
    page.family(("weir_request_seconds", help), MetricType::Histogram, |family| {
        for api in apis.used() {
            let (counts, sum_us) = api.times();
            let bound =
                |index| if index < TIME_BUCKETS { bucket_us(index) as f64 / 1e6 } else { f64::INFINITY };
            let buckets: [(f64, u64); TIME_BUCKETS + 1] =
                std::array::from_fn(|index| (bound(index), counts[index]));
            let labels: Labels<'_> = &[("request", api.key.name())];
            family.0.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                sum_us as f64 / 1e6,
                counts.iter().sum(),
                &buckets,
                None,
            )?;
        }
        Ok(())
    })?;
    let help = "Requests that ended their connection: malformed, refused for good, or their peer went";
    page.family(("weir_requests_ended", help), MetricType::Counter, |family| {
        for api in apis.used() {
            family.counter(&[("request", api.key.name())], api.ended.load(Ordering::Relaxed))?;
        }
        Ok(())
    })
}

/// Per-partition series: the first partitions by name, internal topics last.
fn kafka_logs(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let image = broker.image();
    let mut shown: Vec<(Arc<Partition>, String)> = Vec::new();
    'full: for internal in [false, true] {
        for name in image.topics().iter() {
            let Some(topic) = broker.topics.by_name(name.name()).filter(|topic| topic.internal == internal)
            else {
                continue;
            };
            for index in 0..topic.partition_count() as i32 {
                if shown.len() == MAX_PARTITIONS {
                    break 'full;
                }
                shown.extend(topic.partition(index).map(|partition| (partition, index.to_string())));
            }
        }
    }
    let left_out = broker.topics.partition_count().saturating_sub(shown.len());
    let mut each = |name: &str, help: &str, value: fn(&Partition) -> u64| {
        page.family((name, help), MetricType::Gauge, |family| {
            for (partition, index) in &shown {
                let labels = [("partition", index.as_str()), ("topic", &*partition.topic)];
                family.gauge(&labels, value(partition))?;
            }
            Ok(())
        })
    };
    each("kafka_log_log_size", "Bytes of a partition's log", |p| p.log.size_bytes())?;
    each("kafka_log_log_numlogsegments", "Segments of a partition's log", |p| p.log.segment_count() as u64)?;
    each("kafka_log_log_logstartoffset", "First offset of a partition", |p| {
        p.log.log_start_offset().get().max(0) as u64
    })?;
    each("kafka_log_log_logendoffset", "Offset that the next record of a partition will have", |p| {
        p.log.log_end_offset().get().max(0) as u64
    })?;
    page.gauge(
        "weir_metrics_partitions_left_out",
        "Partitions that have no series of their own here, so that the page stays small",
        left_out as u64,
    )
}

fn memory(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let receive = &broker.budgets.receive;
    let used = receive.used();
    page.gauge(
        "kafka_network_socketserver_memorypoolused",
        "Bytes of requests on their way to the log",
        used,
    )?;
    page.gauge(
        "kafka_network_socketserver_memorypoolavailable",
        "Bytes that further requests may take",
        receive.limit() - used,
    )?;
    let reports = broker.budgets.root.report(0);
    type Read = fn(&weir_budget::BudgetReport) -> u64;
    let gauges: [(&str, &str, Read); 4] = [
        ("weir_budget_limit_bytes", "What a budget may hold", |r| r.limit),
        ("weir_budget_used_bytes", "What a budget holds", |r| r.used),
        ("weir_budget_peak_bytes", "Most that a budget held at once", |r| r.peak),
        ("weir_budget_waiters", "Requests that wait for a budget", |r| r.waiters as u64),
    ];
    for (name, help, read) in gauges {
        page.family((name, help), MetricType::Gauge, |family| {
            reports.iter().try_for_each(|report| family.gauge(&[("budget", &report.name)], read(report)))
        })?;
    }
    let help = "Requests that had to wait for a budget";
    page.family(("weir_budget_waited", help), MetricType::Counter, |family| {
        reports.iter().try_for_each(|report| family.counter(&[("budget", &report.name)], report.waited))
    })?;
    let help = "Time during which somebody waited for a budget";
    page.family(("weir_budget_dry_seconds", help), MetricType::Counter, |family| {
        reports
            .iter()
            .try_for_each(|report| family.counter_f64(&[("budget", &report.name)], report.dry.as_secs_f64()))
    })?;
    page.gauge("weir_memory_limit_bytes", "memory.budget.bytes", broker.layout.plan.limit)?;
    page.gauge("weir_memory_plan_bytes", "Sum of all terms of the plan", broker.layout.plan.sum())?;
    page.gauge("weir_memory_allocated_bytes", "Live bytes of the allocator", allocated_bytes())?;
    page.gauge("weir_memory_allocated_peak_bytes", "Most live bytes at once", peak_allocated_bytes())?;
    page.gauge("weir_memory_accounted_bytes", "Bytes under a lease or idle in the pool", accounted_bytes())?;
    page.gauge(
        "weir_memory_unaccounted_peak_bytes",
        "Most bytes at any instant that no lease covered",
        peak_unaccounted_bytes(),
    )?;
    page.gauge("weir_chunk_pool_idle_bytes", "Chunks that wait to be used again", broker.pool.idle_bytes())?;
    if let Some(process) = process_memory() {
        let peak = broker.metrics.note_anonymous(process.anonymous);
        page.gauge("weir_memory_anonymous_bytes", "RssAnon of the process", process.anonymous)?;
        page.gauge("weir_memory_anonymous_peak_bytes", "Largest RssAnon of four samples a second", peak)?;
        page.gauge(
            "process_resident_memory_bytes",
            "Resident memory, mapped files included",
            process.anonymous + process.file,
        )?;
        page.gauge("process_threads", "Threads", process.threads)?;
    }
    let mut encoder =
        page.0.encode_descriptor("process_cpu_seconds", "Processor time", None, MetricType::Counter)?;
    encoder.encode_counter::<NoLabelSet, _, u64>(&cpu_seconds(), None)?;
    match open_descriptors() {
        Some(count) => page.gauge("process_open_fds", "Open descriptors", count),
        None => Ok(()),
    }
}

fn connections_and_limits(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let metrics = &broker.metrics;
    let counts = broker.registry.count_by_listener(broker.listeners.len());
    let name = "kafka_server_socket_server_metrics_connection_count";
    page.family((name, "Open connections"), MetricType::Gauge, |family| {
        broker
            .listeners
            .iter()
            .zip(counts)
            .try_for_each(|(listener, count)| family.gauge(&[("listener", &listener.name)], count))
    })?;
    page.counter(
        "kafka_server_socket_server_metrics_connection_creation",
        "Connections accepted",
        metrics.connections_accepted.get(),
    )?;
    let (stalled, idled) = broker.registry.cut_off_counts();
    page.gauge(
        "kafka_network_socketserver_expiredconnectionskilledcount",
        "Connections closed because they idled",
        idled,
    )?;
    page.counter("weir_connections_refused", "Connections refused", metrics.connections_refused.get())?;
    page.counter(
        "weir_connections_stalled",
        "Connections cut off because they held memory without progress while others waited for it",
        stalled,
    )?;
    page.counter(
        "weir_connections_foreign",
        "Connections closed because they spoke another protocol",
        metrics.foreign_protocols.get(),
    )?;
    page.gauge("weir_connections_limit", "max.connections", u64::from(broker.registry.limit()))?;
    page.counter("weir_requests", "Frames received", metrics.requests.get())?;
    page.counter("weir_produce_batches", "Batches appended", metrics.produce_batches.get())?;
    let help = "Times that a limit refused or ended something, by the property that sets it";
    page.family(("weir_limit_reached", help), MetricType::Counter, |family| {
        metrics
            .limits_reached()
            .try_for_each(|(property, count)| family.counter(&[("property", property)], count))
    })?;
    let groups = broker.groups.usage();
    page.gauge("weir_group_members", "Members of all groups", groups.members() as u64)?;
    page.gauge(
        "weir_group_pending_members",
        "Members that were given an id and have not joined yet",
        groups.pending_members() as u64,
    )?;
    page.gauge("weir_group_state_bytes", "Bytes of group state", groups.bytes() as u64)?;
    page.gauge_f64("weir_uptime_seconds", "Time since the start", broker.started.elapsed().as_secs_f64())?;
    let labels: Labels<'_> = &[("version", env!("CARGO_PKG_VERSION")), ("cluster_id", &broker.cluster_id)];
    page.family(("weir_build_info", "1, labelled by version and cluster"), MetricType::Gauge, |family| {
        family.gauge(labels, 1)
    })
}

fn storage(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
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
        page.counter(&format!("weir_storage_{name}"), help, value.load(Ordering::Relaxed))?;
    }
    const FLUSHES: &str = "kafka_log_logflushstats_logflushrateandtimems";
    let (flush_counts, _) = counters.flush_times.read();
    page.family(
        (FLUSHES, "Milliseconds that syncs of segments took since the start"),
        MetricType::Gauge,
        |family| {
            QUANTILES.iter().try_for_each(|(label, quantile)| {
                family.gauge_f64(
                    &[("quantile", label)],
                    quantile_ms(&flush_counts, FlushTimes::bucket_us, *quantile),
                )
            })
        },
    )?;
    page.gauge(&format!("{FLUSHES}_count"), "Syncs of segments", flush_counts.iter().sum())?;
    let mut read_only = logs.logs().iter().filter(|log| log.is_read_only()).count() as u64;
    read_only += u64::from(broker.metadata_log.is_read_only());
    page.gauge("weir_storage_read_only_logs", "Logs that take no writes now", read_only)?;
    page.gauge("weir_storage_pending_deletes", "Directories to be deleted", logs.pending_deletes() as u64)?;
    let handles = &logs.shared().handles;
    page.gauge("weir_storage_open_files", "Open files of logs", handles.open_count() as u64)?;
    page.gauge("weir_storage_open_files_limit", "Most files of logs open at once", handles.limit() as u64)?;
    page.counter("weir_storage_files_opened", "Files of logs opened", handles.opened_total())?;
    let paths: Vec<String> = logs.dirs().iter().map(|dir| dir.path().display().to_string()).collect();
    let dirs = || paths.iter().zip(logs.dirs());
    let offline = "kafka_log_logmanager_logdirectoryoffline";
    page.family((offline, "1: a log directory is offline"), MetricType::Gauge, |family| {
        dirs()
            .try_for_each(|(path, dir)| family.gauge(&[("logDirectory", path)], u64::from(!dir.is_online())))
    })?;
    let help = "Bytes that a log directory's file system has left";
    page.family(("weir_storage_free_bytes", help), MetricType::Gauge, |family| {
        dirs().try_for_each(|(path, dir)| match dir.space_bytes() {
            Ok((_, free)) => family.gauge(&[("logDirectory", path)], free),
            // Offline or gone: the metric above says so.
            Err(_) => Ok(()),
        })
    })
}

/// A version as text, without an allocation.
fn itoa(version: i16, buffer: &mut [u8; 8]) -> &str {
    use std::io::Write;
    let mut rest = &mut buffer[..];
    // Six bytes at most: it fits.
    let _ = write!(rest, "{version}");
    let left = rest.len();
    std::str::from_utf8(&buffer[..8 - left]).unwrap_or_default()
}
