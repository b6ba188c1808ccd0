//! `weir plan`: the sum that bounds a server's memory, without starting it; with `--jvm` that of a JVM broker.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use weir_metadata::properties::NoteLevel;

use super::plan_jvm::{self, JvmArguments};
use super::print;
use super::server::PropertyArguments;

/// Arguments of `weir plan`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    properties: PropertyArguments,
    #[command(flatten)]
    jvm: JvmArguments,
    /// Print text for people or JSON for programs
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
}

/// Prints the plan.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    if arguments.jvm.jvm {
        return plan_jvm::run(&arguments.jvm, &arguments.properties, arguments.format == "json");
    }
    let loaded = arguments.properties.load()?;
    for note in loaded.notes.iter().filter(|note| note.level == NoteLevel::Warning) {
        let _ = writeln!(std::io::stderr(), "weir: {}", crate::harmless(&note.to_string()));
    }
    let layout = weir_broker::plan_of(&loaded.config).map_err(|error| error.to_string())?;
    if arguments.format == "json" {
        let terms: Vec<_> = layout
            .plan
            .terms
            .iter()
            .map(|term| {
                serde_json::json!({
                    "name": term.name, "bytes": term.bytes, "reason": term.reason, "property": term.property,
                })
            })
            .collect();
        let counts = &layout.counts;
        let plan = serde_json::json!({
            "limit_bytes": layout.plan.limit,
            "sum_bytes": layout.plan.sum(),
            "terms": terms,
            "counts": {
                "connections": counts.connections,
                "partitions": counts.partitions,
                "segments": counts.segments,
                "metadata_bytes": counts.metadata_bytes,
                "producer_ids": counts.producer_ids,
                "session_partitions": counts.session_partitions,
                "waiting_requests": counts.waiting_requests,
                "open_files": counts.open_files,
            },
        });
        print(&format!("{plan:#}\n"))?;
    } else {
        print(&layout.plan.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
