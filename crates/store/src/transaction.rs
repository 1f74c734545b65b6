//! Transactions: optimistic, on a snapshot, first committer wins.

mod reads;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use duramen_base::entropy;
use duramen_tree::{KeyRange, LeafView, RunView};

use self::reads::{Reads, Times};
use crate::access::{Access, Edit, RowVisitor, View, WriteVisitor};
use crate::batch::Batch;
use crate::branch::Branch;
use crate::error::StoreError;
use crate::keys;
use crate::overlay::{splice_over, Overlay};
use crate::record;
use crate::snapshot::Snapshot;

pub use self::reads::{READS_MAX, READ_BYTES_MAX};

/// How often [`Branch::transact`] runs its work, at most.
pub const ATTEMPTS_MAX: u32 = 100;

/// The longest pause before the third attempt, which doubles with each ...
const PAUSE_FIRST: Duration = Duration::from_micros(40);
/// ... up to this.
const PAUSE_MOST: Duration = Duration::from_millis(10);

/// Several writes that are committed together or not at all.
///
/// It reads the branch as it was at the beginning, with its own writes. There are two levels:
///
/// - **snapshot isolation**, of [`Branch::transact`] and [`Branch::begin`]: it commits only if nobody else has meanwhile
///   changed a key that it writes. What it reads and does not write may have changed by then, so two transactions can each
///   read what the other writes, and both commit (write skew). What a write cannot do without is looked after: an appended
///   event depends on the one before it, a vector on its collection.
/// - **serialisable**, of [`Branch::transact_serialisable`] and [`Branch::begin_serialisable`]: if it writes, it commits only if
///   all that it read is still so as well, the keys that it did not find and the ranges that it scanned included. Such
///   transactions do what they would do one after the other, in the order of their commits. That holds among them: what is
///   written at the other level is seen, and sees less.
///
/// What is read past the transaction, through the branch, is not looked after at either.
///
/// ```
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put("alice", 10)?;
/// main.transact(|tx| {
///     let balance = tx.kv().get("alice")?.and_then(|value| value.as_i64()).unwrap_or(0);
///     tx.kv().put("alice", balance - 3)?;
///     tx.kv().put("bob", 3)?;
///     Ok(())
/// })?;
/// assert_eq!(main.kv().get("bob")?, Some(3.into()));
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
pub struct Transaction {
    branch: Branch,
    snapshot: Snapshot,
    batch: RefCell<Batch>,
    /// Keys that what is written makes no sense without, and which are not written.
    depends: RefCell<BTreeSet<Vec<u8>>>,
    /// What was read, if it is serialisable.
    reads: Option<RefCell<Reads>>,
    /// The savepoints that can be gone back to, with how many operations there were, and the number of the next one.
    savepoints: RefCell<(Vec<(u64, usize)>, u64)>,
}

/// A place in a [`Transaction`] that can be gone back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

impl Transaction {
    fn begin(branch: &Branch, reads: Option<RefCell<Reads>>) -> Result<Self, StoreError> {
        let snapshot = branch.snapshot()?;
        if reads.is_some() {
            // What ends does so before it, or after it: its beginning is one moment.
            snapshot.now_ms();
        }
        let mut batch = Batch::default();
        batch.begin(|header| record::writes_header(header, branch.state.id()));
        let (depends, savepoints) = (RefCell::default(), RefCell::default());
        Ok(Self { branch: branch.clone(), snapshot, batch: RefCell::new(batch), depends, reads, savepoints })
    }

