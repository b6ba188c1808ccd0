//! Every open connection: who it is, when it last moved, whether it holds leased memory; limits in all and per
//! address; and the reaper that cuts off idle ones and, while somebody waits for memory, stalled ones.
//!
//! Invariant: a connection is counted from before its task starts until after its last byte of state is dropped.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use weir_budget::Budget;

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
}

impl ConnectionState {
    fn now_ms(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
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

    /// Notes a window of progress on what the lease is for.
    pub(crate) fn progressed(&self) {
        let now = self.now_ms();
        self.holding_since_ms.store(now + 1, Ordering::Relaxed);
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
    /// A control frame that is being received, or a reply that is being sent.
    Control = 1,
    /// The heads of a fetch response.
    Fetch = 2,
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// `max.connections` is reached.
    InAll(u32),
    /// `max.connections.per.ip` is reached.
    PerAddress(u32),
}

#[derive(Debug)]
struct Entry {
    state: Arc<ConnectionState>,
    task: Option<AbortHandle>,
}

#[derive(Debug, Default)]
struct Open {
    entries: HashMap<u64, Entry>,
    per_address: HashMap<IpAddr, u32>,
}

/// The open connections of all listeners.
#[derive(Debug)]
pub(crate) struct Registry {
    clock: Instant,
    next_id: AtomicU64,
    max_connections: AtomicU32,
    max_per_address: AtomicU32,
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
    /// An empty registry with its two limits.
    pub(crate) fn new(max_connections: u32, max_per_address: u32) -> Arc<Self> {
        Arc::new(Registry {
            clock: Instant::now(),
            next_id: AtomicU64::new(1),
            max_connections: AtomicU32::new(max_connections),
            max_per_address: AtomicU32::new(max_per_address),
            open: Mutex::new(Open::default()),
            stalled: AtomicU64::new(0),
            idled: AtomicU64::new(0),
        })
    }

    /// Counts a new connection in, unless a limit is reached.
    pub(crate) fn register(
        self: &Arc<Self>,
        peer: SocketAddr,
        listener: usize,
    ) -> Result<Registered, Refused> {
        let mut open = self.open.lock();
        let max = self.max_connections.load(Ordering::Relaxed);
        if open.entries.len() >= max as usize {
            return Err(Refused::InAll(max));
        }
        let max = self.max_per_address.load(Ordering::Relaxed);
        let count = open.per_address.entry(peer.ip()).or_insert(0);
        if *count >= max {
            return Err(Refused::PerAddress(max));
        }
        *count += 1;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState {
            id,
            peer,
            listener,
            clock: self.clock,
            last_active_ms: AtomicU64::new(self.clock.elapsed().as_millis() as u64),
            holding_since_ms: AtomicU64::new(0),
            holding: AtomicU32::new(0),
        });
        open.entries.insert(id, Entry { state: Arc::clone(&state), task: None });
        Ok(Registered { registry: Arc::clone(self), state })
    }

    /// Tells the registry which task to end when the connection is cut off.
    pub(crate) fn runs(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.open.lock().entries.get_mut(&id) {
            entry.task = Some(task);
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
        self.max_connections.load(Ordering::Relaxed)
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

    /// Ends every connection.
    pub(crate) fn close_all(&self) {
        for entry in self.open.lock().entries.values() {
            if let Some(task) = &entry.task {
                task.abort();
            }
        }
    }

    /// One pass of the reaper. `waited_for` tells for each [`Holding`] whether somebody waits for that budget.
    pub(crate) fn reap(&self, max_idle: Duration, stall_timeout: Duration, budgets: [&Budget; 3]) {
        let waited_for = budgets.map(Budget::has_waiters);
        let now = self.clock.elapsed().as_millis() as u64;
        let open = self.open.lock();
        for entry in open.entries.values() {
            let state = &entry.state;
            let since = state.holding_since_ms.load(Ordering::Relaxed);
            let holding = state.holding.load(Ordering::Relaxed) as usize;
            let stalled = since > 0
                && waited_for.get(holding).copied().unwrap_or(false)
                && now.saturating_sub(since - 1) >= stall_timeout.as_millis() as u64;
            let idle = now.saturating_sub(state.last_active_ms.load(Ordering::Relaxed))
                >= max_idle.as_millis() as u64;
            let Some(task) = entry.task.as_ref().filter(|_| stalled || idle) else { continue };
            task.abort();
            if stalled {
                self.stalled.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    connection = state.id, peer = %state.peer, budget = budgets[holding].name(),
                    "cut off a peer that made no progress for receive.stall.timeout.ms = {} ms while others wait \
                     for the memory it holds", stall_timeout.as_millis(),
                );
            } else {
                self.idled.fetch_add(1, Ordering::Relaxed);
                tracing::info!(
                    connection = state.id, peer = %state.peer,
                    "closed a connection that was idle for connections.max.idle.ms = {} ms", max_idle.as_millis(),
                );
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = self.registry.open.lock();
        open.entries.remove(&self.state.id);
        let address = self.state.peer.ip();
        if let Some(count) = open.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.per_address.remove(&address);
            }
        }
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
        let registry = Registry::new(3, 2);
        let a = registry.register(peer(1), 0).unwrap();
        let _b = registry.register(peer(1), 0).unwrap();
        assert_eq!(registry.register(peer(1), 0).unwrap_err(), Refused::PerAddress(2));
        let _c = registry.register(peer(2), 0).unwrap();
        assert_eq!(registry.register(peer(3), 0).unwrap_err(), Refused::InAll(3));
        drop(a);
        assert_eq!(registry.count(), 2);
        registry.register(peer(1), 0).unwrap();
    }
}
