//! Direct memory that objects hold: which field of which class has most of it, and whether it is Kafka's, Netty's or a
//! plugin's.

use super::{Facts, Finding, Remedy, Severity, exact, human, text};
use crate::account::Class;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dump in &facts.dumps {
        let limit = dump.account.limit_bytes.unwrap_or(dump.account.whole_bytes);
        let owners =
            dump.account.owners.iter().filter(|owner| matches!(owner.class, Class::Held | Class::Foreign));
        for owner in owners.filter(|owner| owner.sum.bytes >= limit / 10 && owner.sum.bytes > 0).take(5) {
            let (bytes, size, count) =
                (exact(owner.sum.bytes), human(owner.sum.bytes), exact(owner.sum.count));
            let name = &owner.name;
            let mut evidence = vec![dump.proof(text!(
                "{name}: {count} buffers, {bytes} bytes",
                "{name}：{count} 个缓冲区，{bytes} 字节"
            ))];
            if !owner.path.is_empty() {
                evidence.push(dump.proof(owner.path.join(" → ")));
            }
            let (cause, remedy, frees, restart, caution) = if name.contains("SslTransportLayer.") {
                (
                    text!(
                        "Each TLS connection that was sent file data keeps a buffer of 32,768 bytes until it closes: it \
                         grows with connections.",
                        "每个发送过文件数据的 TLS 连接都会保留 32,768 字节的缓冲区直到关闭：它随连接数增长。"
                    ),
                    text!(
                        "bound the connections: max.connections, max.connections.per.ip, connections.max.idle.ms",
                        "限制连接：max.connections、max.connections.per.ip、connections.max.idle.ms"
                    ),
                    Some(owner.sum.bytes),
                    false,
                    Some(text!(
                        "connections.max.idle.ms takes a restart; the other two change while the broker runs",
                        "connections.max.idle.ms 需要重启；另两项可在运行中修改"
                    )),
                )
            } else if name.contains("netty.") {
                (
                    text!(
                        "Netty's allocator pools its chunks and keeps them; it belongs to a plugin or an agent, not to Kafka.",
                        "Netty 的分配器池化并保留内存块；它属于插件或探针，而不是 Kafka。"
                    ),
                    text!("bound it with -Dio.netty.maxDirectMemory", "用 -Dio.netty.maxDirectMemory 限制它"),
                    None,
                    true,
                    Some(text!(
                        "Netty's limit and -XX:MaxDirectMemorySize add up: count both into the container",
                        "Netty 的上限与 -XX:MaxDirectMemorySize 相加：容器限额要同时计入两者"
                    )),
                )
            } else {
                (
                    text!(
                        "The application holds them itself; they are no temporary buffers, so jdk.nio.maxCachedBufferSize and \
                         thread counts do not touch them.",
                        "由应用自己持有；它们不是临时缓冲区，jdk.nio.maxCachedBufferSize 与线程数都不起作用。"
                    ),
                    text!(
                        "look at who fills {name}, along the path in the evidence",
                        "沿证据中的引用路径查看是谁填充了 {name}"
                    ),
                    None,
                    false,
                    None,
                )
            };
            let remedy = Remedy { caution, ..Remedy::new(remedy, restart).frees(frees) };
            findings.push(Finding {
                id: "held-buffers",
                severity: if owner.sum.bytes >= limit / 2 { Severity::Warning } else { Severity::Note },
                title: text!(
                    "{name} holds {size} ({bytes} bytes) of direct memory in {count} buffers",
                    "{name} 在 {count} 个缓冲区中持有 {size}（{bytes} 字节）直接内存"
                ),
                cause,
                evidence,
                remedies: vec![remedy],
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{buffer, findings_of_dump};
    use crate::heap::{Books, Heap, Held, Holder};

    fn found(owner: &str, bytes: u64) -> Option<Finding> {
        let holder = Holder {
            owner: owner.into(),
            path: vec!["static x.Y.z".to_owned(), owner.to_owned()],
            complete: true,
            thread: None,
        };
        let mut heap = Heap::default();
        heap.allocations.push(buffer(bytes, Held::Objects(holder), Books::Direct));
        heap.statics.max_direct_bytes = Some(1 << 30);
        findings_of_dump(&heap, &[]).into_iter().find(|finding| finding.id == "held-buffers")
    }

    #[test]
    fn holders_are_named_with_their_path_and_kind() {
        let leak = found("plugin.Prefetcher.chunks", 600 << 20).unwrap();
        assert_eq!((leak.severity, leak.evidence.len()), (Severity::Warning, 2));
        assert!(leak.cause.en.contains("application holds"));
        assert!(found("io.netty.buffer.PoolChunk.memory", 200 << 20).unwrap().cause.en.contains("Netty"));
        let tls =
            found("org.apache.kafka.common.network.SslTransportLayer.fileChannelBuffer", 200 << 20).unwrap();
        assert!(tls.cause.en.contains("TLS connection"));
        assert!(tls.remedies[0].caution.as_ref().unwrap().en.contains("idle.ms takes a restart"));
        assert!(found("plugin.Small.buffer", 1 << 20).is_none());
    }
}
