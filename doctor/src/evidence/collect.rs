//! Files and folders in, evidence out: each file is recognised by content and read once, start to end.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::broker_log::BrokerLog;
use super::class_histogram::ClassHistogram;
use super::gc_log::GcLog;
use super::heap_info::HeapInfo;
use super::kernel::Kernel;
use super::lines::{Line, Lines, Problem, Problems, excerpt};
use super::metrics::Metrics;
use super::native_memory::NativeMemory;
use super::readers::{Reader, reader};
use super::recognise::{FileKind, process_id, recognise};
use super::server_properties::ServerProperties;
use super::system_properties::SystemProperties;
use super::thread_print::ThreadPrint;
use super::vm_command_line::VmCommandLine;
use super::vm_flags::VmFlags;
use super::vm_version::VmVersion;
use crate::DoctorError;
use crate::hprof::is_heap_dump;
use crate::language::{Text, text};

/// How a file begins that stands for something that `weir doctor capture` could not get; what it was follows, then why.
pub const CAPTURE_FAILED: &str = "weir doctor capture: failed: ";
/// Lines that are looked at for the reason of such a failure.
const MAX_REASON_LINES: usize = 200;
/// Lines and bytes that are looked at before a text counts as unknown.
const MAX_UNKNOWN_LINES: usize = 2000;
const MAX_UNKNOWN_BYTES: usize = 256 << 10;
/// Most outputs that are kept of one file.
const MAX_OUTPUTS: usize = 200;
/// Most files that are read of one folder.
const MAX_FILES: usize = 1000;
/// Most names that a note about a folder lists.
const MAX_NAMES: usize = 5;

/// A file that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it; empty for a file that is of no kind that is known here.
    pub kinds: Vec<FileKind>,
    /// Lines read; 0 for a heap dump.
    pub lines: u64,
    /// What in it could not be understood.
    pub problems: Vec<Problem>,
}

impl FileNote {
    fn add(&mut self, kinds: Vec<FileKind>) {
        for kind in kinds {
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
        }
    }
}

/// Something that was found in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<T> {
    /// Index of the file in [`Evidence::files`].
    pub file: usize,
    /// The process that `jcmd` names.
    pub process_id: Option<u32>,
    /// What was found.
    pub value: T,
}

impl Found<()> {
    /// Something that was found at the same place.
    pub(super) fn with<T>(&self, value: T) -> Found<T> {
        Found { file: self.file, process_id: self.process_id, value }
    }
}

/// All evidence, each kind in the order in which it was given.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Evidence {
    pub files: Vec<FileNote>,
    pub vm_flags: Vec<Found<VmFlags>>,
    pub command_lines: Vec<Found<VmCommandLine>>,
    pub versions: Vec<Found<VmVersion>>,
    pub system_properties: Vec<Found<SystemProperties>>,
    pub native_memory: Vec<Found<NativeMemory>>,
    pub class_histograms: Vec<Found<ClassHistogram>>,
    pub heap_infos: Vec<Found<HeapInfo>>,
    pub thread_prints: Vec<Found<ThreadPrint>>,
    pub kernel: Vec<Found<Kernel>>,
    pub metrics: Vec<Found<Metrics>>,
    pub server_properties: Vec<Found<ServerProperties>>,
    pub broker_logs: Vec<Found<BrokerLog>>,
    pub gc_logs: Vec<Found<GcLog>>,
}

impl Evidence {
    /// Heap dumps among the files.
    pub fn heap_dumps(&self) -> impl Iterator<Item = &Path> {
        self.files
            .iter()
            .filter(|file| file.kinds.contains(&FileKind::HeapDump))
            .map(|file| file.path.as_path())
    }

    /// Files that are of no known kind.
    pub fn unknown(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter(|file| file.kinds.is_empty()).map(|file| file.path.as_path())
    }

