//! A cluster made for a source, in which its script is run or its archive restored.

use super::{
    connected::Connected,
    connection,
    draft::Draft,
    dump::{self, Dump, Listed},
    import::{import_settings, Importer, START_LIMIT, STOP_LIMIT},
    origin_server::{give_secret, import_failed, local, start_failed, OWNER},
    refusal::read_error,
};
use crate::{error::EngineError, files::io_error, model::Sanitised};
use duramen_postgres::{Cluster, Installation, Postmaster, Secret, StopMode};
use std::{
    fs::{self, File},
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

/// The database that scripts are run in, unless another one is named.
const DATABASE: &str = "app";
/// Where an archive lies in the data directory while it is restored: inside, so that it is on the scratch of a source with
/// rules for masking, and goes with the directory.
const ARCHIVE: &str = "duramen_archive";
/// With how many sessions an archive is restored at most. The server of an import has 20.
const JOBS_MAX: usize = 8;

/// Its server runs, and lets in whoever has the secret.
pub(super) struct Fresh {
    pub(super) cluster: Cluster,
    server: Postmaster,
    secret: Secret,
    socket_dir: PathBuf,
}

impl Fresh {
    /// A session as its bootstrap superuser.
    pub(super) async fn client(&self, database: &str) -> Result<Connected, EngineError> {
        let major = self.cluster.installation().version.major;
        connection::own(&local(&self.socket_dir, OWNER, &self.secret, database), major).await
    }

    /// Runs a program that connects to one of its databases, shut in as the server is.
    async fn run(
        &self,
        program: &'static str,
        mut arguments: Vec<String>,
        input: Option<File>,
        database: &str,
    ) -> Result<String, EngineError> {
        arguments.extend([
            "--host".to_owned(),
            self.socket_dir.display().to_string(),
            "--username".to_owned(),
            OWNER.to_owned(),
            "--dbname".to_owned(),
            database.to_owned(),
        ]);
        let env = [("PGPASSWORD".to_owned(), self.secret.expose().to_owned())];
        let (cluster, newest) = (self.cluster.clone(), self.cluster.installation().version.to_string());
        let run = move || cluster.run_with_env(program, &arguments, input, &env);
        let outcome = tokio::task::spawn_blocking(run).await.map_err(|error| import_failed(&error))?;
        outcome.map_err(|error| dump::failed(&error.to_string(), &newest))
    }

    /// Restores an archive, from a file or directory that lies in the data directory.
    pub(super) async fn restore(
        &self,
        archive: &Path,
        more: &[&str],
        database: &str,
    ) -> Result<(), EngineError> {
        let mut arguments = vec!["--exit-on-error".to_owned(), format!("--jobs={}", jobs())];
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        arguments.push(archive.display().to_string());
        self.run("pg_restore", arguments, None, database).await.map(drop)
    }

    pub(super) fn archive(&self) -> PathBuf {
        self.cluster.data_dir().join(ARCHIVE)
    }

    /// Stops the server, and removes the archive.
    pub(super) fn stop(mut self) -> Result<(), EngineError> {
        self.server.stop(StopMode::Fast, STOP_LIMIT).map_err(|error| import_failed(&error))?;
        let archive = self.archive();
        match fs::remove_dir_all(&archive) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("remove", &archive, &error))
            }
            _ => Ok(()),
        }
    }
}

/// With how many sessions an archive is written or restored.
pub(super) fn jobs() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(JOBS_MAX)
}

impl Importer<'_> {
    /// Makes a cluster in the draft, and starts its server.
    pub(super) fn fresh(&self, draft: &Draft<'_>, installation: &Installation) -> Result<Fresh, EngineError> {
        let cluster = self.create(draft, installation)?;
        cluster.init(OWNER, false).map_err(|error| import_failed(&error))?;
        let secret = Secret::random();
        give_secret(&cluster, OWNER, &secret)?;
        cluster
            .write_file("pg_hba.conf", "local all all scram-sha-256\n")
            .map_err(|error| import_failed(&error))?;
        let server = cluster
            .start(&draft.socket_dir, &import_settings(installation.version.major), START_LIMIT)
            .map_err(|error| start_failed(&error))?;
        Ok(Fresh { cluster, server, secret, socket_dir: draft.socket_dir.clone() })
    }

    /// Runs a script, or restores an archive, in a database of a cluster made for it.
    pub(super) async fn run_script(
        &self,
        script: &Path,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<((Installation, String), Vec<Sanitised>), EngineError> {
        let dump = Dump::open(script)?;
        let installation = self.newest()?;
        let database = database.unwrap_or(DATABASE).to_owned();
        self.say(dump.doing());
        let fresh = self.fresh(draft, &installation)?;
        if database != "postgres" {
            let create = format!("create database {}", duramen_postgres::quote_identifier(&database));
            let client = fresh.client("postgres").await?;
            client.batch_execute(&create).await.map_err(|error| read_error(&error))?;
        }
        // Who owns what, and who may do what, is decided by policies; roles of elsewhere need not be here.
        let without = ["--no-owner", "--no-privileges"];
        let mut report = Vec::new();
        if !matches!(dump, Dump::Script(_)) {
            report.push(Sanitised {
                kind: "archive".to_owned(),
                object: "owners and grants".to_owned(),
                action: "not restored: roles of elsewhere need not be here".to_owned(),
            });
        }
        match dump {
            Dump::Script(file) => {
                let words = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"];
                fresh.run("psql", words.map(str::to_owned).to_vec(), Some(file), &database).await?;
            }
            // Several sessions need a file that they can open by its name.
            Dump::Custom(file) if jobs() > 1 => {
                let archive = fresh.archive();
                let kept = archive.join("custom");
                self.bring(&archive, || dump::copy(file, &kept, self.user, self.interrupt))?;
                fresh.restore(&kept, &without, &database).await?;
            }
            Dump::Custom(file) => {
                let words = ["--exit-on-error", "--format=custom"].iter().chain(&without);
                let words = words.map(|word| (*word).to_owned()).collect();
                fresh.run("pg_restore", words, Some(file), &database).await?;
            }
            Dump::Tar(file) => {
                let words = ["--exit-on-error", "--format=tar"].iter().chain(&without);
                let words = words.map(|word| (*word).to_owned()).collect();
                fresh.run("pg_restore", words, Some(file), &database).await?;
            }
            Dump::Directory(listed) => {
                let archive = fresh.archive();
                self.bring(&archive, || Listed::copy(&listed, &archive, self.user, self.interrupt))?;
                fresh.restore(&archive, &without, &database).await?;
            }
        }
        fresh.stop()?;
        Ok(((installation, database), report))
    }

    /// Makes the directory of an archive, and has it filled.
    fn bring(
        &self,
        archive: &Path,
        fill: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        tokio::task::block_in_place(|| {
            fs::create_dir(archive).map_err(|error| io_error("make", archive, &error))?;
            fill()?;
            self.user.own(archive).map_err(|error| io_error("own", archive, &error))
        })
    }
}
