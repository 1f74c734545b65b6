//! Operations on sources.

use crate::{
    engine::{Engine, Shared},
    error::{EngineError, Kind},
    generation::Generation,
    home::io_error,
    model::{
        AddSource, AuditVerification, BranchEvidence, ChangeSettings, Origin, SnapshotVerification,
        SourceFingerprint, SourceView,
    },
    names,
    source::{
        digest, fingerprint,
        import::{Importer, Report},
        manifest::{self, SourceRecord},
        origin_server::{self, SampleServer},
    },
};
use duramen_measure::clock;
use duramen_postgres::{volume, Installation};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// How many events an evidence reply holds at most.
const EVENTS_MAX: usize = 10_000;
/// How long a failed import waits for its space to be freed.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);
/// The most branches of one kind that a pool is asked to keep.
const POOL_MAX: u32 = 2000;

impl Shared {
    /// The sample's server of a source that has one.
    pub(crate) fn sample_server(&self, source: &str) -> Option<SampleServer> {
        let is_sample = self
            .state()
            .sources
            .get(source)
            .is_some_and(|record| matches!(record.origin, Origin::Flights { .. }));
        is_sample.then(|| self.new_sample_server(source).ok()).flatten()
    }

    fn new_sample_server(&self, source: &str) -> Result<SampleServer, EngineError> {
        let home = &self.workshop.home;
        let installation = Installation::choose(home.root(), None)
            .map_err(|error| EngineError::new(Kind::Failed, "no_server", error.to_string()))?;
        Ok(SampleServer::new(home, source, installation, self.workshop.user.clone()))
    }

    /// Deletes the snapshots that no branch is made of, or was.
    pub(crate) fn remove_unused_generations(&self) {
        let in_use: Vec<(String, u32)> = {
            let state = self.state();
            let leased = state.leases.values().map(|l| (l.record.source.clone(), l.record.generation));
            let doomed = state.pools.doomed.iter().map(|(branch, _)| &branch.generation);
            let ready =
                state.pools.pools.values().flat_map(|pool| &pool.hot).map(|branch| &branch.generation);
            let current = state.sources.values().map(|record| (record.name.clone(), record.generation));
            let made = doomed
                .chain(ready)
                .map(|generation| (generation.source.clone(), generation.manifest.generation));
            leased.chain(made).chain(current).collect()
        };
        let sources: Vec<String> = self.state().sources.keys().cloned().collect();
        for source in sources {
            for number in manifest::generations(&self.workshop.home, &source) {
                // A number above the current one is being imported.
                let current = self.state().sources.get(&source).map_or(0, |record| record.generation);
                if number >= current || in_use.contains(&(source.clone(), number)) {
                    continue;
                }
                let store = &self.workshop.store;
                let snapshot = crate::source::import::snapshot_path(store, &source, number);
                if let Err(error) = store.volumes.delete(&snapshot) {
                    tracing::warn!(%error, "an unused generation could not be deleted");
                    continue;
                }
                let _ = fs::remove_file(manifest::manifest_path(&self.workshop.home, &source, number));
                tracing::info!(source, generation = number, "removed an unused generation");
            }
        }
    }
}

impl Engine {
    /// Imports a source and begins to fill its pool.
    ///
    /// # Errors
    /// What is wrong with the origin; nothing is left behind, and the origin is as it was.
    pub async fn add_source(
        self: &Arc<Self>,
        request: AddSource,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        names::check("source", &request.name)?;
        check_pool(&request.settings.pool.hot, request.settings.pool.cold)?;
        request.settings.server.iter().try_for_each(|(name, _)| check_setting(name))?;
        let engine = Arc::clone(self);
        let progress: Report = Arc::new(progress);
        // In a task of its own: a caller who goes away does not leave half an import.
        self.importing(async move {
            let _one = engine.sources_lock.lock().await;
            if engine.shared.state().sources.contains_key(&request.name) {
                return Err(EngineError::new(
                    Kind::Conflict,
                    "source_exists",
                    format!(
                        "source {} exists; `duramen source refresh {}` imports it anew",
                        request.name, request.name
                    ),
                ));
            }
            let record = SourceRecord {
                name: request.name,
                origin: absolute(request.origin)?,
                settings: request.settings,
                generation: 1,
            };
            let name = record.name.clone();
            let added = engine.import(record, request.database.as_deref(), progress).await;
            if added.is_err() {
                if let Ok(sample) = engine.shared.new_sample_server(&name) {
                    sample.remove();
                }
                let _ = fs::remove_dir_all(manifest::dir(&engine.shared.workshop.home, &name));
            }
            added
        })
        .await
    }

