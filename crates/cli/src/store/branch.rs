//! Branches of the store: `duramen store branch ...`.

pub(crate) mod compare;
mod conflicts;

use super::{
    current, elsewhere,
    handle::{self, Handle},
    history,
    moment::split,
    upkeep::moment,
};
use crate::{context::Outcome, failure::Failure, output, parse};
use clap::{Args, Subcommand};
use duramen_base::clock;
use duramen_store::{BranchInfo, Store, StoreError, DEFAULT_BRANCH};
use serde::Serialize;
use serde_json::json;
use std::{process::ExitCode, time::Duration};

const CREATE_EXAMPLES: &str = "\
Examples:
  duramen store branch create scratch              an empty branch, no fork";
const FORK_EXAMPLES: &str = "\
Examples:
  duramen store branch fork try                    of the current branch
  duramen store branch fork again --from try --ttl 1h
  duramen store branch fork then --from main@-5m   what it was, if that is retained";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store branch list                        `*` marks the current one
  duramen store branch list --sizes                with what each has of its own";
const SHOW_EXAMPLES: &str = "\
Examples:
  duramen store branch show try";
const SWITCH_EXAMPLES: &str = "\
Examples:
  duramen store branch switch try                  later commands without --branch mean it";
const DIFF_EXAMPLES: &str = "\
Examples:
  duramen store branch diff main try
  duramen store branch diff main@v1 main
  duramen store branch diff main try --kind kv --space-filter default --prefix user:";
const MERGE_EXAMPLES: &str = "\
Examples:
  duramen store branch merge try                   into the current branch; conflicts refuse it
  duramen store branch merge try --into main --dry-run
  duramen store branch merge try --strategy theirs --only-kind kv
  duramen store branch merge try --strategy keep   conflicts are settled later, with `branch resolve`";
const CONFLICTS_EXAMPLES: &str = "\
Examples:
  duramen store branch conflicts                   that merges with --strategy keep left open
  duramen store branch conflicts try --kind kv --prefix user:";
const RESOLVE_EXAMPLES: &str = "\
Examples:
  duramen store branch resolve kv colour --take theirs
  duramen store branch resolve json user:1 --value '{\"name\": \"Ada\"}'
  duramen store branch resolve vector docs/north --take now   keeps what the row has
  duramen store branch resolve --all --take ours --only-kind kv";
const PICK_EXAMPLES: &str = "\
Examples:
  duramen store branch pick try@1234 try@1240 --into main
  duramen store branch pick main@v2 main@v1 --dry-run    the other way round: what v2 changed is taken back";
const REVERT_EXAMPLES: &str = "\
Examples:
  duramen store branch revert v1                   its history goes on
  duramen store branch revert try@1234";
const RESET_EXAMPLES: &str = "\
Examples:
  duramen store branch reset try                   to what its parent is now";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store branch delete try again            forks of them stay";
const PROTECT_EXAMPLES: &str = "\
Examples:
  duramen store branch protect try                 it is neither deleted, nor reset, nor does it expire";
const UNPROTECT_EXAMPLES: &str = "\
Examples:
  duramen store branch unprotect try";
const EXPIRE_EXAMPLES: &str = "\
Examples:
  duramen store branch expire try --ttl 2h
  duramen store branch expire try --never";

