//! One mutilated file of every kind in a folder beside good ones: each costs itself only, is named with file and position,
//! and the findings are those of the good ones.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_doctor::evidence::{FileKind, collect};
use weir_doctor::findings::{Finding, Language, Layout, diagnose, evidence_text};
use weir_doctor::heap::{Heap, Options, Progress};

/// A good file of a kind, a mutilated one, the line where that is noticed (0: the file as a whole), and what is said of it.
struct Case {
    name: &'static str,
    kind: FileKind,
    good: &'static str,
    bad: &'static str,
    line: u64,
    says: &'static str,
}

const CASES: [Case; 15] = [
    Case {
        name: "flags",
        kind: FileKind::VmFlags,
        good: "7:\n-XX:MaxDirectMemorySize=268435456 -XX:MaxHeapSize=1073741824 -XX:+UseG1GC \n",
        bad: "7:\n-XX:+UseG1GC -XX:MaxHeapSize\n",
        line: 2,
        says: "-XX:MaxHeapSize has no value",
    },
    Case {
        name: "flags-all",
        kind: FileKind::VmFlags,
        good: "[Global flags]\n   size_t MaxHeapSize = 1073741824 {product} {ergonomic}\n     bool DisableExplicitGC = true {product} {command line}\n",
        bad: "[Global flags]\n   size_t MaxHea",
        line: 2,
        says: "no flag in",
    },
    Case {
        name: "command-line",
        kind: FileKind::VmCommandLine,
        good: "VM Arguments:\njvm_args: -Xmx1g -Djdk.nio.maxCachedBufferSize=1m \njava_command: kafka.Kafka x\nLauncher Type: SUN_STANDARD\n",
        bad: "VM Arguments:\njvm_args: -Xmx1g\njava_com",
        line: 3,
        says: "\"java_com\" is no part of VM.command_line",
    },
    Case {
        name: "version",
        kind: FileKind::VmVersion,
        good: "OpenJDK 64-Bit Server VM version 17.0.15+6\nJDK 17.0.15\n",
        bad: "OpenJDK 64-Bit Server VM version 17.0.15+6\nJD",
        line: 2,
        says: "\"JD\" is no part of VM.version",
    },
    Case {
        name: "system-properties",
        kind: FileKind::SystemProperties,
        good: "java.version=17.0.15\njdk.nio.maxCachedBufferSize=1m\n",
        bad: "java.version=17.0.15\nuser.name=\\u12",
        line: 2,
        says: "\\u12 is no escape of a properties file",
    },
    Case {
        name: "native-memory",
        kind: FileKind::NativeMemory,
        good: "Native Memory Tracking:\n\nTotal: reserved=2450495KB, committed=798871KB\n-  Other (reserved=167040KB, committed=167040KB)\n",
        bad: "Native Memory Tracking:\n\nTotal: reserved=2450495KB, comm",
        line: 3,
        says: "no reserved and committed sizes",
    },
    Case {
        name: "histogram",
        kind: FileKind::ClassHistogram,
        good: " num     #instances         #bytes  class name (module)\n   1: 5000 16 org.apache.kafka.common.network.SslTransportLayer\nTotal 5000 80000\n",
        bad: " num     #instances         #bytes  class name (module)\n   1: 50",
        line: 2,
        says: "no row of a class histogram",
    },
    Case {
        name: "heap-info",
        kind: FileKind::HeapInfo,
        good: " garbage-first heap   total 81920K, used 23915K [0x1, 0x2)\n",
        bad: " garbage-first heap   total 81920K, us",
        line: 1,
        says: "no total and used sizes",
    },
    Case {
        name: "threads",
        kind: FileKind::ThreadPrint,
        good: "Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):\n\n\"main\" #1 prio=5\n   java.lang.Thread.State: RUNNABLE\n\nJNI global refs: 1, weak refs: 0\n",
        bad: "Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):\n\n\"mai",
        line: 3,
        says: "no end of the thread's name",
    },
    Case {
        name: "kernel",
        kind: FileKind::Kernel,
        good: "Name:\tjava\nRssAnon:\t 900000 kB\nvm.max_map_count = 65530\n64000 /proc/7/maps\n",
        bad: "Name:\tjava\nRssAnon:\t 900",
        line: 2,
        says: "\"900\" is no value of RssAnon",
    },
    Case {
        name: "metrics",
        kind: FileKind::Prometheus,
        good: "# TYPE x gauge\njvm_buffer_pool_used_bytes{pool=\"direct\"} 260000000\n",
        bad: "# TYPE x gauge\njvm_buffer_pool_used_bytes{pool=\"dir",
        line: 2,
        says: "no sample of a metric",
    },
    Case {
        name: "jmx",
        kind: FileKind::Jmx,
        good: "kafka.server:type=socket-server-metrics:MemoryPoolAvgDepletedPercent=0.4\n",
        bad: "java.nio:type=BufferPool,name=direct:MemoryUsed=many\n",
        line: 1,
        says: "\"many\" is no number",
    },
    Case {
        name: "properties",
        kind: FileKind::ServerProperties,
        good: "num.network.threads=80\n",
        bad: "num.io.threads=8\nqueued.max.requests=5k\n",
        line: 2,
        says: "5k",
    },
    Case {
        name: "log",
        kind: FileKind::BrokerLog,
        good: "[2026-11-30 11:57:23,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\njava.lang.OutOfMemoryError: Cannot reserve 82520280 bytes of direct buffer memory (allocated: 268000000, limit: 268435456)\n\tat kafka.network.Processor.poll(SocketServer.scala:1107)\n",
        bad: "[2026-11-30 11:57:23,100] ERROR x (y)\njava.lang.OutOfMemoryError: Cannot reserve 99999999999999999999 bytes of direct buffer memory (allocated: 2\n",
        line: 2,
        says: "not every size is there",
    },
    Case {
        name: "gc",
        kind: FileKind::GcLog,
        good: "[0.005s][info][gc,init] Memory: 1024M\n[0.9s][info][gc] GC(6) Pause Full (System.gc()) 102M->102M(175M) 4.675ms\n",
        bad: "[0.9s][info][gc] GC(6) Pause Full (System.gc()) 102M->10",
        line: 1,
        says: "the line of a pause breaks off",
    },
];

