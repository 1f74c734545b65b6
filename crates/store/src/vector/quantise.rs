//! Vectors in one byte a dimension, with a bound on what that costs.
//!
//! A search first reads these codes, a quarter of the bytes, and the bounds tell which few rows could be among the
//! best; only those are computed exactly. Codes lie in groups of sixteen rows: for each pair of dimensions, the
//! sixteen rows' two codes side by side. One multiply-add instruction then serves eight rows, and no sum across the
//! lanes of a register is needed.

use super::metric::Metric;
use super::row::{check_dimension, elements, VectorError};

/// Rows that are computed side by side: their sums fill two 256-bit registers.
const GROUP: usize = 16;
/// Bytes of a group's codes for one pair of dimensions.
const STEP: usize = 2 * GROUP;
/// The largest code of a row.
const ROW_LIMIT: f64 = 127.0;
/// Covers, many times over, the rounding of every `f64` sum over at most 8192 terms (below 2e-12 of the terms).
const ROUNDING: f64 = 1e-9;
/// Covers the square of a norm that was rounded to `f32`.
const NORM_ROUNDING: f64 = 4e-7;

/// The codes of the vectors in one leaf.
///
/// It is derived from the leaf's rows alone. So it can be kept beside the leaf, is shared by every branch that shares
/// the leaf, and is never out of date: a changed leaf is another leaf.
#[derive(Debug, Clone)]
pub struct Block {
    metric: Metric,
    dimension: usize,
    rows: usize,
    codes: Box<[i8]>,
    /// What one step of a code is worth, by row (and zero for the padding at the end, here and below).
    scales: Box<[f32]>,
    /// The norm of what the codes leave out, rounded up.
    residuals: Box<[f32]>,
    /// The norm of the vector, rounded up; of a cosine block's unit vectors, 1.
    norms: Box<[f32]>,
}

impl Block {
    /// Bytes of memory beside the block itself.
    pub(crate) fn memory(&self) -> usize {
        let floats = self.scales.len() + self.residuals.len() + self.norms.len();
        self.codes.len() + 4 * floats
    }

    /// Derives the codes of rows, each given as `dimension` little-endian `f32`, in the order of their keys.
    ///
    /// # Errors
    /// [`VectorError::DimensionOutOfRange`]; [`VectorError::DimensionMismatch`] for a row of another length.
    pub fn build<'a>(
        metric: Metric,
        dimension: usize,
        rows: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, VectorError> {
        check_dimension(dimension)?;
        let pairs = dimension.div_ceil(2);
        let (mut codes, mut scales, mut residuals, mut norms) = (vec![], vec![], vec![], vec![]);
        let mut scratch = vec![0.0; dimension];
        for (index, row) in rows.into_iter().enumerate() {
            if row.len() != dimension * 4 {
                return Err(VectorError::DimensionMismatch { expected: dimension, actual: row.len() / 4 });
            }
            if index % GROUP == 0 {
                codes.resize(codes.len() + pairs * STEP, 0);
            }
            scratch.iter_mut().zip(elements(row)).for_each(|(to, x)| *to = f64::from(x));
            let group = (index / GROUP) * pairs * STEP + 2 * (index % GROUP);
            let coded = encode(metric, &mut scratch, |at, code| codes[group + at / 2 * STEP + at % 2] = code);
            scales.push(coded.scale);
            residuals.push(coded.residual);
            norms.push(coded.norm);
        }
        let rows = scales.len();
        let padded = rows.next_multiple_of(GROUP);
        let pad = |mut column: Vec<f32>| {
            column.resize(padded, 0.0);
            column.into_boxed_slice()
        };
        let (scales, residuals, norms) = (pad(scales), pad(residuals), pad(norms));
        Ok(Self { metric, dimension, rows, codes: codes.into(), scales, residuals, norms })
    }

