//! The log: lines of text or JSON on standard error.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Options of the log.
#[derive(Debug, Args)]
pub(crate) struct LogOptions {
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    log_format: LogFormat,
    /// error, warn, info, debug or trace, or directives such as info,weir_storage=debug
    #[arg(long, default_value = "info", value_name = "LEVEL", value_parser = directives)]
    log_level: String,
}

/// Levels, and levels of modules. A lone word that is no level would be taken for a module, and nothing be logged.
fn directives(text: &str) -> Result<String, String> {
    for part in text.split(',') {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        if level.trim().parse::<LevelFilter>().is_err() || level.trim().is_empty() {
            return Err(format!("'{level}' is not one of off, error, warn, info, debug, trace"));
        }
    }
    Ok(text.to_owned())
}

impl LogOptions {
    /// Whether programs read the log.
    pub(crate) fn is_json(&self) -> bool {
        self.log_format == LogFormat::Json
    }

    /// Starts the log of this process.
    pub(crate) fn start(&self) -> Result<(), String> {
        let filter = EnvFilter::builder()
            .parse(&self.log_level)
            .map_err(|error| format!("--log-level {}: {error}", self.log_level))?;
        // A line that cannot be written, on a full disk say, is lost; telling of that on the same stream would panic.
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .log_internal_errors(false);
        let started = match self.log_format {
            LogFormat::Text => lines.with_ansi(crate::terminal::wants_colour(&std::io::stderr())).try_init(),
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
        };
        started.map_err(|error| format!("cannot start the log: {error}"))
    }
}
