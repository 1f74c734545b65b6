//! Where the database of a version 1 file lies while it is read or written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::c1z::error::C1zError;
use crate::c1z::limits::VALUE_BYTES_MAX;

/// A connection to an empty database in the folder for temporary files, and its file.
///
/// The file has lost its name when this returns, so nothing is left of it when the process ends, however it ends. Bytes
/// of a database may be written into the file before the connection is first used.
pub(super) fn database(path: &Path) -> Result<(Connection, File), C1zError> {
    let temporary = tempfile::Builder::new()
        .prefix("duramen-c1z-")
        .tempfile()
        .map_err(C1zError::io("making a temporary file for", path))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = || C1zError::sqlite("opening the database", path);
    let database = Connection::open_with_flags(temporary.path(), flags).map_err(failed())?;
    let (file, name) = temporary.into_parts();
    name.close().map_err(C1zError::io("removing the name of the temporary file for", path))?;
    let value_max = i32::try_from(VALUE_BYTES_MAX).unwrap_or(i32::MAX);
    database.set_limit(rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH, value_max).map_err(failed())?;
    Ok((database, file))
}

/// Makes a database whose changes go to a log beside it, which is not there, one without a log: a file without a name
/// can have nothing beside it.
pub(super) fn end_log(file: &File) -> std::io::Result<()> {
    // Which form of writing and of reading the database has: 1 without, 2 with a log.
    const FORMS: u64 = 18;
    let mut forms = [0; 2];
    match file.read_at(&mut forms, FORMS)? {
        2 if forms == [2, 2] => file.write_all_at(&[1, 1], FORMS),
        _ => Ok(()),
    }
}
