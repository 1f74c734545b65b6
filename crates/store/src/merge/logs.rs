//! Merging event logs.
//!
//! An event follows from all before it, so those that both sides appended cannot stand in one log as they are. How far two
//! logs are the same is told by the hashes: an event with the same hash has the same events before it. Numbers alone do not
//! tell, because a merge that was decided leaves the target with other events than its base has. Where both are trimmed so far
//! that nothing can be compared, nothing is taken to be the same.

use super::rules::Versions;
use super::{resolution, Conflict, MergeOptions, Plan, RawWrite, Resolution, Strategy, Trees};
use crate::access::Access;
use crate::error::StoreError;
use crate::event::{self, Event, Keys, Start};
use crate::keys::Primitive;
use crate::snapshot::Snapshot;

/// The log of a space on one of the three sides.
struct Log<'t> {
    tree: &'t Snapshot,
    space: &'t str,
    start: Start,
    next: u64,
}

impl<'t> Log<'t> {
    fn of(tree: &'t Snapshot, space: &'t str) -> Result<Self, StoreError> {
        let start = tree.peek(|view| Start::find(view, &Keys::new(space)))?;
        Ok(Self { tree, space, start, next: tree.peek(|view| event::length(view, space))? })
    }

    fn hash(&self, seq: u64) -> Result<Option<[u8; 32]>, StoreError> {
        self.tree.peek(|view| event::hash_at(view, self.space, seq))
    }

    /// The hash that an event of a number follows from.
    fn before(&self, seq: u64) -> Result<Option<[u8; 32]>, StoreError> {
        if seq == self.start.seq {
            return Ok(Some(self.start.before));
        }
        self.hash(seq - 1)
    }

    /// The number of the first event that two logs do not have alike; none if they went apart before what is there of both.
    fn common(&self, other: &Self) -> Result<Option<u64>, StoreError> {
        let (mut low, mut high) = (self.start.seq.max(other.start.seq), self.next.min(other.next));
        if low > high || self.before(low)? != other.before(low)? {
            return Ok(None);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.hash(middle)? == other.hash(middle)? {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(Some(low))
    }

    /// Whether it has the events of another, and no others, but for what one of the two trimmed.
    fn is_same(&self, other: &Self, common: Option<u64>) -> bool {
        common == Some(other.next) && self.next == other.next
    }
}

/// What is known of the three logs.
struct Logs<'t> {
    base: Log<'t>,
    ours: Log<'t>,
    theirs: Log<'t>,
    /// Up to where base and ours, base and theirs, ours and theirs are the same.
    we_keep: Option<u64>,
    they_keep: Option<u64>,
    shared: Option<u64>,
}

/// Merges the log of a space, of which the source has changed `changes` of the base.
pub(super) fn merge(
    trees: &Trees,
    space: &str,
    changes: Vec<RawWrite>,
    options: &mut MergeOptions<'_>,
    plan: &mut Plan,
) -> Result<(), StoreError> {
    let of = |tree| Log::of(tree, space);
    let (base, ours, theirs) = (of(&trees.base)?, of(&trees.ours)?, of(&trees.theirs)?);
    let (we_keep, they_keep) = (base.common(&ours)?, base.common(&theirs)?);
    let shared = ours.common(&theirs)?;
    let logs = Logs { base, ours, theirs, we_keep, they_keep, shared };
    let Logs { base, ours, theirs, .. } = &logs;
    if ours.is_same(base, we_keep) && ours.start == base.start {
        // The target has not touched it.
        changes.into_iter().for_each(|(key, value)| plan.write(key, value));
        return Ok(());
    }
    if theirs.is_same(base, they_keep) || (shared == Some(theirs.next) && theirs.next >= base.next) {
        // There is nothing new of the source.
        logs.trim(plan);
        return Ok(());
    }
    if shared == Some(ours.next) && ours.next >= base.next {
        // All that the target has, the source has too.
        logs.trim(plan);
        let come = theirs.tree.peek(|view| event::rows_from(view, space, ours.next))?;
        come.into_iter().for_each(|(key, value)| plan.write(key, Some(value)));
        return Ok(());
    }
    if options.resequence_events {
        // What the base has of theirs was merged before.
        let new = they_keep.unwrap_or(theirs.start.seq).max(shared.unwrap_or(0));
        let new = theirs.tree.peek(|view| event::entries_from(view, space, new))?;
        logs.trim(plan);
        plan.report.events_resequenced += new.len() as u64;
        plan.events.extend(new.into_iter().map(|event| (space.to_owned(), event)));
        return Ok(());
    }
    logs.decide(options, plan)
}

impl Logs<'_> {
    /// Has the target trimmed as far as the source has trimmed since the base, if it is known that it is the same events.
    fn trim(&self, plan: &mut Plan) {
        let (ours, theirs) = (&self.ours, &self.theirs);
        let end = theirs.start.seq.min(ours.next.saturating_sub(1));
        if self.shared.is_some() && theirs.start.seq > self.base.start.seq && end > ours.start.seq {
            // Each has a place in the index of its type.
            plan.report.deleted += 2 * (end - ours.start.seq);
            plan.trims.push((ours.space.to_owned(), end));
        }
    }

