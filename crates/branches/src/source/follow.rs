//! How a generation of a followed source comes about: its standby has what the origin had written when it was asked for, is
//! stopped for a moment, and its volume is cloned. F1 to F8 are in `docs/design/following.md`.

use super::{
    address::Address,
    connection,
    control::Control,
    draft::Draft,
    history::{self, Ledger},
    import::Importer,
    manifest::SourceRecord,
    origin_server::import_failed,
    origin_wal::{Nature, OriginLog, Seen},
    standby::{self, standby_path, Feeding, Place, Standby},
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error, Passage},
    following::Followers,
    model::Origin,
};
use duramen_base::clock;
use duramen_postgres::Installation;
use std::{fs, time::Duration};

/// How often it is looked how far a standby is.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// How long a standby may be without a connection to its origin before it is taken for lost.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// The code of what makes another copy of the origin necessary.
const LOST: &str = "standby_lost";

/// By which way a standby gets what it replays.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Of an origin with this system.
    Stream { origin: &'a Address, system: u64, has_slot: bool },
    /// From its archive, in this timeline.
    Archive { system: u64, timeline: u32 },
}

impl<'a> Way<'a> {
    pub(super) fn stream(origin: &'a Address, nature: &Nature) -> Way<'a> {
        Way::Stream { origin, system: nature.system, has_slot: nature.has_slot }
    }

    fn system(self) -> u64 {
        match self {
            Way::Stream { system, .. } | Way::Archive { system, .. } => system,
        }
    }

    fn feeding(self) -> Feeding<'a> {
        match self {
            Way::Stream { origin, has_slot, .. } => Feeding::Stream { origin, has_slot },
            Way::Archive { timeline, .. } => Feeding::Archive { timeline },
        }
    }
}

