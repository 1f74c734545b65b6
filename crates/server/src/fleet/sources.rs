//! Sources as the fleet has them: defined by one transaction, kept by the node that knows their origin, and brought to others.
//!
//! The keeper's home is the truth of its definition, which is brought in line with it; nothing of a home is ended because of what etcd says, or
//! does not say (FL-19).

use super::{
    offers,
    places::{self, Vacancy},
    Peers,
};
use crate::import::Reporter;
use duramen_api::model::{AddSource, ChangeSettings, SourceSettings, SourceView};
use duramen_base::{clock, entropy};
use duramen_branches::{check_name, room_for_copy, EngineError, InFleet, Kind, LocalSource, WantedCopy};
use duramen_fleet::{
    member::Standing,
    record::{BringingRecord, GenerationRecord, SourceRecord},
    sources::{ChangeError, Was},
    view::{NodeState, NodeView, SourceSeen},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// How often sources are looked at when nothing changes, and the least pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);
/// How much later than the one before it a node takes a place that is free.
const RANK_WAIT: Duration = Duration::from_secs(3);
/// How long a copy that did not come is not tried again: from, to.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// After so many failures in a row that lie here, a node gives a place up; and for how long it takes none then.
const GIVE_UP_AFTER: u32 = 4;
const GIVEN_UP_FOR: Duration = Duration::from_secs(10 * 60);
/// The same, of a node that has no room for so long.
const NO_ROOM_LIMIT: Duration = Duration::from_secs(60);
/// How often a change of a definition is tried when others change it too.
pub(super) const TRIES: u32 = 8;

/// Names of sources that are being added or removed here.
#[derive(Debug, Default)]
pub(super) struct Changing(Mutex<HashSet<String>>);

/// One of them, as long as this lives.
pub(super) struct Change<'a>(&'a Changing, String);

impl Changing {
    pub(super) fn begin(&self, name: &str) -> Option<Change<'_>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned()).then(|| Change(self, name.to_owned()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0 .0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// The task that brings a copy; it ends with this.
type Bringing = JoinSet<Result<SourceView, EngineError>>;

/// What is remembered from one look to the next.
#[derive(Default)]
struct Memory {
    /// Since when a place of a source is seen to be free.
    vacant: HashMap<String, Instant>,
    /// How often in a row a source did not come, and when it is tried again.
    failed: HashMap<String, (u32, Instant)>,
    /// Since when there is no room here for a source that is to come.
    no_room: HashMap<String, Instant>,
    /// Until when no place of a source is taken here, if another node could take it.
    given_up: HashMap<String, Instant>,
    /// Why the settings of a copy are not its keeper's.
    unfollowed: HashMap<String, String>,
    /// The source that is being brought, by name and id.
    bringing: Option<(String, String, Bringing)>,
}

/// What was seen of the fleet, for one look.
pub(super) struct Seen {
    defined: BTreeMap<String, SourceSeen>,
    pub(super) nodes: Vec<NodeView>,
}

impl Peers {
    /// Adds a source of the fleet, which this node keeps. Its name is reserved before anything is imported (FL-14).
    pub(crate) async fn add_source(
        self: Arc<Self>,
        wanted: AddSource,
        report: Reporter,
    ) -> Result<SourceView, EngineError> {
        let name = wanted.name.clone();
        check_name("source", &name)?;
        let Some(_adding) = self.changing.begin(&name) else { return Err(busy(&name)) };
        if self.engine.source_names().contains(&name) {
            // It says what can be done.
            return self.engine.add_source(wanted, report).await;
        }
        let has_own = |node: &NodeView| {
            let copies = node.record.iter().flat_map(|record| &record.capacity.copies);
            copies.into_iter().any(|copy| copy.source == name && copy.id.is_none())
        };
        if let Some(node) = self.fleet.view().nodes().into_iter().find(has_own) {
            let message = format!(
                "the node {} has a source {name} of its own, from before; make that the fleet's there (duramen source settings {name} --replicas N), \
                 remove it, or choose another name",
                node.name
            );
            return Err(EngineError::new(Kind::Conflict, "source_exists", message));
        }
        let id = format!("s-{}", entropy::token(16));
        let of = InFleet { id: id.clone(), keeper: self.node().to_owned(), is_kept_here: true };
        let record = SourceRecord {
            id,
            keeper: self.node().to_owned(),
            origin: wanted.origin.kind().to_owned(),
            settings: value_of(&wanted.settings),
            replicas: wanted.settings.replicas.unwrap_or(1),
            generation: None,
            places: vec![self.node().to_owned()],
            defined_at: clock::utc_now(),
        };
        self.reserve(&name, &record).await?;
        let added = self.engine.add_source_as(wanted, Some(of), report).await;
        // A reservation without a source is freed by the next look.
        let mut view = added?;
        if let Err(error) = self.publish_now(&name).await {
            tracing::warn!(name, %error, "the source is here, and the fleet is told when etcd answers");
        }
        view.fleet = self.fleet_source(&name);
        Ok(view)
    }

