//! Files cannot be mapped any more: the system's limit on maps per process, which index files use up.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::{MemoryKind, Metric};

/// The kernel's default of `vm.max_map_count`.
const DEFAULT_MAPS: u64 = 65_530;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::Map).collect();
    let allowed = facts.kernel("vm.max_map_count", |kernel| kernel.max_maps);
    let limit = allowed.as_ref().map_or(DEFAULT_MAPS, |allowed| allowed.value);
    let mapped = facts
        .kernel(text!("maps of the process", "进程的内存映射数"), |kernel| kernel.maps)
        .or_else(|| facts.metric(Metric::BufferPoolCount, "mapped"));
    let near = mapped.as_ref().filter(|mapped| mapped.value >= limit / 10 * 8);
    if failures.is_empty() && near.is_none() {
        return Vec::new();
    }
    let mut evidence: Vec<_> =
        failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    evidence.extend([&mapped, &allowed].into_iter().flatten().flat_map(|figure| figure.proofs.clone()));
    let maps = mapped.as_ref().map_or(String::new(), |mapped| format!(" ({})", mapped.value));
    let raised = mapped.as_ref().map_or(0, |mapped| mapped.value).max(limit).saturating_mul(2).max(262_144);
    let elsewhere = !failures.is_empty() && mapped.is_some() && near.is_none();
    let (severity, title) = if elsewhere {
        (
            Severity::Critical,
            text!(
                "Files could not be mapped, and the {count} maps in the evidence are far from vm.max_map_count = {limit}",
                "文件映射失败，而证据中的 {count} 个映射离 vm.max_map_count = {limit} 还很远",
                count = mapped.as_ref().map_or(0, |mapped| mapped.value)
            ),
        )
    } else if !failures.is_empty() {
        (
            Severity::Critical,
            text!(
                "Files can no longer be mapped: vm.max_map_count is reached{maps}",
                "文件无法再被映射：已达到 vm.max_map_count{maps}"
            ),
        )
    } else if allowed.is_some() {
        (
            Severity::Warning,
            text!(
                "The maps of index files{maps} come near vm.max_map_count = {limit}",
                "索引文件的内存映射数{maps}接近 vm.max_map_count = {limit}"
            ),
        )
    } else {
        (
            // The limit in force is not in the evidence; it may have been raised.
            Severity::Note,
            text!(
                "The maps of index files{maps} come near the kernel's default limit of {limit} per process",
                "索引文件的内存映射数{maps}接近内核默认的每进程 {limit} 个上限"
            ),
        )
    };
    vec![Finding {
        id: "map-count",
        severity,
        title,
        cause: if elsewhere {
            text!(
                "Either the maps were counted after a restart, or another limit was met: the address space of the process \
                 (ulimit -v), or memory for the tables of its pages.",
                "要么映射数是重启之后统计的，要么达到的是另一个限制：进程的地址空间（ulimit -v），或页表所需的内存。"
            )
        } else {
            text!(
                "Each log segment has two index files that the broker maps. The limit counts maps, not bytes: more heap or \
             more direct memory does not help.",
                "每个日志段有两个索引文件会被映射。该上限按映射个数计，与字节无关：加大堆或直接内存都没有用。"
            )
        },
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "sysctl -w vm.max_map_count={raised} on the host; it holds at once",
                    "在宿主机执行 sysctl -w vm.max_map_count={raised}，立即生效"
                ),
                false,
            ),
            Remedy::new(
                text!(
                    "fewer, larger segments: raise segment.bytes or lower retention",
                    "减少段数：调大 segment.bytes 或缩短保留期"
                ),
                false,
            ),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn a_failed_map_is_critical_and_many_maps_are_a_note() {
        let log =
            "java.io.IOException: Map failed\n\tat java.base/sun.nio.ch.FileChannelImpl.map(F.java:1)\n";
        assert_eq!(one("map-count", &[log]).unwrap().severity, Severity::Critical);
        let many = "jvm_buffer_pool_used_buffers{pool=\"mapped\"} 60000\n";
        assert_eq!(one("map-count", &[many]).unwrap().severity, Severity::Note);
        assert!(one("map-count", &[log, many]).unwrap().title.en.contains("is reached (60000)"));
        let few = one("map-count", &[log, "vm.max_map_count = 65530\n1200 /proc/7/maps\n"]).unwrap();
        assert!(few.title.en.contains("1200 maps in the evidence are far from"), "{few:?}");
        assert!(one("map-count", &["jvm_buffer_pool_used_buffers{pool=\"mapped\"} 1200\n"]).is_none());
        let limit = |limit: u64| format!("vm.max_map_count = {limit}\n60000 /proc/7/maps\n");
        let found = one("map-count", &[&limit(65_530)]).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.title.en.contains("(60000) come near vm.max_map_count = 65530"), "{found:?}");
        assert!(one("map-count", &[&limit(262_144)]).is_none());
        assert!(one("map-count", &[many, &limit(262_144)]).is_none());
    }
}