fn findings(folder: &Path) -> Vec<Finding> {
    diagnose(&collect(&[folder.to_path_buf()]).unwrap(), &[])
}

#[test]
fn a_mutilated_file_of_each_kind_is_named_and_the_rest_is_analysed() {
    let good = tempfile::tempdir().unwrap();
    let both = tempfile::tempdir().unwrap();
    for case in &CASES {
        fs::write(good.path().join(case.name), case.good).unwrap();
        fs::write(both.path().join(case.name), case.good).unwrap();
        // After the good one: what comes first is what counts.
        fs::write(both.path().join(format!("{}.zz", case.name)), case.bad).unwrap();
    }
    let packed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let whole = packed(&"num.io.threads=8\n".repeat(5_000));
    for (name, bytes, says) in [
        ("z-gzip", &whole[..whole.len() - 12], "the gzip stream is damaged"),
        ("z-binary", &b"\x7fELF\0\0\0"[..], "neither a heap dump nor a text"),
        ("z-utf-16", &b"\xff\xfeJ\0"[..], ""),
        ("z-empty", &b""[..], ""),
    ] {
        fs::write(both.path().join(name), bytes).unwrap();
        let evidence = collect(&[both.path().join(name)]).unwrap();
        let problems = &evidence.files[0].problems;
        assert!(
            says.is_empty() || problems.iter().any(|problem| problem.text.en.contains(says)),
            "{name}: {problems:?}"
        );
    }
    let evidence = collect(&[both.path().to_path_buf()]).unwrap();
    let layout = Layout { width: 400, colour: false, language: Language::English };
    let text = evidence_text(&evidence, layout);
    for case in &CASES {
        for (name, is_bad) in [(case.name.to_owned(), false), (format!("{}.zz", case.name), true)] {
            let file = evidence.files.iter().find(|file| file.path.ends_with(&name)).unwrap();
            assert_eq!(file.kinds, [case.kind], "{name}");
            if !is_bad {
                assert_eq!(file.problems, [], "{name}");
                continue;
            }
            let problem = file.problems.iter().find(|problem| problem.text.en.contains(case.says));
            let problem = problem.unwrap_or_else(|| panic!("{name}: {:?}", file.problems));
            assert_eq!(problem.line, case.line, "{name}: {problem:?}");
            let place = if case.line > 0 {
                format!("{}:{}: ", file.path.display(), case.line)
            } else {
                file.path.display().to_string()
            };
            assert!(text.contains(&format!("! {place}")), "{place} in {text}");
        }
    }
    let ids = |findings: &[Finding]| -> Vec<(&'static str, String)> {
        let mut ids: Vec<_> =
            findings.iter().map(|finding| (finding.id, finding.severity.name().to_owned())).collect();
        ids.sort();
        ids
    };
    let (expected, found) = (ids(&findings(good.path())), ids(&findings(both.path())));
    assert!(expected.len() >= 10, "{expected:?}");
    for finding in &expected {
        assert!(found.contains(finding), "{finding:?} is lost among {found:?}");
    }
}

#[test]
fn a_mutilated_heap_dump_is_named_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap.hprof");
    for (bytes, says) in [
        (&b"JAVA PROFILE 1.0.2\0\0\0"[..], "header"),
        (b"JAVA PROFILE 1.0.2\0\0\0\0\x07\0\0\0\0\0\0\0\0", "7"),
        (b"JAVA PROFILE 1.0.3\0\0\0\0\x04\0\0\0\0\0\0\0\0", "1.0.3"),
    ] {
        fs::write(&path, bytes).unwrap();
        let evidence = collect(&[folder.path().to_path_buf()]).unwrap();
        assert_eq!(evidence.heap_dumps().count(), 1);
        let error = Heap::read(&path, &Options::default(), &Progress::default()).unwrap_err().to_string();
        assert!(error.contains("heap.hprof") && error.contains(says), "{error}");
    }
    // A record that promises more than the file has.
    fs::write(&path, b"JAVA PROFILE 1.0.2\0\0\0\0\x08\0\0\0\0\0\0\0\0\x1c\0\0\0\0\0\0\x10\0\x21").unwrap();
    let heap = Heap::read(&path, &Options::default(), &Progress::default()).unwrap();
    assert!(heap.condition.truncated.is_some() && !heap.condition.is_complete(), "{:?}", heap.condition);
}