    async fn reserve(&self, name: &str, record: &SourceRecord) -> Result<(), EngineError> {
        let mut now: Option<SourceSeen> = None;
        for _ in 0..TRIES {
            let was = match &now {
                None => Was::Absent,
                Some(SourceSeen { record: None, .. }) => return Err(unread(name)),
                Some(SourceSeen { record: Some(other), .. }) if other.generation.is_some() => {
                    return Err(exists(name, other));
                }
                // Of an import that came to nothing, or that its node did not live to finish.
                Some(SourceSeen { record: Some(other), revision }) if other.keeper == self.node() => {
                    Was::Revision(*revision)
                }
                Some(SourceSeen { record: Some(other), revision }) => {
                    match self.fleet.view().lost(&other.keeper) {
                        Some(seen) => Was::Lost(*revision, &other.keeper, seen),
                        None => return Err(exists(name, other)),
                    }
                }
            };
            match self.fleet.change_source(name, was, Some(record)).await {
                Ok(_) => return Ok(()),
                Err(ChangeError::Changed { .. }) => now = self.fleet.source(name).await.map_err(silent)?,
                Err(error) => return Err(told(error)),
            }
        }
        Err(moves(name))
    }

    /// Changes how a source's branches run. A source of this node's own that is to be on several nodes becomes the fleet's.
    pub(crate) async fn change_settings(
        &self,
        name: &str,
        change: ChangeSettings,
    ) -> Result<SourceView, EngineError> {
        if self.changing.has(name) {
            return Err(busy(name));
        }
        let is_own = self.local(name).is_some_and(|local| local.fleet.is_none() && !local.is_unread);
        let is_given = is_own && change.replicas.is_some();
        if let (true, Standing::Joining(why) | Standing::Refused(why)) = (is_given, self.fleet.standing()) {
            let message = format!(
                "{} is not in the fleet now: {why}; try again when `duramen node list` shows it as ready",
                self.node()
            );
            return Err(EngineError::new(Kind::Unavailable, "not_in_fleet", message));
        }
        // What is wrong with them is said before anything is given away.
        let mut view = self.engine.change_settings(name, change).await?;
        if is_given {
            self.give(name).await?;
        }
        if let Err(error) = self.publish_now(name).await {
            tracing::warn!(name, %error, "the settings are changed here, and the fleet is told when etcd answers");
        }
        view.fleet = self.fleet_source(name);
        Ok(view)
    }

    /// Makes a source of this node's own the fleet's.
    async fn give(&self, name: &str) -> Result<(), EngineError> {
        let Some(_giving) = self.changing.begin(name) else { return Err(busy(name)) };
        let of = InFleet {
            id: format!("s-{}", entropy::token(16)),
            keeper: self.node().to_owned(),
            is_kept_here: true,
        };
        let Some(local) = self.local(name).filter(|local| local.fleet.is_none()) else { return Ok(()) };
        let record = self.record_of(&local, &of, None);
        // The home knows first: a definition that nobody keeps would be nobody's to end.
        self.engine.set_fleet(name, Some(of)).await?;
        let reserved = self.reserve(name, &record).await;
        // Without an answer it may be defined: the next look sees to it that it is.
        if reserved.as_ref().is_err_and(|error| ["source_exists", "too_large"].contains(&error.code)) {
            self.engine.set_fleet(name, None).await?;
        }
        reserved
    }

