//! `weir doctor` and `weir plan --jvm` as a shell sees them: arguments that are swapped, files that are missing or in the way,
//! names that want to command the terminal.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a command says whose exit code is known.
fn said(arguments: &[&str], code: i32) -> String {
    let output = weir(arguments);
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    stderr
}

const SETTINGS: &str = "listeners=PLAINTEXT://:9092\nnum.network.threads=80\n";
const FLAGS: &str = "-XX:MaxDirectMemorySize=1073741824 -XX:+UseG1GC\n";

/// A folder with a file of each name and content.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn options_that_would_do_nothing_are_wrong_arguments() {
    let folder = folder(&[("flags", FLAGS)]);
    let (flags, rules) = (path(&folder, "flags"), path(&folder, "rules.yml"));
    let same = format!("{}/./rules.yml", folder.path().display());
    for (arguments, part) in [
        (&["doctor", &flags, "--limit", "1g"][..], "--verify"),
        (&["doctor", "--alerts", &rules, "--limit", "0"], "less than the 1,048,576"),
        (&["doctor", "--alerts", &rules, "--limit", "16"], "16g?"),
        (&["doctor", "--alerts", &rules, "-o", &flags], "without evidence"),
        (&["doctor", &flags, "--alerts", &rules, "-o", &same], "cannot hold both"),
        (&["plan", &flags, "--lang", "zh"], "--jvm"),
    ] {
        let text = said(arguments, 2);
        assert!(text.contains(part) && text.contains("--help"), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("flags")).unwrap(), FLAGS);
    assert!(!Path::new(&rules).exists());
}

#[test]
fn a_report_that_has_no_place_is_refused_before_anything_is_read() {
    let folder = folder(&[("flags", FLAGS)]);
    let (here, flags) = (folder.path().to_str().unwrap(), path(&folder, "flags"));
    let (absent, under_file) = (path(&folder, "none/x"), path(&folder, "flags/x"));
    for task in [&["doctor", "absent"][..], &["doctor", "--compare", "absent", "absent"]] {
        for (place, part) in [
            (here, "it is a folder"),
            (absent.as_str(), "No such file"),
            (under_file.as_str(), "is no folder"),
        ] {
            let text = said(&[task, &["-o", place]].concat(), 1);
            assert!(text.contains("cannot write") && text.contains(place) && text.contains(part), "{text}");
        }
    }
    assert!(said(&["doctor", &flags, "-o", &flags], 1).contains("is evidence"));
    assert!(said(&["doctor", &flags, "--alerts", &flags], 1).contains("is evidence"));
    assert!(said(&["doctor", &flags, "-o", "/dev/full"], 1).contains("No space left"));
    for format in ["text", "html", "json"] {
        let report = path(&folder, format);
        said(&["doctor", &flags, "--format", format, "-o", &report], 0);
        said(&["doctor", &flags, "--format", format, "-o", &report], 0);
        assert!(fs::metadata(&report).unwrap().len() > 100);
    }
}

#[test]
fn a_report_of_nothing_is_no_success() {
    let empty = folder(&[]);
    let here = empty.path().to_str().unwrap();
    assert!(said(&["doctor", here], 1).contains("no evidence: no file at all"));
    assert!(said(&["doctor", here, "--format", "html"], 1).contains("no evidence"));
    let foreign = folder(&[("a", "hello\n")]);
    let there = foreign.path().to_str().unwrap();
    assert!(said(&["doctor", there], 1).contains("the one file is of no kind"));
    assert!(said(&["doctor", "--compare", there, here], 1).contains("no evidence"));
    said(&["doctor", "--verify", here], 4);
}

#[test]
fn names_in_messages_do_not_command_the_terminal() {
    let text = said(&["doctor", "a\u{1b}[2J\u{202e}b"], 1);
    assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.contains("cannot read a"), "{text:?}");
}

#[test]
fn every_task_writes_every_format() {
    let folder = folder(&[("flags", FLAGS), ("m", "jvm_buffer_pool_used_bytes{pool=\"direct\"} 5\n")]);
    let here = folder.path().to_str().unwrap();
    for task in [&["doctor", here][..], &["doctor", "--compare", here, here], &["doctor", "--verify", here]] {
        for lang in ["en", "zh"] {
            let of = |format: &str| {
                let output = weir(&[task, &["--format", format, "--lang", lang]].concat());
                assert_eq!(output.status.code(), Some(0), "{task:?} {format}");
                stdout(&output)
            };
            let page = of("html");
            assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
            assert!(serde_json::from_str::<Value>(&of("json")).unwrap().is_object());
            assert!(!of("text").contains('\u{1b}'));
        }
    }
}

#[test]
fn a_plan_is_made_of_settings_and_of_nothing_else() {
    let folder = folder(&[
        ("server.properties", SETTINGS),
        ("flags", FLAGS),
        ("heap.hprof", "JAVA PROFILE 1.0.2\0\0\0\0\x08"),
        ("text", "hello\n"),
    ]);
    let plan = |arguments: &[&str], code| said(&[&["plan", "--jvm"], arguments].concat(), code);
    assert!(plan(&[&path(&folder, "heap.hprof")], 1).contains("it is a heap dump"));
    assert!(plan(&[&path(&folder, "flags")], 1).contains("it is a VM.flags"));
    assert!(plan(&[&path(&folder, "text")], 1).contains("no setting of a Kafka broker"));
    assert!(plan(&["/no/such"], 1).contains("cannot read /no/such"));
    let file = path(&folder, "server.properties");
    assert_eq!(plan(&[&file, "--heap", "16g"], 0), "");
    assert_eq!(plan(&[&file, "--heap", "1g"], 3), "");
    assert_eq!(plan(&[&file, "--heap", "1g", "--override", "num.network.threads=3"], 0), "");
    for (setting, part) in [
        ("num.network.threads=abc", "invalid value abc"),
        ("num.netwrk.threads=9", "num.network.threads is the nearest"),
        ("socket.request.max.bytes=1MiB", "no units"),
        ("jdk.nio.maxCachedBufferSize=1m", "ignores 1m"),
    ] {
        let text = plan(&[&file, "--override", setting], 1);
        assert!(text.contains(setting) && text.contains(part), "{text}");
    }
    for (size, part) in [("16", "16g?"), ("16gb", "no size"), ("1.5g", "no size")] {
        assert!(plan(&[&file, "--heap", size], 2).contains(part));
    }
    let shown = stdout(&weir(&["plan", "--jvm", &file, "--lang", "zh"]));
    assert!(shown.contains("超出上限") && shown.contains("网络线程（PLAINTEXT）"), "{shown}");
    let json: Value =
        serde_json::from_str(&stdout(&weir(&["plan", "--jvm", &file, "--format", "json"]))).unwrap();
    assert_eq!(json["terms"][0]["peak_bytes"], 8_388_608_000_u64);
}
