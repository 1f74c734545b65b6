//! The best matches of a query: bounds first, exact scores for the few that the bounds cannot exclude.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::metric::{Metric, Prepared};
use super::quantise::{Block, CodedQuery, Scratch};
use super::row::{check_vector, VectorError};

/// A checked query, ready to be used by any number of searchers and threads.
#[derive(Debug, Clone)]
pub struct Query {
    metric: Metric,
    vector: Vec<f32>,
    prepared: Prepared,
    coded: CodedQuery,
    k: usize,
}

impl Query {
    /// A search for the `k` best matches of `vector`; the collection has as many dimensions as the vector.
    ///
    /// # Errors
    /// [`VectorError::ZeroResults`] when `k` is 0; those of [`check_vector`].
    pub fn new(metric: Metric, vector: &[f32], k: usize) -> Result<Self, VectorError> {
        if k == 0 {
            return Err(VectorError::ZeroResults);
        }
        check_vector(vector.len(), vector)?;
        let prepared = metric.prepare(vector);
        let coded = CodedQuery::new(metric, vector, prepared.norm);
        Ok(Self { metric, vector: vector.to_vec(), prepared, coded, k })
    }

    /// The metric.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The number of dimensions.
    pub fn dimension(&self) -> usize {
        self.vector.len()
    }

    /// How many results are asked for.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The exact score of one vector, given as little-endian `f32`: what a [`Hit`] would have.
    ///
    /// # Errors
    /// [`VectorError::DimensionMismatch`].
    pub fn score(&self, vector_bytes: &[u8]) -> Result<f64, VectorError> {
        Ok(self.metric.score_of_rank(self.rank(vector_bytes)?))
    }

    fn rank(&self, vector_bytes: &[u8]) -> Result<f64, VectorError> {
        self.check_dimension(vector_bytes.len() / 4)?;
        Ok(self.metric.rank(&self.vector, &self.prepared, vector_bytes.as_chunks::<4>().0))
    }

    fn check_dimension(&self, actual: usize) -> Result<(), VectorError> {
        if actual == self.vector.len() {
            Ok(())
        } else {
            Err(VectorError::DimensionMismatch { expected: self.vector.len(), actual })
        }
    }
}

/// A result of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The tag of the leaf that holds the row.
    pub leaf: u64,
    /// The row in the leaf, from 0.
    pub row: usize,
    /// How well it matches; higher is better. See [`Metric`].
    pub score: f64,
    /// How far it is; lower is better. See [`Metric::distance`].
    pub distance: f64,
}

/// A running search: offer it every leaf's block, then let it compute the exact scores of those that are left.
///
/// The result is the same as that of computing every score: the rows of highest score, equal scores in the order of
/// leaf tag and row. Tags must therefore rise in the order of keys, and blocks be offered in that order.
///
/// ```
/// use duramen_store::vector::{Block, Metric, Query, Searcher};
/// let rows: Vec<Vec<u8>> = [[1.0f32, 0.0], [0.6, 0.8], [0.0, 1.0]]
///     .iter()
///     .map(|v| v.iter().flat_map(|x| x.to_le_bytes()).collect())
///     .collect();
/// let block = Block::build(Metric::Cosine, 2, rows.iter().map(Vec::as_slice)).unwrap();
/// let query = Query::new(Metric::Cosine, &[0.0, 2.0], 2).unwrap();
/// let mut searcher = Searcher::new(&query);
/// searcher.offer(&block, 0, |_row| true).unwrap();
/// let hits = searcher.finish(|_leaf, row| Ok::<_, duramen_store::vector::VectorError>(&rows[row])).unwrap();
/// assert_eq!((hits[0].row, hits[0].score), (2, 1.0));
/// assert_eq!(hits[1].row, 1);
/// ```
#[derive(Debug)]
pub struct Searcher<'q> {
    query: &'q Query,
    scratch: Scratch,
    /// The `k` highest lower bounds so far, the lowest on top.
    floor: BinaryHeap<Reverse<Rank>>,
    candidates: Vec<Candidate>,
    /// How many candidates to collect before those that have fallen behind are thrown out.
    prune_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    upper: f64,
    leaf: u64,
    row: u32,
}

/// Candidates below this number are not worth throwing out.
const PRUNE_AT: usize = 1024;

impl<'q> Searcher<'q> {
    /// A search that has seen nothing yet.
    pub fn new(query: &'q Query) -> Self {
        Self {
            query,
            scratch: Scratch::default(),
            floor: BinaryHeap::new(),
            candidates: Vec::new(),
            prune_at: PRUNE_AT,
        }
    }

