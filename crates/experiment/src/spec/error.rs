//! What can be wrong with a spec.

use std::io;
use std::path::PathBuf;

/// Why there is no spec.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The file could not be read.
    #[error(
        "cannot read the spec {}: {source}; `duramen lab experiment init` writes one, and `--series` says \
         where it is",
        path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Something in the text is wrong.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character within the line, from 1.
        column: usize,
        /// What is wrong, and what is right.
        message: String,
    },
    /// A glob of a spec that was put together by a program does not parse.
    #[error("the glob `{glob}` of the scope is wrong: {why}")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
}
