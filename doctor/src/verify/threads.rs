//! What threads keep, from a dump: no buffer larger than the cap; and on JDK 24 and later the buffers that are in no pool.

use super::Check;
use super::pool::Limit;
use crate::account::{Class, Holds};
use crate::findings::{Dump, Facts, exact, text};
use crate::heap::Held;

/// First JDK whose temporary buffers are in no pool.
pub(super) const UNCOUNTED_FROM_JDK: u32 = 24;
/// What pool and uncounted buffers may come to together, in percent of the limit that was meant for them.
const LEVEL: u64 = 90;

/// The dump that was made last.
fn latest<'f>(facts: &'f Facts<'_>) -> Option<&'f Dump<'f>> {
    facts.dumps.iter().max_by_key(|dump| dump.heap.condition.time_ms)
}

pub(super) fn largest(facts: &Facts<'_>) -> Check {
    let id = "thread-buffer-size";
    let criterion = text!(
        "no thread keeps a buffer larger than jdk.nio.maxCachedBufferSize",
        "没有线程保留大于 jdk.nio.maxCachedBufferSize 的缓冲区"
    );
    let Some(dump) = latest(facts) else {
        return Check::not_judged(id, criterion, text!("no heap dump", "没有堆转储"));
    };
    let Some(cap) = facts.max_cached_buffer() else {
        let lacks = text!("there is no cap to hold them against", "没有可供对照的上限");
        return Check::not_judged(id, criterion, lacks);
    };
    let kept = dump.heap.allocations.iter().filter_map(|allocation| match allocation.held {
        Held::Cached(thread) => Some((allocation.capacity, thread)),
        _ => None,
    });
    let (most, thread) = kept.max_by_key(|(capacity, _)| *capacity).unwrap_or((0, None));
    let name = thread.and_then(|index| dump.heap.threads.get(index)?.name.as_deref()).unwrap_or("?");
    let proven = dump
        .account
        .conclusions
        .iter()
        .any(|conclusion| conclusion.id == "threads" && conclusion.holds == Holds::Yes);
    let count = dump.account.sum(Class::Cached).count;
    let (most_text, cap_text, count_text) = (exact(most), exact(cap), exact(count));
    if most <= cap && !proven {
        let lacks = text!(
            "the dump is not complete: the largest buffer that is there has {most_text} bytes, the cap is {cap_text}",
            "堆转储不完整：其中最大的缓冲区为 {most_text} 字节，上限为 {cap_text}"
        );
        return Check::not_judged(id, criterion, lacks);
    }
    let says = text!(
        "the largest of {count_text} kept buffers has {most_text} bytes ({name}), the cap is {cap_text}",
        "{count_text} 个被保留的缓冲区中最大的为 {most_text} 字节（{name}），上限为 {cap_text}"
    );
    let place = dump.proof(text!("{name}: {most_text} bytes", "{name}：{most_text} 字节"));
    Check::judged(id, criterion, most <= cap, says)
        .number("largest_bytes", most)
        .number("cap_bytes", cap)
        .number("buffers", count)
        .cite([&place])
}

pub(super) fn uncounted(facts: &Facts<'_>, limit: Option<&Limit>) -> Check {
    let id = "uncounted-buffers";
    let criterion = text!(
        "the pool and the temporary buffers that are in no pool (JDK {UNCOUNTED_FROM_JDK} and later) stay under {LEVEL} % of \
         the limit together",
        "直接内存池与不入池的临时缓冲区（JDK {UNCOUNTED_FROM_JDK} 及以后）合计低于上限的 {LEVEL} %"
    );
    let dump = latest(facts);
    let in_dump = dump.map(|dump| dump.account.uncounted_temporary.bytes);
    if let Some(java) = facts.java.as_ref().filter(|java| java.value < UNCOUNTED_FROM_JDK) {
        let jdk = java.value;
        let says = text!("JDK {jdk} counts them all in the pool", "JDK {jdk} 把它们全部计入池中");
        return Check::judged(id, criterion, true, says).number("uncounted_bytes", 0).cite(&java.proofs);
    }
    let native = facts.native_memory().and_then(|found| {
        let other = found.value.categories.get("Other")?;
        Some((
            other.committed,
            facts.proof(found.file, other.line, format!("Other: committed={} bytes", exact(other.committed))),
        ))
    });
    let (together, uncounted, proofs) = match (in_dump, native, facts.java.as_ref()) {
        (Some(bytes), _, java) if java.is_some() || bytes > 0 => {
            let pool = dump.and_then(|dump| dump.account.direct.counted).map_or(0, |pool| pool.used_bytes);
            let place = dump.map(|dump| {
                dump.proof(text!(
                    "temporary buffers in no pool: {bytes} bytes",
                    "不入池的临时缓冲区：{bytes} 字节",
                    bytes = exact(bytes)
                ))
            });
            (pool.saturating_add(bytes), bytes, Vec::from_iter(place))
        }
        // Native memory tracking has both in one figure, and other users of native memory.
        (_, Some((committed, place)), Some(_)) => {
            let pool = facts.pool_used.as_ref().map_or(0, |pool| pool.value);
            (committed, committed.saturating_sub(pool), vec![place])
        }
        (_, _, Some(java)) => {
            let jdk = java.value;
            let lacks = text!(
                "JDK {jdk} has them in no metric: give a heap dump or VM.native_memory",
                "JDK {jdk} 的任何指标都不含它们：请提供堆转储或 VM.native_memory"
            );
            return Check::not_judged(id, criterion, lacks).cite(&java.proofs);
        }
        _ => {
            let lacks = text!("the version of the JDK is not known", "JDK 版本未知");
            return Check::not_judged(id, criterion, lacks);
        }
    };
    let Some((limit, limit_proofs)) = limit else {
        return Check::not_judged(id, criterion, text!("the limit is not known", "上限未知")).cite(&proofs);
    };
    let holds = u128::from(together) * 100 < u128::from(*limit) * u128::from(LEVEL);
    let (together_text, uncounted_text, limit_text) = (exact(together), exact(uncounted), exact(*limit));
    let says = text!(
        "{together_text} bytes together, {uncounted_text} of them in no pool, beside a limit of {limit_text}",
        "合计 {together_text} 字节，其中 {uncounted_text} 不入池，上限为 {limit_text}"
    );
    Check::judged(id, criterion, holds, says)
        .number("together_bytes", together)
        .number("uncounted_bytes", uncounted)
        .number("limit_bytes", *limit)
        .cite(&proofs)
        .cite(limit_proofs)
}
