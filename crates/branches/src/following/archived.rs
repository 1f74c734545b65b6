//! Sources that follow their origin by its archive.

use super::{Followed, Followers};
use crate::{
    engine::Engine,
    error::EngineError,
    model::FollowSettings,
    source::{
        archive::Archive,
        archived, cage,
        feed::{Feed, Progress},
        follow::Way,
        manifest::SourceRecord,
        origin_wal::Seen,
        wal::Position,
    },
};
use duramen_base::clock;
use jiff::Timestamp;
use std::path::Path;

/// How long a segment may be unfinished before it is told, in seconds: it is being copied for the most part.
const UNFINISHED_S: i64 = 30;

/// What is known of a standby that replays an archive.
#[derive(Debug, Default)]
pub(super) struct FromArchive {
    archive: Option<Archive>,
    feed: Option<Feed>,
    told: Option<Told>,
    /// Since when what comes next is not whole.
    unfinished: Option<(String, Timestamp)>,
}

#[derive(Debug, Clone)]
struct Told {
    replayed: (Position, Option<Timestamp>),
    awaits: String,
    lag_bytes: u64,
    /// Since when it has lacked something.
    behind_since: Option<Timestamp>,
    whole_to: Option<u64>,
}

/// What is told of it.
#[derive(Debug, Default)]
pub(super) struct ArchiveView {
    pub(super) replayed_to: Option<String>,
    pub(super) replayed_at: Option<Timestamp>,
    pub(super) awaits: Option<String>,
    pub(super) lag_bytes: Option<u64>,
    pub(super) lag_s: Option<u64>,
}

impl FromArchive {
    pub(super) fn view(&self) -> ArchiveView {
        let Some(told) = &self.told else { return ArchiveView::default() };
        let since = |at: Timestamp| u64::try_from(clock::utc_now().as_second() - at.as_second()).unwrap_or(0);
        ArchiveView {
            replayed_to: Some(told.replayed.0.to_string()),
            replayed_at: told.replayed.1,
            awaits: Some(told.awaits.clone()),
            lag_bytes: Some(told.lag_bytes),
            lag_s: Some(told.behind_since.map_or(0, since)),
        }
    }

    fn note(&mut self, progress: &Progress) {
        let now = clock::utc_now();
        let behind_since = self.told.as_ref().and_then(|told| told.behind_since);
        // When the last commit was is told for as long as nothing later is known.
        let earlier = self.told.as_ref().and_then(|told| told.replayed.1);
        self.told = Some(Told {
            replayed: (progress.replayed.0, progress.replayed.1.or(earlier)),
            awaits: progress.awaits.clone(),
            lag_bytes: progress.lag_bytes,
            behind_since: (progress.lag_bytes > 0).then(|| behind_since.unwrap_or(now)),
            whole_to: progress.whole_to(),
        });
        self.unfinished = progress.unfinished().map(|why| match self.unfinished.take() {
            Some((of, since)) if of == progress.awaits => (of, since),
            _ => {
                tracing::debug!("{why}");
                (progress.awaits.clone(), now)
            }
        });
    }

    /// What is told to be wrong.
    fn problem(&self, progress: &Progress) -> Option<String> {
        let is_new = self
            .unfinished
            .as_ref()
            .is_some_and(|(_, since)| clock::utc_now().as_second() - since.as_second() < UNFINISHED_S);
        progress.problem().filter(|_| !is_new).map(str::to_owned)
    }
}

impl Followers {
    fn with_archive<T>(&self, source: &str, work: impl FnOnce(&mut FromArchive) -> T) -> T {
        self.with(source, |followed| work(&mut followed.from_archive))
    }

    /// The archive of a source: the same one again, so that what waits for it is known.
    pub(crate) fn archive(&self, source: &str, dir: &Path) -> Archive {
        self.with_archive(source, |it| match &it.archive {
            Some(archive) if archive.dir() == dir => archive.clone(),
            _ => it.archive.insert(Archive::new(dir)).clone(),
        })
    }

    pub(crate) fn take_feed(&self, source: &str) -> Option<Feed> {
        self.with_archive(source, |it| it.feed.take())
    }

    pub(crate) fn put_feed(&self, source: &str, feed: Feed) {
        self.with_archive(source, |it| it.feed = Some(feed));
    }

    /// By which way the standby of a source gets what it replays, once it was looked at.
    pub(crate) fn archive_way<'a>(&self, source: &str) -> Option<Way<'a>> {
        self.with_archive(source, |it| {
            let feed = it.feed.as_ref()?;
            Some(Way::Archive { system: feed.system(), timeline: feed.timeline() })
        })
    }

