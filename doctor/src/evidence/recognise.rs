//! What a text is, from the first line that gives it away.

use crate::language::{Text, text};

use super::{broker_log, gc_log, heap_info, jmx, kernel, prometheus, server_properties, vm_version};

/// What a file, or a part of one, is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `jcmd VM.flags`.
    VmFlags,
    /// `jcmd VM.command_line`.
    VmCommandLine,
    /// `jcmd VM.version`.
    VmVersion,
    /// `jcmd VM.system_properties`.
    SystemProperties,
    /// `jcmd VM.native_memory`.
    NativeMemory,
    /// `jcmd GC.class_histogram`.
    ClassHistogram,
    /// `jcmd GC.heap_info`.
    HeapInfo,
    /// `jcmd Thread.print`.
    ThreadPrint,
    /// Files of `/proc` and `/sys/fs/cgroup`.
    Kernel,
    /// Metrics of an exporter.
    Prometheus,
    /// Metrics as JMX text.
    Jmx,
    /// Kafka's `server.properties`.
    ServerProperties,
    /// A broker's log.
    BrokerLog,
    /// A GC log.
    GcLog,
    /// A heap dump.
    HeapDump,
    /// A folder, of which something was not read.
    Folder,
}

impl FileKind {
    /// The kind in a report.
    pub fn label(self) -> Text {
        match self {
            Self::Kernel => text!("kernel", "内核"),
            Self::Prometheus | Self::Jmx => text!("metrics", "指标"),
            Self::BrokerLog => text!("broker log", "Broker 日志"),
            Self::GcLog => text!("GC log", "GC 日志"),
            Self::HeapDump => text!("heap dump", "堆转储"),
            Self::Folder => text!("folder", "目录"),
            _ => Text::verbatim(self.name()),
        }
    }

    /// The kind as a user knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::VmFlags => "VM.flags",
            Self::VmCommandLine => "VM.command_line",
            Self::VmVersion => "VM.version",
            Self::SystemProperties => "VM.system_properties",
            Self::NativeMemory => "VM.native_memory",
            Self::ClassHistogram => "GC.class_histogram",
            Self::HeapInfo => "GC.heap_info",
            Self::ThreadPrint => "Thread.print",
            Self::Kernel => "kernel",
            Self::Prometheus | Self::Jmx => "metrics",
            Self::ServerProperties => "server.properties",
            Self::BrokerLog => "broker log",
            Self::GcLog => "GC log",
            Self::HeapDump => "heap dump",
            Self::Folder => "folder",
        }
    }
}

/// Properties that every JVM has and no broker file.
const SYSTEM_PROPERTIES: [&str; 7] = [
    "java.vm.",
    "java.version",
    "java.home",
    "java.specification.",
    "java.runtime.",
    "sun.arch.",
    "java.class.",
];

/// The kind of text that has such a line; `None` when the line fits many kinds. `in_jcmd`: the line follows a process id
/// on a line of its own, as `jcmd` prints it.
pub(crate) fn recognise(text: &str, in_jcmd: bool) -> Option<FileKind> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.starts_with("-XX:") || trimmed == "[Global flags]" {
        return Some(FileKind::VmFlags);
    }
    if trimmed == "VM Arguments:" || trimmed.starts_with("jvm_args: ") {
        return Some(FileKind::VmCommandLine);
    }
    if trimmed.starts_with("Native Memory Tracking:")
        || trimmed.starts_with("Native memory tracking is not enabled")
        || trimmed.starts_with("Detail tracking is not enabled")
    {
        return Some(FileKind::NativeMemory);
    }
    if trimmed.starts_with("num ") && trimmed.contains("#instances") && trimmed.contains("#bytes") {
        return Some(FileKind::ClassHistogram);
    }
    if trimmed.starts_with("Full thread dump ") {
        return Some(FileKind::ThreadPrint);
    }
    if vm_version::is_head(trimmed) && !trimmed.starts_with('[') {
        return Some(FileKind::VmVersion);
    }
    if heap_info::is_head(text) {
        return Some(FileKind::HeapInfo);
    }
    if kernel::is_head(text.trim_end()) {
        return Some(FileKind::Kernel);
    }
    if jmx::is_jmx(text) {
        return Some(FileKind::Jmx);
    }
    if trimmed.starts_with("# HELP ") || trimmed.starts_with("# TYPE ") {
        return Some(FileKind::Prometheus);
    }
    if gc_log::is_gc_line(text) {
        return Some(FileKind::GcLog);
    }
    if broker_log::is_log_line(text) {
        return Some(FileKind::BrokerLog);
    }
    if !trimmed.starts_with(['#', '!'])
        && let Some((name, _)) = trimmed.split_once(['=', ':', ' '])
    {
        if SYSTEM_PROPERTIES.iter().any(|start| name.starts_with(start)) && trimmed.contains('=') {
            return Some(FileKind::SystemProperties);
        }
        if !in_jcmd && server_properties::is_broker_setting(name.trim()) {
            return Some(FileKind::ServerProperties);
        }
    }
    // A bare sample needs a name that an exporter would write: `a_b 1`, or labels.
    let is_sample =
        trimmed.contains('{') || trimmed.split_once(' ').is_some_and(|(name, _)| name.contains('_'));
    if is_sample && prometheus::sample(trimmed).is_some() {
        return Some(FileKind::Prometheus);
    }
    None
}

