//! `weir doctor --alerts FILE`: recommended Prometheus alert rules.

use std::path::Path;

use weir_doctor::alerts::rules;
use weir_doctor::findings::Facts;

use super::output::Output;
use super::read::Input;

/// Writes the rules; a limit that the evidence does not say may be given.
pub(super) fn write(input: &Input, file: &Path, limit: Option<u64>, output: &Output) -> Result<(), String> {
    let dumps = input.dumps();
    let text = rules(&Facts::of(&input.evidence, &dumps), limit, output.language());
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
