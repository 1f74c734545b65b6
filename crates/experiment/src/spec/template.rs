//! The spec that `init` writes.

use super::{guarded, Budget, Check, Direction, Found, Measure, Primary, Spec, Stop, OFF_LIMITS};
use toml::Value;

impl Spec {
    /// The text of a spec with every setting in it: what has a default has it written down, what is optional
    /// stands behind a `#`. If `command` has `{scale}` in it, there are scales to begin with.
    ///
    /// It parses if the name, the command and the metric are such as a spec may have.
    pub fn template(name: &str, command: &str, metric: &str, direction: Direction) -> String {
        Self::template_of(name, &Found::command(command), metric, direction)
    }

    /// The same of a benchmark, with what builds it and checks it.
    pub fn template_of(name: &str, found: &Found, metric: &str, direction: Direction) -> String {
        let command = found.command.as_str();
        let sign = |is_said: bool| if is_said { "" } else { "#" };
        let or = |said: &Option<String>, example: &str| quoted(said.as_deref().unwrap_or(example));
        let (budget, stop) = (Budget::default(), Stop::default());
        let scales = if command.contains("{scale}") { "" } else { "#" };
        let reader = found.reader.as_str();
        format!(
            r##"# What `duramen lab experiment` measures, what a try may change, and when it stops.
#
# Where a `#` stands right before a setting, the setting is an example: take the `#` away to use it.
# A change of this file is used by the next `duramen lab experiment baseline`, which begins a new segment.

# Letters, digits, `-` and `_`. Refs of kept tries are named after it.
name = {name}

[measure]
# Run by `sh -c` at the root of a worktree, once for each commit, before it is measured.
{build_sign}build = {build}
# Run by `sh -c` at the root of the same worktree; prints the figures. `{{scale}}` stands for the value of a
# scale, which is in the environment as SCALE too.
command = {command}
# How figures are read:
#   metric     lines `METRIC name=value`
#   criterion  what criterion prints: the estimate in seconds under the benchmark's name
#   go         what `go test -bench` prints: `NAME/UNIT`, such as `BenchmarkWrite/ns/op`
#   pytest_benchmark  the document of `--benchmark-json`: `NAME/mean`, or just `mean` for one benchmark; in seconds
#   hyperfine  the document of `--export-json`: `COMMAND/mean`, or just `mean` for one command; in seconds
#   evidence   a document of the schema duramen.evidence/1: the means under their names, `NAME/p99` and so on
# Beside them there are `wall_s` and `cpu_s` of the whole command. A figure has one value in a run, or the run is
# invalid; only with `go test -count N` in the command they are averaged.
reader = "{reader}"
# Read the figures from this file of the worktree, and not from what is printed.
{file_sign}file = {file}
# Each run on a fresh branch of this source, which it finds in its environment (DATABASE_URL, PGHOST, ...): all runs of a
# segment begin with the same data, and the sides must change as many rows of the same tables.
#database = "source:app"
# What it may do there: read-only, read-write or ddl.
#policy = "read-write"
# Globs of files of the worktree that a run may change: else a run that changes what was there after the build is
# invalid. Runs may add files; in the folder of the other side they may do nothing.
scratch = []
# Runs have no network, unless it is said here; builds and checks have it.
network = false
# Folders outside of the worktree that builds may write to, such as caches of what they download. All else is read-only,
# but for an empty /tmp and home.
build_writes = []
# What a run computes, which must be the same on both sides, so that work that is skipped does not win: all that it prints
# but its figures ("stdout"), files that it writes (["out.txt"]), or what a command prints after it.
#equal = "stdout"
# The command runs for a given time, whatever it does, such as ten seconds of requests. Else a figure in seconds (`_s`,
# `_ms`, `_us`, `_ns`) that is most of a run's time must show in the time that we take of it.
fixed_time = false
# Runs of base and candidate alternate in quads: ABBA or BAAB, drawn at random; four runs a quad and scale. A try is
# judged after each, and takes so many at most.
quads = {quads}
# Of the run that finds the noise floor. A slow benchmark may do with fewer; then each try needs more.
#noise_quads = 8
# Runs of each side before the first quad, which are thrown away.
warmups = {warmups}
# Pin the command to one CPU.
pin = false
# A run, and a build, that takes longer has failed.
timeout_s = {timeout:?}
build_timeout_s = {build_timeout:?}

# The figure that decides.
[primary]
metric = {metric}
direction = "{direction}"
# Its unit, for those who read; else what its name ends in.
#unit = "ms"
# What is less than this is not worth keeping.
min_effect_percent = {min_effect:?}
# No scale may get worse by more.
max_regression_percent = {max_regression:?}
# Gains of this size are looked for: a try without any sign of one ends early. Less finds smaller gains, and takes longer.
aim_percent = {aim:?}
# What is held out must have this share of the gain at the other scales, or the try is suspicious. With 0 it need not gain.
held_out_share = {held_out_share:?}

# Figures that may not get worse by more than some percent. They must be printed by every run.
#[[secondary]]
#metric = "cpu_s"
#direction = "lower"
#max_regression_percent = 5.0

# Figures that no change should move, such as the time of something that is not worked on: if one moves, the
# machine or the benchmark has changed, and not the program. A quad in which two runs of the same commit
# differ by more than the tolerance is taken again. They must be printed by every run.
#[[sentinel]]
#metric = "sentinel_ms"
#direction = "lower"
#tolerance_percent = 5.0

# The sizes and workloads to run at. What is held out is run only before a try is kept, so that nothing is fitted to it.
# `draw` draws its value anew each time, whole numbers from a range or one of a list: nobody can know it before. In its
# place, `values = "~/held-out/sizes"` names a file outside of the repository with a value a line.
{scales}[[scale]]
{scales}name = "small"
{scales}value = "1000"
{scales}[[scale]]
{scales}name = "large"
{scales}value = "100000"
{scales}[[scale]]
{scales}name = "held-out"
{scales}draw = "10000..40000"
{scales}held_out = true

# What must hold of the figures of every run, or it counts for nothing. An operand is a figure (in backquotes
# if there are spaces in its name), `scale` (the value of the scale) or a number.
#[[invariant]]
#holds = "rows == scale"

# Commands that must succeed in the candidate's worktree before a try is kept.
{check_sign}[[check]]
{check_sign}name = "tests"
{check_sign}command = {check}
{check_sign}timeout_s = {check_timeout:?}

# Which files a try may change, as globs from the root of the repository: `*` stays within a folder, `**` does
# not, and `src` is a folder with all that is in it. This file and its folder are always off limits.
[scope]
# Nothing here: every file that is not off limits.
allow = []
# What measures and checks, and what decides how it is built: a try that changes it is no faster program. Take away
# what a try may change here; add what else the benchmark reads.
off_limits = [
{off_limits}]

[budget]
# Tries of a segment. The more there may be, the more sure each has to be: each is judged at 0.05 / tries.
tries = {tries}
# Of an autonomous run: no try begins that would probably not end in it. Such as 16h, 90m, 2d.
time = "{time}"
# Of one call of the proposer.
proposer_timeout_s = {proposer_timeout:?}

# When an autonomous run ends early.
[stop]
# So many tries in a row without a keep.
plateau = {plateau}
# So many crashes, failed checks or invalid tries in a row for the same reason.
same_failure = {same_failure}
# The noise floor is found anew after so many keeps.
rebaseline_keeps = {rebaseline_keeps}

# Who proposes changes in `duramen lab experiment run`: a command, or a coding agent that `duramen lab experiment agents`
# lists. It sees a copy of the head, and neither what is held out nor the rest of your home. What is below this line may be
# changed at any time.
[proposer]
#agent = "claude"
# Or a command, `command = "./propose.sh"`, which gets JSON on its standard input.
# Further arguments of the agent.
arguments = []
# Variables of your environment that it gets, besides those that the list of agents names.
env = []
# Files and folders that it sees, and that it may write to, besides its worktree.
reads = []
writes = []
network = true

# Where the time goes, for whoever proposes: what this prints of each base, in a clean folder, at the first scale.
#[profile]
#command = "perf record -q -g -o perf.data ./bench.sh {{scale}} >/dev/null && perf report -i perf.data --stdio | head -60"
#timeout_s = 300.0
"##,
            name = quoted(name),
            command = quoted(command),
            metric = quoted(metric),
            direction = direction.as_str(),
            quads = Measure::quads(),
            warmups = Measure::warmups(),
            timeout = Measure::timeout_s(),
            build_timeout = Measure::build_timeout_s(),
            min_effect = Primary::min_effect_percent(),
            max_regression = Primary::max_regression_percent(),
            aim = Primary::aim_percent(),
            held_out_share = Primary::held_out_share(),
            check_timeout = Check::timeout_s(),
            build_sign = sign(found.build.is_some()),
            build = or(&found.build, "make"),
            file_sign = sign(found.file.is_some()),
            file = or(&found.file, "figures.json"),
            check_sign = sign(found.check.is_some()),
            check = or(&found.check, "make test"),
            off_limits = off_limits(found),
            tries = budget.tries,
            time = budget.time,
            proposer_timeout = budget.proposer_timeout_s,
            plateau = stop.plateau,
            same_failure = stop.same_failure,
            rebaseline_keeps = stop.rebaseline_keeps,
        )
    }
}

/// The default of a spec with this command, a line each.
fn off_limits(found: &Found) -> String {
    let (mut lines, mut last) = (String::new(), "");
    let mut scripts = guarded::of_command(&found.command);
    let others = found.build.iter().chain(&found.check).flat_map(|command| guarded::of_command(command));
    for script in others.chain(found.protects.iter().cloned()) {
        if !scripts.contains(&script) {
            scripts.push(script);
        }
    }
    let scripts = scripts.iter().map(|script| ("what the command runs", script.as_str()));
    for (what_for, glob) in OFF_LIMITS.into_iter().chain(scripts) {
        if !what_for.is_empty() && what_for != last {
            lines.push_str(&format!("    # {what_for}\n"));
            last = what_for;
        }
        lines.push_str(&format!("    {},\n", quoted(glob)));
    }
    lines
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
