//! Counts how often an engine of the packs suite asks the allocator while it writes a file.
//!
//! A program of its own, so that no other has an allocator that counts. The suite starts it if it lies beside `duramen`:
//! `duramen-count-allocations ENGINE:GRANTS FOLDER` prints the count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use duramen_lab::packs::{count_allocations, Part};

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The allocator of the system, whose calls are counted.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes unchanged to the system's allocator, which keeps the contract; counting touches an atomic only.
#[allow(
    unsafe_code,
    reason = "the trait of allocators is unsafe, and counts of allocations are a figure of the suite"
)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above; `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above; `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [part, folder] = arguments.as_slice() else {
        return Err("usage: duramen-count-allocations ENGINE:GRANTS FOLDER".into());
    };
    let part: Part = part.parse()?;
    let calls = count_allocations(part, Path::new(folder), || CALLS.load(Ordering::Relaxed))?;
    writeln!(std::io::stdout(), "{calls}")?;
    Ok(())
}
