//! The system starts no more threads for the JVM: a limit on processes or threads, not on memory that a heap could give.

use super::{Facts, Finding, Remedy, Severity, exact, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::Thread).collect();
    if failures.is_empty() {
        return Vec::new();
    }
    let count: u64 = failures.iter().map(|(_, failure)| failure.repeats.count).sum();
    let mut evidence: Vec<_> =
        failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    let threads =
        facts.kernel(text!("threads of the process", "进程的线程数"), |kernel| kernel.threads);
    evidence.extend(threads.iter().flat_map(|threads| threads.proofs.clone()));
    let now = threads.map_or(String::new(), |threads| format!(" ({})", exact(threads.value)));
    vec![Finding {
        id: "no-more-threads",
        severity: Severity::Critical,
        title: text!(
            "The JVM cannot start threads{now}: {count} failures",
            "JVM 无法再创建线程{now}：失败 {count} 次"
        ),
        cause: text!(
            "The message is that of an OutOfMemoryError, but what is missing is a thread: the user's limit on processes, \
             pids.max of the control group, or the machine's. More heap makes it worse: stacks live beside it.",
            "报错虽是 OutOfMemoryError，缺的却是线程：达到了用户的进程数上限、控制组的 pids.max，或整机上限。加大堆只会更糟：线程栈在堆外。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "raise the limit: LimitNPROC or ulimit -u, TasksMax of the unit, pids limit of the container",
                    "提高上限：LimitNPROC 或 ulimit -u、服务单元的 TasksMax、容器的 pids 限额"
                ),
                true,
            ),
            Remedy::new(
                text!(
                    "look for a thread leak in a thread dump: jcmd PID Thread.print",
                    "用线程转储查找线程泄漏：jcmd PID Thread.print"
                ),
                false,
            ),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn threads_that_cannot_be_started_are_no_matter_of_the_heap() {
        let log = "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached\n";
        let found = one("no-more-threads", &[log, "Name:\tjava\nThreads:\t4096\n"]).unwrap();
        assert!(found.title.en.contains("(4,096)") && found.evidence.len() == 2, "{found:?}");
        assert!(one("heap-exhausted", &[log]).is_none());
        assert!(one("no-more-threads", &["java.lang.OutOfMemoryError: Java heap space\n"]).is_none());
    }
}
