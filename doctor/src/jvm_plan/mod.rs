//! What a JVM broker's direct memory can come to: a static upper estimate by thread role, before it happens.
//!
//! On a plaintext listener every read and write of a heap buffer goes through a temporary direct buffer as large as the
//! whole rest of the request or response, and each thread keeps the largest that it ever needed. So the high-water mark is
//! a sum of threads × largest transfer. Up to JDK 23 it counts against `MaxDirectMemorySize`; later it does not, and the
//! same bytes come on top of it.

mod render;
mod what_if;

use weir_metadata::properties::SecurityProtocol;

use crate::evidence::{ServerProperties, ThreadRole};
use crate::language::{Text, text};

pub use render::{json, text as plan_text};
pub use what_if::WhatIf;

/// What a thread of a TLS listener keeps: it moves 16 KiB of ciphertext at a time.
const TLS_THREAD_BYTES: u64 = 16 << 10;
/// What each TLS connection that was sent file data keeps.
pub const TLS_CONNECTION_BYTES: u64 = 32 << 10;
/// Largest batch that the KRaft thread writes.
const RAFT_BATCH_BYTES: u64 = 8 << 20;

/// What is planned for.
#[derive(Debug, Clone, Copy)]
pub struct JvmInputs<'a> {
    /// The broker's settings.
    pub properties: &'a ServerProperties,
    /// `-Xmx` in bytes.
    pub heap_bytes: u64,
    /// `-XX:MaxDirectMemorySize` in bytes; without it the limit is the heap's.
    pub direct_bytes: Option<u64>,
    /// Brokers that this one replicates from.
    pub peers: u64,
    /// `-Djdk.nio.maxCachedBufferSize` in bytes; without it every size is kept.
    pub max_cached_buffer_bytes: Option<u64>,
}

/// One term of the sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JvmTerm {
    /// Whose threads.
    pub role: ThreadRole,
    /// The listener, for network threads.
    pub listener: Option<String>,
    /// Number of threads.
    pub threads: u64,
    /// Largest transfer of one thread, in bytes.
    pub each_bytes: u64,
    /// What one thread keeps of it.
    pub kept_each_bytes: u64,
    /// The property that gives the number of threads, with its value.
    pub threads_from: Text,
    /// The property that gives the size, with its value.
    pub size_from: Text,
    /// For a term that `socket.request.max.bytes` bounds: the least that it can be lowered to, in bytes. Below it nothing
    /// is won, or batches are refused that the topics may hold.
    pub least_request_bytes: Option<u64>,
    /// Whether the term depends on code that is not Kafka's own.
    pub depends_on_plugin: bool,
}

impl JvmTerm {
    /// All threads in their largest transfer at once.
    pub fn peak_bytes(&self) -> u64 {
        self.threads.saturating_mul(self.each_bytes)
    }

    /// What all threads keep afterwards.
    pub fn kept_bytes(&self) -> u64 {
        self.threads.saturating_mul(self.kept_each_bytes)
    }
}

/// The sum and its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JvmPlan {
    /// The limit of direct memory, in bytes.
    pub limit_bytes: u64,
    /// Whether the limit is a flag, or the heap's because there is none.
    pub limit_is_flag: bool,
    /// The terms, largest first.
    pub terms: Vec<JvmTerm>,
    /// TLS listeners: each connection that is sent file data keeps [`TLS_CONNECTION_BYTES`] more.
    pub tls_listeners: Vec<String>,
}

impl JvmPlan {
    /// All threads in their largest transfers at once.
    pub fn peak_bytes(&self) -> u64 {
        self.terms.iter().fold(0, |sum, term| sum.saturating_add(term.peak_bytes()))
    }

    /// What is kept once every thread has made its largest transfer.
    pub fn kept_bytes(&self) -> u64 {
        self.terms.iter().fold(0, |sum, term| sum.saturating_add(term.kept_bytes()))
    }