    /// Runs an import in a task that [`Engine::close`] can end.
    async fn importing(
        &self,
        import: impl std::future::Future<Output = Result<SourceView, EngineError>> + Send + 'static,
    ) -> Result<SourceView, EngineError> {
        let task = tokio::spawn(import);
        self.imports.lock().unwrap_or_else(PoisonError::into_inner).push(task.abort_handle());
        let done = task.await;
        self.imports.lock().unwrap_or_else(PoisonError::into_inner).retain(|task| !task.is_finished());
        done.map_err(|_| {
            EngineError::new(
                Kind::Unavailable,
                "stopping",
                "the daemon stops, and the import with it; nothing is left of it",
            )
        })?
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
        self.importing(async move {
            let _one = engine.sources_lock.lock().await;
            let mut record = engine.record(&name)?;
            let home = &engine.shared.workshop.home;
            let database = manifest::Manifest::load(home, &name, record.generation).ok().map(|m| m.database);
            let newest = manifest::generations(home, &name).last().copied().unwrap_or(0);
            record.generation = newest.max(record.generation) + 1;
            engine.import(record, database.as_deref(), progress).await
        })
        .await
    }

    async fn import(
        &self,
        record: SourceRecord,
        database: Option<&str>,
        progress: Report,
    ) -> Result<SourceView, EngineError> {
        let shared = &self.shared;
        let workshop = &shared.workshop;
        let importer =
            Importer { home: &workshop.home, store: &workshop.store, user: &workshop.user, progress };
        let sample = shared.new_sample_server(&record.name)?;
        let manifest = match importer.import(&record, database, &sample).await {
            Ok(manifest) => manifest,
            Err(error) => {
                let error = told_as_disk_full(error);
                if error.code == "disk_full" {
                    free_what_was_deleted(&workshop.store).await;
                }
                return Err(error);
            }
        };
        record.save(&workshop.home)?;
        let generation = Generation::open(
            &workshop.home,
            &workshop.store,
            &record.name,
            record.generation,
            &record.settings,
        )?;
        shared.audit(
            "imported",
            json!({ "source": record.name, "generation": record.generation, "origin": record.origin.kind(),
                    "digest": manifest.digest, "content_hash": manifest.source_at_import.content_hash }),
        )?;
        let name = record.name.clone();
        {
            let size = generation.fit(&workshop.store, &record.settings.pool);
            let mut state = shared.state();
            state.pools.replace_generation(Arc::new(generation), size);
            state.sources.insert(name.clone(), record);
        }
        shared.wake.wake();
        self.source(&name)
    }

    fn record(&self, name: &str) -> Result<SourceRecord, EngineError> {
        let state = self.shared.state();
        state.sources.get(name).cloned().ok_or_else(|| {
            let hint =
                names::closest(name, state.sources.keys()).map(|known| format!("; did you mean {known}?"));
            EngineError::new(
                Kind::NotFound,
                "unknown_source",
                format!(
                    "there is no source {name:?}{}; `duramen source list` shows those there are",
                    hint.unwrap_or_default()
                ),
            )
        })
    }

