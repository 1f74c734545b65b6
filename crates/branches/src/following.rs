//! Sources that follow their origin: their standbys, looked after while the engine is open.

mod archived;
mod logical;

use crate::{
    engine::Engine,
    error::{EngineError, Kind},
    model::{FollowSettings, FollowView, Origin},
    shared::Shared,
    source::{
        address::Address,
        cage, follow,
        follower::{self, FollowerRecord},
        history::{self, Mark},
        manifest::{Manifest, SourceRecord},
        origin_wal::Seen,
        standby::{Place, Standby},
    },
};
use duramen_base::clock;
use duramen_cage::Cage;
use duramen_postgres::ServerUser;
use jiff::Timestamp;
pub(crate) use logical::LeftAtOrigins;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often an origin is asked how far its standby is.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How many marks are remembered.
const MARKS_MAX: usize = 256;
/// How long a generation that could not be made is not tried again, in seconds.
const RETRY_S: i64 = 60;

/// The standbys, and what was last seen of them.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<BTreeMap<String, Followed>>);

#[derive(Debug, Default)]
struct Followed {
    standby: Option<Standby>,
    lag: Option<u64>,
    from_archive: archived::FromArchive,
    /// Bytes that the origin keeps for a follower's slot.
    kept: Option<u64>,
    stops: logical::Stops,
    /// Whether what an archive has is replayed.
    is_replaying: bool,
    looked_at: Option<Timestamp>,
    problem: Option<String>,
    /// Whether the standby is stopped until the next refresh.
    is_given_up: bool,
    /// When a generation was last tried to be made.
    tried_at: Option<Timestamp>,
    /// The last ones that the origin told, the earliest first.
    marks: VecDeque<Mark>,
    timeline: Option<u32>,
    /// The newest of which the standby has all.
    reached: Option<Mark>,
    /// Why history is not kept, if that is so.
    history_problem: Option<String>,
    /// When the reach of history was last written down.
    noted_at: Option<Timestamp>,
}

impl Followed {
    fn take_note(&mut self, seen: &Seen) {
        if self.timeline != Some(seen.timeline) {
            // Positions of another timeline mean something else.
            self.marks.clear();
            self.reached = None;
            self.timeline = Some(seen.timeline);
        }
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(seen.mark);
        if let Some(flushed) = seen.flushed {
            let reached = self.marks.iter().rev().find(|mark| mark.position <= flushed).copied();
            self.reached = reached.or(self.reached);
        }
    }

    /// For how many seconds the standby has lacked something.
    fn lag_s(&self) -> Option<u64> {
        let (reached, newest) = (self.reached?, self.marks.back()?);
        u64::try_from(newest.at.duration_since(reached.at).as_secs()).ok()
    }
}

impl Followers {
    /// Notes what the origin told.
    fn note(&self, source: &str, seen: &Seen) {
        self.with(source, |followed| followed.take_note(seen));
    }

    /// The newest mark that the standby of a source has reached.
    pub(crate) fn reached(&self, source: &str) -> Option<Mark> {
        self.with(source, |followed| followed.reached)
    }

    /// The last ones that it has reached, the earliest first.
    pub(crate) fn reached_marks(&self, source: &str) -> Vec<Mark> {
        self.with(source, |followed| {
            let is_reached = |mark: &&Mark| followed.reached.is_some_and(|it| mark.at <= it.at);
            followed.marks.iter().filter(is_reached).copied().collect()
        })
    }

    /// Notes why history is not kept; nothing if it is.
    pub(crate) fn note_history(&self, source: &str, problem: Option<String>) {
        self.with(source, |followed| followed.history_problem = problem);
    }

    /// Whether the reach of history is to be written down now, which is so every now and then.
    pub(crate) fn is_to_be_noted(&self, source: &str, every_s: i64) -> bool {
        let now = clock::utc_now();
        self.with(source, |followed| {
            let is_due = followed.noted_at.is_none_or(|at| now.as_second() - at.as_second() >= every_s);
            if is_due {
                followed.noted_at = Some(now);
            }
            is_due
        })
    }

