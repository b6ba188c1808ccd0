//! `jcmd VM.version`: which JVM it is.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use crate::language::text;

/// The JVM's version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmVersion {
    /// Such as `OpenJDK 64-Bit Server VM version 17.0.15+6`.
    pub vm: Option<(String, u64)>,
    /// Such as `17.0.15`.
    pub java_version: Option<(String, u64)>,
}

/// Whether a line is the first of `VM.version`.
pub(crate) fn is_head(text: &str) -> bool {
    text.split_once(" VM version ")
        .is_some_and(|(_, version)| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// Takes lines of `VM.version`.
#[derive(Debug, Default)]
pub(crate) struct VmVersionParser {
    found: VmVersion,
}

impl Parser for VmVersionParser {
    type Output = VmVersion;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if let Some((_, version)) = text.split_once(" VM version ") {
            self.found.vm = Some((excerpt(text), line.number));
            // JDK 8 has no second line in some builds.
            self.found.java_version.get_or_insert_with(|| (excerpt(version), line.number));
        } else if let Some(version) = text.strip_prefix("JDK ") {
            self.found.java_version = Some((excerpt(version), line.number));
        } else if !text.is_empty() {
            problems.add(
                line.number,
                text!(
                    "{seen:?} is no part of VM.version",
                    "{seen:?} 不属于 VM.version 的输出",
                    seen = excerpt(text)
                ),
            );
        }
    }

    fn finish(self, _: &mut Problems) -> VmVersion {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    #[test]
    fn both_lines_are_read() {
        let text = "OpenJDK 64-Bit Server VM version 17.0.15+6-Debian-1deb12u1\nJDK 17.0.15\n?\n";
        let (found, problems) = parse_text::<VmVersionParser>(text.as_bytes());
        assert_eq!(found.java_version, Some(("17.0.15".to_owned(), 2)));
        assert!(found.vm.unwrap().0.starts_with("OpenJDK"));
        assert_eq!(problems.len(), 1);
        let (old, _) =
            parse_text::<VmVersionParser>(b"OpenJDK 64-Bit Server VM version 25.292-b10\nJDK 8.0_292\n");
        assert_eq!(old.java_version.unwrap().0, "8.0_292");
    }
}
