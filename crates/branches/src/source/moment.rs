//! From a base and the segments that follow it to a snapshot of one moment, by PostgreSQL's own recovery. The invariants H1 and H5 are in
//! `docs/design/history.md`.

use super::{
    draft::Draft,
    history::{self, base_path, copy_segment, wal_path, Chosen, Ledger, Stretch, Target},
    import::{Beginning, Importer},
    manifest::{Manifest, SourceRecord},
    origin_server::import_failed,
    standby::standbys,
    wal::{history_name, parse_history_name, Position},
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
    model::PastMoment,
};
use duramen_postgres::{end_processes, processes_below, Cluster, ClusterError, Settings};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    path::Path,
    time::Duration,
};

/// How long a recovery may take: this, and a second for so many bytes of the log.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
const RECOVERED_A_SECOND: u64 = 2_000_000;
/// What PostgreSQL says when nothing in the log is behind the moment that it was to find.
const NOTHING_BEHIND: &str = "recovery ended before configured recovery target was reached";
/// The longest file about a timeline that is read.
const TIMELINE_FILE_MAX: u64 = 1 << 20;

/// What is kept of how a moment was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeOf {
    pub(crate) moment: PastMoment,
    /// The stretch of its source's history. A position alone may be in several.
    pub(crate) stretch: u32,
    /// About when that was.
    pub(crate) about: jiff::Timestamp,
}

/// A moment on its way to a generation.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) target: Target,
    pub(crate) chosen: Chosen,
    pub(crate) ledger: &'a Ledger,
    /// The generation that serves: of it the database is known.
    pub(crate) serving: &'a Manifest,
    pub(crate) about: jiff::Timestamp,
}

/// What recovers a draft.
#[derive(Debug)]
pub(super) struct Recovery<'a> {
    wanted: &'a Wanted<'a>,
    stretch: &'a Stretch,
    /// Bytes of the log that were laid over the base.
    bytes: u64,
}

impl Recovery<'_> {
    pub(super) fn made(&self, moment: PastMoment) -> MadeOf {
        MadeOf { moment, stretch: self.stretch.number, about: self.wanted.about }
    }
}

