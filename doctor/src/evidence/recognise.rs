//! What a text is, from the first line that gives it away.

use super::{broker_log, gc_log, heap_info, jmx, prometheus, server_properties, vm_version};

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    VmFlags,
    VmCommandLine,
    VmVersion,
    SystemProperties,
    NativeMemory,
    ClassHistogram,
    HeapInfo,
    ThreadPrint,
    Prometheus,
    Jmx,
    ServerProperties,
    BrokerLog,
    GcLog,
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
pub(crate) fn recognise(text: &str, in_jcmd: bool) -> Option<TextKind> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.starts_with("-XX:") || trimmed == "[Global flags]" {
        return Some(TextKind::VmFlags);
    }
    if trimmed == "VM Arguments:" || trimmed.starts_with("jvm_args: ") {
        return Some(TextKind::VmCommandLine);
    }
    if trimmed.starts_with("Native Memory Tracking:")
        || trimmed.starts_with("Native memory tracking is not enabled")
    {
        return Some(TextKind::NativeMemory);
    }
    if trimmed.starts_with("num ") && trimmed.contains("#instances") && trimmed.contains("#bytes") {
        return Some(TextKind::ClassHistogram);
    }
    if trimmed.starts_with("Full thread dump ") {
        return Some(TextKind::ThreadPrint);
    }
    if vm_version::is_head(trimmed) && !trimmed.starts_with('[') {
        return Some(TextKind::VmVersion);
    }
    if heap_info::is_head(text) {
        return Some(TextKind::HeapInfo);
    }
    if jmx::is_jmx(text) {
        return Some(TextKind::Jmx);
    }
    if trimmed.starts_with("# HELP ") || trimmed.starts_with("# TYPE ") {
        return Some(TextKind::Prometheus);
    }
    if gc_log::is_gc_line(text) {
        return Some(TextKind::GcLog);
    }
    if broker_log::is_log_line(text) {
        return Some(TextKind::BrokerLog);
    }
    if !trimmed.starts_with(['#', '!'])
        && let Some((name, _)) = trimmed.split_once(['=', ':', ' '])
    {
        if SYSTEM_PROPERTIES.iter().any(|start| name.starts_with(start)) && trimmed.contains('=') {
            return Some(TextKind::SystemProperties);
        }
        if !in_jcmd && server_properties::is_broker_setting(name.trim()) {
            return Some(TextKind::ServerProperties);
        }
    }
    // A bare sample needs a name that an exporter would write: `a_b 1`, or labels.
    let is_sample =
        trimmed.contains('{') || trimmed.split_once(' ').is_some_and(|(name, _)| name.contains('_'));
    if is_sample && prometheus::sample(trimmed).is_some() {
        return Some(TextKind::Prometheus);
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
            ("-XX:CICompilerCount=2 -XX:+UseG1GC", TextKind::VmFlags),
            ("[Global flags]", TextKind::VmFlags),
            ("VM Arguments:", TextKind::VmCommandLine),
            ("OpenJDK 64-Bit Server VM version 17.0.15+6", TextKind::VmVersion),
            ("Native Memory Tracking:", TextKind::NativeMemory),
            (" num     #instances         #bytes  class name (module)", TextKind::ClassHistogram),
            ("Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):", TextKind::ThreadPrint),
            (" garbage-first heap   total 81920K, used 23915K [0x1)", TextKind::HeapInfo),
            ("# TYPE x gauge", TextKind::Prometheus),
            ("jvm_buffer_pool_used_bytes{pool=\"direct\"} 5", TextKind::Prometheus),
            ("java_nio_direct_memoryused 5", TextKind::Prometheus),
            ("java.nio:type=BufferPool,name=direct:MemoryUsed=5", TextKind::Jmx),
            ("\"time\",\"java.nio:type=BufferPool,name=direct:Count\"", TextKind::Jmx),
            ("java.vm.name=OpenJDK", TextKind::SystemProperties),
            ("num.network.threads=3", TextKind::ServerProperties),
            ("listeners : PLAINTEXT://:9092", TextKind::ServerProperties),
            ("[0.003s][info][gc] Using G1", TextKind::GcLog),
            ("[2026-11-30 11:57:23,123] INFO starting (kafka.server.KafkaServer)", TextKind::BrokerLog),
            ("java.lang.OutOfMemoryError: Direct buffer memory", TextKind::BrokerLog),
            ("2026-11-30T11:00:00.000Z ERROR [x] y", TextKind::BrokerLog),
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
        ] {
            assert_eq!(recognise(text, false), None, "{text}");
        }
        assert_eq!(recognise("log.dir=/x", true), None);
        assert_eq!(process_id("10632:"), Some(10632));
        assert_eq!(process_id("10632: x"), None);
        assert_eq!(process_id(":"), None);
    }
}
