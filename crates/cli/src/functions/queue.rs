//! `duramen fn queue`: the queues of the connected role, what waits in them, and their limits.

use super::{
    handle::{Handle, Session},
    text,
};
use crate::{context::Outcome, failure::Failure, output, parse};
use clap::{Args, Subcommand};
use duramen_functions::inspect::{self, Queue};
use serde_json::json;
use std::{cmp::Reverse, time::Duration};
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn queue set mail --concurrency 10 --rate 100 --per 1m
  duramen fn start 'SELECT send_mail(7)' --queue mail --priority 1
  duramen fn queue list
  duramen fn queue pause mail";
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  duramen fn queue list
  duramen fn queue list --json | jq '.queues[] | select(.waiting > 0) | .name'";
pub(crate) const SET_EXAMPLES: &str = "\
Examples:
  duramen fn queue set reports --concurrency 4
  duramen fn queue set api --rate 50 --per 1s                       at most 50 begin in any second
  duramen fn queue set tenants --partition-by tenant --partition-concurrency 1
  duramen fn queue set reports                                      no limits any more";
pub(crate) const PAUSE_EXAMPLES: &str = "\
Examples:
  duramen fn queue pause mail        what was let in goes on; what is started waits";
pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  duramen fn queue resume mail";
pub(crate) const DRAIN_EXAMPLES: &str = "\
Examples:
  duramen fn queue drain mail        what waits is let in; what is started is refused";
pub(crate) const DROP_EXAMPLES: &str = "\
Examples:
  duramen fn queue drop mail         one that is not empty is refused: drain it first";

const SET: &str = "SELECT df.queue($1, concurrency => $2, worker_concurrency => $3, rate => $4, \
    per => make_interval(secs => $5), partition_by => $6, partition_concurrency => $7)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List queues: their limits, what waits, and what goes on
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Make a queue, or change its limits; they hold for what waits, too
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Let nothing in until it is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Name),
    /// Open a queue that was paused or drained
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(Name),
    /// Take nothing more, and let in what waits
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Name),
    /// Remove a queue that is empty
    #[command(after_help = DROP_EXAMPLES)]
    Drop(Name),
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The queue's name
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The queue's name
    name: String,
    /// How many of its instances may go on at once [default: any number]
    #[arg(long, value_name = "N")]
    concurrency: Option<i32>,
    /// How many of their long steps one worker may run at once [default: any number]
    #[arg(long, value_name = "N")]
    worker_concurrency: Option<i32>,
    /// How many may begin within --per [default: any number]
    #[arg(long, value_name = "N")]
    rate: Option<i32>,
    /// The time that --rate is for
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse::span, requires = "rate")]
    per: Duration,
    /// The key of the input that says to which partition an instance belongs; partitions are served in turn
    #[arg(long, value_name = "KEY")]
    partition_by: Option<String>,
    /// How many of one partition may go on at once [default: any number]
    #[arg(long, value_name = "N")]
    partition_concurrency: Option<i32>,
}

