//! Kafka's request memory (KIP-72) runs dry: clients wait until others have finished.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::Metric;

/// Below this share of the time a dry pool is a moment of load.
const OFTEN: f64 = 0.01;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut evidence = Vec::new();
    let mut queue_is_empty = false;
    let mut often = false;
    for found in &facts.evidence.metrics {
        for (_, series) in found.value.all(Metric::MemoryPoolAvgDepletedPercent) {
            if series.max.0 > 0.0 {
                often |= series.max.0 >= OFTEN;
                let says = format!("MemoryPoolAvgDepletedPercent = {}", series.max.0);
                evidence.push(facts.proof(found.file, series.max.1, says));
            }
        }
        for (_, series) in found.value.all(Metric::MemoryPoolAvailable) {
            if series.min <= 0.0 {
                often |= series.last.0 <= 0.0;
                evidence.push(facts.proof(
                    found.file,
                    series.last.1,
                    text!(
                        "MemoryPoolAvailable was {least}",
                        "MemoryPoolAvailable 曾为 {least}",
                        least = series.min
                    ),
                ));
            }
        }
        let mut queues = found.value.all(Metric::RequestQueueSize).peekable();
        queue_is_empty |= queues.peek().is_some() && queues.all(|(_, series)| series.last.0 == 0.0);
    }
    if evidence.is_empty() {
        return Vec::new();
    }
    let cause = if queue_is_empty {
        text!(
            "The pool is taken while no request waits for a handler: the bytes belong to requests that have not arrived \
             yet. A client that sends a size and stalls holds that much until connections.max.idle.ms.",
            "池被占满，但没有请求在等待处理线程：这些字节属于尚未收全的请求。客户端声明长度后停住，会一直占用到 connections.max.idle.ms。"
        )
    } else {
        text!(
            "queued.max.request.bytes is smaller than what the clients send at once: while the pool is dry no connection \
             is read, each check costs up to 300 ms.",
            "queued.max.request.bytes 小于客户端同时发送的量：池耗尽时不读取任何连接，每次检查最多耗时 300 毫秒。"
        )
    };
    vec![Finding {
        id: "request-pool-depleted",
        severity: if often { Severity::Warning } else { Severity::Note },
        title: text!(
            "Kafka's request memory runs dry and stops reading from clients",
            "Kafka 的请求内存耗尽，停止读取客户端"
        ),
        cause,
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "raise queued.max.request.bytes as far as the heap allows",
                    "在堆允许的范围内提高 queued.max.request.bytes"
                ),
                true,
            ),
            Remedy::new(
                text!(
                    "lower connections.max.idle.ms and set max.connections.per.ip against clients that stall",
                    "降低 connections.max.idle.ms 并设置 max.connections.per.ip，防范停滞的客户端"
                ),
                true,
            ),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn a_dry_pool_is_found_and_stalled_uploads_are_told_from_load() {
        let dry = "kafka.server:type=socket-server-metrics:MemoryPoolAvgDepletedPercent=0.4\n";
        let found = one("request-pool-depleted", &[dry]).unwrap();
        assert!(found.cause.en.contains("smaller than what the clients send"));
        let idle = format!("{dry}kafka.network:type=RequestChannel,name=RequestQueueSize:Value=0\n");
        assert!(one("request-pool-depleted", &[&idle]).unwrap().cause.en.contains("have not arrived"));
        let labelled = "# TYPE x gauge\nkafka_server_socket_server_metrics_memorypoolavgdepletedpercent{instance=\"a\"} 0.4\n\
                        kafka_network_requestchannel_requestqueuesize{instance=\"a\"} 0\n";
        assert!(one("request-pool-depleted", &[labelled]).unwrap().cause.en.contains("have not arrived"));
        let negative = "kafka_network_socketserver_memorypoolavailable -5\n";
        assert_eq!(one("request-pool-depleted", &[negative]).unwrap().severity, Severity::Warning);
        // One dry moment of a broker that is well again.
        let moment = "kafka_server_socket_server_metrics_memorypoolavgdepletedpercent 0.0003\n";
        assert_eq!(one("request-pool-depleted", &[moment]).unwrap().severity, Severity::Note);
    }

    #[test]
    fn a_pool_with_room_is_fine() {
        let text = "kafka_network_socketserver_memorypoolavailable 5000\nkafka_server_socket_server_metrics_memorypoolavgdepletedpercent 0.0\n";
        assert!(one("request-pool-depleted", &[text]).is_none());
    }
}
