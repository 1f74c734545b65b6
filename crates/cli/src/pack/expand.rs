//! `duramen pack expand`: what follows from grants, written into their file.

use super::source::Read;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_access::{
    expansion::{Expanded, Expansion, Scope},
    graph::Loss,
};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Expand {
    /// The file: a pack of a graph, or a .c1z file of version 1 or 3; it is replaced when the new one is complete
    file: PathBuf,
    /// Which sync [default: the latest full one that has ended]; others stay as they are
    #[arg(long, value_name = "ID")]
    sync: Option<String>,
    /// Look only at what follows from grants that are marked as yet to be expanded, not at all entitlements
    #[arg(long)]
    marked: bool,
    /// With --marked: also at what follows from an entitlement that has got plain grants since the last time
    #[arg(long, value_name = "ENTITLEMENT", requires = "marked")]
    changed: Vec<String>,
    #[command(flatten)]
    read: Read,
}

pub(crate) fn run(context: &Context, expand: Expand) -> Outcome {
    let Expand { file, sync, marked, changed, read } = expand;
    let scope = if marked { Scope::Marked(changed) } else { Scope::All };
    let expansion = Expansion { file, sync, scope, read: read.options() };
    let expanded = expansion.run().map_err(|error| Failure::Other(error.to_string()))?;
    let Expanded { sync, derived, updated, unmarked, is_written, left_out, losses } = expanded;
    for Loss { row, what, rows, example } in &left_out {
        output::warning(&format_args!("not expanded: {what}, of {rows} {row} rows, such as {example:?}"));
    }
    if context.json {
        let told = |all: &[Loss]| -> Vec<_> {
            let each = all.iter().map(|loss| {
                json!({ "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example })
            });
            each.collect()
        };
        output::json(&json!({
            "file": expansion.file,
            "sync": sync.id,
            "derived": derived,
            "updated": updated,
            "unmarked": unmarked,
            "written": is_written,
            "left_out": told(&left_out),
            "losses": told(&losses),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_written {
        output::line(format_args!(
            "{derived} grants follow and were added, {updated} follow from more than they said, {unmarked} were marked"
        ));
    } else {
        output::line("nothing follows that is not there; the file stays as it is");
    }
    super::convert::print_losses(&losses);
    Ok(ExitCode::SUCCESS)
}
