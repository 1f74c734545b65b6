//! `duramen fn install`.

use super::handle::{note, Handle};
use crate::{context::Outcome, output, progress};
use clap::Args;
use duramen_functions::schema::{self, WorkerRole};
use serde_json::json;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn install postgres://postgres@localhost/shop
  duramen fn install postgres://postgres@localhost/shop --worker-role df_worker --submitter app
  psql shop -c \"SELECT df.grant_usage('app')\"           then let roles use it
Run it again after an upgrade of Duramen, and after a restore from pg_dump, which leaves out the operators.";

#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The database, as a role that may create schemas in it [default: --url or DURAMEN_FN_URL]
    pub(crate) url: Option<String>,
    /// Make everything the property of this role, for workers to connect as; it is made, and is no superuser
    #[arg(long, value_name = "ROLE")]
    worker_role: Option<String>,
    /// With --worker-role: a role that may use durable functions, and that workers may act for (repeatable)
    #[arg(long = "submitter", value_name = "ROLE", requires = "worker_role")]
    submitters: Vec<String>,
}

pub(crate) async fn run(handle: &Handle, install: &Install) -> Outcome {
    let role = install
        .worker_role
        .as_ref()
        .map(|name| WorkerRole { name: name.clone(), submitters: install.submitters.clone() });
    let done = progress::during("installing", schema::install_for(&handle.url, role.as_ref())).await?;
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
    if let Some(role) = &role {
        let name = &role.name;
        output::line(format_args!(
            "next: give {name} a way to log in, and run `duramen fn worker` as {name}"
        ));
    } else if done.from.is_none() {
        output::line(
            "next: SELECT df.grant_usage('ROLE') for those who may use it, and `duramen fn worker URL`",
        );
    }
    Ok(ExitCode::SUCCESS)
}
