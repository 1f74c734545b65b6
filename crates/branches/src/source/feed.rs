//! What brings a standby the log that its origin archived: segment by segment, each copied, found to go on where the one before it
//! ended, flushed, and only then put under its name. F9 to F14 are in `docs/design/following.md`.

use super::{
    archive::{Archive, Line, Stamp, There},
    history::{log_of, Mark},
    standby::{standby_path, standbys, Place},
    wal::{
        chain::{Broken, Chain},
        history_name, parse_history_name, parse_segment_name, segment_name, Position,
    },
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error},
};
use duramen_postgres::{processes_below, Installation};
use jiff::Timestamp;
use rustix::fs::{fsync, openat, renameat, unlinkat, AtFlags, Mode, OFlags};
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// How much of the log a standby is brought before it has replayed it, in bytes.
const AHEAD_MAX: u64 = 1 << 30;
/// How many timelines behind that of the standby are looked for.
const TIMELINES_AHEAD: u32 = 32;
/// How many segments behind a missing one are looked for.
const GAP_LOOK: u64 = 64;
/// How many segments are counted that the archive has more, at most.
const COUNTED_MAX: usize = 1 << 20;
/// The longest file about a timeline that is read.
const LINE_MAX: u64 = 1 << 20;
/// How many names of the standby's log are looked at.
const NAMES_MAX: usize = 200_000;
/// What a file is called before it is verified: servers remove what begins so when they start.
const DRAFT: &str = "xlogtemp.archive";

/// A standby's place in the log of its origin's archive.
#[derive(Debug)]
pub(crate) struct Feed {
    archive: Archive,
    system: u64,
    size: u64,
    /// Of the timeline that the standby is to replay.
    line: Line,
    /// Of all that the standby was brought.
    chain: Chain,
    /// The segment that it is brought next.
    next: u64,
    /// The one that it is replaying, or waits for.
    replaying: u64,
    /// What was brought from the segment before that on, the earliest first.
    brought: VecDeque<Segment>,
    /// What was not yet told of that.
    untold: Vec<Mark>,
    /// What lay under a name and could not be used: it is not read again before it is changed.
    refused: Option<(String, Stamp, Halt)>,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    number: u64,
    end: u64,
    committed: Option<Timestamp>,
}

/// Why a standby is brought no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// The archive has nothing more.
    AllThere,
    /// It has enough before it.
    Ahead,
    /// What comes next cannot be used as it is. It may be a copy that is not finished yet.
    Unfinished(String),
    /// Nothing more will come before somebody does something.
    Blocked { code: &'static str, why: String },
}

/// How far a standby is.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pub(super) halt: Halt,
    pub(super) next: u64,
    pub(super) replaying: u64,
    /// One behind the last segment that the archive has of those that can be replayed.
    pub(super) archived: u64,
    pub(crate) lag_bytes: u64,
    /// Behind the last record that is known to be replayed, and when the last commit before it was.
    pub(crate) replayed: (Position, Option<Timestamp>),
    pub(crate) awaits: String,
    /// All that it has up to now.
    pub(crate) end: Position,
    pub(crate) timeline: u32,
    /// What was brought since this was told the last time.
    pub(crate) marks: Vec<Mark>,
}

impl Progress {
    /// What keeps it from going on.
    pub(crate) fn problem(&self) -> Option<&str> {
        match &self.halt {
            Halt::AllThere | Halt::Ahead => None,
            Halt::Unfinished(why) | Halt::Blocked { why, .. } => Some(why),
        }
    }

    /// Why what comes next is not whole, if that is all that is wrong.
    pub(crate) fn unfinished(&self) -> Option<&str> {
        match &self.halt {
            Halt::Unfinished(why) => Some(why),
            _ => None,
        }
    }

    /// The last segment that the standby has whole.
    pub(crate) fn whole_to(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }
}

