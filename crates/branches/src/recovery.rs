//! Opening a home directory after whatever happened to the process that had it before.
//!
//! The lease journal says what was promised; everything else is disposable. Leased branches are adopted if their
//! server runs, else started again; what belongs to no lease is ended and deleted, processes first.

use crate::{
    audit::Audit,
    branch::Branch,
    environment::Environment,
    error::EngineError,
    files::{self, io_error, Passage},
    generation::Generation,
    home::Home,
    journal::{self, Journal, LeaseRecord, Opened, SnapshotRecord, CLEAN},
    marker::Marker,
    merge, pairs,
    parallel::parallel,
    registry::{Lease, Registry},
    shared::{self, OpenOptions, Shared},
    source::{
        history,
        manifest::{self, SourceRecord},
        masking::scratch,
        standby::{self, standbys},
    },
    users,
};
use duramen_base::file;
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
/// How often a leased branch is started, and the pause between two tries.
const START_TRIES: u32 = 3;
const START_PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn open(options: &OpenOptions, runtime: tokio::runtime::Handle) -> Result<Shared, EngineError> {
    let environment = shared::open_environment(options)?;
    // Before anything else, because it holds values that should have been masked.
    let scratch = scratch::destroy(environment.home.root());
    for name in ["branches", "snapshots", "imports"] {
        files::make_dir(&environment.store.root.join(name), Passage::Servers, &environment.user)?;
    }
    let Opened { journal, leases: mut records, mut snapshots, damaged } =
        Journal::open(&environment.home.journal())?;
    let (marker, lost) = Marker::open(&environment.home.marker())?;
    if let Some(lost) = lost.or_else(|| environment.store.lost_writes()) {
        tracing::error!("{lost}");
        for record in &mut records {
            record.problem.get_or_insert_with(|| lost.clone());
            journal.put(record)?;
        }
        for snapshot in &mut snapshots {
            snapshot.problem.get_or_insert_with(|| lost.clone());
            journal.put_snapshot(snapshot)?;
        }
        environment.store.acknowledge_losses();
        marker.clear()?;
    }
    let audit = Audit::open(&environment.home.audit())?;
    audit.append(
        "opened",
        json!({ "version": env!("CARGO_PKG_VERSION"), "volumes": environment.store.volumes.kind() }),
    )?;
    let boot = journal::boot_id()?;

    sweep_drafts(&environment.home)?;
    let sources = manifest::load_all(&environment.home)?;
    for source in &sources {
        manifest::forget_unserved(&environment.home, source);
    }
    let (kept, lost): (Vec<LeaseRecord>, Vec<LeaseRecord>) = records.into_iter().partition(|record| {
        environment.volume(&record.volume).join("PG_VERSION").exists()
            && (record.boot == boot || record.boot == CLEAN || record.durable)
    });
    for record in lost {
        tracing::warn!(branch = record.name, "lost: its unflushed data did not survive the machine");
        audit.append("lease_lost", json!({ "branch": record.id, "name": record.name }))?;
        journal.end(&record.id)?;
    }
    // L7.
    snapshots.retain(|record| {
        environment.volume(&record.id).join("PG_VERSION").exists()
            && (record.boot == boot || record.boot == CLEAN || record.durable)
    });
    if let Some(copy) = &damaged {
        let moved = quarantine(&environment, &kept, &snapshots)?;
        journal.rewrite(&kept, &snapshots)?;
        tracing::error!(volumes = moved, journal = %copy.display(), "the lease journal is damaged");
        audit.append("journal_damaged", json!({ "kept_as": copy, "quarantined": moved }))?;
    }
    sweep(&environment, &kept, &snapshots)?;
    merge::sweep(&environment.home);
    sweep_standbys(&environment, &sources)?;
    history::sweep(&environment.home, &environment.store, &sources)?;
    let registry = Registry::new(journal);
    for record in sources {
        open_source(&environment, record, &registry);
    }
    if let Err(error) = scratch {
        tracing::error!("{error}");
        registry.warn(error.message);
    }
    if let Some(warning) = quarantine_warning(&environment)? {
        registry.warn(warning);
    }
    for lease in parallel(2, kept, |record| adopt(&environment, &registry, record, &boot, &runtime)) {
        let (id, name) = (lease.record().id.clone(), lease.record().name.clone());
        let problem = lease.problem().map(str::to_owned);
        registry.adopt(lease)?;
        audit.append("lease_adopted", json!({ "branch": id, "name": name, "problem": problem }))?;
    }
    registry.adopt_snapshots(snapshots)?;
    let shared = Shared::new(environment, runtime, registry, marker, audit, boot);
    shared.remove_unused_users();
    users::remove_orphans();
    Ok(shared)
}

