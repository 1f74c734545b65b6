//! Sources that follow their origin by logical replication. F15 to F21 are in `docs/design/following.md`.

use super::{Followed, Followers};
use crate::{
    engine::Engine,
    error::EngineError,
    model::{FollowSettings, FollowView, Origin},
    shared::Shared,
    source::{
        at_origin, cage,
        follower::FollowerRecord,
        follower_copy,
        manifest::{Manifest, SourceRecord},
    },
};
use duramen_base::clock;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

/// How often it is tried to drop what could not be dropped, in seconds.
const DROP_EVERY_S: i64 = 60;

/// What is at origins and is used by nobody, and when it was last tried to drop that.
#[derive(Debug, Default)]
pub(crate) struct LeftAtOrigins(Mutex<BTreeMap<String, (Timestamp, String)>>);

impl LeftAtOrigins {
    /// What `status` says of them.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|(_, why)| why.clone()).collect()
    }

    fn is_due(&self, name: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |at: Timestamp| clock::utc_now().as_second() - at.as_second();
        all.get(name).is_none_or(|(at, _)| age(*at) >= DROP_EVERY_S)
    }

    fn note(&self, name: &str, why: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), (clock::utc_now(), why));
    }

    fn keep(&self, names: &BTreeSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(name));
    }
}

/// Refuses ways of following that an origin does not have.
pub(super) fn check(record: &SourceRecord) -> Result<(), String> {
    let (settings, name) = (&record.settings.follow, &record.name);
    let is_logical = settings.logical || settings.publication.is_some();
    match (&record.origin, is_logical) {
        (Origin::Server { .. }, false) => Ok(()),
        (Origin::Server { .. }, true) => Err(format!(
            "the source {name} was added with --url, and a standby follows it; one that is added with --url --logical is followed by \
             logical replication"
        )),
        (Origin::Logical { .. }, _) if !settings.logical => Err(format!(
            "the source {name} is dumped, and nobody streams from its origin: it can be followed by logical replication (--logical), \
             for which a publication and a replication slot are made at the origin"
        )),
        (Origin::Logical { .. }, _) => by_logical_replication(settings),
        _ => Err(format!(
            "the source {name} was not imported from a running server; only sources added with --url can be followed"
        )),
    }
}

fn by_logical_replication(settings: &FollowSettings) -> Result<(), String> {
    let refused = [
        (settings.archive.is_some(), "an archive (--archive) holds what a standby replays"),
        (
            settings.keep_history_s.is_some() || settings.history_bytes.is_some(),
            "history (--keep-history) is kept of what a standby receives",
        ),
        (settings.publication.as_ref().is_some_and(String::is_empty), "a publication has a name"),
    ];
    let why = refused.iter().find(|(is_so, _)| *is_so).map(|(_, why)| *why);
    why.map_or(Ok(()), |why| Err(format!("{why}: it is not for sources that follow by logical replication")))
}

/// How often a follower that has stopped applies again what it stopped at. A connection that breaks stops it as well.
const TRIES_MAX: u32 = 3;

/// What a follower stopped at.
#[derive(Debug, Default)]
pub(super) struct Stops {
    confirmed: u64,
    tries: u32,
}

impl Followers {
    /// Whether a follower that has stopped is to apply again, from this position on. Not, when it was tried often.
    pub(crate) fn is_tried_again(&self, source: &str, confirmed: u64) -> bool {
        self.with(source, |followed: &mut Followed| {
            if followed.stops.confirmed != confirmed {
                followed.stops = Stops { confirmed, tries: 0 };
            }
            followed.stops.tries = followed.stops.tries.saturating_add(1);
            followed.stops.tries <= TRIES_MAX
        })
    }

    fn note_kept(&self, source: &str, kept: Option<u64>) {
        self.with(source, |followed: &mut Followed| followed.kept = kept);
    }
}

impl Shared {
    /// By which names the origin knows what was made there.
    pub(super) fn with_names(&self, source: &str, view: FollowView) -> FollowView {
        match FollowerRecord::load(&self.environment.home, source) {
            Some(record) => FollowView {
                slot: Some(record.slot),
                publication: Some(record.publication),
                advice: record.advice,
                ..view
            },
            None => view,
        }
    }
}

