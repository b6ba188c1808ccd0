//! Every open connection: who it is, when it last moved, whether it holds leased memory; limits in all, per address and
//! in a second; and the reaper that cuts off idle ones and, while somebody waits for memory, stalled ones.
//!
//! A connection that waits for its peer's bytes is cut off by an end of its reading: the socket itself then tells what
//! came before the end, so a request whose last byte has come is answered, whenever the reaper made up its mind.
//!
//! Invariant: a connection is counted from before its task starts until after its last byte of state is dropped.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use weir_budget::{Budget, CHUNK_BYTES};

use crate::broker::Broker;
use crate::executor::Task;
use crate::plan::Budgets;

/// Connections for which the tables keep room.
const KEPT_ENTRIES: usize = 1024;

/// What the reaper looks at; one per connection, shared with its task.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Number of the connection, counted from 1 since the start.
    pub(crate) id: u64,
    /// The peer's address.
    pub(crate) peer: SocketAddr,
    /// Index of the listener that accepted it.
    pub(crate) listener: usize,
    clock: Instant,
    last_active_ms: AtomicU64,
    /// Milliseconds of the last progress while a lease is held, plus one; 0 while none is held.
    holding_since_ms: AtomicU64,
    holding: AtomicU32,
    /// Microseconds that the request in hand waited for others.
    waited_us: AtomicU32,
    /// The socket, for a look at what has arrived.
    socket: OnceLock<Weak<TcpStream>>,
    /// Bytes that must come until the next progress while the connection waits for its peer's; 0 at other times.
    awaited: AtomicU32,
    /// Nothing more is read than what has come.
    given_up: AtomicBool,
}

impl ConnectionState {
    /// The time of the registry's clock.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
    }

    /// Notes that the request in hand waited since `began` for others, not for its peer.
    pub(crate) fn waited(&self, began: Instant) {
        let us = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.waited_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Microseconds that the request in hand waited; the next one begins with nothing.
    pub(crate) fn take_waited_us(&self) -> u32 {
        self.waited_us.swap(0, Ordering::Relaxed)
    }

    /// Notes that a request began or ended.
    pub(crate) fn active(&self) {
        self.last_active_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// From now on the connection holds a lease on the budget with this index and owes progress.
    pub(crate) fn holds(self: &Arc<Self>, budget: Holding) -> HoldGuard {
        let outer = match self.holding_since_ms.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.holding.load(Ordering::Relaxed)),
        };
        self.holding.store(budget as u32, Ordering::Relaxed);
        self.progressed();
        HoldGuard { state: Arc::clone(self), outer }
    }

    /// While the returned value lives the connection waits for memory, which is no fault of its peer's.
    pub(crate) fn waits_for_memory(self: &Arc<Self>) -> MemoryWait {
        let held = self.holding_since_ms.swap(0, Ordering::Relaxed) > 0;
        MemoryWait { state: held.then(|| Arc::clone(self)) }
    }

    /// Tells which socket the connection has.
    pub(crate) fn reads_from(&self, socket: &Arc<TcpStream>) {
        self.socket.get_or_init(|| Arc::downgrade(socket));
    }

    /// While the returned value lives the connection waits for `bytes` bytes of its peer's.
    pub(crate) fn awaits(self: &Arc<Self>, bytes: usize) -> Awaited {
        let mut awaited = Awaited { state: Arc::clone(self), rest: bytes, portion: 0 };
        awaited.begin_portion();
        awaited
    }

    /// Whether nothing more is read than what has come.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn is_awaiting(&self) -> bool {
        self.awaited.load(Ordering::Acquire) > 0
    }

    /// True when `awaited` bytes have arrived and were not read yet: it is not the peer who is slow.
    fn has_arrived(&self, awaited: u32) -> bool {
        let Some(socket) = self.socket.get().and_then(Weak::upgrade) else { return false };
        rustix::io::ioctl_fionread(&*socket).is_ok_and(|unread| unread >= u64::from(awaited))
    }

    /// True when at `now_ms` the connection owes progress since `timeout_ms` to somebody who waits: `waited_for` tells of
    /// which budgets that is, in the order of [`Holding`].
    pub(super) fn is_stalled(&self, waited_for: &[bool], now_ms: u64, timeout_ms: u64) -> bool {
        let since = self.holding_since_ms.load(Ordering::Acquire);
        let holding = self.holding.load(Ordering::Relaxed) as usize;
        let awaited = self.awaited.load(Ordering::Acquire);
        // Between the bytes of its peer's a request is worked on, which is no fault of the peer's.
        let is_up_to_the_peer = match awaited {
            0 => Holding::SENDING.iter().any(|sending| *sending as usize == holding),
            awaited => !self.has_arrived(awaited),
        };
        since > 0
            && waited_for.get(holding).copied().unwrap_or(false)
            && now_ms.saturating_sub(since - 1) >= timeout_ms
            && is_up_to_the_peer
            // What was read meanwhile was progress.
            && self.holding_since_ms.load(Ordering::Acquire) == since
    }

    /// Gives a peer up. True when the connection waits for bytes of its: it reads what has come, answers if that is a whole
    /// request, and ends. Otherwise its task must be ended.
    pub(super) fn give_up(&self) -> bool {
        if !self.is_awaiting() {
            return false;
        }
        let Some(socket) = self.socket.get().and_then(Weak::upgrade) else { return false };
        self.given_up.store(true, Ordering::Relaxed);
        rustix::net::shutdown(&*socket, rustix::net::Shutdown::Read).is_ok()
    }

    /// Notes a window of progress on what the lease is for.
    pub(crate) fn progressed(&self) {
        let now = self.now_ms();
        self.holding_since_ms.store(now + 1, Ordering::Release);
        self.last_active_ms.store(now, Ordering::Relaxed);
    }
}

