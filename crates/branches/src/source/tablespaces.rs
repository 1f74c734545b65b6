//! Tablespaces: directories outside a data directory become directories in it, as PostgreSQL itself can have them ("in
//! place"). A clone of the volume then has its own.

use super::import::invalid;
use crate::{error::EngineError, files::io_error};
use duramen_postgres::Settings;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where a data directory names its tablespaces.
const NAMED_IN: &str = "pg_tblspc";
/// Where a copy is put while it is made: the copying program makes `pg_tblspc` itself.
const ARRIVE_IN: &str = "duramen_tblspc";
/// What lets a server recover with directories where it expects links.
const IN_PLACE: &str = "allow_in_place_tablespaces";

/// A tablespace of a running server.
pub(super) struct Outside {
    pub(super) id: u32,
    pub(super) location: String,
}

impl Outside {
    /// The argument by which `pg_basebackup` puts it into the data directory.
    pub(super) fn mapping(&self, data_dir: &Path) -> String {
        let escape = |path: &str| path.replace('\\', "\\\\").replace('=', "\\=");
        let target = data_dir.join(ARRIVE_IN).join(self.id.to_string());
        format!("--tablespace-mapping={}={}", escape(&self.location), escape(&target.display().to_string()))
    }
}

/// Puts what `pg_basebackup` mapped where a server finds it.
pub(super) fn take_in(data_dir: &Path) -> Result<(), EngineError> {
    let arrived = data_dir.join(ARRIVE_IN);
    if !arrived.exists() {
        return Ok(());
    }
    for (id, link) in links(data_dir)? {
        let (from, to) = (arrived.join(&id), data_dir.join(NAMED_IN).join(&id));
        if link != from {
            return Err(refuse(&id));
        }
        fs::remove_file(&to).map_err(|error| io_error("remove", &to, &error))?;
        fs::rename(&from, &to).map_err(|error| io_error("move", &from, &error))?;
    }
    fs::remove_dir(&arrived).map_err(|error| io_error("remove", &arrived, &error))
}

/// The links of a data directory to its tablespaces: their names and where they lead.
pub(super) fn links(data_dir: &Path) -> Result<Vec<(String, PathBuf)>, EngineError> {
    let dir = data_dir.join(NAMED_IN);
    let mut found = Vec::new();
    if !dir.exists() {
        return Ok(found);
    }
    for entry in fs::read_dir(&dir).map_err(|error| io_error("read", &dir, &error))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            let to = fs::read_link(entry.path()).map_err(|error| io_error("read", &entry.path(), &error))?;
            found.push((entry.file_name().to_string_lossy().into_owned(), dir.join(to)));
        }
    }
    Ok(found)
}

/// Whether a copy has tablespaces of its own; none may lead out of it.
pub(crate) fn are_inside(data_dir: &Path) -> Result<bool, EngineError> {
    if let Some((id, _)) = links(data_dir)?.first() {
        return Err(refuse(id));
    }
    let dir = data_dir.join(NAMED_IN);
    Ok(fs::read_dir(&dir).map_err(|error| io_error("read", &dir, &error))?.next().is_some())
}

/// Lets servers of a copy have its tablespaces inside.
pub(crate) fn allow(settings: &mut Settings) {
    settings.set(IN_PLACE, "on");
}

fn refuse(id: &str) -> EngineError {
    invalid(
        "tablespaces",
        format!(
            "the tablespace with the id {id} was made or moved while the source was copied; import it again"
        ),
    )
}
