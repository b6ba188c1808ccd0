//! What the pieces of evidence say together: the JVM, its heap, the limit of direct memory and why it is that, the pool,
//! the broker's settings. Each fact keeps the places that it was read from.

use std::collections::BTreeMap;
use std::path::Path;

use crate::account::Account;
use crate::evidence::{
    BrokerLog, ClassRow, Evidence, Found, Kernel, MemoryKind, Metric, NativeMemory, OutOfMemory,
    ServerProperties, as_bytes,
};
use crate::heap::Heap;

use super::{Proof, Text, exact, text};

/// A heap dump and its account.
#[derive(Debug, Clone, Copy)]
pub struct Dump<'e> {
    /// The file as it was given.
    pub path: &'e Path,
    /// What was read.
    pub heap: &'e Heap,
    /// What it adds up to.
    pub account: &'e Account,
}

impl Dump<'_> {
    /// The dump as a place.
    pub(crate) fn proof(&self, says: impl Into<Text>) -> Proof {
        Proof { file: self.path.to_path_buf(), line: 0, says: says.into() }
    }
}

/// A fact and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Cited<T> {
    /// What is known.
    pub value: T,
    /// From where.
    pub proofs: Vec<Proof>,
}

/// Why the limit of direct memory is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitReason {
    /// `-XX:MaxDirectMemorySize` says so.
    Flag,
    /// There is no flag, so it is as large as the heap may grow.
    Heap,
    /// Only a failure's message or a dump names it.
    Message,
}

/// Facts about one JVM and its broker.
#[derive(Debug)]
pub struct Facts<'e> {
    /// All texts.
    pub evidence: &'e Evidence,
    /// The dumps.
    pub dumps: Vec<Dump<'e>>,
    /// Major version of the JDK.
    pub java: Option<Cited<u32>>,
    /// What the heap may grow to, in bytes.
    pub max_heap: Option<Cited<u64>>,
    /// The limit of direct memory in bytes.
    pub limit: Option<Cited<(u64, LimitReason)>>,
    /// Bytes of the direct pool, as last seen in metrics.
    pub pool_used: Option<Cited<u64>>,
}