impl Feed {
    /// Finds out what the standby of a source has. Blocks.
    pub(super) fn begin(
        place: &Place<'_>,
        source: &str,
        archive: Archive,
        installation: &Installation,
    ) -> Result<Feed, EngineError> {
        let control = place.control(source, installation)?;
        let size = control.segment_size;
        let chain = Chain::begin(control.system, size, control.page_size).ok_or_else(|| {
            EngineError::new(Kind::Failed, "import_failed", "the standby's log has sizes that no server has")
        })?;
        let begin = control.redo.0 / size;
        let line = line_of(place, source, control.timeline)?;
        let mut feed = Feed {
            archive,
            system: control.system,
            size,
            line,
            chain,
            next: begin,
            replaying: begin,
            brought: VecDeque::new(),
            untold: Vec::new(),
            refused: None,
        };
        loop {
            let name = feed.name_of(&feed.line, feed.next);
            let file = match files::open_below(&standbys(place.store), &log_of(source).join(&name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(io_error("read", &standby_path(place.store, source), &error)),
            };
            match feed.chain.with(&file, feed.next, feed.line.timeline) {
                Ok(chain) => feed.take(chain),
                Err(Broken::Unreadable(error)) => {
                    return Err(io_error("read", &standby_path(place.store, source), &error))
                }
                // The last one of a base backup is not whole, and one that a server made in advance holds something else.
                Err(Broken::Foreign(_) | Broken::Cut { .. }) => break,
            }
        }
        Ok(feed)
    }

    pub(super) fn archive(&self) -> &Archive {
        &self.archive
    }

    pub(crate) fn system(&self) -> u64 {
        self.system
    }

    /// The timeline that the standby is to replay.
    pub(crate) fn timeline(&self) -> u32 {
        self.line.timeline
    }

    /// Whether a standby that has replayed so far has all that it was brought, and is on the timeline that it is to replay.
    pub(super) fn is_replayed(&self) -> bool {
        self.replaying >= self.next
    }

    /// The position behind the segment that is awaited: nothing that was replayed can be behind it.
    pub(crate) fn bound(&self) -> Position {
        Position((self.next + 1) * self.size)
    }

    fn name_of(&self, line: &Line, number: u64) -> String {
        segment_name(line.of_segment(number, self.size), number, self.size)
    }

    fn take(&mut self, chain: Chain) {
        let committed = chain.committed().and_then(|at| Timestamp::from_microsecond(at).ok());
        self.brought.push_back(Segment { number: self.next, end: chain.end(), committed });
        self.untold.extend(committed.map(|at| Mark { at, position: chain.end() }));
        self.chain = chain;
        self.next += 1;
        self.refused = None;
    }

    /// Takes note of what the standby is replaying. `false`: what it waits for is not there any more, and this is to be begun anew. Blocks.
    pub(super) fn see(&mut self, place: &Place<'_>, source: &str) -> bool {
        if let Some(number) = replaying(&standby_path(place.store, source), self.size) {
            self.replaying = number;
        }
        while self.brought.front().is_some_and(|it| it.number + 1 < self.replaying) {
            self.brought.pop_front();
        }
        let name = self.name_of(&self.line, self.replaying);
        self.is_replayed() || files::open_below(&standbys(place.store), &log_of(source).join(name)).is_ok()
    }

    /// Brings the standby of a source what its archive has, up to a segment, and no more than so many bytes at once.
    pub(super) async fn bring(
        &mut self,
        place: &Place<'_>,
        source: &str,
        up_to: Option<u64>,
        most: u64,
    ) -> Result<Halt, EngineError> {
        let mut bytes = 0;
        loop {
            let is_ahead =
                (self.next + 1).saturating_sub(self.replaying) * self.size > AHEAD_MAX.max(2 * self.size);
            if is_ahead
                || bytes + self.size > most.max(self.size)
                || up_to.is_some_and(|last| self.next >= last)
            {
                return Ok(Halt::Ahead);
            }
            let (line, stray) = match self.newest_line(place, source).await? {
                Ok(found) => found,
                Err(halt) => return Ok(halt),
            };
            let (there, name) = match &line {
                Some((_, line)) => self.there(line).await?,
                None => self.there(&self.line).await?,
            };
            let stamp = match there {
                There::File(stamp) => stamp,
                There::Other(what) => {
                    let why = format!("segment {name} of the archive is not read: {what}");
                    return Ok(Halt::Blocked { code: "archive_damaged", why });
                }
                There::Nothing => {
                    return self.nothing_there(&name, line.as_ref().map(|(_, line)| line), stray).await
                }
            };
            if let Some((_, _, halt)) =
                self.refused.as_ref().filter(|(of, at, _)| *of == name && *at == stamp)
            {
                return Ok(halt.clone());
            }
            if stamp.bytes != self.size {
                let why = format!(
                    "segment {name} of the archive has {} of {} bytes: it is still being copied, or was cut off",
                    stamp.bytes, self.size
                );
                return Ok(match stamp.bytes > self.size {
                    true => Halt::Blocked { code: "archive_damaged", why },
                    false => Halt::Unfinished(why),
                });
            }
            let draft = Draft::begin(place, source)?;
            let copied = self.archive.copy(name.clone(), draft.file()?, &draft.at, self.size).await?;
            let timeline = line.as_ref().map_or(self.line.timeline, |(_, line)| line.timeline);
            let halt = match tokio::task::block_in_place(|| self.chain.with(&draft.file, self.next, timeline)) {
                Ok(chain) => {
                    tokio::task::block_in_place(|| draft.keep(place, &name))?;
                    if let Some((text, line)) = line {
                        // The segment comes first: a standby is sent to a timeline that has one.
                        tokio::task::block_in_place(|| keep_line(place, source, line.timeline, &text))?;
                        self.line = line;
                    }
                    self.take(chain);
                    bytes += self.size;
                    continue;
                }
                Err(Broken::Unreadable(error)) => {
                    return Err(io_error("read", &standby_path(place.store, source), &error))
                }
                Err(Broken::Foreign(why)) => Halt::Blocked {
                    code: "archive_damaged",
                    why: format!("segment {name} of the archive is refused: {why}"),
                },
                Err(cut) => Halt::Unfinished(format!(
                    "segment {name} of the archive is not whole: {cut}; it is still being copied, or is damaged"
                )),
            };
            if copied == There::File(stamp) {
                self.refused = Some((name, stamp, halt.clone()));
            }
            return Ok(halt);
        }
    }

    async fn there(&self, line: &Line) -> Result<(There, String), EngineError> {
        let name = self.name_of(line, self.next);
        let there = self.archive.look(vec![name.clone()]).await?;
        Ok((there.into_iter().next().unwrap_or(There::Nothing), name))
    }

    /// What it means that the segment that comes next is not there.
    async fn nothing_there(
        &self,
        name: &str,
        line: Option<&Line>,
        stray: Option<String>,
    ) -> Result<Halt, EngineError> {
        if let Some(why) = stray {
            return Ok(Halt::Blocked { code: "archive_diverged", why });
        }
        let line = line.unwrap_or(&self.line);
        let later: Vec<String> =
            (1..=GAP_LOOK).map(|behind| self.name_of(line, self.next + behind)).collect();
        let found = self.archive.look(later.clone()).await?;
        let later =
            found.iter().zip(later).find(|(there, _)| **there != There::Nothing).map(|(_, name)| name);
        Ok(match later {
            None => Halt::AllThere,
            Some(later) => Halt::Blocked {
                code: "archive_gap",
                why: format!(
                    "segment {name} is missing from the archive, which has {later}: put it there; without it, unfollow the \
                     source and follow it again, which copies the origin anew"
                ),
            },
        })
    }

    /// The newest timeline that goes on from that of the standby, if the segment that comes next is of it; and what is told of others
    /// that do not, when nothing else comes.
    async fn newest_line(
        &self,
        place: &Place<'_>,
        source: &str,
    ) -> Result<Result<(Option<(Vec<u8>, Line)>, Option<String>), Halt>, EngineError> {
        let mine = self.line.timeline;
        let later: Vec<u32> = (1..=TIMELINES_AHEAD).filter_map(|more| mine.checked_add(more)).collect();
        let there = self.archive.look(later.iter().map(|it| history_name(*it)).collect()).await?;
        let mut stray = None;
        for (timeline, _) in later.into_iter().zip(there).rev().filter(|(_, there)| *there != There::Nothing)
        {
            let (text, line) = match self.archive.line(timeline).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                // F9: what it would have said is not guessed.
                Err(error) if error.code == "archive_damaged" => {
                    return Ok(Err(Halt::Blocked { code: "archive_damaged", why: error.message }))
                }
                Err(error) => return Err(error),
            };
            let Some(left) = line.left_at(mine) else {
                stray.get_or_insert_with(|| {
                    format!("the archive has timeline {timeline}, which did not come from timeline {mine} that is replayed")
                });
                continue;
            };
            let is_passed = left / self.size < self.next
                || (left / self.size == self.next && self.needed(place, source)? > left);
            if is_passed {
                stray.get_or_insert_with(|| {
                    format!(
                        "timeline {timeline} of the archive left timeline {mine} at {}, before what was replayed of it: if the \
                         origin went on there, unfollow the source and follow it again, which copies the origin anew",
                        Position(left)
                    )
                });
                continue;
            }
            let is_of_it =
                line.of_segment(self.next, self.size) != self.line.of_segment(self.next, self.size);
            return Ok(Ok((is_of_it.then_some((text, line)), stray)));
        }
        Ok(Ok((None, stray)))
    }

