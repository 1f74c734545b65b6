//! Changing an instance from outside: `duramen fn cancel`, `signal`, `pause`, `resume` and `delete`.

use super::{
    ending::Id,
    handle::{unknown, Handle},
};
use crate::context::Outcome;
use clap::Args;
use serde_json::json;
use tokio_postgres::types::Type;

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  duramen fn cancel 1a2b3c4d
  duramen fn cancel 1a2b3c4d --reason 'the customer called'";
pub(crate) const SIGNAL_EXAMPLES: &str = "\
Examples:
  duramen fn signal 1a2b3c4d approved
  duramen fn signal 1a2b3c4d approved '{\"by\": \"Ada\"}'";
pub(crate) const PAUSE_EXAMPLES: &str = "\
Examples:
  duramen fn pause 1a2b3c4d        what runs already runs to its end";
pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  duramen fn resume 1a2b3c4d
  duramen fn resume 1a2b3c4d --step 'INSERT INTO orders VALUES (7)'    in the place of the step that failed";
pub(crate) const FORK_EXAMPLES: &str = "\
Examples:
  duramen fn fork 1a2b3c4d                            goes on where that one failed
  duramen fn fork 1a2b3c4d --from invoice             does the step named `invoice` again, and what follows it
  duramen fn fork 1a2b3c4d --from invoice --step 'SELECT 1' --label trial";
pub(crate) const DELETE_EXAMPLES: &str = "\
Examples:
  duramen fn delete 1a2b3c4d       one that has not ended is refused: cancel it first";

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The instance's id
    id: String,
    /// Why: the instance keeps it
    #[arg(long, value_name = "TEXT", default_value = "Cancelled by user")]
    reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The instance's id
    id: String,
    /// The signal's name
    name: String,
    /// What goes with it: JSON, or text
    #[arg(default_value = "{}", allow_hyphen_values = true)]
    data: String,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The instance's id
    id: String,
    /// Run this text in the place of the step that failed
    #[arg(long, value_name = "SQL")]
    step: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The id of an instance that has ended
    id: String,
    /// Do this step again, and what follows it: a node id of `duramen fn show`, or the name of a result
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Run this text in the place of that step, or of the one that failed
    #[arg(long, value_name = "SQL")]
    step: Option<String>,
    /// The label of the new instance [default: that of the first]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
}

pub(crate) async fn resume(handle: &Handle, Resume { id, step }: &Resume) -> Outcome {
    let session = handle.connect().await?;
    let parameters = [(id as _, Type::TEXT), (step as _, Type::TEXT)];
    let said: String = session.row("SELECT df.resume($1, $2)", &parameters).await?.get(0);
    handle.say(&json!({ "id": id, "message": said }), &said)
}

pub(crate) async fn fork(handle: &Handle, Fork { id, from, step, label }: &Fork) -> Outcome {
    let session = handle.connect().await?;
    let parameters =
        [(id as _, Type::TEXT), (from as _, Type::TEXT), (step as _, Type::TEXT), (label as _, Type::TEXT)];
    let fork: String = session.row("SELECT df.fork($1, $2, $3, $4)", &parameters).await?.get(0);
    handle.say(&json!({ "id": fork, "fork_of": id }), &fork)
}

pub(crate) async fn cancel(handle: &Handle, Cancel { id, reason }: &Cancel) -> Outcome {
    let session = handle.connect().await?;
    let row = session.row("SELECT df.status($1)", &[(id, Type::TEXT)]).await?;
    let status: String = row.get::<_, Option<String>>(0).ok_or_else(|| unknown(id))?;
    let row = session.row("SELECT df.cancel($1, $2)", &[(id, Type::TEXT), (reason, Type::TEXT)]).await?;
    let said: String = row.get(0);
    let cancelled = matches!(status.as_str(), "pending" | "running");
    let value = json!({ "id": id, "cancelled": cancelled, "status_before": status, "reason": reason });
    match cancelled {
        true => handle.say(&value, said),
        false => {
            handle.say(&value, format_args!("instance {id} is {status} already: there is nothing to cancel"))
        }
    }
}

pub(crate) async fn signal(handle: &Handle, Signal { id, name, data }: &Signal) -> Outcome {
    let session = handle.connect().await?;
    let parameters = [(id as _, Type::TEXT), (name as _, Type::TEXT), (data as _, Type::TEXT)];
    session.row("SELECT df.signal($1, $2, $3)", &parameters).await?;
    handle.say(&json!({ "id": id, "signal": name }), format_args!("signal {name} was sent to {id}"))
}

/// Runs one of the functions that take an id and say what they did.
pub(crate) async fn send(handle: &Handle, sql: &str, Id { id }: &Id) -> Outcome {
    let session = handle.connect().await?;
    let said: String = session.row(sql, &[(id, Type::TEXT)]).await?.get(0);
    handle.say(&json!({ "id": id, "message": said }), &said)
}
