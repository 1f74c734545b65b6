//! SQL scripts and archives of `pg_dump`, from which a source can be imported.

use crate::error::{EngineError, Kind};
use std::{
    fs::File,
    io::{self, Read, Seek},
};

/// What archives of `pg_dump --format=custom` begin with.
const ARCHIVE: &[u8] = b"PGDMP";

/// Whether a file is such an archive. It is at its beginning afterwards.
pub(super) fn is_archive(file: &mut File) -> io::Result<bool> {
    let mut found = Vec::new();
    file.by_ref().take(ARCHIVE.len() as u64).read_to_end(&mut found)?;
    file.rewind()?;
    Ok(found == ARCHIVE)
}

/// A script that failed, with what usually helps.
pub(super) fn failed(said: &str) -> EngineError {
    let hint = if said.contains("role \"") && said.contains("does not exist") {
        "; dump without owners and grants (`pg_dump --no-owner --no-privileges`), or create the role at the beginning of \
         the script"
    } else if said.contains("invalid byte sequence") || said.contains("contains null byte") {
        "; an SQL script is text: of `pg_dump` take the formats plain or custom"
    } else {
        ""
    };
    EngineError::new(Kind::Invalid, "bad_script", format!("the script failed: {said}{hint}"))
}
