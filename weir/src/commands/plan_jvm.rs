//! `weir plan --jvm`: what the direct memory of a JVM broker can come to with its `server.properties`, term by term.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use weir_doctor::evidence::{FileKind, Problem, ServerProperties, collect};
use weir_doctor::findings::exact;
use weir_doctor::jvm_plan::{JvmInputs, WhatIf, json, jvm_plan, plan_text};

use super::doctor::{Lang, layout};
use super::print;
use super::server::PropertyArguments;

/// Arguments that only a JVM's plan has.
#[derive(Debug, Args)]
pub(crate) struct JvmArguments {
    /// Plan the direct memory of a JVM broker with these properties instead of weir's
    #[arg(long)]
    pub(crate) jvm: bool,
    /// The JVM's -Xmx, with its unit
    #[arg(long, requires = "jvm", default_value = "1g", value_name = "SIZE", value_parser = limit)]
    heap: u64,
    /// The JVM's -XX:MaxDirectMemorySize; without it the limit is the heap's
    #[arg(long, requires = "jvm", value_name = "SIZE", value_parser = limit)]
    direct: Option<u64>,
    /// Brokers that this one replicates from
    #[arg(long, requires = "jvm", default_value_t = 0, value_name = "N")]
    peers: u32,
    /// Language of a JVM's plan
    #[arg(long, requires = "jvm", default_value = "en")]
    lang: Lang,
}

/// Less than this is a forgotten unit: no JVM starts with such a heap.
const LEAST_BYTES: u64 = 1 << 20;

/// A size as the JVM's options take it: `1g`, `512m`, `1073741824`; also `1GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let unitless = text.strip_suffix("iB").unwrap_or(text);
    weir_doctor::evidence::jvm_size(unitless)
        .ok_or_else(|| format!("{text} is no size: write it like the JVM's options, 1g, 512m or 1073741824"))
}

/// A size that a JVM can have as its heap or as the limit of its direct memory.
pub(crate) fn limit(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < LEAST_BYTES {
        let unit = if text == bytes.to_string() {
            format!(": a number without a unit is bytes; {text}g?")
        } else {
            String::new()
        };
        return Err(format!(
            "{text} is {} bytes, less than the {} that a JVM needs{unit}",
            exact(bytes),
            exact(LEAST_BYTES)
        ));
    }
    Ok(bytes)
}

/// The exit code for a plan that passes its limit, as for checks of metrics that fail.
const DOES_NOT_FIT: u8 = 3;

/// The settings of a file, and what in them is not understood. A broker's log has them too.
fn read(path: &Path) -> Result<(ServerProperties, Vec<Problem>), String> {
    let mut evidence = collect(&[path.to_path_buf()]).map_err(|error| error.to_string())?;
    let Some(found) = evidence.server_properties.pop() else {
        let kinds = evidence.files.iter().flat_map(|file| &file.kinds).map(|kind| kind.name());
        let kinds: Vec<_> = kinds.collect();
        return Err(match kinds.as_slice() {
            [] => format!("{} has no setting of a Kafka broker in it", path.display()),
            kinds => {
                format!("{} has no settings of a Kafka broker: it is a {}", path.display(), kinds.join(", "))
            }
        });
    };
    let file = evidence.files.get(found.file);
    let problems = file.filter(|file| file.kinds == [FileKind::ServerProperties]);
    Ok((found.value, problems.map_or(Vec::new(), |file| file.problems.clone())))
}

/// Prints the plan; the exit code says whether it fits.
pub(crate) fn run(
    arguments: &JvmArguments,
    properties: &PropertyArguments,
    as_json: bool,
) -> Result<ExitCode, String> {
    let (settings, problems) = properties.file().map(read).transpose()?.unwrap_or_default();
    let mut what_if = WhatIf { properties: settings, max_cached_buffer_bytes: None };
    for setting in properties.overrides() {
        what_if.set(setting).map_err(|error| format!("--override {setting}: {error}"))?;
    }
    let peers = u64::from(arguments.peers);
    let plan = jvm_plan(&JvmInputs {
        properties: &what_if.properties,
        heap_bytes: arguments.heap,
        direct_bytes: arguments.direct,
        peers,
        max_cached_buffer_bytes: what_if.max_cached_buffer_bytes,
    });
    let language = arguments.lang.language();
    if as_json {
        print(&format!("{:#}\n", json(&plan, &problems, language)))?;
    } else {
        print(&plan_text(&plan, &problems, peers, properties.file().is_some(), layout(true, language)))?;
    }
    Ok(if plan.excess_bytes() == 0 { ExitCode::SUCCESS } else { ExitCode::from(DOES_NOT_FIT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_for_the_jvm() {
        assert_eq!(limit("1g"), Ok(1 << 30));
        assert_eq!(limit("2GiB"), Ok(2 << 30));
        assert_eq!(limit("1048576"), Ok(1 << 20));
        assert_eq!(size("0"), Ok(0));
        for text in ["", "0", "1gb", "x", "-1", "1.5g"] {
            assert!(limit(text).is_err(), "{text}");
        }
        // `-Xmx16` is 16 bytes to a JVM, too.
        assert_eq!(
            limit("16").unwrap_err(),
            "16 is 16 bytes, less than the 1,048,576 that a JVM needs: a number without a unit is bytes; 16g?"
        );
        assert!(limit("512k").unwrap_err().starts_with("512k is 524,288 bytes"));
    }
}
