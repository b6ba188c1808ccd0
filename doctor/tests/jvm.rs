//! Evidence that real JVMs give: every JDK of this machine is started, asked by its own `jcmd`, and understood without a
//! single problem.
//!
//! Uses the JDKs under `/usr/lib/jvm` and `JAVA_HOME`; without any it says so and proves nothing.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_doctor::evidence::{Evidence, FileKind, MemoryKind, Metric, ThreadRole, collect};
use weir_doctor::findings::{Facts, LimitReason, diagnose};

const BUFFER_BYTES: u64 = 40 << 20;
const LIMIT_BYTES: u64 = 64 << 20;

/// Homes of JDKs with a compiler and `jcmd`.
fn jdks() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().collect();
    if let Ok(entries) = fs::read_dir("/usr/lib/jvm") {
        homes.extend(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())));
    }
    let homes: BTreeSet<_> = homes.iter().filter_map(|home| home.canonicalize().ok()).collect();
    let whole =
        |home: &PathBuf| ["java", "javac", "jcmd"].iter().all(|tool| home.join("bin").join(tool).exists());
    let homes: Vec<_> = homes.into_iter().filter(whole).collect();
    if homes.is_empty() {
        eprintln!("skipped: there is no JDK under /usr/lib/jvm nor at JAVA_HOME");
    }
    homes
}

