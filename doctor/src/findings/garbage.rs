//! Direct memory that nobody uses any more and that no collection has given back.

use super::{Facts, Finding, Remedy, Severity, exact, human, text};
use crate::account::Class;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dump in &facts.dumps {
        let garbage = dump.account.sum(Class::Garbage);
        let limit = dump.account.limit_bytes.unwrap_or(dump.account.whole_bytes);
        if garbage.count == 0 || garbage.bytes < limit / 10 {
            continue;
        }
        let (bytes, size, count) = (exact(garbage.bytes), human(garbage.bytes), exact(garbage.count));
        let mut evidence = vec![dump.proof(text!(
            "{count} buffers, {bytes} bytes, held by their cleaners alone",
            "{count} 个缓冲区，{bytes} 字节，仅由其 Cleaner 持有"
        ))];
        let disabled = facts.switched_on("DisableExplicitGC");
        let severity =
            if disabled.is_some() || garbage.bytes >= limit / 2 { Severity::Warning } else { Severity::Note };
        evidence.extend(disabled);
        findings.push(Finding {
            id: "direct-garbage",
            severity,
            title: text!(
                "{size} ({bytes} bytes) of direct memory are garbage in {count} buffers",
                "{count} 个缓冲区共 {size}（{bytes} 字节）直接内存已是垃圾"
            ),
            cause: text!(
                "Nothing holds these buffers any more, but their memory counts against the limit until a collection finds \
                 them. Code that allocates direct buffers and drops them, in place of pooling, makes them.",
                "这些缓冲区已无人引用，但在回收发现它们之前仍占用额度。它们来自分配后即丢弃、而不是池化直接缓冲区的代码。"
            ),
            evidence,
            remedies: vec![
                Remedy::new(text!("jcmd PID GC.run gives it back at once", "jcmd PID GC.run 可立即归还"), false)
                    .frees(Some(garbage.bytes))
                    .caution(text!(
                        "it does nothing under -XX:+DisableExplicitGC; and the garbage comes back",
                        "在 -XX:+DisableExplicitGC 下无效；垃圾还会再产生"
                    )),
            ],
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{buffer, findings_of_dump, thread};
    use crate::heap::{Books, Heap, Held};

    fn severity(garbage: u64, texts: &[&str]) -> Option<(Severity, u64)> {
        let mut heap = Heap::default();
        heap.threads.push(thread("main"));
        heap.allocations.push(buffer(1000, Held::Cached(Some(0)), Books::Direct));
        heap.allocations.push(buffer(garbage, Held::Garbage, Books::Direct));
        heap.statics.max_direct_bytes = Some(100_000);
        let found =
            findings_of_dump(&heap, texts).into_iter().find(|finding| finding.id == "direct-garbage")?;
        Some((found.severity, found.frees_bytes()))
    }

    #[test]
    fn garbage_is_told_by_its_share_of_the_limit_and_by_the_flag() {
        assert_eq!(severity(20_000, &[]), Some((Severity::Note, 20_000)));
        assert_eq!(severity(20_000, &["-XX:+DisableExplicitGC\n"]), Some((Severity::Warning, 20_000)));
        assert_eq!(severity(60_000, &[]), Some((Severity::Warning, 60_000)));
        assert_eq!(severity(5_000, &["-XX:+DisableExplicitGC\n"]), None);
    }
}
