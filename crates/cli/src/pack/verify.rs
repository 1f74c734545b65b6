//! `duramen pack verify`: every byte against its digest, and what the bytes mean.

use super::{graph, source};
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
    progress::Steps,
};
use clap::Args;
use duramen_access::{
    c1z::{ReadOptions, Version},
    expand::ExpandError,
    file::{FileError, GraphFile},
    graph::{GraphError, GraphPack, GraphSource as _, Loss},
};
use duramen_carry::{ChangeSet, SetError};
use duramen_pack::{
    branch::{BranchPack, BranchPackError},
    container::{hex, Kind, Pack, Verified},
    PackError,
};
use serde_json::{json, Value};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The pack, whose base is verified separately, or a .c1z file
    file: PathBuf,
}

pub(crate) fn run(context: &Context, verify: &Verify) -> Outcome {
    let checked = match Version::detect(&verify.file) {
        Ok(_) => check_c1z(&verify.file),
        Err(_) => check(&verify.file),
    };
    match checked {
        Ok(checked) => sound(context, &verify.file, checked),
        // Who reads JSON gets the answer as JSON, whatever it is.
        Err(unsound) if context.json => {
            let Unsound { range, failure } = *unsound;
            output::json(&json!({
                "file": verify.file,
                "sound": false,
                "from": range.map(|range| range.0),
                "to": range.map(|range| range.1),
                "error": failure.to_string(),
            }))?;
            Ok(ExitCode::from(FAILED))
        }
        Err(unsound) => Err(unsound.failure),
    }
}

/// What is wrong with a pack, and where if it is a range of bytes.
struct Unsound {
    range: Option<(u64, u64)>,
    failure: Failure,
}

impl From<PackError> for Box<Unsound> {
    fn from(error: PackError) -> Box<Unsound> {
        let range = match &error {
            PackError::Damaged { from, to, .. } => Some((*from, *to)),
            PackError::Truncated { at, expected, .. } => Some((*at, *expected)),
            PackError::TrailingBytes { from, count, .. } => Some((*from, from + count)),
            _ => None,
        };
        Box::new(Unsound { range, failure: error.into() })
    }
}

impl From<BranchPackError> for Box<Unsound> {
    fn from(error: BranchPackError) -> Box<Unsound> {
        match error {
            BranchPackError::Pack(error) => error.into(),
            other => Box::new(Unsound { range: None, failure: other.into() }),
        }
    }
}

impl From<FileError> for Box<Unsound> {
    fn from(error: FileError) -> Box<Unsound> {
        match error {
            FileError::Graph(error) => error.into(),
            other => Box::new(Unsound { range: None, failure: other.into() }),
        }
    }
}

impl From<ExpandError<FileError>> for Box<Unsound> {
    fn from(error: ExpandError<FileError>) -> Box<Unsound> {
        match error {
            ExpandError::Read(error) => error.into(),
            other => Box::new(Unsound { range: None, failure: Failure::Other(other.to_string()) }),
        }
    }
}

impl From<GraphError> for Box<Unsound> {
    fn from(error: GraphError) -> Box<Unsound> {
        match error {
            GraphError::Pack(error) => error.into(),
            other => Box::new(Unsound { range: None, failure: graph::failed(other) }),
        }
    }
}

fn not_a_set(error: SetError) -> Box<Unsound> {
    match error {
        SetError::Pack(error) => error.into(),
        other => Box::new(Unsound { range: None, failure: other.into() }),
    }
}

/// What was checked.
struct Checked {
    pack: Option<(Pack, Verified)>,
    /// What does not fit together in the syncs of a graph.
    findings: Vec<(String, Loss)>,
}

fn check(file: &Path) -> Result<Checked, Box<Unsound>> {
    let pack = Pack::open(file)?;
    let mut steps = Steps::new(format!("verifying {}", file.display()));
    let mut progress = |done, all| steps.step(done, all);
    let verified = match pack.kind() {
        Kind::Branch => BranchPack::verify_alone(&pack, &mut progress)?,
        Kind::Graph => GraphPack::from_pack(pack.clone())?.verify(&mut progress)?,
        Kind::Changes => ChangeSet::of_pack(pack.clone(), &mut progress).map_err(not_a_set)?.verified(),
    };
    let findings = match pack.kind() {
        Kind::Branch | Kind::Changes => Vec::new(),
        Kind::Graph => findings(&GraphFile::open(file, &ReadOptions::default())?)?,
    };
    Ok(Checked { pack: Some((pack, verified)), findings })
}

/// Checks a .c1z file: all its checksums, the order of its rows, and each row.
fn check_c1z(file: &Path) -> Result<Checked, Box<Unsound>> {
    let options = ReadOptions { check_sha256: true, check_rows: true, ..source::options_of_environment() };
    let opened = GraphFile::open(file, &options)?;
    for sync in opened.syncs()? {
        // Rows of the other kinds are read for the findings.
        opened.for_each_asset(&sync.id, &mut |_| ControlFlow::Continue(()))?;
    }
    Ok(Checked { pack: None, findings: findings(&opened)? })
}

fn findings(file: &GraphFile) -> Result<Vec<(String, Loss)>, Box<Unsound>> {
    let mut all = Vec::new();
    for sync in file.syncs()? {
        all.extend(
            duramen_access::check::check(file, &sync.id)?.into_iter().map(|loss| (sync.id.clone(), loss)),
        );
    }
    Ok(all)
}

fn sound(context: &Context, file: &Path, checked: Checked) -> Outcome {
    let Checked { pack, findings } = checked;
    if context.json {
        let findings = findings.iter().map(|(sync, loss)| {
            json!({ "sync": sync, "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example })
        });
        let mut value = json!({ "file": file, "sound": true, "findings": findings.collect::<Vec<_>>() });
        if let (Value::Object(fields), Some((pack, verified))) = (&mut value, &pack) {
            for (name, figure) in [
                ("root_digest", Value::from(hex(&pack.root_digest()))),
                ("sections", Value::from(verified.sections)),
                ("blocks", Value::from(verified.blocks)),
                ("records", Value::from(verified.records)),
                ("raw_bytes", Value::from(verified.raw_bytes)),
                ("size_bytes", Value::from(verified.bytes)),
            ] {
                fields.insert(name.to_owned(), figure);
            }
        }
        output::json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &pack {
        Some((pack, verified)) => output::line(format_args!(
            "sound: {} records in {} blocks, {}; root digest {}",
            verified.records,
            verified.blocks,
            output::bytes(verified.bytes),
            hex(&pack.root_digest())
        )),
        None => output::line("sound: every checksum and every row"),
    }
    for (sync, Loss { row, what, rows, example }) in &findings {
        let rows = match rows {
            1 => format!("one {row}"),
            rows => format!("{rows} {row} rows"),
        };
        output::line(format_args!("noticed in sync {sync}: {rows} {what}, such as {example:?}"));
    }
    Ok(ExitCode::SUCCESS)
}
