//! Logs of a broker: memory that could not be had, with thread and stack; sizes that were refused; what the broker says
//! of itself. Any layout of log4j; excerpts of a few lines are enough.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use weir_metadata::properties::Origin;

use super::Parser;
use super::clock::{Repeats, date_ms};
use super::gc_log::{GcLog, GcLogParser};
use super::lines::{Line, Problems, excerpt};
use super::log_prefix::{is_exception, without_prefix};
use super::properties_text::Room;
use super::server_properties::ServerProperties;
use super::thread_role::ThreadRole;
use crate::language::text;

const MAX_GROUPS: usize = 256;
const MAX_THREADS: usize = 32;
const MAX_FRAMES: usize = 24;
const MAX_REFUSED: usize = 256;
const MAX_PEERS: usize = 8;

/// What kind of memory was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryKind {
    /// Direct memory: `Cannot reserve N bytes of direct buffer memory`, before JDK 17 `Direct buffer memory`.
    Direct,
    /// Netty's own count of direct memory.
    NettyDirect,
    /// `Java heap space`, `GC overhead limit exceeded` or an array that is too large.
    Heap,
    /// `Metaspace` or `Compressed class space`.
    Metaspace,
    /// A thread could not be started.
    Thread,
    /// A file could not be mapped.
    Map,
    /// The system gave no memory (`malloc`, `mmap`).
    Native,
}

/// Failures of one kind, size and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What was missing.
    pub kind: MemoryKind,
    /// Bytes asked for, where the message says it.
    pub requested: Option<u64>,
    /// Bytes taken at that time: the most that a message of this group says.
    pub allocated: Option<u64>,
    /// The limit in force.
    pub limit: Option<u64>,
    /// Whose failure it was, by thread name, stack or logger.
    pub role: ThreadRole,
    /// Names of the threads, where the log tells them.
    pub threads: Vec<String>,
    /// How often, and the lines.
    pub repeats: Repeats,
    /// The message of the first one.
    pub message: String,
    /// The stack of the first one, innermost frame first, without files and lines.
    pub stack: Vec<String>,
}

impl OutOfMemory {
    /// Whether the JDK wanted a temporary direct buffer for I/O on a heap buffer.
    pub fn is_temporary_buffer(&self) -> bool {
        self.stack.iter().any(|frame| frame.ends_with("sun.nio.ch.Util.getTemporaryDirectBuffer"))
    }
}

/// Receives that were refused because of their size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedReceive {
    /// The limit that they broke.
    pub limit: Option<u64>,
    /// How often, and the lines.
    pub repeats: Repeats,
    /// Peers that the log names.
    pub peers: Vec<String>,
}

/// What a broker's log tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerLog {
    /// Failures for want of memory.
    pub out_of_memory: Vec<OutOfMemory>,
    /// Receives refused, by their size as the broker read it.
    pub refused: BTreeMap<i64, RefusedReceive>,
    /// `Processor got uncaught exception`.
    pub processor_errors: Repeats,
    /// Kafka's version as it logs it at its start.
    pub kafka_version: Option<(String, u64)>,
    /// The values that the broker logs at its start (`KafkaConfig values:`), the last block.
    pub config: Option<(ServerProperties, u64)>,
    /// GC lines that stand in the same file.
    pub gc: GcLog,
    /// Lines that look like a log's.
    pub entries: u64,
    /// Time of the last entry, on the writer's clock.
    pub last_ms: Option<i64>,
}

/// Takes lines of a log.
#[derive(Debug, Default)]
pub(crate) struct BrokerLogParser {
    found: BrokerLog,
    gc: GcLogParser,
    /// First line of the present entry.
    head: String,
    pending: Option<OutOfMemory>,
    config: Option<(ServerProperties, u64)>,
    room: Room,
    full: bool,
}

/// The log entry that the present line belongs to.
#[derive(Debug, Default)]
struct Head {
    at_ms: Option<i64>,
    thread: Option<String>,
    peer: Option<String>,
    role: Option<ThreadRole>,
}

/// Most of an entry's first line that is kept, in bytes.
const MAX_HEAD_BYTES: usize = 4096;

/// What makes a line worth a look: one pass over it, because nearly all lines of a log have none of this.
static TELLING: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::new([
        "OutOfMemoryError",
        "OutOfDirectMemoryError",
        "of direct buffer memory",
        "Invalid receive (size = ",
        "java.io.IOException: Map failed",
        "os::commit_memory(",
        "Native memory allocation (",
        // What tells of more, but is no sign of trouble by itself.
        "Processor got uncaught exception",
        "KafkaConfig values:",
        "Kafka version: ",
    ])
    .ok()
});

