//! GC logs, unified (JDK 9 and later) and old: pauses that `System.gc()` asked for, and what the JVM says of itself.

use super::Parser;
use super::clock::{Repeats, date_ms, uptime_ms};
use super::lines::{Line, Problems, excerpt};
use super::{jvm_size, nmt_size};
use crate::language::text;

/// What a GC log tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcLog {
    /// Collections that `System.gc()` asked for: each failing reservation of direct memory asks for one.
    pub system_gc: Repeats,
    /// Among them full, stop-the-world ones.
    pub full_system_gc: u64,
    /// All pauses.
    pub pauses: u64,
    /// The JDK, such as `17.0.15+6`.
    pub java_version: Option<(String, u64)>,
    /// Memory that the JVM sees, in bytes: the container's limit where there is one.
    pub memory: Option<(u64, u64)>,
    /// What the heap may grow to, in bytes.
    pub max_heap: Option<(u64, u64)>,
    /// The options of an old log's `CommandLine flags:` line.
    pub flags: Vec<(String, u64)>,
}

impl GcLog {
    /// Whether the log says anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a line is one of a GC log.
pub(crate) fn is_gc_line(text: &str) -> bool {
    is_unified(text)
        || text.starts_with("CommandLine flags: ")
        || (uptime_or_date(text) && (text.contains(": [GC (") || text.contains(": [Full GC (")))
}

/// `[0.886s][info][gc,start ] ...`: decorations without a blank between them, one of them a tag of the collector.
fn is_unified(text: &str) -> bool {
    let Some((_, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) else { return false };
    rest.starts_with('[') && (rest.contains("[gc") || rest.contains("[safepoint"))
}

fn uptime_or_date(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Takes lines of a GC log.
#[derive(Debug, Default)]
pub(crate) struct GcLogParser {
    found: GcLog,
}

impl GcLogParser {
    /// Takes a line; says whether it belongs to a GC log.
    pub(crate) fn scan(&mut self, line: Line<'_>, problems: &mut Problems) -> bool {
        let text = line.text;
        if !is_gc_line(text) {
            return false;
        }
        let old = !text.starts_with('[');
        let pause = if old {
            text.contains("[GC (") || text.contains("[Full GC (")
        } else {
            // With `gc,start` each pause has a line at its start too; only the one with its duration counts.
            text.contains(" Pause ") && text.contains("->")
        };
        if pause && !old && !text.ends_with("ms") {
            problems.add(
                line.number,
                text!(
                    "the line of a pause breaks off: {seen:?}",
                    "停顿的日志行不完整：{seen:?}",
                    seen = excerpt(text)
                ),
            );
            return true;
        }
        if pause {
            self.found.pauses += 1;
            if text.contains("(System.gc())") {
                let at = uptime_ms(text).or_else(|| date_ms(text));
                self.found.system_gc.add(line.number, at);
                if text.contains("Pause Full") || text.contains("[Full GC") {
                    self.found.full_system_gc += 1;
                }
            }
            return true;
        }
        if let Some(flags) = text.strip_prefix("CommandLine flags: ") {
            let flags = flags.split_whitespace().take(512).map(|flag| (flag.to_owned(), line.number));
            self.found.flags = flags.collect();
            for (flag, at) in &self.found.flags {
                let Some(text) = flag.strip_prefix("-XX:MaxHeapSize=") else { continue };
                match jvm_size(text) {
                    Some(size) => self.found.max_heap = Some((size, *at)),
                    None => problems.add(
                        *at,
                        text!(
                            "{seen:?} is no size of MaxHeapSize",
                            "MaxHeapSize 的值 {seen:?} 不是大小",
                            seen = excerpt(text)
                        ),
                    ),
                }
            }
            return true;
        }
        if text.contains("init") {
            let after = |label: &str| text.split_once(label).map(|(_, rest)| rest.trim());
            if let Some(version) = after("] Version: ") {
                let version = version.split([' ', '(']).next().unwrap_or_default();
                self.found.java_version = Some((version.to_owned(), line.number));
            } else {
                for (label, slot) in
                    [("Memory", &mut self.found.memory), ("Heap Max Capacity", &mut self.found.max_heap)]
                {
                    let Some(size) = after(&format!("] {label}: ")) else { continue };
                    match nmt_size(size) {
                        Some((size, _)) => *slot = Some((size, line.number)),
                        None => problems.add(
                            line.number,
                            text!(
                                "{seen:?} is no size of {label}",
                                "{label} 的值 {seen:?} 不是大小",
                                seen = excerpt(size)
                            ),
                        ),
                    }
                }
            }
        }
        true
    }

    pub(crate) fn take(self) -> GcLog {
        self.found
    }
}

impl Parser for GcLogParser {
    type Output = GcLog;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        self.scan(line, problems);
    }

    fn finish(self, _: &mut Problems) -> GcLog {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    #[test]
    fn pauses_that_the_program_asked_for_are_counted_once() {
        let text = "[0.005s][info][gc,init] Version: 17.0.15+6-Debian-1deb12u1 (release)\n\
                    [0.005s][info][gc,init] Memory: 24105M\n\
                    [0.005s][info][gc,init] Heap Max Capacity: 320M\n\
                    [0.886s][info][gc,start    ] GC(6) Pause Full (System.gc())\n\
                    [0.891s][info][gc             ] GC(6) Pause Full (System.gc()) 102M->102M(175M) 4.675ms\n\
                    [1.000s][info][gc          ] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 102M->2M(175M) 1.0ms\n\
                    [1.487s][info][gc             ] GC(9) Pause Full (System.gc()) 103M->102M(276M) 2.724ms\n\
                    [2.000s][info][gc] GC(10) Pause Young (Concurrent Start) (System.gc()) 10M->9M(276M) 2.724ms\n";
        let (found, _) = parse_text::<GcLogParser>(text.as_bytes());
        assert_eq!((found.system_gc.count, found.full_system_gc, found.pauses), (3, 2, 4));
        assert_eq!((found.system_gc.longest_run, found.system_gc.longest_run_ms), (3, 1109));
        assert_eq!(found.memory, Some((24_105 << 20, 2)));
        assert_eq!(found.max_heap, Some((320 << 20, 3)));
        assert_eq!(found.java_version.unwrap().0, "17.0.15+6-Debian-1deb12u1");
    }

    #[test]
    fn logs_of_jdk_8_are_understood() {
        let text = "CommandLine flags: -XX:+DisableExplicitGC -XX:MaxHeapSize=536870912 \n\
                    2026-11-30T11:57:23.123+0000: 2.067: [Full GC (System.gc()) [PSYoungGen: 1K->0K(2K)], 0.1 secs]\n\
                    2.5: x\n3.067: [GC (Allocation Failure) 1K->0K(2K), 0.1 secs]\n";
        let (found, _) = parse_text::<GcLogParser>(text.as_bytes());
        assert_eq!((found.system_gc.count, found.full_system_gc, found.pauses), (1, 1, 2));
        assert_eq!(found.max_heap, Some((536_870_912, 1)));
        assert_eq!(found.flags.len(), 2);
    }
}
