//! `jcmd Thread.print` (and `jstack`): which threads there are, and which are at work on a direct buffer.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use crate::language::text;

const MAX_THREADS: usize = 20_000;
const MAX_NAME_CHARACTERS: usize = 256;

/// What a thread was doing with direct memory when the dump was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeUse {
    /// Nothing that its stack shows.
    None,
    /// It reads or writes through a temporary direct buffer: the buffer is on its stack, not in its cache.
    InTransfer,
    /// It waits for room in direct memory.
    Reserving,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedThread {
    /// Its name.
    pub name: String,
    /// `RUNNABLE` and so on; VM threads have none.
    pub state: Option<String>,
    /// Whether it is a Java thread, as opposed to one of the JVM's own.
    pub is_java: bool,
    /// See [`NativeUse`].
    pub native_use: NativeUse,
    /// Its line.
    pub line: u64,
}

/// All threads of a JVM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadPrint {
    /// The JVM, such as `OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode)`.
    pub jvm: Option<(String, u64)>,
    /// The threads in the order of the dump.
    pub threads: Vec<PrintedThread>,
}

impl ThreadPrint {
    /// The version in [`ThreadPrint::jvm`], such as `17.0.15+6`.
    pub fn java_version(&self) -> Option<(&str, u64)> {
        let (jvm, line) = self.jvm.as_ref()?;
        let (_, rest) = jvm.rsplit_once('(')?;
        Some((rest.split([' ', ')']).next()?, *line))
    }
}

/// Takes lines of `Thread.print`.
#[derive(Debug, Default)]
pub(crate) struct ThreadPrintParser {
    found: ThreadPrint,
    listed: Option<u64>,
    full: bool,
    in_thread: bool,
    ended: bool,
}

impl Parser for ThreadPrintParser {
    type Output = ThreadPrint;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if let Some(jvm) = text.strip_prefix("Full thread dump ") {
            self.found.jvm = Some((excerpt(jvm.trim_end_matches(':')), line.number));
        } else if let Some((_, rest)) =
            text.split_once("length=").filter(|_| text.starts_with("_java_thread_list"))
        {
            self.listed = rest.split(',').next().and_then(|number| number.parse().ok());
        } else if let Some(rest) = text.strip_prefix('"') {
            self.in_thread = false;
            let Some((name, rest)) = rest.rsplit_once('"') else {
                problems.add(
                    line.number,
                    text!(
                        "no end of the thread's name in {seen:?}",
                        "{seen:?} 中线程名没有结尾",
                        seen = excerpt(text)
                    ),
                );
                return;
            };
            if self.found.threads.len() >= MAX_THREADS {
                if !self.full {
                    problems.add(
                        line.number,
                        text!(
                            "more than {MAX_THREADS} threads; the rest is left out",
                            "线程超过 {MAX_THREADS} 个；其余略去"
                        ),
                    );
                }
                self.full = true;
                return;
            }
            self.in_thread = true;
            self.found.threads.push(PrintedThread {
                name: name.chars().take(MAX_NAME_CHARACTERS).collect(),
                state: None,
                is_java: rest.trim_start().starts_with('#'),
                native_use: NativeUse::None,
                line: line.number,
            });
        } else if text.starts_with("JNI global ref") {
            self.ended = true;
        } else if let (true, Some(thread)) = (self.in_thread, self.found.threads.last_mut()) {
            if let Some(state) = text.strip_prefix("java.lang.Thread.State: ") {
                thread.state = state.split_whitespace().next().map(excerpt);
            } else if let Some(frame) = text.strip_prefix("at ") {
                if frame.starts_with("java.nio.Bits.reserveMemory(") {
                    thread.native_use = NativeUse::Reserving;
                } else if thread.native_use == NativeUse::None && frame.starts_with("sun.nio.ch.IOUtil.") {
                    thread.native_use = NativeUse::InTransfer;
                }
            }
        }
    }

    fn finish(self, problems: &mut Problems) -> ThreadPrint {
        let java = self.found.threads.iter().filter(|thread| thread.is_java).count() as u64;
        match self.listed {
            Some(listed) if java < listed && !self.full => {
                problems.add(
                    0,
                    text!(
                        "the thread dump breaks off: {java} of {listed} threads are there",
                        "线程转储中断：{listed} 个线程中只有 {java} 个"
                    ),
                );
            }
            None if !self.ended => problems
                .add(0, text!("the thread dump breaks off: its end is missing", "线程转储中断：缺少结尾")),
            _ => {}
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    const TEXT: &str = r#"2026-11-30 11:57:23
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1 mixed mode, sharing):

Threads class SMR info:
_java_thread_list=0x00007f754c0035d0, length=3, elements={
0x1, 0x2, 0x3
}

"data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-0" #12 prio=5 os_prio=0 tid=0x1 nid=0x29dd runnable  [0x00007f75a9efd000]
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.SocketDispatcher.read0(java.base@17.0.15/Native Method)
	at sun.nio.ch.IOUtil.readIntoNativeBuffer(java.base@17.0.15/IOUtil.java:330)

"reserve" #13 prio=5 os_prio=0 tid=0x2 nid=0x29de waiting on condition
   java.lang.Thread.State: TIMED_WAITING (sleeping)
	at java.lang.Thread.sleep(java.base@17.0.15/Native Method)
	at java.nio.Bits.reserveMemory(java.base@17.0.15/Bits.java:170)
	at sun.nio.ch.IOUtil.read(java.base@17.0.15/IOUtil.java:293)

"a "quoted" one" #14 [77] daemon prio=5 os_prio=0 tid=0x3 nid=77 in Object.wait()

"GC Thread#0" os_prio=0 cpu=22.60ms elapsed=5.33s tid=0x4 nid=0x2990 runnable  

JNI global refs: 12, weak refs: 0
"#;

    #[test]
    fn threads_and_what_they_do_with_direct_memory_are_read() {
        let (found, problems) = parse_text::<ThreadPrintParser>(TEXT.as_bytes());
        assert_eq!(problems, []);
        let uses: Vec<_> = found.threads.iter().map(|thread| (thread.native_use, thread.is_java)).collect();
        assert_eq!(
            uses,
            [
                (NativeUse::InTransfer, true),
                (NativeUse::Reserving, true),
                (NativeUse::None, true),
                (NativeUse::None, false)
            ]
        );
        assert_eq!(found.threads[2].name, "a \"quoted\" one");
        assert_eq!(found.threads[1].state.as_deref(), Some("TIMED_WAITING"));
        assert_eq!(found.java_version(), Some(("17.0.15+6-Debian-1deb12u1", 2)));
    }

    #[test]
    fn a_dump_that_breaks_off_says_so() {
        let cut = TEXT.find("\"reserve\"").unwrap();
        let (found, problems) = parse_text::<ThreadPrintParser>(&TEXT.as_bytes()[..cut]);
        assert_eq!(found.threads.len(), 1);
        assert!(problems[0].text.en.contains("1 of 3 threads"), "{problems:?}");
    }
}
