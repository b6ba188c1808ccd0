//! Nothing bounds the bytes of requests on the heap: `queued.max.request.bytes` is off, as it is by default (KIP-72).

use super::{Facts, Finding, Remedy, Severity, exact, text};
use crate::evidence::{MemoryKind, Metric};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut evidence = Vec::new();
    for found in &facts.evidence.metrics {
        for (_, series) in found.value.all(Metric::MemoryPoolAvailable) {
            // Without a pool the gauge says Long.MAX_VALUE.
            if series.last.0 >= i64::MAX as f64 {
                evidence.push(facts.proof(
                    found.file,
                    series.last.1,
                    "MemoryPoolAvailable = 9223372036854775807",
                ));
            }
        }
    }
    let settings = facts.settings();
    if let Some(settings) = settings {
        let number = settings.value.number("queued.max.request.bytes");
        if number.value > 0 && evidence.is_empty() {
            return Vec::new();
        }
        if number.value <= 0 {
            evidence.push(facts.setting_proof(settings, "queued.max.request.bytes"));
        }
    }
    if evidence.is_empty() {
        return Vec::new();
    }
    let number =
        |name: &str, default: i64| settings.map_or(default, |settings| settings.value.number(name).value);
    let request = number("socket.request.max.bytes", 104_857_600);
    let request = u64::try_from(request).unwrap_or(0);
    let queue = u64::try_from(number("queued.max.requests", 500)).unwrap_or(0);
    let (worst, request_text) = (exact(queue.saturating_mul(request)), exact(request));
    // What the pool would hand out at most, with the least that Kafka accepts.
    let bounded = exact(request.saturating_mul(2).saturating_sub(1));
    let heap_failed = facts.failures(MemoryKind::Heap).next().is_some();
    evidence
        .extend(facts.failures(MemoryKind::Heap).map(|(file, failure)| facts.failure_proof(file, failure)));
    vec![Finding {
        id: "request-memory-unbounded",
        severity: if heap_failed { Severity::Warning } else { Severity::Note },
        title: text!(
            "No limit on the bytes of requests: {worst} bytes may wait in the queue alone",
            "请求字节数没有上限：仅队列中就可能有 {worst} 字节"
        ),
        cause: text!(
            "Kafka counts queued requests, not their bytes: {queue} requests of up to {request_text} bytes, and one more \
             for each connection that is still sending.",
            "Kafka 只限制排队请求的个数而不限字节：{queue} 个请求，每个最多 {request_text} 字节，每个仍在发送的连接还要再加一个。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "set queued.max.request.bytes={request}: then at most {bounded} bytes are out at once",
                    "设置 queued.max.request.bytes={request}：同时占用最多 {bounded} 字节"
                ),
                true,
            )
            .caution(text!(
                "bounds heap only: the direct copies of the same requests stay",
                "只限制堆：同一请求的直接内存副本依旧存在"
            )),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn the_missing_pool_is_a_note_and_with_a_full_heap_a_warning() {
        let gauge = "kafka_network_socketserver_memorypoolavailable 9.223372036854775807E18\n";
        assert_eq!(one("request-memory-unbounded", &[gauge]).unwrap().severity, Severity::Note);
        let found = one("request-memory-unbounded", &["num.io.threads=8\n"]).unwrap();
        assert!(found.title.en.contains("52,428,800,000 bytes"), "{found:?}");
        assert!(found.remedies[0].action.en.contains("at most 209,715,199 bytes"), "{found:?}");
        let heap = "java.lang.OutOfMemoryError: Java heap space\n";
        assert_eq!(one("request-memory-unbounded", &[gauge, heap]).unwrap().severity, Severity::Warning);
    }

    #[test]
    fn a_pool_that_is_set_is_fine() {
        assert!(one("request-memory-unbounded", &["queued.max.request.bytes=209715200\n"]).is_none());
        assert!(
            one("request-memory-unbounded", &["kafka_network_socketserver_memorypoolavailable 104857600\n"])
                .is_none()
        );
    }
}