impl Importer<'_> {
    pub(super) fn place(&self) -> Place<'_> {
        Place { home: self.home, store: self.store, user: self.user, cage: self.cage.clone() }
    }

    /// The data of a followed source, as they were at its origin when this was called, or later (F2).
    pub(super) async fn followed(
        &self,
        record: &SourceRecord,
        origin: &Address,
        database: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(Installation, String), EngineError> {
        let database = database.unwrap_or_else(|| connection::database(&origin.config)).to_owned();
        if let Some(dir) = &record.settings.follow.archive {
            return Ok((self.followed_by_archive(record, origin, dir.as_ref(), draft).await?, database));
        }
        match self.caught_up(record, origin).await {
            Err(error) if error.code == LOST => {
                tracing::warn!(source = record.name, "the origin is copied anew: {}", error.message);
                self.say("the standby is lost: copying the origin anew");
                self.copy_for_standby(record, origin).await?;
                self.caught_up(record, origin).await?;
            }
            other => other?,
        }
        self.say("cloning the standby");
        let nature = OriginLog::open(origin).await?.nature().await?;
        let way = Way::stream(origin, &nature);
        let installation = tokio::task::block_in_place(|| self.cut(record, way, draft, |_| Ok(())))?;
        Ok((installation, database))
    }

    /// Waits until the standby has what the origin has written by now. Makes and starts it if need be.
    async fn caught_up(&self, record: &SourceRecord, origin: &Address) -> Result<(), EngineError> {
        let log = OriginLog::open(origin).await?;
        let nature = log.nature().await?;
        if !standby_path(self.store, &record.name).join("PG_VERSION").exists() {
            self.copy_for_standby(record, origin).await?;
        }
        let name = tokio::task::block_in_place(|| {
            running(&self.place(), self.followers, &record.name, Way::stream(origin, &nature))
        })?;
        let wanted = log.look(&name).await?.written;
        self.say("waiting for what the origin has written");
        let (mut last, mut moved) = (None, clock::now());
        loop {
            self.interrupt.check()?;
            let Seen { flushed, .. } = log.look(&name).await?;
            if flushed.is_some_and(|flushed| flushed >= wanted) {
                return Ok(());
            }
            if flushed != last {
                (last, moved) = (flushed, clock::now());
            }
            let limit = if flushed.is_some() { self.stall } else { CONNECT_LIMIT };
            if moved.elapsed() > limit {
                let said = standby::log(self.home, &record.name).tail();
                return Err(lost(&format!(
                    "the standby gets nothing from the origin; its log ends with\n{}",
                    origin.hidden_in(said.trim_end())
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A copy of the origin that becomes the standby's data directory. The one that is there is kept until then (F8).
    pub(super) async fn copy_for_standby(
        &self,
        record: &SourceRecord,
        origin: &Address,
    ) -> Result<(), EngineError> {
        let mut draft = Draft::begin(self.home, self.store, self.user, record)?;
        let client = connection::enter_origin(origin).await?.map(|(client, _)| client);
        let (installation, _) = self.base_backup(origin, client, None, &draft).await?;
        standby::check_tls(&installation, origin)?;
        files::close_tree(&draft.path)?;
        // F6.
        self.disarm_files(&self.open_cluster(&draft, &installation), &mut Vec::new())?;
        files::make_dir(&standby::standbys(self.store), Passage::Servers, self.user)?;
        // F5: what was copied without flushing is flushed before it is taken for a standby.
        self.store.flush().map_err(|error| io_error("flush", &self.store.root, &error))?;
        if let Some(Err(error)) =
            tokio::task::block_in_place(|| self.followers.take(&record.name).map(Standby::stop))
        {
            tracing::warn!(source = record.name, %error, "a standby was ended by force");
        }
        self.followers.forget_marks(&record.name);
        self.followers.take_feed(&record.name);
        // What it has received of history goes with it otherwise.
        tokio::task::block_in_place(|| {
            history::end_open(&self.place(), &record.name, "the origin was copied anew")
        })?;
        tokio::task::block_in_place(|| end(&self.place(), self.followers, &record.name))?;
        let path = standby_path(self.store, &record.name);
        fs::rename(&draft.path, &path).map_err(|error| io_error("move", &draft.path, &error))?;
        draft.kept = true;
        Ok(())
    }

    /// Clones the standby's volume while it is stopped, if it is then as it should be. Blocks.
    pub(super) fn cut(
        &self,
        record: &SourceRecord,
        way: Way<'_>,
        draft: &Draft<'_>,
        is_whole: impl FnOnce(&Control) -> Result<(), EngineError>,
    ) -> Result<Installation, EngineError> {
        let place = self.place();
        let installation = place.installation(&record.name)?;
        if let Some(standby) = self.followers.take(&record.name) {
            standby.stop()?;
        }
        let cloned = place
            .control(&record.name, &installation)
            .and_then(|control| is_whole(&control))
            .and_then(|()| {
                let path = standby_path(self.store, &record.name);
                let cloned = self.store.volumes.clone_volume(&path, &draft.path, None);
                cloned.map_err(|error| import_failed(&error))
            });
        if cloned.is_ok() && record.settings.follow.keep_history_s.is_some() {
            // Of another time it is made with the next look.
            if let Err(error) = history::clone_base(
                &place,
                &record.name,
                way.system(),
                &self.followers.reached_marks(&record.name),
            ) {
                tracing::warn!(source = record.name, %error, "no base for history was made");
            }
        }
        // Whether there is a generation or not, the standby goes on; if it does not, it is tried again later.
        if let Err(error) = running(&place, self.followers, &record.name, way) {
            tracing::warn!(source = record.name, %error, "the standby does not go on yet");
        }
        cloned?;
        Ok(installation)
    }
}

/// The name of a source's standby, which runs afterwards. Its data directory must be there. Blocks.
///
/// # Errors
/// F3: `standby_lost` when the origin is another server than the one that it was copied from.
pub(super) fn running(
    place: &Place<'_>,
    followers: &Followers,
    source: &str,
    way: Way<'_>,
) -> Result<String, EngineError> {
    let installation = place.installation(source)?;
    if place.control(source, &installation)?.system != way.system() {
        return Err(lost("the origin is another server than the one that was followed"));
    }
    let (kept_in, feeding) = (kept_in(place, source), way.feeding());
    if let Some(mut standby) = followers.take(source) {
        if standby.is_running() {
            if standby.kept_in == kept_in && standby.is_fed(feeding) {
                return Ok(followers.put(source, standby));
            }
            standby.stop()?;
        }
    }
    let standby = Standby::start(place, source, feeding, &installation, kept_in)?;
    Ok(followers.put(source, standby))
}

/// Starts the standby of a source if it does not run, and asks the origin how far it is. Nothing if the source has none yet.
pub(crate) async fn look(
    place: &Place<'_>,
    followers: &Followers,
    source: &str,
    origin: &Address,
) -> Result<Option<Seen>, EngineError> {
    if !standby_path(place.store, source).join("PG_VERSION").exists() {
        return Ok(None);
    }
    let log = OriginLog::open(origin).await?;
    let nature = log.nature().await?;
    let way = Way::stream(origin, &nature);
    let name = tokio::task::block_in_place(|| running(place, followers, source, way))?;
    log.look(&name).await.map(Some)
}

/// Where the segments are kept that the standby of a source receives, if they are.
fn kept_in(place: &Place<'_>, source: &str) -> Option<std::path::PathBuf> {
    let ledger = Ledger::load(place.home, source).ok()?;
    ledger.open().map(|open| history::wal_path(place.store, source, open.number))
}

/// Stops the standby of a source for a moment, and takes a base of it for history, once it receives the timeline that the origin writes.
pub(crate) async fn take_base(
    place: &Place<'_>,
    followers: &Followers,
    record: &SourceRecord,
    timeline: u32,
) -> Result<(), EngineError> {
    let source = record.name.as_str();
    let take = |way: Way<'_>| {
        tokio::task::block_in_place(|| {
            if history::received_timeline(place, source, way.system())? != timeline {
                return Ok(());
            }
            if let Some(standby) = followers.take(source) {
                standby.stop()?;
            }
            let taken = history::clone_base(place, source, way.system(), &followers.reached_marks(source));
            running(place, followers, source, way)?;
            taken
        })
    };
    if record.settings.follow.archive.is_some() {
        return followers.archive_way(source).map_or(Ok(()), take);
    }
    let Origin::Server { url } = &record.origin else { return Ok(()) };
    let origin = Address::parse(url)?;
    let nature = OriginLog::open(&origin).await?.nature().await?;
    take(Way::stream(&origin, &nature))
}

/// Ends the standby of a source, and removes its data. Blocks.
pub(crate) fn end(place: &Place<'_>, followers: &Followers, source: &str) -> Result<(), EngineError> {
    drop(followers.take(source));
    standby::remove(place.store, place.home, source)
}

fn lost(why: &str) -> EngineError {
    EngineError::new(Kind::Failed, LOST, format!("{why}; the next refresh copies the origin anew"))
}
