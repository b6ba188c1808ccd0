//! Budgets and leases: fixed limits, all-or-nothing grants in arrival order, release by drop.
//!
//! Method: one mutex per budget guards its use, its queue and its holders. A request that does not fit waits in a
//! FIFO queue; a smaller one may pass a waiting larger one at most [`MAX_PASSES`] times, so that small traffic flows
//! and the large one still gets its turn. Grants are made by whoever releases, under the same lock, so a freed byte
//! is never seen free by a newcomer before the queue had its choice.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::account::Accounted;

/// How often smaller requests may pass one waiting larger request.
pub const MAX_PASSES: u32 = 32;

/// Who holds a lease, for `/memory` and the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// What the bytes are for, such as `"produce batch"`.
    pub what: &'static str,
    /// Which one: a connection or partition number, 0 if there is only one.
    pub id: u64,
}

impl Holder {
    /// A holder `what` with the number `id`.
    pub const fn new(what: &'static str, id: u64) -> Self {
        Holder { what, id }
    }
}

/// Why a lease or a child budget was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The request is larger than the whole budget: waiting cannot help.
    #[error("{bytes} bytes can never fit in budget {budget}, whose limit is {limit} bytes")]
    NeverFits {
        /// The budget's name.
        budget: String,
        /// What was asked for.
        bytes: u64,
        /// The budget's limit in bytes.
        limit: u64,
    },
    /// No room at this moment.
    #[error("budget {budget} has no room for {bytes} bytes: {used} of {limit} in use")]
    Exhausted {
        /// The budget's name.
        budget: String,
        /// What was asked for.
        bytes: u64,
        /// Bytes in use.
        used: u64,
        /// The budget's limit in bytes.
        limit: u64,
    },
    /// The limits of the children would sum to more than the parent has.
    #[error(
        "budget {child} of {bytes} bytes does not fit in {parent}: {given} of {limit} bytes are given away"
    )]
    OverCommitted {
        /// The child's name.
        child: String,
        /// The child's limit.
        bytes: u64,
        /// The parent's name.
        parent: String,
        /// What its children have already.
        given: u64,
        /// The parent's limit.
        limit: u64,
    },
}

impl BudgetError {
    /// Whether the same request can succeed later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, BudgetError::Exhausted { .. })
    }
}

/// A named share of memory with a hard limit. Cloning gives another handle on the same budget.
#[derive(Clone)]
pub struct Budget(Arc<Node>);

struct Node {
    name: String,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: u64,
    peak: u64,
    given_to_children: u64,
    queue: VecDeque<Arc<Waiter>>,
    /// No request in the queue is smaller: with less than this free there is nobody to grant anything to.
    least_wanted: u64,
    holders: Vec<Option<Held>>,
    free_slots: Vec<u32>,
    dry_since: Option<Instant>,
    dry: Duration,
    waited: u64,
    children: Vec<Budget>,
}

#[derive(Clone, Copy)]
struct Held {
    holder: Holder,
    bytes: u64,
    since: Instant,
}

struct Waiter {
    bytes: u64,
    holder: Holder,
    since: Instant,
    cell: Mutex<Cell>,
}

#[derive(Default)]
struct Cell {
    passes: u32,
    granted_slot: Option<u32>,
    waker: Option<Waker>,
}

/// What [`Budget::report`] tells of one budget; children follow their parent.
#[derive(Clone, Debug)]
pub struct BudgetReport {
    /// Path of names from the root, joined by `/`.
    pub name: String,
    /// Hard limit in bytes.
    pub limit: u64,
    /// Leased bytes; for a budget with children, theirs too.
    pub used: u64,
    /// Most bytes leased at once since the start; for a budget with children no less than the most that one of them had.
    pub peak: u64,
    /// Requests that wait now.
    pub waiters: usize,
    /// Requests that ever had to wait.
    pub waited: u64,
    /// Time during which somebody waited.
    pub dry: Duration,
    /// The holders that hold longest, oldest first.
    pub oldest: Vec<HolderReport>,
}

