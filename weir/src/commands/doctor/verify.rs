//! `weir doctor --verify`: the acceptance criteria as checks, with exit codes for scripts.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use clap::Args;
use serde_json::json;
use weir_doctor::evidence::Evidence;
use weir_doctor::findings::{Facts, evidence_text};
use weir_doctor::report::verification_html;
use weir_doctor::verify::{CHECKS, Options, moment_ms, verification_text, verify};

use super::output::{Format, Output};
use super::read::Input;
use super::report::files;
use crate::commands::plan_jvm::{limit, size};

/// What only `--verify` and `--alerts` take.
#[derive(Debug, Args)]
pub(crate) struct Criteria {
    /// The limit of direct memory, for --verify and --alerts, where the evidence does not say it
    #[arg(long, requires = "takes a limit", value_name = "SIZE", value_parser = limit)]
    pub(super) limit: Option<u64>,
    /// With --verify: failed reservations up to this time of the log's clock do not count
    #[arg(long, requires = "verify", value_name = "TIME", value_parser = since)]
    since: Option<i64>,
    /// With --verify: by how much the pool may grow over the series, by default 1 % of the limit
    #[arg(long, requires = "verify", value_name = "SIZE", value_parser = size)]
    tolerance: Option<u64>,
    /// With --verify: checks without which the evidence is too little, or `all`
    #[arg(long, requires = "verify", value_name = "ID", value_delimiter = ',', value_parser = required)]
    require: Vec<String>,
    /// With --verify: checks that are left out
    #[arg(long, requires = "verify", value_name = "ID", value_delimiter = ',', value_parser = check)]
    skip: Vec<String>,
}

fn since(text: &str) -> Result<i64, String> {
    moment_ms(text).ok_or_else(|| format!("{text} is no time: write it like the log, 2026-11-30 11:57:23"))
}

fn check(text: &str) -> Result<String, String> {
    if CHECKS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("{text} is no check; there are {}", CHECKS.join(", ")))
}

fn required(text: &str) -> Result<String, String> {
    if text == "all" { Ok(text.to_owned()) } else { check(text) }
}

/// When each file was last written.
fn file_times(evidence: &Evidence) -> Vec<Option<i64>> {
    let time = |path: &PathBuf| {
        let written = std::fs::metadata(path).ok()?.modified().ok()?;
        i64::try_from(written.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
    };
    evidence.files.iter().map(|file| time(&file.path)).collect()
}

/// Reads the evidence, judges it and writes the outcome. A file that cannot be read is an error, whatever the rest says.
pub(super) fn run(input: &Input, criteria: &Criteria, output: &Output) -> Result<ExitCode, String> {
    let dumps = input.dumps();
    let options = Options {
        since_ms: criteria.since,
        limit_bytes: criteria.limit,
        tolerance_bytes: criteria.tolerance,
        required: criteria.require.clone(),
        skipped: criteria.skip.clone(),
        file_times: file_times(&input.evidence),
    };
    let verification = verify(&Facts::of(&input.evidence, &dumps), &options);
    let text = match output.format {
        Format::Json => {
            let mut value = verification.to_json(output.language());
            if let Some(object) = value.as_object_mut() {
                object.insert("files".into(), json!(files(&input.evidence, output.language())));
            }
            format!("{value:#}\n")
        }
        Format::Html => verification_html(&verification, &input.evidence, output.language()),
        Format::Text => {
            let layout = output.layout();
            format!(
                "{}\n{}",
                evidence_text(&input.evidence, layout),
                verification_text(&verification, layout)
            )
        }
    };
    output.write(&text)?;
    input.whole()?;
    Ok(ExitCode::from(verification.verdict().exit_code()))
}
