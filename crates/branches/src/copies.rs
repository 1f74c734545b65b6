//! Copies of sources on several nodes of a fleet: a generation is sent as it is, and received, verified and served as one that was
//! imported here. Who is to have which copy is somebody else's to decide.
//!
//! The invariants FL-14 to FL-20 that comments name are in `docs/design/fleet.md`.

use crate::{
    capacity,
    engine::Engine,
    error::{EngineError, Kind, SourceError},
    files::io_error,
    generation::Generation,
    interrupt::Interrupt,
    model::{FollowSettings, Origin, SourceSettings, SourceView},
    names,
    shared::Shared,
    source::{
        digest,
        draft::Draft,
        manifest::{self, Brought, InFleet, Manifest, SourceRecord},
        snapshot::snapshot_path,
        transfer::{self, TransferError},
    },
    sources::{check_settings, free_what_was_deleted, told_as_disk_full},
    users,
};
use bytes::Bytes;
use duramen_postgres::Installation;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};

/// What is left free beside a copy.
const SPARE: u64 = 64 << 20;
/// Bytes that are sent at a time.
const CHUNK: usize = 256 << 10;

/// How much room a generation of so many bytes needs: itself, the blocks that file systems add, and some for the branches that are there.
#[must_use]
pub fn room_for_copy(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8).saturating_add(SPARE)
}

/// A source as this home has it, for those who compare it with what a fleet has agreed on.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalSource {
    /// Its name.
    pub name: String,
    /// Which source of the fleet it is; none if it is this node's own.
    pub fleet: Option<InFleet>,
    /// The kind of its origin.
    pub origin: &'static str,
    /// The generation that serves.
    pub generation: u32,
    /// Its digest; empty while it is being taken.
    pub digest: String,
    /// The bytes of its files.
    pub bytes: u64,
    /// The hash of its manifest.
    pub manifest: String,
    /// How its branches run.
    pub settings: SourceSettings,
    /// Whether its record cannot be read: of all else nothing is known then, but that it is there.
    pub is_unread: bool,
}

/// A generation that this home is to have.
#[derive(Debug, Clone)]
pub struct WantedCopy {
    /// The source's name.
    pub name: String,
    /// Which source of the fleet it is.
    pub fleet: InFleet,
    /// The kind of its origin.
    pub origin: String,
    /// How its branches run.
    pub settings: SourceSettings,
    /// The generation's number.
    pub generation: u32,
    /// The digest that its files have to have.
    pub digest: String,
    /// Their bytes.
    pub bytes: u64,
    /// The hash that its manifest has to have.
    pub manifest: String,
    /// The node that sends it.
    pub from: String,
}

/// What is said of a generation before its files: how they are used. It holds a secret, and goes to nodes alone.
#[derive(Clone, Serialize, Deserialize)]
pub struct CopyHead {
    manifest: Manifest,
    administrator: String,
}

impl std::fmt::Debug for CopyHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyHead").field("generation", &self.manifest.generation).finish_non_exhaustive()
    }
}

impl Engine {
    /// What this home has of each source.
    #[must_use]
    pub fn local_sources(&self) -> Vec<LocalSource> {
        let home = &self.shared.environment.home;
        let read = self.shared.registry.sources().into_iter().map(|record| {
            let manifest = Manifest::load(home, &record.name, record.generation);
            let (digest, bytes, manifest) = manifest.map_or_else(
                |_| Default::default(),
                |it| {
                    let hash = it.hash();
                    (it.digest, it.bytes, hash)
                },
            );
            LocalSource {
                name: record.name,
                fleet: record.fleet,
                origin: record.origin.kind(),
                generation: record.generation,
                digest,
                bytes,
                manifest,
                settings: record.settings,
                is_unread: false,
            }
        });
        let mut local: Vec<LocalSource> = read.collect();
        for name in manifest::names(home) {
            if !local.iter().any(|source| source.name == name) && !self.shared.registry.has_source(&name) {
                local.push(LocalSource {
                    name,
                    fleet: None,
                    origin: "unknown",
                    generation: 0,
                    digest: String::new(),
                    bytes: 0,
                    manifest: String::new(),
                    settings: SourceSettings::default(),
                    is_unread: true,
                });
            }
        }
        local
    }

