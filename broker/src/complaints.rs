//! Limits how often the log repeats itself: what a peer can cause at will is said a few times a second and counted.
//! Each limit of the server has a window of its own, so that one that is reached all the time hides no other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::metrics::LIMITS;

/// Complaints said in one window.
const PER_WINDOW: u32 = 5;
const WINDOW: Duration = Duration::from_secs(1);

/// The complaints about each of the server's limits.
#[derive(Debug)]
pub(crate) struct LimitComplaints([Complaints; LIMITS.len()]);

impl Default for LimitComplaints {
    fn default() -> Self {
        LimitComplaints(std::array::from_fn(|_| Complaints::new()))
    }
}

impl LimitComplaints {
    /// As [`Complaints::allow`] of the limit that `property` sets.
    pub(crate) fn allow(&self, property: &str) -> Option<u64> {
        let at = LIMITS.iter().position(|limit| *limit == property)?;
        self.0.get(at)?.allow()
    }
}

/// One kind of complaint.
#[derive(Debug)]
pub(crate) struct Complaints {
    window: Mutex<(Instant, u32)>,
    unsaid: AtomicU64,
}

impl Complaints {
    /// Nothing said yet.
    pub(crate) fn new() -> Self {
        Complaints { window: Mutex::new((Instant::now(), 0)), unsaid: AtomicU64::new(0) }
    }

    /// Whether the next one may be said; the number is how many went unsaid since the last that was.
    pub(crate) fn allow(&self) -> Option<u64> {
        self.allow_at(Instant::now())
    }

    fn allow_at(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock();
        if now.duration_since(window.0) >= WINDOW {
            *window = (now, 0);
        }
        if window.1 >= PER_WINDOW {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        window.1 += 1;
        Some(self.unsaid.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_said_a_few_times_and_then_counted() {
        let complaints = Complaints::new();
        let start = Instant::now();
        let said = (0..100).filter(|_| complaints.allow_at(start).is_some()).count();
        assert_eq!(said, 5);
        assert_eq!(complaints.allow_at(start + WINDOW), Some(95));
    }
}