    /// By how much the peak passes the limit; 0 when it fits.
    pub fn excess_bytes(&self) -> u64 {
        self.peak_bytes().saturating_sub(self.limit_bytes)
    }

    /// Indexes of the terms that break the limit: the largest ones, as many as must go for the rest to fit.
    pub fn breaking(&self) -> Vec<usize> {
        let mut rest = self.peak_bytes();
        let mut breaking = Vec::new();
        for (index, term) in self.terms.iter().enumerate() {
            if rest <= self.limit_bytes {
                break;
            }
            rest = rest.saturating_sub(term.peak_bytes());
            breaking.push(index);
        }
        breaking
    }

    /// The largest `socket.request.max.bytes` with which the sum fits, if there is one that serves.
    pub fn fitting_request_bytes(&self) -> Option<u64> {
        let bounded = |term: &&JvmTerm| term.least_request_bytes.is_some();
        let threads = self.terms.iter().filter(bounded);
        let threads = threads.fold(0u64, |sum, term| sum.saturating_add(term.threads));
        let others = self.terms.iter().filter(|term| !bounded(term));
        let rest = others.fold(0u64, |sum, term| sum.saturating_add(term.peak_bytes()));
        let each = self.limit_bytes.checked_sub(rest)?.checked_div(threads)?;
        let least = self.terms.iter().filter_map(|term| term.least_request_bytes).max()?;
        (each >= least.max(1)).then_some(each)
    }
}

