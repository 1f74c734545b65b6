//! Packs as arguments: opening one with what it is based on, and what is said when that fails.

use crate::failure::Failure;
use clap::Args;
use duramen_pack::{
    branch::{BranchPack, BranchPackError},
    container::Pack,
    PackError,
};
use std::path::{Path, PathBuf};

/// Where the bases of a pack are, if they are not beside it.
#[derive(Debug, Args)]
pub(crate) struct Bases {
    /// The base of the pack, if it is in another folder; of several, the oldest first
    #[arg(long, value_name = "PACK")]
    base: Vec<PathBuf>,
}

impl Bases {
    /// Whether any were named.
    pub(crate) fn given(&self) -> bool {
        !self.base.is_empty()
    }
}

/// Packs each of which is based on the one before it. Returns the last.
pub(crate) fn chain(files: &[PathBuf]) -> Result<Option<BranchPack>, Failure> {
    let mut below = None;
    for file in files {
        below = Some(open_over(file, below)?);
    }
    Ok(below)
}

fn open_over(file: &Path, below: Option<BranchPack>) -> Result<BranchPack, Failure> {
    Ok(match below {
        Some(base) => BranchPack::open_on(file, base)?,
        None => BranchPack::open(file)?,
    })
}

/// A branch pack with its bases.
pub(crate) fn open_branch(file: &Path, bases: &Bases) -> Result<BranchPack, Failure> {
    open_over(file, chain(&bases.base)?)
}

/// Two branch packs: the bases are those of the one that needs any, and the left one may be the base of the right one.
pub(crate) fn open_two(
    left: &Path,
    right: &Path,
    bases: &Bases,
) -> Result<(BranchPack, BranchPack), Failure> {
    let below = chain(&bases.base)?;
    let needs = |file: &Path| -> Result<bool, Failure> {
        Ok(BranchPack::info_of(&Pack::open(file)?)?.base.is_some())
    };
    let open = |file: &Path| match &below {
        Some(base) if needs(file)? => Ok(BranchPack::open_on(file, base.clone())?),
        _ => Ok(BranchPack::open(file)?),
    };
    let left: BranchPack = open(left)?;
    match open(right) {
        Err(Failure::NeedsBase(missing)) => match BranchPack::open_on(right, left.clone()) {
            Ok(right) => Ok((left, right)),
            Err(_) => Err(Failure::NeedsBase(missing)),
        },
        other => Ok((left, other?)),
    }
}

/// Refuses a level that the compression does not have.
pub(crate) fn check_level(level: i32) -> Result<(), Failure> {
    match level {
        1..=19 => Ok(()),
        _ => Err(Failure::Usage(format!("--level is {level}; use 1 (fast) to 19 (small)"))),
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Failure {
        Failure::Other(error.to_string())
    }
}

impl From<BranchPackError> for Failure {
    fn from(error: BranchPackError) -> Failure {
        match error {
            BranchPackError::Store(error) => error.into(),
            BranchPackError::NeedsBase { .. } => Failure::NeedsBase(error.to_string()),
            other => Failure::Other(other.to_string()),
        }
    }
}
