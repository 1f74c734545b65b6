//! Operations on sources.

use crate::{
    audit::{Events, Position},
    doors::Holder,
    engine::Engine,
    environment::Environment,
    error::{EngineError, Kind, SourceError, POOL_MAX},
    files::io_error,
    following,
    generation::Generation,
    interrupt::Interrupt,
    leases::named,
    limits::{self, Applied},
    lineage,
    model::{
        AddSource, AuditVerification, ChangeSettings, Finding, Origin, Sanitised, Scan, SnapshotVerification,
        SourceFingerprint, SourceSettings, SourceView,
    },
    names,
    shared::Shared,
    source::{
        cage, digest,
        draft::NO_ROOM,
        import::Report,
        manifest::{self, InFleet, SourceRecord},
        masking,
        origin_server::{self, SampleServer},
        promote::Promotion,
        snapshot::snapshot_path,
        upgrade::Upgrade,
    },
    trial::try_settings,
    users,
};
use duramen_base::clock;
use duramen_postgres::{end_processes, processes_below, volume, Installation};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// How often programs of an import that is given up are ended.
const END_EVERY: Duration = Duration::from_millis(100);
/// How long a failed import waits for its space to be freed.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

/// What a generation is made of.
pub(crate) enum Of<'a> {
    /// The source's origin, and the database that branches serve, if that is known.
    Origin { database: Option<&'a str> },
    /// A branch of it, for whoever asked for that.
    Branch { promotion: &'a Promotion<'a>, by: Option<&'a Holder> },
}

/// An import that [`Engine::close`] can give up, for as long as its caller waits.
struct Listed<'a>(&'a Mutex<Vec<Interrupt>>, Interrupt);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !other.is_of(&self.1));
    }
}

impl Environment {
    /// Where programs of imports work.
    pub(crate) fn import_places(&self) -> [PathBuf; 2] {
        [self.store.root.join("imports"), masking::scratch::dir(self.home.root())]
    }
}

impl Shared {
    /// The sample's server of a source that has one.
    pub(crate) fn sample_server(&self, source: &str) -> Option<SampleServer> {
        let record = self.registry.source(source).ok();
        let is_sample = record.is_some_and(|record| matches!(record.origin, Origin::Flights { .. }));
        is_sample.then(|| self.new_sample_server(source).ok()).flatten()
    }

    fn new_sample_server(&self, source: &str) -> Result<SampleServer, EngineError> {
        let home = &self.environment.home;
        let installation = Installation::choose(home.root(), None).map_err(SourceError::NoServer)?;
        let user = users::of_sample(home, &self.environment.user, source)?;
        Ok(SampleServer::new(home, source, installation, user))
    }

    /// Removes the users of sources that are gone, with all that was theirs.
    pub(crate) fn remove_unused_users(&self) {
        self.users.remove_unused(&self.environment.home, &self.environment.store.root);
    }
}

impl Engine {
    /// Imports a source and begins to fill its pool.
    ///
    /// If the future is dropped, the import is given up.
    ///
    /// # Errors
    /// What is wrong with the origin; nothing is left behind, and the origin is as it was.
    pub async fn add_source(
        self: &Arc<Self>,
        request: AddSource,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        self.add_source_as(request, None, progress).await
    }

    /// The same, of a source that is a fleet's.
    ///
    /// # Errors
    /// As [`Engine::add_source`].
    pub async fn add_source_as(
        self: &Arc<Self>,
        request: AddSource,
        fleet: Option<InFleet>,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        names::check("source", &request.name)?;
        check_settings(&request.settings)?;
        let engine = Arc::clone(self);
        let progress: Report = Arc::new(progress);
        self.importing(|interrupt| async move {
            let _one = engine.turn(&interrupt).await?;
            if engine.shared.registry.has_source(&request.name) {
                return Err(SourceError::Exists { name: request.name }.into());
            }
            let record = SourceRecord {
                name: request.name,
                origin: absolute(request.origin)?,
                settings: request.settings,
                generation: 1,
                labels: BTreeMap::new(),
                fleet,
            };
            record.is_made_here()?;
            following::check(&record)?;
            engine.check_archive(&record.settings.follow).await?;
            engine.check_publisher(&record).await?;
            let name = record.name.clone();
            let of = Of::Origin { database: request.database.as_deref() };
            let added = engine.import(record, of, progress, &interrupt).await;
            if added.is_err() {
                if let Err(error) = tokio::task::block_in_place(|| engine.shared.unfollow(&name)) {
                    tracing::warn!(%error, "a follower is left to the next start's sweep");
                }
                engine.drop_unused_at_origins(true).await;
                if let Ok(sample) = engine.shared.new_sample_server(&name) {
                    sample.remove();
                }
                // Without a record in it, the folder is nobody's.
                let _ = fs::remove_dir_all(manifest::dir(&engine.shared.environment.home, &name));
                tokio::task::block_in_place(|| engine.shared.remove_unused_users());
            }
            added
        })
        .await
    }

