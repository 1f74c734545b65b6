//! What a spec may say.
//!
//! No rule here becomes stricter: logs hold the specs of their segments, and are read for ever.

use super::read::{Source, Step};
use super::{Equal, Reader, Scale, Spec, SpecError};
use crate::agents::Agent;
use crate::database;
use crate::glob::{self, Use};
use crate::invariant::Condition;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use Step::{Entry, Key};

/// The longest name of a series, scale, check or figure, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 200;
/// The longest command, in bytes: what a system takes for one argument, with room for `{scale}`.
const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// The most scales, checks, invariants, secondaries, sentinels or globs of a list.
const ENTRIES_MAX: usize = 100;
/// The fewest blocks: one value has no interval.
const BLOCKS_MIN: u32 = 2;
/// The most blocks.
const BLOCKS_MAX: u32 = 1_000;
/// The fewest blocks of the run that finds the noise floor, where a spec gives their number.
const NOISE_BLOCKS_MIN: u32 = 4;
/// The most warm-up runs.
const WARMUPS_MAX: u32 = 100;
/// The longest time that a command may be given, in seconds: a week.
const TIMEOUT_S_MAX: f64 = 604_800.0;
/// The greatest percentage.
const PERCENT_MAX: f64 = 1_000.0;
/// The most tries of a segment.
const BUDGET_TRIES_MAX: u32 = 10_000;
/// The longest run, in hours: a year.
const BUDGET_HOURS_MAX: f64 = 8_760.0;

/// Checks what the types do not say.
pub(super) fn check(spec: &Spec, source: &Source<'_>) -> Result<(), SpecError> {
    let check = Checker { source };
    check.file_name(&[Key("name")], "the name of a series", &spec.name)?;
    measure(&check, spec)?;
    figures(&check, spec)?;
    scales(&check, spec)?;
    commands_that_must_succeed(&check, spec)?;
    invariants(&check, spec)?;
    for (table, key, what_for, globs) in [
        ("measure", "scratch", Use::Forbid, &spec.measure.scratch),
        ("scope", "allow", Use::Allow, &spec.scope.allow),
        ("scope", "off_limits", Use::Forbid, &spec.scope.off_limits),
    ] {
        check.entries(&[Key(table), Key(key)], globs.len())?;
        for (index, glob) in globs.iter().enumerate() {
            if let Err(why) = glob::compile(glob, what_for) {
                let message = format!("the glob `{glob}` is wrong: {why}");
                return Err(source.wrong(&[Key(table), Key(key), Entry(index)], &message));
            }
        }
    }
    let budget = |key| [Key("budget"), Key(key)];
    check.count(&budget("tries"), spec.budget.tries, 1, BUDGET_TRIES_MAX)?;
    if let Some(hours) = spec.budget.hours {
        check.time(&budget("hours"), "hours", hours, BUDGET_HOURS_MAX)?;
    }
    check.seconds(&budget("proposer_timeout_s"), spec.budget.proposer_timeout_s)?;
    proposer(&check, spec)?;
    for (key, value) in [
        ("plateau", spec.stop.plateau),
        ("same_failure", spec.stop.same_failure),
        ("rebaseline_keeps", spec.stop.rebaseline_keeps),
    ] {
        check.count(&[Key("stop"), Key(key)], value, 1, u32::MAX)?;
    }
    Ok(())
}

fn proposer(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    let at = |key| [Key("proposer"), Key(key)];
    let proposer = &spec.proposer;
    if let Some(name) = &proposer.agent {
        if let Err(why) = Agent::find(name) {
            return Err(check.wrong(&at("agent"), &why.to_string()));
        }
        check.expect(proposer.command.is_none(), &at("command"), || {
            "a proposer is a `command` or an `agent`, and not both".to_owned()
        })?;
    }
    if let Some(command) = &proposer.command {
        check.command(&at("command"), command)?;
    }
    for (key, list) in [
        ("arguments", &proposer.arguments),
        ("env", &proposer.env),
        ("reads", &proposer.reads),
        ("writes", &proposer.writes),
    ] {
        check.entries(&at(key), list.len())?;
        let is_wrong = |text: &String| {
            text.contains('\0')
                || match key {
                    "env" => text.is_empty() || text.contains('='),
                    "arguments" => false,
                    _ => !text.starts_with('/') && !text.starts_with("~/"),
                }
        };
        if let Some(entry) = list.iter().position(is_wrong) {
            let message = match key {
                "env" => "give the name of a variable, without its value",
                "arguments" => "an argument holds no NUL",
                _ => "give a path that begins with `/` or `~/`",
            };
            return Err(check.wrong(&[Key("proposer"), Key(key), Entry(entry)], message));
        }
    }
    if let Some(profile) = &spec.profile {
        check.command(&[Key("profile"), Key("command")], &profile.command)?;
        check.seconds(&[Key("profile"), Key("timeout_s")], profile.timeout_s)?;
    }
    Ok(())
}

