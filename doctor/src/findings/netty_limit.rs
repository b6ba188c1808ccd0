//! Netty's own count of direct memory reached Netty's own limit.

use super::{Facts, Finding, Remedy, Severity, exact, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::NettyDirect).collect();
    let Some((_, worst)) = failures.iter().max_by_key(|(_, failure)| failure.requested) else {
        return counters(facts);
    };
    let number = |bytes: Option<u64>| bytes.map_or("?".to_owned(), exact);
    let (requested, used, limit) = (number(worst.requested), number(worst.allocated), number(worst.limit));
    vec![Finding {
        id: "netty-limit",
        severity: Severity::Critical,
        title: text!(
            "Netty's direct memory is exhausted: {requested} bytes were asked for, {used} of {limit} are taken",
            "Netty 的直接内存耗尽：请求 {requested} 字节，{limit} 中已用 {used}"
        ),
        cause: text!(
            "A plugin or an agent in the broker uses Netty, which counts its memory apart from the JDK: the two limits add \
             up, and -XX:MaxDirectMemorySize alone does not bound the process.",
            "Broker 中的插件或探针使用了 Netty，它与 JDK 分开计数：两个上限相加，仅靠 -XX:MaxDirectMemorySize 不能约束整个进程。"
        ),
        evidence: failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect(),
        remedies: vec![
            Remedy::new(
                text!(
                    "set -Dio.netty.maxDirectMemory for what the plugin needs, and count both limits into the container",
                    "按插件所需设置 -Dio.netty.maxDirectMemory，容器限额要同时计入两个上限"
                ),
                true,
            )
            .caution(text!(
                "jdk.nio.maxCachedBufferSize does not touch Netty's memory",
                "jdk.nio.maxCachedBufferSize 对 Netty 的内存不起作用"
            )),
        ],
    }]
}

/// Netty's own counters in a dump, when they come near their limit.
fn counters(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dump in &facts.dumps {
        for (used, limit) in &dump.heap.statics.netty {
            let (Some(used), Some(limit)) = (*used, *limit) else { continue };
            if limit == 0 || used < limit / 10 * 8 {
                continue;
            }
            let (used_text, limit_text) = (exact(used), exact(limit));
            findings.push(Finding {
                id: "netty-limit",
                severity: Severity::Warning,
                title: text!(
                    "Netty's direct memory is nearly full: {used_text} of {limit_text} bytes are taken",
                    "Netty 的直接内存将满：{limit_text} 字节中已用 {used_text}"
                ),
                cause: text!(
                    "A plugin or an agent in the broker uses Netty, which counts its memory apart from the JDK: the two \
                     limits add up.",
                    "Broker 中的插件或探针使用了 Netty，它与 JDK 分开计数：两个上限相加。"
                ),
                evidence: vec![dump.proof(text!(
                    "PlatformDependent: {used_text} of {limit_text} bytes",
                    "PlatformDependent：上限 {limit_text} 字节，已用 {used_text} 字节"
                ))],
                remedies: vec![Remedy::new(
                    text!(
                        "set -Dio.netty.maxDirectMemory for what the plugin needs, and count both limits into the container",
                        "按插件所需设置 -Dio.netty.maxDirectMemory，容器限额要同时计入两个上限"
                    ),
                    true,
                )],
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::{findings_of_dump, one};
    use crate::heap::Heap;

    #[test]
    fn nettys_counters_in_a_dump_warn_before_they_fail() {
        let found = |used: u64| {
            let mut heap = Heap::default();
            heap.statics.netty.push((Some(used), Some(1000)));
            findings_of_dump(&heap, &[]).into_iter().any(|finding| finding.id == "netty-limit")
        };
        assert!(found(900));
        assert!(!found(700));
    }

    #[test]
    fn nettys_count_is_told_from_the_jdks() {
        let log = "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 16777216 byte(s) of direct memory (used: 1056964615, max: 1073741824)\n";
        let found = one("netty-limit", &[log]).unwrap();
        assert!(
            found.title.en.contains("16,777,216 bytes were asked for, 1,056,964,615 of 1,073,741,824"),
            "{found:?}"
        );
        assert!(one("direct-memory-exhausted", &[log]).is_none());
        assert!(one("netty-limit", &["java.lang.OutOfMemoryError: Direct buffer memory\n"]).is_none());
    }
}
