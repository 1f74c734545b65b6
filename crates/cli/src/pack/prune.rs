//! `duramen pack prune`: old syncs taken out of a file.

use super::source::Read;
use crate::{
    context::{Context, Outcome},
    output,
};
use clap::Args;
use duramen_access::prune::{Pruned, Pruning};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode, time::Duration};

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// The file: a pack of a graph, or a .c1z file of version 1; it is replaced when the new one is complete
    file: PathBuf,
    /// How many full syncs that have ended stay
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Also take out what ended longer ago than this, such as 30d, but never the last complete sync
    #[arg(long, value_name = "SPAN", value_parser = crate::parse::span)]
    older_than: Option<Duration>,
    #[command(flatten)]
    read: Read,
}

pub(crate) fn run(context: &Context, prune: Prune) -> Outcome {
    let Prune { file, keep, older_than, read } = prune;
    let older_than_s = older_than.map(|span| span.as_secs());
    let pruning = Pruning { file, keep: keep as usize, older_than_s, read: read.options() };
    let Pruned { removed, kept, losses } = pruning.run()?;
    if context.json {
        let ids = |syncs: &[duramen_access::graph::Sync]| -> Vec<String> {
            syncs.iter().map(|sync| sync.id.clone()).collect()
        };
        output::json(&json!({ "file": pruning.file, "removed": ids(&removed), "kept": ids(&kept) }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for sync in &removed {
        output::line(format_args!("removed {} ({})", sync.id, sync.kind_name()));
    }
    output::line(format_args!("{} removed, {} kept", removed.len(), kept.len()));
    super::convert::print_losses(&losses);
    Ok(ExitCode::SUCCESS)
}
