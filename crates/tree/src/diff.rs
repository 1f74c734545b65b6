//! What differs between two trees, found by skipping what they share.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Inner, Leaf, Node};
use crate::range::KeyRange;
use crate::tree::{Entry, Tree};

/// One key that two trees disagree on: at least one side has it, and the values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What the first tree has.
    pub left: Option<Entry<'a>>,
    /// What the second tree has.
    pub right: Option<Entry<'a>>,
}

/// One key that a merge has to decide: `theirs` differs from the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What the common ancestor had.
    pub base: Option<Entry<'a>>,
    /// What the tree that is merged into has.
    pub ours: Option<Entry<'a>>,
    /// What the tree that is merged has.
    pub theirs: Option<Entry<'a>>,
    /// What became of the key on our side.
    pub ours_is: OursIs,
}

/// What became of a key in the tree that is merged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OursIs {
    /// It is as in the base.
    Unchanged,
    /// It was changed to what theirs has: both did the same, or both computed the same of what they had.
    Equal,
    /// It was changed to something else.
    Different,
}

impl Tree {
    /// Shows, in order, the keys of a range whose values differ between this tree and another of the same forest.
    /// Subtrees that both share are passed over unread, so the cost is that of what was written since they parted.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn diff(
        &self,
        forest: &Forest,
        other: &Self,
        range: &KeyRange<'_>,
        show: impl FnMut(Change<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        self.diff_in(forest, other, range, true, show)
    }

    /// As [`diff`](Self::diff), for trees whose versions were not given by one store: entries that both do not share
    /// are the same only if key and value are.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn diff_by_value(
        &self,
        forest: &Forest,
        other: &Self,
        range: &KeyRange<'_>,
        show: impl FnMut(Change<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        self.diff_in(forest, other, range, false, show)
    }

    fn diff_in(
        &self,
        forest: &Forest,
        other: &Self,
        range: &KeyRange<'_>,
        versions_tell: bool,
        mut show: impl FnMut(Change<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        if self.same(other) {
            return Ok(());
        }
        let mut left = Walker::new(forest, self, range)?;
        let mut right = Walker::new(forest, other, range)?;
        loop {
            let (a, b) = (left.head(), right.head());
            let step = match (&a, &b) {
                (Head::End, Head::End) => return Ok(()),
                (Head::Subtree(x), Head::Subtree(y)) => match x.shared_run(y) {
                    0 => match x.order(y) {
                        Ordering::Less => Step::OpenLeft,
                        Ordering::Greater => Step::OpenRight,
                        Ordering::Equal => Step::OpenBoth,
                    },
                    run => Step::Skip(run),
                },
                (Head::Subtree(x), Head::Entry(y)) if x.walker.low() <= y.key => Step::OpenLeft,
                (Head::Entry(x), Head::Subtree(y)) if y.walker.low() <= x.key => Step::OpenRight,
                (Head::Subtree(_), Head::End) => Step::OpenLeft,
                (Head::End, Head::Subtree(_)) => Step::OpenRight,
                (Head::Subtree(_), Head::Entry(y)) => Step::Show(None, Some(*y)),
                (Head::Entry(x), Head::Subtree(_)) => Step::Show(Some(*x), None),
                (Head::Entry(x), Head::End) => Step::Show(Some(*x), None),
                (Head::End, Head::Entry(y)) => Step::Show(None, Some(*y)),
                (Head::Entry(x), Head::Entry(y)) => {
                    if versions_tell && x.version == y.version {
                        Step::Same
                    } else {
                        match x.key.cmp(y.key) {
                            Ordering::Less => Step::Show(Some(*x), None),
                            Ordering::Greater => Step::Show(None, Some(*y)),
                            Ordering::Equal if x.value == y.value => Step::Skip(1),
                            Ordering::Equal => Step::Show(Some(*x), Some(*y)),
                        }
                    }
                }
            };
            match step {
                Step::Show(a, b) => {
                    if let Some(entry) = a.or(b) {
                        if range.end.is_some_and(|end| entry.key >= end) {
                            return Ok(());
                        }
                        if show(Change { key: entry.key, left: a, right: b }).is_break() {
                            return Ok(());
                        }
                    }
                    let (a, b) = (a.is_some(), b.is_some());
                    if a {
                        left.advance();
                    }
                    if b {
                        right.advance();
                    }
                }
                Step::Same => skip_same(&mut left, &mut right),
                Step::Skip(run) => {
                    left.skip(run);
                    right.skip(run);
                }
                Step::OpenLeft => left.open()?,
                Step::OpenRight => right.open()?,
                Step::OpenBoth => {
                    left.open()?;
                    right.open()?;
                }
            }
        }
    }

    /// Shows, in order, what a merge of `theirs` into this tree has to decide, given the tree that both came from.
    /// Keys that only this tree changed are left out. It holds no more than a path of each tree.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn merge_items(
        &self,
        forest: &Forest,
        base: &Self,
        theirs: &Self,
        range: &KeyRange<'_>,
        mut show: impl FnMut(MergeItem<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        let mut failed = None;
        base.diff(forest, theirs, range, |change| {
            let mut decide = |ours: Option<Entry<'_>>| {
                let (base, theirs) = (change.left, change.right);
                let is = |other: Option<Entry<'_>>| {
                    ours.map(|entry| entry.value) == other.map(|entry| entry.value)
                };
                let ours_is = match (is(theirs), is(base)) {
                    (true, _) => OursIs::Equal,
                    (false, true) => OursIs::Unchanged,
                    (false, false) => OursIs::Different,
                };
                show(MergeItem { key: change.key, base, ours, theirs, ours_is })
            };
            match self.get(forest, change.key, |entry| decide(Some(entry))) {
                Ok(Some(flow)) => flow,
                Ok(None) => decide(None),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }
}

enum Step<'a> {
    Show(Option<Entry<'a>>, Option<Entry<'a>>),
    Same,
    Skip(usize),
    OpenLeft,
    OpenRight,
    OpenBoth,
}

/// What a walker stands before.
enum Head<'a> {
    Entry(Entry<'a>),
    Subtree(Subtree<'a>),
    End,
}

struct Subtree<'a> {
    /// Where it hangs; nowhere for the root.
    parent: Option<(&'a Inner, usize)>,
    walker: &'a Walker<'a>,
    level: u8,
}

impl Subtree<'_> {
    fn id(&self) -> u64 {
        match self.parent {
            Some((inner, index)) => inner.children.get(index).id(),
            None => self.walker.root.id,
        }
    }

    /// How many subtrees from here on both sides share: several where they share the chunk that holds them.
    fn shared_run(&self, other: &Self) -> usize {
        match (self.parent, other.parent) {
            (Some((left, i)), Some((right, j))) => match left.children.shared_run(i, &right.children, j) {
                0 => usize::from(left.children.get(i).same(right.children.get(j))),
                run => run,
            },
            _ => usize::from(self.id() == other.id()),
        }
    }

    /// Which of two different subtrees must be opened: the higher one, else the one that begins first, else both.
    fn order(&self, other: &Self) -> Ordering {
        other.level.cmp(&self.level).then_with(|| self.walker.low().cmp(other.walker.low()))
    }
}

struct Frame {
    node: Arc<Node>,
    next: usize,
}

/// Goes over a tree in order, and opens a subtree only when asked to.
struct Walker<'f> {
    forest: &'f Forest,
    root: Arc<Node>,
    started: bool,
    frames: Vec<Frame>,
}

