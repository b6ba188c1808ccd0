//! The shell around the group coordinator's shards: their locks, their log, and the connections that wait.
//!
//! Method: one shard per partition of `__consumer_offsets`, each behind its own lock. A command runs under the lock;
//! the batches that it leads to are appended under it too, so that the log has them in the shard's order, and what
//! waits for an answer is woken through its own channel. A ticker calls shards when something is due.
//! Invariant: an answer that depends on a record leaves after the record is in the log.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, oneshot};
use weir_budget::{Budget, Holder, Lease};
use weir_coordinator::{
    Append, AppendError, Command, Effects, GroupConfig, Limits, Notice, Replayed, Reply, Shard, Token, Usage,
    partition_for,
};
use weir_protocol::messages::ErrorCode;
use weir_protocol::records::{BatchBuilder, BatchHeader, Codec, HEADER_SIZE_BYTES, Scratch};
use weir_storage::{AppendOrigin, StorageError};

use crate::broker::Broker;
use crate::stored_batches::{ReplayError, for_each_batch};
use crate::topics::Partition;

/// The topic that holds groups and their offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Longest sleep of the ticker.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// The lease on the groups' share follows the state in steps of this size.
const LEASE_STEP_BYTES: u64 = 64 * 1024;

struct Slot {
    partition: Arc<Partition>,
    state: Mutex<SlotState>,
}

struct SlotState {
    shard: Shard,
    waiting: HashMap<Token, oneshot::Sender<Reply>>,
}

/// All shards of the server.
pub(crate) struct Groups {
    config: Arc<GroupConfig>,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    slots: RwLock<HashMap<i32, Arc<Slot>>>,
    next_token: AtomicU64,
    next_tick_ms: AtomicI64,
    wake: Notify,
    budget: Budget,
    lease: Mutex<Option<Lease>>,
}

impl Groups {
    /// No shards yet. `budget` is the share that `limits.state_bytes` was taken from.
    pub(crate) fn new(config: GroupConfig, limits: Limits, budget: Budget) -> Self {
        Groups {
            config: Arc::new(config),
            limits: Arc::new(limits),
            usage: Arc::new(Usage::default()),
            slots: RwLock::new(HashMap::new()),
            next_token: AtomicU64::new(1),
            next_tick_ms: AtomicI64::new(i64::MAX),
            wake: Notify::new(),
            budget,
            lease: Mutex::new(None),
        }
    }

    /// What all shards hold together.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Whether the groups of a partition of the offsets topic are served, or being loaded.
    pub(crate) fn serves(&self, partition: i32) -> bool {
        self.slots.read().contains_key(&partition)
    }

    /// The partition of the offsets topic that a group lives in.
    pub(crate) fn partition_of(&self, broker: &Broker, group_id: &str) -> Option<i32> {
        let topic = broker.topics.by_name(OFFSETS_TOPIC)?;
        let count = i32::try_from(topic.partition_count()).ok().filter(|count| *count > 0)?;
        Some(partition_for(group_id, count))
    }

    fn slot(&self, broker: &Broker, group_id: &str) -> Result<Arc<Slot>, ErrorCode> {
        let partition = self.partition_of(broker, group_id).ok_or(ErrorCode::NOT_COORDINATOR)?;
        self.slots.read().get(&partition).cloned().ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// Runs a command on the shard of `group_id` and waits for its answer. Cancel-safe: dropped, the request is
    /// withdrawn.
    pub(crate) async fn run(
        &self,
        broker: &Broker,
        group_id: &str,
        command: Command,
    ) -> Result<Reply, ErrorCode> {
        let slot = self.slot(broker, group_id)?;
        let token = Token(self.next_token.fetch_add(1, Ordering::Relaxed));
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut state = slot.state.lock();
            state.waiting.insert(token, sender);
            let effects = state.shard.handle(broker.now_ms(), token, command);
            self.carry_out(broker, &slot, &mut state, effects);
        }
        if let Ok(reply) = receiver.try_recv() {
            return Ok(reply);
        }
        let withdraw = Withdraw { groups: self, broker, slot: &slot, token };
        let reply = receiver.await.map_err(|_| ErrorCode::NOT_COORDINATOR);
        std::mem::forget(withdraw);
        reply
    }

    /// Looks at the shard of `group_id` under its lock.
    pub(crate) fn with_shard<R>(
        &self,
        broker: &Broker,
        group_id: &str,
        look: impl FnOnce(&Shard) -> R,
    ) -> Result<R, ErrorCode> {
        let slot = self.slot(broker, group_id)?;
        let state = slot.state.lock();
        Ok(look(&state.shard))
    }