impl ConnectionState {
    /// Like [`ConnectionState::progressed`] where a lease is held, else only a sign of life.
    pub(crate) fn progressed_if_holding(&self) {
        if self.holding_since_ms.load(Ordering::Relaxed) > 0 {
            self.progressed();
        } else {
            self.active();
        }
    }
}

/// Which budget a connection holds bytes of while it waits for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Holding {
    /// A batch that is being received.
    Receive = 0,
    /// A control frame that is being received.
    Control = 1,
    /// The heads of a fetch response of few partitions.
    Fetch = 2,
    /// A produce request between its batches.
    Stream = 3,
    /// A reply that is being sent.
    Replies = 4,
    /// The heads of a fetch response of many partitions.
    LargeFetch = 5,
    /// The answers of a produce request that is being received.
    Answers = 6,
}

impl Holding {
    /// Held while the peer is to take bytes; the others while it is to send some.
    const SENDING: [Holding; 3] = [Holding::Fetch, Holding::Replies, Holding::LargeFetch];
}

/// A wait for bytes of the peer's, in portions each of which is progress: a chunk, or the rest.
#[derive(Debug)]
pub(crate) struct Awaited {
    state: Arc<ConnectionState>,
    rest: usize,
    portion: usize,
}

impl Awaited {
    fn begin_portion(&mut self) {
        self.portion = self.rest.min(CHUNK_BYTES);
        self.state.awaited.store(self.portion as u32, Ordering::Release);
    }

    /// Notes that `count` more bytes were read; a complete portion is progress.
    pub(crate) fn came(&mut self, count: usize) {
        if count >= self.portion {
            // Before the next portion is awaited: the reaper must not see that one beside the old progress.
            self.state.progressed_if_holding();
        }
        self.read(count);
    }

