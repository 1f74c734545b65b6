//! How sure a difference between two variants is of which there are a few runs each, and some blocks within each run.
//!
//! Blocks of a run share the machine's state, so a run is a cluster: it gives one value, the median of its blocks, and
//! the blocks say how far that is off at least. What differs from run to run is estimated from the runs of both sides
//! together ([`RunEstimate::of_runs`]): with three runs a side there are four degrees of freedom, and not the two or three of
//! each side alone.
//!
//! ```text
//! s2 = max( pooled variance of the values of the runs, mean variance of a run's median by its blocks )
//! m2 = max( s2, (f s2 + 4 d2) / (f + 4) )          f degrees of freedom, d the deviation that is assumed of runs
//! half of the interval at 1 - r = sqrt(1/n + 1/m) min( t(f, 0.8 r) s, t(f + 4, 0.2 r) m )
//! ```
//!
//! The second way is the pooled deviation moderated by one that is assumed, as if four earlier runs had shown it. It never
//! takes a deviation for less than was seen. It matters at small `r`, where t of four degrees of freedom reaches so far that
//! three times as much is not told to differ; that four runs happen to agree is what it does not trust. Both ways have
//! their share of the risk, so together they are within it.
//!
//! Of one run a side nothing is known of other runs: the deviation that is assumed is all there is, and it is in the
//! interval.

use super::{student_quantile, student_tails, Interval};

/// How many earlier runs the assumed deviation counts as.
const PRIOR_FREEDOM: u32 = 4;
/// The share of the risk that the interval of the runs alone has.
const OWN_SHARE: f64 = 0.8;
/// The variance of a median over that of a mean, of many normal values.
const MEDIAN_FACTOR: f64 = std::f64::consts::FRAC_PI_2;

/// What a run says of a figure: the median of its blocks, and how far off that may be by what differs between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue {
    /// The median of the blocks.
    pub value: f64,
    /// The variance of the median by what differs between the blocks; zero for a single block.
    pub variance: f64,
    /// Of how many blocks.
    pub blocks: usize,
}

impl RunValue {
    /// The value of a run by its blocks. `None` without blocks, or with one that is not finite.
    ///
    /// ```
    /// use duramen_measure::statistics::RunValue;
    ///
    /// let run = RunValue::of_blocks(&[4.0, 5.0, 9.0]).expect("blocks");
    /// assert_eq!((run.value, run.blocks), (5.0, 3));
    /// ```
    #[must_use]
    pub fn of_blocks(blocks: &[f64]) -> Option<Self> {
        let value = median(blocks)?;
        let count = blocks.len() as f64;
        let mean = blocks.iter().sum::<f64>() / count;
        let squares: f64 = blocks.iter().map(|block| (block - mean).powi(2)).sum();
        let variance = match blocks.len() {
            1 => 0.0,
            2 => squares / 2.0,
            _ => MEDIAN_FACTOR * squares / (count - 1.0) / count,
        };
        Some(Self { value, variance, blocks: blocks.len() })
    }
}

/// The middle of some values. `None` without values, or with one that is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    })
}

/// A standard error with its degrees of freedom, and the share of the risk that its interval has.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    error: f64,
    freedom: u32,
    share: f64,
}

impl Way {
    fn half(&self, risk: f64) -> f64 {
        student_quantile((risk * self.share).clamp(1e-14, 1.0), self.freedom) * self.error
    }

    fn p_value(&self, centre: f64) -> f64 {
        if self.error == 0.0 {
            return if centre == 0.0 { 1.0 } else { 0.0 };
        }
        student_tails(centre / self.error, self.freedom) / self.share
    }
}

/// The difference of two variants by their runs: see the head of this module.
///
/// ```
/// use duramen_measure::statistics::{RunEstimate, RunValue};
///
/// let runs = |ms: [f64; 3]| ms.map(|ms| RunValue::of_blocks(&[f64::ln(ms)]).expect("finite"));
/// let (a, b) = (runs([6.0, 6.2, 6.5]), runs([17.0, 18.1, 19.2]));
/// let slower = RunEstimate::of_runs(&a, &b, 0.15).expect("three runs a side");
/// assert!(slower.p_value() < 0.001 && slower.interval(0.99).low > f64::ln(2.0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RunEstimate {
    centre: f64,
    ways: Vec<Way>,
}

