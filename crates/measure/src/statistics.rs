//! How sure a difference is: bootstrap intervals, and many comparisons at once.
//!
//! Values that are handed in must be independent of each other: medians of blocks of load that were run apart, not the
//! latencies of operations that waited behind each other.
//!
//! The intervals are those of the studentised bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap",
//! 1993, chapter 12.5), held within bounds: never narrower than Student's (for two groups Welch's), never wider than
//! twice that. The bootstrap alone is too narrow on both sides of a difference of skewed values, and for few values it
//! reaches for the infinite; fewer than [`FEW`] values cannot be resampled with sense, so theirs is Student's.
//!
//! What that holds was found by simulation (`tests/it/statistics.rs`): two groups of the same distribution, normal or
//! log-normal, are told to differ in at most 6 of 100 cases at a confidence of 95 %; the interval of a mean covers it in
//! 94 of 100 for normal values, and in 83 (three values) to 93 (24) for log-normal ones as skewed as exp(N(0, 1)).
//! Differences of pairs are not skewed when nothing differs, so for them the promise is that of normal values.
//!
//! Where the order of the pairs was drawn, there is [`Estimate::of_balanced`]: Student's alone. For differences that are as
//! likely with either sign it tells at most 5 of 100 equals to differ at 95 % (7 if they have a few values only), and
//! fewer where they have long tails; at small probabilities too, where the resampled interval needs twice the values for
//! the same power.

mod runs;

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

pub use runs::{median, RunEstimate, RunValue};

/// With fewer values than this in a group, it is not resampled.
pub const FEW: usize = 5;

/// How often is drawn anew.
const RESAMPLES: usize = 4_000;

/// How many times as wide as Student's an interval is at most.
const WIDEST: f64 = 2.0;

/// An estimate with the interval that holds the true value with the confidence that was asked for.
///
/// ```
/// use duramen_base::entropy;
/// use duramen_measure::statistics;
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

/// The mean of independent values. `None` for fewer than two values, or for some that are not finite.
///
/// For paired values (the same block under two conditions) hand in their differences.
#[must_use]
pub fn mean(values: &[f64], confidence: f64, rng: &mut fastrand::Rng) -> Option<Interval> {
    Some(Estimate::of_mean(values, rng)?.interval(confidence))
}

/// The difference `mean(b) - mean(a)` of two groups of independent values.
/// `None` if a group has fewer than two values, or one that is not finite.
#[must_use]
pub fn difference(a: &[f64], b: &[f64], confidence: f64, rng: &mut fastrand::Rng) -> Option<Interval> {
    Some(Estimate::of_difference(a, b, rng)?.interval(confidence))
}

/// An estimate whose interval can be asked for at any confidence, and how surprising it is.
#[derive(Debug, Clone)]
pub struct Estimate {
    centre: f64,
    error: f64,
    /// The degrees of freedom of `error`.
    freedom: u32,
    /// How many standard errors each resample lies from the centre, in rising order. Empty for few values.
    ratios: Vec<f64>,
}

impl Estimate {
    /// The mean of independent values. `None` for fewer than two values, or for some that are not finite.
    #[must_use]
    pub fn of_mean(values: &[f64], rng: &mut fastrand::Rng) -> Option<Self> {
        let (centre, error) = moments(values)?;
        let mut resample = vec![0.0; values.len()];
        let draw = || {
            redraw(values, &mut resample, rng);
            ratio(moments(&resample)?, centre)
        };
        let freedom = u32::try_from(values.len() - 1).unwrap_or(u32::MAX);
        Some(Self::resampled(centre, error, freedom, values.len(), draw))
    }

    /// The mean of differences that are as likely to come out with the other sign when nothing differs, such as those
    /// of pairs whose order is drawn: Student's t, without resampling. `None` for fewer than two values, or for some that
    /// are not finite.
    ///
    /// ```
    /// use duramen_measure::statistics::Estimate;
    ///
    /// let faster = Estimate::of_balanced(&[-0.11, -0.09, -0.10, -0.12, -0.08]).expect("more than one value");
    /// assert!(faster.p_value() < 0.001 && faster.interval(0.95).excludes(0.0));
    /// ```
    #[must_use]
    pub fn of_balanced(values: &[f64]) -> Option<Self> {
        let (centre, error) = moments(values)?;
        let freedom = u32::try_from(values.len() - 1).unwrap_or(u32::MAX);
        Some(Self { centre, error, freedom, ratios: Vec::new() })
    }

    /// A centre whose standard error is known, with its degrees of freedom: Student's t. `None` if there are no degrees of
    /// freedom, or what is given is not finite.
    ///
    /// ```
    /// use duramen_measure::statistics::Estimate;
    ///
    /// let faster = Estimate::of_known(-0.1, 0.02, 11).expect("it is finite");
    /// assert!(faster.p_value() < 0.001 && faster.interval(0.95).excludes(0.0));
    /// ```
    #[must_use]
    pub fn of_known(centre: f64, error: f64, freedom: u32) -> Option<Self> {
        let is_one = centre.is_finite() && error.is_finite() && error >= 0.0 && freedom > 0;
        is_one.then_some(Self { centre, error, freedom, ratios: Vec::new() })
    }

