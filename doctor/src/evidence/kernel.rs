//! What the kernel says of a process, of the control group that it lives in and of the machine: `/proc/N/status`, `limits`,
//! `smaps_rollup` and `cgroup`, `/proc/meminfo`, files of `/sys/fs/cgroup` as `grep . FILE…` prints them, `vm.max_map_count`
//! as `sysctl` prints it, and the number of maps as `wc -l /proc/N/maps` does.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use crate::language::text;

/// A figure and its line.
type At<T> = Option<(T, u64)>;

/// Figures of the kernel, sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The process's name, such as `java`.
    pub name: At<String>,
    /// Memory in RAM, mapped files included.
    pub resident: At<u64>,
    /// The most that this was.
    pub resident_peak: At<u64>,
    /// Memory in RAM that no file backs: heap, buffers, stacks, what libraries allocate.
    pub anonymous: At<u64>,
    /// Shared memory in RAM that no file backs.
    pub shared: At<u64>,
    /// Pages of mapped files in RAM.
    pub of_files: At<u64>,
    /// What is swapped out.
    pub swapped: At<u64>,
    /// Threads of the process.
    pub threads: At<u64>,
    /// Soft limit on open files.
    pub open_files_limit: At<u64>,
    /// Soft limit on the address space; absent where there is none.
    pub address_space_limit: At<u64>,
    /// Maps that the process has.
    pub maps: At<u64>,
    /// `vm.max_map_count`: maps that a process may have.
    pub max_maps: At<u64>,
    /// Memory of the machine.
    pub machine: At<u64>,
    /// The smallest limit on memory of the groups that hold the process; absent where none has one.
    pub group_limit: At<u64>,
    /// What the innermost group has taken, page cache included.
    pub group_current: At<u64>,
    /// Processes that the kernel killed in the innermost group for want of memory; groups around it count strangers, too.
    pub group_kills: At<u64>,
    /// Length of the path of the innermost group so far.
    innermost: usize,
}

const GROUPS: &str = "/sys/fs/cgroup/";
/// Version 1 says "no limit" by the largest multiple of a page; nothing has that much.
const NO_LIMIT: u64 = 1 << 60;

/// Whether a line gives such a text away.
pub(crate) fn is_head(text: &str) -> bool {
    let first = |start: &str| text.starts_with(start);
    first("Name:\t")
        || (["VmPeak:", "VmHWM:", "VmRSS:", "RssAnon:", "MemTotal:"].iter().any(|start| first(start))
            && text.ends_with(" kB"))
        || (first("Limit ") && text.contains("Soft Limit"))
        || text.ends_with("[rollup]")
        || (first(GROUPS) && text.contains(':'))
        || group_of(text).is_some()
        || max_maps(text).is_some()
        || maps(text).is_some()
}

/// The path in a line of `/proc/N/cgroup`: `0::/kafka`, `9:cpu,memory:/kafka`.
fn group_of(text: &str) -> Option<&str> {
    let (number, rest) = text.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || ",_=.-".contains(c);
    let is_number =
        !number.is_empty() && number.len() < 6 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && path.starts_with('/') && controllers.chars().all(legal)).then_some(path)
}

/// `vm.max_map_count = 65530` or `/proc/sys/vm/max_map_count:65530`: the value.
fn max_maps(text: &str) -> Option<&str> {
    text.strip_prefix("/proc/sys/vm/max_map_count:")
        .or_else(|| text.strip_prefix("vm.max_map_count")?.trim_start().strip_prefix('='))
        .map(str::trim)
}

/// `1234 /proc/7/maps`: the number.
fn maps(text: &str) -> Option<&str> {
    let (number, path) = text.split_once(" /proc/")?;
    path.ends_with("/maps").then_some(number)
}

/// Takes lines of these texts.
#[derive(Debug, Default)]
pub(crate) struct KernelParser {
    found: Kernel,
}

