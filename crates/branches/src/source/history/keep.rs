//! How bases and segments come to be kept.

use super::{
    base_path, histories, history_path,
    ledger::{Base, Ledger, Mark, Stretch},
    passed_path,
    retain::discard,
    stretch_path, wal_path,
};
use crate::{
    error::{EngineError, Kind},
    files::{self, io_error, Passage},
    source::{
        standby::{standby_path, standbys, Place},
        wal::{history_name, parse_history_name, parse_segment_name, Header, HEADER_BYTES},
    },
};
use duramen_base::file;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// How many files of its log are looked at in a standby.
const NAMES_MAX: usize = 200_000;
/// The longest file that says which timelines a timeline came from, in bytes.
const HISTORY_FILE_MAX: u64 = 1 << 20;
/// After how many bytes of the log there is another base: so many are replayed for a moment at most.
const BASE_EVERY: u64 = 1 << 30;
/// Parts that a limit for all bytes is divided into by bases, so that the earliest can go.
const PARTS: u64 = 4;

/// Where a standby keeps its log, below the directory of all standbys.
pub(crate) fn log_of(source: &str) -> PathBuf {
    Path::new(source).join("pg_wal")
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> EngineError + '_ {
    move |error| io_error("read", path, &error)
}

/// Takes a base of a source, whose standby is stopped, into the stretch that goes on; another one begins if there is none, or if what the
/// standby receives is not its continuation (H3). Of which moments it may be the base is known once the next mark is. Blocks.
pub(crate) fn clone_base(
    place: &Place<'_>,
    source: &str,
    system: u64,
    marks: &[Mark],
) -> Result<(), EngineError> {
    let (home, store) = (place.home, place.store);
    let (timeline, segment, segment_size) = newest(place, source, system)?;
    let mut ledger = Ledger::load(home, source)?;
    if ledger.open().is_some_and(|open| open.system == system && open.timeline == timeline) {
        // What is before the segment that is received is complete, whether that is noted or not.
        keep(place, source, &mut ledger, marks, segment.checked_sub(1))?;
    }
    let goes_on = ledger.open().is_some_and(|open| {
        open.system == system
            && open.timeline == timeline
            && open.segment_size == segment_size
            && segment <= open.next()
    });
    if !goes_on {
        end(place, source, &mut ledger, "what the origin writes is of another timeline or server")?;
    }
    files::make_dir(&histories(store), Passage::Servers, place.user)?;
    files::make_dir(&history_path(store, source), Passage::Servers, place.user)?;
    let number = match ledger.open() {
        Some(open) => open.number,
        None => {
            ledger.numbered += 1;
            let number = ledger.numbered;
            // What lies there belongs to nothing.
            discard(store, &stretch_path(store, source, number))?;
            ledger.stretches.push(Stretch {
                number,
                system,
                timeline,
                segment_size,
                first: segment,
                segments: Vec::new(),
                bases: Vec::new(),
                reach: None,
                ended: None,
            });
            number
        }
    };
    let wal = wal_path(store, source, number);
    files::make_dir(&stretch_path(store, source, number), Passage::Servers, place.user)?;
    files::make_dir(&wal, Passage::Servers, place.user)?;
    files::make_dir(&passed_path(&wal), Passage::Servers, place.user)?;
    let Some(open) = ledger.open_mut() else { return Ok(()) };
    let base = open.bases.last().map_or(1, |base| base.number + 1);
    let path = base_path(store, source, number, base);
    let failed = |error: &dyn std::error::Error| {
        EngineError::new(Kind::Failed, "history_failed", format!("no base for history was made: {error}"))
    };
    store.volumes.delete(&path).map_err(|error| failed(&error))?;
    store.volumes.snapshot(&standby_path(store, source), &path).map_err(|error| failed(&error))?;
    // H2.
    store.flush().map_err(|error| io_error("flush", &store.root, &error))?;
    open.bases.push(Base { number: base, segment, mark: None });
    ledger.save(home, source)
}

/// The timeline that the standby of a source receives. Blocks.
pub(crate) fn received_timeline(place: &Place<'_>, source: &str, system: u64) -> Result<u32, EngineError> {
    newest(place, source, system).map(|(timeline, ..)| timeline)
}

