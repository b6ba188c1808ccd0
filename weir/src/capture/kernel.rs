//! What the kernel says of the process, as texts that say themselves what they are.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::target::Target;

const GROUPS: &str = "/sys/fs/cgroup";
/// Files of a control group that tell of memory, in both versions.
const FILES: [&str; 11] = [
    "memory.max",
    "memory.high",
    "memory.current",
    "memory.peak",
    "memory.swap.max",
    "memory.events",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.failcnt",
    "memory.oom_control",
];

/// Files and their content, or why there is none.
pub(super) fn texts(target: &Target) -> Vec<(&'static str, Result<String, String>)> {
    let pid = target.pid;
    let read = |name: &str| {
        let path = format!("/proc/{pid}/{name}");
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    };
    vec![
        ("proc-status.txt", read("status")),
        ("proc-limits.txt", read("limits")),
        ("proc-smaps_rollup.txt", read("smaps_rollup")),
        ("cgroup.txt", read("cgroup").map(|groups| group(target, &groups))),
        ("machine.txt", read("maps").and_then(|maps| machine(pid, maps.lines().count()))),
    ]
}

/// The groups of the process from the inside to the root, their files as `grep . FILE…` prints them.
fn group(target: &Target, groups: &str) -> String {
    let mut out = groups.to_owned();
    let mut folders: Vec<(PathBuf, PathBuf)> = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let base = match controllers {
            "" => PathBuf::from(GROUPS),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                Path::new(GROUPS).join("memory")
            }
            _ => continue,
        };
        let inside = Path::new(path.trim_start_matches('/'));
        // In a container the path may be that of the host, which is not mounted; then the root is the container's own.
        let inside = if base.join(inside).is_dir() { inside } else { Path::new("") };
        folders.extend(inside.ancestors().map(|folder| (base.join(folder), base.join(folder))));
    }
    // From outside, a container's own view shows limits that this mount may not.
    if !target.same_mounts {
        folders.push((target.seen(Path::new(GROUPS)), Path::new(GROUPS).join("container")));
    }
    for (folder, shown) in folders {
        for file in FILES {
            let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
            for line in text.lines() {
                // Writing to a string does not fail.
                let _ = writeln!(out, "{}:{line}", shown.join(file).display());
            }
        }
    }
    out
}

fn machine(pid: u32, maps: usize) -> Result<String, String> {
    let memory = fs::read_to_string("/proc/meminfo").map_err(|error| format!("/proc/meminfo: {error}"))?;
    let limit = "/proc/sys/vm/max_map_count";
    let max_maps = fs::read_to_string(limit).map_err(|error| format!("{limit}: {error}"))?;
    let memory: String = memory
        .lines()
        .filter(|line| {
            ["MemTotal:", "MemFree:", "MemAvailable:", "SwapTotal:", "SwapFree:"]
                .iter()
                .any(|name| line.starts_with(name))
        })
        .fold(String::new(), |all, line| all + line + "\n");
    Ok(format!("{memory}vm.max_map_count = {}\n{maps} /proc/{pid}/maps\n", max_maps.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_doctor::evidence::{Evidence, FileKind};

    #[test]
    fn what_is_collected_is_understood() {
        let own = Target {
            pid: std::process::id(),
            uid: 0,
            gid: 0,
            exe: None,
            same_mounts: true,
            settings: None,
            log_dirs: Vec::new(),
        };
        let mut evidence = Evidence::default();
        for (name, text) in texts(&own) {
            // A kernel may be built without one of them.
            let Ok(text) = text else { continue };
            evidence.read(Path::new(name), text.as_bytes());
        }
        for file in &evidence.files {
            assert_eq!(
                (file.kinds.as_slice(), file.problems.as_slice()),
                (&[FileKind::Kernel][..], &[][..]),
                "{file:?}"
            );
        }
        let figure = |figure: fn(&weir_doctor::evidence::Kernel) -> Option<(u64, u64)>| {
            evidence.kernel.iter().find_map(|found| figure(&found.value))
        };
        assert!(figure(|kernel| kernel.resident).is_some_and(|(bytes, _)| bytes > 1 << 20));
        assert!(figure(|kernel| kernel.machine).is_some() && figure(|kernel| kernel.max_maps).is_some());
        assert!(figure(|kernel| kernel.maps).is_some_and(|(maps, _)| maps > 10));
    }
}
