//! Evidence out of a directory of somebody else's: of bounded size, and what else lies there told apart from it.

use super::{folder::Folder, words::cut, LabError};
use duramen_measure::evidence::{Evidence, EvidenceError};
use std::{io, path::Path};

/// The largest document. What a suite writes in hours has one megabyte.
pub const DOCUMENT_MAX: u64 = 16 << 20;
/// The most values of a document, by its commas: each may take a hundred bytes of memory. A suite writes 10,000.
const VALUES_MAX: usize = 400_000;
/// The most figures of a document: comparisons take the square of it.
pub const FIGURES_MAX: usize = 5_000;
/// The most checks, and the most findings.
const CHECKS_MAX: usize = 2_000;
/// How evidence of any version names itself.
const MARK: &[u8] = b"\"duramen.evidence/";
/// How much of a file that is too large is looked at for that.
const LOOK: usize = 1 << 20;

/// What a file holds.
pub(super) enum Content {
    /// A run.
    Run(Box<Evidence>),
    /// JSON, or not even that, and no evidence.
    Other,
    /// Evidence that cannot be used, and why.
    Damaged(String),
    /// It is gone.
    Gone,
}

/// Reads a file.
pub(super) fn read(folder: &Folder, path: &Path) -> Content {
    let (bytes, size) = match folder.read(path, DOCUMENT_MAX) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Content::Gone,
        Err(error) => return Content::Damaged(format!("it cannot be read: {error}")),
    };
    let looked_at = if size > DOCUMENT_MAX { &bytes[..bytes.len().min(LOOK)] } else { &bytes };
    if !looked_at.windows(MARK.len()).any(|window| window == MARK) {
        return Content::Other;
    }
    if size > DOCUMENT_MAX {
        return Content::Damaged(format!("it has {size} bytes, and {DOCUMENT_MAX} are read at most"));
    }
    if bytes.iter().filter(|byte| **byte == b',').count() > VALUES_MAX {
        return Content::Damaged(format!(
            "it holds more than {VALUES_MAX} values, which is more than is read"
        ));
    }
    match Evidence::parse(&bytes, path) {
        Ok(evidence) if evidence.measurements.len() > FIGURES_MAX => {
            let count = evidence.measurements.len();
            Content::Damaged(format!("it has {count} figures, and no more than {FIGURES_MAX} are looked at"))
        }
        Ok(evidence) if evidence.checks.len().max(evidence.findings.len()) > CHECKS_MAX => Content::Damaged(
            format!("it has more than {CHECKS_MAX} checks or findings, which is more than is looked at"),
        ),
        Ok(evidence) => Content::Run(Box::new(evidence)),
        // Another tool's, which has evidence of ours in it.
        Err(EvidenceError::Schema { found, .. }) if !found.starts_with("\"duramen.evidence/") => {
            Content::Other
        }
        Err(EvidenceError::Schema { found, .. }) => {
            Content::Damaged(format!("its format is {}, which this version does not know", cut(&found)))
        }
        Err(EvidenceError::Malformed { source, .. }) => {
            Content::Damaged(format!("it is not whole, or not right: {}", cut(&source.to_string())))
        }
        Err(error) => Content::Damaged(cut(&error.to_string())),
    }
}

/// Reads a run of which it is known that it was one.
pub(super) fn run(folder: &Folder, path: &Path) -> Result<Evidence, LabError> {
    let damaged = |why: String| LabError::Damaged { file: super::words::path(path), why };
    match read(folder, path) {
        Content::Run(evidence) => Ok(*evidence),
        Content::Other => Err(damaged("it is no evidence any more".to_owned())),
        Content::Gone => Err(damaged("it is gone".to_owned())),
        Content::Damaged(why) => Err(damaged(why)),
    }
}