    fn with<T>(&self, source: &str, work: impl FnOnce(&mut Followed) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(source.to_owned()).or_default())
    }

    /// The standby of a source, which is then whose this is.
    pub(crate) fn take(&self, source: &str) -> Option<Standby> {
        self.with(source, |followed| followed.standby.take())
    }

    /// Keeps the standby of a source. Returns by which name the origin knows it.
    pub(crate) fn put(&self, source: &str, standby: Standby) -> String {
        let name = standby.name.clone();
        self.with(source, |followed| {
            followed.standby = Some(standby);
            followed.is_given_up = false;
        });
        name
    }

    /// Forgets what an origin told: it is another one now.
    pub(crate) fn forget_marks(&self, source: &str) {
        self.with(source, |followed| (followed.timeline, followed.reached) = (None, None));
    }

    /// Stops the standby of a source, with what it has on the disk. Its connection to the origin ends, and the slot with it. Blocks.
    pub(crate) fn stop_one(&self, source: &str) {
        if let Some(Err(error)) = self.take(source).map(Standby::stop) {
            tracing::warn!(source, %error, "a standby was ended by force");
        }
    }

    /// Forgets how a source was followed; its standby goes on.
    pub(crate) fn forget_way(&self, source: &str) {
        self.with(source, |followed| {
            *followed = Followed { standby: followed.standby.take(), ..Followed::default() };
        });
    }

    fn forget(&self, source: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(source);
    }

    /// Stops all of them, with what they have on the disk.
    fn stop(&self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (source, followed) in all {
            if let Some(Err(error)) = followed.standby.map(Standby::stop) {
                tracing::warn!(source, %error, "a standby was ended by force");
            }
        }
    }

    /// Why history is not kept, if that is so.
    pub(crate) fn history_problem(&self, source: &str) -> Option<String> {
        self.with(source, |followed| followed.history_problem.clone())
    }

    /// What is told of a source that follows its origin.
    fn view(&self, source: &str, settings: &FollowSettings) -> Option<FollowView> {
        settings.enabled.then(|| {
            self.with(source, |followed| {
                let state = match followed {
                    Followed { is_given_up: true, .. } => "stopped",
                    Followed { looked_at: None, .. } => "starting",
                    Followed { lag: Some(_), .. } => "streaming",
                    Followed { is_replaying: true, .. } => "replaying",
                    _ => "waiting",
                };
                let of_archive = followed.from_archive.view();
                FollowView {
                    state: state.to_owned(),
                    archive: settings.archive.clone(),
                    slot: None,
                    publication: None,
                    kept_bytes: followed.kept,
                    advice: None,
                    replayed_to: of_archive.replayed_to,
                    replayed_at: of_archive.replayed_at,
                    awaits: of_archive.awaits,
                    lag_bytes: of_archive.lag_bytes.or(followed.lag),
                    lag_s: of_archive.lag_s.or_else(|| followed.lag_s().filter(|_| followed.lag.is_some())),
                    looked_at: followed.looked_at,
                    problem: followed.problem.clone(),
                    every_s: settings.every_s,
                    history: None,
                }
            })
        })
    }
}

/// Refuses settings by which a source cannot be followed.
pub(crate) fn check(record: &SourceRecord) -> Result<(), EngineError> {
    let settings = &record.settings.follow;
    if !settings.enabled {
        return Ok(());
    }
    let refused = |message: String| Err(EngineError::new(Kind::Invalid, "cannot_follow", message));
    if let Err(message) = logical::check(record) {
        return refused(message);
    }
    // F7.
    if record.settings.masking.is_some() {
        return refused(format!(
            "the source {} is masked, and a standby would keep the values that are to be masked; refresh it instead",
            record.name
        ));
    }
    if let Err(message) = archived::check(settings) {
        return refused(message);
    }
    if settings.every_s.is_some_and(|every_s| every_s < FollowSettings::EVERY_S_MIN) {
        return refused(format!(
            "generations are made every {} s or less often",
            FollowSettings::EVERY_S_MIN
        ));
    }
    if settings.keep_history_s.is_some_and(|seconds| seconds < FollowSettings::HISTORY_S_MIN) {
        return refused(format!("history is kept of {} s or more", FollowSettings::HISTORY_S_MIN));
    }
    if settings.history_bytes.is_some_and(|bytes| bytes < FollowSettings::HISTORY_BYTES_MIN) {
        return refused(format!(
            "history is limited to {} MB or more",
            FollowSettings::HISTORY_BYTES_MIN >> 20
        ));
    }
    Ok(())
}

impl Shared {
    pub(crate) fn stop_following(&self) {
        self.followers.stop();
    }

    pub(crate) fn follow_view(&self, source: &str, settings: &FollowSettings) -> Option<FollowView> {
        let history = self.history_view(source, settings);
        let view = self.followers.view(source, settings).map(|view| FollowView { history, ..view });
        if settings.logical {
            view.map(|view| self.with_names(source, view))
        } else {
            view
        }
    }

    /// Where standbys are, and what one of this user is started with.
    pub(crate) fn place<'a>(&'a self, user: &'a ServerUser, cage: Option<Cage>) -> Place<'a> {
        Place { home: &self.environment.home, store: &self.environment.store, user, cage }
    }

    /// Ends the standby of a source that is not followed any more. Blocks.
    pub(crate) fn unfollow(&self, source: &str) -> Result<(), EngineError> {
        let environment = &self.environment;
        let place = self.place(&environment.user, None);
        follow::end(&place, &self.followers, source)?;
        FollowerRecord::remove(&environment.home, source)?;
        history::remove(&environment.home, &environment.store, source)?;
        self.followers.forget(source);
        Ok(())
    }
}

