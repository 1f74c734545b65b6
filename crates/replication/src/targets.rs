//! The targets: what the suite itself must reach, so that what it tells of others can be believed. Set before measuring.

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{self, Standing};

/// How far a stall may be from the blocker's true length, in seconds.
pub const STALL_ERROR_S: f64 = 0.2;
/// How far a response under a known delay may be from what it can be, in milliseconds: from the delay alone to the delay
/// and a commit's time without it.
pub const CALIBRATION_ERROR_MS: f64 = 5.0;
/// From the command to a synchronous pair, in seconds.
pub const PAIR_READY_S: f64 = 8.0;

/// Which number of a measurement is held against its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// The median.
    P50,
    /// The value that is farthest from zero, without its sign.
    Farthest,
}

/// Where the figure of a target is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The measurement.
    pub name: &'static str,
    /// Which number of it.
    pub number: Number,
}

type Target = target::Target<Figure>;

const fn target(
    what: &'static str,
    name: &'static str,
    number: Number,
    limit: f64,
    unit: &'static str,
) -> Target {
    Target::most(what, Figure { name, number }, limit, unit)
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("from the command to a synchronous pair", "pair_ready_s", Number::P50, PAIR_READY_S, "s"),
    target(
        "S2: stall against the blocker's length",
        "stall_error_s/S2",
        Number::Farthest,
        STALL_ERROR_S,
        "s",
    ),
    target(
        "S7: stall against the blocker's length",
        "stall_error_s/S7",
        Number::Farthest,
        STALL_ERROR_S,
        "s",
    ),
    target(
        "S8: stall against the blocker's length",
        "stall_error_s/S8",
        Number::Farthest,
        STALL_ERROR_S,
        "s",
    ),
    target("S2: stall at remote_write", "stall_s/S2/remote_write", Number::Farthest, 0.0, "s"),
    target("S7: stall at remote_write", "stall_s/S7/remote_write", Number::Farthest, 0.0, "s"),
    target("S8: stall at remote_write", "stall_s/S8/remote_write", Number::Farthest, 0.0, "s"),
    target("S2: other gap at remote_write", "noise_s/S2/remote_write", Number::Farthest, 0.0, "s"),
    target("S7: other gap at remote_write", "noise_s/S7/remote_write", Number::Farthest, 0.0, "s"),
    target("S8: other gap at remote_write", "noise_s/S8/remote_write", Number::Farthest, 0.0, "s"),
    target(
        "S18: response against the delay that was set",
        "calibration_error_ms",
        Number::Farthest,
        CALIBRATION_ERROR_MS,
        "ms",
    ),
];

/// Holds a run against every target that it has a figure for, in the order of [`TARGETS`].
#[must_use]
pub fn standings(evidence: &Evidence) -> Vec<Standing> {
    let standing = |target: &Target| {
        let Figure { name, number } = target.figure;
        let figure = evidence.measurement(name).filter(|figure| figure.count > 0)?;
        let Measurement { p50, min, max, .. } = *figure;
        let measured = match number {
            Number::P50 => p50,
            Number::Farthest => f64::max(min.abs(), max.abs()),
        };
        Some(Standing { name: name.to_owned(), ..target.hold(measured) })
    };
    TARGETS.iter().filter_map(standing).collect()
}
