//! A rehearsal of an upgrade: `pg_upgrade` on a copy of a generation, and the same queries in both versions.

use crate::{
    error::RehearseError,
    findings,
    migration::Ending,
    options::Prepared,
    plans::QueryPlans,
    rehearsal::{lines, or_signal, Before, Event, Work, COMPARISON_LIMIT},
    relations::Relations,
    report::{Looks, Migration, Outcome, Report, Upgrade, Wal, SCHEMA},
    sampler::INTERVAL,
    secrets::Secrets,
};
use duramen_api::{
    model::{AddSource, CreateBranch, Origin, Policy, PoolSize, SourceSettings, SourceView, Upgraded},
    names::NAME_MAX,
};
use duramen_base::{
    clock::{self, ms},
    entropy,
};
use duramen_client::{
    run::{Fate, Leased, Signals},
    ClientError,
};
use duramen_postgres::connection::Target;
use std::time::Duration;

/// The daemon's error code for an upgrade that `pg_upgrade` refuses.
const REFUSED: &str = "upgrade_refused";
/// Length of the random part of a temporary source's name.
const RANDOM: usize = 8;

/// The outcome of the upgrade itself.
enum Tried {
    Made(Box<SourceView>),
    /// What `pg_upgrade` said.
    Refused(String),
    Late,
}

/// What was read from a branch of the upgraded copy.
struct After {
    server: std::collections::BTreeMap<String, String>,
    relations: Relations,
    plans: Vec<crate::plans::Plan>,
    definitions: Result<duramen_api::model::SchemaDiff, ClientError>,
}