/// What a standby receives: the timeline, the number and the size of the segment, of this system.
fn newest(place: &Place<'_>, source: &str, system: u64) -> Result<(u32, u64, u64), EngineError> {
    let (standbys, log) = (standbys(place.store), log_of(source));
    let mut names = files::names_below(&standbys, &log, NAMES_MAX).map_err(read_error(&standbys))?;
    names.retain(|name| name.len() == 24);
    names.sort_unstable_by(|a, b| b.cmp(a));
    let found = names.iter().find_map(|name| {
        let file = files::open_below(&standbys, &log.join(name)).ok()?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let header = Header::read(&bytes)?;
        let (timeline, number) = parse_segment_name(name, header.segment_size)?;
        let is_it = header.system == system && header.position == number * header.segment_size;
        is_it.then_some((timeline, number, header.segment_size))
    });
    found.ok_or_else(|| {
        EngineError::new(Kind::Unavailable, "history_failed", "the standby has received nothing yet")
    })
}

/// Whether enough of the log was kept since the last base for another one.
pub(crate) fn is_base_due(stretch: &Stretch, limit: u64) -> bool {
    // The one that its standby was receiving is in it for the most part.
    let since = stretch.bases.last().map_or(0, |base| stretch.next().saturating_sub(base.segment + 1));
    since * stretch.segment_size >= BASE_EVERY.min(limit / PARTS)
}

/// Keeps the segments of a source's standby that are complete and not kept yet, in the stretch that goes on; `marks` are the last ones, the
/// earliest first. All up to the segment `complete_to` are complete, and those that the standby noted. Returns whether anything was kept; the
/// ledger is saved then. Blocks.
pub(crate) fn keep(
    place: &Place<'_>,
    source: &str,
    ledger: &mut Ledger,
    marks: &[Mark],
    complete_to: Option<u64>,
) -> Result<bool, EngineError> {
    let Some(open) = ledger.open_mut() else { return Ok(false) };
    let status = log_of(source).join("archive_status");
    let standbys = standbys(place.store);
    let noted = files::names_below(&standbys, &status, NAMES_MAX).map_err(read_error(&standbys))?;
    let ready = noted.iter().filter_map(|name| name.strip_suffix(".ready"));
    let done = noted.iter().filter_map(|name| name.strip_suffix(".done"));
    let complete = ready.clone().chain(done.clone());
    let of_this = complete.filter_map(|name| parse_segment_name(name, open.segment_size));
    let last = of_this.filter(|(timeline, _)| *timeline == open.timeline).map(|(_, number)| number).max();
    let last = last.max(complete_to);
    let wal = wal_path(place.store, source, open.number);
    let before = open.next();
    let mut refused = None;
    while last.is_some_and(|last| open.next() <= last) {
        match keep_segment(place, source, open, &wal) {
            Ok(true) => note_segment(open, marks),
            Ok(false) => break,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                refused =
                    Some(format!("segment {} of the standby is refused: {error}", open.name_of(open.next())));
                break;
            }
            Err(error) => return Err(io_error("keep a segment in", &wal, &error)),
        }
    }
    keep_timelines(place, source, &wal, ready.clone().chain(done))?;
    pass(open, &wal, ready)?;
    let is_changed = open.next() > before || refused.is_some();
    if is_changed {
        file::sync_folder(&wal).map_err(|error| io_error("flush", &wal, &error))?;
        open.ended = refused;
        ledger.save(place.home, source)?;
    }
    Ok(is_changed)
}

fn note_segment(stretch: &mut Stretch, marks: &[Mark]) {
    let end = (stretch.next() + 1) * stretch.segment_size;
    let mark = marks.iter().rev().find(|mark| mark.position <= end).copied();
    let earlier =
        stretch.segments.last().copied().flatten().or_else(|| stretch.from()).filter(|it| it.position <= end);
    stretch.segments.push(mark.or(earlier));
}

/// Keeps the segment of a stretch that comes next. `false`: the standby does not have it.
///
/// # Errors
/// `InvalidData` when what has its name is not that segment.
fn keep_segment(place: &Place<'_>, source: &str, stretch: &Stretch, wal: &Path) -> io::Result<bool> {
    let number = stretch.next();
    let name = stretch.name_of(number);
    let from = match files::open_below(&standbys(place.store), &log_of(source).join(&name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        from => from.map_err(as_invalid)?,
    };
    let part = wal.join(format!("{name}.part"));
    copy_segment(&from, &part, stretch, number).inspect_err(|_| drop(fs::remove_file(&part)))?;
    fs::rename(&part, wal.join(&name))?;
    Ok(true)
}

/// A link, or something that is not a file, where a file should be.
fn as_invalid(error: io::Error) -> io::Error {
    use rustix::io::Errno;
    let is_link = [Errno::LOOP, Errno::XDEV, Errno::NXIO, Errno::ISDIR]
        .iter()
        .any(|number| error.raw_os_error() == Some(number.raw_os_error()));
    match is_link {
        true => io::Error::new(io::ErrorKind::InvalidData, error),
        false => error,
    }
}

/// Copies a segment, and flushes it, if it is the one of this number (H3, H5).
pub(crate) fn copy_segment(from: &File, to: &Path, stretch: &Stretch, number: u64) -> io::Result<()> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if from.metadata()?.len() != stretch.segment_size {
        return Err(invalid("it has not the size of a segment"));
    }
    let copy = copy_file(from, to, stretch.segment_size)?;
    // Of the copy, which nobody changes.
    if copy.metadata()?.len() != stretch.segment_size {
        return Err(invalid("it has not the size of a segment"));
    }
    let mut bytes = [0; HEADER_BYTES];
    copy.read_exact_at(&mut bytes, 0)?;
    let header = Header::read(&bytes).ok_or_else(|| invalid("it does not begin as a segment does"))?;
    if header.system != stretch.system || header.segment_size != stretch.segment_size {
        return Err(invalid("it is of another server"));
    }
    if header.position != number * stretch.segment_size || header.timeline > stretch.timeline {
        return Err(invalid("it is another segment than its name says"));
    }
    copy.sync_all()
}

