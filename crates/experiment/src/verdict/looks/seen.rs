//! A figure as a look sees it.

use super::super::effects::{least_p_value, Compared, Row};
use super::super::spread::{mean, Spread, Variance};
use crate::event::Sample;
use crate::spec::Direction;
use duramen_measure::statistics::Estimate;

/// An effect with what is known of its error.
pub(super) struct Seen {
    pub(super) compared: Compared,
    pub(super) variance: Variance,
    /// The mean of the blocks, as their values are: see [`Row::values`].
    pub(super) centre: f64,
    estimate: Estimate,
}

impl Seen {
    /// The ends of the interval of this confidence, as shares.
    pub(super) fn interval(&self, confidence: f64) -> (f64, f64) {
        let interval = self.estimate.interval(confidence);
        (self.share(interval.low), self.share(interval.high))
    }

    /// A value as a share.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.compared.is_ratio {
            value.exp_m1()
        } else {
            value
        }
    }

    /// A share as a value. What cannot get that much better has no such value.
    pub(super) fn value(&self, share: f64) -> f64 {
        if self.compared.is_ratio {
            share.ln_1p()
        } else {
            share
        }
    }

    /// A gain as a value greater than zero.
    pub(super) fn gain(&self, share: f64) -> f64 {
        -self.value(-share.min(0.999))
    }
}

/// What figures are looked up in.
pub(super) struct See<'a> {
    /// Of the A/A run.
    pub(super) known: &'a [Sample],
    pub(super) samples: &'a [Sample],
    pub(super) deciding: &'a [&'a str],
}

impl See<'_> {
    /// A figure at each of these scales.
    pub(super) fn at_each(&self, metric: &str, direction: Direction, scales: &[&str]) -> Vec<Seen> {
        let at = |name: &&str| {
            let mut seen = self.over(metric, direction, &[name])?;
            seen.compared.scale = Some((*name).to_owned());
            Some(seen)
        };
        scales.iter().filter_map(at).collect()
    }

    /// A figure over all of these scales.
    pub(super) fn over(&self, metric: &str, direction: Direction, scales: &[&str]) -> Option<Seen> {
        let row = Row::new(self.samples, metric, direction, scales);
        let spread = self.spread(metric, direction, scales);
        seen(metric, direction, &row, spread.as_ref())
    }

    /// What the A/A run says of a figure over these scales. It does not run held-out ones: what it says of the others is
    /// believed of them too, as long as they show no more themselves.
    pub(super) fn spread(&self, metric: &str, direction: Direction, scales: &[&str]) -> Option<Spread> {
        let of = |scales: &[&str]| Spread::of(&Row::new(self.known, metric, direction, scales));
        of(scales).or_else(|| {
            let each: Vec<Spread> = self.deciding.iter().filter_map(|scale| of(&[scale])).collect();
            Spread::average(&each)
        })
    }
}

/// `None` where nothing is known of the error, or there are no blocks.
pub(super) fn seen(metric: &str, direction: Direction, row: &Row, spread: Option<&Spread>) -> Option<Seen> {
    let variance = Variance::new(spread, row)?;
    let centre = mean(&row.values);
    let estimate = variance.of_mean(centre, f64::from(row.count()))?;
    let p_value = match variance.is_nothing() {
        true if centre == 0.0 => 1.0,
        true => least_p_value(row.count()),
        false => estimate.p_value(),
    };
    let effect = row.effect(&estimate, p_value);
    let compared =
        Compared { metric: metric.to_owned(), scale: None, direction, effect, is_ratio: row.is_ratio };
    Some(Seen { compared, variance, centre, estimate })
}
