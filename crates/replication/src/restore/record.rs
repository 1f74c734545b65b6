//! The restore file: what a run changes on servers that are not its own, written down before it is changed.
//!
//! The file is locked as long as somebody works with it: by the run, afterwards by whoever puts things back. A file
//! that is not locked belongs to a run that is no more.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use duramen_base::lock::{FileLock, LockError};
use duramen_base::{clock, entropy, file};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use super::super::pair::answered;
use super::super::scenario::Node;
use duramen_reports::suite::SuiteError;

/// What the file says it is.
const FORMAT: &str = "duramen.restore/2";
/// The folder of restore files in a home.
const FOLDER: &str = "lab/restore";
/// The first OID that is not kept for the system (`FirstNormalObjectId`).
const FIRST_OID: u32 = 16_384;

/// What was changed, and what was there before.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    format: String,
    /// When the run began.
    begun_at: String,
    /// The two servers.
    pub(in super::super) primary: Server,
    pub(in super::super) standby: Server,
    /// Settings that were changed by ALTER SYSTEM.
    pub(in super::super) settings: Vec<Setting>,
    /// Replication slots in the database of the run.
    pub(in super::super) slots: Vec<String>,
    /// The database that the run makes, by its name.
    pub(in super::super) database: Option<String>,
    /// Its OID, which was drawn: no other database of that name has it, nor has any other run.
    pub(in super::super) oid: u32,
    /// The number in the name of the role that a workload runs as, if there is one.
    #[serde(default)]
    pub(in super::super) load: Option<u32>,
}

/// One of the servers.
#[derive(Clone, Serialize, Deserialize)]
pub(in super::super) struct Server {
    /// How to connect, with the password if there is one: that is why the file is for its owner only.
    pub(in super::super) dsn: String,
    /// Which cluster it was.
    pub(in super::super) system_identifier: String,
    /// Which server of the cluster it was. A connection string may lead to another one later: it names several hosts, or a
    /// role. Not in files of before.
    #[serde(default)]
    pub(in super::super) place: Option<Place>,
}

/// Where a server is, as it says itself. The servers of a cluster have one system identifier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Place {
    /// The address at which the session reached it; none through a socket.
    address: Option<String>,
    port: i32,
    data_directory: String,
}

impl Place {
    /// Asks a server.
    pub(in super::super) async fn read(client: &Client, node: Node) -> Result<Self, SuiteError> {
        let sql = "SELECT host(inet_server_addr()), current_setting('port')::int4, current_setting('data_directory')";
        let row = answered("ask where it is", node, client.query_one(sql, &[])).await?;
        Ok(Self { address: row.get(0), port: row.get(1), data_directory: row.get(2) })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.address.as_deref().unwrap_or("this machine");
        write!(f, "port {} of {address}, in {}", self.port, self.data_directory)
    }
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Setting {
    /// Where.
    node: NodeName,
    /// Its name, in lower case.
    pub(in super::super) name: String,
    /// What `postgresql.auto.conf` said before; `None`: nothing.
    pub(in super::super) before: Option<String>,
    /// What the run set it to. If something else is found there, somebody else has set it, and it is left alone.
    pub(in super::super) ours: Vec<String>,
}

/// As [`Node`], in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NodeName {
    Primary,
    Standby,
}

impl From<Node> for NodeName {
    fn from(node: Node) -> Self {
        match node {
            Node::Primary => Self::Primary,
            Node::Standby => Self::Standby,
        }
    }
}

impl std::fmt::Debug for Server {
    /// Without the connection string, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("system_identifier", &self.system_identifier).finish_non_exhaustive()
    }
}

impl Record {
    /// Nothing has been changed yet.
    pub(in super::super) fn new(primary: Server, standby: Server) -> Self {
        Self {
            format: FORMAT.to_owned(),
            begun_at: clock::utc_now().to_string(),
            primary,
            standby,
            settings: Vec::new(),
            slots: Vec::new(),
            database: None,
            oid: entropy::rng(entropy::seed()).u32(FIRST_OID..),
            load: None,
        }
    }

