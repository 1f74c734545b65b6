//! `duramen pack info`: what a pack says of itself. Only its ends and its manifest are read.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
    store::upkeep::moment,
};
use clap::Args;
use duramen_pack::{
    branch::{BranchInfo, BranchPack},
    container::{hex, Kind, Pack, FORMAT},
};
use serde_json::{json, Value};
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// The pack
    file: PathBuf,
}

/// What a kind of pack adds: rows to read, and a field of the JSON.
pub(crate) struct Content {
    pub(crate) rows: Vec<(&'static str, String)>,
    pub(crate) json: (&'static str, Value),
}

pub(crate) fn run(context: &Context, info: &Info) -> Outcome {
    let pack = Pack::open(&info.file)?;
    let content = match pack.kind() {
        Kind::Branch => branch(&BranchPack::info_of(&pack)?)?,
        Kind::Graph => super::graph::info(&info.file)?,
        Kind::Changes => crate::change::info(&pack)?,
    };
    if context.json {
        let sections = pack.sections().iter().map(|section| {
            json!({
                "name": section.name,
                "records": section.records,
                "blocks": section.blocks,
                "raw_bytes": section.raw_bytes,
                "stored_bytes": section.stored_bytes,
                "index_bytes": section.index_bytes,
            })
        });
        let mut value = json!({
            "file": info.file,
            "kind": pack.kind().name(),
            "format": FORMAT,
            "size_bytes": pack.size(),
            "root_digest": hex(&pack.root_digest()),
            "sections": sections.collect::<Vec<_>>(),
        });
        if let Value::Object(fields) = &mut value {
            fields.insert(content.json.0.to_owned(), content.json.1);
        }
        output::json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![
        ("pack", info.file.display().to_string()),
        ("kind", pack.kind().to_string()),
        ("size", output::bytes(pack.size())),
        ("root digest", hex(&pack.root_digest())),
    ];
    rows.extend(content.rows);
    output::print(output::pairs(rows));
    let rows = pack.sections().iter().map(|section| {
        [
            section.name.clone(),
            section.records.to_string(),
            section.blocks.to_string(),
            output::bytes(section.raw_bytes),
            output::bytes(section.stored_bytes),
            output::bytes(section.index_bytes),
        ]
    });
    output::line("");
    output::print(output::table(["SECTION", "RECORDS", "BLOCKS", "RAW", "STORED", "INDEX"], rows));
    Ok(ExitCode::SUCCESS)
}

fn branch(info: &BranchInfo) -> Result<Content, Failure> {
    let based = match &info.base {
        Some(base) => format!("{} (root digest {})", base.file, base.root_digest),
        None => "nothing: it holds all of the branch".to_owned(),
    };
    let rows = vec![
        ("branch", info.branch.clone()),
        ("exported", moment(info.exported_ms)?),
        ("version", info.version.to_string()),
        ("entries", info.entries.to_string()),
        ("data", output::bytes(info.entry_bytes)),
        ("nodes", info.nodes.to_string()),
        ("based on", based),
    ];
    let json = serde_json::to_value(info);
    let json = json.map_err(|error| Failure::Other(format!("the result has no JSON form: {error}")))?;
    Ok(Content { rows, json: ("branch", json) })
}
