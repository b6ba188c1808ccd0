//! The figures that matter, under one name each, whatever exporter spelt them: direct and mapped pools, heap, Kafka's
//! request memory pool, queues, idle ratios.

use std::collections::BTreeMap;

/// Most distinct series that are kept.
const MAX_SERIES: usize = 2048;
/// Most values that are kept one by one, of one metric.
const MAX_POINTS: usize = 16_384;
/// Longest label that is kept, in characters.
const MAX_LABEL: usize = 256;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Bytes that a buffer pool holds; the label is the pool, `direct` or `mapped`.
    BufferPoolUsed,
    /// Sum of the capacities of a pool's buffers, in bytes.
    BufferPoolCapacity,
    /// Buffers of a pool.
    BufferPoolCount,
    /// Kafka's request memory (KIP-72): bytes that may still be taken, `i64::MAX` when it is off.
    MemoryPoolAvailable,
    /// Kafka's request memory: bytes taken.
    MemoryPoolUsed,
    /// Kafka's request memory: share of time without any left, from 0 to 1.
    MemoryPoolAvgDepletedPercent,
    /// Kafka's request memory: time without any left, in nanoseconds or milliseconds by Kafka's version; only growth
    /// says something.
    MemoryPoolDepletedTimeTotal,
    /// Requests that wait for a request handler.
    RequestQueueSize,
    /// Responses that wait for a network thread.
    ResponseQueueSize,
    /// Idle share of the network threads, from 0 to 1.
    NetworkProcessorIdle,
    /// Idle share of the request handlers, from 0 to 1.
    RequestHandlerIdle,
    /// Remote reads that wait for a reader.
    RemoteReaderQueueSize,
    /// Idle share of the remote-log readers.
    RemoteReaderIdle,
    /// Bytes that lag behind in tiered storage.
    RemoteCopyLagBytes,
    /// Heap in use, in bytes.
    HeapUsed,
    /// What the heap may grow to, in bytes.
    HeapMax,
    /// Memory of the process as the kernel counts it.
    ResidentMemory,
    /// Threads of the JVM.
    Threads,
    /// When the process was started, since 1970; in seconds or milliseconds, by the exporter.
    ProcessStart,
}

/// One value as a scrape gave it, also one that is no number.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The value.
    pub value: f64,
    /// Its line.
    pub line: u64,
    /// Its time in milliseconds since 1970, where the scrape says it.
    pub at_ms: Option<i64>,
    /// What tells processes apart that are in one file: the labels that name neither metric nor pool. Mostly empty.
    pub target: String,
}

/// Whether the values of a metric are kept one by one: those that are judged over time.
fn has_history(metric: Metric, label: &str) -> bool {
    match metric {
        Metric::BufferPoolUsed | Metric::BufferPoolCount => label == "direct",
        Metric::ProcessStart => true,
        _ => false,
    }
}

/// What became of one figure over the scrapes of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series {
    /// The first value and its line.
    pub first: (f64, u64),
    /// The last value and its line.
    pub last: (f64, u64),
    /// The smallest value.
    pub min: f64,
    /// The largest value and its line.
    pub max: (f64, u64),
    /// Number of values.
    pub samples: u64,
}

/// Figures by metric and label.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// The label tells series of one metric apart: pool, listener, processor; often empty.
    pub series: BTreeMap<(Metric, String), Series>,
    /// Values one by one in the order of the file, of the few metrics that are judged over time.
    pub points: BTreeMap<Metric, Vec<Point>>,
    /// How Prometheus selects a metric of the pool `direct` or of the process, as this exporter spells it.
    pub selectors: BTreeMap<Metric, String>,
    /// The version of the JVM, where the exporter names it.
    pub java_version: Option<(String, u64)>,
    /// Samples read, also those that mean nothing here.
    pub samples: u64,
}

impl Metrics {
    /// The series of a metric that bears `label`.
    pub fn get(&self, metric: Metric, label: &str) -> Option<&Series> {
        self.series.get(&(metric, label.to_owned()))
    }

    /// All series of a metric.
    pub fn all(&self, metric: Metric) -> impl Iterator<Item = (&str, &Series)> {
        self.series
            .iter()
            .filter(move |((known, _), _)| *known == metric)
            .map(|((_, label), series)| (label.as_str(), series))
    }

    /// Takes a value with its time and the labels that tell processes apart; returns false when there is no room.
    pub(crate) fn observe(&mut self, metric: Metric, label: &str, mut point: Point) -> bool {
        let (value, line) = (point.value, point.line);
        if has_history(metric, label) {
            let points = self.points.entry(metric).or_default();
            if points.len() >= MAX_POINTS {
                return false;
            }
            if let Some((end, _)) = point.target.char_indices().nth(MAX_LABEL) {
                point.target.truncate(end);
            }
            points.push(point);
        }
        self.record(metric, label, value, line)
    }