    /// Takes note of a number that a generation of a source of the fleet has somewhere: those that are made here from now on have higher
    /// ones, also in a home that was put back to an earlier day (FL-17).
    pub fn count_from(&self, id: &str, number: u32) {
        if number < manifest::MOMENTS_FROM - 1 {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let highest = counted.entry(id.to_owned()).or_default();
            *highest = number.max(*highest);
        }
    }

    /// The highest number that is known to be taken elsewhere.
    pub(crate) fn counted_to(&self, record: &SourceRecord) -> u32 {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        record.fleet.as_ref().and_then(|of| counted.get(&of.id).copied()).unwrap_or(0)
    }

    /// Removes what this home has of a source of the fleet, if it is a copy, for its keeper.
    ///
    /// # Errors
    /// There is no such copy, it is in use, or sources are being changed for longer than `limit`.
    pub async fn remove_copy(
        &self,
        name: &str,
        (id, keeper): (&str, &str),
        limit: Duration,
    ) -> Result<(), EngineError> {
        let Ok(_one) = timeout(limit, self.sources_lock.lock()).await else {
            let message =
                format!("sources are being changed here; ask again for the copy of {name} to be removed");
            return Err(EngineError::new(Kind::Unavailable, "source_changes", message));
        };
        let fleet = self.record(name).ok().and_then(|record| record.fleet);
        if !fleet.is_some_and(|of| of.id == id && of.keeper == keeper && !of.is_kept_here) {
            let message = format!("there is no copy here of the source {name} that {keeper} keeps");
            return Err(EngineError::new(Kind::NotFound, "unknown_source", message));
        }
        self.remove_locked(name).await
    }

    /// The names of all sources.
    #[must_use]
    pub fn source_names(&self) -> Vec<String> {
        self.shared.registry.source_names()
    }

    /// Whether branches of a source are leased here, by which it cannot be removed.
    ///
    /// # Errors
    /// `source_in_use`.
    pub fn check_unused(&self, name: &str) -> Result<(), EngineError> {
        let leases = self.held_names().iter().filter(|held| held.source == name).count();
        match leases {
            0 => Ok(()),
            leases => Err(SourceError::InUse { name: name.to_owned(), leases }.into()),
        }
    }

    /// Takes note of which source of a fleet a source is, or that it is none.
    ///
    /// # Errors
    /// Unknown source, or the record cannot be written.
    pub async fn set_fleet(&self, name: &str, fleet: Option<InFleet>) -> Result<(), EngineError> {
        let _one = self.sources_lock.lock().await;
        let mut record = self.record(name)?;
        if record.fleet == fleet {
            return Ok(());
        }
        record.fleet = fleet;
        record.save(&self.shared.environment.home)?;
        self.shared.registry.put_source(record);
        Ok(())
    }

    /// Has branches of a copy run as its keeper's settings say. While sources are being imported or changed here, that is done by a later
    /// call.
    ///
    /// # Errors
    /// Unknown source, settings that are not any, or the record cannot be written.
    pub fn follow_settings(
        &self,
        name: &str,
        id: &str,
        settings: &SourceSettings,
    ) -> Result<(), EngineError> {
        let settings = of_copy(settings);
        let is_as_wanted = |record: &SourceRecord| {
            let is_its = record.fleet.as_ref().is_some_and(|of| of.id == id && !of.is_kept_here);
            !is_its || record.settings == settings
        };
        if is_as_wanted(&self.record(name)?) {
            return Ok(());
        }
        check_settings(&settings)?;
        // An import has it for as long as it lasts.
        let Ok(_one) = self.sources_lock.try_lock() else { return Ok(()) };
        let mut record = self.record(name)?;
        if is_as_wanted(&record) {
            return Ok(());
        }
        record.settings = settings;
        let environment = &self.shared.environment;
        let (home, store) = (&environment.home, &environment.store);
        let generation = Arc::new(Generation::open(home, store, name, record.generation, &record.settings)?);
        record.save(home)?;
        let size = generation.fit(store, &record.settings.pool);
        let (limits, checked) = (generation.limits(), generation.check(store));
        self.shared.registry.replace_source(record, generation, size);
        // Rules that it was not made under: creates are told so at once.
        if let Err(error) = checked {
            self.shared.registry.mark_broken(name, error.message);
        }
        tokio::task::block_in_place(|| self.apply_limits(name, limits));
        self.shared.keeping.look_soon();
        self.shared.wake.wake();
        Ok(())
    }