    /// The path of a file as it was given.
    pub fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new(""), |note| note.path.as_path())
    }

    /// Reads one file. What it is follows from its content; gzip is looked through. Input is untrusted.
    pub fn read(&mut self, path: &Path, input: impl Read) {
        let file = self.files.len();
        let mut note =
            FileNote { path: path.to_path_buf(), kinds: Vec::new(), lines: 0, problems: Vec::new() };
        let mut problems = Problems::default();
        match Lines::new(input) {
            Err(error) => problems.add(0, text!("cannot read: {error}", "无法读取：{error}")),
            Ok(mut lines) => {
                let head = lines.peek();
                if is_heap_dump(head) {
                    note.kinds.push(FileKind::HeapDump);
                } else if head.starts_with(CAPTURE_FAILED.as_bytes()) {
                    let mut texts = Vec::new();
                    while let Some(line) = lines.next(&mut problems)
                        && texts.len() < MAX_REASON_LINES
                    {
                        texts.push(line.text.trim().to_owned());
                    }
                    let what = texts.first().and_then(|text| text.strip_prefix(CAPTURE_FAILED.trim()));
                    let why = texts.iter().skip(1).rfind(|text| !text.is_empty());
                    let (what, why) = (what.unwrap_or_default().trim(), why.map_or("", String::as_str));
                    problems.add(
                        0,
                        text!(
                            "could not be captured: {what}: {why}",
                            "未能采集：{what}：{why}",
                            what = excerpt(what),
                            why = excerpt(why)
                        ),
                    );
                    note.lines = lines.count();
                } else if head.iter().take(4096).any(|byte| *byte == 0) {
                    problems.add(0, text!("neither a heap dump nor a text", "既不是堆转储，也不是文本"));
                } else {
                    self.read_text(file, &mut lines, &mut note, &mut problems);
                    note.lines = lines.count();
                }
            }
        }
        note.problems = problems.into_vec();
        self.files.push(note);
    }

    fn read_text(
        &mut self,
        file: usize,
        lines: &mut Lines<'_>,
        note: &mut FileNote,
        problems: &mut Problems,
    ) {
        let mut at = Found { file, process_id: None, value: () };
        let mut waiting: Vec<(u64, String)> = Vec::new();
        let mut waiting_bytes = 0;
        let mut active: Option<Box<dyn Reader>> = None;
        let mut given_up = false;
        let mut outputs = 0;
        while let Some(line) = lines.next(problems) {
            if let Some(id) = process_id(line.text) {
                // The output of another call of jcmd begins.
                if let Some(active) = active.take() {
                    note.add(active.keep(at, self, problems));
                    outputs += 1;
                    if outputs == MAX_OUTPUTS {
                        problems.add(
                            line.number,
                            text!(
                                "more than {MAX_OUTPUTS} outputs; the rest is left out",
                                "输出超过 {MAX_OUTPUTS} 份；其余略去"
                            ),
                        );
                        return;
                    }
                }
                at = Found { file, process_id: Some(id), value: () };
                waiting.clear();
                waiting_bytes = 0;
                given_up = false;
                continue;
            }
            if let Some(active) = &mut active {
                active.line(line, problems);
                continue;
            }
            if given_up {
                continue;
            }
            let kind = recognise(line.text, at.process_id.is_some());
            if let Some((kind, mut parser)) = kind.and_then(|kind| Some((kind, reader(kind)?))) {
                if wants_what_stood_before(kind) {
                    for (number, text) in &waiting {
                        parser.line(Line { number: *number, text }, problems);
                    }
                }
                parser.line(line, problems);
                waiting.clear();
                active = Some(parser);
            } else if waiting.len() < MAX_UNKNOWN_LINES
                && waiting_bytes + line.text.len() <= MAX_UNKNOWN_BYTES
            {
                waiting_bytes += line.text.len();
                waiting.push((line.number, line.text.to_owned()));
            } else {
                waiting = Vec::new();
                given_up = true;
                if at.process_id.is_none() {
                    // Nothing later can begin a new output but a process id, which only jcmd writes, at the start.
                    break;
                }
            }
        }
        if let Some(active) = active {
            note.add(active.keep(at, self, problems));
        }
    }
}

