//! `weir doctor --compare BEFORE AFTER`: what changed between two captures.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use weir_doctor::compare::{Side, compare, comparison_json, comparison_text};
use weir_doctor::findings::evidence_text;
use weir_doctor::report::comparison_html;

use super::output::{Format, Output};
use super::read::Input;
use super::report::files;

/// Reads both captures and writes what changed. A dump that cannot be read keeps nothing else from being compared.
pub(super) fn run(before: &PathBuf, after: &PathBuf, output: &Output) -> Result<ExitCode, String> {
    let read = |path: &PathBuf| Input::read(std::slice::from_ref(path), &output.files());
    let (before, after) = (read(before)?, read(after)?);
    let (before_dumps, after_dumps) = (before.dumps(), after.dumps());
    let sides = (Side::of(&before.evidence, &before_dumps), Side::of(&after.evidence, &after_dumps));
    let comparison = compare(&sides.0, &sides.1);
    let text = match output.format {
        Format::Json => {
            let mut value = comparison_json(&comparison, output.language());
            if let Some(object) = value.as_object_mut() {
                object.insert("before_files".into(), json!(files(&before.evidence, output.language())));
                object.insert("after_files".into(), json!(files(&after.evidence, output.language())));
            }
            format!("{value:#}\n")
        }
        Format::Html => comparison_html(&comparison, &before.evidence, &after.evidence, output.language()),
        Format::Text => {
            let layout = output.layout();
            let evidence = evidence_text(&before.evidence, layout) + &evidence_text(&after.evidence, layout);
            format!("{evidence}\n{}", comparison_text(&comparison, layout))
        }
    };
    output.write(&text)?;
    before.verdict()?;
    after.verdict()?;
    Ok(ExitCode::SUCCESS)
}
