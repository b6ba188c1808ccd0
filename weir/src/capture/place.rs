//! Where the evidence goes: a new folder, none of Kafka's, on a file system that has room.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Component, Path, PathBuf};

use weir_doctor::findings::{exact, human};

use super::target::Target;

/// Entries of a folder that are looked at for signs of Kafka.
const MAX_ENTRIES: usize = 100_000;
/// Files that only a folder of Kafka's logs has.
const MARKS: [&str; 4] = [
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
];
/// What a dump leaves free at least, of a file system that a broker writes to.
const KEEP_FREE_PERCENT: u64 = 5;

/// The folder of a capture.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes the folder, which only the JVM's user can read, or takes an empty one.
    ///
    /// # Errors
    /// It lies in a folder of Kafka's logs, has something in it, cannot be made, or is not seen by a JVM that should write
    /// a dump into it.
    pub(crate) fn make(dir: &Path, target: &Target, for_dump: bool) -> Result<Self, String> {
        let shown = dir.display();
        let path = std::path::absolute(dir).map_err(|error| format!("{shown}: {error}"))?;
        if path.to_string_lossy().contains(['"', '\n']) {
            return Err(format!("{shown}: a JVM cannot be told a path with a quotation mark or a new line"));
        }
        let existing = path
            .ancestors()
            .find(|ancestor| fs::symlink_metadata(ancestor).is_ok())
            .unwrap_or(Path::new("/"));
        // `new/../logs` would lead into the logs once `new` is made.
        let to_make = path.strip_prefix(existing).unwrap_or(&path);
        if to_make.components().any(|part| part == Component::ParentDir) {
            return Err(format!(
                "{shown}: behind a folder that is not there yet a path must not go back by .."
            ));
        }
        let existing = existing.canonicalize().map_err(|error| format!("{}: {error}", existing.display()))?;
        if let Some(reason) = belongs_to_kafka(&existing, target) {
            return Err(format!(
                "{shown} is not written to: {reason}. A dump there could fill the broker's disk; choose another folder"
            ));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        }
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut entries = fs::read_dir(&path).map_err(|error| format!("{shown}: {error}"))?;
                if entries.next().is_some() {
                    return Err(format!("{shown} is not empty; a capture is never mixed with anything else"));
                }
            }
            Err(error) => return Err(format!("{shown}: {error}")),
        }
        let path = path.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
        if rustix::process::geteuid().is_root() && target.uid != 0 {
            chown(&path, Some(target.uid), Some(target.gid)).map_err(|error| format!("{shown}: {error}"))?;
        }
        if for_dump && !target.sees(&path) {
            let _ = fs::remove_dir(&path);
            return Err(format!(
                "process {} does not see {} (it has a file system of its own, as in a container), and it is the JVM itself that \
                 writes the dump: run this command inside of the container, name a folder that both have by the same path, or \
                 take --no-dump",
                target.pid,
                path.display()
            ));
        }
        Ok(Self { path })
    }

    /// The folder, from the root.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why a dump of so much heap does not go here.
    pub(crate) fn no_room_for(&self, heap_bytes: u64, target: &Target) -> Option<String> {
        let space = match rustix::fs::statvfs(&self.path) {
            Ok(space) => space,
            Err(error) => {
                return Some(format!("the free space of {} is not known: {error}", self.path.display()));
            }
        };
        let device = |path: &Path| fs::metadata(path).ok().map(|data| data.dev());
        let here = device(&self.path);
        let shared = target.log_dirs.iter().find(|dir| device(&target.seen(dir)) == here);
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let keep = if shared.is_some() {
            space.f_blocks.saturating_mul(space.f_frsize) / 100 * KEEP_FREE_PERCENT
        } else {
            0
        };
        let need = dump_bytes(heap_bytes);
        if need.saturating_add(keep) <= free {
            return None;
        }
        let why = shared.map_or(String::new(), |dir| {
            format!(", and {} bytes must stay free for the broker's logs in {}", exact(keep), dir.display())
        });
        Some(format!(
            "no room for the heap dump: {} bytes are free under {}, the dump of a heap with {} bytes in use ({}) may take {}{why}",
            exact(free),
            self.path.display(),
            exact(heap_bytes),
            human(heap_bytes),
            exact(need),
        ))
    }
}

/// The most that a dump is thought to take: references of 4 bytes in the heap are 8 in a dump.
fn dump_bytes(heap_bytes: u64) -> u64 {
    heap_bytes.saturating_add(heap_bytes / 2).saturating_add(16 << 20)
}

