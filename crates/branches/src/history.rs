//! The past of sources that follow their origin: it is kept while they are looked after, and branches are made of moments of it. The invariants
//! H1 to H8 are in docs/design/history.md.

pub(crate) mod branching;
mod making;

use crate::{
    engine::Engine,
    error::{EngineError, Kind},
    model::{FollowSettings, HistoryView},
    shared::Shared,
    source::{
        cage, follow,
        history::{self, Ledger, Rule, Stretch},
        manifest::SourceRecord,
        origin_wal::Seen,
        standby::Place,
    },
};
use serde_json::json;

/// How often it is written down how far history reaches while the origin writes nothing, in seconds.
const NOTE_EVERY_S: i64 = 30;

/// How many seconds a standby may stay behind its origin without receiving anything before the source reports it.
const SILENCE_S: i64 = 60;

/// Whether a history reaches further than was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    No,
    /// The origin wrote nothing since.
    Idle,
    Further,
}

impl Shared {
    /// The stretches of a source, as far as they reach by now.
    pub(crate) fn stretches(&self, source: &str) -> Result<Vec<Stretch>, EngineError> {
        let mut ledger = Ledger::load(&self.environment.home, source)?;
        self.bring_up(source, &mut ledger);
        Ok(ledger.stretches)
    }

    /// Lets a ledger reach as far as is known by now.
    fn bring_up(&self, source: &str, ledger: &mut Ledger) -> Later {
        let reached = self.followers.reached(source);
        let Some(open) = ledger.open_mut() else { return Later::No };
        let Some(later) = reached.filter(|mark| open.reach.is_none_or(|reach| mark.at > reach.at)) else {
            return Later::No;
        };
        let is_further = open.reach.is_none_or(|reach| later.position > reach.position);
        open.reach = Some(later);
        if is_further {
            Later::Further
        } else {
            Later::Idle
        }
    }

    /// Writes down how far the history of every source reaches.
    pub(crate) fn note_histories(&self) {
        let home = &self.environment.home;
        for record in self.registry.sources().iter().filter(|it| it.settings.follow.keep_history_s.is_some())
        {
            let noted = Ledger::load(home, &record.name).and_then(|mut ledger| {
                match self.bring_up(&record.name, &mut ledger) {
                    Later::No => Ok(()),
                    Later::Further | Later::Idle => ledger.save(home, &record.name),
                }
            });
            if let Err(error) = noted {
                tracing::warn!(source = record.name, %error, "how far history reaches was not written down");
            }
        }
    }

    pub(crate) fn history_view(&self, source: &str, settings: &FollowSettings) -> Option<HistoryView> {
        settings.keep_history_s?;
        let problem = self.followers.history_problem(source);
        Some(match self.stretches(source) {
            Ok(stretches) => HistoryView {
                from: stretches.iter().find_map(Stretch::ends).map(|(from, _)| from.at),
                until: stretches.iter().rev().find_map(Stretch::ends).map(|(_, until)| until.at),
                bytes: stretches.iter().map(Stretch::bytes).sum(),
                problem,
            },
            Err(error) => HistoryView { from: None, until: None, bytes: 0, problem: Some(error.message) },
        })
    }
}

impl Engine {
    /// Keeps what is new of the past of a followed source, and lets go of what is over; `seen` is what its origin told just now, if it did.
    pub(crate) async fn look_after_history(&self, record: &SourceRecord, seen: Option<Seen>) {
        let (shared, name) = (&self.shared, record.name.as_str());
        if record.settings.follow.keep_history_s.is_none() {
            let home = &shared.environment.home;
            if Ledger::exists(home, name) {
                let removed =
                    tokio::task::block_in_place(|| history::remove(home, &shared.environment.store, name));
                if let Err(error) = removed {
                    tracing::warn!(source = name, %error, "history that is kept no more is left");
                }
            }
            return;
        }
        let kept = self.keep_history(record, seen).await;
        if let Err(error) = &kept {
            tracing::warn!(source = name, %error, "history is not kept");
        }
        shared.followers.note_history(name, kept.err().map(|error| error.message));
    }