/// Number of the patterns above that alone say what a file is about.
const SIGNS: usize = 7;

/// Whether a line holds one of [`TELLING`].
fn has_word(text: &str) -> bool {
    TELLING.as_ref().is_none_or(|words| words.is_match(text))
}

/// Whether a line is one of a broker's log.
pub(crate) fn is_log_line(text: &str) -> bool {
    is_telling(text) || (level(text).is_some() && (date_ms(text).is_some() || text.starts_with('[')))
}

/// Whether a line alone says what this file is about.
fn is_telling(text: &str) -> bool {
    TELLING
        .as_ref()
        .is_some_and(|words| words.find_iter(text).any(|found| found.pattern().as_usize() < SIGNS))
}

/// The level word near the start of a line, and where it is.
fn level(text: &str) -> Option<(usize, &'static str)> {
    const LEVELS: [&str; 6] = ["INFO", "WARN", "ERROR", "DEBUG", "TRACE", "FATAL"];
    let mut start = 0;
    let delimiter = |byte: &u8| b" ]\"[:,".contains(byte);
    let bytes = text.as_bytes();
    let bytes = bytes.get(..200).unwrap_or(bytes);
    while start < bytes.len() {
        let rest = bytes.get(start..)?;
        let length = rest.iter().position(delimiter).unwrap_or(rest.len());
        if matches!(length, 4 | 5) {
            let word = rest.get(..length)?;
            if let Some(level) = LEVELS.iter().find(|level| level.as_bytes() == word) {
                return Some((start, level));
            }
        }
        start += length + 1;
    }
    None
}

impl Parser for BrokerLogParser {
    type Output = BrokerLog;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = without_prefix(line.text);
        let line = Line { text: &text, ..line };
        let text = line.text;
        if self.gc.scan(line, problems) {
            self.flush(problems);
            return;
        }
        let trimmed = text.trim_start();
        if let Some(frame) = trimmed.strip_prefix("at ").filter(|_| trimmed.len() < text.len()) {
            self.frame(frame);
            return;
        }
        if let Some((set, _)) = self.config.as_mut() {
            if let Some((name, value)) = text.strip_prefix('\t').and_then(|text| text.split_once(" =")) {
                // Kafka writes lists in brackets, null for no value.
                let value = value.trim().trim_start_matches('[').trim_end_matches(']');
                if value != "null"
                    && value != "(hidden)"
                    && !name.contains(' ')
                    && self.room.take(name, value, line.number, problems)
                {
                    let number = usize::try_from(line.number).unwrap_or(usize::MAX);
                    set.settings.insert(name, value, Origin::File(number));
                }
                return;
            }
            self.found.config = self.config.take();
        }
        let belongs = trimmed.starts_with("Caused by:") || is_exception(trimmed);
        if !belongs {
            self.flush(problems);
            if level(text).is_some() || text.starts_with("Exception") {
                self.found.entries += 1;
                let end = text.floor_char_boundary(MAX_HEAD_BYTES);
                self.head.clear();
                self.head.push_str(text.get(..end).unwrap_or_default());
            }
        }
        if !has_word(text) {
            return;
        }
        if !belongs && level(text).is_none() && !text.starts_with("Exception") && date_ms(text).is_some() {
            // No entry that we know the layout of, but one with a time of its own.
            let end = text.floor_char_boundary(MAX_HEAD_BYTES);
            self.head.clear();
            self.head.push_str(text.get(..end).unwrap_or_default());
        }
        if text.contains("Processor got uncaught exception") {
            self.found.processor_errors.add(line.number, date_ms(&self.head));
        }
        if let Some((_, rest)) = text.split_once("Invalid receive (size = ") {
            self.refused(rest, line, problems);
        }
        if let Some(failure) = failure(text, line.number) {
            let numbers = [failure.requested, failure.allocated, failure.limit];
            if text.contains("bytes of direct buffer memory") && numbers.contains(&None) {
                problems.add(
                    line.number,
                    text!("not every size is there in {seen:?}", "{seen:?} 中缺少数字", seen = excerpt(text)),
                );
            }
            // The same error in the head's message and as an exception below it, or as its cause, is one failure.
            match &mut self.pending {
                Some(pending) if pending.kind == failure.kind && belongs => {
                    pending.requested = pending.requested.or(failure.requested);
                    pending.allocated = pending.allocated.or(failure.allocated);
                    pending.limit = pending.limit.or(failure.limit);
                }
                _ => {
                    self.flush(problems);
                    self.pending = Some(failure);
                }
            }
            // A log in JSON has the stack in the same line.
            for frame in text.split("\\tat ").skip(1).take(MAX_FRAMES) {
                self.frame(frame);
            }
        }
        if text.contains("KafkaConfig values:") {
            self.config = Some((ServerProperties::default(), line.number));
            self.room = Room::default();
        } else if let Some((_, version)) = text.split_once("Kafka version: ") {
            let version = version.split([' ', '(']).next().unwrap_or_default();
            self.found.kafka_version = Some((excerpt(version), line.number));
        }
    }

    fn finish(mut self, problems: &mut Problems) -> BrokerLog {
        self.flush(problems);
        self.found.last_ms = date_ms(&self.head);
        if self.config.is_some() {
            self.found.config = self.config.take();
        }
        self.found.gc = self.gc.take();
        self.found
    }
}