    /// For servers that go away with the run: nobody will read it.
    pub(in super::super) fn of_our_own() -> Self {
        let nowhere = || Server { dsn: String::new(), system_identifier: String::new(), place: None };
        Self::new(nowhere(), nowhere())
    }

    /// Whether there is nothing to put back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.slots.is_empty() && self.database.is_none() && self.load.is_none()
    }

    /// When the run began, in UTC.
    #[must_use]
    pub fn begun_at(&self) -> &str {
        &self.begun_at
    }

    pub(in super::super) fn server(&self, node: Node) -> &Server {
        match node {
            Node::Primary => &self.primary,
            Node::Standby => &self.standby,
        }
    }

    /// Whether it is about this cluster.
    pub(in super::super) fn is_about(&self, system_identifier: &str) -> bool {
        self.primary.system_identifier == system_identifier
    }

    /// What is known of a setting that was changed.
    pub(in super::super) fn setting(&self, node: Node, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.is(node, name))
    }

    /// The names of the settings that were changed on a server, in lower case.
    pub(in super::super) fn names_on(&self, node: Node) -> BTreeSet<String> {
        self.settings
            .iter()
            .filter(|setting| setting.is_on(node))
            .map(|setting| setting.name.clone())
            .collect()
    }

    /// Notes that a setting is about to be changed.
    pub(in super::super) fn note_setting(
        &mut self,
        node: Node,
        name: &str,
        before: Option<String>,
        ours: &str,
    ) {
        let known = self.settings.iter().position(|setting| setting.is(node, name));
        let at = known.unwrap_or_else(|| {
            let name = name.to_ascii_lowercase();
            self.settings.push(Setting { node: node.into(), name, before, ours: Vec::new() });
            self.settings.len() - 1
        });
        let values = &mut self.settings[at].ours;
        if !values.iter().any(|value| value == ours) {
            values.push(ours.to_owned());
        }
    }
}

impl Setting {
    /// Whether somebody else has set it since: what is found in `postgresql.auto.conf` is neither what was there before nor
    /// anything that the run has put there.
    pub(in super::super) fn is_taken(&self, found: Option<&str>) -> bool {
        let is_ours = found.is_some_and(|found| self.ours.iter().any(|ours| ours == found));
        found != self.before.as_deref() && !is_ours
    }

    pub(in super::super) fn is_on(&self, node: Node) -> bool {
        self.node == node.into()
    }

    fn is(&self, node: Node, name: &str) -> bool {
        self.is_on(node) && self.name.eq_ignore_ascii_case(name)
    }
}

/// A restore file that is ours: locked, and as it is on the disk.
#[derive(Debug)]
pub struct RestoreFile {
    path: PathBuf,
    record: Record,
    /// Holds the lock.
    file: FileLock,
}

impl RestoreFile {
    /// The folder of a home.
    #[must_use]
    pub fn folder(home: &Path) -> PathBuf {
        home.join(FOLDER)
    }

    /// All restore files of a home, in the order of their names.
    ///
    /// # Errors
    /// When the folder cannot be read. One that is not there has no files.
    pub fn list(home: &Path) -> Result<Vec<PathBuf>, SuiteError> {
        let folder = Self::folder(home);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(SuiteError::file("read", &folder))?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(SuiteError::file("read", &folder))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Makes a file in the folder of a home.
    ///
    /// # Errors
    /// When it cannot be written durably.
    pub(in super::super) fn create(home: &Path, record: Record) -> Result<Self, SuiteError> {
        let folder = Self::folder(home);
        make_private(&folder).map_err(SuiteError::file("make the folder", &folder))?;
        sweep(&folder);
        let path = folder.join(format!("{}.json", entropy::token(12)));
        let file = write(&path, &record).map_err(SuiteError::file("write", &path))?;
        Ok(Self { path, record, file })
    }

    /// What a file says, whoever works with it.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn peek(path: &Path) -> Result<Record, SuiteError> {
        File::open(path).and_then(|file| read(&file)).map_err(SuiteError::file("read", path))
    }

