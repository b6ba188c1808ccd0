//! Threads that wait for room in direct memory at the moment of a thread dump: the exhaustion as it happens.

use super::{Facts, Finding, Remedy, Severity, text};
use crate::evidence::NativeUse;

/// Threads that are written out.
const THREADS: usize = 8;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut evidence = Vec::new();
    let mut count = 0;
    for print in &facts.evidence.thread_prints {
        for thread in print.value.threads.iter().filter(|thread| thread.native_use == NativeUse::Reserving) {
            count += 1;
            if evidence.len() < THREADS {
                evidence.push(facts.proof(print.file, thread.line, thread.name.clone()));
            }
        }
    }
    if evidence.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        id: "waiting-for-direct-memory",
        severity: Severity::Critical,
        title: text!("{count} threads wait for room in direct memory", "{count} 个线程正在等待直接内存"),
        cause: text!(
            "They are inside of java.nio.Bits.reserveMemory: the limit is reached, the JDK has asked for a collection and \
             sleeps up to half a second before it gives up.",
            "它们正处于 java.nio.Bits.reserveMemory 中：上限已到，JDK 已触发回收，在放弃之前最多休眠半秒。"
        ),
        evidence,
        remedies: vec![Remedy::new(
            text!(
                "take a heap dump now, before the restart: jcmd PID GC.heap_dump FILE; `weir doctor` names who holds the memory",
                "重启之前立即做堆转储：jcmd PID GC.heap_dump FILE；`weir doctor` 会指出是谁占用内存"
            ),
            false,
        )],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    fn print(frame: &str) -> String {
        format!(
            "Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):\n\n\"a\" #12 prio=5 os_prio=0 tid=0x1 nid=0x1 runnable\n\
             \x20  java.lang.Thread.State: TIMED_WAITING (sleeping)\n\tat java.lang.Thread.sleep(java.base@17.0.15/Native Method)\n\
             \tat {frame}\n\nJNI global refs: 12, weak refs: 0\n"
        )
    }

    #[test]
    fn threads_inside_a_reservation_are_named_and_others_are_not() {
        let found = one(
            "waiting-for-direct-memory",
            &[&print("java.nio.Bits.reserveMemory(java.base@17.0.15/Bits.java:170)")],
        );
        assert_eq!(found.unwrap().evidence[0].says.en, "a");
        assert!(
            one(
                "waiting-for-direct-memory",
                &[&print("sun.nio.ch.IOUtil.read(java.base@17.0.15/IOUtil.java:293)")]
            )
            .is_none()
        );
    }
}
