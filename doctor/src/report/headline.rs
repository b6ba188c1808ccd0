//! What a page says beside its headline: how many findings there are, and where the memory of each dump stands, in exact
//! bytes.

use crate::account::{Account, Class};
use crate::findings::{Finding, Severity};
use crate::language::{Text, text};

use super::format::{bytes, size};

/// How many findings there are of each severity, the gravest first; none of those that do not occur.
pub(super) fn counts(findings: &[Finding]) -> Vec<(Severity, usize)> {
    [Severity::Critical, Severity::Warning, Severity::Note]
        .into_iter()
        .map(|severity| (severity, findings.iter().filter(|finding| finding.severity == severity).count()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Where the direct memory of a dump stands and who has most of it.
pub(super) fn standing(account: &Account) -> Text {
    let used = account.direct.counted.map_or(account.direct.found.bytes, |pool| pool.used_bytes);
    let (exact, readable) = (bytes(used), size(used));
    let pool = match (account.limit_bytes.filter(|limit| *limit > 0), account.left_bytes) {
        (Some(limit), Some(left)) => {
            let share = used as f64 * 100.0 / limit as f64;
            let (limit, left) = (bytes(limit), bytes(left));
            text!(
                "The direct pool has {exact} of {limit} bytes ({share:.1} %), {left} are left",
                "直接内存池已用 {exact} 字节，上限 {limit} 字节（{share:.1} %），剩余 {left} 字节"
            )
        }
        _ => text!(
            "The direct pool has {exact} bytes ({readable})",
            "直接内存池已用 {exact} 字节（{readable}）"
        ),
    };
    let outside = account.uncounted_temporary.bytes;
    let outside = match outside {
        0 => Text::verbatim(""),
        _ => {
            let outside = bytes(outside);
            text!(
                ", {outside} bytes of temporary buffers are in no pool",
                "，另有 {outside} 字节临时缓冲区不计入任何池"
            )
        }
    };
    let most = account.groups.first().filter(|group| {
        let kept = account.sum(Class::Cached).bytes + account.sum(Class::InFlight).bytes;
        group.spread.sum > 0 && kept >= account.whole_bytes / 2
    });
    let owner = account.owners.iter().find(|owner| !matches!(owner.class, Class::Mapped | Class::Image));
    match (most, owner) {
        (Some(group), _) => {
            let (name, sum) = (group.label(), bytes(group.spread.sum));
            let (count, threads) = (group.spread.count, group.threads);
            text!(
                "{pool}{outside}. Most of it: {name}, {sum} bytes in {count} of {threads} threads.",
                "{pool}{outside}。其中最多的是{name}：{threads} 个线程中的 {count} 个共 {sum} 字节。";
                pool, outside, name
            )
        }
        (None, Some(owner)) => {
            let (name, sum) = (&owner.name, bytes(owner.sum.bytes));
            text!(
                "{pool}{outside}. Most of it: {name}, {sum} bytes.",
                "{pool}{outside}。其中最多的是 {name}：{sum} 字节。";
                pool, outside
            )
        }
        (None, None) => text!("{pool}{outside}.", "{pool}{outside}。"; pool, outside),
    }
}