/// One holder in a [`BudgetReport`].
#[derive(Clone, Copy, Debug)]
pub struct HolderReport {
    /// Who.
    pub holder: Holder,
    /// How much.
    pub bytes: u64,
    /// For how long.
    pub age: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic between two assignments cannot tear the counters: each critical section below is a few plain moves.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn hold(&mut self, holder: Holder, bytes: u64, now: Instant) -> u32 {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        let held = Some(Held { holder, bytes, since: now });
        match self.free_slots.pop() {
            Some(slot) => {
                self.holders[slot as usize] = held;
                slot
            }
            None => {
                self.holders.push(held);
                (self.holders.len() - 1) as u32
            }
        }
    }

    fn resize(&mut self, slot: u32, from: u64, to: u64) {
        self.used = self.used - from + to;
        self.peak = self.peak.max(self.used);
        if let Some(held) = &mut self.holders[slot as usize] {
            held.bytes = to;
        }
    }

    /// Whether a newcomer or a waiter of `bytes` at queue position `position` may have its bytes now.
    fn admits(&self, limit: u64, bytes: u64, position: usize) -> bool {
        if bytes > limit - self.used {
            return false;
        }
        self.queue
            .iter()
            .take(position)
            .all(|ahead| ahead.bytes > bytes && lock(&ahead.cell).passes < MAX_PASSES)
    }

    /// Counts that somebody passes the first `position` of the queue; returns whether they may be passed again.
    fn count_pass(&mut self, position: usize) -> bool {
        let mut may_pass = true;
        for ahead in self.queue.iter().take(position) {
            let mut cell = lock(&ahead.cell);
            cell.passes += 1;
            may_pass &= cell.passes < MAX_PASSES;
        }
        may_pass
    }

    fn wait(&mut self, waiter: Arc<Waiter>) {
        self.waited += 1;
        self.dry_since.get_or_insert(waiter.since);
        let least = if self.queue.is_empty() { u64::MAX } else { self.least_wanted };
        self.least_wanted = least.min(waiter.bytes);
        self.queue.push_back(waiter);
    }

    /// Grants whatever the queue's order and the free bytes allow; returns the wakers to call after unlocking.
    ///
    /// It goes no further along the queue than to where nobody behind may have anything: thousands of requests of one
    /// size must not be looked at for each that is served.
    fn grant(&mut self, limit: u64) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut position = 0;
        // The smallest of those that were passed over, and whether they may be passed.
        let (mut least_ahead, mut may_pass) = (u64::MAX, true);
        while position < self.queue.len() && self.least_wanted <= limit - self.used {
            let waiter = &self.queue[position];
            if may_pass && waiter.bytes < least_ahead && waiter.bytes <= limit - self.used {
                let waiter = Arc::clone(waiter);
                may_pass = self.count_pass(position);
                self.queue.remove(position);
                let slot = self.hold(waiter.holder, waiter.bytes, Instant::now());
                let mut cell = lock(&waiter.cell);
                cell.granted_slot = Some(slot);
                wakers.extend(cell.waker.take());
            } else {
                least_ahead = least_ahead.min(waiter.bytes);
                may_pass = may_pass && lock(&waiter.cell).passes < MAX_PASSES;
                position += 1;
                if !may_pass || least_ahead <= self.least_wanted {
                    break;
                }
            }
        }
        if position == self.queue.len() {
            self.least_wanted = least_ahead;
        }
        if self.queue.is_empty()
            && let Some(since) = self.dry_since.take()
        {
            self.dry += since.elapsed();
        }
        wakers
    }
}

impl Budget {
    /// The root of a tree: all that its children may share out.
    pub fn root(name: &str, limit: u64) -> Self {
        Budget(Arc::new(Node { name: name.to_string(), limit, state: Mutex::new(State::default()) }))
    }

