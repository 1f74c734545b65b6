//! `duramen change sign`, and who is asked for by those that check.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_carry::{check_signature, sign, signature_file, ChangeSet};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct Sign {
    /// The change set
    file: PathBuf,
    /// The private key: Ed25519, in PEM, as OpenSSL writes it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The signature [default: the change set's name, and .sig]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Whose signature a change set must have.
#[derive(Debug, Args)]
pub(crate) struct Signer {
    /// The public key by which it must be signed: Ed25519, in PEM, as OpenSSL writes it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The signature [default: the change set's name, and .sig]
    #[arg(long, value_name = "FILE", requires = "key")]
    signature: Option<PathBuf>,
}

impl Signer {
    /// Whether it is signed, if that was asked for.
    pub(super) fn check(&self, set: &ChangeSet, file: &Path) -> Result<bool, Failure> {
        let Some(key) = &self.key else { return Ok(false) };
        let beside = signature_file(file);
        check_signature(set.root_digest(), self.signature.as_ref().unwrap_or(&beside), key)?;
        Ok(true)
    }
}

pub(crate) fn run(context: &Context, wanted: &Sign) -> Outcome {
    // What is damaged is signed by nobody.
    let set = ChangeSet::open(&wanted.file)?;
    let (text, public) = sign(set.root_digest(), &wanted.key)?;
    let out = wanted.out.clone().unwrap_or_else(|| signature_file(&wanted.file));
    fs::write(&out, text).map_err(Failure::io("write", &out))?;
    if context.json {
        output::json(&json!({ "signature": out, "digest": set.digest(), "public_key": public }))?;
    } else {
        output::line(format_args!("{}: digest {} signed by the key {public}", out.display(), set.digest()));
    }
    Ok(ExitCode::SUCCESS)
}