impl<'e> Facts<'e> {
    /// Puts the evidence together.
    pub fn of(evidence: &'e Evidence, dumps: &[Dump<'e>]) -> Self {
        let mut facts = Self {
            evidence,
            dumps: dumps.to_vec(),
            java: None,
            max_heap: None,
            limit: None,
            pool_used: None,
        };
        facts.java = facts.find_java();
        facts.max_heap = facts.find_max_heap();
        facts.limit = facts.find_limit();
        facts.pool_used = facts.fullest_pool().or_else(|| facts.pool_of_dump());
        facts
    }

    /// The last value of the direct pool in the last file that has one; of several processes in it the fullest.
    fn fullest_pool(&self) -> Option<Cited<u64>> {
        self.evidence.metrics.iter().rev().find_map(|found| {
            let points = found.value.points.get(&Metric::BufferPoolUsed)?;
            let mut last: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
            for point in points {
                if let Some(bytes) = as_bytes(point.value) {
                    last.insert(&point.target, (bytes, point.line));
                }
            }
            let several = last.len() > 1;
            let (target, (bytes, line)) = last.into_iter().max_by_key(|(_, (bytes, _))| *bytes)?;
            let name = found.value.selectors.get(&Metric::BufferPoolUsed);
            let name = name.map_or("direct pool, used", String::as_str);
            let says = match several {
                true => text!(
                    "{name} = {bytes}, the fullest of several processes ({target})",
                    "{name} = {bytes}，多个进程中最满的（{target}）"
                ),
                false => Text::verbatim(format!("{name} = {bytes}")),
            };
            Some(Cited { value: bytes, proofs: vec![self.proof(found.file, line, says)] })
        })
    }

    /// The direct pool as the last dump's JVM counted it.
    fn pool_of_dump(&self) -> Option<Cited<u64>> {
        self.dumps.iter().rev().find_map(|dump| {
            let pool = dump.account.direct.counted?;
            let says = text!(
                "java.nio.Bits: {bytes} bytes in {count} buffers",
                "java.nio.Bits：{count} 个缓冲区共 {bytes} 字节",
                bytes = exact(pool.used_bytes),
                count = exact(pool.count)
            );
            Some(Cited { value: pool.used_bytes, proofs: vec![dump.proof(says)] })
        })
    }

    /// A place in a file.
    pub fn proof(&self, file: usize, line: u64, says: impl Into<Text>) -> Proof {
        Proof { file: self.evidence.path(file).to_path_buf(), line, says: says.into() }
    }

    /// The last value of a metric as bytes, from the last file that has it.
    pub fn metric(&self, metric: Metric, label: &str) -> Option<Cited<u64>> {
        self.evidence.metrics.iter().rev().find_map(|found| {
            let (value, line) = found.value.get(metric, label)?.last;
            let bytes = as_bytes(value)?;
            let name = if label.is_empty() { format!("{metric:?}") } else { format!("{metric:?} {label}") };
            Some(Cited {
                value: bytes,
                proofs: vec![self.proof(found.file, line, format!("{name} = {bytes}"))],
            })
        })
    }

    /// Failures for want of memory of a kind, with the file of each.
    pub fn failures(&self, kind: MemoryKind) -> impl Iterator<Item = (usize, &'e OutOfMemory)> {
        let logs: &'e [Found<BrokerLog>] = &self.evidence.broker_logs;
        logs.iter().flat_map(move |log| {
            let failures = log.value.out_of_memory.iter().filter(move |failure| failure.kind == kind);
            failures.map(move |failure| (log.file, failure))
        })
    }

    /// The place of a failure.
    pub fn failure_proof(&self, file: usize, failure: &OutOfMemory) -> Proof {
        let repeats = &failure.repeats;
        let says = match repeats.count {
            1 => Text::verbatim(failure.message.as_str()),
            count => {
                text!(
                    "{message} (×{count}, lines {first}-{last})",
                    "{message}（×{count}，第 {first}-{last} 行）",
                    message = failure.message,
                    first = repeats.first_line,
                    last = repeats.last_line
                )
            }
        };
        self.proof(file, repeats.first_line, says)
    }

    /// A switch of the JVM that is on, and where. The JVM's own table outranks its command line.
    pub fn switched_on(&self, name: &str) -> Option<Proof> {
        let mut known = false;
        for found in &self.evidence.vm_flags {
            if let Some(line) = found.value.is_on(name) {
                return Some(self.proof(found.file, line, format!("-XX:+{name}")));
            }
            known |= found.value.all || found.value.get(name).is_some();
        }
        if known {
            return None;
        }
        for found in &self.evidence.command_lines {
            if let Some((true, line)) = found.value.switch(name) {
                return Some(self.proof(found.file, line, format!("-XX:+{name}")));
            }
        }
        self.evidence.gc_logs.iter().find_map(|found| {
            let wanted = format!("-XX:+{name}");
            let (flag, line) = found.value.flags.iter().find(|(flag, _)| *flag == wanted)?;
            Some(self.proof(found.file, *line, flag.clone()))
        })
    }

    /// The text of a flag with a value that is not empty.
    pub fn flag_text(&self, name: &str) -> Option<Cited<String>> {
        let flag = self.evidence.vm_flags.iter().find_map(|found| {
            let flag = found.value.get(name).filter(|flag| !flag.value.is_empty())?;
            Some((found.file, flag.line, flag.value.clone()))
        });
        let argument = || {
            let prefix = format!("-XX:{name}=");
            self.evidence.command_lines.iter().find_map(|found| {
                let (value, line) = found.value.last(&prefix)?;
                Some((found.file, line, value.to_owned()))
            })
        };
        let (file, line, value) = flag.or_else(argument)?;
        let proofs = vec![self.proof(file, line, format!("-XX:{name}={value}"))];
        Some(Cited { value, proofs })
    }

    /// System properties whose names fit, from the JVM's table or its command line, once each.
    pub fn system_properties(&self, fits: impl Fn(&str) -> bool) -> Vec<(String, String, Proof)> {
        let mut found: Vec<(String, String, Proof)> = Vec::new();
        let mut add = |file, name: &str, value: &str, line| {
            if fits(name) && !found.iter().any(|(known, _, _)| known == name) {
                let value: String = value.chars().take(200).collect();
                let proof = self.proof(file, line, format!("{name}={value}"));
                found.push((name.to_owned(), value, proof));
            }
        };
        for properties in &self.evidence.system_properties {
            for (name, (value, line)) in &properties.value.properties {
                add(properties.file, name, value, *line);
            }
        }
        for line in &self.evidence.command_lines {
            let mut arguments: Vec<_> = line.value.system_properties().collect();
            // The last one wins.
            arguments.reverse();
            for (name, value, at) in arguments {
                add(line.file, name, value, at);
            }
        }
        found
    }

    /// `jdk.nio.maxCachedBufferSize` as the JDK reads it: a plain number, everything else is ignored.
    pub fn max_cached_buffer(&self) -> Option<u64> {
        let in_force = self.dumps.iter().rev().find_map(|dump| dump.heap.statics.max_cached_buffer_bytes);
        if let Some(bytes) = in_force {
            return Some(bytes).filter(|bytes| i64::try_from(*bytes).is_ok_and(|bytes| bytes < i64::MAX));
        }
        let found = self.system_properties(|name| name == "jdk.nio.maxCachedBufferSize");
        let (_, value, _) = found.first()?;
        let number: i64 = value.parse().ok()?;
        u64::try_from(number).ok()
    }

    /// The broker's settings: the file's, else what the broker logged.
    pub fn settings(&self) -> Option<&'e Found<ServerProperties>> {
        let from_log = |found: &&Found<ServerProperties>| {
            self.evidence.broker_logs.iter().any(|log| log.file == found.file)
        };
        let all = &self.evidence.server_properties;
        all.iter().find(|found| !from_log(found)).or(all.first())
    }

    /// A setting as a place.
    pub fn setting_proof(&self, settings: &Found<ServerProperties>, name: &str) -> Proof {
        let number = settings.value.number(name);
        let value = number.value;
        let says = match number.is_default {
            true => text!("{name}={value} (default)", "{name}={value}（默认值）"),
            false => Text::verbatim(format!("{name}={value}")),
        };
        self.proof(settings.file, number.line.unwrap_or(0), says)
    }

    /// The row of the class histogram that has most instances of a class, the file, and the class's whole name. `class` is
    /// the last part of the name: classes of Kafka move between packages.
    pub fn most_instances(&self, class: &str) -> Option<(usize, &'e ClassRow, &'e str)> {
        let end = format!(".{class}");
        let rows = self.evidence.class_histograms.iter().flat_map(|found| {
            let rows = found.value.classes.iter().filter(|(name, _)| name.ends_with(&end));
            rows.map(|(name, row)| (found.file, row, name.as_str()))
        });
        rows.max_by_key(|(_, row, _)| row.instances)
    }

    /// The JDK, if it is one whose temporary buffers are in no books of the direct pool and under no limit: 24 and later.
    pub(super) fn java_that_counts_no_temporary(&self) -> Option<&Cited<u32>> {
        self.java.as_ref().filter(|java| java.value >= 24)
    }

    /// The JVM's account of its native memory, if tracking is on.
    pub fn native_memory(&self) -> Option<&'e Found<NativeMemory>> {
        self.evidence.native_memory.iter().rev().find(|found| found.value.total.is_some())
    }

    /// A figure of the kernel from the last file that has it; `name` is how it is called where it is cited.
    pub fn kernel(
        &self,
        name: impl Into<Text>,
        figure: impl Fn(&Kernel) -> Option<(u64, u64)>,
    ) -> Option<Cited<u64>> {
        let name = name.into();
        self.evidence.kernel.iter().rev().find_map(|found| {
            let (value, line) = figure(&found.value)?;
            let says = text!("{name} = {bytes}", "{name} = {bytes}", bytes = exact(value); name);
            let proofs = vec![self.proof(found.file, line, says)];
            Some(Cited { value, proofs })
        })
    }

    /// The memory that the process can have at most: the smallest limit of its control groups, or what the JVM sees, or
    /// the machine's.
    pub fn memory_at_most(&self) -> Option<Cited<u64>> {
        let group = self
            .kernel(text!("limit of the control group", "控制组（cgroup）的上限"), |kernel| {
                kernel.group_limit
            });
        let machine = self.kernel(text!("memory of the machine", "机器的内存"), |kernel| kernel.machine);
        let seen = self.evidence.gc_logs.iter().find_map(|log| {
            let (bytes, line) = log.value.memory?;
            let says = text!(
                "memory that the JVM sees: {bytes} bytes",
                "JVM 看到的内存：{bytes} 字节",
                bytes = exact(bytes)
            );
            Some(Cited { value: bytes, proofs: vec![self.proof(log.file, line, says)] })
        });
        [group, seen, machine].into_iter().flatten().min_by_key(|limit| limit.value)
    }

    fn find_java(&self) -> Option<Cited<u32>> {
        let evidence = self.evidence;
        let mut texts: Vec<(usize, u64, &str)> = Vec::new();
        for found in &evidence.system_properties {
            texts.extend(found.value.get("java.version").map(|(version, line)| (found.file, line, version)));
        }
        for found in &evidence.versions {
            let version = found.value.java_version.as_ref();
            texts.extend(version.map(|(version, line)| (found.file, *line, version.as_str())));
        }
        for found in &evidence.thread_prints {
            texts.extend(found.value.java_version().map(|(version, line)| (found.file, line, version)));
        }
        let gc_logs = evidence.gc_logs.iter().map(|found| (found.file, &found.value.java_version));
        let histograms =
            evidence.class_histograms.iter().map(|found| (found.file, &found.value.java_version));
        let metrics = evidence.metrics.iter().map(|found| (found.file, &found.value.java_version));
        for (file, version) in gc_logs.chain(histograms).chain(metrics) {
            texts.extend(version.as_ref().map(|(version, line)| (file, *line, version.as_str())));
        }
        texts.into_iter().find_map(|(file, line, text)| {
            Some(Cited { value: major(text)?, proofs: vec![self.proof(file, line, format!("Java {text}"))] })
        })
    }

    fn find_max_heap(&self) -> Option<Cited<u64>> {
        let cited = |file, (value, line): (u64, u64), name: &str| Cited {
            value,
            proofs: vec![self.proof(file, line, format!("{name}={value}"))],
        };
        let evidence = self.evidence;
        let flag = evidence
            .vm_flags
            .iter()
            .find_map(|found| Some(cited(found.file, found.value.number("MaxHeapSize")?, "MaxHeapSize")));
        let argument = || {
            evidence
                .command_lines
                .iter()
                .find_map(|found| Some(cited(found.file, found.value.max_heap()?, "-Xmx")))
        };
        let log = || {
            evidence
                .gc_logs
                .iter()
                .find_map(|found| Some(cited(found.file, found.value.max_heap?, "maximum heap")))
        };
        let info = || {
            evidence
                .heap_infos
                .iter()
                .find_map(|found| Some(cited(found.file, found.value.max?, "maximum heap")))
        };
        flag.or_else(argument).or_else(log).or_else(info).or_else(|| self.metric(Metric::HeapMax, ""))
    }

    fn find_limit(&self) -> Option<Cited<(u64, LimitReason)>> {
        let evidence = self.evidence;
        let flag = evidence
            .vm_flags
            .iter()
            .find_map(|found| {
                let (bytes, line) =
                    found.value.number("MaxDirectMemorySize").filter(|(bytes, _)| *bytes > 0)?;
                Some((bytes, self.proof(found.file, line, format!("MaxDirectMemorySize={bytes}"))))
            })
            .or_else(|| {
                evidence.command_lines.iter().find_map(|found| {
                    let (text, line) = found.value.last("-XX:MaxDirectMemorySize=")?;
                    let bytes = crate::evidence::jvm_size(text).filter(|bytes| *bytes > 0)?;
                    Some((bytes, self.proof(found.file, line, format!("-XX:MaxDirectMemorySize={text}"))))
                })
            });
        // The last failure is the nearest to the present start of the JVM.
        let failures = self.failures(MemoryKind::Direct).filter(|(_, failure)| failure.limit.is_some());
        let message = failures
            .max_by_key(|(_, failure)| failure.repeats.latest_ms)
            .and_then(|(file, failure)| Some((failure.limit?, self.failure_proof(file, failure))));
        let started_without = !evidence.vm_flags.is_empty() || !evidence.command_lines.is_empty();
        // A dump's own field is as good as a message.
        let field = || {
            let (dump, limit) =
                self.dumps.iter().rev().find_map(|dump| Some((dump, dump.account.limit_bytes?)))?;
            Some((
                limit,
                dump.proof(text!(
                    "java.nio.Bits.MAX_MEMORY = {limit} bytes",
                    "java.nio.Bits.MAX_MEMORY = {limit} 字节",
                    limit = exact(limit)
                )),
            ))
        };
        match (flag, message.or_else(field)) {
            (Some((bytes, flag)), Some((limit, message))) if bytes == limit => {
                Some(Cited { value: (limit, LimitReason::Flag), proofs: vec![flag, message] })
            }
            // What the JVM itself said when it failed outranks flags of perhaps another start.
            (_, Some((limit, message))) => match &self.max_heap {
                Some(heap) if heap.value == limit => {
                    let proofs = heap.proofs.iter().cloned().chain([message]).collect();
                    Some(Cited { value: (limit, LimitReason::Heap), proofs })
                }
                _ => Some(Cited { value: (limit, LimitReason::Message), proofs: vec![message] }),
            },
            (Some((bytes, flag)), None) => {
                Some(Cited { value: (bytes, LimitReason::Flag), proofs: vec![flag] })
            }
            (None, None) if started_without => {
                let heap = self.max_heap.as_ref()?;
                Some(Cited { value: (heap.value, LimitReason::Heap), proofs: heap.proofs.clone() })
            }
            (None, None) => None,
        }
    }
}