    /// Looks at every shard in turn, each under its lock.
    pub(crate) fn for_each_shard(&self, mut look: impl FnMut(&Shard)) {
        let slots: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
        for slot in slots {
            look(&slot.state.lock().shard);
        }
    }

    /// Takes over a partition of the offsets topic: replays its log, then serves. Blocks as long as that takes;
    /// requests are answered with COORDINATOR_LOAD_IN_PROGRESS meanwhile.
    pub(crate) fn load(&self, broker: &Broker, partition: Arc<Partition>) {
        let index = partition.index;
        let shard = Shard::new(Arc::clone(&self.config), Arc::clone(&self.limits), Arc::clone(&self.usage));
        let state = Mutex::new(SlotState { shard, waiting: HashMap::new() });
        let slot = Arc::new(Slot { partition, state });
        self.slots.write().insert(index, Arc::clone(&slot));
        let log = &slot.partition.log;
        let mut scratch = Scratch::new(0);
        let mut skipped = 0_u64;
        let replayed = for_each_batch(log, log.log_start_offset().get(), |batch| {
            if batch.header.is_control() {
                return Ok(());
            }
            batch.for_each_record(OFFSETS_TOPIC, &mut scratch, |record| {
                let mut state = slot.state.lock();
                match state.shard.replay(record.key.unwrap_or_default(), record.value) {
                    Ok(Replayed::Applied) => {}
                    Ok(Replayed::Ignored { .. }) | Err(_) => skipped += 1,
                }
                Ok::<(), ReplayError>(())
            })
        });
        if let Err(error) = replayed {
            tracing::error!(partition = index, "{OFFSETS_TOPIC} could not be read to its end: {error}");
        }
        if skipped > 0 {
            tracing::warn!(
                partition = index,
                skipped,
                "passed over records of {OFFSETS_TOPIC} that are not known here"
            );
        }
        let mut state = slot.state.lock();
        let now_ms = broker.now_ms();
        let effects = state.shard.loaded(now_ms);
        self.carry_out(broker, &slot, &mut state, effects);
        let effects = state.shard.retain_topics(now_ms, |topic| broker.topics.by_name(topic).is_some());
        self.carry_out(broker, &slot, &mut state, effects);
    }

    /// Gives a partition of the offsets topic up.
    pub(crate) fn unload_all(&self, broker: &Broker) {
        let slots: Vec<Arc<Slot>> = self.slots.write().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            let mut state = slot.state.lock();
            let effects = state.shard.unload();
            self.carry_out(broker, &slot, &mut state, effects);
        }
    }

    /// The committed offsets of deleted topics go too.
    pub(crate) fn topics_deleted(&self, broker: &Broker, topics: impl Iterator<Item = String>) {
        let topics: Vec<String> = topics.collect();
        let slots: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
        for slot in slots {
            let mut state = slot.state.lock();
            let effects = state.shard.topics_deleted(broker.now_ms(), topics.iter().cloned());
            self.carry_out(broker, &slot, &mut state, effects);
        }
    }

    /// Calls shards when something is due, for ever.
    pub(crate) async fn tick(&self, broker: &Broker) {
        loop {
            let now_ms = broker.now_ms();
            let mut next_ms = i64::MAX;
            let slots: Vec<Arc<Slot>> = self.slots.read().values().cloned().collect();
            for slot in slots {
                let mut state = slot.state.lock();
                if state.shard.next_deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                    let effects = state.shard.tick(now_ms);
                    self.carry_out(broker, &slot, &mut state, effects);
                }
                next_ms = next_ms.min(state.shard.next_deadline_ms().unwrap_or(i64::MAX));
            }
            self.next_tick_ms.store(next_ms, Ordering::Relaxed);
            let rest =
                Duration::from_millis(next_ms.saturating_sub(broker.now_ms()).max(1) as u64).min(MAX_SLEEP);
            // Woken or slept out, the shards are asked what is due.
            let _woken = tokio::time::timeout(rest, self.wake.notified()).await;
        }
    }

    /// Sends answers and appends batches until nothing more follows from them.
    fn carry_out(&self, broker: &Broker, slot: &Slot, state: &mut SlotState, effects: Effects) {
        let mut pending = std::collections::VecDeque::from([effects]);
        while let Some(effects) = pending.pop_front() {
            for (token, reply) in effects.replies {
                if let Some(sender) = state.waiting.remove(&token) {
                    // A client that has gone needs no answer.
                    let _ = sender.send(reply);
                }
            }
            effects.notices.iter().for_each(note);
            for append in effects.appends {
                let now_ms = broker.now_ms();
                let id = append.id;
                let outcome = append_batch(slot, &append, now_ms);
                pending.push_back(state.shard.append_done(now_ms, id, outcome));
            }
        }
        let next_ms = state.shard.next_deadline_ms().unwrap_or(i64::MAX);
        if next_ms < self.next_tick_ms.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
        self.follow_usage();
    }

    /// Lets the lease follow what the shards hold. The limit on their state is the share itself, so it always fits but
    /// for the rounding.
    fn follow_usage(&self) {
        let wanted = (self.usage.bytes() as u64).next_multiple_of(LEASE_STEP_BYTES).min(self.budget.limit());
        let mut lease = self.lease.lock();
        let held = lease.as_ref().map_or(0, Lease::bytes);
        if wanted == 0 {
            *lease = None;
        } else if wanted < held {
            if let Some(lease) = lease.as_mut() {
                lease.shrink_to(wanted);
            }
        } else if wanted > held {
            match lease.as_mut() {
                Some(lease) => {
                    let _ = lease.try_grow(wanted - held);
                }
                None => *lease = self.budget.try_lease(wanted, Holder::new("group state", 0)).ok(),
            }
        }
    }
}