    /// Up to where the standby must replay to be what it was.
    fn needed(&self, place: &Place<'_>, source: &str) -> Result<u64, EngineError> {
        tokio::task::block_in_place(|| {
            let installation = place.installation(source)?;
            Ok(place.control(source, &installation)?.needed.0)
        })
    }

    /// How far the standby is, and why it gets nothing more.
    pub(super) async fn progress(&mut self, halt: Halt) -> Result<Progress, EngineError> {
        let more = match &halt {
            Halt::AllThere => 0,
            _ => {
                let (line, next, size) = (self.line.clone(), self.next, self.size);
                let name = move |index: usize| {
                    let number = next + index as u64;
                    segment_name(line.of_segment(number, size), number, size)
                };
                self.archive.last_of(COUNTED_MAX, name).await?
            }
        };
        let archived = self.next + more as u64;
        let at = match self.is_replayed() {
            true => self.brought.back(),
            false => self.brought.iter().find(|it| it.number + 1 == self.replaying),
        };
        let replayed = match at {
            Some(it) => (Position(it.end), it.committed),
            None => (Position(self.replaying * self.size), None),
        };
        Ok(Progress {
            halt,
            next: self.next,
            replaying: self.replaying,
            archived,
            lag_bytes: archived.saturating_sub(self.replaying) * self.size,
            replayed,
            awaits: self.name_of(&self.line, self.next),
            end: Position(self.chain.end()),
            timeline: self.line.timeline,
            marks: std::mem::take(&mut self.untold),
        })
    }
}