impl Importer<'_> {
    /// Makes the generation of a moment, which `record` has the number of. On failure nothing is left behind.
    pub(crate) async fn moment(
        &self,
        record: &SourceRecord,
        wanted: &Wanted<'_>,
    ) -> Result<Manifest, EngineError> {
        let draft = Draft::of_branch(self.home, self.store, record);
        let chosen = &wanted.chosen;
        let stretch = wanted.ledger.stretch(chosen.stretch).ok_or_else(|| gone("its stretch"))?;
        self.say("cloning the base");
        let (installation, bytes) = tokio::task::block_in_place(|| {
            draft.clone_from(&base_path(self.store, &record.name, chosen.stretch, chosen.base))?;
            self.check_tree(&draft.path)?;
            let bytes = self.lay_over(record, stretch, chosen, &draft.path)?;
            let major = Cluster::major_of(&draft.path).map_err(|error| import_failed(&error))?;
            Ok::<_, EngineError>((self.installation(major)?, bytes))
        })?;
        let recovery = Recovery { wanted, stretch, bytes };
        let database = wanted.serving.database.clone();
        self.finish(record, (installation, database), Beginning::Moment(&recovery), draft).await
    }

    /// Refuses a base that holds what no server makes in its data directory (H5).
    fn check_tree(&self, dir: &Path) -> Result<(), EngineError> {
        for entry in walkdir::WalkDir::new(dir) {
            self.interrupt.check()?;
            let entry = entry.map_err(|error| io_error("read", dir, &error.into()))?;
            let kind = entry.file_type();
            if !kind.is_dir() && !kind.is_file() {
                let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
                return Err(damaged(&format!(
                    "the base holds {}, which is neither a file nor a directory",
                    relative.display()
                )));
            }
        }
        Ok(())
    }

    /// Puts the segments that were chosen where recovery finds them, and returns how many bytes they are.
    fn lay_over(
        &self,
        record: &SourceRecord,
        stretch: &Stretch,
        chosen: &Chosen,
        data_dir: &Path,
    ) -> Result<u64, EngineError> {
        let log = data_dir.join("pg_wal");
        let wal = wal_path(self.store, &record.name, stretch.number);
        let is_open = stretch.ended.is_none();
        let mut laid = 0;
        for number in chosen.from..=chosen.to {
            self.interrupt.check()?;
            let (name, is_kept) = (stretch.name_of(number), number < stretch.next());
            let from = match is_kept {
                true => File::open(wal.join(&name)),
                false if is_open => {
                    let relative = Path::new(&record.name).join("pg_wal").join(&name);
                    files::open_below(&standbys(self.store), &relative)
                }
                false => Err(io::ErrorKind::NotFound.into()),
            };
            let to = log.join(&name);
            let from = match from {
                // Where the log goes on is not known to the byte.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_kept => break,
                from => from.map_err(|error| damaged(&format!("segment {name} cannot be read: {error}")))?,
            };
            copy_segment(&from, &to, stretch, number)
                .map_err(|error| damaged(&format!("segment {name} cannot be used: {error}")))?;
            self.user.own(&to).map_err(|error| io_error("own", &to, &error))?;
            laid += stretch.segment_size;
        }
        for entry in fs::read_dir(&wal).map_err(|error| io_error("read", &wal, &error))?.flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(parse_history_name).is_none_or(|timeline| timeline > stretch.timeline) {
                continue;
            }
            let to = log.join(&name);
            let copied =
                File::open(entry.path()).and_then(|from| history::copy_file(&from, &to, TIMELINE_FILE_MAX));
            copied.and_then(|_| self.user.own(&to)).map_err(|error| io_error("copy", &to, &error))?;
        }
        Ok(laid)
    }

    /// Recovers the draft up to its moment, and runs statements in it. The end of recovery is known to be at the moment, or behind all that is
    /// asked for (H1).
    pub(super) async fn recover(
        &self,
        cluster: &Cluster,
        of: &Recovery<'_>,
        statements: &str,
        settings: &Settings,
    ) -> Result<PastMoment, EngineError> {
        let wanted = of.wanted;
        let mut to_target = settings.clone();
        to_target.set("hot_standby", "off");
        // The segments lie in pg_wal: what is fetched is nothing.
        to_target.set("restore_command", "false");
        to_target.set("recovery_target_timeline", &of.stretch.timeline.to_string());
        to_target.set("recovery_target_action", "promote");
        let to_end = to_target.clone();
        match wanted.target {
            Target::Time(at) => {
                to_target.set("recovery_target_time", &at.strftime("%Y-%m-%d %H:%M:%S%.6f+00").to_string());
                to_target.set("recovery_target_inclusive", "on");
            }
            Target::Position(position) => {
                to_target.set("recovery_target_lsn", &position.to_string());
                to_target.set("recovery_target_inclusive", "off");
            }
        }
        let ended = match self.run_recovery(cluster, of, statements, &to_target).await {
            Err(error) if error.message.contains(NOTHING_BEHIND) => {
                self.say("nothing was committed after it: replaying to the end");
                self.run_recovery(cluster, of, statements, &to_end).await?;
                let ended = end_of_recovery(cluster.data_dir(), of.stretch.timeline)?;
                if ended < wanted.chosen.needed {
                    return Err(damaged(&format!(
                        "the log ends at {ended}, and what is asked for goes up to {}",
                        wanted.chosen.needed
                    )));
                }
                ended
            }
            other => {
                other?;
                end_of_recovery(cluster.data_dir(), of.stretch.timeline)?
            }
        };
        Ok(PastMoment {
            at: match wanted.target {
                Target::Time(at) => Some(at),
                Target::Position(_) => None,
            },
            lsn: match wanted.target {
                Target::Time(_) => None,
                Target::Position(position) => Some(position.to_string()),
            },
            replayed_to: ended.to_string(),
        })
    }

    async fn run_recovery(
        &self,
        cluster: &Cluster,
        of: &Recovery<'_>,
        statements: &str,
        settings: &Settings,
    ) -> Result<(), EngineError> {
        cluster.write_file("recovery.signal", "").map_err(|error| import_failed(&error))?;
        let limit = RECOVERY_LIMIT + Duration::from_secs(of.bytes / RECOVERED_A_SECOND);
        let (server, statements, settings) = (cluster.clone(), statements.to_owned(), settings.clone());
        let run =
            tokio::task::spawn_blocking(move || server.single_user("template1", &statements, &settings));
        let told = |error: ClusterError| EngineError::new(Kind::Failed, "recovery_failed", error.to_string());
        match tokio::time::timeout(limit, run).await {
            Ok(ran) => ran.map_err(|error| import_failed(&error))?.map(drop).map_err(told),
            Err(_) => {
                let dir = cluster.data_dir().to_owned();
                let end = move || end_processes(&processes_below(&dir), &dir);
                let _ = tokio::task::spawn_blocking(end).await;
                Err(EngineError::new(
                    Kind::Timeout,
                    "recovery_failed",
                    format!("recovery had not ended after {} s, and was ended", limit.as_secs()),
                ))
            }
        }
    }
}

/// Where recovery ended: the server began another timeline there, and wrote down where.
fn end_of_recovery(data_dir: &Path, timeline: u32) -> Result<Position, EngineError> {
    let log = Path::new("pg_wal");
    let names = files::names_below(data_dir, log, usize::MAX);
    let names = names.map_err(|error| io_error("read", data_dir, &error))?;
    let newest = names.iter().filter_map(|name| parse_history_name(name)).max();
    let ended = newest.filter(|newest| *newest > timeline).and_then(|newest| {
        let file = files::open_below(data_dir, &log.join(history_name(newest))).ok()?;
        let text = io::read_to_string(io::Read::take(file, TIMELINE_FILE_MAX)).ok()?;
        let last = text.lines().rfind(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
        let mut words = last.split_whitespace();
        (words.next()?.parse() == Ok(timeline)).then_some(())?;
        words.next()?.parse().ok()
    });
    ended.ok_or_else(|| damaged("recovery did not say where it ended"))
}

fn gone(what: &str) -> EngineError {
    damaged(&format!("{what} is gone"))
}

fn damaged(why: &str) -> EngineError {
    EngineError::new(
        Kind::Failed,
        "history_damaged",
        format!("the moment cannot be made: {why}; moments of which a later base is kept are not concerned"),
    )
}
