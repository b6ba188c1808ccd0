//! `weir doctor capture`: the arguments, the warnings and the question before the dump; what is taken is in `capture`.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_doctor::findings::{exact, human};

use crate::capture::{Capture, DUMP, DumpEstimate, Place, Taken, Target};
use crate::commands::print;

/// Arguments of `weir doctor capture`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The process id of the JVM
    #[arg(long, value_name = "N")]
    pid: u32,
    /// A new folder for the evidence; never one of Kafka's logs
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Leave out the heap dump, which stops the JVM longest and holds what its memory holds
    #[arg(long)]
    no_dump: bool,
    /// Do not ask before the heap dump
    #[arg(short, long)]
    yes: bool,
    /// Let the JVM collect garbage first: a smaller dump and a longer pause, and buffers that were dropped and are still
    /// reserved can no longer be seen
    #[arg(long)]
    live: bool,
    /// The jcmd to use instead of that of the process's own JDK, of JAVA_HOME or of the path
    #[arg(long, value_name = "PATH")]
    jcmd: Option<PathBuf>,
    /// The longest wait for an answer of the JVM, in seconds; the heap dump has 600 s at least
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Takes the evidence and says what is in the folder. A question that fails is an error at the end.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let target = Target::of(arguments.pid)?;
    let place = Place::make(&arguments.output, &target, !arguments.no_dump)?;
    let timeout = Duration::from_secs(arguments.timeout);
    let mut capture = Capture::new(&target, &place, arguments.jcmd.as_deref(), timeout, arguments.live)?;
    print(&format!(
        "{} of process {} with {}\n",
        place.path().display(),
        target.pid,
        capture.jcmd().display()
    ))?;
    let mut all: Vec<Taken> = Vec::new();
    capture.cheap_half(
        |question, pause| {
            if pause > Duration::from_secs(1) {
                say(&format!("{question} stops the JVM for about {} s", pause.as_secs()));
            }
        },
        |taken| show(taken, &mut all),
    );
    if !arguments.no_dump {
        dump(arguments, &capture, &mut all)?;
    }
    let failed: Vec<_> = all.iter().filter(|taken| taken.failure.is_some()).collect();
    let logs = "the broker's log and the GC log are not in it: name them beside it";
    print(&format!("\nweir doctor {}    ({logs})\n", place.path().display()))?;
    if failed.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} of {} could not be taken:", failed.len(), all.len());
    for taken in failed {
        text.push_str(&format!("\n  {}: {}", taken.file, taken.failure.as_deref().unwrap_or_default()));
    }
    Err(text)
}

/// Warns, asks where somebody can answer, and takes the dump.
fn dump(arguments: &Arguments, capture: &Capture<'_>, all: &mut Vec<Taken>) -> Result<(), String> {
    let estimate = capture.estimate();
    if let Some(reason) = capture.no_room(estimate) {
        let failure = Some(reason);
        show(Taken { file: DUMP.to_owned(), bytes: 0, took: Duration::ZERO, failure }, all);
        return Ok(());
    }
    for warning in warnings(estimate, arguments.live) {
        say(&warning);
    }
    let asks = !arguments.yes && stdin().is_terminal() && stderr().is_terminal();
    if asks && !agreed()? {
        return print("no heap dump was taken\n");
    }
    show(capture.dump(estimate), all);
    Ok(())
}

/// What one should know before the dump.
fn warnings(estimate: Option<DumpEstimate>, live: bool) -> Vec<String> {
    let pause = match estimate {
        Some(DumpEstimate { heap_bytes, pause }) => format!(
            "the heap dump stops the JVM for about {} s: {} of heap are in use, and a disk of no great speed takes 125 MiB/s",
            pause.as_secs(),
            human(heap_bytes)
        ),
        None => "the heap dump stops the JVM: about a second for each 125 MiB of heap".to_owned(),
    };
    let collection = if live { "; a full collection comes before it" } else { "" };
    vec![
        format!("{pause}{collection}"),
        "a broker that stands still longer than broker.session.timeout.ms (9 s unless it is set) loses its leaderships until it is back"
            .to_owned(),
        "the dump holds what the broker's memory holds: records of topics, passwords, keys; only the JVM's user can read the folder"
            .to_owned(),
    ]
}

fn agreed() -> Result<bool, String> {
    let _ = write!(stderr(), "Take the heap dump? [y/N] ");
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).map_err(|error| format!("no answer: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A warning goes where it is seen, whatever becomes of the output.
fn say(text: &str) {
    let _ = writeln!(stderr(), "weir: {text}");
}

fn show(taken: Taken, all: &mut Vec<Taken>) {
    let seconds = taken.took.as_secs_f64();
    let row = match &taken.failure {
        None => format!("  {:26} {seconds:6.2} s  {:>15} bytes\n", taken.file, exact(taken.bytes)),
        Some(reason) => format!("! {:26} {seconds:6.2} s  {reason}\n", taken.file),
    };
    // The folder is what matters; a reader that has gone does not end the capture.
    let _ = print(&row);
    all.push(taken);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warnings_name_pause_fencing_and_secrets() {
        let estimate = DumpEstimate { heap_bytes: 1 << 30, pause: Duration::from_secs(9) };
        let said = warnings(Some(estimate), false).join("\n");
        for part in ["for about 9 s", "1.00 GiB", "broker.session.timeout.ms", "passwords", "records"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(warnings(None, true)[0].contains("a full collection comes before it"));
    }
}
