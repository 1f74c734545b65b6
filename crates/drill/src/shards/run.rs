//! The run from the first process to the account.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::process::interrupted;
use duramen_postgres::{Scratch, ServerUser};
use duramen_reports::suite::{begin, conclude, Measured, Say, SuiteError};
use tokio::runtime::Builder;

use super::account::account;
use super::document;
use super::ground::{Ground, NODES};
use super::load::{Load, Told};
use super::options::Options;
use crate::error::DrillError;
use crate::network::{self, Network};
use crate::patroni::Programs;

/// Clients start instances for so long before anything is done, and after all is put right.
const WARM: Duration = Duration::from_secs(5);
/// The pause between two kills of workers, at least and at most.
const BETWEEN_KILLS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(3000));
/// A worker that was killed is away for so long.
const AWAY: Duration = Duration::from_secs(1);

pub(super) fn run(options: &Options, say: Say<'_>) -> Result<Measured, SuiteError> {
    let mut evidence = begin(options, &options.dir, say)?;
    if let Some(obstacle) = network::obstacle() {
        return Err(SuiteError::Preconditions(vec![obstacle]));
    }
    let programs = Programs::find(&options.home, options.site.as_deref(), options.major)?;
    let user = ServerUser::current().map_err(SuiteError::other)?;
    let scratch = Scratch::make(&options.dir, "lab-drill", &user).map_err(SuiteError::other)?;
    say("making the network");
    // This thread is the run's own, and is moved into the network; so is all that it connects and starts.
    let network = Arc::new(Network::namespaces(scratch.path(), NODES)?);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| SuiteError::Failed(format!("cannot make a runtime: {error}")))?;
    evidence.configure("server_version", programs.version());
    evidence.configure("shards", 4);
    evidence.configure("pairs", 2);
    evidence.configure("workers", 3);
    evidence.configure("clients", options.clients as u64);
    evidence.configure("failovers", options.failovers);
    evidence.configure("kills", options.kills);
    evidence.configure("synchronous_mode", options.is_synchronous);
    let held = runtime.block_on(async {
        tokio::select! {
            held = all(options, &programs, &user, &network, &scratch, &mut evidence, say) => held,
            () = interrupted() => Err(SuiteError::Interrupted("interrupted; nothing of the shards is left")),
        }
    });
    drop(runtime);
    say("ending the shards");
    drop(network);
    drop(scratch);
    held?;
    conclude(document::found(&evidence), &mut evidence);
    Ok(evidence.into())
}

async fn all(
    options: &Options,
    programs: &Programs,
    user: &ServerUser,
    network: &Arc<Network>,
    scratch: &Scratch,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    say("starting etcd, two pairs under Patroni, two servers alone, and three workers");
    let ground = Ground::make(options, programs, user, network, scratch).await?;
    let told = Arc::new(Told::default());
    let origin = clock::now();
    let load = Load::begin(ground.shards(), options.clients, &told, origin);
    let done = storm(options, &ground, &told, origin, evidence, say).await;
    say("putting all right, and counting");
    let ended = async {
        done?;
        for worker in 0..ground.workers() {
            ground.start_worker(worker).await?;
        }
        ground.healthy().await?;
        tokio::time::sleep(WARM).await;
        load.end().await?;
        let lasted = origin.elapsed();
        let started = told.started();
        let account = account(ground.shards(), &started).await?;
        for (name, count) in [
            ("acknowledged_instances", account.acknowledged),
            ("lost_instances", account.lost),
            ("failed_instances", account.failed),
            ("undone_effects", account.undone),
            ("doubled_effects", account.twice),
            ("strange_effects", account.strange),
            ("starts_tried_again", told.retried()),
        ] {
            evidence.measurements.push(Measurement::scalar(name, "", count as f64));
        }
        let rate = account.acknowledged as f64 / lasted.as_secs_f64();
        evidence.measurements.push(Measurement::scalar("instances_per_s", "1/s", rate));
        if account.acknowledged == 0 {
            evidence.invalidate("no start was acknowledged");
        }
        let check = |evidence: &mut Evidence, name: &str, count: u64, what: &str| {
            let text = format!("{count} {what}, of {} acknowledged instances", account.acknowledged);
            evidence.check(name, count == 0, text);
        };
        check(evidence, "nothing_twice", account.twice, "effects are there more than once");
        check(evidence, "nothing_strange", account.strange, "effects are there of instances that are not");
        check(evidence, "all_done", account.undone, "effects are missing");
        check(evidence, "none_failed", account.failed, "instances have not completed");
        if options.is_synchronous {
            check(evidence, "nothing_lost", account.lost, "are not there");
        } else if account.lost > 0 {
            let text = format!(
                "{} of {} acknowledged instances are not there: a leader that dies takes with it what it had not sent. With \
                 synchronous_mode nothing is lost.",
                account.lost, account.acknowledged
            );
            evidence.find("lost", Severity::Warning, Some(account.lost as f64), text);
        }
        Ok::<_, DrillError>(())
    };
    let ended = ended.await;
    ground.end().await?;
    Ok(ended?)
}

/// Kills leaders one after the other, and workers meanwhile.
async fn storm(
    options: &Options,
    ground: &Ground,
    told: &Told,
    origin: std::time::Instant,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), DrillError> {
    tokio::time::sleep(WARM).await;
    let mut rng = entropy::rng(entropy::seed());
    let kills = async {
        for kill in 0..options.kills {
            let pause = rng.u64(
                u64::try_from(BETWEEN_KILLS.0.as_millis()).unwrap_or(0)
                    ..u64::try_from(BETWEEN_KILLS.1.as_millis()).unwrap_or(1),
            );
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let worker = rng.usize(0..ground.workers());
            say(&format!("killing worker {worker} ({} of {})", kill + 1, options.kills));
            ground.kill_worker(worker)?;
            tokio::time::sleep(AWAY).await;
            ground.start_worker(worker).await?;
        }
        Ok::<_, DrillError>(())
    };
    let failovers = async {
        let mut gaps = Vec::new();
        let mut others = Vec::new();
        for failover in 0..options.failovers as usize {
            let (_, shard) = ground.pair(failover);
            say(&format!("killing the leader of shard {shard} ({} of {})", failover + 1, options.failovers));
            let begin = origin.elapsed();
            ground.fail_over(failover).await?;
            tokio::time::sleep(WARM).await;
            let window = [begin, origin.elapsed()];
            gaps.push(told.longest_gap(shard, window).as_secs_f64());
            let rest = (0..ground.shards().len()).filter(|other| *other != shard);
            others.extend(rest.map(|other| told.longest_gap(other, window).as_secs_f64()));
            ground.healthy().await?;
        }
        Ok::<_, DrillError>((gaps, others))
    };
    let (killed, (gaps, others)) = tokio::try_join!(kills, failovers)?;
    let () = killed;
    if !gaps.is_empty() {
        evidence.measurements.push(Measurement::from_values("gap_s/failed_over", "s", &gaps));
        evidence.measurements.push(Measurement::from_values("gap_s/others", "s", &others));
    }
    Ok(())
}
