//! What `weir doctor capture` does: asks a JVM and the kernel for evidence, cheap questions first, into a folder of its own.
//!
//! Invariants: nothing is written before the place is known to be none of Kafka's; a file that has its name is whole; a
//! question that fails costs itself only; what may be a secret is left out of settings and command lines.

mod jcmd;
mod kernel;
mod place;
mod secrets;
mod target;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_doctor::evidence::{CAPTURE_FAILED, Evidence};

pub(crate) use place::Place;
pub(crate) use target::Target;

/// Bytes of heap that a JVM writes into a dump in a second, on a disk of no great speed.
const DUMP_BYTES_PER_SECOND: u64 = 125 << 20;
/// Bytes of heap that a class histogram walks over in a second.
const WALK_BYTES_PER_SECOND: u64 = 1 << 30;
/// A dump is waited for at least so long, and for ten times as long as it is thought to take.
const DUMP_TIMEOUT: Duration = Duration::from_secs(600);
/// The name of the dump in the folder.
pub(crate) const DUMP: &str = "heap.hprof";

/// One question to the JVM.
#[derive(Debug, Clone, Copy)]
struct Question {
    /// The file that gets the answer.
    file: &'static str,
    /// What `jcmd` is told.
    words: &'static [&'static str],
    /// Whether lines of the answer may hold secrets.
    may_hold_secrets: bool,
    /// Whether the JVM stands still for it, longer with a larger heap.
    walks_heap: bool,
}

impl Question {
    const fn new(file: &'static str, words: &'static [&'static str]) -> Self {
        Self { file, words, may_hold_secrets: false, walks_heap: false }
    }
}

/// The questions, cheapest first.
fn questions(live: bool) -> Vec<Question> {
    // Without `-all` the histogram collects garbage first, and with it what nobody holds and is not yet given back.
    let histogram: &[&str] = if live { &["GC.class_histogram"] } else { &["GC.class_histogram", "-all"] };
    vec![
        Question::new("VM.version.txt", &["VM.version"]),
        Question::new("VM.flags.txt", &["VM.flags"]),
        Question::new("VM.flags-all.txt", &["VM.flags", "-all"]),
        Question { may_hold_secrets: true, ..Question::new("VM.command_line.txt", &["VM.command_line"]) },
        Question {
            may_hold_secrets: true,
            ..Question::new("VM.system_properties.txt", &["VM.system_properties"])
        },
        Question::new("GC.heap_info.txt", &["GC.heap_info"]),
        Question::new("VM.native_memory.txt", &["VM.native_memory", "summary"]),
        Question::new("Thread.print.txt", &["Thread.print"]),
        Question { walks_heap: true, ..Question::new("GC.class_histogram.txt", histogram) },
    ]
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Its name.
    pub(crate) file: String,
    /// Its size.
    pub(crate) bytes: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// Why it is not what it should be; then the file holds the error.
    pub(crate) failure: Option<String>,
}

/// What the dump would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DumpEstimate {
    /// The heap that is in use.
    pub(crate) heap_bytes: u64,
    /// How long the JVM will stand still.
    pub(crate) pause: Duration,
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture<'t> {
    target: &'t Target,
    place: &'t Place,
    jcmd: PathBuf,
    timeout: Duration,
    live: bool,
    heap_bytes: Option<u64>,
}

impl<'t> Capture<'t> {
    /// Makes ready.
    ///
    /// # Errors
    /// There is no `jcmd`.
    pub(crate) fn new(
        target: &'t Target,
        place: &'t Place,
        jcmd: Option<&Path>,
        timeout: Duration,
        live: bool,
    ) -> Result<Self, String> {
        let jcmd = jcmd::find(jcmd, target)?;
        Ok(Self { target, place, jcmd, timeout, live, heap_bytes: None })
    }

    /// The `jcmd` that is used.
    pub(crate) fn jcmd(&self) -> &Path {
        &self.jcmd
    }

    /// Takes everything but the dump. `before` hears how long a question may stop the JVM, `taken` of each file.
    pub(crate) fn cheap_half(
        &mut self,
        mut before: impl FnMut(&str, Duration),
        mut taken: impl FnMut(Taken),
    ) {
        for (name, text) in kernel::texts(self.target) {
            taken(self.text(name, text));
        }
        if let Some(settings) = &self.target.settings {
            let text = settings
                .text
                .as_ref()
                .map(|text| secrets::settings(text, &settings.path))
                .map_err(String::clone);
            taken(self.text("server.properties", text));
        }
        for question in questions(self.live) {
            if question.walks_heap {
                let seconds = self.heap_bytes.unwrap_or(0).div_ceil(WALK_BYTES_PER_SECOND);
                before(&question.words.join(" "), Duration::from_secs(seconds));
            }
            taken(self.ask(&question));
        }
    }

