//! Text evidence: what the JVM's tools, exporters, logs and the broker's properties say, with the line of every word.
//!
//! Files are recognised by content, never by name; one file may hold several outputs of `jcmd`. Invariants: every parser
//! is a pure function of lines, holds bounded memory whatever it reads, and never fails: what it does not understand is a
//! [`Problem`] with its line, and the rest is read.

mod broker_log;
mod class_histogram;
mod clock;
mod collect;
mod gc_log;
mod heap_info;
mod jmx;
mod kernel;
mod lines;
mod log_prefix;
mod metrics;
mod native_memory;
mod prometheus;
mod properties_text;
mod readers;
mod recognise;
mod server_properties;
mod system_properties;
mod thread_print;
mod thread_role;
mod utf16;
mod vm_command_line;
mod vm_flags;
mod vm_version;

pub use broker_log::{BrokerLog, MemoryKind, OutOfMemory, RefusedReceive};
pub use class_histogram::{ClassHistogram, ClassRow};
pub use clock::Repeats;
pub use collect::{CAPTURE_FAILED, Evidence, FileNote, Found, collect};
pub use gc_log::GcLog;
pub use heap_info::HeapInfo;
pub use kernel::Kernel;
pub use lines::{Line, Lines, MAX_LINE_BYTES, MAX_PROBLEMS, Problem, Problems};
pub use metrics::{Metric, Metrics, Point, Series, as_bytes};
pub use native_memory::{Category, NativeMemory};
pub use recognise::FileKind;
pub use server_properties::{BrokerListener, Number, ServerProperties};
pub use system_properties::SystemProperties;
pub use thread_print::{NativeUse, PrintedThread, ThreadPrint};
pub use thread_role::ThreadRole;
pub use vm_command_line::VmCommandLine;
pub use vm_flags::{Flag, VmFlags};
pub use vm_version::VmVersion;

pub(crate) use clock::date_ms;
pub(crate) use lines::excerpt;

/// The parsers themselves, for the fuzz entries.
pub(crate) mod parsers {
    pub(crate) use super::broker_log::BrokerLogParser;
    pub(crate) use super::class_histogram::ClassHistogramParser;
    pub(crate) use super::gc_log::GcLogParser;
    pub(crate) use super::heap_info::HeapInfoParser;
    pub(crate) use super::jmx::JmxParser;
    pub(crate) use super::kernel::KernelParser;
    pub(crate) use super::native_memory::NativeMemoryParser;
    pub(crate) use super::prometheus::PrometheusParser;
    pub(crate) use super::server_properties::ServerPropertiesParser;
    pub(crate) use super::system_properties::SystemPropertiesParser;
    pub(crate) use super::thread_print::ThreadPrintParser;
    pub(crate) use super::vm_command_line::VmCommandLineParser;
    pub(crate) use super::vm_flags::VmFlagsParser;
    pub(crate) use super::vm_version::VmVersionParser;
}

/// A parser that takes a text line by line. Input is untrusted.
pub(crate) trait Parser {
    /// What it makes of the text.
    type Output;

    /// Takes the next line.
    fn line(&mut self, line: Line<'_>, problems: &mut Problems);

    /// Gives what was found.
    fn finish(self, problems: &mut Problems) -> Self::Output;
}

/// Runs one parser over a whole text, plain or gzip.
pub(crate) fn parse_text<P: Parser + Default>(bytes: &[u8]) -> (P::Output, Vec<Problem>) {
    let mut problems = Problems::default();
    let mut parser = P::default();
    match Lines::new(bytes) {
        Ok(mut lines) => {
            while let Some(line) = lines.next(&mut problems) {
                parser.line(line, &mut problems);
            }
        }
        Err(error) => problems.add(0, crate::language::text!("cannot read: {error}", "无法读取：{error}")),
    }
    let output = parser.finish(&mut problems);
    (output, problems.into_vec())
}

/// A size as JVM options write it: digits and `k`, `m`, `g` or `t` in either case, all of the text.
pub fn jvm_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size as the JVM's tools print it at the start of a text, such as `646173KB,` or `81920K`, and the size of its unit.
pub(crate) fn nmt_size(text: &str) -> Option<(u64, u64)> {
    let text = text.trim_start();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let unit: u64 = match rest.as_bytes().first() {
        Some(b'K') => 1 << 10,
        Some(b'M') => 1 << 20,
        Some(b'G') => 1 << 30,
        _ => 1,
    };
    Some((number.parse::<u64>().ok()?.checked_mul(unit)?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_jvm_writes_them() {
        assert_eq!(jvm_size("16G"), Some(16 << 30));
        assert_eq!(jvm_size("512m"), Some(512 << 20));
        assert_eq!(jvm_size("1048576"), Some(1 << 20));
        for text in ["", "1mb", "m", "99999999999999999999", "99999999999g", "-1"] {
            assert_eq!(jvm_size(text), None, "{text}");
        }
        assert_eq!(nmt_size("646173KB, x"), Some((646_173 << 10, 1 << 10)));
        assert_eq!(nmt_size("24105M"), Some((24_105 << 20, 1 << 20)));
        assert_eq!(nmt_size("x"), None);
        assert_eq!(nmt_size("18446744073709551615GB"), None);
    }
}