    pub(super) fn local(&self, name: &str) -> Option<LocalSource> {
        self.engine.local_sources().into_iter().find(|local| local.name == name)
    }

    pub(super) fn seen(&self) -> Seen {
        let view = self.fleet.view();
        Seen { defined: view.sources().clone(), nodes: view.nodes() }
    }

    /// What the definition of a source is to be that this node keeps.
    fn record_of(&self, local: &LocalSource, of: &InFleet, now: Option<&SourceRecord>) -> SourceRecord {
        let replicas = local.settings.replicas.unwrap_or(1);
        let made = (!local.digest.is_empty()).then(|| GenerationRecord {
            number: local.generation,
            digest: local.digest.clone(),
            bytes: local.bytes,
            manifest: local.manifest.clone(),
        });
        let others = now.into_iter().flat_map(|now| &now.places).filter(|node| *node != self.node()).cloned();
        // Its own is the first, and who had it meanwhile beside the others has none any more (FL-16).
        let places = std::iter::once(self.node().to_owned()).chain(others).take(replicas as usize);
        SourceRecord {
            id: of.id.clone(),
            keeper: self.node().to_owned(),
            origin: match (local.origin, now) {
                // Of a home that was lost with the origin in it.
                ("copy", Some(now)) => now.origin.clone(),
                (origin, _) => origin.to_owned(),
            },
            settings: value_of(&local.settings),
            replicas,
            // Until the digest of the latest is known, the one before is what others have.
            generation: made.or_else(|| now.and_then(|now| now.generation.clone())),
            places: places.collect(),
            defined_at: now.map_or_else(clock::utc_now, |now| now.defined_at),
        }
    }

    /// Has the fleet know what this node keeps, as it is now.
    async fn publish_now(&self, name: &str) -> Result<(), ChangeError> {
        for _ in 0..TRIES {
            let Some(local) = self.local(name) else { return Ok(()) };
            let found = self.fleet.source(name).await.map_err(|source| ChangeError::Etcd { source })?;
            // What is gone is defined by the next look alone: it may have been removed.
            let Some(found) = found else { return Ok(()) };
            match self.publish(&local, Some(&found)).await {
                Err(ChangeError::Changed { .. }) => {}
                published => return published,
            }
        }
        Ok(())
    }

    /// Brings the definition of a source in line with what its keeper has. A definition of another source stays as it is.
    async fn publish(&self, local: &LocalSource, found: Option<&SourceSeen>) -> Result<(), ChangeError> {
        let Some(of) = local.fleet.as_ref().filter(|of| of.is_kept_here) else { return Ok(()) };
        let (was, now) = match found {
            None => {
                let is_there = self.local(&local.name).is_some_and(|now| now.fleet == local.fleet);
                if !is_there || self.changing.has(&local.name) {
                    return Ok(());
                }
                (Was::Absent, None)
            }
            Some(SourceSeen { record: Some(record), revision }) if record.id == of.id => {
                (Was::Revision(*revision), Some(record))
            }
            Some(_) => return Ok(()),
        };
        let record = self.record_of(local, of, now);
        if now == Some(&record) {
            return Ok(());
        }
        self.fleet.change_source(&local.name, was, Some(&record)).await.map(drop)
    }

    /// Follows the sources of the fleet, and has those come that this node is to have.
    pub(super) async fn follow_sources(self: &Arc<Self>) {
        let mut changes = self.fleet.changes();
        let mut memory = Memory::default();
        loop {
            if self.fleet.view().age().is_some() {
                self.look(&mut memory).await;
            }
            sleep(PAUSE).await;
            let pause = if memory.bringing.is_some() { PAUSE } else { LOOK_EVERY };
            if let Ok(Err(_)) = timeout(pause, changes.changed()).await {
                return;
            }
        }
    }