    /// The difference `mean(b) - mean(a)` of two groups of independent values.
    /// `None` if a group has fewer than two values, or one that is not finite.
    #[must_use]
    pub fn of_difference(a: &[f64], b: &[f64], rng: &mut fastrand::Rng) -> Option<Self> {
        let both = |a: &[f64], b: &[f64]| {
            let ((a_mean, a_error), (b_mean, b_error)) = (moments(a)?, moments(b)?);
            Some((b_mean - a_mean, a_error.hypot(b_error)))
        };
        let (centre, error) = both(a, b)?;
        let (mut new_a, mut new_b) = (vec![0.0; a.len()], vec![0.0; b.len()]);
        let draw = || {
            redraw(a, &mut new_a, rng);
            redraw(b, &mut new_b, rng);
            ratio(both(&new_a, &new_b)?, centre)
        };
        Some(Self::resampled(centre, error, welch(a, b)?, a.len().min(b.len()), draw))
    }

    fn resampled(
        centre: f64,
        error: f64,
        freedom: u32,
        fewest: usize,
        mut draw: impl FnMut() -> Option<f64>,
    ) -> Self {
        let count = if fewest < FEW || error == 0.0 { 0 } else { RESAMPLES };
        let mut ratios: Vec<f64> = (0..count).filter_map(|_| draw()).collect();
        ratios.sort_by(f64::total_cmp);
        Self { centre, error, freedom, ratios }
    }

    /// The interval that holds the true value with this confidence (0.95 for 95 %).
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Interval {
        let tail = ((1.0 - confidence) / 2.0).clamp(1e-12, 0.5);
        let student = student_quantile(2.0 * tail, self.freedom);
        // The upper end of the ratios gives the lower end of the interval.
        let reach = |share: f64, sign: f64| {
            let resampled = self.at(share).map_or(student, |ratio| sign * ratio);
            resampled.clamp(student, WIDEST * student) * self.error
        };
        Interval {
            estimate: self.centre,
            low: self.centre - reach(1.0 - tail, 1.0),
            high: self.centre + reach(tail, -1.0),
        }
    }

    /// How probable an estimate this far from zero would be if the truth were zero: the least `1 - confidence` at which
    /// the interval excludes it.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        if self.error == 0.0 {
            return if self.centre == 0.0 { 1.0 } else { 0.0 };
        }
        let distance = self.centre / self.error;
        let narrow = student_tails(distance, self.freedom);
        if self.ratios.is_empty() {
            return narrow;
        }
        let beyond = if distance > 0.0 {
            self.ratios.len() - self.ratios.partition_point(|ratio| *ratio < distance)
        } else {
            self.ratios.partition_point(|ratio| *ratio <= distance)
        };
        let resampled = 2.0 * (beyond + 1) as f64 / (self.ratios.len() + 1) as f64;
        let wide = student_tails(distance / WIDEST, self.freedom);
        resampled.min(wide).max(narrow).min(1.0)
    }

    fn at(&self, share: f64) -> Option<f64> {
        let index = (share * self.ratios.len() as f64).floor() as usize;
        self.ratios.get(index.min(self.ratios.len().saturating_sub(1))).copied()
    }
}

/// Which of many comparisons show a difference, from their [`p_value`](Estimate::p_value)s: of those that are
/// named, at most the share `rate` is named wrongly on average; if nothing differs at all, none is named in
/// `1 - rate` of all cases. (Benjamini and Hochberg, "Controlling the False Discovery Rate", 1995.)
///
/// ```
/// use duramen_measure::statistics::discoveries;
///
/// assert_eq!(discoveries(&[0.001, 0.04, 0.9], 0.05), [true, false, false]);
/// ```
#[must_use]
pub fn discoveries(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let share = |rank: usize| rate * (rank + 1) as f64 / sorted.len() as f64;
    let limit = sorted.iter().enumerate().rev().find(|(rank, p)| **p <= share(*rank)).map(|(_, p)| *p);
    p_values.iter().map(|p| limit.is_some_and(|limit| *p <= limit)).collect()
}

fn redraw(values: &[f64], resample: &mut [f64], rng: &mut fastrand::Rng) {
    for slot in resample {
        *slot = values[rng.usize(..values.len())];
    }
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

/// The degrees of freedom of a difference, rounded down (B. L. Welch, 1947).
fn welch(a: &[f64], b: &[f64]) -> Option<u32> {
    let (a_square, b_square) = (moments(a)?.1.powi(2), moments(b)?.1.powi(2));
    let sum = a_square.powi(2) / (a.len() - 1) as f64 + b_square.powi(2) / (b.len() - 1) as f64;
    let freedom = (a_square + b_square).powi(2) / sum;
    Some(if freedom.is_finite() { (freedom + 1e-9).floor().max(1.0) as u32 } else { 1 })
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

/// The probability of a value of Student's t at least so far from zero, on either side (Abramowitz and Stegun,
/// "Handbook of Mathematical Functions", 26.7.3 and 26.7.4).
fn student_tails(t: f64, freedom: u32) -> f64 {
    // Beyond a thousand it is the normal distribution for all that matters, and the sum below would grow long.
    let freedom = freedom.min(1_000);
    let angle = (t.abs() / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum, mut step) = if is_odd { (cosine, 0.0, 3) } else { (1.0, 0.0, 2) };
    while step <= freedom {
        sum += term;
        let (over, under) = (f64::from(step - 1), f64::from(step));
        term *= cosine * cosine * over / under;
        step += 2;
    }
    let within = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    // What is left of one after so many digits is not a probability any more.
    (1.0 - within).clamp(1e-15, 1.0)
}

/// The value of Student's t that is exceeded on either side with this probability in all.
fn student_quantile(tails: f64, freedom: u32) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if student_tails(middle.tan(), freedom) > tails {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.tan()
}
