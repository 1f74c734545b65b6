//! The event log of a space: `duramen store event ...`.

use super::{
    handle::{self, Handle},
    input, listing, parquet,
    upkeep::moment,
};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output, parse,
};
use clap::{Args, Subcommand};
use duramen_store::event::{Direction, Event as Stored};
use serde::Deserialize;
use serde_json::{json, Value};
use std::{process::ExitCode, time::Duration};

const APPEND_EXAMPLES: &str = "\
Examples:
  duramen store event append login '{\"user\": 1}'
  duramen store event append login --batch < payloads.jsonl     a payload a line
  duramen store event append --batch < events.jsonl             lines like {\"type\": \"login\", \"payload\": {\"user\": 1}}";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store event get 0";
const RANGE_EXAMPLES: &str = "\
Examples:
  duramen store event range --from 100 --to 200
  duramen store event range --newest --limit 10 --type login";
const EXPORT_EXAMPLES: &str = "\
Examples:
  duramen store event export --parquet events.parquet
  duramen store event export --parquet logins.parquet --type login --from 100";
const BY_TYPE_EXAMPLES: &str = "\
Examples:
  duramen store event by-type login --after 41";
const TYPES_EXAMPLES: &str = "\
Examples:
  duramen store event types";
const LENGTH_EXAMPLES: &str = "\
Examples:
  duramen store event length";
const TRIM_EXAMPLES: &str = "\
Examples:
  duramen store event trim --before 1000           the last event stays in any case
  duramen store event trim --older-than 30d
  duramen store event trim --keep 100000";
const VERIFY_EXAMPLES: &str = "\
Examples:
  duramen store event verify                       exit status 1 if the chain of hashes breaks";

#[derive(Debug, Subcommand)]
pub(crate) enum Event {
    /// Append an event, or many
    #[command(after_help = APPEND_EXAMPLES)]
    Append {
        /// The event's type
        #[arg(value_name = "TYPE", required_unless_present = "batch")]
        kind: Option<String>,
        /// Its payload, a JSON object; `-` reads it from the standard input
        #[arg(required_unless_present = "batch")]
        payload: Option<String>,
        /// Append one event per line of the standard input, all or none
        #[arg(long, conflicts_with = "payload")]
        batch: bool,
    },
    /// Print one event by its number
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The number, from 0
        seq: u64,
    },
    /// Print events in the order of their numbers
    #[command(after_help = RANGE_EXAMPLES)]
    Range(Range),
    /// Write events into a Parquet file, for DuckDB and others
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        #[command(flatten)]
        to: parquet::Target,
        /// The first number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        from: u64,
        /// Only events of this type
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
    },
    /// Print the events of a type
    #[command(after_help = BY_TYPE_EXAMPLES)]
    ByType {
        /// The type
        #[arg(value_name = "TYPE")]
        kind: String,
        /// Only events after this number
        #[arg(long, value_name = "SEQ")]
        after: Option<u64>,
        /// At most this many
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        limit: usize,
    },
    /// List the types of events
    #[command(after_help = TYPES_EXAMPLES)]
    Types,
    /// Count the events
    #[command(after_help = LENGTH_EXAMPLES)]
    Length,
    /// Delete the first events of the log; the others keep their numbers
    #[command(after_help = TRIM_EXAMPLES)]
    Trim(Trim),
    /// Check that no event was changed, removed or inserted
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Trim {
    /// Those before this number
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
    /// Those that are older
    #[arg(long, value_name = "DURATION", value_parser = parse::span)]
    older_than: Option<Duration>,
    /// All but this many
    #[arg(long, value_name = "COUNT")]
    keep: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Range {
    /// The first number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
    /// The number to stop before [default: the end]
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// The newest first
    #[arg(long)]
    newest: bool,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
}

pub(crate) fn run(handle: &Handle, verb: Event) -> Outcome {
    match verb {
        Event::Append { kind, batch: true, .. } => append_batch(handle, kind),
        Event::Append { kind, payload, .. } => append(handle, kind, payload),
        Event::Get { seq } => handle.look(|space| {
            let found = space.events().get(seq)?;
            let event = found.ok_or_else(|| {
                Failure::Other(format!(
                    "there is no event {seq} in space {:?}; `duramen store event length` says how many there are",
                    space.name()
                ))
            })?;
            if handle.json {
                output::json(&view(&event)?)?;
            } else {
                print(&[event])?;
            }
            Ok(ExitCode::SUCCESS)
        }),
        Event::Range(range) => handle.look(|space| {
            let direction = if range.newest { Direction::Backwards } else { Direction::Forwards };
            let (from, to) = (range.from, range.to.unwrap_or(u64::MAX));
            let page = space.events().range(from..to, direction, range.kind.as_deref(), range.limit)?;
            if handle.json {
                let events = page.events.iter().map(view).collect::<Result<Vec<_>, _>>()?;
                output::json(&json!({ "events": events, "next": page.next }))?;
                return Ok(ExitCode::SUCCESS);
            }
            print(&page.events)?;
            match page.next {
                Some(next) if range.newest => {
                    handle::note(format_args!("there are more; continue with --to {}", next + 1));
                }
                Some(next) => handle::note(format_args!("there are more; continue with --from {next}")),
                None => {}
            }
            Ok(ExitCode::SUCCESS)
        }),
        Event::Export { kind, from, to } => parquet::events(handle, &to, from, kind),
        Event::ByType { kind, after, limit } => handle.look(|space| {
            let events = space.events().by_type(&kind, after, limit)?;
            if handle.json {
                output::json(&events.iter().map(view).collect::<Result<Vec<_>, _>>()?)?;
            } else {
                print(&events)?;
            }
            Ok(ExitCode::SUCCESS)
        }),
        Event::Types => handle.look(|space| {
            let types = space.events().types()?;
            if handle.json {
                output::json(&types)?;
            } else {
                let rows = types
                    .into_iter()
                    .map(|known| [known.name, known.count.to_string(), known.last_seq.to_string()]);
                output::print(output::table(["TYPE", "COUNT", "LAST"], rows));
            }
            Ok(ExitCode::SUCCESS)
        }),
        Event::Length => handle.look(|space| {
            let (first, next) = (space.events().first()?, space.events().len()?);
            let length = next.saturating_sub(first);
            handle.say(&json!({ "length": length, "first": first, "next": next }), length)
        }),
        Event::Trim(trim) => handle.take(|space| {
            let events = space.events();
            let before = match (trim.before, trim.older_than, trim.keep) {
                (Some(before), ..) => before,
                (_, Some(age), _) => events.since_age(age)?,
                (.., keep) => events.len()?.saturating_sub(keep.unwrap_or_default()),
            };
            let deleted = events.trim(before)?;
            let first = events.first()?;
            let text = format!("deleted {}; the log begins with event {first}", listing::several(deleted, "event"));
            handle.say(&json!({ "deleted": deleted, "first": first }), text)
        }),
        Event::Verify => handle.look(|space| {
            let report = space.events().verify()?;
            let text = match &report.first_bad {
                None => format!("intact: {}", listing::several(report.checked, "event")),
                Some(bad) => {
                    format!(
                        "BROKEN at event {}, after {} good ones: {}",
                        bad.seq, report.checked, bad.reason
                    )
                }
            };
            handle.say(&report, text)?;
            Ok(if report.first_bad.is_none() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }),
    }
}

fn append(handle: &Handle, kind: Option<String>, payload: Option<String>) -> Outcome {
    // The parser has seen to it that both are there.
    let (kind, payload) = (kind.unwrap_or_default(), payload.unwrap_or_default());
    let payload = handle.input.json_argument("payload", &payload)?;
    handle.change(|space| {
        let seq = space.events().append(&kind, &payload)?;
        handle.say(&json!({ "seq": seq }), format_args!("appended event {seq}"))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    payload: Value,
}

fn append_batch(handle: &Handle, kind: Option<String>) -> Outcome {
    let events = handle.input.lines(|line| match &kind {
        Some(kind) => Ok((kind.clone(), input::json::<Value>(line, r#"{"user": 1}"#)?)),
        None => {
            let line: Line = input::json(line, r#"{"type": "login", "payload": {"user": 1}}"#)?;
            Ok((line.kind, line.payload))
        }
    })?;
    if events.is_empty() {
        let text = format!("there is no line on {}; nothing was appended", handle.input.name());
        return Err(Failure::Other(text));
    }
    handle.change(|space| {
        let seqs = space.events().append_batch(events)?;
        let (first, last) = (seqs.start, seqs.end - 1);
        let text = if first == last {
            format!("appended event {first}")
        } else {
            format!("appended events {first} to {last}")
        };
        handle.say(&json!({ "first": first, "last": last }), text)
    })
}

fn view(event: &Stored) -> Result<Value, Failure> {
    let payload = event.payload.to_value().map_err(|error| Failure::Other(error.to_string()))?;
    let hash: String = event.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "seq": event.seq,
        "type": event.event_type,
        "payload": payload,
        "at_ms": event.at_ms,
        "hash": hash,
    }))
}

fn print(events: &[Stored]) -> Result<(), Failure> {
    let rows = events.iter().map(|event| {
        let at = moment(event.at_ms)?;
        Ok([event.seq.to_string(), at, event.event_type.clone(), event.payload.as_str().to_owned()])
    });
    let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
    output::print(output::table(["SEQ", "AT", "TYPE", "PAYLOAD"], rows));
    Ok(())
}
