//! How far blocks lie apart: what the A/A run of a segment says of it, and what a try's own blocks say.
//!
//! A few blocks know little of their own spread. The A/A run measured the same command in the same way, with the same
//! commit on both sides, so its blocks are counted as well. But a candidate may be noisier than its base, and a machine
//! changes: what a try shows itself is believed where it is more.

use super::effects::Row;
use duramen_measure::statistics::Estimate;

/// Below this a spread is an error of rounding.
const NOTHING: f64 = 1e-18;

/// With one degree of freedom, so many times the variance of the A/A run (and one more) is no chance any more; with more
/// of them less, by the root of their number.
const APART: f64 = 4.0;

/// The least share of what its runs make of it that the variance of a block is believed to be, where a try is noisier than
/// the A/A run. Drift, which a block cancels, is in the one and not in the other.
const LEAST_SHARE: f64 = 0.25;

/// What is known of the variance of one block from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Of the values of blocks.
    between: f64,
    /// Its degrees of freedom.
    freedom: f64,
    /// What runs of the same side make of it.
    within: f64,
}

impl Spread {
    /// From the blocks of an A/A run. `None` from fewer than two.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let between = variance(&row.values)?;
        Some(Self { between, freedom: row.values.len() as f64 - 1.0, within: mean(&row.within) })
    }

    /// From pairs of runs of the A/A run.
    pub(super) fn of_pairs(values: &[f64]) -> Option<Self> {
        let between = variance(values)?;
        Some(Self { between, freedom: values.len() as f64 - 1.0, within: 0.0 })
    }

    /// That of one of several scales, on average: for a scale of which nothing is known.
    pub(super) fn average(all: &[Self]) -> Option<Self> {
        let count = all.len() as f64;
        let first = all.first()?;
        let of = |figure: fn(&Self) -> f64| all.iter().map(figure).sum::<f64>() / count;
        Some(Self { between: of(|it| it.between), within: of(|it| it.within), ..*first })
    }

    /// That of a sum of two that are independent of each other.
    pub(super) fn plus(self, other: Self, factor: f64) -> Self {
        Self {
            between: self.between + factor * other.between,
            freedom: self.freedom.min(other.freedom),
            within: self.within + factor * other.within,
        }
    }
}

/// The variance of one block, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Variance {
    pub(super) of_block: f64,
    pub(super) freedom: u32,
}

impl Variance {
    /// Of blocks with these values: theirs together with what is known, or theirs alone where it is more than can be
    /// chance. `None` where a single block is all that there is.
    pub(super) fn new(known: Option<&Spread>, row: &Row) -> Option<Self> {
        let own = variance(&row.values);
        let own_freedom = row.values.len().checked_sub(1)? as f64;
        let Some(known) = known else {
            return Some(Self { of_block: own?, freedom: whole(own_freedom) });
        };
        let within = mean(&row.within);
        let runs = (2 * row.values.len() * row.scales.max(1)) as f64;
        let is_noisier = is_apart(within, known.within, runs)
            || own.is_some_and(|own| is_apart(own, known.between, own_freedom));
        let sum = known.between * known.freedom + own.unwrap_or(0.0) * own_freedom;
        let pooled = sum / (known.freedom + own_freedom);
        let most = own.unwrap_or(0.0).max(pooled);
        if !is_noisier {
            return Some(Self { of_block: most, freedom: whole(known.freedom + own_freedom) });
        }
        // In the measure of the A/A run, where it has one. Blocks that agree much better than their runs do so by chance.
        let share =
            if known.within > NOTHING { (known.between / known.within).max(LEAST_SHARE) } else { 1.0 };
        let said = within * share;
        Some(Self { of_block: most.max(said), freedom: whole(own_freedom.max(2.0)) })
    }

    /// As it is known from elsewhere.
    pub(super) fn of_known(known: &Spread) -> Self {
        Self { of_block: known.between, freedom: whole(known.freedom) }
    }

    /// The same when so many blocks are there: more will be known of it then.
    pub(super) fn after(&self, blocks: u32) -> Self {
        Self { freedom: self.freedom.max(blocks.saturating_sub(1)), ..*self }
    }

    /// What is known of the mean of so many blocks.
    pub(super) fn of_mean(&self, centre: f64, blocks: f64) -> Option<Estimate> {
        let error = if self.is_nothing() { 0.0 } else { (self.of_block / blocks).sqrt() };
        Estimate::of_known(centre, error, self.freedom)
    }

    /// Whether nothing varies.
    pub(super) fn is_nothing(&self) -> bool {
        self.of_block <= NOTHING
    }

    /// How many standard deviations of a block are exceeded, on either side, with this probability.
    pub(super) fn quantile(&self, tails: f64) -> f64 {
        Estimate::of_known(0.0, 1.0, self.freedom).map_or(f64::INFINITY, |one| one.interval(1.0 - tails).high)
    }

    pub(super) fn deviation(&self) -> f64 {
        self.of_block.sqrt()
    }
}

/// Whether a variance is more than chance makes of another one.
fn is_apart(own: f64, known: f64, freedom: f64) -> bool {
    own > NOTHING && freedom > 0.0 && own > known * (1.0 + APART / freedom.sqrt())
}

fn whole(freedom: f64) -> u32 {
    freedom.max(1.0) as u32
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len().max(1)) as f64
}

fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some(squares / (values.len() as f64 - 1.0))
}
