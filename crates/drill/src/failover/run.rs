//! The run from the first process to the last figure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::entropy;
use duramen_base::words::counted;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::process::interrupted;
use duramen_measure::statistics;
use duramen_postgres::connection::without_password;
use duramen_postgres::{Scratch, ServerUser};
use duramen_reports::suite::{begin, conclude, Measured, Say, SuiteError};
use tokio::runtime::Builder;

use super::document::{self, RepetitionView};
use super::given;
use super::options::{Drill, Options};
use super::repetition::{Ground, Repetition};
use crate::network::{self, Network};
use crate::patroni::{Patroni, Programs};
use crate::program::blocking;

/// A new cluster is healthy within this.
const MADE: Duration = Duration::from_secs(180);
/// A node ends in order within this.
const ENDED: Duration = Duration::from_secs(15);
/// How sure the intervals are.
const CONFIDENCE: f64 = 0.95;

pub(super) fn run(options: &Options, say: Say<'_>) -> Result<Measured, SuiteError> {
    let mut evidence = begin(options, &options.dir, say)?;
    // Connection strings may hold passwords, and evidence is shown around.
    evidence.command.iter_mut().for_each(|word| *word = without_password(word));
    evidence.configure("times", options.times);
    evidence.configure("clients", options.clients as u64);
    if let Some(given) = &options.given {
        let runtime = runtime()?;
        runtime.block_on(async {
            tokio::select! {
                held = given::hold(given, options, &mut evidence, say) => held,
                () = interrupted() => Err(INTERRUPTED),
            }
        })?;
        conclude(document::found(&evidence), &mut evidence);
        return Ok(evidence.into());
    }
    // On the loopback interface every user of this machine could write to etcd, which takes no password, and what Patroni
    // reads there is run as the servers' user.
    if let Some(obstacle) = network::obstacle() {
        return Err(SuiteError::Preconditions(vec![obstacle]));
    }
    let programs = Programs::find(&options.home, options.site.as_deref(), options.major)?;
    let user = ServerUser::current().map_err(SuiteError::other)?;
    let scratch = Scratch::make(&options.dir, "lab-drill", &user).map_err(SuiteError::other)?;
    say("making the network");
    let nodes = options.cluster.nodes;
    // This thread is the run's own, and is moved into the network; so is all that it connects and starts.
    let network = Arc::new(Network::namespaces(scratch.path(), nodes)?);
    let runtime = runtime()?;
    let settings = options.cluster;
    evidence.configure("server_version", programs.version());
    evidence.configure("nodes", nodes as u64);
    evidence.configure("synchronous_mode", settings.is_synchronous);
    evidence.configure("ttl_s", settings.ttl);
    evidence.configure("loop_wait_s", settings.loop_wait);
    evidence.configure("retry_timeout_s", settings.retry_timeout);
    let held = runtime.block_on(async {
        tokio::select! {
            held = all(options, &programs, &user, &network, &scratch, &mut evidence, say) => held,
            () = interrupted() => Err(INTERRUPTED),
        }
    });
    // Whoever is still there is ended with the folder.
    drop(runtime);
    say("ending the cluster");
    drop(network);
    drop(scratch);
    held?;
    for (drill, obstacle) in options.drills.iter().filter_map(|drill| Some((drill, drill.obstacle()?))) {
        let text = format!("The drill {} was not held: {obstacle}.", drill.name());
        evidence.find("skipped", Severity::Warning, None, text);
    }
    conclude(document::found(&evidence), &mut evidence);
    Ok(evidence.into())
}

/// What is said when nothing is left of a run that was ended.
const INTERRUPTED: SuiteError = SuiteError::Interrupted("interrupted; nothing of the cluster is left");

fn runtime() -> Result<tokio::runtime::Runtime, SuiteError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| SuiteError::Failed(format!("cannot make a runtime: {error}")))
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
    say("starting etcd, Patroni and PostgreSQL");
    let begun = duramen_base::clock::now();
    let cluster = Arc::new(
        blocking({
            let (programs, user, network) = (programs.clone(), user.clone(), Arc::clone(network));
            let (dir, settings) = (scratch.path().to_owned(), options.cluster);
            move || Patroni::start(&dir, &programs, settings, &user, &network)
        })
        .await?,
    );
    cluster.etcd().ready().await?;
    cluster.healthy(MADE).await?;
    let ready = Measurement::scalar("cluster_ready_s", "s", begun.elapsed().as_secs_f64());
    evidence.measurements.push(ready);
    let ground = Ground { cluster, network: Arc::clone(network), clients: options.clients };
    let mut run = 0;
    let mut held: BTreeMap<&'static str, Vec<Repetition>> = BTreeMap::new();
    let mut failed = None;
    'drills: for repetition in 1..=options.times {
        for drill in &options.drills {
            if drill.obstacle().is_some() {
                continue;
            }
            run += 1;
            say(&format!("{} ({repetition} of {}): {}", drill.name(), options.times, drill.in_words()));
            match ground.hold(*drill, run).await {
                Ok(repetition) => {
                    tell(*drill, &repetition, &ground, evidence);
                    held.entry(drill.name()).or_default().push(repetition);
                }
                Err(error) => {
                    evidence.check(format!("held/{}", drill.name()), false, error.to_string());
                    failed = Some(error);
                    break 'drills;
                }
            }
        }
    }
    for drill in &options.drills {
        if let Some(repetitions) = held.get(drill.name()) {
            summarise(*drill, repetitions, options, evidence);
        }
    }
    let Ground { cluster, .. } = ground;
    blocking(move || {
        cluster.stop(ENDED);
        drop(cluster);
        Ok(())
    })
    .await?;
    match failed {
        // Nothing could be measured at all.
        Some(error) if held.is_empty() => Err(error.into()),
        _ => Ok(()),
    }
}

