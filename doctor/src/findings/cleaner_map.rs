//! The broker fails at its start because the log cleaner's map does not fit into a small heap.

use super::{Facts, Finding, Remedy, Severity, exact, text};
use crate::evidence::{MemoryKind, OutOfMemory};

/// Whether the failure is the cleaner's map.
pub(super) fn explains(failure: &OutOfMemory) -> bool {
    failure.kind == MemoryKind::Heap && failure.stack.iter().any(|frame| frame.contains("SkimpyOffsetMap"))
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> =
        facts.failures(MemoryKind::Heap).filter(|(_, failure)| explains(failure)).collect();
    if failures.is_empty() {
        return Vec::new();
    }
    let settings = facts.settings();
    let size = settings
        .map_or(134_217_728, |settings| settings.value.number("log.cleaner.dedupe.buffer.size").value);
    let size = u64::try_from(size).unwrap_or(0);
    let size_text = exact(size);
    let mut evidence: Vec<_> =
        failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    evidence.extend(settings.map(|settings| facts.setting_proof(settings, "log.cleaner.dedupe.buffer.size")));
    evidence.extend(facts.max_heap.iter().flat_map(|heap| heap.proofs.clone()));
    // Kafka wants at least 1 MiB a cleaner thread.
    let small: u64 = 16 << 20;
    vec![Finding {
        id: "cleaner-map",
        severity: Severity::Critical,
        title: text!(
            "The log cleaner's map of {size_text} bytes does not fit into the heap",
            "日志清理器 {size_text} 字节的映射放不进堆"
        ),
        cause: text!(
            "The log cleaner allocates log.cleaner.dedupe.buffer.size at the start of the broker, whole, also when nothing \
             is compacted.",
            "日志清理器在 Broker 启动时一次性分配 log.cleaner.dedupe.buffer.size，即使没有任何主题需要压缩。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "set log.cleaner.dedupe.buffer.size={small}, or raise -Xmx",
                    "设置 log.cleaner.dedupe.buffer.size={small}，或提高 -Xmx"
                ),
                true,
            )
            .frees(size.checked_sub(small))
            .caution(text!("a smaller map cleans fewer keys per pass", "映射越小，每轮能清理的键越少")),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn the_cleaners_map_is_recognised_by_its_stack() {
        let log = "java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.nio.ByteBuffer.allocate(ByteBuffer.java:363)\n\
                   \tat org.apache.kafka.storage.internals.log.SkimpyOffsetMap.<init>(SkimpyOffsetMap.java:1)\n";
        let found = one("cleaner-map", &[log, "-XX:MaxHeapSize=134217728\n"]).unwrap();
        assert_eq!(found.remedies[0].frees_bytes, Some(134_217_728 - (16 << 20)));
        assert_eq!(found.evidence.len(), 2);
        assert!(one("cleaner-map", &["java.lang.OutOfMemoryError: Java heap space\n"]).is_none());
    }
}
