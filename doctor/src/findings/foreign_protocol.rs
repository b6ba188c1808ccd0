//! Somebody speaks another protocol to a Kafka port: the first four bytes of a TLS hello or an HTTP request, read as a
//! request's size.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Finding, Proof, Remedy, Severity, Text, exact, text};
use crate::evidence::MemoryKind;

/// Peers that are written out.
const PEERS: usize = 8;

/// What a size means when its four bytes are the start of another protocol.
pub fn decode_size(size: u64) -> Option<Text> {
    let bytes = u32::try_from(size).ok()?.to_be_bytes();
    Some(match &bytes {
        // Record type, major version 3, minor version up to TLS 1.3's legacy 3.3, high byte of the length.
        [0x16, 0x03, 0..=4, _] => text!("a TLS ClientHello", "TLS ClientHello"),
        [0x15, 0x03, 0..=4, 0] => text!("a TLS alert", "TLS 告警"),
        b"GET " => text!("an HTTP GET", "HTTP GET 请求"),
        b"POST" => text!("an HTTP POST", "HTTP POST 请求"),
        b"HEAD" => text!("an HTTP HEAD", "HTTP HEAD 请求"),
        b"PUT " => text!("an HTTP PUT", "HTTP PUT 请求"),
        b"OPTI" => text!("an HTTP OPTIONS", "HTTP OPTIONS 请求"),
        b"DELE" => text!("an HTTP DELETE", "HTTP DELETE 请求"),
        b"CONN" => text!("an HTTP CONNECT", "HTTP CONNECT 请求"),
        b"PATC" => text!("an HTTP PATCH", "HTTP PATCH 请求"),
        b"PRI " => text!("an HTTP/2 preface", "HTTP/2 连接前言"),
        b"HTTP" => text!("an HTTP response", "HTTP 响应"),
        b"SSH-" => text!("an SSH banner", "SSH 版本标识"),
        _ => return None,
    })
}

/// All that was seen of one protocol.
#[derive(Default)]
struct Seen {
    /// Sizes, the smallest first.
    sizes: BTreeSet<u64>,
    count: u64,
    peers: BTreeSet<String>,
    proofs: Vec<Proof>,
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    // A hello of another length is another size of the same protocol; reserved ones first.
    let mut seen: BTreeMap<(bool, Text), Seen> = BTreeMap::new();
    for kind in [MemoryKind::Direct, MemoryKind::Heap] {
        for (file, failure) in facts.failures(kind) {
            let Some((size, what)) = failure.requested.and_then(|size| Some((size, decode_size(size)?)))
            else {
                continue;
            };
            let seen = seen.entry((false, what)).or_default();
            seen.sizes.insert(size);
            seen.count += failure.repeats.count;
            seen.proofs.push(facts.failure_proof(file, failure));
        }
    }
    for log in &facts.evidence.broker_logs {
        for (size, refused) in &log.value.refused {
            let Some((size, what)) =
                u64::try_from(*size).ok().and_then(|size| Some((size, decode_size(size)?)))
            else {
                continue;
            };
            let seen = seen.entry((true, what)).or_default();
            let count = refused.repeats.count;
            seen.sizes.insert(size);
            seen.count += count;
            seen.peers.extend(refused.peers.iter().cloned());
            let says = format!("Invalid receive (size = {size}) ×{count}");
            seen.proofs.push(facts.proof(log.file, refused.repeats.first_line, says));
        }
    }
    seen.into_iter().filter_map(|((refused, what), seen)| finding(facts, what, refused, seen)).collect()
}

