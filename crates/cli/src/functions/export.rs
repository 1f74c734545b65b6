//! `duramen fn export`: everything that is kept of an instance, as one JSON document.

use super::{
    ending::Id,
    handle::{unknown, Handle},
};
use crate::{context::Outcome, output};
use std::process::ExitCode;
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn export 1a2b3c4d > instance.json
  duramen fn export 1a2b3c4d | jq '.timeline[] | select(.event == \"node failed\")'";

pub(crate) async fn run(handle: &Handle, id: &Id) -> Outcome {
    let session = handle.connect().await?;
    let row = session.row("SELECT df.export_instance($1)::text", &[(&id.id, Type::TEXT)]).await?;
    let exported: Option<String> = row.get(0);
    output::line(&exported.ok_or_else(|| unknown(&id.id))?);
    Ok(ExitCode::SUCCESS)
}
