//! The command as a shell sees it: help, exit codes, reasons for a start that is refused, a short demo.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The reason with which a command that failed ended.
fn reason(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let text = stderr(output);
    let at = text.rfind("weir: ").unwrap_or_else(|| panic!("no reason in {text}"));
    text[at..].trim_end().to_string()
}

/// A start that is refused; log lines are left out.
fn refused(log_dir: &Path, overrides: &[&str]) -> String {
    let log_dirs = format!("log.dirs={}", log_dir.display());
    let mut arguments =
        vec!["server", "--log-level", "error", "--override", "http.listener=", "--override", &log_dirs];
    let listens = overrides.iter().any(|setting| setting.starts_with("listeners="));
    let setting = ["--override", "listeners=PLAINTEXT://127.0.0.1:0"];
    arguments.extend(if listens { &[][..] } else { &setting[..] });
    arguments.extend(overrides.iter().flat_map(|setting| ["--override", *setting]));
    reason(&weir(&arguments))
}

#[test]
fn every_command_explains_itself() {
    let help = weir(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = stdout(&help);
    for command in ["server", "plan", "demo", "bench", "doctor", "log"] {
        assert!(text.contains(&format!("  {command} ")), "{command} in {text}");
        let own = weir(&[command, "--help"]);
        assert_eq!(own.status.code(), Some(0));
        assert!(stdout(&own).contains(&format!("Usage: weir {command}")), "{}", stdout(&own));
    }
    for path in [&["log", "dump"][..], &["bench", "produce"], &["bench", "fetch"]] {
        let own = weir(&[path, &["--help"]].concat());
        assert!(own.status.success() && stdout(&own).contains("--format"), "{}", stdout(&own));
    }
    assert!(stdout(&weir(&["--version"])).starts_with("weir "));
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_would_be_right() {
    for (arguments, part) in [
        (&["--nonsense"][..], "--help"),
        (&["serve"], "server"),
        (&["plan", "--format", "xml"], "text, json"),
        (&["bench", "produce", "--acks", "2"], "0, 1, -1, all"),
        (&["bench", "produce", "--record-size", "0"], "--record-size"),
        (&["bench", "produce", "--throughput", "0"], "-1 for no limit"),
        (&["bench", "produce", "--throughput=-2"], "-1 for no limit"),
        (&["bench", "fetch", "--repeat"], "--num-records <COUNT>|--seconds <SECONDS>"),
        (&["log", "dump"], "<FILE|DIR>"),
        (&["doctor"], "<FILE|DIR>"),
        (&["doctor", "heap.hprof", "--format", "xml"], "text, html, json"),
        (&["doctor", "heap.hprof", "--lang", "fr"], "en, zh"),
        (&["doctor", "x", "--since", "2026-11-30 11:57:23"], "--verify"),
        (&["doctor", "x", "--verify", "--since", "noon"], "2026-11-30 11:57:23"),
        (&["doctor", "x", "--verify", "--skip", "all"], "direct-pool-below-70"),
        (&["doctor", "--verify"], "<FILE|DIR>"),
        (&["doctor", "--compare", "one"], "2 values required"),
        (&["doctor", "--compare", "one", "other", "third"], "cannot be used with"),
        (&["plan", "--override", "nothing"], "KEY=VALUE"),
        (&["plan", "--override", "=5"], "KEY=VALUE"),
        (&["server", "--log-level", "loud"], "off, error, warn, info, debug, trace"),
        (&["server", "--log-level", "info,weir_storage="], "off, error, warn, info, debug, trace"),
    ] {
        let output = weir(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(weir(&[]).status.code(), Some(2), "help is what is meant, and nothing was done");
}

#[test]
fn settings_that_are_wrong_are_all_named_with_value_and_limit() {
    let output = weir(&["plan", "--override", "num.partitions=0", "--override", "memory.budget.bytes=64m"]);
    let text = reason(&output);
    assert!(text.contains("invalid value 0 for num.partitions: value must be at least 1"), "{text}");
    assert!(text.contains("write 64MiB"), "{text}");
    assert!(reason(&weir(&["plan", "/no/such/file"])).contains("cannot read /no/such/file"));
    let text = reason(&weir(&["plan", "--override", "max.partitions=1000000"]));
    assert!(text.contains("lower max.partitions") && text.contains("memory.budget.bytes"), "{text}");
    for setting in ["max.partitions=2147483647", "max.metadata.bytes=9223372036854775807"] {
        let text = reason(&weir(&["plan", "--override", setting]));
        assert!(text.contains(setting.split('=').next().unwrap()), "no limit at all is none: {text}");
    }
    assert!(weir(&["plan", "--override", "max.connections=2147483647"]).status.success(), "Kafka's default");
}

#[test]
fn the_plan_is_text_for_people_and_json_for_programs() {
    let text = stdout(&weir(&["plan"]));
    assert!(text.contains("receive") && text.contains("of 256.00 MiB"), "{text}");
    let json: Value = serde_json::from_str(&stdout(&weir(&[
        "plan",
        "--format",
        "json",
        "--override",
        "memory.budget.bytes=64MiB",
        "--override",
        "max.partitions=10000",
    ])))
    .unwrap();
    let sum: u64 = json["terms"].as_array().unwrap().iter().map(|term| term["bytes"].as_u64().unwrap()).sum();
    assert_eq!(json["sum_bytes"].as_u64(), Some(sum));
    assert!(sum <= 64 << 20 && json["limit_bytes"] == 64 << 20, "{json}");
    assert_eq!(json["counts"]["partitions"], 10_000);
    assert!(json["counts"].as_object().unwrap().values().all(|count| count.as_u64() > Some(0)), "{json}");
}

#[test]
fn the_plan_of_a_jvm_names_what_breaks_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    // What weir itself refuses is no obstacle to planning for Kafka.
    std::fs::write(&file, "listeners=SASL_SSL://:9093,PLAINTEXT://:9092\nnum.network.threads=80\n").unwrap();
    let file = file.to_str().unwrap();
    let planned = weir(&["plan", "--jvm", file, "--heap", "1g", "--direct", "2g"]);
    assert_eq!(planned.status.code(), Some(3), "{}", stderr(&planned));
    assert_eq!(weir(&["plan", "--jvm", file, "--heap", "16g", "--peers", "3"]).status.code(), Some(0));
    let unitless = weir(&["plan", "--jvm", file, "--heap", "16"]);
    assert_eq!(unitless.status.code(), Some(2));
    assert!(stderr(&unitless).contains("16 is 16 bytes"), "{}", stderr(&unitless));
    let text = stdout(&planned);
    assert!(text.contains("What breaks the limit: network threads (PLAINTEXT)."), "{text}");
    let planned = |overrides: &[&str]| -> Value {
        let mut arguments = vec!["plan", "--jvm", file, "--heap", "16g", "--peers", "3", "--format", "json"];
        arguments.extend(overrides.iter().flat_map(|text| ["--override", text]));
        serde_json::from_str(&stdout(&weir(&arguments))).unwrap()
    };
    let plan = planned(&[]);
    assert_eq!(plan["limit_from"], "-Xmx");
    assert_eq!(plan["tls_listeners"][0], "SASL_SSL");
    let sum: u64 =
        plan["terms"].as_array().unwrap().iter().map(|term| term["peak_bytes"].as_u64().unwrap()).sum();
    assert_eq!(plan["peak_bytes"].as_u64(), Some(sum));
    let fewer = planned(&["num.network.threads=40"]);
    assert_eq!(fewer["peak_bytes"].as_u64(), Some(sum - 40 * (104_857_600 + 16_384)));
    let capped = planned(&["jdk.nio.maxCachedBufferSize=1048576"]);
    assert_eq!((capped["peak_bytes"].as_u64(), capped["fits"].as_bool()), (Some(sum), Some(true)));
    assert!(capped["kept_bytes"].as_u64() < Some(100 << 20));
    let refused = weir(&["plan", "--jvm", "--override", "jdk.nio.maxCachedBufferSize=1m"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_capture_of_what_is_no_jvm_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("capture");
    let own = std::process::id().to_string();
    let refused = weir(&["doctor", "capture", "--pid", &own, "-o", place.to_str().unwrap(), "--no-dump"]);
    assert!(reason(&refused).contains("is no JVM"), "{}", stderr(&refused));
    assert!(!place.exists());
    assert_eq!(weir(&["doctor", "capture", "--pid", &own]).status.code(), Some(2), "without a folder");
    assert_eq!(weir(&["doctor"]).status.code(), Some(2), "without evidence");
}

#[test]
fn the_doctor_reads_a_folder_and_says_what_ails_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "a.log",
        "[2026-11-30 11:57:23,100] ERROR Processor got uncaught exception. (kafka.network.Processor)\n\
         java.lang.OutOfMemoryError: Cannot reserve 369295617 bytes of direct buffer memory (allocated: 1866930914, limit: \
         2147483648)\n\tat java.base/sun.nio.ch.Util.getTemporaryDirectBuffer(Util.java:243)\n",
    );
    write("b", "socket.request.max.bytes=500000000\nnum.partitions=x\n");
    write("c", "nothing that is known\n");
    let path = dir.path().to_str().unwrap();
    let text = stdout(&weir(&["doctor", path]));
    assert!(text.contains("a TLS ClientHello: 0x16030101") && text.contains("a.log:2"), "{text}");
    assert!(text.starts_with("critical    Direct memory is exhausted: 369,295,617 bytes"), "{text}");
    assert!(
        text.contains("of no kind that is known here") && text.contains("b:2: invalid value x"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&stdout(&weir(&["doctor", path, "--format", "json"]))).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let find = |id: &str| {
        findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("{id}: {json}"))
    };
    assert_eq!(find("foreign-protocol")["severity"], "critical");
    assert_eq!(json["headline"]["what"], find("direct-memory-exhausted")["title"]);
    assert_eq!(json["headline"]["why"], find("foreign-protocol")["title"]);
    assert_eq!(find("direct-memory-exhausted")["evidence"][0]["line"], 2);
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    assert!(reason(&weir(&["doctor", "/no/such/file"])).contains("/no/such/file"));
    let chinese = stdout(&weir(&["doctor", path, "--lang", "zh"]));
    assert!(chinese.contains("原因") && chinese.contains("0x16030101"), "{chinese}");
}

#[test]
fn the_doctors_report_goes_to_a_file_but_never_over_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let evidence = dir.path().join("server.properties");
    std::fs::write(&evidence, "num.io.threads=9\n").unwrap();
    let (evidence, report) = (evidence.to_str().unwrap(), dir.path().join("report.txt"));
    let printed = stdout(&weir(&["doctor", evidence]));
    let output = weir(&["doctor", evidence, "-o", report.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&report).unwrap(), printed);
    assert!(reason(&weir(&["doctor", evidence, "--output", evidence])).contains("is not written over"));
    assert_eq!(std::fs::read_to_string(evidence).unwrap(), "num.io.threads=9\n");
}

#[test]
fn a_cure_is_verified_with_exit_codes_for_scripts() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let scrape = |used: u64| format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {used}\n");
    let low = write("m-20261130-120000.prom", &scrape(100));
    let high = write("m-20261130-110000.prom", &scrape(950));
    let limit = write("flags", "-XX:MaxDirectMemorySize=1000\n");
    let code = |arguments: &[&str]| {
        let output = weir(&[&["doctor", "--verify"], arguments].concat());
        (output.status.code(), stdout(&output))
    };
    assert_eq!(code(&[&low, &limit]).0, Some(0));
    assert_eq!(code(&[&low, "--limit", "1g"]).0, Some(0));
    let (status, text) = code(&[&low, &high, &limit]);
    assert!(status == Some(3) && text.contains("m-20261130-110000.prom:1"), "{text}");
    let (status, text) = code(&[&low]);
    assert!(status == Some(4) && text.contains("TOO LITTLE EVIDENCE"), "{text}");
    assert_eq!(code(&[&low, &limit, "--require", "all"]).0, Some(4));
    assert_eq!(code(&["/no/such/file"]).0, Some(1));
    let (status, text) = code(&[&high, &limit, "--format", "json", "--lang", "zh"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &json["exit_code"], &json["verdict"]),
        (Some(3), &Value::from(3), &Value::from("fails"))
    );
    assert_eq!(json["checks"][0]["numbers"]["used_bytes"], 950);
    assert_eq!(json["files"].as_array().unwrap().len(), 2);
}

#[test]
fn two_captures_are_compared_in_exact_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let capture = |name: &str, used: u64, cap: &str| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("m"), format!("jvm_buffer_pool_used_bytes{{pool=\"direct\"}} {used}\n"))
            .unwrap();
        std::fs::write(folder.join("p"), format!("java.version=17\njdk.nio.maxCachedBufferSize={cap}\n"))
            .unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let (before, after) = (capture("before", 90_177_536, "1m"), capture("after", 5_242_880, "1048576"));
    let output = weir(&["doctor", "--compare", &before, &after]);
    let text = stdout(&output);
    assert!(output.status.success() && text.contains("-84,934,656 (-81.00 MiB)"), "{text}");
    assert!(text.contains("jdk.nio.maxCachedBufferSize: 1m → 1048576"), "{text}");
    let output = weir(&["doctor", "--format", "json", "--compare", &before, &after, "--lang", "zh"]);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["figures"][0]["change"], -84_934_656);
    assert_eq!(json["findings"][0]["change"], "gone");
    assert_eq!(json["after_files"][0]["kinds"][0], "metrics");
    assert!(reason(&weir(&["doctor", "--compare", &before, "/no/such"])).contains("/no/such"));
}

