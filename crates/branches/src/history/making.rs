//! The generation of a moment: made for the first branch of it.

use super::branching::words;
use crate::{
    engine::Engine,
    error::EngineError,
    interrupt::Interrupt,
    source::{
        cage,
        history::{Chosen, Ledger, Target},
        import::Report,
        manifest::{self, Manifest, SourceRecord, MOMENTS_FROM},
        moment::{MadeOf, Wanted},
    },
    sources::{free_what_was_deleted, told_as_disk_full},
};
use duramen_base::clock;
use serde_json::json;
use std::sync::Arc;

/// Whether a generation is that of a moment that is asked for.
fn is_of(made: &MadeOf, target: Target, chosen: &Chosen) -> bool {
    made.stretch == chosen.stretch
        && match target {
            Target::Time(at) => made.moment.at == Some(at),
            Target::Position(position) => made.moment.lsn.as_ref() == Some(&position.to_string()),
        }
}

impl Engine {
    /// The number of the generation of a moment, and whether it is there. One that is made is given a number that nothing has.
    pub(super) fn number_of_moment(
        &self,
        record: &SourceRecord,
        target: Target,
        chosen: &Chosen,
    ) -> (u32, bool) {
        let home = &self.shared.environment.home;
        let numbers = manifest::moments(home, &record.name);
        let found = numbers.iter().find(|number| {
            let made = Manifest::load(home, &record.name, **number).ok().and_then(|it| it.moment);
            made.is_some_and(|made| is_of(&made, target, chosen))
        });
        if let Some(number) = found {
            return (*number, true);
        }
        let in_use = self.shared.registry.generations_in_use();
        let in_use = in_use.iter().filter(|(source, _)| *source == record.name).map(|(_, number)| *number);
        let last = numbers.into_iter().chain(in_use).max().unwrap_or_default();
        ((last + 1).max(MOMENTS_FROM + 1), false)
    }

    /// Makes it. On failure nothing is left behind.
    pub(super) async fn make_moment(
        &self,
        record: &SourceRecord,
        number: u32,
        target: Target,
        chosen: Chosen,
        ledger: &Ledger,
        interrupt: &Interrupt,
    ) -> Result<(), EngineError> {
        let shared = &self.shared;
        let environment = &shared.environment;
        let cage = cage::find()?;
        let (user, _held) = shared.user_of(&record.name)?;
        let progress: Report = Arc::new(|step, _| tracing::debug!(step, "making a moment"));
        let importer = shared.importer(&user, cage, progress, interrupt);
        let serving = Manifest::load(&environment.home, &record.name, record.generation)?;
        let about = match target {
            Target::Time(at) => at,
            Target::Position(_) => ledger.time_of(&chosen).unwrap_or_else(clock::utc_now),
        };
        let wanted = Wanted { target, chosen, ledger, serving: &serving, about };
        let record = SourceRecord { generation: number, ..record.clone() };
        let manifest = match self.unless_given_up(interrupt, importer.moment(&record, &wanted)).await {
            Ok(manifest) => manifest,
            Err(error) => {
                let error = told_as_disk_full(error);
                if error.code == "disk_full" {
                    free_what_was_deleted(&environment.store).await;
                }
                return Err(error);
            }
        };
        let replayed_to = manifest.moment.as_ref().map(|of| &of.moment.replayed_to);
        shared.audit(
            "moment_made",
            json!({ "source": record.name, "generation": number, "moment": words(target), "replayed_to": replayed_to }),
        )
    }
}