/// The process id of a line that `jcmd` puts before its output.
pub(crate) fn process_id(text: &str) -> Option<u32> {
    text.strip_suffix(':')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_each_kind_gives_it_away() {
        for (text, kind) in [
            ("-XX:CICompilerCount=2 -XX:+UseG1GC", FileKind::VmFlags),
            ("[Global flags]", FileKind::VmFlags),
            ("VM Arguments:", FileKind::VmCommandLine),
            ("OpenJDK 64-Bit Server VM version 17.0.15+6", FileKind::VmVersion),
            ("Native Memory Tracking:", FileKind::NativeMemory),
            (" num     #instances         #bytes  class name (module)", FileKind::ClassHistogram),
            ("Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):", FileKind::ThreadPrint),
            (" garbage-first heap   total 81920K, used 23915K [0x1)", FileKind::HeapInfo),
            ("Name:\tjava", FileKind::Kernel),
            ("VmRSS:\t  612344 kB", FileKind::Kernel),
            (
                "Limit                     Soft Limit           Hard Limit           Units     ",
                FileKind::Kernel,
            ),
            ("0-7f ---p 00000000 00:00 0                          [rollup]", FileKind::Kernel),
            ("0::/system.slice/kafka.service", FileKind::Kernel),
            ("9:memory:/docker/0123abcd", FileKind::Kernel),
            ("/sys/fs/cgroup/memory.max:536870912", FileKind::Kernel),
            ("vm.max_map_count = 65530", FileKind::Kernel),
            ("812 /proc/7/maps", FileKind::Kernel),
            ("# TYPE x gauge", FileKind::Prometheus),
            ("jvm_buffer_pool_used_bytes{pool=\"direct\"} 5", FileKind::Prometheus),
            ("java_nio_direct_memoryused 5", FileKind::Prometheus),
            ("java.nio:type=BufferPool,name=direct:MemoryUsed=5", FileKind::Jmx),
            ("\"time\",\"java.nio:type=BufferPool,name=direct:Count\"", FileKind::Jmx),
            ("java.vm.name=OpenJDK", FileKind::SystemProperties),
            ("num.network.threads=3", FileKind::ServerProperties),
            ("listeners : PLAINTEXT://:9092", FileKind::ServerProperties),
            ("[0.003s][info][gc] Using G1", FileKind::GcLog),
            ("[2026-11-30 11:57:23,123] INFO starting (kafka.server.KafkaServer)", FileKind::BrokerLog),
            ("java.lang.OutOfMemoryError: Direct buffer memory", FileKind::BrokerLog),
            ("2026-11-30T11:00:00.000Z ERROR [x] y", FileKind::BrokerLog),
        ] {
            assert_eq!(recognise(text, false), Some(kind), "{text}");
        }
    }

    #[test]
    fn other_text_is_of_no_kind() {
        for text in [
            "",
            "hello world 5",
            "a b c",
            "total 5",
            "user.name=root",
            "key: value",
            "{\"a\": 1}",
            "5",
            "-5",
            "ERROR",
            "Name: x",
            "11:57:23: it began",
        ] {
            assert_eq!(recognise(text, false), None, "{text}");
        }
        assert_eq!(recognise("log.dir=/x", true), None);
        assert_eq!(process_id("10632:"), Some(10632));
        assert_eq!(process_id("10632: x"), None);
        assert_eq!(process_id(":"), None);
    }
}