/// Adds the terms up.
pub fn jvm_plan(inputs: &JvmInputs<'_>) -> JvmPlan {
    let properties = inputs.properties;
    let bytes = |name: &str| u64::try_from(properties.number(name).value).unwrap_or(0);
    let said = |name: &str, value: u64| Text::verbatim(format!("{name}={value}"));
    // Of equal ones the first, which is the one that a user would change.
    let largest = |names: &[&str]| -> (u64, Text) {
        let largest = names.iter().rev().map(|name| (bytes(name), *name)).max_by_key(|(value, _)| *value);
        let (value, name) = largest.unwrap_or_default();
        (value, said(name, value))
    };
    let mut terms = Vec::new();
    let mut tls_listeners = Vec::new();
    let mut add =
        |role: ThreadRole, listener, threads: u64, threads_from, (each, size_from), least_request_bytes| {
            if threads > 0 && each > 0 {
                terms.push(JvmTerm {
                    depends_on_plugin: role == ThreadRole::RemoteLogReader,
                    role,
                    listener,
                    threads,
                    each_bytes: each,
                    kept_each_bytes: inputs.max_cached_buffer_bytes.map_or(each, |cap| cap.min(each)),
                    threads_from,
                    size_from,
                    least_request_bytes,
                });
            }
        };
    let tiered = properties.is_on("remote.log.storage.system.enable");
    let control_plane = properties.text("control.plane.listener.name").unwrap_or_default();
    for listener in properties.listeners() {
        let threads = properties.listener_number(&listener.name, "num.network.threads").value;
        let threads = u64::try_from(threads).unwrap_or(0);
        let (threads, threads_from) = match listener.name.eq_ignore_ascii_case(control_plane) {
            true => (1, text!("the control plane has one", "控制面只有一个")),
            false => (threads, said("num.network.threads", threads)),
        };
        let tls = matches!(listener.protocol, Some(SecurityProtocol::Ssl | SecurityProtocol::SaslSsl));
        let size = if tls {
            tls_listeners.push(listener.name.clone());
            (TLS_THREAD_BYTES, text!("one TLS record", "一个 TLS 记录"))
        } else if tiered {
            // Records from tiered storage are answered from the heap.
            largest(&["socket.request.max.bytes", "fetch.max.bytes"])
        } else {
            largest(&["socket.request.max.bytes"])
        };
        let fetches = if tiered { bytes("fetch.max.bytes") } else { 0 };
        let least = (!tls).then(|| bytes("message.max.bytes").max(fetches));
        add(ThreadRole::Network, Some(listener.name), threads, threads_from, size, least);
    }
    let threads = bytes("num.io.threads");
    let batch = largest(&["message.max.bytes"]);
    add(ThreadRole::RequestHandler, None, threads, said("num.io.threads", threads), batch, None);
    let fetchers = bytes("num.replica.fetchers");
    add(
        ThreadRole::ReplicaFetcher,
        None,
        fetchers.saturating_mul(inputs.peers),
        text!(
            "num.replica.fetchers={fetchers} × {peers} peers",
            "num.replica.fetchers={fetchers} × {peers} 个对端 Broker",
            peers = inputs.peers
        ),
        largest(&["replica.fetch.response.max.bytes", "message.max.bytes"]),
        None,
    );
    if properties.is_on("log.cleaner.enable") {
        let threads = bytes("log.cleaner.threads");
        let size = largest(&["log.cleaner.io.buffer.size", "message.max.bytes"]);
        add(ThreadRole::LogCleaner, None, threads, said("log.cleaner.threads", threads), size, None);
    }
    if tiered {
        let threads = bytes("remote.log.reader.threads");
        let size = largest(&["fetch.max.bytes"]);
        add(
            ThreadRole::RemoteLogReader,
            None,
            threads,
            said("remote.log.reader.threads", threads),
            size,
            None,
        );
    }
    if properties.is_kraft() {
        let size = (RAFT_BATCH_BYTES, text!("the largest metadata batch", "最大的元数据批次"));
        add(ThreadRole::Raft, None, 1, text!("one thread", "一个线程"), size, None);
    }
    terms.sort_by_key(|term| std::cmp::Reverse(term.peak_bytes()));
    JvmPlan {
        limit_bytes: inputs.direct_bytes.unwrap_or(inputs.heap_bytes),
        limit_is_flag: inputs.direct_bytes.is_some(),
        terms,
        tls_listeners,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, heap: u64, direct: Option<u64>, peers: u64, cap: Option<u64>) -> JvmPlan {
        let (properties, _) = ServerProperties::parse(text.as_bytes());
        jvm_plan(&JvmInputs {
            properties: &properties,
            heap_bytes: heap,
            direct_bytes: direct,
            peers,
            max_cached_buffer_bytes: cap,
        })
    }

    const THREE: &str = "listeners=A://:1,B://:2,C://:3\nlistener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT,C:PLAINTEXT\n";

    #[test]
    fn the_defaults_with_three_listeners_fill_the_default_heap() {
        let plan = plan(THREE, 1 << 30, None, 0, None);
        let network: u64 =
            plan.terms.iter().filter(|term| term.role == ThreadRole::Network).map(JvmTerm::peak_bytes).sum();
        assert_eq!(network, 9 * 104_857_600);
        assert_eq!(plan.peak_bytes(), 9 * 104_857_600 + 8 * 1_048_588 + 1_048_588);
        assert_eq!((plan.limit_bytes, plan.limit_is_flag), (1 << 30, false));
        assert_eq!(plan.excess_bytes(), 0);
        assert!(plan.breaking().is_empty());
    }

    #[test]
    fn the_terms_that_break_the_limit_are_the_largest_ones() {
        let plan = plan(
            &format!("{THREE}listener.name.b.num.network.threads=80\n"),
            1 << 30,
            Some(2 << 30),
            4,
            None,
        );
        assert_eq!(plan.terms[0].listener.as_deref(), Some("B"));
        assert_eq!(plan.breaking(), [0]);
        assert_eq!(plan.excess_bytes(), plan.peak_bytes() - (2 << 30));
        let fetchers = plan.terms.iter().find(|term| term.role == ThreadRole::ReplicaFetcher).unwrap();
        assert_eq!((fetchers.threads, fetchers.each_bytes), (4, 10_485_760));
        let fitting = plan.fitting_request_bytes().unwrap();
        let text =
            format!("{THREE}listener.name.b.num.network.threads=80\nsocket.request.max.bytes={fitting}\n");
        assert_eq!(super::tests::plan(&text, 1 << 30, Some(2 << 30), 4, None).excess_bytes(), 0);
    }

    /// Requests are not all that network threads carry, and a limit that refuses the topics' own batches is no cure.
    #[test]
    fn what_is_said_to_fit_does_fit_and_serves() {
        // The answers with records of tiered storage stay as large as fetch.max.bytes, however small requests are.
        let text = "listeners=A://:1\nlistener.security.protocol.map=A:PLAINTEXT\nnum.network.threads=80\n\
                    remote.log.storage.system.enable=true\nremote.log.reader.threads=1\n";
        let tiered = |direct| plan(text, 1 << 30, Some(direct), 0, None);
        assert_eq!(tiered(2 << 30).fitting_request_bytes(), None, "80 × 55 MiB are more");
        let fitting = tiered(5 << 30).fitting_request_bytes().unwrap();
        assert!(fitting >= 57_671_680);
        let better = format!("{text}socket.request.max.bytes={fitting}\n");
        assert_eq!(plan(&better, 1 << 30, Some(5 << 30), 0, None).excess_bytes(), 0);
        let batches = "num.network.threads=80\nmessage.max.bytes=20000000\nnum.io.threads=1\n";
        assert_eq!(plan(batches, 1 << 30, None, 0, None).fitting_request_bytes(), None);
    }

    #[test]
    fn a_control_plane_has_one_thread() {
        let text = "listeners=A://:1,CTRL://:2\nlistener.security.protocol.map=A:PLAINTEXT,CTRL:PLAINTEXT\n\
                    control.plane.listener.name=CTRL\nnum.network.threads=8\n";
        let plan = plan(text, 1 << 30, None, 0, None);
        let threads: Vec<_> = plan
            .terms
            .iter()
            .filter(|term| term.role == ThreadRole::Network)
            .map(|term| term.threads)
            .collect();
        assert_eq!(threads, [8, 1]);
    }

    #[test]
    fn a_cap_on_cached_buffers_bounds_what_stays_and_not_the_peak() {
        let plan = plan(THREE, 1 << 30, None, 0, Some(1 << 20));
        assert_eq!(plan.peak_bytes(), 9 * 104_857_600 + 9 * 1_048_588);
        assert_eq!(plan.kept_bytes(), 18 << 20);
    }

    #[test]
    fn tls_listeners_cost_by_connection_and_tiered_readers_by_fetch() {
        let text = "listeners=A://:1\nlistener.security.protocol.map=A:SASL_SSL\nremote.log.storage.system.enable=true\n\
                    remote.log.reader.threads=200\nprocess.roles=broker\n";
        let plan = plan(text, 16 << 30, None, 0, None);
        assert_eq!(plan.tls_listeners, ["A"]);
        assert_eq!(plan.terms[0].role, ThreadRole::RemoteLogReader);
        assert_eq!(plan.terms[0].peak_bytes(), 200 * 57_671_680);
        let network = plan.terms.iter().find(|term| term.role == ThreadRole::Network).unwrap();
        assert_eq!(network.each_bytes, 16_384);
        assert!(plan.terms.iter().any(|term| term.role == ThreadRole::Raft));
        assert_eq!(plan.fitting_request_bytes(), None);
    }

    #[test]
    fn the_incidents_check_comes_out_in_exact_bytes() {
        let text = "remote.log.storage.system.enable=true\nremote.log.reader.threads=100\n";
        let readers = plan(text, 16 << 30, None, 0, None);
        let readers = readers.terms.iter().find(|term| term.role == ThreadRole::RemoteLogReader).unwrap();
        assert_eq!(readers.peak_bytes(), 5_767_168_000);
    }
}
