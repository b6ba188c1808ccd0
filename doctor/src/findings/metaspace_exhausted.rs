//! The memory for classes is full: its own flag bounds it, and neither heap nor direct memory has to do with it.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::Metaspace).collect();
    if failures.is_empty() {
        return Vec::new();
    }
    let mut evidence: Vec<_> =
        failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    let flag = facts.flag_text("MaxMetaspaceSize");
    evidence.extend(flag.iter().flat_map(|flag| flag.proofs.clone()));
    vec![Finding {
        id: "metaspace-exhausted",
        severity: Severity::Critical,
        title: text!("The memory for classes (metaspace) is exhausted", "类元数据内存（metaspace）耗尽"),
        cause: text!(
            "Classes live outside of the heap, up to -XX:MaxMetaspaceSize. A broker needs little of it: a plugin or an agent \
             that makes classes over and over fills it.",
            "类元数据在堆外，上限为 -XX:MaxMetaspaceSize。Broker 本身用得很少：通常是插件或探针不断生成新类。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!("raise -XX:MaxMetaspaceSize, or leave it out", "提高或去掉 -XX:MaxMetaspaceSize"),
                true,
            )
            .caution(text!(
                "only puts off a leak of classes: jcmd PID VM.classloader_stats shows who makes them",
                "若是类泄漏只会推迟：用 jcmd PID VM.classloader_stats 查看来源"
            )),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn full_metaspace_is_told_from_a_full_heap() {
        let log = "java.lang.OutOfMemoryError: Compressed class space\n";
        let found = one("metaspace-exhausted", &[log, "-XX:MaxMetaspaceSize=67108864\n"]).unwrap();
        assert_eq!(found.evidence.len(), 2);
        assert!(one("heap-exhausted", &[log]).is_none());
        assert!(one("metaspace-exhausted", &["java.lang.OutOfMemoryError: Java heap space\n"]).is_none());
    }
}