impl Work<'_> {
    /// Upgrades a copy of the source that the branch was made of, and looks at both.
    pub(crate) async fn upgrade(
        &self,
        pg: u32,
        prepared: &Prepared,
        signals: &mut Signals,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Report, RehearseError> {
        let started_at = clock::utc_now();
        let began = clock::now();
        on_event(Event::Step("looking at the branch before the upgrade"));
        let target = Target::parse(&self.branch.url())?;
        let before = or_signal(signals, self.look_before(&target, &prepared.queries)).await?;
        let source = &self.branch.view().source;
        let name = temporary(source, pg);
        // U1: whatever happens from here on, it is removed.
        let tried = or_signal(signals, self.make(source, &name, pg, on_event)).await;
        let done = match tried {
            Ok(Tried::Made(view)) => {
                let looked = self.look_after(&name, prepared, signals, on_event).await;
                looked.map(|(branch, fate, after)| (Tried::Made(view), Some((branch, fate, after))))
            }
            other => other.map(|tried| (tried, None)),
        };
        let keeps = matches!(&done, Ok((_, Some((_, Fate::Kept(_), _)))));
        if !keeps {
            on_event(Event::Step("removing the upgraded copy"));
            self.remove(&name).await;
        }
        let (tried, looked) = done?;
        let took_ms = match &tried {
            Tried::Made(view) => view.upgraded.as_ref().map_or(0.0, |it| it.took_ms as f64),
            Tried::Refused(_) | Tried::Late => ms(began.elapsed()),
        };
        let mut report = self.upgrade_report(started_at, &before, &tried, took_ms, pg);
        if let Some((branch, fate, after)) = looked {
            report.relations = before.relations.changes(&after.relations);
            let pairs = prepared.queries.iter().zip(before.plans.into_iter().zip(after.plans));
            report.queries =
                pairs.map(|(sql, (before, after))| QueryPlans::new(sql.clone(), before, after)).collect();
            (report.definitions, report.definitions_unknown) = match after.definitions {
                Ok(found) => (Some(found), None),
                Err(error) => (None, Some(error.to_string())),
            };
            report.server = after.server;
            report.branch = branch;
            report.fate = fate;
        }
        let findings = findings::of(&report);
        let report = Report { findings, finished_at: clock::utc_now(), ..report }.judged();
        Ok(Secrets::of(self.branch).strike_out(report))
    }

    async fn make(
        &self,
        of: &str,
        name: &str,
        pg: u32,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Tried, RehearseError> {
        let pool = PoolSize { hot: std::collections::BTreeMap::new(), cold: 0 };
        let request = AddSource {
            name: name.to_owned(),
            origin: Origin::Upgrade { of: of.to_owned(), pg: Some(pg) },
            database: None,
            settings: SourceSettings { pool, ..SourceSettings::default() },
        };
        let mut connection = self.client.connect().await?;
        let deadline = self.options.deadline;
        connection.set_deadline(deadline + Duration::from_secs(5));
        let adding = connection.add_source(&request, |step, _| on_event(Event::Step(step)));
        match tokio::time::timeout(deadline, adding).await {
            Ok(Ok(view)) => Ok(Tried::Made(Box::new(view))),
            Ok(Err(ClientError::Refused { body, .. })) if body.code == REFUSED => {
                Ok(Tried::Refused(body.message))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(Tried::Late),
        }
    }

    /// Looks at a branch of the upgraded copy, and gives it back.
    async fn look_after(
        &self,
        source: &str,
        prepared: &Prepared,
        signals: &mut Signals,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<(String, Fate, After), RehearseError> {
        on_event(Event::Step("looking at a branch after the upgrade"));
        let request = CreateBranch {
            source: Some(source.to_owned()),
            policy: Some(Policy::Ddl),
            ..CreateBranch::default()
        };
        let leasing = async { Ok(Leased::take(self.client, request, self.options.ttl_s).await?) };
        let branch = or_signal(signals, leasing).await?;
        let looking = async {
            let target = Target::parse(&branch.url())?;
            let Before { server, relations, plans, .. } =
                self.look_before(&target, &prepared.queries).await?;
            let mut connection = self.client.connect().await?;
            connection.set_deadline(COMPARISON_LIMIT);
            let old = &self.branch.view().name;
            let definitions = connection.schema_diff(&branch.view().name, Some(old)).await;
            Ok(After { server, relations, plans, definitions })
        };
        let after = or_signal(signals, looking).await;
        let name = branch.view().name.clone();
        let fate = branch.give_back(self.options.keep && after.is_ok()).await;
        Ok((name, fate, after?))
    }

    /// Removes the upgraded copy. What is given up is removed by the daemon itself.
    async fn remove(&self, name: &str) {
        // It takes no new branches after this either way, and its name says what it was.
        if let Ok(mut connection) = self.client.connect().await {
            let _ = connection.remove_source(name).await;
        }
    }

    fn upgrade_report(
        &self,
        started_at: jiff::Timestamp,
        before: &Before,
        tried: &Tried,
        took_ms: f64,
        pg: u32,
    ) -> Report {
        let view = self.branch.view();
        let from = before.server.get("server_version").map(String::as_str).unwrap_or_default();
        // Packages append their own version to the server's.
        let from = from.split_whitespace().next().unwrap_or_default().to_owned();
        let (ending, output, made, to) = match tried {
            Tried::Made(made) => {
                (Ending::Exit(0), Vec::new(), made.upgraded.clone(), made.server_version.clone())
            }
            Tried::Refused(said) => (Ending::Exit(1), lines(said.as_bytes()), None, pg.to_string()),
            Tried::Late => (Ending::Deadline, Vec::new(), None, pg.to_string()),
        };
        let (output, outdated_extensions) = match made {
            Some(Upgraded { output, outdated_extensions, .. }) => (output, outdated_extensions),
            None => (output, Vec::new()),
        };
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            started_at,
            finished_at: clock::utc_now(),
            outcome: Outcome::Succeeded,
            source: view.source.clone(),
            generation: u64::from(view.generation),
            branch: view.name.clone(),
            fate: Fate::Destroyed,
            server: before.server.clone(),
            migration: Migration {
                command: "pg_upgrade --link".to_owned(),
                ending,
                duration_ms: took_ms,
                output,
                is_output_cut: false,
                statements: Vec::new(),
                waits: Vec::new(),
            },
            upgrade: Some(Upgrade { from, to, outdated_extensions }),
            gate: None,
            findings: Vec::new(),
            locks: Vec::new(),
            relations: Vec::new(),
            wal: Wal { bytes: 0, load_bytes: 0, unlogged_bytes: 0 },
            load: None,
            queries: Vec::new(),
            definitions: None,
            definitions_unknown: None,
            looks: Looks {
                count: 0,
                interval_ms: ms(INTERVAL),
                longest_gap_ms: 0.0,
                is_cut: before.relations.is_cut,
                error: None,
            },
        }
    }
}

/// A name for the upgraded copy that says what it was made of.
fn temporary(source: &str, pg: u32) -> String {
    let end = format!("-on-{pg}-{}", entropy::token(RANDOM));
    let start = &source[..source.len().min(NAME_MAX - end.len())];
    format!("{start}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_name_for_its_copy() {
        for source in ["app", &"a".repeat(NAME_MAX)] {
            let name = temporary(source, 18);
            assert!(duramen_api::names::check("source", &name).is_ok(), "{name}");
            assert_ne!(name, temporary(source, 18));
        }
    }
}