fn seconds(repetition: &Repetition, at: Option<Duration>) -> Option<f64> {
    at.map(|at| at.saturating_sub(repetition.window[0]).as_secs_f64())
}

/// Adds a repetition to the document.
fn tell(drill: Drill, repetition: &Repetition, ground: &Ground, evidence: &mut Evidence) {
    let name = |number: usize| ground.cluster.nodes()[number].name().to_owned();
    let gaps = repetition.gaps();
    let view = RepetitionView {
        drill: drill.name().to_owned(),
        leaders: repetition.leaders.map(name),
        stopped_s: seconds(repetition, repetition.stopped),
        gap_s: repetition.gap().as_secs_f64(),
        client_gaps_s: gaps.iter().map(Duration::as_secs_f64).collect(),
        detected_s: seconds(repetition, repetition.stages.detected),
        elected_s: seconds(repetition, repetition.stages.elected),
        promoted_s: seconds(repetition, repetition.stages.promoted),
        first_commit_s: seconds(repetition, repetition.first_commit),
        healthy_s: (repetition.window[1] - repetition.window[0]).as_secs_f64(),
        account: repetition.account,
        errors: repetition.errors(),
    };
    document::push(evidence, &view);
}

/// The figures of all repetitions of a drill, and what they had to be.
fn summarise(drill: Drill, repetitions: &[Repetition], options: &Options, evidence: &mut Evidence) {
    let name = drill.name();
    let of = |figure: fn(&Repetition) -> Option<f64>| -> Vec<f64> {
        repetitions.iter().filter_map(figure).collect()
    };
    let gaps = of(|it| Some(it.gap().as_secs_f64()));
    let clients: Vec<f64> =
        repetitions.iter().flat_map(Repetition::gaps).map(|gap| gap.as_secs_f64()).collect();
    let figures = [
        ("gap_s", gaps.clone()),
        ("client_gap_s", clients),
        ("stopped_s", of(|it| seconds(it, it.stopped))),
        ("detected_s", of(|it| seconds(it, it.stages.detected))),
        ("elected_s", of(|it| seconds(it, it.stages.elected))),
        ("promoted_s", of(|it| seconds(it, it.stages.promoted))),
        ("first_commit_s", of(|it| seconds(it, it.first_commit))),
        ("healthy_s", of(|it| Some((it.window[1] - it.window[0]).as_secs_f64()))),
    ];
    for (figure, values) in figures.into_iter().filter(|(_, values)| !values.is_empty()) {
        evidence.measurements.push(Measurement::from_values(format!("{figure}/{name}"), "s", &values));
    }
    evidence.keep_blocks(&format!("gap_s/{name}"), gaps.iter().map(|gap| vec![*gap]).collect());
    let mut rng = entropy::rng(entropy::seed_from_text(name));
    if let Some(interval) = statistics::mean(&gaps, CONFIDENCE, &mut rng) {
        evidence.keep_interval(&format!("gap_s/{name}"), [interval.low, interval.high], CONFIDENCE);
    }
    let sum = |count: fn(&Repetition) -> u64| repetitions.iter().map(count).sum::<u64>();
    let acknowledged = sum(|it| it.account.acknowledged);
    let lost = sum(|it| it.account.lost);
    let split = sum(|it| it.account.split);
    for (figure, count) in [
        ("acknowledged_rows", acknowledged),
        ("lost_rows", lost),
        ("unacknowledged_rows_that_are_there", sum(|it| it.account.unacknowledged)),
        ("rows_of_two_leaders", split),
        ("errors", sum(|it| it.errors().values().sum())),
    ] {
        evidence.measurements.push(Measurement::scalar(format!("{figure}/{name}"), "rows", count as f64));
    }
    let held = counted(repetitions.len(), "repetition");
    if let Some(unmet) = repetitions.iter().find_map(|it| unmet(drill, it)) {
        evidence.invalidate(format!("{name}: {unmet}"));
        return;
    }
    let strange = sum(|it| it.account.strange);
    evidence.check(
        format!("ledger/{name}"),
        strange == 0,
        format!("{strange} rows are there that nobody wrote, in {held}"),
    );
    if options.cluster.is_synchronous {
        evidence.check(
            format!("nothing_lost/{name}"),
            lost == 0,
            format!("{lost} of {acknowledged} acknowledged rows are not there, in {held}"),
        );
        evidence.check(
            format!("one_leader/{name}"),
            split == 0,
            format!("{split} rows were acknowledged by the old leader after another one had, in {held}"),
        );
    }
    let cluster = options.cluster;
    // A key that was renewed last just before runs out after ttl; another one sees that in its next round, asks the others,
    // and is promoted. Clients wait for 1 s at a node that does not answer.
    let limit = f64::from(cluster.ttl + cluster.loop_wait + cluster.retry_timeout) + 10.0;
    if drill.changes_leader() {
        let longest = gaps.iter().copied().fold(0.0, f64::max);
        evidence.check(
            format!("commits_go_on/{name}"),
            longest <= limit,
            format!(
                "the longest time without a commit was {longest:.1} s, {limit:.0} s are allowed, in {held}"
            ),
        );
    }
}

/// Why a repetition says nothing of its drill, if it does not.
fn unmet(drill: Drill, repetition: &Repetition) -> Option<String> {
    let [old, new] = repetition.leaders;
    if !repetition.had_load {
        return Some("no row was acknowledged up to the fault".to_owned());
    }
    if drill.changes_leader() && (old == new || repetition.first_commit.is_none()) {
        return Some(format!("n{old} still leads, or nobody else acknowledged a row"));
    }
    None
}
