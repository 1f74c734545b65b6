//! Watching a branch: what changed in it since the last look, as soon as anything does.
//!
//! Nothing is queued for a watcher: it holds a snapshot, and compares it with the branch as that is when it looks. So a watcher that
//! is slow misses no change of a key, sees several of one key as one, and costs the writer no memory but what a snapshot
//! costs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use parking_lot::{Condvar, Mutex};

use crate::branch::Branch;
use crate::diff::{DiffEntry, Part, RawChange};
use crate::error::StoreError;
use crate::follower::Follower;
use crate::history::Moment;
use crate::snapshot::Snapshot;

/// Tells those who wait that something was written.
#[derive(Default)]
pub(crate) struct News {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    written: Condvar,
}

impl News {
    /// Something was written.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.lock.lock();
            self.written.notify_all();
        }
    }

    /// Waits until `is_there`, which what is told about makes true. Returns whether it is.
    pub(crate) fn wait(&self, timeout: Duration, is_there: impl Fn() -> bool) -> bool {
        let begin = clock::now();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        let mut found = is_there();
        while !found {
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            self.written.wait_for(&mut guard, left);
            found = is_there();
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        found
    }
}

/// A look at a branch, or a part of it, from a state on: see [`Branch::watch`] and [`Follower::watch`].
pub struct Watch {
    source: Source,
    part: Part,
    last: Snapshot,
}

enum Source {
    Branch(Branch),
    Follower(Arc<Follower>, String),
}

impl Branch {
    /// Watches the branch: what changes in a part of it from now on, or from a state on that is retained.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duramen_store::{Part, Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// let mut watch = main.watch(Part::default(), None)?;
    /// std::thread::spawn(move || main.kv().put("leaf", "fallen"));
    /// let (_, changes) = watch.next(Duration::from_secs(60))?.expect("it is written within a minute");
    /// assert_eq!(changes[0].key, "leaf");
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read; those of [`at`](Self::at); when a name in `part` is not allowed, or the store is
    /// only read.
    pub fn watch(&self, part: Part, from: Option<&Moment>) -> Result<Watch, StoreError> {
        if self.engine().options().read_only {
            let reason =
                "the store is only read, so nothing changes in it; a `Follower` has a watch of its own"
                    .to_owned();
            return Err(StoreError::InvalidInput { what: "a watch", reason });
        }
        self.watch_from(part, from)
    }

    fn watch_from(&self, part: Part, from: Option<&Moment>) -> Result<Watch, StoreError> {
        part.ranges()?;
        let last = match from {
            Some(moment) => self.at(moment)?,
            None => self.snapshot()?,
        };
        Ok(Watch { source: Source::Branch(self.clone()), part, last })
    }
}

impl Follower {
    /// Watches a branch that another process writes: see [`Branch::watch`].
    ///
    /// # Errors
    /// As there, and as [`Follower::branch`].
    pub fn watch(
        self: &Arc<Self>,
        branch: &str,
        part: Part,
        from: Option<&Moment>,
    ) -> Result<Watch, StoreError> {
        let Watch { part, last, .. } = self.branch(branch)?.watch_from(part, from)?;
        Ok(Watch { source: Source::Follower(self.clone(), branch.to_owned()), part, last })
    }
}

impl Watch {
    /// The version up to which changes have been seen.
    pub fn version(&self) -> u64 {
        self.last.version()
    }

    /// Waits until something changed, and returns what, in the order of the keys, with the version up to which that goes; none when
    /// the time is over. All of it is in memory at once: [`next_with`](Self::next_with) shows one change at a time.
    ///
    /// # Errors
    /// When the branch is gone, or cannot be read.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<(u64, Vec<DiffEntry>)>, StoreError> {
        let mut changes = Vec::new();
        let version = self.next_with(timeout, |change| {
            changes.extend(change.entry());
            ControlFlow::Continue(())
        })?;
        Ok(version.map(|version| (version, changes)))
    }

    /// Waits until something changed, and shows it, one key at a time, as it lies. Returns the version up to which that goes; none
    /// when the time is over. If `show` breaks off, the same is shown again by the next call, and what came to it.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_with(
        &mut self,
        timeout: Duration,
        mut show: impl FnMut(RawChange<'_>) -> ControlFlow<()>,
    ) -> Result<Option<u64>, StoreError> {
        let begin = clock::now();
        loop {
            let Some(now) = self.later(timeout.saturating_sub(begin.elapsed()))? else { return Ok(None) };
            let (mut any, mut stopped) = (false, false);
            self.last.diff_with(&now, &self.part, |change| {
                any = true;
                let flow = show(change);
                stopped = flow.is_break();
                flow
            })?;
            let version = now.version();
            if !stopped {
                self.last = now;
            }
            if any {
                return Ok(Some(version));
            }
            // Others may be writing to other branches all the time.
            if begin.elapsed() >= timeout {
                return Ok(None);
            }
        }
    }

    /// The branch as it is when the store has a later version than was seen.
    fn later(&self, timeout: Duration) -> Result<Option<Snapshot>, StoreError> {
        let seen = self.last.version();
        match &self.source {
            Source::Branch(branch) => {
                let engine = branch.engine();
                let is_later = || engine.last_version() > seen;
                let found = is_later() || engine.news().wait(timeout, is_later);
                found.then(|| branch.snapshot()).transpose()
            }
            Source::Follower(follower, branch) => {
                let Some(store) = follower.wait(seen, timeout)? else { return Ok(None) };
                store.branch(branch)?.snapshot().map(Some)
            }
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("version", &self.version())
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}
