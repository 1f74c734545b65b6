//! The sessions in a branch: listed, and ended.

use crate::{
    context::{Context, Outcome},
    output,
};
use duramen_api::model::CancelSession;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen branch sessions try
  duramen branch sessions try --json | jq '.[] | select(.state == \"active\")'";
pub(super) const CANCEL_EXAMPLES: &str = "\
Examples:
  duramen branch cancel try 4711          the statement that it runs; the session goes on
  duramen branch cancel try 4711 --end    the session";

/// How much of a statement a table shows, in characters.
const STATEMENT_CHARS: usize = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// The branch's name
    name: String,
    /// The session's process, as `duramen branch sessions` names it
    process: i32,
    /// End the session, and not its statement alone
    #[arg(long)]
    end: bool,
}

pub(super) async fn list(context: &Context, name: &str) -> Outcome {
    let sessions = context.connect().await?.branch_sessions(name).await?;
    if context.json {
        output::json(&sessions)?;
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        output::line(format_args!("nobody is in {name}"));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = sessions.into_iter().map(|session| {
        let statement = session.statement.unwrap_or_default();
        let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        [
            session.process.to_string(),
            output::printable(&session.role),
            output::printable(&session.database),
            output::printable(&session.application.unwrap_or_default()),
            session.state.unwrap_or_default(),
            session.since.map(output::time).unwrap_or_default(),
            output::printable(&words.chars().take(STATEMENT_CHARS).collect::<String>()),
        ]
    });
    let head = ["PROCESS", "ROLE", "DATABASE", "APPLICATION", "STATE", "SINCE", "STATEMENT"];
    output::print(output::table(head, rows));
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn cancel(context: &Context, cancel: Cancel) -> Outcome {
    let Cancel { name, process, end } = cancel;
    let mut connection = context.connect().await?;
    let done = connection.cancel_session(&name, &CancelSession { process, end }).await?;
    if context.json {
        output::json(&done)?;
    } else if end {
        output::line(format_args!("ended the session of process {process} in {name}"));
    } else {
        output::line(format_args!("cancelled what process {process} runs in {name}"));
    }
    Ok(ExitCode::SUCCESS)
}
