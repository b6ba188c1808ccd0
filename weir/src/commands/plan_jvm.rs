//! `weir plan --jvm`: what the direct memory of a JVM broker can come to with its `server.properties`, term by term.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weir_doctor::evidence::{Problem, ServerProperties};
use weir_doctor::findings::{exact, human};
use weir_doctor::jvm_plan::{JvmInputs, JvmPlan, TLS_CONNECTION_BYTES, jvm_plan};

use super::print;
use super::server::PropertyArguments;

/// The system property that bounds what threads keep; as an override it is a what-if.
const MAX_CACHED_BUFFER: &str = "jdk.nio.maxCachedBufferSize";

/// Arguments that only a JVM's plan has.
#[derive(Debug, Args)]
pub(crate) struct JvmArguments {
    /// Plan the direct memory of a JVM broker with these properties instead of weir's
    #[arg(long)]
    pub(crate) jvm: bool,
    /// The JVM's -Xmx, with its unit
    #[arg(long, requires = "jvm", default_value = "1g", value_name = "SIZE", value_parser = size)]
    heap: u64,
    /// The JVM's -XX:MaxDirectMemorySize; without it the limit is the heap's
    #[arg(long, requires = "jvm", value_name = "SIZE", value_parser = size)]
    direct: Option<u64>,
    /// Brokers that this one replicates from
    #[arg(long, requires = "jvm", default_value_t = 0, value_name = "N")]
    peers: u32,
}

/// Less than this is a forgotten unit: no JVM starts with such a heap.
const LEAST_BYTES: u64 = 1 << 20;

