//! Pairs one by one, from both ends.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use super::key::Key;
use super::Pair;
use crate::access::{Access, Space, View};
use crate::error::StoreError;
use crate::expiry;
use crate::keys::KeyBuf;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// Pairs that are read at a time: few at first, because often no more are asked for.
const FIRST_BATCH: usize = 16;
const BATCH_MAX: usize = 1024;
/// Bytes of keys and encoded values after which a batch ends: a few values may be large.
const BATCH_BYTES: usize = 1 << 20;

/// The pairs of a range as of one moment, in order, from either end.
///
/// An iterator over a branch holds a snapshot: what others write meanwhile is not in it. In a transaction it shows what the
/// transaction itself has written when it comes there. After an error it ends.
pub struct Iter<'s, S> {
    space: Space<'s, S>,
    held: Option<Snapshot>,
    /// Bytes that keys of the tree begin with before the key itself.
    root: usize,
    /// What is not read yet, as keys of the tree.
    start: KeyBuf,
    end: KeyBuf,
    front: VecDeque<Pair>,
    /// The last one is next.
    back: VecDeque<Pair>,
    batch: usize,
    failed: bool,
}

impl<'s, S: Access> Iter<'s, S> {
    pub(super) fn new(
        space: Space<'s, S>,
        held: Option<Snapshot>,
        root: usize,
        (start, end): (KeyBuf, KeyBuf),
    ) -> Self {
        let (front, back) = (VecDeque::new(), VecDeque::new());
        Self { space, held, root, start, end, front, back, batch: FIRST_BATCH, failed: false }
    }

    /// Reads the next pairs from one end on, and leaves them out of what is not read yet.
    fn read(&mut self, backwards: bool) -> Result<VecDeque<Pair>, StoreError> {
        let mut pairs = VecDeque::new();
        if self.start >= self.end {
            return Ok(pairs);
        }
        let range = KeyRange { start: &self.start, end: Some(&self.end), backwards };
        let (root, batch) = (self.root, self.batch);
        let (mut bytes, mut failed) = (0, None);
        let mut last = KeyBuf::new();
        let mut row = |view: &dyn View, key: &[u8], value: &[u8]| {
            match expiry::live(view, value).map(Value::decode) {
                Some(Ok(decoded)) => pairs.push_back((Key::new(&key[root..]), decoded)),
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
            bytes += key.len() + value.len();
            if failed.is_none() && pairs.len() < batch && bytes < BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            last.extend_from_slice(key);
            ControlFlow::Break(())
        };
        let scan = |view: &dyn View| view.scan(&range, &mut |key, _, value| row(view, key, value));
        match &self.held {
            Some(snapshot) => snapshot.read(scan)?,
            None => self.space.scope().read(scan)?,
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        match (last.is_empty(), backwards) {
            // It came to the other end.
            (true, _) => self.start = self.end.clone(),
            (false, false) => {
                last.push(0);
                self.start = last;
            }
            (false, true) => self.end = last,
        }
        self.batch = (self.batch * 4).min(BATCH_MAX);
        Ok(pairs)
    }

    fn end_with<T>(&mut self, error: StoreError) -> Option<Result<T, StoreError>> {
        self.failed = true;
        self.front.clear();
        self.back.clear();
        Some(Err(error))
    }
}

impl<S: Access> Iterator for Iter<'_, S> {
    type Item = Result<Pair, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        // All of a batch may be hidden.
        while self.front.is_empty() && self.start < self.end {
            match self.read(false) {
                Ok(pairs) => self.front = pairs,
                Err(error) => return self.end_with(error),
            }
        }
        self.front.pop_front().or_else(|| self.back.pop_front()).map(Ok)
    }
}

impl<S: Access> DoubleEndedIterator for Iter<'_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        while self.back.is_empty() && self.start < self.end {
            match self.read(true) {
                // Read backwards, the first one is next.
                Ok(pairs) => self.back = pairs.into_iter().rev().collect(),
                Err(error) => return self.end_with(error),
            }
        }
        self.back.pop_back().or_else(|| self.front.pop_back()).map(Ok)
    }
}

impl<S: Access> std::iter::FusedIterator for Iter<'_, S> {}

impl<S> std::fmt::Debug for Iter<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("at_hand", &(self.front.len() + self.back.len())).finish_non_exhaustive()
    }
}
