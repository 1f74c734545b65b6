//! A rehearsal from its lease to its report. The states and the invariants are in `docs/design/rehearse.md`.

use crate::{
    error::RehearseError,
    figures::{self, Described, Times},
    findings,
    load::{self, Load, Processes, Records},
    migration::{self, Ending, Ran},
    options::{Options, Prepared},
    plans::{self, Plan, QueryPlans},
    relations::{Relations, What},
    report::{Gate, Looks, Migration, Outcome, Report, Wal, SCHEMA},
    sampler::{Sampler, INTERVAL, OURS},
    secrets::Secrets,
    watch::Watch,
};
use duramen_api::model::{CreateBranch, Policy, SchemaDiff};
use duramen_base::clock::{self, ms};
use duramen_client::{
    run::{Fate, Leased, Signals},
    Client, ClientError,
};
use duramen_postgres::connection::Target;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::PoisonError,
    time::Duration,
};
use tokio::time::sleep;

/// How long one request to the daemon may take, and a comparison of definitions.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
pub(crate) const COMPARISON_LIMIT: Duration = Duration::from_secs(300);
/// How long sessions that are no longer needed may take to end: they count what they did at their end.
const GONE_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// Settings of the server that decide what a migration costs, or that differ in branches.
const SETTINGS: [&str; 12] = [
    "server_version",
    "wal_level",
    "fsync",
    "autovacuum",
    "max_parallel_maintenance_workers",
    "max_worker_processes",
    "shared_buffers",
    "maintenance_work_mem",
    "work_mem",
    "random_page_cost",
    "effective_cache_size",
    "jit",
];

/// What happens meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// What is being done now.
    Step(&'a str),
    /// What the migration prints.
    Output(&'a [u8]),
}

/// Rehearses a migration, and tells what it did.
///
/// # Errors
/// [`RehearseError`]; the branch is given back then.
pub async fn rehearse(
    client: &Client,
    options: Options,
    mut on_event: impl FnMut(Event<'_>),
) -> Result<Report, RehearseError> {
    on_event(Event::Step("reading what is to be run"));
    let prepared = options.prepare()?;
    let client = client.clone().with_deadline(REQUEST_LIMIT);
    let listening = Signals::listen();
    let mut signals =
        listening.map_err(|source| RehearseError::Process { doing: "listen for signals", source })?;
    on_event(Event::Step("waiting for a branch"));
    let request =
        CreateBranch { source: options.source.clone(), policy: Some(Policy::Ddl), ..CreateBranch::default() };
    let leasing = async { Ok(Leased::take(&client, request, options.ttl_s).await?) };
    let branch = or_signal(&mut signals, leasing).await?;
    let (fate, report) = {
        let work = Work { client: &client, options: &options, branch: &branch };
        let report = match options.pg {
            Some(pg) => work.upgrade(pg, &prepared, &mut signals, &mut on_event).await,
            None => work.run(prepared, &mut signals, &mut on_event).await,
        };
        // Of an upgrade it is the other branch that is kept.
        let keep = options.keep && report.is_ok() && options.pg.is_none();
        on_event(Event::Step("giving the branch back"));
        (branch.give_back(keep).await, report)
    };
    let report = report?;
    Ok(if options.pg.is_some() { report } else { Report { fate, ..report } })
}

/// Works until a signal comes.
pub(crate) async fn or_signal<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, RehearseError>>,
) -> Result<T, RehearseError> {
    tokio::select! {
        done = work => done,
        signal = signals.next() => Err(RehearseError::Ended(signal)),
    }
}

pub(crate) struct Work<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a Options,
    pub(crate) branch: &'a Leased,
}

/// What was there before the migration.
pub(crate) struct Before {
    probe: tokio_postgres::Client,
    pub(crate) server: BTreeMap<String, String>,
    pub(crate) relations: Relations,
    pub(crate) plans: Vec<Plan>,
}

/// What happened meanwhile.
struct Happened {
    times: Times,
    ran: Ran,
    watch: Watch,
    not_seen: Option<RehearseError>,
    records: Option<Records>,
    /// Write positions: when the load began, at the beginning and at the end of the migration.
    positions: [i64; 3],
}