    /// All sources, by name. One whose record is damaged is left out.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceView> {
        let names: Vec<String> = self.shared.state().sources.keys().cloned().collect();
        names.iter().filter_map(|name| self.source(name).ok()).collect()
    }

    /// One source.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn source(&self, name: &str) -> Result<SourceView, EngineError> {
        let record = self.record(name)?;
        let manifest = manifest::Manifest::load(&self.shared.workshop.home, name, record.generation)?;
        let mut branches_by_generation = BTreeMap::new();
        let state = self.shared.state();
        let leased = state.leases.values().filter(|l| l.record.source == name).map(|l| l.record.generation);
        let ready = state.pools.pools.iter().filter(|(key, _)| key.0 == name);
        let ready =
            ready.flat_map(|(_, pool)| pool.hot.iter().map(|branch| branch.generation.manifest.generation));
        for generation in leased.chain(ready) {
            *branches_by_generation.entry(generation).or_default() += 1;
        }
        Ok(SourceView {
            name: record.name,
            origin: record.origin.kind().to_owned(),
            database: manifest.database,
            generation: manifest.generation,
            imported_at: manifest.imported_at,
            server_version: manifest.server_version.to_string(),
            bytes: manifest.bytes,
            digest: manifest.digest,
            sanitised: manifest.sanitised,
            branches_by_generation,
            settings: record.settings,
        })
    }

    /// Changes how a source's branches run. Pool sizes apply at once, server settings to branches made from now on,
    /// warm-up statements from the next refresh on.
    ///
    /// # Errors
    /// Unknown source, sizes over the limit, or the record cannot be written.
    pub async fn change_settings(
        &self,
        name: &str,
        change: ChangeSettings,
    ) -> Result<SourceView, EngineError> {
        let _one = self.sources_lock.lock().await;
        let mut record = self.record(name)?;
        let settings = &mut record.settings;
        settings.pool.hot.extend(change.hot);
        settings.pool.cold = change.cold.unwrap_or(settings.pool.cold);
        check_pool(&settings.pool.hot, settings.pool.cold)?;
        let server_changed =
            !change.server.is_empty() || change.durable.is_some_and(|on| on != settings.durable);
        let mut server = duramen_postgres::Settings::new();
        for (key, value) in
            settings.server.iter().filter(|(key, _)| change.server.get(*key).is_none_or(|v| !v.is_empty()))
        {
            server.set(key, value);
        }
        for (key, value) in change.server.iter().filter(|(_, value)| !value.is_empty()) {
            check_setting(key)?;
            server.set(key, value);
        }
        settings.server = server;
        settings.durable = change.durable.unwrap_or(settings.durable);
        if let Some(warm) = change.warm {
            settings.warm = warm;
        }
        let home = &self.shared.workshop.home;
        record.save(home)?;
        {
            // It runs a program, and so is made before the lock is taken.
            let store = &self.shared.workshop.store;
            let generation = Generation::open(home, store, name, record.generation, &record.settings)?;
            let size = generation.fit(store, &record.settings.pool);
            let mut state = self.shared.state();
            if server_changed {
                state.pools.replace_generation(Arc::new(generation), size);
            } else {
                state.pools.broken.remove(name);
                state.pools.sizes.insert(name.to_owned(), size);
                state.pools.trim();
            }
            state.sources.insert(name.to_owned(), record);
        }
        self.shared.wake.wake();
        self.source(name)
    }

    /// Compares a snapshot's files with the digest that was taken when it was imported.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub async fn verify_source(&self, name: &str) -> Result<SnapshotVerification, EngineError> {
        let record = self.record(name)?;
        let manifest = manifest::Manifest::load(&self.shared.workshop.home, name, record.generation)?;
        let found = self.snapshot_digest(name, record.generation).await?;
        Ok(SnapshotVerification { intact: found == manifest.digest, expected: manifest.digest, found })
    }

    async fn snapshot_digest(&self, name: &str, generation: u32) -> Result<String, EngineError> {
        let path = crate::source::import::snapshot_path(&self.shared.workshop.store, name, generation);
        tokio::task::spawn_blocking(move || {
            digest::tree(&path).map(|(_, digest)| digest).map_err(|error| io_error("read", &path, &error))
        })
        .await
        .map_err(|error| EngineError::new(Kind::Failed, "verify_failed", error.to_string()))?
    }

    /// The present state of the live source.
    ///
    /// # Errors
    /// When it cannot be reached or read.
    pub async fn fingerprint_source(&self, name: &str) -> Result<SourceFingerprint, EngineError> {
        let record = self.record(name)?;
        let sample = self.shared.new_sample_server(name)?;
        let imported = manifest::Manifest::load(&self.shared.workshop.home, name, record.generation);
        let login_triggers = imported.ok().and_then(|manifest| manifest.login_triggers);
        origin_server::fingerprint(&record.origin, &sample, login_triggers.as_deref()).await
    }

    /// Forgets a source and deletes its snapshots. Refused while branches of it are leased.
    ///
    /// # Errors
    /// Unknown source, or leases.
    pub async fn remove_source(&self, name: &str) -> Result<(), EngineError> {
        let _one = self.sources_lock.lock().await;
        self.record(name)?;
        let sample = self.shared.sample_server(name);
        let home = &self.shared.workshop.home;
        {
            let mut state = self.shared.state();
            let held = state.leases.values().filter(|lease| lease.record.source == name).count();
            if held > 0 {
                return Err(EngineError::new(
                    Kind::Conflict,
                    "source_in_use",
                    format!("{held} branches of {name} are leased; destroy them first"),
                ));
            }
            // The record goes first: without it, a restart sweeps everything else.
            let dir = manifest::dir(home, name);
            fs::remove_file(dir.join("source.json")).map_err(|error| io_error("remove", &dir, &error))?;
            state.sources.remove(name);
            state.pools.generations.remove(name);
            state.pools.sizes.remove(name);
            state.pools.broken.remove(name);
            state.fail_waiters(name);
            state.pools.drain(name);
        }
        let store = &self.shared.workshop.store;
        for number in manifest::generations(home, name) {
            if let Err(error) =
                store.volumes.delete(&crate::source::import::snapshot_path(store, name, number))
            {
                tracing::warn!(%error, "a removed source's snapshot is left to the next start's sweep");
            }
        }
        let _ = fs::remove_dir_all(manifest::dir(home, name));
        if let Some(sample) = sample {
            tokio::task::block_in_place(|| sample.remove());
        }
        self.shared.wake.wake();
        self.shared.audit("removed", json!({ "source": name }))
    }

    /// What is known of a branch and its source, for keeping.
    ///
    /// # Errors
    /// Unknown branch, or a source that cannot be reached.
    pub async fn evidence(&self, name: &str) -> Result<BranchEvidence, EngineError> {
        let mut branch = self.branch(name)?;
        // Evidence is kept and passed on; the way in is not.
        if let Some(end) = branch.url.find("&password=") {
            branch.url.truncate(end);
        }
        let home = &self.shared.workshop.home;
        let manifest = manifest::Manifest::load(home, &branch.source, branch.generation)?;
        let source_now = self.fingerprint_source(&branch.source).await?;
        let source = fingerprint::compare(&manifest.source_at_import, &source_now);
        let snapshot_digest_now = self.snapshot_digest(&branch.source, branch.generation).await?;
        let events = self
            .shared
            .audit
            .events_of(&branch.id, EVENTS_MAX)
            .map_err(|error| io_error("read the audit log in", &home.audit(), &error))?;
        Ok(BranchEvidence {
            branch,
            snapshot_digest: manifest.digest,
            snapshot_digest_now,
            source_at_import: manifest.source_at_import,
            source_now,
            source,
            events,
        })
    }

    /// Checks the whole audit log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn verify_audit(&self) -> Result<AuditVerification, EngineError> {
        self.shared.audit("verified", json!({}))?;
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            let dir = shared.workshop.home.audit();
            shared.audit.verify().map_err(|error| io_error("read the audit log in", &dir, &error))
        })
        .await
        .map_err(|error| EngineError::new(Kind::Failed, "verify_failed", error.to_string()))?
    }
}

