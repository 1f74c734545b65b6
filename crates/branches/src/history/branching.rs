//! A branch of a moment of the past.

use crate::{
    engine::Engine,
    error::{EngineError, HistoryError},
    interrupt::Interrupt,
    model::{BranchView, CreateBranch},
    registry::{Given, Wanted},
    source::{
        history::{Ledger, Mark, Stretch, Target},
        manifest::SourceRecord,
        wal::Position,
    },
};
use duramen_base::clock;
use std::{
    sync::{atomic::Ordering, Arc},
    time::Duration,
};

/// How long a create waits until the standby has what the origin wrote just now.
const REACH_LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked whether it has.
const POLL: Duration = Duration::from_millis(100);
/// How many stretches a refusal names.
const TOLD_MAX: usize = 5;

/// What moment a create asks for.
pub(crate) fn target(request: &CreateBranch) -> Result<Option<Target>, EngineError> {
    match (request.at, request.lsn.as_deref()) {
        (Some(_), Some(_)) => Err(HistoryError::TwoMoments.into()),
        (Some(at), None) => Ok(Some(Target::Time(at))),
        (None, Some(text)) => match text.parse() {
            Ok(position) => Ok(Some(Target::Position(position))),
            Err(()) => Err(HistoryError::NotAPosition { text: text.to_owned() }.into()),
        },
        (None, None) => Ok(None),
    }
}

pub(super) fn words(target: Target) -> String {
    match target {
        Target::Time(at) => at.to_string(),
        Target::Position(position) => position.to_string(),
    }
}

impl Engine {
    /// Leases a branch of a moment. Its generation is made if no branch of that moment is there; it waits for imports then, as they do for
    /// it.
    pub(crate) async fn lease_of_moment(
        self: &Arc<Self>,
        target: Target,
        wanted: Wanted,
    ) -> Result<BranchView, EngineError> {
        let engine = Arc::clone(self);
        // In a task of its own, which leaves nothing half-made when the caller goes away.
        self.in_turn(|interrupt| async move {
            let _one = engine.turn(&interrupt).await?;
            engine.branch_of_moment(target, &wanted, &interrupt).await
        })
        .await
    }

    async fn branch_of_moment(
        self: &Arc<Self>,
        target: Target,
        wanted: &Wanted,
        interrupt: &Interrupt,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let record = shared.registry.picked_source(wanted.source.as_deref())?;
        let follow = &record.settings.follow;
        if !follow.enabled || follow.keep_history_s.is_none() {
            return Err(HistoryError::NotKept { source_name: record.name }.into());
        }
        let ledger = self.reach(&record, target, interrupt).await?;
        let Some(chosen) = ledger.choose(target) else {
            let (source_name, wanted, possible) = (record.name.clone(), words(target), possible(&ledger));
            return Err(HistoryError::OutOfReach { source_name, wanted, possible }.into());
        };
        // H6: from here on it is not removed, whether it is there yet or not.
        let find = || self.number_of_moment(&record, target, &chosen);
        let (held, is_there) = shared.hold_found(&record.name, find);
        let number = held.number;
        if let Some(view) = shared.registry.existing_of_generation(wanted, &record.name, number)? {
            return Ok(view);
        }
        if !is_there {
            self.make_moment(&record, number, target, chosen, &ledger, interrupt).await?;
        }
        let branch = self.cold(&record, &held, wanted).await?;
        if let Err(gone) = interrupt.check() {
            shared.registry.discard(branch);
            shared.wake.wake();
            return Err(gone);
        }
        let is_closing = shared.closing.load(Ordering::Acquire);
        let given = shared.registry.lease_of_generation(&branch, wanted, is_closing);
        shared.wake.wake();
        match given? {
            Given::Leased(record) => self.announce(record),
            Given::Existing(view) => Ok(view),
        }
    }

    /// What is kept of a source, once a moment of just now is in reach; what is known of it if that does not come about.
    async fn reach(
        &self,
        record: &SourceRecord,
        target: Target,
        interrupt: &Interrupt,
    ) -> Result<Ledger, EngineError> {
        let (begin, follow) = (clock::now(), &record.settings.follow);
        let mut ledger = self.kept_by_now(record, None)?;
        let is_later = |ledger: &Ledger| ledger.until().is_none_or(|until| is_later_than(target, until));
        while is_later(&ledger) && ledger.open().is_some() {
            interrupt.check()?;
            if begin.elapsed() > REACH_LIMIT {
                return Ok(ledger);
            }
            // An origin that is down has no more to tell than is known.
            let Ok(Some(seen)) = self.ask_follower(record).await else { return Ok(ledger) };
            let (source_name, wanted) = (record.name.clone(), words(target));
            match target {
                _ if follow.archive.is_some() && is_later_than(target, seen.mark) => {
                    let archived = format!("{} ({})", Position(seen.mark.position), seen.mark.at);
                    return Err(HistoryError::NotArchived { source_name, wanted, archived }.into());
                }
                Target::Time(at) if at > seen.mark.at => {
                    return Err(HistoryError::TimeToCome { source_name, wanted, now: seen.mark.at }.into())
                }
                Target::Position(position) if position.0 > seen.mark.position => {
                    let written = Position(seen.mark.position).to_string();
                    return Err(HistoryError::PositionToCome { source_name, wanted, written }.into());
                }
                _ => {}
            }
            ledger = self.kept_by_now(record, Some(&seen))?;
            if is_later(&ledger) {
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(ledger)
    }
}

fn is_later_than(target: Target, mark: Mark) -> bool {
    match target {
        Target::Time(at) => at > mark.at,
        Target::Position(position) => position.0 > mark.position,
    }
}

/// Of which moments branches can be made, in words.
fn possible(ledger: &Ledger) -> String {
    let told = |stretch: &Stretch| {
        let (from, until) = stretch.ends()?;
        let positions = (Position(from.position), Position(until.position));
        Some(format!("{} to {} ({} to {})", from.at, until.at, positions.0, positions.1))
    };
    let stretches: Vec<String> = ledger.stretches.iter().rev().filter_map(told).take(TOLD_MAX).collect();
    match stretches.as_slice() {
        [] => "is no moment yet; history begins with the next look at the origin".to_owned(),
        all => format!("is what was from {}", all.join(", or from ")),
    }
}