impl KernelParser {
    /// A file of a control group: `PATH/NAME:VALUE`, or `PATH/NAME:KEY VALUE` for a file of several figures.
    fn group(&mut self, text: &str, line: Line<'_>, problems: &mut Problems) {
        let Some((path, value)) = text.rsplit_once(':') else {
            problems.add(
                line.number,
                text!("no value in {seen:?}", "{seen:?} 中没有值", seen = excerpt(line.text)),
            );
            return;
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (key, number) = value.trim().split_once(' ').unwrap_or(("", value.trim()));
        let wanted = matches!(
            (name, key),
            ("memory.max" | "memory.limit_in_bytes" | "memory.current" | "memory.usage_in_bytes", "")
                | ("memory.events" | "memory.oom_control", "oom_kill")
        );
        if !wanted || number == "max" {
            return;
        }
        let Ok(number) = number.parse::<u64>() else {
            problems.add(
                line.number,
                text!(
                    "{seen:?} is no number of {name}",
                    "{name} 的值 {seen:?} 不是数字",
                    seen = excerpt(number)
                ),
            );
            return;
        };
        let at = Some((number, line.number));
        match name {
            "memory.max" | "memory.limit_in_bytes" => {
                if number < NO_LIMIT && self.found.group_limit.is_none_or(|(limit, _)| number < limit) {
                    self.found.group_limit = at;
                }
            }
            _ => {
                if folder.len() > self.found.innermost {
                    self.found.innermost = folder.len();
                    (self.found.group_current, self.found.group_kills) = (None, None);
                }
                let slot = if name == "memory.current" || name == "memory.usage_in_bytes" {
                    &mut self.found.group_current
                } else {
                    &mut self.found.group_kills
                };
                if folder.len() == self.found.innermost {
                    *slot = at;
                }
            }
        }
    }

    /// `Max open files            1024                 524288               files`
    fn limit(&mut self, text: &str, line: Line<'_>, problems: &mut Problems) {
        for (label, slot) in [
            ("Max open files ", &mut self.found.open_files_limit),
            ("Max address space ", &mut self.found.address_space_limit),
        ] {
            let Some(rest) = text.strip_prefix(label) else { continue };
            let soft = rest.split_whitespace().next().unwrap_or_default();
            if soft == "unlimited" {
                continue;
            }
            match soft.parse() {
                Ok(soft) => *slot = Some((soft, line.number)),
                Err(_) => {
                    problems.add(
                        line.number,
                        text!(
                            "{seen:?} is no limit of {label}",
                            "{label} 的值 {seen:?} 不是限额",
                            seen = excerpt(soft),
                            label = label.trim()
                        ),
                    );
                }
            }
        }
    }

    /// `VmRSS: 1234 kB` and the like; a name that means nothing here is passed over.
    fn field(&mut self, name: &str, value: &str, line: Line<'_>, problems: &mut Problems) {
        let found = &mut self.found;
        let (slot, in_kib) = match name {
            "VmRSS" | "Rss" => (&mut found.resident, true),
            "VmHWM" => (&mut found.resident_peak, true),
            "RssAnon" | "Anonymous" => (&mut found.anonymous, true),
            "RssShmem" => (&mut found.shared, true),
            "RssFile" => (&mut found.of_files, true),
            "VmSwap" | "Swap" => (&mut found.swapped, true),
            "MemTotal" => (&mut found.machine, true),
            "Threads" => (&mut found.threads, false),
            "Name" => {
                found.name = Some((excerpt(value), line.number));
                return;
            }
            _ => return,
        };
        let digits = if in_kib { value.strip_suffix(" kB") } else { Some(value) };
        let number = digits.and_then(|digits| digits.trim().parse::<u64>().ok());
        match number.and_then(|number| number.checked_mul(if in_kib { 1024 } else { 1 })) {
            Some(number) => *slot = Some((number, line.number)),
            None => problems.add(
                line.number,
                text!("{seen:?} is no value of {name}", "{name} 的值 {seen:?} 无效", seen = excerpt(value)),
            ),
        }
    }
}

impl Parser for KernelParser {
    type Output = Kernel;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        let number = |text: &str, what: &str, problems: &mut Problems| {
            let number = text.trim().parse::<u64>().ok();
            if number.is_none() {
                problems.add(
                    line.number,
                    text!(
                        "{seen:?} is no number of {what}",
                        "{what} 的值 {seen:?} 不是数字",
                        seen = excerpt(text)
                    ),
                );
            }
            number.map(|number| (number, line.number))
        };
        if text.is_empty() || text.ends_with("[rollup]") || group_of(text).is_some() {
        } else if let Some(rest) = text.strip_prefix(GROUPS) {
            self.group(rest, line, problems);
        } else if let Some(value) = max_maps(text) {
            self.found.max_maps = number(value, "maps", problems);
        } else if let Some(value) = maps(text) {
            self.found.maps = number(value, "maps", problems);
        } else if text.starts_with("Max ") || text.starts_with("Limit ") {
            self.limit(text, line, problems);
        } else if let Some((name, value)) = text.split_once(':') {
            self.field(name.trim(), value.trim(), line, problems);
        } else {
            problems.add(
                line.number,
                text!(
                    "{seen:?} is no line of /proc or of a control group",
                    "{seen:?} 不是 /proc 或控制组文件的行",
                    seen = excerpt(text)
                ),
            );
        }
    }

