//! `duramen fn explain`.

use super::{graph, handle::Handle};
use crate::context::Outcome;
use clap::Args;
use serde_json::json;
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn explain 1a2b3c4d                                  an instance, with marks of what has happened
  duramen fn explain \"'SELECT 1' |=> 'a' ~> 'SELECT \\$a'\"     a function that was not started";

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// An instance's id, or a function as `start` takes it; `-` reads it from the standard input
    input: String,
}

pub(crate) async fn run(handle: &Handle, explain: Explain) -> Outcome {
    let text = graph::text(explain.input)?;
    let session = handle.connect().await?;
    let input = graph::evaluated(&session, text).await?;
    let tree: Option<String> = session.row("SELECT df.explain($1)", &[(&input, Type::TEXT)]).await?.get(0);
    let tree = tree.unwrap_or_default();
    handle.say(&json!({ "explanation": tree }), &tree)
}
