//! The `weir` command: arguments in, output and exit codes out.
//!
//! Exit codes: 0 done, 1 failed with a reason on standard error, 2 wrong arguments; a plan or a check may say more by others.

mod allocator;
mod bench;
mod capture;
mod commands;
mod demo;
mod load;
mod log_dump;
mod logging;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_budget::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<tikv_jemallocator::Jemalloc> =
    CountingAllocator::new(tikv_jemallocator::Jemalloc);

/// Kafka whose memory is bounded by construction
#[derive(Debug, Parser)]
#[command(name = "weir", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  weir server                                    a broker on 127.0.0.1:9092, topics made on demand
  weir server server.properties --override memory.budget.bytes=64MiB
  weir plan --jvm server.properties --heap 16g   what a JVM broker's direct memory can come to
  weir demo                                      what the memory bound is worth, in a minute
  weir bench produce --producers 4 --throughput 50000
  weir doctor heap.hprof                         which threads of a JVM broker hold which bytes of direct memory
  weir doctor --compare before/ after/           what changed between two captures, in exact bytes
  weir doctor --verify after/                    whether a cure holds, by checks and exit code
  weir doctor capture --pid 4711 -o evidence     ask a JVM broker for all that the doctor reads
  weir log dump weir-data/t-0 --deep

Exit codes: 0 done, 1 failed with the reason on standard error, 2 wrong arguments.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker until SIGTERM; without a file on 127.0.0.1:9092, data in ./weir-data
    Server(commands::server::Arguments),
    /// Print the sum that bounds a server's memory, without starting it; --jvm: that of a JVM broker's direct memory
    Plan(commands::plan::Arguments),
    /// Read what a JVM broker left behind (logs, jcmd outputs, metrics, properties) and say what ails its memory
    Doctor(commands::doctor::Arguments),
    /// Attack a broker of 64 MiB with gigabytes and show what becomes of its memory; needs no client
    Demo(commands::demo::Arguments),
    /// Measure how fast a broker takes and gives records, weir or Kafka
    Bench(commands::bench::Arguments),
    /// Look into the files of a log directory and check them
    Log(commands::log::Arguments),
}

/// Without anything that a terminal obeys: names of files are whatever somebody gave them.
fn harmless(message: &str) -> String {
    message.split('\n').map(weir_doctor::report::plain).collect::<Vec<_>>().join("\n")
}

fn main() -> ExitCode {
    allocator::hold_no_huge_pages();
    let outcome = match Arguments::parse().command {
        Command::Server(arguments) => commands::server::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Bench(arguments) => commands::bench::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Log(arguments) => commands::log::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(message) => {
            // Where not even that can be written, the exit code is what is left to say.
            let _ = writeln!(std::io::stderr(), "weir: {}", harmless(&message));
            ExitCode::FAILURE
        }
    }
}
