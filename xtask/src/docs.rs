//! Pages of the documentation that are made from tables: `docs/properties.md`.
//!
//! The crate that owns the table writes the page; it is run, not linked, so that this program builds while the code
//! that it generates does not.

use std::path::Path;
use std::process::Command;

/// Writes the pages.
///
/// # Errors
/// What keeps a page from being made or written.
pub fn write() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let made = Command::new(cargo)
        .args(["run", "--quiet", "--package", "weir-metadata", "--example", "properties"])
        .current_dir(&root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !made.status.success() {
        return Err(format!("the page of the properties cannot be made: {}", made.status));
    }
    let path = root.join("docs/properties.md");
    std::fs::write(&path, made.stdout).map_err(|error| format!("{}: {error}", path.display()))
}