/// Makes a recorded source usable, or says in the status why it is not.
fn open_source(environment: &Environment, record: SourceRecord, registry: &Registry) {
    let (home, store) = (&environment.home, &environment.store);
    let name = record.name.clone();
    let generation = match Generation::open(home, store, &name, record.generation, &record.settings) {
        Ok(generation) => generation,
        Err(error) => {
            tracing::error!(source = name, "{error}");
            registry.put_source(record);
            registry.mark_broken(&name, error.message);
            return;
        }
    };
    let checked = generation.check(store);
    let size = generation.fit(store, &record.settings.pool);
    registry.replace_source(record, Arc::new(generation), size);
    // It keeps its generation, so that creates are told what is wrong.
    if let Err(error) = checked {
        tracing::error!(source = name, "{error}");
        registry.mark_broken(&name, error.message);
    }
}

/// A leased branch of an earlier process, running again.
fn adopt(
    environment: &Environment,
    registry: &Registry,
    mut record: LeaseRecord,
    boot: &str,
    runtime: &tokio::runtime::Handle,
) -> Lease {
    let settings = registry.settings(&record.source);
    let (source, number) = (&record.source, record.generation);
    let mut generation = Generation::open(&environment.home, &environment.store, source, number, &settings)
        .unwrap_or_else(|error| Generation::unusable(&environment.store, source, number, error));
    // The branch goes on as it began, whatever the source's settings have become since.
    generation.durable = record.durable;
    generation.all_databases = record.all_databases;
    generation.audits_statements = record.audits_statements;
    let branch = Branch::new(
        environment,
        Arc::new(generation),
        record.policy,
        record.volume.clone(),
        Some(record.socket.clone()),
    );
    let branch = Arc::new(branch.inheriting(environment, record.inherited.as_deref()));
    if let Err(error) = branch.generation.usable() {
        // Of this branch alone: once what is missing was put back, the next daemon takes it up again.
        tracing::error!(branch = record.name, %error, "the branch cannot be started");
        branch.retire();
        branch.stop();
        let problem = record.problem.clone().or(Some(error.message));
        return Lease::new(record, branch, problem);
    }
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
        branch.end_if_locked_out();
        let entered = secured.and_then(|()| start_patiently(&branch)).and_then(|()| {
            if record.unentered {
                // The daemon was killed in the middle of a reset: until a session has been there, its URL is refused.
                runtime.block_on(branch.connect(false))?;
                record.unentered = false;
            }
            Ok(())
        });
        entered.err().map(|error| error.message)
    };
    // Of a store of before there were quotas, or from a reset that was cut short.
    environment.limit_volume(&branch.volume, branch.generation.limits().disk);
    branch.apply_limits();
    boot.clone_into(&mut record.boot);
    Lease::new(record, branch, problem)
}

/// Starts a branch's server, with pauses if it does not at once: what hinders it may be on its way out. Its data are kept in
/// any case.
fn start_patiently(branch: &Branch) -> Result<(), EngineError> {
    for _ in 1..START_TRIES {
        match branch.start() {
            Ok(()) => return Ok(()),
            Err(error) => tracing::warn!(%error, volume = branch.volume, "a branch does not start yet"),
        }
        std::thread::sleep(START_PAUSE);
    }
    branch.start()
}

