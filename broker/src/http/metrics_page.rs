//! `/metrics`: Prometheus text. Where Kafka has the metric it has the name that the usual configuration of the JMX
//! exporter gives it, so that dashboards made for Kafka work; everything else begins with `weir_` and is in `own_metrics`.
//!
//! Invariant: the page takes a few pieces of memory, however many series it has. What is labelled by topic or partition
//! ends after `max.metric.partitions` of them, in the order of names and internal topics last; how many were left out is
//! a metric of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_coordinator::GroupState;
use weir_metadata::image::MetadataImage;
use weir_metadata::properties::keys;
use weir_storage::FlushTimes;

use super::own_metrics;
use super::process::disk_bytes;
use super::text::{Gone, Kind, Page, Small};
use crate::broker::Broker;
use crate::metrics::{Api, Counter, Times, Traffic, quantile_ms};
use crate::topics::{Partition, Topic};

/// Quantiles that the JMX exporter gives for Kafka's histograms.
const QUANTILES: [(&str, f64); 6] =
    [("0.50", 0.50), ("0.75", 0.75), ("0.95", 0.95), ("0.98", 0.98), ("0.99", 0.99), ("0.999", 0.999)];

type Written = Result<(), Gone>;

/// Writes the page.
pub(super) async fn render(broker: Arc<Broker>, mut page: Page) -> Written {
    traffic(&mut page, &broker).await?;
    replicas_and_controller(&mut page, &broker).await?;
    requests(&mut page, &broker).await?;
    network(&mut page, &broker).await?;
    groups(&mut page, &broker).await?;
    logs(&mut page, &broker).await?;
    own_metrics::render(&mut page, &broker).await?;
    page.finish().await
}

/// Topics that have series of their own.
struct Shown {
    image: Arc<MetadataImage>,
    most: usize,
}

impl Shown {
    fn of(broker: &Broker) -> Self {
        let most = broker.config.load().get(keys::MAX_METRIC_PARTITIONS).max(0) as usize;
        Shown { image: broker.image(), most }
    }

    /// The topic behind `after` in the order of the page: the internal ones come last.
    fn next(&self, broker: &Broker, after: Option<&Topic>) -> Option<Arc<Topic>> {
        let from = after.map_or("", |topic| &topic.name);
        let mut internal = after.is_some_and(|topic| topic.internal);
        let mut from = Some(from);
        loop {
            let start = from.unwrap_or("");
            let found = self
                .image
                .topics()
                .iter_from(start)
                .filter(|topic| from.is_none_or(|from| from.is_empty() || topic.name() > from))
                .find_map(|topic| broker.topics.by_name(topic.name()).filter(|it| it.internal == internal));
            if found.is_some() || internal {
                return found;
            }
            (internal, from) = (true, None);
        }
    }
}

/// A figure of a topic's traffic.
type OfTraffic = fn(&Traffic) -> &Counter;

async fn traffic(page: &mut Page, broker: &Arc<Broker>) -> Written {
    let shown = Shown::of(broker);
    let families: [(&str, &str, OfTraffic); 8] = [
        ("messagesin", "Records appended for producers", |it| &it.messages_in),
        ("bytesin", "Bytes of batches appended for producers", |it| &it.bytes_in),
        ("bytesout", "Bytes of batches sent to consumers", |it| &it.bytes_out),
        ("bytesrejected", "Bytes of batches that were refused", |it| &it.bytes_rejected),
        ("totalproducerequests", "Batches that came", |it| &it.produces),
        ("failedproducerequests", "Batches that were refused", |it| &it.failed_produces),
        ("totalfetchrequests", "Reads of partitions", |it| &it.fetches),
        ("failedfetchrequests", "Reads of partitions that failed", |it| &it.failed_fetches),
    ];
    for (name, help, figure) in families {
        page.family(&format!("kafka_server_brokertopicmetrics_{name}"), help, Kind::Counter).await?;
        page.value(&[], figure(&broker.metrics.traffic).get()).await?;
        let mut topic = None;
        for _ in 0..shown.most {
            topic = shown.next(broker, topic.as_deref());
            let Some(topic) = &topic else { break };
            page.value(&[("topic", &topic.name)], figure(&topic.traffic).get()).await?;
        }
    }
    let refused = [
        ("invalidmessagecrcrecords", "Batches whose CRC was wrong", &broker.metrics.invalid_crc),
        ("invalidmagicnumberrecords", "Batches of an old format", &broker.metrics.invalid_magic),
        ("invalidoffsetorsequencerecords", "Batches out of sequence", &broker.metrics.invalid_sequence),
    ];
    for (name, help, counter) in refused {
        page.counter(&format!("kafka_server_brokertopicmetrics_{name}"), help, counter.get()).await?;
    }
    let left_out = shown.image.topics().len().saturating_sub(shown.most);
    let help = "Topics that have no series of their own here: max.metric.partitions";
    page.gauge("weir_metrics_topics_left_out", help, left_out).await
}

