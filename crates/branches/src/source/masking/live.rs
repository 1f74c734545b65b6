//! The files of a data directory that something refers to, and nothing else of it.

use super::{connection, failed, rewrite, Failure};
use crate::{error::EngineError, files::io_error, source::snapshot::KEPT_CACHE};
use duramen_postgres::ServerUser;
use std::{collections::BTreeSet, fs, io, os::unix::fs::PermissionsExt, path::Path};
use tokio_postgres::Config;

/// Where the states of transactions lie, and the WAL that was just made anew: files named by numbers.
const NUMBERED: &[&str] = &["pg_xact", "pg_multixact/members", "pg_multixact/offsets", "pg_wal"];
/// What a server expects and fills itself. What a copy holds in them may be anything: messages of `NOTIFY`, changes that
/// were decoded, statements that were counted.
const EMPTY: &[&str] = &[
    "pg_commit_ts",
    "pg_dynshmem",
    "pg_logical",
    "pg_logical/mappings",
    "pg_logical/snapshots",
    "pg_multixact",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat",
    "pg_stat_tmp",
    "pg_subtrans",
    "pg_tblspc",
    "pg_twophase",
    "pg_wal",
    "pg_wal/archive_status",
];
/// Single files, those that this program wrote included.
const FILES: &[&str] = &[
    "PG_VERSION",
    "global/pg_control",
    "global/pg_filenode.map",
    "postgresql.conf",
    "postgresql.auto.conf",
    "pg_hba.conf",
    "pg_ident.conf",
];

/// The files of a stopped server's relations, by their paths within the data directory, without segments and forks.
#[derive(Debug)]
pub(crate) struct LiveFiles {
    relations: BTreeSet<String>,
}

impl LiveFiles {
    /// Asks the server of the copy, just before it stops for good.
    pub(crate) async fn read(server: &Config, major: u32) -> Result<LiveFiles, EngineError> {
        Ok(LiveFiles::ask(server, major).await?)
    }

    async fn ask(server: &Config, major: u32) -> Result<LiveFiles, Failure> {
        let doing = "listing the files of relations";
        let admin = connection::own(server, major).await?;
        let all = "select d.datname::text from pg_catalog.pg_database d";
        let mut found = LiveFiles { relations: BTreeSet::new() };
        for row in admin.query(all, &[]).await.map_err(failed(doing))? {
            let name: &str = row.get(0);
            let client = rewrite::open_database(&admin, server, name, major).await?;
            let paths = "select pg_catalog.pg_relation_filepath(c.oid::pg_catalog.regclass) from pg_catalog.pg_class c \
                         where c.relkind in ('r', 'i', 't', 'm', 'S') and c.relpersistence <> 't'";
            let paths = client.query(paths, &[]).await.map_err(failed(doing))?;
            found.relations.extend(paths.iter().filter_map(|row| row.get::<_, Option<String>>(0)));
            drop(client);
            rewrite::close_database(&admin, name).await?;
        }
        Ok(found)
    }

    /// Copies them, and what else a server needs, into the empty directory `to`. The server has stopped.
    pub(crate) fn copy(&self, from: &Path, to: &Path, user: &ServerUser) -> Result<(), EngineError> {
        let copy = Copy { from, to, user };
        copy.dir(Path::new("global"))?;
        copy.dir(Path::new("base"))?;
        for dir in EMPTY {
            copy.dir(Path::new(dir))?;
        }
        for dir in NUMBERED.iter().map(Path::new) {
            copy.dir(dir)?;
            for name in copy.names(dir)?.iter().filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit())) {
                copy.file(&dir.join(name))?;
            }
        }
        let rules = copy.names(Path::new(""))?.into_iter().filter(|name| {
            name.starts_with("pg_hba.") && Path::new(name).extension().is_some_and(|it| it == "conf")
        });
        let singles: BTreeSet<String> = FILES.iter().map(|name| (*name).to_owned()).chain(rules).collect();
        for name in singles {
            copy.file(Path::new(&name))?;
        }
        LiveFiles::tablespaces(&copy)?;
        // Every database has relations in its own directory, be it in `base` or in a tablespace.
        let dirs: BTreeSet<&Path> = self.relations.iter().filter_map(|it| Path::new(it).parent()).collect();
        for dir in dirs {
            copy.dir(dir)?;
            for name in copy.names(dir)? {
                let of_database =
                    dir != Path::new("global") && ["PG_VERSION", "pg_filenode.map"].contains(&&*name);
                let is_live = self.relations.contains(&*relation(&dir.join(&name).to_string_lossy()));
                if of_database || name == KEPT_CACHE || is_live {
                    copy.file(&dir.join(&name))?;
                }
            }
        }
        Ok(())
    }

    /// Makes the directories of tablespaces, which a server expects even of one that holds nothing.
    fn tablespaces(copy: &Copy<'_>) -> Result<(), EngineError> {
        let parent = Path::new("pg_tblspc");
        for id in copy.names(parent)?.iter().filter(|id| id.bytes().all(|it| it.is_ascii_digit())) {
            let place = parent.join(id);
            copy.dir(&place)?;
            for version in copy.names(&place)?.iter().filter(|name| name.starts_with("PG_")) {
                copy.dir(&place.join(version))?;
            }
        }
        Ok(())
    }
}

/// The path of the relation that a file is a fork or a segment of.
fn relation(path: &str) -> String {
    let without = |path: &str| {
        let digits = path.rsplit_once('.').filter(|(_, number)| number.bytes().all(|it| it.is_ascii_digit()));
        digits.map_or(path, |(path, _)| path).to_owned()
    };
    let path = without(path);
    ["_fsm", "_vm", "_init"].iter().find_map(|fork| path.strip_suffix(fork)).unwrap_or(&path).to_owned()
}

struct Copy<'a> {
    from: &'a Path,
    to: &'a Path,
    user: &'a ServerUser,
}

impl Copy<'_> {
    fn dir(&self, path: &Path) -> Result<(), EngineError> {
        let target = self.to.join(path);
        let made = match fs::create_dir(&target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            made => made,
        };
        made.and_then(|()| fs::set_permissions(&target, fs::Permissions::from_mode(0o700)))
            .and_then(|()| self.user.own(&target))
            .map_err(|error| io_error("make", &target, &error))
    }

    fn file(&self, path: &Path) -> Result<(), EngineError> {
        let (source, target) = (self.from.join(path), self.to.join(path));
        fs::copy(&source, &target)
            .and_then(|_| fs::set_permissions(&target, fs::Permissions::from_mode(0o600)))
            .and_then(|()| self.user.own(&target))
            .map_err(|error| io_error("copy to", &target, &error))
    }

    /// What a directory holds, links aside: none of them is a server's own.
    fn names(&self, path: &Path) -> Result<Vec<String>, EngineError> {
        let dir = self.from.join(path);
        let listed = fs::read_dir(&dir).map_err(|error| io_error("list", &dir, &error))?;
        let ours = listed.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        Ok(ours.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_one_relation() {
        for (path, expected) in [
            ("base/5/16384", "base/5/16384"),
            ("base/5/16384.1", "base/5/16384"),
            ("base/5/16384_fsm", "base/5/16384"),
            ("base/5/16384_vm.12", "base/5/16384"),
            ("base/5/16384_init", "base/5/16384"),
            ("base/5/t3_16384", "base/5/t3_16384"),
            ("base/5/16384.bak", "base/5/16384.bak"),
        ] {
            assert_eq!(relation(path), expected);
        }
    }
}
