//! How sure a difference is: bootstrap intervals.
//!
//! Values that are handed in must be independent of each other: medians of blocks of load that were run apart, not the
//! latencies of operations that waited behind each other.
//!
//! The intervals are those of the studentised bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap",
//! 1993, chapter 12.5), which keeps its promise for few values better than the percentiles of the means do.

/// An estimate with the interval that holds the true value with the confidence that was asked for.
///
/// ```
/// use duramen_measure::{entropy, statistics};
///
/// let slower = [1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.9];
/// let added = statistics::mean(&slower, 0.99, &mut entropy::rng(1)).expect("more than one value");
/// assert!(added.excludes(0.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The best guess.
    pub estimate: f64,
    /// The least value that the data do not contradict.
    pub low: f64,
    /// The greatest value that the data do not contradict.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies outside.
    #[must_use]
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low || value > self.high
    }
}

/// How often is drawn anew.
const RESAMPLES: usize = 4_000;

/// The mean of independent values. `None` for fewer than two values, or for some that are not finite.
///
/// For paired values (the same block under two conditions) hand in their differences.
#[must_use]
pub fn mean(values: &[f64], confidence: f64, rng: &mut fastrand::Rng) -> Option<Interval> {
    let (centre, error) = moments(values)?;
    let mut resample = vec![0.0; values.len()];
    let ratios = (0..RESAMPLES).filter_map(|_| {
        for slot in &mut resample {
            *slot = values[rng.usize(..values.len())];
        }
        ratio(moments(&resample)?, centre)
    });
    Some(studentised(centre, error, ratios.collect(), confidence))
}

/// The difference `mean(b) - mean(a)` of two groups of independent values.
/// `None` if a group has fewer than two values, or one that is not finite.
#[must_use]
pub fn difference(a: &[f64], b: &[f64], confidence: f64, rng: &mut fastrand::Rng) -> Option<Interval> {
    let both = |a: &[f64], b: &[f64]| {
        let ((a_mean, a_error), (b_mean, b_error)) = (moments(a)?, moments(b)?);
        Some((b_mean - a_mean, a_error.hypot(b_error)))
    };
    let (centre, error) = both(a, b)?;
    let (mut new_a, mut new_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
    let ratios = (0..RESAMPLES).filter_map(|_| {
        for slot in &mut new_a {
            *slot = a[rng.usize(..a.len())];
        }
        for slot in &mut new_b {
            *slot = b[rng.usize(..b.len())];
        }
        ratio(both(&new_a, &new_b)?, centre)
    });
    Some(studentised(centre, error, ratios.collect(), confidence))
}

/// Mean and standard error of the mean.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0) / count).sqrt()))
}

/// How many standard errors a resample lies from the centre. A resample of equal values has no error: it counts as
/// infinitely far, so that few values make the interval wide and not narrow.
fn ratio((mean, error): (f64, f64), centre: f64) -> Option<f64> {
    if error > 0.0 {
        Some((mean - centre) / error)
    } else if mean == centre {
        Some(0.0)
    } else {
        Some(f64::INFINITY.copysign(mean - centre))
    }
}

fn studentised(centre: f64, error: f64, mut ratios: Vec<f64>, confidence: f64) -> Interval {
    if error == 0.0 || ratios.is_empty() {
        return Interval { estimate: centre, low: centre, high: centre };
    }
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * ratios.len() as f64).floor().clamp(0.0, (ratios.len() - 1) as f64);
        // Beyond the largest finite ratio nothing is known; a thousand errors says so and can be printed.
        ratios[index as usize].clamp(-1e3, 1e3)
    };
    let tail = (1.0 - confidence) / 2.0;
    Interval { estimate: centre, low: centre - at(1.0 - tail) * error, high: centre - at(tail) * error }
}