/// Waits until the room of a failed import can be used again: a next, smaller one shall not fail for it.
async fn free_what_was_deleted(store: &volume::Store) {
    let begin = clock::now();
    tokio::task::block_in_place(|| store.volumes.reclaim(&store.root));
    while store.volumes.reclaiming(&store.root) && begin.elapsed() < RECLAIM_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Programs that an import runs tell of a full disk in their own words, and so without the next step.
fn told_as_disk_full(mut error: EngineError) -> EngineError {
    if error.code != "disk_full" && error.message.contains("No space left on device") {
        error.code = "disk_full";
        error.kind = Kind::Failed;
        error.message +=
            "; destroy branches, remove unused sources, or begin anew with a larger volume store \
                          (`duramen purge`, `duramen serve --volume-size`)";
    }
    error
}

fn check_pool(hot: &BTreeMap<crate::model::Policy, u32>, cold: u32) -> Result<(), EngineError> {
    if hot.values().map(|&count| u64::from(count)).sum::<u64>() > u64::from(POOL_MAX) || cold > POOL_MAX {
        return Err(EngineError::new(
            Kind::Invalid,
            "pool_too_large",
            format!("a source keeps at most {POOL_MAX} branches ready"),
        ));
    }
    Ok(())
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
        return Err(EngineError::new(
            Kind::Invalid,
            "bad_setting",
            format!("{name:?} cannot be set for branches: it is no setting, could let them reach out, or is the engine's own (--durable turns flushing on)"),
        ));
    }
    Ok(())
}

/// Paths are kept absolute: the daemon's working directory is not the caller's.
fn absolute(origin: Origin) -> Result<Origin, EngineError> {
    let resolve = |path: String| -> Result<String, EngineError> {
        fs::canonicalize(&path).map(|absolute| absolute.display().to_string()).map_err(|error| {
            EngineError::new(Kind::Invalid, "bad_path", format!("cannot find {path}: {error}"))
        })
    };
    Ok(match origin {
        Origin::DataDirectory { path } => Origin::DataDirectory { path: resolve(path)? },
        Origin::Script { path } => Origin::Script { path: resolve(path)? },
        other => other,
    })
}
