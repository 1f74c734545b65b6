//! Sources that follow their origin: their standbys, looked after while the engine is open.

use crate::{
    engine::Engine,
    error::{EngineError, Kind},
    model::{FollowSettings, FollowView, Origin},
    shared::Shared,
    source::{
        address::Address,
        cage, follow,
        manifest::{Manifest, SourceRecord},
        standby::{Place, Standby},
    },
};
use duramen_base::clock;
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often an origin is asked how far its standby is.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a generation that could not be made is not tried again, in seconds.
const RETRY_S: i64 = 60;

/// The standbys, and what was last seen of them.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<BTreeMap<String, Followed>>);

#[derive(Debug, Default)]
struct Followed {
    standby: Option<Standby>,
    lag: Option<u64>,
    looked_at: Option<Timestamp>,
    problem: Option<String>,
    /// Whether the standby is stopped until the next refresh.
    is_given_up: bool,
    /// When a generation was last tried to be made.
    tried_at: Option<Timestamp>,
}

impl Followers {
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

    /// Stops the standby of a source, with what it has on the disk. Its connection to the origin ends, and the slot with it. Blocks.
    fn stop_one(&self, source: &str) {
        if let Some(Err(error)) = self.take(source).map(Standby::stop) {
            tracing::warn!(source, %error, "a standby was ended by force");
        }
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

    /// What is told of a source that follows its origin.
    fn view(&self, source: &str, settings: &FollowSettings) -> Option<FollowView> {
        settings.enabled.then(|| {
            self.with(source, |followed| {
                let state = match followed {
                    Followed { is_given_up: true, .. } => "stopped",
                    Followed { looked_at: None, .. } => "starting",
                    Followed { lag: Some(_), .. } => "streaming",
                    _ => "waiting",
                };
                FollowView {
                    state: state.to_owned(),
                    lag_bytes: followed.lag,
                    looked_at: followed.looked_at,
                    problem: followed.problem.clone(),
                    every_s: settings.every_s,
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
    if !matches!(record.origin, Origin::Server { .. }) {
        return refused(format!(
            "the source {} was not imported from a running server; only sources added with --url can be followed",
            record.name
        ));
    }
    // F7.
    if record.settings.masking.is_some() {
        return refused(format!(
            "the source {} is masked, and a standby would keep the values that are to be masked; refresh it instead",
            record.name
        ));
    }
    if settings.every_s.is_some_and(|every_s| every_s < FollowSettings::EVERY_S_MIN) {
        return refused(format!(
            "generations are made every {} s or less often",
            FollowSettings::EVERY_S_MIN
        ));
    }
    Ok(())
}

impl Shared {
    pub(crate) fn stop_following(&self) {
        self.followers.stop();
    }

    pub(crate) fn follow_view(&self, source: &str, settings: &FollowSettings) -> Option<FollowView> {
        self.followers.view(source, settings)
    }

    /// Ends the standby of a source that is not followed any more. Blocks.
    pub(crate) fn unfollow(&self, source: &str) -> Result<(), EngineError> {
        let environment = &self.environment;
        let place =
            Place { home: &environment.home, store: &environment.store, user: &environment.user, cage: None };
        follow::end(&place, &self.followers, source)?;
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
        for name in self.shared.registry.source_names() {
            let Ok(record) = self.shared.registry.source(&name) else { continue };
            if !record.settings.follow.enabled {
                continue;
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
        shared.followers.with(name, |followed| {
            followed.looked_at = Some(clock::utc_now());
            followed.lag = lacks.filter(|_| problem.is_none());
            followed.is_given_up = is_given_up;
            followed.problem = problem;
        });
    }

    async fn ask_follower(
        &self,
        record: &SourceRecord,
    ) -> Result<Option<crate::source::origin_wal::Seen>, EngineError> {
        let Origin::Server { url } = &record.origin else { return Ok(None) };
        let environment = &self.shared.environment;
        let (user, _held) = tokio::task::block_in_place(|| {
            self.shared.users.for_import(&environment.home, &environment.user, &record.name)
        })?;
        let place =
            Place { home: &environment.home, store: &environment.store, user: &user, cage: cage::find()? };
        follow::look(&place, &self.shared.followers, &record.name, &Address::parse(url)?).await
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
