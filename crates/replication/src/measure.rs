//! The suite from the first server to the last figure.

use crate::error::{no_runtime, refused};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::words::counted;
use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::process::interrupted;
use duramen_postgres::connection::without_password;
use duramen_workload::Crew;
use tokio::runtime::Builder;

use super::options::Options;
use super::outcome::{Conditions, Outcome, Staleness};
use super::pair::{disk, Pair, APPLICATION_NAME};
use super::pass::text::Names;
use super::pass::{self, run_on_primary, staleness, within, Bench, Unit, PATIENCE};
use super::plan::{self, LIMIT};
use super::restore::RestoreFile;
use super::scenario::{catalog, Kind, Need, Node, Scenario, Special};
use super::{checks, figures, findings, workload};
use duramen_reports::suite::{begin, conclude, Measured, Say, SuiteError};

/// The kind of scenario that needs a reader who is in the way for at least [`LEAST_WAIT`].
const CANCELLED_WAIT: Kind = Kind::Special(Special::CancelledWait);
/// Long enough to see a commit wait, and to cancel it.
const LEAST_WAIT: Duration = Duration::from_millis(500);

/// What the passes brought back.
#[derive(Debug, Default)]
pub struct Passes {
    /// Each scenario, in the order of their numbers.
    pub outcomes: Vec<Outcome>,
    /// Each level.
    pub staleness: Vec<Staleness>,
    /// What a reader should know about the run itself.
    pub notes: Vec<String>,
}

/// Runs the suite on a runtime of one thread: the load is not to take more of the machine than it must, because the
/// servers may be on it too.
pub(super) fn run(options: &Options, say: Say<'_>) -> Result<Measured, SuiteError> {
    let scenarios = chosen(options)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    runtime.block_on(whole(options, &scenarios, say))
}

/// The scenarios that are asked for.
pub(super) fn chosen(options: &Options) -> Result<Vec<&'static Scenario>, SuiteError> {
    let wanted = &options.scenarios;
    let known = |number: &u32| catalog().iter().any(|scenario| scenario.number == *number);
    if let Some(unknown) = wanted.iter().find(|number| !known(number)) {
        let all: Vec<String> = catalog().iter().map(|scenario| format!("S{}", scenario.number)).collect();
        return Err(SuiteError::Options(format!(
            "there is no scenario S{unknown}; there are {}",
            all.join(", ")
        )));
    }
    let is_chosen = |scenario: &&Scenario| match wanted.is_empty() {
        // A workload stands alone unless scenarios are named.
        true => !scenario.on_demand && options.workload.is_none(),
        false => wanted.contains(&scenario.number),
    };
    Ok(catalog().iter().filter(is_chosen).collect())
}

