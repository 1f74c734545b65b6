//! Counting what is asked of the allocator, in the processes that measure.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static COUNTS: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static IN_USE: AtomicBool = AtomicBool::new(false);

/// An allocator that counts calls once [`count`] was called. Until then it costs one load of a flag.
#[derive(Debug)]
pub struct Counting<A>(A);

impl<A> Counting<A> {
    /// Counts what is asked of another allocator.
    pub const fn new(allocator: A) -> Self {
        Counting(allocator)
    }
}

fn note() {
    if COUNTS.load(Ordering::Relaxed) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    if !IN_USE.load(Ordering::Relaxed) {
        IN_USE.store(true, Ordering::Relaxed);
    }
}

// SAFETY: every call goes unchanged to the allocator within, which keeps the contract; counting touches atomics only.
#[allow(
    unsafe_code,
    reason = "the trait of allocators is unsafe, and counts of allocations are a figure of this suite"
)]
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's contract is that of the allocator within.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; `at` came from the allocator within.
        unsafe { self.0.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above; `at` came from the allocator within.
        unsafe { self.0.realloc(at, layout, size) }
    }
}

/// Begins to count, and returns how many calls there were before. None when this program has another allocator.
pub fn count() -> Option<u64> {
    COUNTS.store(true, Ordering::Relaxed);
    IN_USE.load(Ordering::Relaxed).then(|| CALLS.load(Ordering::Relaxed))
}
