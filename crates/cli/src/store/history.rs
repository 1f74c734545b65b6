//! States of branches that are retained: `duramen store history ...` and `duramen store tag ...`.

use super::{
    handle::Handle,
    listing::several,
    moment::{self, split},
    upkeep::moment as time_of,
};
use crate::{context::Outcome, failure::Failure, output, parse};
use clap::{Args, Subcommand};
use duramen_store::{Every, Keep, Moment, Primitive, RetainedState};
use serde_json::json;
use std::{process::ExitCode, str::FromStr, time::Duration};

const KEEP_EXAMPLES: &str = "\
Examples:
  duramen store history keep                       each commit, the last 65,536 of them
  duramen store history keep --every 10s --for 7d
  duramen store history keep --versions 1000 --bytes 500000000 --branch try";
const OFF_EXAMPLES: &str = "\
Examples:
  duramen store history off                        only what has a tag stays";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store history list                       the newest first
  duramen store kv get greeting --branch main@1234
  duramen store branch fork then --from main@-5m";
const KEY_EXAMPLES: &str = "\
Examples:
  duramen store history key greeting
  duramen store history key leader --kind state";
const CREATE_EXAMPLES: &str = "\
Examples:
  duramen store tag create v1                      the branch as it is now
  duramen store tag create before --of main@1234
  duramen store kv get greeting --branch main@v1";
const TAGS_EXAMPLES: &str = "\
Examples:
  duramen store tag list --branch main";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store tag delete v1";

#[derive(Debug, Subcommand)]
pub(crate) enum History {
    /// Retain states of the branch from now on
    #[command(after_help = KEEP_EXAMPLES)]
    Keep(KeepArguments),
    /// Retain nothing more, and forget what has no tag
    #[command(after_help = OFF_EXAMPLES)]
    Off,
    /// List the states that are retained, the newest first
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// At most this many
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
    },
    /// Print how a key has changed, the present first
    #[command(after_help = KEY_EXAMPLES)]
    Key {
        /// The key
        key: String,
        /// What it is a key of: kv, state or json
        #[arg(long, value_name = "KIND", default_value = "kv")]
        kind: Primitive,
        /// At most this many changes
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
    },
}

#[derive(Debug, Args)]
pub(crate) struct KeepArguments {
    /// When a state is retained: `commit`, or so often if anything changed
    #[arg(long, value_name = "commit|SPAN", default_value = "commit")]
    every: EveryText,
    /// Keep as many, and up to an eighth more
    #[arg(long, value_name = "COUNT")]
    versions: Option<u64>,
    /// Keep what is needed to ask for states so far back
    #[arg(long = "for", value_name = "SPAN", value_parser = parse::span)]
    age: Option<Duration>,
    /// Forget the oldest when all of them hold more bytes on disk
    #[arg(long, value_name = "BYTES")]
    bytes: Option<u64>,
}

/// When a state is retained, as it is written.
#[derive(Clone, Copy, Debug)]
struct EveryText(Keep);

impl FromStr for EveryText {
    type Err = String;

    fn from_str(text: &str) -> Result<EveryText, String> {
        Ok(EveryText(match text {
            "commit" => Keep::each_commit(),
            span => Keep::every(parse::span(span)?),
        }))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tag {
    /// Name a state, which is retained as long as it has the tag
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The tag
        tag: String,
        /// A state that is retained already, like main@1234 [default: the branch as it is now]
        #[arg(long, value_name = "BRANCH@STATE")]
        of: Option<String>,
    },
    /// List the tags of the branch
    #[command(after_help = TAGS_EXAMPLES)]
    List,
    /// Take tags away
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The tags
        #[arg(required = true)]
        tags: Vec<String>,
    },
}

pub(crate) fn run(handle: &Handle, verb: History) -> Outcome {
    match verb {
        History::Keep(arguments) => {
            let KeepArguments { every: EveryText(keep), versions, age, bytes } = arguments;
            let age_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            set(handle, Some(Keep { versions, age_ms, bytes, ..keep }))
        }
        History::Off => set(handle, None),
        History::List { limit } => list(handle, limit),
        History::Key { key, kind, limit } => self::key(handle, &key, kind, limit),
    }
}

fn set(handle: &Handle, keep: Option<Keep>) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        let branch = handle.branch_name(store)?;
        store.keep_history(&branch, keep)?;
        let text = match &keep {
            Some(keep) => format!("{branch}: {}", said(keep)),
            None => format!("{branch}: only states with a tag are retained"),
        };
        handle.say(&json!({ "branch": branch, "keep": keep }), text)
    })
}

fn said(keep: &Keep) -> String {
    let span = |ms: u64| humantime::format_duration(Duration::from_millis(ms)).to_string();
    let mut text = match keep.every {
        Every::Ms(ms) => format!("a state is retained every {}", span(ms)),
        _ => "each commit is retained".to_owned(),
    };
    if let Some(versions) = keep.versions {
        text += &format!(", {versions} of them");
    }
    if let Some(age) = keep.age_ms {
        text += &format!(", for {}", span(age));
    }
    if let Some(bytes) = keep.bytes {
        text += &format!(", up to {}", output::bytes(bytes));
    }
    text
}

/// What states hold, if it is known.
fn held(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown size".to_owned(), output::bytes)
}

