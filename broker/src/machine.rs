//! What the machine says of itself: how much memory it and the control groups of this process let it have, read from
//! `/proc` and `/sys`, and which file systems should be mounted, from `/etc/fstab`.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

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

/// The mount point in `/etc/fstab` at or above `path` on which nothing is mounted, if there is one.
pub(crate) fn missing_mount(path: &Path) -> Option<PathBuf> {
    let tables = (read_to_string("/etc/fstab").ok()?, read_to_string("/proc/self/mountinfo").ok()?);
    let path = std::path::absolute(path).ok()?;
    missing_mount_in(&tables.0, &tables.1, &path)
}

fn missing_mount_in(fstab: &str, mounted: &str, path: &Path) -> Option<PathBuf> {
    let mounted: Vec<PathBuf> =
        mounted.lines().filter_map(|line| line.split_whitespace().nth(4)).map(unescaped).collect();
    fstab
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(unescaped)
        .filter(|point| point.is_absolute() && point.parent().is_some() && path.starts_with(point))
        .find(|point| !mounted.contains(point))
}

/// A path as both tables write it: what would part the fields is `\\` and three octal digits.
fn unescaped(field: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => path.push(char::from(code)),
            None => path.push('\\'),
        }
        rest = if code.is_some() { &after[3..] } else { after };
    }
    path.push_str(rest);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_that_is_not_mounted_is_found_above_a_path() {
        let fstab = "# <file system> <mount point>\nUUID=1 / ext4 defaults 0 1\n/dev/sdb1 /mnt/disk ext4 nofail 0 2\n\
                     /dev/sdc1 /mnt/two\\040words xfs defaults 0 2\nUUID=2 none swap sw 0 0\n";
        let root = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n";
        let disk = "30 22 8:17 / /mnt/disk rw - ext4 /dev/sdb1 rw\n31 22 8:33 / /mnt/two\\040words rw - xfs /dev/sdc1 rw\n";
        let missing = |mounted: &str, path: &str| missing_mount_in(fstab, mounted, Path::new(path));
        assert_eq!(missing(root, "/mnt/disk/kafka/logs"), Some(PathBuf::from("/mnt/disk")));
        assert_eq!(missing(root, "/mnt/disk"), Some(PathBuf::from("/mnt/disk")));
        assert_eq!(missing(root, "/mnt/two words/a"), Some(PathBuf::from("/mnt/two words")));
        for path in ["/var/lib/kafka", "/mnt/disk2", "/mnt", "/"] {
            assert_eq!(missing(root, path), None, "{path}");
        }
        let all = format!("{root}{disk}");
        for path in ["/mnt/disk/kafka/logs", "/mnt/two words/a"] {
            assert_eq!(missing(&all, path), None, "{path}");
        }
    }

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