    /// Looks at a leaf's rows. `accept` is asked, once at most, only about rows that may still be among the best: the
    /// place for a filter. Tags must rise from call to call.
    ///
    /// # Errors
    /// [`VectorError::DimensionMismatch`]; [`VectorError::Damaged`] when the block was built for another metric.
    pub fn offer(
        &mut self,
        block: &Block,
        leaf: u64,
        mut accept: impl FnMut(usize) -> bool,
    ) -> Result<(), VectorError> {
        self.query.check_dimension(block.dimension())?;
        if block.metric() != self.query.metric {
            return Err(VectorError::Damaged { what: "its block was built for another metric" });
        }
        let mut threshold = self.threshold();
        if !self.query.coded.upper_bounds(block, threshold, &mut self.scratch) {
            return Ok(());
        }
        for row in 0..block.rows() {
            // A row that can only tie with `k` earlier ones is out: the earlier keys win. NaN excludes nothing.
            if self.scratch.uppers[row] <= threshold || !accept(row) {
                continue;
            }
            let bounds = self.query.coded.bounds(block, row, &self.scratch);
            self.candidates.push(Candidate { upper: bounds.upper, leaf, row: row as u32 });
            push_best(&mut self.floor, self.query.k, Reverse(Rank(bounds.lower)));
            threshold = self.threshold();
        }
        if self.candidates.len() >= self.prune_at {
            self.prune();
            self.prune_at = (2 * self.candidates.len()).max(PRUNE_AT);
        }
        Ok(())
    }

    /// Takes over what another searcher of the same query has found, of other leaves: for a search in several threads,
    /// each of which has its own searcher.
    pub fn merge(&mut self, other: Self) {
        self.candidates.extend(other.candidates);
        for lower in other.floor {
            push_best(&mut self.floor, self.query.k, lower);
        }
    }

    /// How many rows are candidates now; at the end, no more than these are computed exactly.
    pub fn candidates(&mut self) -> usize {
        self.prune();
        self.candidates.len()
    }

    /// The best rows, best first. `vector_bytes` gives a candidate's vector as little-endian `f32`, by leaf tag and
    /// row; it is called for the most promising candidates first and not for those that cannot win any more.
    ///
    /// # Errors
    /// Those of `vector_bytes`; [`VectorError::DimensionMismatch`] when it gives a vector of another length.
    pub fn finish<B, E>(
        mut self,
        mut vector_bytes: impl FnMut(u64, usize) -> Result<B, E>,
    ) -> Result<Vec<Hit>, E>
    where
        B: AsRef<[u8]>,
        E: From<VectorError>,
    {
        self.prune();
        let Self { query, mut candidates, .. } = self;
        candidates.sort_unstable_by(|a, b| b.upper.total_cmp(&a.upper));
        let mut best: BinaryHeap<Reverse<Found>> = BinaryHeap::new();
        for candidate in candidates {
            if best.len() == query.k && best.peek().is_some_and(|Reverse(last)| candidate.upper < last.rank.0)
            {
                break;
            }
            let bytes = vector_bytes(candidate.leaf, candidate.row as usize)?;
            let rank = Rank(query.rank(bytes.as_ref())?);
            push_best(&mut best, query.k, Reverse(Found { rank, leaf: candidate.leaf, row: candidate.row }));
        }
        let hit = |Reverse(found): Reverse<Found>| {
            let score = query.metric.score_of_rank(found.rank.0);
            Hit { leaf: found.leaf, row: found.row as usize, score, distance: query.metric.distance(score) }
        };
        Ok(best.into_sorted_vec().into_iter().map(hit).collect())
    }

    fn threshold(&self) -> f64 {
        match self.floor.peek() {
            Some(Reverse(lowest)) if self.floor.len() == self.query.k => lowest.0,
            _ => f64::NEG_INFINITY,
        }
    }

    fn prune(&mut self) {
        let threshold = self.threshold();
        self.candidates.retain(|candidate| candidate.upper >= threshold);
    }
}

/// Adds to a heap that keeps the `k` best, the worst of them on top.
fn push_best<T: Ord>(heap: &mut BinaryHeap<Reverse<T>>, k: usize, item: Reverse<T>) {
    if heap.len() < k {
        heap.push(item);
    } else if let Some(mut worst) = heap.peek_mut() {
        if item < *worst {
            *worst = item;
        }
    }
}

/// A rank or a bound, which are never NaN, in their order.
#[derive(Debug, Clone, Copy)]
struct Rank(f64);

impl PartialEq for Rank {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// An exact result; the better one is greater: the higher rank and, of equal ones, the earlier row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    rank: Rank,
    leaf: u64,
    row: u32,
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then_with(|| (other.leaf, other.row).cmp(&(self.leaf, self.row)))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/vector_search.rs"]
mod tests;
