//! Merging event logs.
//!
//! An event follows from all before it, so those that both sides appended cannot stand in one log as they are. What is new of
//! a side is what is not in the base; where the sides go apart is found by the hashes, because a merge that was decided
//! leaves the target with other events than its base has.

use super::rules::Versions;
use super::{resolution, Conflict, MergeOptions, Plan, RawWrite, Resolution, Trees};
use crate::access::{Access, View};
use crate::error::StoreError;
use crate::event::{self, Event, Keys, Start};
use crate::keys::Primitive;
use crate::snapshot::Snapshot;

/// A log of one of the three sides.
struct Log {
    start: u64,
    next: u64,
}

impl Log {
    fn of(view: &dyn View, space: &str) -> Result<Self, StoreError> {
        Ok(Self { start: Start::find(view, &Keys::new(space))?.seq, next: event::length(view, space)? })
    }
}

/// The number of the first event that two logs do not have alike. If they begin behind each other, they have none.
fn alike(space: &str, a: &Snapshot, b: &Snapshot) -> Result<u64, StoreError> {
    let [one, other] = [a, b].map(|side| side.peek(|view| Log::of(view, space)));
    let (one, other) = (one?, other?);
    let (mut low, mut high) = (one.start.max(other.start), one.next.min(other.next));
    if low > high {
        return Ok(high);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        let [one, other] = [a, b].map(|side| side.peek(|view| event::hash_at(view, space, middle)));
        // An event is the same only if all before it are.
        match one? == other? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    Ok(low)
}

/// Merges the log of a space, of which the source has changed `changes` of the base.
pub(super) fn merge(
    trees: &Trees,
    space: &str,
    mut changes: Vec<RawWrite>,
    options: &mut MergeOptions<'_>,
    plan: &mut Plan,
) -> Result<(), StoreError> {
    let [base, ours, theirs] =
        [&trees.base, &trees.ours, &trees.theirs].map(|side| side.peek(|view| Log::of(view, space)));
    let (base, ours, theirs) = (base?, ours?, theirs?);
    let (we_keep, they_keep) =
        (alike(space, &trees.base, &trees.ours)?, alike(space, &trees.base, &trees.theirs)?);
    let is_unchanged = |side: &Log, kept: u64| kept == base.next && side.next == base.next;
    if is_unchanged(&ours, we_keep) && they_keep < base.next {
        return take_theirs(trees, space, (&ours, &theirs, they_keep), plan);
    }
    if is_unchanged(&ours, we_keep) {
        // Where the target has trimmed more, it is not undone.
        let start = Keys::new(space).start();
        changes.retain(|(key, _)| theirs.start > ours.start || key[..] != start[..]);
        changes.into_iter().for_each(|(key, value)| plan.write(key, value));
        return Ok(());
    }
    // Of what both have, the target keeps no more than the source.
    let parted = we_keep.min(they_keep);
    let trim = (space.to_owned(), theirs.start.min(parted));
    if is_unchanged(&theirs, they_keep) {
        plan.trims.push(trim);
        return Ok(());
    }
    let events = |side: &Snapshot, from: u64| side.peek(|view| event::entries_from(view, space, from));
    let (our_events, their_events) = (events(&trees.ours, parted)?, events(&trees.theirs, parted)?);
    if options.resequence_events {
        // What the base has of theirs was merged before.
        let new: Vec<Event> = their_events.into_iter().filter(|event| event.seq >= they_keep).collect();
        plan.report.events_resequenced += new.len() as u64;
        plan.trims.push(trim);
        plan.events.extend(new.into_iter().map(|event| (space.to_owned(), event)));
        return Ok(());
    }
    let payloads = |events: &[Event]| -> Result<_, StoreError> {
        let values = events.iter().map(|event| event.payload.to_value());
        Ok(Some(values.collect::<Result<_, _>>()?))
    };
    let mut conflict = Conflict {
        primitive: Primitive::Event,
        space: space.to_owned(),
        key: parted.to_string(),
        base: None,
        ours: payloads(&our_events)?,
        theirs: payloads(&their_events)?,
        paths: Vec::new(),
        resolved: true,
    };
    // Of logs as a whole: which was appended to last.
    let last = |events: &[Event]| events.last().and_then(|event| u64::try_from(event.at_ms).ok());
    let versions = Versions { ours: last(&our_events), theirs: last(&their_events) };
    let is_shortened = ours.next == we_keep && we_keep < base.next;
    match resolution(&conflict, (&[], versions), options)? {
        Resolution::Ours => plan.trims.push(trim),
        Resolution::Theirs if is_shortened => {
            let reason = "the target took events back that the source's follow on; keep ours, or re-sequence"
                .to_owned();
            return Err(StoreError::InvalidInput { what: "a resolution", reason });
        }
        Resolution::Theirs => take_theirs(trees, space, (&ours, &theirs, parted), plan)?,
        Resolution::Delete | Resolution::Value(_) => {
            let reason = "an event log can become ours or theirs, or be re-sequenced".to_owned();
            return Err(StoreError::InvalidInput { what: "a resolution", reason });
        }
        Resolution::Unresolved => conflict.resolved = false,
    }
    plan.report.conflicts.push(conflict);
    Ok(())
}

/// Gives the target the source's events from where they parted, and of those before no more than both have. Where they have
/// none in common, it gets the whole log.
fn take_theirs(
    trees: &Trees,
    space: &str,
    (ours, theirs, parted): (&Log, &Log, u64),
    plan: &mut Plan,
) -> Result<(), StoreError> {
    let latest = theirs.start.max(ours.start);
    let (start, from) = if parted > latest { (latest, parted) } else { (theirs.start, theirs.start) };
    let gone = trees.ours.peek(|view| event::entries_from(view, space, 0))?;
    for event in gone.iter().filter(|event| event.seq < start || event.seq >= from) {
        for key in event::keys_of(space, event) {
            plan.write(key.to_vec(), None);
        }
    }
    let come = trees.theirs.peek(|view| event::rows_from(view, space, from))?;
    come.into_iter().for_each(|(key, value)| plan.write(key, Some(value)));
    if start == 0 && ours.start > 0 {
        plan.write(Keys::new(space).start().to_vec(), None);
    }
    if start > 0 {
        let row = trees.theirs.peek(|view| event::start_row(view, space, start))?;
        plan.write(Keys::new(space).start().to_vec(), Some(row));
    }
    Ok(())
}