fn compile(home: &Path, to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm/DirectUser.java");
    let output = Command::new(home.join("bin/javac")).arg("-d").arg(to).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A JVM that ends with the test.
struct Jvm {
    home: PathBuf,
    child: Child,
    dir: PathBuf,
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Jvm {
    fn start(home: &Path, classes: &Path, dir: &Path, options: &[&str]) -> Self {
        fs::create_dir_all(dir).unwrap();
        let output = |name: &str| Stdio::from(File::create(dir.join(name)).unwrap());
        let child = Command::new(home.join("bin/java"))
            .args(options)
            .arg("-cp")
            .arg(classes)
            .arg("DirectUser")
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(output("metrics.txt"))
            .stderr(output("broker.log"))
            .spawn()
            .unwrap();
        let mut jvm = Self { home: home.to_owned(), child, dir: dir.to_owned() };
        let deadline = Instant::now() + Duration::from_secs(240);
        while !fs::read_to_string(dir.join("metrics.txt")).unwrap().contains("# READY") {
            assert!(
                jvm.child.try_wait().unwrap().is_none(),
                "{}",
                fs::read_to_string(dir.join("broker.log")).unwrap()
            );
            assert!(Instant::now() < deadline, "the JVM is not ready");
            std::thread::sleep(Duration::from_millis(20));
        }
        jvm
    }

    fn ask(&self, command: &[&str]) {
        let file = File::create(self.dir.join(command.join("_").replace('.', "-"))).unwrap();
        let status = Command::new(self.home.join("bin/jcmd"))
            .arg(self.child.id().to_string())
            .args(command)
            .stdin(Stdio::null())
            .stdout(file)
            .status()
            .unwrap();
        assert!(status.success(), "{command:?}: {status}");
    }
}

/// No file of a JVM has a line that is not understood.
fn assert_understood(evidence: &Evidence) {
    for file in &evidence.files {
        assert_eq!(file.problems, [], "{}", file.path.display());
    }
}

#[test]
fn a_real_jvm_is_understood_line_by_line() {
    for home in jdks() {
        println!("{}", home.display());
        let temporary = tempfile::tempdir().unwrap();
        let classes = temporary.path().join("classes");
        fs::create_dir_all(&classes).unwrap();
        compile(&home, &classes);
        let dir = temporary.path().join("evidence");
        let jvm = Jvm::start(
            &home,
            &classes,
            &dir,
            &[
                "-Xmx192m",
                "-XX:+UseG1GC",
                "-XX:MaxDirectMemorySize=64m",
                "-XX:NativeMemoryTracking=detail",
                "-XX:+HeapDumpOnOutOfMemoryError",
                "-Djdk.nio.maxCachedBufferSize=64m",
                "-Xlog:gc*:file=gc.log",
            ],
        );
        for command in [
            &["VM.flags"][..],
            &["VM.flags", "-all"],
            &["VM.command_line"],
            &["VM.version"],
            &["VM.system_properties"],
            &["VM.native_memory", "summary"],
            &["VM.native_memory", "detail", "scale=b"],
            &["GC.class_histogram"],
            &["GC.heap_info"],
            &["Thread.print", "-l"],
        ] {
            jvm.ask(command);
        }
        let process = jvm.child.id();
        drop(jvm);
        // Both outputs are there, the log also when nothing failed.
        let log = fs::read_to_string(dir.join("broker.log")).unwrap();
        fs::write(dir.join("broker.log"), format!("[2026-01-01 00:00:00,000] INFO started (test)\n{log}"))
            .unwrap();

        let evidence = collect(std::slice::from_ref(&dir)).unwrap();
        assert_understood(&evidence);
        assert_eq!(evidence.unknown().collect::<Vec<_>>(), Vec::<&Path>::new());
        for kind in [
            FileKind::VmFlags,
            FileKind::VmCommandLine,
            FileKind::VmVersion,
            FileKind::SystemProperties,
            FileKind::NativeMemory,
            FileKind::ClassHistogram,
            FileKind::HeapInfo,
            FileKind::ThreadPrint,
            FileKind::Prometheus,
            FileKind::BrokerLog,
            FileKind::GcLog,
        ] {
            assert!(
                evidence.files.iter().any(|file| file.kinds.contains(&kind)),
                "{} is missing",
                kind.name()
            );
        }

        for flags in &evidence.vm_flags {
            assert_eq!(flags.process_id, Some(process));
            assert_eq!(flags.value.number("MaxDirectMemorySize").unwrap().0, LIMIT_BYTES);
            assert_eq!(flags.value.number("MaxHeapSize").unwrap().0, 192 << 20);
            assert!(flags.value.is_on("HeapDumpOnOutOfMemoryError").is_some());
        }
        assert!(evidence.vm_flags.iter().any(|flags| flags.value.all && flags.value.flags.len() > 300));
        let line = &evidence.command_lines[0].value;
        assert_eq!(line.max_heap().unwrap().0, 192 << 20);
        assert_eq!(line.system_property("jdk.nio.maxCachedBufferSize").unwrap().0, "64m");
        assert_eq!(line.java_command.as_ref().unwrap().0, "DirectUser");
        let threads = &evidence.thread_prints[0].value.threads;
        let network: Vec<_> = threads
            .iter()
            .filter(|thread| ThreadRole::of_name(&thread.name) == ThreadRole::Network)
            .collect();
        assert_eq!(network.len(), 2);
        assert!(network.iter().all(|thread| thread.state.as_deref() == Some("TIMED_WAITING")));
        assert_eq!(evidence.heap_infos[0].value.collector.unwrap().0, "G1");
        assert!(evidence.heap_infos[0].value.used.unwrap().0 > 0);

        let facts = Facts::of(&evidence, &[]);
        let java = facts.java.as_ref().unwrap().value;
        assert_eq!(facts.limit.as_ref().unwrap().value, (LIMIT_BYTES, LimitReason::Flag));
        let version = evidence.system_properties[0].value.get("java.version").unwrap().0;
        assert!(version.starts_with(&java.to_string()), "{version}");
        // The tool and the JVM agree about native memory: whole bytes round up to the tool's kibibytes.
        let [rounded, exact] = [0, 1].map(|index| evidence.native_memory[index].value.clone());
        let [rounded, exact] = if rounded.unit_bytes == 1 { [exact, rounded] } else { [rounded, exact] };
        assert_eq!((rounded.unit_bytes, exact.unit_bytes), (1024, 1));
        let other = exact.categories["Other"];
        assert!(other.malloc.unwrap().abs_diff(rounded.categories["Other"].malloc.unwrap()) < 256 << 10);
        let caches = evidence.class_histograms[0].value.instances("sun.nio.ch.Util$BufferCache");
        let pool = facts.pool_used.as_ref().unwrap().value;
        let ids: Vec<_> = diagnose(&evidence, &[]).into_iter().map(|finding| finding.id).collect();
        let has = |id: &str| ids.contains(&id);
        assert!(
            has("cached-buffer-setting-ignored") && has("oom-flags-silent") && has("limit-in-force"),
            "{ids:?}"
        );
        assert!(!has("several-processes"), "{ids:?}");
        assert!(caches >= 2, "{caches} caches");
        let failures: Vec<_> =
            facts.failures(MemoryKind::Direct).map(|(_, failure)| failure.clone()).collect();
        if java < 24 {
            let [failure] = &failures[..] else { panic!("{failures:?}") };
            assert!(failure.is_temporary_buffer(), "{failure:?}");
            assert_eq!(failure.role, ThreadRole::Network);
            if java >= 17 {
                assert_eq!(failure.requested, Some(BUFFER_BYTES));
                assert_eq!(failure.limit, Some(LIMIT_BYTES));
                assert!(failure.allocated.unwrap() >= BUFFER_BYTES);
            }
            // The pool counts what one thread keeps.
            assert!((BUFFER_BYTES..LIMIT_BYTES).contains(&pool), "{pool}");
            assert!(has("direct-memory-exhausted") && !has("uncounted-buffers"), "{ids:?}");
            let gc = &evidence.gc_logs[0].value;
            assert!(gc.system_gc.count >= 1, "a failing reservation asks for a collection");
        } else {
            // Both threads keep theirs, more than the limit, and the pool does not know.
            assert_eq!(failures, []);
            assert!(pool < BUFFER_BYTES && other.committed > 2 * BUFFER_BYTES, "{pool} {other:?}");
            assert!(has("uncounted-buffers") && !has("direct-memory-exhausted"), "{ids:?}");
        }
        assert!(evidence.metrics[0].value.get(Metric::BufferPoolCount, "direct").is_some());
    }
}

#[test]
fn the_heap_of_every_collector_is_understood() {
    for home in jdks() {
        let temporary = tempfile::tempdir().unwrap();
        let classes = temporary.path().join("classes");
        fs::create_dir_all(&classes).unwrap();
        compile(&home, &classes);
        for (option, name) in
            [("-XX:+UseSerialGC", "Serial"), ("-XX:+UseParallelGC", "Parallel"), ("-XX:+UseZGC", "ZGC")]
        {
            let dir = temporary.path().join(name);
            let jvm = Jvm::start(&home, &classes, &dir, &["-Xmx192m", option]);
            jvm.ask(&["GC.heap_info"]);
            jvm.ask(&["VM.flags"]);
            jvm.ask(&["VM.native_memory"]);
            drop(jvm);
            let evidence = collect(std::slice::from_ref(&dir)).unwrap();
            assert_understood(&evidence);
            let heap = &evidence.heap_infos[0].value;
            assert_eq!(heap.collector.map(|(name, _)| name), Some(name), "{}", home.display());
            assert!(heap.used.is_some() && heap.committed.is_some(), "{heap:?}");
            assert!(evidence.native_memory[0].value.disabled.is_some());
            // Without the flag the limit is the heap's.
            let limit = Facts::of(&evidence, &[]).limit.unwrap().value;
            assert_eq!(limit, (192 << 20, LimitReason::Heap));
        }
    }
}
