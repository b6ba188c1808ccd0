//! The report: what each file is, the account of each dump, what it all means.

use std::process::ExitCode;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use weir_doctor::evidence::Evidence;
use weir_doctor::findings::{
    Finding, Headline, Language, diagnose, evidence_text, findings_text, headline_text,
};
use weir_doctor::report;

use super::output::{Format, Output};
use super::read::{Input, ReadDump};

/// Writes what the evidence means. A dump that cannot be read does not keep the rest from being reported.
pub(super) fn run(input: &Input, output: &Output) -> Result<ExitCode, String> {
    let findings = diagnose(&input.evidence, &input.dumps());
    match output.format {
        Format::Json => {
            output.write_json(&Document { input, findings: &findings, language: output.language() })?
        }
        Format::Html => {
            output.write(&report::html(&input.evidence, &input.dumps(), &findings, output.language()))?
        }
        Format::Text => output.write(&text_of(input, &findings, output))?,
    }
    input.verdict()?;
    Ok(ExitCode::SUCCESS)
}

fn text_of(input: &Input, findings: &[Finding], output: &Output) -> String {
    let layout = output.layout();
    let headline = headline_text(&Headline::of(findings), layout);
    let mut text = format!("{headline}\n{}\n", evidence_text(&input.evidence, layout));
    for ReadDump { heap, account } in &input.dumps {
        text.push_str(&report::text(heap, account, layout));
        text.push('\n');
    }
    text + &findings_text(findings, layout)
}

/// All of it as JSON.
struct Document<'a> {
    input: &'a Input,
    findings: &'a [Finding],
    language: Language,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { input, findings, language } = *self;
        let dumps = input.dumps.iter();
        let dumps = dumps.map(|dump| report::Json { heap: &dump.heap, account: &dump.account, language });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("headline", &Headline::of(findings).to_json(language))?;
        map.serialize_entry("dumps", &dumps.collect::<Vec<_>>())?;
        map.serialize_entry("files", &files(&input.evidence, language))?;
        let findings = findings.iter().map(|finding| finding.to_json(language));
        map.serialize_entry("findings", &findings.collect::<Vec<_>>())?;
        map.end()
    }
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
