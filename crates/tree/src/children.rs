//! The children of an inner node, in chunks that copies of the node share.
//!
//! Copying an inner node must not touch each of its hundreds of children, only to count one more pointer: a copy
//! shares the chunks, and a write copies the one chunk that it changes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::node::Child;
use crate::sidecar::Slot;

/// Children in a chunk, at most.
const CHUNK: usize = 16;

/// Some neighbouring children.
#[derive(Default)]
pub(crate) struct Chunk {
    children: ArrayVec<Child, CHUNK>,
    /// What a reader derived from all that hangs on them and wants to find again.
    sidecar: Slot,
}

impl Chunk {
    pub(crate) fn sidecar(&self) -> &Slot {
        &self.sidecar
    }
}

impl Deref for Chunk {
    type Target = ArrayVec<Child, CHUNK>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.children
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.children
    }
}

impl FromIterator<Child> for Chunk {
    fn from_iter<I: IntoIterator<Item = Child>>(children: I) -> Self {
        Self { children: children.into_iter().collect(), sidecar: Slot::default() }
    }
}

/// A sequence of children.
#[derive(Default)]
pub(crate) struct Children {
    chunks: Vec<Arc<Chunk>>,
    /// Where each chunk ends in the sequence.
    ends: Vec<u32>,
}

impl Clone for Children {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), ends: self.ends.clone() }
    }
}

/// The chunk for writing to it or to anything below it: what was derived from it is forgotten.
fn writable(chunk: &mut Arc<Chunk>) -> &mut Chunk {
    if Arc::strong_count(chunk) != 1 {
        *chunk = Arc::new(chunk.iter().map(|child| Child::new(child.link())).collect());
    }
    let chunk = Arc::get_mut(chunk).expect("the only pointer to a chunk");
    chunk.sidecar.clear();
    chunk
}

impl Children {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    #[inline]
    fn locate(&self, index: usize) -> (usize, usize) {
        let chunk = self.ends.partition_point(|end| *end as usize <= index);
        let begin = if chunk == 0 { 0 } else { self.ends[chunk - 1] as usize };
        (chunk, index - begin)
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Child {
        let (chunk, at) = self.locate(index);
        &self.chunks[chunk][at]
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Child {
        let (chunk, at) = self.locate(index);
        &mut writable(&mut self.chunks[chunk])[at]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Child> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The chunks that hold the children from `from` on, below `to`.
    pub(crate) fn chunks(&self, from: usize, to: usize) -> &[Arc<Chunk>] {
        if from >= to {
            return &[];
        }
        &self.chunks[self.locate(from).0..=self.locate(to - 1).0]
    }

    /// How many children from `index` on are in a chunk that is also the other's, with `at` in the same place.
    pub(crate) fn shared_run(&self, index: usize, other: &Self, at: usize) -> usize {
        let (left, right) = (self.locate(index), other.locate(at));
        let chunk = &self.chunks[left.0];
        if left.1 == right.1 && Arc::ptr_eq(chunk, &other.chunks[right.0]) {
            chunk.len() - left.1
        } else {
            0
        }
    }

    pub(crate) fn push(&mut self, child: Child) {
        let end = self.len() as u32 + 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => {
                writable(chunk).push(child);
                if let Some(last) = self.ends.last_mut() {
                    *last = end;
                }
            }
            _ => {
                let mut chunk = Chunk::default();
                chunk.push(child);
                self.chunks.push(Arc::new(chunk));
                self.ends.push(end);
            }
        }
    }

    pub(crate) fn insert(&mut self, index: usize, child: Child) {
        if index == self.len() {
            return self.push(child);
        }
        let (mut chunk, mut at) = self.locate(index);
        if self.chunks[chunk].len() == CHUNK {
            let half: Chunk = writable(&mut self.chunks[chunk]).drain(CHUNK / 2..).collect();
            self.chunks.insert(chunk + 1, Arc::new(half));
            if at > CHUNK / 2 {
                chunk += 1;
                at -= CHUNK / 2;
            }
        }
        writable(&mut self.chunks[chunk]).insert(at, child);
        self.count();
    }

    pub(crate) fn remove(&mut self, index: usize) -> Child {
        let (chunk, at) = self.locate(index);
        let child = writable(&mut self.chunks[chunk]).remove(at);
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        }
        self.count();
        child
    }

    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let mut right = Self::default();
        while self.len() > index {
            let (chunk, at) = self.locate(index);
            let moved: Chunk = writable(&mut self.chunks[chunk]).drain(at..).collect();
            right.chunks.push(Arc::new(moved));
            if at == 0 {
                self.chunks.remove(chunk);
            }
            self.count();
        }
        right.count();
        right
    }

    /// Takes over all children of another sequence.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.chunks.append(&mut other.chunks);
        self.count();
    }

    fn count(&mut self) {
        let mut end = 0;
        self.ends.clear();
        self.ends.extend(self.chunks.iter().map(|chunk| {
            end += chunk.len() as u32;
            end
        }));
    }

    /// Bytes of memory, chunks that are shared included. Each child is taken for one that is stored: most are, where there are many.
    pub(crate) fn memory(&self) -> usize {
        const STORED: usize = 32;
        self.chunks.len() * (std::mem::size_of::<Chunk>() + 16)
            + STORED * self.len()
            + 4 * self.ends.capacity()
    }
}

impl FromIterator<Child> for Children {
    fn from_iter<I: IntoIterator<Item = Child>>(children: I) -> Self {
        let mut all = Self::default();
        for child in children {
            all.push(child);
        }
        all
    }
}
