//! What runs beside the requests: the reaper with its sample of the memory, trimming, checkpoints, retention, flushes, deletions, the scrub, groups.
//!
//! Method: short work runs on the runtime's timer; what touches files runs on one blocking thread, one job after the
//! other, so that it never competes with itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use weir_metadata::controller::ControllerResult;
use weir_metadata::properties::keys;
use weir_storage::Scrubber;

use crate::broker::Broker;
use crate::http::process::process_memory;

/// How often idle and stalled connections are looked for.
const REAP_EVERY: Duration = Duration::from_millis(250);
/// How often idle chunks are given back.
const TRIM_EVERY: Duration = Duration::from_secs(5);
/// Quantiles of request times are of the last one to two windows.
const METRICS_WINDOW: Duration = Duration::from_secs(60);
/// The beat of the thread that looks after the logs.
const LOGS_EVERY: Duration = Duration::from_millis(500);

/// After a flush the recovery points are written within this, so that a crash need not read again what is on the disk.
const CHECKPOINT_AFTER_FLUSH: Duration = Duration::from_secs(5);

/// Starts all of it. Each task ends when it is aborted.
pub(crate) fn start(broker: &Arc<Broker>) -> Vec<JoinHandle<()>> {
    let failure = &broker.failure;
    vec![
        failure.watch("the reaper", reap(Arc::clone(broker))),
        failure.watch("the trimming of memory", trim(Arc::clone(broker))),
        failure.watch("the metrics' clock", turn_windows(Arc::clone(broker))),
        failure.watch("what looks after the logs", look_after_logs(Arc::clone(broker))),
        failure.watch("the loading of groups", load_groups(Arc::clone(broker))),
        failure.watch("the groups' clock", tick_groups(Arc::clone(broker))),
    ]
}

async fn reap(broker: Arc<Broker>) {
    let mut beat = interval(REAP_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let config = broker.config.load();
        let millis = |value: i64| Duration::from_millis(value.max(0) as u64);
        // A negative idle time means never, as in Kafka.
        let max_idle = match config.get(keys::CONNECTIONS_MAX_IDLE_MS) {
            negative if negative < 0 => Duration::MAX,
            value => millis(value),
        };
        let stall = millis(config.get(keys::RECEIVE_STALL_TIMEOUT_MS));
        if let Some(memory) = process_memory() {
            broker.metrics.note_anonymous(memory.anonymous);
        }
        broker.registry.reap(&broker, max_idle, stall);
    }
}

async fn trim(broker: Arc<Broker>) {
    let mut beat = interval(TRIM_EVERY);
    let (mut since, mut before) = (Instant::now(), busy());
    loop {
        beat.tick().await;
        broker.pool.trim();
        broker.window_pool.trim();
        let (passed, now) = (since.elapsed(), busy());
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let most = passed.as_micros().max(1) as u64 * threads.max(1) as u64;
        let idle = most.saturating_sub(now.saturating_sub(before).as_micros() as u64);
        broker.metrics.idle_thousandths.store(idle * 1000 / most, Ordering::Relaxed);
        (since, before) = (Instant::now(), now);
    }
}

/// Time during which the runtime's threads had something to do, in all.
fn busy() -> Duration {
    let metrics = tokio::runtime::Handle::current().metrics();
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}

async fn turn_windows(broker: Arc<Broker>) {
    let mut beat = interval(METRICS_WINDOW);
    beat.tick().await;
    loop {
        beat.tick().await;
        broker.metrics.apis.turn_window();
    }
}

async fn load_groups(broker: Arc<Broker>) {
    broker.groups.load_all(&broker).await;
}

async fn tick_groups(broker: Arc<Broker>) {
    broker.groups.tick(&broker).await;
}

/// When each job of the logs' thread is due.
struct Schedule {
    checkpoint: Instant,
    /// Syncs that the last round had seen.
    flushes_seen: u64,
    retention: Instant,
    scrub: Scrubber,
}

impl Schedule {
    fn begin(broker: &Broker) -> Self {
        let now = Instant::now();
        let delay = broker.config.load().get(keys::LOG_INITIAL_TASK_DELAY_MS).max(0) as u64;
        Schedule {
            checkpoint: now,
            flushes_seen: 0,
            retention: now + Duration::from_millis(delay),
            scrub: Scrubber::new(),
        }
    }
}

async fn look_after_logs(broker: Arc<Broker>) {
    let mut beat = interval(LOGS_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut schedule = Schedule::begin(&broker);
    loop {
        beat.tick().await;
        let own = Arc::clone(&broker);
        let round = tokio::task::spawn_blocking(move || {
            one_round(&own, &mut schedule);
            schedule
        });
        match round.await {
            Ok(back) => {
                schedule = back;
                if !broker.to_assign.lock().is_empty() {
                    // The controller looks for them after each command.
                    let nothing = broker.controller.run(|_| ControllerResult::without_records(()));
                    if let Err(error) = nothing.await {
                        tracing::debug!("{error}");
                    }
                }
            }
            Err(error) => {
                tracing::error!("the thread that looks after the logs failed: {error}");
                schedule = Schedule::begin(&broker);
            }
        }
    }
}

fn one_round(broker: &Broker, schedule: &mut Schedule) {
    // Aborted, the task goes and this thread does not: the stop waits for it, or it would work on closed logs.
    let is_stopping = broker.rounds.lock();
    if *is_stopping {
        return;
    }
    let config = broker.config.load();
    let now_ms = broker.now_ms();
    let logs = &broker.logs;
    logs.flush_due(now_ms);
    logs.run_deletes(Instant::now());
    logs.tick(now_ms);
    broker.open_missing();
    let now = Instant::now();
    let flushes = logs.counters().flushes.load(Ordering::Relaxed);
    if flushes != schedule.flushes_seen {
        schedule.flushes_seen = flushes;
        schedule.checkpoint = schedule.checkpoint.min(now + CHECKPOINT_AFTER_FLUSH);
    }
    if now >= schedule.checkpoint {
        let every = config.get(keys::LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS).max(1) as u64;
        schedule.checkpoint = now + Duration::from_millis(every);
        // Said by the manager; the next round tries again.
        let _ = logs.checkpoint();
    }
    if now >= schedule.retention {
        let every = config.get(keys::LOG_RETENTION_CHECK_INTERVAL_MS).max(1) as u64;
        schedule.retention = now + Duration::from_millis(every);
        let retained = logs.apply_retention(now_ms);
        if retained.deleted_segments > 0 {
            tracing::info!(
                segments = retained.deleted_segments,
                bytes = retained.deleted_bytes,
                "retention deleted"
            );
        }
    }
    let rate = config.get(keys::SCRUB_BYTES_PER_SECOND).max(0) as u64;
    let portion = rate.saturating_mul(LOGS_EVERY.as_millis() as u64) / 1000;
    if portion > 0
        && let Err(error) = schedule.scrub.step(logs, portion)
    {
        tracing::warn!("the scrub passes over a log: {error}");
    }
}