impl<'f> Walker<'f> {
    fn new(forest: &'f Forest, tree: &Tree, range: &KeyRange<'_>) -> Result<Self, TreeError> {
        let mut walker = Self { forest, root: tree.root.clone(), started: false, frames: Vec::new() };
        if !range.start.is_empty() {
            walker.seek(range.start)?;
        }
        Ok(walker)
    }

    fn seek(&mut self, key: &[u8]) -> Result<(), TreeError> {
        self.started = true;
        let mut node = self.root.clone();
        loop {
            let (next, child) = match &node.body {
                Body::Leaf(leaf) => (leaf.records.lower_bound(key), None),
                Body::Inner(inner) => {
                    let at = inner.child_of(key);
                    (at, Some(inner.children.get(at).get(self.forest)?))
                }
            };
            self.frames.push(Frame { node, next });
            match child {
                Some(child) => node = child,
                None => break,
            }
        }
        self.pop_exhausted();
        Ok(())
    }

    fn head(&self) -> Head<'_> {
        let Some(frame) = self.frames.last() else {
            if self.started {
                return Head::End;
            }
            return Head::Subtree(Subtree { parent: None, walker: self, level: self.root.level() });
        };
        match &frame.node.body {
            Body::Leaf(leaf) => {
                let (key, value) = leaf.records.entry(frame.next);
                Head::Entry(Entry { key, version: leaf.versions[frame.next], value })
            }
            Body::Inner(inner) => Head::Subtree(Subtree {
                parent: Some((inner, frame.next)),
                walker: self,
                level: inner.level - 1,
            }),
        }
    }

    /// A key that is not above any in the subtree ahead.
    fn low(&self) -> &[u8] {
        for frame in self.frames.iter().rev() {
            if let (Body::Inner(inner), 1..) = (&frame.node.body, frame.next) {
                return inner.separators.key(frame.next - 1);
            }
        }
        &[]
    }

    fn open(&mut self) -> Result<(), TreeError> {
        let node = match self.frames.last() {
            None => self.root.clone(),
            Some(frame) => match &frame.node.body {
                Body::Inner(inner) => inner.children.get(frame.next).get(self.forest)?,
                Body::Leaf(_) => return Ok(()),
            },
        };
        self.started = true;
        self.frames.push(Frame { node, next: 0 });
        self.pop_exhausted();
        Ok(())
    }

    fn advance(&mut self) {
        match self.frames.last_mut() {
            Some(frame) => frame.next += 1,
            None => self.started = true,
        }
        self.pop_exhausted();
    }

    /// Leaves nodes whose parts were all passed.
    fn pop_exhausted(&mut self) {
        while let Some(frame) = self.frames.last() {
            let len = match &frame.node.body {
                Body::Leaf(leaf) => leaf.records.len(),
                Body::Inner(inner) => inner.children.len(),
            };
            if frame.next < len {
                return;
            }
            self.frames.pop();
            if let Some(parent) = self.frames.last_mut() {
                parent.next += 1;
            }
        }
    }

    fn leaf(&self) -> Option<(&Leaf, u64, usize)> {
        let frame = self.frames.last()?;
        match &frame.node.body {
            Body::Leaf(leaf) => Some((leaf, frame.node.id, frame.next)),
            Body::Inner(_) => None,
        }
    }

    fn skip(&mut self, count: usize) {
        match self.frames.last_mut() {
            Some(frame) => frame.next += count,
            None => self.started = true,
        }
        self.pop_exhausted();
    }
}

/// Passes over the entries that two leaves have alike from here on, looking at versions only.
fn skip_same(left: &mut Walker<'_>, right: &mut Walker<'_>) {
    let same = match (left.leaf(), right.leaf()) {
        (Some((a, a_id, i)), Some((b, b_id, j))) => {
            if a_id == b_id && i == j {
                a.versions.len() - i
            } else {
                a.versions[i..].iter().zip(&b.versions[j..]).take_while(|(a, b)| a == b).count()
            }
        }
        _ => 0,
    };
    left.skip(same);
    right.skip(same);
}
