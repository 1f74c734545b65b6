//! The rows that logs and tables make up together: for each key the change with the highest number counts.
//!
//! Tables are merged as they are walked, a block of each at a time; what logs hold lies in memory.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::cursor::Cursor;
use super::deletions::RangeDeletions;
use super::key::{self, family};
use super::listed::{self, Listed, Opened};
use super::memory::Memory;
use crate::c1z::error::{Bad, C1zError, EXPORT_ADVICE};

/// Key and value.
type Row<'a> = (&'a [u8], &'a [u8]);

/// What happens to a key, or to the keys from one to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Change {
    Delete = 0,
    Set = 1,
    DeleteRange = 15,
}

impl Change {
    /// The kind of a deletion that says how much it deletes: the only one with a value.
    pub(crate) const DELETE_SIZED: u8 = 23;

    /// The change with a number; none for notes, which change nothing.
    pub(crate) fn of_kind(kind: u8, at: usize) -> Result<Option<Change>, Bad> {
        match kind {
            0 | 7 | Change::DELETE_SIZED => Ok(Some(Change::Delete)),
            1 | 18 => Ok(Some(Change::Set)),
            3 => Ok(None),
            15 => Ok(Some(Change::DeleteRange)),
            2 => Err(Bad::unsupported(at, "merged values", EXPORT_ADVICE)),
            19..=21 | 24 => Err(Bad::unsupported(at, "keys that stand for ranges", EXPORT_ADVICE)),
            22 => Err(Bad::unsupported(at, "tables that a log takes in", EXPORT_ADVICE)),
            other => Err(Bad::new(at, format!("there is no kind {other} of change"))),
        }
    }

    /// Where a change stands among changes of the same key: a higher number counts, and of two with one number the
    /// deletion.
    #[inline]
    pub(crate) fn order(self, sequence: u64) -> u64 {
        sequence << 1 | u64::from(self == Change::Delete)
    }
}

/// What is wrong.
pub(crate) enum Fault {
    /// With a file of the directory, or with a row.
    In { part: String, bad: Bad },
    /// With the file of them all.
    Whole(C1zError),
}

impl Fault {
    /// As an error of `file`.
    pub(crate) fn located(self, file: &std::path::Path) -> C1zError {
        match self {
            Fault::In { part, bad } => bad.located(file, &part),
            Fault::Whole(error) => error,
        }
    }
}

/// The rows of a directory.
#[derive(Default)]
pub(crate) struct Tree {
    /// Tables in runs: within one, the keys of each table are behind those of the table before.
    pub(crate) runs: Vec<Vec<Listed>>,
    /// What the logs hold.
    pub(crate) memory: Memory,
    /// What the logs delete.
    pub(crate) deletions: RangeDeletions,
    /// Whether logs hold anything. Rows of indexes among it may have been left out.
    pub(crate) has_logs: bool,
}

/// What a walk has found.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Fault>;

/// What a walk has found, with where it goes on.
pub(crate) type Walk<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Step, Fault>;

/// Where a walk goes on.
pub(crate) enum Step {
    Next,
    /// At this key, which is behind the one that was visited.
    Seek(Vec<u8>),
    End,
}

impl Tree {
    /// Calls `visit` with key and value of each row from the key `from` to before `to`.
    ///
    /// Rows come in the order of their keys, unless there are logs only: then in the order in which logs named them.
    pub(crate) fn each(&self, from: &[u8], to: Option<&[u8]>, visit: Visit<'_>) -> Result<(), Fault> {
        self.walk(from, to, &mut |key, value| {
            Ok(if visit(key, value)?.is_break() { Step::End } else { Step::Next })
        })
    }