    /// A place that [`rollback_to`](Self::rollback_to) goes back to.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.transact(|tx| {
    ///     tx.kv().put("kept", 1)?;
    ///     let before = tx.savepoint();
    ///     tx.kv().put("tried", 2)?;
    ///     tx.rollback_to(before)
    /// })?;
    /// assert_eq!(main.kv().count("")?, 1);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        let (savepoints, next) = &mut *self.savepoints.borrow_mut();
        savepoints.push((*next, self.batch.borrow().len()));
        *next += 1;
        Savepoint(*next - 1)
    }

    /// Takes back what was written since a savepoint, which stays; those after it are gone.
    ///
    /// # Errors
    /// When the savepoint is gone, or of another transaction that has fewer; in a scan of this transaction.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<(), StoreError> {
        let (savepoints, _) = &mut *self.savepoints.borrow_mut();
        let at = savepoints.binary_search_by_key(&savepoint.0, |(number, _)| *number);
        let at = at.map_err(|_| StoreError::InvalidInput {
            what: "such a savepoint",
            reason: "the transaction was rolled back to one before it".to_owned(),
        })?;
        let mut batch = self.batch_mut()?;
        savepoints.truncate(at + 1);
        batch.cut(savepoints[at].1);
        Ok(())
    }

    /// Whether anything was written.
    pub fn has_writes(&self) -> bool {
        !self.batch.borrow().is_empty()
    }

    /// Commits, and returns the version of the last write; that of the branch's last commit if nothing was written.
    /// To give a transaction up, drop it.
    ///
    /// # Errors
    /// [`StoreError::TransactionConflict`] when another commit changed first what this one writes, or, if it is serialisable,
    /// what it read: nothing is written.
    pub fn commit(self) -> Result<u64, StoreError> {
        let Self { branch, snapshot, batch, depends, reads, .. } = self;
        let (engine, state, batch) = (branch.engine(), &branch.state, batch.into_inner());
        engine.check_writable()?;
        engine.throttle_for(batch.len())?;
        let mut writer = engine.lock_writer();
        state.check_alive()?;
        // Who writes nothing did it all at its beginning.
        if !batch.is_empty() {
            let now = state.tree(engine.forest())?;
            let then = snapshot.tree();
            let (now_floor, then_floor) = (now.floor(), snapshot.floor());
            if reads.as_ref().is_some_and(|reads| reads.borrow().is_over()) {
                let key = "a pair that it read, whose time is over".to_owned();
                return Err(StoreError::TransactionConflict { key });
            }
            if !now.same(then) || now_floor != then_floor {
                let times =
                    Times { forest: engine.forest(), then: (then, then_floor), now: (&now, now_floor) };
                let depends = depends.into_inner();
                let mut changed = None;
                for key in batch.iter().map(|op| op.key()).chain(depends.iter().map(Vec::as_slice)) {
                    if times.has_changed(key)? {
                        changed = Some(key.to_vec());
                        break;
                    }
                }
                if let (None, Some(reads)) = (&changed, reads) {
                    changed = reads.into_inner().changed(&times)?;
                }
                if let Some(key) = changed {
                    return Err(StoreError::TransactionConflict { key: keys::display(&key) });
                }
            }
        }
        // What only the snapshot shares with the branch would be copied for each write.
        drop(snapshot);
        // The writer's own batch is a spare: it is begun anew by whoever comes next.
        writer.take_batch(batch);
        let version = engine.apply_batch(&mut writer, state)?;
        let logged = writer.version();
        drop(writer);
        engine.wait_durable(logged, branch.durability)?;
        Ok(version)
    }

    fn batch_mut(&self) -> Result<std::cell::RefMut<'_, Batch>, StoreError> {
        let reason = "a scan of the same transaction is running; collect its rows first".to_owned();
        self.batch
            .try_borrow_mut()
            .map_err(|_| StoreError::InvalidInput { what: "a write in a scan", reason })
    }

    fn overlay<R>(&self, read: impl FnOnce(&Overlay<'_>) -> R) -> R {
        let batch = self.batch.borrow();
        read(&Overlay { forest: self.branch.engine().forest(), tree: self.snapshot.tree(), batch: &batch })
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let writes = self.batch.borrow().len();
        f.debug_struct("Transaction").field("branch", &self.branch).field("writes", &writes).finish()
    }
}

/// The view and the edit of a transaction.
struct Work<'t>(&'t Transaction);

impl Work<'_> {
    fn note(&self, note: impl FnOnce(&mut Reads) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.0.reads.as_ref().map_or(Ok(()), |reads| note(&mut reads.borrow_mut()))
    }
}

impl View for Work<'_> {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        self.note(|reads| reads.add_key(key))?;
        self.0.overlay(|overlay| overlay.get(key, show))
    }

    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        if self.0.reads.is_none() {
            return self.0.overlay(|overlay| overlay.scan(range, row));
        }
        // Only as far as it came: who asks for the first few rows depends on no more.
        let mut last = None;
        let scanned = self.0.overlay(|overlay| {
            overlay.scan(range, &mut |key, version, value| {
                let flow = row(key, version, value);
                if flow.is_break() {
                    last = Some(key.to_vec());
                }
                flow
            })
        });
        self.note(|reads| reads.add_range(range, last.as_deref()))?;
        scanned
    }

    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.note(|reads| reads.add_range(range, None))?;
        self.0.overlay(|overlay| overlay.leaves(range, visit))
    }

    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.note(|reads| reads.add_range(range, None))?;
        self.0.overlay(|overlay| overlay.runs(range, visit))
    }

    fn written(&self, range: &KeyRange<'_>, show: &mut WriteVisitor<'_>) -> Result<(), StoreError> {
        self.0.overlay(|overlay| overlay.written(range, show))
    }

    fn floor(&self) -> u64 {
        self.0.snapshot.floor()
    }

    fn scan_derived(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.0.overlay(|overlay| overlay.scan(range, row))
    }

    fn shows_until(&self, end_ms: i64) {
        if let Some(reads) = &self.0.reads {
            reads.borrow_mut().add_end(end_ms);
        }
    }

    fn now_ms(&self) -> i64 {
        self.0.snapshot.now_ms()
    }
}