/// Moves every volume that no lease names to the quarantine, because a damaged line of the journal may have named it.
/// Its server is stopped with a checkpoint, so that its files are whole. Returns how many there were.
fn quarantine(
    environment: &Environment,
    kept: &[LeaseRecord],
    snapshots: &[SnapshotRecord],
) -> Result<usize, EngineError> {
    let dir = environment.quarantine();
    files::make_dir(&dir, Passage::Servers, &environment.user)?;
    let mut moved = 0;
    for name in entries(&environment.branches())? {
        let is_known = kept.iter().any(|record| record.volume == name)
            || snapshots.iter().any(|record| record.id == name);
        // No line of the journal ever names a volume of a pair (RS2): it is swept as always.
        if is_known || name.starts_with(pairs::PREFIX) {
            continue;
        }
        let volume = environment.volume(&name);
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

/// Removes files of ours that a killed daemon was about to put in their places.
fn sweep_drafts(home: &Home) -> Result<(), EngineError> {
    let sources = home.sources();
    let of_sources = entries(&sources)?.into_iter().map(|name| sources.join(name));
    for dir in [home.root().to_owned()].into_iter().chain(of_sources.filter(|dir| dir.is_dir())) {
        file::remove_drafts(&dir)
            .map_err(|error| io_error("remove what is half written in", &dir, &error))?;
    }
    Ok(())
}

/// Ends the standbys that an earlier process left, which are started again when they are looked after, and removes those that
/// nobody follows an origin by any more.
fn sweep_standbys(environment: &Environment, sources: &[SourceRecord]) -> Result<(), EngineError> {
    let dir = standbys(&environment.store);
    if !dir.exists() {
        return Ok(());
    }
    end_processes(&processes_below(&dir), &dir);
    for name in entries(&dir)? {
        // A source whose record cannot be read keeps what it has until somebody fixes it.
        let is_known = manifest::dir(&environment.home, &name).join("source.json").exists();
        let follows = |record: &SourceRecord| record.name == name && record.settings.follow.enabled;
        if !is_known || (sources.iter().any(|it| it.name == name) && !sources.iter().any(follows)) {
            standby::remove(&environment.store, &environment.home, &name)?;
        }
    }
    Ok(())
}

/// What `status` and `doctor` say as long as there is something in quarantine.
fn quarantine_warning(environment: &Environment) -> Result<Option<String>, EngineError> {
    let dir = environment.quarantine();
    let count = if dir.exists() { entries(&dir)?.len() } else { 0 };
    Ok((count > 0).then(|| {
        format!(
            "the lease journal was damaged, and {count} data directories that a lease may own are kept in {}; \
             compare them with leases.damaged-*.jsonl in {}, start those that are wanted with pg_ctl, and then delete \
             them (on btrfs: btrfs subvolume delete)",
            dir.display(),
            environment.home.root().display()
        )
    }))
}

/// Ends and deletes everything that belongs to no lease and no source.
fn sweep(
    environment: &Environment,
    kept: &[LeaseRecord],
    snapshots: &[SnapshotRecord],
) -> Result<(), EngineError> {
    let branch_volumes = kept.iter().map(|record| record.volume.as_str());
    let volumes: HashSet<&str> =
        branch_volumes.chain(snapshots.iter().map(|record| record.id.as_str())).collect();
    // By the files that are there: a source whose record cannot be read keeps what it has until somebody fixes it.
    let generations: BTreeMap<String, Vec<u32>> = entries(&environment.home.sources())?
        .into_iter()
        .filter(|source| manifest::dir(&environment.home, source).join("source.json").exists())
        .map(|source| (source.clone(), manifest::all(&environment.home, &source)))
        .collect();

    let branches = environment.branches();
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
        .chain(processes_below(&environment.store.root.join("imports")))
        .collect();
    end_processes(&orphans, &environment.store.root);

    let mut stale = Vec::new();
    for name in entries(&branches)? {
        if !volumes.contains(name.as_str()) {
            stale.push(branches.join(name));
        }
    }
    let imports = environment.store.root.join("imports");
    stale.extend(entries(&imports)?.into_iter().map(|name| imports.join(name)));
    let snapshots = environment.store.root.join("snapshots");
    for name in entries(&snapshots)? {
        let known = name.rsplit_once('.').is_some_and(|(source, number)| {
            // What a lease stands on is kept without a manifest too: somebody may put that back.
            number.parse().is_ok_and(|number: u32| {
                generations.get(source).is_some_and(|list| list.contains(&number))
                    || kept.iter().any(|record| record.source == source && record.generation == number)
            })
        });
        if !known {
            stale.push(snapshots.join(name));
        }
    }
    let count = stale.len();
    parallel(2, stale, |path| {
        if let Err(error) = environment.store.volumes.delete(&path) {
            tracing::warn!(%error, "a left-over volume could not be deleted");
        }
    });
    if count + orphans.len() > 0 {
        tracing::info!(volumes = count, processes = orphans.len(), "swept what an earlier process left");
    }

    if let Ok(groups) = &*environment.groups {
        groups.sweep(&volumes);
    }
    environment.sweep_quotas();

    // Of what follows, nothing can be taken for anything else: what stays is swept by the next opening.
    let sockets: HashSet<&str> = kept.iter().map(|record| record.socket.as_str()).collect();
    for name in entries(environment.home.sockets())? {
        if !sockets.contains(name.as_str()) && !name.starts_with("o-") {
            let _ = fs::remove_dir_all(environment.home.sockets().join(name));
        }
    }
    for name in entries(&environment.home.logs())? {
        let ours = ["v-", pairs::PREFIX, "import-"].iter().any(|prefix| name.starts_with(prefix));
        if ours
            && !name
                .rsplit_once('.')
                .is_some_and(|(volume, kind)| ["log", "read"].contains(&kind) && volumes.contains(volume))
        {
            let _ = fs::remove_file(environment.home.logs().join(name));
        }
    }
    // A sample's server whose source was never recorded comes from an import that was killed.
    for name in entries(&environment.home.origins())? {
        let source = name.strip_suffix(".log").unwrap_or(&name).to_owned();
        if !generations.contains_key(&source) {
            let path = environment.home.origins().join(&name);
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
