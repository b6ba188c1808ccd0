//! `weir demo`: the main job in a minute, without any client installed.

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::print;
use crate::demo::{self, Options};
use crate::terminal;

/// Arguments of `weir demo`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How long new huge requests are sent; those under way are waited for
    #[arg(long, default_value_t = 15, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that each send a huge request, all at once
    #[arg(long, default_value_t = 80, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Batches of 1 MiB in each huge request
    #[arg(long, default_value_t = 79, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..=100))]
    batches: i32,
    /// memory.budget.bytes of the broker
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    budget: String,
    /// Print text for people or JSON for programs; progress goes to standard error
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Write the report as one HTML page too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where to make the broker's directory, which needs about 2 GiB for a while [default: the temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the demo and prints its report. Fails when the bound was broken or an answer was an error.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let page_dir = arguments.html.as_deref().and_then(Path::parent);
    if let Some(dir) = page_dir.filter(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
        return Err(format!("--html: there is no directory {}", dir.display()));
    }
    let options = Options {
        seconds: arguments.seconds,
        connections: arguments.connections as usize,
        batches: arguments.batches,
        budget: arguments.budget.clone(),
        dir: arguments.dir.clone(),
    };
    // Each connection of the attack is one; as few as a shell may give would fail some of them.
    weir_broker::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = demo::run(&options) => report,
            // The broker is ended and its directory removed by dropping what runs.
            name = interrupted() => Err(name.map_or_else(|error| error, |name| format!("ended by {name}"))),
        }
    })?;
    match arguments.format.as_str() {
        "json" => print(&format!("{:#}\n", report.json()))?,
        _ => print(&report.text(terminal::width(), terminal::wants_colour(&std::io::stdout())))?,
    }
    if let Some(path) = &arguments.html {
        std::fs::write(path, report.html()).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("the page is in {}", path.display());
    }
    let faults = report.faults();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Waits for a signal to stop and returns its name.
async fn interrupted() -> Result<&'static str, String> {
    let fail = |error| format!("cannot install signal handlers: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}
