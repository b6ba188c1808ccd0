//! `weir doctor`: evidence of a JVM broker in, an account of its native memory and findings out; nothing is changed.

use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use weir_doctor::account::Account;
use weir_doctor::evidence::{Evidence, collect};
use weir_doctor::findings::{Dump, Finding, Language, Layout, diagnose, evidence_text, findings_text};
use weir_doctor::heap::{Heap, Options, Progress};
use weir_doctor::report::{self, Style};

use super::print;

/// Dumps smaller than this are read before a bar would be seen.
const BAR_FROM: u64 = 64 << 20;

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Evidence, plain or gzip, and folders of it: heap dumps, outputs of jcmd, metrics, server.properties, broker and
    /// GC logs
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Print text for people or JSON for programs
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

/// Reads the evidence and prints what it means. A dump that cannot be read does not keep the rest from being reported.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let evidence = collect(&arguments.paths).map_err(|error| error.to_string())?;
    let mut failed = Vec::new();
    let mut accounts = Vec::new();
    for dump in evidence.heap_dumps() {
        match read(dump) {
            Ok(heap) => accounts.push((Account::of(&heap), heap)),
            Err(error) => failed.push(error),
        }
    }
    let dumps: Vec<_> =
        accounts.iter().map(|(account, heap)| Dump { path: &heap.condition.path, heap, account }).collect();
    let findings = diagnose(&evidence, &dumps);
    if arguments.format == "json" {
        print(&format!("{:#}\n", as_json(&evidence, &findings, &accounts)))?;
    } else {
        let (width, colour) = (width(), stdout().is_terminal());
        let layout = Layout { width, colour, language: Language::English };
        print(&format!("{}\n", evidence_text(&evidence, layout)))?;
        for (account, heap) in &accounts {
            print(&format!("{}\n", report::text(heap, account, Style { width, colour })))?;
        }
        print(&findings_text(&findings, layout))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\nweir: ")) }
}

/// Columns of the terminal, or of a page.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 100 } else { columns.clamp(40, 140) }
}

fn as_json(evidence: &Evidence, findings: &[Finding], accounts: &[(Account, Heap)]) -> serde_json::Value {
    let files: Vec<_> = evidence
        .files
        .iter()
        .map(|file| {
            let kinds: Vec<_> = file.kinds.iter().map(|kind| kind.name()).collect();
            let problems: Vec<_> =
                file.problems.iter().map(|problem| json!({ "line": problem.line, "text": problem.text.en })).collect();
            json!({ "path": file.path.to_string_lossy(), "kinds": kinds, "lines": file.lines, "problems": problems })
        })
        .collect();
    let findings: Vec<_> = findings.iter().map(|finding| finding.to_json(Language::English)).collect();
    let dumps: Vec<_> =
        accounts.iter().map(|(account, heap)| report::json(heap, account, Language::English)).collect();
    json!({ "files": files, "dumps": dumps, "findings": findings })
}

/// Reads a dump, with a bar on a terminal if it is a large one.
fn read(file: &Path) -> Result<Heap, String> {
    let progress = Progress::default();
    let large = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() >= BAR_FROM);
    let done = AtomicBool::new(false);
    let heap = std::thread::scope(|scope| {
        if large && stderr().is_terminal() {
            scope.spawn(|| show(file, &progress, &done));
        }
        let heap = Heap::read(file, &Options::default(), &progress);
        done.store(true, Ordering::Release);
        heap
    });
    heap.map_err(|error| error.to_string())
}

/// Draws a bar until the dump is read.
fn show(file: &Path, progress: &Progress, done: &AtomicBool) {
    let stored = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bar = indicatif::ProgressBar::new(stored);
    let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left";
    if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let mut last = 0;
    while !done.load(Ordering::Acquire) {
        let (pass, now, total) = progress.now();
        if pass != last {
            bar.reset();
            bar.set_message(format!("pass {pass}"));
            last = pass;
        }
        // The size of gzip is not known before its end.
        bar.set_length(if total > 0 { total } else { stored.saturating_mul(4).max(now) });
        bar.set_position(now);
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
