//! The codes of a collection, kept beside the tree that holds its rows.
//!
//! Each leaf keeps the codes of its own rows, and each run of neighbouring leaves keeps a copy of them in one piece.
//! A search reads the runs alone: to visit thousands of leaves costs more than to read all codes, and codes in one
//! piece are read twice as fast as scattered ones. A write makes the codes of one leaf anew, at the next search, and
//! copies those of its run. Forks share what they have not changed, and codes go when the last tree with their
//! leaves does, or when memory is short. They take about `2 * (dimension + 12)` bytes a row.
//!
//! A leaf and a run have one place each. Where two collections meet in one, the first that is searched has it, and the
//! few rows of the other are coded in each search.

use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_tree::{KeyRange, LeafView, RunView, Sidecar};

use super::metric::Metric;
use super::quantise::Block;
use super::row::{decode_row, Row};
use crate::access::View;
use crate::error::StoreError;
use crate::keys::{self, KeyBuf};

/// Which rows are coded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coding<'r> {
    /// The range of the collection's rows: all keys that begin with `start`.
    pub(super) range: KeyRange<'r>,
    pub(super) metric: Metric,
    pub(super) dimension: usize,
}

impl Coding<'_> {
    /// Whether what a leaf or a run keeps is about these rows, coded in this way: leaves of two collections lie side
    /// by side, and a collection may have been dropped and recreated with another metric.
    fn fits(&self, start: &[u8], block: &Block) -> bool {
        block.metric() == self.metric && block.dimension() == self.dimension && *start == *self.range.start
    }
}

/// The codes of a run.
pub(super) struct Part {
    /// With what the keys of the coded rows begin. In place, as a search looks at it in every part.
    start: KeyBuf,
    pub(super) block: Block,
    pub(super) rows: Arc<Rows>,
}

/// How to come from a row of a part to the row of the tree: little beside the codes, so that a search can keep it of all parts.
pub(super) struct Rows {
    /// Of each leaf, its first row and where that row's key ends in `keys`.
    leaves: Vec<(u32, u32)>,
    keys: Vec<u8>,
}

impl Sidecar for Part {
    fn memory(&self) -> usize {
        let rows = size_of::<Rows>()
            + size_of::<(u32, u32)>() * self.rows.leaves.capacity()
            + self.rows.keys.capacity();
        size_of::<Self>() + self.block.memory() + rows
    }
}

impl Rows {
    /// The first key of the leaf that holds a row, and which row of that leaf it is, from the key on.
    fn locate(&self, row: usize) -> (&[u8], usize) {
        let leaf = self.leaves.partition_point(|(first, _)| *first as usize <= row) - 1;
        let begin = if leaf == 0 { 0 } else { self.leaves[leaf - 1].1 };
        let (first, end) = self.leaves[leaf];
        (&self.keys[begin as usize..end as usize], row - first as usize)
    }

    /// Shows key and value of a row, in the view that the part was taken from.
    pub(super) fn show<R>(
        &self,
        view: &dyn View,
        coding: &Coding<'_>,
        row: usize,
        show: impl FnOnce(&[u8], &[u8]) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let (start, at) = self.locate(row);
        let (mut show, mut result) = (Some(show), None);
        view.leaves(&KeyRange::new(start, coding.range.end), &mut |leaf| {
            if at < leaf.len() {
                let entry = leaf.entry(at);
                result = show.take().map(|show| show(entry.key, entry.value));
            }
            ControlFlow::Break(())
        })?;
        result.unwrap_or_else(|| Err(StoreError::Damaged("a leaf has fewer rows than codes".into())))
    }
}

/// What a leaf keeps.
struct LeafCodes {
    start: KeyBuf,
    block: Block,
}

impl Sidecar for LeafCodes {
    fn memory(&self) -> usize {
        size_of::<Self>() + self.block.memory()
    }
}

/// Shows the parts of a collection, in the order of keys, one at a time: their codes may be more than memory has room for.
pub(super) fn parts(
    view: &dyn View,
    coding: &Coding<'_>,
    mut show: impl FnMut(&Part) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    view.runs(&coding.range, &mut |run| {
        let shown = part_of(run, coding).and_then(|part| match part.block.rows() {
            0 => Ok(()),
            _ => show(&part),
        });
        match shown {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

fn part_of(run: RunView<'_>, coding: &Coding<'_>) -> Result<Arc<Part>, StoreError> {
    let kept = run.sidecar(|| derive_part(run, coding))?;
    if coding.fits(&kept.start, &kept.block) {
        Ok(kept)
    } else {
        derive_part(run, coding).map(Arc::new)
    }
}

fn derive_part(run: RunView<'_>, coding: &Coding<'_>) -> Result<Part, StoreError> {
    let mut blocks = Vec::new();
    let (mut leaves, mut keys, mut rows) = (Vec::new(), Vec::new(), 0);
    let mut failed = None;
    run.leaves(|leaf| {
        keys.extend_from_slice(leaf.entry(0).key);
        leaves.push((rows, keys.len() as u32));
        rows += leaf.len() as u32;
        match leaf_codes(leaf, coding) {
            Ok(codes) => {
                blocks.push(codes);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let block = Block::join(coding.metric, coding.dimension, blocks.iter().map(|codes| &codes.block))?;
    Ok(Part { start: coding.range.start.into(), block, rows: Arc::new(Rows { leaves, keys }) })
}

fn leaf_codes(leaf: LeafView<'_>, coding: &Coding<'_>) -> Result<Arc<LeafCodes>, StoreError> {
    let derive = || Ok(LeafCodes { start: coding.range.start.into(), block: derive_block(leaf, coding)? });
    let kept = leaf.sidecar(derive)?;
    if coding.fits(&kept.start, &kept.block) {
        Ok(kept)
    } else {
        derive().map(Arc::new)
    }
}

fn derive_block(leaf: LeafView<'_>, coding: &Coding<'_>) -> Result<Block, StoreError> {
    let mut vectors = Vec::with_capacity(leaf.len());
    for index in 0..leaf.len() {
        let entry = leaf.entry(index);
        let row = decode_row(entry.value)?;
        check_row(entry.key, &row, coding)?;
        vectors.push(row.vector_bytes());
    }
    Ok(Block::build(coding.metric, coding.dimension, vectors)?)
}

/// Refuses a row of another dimension than its collection has.
pub(super) fn check_row(key: &[u8], row: &Row<'_>, coding: &Coding<'_>) -> Result<(), StoreError> {
    if row.dimension() == coding.dimension {
        return Ok(());
    }
    let reason = format!(
        "it has {} dimensions and its collection has {}: a merge brought together two collections of one name; \
         delete or replace it",
        row.dimension(),
        coding.dimension
    );
    Err(StoreError::WrongType { what: keys::display(key), reason })
}
