//! Failures for want of direct memory in the logs.

use super::Check;
use crate::evidence::MemoryKind;
use crate::findings::{Facts, Text, exact, text};

fn entries_of(count: u64) -> Text {
    text!("{count} entries", "{count} 条日志", count = exact(count))
}

pub(super) fn failures(facts: &Facts<'_>, since_ms: Option<i64>) -> Check {
    let id = "no-reservation-failures";
    let criterion = match since_ms {
        None => text!(
            "no reservation of direct memory fails (\"Cannot reserve … bytes of direct buffer memory\")",
            "没有直接内存申请失败（“Cannot reserve … bytes of direct buffer memory”）"
        ),
        Some(_) => text!(
            "no reservation of direct memory fails after the given time (\"Cannot reserve … bytes of direct buffer memory\")",
            "给定时间之后没有直接内存申请失败（“Cannot reserve … bytes of direct buffer memory”）"
        ),
    };
    let logs = &facts.evidence.broker_logs;
    if logs.is_empty() {
        let lacks = text!("no log of the broker", "没有 Broker 日志");
        return Check::not_judged(id, criterion, lacks);
    }
    let (mut new, mut old, mut timeless, mut at_least) = (0u64, 0u64, 0u64, false);
    let mut proofs = Vec::new();
    for (file, failure) in facts.failures(MemoryKind::Direct) {
        let repeats = &failure.repeats;
        match (since_ms, repeats.latest_ms) {
            (None, _) => new += repeats.count,
            // Of a group with failures on both sides the latest is one at least.
            (Some(since), Some(latest)) if latest > since => {
                let all = repeats.first_ms.is_some_and(|first| first > since);
                new += if all { repeats.count } else { 1 };
                at_least |= !all;
            }
            (Some(_), Some(_)) => {
                old += repeats.count;
                continue;
            }
            (Some(_), None) => {
                timeless += repeats.count;
                continue;
            }
        }
        proofs.push(facts.failure_proof(file, failure));
    }
    let entries: u64 = logs.iter().map(|log| log.value.entries).sum();
    let (new_text, old_text, entries_text) = (exact(new), exact(old), exact(entries));
    if new > 0 {
        let failures = if new == 1 { "failure" } else { "failures" };
        let entry = if entries == 1 { "entry" } else { "entries" };
        let says = if at_least {
            text!(
                "{new_text} or more failures in {entries_text} entries",
                "{entries_text} 条日志中至少有 {new_text} 次失败"
            )
        } else {
            text!(
                "{new_text} {failures} in {entries_text} {entry}",
                "{entries_text} 条日志中有 {new_text} 次失败"
            )
        };
        return Check::judged(id, criterion, false, says).number("failures", new).cite(&proofs);
    }
    if timeless > 0 {
        let count = exact(timeless);
        let lacks = text!("{count} failures have no time", "{count} 次失败没有时间");
        return Check::not_judged(id, criterion, lacks).number("failures_without_time", timeless);
    }
    let last = logs.iter().filter_map(|log| log.value.last_ms).max();
    if let Some(since) = since_ms
        && last.is_none_or(|last| last <= since)
    {
        let lacks = text!("the logs have no entry after the given time", "日志中没有给定时间之后的条目");
        return Check::not_judged(id, criterion, lacks);
    }
    if entries == 0 {
        let lacks = text!("the logs have no entries", "日志中没有条目");
        return Check::not_judged(id, criterion, lacks);
    }
    let says = match since_ms {
        None => text!("none in {entries_text} entries", "{entries_text} 条日志中没有"),
        Some(_) => text!(
            "none after the given time in {entries_text} entries, {old_text} before",
            "{entries_text} 条日志中，给定时间之后没有，之前有 {old_text} 次"
        ),
    };
    let places: Vec<_> =
        logs.iter().map(|log| facts.proof(log.file, 0, entries_of(log.value.entries))).collect();
    Check::judged(id, criterion, true, says).number("failures", 0).number("entries", entries).cite(&places)
}
