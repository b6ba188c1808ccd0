//! A network thread fails at the same request again and again: the exception escapes, the connection stays, each attempt
//! costs half a second and a `System.gc()`.

use super::{Facts, Finding, Remedy, Severity, Text, text};
use crate::evidence::{MemoryKind, OutOfMemory, Repeats, ThreadRole};

/// Failures in one run that make a loop.
const LOOP: u64 = 5;

fn said(what: &str, repeats: &Repeats) -> Text {
    let Repeats { count, longest_run: run, longest_run_ms: ms, .. } = repeats;
    text!("{what} ×{count}, {run} of them within {ms} ms", "{what} ×{count}，其中 {run} 次在 {ms} 毫秒内")
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let is_loop = |repeats: &Repeats| repeats.longest_run >= LOOP;
    let mut evidence = Vec::new();
    let mut failures = 0;
    for log in &facts.evidence.broker_logs {
        let repeats = &log.value.processor_errors;
        let at_a_read = |failure: &OutOfMemory| {
            failure.kind == MemoryKind::Direct
                && failure.role == ThreadRole::Network
                && is_loop(&failure.repeats)
        };
        if is_loop(repeats) && log.value.out_of_memory.iter().any(at_a_read) {
            failures += repeats.longest_run;
            let says = said("Processor got uncaught exception", repeats);
            evidence.push(facts.proof(log.file, repeats.first_line, says));
        }
    }
    if evidence.is_empty() {
        return Vec::new();
    }
    for log in &facts.evidence.gc_logs {
        let collections = &log.value.system_gc;
        if is_loop(collections) {
            let says = said("System.gc()", collections);
            evidence.push(facts.proof(log.file, collections.first_line, says));
        }
    }
    vec![Finding {
        id: "failure-loop",
        severity: Severity::Critical,
        title: text!(
            "Network threads fail over and over: {failures} times in a row",
            "网络线程反复失败：连续 {failures} 次"
        ),
        cause: text!(
            "The error is no Exception, so Kafka neither closes the connection nor answers: the same read fails again as \
             soon as another connection of the same thread stirs. Each attempt waits half a second and asks for a garbage \
             collection, and the connections of that thread wait behind it.",
            "该错误不是 Exception，Kafka 既不关闭连接也不回复，同一线程的其他连接一有动静，同一处读取就再次失败。每次尝试等待约半秒并触发一次垃圾回收，\
             同一线程上的其他连接都被拖住。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!("take a heap dump now (jcmd PID GC.heap_dump), then restart the broker: it does not recover by itself", "先做堆转储（jcmd PID GC.heap_dump），再重启：它不会自行恢复"),
                true,
            )
            .caution(text!("without the cure for the exhaustion it comes back", "不解决耗尽的原因，问题会再次出现")),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    fn log(times: u32, gap_s: u32) -> String {
        (0..times)
            .map(|index| {
                let second = index * gap_s;
                format!(
                    "[2026-11-30 11:{:02}:{:02},100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
                     java.lang.OutOfMemoryError: Cannot reserve 9 bytes of direct buffer memory (allocated: 1, limit: 2)\n\
                     \tat kafka.network.Processor.poll(SocketServer.scala:1107)\n",
                    second / 60,
                    second % 60
                )
            })
            .collect()
    }

    #[test]
    fn failures_in_a_row_are_a_loop_and_the_gc_log_supports_it() {
        let gc: String = (0..6)
            .map(|index| format!("[{index}.500s][info][gc] GC({index}) Pause Full (System.gc()) 354M->354M(594M) 12.217ms\n"))
            .collect();
        let found = one("failure-loop", &[&log(6, 1), &gc]).unwrap();
        assert_eq!(found.evidence.len(), 2);
        assert!(found.title.en.contains("6 times"));
    }

    #[test]
    fn single_failures_are_no_loop() {
        assert!(one("failure-loop", &[&log(6, 30)]).is_none());
        assert!(one("failure-loop", &[&log(2, 1)]).is_none());
        // Another error, as often, is another matter.
        let heap = log(6, 1).replace(
            "Cannot reserve 9 bytes of direct buffer memory (allocated: 1, limit: 2)",
            "Java heap space",
        );
        assert!(one("failure-loop", &[&heap]).is_none());
    }
}
