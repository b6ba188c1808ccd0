//! Which limit of direct memory holds, and why.

use super::{Facts, Finding, LimitReason, Severity, exact, human, text};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(limit) = &facts.limit else { return Vec::new() };
    let (bytes, reason) = limit.value;
    let (size, bytes) = (human(bytes), exact(bytes));
    let cause = match reason {
        LimitReason::Flag => {
            text!("-XX:MaxDirectMemorySize sets it.", "由 -XX:MaxDirectMemorySize 设定。")
        }
        LimitReason::Heap => text!(
            "-XX:MaxDirectMemorySize is not set, so direct memory may grow as large as the heap (with the parallel and \
             serial collectors one survivor space less): the process needs twice the heap.",
            "未设置 -XX:MaxDirectMemorySize，直接内存可增长到与堆同样大（并行与串行收集器少一个 survivor 区）：进程需要两倍于堆的内存。"
        ),
        LimitReason::Message => text!(
            "A failure's message or a dump names it; neither flags nor heap in the evidence explain it.",
            "数字来自报错信息或堆转储；证据中的参数与堆大小都不能解释它。"
        ),
    };
    let cause = match facts.java_that_counts_no_temporary() {
        Some(java) => {
            let (jdk, en, zh) = (java.value, cause.en, cause.zh);
            text!(
                "{en} On JDK {jdk} the temporary buffers of I/O are not under it.",
                "{zh}在 JDK {jdk} 上，I/O 临时缓冲区不受它约束。"
            )
        }
        None => cause,
    };
    vec![Finding {
        id: "limit-in-force",
        severity: Severity::Note,
        title: text!(
            "Direct memory is limited to {size} ({bytes} bytes)",
            "直接内存上限为 {size}（{bytes} 字节）"
        ),
        cause,
        evidence: limit.proofs.clone(),
        remedies: Vec::new(),
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn the_limit_and_its_reason_are_told() {
        let found = one("limit-in-force", &["-XX:MaxHeapSize=17179869184\n"]).unwrap();
        assert!(found.title.en.contains("16.00 GiB (17,179,869,184 bytes)"));
        assert!(found.cause.en.contains("is not set"));
        let found = one("limit-in-force", &["-XX:MaxDirectMemorySize=1073741824\n", "java.version=25.0.3\n"])
            .unwrap();
        assert!(found.cause.en.contains("sets it") && found.cause.en.contains("not under it"));
        assert!(one("limit-in-force", &["num.io.threads=8\n"]).is_none());
    }
}