    /// Behind what the standby of a source was brought.
    pub(crate) fn archive_bound(&self, source: &str) -> Option<Position> {
        self.with_archive(source, |it| it.feed.as_ref().map(Feed::bound))
    }

    /// The last segment that the standby of a source was brought whole.
    pub(crate) fn whole_to(&self, source: &str) -> Option<u64> {
        self.with_archive(source, |it| it.told.as_ref()?.whole_to)
    }

    /// Notes how far the standby of a source is.
    pub(crate) fn note_archived(&self, source: &str, progress: &Progress) {
        self.with(source, |followed: &mut Followed| {
            for mark in &progress.marks {
                let (written, flushed) = (mark.position, Some(mark.position));
                followed.take_note(&Seen { written, flushed, mark: *mark, timeline: progress.timeline });
            }
            followed.from_archive.note(progress);
        });
    }

    /// What the origin would tell of it: what it has archived, as if it had written no more.
    fn seen_in_archive(&self, source: &str, progress: &Progress) -> Option<Seen> {
        let (timeline, mark) =
            self.with(source, |followed| (followed.timeline, followed.marks.back().copied()));
        let mark = mark.filter(|_| timeline == Some(progress.timeline))?;
        let end = progress.end.0;
        Some(Seen { written: end, flushed: Some(end), mark, timeline: progress.timeline })
    }
}

/// Refuses settings by which no archive can be followed.
pub(super) fn check(settings: &FollowSettings) -> Result<(), String> {
    let Some(dir) = &settings.archive else { return Ok(()) };
    if settings.keep_wal.is_some() {
        return Err(
            "the origin keeps nothing for a standby that replays an archive: there is no limit to set \
                    (--keep-wal)"
                .to_owned(),
        );
    }
    Archive::check_path(dir)
}

impl Engine {
    /// Refuses an archive that cannot be read.
    pub(crate) async fn check_archive(&self, settings: &FollowSettings) -> Result<(), EngineError> {
        let Some(dir) = settings.archive.as_ref().filter(|_| settings.enabled) else { return Ok(()) };
        let environment = &self.shared.environment;
        let own = [environment.home.root().to_owned(), environment.store.root.clone()];
        Archive::new(dir.as_ref()).check(own).await
    }

    /// Brings the standby of a source what its origin has archived.
    pub(super) async fn ask_archive(
        &self,
        record: &SourceRecord,
        dir: &str,
    ) -> Result<Option<Progress>, EngineError> {
        let (user, _held) = self.shared.user_of(&record.name)?;
        let place = self.shared.place(&user, cage::find()?);
        let followers = &self.shared.followers;
        let progress = archived::look(&place, followers, &record.name, dir.as_ref(), None).await?;
        if let Some(progress) = &progress {
            followers.note_archived(&record.name, progress);
        }
        Ok(progress)
    }

    /// As [`Engine::ask_follower`] tells it.
    pub(super) async fn seen_in_archive(
        &self,
        record: &SourceRecord,
        dir: &str,
    ) -> Result<Option<Seen>, EngineError> {
        let progress = self.ask_archive(record, dir).await?;
        Ok(progress.and_then(|it| self.shared.followers.seen_in_archive(&record.name, &it)))
    }

    /// F12: nothing is brought while there is little room, and the standby is stopped then.
    pub(super) async fn look_at_archive(&self, record: &SourceRecord, dir: &str) {
        let (shared, name) = (&self.shared, record.name.as_str());
        let is_short = shared.is_short_of_room();
        let looked = match is_short {
            true => Ok(None),
            false => self.ask_archive(record, dir).await,
        };
        let (mut seen, mut is_brought) = (None, false);
        let problem = match looked {
            _ if is_short => {
                tokio::task::block_in_place(|| shared.followers.stop_one(name));
                Some(
                    "the volume store is short of room: the standby is stopped until there is more"
                        .to_owned(),
                )
            }
            Ok(None) => None,
            Ok(Some(progress)) => {
                is_brought = true;
                seen = shared.followers.seen_in_archive(name, &progress);
                shared.followers.with_archive(name, |it| it.problem(&progress))
            }
            Err(error) => Some(error.message),
        };
        if let Some(why) = &problem {
            tracing::warn!(source = name, "{why}");
        }
        self.look_after_history(record, seen).await;
        shared.followers.with(name, |followed| {
            followed.looked_at = Some(clock::utc_now());
            followed.lag = None;
            followed.is_replaying = is_brought && problem.is_none();
            followed.problem = problem;
        });
    }
}
