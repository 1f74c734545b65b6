//! The suite from the first request to the last.

use duramen_api::model::Status;
use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Severity};

use super::clients::Clients;
use super::control::Control;
use super::daemon::Reached;
use super::figures::{self, note_values, Latencies};
use super::findings::{self, Outcomes};
use super::options::{Options, Runner};
use super::pool::{self, until_idle};
use super::probe;
use super::rounds::{self, RoundFigures};
use super::source::{self, Prepared};
use super::{checks, cold, scale, sweep, wire, Branches};
use duramen_reports::suite::{begin, conclude, Say, Suite as _, SuiteError};

/// What was measured, while it is not yet known what the daemon leaves behind.
pub(crate) struct Measured {
    evidence: Evidence,
    rounds: Vec<RoundFigures>,
    pub(crate) leftovers: checks::Leftovers,
    own_daemon: bool,
}

impl Measured {
    /// The finished document, and the figures of each round.
    pub(crate) fn conclude(mut self) -> (Evidence, Vec<RoundFigures>) {
        let looked = if self.own_daemon {
            "no lease, nothing to delete; after the daemon stopped, no process, mount or directory"
        } else {
            "no lease of this run, nothing to delete"
        };
        let (passed, detail) = self.leftovers.outcome(looked);
        self.evidence.check("nothing_left_behind", passed, detail);
        conclude(Branches.diagnose(&self.evidence), &mut self.evidence);
        (self.evidence, self.rounds)
    }
}

/// Measures, and puts the source's settings back whatever happened.
pub(crate) async fn measure(
    options: &Options,
    daemon: &mut Reached,
    say: Say<'_>,
) -> Result<Measured, SuiteError> {
    let own_daemon = daemon.is_owned();
    let control = &mut daemon.control;
    // First of all: nobody should wait in vain for what comes before the rounds.
    let clients = Clients::find(control, options, say).await?;
    // This blocks for two seconds at most, while nothing else runs here.
    let mut evidence = begin(options, &options.home, say)?;
    options.note(&mut evidence);
    if let Some(version) = clients.version() {
        evidence.configure("client", version);
    }
    let prepared = source::ensure(control, options, say).await?;
    let mut measured =
        Measured { evidence, rounds: Vec::new(), leftovers: checks::Leftovers::default(), own_daemon };
    let result = with_source(options, control, &clients, &prepared, &mut measured, say).await;
    let ended = clients.end(control).await;
    let restored = source::restore(control, options, &prepared).await;
    result?;
    ended?;
    match restored {
        // What was measured stands; that something is left fails its check.
        Err(error) if prepared.is_imported() => {
            measured.leftovers.add([format!("the source {}: {error}", options.source)]);
        }
        restored => restored?,
    }
    Ok(measured)
}

