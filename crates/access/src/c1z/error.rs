//! What can go wrong with a `.c1z` file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// How to get at rows that lie in a form that is not read here. Saving the file again does not help: the tools of the
/// ecosystem keep tables as they are.
pub(crate) const EXPORT_ADVICE: &str =
    "`baton export csv` of the ecosystem writes its rows as text, and a connector that syncs with its SQLite engine \
     writes them as a version 1 file, which is read here (`baton sanitize --out-engine sqlite` does so too, but \
     replaces every identity)";

/// How to get at rows whose keys are in the layout of an older engine: saving such a file moves its rows.
pub(crate) const UPDATE_ADVICE: &str =
    "`baton recalculate-stats` of a current SDK brings keys into today's layout when it can; otherwise let the connector \
     sync again";

/// What to do about a file that holds more than may come out of it.
pub(crate) const DECODED_ADVICE: &str =
    "raise the limit if the file is trusted (`--max-decoded-bytes`, or BATON_DECODER_MAX_DECODED_SIZE_MB as for the tools of \
     the ecosystem)";

/// What to do about a length that no file has that a known tool wrote.
pub(crate) const MAKER_ADVICE: &str = "no known tool writes such a file: fetch it again, or ask who made it";

/// Why a `.c1z` file was not read or not written. A file that is refused is refused as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum C1zError {
    /// The file is of another kind.
    #[error("{} is no .c1z file: it begins with {found}, not with \"C1ZF\\0\" or \"C1Z3\\0\"; check its name", file.display())]
    NotC1z {
        /// The file.
        file: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// The file ends too early.
    #[error("{} is cut off at byte {at}: {reason}; fetch it again", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Where it ends, in bytes from its start.
        at: u64,
        /// What is missing.
        reason: String,
    },
    /// Bytes are not what they have to be.
    #[error("{} is damaged at byte {at} of {part}: {reason}; fetch it again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the offset counts from: `the file`, or a part of it after decompression.
        part: String,
        /// The offset in bytes from the start of the part.
        at: u64,
        /// What is wrong there.
        reason: String,
    },
    /// Something is followed by bytes that belong to nothing.
    #[error("{} has bytes after its end, from byte {at} on; cut them off if the file was padded, or fetch it again", file.display())]
    TrailingBytes {
        /// The file.
        file: PathBuf,
        /// Where they begin.
        at: u64,
    },
    /// A length or count is larger than what is read.
    #[error("{}: {what} is {value}, and at most {limit} is read; {advice}", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// What is too large.
        what: String,
        /// How large it says it is.
        value: u64,
        /// The limit.
        limit: u64,
        /// What to do.
        advice: &'static str,
    },
    /// The file is whole, but in a form that is not read here.
    #[error("{} cannot be read here: {what}; {advice}", file.display())]
    Unsupported {
        /// The file.
        file: PathBuf,
        /// What it is.
        what: String,
        /// How to get at what it holds.
        advice: &'static str,
    },
    /// There is no such sync in the file.
    #[error("{} has no sync {sync:?}; list its syncs first", file.display())]
    NoSuchSync {
        /// The file.
        file: PathBuf,
        /// What was asked for.
        sync: String,
    },
    /// A row cannot be written as it is.
    #[error("{row} {id:?} cannot be written: {reason}")]
    Row {
        /// The kind of row.
        row: &'static str,
        /// Its id.
        id: String,
        /// Why not, and what can.
        reason: String,
    },
    /// The calls came in an order that makes no file.
    #[error("{doing} is not possible now: {reason}")]
    Order {
        /// What was asked for.
        doing: &'static str,
        /// What has to come first.
        reason: &'static str,
    },
    /// Somebody else is writing the file.
    #[error("{} is being written by somebody else; wait for that, or choose another name", file.display())]
    Locked {
        /// The file.
        file: PathBuf,
    },
    /// The system failed.
    #[error("{doing} {} failed: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// SQLite failed on the database inside a file of version 1.
    #[error("{}: {doing} failed: {source}; the database in the file may be damaged, or the folder for temporary files full", file.display())]
    Sqlite {
        /// The file.
        file: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
}

impl C1zError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> C1zError + use<> {
        let path = path.to_owned();
        move |source| C1zError::Io { doing, path, source }
    }

    pub(crate) fn sqlite(
        doing: &'static str,
        file: &Path,
    ) -> impl FnOnce(rusqlite::Error) -> C1zError + use<> {
        let file = file.to_owned();
        move |source| C1zError::Sqlite { file, doing, source }
    }
}

/// Why bytes are not what they have to be, and where among them: [`C1zError`] before the file is known.
#[derive(Debug)]
pub(crate) struct Bad {
    pub(crate) at: u64,
    pub(crate) kind: BadKind,
}

#[derive(Debug)]
pub(crate) enum BadKind {
    Damaged(Cow<'static, str>),
    TooLarge { what: &'static str, value: u64, limit: u64 },
    Unsupported { what: Cow<'static, str>, advice: &'static str },
}

impl Bad {
    pub(crate) fn new(at: usize, reason: impl Into<Cow<'static, str>>) -> Bad {
        Bad { at: at as u64, kind: BadKind::Damaged(reason.into()) }
    }

    pub(crate) fn too_large(at: usize, what: &'static str, value: u64, limit: u64) -> Bad {
        Bad { at: at as u64, kind: BadKind::TooLarge { what, value, limit } }
    }

    pub(crate) fn unsupported(at: usize, what: impl Into<Cow<'static, str>>, advice: &'static str) -> Bad {
        Bad { at: at as u64, kind: BadKind::Unsupported { what: what.into(), advice } }
    }

    /// The same, counted from `by` bytes earlier.
    pub(crate) fn shifted(mut self, by: usize) -> Bad {
        self.at += by as u64;
        self
    }

    /// As an error of `part` of `file`.
    pub(crate) fn located(self, file: &Path, part: &str) -> C1zError {
        let file = file.to_owned();
        match self.kind {
            BadKind::Damaged(reason) => {
                C1zError::Damaged { file, part: part.to_owned(), at: self.at, reason: reason.into_owned() }
            }
            BadKind::TooLarge { what, value, limit } => C1zError::TooLarge {
                file,
                what: format!("{what} in {part}"),
                value,
                limit,
                advice: MAKER_ADVICE,
            },
            BadKind::Unsupported { what, advice } => {
                C1zError::Unsupported { file, what: format!("{what} (in {part})"), advice }
            }
        }
    }
}
