//! Netty's own count of direct memory reached Netty's own limit.

use super::{Facts, Finding, Remedy, Severity, exact, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::NettyDirect).collect();
    let Some((_, worst)) = failures.iter().max_by_key(|(_, failure)| failure.requested) else {
        return Vec::new();
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
            "代理中的插件或探针使用了 Netty，它与 JDK 分开计数：两个上限相加，仅靠 -XX:MaxDirectMemorySize 不能约束整个进程。"
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

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

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
