//! Flags that should dump or end the JVM when memory runs out, and do not when it is direct memory.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::MemoryKind;

const SWITCHES: [&str; 3] =
    ["HeapDumpOnOutOfMemoryError", "ExitOnOutOfMemoryError", "CrashOnOutOfMemoryError"];

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut evidence: Vec<_> = SWITCHES.iter().filter_map(|name| facts.switched_on(name)).collect();
    evidence.extend(facts.flag_text("OnOutOfMemoryError").into_iter().flat_map(|flag| flag.proofs));
    if evidence.is_empty() {
        return Vec::new();
    }
    let failures: Vec<_> = facts.failures(MemoryKind::Direct).collect();
    evidence.extend(failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)));
    vec![Finding {
        id: "oom-flags-silent",
        severity: if failures.is_empty() { Severity::Note } else { Severity::Warning },
        title: text!(
            "The OutOfMemoryError flags do not fire when direct memory runs out",
            "直接内存耗尽时，OutOfMemoryError 相关参数不会触发"
        ),
        cause: text!(
            "The JVM fires them for errors that it throws itself; the one of direct memory is thrown by Java code. No dump \
             is written, the process does not end, and the broker lives on half dead.",
            "这些参数只对 JVM 自己抛出的错误生效；直接内存的错误是 Java 代码抛出的。既不会生成转储，进程也不退出，Broker 半死不活地继续运行。"
        ),
        evidence,
        remedies: vec![Remedy::new(
            text!(
                "watch for the message in the log or for the pool's level, and take the dump by hand before the restart: jcmd PID GC.heap_dump FILE",
                "监控日志中的报错或池水位，重启之前手动转储：jcmd PID GC.heap_dump FILE"
            ),
            false,
        )],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn flags_that_are_on_are_a_note_and_with_a_failure_a_warning() {
        let flags = "-XX:+HeapDumpOnOutOfMemoryError -XX:OnOutOfMemoryError=kill -9 %p -XX:+UseG1GC\n";
        let found = one("oom-flags-silent", &[flags]).unwrap();
        assert_eq!((found.severity, found.evidence.len()), (Severity::Note, 2));
        let failure = "java.lang.OutOfMemoryError: Direct buffer memory\n";
        assert_eq!(one("oom-flags-silent", &[flags, failure]).unwrap().severity, Severity::Warning);
    }

    #[test]
    fn without_such_flags_there_is_nothing_to_say() {
        let all = "[Global flags]\n bool HeapDumpOnOutOfMemoryError = false {manageable} {default}\nccstrlist OnOutOfMemoryError = {product} {default}\n";
        assert!(one("oom-flags-silent", &[all]).is_none());
        assert!(one("oom-flags-silent", &["-XX:+UseG1GC\n"]).is_none());
    }
}