/// The line of the newest timeline that a standby was sent to.
fn line_of(place: &Place<'_>, source: &str, known: u32) -> Result<Line, EngineError> {
    let (standbys, log) = (standbys(place.store), log_of(source));
    let fail = |error: io::Error| io_error("read", &standby_path(place.store, source), &error);
    let names = files::names_below(&standbys, &log, NAMES_MAX).map_err(fail)?;
    let mut newest = Line::alone(known);
    for timeline in names.iter().filter_map(|name| parse_history_name(name)) {
        let Ok(file) = files::open_below(&standbys, &log.join(history_name(timeline))) else { continue };
        let mut text = Vec::new();
        file.take(LINE_MAX).read_to_end(&mut text).map_err(fail)?;
        let line = Line::read(timeline, &text);
        let goes_on = |line: &Line| timeline == known || line.left_at(known).is_some();
        if let Some(line) = line.filter(|line| goes_on(line) && timeline >= newest.timeline) {
            newest = line;
        }
    }
    Ok(newest)
}

/// Puts the history of a timeline where the standby finds it. Blocks.
fn keep_line(place: &Place<'_>, source: &str, timeline: u32, text: &[u8]) -> Result<(), EngineError> {
    let mut draft = Draft::begin(place, source)?;
    draft
        .file
        .write_all(text)
        .map_err(|error| io_error("write", &standby_path(place.store, source), &error))?;
    draft.keep(place, &history_name(timeline))
}

