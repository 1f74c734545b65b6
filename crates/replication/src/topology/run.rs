//! The run from the first server to the last figure.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::process::interrupted;
use duramen_postgres::connection::{without_password, Target};
use duramen_reports::suite::{begin, conclude, Measured, Say, SuiteError};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio_postgres::Client;

use super::arrangement::{Arrangement, Fault, Standby};
use super::decide::decided;
use super::document::{self, PassView, Timeline, PASSES, TIMELINES};
use super::measure::{Asked, Pass};
use super::options::{Options, FAR, GIVEN_UP};
use super::quorum::Quorum;
use super::sample::{Eye, Position};
use super::servers::Servers;
use crate::error::{no_runtime, said, timeout};

/// All standbys stream, and have what the primary has, within this.
const SETTLED: Duration = Duration::from_secs(60);
/// A statement that asks or changes a setting is answered within this.
const ANSWER: Duration = Duration::from_secs(30);
/// The time of a step of a time line.
const STEP: Duration = Duration::from_millis(100);

pub(super) fn run(options: &Options, say: Say<'_>) -> Result<Measured, SuiteError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    runtime.block_on(async {
        let mut evidence = begin(options, &options.dir, say)?;
        // Connection strings may hold passwords, and evidence is shown around.
        evidence.command.iter_mut().for_each(|word| *word = without_password(word));
        evidence.configure("quick", options.quick);
        evidence.configure("clients", options.clients as u64);
        evidence.configure("far_ms", clock::ms(FAR));
        evidence.configure("wal_sender_timeout_s", GIVEN_UP.as_secs_f64());
        let measured = async {
            match &options.primary {
                Some(primary) => given(options, primary, &mut evidence, say).await,
                None => own(options, &mut evidence, say).await,
            }
        };
        tokio::select! {
            measured = measured => measured?,
            () = interrupted() => {
                return Err(SuiteError::Interrupted("interrupted; nothing was changed, and no server of the lab is left"));
            }
        }
        conclude(document::found(&evidence), &mut evidence);
        Ok(Measured::from(evidence))
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SuiteError> + Send + 'static,
) -> Result<T, SuiteError> {
    spawn_blocking(work).await.map_err(|error| SuiteError::Failed(format!("a thread ended: {error}")))?
}

/// Arrangements on servers of our own.
async fn own(options: &Options, evidence: &mut Evidence, say: Say<'_>) -> Result<(), SuiteError> {
    say("making the servers");
    let servers = Arc::new(
        blocking({
            let options = options.clone();
            move || Servers::make(&options)
        })
        .await?,
    );
    let primary = servers.primary()?;
    let client = primary.connect().await.map_err(SuiteError::other)?;
    describe(&client, evidence).await?;
    for arrangement in &options.arrangements {
        say(&format!("{arrangement}: bringing it up"));
        blocking({
            let (servers, arrangement) = (Arc::clone(&servers), arrangement.clone());
            move || servers.bring(&arrangement)
        })
        .await?;
        set(&client, "synchronous_standby_names", &arrangement.setting()).await?;
        settle(arrangement, &servers, &primary).await?;
        for level in &options.levels {
            for (fault, victim) in passes(arrangement, options) {
                let asked = Asked {
                    arrangement,
                    victim,
                    fault,
                    level: *level,
                    clients: options.clients,
                    lasts: options.lasts(fault),
                };
                say(&document::title(
                    &arrangement.to_string(),
                    fault.name(),
                    victim.unwrap_or_default(),
                    level.name(),
                ));
                if fault == Fault::Vanish {
                    let limit = format!("{}ms", GIVEN_UP.as_millis());
                    set(&client, "wal_sender_timeout", &limit).await?;
                }
                let pass = asked.run(&primary, Some(&servers)).await?;
                if fault == Fault::Vanish {
                    set(&client, "wal_sender_timeout", "60s").await?;
                }
                tell(&asked, &pass, evidence);
                settle(arrangement, &servers, &primary).await?;
            }
        }
    }
    drop(client);
    // The last one who holds them ends them, which takes a while.
    blocking(move || {
        drop(servers);
        Ok(())
    })
    .await
}

/// What is done in an arrangement: nothing, and each fault to each victim.
fn passes<'a>(arrangement: &'a Arrangement, options: &Options) -> Vec<(Fault, Option<&'a str>)> {
    let mut passes = Vec::new();
    for fault in &options.faults {
        match fault {
            Fault::Plain => passes.push((Fault::Plain, None)),
            fault => passes.extend(arrangement.victims().into_iter().map(|victim| (*fault, Some(victim)))),
        }
    }
    passes
}

