//! How much is kept, and what goes (H7, H8).

use super::{
    base_path, histories, history_path,
    ledger::{Ledger, Stretch},
    stretch_path, wal_path,
};
use crate::{
    error::{EngineError, Kind},
    files::io_error,
    home::Home,
    source::{
        manifest,
        manifest::SourceRecord,
        standby::Place,
        wal::{parse_history_name, parse_segment_name},
    },
};
use duramen_postgres::volume;
use jiff::SignedDuration;
use std::{collections::BTreeSet, fs, io, path::Path};

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// Seconds, back from the newest moment.
    pub(crate) seconds: u32,
    /// Bytes of the log.
    pub(crate) bytes: u64,
    /// Whether there is so little room that the earliest base goes, whatever else.
    pub(crate) is_short: bool,
}

/// Lets go of what the rule does not keep; of lack of room of one base, since the file system frees its room later. Returns how many bases
/// went for lack of room. Blocks.
pub(crate) fn retain(
    place: &Place<'_>,
    source: &str,
    ledger: &mut Ledger,
    rule: Rule,
) -> Result<u32, EngineError> {
    let mut for_room = 0;
    loop {
        let Some(first) = ledger.stretches.first() else { return Ok(for_room) };
        // The last base of the stretch that goes on is needed for what comes.
        let can_go = first.bases.len() > 1 || first.ended.is_some();
        let is_over = can_go && (is_old(ledger, first, rule.seconds) || ledger.bytes() > rule.bytes);
        if !is_over && (!rule.is_short || for_room > 0) {
            return Ok(for_room);
        }
        for_room += u32::from(!is_over);
        let mut earlier = ledger.stretches[0].clone();
        if earlier.bases.len() > 1 {
            let stretch = &mut ledger.stretches[0];
            earlier.bases.truncate(1);
            stretch.bases.remove(0);
            let from = stretch.bases[0].segment;
            let gone =
                usize::try_from(from - stretch.first).unwrap_or(usize::MAX).min(stretch.segments.len());
            stretch.segments.drain(..gone);
            stretch.first = from;
            ledger.save(place.home, source)?;
            delete_base(place.store, source, earlier.number, earlier.bases[0].number)?;
            let wal = wal_path(place.store, source, earlier.number);
            for number in earlier.first..from {
                // Of what stays the next opening makes an end.
                let _ = fs::remove_file(wal.join(earlier.name_of(number)));
            }
        } else {
            ledger.stretches.remove(0);
            ledger.save(place.home, source)?;
            discard(place.store, &stretch_path(place.store, source, earlier.number))?;
        }
    }
}

/// Whether all that only the earliest base of a stretch makes possible is older than what is kept.
fn is_old(ledger: &Ledger, first: &Stretch, seconds: u32) -> bool {
    let Some(newest) = ledger.until() else { return false };
    let Ok(oldest) = newest.at.checked_sub(SignedDuration::from_secs(seconds.into())) else { return false };
    match first.bases.get(1) {
        Some(next) => next.mark.is_some_and(|mark| mark.at <= oldest),
        None => first.reach.is_none_or(|reach| reach.at < oldest),
    }
}

fn delete_base(store: &volume::Store, source: &str, stretch: u32, base: u32) -> Result<(), EngineError> {
    let deleted = store.volumes.delete(&base_path(store, source, stretch, base));
    deleted.map_err(|error| EngineError::new(Kind::Failed, "history_left", error.to_string()))
}

/// Removes a directory with the volumes in it.
pub(super) fn discard(store: &volume::Store, dir: &Path) -> Result<(), EngineError> {
    let fail = |error: io::Error| io_error("remove", dir, &error);
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(fail)?,
    };
    for entry in entries {
        let entry = entry.map_err(fail)?;
        if entry.file_name().to_string_lossy().starts_with("base-") {
            let deleted = store.volumes.delete(&entry.path());
            deleted.map_err(|error| EngineError::new(Kind::Failed, "history_left", error.to_string()))?;
        }
    }
    fs::remove_dir_all(dir).map_err(fail)
}