    /// The same, and `visit` says where to go on. Where rows come in no order, [`Step::Seek`] is [`Step::Next`].
    pub(crate) fn walk(&self, from: &[u8], to: Option<&[u8]>, visit: Walk<'_>) -> Result<(), Fault> {
        if self.runs.is_empty() {
            return self.each_of_memory(from, to, visit);
        }
        let opened = listed::open(&self.runs, &self.deletions, from, to)?;
        let mut merge = Merge::new(&opened, &self.memory, from)?;
        let mut skipped = None;
        while let Some((key, value)) = merge.next()? {
            if to.is_some_and(|to| !is_before(key, to)) {
                break;
            }
            if is_before(key, from) || skipped.as_ref().is_some_and(|to: &Vec<u8>| key < to.as_slice()) {
                continue;
            }
            match visit(key, value)? {
                Step::Next => {}
                Step::End => break,
                Step::Seek(to) => {
                    merge.seek(&to)?;
                    skipped = Some(to);
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with key and value of each row that is not a row of a graph, an index or a digest.
    ///
    /// No tables are read that hold nothing else, and of others no blocks but the first.
    pub(crate) fn each_beside_the_graph(&self, visit: Visit<'_>) -> Result<(), Fault> {
        let mut from = Vec::new();
        for (first, last) in [
            (family::RESOURCE_TYPE, family::ASSET),
            (family::INDEX, family::INDEX),
            (family::DIGEST, family::DIGEST),
        ] {
            self.each(&from, Some(&[key::VERSION, first]), visit)?;
            from = vec![key::VERSION, last + 1];
        }
        self.each(&from, None, visit)
    }

    /// Whether there is a row whose key is not before `from` and before `to`.
    pub(crate) fn has_any(&self, from: &[u8], to: &[u8]) -> Result<bool, Fault> {
        let mut found = false;
        self.each(from, Some(to), &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    fn each_of_memory(&self, from: &[u8], to: Option<&[u8]>, visit: Walk<'_>) -> Result<(), Fault> {
        for row in (0..self.memory.len()).filter_map(|number| self.memory.row(number)) {
            let wanted = !is_before(row.key, from) && to.is_none_or(|to| is_before(row.key, to));
            let stands = wanted && row.order & 1 == 0 && !self.deletions.hide(row.key, row.order >> 1);
            if stands && matches!(visit(row.key, row.value)?, Step::End) {
                break;
            }
        }
        Ok(())
    }
}

/// Whether `key` comes before `bound`. Bounds are of some two bytes, too short to be worth a call for each row.
#[inline]
fn is_before(key: &[u8], bound: &[u8]) -> bool {
    for (at, wanted) in bound.iter().enumerate() {
        match key.get(at) {
            Some(byte) if byte == wanted => {}
            Some(byte) => return byte < wanted,
            None => return true,
        }
    }
    false
}

/// A sequence of changes in the order of their keys.
enum Run<'a> {
    Tables(Box<Cursor<'a>>),
    Memory { memory: &'a Memory, next: usize },
}

impl Run<'_> {
    fn advance(&mut self) -> Result<bool, Fault> {
        match self {
            Run::Tables(cursor) => {
                cursor.advance().map_err(|bad| Fault::In { part: cursor.part().to_owned(), bad })
            }
            Run::Memory { memory, next } => {
                *next += 1;
                Ok(*next <= memory.len())
            }
        }
    }

    /// Goes to the first change whose key is not before `key`, if it is not there or further yet.
    fn seek(&mut self, key: &[u8]) -> Result<bool, Fault> {
        match self {
            Run::Tables(cursor) => {
                cursor.seek(key).map_err(|bad| Fault::In { part: cursor.part().to_owned(), bad })
            }
            Run::Memory { memory, next } => {
                *next = (*next).max(memory.seek(key) + 1);
                Ok(*next <= memory.len())
            }
        }
    }

    /// Key, value and order of the change that the run stands on.
    #[inline]
    fn row(&self) -> (&[u8], &[u8], u64) {
        match self {
            Run::Tables(cursor) => (cursor.key(), cursor.value(), cursor.order()),
            Run::Memory { memory, next } => {
                memory.row(*next - 1).map_or((&[], &[], 0), |row| (row.key, row.value, row.order))
            }
        }
    }

    /// Whether its change comes before that of another run: by key, and of one key the newest.
    fn is_before(&self, other: &Run<'_>) -> bool {
        let ((key, _, order), (other_key, _, other_order)) = (self.row(), other.row());
        key.cmp(other_key).then(other_order.cmp(&order)).is_lt()
    }

    fn out_of_order(&self) -> Fault {
        let (part, at) = match self {
            Run::Tables(cursor) => (cursor.part(), cursor.block_at()),
            Run::Memory { .. } => ("the logs", 0),
        };
        let bad = Bad::new(0, "the rows of the tables of a level are out of order");
        Fault::In { part: part.to_owned(), bad: Bad { at, ..bad } }
    }
}

/// Several runs as one.
struct Merge<'a> {
    /// A heap: the run at the front stands on the first change of all.
    heap: Vec<Run<'a>>,
    /// The key of the run that comes next, if there is one: while the front is before it, nothing has to be moved.
    rival: Option<Vec<u8>>,
    deletions: &'a RangeDeletions,
    /// Whether a change was met, and the key and the order of the one that was met last.
    begun: bool,
    last: Vec<u8>,
    last_order: u64,
}

impl<'a> Merge<'a> {
    /// Stands before the first row that is not before `from`, and perhaps some rows earlier.
    fn new(opened: &'a Opened, memory: &'a Memory, from: &[u8]) -> Result<Merge<'a>, Fault> {
        let heap = Vec::with_capacity(opened.runs.len() + 1);
        let mut merge = Merge {
            heap,
            rival: None,
            deletions: &opened.deletions,
            begun: false,
            last: Vec::new(),
            last_order: 0,
        };
        let tables = opened.runs.iter().map(|tables| Run::Tables(Box::new(Cursor::before(tables, from))));
        let memory = Run::Memory { memory, next: memory.seek(from) };
        for mut run in tables.chain([memory]) {
            if run.advance()? {
                merge.heap.push(run);
            }
        }
        merge.heapify();
        Ok(merge)
    }

    /// Stands before the first row that is not before `key`, which is behind the row that came last.
    fn seek(&mut self, key: &[u8]) -> Result<(), Fault> {
        let mut heap = Vec::with_capacity(self.heap.len());
        for mut run in self.heap.drain(..) {
            if run.seek(key)? {
                heap.push(run);
            }
        }
        self.heap = heap;
        self.heapify();
        self.begun = false;
        Ok(())
    }

    fn heapify(&mut self) {
        for at in (0..self.heap.len() / 2).rev() {
            self.sink(at);
        }
        self.find_rival();
    }

    /// Takes the key of the run that comes next: runs take turns seldom, compared with how many rows they have.
    fn find_rival(&mut self) {
        let second = match (self.heap.get(1), self.heap.get(2)) {
            (Some(a), Some(b)) if b.is_before(a) => Some(b),
            (second, _) => second,
        };
        let mut kept = self.rival.take().unwrap_or_default();
        self.rival = second.map(|run| {
            kept.clear();
            kept.extend_from_slice(run.row().0);
            kept
        });
    }

    /// Puts the front to where it belongs after it has moved on.
    #[inline]
    fn settle(&mut self) {
        let stays = match (&self.rival, self.heap.first()) {
            (Some(rival), Some(front)) => front.row().0 < rival.as_slice(),
            _ => true,
        };
        if !stays {
            self.sink(0);
            self.find_rival();
        }
    }

    /// Moves the run at `at` back to where it belongs.
    fn sink(&mut self, mut at: usize) {
        while 2 * at + 1 < self.heap.len() {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child].is_before(&self.heap[first]) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// The next row; none behind the last one.
    fn next(&mut self) -> Result<Option<Row<'_>>, Fault> {
        loop {
            if self.begun {
                let Some(first) = self.heap.first_mut() else { return Ok(None) };
                if first.advance()? {
                    self.settle();
                } else {
                    self.heap.swap_remove(0);
                    self.sink(0);
                    self.find_rival();
                }
            }
            let Some(run) = self.heap.first() else { return Ok(None) };
            let (key, _, order) = run.row();
            if self.begun {
                match key.cmp(self.last.as_slice()) {
                    // An older change of the same key.
                    Ordering::Equal if order <= self.last_order => continue,
                    Ordering::Greater => {}
                    _ => return Err(run.out_of_order()),
                }
            }
            self.begun = true;
            self.last.clear();
            self.last.extend_from_slice(key);
            self.last_order = order;
            if order & 1 == 0 && !self.deletions.hide(key, order >> 1) {
                break;
            }
        }
        Ok(self.heap.first().map(|run| {
            let (key, value, _) = run.row();
            (key, value)
        }))
    }
}

#[cfg(test)]
#[path = "lsm/tests.rs"]
mod tests;
