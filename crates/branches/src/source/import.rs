//! From an origin to a snapshot: copied, recovered, made harmless, stopped cleanly, trimmed, read-only.

use super::{
    connection::{self, LOGIN_TRIGGERS_SINCE},
    digest, dump, flights,
    manifest::{Manifest, SourceRecord},
    origin_server::{self, give_secret, import_failed, local, parse_url, start_failed, SampleServer, OWNER},
    refusal::read_error,
    sanitise::{self, ADMIN, HOLDER},
    snapshot::{access_rules, hba_file, snapshot_path, Admitted, HOLDER_ITERATIONS, KEPT_CACHE},
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
    home::Home,
    model::{Origin, Policy, Sanitised, SourceFingerprint},
    users,
};
use duramen_base::{clock, entropy};
use duramen_cage::Cage;
use duramen_postgres::{
    quote_identifier, quote_literal, volume, Cluster, ClusterError, Installation, Postmaster, Secret,
    ServerUser, Settings, Shut, StopMode, StoredText,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config, Row};

const START_LIMIT: Duration = Duration::from_secs(600);
const STOP_LIMIT: Duration = Duration::from_secs(600);
/// How many tables the default warm-up plans for.
const WARM_TABLES: usize = 50;

/// Tells the caller what is being done, and how far it is.
pub(crate) type Report = Arc<dyn Fn(&str, Option<f64>) + Send + Sync>;

/// What an import works with.
pub(crate) struct Importer<'a> {
    pub(crate) home: &'a Home,
    pub(crate) store: &'a volume::Store,
    pub(crate) user: &'a ServerUser,
    pub(crate) progress: Report,
    /// In which the servers of an import run; none where the machine has not the means.
    pub(crate) cage: Option<Cage>,
}

/// A volume under construction, with the socket directory of its server; both vanish with it unless it is kept.
struct Draft<'a> {
    volumes: &'a dyn volume::Volumes,
    path: PathBuf,
    socket_dir: PathBuf,
    log: PathBuf,
    kept: bool,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(mut server) = Postmaster::adopt(&self.path) {
            server.kill();
        }
        let _ = fs::remove_dir_all(&self.socket_dir);
        if !self.kept {
            if let Err(error) = self.volumes.delete(&self.path) {
                tracing::warn!(%error, "a half-made snapshot is left to the next start's sweep");
            }
        }
        let _ = fs::remove_file(&self.log);
    }
}