/// The servers of somebody, as they are: a load that leaves nothing, and looks.
async fn given(
    options: &Options,
    primary: &str,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    let target = Target::parse(primary).map_err(SuiteError::other)?;
    let target = target
        .application_name("duramen-lab")
        .settings([("statement_timeout", "0"), ("default_transaction_read_only", "off")]);
    let client = target.connect().await.map_err(SuiteError::other)?;
    describe(&client, evidence).await?;
    let ask = client.query(
        "SELECT pg_is_in_recovery(), current_setting('synchronous_standby_names'), application_name, sync_priority
         FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_stat_replication ON state = 'streaming'
         ORDER BY coalesce(nullif(sync_priority, 0), 2147483647), application_name",
        &[],
    );
    let rows = answered("ask the primary for its standbys", ask).await?;
    let setting: String = rows.first().map_or_else(String::new, |row| row.get(1));
    if rows.first().is_some_and(|row| row.get::<_, bool>(0)) {
        return Err(SuiteError::Preconditions(vec![format!(
            "{} is a standby: give the primary as --primary",
            target.describe()
        )]));
    }
    let mut standbys = Vec::new();
    let mut named = Vec::new();
    for row in &rows {
        let Some(name) = row.get::<_, Option<String>>(2) else { continue };
        if row.get::<_, Option<i32>>(3).unwrap_or(0) > 0 {
            named.push(name.clone());
        }
        standbys.push(Standby { name, upstream: None });
    }
    if standbys.is_empty() {
        return Err(SuiteError::Preconditions(vec![format!(
            "{} has no standby that streams, or the role may not see it: GRANT pg_monitor TO {}",
            target.describe(),
            duramen_postgres::quote_identifier(target.role())
        )]));
    }
    let arrangement = Arrangement::found(Quorum::parse(&setting), named, standbys);
    evidence.configure("synchronous_standby_names", setting);
    for level in &options.levels {
        say(&format!("{arrangement} at {level}, as it is"));
        let asked = Asked {
            arrangement: &arrangement,
            victim: None,
            fault: Fault::Plain,
            level: *level,
            clients: options.clients,
            lasts: options.lasts(Fault::Plain),
        };
        let pass = asked.run(&target, None).await?;
        tell(&asked, &pass, evidence);
    }
    Ok(())
}

async fn describe(client: &Client, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let ask = client.query_one("SELECT current_setting('server_version'), current_setting('fsync')", &[]);
    let row = answered("read the settings of the primary", ask).await?;
    evidence.configure("server_version", row.get::<_, String>(0));
    evidence.configure("fsync", row.get::<_, String>(1));
    Ok(())
}