#[test]
fn alert_rules_come_out_as_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.yml");
    let path = rules.to_str().unwrap();
    let output = weir(&["doctor", "--alerts", path, "--limit", "2g"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    assert!(std::fs::read_to_string(&rules).unwrap().contains("{pool=\"direct\"} / 2147483648 > 0.9"));
    let evidence = dir.path().join("server.properties");
    std::fs::write(&evidence, "num.io.threads=9\n").unwrap();
    let evidence = evidence.to_str().unwrap();
    assert!(reason(&weir(&["doctor", evidence, "--alerts", evidence])).contains("is not written over"));
    let output = weir(&["doctor", evidence, "--alerts", path]);
    assert!(output.status.success() && stdout(&output).contains("server.properties"), "{}", stderr(&output));
}

#[test]
fn a_plan_says_which_of_its_properties_have_no_effect() {
    let output = weir(&["plan", "--override", "memory.budget=64MiB"]);
    assert!(output.status.success());
    let warning =
        "weir: memory.budget: not a known property, without effect; did you mean memory.budget.bytes?\n";
    assert_eq!(stderr(&output), warning);
}

#[test]
fn a_heap_dump_is_accounted_for_and_one_that_cannot_be_read_keeps_no_other_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad) = (dir.path().join("heap"), dir.path().join("android"));
    std::fs::write(
        &good,
        b"JAVA PROFILE 1.0.2\0\0\0\0\x08\0\0\0\0\0\0\0\0\x1c\0\0\0\0\0\0\0\0\x2c\0\0\0\0\0\0\0\0",
    )
    .unwrap();
    std::fs::write(&bad, b"JAVA PROFILE 1.0.3\0\0\0\0\x04\0\0\0\0\0\0\0\0").unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let output = weir(&["doctor", good]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("0 objects") && !stdout(&output).contains('\u{1b}'));
    let output = weir(&["doctor", bad, good, "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("android is a heap dump of format 1.0.3"), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["dumps"][0]["file"], good);
    assert_eq!(json["dumps"][0]["dump"]["complete"], true);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["plan", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_start_that_cannot_work_is_refused_with_the_place_to_look_at() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = refused(&dir.path().join("a"), &[&format!("listeners=PLAINTEXT://127.0.0.1:{port}")]);
    assert!(text.contains(&format!("cannot listen on PLAINTEXT://127.0.0.1:{port}")), "{text}");
    assert!(text.contains("in use"), "{text}");
    let text = refused(&dir.path().join("a"), &[&format!("http.listener=127.0.0.1:{port}")]);
    assert!(text.contains("http.listener") && text.contains("in use"), "{text}");
    assert!(!dir.path().join("a/meta.properties").exists(), "a start that cannot listen formats nothing");

    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let text = refused(&file.join("data"), &[]);
    assert!(text.starts_with("weir: log.dirs: ") && text.contains("file/data"), "{text}");

    let newer = dir.path().join("newer");
    std::fs::create_dir(&newer).unwrap();
    std::fs::write(newer.join("meta.properties"), b"version=9\nnode.id=1\ncluster.id=c\n").unwrap();
    let text = refused(&newer, &[]);
    assert!(text.contains("newer/meta.properties") && text.contains('9'), "{text}");
    std::fs::write(newer.join("meta.properties"), b"version=1\nnode.id=8\ncluster.id=c\n").unwrap();
    let text = refused(&newer, &[]);
    assert!(text.contains("belongs to node 8") && text.contains("node.id is 1"), "{text}");

    for setting in ["listeners=SSL://127.0.0.1:0", "authorizer.class.name=x", "zookeeper.connect=z:2181"] {
        let text = refused(&dir.path().join("b"), &[setting]);
        assert!(text.contains(setting.split('=').next().unwrap()), "{setting}: {text}");
        assert!(!dir.path().join("b").exists(), "nothing is made by a start that is refused");
    }
}

#[test]
fn a_log_for_programs_holds_the_reason_of_a_failed_start() {
    for wrong in ["num.partitions=0", "max.partitions=2147483647"] {
        let output = weir(&["server", "--log-format", "json", "--override", wrong]);
        let reason = reason(&output);
        let text = stderr(&output);
        let last = text.lines().rfind(|line| line.starts_with('{')).unwrap();
        let line: Value = serde_json::from_str(last).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(reason, format!("weir: {}", line["message"].as_str().unwrap()));
    }
}

#[test]
fn what_is_no_file_of_a_log_directory_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert!(reason(&weir(&["log", "dump", path])).contains("there are no files of a log directory in /"));
    std::fs::write(dir.path().join("notes.txt"), b"x").unwrap();
    let foreign = format!("{path}/notes.txt");
    let output = weir(&["log", "dump", &foreign, &format!("{path}/missing")]);
    assert_eq!(reason(&output), "weir: 2 faults in 2 files");
    assert_eq!(stdout(&output).matches("  NOT READ: ").count(), 2, "{}", stdout(&output));
    let pipe = dir.path().join("00000000000000000000.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = weir(&["log", "dump", path]);
    assert_eq!(reason(&output), "weir: 1 fault in 1 file", "a pipe is not waited for");
}

#[test]
fn every_signal_that_ends_a_server_ends_it_cleanly_and_nohup_holds() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, ends) in [("HUP", true), ("INT", true), ("TERM", true), ("HUP", false)] {
        let data = dir.path().join("data");
        let mut command = Command::new(if ends { "env" } else { "nohup" });
        if ends {
            // Whoever runs the tests may ignore signals, and a program inherits that.
            command.arg("--default-signal");
        }
        command
            .arg(env!("CARGO_BIN_EXE_weir"))
            .args([
                "server",
                "--override",
                "http.listener=",
                "--override",
                "listeners=PLAINTEXT://127.0.0.1:0",
            ])
            .args(["--override", &format!("log.dirs={}", data.display())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(" started ")));
        let send = |signal: &str| {
            assert!(
                Command::new("kill")
                    .args(["-s", signal, &child.id().to_string()])
                    .status()
                    .unwrap()
                    .success()
            );
        };
        send(signal);
        if !ends {
            send("TERM");
        }
        let by = lines.find(|line| line.contains(" stopping ")).unwrap();
        assert!(by.contains(if ends { signal } else { "SIGTERM" }), "{signal}: {by}");
        assert_eq!(lines.count(), 1, "stopped");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(data.join(".kafka_cleanshutdown").exists(), "{signal}");
    }
}

