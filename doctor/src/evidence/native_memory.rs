//! `jcmd VM.native_memory`: the JVM's own account of its native memory, in the forms of JDK 11, 17 and 25.

use std::collections::BTreeMap;

use super::lines::{Line, Problems, excerpt};
use super::{Parser, nmt_size};
use crate::language::text;

const MAX_CATEGORIES: usize = 128;

/// One category of native memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Category {
    /// Address space.
    pub reserved: u64,
    /// What is backed by memory.
    pub committed: u64,
    /// Bytes of live `malloc`s.
    pub malloc: Option<u64>,
    /// Number of live `malloc`s.
    pub malloc_count: Option<u64>,
    /// Most `malloc`ed bytes so far; JDK 11 does not say.
    pub malloc_peak: Option<u64>,
    /// Its line.
    pub line: u64,
}

/// What native memory tracking says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeMemory {
    /// The line that says tracking is off; then there is nothing else.
    pub disabled: Option<u64>,
    /// All of the JVM.
    pub total: Option<Category>,
    /// By name, such as `Java Heap`, `Thread` or `Other`, which holds direct buffers.
    pub categories: BTreeMap<String, Category>,
    /// Rounding of the figures in bytes: 1024 unless `scale=` said otherwise.
    pub unit_bytes: u64,
}

/// Takes lines of `VM.native_memory`.
#[derive(Debug, Default)]
pub(crate) struct NativeMemoryParser {
    found: NativeMemory,
    current: Option<String>,
    in_details: bool,
}

impl NativeMemoryParser {
    fn head(&mut self, name: &str, rest: &str, line: Line<'_>, problems: &mut Problems) {
        let reserved = figure(rest, "reserved=");
        let committed = figure(rest, "committed=");
        let (Some((reserved, unit)), Some((committed, _))) = (reserved, committed) else {
            problems.add(
                line.number,
                text!(
                    "no reserved and committed sizes in {seen:?}",
                    "{seen:?} 中没有 reserved 与 committed 大小",
                    seen = excerpt(line.text)
                ),
            );
            return;
        };
        self.found.unit_bytes = self.found.unit_bytes.max(unit);
        let category = Category { reserved, committed, line: line.number, ..Category::default() };
        if name == "Total" {
            self.found.total = Some(category);
            self.current = None;
        } else if self.found.categories.len() < MAX_CATEGORIES {
            self.found.categories.insert(name.to_owned(), category);
            self.current = Some(name.to_owned());
        } else {
            problems.add(
                line.number,
                text!(
                    "more than {MAX_CATEGORIES} categories; {name} is left out",
                    "类别超过 {MAX_CATEGORIES} 个；略去 {name}",
                    name = excerpt(name)
                ),
            );
        }
    }

    fn malloc(&mut self, text: &str) {
        let category = match &self.current {
            Some(name) => self.found.categories.get_mut(name),
            None => self.found.total.as_mut(),
        };
        let Some(category) = category.filter(|category| category.malloc.is_none()) else { return };
        let (start, rest) = match text.split_once("peak") {
            Some((start, rest)) => (start, Some(rest)),
            None => (text, None),
        };
        let Some((bytes, _)) = figure(start, "malloc=").or_else(|| figure(start, "malloc: ")) else { return };
        category.malloc = Some(bytes);
        category.malloc_count = start.split_once('#').and_then(|(_, digits)| number(digits));
        category.malloc_peak = match rest {
            Some(rest) if rest.starts_with('=') => figure(rest, "=").map(|(bytes, _)| bytes),
            // `(at peak)`
            Some(_) => Some(bytes),
            None => None,
        };
    }
}