impl Engine {
    /// F15: refuses an origin that cannot be followed by logical replication, before anything is made there.
    pub(crate) async fn check_publisher(&self, record: &SourceRecord) -> Result<(), EngineError> {
        let settings = &record.settings.follow;
        let (Origin::Logical { url, .. }, true) = (&record.origin, settings.enabled) else { return Ok(()) };
        let manifest = Manifest::load(&self.shared.environment.home, &record.name, record.generation).ok();
        let database = manifest.map(|manifest| manifest.database);
        follower_copy::check_origin(url, database.as_deref(), settings.publication.as_deref()).await.map(drop)
    }

    /// F16: drops what is at origins and no follower uses. Nobody makes any meanwhile: the lock on sources is held.
    pub(crate) async fn drop_unused_at_origins(&self, at_once: bool) {
        let (shared, home) = (&self.shared, &self.shared.environment.home);
        let mut left = BTreeSet::new();
        for made in at_origin::all(home) {
            let is_unfollowed =
                shared.registry.source(&made.source).is_ok_and(|it| !it.settings.follow.enabled);
            // A source whose record cannot be read keeps what it has until somebody fixes it.
            let record = FollowerRecord::load(home, &made.source).filter(|_| !is_unfollowed);
            if record.is_some_and(|record| record.slot == made.name) {
                continue;
            }
            left.insert(made.name.clone());
            if !at_once && !shared.left_at_origins.is_due(&made.name) {
                continue;
            }
            match made.drop_it(home).await {
                Ok(()) => tracing::info!(slot = made.name, source = made.source, "dropped at the origin"),
                Err(error) => {
                    let why = format!(
                        "the slot {} is still at the origin of {}, which keeps its log for it, and it is tried again to drop it: {error}",
                        made.name, made.source
                    );
                    tracing::warn!("{why}");
                    shared.left_at_origins.note(&made.name, why);
                }
            }
        }
        let there: BTreeSet<String> = at_origin::all(home).into_iter().map(|made| made.name).collect();
        shared.left_at_origins.keep(&left.intersection(&there).cloned().collect());
    }

    /// A follower goes on when its origin does not answer: it is what has the origin keep less. What is kept is limited all the same.
    pub(super) async fn look_at_logical(&self, record: &SourceRecord, url: &str) {
        let (shared, name) = (&self.shared, record.name.as_str());
        if shared.followers.with(name, |followed| followed.is_given_up) {
            return;
        }
        let is_short = shared.is_short_of_room();
        let keep_wal = record.settings.follow.keep_wal();
        let looked = async {
            let (user, _held) = shared.user_of(name)?;
            let place = shared.place(&user, cage::find()?);
            follower_copy::look(&place, &shared.followers, name, url, (is_short, keep_wal)).await
        };
        let looked = looked.await;
        let mut is_given_up = false;
        let (mut lag, mut kept) = (None, None);
        let problem = match looked {
            Err(error) => Some(error.message),
            Ok(None) => None,
            Ok(Some(looked)) if looked.kept > keep_wal => {
                is_given_up = true;
                Some(format!(
                    "the origin kept {} MB of its log for the follower, and {} MB are allowed (--keep-wal): the slot is dropped, and \
                     the next refresh copies the origin anew",
                    looked.kept / 1_000_000,
                    keep_wal / 1_000_000
                ))
            }
            Ok(Some(looked)) => {
                shared.followers.note(name, &looked.seen);
                (lag, kept) = (looked.problem.is_none().then_some(looked.lag), Some(looked.kept));
                if looked.is_lost || is_short {
                    tokio::task::block_in_place(|| shared.followers.stop_one(name));
                }
                looked.problem
            }
        };
        if let Some(why) = &problem {
            tracing::warn!(source = name, "{why}");
        }
        if is_given_up {
            tokio::task::block_in_place(|| shared.followers.stop_one(name));
            // Without its record, nobody uses the slot.
            if let Err(error) = FollowerRecord::remove(&shared.environment.home, name) {
                tracing::warn!(source = name, %error, "a follower is not given up");
            }
            self.drop_unused_at_origins(true).await;
        }
        shared.followers.note_kept(name, kept);
        shared.followers.with(name, |followed| {
            followed.looked_at = Some(clock::utc_now());
            followed.lag = lag;
            followed.is_given_up = is_given_up;
            followed.problem = problem;
        });
    }
}