#[derive(Debug, Subcommand)]
pub(crate) enum Branch {
    /// Make an empty branch
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Name),
    /// Fork a branch: the new one shares all data until either changes it
    #[command(after_help = FORK_EXAMPLES)]
    Fork {
        /// The new branch's name
        name: String,
        /// The branch to fork, or a state of it like main@v1 [default: the current one]
        #[arg(long, value_name = "NAME")]
        from: Option<String>,
        /// How long it lives [default: until it is deleted]
        #[arg(long, value_name = "SPAN", value_parser = parse::span)]
        ttl: Option<Duration>,
    },
    /// List all branches
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Measure what each branch does not share, which reads that data
        #[arg(long)]
        sizes: bool,
    },
    /// Show one branch
    #[command(after_help = SHOW_EXAMPLES)]
    Show(MaybeName),
    /// Make a branch the current one, which commands use by default
    #[command(after_help = SWITCH_EXAMPLES)]
    Switch(Name),
    /// Print how two branches differ
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(compare::DiffArguments),
    /// Bring a branch's changes into another
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(compare::Merge),
    /// List the conflicts that merges kept
    #[command(after_help = CONFLICTS_EXAMPLES)]
    Conflicts(conflicts::Conflicts),
    /// Settle a conflict that a merge kept
    #[command(after_help = RESOLVE_EXAMPLES)]
    Resolve(conflicts::Resolve),
    /// Bring what changed between two states into a branch
    #[command(after_help = PICK_EXAMPLES)]
    Pick(compare::Pick),
    /// Make a branch what it was, in a commit of its own
    #[command(after_help = REVERT_EXAMPLES)]
    Revert {
        /// The state, like main@v1, or v1 for the branch that is meant
        #[arg(allow_negative_numbers = true)]
        to: String,
    },
    /// Make a branch equal to its parent's current state
    #[command(after_help = RESET_EXAMPLES)]
    Reset(Name),
    /// Delete branches
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The branches' names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Keep a branch from being deleted, reset, or expiring
    #[command(after_help = PROTECT_EXAMPLES)]
    Protect(Name),
    /// End a branch's protection
    #[command(after_help = UNPROTECT_EXAMPLES)]
    Unprotect(Name),
    /// Set how long a branch lives
    #[command(after_help = EXPIRE_EXAMPLES)]
    Expire {
        /// The branch's name
        name: String,
        /// How long it lives from now on
        #[arg(long, value_name = "SPAN", value_parser = parse::span, required_unless_present = "never")]
        ttl: Option<Duration>,
        /// Until it is deleted
        #[arg(long, conflicts_with = "ttl")]
        never: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The branch's name
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct MaybeName {
    /// The branch's name [default: the current one]
    name: Option<String>,
}

/// A branch as it is printed.
#[derive(Debug, Serialize)]
struct View<'i> {
    #[serde(flatten)]
    info: &'i BranchInfo,
    current: bool,
}

pub(crate) fn run(handle: &Handle, verb: Branch) -> Outcome {
    match verb {
        Branch::Create(Name { name }) => handle.write(|store| {
            store.create_branch(&name)?;
            show(handle, store, &name)
        }),
        Branch::Fork { name, from, ttl } => {
            handle.needs_store()?;
            handle.write(|store| {
                let source = from.map_or_else(|| handle.branch_name(store), Ok)?;
                match (split(&source)?, ttl) {
                    ((source, None), Some(ttl)) => store.fork_for(source, &name, ttl)?,
                    ((source, None), None) => store.fork(source, &name)?,
                    ((source, Some(moment)), Some(ttl)) => store.fork_at_for(source, &moment, &name, ttl)?,
                    ((source, Some(moment)), None) => store.fork_at(source, &moment, &name)?,
                };
                show(handle, store, &name)
            })
        }
        Branch::List { sizes } => handle.read(|store| list(handle, store, sizes)),
        Branch::Show(MaybeName { name }) => handle.read(|store| {
            let name = name.map_or_else(|| handle.branch_name(store), Ok)?;
            show(handle, store, &name)
        }),
        Branch::Switch(Name { name }) => switch(handle, &name),
        Branch::Diff(diff) => compare::diff(handle, &diff),
        Branch::Merge(merge) => compare::merge(handle, &merge),
        Branch::Conflicts(conflicts) => conflicts::list(handle, &conflicts),
        Branch::Resolve(resolve) => conflicts::resolve(handle, &resolve),
        Branch::Pick(pick) => compare::pick(handle, &pick),
        Branch::Revert { to } => history::revert(handle, &to),
        Branch::Reset(Name { name }) => change(handle, &name, |store| store.reset_branch(&name)),
        Branch::Delete { names } => delete(handle, &names),
        Branch::Protect(Name { name }) => change(handle, &name, |store| store.protect_branch(&name, true)),
        Branch::Unprotect(Name { name }) => change(handle, &name, |store| store.protect_branch(&name, false)),
        Branch::Expire { name, ttl, never: _ } => {
            change(handle, &name, |store| store.expire_branch(&name, ttl))
        }
    }
}

fn change(handle: &Handle, name: &str, work: impl FnOnce(&Store) -> Result<(), StoreError>) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        work(store)?;
        show(handle, store, name)
    })
}