    /// Runs an import in a task of its own, which clears up after itself when its caller goes away or the engine closes.
    pub(crate) async fn importing<F>(
        &self,
        import: impl FnOnce(Interrupt) -> F,
    ) -> Result<SourceView, EngineError>
    where
        F: Future<Output = Result<SourceView, EngineError>> + Send + 'static,
    {
        let begin = clock::now();
        let imported = self.in_turn(import).await;
        self.shared.metrics.imported(begin, &imported);
        imported
    }

    /// Runs what waits for its [turn](Engine::turn) in a task of its own, which can be given up.
    pub(crate) async fn in_turn<T, F>(&self, import: impl FnOnce(Interrupt) -> F) -> Result<T, EngineError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let interrupt = Interrupt::new();
        self.imports.lock().unwrap_or_else(PoisonError::into_inner).push(interrupt.clone());
        let _caller = interrupt.when_dropped();
        let _listed = Listed(&self.imports, interrupt.clone());
        tokio::spawn(import(interrupt)).await.map_err(SourceError::ImportCrashed)?
    }

    /// Waits until no other import, or change of a source, runs.
    pub(crate) async fn turn(
        &self,
        interrupt: &Interrupt,
    ) -> Result<tokio::sync::MutexGuard<'_, ()>, EngineError> {
        tokio::select! {
            biased;
            reason = interrupt.given() => Err(reason.told()),
            turn = self.sources_lock.lock() => Ok(turn),
        }
    }

    /// Does what can be given up. Parts of it wait for programs without letting the runtime have its thread, so those
    /// programs are ended from elsewhere.
    pub(crate) async fn unless_given_up<T>(
        &self,
        interrupt: &Interrupt,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let (places, given) = (self.shared.environment.import_places(), interrupt.clone());
        // Ends with this, however this ends: it would go on ending the programs of every later import.
        let mut ender = JoinSet::new();
        ender.spawn(async move {
            given.given().await;
            loop {
                let places = places.clone();
                let end = move || places.map(|place| end_processes(&processes_below(&place), &place));
                // What is left is looked at in the next round.
                let _ = tokio::task::spawn_blocking(end).await;
                tokio::time::sleep(END_EVERY).await;
            }
        });
        let done = tokio::select! {
            biased;
            reason = interrupt.given() => Err(reason.told()),
            done = work => done,
        };
        drop(ender);
        // A program that was ended fails with an error of its own.
        match (done, interrupt.reason()) {
            (Err(_), Some(reason)) => Err(reason.told()),
            (done, _) => done,
        }
    }

    /// Imports the next generation of a source. Branches of the earlier one go on working.
    ///
    /// # Errors
    /// As [`Engine::add_source`]; the current generation then stays current.
    pub async fn refresh_source(
        self: &Arc<Self>,
        name: &str,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        let engine = Arc::clone(self);
        let progress: Report = Arc::new(progress);
        let name = name.to_owned();
        self.importing(|interrupt| async move {
            let _one = engine.turn(&interrupt).await?;
            let mut record = engine.record(&name)?;
            record.is_made_here()?;
            let home = &engine.shared.environment.home;
            let database = manifest::Manifest::load(home, &name, record.generation).ok().map(|m| m.database);
            record.generation = engine.next_generation(&record);
            let of = Of::Origin { database: database.as_deref() };
            engine.import(record, of, progress, &interrupt).await
        })
        .await
    }

    /// The number of what is imported next.
    pub(crate) fn next_generation(&self, record: &SourceRecord) -> u32 {
        let newest = manifest::generations(&self.shared.environment.home, &record.name).last().copied();
        newest.unwrap_or(0).max(record.generation).max(self.counted_to(record)) + 1
    }

    /// Makes a generation of a source, and has it serve. Until its record is replaced, the earlier one serves (G1).
    pub(crate) async fn import(
        &self,
        mut record: SourceRecord,
        of: Of<'_>,
        progress: Report,
        interrupt: &Interrupt,
    ) -> Result<SourceView, EngineError> {
        let shared = &self.shared;
        let environment = &shared.environment;
        let cage = cage::find()?;
        let upgraded = match of {
            Of::Origin { .. } => self.upgraded(&mut record)?,
            Of::Branch { .. } => None,
        };
        let (user, _held) = shared.user_of(&record.name)?;
        let importer = shared.importer(&user, cage, progress, interrupt);
        let sample = shared.new_sample_server(&record.name)?;
        let importing = async {
            match (&of, &upgraded) {
                (Of::Origin { .. }, Some((generation, pg))) => {
                    importer.upgrade(&record, &Upgrade { generation, pg: *pg }).await
                }
                (Of::Origin { database }, None) => importer.import(&record, *database, &sample).await,
                (Of::Branch { promotion, .. }, _) => importer.promote(&record, promotion).await,
            }
        };
        let manifest = match self.unless_given_up(interrupt, importing).await {
            Ok(manifest) => manifest,
            Err(error) => {
                let is_masked = record.settings.masking.is_some();
                let error = if is_masked { masking::withheld(error) } else { error };
                let error = told_as_disk_full(error);
                if error.code == "disk_full" {
                    free_what_was_deleted(&environment.store).await;
                }
                return Err(error);
            }
        };
        let generation = Arc::new(Generation::open(
            &environment.home,
            &environment.store,
            &record.name,
            record.generation,
            &record.settings,
        )?);
        // Those of a source that is there were tried when they were set.
        if record.generation == 1 {
            if let Err(error) = settings_work(environment, &generation, &record.settings).await {
                if let Err(error) = environment.store.volumes.delete(&generation.snapshot) {
                    tracing::warn!(%error, "a refused source's snapshot is left to the next start's sweep");
                }
                return Err(error);
            }
        }
        record.save(&environment.home)?;
        match of {
            Of::Origin { .. } => shared.audit(
                "imported",
                json!({ "source": record.name, "generation": record.generation, "origin": record.origin.kind(),
                        "digest": manifest.digest, "content_hash": manifest.source_at_import.content_hash }),
            )?,
            Of::Branch { by, .. } => {
                let branch = manifest.promoted.as_ref();
                let details = json!({ "source": record.name, "generation": record.generation, "digest": manifest.digest,
                    "branch": branch.map(|it| &it.id), "name": branch.map(|it| &it.name) });
                shared.audit("promoted", named(details, by))?;
            }
        }
        let unmasked = manifest.personal.as_ref().map_or(0, Vec::len);
        if unmasked > 0 {
            let source = &record.name;
            tracing::warn!(
                source,
                unmasked,
                "columns look personal and are not masked: see `duramen source scan`"
            );
        }
        let name = record.name.clone();
        let size = generation.fit(&environment.store, &record.settings.pool);
        if manifest.digest.is_empty() {
            shared.unsealed.push(&name, record.generation);
        }
        shared.registry.replace_source(record, generation, size);
        shared.wake.wake();
        self.source(&name)
    }

    /// The generation that a source is made of which is an upgrade, and the major version that is asked for. The source
    /// has the rules for masking of that generation, and no others (V2).
    #[allow(clippy::type_complexity, reason = "a generation and a version are said once")]
    fn upgraded(
        &self,
        record: &mut SourceRecord,
    ) -> Result<Option<(Arc<Generation>, Option<u32>)>, EngineError> {
        let Origin::Upgrade { of, pg } = &record.origin else { return Ok(None) };
        let parent = self.record(of)?;
        let Some(generation) = self.shared.registry.generation(of) else {
            return Err(SourceError::NoGeneration { name: of.clone() }.into());
        };
        generation.check(&self.shared.environment.store)?;
        generation.check_rules(parent.settings.masking.as_ref())?;
        let is_first = record.generation == 1;
        if is_first && record.settings.masking.is_some() && record.settings.masking != parent.settings.masking
        {
            return Err(SourceError::RulesOfUpgrade { of: of.clone() }.into());
        }
        let pg = *pg;
        record.settings.masking.clone_from(&parent.settings.masking);
        Ok(Some((generation, pg)))
    }

    pub(crate) fn record(&self, name: &str) -> Result<SourceRecord, EngineError> {
        self.shared.registry.source(name)
    }

    /// All sources, by name. One whose record is damaged is left out.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceView> {
        let names = self.shared.registry.source_names();
        names.iter().filter_map(|name| self.source(name).ok()).collect()
    }

    /// One source.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn source(&self, name: &str) -> Result<SourceView, EngineError> {
        let record = self.record(name)?;
        let manifest = manifest::Manifest::load(&self.shared.environment.home, name, record.generation)?;
        let branches_by_generation = self.shared.registry.branches_by_generation(name);
        let data = manifest.data().to_owned();
        Ok(SourceView {
            name: record.name,
            origin: record.origin.kind().to_owned(),
            database: manifest.database,
            generation: manifest.generation,
            imported_at: manifest.imported_at,
            server_version: manifest.server_version.to_string(),
            bytes: manifest.bytes,
            digest: manifest.digest,
            data,
            promoted: manifest.promoted,
            upgraded: manifest.upgraded,
            masked_columns: masked_columns(&manifest.sanitised),
            unmasked: manifest.personal.iter().flatten().map(in_words).collect(),
            sanitised: manifest.sanitised,
            roles: manifest.own_roles.iter().flat_map(|own| own.usable()).map(str::to_owned).collect(),
            branches_by_generation,
            follow: self.shared.follow_view(name, &record.settings.follow),
            fleet: None,
            settings: record.settings,
        })
    }

    /// What looks personal in the current generation of a source and is not masked, and rules for it. The import looked, in its
    /// copy; nothing is read now.
    ///
    /// # Errors
    /// Unknown source, or one that was imported by a version that did not look.
    pub fn scan_source(&self, name: &str) -> Result<Scan, EngineError> {
        let record = self.record(name)?;
        let manifest = manifest::Manifest::load(&self.shared.environment.home, name, record.generation)?;
        let Some(found) = manifest.personal else {
            return Err(SourceError::NotScanned { name: name.to_owned() }.into());
        };
        let rules = masking::proposed(record.settings.masking.as_ref(), &found);
        Ok(Scan { source: record.name, generation: manifest.generation, found, rules })
    }

    /// Changes how a source's branches run. Pool sizes and limits apply at once, server settings to branches made from now on,
    /// warm-up statements from the next refresh on.
    ///
    /// # Errors
    /// Unknown source, sizes over the limit, settings with which no server starts, or the record cannot be written.
    pub async fn change_settings(
        &self,
        name: &str,
        change: ChangeSettings,
    ) -> Result<SourceView, EngineError> {
        let _one = self.sources_lock.lock().await;
        let mut record = self.record(name)?;
        if record.fleet.as_ref().is_some_and(|of| !of.is_kept_here) {
            record.is_made_here()?;
        }
        if let (Origin::Upgrade { of, .. }, true) = (&record.origin, change.masking.is_some()) {
            return Err(SourceError::RulesOfUpgrade { of: of.clone() }.into());
        }
        let settings = &mut record.settings;
        let asked_for: Vec<_> =
            change.hot.iter().filter(|(_, count)| **count > 0).map(|(policy, _)| *policy).collect();
        settings.pool.hot.extend(change.hot);
        settings.pool.cold = change.cold.unwrap_or(settings.pool.cold);
        check_pool(&settings.pool.hot, settings.pool.cold)?;
        if let Some(current) = self.shared.registry.generation(name) {
            asked_for.iter().try_for_each(|policy| current.admits(*policy))?;
        }
        let server_changed = !change.server.is_empty()
            || change.durable.is_some_and(|on| on != settings.durable)
            || change.all_databases.is_some_and(|on| on != settings.all_databases)
            || change.audit.is_some_and(|audit| audit != settings.audit)
            || change.masking.is_some();
        settings.server.retain(|key, _| change.server.get(key).is_none_or(|value| !value.is_empty()));
        for (key, value) in change.server.iter().filter(|(_, value)| !value.is_empty()) {
            check_setting(key)?;
            settings.server.insert(key.to_ascii_lowercase(), value.clone());
        }
        settings.durable = change.durable.unwrap_or(settings.durable);
        settings.all_databases = change.all_databases.unwrap_or(settings.all_databases);
        settings.audit = change.audit.unwrap_or(settings.audit);
        settings.snapshots = settings.snapshots.changed(change.snapshots);
        lineage::check(&settings.snapshots)?;
        settings.limits.change(&change.limits);
        limits::check(&settings.limits)?;
        settings.refill.change(&change.refill);
        limits::check_refill(&settings.refill)?;
        if let Some(warm) = change.warm {
            settings.warm = warm;
        }
        settings.keep = change.keep.unwrap_or(std::mem::take(&mut settings.keep));
        settings.masking = change.masking.or(settings.masking.take());
        settings.replicas = change.replicas.or(settings.replicas);
        check_replicas(settings.replicas)?;
        let was_followed = settings.follow.enabled;
        let old_archive = settings.follow.archive.clone();
        let old_publication = settings.follow.publication.clone();
        settings.follow = change.follow.unwrap_or(std::mem::take(&mut settings.follow));
        following::check(&record)?;
        let is_other_way = was_followed && old_archive != record.settings.follow.archive;
        if is_other_way || !was_followed {
            self.check_archive(&record.settings.follow).await?;
        }
        if !was_followed || old_publication != record.settings.follow.publication {
            self.check_publisher(&record).await?;
        }
        let home = &self.shared.environment.home;
        let store = &self.shared.environment.store;
        // It runs a program, and so is made before the lock is taken.
        let generation = Arc::new(Generation::open(home, store, name, record.generation, &record.settings)?);
        // A snapshot of which no branch can be made is no reason to keep its settings from being changed.
        if server_changed && generation.check(store).is_ok() {
            try_settings(&self.shared.environment, &generation).await?;
        }
        record.save(home)?;
        // What was written down is in force before anything else is waited for, or fails.
        let is_unfollowed = was_followed && !record.settings.follow.enabled;
        if is_other_way && !is_unfollowed {
            self.shared.followers.forget_way(name);
        }
        let size = generation.fit(store, &record.settings.pool);
        let limits = generation.limits();
        if server_changed {
            let checked = generation.check(store);
            self.shared.registry.replace_source(record, generation, size);
            // Rules that did not make it: creates are told so at once.
            if let Err(error) = checked {
                self.shared.registry.mark_broken(name, error.message);
            }
        } else {
            self.shared.registry.resize_source(record, size);
        }
        tokio::task::block_in_place(|| self.apply_limits(name, limits));
        self.shared.keeping.look_soon();
        self.shared.wake.wake();
        if is_unfollowed {
            tokio::task::block_in_place(|| self.shared.unfollow(name))?;
            self.drop_unused_at_origins(true).await;
        }
        self.source(name)
    }

    /// Has the branches of a source take what they may by these limits, those that are leased too.
    pub(crate) fn apply_limits(&self, name: &str, limits: Applied) {
        let (branches, cold) = self.shared.registry.set_limits(name, limits);
        branches.iter().for_each(|branch| branch.apply_limits());
        for volume in cold {
            self.shared.environment.limit_volume(&volume, limits.disk);
        }
    }

    /// Compares a snapshot's files with the digest that was taken when it was imported.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub async fn verify_source(&self, name: &str) -> Result<SnapshotVerification, EngineError> {
        let record = self.record(name)?;
        let manifest = self.sealed(name, record.generation).await?;
        let found = self.snapshot_digest(name, record.generation).await?;
        Ok(SnapshotVerification { intact: found == manifest.digest, expected: manifest.digest, found })
    }

    /// The manifest of a generation, with the digest that holds for it.
    pub(crate) async fn sealed(
        &self,
        name: &str,
        generation: u32,
    ) -> Result<manifest::Manifest, EngineError> {
        let (shared, source) = (Arc::clone(&self.shared), name.to_owned());
        let sealing = tokio::task::spawn_blocking(move || shared.seal(&source, generation, &|| true));
        sealing.await.map_err(SourceError::VerifyCrashed)??;
        manifest::Manifest::load(&self.shared.environment.home, name, generation)
    }

    pub(crate) async fn snapshot_digest(&self, name: &str, generation: u32) -> Result<String, EngineError> {
        let path = snapshot_path(&self.shared.environment.store, name, generation);
        tokio::task::spawn_blocking(move || {
            digest::tree(&path).map(|(_, digest)| digest).map_err(|error| io_error("read", &path, &error))
        })
        .await
        .map_err(SourceError::VerifyCrashed)?
    }

    /// The present state of the live source.
    ///
    /// # Errors
    /// When it cannot be reached or read.
    pub async fn fingerprint_source(&self, name: &str) -> Result<SourceFingerprint, EngineError> {
        let record = self.record(name)?;
        let sample = self.shared.new_sample_server(name)?;
        let imported = manifest::Manifest::load(&self.shared.environment.home, name, record.generation);
        let login_triggers = imported.ok().and_then(|manifest| manifest.login_triggers);
        origin_server::fingerprint(
            &record.origin,
            &sample,
            login_triggers.as_deref(),
            self.shared.environment.stall,
            &|_, _| {},
        )
        .await
    }

    /// Forgets a source and deletes its snapshots. Refused while branches of it are leased.
    ///
    /// # Errors
    /// Unknown source, or leases.
    pub async fn remove_source(&self, name: &str) -> Result<(), EngineError> {
        let _one = self.sources_lock.lock().await;
        self.record(name)?;
        self.remove_locked(name).await
    }

    /// The same, by who has the lock and has looked at what the source is.
    pub(crate) async fn remove_locked(&self, name: &str) -> Result<(), EngineError> {
        let sample = self.shared.sample_server(name);
        let home = &self.shared.environment.home;
        self.shared.registry.remove_source(name, || {
            // The record goes first: without it, a restart sweeps everything else.
            let dir = manifest::dir(home, name);
            fs::remove_file(dir.join("source.json")).map_err(|error| io_error("remove", &dir, &error))
        })?;
        if let Err(error) = tokio::task::block_in_place(|| self.shared.unfollow(name)) {
            tracing::warn!(%error, "a removed source's standby is left to the next start's sweep");
        }
        let store = &self.shared.environment.store;
        for number in manifest::all(home, name) {
            if let Err(error) = store.volumes.delete(&snapshot_path(store, name, number)) {
                tracing::warn!(%error, "a removed source's snapshot is left to the next start's sweep");
            }
        }
        self.shared.keeping.forget(name);
        // Its record is gone, so the rest is nobody's, and an import of that name replaces it.
        let writing = self.shared.unsealed.hold();
        let _ = fs::remove_dir_all(manifest::dir(home, name));
        drop(writing);
        if let Some(sample) = sample {
            tokio::task::block_in_place(|| sample.remove());
        }
        // Where branches of it are still being deleted, it goes with the last of them.
        tokio::task::block_in_place(|| self.shared.remove_unused_users());
        self.shared.wake.wake();
        let audited = self.shared.audit("removed", json!({ "source": name }));
        // Last, because it waits for other machines: whoever asked for this may be gone before they answer.
        self.drop_unused_at_origins(true).await;
        audited
    }

    /// What the audit log says from now on, or from a position on.
    ///
    /// # Errors
    /// When the log has no such position, or cannot be read.
    pub fn events(&self, after: Option<Position>) -> Result<Events, EngineError> {
        self.shared.audit.follow(after)
    }

    /// Checks the whole audit log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn verify_audit(&self) -> Result<AuditVerification, EngineError> {
        self.shared.audit("verified", json!({}))?;
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            let dir = shared.environment.home.audit();
            shared.audit.verify().map_err(|error| io_error("read the audit log in", &dir, &error))
        })
        .await
        .map_err(SourceError::VerifyCrashed)?
    }
}

