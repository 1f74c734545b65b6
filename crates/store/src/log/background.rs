//! The threads of a log: one hands what grows old to the operating system, one makes it durable, one makes files ready.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use duramen_base::clock;
use parking_lot::{Condvar, Mutex};

use super::core::Core;
use super::error::LogError;

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// The threads. They end when this is dropped.
pub(crate) struct Threads {
    core: Arc<Core>,
    stop: Arc<Stop>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn start(core: &Arc<Core>, sync_every: Duration) -> Result<Self, LogError> {
        let stop = Arc::new(Stop::default());
        let mut threads = Self { core: core.clone(), stop: stop.clone(), handles: Vec::new() };
        let shared = core.clone();
        let stopped = stop.clone();
        threads.spawn("log-write", move || write_old(&shared, &stopped, sync_every))?;
        let shared = core.clone();
        threads.spawn("log-sync", move || sync_old(&shared, &stop, sync_every))?;
        let shared = core.clone();
        threads.spawn("log-files", move || shared.pool().run())?;
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        self.handles.push(spawned.map_err(LogError::io("start the thread", name))?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        *self.stop.stopped.lock() = true;
        self.stop.wake.notify_all();
        self.core.pool().stop();
        for handle in self.handles.drain(..) {
            // A thread that panicked has said so itself.
            handle.join().ok();
        }
    }
}

/// Calls `act` every `pause`, or at once if it took longer, until the log stops.
fn each(stop: &Stop, pause: Duration, mut act: impl FnMut()) {
    let mut stopped = stop.stopped.lock();
    let mut due = clock::now() + pause;
    while !*stopped {
        if !stop.wake.wait_until(&mut stopped, due).timed_out() {
            continue;
        }
        parking_lot::MutexGuard::unlocked(&mut stopped, || {
            due = clock::now() + pause;
            act();
        });
    }
}

/// A killed process loses what the operating system does not have, and a sync of a slow disk takes any time: so this waits
/// for none. Where every commit is handed over before it is acknowledged, there is nothing to do.
fn write_old(core: &Core, stop: &Stop, every: Duration) {
    each(stop, (every / 2).max(Duration::from_millis(1)), || {
        // An error poisons the log, and whoever writes next hears of it.
        core.wait_written(core.last()).ok();
    });
}

/// Looks twice in `every`: a record that was there the last time and is not durable yet is at most `every` old.
/// Where every commit is strict there is none, so this never syncs for nothing.
fn sync_old(core: &Core, stop: &Stop, every: Duration) {
    let mut mark = core.last();
    each(stop, (every / 2).max(Duration::from_millis(1)), || {
        if !core.is_durable(mark) {
            core.wait_durable(core.last()).ok();
        }
        mark = core.last();
    });
}
