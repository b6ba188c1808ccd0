//! `jcmd GC.class_histogram`: the classes that tell of direct memory, and the largest ones.

use std::collections::BTreeMap;

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use crate::language::text;

/// Rows that are kept because they are the first, that is the largest.
const LARGEST: u64 = 20;
const MAX_CLASSES: usize = 1024;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassRow {
    /// Objects.
    pub instances: u64,
    /// Their shallow size in bytes.
    pub bytes: u64,
    /// Its line.
    pub line: u64,
}

/// The rows of interest and the total.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassHistogram {
    /// By class name, as Java writes it (`[B` for bytes).
    pub classes: BTreeMap<String, ClassRow>,
    /// All classes.
    pub total: Option<ClassRow>,
    /// The version of the JDK that the rows name, such as `17.0.15`.
    pub java_version: Option<(String, u64)>,
}

impl ClassHistogram {
    /// Objects of a class; 0 when the histogram has none.
    pub fn instances(&self, class: &str) -> u64 {
        self.classes.get(class).map_or(0, |row| row.instances)
    }
}

/// Takes lines of `GC.class_histogram`.
#[derive(Debug, Default)]
pub(crate) struct ClassHistogramParser {
    found: ClassHistogram,
    rows: u64,
}

impl Parser for ClassHistogramParser {
    type Output = ClassHistogram;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let mut words = line.text.split_whitespace();
        let Some(first) = words.next() else { return };
        let mut row = || {
            Some(ClassRow {
                instances: words.next()?.parse().ok()?,
                bytes: words.next()?.parse().ok()?,
                line: line.number,
            })
        };
        if first == "Total" {
            match row() {
                Some(row) => self.found.total = Some(row),
                None => problems.add(
                    line.number,
                    text!("no total in {seen:?}", "{seen:?} 中没有合计", seen = excerpt(line.text)),
                ),
            }
            return;
        }
        if first == "num" || first.starts_with("---") {
            return;
        }
        let numbered = first.strip_suffix(':').is_some_and(|number| number.parse::<u64>().is_ok());
        let (true, Some(row)) = (numbered, row()) else {
            problems.add(
                line.number,
                text!(
                    "no row of a class histogram: {seen:?}",
                    "不是类直方图的行：{seen:?}",
                    seen = excerpt(line.text)
                ),
            );
            return;
        };
        let Some(class) = words.next() else {
            problems.add(line.number, text!("the row names no class", "该行没有类名"));
            return;
        };
        self.rows += 1;
        if self.found.java_version.is_none() {
            let module =
                words.next().and_then(|module| module.strip_prefix("(java.base@")?.strip_suffix(')'));
            self.found.java_version = module.map(|version| (version.to_owned(), line.number));
        }
        if (self.rows <= LARGEST || is_of_interest(class)) && self.found.classes.len() < MAX_CLASSES {
            self.found.classes.insert(excerpt(class), row);
        }
    }

    fn finish(self, problems: &mut Problems) -> ClassHistogram {
        if self.found.total.is_none() {
            problems.add(
                0,
                text!(
                    "class histogram: the line with the total is missing, so it is not whole",
                    "类直方图：缺少合计行，内容不完整"
                ),
            );
        }
        self.found
    }
}

fn is_of_interest(class: &str) -> bool {
    [
        "java.nio.",
        "[Ljava.nio.",
        "sun.nio.ch.",
        "jdk.internal.ref.Cleaner",
        "sun.misc.Cleaner",
        "org.apache.kafka.common.network.",
    ]
    .iter()
    .any(|start| class.starts_with(start))
        || class.contains("io.netty.buffer.Pool")
        || class.contains("AdaptivePoolingAllocator$Chunk")
        || class.contains("DelayedRemoteFetch")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    #[test]
    fn rows_of_jdk_8_and_later_are_read() {
        let text = " num     #instances         #bytes  class name (module)\n----------------------\n\
                    \x20  1:         13227       21682448  [B (java.base@17.0.15)\n\
                    \x20 40:            52           3744  java.nio.DirectByteBuffer (java.base@17.0.15)\n\
                    \x20 41:            23            552  sun.nio.ch.Util$BufferCache\nTotal         50621       23319432\n";
        let (found, problems) = parse_text::<ClassHistogramParser>(text.as_bytes());
        assert_eq!(problems, []);
        assert_eq!(found.instances("java.nio.DirectByteBuffer"), 52);
        assert_eq!(found.instances("sun.nio.ch.Util$BufferCache"), 23);
        assert_eq!(found.instances("absent"), 0);
        assert_eq!(found.total.unwrap().bytes, 23_319_432);
        assert_eq!(found.java_version, Some(("17.0.15".to_owned(), 3)));
    }

    #[test]
    fn a_histogram_that_breaks_off_says_so() {
        let text = " num     #instances         #bytes  class name\n   1:  1 16 a.B\n   2:  x\n";
        let (found, problems) = parse_text::<ClassHistogramParser>(text.as_bytes());
        assert_eq!(found.instances("a.B"), 1);
        assert_eq!(problems.len(), 2);
        assert_eq!(problems[0].line, 3);
    }
}
