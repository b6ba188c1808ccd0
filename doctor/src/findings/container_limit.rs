//! The memory that the JVM may take by its own limits is more than the machine or container gives.

use super::{Facts, Finding, Remedy, Severity, exact, human, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let refused: Vec<_> = facts.failures(MemoryKind::Native).collect();
    let killed = facts
        .kernel(text!("processes killed for want of memory", "因内存不足被杀死的进程"), |kernel| {
            kernel.group_kills.filter(|(count, _)| *count > 0)
        });
    let memory = facts.memory_at_most();
    let promised = facts.max_heap.as_ref().zip(facts.limit.as_ref());
    // What the JVM needs beside heap and buffers, where its own account says it.
    let rest = facts.native_memory().and_then(|found| {
        let total = found.value.total?.committed;
        let category = |name: &str| found.value.categories.get(name).map_or(0, |category| category.committed);
        Some((total.checked_sub(category("Java Heap"))?.checked_sub(category("Other"))?, found))
    });
    let sum = promised.map(|(heap, limit)| {
        heap.value.saturating_add(limit.value.0).saturating_add(rest.as_ref().map_or(0, |(bytes, _)| *bytes))
    });
    let too_much = memory.as_ref().map(|memory| memory.value).zip(sum).filter(|(memory, sum)| sum > memory);
    if refused.is_empty() && killed.is_none() && too_much.is_none() {
        return Vec::new();
    }
    let mut evidence: Vec<_> =
        refused.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    evidence.extend(killed.iter().flat_map(|killed| killed.proofs.clone()));
    evidence.extend(memory.iter().flat_map(|memory| memory.proofs.clone()));
    if let Some((heap, limit)) = promised {
        evidence.extend(heap.proofs.iter().chain(&limit.proofs).cloned());
    }
    evidence.dedup();
    if let Some((bytes, found)) = &rest {
        let line = found.value.total.map_or(0, |total| total.line);
        evidence.push(facts.proof(
            found.file,
            line,
            text!(
                "beside heap and buffers: {bytes} bytes",
                "堆与缓冲区之外：{bytes} 字节",
                bytes = exact(*bytes)
            ),
        ));
    }
    let resident = facts.kernel(
        text!("memory in RAM that no file backs", "驻留内存中没有文件支持的部分"),
        |kernel| kernel.anonymous,
    );
    evidence.extend(resident.iter().flat_map(|resident| resident.proofs.clone()));
    let title = match (&killed, too_much) {
        (Some(killed), _) => {
            let count = killed.value;
            text!(
                "The kernel killed processes of this container for want of memory: {count} so far",
                "内核因内存不足杀死过此容器的进程：至今 {count} 次"
            )
        }
        (None, Some((memory, sum))) => {
            let (excess, sum, memory) = (exact(sum - memory), human(sum), human(memory));
            text!(
                "Heap and direct memory may come to {sum}, the machine or container has {memory}: {excess} bytes too little",
                "堆与直接内存之和可达 {sum}，而机器或容器只有 {memory}：缺 {excess} 字节"
            )
        }
        _ => text!("The system refuses the JVM memory", "系统拒绝给 JVM 分配内存"),
    };
    let failed = !refused.is_empty() || killed.is_some();
    // Limits that add up to too much are far from it as long as little of them is used.
    let present = resident.as_ref().map(|resident| resident.value).or_else(|| {
        let (pool, (heap, _)) = facts.pool_used.as_ref().zip(promised)?;
        let rest = rest.as_ref().map_or(0, |(bytes, _)| *bytes);
        Some(heap.value.saturating_add(pool.value).saturating_add(rest))
    });
    let far = memory.as_ref().zip(present).is_some_and(|(memory, present)| present <= memory.value / 10 * 7);
    let uncounted = facts.java_that_counts_no_temporary().is_some();
    let below = Remedy::new(
        text!(
            "set -XX:MaxDirectMemorySize explicitly, and -Xmx lower, so that the sum fits",
            "显式设置 -XX:MaxDirectMemorySize 并降低 -Xmx，使总和放得下"
        ),
        true,
    )
    .frees(too_much.map(|(memory, sum)| sum - memory));
    let below = match uncounted {
        true => below.caution(text!(
            "from JDK 24 on the temporary buffers of threads come on top of it: bound them with jdk.nio.maxCachedBufferSize",
            "自 JDK 24 起线程的临时缓冲区不受它约束，要另外计入：用 jdk.nio.maxCachedBufferSize 限制它们"
        )),
        false => below.caution(text!(
            "a lower limit fails sooner where threads keep large buffers: bound those first",
            "若线程保留着大缓冲区，降低上限只会更早失败：请先限制它们"
        )),
    };
    vec![Finding {
        id: "container-limit",
        severity: match (failed, far) {
            (true, _) => Severity::Critical,
            (false, true) => Severity::Note,
            (false, false) => Severity::Warning,
        },
        title,
        cause: text!(
            "The limits of the heap and of direct memory add up, and the JVM needs threads, code and metadata beside them. \
             What the container does not have ends in its kill without a word in the broker's log. Kafka also lives from \
             the page cache, which needs memory of its own.",
            "堆与直接内存的上限是相加的，JVM 还需要线程、代码与元数据。超出容器限额时进程被直接杀死，Broker 日志里没有任何记录。Kafka 还依赖页缓存，它也需要内存。"
        ),
        evidence,
        remedies: vec![below, Remedy::new(text!("raise the container's limit", "提高容器限额"), true)],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    fn memory(mib: u64) -> String {
        format!(
            "[0.005s][info][gc,init] Memory: {mib}M\n[0.1s][info][gc] GC(0) Pause Young (Normal) 1M->1M(2M) 1.000ms\n"
        )
    }
    const HEAP: &str = "-XX:MaxHeapSize=1073741824 -XX:+UseG1GC\n";

    #[test]
    fn limits_that_add_up_to_more_than_there_is_are_named() {
        let found = one("container-limit", &[&memory(1536), HEAP]).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.title.en.contains("536,870,912 bytes too little"), "{found:?}");
        let native = "Native Memory Tracking:\nTotal: reserved=9999999KB, committed=1000000KB\n\
                      - Java Heap (reserved=500000KB, committed=500000KB)\n- Other (reserved=300000KB, committed=300000KB)\n";
        let found = one("container-limit", &[&memory(1536), HEAP, native]).unwrap();
        assert!(found.title.en.contains(&exact((512 << 20) + (200_000 << 10))), "{found:?}");
    }

    #[test]
    fn the_groups_limit_outranks_what_the_machine_has() {
        let group = |limit: u64, kills: u64| {
            format!(
                "/sys/fs/cgroup/kafka/memory.max:{limit}\n/sys/fs/cgroup/kafka/memory.events:oom_kill {kills}\n\
                 MemTotal: 24683520 kB\n"
            )
        };
        let found = one("container-limit", &[&memory(24_000), HEAP, &group(1 << 30, 0)]).unwrap();
        assert!(found.title.en.contains("1,073,741,824 bytes too little"), "{found:?}");
        assert_eq!(found.severity, Severity::Warning);
        assert!(one("container-limit", &[&memory(24_000), HEAP, &group(2 << 30, 0)]).is_none());
        let killed = one("container-limit", &[&group(2 << 30, 3)]).unwrap();
        assert!(killed.title.en.contains("3 so far") && killed.severity == Severity::Critical, "{killed:?}");
        assert!(one("container-limit", &[HEAP, "MemTotal: 24683520 kB\n"]).is_none());
    }

    #[test]
    fn a_broker_that_uses_little_of_its_limits_gets_a_note() {
        let group = "/sys/fs/cgroup/memory.max:1610612736\n";
        let status = |mib: u64| format!("Name:\tjava\nRssAnon:\t {} kB\n", mib << 10);
        let severity = |texts: &[&str]| one("container-limit", texts).unwrap().severity;
        assert_eq!(severity(&[group, HEAP, &status(600)]), Severity::Note);
        assert_eq!(severity(&[group, HEAP, &status(1300)]), Severity::Warning);
        assert_eq!(severity(&[group, HEAP]), Severity::Warning);
        let pool = |bytes: u64| format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {bytes}\n");
        assert_eq!(severity(&[group, HEAP, &pool(1 << 20)]), Severity::Note);
        assert_eq!(severity(&[group, HEAP, &pool(500 << 20)]), Severity::Warning);
        let killed = "/sys/fs/cgroup/memory.max:1610612736\n/sys/fs/cgroup/memory.events:oom_kill 1\n";
        assert_eq!(severity(&[killed, HEAP, &status(600)]), Severity::Critical);
        let newer = one("container-limit", &[group, HEAP, "java.version=25.0.3\n"]).unwrap();
        assert!(newer.remedies[0].caution.as_ref().unwrap().en.contains("come on top of it"), "{newer:?}");
        assert_eq!(newer.remedies[0].frees_bytes, Some(512 << 20));
    }

    #[test]
    fn what_fits_is_fine_and_a_refusal_is_critical() {
        assert!(one("container-limit", &[&memory(2048), HEAP]).is_none());
        let refusal = "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x1, 1073741824, 0) failed; error='Not enough space' (errno=12)\n";
        assert_eq!(one("container-limit", &[refusal]).unwrap().severity, Severity::Critical);
    }
}
