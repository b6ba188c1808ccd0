//! How much memory the machine and the control groups of this process let it have, read from `/proc` and `/sys`.

use std::fs::read_to_string;
use std::path::Path;

/// The memory that this process can have at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// How much.
    pub(crate) bytes: u64,
    /// Who says so.
    pub(crate) of: &'static str,
}

/// The smallest limit on the memory of this process, `None` where the system tells none.
pub(crate) fn memory_limit() -> Option<MemoryLimit> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<MemoryLimit> {
    let machine = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| {
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let bytes = kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)?;
        Some(MemoryLimit { bytes, of: "the machine" })
    });
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let grouped = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match controllers {
            "" => limits_of_group(&root.join("sys/fs/cgroup"), path, "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                limits_of_group(&root.join("sys/fs/cgroup/memory"), path, "memory.limit_in_bytes")
            }
            _ => Vec::new(),
        }
    });
    let grouped = grouped.map(|bytes| MemoryLimit { bytes, of: "the control group" });
    machine.into_iter().chain(grouped).min_by_key(|limit| limit.bytes)
}

/// The limits of a group and of the groups around it. Inside a container the path may be one of the host, which is not
/// there: the mount itself is the group then.
fn limits_of_group(mount: &Path, path: &str, file: &str) -> Vec<u64> {
    let path = Path::new(path.trim_start_matches('/'));
    let limit = |group: &Path| read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok();
    path.ancestors().filter_map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_smallest_of_machine_and_groups_is_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let limit = |bytes, of| Some(MemoryLimit { bytes, of });
        assert_eq!(limit_below(root), None);
        write(root, "proc/meminfo", "MemTotal:        1024 kB\nMemFree:    1 kB\n");
        assert_eq!(limit_below(root), limit(1 << 20, "the machine"));
        write(root, "proc/self/cgroup", "0::/a/b\n");
        write(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit_below(root), limit(1 << 20, "the machine"));
        write(root, "sys/fs/cgroup/a/memory.max", "65536\n");
        assert_eq!(limit_below(root), limit(65_536, "the control group"));
    }

    #[test]
    fn groups_of_the_first_version_and_paths_of_the_host_are_understood() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/self/cgroup", "3:cpu,memory:/docker/x\n2:pids:/docker/x\n");
        write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(limit_below(root), Some(MemoryLimit { bytes: 4096, of: "the control group" }));
    }
}
