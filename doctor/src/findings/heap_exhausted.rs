//! The heap ran out, at work that a rule of its own does not explain.

use super::{Facts, Finding, Remedy, Severity, Text, cleaner_map, human, text};
use crate::evidence::MemoryKind;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> =
        facts.failures(MemoryKind::Heap).filter(|(_, failure)| !cleaner_map::explains(failure)).collect();
    if failures.is_empty() {
        return Vec::new();
    }
    let count: u64 = failures.iter().map(|(_, failure)| failure.repeats.count).sum();
    let mut roles: Vec<_> = failures.iter().map(|(_, failure)| failure.role.label()).collect();
    roles.sort_by(|one, other| one.en.cmp(&other.en));
    roles.dedup();
    let roles = Text::join(&roles, ", ", "、");
    let size = facts.max_heap.as_ref().map_or(String::new(), |heap| format!(" ({})", human(heap.value)));
    let mut evidence: Vec<_> =
        failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    evidence.extend(facts.max_heap.iter().flat_map(|heap| heap.proofs.clone()));
    let mut remedies = Vec::new();
    // Where the settings are known to bound requests, that is no cure.
    let bounded =
        facts.settings().is_some_and(|settings| settings.value.number("queued.max.request.bytes").value > 0);
    if !bounded {
        remedies.push(Remedy::new(
            text!(
                "set queued.max.request.bytes: it bounds the bytes of requests on the heap",
                "设置 queued.max.request.bytes：它限制堆上请求的总字节数"
            ),
            true,
        ));
    }
    remedies.push(
        Remedy::new(
            text!("read a heap dump of the broker for what fills the heap", "用堆转储查看是什么占满了堆"),
            false,
        )
        .caution(text!(
            "this tool accounts for direct memory, not for the heap",
            "本工具核算的是直接内存，不是堆"
        )),
    );
    let cause = if bounded {
        text!(
            "queued.max.request.bytes bounds the requests, so something else fills the heap: state, caches, results of \
             fetches. An error inside a request handler is only logged, and the broker lives on.",
            "queued.max.request.bytes 已限制请求，占满堆的是别的：状态、缓存、拉取结果。请求处理线程里的错误只会写日志，Broker 继续运行。"
        )
    } else {
        text!(
            "Requests are allocated on the heap as a whole, by the size that the client announces, before their bytes \
             arrive; by default nothing bounds how many at once. An error inside a request handler is only logged, and \
             the broker lives on.",
            "请求按客户端声明的长度，在字节到达之前就整块分配在堆上；默认没有任何东西限制同时有多少。请求处理线程里的错误只会写日志，Broker 继续运行。"
        )
    };
    vec![Finding {
        id: "heap-exhausted",
        severity: Severity::Critical,
        title: text!(
            "The heap{size} is exhausted: {count} failures, by {roles}",
            "堆{size}耗尽：{count} 次失败，来自{roles}"; roles
        ),
        cause,
        evidence,
        remedies,
    }]
}

#[cfg(test)]
mod tests {
    use crate::findings::tests::one;

    #[test]
    fn heap_failures_are_found_unless_the_cleaners_map_explains_them() {
        let log = "[2026-11-30 11:57:23,100] ERROR x (kafka.server.KafkaRequestHandler)\njava.lang.OutOfMemoryError: Java heap space\n";
        let found = one("heap-exhausted", &[log]).unwrap();
        assert!(found.title.en.contains("request handlers"), "{found:?}");
        assert!(found.remedies[0].action.en.contains("queued.max.request.bytes"), "{found:?}");
        let bounded = one("heap-exhausted", &[log, "queued.max.request.bytes=209715200\n"]).unwrap();
        assert!(
            !bounded.remedies.iter().any(|remedy| remedy.action.en.contains("queued.max")),
            "{bounded:?}"
        );
        let cleaner = "java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.kafka.storage.internals.log.SkimpyOffsetMap.<init>(S.java:1)\n";
        assert!(one("heap-exhausted", &[cleaner]).is_none());
        assert!(one("heap-exhausted", &["java.lang.OutOfMemoryError: Direct buffer memory\n"]).is_none());
    }
}