impl Importer<'_> {
    fn say(&self, doing: &str) {
        (self.progress)(doing, None);
    }

    /// Makes one generation of a source. On failure nothing is left behind and the origin is as it was.
    pub(crate) async fn import(
        &self,
        record: &SourceRecord,
        database: Option<&str>,
        sample: &SampleServer,
    ) -> Result<Manifest, EngineError> {
        if let Origin::Flights { rows } = record.origin {
            self.prepare_sample(sample, rows).await?;
        }
        if let Origin::DataDirectory { path } = &record.origin {
            // First, because every file below is read next.
            check_directory(Path::new(path))?;
        }
        // A server that may run login triggers is not connected to before its copy has been looked at.
        let known = match &record.origin {
            Origin::Server { url } => connection::enter_origin(&parse_url(url)?).await?.is_some(),
            _ => true,
        };
        let mut source_at_import = None;
        if known {
            self.say("reading the live source, for later comparison");
            source_at_import = Some(origin_server::fingerprint(&record.origin, sample, None).await?);
        }

        let token = entropy::token(20);
        let path = self.store.root.join("imports").join(format!("{}-{token}", record.name));
        let draft = Draft {
            volumes: &*self.store.volumes,
            socket_dir: self.home.socket(&format!("i-{token}")),
            log: self.home.logs().join(format!("import-{token}.log")),
            path,
            kept: false,
        };
        let (installation, database) = match &record.origin {
            Origin::Server { url } if known => {
                let origin = parse_url(url)?;
                let client = connection::enter_origin(&origin).await?.map(|(client, _)| client);
                self.base_backup(&origin, client, database, &draft).await?
            }
            Origin::Server { url } => self.base_backup(&parse_url(url)?, None, database, &draft).await?,
            Origin::Flights { .. } => {
                let client = sample.connect(flights::DATABASE).await?;
                self.base_backup(&sample.config(), Some(client), database, &draft).await?
            }
            Origin::DataDirectory { path } => self.copy_directory(Path::new(path), database, &draft)?,
            Origin::Script { path } => self.run_script(Path::new(path), database, &draft).await?,
        };
        self.finish(record, (installation, database), sample, source_at_import, draft).await
    }

    async fn prepare_sample(&self, sample: &SampleServer, rows: Option<u64>) -> Result<(), EngineError> {
        if sample.exists() {
            return sample.ensure_running();
        }
        flights::check(self.home.root(), rows)?;
        self.say("making the sample's server");
        let made: Result<(), EngineError> = async {
            sample.init()?;
            sample.ensure_running()?;
            let client = sample.connect("postgres").await?;
            client
                .batch_execute(&format!("create database {}", flights::DATABASE))
                .await
                .map_err(|error| read_error(&error))?;
            let progress = Arc::clone(&self.progress);
            let client = sample.connect(flights::DATABASE).await?;
            flights::load(self.home.root(), &client, rows, &*progress).await
        }
        .await;
        made.inspect_err(|_| sample.remove())
    }

    fn create(&self, draft: &Draft<'_>, installation: &Installation) -> Result<Cluster, EngineError> {
        self.store.volumes.create(&draft.path).map_err(|error| import_failed(&error))?;
        let cluster = self.cluster(draft, installation);
        cluster.prepare_dir(&draft.path).map_err(|error| import_failed(&error))?;
        Ok(cluster)
    }

    /// Shut in: code of the source may run before it is harmless, whatever is done against it.
    fn cluster(&self, draft: &Draft<'_>, installation: &Installation) -> Cluster {
        self.open_cluster(draft, installation).shut_in(self.cage.clone().map(|cage| {
            let hidden = vec![self.home.root().to_owned(), self.store.root.clone()];
            Shut::new(cage, hidden, draft.socket_dir.clone())
        }))
    }

    /// A cluster whose programs reach the network, as one that copies a server must.
    fn open_cluster(&self, draft: &Draft<'_>, installation: &Installation) -> Cluster {
        Cluster::new(installation.clone(), &draft.path, self.user.clone()).with_log(draft.log.clone())
    }

    fn installation(&self, major: u32) -> Result<Installation, EngineError> {
        Installation::choose(self.home.root(), Some(major))
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))
    }

    /// Copies a running server. Without a session on it, what a session would tell is found out by other ways.
    async fn base_backup(
        &self,
        origin: &Config,
        client: Option<Client>,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let (installation, total) = match &client {
            Some(client) => self.look_at(client).await?,
            // The programs of a major version copy servers of earlier ones too.
            None => (self.newest()?, None),
        };
        drop(client);
        let database = database.unwrap_or_else(|| connection::database(origin)).to_owned();
        self.create(draft, &installation)?;
        let cluster = self.open_cluster(draft, &installation);

        // The password goes through the environment: arguments can be read by every user of the machine.
        let mut env = Vec::new();
        if let Some(password) = origin.get_password() {
            env.push(("PGPASSWORD".to_owned(), String::from_utf8_lossy(password).into_owned()));
        }
        let arguments = |target: &Path, more: &[&str]| -> Vec<String> {
            let target = target.display().to_string();
            let connection = conninfo(origin);
            let common = ["--pgdata", &target, "--dbname", &connection, "--checkpoint=fast", "--no-password"];
            common.iter().chain(more).map(|argument| (*argument).to_owned()).collect()
        };
        if total.is_none() {
            // Files of tablespaces would be written to where they are on the origin. As one archive, it refuses them.
            let probe = arguments(Path::new("-"), &["--format=tar", "--wal-method=none", "--no-manifest"]);
            let (cluster, env) = (cluster.clone(), env.clone());
            tokio::task::spawn_blocking(move || cluster.run_until_output("pg_basebackup", &probe, &env))
                .await
                .map_err(|error| import_failed(&error))?
                .map_err(|error| match &error {
                    ClusterError::Failed { output, .. } if output.contains("single tablespace") => {
                        refuse_tablespaces()
                    }
                    _ => backup_failed(&error, origin),
                })?;
        }
        let copy = arguments(&draft.path, &["--wal-method=stream", "--no-sync"]);
        let target = draft.path.clone();
        let backup =
            tokio::task::spawn_blocking(move || cluster.run_with_env("pg_basebackup", &copy, None, &env));
        tokio::pin!(backup);
        loop {
            tokio::select! {
                done = &mut backup => {
                    done.map_err(|error| import_failed(&error))?.map_err(|error| backup_failed(&error, origin))?;
                    let major = Cluster::major_of(&draft.path).map_err(|error| import_failed(&error))?;
                    return Ok((self.installation(major)?, database));
                }
                () = tokio::time::sleep(Duration::from_millis(500)) => {
                    let fraction = total.map(|total| (tree_size(&target) as f64 / total as f64).min(1.0));
                    (self.progress)("base backup", fraction);
                }
            }
        }
    }

    /// The programs for a running server, and about how many bytes it holds.
    async fn look_at(&self, client: &Client) -> Result<(Installation, Option<u64>), EngineError> {
        let row = client
            .query_one(
                "select current_setting('server_version_num')::int / 10000, \
                 (select count(*) from pg_tablespace where spcname !~ '^pg_'), \
                 (select coalesce(sum(pg_database_size(oid)), 0)::bigint from pg_database)",
                &[],
            )
            .await
            .map_err(|error| read_error(&error))?;
        if row.get::<_, i64>(1) > 0 {
            return Err(refuse_tablespaces());
        }
        let installation = self.installation(u32::try_from(row.get::<_, i32>(0)).unwrap_or_default())?;
        Ok((installation, Some(u64::try_from(row.get::<_, i64>(2)).unwrap_or(1).max(1))))
    }

    fn copy_directory(
        &self,
        origin: &Path,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let major = check_directory(origin)?;
        let installation = self.installation(major)?;
        let cluster = self.create(draft, &installation)?;
        self.say("copying the data directory");
        for entry in walkdir::WalkDir::new(origin).min_depth(1) {
            let entry = entry.map_err(|error| io_error("read", origin, &error.into()))?;
            let relative = entry.path().strip_prefix(origin).unwrap_or(entry.path());
            if entry.file_type().is_symlink() {
                return Err(if relative.starts_with("pg_tblspc") {
                    refuse_tablespaces()
                } else {
                    refuse_link(relative)
                });
            }
            let target = draft.path.join(relative);
            let copied = if entry.file_type().is_dir() {
                fs::create_dir(&target)
            } else if entry.file_type().is_file() {
                fs::copy(entry.path(), &target).map(drop)
            } else {
                continue;
            };
            copied.map_err(|error| copy_error(&target, &error))?;
            self.user.own(&target).map_err(|error| io_error("own", &target, &error))?;
        }
        cluster.prepare_dir(&draft.path).map_err(|error| import_failed(&error))?;
        Ok((installation, database.unwrap_or("").to_owned()))
    }

    fn newest(&self) -> Result<Installation, EngineError> {
        Installation::choose(self.home.root(), None)
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))
    }

    async fn run_script(
        &self,
        script: &Path,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let unreadable = |error: io::Error| {
            invalid("bad_script", format!("cannot read the script {}: {error}", script.display()))
        };
        let mut file = File::open(script).map_err(unreadable)?;
        let is_archive = dump::is_archive(&mut file).map_err(unreadable)?;
        let installation = self.newest()?;
        let database = database.unwrap_or("app").to_owned();
        let cluster = self.create(draft, &installation)?;
        self.say("running the script");
        cluster.init(OWNER, false).map_err(|error| import_failed(&error))?;
        let secret = Secret::random();
        give_secret(&cluster, OWNER, &secret)?;
        cluster
            .write_file("pg_hba.conf", "local all all scram-sha-256\n")
            .map_err(|error| import_failed(&error))?;
        let mut server = cluster
            .start(&draft.socket_dir, &import_settings(installation.version.major), START_LIMIT)
            .map_err(|error| start_failed(&error))?;
        let major = installation.version.major;
        let client = connection::own(&local(&draft.socket_dir, OWNER, &secret, "postgres"), major).await?;
        if database != "postgres" {
            let create = format!("create database {}", duramen_postgres::quote_identifier(&database));
            client.batch_execute(&create).await.map_err(|error| read_error(&error))?;
        }
        // Who owns what, and who may do what, is decided by policies; roles of elsewhere need not be here.
        let (program, own): (_, &[&str]) = if is_archive {
            ("pg_restore", &["--exit-on-error", "--no-owner", "--no-privileges"])
        } else {
            ("psql", &["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"])
        };
        let mut arguments: Vec<String> = own.iter().map(|word| (*word).to_owned()).collect();
        arguments.extend([
            "--host".to_owned(),
            draft.socket_dir.display().to_string(),
            "--username".to_owned(),
            OWNER.to_owned(),
            "--dbname".to_owned(),
            database.clone(),
        ]);
        let env = [("PGPASSWORD".to_owned(), secret.expose().to_owned())];
        let run = move || cluster.run_with_env(program, &arguments, Some(file), &env);
        let outcome = tokio::task::spawn_blocking(run).await.map_err(|error| import_failed(&error))?;
        outcome.map_err(|error| dump::failed(&error.to_string()))?;
        server.stop(StopMode::Fast, STOP_LIMIT).map_err(|error| import_failed(&error))?;
        Ok((installation, database))
    }

    /// The common second half: a copied data directory becomes a snapshot.
    async fn finish(
        &self,
        record: &SourceRecord,
        (installation, database): (Installation, String),
        sample: &SampleServer,
        source_at_import: Option<SourceFingerprint>,
        mut draft: Draft<'_>,
    ) -> Result<Manifest, EngineError> {
        files::close_tree(&draft.path)?;
        let cluster = self.cluster(&draft, &installation);
        let (carried, mut sanitised) = sanitise::carry_settings(&draft.path, &installation);
        self.disarm_files(&cluster, &mut sanitised)?;

        self.say("recovering the copy");
        let major = installation.version.major;
        let mut settings = import_settings(major);
        settings.merge(&carried);
        let secret = self.home.admin_secret(&record.name);
        cluster
            .single_user("template1", &sanitise::make_admin(&secret), &settings)
            .map_err(|error| import_failed(&error))?;
        let mut server =
            cluster.start(&draft.socket_dir, &settings, START_LIMIT).map_err(|error| start_failed(&error))?;
        let admin = local(&draft.socket_dir, ADMIN, &secret, "template1");
        let login_triggers = sanitise::login_triggers(&admin, major).await?;
        let source_at_import = match source_at_import {
            Some(fingerprint) => fingerprint,
            None => {
                self.say("reading the live source, for later comparison");
                origin_server::fingerprint(&record.origin, sample, Some(&login_triggers)).await?
            }
        };

        self.say("making the copy harmless");
        sanitised.extend(sanitise::run(&admin, major).await?);
        let databases = sanitise::databases(&admin, major).await?;
        let (database, database_oid) = serving_database(&admin, major, &database).await?;
        let mut admin_there = admin.clone();
        admin_there.dbname(&database);
        let (first, verifiers) = self.give_first_secrets(record, &admin_there, major).await?;
        // From here on, code of the source may run, as its holders will run it.
        for name in &databases {
            sanitised.extend(sanitise::disable_jobs(&local(&draft.socket_dir, HOLDER, &first, name)).await);
        }
        let warm = self.warm_statements(record, &admin_there, major).await?;
        let holder = connection::as_holder(&local(&draft.socket_dir, HOLDER, &first, &database)).await?;
        let own = connection::own(&admin_there, major).await?;
        let restore_sequences = rehearse(&own, &holder, &warm).await?;
        drop((own, holder));

        self.say("vacuum and analyze");
        for name in &databases {
            let mut config = admin.clone();
            config.dbname(name);
            sanitise::vacuum(&config, major, &mut sanitised).await?;
        }
        // The last session leaves the relation cache files that every branch starts from.
        let client = connection::own(&admin_there, major).await?;
        client.batch_execute("checkpoint").await.map_err(|error| read_error(&error))?;
        drop(client);
        server.stop(StopMode::Fast, STOP_LIMIT).map_err(|error| import_failed(&error))?;

        self.say("trimming and sealing");
        let first_verifiers =
            verifiers.locate(&draft.path).map_err(|error| io_error("seal", &draft.path, &error))?;
        let reset = vec!["--pgdata".to_owned(), draft.path.display().to_string()];
        cluster.run("pg_resetwal", &reset, None).map_err(|error| import_failed(&error))?;
        keep_relation_cache(&draft.path, database_oid)
            .map_err(|error| io_error("seal", &draft.path, &error))?;
        let mut branch = Settings::minimal(installation.version.major);
        branch.merge(&carried);
        cluster.write_file("postgresql.conf", &branch.to_conf()).map_err(|error| import_failed(&error))?;
        for policy in Policy::ALL {
            for admitted in Admitted::BOTH {
                let rules = access_rules(policy, admitted, &database, major);
                cluster
                    .write_file(&hba_file(policy, admitted), &rules)
                    .map_err(|error| import_failed(&error))?;
            }
        }
        // Without it a clone is known to be one in which no server ever ran.
        let _ = fs::remove_file(draft.path.join("postmaster.opts"));

        let manifest_path = draft.path.clone();
        let (bytes, digest) = tokio::task::spawn_blocking(move || digest::tree(&manifest_path))
            .await
            .map_err(|error| import_failed(&error))?
            .map_err(|error| io_error("digest", &draft.path, &error))?;
        let snapshot = snapshot_path(self.store, &record.name, record.generation);
        // A volume without a manifest can only be the rest of an import that was killed here.
        self.store.volumes.delete(&snapshot).map_err(|error| import_failed(&error))?;
        fs::rename(&draft.path, &snapshot).map_err(|error| io_error("move", &draft.path, &error))?;
        draft.kept = true;
        self.store.volumes.freeze(&snapshot).map_err(|error| import_failed(&error))?;

        // The digest was taken of what is in memory; what lies on the disk must be the same.
        let flushed = self.store.flush().map_err(|error| error.to_string());
        if let Some(lost) = flushed.err().or_else(|| self.store.lost_writes()) {
            let _ = self.store.volumes.delete(&snapshot);
            return Err(EngineError::new(
                Kind::Failed,
                "writes_lost",
                format!("the snapshot could not be written to the disk: {lost}; make room below the volume store and try again"),
            ));
        }
        let manifest = Manifest {
            format: Manifest::FORMAT,
            generation: record.generation,
            database,
            imported_at: clock::utc_now(),
            server_version: installation.version,
            bytes,
            digest,
            identity: self.store.volumes.identity(&snapshot),
            sanitised,
            database_oid,
            warm,
            restore_sequences,
            source_at_import,
            login_triggers: Some(login_triggers),
            first_verifiers,
            user: users::to_record(self.user),
        };
        manifest.save(self.home, &record.name)?;
        Ok(manifest)
    }

    /// Gives the roles of branches' holders a secret, whose verifier each branch replaces by that of its own.
    async fn give_first_secrets(
        &self,
        record: &SourceRecord,
        admin: &Config,
        major: u32,
    ) -> Result<(Secret, FirstVerifiers), EngineError> {
        let fail = |error| read_error(&error);
        let client = connection::own(admin, major).await?;
        let secret = self.home.first_secret(&record.name);
        let mut texts = BTreeMap::new();
        for policy in Policy::ALL {
            let verifier = secret.verifier(HOLDER_ITERATIONS);
            let statement = format!("alter role {} password '{verifier}'", policy.role());
            client.batch_execute(&statement).await.map_err(fail)?;
            texts.insert(policy, verifier);
        }
        let file = "select pg_catalog.pg_relation_filepath('pg_catalog.pg_authid'::pg_catalog.regclass), \
                    pg_catalog.current_setting('data_checksums'::pg_catalog.text)::pg_catalog.bool";
        let row = client.query_one(file, &[]).await.map_err(fail)?;
        Ok((secret, FirstVerifiers { file: row.get(0), checksums: row.get(1), texts }))
    }

    /// Takes out the files of the origin by which a server would connect elsewhere or follow another one.
    fn disarm_files(&self, cluster: &Cluster, sanitised: &mut Vec<Sanitised>) -> Result<(), EngineError> {
        let dir = cluster.data_dir();
        let mut report = |kind: &str, object: &str, action: &str| {
            sanitised.push(Sanitised {
                kind: kind.to_owned(),
                object: object.to_owned(),
                action: action.to_owned(),
            });
        };
        for name in ["standby.signal", "recovery.signal", "recovery.conf"] {
            if fs::remove_file(dir.join(name)).is_ok() {
                report("file", name, "removed");
            }
        }
        for entry in fs::read_dir(dir.join("pg_replslot")).into_iter().flatten().flatten() {
            if fs::remove_dir_all(entry.path()).is_ok() {
                report("replication slot", &entry.file_name().to_string_lossy(), "dropped");
            }
        }
        for name in ["postmaster.pid", "postmaster.opts", "current_logfiles", "backup_manifest"] {
            let _ = fs::remove_file(dir.join(name));
        }
        for name in ["log", "pg_log"] {
            let _ = fs::remove_dir_all(dir.join(name));
        }
        if fs::read_dir(dir.join("pg_tblspc")).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(refuse_tablespaces());
        }
        for (name, text) in [
            ("postgresql.conf", String::new()),
            ("postgresql.auto.conf", String::new()),
            ("pg_hba.conf", format!("local all {ADMIN},{HOLDER} scram-sha-256\n")),
            ("pg_ident.conf", String::new()),
        ] {
            cluster.write_file(name, &text).map_err(|error| import_failed(&error))?;
        }
        Ok(())
    }

    async fn warm_statements(
        &self,
        record: &SourceRecord,
        database: &Config,
        major: u32,
    ) -> Result<Vec<String>, EngineError> {
        if !record.settings.warm.is_empty() {
            return Ok(record.settings.warm.clone());
        }
        if matches!(record.origin, Origin::Flights { .. }) {
            return Ok(flights::WARM.iter().map(|sql| (*sql).to_owned()).collect());
        }
        let client = connection::own(database, major).await?;
        let rows = client
            .query(
                &format!(
                    "select n.nspname::text, c.relname::text from pg_catalog.pg_class c \
                     join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                     where c.relkind in ('r', 'p') and c.oid >= 16384::oid and c.relpersistence <> 't' \
                     order by c.relpages desc, 1, 2 limit {WARM_TABLES}"
                ),
                &[],
            )
            .await
            .map_err(|error| read_error(&error))?;
        let table = |row: &Row| format!("{}.{}", quote_identifier(row.get(0)), quote_identifier(row.get(1)));
        Ok(rows.iter().map(|row| format!("select * from {} limit 1", table(row))).collect())
    }
}

