//! `weir doctor`: evidence of a JVM broker in, findings out; nothing is changed.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use weir_doctor::evidence::{Evidence, collect};
use weir_doctor::findings::{Finding, Language, Layout, diagnose, evidence_text, findings_text};

use super::print;

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Evidence, plain or gzip, and folders of it: outputs of jcmd, metrics, server.properties, broker and GC logs
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Print text for people or JSON for programs
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

/// Reads the evidence and prints what it means.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let evidence = collect(&arguments.paths).map_err(|error| error.to_string())?;
    let findings = diagnose(&evidence);
    for dump in evidence.heap_dumps() {
        eprintln!("weir: {} is a heap dump; this command does not read them yet", dump.display());
    }
    if arguments.format == "json" {
        print(&format!("{:#}\n", as_json(&evidence, &findings)))
    } else {
        let layout =
            Layout { width: width(), colour: std::io::stdout().is_terminal(), language: Language::English };
        print(&format!("{}\n{}", evidence_text(&evidence, layout), findings_text(&findings, layout)))
    }
}

/// Columns of the terminal, or of a page.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 100 } else { columns.clamp(40, 140) }
}

fn as_json(evidence: &Evidence, findings: &[Finding]) -> serde_json::Value {
    let files: Vec<_> = evidence
        .files
        .iter()
        .map(|file| {
            let kinds: Vec<_> = file.kinds.iter().map(|kind| kind.name()).collect();
            let problems: Vec<_> =
                file.problems.iter().map(|problem| json!({ "line": problem.line, "text": problem.text })).collect();
            json!({ "path": file.path.to_string_lossy(), "kinds": kinds, "lines": file.lines, "problems": problems })
        })
        .collect();
    let findings: Vec<_> = findings.iter().map(|finding| finding.to_json(Language::English)).collect();
    json!({ "files": files, "findings": findings })
}
