//! What a branch holds, to be taken along.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How many processes dump a branch at a time, at most.
pub const EXPORT_JOBS_MAX: u32 = 64;

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// Statements for psql.
    Plain,
    /// An archive for `pg_restore`, compressed.
    Custom,
    /// A directory for `pg_restore`, written by several processes; sent as a tar archive.
    Directory,
    /// A data directory of a server that was stopped in order; sent as a tar archive.
    Basebackup,
}

impl ExportFormat {
    /// All of them.
    pub const ALL: [ExportFormat; 4] =
        [ExportFormat::Plain, ExportFormat::Custom, ExportFormat::Directory, ExportFormat::Basebackup];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExportFormat::Plain => "plain",
            ExportFormat::Custom => "custom",
            ExportFormat::Directory => "directory",
            ExportFormat::Basebackup => "basebackup",
        }
    }

    /// Whether it is a directory, which is sent as a tar archive.
    #[must_use]
    pub const fn is_directory(self) -> bool {
        matches!(self, ExportFormat::Directory | ExportFormat::Basebackup)
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportFormat, String> {
        let found = ExportFormat::ALL.into_iter().find(|format| format.name() == text);
        found
            .ok_or_else(|| format!("{text:?} is not a format; choose plain, custom, directory or basebackup"))
    }
}
