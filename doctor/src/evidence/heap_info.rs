//! `jcmd GC.heap_info`: which collector, how large the heap is.

use super::lines::{Line, Problems};
use super::{Parser, nmt_size};
use crate::language::text;

/// The heap as the JVM describes it, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapInfo {
    /// `G1`, `Parallel`, `Serial`, `ZGC` or `Shenandoah`.
    pub collector: Option<(&'static str, u64)>,
    /// The heap as it is now.
    pub committed: Option<(u64, u64)>,
    /// What objects take.
    pub used: Option<(u64, u64)>,
    /// What the heap may grow to, where the collector says it.
    pub max: Option<(u64, u64)>,
    /// Metaspace that is used.
    pub metaspace_used: Option<(u64, u64)>,
}

/// The first words of a heap description by collector.
const HEADS: [(&str, &str); 8] = [
    ("garbage-first heap", "G1"),
    ("PSYoungGen", "Parallel"),
    ("ParOldGen", "Parallel"),
    ("def new generation", "Serial"),
    ("DefNew", "Serial"),
    ("tenured generation", "Serial"),
    ("ZHeap", "ZGC"),
    ("Shenandoah Heap", "Shenandoah"),
];

/// Whether a line is the first of a heap description.
pub(crate) fn is_head(text: &str) -> bool {
    let text = text.trim_start();
    HEADS.iter().any(|(head, _)| text.starts_with(head))
}

/// Takes lines of `GC.heap_info`.
#[derive(Debug, Default)]
pub(crate) struct HeapInfoParser {
    found: HeapInfo,
}

impl Parser for HeapInfoParser {
    type Output = HeapInfo;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        let size = |label: &str| {
            let (_, rest) = text.split_once(label)?;
            nmt_size(rest.trim_start_matches([' ', '='])).map(|(bytes, _)| bytes)
        };
        if text.starts_with("Metaspace") {
            self.found.metaspace_used = size("used").map(|bytes| (bytes, line.number));
            return;
        }
        if let Some((_, name)) = HEADS.iter().find(|(head, _)| text.starts_with(head)) {
            self.found.collector.get_or_insert((name, line.number));
            let total = size("committed").or_else(|| size("total")).or_else(|| size("capacity"));
            let (Some(total), Some(used)) = (total, size("used")) else {
                // Shenandoah gives its sizes on the next line.
                if !text.starts_with("Shenandoah") {
                    problems.add(
                        line.number,
                        text!(
                            "the heap's line has no total and used sizes",
                            "堆所在行没有 total 与 used 大小"
                        ),
                    );
                }
                return;
            };
            // Generations add up to the heap.
            let add = |sum: &mut Option<(u64, u64)>, bytes: u64| {
                let (before, at) = sum.unwrap_or((0, line.number));
                *sum = Some((before.saturating_add(bytes), at));
            };
            add(&mut self.found.committed, total);
            add(&mut self.found.used, used);
            if let Some(max) = size("max capacity").or_else(|| size("total reserved")) {
                self.found.max = Some((max, line.number));
            }
        } else if self.found.collector.is_some_and(|(name, _)| name == "Shenandoah") && text.contains(" max")
        {
            // `8192M max, 8192M soft max, 516M committed, 45M used`
            for part in text.split(',') {
                let Some((bytes, _)) = nmt_size(part.trim()) else { continue };
                let slot = match part.trim().split_once(' ').map(|(_, what)| what) {
                    Some("max" | "total") => &mut self.found.max,
                    Some("committed") => &mut self.found.committed,
                    Some("used") => &mut self.found.used,
                    _ => continue,
                };
                slot.get_or_insert((bytes, line.number));
            }
        }
    }

    fn finish(self, _: &mut Problems) -> HeapInfo {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    fn info(text: &str) -> HeapInfo {
        let (found, problems) = parse_text::<HeapInfoParser>(text.as_bytes());
        assert_eq!(problems, []);
        found
    }

    #[test]
    fn every_collector_is_understood() {
        let g1 = info(
            " garbage-first heap   total 81920K, used 23915K [0x1, 0x2)\n Metaspace       used 2207K, committed 2432K\n",
        );
        assert_eq!(g1.collector, Some(("G1", 1)));
        assert_eq!((g1.committed, g1.used, g1.max), (Some((81_920 << 10, 1)), Some((23_915 << 10, 1)), None));
        assert_eq!(g1.metaspace_used, Some((2207 << 10, 2)));
        let g1 = info("garbage-first heap   total reserved 327680K, committed 78848K, used 24080K [0x1)\n");
        assert_eq!((g1.committed, g1.max), (Some((78_848 << 10, 1)), Some((327_680 << 10, 1))));
        let parallel = info(
            " PSYoungGen      total 1K, used 1K [0x)\n  eden space 1K, 1% used\n ParOldGen       total 2K, used 1K [0x)\n",
        );
        assert_eq!((parallel.committed, parallel.used), (Some((3072, 1)), Some((2048, 1))));
        let z = info(" ZHeap           used 32M, capacity 64M, max capacity 512M\n");
        assert_eq!((z.committed, z.max), (Some((64 << 20, 1)), Some((512 << 20, 1))));
        let shenandoah = info("Shenandoah Heap\n 8192M max, 8192M soft max, 516M committed, 45M used\n");
        assert_eq!((shenandoah.max, shenandoah.used), (Some((8192 << 20, 2)), Some((45 << 20, 2))));
    }
}