/// Makes a file of ours with the first bytes of another one, sharing its blocks where that is possible.
pub(crate) fn copy_file(from: &File, to: &Path, most: u64) -> io::Result<File> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copy =
        fs::OpenOptions::new().read(true).write(true).create_new(true).mode(files::FILE).open(to)?;
    if rustix::fs::ioctl_ficlone(&copy, from).is_err() {
        io::copy(&mut from.take(most), &mut copy)?;
        copy.flush()?;
    }
    Ok(copy)
}

/// Keeps the files by which recovery finds its way from one timeline to the next.
fn keep_timelines<'a>(
    place: &Place<'_>,
    source: &str,
    wal: &Path,
    noted: impl Iterator<Item = &'a str>,
) -> Result<(), EngineError> {
    for name in noted.filter(|name| parse_history_name(name).is_some()) {
        let to = wal.join(name);
        if to.exists() {
            continue;
        }
        let Ok(from) = files::open_below(&standbys(place.store), &log_of(source).join(name)) else {
            continue;
        };
        let mut text = Vec::new();
        let read = from.take(HISTORY_FILE_MAX).read_to_end(&mut text);
        read.and_then(|_| files::replace(&to, &text)).map_err(|error| io_error("keep", &to, &error))?;
    }
    Ok(())
}

/// Lets the standby remove what is of before the stretch: it is not needed, and would hold up what is.
fn pass<'a>(stretch: &Stretch, wal: &Path, ready: impl Iterator<Item = &'a str>) -> Result<(), EngineError> {
    let passed = passed_path(wal);
    for name in ready {
        // What is not a name of ours is passed by no name of its own.
        let plain =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') && !name.starts_with('.');
        let is_needed = match parse_segment_name(name, stretch.segment_size) {
            Some((timeline, number)) => {
                timeline > stretch.timeline || (timeline == stretch.timeline && number >= stretch.next())
            }
            None => parse_history_name(name).is_some(),
        };
        if !plain || is_needed || wal.join(name).exists() {
            continue;
        }
        let to = passed.join(name);
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(files::FILE)
            .open(&to)
            .map_err(|error| io_error("make", &to, &error))?;
    }
    Ok(())
}

/// Ends the stretch that goes on, and keeps what its standby has of it, whether that is complete or not. Blocks.
pub(crate) fn end_open(place: &Place<'_>, source: &str, why: &str) -> Result<(), EngineError> {
    let mut ledger = Ledger::load(place.home, source)?;
    if ledger.open().is_none() {
        return Ok(());
    }
    end(place, source, &mut ledger, why)?;
    ledger.save(place.home, source)
}

fn end(place: &Place<'_>, source: &str, ledger: &mut Ledger, why: &str) -> Result<(), EngineError> {
    let Some(open) = ledger.open_mut() else { return Ok(()) };
    let wal = wal_path(place.store, source, open.number);
    // What it holds is known by what can be read of it.
    loop {
        match keep_segment(place, source, open, &wal) {
            Ok(true) => {
                let reach = open.reach;
                note_segment(open, reach.as_slice());
            }
            Ok(false) => break,
            Err(error)
                if [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof].contains(&error.kind()) =>
            {
                break
            }
            Err(error) => return Err(io_error("keep a segment in", &wal, &error)),
        }
    }
    let name = history_name(open.timeline);
    keep_timelines(place, source, &wal, std::iter::once(name.as_str()))?;
    file::sync_folder(&wal).map_err(|error| io_error("flush", &wal, &error))?;
    open.ended = Some(why.to_owned());
    Ok(())
}