    /// The codes of several blocks in one, in their order: copied, not derived anew.
    ///
    /// # Errors
    /// [`VectorError::DimensionMismatch`] and [`VectorError::Damaged`] when a block is of another dimension or metric.
    pub fn join<'a>(
        metric: Metric,
        dimension: usize,
        blocks: impl Iterator<Item = &'a Self> + Clone,
    ) -> Result<Self, VectorError> {
        check_dimension(dimension)?;
        let rows: usize = blocks.clone().map(Self::rows).sum();
        let (padded, size) = (rows.next_multiple_of(GROUP), dimension.div_ceil(2) * STEP);
        let mut codes = vec![0; padded / GROUP * size].into_boxed_slice();
        let [mut scales, mut residuals, mut norms] = [(); 3].map(|()| Vec::with_capacity(padded));
        for block in blocks {
            if block.dimension != dimension {
                return Err(VectorError::DimensionMismatch { expected: dimension, actual: block.dimension });
            }
            if block.metric != metric {
                return Err(VectorError::Damaged { what: "its block was built for another metric" });
            }
            for row in 0..block.rows {
                let at = scales.len() + row;
                let from = block.codes[row / GROUP * size..][..size].as_chunks::<STEP>().0;
                let to = codes[at / GROUP * size..][..size].as_chunks_mut::<STEP>().0;
                let (from_lane, to_lane) = (2 * (row % GROUP), 2 * (at % GROUP));
                for (from, to) in from.iter().zip(to) {
                    to[to_lane..to_lane + 2].copy_from_slice(&from[from_lane..from_lane + 2]);
                }
            }
            scales.extend_from_slice(&block.scales[..block.rows]);
            residuals.extend_from_slice(&block.residuals[..block.rows]);
            norms.extend_from_slice(&block.norms[..block.rows]);
        }
        let [scales, residuals, norms] = [scales, residuals, norms].map(|mut column| {
            column.resize(padded, 0.0);
            column.into_boxed_slice()
        });
        Ok(Self { metric, dimension, rows, codes, scales, residuals, norms })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of dimensions.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The metric that the codes were made for.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The memory that the block occupies, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.codes.len() + 3 * 4 * self.scales.len()
    }
}

struct Coded {
    scale: f32,
    residual: f32,
    norm: f32,
}

/// Hands out the codes of one vector. For cosine, `vector` is brought to length 1 first.
fn encode(metric: Metric, vector: &mut [f64], mut put: impl FnMut(usize, i8)) -> Coded {
    let mut norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm == 0.0 {
        return Coded { scale: 0.0, residual: 0.0, norm: 0.0 };
    }
    if metric == Metric::Cosine {
        vector.iter_mut().for_each(|x| *x /= norm);
        norm = 1.0;
    }
    let scale = (vector.iter().fold(0.0, |max: f64, x| max.max(x.abs())) / ROW_LIMIT) as f32;
    // Norms that f32 holds badly or not at all, and damaged rows: no codes, and a bound that excludes nothing.
    let held = f64::from(f32::MIN_POSITIVE)..f64::from(f32::MAX) / 2.0;
    if !held.contains(&norm) || scale == 0.0 {
        return Coded { scale: 0.0, residual: f32::INFINITY, norm: f32::INFINITY };
    }
    let step = f64::from(scale);
    let inverse = 1.0 / step;
    let mut left = 0.0;
    for (at, x) in vector.iter().enumerate() {
        let code = round(x * inverse).clamp(-ROW_LIMIT, ROW_LIMIT);
        left += (x - code * step) * (x - code * step);
        put(at, code as i8);
    }
    Coded { scale, residual: round_up(left.sqrt() + ROUNDING * norm), norm: round_up(norm) }
}

/// The nearest whole number, for numbers below 2^51: adding 1.5 * 2^52 leaves no bits for a fraction. The instruction
/// for it is not in every processor, and the function in its place is slow.
fn round(x: f64) -> f64 {
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0;
    (x + NO_FRACTION) - NO_FRACTION
}

