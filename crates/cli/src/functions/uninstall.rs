//! `duramen fn uninstall`.

use super::handle::{note, Handle};
use crate::{context::Outcome, output, progress};
use clap::Args;
use duramen_functions::schema;
use serde_json::json;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn uninstall postgres://postgres@localhost/shop
  duramen fn uninstall postgres://postgres@localhost/shop --force     also with instances that have not ended
It takes away the schemas, operators and settings, and what steps left in other databases of the server. Roles stay.";

#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// The database, as the role that installed the schema [default: --url or DURAMEN_FN_URL]
    pub(crate) url: Option<String>,
    /// Even if instances have not ended, or something else in the database depends on the schema and would go with it
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(handle: &Handle, uninstall: &Uninstall) -> Outcome {
    let done = progress::during("uninstalling", schema::uninstall(&handle.url, uninstall.force)).await?;
    let place = handle.target.describe();
    if handle.json {
        output::json(&json!({
            "database": place,
            "running": done.running,
            "elsewhere": done.elsewhere,
            "left": done.left,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(format_args!("{place} has no durable functions any more"));
    if !done.elsewhere.is_empty() {
        output::line(format_args!("cleared, too: {}", done.elsewhere.join(", ")));
    }
    for what in &done.left {
        note(format_args!("this stays: {what}"));
    }
    Ok(ExitCode::SUCCESS)
}
