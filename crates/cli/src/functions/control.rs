//! Changing an instance from outside: `duramen fn cancel`, `signal`, `pause`, `resume` and `delete`.

use super::{
    ending::Id,
    handle::{unknown, Handle},
};
use crate::{context::Outcome, failure::Failure};
use clap::Args;
use duramen_functions::inspect::{Action, Controlled};
use serde_json::json;

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
    pub(super) id: String,
    /// Why: the instance keeps it
    #[arg(long, value_name = "TEXT", default_value = "Cancelled by user")]
    reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The instance's id
    pub(super) id: String,
    /// The signal's name
    name: String,
    /// What goes with it: JSON, or text
    #[arg(default_value = "{}", allow_hyphen_values = true)]
    data: String,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The instance's id
    pub(super) id: String,
    /// Run this text in the place of the step that failed
    #[arg(long, value_name = "SQL")]
    step: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The id of an instance that has ended
    pub(super) id: String,
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

/// Does something with an instance.
async fn done(handle: &Handle, id: &str, action: &Action) -> Result<Controlled, Failure> {
    let session = handle.connect().await?;
    session.asked(async |client| action.run(client, id).await).await?.ok_or_else(|| unknown(id))
}

pub(crate) async fn resume(handle: &Handle, Resume { id, step }: &Resume) -> Outcome {
    let Controlled { message, .. } = done(handle, id, &Action::Resume { step: step.clone() }).await?;
    handle.say(&json!({ "id": id, "message": message }), &message)
}

pub(crate) async fn fork(handle: &Handle, Fork { id, from, step, label }: &Fork) -> Outcome {
    let action = Action::Fork { from: from.clone(), step: step.clone(), label: label.clone() };
    let fork = done(handle, id, &action).await?.fork.unwrap_or_default();
    handle.say(&json!({ "id": fork, "fork_of": id }), &fork)
}

pub(crate) async fn cancel(handle: &Handle, Cancel { id, reason }: &Cancel) -> Outcome {
    let Controlled { message, status_before, .. } =
        done(handle, id, &Action::Cancel { reason: Some(reason.clone()) }).await?;
    let status = status_before.unwrap_or_default();
    let cancelled = matches!(status.as_str(), "pending" | "running");
    let value = json!({ "id": id, "cancelled": cancelled, "status_before": status, "reason": reason });
    handle.say(&value, message)
}

pub(crate) async fn signal(handle: &Handle, Signal { id, name, data }: &Signal) -> Outcome {
    let action = Action::Signal { name: name.clone(), data: Some(data.clone()) };
    let Controlled { message, .. } = done(handle, id, &action).await?;
    handle.say(&json!({ "id": id, "signal": name }), message)
}

/// Does what takes an id alone.
pub(crate) async fn send(handle: &Handle, action: Action, Id { id }: &Id) -> Outcome {
    let Controlled { message, .. } = done(handle, id, &action).await?;
    handle.say(&json!({ "id": id, "message": message }), &message)
}