impl Edit for Work<'_> {
    fn put(&mut self, key: &[u8], value: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.0.batch_mut()?.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.batch_mut()?.delete(key)
    }

    fn splice(&mut self, key: &[u8], at: u32, removed: u32, inserted: &[u8]) -> Result<(), StoreError> {
        let spliced = self.0.overlay(|overlay| splice_over(overlay, key, at, removed, inserted))?;
        self.0.batch_mut()?.add_spliced(spliced, key, at, removed, inserted)
    }

    fn depend(&mut self, key: &[u8]) {
        let mut depends = self.0.depends.borrow_mut();
        if !depends.contains(key) {
            depends.insert(key.to_vec());
        }
    }
}

impl Access for Transaction {
    /// The version is known when the transaction is committed.
    type Written = ();

    fn written(_version: u64) {}

    fn peek<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        read(&Work(self))
    }

    fn read<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        read(&Work(self))
    }

    fn write<R>(
        &self,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, ()), StoreError> {
        self.branch.engine().check_writable()?;
        let before = self.batch.borrow().len();
        let result = write(&mut Work(self));
        if result.is_err() {
            // What failed must leave nothing of itself behind.
            self.batch_mut()?.cut(before);
        }
        Ok((result?, ()))
    }
}

impl Branch {
    /// Begins a transaction with snapshot isolation. Usually [`transact`](Self::transact) is what you want.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        Transaction::begin(self, None)
    }

    /// Begins a serialisable transaction. Usually [`transact_serialisable`](Self::transact_serialisable) is what you want.
    ///
    /// It keeps in mind what it reads, up to [`READS_MAX`] keys and ranges, and fails with [`StoreError::TooManyReads`]
    /// where it reads more.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read.
    pub fn begin_serialisable(&self) -> Result<Transaction, StoreError> {
        Transaction::begin(self, Some(RefCell::default()))
    }

    /// As [`transact`](Self::transact), serialisable: runs `work` again when another commit was first to change what it
    /// writes or what it read. It costs a look at each key and range that was read, at the commit, where the branch has changed since.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.kv().put_many([("on call/ann", true), ("on call/bob", true)])?;
    /// // One of them must stay. If both went at once, each would see the other, and at the other level both could go.
    /// main.transact_serialisable(|tx| {
    ///     if tx.kv().count("on call/")? > 1 {
    ///         tx.kv().delete("on call/ann")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(main.kv().count("on call/")?, 1);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As `transact`; [`StoreError::TooManyReads`].
    pub fn transact_serialisable<R>(
        &self,
        work: impl FnMut(&Transaction) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        self.attempt(Self::begin_serialisable, work)
    }

    /// Runs `work` in a transaction and commits it; runs it again when another commit was first, at most [`ATTEMPTS_MAX`] times
    /// in all: at once the first time, then after a pause of random length, so that those who met once do not meet
    /// for ever. All pauses together take at most a second.
    ///
    /// # Errors
    /// What `work` returned, and nothing is committed then; [`StoreError::RetriesExhausted`] when it lost each time.
    pub fn transact<R>(
        &self,
        work: impl FnMut(&Transaction) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        self.attempt(Self::begin, work)
    }

    fn attempt<R>(
        &self,
        begin: impl Fn(&Self) -> Result<Transaction, StoreError>,
        mut work: impl FnMut(&Transaction) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let mut rng = None;
        for attempt in 1..=ATTEMPTS_MAX {
            if let Some(doublings) = attempt.checked_sub(3) {
                let longest = PAUSE_FIRST.saturating_mul(1 << doublings.min(20)).min(PAUSE_MOST);
                let rng = rng.get_or_insert_with(|| entropy::rng(entropy::seed()));
                std::thread::sleep(longest.mul_f64(rng.f64()));
            }
            let transaction = begin(self)?;
            let result = work(&transaction)?;
            match transaction.commit() {
                Ok(_) => return Ok(result),
                Err(StoreError::TransactionConflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::RetriesExhausted { attempts: ATTEMPTS_MAX })
    }
}
