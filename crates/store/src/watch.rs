//! Watching a branch: what changed in it since the last look, as soon as anything does.
//!
//! Nothing is queued for a watcher: it holds a snapshot, and compares it with the branch as that is when it looks. So a watcher that
//! is slow misses no change of a key, sees several of one key as one, and costs the writer no memory but what a snapshot
//! costs.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duramen_base::clock;
use parking_lot::{Condvar, Mutex};

use crate::branch::Branch;
use crate::diff::{DiffEntry, Part, RawChange};
use crate::error::StoreError;
use crate::follower::Follower;
use crate::history::Moment;
use crate::snapshot::Snapshot;

/// Tells those who wait that something was written, or that nothing more will be.
#[derive(Default)]
pub(crate) struct News {
    /// Threads that wait, and tasks.
    waiting: AtomicUsize,
    tasks: Mutex<Tasks>,
    written: Condvar,
}

/// The tasks that wait, by the number of their watch: each at most once, however often it asks.
#[derive(Default)]
struct Tasks {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl News {
    /// Something was written.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.tell_all();
        }
    }

    fn tell_all(&self) {
        let mut tasks = self.tasks.lock();
        self.written.notify_all();
        let woken = std::mem::take(&mut tasks.waiting);
        self.waiting.fetch_sub(woken.len(), Ordering::SeqCst);
        drop(tasks);
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// A number for a task that will wait.
    fn number(&self) -> u64 {
        let mut tasks = self.tasks.lock();
        tasks.next += 1;
        tasks.next
    }

    /// Has a task woken when there is news, unless `is_there`. Returns whether it is.
    fn wake(&self, number: u64, waker: &Waker, is_there: impl Fn() -> bool) -> bool {
        // A waker is code of others, which may come back here: it is cloned before the lock, and dropped behind it.
        let waker = waker.clone();
        let mut tasks = self.tasks.lock();
        let old = match tasks.waiting.iter_mut().find(|(known, _)| *known == number) {
            Some((_, known)) => Some(std::mem::replace(known, waker)),
            None => {
                tasks.waiting.push((number, waker));
                self.waiting.fetch_add(1, Ordering::SeqCst);
                None
            }
        };
        // Behind the count: whoever writes after this sees it, and waits for the lock.
        let found = is_there();
        drop(tasks);
        drop(old);
        found
    }

    /// A task waits no more.
    fn forget(&self, number: u64) {
        let mut tasks = self.tasks.lock();
        let known = tasks.waiting.iter().position(|(known, _)| *known == number);
        let old = known.map(|at| tasks.waiting.swap_remove(at));
        if old.is_some() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        // The waker is dropped behind the lock, as in `wake`.
        drop(tasks);
        drop(old);
    }

    /// Waits until `is_there`, which what is told about makes true. Returns whether it is.
    pub(crate) fn wait(&self, timeout: Duration, is_there: impl Fn() -> bool) -> bool {
        let begin = clock::now();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.tasks.lock();
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
    /// What a task that polls it is known by.
    task: Option<u64>,
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
        let (part, last) = self.watch_from(part, from)?;
        Ok(Watch { source: Source::Branch(self.clone()), part, last, task: None })
    }

    fn watch_from(&self, part: Part, from: Option<&Moment>) -> Result<(Part, Snapshot), StoreError> {
        part.ranges()?;
        let last = match from {
            Some(moment) => self.at(moment)?,
            None => self.snapshot()?,
        };
        Ok((part, last))
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
        let (part, last) = self.branch(branch)?.watch_from(part, from)?;
        Ok(Watch { source: Source::Follower(self.clone(), branch.to_owned()), part, last, task: None })
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

    /// Whether the store has a later version than was seen: then [`next`](Self::next) need not wait. If not, the task is woken as soon as there is
    /// one, or none will come: for asynchronous programs, which must not block a thread. The task is woken by the
    /// thread that writes, so waking it must be quick. A watch wakes one task, the last that polled it.
    ///
    /// ```
    /// use std::task::{Context, Waker};
    /// use duramen_store::{Part, Scope, Store};
    /// let main = Store::memory().branch("main")?;
    /// let mut watch = main.watch(Part::default(), None)?;
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(watch.poll_later(&mut context).is_pending());
    /// main.kv().put("leaf", "fallen")?;
    /// assert!(watch.poll_later(&mut context).is_ready());
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Closed`] and [`StoreError::Poisoned`] when all was seen and nothing more is written;
    /// [`StoreError::InvalidInput`] for a watch of a [`Follower`], which nobody tells of what another process writes.
    pub fn poll_later(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let Source::Branch(branch) = &self.source else {
            let reason = "a follower learns of writes by looking; wait with `next` on a thread".to_owned();
            return Poll::Ready(Err(StoreError::InvalidInput { what: "polling such a watch", reason }));
        };
        let engine = branch.engine();
        let seen = self.last.version();
        let is_there = || engine.last_version() > seen || engine.check_poison().is_err();
        let task = *self.task.get_or_insert_with(|| engine.news().number());
        if !is_there() && !engine.news().wake(task, context.waker(), is_there) {
            return Poll::Pending;
        }
        Poll::Ready(if engine.last_version() > seen { Ok(()) } else { engine.check_poison() })
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

impl Drop for Watch {
    fn drop(&mut self) {
        if let (Source::Branch(branch), Some(task)) = (&self.source, self.task) {
            branch.engine().news().forget(task);
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
