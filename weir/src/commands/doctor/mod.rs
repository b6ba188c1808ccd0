//! `weir doctor`: evidence of a JVM broker in, an account of its native memory and findings out; nothing is changed.

mod output;
mod read;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use output::Output;

/// Arguments of `weir doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    /// Evidence, plain or gzip, and folders of it: heap dumps, outputs of jcmd, metrics, server.properties, broker and
    /// GC logs
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    report::run(&arguments.paths, &arguments.output)
}
