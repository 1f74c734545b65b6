//! The targets, set before measuring.

use duramen_measure::evidence::Evidence;
use duramen_measure::target::{self, Standing};

type Target = target::Target<(&'static str, fn(&duramen_measure::evidence::Measurement) -> f64)>;

const TARGETS: &[Target] = &[
    Target::most("a child of a busy branch, first answer, p95", ("fresh_ms", |it| it.p95), 150.0, "ms")
        .beside(1_350.0),
    Target::most(
        "longest time without a commit in the parent, p95",
        ("parent_gap_ms", |it| it.p95),
        50.0,
        "ms",
    ),
    Target::most("spine: last quarter as a multiple of the first", ("spine_ratio", |it| it.p50), 1.5, "x"),
    Target::most("bushy: last quarter as a multiple of the first", ("bushy_ratio", |it| it.p50), 1.5, "x"),
    Target::most(
        "fan-out: last quarter as a multiple of the first",
        ("fan_out_ratio", |it| it.p50),
        1.5,
        "x",
    ),
    Target::most(
        "bytes of a branch as a multiple of what it changed",
        ("spine_bytes_ratio", |it| it.p50),
        2.0,
        "x",
    ),
];

/// The targets of which there are figures.
pub(crate) fn standings(evidence: &Evidence) -> Vec<Standing> {
    let standing = |target: &Target| {
        let (name, value) = target.figure;
        let figure = evidence.measurement(name).filter(|figure| figure.count > 0)?;
        Some(Standing { name: name.to_owned(), ..target.hold(value(figure)) })
    };
    TARGETS.iter().filter_map(standing).collect()
}
