//! Results of tiered reads wait on the heap for their consumers: up to a whole fetch each.

use super::{Facts, Finding, Remedy, Severity, TRANSFER_BYTES, exact, human, text};

const CLASS: &str = "DelayedRemoteFetch";

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(heap) = &facts.max_heap else { return Vec::new() };
    let Some((file, row, name)) = facts.most_instances(CLASS) else { return Vec::new() };
    let settings = facts.settings();
    let each = settings.map_or(57_671_680, |settings| settings.value.number("fetch.max.bytes").value);
    let each = u64::try_from(each).unwrap_or(0);
    let bytes = row.instances.saturating_mul(each);
    if bytes < heap.value / 4 {
        return Vec::new();
    }
    let mut evidence = vec![facts.proof(file, row.line, format!("{} × {name}", row.instances))];
    evidence.extend(settings.map(|settings| facts.setting_proof(settings, "fetch.max.bytes")));
    evidence.extend(heap.proofs.iter().cloned());
    let (count, each_text, size, total) =
        (exact(row.instances), exact(each), human(bytes), human(heap.value));
    vec![Finding {
        id: "remote-fetch-results",
        severity: if bytes >= heap.value { Severity::Warning } else { Severity::Note },
        title: text!(
            "{count} tiered reads may hold up to {size} of a heap of {total}",
            "{count} 个分层读取最多可占用 {total} 堆中的 {size}"
        ),
        cause: text!(
            "Each tiered read allocates its whole fetch on the heap, up to {each_text} bytes, also when the segment has \
             less; finished ones wait in purgatory, queue or socket, at most one for each connection, and no thread count \
             bounds them.",
            "每次分层读取都会在堆上按整次拉取分配，最多 {each_text} 字节，即使段尾没有那么多；完成后还在 purgatory、队列或套接字中等待，\
             每个连接最多一个，线程数限制不了它们。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "lower fetch.max.bytes to {TRANSFER_BYTES}, or max.partition.fetch.bytes of the consumers",
                    "把 fetch.max.bytes 降到 {TRANSFER_BYTES}，或降低消费者的 max.partition.fetch.bytes"
                ),
                true,
            )
            .frees(Some(row.instances.saturating_mul(each.saturating_sub(TRANSFER_BYTES))))
            .caution(text!(
                "a release with KAFKA-19763 keeps results longer than they are needed: update as well",
                "受 KAFKA-19763 影响的版本会过久保留结果：请同时升级"
            )),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn waiting_results_are_weighed_against_the_heap() {
        let in_package = |package: &str, count: u64| {
            format!(
                " num     #instances         #bytes  class name (module)\n   1: {count} 16 {package}.DelayedRemoteFetch\n\
                 \x20  2: 999 16 {package}.DelayedRemoteFetchMetrics\nTotal 9 9\n"
            )
        };
        let histogram = |count: u64| in_package("kafka.server", count);
        let heap = "-XX:MaxHeapSize=1073741824\n";
        let found = one("remote-fetch-results", &[&histogram(40), heap]).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(found.remedies[0].frees_bytes, Some(40 * (57_671_680 - (16 << 20))));
        // Where Kafka 4 has the class.
        let newer = in_package("org.apache.kafka.server.purgatory", 40);
        assert!(one("remote-fetch-results", &[&newer, heap]).unwrap().title.en.contains("40 tiered reads"));
        assert!(
            found.title.en.contains("40 tiered reads may hold up to 2.15 GiB of a heap of 1.00 GiB"),
            "{found:?}"
        );
        assert_eq!(one("remote-fetch-results", &[&histogram(6), heap]).unwrap().severity, Severity::Note);
        assert!(one("remote-fetch-results", &[&histogram(2), heap]).is_none());
        assert!(one("remote-fetch-results", &[&histogram(40), heap, "fetch.max.bytes=1048576\n"]).is_none());
    }
}