/// Why a folder that exists is one of Kafka's, or lies in one.
fn belongs_to_kafka(existing: &Path, target: &Target) -> Option<String> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    for ancestor in existing.ancestors() {
        let here = identity(ancestor);
        if let Some(dir) =
            target.log_dirs.iter().find(|dir| here.is_some() && identity(&target.seen(dir)) == here)
        {
            return Some(format!(
                "it lies in {}, where process {} keeps its logs",
                dir.display(),
                target.pid
            ));
        }
        if let Some(mark) = MARKS.iter().find(|mark| ancestor.join(mark).exists()) {
            return Some(format!("{} is a folder of Kafka's logs: it has {mark}", ancestor.display()));
        }
        if let Some(segment) = segment(ancestor) {
            return Some(format!("{} is a folder of Kafka's logs: it has {segment}", ancestor.display()));
        }
    }
    // Folders of partitions lie beside the new one.
    let entries = fs::read_dir(existing).ok()?;
    entries.take(MAX_ENTRIES).filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (_, number) = name.rsplit_once('-')?;
        let is_partition = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let segment = is_partition.then(|| segment(&entry.path())).flatten()?;
        Some(format!("{} is a folder of Kafka's logs: it has {name}/{segment}", existing.display()))
    })
}

/// A segment of a log in a folder: twenty digits and `.log`.
fn segment(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?;
    entries.take(MAX_ENTRIES).filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let digits = name.strip_suffix(".log")?;
        (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(log_dirs: Vec<PathBuf>) -> Target {
        Target {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            exe: None,
            same_mounts: true,
            settings: None,
            log_dirs,
        }
    }

    #[test]
    fn no_folder_of_kafkas_is_written_to() {
        let temporary = tempfile::tempdir().unwrap();
        let logs = temporary.path().join("logs");
        let partition = logs.join("t-0");
        fs::create_dir_all(&partition).unwrap();
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(&logs, &link).unwrap();
        let known = target(vec![logs.clone()]);
        for dir in [logs.clone(), logs.join("new"), partition.join("deep/er"), link.join("new"), link.clone()]
        {
            let error = Place::make(&dir, &known, true).unwrap_err();
            assert!(error.contains("where process") && error.contains("keeps its logs"), "{error}");
        }
        // Without a word from the process, by what lies there.
        let unknown = target(Vec::new());
        fs::write(partition.join("00000000000000000042.log"), b"").unwrap();
        for (dir, mark) in [
            (logs.join("new"), "t-0/00000000000000000042.log"),
            (partition.join("new"), "00000000000000000042.log"),
        ] {
            let error = Place::make(&dir, &unknown, true).unwrap_err();
            assert!(error.contains(mark), "{error}");
        }
        fs::write(logs.join("meta.properties"), b"").unwrap();
        let error = Place::make(&logs.join("a/b"), &unknown, true).unwrap_err();
        assert!(error.contains("it has meta.properties"), "{error}");
        assert!(!logs.join("a").exists() && !logs.join("new").exists());
        // Ways round: through a folder that is not there, and back from one that is.
        for dir in ["absent/../logs/new", "absent/deep/../../link/new", "link/../logs/new", "./logs/./new"] {
            Place::make(&temporary.path().join(dir), &known, true).unwrap_err();
            assert!(!logs.join("new").exists() && !temporary.path().join("absent").exists(), "{dir}");
        }
        Place::make(&temporary.path().join("beside/it"), &known, true).unwrap();
    }

    #[test]
    fn the_folder_is_new_or_empty_and_nobody_elses() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("capture");
        let place = Place::make(&dir, &target(Vec::new()), true).unwrap();
        assert_eq!(fs::metadata(place.path()).unwrap().mode() & 0o777, 0o700);
        Place::make(&dir, &target(Vec::new()), true).unwrap();
        fs::write(dir.join("x"), b"").unwrap();
        let error = Place::make(&dir, &target(Vec::new()), true).unwrap_err();
        assert!(error.contains("is not empty"), "{error}");
        assert!(Place::make(&dir.join("x/y"), &target(Vec::new()), true).is_err());
    }

    #[test]
    fn a_dump_without_room_is_refused_with_both_numbers() {
        let temporary = tempfile::tempdir().unwrap();
        let place = Place::make(&temporary.path().join("capture"), &target(Vec::new()), true).unwrap();
        let error = place.no_room_for(1 << 60, &target(Vec::new())).unwrap();
        assert!(
            error.contains("a heap with 1,152,921,504,606,846,976 bytes") && error.contains("bytes are free"),
            "{error}"
        );
        assert!(place.no_room_for(0, &target(Vec::new())).is_none());
        // Beside the broker's logs more must stay free than a dump may take elsewhere.
        let space = rustix::fs::statvfs(place.path()).unwrap();
        let free = space.f_bavail * space.f_frsize;
        let heap = (free.saturating_sub(32 << 20)) / 3 * 2;
        let beside = target(vec![temporary.path().to_path_buf()]);
        let error = place.no_room_for(heap, &beside).unwrap();
        assert!(error.contains("must stay free for the broker's logs"), "{error}");
    }
}