/// Whether lines that say nothing by themselves mean something once the kind is known.
fn wants_what_stood_before(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::SystemProperties
            | FileKind::ServerProperties
            | FileKind::Prometheus
            | FileKind::BrokerLog
            | FileKind::GcLog
            | FileKind::Kernel
    )
}

/// Reads files, and the files of folders, one level deep, in the order of their names. What cannot be opened, and what of
/// a folder is not read, is noted.
///
/// # Errors
/// [`DoctorError::Io`] for a path that was given and is not there.
pub fn collect(paths: &[PathBuf]) -> Result<Evidence, DoctorError> {
    // A misspelt name is better known before a large dump is read.
    for path in paths {
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(DoctorError::io(path, error)),
            _ => {}
        }
    }
    let mut evidence = Evidence::default();
    for path in paths {
        if fs::metadata(path).is_ok_and(|data| data.is_dir()) {
            evidence.read_folder(path);
        } else {
            evidence.read_file(path);
        }
    }
    Ok(evidence)
}

impl Evidence {
    fn read_file(&mut self, path: &Path) {
        match File::open(path) {
            Ok(input) => self.read(path, input),
            Err(error) => {
                self.note(path, Vec::new(), text!("cannot be opened: {error}", "无法打开：{error}"))
            }
        }
    }

