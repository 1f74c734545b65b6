//! Forgetting nodes that can be loaded again, when memory runs short.

use crate::forest::Forest;
use crate::node::{Body, Inner};
use crate::tree::Tree;

/// Where the evictor goes on, and how much it may still look at.
struct Hand<'h> {
    /// The separator at which the last slice ended.
    from: &'h [u8],
    /// Where this slice ends, if it ends before the tree does.
    end: Option<Vec<u8>>,
    looks: usize,
    freed: usize,
}

impl Tree {
    /// One slice of eviction, a turn of a clock (Corbato 1969): forgets leaves that are stored and were not read since
    /// the hand came by, then inner nodes that have nothing loaded below them, and what readers derived and did not read again. It looks at no more than `looks`
    /// leaves, from the key `from` on, and returns the bytes that it let go of and where to go on; none at the end of
    /// the tree. Memory that other trees hold too is freed when the last of them lets go.
    pub fn evict(&self, forest: &Forest, from: &[u8], looks: usize) -> (usize, Option<Vec<u8>>) {
        let mut hand = Hand { from, end: None, looks: looks.max(1), freed: 0 };
        if let Body::Inner(inner) = &self.root.body {
            evict_in(inner, forest, &mut hand);
        }
        (hand.freed, hand.end)
    }
}

/// Returns whether everything below is forgotten.
fn evict_in(inner: &Inner, forest: &Forest, hand: &mut Hand<'_>) -> bool {
    let first = if hand.from.is_empty() { 0 } else { inner.child_of(hand.from) };
    let (end, is_empty) = evict_from(first, inner, forest, hand);
    if inner.level == 1 {
        let chunks = inner.children.chunks(first, end).iter();
        hand.freed += chunks.map(|chunk| chunk.sidecar().forget_unread()).sum::<usize>();
    }
    is_empty
}

/// Where it ended, and whether everything below is forgotten.
fn evict_from(first: usize, inner: &Inner, forest: &Forest, hand: &mut Hand<'_>) -> (usize, bool) {
    let durable = forest.durable_mark();
    // What an earlier slice left is left.
    let mut empty = (0..first).all(|index| inner.children.get(index).is_stored());
    for index in first..inner.children.len() {
        if hand.looks == 0 {
            if hand.end.is_none() && index > 0 {
                hand.end = Some(inner.separators.key(index - 1).to_vec());
            }
            return (index, false);
        }
        hand.looks -= usize::from(inner.level == 1);
        let child = inner.children.get(index);
        let mut freed = 0;
        let unloaded = child.unload(|node| {
            // Below an inner node that was written since there is much that was not.
            let is_bare = match &node.body {
                Body::Leaf(_) => true,
                Body::Inner(below) => evict_in(below, forest, hand),
            };
            // The mark goes also from what is not stored yet: it need not be passed twice once it is.
            let may = is_bare && !node.take_touched() && node.id < durable;
            freed = if may { node.memory() } else { 0 };
            may
        });
        if unloaded {
            hand.freed += freed;
        }
        empty &= unloaded || child.is_stored();
        hand.from = if hand.end.is_some() { hand.from } else { &[] };
    }
    (inner.children.len(), empty)
}