/// A size as the JVM's options take it: `1g`, `512m`, `1073741824`; also `1GiB`.
fn size(text: &str) -> Result<u64, String> {
    let unitless = text.strip_suffix("iB").unwrap_or(text);
    let bytes = weir_doctor::evidence::jvm_size(unitless).ok_or_else(|| {
        format!("{text} is no size: write it like the JVM's options, 1g, 512m or 1073741824")
    })?;
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

/// Prints the plan; the exit code says whether it fits.
pub(crate) fn run(
    arguments: &JvmArguments,
    properties: &PropertyArguments,
    as_json: bool,
) -> Result<ExitCode, String> {
    let (mut settings, problems) = match properties.file() {
        Some(path) => {
            let bytes =
                std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            ServerProperties::parse(&bytes)
        }
        None => (ServerProperties::default(), Vec::new()),
    };
    let mut cap = None;
    for setting in properties.overrides() {
        match setting.split_once('=') {
            Some((MAX_CACHED_BUFFER, value)) => {
                let bytes = value.parse::<i64>().ok().and_then(|bytes| u64::try_from(bytes).ok());
                cap = Some(bytes.ok_or_else(|| {
                    format!("--override {setting}: the JDK takes plain digits only and ignores {value}")
                })?);
            }
            _ => settings
                .settings
                .set_override(setting)
                .map_err(|error| format!("--override {setting}: {error}"))?,
        }
    }
    let plan = jvm_plan(&JvmInputs {
        properties: &settings,
        heap_bytes: arguments.heap,
        direct_bytes: arguments.direct,
        peers: u64::from(arguments.peers),
        max_cached_buffer_bytes: cap,
    });
    print(&if as_json { json(&plan, &problems) } else { text(&plan, &problems, arguments.peers) })?;
    Ok(if plan.excess_bytes() == 0 { ExitCode::SUCCESS } else { ExitCode::from(DOES_NOT_FIT) })
}

fn json(plan: &JvmPlan, problems: &[Problem]) -> String {
    let breaking = plan.breaking();
    let terms: Vec<_> = plan
        .terms
        .iter()
        .enumerate()
        .map(|(index, term)| {
            json!({
                "role": term.role.to_string(),
                "listener": term.listener,
                "threads": term.threads,
                "each_bytes": term.each_bytes,
                "peak_bytes": term.peak_bytes(),
                "kept_bytes": term.kept_bytes(),
                "threads_from": term.threads_from,
                "size_from": term.size_from,
                "depends_on_plugin": term.depends_on_plugin,
                "breaks_limit": breaking.contains(&index),
            })
        })
        .collect();
    let problems: Vec<_> =
        problems.iter().map(|problem| json!({ "line": problem.line, "text": problem.text.en })).collect();
    let plan = json!({
        "limit_bytes": plan.limit_bytes,
        "limit_from": if plan.limit_is_flag { "-XX:MaxDirectMemorySize" } else { "-Xmx" },
        "peak_bytes": plan.peak_bytes(),
        "kept_bytes": plan.kept_bytes(),
        "excess_bytes": plan.excess_bytes(),
        "fits": plan.excess_bytes() == 0,
        "fitting_socket_request_max_bytes": plan.fitting_request_bytes(),
        "tls_listeners": plan.tls_listeners,
        "tls_connection_bytes": TLS_CONNECTION_BYTES,
        "terms": terms,
        "problems": problems,
    });
    format!("{plan:#}\n")
}

fn text(plan: &JvmPlan, problems: &[Problem], peers: u32) -> String {
    let mut out = String::from("direct memory of a JVM broker, each thread with its largest transfer\n\n");
    let breaking = plan.breaking();
    let name = |index: usize| {
        plan.terms.get(index).map_or(String::new(), |term| match &term.listener {
            Some(listener) => format!("{} ({listener})", term.role),
            None => term.role.to_string(),
        })
    };
    let width = (0..plan.terms.len()).map(|index| name(index).chars().count()).max().unwrap_or(0).max(5);
    // Writing to a string does not fail.
    for (index, term) in plan.terms.iter().enumerate() {
        let mark = if breaking.contains(&index) { '!' } else { ' ' };
        let _ = writeln!(
            out,
            "{mark} {:width$}  {:>5} × {:>13} = {:>16} = {:>10}  {}, {}",
            name(index),
            term.threads,
            exact(term.each_bytes),
            exact(term.peak_bytes()),
            human(term.peak_bytes()),
            term.threads_from,
            term.size_from,
        );
    }
    let rows = [
        ("sum", plan.peak_bytes(), String::new()),
        (
            "limit",
            plan.limit_bytes,
            if plan.limit_is_flag {
                "-XX:MaxDirectMemorySize"
            } else {
                "-Xmx, because -XX:MaxDirectMemorySize is not set"
            }
            .to_owned(),
        ),
        ("kept", plan.kept_bytes(), "what stays in the threads' caches afterwards".to_owned()),
    ];
    out.push('\n');
    for (label, bytes, why) in rows {
        let size = format!("{} = {}", exact(bytes), human(bytes));
        let row = format!("  {label:5}  {size:36} {why}");
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out.push('\n');
    if plan.excess_bytes() == 0 {
        let _ = writeln!(
            out,
            "It fits: {} bytes are left.",
            exact(plan.limit_bytes.saturating_sub(plan.peak_bytes()))
        );
    } else {
        let terms: Vec<_> = breaking.iter().map(|index| name(*index)).collect();
        let _ = writeln!(
            out,
            "It does not fit: {} bytes too much. What breaks the limit: {}.",
            exact(plan.excess_bytes()),
            terms.join(", ")
        );
        if let Some(bytes) = plan.fitting_request_bytes() {
            let _ = writeln!(out, "With socket.request.max.bytes={bytes} it fits.");
        }
    }
    if !plan.tls_listeners.is_empty() {
        let _ = writeln!(
            out,
            "TLS ({}): each connection that is sent file data keeps {} bytes more; they are not in the sum.",
            plan.tls_listeners.join(", "),
            exact(TLS_CONNECTION_BYTES)
        );
    }
    if plan.terms.iter().any(|term| term.depends_on_plugin) {
        out.push_str("Tiered storage: whether the readers' buffers are direct depends on the plugin; its own memory is not in the sum.\n");
    }
    if peers == 0 {
        out.push_str("Replica fetchers are not in the sum: say with --peers how many brokers this one replicates from.\n");
    }
    out.push_str("From JDK 24 on these bytes are outside the limit and come on top of it.\n");
    for problem in problems {
        let _ = writeln!(out, "line {}: {}", problem.line, problem.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> (JvmPlan, Vec<Problem>) {
        let (settings, problems) = ServerProperties::parse(text.as_bytes());
        let inputs = JvmInputs {
            properties: &settings,
            heap_bytes: 1 << 30,
            direct_bytes: None,
            peers: 2,
            max_cached_buffer_bytes: None,
        };
        (jvm_plan(&inputs), problems)
    }

    #[test]
    fn the_text_names_the_terms_that_break_the_limit_and_what_fits() {
        let (broken, problems) = plan("num.network.threads=80\nnum.partitions=x\n");
        let shown = text(&broken, &problems, 2);
        assert!(
            shown.contains("! network threads (PLAINTEXT)     80 ×   104,857,600 =    8,388,608,000"),
            "{shown}"
        );
        assert!(
            shown.contains("It does not fit")
                && shown.contains("breaks the limit: network threads (PLAINTEXT).")
        );
        assert!(shown.contains("-Xmx, because") && shown.contains("line 2: "), "{shown}");
        let (fits, problems) = plan("");
        let shown = text(&fits, &problems, 0);
        assert!(shown.contains("It fits") && shown.contains("--peers"), "{shown}");
    }

    /// A published re-check of these readers gave 5.77 GiB, which are GB.
    #[test]
    fn sums_are_exact_bytes_beside_one_binary_unit() {
        let (readers, _) = plan("remote.log.storage.system.enable=true\nremote.log.reader.threads=100\n");
        let shown = text(&readers, &[], 2);
        assert!(shown.contains("100 ×    57,671,680 =    5,767,168,000 =   5.37 GiB"), "{shown}");
    }

    #[test]
    fn json_says_the_same() {
        let (broken, problems) = plan("num.network.threads=80\n");
        let value: serde_json::Value = serde_json::from_str(&json(&broken, &problems)).unwrap();
        assert_eq!(value["fits"], false);
        assert_eq!(value["terms"][0]["breaks_limit"], true);
        assert_eq!(value["terms"][0]["peak_bytes"], 8_388_608_000u64);
        assert_eq!(value["excess_bytes"].as_u64(), Some(broken.excess_bytes()));
    }

    #[test]
    fn sizes_are_written_as_for_the_jvm() {
        assert_eq!(size("1g"), Ok(1 << 30));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for text in ["", "0", "1gb", "x", "-1"] {
            assert!(size(text).is_err(), "{text}");
        }
        // `-Xmx16` is 16 bytes to a JVM, too.
        assert_eq!(
            size("16").unwrap_err(),
            "16 is 16 bytes, less than the 1,048,576 that a JVM needs: a number without a unit is bytes; 16g?"
        );
        assert!(size("512k").unwrap_err().starts_with("512k is 524,288 bytes"));
    }
}
