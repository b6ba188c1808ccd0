//! The shell around the group coordinator's shards: their locks, and the connections that wait.
//!
//! Method: one shard per partition of `__consumer_offsets`, each behind its own lock. A command runs under the lock;
//! the batches that it leads to are appended under it too (`log`), so that the log has them in the shard's order, and
//! what waits for an answer is woken through its own channel. A ticker calls shards when something is due; `load`
//! replays partitions that are new here. Invariants: an answer that depends on a record leaves after the record is in
//! the log; no lock is held across an await, and none but the lease's is taken under a shard's.

mod load;
mod log;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use weir_budget::{Budget, Holder, Lease};
use weir_coordinator::{Command, Effects, GroupConfig, Limits, Reply, Shard, Token, Usage, partition_for};
use weir_protocol::messages::ErrorCode;

use self::load::Load;
use self::log::{Appended, append_batch, note};
use crate::broker::{Broker, now_ms};
use crate::executor::block_in_place;
use crate::request::Request;
use crate::topics::Partition;

/// The topic that holds groups and their offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Longest sleep of the ticker.
const MAX_SLEEP_MS: i64 = 1_000;
/// A sleep that ends so much too late was not a sleep.
const PAUSE_MS: i64 = 2_000;
/// After it, how long members have to be heard before the sessions of those that are not end.
const GRACE: Duration = Duration::from_secs(5);
/// The lease on the groups' share follows the state in steps of this size.
const LEASE_STEP_BYTES: u64 = 64 * 1024;
/// Longest text that a waiting request keeps of itself, in bytes.
const MAX_KEPT_BYTES: usize = 256;
/// How long a thread of the runtime waits for a shard's lock before its other tasks go on elsewhere.
const LOCK_PATIENCE: Duration = Duration::from_millis(1);
/// Waiting requests for which a shard's table keeps room when fewer wait.
const KEPT_WAITING: usize = 16;

/// One partition of the offsets topic and the groups in it.
pub(crate) struct Slot {
    partition: Arc<Partition>,
    state: Mutex<SlotState>,
}

struct SlotState {
    shard: Shard,
    waiting: HashMap<Token, oneshot::Sender<Reply>>,
    load: Load,
}