fn switch(handle: &Handle, name: &str) -> Outcome {
    handle.refuse_if_read_only()?;
    elsewhere::refuse(handle.path(), "the current branch, which is remembered beside it,")?;
    handle.read(|store| {
        store.branch(name)?;
        current::switch(handle.path(), name)?;
        handle.say(&json!({ "branch": name }), format_args!("switched to {name}"))
    })
}

fn delete(handle: &Handle, names: &[String]) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        let mut gone: Vec<&str> = Vec::new();
        let mut failed = false;
        for name in names {
            // One that cannot be deleted must not keep the others.
            match store.delete_branch(name) {
                Ok(()) => gone.push(name),
                Err(error) => {
                    output::error(&Failure::from(error));
                    failed = true;
                }
            }
        }
        for name in &gone {
            if current::forget(handle.path(), name)? {
                handle::note(format_args!("{name} was the current branch; it is {DEFAULT_BRANCH} now"));
            }
        }
        if handle.json {
            output::json(&json!({ "deleted": gone }))?;
        } else {
            for name in &gone {
                output::line(format_args!("deleted {name}"));
            }
        }
        Ok(if failed { ExitCode::from(crate::failure::FAILED) } else { ExitCode::SUCCESS })
    })
}

fn list(handle: &Handle, store: &Store, sizes: bool) -> Outcome {
    let current = handle.current(store)?;
    let infos = store.branches(sizes)?;
    if handle.json {
        let views = infos.iter().map(|info| View { info, current: info.name == current });
        output::json(&views.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = infos.iter().map(|info| {
        [
            if info.name == current { "*" } else { " " }.to_owned(),
            info.name.clone(),
            info.parent.clone().unwrap_or_else(|| "-".to_owned()),
            info.entries.to_string(),
            output::bytes(info.bytes),
            info.own_bytes.map_or_else(|| "-".to_owned(), output::bytes),
            age(info.created_ms),
            expiry(info),
        ]
    });
    let text = if sizes {
        output::table(["", "NAME", "PARENT", "ENTRIES", "SIZE", "OWN", "AGE", "EXPIRES"], rows)
    } else {
        let rows = rows.map(|[mark, name, parent, entries, size, _, age, expires]| {
            [mark, name, parent, entries, size, age, expires]
        });
        output::table(["", "NAME", "PARENT", "ENTRIES", "SIZE", "AGE", "EXPIRES"], rows)
    };
    output::print(text);
    Ok(ExitCode::SUCCESS)
}

fn show(handle: &Handle, store: &Store, name: &str) -> Outcome {
    let info = store.branch_info(name)?;
    let current = handle.current(store)? == info.name;
    if handle.json {
        output::json(&View { info: &info, current })?;
        return Ok(ExitCode::SUCCESS);
    }
    let own = info.own_bytes.map_or_else(|| "all of it".to_owned(), output::bytes);
    output::print(output::pairs([
        ("branch", info.name.clone()),
        ("current", output::yes(current)),
        ("parent", info.parent.clone().unwrap_or_else(|| "none".to_owned())),
        ("created", moment(info.created_ms)?),
        ("expires", expiry(&info)),
        ("entries", info.entries.to_string()),
        ("size", output::bytes(info.bytes)),
        ("of its own", own),
    ]));
    Ok(ExitCode::SUCCESS)
}

fn age(created_ms: i64) -> String {
    let seconds = (clock::unix_ms() - created_ms).max(0) as u64 / 1000;
    let rounded = match seconds {
        0..=3_599 => seconds,
        3_600..=86_399 => seconds / 60 * 60,
        _ => seconds / 3600 * 3600,
    };
    humantime::format_duration(Duration::from_secs(rounded)).to_string()
}

fn expiry(info: &BranchInfo) -> String {
    match (info.protected, info.expires_ms) {
        (true, _) => "never (protected)".to_owned(),
        (false, None) => "never".to_owned(),
        (false, Some(at)) => match (at - clock::unix_ms()).max(0) as u64 {
            0 => "now".to_owned(),
            left => format!("in {}", humantime::format_duration(Duration::from_secs(left.div_ceil(1000)))),
        },
    }
}
