//! `jcmd VM.flags` in both forms: the plain one line of `-XX:` options, and the table of `-all` with origins.

use std::collections::BTreeMap;

use super::lines::{Line, Problems, excerpt};
use super::{Parser, jvm_size};
use crate::language::text;

/// Most flags that are kept; a JVM knows about 1,500.
const MAX_FLAGS: usize = 4096;
const MAX_VALUE_BYTES: usize = 4096;

/// One flag of the JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The value as it is written; `true` or `false` for switches.
    pub value: String,
    /// Where the value comes from as `-all` says it, such as `default`, `command line` or `ergonomic`.
    pub origin: Option<String>,
    /// Its line.
    pub line: u64,
}

/// The flags of a JVM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmFlags {
    /// By name.
    pub flags: BTreeMap<String, Flag>,
    /// The table of `-all`: it names every flag, so a missing one does not exist in this JVM. The plain form leaves out
    /// what has its default value.
    pub all: bool,
}

impl VmFlags {
    /// A flag.
    pub fn get(&self, name: &str) -> Option<&Flag> {
        self.flags.get(name)
    }

    /// The value of a numeric flag with its line.
    pub fn number(&self, name: &str) -> Option<(u64, u64)> {
        let flag = self.get(name)?;
        Some((jvm_size(&flag.value)?, flag.line))
    }

    /// The line of a switch that is on.
    pub fn is_on(&self, name: &str) -> Option<u64> {
        self.get(name).filter(|flag| flag.value == "true").map(|flag| flag.line)
    }
}

/// Takes lines of `VM.flags`.
#[derive(Debug, Default)]
pub(crate) struct VmFlagsParser {
    found: VmFlags,
    full: bool,
}

impl VmFlagsParser {
    fn insert(
        &mut self,
        name: &str,
        value: &str,
        origin: Option<String>,
        line: u64,
        problems: &mut Problems,
    ) {
        if self.found.flags.len() >= MAX_FLAGS && !self.found.flags.contains_key(name) {
            if !self.full {
                problems.add(
                    line,
                    text!(
                        "more than {MAX_FLAGS} flags; the rest is left out",
                        "参数超过 {MAX_FLAGS} 个；其余略去"
                    ),
                );
            }
            self.full = true;
            return;
        }
        let value = value.chars().take(MAX_VALUE_BYTES).collect();
        self.found.flags.insert(name.to_owned(), Flag { value, origin, line });
    }

    /// `-XX:+A -XX:B=1 ...`; a word that is no option belongs to the value before it.
    fn options(&mut self, line: Line<'_>, problems: &mut Problems) {
        let mut last: Option<String> = None;
        for word in line.text.split_whitespace() {
            let Some(option) = word.strip_prefix("-XX:") else {
                match last.as_ref().and_then(|name| self.found.flags.get_mut(name)) {
                    Some(flag) if flag.value.len() < MAX_VALUE_BYTES => {
                        flag.value.push(' ');
                        flag.value.push_str(word);
                    }
                    Some(_) => {}
                    None => problems.add(
                        line.number,
                        text!("{word} is no flag", "{word} 不是 JVM 参数", word = excerpt(word)),
                    ),
                }
                continue;
            };
            let (name, value) = match (option.strip_prefix('+'), option.strip_prefix('-')) {
                (Some(name), _) => (name, "true"),
                (_, Some(name)) => (name, "false"),
                _ => match option.split_once('=') {
                    Some(pair) => pair,
                    None => {
                        problems.add(
                            line.number,
                            text!("{word} has no value", "{word} 没有值", word = excerpt(word)),
                        );
                        continue;
                    }
                },
            };
            self.insert(name, value, None, line.number, problems);
            last = Some(name.to_owned());
        }
    }

