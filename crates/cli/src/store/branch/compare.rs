//! How branches differ, and bringing them together: `duramen store branch diff` and `merge`.

use super::super::{handle::Handle, moment};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output,
};
use clap::{Args, ValueEnum};
use duramen_store::{
    ChangeKind, Conflict, Diff, DiffEntry, Equal, MergeOptions, MergeReport, Part, Primitive, Rule, Store,
    StoreError, Strategy,
};
use serde_json::{json, Value};
use std::process::ExitCode;

/// The most characters of a value in a table.
const SHOWN_CHARS: usize = 40;

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The branch to compare with, or a state of it like main@v1
    left: String,
    /// The branch whose changes are printed
    right: String,
    #[command(flatten)]
    which: Which,
}

/// Which rows are printed.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Only this kind of data: kv, state, event, json or vector
    #[arg(long, value_name = "KIND")]
    kind: Option<Primitive>,
    /// Only this space [default: all of them]
    #[arg(long, value_name = "NAME")]
    space_filter: Option<String>,
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Print at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(super) limit: usize,
}

impl Which {
    /// The part of a branch that they are in.
    pub(super) fn part(&self) -> Part {
        Part { primitive: self.kind, space: self.space_filter.clone(), prefix: self.prefix.clone() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The branch whose changes are taken
    source: String,
    /// The branch that gets them [default: the current one]
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
pub(crate) struct Pick {
    /// The state before the change, like main@1234
    before: String,
    /// The state after it
    after: String,
    /// The branch that gets it [default: the current one]
    #[arg(long, value_name = "NAME")]
    into: Option<String>,
    #[command(flatten)]
    how: How,
}

/// How changes are brought into a branch.
#[derive(Debug, Args)]
struct How {
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// What wins where both sides changed a key: nothing, the target, the source, or the target for now, to be settled later
    #[arg(long, value_enum, default_value = "fail")]
    strategy: StrategyName,
    /// What it is when both sides changed a key to the same value [default: conflict for cells, agree for all else]
    #[arg(long, value_enum)]
    equal: Option<EqualName>,
    /// Decide about some keys by a rule, KIND:SPACE:PREFIX=DECISION (SPACE and PREFIX may be left out): ours, theirs, latest, add
    /// (counters) or union (sets)
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<Rule>,
    /// Merge only this kind of data: kv, state, event, json or vector
    #[arg(long, value_name = "KIND")]
    only_kind: Option<Primitive>,
    /// Merge only this space
    #[arg(long, value_name = "NAME")]
    only_space: Option<String>,
    /// Merge only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    only_prefix: Option<String>,
    /// Where both sides appended events, append the source's again behind the target's
    #[arg(long)]
    resequence_events: bool,
}

/// What wins where both sides changed a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StrategyName {
    /// Nothing: the merge is refused
    Fail,
    /// The target
    Ours,
    /// The source
    Theirs,
    /// The target for now: what both sides have is kept, and settled later with `store branch resolve`
    Keep,
}

/// What equal changes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EqualName {
    /// Agreement
    Agree,
    /// A conflict: both may have computed it of what they had
    Conflict,
}

impl From<EqualName> for Equal {
    fn from(name: EqualName) -> Equal {
        match name {
            EqualName::Agree => Equal::Agree,
            EqualName::Conflict => Equal::Conflict,
        }
    }
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Strategy {
        match name {
            StrategyName::Fail => Strategy::Fail,
            StrategyName::Ours => Strategy::Ours,
            StrategyName::Theirs => Strategy::Theirs,
            StrategyName::Keep => Strategy::Keep,
        }
    }
}

pub(crate) fn diff(handle: &Handle, diff: &DiffArguments) -> Outcome {
    let part = diff.which.part();
    handle.read(|store| {
        let (left, right) = (moment::snapshot(store, &diff.left)?, moment::snapshot(store, &diff.right)?);
        let found = left.diff(&right, &part, diff.which.limit)?;
        print_diff(handle.json, &found, &diff.left, &diff.right)
    })
}

/// Prints what differs between two things.
pub(crate) fn print_diff(json: bool, found: &Diff, left: &str, right: &str) -> Outcome {
    if json {
        output::json(&json!({
            "entries": found.entries,
            "added": found.added,
            "removed": found.removed,
            "modified": found.modified,
            "truncated": found.truncated,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = found.entries.iter().map(|entry| {
        [
            mark(entry).to_owned(),
            entry.primitive.to_string(),
            entry.space.clone(),
            entry.key.clone(),
            shown(entry.left.as_ref()),
            shown(entry.right.as_ref()),
        ]
    });
    if !found.entries.is_empty() {
        output::print(output::table(["", "KIND", "SPACE", "KEY", left, right], rows));
    }
    let more = if found.truncated { ", and more: raise --limit" } else { "" };
    output::line(format_args!(
        "{} added, {} removed, {} modified{more}",
        found.added, found.removed, found.modified
    ));
    Ok(ExitCode::SUCCESS)
}

fn mark(entry: &DiffEntry) -> &'static str {
    match entry.change {
        ChangeKind::Added => "+",
        ChangeKind::Removed => "-",
        ChangeKind::Modified => "~",
    }
}

/// A value in a cell of a table.
pub(super) fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

impl How {
    fn options(&self, dry_run: bool) -> MergeOptions<'_> {
        MergeOptions {
            part: Part {
                primitive: self.only_kind,
                space: self.only_space.clone(),
                prefix: self.only_prefix.clone(),
            },
            strategy: self.strategy.into(),
            equal: self.equal.map(Equal::from),
            dry_run,
            resequence_events: self.resequence_events,
            rules: self.rules.clone(),
            ..MergeOptions::default()
        }
    }
}

pub(crate) fn merge(handle: &Handle, merge: &Merge) -> Outcome {
    bring(handle, &merge.how, merge.into.as_ref(), &merge.source, |store, target, options| {
        Ok(store.merge(&merge.source, target, options))
    })
}

pub(crate) fn pick(handle: &Handle, pick: &Pick) -> Outcome {
    let named = format!("{}..{}", pick.before, pick.after);
    bring(handle, &pick.how, pick.into.as_ref(), &named, |store, target, options| {
        let (before, after) = (moment::snapshot(store, &pick.before)?, moment::snapshot(store, &pick.after)?);
        Ok(store.apply_change(&before, &after, target, options))
    })
}

/// What a merge came to, if it could be begun.
type Merged = Result<Result<MergeReport, StoreError>, Failure>;

fn bring(
    handle: &Handle,
    how: &How,
    into: Option<&String>,
    source: &str,
    work: impl Fn(&Store, &str, MergeOptions<'_>) -> Merged,
) -> Outcome {
    handle.needs_store()?;
    let done = |store: &Store| {
        let target = into.cloned().map_or_else(|| handle.branch_name(store), Ok)?;
        let (report, refused) = match work(store, &target, how.options(how.dry_run))? {
            Ok(report) => (report, false),
            // A dry run, which cannot be refused, lists what the refusal is about.
            Err(StoreError::MergeConflict { .. }) => (work(store, &target, how.options(true))??, true),
            Err(error) => return Err(error.into()),
        };
        let unresolved = report.conflicts.iter().any(|conflict| !conflict.resolved);
        print(handle, how.dry_run, (source, &target), &report, refused || unresolved)
    };
    if how.dry_run {
        handle.read(done)
    } else {
        handle.write(done)
    }
}

fn print(
    handle: &Handle,
    dry_run: bool,
    (source, target): (&str, &str),
    report: &MergeReport,
    unresolved: bool,
) -> Outcome {
    let merged = !unresolved && !dry_run;
    let code = if unresolved { ExitCode::from(FAILED) } else { ExitCode::SUCCESS };
    if handle.json {
        output::json(&json!({
            "source": source,
            "target": target,
            "merged": merged,
            "written": report.written,
            "deleted": report.deleted,
            "events_resequenced": report.events_resequenced,
            "version": report.version,
            "kept": report.kept,
            "carried": report.carried,
            "conflicts": report.conflicts,
        }))?;
        return Ok(code);
    }
    if !report.conflicts.is_empty() {
        let head = ["KIND", "SPACE", "KEY", "BASE", "OURS", "THEIRS", "AT"];
        output::print(output::table(head, report.conflicts.iter().map(row)));
    }
    let MergeReport { written, deleted, events_resequenced, .. } = report;
    let events = match events_resequenced {
        0 => String::new(),
        count => format!(", {count} events appended again"),
    };
    let carried = match report.carried {
        0 => String::new(),
        count => format!(", {count} open conflicts brought or settled"),
    };
    let events = format!("{events}{carried}");
    let count = report.conflicts.iter().filter(|conflict| !conflict.resolved).count();
    for (conflict, reason) in report.conflicts.iter().filter_map(|it| Some((it, it.reason?))) {
        let Conflict { primitive, space, key, .. } = conflict;
        output::error(&format_args!("{primitive} {space}/{key}: {reason}"));
    }
    if unresolved {
        output::error(&format_args!(
            "{count} changed on both sides, so {source} {} merged into {target}; \
             decide with --strategy ours (what {target} has), theirs (what {source} has) or keep (later), or by --rule",
            if dry_run { "would not be" } else { "was not" },
        ));
    } else if dry_run {
        output::line(format_args!("would write {written} and delete {deleted} in {target}{events}"));
    } else {
        output::line(format_args!("wrote {written} and deleted {deleted} in {target}{events}"));
    }
    if report.kept > 0 && !unresolved {
        let (kept, would) = (report.kept, if dry_run { "would be " } else { "" });
        output::line(format_args!(
            "{kept} conflicts {would}kept in {target}: `duramen store branch conflicts {target}` lists them, \
             `duramen store branch resolve KIND KEY --branch {target} --take ours|theirs|base|now` settles one"
        ));
    }
    Ok(code)
}

fn row(conflict: &Conflict) -> [String; 7] {
    let paths = if conflict.paths.is_empty() { "-".to_owned() } else { conflict.paths.join(" ") };
    [
        conflict.primitive.to_string(),
        conflict.space.clone(),
        conflict.key.clone(),
        shown(conflict.base.as_ref()),
        shown(conflict.ours.as_ref()),
        shown(conflict.theirs.as_ref()),
        paths,
    ]
}