fn append_batch(slot: &Slot, append: &Append, now_ms: i64) -> Result<i64, AppendError> {
    let mut batch = BatchBuilder::new(Codec::None);
    for record in &append.records {
        batch
            .append(now_ms, Some(&record.key), record.value.as_deref(), &[])
            .map_err(|_| AppendError::TooLarge)?;
    }
    let bytes = batch.build().map_err(|_| AppendError::TooLarge)?;
    let mut head = [0; HEADER_SIZE_BYTES];
    head.copy_from_slice(&bytes[..HEADER_SIZE_BYTES]);
    let header = BatchHeader::parse(&head).map_err(|_| AppendError::Other)?;
    let body = [IoSlice::new(&bytes[HEADER_SIZE_BYTES..])];
    let appended = slot.partition.append(&header, &body, AppendOrigin::Coordinator, now_ms);
    let appended = appended.and_then(|appended| {
        if appended.needs_flush {
            slot.partition.log.flush_to(appended.last_offset + 1, now_ms)?;
        }
        Ok(appended)
    });
    appended.map(|appended| appended.first_offset).map_err(|error| {
        tracing::error!(partition = slot.partition.index, "cannot append to {OFFSETS_TOPIC}: {error}");
        append_error(&error)
    })
}

fn append_error(error: &StorageError) -> AppendError {
    match error {
        StorageError::BatchTooLarge { .. } => AppendError::TooLarge,
        StorageError::Closed { .. } | StorageError::UnknownLog { .. } => AppendError::NotLeader,
        _ => AppendError::NotAvailable,
    }
}

fn note(notice: &Notice) {
    match notice {
        Notice::PreparingRebalance { group_id, generation_id, reason } => {
            tracing::info!(
                group = &**group_id,
                generation = generation_id,
                "preparing to rebalance: {reason}"
            );
        }
        Notice::GenerationFormed { group_id, generation_id, members } => {
            tracing::info!(group = &**group_id, generation = generation_id, members, "all members are in");
        }
        Notice::Stable { group_id, generation_id } => {
            tracing::info!(group = &**group_id, generation = generation_id, "stable");
        }
        Notice::Empty { group_id, generation_id } => {
            tracing::info!(group = &**group_id, generation = generation_id, "the last member has left");
        }
        Notice::MemberExpired { group_id, member_id, missed } => {
            tracing::info!(group = &**group_id, member = &**member_id, ?missed, "removed a member");
        }
        Notice::Expired { offsets, groups } => {
            tracing::info!(offsets, groups, "retention removed offsets and groups")
        }
        Notice::LimitReached { group_id, limit } => {
            tracing::warn!(group = &**group_id, ?limit, "a limit refused a request");
        }
        Notice::AppendFailed { id, error } => {
            tracing::warn!(append = id.0, ?error, "requests were answered with an error")
        }
    }
}

/// Withdraws a waiting request when its connection goes.
struct Withdraw<'a> {
    groups: &'a Groups,
    broker: &'a Broker,
    slot: &'a Slot,
    token: Token,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        let mut state = self.slot.state.lock();
        state.waiting.remove(&self.token);
        let effects = state.shard.cancel(self.broker.now_ms(), self.token);
        self.groups.carry_out(self.broker, self.slot, &mut state, effects);
    }
}
