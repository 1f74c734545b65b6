//! Conflicts that merges kept: `duramen store branch conflicts` and `resolve`.

use super::{
    super::handle::Handle,
    compare::{shown, Which},
};
use crate::{context::Outcome, failure::Failure, output, store::moment};
use clap::{Args, ValueEnum};
use duramen_store::{
    conflict::{ConflictId, OpenConflict, Settle},
    Part, Primitive, Scope,
};
use serde_json::{json, Value};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Conflicts {
    /// The branch, or a state of it like main@v1 [default: the current one]
    name: Option<String>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The kind of data: kv, state, json or vector
    #[arg(required_unless_present = "all", requires = "key")]
    kind: Option<Primitive>,
    /// The key, as `branch conflicts` prints it
    key: Option<String>,
    /// What the row gets
    #[arg(long, value_enum, required_unless_present = "value")]
    take: Option<Take>,
    /// The value that the row gets, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "take")]
    value: Option<String>,
    /// Settle it also if the row has changed since the merge
    #[arg(long)]
    even_if_changed: bool,
    /// Settle all open conflicts of the branch
    #[arg(long, conflicts_with_all = ["kind", "key", "value"])]
    all: bool,
    /// With --all, only those of this kind of data
    #[arg(long, value_name = "KIND", requires = "all")]
    only_kind: Option<Primitive>,
    /// With --all, only those of this space
    #[arg(long, value_name = "NAME", requires = "all")]
    only_space: Option<String>,
    /// With --all, only those of keys with this prefix
    #[arg(long, value_name = "TEXT", requires = "all")]
    only_prefix: Option<String>,
}

/// What a row gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Take {
    /// What the target of the merge had
    Ours,
    /// What the source of the merge had
    Theirs,
    /// What both had before
    Base,
    /// What it has now, whatever that is
    Now,
    /// Nothing: the key is deleted
    Delete,
}

impl From<Take> for Settle {
    fn from(take: Take) -> Settle {
        match take {
            Take::Ours => Settle::Ours,
            Take::Theirs => Settle::Theirs,
            Take::Base => Settle::Base,
            Take::Now => Settle::Now,
            Take::Delete => Settle::Delete,
        }
    }
}

pub(crate) fn list(handle: &Handle, conflicts: &Conflicts) -> Outcome {
    let Conflicts { name, which } = conflicts;
    let (part, limit) = (which.part(), which.limit);
    handle.read(|store| {
        let name = name.clone().map_or_else(|| handle.branch_name(store), Ok)?;
        let seen = moment::snapshot(store, &name)?;
        let (mut items, mut after, mut has_more) = (Vec::new(), None, false);
        while items.len() < limit {
            let page = seen.conflicts().list(&part, after.as_ref(), limit - items.len())?;
            items.extend(page.items);
            has_more = page.next.is_some();
            match page.next {
                Some(next) => after = Some(next.id),
                None => break,
            }
        }
        if handle.json {
            output::json(&json!({ "branch": name, "conflicts": items, "truncated": has_more }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !items.is_empty() {
            let head = ["KIND", "SPACE", "KEY", "BASE", "OURS", "THEIRS", "NOW", "FROM"];
            output::print(output::table(head, items.iter().map(row)));
        }
        for (open, reason) in items.iter().filter_map(|open| Some((open, open.unreadable.as_ref()?))) {
            output::error(&format_args!(
                "the record of {} cannot be read: {reason}; --take now drops it",
                open.id
            ));
        }
        let more = if has_more { ", and more: raise --limit" } else { "" };
        output::line(format_args!("{} open in {name}{more}", items.len()));
        Ok(ExitCode::SUCCESS)
    })
}

fn row(open: &OpenConflict) -> [String; 8] {
    let now = if open.changed { shown(open.now.as_ref()) } else { "as ours".to_owned() };
    [
        open.id.primitive.to_string(),
        open.id.space.clone(),
        open.id.key.clone(),
        shown(open.base.as_ref()),
        shown(open.ours.as_ref()),
        shown(open.theirs.as_ref()),
        now,
        open.source.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

pub(crate) fn resolve(handle: &Handle, resolve: &Resolve) -> Outcome {
    handle.needs_store()?;
    let settle = match (&resolve.value, resolve.take) {
        (Some(text), _) => {
            let value: Result<Value, _> = serde_json::from_str(text);
            Settle::Value(value.map_err(|error| {
                Failure::Usage(format!("--value is not JSON: {error}; a text is written '\"like this\"'"))
            })?)
        }
        (None, Some(take)) => take.into(),
        (None, None) => return Err(Failure::Usage("name what the row gets: --take or --value".to_owned())),
    };
    match (resolve.kind, &resolve.key) {
        (Some(kind), Some(key)) => one(handle, resolve, kind, key, settle),
        _ => all(handle, resolve, &settle),
    }
}

fn one(handle: &Handle, resolve: &Resolve, kind: Primitive, key: &str, settle: Settle) -> Outcome {
    handle.write(|store| {
        let branch = handle.branch(store)?;
        let id = ConflictId::new(kind, handle.space_name(), key);
        let version = match resolve.even_if_changed {
            true => branch.conflicts().resolve_if_changed(&id, settle)?,
            false => branch.conflicts().resolve(&id, settle)?,
        };
        handle.say(&json!({ "settled": 1, "version": version }), format_args!("settled {id}"))
    })
}

fn all(handle: &Handle, resolve: &Resolve, settle: &Settle) -> Outcome {
    let part = Part {
        primitive: resolve.only_kind,
        space: resolve.only_space.clone(),
        prefix: resolve.only_prefix.clone(),
    };
    handle.write(|store| {
        let branch = handle.branch(store)?;
        let mut decide = |open: &OpenConflict| {
            let is_clear = open.unreadable.is_none() && (!open.changed || resolve.even_if_changed);
            (is_clear || *settle == Settle::Now).then(|| settle.clone())
        };
        let done = branch.conflicts().resolve_with(&part, &mut decide)?;
        let left = match done.open {
            0 => String::new(),
            open => {
                format!("; {open} still open, as their rows have changed since: see `store branch conflicts`")
            }
        };
        handle.say(&done, format_args!("settled {}{left}", done.settled))
    })
}
