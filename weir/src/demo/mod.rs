//! `weir demo`: a broker under a small budget, a load that would take gigabytes elsewhere, and what came of it.
//!
//! Method: the broker is a child process of the same program in a temporary directory, so that its memory is its own.
//! The load runs in this process: clients that each send one huge request at once, clients that promise a large frame
//! and stall, and beside them a producer and a consumer that behave and measure. The kernel's figure for the broker's
//! anonymous memory is sampled all the time.

mod attack;
mod broker;
mod chart;
mod memory;
mod page;
mod report;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attack::Plan;
use broker::BrokerProcess;
use memory::{Memory, Sampler};
pub(crate) use report::Report;

/// Time with the well-behaved clients alone, before the attack and after it.
const CALM: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(3);

/// What to show.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How long new huge requests are sent, seconds.
    pub(crate) seconds: u64,
    /// Connections that each send a huge request.
    pub(crate) connections: usize,
    /// Batches of 1 MiB in a huge request.
    pub(crate) batches: i32,
    /// `memory.budget.bytes` of the broker.
    pub(crate) budget: String,
    /// Where the broker's directory is made; the system's temporary directory if `None`.
    pub(crate) dir: Option<PathBuf>,
}

/// Runs the demo.
///
/// # Errors
/// When the broker does not start or its memory cannot be seen. An attack that breaks the bound is no error here: the
/// report says so.
pub(crate) async fn run(options: &Options) -> Result<Report, String> {
    let live = Live::new();
    live.say(&format!("starting a broker with memory.budget.bytes={}", options.budget));
    let broker = BrokerProcess::start(options).await?;
    let sampler = Sampler::start(broker.pid())?;
    let plan = Plan::new(options)?;
    let attack = attack::Attack::prepare(broker.kafka(), plan).await?;
    live.say(&plan.sentence());

    let watched = live.watch(Arc::clone(&attack), broker.http(), sampler.memory());
    attack.behave()?;
    tokio::time::sleep(CALM).await;
    let began = sampler.mark();
    let attacked = attack.run().await;
    let ended = sampler.mark();
    tokio::time::sleep(AFTER).await;
    let behaved = attack.settle().await;
    watched.abort();
    let at_rest = memory::fetch(broker.http()).await.ok();
    let memory = sampler.stop();
    live.clear();
    broker.stop().await;
    Ok(Report { plan, attacked, behaved, memory, at_rest, phases: (began, ended) })
}

/// Progress on standard error while it runs: a bar on a terminal, a line every two seconds elsewhere.
struct Live {
    bar: Option<indicatif::ProgressBar>,
}

impl Live {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = indicatif::ProgressBar::new_spinner();
            if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Live { bar }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn watch(
        &self,
        attack: Arc<attack::Attack>,
        http: std::net::SocketAddr,
        memory: Memory,
    ) -> tokio::task::JoinHandle<()> {
        let bar = self.bar.clone();
        let every = Duration::from_millis(if bar.is_some() { 400 } else { 2000 });
        tokio::spawn(async move {
            let began = Instant::now();
            loop {
                tokio::time::sleep(every).await;
                let page = memory::fetch(http).await.unwrap_or_default();
                let line = format!(
                    "memory {} (peak {}) of {} · receive {} of {}, {} wait · {}",
                    report::size(memory.last()),
                    report::size(memory.peak()),
                    report::size(page.limit),
                    report::size(page.receive_used),
                    report::size(page.receive_limit),
                    page.receive_waiters,
                    attack.progress(),
                );
                match &bar {
                    Some(bar) => bar.set_message(line),
                    None => eprintln!("{:>5.1} s  {line}", began.elapsed().as_secs_f64()),
                }
            }
        })
    }
}