impl RunEstimate {
    /// The difference `mean(b) - mean(a)` of the values of runs, where runs of the same thing are assumed to deviate by
    /// `assumed` (a standard deviation) as long as they do not show otherwise; zero assumes nothing. `None` if a side has no
    /// run, and for one run each unless both have two blocks at least.
    #[must_use]
    pub fn of_runs(a: &[RunValue], b: &[RunValue], assumed: f64) -> Option<Self> {
        let (n, m) = (a.len() as f64, b.len() as f64);
        if a.is_empty() || b.is_empty() || !assumed.is_finite() {
            return None;
        }
        let mean = |side: &[RunValue]| side.iter().map(|run| run.value).sum::<f64>() / side.len() as f64;
        let centre = mean(b) - mean(a);
        let freedom = u32::try_from(a.len() + b.len() - 2).unwrap_or(u32::MAX);
        let ways = if freedom == 0 {
            vec![of_one_run(&a[0], &b[0], assumed)?]
        } else {
            let squares = |side: &[RunValue]| -> f64 {
                let mean = mean(side);
                side.iter().map(|run| (run.value - mean).powi(2)).sum()
            };
            let between = (squares(a) + squares(b)) / f64::from(freedom);
            let within = a.iter().chain(b).map(|run| run.variance).sum::<f64>() / (n + m);
            let own = between.max(within);
            let (of_own, of_prior) = (f64::from(freedom), f64::from(PRIOR_FREEDOM));
            let mixed = (of_own * own + of_prior * assumed.powi(2)) / (of_own + of_prior);
            let spread = 1.0 / n + 1.0 / m;
            let way =
                |variance: f64, freedom, share| Way { error: (variance * spread).sqrt(), freedom, share };
            if assumed > 0.0 {
                let moderated = way(mixed.max(own), freedom.saturating_add(PRIOR_FREEDOM), 1.0 - OWN_SHARE);
                vec![way(own, freedom, OWN_SHARE), moderated]
            } else {
                vec![way(own, freedom, 1.0)]
            }
        };
        let is_finite = centre.is_finite() && ways.iter().all(|way| way.error.is_finite());
        is_finite.then_some(Self { centre, ways })
    }

    /// How probable a difference this far from zero would be if nothing differed: the least `1 - confidence` at which the
    /// interval excludes zero.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        self.ways.iter().map(|way| way.p_value(self.centre)).fold(1.0, f64::min)
    }

    /// The interval that holds the true difference with this confidence (0.95 for 95 %).
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Interval {
        let risk = 1.0 - confidence;
        let half = self.ways.iter().map(|way| way.half(risk)).reduce(f64::min).unwrap_or(0.0);
        Interval { estimate: self.centre, low: self.centre - half, high: self.centre + half }
    }

    /// How large a true difference must be to be told at this confidence in the share `power` of such comparisons, as far as the
    /// deviation is what was seen.
    #[must_use]
    pub fn detectable(&self, confidence: f64, power: f64) -> f64 {
        // That no spread was seen does not mean that anything would have been told.
        let halves =
            self.ways.iter().filter(|way| way.error > 0.0).map(|way| (*way, way.half(1.0 - confidence)));
        let Some((way, half)) = halves.min_by(|(_, a), (_, b)| a.total_cmp(b)) else { return 0.0 };
        half + student_quantile((2.0 * (1.0 - power)).clamp(1e-14, 1.0), way.freedom) * way.error
    }
}

/// The way of one run a side: what differs within them, and what is assumed to differ from run to run. (The degrees of
/// freedom are those of F. E. Satterthwaite, 1946.)
fn of_one_run(a: &RunValue, b: &RunValue, assumed: f64) -> Option<Way> {
    if a.blocks < 2 || b.blocks < 2 {
        return None;
    }
    let variance = a.variance + b.variance + 2.0 * assumed.powi(2);
    let part = |run: &RunValue| run.variance.powi(2) / (run.blocks - 1) as f64;
    let freedom = variance.powi(2) / (part(a) + part(b));
    let freedom = if freedom.is_finite() { freedom.clamp(1.0, 1_000.0).floor() as u32 } else { 1_000 };
    Some(Way { error: variance.sqrt(), freedom, share: 1.0 })
}
