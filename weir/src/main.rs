//! The `weir` command: arguments in, output and exit codes out.
//!
//! Exit codes: 0 done, 1 failed with a reason on standard error, 2 wrong arguments.

mod commands;
mod demo;
mod load;
mod log_dump;
mod logging;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_budget::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<tikv_jemallocator::Jemalloc> =
    CountingAllocator::new(tikv_jemallocator::Jemalloc);

/// Kafka whose memory is bounded by construction.
#[derive(Debug, Parser)]
#[command(name = "weir", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker: with no file on 127.0.0.1:9092, data in ./weir-data
    Server(commands::server::Arguments),
    /// Print the memory plan of a server without starting it
    Plan(commands::plan::Arguments),
    /// Attack a broker of 64 MiB with gigabytes and show what becomes of its memory
    Demo(commands::demo::Arguments),
    /// Look into a log directory
    Log(commands::log::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Server(arguments) => commands::server::run(&arguments),
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Log(arguments) => commands::log::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("weir: {message}");
            ExitCode::FAILURE
        }
    }
}