impl Slot {
    /// Locks the shard for a request. Where records must be durable, another may hold the lock for as long as that takes.
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock_for(LOCK_PATIENCE).unwrap_or_else(|| block_in_place(|| mutex.lock()))
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
    to_load: Notify,
    loaded: Notify,
    is_stopping: AtomicBool,
    began: (Instant, i64),
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
            to_load: Notify::new(),
            loaded: Notify::new(),
            is_stopping: AtomicBool::new(false),
            began: (Instant::now(), now_ms()),
            budget,
            lease: Mutex::new(None),
        }
    }

    /// The shards' clock: the wall clock's time at the start, and what has passed since.
    fn now_ms(&self) -> i64 {
        let (began, began_ms) = self.began;
        let now = began_ms.saturating_add(began.elapsed().as_millis() as i64);
        self.usage.set_wall_ahead_ms(now_ms().saturating_sub(now));
        now
    }

    /// What all shards hold together.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Memory of records that repeat names and notes of this many bytes, on their way into the log: the records, the
    /// batch's growing buffer, the batch. What is more than a batch may be is refused before there is a batch.
    pub(crate) fn records_bytes(&self, names_bytes: usize) -> usize {
        match names_bytes {
            bytes if bytes > self.config.max_append_bytes => self.config.max_append_bytes,
            bytes => 3 * bytes,
        }
    }

    fn new_shard(&self) -> Shard {
        Shard::new(Arc::clone(&self.config), Arc::clone(&self.limits), Arc::clone(&self.usage))
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.read().values().cloned().collect()
    }

    /// The shard of a group.
    ///
    /// # Errors
    /// NOT_COORDINATOR where the offsets topic or the partition is not here; a client then looks for the coordinator.
    pub(crate) fn home(&self, broker: &Broker, group_id: &str) -> Result<Arc<Slot>, ErrorCode> {
        // The image names the topic only once all of its partitions are here: their number must not seem to change.
        let image = broker.image();
        let topic = image.topics().by_name(OFFSETS_TOPIC).ok_or(ErrorCode::NOT_COORDINATOR)?;
        let count = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
        let partition = partition_for(group_id, count);
        self.slots.read().get(&partition).cloned().ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// As [`Groups::home`], for requests that need a group with a name.
    pub(crate) fn home_of_named(&self, broker: &Broker, group_id: &str) -> Result<Arc<Slot>, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        self.home(broker, group_id)
    }

    /// Runs a command on a shard and waits for its answer; before a wait the request's memory is given back: only
    /// members wait, and what a waiting request takes ([`WAITING_REQUEST_BYTES`]) is part of a member's charge.
    /// Cancel-safe: dropped, the request is withdrawn.
    ///
    /// # Errors
    /// NOT_COORDINATOR if the shard goes.
    ///
    /// [`WAITING_REQUEST_BYTES`]: weir_coordinator::WAITING_REQUEST_BYTES
    pub(crate) async fn run(
        &self,
        request: &mut Request,
        slot: &Slot,
        command: Command,
    ) -> Result<Reply, ErrorCode> {
        let broker = Arc::clone(&request.broker);
        let token = Token(self.next_token.fetch_add(1, Ordering::Relaxed));
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut state = slot.lock();
            state.waiting.insert(token, sender);
            let effects = state.shard.handle(self.now_ms(), token, command);
            self.carry_out(&broker, slot, &mut state, effects);
        }
        if let Ok(reply) = receiver.try_recv() {
            return Ok(reply);
        }
        let mut waiting = Waiting { groups: self, broker: &broker, slot, token: Some(token) };
        request.park();
        let began = Instant::now();
        let reply = receiver.await;
        request.connection.waited(began);
        waiting.token = None;
        reply.map_err(|_| ErrorCode::NOT_COORDINATOR)
    }

    /// Requests that wait for members, in all shards.
    pub(crate) fn waiting_count(&self) -> usize {
        self.all().iter().map(|slot| slot.state.lock().waiting.len()).sum()
    }

    /// Partitions of the offsets topic that are served, are being loaded, and could not be loaded.
    pub(crate) fn partitions_by_state(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for slot in self.all() {
            match slot.state.lock().load {
                Load::Done => counts[0] += 1,
                Load::Wanted | Load::Running => counts[1] += 1,
                Load::Failed(_) => counts[2] += 1,
                Load::GivenUp => {}
            }
        }
        counts
    }

    /// Looks at one shard under its lock.
    pub(crate) fn look<R>(&self, slot: &Slot, look: impl FnOnce(&Shard) -> R) -> R {
        look(&slot.lock().shard)
    }

    /// Looks at every shard in turn, each under its lock.
    pub(crate) fn for_each_shard(&self, mut look: impl FnMut(&Shard)) {
        for slot in self.all() {
            look(&slot.lock().shard);
        }
    }

    /// Gives all partitions of the offsets topic up: the topic is gone.
    pub(crate) fn unload_all(&self, broker: &Broker) {
        let slots: Vec<Arc<Slot>> = self.slots.write().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            self.unload(broker, &slot);
        }
    }

    /// Gives everything up for good: members are told to look for another coordinator.
    pub(crate) fn stop(&self, broker: &Broker) {
        self.is_stopping.store(true, Ordering::Release);
        self.unload_all(broker);
    }

    fn unload(&self, broker: &Broker, slot: &Slot) {
        let mut state = slot.state.lock();
        state.load = Load::GivenUp;
        let effects = state.shard.unload();
        self.carry_out(broker, slot, &mut state, effects);
    }

    /// The committed offsets of deleted topics go too.
    pub(crate) fn topics_deleted(&self, broker: &Broker, topics: impl Iterator<Item = String>) {
        let topics: Vec<String> = topics.collect();
        for slot in self.all() {
            let mut state = slot.state.lock();
            let effects = state.shard.topics_deleted(self.now_ms(), topics.iter().cloned());
            self.carry_out(broker, &slot, &mut state, effects);
        }
    }

    /// Calls shards when something is due, for ever.
    pub(crate) async fn tick(&self, broker: &Broker) {
        loop {
            let now_ms = self.now_ms();
            // While the shards are asked, every new deadline wakes: the shard it is of may have been passed already.
            self.next_tick_ms.store(i64::MAX, Ordering::SeqCst);
            let mut next_ms = i64::MAX;
            for slot in self.all() {
                let mut state = slot.lock();
                if state.shard.next_deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                    let effects = state.shard.tick(now_ms);
                    self.carry_out(broker, &slot, &mut state, effects);
                }
                next_ms = next_ms.min(state.shard.next_deadline_ms().unwrap_or(i64::MAX));
            }
            self.next_tick_ms.store(next_ms, Ordering::SeqCst);
            let rest_ms = next_ms.saturating_sub(self.now_ms()).clamp(1, MAX_SLEEP_MS);
            let began_ms = self.now_ms();
            // Woken or slept out, the shards are asked what is due.
            let _woken = timeout(Duration::from_millis(rest_ms as u64), self.wake.notified()).await;
            let late_ms = self.now_ms() - began_ms - rest_ms;
            if late_ms > PAUSE_MS {
                // The process or the machine was stopped: that is no silence of the members, whose heartbeats may lie
                // in the sockets at this moment.
                tracing::warn!(
                    late_ms,
                    "the server was stopped for a while: members have {} ms to be heard",
                    GRACE.as_millis()
                );
                tokio::time::sleep(GRACE).await;
            }
        }
    }

    /// Sends answers and appends batches until nothing more follows from them.
    fn carry_out(&self, broker: &Broker, slot: &Slot, state: &mut SlotState, effects: Effects) {
        let mut pending = VecDeque::from([effects]);
        while let Some(effects) = pending.pop_front() {
            for (token, reply) in effects.replies {
                if let Some(sender) = state.waiting.remove(&token) {
                    // A client that has gone needs no answer.
                    let _ = sender.send(reply);
                }
            }
            effects.notices.iter().for_each(|notice| note(broker, notice, slot.partition.index));
            for append in effects.appends {
                let id = append.id;
                let result = match append_batch(broker, &slot.partition, append, broker.now_ms()) {
                    Appended::Done(offset) => Ok(offset),
                    Appended::Refused(error) => Err(error),
                    Appended::Unknown => {
                        // What is in the log is known only once it is read again.
                        state.load = Load::Wanted;
                        pending.push_back(state.shard.unload());
                        self.to_load.notify_one();
                        break;
                    }
                };
                pending.push_back(state.shard.append_done(self.now_ms(), id, result));
            }
        }
        if state.waiting.capacity() > 4 * KEPT_WAITING && state.waiting.len() < state.waiting.capacity() / 4 {
            let keep = (2 * state.waiting.len()).max(KEPT_WAITING);
            state.waiting.shrink_to(keep);
        }
        let next_ms = state.shard.next_deadline_ms().unwrap_or(i64::MAX);
        if next_ms < self.next_tick_ms.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
        self.follow_usage();
    }

    /// Lets the lease follow what the shards hold. The limit on their state is the share itself, so it always fits but
    /// for the rounding.
    fn follow_usage(&self) {
        let mut lease = self.lease.lock();
        // Read under the lock, so that the last of several to change the usage is the last to set the lease.
        let wanted = (self.usage.bytes() as u64).next_multiple_of(LEASE_STEP_BYTES).min(self.budget.limit());
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
                    // Refused only beyond the share, where `wanted` never is.
                    let _ = lease.try_grow(wanted - held);
                }
                None => *lease = self.budget.try_lease(wanted, Holder::new("group state", 0)).ok(),
            }
        }
    }
}