    /// `bool UseG1GC = true {product} {command line}`; JDK 8 writes `:=` for a value that was changed, and one brace.
    fn row(&mut self, line: Line<'_>, problems: &mut Problems) {
        let Some((left, right)) = line.text.split_once('=') else {
            if !line.text.trim().is_empty() {
                problems.add(
                    line.number,
                    text!("no flag in {seen:?}", "{seen:?} 中没有 JVM 参数", seen = excerpt(line.text)),
                );
            }
            return;
        };
        let mut words = left.trim_end_matches([' ', ':']).split_whitespace();
        let (Some(_kind), Some(name), None) = (words.next(), words.next(), words.next()) else {
            problems.add(
                line.number,
                text!("no flag in {seen:?}", "{seen:?} 中没有 JVM 参数", seen = excerpt(line.text)),
            );
            return;
        };
        let (value, braces) = match right.find('{') {
            Some(at) => right.split_at(at),
            None => (right, ""),
        };
        let origin = braces
            .trim_end()
            .strip_suffix('}')
            .and_then(|braces| braces.rsplit_once('{'))
            .map(|(_, origin)| excerpt(origin));
        self.insert(name, value.trim(), origin, line.number, problems);
    }
}

impl Parser for VmFlagsParser {
    type Output = VmFlags;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if text == "[Global flags]" {
            self.found.all = true;
        } else if text.starts_with("-XX:") {
            self.options(line, problems);
        } else if self.found.all {
            self.row(line, problems);
        } else if !text.is_empty() {
            problems.add(
                line.number,
                text!("no flag in {seen:?}", "{seen:?} 中没有 JVM 参数", seen = excerpt(text)),
            );
        }
    }

    fn finish(self, _: &mut Problems) -> VmFlags {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    #[test]
    fn the_plain_form_is_one_line_of_options() {
        let text = "-XX:CICompilerCount=2 -XX:+DisableExplicitGC -XX:MaxHeapSize=335544320 \
                    -XX:OnOutOfMemoryError=kill -9 %p -XX:-UseSerialGC \n";
        let (flags, problems) = parse_text::<VmFlagsParser>(text.as_bytes());
        assert_eq!(flags.number("MaxHeapSize"), Some((335_544_320, 1)));
        assert_eq!(flags.number("MaxDirectMemorySize"), None);
        assert_eq!(flags.is_on("DisableExplicitGC"), Some(1));
        assert_eq!(flags.is_on("UseSerialGC"), None);
        assert_eq!(flags.get("OnOutOfMemoryError").unwrap().value, "kill -9 %p");
        assert!(!flags.all);
        assert_eq!(problems, []);
    }

    #[test]
    fn the_table_of_all_flags_says_where_a_value_comes_from() {
        let text = "[Global flags]\n uint64_t MaxDirectMemorySize                      = 0           {product} {default}\n\
                    \x20    bool HeapDumpOnOutOfMemoryError               = true      {manageable} {command line}\n\
                    ccstrlist OnOutOfMemoryError                       =                {product} {default}\n\
                    \x20   uintx MaxHeapSize                              := 536870912       {product}\n";
        let (flags, problems) = parse_text::<VmFlagsParser>(text.as_bytes());
        assert!(flags.all);
        assert_eq!(flags.number("MaxDirectMemorySize"), Some((0, 2)));
        assert_eq!(flags.get("MaxDirectMemorySize").unwrap().origin.as_deref(), Some("default"));
        assert_eq!(flags.is_on("HeapDumpOnOutOfMemoryError"), Some(3));
        assert_eq!(flags.get("OnOutOfMemoryError").unwrap().value, "");
        assert_eq!(flags.number("MaxHeapSize"), Some((536_870_912, 5)));
        assert_eq!(problems, []);
    }

    #[test]
    fn a_damaged_row_is_named_and_the_rest_is_read() {
        let text = "[Global flags]\nnonsense\n size_t MaxHeapSize = 1024 {product} {default}\n";
        let (flags, problems) = parse_text::<VmFlagsParser>(text.as_bytes());
        assert_eq!(flags.number("MaxHeapSize"), Some((1024, 3)));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 2);
    }
}