    /// Keeps up what is withheld, whatever else waits for etcd, other nodes or this node's disk (FL-15).
    pub(super) async fn follow_definitions(&self) {
        let mut changes = self.fleet.changes();
        loop {
            if self.fleet.view().age().is_some() {
                let local = tokio::task::block_in_place(|| self.engine.local_sources());
                let withheld = offers::withheld(&local, self.fleet.view().sources(), self.node());
                for (source, why) in self.offers.withhold(withheld) {
                    tracing::warn!(source, why, "no branches of a source are made here for the fleet");
                }
            }
            sleep(PAUSE).await;
            if let Ok(Err(_)) = timeout(LOOK_EVERY, changes.changed()).await {
                return;
            }
        }
    }

    async fn look(self: &Arc<Self>, memory: &mut Memory) {
        let local = tokio::task::block_in_place(|| self.engine.local_sources());
        let seen = self.seen();
        self.count(&local, &seen);
        if !matches!(self.fleet.standing(), Standing::Member(_)) {
            return;
        }
        for source in local.iter().filter(|source| !self.changing.has(&source.name)) {
            let found = seen.defined.get(&source.name);
            if let Err(error) = self.publish(source, found).await {
                tracing::debug!(%error, name = source.name, "the definition of a source is changed later");
            }
        }
        for (name, found) in &seen.defined {
            let Some(record) = &found.record else { continue };
            if self.end_removed(name, found).await {
                continue;
            }
            let here = local.iter().find(|source| source.name == *name);
            let kept = here.and_then(|here| here.fleet.as_ref()).filter(|of| of.id == record.id);
            match (here, kept) {
                (None, _) => self.free_reservation(name, record, found.revision).await,
                (Some(here), Some(of)) if !of.is_kept_here => {
                    self.take_settings(here, record, memory);
                    self.settle_for(name, found, here, &seen).await;
                }
                _ => {}
            }
            self.take_place(name, record, found.revision, here, memory).await;
        }
        self.bring(&local, &seen, memory).await;
    }

    /// Frees a name that this node reserved for an import that came to nothing (FL-14).
    async fn free_reservation(&self, name: &str, record: &SourceRecord, revision: i64) {
        let is_left = record.keeper == self.node() && record.generation.is_none() && !self.changing.has(name);
        // It may have been added since the sources of this home were looked at.
        if !is_left || self.engine.source_names().iter().any(|own| own == name) {
            return;
        }
        match self.fleet.change_source(name, Was::Revision(revision), None).await {
            Ok(_) => tracing::info!(name, "the name of a source that was not added is free"),
            Err(error) => {
                tracing::debug!(%error, name, "the name of a source that was not added is freed later")
            }
        }
    }

    /// Takes note of the numbers that generations of this node's sources have anywhere: it may have been put back to an earlier day.
    fn count(&self, local: &[LocalSource], seen: &Seen) {
        for source in local {
            let Some(of) = source.fleet.as_ref().filter(|of| of.is_kept_here) else { continue };
            let defined = seen.defined.get(&source.name).and_then(|found| found.record.as_ref());
            let defined = defined.filter(|record| record.id == of.id);
            let copies = seen.nodes.iter().flat_map(|node| &node.record).flat_map(|it| &it.capacity.copies);
            let copies = copies.filter(|copy| copy.id.as_deref() == Some(&of.id)).map(|copy| copy.generation);
            let numbers = defined.and_then(|record| record.generation.as_ref()).map(|it| it.number);
            numbers.into_iter().chain(copies).for_each(|number| self.engine.count_from(&of.id, number));
        }
    }

    /// Has a copy run as its keeper says.
    fn take_settings(&self, here: &LocalSource, record: &SourceRecord, memory: &mut Memory) {
        let followed = settings_of(record)
            .and_then(|settings| self.engine.follow_settings(&here.name, &record.id, &settings));
        let why = followed.err().map(|error| error.to_string());
        let before = match why.clone() {
            Some(why) => memory.unfollowed.insert(here.name.clone(), why),
            None => memory.unfollowed.remove(&here.name),
        };
        if let Some(why) = why.filter(|why| before.as_ref() != Some(why)) {
            tracing::warn!(name = here.name, why, "the settings of a source are not those of its keeper");
        }
    }