impl Work<'_> {
    async fn run(
        &self,
        mut prepared: Prepared,
        signals: &mut Signals,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Report, RehearseError> {
        let started_at = clock::utc_now();
        let target = Target::parse(&self.branch.url())?;
        let recording = prepared.recording(target.database_name())?;
        let plan = self.options.work(&prepared, recording.as_ref());
        let described = plan.as_ref().map(|_| self.options.described(&prepared, recording.as_deref()));
        on_event(Event::Step("looking at the branch before the migration"));
        let before = or_signal(signals, self.look_before(&target, &prepared.queries)).await?;
        let happened = self.migrate(plan, &target, &before, signals, on_event).await?;
        on_event(Event::Step("looking at the branch after the migration"));
        let looking = async {
            let relations = Relations::read(&before.probe).await?;
            let plans = self.plans(&target, &prepared.queries).await?;
            Ok((relations, plans, self.definitions().await))
        };
        let (relations, plans, definitions) = or_signal(signals, looking).await?;
        let queries = prepared.queries.iter().zip(before.plans.iter().zip(plans));
        let queries =
            queries.map(|(sql, (before, after))| QueryPlans::new(sql.clone(), before.clone(), after));
        let queries = queries.collect();
        let report = self.report(started_at, described, &before, &relations, queries, definitions, happened);
        Ok(Secrets::of(self.branch).strike_out(report))
    }

    pub(crate) async fn look_before(
        &self,
        target: &Target,
        queries: &[String],
    ) -> Result<Before, RehearseError> {
        let probe = target.clone().application_name("duramen rehearse: probe").settings(OURS);
        let probe = probe.connect().await?;
        let names: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
        let rows = probe
            .query(
                "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE name = ANY ($1)",
                &[&names],
            )
            .await
            .map_err(RehearseError::query("read settings of the branch's server"))?;
        let server = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let before = processes_of(&probe).await?;
        let plans = self.plans(target, queries).await?;
        // What they counted, rolled back or not, is not the migration's.
        if !queries.is_empty() {
            until_gone(&probe, |process| !before.contains(process)).await?;
        }
        let relations = Relations::read(&probe).await?;
        Ok(Before { probe, server, relations, plans })
    }

    async fn plans(&self, target: &Target, queries: &[String]) -> Result<Vec<Plan>, RehearseError> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = target.clone().application_name("duramen rehearse: queries").connect().await?;
        let mut plans = Vec::new();
        for sql in queries {
            plans.push(plans::explain(&mut session, sql, self.options.query_limit).await?);
        }
        Ok(plans)
    }

    async fn definitions(&self) -> Result<SchemaDiff, ClientError> {
        let mut connection = self.client.connect().await?;
        connection.set_deadline(COMPARISON_LIMIT);
        connection.schema_diff(&self.branch.view().name, None).await
    }

    async fn migrate(
        &self,
        plan: Option<load::Plan>,
        target: &Target,
        before: &Before,
        signals: &mut Signals,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Happened, RehearseError> {
        let began = clock::now();
        let processes = Processes::default();
        let starting = async {
            let known = processes_of(&before.probe).await?;
            let asked = before.probe.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await;
            let probe = asked.map_err(RehearseError::query("read the sessions of the branch"))?.get(0);
            let sampler = Sampler::begin(target, began, &processes, known, [probe].into()).await?;
            let load = match plan {
                Some(plan) => Some(Load::begin(plan, target, began, &processes).await?),
                None => None,
            };
            Ok((sampler, load))
        };
        let (sampler, load) = or_signal(signals, starting).await?;
        let load_began = began.elapsed();
        let mut positions = [position(&before.probe).await?; 3];
        if load.is_some() {
            on_event(Event::Step("the load runs alone, before the migration"));
            or_signal(signals, pause(self.options.before)).await?;
        }
        on_event(Event::Step("the migration runs"));
        positions[1] = position(&before.probe).await?;
        let migration_began = began.elapsed();
        sampler.migration_begins(migration_began);
        let output = |piece: &[u8]| on_event(Event::Output(piece));
        let ran = migration::run(&self.options.command, self.branch, self.options.deadline, signals, output)
            .await?;
        let migration_ended = began.elapsed();
        if ran.ending == Ending::Deadline {
            or_signal(signals, end_sessions(&before.probe, sampler.migration())).await?;
        }
        positions[2] = position(&before.probe).await?;
        let mut records = None;
        let mut load_ended = migration_ended;
        if let Some(load) = load {
            on_event(Event::Step("the load runs alone, after the migration"));
            or_signal(signals, pause(self.options.after)).await?;
            load_ended = began.elapsed();
            records = Some(or_signal(signals, async { Ok(load.end().await) }).await?);
        }
        let ending = async {
            let load = processes.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_one = |process: &i32| load.contains_key(process) || sampler.migration().contains(process);
            until_gone(&before.probe, is_one).await?;
            Ok(sampler.end().await)
        };
        let (watch, not_seen) = or_signal(signals, ending).await?;
        let times = Times { load_began, began: migration_began, ended: migration_ended, load_ended };
        Ok(Happened { times, ran, watch, not_seen, records, positions })
    }

    #[allow(clippy::too_many_arguments, reason = "each is a part of the report")]
    fn report(
        &self,
        started_at: jiff::Timestamp,
        described: Option<Described>,
        before: &Before,
        after: &Relations,
        queries: Vec<QueryPlans>,
        definitions: Result<SchemaDiff, ClientError>,
        happened: Happened,
    ) -> Report {
        let Happened { times, ran, watch, not_seen, records, positions } = happened;
        let locks = figures::locks(&watch, &before.relations, &times);
        let load = records.as_ref().zip(described);
        let load = load.map(|(records, described)| figures::load(records, described, &watch, &times));
        let relations = before.relations.changes(after);
        let measured_ms = match &load {
            Some(load) => load.longest_wait_ms,
            None => locks.iter().map(figures::TableLocks::kept_out_ms).fold(0.0, f64::max),
        };
        let gate = self.options.max_lock_wait.map(|limit| Gate {
            max_lock_wait_ms: ms(limit),
            measured_ms,
            passed: measured_ms <= ms(limit),
        });
        let view = self.branch.view();
        let (definitions, definitions_unknown) = match definitions {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let new_files = relations.iter().filter(|it| matches!(it.what, What::Rewritten | What::Created));
        let is_minimal = before.server.get("wal_level").is_some_and(|level| level == "minimal");
        let unlogged_bytes =
            if is_minimal { new_files.map(|relation| relation.bytes_after).sum() } else { 0 };
        let migration = Migration {
            command: self.options.command.clone(),
            ending: ran.ending,
            duration_ms: ms(times.ended.saturating_sub(times.began)),
            output: lines(&ran.tail),
            is_output_cut: ran.is_cut,
            statements: figures::statements(&watch, &times),
            waits: figures::own_waits(&watch, &before.relations, &times),
        };
        let report = Report {
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
            migration,
            upgrade: None,
            gate,
            findings: Vec::new(),
            locks,
            relations,
            wal: wal(positions, unlogged_bytes, &times),
            load,
            queries,
            definitions,
            definitions_unknown,
            looks: Looks {
                count: watch.looks,
                interval_ms: ms(INTERVAL),
                longest_gap_ms: watch.longest_gap as f64 / 1e3,
                is_cut: watch.is_cut || before.relations.is_cut || after.is_cut,
                error: not_seen.map(|error| error.to_string()),
            },
        };
        let findings = findings::of(&report);
        Report { findings, ..report }.judged()
    }
}

async fn pause(span: Duration) -> Result<(), RehearseError> {
    sleep(span).await;
    Ok(())
}

/// The log that was written meanwhile, and what of it is the load's by its rate before.
fn wal([first, begin, end]: [i64; 3], unlogged_bytes: u64, times: &Times) -> Wal {
    let bytes = u64::try_from(end - begin).unwrap_or_default();
    let alone_s = times.began.saturating_sub(times.load_began).as_secs_f64();
    let rate = if alone_s > 0.1 { (begin - first).max(0) as f64 / alone_s } else { 0.0 };
    let load_bytes = (rate * times.ended.saturating_sub(times.began).as_secs_f64()) as u64;
    Wal { bytes, load_bytes: load_bytes.min(bytes), unlogged_bytes }
}

async fn position(probe: &tokio_postgres::Client) -> Result<i64, RehearseError> {
    let asked =
        "SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0')::pg_catalog.int8";
    let row = probe.query_one(asked, &[]).await;
    Ok(row.map_err(RehearseError::query("read the write position of the branch"))?.get(0))
}

async fn processes_of(probe: &tokio_postgres::Client) -> Result<BTreeSet<i32>, RehearseError> {
    let rows = probe.query("SELECT pid FROM pg_catalog.pg_stat_activity", &[]).await;
    let rows = rows.map_err(RehearseError::query("read the sessions of the branch"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Ends what a command that was killed left behind in the server.
async fn end_sessions(probe: &tokio_postgres::Client, processes: Vec<i32>) -> Result<(), RehearseError> {
    let ended = probe
        .query(
            "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = ANY ($1)",
            &[&processes],
        )
        .await;
    ended.map(drop).map_err(RehearseError::query("end the sessions of the migration"))
}

/// Waits until sessions have ended, so that their counters count; not for long.
async fn until_gone(
    probe: &tokio_postgres::Client,
    mut is_one: impl FnMut(&i32) -> bool,
) -> Result<(), RehearseError> {
    let begin = clock::now();
    while processes_of(probe).await?.iter().any(&mut is_one) && begin.elapsed() < GONE_LIMIT {
        sleep(POLL).await;
    }
    Ok(())
}

/// Output as lines, of which only the last state of a line that was written over counts.
pub(crate) fn lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let line = |line: &str| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default().to_owned();
    text.lines().map(line).collect()
}