/// How many columns the rules of a source were applied to, by what its import reported.
fn masked_columns(report: &[Sanitised]) -> u32 {
    let masked = report.iter().filter(|it| it.kind == "column" && it.action.starts_with("masked ("));
    u32::try_from(masked.count()).unwrap_or(u32::MAX)
}

/// A column that looks personal, in words.
fn in_words(finding: &Finding) -> String {
    let path = finding.path.as_deref().map(|path| format!(" {path}")).unwrap_or_default();
    format!("{}.{}{path} ({})", finding.table, finding.column, finding.looks_like.words())
}

/// Whether branches of a new source can be made as its settings say.
async fn settings_work(
    environment: &Environment,
    generation: &Arc<Generation>,
    settings: &SourceSettings,
) -> Result<(), EngineError> {
    settings.pool.hot.keys().try_for_each(|policy| generation.admits(*policy))?;
    if settings.server.is_empty() {
        return Ok(());
    }
    try_settings(environment, generation).await
}

/// Waits until the room of a failed import can be used again: a next, smaller one shall not fail for it.
pub(crate) async fn free_what_was_deleted(store: &volume::Store) {
    let begin = clock::now();
    tokio::task::block_in_place(|| store.volumes.reclaim(&store.root));
    // What it wrote may have taken the space for everything else, which the maintenance thread sees to.
    while (store.volumes.reclaiming(&store.root) || store.is_unbalanced()) && begin.elapsed() < RECLAIM_LIMIT
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Programs that an import runs tell of a full disk in their own words, and so without the next step.
pub(crate) fn told_as_disk_full(mut error: EngineError) -> EngineError {
    if error.code != "disk_full" && error.message.contains(NO_ROOM) {
        error.code = "disk_full";
        error.kind = Kind::Failed;
        error.message +=
            "; destroy branches, remove unused sources, or begin anew with a larger volume store \
                          (`duramen purge`, `duramen serve --volume-size`)";
    }
    error
}

/// What can be said of settings without a server.
pub(crate) fn check_settings(settings: &SourceSettings) -> Result<(), EngineError> {
    check_pool(&settings.pool.hot, settings.pool.cold)?;
    settings.server.keys().try_for_each(|name| check_setting(name))?;
    limits::check(&settings.limits)?;
    limits::check_refill(&settings.refill)?;
    lineage::check(&settings.snapshots)?;
    check_replicas(settings.replicas)
}

fn check_pool(hot: &BTreeMap<crate::model::Policy, u32>, cold: u32) -> Result<(), EngineError> {
    if hot.values().map(|&count| u64::from(count)).sum::<u64>() > u64::from(POOL_MAX) || cold > POOL_MAX {
        return Err(SourceError::PoolTooLarge.into());
    }
    Ok(())
}

fn check_replicas(replicas: Option<u32>) -> Result<(), EngineError> {
    let most = SourceSettings::REPLICAS_MAX;
    match replicas {
        Some(count) if count == 0 || count > most => Err(SourceError::BadReplicas { most }.into()),
        _ => Ok(()),
    }
}

/// Settings that would let a branch reach out, or that the engine itself decides.
fn check_setting(name: &str) -> Result<(), EngineError> {
    const REFUSED: &[&str] = &[
        "archive_command",
        "archive_mode",
        "archive_library",
        "restore_command",
        "primary_conninfo",
        "listen_addresses",
        "unix_socket_directories",
        "port",
        "hba_file",
        "ident_file",
        "data_directory",
        "config_file",
        "shared_preload_libraries",
        "session_preload_libraries",
        "local_preload_libraries",
        "dynamic_library_path",
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "max_logical_replication_workers",
        "allow_system_table_mods",
        "external_pid_file",
        "event_triggers",
        "duramen.identity",
    ];
    let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    if !valid || REFUSED.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(SourceError::SettingRefused { name: name.to_owned() }.into());
    }
    Ok(())
}

/// Paths are kept absolute: the daemon's working directory is not the caller's.
fn absolute(origin: Origin) -> Result<Origin, EngineError> {
    let resolve = |path: String| match fs::canonicalize(&path) {
        Ok(absolute) => Ok(absolute.display().to_string()),
        Err(error) => Err(SourceError::NoPath { path, error }),
    };
    Ok(match origin {
        Origin::DataDirectory { path } => Origin::DataDirectory { path: resolve(path)? },
        Origin::Script { path } => Origin::Script { path: resolve(path)? },
        other => other,
    })
}
