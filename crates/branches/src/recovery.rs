//! Opening a home directory after whatever happened to the process that had it before.
//!
//! The lease journal says what was promised; everything else is disposable. Leased branches are adopted if their
//! server runs, else started again; what belongs to no lease is ended and deleted, processes first.

use crate::{
    audit::Audit,
    branch::{Branch, Workshop},
    engine::{self, Engine, Lease, OpenOptions, Shared, State},
    error::EngineError,
    generation::Generation,
    home::{self, io_error, Passage},
    journal::{self, Journal, LeaseRecord, Opened},
    maintenance::parallel,
    source::manifest::{self, SourceRecord},
    watch::Marker,
};
use duramen_postgres::{end_processes, processes_below, Postmaster, StopMode};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

/// How long the server of a volume that goes into quarantine may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// The boot of a branch that was stopped cleanly: its files are whole in any boot.
pub(crate) const CLEAN: &str = "clean";

pub(crate) fn open(options: OpenOptions, runtime: tokio::runtime::Handle) -> Result<Shared, EngineError> {
    let workshop = engine::workshop(&options)?;
    for name in ["branches", "snapshots", "imports"] {
        home::make_dir(&workshop.store.root.join(name), Passage::Servers, &workshop.user)?;
    }
    let Opened { journal, leases: mut records, damaged } = Journal::open(&workshop.home.journal())?;
    let (marker, lost) = Marker::open(&workshop.home.marker())?;
    if let Some(lost) = lost.or_else(|| workshop.store.lost_writes()) {
        tracing::error!("{lost}");
        for record in &mut records {
            record.problem.get_or_insert_with(|| lost.clone());
            journal.put(record)?;
        }
        workshop.store.told();
        marker.clear()?;
    }
    let audit = Audit::open(&workshop.home.audit())?;
    audit.append(
        "opened",
        json!({ "version": env!("CARGO_PKG_VERSION"), "volumes": workshop.store.volumes.kind() }),
    )?;
    let boot = journal::boot_id();

    let mut state = State::default();
    for record in manifest::load_all(&workshop.home)? {
        open_source(&workshop, record, &mut state);
    }
    let (kept, lost): (Vec<LeaseRecord>, Vec<LeaseRecord>) = records.into_iter().partition(|record| {
        workshop.volume(&record.volume).join("PG_VERSION").exists()
            && (record.boot == boot || record.boot == CLEAN || record.durable)
    });
    for record in lost {
        tracing::warn!(branch = record.name, "lost: its unflushed data did not survive the machine");
        audit.append("lease_lost", json!({ "branch": record.id, "name": record.name }))?;
        journal.end(&record.id)?;
    }
    if let Some(copy) = &damaged {
        let moved = quarantine(&workshop, &kept)?;
        journal.rewrite(&kept)?;
        tracing::error!(volumes = moved, journal = %copy.display(), "the lease journal is damaged");
        audit.append("journal_damaged", json!({ "kept_as": copy, "quarantined": moved }))?;
    }
    state.warnings.extend(quarantine_warning(&workshop)?);
    sweep(&workshop, &kept)?;
    let leases = parallel(2, kept, |record| adopt(&workshop, &state, record, &boot, &runtime));
    for lease in leases {
        let lease = lease?;
        journal.put(&lease.record)?;
        audit.append(
            "lease_adopted",
            json!({ "branch": lease.record.id, "name": lease.record.name, "problem": lease.problem }),
        )?;
        state.leases.insert(lease.record.name.clone(), lease);
    }
    Ok(Engine::assemble(options, workshop, runtime, (journal, marker), audit, boot, state))
}

/// Makes a recorded source usable, or says in the status why it is not.
fn open_source(workshop: &Workshop, record: SourceRecord, state: &mut State) {
    let opened =
        Generation::open(&workshop.home, &workshop.store, &record.name, record.generation, &record.settings)
            .and_then(|generation| generation.check(&workshop.store).map(|()| generation));
    match opened {
        Ok(generation) => {
            let size = generation.fit(&workshop.store, &record.settings.pool);
            state.pools.replace_generation(Arc::new(generation), size);
        }
        Err(error) => {
            tracing::error!(source = record.name, "{error}");
            // Without its manifest a source has no generation; with it, creates are told what is wrong.
            if let Ok(generation) = Generation::open(
                &workshop.home,
                &workshop.store,
                &record.name,
                record.generation,
                &record.settings,
            ) {
                let size = generation.fit(&workshop.store, &record.settings.pool);
                state.pools.replace_generation(Arc::new(generation), size);
            }
            state.pools.broken.insert(record.name.clone(), error.message);
        }
    }
    state.sources.insert(record.name.clone(), record);
}

/// A leased branch of an earlier process, running again.
fn adopt(
    workshop: &Workshop,
    state: &State,
    mut record: LeaseRecord,
    boot: &str,
    runtime: &tokio::runtime::Handle,
) -> Result<Lease, EngineError> {
    let settings =
        state.sources.get(&record.source).map(|source| source.settings.clone()).unwrap_or_default();
    let mut generation =
        Generation::open(&workshop.home, &workshop.store, &record.source, record.generation, &settings)?;
    // The branch goes on as it began, whatever the source's settings have become since.
    generation.durable = record.durable;
    let branch = Arc::new(Branch::new(
        workshop,
        Arc::new(generation),
        record.policy,
        record.volume.clone(),
        Some(record.socket.clone()),
    ));
    let secured = if record.problem.is_some() || branch.generation.manifest.is_current() {
        Ok(())
    } else {
        branch.secure()
    };
    let problem = if record.problem.is_some() {
        // As the watch left it: kept for whoever wants to look at its files.
        branch.retire();
        branch.kill();
        record.problem.clone()
    } else {
        let entered = secured.and_then(|()| branch.start()).and_then(|()| {
            if record.unentered {
                // The daemon was killed in the middle of a reset: until a session has been there, its URL is refused.
                runtime.block_on(branch.connect(false))?;
                record.unentered = false;
            }
            Ok(())
        });
        entered.err().map(|error| error.message)
    };
    boot.clone_into(&mut record.boot);
    Ok(Lease { record, branch, problem, resetting: false })
}

