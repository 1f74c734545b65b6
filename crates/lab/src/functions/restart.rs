//! Kills of the worker and of the server, while clients start instances whose every step leaves a row in a ledger.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_functions::client::Client;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use tokio::task::JoinSet;

use super::bench::Bench;
use super::checks;
use super::error::database;
use super::ledger::Ledger;
use duramen_reports::suite::SuiteError;

/// Sessions that start instances.
const SESSIONS: usize = 4;
/// The pause of a session between two starts.
const PAUSE: Duration = Duration::from_millis(8);
/// The pause before a session that was cut off tries again.
const RECONNECT: Duration = Duration::from_millis(20);
/// The life of a worker between two kills, in milliseconds.
const WORKER_LIFE_MS: std::ops::Range<u64> = 50..400;
/// The life of a server between two kills, in milliseconds.
const SERVER_LIFE_MS: std::ops::Range<u64> = 300..1_200;
/// After the last kill everything has ended within this: a worker is believed dead only after a while.
const SETTLE: Duration = Duration::from_secs(60);

/// What stands for the instance's key in a graph.
const KEY: &str = "THE-KEY";
/// The kinds of instances: their weight, how many rows they write, and the SQL that makes them.
const KINDS: [(u64, u32, &str); 5] = [
    (4, 1, "df.sql(step(1))"),
    (6, 3, "df.seq(df.seq(step(1), step(2)), step(3))"),
    (4, 3, "df.join3(step(1), step(2), step(3))"),
    (4, 2, "df.seq(df.seq(step(1), df.sleep(0.05)), step(2))"),
    // Long enough to run on a connection of its own.
    (1, 1, "df.sql(slow(1))"),
];

/// One kind of instance, made.
struct Kind {
    weight: u64,
    steps: u32,
    graph: String,
}

/// What the sessions share.
struct Shared {
    url: String,
    kinds: Vec<Kind>,
    stop: AtomicBool,
    next: AtomicU64,
    /// The ids that clients were told.
    acknowledged: Mutex<Vec<String>>,
    cut_off: AtomicU64,
}

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    let shared = Arc::new(Shared {
        url: bench.url(),
        kinds: make_kinds(bench).await?,
        stop: AtomicBool::new(false),
        next: AtomicU64::new(0),
        acknowledged: Mutex::default(),
        cut_off: AtomicU64::new(0),
    });
    let seed = entropy::seed();
    evidence.configure("seed", seed.to_string());
    let mut rng = entropy::rng(seed);
    let mut running = JoinSet::new();
    for _ in 0..SESSIONS {
        running.spawn(start_over_and_over(Arc::clone(&shared), rng.fork()));
    }
    let mut ledger = Ledger::default();
    let mut restarts = Vec::new();
    for kill in 1..=bench.sizes.worker_kills {
        bench.say(&format!("killing the worker, {kill} of {}", bench.sizes.worker_kills));
        tokio::time::sleep(Duration::from_millis(rng.u64(WORKER_LIFE_MS))).await;
        if !bench.worker_runs() {
            bench.note_failure("the worker had ended by itself before it was killed".to_owned());
        }
        bench.worker_kill();
        let begin = clock::now();
        bench.worker_up().await?;
        restarts.push(clock::ms(begin.elapsed()));
        ledger.worker_kills += 1;
    }
    evidence.keep_blocks("worker_restart_ms", restarts.iter().map(|took| vec![*took]).collect());
    evidence.measurements.push(Measurement::from_values("worker_restart_ms", "ms", &restarts));
    let mut restarts = Vec::new();
    let mut gave_up = 0;
    for kill in 1..=bench.sizes.postgres_kills {
        bench.say(&format!("killing the server, {kill} of {}", bench.sizes.postgres_kills));
        tokio::time::sleep(Duration::from_millis(rng.u64(SERVER_LIFE_MS))).await;
        bench.server.kill();
        let begin = clock::now();
        bench.server.start()?;
        restarts.push(clock::ms(begin.elapsed()));
        ledger.postgres_kills += 1;
        if !bench.worker_runs() {
            gave_up += 1;
            bench.worker_up().await?;
        }
    }
    evidence.keep_blocks("postgres_restart_ms", restarts.iter().map(|took| vec![*took]).collect());
    evidence.measurements.push(Measurement::from_values("postgres_restart_ms", "ms", &restarts));
    // Some load after the last kill, too.
    tokio::time::sleep(Duration::from_millis(300)).await;
    shared.stop.store(true, Ordering::Relaxed);
    // A session that panicked has shown why.
    while running.join_next().await.is_some() {}
    if gave_up > 0 {
        let text = format!(
            "The worker ended {gave_up} times when its server was killed, and was started again. It should wait for \
             the server instead."
        );
        evidence.find("worker_gave_up", Severity::Problem, Some(f64::from(gave_up)), text);
    }
    bench.say("waiting for what the kills have left");
    let begin = clock::now();
    match bench.drained("what the kills have left", SETTLE).await {
        Ok(()) => {
            let settled = clock::ms(begin.elapsed());
            evidence.measurements.push(Measurement::scalar("settled_ms", "ms", settled));
        }
        // What has not ended is counted below as lost.
        Err(error) => evidence.find("not_settled", Severity::Problem, None, error.to_string()),
    }
    let cut_off = shared.cut_off.load(Ordering::Relaxed);
    evidence.configure("starts_cut_off", cut_off);
    let acknowledged =
        std::mem::take(&mut *shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
    read(bench, &acknowledged, &mut ledger).await?;
    evidence.measurements.push(Measurement::scalar("lost", "instances and effects", ledger.lost() as f64));
    evidence.measurements.push(Measurement::scalar("done_twice", "effects", ledger.doubled() as f64));
    evidence.checks.push(checks::nothing_lost(&ledger));
    evidence.checks.push(checks::nothing_twice(&ledger));
    Ok(())
}

