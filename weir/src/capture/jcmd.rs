//! Finding `jcmd` and calling it as the user whose JVM it is, never longer than a time-out.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::target::Target;

/// Most of an answer that is looked at; no answer of a JVM is larger.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// The `jcmd` that was named, else that of the process's own JDK, of `JAVA_HOME`, of the path.
///
/// # Errors
/// There is none; says where it was looked for.
pub(super) fn find(named: Option<&Path>, target: &Target) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return match path.is_file() {
            true => Ok(path.to_path_buf()),
            false => Err(format!("--jcmd {}: there is no such file", path.display())),
        };
    }
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let (Some(java), true) = (&target.exe, target.same_mounts) {
        candidates.extend(beside(java));
    }
    if let Some(home) = std::env::var_os("JAVA_HOME") {
        candidates.push(Path::new(&home).join("bin/jcmd"));
    }
    if let Some(path) = std::env::var_os("PATH") {
        candidates.extend(std::env::split_paths(&path).map(|folder| folder.join("jcmd")));
    }
    if let Some(found) = candidates.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    let own = target.exe.as_ref().map_or(String::new(), |java| format!(" beside {},", java.display()));
    Err(format!(
        "there is no jcmd{own} under JAVA_HOME or on the path: a runtime without tools has none; install a JDK (of the same \
         version or a later one) and name it with --jcmd"
    ))
}

/// `bin/jcmd` of the JDK that `java` belongs to; in JDK 8 that may be the one around the `jre` folder.
fn beside(java: &Path) -> Vec<PathBuf> {
    let Some(bin) = java.parent() else { return Vec::new() };
    let outer = bin.parent().filter(|jre| jre.ends_with("jre")).and_then(Path::parent);
    std::iter::once(bin.join("jcmd")).chain(outer.map(|home| home.join("bin/jcmd"))).collect()
}

/// Calls `jcmd PID WORDS…`, its output going to `out`; gives the output.
///
/// # Errors
/// The call failed or took too long; the text is what it said.
pub(super) fn call(
    jcmd: &Path,
    target: &Target,
    words: &[&str],
    out: &Path,
    timeout: Duration,
) -> Result<String, String> {
    let system = |error: std::io::Error| format!("{}: {error}", jcmd.display());
    let complaints_path = out.with_extension("complaints");
    let complaints =
        File::create(&complaints_path).map_err(|error| format!("{}: {error}", complaints_path.display()))?;
    let answer = File::create(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut command = Command::new(jcmd);
    command
        .arg(target.pid.to_string())
        .args(words)
        // Options for every JVM of the user would be obeyed by this one, too.
        .env_remove("JAVA_TOOL_OPTIONS")
        .env_remove("JDK_JAVA_OPTIONS")
        .stdin(Stdio::null())
        .stdout(answer)
        .stderr(complaints);
    if rustix::process::geteuid().is_root() && target.uid != 0 {
        // A JVM answers its own user; whether it answers root, too, depends on its version.
        command.uid(target.uid).gid(target.gid).current_dir("/");
    }
    let mut child = command.spawn().map_err(system)?;
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait().map_err(system)? {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let said = read(out);
    let complaints = read(&complaints_path);
    let _ = std::fs::remove_file(&complaints_path);
    match status {
        Some(status) if status.success() => Ok(said),
        Some(status) => Err(format!("{said}{complaints}jcmd ended with {status}").trim().to_owned()),
        None => Err(format!(
            "{said}{complaints}no answer within {} s: the JVM is stopped or does not get to a safepoint; it may still do what \
             it was asked for",
            timeout.as_secs()
        )),
    }
}

fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_is_looked_for_beside_java() {
        assert_eq!(beside(Path::new("/jdk/bin/java")), [PathBuf::from("/jdk/bin/jcmd")]);
        assert_eq!(
            beside(Path::new("/jdk8/jre/bin/java")),
            [PathBuf::from("/jdk8/jre/bin/jcmd"), PathBuf::from("/jdk8/bin/jcmd")]
        );
    }
}