async fn answered<T>(
    doing: &str,
    asking: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SuiteError> {
    let answer = tokio::time::timeout(ANSWER, asking).await.map_err(|_| timeout(doing, ANSWER))?;
    answer.map_err(|error| SuiteError::refused(doing)(said(&error)))
}

/// Changes a setting of a primary of our own.
async fn set(client: &Client, name: &str, value: &str) -> Result<(), SuiteError> {
    let value = duramen_postgres::quote_literal(value);
    // A commit would wait for standbys that are not there yet.
    let sql = format!("SET synchronous_commit = local; ALTER SYSTEM SET {name} = {value}");
    let doing = format!("set {name}");
    for statement in sql.split("; ").chain(["SELECT pg_reload_conf()"]) {
        answered(&doing, client.batch_execute(statement)).await?;
    }
    Ok(())
}

/// Waits until all standbys stream, as many as commits wait for are synchronous, and all have what the primary has.
async fn settle(arrangement: &Arrangement, servers: &Servers, primary: &Target) -> Result<(), SuiteError> {
    let waiting = async {
        let eye = Eye::open(primary).await?;
        let origin = clock::now();
        loop {
            let sample = eye.look(origin).await?;
            let has_all = |position: Position| position.replayed >= sample.flushed;
            let mut is_settled = true;
            for standby in arrangement.standbys() {
                is_settled &= match &standby.upstream {
                    None => sample.standbys.get(&standby.name).is_some_and(|seen| has_all(seen.position)),
                    Some(_) => {
                        let replayed = replayed(&servers.standby(&standby.name)?).await;
                        replayed.is_some_and(|replayed| replayed >= sample.flushed)
                    }
                };
            }
            let synchronous = sample.standbys.values().filter(|seen| seen.is_synchronous).count();
            if is_settled && synchronous >= arrangement.wanted() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let what = format!("the standbys of {arrangement} to stream and to have all");
    tokio::time::timeout(SETTLED, waiting).await.unwrap_or_else(|_| Err(timeout(what, SETTLED)))
}

/// How far a standby has replayed, if it answers.
async fn replayed(target: &Target) -> Option<u64> {
    let client = target.connect().await.ok()?;
    let sql = "SELECT (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint";
    let row = tokio::time::timeout(ANSWER, client.query_one(sql, &[])).await.ok()?.ok()?;
    u64::try_from(row.get::<_, Option<i64>>(0)?).ok()
}

/// The figures and the verdict of a pass.
fn tell(asked: &Asked<'_>, pass: &Pass, evidence: &mut Evidence) {
    let key = asked.key();
    let mut latencies = LatencyHistogram::new();
    let took = pass.took();
    took.iter().for_each(|took| latencies.record(*took));
    let seconds = (pass.window[1] - pass.window[0]).as_secs_f64();
    let gap = pass.gap().as_secs_f64();
    let per_s = took.len() as f64 / seconds.max(1e-9);
    let commit = Measurement::from_histogram(format!("commit_ms/{key}"), &latencies);
    let (p50_ms, p99_ms) = (commit.p50, commit.p99);
    evidence.measurements.push(commit);
    let mut scalar = |name: String, unit: &str, value: f64| {
        evidence.measurements.push(Measurement::scalar(name, unit, value));
    };
    scalar(format!("gap_s/{key}"), "s", gap);
    scalar(format!("commits_per_s/{key}"), "commits/s", per_s);
    scalar(format!("resolution_ms/{key}"), "ms", clock::ms(pass.seeing.resolution()));
    let who = decided(&pass.seeing.samples, asked.arrangement.quorum(), asked.level, pass.window);
    let mut shares = Vec::new();
    if who.total() > 0 {
        for name in who.by.keys() {
            shares.push((name.clone(), who.percent(name)));
        }
        let tied = 100.0 * who.tied as f64 / who.total() as f64;
        shares.push((document::TIED.to_owned(), tied));
    }
    for (name, percent) in &shares {
        scalar(format!("decided_percent/{key}/{name}"), "%", *percent);
    }
    let mut late_ms = Vec::new();
    for standby in asked.arrangement.standbys() {
        for (stage, position) in Position::STAGES {
            let behind = pass.seeing.behind(&standby.name, position, pass.window);
            if asked.fault != Fault::Plain && stage != "flush" {
                continue;
            }
            let late: Vec<f64> = behind.iter().map(|(.., late)| clock::ms(*late)).collect();
            let bytes: Vec<f64> = behind.iter().map(|(_, bytes, _)| *bytes as f64 / 1024.0).collect();
            for (figure, unit, values) in [("late_ms", "ms", late), ("behind_kib", "KiB", bytes)] {
                let name = format!("{figure}/{key}/{}/{stage}", standby.name);
                evidence.measurements.push(Measurement::from_values(name, unit, &values));
            }
            if stage == "flush" {
                late_ms.push((standby.name.clone(), steps(&behind, pass)));
            }
        }
    }
    let (is_so, said) = pass.is_as_expected(asked);
    let expected = asked.expected();
    match pass.unmet(asked) {
        Some(unmet) => evidence.invalidate(format!("{key}: {unmet}")),
        None => evidence.check(format!("expected/{key}"), is_so, said),
    }
    if let Some((count, first)) = &pass.committed.failed {
        let text = format!("{count} commits failed in {key}; the first said: {first}");
        evidence.find("not_measured", Severity::Warning, Some(*count as f64), text);
    }
    let view = PassView {
        arrangement: asked.arrangement.to_string(),
        victim: asked.victim.unwrap_or_default().to_owned(),
        fault: asked.fault.name().to_owned(),
        level: asked.level.name().to_owned(),
        expected: expected.in_words().to_owned(),
        is_met: is_so,
        p50_ms,
        p99_ms,
        per_s,
        gap_s: gap,
        decided: shares,
    };
    document::push(evidence, PASSES, &view);
    let timeline = Timeline {
        key,
        step_ms: STEP.as_millis() as u64,
        commits: commits(pass),
        late_ms,
        window_s: pass.window.map(|time| time.as_secs_f64()),
    };
    document::push(evidence, TIMELINES, &timeline);
}

fn step_of(at: Duration) -> usize {
    (at.as_millis() / STEP.as_millis()) as usize
}

/// Commits in each step.
fn commits(pass: &Pass) -> Vec<u64> {
    let last = pass.committed.commits.last().map_or(pass.window[1], |commit| commit.at);
    let mut steps = vec![0; step_of(last.max(pass.window[1])) + 1];
    for commit in &pass.committed.commits {
        steps[step_of(commit.at)] += 1;
    }
    steps
}

/// The latest in each step, in milliseconds.
fn steps(behind: &[(Duration, u64, Duration)], pass: &Pass) -> Vec<Option<u64>> {
    let mut steps: Vec<Option<u64>> = vec![None; step_of(pass.window[1]) + 1];
    for (at, _, late) in behind {
        if let Some(step) = steps.get_mut(step_of(*at)) {
            *step = (*step).max(u64::try_from(late.as_millis()).ok());
        }
    }
    steps
}