/// Lets the schema make the graphs, with a placeholder for the key.
async fn make_kinds(bench: &Bench<'_>) -> Result<Vec<Kind>, SuiteError> {
    let maker = bench.clients(1).await?.remove(0);
    let mut kinds = Vec::new();
    for (weight, steps, sql) in KINDS {
        let mut sql = sql.to_owned();
        for step in 1..=steps {
            let write = format!("INSERT INTO public.ledger SELECT ''{KEY}'', {step}");
            sql = sql.replace(&format!("step({step})"), &format!("'{write}'"));
            sql = sql.replace(&format!("slow({step})"), &format!("'{write} FROM pg_sleep(0.15)'"));
        }
        let row = maker.raw().query_one(&format!("SELECT {sql}"), &[]).await;
        let graph = row.map_err(database("make a graph"))?.get(0);
        kinds.push(Kind { weight, steps, graph });
    }
    Ok(kinds)
}

/// One session: starts instances, and connects again when it is cut off.
async fn start_over_and_over(shared: Arc<Shared>, mut rng: fastrand::Rng) {
    let total: u64 = shared.kinds.iter().map(|kind| kind.weight).sum();
    let mut session: Option<Client> = None;
    while !shared.stop.load(Ordering::Relaxed) {
        let Some(client) = &session else {
            session = Client::connect(&shared.url).await.ok();
            if session.is_none() {
                tokio::time::sleep(RECONNECT).await;
            }
            continue;
        };
        let mut pick = rng.u64(0..total);
        let kind = shared.kinds.iter().find(|kind| {
            let here = pick < kind.weight;
            pick = pick.saturating_sub(kind.weight);
            here
        });
        let Some(kind) = kind else { continue };
        // Never used again, even if nobody knows what became of it.
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let key = format!("ledger/{}/{number}", kind.steps);
        match client.start(&kind.graph.replace(KEY, &key), Some(&key)).await {
            Ok(id) => {
                shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(id);
                tokio::time::sleep(PAUSE).await;
            }
            Err(_) => {
                // It may have been started or not: the list of instances tells.
                shared.cut_off.fetch_add(1, Ordering::Relaxed);
                session = None;
            }
        }
    }
}

/// Reads what came of it all.
async fn read(bench: &Bench<'_>, acknowledged: &[String], ledger: &mut Ledger) -> Result<(), SuiteError> {
    let inside = bench.inside().await?;
    let failed = || database("read the ledger");
    let rows = inside
        .query("SELECT id, status FROM df.instances WHERE label LIKE 'ledger/%'", &[])
        .await
        .map_err(failed())?;
    let there: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
    ledger.acknowledged = acknowledged.len() as u64;
    ledger.started = rows.len() as u64;
    ledger.completed = rows.iter().filter(|row| row.get::<_, String>(1) == "completed").count() as u64;
    ledger.vanished = acknowledged.iter().filter(|id| !there.contains(*id)).count() as u64;
    let row = inside
        .query_one(
            "WITH instance AS (
                SELECT label, split_part(label, '/', 2)::int AS steps FROM df.instances WHERE label LIKE 'ledger/%'
            ), expected AS (
                SELECT i.label, s.step FROM instance i CROSS JOIN LATERAL generate_series(1, i.steps) AS s(step)
            ), effect AS (
                SELECT instance, step, count(*) AS times FROM public.ledger GROUP BY instance, step
            )
            SELECT
                (SELECT count(*) FROM expected x WHERE NOT EXISTS (
                    SELECT FROM effect e WHERE e.instance = x.label AND e.step = x.step)),
                (SELECT coalesce(sum(e.times - 1), 0)::bigint FROM effect e),
                (SELECT coalesce(sum(e.times), 0)::bigint FROM effect e WHERE NOT EXISTS (
                    SELECT FROM expected x WHERE x.label = e.instance AND x.step = e.step))",
            &[],
        )
        .await
        .map_err(failed())?;
    let count = |column: usize| row.get::<_, i64>(column).unsigned_abs();
    (ledger.lost_effects, ledger.doubled_effects, ledger.strays) = (count(0), count(1), count(2));
    Ok(())
}
