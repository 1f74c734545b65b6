//! From an origin to a snapshot: copied, recovered, made harmless, stopped cleanly, trimmed, read-only.

use super::{
    address::Address,
    connection::{self, Quiet, LOGIN_TRIGGERS_SINCE},
    copied::Copied,
    data_directory::check_directory,
    digest,
    draft::{Draft, NO_ROOM},
    dump::Dump,
    flights, inventory,
    logical::Wanted,
    manifest::{Manifest, SourceRecord},
    masking,
    moment::Recovery,
    origin_server::{self, import_failed, local, start_failed, SampleServer},
    refusal::read_error,
    sanitise::{self, Vacuum, ADMIN, HOLDER},
    snapshot::{access_rules, hba_file, snapshot_path, Admitted, HOLDER_ITERATIONS, KEPT_CACHE},
    tablespaces, warm_up,
};
use crate::{
    error::{EngineError, Kind, SourceError},
    files::{self, io_error},
    following::Followers,
    home::Home,
    interrupt::Interrupt,
    model::{Origin, Policy, Sanitised, SourceFingerprint},
    shared::Shared,
    users,
};
use duramen_base::clock;
use duramen_cage::Cage;
use duramen_postgres::{
    volume, Cluster, Installation, Secret, ServerUser, Settings, Shut, StopMode, StoredText,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config};

pub(super) const START_LIMIT: Duration = Duration::from_secs(600);
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(600);
/// How long an origin may take to show whether the rules for masking fit it.
const RULES_LIMIT: Duration = Duration::from_secs(20);

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
    pub(crate) interrupt: &'a Interrupt,
    /// How long the reading of the origin may stand still.
    pub(crate) stall: Duration,
    pub(crate) followers: &'a Followers,
}

impl Shared {
    /// One that works as `user`, in `cage`.
    pub(crate) fn importer<'a>(
        &'a self,
        user: &'a ServerUser,
        cage: Option<Cage>,
        progress: Report,
        interrupt: &'a Interrupt,
    ) -> Importer<'a> {
        let environment = &self.environment;
        Importer {
            home: &environment.home,
            store: &environment.store,
            user,
            progress,
            cage,
            interrupt,
            stall: environment.stall,
            followers: &self.followers,
        }
    }
}

