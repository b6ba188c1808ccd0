//! How many segments all logs of a process have, and how many they may: each is a few hundred bytes of memory, and
//! short settings of a topic would make any number of them.
//!
//! Method: segments and logs count themselves in and out. One segment of each log, the one that it appends to, is the
//! log's own; those beside it are limited. At the limit a log appends on instead of rolling, up to what a segment's
//! positions can express.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Lines about the limit are this far apart.
const SAY_EVERY_MS: i64 = 10_000;

/// The count of segments and its limit.
#[derive(Debug)]
pub struct SegmentQuota {
    limit: usize,
    segments: AtomicUsize,
    logs: AtomicUsize,
    put_off: AtomicU64,
    said_ms: AtomicI64,
}

/// One that is counted; counts itself out when dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    quota: Arc<SegmentQuota>,
    is_log: bool,
}

impl SegmentQuota {
    /// At most `limit` segments beside the active ones, over all logs that share this quota.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            segments: AtomicUsize::new(0),
            logs: AtomicUsize::new(0),
            put_off: AtomicU64::new(0),
            said_ms: AtomicI64::new(i64::MIN),
        })
    }

    /// The limit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Segments of all logs, the active ones included.
    pub fn used(&self) -> usize {
        self.segments.load(Ordering::Relaxed)
    }

    /// Segments beside the active ones.
    pub fn beside_active(&self) -> usize {
        self.used().saturating_sub(self.logs.load(Ordering::Relaxed))
    }

    /// Appends that would have rolled a segment, and did not because of the limit.
    pub fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.beside_active() >= self.limit
    }

    /// Notes that a roll was put off. True when that is worth a line of the log.
    pub(crate) fn note_put_off(&self, now_ms: i64) -> bool {
        self.put_off.fetch_add(1, Ordering::Relaxed);
        let said_ms = self.said_ms.load(Ordering::Relaxed);
        now_ms.saturating_sub(said_ms) >= SAY_EVERY_MS
            && self.said_ms.compare_exchange(said_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn segment(self: &Arc<Self>) -> Counted {
        self.segments.fetch_add(1, Ordering::Relaxed);
        Counted { quota: Arc::clone(self), is_log: false }
    }

    pub(crate) fn log(self: &Arc<Self>) -> Counted {
        self.logs.fetch_add(1, Ordering::Relaxed);
        Counted { quota: Arc::clone(self), is_log: true }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let count = if self.is_log { &self.quota.logs } else { &self.quota.segments };
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_counts_no_more_and_the_limit_is_said_now_and_then() {
        let quota = SegmentQuota::new(1);
        let (_log, first) = (quota.log(), quota.segment());
        assert!(!quota.is_full());
        let second = quota.segment();
        assert!(quota.is_full());
        assert_eq!((quota.note_put_off(0), quota.note_put_off(1), quota.put_off()), (true, false, 2));
        drop((first, second));
        assert_eq!((quota.used(), quota.is_full()), (0, false));
    }
}
