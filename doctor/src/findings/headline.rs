//! What a report says first: what failed, why, and the cure, each in a sentence of the findings.
//!
//! What failed is what somebody was woken up for; the finding that explains it stands behind it in the list and gives the
//! reason and the remedy.

use serde_json::{Value, json};

use super::{Finding, Language, Remedy, Severity, Text, text};

/// Failures, the one that others follow from first.
const FAILURES: [&str; 10] = [
    "direct-memory-exhausted",
    "netty-limit",
    "cleaner-map",
    "heap-exhausted",
    "map-count",
    "no-more-threads",
    "metaspace-exhausted",
    "container-limit",
    "failure-loop",
    "waiting-for-direct-memory",
];

/// What explains a failure, by the failure.
fn causes(failure: &str) -> &'static [&'static str] {
    match failure {
        "direct-memory-exhausted" | "failure-loop" | "waiting-for-direct-memory" => {
            &["foreign-protocol", "thread-buffers", "direct-garbage", "held-buffers", "explicit-gc-disabled"]
        }
        "container-limit" => &["uncounted-buffers", "thread-buffers", "held-buffers", "resident-gap"],
        "heap-exhausted" => &["remote-fetch-results", "request-memory-unbounded"],
        _ => &[],
    }
}

/// Where a finding stands among those of its severity: failures first, the one that others follow from before these.
pub(super) fn rank(finding: &Finding) -> usize {
    let place = FAILURES.iter().position(|id| *id == finding.id);
    place.filter(|_| finding.severity == Severity::Critical).unwrap_or(FAILURES.len())
}

/// The first lines of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// How grave it is; none if there is no finding at all.
    pub severity: Option<Severity>,
    /// What failed, or the gravest finding where nothing did.
    pub what: Text,
    /// Why, where something is graver than a note.
    pub why: Option<Text>,
    /// What helps best.
    pub cure: Option<Remedy>,
}

impl Headline {
    /// Makes it of findings in the order of [`super::diagnose`].
    pub fn of(findings: &[Finding]) -> Self {
        let plain = |severity, what| Self { severity, what, why: None, cure: None };
        let Some(first) = findings.first() else {
            return plain(None, text!("The evidence supports none of the rules", "现有证据未触发任何规则"));
        };
        if first.severity == Severity::Note {
            let what = text!("Nothing here is graver than a note", "没有比“提示”更严重的问题");
            return plain(Some(Severity::Note), what);
        }
        let explains = |finding: &&Finding| {
            finding.severity != Severity::Note
                && rank(first) < FAILURES.len()
                && causes(first.id).contains(&finding.id)
        };
        // A size of another protocol that was reserved is the reason of all that follows; a refused one is none.
        let foreign = findings
            .iter()
            .filter(explains)
            .find(|finding| finding.id == "foreign-protocol" && finding.severity == Severity::Critical);
        let cause = foreign
            .or_else(|| findings.iter().filter(explains).find(|finding| finding.id != "foreign-protocol"));
        let why = cause.map_or_else(|| first.cause.clone(), |cause| cause.title.clone());
        let cure = cause.and_then(|cause| cause.remedies.first()).or(first.remedies.first()).cloned();
        Self { severity: Some(first.severity), what: first.title.clone(), why: Some(why), cure }
    }

    /// As JSON; `null` for what there is not.
    pub fn to_json(&self, language: Language) -> Value {
        json!({
            "severity": self.severity.map(Severity::name),
            "what": self.what.get(language),
            "why": self.why.as_ref().map(|why| why.get(language)),
            "cure": self.cure.as_ref().map(|cure| cure.to_json(language)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{buffer, findings, findings_of_dump, thread};
    use crate::heap::{Books, Heap, Held};

    const FAILURE: &str = "[2026-11-30 11:57:23,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
        java.lang.OutOfMemoryError: Cannot reserve 82520280 bytes of direct buffer memory (allocated: 2146611245, limit: 2147483648)\n\
        \tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\tat kafka.network.Processor.poll(SocketServer.scala:1107)\n";

    fn heap(holds: impl Fn(usize) -> Held) -> Heap {
        let mut heap = Heap::default();
        for index in 0..26 {
            heap.threads.push(thread(&format!(
                "data-plane-kafka-network-thread-1-ListenerName(A)-PLAINTEXT-{index}"
            )));
            heap.allocations.push(buffer(82_520_280, holds(index), Books::Direct));
        }
        heap.statics.max_direct_bytes = Some(2_147_483_648);
        heap
    }

    #[test]
    fn the_failure_comes_first_then_what_explains_it_and_its_cure() {
        let found = findings_of_dump(
            &heap(|index| Held::Cached(Some(index))),
            &[
                FAILURE,
                "-XX:+DisableExplicitGC\n",
                "jvm_buffer_pool_used_bytes{pool=\"direct\"} 2146611245\n",
            ],
        );
        assert_eq!(found[0].id, "direct-memory-exhausted", "{found:#?}");
        let headline = Headline::of(&found);
        assert!(headline.what.en.contains("82,520,280 bytes were asked for"), "{headline:?}");
        let why = headline.why.unwrap();
        assert!(why.en.contains("Threads keep") && why.en.contains("2,145,527,280 bytes"), "{why:?}");
        let cure = headline.cure.unwrap();
        assert!(cure.action.en.contains("maxCachedBufferSize=1048576"), "{cure:?}");
        assert_eq!((cure.frees_bytes, cure.needs_restart), (Some(26 * 82_520_280), true));
    }

    #[test]
    fn without_a_dump_the_log_itself_gives_reason_and_cure() {
        let found = findings(&[FAILURE]);
        let headline = Headline::of(&found);
        assert_eq!(headline.severity, Some(Severity::Critical));
        assert!(headline.why.unwrap().en.contains("network threads"));
        assert!(headline.cure.unwrap().action.en.contains("maxCachedBufferSize"));
    }

    #[test]
    fn what_fills_the_memory_is_named_whatever_it_is() {
        let found = findings_of_dump(&heap(|_| Held::Garbage), &[FAILURE]);
        let headline = Headline::of(&found);
        assert!(headline.why.unwrap().en.contains("are garbage"), "{found:#?}");
        assert!(headline.cure.unwrap().action.en.contains("GC.run"));
    }

    #[test]
    fn a_foreign_size_that_was_reserved_is_the_reason_and_a_refused_one_is_not() {
        let hello = FAILURE.replace("82520280", "369295617");
        let found = findings_of_dump(&heap(|index| Held::Cached(Some(index))), &[&hello]);
        assert_eq!(found[0].id, "direct-memory-exhausted");
        assert!(Headline::of(&found).why.unwrap().en.contains("a TLS ClientHello"));
        let refused = "WARN x from /10.0.0.7 (y)\norg.apache.kafka.common.network.InvalidReceiveException: Invalid receive \
                       (size = 1195725856 larger than 104857600)\n";
        let found = findings_of_dump(&heap(|index| Held::Cached(Some(index))), &[FAILURE, refused]);
        assert!(Headline::of(&found).why.unwrap().en.contains("Threads keep"));
    }

    #[test]
    fn a_broker_that_is_well_is_said_to_be_so() {
        assert!(Headline::of(&[]).what.en.contains("none of the rules"));
        let found = findings(&["-XX:MaxHeapSize=1073741824\n"]);
        let headline = Headline::of(&found);
        assert!(headline.what.en.contains("graver than a note"));
        assert_eq!((headline.why, headline.cure), (None, None));
    }
}