fn measure(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    let at = |key| [Key("measure"), Key(key)];
    let measure = &spec.measure;
    if let Some(build) = &measure.build {
        check.command(&at("build"), build)?;
    }
    check.command(&at("command"), &measure.command)?;
    if spec.scales.is_empty() && measure.command.contains("{scale}") {
        let message =
            "the command has `{scale}`, and there is no scale: add a [[scale]] with a name and a value";
        return Err(check.wrong(&at("command"), message));
    }
    if let Some(equal) = &measure.equal {
        let is_inside = |file: &String| {
            !file.is_empty() && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
        };
        let wrong = match equal {
            Equal::Stdout(_) if measure.reader != Reader::Metric && measure.file.is_none() => {
                Some("what this reader reads varies from run to run: let the figures be in a file (`file`), or name files")
            }
            Equal::Files(files) if files.is_empty() || !files.iter().all(is_inside) => {
                Some("name files within the worktree, such as [\"out/rows.txt\"]")
            }
            Equal::Command { command } if command.trim().is_empty() => Some("the command is empty"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(check.wrong(&at("equal"), wrong));
        }
    }
    if let Some(file) = &measure.file {
        let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if file.is_empty() || !inside || file.chars().any(char::is_control) {
            let message =
                "give the path of a file within the worktree, such as `out/figures.json`: relative, \
                           and without `.` and `..`";
            return Err(check.wrong(&at("file"), message));
        }
    }
    if let Some(database) = &measure.database {
        check.expect(database::source_of(database).is_some(), &at("database"), || {
            format!("give `{}` and the name of a source, such as `{}app`", database::SOURCE, database::SOURCE)
        })?;
    } else if measure.policy.is_some() {
        let message = "there is no `database` that a policy could be for: add `database = \"source:NAME\"`";
        return Err(check.wrong(&at("policy"), message));
    }
    check.count(&at("quads"), measure.quads, BLOCKS_MIN, BLOCKS_MAX)?;
    if let Some(blocks) = measure.noise_quads {
        check.count(&at("noise_quads"), blocks, NOISE_BLOCKS_MIN, BLOCKS_MAX)?;
        check.expect(blocks <= measure.quads, &at("noise_quads"), || {
            format!("{blocks} is more than `quads`, {}: no try takes so many", measure.quads)
        })?;
    }
    check.count(&at("warmups"), measure.warmups, 0, WARMUPS_MAX)?;
    check.seconds(&at("timeout_s"), measure.timeout_s)?;
    check.seconds(&at("build_timeout_s"), measure.build_timeout_s)
}

fn figures(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    let primary = |key| [Key("primary"), Key(key)];
    check.figure(&primary("metric"), &spec.primary.metric)?;
    if let Some(unit) = &spec.primary.unit {
        check.line(&primary("unit"), "a unit", unit)?;
    }
    check.percent(&primary("min_effect_percent"), spec.primary.min_effect_percent)?;
    if spec.primary.min_effect_percent >= 100.0 {
        let message =
            "no figure gets better by 100 % or more: give the least improvement worth keeping, such as 1.0";
        return Err(check.wrong(&primary("min_effect_percent"), message));
    }
    check.percent(&primary("max_regression_percent"), spec.primary.max_regression_percent)?;
    check.percent(&primary("aim_percent"), spec.primary.aim_percent)?;
    if spec.primary.aim_percent >= 100.0 {
        let message = "no figure gets better by 100 % or more: give the gain that is looked for, such as 5.0";
        return Err(check.wrong(&primary("aim_percent"), message));
    }
    check.expect((0.0..=1.0).contains(&spec.primary.held_out_share), &primary("held_out_share"), || {
        format!("{} is not a share between 0 and 1", spec.primary.held_out_share)
    })?;
    check.entries(&[Key("secondary")], spec.secondaries.len())?;
    check.entries(&[Key("sentinel")], spec.sentinels.len())?;

    let mut seen = BTreeSet::from([spec.primary.metric.as_str()]);
    let secondaries = spec
        .secondaries
        .iter()
        .map(|it| ("secondary", it.metric.as_str(), "max_regression_percent", it.max_regression_percent));
    let sentinels = spec
        .sentinels
        .iter()
        .map(|it| ("sentinel", it.metric.as_str(), "tolerance_percent", it.tolerance_percent));
    let numbered = secondaries.enumerate().chain(sentinels.enumerate());
    for (index, (list, metric, percent_key, percent)) in numbered {
        let at = |key| [Key(list), Entry(index), Key(key)];
        check.figure(&at("metric"), metric)?;
        if !seen.insert(metric) {
            let message = format!(
                "the figure `{metric}` has a part already: a figure is primary, secondary or sentinel"
            );
            return Err(check.wrong(&at("metric"), &message));
        }
        check.percent(&at(percent_key), percent)?;
    }
    Ok(())
}

fn scales(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    check.entries(&[Key("scale")], spec.scales.len())?;
    let (mut names, mut values) = (BTreeSet::new(), BTreeMap::new());
    for (index, scale) in spec.scales.iter().enumerate() {
        let at = |key| [Key("scale"), Entry(index), Key(key)];
        check.file_name(&at("name"), "the name of a scale", &scale.name)?;
        if !names.insert(scale.name.as_str()) {
            let message = format!("there is a scale `{}` already: names are for one each", scale.name);
            return Err(check.wrong(&at("name"), &message));
        }
        if let Some(values) = &scale.values {
            let is_path = values.starts_with('/') || values.starts_with("~/");
            check.expect(is_path && !values.chars().any(char::is_control), &at("values"), || {
                "give the path of a file outside of the repository that begins with `/` or `~/`, such as \
                 `~/held-out/sizes`, with a value a line"
                    .to_owned()
            })?;
            continue;
        }
        if let Some(draw) = &scale.draw {
            if let Some(message) = draw.wrong() {
                return Err(check.wrong(&at("draw"), message));
            }
            check.entries(&at("draw"), draw.values().len())?;
            if let Some(known) = draw.values().iter().find(|value| values.contains_key(value.as_str())) {
                let message = format!("{known:?} is the value of another scale: it would not be new");
                return Err(check.wrong(&at("draw"), &message));
            }
            continue;
        }
        if scale.value.chars().any(char::is_control) || scale.value.len() > COMMAND_BYTES_MAX / 2 {
            let message = "the value of a scale is one line of text, as it stands in the command";
            return Err(check.wrong(&at("value"), message));
        }
        if let Some(other) = values.insert(scale.value.as_str(), scale.name.as_str()) {
            // Else one workload would count as two that agree.
            let message = format!("the scale `{other}` has the same value: the same workload counts once");
            return Err(check.wrong(&at("value"), &message));
        }
    }
    if spec.deciding().next().is_none() {
        let message = "every scale is held out, so that no try could be judged: let one at least have \
                       `held_out = false`";
        return Err(check.wrong(&[Key("scale"), Entry(0), Key("held_out")], message));
    }
    Ok(())
}

fn commands_that_must_succeed(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    check.entries(&[Key("check")], spec.checks.len())?;
    let mut names = BTreeSet::new();
    for (index, it) in spec.checks.iter().enumerate() {
        let at = |key| [Key("check"), Entry(index), Key(key)];
        check.line(&at("name"), "the name of a check", &it.name)?;
        if !names.insert(it.name.as_str()) {
            let message = format!("there is a check `{}` already: names are for one each", it.name);
            return Err(check.wrong(&at("name"), &message));
        }
        check.command(&at("command"), &it.command)?;
        check.seconds(&at("timeout_s"), it.timeout_s)?;
    }
    Ok(())
}

fn invariants(check: &Checker<'_>, spec: &Spec) -> Result<(), SpecError> {
    check.entries(&[Key("invariant")], spec.invariants.len())?;
    for (index, invariant) in spec.invariants.iter().enumerate() {
        let at = [Key("invariant"), Entry(index), Key("holds")];
        let condition =
            Condition::parse(&invariant.holds).map_err(|why| check.wrong(&at, &why.to_string()))?;
        if !condition.names_scale() {
            continue;
        }
        let no_number = |value: &str| Condition::scale_number(value).is_none();
        let is_wrong = |scale: &Scale| match &scale.draw {
            Some(draw) => draw.values().iter().any(|value| no_number(value)),
            // Those of a file are looked at when it is read.
            None => !scale.is_drawn() && no_number(&scale.value),
        };
        if let Some(scale) = spec.scales_or_default().into_iter().find(is_wrong) {
            let message = format!(
                "the condition needs a number for `scale`, and the value of the scale `{}` is {:?}: give \
                 every scale a number, or compare with a figure that the command prints",
                scale.name, scale.value
            );
            return Err(check.wrong(&at, &message));
        }
    }
    Ok(())
}

struct Checker<'a> {
    source: &'a Source<'a>,
}

