//! An allocator that counts: live bytes, their peak, and the peak of live bytes that no budget vouched for.
//!
//! It wraps another allocator and costs a few relaxed atomic operations a call, so a server can run on it always and
//! show the contract ("live bytes ≤ leased + base") as a figure instead of a promise.
#![allow(
    unsafe_code,
    reason = "GlobalAlloc can only be implemented by unsafe code; every call is forwarded as it came"
)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::account::accounted_bytes;

static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static PEAK_UNACCOUNTED: AtomicI64 = AtomicI64::new(0);

/// Counts what passes through it to the allocator `A`.
#[derive(Debug)]
pub struct CountingAllocator<A>(A);

impl<A> CountingAllocator<A> {
    /// Wraps `inner`.
    pub const fn new(inner: A) -> Self {
        CountingAllocator(inner)
    }
}

fn grew(bytes: usize) {
    let live = LIVE.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
    let unaccounted = live - accounted_bytes() as i64;
    if unaccounted > PEAK_UNACCOUNTED.load(Ordering::Relaxed) {
        PEAK_UNACCOUNTED.fetch_max(unaccounted, Ordering::Relaxed);
    }
}

fn shrank(bytes: usize) {
    LIVE.fetch_sub(bytes as i64, Ordering::Relaxed);
}

// SAFETY: every call goes to the wrapped allocator unchanged; the counters touch no memory that is handed out.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc` for `layout`.
        let pointer = unsafe { self.0.alloc(layout) };
        if !pointer.is_null() {
            grew(layout.size());
        }
        pointer
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed` for `layout`.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            grew(layout.size());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: the caller hands back what this allocator gave for `layout`.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `realloc`.
        let moved = unsafe { self.0.realloc(pointer, layout, new_size) };
        if !moved.is_null() {
            if new_size >= layout.size() {
                grew(new_size - layout.size());
            } else {
                shrank(layout.size() - new_size);
            }
        }
        moved
    }
}

/// Bytes allocated now through a [`CountingAllocator`]; 0 where none is installed.
pub fn allocated_bytes() -> u64 {
    LIVE.load(Ordering::Relaxed).max(0) as u64
}

/// Most bytes allocated at any instant since the start or [`reset_peaks`].
pub fn peak_allocated_bytes() -> u64 {
    PEAK.load(Ordering::Relaxed).max(0) as u64
}

/// Most bytes, at any instant, that were allocated without a lease: what the fixed base must cover.
pub fn peak_unaccounted_bytes() -> u64 {
    PEAK_UNACCOUNTED.load(Ordering::Relaxed).max(0) as u64
}

/// Starts both peaks anew at the present figures.
pub fn reset_peaks() {
    let live = LIVE.load(Ordering::Relaxed);
    PEAK.store(live, Ordering::Relaxed);
    PEAK_UNACCOUNTED.store(live - accounted_bytes() as i64, Ordering::Relaxed);
}