    fn read_folder(&mut self, path: &Path) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                self.note(path, Vec::new(), text!("cannot be opened: {error}", "无法打开：{error}"));
                return;
            }
        };
        let mut all: Vec<PathBuf> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        all.sort();
        let (mut files, mut folders, mut others, mut lost) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for entry in all {
            match fs::metadata(&entry) {
                Ok(data) if data.is_file() => files.push(entry),
                Ok(data) if data.is_dir() => folders.push(entry),
                // A pipe or a device would be waited for without end.
                Ok(_) => others.push(entry),
                Err(_) => lost.push(entry),
            }
        }
        let left_out = files.split_off(files.len().min(MAX_FILES)).len();
        for file in files {
            self.read_file(&file);
        }
        let names = |entries: &[PathBuf]| -> String {
            let names = entries.iter().take(MAX_NAMES).filter_map(|entry| entry.file_name());
            let mut names: Vec<_> = names.map(|name| excerpt(&name.to_string_lossy())).collect();
            if entries.len() > MAX_NAMES {
                names.push("…".to_owned());
            }
            names.join(", ")
        };
        let mut unread = |text| self.note(path, vec![FileKind::Folder], text);
        if !folders.is_empty() {
            let (count, names) = (folders.len(), names(&folders));
            unread(text!(
                "{count} folders in it are not read, name them themselves: {names}",
                "其中 {count} 个子目录未读，请单独给出：{names}"
            ));
        }
        if !others.is_empty() {
            let names = names(&others);
            unread(text!("pipes and devices in it are not read: {names}", "其中的管道与设备未读：{names}"));
        }
        if !lost.is_empty() {
            let names = names(&lost);
            unread(text!("links in it that lead nowhere: {names}", "其中指向不存在目标的链接：{names}"));
        }
        if left_out > 0 {
            unread(text!(
                "the folder has {left_out} files more than the {MAX_FILES} that are read",
                "目录中还有 {left_out} 个文件未读；一次最多读 {MAX_FILES} 个"
            ));
        }
    }

    /// Notes something of a file or folder that is not read; what is said of one folder stands together.
    fn note(&mut self, path: &Path, kinds: Vec<FileKind>, text: Text) {
        let problem = Problem { line: 0, text };
        match self.files.last_mut().filter(|last| last.path == path && last.kinds == kinds) {
            Some(last) => last.problems.push(problem),
            None => self.files.push(FileNote {
                path: path.to_path_buf(),
                kinds,
                lines: 0,
                problems: vec![problem],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Evidence {
        let mut evidence = Evidence::default();
        evidence.read(Path::new("x"), text);
        evidence
    }

    #[test]
    fn outputs_of_several_jcmd_calls_in_one_file_are_told_apart() {
        let text = "$ jcmd 7 VM.flags\n7:\n-XX:MaxHeapSize=1024 -XX:+UseG1GC \n7:\nVM Arguments:\njvm_args: -Xmx1k \n\
                    8:\nCommand not understood\n8:\n garbage-first heap   total 8K, used 2K [0x1)\n";
        let evidence = read(text.as_bytes());
        assert_eq!(evidence.files[0].kinds, [FileKind::VmFlags, FileKind::VmCommandLine, FileKind::HeapInfo]);
        assert_eq!(evidence.vm_flags[0].value.number("MaxHeapSize"), Some((1024, 3)));
        assert_eq!(evidence.command_lines[0].process_id, Some(7));
        assert_eq!(evidence.heap_infos[0].process_id, Some(8));
        assert_eq!(evidence.files[0].problems, []);
    }

    #[test]
    fn a_file_of_outputs_without_end_is_read_up_to_a_limit() {
        let evidence = read("7:\n-XX:+UseG1GC\n".repeat(10_000).as_bytes());
        assert_eq!(evidence.vm_flags.len(), MAX_OUTPUTS);
        assert!(evidence.files[0].problems[0].text.en.contains("more than 200 outputs"));
    }

    #[test]
    fn what_stands_before_the_first_telling_line_is_not_lost() {
        let evidence = read(b"# comment\nmy.own=1\nnum.io.threads=9\n");
        assert_eq!(evidence.server_properties[0].value.text("my.own"), Some("1"));
        let evidence = read(b"up 1\n# TYPE x gauge\nx 2\n");
        assert_eq!(evidence.metrics[0].value.samples, 2);
    }

    #[test]
    fn foreign_files_are_of_no_kind() {
        for (bytes, problem) in [
            (&b"hello\nworld\n"[..], None),
            (b"", None),
            (b"\x7fELF\0\0\0", Some("neither a heap dump nor a text")),
        ] {
            let evidence = read(bytes);
            assert_eq!(evidence.unknown().count(), 1);
            let problems = &evidence.files[0].problems;
            assert_eq!(!problems.is_empty(), problem.is_some(), "{problems:?}");
            assert!(problem.is_none_or(|text| problems[0].text.en.contains(text)));
        }
        let long = "no kind\n".repeat(1 << 20);
        assert_eq!(read(long.as_bytes()).unknown().count(), 1);
    }

    #[test]
    fn what_could_not_be_captured_is_said() {
        let text = format!("{CAPTURE_FAILED}jcmd 7 VM.native_memory summary\n7:\nno answer within 60 s\n\n");
        let evidence = read(text.as_bytes());
        assert_eq!(evidence.files[0].kinds, []);
        let problem = &evidence.files[0].problems[0].text;
        assert_eq!(
            problem.en,
            "could not be captured: jcmd 7 VM.native_memory summary: no answer within 60 s"
        );
        assert_eq!(read(CAPTURE_FAILED.as_bytes()).files[0].problems.len(), 1);
    }

    #[test]
    fn every_kind_is_read_in_every_encoding() {
        for (text, kind) in [
            ("7:\n-XX:+UseG1GC -XX:MaxHeapSize=1024\n", FileKind::VmFlags),
            ("VM Arguments:\njvm_args: -Xmx1k\n", FileKind::VmCommandLine),
            ("OpenJDK 64-Bit Server VM version 17.0.15+6\nJDK 17.0.15\n", FileKind::VmVersion),
            ("#Mon Nov 30\njava.version=17.0.15\n", FileKind::SystemProperties),
            ("Native Memory Tracking:\n\nTotal: reserved=9KB, committed=8KB\n", FileKind::NativeMemory),
            (
                " num     #instances         #bytes  class name\n   1: 5 16 a.B\nTotal 5 80\n",
                FileKind::ClassHistogram,
            ),
            (" garbage-first heap   total 81920K, used 23915K [0x1, 0x2)\n", FileKind::HeapInfo),
            (
                "Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):\n\n\"main\" #1 prio=5\n\nJNI global refs: 1\n",
                FileKind::ThreadPrint,
            ),
            ("Name:\tjava\nRssAnon:\t 900000 kB\n", FileKind::Kernel),
            ("# TYPE x gauge\njvm_buffer_pool_used_bytes{pool=\"direct\"} 5\n# EOF\n", FileKind::Prometheus),
            ("java.nio:type=BufferPool,name=direct:MemoryUsed=5\n", FileKind::Jmx),
            ("# mine\nnum.network.threads=80\n", FileKind::ServerProperties),
            ("[2026-11-30 11:57:23,100] INFO x (y)\n", FileKind::BrokerLog),
            ("[0.9s][info][gc] GC(6) Pause Full (System.gc()) 102M->102M(175M) 4.675ms\n", FileKind::GcLog),
        ] {
            let dos = text.replace('\n', "\r\n");
            let wide = |to: fn(u16) -> [u8; 2]| {
                format!("\u{feff}{dos}").encode_utf16().flat_map(to).collect::<Vec<u8>>()
            };
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, dos.as_bytes()).unwrap();
            for (how, bytes) in [
                ("plain", text.as_bytes().to_vec()),
                ("CRLF", dos.as_bytes().to_vec()),
                ("mark", format!("\u{feff}{dos}").into_bytes()),
                ("UTF-16", wide(u16::to_le_bytes)),
                ("UTF-16, high bytes first", wide(u16::to_be_bytes)),
                ("gzip", encoder.finish().unwrap()),
            ] {
                let evidence = read(&bytes);
                assert_eq!(evidence.files[0].kinds, [kind], "{how}: {text}");
                assert_eq!(evidence.files[0].problems, [], "{how}: {text}");
            }
        }
    }

    #[test]
    fn a_heap_dump_is_noted_and_left_to_its_reader() {
        let evidence = read(b"JAVA PROFILE 1.0.2\0\0\0\0\x08");
        assert_eq!(evidence.heap_dumps().count(), 1);
    }

    #[test]
    fn a_containers_output_holds_log_gc_and_settings() {
        let text = "[2026-11-30 11:00:00,000] INFO KafkaConfig values: \n\tnum.io.threads = 9\n (kafka.server.KafkaConfig)\n\
                    [0.891s][info][gc] GC(6) Pause Full (System.gc()) 102M->102M(175M) 4.675ms\n\
                    [2026-11-30 11:00:01,000] ERROR x\njava.lang.OutOfMemoryError: Direct buffer memory\n";
        let evidence = read(text.as_bytes());
        assert_eq!(evidence.gc_logs[0].value.system_gc.count, 1);
        assert_eq!(evidence.server_properties[0].value.number("num.io.threads").value, 9);
        assert_eq!(evidence.broker_logs[0].value.out_of_memory.len(), 1);
    }

    #[test]
    fn folders_are_read_one_level_deep_and_missing_paths_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b"), b"num.io.threads=9\n").unwrap();
        fs::write(dir.path().join("a"), b"?").unwrap();
        fs::create_dir(dir.path().join("deeper")).unwrap();
        fs::write(dir.path().join("deeper/c"), b"num.io.threads=9\n").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("lost")).unwrap();
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("endless")).unwrap();
        let evidence = collect(&[dir.path().to_path_buf()]).unwrap();
        assert_eq!(evidence.files.len(), 3);
        assert_eq!(evidence.server_properties.len(), 1);
        assert_eq!(evidence.path(1), dir.path().join("b"));
        let folder = evidence.files.last().unwrap();
        assert_eq!((folder.path.as_path(), folder.kinds.as_slice()), (dir.path(), &[FileKind::Folder][..]));
        let said: Vec<_> = folder.problems.iter().map(|problem| problem.text.en.as_str()).collect();
        assert!(
            matches!(said[..], [deeper, endless, lost] if deeper.ends_with("themselves: deeper")
                && endless.ends_with("not read: endless") && lost.ends_with("nowhere: loop, lost")),
            "{said:?}"
        );
        let error = collect(&[dir.path().join("absent")]).unwrap_err();
        assert!(error.is_retriable() && error.to_string().contains("absent"), "{error}");
    }
}