    /// Both sides have events that the other has not.
    fn decide(&self, options: &mut MergeOptions<'_>, plan: &mut Plan) -> Result<(), StoreError> {
        let (base, ours, theirs) = (&self.base, &self.ours, &self.theirs);
        let space = ours.space;
        let parted = self.shared.or(self.we_keep.min(self.they_keep)).unwrap_or(0);
        let events = |of: &Log<'_>| of.tree.peek(|view| event::entries_from(view, space, parted));
        let (our_events, their_events) = (events(ours)?, events(theirs)?);
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
            kept: false,
            reason: None,
        };
        // Of logs as a whole: which was appended to last.
        let last = |events: &[Event]| events.last().and_then(|event| u64::try_from(event.at_ms).ok());
        let versions = Versions { ours: last(&our_events), theirs: last(&their_events) };
        let is_shortened = self.we_keep == Some(ours.next)
            && ours.next < base.next
            && self.they_keep.is_some_and(|kept| kept > ours.next);
        match resolution(&conflict, (&[], versions), options)? {
            Resolution::Ours => self.trim(plan),
            Resolution::Theirs if is_shortened => {
                let reason =
                    "the target took events back that the source's follow on; keep ours, or re-sequence"
                        .to_owned();
                return Err(StoreError::InvalidInput { what: "a resolution", reason });
            }
            Resolution::Theirs => self.take_theirs(plan)?,
            Resolution::Delete | Resolution::Value(_) => {
                let reason = "an event log can become ours or theirs, or be re-sequenced".to_owned();
                return Err(StoreError::InvalidInput { what: "a resolution", reason });
            }
            Resolution::Unresolved => {
                conflict.resolved = false;
                conflict.reason =
                    Primitive::Event.why_not_kept().filter(|_| options.strategy == Strategy::Keep);
            }
        }
        plan.report.conflicts.push(conflict);
        Ok(())
    }

    /// Gives the target the source's events. What the target has trimmed of those that both had does not come back.
    fn take_theirs(&self, plan: &mut Plan) -> Result<(), StoreError> {
        let (ours, theirs, space) = (&self.ours, &self.theirs, self.ours.space);
        // Where the log begins, and from where on the source's events are written.
        let (start, from) = match self.shared {
            Some(shared) if theirs.start.seq > self.base.start.seq => {
                (ours.start.seq.max(theirs.start.seq), shared)
            }
            Some(shared) => (ours.start.seq, shared),
            None => {
                let trimmed = ours.start.seq.min(self.they_keep.unwrap_or(0));
                let start = theirs.start.seq.max(trimmed.min(theirs.next.saturating_sub(1)));
                (start, start)
            }
        };
        let gone =
            |from: u64, to: Option<u64>| ours.tree.peek(|view| event::keys_between(view, space, from, to));
        let gone = [gone(ours.start.seq, Some(start.min(from)))?, gone(from.max(ours.start.seq), None)?];
        for key in gone.into_iter().flatten() {
            plan.write(key, None);
        }
        let come = theirs.tree.peek(|view| event::rows_from(view, space, from))?;
        come.into_iter().for_each(|(key, value)| plan.write(key, Some(value)));
        let key = Keys::new(space).start().to_vec();
        if start == 0 && ours.start.seq > 0 {
            plan.write(key, None);
        } else if start > 0 && (start != ours.start.seq || self.shared.is_none()) {
            let row = theirs.tree.peek(|view| event::start_row(view, space, start))?;
            plan.write(key, Some(row));
        }
        Ok(())
    }
}