impl Checker<'_> {
    fn wrong(&self, at: &[Step<'_>], message: &str) -> SpecError {
        self.source.wrong(at, message)
    }

    fn expect(
        &self,
        holds: bool,
        at: &[Step<'_>],
        message: impl FnOnce() -> String,
    ) -> Result<(), SpecError> {
        if holds {
            Ok(())
        } else {
            Err(self.wrong(at, &message()))
        }
    }

    /// What becomes a part of a folder's, ref's or figure's name.
    fn file_name(&self, at: &[Step<'_>], what: &str, name: &str) -> Result<(), SpecError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let good =
            name.chars().all(fits) && !name.starts_with('-') && (1..=NAME_CHARS_MAX).contains(&name.len());
        self.expect(good, at, || {
            format!(
                "{what} has 1 to {NAME_CHARS_MAX} letters (a-z), digits, `-` and `_`, and does not begin \
                 with `-`; this is {:?}",
                shortened(name)
            )
        })
    }

    fn line(&self, at: &[Step<'_>], what: &str, text: &str) -> Result<(), SpecError> {
        let good = !text.trim().is_empty()
            && text.trim() == text
            && !text.chars().any(char::is_control)
            && text.chars().count() <= NAME_CHARS_MAX;
        self.expect(good, at, || {
            format!(
                "{what} has 1 to {NAME_CHARS_MAX} characters in one line, without spaces around it; this is \
                 {:?}",
                shortened(text)
            )
        })
    }

    fn figure(&self, at: &[Step<'_>], name: &str) -> Result<(), SpecError> {
        self.line(at, "the name of a figure", name)
    }

    fn command(&self, at: &[Step<'_>], command: &str) -> Result<(), SpecError> {
        let good =
            !command.trim().is_empty() && !command.contains('\0') && command.len() <= COMMAND_BYTES_MAX;
        self.expect(good, at, || {
            format!("give a command for `sh -c`: not empty, no NUL, and at most {COMMAND_BYTES_MAX} bytes")
        })
    }

    fn entries(&self, at: &[Step<'_>], count: usize) -> Result<(), SpecError> {
        self.expect(count <= ENTRIES_MAX, at, || format!("{count} entries, and {ENTRIES_MAX} is the most"))
    }

    fn count(&self, at: &[Step<'_>], value: u32, least: u32, most: u32) -> Result<(), SpecError> {
        self.expect((least..=most).contains(&value), at, || {
            let most = if most == u32::MAX { String::new() } else { format!(", and at most {most}") };
            format!("{value} is out of range: at least {least}{most}")
        })
    }

    fn percent(&self, at: &[Step<'_>], value: f64) -> Result<(), SpecError> {
        // Not a number is in no range.
        self.expect((0.0..=PERCENT_MAX).contains(&value), at, || {
            format!("{value} is not a percentage between 0 and {PERCENT_MAX}")
        })
    }

    fn seconds(&self, at: &[Step<'_>], value: f64) -> Result<(), SpecError> {
        self.time(at, "seconds", value, TIMEOUT_S_MAX)
    }

    fn time(&self, at: &[Step<'_>], unit: &str, value: f64, most: f64) -> Result<(), SpecError> {
        self.expect(value > 0.0 && value <= most, at, || {
            format!("{value} is not a limit: give more than 0 and at most {most} {unit}")
        })
    }
}

/// The start of what may be very long.
fn shortened(text: &str) -> String {
    text.chars().take(NAME_CHARS_MAX).collect()
}
