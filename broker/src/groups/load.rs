//! Takes partitions of the offsets topic over: replays their logs, then serves their groups.
//!
//! Method: a partition that is new here gets its shard at once, so that its groups are answered with
//! COORDINATOR_LOAD_IN_PROGRESS and not sent away; one blocking thread replays the logs, one after the other. A
//! partition that cannot be read, or whose state does not fit, is not served in part: commits would go back. It is
//! tried again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_budget::{BudgetError, ChunkPool, Holder, Lease};
use weir_coordinator::{ReplayError as ShardError, Replayed};
use weir_metadata::properties::keys;
use weir_protocol::records::Scratch;
use weir_storage::Log;

use super::{Groups, OFFSETS_TOPIC, Slot, SlotState};
use crate::broker::Broker;
use crate::stored_batches::{ReplayError, StoredBatch, for_each_batch};
use crate::topics::Partition;

/// How long after a failure a partition is read again.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// What reading takes beside the largest batch and its decompression: the windows of look-ups.
const READ_OVERHEAD_BYTES: u64 = 64 * 1024;

/// How far a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// To be replayed.
    Wanted,
    /// Being replayed.
    Running,
    /// Served.
    Done,
    /// Failed at this moment; tried again later.
    Failed(Instant),
    /// Not wanted any more.
    GivenUp,
}

/// Why a shard could not be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    /// The log could not be read back.
    #[error(transparent)]
    Read(#[from] ReplayError),
    /// A batch and its decompression do not fit.
    #[error("a batch takes {needed} bytes to be read: {error}")]
    Batch {
        /// What it takes.
        needed: u64,
        /// Why it is not there.
        error: BudgetError,
    },
    /// The state does not fit.
    #[error("{0}; raise memory.budget.bytes")]
    Full(ShardError),
    /// Nobody wants it any more.
    #[error("the partition was given up")]
    GivenUp,
}

impl Groups {
    /// Takes a partition of the offsets topic over, to be loaded with [`Groups::start_loading`]; one that is served
    /// already is left as it is.
    pub(crate) fn lead(&self, broker: &Broker, partition: Arc<Partition>) {
        if self.is_stopping.load(Ordering::Acquire) {
            return;
        }
        let index = partition.index;
        let state = SlotState { shard: self.new_shard(), waiting: Default::default(), load: Load::Wanted };
        let slot = Arc::new(Slot { partition, state: state.into() });
        let former = {
            let mut slots = self.slots.write();
            if slots.get(&index).is_some_and(|known| Arc::ptr_eq(&known.partition, &slot.partition)) {
                return;
            }
            slots.insert(index, slot)
        };
        if let Some(former) = former {
            self.unload(broker, &former);
        }
    }

    /// Begins to load what was taken over.
    pub(crate) fn start_loading(&self) {
        self.to_load.notify_one();
    }

    /// Whether the shard of one of these groups is still to be loaded.
    pub(crate) fn are_loading(&self, broker: &Broker, group_ids: &[String]) -> bool {
        group_ids.iter().any(|group_id| {
            let slot = self.home(broker, group_id);
            slot.is_ok_and(|slot| matches!(slot.state.lock().load, Load::Wanted | Load::Running))
        })
    }

    /// Waits until the shards of these groups are served, those that are to be loaded at all, or until `deadline`.
    pub(crate) async fn wait_loaded(&self, broker: &Broker, group_ids: &[String], deadline: Instant) {
        loop {
            let loaded = self.loaded.notified();
            tokio::pin!(loaded);
            // Registered before the look, so that no end of a load is missed.
            loaded.as_mut().enable();
            if !self.are_loading(broker, group_ids) {
                return;
            }
            if tokio::time::timeout_at(deadline.into(), loaded).await.is_err() {
                return;
            }
        }
    }

    /// Loads what is to be loaded, for ever.
    pub(crate) async fn load_all(&self, broker: &Arc<Broker>) {
        loop {
            let due: Vec<Arc<Slot>> = self.all().into_iter().filter(|slot| slot.is_due()).collect();
            if !due.is_empty() {
                self.load_some(broker, due).await;
            }
            let _woken = tokio::time::timeout(RETRY_AFTER, self.to_load.notified()).await;
        }
    }