    /// A child with a limit of its own. Fails when the limits of all children would exceed this budget's.
    pub fn child(&self, name: &str, limit: u64) -> Result<Budget, BudgetError> {
        let mut state = lock(&self.0.state);
        if limit > self.0.limit - state.given_to_children {
            return Err(BudgetError::OverCommitted {
                child: name.to_string(),
                bytes: limit,
                parent: self.0.name.clone(),
                given: state.given_to_children,
                limit: self.0.limit,
            });
        }
        state.given_to_children += limit;
        let child = Budget::root(&format!("{}/{name}", self.0.name), limit);
        state.children.push(child.clone());
        Ok(child)
    }

    /// Path of names from the root.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Hard limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes leased from this budget itself.
    pub fn used(&self) -> u64 {
        lock(&self.0.state).used
    }

    /// Whether a request waits now: holders that make no progress should then give way.
    pub fn has_waiters(&self) -> bool {
        !lock(&self.0.state).queue.is_empty()
    }

    /// Leases `bytes` at once or not at all. Never passes a waiting request more often than the queue's rule allows.
    pub fn try_lease(&self, bytes: u64, holder: Holder) -> Result<Lease, BudgetError> {
        self.check_fits(bytes)?;
        let mut state = lock(&self.0.state);
        let position = state.queue.len();
        if !state.admits(self.0.limit, bytes, position) {
            return Err(BudgetError::Exhausted {
                budget: self.0.name.clone(),
                bytes,
                used: state.used,
                limit: self.0.limit,
            });
        }
        state.count_pass(position);
        let slot = state.hold(holder, bytes, Instant::now());
        drop(state);
        Ok(Lease { budget: self.clone(), bytes, slot, accounted: Accounted::new(bytes) })
    }

    /// Leases `bytes`, waiting in arrival order until they are there. Grants all or nothing; dropping the future
    /// gives up the place in the queue. Fails at once when the request exceeds the budget's limit.
    pub fn lease(&self, bytes: u64, holder: Holder) -> LeaseFuture {
        LeaseFuture { budget: self.clone(), bytes, holder, waiter: None }
    }

    fn check_fits(&self, bytes: u64) -> Result<(), BudgetError> {
        if bytes > self.0.limit {
            return Err(BudgetError::NeverFits { budget: self.0.name.clone(), bytes, limit: self.0.limit });
        }
        Ok(())
    }