    /// Takes over the file of a run that is no more. `None` when the run still goes on, or somebody else is at it.
    ///
    /// # Errors
    /// When it cannot be read, or is none. A missing file is [`io::ErrorKind::NotFound`].
    pub fn take_over(path: &Path) -> Result<Option<Self>, SuiteError> {
        // Each change is a new file under the old name: the lock counts only on the last one.
        match FileLock::of_name(path, |path| File::open(path)) {
            Ok(file) => {
                let record = read(&file).map_err(SuiteError::file("read", path))?;
                Ok(Some(Self { path: path.to_owned(), record, file }))
            }
            Err(LockError::Held) => Ok(None),
            Err(LockError::Io("open", error)) => Err(SuiteError::file("read", path)(error)),
            Err(LockError::Io(doing, error)) => Err(SuiteError::file(doing, path)(error)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Changes what it says. When this returns, a crash of the machine does not take it away.
    ///
    /// # Errors
    /// When it cannot be written durably; it says what it said before.
    pub(in super::super) fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), SuiteError> {
        let mut record = self.record.clone();
        change(&mut record);
        self.file = write(&self.path, &record).map_err(SuiteError::file("write", &self.path))?;
        self.record = record;
        Ok(())
    }

    /// Removes it: everything has been put back.
    ///
    /// # Errors
    /// The operating system's answer.
    pub(in super::super) fn remove(self) -> Result<(), SuiteError> {
        // A run that was killed while it wrote has left the new file as well.
        let _ = fs::remove_file(unfinished(&self.path));
        fs::remove_file(&self.path)
            .and_then(|()| file::sync_folder_of(&self.path))
            .map_err(SuiteError::file("remove", &self.path))
    }
}

/// Writes a new file, locks it, flushes it, and puts it in the place of the old one. The name is never without a lock.
fn write(path: &Path, record: &Record) -> io::Result<FileLock> {
    let new = unfinished(path);
    let put = || {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&new)?;
        let file = FileLock::exclusive(file).map_err(io::Error::other)?;
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        (&*file).write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        file::sync_folder_of(path)?;
        Ok(file)
    };
    put().inspect_err(|_| {
        // It says nothing that the old one does not say.
        let _ = fs::remove_file(&new);
    })
}

/// Makes a folder that only its owner can look into; those above it are others' as well.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder.parent().unwrap_or(Path::new(".")))?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The name of a file until it is whole. Only who holds the lock of the file writes it.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

/// Removes what runs have left that were killed while they wrote their first file: nothing had been changed then.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_first = path.extension().is_some_and(|extension| extension == "tmp")
            && !path.with_extension("json").exists();
        // What cannot be removed now is removed by a later run.
        let Ok(file) = File::open(&path) else { continue };
        if is_first {
            if let Ok(_lock) = FileLock::exclusive(file) {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

fn read(file: &File) -> io::Result<Record> {
    let text: serde_json::Value = serde_json::from_reader(file)?;
    match text.get("format").and_then(serde_json::Value::as_str) {
        Some(FORMAT) => Ok(serde_json::from_value(text)?),
        Some(other) => Err(io::Error::other(format!("it is no {FORMAT}, but {other:?}"))),
        None => Err(io::Error::other(format!("it is no {FORMAT}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, RestoreFile};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A process that is just being started holds a copy of every open file until it runs its own program.
    #[test]
    fn a_file_can_be_taken_over_at_once_beside_processes_that_start() {
        let home = tempfile::tempdir().unwrap();
        let file = RestoreFile::create(home.path(), Record::of_our_own()).unwrap();
        let path = file.path().to_owned();
        drop(file);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(std::process::Command::new("/bin/true").status().unwrap().success());
                }
            });
            let busy = (0..20_000).filter(|_| RestoreFile::take_over(&path).unwrap().is_none()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(busy, 0, "of 20,000 tries");
        });
    }
}
