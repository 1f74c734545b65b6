//! `duramen fn adopt`.

use super::handle::Handle;
use crate::{context::Outcome, progress};
use clap::{Args, ValueEnum};
use duramen_functions::schema::{self, External};
use serde_json::json;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn adopt postgres://postgres@localhost/shop --external=skip    a branch to try things on
  duramen fn adopt postgres://postgres@localhost/shop --external=run     the original is gone, and this replaces it
Outside effects are HTTP calls, steps in another database, and statements that act on the whole server, such as
CREATE DATABASE. Decide once; instances that are started afterwards belong to this copy, and run normally.";

/// What becomes of what reaches outside.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Rule {
    /// Such a step fails, with SQLSTATE 2F003
    Skip,
    /// Such a step does nothing and completes with the result null, or with the answer that a rehearsal has for it
    Stub,
    /// Such a step runs: choose this only if the original no longer runs
    Run,
}

impl Rule {
    pub(super) fn external(self) -> External {
        match self {
            Rule::Skip => External::Skip,
            Rule::Stub => External::Stub,
            Rule::Run => External::Run,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Adopt {
    /// The copy, as the role that owns the schema [default: --url or DURAMEN_FN_URL]
    pub(crate) url: Option<String>,
    /// What becomes of the steps of its instances that reach outside the database
    #[arg(long, value_enum, value_name = "RULE")]
    external: Rule,
}

pub(crate) async fn run(handle: &Handle, adopt: &Adopt) -> Outcome {
    let external = adopt.external.external();
    let name = external.name();
    let done = progress::during("adopting", schema::adopt(&handle.url, external)).await?;
    let place = handle.target.describe();
    let value = json!({
        "database": place,
        "adopted": done.instances.is_some(),
        "instances": done.instances,
        "external": done.instances.map(|_| name),
    });
    let said = match done.instances {
        None => format!("{place} is the copy that its instances were begun in: nothing to adopt"),
        Some(many) => format!(
            "{place} has adopted {many} instances that go on; what they do outside: {name}\nnext: `duramen fn worker URL`"
        ),
    };
    handle.say(&value, said)
}