/// The verifiers of a snapshot's holders, and the file that holds them.
struct FirstVerifiers {
    file: String,
    checksums: bool,
    texts: BTreeMap<Policy, String>,
}

impl FirstVerifiers {
    /// Where they lie. The server must have stopped.
    fn locate(&self, data_dir: &Path) -> io::Result<BTreeMap<Policy, StoredText>> {
        let mut found = BTreeMap::new();
        for (policy, text) in &self.texts {
            let place = StoredText::find(data_dir, &self.file, text, self.checksums)?;
            found.extend(place.map(|place| (*policy, place)));
        }
        Ok(found)
    }
}

/// A copy is recovered and changed without flushing: if the machine fails, the import is begun again.
fn import_settings(major: u32) -> Settings {
    let mut settings = Settings::minimal(major);
    for (name, value) in [
        ("max_prepared_transactions", "200"),
        ("max_connections", "20"),
        ("shared_buffers", "128MB"),
        ("maintenance_work_mem", "256MB"),
        ("wal_buffers", "16MB"),
        ("max_wal_size", "8GB"),
        ("max_files_per_process", "1000"),
    ] {
        settings.set(name, value);
    }
    if major >= LOGIN_TRIGGERS_SINCE {
        settings.set("event_triggers", "off");
    }
    settings
}