fn head(text: &str) -> Head {
    let thread = between(text, "in thread \"", "\"")
        .or_else(|| between(text, "in thread '", "'"))
        .or_else(|| {
            let field = text
                .split("\",\"")
                .find_map(|field| field.trim_start_matches(['{', '"']).strip_prefix("thread\":\""))?;
            Some(field.trim_end_matches(['"', '}']).chars().take(256).collect())
        })
        .or_else(|| bracketed_thread(text));
    let peer = text
        .split_once(" from /")
        .map(|(_, rest)| excerpt(rest.split([' ', ';', ',']).next().unwrap_or_default()));
    let role = thread
        .as_deref()
        .map(ThreadRole::of_name)
        .filter(|role| *role != ThreadRole::Other)
        .or_else(|| ThreadRole::of_frame(text))
        .or_else(|| text.contains("[ReplicaFetcher ").then_some(ThreadRole::ReplicaFetcher));
    Head { at_ms: date_ms(text), thread, peer, role }
}

fn between(text: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.rsplit_once(end).map_or(rest, |(name, _)| name).chars().take(256).collect())
}

/// `[data-plane-kafka-network-thread-...] ERROR ...`: a bracket before the level that holds no date and no level.
fn bracketed_thread(text: &str) -> Option<String> {
    let (level_at, _) = level(text)?;
    text.get(..level_at)?
        .split('[')
        .filter_map(|part| part.split_once(']'))
        .map(|(inside, _)| inside.trim())
        .find(|inside| inside.len() > 1 && date_ms(inside).is_none() && level(inside).is_none())
        .map(|name| name.chars().take(256).collect())
}

/// The failure that a line tells of.
fn failure(text: &str, line: u64) -> Option<OutOfMemory> {
    let number_after = |label: &str| -> Option<u64> {
        let (_, rest) = text.split_once(label)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..digits)?.parse().ok()
    };
    let mut found = OutOfMemory {
        kind: MemoryKind::Direct,
        requested: None,
        allocated: None,
        limit: None,
        role: ThreadRole::Other,
        threads: Vec::new(),
        repeats: Repeats::at(line),
        message: excerpt(text),
        stack: Vec::new(),
    };
    if text.contains("bytes of direct buffer memory") {
        found.requested = number_after("Cannot reserve ");
        found.allocated = number_after("(allocated: ");
        found.limit = number_after("limit: ");
    } else if text.contains("OutOfDirectMemoryError") {
        found.kind = MemoryKind::NettyDirect;
        found.requested = number_after("failed to allocate ");
        found.allocated = number_after("(used: ");
        found.limit = number_after("max: ");
    } else if text.contains("os::commit_memory(") && text.contains("errno=12") {
        found.kind = MemoryKind::Native;
        found.requested = text
            .split_once("os::commit_memory(")
            .and_then(|(_, rest)| rest.split(',').nth(1)?.trim().parse().ok());
    } else if text.contains("Native memory allocation (") && text.contains(") failed to ") {
        // What a JVM says before it ends itself, on its output and in its hs_err file.
        found.kind = MemoryKind::Native;
        found.requested = number_after("failed to map ").or_else(|| number_after("failed to allocate "));
    } else if text.contains("java.io.IOException: Map failed") {
        found.kind = MemoryKind::Map;
    } else {
        let (_, rest) = text.split_once("java.lang.OutOfMemoryError")?;
        let reason = rest.trim_start_matches(':').trim_start();
        found.kind = if reason.starts_with("Direct buffer memory") {
            MemoryKind::Direct
        } else if reason.starts_with("Metaspace") || reason.starts_with("Compressed class space") {
            MemoryKind::Metaspace
        } else if reason.starts_with("unable to create") {
            MemoryKind::Thread
        } else if reason.starts_with("Map failed") {
            MemoryKind::Map
        } else if reason.starts_with("Unable to allocate") {
            found.requested = number_after("Unable to allocate ");
            MemoryKind::Native
        } else {
            MemoryKind::Heap
        };
    }
    Some(found)
}

