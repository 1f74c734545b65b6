//! Branches into packs and out of them: `duramen store export` and `import`.

use super::desk::Desk;
use crate::{
    context::Outcome,
    failure::Failure,
    output,
    pack::file::{chain, check_level, open_branch, Bases},
    progress::Told,
};
use clap::Args;
use duramen_pack::{branch, branch::ExportOptions, container::hex};
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write; one that is there is replaced when the new one is complete
    file: PathBuf,
    /// Leave out what this pack has; if that one has a base itself and it is not beside it, name that first
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

pub(crate) fn export(desk: &Desk, export: &Export) -> Outcome {
    check_level(export.level)?;
    let base = chain(&export.base)?;
    desk.read(|store| {
        let from = desk.branch(store)?;
        let mut told = Told::new(format!("exporting {}", from.name()));
        let options = ExportOptions { level: export.level, base };
        let done = branch::export(&from, &export.file, options, &mut |done, all| told.step(done, all))?;
        drop(told);
        if desk.json {
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

pub(crate) fn import(desk: &Desk, import: &Import) -> Outcome {
    desk.refuse_if_read_only()?;
    // Before a store is made for it.
    let pack = open_branch(&import.file, &import.bases)?;
    let name = import.name.clone().unwrap_or_else(|| pack.info().branch);
    desk.write(|store| {
        let mut told = Told::new(format!("importing {name}"));
        let rows = pack.import(store, &name, &mut |done, all| told.step(done, all)).map_err(Failure::from)?;
        drop(told);
        desk.say(
            &json!({ "branch": name, "entries": rows }),
            format_args!("imported {rows} entries as branch {name}"),
        )
    })
}
