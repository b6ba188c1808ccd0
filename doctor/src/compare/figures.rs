//! Figures that dumps, metrics, native memory tracking and histograms have, each from the best source of its side.

use super::{Comparison, Figure, Gap, Pair, Side, lacking};
use crate::evidence::{MemoryKind, Metric};
use crate::findings::{Cited, Text, exact, text};

type Of = fn(&Side<'_>) -> Option<Cited<u64>>;

/// A figure of the last dump's JVM.
fn counted(
    side: &Side<'_>,
    what: &Text,
    of: impl Fn(&crate::account::Account) -> Option<u64>,
) -> Option<Cited<u64>> {
    let dump = side.dump()?;
    let value = of(dump.account)?;
    Some(Cited {
        value,
        proofs: vec![dump.proof(text!("{what}: {value}", "{what}：{value}", value = exact(value); what))],
    })
}

fn direct_bytes(side: &Side<'_>) -> Option<Cited<u64>> {
    counted(side, &text!("java.nio.Bits, bytes", "java.nio.Bits，字节"), |account| {
        Some(account.direct.counted?.used_bytes)
    })
    .or_else(|| side.facts.metric(Metric::BufferPoolUsed, "direct"))
}

fn direct_capacity(side: &Side<'_>) -> Option<Cited<u64>> {
    counted(side, &text!("java.nio.Bits, capacity", "java.nio.Bits，容量"), |account| {
        Some(account.direct.counted?.capacity_bytes)
    })
    .or_else(|| side.facts.metric(Metric::BufferPoolCapacity, "direct"))
}

fn direct_buffers(side: &Side<'_>) -> Option<Cited<u64>> {
    counted(side, &text!("java.nio.Bits, buffers", "java.nio.Bits，缓冲区数"), |account| {
        Some(account.direct.counted?.count)
    })
    .or_else(|| side.facts.metric(Metric::BufferPoolCount, "direct"))
}

fn limit(side: &Side<'_>) -> Option<Cited<u64>> {
    let limit = side.facts.limit.as_ref()?;
    Some(Cited { value: limit.value.0, proofs: limit.proofs.clone() })
}

/// What the next reservation could take.
fn left(side: &Side<'_>) -> Option<Cited<u64>> {
    let (limit, used) = (limit(side)?, direct_capacity(side).or_else(|| direct_bytes(side))?);
    let proofs = limit.proofs.into_iter().chain(used.proofs).collect();
    Some(Cited { value: limit.value.saturating_sub(used.value), proofs })
}

fn native(side: &Side<'_>, category: Option<&str>) -> Option<Cited<u64>> {
    let found = side.facts.native_memory()?;
    let figure = match category {
        Some(name) => found.value.categories.get(name)?,
        None => found.value.total.as_ref()?,
    };
    let says = format!("{}: committed={} bytes", category.unwrap_or("Total"), exact(figure.committed));
    Some(Cited { value: figure.committed, proofs: vec![side.facts.proof(found.file, figure.line, says)] })
}

fn instances(side: &Side<'_>, class: &str) -> Option<Cited<u64>> {
    let found = side.facts.evidence.class_histograms.last()?;
    let row = found.value.classes.get(class);
    let (value, line) = row.map_or((0, 0), |row| (row.instances, row.line));
    let says = text!("{class}: {count} instances", "{class}：{count} 个实例", count = exact(value));
    Some(Cited { value, proofs: vec![side.facts.proof(found.file, line, says)] })
}

fn failures(side: &Side<'_>) -> Option<Cited<u64>> {
    let logs = &side.facts.evidence.broker_logs;
    let first = logs.first()?;
    let failures = side.facts.failures(MemoryKind::Direct);
    let (mut value, mut proofs) = (0u64, Vec::new());
    for (file, failure) in failures {
        value = value.saturating_add(failure.repeats.count);
        proofs.push(side.facts.failure_proof(file, failure));
    }
    if proofs.is_empty() {
        proofs.push(side.facts.proof(
            first.file,
            0,
            text!("{count} entries, none of them", "{count} 条日志，均不是", count = first.value.entries),
        ));
    }
    Some(Cited { value, proofs })
}

/// All figures in the order of reports.
fn all() -> Vec<(&'static str, Text, Of)> {
    vec![
        ("direct_bytes", text!("pool direct, bytes", "直接内存池，字节"), direct_bytes),
        ("direct_capacity_bytes", text!("pool direct, capacity", "直接内存池，容量"), direct_capacity),
        ("direct_buffers", text!("pool direct, buffers", "直接内存池，缓冲区数"), direct_buffers),
        ("limit_bytes", text!("limit of the pool direct", "直接内存上限"), limit),
        ("left_bytes", text!("left under the limit", "距上限的余量"), left),
        ("uncounted_bytes", text!("temporary buffers in no pool", "不入池的临时缓冲区"), |side| {
            counted(
                side,
                &text!("temporary buffers in no pool, bytes", "不入池的临时缓冲区，字节"),
                |account| Some(account.uncounted_temporary.bytes),
            )
        }),
        ("mapped_bytes", text!("pool mapped, bytes", "映射文件池，字节"), |side| {
            counted(side, &text!("mapped files, bytes", "映射文件，字节"), |account| {
                Some(account.mapped.counted?.used_bytes)
            })
            .or_else(|| side.facts.metric(Metric::BufferPoolUsed, "mapped"))
        }),
        ("mapped_buffers", text!("pool mapped, maps", "映射文件池，映射数"), |side| {
            counted(side, &text!("mapped files, maps", "映射文件，映射数"), |account| {
                Some(account.mapped.counted?.count)
            })
            .or_else(|| side.facts.metric(Metric::BufferPoolCount, "mapped"))
        }),
        ("failed_reservations", text!("failed reservations in the logs", "日志中的申请失败次数"), failures),
        ("max_heap_bytes", text!("largest heap", "堆上限"), |side| side.facts.max_heap.clone()),
        ("heap_used_bytes", text!("heap in use", "堆已用"), |side| {
            side.facts.metric(Metric::HeapUsed, "")
        }),
        ("resident_bytes", text!("memory of the process", "进程内存"), |side| {
            side.facts.metric(Metric::ResidentMemory, "")
        }),
        ("native_total_bytes", text!("native memory tracking, total", "NMT 合计"), |side| {
            native(side, None)
        }),
        ("native_other_bytes", text!("native memory tracking, Other", "NMT Other"), |side| {
            native(side, Some("Other"))
        }),
        (
            "request_memory_used_bytes",
            text!("memory of requests (KIP-72)", "请求内存（KIP-72）"),
            |side| side.facts.metric(Metric::MemoryPoolUsed, ""),
        ),
        ("threads", text!("threads of the JVM", "JVM 线程数"), |side| {
            side.facts.metric(Metric::Threads, "")
        }),
        ("buffer_objects", text!("objects of DirectByteBuffer", "DirectByteBuffer 对象数"), |side| {
            instances(side, "java.nio.DirectByteBuffer")
        }),
        ("thread_caches", text!("threads' caches of buffers", "线程缓冲区缓存数"), |side| {
            instances(side, "sun.nio.ch.Util$BufferCache")
        }),
    ]
}

pub(super) fn compare(before: &Side<'_>, after: &Side<'_>, comparison: &mut Comparison) {
    for (id, label, of) in all() {
        match (of(before), of(after)) {
            (Some(one), Some(other)) => comparison.figures.push(Figure {
                id,
                label,
                pair: Pair { before: one.value, after: other.value },
                before_from: one.proofs,
                after_from: other.proofs,
            }),
            // What neither has is not missed.
            (None, None) if id != "direct_bytes" => {}
            (one, other) => {
                let why = lacking(one.is_some(), other.is_some()).unwrap_or_else(|| text!("", ""));
                comparison.gaps.push(Gap { what: label, why });
            }
        }
    }
}
