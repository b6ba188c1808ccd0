//! The broker of the demo: this program again, as a child process in a temporary directory.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use super::{Options, memory};

/// How long it may take to serve.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// What the name of a demo's directory begins with.
const PREFIX: &str = "weir-demo-";
/// The file in it that the demo holds a lock on while it lives.
const OWNER: &str = "owner";
/// A directory that is younger may be one that is being made.
const GRACE: Duration = Duration::from_secs(60);
/// Bytes of its log that are shown when it fails.
const LOG_TAIL_BYTES: usize = 2000;

/// Old data goes quickly, so that the attack does not fill the disk: its records are not what the demo is about.
const PROPERTIES: [&str; 9] = [
    "log.segment.bytes=4194304",
    "log.retention.bytes=4194304",
    "log.retention.check.interval.ms=500",
    "log.initial.task.delay.ms=0",
    "log.segment.delete.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "auto.create.topics.enable=false",
    "node.id=1",
    // The attack connects all at once: one without a place would try again only after a second.
    "socket.listen.backlog.size=2000",
];

/// How many ports there are to choose from.
const PORTS: u64 = 17_000;

/// A running broker; killed when dropped.
pub(super) struct BrokerProcess {
    child: Child,
    kafka: SocketAddr,
    http: SocketAddr,
    // Removed with everything in it when the process has gone: it is the last but one field.
    _dir: tempfile::TempDir,
    // Tells the next demo that the directory is in use.
    _owner: File,
}

/// Makes a directory for a demo in `root`, and removes those of demos that were killed before they could.
fn make_dir(root: &Path) -> io::Result<(tempfile::TempDir, File)> {
    for entry in std::fs::read_dir(root)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_abandoned(&entry.path())
        {
            // What cannot be removed is left to whoever cleans the directory.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let dir = tempfile::Builder::new().prefix(OsStr::new(PREFIX)).tempdir_in(root)?;
    let owner = File::create(dir.path().join(OWNER))?;
    flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
    Ok((dir, owner))
}

/// Whether a directory is one of ours whose demo has gone.
fn is_abandoned(dir: &Path) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(dir) else { return false };
    let is_ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    let is_old = metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= GRACE));
    is_ours
        && is_old
        && File::open(dir.join(OWNER))
            .is_ok_and(|owner| flock(&owner, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Two ports below those that outgoing connections get: one of theirs could be taken before the broker listens, even by a
/// connection to itself of whoever waits for the broker.
fn two_ports() -> Result<(u16, u16), String> {
    let first = RandomState::new().hash_one(0) % PORTS;
    let mut numbers = (first..first + PORTS).map(|number| 15_000 + (number % PORTS) as u16);
    let mut next =
        || numbers.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).ok_or("no free port");
    Ok((next()?, next()?))
}

impl BrokerProcess {
    /// Starts a broker and waits until it is healthy.
    pub(super) async fn start(options: &Options) -> Result<Self, String> {
        let root = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let (dir, owner) = make_dir(&root)
            .map_err(|error| format!("cannot make a directory in {}: {error}", root.display()))?;
        let log_path = dir.path().join("server.log");
        let log = File::create(&log_path).map_err(|error| format!("{}: {error}", log_path.display()))?;
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let (kafka, http) = two_ports()?;
        let mut command = Command::new(program);
        command.args(["server", "--end-with-parent"]);
        for setting in PROPERTIES.map(str::to_string).into_iter().chain([
            format!("log.dirs={}", dir.path().join("data").display()),
            format!("listeners=PLAINTEXT://127.0.0.1:{kafka}"),
            format!("http.listener=127.0.0.1:{http}"),
            format!("memory.budget.bytes={}", options.budget),
        ]) {
            command.arg("--override").arg(setting);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("cannot start the broker: {error}"))?;
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut broker =
            BrokerProcess { child, kafka: address(kafka), http: address(http), _dir: dir, _owner: owner };
        let deadline = Instant::now() + START_PATIENCE;
        while memory::fetch(broker.http).await.is_err() {
            let ended =
                broker.child.try_wait().map_err(|error| format!("cannot watch the broker: {error}"))?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read(&log_path).unwrap_or_default();
                let tail = &log[log.len().saturating_sub(LOG_TAIL_BYTES)..];
                return Err(format!("the broker does not start:\n{}", String::from_utf8_lossy(tail)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(broker)
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it speaks Kafka's protocol.
    pub(super) fn kafka(&self) -> SocketAddr {
        self.kafka
    }

    /// Where it speaks HTTP.
    pub(super) fn http(&self) -> SocketAddr {
        self.http
    }

    /// Stops it as an operator would.
    pub(super) async fn stop(mut self) {
        let asked =
            Pid::from_raw(self.child.id() as i32).is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok());
        let deadline = Instant::now() + STOP_PATIENCE;
        while asked && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        // Gone already where it was stopped; both calls then do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_demo_removes_the_directories_of_killed_ones_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str, is_old: bool| {
            let dir = root.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            let owner = File::create(dir.join(OWNER)).unwrap();
            if is_old {
                File::open(&dir).unwrap().set_modified(SystemTime::now() - 2 * GRACE).unwrap();
            }
            owner
        };
        drop(make("weir-demo-killed", true));
        drop(make("weir-demo-begins", false));
        drop(make("another", true));
        let lives = make("weir-demo-lives", true);
        flock(&lives, FlockOperation::NonBlockingLockExclusive).unwrap();
        let (dir, _owner) = make_dir(root.path()).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut wanted =
            ["another", "weir-demo-begins", "weir-demo-lives"].map(|name| root.path().join(name)).to_vec();
        wanted.push(dir.path().to_path_buf());
        wanted.sort();
        assert_eq!(left, wanted);
    }
}
