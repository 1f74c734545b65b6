//! Directories as tar archives.

use crate::{
    branch::Branch,
    error::{EngineError, ExportError},
    source::{
        connection,
        sanitise::{self, ADMIN},
        snapshot::{is_access_file, KEPT_CACHE},
    },
};
use bytes::Bytes;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tar::{Builder, Header, HeaderMode};
use tokio::sync::mpsc;
use walkdir::WalkDir;

/// Bytes that are sent at a time.
const CHUNK: usize = 64 << 10;
/// What a data directory is left without: what is of one run of a server, or of ours.
const LEFT_OUT: [&str; 6] = [
    "postmaster.pid",
    "postmaster.opts",
    "postgresql.conf",
    "postgresql.auto.conf",
    "pg_hba.conf",
    "pg_ident.conf",
];
/// No secret of ours is in what leaves this machine, and no role has one. What a row was stays in its page for a while, so the
/// relations are written anew.
const FORGET_SECRETS: [&str; 2] = [
    "begin read write; update pg_catalog.pg_authid set rolpassword = null where rolpassword is not null; commit",
    "vacuum full pg_catalog.pg_authid",
];
/// Nor in the statistics of each database, which hold values of columns: those of `pg_authid` (1260).
const FORGET_STATISTICS: [&str; 2] = [
    "begin read write; delete from pg_catalog.pg_statistic where starelid operator(pg_catalog.=) 1260::pg_catalog.oid; commit",
    "vacuum full pg_catalog.pg_statistic",
];

/// Sends what `pg_dump` wrote.
pub(super) async fn of_dump(dir: PathBuf, told: mpsc::Sender<Bytes>) -> Result<(), EngineError> {
    send(told, move |builder| add(builder, &dir, &|_| false)).await
}

/// Sends the files of a copy, whose server is stopped for good.
pub(super) async fn of_data_directory(
    branch: &Arc<Branch>,
    told: mpsc::Sender<Bytes>,
) -> Result<(), EngineError> {
    forget_secrets(branch).await?;
    let stopping = Arc::clone(branch);
    let stopped = tokio::task::spawn_blocking(move || {
        stopping.stop();
        stopping.retire();
        // One that was ended otherwise leaves it there.
        if stopping.data_dir().join("postmaster.pid").exists() {
            return Err(ExportError::NotStopped);
        }
        // Nor is anything in the log, which nobody needs any more.
        stopping.trim().map_err(|error| ExportError::Unreadable(io::Error::other(error)))
    });
    stopped.await.map_err(ExportError::Crashed)??;
    let dir = branch.data_dir().to_owned();
    let (carried, _) = sanitise::carry_settings(&dir, &branch.generation.installation);
    let files = [
        ("postgresql.conf", format!("{SETTINGS}{}", carried.to_conf())),
        ("postgresql.auto.conf", String::new()),
        ("pg_hba.conf", access_rules()),
        ("pg_ident.conf", String::new()),
    ];
    send(told, move |builder| {
        for (name, text) in &files {
            let mut header = Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o600);
            builder.append_data(&mut header, name, text.as_bytes())?;
        }
        add(builder, &dir, &is_left_out)
    })
    .await
}

/// In a copy that nobody has, and that is thrown away.
async fn forget_secrets(branch: &Branch) -> Result<(), EngineError> {
    let major = branch.generation.installation.version.major;
    let fail = |error: tokio_postgres::Error| ExportError::Unreadable(io::Error::other(error));
    let mut config = branch.administrator_config().await?;
    let databases = sanitise::databases(&config, major).await?;
    for database in &databases {
        config.dbname(database);
        let admin = connection::own(&config, major).await?;
        for sql in FORGET_STATISTICS {
            admin.batch_execute(sql).await.map_err(fail)?;
        }
    }
    let admin = connection::own(&config, major).await?;
    for sql in FORGET_SECRETS {
        admin.batch_execute(sql).await.map_err(fail)?;
    }
    Ok(())
}

/// The head of the settings of what is exported.
const SETTINGS: &str = "# Exported by duramen. Of the branch's settings only those that change what SQL means were kept; all others are PostgreSQL's own.\n";

/// Nobody is admitted but who is a role's namesake.
fn access_rules() -> String {
    format!(
        "# No role has a password. The superuser is {ADMIN}: to enter as it, add a line to pg_ident.conf (owner YOU {ADMIN}), and here,\n\
         # above the other: local all {ADMIN} peer map=owner\n\
         local all all peer\n"
    )
}

fn is_left_out(relative: &Path) -> bool {
    let Some(name) = relative.file_name().and_then(|name| name.to_str()) else { return false };
    let is_on_top = relative.components().count() == 1;
    name == KEPT_CACHE || (is_on_top && (LEFT_OUT.contains(&name) || is_access_file(name)))
}

/// Adds everything below a directory. Nobody works in it.
fn add(builder: &mut Builder<Sink>, dir: &Path, left_out: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(io::Error::from)?;
        let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        if left_out(relative) {
            continue;
        }
        let kind = entry.file_type();
        if kind.is_dir() {
            builder.append_dir(relative, entry.path())?;
        } else if kind.is_file() {
            builder.append_path_with_name(entry.path(), relative)?;
        } else {
            return Err(io::Error::other(format!(
                "{} is neither a file nor a directory",
                relative.display()
            )));
        }
    }
    Ok(())
}

/// Makes an archive, and sends it as it is made.
async fn send(
    told: mpsc::Sender<Bytes>,
    fill: impl FnOnce(&mut Builder<Sink>) -> io::Result<()> + Send + 'static,
) -> Result<(), EngineError> {
    let work = move || {
        let mut builder = Builder::new(Sink { told, unsent: Vec::with_capacity(CHUNK) });
        builder.mode(HeaderMode::Deterministic);
        builder.follow_symlinks(false);
        fill(&mut builder)?;
        builder.into_inner()?.flush()
    };
    let made = tokio::task::spawn_blocking(work).await.map_err(ExportError::Crashed)?;
    made.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ExportError::CallerLeft.into(),
        _ => ExportError::Unreadable(error).into(),
    })
}

/// What is written goes to whoever receives.
struct Sink {
    told: mpsc::Sender<Bytes>,
    unsent: Vec<u8>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        if self.unsent.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let part = Bytes::from(std::mem::replace(&mut self.unsent, Vec::with_capacity(CHUNK)));
        self.told.blocking_send(part).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