    /// What another node is told of a generation before its files.
    ///
    /// # Errors
    /// There is no such generation of that source, or its digest is another one, or not taken yet.
    pub fn copy_head(
        &self,
        name: &str,
        id: &str,
        number: u32,
        digest: &str,
    ) -> Result<CopyHead, EngineError> {
        let record = self.record(name)?;
        let home = &self.shared.environment.home;
        let is_it = record.fleet.as_ref().is_some_and(|of| of.id == id);
        let manifest = Manifest::load(home, name, number).ok().filter(|it| is_it && it.digest == digest);
        let manifest = manifest.ok_or_else(|| {
            not_brought("no_such_generation", format!("there is no generation {number} of {name} here"))
        })?;
        if manifest.masking != record.settings.masking {
            return Err(not_brought(
                "rules_changed",
                format!("generation {number} of {name} was made under other rules for masking than those of now: refresh it"),
            ));
        }
        let administrator = manifest.administrator(home, name).expose().to_owned();
        Ok(CopyHead { manifest, administrator })
    }

    /// Sends the files of a generation. It is not removed meanwhile.
    ///
    /// # Errors
    /// When they cannot be read, or nobody receives any more.
    pub async fn send_copy(
        self: &Arc<Self>,
        name: &str,
        number: u32,
        told: mpsc::Sender<Bytes>,
    ) -> Result<(), EngineError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        let work = move || {
            let _held = shared.hold_number(&name, number);
            let dir = snapshot_path(&shared.environment.store, &name, number);
            let mut sink = Sink { shared: &shared, told, unsent: Vec::with_capacity(CHUNK) };
            let sent = transfer::send(&dir, &mut sink).and_then(|()| sink.flush());
            sent.map_err(|error| io_error("send", &dir, &error))
        };
        tokio::task::spawn_blocking(work).await.map_err(SourceError::ImportCrashed)?
    }

    /// Receives a generation from another node, and serves it if its digest is the wanted one. Else nothing is left of it, and the source
    /// is as it was (FL-17). `progress` is told how many bytes have come. `confirm` is asked, when all of it is there and verified and no
    /// source can be removed here any more before it serves, whether it is still wanted, and how its branches are to run.
    ///
    /// If the future is dropped, it is given up.
    ///
    /// # Errors
    /// What is wrong with it, or there is no room for it.
    pub async fn bring_copy(
        self: &Arc<Self>,
        wanted: WantedCopy,
        head: CopyHead,
        parts: mpsc::Receiver<io::Result<Bytes>>,
        progress: impl Fn(u64) + Send + Sync + 'static,
        confirm: impl Future<Output = Result<SourceSettings, EngineError>> + Send + 'static,
    ) -> Result<SourceView, EngineError> {
        names::check("source", &wanted.name)?;
        check_settings(&wanted.settings)?;
        let engine = Arc::clone(self);
        let name = wanted.name.clone();
        let (number, from) = (wanted.generation, wanted.from.clone());
        let brought = self
            .in_turn(|interrupt| async move {
                let _one = engine.copies_lock.lock().await;
                let brought = engine.bring(&wanted, head, parts, (progress, confirm), &interrupt).await;
                if brought.is_err() {
                    tokio::task::block_in_place(|| engine.shared.remove_unused_users());
                }
                brought
            })
            .await;
        if let Err(error) = &brought {
            self.shared.audit(
                "copy_refused",
                json!({ "source": name, "generation": number, "from": from, "code": error.code, "reason": error.message }),
            )?;
        }
        brought
    }

    async fn bring(
        &self,
        wanted: &WantedCopy,
        head: CopyHead,
        parts: mpsc::Receiver<io::Result<Bytes>>,
        (progress, confirm): (
            impl Fn(u64) + Send + Sync,
            impl Future<Output = Result<SourceSettings, EngineError>> + Send,
        ),
        interrupt: &Interrupt,
    ) -> Result<SourceView, EngineError> {
        let CopyHead { manifest, administrator } = head;
        let environment = &self.shared.environment;
        let name = &wanted.name;
        self.is_to_be_brought(wanted)?;
        // FL-17: it says what is run in branches as their administrator.
        if (manifest.generation, &manifest.digest, manifest.bytes, &manifest.hash())
            != (wanted.generation, &wanted.digest, wanted.bytes, &wanted.manifest)
        {
            return Err(not_brought(
                "copy_damaged",
                format!("what {} has is not what the fleet wants", wanted.from),
            ));
        }
        if !manifest.is_current() {
            return Err(not_brought(
                "copy_outdated",
                format!("it was made by another version: refresh {name} on {}", wanted.fleet.keeper),
            ));
        }
        let major = manifest.server_version.major;
        Installation::choose(environment.home.root(), Some(major)).map_err(SourceError::NoServer)?;
        let (room, needed) = (capacity::room(environment).unwrap_or(0), room_for_copy(wanted.bytes));
        if room < needed {
            let mib = |bytes: u64| bytes >> 20;
            return Err(not_brought(
                "disk_full",
                format!(
                    "generation {} of {name} needs {} MiB in the volume store, and {} MiB are free",
                    wanted.generation,
                    mib(needed),
                    mib(room)
                ),
            ));
        }
        let (user, _held) = self.shared.user_of(name)?;
        let record = SourceRecord {
            name: name.clone(),
            origin: Origin::Copy { of: wanted.origin.clone() },
            settings: of_copy(&wanted.settings),
            generation: wanted.generation,
            labels: BTreeMap::new(),
            fleet: Some(wanted.fleet.clone()),
        };
        let mut draft = Draft::of_branch(&environment.home, &environment.store, &record);
        let received = tokio::task::block_in_place(|| {
            draft.create()?;
            let dir = draft.path.clone();
            // Nobody else enters it until all of it is there, verified, and its server's user's.
            let closed = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
            closed.map_err(|error| io_error("close", &dir, &error))?;
            let mut stream = Parts { parts, rest: Bytes::new(), interrupt };
            transfer::receive(&dir, &mut stream, wanted.bytes, &progress).map_err(|error| match error {
                TransferError::Unwritten { path, error } => io_error("write", &path, &error),
                TransferError::Broken(error) => not_brought(
                    "copy_broken",
                    format!("the generation did not come whole from {}: {error}", wanted.from),
                ),
                TransferError::Hostile(what) => {
                    not_brought("copy_damaged", format!("{what} (from {})", wanted.from))
                }
            })?;
            interrupt.check()?;
            // FL-17: what lies here decides, and not what was said of it.
            let is_wanted = || interrupt.reason().is_none();
            let (_, found) =
                digest::tree_by(1, &dir, &is_wanted).map_err(|error| io_error("read", &dir, &error))?;
            if found != wanted.digest {
                return Err(not_brought("copy_damaged", format!(
                    "the files that came from {} have the digest {found}, and {} was wanted; look at it there: duramen source verify {name}",
                    wanted.from, wanted.digest
                )));
            }
            user.own_all(&dir).map_err(|error| io_error("own", &dir, &error))
        });
        if let Err(error) = interrupt.check().and(received) {
            let error = told_as_disk_full(error);
            drop(draft);
            if error.code == "disk_full" {
                free_what_was_deleted(&environment.store).await;
            }
            return Err(error);
        }
        // From here on as an import ends.
        let _one = self.turn(interrupt).await?;
        // FL-19: a source that was removed, or given to others, while this came is not brought back by it.
        let settings = tokio::select! {
            biased;
            reason = interrupt.given() => return Err(reason.told()),
            confirmed = confirm => of_copy(&confirmed?),
        };
        check_settings(&settings)?;
        let labels = self.is_to_be_brought(wanted)?.map(|earlier| earlier.labels).unwrap_or_default();
        // A home that makes the source's generations again knows an origin, or nobody does.
        let record = SourceRecord { labels, settings, ..record };
        let snapshot = snapshot_path(&environment.store, name, wanted.generation);
        let deleted = environment.store.volumes.delete(&snapshot);
        deleted.map_err(|error| not_brought("import_failed", error.to_string()))?;
        fs::rename(&draft.path, &snapshot).map_err(|error| io_error("move", &draft.path, &error))?;
        draft.kept = true;
        let manifest = Manifest {
            user: users::to_record(&user),
            brought: Some(Brought { from: wanted.from.clone(), administrator }),
            ..manifest
        };
        let generation = match self.record_copy(&record, manifest) {
            Ok(generation) => Arc::new(generation),
            Err(error) => {
                let path = manifest::dir(&environment.home, name).join("source.json");
                let written = manifest::read_json::<SourceRecord>(&path);
                if written.is_ok_and(|written| written.generation == wanted.generation) {
                    // The next start serves it, or the next try does.
                    return Err(error);
                }
                // Nothing refers to it: the next try shall find its number free.
                let _ = fs::remove_file(manifest::manifest_path(&environment.home, name, wanted.generation));
                if let Err(error) = environment.store.volumes.delete(&snapshot) {
                    tracing::warn!(%error, "a copy that was not recorded is left to the next start's sweep");
                }
                return Err(error);
            }
        };
        // It is written down: whatever fails now, it serves.
        let audited = self.shared.audit(
            "copied",
            json!({ "source": name, "generation": wanted.generation, "digest": wanted.digest, "from": wanted.from }),
        );
        let size = generation.fit(&environment.store, &record.settings.pool);
        let checked = generation.check(&environment.store);
        self.shared.registry.replace_source(record, generation, size);
        // Made under other rules than those of now: the next generation is on its way.
        if let Err(error) = checked {
            self.shared.registry.mark_broken(name, error.message);
        }
        self.shared.keeping.look_soon();
        self.shared.wake.wake();
        audited?;
        self.source(name)
    }

    /// Seals the snapshot of a copy, and writes down that it serves; last of all its record.
    fn record_copy(&self, record: &SourceRecord, manifest: Manifest) -> Result<Generation, EngineError> {
        let environment = &self.shared.environment;
        let (home, store) = (&environment.home, &environment.store);
        let snapshot = snapshot_path(store, &record.name, record.generation);
        let frozen = store.volumes.freeze(&snapshot);
        frozen.map_err(|error| not_brought("import_failed", error.to_string()))?;
        let flushed = store.flush().map_err(|error| error.to_string());
        if let Some(lost) = flushed.err().or_else(|| store.lost_writes()) {
            let reason = format!("the copy could not be written to the disk: {lost}");
            return Err(not_brought("writes_lost", reason));
        }
        let manifest = Manifest { identity: store.volumes.identity(&snapshot), ..manifest };
        manifest.save(home, &record.name)?;
        let generation = Generation::open(home, store, &record.name, record.generation, &record.settings)?;
        record.save(home)?;
        Ok(generation)
    }

    /// What is there of a source of which a generation is to come.
    ///
    /// # Errors
    /// Another source has the name, or that generation is there.
    fn is_to_be_brought(&self, wanted: &WantedCopy) -> Result<Option<SourceRecord>, EngineError> {
        let (name, number) = (&wanted.name, wanted.generation);
        if number >= manifest::MOMENTS_FROM {
            return Err(not_brought("copy_damaged", format!("no generation has the number {number}")));
        }
        let Ok(earlier) = self.record(name) else {
            // FL-19: a record that cannot be read is all that is known of an origin, and may be mended.
            let path = manifest::dir(&self.shared.environment.home, name).join("source.json");
            if path.symlink_metadata().is_ok() {
                let reason = format!("this node has a source of the name {name} whose record cannot be read: mend {}, or remove it", path.display());
                return Err(not_brought("source_exists", reason));
            }
            return Ok(None);
        };
        if earlier.fleet.as_ref().is_none_or(|of| of.id != wanted.fleet.id) {
            let reason = format!("this node has another source of the name {name}: remove that first");
            return Err(not_brought("source_exists", reason));
        }
        if earlier.generation >= number {
            return Err(not_brought(
                "source_exists",
                format!("generation {number} of {name} is here already"),
            ));
        }
        Ok(Some(earlier))
    }
}

/// How branches of a copy run. Nobody follows an origin there.
fn of_copy(settings: &SourceSettings) -> SourceSettings {
    SourceSettings { follow: FollowSettings::default(), ..settings.clone() }
}

fn not_brought(code: &'static str, reason: impl Into<String>) -> EngineError {
    SourceError::NotBrought { code, reason: reason.into() }.into()
}

/// What is written goes to whoever receives.
struct Sink<'a> {
    shared: &'a Shared,
    told: mpsc::Sender<Bytes>,
    unsent: Vec<u8>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.shared.closing.load(std::sync::atomic::Ordering::Acquire) {
            return Err(io::Error::other("this node stops"));
        }
        self.unsent.extend_from_slice(bytes);
        if self.unsent.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.unsent, Vec::with_capacity(CHUNK));
        self.told.blocking_send(Bytes::from(bytes)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// What comes, part by part.
struct Parts<'a> {
    parts: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
    interrupt: &'a Interrupt,
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if self.interrupt.reason().is_some() {
                return Err(io::Error::other("nobody waits for it any more"));
            }
            match self.parts.blocking_recv() {
                Some(part) => self.rest = part?,
                None => return Ok(0),
            }
        }
        let length = self.rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.rest.split_to(length));
        Ok(length)
    }
}