    async fn keep_history(&self, record: &SourceRecord, seen: Option<Seen>) -> Result<(), EngineError> {
        let (shared, name, settings) = (&self.shared, record.name.as_str(), &record.settings.follow);
        let store = &shared.environment.store;
        let (user, _held) = shared.user_of(name)?;
        let place = shared.place(&user, cage::find()?);
        // What is kept lies in the store already, but for what the standby removes later.
        let mut ledger = tokio::task::block_in_place(|| self.keep_now(&place, name, seen.as_ref()))?;
        let is_short = shared.is_short_of_room() && !store.volumes.reclaiming(&store.root);
        let rule = Rule {
            seconds: settings.keep_history_s.unwrap_or(u32::MAX),
            bytes: settings.history_bytes(),
            is_short,
        };
        let went = tokio::task::block_in_place(|| history::retain(&place, name, &mut ledger, rule))?;
        if went > 0 {
            tracing::warn!(source = name, "little room: the earliest part of the history is removed");
            shared.audit(
                "history_dropped",
                json!({ "source": name, "reason": "the volume store has little room" }),
            )?;
            store.volumes.reclaim(&store.root);
        }
        if let (Some(Seen { flushed: None, mark, .. }), Some(reached)) =
            (seen, shared.followers.reached(name))
        {
            let since = mark.at.duration_since(reached.at).as_secs();
            if since > SILENCE_S && mark.position > reached.position {
                let message = format!(
                    "the standby has received nothing for {since} s: history ends there unless the origin still has what follows; \
                     `duramen source refresh {name}` goes on, or begins another stretch"
                );
                return Err(EngineError::new(Kind::Unavailable, "history_failed", message));
            }
        }
        // A base is made of a standby that runs, so that what follows is received.
        let Some(seen) = seen.filter(|seen| seen.flushed.is_some() && !shared.is_short_of_room()) else {
            return Ok(());
        };
        let is_due = match ledger.open() {
            None => true,
            Some(open) => {
                open.timeline != seen.timeline || history::is_base_due(open, settings.history_bytes())
            }
        };
        if is_due {
            follow::take_base(&place, &shared.followers, record, seen.timeline).await?;
        }
        Ok(())
    }

    /// Keeps what the standby of a source has received, and returns the ledger as it is then. Blocks.
    fn keep_now(&self, place: &Place<'_>, name: &str, seen: Option<&Seen>) -> Result<Ledger, EngineError> {
        let shared = &self.shared;
        let mut ledger = Ledger::load(place.home, name)?;
        if ledger.open().is_none() {
            return Ok(ledger);
        }
        if let (Some(open), Some(seen)) = (ledger.open(), seen) {
            if open.timeline != seen.timeline {
                let why = format!("the origin went on in timeline {}", seen.timeline);
                history::end_open(place, name, &why)?;
                return Ledger::load(place.home, name);
            }
        }
        let later = shared.bring_up(name, &mut ledger);
        let mut is_begun = false;
        if let (Some(open), Some(seen)) = (ledger.open_mut(), seen) {
            // What the origin tells now is later than every base that is there.
            for base in open.bases.iter_mut().filter(|base| base.mark.is_none()) {
                base.mark = Some(seen.mark);
                is_begun = true;
            }
        }
        // Of what an archive brought its server notes nothing.
        let whole_to = shared.followers.whole_to(name);
        let is_kept =
            history::keep(place, name, &mut ledger, &shared.followers.reached_marks(name), whole_to)?;
        let is_noted = match later {
            Later::No => false,
            Later::Further => true,
            Later::Idle => shared.followers.is_to_be_noted(name, NOTE_EVERY_S),
        };
        if !is_kept && (is_begun || is_noted) {
            ledger.save(place.home, name)?;
        }
        Ok(ledger)
    }

    /// As [`Engine::keep_history`] keeps it, without letting go of anything.
    fn kept_by_now(&self, record: &SourceRecord, seen: Option<&Seen>) -> Result<Ledger, EngineError> {
        let (shared, name) = (&self.shared, record.name.as_str());
        let (user, _held) = shared.user_of(name)?;
        let place = shared.place(&user, None);
        tokio::task::block_in_place(|| self.keep_now(&place, name, seen))
    }
}
