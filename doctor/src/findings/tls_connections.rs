//! TLS connections that were sent file data keep a direct buffer each: memory that grows with connections, not threads.

use super::{Facts, Finding, Remedy, Severity, exact, human, text};
use crate::jvm_plan::TLS_CONNECTION_BYTES;

const CLASS: &str = "SslTransportLayer";

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(limit) = &facts.limit else { return Vec::new() };
    let Some((file, row, name)) = facts.most_instances(CLASS) else { return Vec::new() };
    let bytes = row.instances.saturating_mul(TLS_CONNECTION_BYTES);
    let total = limit.value.0;
    if bytes < total / 10 {
        return Vec::new();
    }
    let severity = if bytes < total / 2 { Severity::Note } else { Severity::Warning };
    let mut evidence = vec![facts.proof(file, row.line, format!("{} × {name}", row.instances))];
    evidence.extend(limit.proofs.iter().cloned());
    let (connections, size, each) = (exact(row.instances), human(bytes), exact(TLS_CONNECTION_BYTES));
    vec![Finding {
        id: "tls-connections",
        severity,
        title: text!(
            "{connections} TLS connections may keep up to {size} of direct memory",
            "{connections} 个 TLS 连接最多可保留 {size} 直接内存"
        ),
        cause: text!(
            "Each TLS connection that was sent file data keeps a buffer of {each} bytes until it closes, and about 48 KiB \
             of heap: it grows with the number of connections, and neither threads nor cached buffers have to do with it.",
            "每个发送过文件数据的 TLS 连接都会保留 {each} 字节的缓冲区直到关闭，另加约 48 KiB 堆：它随连接数增长，与线程数和缓存缓冲区无关。"
        ),
        evidence,
        remedies: vec![
            Remedy::new(
                text!(
                    "set max.connections and max.connections.per.ip, and lower connections.max.idle.ms",
                    "设置 max.connections 与 max.connections.per.ip，并降低 connections.max.idle.ms"
                ),
                false,
            )
            .caution(text!(
                "connections.max.idle.ms takes a restart; the other two change while the broker runs",
                "connections.max.idle.ms 需要重启；另两项可在运行中修改"
            )),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    fn histogram(connections: u64) -> String {
        format!(
            " num     #instances         #bytes  class name (module)\n   1: {connections} 16 org.apache.kafka.common.network.{CLASS}\nTotal 9 9\n"
        )
    }

    #[test]
    fn many_connections_are_named_with_what_they_may_keep() {
        let limit = "-XX:MaxDirectMemorySize=268435456\n";
        let found = one("tls-connections", &[&histogram(5000), limit]).unwrap();
        assert!(
            found.title.en.contains("5,000 TLS connections") && found.title.en.contains("156.25 MiB"),
            "{found:?}"
        );
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(one("tls-connections", &[&histogram(1000), limit]).unwrap().severity, Severity::Note);
        assert!(one("tls-connections", &[&histogram(100), limit]).is_none());
        assert!(one("tls-connections", &[&histogram(5000)]).is_none());
    }
}