fn limits(queue: &Queue) -> String {
    let number = |what: &str, limit: Option<i32>| limit.map(|limit| format!("{limit} {what}"));
    let limits = [
        number("at once", queue.concurrency),
        number("of a partition", queue.partition_concurrency),
        number("on a worker", queue.worker_concurrency),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if limits.is_empty() {
        "-".to_owned()
    } else {
        limits.join(", ")
    }
}

/// How many were let in within the time of the rate, of how many.
fn let_in(queue: &Queue) -> String {
    let rate = queue.rate.zip(queue.per_s);
    rate.map_or_else(
        || "-".to_owned(),
        |(rate, per)| format!("{} of {rate} in {}", queue.admitted.unwrap_or(0), text::seconds(per)),
    )
}

/// The queue in a few words; `None`: there is nothing in it.
fn briefly(queue: &Queue) -> Option<String> {
    if queue.waiting + queue.delayed + queue.running == 0 {
        return None;
    }
    let oldest =
        queue.oldest_s.map_or_else(String::new, |oldest| format!(" (oldest {})", text::seconds(oldest)));
    let rate = queue.rate.map_or_else(String::new, |_| format!(" let in {}", let_in(queue)));
    let name = text::short(&queue.name, 30);
    Some(format!("{name}: waiting {}{oldest} running {}{rate}", queue.waiting, queue.running))
}

/// How many queues a screen shows, and how many a line.
const SHOWN_MAX: (usize, usize) = (20, 5);

/// The fullest queues first.
fn by_depth(queues: &[Queue]) -> Vec<&Queue> {
    let mut queues: Vec<&Queue> = queues.iter().collect();
    queues.sort_by_key(|queue| (Reverse(queue.waiting), Reverse(queue.running), &queue.role, &queue.name));
    queues
}

/// The fullest queues as a table for a screen, and how many more there are.
pub(crate) fn fullest(queues: &[Queue]) -> String {
    let shown = by_depth(queues);
    let more = match shown.len().saturating_sub(SHOWN_MAX.0) {
        0 => String::new(),
        1 => "and 1 more queue\n".to_owned(),
        more => format!("and {more} more queues\n"),
    };
    table(shown.into_iter().take(SHOWN_MAX.0)) + &more
}

/// The fullest queues in a line, and how many more have something in them.
pub(crate) fn line(queues: &[Queue]) -> String {
    let all: Vec<String> = by_depth(queues).into_iter().filter_map(briefly).collect();
    let more = match all.len().saturating_sub(SHOWN_MAX.1) {
        0 => String::new(),
        more => format!("; {more} more"),
    };
    all.iter().take(SHOWN_MAX.1).cloned().collect::<Vec<_>>().join("; ") + &more
}

/// The queues that a role sees.
pub(crate) async fn read(session: &Session<'_>) -> Result<Vec<Queue>, Failure> {
    session.asked(async |client| inspect::queues(client).await).await
}

/// The queues as a table.
fn table<'a>(queues: impl Iterator<Item = &'a Queue>) -> String {
    output::table(
        ["QUEUE", "ROLE", "STATE", "WAITING", "OLDEST", "DELAYED", "RUNNING", "LET IN", "LIMITS"],
        queues.map(|queue| {
            [
                text::short(&queue.name, 30),
                text::short(&queue.role, 20),
                queue.state.clone(),
                queue.waiting.to_string(),
                queue.oldest_s.map_or_else(|| "-".to_owned(), text::seconds),
                queue.delayed.to_string(),
                queue.running.to_string(),
                let_in(queue),
                limits(queue),
            ]
        }),
    )
}

pub(crate) async fn run(handle: &Handle, queue: Command) -> Outcome {
    let (sql, Name { name }) = match queue {
        Command::List => {
            let queues = read(&handle.connect().await?).await?;
            let text = match queues.is_empty() {
                true => "no queues; make one with `duramen fn queue set NAME`".to_owned(),
                false => table(queues.iter()),
            };
            return handle.say(&json!({ "queues": queues }), text);
        }
        Command::Set(limits) => return set(handle, &limits).await,
        Command::Pause(name) => ("SELECT df.pause_queue($1)", name),
        Command::Resume(name) => ("SELECT df.resume_queue($1)", name),
        Command::Drain(name) => ("SELECT df.drain_queue($1)", name),
        Command::Drop(name) => ("SELECT df.drop_queue($1)", name),
    };
    let session = handle.connect().await?;
    let said: String = session.row(sql, &[(&name, Type::TEXT)]).await?.get(0);
    handle.say(&json!({ "queue": name, "message": said }), &said)
}

async fn set(handle: &Handle, limits: &Set) -> Outcome {
    let session = handle.connect().await?;
    let parameters: &[(_, Type)] = &[
        (&limits.name as _, Type::TEXT),
        (&limits.concurrency as _, Type::INT4),
        (&limits.worker_concurrency as _, Type::INT4),
        (&limits.rate as _, Type::INT4),
        (&limits.per.as_secs_f64() as _, Type::FLOAT8),
        (&limits.partition_by as _, Type::TEXT),
        (&limits.partition_concurrency as _, Type::INT4),
    ];
    session.row(SET, parameters).await?;
    handle.say(&json!({ "queue": limits.name }), format_args!("Queue {} set", limits.name))
}

#[cfg(test)]
#[path = "../../tests/unit/shown_queues.rs"]
mod tests;
