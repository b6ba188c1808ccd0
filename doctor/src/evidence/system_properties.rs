//! `jcmd VM.system_properties`: the system properties of a JVM.

use std::collections::BTreeMap;

use super::Parser;
use super::lines::{Line, Problems};
use super::properties_text::{Entry, PropertiesText, Room};

/// Longer values, such as class paths, are cut.
const MAX_VALUE_CHARACTERS: usize = 1024;

/// System properties by name, with value and line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemProperties {
    /// By name.
    pub properties: BTreeMap<String, (String, u64)>,
}

impl SystemProperties {
    /// A property and its line.
    pub fn get(&self, name: &str) -> Option<(&str, u64)> {
        self.properties.get(name).map(|(value, line)| (value.as_str(), *line))
    }
}

/// Takes lines of `VM.system_properties`.
#[derive(Debug, Default)]
pub(crate) struct SystemPropertiesParser {
    text: PropertiesText,
    room: Room,
    found: SystemProperties,
}

impl SystemPropertiesParser {
    fn insert(&mut self, entry: Option<Entry>, problems: &mut Problems) {
        let Some(entry) = entry else { return };
        let value: String = entry.value.chars().take(MAX_VALUE_CHARACTERS).collect();
        if !self.room.take(&entry.name, &value, entry.line, problems) {
            return;
        }
        self.found.properties.insert(entry.name, (value, entry.line));
    }
}

impl Parser for SystemPropertiesParser {
    type Output = SystemProperties;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let entry = self.text.line(line, problems);
        self.insert(entry, problems);
    }

    fn finish(mut self, problems: &mut Problems) -> SystemProperties {
        let entry = self.text.finish(problems);
        self.insert(entry, problems);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    #[test]
    fn names_and_values_are_unescaped() {
        let text =
            b"#Mon Nov 30 11:57:22 UTC 2026\njava.version=17.0.15\npath.separator=\\:\nline.separator=\\n\n";
        let (found, problems) = parse_text::<SystemPropertiesParser>(text);
        assert_eq!(found.get("java.version"), Some(("17.0.15", 2)));
        assert_eq!(found.get("path.separator"), Some((":", 3)));
        assert_eq!(found.get("jdk.nio.maxCachedBufferSize"), None);
        assert_eq!(problems, []);
    }
}