/// The least `f32` that is not below `x`.
fn round_up(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x {
        near.next_up()
    } else {
        near
    }
}

/// A query in codes of up to 16 bits, with the constants that turn a sum of code products into bounds.
///
/// With `q = scale * codes + e`, and a row `v = scale' * codes' + e'`, the error of `scale * scale' * (codes . codes')`
/// as a value for `q . v` is `(scale * codes) . e' + e . v`, by Cauchy-Schwarz at most
/// `|scale * codes| |e'| + |e| |v|`. Codes of 16 bits make `e` so small that the row's `e'` alone decides.
#[derive(Debug, Clone)]
pub(super) struct CodedQuery {
    pairs: Vec<[i16; 2]>,
    simd: Simd,
    /// The rank is near `weight * row scale * product + square * norm^2 + offset` ...
    weight: f64,
    square: f64,
    offset: f64,
    /// ... and no farther than `by_residual * residual + by_norm * norm + by_square * norm^2 + constant`.
    by_residual: f64,
    by_norm: f64,
    by_square: f64,
    constant: f64,
}

/// The bounds of a row's rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl CodedQuery {
    pub(super) fn new(metric: Metric, query: &[f32], norm: f64) -> Self {
        let unit = metric == Metric::Cosine && norm > 0.0;
        let by = if unit { norm } else { 1.0 };
        let norm = if unit { 1.0 } else { norm };
        let values: Vec<f64> = query.iter().map(|x| f64::from(*x) / by).collect();
        // The sum of all products must fit an i32, whatever the signs.
        let limit = (f64::from(i32::MAX) / (ROW_LIMIT * query.len().max(1) as f64)).floor().min(32767.0);
        let scale = values.iter().fold(0.0, |max: f64, x| max.max(x.abs())) / limit;
        let mut left = 0.0;
        let mut pairs = vec![[0i16; 2]; values.len().div_ceil(2)];
        if scale > 0.0 {
            for (at, x) in values.iter().enumerate() {
                let code = round(x / scale).clamp(-limit, limit);
                left += (x - code * scale) * (x - code * scale);
                pairs[at / 2][at % 2] = code as i16;
            }
        }
        let error = left.sqrt();
        let by_residual = norm + error;
        let by_norm = error + ROUNDING * norm;
        let common = Self {
            pairs,
            simd: Simd::detect(),
            weight: scale,
            square: 0.0,
            offset: 0.0,
            by_residual,
            by_norm,
            by_square: 0.0,
            constant: 0.0,
        };
        match metric {
            Metric::Cosine | Metric::Dot => common,
            // -|q - v|^2 = 2 q . v - |q|^2 - |v|^2.
            Metric::Euclidean => Self {
                weight: 2.0 * scale,
                square: -1.0,
                offset: -norm * norm,
                by_residual: 2.0 * by_residual,
                by_norm: 2.0 * by_norm,
                by_square: NORM_ROUNDING,
                constant: ROUNDING * norm * norm,
                ..common
            },
        }
    }

    /// Writes the upper bound of every row's rank (and of the padding) to `scratch`, and returns whether any of them is
    /// above `threshold`. What is NaN, of an infinite bound, counts as above.
    pub(super) fn upper_bounds(&self, block: &Block, threshold: f64, scratch: &mut Scratch) -> bool {
        scratch.products.resize(block.scales.len(), 0);
        scratch.uppers.resize(block.scales.len(), 0.0);
        self.simd.run(Pass { query: self, block, threshold, scratch })
    }

    /// Both bounds of one row after [`CodedQuery::upper_bounds`].
    pub(super) fn bounds(&self, block: &Block, row: usize, scratch: &Scratch) -> Bounds {
        let (near, off) =
            self.estimate(scratch.products[row], block.scales[row], block.residuals[row], block.norms[row]);
        // NaN, of an infinite bound, is not a bound.
        let or = |value: f64, none: f64| if value.is_nan() { none } else { value };
        Bounds { lower: or(near - off, f64::NEG_INFINITY), upper: or(near + off, f64::INFINITY) }
    }

    /// The approximate rank and how far it may be off. Of `f32` factors, so nothing overflows an `f64`.
    #[inline(always)]
    fn estimate(&self, product: i32, scale: f32, residual: f32, norm: f32) -> (f64, f64) {
        let (norm, residual) = (f64::from(norm), f64::from(residual));
        let square = norm * norm;
        let near = self.weight * f64::from(scale) * f64::from(product) + self.square * square + self.offset;
        let off = self.by_residual * residual + self.by_norm * norm + self.by_square * square + self.constant;
        (near, off)
    }
}