async fn replicas_and_controller(page: &mut Page, broker: &Broker) -> Written {
    const ALONE: &str = "A single node has none";
    let image = broker.image();
    let partitions = broker.topics.partition_count() as u64;
    // The metadata log is no partition of a topic.
    let offline = broker.topics.offline_count() as u64;
    let replicas = [
        ("partitioncount", "Partitions on this broker", partitions),
        ("leadercount", "Partitions that this broker leads", partitions),
        ("offlinereplicacount", "Partitions whose log is not open", offline),
        ("underreplicatedpartitions", ALONE, 0),
        ("underminisrpartitioncount", ALONE, 0),
        ("atminisrpartitioncount", ALONE, 0),
        ("reassigningpartitions", ALONE, 0),
        (
            "produceridcount",
            "Producer ids that are remembered",
            broker.logs.shared().producer_ids.used() as u64,
        ),
    ];
    for (name, help, value) in replicas {
        page.gauge(&format!("kafka_server_replicamanager_{name}"), help, value).await?;
    }
    for name in ["isrshrinks", "isrexpands", "failedisrupdates"] {
        page.counter(&format!("kafka_server_replicamanager_{name}"), ALONE, 0).await?;
    }
    page.gauge("kafka_server_kafkaserver_brokerstate", "3: the broker serves", 3).await?;
    if let Some((read, written)) = disk_bytes() {
        let help = "Bytes that this process had read from storage";
        page.gauge("kafka_server_kafkaserver_linux_disk_read_bytes", help, read).await?;
        let help = "Bytes that this process had written to storage";
        page.gauge("kafka_server_kafkaserver_linux_disk_write_bytes", help, written).await?;
    }
    let last_offset = (broker.metadata_log.log_end_offset().get() - 1).max(0) as u64;
    let controller = [
        ("activecontrollercount", "1: this node is the active controller", 1),
        ("activebrokercount", "Brokers that are not fenced", 1),
        ("fencedbrokercount", "Brokers that are fenced", 0),
        ("globaltopiccount", "Topics of the cluster", image.topics().len() as u64),
        ("globalpartitioncount", "Partitions of the cluster", image.topics().partition_count() as u64),
        ("offlinepartitionscount", "Partitions whose log is not open", offline),
        ("preferredreplicaimbalancecount", "Partitions not led by their preferred replica", 0),
        ("metadataerrorcount", "Errors while following the metadata", 0),
        ("lastappliedrecordoffset", "Offset of the last record of the metadata log", last_offset),
    ];
    for (name, help, value) in controller {
        page.gauge(&format!("kafka_controller_kafkacontroller_{name}"), help, value).await?;
    }
    page.counter("kafka_controller_controllerstats_uncleanleaderelections", ALONE, 0).await?;
    let raft = [
        ("current_leader", "Node that leads the metadata quorum: this one", broker.node_id as u64),
        ("current_epoch", "Epoch of the metadata quorum", broker.metadata_epoch.max(0) as u64),
        ("high_watermark", "End of what is committed in the metadata log", last_offset + 1),
        ("log_end_offset", "End of the metadata log", last_offset + 1),
    ];
    for (name, help, value) in raft {
        page.gauge(&format!("kafka_server_raft_metrics_{name}"), help, value).await?;
    }
    Ok(())
}

/// The times of one kind of an API's requests.
type OfApi = fn(&Api) -> &Times;

async fn requests(page: &mut Page, broker: &Broker) -> Written {
    let apis = &broker.metrics.apis;
    let name = "kafka_network_requestmetrics_requests";
    page.family(name, "Requests by API and version", Kind::Counter).await?;
    for api in apis.used() {
        for (version, count) in api.by_version().filter(|(_, count)| *count > 0) {
            let version = Small::of(version);
            for request in api.names() {
                page.value(&[("request", request), ("version", version.as_str())], count).await?;
            }
        }
    }
    let name = "kafka_network_requestmetrics_errors";
    page.family(name, "Replies by API and first error in them", Kind::Counter).await?;
    for (key, error, count) in apis.errors() {
        page.value(&[("error", error), ("request", key.name())], count).await?;
    }
    let times: [(&str, &str, OfApi); 5] = [
        ("totaltimems", "From a request's header to the last byte of its reply", |api| &api.total),
        ("requestqueuetimems", "Until the request was whole: for its bytes and for memory", |api| {
            &api.parts[0]
        }),
        ("localtimems", "While the request was worked on; of a produce request its receipt too", |api| {
            &api.parts[1]
        }),
        ("remotetimems", "While the request waited for records, members or memory", |api| &api.parts[2]),
        ("responsesendtimems", "While the reply was sent", |api| &api.parts[3]),
    ];
    for (name, help, of) in times {
        let name = format!("kafka_network_requestmetrics_{name}");
        let help = format!("{help}, in milliseconds, of the last minutes");
        page.family(&name, &help, Kind::Gauge).await?;
        for api in apis.used() {
            for (label, quantile) in QUANTILES {
                let value = of(api).recent_quantile_ms(quantile);
                for request in api.names() {
                    page.value(&[("request", request), ("quantile", label)], value).await?;
                }
            }
        }
        page.family(&format!("{name}_count"), "Requests answered", Kind::Gauge).await?;
        for api in apis.used() {
            for request in api.names() {
                page.value(&[("request", request)], of(api).count()).await?;
            }
        }
    }
    Ok(())
}