/// What a waiting request may keep of itself; longer texts are rare, and done without.
pub(crate) fn kept(text: &str) -> Option<Box<str>> {
    (text.len() <= MAX_KEPT_BYTES).then(|| text.into())
}

/// A request that waits for its answer; withdrawn when its connection goes before that.
struct Waiting<'a> {
    groups: &'a Groups,
    broker: &'a Broker,
    slot: &'a Slot,
    /// `None` once it is answered.
    token: Option<Token>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(token) = self.token else { return };
        let mut state = self.slot.lock();
        state.waiting.remove(&token);
        let effects = state.shard.cancel(self.groups.now_ms(), token);
        self.groups.carry_out(self.broker, self.slot, &mut state, effects);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn while_a_request_waits_for_a_shard_the_other_tasks_of_its_thread_go_on() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let shard = Arc::new(Mutex::new(()));
        let (release, released) = mpsc::channel();
        let (hold, held) = mpsc::channel();
        let holder = Arc::clone(&shard);
        let syncing = std::thread::spawn(move || {
            let _guard = holder.lock();
            hold.send(()).unwrap();
            released.recv().unwrap();
        });
        held.recv().unwrap();
        let waiting = runtime.spawn(async move { drop(lock(&shard)) });
        // The thread is taken by the first task: whoever wants to be heard meanwhile is this one.
        let other = runtime.spawn(async move { release.send(()).unwrap() });
        runtime.block_on(async { (waiting.await, other.await) }).0.unwrap();
        syncing.join().unwrap();
    }
}