/// Moves every volume that no lease names to the quarantine, because a damaged line of the journal may have named it.
/// Its server is stopped with a checkpoint, so that its files are whole. Returns how many there were.
fn quarantine(workshop: &Workshop, kept: &[LeaseRecord]) -> Result<usize, EngineError> {
    let dir = workshop.quarantine();
    home::make_dir(&dir, Passage::Servers, &workshop.user)?;
    let mut moved = 0;
    for name in entries(&workshop.branches())? {
        if kept.iter().any(|record| record.volume == name) {
            continue;
        }
        let volume = workshop.volume(&name);
        if let Some(mut server) = Postmaster::adopt(&volume) {
            if server.stop(StopMode::Fast, STOP_LIMIT).is_err() {
                server.kill();
            }
        }
        end_processes(&processes_below(&volume), &volume);
        let target = dir.join(&name);
        fs::rename(&volume, &target).map_err(|error| io_error("put into quarantine", &volume, &error))?;
        moved += 1;
    }
    Ok(moved)
}

/// What `status` and `doctor` say as long as there is something in quarantine.
fn quarantine_warning(workshop: &Workshop) -> Result<Option<String>, EngineError> {
    let dir = workshop.quarantine();
    let count = if dir.exists() { entries(&dir)?.len() } else { 0 };
    Ok((count > 0).then(|| {
        format!(
            "the lease journal was damaged, and {count} data directories that a lease may own are kept in {}; \
             compare them with leases.damaged-*.jsonl in {}, start those that are wanted with pg_ctl, and then delete \
             them (on btrfs: btrfs subvolume delete)",
            dir.display(),
            workshop.home.root().display()
        )
    }))
}

/// Ends and deletes everything that belongs to no lease and no source.
fn sweep(workshop: &Workshop, kept: &[LeaseRecord]) -> Result<(), EngineError> {
    let volumes: HashSet<&str> = kept.iter().map(|record| record.volume.as_str()).collect();
    // By the files that are there: a source whose record cannot be read keeps what it has until somebody mends it.
    let generations: BTreeMap<String, Vec<u32>> = entries(&workshop.home.sources())?
        .into_iter()
        .filter(|source| manifest::dir(&workshop.home, source).join("source.json").exists())
        .map(|source| (source.clone(), manifest::generations(&workshop.home, &source)))
        .collect();

    let branches = workshop.branches();
    let orphans: Vec<u32> = processes_below(&branches)
        .into_iter()
        .filter(|pid| {
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let name = cwd
                .strip_prefix(&branches)
                .ok()
                .and_then(|path| path.iter().next())
                .and_then(|name| name.to_str());
            // A deleted directory reads as `NAME (deleted)` and so is nobody's.
            !name.is_some_and(|name| volumes.contains(name))
        })
        .chain(processes_below(&workshop.store.root.join("imports")))
        .collect();
    end_processes(&orphans, &workshop.store.root);

    let mut stale = Vec::new();
    for name in entries(&branches)? {
        if !volumes.contains(name.as_str()) {
            stale.push(branches.join(name));
        }
    }
    let imports = workshop.store.root.join("imports");
    stale.extend(entries(&imports)?.into_iter().map(|name| imports.join(name)));
    let snapshots = workshop.store.root.join("snapshots");
    for name in entries(&snapshots)? {
        let known = name.rsplit_once('.').is_some_and(|(source, number)| {
            number
                .parse()
                .is_ok_and(|number: u32| generations.get(source).is_some_and(|list| list.contains(&number)))
        });
        if !known {
            stale.push(snapshots.join(name));
        }
    }
    let count = stale.len();
    parallel(2, stale, |path| {
        if let Err(error) = workshop.store.volumes.delete(&path) {
            tracing::warn!(%error, "a left-over volume could not be deleted");
        }
    });
    if count + orphans.len() > 0 {
        tracing::info!(volumes = count, processes = orphans.len(), "swept what an earlier process left");
    }

    let sockets: HashSet<&str> = kept.iter().map(|record| record.socket.as_str()).collect();
    for name in entries(workshop.home.sockets())? {
        if !sockets.contains(name.as_str()) && !name.starts_with("o-") {
            let _ = fs::remove_dir_all(workshop.home.sockets().join(name));
        }
    }
    for name in entries(&workshop.home.logs())? {
        let ours = name.starts_with("v-") || name.starts_with("import-");
        if ours && !name.strip_suffix(".log").is_some_and(|volume| volumes.contains(volume)) {
            let _ = fs::remove_file(workshop.home.logs().join(name));
        }
    }
    // A sample's server whose source was never recorded comes from an import that was killed.
    for name in entries(&workshop.home.origins())? {
        let source = name.strip_suffix(".log").unwrap_or(&name).to_owned();
        if !generations.contains_key(&source) {
            let path = workshop.home.origins().join(&name);
            end_processes(&processes_below(&path), &path);
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<String>, EngineError> {
    let listed = fs::read_dir(dir).map_err(|error| io_error("list", dir, &error))?;
    Ok(listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}
