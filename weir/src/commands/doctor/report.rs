//! The report: what each file is, the account of each dump, what it all means.

use std::process::ExitCode;

use serde_json::{Value, json};
use weir_doctor::evidence::Evidence;
use weir_doctor::findings::{Finding, Language, diagnose, evidence_text, findings_text};
use weir_doctor::report;

use super::output::{Format, Output};
use super::read::{Input, ReadDump};

/// Writes what the evidence means. A dump that cannot be read does not keep the rest from being reported.
pub(super) fn run(input: &Input, output: &Output) -> Result<ExitCode, String> {
    let findings = diagnose(&input.evidence, &input.dumps());
    let text = match output.format {
        Format::Json => format!("{:#}\n", json_of(input, &findings, output.language())),
        Format::Html => report::html(&input.evidence, &input.dumps(), &findings, output.language()),
        Format::Text => text_of(input, &findings, output),
    };
    output.write(&text)?;
    input.verdict()?;
    Ok(ExitCode::SUCCESS)
}

fn text_of(input: &Input, findings: &[Finding], output: &Output) -> String {
    let layout = output.layout();
    let mut text = format!("{}\n", evidence_text(&input.evidence, layout));
    for ReadDump { heap, account } in &input.dumps {
        text.push_str(&report::text(heap, account, layout));
        text.push('\n');
    }
    text + &findings_text(findings, layout)
}

fn json_of(input: &Input, findings: &[Finding], language: Language) -> Value {
    let findings: Vec<_> = findings.iter().map(|finding| finding.to_json(language)).collect();
    let dumps: Vec<_> =
        input.dumps.iter().map(|dump| report::json(&dump.heap, &dump.account, language)).collect();
    json!({ "files": files(&input.evidence, language), "dumps": dumps, "findings": findings })
}

/// What each file was taken for, and what in it was not understood.
pub(super) fn files(evidence: &Evidence, language: Language) -> Value {
    let files = evidence.files.iter().map(|file| {
        let kinds: Vec<_> = file.kinds.iter().map(|kind| kind.name()).collect();
        let problems: Vec<_> =
            file.problems.iter().map(|problem| json!({ "line": problem.line, "text": problem.text.get(language) })).collect();
        json!({ "path": file.path.to_string_lossy(), "kinds": kinds, "lines": file.lines, "problems": problems })
    });
    files.collect()
}
