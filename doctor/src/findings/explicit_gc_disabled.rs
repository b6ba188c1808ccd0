//! `-XX:+DisableExplicitGC`: dropped direct buffers are freed by the collector, and nobody asks it to run.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(switch) = facts.switched_on("DisableExplicitGC") else { return Vec::new() };
    let mut evidence = vec![switch];
    let failures: Vec<_> = facts.failures(MemoryKind::Direct).collect();
    evidence.extend(failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)));
    vec![Finding {
        id: "explicit-gc-disabled",
        severity: if failures.is_empty() { Severity::Warning } else { Severity::Critical },
        title: text!(
            "DisableExplicitGC starves direct memory of its garbage collection",
            "DisableExplicitGC 使直接内存得不到垃圾回收"
        ),
        cause: text!(
            "When direct memory is full the JDK calls System.gc() so that dropped buffers are freed, and tries again. With \
             the flag the call does nothing: buffers that nobody uses any more still fill the limit until the heap itself \
             happens to be collected.",
            "直接内存不足时，JDK 会调用 System.gc() 释放无人使用的缓冲区再重试。加了此参数后调用无效：已无人使用的缓冲区仍占着额度，\
             直到堆自身恰好发生回收。"
        ),
        evidence,
        remedies: vec![Remedy::new(
            text!(
                "replace -XX:+DisableExplicitGC by -XX:+ExplicitGCInvokesConcurrent, as Kafka's own scripts do",
                "把 -XX:+DisableExplicitGC 换成 -XX:+ExplicitGCInvokesConcurrent，Kafka 自带脚本即如此"
            ),
            true,
        )
        .caution(text!(
            "frees garbage only, not the buffers that threads keep",
            "只释放垃圾，不会释放线程保留的缓冲区"
        ))],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn the_flag_is_found_wherever_it_is_written() {
        for text in [
            "-XX:+DisableExplicitGC -XX:+UseG1GC\n",
            "[Global flags]\n bool DisableExplicitGC = true {product} {command line}\n",
            "VM Arguments:\njvm_args: -XX:+DisableExplicitGC \n",
            "CommandLine flags: -XX:+DisableExplicitGC \n",
        ] {
            assert_eq!(one("explicit-gc-disabled", &[text]).unwrap().severity, Severity::Warning, "{text}");
        }
        let failure = "java.lang.OutOfMemoryError: Direct buffer memory\n";
        let found = one("explicit-gc-disabled", &["-XX:+DisableExplicitGC\n", failure]).unwrap();
        assert_eq!((found.severity, found.evidence.len()), (Severity::Critical, 2));
    }

    #[test]
    fn kafkas_own_flag_and_a_flag_that_is_off_are_fine() {
        for text in [
            "-XX:+ExplicitGCInvokesConcurrent -XX:-DisableExplicitGC\n",
            "[Global flags]\n bool DisableExplicitGC = false {product} {default}\n",
            "VM Arguments:\njvm_args: -XX:+DisableExplicitGC -XX:-DisableExplicitGC\n",
        ] {
            assert!(one("explicit-gc-disabled", &[text]).is_none(), "{text}");
        }
    }
}