    /// Takes a place that is free, if this node is the one to take it (FL-16).
    async fn take_place(
        &self,
        name: &str,
        record: &SourceRecord,
        revision: i64,
        here: Option<&LocalSource>,
        memory: &mut Memory,
    ) {
        let (vacancy, nodes) = {
            let view = self.fleet.view();
            (places::vacancy(record, &view), view.nodes())
        };
        let has_place = self.has_place(record);
        let Some(vacancy) = vacancy.filter(|_| !has_place) else {
            memory.vacant.remove(name);
            return;
        };
        let is_its = |here: &LocalSource| here.fleet.as_ref().is_some_and(|of| of.id == record.id);
        // What nobody can send is left where it is.
        let is_current = |here: &LocalSource| {
            let wanted = record.generation.as_ref();
            is_its(here)
                && wanted.is_some_and(|it| (it.number, &it.digest) == (here.generation, &here.digest))
        };
        let is_lost = vacancy != Vacancy::More && !here.is_some_and(is_current);
        if is_lost && places::senders(name, record, &nodes, self.node()).is_empty() {
            memory.vacant.remove(name);
            return;
        }
        if here.is_some_and(|here| !is_its(here)) || self.drains() {
            return;
        }
        let candidates = places::candidates(name, record, &nodes);
        memory.given_up.retain(|_, until| clock::now() < *until);
        let has_other = candidates.iter().any(|node| node != self.node());
        if has_other && memory.given_up.contains_key(name) {
            return;
        }
        if let (None, Some(problem)) = (here, self.no_room(record)) {
            self.offers.note(problem_of(name, record, problem));
            return;
        }
        let rank = candidates.iter().position(|node| node == self.node()).unwrap_or(candidates.len());
        let since = *memory.vacant.entry(name.to_owned()).or_insert_with(clock::now);
        if since.elapsed() < RANK_WAIT.saturating_mul(u32::try_from(rank).unwrap_or(u32::MAX)) {
            return;
        }
        let changed = SourceRecord { places: places::taken(record, &vacancy, self.node()), ..record.clone() };
        let was = match &vacancy {
            Vacancy::More => Was::Revision(revision),
            Vacancy::Of(lost, seen) | Vacancy::Beside(lost, seen) => Was::Lost(revision, lost, *seen),
        };
        match self.fleet.change_source(name, was, Some(&changed)).await {
            Ok(_) => tracing::info!(name, ?vacancy, "this node is to have a copy of a source"),
            Err(error) => tracing::debug!(%error, name, "the place of a copy was not to be had"),
        }
    }

    /// Why there is no room here for the current generation of a source, if there is none.
    fn no_room(&self, record: &SourceRecord) -> Option<String> {
        let bytes = record.generation.as_ref().map_or(0, |it| it.bytes);
        let (free, needed) = (self.engine.room().disk >> 20, room_for_copy(bytes) >> 20);
        (free < needed).then(|| format!("it needs {needed} MiB in the volume store, and {free} MiB are free"))
    }

    pub(super) fn has_place(&self, record: &SourceRecord) -> bool {
        record.places.iter().any(|node| node == self.node())
    }

    fn drains(&self) -> bool {
        self.fleet.view().state(self.node()) != NodeState::Ready
    }

