//! `duramen fn install`.

use super::handle::{note, Handle};
use crate::{context::Outcome, output, progress};
use clap::Args;
use duramen_functions::schema;
use serde_json::json;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn install postgres://postgres@localhost/shop
  psql shop -c \"SELECT df.grant_usage('app')\"           then let roles use it
Run it again after an upgrade of Duramen, and after a restore from pg_dump, which leaves out the operators.";

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The database, as a role that may create schemas in it [default: --url or DURAMEN_FN_URL]
    pub(crate) url: Option<String>,
}

pub(crate) async fn run(handle: &Handle) -> Outcome {
    let done = progress::during("installing", schema::install(&handle.url)).await?;
    let place = handle.target.describe();
    if handle.json {
        output::json(&json!({
            "database": place,
            "from": done.from,
            "to": done.to,
            "operators_in": done.operators_in,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let before = match done.from {
        None => String::new(),
        Some(from) if from == done.to => " (it was there; its functions are made anew)".to_owned(),
        Some(from) => format!(" (from version {from})"),
    };
    output::line(format_args!("{place} has version {} of the schema df{before}", done.to));
    output::line(format_args!("the operators are in {}", done.operators_in));
    if done.operators_in != "pg_catalog" {
        note(format_args!(
            "who writes operators must name the schema: SET search_path = \"$user\", public, {}",
            done.operators_in
        ));
    }
    if done.from.is_none() {
        output::line(
            "next: SELECT df.grant_usage('ROLE') for those who may use it, and `duramen fn worker URL`",
        );
    }
    Ok(ExitCode::SUCCESS)
}
