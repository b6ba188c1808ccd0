//! What the kernel says about this process, read from `/proc` into a buffer on the stack.

use std::fs::File;
use std::io::Read;

/// Memory of a process as the kernel counts it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// Anonymous memory: what the contract bounds.
    pub(crate) anonymous: u64,
    /// Pages of files that are mapped or were read through a mapping.
    pub(crate) file: u64,
    /// Threads.
    pub(crate) threads: u64,
}

/// Reads `/proc/self/status`; `None` where there is no such thing.
pub(crate) fn process_memory() -> Option<ProcessMemory> {
    let mut buffer = [0; 4096];
    let mut file = File::open("/proc/self/status").ok()?;
    let mut length = 0;
    loop {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            count => length += count,
        }
    }
    parse(std::str::from_utf8(&buffer[..length]).ok()?)
}

/// Number of open descriptors, `None` where the kernel does not say. Linux tells it as the size of the directory since
/// 6.2; before that it is 0 and taken as unknown.
pub(crate) fn open_descriptors() -> Option<u64> {
    std::fs::metadata("/proc/self/fd").ok().map(|metadata| metadata.len()).filter(|count| *count > 0)
}

/// Bytes that this process had read from and written to storage, `None` where the kernel does not say.
pub(crate) fn disk_bytes() -> Option<(u64, u64)> {
    let mut buffer = [0; 512];
    let length = File::open("/proc/self/io").ok()?.read(&mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((number("read_bytes:")?, number("write_bytes:")?))
}

/// Processor time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn parse(status: &str) -> Option<ProcessMemory> {
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(ProcessMemory {
        anonymous: number("RssAnon:")? * 1024,
        file: number("RssFile:")? * 1024,
        threads: number("Threads:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_of_the_kernel_are_bytes_here() {
        let status = "Name:\tweir\nRssAnon:\t    1200 kB\nRssFile:\t 34 kB\nThreads:\t7\n";
        assert_eq!(parse(status), Some(ProcessMemory { anonymous: 1_228_800, file: 34_816, threads: 7 }));
        assert_eq!(parse("Name:\tweir\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_a_thread() {
        let memory = process_memory().unwrap();
        assert!(memory.anonymous > 0 && memory.threads > 0);
        assert!(cpu_seconds() >= 0.0);
    }
}
