//! The bars: what the suite itself must reach, so that what it tells of others can be believed. Set before measuring.

use duramen_measure::evidence::{Evidence, Finding, Measurement, Severity};

use crate::rules::finding;

pub use crate::branches::bars::{number, Outcome};

/// How far a stall may be from the blocker's true length, in seconds.
pub const STALL_ERROR_S: f64 = 0.2;
/// How far a response under a known delay may be from what it can be, in milliseconds: from the delay alone to the delay
/// and a commit's time without it.
pub const CALIBRATION_ERROR_MS: f64 = 5.0;
/// From the command to a synchronous pair, in seconds.
pub const PAIR_READY_S: f64 = 8.0;

/// Which number of a measurement is held against its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The median.
    P50,
    /// The value that is farthest from zero, without its sign.
    Farthest,
}

/// What a figure must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// What it is about, in words.
    pub what: &'static str,
    /// The measurement.
    pub name: &'static str,
    /// Which number of it.
    pub figure: Figure,
    /// What it must not exceed.
    pub limit: f64,
    /// Its unit.
    pub unit: &'static str,
}

const fn bar(what: &'static str, name: &'static str, figure: Figure, limit: f64, unit: &'static str) -> Bar {
    Bar { what, name, figure, limit, unit }
}

/// All bars.
pub const BARS: &[Bar] = &[
    bar("from the command to a synchronous pair", "pair_ready_s", Figure::P50, PAIR_READY_S, "s"),
    bar("S2: stall against the blocker's length", "stall_error_s/S2", Figure::Farthest, STALL_ERROR_S, "s"),
    bar("S7: stall against the blocker's length", "stall_error_s/S7", Figure::Farthest, STALL_ERROR_S, "s"),
    bar("S8: stall against the blocker's length", "stall_error_s/S8", Figure::Farthest, STALL_ERROR_S, "s"),
    bar("S2: stall at remote_write", "stall_s/S2/remote_write", Figure::Farthest, 0.0, "s"),
    bar("S7: stall at remote_write", "stall_s/S7/remote_write", Figure::Farthest, 0.0, "s"),
    bar("S8: stall at remote_write", "stall_s/S8/remote_write", Figure::Farthest, 0.0, "s"),
    bar("S2: other gap at remote_write", "noise_s/S2/remote_write", Figure::Farthest, 0.0, "s"),
    bar("S7: other gap at remote_write", "noise_s/S7/remote_write", Figure::Farthest, 0.0, "s"),
    bar("S8: other gap at remote_write", "noise_s/S8/remote_write", Figure::Farthest, 0.0, "s"),
    bar(
        "S18: response against the delay that was set",
        "calibration_error_ms",
        Figure::Farthest,
        CALIBRATION_ERROR_MS,
        "ms",
    ),
];

/// A bar with the figure that is held against it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The bar.
    pub bar: Bar,
    /// The figure.
    pub measured: f64,
    /// How it stands.
    pub outcome: Outcome,
}

impl Row {
    /// The cells of a table: what, measured, bar, outcome.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let Bar { what, limit, unit, .. } = self.bar;
        let measured = format!("{} {unit}", number(self.measured));
        vec![
            what.to_owned(),
            measured,
            format!("<= {} {unit}", number(limit)),
            self.outcome.word().to_owned(),
        ]
    }

    /// A missed bar in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Bar { what, limit, unit, .. } = self.bar;
        format!("{what}: {} {unit}, above the bar of {} {unit}.", number(self.measured), number(limit))
    }
}

/// Holds a run against every bar that it has a figure for, in the order of [`BARS`].
#[must_use]
pub fn compare(evidence: &Evidence) -> Vec<Row> {
    let row = |bar: &Bar| {
        let figure = evidence.measurement(bar.name).filter(|figure| figure.count > 0)?;
        let Measurement { p50, min, max, .. } = *figure;
        let measured = match bar.figure {
            Figure::P50 => p50,
            Figure::Farthest => f64::max(min.abs(), max.abs()),
        };
        let outcome = if measured <= bar.limit { Outcome::Met } else { Outcome::Missed };
        Some(Row { bar: *bar, measured, outcome })
    };
    BARS.iter().filter_map(row).collect()
}

/// A finding for every bar that was missed.
#[must_use]
pub fn missed(evidence: &Evidence) -> Vec<Finding> {
    let rows = compare(evidence).into_iter().filter(|row| row.outcome == Outcome::Missed);
    rows.map(|row| finding("bar_missed", Severity::Warning, Some(row.measured), row.sentence())).collect()
}
