//! The process: whether it is a JVM that can be asked, as whom, from where, and where it keeps its logs.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_doctor::evidence::ServerProperties;

use super::Settings;

/// Where Kafka keeps its logs when nobody says.
const DEFAULT_LOG_DIR: &str = "/tmp/kafka-logs";

/// A JVM.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its process id, as this process sees it.
    pub(crate) pid: u32,
    /// Its effective user.
    pub(crate) uid: u32,
    /// Its effective group.
    pub(crate) gid: u32,
    /// The `java` that it runs.
    pub(crate) exe: Option<PathBuf>,
    /// Whether it sees the same files: no container of its own.
    pub(crate) same_mounts: bool,
    /// The broker's settings, if it is a broker.
    pub(crate) settings: Option<Settings>,
    /// Folders of a broker's logs, as the process names them.
    pub(crate) log_dirs: Vec<PathBuf>,
}

impl Target {
    /// Looks a process up.
    ///
    /// # Errors
    /// There is no such process, it is no JVM, or it is another user's.
    pub(crate) fn of(pid: u32) -> Result<Self, String> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .map_err(|error| format!("process {pid} cannot be looked at: {error}"))?;
        let (uid, gid) = (effective(&status, "Uid:"), effective(&status, "Gid:"));
        let (Some(uid), Some(gid)) = (uid, gid) else {
            return Err(format!("/proc/{pid}/status names no user"));
        };
        let own = rustix::process::geteuid().as_raw();
        if own != 0 && own != uid {
            let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
            return Err(format!(
                "process {pid} runs as {}, this command as {}: a JVM answers its own user only. Run it as that user: sudo -u \
                 {} weir doctor capture --pid {pid} …",
                user(&users, uid),
                user(&users, own),
                name(&users, uid).map_or_else(|| format!("'#{uid}'"), str::to_owned),
            ));
        }
        let maps = fs::read(format!("/proc/{pid}/maps"))
            .map_err(|error| format!("the maps of process {pid} cannot be read: {error}"))?;
        if !maps.windows(9).any(|part| part == b"libjvm.so") {
            // The signal that asks a JVM to listen ends every other process.
            return Err(format!("process {pid} is no JVM: it has no libjvm.so"));
        }
        let link = |path: String| fs::read_link(path).ok();
        let arguments = arguments(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        let mut target = Self {
            pid,
            uid,
            gid,
            exe: link(format!("/proc/{pid}/exe")),
            same_mounts: link(format!("/proc/{pid}/ns/mnt")) == link("/proc/self/ns/mnt".to_owned()),
            settings: None,
            log_dirs: Vec::new(),
        };
        if let Some((file, overrides)) = broker(&arguments) {
            let path = PathBuf::from(file);
            let text = fs::read(target.seen(&path)).map_err(|error| format!("{}: {error}", path.display()));
            let (mut parsed, _) =
                text.as_ref().map_or_else(|_| Default::default(), |text| ServerProperties::parse(text));
            for setting in overrides {
                // What Kafka refuses has no effect.
                let _ = parsed.settings.set_override(&setting);
            }
            target.log_dirs = log_dirs(&parsed);
            let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
            target.settings = Some(Settings { path, text });
        }
        Ok(target)
    }

    /// How this process reaches a path of the JVM.
    pub(crate) fn seen(&self, path: &Path) -> PathBuf {
        let pid = self.pid;
        match path.strip_prefix("/") {
            Ok(path) => Path::new(&format!("/proc/{pid}/root")).join(path),
            Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
        }
    }

    /// Whether the JVM reaches the same folder by the same path.
    pub(crate) fn sees(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
        identity(path).is_some_and(|here| identity(&self.seen(path)) == Some(here))
    }

    /// What it has in RAM and no file backs; as much as its heap at least.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }
}

/// The second of the ids behind a label of `/proc/N/status`.
fn effective(status: &str, label: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn name(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

fn user(users: &str, uid: u32) -> String {
    name(users, uid).map_or_else(|| format!("user {uid}"), |name| format!("user {uid} ({name})"))
}

fn arguments(cmdline: &[u8]) -> Vec<String> {
    let words = cmdline.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| std::ffi::OsString::from_vec(word.to_vec()).to_string_lossy().into_owned()).collect()
}

/// The file of settings behind the main class of a broker, and the settings that outrank it.
fn broker(arguments: &[String]) -> Option<(&str, Vec<String>)> {
    let at = arguments.iter().position(|word| word == "kafka.Kafka")?;
    let rest = arguments.get(at + 1..)?;
    let file = rest.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    let overrides = rest
        .iter()
        .enumerate()
        .filter_map(|(index, word)| match word.strip_prefix("--override=") {
            Some(setting) => Some(setting.to_owned()),
            None if word == "--override" => rest.get(index + 1).cloned(),
            None => None,
        })
        .collect();
    Some((file, overrides))
}

fn log_dirs(settings: &ServerProperties) -> Vec<PathBuf> {
    let said = settings.text("log.dirs").or_else(|| settings.text("log.dir")).unwrap_or(DEFAULT_LOG_DIR);
    let more = ["metadata.log.dir", "remote.log.storage.local.dir"]
        .into_iter()
        .filter_map(|name| settings.text(name));
    let all = said.split(',').chain(more).map(str::trim).filter(|path| !path.is_empty());
    all.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brokers_command_line_names_its_settings_and_its_logs() {
        let words = arguments(
            b"java\0-Xmx1g\0-cp\0/k/libs/*\0kafka.Kafka\0/etc/server.properties\0--override\0log.dirs=/d1, /d2\0--override=x=1\0",
        );
        let (file, overrides) = broker(&words).unwrap();
        assert_eq!(
            (file, overrides.as_slice()),
            ("/etc/server.properties", &["log.dirs=/d1, /d2".to_owned(), "x=1".to_owned()][..])
        );
        let (mut settings, _) = ServerProperties::parse(b"log.dirs=/a\nmetadata.log.dir=/m\n");
        assert_eq!(log_dirs(&settings), [PathBuf::from("/a"), PathBuf::from("/m")]);
        settings.settings.set_override(&overrides[0]).unwrap();
        assert_eq!(log_dirs(&settings), [PathBuf::from("/d1"), PathBuf::from("/d2"), PathBuf::from("/m")]);
        assert_eq!(log_dirs(&ServerProperties::default()), [PathBuf::from(DEFAULT_LOG_DIR)]);
        assert_eq!(broker(&arguments(b"java\0-jar\0x.jar\0")), None);
    }

    #[test]
    fn what_is_no_jvm_is_left_alone() {
        let own = Target::of(std::process::id()).unwrap_err();
        assert!(own.contains("is no JVM"), "{own}");
        let absent = Target::of(u32::MAX).unwrap_err();
        assert!(absent.contains("4294967295 cannot be looked at"), "{absent}");
    }

    #[test]
    fn users_are_named() {
        let users = "root:x:0:0:root:/root:/bin/sh\nkafka:x:1001:1001::/:/bin/false\n";
        assert_eq!(user(users, 1001), "user 1001 (kafka)");
        assert_eq!(user(users, 7), "user 7");
        assert_eq!(effective("Name:\tx\nUid:\t1000\t1001\t1000\t1000\n", "Uid:"), Some(1001));
    }
}