fn finding(facts: &Facts<'_>, what: Text, refused: bool, seen: Seen) -> Option<Finding> {
    let Seen { sizes, count, peers, proofs: mut evidence } = seen;
    let (smallest, size) = (*sizes.first()?, *sizes.last()?);
    let reserved = !refused;
    let hex = format!("0x{smallest:08x}");
    let size_text = exact(smallest);
    let others = match sizes.len() {
        1 => text!("", ""),
        all => text!(" and {more} more like it", "，另有 {more} 种类似的", more = all - 1),
    };
    let peers: Vec<_> = peers.into_iter().take(PEERS).collect();
    let peers = peers.join(", ");
    let from = match peers.is_empty() {
        true => Text::verbatim(""),
        false => text!(" ({peers})", "（{peers}）"),
    };
    let mut remedies = vec![Remedy::new(
        text!(
            "find the client{from} and give it the right protocol and port; often it is a probe or a load balancer",
            "找出该客户端{from}并更正协议与端口；常见的是健康探测或负载均衡器";
            from
        ),
        false,
    )];
    if reserved {
        let settings = facts.settings();
        let cap = settings.map(|settings| settings.value.number("socket.request.max.bytes").value);
        if let Some(settings) = settings {
            evidence.push(facts.setting_proof(settings, "socket.request.max.bytes"));
        }
        if cap.is_none_or(|cap| u64::try_from(cap).is_ok_and(|cap| cap >= size)) {
            remedies.push(
                Remedy::new(
                    text!(
                        "lower socket.request.max.bytes below {size_text} (the default is 104,857,600): then it is refused \
                         before anything is reserved",
                        "把 socket.request.max.bytes 降到 {size_text} 以下（默认 104,857,600）：这样在申请内存之前就会拒绝"
                    ),
                    true,
                )
                .frees(Some(size))
                .caution(text!("for each such request; the client still gets no answer", "每个此类请求；客户端仍得不到回应")),
            );
        }
    }
    let severity = if reserved { Severity::Critical } else { Severity::Warning };
    Some(Finding {
        id: "foreign-protocol",
        severity,
        title: text!(
            "The size {size_text} is no size but {what}: {hex}{others}, seen {count}×",
            "“大小” {size_text} 并不是大小，而是 {what}：{hex}{others}，出现 {count} 次"; others, what
        ),
        cause: if reserved {
            text!(
                "A client speaks another protocol to a plaintext Kafka port. Kafka takes its first four bytes for the size \
                 of a request and reserves that much, because socket.request.max.bytes allows it.",
                "有客户端用别的协议连接 Kafka 明文端口。Kafka 把前四个字节当作请求长度并照此申请内存，因为 socket.request.max.bytes 允许这么大。"
            )
        } else {
            text!(
                "A client speaks another protocol to a plaintext Kafka port. Kafka takes its first four bytes for the size \
                 of a request and closes the connection; nothing is reserved.",
                "有客户端用别的协议连接 Kafka 明文端口。Kafka 把前四个字节当作请求长度，随即关闭连接；没有申请内存。"
            )
        },
        evidence,
        remedies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::one;

    #[test]
    fn every_size_of_the_table_is_decoded() {
        for (size, what) in [
            (369_295_616, "a TLS ClientHello"),
            (369_295_617, "a TLS ClientHello"),
            (352_518_912, "a TLS alert"),
            (1_195_725_856, "an HTTP GET"),
            (1_347_375_956, "an HTTP POST"),
            (1_212_498_244, "an HTTP HEAD"),
            (1_347_769_376, "an HTTP PUT"),
            (1_330_664_521, "an HTTP OPTIONS"),
            (1_347_569_952, "an HTTP/2 preface"),
            (1_213_486_160, "an HTTP response"),
            (1_397_966_893, "an SSH banner"),
        ] {
            let decoded = decode_size(size).unwrap();
            assert!(decoded.en == what && !decoded.zh.contains(" an "), "{size}: {decoded:?}");
        }
        for size in [0, 82_520_280, 104_857_600, 57_671_680, 1 << 32, u64::MAX] {
            assert_eq!(decode_size(size), None, "{size}");
        }
    }

    #[test]
    fn a_hello_that_was_reserved_is_critical_and_one_refused_a_warning() {
        let log = "ERROR x\njava.lang.OutOfMemoryError: Cannot reserve 369295617 bytes of direct buffer memory (allocated: 1866930914, limit: 2147483648)\n";
        let found = one("foreign-protocol", &[log, "socket.request.max.bytes=500000000\n"]).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        assert!(found.title.en.contains("no size but a TLS ClientHello: 0x16030101"), "{found:?}");
        assert_eq!(found.evidence.len(), 2);
        assert_eq!(found.remedies[1].frees_bytes, Some(369_295_617));
        let log = "WARN Unexpected error from /10.0.0.7 (channelId=a); closing connection\n\
                   org.apache.kafka.common.network.InvalidReceiveException: Invalid receive (size = 1195725856 larger than 104857600)\n";
        let found = one("foreign-protocol", &[log]).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.remedies[0].action.en.contains("10.0.0.7"));
    }

    #[test]
    fn hellos_of_many_lengths_are_one_finding() {
        let refused = |size: u64, peer: u32| {
            format!(
                "WARN Unexpected error from /10.0.0.{peer} (channelId=a); closing connection\n\
                 org.apache.kafka.common.network.InvalidReceiveException: Invalid receive (size = {size} larger than 104857600)\n"
            )
        };
        let log = refused(369_295_616, 7)
            + &refused(369_295_618, 8)
            + &refused(369_295_872, 7)
            + &refused(369_295_618, 9);
        let found = one("foreign-protocol", &[&log]).unwrap();
        assert!(
            found.title.en.contains("a TLS ClientHello: 0x16030100 and 2 more like it, seen 4×"),
            "{found:?}"
        );
        assert!(found.remedies[0].action.en.contains("(10.0.0.7, 10.0.0.8, 10.0.0.9)"), "{found:?}");
        assert_eq!(found.evidence.len(), 3);
    }

    #[test]
    fn an_honest_large_request_is_no_foreign_protocol() {
        let log = "java.lang.OutOfMemoryError: Cannot reserve 82520280 bytes of direct buffer memory (allocated: 1, limit: 2)\n\
                   x Invalid receive (size = 150000000 larger than 104857600)\n";
        assert!(one("foreign-protocol", &[log]).is_none());
    }
}