fn list(handle: &Handle, limit: usize) -> Outcome {
    handle.read(|store| {
        let branch = handle.branch(store)?;
        let history = branch.history()?;
        let newest: Vec<&RetainedState> = history.states.iter().rev().take(limit).collect();
        if handle.json {
            output::json(&json!({ "branch": branch.name(), "keep": history.keep, "states": newest }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Result<Vec<_>, Failure> = newest
            .iter()
            .map(|state| {
                let (version, entries) = (state.version.to_string(), state.entries.to_string());
                Ok([version, time_of(state.time_ms)?, state.tags.join(" "), entries, held(state.bytes)])
            })
            .collect();
        if !newest.is_empty() {
            output::print(output::table(["VERSION", "RETAINED", "TAGS", "ENTRIES", "HOLDS"], rows?));
        }
        // Of a store that knows none of them it is not known, either.
        let all = history.states.iter().map(|state| state.bytes).sum::<Option<u64>>();
        let kept = history.keep.as_ref().map_or_else(
            || "only states with a tag are retained; `store history keep` retains more".to_owned(),
            said,
        );
        let states = several(history.states.len() as u64, "state");
        output::line(format_args!("{states} of {}, {}; {kept}", branch.name(), held(all)));
        Ok(ExitCode::SUCCESS)
    })
}

fn key(handle: &Handle, key: &str, kind: Primitive, limit: usize) -> Outcome {
    handle.read(|store| {
        let branch = handle.branch(store)?;
        let states = branch.key_history(kind, handle.space_name(), key, limit)?;
        if handle.json {
            output::json(&states)?;
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Result<Vec<_>, Failure> = states
            .iter()
            .map(|state| {
                let version = state.version.map_or_else(|| "now".to_owned(), |version| version.to_string());
                let time = state.time_ms.map(time_of).transpose()?.unwrap_or_else(|| "-".to_owned());
                let value = state.value.as_ref().map_or_else(|| "(deleted)".to_owned(), ToString::to_string);
                Ok([version, time, value])
            })
            .collect();
        if states.is_empty() {
            output::line(format_args!("{key:?} is not there, and no retained state has it"));
        } else {
            output::print(output::table(["SINCE", "RETAINED", "VALUE"], rows?));
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn tag(handle: &Handle, verb: Tag) -> Outcome {
    match verb {
        Tag::Create { tag, of } => {
            handle.needs_store()?;
            handle.write(|store| {
                let (branch, version) = match of.as_deref().map(split).transpose()? {
                    None => {
                        let branch = handle.branch_name(store)?;
                        let version = store.tag(&branch, &tag)?;
                        (branch, version)
                    }
                    Some((branch, None)) => (branch.to_owned(), store.tag(branch, &tag)?),
                    Some((branch, Some(moment))) => (branch.to_owned(), store.tag_at(branch, &moment, &tag)?),
                };
                let json = json!({ "branch": branch, "tag": tag, "version": version });
                handle.say(&json, format_args!("{branch}@{tag} is version {version}"))
            })
        }
        Tag::List => handle.read(|store| {
            let branch = handle.branch(store)?;
            let states = branch.history()?.states;
            let tags: Vec<_> =
                states.iter().flat_map(|state| state.tags.iter().map(move |tag| (tag, state))).collect();
            if handle.json {
                let shown = tags.iter().map(
                    |(tag, state)| json!({ "tag": tag, "version": state.version, "time_ms": state.time_ms }),
                );
                output::json(&shown.collect::<Vec<_>>())?;
                return Ok(ExitCode::SUCCESS);
            }
            let rows: Result<Vec<_>, Failure> = tags
                .iter()
                .map(|(tag, state)| Ok([(*tag).clone(), state.version.to_string(), time_of(state.time_ms)?]))
                .collect();
            if tags.is_empty() {
                output::line(format_args!("{} has no tags", branch.name()));
            } else {
                output::print(output::table(["TAG", "VERSION", "RETAINED"], rows?));
            }
            Ok(ExitCode::SUCCESS)
        }),
        Tag::Delete { tags } => {
            handle.needs_store()?;
            handle.write(|store| {
                let branch = handle.branch_name(store)?;
                for tag in &tags {
                    store.delete_tag(&branch, tag)?;
                }
                let json = json!({ "branch": branch, "deleted": tags });
                handle.say(&json, format_args!("deleted {}", tags.join(" ")))
            })
        }
    }
}

/// Makes the branch what it was.
pub(crate) fn revert(handle: &Handle, text: &str) -> Outcome {
    handle.needs_store()?;
    handle.write(|store| {
        let (name, to) = split_or_moment(text)?;
        let name = match name {
            Some(name) => name,
            None => handle.branch_name(store)?,
        };
        let report = store.branch(&name)?.revert_to(&to)?;
        let json = json!({
            "branch": name,
            "written": report.written,
            "deleted": report.deleted,
            "version": report.version,
        });
        let (written, deleted) = (report.written, report.deleted);
        handle.say(
            &json,
            format_args!("wrote {written} and deleted {deleted} in {name}: it is what it was at {to}"),
        )
    })
}

fn split_or_moment(text: &str) -> Result<(Option<String>, Moment), Failure> {
    Ok(match split(text)? {
        (name, Some(moment)) => (Some(name.to_owned()), moment),
        (text, None) => (None, moment::read(text)?),
    })
}