    /// Begins to bring what is missing here, one source at a time, and looks how that went.
    async fn bring(self: &Arc<Self>, local: &[LocalSource], seen: &Seen, memory: &mut Memory) {
        if let Some((name, id, task)) = &mut memory.bringing {
            let defined = seen.defined.get(name).and_then(|found| found.record.as_ref());
            let is_wanted = |record: &SourceRecord| record.id == *id && self.has_place(record);
            if !defined.is_some_and(is_wanted) {
                tracing::info!(name, "a copy of a source that is on its way here is not wanted any more");
                self.offers.end(name);
                memory.bringing = None;
                return;
            }
            let Some(ended) = task.try_join_next() else { return };
            let name = name.clone();
            memory.bringing = None;
            match ended {
                Ok(Ok(_)) => {
                    memory.failed.remove(&name);
                    self.offers.end(&name);
                    tracing::info!(name, "a copy of a source has come");
                }
                Ok(Err(error)) => self.did_not_come(&name, &error, seen, memory).await,
                Err(error) => tracing::error!(%error, name, "the bringing of a source ended without a word"),
            }
            return;
        }
        let mut others = Vec::new();
        let missing: Vec<_> = seen
            .defined
            .iter()
            .filter_map(|(name, found)| {
                let record = found.record.as_ref()?;
                let wanted = record.generation.as_ref()?;
                let here = local.iter().find(|source| source.name == *name);
                let is_missing = match here {
                    None => true,
                    Some(here) => {
                        let is_its =
                            here.fleet.as_ref().is_some_and(|of| of.id == record.id && !of.is_kept_here);
                        let differs =
                            (here.generation, &here.digest) != (wanted.number, &wanted.digest);
                        if is_its && differs && here.generation >= wanted.number {
                            others.push(name.as_str());
                            let problem = format!(
                                "generation {} here is not what its keeper has; refresh it there: duramen source refresh {name}",
                                here.generation
                            );
                            self.offers.note(problem_of(name, record, problem));
                        }
                        is_its && here.generation < wanted.number
                    }
                };
                (is_missing && self.has_place(record) && !self.changing.has(name)).then_some((name, record, wanted))
            })
            .collect();
        self.offers.keep_only(|source| {
            missing.iter().any(|(name, ..)| *name == source)
                || others.contains(&source)
                || seen.defined.get(source).is_some_and(|found| {
                    found.record.as_ref().is_some_and(|it| places::vacancy(it, &self.fleet.view()).is_some())
                })
        });
        for (name, record, wanted) in missing {
            let failures = match memory.failed.get(name) {
                Some((_, again)) if clock::now() < *again => continue,
                Some((failures, _)) => *failures,
                None => 0,
            };
            if let Some(problem) = self.no_room(record) {
                self.offers.note(problem_of(name, record, problem));
                let since = *memory.no_room.entry(name.clone()).or_insert_with(clock::now);
                if since.elapsed() > NO_ROOM_LIMIT {
                    self.give_place_up(name, seen, memory).await;
                }
                continue;
            }
            memory.no_room.remove(name);
            let senders = places::senders(name, record, &seen.nodes, self.node());
            let Some(from) = senders.get(failures as usize % senders.len().max(1)) else {
                let problem = "no node that is there has it".to_owned();
                self.offers.note(problem_of(name, record, problem));
                continue;
            };
            let settings = match settings_of(record) {
                Ok(settings) => settings,
                Err(error) => {
                    self.offers.note(problem_of(name, record, error.message));
                    continue;
                }
            };
            let copy = WantedCopy {
                name: name.clone(),
                fleet: InFleet {
                    id: record.id.clone(),
                    keeper: record.keeper.clone(),
                    // Of a keeper that has lost its home: what it kept comes back, without its origin.
                    is_kept_here: record.keeper == self.node(),
                },
                origin: record.origin.clone(),
                settings,
                generation: wanted.number,
                digest: wanted.digest.clone(),
                bytes: wanted.bytes,
                manifest: wanted.manifest.clone(),
                from: from.clone(),
            };
            let mut task = JoinSet::new();
            let peers = Arc::clone(self);
            task.spawn(async move { peers.fetch(copy).await });
            memory.bringing = Some((name.clone(), record.id.clone(), task));
            return;
        }
    }

    async fn did_not_come(&self, name: &str, error: &EngineError, seen: &Seen, memory: &mut Memory) {
        let failures = memory.failed.get(name).map_or(0, |(failures, _)| *failures).saturating_add(1);
        let pause = RETRY.0.saturating_mul(1 << failures.min(6)).min(RETRY.1);
        memory.failed.insert(name.to_owned(), (failures, clock::now() + pause));
        tracing::warn!(name, code = error.code, %error, failures, "a copy of a source did not come");
        let Some(SourceSeen { record: Some(record), .. }) = seen.defined.get(name) else { return };
        self.offers.note(problem_of(name, record, error.message.clone()));
        // What lies at this node will not be otherwise soon: another one may do better.
        let lies_here = ["no_server", "no_source_user", "source_exists"].contains(&error.code);
        if lies_here && failures >= GIVE_UP_AFTER {
            self.give_place_up(name, seen, memory).await;
        }
    }

