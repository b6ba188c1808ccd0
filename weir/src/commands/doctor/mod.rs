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

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory, Subcommand};

use crate::allocator;
pub(crate) use output::{Lang, layout};
use output::{Output, can_be_written, folder_of};
use read::Input;

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group(ArgGroup::new("takes a limit").args(["verify", "alerts"]).multiple(true)))]
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
    allocator::give_back_at_once();
    if let Some(Task::Capture(arguments)) = &arguments.task {
        return capture::run(arguments).map(|()| ExitCode::SUCCESS);
    }
    let output = &arguments.output;
    let mut to_write = output.files();
    to_write.extend(arguments.alerts.as_deref());
    if let [one, other] = to_write.as_slice()
        && is_same(one, other)
    {
        let message = format!("{} cannot hold both the report and the alert rules", one.display());
        wrong(ErrorKind::ArgumentConflict, &message);
    }
    if arguments.paths.is_empty() && arguments.alerts.is_some() && output.output.is_some() {
        wrong(
            ErrorKind::MissingRequiredArgument,
            "without evidence there is no report for --output; --alerts names the rules' file",
        );
    }
    to_write.iter().try_for_each(|file| can_be_written(file))?;
    if let [before, after] = arguments.compare.as_slice() {
        return compare::run(before, after, output);
    }
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

/// Ends the program as wrong arguments do that the parser itself finds.
fn wrong(kind: ErrorKind, message: &str) -> ! {
    let mut program = crate::Arguments::command();
    program.build();
    match program.find_subcommand_mut("doctor") {
        Some(doctor) => doctor.error(kind, message).exit(),
        None => program.error(kind, message).exit(),
    }
}

/// Whether two names are of one file, which need not be there yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: &Path| -> Option<PathBuf> {
        file.canonicalize()
            .ok()
            .or_else(|| Some(folder_of(file).canonicalize().ok()?.join(file.file_name()?)))
    };
    one == other || place(one).is_some_and(|place_of_one| Some(place_of_one) == place(other))
}
