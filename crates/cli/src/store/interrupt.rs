//! Ctrl-C while a line of a shell runs: what prints or waits ends; what cannot be ended halfway ends with the shell, at the
//! second Ctrl-C. Commands outside of a shell are ended by the signal itself.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

/// The exit status of a program that SIGINT has ended.
const INTERRUPTED: i32 = 130;

/// Whether a line is running.
static RUNS: AtomicBool = AtomicBool::new(false);
/// How often it was interrupted.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Takes the signal from now on, instead of being ended by it.
pub(crate) fn listen() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
        runtime.block_on(async move {
            while signals.recv().await.is_some() {
                let is_again = RUNS.load(Ordering::SeqCst) && ASKED.fetch_add(1, Ordering::SeqCst) > 0;
                if is_again {
                    // As the signal would do: what was acknowledged is in the store's log.
                    std::process::exit(INTERRUPTED);
                }
            }
        });
    })?;
    Ok(())
}

/// Runs a line, and tells whether it was interrupted.
pub(crate) fn while_it_runs<T>(work: impl FnOnce() -> T) -> (T, bool) {
    ASKED.store(0, Ordering::SeqCst);
    RUNS.store(true, Ordering::SeqCst);
    let done = work();
    RUNS.store(false, Ordering::SeqCst);
    (done, ASKED.swap(0, Ordering::SeqCst) > 0)
}

/// Whether the line that runs should end.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}
