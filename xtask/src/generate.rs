//! Schema files to source files: writes them, or checks that the committed ones are what would be written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::schema::{self, Mistake, Room};
use crate::{emit, tables};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn read(path: &Path) -> Result<String, Mistake> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Parses every schema file of the protocol crate.
pub fn rooms() -> Result<Vec<Room>, Mistake> {
    let dir = root().join("protocol/schema");
    let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "schema"));
    files.sort();
    let mut rooms = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        rooms.extend(schema::parse(&name, &read(&file)?)?);
    }
    schema::check_names(&rooms)?;
    Ok(rooms)
}

/// File name to formatted source.
fn sources() -> Result<BTreeMap<String, String>, Mistake> {
    let rooms = rooms()?;
    let tables_dir = root().join("protocol/schema");
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for room in &rooms {
        files.insert(format!("{}.rs", room.module), emit::room(room));
    }
    files.insert("api_key.rs".into(), tables::api_keys(&read(&tables_dir.join("api_keys.table"))?)?);
    files.insert("error_code.rs".into(), tables::error_codes(&read(&tables_dir.join("error_codes.table"))?)?);
    files.insert("mod.rs".into(), tables::index(&rooms));
    format(files)
}

fn format(files: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Mistake> {
    let dir = std::env::temp_dir().join(format!("weir-generate-{}", std::process::id()));
    let run = || -> Result<BTreeMap<String, String>, Mistake> {
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for (name, source) in &files {
            fs::write(dir.join(name), source).map_err(|e| format!("{name}: {e}"))?;
        }
        let output = Command::new("rustfmt")
            .args(["--edition", "2024", "--config-path"])
            .arg(root())
            .arg(dir.join("mod.rs"))
            .output()
            .map_err(|e| format!("rustfmt: {e}"))?;
        if !output.status.success() {
            return Err(format!("rustfmt: {}", String::from_utf8_lossy(&output.stderr)));
        }
        files.keys().map(|name| Ok((name.clone(), read(&dir.join(name))?))).collect()
    };
    let result = run();
    // A left-over directory in the temporary folder harms nobody.
    let _ = fs::remove_dir_all(&dir);
    result
}

fn target() -> PathBuf {
    root().join("protocol/src/messages")
}

fn committed() -> Vec<String> {
    let Ok(entries) = fs::read_dir(target()) else { return Vec::new() };
    entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect()
}

/// Writes the generated files and removes those that are no longer generated.
pub fn write() -> Result<(), Mistake> {
    let sources = sources()?;
    fs::create_dir_all(target()).map_err(|e| format!("{}: {e}", target().display()))?;
    for name in committed().iter().filter(|name| !sources.contains_key(*name)) {
        fs::remove_file(target().join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    for (name, source) in &sources {
        let path = target().join(name);
        if read(&path).ok().as_ref() != Some(source) {
            fs::write(&path, source).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    Ok(())
}

/// Fails, naming the files, if what is committed is not what the schema gives.
pub fn check() -> Result<(), Mistake> {
    let sources = sources()?;
    let mut stale: Vec<String> = sources
        .iter()
        .filter(|(n, s)| read(&target().join(n)).ok().as_ref() != Some(s))
        .map(|(n, _)| n.clone())
        .collect();
    stale.extend(committed().into_iter().filter(|name| !sources.contains_key(name)));
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("stale in protocol/src/messages (run `cargo xtask generate`): {}", stale.join(", ")))
}