/// Removes all that is kept of a source. Blocks.
pub(crate) fn remove(home: &Home, store: &volume::Store, source: &str) -> Result<(), EngineError> {
    Ledger::forget(home, source)
        .map_err(|error| io_error("remove the history of", Path::new(source), &error))?;
    let dir = history_path(store, source);
    for name in names(&dir) {
        discard(store, &dir.join(name))?;
    }
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &dir, &error)),
        _ => Ok(()),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Removes what an earlier process left half-made or half-removed, and what belongs to sources that keep no history.
pub(crate) fn sweep(home: &Home, store: &volume::Store, sources: &[SourceRecord]) -> Result<(), EngineError> {
    for source in names(&histories(store)) {
        let is_known = manifest::dir(home, &source).join("source.json").exists();
        let record = sources.iter().find(|record| record.name == source);
        let is_kept = record
            .is_some_and(|it| it.settings.follow.enabled && it.settings.follow.keep_history_s.is_some());
        if !is_known || (record.is_some() && !is_kept) {
            remove(home, store, &source)?;
        } else if is_kept {
            // One that cannot be read keeps what it has until somebody fixes it.
            match Ledger::load(home, &source) {
                Ok(ledger) => tidy(home, store, &source, ledger)?,
                Err(error) => tracing::error!(source, "{error}"),
            }
        }
    }
    Ok(())
}

/// Removes what the ledger does not name, and takes out of it what is not there.
fn tidy(home: &Home, store: &volume::Store, source: &str, mut ledger: Ledger) -> Result<(), EngineError> {
    let before = ledger.clone();
    for stretch in &mut ledger.stretches {
        let wal = wal_path(store, source, stretch.number);
        let number = stretch.number;
        stretch
            .bases
            .retain(|base| base_path(store, source, number, base.number).join("PG_VERSION").exists());
        let there =
            (stretch.first..stretch.next()).take_while(|it| wal.join(stretch.name_of(*it)).exists()).count();
        if there < stretch.segments.len() {
            tracing::error!(
                source,
                stretch = number,
                "a part of the history is missing: what is after it goes too"
            );
            stretch.segments.truncate(there);
            stretch.reach = stretch.segments.last().copied().flatten();
            stretch.ended = Some("a part of it is missing".to_owned());
        }
    }
    ledger.stretches.retain(|stretch| !stretch.bases.is_empty());
    if ledger != before {
        ledger.save(home, source)?;
    }
    let dir = history_path(store, source);
    let kept: BTreeSet<String> = ledger.stretches.iter().map(|it| format!("{:06}", it.number)).collect();
    for name in names(&dir).into_iter().filter(|name| !kept.contains(name)) {
        discard(store, &dir.join(name))?;
    }
    for stretch in &ledger.stretches {
        let dir = stretch_path(store, source, stretch.number);
        let bases: BTreeSet<String> =
            stretch.bases.iter().map(|it| format!("base-{:06}", it.number)).collect();
        for name in names(&dir).into_iter().filter(|name| name.starts_with("base-") && !bases.contains(name))
        {
            let deleted = store.volumes.delete(&dir.join(name));
            deleted.map_err(|error| EngineError::new(Kind::Failed, "history_left", error.to_string()))?;
        }
        let wal = wal_path(store, source, stretch.number);
        let is_kept = |name: &str| {
            let segment = parse_segment_name(name, stretch.segment_size);
            segment.is_some_and(|(timeline, number)| {
                timeline == stretch.timeline && (stretch.first..stretch.next()).contains(&number)
            }) || parse_history_name(name).is_some()
        };
        for name in names(&wal).into_iter().filter(|name| !is_kept(name)) {
            let _ = fs::remove_file(wal.join(name));
        }
    }
    Ok(())
}
