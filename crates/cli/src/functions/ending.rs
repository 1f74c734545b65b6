//! How an instance stands and how it ended: `duramen fn status`, `result` and `await`.

use super::{
    handle::{unknown, Handle, Session},
    text,
};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output, parse, progress,
};
use clap::Args;
use duramen_functions::client::Waiter;
use serde::Serialize;
use serde_json::{json, value::RawValue};
use std::{process::ExitCode, time::Duration};
use tokio_postgres::types::Type;

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  duramen fn status 1a2b3c4d       pending, running, completed, failed or cancelled";
pub(crate) const RESULT_EXAMPLES: &str = "\
Examples:
  duramen fn result 1a2b3c4d | jq '.rows[0]'";
pub(crate) const AWAIT_EXAMPLES: &str = "\
Examples:
  duramen fn await 1a2b3c4d
  duramen fn await 1a2b3c4d --timeout 5m && echo completed";

/// Longer than anybody waits, and short enough to be added to a clock.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Which instance.
#[derive(Debug, Args)]
pub(crate) struct Id {
    /// The instance's id
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Await {
    /// The instance's id
    pub(super) id: String,
    /// How long to wait [default: for ever]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    timeout: Option<Duration>,
}

/// How an instance stands.
#[derive(Debug, Serialize)]
pub(crate) struct Ending {
    id: String,
    status: String,
    /// Of one that has completed.
    result: Option<Box<RawValue>>,
    /// Why it failed, or was cancelled.
    error: Option<String>,
}

impl Ending {
    pub(crate) async fn read(session: &Session<'_>, id: &str) -> Result<Ending, Failure> {
        let row = session
            .maybe("SELECT status, output FROM df.instance_info($1)", &[(&id, Type::TEXT)])
            .await?
            .ok_or_else(|| unknown(id))?;
        let status: String = row.get(0);
        let output: Option<String> = row.get(1);
        let (result, error) = match status.as_str() {
            "completed" => (output.and_then(text::raw), None),
            _ => (None, output),
        };
        Ok(Ending { id: id.to_owned(), status, result, error })
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
    }

    /// Prints the result; an instance that has none ends the command with status 1.
    pub(crate) fn report(&self, handle: &Handle) -> Outcome {
        let completed = self.status == "completed";
        if handle.json {
            output::json(self)?;
            return Ok(if completed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) });
        }
        if completed {
            output::line(self.result.as_ref().map_or("null", |result| result.get()));
            return Ok(ExitCode::SUCCESS);
        }
        let id = &self.id;
        let why = self.error.as_deref().unwrap_or("no reason was given");
        Err(Failure::Other(match self.status.as_str() {
            "failed" => format!("instance {id} failed: {why}; `duramen fn explain {id}` shows where"),
            "cancelled" => format!("instance {id} was cancelled: {why}"),
            status => format!("instance {id} is {status} and has no result yet; wait: duramen fn await {id}"),
        }))
    }
}

/// Waits for the end of an instance.
pub(crate) async fn after(
    session: &Session<'_>,
    waiter: &Waiter,
    id: &str,
    limit: Option<Duration>,
) -> Result<Ending, Failure> {
    let end = waiter.wait(id, limit.unwrap_or(FOR_EVER).min(FOR_EVER));
    progress::during("waiting for the instance", end).await?;
    Ending::read(session, id).await
}

pub(crate) async fn wait(handle: &Handle, wanted: &Await) -> Outcome {
    let session = handle.connect().await?;
    let mut ending = Ending::read(&session, &wanted.id).await?;
    if !ending.has_ended() {
        let waiter = Waiter::connect(&handle.url).await?;
        ending = after(&session, &waiter, &wanted.id, wanted.timeout).await?;
    }
    ending.report(handle)
}

pub(crate) async fn result(handle: &Handle, Id { id }: &Id) -> Outcome {
    let session = handle.connect().await?;
    Ending::read(&session, id).await?.report(handle)
}

pub(crate) async fn status(handle: &Handle, Id { id }: &Id) -> Outcome {
    let session = handle.connect().await?;
    let row = session.row("SELECT df.status($1)", &[(id, Type::TEXT)]).await?;
    let status: String = row.get::<_, Option<String>>(0).ok_or_else(|| unknown(id))?;
    handle.say(&json!({ "id": id, "status": status }), &status)
}