#[test]
fn a_second_signal_ends_a_start_that_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody writes to the pipe: the start waits for ever.
    let pipe = dir.path().join("meta.properties");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Command::new("env")
        .args(["--default-signal", env!("CARGO_BIN_EXE_weir"), "server", "--override", "http.listener="])
        .args(["--override", "listeners=PLAINTEXT://127.0.0.1:0"])
        .args(["--override", &format!("log.dirs={}", dir.path().display())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    for awaited in ["memory plan", "stopping once the start is done"] {
        assert!(lines.any(|line| line.contains(awaited)), "{awaited}");
        let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
    assert!(lines.any(|line| line.contains("ended before the start was done")));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_short_demo_holds_the_bound_and_writes_its_reports() {
    let dir = tempfile::tempdir().unwrap();
    let html = dir.path().join("demo.html");
    let output = weir(&[
        "demo",
        "--seconds",
        "1",
        "--connections",
        "24",
        "--batches",
        "8",
        "--format",
        "json",
        "--html",
        html.to_str().unwrap(),
        "--dir",
        dir.path().to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&json["held"], &json["faults"]), (&Value::from(true), &Value::from(Vec::<String>::new())));
    let memory = |name: &str| json["memory_bytes"][name].as_u64().unwrap();
    assert_eq!(memory("budget"), 64 << 20);
    assert!(memory("peak") > 0 && memory("peak") <= memory("budget"), "{json}");
    assert!(memory("asked_for_at_once") > 100 * memory("budget"), "{json}");
    assert!(json["huge_requests"]["outcome"]["answered"].as_u64() >= Some(24), "{json}");
    assert_eq!(json["producer"]["errors"], 0);
    assert_eq!(json["consumer"]["missing"], 0);
    assert!(std::fs::read_to_string(&html).unwrap().contains("<svg "));
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "the broker's directory is gone, the page is there");
}
