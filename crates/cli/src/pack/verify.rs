//! `duramen pack verify`: every byte against its digest, and what the bytes mean.

use super::graph;
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    output,
    progress::Steps,
};
use clap::Args;
use duramen_access::graph::{GraphError, GraphPack};
use duramen_pack::{
    branch::{BranchPack, BranchPackError},
    container::{hex, Kind, Pack, Verified},
    PackError,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The pack; verify its base separately
    file: PathBuf,
}

pub(crate) fn run(context: &Context, verify: &Verify) -> Outcome {
    match check(&verify.file) {
        Ok((pack, verified)) => sound(context, &verify.file, &pack, verified),
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

impl From<GraphError> for Box<Unsound> {
    fn from(error: GraphError) -> Box<Unsound> {
        match error {
            GraphError::Pack(error) => error.into(),
            other => Box::new(Unsound { range: None, failure: graph::failed(other) }),
        }
    }
}

fn check(file: &Path) -> Result<(Pack, Verified), Box<Unsound>> {
    let pack = Pack::open(file)?;
    let mut steps = Steps::new(format!("verifying {}", file.display()));
    let mut progress = |done, all| steps.step(done, all);
    let verified = match pack.kind() {
        Kind::Branch => BranchPack::verify_alone(&pack, &mut progress)?,
        Kind::Graph => GraphPack::from_pack(pack.clone())?.verify(&mut progress)?,
    };
    Ok((pack, verified))
}

fn sound(context: &Context, file: &Path, pack: &Pack, verified: Verified) -> Outcome {
    let digest = hex(&pack.root_digest());
    if context.json {
        output::json(&json!({
            "file": file,
            "sound": true,
            "root_digest": digest,
            "sections": verified.sections,
            "blocks": verified.blocks,
            "records": verified.records,
            "raw_bytes": verified.raw_bytes,
            "size_bytes": verified.bytes,
        }))?;
    } else {
        output::line(format_args!(
            "sound: {} records in {} blocks, {}; root digest {digest}",
            verified.records,
            verified.blocks,
            output::bytes(verified.bytes)
        ));
    }
    Ok(ExitCode::SUCCESS)
}