    /// Notes that `count` more bytes were read, which are no progress.
    pub(crate) fn read(&mut self, count: usize) {
        self.rest = self.rest.saturating_sub(count);
        if count >= self.portion {
            self.begin_portion();
        } else {
            self.portion -= count;
            self.state.awaited.store(self.portion as u32, Ordering::Release);
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.state.awaited.store(0, Ordering::Relaxed);
    }
}

/// The duty to make progress begins anew when this is dropped, where there was one.
#[derive(Debug)]
pub(crate) struct MemoryWait {
    state: Option<Arc<ConnectionState>>,
}

impl Drop for MemoryWait {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            state.progressed();
        }
    }
}

/// Ends the duty to make progress, or goes back to the one that an outer guard stands for.
#[derive(Debug)]
pub(crate) struct HoldGuard {
    state: Arc<ConnectionState>,
    outer: Option<u32>,
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        match self.outer {
            Some(holding) => {
                self.state.holding.store(holding, Ordering::Relaxed);
                self.state.progressed();
            }
            None => self.state.holding_since_ms.store(0, Ordering::Relaxed),
        }
    }
}

/// Why a connection was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// As many are open as may be in all.
    #[error("max.connections = {0}")]
    InAll(u32),
    /// As many are open from this address as may be.
    #[error("max.connections.per.ip or its overrides = {0}")]
    PerAddress(u32),
}

impl Refused {
    /// The property that sets the limit.
    pub(crate) fn property(&self) -> &'static str {
        match self {
            Refused::InAll(_) => "max.connections",
            Refused::PerAddress(_) => "max.connections.per.ip",
        }
    }
}

/// What limits new connections; replaced as a whole when a property changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionLimits {
    /// `max.connections`, at most what the plan charges.
    pub(crate) in_all: u32,
    /// `max.connections.per.ip`.
    pub(crate) per_address: u32,
    /// `max.connections.per.ip.overrides`.
    pub(crate) overrides: HashMap<IpAddr, u32>,
    /// `max.connection.creation.rate`, in a second.
    pub(crate) rate: u32,
}

/// The connections that may still be accepted in this second.
#[derive(Debug)]
struct Allowance {
    since: Instant,
    accepted: u32,
}

#[derive(Debug)]
struct Entry {
    state: Arc<ConnectionState>,
    task: Option<Task>,
}

#[derive(Debug, Default)]
struct Open {
    entries: HashMap<u64, Entry>,
    per_address: HashMap<IpAddr, u32>,
    /// All were ended, and so is whatever was accepted at that moment.
    is_closed: bool,
}

/// The open connections of all listeners.
#[derive(Debug)]
pub(crate) struct Registry {
    clock: Instant,
    next_id: AtomicU64,
    limits: RwLock<ConnectionLimits>,
    allowance: Mutex<Allowance>,
    open: Mutex<Open>,
    stalled: AtomicU64,
    idled: AtomicU64,
}

/// Counts a connection for as long as it lives.
#[derive(Debug)]
pub(crate) struct Registered {
    registry: Arc<Registry>,
    /// The connection's shared state.
    pub(crate) state: Arc<ConnectionState>,
}