    async fn load_some(&self, broker: &Arc<Broker>, slots: Vec<Arc<Slot>>) {
        let message_max_bytes = broker.config.load().get(keys::MESSAGE_MAX_BYTES).max(0) as u64;
        let bytes = (message_max_bytes + READ_OVERHEAD_BYTES).min(broker.budgets.receive.limit());
        let holder = Holder::new("group loading", 0);
        let mut lease = match broker.budgets.receive.lease(bytes, holder).await {
            Ok(lease) => lease,
            Err(error) => return tracing::error!("cannot load {OFFSETS_TOPIC}: {error}"),
        };
        let loading = Arc::clone(broker);
        let all = slots.clone();
        let job = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let _room = loading.pool.beside(lease.bytes(), lease.budget().limit());
            for slot in &slots {
                loading.groups.load(&loading, slot, &mut lease);
            }
            drop(lease);
            let usage = loading.groups.usage();
            tracing::info!(
                partitions = slots.len(),
                groups = usage.groups(),
                offsets = usage.offsets(),
                milliseconds = began.elapsed().as_millis() as u64,
                "read {OFFSETS_TOPIC}",
            );
        });
        if let Err(error) = job.await {
            tracing::error!("the thread that reads {OFFSETS_TOPIC} failed: {error}");
            for slot in all {
                let mut state = slot.state.lock();
                if matches!(state.load, Load::Wanted | Load::Running) {
                    state.load = Load::Failed(Instant::now());
                }
            }
        }
    }

    /// Replays one partition and serves it. Blocks as long as that takes. `lease` covers the batches.
    fn load(&self, broker: &Broker, slot: &Slot, lease: &mut Lease) {
        {
            let mut state = slot.state.lock();
            if state.load == Load::GivenUp {
                return;
            }
            state.load = Load::Running;
            state.shard = self.new_shard();
        }
        let replayed = replay(slot, lease, &broker.pool);
        {
            let mut state = slot.state.lock();
            let now_ms = self.now_ms();
            let effects = match replayed {
                Ok(()) => {
                    if state.load == Load::Running {
                        state.load = Load::Done;
                    }
                    state.shard.loaded(now_ms)
                }
                Err(LoadError::GivenUp) => return,
                Err(error) => {
                    let partition = slot.partition.index;
                    tracing::error!(partition, "the groups of {OFFSETS_TOPIC} are not served: {error}");
                    state.load = Load::Failed(Instant::now());
                    state.shard.unload()
                }
            };
            self.carry_out(broker, slot, &mut state, effects);
            // A stop may have come between the deletion of a topic and the tombstones of its offsets.
            let effects = state.shard.retain_topics(now_ms, |topic| broker.topics.by_name(topic).is_some());
            self.carry_out(broker, slot, &mut state, effects);
        }
        self.loaded.notify_waiters();
    }
}

impl Slot {
    /// Number of the partition.
    pub(crate) fn index(&self) -> i32 {
        self.partition.index
    }

    fn is_due(&self) -> bool {
        match self.state.lock().load {
            Load::Wanted => true,
            Load::Failed(since) => since.elapsed() >= RETRY_AFTER,
            Load::Running | Load::Done | Load::GivenUp => false,
        }
    }
}

fn replay(slot: &Slot, lease: &mut Lease, pool: &ChunkPool) -> Result<(), LoadError> {
    let log = &slot.partition.log;
    let (share, mut displaced) = (lease.budget().limit(), Vec::new());
    let mut scratch = Scratch::new(0);
    let mut skipped = 0_u64;
    // Beyond the largest batch that is taken here: one that another server wrote, or a compressed one.
    let room = |bytes: u64| match bytes.saturating_add(READ_OVERHEAD_BYTES).saturating_sub(lease.bytes()) {
        0 => Ok(()),
        more => {
            lease.try_grow(more).map_err(|error| LoadError::Batch { needed: bytes, error })?;
            displaced.push(pool.beside(more, share));
            Ok(())
        }
    };
    for_each_batch(log, log.log_start_offset().get(), room, |batch| {
        if !holds(log, batch)? {
            return Ok(());
        }
        let mut state = slot.state.lock();
        batch.for_each_record(OFFSETS_TOPIC, &mut scratch, |record| {
            match state.shard.replay(record.key.unwrap_or_default(), record.value) {
                Ok(Replayed::Applied) => Ok(()),
                Err(full @ ShardError::StateFull { .. }) => Err(LoadError::Full(full)),
                Err(ShardError::NotLoading) => Err(LoadError::GivenUp),
                // A record of another kind of group, of newer software, or damaged: the others still count.
                Ok(Replayed::Ignored { .. }) | Err(_) => {
                    skipped += 1;
                    Ok(())
                }
            }
        })
    })?;
    if skipped > 0 {
        let partition = slot.partition.index;
        tracing::warn!(partition, skipped, "passed over records of {OFFSETS_TOPIC} that are not known here");
    }
    Ok(())
}

/// Whether the records of a batch count: not those of control batches, nor of transactions that were aborted or never
/// ended. A server that serves transactions may have written them.
fn holds(log: &Log, batch: &StoredBatch) -> Result<bool, ReplayError> {
    let header = &batch.header;
    if header.is_control() {
        return Ok(false);
    }
    if !header.is_transactional() {
        return Ok(true);
    }
    if header.base_offset >= log.last_stable_offset().get() {
        return Ok(false);
    }
    let aborted = log.aborted_transactions(header.base_offset, header.next_offset())?;
    Ok(!aborted.iter().any(|entry| {
        entry.producer_id == header.producer_id
            && (entry.first_offset..=entry.last_offset).contains(&header.base_offset)
    }))
}
