//! How full direct memory is: the levels of the recommended alerts, 70, 80 and 90 % of the limit.

use super::{Facts, Finding, Remedy, Severity, exact, text};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let (Some(pool), Some(limit)) = (&facts.pool_used, &facts.limit) else { return Vec::new() };
    let (used, total) = (pool.value, limit.value.0);
    // In 128 bits, so that no size overflows.
    let percent = u128::from(used) * 100 / u128::from(total.max(1));
    let severity = match percent {
        0..70 => return Vec::new(),
        70..80 => Severity::Note,
        80..90 => Severity::Warning,
        _ => Severity::Critical,
    };
    let left = exact(total.saturating_sub(used));
    let (used_text, total_text) = (exact(used), exact(total));
    let uncounted = facts.java_that_counts_no_temporary().is_some();
    let cause = if uncounted {
        text!(
            "{used_text} of {total_text} bytes are taken. From JDK 24 on the temporary buffers of threads are not among them: \
             the application, a plugin or Netty holds these.",
            "{total_text} 字节中已占用 {used_text} 字节。自 JDK 24 起线程的临时缓冲区不在其中：占用者是应用、插件或 Netty。"
        )
    } else {
        text!(
            "{used_text} of {total_text} bytes are taken. The buffers that threads keep are never given back, so the level \
             does not fall by itself.",
            "{total_text} 字节中已占用 {used_text} 字节。线程保留的缓冲区从不归还，因此水位不会自行下降。"
        )
    };
    vec![Finding {
        id: "direct-pool-level",
        severity,
        title: text!(
            "Direct memory is {percent} % full: {left} bytes are left",
            "直接内存已用 {percent} %：剩余 {left} 字节"
        ),
        cause,
        evidence: pool.proofs.iter().chain(&limit.proofs).cloned().collect(),
        remedies: vec![Remedy::new(
            text!(
                "take a heap dump (jcmd PID GC.heap_dump) while the broker still serves, and read it with `weir doctor`: \
                 it names the threads that hold the bytes",
                "趁 Broker 仍在服务时做堆转储（jcmd PID GC.heap_dump），再用 `weir doctor` 分析：它会指出占用内存的线程"
            ),
            false,
        )],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    fn level(used: u64) -> Option<Severity> {
        let metrics = format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {used}\n");
        one("direct-pool-level", &[&metrics, "-XX:MaxDirectMemorySize=1000\n"]).map(|found| found.severity)
    }

    #[test]
    fn levels_are_those_of_the_alerts() {
        assert_eq!(level(699), None);
        assert_eq!(level(700), Some(Severity::Note));
        assert_eq!(level(800), Some(Severity::Warning));
        assert_eq!(level(900), Some(Severity::Critical));
        assert_eq!(level(u64::MAX), Some(Severity::Critical));
    }

    #[test]
    fn buffers_of_threads_are_blamed_only_where_the_pool_has_them() {
        let texts = ["jvm_buffer_pool_used_bytes{pool=\"direct\"} 950\n", "-XX:MaxDirectMemorySize=1000\n"];
        let cause = |java: &str| one("direct-pool-level", &[texts[0], texts[1], java]).unwrap().cause.en;
        assert!(cause("java.version=17.0.15\n").contains("never given back"));
        assert!(cause("java.version=25.0.3\n").contains("are not among them"));
    }

    #[test]
    fn without_a_known_limit_there_is_no_level() {
        assert!(
            one("direct-pool-level", &["jvm_buffer_pool_used_bytes{pool=\"direct\"} 999999999999\n"])
                .is_none()
        );
    }
}
