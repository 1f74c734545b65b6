//! How the rate depends on how many turns a worker takes at once.

use std::time::Duration;

use duramen_measure::evidence::{Evidence, Measurement};

use super::bench::{Bench, TRIVIAL};
use super::load::{closed, Expect, Work};
use duramen_reports::suite::SuiteError;

/// How many lanes the worker has, one after the other.
const LANES: [usize; 5] = [1, 2, 10, 20, 40];
/// Sessions, enough for several turns at once.
const SESSIONS: usize = 32;
const DRAIN: Duration = Duration::from_secs(120);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let trivial = Work::new(TRIVIAL, Expect::Row);
    for lanes in LANES {
        bench.say(&format!("a worker with lanes: {lanes}"));
        bench.worker_up_with(Some(lanes)).await?;
        let waiter = bench.waiter().await?;
        let (tally, elapsed) =
            closed(&bench.clients(SESSIONS).await?, &waiter, &trivial, bench.sizes.slice).await;
        bench.note_failed(&format!("{lanes} lanes"), &tally);
        bench.drained("the end of a rung", DRAIN).await?;
        let per_s = tally.completed as f64 / elapsed.as_secs_f64().max(1e-9);
        evidence.measurements.push(Measurement::scalar(
            format!("completed_per_s/lanes={lanes}"),
            "1/s",
            per_s,
        ));
        evidence
            .measurements
            .push(Measurement::from_histogram(format!("end_to_end_ms/lanes={lanes}"), &tally.latencies));
    }
    // The next phase has a worker as it is by default.
    bench.worker_down().await
}
