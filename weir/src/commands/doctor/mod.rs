//! `weir doctor`: evidence of a JVM broker in, an account of its native memory and findings out; nothing is changed.
//! `weir doctor capture` takes that evidence.

mod alerts;
mod capture;
mod compare;
mod output;
mod read;
mod report;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use output::Output;
use read::Input;

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    /// Evidence, plain or gzip, and folders of it: heap dumps, outputs of jcmd, metrics, server.properties, broker and
    /// GC logs
    #[arg(required_unless_present_any = ["alerts", "compare"], value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Say what changed between two captures, each a file or a folder
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["paths", "verify", "alerts"])]
    compare: Vec<PathBuf>,
    /// Hold the evidence against the acceptance criteria of a cure. Exit codes: 0 passes, 1 something cannot be read,
    /// 2 wrong arguments, 3 a check fails, 4 too little evidence
    #[arg(long, requires = "paths")]
    verify: bool,
    /// Write recommended Prometheus alert rules to a file, for the limit and the metric names of the evidence
    #[arg(long, value_name = "FILE")]
    alerts: Option<PathBuf>,
    #[command(flatten)]
    criteria: verify::Criteria,
}

/// What else the doctor does.
#[derive(Debug, Subcommand)]
enum Task {
    /// Ask a running JVM and its kernel for evidence, the heap dump last, and write it to a new folder
    Capture(capture::Arguments),
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if let Some(Task::Capture(arguments)) = &arguments.task {
        return capture::run(arguments).map(|()| ExitCode::SUCCESS);
    }
    let output = &arguments.output;
    if let [before, after] = arguments.compare.as_slice() {
        return compare::run(before, after, output);
    }
    let mut to_write = output.files();
    to_write.extend(arguments.alerts.as_deref());
    apart(&to_write)?;
    let input = Input::read(&arguments.paths, &to_write)?;
    if let Some(file) = &arguments.alerts {
        alerts::write(&input, file, arguments.criteria.limit, output)?;
        if arguments.paths.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if arguments.verify {
        return verify::run(&input, &arguments.criteria, output);
    }
    report::run(&input, output)
}

/// Refuses to write two things to one file.
fn apart(files: &[&Path]) -> Result<(), String> {
    match files {
        [one, other] if one == other => Err(format!("{} cannot hold two things", one.display())),
        _ => Ok(()),
    }
}
