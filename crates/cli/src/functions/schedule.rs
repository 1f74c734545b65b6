//! `duramen fn schedule`: what is started at which times.

use super::{graph, handle::Handle, text};
use crate::{context::Outcome, output, parse};
use clap::{Args, Subcommand, ValueEnum};
use duramen_functions::inspect::{self, Scheduled};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn schedule set nightly 'CALL tidy()' --cron '0 3 * * *' --time-zone Europe/Berlin
  duramen fn schedule list
  duramen fn schedule pause nightly";
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  duramen fn schedule list
  duramen fn schedule list --json | jq '.schedules[] | select(.last_status == \"failed\") | .name'";
pub(crate) const SET_EXAMPLES: &str = "\
Examples:
  duramen fn schedule set nightly 'CALL tidy()' --cron '0 3 * * *' --time-zone Europe/Berlin
  duramen fn schedule set poll 'SELECT poll()' --every 30s --overlap skip --jitter 5s
  duramen fn schedule set report \"'SELECT a()' ~> 'SELECT b()'\" --cron '0 9 * * mon-fri' --catch-up 1day --queue reports";
pub(crate) const PAUSE_EXAMPLES: &str = "\
Examples:
  duramen fn schedule pause nightly        what is missed meanwhile is not made up for";
pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  duramen fn schedule resume nightly";
pub(crate) const TRIGGER_EXAMPLES: &str = "\
Examples:
  duramen fn schedule trigger nightly      prints the id of the instance";
pub(crate) const BACKFILL_EXAMPLES: &str = "\
Examples:
  duramen fn schedule backfill nightly 2026-11-01T00:00:00Z 2026-11-08T00:00:00Z";
pub(crate) const DROP_EXAMPLES: &str = "\
Examples:
  duramen fn schedule drop nightly         what it has started goes on";

const SET: &str = "SELECT df.schedule($1, $2, cron => $3, every => make_interval(secs => $4), time_zone => $5, \
    overlap => $6, catch_up => make_interval(secs => $7), jitter => make_interval(secs => $8), label => $9, queue => $10)";
const BACKFILL: &str = "SELECT df.backfill_schedule($1, $2, $3)";

#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    /// List schedules, with their next and their last time
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Make a schedule, or change it
    #[command(after_help = SET_EXAMPLES)]
    Set(Box<Set>),
    /// Start nothing until it is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Name),
    /// Resume a paused schedule
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(Name),
    /// Start an instance now
    #[command(after_help = TRIGGER_EXAMPLES)]
    Trigger(Name),
    /// Start an instance for each time between two that are past
    #[command(after_help = BACKFILL_EXAMPLES)]
    Backfill(Backfill),
    /// Remove a schedule
    #[command(after_help = DROP_EXAMPLES)]
    Drop(Name),
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The schedule's name
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// The schedule's name
    name: String,
    /// The first time
    begin: Timestamp,
    /// The last time
    end: Timestamp,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The schedule's name
    name: String,
    /// SQL, an expression such as "'SELECT 1' ~> 'SELECT 2'", or an envelope; `-` reads it from the standard input
    graph: String,
    /// The times, in five fields: minute, hour, day, month, weekday
    #[arg(long, value_name = "FIELDS", required_unless_present = "every", conflicts_with = "every")]
    cron: Option<String>,
    /// The time zone of --cron
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Or an interval, from now on
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    every: Option<Duration>,
    /// What happens when the instance before still goes on
    #[arg(long, value_enum, default_value_t = Overlap::Skip)]
    overlap: Overlap,
    /// Make up for times that were missed, if they are not longer ago than this
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "1m")]
    catch_up: Duration,
    /// Put each time off by a part of this
    #[arg(long, value_name = "SPAN", value_parser = parse::span, default_value = "0s")]
    jitter: Duration,
    /// The label of its instances
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The queue in which its instances wait
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Overlap {
    /// Start nothing
    Skip,
    /// Start another one beside it
    Allow,
    /// Start one when it has ended
    Buffer,
    /// Cancel it and start another one
    Cancel,
}

