//! The copy of a stopped server's data directory, file by file.

use super::{
    draft::Draft,
    import::{invalid, Importer},
    origin_server::import_failed,
    tablespaces,
};
use crate::{
    error::EngineError,
    files::{io_error, open_below},
};
use duramen_postgres::{Cluster, Installation, Postmaster};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

impl Importer<'_> {
    pub(super) fn copy_directory(
        &self,
        origin: &Path,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let major = check_directory(origin)?;
        let installation = self.installation(major)?;
        let cluster = self.create(draft, &installation)?;
        self.say("copying the data directory");
        let outside = tablespaces::links(origin)?;
        self.copy_tree(origin, &draft.path, &|relative| relative.parent() == Some(Path::new("pg_tblspc")))?;
        for (id, place) in outside {
            let target = draft.path.join("pg_tblspc").join(&id);
            for (name, dir) in of_version(&place, major)? {
                self.make_dir(&target)?;
                let target = target.join(name);
                self.make_dir(&target)?;
                self.copy_tree(&dir, &target, &|_| false)?;
            }
        }
        cluster.prepare_dir(&draft.path).map_err(|error| import_failed(&error))?;
        Ok((installation, database.unwrap_or("").to_owned()))
    }

    /// Copies what is below a directory, which is somebody else's: what he puts there while it is copied is not followed out of it, and not waited
    /// for. Links are refused, but those that are `known`, which are left out.
    fn copy_tree(&self, from: &Path, to: &Path, known: &dyn Fn(&Path) -> bool) -> Result<(), EngineError> {
        for entry in walkdir::WalkDir::new(from).min_depth(1) {
            self.interrupt.check()?;
            let entry = entry.map_err(|error| io_error("read", from, &error.into()))?;
            let relative = entry.path().strip_prefix(from).unwrap_or(entry.path());
            if entry.file_type().is_symlink() {
                if known(relative) {
                    continue;
                }
                return Err(refuse_link(relative));
            }
            let target = to.join(relative);
            if entry.file_type().is_dir() {
                self.make_dir(&target)?;
            } else if entry.file_type().is_file() {
                let mut source =
                    open_below(from, relative).map_err(|error| io_error("read", entry.path(), &error))?;
                let mut copy =
                    fs::File::create_new(&target).map_err(|error| io_error("copy to", &target, &error))?;
                let copied = io::copy(&mut source, &mut copy)
                    .and_then(|_| copy.set_permissions(source.metadata()?.permissions()));
                copied.map_err(|error| io_error("copy to", &target, &error))?;
                self.user.own(&target).map_err(|error| io_error("own", &target, &error))?;
            }
        }
        Ok(())
    }

    fn make_dir(&self, dir: &Path) -> Result<(), EngineError> {
        if !dir.is_dir() {
            fs::create_dir(dir).map_err(|error| io_error("copy to", dir, &error))?;
            self.user.own(dir).map_err(|error| io_error("own", dir, &error))?;
        }
        Ok(())
    }
}

/// What a tablespace holds of one major version, which is all that is taken: the place itself is only somebody's word.
fn of_version(place: &Path, major: u32) -> Result<Vec<(PathBuf, PathBuf)>, EngineError> {
    let ours = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(&format!("PG_{major}_")));
    let entries = fs::read_dir(place).map_err(|error| {
        invalid("tablespaces", format!("the tablespace in {} cannot be read: {error}", place.display()))
    })?;
    let entries = entries.flatten().filter(|entry| ours(&entry.file_name()));
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(dirs.map(|entry| (PathBuf::from(entry.file_name()), entry.path())).collect())
}

/// Checks that no server writes to a data directory; gives the major version that made it.
pub(super) fn check_directory(origin: &Path) -> Result<u32, EngineError> {
    let major =
        Cluster::major_of(origin).map_err(|error| invalid("not_a_data_directory", error.to_string()))?;
    if Postmaster::adopt(origin).is_some() {
        return Err(invalid(
            "source_running",
            format!("a server runs in {}; import it with --url, or stop it first", origin.display()),
        ));
    }
    Ok(major)
}

fn refuse_link(path: &Path) -> EngineError {
    invalid(
        "symbolic_link",
        format!(
            "{} is a symbolic link, which a branch would share with its source; import with --url instead",
            path.display()
        ),
    )
}
