//! How a standby is looked after whose origin is followed by its archive, and how a generation is made of it. F9 to F14 are in
//! `docs/design/following.md`.

use super::{
    address::Address,
    draft::Draft,
    feed::{Feed, Halt, Progress},
    follow::{running, Way, POLL},
    import::Importer,
    manifest::SourceRecord,
    standby::{self, standby_path, Place},
};
use crate::{
    error::{EngineError, Kind},
    following::Followers,
};
use duramen_base::clock;
use duramen_postgres::Installation;
use std::{path::Path, time::Duration};

/// How much a standby is brought before anybody looks at something else, in bytes.
const BROUGHT_AT_ONCE: u64 = 256 << 20;
/// How long a refresh waits for a segment that is not whole, while nothing comes.
const UNFINISHED_LIMIT: Duration = Duration::from_secs(30);

/// Starts the standby of a source if it does not run, and brings it what its archive has, up to a segment. Nothing if the source has no
/// standby yet.
pub(crate) async fn look(
    place: &Place<'_>,
    followers: &Followers,
    source: &str,
    dir: &Path,
    up_to: Option<u64>,
) -> Result<Option<Progress>, EngineError> {
    if !standby_path(place.store, source).join("PG_VERSION").exists() {
        return Ok(None);
    }
    let archive = followers.archive(source, dir);
    let begin = || {
        let installation = place.installation(source)?;
        Feed::begin(place, source, archive.clone(), &installation)
    };
    let run = |feed: &Feed| {
        let way = Way::Archive { system: feed.system(), timeline: feed.timeline() };
        running(place, followers, source, way).map(drop)
    };
    let mut feed = match followers.take_feed(source).filter(|feed| feed.archive().dir() == dir) {
        Some(feed) => feed,
        None => tokio::task::block_in_place(begin)?,
    };
    tokio::task::block_in_place(|| {
        run(&feed)?;
        if !feed.see(place, source) {
            tracing::warn!(
                source,
                "what the standby waits for is not in its log any more: it is looked through anew"
            );
            feed = begin()?;
            feed.see(place, source);
        }
        Ok::<_, EngineError>(())
    })?;
    let timeline = feed.timeline();
    let brought = feed.bring(place, source, up_to, BROUGHT_AT_ONCE).await;
    if feed.timeline() != timeline {
        tracing::info!(source, timeline = feed.timeline(), "the origin went on in another timeline");
        tokio::task::block_in_place(|| run(&feed))?;
    }
    let progress = match brought {
        Ok(halt) => feed.progress(halt).await,
        Err(error) => Err(error),
    };
    followers.put_feed(source, feed);
    progress.map(Some)
}

impl Importer<'_> {
    /// The data of a source that follows its origin's archive: all that this had when it was called for, or more (F11).
    pub(super) async fn followed_by_archive(
        &self,
        record: &SourceRecord,
        origin: &Address,
        dir: &Path,
        draft: &Draft<'_>,
    ) -> Result<Installation, EngineError> {
        let source = record.name.as_str();
        if !standby_path(self.store, source).join("PG_VERSION").exists() {
            self.copy_for_standby(record, origin).await?;
        }
        let progress = self.replayed(source, dir).await?;
        self.say("cloning the standby");
        let way = self.followers.archive_way(source).ok_or_else(|| behind("is not known"))?;
        let bound = self.followers.archive_bound(source);
        tokio::task::block_in_place(|| {
            self.cut(record, way, draft, |control| {
                // F11: of a standby that ended otherwise, or elsewhere, no generation is made.
                let is_there = control.is_stopped
                    && !control.is_in_backup
                    && control.timeline == progress.timeline
                    && bound.is_some_and(|bound| control.needed <= bound);
                is_there.then_some(()).ok_or_else(|| {
                    behind(&format!("is at {} of timeline {}", control.needed, control.timeline))
                })
            })
        })
    }

    /// Waits until the standby has replayed what the archive has by now.
    async fn replayed(&self, source: &str, dir: &Path) -> Result<Progress, EngineError> {
        self.say("replaying what the archive has");
        let (mut last, mut moved, mut wanted) = (None, clock::now(), None);
        loop {
            self.interrupt.check()?;
            let looked =
                look(&self.place(), self.followers, source, dir, wanted.map(|(_, last)| last)).await?;
            let progress = looked.ok_or_else(|| behind("is gone"))?;
            self.followers.note_archived(source, &progress);
            if let Halt::Blocked { code, why } = &progress.halt {
                return Err(EngineError::new(Kind::Failed, code, why.clone()));
            }
            let (from, wanted) = *wanted.get_or_insert((progress.replaying, progress.archived));
            if progress.next >= wanted && progress.replaying >= progress.next && self.is_consistent(source)? {
                return Ok(progress);
            }
            let at = (progress.next, progress.replaying);
            if last != Some(at) {
                (last, moved) = (Some(at), clock::now());
            }
            let (done, all) = (progress.replaying.saturating_sub(from), wanted.saturating_sub(from).max(1));
            (self.progress)("replaying what the archive has", Some((done as f64 / all as f64).min(1.0)));
            match &progress.halt {
                Halt::Unfinished(why) if moved.elapsed() > UNFINISHED_LIMIT.min(self.stall) => {
                    return Err(EngineError::new(Kind::Failed, "archive_damaged", why.clone()))
                }
                _ if moved.elapsed() > self.stall => {
                    let said = standby::log(self.home, source).tail();
                    return Err(behind(&format!("replays nothing; its log ends with\n{}", said.trim_end())));
                }
                _ => {}
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Whether the standby has replayed what makes a copy one of a moment.
    fn is_consistent(&self, source: &str) -> Result<bool, EngineError> {
        tokio::task::block_in_place(|| {
            let place = self.place();
            let installation = place.installation(source)?;
            Ok(!place.control(source, &installation)?.is_in_backup)
        })
    }
}

fn behind(how: &str) -> EngineError {
    EngineError::new(
        Kind::Failed,
        "standby_behind",
        format!("the standby {how}: no generation is made of it"),
    )
}