impl Importer<'_> {
    pub(super) fn say(&self, doing: &str) {
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
        if let Origin::Script { path } = &record.origin {
            Dump::open(Path::new(path))?;
        }
        // A server that may run login triggers is not connected to before its copy has been looked at.
        let follow = &record.settings.follow;
        let by_archive = follow.enabled && follow.archive.is_some();
        let known = match &record.origin {
            // Of an origin that is followed by its archive nothing is read.
            Origin::Server { .. } if by_archive => true,
            Origin::Server { url } => {
                let origin = Address::parse(url)?;
                let entered = connection::enter_origin(&origin).await?;
                if let Some((client, quiet)) = &entered {
                    self.check_rules(record, &origin, client, *quiet, database).await?;
                }
                entered.is_some()
            }
            _ => true,
        };
        let mut source_at_import = None;
        if follow.enabled && matches!(record.origin, Origin::Server { .. }) {
            // F22: nobody could tell what others wrote since from what a branch did, and each generation would read all of it.
            source_at_import = Some(origin_server::followed());
        } else if known {
            self.say("reading the live source, for later comparison");
            source_at_import = Some(
                origin_server::fingerprint(&record.origin, sample, None, self.stall, &*self.progress).await?,
            );
        }

        let draft = Draft::begin(self.home, self.store, self.user, record)?;
        let mut report = Vec::new();
        let (installation, database) = match &record.origin {
            Origin::Server { url } if follow.enabled => {
                self.followed(record, &Address::parse(url)?, database, &draft).await?
            }
            Origin::Server { url } if known => {
                let origin = Address::parse(url)?;
                let client = connection::enter_origin(&origin).await?.map(|(client, _)| client);
                self.base_backup(&origin, client, database, &draft).await?
            }
            Origin::Server { url } => self.base_backup(&Address::parse(url)?, None, database, &draft).await?,
            Origin::Flights { .. } => {
                let client = sample.connect(flights::DATABASE).await?;
                self.base_backup(&sample.address(), Some(client), database, &draft).await?
            }
            Origin::DataDirectory { path } => {
                tokio::task::block_in_place(|| self.copy_directory(Path::new(path), database, &draft))?
            }
            Origin::Script { path } => {
                let (made, said) = self.run_script(Path::new(path), database, &draft).await?;
                report = said;
                made
            }
            Origin::Copy { .. } => {
                return Err(SourceError::OriginUnknown { name: record.name.clone() }.into())
            }
            // It has no origin of its own: `Importer::upgrade` makes it.
            Origin::Upgrade { of, .. } => return Err(SourceError::NoGeneration { name: of.clone() }.into()),
            Origin::Logical { url, pg, without_extensions } if follow.enabled => {
                let wanted = Wanted { major: *pg, without: without_extensions };
                let (made, said) = self.followed_logically(record, (url, wanted), database, &draft).await?;
                report = said;
                made
            }
            Origin::Logical { url, pg, without_extensions } => {
                let wanted = Wanted { major: *pg, without: without_extensions };
                let (made, said) = self.dump_server(record, (url, wanted), database, &draft).await?;
                report = said;
                made
            }
        };
        let beginning = Beginning::Origin { sample, read: source_at_import, report };
        self.finish(record, (installation, database), beginning, draft).await
    }

    /// Refuses rules for masking that do not fit the origin, before hours are spent on a copy that they would be refused
    /// for. `client` is in the database of its URL. What cannot be read here, or not in time, is left to the same check of
    /// the copy.
    pub(super) async fn check_rules(
        &self,
        record: &SourceRecord,
        origin: &Address,
        client: &Client,
        quiet: Quiet,
        database: Option<&str>,
    ) -> Result<(), EngineError> {
        let there = connection::database(&origin.config);
        let look = async {
            match database.filter(|name| *name != there) {
                None => masking::misfit(record, client, there).await,
                Some(name) => {
                    let client = connection::origin(&origin.database(name), quiet).await?;
                    masking::misfit(record, &client, name).await
                }
            }
        };
        match tokio::time::timeout(RULES_LIMIT, look).await {
            Ok(Ok(Some(misfit))) => Err(misfit),
            Ok(Ok(None)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                tracing::info!(source = %record.name, "rules for masking are checked in the copy alone");
                Ok(())
            }
        }
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

    pub(super) fn create(
        &self,
        draft: &Draft<'_>,
        installation: &Installation,
    ) -> Result<Cluster, EngineError> {
        draft.create()?;
        let cluster = self.cluster(draft, installation);
        cluster.prepare_dir(&draft.path).map_err(|error| import_failed(&error))?;
        Ok(cluster)
    }

    /// Shut in: code of the source may run before it is harmless, whatever is done against it.
    pub(super) fn cluster(&self, draft: &Draft<'_>, installation: &Installation) -> Cluster {
        self.open_cluster(draft, installation).shut_in(self.walls(draft))
    }

    /// What the programs of an import are shut in by.
    pub(super) fn walls(&self, draft: &Draft<'_>) -> Option<Shut> {
        let hidden = vec![self.home.root().to_owned(), self.store.root.clone()];
        Some(Shut::new(self.cage.clone()?, hidden, draft.socket_dir.clone()))
    }

    /// A cluster whose programs reach the network, as one that copies a server must.
    pub(super) fn open_cluster(&self, draft: &Draft<'_>, installation: &Installation) -> Cluster {
        Cluster::new(installation.clone(), &draft.path, self.user.clone()).with_log(draft.log.clone())
    }

    pub(super) fn installation(&self, major: u32) -> Result<Installation, EngineError> {
        Installation::choose(self.home.root(), Some(major))
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))
    }

    pub(super) fn newest(&self) -> Result<Installation, EngineError> {
        Installation::choose(self.home.root(), None)
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))
    }

    /// The common second half: a copied data directory becomes a snapshot.
    pub(super) async fn finish(
        &self,
        record: &SourceRecord,
        made_by: (Installation, String),
        beginning: Beginning<'_>,
        mut draft: Draft<'_>,
    ) -> Result<Manifest, EngineError> {
        let finished = self.seal(record, made_by, beginning, &mut draft).await;
        finished.map_err(|mut error| {
            // A server that cannot write its log breaks all connections, and says why in its own log alone.
            if draft.ran_out_of_room() && !error.message.contains(NO_ROOM) {
                error.message = format!("{} ({NO_ROOM})", error.message);
            }
            error
        })
    }

    async fn seal(
        &self,
        record: &SourceRecord,
        (installation, database): (Installation, String),
        beginning: Beginning<'_>,
        draft: &mut Draft<'_>,
    ) -> Result<Manifest, EngineError> {
        files::close_tree(&draft.path)?;
        let cluster = self.cluster(draft, &installation);
        let (mut carried, mut sanitised) = sanitise::carry_settings(&draft.path, &installation);
        if let Beginning::Origin { report, .. } = &beginning {
            sanitised.extend_from_slice(report);
        }
        if tablespaces::are_inside(&draft.path)? {
            tablespaces::allow(&mut carried);
        }
        self.disarm_files(&cluster, &mut sanitised)?;

        self.say("recovering the copy");
        let major = installation.version.major;
        let mut settings = import_settings(major);
        settings.merge(&carried);
        let secret = self.home.admin_secret(&record.name);
        let make_admin = sanitise::make_admin(&secret);
        let moment = match &beginning {
            Beginning::Moment(of) => Some(of.made(self.recover(&cluster, of, &make_admin, &settings).await?)),
            _ => {
                cluster
                    .single_user("template1", &make_admin, &settings)
                    .map_err(|error| import_failed(&error))?;
                None
            }
        };
        let mut server =
            cluster.start(&draft.socket_dir, &settings, START_LIMIT).map_err(|error| start_failed(&error))?;
        // Recovery may have made one.
        tablespaces::are_inside(&draft.path)?;
        let admin = local(&draft.socket_dir, ADMIN, &secret, "template1");
        let (login_triggers, source_at_import) = match &beginning {
            Beginning::Copied(of) => (of.past.login_triggers.clone(), of.source_at_import.clone()),
            // What the origin held then is not known of it now.
            Beginning::Moment(_) => {
                (Some(sanitise::login_triggers(&admin, major).await?), origin_server::followed())
            }
            Beginning::Origin { sample, read, .. } => {
                let login_triggers = sanitise::login_triggers(&admin, major).await?;
                let found = match read {
                    Some(fingerprint) => fingerprint.clone(),
                    None => {
                        self.say("reading the live source, for later comparison");
                        origin_server::fingerprint(
                            &record.origin,
                            sample,
                            Some(&login_triggers),
                            self.stall,
                            &*self.progress,
                        )
                        .await?
                    }
                };
                (Some(login_triggers), found)
            }
        };
        let copied = match &beginning {
            Beginning::Copied(of) => Some(&**of),
            Beginning::Origin { .. } | Beginning::Moment(_) => None,
        };

        inventory::check(&admin, major, &installation).await?;
        self.say("making the copy harmless");
        let mut found = sanitise::run(&admin, major, copied.and_then(Copied::earlier)).await?;
        sanitised.append(&mut found.report);
        let databases = sanitise::databases(&admin, major).await?;
        sanitised
            .extend(inventory::report(&admin, major, &databases, &installation, &source_at_import).await?);
        let (database, database_oid) = serving_database(&admin, major, &database).await?;
        let own_roles = found.own_roles(&database);
        let mut admin_there = admin.clone();
        admin_there.dbname(&database);
        if let Some(of) = copied {
            sanitised.extend_from_slice(&of.report);
        } else {
            self.say("applying the rules for masking, if there are any");
            let apply = masking::apply(self.home, record, &admin_there, &draft.socket_dir, major);
            sanitised.extend(apply.await?);
            sanitised.extend(masking::half_overwritten(draft.is_overwritten()));
        }
        let databases = sanitise::databases(&admin, major).await?;
        let (first, verifiers) = self.give_first_secrets(record, &admin_there, major).await?;
        // From here on, code of the source may run, as its holders will run it.
        for name in &databases {
            sanitised.extend(sanitise::disable_jobs(&local(&draft.socket_dir, HOLDER, &first, name)).await);
        }
        let wanted = warm_up::statements(record, &admin_there, major).await?;
        let is_default = record.settings.warm.is_empty();
        let holder = connection::as_holder(&local(&draft.socket_dir, HOLDER, &first, &database)).await?;
        let own = connection::own(&admin_there, major).await?;
        let (warm, restore_sequences) =
            warm_up::rehearse(&own, &holder, wanted, is_default, &mut sanitised).await?;
        drop((own, holder));

        // Somebody waits for a moment, and what it costs shall not depend on how large the source is: its statistics are those of then.
        let is_whole = moment.is_none();
        // F22: nor shall that of a generation of a source that follows; rules for masking write tables anew.
        let is_next = is_whole && beginning.is_followed(record);
        let how = match is_next && record.settings.masking.is_none() {
            true => Vacuum::Changes,
            false => Vacuum::Whole,
        };
        if is_whole {
            self.say(if how == Vacuum::Whole { "vacuum and analyze" } else { "vacuum" });
        }
        for name in databases.iter().filter(|_| is_whole) {
            let mut config = admin.clone();
            config.dbname(name);
            let is_served = *name == database || record.settings.all_databases;
            sanitise::vacuum(&config, major, how, is_served, &mut sanitised).await?;
        }
        let reader = local(&draft.socket_dir, masking::READER, &first, &database);
        let personal = match is_whole {
            true => {
                self.say("looking for personal data that is not masked");
                Some(masking::look(record, &admin_there, &reader, major).await?)
            }
            false => None,
        };
        let live = match copied {
            Some(_) => None,
            None => masking::live_files(record, &admin_there, major).await?,
        };
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
        if let Some(live) = &live {
            tokio::task::block_in_place(|| draft.leave_scratch(live, self.user))?;
        }

        let tree = draft.path.clone();
        let read = move || match is_whole && !is_next {
            true => digest::tree(&tree),
            // That of a moment is taken with the first evidence, and that of what was followed by and by.
            false => digest::size(&tree).map(|bytes| (bytes, String::new())),
        };
        let (bytes, digest) = tokio::task::spawn_blocking(read)
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
        // What was made harmless before it was followed is told once.
        let mut told = BTreeSet::new();
        sanitised.retain(|it| told.insert((it.kind.clone(), it.object.clone(), it.action.clone())));
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
            login_triggers,
            first_verifiers,
            user: users::to_record(self.user),
            // Where they were not known of the generation that was copied, they are not known of what it becomes.
            own_roles: copied.is_none_or(|of| of.past.own_roles.is_some()).then_some(own_roles),
            masking: record.settings.masking.clone(),
            promoted: copied.and_then(|of| of.promoted.clone()),
            upgraded: copied.and_then(|of| of.upgraded.clone()),
            personal,
            moment,
            brought: None,
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
    pub(super) fn disarm_files(
        &self,
        cluster: &Cluster,
        sanitised: &mut Vec<Sanitised>,
    ) -> Result<(), EngineError> {
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
        for (name, text) in [
            ("postgresql.conf", String::new()),
            ("postgresql.auto.conf", String::new()),
            ("pg_hba.conf", format!("local all {} scram-sha-256\n", masking::admitted_roles())),
            ("pg_ident.conf", String::new()),
        ] {
            cluster.write_file(name, &text).map_err(|error| import_failed(&error))?;
        }
        Ok(())
    }
}

impl Beginning<'_> {
    /// Whether it is what a standby of ours held, in which everything but the latest changes was looked after by the origin.
    fn is_followed(&self, record: &SourceRecord) -> bool {
        let is_ours = record.settings.follow.enabled && matches!(record.origin, Origin::Server { .. });
        is_ours && matches!(self, Beginning::Origin { .. })
    }
}

/// What a snapshot is made of.
pub(super) enum Beginning<'a> {
    /// The source's origin; `read` is its fingerprint, if that was taken before it was copied, and `report` what the copy was
    /// made without.
    Origin { sample: &'a SampleServer, read: Option<SourceFingerprint>, report: Vec<Sanitised> },
    /// A generation that was made before, or a branch of one.
    Copied(Box<Copied<'a>>),
    /// A base of a followed source, and the log from there to a moment.
    Moment(&'a Recovery<'a>),
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
pub(super) fn import_settings(major: u32) -> Settings {
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

pub(super) fn invalid(code: &'static str, message: impl Into<String>) -> EngineError {
    EngineError::new(Kind::Invalid, code, message)
}
