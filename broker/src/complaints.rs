//! Limits how often the log repeats itself: what a peer can cause at will is said a few times a second and counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Complaints said in one window.
const PER_WINDOW: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

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
    fn a_flood_is_said_ten_times_and_then_counted() {
        let complaints = Complaints::new();
        let start = Instant::now();
        let said = (0..100).filter(|_| complaints.allow_at(start).is_some()).count();
        assert_eq!(said, 10);
        assert_eq!(complaints.allow_at(start + WINDOW), Some(90));
    }
}