impl BrokerLogParser {
    fn frame(&mut self, frame: &str) {
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.stack.len() < MAX_FRAMES) else {
            // A deeper frame can still tell the role.
            if let Some(pending) = self.pending.as_mut().filter(|pending| pending.role == ThreadRole::Other) {
                pending.role = ThreadRole::of_frame(frame).unwrap_or(ThreadRole::Other);
            }
            return;
        };
        let call = frame.split('(').next().unwrap_or_default();
        // `java.base/`, `app//` and versions name modules.
        let call = call.rsplit('/').next().unwrap_or_default();
        pending.stack.push(call.chars().take(200).collect());
        if pending.role == ThreadRole::Other {
            pending.role = ThreadRole::of_frame(call).unwrap_or(ThreadRole::Other);
        }
    }

    fn refused(&mut self, rest: &str, line: Line<'_>, problems: &mut Problems) {
        let head = head(&self.head);
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(rest.len());
        let Some(size) = rest.get(..end).and_then(|digits| digits.parse::<i64>().ok()) else {
            problems.add(
                line.number,
                text!("no size in {seen:?}", "{seen:?} 中没有大小", seen = excerpt(line.text)),
            );
            return;
        };
        if self.found.refused.len() >= MAX_REFUSED && !self.found.refused.contains_key(&size) {
            problems.add(
                line.number,
                text!(
                    "more than {MAX_REFUSED} different refused sizes; {size} is left out",
                    "被拒绝的大小超过 {MAX_REFUSED} 种；略去 {size}"
                ),
            );
            return;
        }
        let entry = self.found.refused.entry(size).or_default();
        entry.limit = entry.limit.or_else(|| {
            let (_, rest) = rest.split_once("larger than ")?;
            rest.split(')').next()?.trim().parse().ok()
        });
        entry.repeats.add(line.number, head.at_ms);
        if let Some(peer) = head.peer
            && entry.peers.len() < MAX_PEERS
            && !entry.peers.contains(&peer)
        {
            entry.peers.push(peer);
        }
    }

    /// Puts the failure that has its stack by now into its group.
    fn flush(&mut self, problems: &mut Problems) {
        let Some(mut failure) = self.pending.take() else { return };
        let head = head(&self.head);
        if failure.role == ThreadRole::Other
            && let Some(role) = head.role
        {
            failure.role = role;
        }
        let line = failure.repeats.first_line;
        let groups = &mut self.found.out_of_memory;
        let place = groups.iter().position(|group| {
            group.kind == failure.kind && group.requested == failure.requested && group.role == failure.role
        });
        let place = match place {
            Some(place) => place,
            None if groups.len() >= MAX_GROUPS => {
                if !std::mem::replace(&mut self.full, true) {
                    problems.add(
                        line,
                        text!(
                            "more than {MAX_GROUPS} kinds of failures; the rest is left out",
                            "失败种类超过 {MAX_GROUPS} 种；其余略去"
                        ),
                    );
                }
                return;
            }
            None => {
                failure.repeats = Repeats::default();
                groups.push(failure.clone());
                groups.len() - 1
            }
        };
        let Some(group) = groups.get_mut(place) else { return };
        group.repeats.add(line, head.at_ms);
        group.allocated = group.allocated.max(failure.allocated);
        group.limit = failure.limit.or(group.limit);
        if group.stack.is_empty() {
            group.stack = failure.stack;
        }
        if let Some(thread) = head.thread
            && group.threads.len() < MAX_THREADS
            && !group.threads.contains(&thread)
        {
            group.threads.push(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    const PROCESSOR: &str = "[2026-11-30 11:57:23,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
        java.lang.OutOfMemoryError: Cannot reserve 82520280 bytes of direct buffer memory (allocated: 2146611245, limit: 2147483648)\n\
        \tat java.base/java.nio.Bits.reserveMemory(Bits.java:178)\n\
        \tat java.base/java.nio.ByteBuffer.allocateDirect(ByteBuffer.java:332)\n\
        \tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\
        \tat java.base/sun.nio.ch.IOUtil.read(IOUtil.java:293)\n\
        \tat org.apache.kafka.common.network.Selector.poll(Selector.java:481)\n\
        \tat kafka.network.Processor.poll(SocketServer.scala:1107)\n";

    fn read(text: &str) -> BrokerLog {
        let (found, problems) = parse_text::<BrokerLogParser>(text.as_bytes());
        assert_eq!(problems, []);
        found
    }

    #[test]
    fn failures_of_one_size_and_role_are_one_group() {
        let later = PROCESSOR.replace("11:57:23,100", "11:57:23,650").replace("2146611245", "2146611246");
        let found = read(&format!("{PROCESSOR}{later}[2026-11-30 11:57:30,000] INFO fine (kafka)\n"));
        assert_eq!(found.processor_errors.count, 2);
        let [group] = &found.out_of_memory[..] else { panic!("{found:?}") };
        assert_eq!(group.kind, MemoryKind::Direct);
        assert_eq!((group.requested, group.allocated), (Some(82_520_280), Some(2_146_611_246)));
        assert_eq!(group.limit, Some(2_147_483_648));
        assert_eq!(group.role, ThreadRole::Network);
        assert!(group.is_temporary_buffer());
        assert_eq!((group.repeats.count, group.repeats.first_line, group.repeats.last_line), (2, 2, 10));
        assert_eq!(group.repeats.longest_run_ms, 550);
    }

    #[test]
    fn every_form_of_the_message_is_known() {
        for (text, kind, requested) in [
            ("java.lang.OutOfMemoryError: Direct buffer memory", MemoryKind::Direct, None),
            (
                "java.lang.OutOfMemoryError: Cannot reserve 4 bytes of direct buffer memory (allocated: 1, limit: 2)",
                MemoryKind::Direct,
                Some(4),
            ),
            (
                "java.lang.OutOfMemoryError: Unable to allocate 16777216 bytes",
                MemoryKind::Native,
                Some(16_777_216),
            ),
            ("java.lang.OutOfMemoryError: Java heap space", MemoryKind::Heap, None),
            ("java.lang.OutOfMemoryError: GC overhead limit exceeded", MemoryKind::Heap, None),
            ("java.lang.OutOfMemoryError: Metaspace", MemoryKind::Metaspace, None),
            (
                "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
                MemoryKind::Thread,
                None,
            ),
            ("Caused by: java.lang.OutOfMemoryError: Map failed", MemoryKind::Map, None),
            ("java.io.IOException: Map failed", MemoryKind::Map, None),
            (
                "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 16777216 byte(s) of direct memory (used: 7, max: 8)",
                MemoryKind::NettyDirect,
                Some(16_777_216),
            ),
            (
                "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x00000000c0000000, 1073741824, 0) failed; error='Not enough space' (errno=12)",
                MemoryKind::Native,
                Some(1 << 30),
            ),
            (
                "# Native memory allocation (mmap) failed to map 1073741824 bytes for committing reserved memory.",
                MemoryKind::Native,
                Some(1 << 30),
            ),
            (
                "# Native memory allocation (malloc) failed to allocate 32744 bytes for ChunkPool::allocate",
                MemoryKind::Native,
                Some(32_744),
            ),
        ] {
            let found = read(&format!("{text}\n"));
            let [group] = &found.out_of_memory[..] else { panic!("{text}: {found:?}") };
            assert_eq!((group.kind, group.requested), (kind, requested), "{text}");
            assert!(is_log_line(text), "{text}");
        }
        assert!(read("nothing here\n").out_of_memory.is_empty());
    }

    #[test]
    fn threads_and_roles_come_from_whatever_names_them() {
        let found = read(
            "Exception in thread \"data-plane-kafka-request-handler-3\" java.lang.OutOfMemoryError: Direct buffer memory\n\
             [2026-11-30 11:00:00,000] [ReplicaFetcherThread-0-2] ERROR boom (x)\n\
             java.lang.OutOfMemoryError: Direct buffer memory\n\
             [data-plane-kafka-network-thread-1-ListenerName(A)-PLAINTEXT-2] ERROR Processor got uncaught exception.\n\
             java.lang.OutOfMemoryError: Direct buffer memory\n",
        );
        let roles: Vec<_> =
            found.out_of_memory.iter().map(|group| (group.role.clone(), group.threads.clone())).collect();
        assert_eq!(
            roles,
            [
                (ThreadRole::RequestHandler, vec!["data-plane-kafka-request-handler-3".to_owned()]),
                (ThreadRole::ReplicaFetcher, vec!["ReplicaFetcherThread-0-2".to_owned()]),
                (
                    ThreadRole::Network,
                    vec!["data-plane-kafka-network-thread-1-ListenerName(A)-PLAINTEXT-2".to_owned()]
                ),
            ]
        );
    }

    #[test]
    fn logs_of_containers_and_logs_in_json_say_the_same() {
        let stamped: String =
            PROCESSOR.lines().map(|line| format!("2026-11-30T11:57:23.200000001Z {line}\n")).collect();
        let each = |prefix: &str| PROCESSOR.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let in_json = PROCESSOR
            .lines()
            .map(|line| format!("{{\"log\":\"{}\\n\",\"stream\":\"stdout\"}}\n", line.replace('\t', "\\t")));
        let all: [String; 5] = [
            stamped.clone(),
            each("2026-11-30T11:57:23.2+00:00 stdout F "),
            each("kafka-1  | "),
            each("Nov 30 11:57:23 host kafka[123]: "),
            in_json.collect(),
        ];
        for text in &all {
            let found = read(text);
            let [group] = &found.out_of_memory[..] else { panic!("{text}: {found:?}") };
            assert_eq!((group.role.clone(), group.requested), (ThreadRole::Network, Some(82_520_280)));
            assert!(group.is_temporary_buffer() && found.processor_errors.count == 1, "{text}");
            assert!(is_log_line(text.lines().next().unwrap()), "{text}");
        }
        let json = r#"{"timestamp":"2026-11-30T11:57:23.100Z","level":"ERROR","thread":"data-plane-kafka-request-handler-3","message":"boom java.lang.OutOfMemoryError: Cannot reserve 9 bytes of direct buffer memory (allocated: 1, limit: 2)\n\tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n\tat x.Y.z(Y.java:1)"}"#;
        let found = read(json);
        let [group] = &found.out_of_memory[..] else { panic!("{found:?}") };
        assert_eq!(group.threads, ["data-plane-kafka-request-handler-3"]);
        assert_eq!(group.role, ThreadRole::RequestHandler);
        assert!(group.is_temporary_buffer(), "{group:?}");
        assert!(is_log_line(json) && is_log_line(stamped.lines().next().unwrap()));
    }

    #[test]
    fn refused_receives_are_grouped_by_size_with_their_peers() {
        let found = read(
            "[2026-11-30 11:00:00,000] WARN [SocketServer nodeId=1] Unexpected error from /10.0.0.7 (channelId=a); closing connection (org.apache.kafka.common.network.Selector)\n\
             org.apache.kafka.common.network.InvalidReceiveException: Invalid receive (size = 1195725856 larger than 104857600)\n\
             \tat org.apache.kafka.common.network.NetworkReceive.readFrom(NetworkReceive.java:104)\n\
             x Invalid receive (size = 1195725856 larger than 104857600)\nInvalid receive (size = -12)\n",
        );
        let refused = &found.refused[&1_195_725_856];
        assert_eq!((refused.limit, refused.repeats.count), (Some(104_857_600), 2));
        assert_eq!(refused.peers, ["10.0.0.7"]);
        assert!(found.refused.contains_key(&-12));
    }

    #[test]
    fn the_values_that_a_broker_logs_at_its_start_are_its_properties() {
        let found = read(
            "[2026-11-30 11:00:00,000] INFO KafkaConfig values: \n\tadvertised.listeners = null\n\tlisteners = [PLAINTEXT://:9092]\n\
             \tnum.network.threads = 80\n\tssl.key.password = (hidden)\n (kafka.server.KafkaConfig)\n\
             [2026-11-30 11:00:01,000] INFO Kafka version: 3.9.2 (org.apache.kafka.common.utils.AppInfoParser)\n",
        );
        let (config, line) = found.config.unwrap();
        assert_eq!(line, 1);
        assert_eq!(config.number("num.network.threads").value, 80);
        assert_eq!(config.line("num.network.threads"), Some(4));
        assert_eq!(config.text("listeners"), Some("PLAINTEXT://:9092"));
        assert_eq!(config.text("ssl.key.password"), None);
        assert_eq!(found.kafka_version.unwrap().0, "3.9.2");
    }
}
