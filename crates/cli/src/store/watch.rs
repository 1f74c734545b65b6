//! Changes as they come: `duramen store watch`.

use super::{handle::Handle, interrupt, listing::Lines, moment};
use crate::{context::Outcome, failure::Failure};
use clap::Args;
use duramen_base::clock;
use duramen_store::{ChangeKind, Options, Part, Primitive};
use serde_json::json;
use std::{ops::ControlFlow, process::ExitCode, sync::Arc, time::Duration};

/// How long one look waits.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Only this kind of data: kv, state, event, json or vector
    #[arg(long, value_name = "KIND")]
    kind: Option<Primitive>,
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// From a state on that is retained: a tag, a version, a time or how long ago [default: now]
    #[arg(long, value_name = "STATE", allow_hyphen_values = true)]
    from: Option<String>,
    /// End after so many changes [default: never]
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// End when nothing has changed for so long [default: never]
    #[arg(long, value_name = "SPAN", value_parser = crate::parse::span)]
    idle: Option<Duration>,
}

pub(crate) fn run(handle: &Handle, watch: &Watch) -> Outcome {
    handle.refuse_if_pack()?;
    let follower = Arc::new(handle.follow(Options::default())?);
    let branch = handle.branch_name(&follower.store()?)?;
    let part = Part {
        primitive: watch.kind,
        space: handle.space_given().map(str::to_owned),
        prefix: watch.prefix.clone(),
    };
    let from = watch.from.as_deref().map(moment::read).transpose()?;
    let mut changes = follower.watch(&branch, part, from.as_ref())?;
    let (mut shown, mut last) = (0, clock::now());
    while watch.count.is_none_or(|count| shown < count) && !interrupt::is_asked() {
        let idle = watch.idle.map(|idle| idle.saturating_sub(last.elapsed()));
        if idle.is_some_and(|idle| idle.is_zero()) {
            break;
        }
        let Some((version, entries)) = changes.next(idle.unwrap_or(LOOK).min(LOOK))? else { continue };
        last = clock::now();
        let mut lines = Lines::new();
        for entry in entries {
            if watch.count.is_some_and(|count| shown >= count) {
                break;
            }
            let flow = if handle.json {
                let text = serde_json::to_string(&json!({ "version": version, "change": entry }));
                lines.line(text.map_err(|error| Failure::Other(error.to_string()))?)
            } else {
                let mark = match entry.change {
                    ChangeKind::Added => "+",
                    ChangeKind::Removed => "-",
                    ChangeKind::Modified => "~",
                };
                let value = entry.right.as_ref().map(|value| format!(" {value}")).unwrap_or_default();
                lines.line(format_args!(
                    "{version} {mark} {} {}/{}{value}",
                    entry.primitive, entry.space, entry.key
                ))
            };
            if flow.is_break() {
                return Ok(ExitCode::SUCCESS);
            }
            shown += 1;
        }
        if lines.flush() == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}
