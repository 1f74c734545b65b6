//! How alike two vectors are, computed exactly.
//!
//! The products of two `f32` are exact in `f64`, and sums are kept in `f64` in a fixed order. So a score does not
//! overflow for any finite input, its rounding error is far below the resolution of the input, and it is the same
//! bit for bit on every processor: the order of results never depends on the machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::row::VectorError;

/// How vectors are compared. Whatever the metric, a higher score is a better match.
///
/// ```
/// use duramen_store::vector::Metric;
/// assert_eq!(Metric::default(), Metric::Cosine);
/// assert_eq!("dot".parse::<Metric>().unwrap().score(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// assert_eq!(Metric::Euclidean.score(&[0.0, 0.0], &[3.0, 4.0]), -5.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The cosine of the angle, from -1 to 1; 0 when either vector is zero. The default.
    #[default]
    Cosine,
    /// The inner product, unbounded.
    Dot,
    /// The straight-line distance, negated to make a score: 0 is equal, lower is farther.
    Euclidean,
}

impl Metric {
    /// The name used in JSON and on the command line: `cosine`, `dot` or `euclidean`.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::Cosine => "cosine",
            Metric::Dot => "dot",
            Metric::Euclidean => "euclidean",
        }
    }

    /// The score of two vectors of one length: higher is better. Of unequal lengths, the tail is left out.
    pub fn score(self, a: &[f32], b: &[f32]) -> f64 {
        let b: Vec<[u8; 4]> = b.iter().map(|x| x.to_le_bytes()).collect();
        self.score_of_rank(self.rank(a, &self.prepare(a), &b))
    }

    /// The distance that belongs to a score, lower is better: `1 - score` for cosine, `-score` for dot, and the
    /// straight-line distance for euclidean.
    pub fn distance(self, score: f64) -> f64 {
        match self {
            Metric::Cosine => 1.0 - score,
            // Not a plain negation, so that no distance prints as "-0".
            Metric::Dot | Metric::Euclidean => 0.0 - score,
        }
    }

    /// What [`Metric::rank`] needs to know of the query, computed once.
    pub(super) fn prepare(self, query: &[f32]) -> Prepared {
        Prepared { norm: query.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt() }
    }

    /// The exact value that results are ordered by: the score, but for euclidean the negated square of the distance.
    /// The row is given as it is stored, in little-endian bytes.
    ///
    /// Never NaN: what is not a number (only damaged rows can bring it about) ranks last.
    pub(super) fn rank(self, query: &[f32], prepared: &Prepared, row: &[[u8; 4]]) -> f64 {
        let rank = match self {
            Metric::Dot => dot(query, row).0,
            Metric::Euclidean => -squared_distance(query, row),
            Metric::Cosine => {
                let (product, square) = dot(query, row);
                if prepared.norm > 0.0 && square > 0.0 {
                    (product / (prepared.norm * square.sqrt())).clamp(-1.0, 1.0)
                } else {
                    0.0
                }
            }
        };
        if rank.is_nan() {
            f64::NEG_INFINITY
        } else {
            // Adding zero turns -0 into 0, so that the two tie.
            rank + 0.0
        }
    }

    /// The score for a rank.
    pub(super) fn score_of_rank(self, rank: f64) -> f64 {
        match self {
            Metric::Euclidean => 0.0 - (-rank).sqrt(),
            Metric::Cosine | Metric::Dot => rank,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Metric {
    type Err = VectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cosine" => Ok(Metric::Cosine),
            "dot" => Ok(Metric::Dot),
            "euclidean" => Ok(Metric::Euclidean),
            _ => Err(VectorError::UnknownMetric { name: text.to_owned() }),
        }
    }
}

/// A query's share of the exact computation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prepared {
    /// The euclidean norm.
    pub(super) norm: f64,
}

/// Sums are kept in this many lanes: the compiler makes vector instructions of it, and the order stays fixed.
const LANES: usize = 8;

/// The inner product of the two, and of the second with itself.
fn dot(a: &[f32], b: &[[u8; 4]]) -> (f64, f64) {
    let mut products = [0.0; LANES];
    let mut squares = [0.0; LANES];
    each(a, b, |lane, x, y| {
        products[lane] += x * y;
        squares[lane] += y * y;
    });
    (fold(products), fold(squares))
}

fn squared_distance(a: &[f32], b: &[[u8; 4]]) -> f64 {
    let mut squares = [0.0; LANES];
    each(a, b, |lane, x, y| squares[lane] += (x - y) * (x - y));
    fold(squares)
}

#[inline(always)]
fn each(a: &[f32], b: &[[u8; 4]], mut add: impl FnMut(usize, f64, f64)) {
    let length = a.len().min(b.len());
    let (a, a_rest) = a[..length].as_chunks::<LANES>();
    let (b, b_rest) = b[..length].as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            add(lane, f64::from(a[lane]), f64::from(f32::from_le_bytes(b[lane])));
        }
    }
    for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        add(lane, f64::from(*x), f64::from(f32::from_le_bytes(*y)));
    }
}

fn fold(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
#[path = "../../tests/unit/vector_metric.rs"]
mod tests;
