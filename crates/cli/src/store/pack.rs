//! Branches into packs and out of them: `duramen store export` and `import`.

use super::handle::Handle;
use crate::{
    context::Outcome,
    failure::Failure,
    output,
    pack::file::{chain, check_level, open_branch, Bases},
    progress::Steps,
};
use clap::Args;
use duramen_pack::{branch, branch::ExportOptions, container::hex};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write; an existing one is replaced once the new one is complete
    file: PathBuf,
    /// Leave out what this pack has; if its own base is in another folder, name that first (repeatable)
    #[arg(long, value_name = "PACK")]
    base: Vec<PathBuf>,
    /// How hard to compress, 1 to 19
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    level: i32,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The pack
    file: PathBuf,
    /// What the branch is called [default: as it was called when it was exported]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    bases: Bases,
}

pub(crate) fn export(handle: &Handle, export: &Export) -> Outcome {
    check_level(export.level)?;
    let base = chain(&export.base)?;
    handle.read(|store| {
        let from = handle.branch(store)?;
        let mut steps = Steps::new(format!("exporting {}", from.name()));
        let options = ExportOptions { level: export.level, base };
        let done = branch::export(&from, &export.file, options, &mut |done, all| steps.step(done, all))?;
        drop(steps);
        if handle.json {
            output::json(&json!({
                "file": export.file,
                "branch": from.name(),
                "entries": done.entries,
                "entry_bytes": done.entry_bytes,
                "nodes": done.nodes,
                "left_out": done.left_out,
                "size_bytes": done.bytes,
                "root_digest": hex(&done.root_digest),
            }))?;
        } else {
            output::line(format_args!(
                "exported {}: {} entries in {} nodes, {} ({} before); root digest {}",
                from.name(),
                done.entries,
                done.nodes,
                output::bytes(done.bytes),
                output::bytes(done.entry_bytes),
                hex(&done.root_digest)
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn import(handle: &Handle, import: &Import) -> Outcome {
    handle.refuse_if_read_only()?;
    // Before a store is made for it.
    let pack = open_branch(&import.file, &import.bases)?;
    let name = import.name.clone().unwrap_or_else(|| pack.info().branch);
    handle.write(|store| {
        let mut steps = Steps::new(format!("importing {name}"));
        let rows =
            pack.import(store, &name, &mut |done, all| steps.step(done, all)).map_err(Failure::from)?;
        drop(steps);
        handle.say(
            &json!({ "branch": name, "entries": rows }),
            format_args!("imported {rows} entries as branch {name}"),
        )
    })
}