async fn network(page: &mut Page, broker: &Broker) -> Written {
    let metrics = &broker.metrics;
    let receive = &broker.budgets.receive;
    let used = receive.used();
    let help = "Bytes of requests on their way to the log";
    page.gauge("kafka_network_socketserver_memorypoolused", help, used).await?;
    let help = "Bytes that further requests may take";
    page.gauge("kafka_network_socketserver_memorypoolavailable", help, receive.limit() - used).await?;
    let dry = receive.report(0).first().map_or(0, |report| report.dry.as_millis() as u64);
    let help = "Milliseconds during which a request waited for that memory";
    page.gauge("kafka_server_socket_server_metrics_memorypooldepletedtimetotal", help, dry).await?;
    let (_, idled) = broker.registry.cut_off_counts();
    let help = "Connections closed because they idled";
    page.gauge("kafka_network_socketserver_expiredconnectionskilledcount", help, idled).await?;
    // One pool of threads does the work of Kafka's network and request threads.
    let idle = metrics.idle_thousandths.load(Ordering::Relaxed) as f64 / 1000.0;
    let help = "Part of the time that the runtime's threads had nothing to do, lately";
    page.gauge("kafka_network_socketserver_networkprocessoravgidle_percent", help, idle).await?;
    page.gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", help, idle).await?;
    let waiting: usize = broker.budgets.root.report(0).iter().map(|report| report.waiters).sum();
    let help = "Requests that wait for memory";
    page.gauge("kafka_network_requestchannel_requestqueuesize", help, waiting).await?;
    let counts = broker.registry.count_by_listener(broker.listeners.len());
    let name = "kafka_server_socket_server_metrics_connection_count";
    page.family(name, "Open connections", Kind::Gauge).await?;
    for (listener, count) in broker.listeners.iter().zip(counts) {
        page.value(&[("listener", &listener.name)], count).await?;
    }
    let name = "kafka_server_socket_server_metrics_connection_creation";
    page.counter(name, "Connections accepted", metrics.connections_accepted.get()).await?;
    for name in ["purgatorysize", "numdelayedoperations"] {
        let name = format!("kafka_server_delayedoperationpurgatory_{name}");
        page.family(&name, "Requests that wait for records or members", Kind::Gauge).await?;
        let fetches = metrics.waiting_fetches.load(Ordering::Relaxed);
        page.value(&[("delayedOperation", "Fetch")], fetches).await?;
        page.value(&[("delayedOperation", "Produce")], 0).await?;
        page.value(&[("delayedOperation", "Rebalance")], broker.groups.waiting_count()).await?;
    }
    let name = "kafka_server_delayedfetchmetrics_expires";
    page.family(name, "Fetches whose wait ended with its time", Kind::Counter).await?;
    page.value(&[("fetcherType", "consumer")], metrics.expired_fetches.get()).await?;
    let (sessions, partitions, evictions) = broker.fetch_sessions.figures();
    let prefix = "kafka_server_fetchsessioncache_";
    page.gauge(&format!("{prefix}numincrementalfetchsessions"), "Fetch sessions", sessions).await?;
    let help = "Partitions of all fetch sessions";
    page.gauge(&format!("{prefix}numincrementalfetchpartitionscached"), help, partitions).await?;
    let help = "Fetch sessions that gave way to others";
    page.counter(&format!("{prefix}incrementalfetchsessionevictions"), help, evictions).await
}

