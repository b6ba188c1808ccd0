//! `weir server`: reads the properties, starts the broker, stops it on SIGTERM, SIGINT or SIGHUP.

use std::path::{Path, PathBuf};

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use weir_broker::Server;
use weir_metadata::properties::{BrokerConfig, Loaded, NoteLevel, PropertySet};

use crate::logging::LogOptions;

/// Linux's number of the signal that a write beyond the file size limit raises; its default ends the process.
const SIGXFSZ: i32 = 25;

/// Arguments that name a server's properties.
#[derive(Debug, Args)]
pub(crate) struct PropertyArguments {
    /// Kafka's server.properties, as it is; without one the embedded defaults apply
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Set a property, over the file; may be repeated
    #[arg(long = "override", value_name = "KEY=VALUE", value_parser = setting)]
    overrides: Vec<String>,
}

/// An override, whose value is looked at with the file's.
fn setting(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("it must have the form KEY=VALUE".to_owned()),
    }
}

impl PropertyArguments {
    /// The file.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The overrides, `KEY=VALUE` each.
    pub(crate) fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// Reads and checks the properties.
    pub(crate) fn load(&self) -> Result<Loaded, String> {
        let mut properties = match &self.file {
            None => PropertySet::embedded(),
            Some(path) => {
                let bytes = std::fs::read(path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                PropertySet::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?
            }
        };
        for setting in &self.overrides {
            properties.set_override(setting).map_err(|error| format!("--override {setting}: {error}"))?;
        }
        BrokerConfig::from_properties(&properties).map_err(|errors| errors.to_string())
    }
}

/// Arguments of `weir server`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    properties: PropertyArguments,
    #[command(flatten)]
    log: LogOptions,
    /// Stop when the process that started this one has ended
    #[arg(long, hide = true)]
    end_with_parent: bool,
}

/// Runs the server until it is told to stop.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    arguments.log.start()?;
    serve(arguments).inspect_err(|reason| {
        // Who reads the log by a program learns of the end there too.
        if arguments.log.is_json() {
            tracing::error!("{reason}");
        }
    })
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    if arguments.end_with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .map_err(|error| format!("cannot follow the parent process: {error}"))?;
    }
    let loaded = arguments.properties.load()?;
    for note in &loaded.notes {
        match note.level {
            NoteLevel::Info => tracing::info!(property = note.property, "{}", note.text),
            NoteLevel::Warning => tracing::warn!(property = note.property, "{}", note.text),
        }
    }
    let layout = weir_broker::plan_of(&loaded.config).map_err(|error| error.to_string())?;
    let runtime =
        weir_broker::runtime(&layout).map_err(|error| format!("cannot start the runtime: {error}"))?;
    weir_broker::log_panics();
    runtime.block_on(async {
        let signals =
            Signals::install().map_err(|error| format!("cannot install signal handlers: {error}"))?;
        let (started, is_started) = oneshot::channel();
        // On another thread: this one reads and checks logs.
        let watch = tokio::spawn(signals.during_start(is_started));
        let server = Server::start(loaded.config).await.map_err(|error| error.to_string())?;
        drop(started);
        let (mut signals, early) =
            watch.await.map_err(|error| format!("cannot watch for signals: {error}"))?;
        let failed = tokio::select! {
            // Said already.
            () = std::future::ready(()), if early => None,
            name = signals.stop() => {
                tracing::info!(signal = name, "stopping");
                None
            }
            part = server.failed() => Some(part),
        };
        server.stop().await.map_err(|error| error.to_string())?;
        match failed {
            None => Ok(()),
            Some(part) => Err(format!("{part} has failed; start the server again")),
        }
    })
}

/// The signals that the server listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The end of the terminal; not listened to under `nohup`.
    hang_up: Option<Signal>,
    // A handler, whatever it does, turns the death of the process into an error of the write.
    _file_size: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) },
            _file_size: signal(SignalKind::from_raw(SIGXFSZ))?,
        })
    }

    /// Waits for the end of the start, and returns whether a signal to stop came meanwhile. A second one ends the process:
    /// after a crash there may be much to check, and to be ended in the middle of that loses nothing.
    async fn during_start(mut self, started: oneshot::Receiver<()>) -> (Self, bool) {
        let mut early = false;
        tokio::pin!(started);
        loop {
            tokio::select! {
                // Nothing is ever sent.
                _ = &mut started => return (self, early),
                name = self.stop() => {
                    if early {
                        tracing::warn!(signal = name, "ended before the start was done");
                        std::process::exit(1);
                    }
                    tracing::info!(signal = name, "stopping once the start is done; a second signal ends it at once");
                    early = true;
                }
            }
        }
    }

    /// Waits for the signal to stop and returns its name.
    async fn stop(&mut self) -> &'static str {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hang_up => "SIGHUP",
        }
    }
}

/// Whether this process was started with SIGHUP ignored, as by `nohup`.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
