//! `duramen pack compact`: a full sync and the partial ones after it, made into one.

use super::{convert::Target, source::Read};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_access::{
    compact::{CompactError, Compacted, Compaction},
    convert::Format,
};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The base, the files of what came after it (the oldest first), and last the file to write
    #[arg(required = true, num_args = 3.., value_names = ["BASE", "PARTIAL", "OUT"])]
    files: Vec<PathBuf>,
    /// The format to write; without it, a pack if OUT ends with .dpack, else what the files are
    #[arg(long = "to", value_name = "FORMAT", value_enum)]
    format: Option<Target>,
    #[command(flatten)]
    read: Read,
}

impl From<CompactError> for Failure {
    fn from(error: CompactError) -> Failure {
        match error {
            CompactError::SameFile { .. } | CompactError::TooFew { .. } => Failure::Usage(error.to_string()),
            other => Failure::Other(other.to_string()),
        }
    }
}

pub(crate) fn run(context: &Context, compact: Compact) -> Outcome {
    let Compact { files: mut inputs, format, read } = compact;
    let to = inputs.pop().unwrap_or_default();
    let by_name = || Format::of_name(&to).filter(|format| *format == Format::Pack);
    let format = format.map(Format::from).or_else(by_name);
    let compaction = Compaction { inputs, to: to.clone(), format, read: read.options() };
    let Compacted { sync, of, format, copied, losses, file_bytes } = compaction.run()?;
    if context.json {
        let losses = losses.iter().map(
            |loss| json!({ "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example }),
        );
        output::json(&json!({
            "file": to,
            "format": format.name(),
            "size_bytes": file_bytes,
            "sync": sync.id,
            "kind": sync.kind_name(),
            "of": of,
            "resource_types": copied.resource_types,
            "resources": copied.resources,
            "entitlements": copied.entitlements,
            "grants": copied.grants,
            "assets": copied.assets,
            "losses": losses.collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::pairs(vec![
        ("written", to.display().to_string()),
        ("format", format.name().to_owned()),
        ("size", output::bytes(file_bytes)),
        ("sync", format!("{} ({})", sync.id, sync.kind_name())),
        ("of", of.join(", ")),
        ("resource types", copied.resource_types.to_string()),
        ("resources", copied.resources.to_string()),
        ("entitlements", copied.entitlements.to_string()),
        ("grants", copied.grants.to_string()),
        ("assets", copied.assets.to_string()),
    ]));
    super::convert::print_losses(&losses);
    Ok(ExitCode::SUCCESS)
}
