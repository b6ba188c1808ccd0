//! The memory of the broker: sampled from the kernel by a thread of its own, and as the broker itself reports it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// The largest report that is read.
const MAX_REPORT_BYTES: u64 = 1 << 20;

/// The figures as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    last: AtomicU64,
    peak: AtomicU64,
    stop: AtomicBool,
}

impl Memory {
    /// The last sample in bytes.
    pub(super) fn last(&self) -> u64 {
        self.0.last.load(Ordering::Relaxed)
    }

    /// The largest sample in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }
}

/// Samples `RssAnon` of another process.
pub(super) struct Sampler {
    memory: Memory,
    began: Instant,
    thread: JoinHandle<Vec<(f64, u64)>>,
}

/// `RssAnon` of a process in bytes.
fn anonymous(path: &PathBuf) -> Option<u64> {
    let status = std::fs::read_to_string(path).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

impl Sampler {
    /// Starts to sample the process `pid`.
    pub(super) fn start(pid: u32) -> Result<Self, String> {
        let path = PathBuf::from(format!("/proc/{pid}/status"));
        if anonymous(&path).is_none() {
            return Err(format!("{} has no RssAnon: the demo needs Linux", path.display()));
        }
        let memory = Memory::default();
        let began = Instant::now();
        let figures = Arc::clone(&memory.0);
        let thread = std::thread::Builder::new()
            .name("memory-sampler".to_string())
            .spawn(move || {
                let mut samples = Vec::new();
                while !figures.stop.load(Ordering::Relaxed) {
                    if let Some(bytes) = anonymous(&path) {
                        figures.last.store(bytes, Ordering::Relaxed);
                        figures.peak.fetch_max(bytes, Ordering::Relaxed);
                        samples.push((began.elapsed().as_secs_f64(), bytes));
                    }
                    std::thread::sleep(SAMPLE_EVERY);
                }
                samples
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Sampler { memory, began, thread })
    }

    /// Seconds since the start.
    pub(super) fn mark(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The figures as they come.
    pub(super) fn memory(&self) -> Memory {
        self.memory.clone()
    }

    /// Ends the samples: seconds since the start, bytes.
    pub(super) fn stop(self) -> Vec<(f64, u64)> {
        self.memory.0.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// What the broker says about its budgets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// `memory.budget.bytes`.
    pub(crate) limit: u64,
    /// The share for batches on their way to the log.
    pub(crate) receive_limit: u64,
    /// What it holds.
    pub(crate) receive_used: u64,
    /// Who waits for it now.
    pub(crate) receive_waiters: u64,
    /// Who ever had to wait.
    pub(crate) receive_waited: u64,
    /// Bytes that all budgets hold, but for the one that the report itself is made in.
    pub(crate) leased: u64,
    /// Connections cut off because they held memory without progress.
    pub(crate) stalled: u64,
}

/// Asks the broker for `/memory`.
pub(super) async fn fetch(http: SocketAddr) -> Result<Page, String> {
    let bytes = tokio::time::timeout(Duration::from_secs(5), get(http)).await;
    let bytes = bytes.map_err(|_| "no answer".to_string())?.map_err(|error| error.to_string())?;
    let body =
        bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(&[][..], |at| &bytes[at + 4..]);
    let json: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let number = |value: &serde_json::Value, name: &str| value[name].as_u64().unwrap_or_default();
    let budgets = json["budgets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let find = |name: &str| budgets.iter().find(|budget| budget["name"] == name).cloned().unwrap_or_default();
    let (receive, root, http) = (find("memory/receive"), find("memory"), find("memory/http"));
    Ok(Page {
        limit: number(&json, "limit"),
        receive_limit: number(&receive, "limit"),
        receive_used: number(&receive, "used"),
        receive_waiters: number(&receive, "waiters"),
        receive_waited: number(&receive, "waited"),
        leased: number(&root, "used").saturating_sub(number(&http, "used")),
        stalled: number(&json["connections"], "stalled"),
    })
}

async fn get(http: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(http).await?;
    stream.write_all(b"GET /memory HTTP/1.1\r\nHost: weir\r\n\r\n").await?;
    let mut bytes = Vec::new();
    stream.take(MAX_REPORT_BYTES).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
