//! From JDK 24 on temporary buffers are outside the direct pool's books and outside its limit: only native memory
//! tracking sees them.

use super::{CAP_BYTES, Cited, Facts, Finding, Remedy, Severity, exact, human, text};

/// Less is noise: other native memory is in the category too.
const LEAST_BYTES: u64 = 32 << 20;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(native) = facts.native_memory() else { return Vec::new() };
    let Some(other) = native.value.categories.get("Other") else { return Vec::new() };
    let Some(java) = facts.java_that_counts_no_temporary() else { return Vec::new() };
    // Without the pool's own figure its limit is the most that it can hold.
    let limit =
        || facts.limit.as_ref().map(|limit| Cited { value: limit.value.0, proofs: limit.proofs.clone() });
    let Some(pool) = facts.pool_used.clone().or_else(limit) else { return Vec::new() };
    let hidden = other.committed.saturating_sub(pool.value);
    if hidden < LEAST_BYTES.max(pool.value / 10) {
        return Vec::new();
    }
    // Beside a large heap a few buffers are nothing; where the heap is not known they may be all there is.
    let room =
        facts.max_heap.as_ref().map(|heap| heap.value).or(facts.limit.as_ref().map(|limit| limit.value.0));
    let much = room.is_none_or(|room| hidden >= room / 4);
    let capped = facts.max_cached_buffer().is_some_and(|cap| cap <= CAP_BYTES);
    let mut evidence = vec![facts.proof(
        native.file,
        other.line,
        text!(
            "Other: committed={bytes} bytes",
            "Other：committed={bytes} 字节",
            bytes = exact(other.committed)
        ),
    )];
    evidence.extend(pool.proofs.iter().chain(&java.proofs).cloned());
    let (hidden_text, exact_hidden, jdk) = (human(hidden), exact(hidden), java.value);
    let cap = (!capped).then(|| {
        Remedy::new(
            text!(
                "start the broker with -Djdk.nio.maxCachedBufferSize={CAP_BYTES}",
                "以 -Djdk.nio.maxCachedBufferSize={CAP_BYTES} 启动"
            ),
            true,
        )
        .frees(Some(hidden))
        .caution(text!(
            "at most 1 MiB a buffer stays with a thread; what else is in the figure stays too",
            "线程保留的每个缓冲区最多 1 MiB；该数字中的其他部分不变"
        ))
    });
    vec![Finding {
        id: "uncounted-buffers",
        severity: if much { Severity::Warning } else { Severity::Note },
        title: text!(
            "At least {hidden_text} ({exact_hidden} bytes) of native memory are in no pool metric and under no limit",
            "至少 {hidden_text}（{exact_hidden} 字节）的本地内存既不在任何池指标中，也不受任何上限约束"
        ),
        cause: text!(
            "JDK {jdk} takes the temporary buffers of I/O from the system directly. Each thread still keeps its largest \
             one, but neither the direct pool's metrics nor MaxDirectMemorySize know of it: the end is the container's \
             kill, not an OutOfMemoryError. Other users of native memory are in the same figure.",
            "JDK {jdk} 的 I/O 临时缓冲区直接向系统申请。每个线程仍保留最大的一块，但直接内存池的指标与 MaxDirectMemorySize 都看不到它：\
             结局是容器被杀，而不是 OutOfMemoryError。该数字也包含其他使用本地内存的部分。"
        ),
        evidence,
        remedies: cap
            .into_iter()
            .chain([Remedy::new(
                text!(
                    "size the container for the sum of `weir plan --jvm` on top of heap and pool, and watch the process's memory",
                    "容器限额按堆与池之外再加 `weir plan --jvm` 的总和来定，并监控进程内存"
                ),
                true,
            )])
            .collect(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    fn native(kib: u64) -> String {
        format!(
            "Native Memory Tracking:\nTotal: reserved=2000000KB, committed=900000KB\n\
             -                     Other (reserved={kib}KB, committed={kib}KB)\n      (malloc={kib}KB tag=Other #46) (at peak)\n"
        )
    }
    const POOL: &str = "jvm_buffer_pool_used_bytes{pool=\"direct\"} 85983237\n";

    #[test]
    fn what_tracking_sees_and_the_pool_does_not_is_named() {
        let found = one("uncounted-buffers", &[&native(646_175), POOL, "java.version=25.0.3\n"]).unwrap();
        assert!(found.title.en.contains("575,699,963 bytes"), "{found:?}");
        assert_eq!((found.evidence.len(), found.severity), (3, Severity::Warning));
        assert_eq!(found.remedies[0].frees_bytes, Some(575_699_963));
        let set = "java.version=25.0.3\njdk.nio.maxCachedBufferSize=1048576\n";
        let found = one("uncounted-buffers", &[&native(646_175), POOL, set]).unwrap();
        assert!(found.remedies.iter().all(|remedy| remedy.frees_bytes.is_none()), "{found:?}");
    }

    #[test]
    fn older_jdks_and_equal_books_are_fine() {
        assert!(one("uncounted-buffers", &[&native(646_175), POOL, "java.version=17.0.15\n"]).is_none());
        assert!(one("uncounted-buffers", &[&native(84_500), POOL, "java.version=25.0.3\n"]).is_none());
        assert!(one("uncounted-buffers", &[&native(646_175), "java.version=25.0.3\n"]).is_none());
    }

    #[test]
    fn a_little_beside_a_large_heap_is_a_note() {
        let (heap, java) = ("-XX:MaxHeapSize=6442450944\n", "java.version=25.0.3\n");
        let found = one("uncounted-buffers", &[&native(150_000), POOL, java, heap]).unwrap();
        assert_eq!(found.severity, Severity::Note);
    }

    #[test]
    fn more_than_the_limit_allows_cannot_be_the_pool() {
        let limit = |bytes: u64| format!("-XX:MaxDirectMemorySize={bytes}\n");
        let java = "java.version=25.0.3\n";
        let found = one("uncounted-buffers", &[&native(164_147), &limit(100_663_296), java]).unwrap();
        assert!(found.title.en.contains("67,423,232 bytes"), "{found:?}");
        assert!(one("uncounted-buffers", &[&native(164_147), &limit(1 << 30), java]).is_none());
    }
}