impl Engine {
    /// Looks after every source that follows its origin: has its standby run, sees how far it is, gives it up when it lacks too
    /// much, and makes the next generation when it is time. To be called every [`LOOK_EVERY`].
    ///
    /// Nothing is done while a source is being imported.
    pub async fn look_after_followed(self: &Arc<Self>) {
        if let Ok(_one) = self.sources_lock.try_lock() {
            self.drop_unused_at_origins(false).await;
        }
        for name in self.shared.registry.source_names() {
            let Ok(record) = self.shared.registry.source(&name) else { continue };
            if !record.settings.follow.enabled {
                continue;
            }
            if record.settings.follow.logical {
                follower::shorten_log(&self.shared.environment.home, &name);
            }
            {
                let Ok(_one) = self.sources_lock.try_lock() else { return };
                self.look_at_follower(&record).await;
            }
            if self.is_due(&record) {
                self.shared.followers.with(&name, |followed| followed.tried_at = Some(clock::utc_now()));
                if let Err(error) = self.refresh_source(&name, |_, _| {}).await {
                    tracing::warn!(source = name, %error, "the next generation was not made");
                    self.shared.followers.with(&name, |followed| followed.problem = Some(error.message));
                }
            }
        }
    }

    /// F4: a standby runs only while its origin says how far it is, it does not lack too much, and there is room for what it
    /// receives.
    async fn look_at_follower(&self, record: &SourceRecord) {
        let (shared, name) = (&self.shared, record.name.as_str());
        if let Some(dir) = &record.settings.follow.archive {
            return self.look_at_archive(record, dir).await;
        }
        if let Origin::Logical { url, .. } = &record.origin {
            return self.look_at_logical(record, url).await;
        }
        if shared.followers.with(name, |followed| followed.is_given_up) {
            return;
        }
        let seen = if shared.is_short_of_room() {
            Err("the volume store is short of room: the standby is stopped until there is more".to_owned())
        } else {
            self.ask_follower(record).await.map_err(|error| error.message)
        };
        let keep_wal = record.settings.follow.keep_wal();
        let lacks = seen.as_ref().ok().and_then(|seen| seen.as_ref()?.lag());
        let is_given_up = lacks.is_some_and(|lag| lag > keep_wal);
        let told = seen.as_ref().ok().copied().flatten();
        let problem = match (seen, lacks) {
            (Err(problem), _) => Some(problem),
            (Ok(_), Some(lag)) if is_given_up => Some(format!(
                "the standby lacks {} MB of what the origin has written, and {} MB are allowed (--keep-wal): it is stopped \
                 until the next refresh, which copies the origin anew if that is too late",
                lag / 1_000_000,
                keep_wal / 1_000_000
            )),
            (Ok(_), _) => None,
        };
        if let Some(why) = &problem {
            tracing::warn!(source = name, "{why}");
            tokio::task::block_in_place(|| shared.followers.stop_one(name));
        }
        self.look_after_history(record, told.filter(|_| problem.is_none())).await;
        shared.followers.with(name, |followed| {
            followed.looked_at = Some(clock::utc_now());
            followed.lag = lacks.filter(|_| problem.is_none());
            followed.is_given_up = is_given_up;
            followed.problem = problem;
        });
    }

    pub(crate) async fn ask_follower(&self, record: &SourceRecord) -> Result<Option<Seen>, EngineError> {
        if let Some(dir) = &record.settings.follow.archive {
            return self.seen_in_archive(record, dir).await;
        }
        let Origin::Server { url } = &record.origin else { return Ok(None) };
        let (user, _held) = self.shared.user_of(&record.name)?;
        let place = self.shared.place(&user, cage::find()?);
        let seen = follow::look(&place, &self.shared.followers, &record.name, &Address::parse(url)?).await?;
        if let Some(seen) = &seen {
            self.shared.followers.note(&record.name, seen);
        }
        Ok(seen)
    }

    /// Whether it is time for the next generation of a source.
    fn is_due(&self, record: &SourceRecord) -> bool {
        let Some(every_s) = record.settings.follow.every_s else { return false };
        let Ok(manifest) = Manifest::load(&self.shared.environment.home, &record.name, record.generation)
        else {
            return false;
        };
        let tried_at = self.shared.followers.with(&record.name, |followed| followed.tried_at);
        let age = |at: Timestamp| clock::utc_now().as_second() - at.as_second();
        age(manifest.imported_at) >= i64::from(every_s)
            && tried_at.is_none_or(|at| age(at) >= RETRY_S.min(i64::from(every_s)))
    }
}
