//! `weir log`: what lies in a log directory. `weir log dump` shows and checks its files.

use std::io::{self, BufWriter};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::log_dump::{self, Options, RecordsAs};

/// Arguments of `weir log`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show and check segments, indexes, snapshots, checkpoints and metadata; exit code 1 if something is damaged
    Dump(DumpArguments),
}

#[derive(Debug, Args)]
struct DumpArguments {
    /// Files, partition directories or log directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Print text for people, or one JSON object a line for programs
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Show the records in the batches too, and check that they can be read
    #[arg(long, visible_alias = "records")]
    deep: bool,
    /// Show only the files, their sums and what is damaged
    #[arg(long, short)]
    quiet: bool,
    /// Show at most this many bytes of a key or value, 0 for all
    #[arg(long, default_value_t = 200, value_name = "BYTES")]
    width: usize,
    /// What the records are
    #[arg(long, value_enum, default_value = "auto", value_name = "KIND")]
    records_as: RecordsAs,
}

/// Runs a subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let Command::Dump(dump) = &arguments.command;
    let options = Options {
        json: dump.format == "json",
        deep: dump.deep,
        quiet: dump.quiet,
        width: dump.width,
        records_as: dump.records_as,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match log_dump::dump(&dump.paths, &options, &mut out) {
        Ok(totals) if totals.damages > 0 => {
            let count = |number, what| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
            Err(format!("{} in {}", count(totals.damages, "fault"), count(totals.files, "file")))
        }
        Ok(totals) if totals.files == 0 => {
            let places: Vec<_> = dump.paths.iter().map(|path| path.display().to_string()).collect();
            Err(format!("there are no files of a log directory in {}", places.join(", ")))
        }
        Ok(_) => Ok(()),
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}
