//! The suite from the first process to the last figure.

use std::path::Path;

use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::process::interrupted;
use duramen_postgres::ServerUser;
use tokio::runtime::Builder;

use duramen_postgres::Scratch;

use super::bench::Bench;
use super::error::database;
use super::options::{Options, Phase};
use super::{
    calibration, checks, idle, lanes, listing, mixed, queues, restart, saturation, shards, soak, throughput,
    Functions,
};
use duramen_reports::suite::{begin, conclude, Say, Suite as _, SuiteError};

/// Runs the phases on a runtime of one thread. When it returns, nothing that it has started is left.
pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<Evidence, SuiteError> {
    let user = ServerUser::current().map_err(SuiteError::other)?;
    let scratch = Scratch::make(&options.dir, "lab-functions", &user).map_err(SuiteError::other)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| SuiteError::Failed(format!("cannot start the runtime: {error}")))?;
    let measured = runtime.block_on(async {
        tokio::select! {
            measured = measure(options, &user, scratch.path(), say) => measured,
            () = interrupted() => Err(SuiteError::Interrupted(
                "the run was interrupted; the server and the worker are stopped, and nothing is written",
            )),
        }
    });
    say("stopping the server and the worker");
    drop(runtime);
    drop(scratch);
    measured
}

async fn measure(
    options: &Options,
    user: &ServerUser,
    root: &Path,
    say: Say<'_>,
) -> Result<Evidence, SuiteError> {
    let mut evidence = begin(options, root, say)?;
    options.note(&mut evidence);
    let mut bench = Bench::make(options, user, root, say).await?;
    evidence.configure("server_version", bench.server.version());
    for (name, value) in bench.server.settings().iter() {
        evidence.configure(format!("server.{name}"), value);
    }
    is_durable(&bench, &mut evidence).await?;
    for phase in Phase::ALL.into_iter().filter(|phase| !matches!(phase, Phase::All | Phase::Quick)) {
        if !options.phase.includes(phase) {
            continue;
        }
        if let Err(error) = run_phase(phase, &mut bench, &mut evidence).await {
            // What the other phases say holds all the same, if they can be run.
            let text = format!("The phase {} was not measured to its end: {error}", phase.name());
            evidence.find("not_measured", Severity::Problem, None, text);
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            bench.note_failure(format!("phase {}: {first}", phase.name()));
            // If that fails, the next phase tells.
            let _ = bench.revive().await;
        }
    }
    bench.sync_floor()?;
    evidence.measurements.push(Measurement::from_histogram_us("fsync_floor", &bench.floor));
    let (failed, first) = bench.failed();
    evidence.checks.push(checks::every_instance_ended_well(failed, first));
    drop(bench);
    conclude(Functions.diagnose(&evidence), &mut evidence);
    Ok(evidence)
}

async fn run_phase(phase: Phase, bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    match phase {
        Phase::Calibration => {
            calibration::measure(bench, evidence).await?;
            idle::measure(bench, evidence).await
        }
        Phase::Throughput => throughput::measure(bench, evidence).await,
        Phase::Saturation => {
            saturation::measure(bench, evidence).await?;
            listing::measure(bench, evidence).await?;
            bench.drained("what was listed", listing::DRAIN).await
        }
        Phase::Queues => queues::measure(bench, evidence).await,
        Phase::Lanes => lanes::measure(bench, evidence).await,
        Phase::Shards => shards::measure(bench, evidence).await,
        Phase::Mixed => mixed::measure(bench, evidence).await,
        Phase::Restart => restart::measure(bench, evidence).await,
        Phase::Soak => soak::measure(bench, evidence).await,
        Phase::All | Phase::Quick => Ok(()),
    }
}

/// That what is committed is durable is what is measured: without it no figure holds.
async fn is_durable(bench: &Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let client = bench.clients(1).await?.remove(0);
    let row = client
        .raw()
        .query_one(
            "SELECT current_setting('fsync'), current_setting('synchronous_commit'),
                current_setting('full_page_writes'), current_setting('wal_sync_method')",
            &[],
        )
        .await
        .map_err(database("read the server's settings"))?;
    for (column, name) in ["fsync", "synchronous_commit", "full_page_writes"].into_iter().enumerate() {
        let value: String = row.get(column);
        if value != "on" {
            evidence.invalidate(format!("{name} is {value}: what is committed is not durable"));
        }
    }
    evidence.configure("wal_sync_method", row.get::<_, String>(3));
    Ok(())
}