/// The database that branches serve, by name, or the largest one when none was named; with its object id.
async fn serving_database(admin: &Config, major: u32, wanted: &str) -> Result<(String, u32), EngineError> {
    let client = connection::own(admin, major).await?;
    let rows = client
        .query(
            "select datname::text, oid from pg_catalog.pg_database where datallowconn and not datistemplate \
             and ($1::text = '' or datname::text = $1::text) order by pg_catalog.pg_database_size(oid) desc, 1 limit 1",
            &[&wanted],
        )
        .await
        .map_err(|error| read_error(&error))?;
    rows.first().map(|row| (row.get(0), row.get::<_, u32>(1))).ok_or_else(|| {
        invalid("no_database", format!("the source has no database {wanted:?}; name one with --database"))
    })
}

/// Runs the warm-up once as a holder of a branch and rolls it back, to see which sequences it moves; returns what puts
/// them back, having done so itself. A warm-up statement that fails is an error now rather than a silent loss later.
async fn rehearse(own: &Client, holder: &Client, warm: &[String]) -> Result<Option<String>, EngineError> {
    let read = |error: tokio_postgres::Error| read_error(&error);
    let sequences = "select n.nspname::text, c.relname::text, pg_catalog.pg_sequence_last_value(s.seqrelid::regclass), s.seqstart \
                     from pg_catalog.pg_sequence s join pg_catalog.pg_class c on c.oid = s.seqrelid \
                     join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relpersistence <> 't' order by s.seqrelid";
    let before = own.query(sequences, &[]).await.map_err(read)?;
    for statement in warm {
        let outcome = async {
            holder.batch_execute("begin").await?;
            holder.execute(statement.as_str(), &[]).await?;
            holder.batch_execute("rollback").await
        };
        outcome.await.map_err(|error| {
            let reason =
                error.as_db_error().map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned());
            invalid("bad_warm_statement", format!("the warm-up statement {statement:?} fails: {reason}"))
        })?;
    }
    let after = own.query(sequences, &[]).await.map_err(read)?;
    let mut restore = Vec::new();
    for (old, new) in before.iter().zip(&after) {
        let name = format!("{}.{}", quote_identifier(old.get(0)), quote_identifier(old.get(1)));
        let (last, start): (Option<i64>, i64) = (old.get(2), old.get(3));
        if last != new.get::<_, Option<i64>>(2) {
            let value = last.unwrap_or(start);
            restore.push(format!(
                "pg_catalog.setval({}::pg_catalog.regclass, {value}::pg_catalog.int8, {})",
                quote_literal(&name),
                last.is_some()
            ));
        }
    }
    if restore.is_empty() {
        return Ok(None);
    }
    let restore = format!("select {}", restore.join(", "));
    own.batch_execute(&restore).await.map_err(read)?;
    Ok(Some(restore))
}