impl Parser for NativeMemoryParser {
    type Output = NativeMemory;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if text.starts_with("Native memory tracking is not enabled")
            // The answer to a request for details when only the summary is tracked.
            || text.starts_with("Detail tracking is not enabled")
        {
            self.found.disabled = Some(line.number);
        } else if text.starts_with("Details:") || text.starts_with("Virtual memory map:") {
            self.in_details = true;
        } else if self.in_details {
            // Call sites and maps of the detail mode: thousands of lines, and nothing that the summary does not sum up.
        } else if let Some(rest) = text.strip_prefix("Total:") {
            self.head("Total", rest, line, problems);
        } else if let Some((name, rest)) = text.strip_prefix('-').and_then(|rest| rest.split_once('(')) {
            self.head(name.trim(), rest, line, problems);
        } else if text.starts_with("(malloc=") || text.starts_with("malloc: ") {
            self.malloc(text);
        }
    }

    fn finish(self, problems: &mut Problems) -> NativeMemory {
        if self.found.disabled.is_none() && self.found.total.is_none() {
            problems.add(
                0,
                text!("native memory: the line with the total is missing", "本地内存报告：缺少合计行"),
            );
        }
        self.found
    }
}

/// The size after `label`, and the size of its unit.
fn figure(text: &str, label: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.split_once(label)?;
    nmt_size(rest)
}

fn number(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    fn other(text: &str) -> Category {
        let (found, problems) = parse_text::<NativeMemoryParser>(text.as_bytes());
        assert_eq!(problems, []);
        *found.categories.get("Other").unwrap()
    }

    const TOTAL: &str = "Native Memory Tracking:\n\nTotal: reserved=2450495KB, committed=798871KB\n";

    #[test]
    fn the_three_forms_agree() {
        let head = "-                     Other (reserved=167040KB, committed=167040KB)\n";
        let jdk11 = other(&format!("{TOTAL}{head}                            (malloc=167040KB #13) \n \n"));
        let jdk17 = other(&format!("{TOTAL}{head}      (malloc=167040KB #13) (peak=177280KB #14)\n"));
        let jdk25 =
            other(&format!("{TOTAL}{head}      (malloc=167040KB tag=Other #13) (peak=177290KB #16)\n"));
        let at_peak = other(&format!("{TOTAL}{head}      (malloc=167040KB #13) (at peak)\n"));
        for found in [jdk11, jdk17, jdk25, at_peak] {
            assert_eq!(found.reserved, 167_040 << 10);
            assert_eq!(found.malloc, Some(167_040 << 10));
            assert_eq!(found.malloc_count, Some(13));
            assert_eq!(found.line, 4);
        }
        assert_eq!(jdk11.malloc_peak, None);
        assert_eq!(jdk17.malloc_peak, Some(177_280 << 10));
        assert_eq!(jdk25.malloc_peak, Some(177_290 << 10));
        assert_eq!(at_peak.malloc_peak, Some(167_040 << 10));
    }

    #[test]
    fn scales_and_totals_are_read() {
        let text = "Native Memory Tracking:\nTotal: reserved=2393MB, committed=780MB\n       malloc: 640MB #16949\n\
                    - Java Heap (reserved=320MB, committed=80MB)\n (mmap: reserved=320MB, committed=80MB)\n";
        let (found, _) = parse_text::<NativeMemoryParser>(text.as_bytes());
        assert_eq!(found.total.unwrap().committed, 780 << 20);
        assert_eq!(found.total.unwrap().malloc, Some(640 << 20));
        assert_eq!(found.categories.get("Java Heap").unwrap().reserved, 320 << 20);
        assert_eq!(found.unit_bytes, 1 << 20);
        let text = "Native Memory Tracking:\nTotal: reserved=2393, committed=780\n";
        assert_eq!(parse_text::<NativeMemoryParser>(text.as_bytes()).0.total.unwrap().reserved, 2393);
    }

    #[test]
    fn tracking_that_is_off_and_a_missing_total_are_told_apart() {
        let (off, problems) = parse_text::<NativeMemoryParser>(b"Native memory tracking is not enabled\n");
        assert_eq!((off.disabled, problems.len()), (Some(1), 0));
        let (off, _) = parse_text::<NativeMemoryParser>(b"Detail tracking is not enabled\n");
        assert_eq!(off.disabled, Some(1));
        let (_, problems) = parse_text::<NativeMemoryParser>(b"Native Memory Tracking:\n");
        assert_eq!(problems.len(), 1);
    }
}
