//! From JDK 24 on temporary buffers are outside the direct pool's books and outside its limit: only native memory
//! tracking sees them.

use super::{Cited, Facts, Finding, Remedy, Severity, exact, human, text};

/// First JDK whose temporary buffers are not counted.
const FIRST_JDK: u32 = 24;
/// Less is noise: other native memory is in the category too.
const LEAST_BYTES: u64 = 32 << 20;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(native) = facts.native_memory() else { return Vec::new() };
    let Some(other) = native.value.categories.get("Other") else { return Vec::new() };
    let Some(java) = facts.java.as_ref().filter(|java| java.value >= FIRST_JDK) else { return Vec::new() };
    // Without the pool's own figure its limit is the most that it can hold.
    let limit =
        || facts.limit.as_ref().map(|limit| Cited { value: limit.value.0, proofs: limit.proofs.clone() });
    let Some(pool) = facts.pool_used.clone().or_else(limit) else { return Vec::new() };
    let hidden = other.committed.saturating_sub(pool.value);
    if hidden < LEAST_BYTES.max(pool.value / 10) {
        return Vec::new();
    }
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
    vec![Finding {
        id: "uncounted-buffers",
        severity: Severity::Warning,
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
        remedies: vec![
            Remedy::new(
                text!(
                    "start the broker with -Djdk.nio.maxCachedBufferSize=1048576",
                    "以 -Djdk.nio.maxCachedBufferSize=1048576 启动"
                ),
                true,
            )
            .frees(Some(hidden))
            .caution(text!("at most 1 MiB a thread stays", "每个线程最多还保留 1 MiB")),
            Remedy::new(
                text!(
                    "size the container for the sum of `weir plan --jvm` on top of heap and pool, and watch the process's memory",
                    "容器限额按堆与池之外再加 `weir plan --jvm` 的总和来定，并监控进程内存"
                ),
                true,
            ),
        ],
    }]
}

#[cfg(test)]
mod tests {
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
        assert_eq!(found.evidence.len(), 3);
    }

    #[test]
    fn older_jdks_and_equal_books_are_fine() {
        assert!(one("uncounted-buffers", &[&native(646_175), POOL, "java.version=17.0.15\n"]).is_none());
        assert!(one("uncounted-buffers", &[&native(84_500), POOL, "java.version=25.0.3\n"]).is_none());
        assert!(one("uncounted-buffers", &[&native(646_175), "java.version=25.0.3\n"]).is_none());
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
