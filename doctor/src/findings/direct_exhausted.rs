//! Direct memory ran out: what was asked for, by whom, and what was left.

use super::{Facts, Finding, Remedy, Severity, Text, exact, human, text};
use crate::evidence::{MemoryKind, ThreadRole};
use crate::jvm_plan::{JvmInputs, JvmTerm, jvm_plan};

/// A cap on cached buffers that costs little and frees most.
const RECOMMENDED_CAP_BYTES: u64 = 1 << 20;

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
    let cause = if temporary {
        text!(
            "{count} failed reservations, by: {roles}. The JDK wanted a temporary direct buffer as large as the whole rest \
             of a transfer, because Kafka reads and writes heap buffers; each thread keeps the largest that it ever \
             needed. The request that failed is the last straw; what fills the memory are the buffers kept by all threads.",
            "共 {count} 次申请失败，来自：{roles}。Kafka 用堆缓冲区读写套接字，JDK 因此按剩余传输的总长申请临时直接缓冲区，\
             每个线程会一直保留它用过的最大一块。失败的请求只是最后一根稻草，占满内存的是所有线程保留的缓冲区。"; roles
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
            max_cached_buffer_bytes: Some(RECOMMENDED_CAP_BYTES),
        })
    });
    let mut remedies = Vec::new();
    if temporary && facts.max_cached_buffer().is_none_or(|cap| cap > RECOMMENDED_CAP_BYTES) {
        // Everything taken is given back but what small transfers leave: at most the cap per thread.
        let kept = plan.as_ref().map(|plan| plan.kept_bytes());
        let freed = worst.allocated.zip(kept).map(|(allocated, kept)| allocated.saturating_sub(kept));
        let cap = RECOMMENDED_CAP_BYTES;
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
        let network: u64 =
            plan.terms.iter().filter(|term| term.role == ThreadRole::Network).map(|term| term.threads).sum();
        if network > 3 {
            let largest = plan
                .terms
                .iter()
                .filter(|term| term.role == ThreadRole::Network)
                .max_by_key(|term| term.threads);
            let threads = largest.map_or(network, |term: &JvmTerm| term.threads);
            remedies.push(
                Remedy::new(
                    text!(
                        "lower num.network.threads from {threads} towards 3 per listener: each thread less keeps one \
                         largest request less",
                        "把每个监听器的 num.network.threads 从 {threads} 降向 3：每少一个线程，就少保留一份最大的请求"
                    ),
                    false,
                )
                .frees(threads.checked_sub(3).map(|fewer| fewer.saturating_mul(requested)))
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
    use crate::findings::tests::one;

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
        assert!(found.remedies.iter().any(|remedy| remedy.frees_bytes == Some(77 * 82_520_280)));
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