/// A server removes its relation cache files when it starts and its first session builds them again. A branch
/// starts from exactly the catalogue that the snapshot was closed with, so its files are put aside here, and put
/// back before a branch's first session.
fn keep_relation_cache(data_dir: &Path, database_oid: u32) -> std::io::Result<()> {
    for dir in [data_dir.join("global"), data_dir.join(format!("base/{database_oid}"))] {
        let file = dir.join("pg_internal.init");
        if file.exists() {
            fs::rename(&file, dir.join(KEPT_CACHE))?;
        }
    }
    Ok(())
}

/// Checks that no server writes to a data directory; gives the major version that made it.
fn check_directory(origin: &Path) -> Result<u32, EngineError> {
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

/// A libpq connection string without the password.
fn conninfo(config: &Config) -> String {
    use tokio_postgres::config::Host;
    let quote = |value: &str| format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    let host = config.get_hosts().first().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let mut parts = vec![format!("user={}", quote(config.get_user().unwrap_or_default()))];
    parts.extend(host.map(|host| format!("host={}", quote(&host))));
    parts.extend(config.get_ports().first().map(|port| format!("port={port}")));
    parts.push("application_name=duramen".to_owned());
    parts.join(" ")
}

fn tree_size(root: &Path) -> u64 {
    walkdir::WalkDir::new(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|m| m.len())
        .sum()
}

fn invalid(code: &'static str, message: impl Into<String>) -> EngineError {
    EngineError::new(Kind::Invalid, code, message)
}

fn refuse_tablespaces() -> EngineError {
    invalid(
        "tablespaces",
        "the source has tablespaces outside its data directory; branches would share their files, so it is refused: \
         import a dump of it as a script instead",
    )
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

fn copy_error(path: &Path, error: &std::io::Error) -> EngineError {
    if error.raw_os_error() == Some(28) {
        return EngineError::new(
            Kind::Failed,
            "disk_full",
            format!("no space left while copying to {}; begin anew with a larger volume store (`duramen purge`, `duramen serve --volume-size`)", path.display()),
        );
    }
    io_error("copy to", path, error)
}

/// What `pg_basebackup` said, without the address of the source.
fn backup_failed(error: &ClusterError, origin: &Config) -> EngineError {
    use tokio_postgres::config::Host;
    let mut error = error.to_string();
    for host in origin.get_hosts() {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        error = error.replace(&host, "(the source)");
    }
    for port in origin.get_ports() {
        error = error.replace(&port.to_string(), "(its port)");
    }
    for address in origin.get_hostaddrs() {
        error = error.replace(&address.to_string(), "(the source)");
    }
    EngineError::new(
        Kind::Failed,
        "backup_failed",
        format!("{error}; the source's role needs REPLICATION, a `replication` line in its pg_hba.conf, and a free wal sender"),
    )
}