    fn finish(self, _: &mut Problems) -> Kernel {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    fn kernel(text: &str) -> Kernel {
        let (found, problems) = parse_text::<KernelParser>(text.as_bytes());
        assert_eq!(problems, []);
        found
    }

    #[test]
    fn status_and_rollup_say_what_is_in_ram() {
        let status = kernel(
            "Name:\tjava\nUmask:\t0022\nState:\tS (sleeping)\nVmPeak:\t 9031424 kB\nVmHWM:\t  700000 kB\nVmRSS:\t  612344 kB\n\
             RssAnon:\t  590000 kB\nRssFile:\t   22340 kB\nRssShmem:\t       4 kB\nVmSwap:\t       0 kB\nThreads:\t73\n\
             SigCgt:\t0000000181005ccf\nCpus_allowed_list:\t0-1\n",
        );
        assert_eq!(status.name, Some(("java".to_owned(), 1)));
        assert_eq!(status.resident, Some((612_344 << 10, 6)));
        assert_eq!(status.resident_peak, Some((700_000 << 10, 5)));
        assert_eq!((status.anonymous, status.of_files), (Some((590_000 << 10, 7)), Some((22_340 << 10, 8))));
        assert_eq!((status.shared, status.swapped), (Some((4096, 9)), Some((0, 10))));
        assert_eq!(status.threads, Some((73, 11)));
        let rollup = kernel(
            "55d0a3c00000-7ffd5b9fe000 ---p 00000000 00:00 0                          [rollup]\n\
             Rss:              612000 kB\nPss_Anon:         580000 kB\nAnonymous:        590001 kB\nSwap: 8 kB\n",
        );
        assert_eq!((rollup.resident, rollup.anonymous), (Some((612_000 << 10, 2)), Some((590_001 << 10, 4))));
    }

    #[test]
    fn the_smallest_limit_of_all_groups_holds_and_the_innermost_says_what_is_taken() {
        let group = kernel(
            "/sys/fs/cgroup/pod/kafka/memory.max:max\n/sys/fs/cgroup/pod/kafka/memory.current:700\n\
             /sys/fs/cgroup/pod/kafka/memory.events:low 0\n/sys/fs/cgroup/pod/kafka/memory.events:oom_kill 2\n\
             /sys/fs/cgroup/pod/memory.max:1000\n/sys/fs/cgroup/pod/memory.current:900\n/sys/fs/cgroup/memory.max:2000\n\
             /sys/fs/cgroup/pod/memory.events:oom_kill 3\n",
        );
        assert_eq!(group.group_limit, Some((1000, 5)));
        assert_eq!(group.group_current, Some((700, 2)));
        assert_eq!(group.group_kills, Some((2, 4)));
        let first = kernel(
            "/sys/fs/cgroup/memory/memory.limit_in_bytes:9223372036854771712\n/sys/fs/cgroup/memory/memory.usage_in_bytes:5\n",
        );
        assert_eq!((first.group_limit, first.group_current), (None, Some((5, 2))));
        assert_eq!(kernel("0::/../kafka\n"), Kernel::default());
    }

    #[test]
    fn limits_and_maps_are_read() {
        let limits = kernel(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 524288               files     \n\
             Max address space         unlimited            unlimited            bytes     \n",
        );
        assert_eq!((limits.open_files_limit, limits.address_space_limit), (Some((1024, 2)), None));
        assert_eq!(kernel("vm.max_map_count = 65530\n1234 /proc/7/maps\n").maps, Some((1234, 2)));
        assert_eq!(kernel("/proc/sys/vm/max_map_count:262144\n").max_maps, Some((262_144, 1)));
        assert_eq!(
            kernel("MemTotal:       24683520 kB\nMemFree: 1 kB\n").machine,
            Some((24_683_520 << 10, 1))
        );
    }

    #[test]
    fn a_damaged_figure_is_named_with_its_line() {
        let text = "Name:\tjava\nVmRSS:\tx kB\nRssAnon:\t18446744073709551615 kB\nVmHWM:\t9 kB\n???\n\
                    /sys/fs/cgroup/memory.max:many\nvm.max_map_count = \nMax open files  some\n";
        let (found, problems) = parse_text::<KernelParser>(text.as_bytes());
        assert_eq!(found.resident_peak, Some((9 << 10, 4)));
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 3, 5, 6, 7, 8]);
    }
}