    /// Gives the place of a copy up that does not come, if this node has nothing of it and another one could have it.
    async fn give_place_up(&self, name: &str, seen: &Seen, memory: &mut Memory) {
        let Some(SourceSeen { record: Some(record), revision }) = seen.defined.get(name) else { return };
        let has_some = self.engine.source_names().iter().any(|own| own == name);
        let others = places::candidates(name, record, &seen.nodes);
        if has_some || others.is_empty() || record.keeper == self.node() {
            return;
        }
        let places = record.places.iter().filter(|node| *node != self.node()).cloned().collect();
        let changed = SourceRecord { places, ..record.clone() };
        if self.fleet.change_source(name, Was::Revision(*revision), Some(&changed)).await.is_ok() {
            memory.given_up.insert(name.to_owned(), clock::now() + GIVEN_UP_FOR);
            memory.failed.remove(name);
            memory.no_room.remove(name);
            tracing::warn!(name, "this node gives the place of a copy up");
        }
    }
}

/// That a source does not come, as other nodes are told.
fn problem_of(name: &str, record: &SourceRecord, problem: String) -> BringingRecord {
    let wanted = record.generation.as_ref();
    BringingRecord {
        source: name.to_owned(),
        generation: wanted.map_or(0, |it| it.number),
        of: wanted.map_or(0, |it| it.bytes),
        done: 0,
        problem: Some(problem),
    }
}

/// How branches of a source run, as its definition says.
pub(super) fn settings_of(record: &SourceRecord) -> Result<SourceSettings, EngineError> {
    serde_json::from_value(record.settings.clone()).map_err(|error| {
        let message = format!(
            "this version cannot read the settings of the source ({error}); use the version that wrote them"
        );
        EngineError::new(Kind::Failed, "settings_unread", message)
    })
}

fn value_of(settings: &SourceSettings) -> serde_json::Value {
    let mut shared = settings.clone();
    // Where an origin is, or what archives it, is its keeper's to know.
    shared.follow = duramen_api::model::FollowSettings::default();
    serde_json::to_value(shared).unwrap_or_else(|_| json!({}))
}

pub(super) fn silent(error: duramen_fleet::etcd::EtcdError) -> EngineError {
    EngineError::new(
        Kind::Unavailable,
        "fleet_silent",
        format!("{error}; sources are as they were, as far as is known"),
    )
}

pub(super) fn told(error: ChangeError) -> EngineError {
    let message = error.to_string();
    match error {
        ChangeError::NotMember { .. } => EngineError::new(Kind::Unavailable, "not_in_fleet", message),
        ChangeError::Changed { .. } => EngineError::new(Kind::Conflict, "source_changed", message),
        ChangeError::TooLong { .. } => EngineError::new(Kind::Invalid, "too_large", message),
        _ => EngineError::new(Kind::Unavailable, "fleet_silent", message),
    }
}

fn exists(name: &str, other: &SourceRecord) -> EngineError {
    let state = if other.generation.is_some() { "has" } else { "is adding" };
    let message = format!(
        "the fleet {state} a source {name} already: {} keeps it (origin {}, since {}). To have that one on more nodes: duramen source settings {name} \
         --replicas N, there; for this one choose another name",
        other.keeper, other.origin, other.defined_at
    );
    EngineError::new(Kind::Conflict, "source_exists", message)
}

pub(super) fn unread(name: &str) -> EngineError {
    let message = format!(
        "this version cannot read the definition of the source {name} in etcd; use the version that wrote it"
    );
    EngineError::new(Kind::Conflict, "source_exists", message)
}

pub(super) fn busy(name: &str) -> EngineError {
    EngineError::new(
        Kind::Conflict,
        "source_changes",
        format!("the source {name} is being added, given or removed here; try again"),
    )
}

pub(super) fn moves(name: &str) -> EngineError {
    let message = format!("the definition of the source {name} changes all the time; try again");
    EngineError::new(Kind::Unavailable, "fleet_silent", message)
}