impl Overlap {
    fn name(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Allow => "allow",
            Overlap::Buffer => "buffer",
            Overlap::Cancel => "cancel",
        }
    }
}

fn times(schedule: &Scheduled) -> String {
    match (&schedule.cron, schedule.every_s) {
        (Some(cron), _) => format!("{cron} ({})", schedule.time_zone),
        (None, every) => format!("every {}", text::seconds(every.unwrap_or_default())),
    }
}

fn moment(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), output::time)
}

pub(crate) async fn run(handle: &Handle, schedule: Schedule) -> Outcome {
    let (sql, Name { name }) = match schedule {
        Schedule::List => return list(handle).await,
        Schedule::Set(set) => return self::set(handle, *set).await,
        Schedule::Backfill(Backfill { name, begin, end }) => {
            let session = handle.connect().await?;
            let parameters: &[(_, Type)] =
                &[(&name as _, Type::TEXT), (&begin as _, Type::TIMESTAMPTZ), (&end as _, Type::TIMESTAMPTZ)];
            let said: String = session.row(BACKFILL, parameters).await?.get(0);
            return handle.say(&json!({ "schedule": name, "message": said }), &said);
        }
        Schedule::Trigger(Name { name }) => {
            let session = handle.connect().await?;
            let row = session.row("SELECT df.trigger_schedule($1)", &[(&name, Type::TEXT)]).await?;
            let id: String = row.get(0);
            return handle.say(&json!({ "id": id, "schedule": name }), &id);
        }
        Schedule::Pause(name) => ("SELECT df.pause_schedule($1)", name),
        Schedule::Resume(name) => ("SELECT df.resume_schedule($1)", name),
        Schedule::Drop(name) => ("SELECT df.drop_schedule($1)", name),
    };
    let session = handle.connect().await?;
    let said: String = session.row(sql, &[(&name, Type::TEXT)]).await?.get(0);
    handle.say(&json!({ "schedule": name, "message": said }), &said)
}

async fn list(handle: &Handle) -> Outcome {
    let schedules = handle.connect().await?.asked(async |client| inspect::schedules(client).await).await?;
    if schedules.is_empty() && !handle.json {
        return handle.say(&json!({}), "no schedules; make one with `duramen fn schedule set NAME`");
    }
    let table = output::table(
        ["SCHEDULE", "TIMES", "OVERLAP", "NEXT", "LAST", "STATUS", "STARTED", "SKIPPED"],
        schedules.iter().map(|schedule| {
            [
                text::short(&schedule.name, 30),
                times(schedule),
                schedule.overlap.clone(),
                if schedule.paused { "paused".to_owned() } else { moment(schedule.next_at) },
                moment(schedule.last_at),
                text::cell(schedule.last_status.as_deref(), 10),
                schedule.started.to_string(),
                schedule.skipped.to_string(),
            ]
        }),
    );
    handle.say(&json!({ "schedules": schedules }), table)
}

async fn set(handle: &Handle, set: Set) -> Outcome {
    let text = graph::text(set.graph)?;
    let session = handle.connect().await?;
    let graph = graph::evaluated(&session, text).await?;
    let (every, overlap) = (set.every.map(|every| every.as_secs_f64()), set.overlap.name());
    let (catch_up, jitter) = (set.catch_up.as_secs_f64(), set.jitter.as_secs_f64());
    let parameters: &[(_, Type)] = &[
        (&set.name as _, Type::TEXT),
        (&graph as _, Type::TEXT),
        (&set.cron as _, Type::TEXT),
        (&every as _, Type::FLOAT8),
        (&set.time_zone as _, Type::TEXT),
        (&overlap as _, Type::TEXT),
        (&catch_up as _, Type::FLOAT8),
        (&jitter as _, Type::FLOAT8),
        (&set.label as _, Type::TEXT),
        (&set.queue as _, Type::TEXT),
    ];
    session.row(SET, parameters).await?;
    handle.say(&json!({ "schedule": set.name }), format_args!("Schedule {} set", set.name))
}
