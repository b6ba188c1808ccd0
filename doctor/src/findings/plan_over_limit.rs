//! The settings allow more direct memory than the limit: it has not failed yet, or that is why it did.

use super::{Facts, Finding, Remedy, Severity, Text, exact, human, text};
use crate::evidence::{MemoryKind, ThreadRole};
use crate::jvm_plan::{JvmInputs, jvm_plan};

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let (Some(settings), Some(limit)) = (facts.settings(), &facts.limit) else { return Vec::new() };
    let plan = jvm_plan(&JvmInputs {
        properties: &settings.value,
        heap_bytes: limit.value.0,
        direct_bytes: Some(limit.value.0),
        peers: 0,
        max_cached_buffer_bytes: facts.max_cached_buffer(),
    });
    if plan.excess_bytes() == 0 {
        return Vec::new();
    }
    let mut evidence = limit.proofs.clone();
    let breaking: Vec<_> = plan.breaking().into_iter().filter_map(|index| plan.terms.get(index)).collect();
    // The settings of the terms that break it, each once.
    let mut names: Vec<&str> = Vec::new();
    for text in breaking.iter().flat_map(|term| [&term.threads_from, &term.size_from]) {
        if let Some((name, _)) = text.en.split_once('=').filter(|(name, _)| !names.contains(name)) {
            names.push(name);
        }
    }
    evidence.extend(names.iter().map(|name| facts.setting_proof(settings, name)));
    let terms: Vec<_> = breaking
        .iter()
        .map(|term| {
            let listener = term.listener.as_ref().map_or(String::new(), |name| format!(" ({name})"));
            let role = term.role.label();
            text!(
                "{role}{listener}: {threads} × {each} = {peak}",
                "{role}{listener}：{threads} × {each} = {peak}",
                threads = term.threads,
                each = exact(term.each_bytes),
                peak = exact(term.peak_bytes());
                role
            )
        })
        .collect();
    let terms = Text::join(&terms, "; ", "；");
    let (sum, total, excess) =
        (human(plan.peak_bytes()), human(plan.limit_bytes), exact(plan.excess_bytes()));
    let failed = facts.failures(MemoryKind::Direct).next().is_some();
    let near = facts.pool_used.as_ref().is_some_and(|pool| pool.value >= limit.value.0 / 10 * 7);
    let mut remedies = Vec::new();
    if let Some(fitting) = plan.fitting_request_bytes() {
        let now = u64::try_from(settings.value.number("socket.request.max.bytes").value).unwrap_or(0);
        if fitting < now {
            let fitting_text = exact(fitting);
            remedies.push(Remedy::new(
                text!(
                    "lower socket.request.max.bytes to at most {fitting_text}: the sum of all threads is then below the limit",
                    "把 socket.request.max.bytes 降到不超过 {fitting_text}：所有线程之和即低于上限"
                ),
                true,
            ));
        }
    }
    if let Some(readers) = breaking.iter().find(|term| term.role == ThreadRole::RemoteLogReader) {
        let (threads, each) = (readers.threads, exact(readers.each_bytes));
        remedies.push(
            Remedy::new(
                text!(
                    "lower remote.log.reader.threads from {threads}: each thread less is {each} bytes less; or lower fetch.max.bytes",
                    "减少 remote.log.reader.threads（现为 {threads}）：每少一个线程少 {each} 字节；或降低 fetch.max.bytes"
                ),
                true,
            )
            .caution(text!(
                "fewer remote reads go on at once; consumers of old data wait longer",
                "同时进行的远程读取变少；读取旧数据的消费者要等更久"
            )),
        );
    }
    remedies.push(Remedy::new(
        text!(
            "weigh threads, sizes and limit with `weir plan --jvm server.properties --heap … --override …`",
            "用 `weir plan --jvm server.properties --heap … --override …` 权衡线程数、大小与上限"
        ),
        false,
    ));
    let cause = text!(
        "The sum of all threads, each with its largest transfer. It is reached only when clients send requests that large; \
         replica fetchers are not counted, the settings do not say how many brokers there are. The terms that break the \
         limit: {terms}.",
        "这是所有线程各自最大传输量之和，只有客户端真的发送这么大的请求才会达到；未计入副本拉取线程，因为设置里没有 Broker 数量。超限的项：{terms}。"; terms
    );
    let cause = match facts.java_that_counts_no_temporary() {
        Some(java) => {
            let (jdk, en, zh) = (java.value, cause.en, cause.zh);
            text!(
                "{en} On JDK {jdk} these bytes are outside the limit and come on top of it.",
                "{zh}在 JDK {jdk} 上，这些字节不受上限约束，而是额外占用。"
            )
        }
        None => cause,
    };
    vec![Finding {
        id: "plan-over-limit",
        severity: if failed || near { Severity::Warning } else { Severity::Note },
        title: text!(
            "The settings allow {sum} of direct memory, the limit is {total}: {excess} bytes too little",
            "按设置直接内存可达 {sum}，上限为 {total}：缺 {excess} 字节"
        ),
        cause,
        evidence,
        remedies,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    const THREADS: &str = "num.network.threads=80\nprocess.roles=broker\n";

    #[test]
    fn settings_that_can_pass_the_limit_are_a_note_until_it_comes_near() {
        let limit = "-XX:MaxDirectMemorySize=2147483648\n";
        let found = one("plan-over-limit", &[THREADS, limit]).unwrap();
        assert_eq!(found.severity, Severity::Note);
        let sum: u64 = 80 * 104_857_600 + 8 * 1_048_588 + 1_048_588 + (8 << 20);
        assert!(found.title.en.contains(&exact(sum - 2_147_483_648)), "{found:?}");
        assert!(found.remedies[0].action.en.contains("lower socket.request.max.bytes"), "{found:?}");
        let newer = one("plan-over-limit", &[THREADS, limit, "java.version=25.0.3\n"]).unwrap();
        assert!(newer.cause.en.contains("On JDK 25 these bytes are outside"), "{newer:?}");
        let full = "jvm_buffer_pool_used_bytes{pool=\"direct\"} 2000000000\n";
        assert_eq!(one("plan-over-limit", &[THREADS, limit, full]).unwrap().severity, Severity::Warning);
    }

    #[test]
    fn readers_that_break_it_are_cited_and_lowered() {
        let settings =
            "num.network.threads=3\nremote.log.storage.system.enable=true\nremote.log.reader.threads=200\n";
        let found = one("plan-over-limit", &[settings, "-XX:MaxDirectMemorySize=2147483648\n"]).unwrap();
        let says: Vec<_> = found.evidence.iter().map(|proof| proof.says.en.as_str()).collect();
        assert!(says.contains(&"remote.log.reader.threads=200"), "{says:?}");
        assert!(says.contains(&"fetch.max.bytes=57671680 (default)"), "{says:?}");
        assert!(
            !found.remedies.iter().any(|remedy| remedy.action.en.contains("lower socket.request")),
            "{found:?}"
        );
        assert!(
            found.remedies[0].action.en.contains("each thread less is 57,671,680 bytes less"),
            "{found:?}"
        );
    }

    #[test]
    fn settings_that_fit_are_fine() {
        assert!(one("plan-over-limit", &[THREADS, "-XX:MaxDirectMemorySize=16000000000\n"]).is_none());
        assert!(one("plan-over-limit", &[THREADS]).is_none());
    }
}