    /// What the dump would take; nothing where not even the size of the heap is known.
    pub(crate) fn estimate(&self) -> Option<DumpEstimate> {
        let heap_bytes = self.heap_bytes.or_else(|| self.target.resident_bytes())?;
        let pause = Duration::from_secs(heap_bytes.div_ceil(DUMP_BYTES_PER_SECOND));
        Some(DumpEstimate { heap_bytes, pause })
    }

    /// Why there is no room for a dump.
    pub(crate) fn no_room(&self, estimate: Option<DumpEstimate>) -> Option<String> {
        let heap_bytes = estimate?.heap_bytes;
        self.place.no_room_for(heap_bytes, self.target)
    }

    /// Takes the dump. The JVM itself writes it.
    pub(crate) fn dump(&self, estimate: Option<DumpEstimate>) -> Taken {
        let began = Instant::now();
        let path = self.place.path().join(DUMP);
        // `-all` spares the broker a full collection, and keeps dropped buffers in sight that are still reserved.
        let partial = self.place.path().join(format!("{DUMP}.partial"));
        let quoted = format!("\"{}\"", partial.display());
        let words: Vec<&str> = match self.live {
            true => vec!["GC.heap_dump", &quoted],
            false => vec!["GC.heap_dump", "-all", &quoted],
        };
        let timeout =
            DUMP_TIMEOUT.max(estimate.map_or(DUMP_TIMEOUT, |estimate| estimate.pause.saturating_mul(10)));
        let answer = self.place.path().join("GC.heap_dump.txt.partial");
        let called = jcmd::call(&self.jcmd, self.target, &words, &answer, timeout);
        let _ = fs::remove_file(&answer);
        let outcome = called.and_then(|said| {
            let mut start = [0; 12];
            let whole = File::open(&partial)
                .is_ok_and(|mut file| std::io::Read::read_exact(&mut file, &mut start).is_ok());
            if whole && said.contains("Heap dump file created") && start == *b"JAVA PROFILE" {
                fs::rename(&partial, &path).map_err(|error| format!("{}: {error}", path.display()))
            } else {
                // The JVM says by words only that it failed.
                Err(said)
            }
        });
        self.note(DUMP, &words, began, outcome)
    }

    /// Asks the JVM and keeps the answer.
    fn ask(&mut self, question: &Question) -> Taken {
        let began = Instant::now();
        let partial = self.place.path().join(format!("{}.partial", question.file));
        let outcome =
            jcmd::call(&self.jcmd, self.target, question.words, &partial, self.timeout).and_then(|said| {
                let path = self.place.path().join(question.file);
                if question.may_hold_secrets {
                    fs::write(&partial, secrets::jvm(&said)).map_err(|error| error.to_string())?;
                }
                if question.file == "GC.heap_info.txt" {
                    let mut evidence = Evidence::default();
                    evidence.read(&path, said.as_bytes());
                    self.heap_bytes =
                        evidence.heap_infos.first().and_then(|info| info.value.used).map(|(bytes, _)| bytes);
                }
                fs::rename(&partial, &path).map_err(|error| format!("{}: {error}", path.display()))
            });
        let _ = fs::remove_file(&partial);
        self.note(question.file, question.words, began, outcome)
    }

    /// Writes a text that is at hand.
    fn text(&self, name: &str, text: Result<String, String>) -> Taken {
        let began = Instant::now();
        let partial = self.place.path().join(format!("{name}.partial"));
        let outcome = text.and_then(|text| {
            let written =
                fs::write(&partial, text).and_then(|()| fs::rename(&partial, self.place.path().join(name)));
            written.map_err(|error| error.to_string())
        });
        self.note(name, &[], began, outcome)
    }

    /// Says what became of a file; the reason of a failure takes its place in the folder.
    fn note(&self, name: &str, words: &[&str], began: Instant, outcome: Result<(), String>) -> Taken {
        let took = began.elapsed();
        let (file, failure) = match outcome {
            Ok(()) => (name.to_owned(), None),
            Err(reason) => {
                let file = format!("{name}.failed");
                let what = if words.is_empty() {
                    name.to_owned()
                } else {
                    format!("jcmd {} {}", self.target.pid, words.join(" "))
                };
                // The folder may be what is in the way; the caller hears of it all the same.
                let _ =
                    fs::write(self.place.path().join(&file), format!("{CAPTURE_FAILED}{what}\n{reason}\n"));
                let mut reason =
                    reason.lines().map(str::trim).filter(|line| !line.is_empty() && !line.ends_with(':'));
                (file, Some(reason.next_back().unwrap_or("no reason was given").to_owned()))
            }
        };
        let bytes = fs::metadata(self.place.path().join(&file)).map_or(0, |data| data.len());
        Taken { file, bytes, took, failure }
    }
}

/// The settings of a broker: where its file is, and what it says.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The file as the process names it.
    pub(crate) path: PathBuf,
    /// Its content, or why it cannot be read.
    pub(crate) text: Result<String, String>,
}