/// `17.0.15+6` is 17, `1.8.0_292` is 8, `25.292-b10` (the JVM of JDK 8) is 8.
fn major(version: &str) -> Option<u32> {
    let version = version.strip_prefix("1.").unwrap_or(version);
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    let number: u32 = version.get(..digits)?.parse().ok()?;
    let is_hotspot_8 = number == 25 && version.contains("-b") && !version.contains('+');
    Some(if is_hotspot_8 { 8 } else { number })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn limit(texts: &[&str]) -> Option<(u64, LimitReason)> {
        let mut evidence = Evidence::default();
        for text in texts {
            evidence.read(Path::new("x"), text.as_bytes());
        }
        Facts::of(&evidence, &[]).limit.map(|limit| limit.value)
    }

    #[test]
    fn the_limit_is_the_flag_else_the_heap_and_a_message_knows_best() {
        let heap = "-XX:MaxHeapSize=1024 -XX:+UseG1GC\n";
        let both = "-XX:MaxDirectMemorySize=512 -XX:MaxHeapSize=1024\n";
        let zero = "[Global flags]\nuint64_t MaxDirectMemorySize = 0 {product} {default}\nsize_t MaxHeapSize = 1024 {product} {default}\n";
        let message = |limit: u64| {
            format!(
                "java.lang.OutOfMemoryError: Cannot reserve 9 bytes of direct buffer memory (allocated: 1, limit: {limit})\n"
            )
        };
        assert_eq!(limit(&[heap]), Some((1024, LimitReason::Heap)));
        assert_eq!(limit(&[zero]), Some((1024, LimitReason::Heap)));
        assert_eq!(limit(&[both]), Some((512, LimitReason::Flag)));
        assert_eq!(
            limit(&["VM Arguments:\njvm_args: -Xmx1k -XX:MaxDirectMemorySize=2k\n"]),
            Some((2048, LimitReason::Flag))
        );
        assert_eq!(limit(&[both, &message(512)]), Some((512, LimitReason::Flag)));
        assert_eq!(limit(&[heap, &message(1024)]), Some((1024, LimitReason::Heap)));
        assert_eq!(limit(&[both, &message(77)]), Some((77, LimitReason::Message)));
        assert_eq!(limit(&["jvm_buffer_pool_used_bytes{pool=\"direct\"} 1\n"]), None);
        // Of two starts the later one counts, in whatever order their logs come.
        let dated =
            |day: u32, limit: u64| format!("[2026-11-{day:02} 10:00:00,000] ERROR x (y)\n{}", message(limit));
        assert_eq!(limit(&[&dated(30, 88), &dated(29, 77)]), Some((88, LimitReason::Message)));
        assert_eq!(limit(&[&dated(29, 77), &dated(30, 88)]), Some((88, LimitReason::Message)));
    }

    #[test]
    fn the_fullest_of_several_processes_is_the_pool() {
        let used = |text: &str| {
            let mut evidence = Evidence::default();
            evidence.read(Path::new("x"), text.as_bytes());
            let pool = Facts::of(&evidence, &[]).pool_used?;
            Some((pool.value, pool.proofs.first()?.line, pool.proofs.first()?.says.en.clone()))
        };
        let text = "jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"a\"} 900\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"a\"} 800\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"b\"} 5\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"a\"} NaN\n";
        let (value, line, says) = used(text).unwrap();
        assert_eq!((value, line), (800, 2));
        assert!(says.contains("the fullest of several") && says.contains("instance=\"a\""), "{says}");
        let one = used("java_nio_direct_memoryused 7\njava_nio_direct_memoryused -1\n").unwrap();
        assert_eq!(one, (7, 1, "java_nio_direct_memoryused = 7".to_owned()));
    }

    #[test]
    fn versions_of_the_jdk_are_read_in_every_form() {
        assert_eq!(major("17.0.15+6-Debian-1deb12u1"), Some(17));
        assert_eq!(major("1.8.0_292"), Some(8));
        assert_eq!(major("25.292-b10"), Some(8));
        assert_eq!(major("25.0.3+9-LTS"), Some(25));
        assert_eq!(major("x"), None);
    }

    #[test]
    fn the_cap_of_cached_buffers_is_read_as_the_jdk_reads_it() {
        for (text, cap) in
            [("1048576", Some(1 << 20)), ("1m", None), ("-1", None), ("0", Some(0)), ("0x10", None)]
        {
            let mut evidence = Evidence::default();
            let text = format!("java.version=17\njdk.nio.maxCachedBufferSize={text}\n");
            evidence.read(Path::new("x"), text.as_bytes());
            assert_eq!(Facts::of(&evidence, &[]).max_cached_buffer(), cap, "{text}");
        }
    }
}