async fn with_source(
    options: &Options,
    control: &mut Control,
    clients: &Clients,
    prepared: &Prepared,
    measured: &mut Measured,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    let seed = entropy::seed();
    let leases_before = control.status().await?.leases;
    let within = pool::deadline(options.pool_size());
    let begin = clock::now();
    source::prepare(control, options).await?;
    let settled = until_idle(control, within, say).await?;
    let warm_ms = clock::ms(begin.elapsed());
    let status = control.status().await?;
    note_daemon(&status, prepared, seed, measured);
    findings::note_daemon(options, &status, &mut measured.evidence);
    let mut outcomes = Outcomes::default();
    if let Err(reason) = settled.status() {
        measured.evidence.invalidate(format!("the pool never filled: {reason}"));
        outcomes.note(options, &mut measured.evidence);
        return Ok(());
    }
    if prepared.was_cold(options.write.policy()) {
        note_values(&mut measured.evidence, "pool_warm_ms", "ms", &[warm_ms]);
    }

    say("fingerprinting the source");
    let before = control.fingerprint(&options.source).await?;
    say("looking at the data in a branch");
    let mut connection = control.another().await?;
    let (mut planner, flights) = probe::look(&mut connection, options, prepared.is_flights(), seed).await?;
    drop(connection);
    measured.evidence.configure("flights", flights);
    if let (Some(wanted), Some(found)) = (options.rows, flights) {
        if wanted != found {
            let name = &options.source;
            return Err(SuiteError::Failed(format!(
                "the source {name:?} has {found} flights, not {wanted}; leave --rows out, or remove it with \
                 `duramen source remove {name}`"
            )));
        }
    }
    clients.announce().await?;
    until_idle(control, within, say).await?;

    let mut latencies = Latencies::default();
    let mut by_round = Vec::new();
    for number in 1..=options.rounds {
        say(&format!("round {number} of {}: {} branches at once", options.rounds, options.concurrency));
        let round = rounds::run(control, &mut planner, options, clients, number, say).await?;
        let mut of_round = Latencies::default();
        for lived in &round.lived {
            of_round.add(lived);
            outcomes.add(lived, options);
        }
        latencies.merge(&of_round);
        by_round.push(of_round);
        for text in round.refill_failures {
            measured.evidence.find("refill_failed", Severity::Problem, None, text);
        }
        measured.rounds.push(round.figures);
        if let Some(reason) = round.not_filled {
            let text = format!("the pool did not fill again after round {number}: {reason}");
            measured.evidence.invalidate(text);
            break;
        }
    }
    if options.runner == Runner::Session {
        let bursts = wire::burst(control, &mut planner, options, say).await?;
        latencies.point_read.merge(&bursts.point_read);
        latencies.wire_first_query.merge(&bursts.wire_first_query);
        bursts.failures.iter().for_each(|failure| outcomes.add_wire(failure));
    }
    latencies.note(&by_round, &mut measured.evidence);
    figures::note_rounds(&measured.rounds, &mut measured.evidence);
    until_idle(control, within, say).await?;
    let evidence = &mut measured.evidence;
    let idle = cold::idle(control, options, evidence).await;
    or_note(idle, "idle_branch_pss_bytes", evidence)?;
    let made = cold::measure(control, options, evidence, say).await;
    or_note(made, "cold_branch_ms and cpu_per_branch_ms", evidence)?;
    let compared = scale::measure(control, options, seed, evidence, say).await;
    or_note(compared, "the figures of --scale", evidence)?;
    let swept = sweep::measure(control, options, seed, evidence, say).await;
    or_note(swept, "sweep_phased_ms and sweep_pipelined_ms", evidence)?;

    say("fingerprinting the source again");
    outcomes.note(options, &mut measured.evidence);
    let (unchanged, detail) = match control.fingerprint(&options.source).await {
        Ok(after) => checks::compare_fingerprints(&before, &after),
        Err(error) => (false, error.to_string()),
    };
    measured.evidence.check("source_unchanged", unchanged, detail);
    let audit = control.verify_audit().await?;
    let detail = audit.problem.unwrap_or_else(|| format!("{} entries, head {}", audit.entries, audit.head));
    measured.evidence.check("audit_chain_intact", audit.intact, detail);
    until_idle(control, within, say).await?;
    measured.leftovers.look_at(&control.status().await?, leases_before);
    Ok(())
}

/// What comes after the rounds must not cost their figures: a refusal there is told, and the run goes on.
fn or_note(result: Result<(), SuiteError>, what: &str, evidence: &mut Evidence) -> Result<(), SuiteError> {
    match result {
        Err(error @ SuiteError::Refused { .. }) => {
            evidence.find("not_measured", Severity::Problem, None, format!("{what} not measured: {error}"));
            Ok(())
        }
        other => other,
    }
}

/// Notes what only the daemon knows.
fn note_daemon(status: &Status, prepared: &Prepared, seed: u64, measured: &mut Measured) {
    let evidence = &mut measured.evidence;
    evidence.configure("server_version", prepared.view.server_version.as_str());
    evidence.configure("database", prepared.view.database.as_str());
    evidence.configure("snapshot_bytes", prepared.view.bytes);
    evidence.configure("snapshot_digest", prepared.view.digest.as_str());
    evidence.configure("volumes", status.volumes.to_string());
    evidence.configure("volumes_reason", status.volumes_reason.as_str());
    evidence.configure("daemon_version", status.version.as_str());
    evidence.configure("daemon", if measured.own_daemon { "its own" } else { findings::RUNNING_BEFORE });
    // A number of 64 bits is not kept by every reader of JSON.
    evidence.configure("seed", seed.to_string());
}
