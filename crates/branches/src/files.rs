//! Files of a home, and what is said when one cannot be used.

use crate::error::{EngineError, Kind};
use std::{fs, path::Path};

/// Options by which a file that is made is the daemon's alone from its first moment.
pub(crate) fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.create(true).mode(0o600)
}

pub(crate) fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::new(Kind::Failed, "io_error", format!("cannot {doing} {}: {error}", path.display()))
}