async fn groups(page: &mut Page, broker: &Broker) -> Written {
    const MANAGER: &str = "kafka_coordinator_group_groupmetadatamanager_";
    const COORDINATOR: &str = "kafka_server_group_coordinator_metrics_";
    let usage = broker.groups.usage();
    page.gauge(&format!("{MANAGER}numgroups"), "Groups", usage.groups()).await?;
    page.gauge(&format!("{MANAGER}numoffsets"), "Committed offsets", usage.offsets()).await?;
    let states = [
        (GroupState::PreparingRebalance, "preparingrebalance"),
        (GroupState::CompletingRebalance, "completingrebalance"),
        (GroupState::Stable, "stable"),
        (GroupState::Empty, "empty"),
        (GroupState::Dead, "dead"),
    ];
    let mut counts = [0_u64; 5];
    let mut totals = [0_u64; 4];
    broker.groups.for_each_shard(|shard| {
        let stats = shard.stats();
        for (count, (state, _)) in counts.iter_mut().zip(&states) {
            *count += stats.groups.get(state).copied().unwrap_or(0) as u64;
        }
        let more = [
            stats.offset_commits,
            stats.offset_expirations,
            stats.offset_deletions,
            stats.completed_rebalances,
        ];
        totals.iter_mut().zip(more).for_each(|(total, more)| *total += more);
    });
    for ((_, name), count) in states.iter().zip(counts) {
        page.gauge(&format!("{MANAGER}numgroups{name}"), "Groups in this state", count).await?;
    }
    page.family(&format!("{COORDINATOR}classic_group_count"), "Groups by state", Kind::Gauge).await?;
    for ((state, _), count) in states.iter().zip(counts) {
        page.value(&[("state", state.as_str())], count).await?;
    }
    page.family(&format!("{COORDINATOR}group_count"), "Groups by protocol", Kind::Gauge).await?;
    page.value(&[("protocol", "classic")], usage.groups()).await?;
    page.family(&format!("{COORDINATOR}num_partitions"), "Partitions of the offsets topic", Kind::Gauge)
        .await?;
    let partitions = broker.groups.partitions_by_state();
    for (state, count) in ["active", "loading", "failed"].into_iter().zip(partitions) {
        page.value(&[("state", state)], count).await?;
    }
    let names = [
        ("offset_commit_count", "Offsets committed"),
        ("offset_expiration_count", "Offsets that retention ended"),
        ("offset_deletion_count", "Offsets deleted on demand or with their topic"),
        ("group_completed_rebalance_count", "Rebalances completed"),
    ];
    for ((name, help), total) in names.into_iter().zip(totals) {
        page.gauge(&format!("{COORDINATOR}{name}"), help, total).await?;
    }
    Ok(())
}

/// A figure of a partition.
type OfPartition = fn(&Partition) -> u64;

async fn logs(page: &mut Page, broker: &Arc<Broker>) -> Written {
    let offline = broker.logs.dirs().iter().filter(|dir| !dir.is_online()).count();
    page.gauge("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that are offline", offline)
        .await?;
    let name = "kafka_log_logmanager_logdirectoryoffline";
    page.family(name, "1: a log directory is offline", Kind::Gauge).await?;
    for dir in broker.logs.dirs() {
        let path = dir.path().display().to_string();
        page.value(&[("logDirectory", &path)], u8::from(!dir.is_online())).await?;
    }
    let (flushes, _) = broker.logs.counters().flush_times.read();
    let name = "kafka_log_logflushstats_logflushrateandtimems";
    page.family(name, "Milliseconds that syncs of logs took since the start", Kind::Gauge).await?;
    for (label, quantile) in QUANTILES {
        let took_ms = quantile_ms(&flushes, FlushTimes::bucket_us, quantile);
        page.value(&[("quantile", label)], took_ms).await?;
    }
    page.gauge(&format!("{name}_count"), "Syncs of logs", flushes.iter().sum::<u64>()).await?;
    let shown = Shown::of(broker);
    let families: [(&str, &str, OfPartition); 4] = [
        ("kafka_log_log_size", "Bytes of a partition's log", |p| p.log.size_bytes()),
        ("kafka_log_log_numlogsegments", "Segments of a partition's log", |p| p.log.segment_count() as u64),
        ("kafka_log_log_logstartoffset", "First offset of a partition", |p| {
            p.log.log_start_offset().get().max(0) as u64
        }),
        ("kafka_log_log_logendoffset", "Offset that the next record of a partition will have", |p| {
            p.log.log_end_offset().get().max(0) as u64
        }),
    ];
    for (name, help, figure) in families {
        page.family(name, help, Kind::Gauge).await?;
        let (mut left, mut topic) = (shown.most, None);
        while left > 0 {
            topic = shown.next(broker, topic.as_deref());
            let Some(topic) = &topic else { break };
            for index in 0..topic.partition_count() as i32 {
                let Some(partition) = topic.partition(index).filter(|_| left > 0) else { continue };
                left -= 1;
                let index = Small::of(index);
                page.value(&[("partition", index.as_str()), ("topic", &topic.name)], figure(&partition))
                    .await?;
            }
        }
    }
    let left_out = broker.topics.partition_count().saturating_sub(shown.most);
    let help = "Partitions that have no series of their own here: max.metric.partitions";
    page.gauge("weir_metrics_partitions_left_out", help, left_out).await
}
