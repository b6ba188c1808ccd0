//! The process holds much more memory than the JVM knows of: the C allocator's arenas, or native libraries.

use super::{Facts, Finding, Remedy, Severity, exact, human, text};
use crate::evidence::Metric;

/// Below this share and size the gap is measuring at different moments.
const LEAST_BYTES: u64 = 256 << 20;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(native) = facts.native_memory() else { return Vec::new() };
    let Some(total) = native.value.total else { return Vec::new() };
    let anonymous = facts.kernel(
        text!("memory in RAM that no file backs", "驻留内存中没有文件支持的部分"),
        |kernel| kernel.anonymous,
    );
    let by_kernel = anonymous.is_some();
    let Some(resident) = anonymous.or_else(|| facts.metric(Metric::ResidentMemory, "")) else {
        return Vec::new();
    };
    // Pages of mapped index files are in an exporter's figure too; at most all of them.
    let mapped = if by_kernel { None } else { facts.metric(Metric::BufferPoolUsed, "mapped") };
    let mapped_bytes = mapped.as_ref().map_or(0, |mapped| mapped.value);
    let gap = resident.value.saturating_sub(total.committed).saturating_sub(mapped_bytes);
    if gap < LEAST_BYTES.max(total.committed / 4) {
        return Vec::new();
    }
    let mut evidence = resident.proofs.clone();
    evidence.extend(mapped.iter().flat_map(|mapped| mapped.proofs.clone()));
    let says = text!(
        "total committed = {bytes} bytes",
        "committed 合计 = {bytes} 字节",
        bytes = exact(total.committed)
    );
    evidence.push(facts.proof(native.file, total.line, says));
    let (gap_text, exact_gap) = (human(gap), exact(gap));
    let arenas = Remedy::new(
        text!(
            "start the broker with MALLOC_ARENA_MAX=2, or with jemalloc",
            "以 MALLOC_ARENA_MAX=2 或 jemalloc 启动"
        ),
        true,
    );
    let mapped_files = text!(
        "mapped files count as resident memory too; without the pool of mapped files their share is not known",
        "被映射的文件也计入驻留内存；没有 mapped 池的指标时无法得知其份额"
    );
    vec![Finding {
        id: "resident-gap",
        severity: Severity::Warning,
        title: text!(
            "The process holds {gap_text} ({exact_gap} bytes) that the JVM's own account does not know",
            "进程占用中有 {gap_text}（{exact_gap} 字节）不在 JVM 自己的账上"
        ),
        cause: text!(
            "Either the C allocator keeps freed memory in one arena per thread, or a native library (a compression codec, \
             RocksDB) allocates by itself. Direct buffers are in the JVM's account, so they are not the reason.",
            "要么是 C 分配器按线程的 arena 保留了已释放的内存，要么是本地库（压缩编解码器、RocksDB）自行分配。直接缓冲区在 JVM 账上，因此不是原因。"
        ),
        evidence,
        remedies: vec![if by_kernel { arenas } else { arenas.caution(mapped_files) }],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    const NATIVE: &str = "Native Memory Tracking:\nTotal: reserved=9999999KB, committed=1048576KB\n";

    #[test]
    fn memory_that_the_jvm_does_not_know_is_named() {
        let resident = |bytes: u64| format!("process_resident_memory_bytes {bytes}\n");
        let found = one("resident-gap", &[NATIVE, &resident(3 << 30)]).unwrap();
        assert!(found.title.en.contains("2.00 GiB (2,147,483,648 bytes)"), "{found:?}");
        assert!(one("resident-gap", &[NATIVE, &resident(1_200_000_000)]).is_none());
        assert!(one("resident-gap", &[NATIVE]).is_none());
        let mapped = "jvm_buffer_pool_used_bytes{pool=\"mapped\"} 2147483648\n";
        assert!(one("resident-gap", &[NATIVE, &resident(3 << 30), mapped]).is_none());
    }

    #[test]
    fn the_kernels_figure_has_no_files_in_it() {
        let status = |kib: u64| format!("Name:\tjava\nVmRSS:\t 9000000 kB\nRssAnon:\t {kib} kB\n");
        let found = one("resident-gap", &[NATIVE, &status(3 << 20)]).unwrap();
        assert!(found.title.en.contains("2.00 GiB (2,147,483,648 bytes)"), "{found:?}");
        assert!(found.remedies[0].caution.is_none(), "{found:?}");
        // The exporter's figure has the index files, too.
        let metric = "process_resident_memory_bytes 9216000000\n";
        assert!(one("resident-gap", &[NATIVE, metric, &status(1_100_000)]).is_none());
    }
}
