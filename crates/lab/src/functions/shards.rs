//! What an instance costs where there are several shards: four databases of one server beside one.
//!
//! The load is paced. A machine that is full gives each of four shards a quarter of what it has, and then a turn is shared by a
//! quarter of the instances: that compares rates, and not shards. So each shard is given the same rate, whatever their number; and
//! beside it stands what it costs to divide one rate among four.

use std::sync::Arc;
use std::time::Duration;

use duramen_functions::client::{Client, Waiter};
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use tokio::task::JoinSet;

use super::bench::{Bench, TRIVIAL};
use super::counters::Counters;
use super::load::{paced, Expect, Tally, Work};
use duramen_reports::suite::SuiteError;

/// A cluster of one shard, and one of four.
const ONE: [&str; 1] = ["one"];
const FOUR: [&str; 4] = ["four0", "four1", "four2", "four3"];
/// Instances a second of one shard. Four times as many take about a third of two processors.
const RATE: f64 = 75.0;
/// Sessions on each shard.
const SESSIONS: usize = 8;
/// Each setting is measured so often, in turns.
const ROUNDS: usize = 5;

/// A cluster under a load.
struct Setting {
    /// As measurements name it.
    name: &'static str,
    shards: &'static [&'static str],
    /// Instances a second of each shard.
    per_s: f64,
}

const SETTINGS: [Setting; 3] = [
    Setting { name: "shards=1,rate=75", shards: &ONE, per_s: RATE },
    Setting { name: "shards=4,rate=75 each", shards: &FOUR, per_s: RATE },
    Setting { name: "shards=1,rate=300", shards: &ONE, per_s: 4.0 * RATE },
];

/// What a round of one setting has shown, an instance.
#[derive(Clone, Copy)]
struct Round {
    /// Processor time in microseconds: of the server, the worker, and the clients.
    cpu_us: [f64; 3],
    transactions: f64,
    log_records: f64,
    log_bytes: f64,
    /// From when it was due to its result, in the middle.
    median_ms: f64,
}

impl Round {
    fn cpu_us(&self) -> f64 {
        self.cpu_us.iter().sum()
    }
}

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_down().await?;
    bench.say("making clusters of one and of four shards");
    bench.cluster(&ONE).await?;
    bench.cluster(&FOUR).await?;
    let mut rounds: [Vec<Round>; 3] = Default::default();
    for round in 1..=ROUNDS {
        // The seed is the round's: each shard gets its instances at the same times as in the other settings.
        for (setting, rounds) in SETTINGS.iter().zip(&mut rounds) {
            bench.say(&format!("{} a second ({round} of {ROUNDS})", setting.name));
            rounds.push(run(bench, setting, round as u64).await?);
        }
    }
    for (setting, rounds) in SETTINGS.iter().zip(&rounds) {
        note(evidence, setting.name, rounds);
    }
    // What happens to the machine meanwhile happens to both of a round.
    let over = |below: &[Round]| -> Vec<f64> {
        let pairs = rounds[1].iter().zip(below);
        pairs.map(|(four, one)| four.cpu_us() / one.cpu_us().max(1e-9)).collect()
    };
    for (name, below) in
        [("cpu_four_over_one/same rate a shard", 0), ("cpu_four_over_one/same rate together", 2)]
    {
        evidence.measurements.push(Measurement::from_values(name.to_owned(), "x", &over(&rounds[below])));
    }
    let text = format!(
        "A load of a rate, not of sessions that wait: {RATE} instances a second of each shard, and {} of one shard. Processor time is \
         that of all processes of the server, of the worker and of the clients, divided by the instances; a process that idles \
         between two instances is in it. Transactions and the log are counted from before the worker begins until it has ended.",
        4.0 * RATE
    );
    evidence.find("how_shards_were_measured", Severity::Info, None, text);
    // The next phase has a worker as it is by default.
    bench.worker_down().await
}

fn note(evidence: &mut Evidence, name: &str, rounds: &[Round]) {
    let mut push = |figure: &str, unit: &str, of: &dyn Fn(&Round) -> f64| {
        let values: Vec<f64> = rounds.iter().map(of).collect();
        evidence.measurements.push(Measurement::from_values(format!("{figure}/{name}"), unit, &values));
    };
    push("cpu_us_per_instance", "us", &Round::cpu_us);
    for (index, part) in ["postgres", "worker", "clients"].into_iter().enumerate() {
        push(&format!("cpu_us_per_instance_of_{part}"), "us", &|round: &Round| round.cpu_us[index]);
    }
    push("transactions_per_instance", "transactions", &|round: &Round| round.transactions);
    push("wal_records_per_instance", "records", &|round: &Round| round.log_records);
    push("wal_bytes_per_instance", "bytes", &|round: &Round| round.log_bytes);
    push("end_to_end_ms", "ms", &|round: &Round| round.median_ms);
}

/// A load on each shard of a cluster, with one worker of all of them.
async fn run(bench: &mut Bench<'_>, setting: &Setting, seed: u64) -> Result<Round, SuiteError> {
    bench.worker_down().await?;
    let counted = Counters::of(bench, setting.shards).await?;
    bench.worker_of_cluster(setting.shards[0]).await?;
    let mut sessions = Vec::new();
    for name in setting.shards {
        sessions.push(bench.clients_of(name, SESSIONS).await?);
    }
    let slice = bench.sizes.slice;
    // What a first turn makes ready is not an instance's.
    let warm = load(&sessions, setting.per_s, slice / 5, seed).await;
    let before = bench.cpu_times();
    let tallies = load(&sessions, setting.per_s, slice, seed).await;
    let after = bench.cpu_times();
    for (tally, name) in tallies.iter().zip(setting.shards) {
        bench.note_failed(&format!("shard {name}"), tally);
    }
    drop(sessions);
    bench.worker_down().await?;
    let then = Counters::of(bench, setting.shards).await?;
    let completed = |tallies: &[Tally]| tallies.iter().map(|tally| tally.completed).sum::<u64>() as f64;
    let measured = completed(&tallies).max(1.0);
    let all = measured + completed(&warm);
    let medians: Vec<f64> =
        tallies.iter().map(|tally| tally.latencies.quantile(0.5).as_secs_f64() * 1e3).collect();
    Ok(Round {
        cpu_us: [0, 1, 2].map(|part| after[part].saturating_sub(before[part]).as_secs_f64() * 1e6 / measured),
        transactions: (then.commits + then.rollbacks - counted.commits - counted.rollbacks) as f64 / all,
        log_records: (then.log_records - counted.log_records) as f64 / all,
        log_bytes: (then.log_bytes - counted.log_bytes) as f64 / all,
        median_ms: medians.iter().sum::<f64>() / medians.len().max(1) as f64,
    })
}

/// Sessions of one shard, and who waits for them.
type Sessions = (Vec<Arc<Client>>, Arc<Waiter>);

/// The same rate on all shards at once. Their instances do not come at the same times.
async fn load(shards: &[Sessions], per_s: f64, how_long: Duration, seed: u64) -> Vec<Tally> {
    let mut running = JoinSet::new();
    for (index, (clients, waiter)) in (0_u64..).zip(shards) {
        let (clients, waiter) = (clients.clone(), Arc::clone(waiter));
        running.spawn(async move {
            let work = Work::new(TRIVIAL, Expect::Row);
            (index, paced(&clients, &waiter, &work, per_s, how_long, seed << 8 | index).await)
        });
    }
    let mut tallies = running.join_all().await;
    tallies.sort_by_key(|(index, _)| *index);
    tallies.into_iter().map(|(_, tally)| tally).collect()
}
