//! Direct memory ran out: what was asked for, by whom, and what was left.

use super::thread_buffers::{above, kept_or_used};
use super::{CAP_BYTES, Facts, Finding, Remedy, Severity, Text, exact, human, text};
use crate::evidence::{MemoryKind, ThreadRole};
use crate::jvm_plan::{JvmInputs, jvm_plan};

/// Network threads of a listener that do for most brokers: Kafka's default.
const FEW_THREADS: u64 = 3;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let failures: Vec<_> = facts.failures(MemoryKind::Direct).collect();
    let Some((_, worst)) =
        failures.iter().max_by_key(|(_, failure)| (failure.requested, failure.repeats.count))
    else {
        return Vec::new();
    };
    let count: u64 = failures.iter().map(|(_, failure)| failure.repeats.count).sum();
    let title = match (worst.requested, worst.allocated, worst.limit) {
        (Some(requested), Some(allocated), Some(limit)) => {
            let left = exact(limit.saturating_sub(allocated));
            let (requested, limit) = (exact(requested), human(limit));
            text!(
                "Direct memory is exhausted: {requested} bytes were asked for, {left} of {limit} were left",
                "直接内存耗尽：请求 {requested} 字节，{limit} 的上限只剩 {left} 字节"
            )
        }
        _ => text!(
            "Direct memory is exhausted; this JDK's message does not say by how much",
            "直接内存耗尽；此 JDK 的报错不含数字"
        ),
    };
    let temporary = failures.iter().any(|(_, failure)| failure.is_temporary_buffer());
    let mut roles: Vec<_> = failures.iter().map(|(_, failure)| failure.role.label()).collect();
    roles.sort_by(|one, other| one.en.cmp(&other.en));
    roles.dedup();
    let roles = Text::join(&roles, ", ", "、");
    // A dump of the full pool knows who fills it; one of another time does not.
    let full = facts.dumps.iter().rev().find(|dump| {
        let account = dump.account;
        account.limit_bytes.is_some_and(|limit| account.direct.found.bytes >= limit / 2)
    });
    let by_threads = full.map(|dump| kept_or_used(dump.account) >= dump.account.whole_bytes / 2);
    let cause = if temporary {
        let who = match by_threads {
            Some(true) => text!(
                "what fills the memory are the buffers that all threads keep, as the heap dump shows",
                "占满内存的是所有线程保留的缓冲区，堆转储可以证明"
            ),
            Some(false) => text!(
                "the heap dump shows that something else than the buffers of threads fills the memory",
                "堆转储表明，占满内存的不是线程的缓冲区"
            ),
            None => text!(
                "what fills the memory are most likely the buffers that all threads keep; a heap dump says who holds how much",
                "占满内存的很可能是所有线程保留的缓冲区；堆转储能说明谁占用多少"
            ),
        };
        text!(
            "{count} failed reservations, by: {roles}. The JDK wanted a temporary direct buffer as large as the whole rest \
             of a transfer, because Kafka reads and writes heap buffers; each thread keeps the largest that it ever \
             needed. The request that failed is the last straw; {who}.",
            "共 {count} 次申请失败，来自：{roles}。Kafka 用堆缓冲区读写套接字，JDK 因此按剩余传输的总长申请临时直接缓冲区，\
             每个线程会一直保留它用过的最大一块。失败的请求只是最后一根稻草，{who}。"; roles, who
        )
    } else {
        text!(
            "{count} failed reservations, by: {roles}. The stacks in the log do not show who wanted the memory; a heap dump does.",
            "共 {count} 次申请失败，来自：{roles}。日志中的堆栈看不出是谁申请的；需要堆转储。"; roles
        )
    };
    let evidence = failures.iter().map(|(file, failure)| facts.failure_proof(*file, failure)).collect();
    let plan = facts.settings().zip(facts.limit.as_ref()).map(|(settings, limit)| {
        jvm_plan(&JvmInputs {
            properties: &settings.value,
            heap_bytes: limit.value.0,
            direct_bytes: Some(limit.value.0),
            peers: 0,
            max_cached_buffer_bytes: Some(CAP_BYTES),
        })
    });
    let mut remedies = Vec::new();
    if temporary && by_threads != Some(false) && facts.max_cached_buffer().is_none_or(|cap| cap > CAP_BYTES) {
        // Everything taken is given back but what small transfers leave: at most the cap per thread.
        let kept = plan.as_ref().map(|plan| plan.kept_bytes());
        let freed = match full {
            Some(dump) => Some(above(dump.heap, CAP_BYTES)),
            None => worst.allocated.zip(kept).map(|(allocated, kept)| allocated.saturating_sub(kept)),
        };
        let cap = CAP_BYTES;
        remedies.push(
            Remedy::new(
                text!(
                    "start the broker with -Djdk.nio.maxCachedBufferSize={cap}: larger buffers are freed after each transfer",
                    "以 -Djdk.nio.maxCachedBufferSize={cap} 启动：更大的缓冲区用完即释放"
                ),
                true,
            )
            .frees(freed)
            .caution(text!(
                "bounds what is kept, not the peak of transfers under way; write plain digits, 1m is silently ignored",
                "只限制保留量，不限制传输中的峰值；必须写纯数字，写成 1m 会被静默忽略"
            )),
        );
    }
    if let (Some(plan), Some(requested)) = (&plan, worst.requested)
        && worst.role == ThreadRole::Network
        && let Some(settings) = facts.settings()
    {
        if let Some(fitting) = plan.fitting_request_bytes() {
            let now = settings.value.number("socket.request.max.bytes").value;
            if i64::try_from(fitting).is_ok_and(|fitting| fitting < now) {
                let (fitting, now, requested) =
                    (exact(fitting), exact(u64::try_from(now).unwrap_or(0)), exact(requested));
                remedies.push(
                    Remedy::new(
                        text!(
                            "lower socket.request.max.bytes from {now} to at most {fitting}: with that the sum of all \
                             threads fits into the limit",
                            "把 socket.request.max.bytes 从 {now} 降到不超过 {fitting}：这样所有线程之和不超过上限"
                        ),
                        true,
                    )
                    .caution(text!(
                        "larger requests are refused then; a request of {requested} bytes was on its way",
                        "更大的请求会被拒绝；出错时正有 {requested} 字节的请求到达"
                    )),
                );
            }
        }
        // Listeners that can receive a request of that size, and have threads to spare.
        let of_listeners: Vec<u64> = plan
            .terms
            .iter()
            .filter(|term| term.role == ThreadRole::Network && term.each_bytes >= requested)
            .map(|term| term.threads)
            .collect();
        let threads = of_listeners.iter().copied().max().unwrap_or(0);
        let fewer: u64 = of_listeners.iter().map(|threads| threads.saturating_sub(FEW_THREADS)).sum();
        if fewer > 0 {
            // Threads that end cannot give back more than was taken.
            let freed = fewer.saturating_mul(requested).min(worst.allocated.unwrap_or(u64::MAX));
            remedies.push(
                Remedy::new(
                    text!(
                        "lower num.network.threads from {threads} towards {FEW_THREADS} per listener: each thread less keeps \
                         one largest request less",
                        "把每个监听器的 num.network.threads 从 {threads} 降向 {FEW_THREADS}：每少一个线程，就少保留一份最大的请求"
                    ),
                    false,
                )
                .frees(Some(freed))
                .caution(text!(
                    "a change while the broker runs may halve or double the number at most, again and again",
                    "运行中修改每次最多减半或翻倍，可多次进行"
                )),
            );
        }
    }
    remedies.push(
        Remedy::new(
            text!(
                "raise -XX:MaxDirectMemorySize above the sum that `weir plan --jvm` gives",
                "把 -XX:MaxDirectMemorySize 提高到 `weir plan --jvm` 给出的总和以上"
            ),
            true,
        )
        .caution(text!(
            "moves the limit, not the growth; heap and direct memory together must fit into the container",
            "只是推迟上限，并不阻止增长；堆与直接内存之和必须小于容器限额"
        )),
    );
    vec![Finding {
        id: "direct-memory-exhausted",
        severity: Severity::Critical,
        title,
        cause,
        evidence,
        remedies,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{buffer, findings_of_dump, one, thread};
    use crate::heap::{Books, Heap, Held};

    const FAILURE: &str = "[2026-11-30 11:57:23,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
        java.lang.OutOfMemoryError: Cannot reserve 82520280 bytes of direct buffer memory (allocated: 2146611245, limit: 2147483648)\n\
        \tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\tat kafka.network.Processor.poll(SocketServer.scala:1107)\n";

    #[test]
    fn a_failed_reservation_names_bytes_threads_and_cure() {
        let found = one("direct-memory-exhausted", &[FAILURE, "num.network.threads=80\n"]).unwrap();
        assert!(
            found.title.en.contains("82,520,280 bytes were asked for, 872,403 of 2.00 GiB were left"),
            "{found:?}"
        );
        assert!(found.cause.en.contains("network threads"), "{found:?}");
        assert_eq!(found.evidence[0].line, 2);
        // 80 network threads, 8 handlers and a cleaner keep at most 1 MiB each.
        assert_eq!(found.remedies[0].frees_bytes, Some(2_146_611_245 - 89 * 1_048_576));
        assert!(
            found
                .remedies
                .iter()
                .any(|remedy| remedy.action.en.contains("lower socket.request.max.bytes from 104,857,600"))
        );
        // 77 threads × the request are more than was ever taken.
        let fewer = found
            .remedies
            .iter()
            .find(|remedy| remedy.action.en.contains("lower num.network.threads"))
            .unwrap();
        assert_eq!(fewer.frees_bytes, Some(2_146_611_245));
        assert!(found.cause.en.contains("most likely"), "{found:?}");
    }

    #[test]
    fn threads_are_lowered_by_what_each_listener_has_to_spare() {
        let threads = |texts: &[&str]| {
            let found = one("direct-memory-exhausted", texts).unwrap();
            let fewer = |remedy: &&Remedy| remedy.action.en.contains("lower num.network.threads");
            found.remedies.iter().find(fewer).map(|remedy| remedy.frees_bytes)
        };
        let three = "num.network.threads=3\nlisteners=A://:1,B://:2,C://:3\n\
                     listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT\n";
        assert_eq!(threads(&[FAILURE, three]), None, "the default has none to spare");
        let more = three.replace("=3\n", "=5\n");
        assert_eq!(threads(&[FAILURE, &more]), Some(Some(6 * 82_520_280)));
        let tls = more.replace("B:PLAINTEXT,C:PLAINTEXT", "B:SSL,C:SSL");
        assert_eq!(threads(&[FAILURE, &tls]), Some(Some(2 * 82_520_280)));
    }

    #[test]
    fn a_dump_says_who_fills_the_memory() {
        let heap = |held: Held| {
            let mut heap = Heap::default();
            heap.threads.push(thread("data-plane-kafka-network-thread-1-ListenerName(A)-PLAINTEXT-0"));
            heap.allocations.push(buffer(2_146_611_245, held, Books::Direct));
            heap.statics.max_direct_bytes = Some(2_147_483_648);
            heap
        };
        let found = |held: Held| {
            let found = findings_of_dump(&heap(held), &[FAILURE, "num.network.threads=80\n"]);
            found.into_iter().find(|finding| finding.id == "direct-memory-exhausted").unwrap()
        };
        let cap = |found: &Finding| {
            let cap = |remedy: &&Remedy| remedy.action.en.contains("maxCachedBufferSize");
            found.remedies.iter().find(cap).map(|remedy| remedy.frees_bytes)
        };
        let kept = found(Held::Cached(Some(0)));
        assert!(kept.cause.en.contains("as the heap dump shows"), "{kept:?}");
        assert_eq!(cap(&kept), Some(Some(2_146_611_245)));
        let garbage = found(Held::Garbage);
        assert!(garbage.cause.en.contains("something else than the buffers"), "{garbage:?}");
        assert_eq!(cap(&garbage), None, "what would free nothing is no cure");
    }

    #[test]
    fn a_heap_failure_is_another_matter() {
        assert!(one("direct-memory-exhausted", &["java.lang.OutOfMemoryError: Java heap space\n"]).is_none());
    }

    #[test]
    fn without_settings_nothing_is_computed_that_is_not_known() {
        let found = one("direct-memory-exhausted", &[FAILURE]).unwrap();
        assert!(found.remedies.iter().all(|remedy| remedy.frees_bytes.is_none()));
        let found =
            one("direct-memory-exhausted", &["java.lang.OutOfMemoryError: Direct buffer memory\n"]).unwrap();
        assert!(found.title.en.contains("does not say"));
    }
}
