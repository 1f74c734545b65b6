//! `duramen pack verify`: every byte against its digest.

use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    output,
    progress::Told,
};
use clap::Args;
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
    /// The pack. What it is based on is a file of its own, to be verified by itself
    file: PathBuf,
}

pub(crate) fn run(context: &Context, verify: &Verify) -> Outcome {
    match check(&verify.file) {
        Ok((pack, verified)) => sound(context, &verify.file, &pack, verified),
        // Who reads JSON gets the answer as JSON, whatever it is.
        Err(error) if context.json => {
            let range = match &error {
                BranchPackError::Pack(PackError::Damaged { from, to, .. }) => Some((*from, *to)),
                BranchPackError::Pack(PackError::Truncated { at, expected, .. }) => Some((*at, *expected)),
                BranchPackError::Pack(PackError::TrailingBytes { from, count, .. }) => {
                    Some((*from, from + count))
                }
                _ => None,
            };
            output::json(&json!({
                "file": verify.file,
                "sound": false,
                "from": range.map(|range| range.0),
                "to": range.map(|range| range.1),
                "error": error.to_string(),
            }))?;
            Ok(ExitCode::from(FAILED))
        }
        Err(error) => Err(error.into()),
    }
}

fn check(file: &Path) -> Result<(Pack, Verified), BranchPackError> {
    let pack = Pack::open(file)?;
    let mut told = Told::new(format!("verifying {}", file.display()));
    let mut progress = |done, all| told.step(done, all);
    let verified = match pack.kind() {
        Kind::Branch => BranchPack::verify_alone(&pack, &mut progress)?,
        Kind::Graph => pack.verify(&mut progress)?,
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
