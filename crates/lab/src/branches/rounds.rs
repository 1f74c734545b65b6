//! One round: all clients at once, then the refill, then the deletions.

use std::time::Duration;

use duramen_api::model::RefillReport;
use duramen_base::clock;
use duramen_measure::load::closed_loop_with;

use super::client::{Lived, Session};
use super::clients::Clients;
use super::control::Control;
use super::options::Options;
use super::pool::{self, newer};
use super::router;
use super::workload::Planner;
use duramen_reports::suite::SuiteError;

/// The figures that there is one of in each round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RoundFigures {
    /// From the barrier to the answer of the last destroy.
    pub wall_ms: f64,
    /// From the answer of the last destroy until the pool was full again.
    pub refill_ms: Option<f64>,
    /// The clones of the refill.
    pub clone_ms: Option<f64>,
    /// The starts of the refill.
    pub start_ms: Option<f64>,
    /// The sessions of the refill, and their warm-up.
    pub connect_ms: Option<f64>,
}

impl RoundFigures {
    /// Takes the phases from what the pool reported of its refills in this round: their sums.
    pub(crate) fn add_reports(&mut self, reports: &[RefillReport]) {
        if reports.is_empty() {
            return;
        }
        let sum = |phase: fn(&RefillReport) -> f64| Some(reports.iter().map(phase).sum());
        self.clone_ms = sum(|report| report.clone_ms);
        self.start_ms = sum(|report| report.start_ms);
        self.connect_ms = sum(|report| report.connect_ms);
    }
}

/// What a round gave.
pub(crate) struct Round {
    pub(crate) figures: RoundFigures,
    pub(crate) lived: Vec<Lived>,
    /// Branches that the refill could not make, with the reason of the first.
    pub(crate) refill_failures: Vec<String>,
    /// Why the pool did not fill again.
    pub(crate) not_filled: Option<String>,
}

/// Runs one round. The pool must be settled before.
pub(crate) async fn run(
    control: &mut Control,
    planner: &mut Planner,
    options: &Options,
    clients: &Clients,
    number: u32,
    say: &dyn Fn(&str),
) -> Result<Round, SuiteError> {
    if clients.come_by_the_router() {
        router::until_entries(control, &options.source, planner.write.policy()).await?;
    }
    let before = control.status().await?.refills;
    let ready = clients.ready().await?;
    let mut sessions = Vec::new();
    for client in 0..options.concurrency {
        let plan = planner.plan(options, &format!("r{number}"), client)?;
        sessions.push(Session { connection: control.another().await?, plan, way: ready.way.clone() });
    }
    let run = closed_loop_with(sessions, 1, |mut session, _| async move {
        let lived = session.live().await;
        (session, lived)
    });
    let run = run.await?;
    let returned = clock::now();
    let mut figures = RoundFigures { wall_ms: clock::ms(run.elapsed), ..RoundFigures::default() };
    let lived: Vec<Lived> = run.samples.into_iter().map(|sample| sample.output).collect();
    // Without a single destroyed branch there is no moment to count from but this one.
    let last = lived.iter().filter_map(|lived| lived.ended).max().unwrap_or(returned);
    for name in lived.iter().filter_map(|lived| lived.leftover.as_deref()) {
        // A refusal means that it is gone; anything else shows in the check for what was left behind.
        control.destroy_branch(name).await.ok();
    }
    let within = pool::deadline(options.pool_size());
    let refill = pool::until_full(control, &options.source, planner.write.policy(), last, within).await?;
    figures.refill_ms = refill.map(clock::ms);
    // Not before the refill is timed, which it would share the processors with.
    ready.end().await;
    let left: Duration = within.saturating_sub(last.elapsed());
    let mut refill_failures = Vec::new();
    let not_filled = match pool::until_idle(control, left, say).await?.status() {
        Ok(status) => {
            let reports = newer(&before, &status.refills);
            figures.add_reports(reports);
            let failed = reports.iter().filter(|report| report.failed > 0);
            refill_failures.extend(failed.map(|report| {
                let reason = report.first_error.as_deref().unwrap_or("no reason was given");
                format!("{} branches could not be made: {reason}", report.failed)
            }));
            None
        }
        Err(reason) => Some(reason),
    };
    Ok(Round { figures, lived, refill_failures, not_filled })
}