    fn release(&self, bytes: u64, slot: u32) {
        let mut state = lock(&self.0.state);
        state.used -= bytes;
        state.holders[slot as usize] = None;
        state.free_slots.push(slot);
        let wakers = if state.queue.is_empty() { Vec::new() } else { state.grant(self.0.limit) };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn shrink(&self, slot: u32, from: u64, to: u64) {
        let mut state = lock(&self.0.state);
        state.used = state.used - from + to;
        state.peak = state.peak.max(state.used);
        if let Some(held) = &mut state.holders[slot as usize] {
            held.bytes = to;
        }
        let wakers =
            if to < from && !state.queue.is_empty() { state.grant(self.0.limit) } else { Vec::new() };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// This budget and all below it, parents first, with up to `oldest` holders each.
    pub fn report(&self, oldest: usize) -> Vec<BudgetReport> {
        let (mut own, children) = {
            let state = lock(&self.0.state);
            let mut holders: Vec<Held> = Vec::with_capacity(oldest);
            for held in state.holders.iter().flatten().filter(|_| oldest > 0) {
                if holders.len() < oldest || holders.last().is_some_and(|last| held.since < last.since) {
                    holders.truncate(oldest.saturating_sub(1));
                    holders.insert(holders.partition_point(|other| other.since <= held.since), *held);
                }
            }
            let own = BudgetReport {
                name: self.0.name.clone(),
                limit: self.0.limit,
                used: state.used,
                peak: state.peak,
                waiters: state.queue.len(),
                waited: state.waited,
                dry: state.dry + state.dry_since.map_or(Duration::ZERO, |since| since.elapsed()),
                oldest: holders
                    .iter()
                    .map(|held| HolderReport {
                        holder: held.holder,
                        bytes: held.bytes,
                        age: held.since.elapsed(),
                    })
                    .collect(),
            };
            (own, state.children.clone())
        };
        let depth = own.name.matches('/').count() + 1;
        let below: Vec<BudgetReport> = children.iter().flat_map(|child| child.report(oldest)).collect();
        own.used +=
            below.iter().filter(|r| r.name.matches('/').count() == depth).map(|r| r.used).sum::<u64>();
        // What those below held at once nobody counts; it was no less than the most that one of them held.
        own.peak = below.iter().map(|r| r.peak).fold(own.peak.max(own.used), u64::max);
        let mut all = vec![own];
        all.extend(below);
        all
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({}: {} of {})", self.0.name, self.used(), self.0.limit)
    }
}

/// A move-only claim on bytes of a [`Budget`]; dropping it gives them back.
pub struct Lease {
    budget: Budget,
    bytes: u64,
    slot: u32,
    accounted: Accounted,
}

impl Lease {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget it is held on.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Gives back all but `bytes`; larger values change nothing.
    pub fn shrink_to(&mut self, bytes: u64) {
        if bytes < self.bytes {
            self.budget.shrink(self.slot, self.bytes, bytes);
            self.bytes = bytes;
            self.accounted.set(bytes);
        }
    }

    /// Moves `bytes` of the claim into a lease of their own; all of it if that is less.
    pub fn split(&mut self, bytes: u64) -> Lease {
        let bytes = bytes.min(self.bytes);
        let mut state = lock(&self.budget.0.state);
        let (holder, since) = match state.holders.get(self.slot as usize).copied().flatten() {
            Some(held) => (held.holder, held.since),
            None => (Holder::default(), Instant::now()),
        };
        state.resize(self.slot, self.bytes, self.bytes - bytes);
        let slot = state.hold(holder, bytes, since);
        drop(state);
        self.bytes -= bytes;
        self.accounted.set(self.bytes);
        Lease { budget: self.budget.clone(), bytes, slot, accounted: Accounted::new(bytes) }
    }

    /// Takes over the bytes of `other`, a lease on the same budget.
    ///
    /// # Panics
    /// When the budgets differ: a programming error, since bytes would be given back to the wrong one.
    pub fn absorb(&mut self, mut other: Lease) {
        assert!(Arc::ptr_eq(&self.budget.0, &other.budget.0), "{other:?} is not of {}", self.budget.0.name);
        let total = self.bytes + other.bytes;
        let mut state = lock(&self.budget.0.state);
        state.resize(other.slot, other.bytes, 0);
        state.resize(self.slot, self.bytes, total);
        drop(state);
        other.bytes = 0;
        other.accounted.set(0);
        self.bytes = total;
        self.accounted.set(total);
    }

    /// Takes `more` bytes in addition, at once or not at all. It never waits: growing while others hold parts too
    /// would be hold-and-wait.
    pub fn try_grow(&mut self, more: u64) -> Result<(), BudgetError> {
        let total = self.bytes.saturating_add(more);
        self.budget.check_fits(total)?;
        let mut state = lock(&self.budget.0.state);
        let position = state.queue.len();
        if !state.admits(self.budget.0.limit, more, position) {
            return Err(BudgetError::Exhausted {
                budget: self.budget.0.name.clone(),
                bytes: more,
                used: state.used,
                limit: self.budget.0.limit,
            });
        }
        state.count_pass(position);
        state.resize(self.slot, self.bytes, total);
        drop(state);
        self.bytes = total;
        self.accounted.set(total);
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.release(self.bytes, self.slot);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes of {})", self.bytes, self.budget.0.name)
    }
}

/// A place in a budget's queue. Cancel-safe: dropped before it is ready it leaves the queue, and gives back a grant
/// that was made but not yet seen.
#[must_use = "a lease is only taken when the future is awaited"]
pub struct LeaseFuture {
    budget: Budget,
    bytes: u64,
    holder: Holder,
    waiter: Option<Arc<Waiter>>,
}

impl Future for LeaseFuture {
    type Output = Result<Lease, BudgetError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(waiter) = &self.waiter {
            let mut cell = lock(&waiter.cell);
            let Some(slot) = cell.granted_slot.take() else {
                cell.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            drop(cell);
            self.waiter = None;
            let accounted = Accounted::new(self.bytes);
            return Poll::Ready(Ok(Lease {
                budget: self.budget.clone(),
                bytes: self.bytes,
                slot,
                accounted,
            }));
        }
        match self.budget.try_lease(self.bytes, self.holder) {
            Err(BudgetError::Exhausted { .. }) => {}
            done => return Poll::Ready(done),
        }
        let waiter = Arc::new(Waiter {
            bytes: self.bytes,
            holder: self.holder,
            since: Instant::now(),
            cell: Mutex::new(Cell { waker: Some(context.waker().clone()), ..Cell::default() }),
        });
        let mut state = lock(&self.budget.0.state);
        state.wait(Arc::clone(&waiter));
        // Between the refusal and this line somebody may have released: the queue must not sleep on free bytes.
        let wakers = state.grant(self.budget.0.limit);
        drop(state);
        self.waiter = Some(waiter);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for LeaseFuture {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let mut state = lock(&self.budget.0.state);
        let granted = lock(&waiter.cell).granted_slot.take();
        if granted.is_none() {
            state.queue.retain(|queued| !Arc::ptr_eq(queued, &waiter));
        }
        // A large request that leaves may have held back the ones behind it.
        let wakers = if granted.is_none() { state.grant(self.budget.0.limit) } else { Vec::new() };
        drop(state);
        if let Some(slot) = granted {
            self.budget.release(waiter.bytes, slot);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    const WHO: Holder = Holder::new("test", 7);

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(future: &mut LeaseFuture) -> Option<Result<Lease, BudgetError>> {
        let waker = Waker::from(Arc::new(Wakes::default()));
        match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    fn granted(future: &mut LeaseFuture) -> Option<Lease> {
        poll(future).map(|done| done.expect("the request fits the budget"))
    }

    #[test]
    fn a_dropped_lease_gives_its_bytes_back_and_the_peak_stays() {
        let budget = Budget::root("root", 100);
        let lease = budget.try_lease(60, WHO).unwrap();
        assert_eq!(budget.used(), 60);
        drop(lease);
        assert_eq!(budget.used(), 0);
        assert_eq!(budget.report(1)[0].peak, 60);
    }

    #[test]
    fn a_request_larger_than_the_budget_fails_at_once_and_names_the_limit() {
        let budget = Budget::root("receive", 100);
        let error = granted_error(&mut budget.lease(101, WHO));
        assert_eq!(error.to_string(), "101 bytes can never fit in budget receive, whose limit is 100 bytes");
        assert!(!error.is_retriable());
    }

    fn granted_error(future: &mut LeaseFuture) -> BudgetError {
        poll(future).expect("an answer").expect_err("a refusal")
    }

    #[test]
    fn children_cannot_be_given_more_than_the_parent_has() {
        let root = Budget::root("root", 100);
        root.child("a", 60).unwrap();
        let error = root.child("b", 41).unwrap_err();
        assert_eq!(
            error.to_string(),
            "budget b of 41 bytes does not fit in root: 60 of 100 bytes are given away"
        );
        let b = root.child("b", 40).unwrap();
        let _lease = b.try_lease(10, WHO).unwrap();
        let report = root.report(0);
        assert_eq!(
            report.iter().map(|r| (r.name.as_str(), r.used)).collect::<Vec<_>>(),
            [("root", 10), ("root/a", 0), ("root/b", 10)]
        );
    }

    #[test]
    fn waiting_requests_are_served_in_arrival_order() {
        let budget = Budget::root("root", 100);
        let first = budget.try_lease(80, WHO).unwrap();
        let (mut a, mut b) = (budget.lease(50, WHO), budget.lease(50, WHO));
        assert!(granted(&mut a).is_none() && granted(&mut b).is_none());
        assert!(budget.has_waiters());
        drop(first);
        let a = granted(&mut a).expect("the first in the queue");
        let b = granted(&mut b).expect("both fit");
        assert_eq!(budget.used(), 100);
        drop((a, b));
        assert_eq!(budget.used(), 0);
        assert!(!budget.has_waiters());
    }

    #[test]
    fn small_requests_pass_a_waiting_large_one_a_bounded_number_of_times() {
        let budget = Budget::root("root", 100);
        let holder = budget.try_lease(50, WHO).unwrap();
        let mut large = budget.lease(100, WHO);
        assert!(granted(&mut large).is_none());
        for _ in 0..MAX_PASSES {
            drop(budget.try_lease(1, WHO).expect("may pass"));
        }
        assert!(budget.try_lease(1, WHO).unwrap_err().is_retriable(), "one pass too many");
        drop(holder);
        assert_eq!(granted(&mut large).expect("its turn").bytes(), 100);
    }

    #[test]
    fn an_equal_request_never_passes() {
        let budget = Budget::root("root", 100);
        let _holder = budget.try_lease(50, WHO).unwrap();
        let mut waiting = budget.lease(60, WHO);
        assert!(granted(&mut waiting).is_none());
        let mut same = budget.lease(60, WHO);
        assert!(granted(&mut same).is_none());
        drop(waiting);
        assert!(granted(&mut same).is_none(), "still does not fit");
    }

    #[test]
    fn a_future_dropped_after_its_grant_gives_the_bytes_back() {
        let budget = Budget::root("root", 100);
        let holder = budget.try_lease(100, WHO).unwrap();
        let mut waiting = budget.lease(70, WHO);
        assert!(granted(&mut waiting).is_none());
        drop(holder);
        assert_eq!(budget.used(), 70, "granted before anybody looked");
        drop(waiting);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_large_request_that_leaves_lets_the_ones_behind_it_go() {
        let budget = Budget::root("root", 100);
        let _holder = budget.try_lease(50, WHO).unwrap();
        let mut large = budget.lease(100, WHO);
        assert!(granted(&mut large).is_none());
        for _ in 0..MAX_PASSES {
            drop(budget.try_lease(1, WHO).unwrap());
        }
        let mut small = budget.lease(10, WHO);
        assert!(granted(&mut small).is_none());
        drop(large);
        assert!(granted(&mut small).is_some());
    }

    #[test]
    fn a_small_request_behind_many_that_do_not_fit_is_found_and_they_are_looked_at_no_more() {
        let budget = Budget::root("root", 100);
        let mut holder = budget.try_lease(100, WHO).unwrap();
        let mut large: Vec<_> = (0..50).map(|_| budget.lease(60, WHO)).collect();
        assert!(large.iter_mut().all(|waiting| granted(waiting).is_none()));
        let mut small = budget.lease(10, WHO);
        assert!(granted(&mut small).is_none());
        holder.shrink_to(85);
        let small = granted(&mut small).expect("it fits, and may pass");
        // What is freed next is too little for each of those that still wait.
        holder.shrink_to(50);
        assert_eq!(lock(&budget.0.state).least_wanted, 60);
        drop((holder, small));
        assert!(granted(&mut large[0]).is_some() && granted(&mut large[1]).is_some());
    }

    #[test]
    fn shrinking_serves_the_queue_and_growing_never_waits() {
        let budget = Budget::root("root", 100);
        let mut lease = budget.try_lease(90, WHO).unwrap();
        let mut waiting = budget.lease(40, WHO);
        assert!(granted(&mut waiting).is_none());
        lease.shrink_to(60);
        let other = granted(&mut waiting).expect("room was made");
        assert!(lease.try_grow(1).unwrap_err().is_retriable());
        drop(other);
        lease.try_grow(40).unwrap();
        assert_eq!((lease.bytes(), budget.used()), (100, 100));
    }

    #[test]
    fn a_split_lease_is_two_leases_of_the_same_sum() {
        let budget = Budget::root("root", 100);
        let mut lease = budget.try_lease(90, WHO).unwrap();
        let part = lease.split(30);
        assert_eq!((lease.bytes(), part.bytes(), budget.used()), (60, 30, 90));
        drop(lease);
        assert_eq!(budget.used(), 30);
        let mut rest = budget.try_lease(5, WHO).unwrap();
        rest.absorb(part);
        assert_eq!((rest.bytes(), budget.used()), (35, 35));
        drop(rest);
        assert_eq!(budget.used(), 0);
        assert_eq!(budget.report(0)[0].peak, 90);
    }

    #[test]
    fn a_parent_has_no_smaller_peak_than_its_children() {
        let root = Budget::root("root", 100);
        let child = root.child("a", 60).unwrap();
        drop(child.try_lease(50, WHO).unwrap());
        let peaks: Vec<u64> = root.report(0).iter().map(|report| report.peak).collect();
        assert_eq!(peaks, [50, 50]);
    }

    #[test]
    fn the_report_names_the_oldest_holders() {
        let budget = Budget::root("root", 100);
        let _a = budget.try_lease(5, Holder::new("first", 1)).unwrap();
        let b = budget.try_lease(6, Holder::new("second", 2)).unwrap();
        let _c = budget.try_lease(7, Holder::new("third", 3)).unwrap();
        drop(b);
        let oldest = &budget.report(2)[0].oldest;
        assert_eq!(
            oldest.iter().map(|h| (h.holder.what, h.bytes)).collect::<Vec<_>>(),
            [("first", 5), ("third", 7)]
        );
    }

    #[test]
    fn random_traffic_never_exceeds_the_limit_starves_nobody_and_ends_at_zero() {
        for seed in 1..=40_u64 {
            println!("seed {seed}");
            let mut random = seed;
            let mut next = |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let budget = Budget::root("root", 1000);
            let mut held: Vec<Lease> = Vec::new();
            let mut waiting: Vec<LeaseFuture> = Vec::new();
            for _ in 0..3000 {
                match next(5) {
                    0 => held.extend(budget.try_lease(1 + next(300), WHO).ok()),
                    1 => waiting.push(budget.lease(1 + next(1000), WHO)),
                    2 if !held.is_empty() => drop(held.swap_remove(next(held.len() as u64) as usize)),
                    3 if !waiting.is_empty() && next(4) == 0 => {
                        drop(waiting.swap_remove(next(waiting.len() as u64) as usize));
                    }
                    _ if !held.is_empty() => {
                        let index = next(held.len() as u64) as usize;
                        let bytes = held[index].bytes();
                        held[index].shrink_to(bytes / 2);
                    }
                    _ => {}
                }
                waiting.retain_mut(|future| match granted(future) {
                    Some(lease) => {
                        held.push(lease);
                        false
                    }
                    None => true,
                });
                let sum: u64 = held.iter().map(Lease::bytes).sum();
                assert_eq!(budget.used(), sum);
                assert!(sum <= 1000);
                let state = lock(&budget.0.state);
                for (position, waiter) in state.queue.iter().enumerate() {
                    assert!(!state.admits(1000, waiter.bytes, position), "overlooked at {position}");
                    assert!(state.least_wanted <= waiter.bytes);
                }
            }
            while !waiting.is_empty() || !held.is_empty() {
                let before = waiting.len();
                held.clear();
                waiting.retain_mut(|future| granted(future).is_none());
                assert!(before == 0 || waiting.len() < before, "a queue with all memory free must move");
            }
            assert_eq!(budget.used(), 0);
        }
    }
}
