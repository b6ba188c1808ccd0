//! Findings: what the evidence means, why, and what helps, each rule in a file of its own.
//!
//! A rule is a pure function of the facts. It says only what its evidence supports and cites every file and line. On a
//! healthy broker no rule says more than a note.

mod cached_buffer_setting;
mod cleaner_map;
mod container_limit;
mod direct_exhausted;
mod explicit_gc_disabled;
mod facts;
mod failure_loop;
mod foreign_protocol;
mod garbage;
mod headline;
mod heap_exhausted;
mod held_buffers;
mod kip72_off;
mod limit_in_force;
mod map_count;
mod metaspace_exhausted;
mod netty_limit;
mod no_more_threads;
mod oom_flags;
mod plan_over_limit;
mod pool_depleted;
mod pool_level;
mod remote_fetches;
mod render;
mod resident_gap;
mod several_processes;
mod thread_buffers;
mod tls_connections;
mod uncounted_buffers;
mod waiting_threads;

use std::path::PathBuf;

use serde_json::{Value, json};

pub use crate::report::Layout;
pub use crate::report::{bytes as exact, size as human};
pub use facts::{Cited, Dump, Facts, LimitReason};
pub use foreign_protocol::decode_size;
pub use headline::Headline;
pub use render::{evidence_text, findings_text, headline_text};

pub(crate) use cached_buffer_setting::traps as cached_buffer_traps;
pub(crate) use render::{labelled, labelled_in, no_finding, proofs, rows};

use crate::evidence::Evidence;
pub(crate) use crate::language::text;
pub use crate::language::{Language, Text};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something has failed, or is about to.
    Critical,
    /// Something will fail when the load is right.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// `critical`, `warning` or `note`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    /// Several of it, in a report.
    pub(crate) fn counted(self, count: usize) -> Text {
        match self {
            Self::Warning if count != 1 => text!("warnings", "警告"),
            Self::Note if count != 1 => text!("notes", "提示"),
            _ => self.label(),
        }
    }

    /// The same in a report.
    pub fn label(self) -> Text {
        match self {
            Self::Critical => text!("critical", "严重"),
            Self::Warning => text!("warning", "警告"),
            Self::Note => text!("note", "提示"),
        }
    }
}

/// A place in the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The file as it was given.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// What stands there: in the words of the evidence, or a sum of them.
    pub says: Text,
}

/// A place as JSON.
pub(crate) fn proof_json(proof: &Proof, language: Language) -> Value {
    json!({ "file": proof.file.to_string_lossy(), "line": proof.line, "says": proof.says.get(language) })
}

/// Something that helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What to do.
    pub action: Text,
    /// Bytes that it frees at most, where that can be computed.
    pub frees_bytes: Option<u64>,
    /// Whether it takes a restart of the broker.
    pub needs_restart: bool,
    /// What it does not do, or what to watch out for.
    pub caution: Option<Text>,
}

impl Remedy {
    pub(crate) fn new(action: Text, needs_restart: bool) -> Self {
        Self { action, frees_bytes: None, needs_restart, caution: None }
    }

    pub(crate) fn frees(mut self, bytes: Option<u64>) -> Self {
        self.frees_bytes = bytes.filter(|bytes| *bytes > 0);
        self
    }

    pub(crate) fn caution(mut self, caution: Text) -> Self {
        self.caution = Some(caution);
        self
    }

    /// The remedy as JSON.
    pub(crate) fn to_json(&self, language: Language) -> Value {
        json!({
            "action": self.action.get(language),
            "frees_bytes": self.frees_bytes,
            "needs_restart": self.needs_restart,
            "caution": self.caution.as_ref().map(|caution| caution.get(language)),
        })
    }
}

/// What the evidence means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Stable name of the rule, for scripts.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// One line.
    pub title: Text,
    /// Why it is so.
    pub cause: Text,
    /// Where it is written.
    pub evidence: Vec<Proof>,
    /// What helps, the best first.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// The most that a remedy frees.
    pub fn frees_bytes(&self) -> u64 {
        self.remedies.iter().filter_map(|remedy| remedy.frees_bytes).max().unwrap_or(0)
    }

    /// The finding as JSON.
    pub fn to_json(&self, language: Language) -> Value {
        let remedies: Vec<_> = self.remedies.iter().map(|remedy| remedy.to_json(language)).collect();
        let evidence: Vec<_> = self.evidence.iter().map(|proof| proof_json(proof, language)).collect();
        json!({
            "id": self.id,
            "severity": self.severity.name(),
            "title": self.title.get(language),
            "cause": self.cause.get(language),
            "evidence": evidence,
            "remedies": remedies,
        })
    }
}