/// The number of the segment that the server of a data directory replays or waits for, as its process says.
fn replaying(data_dir: &Path, size: u64) -> Option<u64> {
    processes_below(data_dir).into_iter().find_map(|pid| {
        let mut title = Vec::new();
        File::open(format!("/proc/{pid}/cmdline")).ok()?.take(4096).read_to_end(&mut title).ok()?;
        let title = String::from_utf8(title).ok()?;
        replayed_by(&title, size)
    })
}

/// The same, by the title of a process.
fn replayed_by(title: &str, size: u64) -> Option<u64> {
    let title = title.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace());
    let mut words = title.rsplit(|c: char| c.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let (name, before) = (words.next()?, words.next()?);
    let before = match before {
        "for" => words.next()?,
        other => other,
    };
    let is_one = ["recovering", "waiting"].contains(&before) && words.next() == Some("startup");
    is_one.then(|| parse_segment_name(name, size).map(|(_, number)| number)).flatten()
}

/// A file on its way into a standby's log: ours alone, and removed unless it is kept.
struct Draft {
    log: OwnedFd,
    file: File,
    is_kept: bool,
    at: std::path::PathBuf,
}

impl Draft {
    /// F10: the standby's server owns the directory, so no link in it is followed, and what lies there is replaced.
    fn begin(place: &Place<'_>, source: &str) -> Result<Draft, EngineError> {
        let at = standby_path(place.store, source).join("pg_wal");
        let fail = |error: io::Error| io_error("write in", &at, &error);
        let log = files::dir_below(&standbys(place.store), &log_of(source)).map_err(fail)?;
        match unlinkat(&log, DRAFT, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(fail(error.into())),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&log, DRAFT, flags, Mode::from_raw_mode(files::FILE))
            .map_err(|error| fail(error.into()))?;
        Ok(Draft { log, file: file.into(), is_kept: false, at })
    }

    fn file(&self) -> Result<File, EngineError> {
        self.file.try_clone().map_err(|error| io_error("write in", &self.at, &error))
    }

    /// Flushes it, and gives it its name and its owner. Blocks.
    fn keep(mut self, place: &Place<'_>, name: &str) -> Result<(), EngineError> {
        let kept = self.file.sync_all().and_then(|()| place.user.own_file(&self.file)).and_then(|()| {
            renameat(&self.log, DRAFT, &self.log, name)?;
            self.is_kept = true;
            Ok(fsync(self.log.as_fd())?)
        });
        kept.map_err(|error| io_error("write in", &self.at, &error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = unlinkat(&self.log, DRAFT, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::replayed_by;

    #[test]
    fn what_a_server_replays_is_known_by_its_title_alone() {
        let size = 16 << 20;
        for (title, number) in [
            ("postgres: startup recovering 000000010000000000000003\0\0", Some(3)),
            ("postgres: startup   waiting for 000000020000000100000003 ", Some(0x103)),
            ("postgres: app: startup recovering 000000010000000000000003", Some(3)),
            ("postgres: startup ", None),
            ("postgres: checkpointer ", None),
            ("postgres: archiver last was 000000010000000000000003", None),
            ("postgres: startup recovering 000000010000000000000103", None),
            ("postgres: walreceiver waiting for 000000010000000000000003", None),
        ] {
            assert_eq!(replayed_by(title, size), number, "{title}");
        }
    }
}
