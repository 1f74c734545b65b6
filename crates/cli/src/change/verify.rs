//! `duramen change verify`: whether a change set is what was written.

use super::{counts, sign::Signer};
use crate::{
    context::{Context, Outcome},
    output,
    progress::Steps,
};
use clap::Args;
use duramen_carry::ChangeSet;
use serde_json::json;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The change set
    file: PathBuf,
    #[command(flatten)]
    signer: Signer,
}

pub(crate) fn run(context: &Context, verify: &Verify) -> Outcome {
    let mut steps = Steps::new(format!("verifying {}", verify.file.display()));
    let set = ChangeSet::open_with(&verify.file, &mut |done, all| steps.step(done, all))?;
    drop(steps);
    let signed = verify.signer.check(&set, &verify.file)?;
    if context.json {
        output::json(&json!({
            "file": verify.file,
            "sound": true,
            "digest": set.digest(),
            "size_bytes": set.size(),
            "signed": signed,
            "changes": set.head(),
        }))?;
    } else {
        let signed = if signed { "; signed by that key" } else { "" };
        output::line(format_args!("sound: {}; digest {}{signed}", counts(set.head()), set.digest()));
    }
    Ok(ExitCode::SUCCESS)
}
