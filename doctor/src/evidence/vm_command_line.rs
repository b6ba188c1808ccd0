//! `jcmd VM.command_line`: what the JVM was started with.

use super::lines::{Line, Problems, excerpt};
use super::{Parser, jvm_size};
use crate::language::text;

const MAX_ARGUMENTS: usize = 4096;
/// All arguments together.
const MAX_BYTES: usize = 1 << 20;

/// The arguments of a JVM and what it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VmCommandLine {
    /// Arguments to the JVM, each with its line.
    pub arguments: Vec<(String, u64)>,
    /// Main class and its arguments.
    pub java_command: Option<(String, u64)>,
    /// Jars of the class path that name a version of Kafka.
    pub kafka_jar: Option<(String, u64)>,
}

impl VmCommandLine {
    /// The last argument that begins with `prefix`: what follows it, and its line. As in Java, the last one wins.
    pub fn last(&self, prefix: &str) -> Option<(&str, u64)> {
        self.arguments.iter().rev().find_map(|(text, line)| Some((text.strip_prefix(prefix)?, *line)))
    }

    /// The value of `-Dname=`.
    pub fn system_property(&self, name: &str) -> Option<(&str, u64)> {
        self.system_properties()
            .filter(|(known, _, _)| *known == name)
            .last()
            .map(|(_, value, line)| (value, line))
    }

    /// All `-Dname=value` with their lines.
    pub fn system_properties(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.arguments.iter().filter_map(|(text, line)| {
            let pair = text.strip_prefix("-D")?;
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((name, value, *line))
        })
    }

    /// The heap limit in bytes, from `-Xmx` or `-XX:MaxHeapSize`, and its line.
    pub fn max_heap(&self) -> Option<(u64, u64)> {
        self.arguments.iter().rev().find_map(|(text, line)| {
            let size = text.strip_prefix("-Xmx").or_else(|| text.strip_prefix("-XX:MaxHeapSize="))?;
            Some((jvm_size(size)?, *line))
        })
    }

    /// Whether `-XX:+name` or `-XX:-name` came last, and its line.
    pub fn switch(&self, name: &str) -> Option<(bool, u64)> {
        self.arguments.iter().rev().find_map(|(text, line)| {
            let option = text.strip_prefix("-XX:")?;
            match (option.strip_prefix('+'), option.strip_prefix('-')) {
                (Some(known), _) if known == name => Some((true, *line)),
                (_, Some(known)) if known == name => Some((false, *line)),
                _ => None,
            }
        })
    }
}

/// Takes lines of `VM.command_line`.
#[derive(Debug, Default)]
pub(crate) struct VmCommandLineParser {
    found: VmCommandLine,
    bytes: usize,
}

impl Parser for VmCommandLineParser {
    type Output = VmCommandLine;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if let Some(arguments) = text.strip_prefix("jvm_args:") {
            for word in arguments.split_whitespace() {
                self.bytes = self.bytes.saturating_add(word.len() + 1);
                if self.bytes > MAX_BYTES || self.found.arguments.len() > MAX_ARGUMENTS {
                    problems.add(
                        line.number,
                        text!("too many arguments; the rest is left out", "参数过多；其余略去"),
                    );
                    break;
                }
                // The JVM joins its arguments with blanks: a word that is no option belongs to the one before it.
                // A dash and a digit is an argument of that word's own, as in `kill -9`.
                if (!word.starts_with('-') || word.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
                    && let Some((last, _)) = self.found.arguments.last_mut()
                {
                    last.push(' ');
                    last.push_str(word);
                } else {
                    self.found.arguments.push((word.to_owned(), line.number));
                }
            }
        } else if let Some(command) = text.strip_prefix("java_command:") {
            self.found.java_command = Some((command.trim().chars().take(4096).collect(), line.number));
        } else if let Some((_, path)) =
            text.split_once(':').filter(|(name, _)| name.starts_with("java_class_path"))
        {
            let jar = path.split(':').filter_map(|jar| jar.rsplit('/').next()).find(|jar| is_kafka_jar(jar));
            self.found.kafka_jar = jar.map(|jar| (jar.to_owned(), line.number));
        } else if !(text.is_empty() || text == "VM Arguments:" || text.starts_with("Launcher Type:")) {
            problems.add(
                line.number,
                text!(
                    "{seen:?} is no part of VM.command_line",
                    "{seen:?} 不属于 VM.command_line 的输出",
                    seen = excerpt(text)
                ),
            );
        }
    }

    fn finish(self, _: &mut Problems) -> VmCommandLine {
        self.found
    }
}

/// `kafka_2.13-3.9.2.jar`
fn is_kafka_jar(name: &str) -> bool {
    name.strip_prefix("kafka_2.").is_some_and(|rest| rest.ends_with(".jar"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    const TEXT: &str = "VM Arguments:\njvm_args: -Xmx1g -XX:+DisableExplicitGC -Xmx16G -Djdk.nio.maxCachedBufferSize=1m \
                        -XX:OnOutOfMemoryError=kill -9 %p -Dempty -XX:-DisableExplicitGC \n\
                        java_command: kafka.Kafka /etc/kafka/server.properties\n\
                        java_class_path (initial): /k/libs/a.jar:/k/libs/kafka_2.13-3.9.2.jar\n\
                        Launcher Type: SUN_STANDARD\n";

    #[test]
    fn the_last_of_an_argument_wins() {
        let (found, problems) = parse_text::<VmCommandLineParser>(TEXT.as_bytes());
        assert_eq!(found.max_heap(), Some((16 << 30, 2)));
        assert_eq!(found.switch("DisableExplicitGC"), Some((false, 2)));
        assert_eq!(found.system_property("jdk.nio.maxCachedBufferSize"), Some(("1m", 2)));
        assert_eq!(found.system_property("empty"), Some(("", 2)));
        assert_eq!(found.last("-XX:OnOutOfMemoryError="), Some(("kill -9 %p", 2)));
        assert_eq!(found.java_command.as_ref().unwrap().0, "kafka.Kafka /etc/kafka/server.properties");
        assert_eq!(found.kafka_jar.as_ref().unwrap().0, "kafka_2.13-3.9.2.jar");
        assert_eq!(problems, []);
    }

    #[test]
    fn foreign_lines_are_named() {
        let (found, problems) = parse_text::<VmCommandLineParser>(b"VM Arguments:\n???\njvm_args: -Xmx2g\n");
        assert_eq!(found.max_heap(), Some((2 << 30, 3)));
        assert_eq!(problems[0].line, 2);
    }
}
