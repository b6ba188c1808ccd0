//! One process-wide counter of the bytes that some budget vouches for, so that an allocator can tell bytes that
//! nobody leased. Adding and subtracting happens where leases and idle chunks are made and dropped, nowhere else.

use std::sync::atomic::{AtomicU64, Ordering};

static ACCOUNTED: AtomicU64 = AtomicU64::new(0);

/// Bytes under any live [`crate::Lease`], plus idle chunks kept for reuse.
pub fn accounted_bytes() -> u64 {
    ACCOUNTED.load(Ordering::Relaxed)
}

/// A claim on the process-wide counter; drops with its bytes.
#[derive(Debug)]
pub struct Accounted(u64);

impl Accounted {
    /// Adds `bytes` to the counter until the value is dropped.
    pub fn new(bytes: u64) -> Self {
        ACCOUNTED.fetch_add(bytes, Ordering::Relaxed);
        Accounted(bytes)
    }

    pub(crate) fn set(&mut self, bytes: u64) {
        if bytes >= self.0 {
            ACCOUNTED.fetch_add(bytes - self.0, Ordering::Relaxed);
        } else {
            ACCOUNTED.fetch_sub(self.0 - bytes, Ordering::Relaxed);
        }
        self.0 = bytes;
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        ACCOUNTED.fetch_sub(self.0, Ordering::Relaxed);
    }
}