    /// Notes how a metric is spelt, once.
    pub(crate) fn spelt(&mut self, metric: Metric, label: &str, selector: impl FnOnce() -> String) {
        let of_pool =
            matches!(metric, Metric::BufferPoolUsed | Metric::BufferPoolCapacity | Metric::BufferPoolCount);
        let wanted = if of_pool { label == "direct" } else { label.is_empty() };
        if wanted && !self.selectors.contains_key(&metric) {
            self.selectors.insert(metric, selector());
        }
    }

    /// Takes a value; returns false when there is no room for a new series.
    pub(crate) fn record(&mut self, metric: Metric, label: &str, value: f64, line: u64) -> bool {
        if value.is_nan() {
            return true;
        }
        let key = (metric, label.chars().take(128).collect::<String>());
        if let Some(series) = self.series.get_mut(&key) {
            series.last = (value, line);
            series.min = series.min.min(value);
            if value > series.max.0 {
                series.max = (value, line);
            }
            series.samples += 1;
            return true;
        }
        if self.series.len() >= MAX_SERIES {
            return false;
        }
        let at = (value, line);
        self.series.insert(key, Series { first: at, last: at, min: value, max: at, samples: 1 });
        true
    }
}

/// A value as a number of bytes: none for what is negative, infinite or no number.
pub fn as_bytes(value: f64) -> Option<u64> {
    // The cast saturates; 2^63 and more stand for "no limit" and keep being huge.
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

/// Lower-case letters and digits only: what all spellings of a name have in common.
pub(crate) fn squash(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// What a name means. `name` is the squashed metric name with the labels that name a metric; `label` looks up others.
pub(crate) fn classify<'l>(name: &str, label: impl Fn(&str) -> Option<&'l str>) -> Option<(Metric, String)> {
    // Before they were final, OpenTelemetry's names began in another way.
    let name = name.strip_prefix("processruntime").unwrap_or(name);
    let buffer_pool = name.starts_with("javanio") || name.starts_with("jvmbuffer");
    if buffer_pool {
        let pool = ["pool", "id", "name", "jvm_buffer_pool_name", "jvm.buffer.pool.name"]
            .iter()
            .find_map(|key| label(key));
        let pool = match pool {
            Some(pool) => pool.trim().to_owned(),
            // `mapped - 'non-volatile memory'` is a pool beside `mapped`.
            None if name.contains("nonvolatile") => return None,
            None => ["direct", "mapped"]
                .iter()
                .find(|pool| name.contains(*pool))
                .map(|pool| (*pool).to_owned())?,
        };
        let metric =
            if name.contains("capacity") || name.contains("memorylimit") || name.contains("bufferlimit") {
                Metric::BufferPoolCapacity
            } else if ["memoryused", "usedbytes", "memoryusage", "bufferusage"]
                .iter()
                .any(|word| name.contains(word))
            {
                Metric::BufferPoolUsed
            } else if name.contains("count") || name.contains("buffers") {
                Metric::BufferPoolCount
            } else {
                return None;
            };
        return Some((metric, pool));
    }
    let plain = |metric| Some((metric, String::new()));
    for (word, metric) in [
        ("memorypoolavgdepletedpercent", Metric::MemoryPoolAvgDepletedPercent),
        ("memorypooldepletedtimetotal", Metric::MemoryPoolDepletedTimeTotal),
        ("memorypoolavailable", Metric::MemoryPoolAvailable),
        ("memorypoolused", Metric::MemoryPoolUsed),
        ("remotelogreadertaskqueuesize", Metric::RemoteReaderQueueSize),
        ("remotelogreaderavgidlepercent", Metric::RemoteReaderIdle),
        ("networkprocessoravgidlepercent", Metric::NetworkProcessorIdle),
        ("requesthandleravgidlepercent", Metric::RequestHandlerIdle),
        ("remotecopylagbytes", Metric::RemoteCopyLagBytes),
        ("requestqueuesize", Metric::RequestQueueSize),
        ("responsequeuesize", Metric::ResponseQueueSize),
    ] {
        if let Some((head, tail)) = name.split_once(word) {
            // A meter has a count and rates over longer times too; only the present counts.
            if !matches!(tail, "" | "value" | "oneminuterate") {
                return None;
            }
            let mut parts: Vec<&str> =
                ["topic", "processor", "networkprocessor", "networkProcessor", "listener", "instance"]
                    .iter()
                    .filter_map(|key| label(key))
                    .collect();
            // From Kafka 4.0 on broker and controller have handlers of their own beside the figure for all.
            if metric == Metric::RequestHandlerIdle {
                parts.extend(["broker", "controller"].iter().filter(|pool| head.ends_with(*pool)));
            }
            return Some((metric, parts.join("/")));
        }
    }
    let heap_only = label("area").is_none_or(|area| area == "heap") && !name.contains("nonheap");
    // Micrometer and others split the heap by pool; parts are no total.
    let whole = label("id").is_none() && label("pool").is_none() && label("jvm_memory_pool_name").is_none();
    match name {
        "processresidentmemorybytes" => plain(Metric::ResidentMemory),
        "processstarttimeseconds"
        | "processstarttime"
        | "javalangruntimestarttime"
        | "javalangtyperuntimestarttime" => plain(Metric::ProcessStart),
        "jvmthreadscurrent"
        | "jvmthreadslivethreads"
        | "javalangthreadingthreadcount"
        | "javalangtypethreadingthreadcount" => plain(Metric::Threads),
        _ if name.ends_with("heapmemoryusageused") && heap_only => plain(Metric::HeapUsed),
        _ if name.ends_with("heapmemoryusagemax") && heap_only => plain(Metric::HeapMax),
        "jvmmemoryusedbytes" | "jvmmemorybytesused" if whole && label("area") == Some("heap") => {
            plain(Metric::HeapUsed)
        }
        "jvmmemorymaxbytes" | "jvmmemorybytesmax" if whole && label("area") == Some("heap") => {
            plain(Metric::HeapMax)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(name: &str, labels: &[(&str, &str)]) -> Option<(Metric, String)> {
        classify(&squash(name), |key| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value))
    }

    #[test]
    fn every_spelling_of_the_direct_pool_is_one_metric() {
        let direct = |metric| Some((metric, "direct".to_owned()));
        for (name, labels, metric) in [
            ("jvm_buffer_pool_used_bytes", &[("pool", "direct")][..], Metric::BufferPoolUsed),
            ("jvm_buffer_pool_capacity_bytes", &[("pool", "direct")], Metric::BufferPoolCapacity),
            ("jvm_buffer_pool_used_buffers", &[("pool", "direct")], Metric::BufferPoolCount),
            ("java_nio_direct_memoryused", &[], Metric::BufferPoolUsed),
            ("java_nio_direct_totalcapacity", &[], Metric::BufferPoolCapacity),
            ("java_nio_direct_count", &[], Metric::BufferPoolCount),
            ("java_nio_BufferPool_MemoryUsed", &[("name", "direct")], Metric::BufferPoolUsed),
            ("jvm_buffer_memory_used_bytes", &[("id", "direct")], Metric::BufferPoolUsed),
            ("jvm_buffer_total_capacity_bytes", &[("id", "direct")], Metric::BufferPoolCapacity),
            ("jvm_buffer_count_buffers", &[("id", "direct")], Metric::BufferPoolCount),
            ("jvm.buffer.memory.used", &[("jvm.buffer.pool.name", "direct")], Metric::BufferPoolUsed),
            ("jvm_buffer_memory_used_bytes", &[("jvm_buffer_pool_name", "direct")], Metric::BufferPoolUsed),
            ("java.nio:type=BufferPool,name=direct:MemoryUsed", &[], Metric::BufferPoolUsed),
            ("java.nio:type=BufferPool,name=direct:TotalCapacity", &[], Metric::BufferPoolCapacity),
            ("java.nio:type=BufferPool,name=direct:Count", &[], Metric::BufferPoolCount),
            (
                "jvm_buffer_memory_limit_bytes",
                &[("jvm_buffer_pool_name", "direct")],
                Metric::BufferPoolCapacity,
            ),
            ("jvm_buffer_count", &[("jvm_buffer_pool_name", "direct")], Metric::BufferPoolCount),
            ("jvm.buffer.count", &[("jvm.buffer.pool.name", "direct")], Metric::BufferPoolCount),
            ("process_runtime_jvm_buffer_usage_bytes", &[("pool", "direct")], Metric::BufferPoolUsed),
            ("process_runtime_jvm_buffer_limit_bytes", &[("pool", "direct")], Metric::BufferPoolCapacity),
            ("process_runtime_jvm_buffer_count", &[("pool", "direct")], Metric::BufferPoolCount),
            ("jvm.buffer.memory.usage", &[("pool", "direct")], Metric::BufferPoolUsed),
        ] {
            assert_eq!(meaning(name, labels), direct(metric), "{name}");
        }
    }

    #[test]
    fn kafkas_figures_are_known_as_beans_and_as_exported() {
        let available = Some((Metric::MemoryPoolAvailable, String::new()));
        assert_eq!(meaning("kafka.network:type=SocketServer,name=MemoryPoolAvailable:Value", &[]), available);
        assert_eq!(meaning("kafka_network_socketserver_memorypoolavailable", &[]), available);
        assert_eq!(
            meaning("kafka.server:type=socket-server-metrics:MemoryPoolAvgDepletedPercent", &[]).unwrap().0,
            Metric::MemoryPoolAvgDepletedPercent
        );
        assert_eq!(
            meaning("kafka_network_requestchannel_responsequeuesize", &[("processor", "1")]),
            Some((Metric::ResponseQueueSize, "1".to_owned()))
        );
        let idle = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent:";
        assert_eq!(meaning(&format!("{idle}OneMinuteRate"), &[]).unwrap().0, Metric::RequestHandlerIdle);
        assert_eq!(meaning(&format!("{idle}Count"), &[]), None);
    }

    /// Beans of Kafka as its documentation names them, and as the exporter writes them: bare, and with its example rules.
    #[test]
    fn every_figure_of_kafka_is_known_in_every_spelling() {
        for (bean, bare, with_rules, metric) in [
            (
                "kafka.network:type=SocketServer,name=MemoryPoolAvailable:Value",
                "kafka_network_SocketServer_Value",
                "kafka_network_socketserver_memorypoolavailable",
                Metric::MemoryPoolAvailable,
            ),
            (
                "kafka.network:type=SocketServer,name=MemoryPoolUsed:Value",
                "kafka_network_SocketServer_Value",
                "kafka_network_socketserver_memorypoolused",
                Metric::MemoryPoolUsed,
            ),
            (
                "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent:Value",
                "kafka_network_SocketServer_Value",
                "kafka_network_socketserver_networkprocessoravgidle_percent",
                Metric::NetworkProcessorIdle,
            ),
            (
                "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent:OneMinuteRate",
                "kafka_server_KafkaRequestHandlerPool_OneMinuteRate",
                "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                Metric::RequestHandlerIdle,
            ),
            (
                "kafka.network:type=RequestChannel,name=RequestQueueSize:Value",
                "kafka_network_RequestChannel_Value",
                "kafka_network_requestchannel_requestqueuesize",
                Metric::RequestQueueSize,
            ),
            (
                "kafka.network:type=RequestChannel,name=ResponseQueueSize:Value",
                "kafka_network_RequestChannel_Value",
                "kafka_network_requestchannel_responsequeuesize",
                Metric::ResponseQueueSize,
            ),
            (
                "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool,name=RemoteLogReaderTaskQueueSize:Value",
                "org_apache_kafka_storage_internals_log_RemoteStorageThreadPool_Value",
                "kafka_storage_remotestoragethreadpool_remotelogreadertaskqueuesize",
                Metric::RemoteReaderQueueSize,
            ),
            (
                "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool,name=RemoteLogReaderAvgIdlePercent:Value",
                "org_apache_kafka_storage_internals_log_RemoteStorageThreadPool_Value",
                "kafka_storage_remotestoragethreadpool_remotelogreaderavgidle_percent",
                Metric::RemoteReaderIdle,
            ),
            (
                "kafka.server:type=BrokerTopicMetrics,name=RemoteCopyLagBytes:Value",
                "kafka_server_BrokerTopicMetrics_Value",
                "kafka_server_brokertopicmetrics_remotecopylagbytes",
                Metric::RemoteCopyLagBytes,
            ),
            (
                "kafka.server:type=socket-server-metrics:MemoryPoolAvgDepletedPercent",
                "kafka_server_socket_server_metrics_MemoryPoolAvgDepletedPercent",
                "kafka_server_socket_server_metrics_memorypoolavgdepletedpercent",
                Metric::MemoryPoolAvgDepletedPercent,
            ),
            (
                "kafka.server:type=socket-server-metrics:MemoryPoolDepletedTimeTotal",
                "kafka_server_socket_server_metrics_MemoryPoolDepletedTimeTotal",
                "kafka_server_socket_server_metrics_memorypooldepletedtimetotal",
                Metric::MemoryPoolDepletedTimeTotal,
            ),
        ] {
            let name = bean.split_once("name=").and_then(|(_, rest)| rest.split(':').next());
            let labels = name.map_or(String::new(), |name| format!("{{name=\"{name}\",}}"));
            let texts = [format!("{bare}{labels} 0.5\n"), format!("{with_rules} 0.5\n")];
            for text in texts {
                let (found, problems) = crate::evidence::parse_text::<
                    crate::evidence::parsers::PrometheusParser,
                >(text.as_bytes());
                assert_eq!(problems, [], "{text}");
                assert_eq!(found.get(metric, "").map(|series| series.last.0), Some(0.5), "{text}: {found:?}");
            }
            let text = format!("{bean}=0.5\n");
            let (found, _) =
                crate::evidence::parse_text::<crate::evidence::parsers::JmxParser>(text.as_bytes());
            assert_eq!(found.get(metric, "").map(|series| series.last.0), Some(0.5), "{text}: {found:?}");
        }
    }

    #[test]
    fn counts_and_longer_rates_are_no_present_value() {
        let text = "kafka_server_KafkaRequestHandlerPool_Count{name=\"RequestHandlerAvgIdlePercent\",} 6.6E9\n\
                    kafka_server_KafkaRequestHandlerPool_FiveMinuteRate{name=\"RequestHandlerAvgIdlePercent\",} 0.3\n\
                    kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name=\"RequestHandlerAvgIdlePercent\",} 0.9\n\
                    kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name=\"BrokerRequestHandlerAvgIdlePercent\",} 0.8\n\
                    kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count_total 6.6E9\n\
                    java_nio_mapped_Count{type=\"BufferPool\",} 7.0\n\
                    java_nio_mapped_non_volatile_memory_Count{type=\"BufferPool\",} 0.0\n";
        let (found, _) =
            crate::evidence::parse_text::<crate::evidence::parsers::PrometheusParser>(text.as_bytes());
        let idle: Vec<_> =
            found.all(Metric::RequestHandlerIdle).map(|(part, series)| (part, series.last.0)).collect();
        assert_eq!(idle, [("", 0.9), ("broker", 0.8)]);
        assert_eq!(found.get(Metric::BufferPoolCount, "mapped").unwrap().last.0, 7.0);
    }

    #[test]
    fn parts_of_the_heap_are_not_taken_for_the_heap() {
        assert_eq!(meaning("jvm_memory_max_bytes", &[("area", "heap")]).unwrap().0, Metric::HeapMax);
        assert_eq!(meaning("jvm_memory_max_bytes", &[("area", "heap"), ("id", "G1 Old Gen")]), None);
        assert_eq!(meaning("jvm_memory_max_bytes", &[("area", "nonheap")]), None);
        assert_eq!(meaning("java_lang_Memory_HeapMemoryUsage_max", &[]).unwrap().0, Metric::HeapMax);
        assert_eq!(meaning("java_lang_Memory_NonHeapMemoryUsage_max", &[]), None);
    }

    #[test]
    fn values_over_time_keep_their_order_and_what_they_are_not() {
        let mut metrics = Metrics::default();
        let point = |value, line| Point { value, line, at_ms: Some(5), target: "é".repeat(MAX_LABEL + 9) };
        for (line, value) in [(1, 5.0), (2, f64::NAN), (3, 1e308), (4, -1.0)] {
            assert!(metrics.observe(Metric::BufferPoolUsed, "direct", point(value, line)));
            assert!(metrics.observe(Metric::BufferPoolUsed, "mapped", point(value, line)));
        }
        let points = &metrics.points[&Metric::BufferPoolUsed];
        assert_eq!(points.iter().map(|point| point.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(points[1].value.is_nan() && points[0].target.chars().count() == MAX_LABEL);
        for line in 5..=MAX_POINTS as u64 {
            assert!(metrics.observe(Metric::BufferPoolUsed, "direct", point(1.0, line)));
        }
        assert!(!metrics.observe(Metric::BufferPoolUsed, "direct", point(1.0, 0)));
    }

    #[test]
    fn a_series_keeps_its_ends_and_extremes() {
        let mut metrics = Metrics::default();
        for (line, value) in [(1, 5.0), (2, 9.0), (3, f64::NAN), (4, 2.0)] {
            assert!(metrics.record(Metric::HeapUsed, "", value, line));
        }
        let series = metrics.get(Metric::HeapUsed, "").unwrap();
        assert_eq!(
            (series.first, series.last, series.min, series.max, series.samples),
            ((5.0, 1), (2.0, 4), 2.0, (9.0, 2), 3)
        );
        assert_eq!(as_bytes(9.223_372_036_854_776E18), Some(1 << 63));
        assert_eq!(as_bytes(-1.0), None);
        assert_eq!(as_bytes(f64::INFINITY), None);
    }
}
