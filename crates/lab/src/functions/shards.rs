//! What an instance costs where there are several shards: four databases of one server beside one, with the same load on each.

use std::sync::Arc;
use std::time::Duration;

use duramen_functions::client::{Client, Waiter};
use duramen_measure::evidence::{Evidence, Measurement};
use tokio::task::JoinSet;

use super::bench::{Bench, TRIVIAL};
use super::load::{closed, Expect, Tally, Work};
use duramen_reports::suite::SuiteError;

/// A cluster of one shard, and one of four.
const ONE: [&str; 1] = ["one"];
const FOUR: [&str; 4] = ["four0", "four1", "four2", "four3"];
/// Sessions on each shard.
const SESSIONS: usize = 8;
/// Both are measured so often, in turns.
const ROUNDS: usize = 4;

/// What a round has shown.
struct Round {
    cpu_us: f64,
    per_s: f64,
}

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_down().await?;
    bench.say("making clusters of one and of four shards");
    bench.cluster(&ONE).await?;
    bench.cluster(&FOUR).await?;
    let (mut one, mut four) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        bench.say(&format!("one shard, then four ({round} of {ROUNDS})"));
        one.push(run(bench, &ONE).await?);
        four.push(run(bench, &FOUR).await?);
    }
    let median = |rounds: &[Round]| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round.cpu_us).collect();
        values.sort_by(f64::total_cmp);
        (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
    };
    for (name, rounds) in [("1", &one), ("4", &four)] {
        let of = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
        evidence.measurements.push(Measurement::from_values(
            format!("cpu_us_per_instance/shards={name}"),
            "us",
            &of(|round| round.cpu_us),
        ));
        evidence.measurements.push(Measurement::from_values(
            format!("completed_per_s/shards={name}"),
            "1/s",
            &of(|round| round.per_s),
        ));
    }
    let over = median(&four) / f64::max(median(&one), 1e-9);
    evidence.measurements.push(Measurement::scalar("cpu_four_over_one_shard", "x", over));
    // The next phase has a worker as it is by default.
    bench.worker_down().await
}

/// The same load on each shard of a cluster, with one worker of all of them: the processor time of server and worker an instance.
async fn run(bench: &mut Bench<'_>, shards: &[&str]) -> Result<Round, SuiteError> {
    bench.worker_of_cluster(shards[0]).await?;
    let mut sessions = Vec::new();
    for name in shards {
        sessions.push(bench.clients_of(name, SESSIONS).await?);
    }
    let slice = bench.sizes.slice;
    // What a first turn makes ready is not an instance's.
    load(&sessions, slice / 5).await;
    let before = bench.cpu_times();
    let (tallies, elapsed) = load(&sessions, slice).await;
    let after = bench.cpu_times();
    let completed: u64 = tallies.iter().map(|tally| tally.completed).sum();
    for (tally, name) in tallies.iter().zip(shards) {
        bench.note_failed(&format!("shard {name}"), tally);
    }
    let used: Duration = (0..2).map(|part| after[part].saturating_sub(before[part])).sum();
    let completed = f64::max(completed as f64, 1.0);
    Ok(Round {
        cpu_us: used.as_secs_f64() * 1e6 / completed,
        per_s: completed / elapsed.as_secs_f64().max(1e-9),
    })
}

/// Sessions of one shard, and who waits for them.
type Sessions = (Vec<Arc<Client>>, Arc<Waiter>);

/// Closed loops on all shards at once.
async fn load(shards: &[Sessions], how_long: Duration) -> (Vec<Tally>, Duration) {
    let mut running = JoinSet::new();
    for (clients, waiter) in shards {
        let (clients, waiter) = (clients.clone(), waiter.clone());
        running.spawn(
            async move { closed(&clients, &waiter, &Work::new(TRIVIAL, Expect::Row), how_long).await },
        );
    }
    let mut tallies = Vec::new();
    let mut longest = Duration::ZERO;
    for (tally, elapsed) in running.join_all().await {
        tallies.push(tally);
        longest = longest.max(elapsed);
    }
    (tallies, longest)
}