async fn whole(
    options: &Options,
    scenarios: &[&'static Scenario],
    say: Say<'_>,
) -> Result<Measured, SuiteError> {
    let mut interrupt = std::pin::pin!(interrupted());
    let mut evidence = begin(options, &options.dir, say)?;
    // Connection strings may hold passwords, and evidence is shown around.
    evidence.command.iter_mut().for_each(|word| *word = without_password(word));
    let seed = entropy::seed();
    evidence.configure("seed", seed);
    say(&format!("the seed is {seed}"));
    let earlier = RestoreFile::list(&options.home)?;
    let pair = tokio::select! {
        pair = Pair::open(options, say) => Some(pair?),
        () = &mut interrupt => None,
    };
    let Some(pair) = pair else {
        // What had been made so far has gone away with it, and its guardian has been waited for, but not for ever.
        let left = RestoreFile::list(&options.home)?.into_iter().find(|file| !earlier.contains(file));
        return Err(left.map_or(INTERRUPTED, interrupted_with));
    };
    // From here on the pair is closed whatever comes.
    let measured = tokio::select! {
        measured = async {
            describe(&pair, options, &mut evidence).await?;
            let Some(order) = &options.workload else {
                return Ok((measure(&pair, options, scenarios, seed, say).await?, None));
            };
            let mut ready = workload::Ready::make(&pair, order).await?;
            let mut brought = ready.measure(options, order, seed, say).await;
            if ready.crew().is_some() {
                let take = scenarios.iter().filter(|scenario| scenario.takes_any_load());
                let take: Vec<String> = take.map(|scenario| format!("S{}", scenario.number)).collect();
                evidence.configure("workload_in", take);
            }
            let passes = measure_with(&pair, options, scenarios, seed, say, ready.crew()).await;
            ready.remove(&mut brought).await?;
            Ok((passes?, Some(brought)))
        } => measured,
        lost = pair.lost() => Err(lost),
        () = &mut interrupt => Err(INTERRUPTED),
    };
    let measured = told_of_loss(&pair, measured).await;
    say("putting everything back");
    // What two other machines take is no target of the suite's.
    let ready = pair
        .ready_after()
        .map(|ready| (if pair.hosts().is_some() { "hosts_ready_s" } else { "pair_ready_s" }, ready));
    let (restored, detail, unrestored) = match pair.close().await {
        Ok((restored, detail)) => (restored, detail, None),
        Err(error) => (false, without_password(&error.to_string()), Some(error)),
    };
    let (measured, brought) = match measured {
        Ok(measured) => measured,
        // What is still changed on somebody's servers is worse than what was not measured.
        Err(error) => {
            return Err(match (unrestored, error) {
                (Some(unrestored), _) => unrestored,
                (None, SuiteError::Interrupted(_)) if !restored => {
                    SuiteError::Unrestored {
                        detail: format!(
                            "interrupted; what the run had changed has been put back, but not all is as it was found: \
                             {detail}"
                        ),
                        file: None,
                    }
                }
                (None, error) => error,
            })
        }
    };
    if let Some((name, ready)) = ready {
        evidence.measurements.push(Measurement::scalar(name, "s", ready.as_secs_f64()));
    }
    evidence.check("settings_restored", restored, detail);
    for note in measured.notes {
        evidence.find("not_measured", Severity::Warning, None, note);
    }
    let mut rng = entropy::rng(seed);
    figures::add(&measured.outcomes, &measured.staleness, options, &mut rng, &mut evidence);
    if let Some((brought, order)) = brought.as_ref().zip(options.workload.as_deref()) {
        workload::figures::add(brought, order, &mut rng, &mut evidence);
    }
    conclude(findings::of_document(&evidence), &mut evidence);
    Ok(Measured { page: None, unrestored, evidence })
}

/// What passes brought back, and what the workload did.
type All = (Passes, Option<workload::Brought>);

/// What failed because the pair was gone failed for that reason, which may be known a little later.
async fn told_of_loss(pair: &Pair, measured: Result<All, SuiteError>) -> Result<All, SuiteError> {
    let is_whole = match &measured {
        Ok((passes, brought)) => {
            passes.outcomes.iter().all(|outcome| outcome.failed.is_none())
                && brought.as_ref().is_none_or(|brought| brought.failed.is_none())
        }
        Err(error) => matches!(error, SuiteError::Interrupted(_)),
    };
    if is_whole || (pair.lent().is_none() && pair.hosts().is_none()) {
        return measured;
    }
    match pair.lost_lately().await {
        Some(lost) => Err(lost),
        None => measured,
    }
}

/// What is said when nothing is left of a run that was ended.
const INTERRUPTED: SuiteError = SuiteError::Interrupted("interrupted; what was changed has been put back");

fn interrupted_with(file: PathBuf) -> SuiteError {
    let detail = format!(
        "interrupted; not everything has been put back yet: {} says what is left\nits guardian may still be trying; run \
         `duramen lab restore` when both servers can be reached",
        file.display()
    );
    SuiteError::Unrestored { detail, file: Some(file) }
}

/// What was set for the run, and the servers' settings that figures depend on.
async fn describe(pair: &Pair, options: &Options, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let levels: Vec<&str> = options.levels().into_iter().map(|level| level.name()).collect();
    evidence.configure("levels", levels);
    evidence.configure("quick", options.quick);
    evidence.configure("repeats", options.repeats());
    evidence.configure("blocker_s", options.blocker().as_secs_f64());
    evidence.configure("block_s", options.block().as_secs_f64());
    evidence.configure("max_standby_streaming_delay_ms", options.max_standby_delay_ms);
    evidence.configure("rtt_ms", options.rtt_ms.clone());
    evidence.configure(
        "pair",
        match pair.lent() {
            Some(_) => "source",
            None if pair.hosts().is_some() => "hosts",
            None if pair.is_own() => "own",
            None => "given",
        },
    );
    if let Some(lent) = pair.lent() {
        evidence.configure("source", lent.source.clone());
        evidence.configure("generation", lent.generation);
        evidence.configure("data", lent.data.clone());
    }
    if let Some(hosts) = pair.hosts() {
        hosts.describe(evidence);
    }
    evidence.configure("server_major", pair.major());
    identify(pair, evidence).await?;
    evidence.configure(checks::OPTIONAL, pair.is_optional());
    for (node, name) in [(Node::Primary, "primary"), (Node::Standby, "standby")] {
        let client = pair.connect(node).await?;
        let sql = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY ($1) ORDER BY name";
        let doing = "read the settings";
        let rows = within(PATIENCE, doing, client.query(sql, &[&SETTINGS])).await?;
        let rows = rows.map_err(refused(doing, node))?;
        for row in rows {
            let (setting, value): (String, String) = (row.get(0), row.get(1));
            evidence.configure(format!("{name}.{setting}"), value);
        }
    }
    Ok(())
}

/// Which cluster it is, and how many standbys it has: runs of another one are no series with these. A pair of our own is a new
/// cluster each time, and alike.
async fn identify(pair: &Pair, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let client = pair.connect(Node::Primary).await?;
    let doing = "read what the cluster is";
    let sql = "SELECT (SELECT system_identifier::text FROM pg_control_system()),
                      (SELECT count(*) FROM pg_stat_replication WHERE application_name <> 'pg_basebackup')";
    let row = within(PATIENCE, doing, client.query_one(sql, &[])).await?;
    let row = row.map_err(refused(doing, Node::Primary))?;
    let (identifier, standbys): (String, i64) = (row.get(0), row.get(1));
    if !pair.is_own() && pair.hosts().is_none() {
        evidence.configure("system_identifier", identifier);
    }
    evidence.configure(
        "topology",
        format!("a primary and {}", counted(usize::try_from(standbys).unwrap_or(0), "standby")),
    );
    Ok(())
}

/// Settings that explain figures.
const SETTINGS: &[&str] = &[
    "server_version",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_level",
    "wal_compression",
    "wal_sync_method",
    "full_page_writes",
    "fsync",
    "data_checksums",
    "max_connections",
    "synchronous_standby_names",
    "hot_standby_feedback",
    "max_standby_streaming_delay",
    "recovery_prefetch",
    "wal_receiver_status_interval",
];

/// Measures scenarios on a pair: all of them once, then all of them again, as often as the options say and the time
/// allows. A scenario that fails is told as skipped, and the next one runs.
///
/// # Errors
/// When the servers are gone.
pub async fn measure(
    pair: &Pair,
    options: &Options,
    scenarios: &[&'static Scenario],
    seed: u64,
    say: Say<'_>,
) -> Result<Passes, SuiteError> {
    measure_with(pair, options, scenarios, seed, say, None).await
}

async fn measure_with(
    pair: &Pair,
    options: &Options,
    scenarios: &[&'static Scenario],
    seed: u64,
    say: Say<'_>,
    crew: Option<Arc<Crew>>,
) -> Result<Passes, SuiteError> {
    let bench = Bench { pair, options, seed: AtomicU64::new(seed.wrapping_add(1)), crew };
    let mut run = Run {
        bench: &bench,
        say,
        begin: clock::now(),
        rng: entropy::rng(seed),
        conditions: None,
        standing: None,
        done: Duration::ZERO,
        left: Duration::ZERO,
        took: Vec::new(),
        managed: Vec::new(),
    };
    run.whole(scenarios).await
}

/// A run under way.
struct Run<'a> {
    bench: &'a Bench<'a>,
    say: &'a (dyn Fn(&str) + Sync),
    begin: Instant,
    rng: fastrand::Rng,
    /// What the servers are set to.
    conditions: Option<Conditions>,
    /// Whose data are there.
    standing: Option<&'static Scenario>,
    /// Guesses, of passes that are over and of those to come.
    done: Duration,
    left: Duration,
    /// The longest repeat of each scenario so far.
    took: Vec<(u32, Duration)>,
    /// Conditions that are not measured, because somebody else manages the setting; with the reason.
    managed: Vec<(Conditions, String)>,
}

impl Run<'_> {
    async fn whole(&mut self, scenarios: &[&'static Scenario]) -> Result<Passes, SuiteError> {
        let options = self.bench.options;
        let new = |scenario: &&Scenario| Outcome {
            number: scenario.number,
            passes: Vec::new(),
            skipped: None,
            failed: None,
        };
        let mut measured = Passes { outcomes: scenarios.iter().map(new).collect(), ..Passes::default() };
        if scenarios.is_empty() {
            return Ok(measured);
        }
        for (scenario, outcome) in scenarios.iter().zip(&mut measured.outcomes) {
            outcome.skipped = self.lacks(scenario).await?;
        }
        let mut plan: Vec<(&'static Scenario, u32, Vec<Unit>)> = Vec::new();
        for repeat in 0..options.repeats() {
            for (scenario, outcome) in scenarios.iter().zip(&measured.outcomes) {
                if outcome.skipped.is_none() {
                    let units = plan::units(scenario, options, repeat, &mut self.rng);
                    self.left +=
                        plan::guess(scenario, options) * u32::try_from(units.len()).unwrap_or(u32::MAX);
                    plan.push((scenario, repeat, units));
                }
            }
        }
        (self.say)("reading on the standby right after commits");
        let conditions = plan.iter().flat_map(|(_, _, units)| units).map(|unit| unit.conditions);
        if let Some(plainest) = conditions.min_by_key(|at| (at.rtt_ms, at.feedback)) {
            // As near as the servers are to each other in this run. What cannot be set is told of the scenarios.
            match self.set(plainest).await {
                Err(SuiteError::Theirs(_)) => {}
                set => set?,
            }
        }
        match staleness::measure(self.bench).await {
            Ok(seen) => measured.staleness = seen,
            Err(error) => measured.notes.push(format!("How stale reads are was not measured: {error}")),
        }
        let mut cut = Vec::new();
        for (scenario, repeat, units) in plan {
            let Some(outcome) =
                measured.outcomes.iter_mut().find(|outcome| outcome.number == scenario.number)
            else {
                continue;
            };
            if outcome.skipped.is_some() || outcome.failed.is_some() {
                continue;
            }
            if !self.has_time(scenario, units.len()) {
                match repeat {
                    0 => outcome.skipped = Some("the time of the run was over".to_owned()),
                    _ => cut.push(format!("S{} ({} of {})", scenario.number, repeat, options.repeats())),
                }
                continue;
            }
            let begin = clock::now();
            if let Err(error) = self.repeat_of(scenario, &units, outcome).await {
                match error {
                    SuiteError::Theirs(_) => outcome.skipped = Some(error.to_string()),
                    _ => outcome.failed = Some(error.to_string()),
                }
                (self.say)(&format!("S{} was not measured to its end: {error}", scenario.number));
                if let Err(error) = self.clean_up().await {
                    measured
                        .notes
                        .push(format!("The run was given up, because the servers did not recover: {error}"));
                    break;
                }
            }
            self.took.push((scenario.number, begin.elapsed()));
        }
        self.tear_down(None).await;
        for outcome in &mut measured.outcomes {
            if outcome.passes.is_empty() && outcome.skipped.is_none() && outcome.failed.is_none() {
                outcome.skipped = Some("the run was given up before".to_owned());
            }
        }
        measured.notes.extend(self.managed.iter().map(|(conditions, reason)| {
            format!("Nothing was measured with {}: {reason}", in_words(*conditions))
        }));
        if !cut.is_empty() {
            measured.notes.push(format!(
                "The time of the run ({} min) did not suffice for all repeats: {}.",
                LIMIT.as_secs() / 60,
                cut.join(", ")
            ));
        }
        Ok(measured)
    }

    /// Whether another repeat would end in time, if it takes as long as the ones before; the first, as long as is guessed.
    fn has_time(&self, scenario: &Scenario, units: usize) -> bool {
        let before = self.took.iter().filter(|(number, _)| *number == scenario.number).map(|(_, took)| *took);
        let guess = plan::guess(scenario, self.bench.options) * u32::try_from(units).unwrap_or(u32::MAX);
        plan::has_time(self.begin.elapsed(), before.max(), guess.mul_f64(self.pace()))
    }

    /// How many times as long as guessed passes have taken so far.
    fn pace(&self) -> f64 {
        match self.done.is_zero() {
            true => 1.0,
            false => self.begin.elapsed().as_secs_f64() / self.done.as_secs_f64(),
        }
    }

    async fn repeat_of(
        &mut self,
        scenario: &'static Scenario,
        units: &[Unit],
        outcome: &mut Outcome,
    ) -> Result<(), SuiteError> {
        for unit in units {
            if let Some((_, reason)) = self.managed.iter().find(|(managed, _)| *managed == unit.conditions) {
                if outcome.passes.is_empty() {
                    outcome.skipped = Some(reason.clone());
                }
                continue;
            }
            (self.say)(&self.progress(scenario, *unit));
            match self.set(unit.conditions).await {
                // What others manage is left to them; the other conditions can be measured.
                Err(error @ SuiteError::Theirs(_)) => {
                    self.managed.push((unit.conditions, error.to_string()));
                    if outcome.passes.is_empty() {
                        outcome.skipped = Some(error.to_string());
                    }
                    continue;
                }
                set => set?,
            }
            outcome.skipped = None;
            self.set_up(scenario).await?;
            outcome.passes.push(pass::run(self.bench, scenario, *unit).await?);
            let guess = plan::guess(scenario, self.bench.options);
            self.done += guess;
            self.left = self.left.saturating_sub(guess);
        }
        Ok(())
    }

    fn progress(&self, scenario: &Scenario, unit: Unit) -> String {
        let mut what = format!("S{} {}", scenario.number, scenario.name);
        if pass::is_one_level_a_pass(scenario.kind) {
            what.push_str(&format!(", {}", unit.level));
        }
        if unit.conditions.feedback {
            what.push_str(", with feedback");
        }
        if unit.conditions.control {
            what.push_str(", the control");
        }
        if unit.conditions.rtt_ms > 0 {
            what.push_str(&format!(", {} ms away", unit.conditions.rtt_ms));
        }
        let repeats = self.bench.options.repeats();
        if repeats > 1 {
            what.push_str(&format!(", {} of {repeats}", unit.repeat + 1));
        }
        // What was guessed, put right by how wrong the guesses have been.
        let left = self.left.mul_f64(self.pace()).min(LIMIT.saturating_sub(self.begin.elapsed()));
        format!("{what} (about {} left)", rounded(left))
    }

    /// Sets what differs.
    async fn set(&mut self, conditions: Conditions) -> Result<(), SuiteError> {
        let before = self.conditions.take();
        if before.map(|before| before.feedback) != Some(conditions.feedback) {
            let value = if conditions.feedback { "on" } else { "off" };
            self.bench.pair.set(Node::Standby, "hot_standby_feedback", Some(value)).await?;
        }
        if before.map(|before| before.rtt_ms) != Some(conditions.rtt_ms) {
            self.bench.pair.set_rtt(Duration::from_millis(conditions.rtt_ms.into()))?;
        }
        self.conditions = Some(conditions);
        Ok(())
    }

    /// Makes the data of a pass: anew, or in a quick run cheaply from what is there.
    async fn set_up(&mut self, scenario: &'static Scenario) -> Result<(), SuiteError> {
        let names = Names::new(scenario, self.bench.options.quick);
        let fill = |texts: &[&str]| texts.iter().map(|sql| names.fill(sql)).collect::<Vec<_>>();
        let is_standing = self.standing.is_some_and(|standing| {
            let theirs = Names::new(standing, self.bench.options.quick);
            standing
                .setup
                .iter()
                .map(|sql| theirs.fill(sql))
                .eq(scenario.setup.iter().map(|sql| names.fill(sql)))
        });
        if self.bench.options.quick && is_standing && !scenario.reset.is_empty() {
            self.standing = Some(scenario);
            return run_on_primary(self.bench.pair, fill(scenario.reset)).await;
        }
        self.tear_down(Some(scenario)).await;
        for need in scenario.needs {
            if let Need::LogicalSlot(name) = need {
                self.bench.pair.record_slot(name).await?;
            }
        }
        self.standing = Some(scenario);
        run_on_primary(self.bench.pair, fill(scenario.setup)).await
    }

    /// Removes the data that are there, unless they are those of the same scenario, whose set-up does that.
    async fn tear_down(&mut self, unless: Option<&Scenario>) {
        let Some(standing) = self.standing else { return };
        if unless.is_some_and(|scenario| scenario.number == standing.number) && standing.needs.is_empty() {
            return;
        }
        self.standing = None;
        let names = Names::new(standing, self.bench.options.quick);
        for sql in standing.teardown {
            if let Err(error) = run_on_primary(self.bench.pair, vec![names.fill(sql)]).await {
                (self.say)(&format!("S{} was not removed: {error}", standing.number));
            }
        }
    }

    /// After a scenario that failed: ends our sessions, brings the standby back, and removes the data.
    async fn clean_up(&mut self) -> Result<(), SuiteError> {
        let pair = self.bench.pair;
        if pair.is_own() && pair.connect(Node::Standby).await.is_err() {
            pair.start_standby().await?;
        }
        for node in [Node::Primary, Node::Standby] {
            let client = pair.connect(node).await?;
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                       WHERE application_name = $1 AND datname = current_database()
                             AND pid <> pg_backend_pid()";
            let doing = "end the sessions of a scenario that failed";
            let ended = within(PATIENCE, doing, client.execute(sql, &[&APPLICATION_NAME])).await?;
            ended.map_err(refused(doing, node))?;
        }
        self.conditions = None;
        self.tear_down(None).await;
        Ok(())
    }

    /// What a scenario needs and is not there.
    async fn lacks(&self, scenario: &Scenario) -> Result<Option<String>, SuiteError> {
        let pair = self.bench.pair;
        let cut = self.bench.options.cuts_readers_after();
        if let Some(cut) = cut.filter(|cut| scenario.kind == CANCELLED_WAIT && *cut < LEAST_WAIT) {
            return Ok(Some(format!(
                "a max_standby_streaming_delay of {} ms leaves no time to cancel a commit that waits",
                cut.as_millis()
            )));
        }
        if matches!(scenario.kind, Kind::Special(_)) && pair.is_optional() {
            let text = "another standby may acknowledge commits instead (synchronous_standby_names names more than must), \
                        so that none has to wait for this one";
            return Ok(Some(text.to_owned()));
        }
        for need in scenario.needs {
            match need {
                Need::OwnPair if !pair.is_own() => {
                    return Ok(Some(
                        "it stops or breaks servers, and is only run on a pair of our own".to_owned(),
                    ));
                }
                Need::Tracer => {
                    if let Some(obstacle) = disk::no_tracer() {
                        return Ok(Some(obstacle));
                    }
                }
                Need::Namespace => {
                    if let Some(obstacle) = disk::no_namespace() {
                        return Ok(Some(obstacle));
                    }
                }
                Need::FrozenDisk => {
                    if let Some(obstacle) = disk::obstacle() {
                        return Ok(Some(obstacle));
                    }
                }
                Need::LogicalSlot(_) if !pair.has_logical_decoding() => {
                    return Ok(Some("it needs wal_level = logical and a free replication slot".to_owned()));
                }
                _ => {}
            }
        }
        let client = pair.connect(Node::Primary).await?;
        for extension in scenario.extensions {
            let sql = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)";
            let doing = format!("look for the extension {extension}");
            let found = within(PATIENCE, &doing, client.query_one(sql, &[extension])).await?;
            let found = found.map_err(refused(doing.clone(), Node::Primary))?;
            if !found.get::<_, bool>(0) {
                return Ok(Some(format!("the extension {extension} is not installed on the primary")));
            }
            run_on_primary(pair, vec![format!("CREATE EXTENSION IF NOT EXISTS {extension}")]).await?;
        }
        Ok(None)
    }
}

/// Conditions as one says them.
fn in_words(conditions: Conditions) -> String {
    let feedback = if conditions.feedback { "on" } else { "off" };
    let rtt = if conditions.rtt_ms > 0 { format!(", {} ms away", conditions.rtt_ms) } else { String::new() };
    format!("hot_standby_feedback {feedback}{rtt}")
}

/// A time as one says it.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}
