//! `init` and `baseline`.

use super::handle::Handle;
use crate::{context::Outcome, output};
use clap::{Args, ValueEnum};
use duramen_experiment::{
    series::{Baseline, First, Series},
    spec::Direction,
};
use serde_json::json;
use std::{fmt::Write as _, process::ExitCode};

pub(super) const INIT_EXAMPLES: &str = "\
Examples:
  duramen lab experiment init parser --command './bench.sh {scale}' --metric parse_ms
  duramen lab experiment init rows --metric BenchmarkRows/ns/op
  duramen lab experiment init throughput --command './load' --metric ops_per_s --direction higher --series perf

The command runs with `sh -c` in a worktree and prints its figures as lines `METRIC name=value`; the spec says how to
read those of criterion, go, pytest-benchmark, hyperfine and evidence documents. Without --command it is the target
`bench` of the Makefile, the benchmarks of cargo, Go or pytest-benchmark, or the script `bench` of package.json.";
pub(super) const BASELINE_EXAMPLES: &str = "\
Examples:
  duramen lab experiment baseline
  duramen lab experiment baseline --json

The commit that is checked out becomes the start of a new segment, with the spec as it is now. Everything must be
committed. It is measured against itself: the difference between runs of the same commit is the noise floor.";

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The name of the series: letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
    /// What is measured; `{scale}` is replaced by the value of a scale [default: the benchmark of the repository]
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// The figure that decides
    #[arg(long, value_name = "FIGURE")]
    metric: String,
    /// Which way it is better
    #[arg(long, value_enum, default_value = "lower")]
    direction: DirectionName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionName {
    /// Less is better, as with times
    Lower,
    /// More is better, as with throughput
    Higher,
}

pub(super) fn init(handle: &Handle<'_>, init: &Init) -> Outcome {
    let direction = match init.direction {
        DirectionName::Lower => Direction::Lower,
        DirectionName::Higher => Direction::Higher,
    };
    let Init { name, command, metric, .. } = init;
    Series::init(&handle.folder, &First { name, command: command.as_deref(), metric, direction })?;
    let spec = handle.spec();
    handle.report(&json!({ "series": name, "spec": spec }), || {
        format!("series {name}: edit {}, commit what is to be measured, then run `baseline`", spec.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn baseline(handle: &Handle<'_>) -> Outcome {
    let baseline = handle.work("measuring the start", |series| series.baseline())?;
    handle.report(&baseline, || in_words(&baseline))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn in_words(baseline: &Baseline) -> String {
    let Baseline { segment, start, floor, scales, figures, tries, .. } = baseline;
    let mut text = format!("segment {segment} begins with {start}; it has {tries} tries\n");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let each: Vec<String> =
        scales.iter().map(|(name, floor)| format!("{name} {}", percent(*floor))).collect();
    let each = if each.len() > 1 { format!(" ({})", each.join(", ")) } else { String::new() };
    writeln!(text, "noise floor {}{each}", percent(*floor)).ok();
    let rows = figures.iter().flat_map(|(scale, metrics)| {
        metrics.iter().map(move |(name, value)| [scale.clone(), name.clone(), format!("{value:.6}")])
    });
    text.push_str(&output::table(["SCALE", "FIGURE", "MEAN"], rows));
    text
}