impl Registry {
    /// An empty registry with its limits.
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Registry {
            clock: Instant::now(),
            next_id: AtomicU64::new(1),
            limits: RwLock::new(limits),
            allowance: Mutex::new(Allowance { since: Instant::now(), accepted: 0 }),
            open: Mutex::new(Open::default()),
            stalled: AtomicU64::new(0),
            idled: AtomicU64::new(0),
        })
    }

    /// Other limits hold for new connections from now on; those that are open stay.
    pub(crate) fn set_limits(&self, limits: ConnectionLimits) {
        *self.limits.write() = limits;
    }

    /// How long the next connection must wait so that no more than the rate are accepted in a second.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        const SECOND: Duration = Duration::from_secs(1);
        let rate = self.limits.read().rate;
        let mut allowance = self.allowance.lock();
        if now.duration_since(allowance.since) >= SECOND {
            *allowance = Allowance { since: now, accepted: 0 };
        }
        if allowance.accepted >= rate {
            return Some(SECOND.saturating_sub(now.duration_since(allowance.since)));
        }
        allowance.accepted += 1;
        None
    }

    /// Counts a new connection in, unless a limit is reached.
    pub(crate) fn register(
        self: &Arc<Self>,
        peer: SocketAddr,
        listener: usize,
    ) -> Result<Registered, Refused> {
        let address = peer.ip().to_canonical();
        let limits = self.limits.read();
        let (in_all, per_address) =
            (limits.in_all, limits.overrides.get(&address).copied().unwrap_or(limits.per_address));
        drop(limits);
        let mut open = self.open.lock();
        if open.entries.len() >= in_all as usize {
            return Err(Refused::InAll(in_all));
        }
        // Looked at before an entry is made: an address without connections leaves nothing behind.
        if open.per_address.get(&address).copied().unwrap_or(0) >= per_address {
            return Err(Refused::PerAddress(per_address));
        }
        *open.per_address.entry(address).or_insert(0) += 1;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState {
            id,
            peer,
            listener,
            clock: self.clock,
            last_active_ms: AtomicU64::new(self.clock.elapsed().as_millis() as u64),
            holding_since_ms: AtomicU64::new(0),
            holding: AtomicU32::new(0),
            waited_us: AtomicU32::new(0),
            socket: OnceLock::new(),
            awaited: AtomicU32::new(0),
            given_up: AtomicBool::new(false),
        });
        open.entries.insert(id, Entry { state: Arc::clone(&state), task: None });
        Ok(Registered { registry: Arc::clone(self), state })
    }

    /// Hands the registry the task to end when the connection is cut off.
    pub(crate) fn runs(&self, id: u64, task: Task) {
        let mut open = self.open.lock();
        let is_closed = open.is_closed;
        match open.entries.get_mut(&id) {
            Some(entry) if !is_closed => entry.task = Some(task),
            // It has ended already, or does so now. A task that ends may come back here.
            _ => {
                drop(open);
                drop(task);
            }
        }
    }

    /// Number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().entries.len()
    }

    /// Connections cut off so far because they stalled while others waited, and closed because they idled.
    pub(crate) fn cut_off_counts(&self) -> (u64, u64) {
        (self.stalled.load(Ordering::Relaxed), self.idled.load(Ordering::Relaxed))
    }

    /// Most connections open at once.
    pub(crate) fn limit(&self) -> u32 {
        self.limits.read().in_all
    }

    /// Open connections of each of the first `listeners` listeners.
    pub(crate) fn count_by_listener(&self, listeners: usize) -> Vec<u64> {
        let mut counts = vec![0; listeners];
        for entry in self.open.lock().entries.values() {
            if let Some(count) = counts.get_mut(entry.state.listener) {
                *count += 1;
            }
        }
        counts
    }

    /// The peer of an open connection.
    pub(crate) fn peer(&self, id: u64) -> Option<SocketAddr> {
        self.open.lock().entries.get(&id).map(|entry| entry.state.peer)
    }

    /// Ends every connection, for good.
    pub(crate) fn close_all(&self) {
        let mut open = self.open.lock();
        open.is_closed = true;
        let tasks: Vec<Task> = open.entries.values_mut().filter_map(|entry| entry.task.take()).collect();
        drop(open);
        drop(tasks);
    }

    /// One pass of the reaper over the connections of `broker`. The budgets are in the order of [`Holding`].
    pub(crate) fn reap(&self, broker: &Broker, max_idle: Duration, stall_timeout: Duration) {
        let Budgets { receive, control, fetch, streams, replies, large_fetch, .. } = &broker.budgets;
        let budgets = [receive, control, fetch, streams, replies, large_fetch, replies];
        let waited_for = budgets.map(Budget::has_waiters);
        let now = self.clock.elapsed().as_millis() as u64;
        let mut ended = Vec::new();
        let mut open = self.open.lock();
        for entry in open.entries.values_mut() {
            let state = &entry.state;
            let holding = state.holding.load(Ordering::Relaxed) as usize;
            // Its task ends as soon as it has a turn.
            if state.is_given_up() && state.is_awaiting() {
                continue;
            }
            let stalled = state.is_stalled(&waited_for, state.now_ms(), stall_timeout.as_millis() as u64);
            let idle = now.saturating_sub(state.last_active_ms.load(Ordering::Relaxed))
                >= max_idle.as_millis() as u64;
            if entry.task.is_none() || !(stalled || idle) {
                continue;
            }
            if !state.give_up() {
                ended.extend(entry.task.take());
            }
            if stalled {
                self.stalled.fetch_add(1, Ordering::Relaxed);
                let (peer, budget) = (state.peer, budgets.get(holding).map_or("", |budget| budget.name()));
                let waited = stall_timeout.as_millis();
                broker.limit_reached(
                    "receive.stall.timeout.ms",
                    &format_args!(
                        "cut off {peer}, connection {}, which made no progress for {waited} ms while others wait for \
                         the memory of {budget} that it holds",
                        state.id
                    ),
                );
            } else {
                self.idled.fetch_add(1, Ordering::Relaxed);
                let (peer, waited) = (state.peer, max_idle.as_millis());
                broker.limit_reached(
                    "connections.max.idle.ms",
                    &format_args!("closed {peer}, connection {}, which was idle for {waited} ms", state.id),
                );
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        let entry = open.entries.remove(&self.state.id);
        // A table keeps its room while there are many; after a flood it is given back.
        if open.entries.capacity() > KEPT_ENTRIES && open.entries.len() < open.entries.capacity() / 8 {
            let keep = (2 * open.entries.len()).max(KEPT_ENTRIES / 2);
            open.entries.shrink_to(keep);
            open.per_address.shrink_to(keep);
        }
        let address = self.state.peer.ip().to_canonical();
        if let Some(count) = open.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.per_address.remove(&address);
            }
        }
        drop(open);
        drop(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1000))
    }

    #[test]
    fn limits_in_all_and_per_address_are_reached_and_freed_again() {
        let registry =
            Registry::new(ConnectionLimits { in_all: 3, per_address: 2, ..ConnectionLimits::default() });
        let a = registry.register(peer(1), 0).unwrap();
        let _b = registry.register(peer(1), 0).unwrap();
        assert_eq!(registry.register(peer(1), 0).unwrap_err(), Refused::PerAddress(2));
        let _c = registry.register(peer(2), 0).unwrap();
        assert_eq!(registry.register(peer(3), 0).unwrap_err(), Refused::InAll(3));
        drop(a);
        assert_eq!(registry.count(), 2);
        registry.register(peer(1), 0).unwrap();
    }

    #[test]
    fn addresses_have_exceptions_and_refused_ones_leave_nothing_behind() {
        let overrides = HashMap::from([(peer(9).ip(), 1)]);
        let limits = ConnectionLimits { in_all: 10, per_address: 0, overrides, rate: 1 };
        let registry = Registry::new(limits);
        for last in 0..8 {
            assert_eq!(registry.register(peer(last), 0).unwrap_err(), Refused::PerAddress(0));
        }
        assert_eq!(registry.open.lock().per_address.len(), 0);
        let _one = registry.register(peer(9), 0).unwrap();
        assert_eq!(registry.register(peer(9), 0).unwrap_err(), Refused::PerAddress(1));
    }

    #[test]
    fn no_more_than_the_rate_are_accepted_in_a_second() {
        let registry = Registry::new(ConnectionLimits { rate: 2, ..ConnectionLimits::default() });
        let now = Instant::now() + Duration::from_secs(2);
        assert_eq!((registry.pause(now), registry.pause(now)), (None, None));
        assert_eq!(registry.pause(now), Some(Duration::from_secs(1)));
        assert_eq!(registry.pause(now + Duration::from_secs(1)), None);
    }
}