/// The cap on cached buffers that is advised: small enough to free nearly all, large enough to keep the buffers of ordinary
/// requests.
const CAP_BYTES: u64 = 1 << 20;
/// A size of requests and fetches that is still generous.
const TRANSFER_BYTES: u64 = 16 << 20;

/// A rule: the facts in, what it finds out.
type Rule = fn(&Facts<'_>) -> Vec<Finding>;

const RULES: [Rule; 26] = [
    direct_exhausted::find,
    waiting_threads::find,
    remote_fetches::find,
    thread_buffers::find,
    garbage::find,
    held_buffers::find,
    failure_loop::find,
    foreign_protocol::find,
    explicit_gc_disabled::find,
    cached_buffer_setting::find,
    uncounted_buffers::find,
    pool_level::find,
    netty_limit::find,
    heap_exhausted::find,
    cleaner_map::find,
    map_count::find,
    no_more_threads::find,
    metaspace_exhausted::find,
    tls_connections::find,
    container_limit::find,
    resident_gap::find,
    plan_over_limit::find,
    pool_depleted::find,
    kip72_off::find,
    oom_flags::find,
    limit_in_force::find,
];

/// Applies every rule to the texts and to the dumps among them; the gravest findings first, among equals what failed, then
/// what frees the most.
pub fn diagnose(evidence: &Evidence, dumps: &[Dump<'_>]) -> Vec<Finding> {
    let facts = Facts::of(evidence, dumps);
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| rule(&facts)).collect();
    findings.extend(several_processes::find(&facts));
    findings.sort_by_key(|finding| {
        (finding.severity, headline::rank(finding), std::cmp::Reverse(finding.frees_bytes()))
    });
    findings
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::account::Account;
    use crate::heap::{Allocation, Books, Heap, Held, Thread};

    /// The findings about texts, each a file of its own.
    pub(crate) fn findings(texts: &[&str]) -> Vec<Finding> {
        let mut evidence = Evidence::default();
        for (index, text) in texts.iter().enumerate() {
            evidence.read(Path::new(&format!("file-{index}")), text.as_bytes());
        }
        assert_eq!(evidence.unknown().count(), 0, "{:?}", evidence.files);
        checked(diagnose(&evidence, &[]))
    }

    /// The findings about a dump and texts.
    pub(crate) fn findings_of_dump(heap: &Heap, texts: &[&str]) -> Vec<Finding> {
        let mut evidence = Evidence::default();
        for (index, text) in texts.iter().enumerate() {
            evidence.read(Path::new(&format!("file-{index}")), text.as_bytes());
        }
        let account = Account::of(heap);
        checked(diagnose(&evidence, &[Dump { path: Path::new("heap.hprof"), heap, account: &account }]))
    }

    pub(crate) fn thread(name: &str) -> Thread {
        Thread { id: 1, name: Some(name.to_owned()), class: "java.lang.Thread".to_owned(), caches: 1 }
    }

    pub(crate) fn buffer(bytes: u64, held: Held, books: Books) -> Allocation {
        Allocation {
            id: 1,
            class: "java.nio.DirectByteBuffer".into(),
            bytes,
            capacity: bytes,
            limit: 0,
            position: 0,
            address: 0,
            views: 0,
            books,
            held,
            file: None,
        }
    }

    fn checked(findings: Vec<Finding>) -> Vec<Finding> {
        for finding in &findings {
            for text in [&finding.title, &finding.cause] {
                assert!(!text.en.is_empty() && !text.zh.is_empty(), "{finding:?}");
                assert!(!text.zh.is_ascii(), "{finding:?}");
            }
            assert!(!finding.evidence.is_empty(), "{} cites nothing", finding.id);
        }
        findings
    }

    /// The one finding of a rule.
    pub(crate) fn one(id: &str, texts: &[&str]) -> Option<Finding> {
        let mut found: Vec<_> = findings(texts).into_iter().filter(|finding| finding.id == id).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.pop()
    }

    #[test]
    fn a_healthy_broker_gets_notes_only() {
        let found = findings(&[
            "-XX:MaxHeapSize=1073741824 -XX:+UseG1GC -XX:+ExplicitGCInvokesConcurrent \n",
            "listeners=PLAINTEXT://:9092\nprocess.roles=broker\n",
            "jvm_buffer_pool_used_bytes{pool=\"direct\"} 1048576\njvm_buffer_pool_used_buffers{pool=\"mapped\"} 200\n\
             kafka_network_socketserver_memorypoolavailable 9.223372036854775807E18\n\
             kafka_network_socketserver_memorypoolused 0\nkafka_server_socket_server_metrics_memorypoolavgdepletedpercent 0.0\n",
            "[2026-11-30 11:57:23,123] INFO fine (kafka.server.KafkaServer)\n",
        ]);
        assert!(!found.is_empty());
        assert!(found.iter().all(|finding| finding.severity == Severity::Note), "{found:#?}");
    }

    /// The published figures of an incident: Kafka 3.9.2 on JDK 17 with -Xmx16G and no limit flag, its direct pool at
    /// 17,134,924,451 bytes in 595 buffers when a request of 77,908,729 bytes came.
    #[test]
    fn the_incidents_figures_give_its_conclusions() {
        let texts = [
            "[2026-08-01 10:00:00,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
             java.lang.OutOfMemoryError: Cannot reserve 77908729 bytes of direct buffer memory (allocated: 17134924451, limit: \
             17179869184)\n\tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\
             \tat kafka.network.Processor.poll(SocketServer.scala:1107)\n",
            "VM Arguments:\njvm_args: -Xmx16G -Xms16G -XX:+UseG1GC -XX:+ExplicitGCInvokesConcurrent \n\
             java_command: kafka.Kafka server.properties\n",
            "jvm_buffer_pool_used_bytes{pool=\"direct\"} 1.7134924451E10\njvm_buffer_pool_used_buffers{pool=\"direct\"} 595.0\n",
            "listeners=SASL://:9092,INTERNAL://:9093\nlistener.security.protocol.map=SASL:SASL_PLAINTEXT,INTERNAL:PLAINTEXT\n\
             num.network.threads=40\nnum.io.threads=40\nremote.log.storage.system.enable=true\nremote.log.reader.threads=200\n",
        ];
        let found = findings(&texts);
        let find = |id: &str| {
            found.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {found:#?}"))
        };
        let exhausted = find("direct-memory-exhausted");
        assert!(
            exhausted.title.en.contains("77,908,729 bytes were asked for, 44,944,733 of 16.00 GiB were left")
        );
        // 80 network threads, 40 handlers, 200 readers and a cleaner keep at most 1 MiB each.
        assert_eq!(exhausted.remedies[0].frees_bytes, Some(17_134_924_451 - 321 * 1_048_576));
        let limit = find("limit-in-force");
        assert!(
            limit.cause.en.contains("-XX:MaxDirectMemorySize is not set") && limit.evidence.len() == 2,
            "{limit:#?}"
        );
        assert!(find("direct-pool-level").title.en.contains("99 % full"));
        // 200 readers × 55 MiB alone are 10.74 GiB.
        assert!(
            find("plan-over-limit")
                .cause
                .en
                .contains("remote-log readers: 200 × 57,671,680 = 11,534,336,000")
        );
        assert!(
            !found
                .iter()
                .any(|finding| finding.id == "foreign-protocol" || finding.id == "explicit-gc-disabled")
        );
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(findings(&[]), []);
    }

    #[test]
    fn the_gravest_comes_first() {
        let found = findings(&[
            "-XX:MaxHeapSize=1073741824 -XX:+DisableExplicitGC \n",
            "java.lang.OutOfMemoryError: Cannot reserve 100 bytes of direct buffer memory (allocated: 1073741800, limit: 1073741824)\n",
        ]);
        let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
        assert!(severities.is_sorted(), "{severities:?}");
        assert_eq!(severities.first(), Some(&Severity::Critical));
    }
}
