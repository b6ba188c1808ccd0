//! A node of Apache Kafka, broker and controller in one process, in a temporary directory.
//!
//! It reads nothing from its input, which a shell in front of it holds: when this process ends, however it ends, the
//! shell sees the end of that input and kills it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::two_ports;

/// How long a start may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(240);

/// Runs a command and kills it at the end of the input.
const KEEPER: &str = r#""$@" </dev/null & node=$!; cat >/dev/null; kill -9 "$node"; wait"#;

/// A running node; ends with its drop.
pub(crate) struct Kafka {
    keeper: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Kafka {
    /// Formats a directory at `level` of the metadata and starts a node of the release whose jars lie in `libs`. These
    /// lines of properties come beside the ones that it needs.
    pub(crate) fn start(libs: &str, level: &str, properties: &str) -> Kafka {
        let dir = tempfile::tempdir().unwrap();
        let (port, controller_port) = two_ports();
        let file = dir.path().join("server.properties");
        let logging = dir.path().join("log4j.properties");
        std::fs::write(&logging, "log4j.rootLogger=OFF\n").unwrap();
        std::fs::write(
            &file,
            format!(
                "node.id=7\n{properties}\nlog.dirs={}\n\
                 listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
                 controller.quorum.voters=7@127.0.0.1:{controller_port}\n",
                dir.path().join("data").display()
            ),
        )
        .unwrap();
        let output = File::create(dir.path().join("output")).unwrap();
        let java = [
            "java".to_string(),
            "-Xmx512m".to_string(),
            "-XX:+UseSerialGC".to_string(),
            "-XX:TieredStopAtLevel=1".to_string(),
            format!("-Dlog4j.configuration=file:{}", logging.display()),
            "-cp".to_string(),
            format!("{}/*", libs.trim_end_matches("/*")),
        ];
        let format = Command::new(&java[0])
            .args(&java[1..])
            .args(["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-r", level, "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(format.status.success(), "{}", String::from_utf8_lossy(&format.stderr));
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .args(&java)
            .arg("kafka.Kafka")
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut kafka = Kafka { keeper, address, dir };
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(address).is_err() {
            assert!(kafka.keeper.try_wait().unwrap().is_none(), "Kafka ended:\n{}", kafka.output());
            assert!(Instant::now() < deadline, "Kafka does not listen:\n{}", kafka.output());
            std::thread::sleep(Duration::from_millis(20));
        }
        kafka
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its log directory.
    pub(crate) fn log_dir(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("output")).unwrap_or_default()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper ends once the node is gone; an error would mean that it is gone already.
        let _ = self.keeper.wait();
    }
}