/// Buffers that are reused from block to block.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    products: Vec<i32>,
    pub(super) uppers: Vec<f64>,
}

/// One block's share of a search, as an object, so that it can be compiled for several processors.
struct Pass<'a> {
    query: &'a CodedQuery,
    block: &'a Block,
    threshold: f64,
    scratch: &'a mut Scratch,
}

/// Groups that are read side by side. Their places in memory lie far apart, so that while one waits for memory at the
/// beginning of a page, where no prefetcher reads ahead, the others do, too: the waits overlap.
const STREAMS: usize = 4;

/// The sums of products of some groups' codes with the query's.
trait Products {
    fn products<const N: usize>(&self, groups: [&[[i8; STEP]]; N], pairs: &[[i16; 2]]) -> [[i32; GROUP]; N];
}

impl Pass<'_> {
    #[inline(always)]
    fn run(self, kernel: impl Products) -> bool {
        let Pass { query, block, threshold, scratch } = self;
        let steps = block.codes.as_chunks::<STEP>().0;
        let size = query.pairs.len().max(1);
        let count = steps.len() / size;
        let sums = scratch.products.as_chunks_mut::<GROUP>().0;
        let apart = count / STREAMS;
        let group = |at: usize| &steps[at * size..][..size];
        for at in 0..apart {
            let groups: [_; STREAMS] = std::array::from_fn(|stream| group(at + stream * apart));
            for (stream, sum) in kernel.products(groups, &query.pairs).into_iter().enumerate() {
                sums[at + stream * apart] = sum;
            }
        }
        for (at, sum) in sums.iter_mut().enumerate().take(count).skip(apart * STREAMS) {
            [*sum] = kernel.products([group(at)], &query.pairs);
        }
        let columns = block.scales.iter().zip(&block.residuals).zip(&block.norms);
        let mut all_below = true;
        for ((upper, product), ((scale, residual), norm)) in
            scratch.uppers.iter_mut().zip(&scratch.products).zip(columns)
        {
            let (near, off) = query.estimate(*product, *scale, *residual, *norm);
            *upper = near + off;
            // Not a jump, so that several rows are computed at once.
            all_below &= *upper <= threshold;
        }
        !all_below
    }
}

/// The instruction set that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Simd {
    /// Only where the processor has it: [`Simd::detect`] is what says so.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Simd {
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx2::is_there() {
            return Simd::Avx2;
        }
        Simd::Portable
    }

    fn run(self, pass: Pass<'_>) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => avx2::run(pass),
            Simd::Portable => pass.run(Portable),
        }
    }
}

/// The same in plain code, for the compiler to make the best of.
struct Portable;

impl Products for Portable {
    fn products<const N: usize>(&self, groups: [&[[i8; STEP]]; N], pairs: &[[i16; 2]]) -> [[i32; GROUP]; N] {
        groups.map(|group| {
            let mut sums = [0; GROUP];
            for (codes, [first, second]) in group.iter().zip(pairs) {
                for (sum, [a, b]) in sums.iter_mut().zip(codes.as_chunks::<2>().0) {
                    *sum += i32::from(*a) * i32::from(*first) + i32::from(*b) * i32::from(*second);
                }
            }
            sums
        })
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;

#[cfg(test)]
#[path = "../../tests/unit/vector_quantise.rs"]
mod tests;
